"""Tests the Python side of the decoder `python` without the program."""

import json
import subprocess
import sys

import pytest
from conftest import ROOT

pytest.importorskip("torch", reason="no torch for this Python: LIBTORCH names a folder")

PREAMBLE = f"""
import json, sys
import torch
from torch.utils.dlpack import to_dlpack
arguments = sys.argv[1:]  # which host.py removes
sys.path.append({str(ROOT / "algorithms/decoders/python")!r})
import host

def prepare(arm, **spec):
    all = {{"arm": arm, "module": "", "class": "Decoder", "path": "", "options": {{}}, "model": {{}}, "tensors": ["w"]}}
    return json.loads(host.prepare(json.dumps(all | spec), to_dlpack(torch.zeros(1)))[0])

def answer(value):
    print(json.dumps(value), file=sys.__stdout__)
"""


def run(code, *arguments):
    """Runs code that calls answer(), and returns its value."""
    result = subprocess.run([sys.executable, "-c", PREAMBLE + code, *map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("path, first", [("", "beside the decoder"), ("../modules", "in the folder of `path`")])
def test_imports_are_looked_for_in_path_first(tmp_path, path, first):
    for folder, place in (("own", "beside the decoder"), ("modules", "in the folder of `path`")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "in_both.py").write_text(f"PLACE = {place!r}\n")
    (tmp_path / "own/beside_alone.py").write_text("")
    (tmp_path / "own/decoder.py").write_text(
        "import beside_alone, in_both\n"
        "class Decoder:\n"
        "    def __init__(self, model):\n"
        "        self.versions = {'place': in_both.PLACE}\n"
    )
    about = run("answer(prepare(1, file=arguments[0], path=arguments[1]))", tmp_path / "own/decoder.py", path)
    assert about["versions"]["place"] == first


def test_a_decoder_that_could_not_be_prepared_is_not_kept(tmp_path):
    """The program does not release such a decoder, which would hold the model's weights up to the end."""
    (tmp_path / "decoder.py").write_text(
        "class Decoder:\n"
        "    def __init__(self, model, words):\n"
        "        self.boosted_words = words\n"
    )
    found = run("""
answers = [prepare(i, file=arguments[0], options={"words": words}) for i, words in enumerate(([7], ["seven"]))]
answer([answers, list(host.arms)])
""", tmp_path / "decoder.py")  # fmt: skip
    (failed, prepared), kept = found
    assert "`boosted_words` of Decoder has 7, which is no text" in failed["error"]
    assert prepared["boosted_words"] == ["seven"] and kept == [1]


def test_lists_of_different_numbers_of_rows_are_refused_by_their_names():
    code = """
try:
    host.of_lists({"tokens": [[1], [2], [3]], "frames": [[0], [0], [0], [0]], "scores": [0.0] * 4})
    answer("taken")
except TypeError as error:
    answer(str(error))
"""
    assert run(code) == "the result has 3 rows of tokens, 4 rows of frames, 4 rows of scores"
