"""Tests that the program reads every committed journal, packed with gzip."""

import json

import pytest
from conftest import ROOT
from journal import read_records


def kinds(path):
    """Returns the kinds of records of a journal of `rtfx run` or `rtfx stream`. It returns none for
    profiles and for measurements of other programs, since figures read these themselves."""
    records = read_records(path)
    first = records[0]
    if first.get("kind") != "provenance" or first.get("profiled"):
        return set()
    return {record["kind"] for record in records}


JOURNALS = {
    str(path.relative_to(ROOT)): found
    for path in sorted((ROOT / "reports").rglob("*.jsonl*"))
    if (found := kinds(path))
}


def test_there_are_journals():
    assert len(JOURNALS) > 40


@pytest.mark.parametrize("journal", JOURNALS)
def test_every_committed_journal_has_cases_and_a_table(rtfx, journal):
    result = rtfx("summary", str(ROOT / journal))
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    cases = [case for case in summary["cases"] if case["rounds"]]
    streams = [case for case in summary["streams"] if case["rounds"]]
    assert cases or streams
    assert ("stream" in JOURNALS[journal]) == bool(streams)
    grades = {case["grade"] for case in cases} - {None}
    assert grades <= {"baseline", "bitwise", "exact", "rounding", "text", "wer", "different"}
    if "run" in JOURNALS[journal]:
        table = rtfx("export", str(ROOT / journal), "--to", "markdown")
        assert table.returncode == 0, table.stderr
        assert table.stdout.count("\n") > len(cases)
