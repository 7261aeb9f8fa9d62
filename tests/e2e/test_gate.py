"""Tests the verdicts and exit codes of `rtfx gate` on synthetic journals and on a real one."""

import json
import os
import random
import re
import subprocess
from pathlib import Path

import pytest
import synthetic_journal as synthetic
from conftest import ROOT, runs_of, small_config, strict_records

PASS, USAGE, REGRESSED, INCONCLUSIVE, INVALID, CORRECTNESS = 0, 2, 10, 11, 12, 13
SLOWNESS = {"frame_looping": 2.0, "label_looping": 0.6}


def journal(seed=1, slower=1.0, noise=0.003, change=None, rounds=8, **provenance):
    """Returns the records of two decoders. label_looping takes `slower` times as long, and `change` may alter a
    record."""
    generator = random.Random(seed)
    config = {"protocol": {"cv_max": 0.05, "measured_rounds": rounds},
              "verify": {"required": {"fp32": "exact", "bf16": "different"}}}  # fmt: skip
    records = [synthetic.provenance(config=config, **provenance)]
    for round in range(rounds):
        for decoder, seconds in SLOWNESS.items():
            took = seconds * (slower if decoder == "label_looping" else 1)
            grade = "baseline" if decoder == "frame_looping" else "bitwise"
            record = synthetic.run(round=round, decoder=decoder, grade=grade,
                                   decode_seconds=took * generator.lognormvariate(0, noise))  # fmt: skip
            record["tokens_sha256"] = "t0"
            if change:
                change(record)
            records.append(record)
    return records


@pytest.fixture
def gate(rtfx, tmp_path):
    """gate(baseline, current, arguments...) writes two lists of records, compares them and returns the finished
    process."""

    def run(baseline, current, *arguments):
        for name, records in (("baseline", baseline), ("current", current)):
            synthetic.write(tmp_path / name, records)
        return rtfx("gate", "--baseline", tmp_path / "baseline/journal.jsonl",
                    tmp_path / "current", *arguments)  # fmt: skip

    return run


def test_same_results_pass(gate):
    result = gate(journal(1), journal(2))
    assert result.returncode == PASS, result.stdout
    assert result.stdout.rstrip().endswith("PASS")
    assert result.stdout.count("PASS") == 2 * 4 + 1  # results, rtfx.total, rtfx.decode, wer


def test_ten_percent_slower_is_regressed(gate):
    result = gate(journal(1), journal(2, slower=1.1))
    assert result.returncode == REGRESSED
    (line,) = [line for line in result.stdout.splitlines() if "  REGRESSED" in line]
    assert "rtfx.decode" in line and "tolerance 5 %" in line and "noise 2.8 %" in line


def test_a_flag_may_have_several_tolerances(gate):
    result = gate(journal(1), journal(2, slower=1.05), "--tolerance", "rtfx.decode=0.2", "rtfx.total=0.3")
    assert result.returncode == 0 and "tolerance 20 %" in result.stdout and "tolerance 30 %" in result.stdout


def test_five_percent_can_be_told_where_runs_are_known_to_be_steady(gate, rtfx, tmp_path):
    slower = journal(2, slower=1.05)
    tight = ["--tolerance", "rtfx.decode=0.03"]
    assert gate(journal(1), slower, *tight).returncode == INCONCLUSIVE
    assert gate(journal(1), slower, *tight, "--drift", "0.002").returncode == REGRESSED
    folders = [tmp_path / f"baseline{i}" for i in range(5)]
    for i, folder in enumerate(folders):
        synthetic.write(folder, journal(10 + i))
    baselines = [text for folder in folders for text in ("--baseline", folder)]
    assert rtfx("gate", *baselines, tmp_path / "current", *tight).returncode == REGRESSED


def test_an_upgrade_is_invalid_unless_it_is_allowed(gate):
    old, now = journal(1), journal(2, libtorch="2.12.0", cuda_driver="13.1")
    old[0]["cuda_driver"] = "13.0"
    result = gate(old, now)
    assert result.returncode == INVALID
    assert 'other libtorch: "2.11.0", now "2.12.0" (--allow libtorch)' in result.stdout
    assert "(--allow driver)" in gate(old, now, "--allow", "libtorch").stdout
    result = gate(old, now, "--allow", "libtorch,driver")
    assert result.returncode == PASS and "allowed: other libtorch" in result.stdout


