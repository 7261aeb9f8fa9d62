"""Sets a published table beside ours: paper_table.py TABLE.json JOURNAL [--latex] [-o FILE.md]

TABLE.json is a file of configs/tables/, JOURNAL a run's folder or its journal. `rtfx reproduce` makes the journal and
calls this script. It prints the table and writes it beside the journal: table.md for journal.jsonl, NAME.md for
NAME.jsonl. With --latex it writes a .tex file too.
"""

import argparse
import json
import re
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

import script
from cells import (
    METRICS,
    agreement,
    digits_of,
    find_case,
    our_interval,
    our_value,
    same_settings,
)
from journal import (
    STAND_IN_DATA,
    STAND_IN_MODEL,
    journal_name,
    percent,
    read_journal,
    stand_in_sets,
)
from script import OneLineParser, decimal, file_of, run_script

# The key "protocol" of "paper" in a file of configs/tables/ tells the published protocol:
#
#   warmup_rounds, measured_rounds   as published, or as configured
#   utterances                       {id of a set: utterances of the published one}
#   streams, seconds                 numbers of simulated streams, and how long each ran
#
# Its key "figures" lists scripts of plots/ that are drawn beside the table. An entry is the script's name, or an
# object:
#
#   {"name": of the file, "script": ..., "case": part of the names of the cases that are shown}
#
# An object also has "from": "profile" where the script reads the files of `rtfx profile` in the run's folder.
#
# Its key "counts" lists keys of COUNTS: figures that explain an effect, or why there is none.


def full_batch(case):
    """Returns the utterances in the largest batch, fewer than the batch size where the set is small.

    It is None for batches by seconds and for streams."""
    if case.last["kind"] != "run" or case.last["batch"]["by"] != "count":
        return None
    return min(int(case.last["batch"]["size"]), case.last["dataset"]["utterances"])


def batch_remark(case):
    """Returns "one batch of 24" for a batch size that the set cannot fill, else an empty text."""
    held = full_batch(case)
    return f"one batch of {held}" if held and held < case.last["batch"]["size"] else ""


def parts(journal):
    """Returns the provenances whose rounds count, oldest first.

    There are several where processes measured a model each, or where a run was resumed."""
    used = {run["provenance_id"] for case in journal.cases for run in case.rounds or [case.last]}
    found = [about for about in journal.provenances if about.get("provenance_id") in used]
    return found or [journal.provenance]


def _short_of(found, wanted):
    return f"{found} of {wanted}" if found < wanted else None


def rounds_of_models(journal):
    """Returns {(warm-up rounds, fewest measured rounds of a case): models}."""
    found = {}
    for about in parts(journal):
        warm_ups = about["config"].get("protocol", {}).get("warmup_rounds", 0)
        for model in (m["id"] for m in about.get("models", [])):
            measured = [len(case.rounds) for case in journal.cases if case.model == model and case.rounds]
            if measured:
                found.setdefault((warm_ups, min(measured)), []).append(model)
    return found


def _of_models(texts):
    """Joins texts, the keys of `texts`. If they differ, it names the models of each."""
    if len(texts) == 1:
        return next(iter(texts))
    return "; ".join(f"{text} for {', '.join(models)}" for text, models in texts.items())


def _rounds(protocol, journal):
    for at, key, name in ((0, "warmup_rounds", "warm-up"), (1, "measured_rounds", "measured")):
        few = {}
        for had, models in rounds_of_models(journal).items():
            few.setdefault(_short_of(had[at], protocol.get(key, 0)), []).extend(models)
        for text, models in few.items():
            if text:
                yield f"{text} {name} rounds" + (f" for {', '.join(models)}" if len(few) > 1 else "")


def _where(cases, among):
    """Returns the batch sizes and the models of these cases, each only if `among` has others too."""
    texts = []
    for word, key in (("at batch", lambda case: case.batch), ("for", lambda case: case.model)):
        had = dict.fromkeys(map(key, cases))
        if len(had) < len(set(map(key, among))):
            texts.append(f" {word} {', '.join(had)}")
    return "".join(texts)


