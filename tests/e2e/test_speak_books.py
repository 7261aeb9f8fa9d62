"""Tests datasets/speak_books.py, which speaks sentences of books, without those of test sets, as Opus with
manifests."""

import json
import shutil
import subprocess
import sys

import pytest
import soundfile
from conftest import ROOT

BOOK = """Produced by volunteers in 1904
*** START OF THIS PROJECT GUTENBERG EBOOK A BOOK ***

CHAPTER ONE

The boat went slowly down the river, and nobody spoke a word. "Is it far?" she asked them.

There were 12 men in it.

He had never seen so many green lamps in one place before.

*** END OF THIS PROJECT GUTENBERG EBOOK A BOOK ***
The licence of this book is very long.
"""


@pytest.fixture
def speak_books(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "datasets"))
    import speak_books

    return speak_books


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text(BOOK, encoding="utf-8")
    return path


def test_sentences_without_headings_numbers_and_notes(speak_books, book):
    assert list(speak_books.sentences_of(book)) == [
        "The boat went slowly down the river, and nobody spoke a word.",
        '"Is it far?" she asked them.',
        "He had never seen so many green lamps in one place before.",
    ]


def test_sentences_of_test_sets_are_not_spoken(speak_books, book):
    every = {text for _, text in speak_books.utterances_of([book], set())}
    assert any("so many green lamps" in text for text in every)
    known = speak_books.runs_of("i know so many green lamps in one house".split())
    left = {text for _, text in speak_books.utterances_of([book], known)}
    assert left < every and not any("so many green lamps" in text for text in left)


def test_the_lines_of_test_sets(speak_books, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "hello"}\n\n{"text": ""}\n')
    (tmp_path / "b.tsv").write_text("1\thello\n")
    assert speak_books.texts_of(tmp_path / "a.jsonl") == ["hello", ""]
    assert speak_books.texts_of(tmp_path / "b.tsv") == ["hello"]
    (tmp_path / "c.jsonl").write_text('{"text": "hello"}\n{"audio_filepath": "a.wav"}\n')
    with pytest.raises(speak_books.UserError, match="c.jsonl:2: has no text"):  # else its sentences might be spoken
        speak_books.texts_of(tmp_path / "c.jsonl")


def test_a_voice_that_fails_is_named(speak_books, tmp_path, monkeypatch):
    def refusal(script):
        monkeypatch.setattr(speak_books, "command_of", lambda *_: (["sh", "-c", script], ""))
        with pytest.raises(speak_books.UserError) as error:
            speak_books.speak("flite", "slt", "hello", tmp_path, None)
        return str(error.value)

    assert refusal("echo no voice >&2; exit 3") == "flite, voice slt: no voice; install it whole, or remove it"
    assert refusal("true") == "flite, voice slt: no audio; install it whole, or remove it"


@pytest.mark.skipif(not shutil.which("opusenc"), reason="opusenc is not installed: apt install opus-tools")
@pytest.mark.skipif(not shutil.which("espeak-ng"), reason="espeak-ng is not installed")
def test_a_file_and_its_manifest(speak_books, book, tmp_path, monkeypatch):
    monkeypatch.setattr(speak_books, "FILE_SECONDS", 4)
    utterances = iter(speak_books.utterances_of([book], set()))
    path = tmp_path / "000.opus"
    seconds = speak_books.write_file(path, utterances, ["espeak-ng"], 14)
    lines = [json.loads(line) for line in path.with_suffix(".jsonl").read_text().splitlines()]
    info = soundfile.info(path)
    assert (info.samplerate, info.channels) == (16000, 1)
    assert info.duration == pytest.approx(seconds) and seconds >= 4
    assert lines[-1]["offset"] + lines[-1]["duration"] == pytest.approx(seconds)
    assert all(line["audio_filepath"] == "000.opus" and line["text"] for line in lines)


def test_a_missing_book_is_named(tmp_path):
    for name in ("opusenc", "flite"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    command = [sys.executable, ROOT / "datasets/speak_books.py", tmp_path / "out", tmp_path / "none.txt"]
    result = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert result.returncode == 1 and result.stderr.count("\n") == 1
    assert result.stderr.startswith("speak_books: error: ") and "none.txt" in result.stderr


def test_a_missing_program_is_named(book, tmp_path):
    command = [sys.executable, ROOT / "datasets/speak_books.py", tmp_path / "out", book]
    result = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr == "speak_books: error: opusenc is missing; `apt install opus-tools`\n"
