"""Tests how a user gives language models: relative paths, weights, lists, and wrong files."""

import hashlib
import json
from collections import Counter

import pytest
from conftest import AUDIO, runs_of, strict_records

VOCABULARY = 1024
FILE = AUDIO / "qs10.flac"


def arpa(log10):
    """Returns an ARPA file with one 2-gram, in which all tokens are equally likely but those in {token: log10
    probability}."""
    lines = [f"{log10.get(i, -3)}\t{i}\t0" for i in range(VOCABULARY)]
    sections = ["\\data\\", f"ngram 1={VOCABULARY + 1}", "ngram 2=1", "", "\\1-grams:", "0\t<s>\t0"]
    return "\n".join([*sections, *lines, "", "\\2-grams:", "-3\t5 6", "", "\\end\\", ""])


@pytest.fixture
def decode(transcribe):
    """decode(decoder, lm=...) returns the tokens and the score of one utterance."""

    def run(decoder, **options):
        result = transcribe("--json", "--decoder", decoder, "--options", json.dumps(options), FILE)
        assert result.returncode == 0, result.stderr
        line = json.loads(result.stdout)
        return line["tokens"], line["score"]

    return run


@pytest.mark.parametrize("decoder", ["ctc_greedy", "frame_looping", "label_looping"])
def test_an_impossible_token_gives_way(decode, tmp_path, decoder):
    tokens, score = decode(decoder)
    token, count = Counter(tokens).most_common(1)[0]
    assert count > 1
    path = tmp_path / "lm.arpa"
    path.write_text(arpa({token: -30}))
    with_lm, _ = decode(decoder, lm={"path": str(path), "alpha": 1})
    assert with_lm and token not in with_lm
    assert decode(decoder, lm={"path": str(path), "alpha": 0}) == (tokens, score)


def test_a_run_with_weights_and_a_path_relative_to_the_configuration(run_config, tmp_path):
    (tmp_path / "lm.arpa").write_text(arpa({}))
    lm = {"path": "lm.arpa", "alpha": [0, 0.5], "cache": True}
    decoders = ["frame_looping", {"name": "label_looping", "options": {"lm": lm}}]
    result = run_config(decoders=decoders)
    assert result.returncode == 0, result.stderr
    records = strict_records(tmp_path / "run/journal.jsonl")
    path, checksum = next(iter(records[0]["decoder_files"].items()))
    assert path == str(tmp_path / "lm.arpa")
    assert checksum == hashlib.sha256((tmp_path / "lm.arpa").read_bytes()).hexdigest()
    assert (tmp_path / "lm.arpa.ngpulm").exists()
    exactness = {r["decoder"]["id"]: r["decoder"]["exactness"] for r in runs_of(records)}
    assert exactness == {
        "frame_looping": "exact",
        "label_looping[lm.alpha=0]": "exact",  # the same as without a language model
        "label_looping[lm.alpha=0.5]": "approximate",
    }


def test_a_file_that_is_not_there(rtfx, config):
    decoders = [{"name": "label_looping", "options": {"lm": {"path": "none.arpa"}}}]
    result = rtfx("validate", config(decoders=decoders))
    assert result.returncode == 2
    assert "/decoders/0/options/lm/path" in result.stderr and "none.arpa" in result.stderr


def test_a_bad_file_fails_its_cases_only(run_config, tmp_path):
    (tmp_path / "lm.arpa").write_text(arpa({}).replace("ngram 2=1", "ngram 2=2"))
    lm = {"path": "lm.arpa"}
    decoders = ["frame_looping", {"name": "label_looping", "options": {"lm": lm}}]
    result = run_config(decoders=decoders)
    assert result.returncode == 1
    records = strict_records(tmp_path / "run/journal.jsonl")
    assert [r["decoder"]["id"] for r in runs_of(records)] == ["frame_looping"]
    failure = next(r for r in records if r["kind"] == "failure")
    assert failure["stage"] == "prepare"
    assert "lm.arpa:" in failure["message"] and "announces 2 2-grams" in failure["message"]


def test_a_decoder_without_one_says_so(rtfx, config, tmp_path):
    (tmp_path / "lm.arpa").write_text(arpa({}))
    decoders = [{"name": "step_replay", "options": {"lm": {"path": "lm.arpa"}}}]
    result = rtfx("validate", config(decoders=decoders))
    assert result.returncode == 2 and "unknown option 'lm'" in result.stderr
