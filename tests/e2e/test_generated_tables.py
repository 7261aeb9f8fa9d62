"""Tests that the tables that scripts write into pages agree with the committed journals."""

import importlib
import json
import re
import shutil

import pytest
from conftest import ROOT
from forked_script import script

PAGES = ["README.md", "reports/README.md", "reports/notes/rivals.md"]
REMEDY = """its table is not that of the journals: run scripts/rival_reports.py, scripts/chain_tables.py,
scripts/stream_tables.py, and scripts/readme_table.py reports/baselines/ci.jsonl.gz"""


def without_tables(text):
    """Returns a page without the text between its marks, and their number. A script must write each of them again."""
    return re.subn(r"(<!-- (\w+)[^>]*-->\n).*?(<!-- /\2 -->)", r"\1stale\n\3", text, flags=re.DOTALL)


def test_tables_between_marks_are_current(program, tmp_path):
    journals = tmp_path / "journals"
    journals.mkdir()
    folders = [ROOT / "reports" / folder for folder in importlib.import_module("rival_reports").FOLDERS]
    for folder in folders:
        for path in [*folder.glob("*.jsonl*"), *folder.glob("alignment.json")]:
            assert not (journals / path.name).exists(), f"{path.name}: two folders of reports have it"
            shutil.copy(path, journals)
    copies = [tmp_path / page.replace("/", "_") for page in PAGES]
    for page, copy in zip(PAGES, copies, strict=True):
        stale, tables = without_tables((ROOT / page).read_text(encoding="utf-8"))
        assert tables == stale.count("<!-- /") > 0
        copy.write_text(stale, encoding="utf-8")
    ci = ROOT / "reports/baselines/ci.jsonl.gz"
    runs = {"rival_reports": [journals, *copies], "chain_tables": [ROOT / "reports", *copies],
            "stream_tables": [ROOT / "reports/h200/streams", *copies], "readme_table": [ci, copies[0]]}  # fmt: skip
    for name, arguments in runs.items():
        made = script(f"scripts/{name}.py", *arguments, RTFX_BIN=str(program))
        assert made.returncode == 0, made.stderr
    for page, copy in zip(PAGES, copies, strict=True):
        assert copy.read_text(encoding="utf-8") == (ROOT / page).read_text(encoding="utf-8"), f"{page}: {REMEDY}"
    for made in journals.glob("*.md"):
        (kept,) = [folder / made.name for folder in folders if (folder / made.name).exists()]
        assert made.read_text() == kept.read_text(), f"{made.name}: {REMEDY}"


def test_alignment_is_compared_at_the_batch_sizes_of_both(program, tmp_path):
    """The table shows the best repeat of each program. Means over repeats and runs on a CPU do not count."""
    runs = [("cuda/batch1", "iteration", 900), ("cuda/batch1", "iteration", 1000), ("cuda/batch1", "aggregate", 5000),
            ("cpu/batch1", "iteration", 9000), ("cuda/batch32", "iteration", 20000)]  # fmt: skip
    made = [{"name": f"alignment/{name}/real_time", "run_type": kind, "rows/s": rate} for name, kind, rate in runs]
    (tmp_path / "alignment.json").write_text(json.dumps({"context": {"date": "2026-01-02T03:04"}, "benchmarks": made}))
    line = {"frames": 200, "tokens": 50, "device": "A GPU", "torchaudio": "2.11.0"}
    lines = [line | {"batch": batch, "rows_per_second": rate} for batch, rate in ((1, 500), (8, 500), (32, 400))]
    (tmp_path / "forced_align.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    page = tmp_path / "page.md"
    page.write_text("<!-- alignment -->\nold\n<!-- /alignment -->\n")
    made = script("scripts/rival_reports.py", tmp_path, page, RTFX_BIN=str(program))
    assert made.returncode == 0, made.stderr
    text = page.read_text()
    assert "| rtfx : torchaudio | 2x | 50x |" in text and "old" not in text
    assert "| | batch 1 | batch 32 |" in text and "A GPU, torchaudio 2.11.0, 2026-01-02." in text


@pytest.mark.parametrize("name", ["wfst", "wfst_cpu", "torchaudio"])
def test_compared_pairs_are_decoders_of_the_configuration(monkeypatch, name):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    reports = importlib.import_module("rival_reports")
    decoders = json.loads((ROOT / f"configs/rivals/{name}.json").read_text())["decoders"]
    baselines = {one["id"]: one.get("baseline") for one in decoders if isinstance(one, dict)}
    _, pairs = reports.JOURNALS[name]
    for _, ours, theirs in pairs:
        assert ours in baselines and baselines[theirs] == ours