def _samples(journal):
    """Returns {(data set, its utterances): cases}. One set has several sizes where slow cases decoded a sample of it."""
    found = {}
    for case in journal.cases:
        found.setdefault((case.dataset, case.last["dataset"]["utterances"]), []).append(case)
    return found


def _sets(protocol, journal):
    wanted = protocol.get("utterances", {})
    if not wanted:
        return
    samples = _samples(journal)
    names = {name for name, _ in samples}
    sampled = len(samples) > len(wanted)
    smaller = {}  # {what is said of sets: their names}
    for (name, size), cases in samples.items():
        published = wanted.get(name, min(wanted.values()))  # a set of another name stands for any of them
        if size < published:
            where = _where(cases, journal.cases) if sampled else ""
            smaller.setdefault(f"{where}: {size} of {published} utterances", []).append(name)
    yield from (f"{', '.join(of)}{text}" for text, of in smaller.items())
    if len(wanted) > 1:
        left_out = [name for name in wanted if name not in names]
        yield from [f"Without {', '.join(left_out)}"] if left_out else []


def _batches(journal):
    held = {(case.batch, case.dataset): full_batch(case) for case in journal.cases}
    for (batch, dataset), size in held.items():
        if size and size < float(batch):
            yield f"batch {batch} is one batch of {size} on {dataset}"


def _streams(protocol, journal):
    configs = [about["config"].get("stream") or {} for about in parts(journal)]
    had = {n for config in configs for n in config.get("streams", [])}
    left_out = [n for n in protocol.get("streams", []) if n not in had]
    if left_out:
        yield f"Without {', '.join(map(str, left_out))} streams"
    seconds = _short_of(min(config.get("seconds", 0) for config in configs), protocol.get("seconds", 0))
    if seconds:
        yield f"{seconds} s of streams"


def reductions(table, journal):
    """Returns one text for each way in which the run falls short of the published protocol."""
    protocol = table["paper"].get("protocol", {})
    return [
        *_rounds(protocol, journal),
        *_sets(protocol, journal),
        *_batches(journal),
        *_streams(protocol, journal),
    ]


CLASSES = {
    "W": "Word error rates can be equal only with the same weights, data and scorer",
    "R": "This ratio is expected to have the paper's direction, if its 95 % interval over rounds excludes no difference",
    "H": "These figures depend on GPU, host and software, so that they are not judged",
    "Q": "Only the order is compared",
}
HEADS = ["model", "paper's arm", "decoder", "batch", "ours", "paper", "ours / paper", "remark"]


@dataclass
class Section:
    """The rows of one metric, as texts under HEADS."""

    title: str
    note: str
    rows: list = field(default_factory=list)


def our_weights(models):
    texts = []
    for m in models:
        size = f"{m['kind']}, {m['parameters'] / 1e6:.1f} M parameters"
        if m.get("stand_in"):
            size += f": {STAND_IN_MODEL}"
        texts.append(f"{m['id']} ({size})")
    return "; ".join(texts)


def our_scorer(journal):
    for case in journal.cases:
        if wer := case.last.get("wer"):
            return f"{wer['normalizer']}, version {wer['version']}"
    return "no result"


def _each(journal, text):
    """Joins what `text` says of each part, without repetitions."""
    return "; ".join(dict.fromkeys(text(about) for about in parts(journal)))


def _gpu(about):
    device = about["device"]
    return device["name"] if device["type"] == "cuda" else f"none: {device['name']} (CPU)"


def _software(about):
    build = about["rtfx"]
    revision = f"{build['revision'][:12]}{' with changes' if build['dirty'] else ''}"
    cuda = f", CUDA {about['cuda_runtime']}" if about.get("cuda_runtime") else ""
    return f"rtfx {build['version']} ({revision}), LibTorch {about['libtorch']}{cuda}"