def test_another_option_under_the_same_id_is_invalid(gate):
    def with_max_symbols(number):
        return lambda record: record["decoder"]["options"].update(max_symbols=number)

    result = gate(journal(1, change=with_max_symbols(10)), journal(2, change=with_max_symbols(5)))
    assert result.returncode == INVALID
    assert "other option max_symbols: 10, now 5" in result.stdout


def overlapped(in_flight, pass_seconds):
    pipeline = {"in_flight": in_flight, "audio": "memory", "pass_seconds": [pass_seconds]}
    return lambda record: record.update(pipeline=pipeline)


def test_throughput_runs_compare_where_their_settings_agree(gate):
    before = journal(1, change=overlapped(6, 0.21))
    assert gate(before, journal(2, change=overlapped(6, 0.26))).returncode == PASS
    result = gate(before, journal(2, change=overlapped(4, 0.21)))
    assert result.returncode == INVALID and 'now {"audio":"memory","in_flight":4}' in result.stdout


def test_faster_passes(gate):
    assert gate(journal(1), journal(2, slower=0.5)).returncode == PASS


def planted(**fields):
    def change(record):
        if record["decoder"]["id"] == "label_looping":
            record.update(fields)

    return change


WRONG_TOKEN = {"hypotheses_sha256": "h1", "tokens_sha256": "t1"}


def wer(value):
    return {"wer": synthetic.run()["wer"] | {"wer": value}}


@pytest.mark.parametrize(
    "fields, verdict, reason",
    [
        (WRONG_TOKEN, CORRECTNESS, "other tokens or frames"),
        (WRONG_TOKEN | wer(0.30), PASS, "renew the baseline"),
        ({"hypotheses_sha256": "h1"}, PASS, "other score bits"),
        (WRONG_TOKEN | wer(0.32), CORRECTNESS, "1 points more word errors"),
        ({"deterministic": False}, CORRECTNESS, "different results"),
        ({"exactness": synthetic.run(grade="rounding", differing=1)["exactness"]}, CORRECTNESS,
         "graded rounding"),
    ],
)  # fmt: skip
def test_results_are_checked(gate, fields, verdict, reason):
    result = gate(journal(1), journal(2, change=planted(**fields)))
    assert result.returncode == verdict, result.stdout
    assert reason in result.stdout


def test_bf16_may_differ_where_the_words_stay(gate):
    bf16 = {"dtype": "bf16"}
    result = gate(journal(1, change=planted(**bf16)), journal(2, change=planted(**bf16, **WRONG_TOKEN)))  # fmt: skip
    assert result.returncode == PASS and "allowed here" in result.stdout


def without_label_looping(records):
    return [r for r in records if r.get("decoder", {}).get("id") != "label_looping"]


def as_profile(records):
    return [r | {"profiled": True} for r in records]


def with_failure(records):
    return [*records, synthetic.failure(decoder="label_looping")]


INVALID_CURRENT = {
    "missing in the current": without_label_looping(journal(2)),
    "rtfx profile": as_profile(journal(2)),
    "failed: decode: out of memory": with_failure(journal(2)),
    "7 of 8 rounds": [r for r in journal(2) if r.get("round") != 7],
    "no provenance": journal(2)[1:],
    "other device/name": journal(2, device={"type": "cpu", "name": "Another CPU"}),
    "no GPU clocks": journal(2, device={"type": "cuda", "name": "NVIDIA H200"}),
    "Debug": journal(2, rtfx={"build_type": "Debug", "sanitizer": False}),
    "sanitizers": journal(2, rtfx={"build_type": "Release", "sanitizer": True}),
    "other dataset": journal(2, datasets=[{"id": "quickstart", "sha256": "d1"}]),
}


@pytest.mark.parametrize("reason", INVALID_CURRENT)
def test_what_cannot_be_compared_is_invalid(gate, reason):
    result = gate(journal(1), INVALID_CURRENT[reason])
    assert result.returncode == INVALID, result.stdout
    assert reason in result.stdout


def test_a_row_missing_in_the_baseline_is_invalid(gate):
    result = gate(without_label_looping(journal(1)), journal(2))
    assert result.returncode == INVALID and "missing in the baseline" in result.stdout


