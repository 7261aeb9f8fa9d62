"""Tests that speeds are shown with their marks and costs: disturbed rounds, time outside all regions, time of a batch,
memory and energy. A journal that lacks these fields shows none of them."""

import csv
import io
import json
import re
import subprocess
import sys

import pytest
import synthetic_journal as synthetic
from conftest import ROOT

COSTS = {"batch_ms.p50": 101.5, "batch_ms.p95": 208.25, "batch_ms.p99": None, "memory.kept_mib": 12.5,
         "memory.peak_mib": 77.25, "energy.joules_per_hour": 4321.5}  # fmt: skip


def disturbed():
    """Returns ten rounds of one decoder. Three rounds are suspect, and 5 % of the wall time lies outside all
    regions."""
    records = [synthetic.provenance()]
    for round in range(10):
        record = synthetic.run(round=round, batch=32, grade="baseline", decoder="frame_looping")
        record["regions"]["pad"] = {"host_seconds": 0.0, "device_seconds": None}
        record["suspect"] = ["cpu_wait"] if round < 2 else ["sw_power_cap"] if round == 2 else []
        record["wall_seconds"] = record["total_seconds"] / 0.95
        record["gap_seconds"] = record["wall_seconds"] - record["total_seconds"]
        record["metrics"] |= COSTS
        if round > 0:
            del record["metrics"]["energy.joules_per_hour"]  # only the first round has energy
        records.append(record)
    return records


def earlier():
    return [synthetic.provenance(), *(synthetic.run(round=r, grade="baseline") for r in range(2))]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return synthetic.write(tmp_path_factory.mktemp("disturbed"), disturbed()).parent


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    return synthetic.write(tmp_path_factory.mktemp("earlier"), earlier()).parent


