"""Tests compare, diff-runs, rescore, doctor, and the rule that ends a run."""

import csv
import gzip
import io
import json
import os
import re
import statistics
import subprocess
import sys

import pytest
import synthetic_journal as synthetic
from conftest import runs_of, strict_records


@pytest.fixture
def journals(tmp_path):
    """Writes two runs of the same cases. In the second run, label_looping is half as fast."""
    for name, factor in (("a", 1.0), ("b", 2.0)):
        records = [synthetic.provenance(libtorch=f"2.11.{name}")]
        for round in range(3):
            wobble = 1 + 0.001 * round
            records.append(synthetic.run(round=round, decode_seconds=2.0 * wobble,
                                         decoder="frame_looping", grade="baseline"))  # fmt: skip
            records.append(synthetic.run(round=round, decode_seconds=0.5 * factor * wobble))
        synthetic.write(tmp_path / name, records)
    return tmp_path / "a", tmp_path / "b"


@pytest.mark.parametrize("records", [[], [synthetic.provenance()]], ids=["nothing", "provenance"])
def test_an_empty_journal_is_the_same_error_everywhere(rtfx, journals, tmp_path, records):
    empty = tmp_path / "empty"
    synthetic.write(empty, records)
    full = journals[0]
    commands = [
        ["summary", empty], ["report", empty], ["report", empty, "--table-only"], ["compare", empty],
        ["compare", full, empty], ["export", empty, "--to", "csv"], ["noise", empty],
        ["gate", empty, "--baseline", full], ["gate", full, "--baseline", empty],
    ]  # fmt: skip
    for command in commands:
        result = rtfx(*command)
        assert result.returncode == 2, command
        assert "empty/journal.jsonl: holds no result; give the journal of a finished run" in result.stderr
        assert result.stdout == "", command


@pytest.mark.parametrize("flags", [[], ["--table-only"]])
def test_a_report_of_streams_alone_is_an_error(rtfx, tmp_path, flags):
    synthetic.write(tmp_path, [synthetic.provenance(), synthetic.stream()])
    result = rtfx("report", tmp_path, *flags)
    assert result.returncode == 2 and result.stdout == ""
    assert "holds results of streams alone; give the journal of `rtfx run`" in result.stderr


def test_lines_that_stand_in_a_journal_twice_count_once(rtfx, tmp_path):
    records = [synthetic.provenance()]
    records += [synthetic.run(round=round, decode_seconds=0.5 + 0.01 * round) for round in range(3)]
    synthetic.write(tmp_path / "once", records)
    synthetic.write(tmp_path / "twice", records + records[1:])
    once, twice = rtfx("summary", tmp_path / "once"), rtfx("summary", tmp_path / "twice")
    assert "repeat" not in once.stderr
    assert (
        "twice/journal.jsonl: 3 records repeat others word for word and count once" in twice.stderr
    )
    assert twice.stdout == once.stdout  # the interval has the same width
    gate = rtfx("gate", tmp_path / "twice", "--baseline", tmp_path / "once")
    assert "records repeat others" in gate.stderr
    csv_of = [rtfx("export", tmp_path / run, "--to", "csv").stdout for run in ("once", "twice")]
    assert csv_of[0] == csv_of[1]


PEAK = """
import os, subprocess, sys
process = subprocess.Popen([sys.argv[1], "summary", sys.argv[2]], stdout=open(sys.argv[3], "w"))
_, status, usage = os.wait4(process.pid, 0)
assert status == 0
print(1024 * usage.ru_maxrss)
"""


