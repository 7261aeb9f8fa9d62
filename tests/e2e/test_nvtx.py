"""Tests the NVTX ranges of every decoder that a profiler sees. An injected library records them."""

import json
import os
import re
from dataclasses import dataclass, field

import pytest
from conftest import AUDIO, HAS_GPU, MODELS, PROGRAM, ROOT, small_config, strict_records

RECORDER = PROGRAM.parent / "tests/librtfx_nvtx_recorder.so"
PLUGIN = PROGRAM.parent / "tests/librtfx_faulty_decoder.so"
VOCABULARY = dict(re.findall(r'\{"([\w.]+)", RangeKind::(\w+)\}', (ROOT / "base/nvtx.h").read_text()))
REGIONS = ["pad", "h2d", "features", "encoder", "decode", "d2h", "detokenize"]
WORDS = {"lexicon": str(ROOT / "tests/data/words.lexicon"), "lm": str(ROOT / "tests/data/words.arpa")}

# The ranges that each decoder must have within "decode.loop" while the host drives it.
PARTS = {
    "frame_looping": {"init", "step", "trace_back"},
    "label_looping": {"init", "joint", "predict", "trace_back"},
    "step_replay": {"joint", "predict", "trace_back"},
    "tdt_min_duration": {"step", "trace_back"},
    "alsd": {"row"},
    "aes": {"row"},
    "alsd_pp": {"init", "step", "trace_back"},
    "aes_pp": {"init", "frame", "step", "trace_back"},
    "modified_beam_search": {"init", "step", "trace_back"},
    "ctc_greedy": {"step"},  # one range for all frames, without a language model
    "ctc_beam": {"init", "step", "trace_back"},
    "ctc_wfst_cpu": {"row", "trace_back"},
    "transducer_wfst": {"init", "step", "trace_back"},
    "ctc_lexicon_cpu": {"row", "trace_back"},
    "null": set(),
    "python": set(),  # its loop runs in Python
    "fused_looping": {"step"},
    "ctc_wfst": {"init", "step", "trace_back"},
}
ENCODER_PARTS = {f"encoder.{part}" for part in ("subsampling", "norm", "feed_forward", "attention", "convolution")}
ONE_MODEL = {"tdt_min_duration": ["tdt"], "python": ["rnnt"]}
GPU_ONLY = {"fused_looping": {"loop": "host"}, "ctc_wfst": {"loop": "host"}}


@dataclass
class Range:
    name: str
    category: str
    payload: object
    colour: str
    registered: bool
    children: list = field(default_factory=list)

    def find(self, name):
        return [self] * (self.name == name) + [found for c in self.children for found in c.find(name)]


def trees(events):
    """Returns the outermost ranges of each thread. Fails if a range is never closed or is closed twice."""
    roots, open_ranges = {}, {}
    for event in events:
        if event.get("domain") != "rtfx":
            continue
        stack = open_ranges.setdefault(event["thread"], [])
        if event["event"] == "pop":
            assert stack, "a range is closed that is not open"
            stack.pop()
            continue
        found = Range(*(event[key] for key in ("name", "category", "payload", "colour", "registered")))
        (stack[-1].children if stack else roots.setdefault(event["thread"], [])).append(found)
        stack.append(found)
    assert not any(open_ranges.values()), "a range is left open"
    return roots


