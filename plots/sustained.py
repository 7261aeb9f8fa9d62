"""Reads how many live streams are sustained with each length of a step: by `rtfx stream`, and by NeMo's steps beside it."""

from dataclasses import dataclass, field

from journal import STAND_IN_DATA, STAND_IN_MODEL, read_records


@dataclass
class Sustained:
    """The most streams of one series with one length of a step."""

    series: str
    step_ms: float  # new audio of a step: the period of rtfx, the chunk of NeMo
    streams: float
    final_ms: float | None  # from an utterance's last audio to its last result, 95th percentile
    joules_per_hour: float | None  # of audio
    marks: list = field(default_factory=list)  # warnings about the figures, without those on stand-ins
    source: object = None  # the case of a journal, or NeMo's record

    @property
    def latency_ms(self):
        """Returns the new audio of a step plus the time from an utterance's last audio to its last result."""
        return None if self.final_ms is None else self.step_ms + self.final_ms


DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}  # PyTorch's names and those of rtfx


def name_of(case):
    return f"{case.model}, {case.decoder}, {case.dtype}"


def sustained(cases):
    """Returns the largest number of streams at which each search kept its limit, for each length of a step.

    With a rule, only trials that confirm a number of streams count."""
    best = {}
    for case in cases:
        last = case.last
        if not last.get("slo") or (last["stream"].get("rule") and not last.get("confirms")):
            continue
        found = Sustained(
            name_of(case),
            last["stream"]["period_ms"],
            last["batch"]["size"],
            case.metric("stream.final_ms.p95")[0],
            case.metric("energy.joules_per_hour")[0],
            [mark for mark in case.marks if mark not in (STAND_IN_DATA, STAND_IN_MODEL)],
            case,
        )
        keep_most(best, found)
    return list(best.values())


def keep_most(best, found):
    key = (found.series, found.step_ms)
    if key not in best or found.streams > best[key].streams:
        best[key] = found


def sustained_by_nemo(paths):
    """Returns the capacity of NeMo's best batch with each length of a step, from files of rivals/nemo/stream_steps.py.

    The capacity follows from the median step, which a few long steps do not lower. `capacity` in the file is not read.
    A batch of more streams than its capacity never fills, and does not count. A result waits for one step at least, so
    `final_ms` is a lower bound."""
    best = {}
    for record in (record for path in paths for record in read_records(path)):
        capacity = 1000 * record["streams"] * record["chunk_seconds"] / record["step_ms"]["p50"]
        if capacity < record["streams"]:
            continue
        found = Sustained(
            f"NeMo {record['nemo']}, {DTYPES[record['dtype']]}, full batches",
            round(1000 * record["chunk_seconds"]),
            int(capacity),
            record["step_ms"]["p50"],
            record["joules_per_hour"],
            source=record,
        )
        keep_most(best, found)
    return list(best.values())
