"""Tests that every greedy decoder gives NeMo's exact tokens, frames and durations for the quickstart set."""

import json

import pytest
from conftest import AUDIO, MODELS
from golden import DATA, assert_same, searches, transcripts

REFERENCE = json.loads((DATA / "quickstart_greedy.json").read_text())
FILES = tuple(sorted(AUDIO.glob("*.flac")))
GREEDY = searches("frame_looping", "label_looping", "ctc_greedy")


def results(model, decoder):
    return transcripts(MODELS / f"{model}.nemo", GREEDY, FILES)[decoder]


def test_the_reference_is_of_these_files():
    for reference in REFERENCE.values():
        assert reference["utterances"].keys() == {file.stem for file in FILES}
        assert reference["max_symbols"] == 10  # the decoders' default


@pytest.mark.parametrize("decoder", ["frame_looping", "label_looping"])
@pytest.mark.parametrize("model", REFERENCE)
def test_transducer(program, model, decoder):
    found = results(model, decoder)
    fields = {"tokens", "frames", "durations"}
    expected = {
        f"{name}.flac": {field: value for field, value in line.items() if field in fields}
        for name, line in REFERENCE[model]["utterances"].items()
    }
    if model == "quickstart-tdt":
        assert sum("durations" in line for line in expected.values()) == 12
    # The reference has no durations of the recordings, so only its own fields are compared.
    assert_same({n: {f: found[n].get(f) for f in e} for n, e in expected.items()}, expected)


@pytest.mark.parametrize("model", REFERENCE)
def test_ctc(program, model):
    found = results(model, "ctc_greedy")
    expected = {
        f"{n}.flac": line["ctc_tokens"] for n, line in REFERENCE[model]["utterances"].items()
    }
    assert_same({name: found[name]["tokens"] for name in expected}, expected)
