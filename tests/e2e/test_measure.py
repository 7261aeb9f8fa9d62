"""scripts/measure.sh: each step calls the program that the reports name, and a campaign goes on where it was stopped."""

import gzip
import json
import os
import subprocess

import pytest
from conftest import ROOT

SCRIPT = ROOT / "scripts/measure.sh"


@pytest.fixture
def measure(tmp_path):
    """Runs the script with programs that write down their arguments; returns (result, calls, folder).

    `calls` are those of rtfx and, with `python`, those of the rivals' Python."""
    program, calls = tmp_path / "rtfx", tmp_path / "calls"
    program.write_text(
        "#!/usr/bin/env bash\n"
        f'printf "%s\\n" "$@" >>{calls}; echo -- >>{calls}\n'
        'while (($#)); do [[ $1 == --output ]] && mkdir -p "$2" && echo "{}" >"$2/journal.jsonl"; shift; done\n'
    )
    program.chmod(0o755)
    folder = tmp_path / "out"

    def run(*steps, python="/bin/true"):
        environment = os.environ | {"RTFX_BIN": str(program), "RTFX_PYTHON": str(python or program)}
        result = subprocess.run([SCRIPT, folder, *steps], capture_output=True, text=True, env=environment)
        told = calls.read_text().split("--\n")[:-1] if calls.exists() else []
        return result, [call.splitlines() for call in told], folder

    return run


def test_a_step_is_measured_once(measure):
    result, calls, folder = measure("chain:ctc_0.6b", "searches:tdt")
    assert result.returncode == 0, result.stderr
    chain, searches = calls
    assert chain[:2] == ["run", "configs/chain.json"]
    assert 'decoders=["ctc_greedy"]' in chain and "batch_sizes=[128]" in chain
    (models,) = [a for a in chain if a.startswith("models=")]
    assert json.loads(models.removeprefix("models="))[0]["path"] == "data/standin-parakeet-ctc-0.6b.nemo"
    assert 'models=["data/standin256-tdt.nemo"]' in searches
    assert gzip.decompress((folder / "ctc_0.6b.jsonl.gz").read_bytes()) == b"{}\n"
    result, again, _ = measure("chain:ctc_0.6b")
    assert "measured before" in result.stdout and again == calls


def test_configurations_and_shapes_of_the_steps_are_there(measure):
    steps = subprocess.run([SCRIPT, "--list"], capture_output=True, text=True, check=True).stdout.split()
    result, calls, folder = measure()
    assert result.returncode == 0, result.stderr
    assert [line[3:] for line in result.stdout.splitlines() if line.startswith("== ")] == steps
    assert {path.name.removeprefix(".done-") for path in folder.glob(".done-*")} == set(steps)
    stand_ins = (ROOT / "models/widen_checkpoint.py").read_text(encoding="utf-8")
    for call in calls:
        if call[0] in ("run", "stream"):
            assert (ROOT / call[1]).exists(), call[1]
        for value in call:
            if value.startswith("models=[{"):
                assert f'"{json.loads(value.removeprefix("models="))[0]["id"]}"' in stand_ins


def test_nemo_streams_have_the_steps_of_ours(measure):
    """Contexts, checkpoint and speech of `nemo_streams:PERIOD` are those of `c120:PERIOD`."""
    for period in (80, 160, 320, 560, 1120):
        result, calls, _ = measure(f"c120:{period}", f"nemo_streams:{period}", python=None)
        assert result.returncode == 0, result.stderr
        ours, theirs = calls[-2:]
        (models,) = [json.loads(a.removeprefix("models="))[0] for a in ours if a.startswith("models=")]
        (datasets,) = [json.loads(a.removeprefix("datasets="))[0] for a in ours if a.startswith("datasets=")]
        assert theirs[:2] == ["rivals/nemo/stream_steps.py", models["path"]]
        assert theirs[theirs.index("--manifest") + 1] == datasets["manifest"]
        left, right = models["att_context_size"]
        place = theirs.index("--att-context-size")
        assert theirs[place + 1 : place + 3] == [str(left), str(right)]
        assert 80 * (right + 1) == period and left % (right + 1) == 0
        streams = theirs[theirs.index("--streams") + 1 : theirs.index("--closer")]
        assert streams == sorted(streams, key=int) and len(streams) >= 3


def test_an_unknown_step_is_named(measure):
    result, calls, _ = measure("nonsense")
    assert result.returncode == 2 and "no step 'nonsense'" in result.stderr and not calls