def our_setting(journal):
    stand_ins = {case.dataset: case.stand_in_data for case in journal.cases}
    models = {m["id"]: m for about in parts(journal) for m in about["models"]}
    sets = {}  # {id: what is said of its sizes}
    for (name, utterances), cases in _samples(journal).items():
        size = f"{utterances} utterances, {cases[0].last['dataset']['audio_seconds']:.1f} s"
        among = [case for case in journal.cases if case.dataset == name]
        sets.setdefault(name, []).append(size + _where(cases, among))
    sets = [
        f"{name} ({'; '.join(sizes)}" + (f"; stand-in: {stand_ins[name]})" if stand_ins.get(name) else ")")
        for name, sizes in sets.items()
    ]
    rounds = {f"{warm} warm-ups, {measured} measured": models for (warm, measured), models in rounds_of_models(journal).items()}
    return {
        "GPU": _each(journal, _gpu),
        "data": "; ".join(sets),
        "weights": our_weights(models.values()),
        "dtype": _each(journal, lambda about: ", ".join(about["config"]["dtypes"])),
        "scorer": our_scorer(journal),
        "software": _each(journal, _software),
        "rounds": _of_models(rounds) if rounds else "none measured",
    }


def run_on(journal):
    """Returns the GPU, or the CPU where there was none, and the software of a journal."""
    return f"{_each(journal, _gpu).removeprefix('none: ')}, {_each(journal, _software)}"


def _per_second(name):
    """Returns a counter of the last round for each second of audio; None where the case does not count it."""

    def figure(case):
        count = (case.last.get("counters") or {}).get(name)
        return None if count is None else count / case.last["dataset"]["audio_seconds"]

    return figure


# {key of "counts": (head of its column, figure of a case)}
COUNTS = {
    "joint_calls": ("joint calls per s", _per_second("joint_calls")),
    "pred_calls": ("prediction calls per s", _per_second("pred_calls")),
    "host_reads": ("host reads per s", _per_second("host_reads")),
    "kept_tokens": ("states kept per s", _per_second("kept_tokens")),
    "substitutions": ("substitutions, %", lambda case: percent(case, "substitutions")),
    "insertions": ("insertions, %", lambda case: percent(case, "insertions")),
    "deletions": ("deletions, %", lambda case: percent(case, "deletions")),
}


def counts(table, journal):
    """Returns the heads and the rows of what the runs counted; no rows where the table asks for nothing."""
    names = table["paper"].get("counts", [])
    heads = ["model", "dataset", "decoder", "batch", *(COUNTS[name][0] for name in names)]
    rows = []
    for case in journal.cases:
        figures = [COUNTS[name][1](case) for name in names] if case.rounds else []
        if any(figure is not None for figure in figures):
            rows.append([case.model, case.dataset, case.decoder, case.batch, *(decimal(f, 2) for f in figures)])
    return heads, rows


COUNTS_TITLE = "Counts that explain the figures"
COUNTS_NOTE = "Counters are those of the last round, for each second of audio. Searches in a CUDA graph count no calls."


def remark_of(case, *first):
    if case.failure:
        return f"failed: {case.failure['stage']}"
    return "; ".join(
        filter(
            None,
            [
                *first,
                case.grade if case.grade != "baseline" else "",
                "approximate" if case.is_approximate else "",
                batch_remark(case),
                *case.marks,
            ],
        )
    )


def least_digits(metric):
    """Returns the least number of decimals of a metric. A speed-up of 1.04 must not read as 1.0."""
    return 2 if metric == "wer" or metric.startswith("speedup.") else 0