def test_a_long_journal_is_held_once(program, tmp_path):
    """A record takes less than 4 kB of memory. If it were held as JSON four times, a record of 2 kB would take 78
    kB."""

    def peak_bytes(rounds):
        records = [synthetic.provenance()]
        for case in range(20):
            records += [synthetic.run(round=round, decoder=f"d{case}") for round in range(rounds)]
        synthetic.write(tmp_path / str(rounds), records)
        # A process starts with the memory peak of its parent, so the parent must be a small process.
        command = [sys.executable, "-c", PEAK, program, tmp_path / str(rounds), tmp_path / "summary.json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert len(json.loads((tmp_path / "summary.json").read_text())["cases"]) == 20
        return int(done.stdout)

    few, many = peak_bytes(10), peak_bytes(510)
    assert (many - few) / 10_000 < 4_000


def test_compare_two_runs(rtfx, journals):
    result = rtfx("compare", *journals)
    assert result.returncode == 0, result.stderr
    assert 'libtorch: "2.11.a" -> "2.11.b"' in result.stdout
    lines = [line for line in result.stdout.splitlines() if "rtfx.decode" in line]
    assert "x 1.000 [0.97" in lines[0] and "x 0.500 [0.48" in lines[1]
    assert "-0.00 points" not in result.stdout and "+0.00 points" in result.stdout


@pytest.mark.parametrize(
    "change, problem",
    [
        (lambda r: r["metrics"].pop("rtfx.decode"), "'metrics/rtfx.decode' is missing; add it"),
        (lambda r: r["metrics"].update({"rtfx.total": "x"}), "'metrics/rtfx.total' is \"x\"; it must"),
        (lambda r: r["exactness"].update(grade="exakt"), "unknown grade 'exakt'; did you mean 'exact'"),
        (lambda r: r.update(case="other"), "'case' is 'other'; it must begin 'quickstart-rnnt/"),
        (lambda r: r["counters"].update(steps="x"), "'counters/steps' is \"x\"; it must be a number"),
        (lambda r: r.update(counters=None), "'counters' is null; it must be an object"),
        (lambda r: r.update(of_a_later_release=None), None),
    ],
    ids=["missing", "type", "grade", "name", "counter", "null", "harmless"],
)  # fmt: skip
@pytest.mark.parametrize("command", ["compare", "summary", "gate", "export"])
def test_a_record_that_lacks_something_is_named(rtfx, tmp_path, command, change, problem):
    records = [synthetic.provenance(), synthetic.run()]
    change(records[1])
    synthetic.write(tmp_path / "run", records)
    more = {"gate": ["--baseline", tmp_path / "run"], "export": ["--to", "csv"]}
    result = rtfx(command, tmp_path / "run", *more.get(command, []))
    if problem is None:
        assert "journal.jsonl:2" not in result.stderr
    else:
        assert result.returncode == 2
        assert f"journal.jsonl:2: {problem}" in result.stderr
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["metrics", "stream", "stable", "streamed", "streamed.different", "streamed.first_difference"])
def test_a_stream_that_lacks_something_is_named(rtfx, tmp_path, name):
    records = [synthetic.provenance(), synthetic.stream()]
    synthetic.write(tmp_path / "run", records)
    assert rtfx("summary", tmp_path / "run").returncode == 0
    *above, last = name.split(".")
    record = records[1]
    for key in above:
        record = record[key]
    del record[last]
    synthetic.write(tmp_path / "run", records)
    result = rtfx("summary", tmp_path / "run")
    assert result.returncode == 2
    assert f"journal.jsonl:2: '{name.replace('.', '/')}' is missing; add it" in result.stderr


def test_compare_names_wrong_results_of_both_runs(rtfx, tmp_path):
    for name, wrong in (("a", "label_looping"), ("b", "window")):
        decoders = [synthetic.run(decoder=d) | {"deterministic": d != wrong} for d in ("label_looping", "window", "aes")]
        synthetic.write(tmp_path / name, [synthetic.provenance(), *decoders])
    text = " ".join(rtfx("compare", tmp_path / "a", tmp_path / "b").stdout.split())
    assert "A: WRONG: label_looping on quickstart-rnnt" in text and "B: WRONG: window on quickstart-rnnt" in text
    assert "(one case; one round: no interval)" in text


def test_compare_decoders_of_a_run(rtfx, journals):
    """Decoders are compared round by round, so a slowdown of both does not widen the interval."""
    result = rtfx("compare", journals[0])
    assert result.returncode == 0, result.stderr
    assert "x 4.000 [4.000, 4.000]" in result.stdout


