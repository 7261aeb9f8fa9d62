"""Tests datasets/token_text.py, which writes the texts for training n-gram models of tokens."""

import gzip
import json
import subprocess
import sys

from conftest import AUDIO, MODELS, ROOT

SCRIPT = ROOT / "datasets/token_text.py"


def token_text(*arguments):
    command = [sys.executable, SCRIPT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_ids_spell_the_texts_again(tmp_path):
    import sentencepiece

    texts = [json.loads(line)["text"] for line in (AUDIO / "manifest.jsonl").read_text().splitlines()]
    result = token_text(MODELS / "quickstart-rnnt.nemo", AUDIO / "manifest.jsonl")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    sys.path.insert(0, str(ROOT / "datasets"))
    import token_text as module

    tokenizer = module.load_tokenizer(MODELS / "quickstart-rnnt.nemo")
    assert isinstance(tokenizer, sentencepiece.SentencePieceProcessor)
    assert [tokenizer.decode([int(i) for i in line.split()]) for line in lines] == [text.lower() for text in texts]
    assert f"{len(texts)} texts; 0 left out" in result.stderr


def test_plain_and_packed_lines_and_what_is_left_out(tmp_path):
    (tmp_path / "a.txt").write_text("HELLO there\n\nhello \u4e2d\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"hello there\n"))
    result = token_text(MODELS / "quickstart-rnnt.nemo", tmp_path / "a.txt", tmp_path / "b.txt.gz")
    assert result.returncode == 0, result.stderr
    first, second = result.stdout.splitlines()
    assert first == second and "2 texts; 1 left out" in result.stderr


def test_errors_take_one_line(tmp_path):
    (tmp_path / "empty.jsonl").write_text('{"audio_filepath": "a.wav"}\n')
    assert "no text is left" in token_text(MODELS / "quickstart-rnnt.nemo", tmp_path / "empty.jsonl").stderr
    assert "no SentencePiece tokenizer" in token_text(ROOT / "tests/data/checkpoints/tiny_wpe.nemo", SCRIPT).stderr
    missing = token_text(MODELS / "quickstart-rnnt.nemo", tmp_path / "gone.txt")
    assert missing.returncode == 1 and missing.stderr.count("\n") == 1 and "gone.txt" in missing.stderr
