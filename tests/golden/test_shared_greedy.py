"""All shared audio (RTFX_SHARED, by default ../shared): greedy results equal NeMo's exactly.

`golden/<model>/greedy_all.jsonl` holds tokens, frames and CTC tokens of the 223 utterances of an4,
mini_libri and spoken; `golden/<model>/<id>.npz` durations and scores of some of them (stand-ins) or
of the spoken quickstart sentences (quickstart models).
"""

import json

import numpy as np
import pytest
from golden import SHARED, assert_same, need, searches, transcripts

MODELS = ["standin-rnnt", "standin-tdt", "quickstart-rnnt", "quickstart-tdt"]
GREEDY = searches("frame_looping", "label_looping", "ctc_greedy")
SETS = ["an4", "mini_libri", "spoken", "quickstart"]


def audio_files(model):
    """Every second shared file, the others for the model of the other kind: the RNN-T and the TDT checkpoint of a
    size have the same encoder, which takes the time, and the same CTC weights."""
    files = [
        path
        for folder in SETS
        for path in sorted((SHARED / "audio" / folder).iterdir())
        if path.suffix in (".wav", ".flac")
    ]
    return {path.name: path for path in files[int(model.endswith("tdt")) :: 2]}


def results(model, decoder):
    checkpoint = SHARED / "models" / f"{model}.nemo"
    need(checkpoint, SHARED / "golden" / model, *(SHARED / "audio" / name for name in SETS))
    return transcripts(checkpoint, GREEDY, tuple(audio_files(model).values()))[decoder]


def reference_lines(model):
    path = SHARED / "golden" / model / "greedy_all.jsonl"
    need(path)
    lines = {line["file"]: line for line in map(json.loads, path.read_text().splitlines())}
    assert len(lines) == 223
    return {name: line for name, line in lines.items() if name in audio_files(model)}


def reference_arrays(model):
    """{file name: arrays}"""
    names = {path.stem: name for name, path in audio_files(model).items()}
    arrays = {
        names[path.stem]: np.load(path)
        for path in sorted((SHARED / "golden" / model).glob("*.npz"))
        if path.stem in names
    }
    assert len(arrays) >= 10
    return arrays


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("decoder", ["frame_looping", "label_looping"])
def test_transducer(program, model, decoder):
    found = results(model, decoder)
    expected = {
        n: {f: line[f] for f in ("tokens", "frames")} for n, line in reference_lines(model).items()
    }
    assert_same({n: {f: found[n][f] for f in e} for n, e in expected.items()}, expected)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("decoder", ["frame_looping", "label_looping"])
def test_durations_and_scores(program, model, decoder):
    found = results(model, decoder)
    expected, scores = {}, {}
    for name, arrays in reference_arrays(model).items():
        expected[name] = {"tokens": arrays["greedy/ids"].tolist(),
                          "frames": arrays["greedy/timestamps"].tolist()}  # fmt: skip
        if model.endswith("tdt"):
            expected[name]["durations"] = arrays["greedy/durations"].tolist()
        # NeMo's sum of logits, as it reports it on a GPU.
        scores[name] = float(arrays["label_looping/score_raw"])
    assert_same({n: {f: found[n][f] for f in e} for n, e in expected.items()}, expected)
    assert {n: found[n]["score"] for n in scores} == pytest.approx(scores, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("model", MODELS)
def test_ctc(program, model):
    found = results(model, "ctc_greedy")
    expected = {name: line["ctc_tokens"] for name, line in reference_lines(model).items()}
    assert_same({name: found[name]["tokens"] for name in expected}, expected)
    frames = {
        name: arrays["ctc_frames"].tolist() for name, arrays in reference_arrays(model).items()
    }
    assert_same({name: found[name]["frames"] for name in frames}, frames)
