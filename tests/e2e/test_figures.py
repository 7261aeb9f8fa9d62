"""Tests rules for every figure (ticks, error bars, legends and shapes), and the errors of the scripts."""

import errno
import itertools
import os
import re

import adversarial
import batch_speed
import beam_sweep
import decoder_share
import exactness
import pytest
import region_share
import rtfx_by_batch
import rtfx_by_decoder
import stream_latency
import synthetic_journal as synthetic
import trade_off
import wasted
from conftest import ROOT
from forked_script import script
from journal import read_journal
from matplotlib import pyplot
from matplotlib.collections import LineCollection
from script import write_text, write_whole
from style import NARROW, WIDE, in_lines, log_ticks, note_stand_ins, save, wrapped

FIGURES = [
    "adversarial", "batch_speed", "beam_sweep", "blank_penalty", "boost", "decoder_share", "exactness", "gpu_idle", "gpu_timeline", "lm_weight",
    "loop_timeline", "region_share", "rtfx_by_batch", "rtfx_by_decoder", "skip_blank", "stream_capacity", "stream_latency", "top_kernels",
    "trade_off", "wasted",
]  # fmt: skip
NO_PROGRAMS = {"change_points", "cells", "history", "intervals", "journal", "script", "style", "sustained", "timeline"}
TABLES = {"before_after", "boost_table", "calibration", "dashboard", "paper_page", "paper_table", "rival_table", "report"}


def test_every_script_is_looked_at():
    scripts = {path.stem for path in (ROOT / "plots").glob("*.py")}
    assert scripts == set(FIGURES) | NO_PROGRAMS | TABLES


def beams():
    """Yields records of a beam search with three beams and of a greedy decoder, for two rounds and one batch size."""
    for round in range(2):
        for beam in (2, 4, 8):
            record = synthetic.run(
                decoder=f"beam{beam}", decode_seconds=beam * (1 + 0.1 * round), round=round
            )
            record["decoder"] |= {"name": "alsd_pp", "options": {"beam_size": beam}}
            record["wer"] |= {"substitutions": 70 - beam}
            yield record
        yield synthetic.run(round=round, decode_seconds=0.2 * (1 + 0.1 * round))


def streams():
    for round in range(2):
        for count in (10, 100, 400):
            record = synthetic.run(decoder="ctc_wfst", batch=count, round=round)
            times = {"stream.total_ms": 9 + count / 40 + round, "stream.compute_ms": 8, "stream.queue_ms": 1}
            times |= {f"stream.total_ms.{part}": times["stream.total_ms"] for part in ("p50", "p99")}
            about = {key: synthetic.stream()[key] for key in ("kind", "stream", "streamed")}
            yield record | about | {"stable": count < 400, "metrics": times | {"stream.rtfx": 5}}


def batches():
    """Yields records of two decoders with two rounds of twelve batches each."""
    for round in range(2):
        for decoder, seconds in (("frame_looping", 2), ("label_looping", 0.5)):
            record = synthetic.run(decoder=decoder, batch=2, round=round, decode_seconds=seconds * (1 + 0.1 * round))
            yield synthetic.with_batches(record)


def counted():
    """Yields records of two searches that need the same rows at two batch sizes, and of one that does not count
    rows."""
    for batch, factor in ((4, 1.5), (16, 3)):
        for decoder, more in (("frame_looping", 2), ("label_looping", 1)):
            record = synthetic.run(decoder=decoder, batch=batch)
            rows = {"joint_rows": int(1000 * factor * more), "pred_rows": int(400 * factor * more)}
            record["counters"] |= rows | {"joint_rows_needed": 1000, "pred_rows_needed": 400}
            yield record
    yield synthetic.run(decoder="ctc_greedy")


def mixed():
    """Yields records of a decoder for three shares of utterances that make a batch five times as slow, and for a set
    without a share."""
    for batch in (1, 8, 32):
        for share in ("0", "0.05", "1"):
            seconds = adversarial.expected(float(share), batch, all_slow=5)
            record = synthetic.run(batch=batch, decode_seconds=seconds)
            record["dataset"] = record["dataset"] | {"id": f"long_p{share}"}
            record["case"] = record["case"].replace("quickstart/", f"long_p{share}/")
            yield record | {"result_key": record["case"]}
        yield synthetic.run(batch=batch)


