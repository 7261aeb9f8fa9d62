"""Tests the JSON, JUnit XML and Markdown files that gate and compare write for other programs."""

import json
import xml.etree.ElementTree as ElementTree

import consumers
import pytest
import synthetic_journal as synthetic
from test_gate import CORRECTNESS, INCONCLUSIVE, PASS, REGRESSED, journal

ODD = 'a<b>&"c"'


@pytest.fixture
def gate(rtfx, tmp_path):
    def run(current, *arguments, baseline=None):
        synthetic.write(tmp_path / "baseline", baseline or journal(1))
        synthetic.write(tmp_path / "current", current)
        return rtfx("gate", "--baseline", tmp_path / "baseline", tmp_path / "current",
                    "--junit", tmp_path / "gate.xml", "--markdown", tmp_path / "gate.md", *arguments)  # fmt: skip

    return run


def outcomes(path):
    """Reads a JUnit file as {"case what": (element, type)} and checks its totals."""
    suites = ElementTree.parse(path).getroot()
    (suite,) = suites
    assert suites.tag == "testsuites" and suite.tag == "testsuite"
    found = {}
    for case in suite:
        children = [child for child in case if child.tag != "system-out"]
        assert len(children) <= 1
        kind = (children[0].tag, children[0].get("type")) if children else ("passed", None)
        found[f"{case.get('classname')} {case.get('name')}"] = kind
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.get(attribute)) == sum(kind == tag for kind, _ in found.values())
    assert int(suite.get("tests")) == len(suite)
    return found


def test_a_slower_decoder(gate, tmp_path):
    result = gate(journal(2, slower=1.2))
    assert result.returncode == REGRESSED
    found = outcomes(tmp_path / "gate.xml")
    (slow,) = [name for name, kind in found.items() if kind == ("failure", "REGRESSED")]
    assert slow.endswith("/label_looping/b16/fp32 rtfx.decode")
    text = (tmp_path / "gate.md").read_text()
    assert text.startswith("## rtfx gate: REGRESSED\n") and text.count("| REGRESSED |") == 1
    assert "<details><summary>" in text and text.index("| REGRESSED |") < text.index("<details>")


def test_wrong_tokens_and_noise(gate, tmp_path):
    def wrong(record):
        record |= {"tokens_sha256": "t1", "hypotheses_sha256": "h1"}

    assert gate(journal(2, change=wrong)).returncode == CORRECTNESS
    assert ("failure", "CORRECTNESS") in outcomes(tmp_path / "gate.xml").values()
    noisy = journal(3, slower=1.1, noise=0.2)
    assert gate(noisy).returncode == INCONCLUSIVE
    assert ("error", "INCONCLUSIVE") in outcomes(tmp_path / "gate.xml").values()
    assert gate(noisy, "--allow-inconclusive").returncode == PASS
    found = outcomes(tmp_path / "gate.xml")
    assert {kind for kind, _ in found.values()} == {"passed", "skipped"}


def test_rows_name_the_baseline_that_they_are_about(rtfx, tmp_path):
    def wrong(record):
        record |= {"tokens_sha256": "t1", "hypotheses_sha256": "h1"}

    runs = {"a": journal(1), "b": journal(2, change=wrong), "short": [r for r in journal(3) if "label" not in str(r)]}
    for name, records in (runs | {"now": journal(4)}).items():
        synthetic.write(tmp_path / name, records)
    baselines = [part for name in runs for part in ("--baseline", tmp_path / name)]
    arguments = ("gate", *baselines, tmp_path / "now", "--junit", tmp_path / "gate.xml")
    rows = json.loads(rtfx(*arguments, "--json").stdout)["rows"]
    said = {(row["what"], row["verdict"]): row["baseline_run"] for row in rows}
    assert said["results", "CORRECTNESS"] == f"{tmp_path}/b/journal.jsonl"
    assert said["case", "INVALID"] == f"{tmp_path}/short/journal.jsonl"
    assert said["rtfx.total", "PASS"] is None
    assert f"missing in the baseline; baseline {tmp_path}/short/journal.jsonl" in rtfx(*arguments).stdout
    assert len(outcomes(tmp_path / "gate.xml")) == len(rows)  # each has a name of its own


def test_junitparser_reads_it(gate, tmp_path):
    python = consumers.python()
    gate(journal(2, slower=1.2))
    code = "import sys, junitparser; r = junitparser.JUnitXml.fromfile(sys.argv[1]); print(r.tests, r.failures, r.errors)"
    done = consumers.call(python, "-c", code, tmp_path / "gate.xml")
    assert done.stdout.split() == ["8", "1", "1"], done.stderr  # rtfx.total is INCONCLUSIVE, an error in JUnit


def test_names_are_escaped(gate, tmp_path):
    """A case with an odd name that only the current run has is listed with its name, and Markdown escapes the name."""
    records = journal(2)
    records.append(synthetic.run(decoder=ODD, round=0))
    gate(records)
    assert f"quickstart-rnnt/quickstart/{ODD}/b16/fp32 case" in outcomes(tmp_path / "gate.xml")
    assert "<b>" not in (tmp_path / "gate.md").read_text()


def test_json_of_the_gate(gate):
    result = gate(journal(2, slower=1.2), "--json")
    assert result.returncode == REGRESSED
    document = json.loads(result.stdout)
    assert document["verdict"] == "REGRESSED" and len(document["rows"]) == 8
    (row,) = [row for row in document["rows"] if row["verdict"] == "REGRESSED"]
    assert row["what"] == "rtfx.decode" and row["tolerance"] == 0.05
    assert row["current"] / row["baseline"] == pytest.approx(1 / 1.2, rel=0.02)
    assert row["change"]["low"] < 1 / 1.2 < row["change"]["high"] < 1 - row["tolerance"]


def test_json_of_compare(rtfx, tmp_path):
    for name, records in (("a", journal(1)), ("b", journal(2, slower=1.2, libtorch="2.12.0"))):
        synthetic.write(tmp_path / name, records)
    document = json.loads(rtfx("compare", tmp_path / "a", tmp_path / "b", "--json").stdout)
    assert {"key": "libtorch", "from": "2.11.0", "to": "2.12.0"} in document["provenance"]
    case = document["cases"][1]
    assert "label_looping" in case["case"] and case["failure"] is None
    change = case["changes"]["rtfx.decode"]
    assert change["kind"] == "ratio" and change["change"]["estimate"] == pytest.approx(1 / 1.2, rel=0.01)
    assert case["changes"]["wer"]["change"] == {"estimate": 0, "low": None, "high": None}
    within = json.loads(rtfx("compare", tmp_path / "a", "--json").stdout)
    (only,) = within["cases"]
    assert only["baseline"] == "frame_looping" and only["changes"]["rtfx.decode"]["change"]["low"] > 3
