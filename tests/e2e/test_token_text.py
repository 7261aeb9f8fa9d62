"""Tests datasets/token_text.py, which writes the texts for training n-gram models of tokens."""

import gzip
import json
import subprocess
import sys

import pytest
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


def test_a_pipe_is_read_whole():
    command = f"{sys.executable} {SCRIPT} {MODELS / 'quickstart-rnnt.nemo'} <(printf 'hello there\\nhello there\\n')"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert result.returncode == 0 and "2 texts; 0 left out" in result.stderr, result.stderr


def test_manifests_of_every_ending(tmp_path):
    line = json.dumps({"text": "hello\u2028there"}, ensure_ascii=False).encode() + b"\n"
    for name in ("a.json", "b.JSONL", "c.manifest"):
        (tmp_path / name).write_bytes(line)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(line))
    (tmp_path / "d.txt").write_text("hello there\n")
    result = token_text(MODELS / "quickstart-rnnt.nemo", *sorted(tmp_path.iterdir()))
    assert result.returncode == 0, result.stderr
    assert len(lines := result.stdout.splitlines()) == 7 and len(set(lines)) == 1


def test_files_that_cannot_be_read_are_named(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "datasets"))
    import token_text as module

    def refused(name, content, read):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(module.UserError) as error:
            list(read(path))
        return str(error.value).replace(str(tmp_path), "")

    assert "/a.nemo: " in refused("a.nemo", b"no archive", module.load_tokenizer)
    assert "/a.model: " in refused("a.model", b"no model", module.load_tokenizer)
    assert "/a.txt.gz: a damaged gzip file" in refused("a.txt.gz", gzip.compress(b"hello")[:-4], module.texts_of)
    assert '/a.jsonl:2: is no JSON object' in refused("a.jsonl", b'{"text": "a"}\n["a"]\n', module.texts_of)
    assert "/b.jsonl:1: text is no text" in refused("b.jsonl", b'{"text": 5}\n', module.texts_of)
    assert "/c.jsonl:2: Expecting" in refused("c.jsonl", b"\n{\n", module.texts_of)


def test_errors_take_one_line(tmp_path):
    (tmp_path / "empty.jsonl").write_text('{"audio_filepath": "a.wav"}\n')
    assert "no text is left" in token_text(MODELS / "quickstart-rnnt.nemo", tmp_path / "empty.jsonl").stderr
    assert "no SentencePiece tokenizer" in token_text(ROOT / "tests/data/checkpoints/tiny_wpe.nemo", SCRIPT).stderr
    missing = token_text(MODELS / "quickstart-rnnt.nemo", tmp_path / "gone.txt")
    assert missing.returncode == 1 and missing.stderr.count("\n") == 1 and "gone.txt" in missing.stderr