DRAWN = {
    batch_speed: batches,
    beam_sweep: beams,
    trade_off: beams,
    rtfx_by_batch: synthetic.typical,
    rtfx_by_decoder: synthetic.typical,
    region_share: synthetic.typical,
    decoder_share: synthetic.typical,
    exactness: synthetic.typical,
    stream_latency: streams,
    wasted: counted,
    adversarial: mixed,
}


@pytest.fixture(params=[WIDE, NARROW], ids=["wide", "narrow"])
def drawn(request, tmp_path):
    def draw(module, records=None):
        records = [r for r in records or DRAWN[module]() if r["kind"] != "provenance"]
        journal = read_journal(synthetic.write(tmp_path, [synthetic.provenance(), *records]))
        figure = module.draw(journal.streams or journal.cases, request.param)
        figure.canvas.draw()
        return figure

    yield draw
    pyplot.close("all")


def ticks_of(axis):
    low, high = sorted(axis.get_view_interval())
    return [tick for tick in axis.get_majorticklocs() if low <= tick <= high]


def one_of_each(records):
    """Returns the records of the first decoder at the first batch size."""
    runs = [record for record in records if record["kind"] in ("run", "stream")]
    return [record for record in runs if record["case"] == runs[0]["case"]]


@pytest.mark.parametrize("module", DRAWN, ids=lambda module: module.__name__)
@pytest.mark.parametrize("some", [list, one_of_each], ids=["all", "one case"])
def test_no_logarithmic_axis_has_a_single_tick_or_bars(drawn, module, some):
    if some is one_of_each and module in (adversarial, beam_sweep, exactness):
        pytest.skip("shows nothing of a single case")
    figure = drawn(module, some(DRAWN[module]()))
    for cell in figure.axes:
        for axis in (cell.xaxis, cell.yaxis):
            if axis.get_scale() != "log":
                continue
            assert len(ticks_of(axis)) >= 2
            assert not cell.patches
            assert all("$" not in label.get_text() for label in axis.get_ticklabels())
        for bar in cell.patches:
            if hasattr(bar, "get_width"):
                assert cell.get_xlim()[0] == 0


@pytest.mark.parametrize("low, high", [(21, 48), (3, 3.4), (0.8, 1.3), (1, 1e6), (99, 101), (1e-4, 2)])
def test_logarithmic_ticks(low, high):
    ticks = log_ticks(low, high)
    assert 2 <= len(ticks) <= 9 and all(low <= tick <= high for tick in ticks)


def test_samples_of_a_set_have_its_share_and_lengths_stand_for_a_set_of_long_ones(drawn):
    """Without the set p1, the formula takes the ratio of the lengths (30 s over 5 s) as the slowdown."""
    records = []
    for share, length in ((0, 5), (0.25, 11.25)):
        record = synthetic.run(batch=8, decode_seconds=1 + share)
        record["dataset"] = record["dataset"] | {"id": f"long_p{share}_320", "utterances": 320, "audio_seconds": 320 * length}
        record["case"] = record["case"].replace("quickstart/", f"long_p{share}_320/")
        records.append(record | {"result_key": record["case"]})
    (cell,) = drawn(adversarial, records).axes
    dashed = [line for line in cell.lines if line.get_linestyle() == "--"]
    assert [line.get_ydata()[0] for line in dashed] == [pytest.approx(adversarial.expected(0.25, 8, 6))]


def test_the_formula_takes_the_share_that_a_set_has(drawn):
    """The formula takes the real share of a set: 4 of 320 utterances are long, 1.25 %, though its name says p0.01."""
    records = []
    for share, length in (("0", 5), ("0.01", 5 + 25 * 4 / 320), ("1", 30)):
        record = synthetic.run(batch=8, decode_seconds=6 if share == "1" else 1)
        record["dataset"] = record["dataset"] | {"id": f"long_p{share}_320", "utterances": 320, "audio_seconds": 320 * length}
        record["case"] = record["case"].replace("quickstart/", f"long_p{share}_320/")
        records.append(record | {"result_key": record["case"]})
    (cell,) = drawn(adversarial, records).axes
    (dashed,) = [line for line in cell.lines if line.get_linestyle() == "--"]
    assert dashed.get_ydata()[0] == pytest.approx(adversarial.expected(4 / 320, 8, 6))


