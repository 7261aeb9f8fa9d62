"""Runs the soak test of live streams (tests/support/soak.py) for some seconds, and tests what it must notice."""

import importlib
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from conftest import AUDIO, PROGRAM, ROOT

soak = importlib.import_module("soak") if PROGRAM.with_name("librtfx.so").exists() else None
pytestmark = pytest.mark.skipif(soak is None, reason="no librtfx.so: `make build` makes it")


def test_streams_stand_what_clients_do(tmp_path):
    for clip in sorted(AUDIO.glob("*.flac"))[:4]:
        (tmp_path / clip.name).symlink_to(clip)
    command = [sys.executable, ROOT / "tests/support/soak.py", "--seconds", "12", "--pace", "8", "--long", "40",
               "--audio", tmp_path, "--growth", "2000", "--output", tmp_path]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    last = json.loads((tmp_path / "soak.jsonl").read_text().splitlines()[-1])
    assert last["failures"] == 0 and last["memory_mb"] > 100
    assert sum(last["counts"].values()) > 3 and "0 failures" in done.stdout


def words(*starts):
    return [SimpleNamespace(text=f"word{i}", start=start) for i, start in enumerate(starts)]


@pytest.mark.parametrize(
    "shift, wanted", [(0.0, None), (0.08, None), (0.24, "words of 1 of 2 minutes begin +0.24 s from their place")]
)
def test_a_shift_of_more_than_a_frame_is_noticed(shift, wanted):
    """Words that are shifted from the second minute on are noticed if the shift is longer than a frame."""
    starts = [float(second) for second in range(0, 120, 2)]
    found = words(*(start + shift * (start >= 60) for start in starts))
    assert soak.shifted(found, [(f"word{i}", start) for i, start in enumerate(starts)], 0.08) == wanted


def test_a_minute_without_a_word_is_noticed():
    starts = [float(second) for second in range(0, 180, 2)]
    wanted = [(f"word{i}", start) for i, start in enumerate(starts)]
    found = [word for word in words(*starts) if not 60 <= word.start < 120]
    assert soak.shifted(found, wanted, 0.08) == "no word was found again in the minutes [1]"


def test_growth_is_that_since_the_second_fifth():
    assert soak.grown([(i, 500.0 + min(i, 20)) for i in range(100)]) == 0
    assert soak.grown([(i, 500.0 + i) for i in range(100)]) == 60
