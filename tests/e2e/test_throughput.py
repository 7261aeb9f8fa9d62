"""Tests protocol.mode "throughput" as a user meets it: table, page, exports, gate, child processes and shards."""

import csv
import io
import json
import os
import re

import pytest
from conftest import AUDIO, ROOT, free_port, runs_of, small_config, strict_records

OVERLAPPED = {"warmup_rounds": 0, "measured_rounds": 2, "mode": "throughput", "steady_seconds": 0}


# Matches any stage, since the machine decides which stage bounds a pass of a small model.
BOUND = re.compile(r"overlapped, (copy|encoder|decode|texts) \d+ % busy")


def config_file(folder, **changes):
    """Writes a configuration with three batches of two utterances."""
    config = small_config(**changes)
    config["datasets"][0]["limit"] = 6
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


@pytest.fixture(scope="module")
def runs(rtfx, tmp_path_factory):
    """Returns {mode: (folder, output)} of one configuration."""
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
        assert BOUND.search(row), row
        assert "  -  " in row  # no RTFx decode
    assert "overlapped: batches overlap, so the total RTFx is by the wall clock of a pass" in runs["throughput"][1]
    assert "overlapped" not in runs["isolated"][1]


def test_costs_and_exports_have_the_stages(rtfx, runs):
    folder, _ = runs["throughput"]
    table = rtfx("report", folder, "--table-only", "--costs").stdout
    head = next(line for line in table.splitlines() if "p50 ms" in line)
    assert "copy %" in head and "encoder %" in head and "load %" not in head
    text = rtfx("export", folder, "--to", "csv").stdout
    for row in csv.DictReader(io.StringIO(text)):
        assert 0 < float(row["busy.encoder"]) <= 1 and row["rtfx.decode"] == ""
        stage = BOUND.search(row["marks"])[1]
        assert float(row[f"busy.{stage}"]) > 0


def test_the_page_shows_stages_and_no_regions(rtfx, runs):
    folder, _ = runs["throughput"]
    result = rtfx("report", folder)
    assert result.returncode == 0, result.stderr
    page = (folder / "report.html").read_text()
    assert 'data-label="encoder, %"' in page and BOUND.search(page)
    assert "Where does the time go?" not in page


def test_the_gate_compares_no_mode_with_the_other(rtfx, runs):
    before, after = runs["isolated"][0], runs["throughput"][0]
    result = rtfx("gate", "--baseline", before, after)
    assert result.returncode == 12, result.stdout + result.stderr
    assert "other protocol.mode" in result.stdout + result.stderr
    same = rtfx("gate", "--baseline", after, after)
    assert "protocol.mode" not in same.stdout + same.stderr


def test_resumed_only_in_the_same_mode(rtfx, runs, tmp_path):
    path = config_file(tmp_path, protocol=OVERLAPPED, decoders=["label_looping"])
    folder = tmp_path / "run"
    assert rtfx("run", path, "--output", folder).returncode == 0
    more = ["--resume", "--set", "protocol.measured_rounds=3"]
    assert rtfx("run", path, "--output", folder, *more).returncode == 0
    assert len(runs_of(strict_records(folder / "journal.jsonl"))) == 3
    other = ["--resume", "--set", "protocol.throughput.in_flight=2"]
    assert rtfx("run", path, "--output", folder, *other).returncode == 0
    records = runs_of(strict_records(folder / "journal.jsonl"))
    assert len(records) == 5 and len({r["result_key"] for r in records}) == 2


