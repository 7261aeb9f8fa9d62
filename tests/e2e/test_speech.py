"""Tests datasets/speak_librispeech.py: speech of exact lengths, spoken once, and errors."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import soundfile
from conftest import ROOT

SAMPLES = {"1688-142285-0000": 240000, "1688-142285-0001": 202000, "1688-142285-0002": 45360}

needs_espeak = pytest.mark.skipif(
    shutil.which("espeak-ng") is None, reason="espeak-ng is not installed: apt install espeak-ng"
)


def speak(*arguments):
    command = [sys.executable, ROOT / "datasets/speak_librispeech.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spoken")
    result = speak(folder, "--limit", 3)
    assert result.returncode == 0 and "(3 new)" in result.stdout, result.stderr
    return folder


@needs_espeak
def test_lengths_are_exact_and_the_speech_is_heard(spoken):
    lines = [json.loads(line) for line in (spoken / "manifest.jsonl").read_text().splitlines()]
    assert len(lines) == len(SAMPLES)
    for line, (name, samples) in zip(lines, SAMPLES.items(), strict=True):
        audio, rate = soundfile.read(spoken / line["audio_filepath"])
        assert (name in line["audio_filepath"], rate, audio.shape) == (True, 16000, (samples,))
        assert line["duration"] == samples / 16000
        # From the first half second to the last one, none is silent.
        half_seconds = audio[: samples // 8000 * 8000].reshape(-1, 8000)
        assert np.abs(half_seconds).max(axis=1).min() > 0.01
    assert lines[2]["text"] == "you don't mean that you thought me so silly"


@needs_espeak
def test_what_is_there_is_kept_and_a_wrong_length_is_made_anew(spoken):
    paths = sorted((spoken / "audio").iterdir())
    before = [path.read_bytes() for path in paths]
    paths[0].write_bytes(before[1])
    paths[1].unlink()
    result = speak(spoken, "--limit", 3)
    assert result.returncode == 0 and "(2 new)" in result.stdout, result.stderr
    assert [path.read_bytes() for path in paths] == before


@needs_espeak
def test_each_set_has_its_texts_and_its_name(spoken, tmp_path):
    assert speak(tmp_path, "--set", "test-clean", "--limit", 1).returncode == 0
    (line,) = (tmp_path / "manifest.jsonl").read_text().splitlines()
    assert json.loads(line)["duration"] == 166960 / 16000 and "stew for dinner" in line
    for folder, name in ((spoken, "test-other"), (tmp_path, "test-clean")):
        assert (folder / "stand_in.txt").read_text() == f"espeak-ng speech of LibriSpeech {name}'s transcripts\n"


@needs_espeak
def test_a_folder_holds_one_set(spoken):
    result = speak(spoken, "--set", "test-clean", "--limit", 1)
    assert result.returncode == 1 and "holds espeak-ng speech of LibriSpeech test-other's transcripts; give another folder" in result.stderr
    assert "1688-142285" in (spoken / "manifest.jsonl").read_text()


@pytest.mark.parametrize("name, utterances, hours, words", [("test-other", 2939, 5.3415, 52343), ("test-clean", 2620, 5.4035, 52576)])
def test_the_sets_are_whole(monkeypatch, name, utterances, hours, words):
    monkeypatch.syspath_prepend(str(ROOT / "datasets"))
    from speak_librispeech import read_transcripts

    rows = read_transcripts(name)
    assert len(rows) == utterances == len({identifier for identifier, _, _ in rows})
    assert round(sum(samples for _, samples, _ in rows) / 16000 / 3600, 4) == hours
    assert sum(len(text.split()) for _, _, text in rows) == words


@needs_espeak
@pytest.mark.parametrize("ending", ["wav", "ogg"])
def test_other_formats_keep_the_length(tmp_path, ending):
    assert speak(tmp_path, "--limit", 2, "--format", ending).returncode == 0
    audio, _ = soundfile.read(tmp_path / f"audio/1688-142285-0001.{ending}")
    assert audio.size == 202000


@needs_espeak
def test_the_program_reads_it(spoken, transcribe):
    result = transcribe(*sorted((spoken / "audio").iterdir()))
    assert result.returncode == 0, result.stderr
    assert all(len(line.split(": ")[1].split()) > 3 for line in result.stdout.splitlines())


def test_missing_program_names_the_remedy(tmp_path):
    result = speak(tmp_path, "--espeak", "espeak-of-nowhere")
    assert result.returncode == 1 and result.stderr.count("\n") == 1
    assert "espeak-of-nowhere" in result.stderr and "apt install espeak-ng" in result.stderr


def test_wrong_limit(tmp_path):
    assert "--limit" in speak(tmp_path, "--limit", 0).stderr
