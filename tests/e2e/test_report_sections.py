"""Tests sections of the page beside the journal's figures: words that differ, changes and history."""

import os
import re
import shutil

import pytest
import synthetic_journal as synthetic
from conftest import runs_of, strict_records
from report import grouped, shown_words
from test_report import Page, report


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return synthetic.everything(tmp_path_factory.mktemp("everything"))


@pytest.fixture
def facts_of(rtfx, tmp_path):
    """facts_of("RUN", ...) returns what `rtfx report` hands to the page's script."""
    fake = tmp_path / "python"
    fake.write_text(f'#!/bin/sh\ncat > "{tmp_path}/facts.json"\n')
    fake.chmod(0o755)

    def run(*arguments):
        result = rtfx("report", *arguments, env={**os.environ, "RTFX_PYTHON": str(fake)})
        assert result.returncode == 0, result.stderr
        (facts,) = strict_records(tmp_path / "facts.json")
        return facts

    return run


def test_words_are_aligned_with_the_baselines(facts_of, runs):
    entries = facts_of(runs[0])["differences"]
    assert [e["case"].split("/")[2:4] for e in entries] == [["min_duration", "b4"],
                                                            ["min_duration", "b16"]]  # fmt: skip
    for entry in entries:
        assert entry["baseline"] == "frame_looping" and entry["texts"] == 2
        first, second = entry["utterances"]
        assert first["id"] == "qs01" and first["reference"] == "we went to the old mill"
        assert [pair for pair in first["words"] if pair[0] != pair[1]] == [
            ["to", "two"],
            ["old", None],
        ]
        assert second["words"][0] == [None, "so"] and len(second["words"]) == 7


def test_words_without_hypotheses_are_those_of_the_journal(facts_of, runs, tmp_path):
    shutil.copy(runs[0] / "journal.jsonl", tmp_path)
    entry = facts_of(tmp_path / "journal.jsonl")["differences"][0]
    assert entry["texts"] is None
    words = [["to", "to"], ["the", "a"], ["mill", "mill"]]
    assert entry["utterances"] == [{"id": "qs01", "reference": None, "words": words}]


def test_changes_since_the_baseline(facts_of, runs):
    run, before, _ = runs
    facts = facts_of(run, "--baseline", before)["baseline"]
    assert facts["changes"] == [
        {"key": "rtfx/revision", "from": "aaaaaaaaaaaa", "to": "0123456789ab"}
    ]
    assert [case.split("/")[2][:6] for case in facts["only_now"]] == ["broken"]
    assert facts["only_before"] == facts["failed"] == []
    for row in facts["cases"]:
        total, wer = row["rtfx.total"]["change"], row["wer"]["change"]
        assert total["estimate"] == pytest.approx(1.5)
        assert total["low"] < 1.5 < total["high"]
        assert wer == {"estimate": 0, "low": None, "high": None}  # the earlier run has no hypotheses


def test_history_holds_equal_conditions_only(facts_of, runs):
    run, _, folder = runs
    facts = facts_of(run, "--history", folder)["history"]
    cases = {r["case"] for r in runs_of(strict_records(run / "journal.jsonl"))}
    assert facts["journals"] == 2 and facts["other_conditions"] == len(cases)
    assert {case["case"] for case in facts["cases"]} == cases
    for case in facts["cases"]:
        assert [p["revision"] for p in case["points"]] == ["bbbbbbbbbbbb", "0123456789ab"]
        before, now = (p["rtfx.total"] for p in case["points"])
        assert now["estimate"] == pytest.approx(1.2 * before["estimate"])
        assert now["low"] < now["estimate"] < now["high"]


def test_history_finds_kept_journals_and_nothing_else(facts_of, runs, tmp_path):
    run, _, folder = runs
    shutil.copytree(run, tmp_path / "run")
    shutil.copy(folder / "monday/journal.jsonl", tmp_path / "run/journal.jsonl.1")
    (tmp_path / "manifest.jsonl").write_text('{"audio_filepath": "a.wav"}\n')
    facts = facts_of(tmp_path / "run", "--history", tmp_path)["history"]
    assert facts["journals"] == 1 and facts["other_conditions"] == 0
    assert all(len(case["points"]) == 2 for case in facts["cases"])


def test_history_joins_overlapped_runs_by_their_settings(facts_of, tmp_path):
    """Overlapped runs belong to one history if the settings of model and protocol agree. The measured times of passes
    do not count."""

    def write(name, pass_seconds, protocol=None, config=None, model=None):
        about = synthetic.provenance()
        models = [{"id": "quickstart-rnnt", "att_context_size": [], "language": ""} | (model or {})]
        about["config"] |= {"models": models, "encoder": "automatic", "confidence": None, "sort": "shuffle"} | (config or {})
        about["config"]["protocol"] |= {"steady_seconds": 30.0, "seed": 0} | (protocol or {})
        pipeline = {"in_flight": 2, "audio": "memory", "pass_seconds": [pass_seconds]}
        pipeline["encoder"] = {"launched": 0, "recorded": 1, "replayed": round(10 * pass_seconds)}
        synthetic.write(tmp_path / name, [about, synthetic.run() | {"pipeline": pipeline}])

    write("run", 1.0)
    write("history/equal", 1.5)
    write("history/steady", 1.0, protocol={"steady_seconds": 0.0})
    write("history/encoder", 1.0, config={"encoder": "reference"})
    write("history/confidence", 1.0, config={"confidence": {"method": "entropy"}})
    write("history/context", 1.0, model={"att_context_size": [70, 1]})
    write("history/language", 1.0, model={"language": "de"})
    write("history/seed", 1.0, protocol={"seed": 1})
    facts = facts_of(tmp_path / "run", "--history", tmp_path / "history")["history"]
    assert facts["journals"] == 7 and facts["other_conditions"] == 6
    assert [len(case["points"]) for case in facts["cases"]] == [2]


