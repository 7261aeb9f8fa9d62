"""Tests `isolate`: a crash costs one record, and kill -9 at any moment with --resume afterwards costs none."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import HAS_GPU, PROGRAM, ROOT, rounds_in, runs_of, strict_records, wait_until

PLUGIN = PROGRAM.parent / "tests/librtfx_faulty_decoder.so"
ROUNDS = 3
PROTOCOL = {"warmup_rounds": 0, "measured_rounds": ROUNDS}


def with_fault(**options):
    """Returns the settings of two decoders, with a decoder between them that ends its process."""
    faulty = {"id": "faulty", "name": "faulty", "options": options}
    return {"plugins": [str(PLUGIN)], "isolate": True, "protocol": PROTOCOL,
            "decoders": ["frame_looping", faulty, "label_looping"]}  # fmt: skip


def rounds_of(records, decoder):
    return sorted(r["round"] for r in runs_of(records) if r["decoder"]["id"] == decoder)


@pytest.mark.parametrize("decodes", [0, 2])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_crash_costs_one_record(run_config, tmp_path, number, decodes):
    result = run_config(**with_fault(signal=int(number), decodes=decodes))
    assert result.returncode == 1, result.stderr
    records = strict_records(tmp_path / "run/journal.jsonl")
    for decoder in ("frame_looping", "label_looping"):
        assert rounds_of(records, decoder) == list(range(ROUNDS))
    assert rounds_of(records, "faulty") == list(range(decodes))
    (failure,) = [r for r in records if r["kind"] == "failure"]
    assert failure["decoder"]["id"] == "faulty" and failure["stage"] == "decode"
    assert f"signal {int(number)}" in failure["message"]
    assert "FAILED" in result.stdout


@pytest.mark.parametrize("fault", ["exit", "_exit", "quick_exit", "abort"])
def test_an_end_without_a_result_costs_one_record(run_config, tmp_path, fault):
    """A process that ends without a result costs one record, even if its exit code is 0."""
    result = run_config(**with_fault(fault=fault, decodes=1))
    assert result.returncode == 1, result.stderr
    records = strict_records(tmp_path / "run/journal.jsonl")
    for decoder in ("frame_looping", "label_looping"):
        assert rounds_of(records, decoder) == list(range(ROUNDS))
    (failure,) = [r for r in records if r["kind"] == "failure"]
    assert failure["decoder"]["id"] == "faulty" and failure["stage"] == "decode"
    ended = "signal 6" if fault == "abort" else "its process was ended from within"
    assert ended in failure["message"]


def test_a_case_that_hangs_costs_one_record(run_config, tmp_path):
    changes = with_fault(fault="hang", decodes=1)
    changes["protocol"] = PROTOCOL | {"case_limit_seconds": 3}
    result = run_config(**changes)
    assert result.returncode == 1, result.stderr
    records = strict_records(tmp_path / "run/journal.jsonl")
    for decoder in ("frame_looping", "label_looping"):
        assert rounds_of(records, decoder) == list(range(ROUNDS))
    (failure,) = [r for r in records if r["kind"] == "failure"]
    assert failure["decoder"]["id"] == "faulty" and failure["stage"] == "decode"
    assert "did not come back: protocol.case_limit_seconds is 3" in failure["message"]


def test_a_crash_is_recorded_also_where_the_next_process_does_not_start(run_config, tmp_path):
    """The process after the crash ends while it loads the plug-in. The decoders that it should have measured fail."""
    settings = {"env": os.environ | {"RTFX_TEST_ENDS_AT_LOAD": str(tmp_path / "mark")}}
    result = run_config(settings=settings, **with_fault())
    assert result.returncode == 1, result.stderr
    failures = [r for r in strict_records(tmp_path / "run/journal.jsonl") if r["kind"] == "failure"]
    assert {r["decoder"]["id"]: r["stage"] for r in failures} == {
        "faulty": "decode", "frame_looping": "prepare", "label_looping": "prepare"}  # fmt: skip
    assert len(failures) == 3


@pytest.mark.parametrize("isolate", [False, True])
def test_a_model_that_cannot_be_built_costs_its_cases_alone(run_config, tmp_path, isolate):
    """A model that cannot be built costs its own cases alone. It is built first to find the largest batch, and the
    model before it is needed again."""
    datasets = [{"id": name, "manifest": str(ROOT / "tests/data/two.jsonl")} for name in ("a", "b")]
    result = run_config(isolate=isolate, batch_sizes=["max"], dtypes=["fp32", "fp8"], datasets=datasets, protocol=PROTOCOL)
    assert result.returncode == 1, result.stderr
    assert result.stderr.count("the largest batch that fits has") == len(datasets)
    records = strict_records(tmp_path / "run/journal.jsonl")
    failures = [r for r in records if r["kind"] == "failure"]
    assert [(r["dtype"], r["stage"]) for r in failures] == [("fp8", "prepare")] * 2 * len(datasets)
    measured = [(r["dataset"]["id"], r["decoder"]["id"]) for r in runs_of(records)]
    decoders = ("frame_looping", "label_looping")
    assert sorted(measured) == sorted((d["id"], name) for d in datasets for name in decoders for _ in range(ROUNDS))


@pytest.mark.skipif(not HAS_GPU, reason="no GPU")
def test_a_crash_while_the_largest_batch_is_looked_for_costs_one_record(run_config, tmp_path):
    result = run_config("--device", "cuda", batch_sizes=["max"], **with_fault())
    assert result.returncode == 1, result.stderr
    records = strict_records(tmp_path / "run/journal.jsonl")
    for decoder in ("frame_looping", "label_looping"):
        assert rounds_of(records, decoder) == list(range(ROUNDS))
    (failure,) = [r for r in records if r["kind"] == "failure"]
    assert failure["decoder"]["id"] == "faulty" and failure["stage"] == "decode"


def test_without_isolation_it_ends_the_run(run_config, tmp_path):
    result = run_config(**with_fault() | {"isolate": False})
    assert result.returncode == -signal.SIGKILL


def test_results_are_those_of_one_process(run_config, tmp_path):
    two = {"batch_sizes": [1, 2], "protocol": PROTOCOL}
    assert run_config(**two).returncode == 0
    expected = results(tmp_path / "run/journal.jsonl")
    assert run_config("--force", isolate=True, **two).returncode == 0
    assert results(tmp_path / "run/journal.jsonl") == expected


def test_a_missing_file_costs_no_earlier_journal(run_config, tmp_path):
    journal = tmp_path / "run/journal.jsonl"
    journal.parent.mkdir()
    journal.write_text("earlier\n")
    result = run_config("--force", isolate=True, datasets=[{"id": "gone", "manifest": str(tmp_path / "gone.jsonl")}])
    assert result.returncode == 2 and "gone.jsonl: no such file" in result.stderr
    assert journal.read_text() == "earlier\n" and [*journal.parent.iterdir()] == [journal]


def test_an_interrupt_reaches_the_child(popen, program, config, tmp_path):
    path = config(isolate=True, protocol=PROTOCOL | {"measured_rounds": 1000})
    process = popen([program, "run", path, "--output", tmp_path / "run"])
    journal = tmp_path / "run/journal.jsonl"
    wait_until(process, lambda: rounds_in(journal) > 0)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume" in stderr
    assert not [r for r in strict_records(journal) if r["kind"] == "failure"]


def results(journal):
    """Returns the contents of a run's records without times, and the cases that have a summary or a failure."""
    records = strict_records(journal)
    ends = sorted((r["kind"], r["case"]) for r in records if r["kind"] in ("summary", "failure"))
    return ends, sorted(
        (r["case"], r["round"], r["result_key"], r["hypotheses_sha256"], r["exactness"]["grade"]) for r in runs_of(records)
    )