def test_noise_is_inconclusive(gate):
    result = gate(journal(1, noise=0.3), journal(2, noise=0.3))
    assert result.returncode == INCONCLUSIVE and "NOISY" in result.stdout
    result = gate(journal(1, noise=0.3), journal(2, noise=0.3), "--allow-inconclusive")
    assert result.returncode == PASS and "--allow-inconclusive" in result.stdout


def test_a_gate_below_the_noise_is_refused(gate):
    result = gate(journal(1), journal(2), "--tolerance", "rtfx.decode=0.0001")
    assert result.returncode == INCONCLUSIVE
    assert "tolerance of 0.01 % is below the noise floor" in result.stdout


def test_suspect_rounds_are_inconclusive(gate):
    disturbed = journal(2, slower=1.05, change=lambda record: record.update(suspect=["cpu_wait"]))
    result = gate(journal(1), disturbed)
    assert result.returncode == INCONCLUSIVE
    assert "fewer than three rounds are not suspect: the machine was disturbed" in " ".join(result.stdout.split())
    # A disturbed baseline makes every result look better, so nothing counts as faster.
    result = gate(disturbed, journal(1))
    assert result.returncode == INCONCLUSIVE and "times as fast" not in result.stdout


def test_a_loaded_machine_is_inconclusive_and_not_regressed(gate):
    """A slowdown under another load or on another CPU of the same name is inconclusive. Under the same conditions it is
    a regression."""

    def cpu(**more):
        return {"model": "AMD EPYC", "cores": 2, "threads": 2, **more}

    result = gate(journal(1, cpu=cpu(load_average=0.99)), journal(2, slower=2.2, cpu=cpu(load_average=3.59)))
    assert result.returncode == INCONCLUSIVE
    assert "other conditions: load average 0.99, now 3.59" in result.stdout
    result = gate(journal(1, cpu=cpu(model_number=1)), journal(2, slower=2.2, cpu=cpu(model_number=17)))
    assert result.returncode == INCONCLUSIVE and "CPU model number 1, now 17" in result.stdout
    result = gate(journal(1, cpu=cpu(load_average=0.99)), journal(2, slower=2.2, cpu=cpu(load_average=1.1)))
    assert result.returncode == REGRESSED


def test_tolerances_of_word_errors_are_percentage_points(gate):
    (line,) = [line for line in gate(journal(1), journal(2)).stdout.splitlines() if " wer " in line and "label" not in line][:1]
    assert "tolerance 0.1 percentage points" in line


