"""Figures and tables of streams and boosts, from made-up journals."""

import importlib
import sys

import pytest
import synthetic_journal as synthetic
from conftest import ROOT


def stream_record(streams, total, stable=True, expected=5.0, decoder="ctc_wfst"):
    metrics = {"stream.compute_ms": 3.0, "stream.queue_ms": total - 3.0, "stream.total_ms": total,
               "stream.total_ms.p50": total / 2, "stream.total_ms.p99": 2 * total,
               "stream.md1_total_ms": expected, "stream.rtfx": float(streams)}  # fmt: skip
    return synthetic.stream(streams, stable, decoder=decoder) | {"metrics": metrics}


@pytest.fixture
def plots(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "plots"))
    yield importlib.import_module
    for module in ("journal", "options", "style", "sweep", "stream_latency", "stream_capacity", "boost", "cells"):
        sys.modules.pop(module, None)


def test_latency_by_streams(plots, tmp_path):
    records = [synthetic.provenance(), stream_record(256, 80.0, stable=False, expected=None)]
    records += [stream_record(16, 8.0), stream_record(1, 4.0), synthetic.run()]
    journal = plots("journal").read_journal(synthetic.write(tmp_path, records))
    assert len(journal.streams) == 3 and len(journal.cases) == 1
    figure = plots("stream_latency").draw(journal.streams, 8.6)
    lines = [line.get_xydata().tolist() for line in figure.axes[0].get_lines()]
    assert lines[1] == [[1, 4], [16, 8], [256, 80]]
    assert lines[2] == [[1, 8], [16, 16], [256, 160]]
    assert lines[3] == [[1, 5], [16, 5]]
    assert [text.get_text() for text in figure.axes[0].texts] == ["overloaded"]
    assert plots("stream_latency").draw([], 8.6) is None


def test_cells_of_streams_are_chosen_by_their_number(plots, tmp_path):
    records = [synthetic.provenance(), stream_record(16, 8.0), stream_record(256, 80.0)]
    streams = plots("journal").read_journal(synthetic.write(tmp_path, records)).streams
    cell = {"decoder": "ctc_wfst", "batch": 256, "metric": "stream.total_ms.p99"}
    assert plots("cells").our_value(streams, cell) == 160


def test_boost_sweep(plots, tmp_path):
    records = [synthetic.provenance(), synthetic.run(decoder="greedy", grade="baseline")]
    for words, errors in (("said", [80, 50, 70]), ("others", [80, 80, 81])):
        for scale, count in zip((0, 8, 16), errors):
            record = synthetic.run(decoder=f"{words}{scale}")
            options = {"beam": 32.0, "boost": {"path": f"x/{words}.txt", "scale": scale}}
            record["decoder"] |= {"name": "ctc_wfst", "options": options}
            record["wer"] |= {"substitutions": count, "insertions": 0, "deletions": 0}
            records.append(record)
    cases = plots("journal").read_journal(synthetic.write(tmp_path, records)).cases
    figure = plots("boost").draw(cases, 8.6)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["ctc_wfst, beam 32: said", "ctc_wfst, beam 32: others"]
    first = figure.axes[0].get_lines()[0].get_xydata()
    assert first[:, 0].tolist() == [0, 8, 16]
    assert first[:, 1].tolist() == [pytest.approx(100 * n / 290) for n in (80, 50, 70)]


def trial(streams, period, final, slo=True, confirms=True, **fields):
    record = synthetic.stream(streams, **fields) | {"slo": slo, "confirms": confirms}
    record["case"] += "-confirmed" if confirms else ""
    record["stream"] |= {"period_ms": period, "rule": {"late": 0.001}}
    record["metrics"] |= {"stream.final_ms": final / 2, "stream.final_ms.p95": final, "energy.joules_per_hour": 9000 / streams}
    return record


def test_sustained_streams_over_steps_and_latency(plots, tmp_path):
    """The most streams of each step that kept the rule in the long trial, and the front of those."""
    steps = {80: [(50, True, True), (80, True, False), (64, False, True)], 560: [(40, True, True)], 1120: [(400, True, True)]}
    runs = []
    for period, trials in steps.items():
        records = [trial(n, period, period / 10, *kept) for n, *kept in trials]
        folder = tmp_path / str(period)
        folder.mkdir()
        runs.append(synthetic.write(folder, [synthetic.provenance(), *records]))
    cases = [case for run in runs for case in plots("journal").read_journal(run).streams]
    figure = plots("stream_capacity").draw(cases, 8.6)
    step, latency, energy = figure.axes
    assert step.get_lines()[0].get_xydata().tolist() == [[80, 50], [1120, 400]]
    assert [line.get_xydata().tolist() for line in step.get_lines()[1:]] == [[[80, 50]], [[560, 40]], [[1120, 400]]]
    assert latency.get_lines()[0].get_xydata().tolist() == [[88, 50], [1232, 400]]
    assert energy.get_lines()[0].get_xydata().tolist() == [[22.5, 400]]
    assert plots("stream_capacity").draw([case for case in cases if not case.last["slo"]], 8.6) is None