def provenances(journal):
    return [r for r in strict_records(journal) if r["kind"] == "provenance"]


@pytest.mark.parametrize("isolate", [False, True])
def test_killed_at_five_random_moments(program, config, rtfx, tmp_path, isolate):
    """A run that is killed five times and resumed has each record of an undisturbed run once."""
    path = config(isolate=isolate, protocol=PROTOCOL | {"measured_rounds": 30})
    begin = time.monotonic()
    subprocess.run([program, "run", path, "--output", tmp_path / "whole"], check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - begin
    generator = random.Random(1)
    killed = 0
    for _ in range(5):
        # The run is killed after some more records, or during the longest part.
        wanted = records_in(tmp_path / "run") + generator.randint(1, 6)
        deadline = time.monotonic() + generator.uniform(0.35, 0.5) * seconds
        process = subprocess.Popen(
            [program, "run", path, "--output", tmp_path / "run", "--resume"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        while time.monotonic() < deadline and records_in(tmp_path / "run") < wanted:
            time.sleep(0.005)
        process.kill()
        killed += process.wait() == -signal.SIGKILL
        wait_for_children_of(path)
    result = rtfx("run", path, "--output", tmp_path / "run", "--resume")
    assert result.returncode == 0, result.stderr
    assert killed >= 3  # other tests run beside this one, so some runs end before
    assert len(provenances(tmp_path / "run/journal.jsonl")) > 2  # some of the killed runs had begun
    assert results(tmp_path / "run/journal.jsonl") == results(tmp_path / "whole/journal.jsonl")


def records_in(folder):
    journal = folder / "journal.jsonl"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def wait_for_children_of(path, seconds=10):
    """Waits until no child of the run at `path` is left, since a parent that is killed ends its children too."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(str(path).encode() in command for command in command_lines()):
            return
        time.sleep(0.02)
    pytest.fail("a child outlived its parent")


def command_lines():
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                yield (entry / "cmdline").read_bytes()
            except OSError:
                continue
