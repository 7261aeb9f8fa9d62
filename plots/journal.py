"""Reads the journal of a run (docs/journal.md) into cases, with the means and grades of `rtfx summary`."""

import gzip
import json
import os
import subprocess
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from script import printable, printable_json

# The program computes means and grades, so that no figure differs from its tables.
PROGRAM = os.environ.get("RTFX_BIN", Path(__file__).parents[1] / "build/release/rtfx")


@dataclass
class Case:
    """One (model, dataset, decoder, batch, dtype) with all rounds that have its last result key."""

    name: str
    last: dict  # the last run, stream or failure record
    rounds: list = field(default_factory=list)
    failure: dict | None = None  # the failure record of a case without rounds
    grade: str | None = None  # the worst of all rounds; None without a baseline or a result
    worst_round: int | None = None  # the first one with that grade
    first_difference: dict | None = None
    replay: dict | None = None  # as exactness.replay in the journal
    deterministic: bool = True
    noisy: bool = False
    marks: list = field(default_factory=list)  # "NOISY", "suspect 1/3", ...: warnings about the figures
    metrics: dict = field(default_factory=dict)  # {name: {"mean", "sd"}} over rounds
    regions: dict = field(default_factory=dict)  # {name: mean host seconds}
    figures: dict = field(default_factory=dict)  # {metric: {"estimate", "low", "high", ...}}
    stand_in_data: str | None = None  # the audio that was decoded in place of the named set

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
    def stand_in_model(self):
        """Returns a text that says how the checkpoint was made if it stands in for another one; None otherwise."""
        return self.last["model"].get("stand_in")

    @property
    def is_stand_in(self):
        """Says whether data or model stand in for those of the paper, so that word error rates cannot be compared."""
        return bool(self.stand_in_model or self.stand_in_data)

    @property
    def is_overlapped(self):
        """Says whether batches overlapped (protocol.mode throughput), so that the regions share the time of a pass."""
        return "pipeline" in self.last

    @property
    def has_words(self):
        """Says whether the decoder returns words. The null decoder does not, and its speed and WER mean nothing."""
        return self.last["decoder"].get("head") != "none"

    @property
    def worst_run(self):
        """Returns the first round that has the case's grade."""
        return None if self.worst_round is None else self.rounds[self.worst_round]

    def metric(self, key):
        """Returns mean and sample standard deviation over rounds; (None, None) without values."""
        value = self.metrics.get(key, {})
        return value.get("mean"), value.get("sd")

    def by_round(self, values):
        """Returns {(invocation, number of the round): value} from a list with a value for each round."""
        return {(run["provenance_id"], run["round"]): value for run, value in zip(self.rounds, values, strict=True)}

    def region_seconds(self):
        """Returns the mean host seconds of each region, in the order in which data pass through them."""
        return {region: self.regions[region] for region in REGIONS if region in self.regions}


REGIONS = ["pad", "h2d", "features", "encoder", "decode", "d2h", "detokenize", "confidence"]


@dataclass
class Journal:
    path: Path
    provenances: list
    cases: list
    streams: list = field(default_factory=list)  # cases of `rtfx stream`, one for each number of streams
    mark_meanings: dict = field(default_factory=dict)  # the meaning of each mark that a case has
    tuned: list = field(default_factory=list)  # a sentence for each search of `rtfx tune`, on its weights and their origin

    @property
    def provenance(self):
        return self.provenances[-1] if self.provenances else {}


def plain_or_gzip(path):
    """Returns the path, or FILE.gz where only the packed file exists."""
    packed = Path(f"{path}.gz")
    return packed if packed.is_file() and not Path(path).exists() else Path(path)


def read_bytes(path):
    """Returns the content of plain_or_gzip(path). A gzip file may have any name."""
    path = plain_or_gzip(path)
    data = path.read_bytes()
    try:
        is_packed = path.suffix == ".gz" or data.startswith(b"\x1f\x8b")
        return gzip.decompress(data) if is_packed else data
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise SystemExit(f"{printable(path)}: a damaged gzip file") from None


def read_text(path):
    return read_bytes(path).decode("utf-8")


def journal_name(path):
    """Returns the name of a journal's file without .jsonl or .jsonl.gz."""
    path = Path(path)
    return (path.with_suffix("") if path.suffix == ".gz" else path).stem


def json_lines(path):
    """Yields (number of the line, record) of all whole records, with texts as they are.

    A torn last line is ignored, also one that ends within a character. Any other bad line is an error."""
    lines = read_bytes(path).split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line.decode("utf-8"))
        except ValueError as error:  # of the encoding or of JSON
            if number < len(lines):
                raise SystemExit(f"{printable(path)}:{number}: not a JSON object ({error})") from None
            continue
        if not isinstance(record, dict):
            raise SystemExit(f"{printable(path)}:{number}: not a JSON object")
        yield number, record


def read_records(path):
    """Returns all whole records, with texts that a terminal does not obey."""
    return [printable_json(record) for _, record in json_lines(path)]