def cell_row(cases, cell):
    case, ours = find_case(cases, cell), our_value(cases, cell)
    digits = digits_of(cell["published"])
    digits = max(least_digits(cell["metric"]), digits)
    ratio = None if ours is None else ours / float(cell["published"])
    if case is None:
        remark = "not run" if cell.get("decoder") else "rtfx has none"
    else:
        agrees = agreement(cell, ours, our_interval(cases, cell))
        if cell["metric"] == "wer" and case.is_stand_in:
            agrees, ratio = "of the stand-in: not comparable", None
        remark = remark_of(case, agrees)
    return [
        cell["model"] if "model" in cell else case.model if case else "–",
        " ".join(filter(None, [cell.get("arm"), note_on_source(cell)])),
        case.decoder if case else cell.get("decoder") or "–",
        f"{cell.get('batch') or (case.batch if case else '–')}",
        decimal(ours, digits),
        cell["published"],
        decimal(ratio, 2),
        remark,
    ]


def note_on_source(cell):
    """Returns the dataset of a cell, and its source where the paper's table does not print the figure itself."""
    extra = [cell["dataset"]] if "dataset" in cell else []
    if not cell["source"].startswith("Table "):
        extra.append(cell["source"])
    return f"({', '.join(extra)})" if extra else ""


def own_rows(cases, cells, all_cells):
    """Yields rows that the paper lacks: other decoders under the settings of this metric's cells, and all decoders
    at batch sizes for which the paper has no figures."""
    settings = {}
    for cell in cells:
        if case := find_case(cases, cell):
            settings[tuple(same_settings(case).items())] = (cell, case)
    sizes = {case.batch for _, case in settings.values()}
    shown = set()
    for like, example in settings.values():
        known = {c.get("decoder") for c in all_cells if c.get("model") in (None, example.model)}
        for case in cases:
            batch = {"batch": case.batch} if case.batch not in sizes else {}
            if same_settings(case) != same_settings(example) | batch or case.name in shown:
                continue
            if case.decoder == like.get("over") or (not batch and case.decoder in known):
                continue
            if case.last["decoder"].get("head") != example.last["decoder"].get("head"):
                continue
            shown.add(case.name)
            cell = {"case": case.name, "metric": like["metric"]}
            cell |= {key: value for key, value in like.items() if key.startswith("over")}
            ours = our_value(cases, cell)
            digits = max(1, least_digits(like["metric"]), digits_of(like["published"]))
            setting = f"({case.dataset})" if "dataset" in like else ""
            yield [case.model, f"not in the paper {setting}".strip(), case.decoder, case.batch,
                   decimal(ours, digits), "–", "–", remark_of(case)]  # fmt: skip


def sections(table, journal):
    by_metric = {}
    for cell in table["cells"]:
        by_metric.setdefault(cell["metric"], []).append(cell)
    for metric, cells in by_metric.items():
        classes = sorted({cell["class"] for cell in cells})
        section = Section(METRICS[metric], ". ".join(CLASSES[c] for c in classes))
        section.rows = [cell_row(journal.cases, cell) for cell in cells]
        section.rows += own_rows(journal.cases, cells, table["cells"])
        yield section


def stamps(table, journal):
    """Yields warnings that stand above all figures."""
    own = {d["id"]: d.get("limit") for d in table.get("datasets", [])}  # the table's sets may have a limit
    limits = [
        d["limit"]
        for about in parts(journal)
        for d in about["config"].get("datasets", [])
        if d.get("limit") and d["limit"] not in (own.get(d["id"]), own.get(re.sub(r"_\d+$", "", d["id"])))  # a sample: set_320
    ]
    if limits:
        yield f"QUICK: only the first {max(limits)} utterances of each set. No reproduction."
    if less := reductions(table, journal):
        yield f"REDUCED: {'. '.join(less)}. Not the protocol of the published table."
    made = dict.fromkeys((c.model, c.stand_in_model) for c in journal.cases if c.stand_in_model)
    if made:
        yield (
            f"Rows marked '{STAND_IN_MODEL}': the published checkpoint was not there, and another one of its "
            f"size was measured. {'. '.join(f'{name} is {what}' for name, what in made)}. "
            "Word error rates are those of the small model."
        )
    if texts := stand_in_sets(journal.cases):
        yield (
            f"Rows marked '{STAND_IN_DATA}': the published set was not there, and other audio was "
            f"decoded in its place. {'. '.join(texts)}."
        )
    failed = sum(case.failure is not None for case in journal.cases)
    if failed:
        yield f"{failed} of {len(journal.cases)} cases failed."


