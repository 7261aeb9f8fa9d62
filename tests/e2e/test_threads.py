"""Tests how threads wait, and what a run records about its CPUs."""

import json
import os

import pytest
from conftest import small_config, strict_records

SHELL = ("_", "OLDPWD", "SHLVL")  # variables whose place in the environment the program may use
POLICY = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def environment(**given):
    kept = {k: v for k, v in os.environ.items() if k not in SHELL + POLICY}
    return kept | given


def runtime_settings(rtfx, **given):
    """Returns the settings that the OpenMP run-time reports to have read."""
    result = rtfx("--version", env=environment(OMP_DISPLAY_ENV="verbose", **given))
    assert result.returncode == 0 and result.stdout.startswith("rtfx ")
    return result.stderr


@pytest.mark.parametrize("given", [{}, {"_": "/bin/x"}, {"OLDPWD": "/"}])
def test_threads_do_not_spin(rtfx, given):
    """Threads do not spin, even if the environment has no variable whose place the program may use."""
    assert "GOMP_SPINCOUNT = '0'" in runtime_settings(rtfx, **given)


def test_the_user_has_the_last_word(rtfx):
    assert "OMP_WAIT_POLICY = 'ACTIVE'" in runtime_settings(rtfx, OMP_WAIT_POLICY="active")
    assert "GOMP_SPINCOUNT = '77'" in runtime_settings(rtfx, GOMP_SPINCOUNT="77")


def provenance(rtfx, folder, name, **given):
    config = folder / f"{name}.json"
    config.write_text(json.dumps(small_config(threads=None, decoders=["null"])))
    result = rtfx("run", config, "--output", folder / name, env=environment(**given))
    assert result.returncode == 0, result.stderr
    return strict_records(folder / name / "journal.jsonl")[0]


def test_provenance_says_how_the_cpus_were_shared(rtfx, tmp_path):
    passive = provenance(rtfx, tmp_path, "passive")["cpu"]
    active = provenance(rtfx, tmp_path, "active", OMP_WAIT_POLICY="ACTIVE")["cpu"]
    assert (passive["wait_policy"], active["wait_policy"]) == ("passive", "active")
    allowed = os.sched_getaffinity(0)
    assert passive["affinity"]["cpus"] == len(allowed)
    assert str(min(allowed)) in passive["affinity"]["list"]
    assert passive["load_average"] >= 0
    assert set(passive["group_limits"]) == {"cpus", "memory_bytes"}
    assert passive["threads"] <= len(allowed)
    changes = rtfx("diff-runs", tmp_path / "passive", tmp_path / "active").stdout
    assert 'cpu/wait_policy: "passive" -> "active"' in changes


def test_a_thread_number_from_outside_counts(rtfx, tmp_path):
    assert provenance(rtfx, tmp_path, "given", OMP_NUM_THREADS="1")["cpu"]["threads"] == 1


@pytest.mark.parametrize("command", ["run", "transcribe"])
def test_too_many_threads_are_refused(rtfx, config, transcribe, command):
    if command == "run":
        result = rtfx("run", config(), "--threads", "100000")
    else:
        result = transcribe("--threads", "100000", "a.wav")
    assert result.returncode == 2 and "1024" in result.stderr and "threads" in result.stderr