def record(rtfx, folder, arguments, **config):
    """Runs `rtfx profile` with this configuration, and returns its result and the recorded events."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(small_config(**config)))
    settings = {**os.environ, "NVTX_INJECTION64_PATH": str(RECORDER), "RTFX_NVTX_RECORD": str(folder / "nvtx")}
    result = rtfx(*arguments, folder / "config.json", "--output", folder / "run", env=settings)
    return result, [json.loads(line) for line in (folder / "nvtx").read_text().splitlines()]


@pytest.fixture(scope="module")
def graph(rtfx, tmp_path_factory):
    """Builds graphs and returns {topology: path}."""
    paths = {}
    for topology in ("compact", "tokens"):
        paths[topology] = str(tmp_path_factory.mktemp("nvtx") / f"{topology}.tlg")
        given = {**WORDS, "tokenizer": MODELS / "quickstart-rnnt.nemo", "topology": topology, "output": paths[topology]}
        result = rtfx("graph", "build", *[f"--{name}={value}" for name, value in given.items()])
        assert result.returncode == 0, result.stderr
    return paths


def decoders(graph, device):
    """Returns one case for every decoder, and on a GPU one for each form of its loop."""
    of_ctc, of_tokens = ({"graph": graph[topology]} for topology in ("compact", "tokens"))
    options = {"ctc_wfst_cpu": of_ctc, "ctc_wfst": of_ctc, "transducer_wfst": of_tokens, "ctc_lexicon_cpu": WORDS,
               "python": {"file": str(ROOT / "examples/python_decoder/greedy.py"), "class": "Greedy"}}
    cases = []
    for name in PARTS:
        given = options.get(name, {}) | GPU_ONLY.get(name, {})
        case = {"name": name, "options": given}
        cases.append(case | ({"models": ONE_MODEL[name]} if name in ONE_MODEL else {}))
    if device == "cuda":
        for name, loops in (("frame_looping", ["replay", "graph"]), ("label_looping", ["replay", "graph"]),
                            ("alsd_pp", ["graph"]), ("modified_beam_search", ["graph"]), ("transducer_wfst", ["graph"]),
                            ("fused_looping", ["graph", "persistent"]),
                            ("ctc_wfst", ["replay", "persistent"])):  # fmt: skip
            given = options.get(name, {})
            cases += [{"id": f"{name}_{loop}", "name": name, "options": given | {"loop": loop}} for loop in loops]
    cases.append({"id": "faulty", "name": "faulty", "options": {"fault": "throw_error"}})
    return cases


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.skipif(
    not HAS_GPU, reason="needs a GPU"))])  # fmt: skip
def profiled(request, rtfx, graph, tmp_path_factory):
    """Profiles every decoder for two laps of three utterances, and returns the events, the journal and the device."""
    folder = tmp_path_factory.mktemp(f"nvtx_{request.param}")
    result, events = record(
        rtfx, folder, ["profile", "--laps", 2, "--no-cupti", "--trace-limit", 0], device=request.param,
        models=[str(MODELS / f"quickstart-{kind}.nemo") for kind in ("rnnt", "tdt")],
        datasets=[{"id": "three", "files": [str(AUDIO / f"1737-146161-00{n}.flac") for n in ("07", "09", "13")]}],
        decoders=decoders(graph, request.param), plugins=[str(PLUGIN)], batch_sizes=[2])  # fmt: skip
    assert result.returncode == 1, result.stderr  # "faulty" always fails
    return events, strict_records(folder / "run/profile.jsonl"), request.param


def cases_of(events):
    """Returns {decoder's id: the ranges of its laps} of the cases that ran to their end."""
    cases = {}
    for root in (root for roots in trees(events).values() for root in roots):
        if root.category == "case":
            cases.setdefault(root.name.split("/")[2], []).append(root)
    return cases


def test_every_decoder_is_here(rtfx):
    listed = json.loads(rtfx("list", "decoders", "--json").stdout)
    assert {entry["name"] for entry in listed} == PARTS.keys()


def test_failed_cases_leave_no_range_open(profiled):
    events, records, device = profiled
    failed = {r["decoder"]["name"] for r in records if r["kind"] == "failure"}
    assert failed == {"faulty"} | (set() if device == "cuda" else GPU_ONLY.keys())
    trees(events)


def test_names_are_those_of_the_vocabulary(profiled):
    events, records, _ = profiled
    cases = {r["case"] for r in records if r["kind"] != "provenance"}
    seen, colours = set(), {}
    for event in (e for e in events if e["event"] == "push" and e["domain"] == "rtfx"):
        kind = "case" if event["name"] in cases else VOCABULARY[event["name"]]
        assert event["category"] == kind and event["registered"], event
        assert colours.setdefault(kind, event["colour"]) == event["colour"]
        seen.add(event["name"])
    assert len(set(colours.values())) == len(colours) == 7
    assert seen >= {*REGIONS, *ENCODER_PARTS, "load", "prepare", "round", "batch", "decode.project", "decode.loop", "host_read"}


def test_documentation_lists_the_vocabulary():
    text = (ROOT / "docs/reference/profiling.md").read_text()
    assert [name for name in VOCABULARY if f"`{name}`" not in text] == []


def test_case_round_batch_region_phase(profiled):
    events, records, _ = profiled
    finished = {r["decoder"]["id"] for r in records if r["kind"] == "profile"}
    cases = cases_of(events)
    assert finished <= cases.keys()
    for decoder in finished:
        # A decoder has two laps of each of the two models, or of one model if it is in ONE_MODEL.
        assert len(cases[decoder]) == (2 if decoder in ONE_MODEL else 4)
        for lap in cases[decoder]:
            (round_,) = lap.children
            assert round_.name == "round" and round_.payload in (0, 1)
            assert [batch.name for batch in round_.children] == ["batch"] * 2
            for batch in round_.children:
                check_batch(batch)
            assert sorted(batch.payload["rows"] for batch in round_.children) == [1, 2]
            assert all(batch.payload["frames"] > 10 for batch in round_.children)


def check_batch(batch):
    rows = batch.payload["rows"]
    assert [region.name for region in batch.children] == REGIONS
    for region in batch.children:
        assert region.payload == rows
        for phase in region.children:
            if region.name == "encoder":
                assert phase.name in ENCODER_PARTS or phase.category == "wait"
                continue
            assert phase.category in ("phase", "wait")
            assert phase.category == "wait" or (region.name == "decode" and phase.payload in (rows, 1))
            for part in phase.children:
                assert part.category in ("segment", "wait"), part.name


def test_parts_of_every_decoder(profiled):
    events, records, _ = profiled
    cases = cases_of(events)
    for decoder in (r["decoder"] for r in records if r["kind"] == "profile"):
        parts, reads = set(), []
        for lap in cases[decoder["id"]]:
            for loop in lap.find("decode.loop"):
                parts |= {p.name.removeprefix("decode.") for p in loop.children if p.category == "segment"}
            for decode in lap.find("decode"):
                reads = [read.payload for read in decode.find("host_read")]
                assert reads == [*range(1, len(reads) + 1)]
        if decoder["id"] == decoder["name"]:
            assert parts == PARTS[decoder["name"]], decoder["id"]
        elif decoder["options"]["loop"] == "graph":
            assert parts == {"graph"}, decoder["id"]


def test_steps_are_numbered(profiled):
    events, _, _ = profiled
    for decoder in ("label_looping", "aes_pp", "tdt_min_duration"):
        loop = cases_of(events)[decoder][0].find("decode.loop")[0]
        numbers = [p.payload for p in loop.children if p.category == "segment"]
        assert numbers == [*range(len(numbers))] and len(numbers) > 10


def test_rows_that_are_searched_one_by_one(profiled):
    events, _, _ = profiled
    for decoder in ("alsd", "ctc_wfst_cpu"):
        loops = cases_of(events)[decoder][0].find("decode.loop")
        assert [sorted(r.payload for r in loop.find("decode.row")) for loop in loops] == [[0, 1], [0]]


def test_threads_have_names(profiled):
    events, _, _ = profiled
    assert "rtfx" in {event["name"] for event in events if event["event"] == "thread"}


def test_decoders_that_share_a_round_have_their_case_in_each_batch(rtfx, tmp_path):
    protocol = {"warmup_rounds": 1, "measured_rounds": 1}
    result, events = record(rtfx, tmp_path, ["run"], protocol=protocol)
    assert result.returncode == 0, result.stderr
    (warm_up,) = [r for roots in trees(events).values() for r in roots if r.name == "warm_up"]
    assert [child.name for child in warm_up.children] == ["round"]
    (rounds,) = [[r for r in roots if r.name == "round"] for roots in trees(events).values() if roots]
    (batch,) = rounds[0].children
    assert [c.name for c in batch.children if c.category == "region"] == REGIONS[:4]
    cases = [c for c in batch.children if c.category == "case"]
    assert {c.name.split("/")[2] for c in cases} == {"frame_looping", "label_looping"}
    assert all([region.name for region in case.children] == REGIONS[4:] for case in cases)


def test_align_marks_its_batches(rtfx, tmp_path):
    settings = {**os.environ, "NVTX_INJECTION64_PATH": str(RECORDER), "RTFX_NVTX_RECORD": str(tmp_path / "nvtx")}
    manifest = tmp_path / "two.jsonl"
    manifest.write_text("".join(json.dumps({"audio_filepath": str(AUDIO / f"1737-146161-00{n}.flac"), "text": "knit two"})
                                + "\n" for n in ("07", "09")))  # fmt: skip
    for head, parts in (("ctc", {"decode.trace_back"}), ("transducer", {"decode.joint", "decode.predict"})):
        result = rtfx("align", "--model", MODELS / "quickstart-rnnt.nemo", "--device", "cpu", "--batch-size", 2,
                      "--threads", 1, "--head", head, manifest, env=settings)  # fmt: skip
        assert result.returncode == 0, result.stderr
        events = [json.loads(line) for line in (tmp_path / "nvtx").read_text().splitlines()]
        (batch,) = (found for roots in trees(events).values() for root in roots for found in root.find("batch"))
        (align,) = batch.find("align")
        assert align.category == "run" and align.payload == 2
        assert parts <= {child.name for child in align.children}
        assert [child.name for child in batch.children][:4] == ["pad", "h2d", "features", "encoder"]
        (tmp_path / "nvtx").unlink()
