"""Gate, export with its consumers, and dashboard each find a planted slowdown of 5 % in journals, and
50 runs of one program raise no alarm.

The runs are made from a real one on an H200 (tests/support/resampled_journal.py). It has five
decoders, six rounds, and 0.1 to 1 % of noise in rtfx.decode. Between the runs there is 0.3 % of
drift.
"""

import json
import re
from collections import Counter

import change_points
import consumers
import pytest
import synthetic_journal as synthetic
from conftest import ROOT, strict_records
from resampled_journal import another_run

PASS, REGRESSED, INCONCLUSIVE = 0, 10, 11
RUNS = 50
SLOWER = 1.05


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Writes 5 runs "base", 50 runs "same" of the same program, and 50 runs "slower" with slower decoders."""
    real = strict_records(ROOT / "tests/data/repeated/memory_default_after_1.jsonl")
    folder = tmp_path_factory.mktemp("chain")
    kinds = {"base": (5, 1.0, 1000), "same": (RUNS, 1.0, 0), "slower": (RUNS, SLOWER, 500)}
    made = {}
    for kind, (count, slower, first) in kinds.items():
        made[kind] = []
        for i in range(count):
            started = f"2026-03-{1 + i // 24:02}T{i % 24:02}:00:00Z"
            records = another_run(real, first + i, decode_slower=slower, started=started)
            synthetic.write(folder / f"{kind}{i}", records)
            made[kind].append(folder / f"{kind}{i}")
    return made


def verdicts(rtfx, runs, kind):
    """Counts the verdicts of the rows of rtfx.decode, and the exit codes, of gates against five baselines."""
    rows, codes = Counter(), Counter()
    for run in runs[kind]:
        arguments = [argument for base in runs["base"] for argument in ("--baseline", base)]
        tolerances = ["--tolerance", "rtfx.decode=0.025", "--tolerance", "rtfx.total=0.1"]
        result = rtfx("gate", *arguments, run, *tolerances, "--json")
        codes[result.returncode] += 1
        document = json.loads(result.stdout)
        rows.update(row["verdict"] for row in document["rows"] if row["what"] == "rtfx.decode")
    return rows, codes


def test_the_gate(rtfx, runs):
    rows, codes = verdicts(rtfx, runs, "same")
    print("the same:", rows, codes)
    assert rows.total() == 5 * RUNS and set(codes) <= {PASS, INCONCLUSIVE} and rows["PASS"] >= 0.95 * rows.total()
    rows, codes = verdicts(rtfx, runs, "slower")
    print("slower:", rows, codes)
    # A gate of five rows needs wider intervals than 95 % for each, so some rows are INCONCLUSIVE.
    assert set(codes) == {REGRESSED} and rows["PASS"] == 0 and rows["REGRESSED"] >= 0.8 * rows.total()


def exported(rtfx, run, format, *arguments):
    path = run / f"{format}.json"
    assert rtfx("export", run, "--to", format, "-o", path, *arguments).returncode == 0
    return path


def test_github_action_benchmark(rtfx, runs, tmp_path):
    """At a threshold of 103 % of decoder speed, github-action-benchmark alerts for the slower run and for none of 50
    others."""
    action = consumers.GithubActionBenchmark(tmp_path, "customBiggerIsBetter", "103%")
    only = ["--metric", "rtfx.decode"]
    for run in runs["same"]:
        result = action.push(exported(rtfx, run, "github-action", *only))
        assert result.returncode == 0, result.stdout
    result = action.push(exported(rtfx, runs["slower"][0], "github-action", *only))
    assert result.returncode == 1 and "Performance Alert" in result.stdout
    assert result.stdout.partition("::error::")[2].count(" rtfx.decode` ") == 5
    assert all(len(values) == RUNS + 1 for values in action.series().values())


def test_compare_py(rtfx, runs, tmp_path):
    """compare.py's means show the change of a decoder that takes nearly all of the time. Its U test knows rounds alone,
    so it finds differences between runs of one program and is no gate."""
    before = exported(rtfx, runs["base"][0], "gbench")
    p_values = []
    for kind in ("same", "slower"):
        for run in runs[kind][: 10 if kind == "same" else 3]:
            _, report = consumers.compare_py(before, exported(rtfx, run, "gbench"), tmp_path / "report.json")
            (part,) = [part for part in report if "/aes_pp4_graph/" in part["name"]]
            change = sum(m["time"] for m in part["measurements"]) / len(part["measurements"])
            assert abs(change) < 0.02 if kind == "same" else change > 0.03
            if kind == "same":
                p_values += [part["utest"]["time_pvalue"] for part in report if part.get("utest")]
    print("U test of runs of one program:", sum(p < 0.05 for p in p_values), "of", len(p_values), "below 0.05")
    assert sum(p < 0.05 for p in p_values) > 0.05 * len(p_values)


def dashboard(rtfx, folder, runs):
    """Returns the data of the dashboard's page for the runs, dated one after the other."""
    for i, run in enumerate(runs):
        records = strict_records(run / "journal.jsonl")
        records[0]["started"] = f"2026-04-{1 + i // 24:02}T{i % 24:02}:30:00Z"
        records[0]["rtfx"] = records[0]["rtfx"] | {"revision": f"{i:012x}"}
        synthetic.write(folder / "journals" / f"{i:03}", records)
    result = rtfx("dashboard", folder / "journals", "--output", folder / "site")
    assert result.returncode == 0, result.stderr
    page = (folder / "site/index.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_the_dashboard(rtfx, runs, tmp_path):
    quiet = dashboard(rtfx, tmp_path / "quiet", runs["same"])
    changed = dashboard(rtfx, tmp_path / "changed", runs["same"][:25] + runs["slower"][:25])
    assert len(quiet["series"]) == len(changed["series"]) == 5
    assert not any(one["changes"].get("rtfx.decode") for one in quiet["series"])
    others = 0
    for one in changed["series"]:
        changes = {change[0]: change for change in one["changes"]["rtfx.decode"]}
        _, p, before, after = changes.pop(25)
        assert p <= change_points.LEVEL and after / before == pytest.approx(1 / SLOWER, abs=0.005)
        others += len(changes)  # each half may show a false change with probability LEVEL
    assert others <= 2
