"""Our decoders beside a rival's: rival_table.py JOURNAL... [--rival FILE...] [--pairs OURS=THEIRS...] [-o FILE.md]

JOURNAL names folders or journals of `rtfx run`. Decoders of the name `python` (configs/rivals) are the rival's. The
time of the rival's whole call is the region decode without the time that hands results to rtfx (`results_us`). The
time of its algorithm alone also excludes the making of Python objects (`objects_us`). --head ctc selects CTC decoders.

FILE holds a rival's own measurement as JSON lines, on the same GPU and audio. Each line has `model` (NAME.nemo),
`decoder`, `dtype`, `batch`, `audio_s`, `decode_s` (mean wall time of a pass) and `wer` in percent. It may have `core_s` (the
algorithm alone, without making hypotheses on the host) and `graph_mode` (how NeMo launched it). Searches whose name is
that of a greedy one of rtfx, perhaps with _graphs after it, count as greedy. A line that belongs to no table is named.

The script prints a table for each model and dtype: milliseconds of decoding in a pass over all audio. --rtfx prints
seconds of audio for each second of decoding instead, so that columns may be of different audio. --only selects
decoders. The time of rtfx contains the regions decode and d2h, because the rival's time ends with the hypotheses on
the host. The last rows are ratios: the rival's fastest over our fastest, the same for the algorithms alone, and the
same algorithm launched alike on both sides. With --pairs, they say how many times as fast each of ours is than the
rival's search of its kind, by the decoders' ids.
"""

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev

from journal import json_lines, options_of, read_journal, stand_in_sentences, wer_percent
from script import OneLineParser, file_of, markdown, printable, printable_json, run_script, write_text


ONE_GRAPH, ONE_BY_ONE = "one CUDA graph", "launched one by one"
REPLAYED = "replayed graphs"
OUR_LAUNCHES = {
    "host": ONE_BY_ONE,
    "none": ONE_BY_ONE,
    "script": "launched by TorchScript",
    "replay": REPLAYED,
    "coalesced": REPLAYED,
    "graph": ONE_GRAPH,
    "conditional": ONE_GRAPH,
    "persistent": "one persistent kernel",
}
THEIR_LAUNCHES = {
    "full_graph": ONE_GRAPH,
    "frame_graph": "a CUDA graph for each frame",
    "no_while_loops": REPLAYED,
    "no_graphs": ONE_BY_ONE,
    "none": ONE_BY_ONE,
}
OUR_GREEDY = ("ctc_greedy", "frame_looping", "fused_looping", "label_looping", "step_replay")
OUR_SCOPE, THEIR_SCOPE = "decode + d2h", "whole call"
FAILED = "FAILED"  # the mark of a case without a result


@dataclass
class Row:
    name: str
    ours: bool
    kernels: str  # "operators" of the tensor library, or "fused kernels"
    launch: str
    algorithm: str
    language: str = "C++"  # the language that launches the kernels
    seconds: dict = field(default_factory=dict)  # mean of the rounds, by batch size
    rounds: dict = field(default_factory=dict)  # {(invocation, number of the round): seconds}, by batch size
    core: dict = field(default_factory=dict)  # the algorithm alone
    wers: dict = field(default_factory=dict)  # in percent, by batch size
    marks: dict = field(default_factory=dict)  # by batch size
    id: str = ""  # the decoder's id, for a rival's decoder in a journal of rtfx
    audio: dict = field(default_factory=dict)  # seconds of decoded audio, by batch size
    is_greedy: bool = True  # a greedy search without fusion; all of these find the same tokens

    @property
    def kind(self):
        return ", ".join(filter(None, [self.kernels, self.launch]))

    @property
    def how(self):
        return f"{self.described}; {OUR_SCOPE if self.ours else THEIR_SCOPE}"

    @property
    def described(self):
        return ", ".join(filter(None, [self.kind, self.language]))

    def cells(self, batches, rtfx=False):
        speed = {b: self.audio[b] / s if rtfx else 1e3 * s for b, s in self.seconds.items()}
        digits = 0 if rtfx else 1
        times = [f"{speed[b]:.{digits}f}" if b in speed else "–" for b in batches]
        return [markdown(self.name), *times, span(self.wers.values()), self.remark(), markdown(self.how)]

    def remark(self):
        if not self.ours and not self.id:
            return "conditions not recorded"
        marked = [f"batch {b}: {', '.join(marks)}" for b, marks in sorted(self.marks.items()) if marks]
        return markdown("; ".join(marked)) or "–"


