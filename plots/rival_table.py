"""Our decoders beside a rival's: rival_table.py JOURNAL... --rival FILE... [--pairs OURS=THEIRS...] [-o FILE.md]

JOURNAL: folders or journals of `rtfx run`. FILE: JSON lines of the rival's own measurement, in the
same lease of the same GPU on the same audio; each line has `model` (NAME.nemo), `decoder`, `dtype`,
`batch`, `audio_s`, `decode_s` (mean wall time of a pass) and `wer`.

Prints one table for each model and dtype: milliseconds of decoding in a pass over all audio (ours: the
regions decode and d2h, because the rival's time ends with the hypotheses on the host), the word
error rates, the marks of our rounds (what they mean stands below), and how many times faster our
fastest transducer decoder is than the rival's fastest. With --pairs, for searches of several kinds: how many times faster each of ours is than the rival's of its
kind, by the decoders' ids.
"""

import argparse
from dataclasses import dataclass, field
from pathlib import Path

from escape import markdown
from journal import read_journal, read_records
from script import OneLineParser, file_of, run_script


@dataclass
class Row:
    name: str
    ours: bool
    seconds: dict = field(default_factory=dict)  # by batch size
    wers: list = field(default_factory=list)
    marks: dict = field(default_factory=dict)  # by batch size

    def cells(self, batches):
        times = [f"{1e3 * self.seconds[b]:.1f}" if b in self.seconds else "–" for b in batches]
        return [markdown(self.name), *times, span(self.wers), self.remark()]

    def remark(self):
        if not self.ours:
            return "conditions not recorded"
        marked = [f"batch {b}: {', '.join(marks)}" for b, marks in sorted(self.marks.items()) if marks]
        return markdown("; ".join(marked)) or "–"


def span(values):
    texts = sorted({f"{value:.2f}" for value in values})
    return "–".join([texts[0], *texts[1:][-1:]]) if texts else "–"


def our_rows(journals, wanted):
    """{(model, dtype, seconds of audio): {decoder: Row}} of those that wanted(case) says."""
    tables = {}
    for journal in journals:
        for case in journal.cases:
            by_count = case.last["batch"]["by"] == "count"
            if not (case.rounds and by_count and wanted(case)):
                continue
            key = (case.model, case.dtype, round(case.last["dataset"]["audio_seconds"]))
            row = tables.setdefault(key, {}).setdefault(case.decoder, Row(case.decoder, True))
            regions = case.region_seconds()
            row.seconds[int(case.last["batch"]["size"])] = regions["decode"] + regions["d2h"]
            row.wers.append(100 * case.rounds[0]["wer"]["wer"])
            row.marks[int(case.last["batch"]["size"])] = case.marks
    return tables


def add_rival(tables, records, rival):
    for record in records:
        if "decode_s" not in record:
            continue
        key = (Path(record["model"]).stem, record["dtype"], round(record["audio_s"]))
        if key not in tables:
            continue
        name = f"{rival} {record['decoder']}"
        row = tables[key].setdefault(name, Row(name, False))
        row.seconds[record["batch"]] = record["decode_s"]
        row.wers.append(record["wer"])


def best(rows, batch):
    return min((row.seconds[batch] for row in rows if batch in row.seconds), default=None)


def ratios(rows, batches):
    texts = []
    for batch in batches:
        ours = best([row for row in rows if row.ours], batch)
        theirs = best([row for row in rows if not row.ours], batch)
        texts.append(f"{theirs / ours:.1f}" if ours and theirs else "–")
    return texts


def summary(rows, batches, rival, pairs):
    """The last rows of a table: (what, ratio by batch)."""
    if not pairs:
        return [(f"{rival}'s fastest / our fastest", ratios(rows, batches))]
    found = []
    for ours, theirs in pairs:
        two = [row for row in rows if row.name == (ours if row.ours else f"{rival} {theirs}")]
        if len(two) == 2:
            found.append((f"{rival} {theirs} / {ours}", ratios(two, batches)))
    return found


def table(key, rows, rival, pairs):
    model, dtype, audio = key
    batches = sorted({batch for row in rows for batch in row.seconds})
    lines = [
        f"## {markdown(model)}, {markdown(dtype)}: {audio} s of audio",
        "",
        "| decoding and d2h, ms | " + " | ".join(f"batch {batch}" for batch in batches) + " | WER % | marks |",
        "|---|" + "--:|" * (len(batches) + 1) + "---|",
    ]
    for row in rows:
        lines.append("| " + " | ".join(row.cells(batches)) + " |")
    for what, values in summary(rows, batches, rival, pairs):
        lines.append(f"| **{markdown(what)}** | " + " | ".join(f"**{text}**" for text in values) + " | | |")
    return "\n".join(lines)


def main():
    parser = OneLineParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("journals", nargs="+", type=Path)
    parser.add_argument("--rival", nargs="+", type=Path, required=True)
    parser.add_argument("--pairs", nargs="+", default=[], metavar="OURS=THEIRS")
    parser.add_argument("--name", default="NeMo", help="the rival's name")
    parser.add_argument("-o", "--output", type=file_of("md"), help="file.md")
    arguments = parser.parse_args()

    pairs = [tuple(pair.split("=", 1)) for pair in arguments.pairs]
    if any(len(pair) != 2 for pair in pairs):
        parser.error("--pairs: each is OURS=THEIRS, two decoder ids")
    of_pairs = {ours for ours, _ in pairs}
    journals = [read_journal(path) for path in arguments.journals]
    tables = our_rows(
        journals,
        lambda case: case.decoder in of_pairs if pairs else case.last["decoder"].get("head") == "transducer",
    )
    for path in arguments.rival:
        add_rival(tables, read_records(path), arguments.name)
    compared = {key: list(rows.values()) for key, rows in tables.items()}
    compared = {key: rows for key, rows in compared.items() if any(not row.ours for row in rows)}
    if not compared:
        raise SystemExit("no model, dtype and length of audio is in both: nothing to compare")
    marks = {mark: meaning for journal in journals for mark, meaning in journal.mark_meanings.items()}
    parts = [table(key, rows, arguments.name, pairs) for key, rows in compared.items()]
    parts += [f"{mark}: {markdown(meaning)}." for mark, meaning in marks.items()]
    text = "\n\n".join(parts) + "\n"
    print(text, end="")
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run_script(main)
