"""Draws word error rate and RTFx over the beam size, for each beam search with and without a language model."""

from journal import arm, by_batch, option, panels, rtfx_spread, wer_percent
from style import draw_lines, lines_over, log_scale, main, size_axis

MEASURES = {"word error rate (%)": wer_percent, "RTFx total (s of audio per s)": rtfx_spread}


def draw(cases, width):
    cases = [case for case in cases if option(case, "beam_size")]
    groups = {
        title: lines_over(group, ["beam_size"], arm)
        for title, group in by_batch(panels(cases)).items()
    }
    figure, axes = draw_lines(groups, MEASURES, "beam size", width)
    for row in axes:
        for cell in row:
            size_axis(cell, [option(case, "beam_size") for case in cases])
        log_scale(row[1], "y")
    return figure


if __name__ == "__main__":
    main(__doc__, draw)