def remarks(table, journal, escape=str):
    """Yields the remarks that readers need beside a table. Those of the paper come first.

    escape() is for texts of the journal. Those of the paper are Markdown already."""
    yield from table["paper"].get("remarks", [])
    gpus = {about["device"].get("uuid") for about in parts(journal)}
    if len(gpus) > 1 and any("over_model" in cell for cell in table["cells"]):
        yield f"{len(gpus)} GPUs measured our models, so that comparisons of models hold the difference of the GPUs. No interval does."
    yield from map(escape, journal.tuned)


def setting_rows(table, journal):
    ours, theirs = our_setting(journal), table["paper"]["setting"]
    return [[key, ours[key], theirs.get(key, "not stated")] for key in ours]


def markdown(table, journal):
    row = script.markdown_row
    paper = table["paper"]
    yield f"# {paper['title']}: ours beside the published figures"
    yield ""
    yield f"{paper['reference']}. Journal: {script.markdown(journal.path.name)}, {journal.provenance['started']}."
    for text in stamps(table, journal):
        yield from ("", f"**{script.markdown(text)}**")
    yield from ("", row(["what differs", "ours", "paper"]), "|---|---|---|")
    yield from map(row, setting_rows(table, journal))
    yield ""
    yield from (f"- {text}" for text in remarks(table, journal, script.markdown))
    for section in sections(table, journal):
        yield from ("", f"## {section.title}", "", f"{section.note}.", "")
        yield from (row(HEADS), "|---|---|---|--:|--:|--:|--:|---|")
        yield from map(row, section.rows)
    heads, rows = counts(table, journal)
    if rows:
        yield from ("", f"## {COUNTS_TITLE}", "", COUNTS_NOTE, "", row(heads))
        yield f"|---|---|---|{'--:|' * (len(heads) - 3)}"
        yield from map(row, rows)


def terminal(table, journal):
    """Yields the lines of the tables as a terminal shows them, as wide as it is."""

    def wrapped(text, indent=""):
        return textwrap.wrap(script.printable(text), script.terminal_width(), subsequent_indent=indent,
                             break_long_words=False, break_on_hyphens=False)  # fmt: skip

    paper = table["paper"]
    yield from wrapped(f"{paper['title']}: ours beside the published figures")
    yield from wrapped(f"{paper['reference']}. Journal: {journal.path.name}, {journal.provenance['started']}.")
    for text in stamps(table, journal):
        yield from ("", *wrapped(text))
    yield ""
    yield from script.terminal_table(["what differs", "ours", "paper"], setting_rows(table, journal))
    yield ""
    for text in remarks(table, journal):
        yield from wrapped(f"- {text}", "  ")
    for section in sections(table, journal):
        yield from ("", section.title, *wrapped(f"{section.note}."), "")
        yield from script.terminal_table(HEADS, section.rows, right=(3, 4, 5, 6))
    heads, rows = counts(table, journal)
    if rows:
        yield from ("", COUNTS_TITLE, *wrapped(COUNTS_NOTE), "")
        yield from script.terminal_table(heads, rows, right=range(3, len(heads)))


