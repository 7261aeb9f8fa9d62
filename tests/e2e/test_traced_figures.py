"""Tests that every figure of the pages comes from a committed journal, as reports/figures.py and note_figures.py
state."""

import figures
import note_figures
import pytest
import traced

PAGES = figures.PAGES + note_figures.PAGES
HELP = """
A measured figure has an entry in reports/figures.py or note_figures.py: the words around it with {} in the place of the number, and its value
from a journal of reports/. Correct the page, point the entry at the new journal, or add an entry. A number that nobody
measured is named with stated() and a reason."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_figures_are_those_of_the_journals(page):
    wrong = list(traced.check(page))
    assert not wrong, "\n".join(wrong) + "\n" + HELP


@pytest.mark.parametrize("printed, value, equal", [
    ("24,089", 24089.4, True), ("24,089", 24089.6, False),
    ("222,900", 222949, True), ("222,900", 222951, False),  # zeros at the end are rounded
    ("1.30", 1.304, True), ("1.30", 1.31, False), ("-0.3", -0.26, True), ("1,000", 1004, True), ("1,000", 1006, False),
])  # fmt: skip
def test_a_number_is_compared_at_its_printed_precision(printed, value, equal):
    assert traced.agrees(printed, value) == equal


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """Returns the faults of a page with these words, whose entry for "takes {} s" is 1.25."""

    def check(text):
        monkeypatch.setattr(traced, "ROOT", tmp_path)
        (tmp_path / "page.md").write_text(text)
        page = traced.Page("page.md", ["Needs"])
        page.figure("takes {} s", 1.25)
        page.stated("setting", "in 3 rounds")
        return list(traced.check(page))

    return check


NEEDS = "\n## Needs\n\n8 GB of memory\n"


def test_traced_and_allowed_numbers_pass(checked):
    page = "# Page 7\n\nOn 2026-11-26 it\ntakes 1.25 s in 3 rounds at batch 1, 8 and 32 of `x 5` in bf16 ([a](b/7.md)).\n"
    table = "<!-- table:a -->\n| 9 |\n<!-- /table -->\n\n| batch | 64 |\n|---|--:|\n"
    assert checked(page + table + NEEDS) == []


@pytest.mark.parametrize("page, complaint", [
    ("It takes 1.26 s in 3 rounds.", "page.md:1: prints 1.26, and the journal gives 1.25"),
    ("It takes 1.25 s in 3 rounds.\nThis is 40 % less.", "page.md:2: 40 is traced to no journal: This is 40 % less."),
    ("It needs 1.25 s in 3 rounds.", "page.md: no longer says 'takes {} s'"),
    ("It takes 1.25 s in 5 rounds.", "page.md: no longer says 'in 3 rounds'"),
])  # fmt: skip
def test_others_are_named_with_page_and_line(checked, page, complaint):
    wrong = checked(page + "\n" + NEEDS)
    assert wrong and wrong[0].startswith(complaint)
