"""Reads the journal of a run (docs/journal.md) into cases, as `rtfx summary` sums them up."""

import gzip
import json
import os
import subprocess
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from escape import printable, printable_json

# What means and grades are is the program's to say, so that no figure differs from its tables.
PROGRAM = os.environ.get("RTFX_BIN", Path(__file__).parents[1] / "build/release/rtfx")


@dataclass
class Case:
    """One (model, dataset, decoder, batch, dtype) with all its rounds under its last result key."""

    name: str
    last: dict  # the last run, stream or failure record
    rounds: list = field(default_factory=list)
    failure: dict | None = None  # its record; there are no rounds then
    grade: str | None = None  # the worst of all rounds; None without a baseline or a result
    worst_round: int | None = None  # the first one with that grade
    first_difference: dict | None = None
    replay: dict | None = None  # as exactness.replay in the journal
    deterministic: bool = True
    noisy: bool = False
    marks: list = field(default_factory=list)  # "NOISY", "suspect 1/3": to be read with the figures
    metrics: dict = field(default_factory=dict)  # {name: {"mean", "sd"}} over rounds
    regions: dict = field(default_factory=dict)  # {name: mean host seconds}
    figures: dict = field(default_factory=dict)  # {metric: {"estimate", "low", "high", ...}}
    stand_in_data: str | None = None  # what was decoded in place of the set that the case names

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
    def is_baseline(self):
        return self.grade == "baseline"

    @property
    def is_approximate(self):
        return self.last["decoder"].get("exactness") == "approximate"

    @property
    def is_synthetic(self):
        """Timed without its checkpoint: random encoder + stand-in decoder."""
        return self.last["model"].get("weights") == "synthetic"

    @property
    def is_stand_in_data(self):
        return bool(self.stand_in_data)

    @property
    def is_overlapped(self):
        """In protocol.mode throughput: its regions share the time of a pass."""
        return "pipeline" in self.last

    @property
    def has_words(self):
        """False for the null decoder, whose decoding speed and WER mean nothing."""
        return self.last["decoder"].get("head") != "none"

    @property
    def worst_run(self):
        """The first round that has the case's grade."""
        return None if self.worst_round is None else self.rounds[self.worst_round]

    def metric(self, key):
        """Mean and sample standard deviation over rounds, (None, None) without values."""
        value = self.metrics.get(key, {})
        return value.get("mean"), value.get("sd")

    def region_seconds(self):
        """Mean host seconds of each region, in the order of the data's way."""
        return {region: self.regions[region] for region in REGIONS if region in self.regions}


GRADES = ["baseline", "bitwise", "exact", "rounding", "text", "wer", "different"]
REGIONS = ["pad", "h2d", "features", "encoder", "decode", "d2h", "detokenize", "confidence"]


@dataclass
class Journal:
    path: Path
    provenances: list
    cases: list
    streams: list = field(default_factory=list)  # cases of `rtfx stream`: a number of streams each
    mark_meanings: dict = field(default_factory=dict)  # of the marks that its cases have

    @property
    def provenance(self):
        return self.provenances[-1] if self.provenances else {}


def plain_or_gzip(path):
    """The path, or that of FILE.gz where only this file exists."""
    packed = Path(f"{path}.gz")
    return packed if packed.is_file() and not Path(path).exists() else Path(path)


def read_text(path):
    """The text of plain_or_gzip(path)."""
    path = plain_or_gzip(path)
    data = path.read_bytes()
    try:
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise SystemExit(f"{printable(path)}: a damaged gzip file") from None


def journal_name(path):
    """The name of a journal's file without .jsonl or .jsonl.gz."""
    path = Path(path)
    return (path.with_suffix("") if path.suffix == ".gz" else path).stem


def read_records(path):
    """All whole records. A torn last line is no record; any other bad line is an error."""
    records = []
    lines = read_text(path).split("\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            records.append(printable_json(json.loads(line)))
        except json.JSONDecodeError as error:
            if number < len(lines):
                raise SystemExit(f"{printable(path)}:{number}: not a JSON object ({error})") from None
    return records


def read_journal(path):
    """`path`: a journal, plain or gzip, or the folder of a run."""
    path = Path(path)
    path = plain_or_gzip(path / "journal.jsonl" if path.is_dir() else path)
    if not path.is_file():
        raise SystemExit(f"{printable(path)}: no journal there; give the folder of a run")
    try:
        command = [PROGRAM, "summary", path]
        summary = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        raise SystemExit(f"{PROGRAM}: no such program; `make build`, or set RTFX_BIN") from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(error.stderr.strip()) from None
    summary = printable_json(json.loads(summary))
    cases, streams = ([Case(**case) for case in summary[kind]] for kind in ("cases", "streams"))
    return Journal(path, summary["provenances"], cases, streams, summary["mark_meanings"])


STAND_IN_WEIGHTS = "random encoder + stand-in decoder"
STAND_IN_DATA = "stand-in data"


def stand_in_sentences(cases):
    """What must be read with every figure of the cases: which sets and checkpoints are stand-ins."""
    models = dict.fromkeys(case.model for case in cases if case.is_synthetic)
    if models:
        yield f"Stand-in weights: {', '.join(models)}: {STAND_IN_WEIGHTS}."
    sets = dict.fromkeys((case.dataset, case.stand_in_data) for case in cases if case.stand_in_data)
    if sets:
        yield f"Stand-in data: {'; '.join(f'{name} is {what}' for name, what in sets)}."


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