def test_a_round_repeats_its_pass_and_the_first_one_stands_apart(rtfx, tmp_path):
    protocol = OVERLAPPED | {"warmup_rounds": 1, "steady_seconds": 2}
    data = [{"id": "six", "manifest": str(ROOT / "datasets/quickstart/manifest.jsonl")}]
    path = config_file(tmp_path, protocol=protocol, decoders=["label_looping"], datasets=data)
    result = rtfx("run", path, "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    first, second = runs_of(strict_records(tmp_path / "run/journal.jsonl"))
    for record in (first, second):
        passes = record["pipeline"]["pass_seconds"]
        assert len(passes) > 1 and sum(passes[:-1]) < 2 <= sum(passes)
        assert record["total_seconds"] == pytest.approx(sum(passes) / len(passes))
        rate = record["dataset"]["audio_seconds"] / record["total_seconds"]
        assert record["metrics"]["rtfx.total"] == pytest.approx(rate)
        assert record["wall_seconds"] == pytest.approx(record["total_seconds"], rel=0.5)
        assert len(record["batches"]["total_seconds"]) == 3 and record["deterministic"]
        assert record["isolated"]["grade"] == "bitwise" and record["isolated"]["grades"]["bitwise"] == 6
        assert record["exactness"]["replay"]["beyond"] == 0
        lines = (tmp_path / f"run/hypotheses/{record['result_key']}.jsonl").read_text().splitlines()
        seconds = record["dataset"]["audio_seconds"]
        tokens = sum(len(json.loads(line)["tokens"]) for line in lines) / seconds
        assert tokens > 1 and record["metrics"]["tokens.per_second"] == pytest.approx(tokens)
        words = record["wer"]["reference_words"] / seconds
        assert words < record["metrics"]["tokens.reference_per_second"] < 3 * words
    assert "first_pass" not in second and "rtfx.first_pass" not in second["metrics"]
    once = first["first_pass"]
    assert 0 < once["first_text_seconds"] < once["seconds"]
    rate = first["dataset"]["audio_seconds"] / once["seconds"]
    assert first["metrics"]["rtfx.first_pass"] == pytest.approx(rate)
    assert f"first pass {rate:.1f}" in result.stdout and "tokens/s " in result.stdout


def test_latency_of_mixed_lengths(rtfx, tmp_path):
    protocol = OVERLAPPED | {"throughput": {"in_flight": 1}, "measured_rounds": 1}
    config = small_config(protocol=protocol, batch_sizes=[1], sort="shuffle", decoders=["label_looping"])
    manifest = str(ROOT / "datasets/quickstart/manifest.jsonl")
    config["datasets"] = [{"id": "mixed", "manifest": manifest, "limit": 9, "seconds": [1, 5, 2]}]
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = rtfx("run", tmp_path / "config.json", "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    records = strict_records(tmp_path / "run/journal.jsonl")
    assert records[0]["config"]["datasets"][0]["seconds"] == [1, 5, 2]
    (record,) = runs_of(records)
    lengths = record["batches"]["audio_seconds"]
    assert sorted(lengths) == [1] * 3 + [2] * 3 + [5] * 3 and lengths != sorted(lengths)
    assert [(entry["seconds"], entry["requests"]) for entry in record["lengths"]] == [(1, 3), (2, 3), (5, 3)]
    p50 = [entry["p50_ms"] for entry in record["lengths"]]
    assert 0 < p50[0] < p50[2] and record["lengths"][0]["p99_ms"] is None
    first = record["metrics"]["batch_ms.first"]
    assert first == pytest.approx(1000 * record["batches"]["latency_seconds"][0], rel=1e-3)
    costs = rtfx("report", tmp_path / "run", "--table-only", "--costs").stdout
    assert "first ms" in costs and f"{first:.1f}" in costs
    config["protocol"] = {"warmup_rounds": 0, "measured_rounds": 1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert rtfx("run", tmp_path / "config.json", "--output", tmp_path / "isolated").returncode == 0
    (record,) = runs_of(strict_records(tmp_path / "isolated/journal.jsonl"))
    assert [(entry["seconds"], entry["requests"]) for entry in record["lengths"]] == [(1, 3), (2, 3), (5, 3)]


def test_in_child_processes(rtfx, tmp_path):
    path = config_file(tmp_path, protocol=OVERLAPPED, isolate=True)
    result = rtfx("run", path, "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    records = runs_of(strict_records(tmp_path / "run/journal.jsonl"))
    assert len(records) == 4 and all(r["pipeline"]["in_flight"] == 6 for r in records)


def busiest(record):
    busy = {name: share for name, share in record["metrics"].items() if name.startswith("busy.")}
    return max(busy, key=busy.get).removeprefix("busy.")


def test_in_two_shards(popen, program, tmp_path):
    path = config_file(tmp_path, protocol=OVERLAPPED)
    command = [program, "run", path, "--output", tmp_path / "run", "--shard"]
    environment = os.environ | {"MASTER_PORT": free_port()}
    shards = [popen([*command, f"{i}/2"], env=environment) for i in range(2)]
    for shard in shards:
        _, stderr = shard.communicate(timeout=300)
        assert shard.returncode == 0, stderr
    for record in runs_of(strict_records(tmp_path / "run/journal.jsonl")):
        seconds = record["shards"]["total_seconds"]
        assert record["metrics"]["rtfx.decode"] is None and record["bound_by"] == busiest(record)
        rate = record["dataset"]["audio_seconds"] / max(seconds)
        assert record["metrics"]["rtfx.total"] == pytest.approx(rate)


def test_a_profile_goes_region_by_region(rtfx, tmp_path):
    path = config_file(tmp_path, protocol=OVERLAPPED, decoders=["label_looping"])
    result = rtfx("profile", path, "--output", tmp_path / "run", "--laps", 1)
    assert result.returncode == 0, result.stderr
    assert "a profile is region by region" in result.stderr


def test_encoder_and_decoder_in_types_of_their_own(rtfx, tmp_path):
    pair = {"encoder": "bf16", "decoder": "fp32"}
    path = config_file(tmp_path, dtypes=["fp32", "bf16", pair, "fp8"])
    result = rtfx("run", path, "--output", tmp_path / "run")
    assert result.returncode == 1
    records = strict_records(tmp_path / "run/journal.jsonl")
    found = {(r["dtype"], r["decoder"]["id"]): r for r in runs_of(records)}
    assert {dtype for dtype, _ in found} == {"fp32", "bf16", "bf16+fp32"}
    # The bits of the scores differ between the number types.
    assert len({found[dtype, "label_looping"]["hypotheses_sha256"] for dtype, _ in found}) == 3
    for decoder in ("frame_looping", "label_looping"):
        record = found["bf16+fp32", decoder]
        assert record["case"].endswith(f"/{decoder}/b2/bf16+fp32")
        assert record["exactness"]["replay"]["beyond"] == 0
    assert found["bf16+fp32", "label_looping"]["exactness"]["grade"] in ("bitwise", "exact")
    failures = [r for r in records if r["kind"] == "failure"]
    assert {(r["dtype"], r["stage"]) for r in failures} == {("fp8", "prepare")}
    assert "needs the fused encoder, which runs on a GPU only" in failures[0]["message"]
    table = rtfx("report", tmp_path / "run", "--table-only").stdout
    assert "  bf16+fp32  " in table
    text = rtfx("export", tmp_path / "run", "--to", "prometheus").stdout
    assert 'dtype="bf16+fp32"' in text


def test_transcribe_takes_a_pair_of_types(transcribe):
    files = sorted(AUDIO.glob("*.flac"))[:3]
    one = transcribe("--dtype", "bf16+fp32", "--batch-size", 2, *files)
    assert one.returncode == 0, one.stderr
    assert [line.split(":")[0] for line in one.stdout.splitlines()] == [str(f) for f in files]


def test_the_largest_batch_on_a_cpu(rtfx, tmp_path):
    path = config_file(tmp_path, batch_sizes=["max"], decoders=["label_looping"])
    result = rtfx("run", path, "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    assert "label_looping/bmax/fp32: the largest batch that fits has 2 utterances" in result.stderr
    assert "  2 max  fp32  " in result.stdout
    for command in (["profile", path], ["run", path, "--shard", "0/2"], ["stream", path]):
        refused = rtfx(*command, "--output", tmp_path / "other")
        assert refused.returncode == 2 and "max" in refused.stderr, command


def test_the_largest_batch_of_other_settings_is_not_taken(run_config, tmp_path):
    manifest = str(ROOT / "tests/data/two.jsonl")
    for limit, mode in ((1, []), (2, ["--resume"])):
        result = run_config(*mode, batch_sizes=["max"], decoders=["label_looping"],
                            datasets=[{"id": "two", "manifest": manifest, "limit": limit}])  # fmt: skip
        assert result.returncode == 0, result.stderr
        assert runs_of(strict_records(tmp_path / "run/journal.jsonl"))[-1]["batch"]["size"] == limit


def test_latency_of_utterances_of_one_length(rtfx, tmp_path):
    config = small_config(protocol=OVERLAPPED | {"throughput": {"in_flight": 1}}, batch_sizes=[1])
    quickstart = {"manifest": str(ROOT / "datasets/quickstart/manifest.jsonl")}
    config["datasets"] = [quickstart | {"id": f"{s}s", "limit": 20, "seconds": s} for s in (1, 5)]
    config["decoders"] = ["label_looping"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = rtfx("run", tmp_path / "config.json", "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    records = runs_of(strict_records(tmp_path / "run/journal.jsonl"))
    latency = {}
    for record in records:
        seconds = int(record["dataset"]["id"][0])
        assert record["dataset"]["audio_seconds"] == pytest.approx(20 * seconds)
        assert record["batches"]["audio_seconds"] == [seconds] * 20
        assert record["wer"]["wer"] is None
        metrics = record["metrics"]
        assert 0 < metrics["batch_ms.p50"] <= metrics["batch_ms.p95"] and metrics["batch_ms.p99"] is None
        assert sum(record["batches"]["latency_seconds"]) <= record["total_seconds"]
        latency[seconds] = metrics["batch_ms.p50"]
    assert latency[1] < latency[5]
