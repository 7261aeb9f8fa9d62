"""Tests `rtfx noise`, the smallest change that a machine can show, and the table of docs/background/statistics.md."""

import json
import math
import re

import pytest
import synthetic_journal as synthetic
from conftest import ROOT


def run_with(folder, sd, rounds=10, speed=1.0):
    """Writes a run in which the logarithms of the decode times have exactly this standard deviation."""
    records = [synthetic.provenance()]
    step = sd * math.sqrt((rounds - 1) / rounds)
    for round in range(rounds):
        seconds = 0.5 / speed * math.exp(step if round % 2 else -step)
        records.append(synthetic.run(round=round, decode_seconds=seconds))
    synthetic.write(folder, records)
    return folder


def rows_of(rtfx, *arguments):
    result = rtfx("noise", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_the_table_of_the_page_is_what_it_prints(rtfx, tmp_path):
    page = (ROOT / "docs/background/statistics.md").read_text(encoding="utf-8")
    table = re.search(r"<!-- noise -->\n(.*?)<!-- /noise -->", page, re.DOTALL)[1]
    rows = [[float(cell.split()[0]) for cell in line.strip("| ").split("|")] for line in table.splitlines()[2:]]
    assert len(rows) == 9
    for sd, drift, *wanted in rows:
        run = run_with(tmp_path / f"{sd}", sd / 100)
        (row,) = rows_of(rtfx, run, "--metric", "rtfx.decode", "--drift", drift / 100)
        assert row["sd"] == pytest.approx(sd / 100) and row["drift"] == pytest.approx(drift / 100)
        shown = [f"{100 * row['visible_by_rounds'][rounds]:.1f}" for rounds in ("5", "10", "20", "40")]
        assert shown == [f"{value:.1f}" for value in wanted], (sd, drift)
        assert row["visible"] == row["visible_by_rounds"]["10"]


def test_five_runs_tell_the_drift(rtfx, tmp_path):
    speeds = [0.98, 1.01, 1.0, 1.02, 0.99]
    runs = [run_with(tmp_path / f"{i}", 0.004, speed=speed) for i, speed in enumerate(speeds)]
    mean = sum(map(math.log, speeds)) / 5
    of_means = sum((math.log(s) - mean) ** 2 for s in speeds) / 4
    (row,) = rows_of(rtfx, *runs, "--metric", "rtfx.decode")
    assert row["drift"] == pytest.approx(math.sqrt(of_means - 0.004**2 / 10)) and row["sd"] == pytest.approx(0.004)
    (row,) = rows_of(rtfx, runs[0], "--metric", "rtfx.decode")
    assert row["drift"] == 0.01


def test_noise_of_rounds_is_no_drift(rtfx, tmp_path):
    speeds = [0.99, 1.005, 1.0, 1.01, 0.995]  # not farther apart than means of ten rounds with 3 % of noise
    runs = [run_with(tmp_path / f"{i}", 0.03, speed=speed) for i, speed in enumerate(speeds)]
    (row,) = rows_of(rtfx, *runs, "--metric", "rtfx.decode")
    assert row["drift"] == 0


def test_the_table_on_the_terminal(rtfx, tmp_path):
    text = rtfx("noise", run_with(tmp_path, 0.01)).stdout
    assert "label_looping/b16/fp32" in text and "of 5" in text and "of 40" in text
    assert [line.split()[0] for line in text.splitlines() if line.startswith("  rtfx")] == ["rtfx.total", "rtfx.decode"]


def test_a_run_without_a_case_is_named(rtfx, tmp_path):
    synthetic.write(tmp_path / "streams", [synthetic.provenance(), synthetic.stream()])
    result = rtfx("noise", tmp_path / "streams", run_with(tmp_path / "run", 0.01))
    assert result.returncode == 2 and "streams/journal.jsonl: holds results of streams alone" in result.stderr


def test_runs_that_are_not_of_one_program_are_refused(rtfx, tmp_path):
    one = run_with(tmp_path / "one", 0.01)
    result = rtfx("noise", one, one)
    assert result.returncode == 2 and "one/journal.jsonl: is given twice" in result.stderr
    synthetic.write(tmp_path / "other", [synthetic.provenance(device={"type": "cpu", "name": "Another CPU"}),
                                         *(synthetic.run(round=round) for round in range(3))])  # fmt: skip
    result = rtfx("noise", one, tmp_path / "other")
    assert result.returncode == 2 and 'other device/name: "Some CPU", now "Another CPU"' in result.stderr


def test_cases_that_only_some_runs_have_are_named(rtfx, tmp_path):
    rounds = [synthetic.run(round=i, decoder=decoder) for decoder in ("a", "label_looping") for i in (0, 1)]
    synthetic.write(tmp_path / "both", [synthetic.provenance(), *rounds])
    runs = [tmp_path / "both", run_with(tmp_path / "one", 0.01)]
    notice = "quickstart-rnnt/quickstart/a/b16/fp32: is not in "
    assert notice + f"{tmp_path}/one/journal.jsonl; left out" in rtfx("noise", *runs).stderr
    assert notice + f"{tmp_path}/one/journal.jsonl; its drift" in rtfx("noise", *reversed(runs)).stderr


@pytest.mark.parametrize(
    "arguments, message",
    [(["--metric", "wer"], "is repeated by every round"), (["--metric", "speed"], "unknown metric"), ([], "two rounds"),
     (["--metric", "energy.joules_per_hour"], "or name a metric that has a value in every round")],
)
def test_errors(rtfx, tmp_path, arguments, message):
    synthetic.write(tmp_path, [synthetic.provenance(), synthetic.run()])
    result = rtfx("noise", tmp_path, *arguments)
    assert result.returncode == 2 and message in result.stderr
