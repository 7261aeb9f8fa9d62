"""Writes the tables of throughput from the journals in reports/GPU/chain: chain_tables.py [FOLDER [PAGE...]]

A page holds them between `<!-- chain:NAME GPU -->` and `<!-- /chain -->`; TABLES has the names. GPU is a folder of FOLDER, by
default reports. `scripts/measure.sh` measures the journals. A value whose journal is missing is shown as a dash.
"""

import sys
from pathlib import Path
from statistics import fmean, stdev

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "plots"))

from intervals import half_interval, paired_ratio, ratio_of_rounds  # noqa: E402
from journal import plain_or_gzip, read_journal, read_records, wer_percent  # noqa: E402
from rival_reports import rewrite  # noqa: E402
from script import markdown  # noqa: E402

MODELS = {"rnnt_0.6b": "RNN-T 0.6B", "tdt_0.6b": "TDT 0.6B", "ctc_0.6b": "CTC 0.6B", "rnnt_1.1b": "RNN-T 1.1B"}
TYPES = ("bf16", "fp8")
BATCHES = (32, 128, 512)
TOTAL = "rtfx.total"
SUSPECT = "suspect rounds"  # head of a column


def search_of(model):
    return "ctc_greedy" if model.startswith("ctc") else "fused_looping"


class Folder:
    """The journals of a folder by name, read once."""

    def __init__(self, path):
        self.path, self.read = path, {}

    def journal(self, name):
        """Returns the journal NAME, or None."""
        if name not in self.read:
            path = plain_or_gzip(self.path / f"{name}.jsonl")
            self.read[name] = read_journal(path) if path.exists() else None
        return self.read[name]

    def case(self, name, decoder, dtype, batch=128):
        """Returns a case of the journal NAME, or None."""
        wanted = decoder, dtype, str(batch)
        cases = self.journal(name).cases if self.journal(name) else []
        found = [case for case in cases if (case.decoder, case.dtype, case.batch) == wanted and case.rounds]
        return found[0] if found else None

    def checkpoint(self, name):
        return self.journal(name).provenance["models"][0]["sha256"]


def total_seconds(case):
    """Returns the times from samples to text by round, for ratio_of_rounds()."""
    return case.by_round([record["total_seconds"] for record in case.rounds])


def metric(case, name):
    return [record["metrics"][name] for record in case.rounds]


def with_interval(values, digits=0):
    return f"{fmean(values):,.{digits}f} ± {half_interval(values):,.{digits}f}"


def noisy(values):
    """Returns the mark of values that differ by more than 5 %, or nothing."""
    return " NOISY" if stdev(values) > 0.05 * fmean(values) else ""


def speed(case):
    """Returns the total speed, with its interval and its mark."""
    if not case:
        return "–"
    values = metric(case, TOTAL)
    return with_interval(values) + noisy(values)


def wer(case):
    percent = case and wer_percent(case)
    return "–" if percent is None else f"{percent:.2f}"


def energy(case):
    """Returns joules for an hour of audio."""
    found = [r["metrics"].get("energy.joules_per_hour") for r in case.rounds if r["round"] == 0] if case else []
    return f"{found[0]:.0f}" if found and found[0] else "–"


def suspect(*cases):
    """Returns how many rounds of these cases the machine disturbed, and by what."""
    rounds = [record for case in cases if case for record in case.rounds]
    marked = [record["suspect"] for record in rounds if record.get("suspect")]
    reasons = ", ".join(sorted({reason for reasons in marked for reason in reasons}))
    return f"{len(marked)} of {len(rounds)}" + (f" ({reasons})" if reasons else "")


def chains():
    """Yields a label, the name of a journal, its model and its decoder for each chain."""
    for model, name in MODELS.items():
        yield f"{name}, FLAC files to text", f"files_{model}", model, search_of(model)
        if model == "rnnt_0.6b":
            yield f"{name}, WAV files to text", "files_wav", model, search_of(model)
        yield f"{name}, samples to text", model, model, search_of(model)
        if not model.startswith("ctc"):
            yield "its CTC head, samples to text", model, model, "ctc_greedy"


def from_samples(folder, model, dtype, batch):
    """Returns the case from samples to text, or None."""
    journals = [f"batches_{model}", model] if batch == 128 else [f"batches_{model}"]
    found = (folder.case(journal, search_of(model), dtype, batch) for journal in journals)
    return next(filter(None, found), None)


