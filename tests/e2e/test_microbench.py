"""Runs every micro-benchmark once, so that none stops working unnoticed. Those for a GPU are skipped without one."""

import json
import os
import subprocess

import consumers
import pytest
import synthetic_journal as synthetic
from conftest import MODELS, ROOT

FOLDER = ROOT / "build/release/benchmarks"
OTHERS = sorted(path.name for path in FOLDER.glob("rtfx_bench_*") if path.is_file())
ARGUMENTS = {"rtfx_bench_checkpoint_load": [f"--checkpoint={MODELS / 'quickstart-rnnt.nemo'}"]}
# Benchmarks that run on a CPU.
SUBJECTS = {"alignment", "top_k", "language_model", "joint", "prediction", "beam_step", "wfst_frame", "word_errors", "phrase_tree", "streams"}


def run_once(name, path, *options):
    """Runs each benchmark of a program for one iteration, and writes the results to `path`. Versions before 1.8 lack
    `--benchmark_min_time=1x`, but a minimum of a nanosecond ends after one iteration."""
    command = [FOLDER / name, "--benchmark_min_time=1e-9", "--benchmark_repetitions=1", f"--benchmark_out={path}"]
    settings = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run([*command, *options], capture_output=True, text=True, timeout=300, env=settings)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("microbench") / "results.json"
    run = run_once("rtfx_microbench", path, "--benchmark_filter=-cuda")
    assert run.returncode == 0, run.stderr
    return path


@pytest.mark.parametrize("name", OTHERS)
def test_other_programs_run_once(tmp_path, name):
    run = run_once(name, tmp_path / "results.json", *ARGUMENTS.get(name, []))
    if run.returncode == 1 and ", nothing to measure" in run.stderr:
        pytest.skip(run.stderr)
    assert run.returncode == 0, run.stderr
    entries = json.loads((tmp_path / "results.json").read_text())["benchmarks"]
    assert entries and not [entry for entry in entries if entry.get("error_occurred")]


def test_other_programs_are_found():
    assert {"rtfx_bench_checkpoint_load", "rtfx_bench_encoder"} <= {*OTHERS}


def test_every_subject_is_measured(results):
    """No benchmark fails, and each has a time and a rate of its own unit."""
    document = json.loads(results.read_text())
    assert document["context"]["threads"] == "1"
    assert {entry["name"].split("/")[0] for entry in document["benchmarks"]} == SUBJECTS
    for entry in document["benchmarks"]:
        assert not entry.get("error_occurred"), entry
        assert entry["real_time"] > 0, entry
        rates = {key: value for key, value in entry.items() if key.endswith("/s") or key == "bytes_per_second"}
        assert rates and all(value > 0 for value in rates.values()), entry


def test_streams_find_tokens_at_some_frames(results):
    """The random model emits about as many tokens per frame as speech does, since its blank bias was chosen for
    that."""
    entries = [e for e in json.loads(results.read_text())["benchmarks"] if e["name"].startswith("streams/")]
    assert entries
    assert all(0 < entry["tokens_per_frame"] < 1 for entry in entries), entries


def test_compare_py_reads_them_beside_an_export(rtfx, results, tmp_path):
    """Google Benchmark's compare.py reads one file with micro-benchmarks and an export, since their entries are
    alike."""
    synthetic.write(tmp_path / "run", [synthetic.provenance(), *(synthetic.run(round=i) for i in range(3))])
    assert rtfx("export", tmp_path / "run", "--to", "gbench", "-o", tmp_path / "run.json").returncode == 0
    both = json.loads(results.read_text())
    exported = json.loads((tmp_path / "run.json").read_text())["benchmarks"]
    both["benchmarks"] += exported
    (tmp_path / "both.json").write_text(json.dumps(both))
    _, report = consumers.compare_py(tmp_path / "both.json", tmp_path / "both.json", tmp_path / "report.json")
    names = {part["name"] for part in report}
    assert {entry["name"] for entry in both["benchmarks"]} <= names
    for part in report[:-1]:
        assert all(measured["time"] == 0 for measured in part["measurements"]), part
