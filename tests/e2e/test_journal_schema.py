"""Tests that docs/journal.schema.json, by which other programs check journals, accepts what rtfx writes and reads."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import synthetic_journal as synthetic
from conftest import ROOT, small_config, strict_records

SCHEMA = ROOT / "docs/journal.schema.json"


@pytest.fixture(scope="module")
def validator():
    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))


def journals():
    for path in sorted((ROOT / "reports").rglob("*.jsonl.gz")):
        lines = gzip.decompress(path.read_bytes()).splitlines()
        if b'"kind"' in lines[0]:
            yield path, [json.loads(line) for line in lines]


def test_a_newer_schema_is_refused(rtfx, run_config, tmp_path):
    assert run_config().returncode == 0
    journal = tmp_path / "run/journal.jsonl"
    journal.write_text(journal.read_text().replace('"schema":1', '"schema":2'))
    result = rtfx("report", tmp_path / "run")
    assert result.returncode == 2 and "journal.jsonl:1: schema 2: a newer rtfx wrote it" in result.stderr


def test_the_schema_is_one():
    command = [Path(sys.executable).with_name("check-jsonschema"), "--check-metaschema", SCHEMA]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_committed_journals_agree_with_the_schema(validator):
    kinds = set()
    for path, records in journals():
        for record in records[:: max(1, len(records) // 40)] + records[-1:]:
            errors = [error.message for error in validator.iter_errors(record)]
            assert not errors, (path, errors)
            kinds.add(record["kind"])
    assert kinds >= {"provenance", "run", "summary", "stream", "profile", "roofline"}


def test_a_fresh_journal_agrees_with_the_schema(rtfx, validator, tmp_path):
    """A journal with word lists, n-best lists, an A/A control and a failure is valid."""
    (tmp_path / "words.txt").write_text("mill\n")
    boost = {"path": str(tmp_path / "words.txt"), "scale": 2.0}
    decoders = ["frame_looping", {"name": "label_looping", "options": {"boost": boost}},
                {"name": "aes", "options": {"beam_size": 2, "nbest": 2}}]  # fmt: skip
    protocol = {"warmup_rounds": 0, "measured_rounds": 2, "aa_control": True}
    config = small_config(decoders=decoders, batch_sizes=[2], protocol=protocol)
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = rtfx("run", tmp_path / "config.json", "--output", tmp_path)
    assert (tmp_path / "journal.jsonl").exists(), result.stderr
    records = strict_records(tmp_path / "journal.jsonl")
    assert {record["kind"] for record in records} >= {"provenance", "run", "summary"}
    assert any("boosted" in record for record in records)
    for record in records:
        assert not [error.message for error in validator.iter_errors(record)]


@pytest.mark.parametrize(
    "damage",
    [
        lambda r: r.pop("result_key"),
        lambda r: r.update(kind="runs"),
        lambda r: r["metrics"].update({"rtfx.total": 0}),
        lambda r: r["metrics"].pop("rtfx.decode"),
        lambda r: r["wer"].update(substitutions="7"),
        lambda r: r["regions"].pop("decode"),
        lambda r: r["exactness"].update(first_difference={"utterance": "u"}),
    ],
    ids=["missing", "kind", "range", "metric", "type", "region", "within"],
)
def test_a_damaged_record_does_not(validator, damage):
    record = synthetic.run()
    assert validator.is_valid(record)
    damage(record)
    assert not validator.is_valid(record)
