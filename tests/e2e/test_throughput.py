"""protocol.mode "throughput" as a user meets it: table, page, exports, gate, children, shards."""

import csv
import io
import json
import subprocess

import pytest
from conftest import runs_of, small_config, strict_records

OVERLAPPED = {"warmup_rounds": 0, "measured_rounds": 2, "mode": "throughput"}


def config_file(folder, **changes):
    """Four batches of two."""
    config = small_config(**changes)
    config["datasets"][0]["limit"] = 8
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


@pytest.fixture(scope="module")
def runs(rtfx, tmp_path_factory):
    """{mode: (folder, output)} of one configuration."""
    folder = tmp_path_factory.mktemp("throughput")
    found = {}
    for mode in ("isolated", "throughput"):
        path = config_file(folder, protocol=OVERLAPPED | {"mode": mode})
        result = rtfx("run", path, "--output", folder / mode)
        assert result.returncode == 0, result.stderr
        found[mode] = folder / mode, result.stdout
    return found


def test_the_table_says_it_and_has_no_speed_of_decoding(runs):
    rows = [line for line in runs["throughput"][1].splitlines() if "  fp32  " in line]
    assert len(rows) == 2
    for row in rows:
        assert "overlapped, encoder " in row and " % busy" in row
        assert "  -  " in row  # RTFx decode
    assert "overlapped: total RTFx by the wall clock of passes" in runs["throughput"][1]
    assert "overlapped" not in runs["isolated"][1]


def test_costs_and_exports_have_the_stages(rtfx, runs):
    folder, _ = runs["throughput"]
    table = rtfx("report", folder, "--table-only", "--costs").stdout
    head = next(line for line in table.splitlines() if "p50 ms" in line)
    assert "copy %" in head and "encoder %" in head and "load %" not in head
    text = rtfx("export", folder, "--to", "csv").stdout
    for row in csv.DictReader(io.StringIO(text)):
        assert 0 < float(row["busy.encoder"]) <= 1 and row["rtfx.decode"] == ""
        assert "overlapped, encoder " in row["marks"]


def test_the_page_shows_stages_and_no_regions(rtfx, runs):
    folder, _ = runs["throughput"]
    result = rtfx("report", folder)
    assert result.returncode == 0, result.stderr
    page = (folder / "report.html").read_text()
    assert 'data-label="encoder, %"' in page and "overlapped, encoder " in page
    assert "Where does the time go?" not in page


def test_the_gate_compares_no_mode_with_the_other(rtfx, runs):
    before, after = runs["isolated"][0], runs["throughput"][0]
    result = rtfx("gate", "--baseline", before, after)
    assert result.returncode == 12, result.stdout + result.stderr
    assert "other protocol.mode" in result.stdout + result.stderr
    same = rtfx("gate", "--baseline", after, after)
    assert "protocol.mode" not in same.stdout + same.stderr


def test_resumed_only_in_the_same_mode(rtfx, runs, tmp_path):
    path = config_file(tmp_path, protocol=OVERLAPPED)
    folder = tmp_path / "run"
    assert rtfx("run", path, "--output", folder).returncode == 0
    more = ["--resume", "--set", "protocol.measured_rounds=3"]
    assert rtfx("run", path, "--output", folder, *more).returncode == 0
    assert len(runs_of(strict_records(folder / "journal.jsonl"))) == 6
    other = ["--resume", "--set", "protocol.throughput.in_flight=2"]
    assert rtfx("run", path, "--output", folder, *other).returncode == 0
    records = runs_of(strict_records(folder / "journal.jsonl"))
    assert len(records) == 10 and len({r["result_key"] for r in records}) == 4


def test_in_child_processes(rtfx, tmp_path):
    path = config_file(tmp_path, protocol=OVERLAPPED, isolate=True)
    result = rtfx("run", path, "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    records = runs_of(strict_records(tmp_path / "run/journal.jsonl"))
    assert len(records) == 4 and all(r["pipeline"]["in_flight"] == 6 for r in records)


def test_in_two_shards(program, tmp_path):
    path = config_file(tmp_path, protocol=OVERLAPPED)
    command = [program, "run", path, "--output", tmp_path / "run", "--shard"]
    shards = [
        subprocess.Popen([*command, f"{i}/2"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for i in range(2)
    ]
    for shard in shards:
        _, stderr = shard.communicate(timeout=300)
        assert shard.returncode == 0, stderr
    for record in runs_of(strict_records(tmp_path / "run/journal.jsonl")):
        seconds = record["shards"]["total_seconds"]
        assert record["metrics"]["rtfx.decode"] is None and record["bound_by"] == "encoder"
        rate = record["dataset"]["audio_seconds"] / max(seconds)
        assert record["metrics"]["rtfx.total"] == pytest.approx(rate)


def test_a_profile_goes_region_by_region(rtfx, tmp_path):
    path = config_file(tmp_path, protocol=OVERLAPPED, decoders=["label_looping"])
    result = rtfx("profile", path, "--output", tmp_path / "run", "--laps", 1)
    assert result.returncode == 0, result.stderr
    assert "a profile is region by region" in result.stderr