def in_fp32(folder, journal, model, decoder):
    """Returns the case in fp32 of the journal's checkpoint, or None."""
    if own := folder.case(journal, decoder, "fp32"):
        return own
    other = f"fp32_{model}"
    case = folder.case(other, decoder, "fp32")
    return case if case and folder.checkpoint(other) == folder.checkpoint(journal) else None


def filled(rows):
    """Yields a table of texts whose first row has the heads, without columns that have dashes alone."""
    heads, *rows = rows
    kept = [i for i in range(len(heads)) if any(row[i] != "–" for row in rows)]
    yield f"| {' | '.join(heads[i] for i in kept)} |"
    yield "|---|" + "".join("---|" if heads[i] == SUSPECT else "--:|" for i in kept[1:])
    yield from (f"| {' | '.join(row[i] for i in kept)} |" for row in rows)


def speeds(folder):
    rows = [["seconds of audio per second, batch 128", "bf16", "fp8", "WER %, bf16", "fp8", "fp32",
             "joules per hour of audio, bf16", "fp8", SUSPECT]]  # fmt: skip
    for label, journal, model, decoder in chains():
        cases = [folder.case(journal, decoder, dtype) for dtype in TYPES]
        if any(cases):
            exact = in_fp32(folder, journal, model, decoder)
            rows.append([label, *map(speed, cases), *map(wer, cases), wer(exact), *map(energy, cases), suspect(*cases)])
    return filled(rows)


def batches(folder):
    pairs = [(dtype, batch) for dtype in TYPES for batch in BATCHES]
    yield f"| samples to text | {' | '.join(f'{dtype}, {batch}' for dtype, batch in pairs)} |"
    yield "|---|" + "--:|" * len(pairs)
    for model, name in MODELS.items():
        cells = [speed(from_samples(folder, model, dtype, batch)) for dtype, batch in pairs]
        if any(cell != "–" for (_, batch), cell in zip(pairs, cells, strict=True) if batch != 128):
            yield f"| {name} | {' | '.join(cells)} |"


def types(folder):
    """Yields speed and word errors in fp32 beside bf16 and fp8, from one journal for each model."""
    every = ("fp32", *TYPES)
    yield f"| samples to text, batch 128 | {' | '.join(every)} | {' | '.join(f'WER %, {dtype}' for dtype in every)} |"
    yield "|---|" + "--:|" * 2 * len(every)
    for model, name in MODELS.items():
        cases = [folder.case(f"fp32_{model}", search_of(model), dtype) for dtype in every]
        if all(cases):
            speeds = [f"{fmean(metric(case, TOTAL)):,.0f}" for case in cases]
            yield f"| {name} | {' | '.join(speeds + list(map(wer, cases)))} |"


def first_pass(folder):
    columns = [("files", dtype, 128) for dtype in TYPES] + [("samples", dtype, batch) for dtype in TYPES for batch in (32, 128)]
    rows = [["share of the steady speed", *(f"{kind}, {dtype}, {batch}" for kind, dtype, batch in columns)]]
    for model, name in MODELS.items():
        cells = []
        for kind, dtype, batch in columns:
            from_files = kind == "files"
            case = folder.case(f"files_{model}", search_of(model), dtype) if from_files else from_samples(folder, model, dtype, batch)
            first = [r["metrics"]["rtfx.first_pass"] for r in case.rounds if r["round"] == 0] if case else []
            cells.append(f"{100 * first[0] / fmean(metric(case, TOTAL)):.0f} %" if first else "–")
        rows.append([name, *cells])
    return filled(rows)


def below_ctc(folder):
    """Yields how much slower than its CTC head a transducer is, from samples to text."""
    yield "| transducer's speed / its CTC head's | bf16 | fp8 |"
    yield "|---|--:|--:|"
    for model, name in MODELS.items():
        pairs = [[folder.case(model, decoder, dtype) for decoder in ("fused_looping", "ctc_greedy")] for dtype in TYPES]
        if not all(case for pair in pairs for case in pair):
            continue
        cells = []
        for transducer, ctc in pairs:
            low, high = ratio_of_rounds(*map(total_seconds, (transducer, ctc)))
            share = fmean(metric(transducer, TOTAL)) / fmean(metric(ctc, TOTAL))
            cells.append(f"{share:.3f} [{low:.3f}, {high:.3f}]")
        yield f"| {name} | {' | '.join(cells)} |"


def encoder(folder):
    """Yields NeMo's features and encoder beside rtfx's whole chain, in bf16."""
    yield "| seconds of audio per second, bf16, batch 128 | NeMo 3.0.0, features and encoder alone | rtfx, samples to text |"
    yield "|---|--:|--:|"
    for model, name in MODELS.items():
        path = folder.path / f"nemo_encoder_{model}.jsonl"
        records = [r for r in read_records(path) if r["batch"] == 128] if path.exists() else []
        if records:
            yield f"| {name} | {with_interval(records[-1]['rtfx'])} | {speed(from_samples(folder, model, 'bf16', 128))} |"


