"""Tests the quickstart set with boosted phrases. With NeMo's rules for its tree, all tokens equal NeMo's."""

import json

import pytest
from conftest import AUDIO, MODELS
from golden import DATA, assert_same, searches, transcripts

REFERENCE = json.loads((DATA / "boosting.json").read_text())
FILES = tuple(sorted(AUDIO.glob("*.flac")))
BOOST = {
    "boost": {
        "phrases": REFERENCE["phrases"],
        "scale": REFERENCE["scale"],
        "context_score": REFERENCE["context_score"],
        "compatibility": "nemo",
    }
}
WEIGHTED = {"boost": BOOST["boost"] | {"blank_scoring": "lm_weighted_full"}}
SEARCHES = searches(
    label_looping=("label_looping", BOOST),
    alsd_pp=("alsd_pp", BOOST | {"max_symbols": 10}),
    fused=("alsd_pp", BOOST | {"max_symbols": 10, "kernels": "fused"}),
    alsd_pp_weighted=("alsd_pp", WEIGHTED | {"max_symbols": 10}),
    fused_weighted=("alsd_pp", WEIGHTED | {"max_symbols": 10, "kernels": "fused"}),
    ctc_greedy=("ctc_greedy", BOOST),
    plain=("label_looping", {}),
)


@pytest.mark.parametrize(
    "search", ["label_looping", "alsd_pp", "fused", "alsd_pp_weighted", "fused_weighted", "ctc_greedy"]
)
@pytest.mark.parametrize("model", REFERENCE["hypotheses"])
def test_tokens_are_nemos(program, model, search):
    found = transcripts(MODELS / f"{model}.nemo", SEARCHES, FILES)[search]
    of = search.replace("fused", "alsd_pp")
    expected = {f"{name}.flac": ids for name, ids in REFERENCE["hypotheses"][model][of].items()}
    assert_same({name: found[name]["tokens"] for name in expected}, expected)


@pytest.mark.parametrize("model", REFERENCE["hypotheses"])
def test_boosting_changes_something(program, model):
    found = transcripts(MODELS / f"{model}.nemo", SEARCHES, FILES)
    changed = [n for n, line in found["plain"].items() if line["tokens"] != found["label_looping"][n]["tokens"]]
    assert len(changed) >= 3
