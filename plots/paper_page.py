"""Puts all published tables beside ours on one page: paper_page.py --table TABLE.json JOURNAL ... -o PAGE.md

TABLE.json is a file of configs/tables/, JOURNAL the run's folder or its journal, and empty for a table that was not
run. `rtfx reproduce --all` calls this script. The page begins with the effects, which are the published comparisons, and
says of each whether ours has the same direction. The whole tables and their figures follow.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import paper_table
import script
from cells import (
    METRICS,
    NONE,
    ONE_ROUND,
    REVERSED,
    SAME,
    digits_of,
    mark_of,
    neutral,
    other_size,
    our_interval,
    our_value,
)
from script import OneLineParser, file_of, markdown_row, run_script, write_text

NOT_RUN = "not run"
MARKS = [SAME, NONE, REVERSED, ONE_ROUND, NOT_RUN]
OTHER_SIZE = "of these, other size"
HEADS = [SAME, OTHER_SIZE, *MARKS[1:]]  # columns of the list of tables
EFFECT_HEADS = ["effect", "where", "paper", "ours", "95 % interval", "mark"]
RIGHT = "--:"


def is_effect(cell):
    """Says whether the published figure means that one arm is better than another."""
    nothing = neutral(cell["metric"])
    return cell["class"] == "R" and nothing is not None and float(cell["published"]) != nothing


@dataclass
class Effect:
    texts: list  # under EFFECT_HEADS
    mark: str
    is_other_size: bool
    is_repeat: bool  # compares a published figure again, over another baseline or with other kernels


def digits_for(interval, nothing, digits):
    """Returns the least number of decimals, four at most, at which no end of the interval rounds to `nothing`.

    `nothing` is the value that means no difference, and `digits` the number to begin with."""
    while digits < 4 and any(end != nothing and round(end, digits) == nothing for end in interval):
        digits += 1
    return digits


def effects_of(table, cases):
    """Yields the effects of a table."""
    for cell in filter(is_effect, table["cells"]):
        ours, interval = our_value(cases, cell), our_interval(cases, cell)
        found = mark_of(cell, ours, interval) or NOT_RUN
        digits = max(2, digits_of(cell["published"]))
        where = [cell["model"], cell.get("dataset"), f"batch {cell['batch']}"]
        ends = "–"
        if interval and ours is not None:
            close = digits_for(interval, neutral(cell["metric"]), digits)
            ends = f"[{interval[0]:.{close}f}, {interval[1]:.{close}f}]"
        size = "" if ours is None else other_size(found, ours, float(cell["published"]), neutral(cell["metric"]))
        texts = [f"{METRICS[cell['metric']]}: {cell['arm']}", ", ".join(filter(None, where)), cell["published"],
                 "–" if ours is None else f"{ours:.{digits}f}", ends, found + size]  # fmt: skip
        yield Effect(texts, found, bool(size), cell.get("again", False))


def counts_of(effects):
    """Returns the numbers under HEADS."""
    by_mark = [sum(effect.mark == mark for effect in effects) for mark in MARKS]
    return [by_mark[0], sum(e.is_other_size for e in effects if e.mark == SAME), *by_mark[1:]]


def figure_names(table):
    return [figure if isinstance(figure, str) else figure["name"] for figure in table["paper"].get("figures", [])]


def page(tables, folder):
    """Yields the lines of the page; `tables` are (name, table, journal or None)."""
    found = {name: list(effects_of(table, journal.cases if journal else [])) for name, table, journal in tables}
    yield "# Published tables and ours"
    yield ""
    yield ("An effect is a published comparison of two arms. It has the same direction where the 95 % interval of ours over "
           "rounds lies on the same side of no difference. Word error rates have no interval: their direction is that of the "
           "counted errors. Other size means less than half of the published effect, or more than twice: the effect of 1.9 times as "
           "fast is 0.9, and of 1.1 times 0.1. A table without effects has words, curves or counts alone.")  # fmt: skip
    yield from ("", markdown_row(["table", *HEADS]), f"|---|{'--:|' * len(HEADS)}")
    for name, _, journal in tables:
        state = "" if journal else " (not run)"
        shown = map(str, counts_of([e for e in found[name] if not e.is_repeat])) if found[name] else ["–"] * len(HEADS)
        yield f"| [{name}](#{name}){state} {markdown_row(shown)}"
    every = [effect for effects in found.values() for effect in effects]
    yield markdown_row(["all", *map(str, counts_of([e for e in every if not e.is_repeat]))])
    yield markdown_row(["again, over another baseline or with other kernels", *map(str, counts_of([e for e in every if e.is_repeat]))])
    for name, table, journal in tables:
        paper = table["paper"]
        yield from ("", f'<a id="{name}"></a>', "", f"## {script.markdown(paper['title'])}", "", f"{script.markdown(paper['reference'])}.", "")
        yield from (script.markdown(table["question"]), "")
        if journal is None:
            yield f"Not run. `rtfx reproduce {name}` runs it."
        else:
            for text in paper_table.stamps(table, journal):
                yield from (f"**{script.markdown(text)}**", "")
            machine, day = paper_table.run_on(journal), journal.provenance["started"][:10]
            yield f"Journal: {script.markdown(journal.path.name)}, {script.markdown(machine)}, {day}."
        if found[name] and journal is not None:
            if any("min_ms" in cell["metric"] for cell in filter(is_effect, table["cells"])):
                yield from ("", "Figures of least times have the interval of the mean times, which need not hold them.")
            yield from ("", markdown_row(EFFECT_HEADS), f"|---|---|{RIGHT}|{RIGHT}|{RIGHT}|---|")
            yield from (markdown_row(effect.texts) for effect in found[name])
        if journal is not None:
            yield from details(name, table, journal, folder)


def details(name, table, journal, folder):
    for figure in figure_names(table):
        file = folder / f"{name}_{figure}.svg"
        if file.is_file():
            yield from ("", f"![{name}: {figure}]({file.name})")
    lines = list(paper_table.markdown(table, journal))
    start = next(i for i, line in enumerate(lines) if line.startswith("| what differs"))
    yield from ("", "<details><summary>All figures of this table</summary>", "")
    # Headings of the table stand below that of the page.
    yield from (f"#{line}" if line.startswith("## ") else line for line in lines[start:])
    yield from ("", "</details>")


def read_one(table_file, journal_file):
    table = paper_table.read_table(table_file)
    return Path(table_file).stem, table, paper_table.read_cases(journal_file) if journal_file else None


def main():
    parser = OneLineParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", nargs=2, action="append", required=True, metavar=("TABLE", "JOURNAL"))
    parser.add_argument("-o", "--output", type=file_of("md"), required=True, help="page.md")
    arguments = parser.parse_args()
    tables = [read_one(*pair) for pair in arguments.table]
    write_text(arguments.output, "\n".join(page(tables, arguments.output.parent)) + "\n")
    marks = [effect.mark for _, table, journal in tables
             for effect in effects_of(table, journal.cases if journal else []) if not effect.is_repeat]  # fmt: skip
    counts = ", ".join(f"{marks.count(mark)} {mark}" for mark in MARKS if mark in marks)
    run = sum(journal is not None for _, _, journal in tables)
    print(f"{run} of {len(tables)} tables were run; of {len(marks)} effects: {counts}")
    print(f"page: {script.printable(arguments.output)}")


if __name__ == "__main__":
    run_script(main)
