"""Tests `rtfx run --shard`, by which several processes measure one run."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import AUDIO, descriptors, free_port, rounds_in, runs_of, strict_records, wait_until

SHARDED = {
    "datasets": [{"id": "six", "manifest": str(AUDIO / "manifest.jsonl"), "limit": 6}],
    "batch_sizes": [1],  # so that each batch of a shard is one of the whole run
    "protocol": {"warmup_rounds": 0, "measured_rounds": 2},
}


@pytest.fixture
def start(popen, program, config, tmp_path):
    """start(arguments, environment) starts one process. All processes have ended when the test ends."""
    path = config(**SHARDED)

    def run(arguments, environment, output="run"):
        return popen([program, "run", path, "--output", tmp_path / output, *arguments], env=os.environ | environment)

    return run


def by_hand(start, count, *arguments):
    port = {"MASTER_PORT": free_port()}
    processes = [start(["--shard", f"{i}/{count}", *arguments], port) for i in range(count)]
    return [(*p.communicate(timeout=300), p.returncode) for p in processes]


def check_whole(folder, count, whole):
    """Asserts that the merged records agree with those of `whole`, a run of one process."""
    records = strict_records(folder / "journal.jsonl")
    assert records[0]["kind"] == "provenance" and records[0]["shards"]["count"] == count
    runs, expected = runs_of(records), runs_of(strict_records(whole / "journal.jsonl"))
    assert {(r["case"], r["round"]) for r in runs} == {(r["case"], r["round"]) for r in expected}
    expected = {(r["case"], r["round"]): r for r in expected}
    for run in runs:
        other = expected[run["case"], run["round"]]
        assert run["wer"] == other["wer"]
        assert run["dataset"]["utterances"] == 6
        assert run["dataset"]["audio_seconds"] == pytest.approx(other["dataset"]["audio_seconds"])
        assert run["exactness"]["grade"] == other["exactness"]["grade"]
        assert sum(run["exactness"]["grades"].values()) in (0, 6)
        times = run["shards"]["total_seconds"]
        assert len(times) == count and run["total_seconds"] == max(times)
        assert run["shards"]["skew"] == pytest.approx(max(times) * count / sum(times))
        rate = run["dataset"]["audio_seconds"] / max(times)
        assert run["metrics"]["rtfx.total"] == pytest.approx(rate)
        rate = run["dataset"]["audio_seconds"] / max(run["shards"]["decode_seconds"])
        assert run["metrics"]["rtfx.decode"] == pytest.approx(rate)
        assert run["deterministic"]
    assert texts(folder, runs[0]) == texts(whole, expected[runs[0]["case"], runs[0]["round"]])


def tcp_sockets():
    """Yields (state, local port, remote port, link of its descriptor) of each TCP socket of this machine."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in map(str.split, Path(table).read_text().splitlines()[1:]):
            yield row[3], *(int(row[side].rpartition(":")[2], 16) for side in (1, 2)), f"socket:[{row[9]}]"


def wait_until_listening(process, port):
    wait_until(process, lambda: any(state == "0A" and local == int(port) for state, local, *_ in tcp_sockets()))


def wait_until_met(process, port):
    """Waits until a shard has met the first one. It then has two connections, of which one is for its heartbeat."""

    def has_met():
        own = descriptors(process)
        return sum(state == "01" and remote == int(port) and link in own for state, _, remote, link in tcp_sockets()) == 2

    wait_until(process, has_met)


def wait_for_a_round(process, journal):
    wait_until(process, lambda: rounds_in(journal) > 0)


def texts(folder, run):
    lines = (folder / f"hypotheses/{run['result_key']}.jsonl").read_text().splitlines()
    return sorted(lines)


@pytest.fixture
def whole(start, rtfx, config, tmp_path):
    folder = tmp_path / "whole"
    result = rtfx("run", config(**SHARDED), "--output", folder)
    assert result.returncode == 0, result.stderr
    return folder


def test_three_shards_are_the_whole(start, whole, rtfx, tmp_path):
    results = by_hand(start, 3)
    assert [code for _, _, code in results] == [0, 0, 0], results
    check_whole(tmp_path / "run", 3, whole)
    assert "RTFx total" in results[0][0] and not results[1][0]
    # Every command that reads journals reads the merged one.
    assert rtfx("export", tmp_path / "run", "--to", "bmf").returncode == 0
    assert rtfx("compare", whole, tmp_path / "run").returncode == 0
    verified = rtfx("verify", tmp_path / "run", "--output", tmp_path / "verify", "--json")
    records = json.loads(verified.stdout)["records"]
    assert records["sound"] == records["checked"] > 0 and "measured by 3 processes together" in verified.stderr
    gate = rtfx("gate", "--baseline", whole, tmp_path / "run")
    assert gate.returncode == 12 and "shards/count" in gate.stdout


def test_waiting_for_other_shards_is_no_warning(start):
    port = {"MASTER_PORT": free_port()}
    first = start(["--shard", "0/2"], port)
    wait_until_listening(first, port["MASTER_PORT"])
    time.sleep(1.5)  # the first shard waits in steps of one second, and each ends with a warning of LibTorch
    processes = [first, start(["--shard", "1/2"], port)]
    for process in processes:
        _, stderr = process.communicate(timeout=300)
        assert process.returncode == 0 and "c10d" not in stderr and "timed out" not in stderr, stderr


