"""Tests the figures of plots/calibration.py on confidences whose calibration is known."""

import gzip
import json

import calibration
import pytest
from forked_script import script


def words(text):
    return text.split()


@pytest.mark.parametrize("said, reference, right", [
    ("a b c", "a b c", [1, 1, 1]),
    ("a x c", "a b c", [1, 0, 1]),
    ("a a b", "a b", [1, 0, 1]),
    ("b", "a b c", [1]),
    ("", "a", []),
    ("x y", "", [0, 0]),
])  # fmt: skip
def test_right_words(said, reference, right):
    assert calibration.right_words(words(said), words(reference)) == [bool(r) for r in right]


def test_figures_of_perfect_and_of_worthless_confidence():
    perfect = [(1.0, True)] * 30 + [(0.0, False)] * 10
    assert calibration.area(calibration.roc(perfect)) == 1
    assert calibration.calibration_error(perfect) == 0
    assert calibration.cross_entropy(perfect) == pytest.approx(1, abs=1e-5)
    constant = [(0.75, True)] * 30 + [(0.75, False)] * 10
    assert calibration.area(calibration.roc(constant)) == 0.5
    assert calibration.cross_entropy(constant) == pytest.approx(0)
    assert calibration.calibration_error(constant) == 0  # equal confidences cannot be ranked
    assert calibration.bins(perfect, 4) == [(0, 0, 10), (1, 1, 30)]
    reverse = [(1 - sure, ok) for sure, ok in perfect]
    assert calibration.area(calibration.roc(reverse)) == 0


def test_area_is_the_share_of_pairs_in_order():
    some = [(0.1, False), (0.4, True), (0.35, False), (0.8, True), (0.4, False)]
    pairs = [(right, wrong) for right, ok in some if ok for wrong, bad in some if not bad]
    share = sum(1 if right > wrong else 0.5 if right == wrong else 0 for right, wrong in pairs) / len(pairs)
    assert calibration.area(calibration.roc(some)) == pytest.approx(share)


def line(text, reference, sure):
    spoken = [{"text": word, "confidence": c} for word, c in zip(text.split(), sure, strict=True)]
    return json.dumps({"reference": reference, "words": spoken}) + "\n"


def run(*arguments):
    return script("plots/calibration.py", *arguments)


def test_table_and_figure(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text(line("Go home, now", "go home then", [0.9, 0.8, 0.3]) + line("b", "b", [0.7]))
    result = run(f"mine={file}", file, "--table", "-o", tmp_path / "a.png")
    assert result.returncode == 0, result.stderr
    row = "| 4 | 75.0 % | 1.000 |"
    assert f"| mine {row}" in result.stdout and f"| a {row}" in result.stdout
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_files_of_one_name_are_refused_and_paths_may_hold_equals_signs(tmp_path):
    files = [tmp_path / folder / "t.jsonl" for folder in ("a", "b=1")]
    for file in files:
        file.parent.mkdir()
        file.write_text(line("a b", "a c", [0.9, 0.2]))
    result = run(*files, "--table")
    assert result.returncode == 1 and f"{files[1]}: another file has the name t: give NAME=FILE\n" == result.stderr
    result = run(files[0], f"mine={files[1]}", "--table")
    assert "| t | 2 | 50.0 % |" in result.stdout and "| mine | 2 | 50.0 % |" in result.stdout


@pytest.mark.parametrize("text, message", [
    ("{", "not a file of rtfx"),
    (json.dumps({"reference": "a", "words": [{"text": "a"}]}) + "\n", "no confidence; give --confidence"),
    (line("a", "a", [1]), "needs words with references, right ones and wrong ones"),
    (json.dumps({"reference": "a"}), "not what `rtfx` writes"),
])  # fmt: skip
def test_bad_files(tmp_path, text, message):
    (tmp_path / "a.jsonl").write_text(text)
    result = run(tmp_path / "a.jsonl", "--table")
    assert result.returncode == 1 and message in result.stderr and result.stderr.count("\n") == 1


def test_gzip(tmp_path):
    packed = gzip.compress(line("a b", "a c", [0.9, 0.2]).encode())
    (tmp_path / "a.jsonl.gz").write_bytes(packed)
    assert "| 2 | 50.0 % | 1.000 |" in run(tmp_path / "a.jsonl.gz", "--table").stdout
    for damaged in (packed[:-9], b"{}"):
        (tmp_path / "a.jsonl.gz").write_bytes(damaged)
        result = run(tmp_path / "a.jsonl.gz", "--table")
        assert result.returncode == 1 and "a damaged gzip file" in result.stderr
