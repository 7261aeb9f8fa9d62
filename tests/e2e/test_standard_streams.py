"""Tests that a closed, full or unread standard output or standard error costs neither a run nor a verdict."""

import json
import os
import shutil
import string
import subprocess
import unicodedata

import pytest
from conftest import AUDIO, MODELS, ROOT, runs_of, strict_records
from terminal import on_terminal

FAILED, INCONCLUSIVE, CORRECTNESS = 1, 11, 13


def unread(command):
    """Runs the command with a pipe that nobody reads. SIGPIPE is ignored, as on some CI runners, so prints fail with
    EPIPE."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as output:
        return subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, restore_signals=False, timeout=300)


def test_files_are_written_without_a_reader(program, tmp_path):
    """Only the paths of the files go to standard output."""
    clips = [AUDIO / "qs10.flac", AUDIO / "qs01.flac"]
    unread([program, "transcribe", "--model", MODELS / "quickstart-rnnt.nemo", "--threads", "1", "--output", tmp_path, *clips])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["qs01.txt", "qs10.txt"]


def test_the_verdict_of_a_gate_stands_without_a_reader(program):
    journal = ROOT / "reports/tables/beam_table1.jsonl.gz"  # its table exceeds the buffer of the output
    result = unread([program, "gate", journal, "--baseline", journal])
    assert result.returncode == INCONCLUSIVE, result.stderr
    assert unread([program, "gate", journal, "--baseline", journal, "--allow-inconclusive"]).returncode == 0


@pytest.mark.parametrize("isolate", [False, True])
def test_the_verdict_of_a_run_stands_without_a_reader(program, config, tmp_path, isolate):
    limited = {"id": "x" * 5000, "name": "label_looping", "options": {"max_symbols": 1}}  # exceeds the buffer
    dataset = {"id": "one", "files": [str(AUDIO / "1737-146161-0011.flac")]}
    path = config(decoders=["frame_looping", limited], datasets=[dataset], isolate=isolate)
    result = unread([program, "run", path, "--output", tmp_path / "run"])
    assert result.returncode == CORRECTNESS, result.stderr
    assert "below the required exactness" in result.stderr


def test_messages_that_cannot_be_written_cost_no_run(program, config, tmp_path):
    with open("/dev/full", "w") as full:
        result = subprocess.run([program, "run", config(), "--output", tmp_path / "run"], stdout=subprocess.PIPE, stderr=full, timeout=300)
        assert result.returncode == 0 and len(runs_of(strict_records(tmp_path / "run/journal.jsonl"))) == 2
        assert subprocess.run([program, "validate", tmp_path / "none.json"], stderr=full, timeout=300).returncode == 2


@pytest.mark.parametrize("closed", ["2>&-", "0<&- 2>&-", "0<&-"])
def test_a_journal_never_takes_the_place_of_a_closed_stream(program, config, tmp_path, closed):
    script = f'exec "$0" "$@" {closed}'
    command = ["bash", "-c", script, program, "run", config(), "--output", tmp_path / "run"]
    result = subprocess.run(command, stdout=subprocess.PIPE, timeout=300)
    assert result.returncode == 0
    assert len(runs_of(strict_records(tmp_path / "run/journal.jsonl"))) == 2


def test_a_closed_standard_output_is_an_error(program):
    result = subprocess.run(["bash", "-c", 'exec "$0" list >&-', program], stderr=subprocess.PIPE, text=True, timeout=300)
    assert result.returncode == FAILED and "standard output: cannot be written: Bad file descriptor" in result.stderr


@pytest.mark.parametrize("first", ["A", "\u4e00"])
def test_the_live_line_fits_into_a_row_of_the_terminal(program, tmp_path, first):
    """Otherwise a carriage return would leave its first row on the screen. An ideograph takes two of 30 columns."""
    shutil.copytree(ROOT / "tests/data/checkpoints/tiny_hf_ctc", tmp_path / "model")
    path = tmp_path / "model/tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    letters = {ord(letter): ord(first) + i for i, letter in enumerate(string.ascii_uppercase)}
    tokenizer["model"]["vocab"] = [[piece.translate(letters), score] for piece, score in tokenizer["model"]["vocab"]]
    path.write_text(json.dumps(tokenizer), encoding="utf-8")
    command = [program, "stream", "--threads", "1", "--model", path.parent, "--buffer", "0.5,2,0.5", AUDIO / "qs01.flac"]
    text = on_terminal(command, 30, stderr=subprocess.DEVNULL)
    lines = [line for line in text.split("\r\033[K") if "\n" not in line]  # an utterance's end has a line break
    widths = [sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line) for line in lines]
    assert 28 <= max(widths) <= 29