def our_row(case):
    """Makes the row of one of our decoders. Some journals call the options `graphs`, `form` and `step`."""
    options = options_of(case)
    launch = next((options[key] for key in ("loop", "graphs", "form") if key in options), "host")
    fused = case.last["decoder"]["name"] == "fused_looping" or "fused" in (
        options.get("kernels"), options.get("step"))  # fmt: skip
    window = options.get("window", 1)
    algorithm = case.last["decoder"]["name"] + (f", window {window}" if window != 1 else "")
    if case.last["decoder"]["name"].endswith("_cpu"):
        return Row(case.decoder, True, "threads of a CPU", "", algorithm, is_greedy=False)
    searches_graph = case.last["decoder"]["name"] == "ctc_wfst"
    kernels = "kernels of a search" if searches_graph else "fused kernels" if fused else "operators"
    greedy = case.last["decoder"]["name"] in OUR_GREEDY and not (options.get("lm") or options.get("boost"))
    return Row(case.decoder, True, kernels, OUR_LAUNCHES[launch], algorithm, is_greedy=greedy)


def is_rival(case):
    return case.last["decoder"]["name"] == "python"


def rival_row(case):
    """Makes the row of a rival's decoder, which names its versions and launches among its options."""
    options = options_of(case)
    # A decoder that fails in its first batch has not told its versions.
    versions = {k: v for k, v in options.get("versions", {}).items() if k not in ("python", "torch")}
    mode = versions.pop("graph_mode", None)
    package = ", ".join(f"{name} {version}" for name, version in versions.items())
    name = f"{case.decoder} ({package})" if package else case.decoder
    kernels, launch = ("operators", THEIR_LAUNCHES[mode]) if mode else (package or options["class"], "")
    algorithm = options["options"].get("search", options["class"])
    greedy = options["class"] in ("Greedy", "CtcGreedy") and not {"lm", "boost"} & options["options"].keys()
    return Row(name, False, kernels, launch, algorithm, "Python", id=case.decoder, is_greedy=greedy)


def counter_seconds(case, name):
    """Returns the seconds of a counter of microseconds in each round; None where a round lacks it."""
    counts = [(round.get("counters") or {}).get(name) for round in case.rounds]
    return None if None in counts else [count / 1e6 for count in counts]


def decode_seconds(case):
    """Returns the seconds of each round: the whole call of a rival, or decode and d2h of ours."""
    regions = [round["regions"] for round in case.rounds]
    decode = [region["decode"]["host_seconds"] for region in regions]
    if is_rival(case):
        return [a - b for a, b in zip(decode, counter_seconds(case, "results_us"), strict=True)]
    return [a + region["d2h"]["host_seconds"] for a, region in zip(decode, regions, strict=True)]


def marks_of(case, cv_max):
    """Returns the marks of a case, with NOISY judged by the times that the table shows.

    The total time holds parts that all decoders share, such as padding."""
    values = decode_seconds(case)
    noisy = len(values) > 1 and stdev(values) > cv_max * mean(values)
    return [mark for mark in case.marks if mark != "NOISY"] + ["NOISY"] * noisy


def their_row(record, name):
    launch = THEIR_LAUNCHES.get(record.get("graph_mode"), "launch not stated")
    language = "Python" if "graph_mode" in record else ""
    algorithm = record["decoder"].removesuffix("_graphs")
    return Row(name, False, "operators", launch, algorithm, language, is_greedy=algorithm in OUR_GREEDY)


def span(values):
    texts = sorted({f"{value:.2f}" for value in values}, key=float)
    return "–".join([texts[0], *texts[1:][-1:]]) if texts else "–"


def key_of(case, rtfx=False):
    """Returns the key of the table that a case belongs to."""
    return case.model, case.dtype, None if rtfx else round(case.last["dataset"]["audio_seconds"])


def add_times(row, case, batch):
    row.rounds[batch] = case.by_round(decode_seconds(case))
    row.seconds[batch] = mean(decode_seconds(case))
    if not is_rival(case):
        row.core[batch] = case.region_seconds()["decode"]
    elif (objects := counter_seconds(case, "objects_us")) is not None:
        row.core[batch] = row.seconds[batch] - mean(objects)


