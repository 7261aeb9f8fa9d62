"""Tests scripts/phrase_list.py, which draws words to boost, and the shared reader of NeMo's scripts."""

import importlib
import json
import subprocess
import sys

import phrase_list
import pytest
from conftest import ROOT
from user_errors import UserError


@pytest.fixture
def draw(tmp_path, monkeypatch):
    """draw(texts, option, ...) returns the list of a manifest with these texts."""

    def run(texts, *options):
        lines = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
        (tmp_path / "manifest.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        output = tmp_path / "list.txt"
        arguments = ["phrase_list.py", *options, "-o", output, tmp_path / "manifest.jsonl"]
        monkeypatch.setattr(sys, "argv", [*map(str, arguments)])
        phrase_list.main()
        return output.read_text(encoding="utf-8").splitlines()

    return run


def test_words_of_any_script_are_whole(draw):
    assert sorted(draw(["\u00dcberraschung\u2028o'clock", "twelve short short"], "--count", "3")) == ["o'clock", "twelve", "\u00fcberraschung"]


def test_each_utterance_asks_for_words_of_its_own(draw, tmp_path):
    (tmp_path / "other.txt").write_text("lantern harbour\n")
    words = draw(["twelve", "eleven"], "--count", "1", "--others", "2", "--text", str(tmp_path / "other.txt"),
                 "--each", str(tmp_path / "each.jsonl"))  # fmt: skip
    assert set(words[1:]) == {"lantern", "harbour"}
    lines = [json.loads(line) for line in (tmp_path / "each.jsonl").read_text().splitlines()]
    assert [(line["text"], len(line["boost"])) for line in lines] == [("twelve", 3), ("eleven", 3)]


def test_too_few_words_are_refused(draw):
    with pytest.raises(UserError, match="words that the manifests have once: 1 words of six letters or more, and 2"):
        draw(["twelve"], "--count", "2")


def test_other_words_need_a_text(draw, capsys):
    with pytest.raises(SystemExit):
        draw(["twelve"], "--count", "1", "--others", "1")
    assert "--others: needs --text" in capsys.readouterr().err


def test_a_missing_manifest_takes_one_line(tmp_path):
    command = [sys.executable, ROOT / "scripts/phrase_list.py", "--count", "1", "-o", tmp_path / "list.txt", tmp_path / "none.jsonl"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("phrase_list: error: ") and "none.jsonl" in done.stderr


def test_nemos_scripts_read_lines_with_any_character(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "rivals/nemo"))
    (tmp_path / "a.jsonl").write_text('{"text": "a\u2028b\u0085c"}\n\n{"text": "d"}', encoding="utf-8")
    assert importlib.import_module("manifests").utterances_of(tmp_path / "a.jsonl") == [{"text": "a\u2028b\u0085c"}, {"text": "d"}]