def read_journal(path):
    """Reads a journal, plain or gzip. `path` is its file or the folder of a run."""
    path = Path(path)
    path = plain_or_gzip(path / "journal.jsonl" if path.is_dir() else path)
    if not path.is_file():
        raise SystemExit(f"{printable(path)}: no journal there; give the folder of a run")
    try:
        command = [PROGRAM, "summary", path]
        summary = subprocess.run(command, capture_output=True, encoding="utf-8", errors="backslashreplace", check=True).stdout
    except FileNotFoundError:
        raise SystemExit(f"{PROGRAM}: no such program; `make build`, or set RTFX_BIN") from None
    except subprocess.CalledProcessError as error:
        ended = f"{PROGRAM} summary {printable(path)}: ended with code {error.returncode}"
        raise SystemExit(error.stderr.strip() or ended) from None
    summary = printable_json(json.loads(summary))
    cases, streams = ([Case(**case) for case in summary[kind]] for kind in ("cases", "streams"))
    return Journal(path, summary["provenances"], cases, streams, summary["mark_meanings"], summary["tuned"])


# Names of the marks that make times doubtful, as harness/results/marks.cpp has them.
DOUBTFUL_MARKS = ("NONDETERMINISTIC", "NOISY", "suspect")
STAND_IN_MODEL = "stand-in model"
STAND_IN_DATA = "stand-in data"


def stand_in_sets(cases):
    """Returns texts that say what stands in for sets, such as ["test_clean, test_other are espeak-ng speech"]."""
    sets = {}
    for case in cases:
        if case.stand_in_data:
            sets.setdefault(case.stand_in_data, {})[case.dataset] = None
    return [f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {what}" for what, names in sets.items()]


def stand_in_sentences(cases):
    """Yields sentences that say which sets and checkpoints of the cases are stand-ins."""
    made = dict.fromkeys((case.model, case.stand_in_model) for case in cases if case.stand_in_model)
    if made:
        yield f"Stand-in models: {'; '.join(f'{name} is {what}' for name, what in made)}."
    if sets := stand_in_sets(cases):
        yield f"Stand-in data: {'; '.join(sets)}."


def panels(cases):
    """Groups the cases by the title of their panel: the model, and dataset and dtype where they vary.

    Sets that have no batch size in common, such as smaller ones for small batches, share a panel."""
    batches = {}
    for case in cases:
        batches.setdefault(case.dataset, set()).add(case.batch)
    several_datasets = sum(map(len, batches.values())) > len(set().union(*batches.values()))
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


def options_of(case):
    """Returns the decoder's options, of which a journal need not have any."""
    return case.last["decoder"].get("options") or {}


def option(case, *keys):
    """Returns the value of a nested option; None where the decoder has none."""
    value = options_of(case)
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def other_options(case, swept):
    """Returns the decoder's options without those at the places `swept`, which are tuples of keys, and without nulls."""

    def kept(options, place=()):
        return {
            key: kept(value, (*place, key)) if isinstance(value, dict) else value
            for key, value in options.items()
            if value is not None and (*place, key) not in swept
        }

    return kept(options_of(case))


def differing(options, place=()):
    """Yields the places, as tuples of keys, in which the given trees of options differ."""
    for key in dict.fromkeys(key for tree in options for key in tree):
        values = [tree.get(key) for tree in options]
        trees = [value for value in values if isinstance(value, dict)]
        if len(trees) < len(values) and any(value != values[0] for value in values):
            yield (*place, key)
        yield from differing(trees, (*place, key))


def arm(case):
    """Returns a decoder's name with its kernels, loop and language model: "alsd_pp, fused graph, LM".

    All decoders in Python have the name `python`, so that their id is used."""
    # Some committed journals say `graphs`: `conditional`.
    loop = option(case, "loop") or option(case, "graphs")
    loops = {"graph": "CUDA graph", "conditional": "CUDA graph", "replay": "replayed graphs"}
    form = loops.get(loop)
    if option(case, "kernels") == "fused":
        form = form.replace("CUDA", "fused") if form else "fused"
    decoder = case.last["decoder"]
    parts = [decoder["id"] if decoder["name"] == "python" else decoder["name"], form]
    if option(case, "lm"):
        parts.append("LM")
    return ", ".join(filter(None, parts))


def percent(case, *counts):
    """Returns the sum of edit counts per 100 reference words; None without reference words."""
    wer = case.last.get("wer")
    if not wer or not wer.get("reference_words"):
        return None
    return 100 * sum(wer[c] for c in counts) / wer["reference_words"]


def wer_percent(case):
    return percent(case, "substitutions", "insertions", "deletions")


def rtfx(case):
    return case.metric("rtfx.total")[0]


def rtfx_spread(case):
    """Returns mean and standard deviation of the total RTFx over rounds."""
    return case.metric("rtfx.total")


def by_batch(groups):
    """Splits the groups of panels() by batch size, which joins the title."""
    return {
        f"{title}, batch {batch}": [case for case in group if case.batch == batch]
        for title, group in groups.items()
        for batch in dict.fromkeys(case.batch for case in group)
    }
