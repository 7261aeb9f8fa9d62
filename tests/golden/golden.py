"""Helpers of the golden tests: the places of reference results, and the program's own results. One run of the program
gives the results of all decoders of a model."""

import functools
import gzip
import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from conftest import MODELS, PROGRAM, ROOT, runs_of, strict_records

DATA = Path(__file__).parent / "data"
DEVICE = os.environ.get("RTFX_DEVICE", "cpu")
SHARED = Path(os.environ.get("RTFX_SHARED", ROOT.parent / "shared"))


def need(*paths):
    """Skips the test if a path is missing, and names that path."""
    for path in paths:
        if not path.exists():
            pytest.skip(f"no {path.name} at {path.parent} (RTFX_SHARED names the shared folder)")


def checkpoint(model):
    """Returns the checkpoint of a model. Skips the test if it is a stand-in that has not been made."""
    if model.startswith("quickstart"):
        return MODELS / f"{model}.nemo"
    path = ROOT / f"data/{model}.nemo"
    if not path.exists():
        pytest.skip(f"no {path.name} in data: `scripts/stand_ins.sh` makes it from the shared folder")
    return path


@functools.cache
def standin256():
    """Returns (settings, {utterance: line}), NeMo's results for standin256. make_standin256.py states their
    contents."""
    text = gzip.decompress((DATA / "standin256.jsonl.gz").read_bytes()).decode()
    settings, *lines = map(json.loads, text.splitlines())
    return settings, {Path(line["file"]).stem: line for line in lines}


def searches(*names, **others):
    """Returns decoders for `transcripts`. A positional name is its own id, and id=(name, options) sets all three."""
    every = {name: (name, {}) for name in names} | others
    return tuple((key, name, json.dumps(options)) for key, (name, options) in every.items())


@functools.cache
def transcripts(model, searches, files, context=(), language=""):
    """Returns {id: {file name: result}} of one `rtfx run` in fp32 on the CPU (or RTFX_DEVICE). A batch has eight files,
    and all searches share the encoder's work. `context` is the encoder's attention context. `language` is the language
    of a prompt-conditioned model."""
    decoders = [
        {"id": key, "name": name, "options": json.loads(text)} for key, name, text in searches
    ]
    config = {
        "question": "Are the results those of the reference?",
        "device": DEVICE,
        "threads": 1,  # other tests run beside this one
        "models": [
            {"path": str(model)}
            | ({"att_context_size": context} if context else {})
            | ({"language": language} if language else {})
        ],
        "datasets": [{"id": "files", "files": [str(file) for file in files]}],
        "decoders": decoders,
        "batch_sizes": [8],
        "encoder_graphs": False,  # each batch is encoded once
        "protocol": {"warmup_rounds": 0, "measured_rounds": 1},
        # The reference is another program, and shows more than a replay could.
        "verify": {"required": {"fp32": "different"}, "replay": False},
    }
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder, "config.json"), Path(folder, "run")
        path.write_text(json.dumps(config), encoding="utf-8")
        result = subprocess.run(
            [PROGRAM, "run", path, "--output", output],
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        found = {}
        for run in runs_of(strict_records(output / "journal.jsonl")):
            hypotheses = strict_records(output / f"hypotheses/{run['result_key']}.jsonl")
            found[run["decoder"]["id"]] = {Path(line["id"]).name: line for line in hypotheses}
    assert found.keys() == {key for key, *_ in searches}
    for lines in found.values():
        assert lines.keys() == {file.name for file in files}
    return found


def assert_same(found, expected):
    """Asserts that all results {name: {field: list}} are equal. If not, names those that differ and shows the first
    one."""
    assert found.keys() == expected.keys()
    different = [name for name in expected if found[name] != expected[name]]
    if different:
        name = different[0]
        pytest.fail(
            f"{len(different)} of {len(expected)} differ: {' '.join(different)}\n"
            f"{name} found:    {found[name]}\n{name} expected: {expected[name]}",
            pytrace=False,
        )


class LargestDifference:
    """Compares arrays with an absolute tolerance, and keeps the largest difference for each name."""

    def __init__(self, tolerance):
        self.tolerance, self.largest = tolerance, {}

    def compare(self, name, found, expected):
        assert found.shape == expected.shape, f"{name}: {found.shape} instead of {expected.shape}"
        difference = float(np.abs(found - expected).max(initial=0.0))
        self.largest[name] = max(self.largest.get(name, 0.0), difference)

    def check(self):
        assert self.largest
        over = {name: value for name, value in self.largest.items() if not value <= self.tolerance}
        assert not over, f"over {self.tolerance}: {over}"

    def __str__(self):
        return ", ".join(f"{name} {value:.2g}" for name, value in self.largest.items())
