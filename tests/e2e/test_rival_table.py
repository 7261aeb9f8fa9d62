"""plots/rival_table.py: ours beside a rival's times."""

import json
import subprocess
import sys

import pytest
from conftest import ROOT

JOURNAL = ROOT / "reports/h200/greedy_forms_bf16.jsonl"
RIVAL = ROOT / "reports/h200/nemo_rnnt.jsonl"


def table(*arguments):
    command = [sys.executable, ROOT / "plots/rival_table.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rival_record(**changes):
    record = {"model": "standin-rnnt.nemo", "decoder": "label", "dtype": "bf16", "batch": 32}
    return record | {"audio_s": 1213.6, "decode_s": 0.1, "wer": 27.2} | changes


def cells(text, name):
    row = next(line for line in text.splitlines() if line.strip("|* ").startswith(name))
    return [cell.strip("* ") for cell in row.strip("|").split("|")]


def test_the_ratio_is_of_the_fastest(tmp_path):
    rival = tmp_path / "rival.jsonl"
    records = [rival_record(), rival_record(decoder="frame", decode_s=0.05)]
    rival.write_text("".join(json.dumps(record) + "\n" for record in records))
    result = table(JOURNAL, "--rival", rival, "--name", "Other")
    assert result.returncode == 0, result.stderr
    heads = cells(result.stdout, "decoding and d2h")
    at = heads.index("batch 32")
    assert cells(result.stdout, "Other frame")[at] == "50.0"
    ours = float(cells(result.stdout, "fused_persistent")[at])
    ratio = float(cells(result.stdout, "Other's fastest")[at])
    assert ratio == pytest.approx(50 / ours, rel=0.02)
    assert cells(result.stdout, "Other's fastest")[heads.index("batch 1")] == "–"


def test_other_audio_is_not_compared(tmp_path):
    rival = tmp_path / "rival.jsonl"
    rival.write_text(json.dumps(rival_record(audio_s=2887.0)) + "\n")
    result = table(JOURNAL, "--rival", rival)
    assert result.returncode == 1
    assert "nothing to compare" in result.stderr


def test_the_committed_table_is_that_of_the_committed_journals(tmp_path):
    journals = [JOURNAL, JOURNAL.with_name("greedy_forms_fp32.jsonl")]
    made = tmp_path / "made.md"
    result = table(*journals, "--rival", RIVAL, RIVAL.with_name("nemo_tdt.jsonl"), "-o", made)
    assert result.returncode == 0, result.stderr
    assert made.read_text() == (ROOT / "reports/h200/greedy_forms.md").read_text()
