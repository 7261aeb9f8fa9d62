"""Compares figures of Nsight Systems with those of CUPTI. CUPTI recorded a pass on an H200 (tests/data/trace). If that
pass is written as an export of Nsight Systems and imported, it gives the figures of rtfx's own collector."""

import gzip
import json
import sqlite3

import pytest
from conftest import ROOT, strict_records

TRACE = ROOT / "tests/data/trace"
REGIONS, CALLS, KERNELS, COPIES = range(4)  # kinds of tracks (harness/profile/nsight_export.cpp)
COPY_KINDS = {"copy host to device": 1, "copy device to host": 2, "copy device to device": 8}


def track(number):
    return (REGIONS, CALLS, KERNELS, COPIES)[sum(number >= first for first in (10, 1000, 2000))]


class Export:
    """Writes a session in the tables of Nsight Systems."""

    def __init__(self, path):
        self.database = sqlite3.connect(path)
        self.database.executescript((ROOT / "tests/data/nsight_systems.sql").read_text())
        self.database.execute("INSERT INTO TARGET_INFO_GPU (vmId, id, name) VALUES (0, 0, 'NVIDIA H200')")
        self.strings = {}

    def string(self, text):
        return self.strings.setdefault(text, len(self.strings))

    def row(self, table, time, **values):
        columns = [row[1] for row in self.database.execute(f"PRAGMA table_info({table})")]
        every = dict.fromkeys(columns, 0) | {"graphNodeId": None} | values
        every |= {"start": time[0], "end": time[1], "globalTid": 1}
        marks = ", ".join("?" * len(columns))
        self.database.execute(f"INSERT INTO {table} VALUES ({marks})", [every[column] for column in columns])

    def range(self, name, time):
        self.row("NVTX_EVENTS", time, eventType=59, textId=self.string(name))

    def case(self, name, events):
        """Adds the events of a case. The range of the case holds the range `round`, which holds all ranges of the
        lap."""
        whole = (events[0]["time"][0], max(event["time"][1] for event in events))
        self.range(name, whole)
        self.range("round", whole)
        # The trace does not mark kernels of graphs, so all kernels of a region that launches a graph count as such.
        begins = [event["time"][0] for event in events if "GraphLaunch" in event["name"]]
        regions = [event["time"] for event in events if track(event["tid"]) == REGIONS]
        with_graph = [time for time in regions if any(time[0] <= begin < time[1] for begin in begins)]
        for event in events:
            kind, text, stream = track(event["tid"]), event["name"], event["tid"] % 1000
            if kind == REGIONS:
                self.range(text, event["time"])
            elif kind == CALLS:
                self.row("CUPTI_ACTIVITY_KIND_RUNTIME", event["time"], nameId=self.string(text))
            elif kind == KERNELS:
                node = 1 if any(time[0] <= event["time"][0] < time[1] for time in with_graph) else None
                self.row("CUPTI_ACTIVITY_KIND_KERNEL", event["time"], demangledName=self.string(text), streamId=stream,
                         graphNodeId=node)  # fmt: skip
            elif text == "memset":
                self.row("CUPTI_ACTIVITY_KIND_MEMSET", event["time"], bytes=event["args"]["bytes"], streamId=stream)
            else:
                self.row("CUPTI_ACTIVITY_KIND_MEMCPY", event["time"], bytes=event["args"]["bytes"],
                         copyKind=COPY_KINDS[text], streamId=stream)  # fmt: skip

    def write(self):
        self.database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(i, text) for text, i in self.strings.items()])
        self.database.commit()


def traced():
    """Returns {case: events}, where each event has its `time` in ns."""
    with gzip.open(TRACE / "trace.json.gz") as file:
        trace = json.load(file)
    assert trace["otherData"]["left_out_events"] == 0
    names, cases = {}, {}
    for event in trace["traceEvents"]:
        if event["name"] == "process_name":
            names[event["pid"]] = event["args"]["name"]
        if event["ph"] == "X":
            begin = round(1000 * event["ts"])
            event["time"] = (begin, begin + round(1000 * event["dur"]))
            cases.setdefault(names[event["pid"]], []).append(event)
    return cases


@pytest.fixture(scope="module")
def profiles(rtfx, tmp_path_factory):
    """Returns {case: (imported figures, figures of CUPTI)}."""
    folder = tmp_path_factory.mktemp("equal")
    export = Export(folder / "nsys.sqlite")
    for name, events in traced().items():
        export.case(name, events)
    export.write()
    result = rtfx("profile", "import", folder / "nsys.sqlite", "--top", 999, "--output", folder / "run")
    assert result.returncode == 0, result.stderr
    ours, theirs = ({record["case"]: record["regions"] for record in strict_records(path) if record["kind"] == "profile"}
                    for path in (TRACE / "profile.jsonl", folder / "run/profile.jsonl"))  # fmt: skip
    assert ours.keys() == theirs.keys() and len(ours) == 4
    return {case: (theirs[case], ours[case]) for case in ours}


def test_times_are_those_of_the_first_lap(profiles):
    """Imported times are those of the first lap. A phase ends with the harness's wait, some 50 ns after our own log."""
    for imported, ours in profiles.values():
        assert imported.keys() == ours.keys()
        for region, figures in imported.items():
            tolerance = 2e-7 if region.startswith("decode.") else 1e-9
            assert figures["lap_seconds"] == [pytest.approx(ours[region]["lap_seconds"][0], abs=tolerance)], region
            kernels = ours[region]["lap_kernel_seconds"][0]
            assert figures["lap_kernel_seconds"] == [pytest.approx(kernels, abs=1e-9)], region


@pytest.mark.parametrize("key", ["kernels", "launches", "graph_launches", "copies", "copied_bytes", "synchronizations"])
def test_counts_are_a_third_of_those_of_three_laps(profiles, key):
    """Imported counts are a third of those of three laps, since every lap does the same."""
    for case, (imported, ours) in profiles.items():
        counted = {region: 3 * figures[key] for region, figures in imported.items()}
        assert counted == {region: figures[key] for region, figures in ours.items()}, case


def test_kernels_have_the_same_names(profiles):
    for imported, ours in profiles.values():
        named = [{kernel["name"] for kernel in regions["decode"]["top_kernels"]} for regions in (imported, ours)]
        assert named[0] >= named[1] > set()