def latex(table, journal):
    """Yields the lines of a LaTeX file for \\input into an article. It needs no package."""

    def row(texts):
        return " & ".join(map(script.latex, texts)) + r" \\"

    def note(text):
        code = re.sub("`([^`]*)`", r"\\texttt{\1}", script.latex(text))
        return rf"\noindent {code}\par"

    paper = table["paper"]
    yield rf"\noindent\textbf{{{script.latex(paper['title'])}: ours beside the published figures}}\par"
    yield note(f"{paper['reference']}. Journal: {journal.path.name}, {journal.provenance['started']}.")
    for text in stamps(table, journal):
        yield rf"\noindent\textbf{{{script.latex(text)}}}\par"
    yield from (r"\begin{tabular}{lp{0.35\textwidth}p{0.35\textwidth}}", r"\hline")
    yield from (row(["what differs", "ours", "paper"]), r"\hline")
    yield from map(row, setting_rows(table, journal))
    yield from (r"\hline", r"\end{tabular}\par")
    yield from map(note, remarks(table, journal))
    for section in sections(table, journal):
        yield from ("", rf"\par\medskip\noindent\textbf{{{script.latex(section.title)}}}\par")
        yield note(f"{section.note}.")
        yield from (r"\begin{tabular}{lllrrrrl}", r"\hline", row(HEADS), r"\hline")
        yield from map(row, section.rows)
        yield from (r"\hline", r"\end{tabular}")
    heads, rows = counts(table, journal)
    if rows:
        yield from ("", rf"\par\medskip\noindent\textbf{{{script.latex(COUNTS_TITLE)}}}\par")
        yield note(COUNTS_NOTE)
        yield from (rf"\begin{{tabular}}{{lll{'r' * (len(heads) - 3)}}}", r"\hline", row(heads), r"\hline")
        yield from map(row, rows)
        yield from (r"\hline", r"\end{tabular}")


def read_table(path):
    try:
        table = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise SystemExit(f"{path}: {error}") from None
    if "paper" not in table or "cells" not in table:
        raise SystemExit(f"{path}: no 'paper' and 'cells'; give a file of configs/tables")
    return table


def read_cases(path):
    """Reads a journal whose cases are those of runs and of streams."""
    journal = read_journal(path)
    if not journal.provenance:
        raise SystemExit(f"{script.printable(journal.path)}: no provenance record")
    journal.cases += journal.streams
    return journal


def require_own(table, journal):
    """Ends the program where the journal has no search or no model of the table."""
    own = {d if isinstance(d, str) else d.get("id", d.get("name")) for d in table.get("decoders", [])}
    measured = {case.decoder.partition("[")[0] for case in journal.cases}
    if own and measured and own.isdisjoint(measured):
        raise SystemExit(f"{script.printable(journal.path)}: no case of this table, but of {', '.join(sorted(measured))}; "
                         "give the journal of the table")  # fmt: skip
    wanted = {cell["model"] for cell in table.get("cells", [])}
    models = {case.model for case in journal.cases}
    if wanted and models and wanted.isdisjoint(models):
        raise SystemExit(f"{script.printable(journal.path)}: no model of this table, but {', '.join(sorted(models))}; "
                         "give the journal of the table")  # fmt: skip


def main():
    parser = OneLineParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("journal", type=Path)
    parser.add_argument("--latex", action="store_true", help="write FILE.tex beside FILE.md")
    parser.add_argument("-o", "--output", type=file_of("md"), help="file.md")
    arguments = parser.parse_args()
    table, journal = read_table(arguments.table), read_cases(arguments.journal)
    require_own(table, journal)
    name = "table" if journal_name(journal.path) == "journal" else journal_name(journal.path)
    output = arguments.output or journal.path.with_name(f"{name}.md")
    print("\n".join(terminal(table, journal)) + "\n")
    script.write_text(output, "\n".join(markdown(table, journal)) + "\n")
    print(f"table: {script.printable(output)}")
    if arguments.latex:
        output = output.with_suffix(".tex")
        script.write_text(output, "\n".join(latex(table, journal)) + "\n")
        print(f"table: {script.printable(output)}")


if __name__ == "__main__":
    run_script(main)
