"""What the golden tests share: where reference results are, and the program's results once each."""

import functools
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import PROGRAM, ROOT

DATA = Path(__file__).parent / "data"
DEVICE = os.environ.get("RTFX_DEVICE", "cpu")
SHARED = Path(os.environ.get("RTFX_SHARED", ROOT.parent / "shared"))


def need(*paths):
    """Skips the test with the name of the first path that is not there."""
    for path in paths:
        if not path.exists():
            pytest.skip(f"no {path.name} at {path.parent} (RTFX_SHARED names the shared folder)")


@functools.cache
def transcripts(model, decoder, files, options="{}", arguments=()):
    """{file name: result} of `rtfx transcribe --json` in fp32 on the CPU (or RTFX_DEVICE), eight
    files at a time. `options`: of the decoder, as JSON; `arguments`: further ones of the command."""
    command = [PROGRAM, "transcribe", "--json", "--device", DEVICE, "--batch-size", "8"]
    command += ["--model", model, "--decoder", decoder, "--options", options, *arguments, *files]
    result = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert result.returncode == 0, result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["file"] for line in lines] == [str(file) for file in files]
    return {Path(line["file"]).name: line for line in lines}


def assert_same(found, expected):
    """{name: {field: list}}: all equal; else names what differs and shows the first."""
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
    """Compares arrays to an absolute tolerance; remembers the largest difference of each name."""

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
