"""Tests figures and tables of streams and boosts on synthetic journals."""

import importlib
import json
import sys

import pytest
import synthetic_journal as synthetic
from conftest import ROOT
from forked_script import script


def stream_record(streams, total, stable=True, expected=5.0, decoder="ctc_wfst"):
    metrics = {"stream.compute_ms": 3.0, "stream.queue_ms": total - 3.0, "stream.total_ms": total,
               "stream.total_ms.p50": total / 2, "stream.total_ms.p99": 2 * total,
               "stream.md1_total_ms": expected, "stream.rtfx": float(streams)}  # fmt: skip
    return synthetic.stream(streams, stable, decoder=decoder) | {"metrics": metrics}


@pytest.fixture
def plots(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "plots"))
    yield importlib.import_module
    for module in ("journal", "options", "style", "sweep", "stream_latency", "stream_capacity", "sustained", "boost", "cells"):
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
    """The figure shows, for each step size, the most streams that kept the rule in the long trial, and their front."""
    steps = {80: [(50, True, True), (80, True, False), (64, False, True)], 560: [(40, True, True)], 1120: [(400, True, True)]}
    runs = []
    for period, trials in steps.items():
        records = [trial(n, period, period / 10, *kept) for n, *kept in trials]
        folder = tmp_path / str(period)
        folder.mkdir()
        runs.append(synthetic.write(folder, [synthetic.provenance(), *records]))
    cases = [case for run in runs for case in plots("journal").read_journal(run).streams]
    points = plots("sustained").sustained(cases)
    figure = plots("stream_capacity").draw(points, 8.6)
    step, latency, energy = figure.axes
    assert step.get_lines()[0].get_xydata().tolist() == [[80, 50], [1120, 400]]
    assert [line.get_xydata().tolist() for line in step.get_lines()[1:]] == [[[80, 50]], [[560, 40]], [[1120, 400]]]
    assert latency.get_lines()[0].get_xydata().tolist() == [[88, 50], [1232, 400]]
    assert energy.get_lines()[0].get_xydata().tolist() == [[80, 180], [560, 225], [1120, 22.5]]
    assert plots("sustained").sustained(case for case in cases if not case.last["slo"]) == []
    assert plots("stream_capacity").draw([], 8.6) is None


def nemo_steps(streams, period, mean, joules=30.0):
    """Returns a record of rivals/nemo/stream_steps.py. Times are in seconds."""
    return {"streams": streams, "chunk_seconds": period, "steps": 25, "capacity": streams * period / mean,
            "step_ms": {"mean": 1000 * mean, "p50": 1000 * mean, "p95": 1100 * mean, "p99": 1100 * mean, "max": 1200 * mean},
            "joules_per_hour": joules, "tokens_per_frame": 0.2, "model": "m.nemo", "dtype": "bfloat16", "nemo": "3.0.0",
            "device": "Some GPU", "graphs": True, "att_context_size": [70, 0]}  # fmt: skip


def test_nemos_best_batch_stands_beside_ours(plots, tmp_path):
    """NeMo's best batch counts only if its own capacity can fill it. Pauses do not lower the capacity."""
    paused = nemo_steps(64, 0.08, 0.064, None)
    paused["capacity"] = 50  # computed from the mean of its steps
    steps = {80: [nemo_steps(32, 0.08, 0.05), paused, nemo_steps(128, 0.08, 0.1)],
             1120: [nemo_steps(32, 1.12, 0.05), nemo_steps(1024, 1.12, 0.5)]}  # fmt: skip
    files = []
    for period, records in steps.items():
        files.append(tmp_path / f"nemo_{period}.jsonl")
        files[-1].write_text("".join(json.dumps(record) + "\n" for record in records))
    run = tmp_path / "run"
    run.mkdir()
    synthetic.write(run, [synthetic.provenance(), trial(400, 1120, 100)])
    points = plots("sustained").sustained_by_nemo(files)
    assert [(p.step_ms, p.streams, p.final_ms, p.joules_per_hour) for p in points] == [
        (80, 80, pytest.approx(64), None), (1120, 2293, pytest.approx(500), 30.0)]  # fmt: skip
    assert {p.series for p in points} == {"NeMo 3.0.0, bf16, full batches"}
    drawn = tmp_path / "both.svg"
    made = script("plots/stream_capacity.py", run, "--nemo", *files, "-o", drawn)
    assert made.returncode == 0, made.stderr
    assert made.stdout.splitlines()[:2] == [f"NeMo 3.0.0, bf16, full batches: {n:g} streams with {p} ms of new audio in a step"
                                            for n, p in ((80, 80), (2293, 1120))]  # fmt: skip
    for words in ("NeMo 3.0.0, bf16, full batches", "quickstart-rnnt"):
        assert words in drawn.read_text()


def test_table_of_sustained_streams(tmp_path):
    """The table has a row for each length of a chunk, and a dash for what was not measured."""
    wer = {side: synthetic.run()["wer"] | {"wer": value} for side, value in (("streamed", 0.1282), ("whole", 0.1277))}
    rule = {"late": 0.001, "seconds": 60.0, "confirm_seconds": 120.0}
    for period, streams in ((80, 1500), (1120, 8000)):
        records = [trial(streams + 100, period, 2000, slo=False, dtype="bf16"), trial(streams, period, 40, dtype="bf16")]
        records[1] |= {"quality": wer | {"difference": 0.0005, "low": -0.001, "high": 0.002},
                       "streamed": {"different": 3, "first_difference": "a", "tokens": 9000, "utterances": 1200}}  # fmt: skip
        for record in records:
            record["stream"] |= {"rule": rule}
        synthetic.write(tmp_path, [synthetic.provenance(), *records])
        (tmp_path / "journal.jsonl").rename(tmp_path / f"c120_{period}.jsonl")
    steps = nemo_steps(64, 0.08, 0.064) | {"sha256": "ab"}
    (tmp_path / "nemo_streams_80.jsonl").write_text(json.dumps(steps) + "\n")
    page = tmp_path / "page.md"
    page.write_text("<!-- streams:sustained -->\nold\n<!-- /streams -->\n")
    made = script("scripts/stream_tables.py", tmp_path, page)
    assert made.returncode == 0, made.stderr
    assert page.read_text() == """<!-- streams:sustained -->
quickstart-rnnt. Some CPU, rtfx 0123456789ab, 2026-01-02.
Each number kept the rule in one trial of 120 s.
NeMo 3.0.0 on Some GPU: full batches in bf16 at the time of the median step, the best batch that was tried.
NeMo's checkpoint was another one.
Latency is the 95th percentile from the last audio of an utterance to its last result, without the wait for a whole chunk.
Energy is that of the GPU. Streams repeat the utterances of the dataset, and each time counts.

| chunk | streams sustained, bf16 | fp8 | NeMo | bf16 : NeMo |
|--:|--:|--:|--:|--:|
| 80 ms | 1,500 | – | 80 | 18.75x |
| 1120 ms | 8,000 | – | – | – |

| chunk | joules per hour of audio, bf16 | fp8 | NeMo | latency ms, bf16 | fp8 |
|--:|--:|--:|--:|--:|--:|
| 80 ms | 6 | – | 30 | 40 | – |
| 1120 ms | 1 | – | – | 40 | – |

| chunk | WER %, streams : whole utterances, bf16 | the same, fp8 | streamed utterances that differ from whole ones, bf16 | the same, fp8 |
|--:|--:|--:|--:|--:|
| 80 ms | 12.82 : 12.77 | – | 3 of 1,200 | – |
| 1120 ms | 12.82 : 12.77 | – | 3 of 1,200 | – |
<!-- /streams -->
"""
