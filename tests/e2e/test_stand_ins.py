"""Tests that stand-in data and stand-in models are marked wherever their results are shown."""

import csv
import io
import json

import pytest
import rtfx_by_decoder
import synthetic_journal as synthetic
from conftest import AUDIO, ROOT, runs_of, small_config, strict_records
from journal import read_journal
from style import NARROW, WIDE, note_stand_ins

SPEECH = "espeak-ng speech of its transcripts"
DATA = "stand-in data"
MODEL, MADE = "stand-in model", "small.nemo widened to parakeet-rnnt-0.6b"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Writes a run on stand-in data, with a trained model and a widened one."""
    folder = tmp_path_factory.mktemp("stand_ins")
    records = [synthetic.provenance()]
    for model, made in (("quickstart-rnnt", None), ("wide-rnnt", MADE)):
        for round in range(2):
            record = synthetic.run(model=model, round=round)
            record["model"]["stand_in"] = made
            record["dataset"]["stand_in"] = SPEECH
            records.append(record)
    synthetic.write(folder, records)
    return folder


def test_the_table_and_the_page(rtfx, folder):
    result = rtfx("report", folder)
    assert result.returncode == 0, result.stderr
    heads = [line for line in result.stdout.splitlines() if " on quickstart (" in line]
    assert [f"{DATA}: {SPEECH}" in head for head in heads] == [True, True]
    assert [f"{MODEL}: {MADE}" in head for head in heads] == [False, True]
    page = (folder / "report.html").read_text()
    assert f"<strong>Stand-in data: quickstart is {SPEECH}.</strong>" in page
    assert f"<strong>Stand-in models: wide-rnnt is {MADE}.</strong>" in page
    assert page.count(f"; {DATA}: {SPEECH}") == 2  # the headings of all models
    assert page.count(f"; {MODEL}: {MADE}") == 1
    figures = page[page.index("<svg") :]
    assert "Stand-in data: quickstart" in figures


@pytest.mark.parametrize(
    "to", ["gbench", "bmf", "github-action", "csv", "markdown", "latex"]
)  # fmt: skip
def test_every_export(rtfx, folder, to):
    text = rtfx("export", folder, "--to", to).stdout
    if to == "csv":
        marks = [row["marks"] for row in csv.DictReader(io.StringIO(text))]
        assert marks == [DATA, f"{MODEL} {DATA}"]
    elif to == "bmf":
        assert [name.partition(" ")[2] for name in json.loads(text)] == [f"({DATA})", f"({MODEL}, {DATA})"]
    else:
        assert DATA in text and MODEL in text


def test_every_figure(folder):
    for width in (WIDE, NARROW):
        cases = read_journal(folder).cases
        figure = rtfx_by_decoder.draw(cases, width)
        note_stand_ins(figure, cases)
        note = figure.get_supxlabel().replace("\n", " ")
        assert f"quickstart is {SPEECH}" in note
        assert f"wide-rnnt is {MADE}" in note
        figure.draw_without_rendering()
        (label,) = [text for text in figure.texts if text.get_text() == figure.get_supxlabel()]
        assert label.get_window_extent().width <= figure.bbox.width


def test_a_committed_journal_of_an_earlier_release(rtfx):
    """An earlier release's journal names the set test_other_spoken without a field for stand-ins, but the mark is
    shown."""
    text = rtfx("export", ROOT / "tests/data/journals/earlier_release.jsonl", "--to", "markdown").stdout
    assert DATA in text and "is espeak-ng speech of LibriSpeech test-other" in text


@pytest.mark.parametrize("command", ["run", "validate"])
def test_what_is_missing_names_the_command_that_makes_it(rtfx, tmp_path, command):
    models = {"standin-parakeet-rnnt-0.6b": "stand_ins.sh parakeet-rnnt-0.6b`", "standin256-tdt": "stand_ins.sh`"}
    data = {"id": "spoken", "manifest": str(tmp_path / "test_other/manifest.jsonl")}
    config = small_config(models=[str(tmp_path / f"{name}.nemo") for name in models], datasets=[data])
    (tmp_path / "config.json").write_text(json.dumps(config))
    output = ["--output", tmp_path / "run"] if command == "run" else []
    result = rtfx(command, tmp_path / "config.json", *output)
    assert result.returncode == 2 and not (tmp_path / "run").exists()
    lines = result.stderr.splitlines()
    assert len(lines) == 3
    for line, (name, made) in zip(lines, models.items(), strict=False):
        assert f"{name}.nemo: no such file; `scripts/{made} makes this stand-in" in line
    assert f"datasets/speak_librispeech.py {tmp_path}/test_other` makes it" in lines[2]


def test_a_run_records_what_its_data_say(rtfx, tmp_path):
    lines = (AUDIO / "manifest.jsonl").read_text().splitlines()[:2]
    manifest = [json.loads(line) for line in lines]
    for line in manifest:
        line["audio_filepath"] = str(AUDIO / line["audio_filepath"])
    (tmp_path / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in manifest))
    (tmp_path / "stand_in.txt").write_text(SPEECH + "\n")
    data = [{"id": "test_other", "manifest": str(tmp_path / "manifest.jsonl")}]
    config = small_config(datasets=data) | {"protocol": {"warmup_rounds": 0, "measured_rounds": 1}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = rtfx("run", tmp_path / "config.json", "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    assert f"test_other: {DATA}: {SPEECH}" in result.stderr
    assert f"{DATA}: {SPEECH}" in result.stdout
    records = strict_records(tmp_path / "run/journal.jsonl")
    assert records[0]["datasets"][0]["stand_in"] == SPEECH
    assert {record["dataset"]["stand_in"] for record in runs_of(records)} == {SPEECH}
