"""Draws word error rate and RTFx over the beam size, for each beam search with and without a language model."""

from journal import arm, by_batch, panels, rtfx_spread, wer_percent
from style import draw_lines, lines_over, log_scale, main, size_axis

MEASURES = {"word error rate (%)": wer_percent, "RTFx total (s of audio per s)": rtfx_spread}


def draw(cases, width):
    lines = lines_over(by_batch(panels(cases)), [("beam_size",)], arm)
    beams = [beam for group in lines.values() for points in group.values() for beam, _ in points]
    figure, axes = draw_lines(lines, MEASURES, "beam size", width)
    for row in axes:
        for cell in row:
            size_axis(cell, beams)
        log_scale(row[1], "y")
    return figure


if __name__ == "__main__":
    main(__doc__, draw)