def timed(calls):
    """Returns the mean of calls' seconds with its interval, and a mark where they differ by more than 5 %."""
    seconds = [call["seconds"] for call in calls]
    return with_interval(seconds, 2) + noisy(seconds)


def transcribe(folder):
    """Yields NeMo's transcribe() beside that of rtfx, each at its fastest batch size."""
    yield ("| model | NeMo's batch | NeMo's seconds | rtfx's batch | rtfx's seconds | NeMo : rtfx | WER %, rtfx : NeMo "
           "| equal texts |")  # fmt: skip
    yield "|---|" + "--:|" * 7
    for model, name in MODELS.items():
        path = folder.path / f"nemo_transcribe_{model}.jsonl"
        if not path.exists():
            continue
        record = read_records(path)[-1]
        ours, theirs = ([call["seconds"] for call in record[side]] for side in ("whole", "nemo"))
        low, high = paired_ratio(ours, theirs)
        words = " : ".join(f"{100 * record['wer'][side]:.2f}" for side in ("whole", "nemo"))
        cells = [record["batch"]["nemo"], timed(record["nemo"]), record["batch"]["whole"], timed(record["whole"]),
                 f"{fmean(theirs) / fmean(ours):.2f}x [{low:.3g}, {high:.3g}]{noisy(ours) or noisy(theirs)}", words,
                 f"{record['equal']['texts']:,} of {record['utterances']:,}"]  # fmt: skip
        yield f"| {name} | {' | '.join(map(str, cells))} |"


def prompt(folder):
    """Yields what the layer of a prompt-conditioned model costs, between two runs without it."""
    journal = folder.journal("prompt")
    if not journal:
        return
    rows = {"without the layer": "", "with it": "-prompt", "without it, again": "-again"}
    found = {(case.model.removeprefix("parakeet-rnnt-0.6b"), int(case.batch)): case for case in journal.cases if case.rounds}
    held = sorted({batch for _, batch in found})
    yield f"| RNN-T 0.6B, samples to text, bf16 | {' | '.join(f'batch {batch}' for batch in held)} |"
    yield "|---|" + "--:|" * len(held)
    for label, ending in rows.items():
        yield f"| {label} | {' | '.join(speed(found[ending, batch]) for batch in held)} |"
    for label, ending in list(rows.items())[1:]:
        cells = []
        for batch in held:
            pair = [total_seconds(found[which, batch]) for which in (ending, "")]
            low, high = ratio_of_rounds(*pair)
            ratio = fmean(pair[1].values()) / fmean(pair[0].values())
            cells.append(f"{ratio:.3f} [{low:.3f}, {high:.3f}]")
        yield f"| {label}, over the first | {' | '.join(cells)} |"


def about(folder):
    """Yields a sentence for each revision: the GPU, the day and the journals."""
    held = {}
    for path in sorted(folder.path.glob("*.jsonl.gz")):
        about = read_journal(path).provenance
        key = about["device"]["name"], about["rtfx"]["revision"][:12], about["started"][:10]
        held.setdefault(key, []).append(f"`{path.name.removesuffix('.jsonl.gz')}`")
    for (device, revision, day), names in held.items():
        yield f"{markdown(device)}, rtfx {revision}, {day}: {', '.join(names)}."


TABLES = {"about": about, "speeds": speeds, "batches": batches, "types": types, "first_pass": first_pass, "below_ctc": below_ctc, "encoder": encoder,
          "transcribe": transcribe, "prompt": prompt}


def with_rows(lines):
    """Returns the lines of a table; nothing where it has heads alone, since its journals are missing."""
    lines = list(lines)
    heads_alone = len(lines) == 2 and lines[1].startswith("|---|")
    return [] if heads_alone else lines


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "reports"
    pages = [Path(page) for page in sys.argv[2:]] or [ROOT / "reports/README.md"]
    folders = {path.parent.name: Folder(path) for path in root.glob("*/chain") if any(path.glob("*.jsonl*"))}
    if not folders:
        raise SystemExit(f"{root}: holds no GPU/chain/*.jsonl")
    for name, table in TABLES.items():
        rewrite(pages, f"chain:{name} ({'|'.join(folders)})", lambda gpu: with_rows(table(folders[gpu])))


if __name__ == "__main__":
    main()