def test_each_dtype_and_each_group_of_sets_has_its_own_panel(drawn):
    """In every panel, the set with p1 is as many times slower as its records say."""
    slowness = {("fp32", "long"): 2, ("bf16", "long"): 3, ("fp32", "noisy"): 4}
    records = []
    for (dtype, sets), slower in slowness.items():
        for share in (0, 0.25, 1):
            name = f"{sets}_p{share}_320"
            record = synthetic.run(batch=8, dtype=dtype, decode_seconds=slower if share else 1)
            seconds = 320 * (5 + 25 * share * (sets == "long"))
            record["dataset"] = record["dataset"] | {"id": name, "utterances": 320, "audio_seconds": seconds}
            record["case"] = record["case"].replace("quickstart/", f"{name}/")
            records.append(record | {"result_key": record["case"]})
    figure = drawn(adversarial, records)
    cells = {cell.get_title(loc="left").replace("\n", " "): cell for cell in figure.axes}
    assert list(cells) == [f"label_looping, quickstart-rnnt, {dtype}, {sets}" for dtype, sets in slowness]
    for cell, slower in zip(cells.values(), slowness.values()):
        solid = [line.get_ydata()[0] for line in cell.lines if line.get_marker() != "None"]
        assert solid == pytest.approx([slower, slower])
    # The utterances of "noisy" have equal lengths, which must not be mixed with those of "long".
    (dashed,) = [line for line in cells["label_looping, quickstart-rnnt, bf16, long"].lines if line.get_linestyle() == "--" and len(line.get_xdata()) == 1]
    assert dashed.get_ydata()[0] == pytest.approx(adversarial.expected(0.25, 8, 3))


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_the_same_figure_is_the_same_file(tmp_path, ending):
    journal = read_journal(synthetic.write(tmp_path, [synthetic.provenance(), *synthetic.typical()]))
    written = []
    for _ in range(2):
        save(decoder_share.draw(journal.cases, WIDE), tmp_path / f"f.{ending}")
        written.append((tmp_path / f"f.{ending}").read_bytes())
    assert written[0] == written[1]


@pytest.mark.parametrize("module", DRAWN, ids=lambda module: module.__name__)
def test_every_entry_of_a_legend_is_in_the_figure(drawn, module):
    records = list(DRAWN[module]())
    for record in records:  # detokenization takes no time
        if record["kind"] == "run":
            record["regions"]["detokenize"]["host_seconds"] = 0
    figure = drawn(module, records)
    for shown in figure.legends:
        labels = [text.get_text() for text in shown.get_texts()]
        assert labels and all(labels) and len(set(labels)) == len(labels)
        assert "detokenize" not in labels
    if module is trade_off:
        assert len(figure.legends[0].get_texts()) == 2


@pytest.mark.parametrize("module", [batch_speed, beam_sweep, trade_off, rtfx_by_batch, rtfx_by_decoder, stream_latency])
def test_rounds_have_error_bars(drawn, module):
    figure = drawn(module)
    bars = [c for cell in figure.axes for c in cell.collections if isinstance(c, LineCollection)]
    lengths = [abs(s[1] - s[0]).max() for bar in bars for s in bar.get_segments() if len(s) == 2]
    assert sum(length > 0 for length in lengths) >= 3


@pytest.mark.parametrize("module", [batch_speed, rtfx_by_batch, rtfx_by_decoder, trade_off, stream_latency])
def test_series_differ_in_shape_and_colour(drawn, module):
    figure = drawn(module)
    looks = set()
    for cell in figure.axes:
        for line in cell.get_lines():
            if line.get_marker() not in ("None", "", "x"):
                looks.add((str(line.get_color()), line.get_marker()))
    assert len({colour for colour, _ in looks}) == len({shape for _, shape in looks}) == len(looks)