def test_the_gravest_verdict_is_the_exit_code(gate):
    slow_and_wrong = journal(2, slower=1.5, change=planted(**WRONG_TOKEN))
    assert gate(journal(1), slow_and_wrong).returncode == CORRECTNESS
    assert gate(journal(1), with_failure(slow_and_wrong)).returncode == INVALID


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--tolerance", "rtfx.decod=0.1"], "did you mean 'rtfx.decode'"),
        (["--tolerance", "rtfx.decode"], "needs a share of at least 0 and below 1"),
        (["--allow", "libtroch"], "did you mean 'libtorch'"),
        (["--drift", "2"], "--drift"),
        (["--tolerance", "rtfx.decode=5%"], "needs a share of at least 0 and below 1"),
        (["--tolerance", "share.decode=0.1"], "does not judge this metric"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_usage_errors(gate, arguments, message):
    result = gate(journal(1), journal(2), *arguments)
    assert result.returncode == USAGE and message in result.stderr


def test_a_missing_journal_is_a_usage_error(rtfx, tmp_path):
    result = rtfx("gate", "--baseline", tmp_path / "gone", tmp_path / "gone")
    assert result.returncode == USAGE and "gone" in result.stderr


@pytest.fixture(scope="module")
def real_records(rtfx, tmp_path_factory):
    """Returns a real run of 24 rounds with an A/A control. Its speeds are replaced by those that such a run measured on
    two busy cores, so that verdicts do not depend on the machine that runs the tests."""
    folder = tmp_path_factory.mktemp("real")
    protocol = {"warmup_rounds": 1, "measured_rounds": 24, "aa_control": True, "cv_max": 10}
    (folder / "config.json").write_text(json.dumps(small_config(protocol=protocol)))
    result = rtfx("run", folder / "config.json", "--output", folder / "run")
    assert result.returncode == 0, result.stderr
    records = strict_records(folder / "run/journal.jsonl")
    measured = json.loads((ROOT / "tests/data/aa_rounds.json").read_text())
    for record in runs_of(records):
        speeds = measured[record["decoder"]["id"]]
        record["metrics"] |= {metric: rounds[record["round"]] for metric, rounds in speeds.items()}
    return records


def half(records, rounds):
    return [r for r in records if r["kind"] != "run" or r["round"] in rounds]


def test_fifty_gates_of_real_rounds_never_regress(gate, real_records):
    """The rounds of one run, split into a baseline and a current half in fifty ways, never give a regression."""
    records = json.loads(json.dumps(real_records))
    records[0]["config"]["protocol"]["measured_rounds"] = 12
    for record in runs_of(records):
        record["suspect"] = []  # without suspect rounds, the intervals alone decide the verdicts
    codes = []
    for seed in range(50):
        rounds = random.Random(seed).sample(range(24), 24)
        codes.append(gate(half(records, rounds[:12]), half(records, rounds[12:])).returncode)
    assert set(codes) <= {PASS, INCONCLUSIVE}, codes


def test_real_rounds_planted_changes(gate, real_records):
    """In a real journal, half the speed is a regression, and a wrong token is an error of correctness."""
    slow = json.loads(json.dumps(real_records))
    for record in runs_of(slow):
        rates = {k: v / 2 for k, v in record["metrics"].items() if k.startswith("rtfx.")}
        record["metrics"] |= rates
        record["suspect"] = []
    quiet = [r | {"suspect": []} for r in real_records]
    assert gate(quiet, slow).returncode == REGRESSED
    wrong = [r | (WRONG_TOKEN if r["kind"] == "run" else {}) for r in real_records]
    assert gate(quiet, wrong).returncode == CORRECTNESS


def test_a_real_run_records_what_statistics_need(real_records):
    runs = runs_of(real_records)
    controls = [r for r in runs if r["decoder"].get("control_of") == "frame_looping"]
    assert len(runs) == 3 * 24 and len(controls) == 24
    assert {r["decoder"]["id"] for r in controls} == {"frame_looping.aa"}
    for record in runs:
        batches = record["batches"]
        assert sum(batches["audio_seconds"]) == pytest.approx(record["dataset"]["audio_seconds"])
        assert sum(batches["total_seconds"]) == pytest.approx(record["total_seconds"], abs=1e-4)
        assert record["conditions"]["wall_seconds"] > record["total_seconds"]
        assert record["conditions"]["other_cpus"] is None or record["conditions"]["other_cpus"] >= 0
        assert 0 < record["cpu_seconds"] < 1.1 * record["wall_seconds"]  # the run has one thread
        assert isinstance(record["suspect"], list)
    assert len({r["tokens_sha256"] for r in runs}) == 1
    cpu = real_records[0]["cpu"]
    assert 0.1 < cpu["calibration_ms"] < 100 and "hypervisor" in cpu
    told = dict(re.findall(r"^(.+?)\s*: (.*)$", Path("/proc/cpuinfo").read_text().split("\n\n")[0], re.MULTILINE))
    for key, name in (("family", "cpu family"), ("model_number", "model"), ("stepping", "stepping")):
        assert str(cpu.get(key)) == told.get(name, "None")


@pytest.mark.parametrize(
    "make, run, gate, code",
    [(1, 0, 0, 125), (0, 2, 0, 125), (0, 0, 0, 0), (0, 13, 13, 1), (0, 0, 10, 1), (0, 0, 11, 125), (0, 0, 12, 125)],
)
def test_the_recipe_for_git_bisect_judges_a_commit(tmp_path, make, run, gate, code):
    """The script of docs/ci.md judges a commit by the exit codes of its programs, which stand-ins return here."""
    page = (ROOT / "docs/ci.md").read_text(encoding="utf-8")
    script = re.search(r"cat >measure.sh <<'END'\n(.*?)\nEND\n", page, re.DOTALL)[1]
    programs = {"bin/make": f"exit {make}", "bin/git": "echo 0123abc",
                "build/release/rtfx": f"[ $1 = gate ] && exit {gate}; exit {run}"}  # fmt: skip
    for name, text in programs.items():
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env={**os.environ, "PATH": path}, check=False)
    assert done.returncode == code
