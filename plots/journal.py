"""Reads the journal of a run (docs/journal.md) into cases."""

import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Case:
    """One (model, dataset, decoder, batch, dtype) with all its rounds under its last result key."""

    name: str
    last: dict  # the last run or failure record
    runs: list = field(default_factory=list)
    failure: dict | None = None
    is_stand_in_data: bool = False  # the set was absent, and its fallback decoded

    @property
    def model(self):
        return self.last["model"]["id"]

    @property
    def dataset(self):
        return self.last["dataset"]["id"]

    @property
    def decoder(self):
        return self.last["decoder"]["id"]

    @property
    def dtype(self):
        return self.last["dtype"]

    @property
    def batch(self):
        size = self.last["batch"]["size"]
        return f"{size:g} s" if self.last["batch"]["by"] == "seconds" else f"{size:g}"

    @property
    def is_reference(self):
        return self.verdict == "reference"

    @property
    def is_approximate(self):
        return self.last["decoder"].get("exactness") == "approximate"

    @property
    def is_synthetic(self):
        """Timed without its checkpoint: random encoder + stand-in decoder."""
        return self.last["model"].get("weights") == "synthetic"

    @property
    def has_words(self):
        """False for the null decoder, whose decoding speed and WER mean nothing."""
        return self.last["decoder"].get("head") != "none"

    @property
    def verdict(self):
        """The worst verdict of all rounds; None without a baseline or a result."""
        found = [run["exactness"]["verdict"] for run in self.runs if run.get("exactness")]
        return max(found, key=VERDICTS.index, default=None)

    @property
    def worst_run(self):
        """The first round that has the case's verdict."""
        for run in self.runs:
            if run.get("exactness") and run["exactness"]["verdict"] == self.verdict:
                return run
        return None

    @property
    def is_stable(self):
        return all(run.get("deterministic", True) for run in self.runs)

    def metric(self, key):
        """Mean and sample standard deviation over rounds, (None, None) without values."""
        values = [run["metrics"][key] for run in self.runs if run["metrics"].get(key) is not None]
        if not values:
            return None, None
        return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0

    def region_seconds(self):
        """Mean host seconds of each region, in the order of the data's way."""
        return {
            region: statistics.mean(run["regions"][region]["host_seconds"] for run in self.runs)
            for region in REGIONS
            if self.runs and all(region in run["regions"] for run in self.runs)
        }


VERDICTS = ["reference", "bitwise", "exact", "tie", "text", "wer", "different"]
REGIONS = ["h2d", "features", "encoder", "decode", "d2h", "detokenize"]


@dataclass
class Journal:
    path: Path
    provenances: list
    cases: list
    streams: list = field(default_factory=list)  # cases of `rtfx stream`: a number of streams each

    @property
    def provenance(self):
        return self.provenances[-1] if self.provenances else {}


def read_records(path):
    """All whole records. A torn last line is no record; any other bad line is an error."""
    records = []
    lines = Path(path).read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError as error:
            if number < len(lines):
                raise SystemExit(f"{path}:{number}: not a JSON object ({error})") from None
    return records


def read_journal(path):
    """`path`: a journal or the folder of a run."""
    path = Path(path)
    if path.is_dir():
        path = path / "journal.jsonl"
    if not path.is_file():
        raise SystemExit(f"{path}: no journal there; give the folder of a run")
    cases, provenances = {}, []
    for record in read_records(path):
        if record.get("profiled"):
            raise SystemExit(
                f"{path}: records of `rtfx profile`, whose times include the profiler's; "
                "give the journal of `rtfx run`"
            )
        kind = record.get("kind")
        if kind == "provenance":
            provenances.append(record)
        elif kind in ("run", "stream", "failure"):
            case = cases.setdefault(record["case"], Case(record["case"], record))
            # Another key means another build, model or setting: its rounds do not mix.
            if case.failure or case.last.get("result_key") != record.get("result_key"):
                case.runs, case.failure = [], None
            case.last = record
            if kind != "failure":
                case.runs.append(record)
            else:
                case.failure = record
    stand_ins = {d["id"] for p in provenances[-1:] for d in p["datasets"] if d.get("stand_in")}
    for case in cases.values():
        case.is_stand_in_data = case.dataset in stand_ins
    streams = [case for case in cases.values() if case.last["kind"] == "stream"]
    others = [case for case in cases.values() if case.last["kind"] != "stream"]
    return Journal(path, provenances, others, streams)


def panels(cases):
    """Cases by what their figure's title says: the model, and dataset and dtype where they vary."""
    several_datasets = len({case.dataset for case in cases}) > 1
    several_dtypes = len({case.dtype for case in cases}) > 1
    groups = {}
    for case in cases:
        title = case.model
        if several_datasets:
            title += f", {case.dataset}"
        if several_dtypes:
            title += f", {case.dtype}"
        groups.setdefault(title, []).append(case)
    return groups
