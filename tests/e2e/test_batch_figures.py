"""Figures over batch sizes and of shares: the lines and wedges that a journal holds."""

import decoder_share
import pytest
import rtfx_by_batch
import synthetic_journal as synthetic
from forked_script import script
from journal import read_journal


def test_rtfx_by_batch(tmp_path):
    """frame_looping takes 2 s / batch^0.6 where 120 s of audio are decoded."""
    cases = read_journal(synthetic.write(tmp_path, synthetic.typical()).parent).cases
    figure = rtfx_by_batch.draw(cases, 8.6)
    _, decode = figure.axes[:2]  # of the first model
    sizes, rates = decode.get_lines()[0].get_data()
    assert list(sizes) == [1, 4, 16]
    assert list(rates) == pytest.approx([60 * size**0.6 for size in sizes], rel=0.01)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["frame_looping", "label_looping", "window", "min_duration"]


def test_shares_of_the_decoder(tmp_path):
    """1.5 s of encoder, 0.5 s of decoder, 0.213 s of the rest."""
    records = [synthetic.provenance(), synthetic.run(), synthetic.run(decoder="other")]
    cases = read_journal(synthetic.write(tmp_path, records).parent).cases
    first = decoder_share.draw(cases, 8.6).axes[0]
    shares = [(wedge.theta2 - wedge.theta1) / 360 for wedge in first.patches]
    assert sorted(abs(share) for share in shares) == pytest.approx(
        [0.213 / 2.213, 0.5 / 2.213, 1.5 / 2.213], rel=1e-4
    )
    assert "2.21 s" in [text.get_text() for text in first.texts]


@pytest.mark.parametrize("name", ["rtfx_by_batch", "decoder_share"])
def test_scripts_write_figures(name, tmp_path):
    run = synthetic.write(tmp_path / "run", synthetic.typical()).parent
    for kind in ("svg", "pdf"):
        assert script(f"plots/{name}.py", run, "-o", tmp_path / f"f.{kind}").returncode == 0
        assert (tmp_path / f"f.{kind}").stat().st_size > 1000