def test_compare_of_one_run_names_failures_and_says_where_nothing_is_compared(rtfx, tmp_path):
    alone = [synthetic.provenance(), synthetic.run(decoder="window")]
    synthetic.write(tmp_path / "alone", alone)
    nothing = "No decoder of this run has another one to be compared with."
    assert nothing in rtfx("compare", tmp_path / "alone").stdout
    failure = synthetic.failure(decoder="frame_looping")
    synthetic.write(tmp_path / "failed", [*alone, failure])
    text = rtfx("compare", tmp_path / "failed").stdout
    assert f"{failure['case']}\n  failed: decode: out of memory\n" in text and nothing in text
    document = json.loads(rtfx("compare", tmp_path / "failed", "--json").stdout)
    assert document["failed"] == [{"case": failure["case"], "failure": "decode: out of memory"}]


def test_compare_wants_common_cases(rtfx, journals, tmp_path):
    synthetic.write(tmp_path / "c", [synthetic.provenance(), synthetic.run(batch=4)])
    result = rtfx("compare", journals[0], tmp_path / "c")
    assert result.returncode == 2 and "no case in common" in result.stderr


def test_compare_refuses_profiles(rtfx, journals, tmp_path):
    synthetic.write(tmp_path / "p", [synthetic.run() | {"profiled": True}])
    result = rtfx("compare", journals[0], tmp_path / "p")
    assert result.returncode == 2 and "rtfx profile" in result.stderr


def test_diff_runs(rtfx, journals):
    result = rtfx("diff-runs", *journals)
    assert result.returncode == 0
    assert result.stdout.splitlines() == ['libtorch: "2.11.a" -> "2.11.b"', "", "Rounds that count: all, in both runs"]
    assert "is the same" in rtfx("diff-runs", journals[0], journals[0]).stdout


def test_diff_runs_shows_what_an_earlier_invocation_had(rtfx, tmp_path):
    """`--resume` joined rounds of two builds, so that the last provenance is not that of all rounds."""
    about = [synthetic.provenance(provenance_id=id, libtorch=libtorch) for id, libtorch in (("p0", "2.10"), ("p1", "2.11"))]
    rounds = [synthetic.run(round=0), synthetic.run(round=1) | {"provenance_id": "p1"}]
    synthetic.write(tmp_path / "joined", [about[0], rounds[0], about[1], rounds[1]])
    synthetic.write(tmp_path / "one", [about[1], synthetic.run(round=0) | {"provenance_id": "p1"}])
    lines = rtfx("diff-runs", tmp_path / "one", tmp_path / "joined").stdout.splitlines()
    assert lines[:3] == ["The provenance of both is the same.",
                         f"{tmp_path}/joined/journal.jsonl: rounds of an earlier invocation count, too, which differs:",
                         'libtorch: "2.10" -> "2.11"']  # fmt: skip


def test_diff_runs_of_a_journal_without_a_result(rtfx, journals, tmp_path):
    synthetic.write(tmp_path / "empty", [])
    for pair in ((tmp_path / "empty", tmp_path / "empty"), (journals[0], tmp_path / "empty")):
        result = rtfx("diff-runs", *pair)
        assert result.returncode == 2 and result.stdout == ""
        assert "empty/journal.jsonl: holds no result; give the journal of a finished run" in result.stderr


@pytest.mark.parametrize("key, same, other", [
    ("load_average", 1.5, 3.5), ("clock_mhz", 2950, 2800), ("calibration_ms", 10.9, 11.2),
])  # fmt: skip
def test_diff_runs_and_gate_have_the_same_limits(rtfx, tmp_path, key, same, other):
    """diff-runs shows a changed load, clock or calibration exactly if the gate doubts results because of it."""
    base = {"load_average": 1.0, "clock_mhz": 3000, "calibration_ms": 10}
    for name, value in (("base", base[key]), ("same", same), ("other", other)):
        cpu = {"model": "Some CPU", "cores": 16, "threads": 2, **base, key: value}
        runs = [synthetic.run(round=round, decode_seconds=0.5 + 0.001 * round) for round in range(6)]
        synthetic.write(tmp_path / name, [synthetic.provenance(cpu=cpu), *runs])
    for name, differs in (("same", False), ("other", True)):
        changes = rtfx("diff-runs", tmp_path / "base", tmp_path / name).stdout
        assert (f"cpu/{key}" in changes) == differs
        gate = rtfx("gate", "--baseline", tmp_path / "base", tmp_path / name).stdout
        assert ("other conditions" in gate) == differs


