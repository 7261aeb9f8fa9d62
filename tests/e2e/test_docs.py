"""Tests README and docs: links have a target, JSON is valid, and the named commands and options exist."""

import functools
import json
import re
import shlex

import pytest
from conftest import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "reports/README.md"]
PAGES += [ROOT / "algorithms/README.md", *sorted((ROOT / "rivals").rglob("README.md")), *sorted((ROOT / "reports/notes").glob("*.md"))]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
IDS = [str(page.relative_to(ROOT)) for page in PAGES]


def blocks(page, language):
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def anchors(page):
    """Returns the anchors of a page's headings as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page):
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_json_is_json(page):
    for block in blocks(page, "json"):
        json.loads(block)


def commands(page):
    """Yields the arguments of each `rtfx` command in the page's shell blocks."""
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            line = re.sub(r"\s# .*", "", line)
            if match := re.search(r"(?:^|\s)build/release/rtfx\s+([^|&;>]*)", line):
                yield shlex.split(match[1])


@functools.cache
def help_of(rtfx, *subcommand):
    result = rtfx(*subcommand, "--help")
    return result.stdout if result.returncode == 0 else None


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_commands_and_their_options_exist(rtfx, page):
    wrong = []
    for words in commands(page):
        if words[0].startswith("-"):
            continue
        nested = words[:2] if words[0] == "graph" else words[:1]
        text = help_of(rtfx, *nested)
        unknown = [w for w in words if re.match(r"-{1,2}[a-z]", w) and text and
                   not re.search(rf"(?<![\w-]){re.escape(w.split('=')[0])}\b", text)]  # fmt: skip
        if text is None or unknown:
            wrong.append((words, unknown))
    assert not wrong


REFERENCE = ["configuration", "decoders", "metrics", "command_line", "journal"]


@pytest.mark.parametrize("page", REFERENCE)
def test_reference_pages_are_what_the_program_prints(rtfx, page):
    """The reference pages, which scripts/reference.sh writes, equal what the program prints."""
    printed = rtfx("reference", page)
    assert printed.returncode == 0
    assert printed.stdout == (ROOT / f"docs/reference/{page}.md").read_text(encoding="utf-8")


def test_schema_of_journals_is_what_the_program_prints(rtfx):
    printed = rtfx("reference", "journal_schema")
    assert printed.stdout == (ROOT / "docs/journal.schema.json").read_text(encoding="utf-8")


def test_every_reference_page_is_committed(rtfx):
    assert f"'{REFERENCE[0]}'" in rtfx("reference", "configurations").stderr
    made = {path.stem for path in (ROOT / "docs/reference").glob("*.md") if path.read_text().startswith("<!-- `scripts/reference.sh`")}
    assert made == set(REFERENCE)


def test_readme_has_commands():
    assert len(list(commands(ROOT / "README.md"))) > 5


def test_the_citation_has_the_version_of_the_project():
    project = re.search(r"^project\(rtfx VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)
    assert f"\nversion: {project[1]}\n" in (ROOT / "CITATION.cff").read_text()


def test_readme_is_short():
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("\n") <= 150