@pytest.mark.parametrize("module", [region_share, exactness, wasted])
def test_parts_of_bars_differ_in_hatching(drawn, module):
    figure = drawn(module)
    looks = {(bar.get_facecolor(), bar.get_hatch()) for cell in figure.axes for bar in cell.patches}
    assert len(looks) > 1 and len({hatch for _, hatch in looks}) == len(looks)


def test_rows_in_vain(drawn):
    """The bars show the rows in vain: at batch 16, 2000 of 3000 rows, and five sixths for twice as many rows."""
    figure = drawn(wasted)
    joint, prediction = figure.axes
    names = ["frame_looping, b 4", "label_looping, b 4", "frame_looping, b 16", "label_looping, b 16"]
    assert [label.get_text() for label in joint.get_yticklabels()] == names
    is_narrow = figure.get_figwidth() == NARROW  # the panels stand below each other
    assert [label.get_text() for label in prediction.get_yticklabels()] == (names if is_narrow else [""] * 4)
    assert (joint.get_position().y0 > prediction.get_position().y1) == is_narrow
    for cell in (joint, prediction):
        assert [text.get_text() for text in cell.texts] == [f"{share} % in vain" for share in (67, 33, 83, 67)]
        needed, vain = cell.patches[0], cell.patches[1]
        assert (needed.get_width(), vain.get_x(), vain.get_width()) == (1, 1, 2)


def test_times_with_adversarial_utterances(drawn):
    """The curves follow the formula: at batch 8, a third of the batches holds one of the 5 % slow utterances."""
    figure = drawn(adversarial)
    (cell,) = figure.axes
    some, theory, every = (line.get_xydata().tolist() for line in cell.get_lines()[:3])
    assert [size for size, _ in some] == [1, 8, 32]
    for size, slower in some:
        assert slower == pytest.approx(1 + 4 * (1 - 0.95**size))
    assert [slower for _, slower in theory] == pytest.approx([slower for _, slower in some])
    assert [slower for _, slower in every] == pytest.approx([5, 5, 5])


def test_bars_of_sets_of_any_size_have_the_full_width(drawn):
    """The bars of a set of 6 utterances and of one of 24 share a panel, and both end at 100 %."""
    records = [synthetic.run(batch=16, grade="different", differing=6), synthetic.run(batch=1, grade="different", differing=2)]
    records[1]["exactness"]["grades"]["bitwise"] = 4
    (cell,) = drawn(exactness, records).axes
    ends = [bar.get_x() + bar.get_width() for bar in cell.patches]
    assert ends == [pytest.approx(end) for end in (75, 100, 200 / 3, 100)] and cell.get_xlim() == (0, 100)
    assert [text.get_text() for text in cell.texts] == ["24", "18", "6", "6", "4", "2"]


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("module", [batch_speed, trade_off, rtfx_by_batch], ids=lambda module: module.__name__)
def test_a_long_legend_takes_no_room_of_the_axes(module, width, tmp_path, recwarn):
    def heights(count):
        records = [synthetic.run(decoder=f"a_decoder_whose_name_is_long_{n}", batch=2, decode_seconds=1 + n) for n in range(count)]
        records = [synthetic.provenance(), *map(synthetic.with_batches, records)]
        figure = module.draw(read_journal(synthetic.write(tmp_path / str(count), records)).cases, width)
        figure.canvas.draw()
        return [cell.get_window_extent().height for cell in figure.axes]

    assert heights(16) == pytest.approx(heights(2), rel=0.1)
    assert not [str(warning.message) for warning in recwarn if "layout" in str(warning.message)]


def test_panels_of_a_narrow_figure_of_lines_stand_below_each_other(drawn):
    figure = drawn(batch_speed)
    edges = {round(cell.get_window_extent().x1) for cell in figure.axes}
    assert len(edges) == (1 if figure.get_figwidth() == NARROW else 2)


def complaint(name, *arguments, stdin=""):
    """Returns the line of error with which a script in plots/ ends."""
    result = script(f"plots/{name}.py", *arguments, stdin=stdin)
    assert result.returncode > 0 and result.stderr.count("\n") == 1, result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr


RUN_FILES = {"gpu_idle": "profile.jsonl", "gpu_timeline": "trace.json", "loop_timeline": "trace.json",
             "top_kernels": "profile.jsonl"}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_scripts_complain_in_one_line(name, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    assert str(run) in complaint(name, run, "-o", tmp_path / "f.svg")
    file = run / RUN_FILES.get(name, "journal.jsonl")
    file.write_text("")
    complaint(name, run, "-o", tmp_path / "f.svg")
    file.write_text('{"a": 1}\n')
    complaint(name, run, "-o", tmp_path / "f.svg")
    file.write_bytes(b"\xff\xfe\x00garbage\n\n")
    complaint(name, run, "-o", tmp_path / "f.svg")
    assert "file.svg or file.pdf or file.png" in complaint(name, run, "-o", tmp_path / "f.xyz")
    complaint(name, run, "-o", tmp_path / "f.svg", "--width", 0)
    assert not list(tmp_path.glob("f.*"))


def test_a_figure_for_a_folder_that_is_not_there(tmp_path):
    run = synthetic.write(tmp_path, synthetic.typical()).parent
    place = tmp_path / "gone/f.svg"
    assert f"{place}: No such file" in complaint("rtfx_by_decoder", run, "-o", place)


def test_pages_tables_and_figures_are_written_whole_or_not_at_all(tmp_path):
    def fill_the_disk(part, **_):
        part.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    class Figure:
        savefig = staticmethod(fill_the_disk)

    path = tmp_path / "one.svg"
    path.write_text("whole")
    with pytest.raises(OSError, match="No space left") as error:
        write_whole(path, fill_the_disk)
    assert error.value.filename == str(path)
    with pytest.raises(SystemExit, match=f"^{path}: No space left on device$"):
        save(Figure, path)
    assert path.read_text() == "whole" and list(tmp_path.iterdir()) == [path]
    (tmp_path / "link.svg").symlink_to(path)
    write_text(tmp_path / "link.svg", "ä")
    assert path.read_text(encoding="utf-8") == "ä" and (tmp_path / "link.svg").is_symlink()
    with pytest.raises(OSError, match="is no file"):
        write_text(tmp_path, "")
    for source in (ROOT / "plots").glob("*.py"):
        if source.name != "script.py":
            assert not re.search(r"(?<!script)\.write_text\(|savefig\((?!part|buffer)", source.read_text()), source


def test_tables_complain_in_one_line(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    table, rival = ROOT / "configs/tables/label_looping_table1.json", tmp_path / "rival.jsonl"
    rival.write_text("")
    calls = {"before_after": [run] * 4, "paper_table": [table, run], "report": [run],
             "rival_table": [run, "--rival", rival]}  # fmt: skip
    for name, arguments in calls.items():
        complaint(name, *arguments, "-o", tmp_path / "f.xyz")
        complaint(name, *arguments, stdin="{}")
    synthetic.write(run, [])
    for name, arguments in calls.items():
        complaint(name, *arguments, stdin="{}")




LONG = "stt_en_fastconformer_transducer_large"


def of_two_models(width, speeds):
    """Returns the records of a model with a long name and of another one. `speeds` holds the seconds of two decoders
    for each model."""
    records = [synthetic.provenance()]
    for model, pair in zip((f"{LONG}-rnnt", "small-rnnt"), speeds):
        for batch in (2, 16):
            for decoder, seconds in zip(("frame_looping", "label_looping"), pair):
                record = synthetic.run(model=model, batch=batch, decoder=decoder, decode_seconds=seconds)
                record["model"]["stand_in"] = "tiny.nemo, widened to the shape of the published checkpoint " * 3
                records.append(synthetic.with_batches(record))
    return records


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_titles_and_footnotes_are_not_cut(tmp_path, width):
    cases = read_journal(synthetic.write(tmp_path, of_two_models(width, [(2.0, 0.1)] * 2)).parent).cases
    figure = trade_off.draw(cases, width)
    note_stand_ins(figure, cases)
    figure.draw_without_rendering()
    texts = [cell.title for cell in figure.axes if cell.get_title()] + [cell._left_title for cell in figure.axes]
    for text in [*texts, figure._supxlabel]:
        box = text.get_window_extent()
        assert box.x0 >= -1 and box.x1 <= figure.bbox.width + 1, text.get_text()
    titles = " ".join(text.get_text().replace("\n", " ") for text in texts)
    assert titles.count(LONG) == 2 and "published checkpoint" in figure.get_supxlabel()


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("module", [exactness, region_share, rtfx_by_decoder, wasted], ids=lambda module: module.__name__)
def test_titles_and_labels_beside_names_of_rows_are_not_cut(module, width, tmp_path):
    records = of_two_models(width, [(2.0, 0.1)] * 2)
    for record in records[1:]:
        record["decoder"]["id"] += "_cached"
        record["case"] = record["case"].replace("_looping", "_looping_cached")
        record["counters"] |= {f"{net}_rows{part}": 40 for net in ("joint", "pred") for part in ("", "_needed")}
    figure = module.draw(read_journal(synthetic.write(tmp_path, records)).cases, width)
    figure.draw_without_rendering()
    titles = [cell._left_title for cell in figure.axes]
    assert f"{LONG}-rnnt" in " ".join(title.get_text().replace("_\n", "_") for title in titles)
    labels = [cell.xaxis.label for cell in figure.axes if cell.get_xlabel()]
    boxes = [text.get_window_extent() for text in (*titles, *labels)]
    assert all(box.x0 >= -1 and box.x1 <= figure.bbox.width + 1 for box in boxes)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes[len(titles) :], 2))


