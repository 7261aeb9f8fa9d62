"""Tests `rtfx transcribe` over files of which some are bad, and outputs that cannot be written."""

import fcntl
import json
import os
import re
import shutil
import struct
import subprocess

import pytest
from conftest import AUDIO, MODELS, runs_of, strict_records

CLIP = AUDIO / "qs10.flac"


def silence(path, hours):
    """Writes a WAV file of silence, 16 kHz and 16 bits, whose zeros take no space on the disk."""
    size = int(hours * 3600 * 16000) * 2
    with path.open("wb") as file:
        file.write(struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + size, b"WAVE", b"fmt ", 16, 1, 1,
                               16000, 32000, 2, 16, b"data", size))
        file.truncate(44 + size)
    return path


def test_a_bad_file_costs_no_other(transcribe, tmp_path):
    loop = tmp_path / "loop.wav"
    loop.symlink_to(loop)
    empty = tmp_path / "empty"
    empty.mkdir()
    bad = [silence(tmp_path / "long.wav", hours=30), loop, tmp_path / "gone.wav", empty]
    result = transcribe(*bad[:2], CLIP, *bad[2:], "--batch-size", 3,
                        "--long-above", 1e9)
    assert result.returncode == 1
    lines = result.stdout.splitlines()
    assert len(lines) == 1 and lines[0].startswith(f"{CLIP}: ") and len(lines[0]) > len(str(CLIP)) + 9
    errors = [line for line in result.stderr.splitlines() if line.startswith("rtfx: error: ")]
    assert len(errors) == 4
    for file in bad:
        assert sum(str(file) in line for line in errors) == 1, result.stderr
    (long,) = (line for line in errors if "long.wav" in line)
    assert re.search(r"108000 s of audio needs at least [\d.]+ GiB, of which [\d.]+ are free; cut", long)
    assert re.search(r"^rtfx: 1 of 4 files, [\d.]+ s of audio in [\d.]+ s, reading included: RTFx [\d.]+$",
                     result.stderr, re.M)


def test_a_file_that_a_manifest_lacks_costs_no_other(transcribe, tmp_path):
    manifest = tmp_path / "some.jsonl"
    manifest.write_text("".join(json.dumps({"audio_filepath": str(file)}) + "\n" for file in ("gone.wav", CLIP)))
    result = transcribe(manifest)
    assert result.returncode == 1
    assert result.stdout.startswith(f"{CLIP}: ") and len(result.stdout.splitlines()) == 1
    assert f"rtfx: error: {tmp_path / 'gone.wav'}: no such file" in result.stderr
    assert "rtfx: 1 of 2 files" in result.stderr


def test_a_batch_too_large_for_memory_is_a_failure_of_its_case(run_config, tmp_path):
    """A batch that is too large for memory fails alone, and the other cases of the run are measured."""
    long = silence(tmp_path / "long.wav", hours=1.5)
    manifest = tmp_path / "long.jsonl"
    manifest.write_text(json.dumps({"audio_filepath": str(long), "duration": 5400, "text": "a"}) + "\n")
    short = tmp_path / "short.jsonl"
    short.write_text(json.dumps({"audio_filepath": str(CLIP), "duration": 5.1, "text": "a"}) + "\n")
    result = run_config(datasets=[{"id": "long", "manifest": str(manifest)},
                                           {"id": "short", "manifest": str(short)}])
    assert result.returncode == 1
    records = strict_records(tmp_path / "run/journal.jsonl")
    failures = [r for r in records if r["kind"] == "failure"]
    assert failures and all("/long/" in r["case"] for r in failures)
    assert "5400 s of audio needs at least" in failures[0]["message"]
    assert {r["case"].split("/")[1] for r in runs_of(records)} == {"short"}


def test_two_processes_do_not_write_one_journal(rtfx, config, tmp_path):
    folder = tmp_path / "run"
    assert rtfx("run", config(), "--output", folder).returncode == 0
    before = (folder / "journal.jsonl").read_bytes()
    with (folder / "journal.jsonl").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        for mode in ("--resume", "--force"):
            result = rtfx("run", config(), "--output", folder, mode)
            assert result.returncode == 2
            assert "journal.jsonl: is being written by another process of rtfx" in result.stderr
    assert (folder / "journal.jsonl").read_bytes() == before
    assert not (folder / "journal.jsonl.1").exists()


def test_a_full_standard_output_is_an_error(program):
    for command in (["list"], ["list", "config"]):
        with open("/dev/full", "w") as full:
            result = subprocess.run([program, *command], stdout=full, stderr=subprocess.PIPE, text=True)
        assert result.returncode == 1
        assert "standard output: cannot be written: No space left on device" in result.stderr


@pytest.mark.parametrize("command", ["transcribe", "stream"])
def test_a_full_standard_output_ends_the_work(program, command):
    """The last line of a finished work is missing, which has its speed."""
    arguments = ["--model", MODELS / "quickstart-rnnt.nemo", "--threads", "1", CLIP]
    with open("/dev/full", "w") as full:
        result = subprocess.run([program, command, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1 and "RTFx" not in result.stderr
    assert "standard output: cannot be written: No space left on device" in result.stderr


def test_files_are_not_written_over_devices(rtfx, run_config, tmp_path):
    assert run_config().returncode == 0
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    result = rtfx("export", tmp_path / "run", "--to", "csv", "--output", pipe)
    assert result.returncode == 2 and "is a device or pipe" in result.stderr
    assert pipe.is_fifo()


def test_a_gpu_takes_its_own_search_and_batches(transcribe):
    if not shutil.which("nvidia-smi") or subprocess.run(["nvidia-smi", "-L"], capture_output=True).returncode:
        pytest.skip("needs a GPU")
    said = ["--device", "cuda", "--json", *sorted(AUDIO.glob("*.flac"))]
    plain = transcribe("--decoder", "label_looping", "--batch-size", 1, *said)
    tokens = [[json.loads(line)["tokens"] for line in run.stdout.splitlines()] for run in (plain, transcribe(*said))]
    assert len(tokens[0]) == 24 and tokens[0] == tokens[1]


def test_a_blank_penalty_gives_more_letters(transcribe):
    def text(penalty):
        result = transcribe("--options", json.dumps({"blank_penalty": penalty}), AUDIO / "qs01.flac")
        assert result.returncode == 0
        return result.stdout.strip()

    none, some, large = text(0), text(1), text(6)
    assert none == transcribe(AUDIO / "qs01.flac").stdout.strip()
    assert none != some and len(none) <= len(some) < len(large)


@pytest.mark.parametrize("wrong", [-1, 10001, "much"])
def test_a_blank_penalty_is_a_number_from_0_on(transcribe, wrong):
    result = transcribe("--options", json.dumps({"blank_penalty": wrong}), AUDIO / "qs01.flac")
    assert result.returncode == 2
    errors = [line for line in result.stderr.splitlines() if line.startswith("rtfx: error: ")]
    assert len(errors) == 1 and "blank_penalty" in errors[0] and "a number 0..10000" in errors[0]


@pytest.mark.parametrize("command", ["transcribe", "stream"])
@pytest.mark.parametrize("text, problem", [("5", "5 is not a JSON object"), ("{", "not JSON")])
def test_options_of_a_decoder_are_an_object(rtfx, command, text, problem):
    result = rtfx(command, "--model", MODELS / "quickstart-rnnt.nemo", "--options", text, CLIP)
    assert result.returncode == 2 and f"rtfx: error: --options: {problem}" in result.stderr
    assert result.stderr.endswith("""; for example '{"window": 8}'\n""") and result.stderr.count("\n") == 1
