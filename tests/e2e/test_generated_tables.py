"""The tables that scripts write into pages are those of the committed journals."""

import shutil

from conftest import ROOT
from forked_script import script

PAGES = ["README.md", "reports/README.md", "reports/notes/rivals.md"]
REMEDY = """its table is not that of the journals: run scripts/rival_reports.py, scripts/chain_tables.py,
scripts/stream_tables.py, and scripts/readme_table.py reports/baselines/ci.jsonl.gz"""


def test_tables_between_marks_are_current(program, tmp_path):
    journals = tmp_path / "journals"
    journals.mkdir()
    for folder in ("h200/rivals", "h100/searches"):
        for path in (ROOT / "reports" / folder).glob("*.jsonl.gz"):
            shutil.copy(path, journals)
    copies = [tmp_path / page.replace("/", "_") for page in PAGES]
    for page, copy in zip(PAGES, copies, strict=True):
        shutil.copy(ROOT / page, copy)
    ci = ROOT / "reports/baselines/ci.jsonl.gz"
    runs = {"rival_reports": [journals, *copies], "chain_tables": [ROOT / "reports/h100/chain", *copies],
            "stream_tables": [ROOT / "reports/h100/streams", *copies], "readme_table": [ci, copies[0]]}  # fmt: skip
    for name, arguments in runs.items():
        made = script(f"scripts/{name}.py", *arguments, RTFX_BIN=str(program))
        assert made.returncode == 0, made.stderr
    for page, copy in zip(PAGES, copies, strict=True):
        assert copy.read_text() == (ROOT / page).read_text(), f"{page}: {REMEDY}"
    for made in journals.glob("*.md"):
        assert made.read_text() == (ROOT / "reports/h200/rivals" / made.name).read_text(), f"{made.name}: {REMEDY}"