@pytest.mark.parametrize(
    "first, second, output",
    [
        (["--shard", "0/2"], ["--shard", "1/2", "--set", "scorer=none"], "run"),
        (["--shard", "0/2"], ["--shard", "1/2", "--set", "protocol.measured_rounds=3"], "run"),
        (["--shard", "0/2"], ["--shard", "1/2"], "other"),
        (["--shard", "0/2"], ["--shard", "1/3"], "run"),
        (["--shard", "0/2", "--force"], ["--shard", "1/2", "--resume"], "run"),
    ],
)
def test_shards_of_other_runs_are_told_at_once(start, first, second, output):
    port = {"MASTER_PORT": free_port()}
    processes = [start(first, port), start(second, port, output)]
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [2, 2], errors
    assert "has other settings or another number of shards" in errors[0]
    assert "the configuration, --output, --force, --resume or the number of shards is not that of shard 0" in errors[1]
    assert all("start all shards with the same settings" in error for error in errors)


def test_a_killed_shard_and_resume(start, whole, tmp_path):
    port = {"MASTER_PORT": free_port()}
    shards = [start(["--shard", f"{i}/2"], port) for i in range(2)]
    journal = tmp_path / "run/shards/0-of-2/journal.jsonl"
    wait_for_a_round(shards[0], journal)
    shards[0].kill()
    shards[0].wait()
    _, stderr = shards[1].communicate(timeout=60)
    assert shards[1].returncode in (0, 2)  # 0 if it had passed its last barrier
    results = by_hand(start, 2, "--resume")
    assert [code for _, _, code in results] == [0, 0], results
    check_whole(tmp_path / "run", 2, whole)


def test_lost_hypotheses_of_a_shard_are_an_error(start, tmp_path):
    assert [code for *_, code in by_hand(start, 2)] == [0, 0]
    lost = next((tmp_path / "run/shards/1-of-2/hypotheses").glob("*.jsonl"))
    lost.unlink()
    (_, error, code), _ = by_hand(start, 2, "--resume")
    assert code == 2 and f"{lost}: is missing" in error and "--force" in error, error


def endless(start, count, port=None):
    """Starts shards that measure until something ends them."""
    port = port or {"MASTER_PORT": free_port()}
    return [start(["--shard", f"{i}/{count}", "--set", "protocol.measured_rounds=1000"], port) for i in range(count)]


def journal_of(tmp_path, index, count):
    return tmp_path / f"run/shards/{index}-of-{count}/journal.jsonl"


def wait_for_more_rounds(shards, tmp_path):
    """Waits until each shard has written further rounds, and checks that all still run."""
    for i, shard in enumerate(shards):
        journal = journal_of(tmp_path, i, len(shards))
        rounds = rounds_in(journal)
        wait_until(shard, lambda: rounds_in(journal) > rounds + 1)
    assert [shard.poll() for shard in shards] == [None] * len(shards)


@pytest.mark.parametrize("killed", [0, 1, 2])
def test_a_killed_shard_is_named_within_seconds(start, tmp_path, killed):
    shards = endless(start, 3)
    for i, shard in enumerate(shards):
        wait_for_a_round(shard, journal_of(tmp_path, i, 3))
    shards[killed].kill()
    shards[killed].wait()
    others = [shard for shard in shards if shard is not shards[killed]]
    begin = time.monotonic()
    errors = [shard.communicate(timeout=30)[1] for shard in others]
    assert [shard.returncode for shard in others] == [2, 2], errors
    assert time.monotonic() - begin < 20
    process = f"its process {shards[killed].pid} on {socket.gethostname()} "
    said = f"no heartbeat of {process}for 10 s" if killed else f"shard 0 has ended: {process}no longer answers"
    for error in errors:
        assert error.count(said) == error.count("has ended") == 1, error
        assert "--resume continues the journals" in error and "left" not in error, error
        assert "c10d" not in error and "frame #" not in error, error


def test_a_shard_that_is_killed_while_others_come_is_named(start, tmp_path):
    port = {"MASTER_PORT": free_port()}
    first, second = (start(["--shard", f"{i}/3"], port) for i in range(2))
    wait_until_met(second, port["MASTER_PORT"])
    time.sleep(0.5)  # its first heartbeat is sent at once
    assert first.poll() is None
    second.kill()
    _, error = first.communicate(timeout=30)
    assert first.returncode == 2 and f"shard 1-of-3 has ended: no heartbeat of its process {second.pid} on " in error, error


def test_a_shard_that_stands_still_is_not_taken_for_ended(start, tmp_path):
    shards = endless(start, 2)
    for i in (1, 0):
        wait_for_a_round(shards[i], journal_of(tmp_path, i, 2))
        shards[i].send_signal(signal.SIGSTOP)
        time.sleep(5)
        assert shards[1 - i].poll() is None
        shards[i].send_signal(signal.SIGCONT)
    wait_for_more_rounds(shards, tmp_path)


