"""Reads trace.json, the timeline that `rtfx profile` writes beside profile.jsonl."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from journal import plain_or_gzip, read_text
from script import printable, printable_json, run_script
from style import parser_of, save

REGION_TRACK, CALL_TRACKS, KERNEL_TRACKS = 1, range(10, 1000), range(1000, 2000)


@dataclass
class Lap:
    """The events of one case as lists of (begin, end, name), in µs since its first region began."""

    case: str
    regions: list = field(default_factory=list)  # also phases and waits; sorted by begin
    calls: list = field(default_factory=list)
    kernels: list = field(default_factory=list)
    copies: list = field(default_factory=list)
    known_until: float = float("inf")  # the trace holds no later events

    @property
    def end(self):
        return max(end for _, end, _ in self.regions)

    @property
    def has_device(self):
        return bool(self.kernels)

    def spans(self, region):
        return [(begin, end) for begin, end, name in self.regions if name == region]


def read_trace(path):
    """Returns the laps of every case that has regions. `path` is trace.json, plain or gzip, or its folder."""
    path = Path(path)
    if path.is_dir():
        path = plain_or_gzip(path / "trace.json")
    if not path.is_file():
        raise SystemExit(f"{printable(path)}: no timeline there; `rtfx profile CONFIG` writes one")
    try:
        trace = printable_json(json.loads(read_text(path)))
    except ValueError as error:
        raise SystemExit(f"{printable(path)}: not a timeline of `rtfx profile` ({printable(error)})") from None
    if not isinstance(trace, dict) or not {"traceEvents", "otherData"} <= trace.keys():
        raise SystemExit(f"{printable(path)}: not a timeline of `rtfx profile`")
    laps = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "M" and event["name"] == "process_name":
            laps[event["pid"]] = Lap(event["args"]["name"])
        elif event["ph"] == "X":
            span = (event["ts"], event["ts"] + event["dur"], event["name"])
            track_of(laps[event["pid"]], event["tid"]).append(span)
    for process, lap in laps.items():
        if not lap.regions:
            continue
        begin_at_zero(lap)
        if left_out_of(trace["otherData"], process):
            others = [*lap.calls, *lap.kernels, *lap.copies]
            lap.known_until = max((begin for begin, _, _ in others), default=0.0)
    return [lap for lap in laps.values() if lap.regions]


def left_out_of(counts, process):
    """Returns how many events the trace lacks of a case. Traces of earlier releases have one count for all cases."""
    by_process = counts.get("left_out_by_process")
    if by_process is None:
        return counts["left_out_events"]
    if not 1 <= process <= len(by_process):
        raise SystemExit(f"not a timeline of `rtfx profile`: process {process} of {len(by_process)}")
    return by_process[process - 1]


def track_of(lap, track):
    if track == REGION_TRACK:
        return lap.regions
    if track in CALL_TRACKS:
        return lap.calls
    return lap.kernels if track in KERNEL_TRACKS else lap.copies


def begin_at_zero(lap):
    origin = min(begin for begin, _, _ in lap.regions)
    for name in ("regions", "calls", "kernels", "copies"):
        shifted = [(b - origin, e - origin, label) for b, e, label in getattr(lap, name)]
        setattr(lap, name, sorted(shifted))


def busy_share(spans, edges):
    """Returns the share that the union of spans covers, for each interval between neighbouring `edges`."""
    covered = [0.0] * (len(edges) - 1)
    first, reached = 0, float("-inf")
    for begin, end, *_ in sorted(spans):
        begin, reached = max(begin, reached), max(end, reached)
        while first < len(covered) and edges[first + 1] <= begin:
            first += 1
        for i in range(first, len(covered)):
            if edges[i] >= reached:
                break
            covered[i] += max(0.0, min(reached, edges[i + 1]) - max(begin, edges[i]))
    return [c / (b - a) for c, a, b in zip(covered, edges, edges[1:])]


def main(description, draw, **numbers):
    """Runs the command line of a figure's script. `numbers` are further arguments of draw with their defaults."""
    parser = parser_of(description, "trace", "trace.json (or that gzipped), or the folder of a profile")
    for name, value in numbers.items():
        parser.add_argument(f"--{name}", type=float, default=value, help=f"default: {value:g}")
    arguments = parser.parse_args()
    run_script(lambda: draw_file(arguments, draw, numbers))


def draw_file(arguments, draw, numbers):
    laps = [lap for lap in read_trace(arguments.trace) if arguments.case in lap.case]
    figure = draw(laps, arguments.width, **{name: getattr(arguments, name) for name in numbers})
    if figure is None:
        raise SystemExit(f"{printable(arguments.trace)}: no case that this figure shows")
    save(figure, arguments.output)
    shown = ", ".join(lap.case for lap in laps)
    print(printable(f"{arguments.output}: from {arguments.trace}, {shown}"))
