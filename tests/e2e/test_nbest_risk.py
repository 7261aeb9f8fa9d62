"""Tests the option `mbr` and `--mbr`. They sort n-best lists by expected word errors, which this test computes
itself."""

import json
import math

import pytest
from conftest import AUDIO, runs_of, strict_records

CLIPS = sorted(AUDIO.glob("qs*.flac"))
SCALE = 0.3


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, word in enumerate(a):
        last, row = row, [i + 1]
        for j, other in enumerate(b):
            row.append(min(last[j] + (word != other), last[j + 1] + 1, row[j] + 1))
    return row[-1]


def risks_of(entries):
    words = [entry["text"].split() for entry in entries]
    weights = [math.exp(SCALE * (entry["score"] - entries[0]["score"])) for entry in entries]
    return [
        sum(weight * edit_distance(own, other) for weight, other in zip(weights, words, strict=True)) / sum(weights)
        for own in words
    ]


@pytest.mark.parametrize("decoder", ["alsd_pp", "modified_beam_search", "ctc_beam", "aes"])
def test_lists_are_sorted_by_expected_errors(transcribe, decoder):
    arguments = ("--json", "--nbest", 8, "--decoder", decoder, "--batch-size", 4, *CLIPS)
    by_rank = transcribe(*arguments)
    by_risk = transcribe(*arguments, "--mbr", "--options", json.dumps({"mbr": {"scale": SCALE}}))
    changed = 0
    for result in (by_rank, by_risk):
        assert result.returncode == 0, result.stderr
    for one, other in zip(by_rank.stdout.splitlines(), by_risk.stdout.splitlines(), strict=True):
        one, other = json.loads(one), json.loads(other)
        assert sorted(map(json.dumps, one["nbest"])) == sorted(map(json.dumps, other["nbest"]))
        entries = other["nbest"]
        risks = risks_of(entries)
        assert risks == pytest.approx(sorted(risks), abs=1e-5)
        assert (other["text"], other["score"]) == (entries[0]["text"], entries[0]["score"])
        changed += one["text"] != other["text"]
    assert changed > 0


def test_the_default_decoder_has_it(transcribe):
    plain, chosen = (transcribe("--format", "json", "--nbest", 8, *more, CLIPS[0]) for more in ((), ("--mbr",)))
    assert chosen.returncode == 0, chosen.stderr
    texts = [sorted(entry["text"] for entry in json.loads(result.stdout)["alternatives"]) for result in (plain, chosen)]
    assert texts[0] == texts[1]


def test_a_run_compares_it_with_the_likeliest_texts(run_config, tmp_path):
    beam = {"name": "alsd_pp", "options": {"beam_size": 6, "nbest": 6}}
    risk = beam | {"id": "risk", "options": beam["options"] | {"mbr": {"scale": SCALE}}}
    result = run_config(decoders=[beam, risk])
    assert result.returncode == 0, result.stderr
    plain, chosen = runs_of(strict_records(tmp_path / "run/journal.jsonl"))
    assert plain["decoder"]["options"]["mbr"] is None
    assert chosen["decoder"]["options"]["mbr"] == {"scale": SCALE, "unit": "words"}
    assert chosen["oracle_wer"] == plain["oracle_wer"]  # the lists hold the same texts


def test_a_run_refuses_it_without_a_list(run_config):
    result = run_config(decoders=[{"name": "alsd_pp", "options": {"mbr": {}}}])
    assert result.returncode == 2
    assert '/decoders/0/options/mbr: compares the texts of an n-best list, and "nbest" is 1' in result.stderr