@pytest.fixture
def finished(run_config, tmp_path):
    result = run_config()
    assert result.returncode == 0, result.stderr
    return tmp_path / "run"


def test_compare_gives_wer_an_interval_by_utterances(rtfx, finished):
    result = rtfx("compare", finished, finished)
    assert result.returncode == 0, result.stderr
    assert "+0.00 points [+0.00, +0.00]" in result.stdout
    assert "one round: no interval" in result.stdout


def test_compare_over_other_utterances_says_so(rtfx, tmp_path):
    run = synthetic.run() | {"result_key": "key"}
    for name, count in (("all", synthetic.UTTERANCES), ("some", 6)):
        synthetic.write(tmp_path / name, [synthetic.provenance(), run | {"dataset": run["dataset"] | {"utterances": count}}])
        synthetic.write_hypotheses(tmp_path / name, run, {})
        file = tmp_path / name / "hypotheses/key.jsonl"
        file.write_text("".join(file.read_text().splitlines(keepends=True)[:count]))
    for a, b, sides in (("all", "some", "A: 24 utterances, B: 6 utterances"), ("some", "all", "A: 6 utterances, B: 24 utterances")):
        text = rtfx("compare", tmp_path / a, tmp_path / b).stdout
        (line,) = [line for line in text.splitlines() if line.startswith("  wer ")]
        assert line.endswith("+0.00 points [+0.00, +0.00], over 6 utterances that both have") and f"  {sides}\n" in text
        document = json.loads(rtfx("compare", tmp_path / a, tmp_path / b, "--json").stdout)
        assert document["cases"][0]["changes"]["wer"]["utterances"] == 6
    same = rtfx("compare", tmp_path / "all", tmp_path / "all").stdout
    assert "utterances" not in same


def test_rescore(rtfx, finished, tmp_path):
    before = runs_of(strict_records(finished / "journal.jsonl"))[0]["wer"]
    result = rtfx("rescore", finished, "--scorer", "none", "--output", tmp_path / "rescored")
    assert result.returncode == 0, result.stderr
    records = strict_records(tmp_path / "rescored/journal.jsonl")
    runs = runs_of(records)
    assert len(runs) == 2 and all(r["wer"]["normalizer"] == "none" for r in runs)
    tokens = "tokens.reference_per_second"  # counts words of the other scorer
    assert runs_of(strict_records(finished / "journal.jsonl"))[0]["metrics"][tokens] > 0
    assert [r["metrics"][tokens] for r in runs] == [None, None]
    assert records[0]["config"]["scorer"] == "none"
    compared = rtfx("compare", finished, tmp_path / "rescored").stdout
    assert "A: basic_english version 2, B: none version 1: word errors are not compared" in compared
    assert "\n  wer" not in compared
    for file in (finished / "hypotheses").iterdir():
        assert (tmp_path / "rescored/hypotheses" / file.name).read_bytes() == file.read_bytes()
    again = rtfx("rescore", tmp_path / "rescored", "--scorer", "basic_english", "--output", tmp_path / "same")
    assert again.returncode == 0
    assert runs_of(strict_records(tmp_path / "same/journal.jsonl"))[0]["wer"] == before
    assert f"{100 * before['wer']:.2f} %" in again.stdout


def test_a_rescored_copy_has_no_figures_of_the_other_scorer(rtfx, finished, tmp_path):
    """Texts of superseded rounds and of streams are not stored."""
    journal = finished / "journal.jsonl"
    about, *others = strict_records(journal)
    run = runs_of(others)[0]
    superseded = run | {"result_key": "0123456789abcdef"}
    quality = {"streamed": run["wer"], "whole": run["wer"], "difference": 0, "low": 0, "high": 0}
    stream = synthetic.stream() | {"provenance_id": about["provenance_id"], "quality": quality}
    journal.write_text("".join(json.dumps(record) + "\n" for record in (about, superseded, *others, stream)))
    result = rtfx("rescore", finished, "--scorer", "none", "--output", tmp_path / "rescored")
    assert result.returncode == 0, result.stderr
    assert "the copy lacks 1 round," in result.stderr
    assert "the copy lacks the word errors of 1 stream record," in result.stderr
    copy = strict_records(tmp_path / "rescored/journal.jsonl")
    assert [r["result_key"] for r in runs_of(copy)] == [r["result_key"] for r in runs_of(others)]
    assert all(r["wer"]["normalizer"] == "none" for r in runs_of(copy))
    (of_streams,) = [record for record in copy if record["kind"] == "stream"]
    assert of_streams == {key: value for key, value in stream.items() if key != "quality"}


