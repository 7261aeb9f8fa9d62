"""Tests that confidences of tokens and words, and the times of words, equal NeMo's (make_confidence_golden.py)."""

import json

import pytest
from conftest import AUDIO, MODELS
from golden import DATA, SHARED, need

METHODS = {
    "max_prob": {"method": "max_prob", "alpha": 1},
    "max_prob_half": {"method": "max_prob", "alpha": 0.5},
    "gibbs_lin": {"entropy": "gibbs", "norm": "lin", "alpha": 1},
    "gibbs_exp": {"entropy": "gibbs", "norm": "exp", "alpha": 0.5},
    "tsallis_lin": {"entropy": "tsallis", "norm": "lin", "alpha": 0.5},
    "tsallis_exp": {"entropy": "tsallis", "norm": "exp", "alpha": 0.33},
}
VARIANTS = {name: {"method": "entropy", "aggregation": "min"} | options for name, options in METHODS.items()}
VARIANTS |= {f"tsallis_exp_{a}": VARIANTS["tsallis_exp"] | {"aggregation": a} for a in ("mean", "max", "prod")}
VARIANTS["max_prob_blank"] = METHODS["max_prob"] | {"aggregation": "mean", "exclude_blank": False}
DECODERS = {"transducer": "label_looping", "ctc": "ctc_greedy"}
EXPECTED = json.loads((DATA / "confidence.json").read_text(encoding="utf-8"))
CASES = [(model, head, variant) for model, heads in EXPECTED.items() for head in heads for variant in VARIANTS]


@pytest.fixture(scope="module")
def found(rtfx):
    """found(model, head, variant) returns {utterance: the program's JSON}."""

    def run(model, head, variant):
        path = MODELS / f"{model}.nemo"
        if not path.exists():
            path = SHARED / f"checkpoints/{model}.nemo"
        need(path)
        files = [AUDIO / f"{name}.flac" for name in EXPECTED[model][head]]
        result = rtfx("transcribe", "--model", path, "--threads", 1, "--device", "cpu", "--batch-size", 2,
                      "--decoder", DECODERS[head], "--format", "json", "--tokens",
                      "--confidence-options", json.dumps(VARIANTS[variant]), *files)  # fmt: skip
        assert result.returncode == 0, result.stderr
        return dict(zip(EXPECTED[model][head], map(json.loads, result.stdout.splitlines()), strict=True))

    return run


@pytest.mark.parametrize("model, head, variant", CASES)
def test_confidences_are_nemo_s(found, model, head, variant):
    for name, line in found(model, head, variant).items():
        tokens, words = EXPECTED[model][head][name]["confidence"][variant]
        assert line["text"].split() == EXPECTED[model][head][name]["text"].split()
        assert [t["confidence"] for t in line["tokens"]] == pytest.approx(tokens, abs=2e-5)
        assert [w["confidence"] for w in line["words"]] == pytest.approx(words, abs=2e-5)


@pytest.mark.parametrize("model", EXPECTED)
def test_times_of_words_are_nemo_s(found, model):
    """Words have NeMo's times, except that a word lasts at least one frame and ends where the next one begins."""
    for name, line in found(model, "transducer", "max_prob").items():
        words = EXPECTED[model]["transducer"][name]["words"]
        assert [word["text"] for word in line["words"]] == [text.strip() for text, _, _ in words]
        begins = [begin for _, begin, _ in words]
        for i, (word, (_, begin, end)) in enumerate(zip(line["words"], words, strict=True)):
            if begins.count(begin) > 1:  # words that share a frame
                continue
            end = min([max(end, begin + 1), *begins[i + 1 : i + 2]])
            assert word["start"] == pytest.approx(begin * 0.08, abs=1e-3)
            assert word["end"] == pytest.approx(min(end * 0.08, line["seconds"]), abs=1e-3)
