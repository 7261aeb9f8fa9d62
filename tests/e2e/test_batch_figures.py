"""Tests the lines and wedges of three figures: speed over batch sizes, speed of single batches, shares of the
decoder."""

import batch_speed
import decoder_share
import pytest
import rtfx_by_batch
import synthetic_journal as synthetic
from forked_script import script
from journal import panels, read_journal
from test_report import page_of


def test_rtfx_by_batch(tmp_path):
    """The line of frame_looping shows 120 s of audio over its decode time, 2 s / batch^0.6."""
    cases = read_journal(synthetic.write(tmp_path, synthetic.typical()).parent).cases
    figure = rtfx_by_batch.draw(cases, 8.6)
    _, decode = figure.axes[:2]  # the axes of the first model
    sizes, rates = decode.get_lines()[0].get_data()
    assert list(sizes) == [1, 4, 16]
    assert list(rates) == pytest.approx([60 * size**0.6 for size in sizes], rel=0.01)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["frame_looping", "label_looping", "window", "min_duration"]


def test_smaller_sets_of_small_batches_share_the_line(tmp_path):
    """A set that is measured at batch 1 alone joins the line of the other batches. A set that shares a batch size with
    another set gets a panel of its own."""

    def panels_of(*batches):
        records = [synthetic.run(batch=batch) for batch in (4, 16)]
        for batch in batches:
            small = synthetic.run(batch=batch)
            small["dataset"] = small["dataset"] | {"id": "small"}
            records.append(small | {"result_key": f"small {batch}", "case": small["case"].replace("/quickstart/", "/small/")})
        cases = read_journal(synthetic.write(tmp_path, [synthetic.provenance(), *records])).cases
        return {title: sorted(int(case.batch) for case in group) for title, group in panels(cases).items()}

    assert panels_of(1) == {"quickstart-rnnt": [1, 4, 16]}
    assert panels_of(1, 4) == {"quickstart-rnnt, quickstart": [4, 16], "quickstart-rnnt, small": [1, 4]}


def batched(*seconds, batch=2, **fields):
    """Yields one record for each round, whose decode time is given in seconds."""
    for round, decode in enumerate(seconds):
        yield synthetic.with_batches(synthetic.run(round=round, batch=batch, decode_seconds=decode, **fields))


def cases_of(folder, records):
    return read_journal(synthetic.write(folder, [synthetic.provenance(), *records])).cases


def test_the_speed_of_each_batch(tmp_path):
    """120 s of audio are twelve batches of two, and the batch of the longest utterances takes twice its share of
    time."""
    cases = cases_of(tmp_path, batched(0.5, 0.4, 0.8))
    figure = batch_speed.draw(cases, 8.6)
    total, decode = (cell.get_lines()[0].get_data() for cell in figure.axes)
    assert list(total[0]) == pytest.approx([60 * 2 * (i + 1) / 156 for i in range(12)])
    assert list(decode[1]) == pytest.approx([240] * 11 + [120])  # the median of 300, 240 and 150
    assert list(total[1]) == pytest.approx([120 / 2.213] * 11 + [60 / 2.213])
    assert figure.axes[0].get_ylim()[0] == 0
    assert batch_speed.slowest_share(cases[0]) == pytest.approx(0.5)


def test_the_last_batch_may_have_fewer_utterances(tmp_path):
    (record,) = batched(0.5)
    record["dataset"]["utterances"] = 23  # eleven batches of two and one of one, 120 s * 2 / 78 or more each
    (case,) = cases_of(tmp_path, [record])
    lengths = [length for length, _ in batch_speed.points(case)]
    assert lengths == pytest.approx([120 / 78, *(60 * (i + 1) / 78 for i in range(1, 12))])


def test_many_batches_are_joined_with_those_of_neighbouring_lengths(tmp_path):
    (case,) = cases_of(tmp_path, batched(0.5, batch=1))
    (first, *_, last) = batch_speed.points(case, most=8)
    assert len(batch_speed.points(case)) == 24 and len(batch_speed.points(case, most=8)) == 8
    assert first[0] == pytest.approx(120 * (1 + 2 + 3) / 3 / 300)
    assert last[1]["decode"][0] == pytest.approx(240 * (22 + 23 + 24) / (22 + 23 + 2 * 24))
    assert batch_speed.slowest_share(case) == pytest.approx(0.5)  # the share is still that of single batches


def of_seconds(record):
    return record | {"batch": {"by": "seconds", "size": 2}}


def overlapped(record):
    return record | {"pipeline": {"in_flight": 6, "audio": "memory"}}


def with_one_missing(record):
    return record | {"batches": {key: values[1:] for key, values in record["batches"].items()}}


def of_an_earlier_release(record):
    return {key: value for key, value in record.items() if key != "batches"}


@pytest.mark.parametrize("change", [of_seconds, overlapped, with_one_missing, of_an_earlier_release])
def test_batches_of_no_known_speed_are_left_out(tmp_path, change):
    (record,) = batched(0.5)
    folder = tmp_path / "run"
    synthetic.write(folder, [synthetic.provenance(), change(record)])
    result = script("plots/batch_speed.py", folder, "-o", tmp_path / "f.svg")
    assert result.returncode != 0 and "no record that this figure shows" in result.stderr


def test_the_page_shows_more_than_a_handful_of_batches(tmp_path):
    text, page = page_of(tmp_path / "many", [synthetic.provenance(), *batched(0.5, 0.5)])
    assert "Which batches are slow?" in page.texts["h2"] and "batches" in page.ids
    assert "Slowest / best batch, %" in page.texts["th"] and "50.0" in page.texts["td"]
    text, page = page_of(tmp_path / "few", [synthetic.provenance(), *batched(0.5, 0.5, batch=8)])
    assert "Which batches" not in text and "Slowest" not in text


def test_shares_of_the_decoder(tmp_path):
    """The wedges show 1.5 s of encoder, 0.5 s of decoder and 0.213 s of the rest."""
    records = [synthetic.provenance(), synthetic.run(), synthetic.run(decoder="other")]
    cases = read_journal(synthetic.write(tmp_path, records).parent).cases
    first = decoder_share.draw(cases, 8.6).axes[0]
    shares = [(wedge.theta2 - wedge.theta1) / 360 for wedge in first.patches]
    assert sorted(abs(share) for share in shares) == pytest.approx(
        [0.213 / 2.213, 0.5 / 2.213, 1.5 / 2.213], rel=1e-4
    )
    assert "2.21 s" in [text.get_text() for text in first.texts]


@pytest.mark.parametrize("name", ["batch_speed", "rtfx_by_batch", "decoder_share"])
def test_scripts_write_figures(name, tmp_path):
    run = synthetic.write(tmp_path / "run", [*synthetic.typical(), *batched(0.5)]).parent
    for kind in ("svg", "pdf"):
        assert script(f"plots/{name}.py", run, "-o", tmp_path / f"f.{kind}").returncode == 0
        assert (tmp_path / f"f.{kind}").stat().st_size > 1000