def rows_of(journals, wanted, rtfx=False):
    """Returns {key_of(case): {name: Row}} of the cases that wanted(case) selects. Failed ones have only marks."""
    tables = {}
    for journal in journals:
        cv_max = journal.provenance["config"]["protocol"].get("cv_max", 0.05)
        for case in sorted(journal.cases, key=lambda case: not case.rounds):
            by_count = case.last["batch"]["by"] == "count"
            if not ((case.rounds or case.failure) and by_count and wanted(case)):
                continue
            made = rival_row(case) if is_rival(case) else our_row(case)
            rows = tables.setdefault(key_of(case, rtfx), {})
            alike = [row for row in rows.values() if made.id and row.id == made.id]
            row = alike[0] if alike else rows.setdefault(made.name, made)
            batch = int(case.last["batch"]["size"])
            if not case.rounds:
                row.audio[batch] = case.last["dataset"]["audio_seconds"]
                row.marks[batch] = [FAILED]
                continue
            if batch in row.seconds:
                raise SystemExit(f"{case.name}: another set has the same decoder and batch size; leave --rtfx out")
            add_times(row, case, batch)
            row.audio[batch] = case.last["dataset"]["audio_seconds"]
            if (wer := wer_percent(case)) is not None:
                row.wers[batch] = wer
            row.marks[batch] = [*([case.grade] if row.id and case.grade else []), *marks_of(case, cv_max)]
    return tables


def add_rival(tables, path, rival):
    """Adds the rival's own measurements to the tables, and says which ones have no place there."""
    for number, record in json_lines(path):
        record, place = printable_json(record), f"{printable(path)}:{number}"
        if "decode_s" not in record:
            print(f"{place}: left out, since it has no decode_s", file=sys.stderr)
            continue
        key = (Path(record["model"]).stem, record["dtype"], round(record["audio_s"]))
        if key not in tables:
            print(f"{place}: left out, since no journal has {key[0]}, {key[1]} and {key[2]} s of audio", file=sys.stderr)
            continue
        name, batch = f"{rival} {record['decoder']}", record["batch"]
        row = tables[key].setdefault(name, their_row(record, name))
        if batch in row.seconds:
            raise SystemExit(f"{place}: a second measurement of {name}, batch {batch}; leave one out")
        row.seconds[batch] = record["decode_s"]
        if record.get("core_s"):
            row.core[batch] = record["core_s"]
        row.wers[batch] = record["wer"]


def best(rows, batch, times):
    """Returns the row that is fastest at this batch size; None where none has it."""
    known = [row for row in rows if batch in times(row)]
    return min(known, key=lambda row: times(row)[batch], default=None)


def seconds(row):
    return row.seconds


def core(row):
    return row.core


def require_same_audio(ours, theirs, batch):
    """Ends the program if two rows that are to be compared decoded different audio.

    Rows from a rival's own file have no `audio`, since its seconds are part of the table's key."""
    audio = [row.audio[batch] for row in (ours, theirs) if batch in row.audio]
    if len({round(seconds) for seconds in audio}) > 1:
        raise SystemExit(f"{theirs.name}, {ours.name}: batch {batch} has {audio[1]:.0f} and {audio[0]:.0f} s of audio; "
                         "leave --rtfx out, or give journals of the same set")  # fmt: skip


def ratio_row(what, rows, batches, times):
    """Returns (label, how, ratio by batch) of the rival's fastest over our fastest."""
    texts, kinds = [], {}
    for batch in batches:
        ours = best([row for row in rows if row.ours], batch, times)
        theirs = best([row for row in rows if not row.ours], batch, times)
        if ours and theirs:
            require_same_audio(ours, theirs, batch)
            kinds[f"{theirs.described} / {ours.described}"] = None
            ratio = times(theirs)[batch] / times(ours)[batch]
            texts.append(f"{ratio:.1f}" if ratio >= 2 else f"{ratio:.2f}")
        else:
            texts.append("–")
    scope = f"{THEIR_SCOPE} / {OUR_SCOPE}" if times is seconds else "algorithm alone / decode"
    return what, f"{' or '.join(kinds)}; {scope}", texts


def both_sides(rows):
    return len({row.ours for row in rows if row.seconds}) == 2


def summary(rows, batches, rival, pairs):
    """Yields the last rows of a table: (label, how, ratio by batch)."""
    if pairs:
        compared = [
            (f"{rival} {theirs} / {ours}",
             [row for row in rows if (row.id or row.name) in ((ours,) if row.ours else (theirs, f"{rival} {theirs}"))])
            for ours, theirs in pairs
        ]  # fmt: skip
    else:
        # All greedy searches find the same tokens. The fastest two of other searches may differ in beam or fusion.
        compared = [(f"{rival}'s fastest greedy search / ours", [row for row in rows if row.is_greedy])]
        for kind in dict.fromkeys((row.algorithm, row.kind) for row in rows if row.is_greedy):
            alike = [row for row in rows if row.is_greedy and (row.algorithm, row.kind) == kind]
            compared.append((f"{rival}'s {kind[0]} / ours, launched alike", alike))
    for what, some in compared:
        if both_sides(some):
            yield ratio_row(what, some, batches, seconds)
            with_core = [row for row in some if row.core]
            if both_sides(with_core):
                yield ratio_row(what, with_core, batches, core)