def test_a_shard_of_another_run_does_not_end_one_that_is_under_way(start, tmp_path):
    port = {"MASTER_PORT": free_port()}
    shards = endless(start, 2, port)
    for i, shard in enumerate(shards):
        wait_for_a_round(shard, journal_of(tmp_path, i, 2))
    stray = start(["--shard", "1/2", "--set", "scorer=none"], port)
    _, error = stray.communicate(timeout=60)
    assert stray.returncode == 2 and "is not that of shard 0" in error
    shards[1].send_signal(signal.SIGSTOP)  # shard 0 then waits at a barrier
    time.sleep(3)
    shards[1].send_signal(signal.SIGCONT)
    wait_for_more_rounds(shards, tmp_path)


@pytest.mark.parametrize("failing", [0, 1])
def test_all_shards_name_the_first_cause_once(start, tmp_path, failing):
    """If one shard cannot write its journal, the others end and name that shard and its error once."""
    blocked = tmp_path / f"run/shards/{failing}-of-3"
    blocked.parent.mkdir(parents=True)
    blocked.write_text("")
    shards = endless(start, 3)
    errors = [shard.communicate(timeout=60)[1] for shard in shards]
    assert all(shard.returncode for shard in shards), errors
    own = errors.pop(failing)
    assert str(blocked) in own, own
    for error in errors:
        assert error.count(f"shard {failing}-of-3 left: ") == error.count(" left: ") == 1, error
        assert error.count(str(blocked)) == own.count(str(blocked)), error


def test_interrupting_one_ends_all(start, tmp_path):
    port = {"MASTER_PORT": free_port()}
    many = ["--set", "protocol.measured_rounds=1000"]
    shards = [start(["--shard", f"{i}/2", *many], port) for i in range(2)]
    journal = tmp_path / "run/shards/1-of-2/journal.jsonl"
    wait_for_a_round(shards[1], journal)
    shards[1].send_signal(signal.SIGINT)
    _, stderr = shards[0].communicate(timeout=60)
    assert shards[0].returncode == 2 and "shard 1-of-2 left: interrupted" in stderr
    assert shards[1].wait(timeout=60) == 130


def test_interrupted_while_it_waits_for_the_others(start):
    port = free_port()
    shard = start(["--shard", "0/2"], {"MASTER_PORT": port})
    wait_until_listening(shard, port)
    shard.send_signal(signal.SIGINT)
    _, stderr = shard.communicate(timeout=60)
    assert shard.returncode == 130 and stderr.endswith("rtfx: interrupted\n")


def test_slurm(start, whole, tmp_path):
    port = free_port()
    shards = [
        start(["--shard", "auto"], {"SLURM_PROCID": str(i), "SLURM_NTASKS": "2",
                                    "SLURM_LOCALID": str(i), "MASTER_PORT": port})
        for i in range(2)
    ]  # fmt: skip
    for shard in shards:
        _, stderr = shard.communicate(timeout=300)
        assert shard.returncode == 0, stderr
    check_whole(tmp_path / "run", 2, whole)


def test_torchrun(program, config, whole, tmp_path):
    pytest.importorskip("torch", reason="needs torch for Python (not with LIBTORCH=DIR)")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python",
               "--nproc-per-node", "2", program, "run", config(**SHARDED),
               "--output", tmp_path / "run", "--shard", "auto"]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    check_whole(tmp_path / "run", 2, whole)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--shard", "3/3"], "no shard"),
        (["--shard", "auto"], "torchrun"),
        (["--shard", "0/2", "--set", "isolate=true"], "isolate"),
        (["--shard", "0/2", "--set", "protocol.precision=0.1"], "protocol.precision"),
    ],
)
def test_errors(rtfx, config, tmp_path, arguments, message):
    result = rtfx("run", config(**SHARDED), "--output", tmp_path / "run", *arguments)
    assert result.returncode == 2 and message in result.stderr


def test_a_whole_run_is_not_overwritten(rtfx, config, whole):
    for mode in ([], ["--resume"], ["--force"]):
        result = rtfx("run", config(**SHARDED), "--output", whole, "--shard", "0/2", *mode)
        assert result.returncode == 2 and "holds a run without shards, which they would replace" in result.stderr


def test_force_keeps_the_earlier_journal(start, tmp_path):
    journal = tmp_path / "run/journal.jsonl"
    assert [code for *_, code in by_hand(start, 2)] == [0, 0]
    first = journal.read_text()
    assert [code for *_, code in by_hand(start, 2, "--force")] == [0, 0]
    assert (tmp_path / "run/journal.jsonl.1").read_text() == first != journal.read_text()


def test_shards_of_a_machine_divide_its_cpus(start, tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    ends = by_hand(start, 2, "--set", "threads=0", "--set", "protocol.measured_rounds=1")
    assert [code for *_, code in ends] == [0, 0], ends
    cpus = len(os.sched_getaffinity(0))
    for i in range(2):
        records = strict_records(tmp_path / f"run/shards/{i}-of-2/journal.jsonl")
        assert 1 <= records[0]["cpu"]["threads"] <= max(1, cpus // 2)
