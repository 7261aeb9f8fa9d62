"""Tests that greedy results equal NeMo's exactly on all shared audio (RTFX_SHARED, by default ../shared).

data/standin256.jsonl.gz holds the results of standin256 on the 223 utterances of an4, mini_libri and spoken.
The shared folder holds the results of the quickstart models. `golden/<model>/greedy_all.jsonl` has tokens, frames
and CTC tokens of these utterances. `golden/<model>/<id>.npz` has durations and scores of the spoken quickstart
sentences."""

import json

import numpy as np
import pytest
from golden import SHARED, assert_same, checkpoint, need, searches, standin256, transcripts

MODELS = ["standin256-rnnt", "standin256-tdt", "quickstart-rnnt", "quickstart-tdt"]
GREEDY = searches("frame_looping", "label_looping", "ctc_greedy")
SETS = ["an4", "mini_libri", "spoken", "quickstart"]


def audio_files(model):
    """Returns every second shared file, and the other files for the model of the other kind. The RNN-T and the TDT
    checkpoint of a size have the same CTC weights and the same encoder, which takes most of the time."""
    sets = SETS[:3] if model.startswith("standin") else SETS
    files = [
        path
        for folder in sets
        for path in sorted((SHARED / "audio" / folder).iterdir())
        if path.suffix in (".wav", ".flac")
    ]
    return {path.stem: path for path in files[int(model.endswith("tdt")) :: 2]}


def results(model, decoder):
    need(*(SHARED / "audio" / name for name in SETS))
    found = transcripts(checkpoint(model), GREEDY, tuple(audio_files(model).values()))[decoder]
    return {name.rpartition(".")[0]: line for name, line in found.items()}


def shared_reference(model):
    """Reads the shared folder into the form of standin256(). Only some lines have scores and frames of CTC."""
    folder = SHARED / "golden" / model
    need(folder / "greedy_all.jsonl")
    head, lines = model.rpartition("-")[2], {}
    for line in map(json.loads, (folder / "greedy_all.jsonl").read_text().splitlines()):
        found = {"tokens": line["tokens"], "frames": line["frames"]}
        lines[line["file"].rpartition(".")[0]] = {head: found, "ctc": {"tokens": line["ctc_tokens"]}}
    assert len(lines) == 223
    for path in folder.glob("*.npz"):
        if path.stem == "lm":
            continue
        arrays = np.load(path)
        found = {
            "tokens": arrays["greedy/ids"].tolist(),
            "frames": arrays["greedy/timestamps"].tolist(),
            "score": float(arrays["label_looping/score_raw"]),  # a sum of logits, as NeMo reports it on a GPU
        }
        if head == "tdt":
            found["durations"] = arrays["greedy/durations"].tolist()
        ctc = {"tokens": arrays["ctc_ids"].tolist(), "frames": arrays["ctc_frames"].tolist()}
        lines[path.stem] = {head: found, "ctc": ctc}
    return lines


def reference(model, head):
    """Returns {utterance: result of NeMo} of the files that the model decodes here."""
    lines = standin256()[1] if model.startswith("standin") else shared_reference(model)
    files = audio_files(model)
    expected = {name: line[head] for name, line in lines.items() if name in files}
    assert len(expected) >= 111
    return expected


def assert_equal_but_score(found, expected):
    expected = {n: {f: v for f, v in line.items() if f != "score"} for n, line in expected.items()}
    assert_same({n: {f: found[n][f] for f in line} for n, line in expected.items()}, expected)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("decoder", ["frame_looping", "label_looping"])
def test_transducer(program, model, decoder):
    found, expected = results(model, decoder), reference(model, model.rpartition("-")[2])
    assert_equal_but_score(found, expected)
    scores = {name: line["score"] for name, line in expected.items() if "score" in line}
    assert len(scores) >= 10
    assert {n: found[n]["score"] for n in scores} == pytest.approx(scores, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("model", MODELS)
def test_ctc(program, model):
    assert_equal_but_score(results(model, "ctc_greedy"), reference(model, "ctc"))