def heading(model, dtype, rows, rtfx):
    sets = {}  # {seconds of audio: batch sizes}
    for batch, seconds in sorted({(b, round(s)) for row in rows for b, s in row.audio.items()}):
        sets.setdefault(seconds, []).append(str(batch))
    audio = "; ".join(f"batch {', '.join(batches)}: {s} s of audio" if rtfx and len(sets) > 1 else f"{s} s of audio"
                      for s, batches in sets.items())  # fmt: skip
    return f"## {markdown(model)}, {markdown(dtype)}: {audio}"


def table(key, rows, rival, pairs, stand_ins, rtfx=False):
    model, dtype, _ = key
    batches = sorted({batch for row in rows for batch in row.seconds})
    what = "RTFx of decoding and copy to the host" if rtfx else "decoding and copy to the host, ms"
    lines = [
        heading(model, dtype, rows, rtfx),
        "",
        *(text for sentence in stand_ins for text in (f"**{markdown(sentence)}**", "")),
        f"| {what} | {' | '.join(f'batch {b}' for b in batches)} | WER % | marks | how; what the time holds |",
        "|---|" + "--:|" * (len(batches) + 1) + "---|---|",
    ]
    for row in rows:
        lines.append("| " + " | ".join(row.cells(batches, rtfx)) + " |")
    for what, how, values in summary(rows, batches, rival, pairs):
        figures = " | ".join(f"**{text}**" for text in values)
        lines.append(f"| **{markdown(what)}** | {figures} | | | {markdown(how)} |")
    return "\n".join(lines)


def main():
    parser = OneLineParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("journals", nargs="+", type=Path)
    parser.add_argument("--rival", nargs="+", type=Path, default=[])
    parser.add_argument("--head", choices=["transducer", "ctc"], default="transducer")
    parser.add_argument("--pairs", nargs="+", default=[], metavar="OURS=THEIRS")
    parser.add_argument("--name", default="NeMo", help="the rival's name")
    parser.add_argument("--rtfx", action="store_true")
    parser.add_argument("--only", nargs="+", metavar="ID")
    parser.add_argument("-o", "--output", type=file_of("md"), help="file.md")
    arguments = parser.parse_args()

    pairs = [tuple(pair.split("=", 1)) for pair in arguments.pairs]
    if any(len(pair) != 2 for pair in pairs):
        parser.error("--pairs: each is OURS=THEIRS, two decoder ids")
    paired = {name for pair in pairs for name in pair}
    journals = [read_journal(path) for path in arguments.journals]
    if arguments.rtfx and arguments.rival:
        parser.error("--rtfx: of journals alone")

    def wanted(case):
        if arguments.only and case.decoder not in arguments.only:
            return False
        return case.decoder in paired if pairs else case.last["decoder"].get("head") == arguments.head

    tables = rows_of(journals, wanted, arguments.rtfx)
    for path in arguments.rival:
        add_rival(tables, path, arguments.name)
    compared = {key: list(rows.values()) for key, rows in tables.items()}
    compared = {key: rows for key, rows in compared.items() if any(not row.ours for row in rows)}
    if not compared:
        raise SystemExit("no model, dtype and length of audio is in both: nothing to compare")
    marks = {mark: meaning for journal in journals for mark, meaning in journal.mark_meanings.items()}
    parts = []
    for key, rows in compared.items():
        cases = [case for journal in journals for case in journal.cases if key_of(case, arguments.rtfx) == key]
        stand_ins = stand_in_sentences(cases)
        parts.append(table(key, rows, arguments.name, pairs, stand_ins, arguments.rtfx))
    marks |= {"NOISY": "the times of the rounds differ by more than protocol.cv_max, so measure again"} if "NOISY" in marks else {}
    marks[FAILED] = "the decoder failed, so that the case has no result"
    legend = [f"{mark}: {markdown(meaning)}." for mark, meaning in marks.items() if any(mark in part for part in parts)]
    text = "\n\n".join(["\n".join(f"- {line}" for line in legend)] * bool(legend) + parts) + "\n"
    print(text, end="")
    if arguments.output:
        write_text(arguments.output, text)


if __name__ == "__main__":
    run_script(main)
