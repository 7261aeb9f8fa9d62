"""Compares n-gram language models with KenLM and NeMo, token by token, and greedy search with NeMo's label-looping with
the same model (RTFX_SHARED)."""

import csv
import gzip
import json
import subprocess

import numpy as np
import pytest
from conftest import PROGRAM
from golden import (
    SHARED, LargestDifference, assert_same, checkpoint, need, searches, standin256, transcripts
)  # fmt: skip

SIX_GRAM = SHARED / "lm/token_6gram.arpa.gz"
VOCABULARY = 1024
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def score(program):
    """score(sequences of token ids, ...) returns [{"scores": array, "end": number}]."""
    need(SIX_GRAM)

    def run(sequences, *arguments):
        command = [PROGRAM.with_name("rtfx_score_tokens"), SIX_GRAM, str(VOCABULARY), *arguments]
        text = "".join(json.dumps(sequence) + "\n" for sequence in sequences)
        result = subprocess.run(command, input=text, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]

    return run


def test_kenlm(score, capsys):
    path = SHARED / "lm/kenlm_scores.tsv.gz"
    need(path)
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(rows) == 245
    # The reference covers all orders, and backs off down to single tokens.
    orders = {o for row in rows for o in row["matched_order_per_token_and_end"].split()}
    assert orders == set("123456")
    sequences = [[int(i) for i in row["token_ids"].split()] for row in rows]
    differences = LargestDifference(TOLERANCE)
    for row, found in zip(rows, score(sequences), strict=True):
        expected = np.array([float(x) for x in row["log10_per_token"].split()])
        differences.compare("token", np.array(found["scores"]), expected * np.log(10))
        end = np.array(float(row["log10_end"]) * np.log(10))
        differences.compare("end", np.array(found["end"]), end)
    with capsys.disabled():
        print(f"\n  largest difference to KenLM: {differences}")
    differences.check()


def test_nemo(score, capsys):
    """Random and real sequences have NeMo's scores. For two of them, all tokens of the vocabulary are compared at every
    step."""
    path = SHARED / "golden/quickstart-rnnt/lm.npz"
    need(path)
    expected = np.load(path)
    sequences = expected["seqs"].tolist()
    differences = LargestDifference(TOLERANCE)
    found = score(sequences)
    scores = np.array([one["scores"] for one in found])
    differences.compare("token", scores, expected["token_scores"])
    differences.compare("end", np.array([one["end"] for one in found]), expected["final"])
    full = np.array([one["scores"] for one in score(sequences[:2], "--all")])
    assert full.shape == (2, 12, VOCABULARY)
    differences.compare("every token", full, expected["full"])
    with capsys.disabled():
        print(f"\n  largest difference to NeMo: {differences}")
    differences.check()


MODELS = ["quickstart-rnnt", "quickstart-tdt", "standin256-rnnt", "standin256-tdt"]


def reference(model):
    """Returns alpha, and {utterance: (result with the language model, tokens without it)}."""
    if model.startswith("standin"):
        head = model.rpartition("-")[2]
        settings, lines = standin256()
        found = {n: (x[f"{head}_lm"], x[head]["tokens"]) for n, x in lines.items() if f"{head}_lm" in x}
        return settings["lm_alpha"], found
    folder = SHARED / "golden" / model
    need(folder)
    found = {}
    for path in sorted(folder.glob("*.npz")):
        arrays = np.load(path)
        if "label_looping_lm/ids" in arrays:
            with_model = {
                "tokens": arrays["label_looping_lm/ids"].tolist(),
                "frames": arrays["label_looping_lm/timestamps"].tolist(),
            }
            found[path.stem] = with_model, arrays["greedy/ids"].tolist()
    return json.loads((folder / "golden.json").read_text())["lm_alpha"], found


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("decoder", ["frame_looping", "label_looping"])
def test_greedy(program, model, decoder):
    """Every utterance that NeMo decoded with the language model has the same tokens and frames."""
    path = checkpoint(model)
    need(SIX_GRAM, SHARED / "audio")
    files = {file.stem: file for file in (SHARED / "audio").rglob("*.flac")}
    alpha, lines = reference(model)
    expected = {files[name].name: with_model for name, (with_model, _) in lines.items()}
    changed = sum(with_model["tokens"] != without for with_model, without in lines.values())
    assert len(expected) >= 24 and changed >= 8  # the language model makes a difference
    options = {"lm": {"path": str(SIX_GRAM), "alpha": alpha}}
    decoders = {name: (name, options) for name in ("frame_looping", "label_looping")}
    audio = tuple(files[name] for name in lines)
    found = transcripts(path, searches(**decoders), audio)[decoder]
    assert_same({n: {f: found[n][f] for f in e} for n, e in expected.items()}, expected)
