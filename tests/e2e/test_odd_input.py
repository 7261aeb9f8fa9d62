"""Tests the scripts of plots/ on journals without optional fields, on damaged files, and under other locales."""

import json
import os
import subprocess
import sys

import boost
import boost_table
import chain_tables
import dashboard
import decoder_share
import journal
import paper_table
import pytest
import readme_table
import rival_reports
import script as scripts
import skip_blank
import synthetic_journal as synthetic
import timeline
from conftest import ROOT
from forked_script import script
from journal import read_journal, read_records


def python(code, *arguments, **environment):
    """Runs code in the folder plots/."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT / "plots", capture_output=True, env={**os.environ, **environment})


@pytest.fixture
def read(tmp_path):
    """read(*records) returns the cases of a journal."""
    return lambda *records: read_journal(synthetic.write(tmp_path, [synthetic.provenance(), *records])).cases


def test_optional_fields_may_be_missing(read):
    record = synthetic.run()
    del record["decoder"]["options"], record["counters"], record["wer"]["reference_words"]
    (case,) = read(record)
    assert journal.option(case, "lm") is None and journal.other_options(case, []) == {}
    assert journal.wer_percent(case) is None and boost.false_alarms(case) is None
    assert skip_blank.threshold(case) is None and skip_blank.skipped(case) == 0


def test_skipped_frames_without_counts_make_no_point(read):
    record = synthetic.run()
    record["decoder"]["options"] = {"skip_blank": 0.5}
    assert [skip_blank.skipped(case) for case in read(record)] == [None]
    record["counters"] |= {"frames": 200, "frames_skipped": 50}
    assert [skip_blank.skipped(case) for case in read(record)] == [25]


@pytest.mark.parametrize("value", [3, {"path": "a.txt"}, "a.txt"])
def test_an_option_boost_of_another_decoder_in_python_is_not_nemos(read, value):
    record = synthetic.run(decoder="mine")
    record["decoder"] |= {"name": "python", "options": {"class": "Mine", "options": {"boost": value}}}
    nemo = synthetic.boosted_search("rival", 1, 15)
    mine, theirs = read(record, nemo)
    assert (boost.is_nemo(mine), boost.phrases(mine), boost.magnitude(mine)) == (False, None, None)
    assert (boost.is_nemo(theirs), boost.phrases(theirs), boost.magnitude(theirs)) == (True, "names", 1)
    assert boost.draw([mine], 8) is None


def test_a_boost_of_nemo_that_is_no_path_counts_as_none(read):
    record = synthetic.boosted_search("rival", 1, 15)
    record["decoder"]["options"]["options"]["boost"] = 3
    (case,) = read(record)
    assert boost.is_nemo(case) and boost.phrases(case) is None


def test_a_line_that_is_torn_within_a_character_is_ignored(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_bytes('{"a": "b\u2028c"}\n{"a": "\u00fc'.encode()[:-1])
    assert read_records(path) == [{"a": r"b\u2028c"}]


@pytest.mark.parametrize("line", [b"[1]", b'{"a": "\xc3"}', b"{"])
def test_a_line_that_is_no_record_is_named(tmp_path, line):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"{}\n" + line + b"\n")
    with pytest.raises(SystemExit, match=rf"{path}:2: not a JSON object"):
        read_records(path)


def test_hypotheses_may_be_packed_and_torn(read, tmp_path):
    (case,) = read(synthetic.run())
    path = tmp_path / "hypotheses" / f"{case.last['result_key']}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('{"id": "a\u2028b"}\n{"id"', encoding="utf-8")
    assert len(boost_table.hypotheses(tmp_path, case)) == 1
    subprocess.run(["gzip", path], check=True)
    assert len(boost_table.hypotheses(tmp_path, case)) == 1


@pytest.mark.parametrize("error", [AttributeError, IndexError, ValueError, ZeroDivisionError, KeyError, TypeError])
def test_unexpected_input_takes_one_line(error):
    def fail():
        raise error("a\nb")

    with pytest.raises(SystemExit, match=rf"^not what `rtfx` writes: {error.__name__} .*a\\+nb"):
        scripts.run_script(fail)


@pytest.mark.parametrize("process", [0, 2])
def test_a_timeline_of_a_process_without_a_count_is_refused(process):
    with pytest.raises(SystemExit, match=f"process {process} of 1"):
        timeline.left_out_of({"left_out_by_process": [7]}, process)
    assert timeline.left_out_of({"left_out_by_process": [7]}, 1) == 7


def test_output_escapes_what_the_locale_lacks():
    code = "from script import run_script; run_script(lambda: print('\\xfc \\u2192'))"
    assert python(code, PYTHONIOENCODING="iso-8859-1").stdout == b"\xfc \\u2192\n"


def test_the_summary_is_utf8_under_any_locale(tmp_path):
    path = synthetic.write(tmp_path, [synthetic.provenance(question="Wie fl\u00fcssig?"), synthetic.run()])
    code = "import sys, journal; print(ascii(journal.read_journal(sys.argv[1]).provenance['question']))"
    locale = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    assert python(code, path, **locale).stdout == b"'Wie fl\\xfcssig?'\n"


def test_standard_input_of_pages_is_utf8_under_any_locale(tmp_path):
    """The dashboard refuses facts without runs, but it reads them first."""
    command = [sys.executable, ROOT / "plots/dashboard.py", tmp_path, "-o", tmp_path / "out"]
    facts = '{"runs": [{"cases": [], "journal": "a", "\u00fc": 1}]}'.encode()
    done = subprocess.run(command, input=facts, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii:strict"})
    assert done.stderr == b"not what `rtfx` writes: KeyError 'started'\n"


def test_digits_are_those_of_the_programs_tables(read):
    values = {0: 1, 0.004: 4, 0.042: 3, 0.5: 2, 1: 1, 35.2: 1, 100: 0}
    assert {value: scripts.decimals_of(value) for value in values} == values
    single, *_ = read(synthetic.run(decode_seconds=3000))
    assert (rtfx := single.metric("rtfx.decode")[0]) == 0.04
    assert readme_table.number(single, "rtfx.decode") == f"{rtfx:.3f}"
    (several,) = read(synthetic.run(decode_seconds=2), synthetic.run(round=1, decode_seconds=2))
    assert readme_table.number(several, "rtfx.decode") == "60.0 ± 0.0"
    shown = {None: "–", 0: "0.00", 0.004: "0.0040", 35.2: "35.20", 1234: "1,234"}
    assert {value: dashboard.figure(value) for value in shown} == shown


def test_rings_show_no_overlapped_passes(read):
    record = synthetic.run()
    assert decoder_share.draw(read(record), 8) is not None
    record["pipeline"] = {"in_flight": 2, "audio": "samples"}
    assert decoder_share.draw(read(record), 8) is None


def test_texts_of_a_journal_are_escaped_in_remarks():
    held = journal.Journal("a", [synthetic.provenance()], [], tuned=["a*b*|`c` is tuned."])
    table = {"paper": {"remarks": ["`code` of the paper."]}, "cells": []}
    assert [*paper_table.remarks(table, held, scripts.markdown)] == ["`code` of the paper.", r"a\*b\*\|\`c\` is tuned."]
    assert [*paper_table.remarks(table, held)] == ["`code` of the paper.", "a*b*|`c` is tuned."]


def test_a_folder_without_a_profile_is_refused(tmp_path):
    path = synthetic.write(tmp_path / "run", [synthetic.provenance(), synthetic.run()])
    done = script("plots/report.py", path, "--profile", tmp_path, "-o", tmp_path / "page.html", stdin="{}")
    assert done.returncode == 1 and not (tmp_path / "page.html").exists()
    assert done.stderr == f"{tmp_path}: holds no profile.jsonl and no trace.json; give the folder of a profile\n"


@pytest.mark.parametrize("name, made, mark", [("stream_tables", "c120.jsonl", "streams:sustained"),
                                              ("chain_tables", "h100/chain/notes.txt", "chain:speeds h100")])  # fmt: skip
def test_a_wrong_folder_erases_no_table(tmp_path, name, made, mark):
    (tmp_path / made).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / made).write_text("")
    page = tmp_path / "page.md"
    page.write_text(text := f"<!-- {mark} -->\nkept\n<!-- /{mark.partition(':')[0]} -->\n")
    done = script(f"scripts/{name}.py", tmp_path, page)
    assert done.returncode == 1 and done.stderr.startswith(f"{tmp_path}: holds no ")
    assert page.read_text() == text


def test_a_table_without_lines_stays_as_it_is(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text := "<!-- a:b -->\nkept\n<!-- /a -->\n")
    assert rival_reports.rewrite([page], "a:b", lambda: iter(())) == 1 and page.read_text() == text
    assert rival_reports.rewrite([page], "a:b", lambda: ["new"]) == 1 and "\nnew\n" in page.read_text()
    assert chain_tables.with_rows(["| a |", "|---|"]) == []
    assert len(chain_tables.with_rows(["| a |", "|---|", "| 1 |"])) == 3


def test_a_killed_summary_is_named(tmp_path):
    program = tmp_path / "rtfx"
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    program.chmod(0o755)
    path = synthetic.write(tmp_path, [synthetic.provenance()])
    done = python("import sys, journal; journal.read_journal(sys.argv[1])", path, RTFX_BIN=str(program))
    assert done.returncode == 1
    assert done.stderr.decode() == f"{program} summary {path}: ended with code -9\n"