def test_titles_break_between_words_first():
    assert wrapped("ctc_beam, phrases_100", 18) == ["ctc_beam,", "phrases_100"]
    assert wrapped("a_model_of_many_words on a set", 12) == ["a_model_of_", "many_words", "on a set"]
    assert wrapped(25 * "x", 10) == [10 * "x", 10 * "x", 5 * "x"]


def test_long_names_have_in_lines():
    assert in_lines("label_looping[window=16]") == "label_looping[window=16]"
    assert in_lines("alsd_pp[beam_size=16][lm.alpha=0.25][kernels=fused]") == "alsd_pp[beam_size=16]\n[lm.alpha=0.25][kernels=fused]"
    assert in_lines("a_decoder_whose_name_is_very_long_indeed") == "a_decoder_whose_name_is_very_long_indeed"
    assert in_lines("a_decoder_whose_name_is_longer_than_any_line") == "a_decoder_whose_name_\nis_longer_than_any_line"
    assert max(map(len, in_lines(100 * "x" + "[beam_size=16]").split("\n"))) <= 40


@pytest.mark.parametrize("module", [trade_off, rtfx_by_decoder, exactness, region_share], ids=lambda module: module.__name__)
def test_an_endless_name_leaves_room_for_the_figure(module, tmp_path):
    records = [record for record in synthetic.typical() if record["kind"] == "run"]
    for record in records:
        if record["decoder"]["id"] == "label_looping":
            record["decoder"]["id"] = 5 * "a_name_that_goes_on_"
            record["case"] = record["case"].replace("label_looping", record["decoder"]["id"])
    journal = read_journal(synthetic.write(tmp_path, [synthetic.provenance(), *records]))
    figure = module.draw(journal.cases, NARROW)
    figure.draw_without_rendering()
    assert all(cell.get_window_extent().width > 0.2 * figure.bbox.width for cell in figure.axes)
    texts = [*(label for cell in figure.axes for label in cell.get_yticklabels()), *(t for shown in figure.legends for t in shown.get_texts())]
    assert all(-1 <= text.get_window_extent().x0 and text.get_window_extent().x1 <= figure.bbox.width + 1 for text in texts)


@pytest.mark.parametrize("draw", [rtfx_by_decoder.draw, batch_speed.draw])
@pytest.mark.parametrize("speeds, scale", [([(2.0, 0.01), (2.0, 1.5)], "log"), ([(2.0, 1.0), (2.0, 1.5)], "linear")])
def test_the_axes_of_a_figure_are_of_one_kind(tmp_path, draw, speeds, scale):
    cases = read_journal(synthetic.write(tmp_path, of_two_models(WIDE, speeds)).parent).cases
    axis = "x" if draw is rtfx_by_decoder.draw else "y"
    cells = draw(cases, WIDE).axes
    assert len(cells) > 3 and {getattr(cell, f"get_{axis}scale")() for cell in cells} == {scale}