def test_rescore_keeps_what_it_does_not_know(rtfx, finished, tmp_path):
    journal = finished / "journal.jsonl"
    records = strict_records(journal)
    for record in records:
        record["of_a_later_release"] = {"a": [1, 2.0, None]}
    runs_of(records)[0]["wer"]["also"] = "text"
    runs_of(records)[0]["conditions"]["also"] = 1
    records.append({"kind": "of_a_later_release", "schema": 1, "value": 16.0})
    journal.write_text("".join(json.dumps(record) + "\n" for record in records))
    result = rtfx("rescore", finished, "--scorer", "none", "--output", tmp_path / "rescored")
    assert result.returncode == 0, result.stderr
    rescored = strict_records(tmp_path / "rescored/journal.jsonl")
    for record in [*records, *rescored]:
        record.pop("wer", None)
        record.get("metrics", {}).pop("tokens.reference_per_second", None)
    records[0]["config"]["scorer"] = "none"
    assert rescored == records


def test_rescore_counts_other_words(rtfx, finished, tmp_path):
    """Upper case makes other words for the scorer `none`, but not for `basic_english`. The files are packed."""
    for file in [*(finished / "hypotheses").iterdir()]:
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        text = "".join(json.dumps(x | {"text": x["reference"].upper()}) + "\n" for x in lines)
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(text.encode()))
        file.unlink()
    assert "basic_english 2: 0.00 %" in rtfx("rescore", finished, "--scorer", "basic_english").stdout
    assert "none 1: 100.00 %" in rtfx("rescore", finished, "--scorer", "none").stdout


@pytest.mark.parametrize("of_baseline, rounding, grade, counts", [
    ({}, 0, "different", {"text": 1, "different": 1}),
    ({"qs02": "We went to the old mill"}, 0, "wer", {"text": 0, "different": 2}),
    ({}, 1, None, None),  # the utterance with other words may be the one within rounding
])  # fmt: skip
def test_rescore_grades_by_the_new_words(rtfx, tmp_path, of_baseline, rounding, grade, counts):
    """Upper case is other words to `none` alone."""
    baseline = synthetic.run(decoder="frame_looping", grade="baseline") | {"result_key": "baseline"}
    run = synthetic.run(grade="text", differing=2) | {"result_key": "label"}
    run["exactness"]["grades"] |= {"different": 0, "text": 2, "rounding": rounding}
    synthetic.write(tmp_path / "run", [synthetic.provenance(), baseline, run])
    synthetic.write_hypotheses(tmp_path / "run", baseline, of_baseline)
    synthetic.write_hypotheses(tmp_path / "run", run, {"qs01": "we went to the Old mill"})
    result = rtfx("rescore", tmp_path / "run", "--scorer", "none", "--output", tmp_path / "rescored")
    assert result.returncode == 0, result.stderr
    _, exactness = (r["exactness"] for r in runs_of(strict_records(tmp_path / "rescored/journal.jsonl")))
    if grade is None:
        assert exactness is None
        return
    assert exactness["grade"] == grade and exactness["grades"] == run["exactness"]["grades"] | counts
    first = exactness["first_difference"]
    assert (first["baseline_words"], first["words"]) == ("to the old mill", "to the Old mill")
    assert first["utterance"] == "qs01" and first["frame"] == 12


def test_rescore_counts_each_ideograph(rtfx, finished):
    """`unicode_words` counts each ideograph. Two of six are wrong here: one is replaced, and one is missing."""
    for file in (finished / "hypotheses").iterdir():
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        texts = {"reference": "今天天气很好。", "text": "今天天七很"}
        file.write_text("".join(json.dumps(line | texts) + "\n" for line in lines))
    assert "basic_english 2: 100.00 %" in rtfx("rescore", finished, "--scorer", "basic_english").stdout
    assert "unicode_words 1: 33.33 %" in rtfx("rescore", finished, "--scorer", "unicode_words").stdout


