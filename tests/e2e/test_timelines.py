"""Tests figures of trace.json: what is busy when, and what was left out."""

import gzip
import json

import gpu_timeline
import loop_timeline
import pytest
import synthetic_journal as synthetic
from forked_script import script
from timeline import busy_share, read_trace

CASES = [f"quickstart-rnnt/quickstart/{name}/b4/fp32" for name in ("frame_looping", "window")]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "trace.json").write_text(json.dumps(synthetic.trace(CASES)))
    return tmp_path


def test_busy_share_counts_overlaps_once():
    spans = [(0, 1, "a"), (0.5, 2, "b"), (0.6, 0.7, "c"), (5, 6, "d"), (9.5, 12, "e")]
    assert busy_share(spans, [0, 10]) == [pytest.approx(0.35)]
    assert busy_share(spans, [0, 1, 2, 5, 10]) == pytest.approx([1, 1, 0, 0.3])
    assert busy_share([], [0, 1, 2]) == [0, 0]


def test_reading_a_trace(folder):
    laps = read_trace(folder)
    assert [lap.case for lap in laps] == CASES
    for lap in laps:
        assert lap.end == 500 and lap.spans("decode.loop") == [(100, 500)]
        assert len(lap.calls) == len(lap.copies) == 4 and len(lap.kernels) == 5
        assert lap.known_until == float("inf")
        assert busy_share(lap.kernels, [0, 100, 500]) == pytest.approx([0.5, 0.1])


def test_a_trace_may_be_gzipped(folder):
    packed = folder / "trace.json.gz"
    packed.write_bytes(gzip.compress((folder / "trace.json").read_bytes()))
    plain = read_trace(folder)
    assert read_trace(packed) == plain
    (folder / "trace.json").unlink()
    assert read_trace(folder) == plain


def test_an_option_of_a_row_may_be_a_path():
    row = gpu_timeline.name_of("m/quick/alsd_pp[boost.path=lists/a.txt]/b4/fp32")
    assert (row.title, row.label) == ("m, quick, b4, fp32", "alsd_pp[boost.path=lists/a.txt]")


def test_what_was_left_out_is_not_idle(folder):
    trace = synthetic.trace(CASES[:1], left_out=3)
    (folder / "trace.json").write_text(json.dumps(trace))
    (lap,) = read_trace(folder)
    assert lap.known_until == 420  # the start of the last event that was kept
    result = script("plots/gpu_timeline.py", folder, "-o", folder / "f.svg")
    assert result.returncode == 0 and "not recorded" in (folder / "f.svg").read_text()


def test_a_complete_case_beside_one_that_was_cut(folder):
    (folder / "trace.json").write_text(json.dumps(synthetic.trace(CASES, by_process=[0, 3])))
    complete, cut = read_trace(folder)
    assert complete.known_until == float("inf") and cut.known_until == 420
    output = folder / "f.svg"
    for case, hatched in (("frame_looping", False), ("window", True)):
        assert script("plots/gpu_timeline.py", folder, "-o", output, "--case", case).returncode == 0
        assert ("not recorded" in output.read_text()) == hatched


def test_a_loop_that_was_cut_is_drawn_as_far_as_it_was_recorded(folder):
    """A loop from 100 to 500 µs is drawn up to 420 µs, as far as the trace goes, so its middle is at 260 µs."""
    trace = synthetic.trace(CASES[:1], left_out=3)
    (folder / "trace.json").write_text(json.dumps(trace))
    (lap,) = read_trace(folder)
    assert loop_timeline.stretch(lap, 200) == (160, 360)
    assert loop_timeline.stretch(lap, 10_000) == (100, 420)


@pytest.mark.parametrize("name", ["gpu_timeline", "loop_timeline"])
def test_scripts_write_figures(folder, name):
    for kind, magic in (("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")):
        output = folder / f"f.{kind}"
        result = script(f"plots/{name}.py", folder, "-o", output, "--case", "window")
        assert result.returncode == 0, result.stderr
        assert output.read_bytes().startswith(magic)
        assert CASES[1] in result.stdout and CASES[0] not in result.stdout


def test_idle_share_of_a_loop(folder):
    """The idle share is 90 %: in every 100 µs a kernel takes 10 µs, and 200 µs around the middle hold two kernels."""
    output = folder / "f.svg"
    arguments = ("-o", output, "--microseconds", "200")
    assert script("plots/loop_timeline.py", folder, *arguments).returncode == 0
    assert "no kernel 90 %" in output.read_text()


def test_a_trace_without_a_gpu(folder):
    trace = synthetic.trace(CASES)
    trace["traceEvents"] = [e for e in trace["traceEvents"] if e["tid"] < 10]
    (folder / "trace.json").write_text(json.dumps(trace))
    assert script("plots/gpu_timeline.py", folder, "-o", folder / "f.svg").returncode == 0
    assert "a kernel runs" not in (folder / "f.svg").read_text()
    result = script("plots/loop_timeline.py", folder, "-o", folder / "g.svg")
    assert result.returncode == 1 and "give a profile from a GPU" in result.stderr
    trace["otherData"]["left_out_events"] = 3
    (folder / "trace.json").write_text(json.dumps(trace))
    assert script("plots/gpu_timeline.py", folder, "-o", folder / "f.svg").returncode == 0
    assert "not recorded" not in (folder / "f.svg").read_text()  # no part of the figure is hatched


def test_an_imported_case_may_have_any_name(folder):
    (folder / "trace.json").write_text(json.dumps(synthetic.trace(["my case"])))
    result = script("plots/gpu_timeline.py", folder, "-o", folder / "f.svg")
    assert result.returncode == 0, result.stderr
    assert "my case" in (folder / "f.svg").read_text()


@pytest.mark.parametrize("name, data, problem", [
    ("trace.json.gz", gzip.compress(b"{}" * 100, mtime=0)[:-12], "a damaged gzip file"),
    ("trace.json", b'{"traceEvents": [', "not a timeline"),
    ("trace.json", b"\xff\xfe", "not a timeline"),
])  # fmt: skip
def test_a_damaged_trace_is_one_line_with_its_name(tmp_path, name, data, problem):
    (tmp_path / name).write_bytes(data)
    result = script("plots/gpu_timeline.py", tmp_path, "-o", tmp_path / "f.svg")
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1
    assert f"{tmp_path / name}: {problem}" in result.stderr


def test_no_trace(tmp_path):
    result = script("plots/gpu_timeline.py", tmp_path, "-o", tmp_path / "f.svg")
    assert result.returncode == 1 and "rtfx profile" in result.stderr
