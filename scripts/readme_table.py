"""Writes the table of a run into README.md: readme_table.py RUN [README.md]

The table replaces the text between `<!-- table:NAME -->` and `<!-- /table -->`, where NAME is the run's name.
`<!-- table:NAME model=ID batch=8 -->` selects the rows of that model and batch.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "plots"))

from journal import read_journal  # noqa: E402
from rival_reports import rewrite  # noqa: E402
from script import counted, decimals_of, markdown  # noqa: E402


def number(case, metric):
    """Returns mean and deviation over rounds, with the digits of the program's tables."""
    mean, deviation = case.metric(metric)
    if mean is None:
        return "–"
    digits = decimals_of(mean)
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}" if len(case.rounds) > 1 else f"{mean:.{digits}f}"


def word_errors(case):
    wer = case.last.get("wer", {}).get("wer")
    return f"{100 * wer:.2f}" if wer is not None and case.has_words else "–"


def table(journal, wanted):
    yield "| model | decoder | batch | type | RTFx total | RTFx decode | WER % | grade |"
    yield "|---|---|--:|---|--:|--:|--:|---|"
    for case in journal.cases:
        if any(str(getattr(case, key)) != value for key, value in wanted):
            continue
        if case.last["decoder"].get("control_of"):
            continue  # a second run of another row, for the gate
        grade = "FAILED" if case.failure else case.grade or "–"
        grade = grade.replace("baseline", "(baseline)")
        approximate = ["~"] if case.is_approximate and case.grade else []
        grade = " ".join([grade, *approximate, *case.marks])
        yield (
            f"| {markdown(case.model)} | {markdown(case.decoder)} | {case.batch} | {case.dtype} "
            f"| {number(case, 'rtfx.total')} | {number(case, 'rtfx.decode')} "
            f"| {word_errors(case)} | {grade} |"
        )
    about = journal.provenance
    revision = about["rtfx"]["revision"][:12]
    yield ""
    yield (
        f"{markdown(about['device']['name'])}, {counted(about['cpu']['threads'], 'thread')}, "
        f"rtfx {about['rtfx']['version']} ({revision}), {about['started'][:10]}."
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="folder of a run, or a journal")
    parser.add_argument("readme", nargs="?", type=Path, default=ROOT / "README.md")
    arguments = parser.parse_args()
    journal = read_journal(arguments.run)
    name = re.escape(journal.provenance.get("name", ""))

    def lines(wanted):
        return table(journal, [part.split("=", 1) for part in wanted.split()])

    if not rewrite([arguments.readme], rf"table:{name}((?: \w+=\S+)*)", lines):
        raise SystemExit(f"{arguments.readme}: holds no <!-- table:{name} --> ... <!-- /table -->")


if __name__ == "__main__":
    main()
