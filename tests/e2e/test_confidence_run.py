"""Tests the key `confidence` of a run: hypotheses get values, the journal gets a region, and nothing else changes."""

import json

import pytest
from conftest import AUDIO, MODELS, runs_of, strict_records

DECODERS = ["label_looping", {"id": "beam", "name": "alsd_pp", "options": {"nbest": 3}}]


def results(folder):
    """Returns {decoder: (record, lines of its hypotheses)}."""
    return {run["decoder"]["id"]: (run, strict_records(folder / f"hypotheses/{run['result_key']}.jsonl"))
            for run in runs_of(strict_records(folder / "journal.jsonl"))}  # fmt: skip


@pytest.fixture
def two_runs(run_config, tmp_path):
    def run(**changes):
        found = []
        for confidence in (None, {"method": "entropy"}):
            result = run_config("--force", decoders=DECODERS, confidence=confidence, **changes)
            assert result.returncode == 0, result.stderr
            found.append(results(tmp_path / "run"))
        return found

    return run


@pytest.mark.parametrize("mode", ["isolated", "throughput"])
def test_it_is_a_region_of_its_own_and_changes_no_result(two_runs, mode):
    protocol = {"mode": mode, "warmup_rounds": 0, "measured_rounds": 1, "steady_seconds": 0}
    without, with_it = two_runs(protocol=protocol)
    for name, (record, lines) in with_it.items():
        plain, plain_lines = without[name]
        assert record["regions"]["confidence"]["host_seconds"] > 0
        assert record["regions"].keys() - plain["regions"].keys() == {"confidence"}
        sure = [line.pop("confidence") for line in lines]
        assert lines == plain_lines
        for line, values in zip(lines, sure, strict=True):
            assert len(values) == len(line["tokens"]) and all(-1e-5 <= value <= 1 for value in values)
        assert record["exactness"] == plain["exactness"]


def test_values_are_those_of_transcribe(run_config, transcribe, tmp_path):
    result = run_config(datasets=[{"id": "one", "files": [str(AUDIO / "qs10.flac")]}], confidence={}, batch_sizes=[1],
                        decoders=["label_looping"], models=[str(MODELS / "quickstart-tdt.nemo")])  # fmt: skip
    assert result.returncode == 0, result.stderr
    ((_, (line,)),) = results(tmp_path / "run").values()
    found = transcribe("--format", "json", "--tokens", "--confidence", AUDIO / "qs10.flac", model="quickstart-tdt")
    tokens = json.loads(found.stdout)["tokens"]
    assert line["confidence"] == pytest.approx([token["confidence"] for token in tokens], abs=1e-6)


def test_bad_options_are_named(run_config):
    result = run_config(confidence={"method": "logit", "alpha": 100})
    assert result.returncode == 2
    assert "/confidence/method: unknown value 'logit'" in result.stderr and "/confidence/alpha" in result.stderr
