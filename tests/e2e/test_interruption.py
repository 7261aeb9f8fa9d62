"""Tests that a run that ends early by Ctrl-C, a crash or a full disk keeps its earlier results."""

import os
import re
import resource
import shlex
import signal
import subprocess

import numpy as np
import pytest
import soundfile
from conftest import AUDIO, MODELS, descriptors, rounds_in, runs_of, strict_records, wait_until


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "run/journal.jsonl"


@pytest.fixture
def start(popen, program, config, tmp_path):
    """Returns a function that starts a run of 1000 rounds in the background. The run ends with the test at the
    latest."""

    def run():
        many = {"warmup_rounds": 0, "measured_rounds": 1000}
        return popen([program, "run", config(protocol=many), "--output", tmp_path / "run", "--threads", "1",
                      "--set", "question=What is next?"])  # fmt: skip

    return run


def assert_each_round_once(records, rounds):
    found = sorted((record["decoder"]["id"], record["round"]) for record in runs_of(records))
    expected = [(d, r) for d in ("frame_looping", "label_looping") for r in range(rounds)]
    assert found == expected


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_and_resumed(start, run_config, journal, signal_number):
    process = start()
    wait_until(process, lambda: rounds_in(journal) >= 2)
    process.send_signal(signal_number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume" in stderr
    (command,) = re.findall(r"^next: rtfx (.*)$", stdout, re.MULTILINE)
    output = str(journal.parent)
    assert shlex.split(command) == ["run", str(journal.parents[1] / "config.json"), "--set", "question=What is next?",
                                    "--threads", "1", "--output", output, "--resume"]  # fmt: skip

    before = strict_records(journal)
    rounds = 2 + max(record["round"] for record in runs_of(before))
    result = run_config("--resume", "--set", f"protocol.measured_rounds={rounds}")
    assert result.returncode == 0, result.stderr
    after = strict_records(journal)
    assert after[: len(before)] == before
    assert_each_round_once(after, rounds)


def test_killed_while_writing_and_resumed(start, run_config, journal):
    process = start()
    wait_until(process, lambda: rounds_in(journal) >= 2)
    process.kill()
    process.wait(timeout=60)
    whole = [line for line in journal.read_text().splitlines(keepends=True) if line.endswith("\n")]
    journal.write_text("".join(whole) + '{"kind": "run", "rou')

    rounds = 2 + sum('"kind":"run"' in line for line in whole) // 2
    result = run_config("--resume", "--set", f"protocol.measured_rounds={rounds}")
    assert result.returncode == 0, result.stderr
    assert_each_round_once(strict_records(journal), rounds)


@pytest.fixture
def speech(popen, program, tmp_path):
    """speech(arguments) starts `rtfx transcribe` with standard input and a folder of its own for temporary files."""

    def run(*arguments, stdin):
        command = [program, "transcribe", "--model", MODELS / "quickstart-rnnt.nemo", "--threads", "1", *arguments]
        return popen(command, stdin=stdin, env=os.environ | {"TMPDIR": str(tmp_path)})

    return run


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_while_it_transcribes(speech, tmp_path, signal_number):
    """After a signal, finished results stay, and the copy of standard input is removed."""
    samples, rate = soundfile.read(AUDIO / "qs10.flac", dtype="int16")
    soundfile.write(tmp_path / "hour.wav", np.tile(samples, 3600 * rate // len(samples)), rate)
    with (tmp_path / "hour.wav").open() as hour:
        process = speech("--long-above", "60", AUDIO / "qs10.flac", "-", stdin=hour)
    assert process.stdout.readline().startswith(f"{AUDIO / 'qs10.flac'}: ")
    process.send_signal(signal_number)
    rest, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert rest == "" and "rtfx: 1 of 2 files" in error and error.endswith("rtfx: interrupted\n")
    assert not list(tmp_path.glob("rtfx-*"))


def has_nameless_file(process, folder):
    """Returns whether the process has an open file of the folder that is deleted already."""
    return any(file.startswith(f"{folder}/") and file.endswith(" (deleted)") for file in descriptors(process))


@pytest.mark.parametrize("signal_number, code", [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_interrupted_while_it_reads_standard_input(speech, tmp_path, signal_number, code):
    process = speech("-", stdin=subprocess.PIPE)
    wait_until(process, lambda: has_nameless_file(process, tmp_path))
    process.send_signal(signal_number)
    assert process.wait(timeout=60) == code
    assert not list(tmp_path.glob("rtfx-*"))


def test_interrupted_before_live_speech_begins(popen, program):
    command = [program, "stream", "--model", MODELS / "quickstart-rnnt.nemo", "--threads", "1", "-"]
    process = popen(command, stdin=subprocess.PIPE)
    assert process.stderr.readline().startswith("rtfx: notice: ")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert process.stderr.read().endswith("rtfx: interrupted\n")


@pytest.mark.parametrize("is_file", [True, False])
def test_interrupted_live_speech_misses_the_rest_of_a_file_only(popen, program, tmp_path, is_file):
    """Ctrl-C is the way to end a recording, but the text of a file is then incomplete."""
    samples, rate = soundfile.read(AUDIO / "qs10.flac", dtype="int16")
    hour = tmp_path / "hour.wav"
    soundfile.write(hour, np.tile(samples, 3600 * rate // len(samples)), rate)
    with hour.open() as stdin:
        process = popen([program, "stream", "--model", MODELS / "quickstart-rnnt.nemo", "--threads", "1", "--json",
                         hour if is_file else "-"], stdin=stdin)  # fmt: skip
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == (130 if is_file else 0), error
    told = f"rtfx: interrupted; the text of the rest of {hour} is missing\n"
    assert told in error if is_file else "is missing" not in error


@pytest.mark.parametrize("limit", [1000, 5000, 7000])
def test_disk_full(run_config, journal, limit):
    """A run that cannot write its journal ends with an error and can be resumed. A limit on file sizes stands for a
    full disk."""

    def limit_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    # With restore_signals=False, SIGXFSZ stays ignored as in Python, so writes fail with an error.
    rounds = ["--set", "protocol.measured_rounds=5"]
    settings = {"preexec_fn": limit_files, "restore_signals": False}
    result = run_config(*rounds, settings=settings)
    assert result.returncode in (1, 2)
    assert "journal.jsonl" in result.stderr
    assert "too large" in result.stderr or "No space" in result.stderr
    if journal.stat().st_size:
        strict_records(journal)  # every record is whole

    # With enough space, the run goes on where it stopped.
    result = run_config("--resume", *rounds)
    assert result.returncode == 0, result.stderr
    assert_each_round_once(strict_records(journal), 5)


def test_file_in_place_of_the_output_folder(rtfx, config, tmp_path):
    (tmp_path / "file").touch()
    result = rtfx("run", config(), "--output", tmp_path / "file/run")
    assert result.returncode == 2 and str(tmp_path / "file") in result.stderr