def test_rescore_errors(rtfx, journals, finished):
    result = rtfx("rescore", journals[0], "--scorer", "none")
    assert result.returncode == 2 and "no hypotheses" in result.stderr
    result = rtfx("rescore", finished, "--scorer", "basic")
    assert result.returncode == 2 and "basic_english" in result.stderr
    result = rtfx("rescore", finished, "--scorer", "none", "--output", finished)
    assert result.returncode == 2 and "journal.jsonl: is there already; choose another folder" in result.stderr


def test_rescore_names_the_cases_that_it_leaves_out(rtfx, finished, tmp_path):
    run = runs_of(strict_records(finished / "journal.jsonl"))[0]
    (finished / "hypotheses" / f"{run['result_key']}.jsonl").unlink()
    result = rtfx("rescore", finished, "--scorer", "none")
    assert result.returncode == 0 and f"{run['case']}: left out" in result.stderr and "none 1" in result.stdout
    result = rtfx("rescore", finished, "--scorer", "none", "--output", tmp_path / "rescored")
    assert result.returncode == 2 and "lacks the hypotheses of 1 case; give the folder" in result.stderr
    assert not (tmp_path / "rescored").exists()


def test_doctor(rtfx):
    result = rtfx("doctor")
    assert result.returncode == 0, result.stdout
    kinds = {line.split()[0] for line in result.stdout.splitlines()}
    assert kinds <= {"ok", "note", "no"}
    for word in ("build", "CPU", "CUDA", "CUPTI", "Nsight Systems", "Nsight Compute"):
        assert word in result.stdout


def protocol(**changes):
    return {"warmup_rounds": 0, "measured_rounds": 2, "extra_rounds": 3} | changes


def test_unreached_precision_takes_the_extra_rounds(run_config, tmp_path):
    assert run_config(protocol=protocol(precision=1e-9)).returncode == 0
    records = strict_records(tmp_path / "run/journal.jsonl")
    assert sorted(r["round"] for r in runs_of(records)) == sorted([0, 1, 2, 3, 4] * 2)
    assert {r["stopped_by"] for r in records if r["kind"] == "summary"} == {"rounds"}
    assert run_config("--resume", protocol=protocol(precision=1e-9)).returncode == 0
    assert len(runs_of(strict_records(tmp_path / "run/journal.jsonl"))) == 10


def test_a_rule_that_is_asked_later_takes_its_extra_rounds(run_config, tmp_path):
    for mode, rule, rounds in (([], {}, 2), (["--resume"], {"precision": 1e-9}, 5),
                               (["--resume"], {"precision": 1e-9, "extra_rounds": 4}, 6)):  # fmt: skip
        assert run_config(*mode, protocol=protocol(**rule)).returncode == 0
        records = strict_records(tmp_path / "run/journal.jsonl")
        assert sorted(r["round"] for r in runs_of(records)) == sorted([*range(rounds)] * 2)
        assert records[-1]["kind"] == "summary" and records[-1]["stopped_by"] == "rounds"


def test_a_budget_ends_the_extra_rounds(run_config, tmp_path):
    assert run_config(protocol=protocol(precision=1e-9, budget_seconds=1e-3)).returncode == 0
    records = strict_records(tmp_path / "run/journal.jsonl")
    assert len(runs_of(records)) == 2 * 2
    assert {r["stopped_by"] for r in records if r["kind"] == "summary"} == {"budget"}
    assert run_config("--resume", protocol=protocol(precision=1e-9, budget_seconds=1e-3)).returncode == 0
    assert len(runs_of(strict_records(tmp_path / "run/journal.jsonl"))) == 2 * 2


def test_control_needs_a_transducer(config, rtfx):
    path = config(decoders=["ctc_greedy"], protocol={"aa_control": True})
    result = rtfx("validate", path)
    assert result.returncode == 2 and "/protocol/aa_control" in result.stderr