@pytest.fixture(scope="module")
def exported(rtfx, run, old):
    def export(of, *arguments):
        result = rtfx("export", {"run": run, "old": old}[of], "--to", *arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return export


MEANING = "threads waited for a CPU for over 10 % of the round"


def test_table_marks_rounds_and_says_what_it_means(rtfx, run, old):
    table = rtfx("report", "--table-only", run).stdout
    row = next(line for line in table.splitlines() if line.strip().startswith("frame_looping"))
    assert row.endswith("baseline suspect 3/10 gaps 5.0 %")
    assert MEANING in table and "its power limit held its clocks down" in table
    assert re.search(r"^gaps: .*between the regions", table, re.MULTILINE)
    assert "suspect" not in (text := rtfx("report", "--table-only", old).stdout) and "gaps" not in text


def costs_of(rtfx, folder):
    """Returns the headings and the figures of the only case."""
    lines = rtfx("report", "--table-only", "--costs", folder).stdout.splitlines()
    head = next(i for i, line in enumerate(lines) if "p50 ms" in line)
    return [line.split()[3:] for line in lines[head : head + 2]]


def test_table_of_costs(rtfx, run, old):
    heads, figures = costs_of(rtfx, run)
    assert heads == ["p50", "ms", "p95", "ms", "p99", "ms", "kept", "MiB", "peak", "MiB", "J/h"]
    assert figures == ["101.5", "208.2", "-", "12.5", "77.2", "4321.5"]
    assert "p50 ms" not in rtfx("report", "--table-only", run).stdout
    assert costs_of(rtfx, old)[1] == ["-"] * 6


def test_csv(exported):
    (row,) = csv.DictReader(io.StringIO(exported("run", "csv")))
    assert row["marks"] == "suspect 3/10 gaps 5.0 %"
    assert (row["suspect.share"], row["suspect.reasons"]) == ("0.3", "cpu_wait 2 sw_power_cap 1")
    assert float(row["gaps.share"]) == pytest.approx(0.05)
    assert {key: float(row[key]) if row[key] else None for key in COSTS} == COSTS
    (row,) = csv.DictReader(io.StringIO(exported("old", "csv")))
    assert all(row[key] == "" for key in (*COSTS, "suspect.share", "suspect.reasons", "gaps.share"))


@pytest.mark.parametrize("format", ["markdown", "latex"])
def test_tables_for_people(exported, format):
    text = exported("run", format).replace("$\\pm$", "±")
    assert "suspect 3/10" in text and MEANING in text.replace("\\", "")
    assert "77.2 ± 0.0" in text and "MiB" in text and "4322" in text
    old = exported("old", format)
    assert "suspect" not in old and "p50" not in old and "MiB" not in old


def test_google_benchmark(exported):
    document = json.loads(exported("run", "gbench"))
    assert MEANING in document["context"]["rtfx_marks"]
    first, *_, last = document["benchmarks"]
    assert first["suspect"] == "cpu_wait" and "suspect" not in last
    assert first["label"] == "suspect 3/10 gaps 5.0 %"
    assert (first["memory_peak_mib"], first["energy_joules_per_hour"]) == (77.25, 4321.5)


def test_bencher(exported):
    (measures,) = json.loads(exported("run", "bmf")).values()
    assert measures["suspect-round-share"]["value"] == 0.3
    assert measures["gap-share"]["value"] == pytest.approx(0.05)
    assert measures["batch_ms-p95"]["value"] == 208.25 and "batch_ms-p99" not in measures
    (measures,) = json.loads(exported("old", "bmf")).values()
    assert not {"suspect-round-share", "gap-share", "memory-kept_mib"} & set(measures)


def test_github_action(exported):
    entries = json.loads(exported("run", "github-action", "--smaller-is-better"))
    units = {entry["name"].split()[-1]: entry["unit"] for entry in entries}
    assert units["memory.peak_mib"] == "MiB" and units["batch_ms.p50"] == "ms"
    assert units["energy.joules_per_hour"] == "J"
    assert all("suspect 3/10" in entry["extra"] and MEANING in entry["extra"] for entry in entries)


def test_page(rtfx, run):
    result = rtfx("report", run)
    assert result.returncode == 0, result.stderr
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "suspect 3/10" in page and MEANING in page and "3 of 10 rounds are suspect" in page
    section = page[page.index('id="costs"') :].partition("</section>")[0]
    assert all(text in section for text in ("101.5", "208.2", "77.2", "4,321.5", "MiB"))
    assert ">p99<" not in section  # no case has p99


def test_a_journal_without_them_has_a_page_without_them(rtfx, old):
    assert rtfx("report", old).returncode == 0
    page = (old / "report.html").read_text(encoding="utf-8")
    assert 'id="costs"' not in page and "suspect" not in page


def test_rival_table(run, tmp_path):
    rival = {"model": "quickstart-rnnt.nemo", "decoder": "theirs", "dtype": "fp32", "batch": 32,
             "audio_s": synthetic.AUDIO_SECONDS, "decode_s": 1.0, "wer": 31.0}  # fmt: skip
    (tmp_path / "rival.jsonl").write_text(json.dumps(rival) + "\n")
    command = [sys.executable, ROOT / "plots/rival_table.py", run, "--rival", tmp_path / "rival.jsonl"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    rows = result.stdout.splitlines()
    ours = next(row for row in rows if "frame" in row and "theirs" not in row)
    assert "batch 32: suspect 3/10, gaps 5.0 %" in ours
    assert "conditions not recorded" in next(row for row in rows if "theirs" in row)
    assert any("suspect: " in row and MEANING in row for row in rows)


def test_memory_below_zero_is_refused(rtfx, tmp_path):
    records = disturbed()
    records[1]["metrics"]["memory.kept_mib"] = -33.0
    synthetic.write(tmp_path, records)
    result = rtfx("report", "--table-only", tmp_path)
    assert result.returncode == 2 and "memory.kept_mib" in result.stderr


def test_a_tolerance_lets_the_gate_judge_the_time_of_a_batch(rtfx, tmp_path):
    def journal(name, slower):
        records = disturbed()
        for i, record in enumerate(records[1:]):
            record["suspect"] = []
            record["metrics"]["batch_ms.p50"] = slower * (100 + i % 2)
        return synthetic.write(tmp_path / name, records).parent

    before, after = journal("before", 1.0), journal("after", 1.2)
    plain = rtfx("gate", after, "--baseline", before)
    asked = rtfx("gate", after, "--baseline", before, "--tolerance", "batch_ms.p50=0.1")
    assert "batch_ms.p50" not in plain.stdout
    line = next(line for line in asked.stdout.splitlines() if "batch_ms.p50" in line)
    assert "REGRESSED" in line
    idle = rtfx("gate", "--tolerance", "batch_ms.p99=0.1", after, "--baseline", before)
    assert idle.returncode == 12 and "--tolerance batch_ms.p99" in idle.stdout
    assert "no case has this metric in all runs" in idle.stdout
