"""Tests which rows rivals/wfst/bench.py finds in an earlier output."""

import argparse
import importlib.util
import json

import pytest
from conftest import ROOT


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench", ROOT / "rivals/wfst/bench.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rows_count_as_measured_with_their_settings_alone(bench, tmp_path):
    output = tmp_path / "rivals.jsonl"
    whole = argparse.Namespace(scale=1.8, max_active=10000, runs=3, limit=None)
    quick = argparse.Namespace(**vars(whole) | {"limit": 50})
    records = [{"name": "a", "wer": 0.1} | bench.settings(whole), {"name": "b", "wer": 0.2} | bench.settings(quick),
               {"name": "c", "error": "no result in 300 s"} | bench.settings(whole), {"kind": "machine"}]  # fmt: skip
    # The last line was cut short when the process was killed.
    output.write_text("".join(json.dumps(record) + "\n" for record in records) + '{"name": "d", "we')
    assert bench.measured(output, whole) == {"a"}
    assert bench.measured(output, quick) == {"b"}
    assert bench.measured(tmp_path / "absent.jsonl", whole) == set()