def test_rounds_before_a_failure_count_alike_everywhere(rtfx, tmp_path):
    """Two rounds with a failure between them, under one key, both count in the table, page, export and figures."""
    runs = [
        synthetic.run(round=0, decode_seconds=4.0, grade="rounding", differing=1),
        synthetic.run(round=1, decode_seconds=0.2),
    ]
    runs[1]["deterministic"] = False
    journal = synthetic.write(
        tmp_path, [synthetic.provenance(), runs[0], synthetic.failure(), runs[1]]
    )
    totals = [run["metrics"]["rtfx.total"] for run in runs]
    mean, sd = statistics.mean(totals), statistics.stdev(totals)
    figure = f"{mean:.1f} ± {sd:.1f}"

    result = rtfx("report", journal)
    assert result.returncode == 0, result.stderr
    row = next(line for line in result.stdout.splitlines() if "label_looping" in line)
    assert figure in row and "rounding NONDETERMINISTIC" in row and "NOISY" in row and "FAILED" not in row

    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    text = " ".join(re.sub(r"<[^>]*>", "", page).split())
    assert figure in text
    assert all(re.search(rf">{flag}</span>", page) for flag in ("rounding", "NONDETERMINISTIC", "NOISY"))
    assert ">failed</span>" not in page

    exported = rtfx("export", journal, "--to", "csv").stdout
    row = next(csv.DictReader(io.StringIO(exported)))
    assert row["rounds"] == "2" and row["grade"] == "rounding" and not row["failure"]
    assert row["marks"] == "NONDETERMINISTIC NOISY"
    assert float(row["rtfx.total"]) == pytest.approx(mean)
    assert float(row["rtfx.total.sd"]) == pytest.approx(sd)


def test_the_table_shows_long_ids_in_full(rtfx, tmp_path):
    ids = [f"label_looping[lm.path=models/four_gram.arpa][lm.alpha=0.{i}]" for i in (1, 2)]
    records = [synthetic.run(decoder=name) for name in ids]
    table = rtfx("report", synthetic.write(tmp_path, records), "--table-only").stdout
    assert all(name in table for name in ids)


def test_gate_compare_and_diff_runs_count_the_same_rounds(rtfx, tmp_path):
    """Two of six rounds were disturbed and took five times as long. gate, compare and diff-runs leave them out."""
    for name, slow in (("a", ()), ("b", (1, 4))):
        records = [synthetic.provenance()]
        for round in range(6):
            seconds = 0.5 * (1 + 0.002 * round) * (5 if round in slow else 1)
            suspect = {"suspect": ["cpu_wait"] if round in slow else []}
            for decoder in ("frame_looping", "label_looping"):
                grade = "baseline" if decoder == "frame_looping" else "bitwise"
                records.append(synthetic.run(round=round, decoder=decoder, grade=grade, decode_seconds=seconds) | suspect)
                records[-1]["tokens_sha256"] = "t0"
        synthetic.write(tmp_path / name, records)
    a, b = tmp_path / "a", tmp_path / "b"
    counted = "4 of 6 rounds, 2 suspect left out"
    compare, gate = rtfx("compare", a, b).stdout, rtfx("gate", "--baseline", a, b).stdout
    assert f"  A: 6 of 6 rounds\n  B: {counted}\n" in compare
    assert f"6 of 6 rounds -> {counted}" in gate
    case = "quickstart-rnnt/quickstart/label_looping/b16/fp32"
    assert f"{case}: 6 of 6 rounds -> {counted}\n" in rtfx("diff-runs", a, b).stdout
    ratios = [re.search(r"rtfx\.decode .*?(x [01]\.\d+ \[.*?\])", text)[1] for text in (compare, gate)]
    assert ratios[0] == ratios[1] and ratios[0].startswith(("x 0.99", "x 1.00"))
    assert f"  {counted}\n" in rtfx("compare", b).stdout  # the decoders of one run, too
    for text, names, marks in ((compare, ("B", "A"), ", NOISY, suspect"), (gate, ("this run", "the baseline"), "")):
        end = " ".join(text.split())  # a sentence may take two lines
        assert f"no difference: {names[0]} decodes 0.99" in end or f"no difference: {names[0]} decodes 1.00" in end
        assert f"times as fast as {names[1]} (mean of 2 cases{marks}; 95 %: 0.9" in end and "which holds 1)." in end