def test_page_has_all_sections(runs):
    run, before, folder = runs
    output = run.parent / "page.html"
    result = report(run, "--baseline", before, "--history", folder, "-o", output)
    assert result.returncode == 0, result.stderr
    text = output.read_text(encoding="utf-8")
    page = Page(text)
    sections = ["results", "rtfx", "trade", "regions", "idle", "timeline", "grades", "wasted", "boost", "penalty",
                "skipping", "boosted", "differences", "failures", "baseline", "history", "provenance"]  # fmt: skip
    assert [name for name in page.ids if name in sections] == sections
    assert set(re.findall(r'href="#([a-z]+)"', text)) == set(sections)
    assert len(page.ids) == len(set(page.ids))
    assert "14 earlier results under other conditions are left out" in text
    assert "▲ better" in text and "▼ worse" not in text
    assert text.count('title="substitution"') == text.count('title="deletion"') == 1  # rows of both cases are joined
    assert text.count("min_<wbr>duration/<wbr>b16/<wbr>fp32</code> <span") == 1


def test_a_profile_may_lie_elsewhere(tmp_path):
    """Without --profile, the page has a profile only if it lies beside the journal."""
    profile, output = tmp_path / "profiles/profile.jsonl", tmp_path / "page.html"
    synthetic.write(tmp_path / "run", [synthetic.provenance(), synthetic.run()])
    synthetic.write(profile.parent, [synthetic.profile()]).rename(profile)
    for arguments, is_there in (([], False), (["--profile", profile], True)):
        result = report(tmp_path / "run", *arguments, "-o", output)
        assert result.returncode == 0, result.stderr
        assert ("idle" in Page(output.read_text(encoding="utf-8")).ids) == is_there


def test_a_single_round_has_no_interval(tmp_path):
    for name in ("before", "now"):
        synthetic.write(tmp_path / name, [synthetic.provenance(), synthetic.run()])
    result = report(tmp_path / "now", "--baseline", tmp_path / "before")
    assert result.returncode == 0, result.stderr
    changes = (tmp_path / "now/report.html").read_text(encoding="utf-8").split('id="baseline"')[1]
    assert '<span class="change">1.000</span>' in changes and "no clear change" not in changes


def test_changes_carry_the_marks_of_both_runs(facts_of, tmp_path):
    for name, suspect, deterministic in (("before", ["cpu_wait"], False), ("now", [], True)):
        more = {"suspect": suspect, "deterministic": deterministic}
        rounds = [synthetic.run(round=i, decode_seconds=0.5 + 0.01 * i) | more for i in range(3)]
        synthetic.write(tmp_path / name, [synthetic.provenance(), *rounds])
    arguments = (tmp_path / "now", "--baseline", tmp_path / "before")
    (row,) = facts_of(*arguments)["baseline"]["cases"]
    assert row["marks_before"] == ["NONDETERMINISTIC", "suspect 3/3"] and row["marks_now"] == []
    assert (row["rounds_before"], row["rounds_now"]) == ("3 of 3 rounds, 3 of them suspect", "3 of 3 rounds")
    assert report(*arguments).returncode == 0
    section = (tmp_path / "now/report.html").read_text(encoding="utf-8").split('id="baseline"')[1].split("</section>")[0]
    assert '<span class="badge fair">suspect 3/3</span>' in section and "suspect before: the machine disturbed" in section
    assert "before: 3 of 3 rounds, 3 of them suspect" in section and "now: 3 of 3" not in section
    assert "The run before: WRONG: label_looping on quickstart-rnnt: it did not repeat its own hypotheses" in section


@pytest.mark.parametrize("option", ["--baseline", "--history", "--profile"])
def test_missing_folders(runs, tmp_path, option):
    result = report(runs[0], option, tmp_path / "gone", "-o", tmp_path / "page.html")
    assert result.returncode == 2 and "gone" in result.stderr
    assert not (tmp_path / "page.html").exists()


def test_long_runs_of_equal_words_are_counted():
    same = [[word, word] for word in "a b c d e f g h i j k l".split()]
    shown = shown_words([*same, ["x", None], *same[:6]])
    assert shown[0] == ("gap", 8, None) and shown[-1] == (None, "f", "f")
    assert shown[5] == ("deletion", "x", None) and len(shown) == 12


def test_cases_that_differ_alike_stand_together():
    def entry(decoder, word):
        return {"case": f"m/d/{decoder}/b1/fp32", "grade": "text", "baseline": "f", "first": {},
                "texts": 1, "utterances": [{"id": "u", "words": [["a", word]]}]}  # fmt: skip

    groups = grouped([entry("p", "b"), entry("q", "c"), entry("r", "b")])
    assert [[case for case, _ in g["cases"]] for g in groups] == [["p/b1/fp32", "r/b1/fp32"],
                                                                  ["q/b1/fp32"]]  # fmt: skip
    assert [g["same_words"] for g in groups] == [False, False]
