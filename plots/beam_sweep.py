"""Word error rate and RTFx over the beam size, for each beam search with and without LM."""

from journal import panels
from matplotlib.ticker import NullLocator
from options import arm, by_batch, option, rtfx, wer_percent
from style import main, number_log_scale
from sweep import draw_lines, lines_over

MEASURES = {"word error rate (%)": wer_percent, "RTFx total (s of audio per s)": rtfx}


def draw(cases, width):
    cases = [case for case in cases if option(case, "beam_size")]
    groups = {
        title: lines_over(group, ["beam_size"], arm)
        for title, group in by_batch(panels(cases)).items()
    }
    figure, axes = draw_lines(groups, MEASURES, "beam size", width)
    beams = sorted({option(case, "beam_size") for case in cases})
    for row in axes:
        for cell in row:
            cell.set_xscale("log", base=2)
            cell.set_xticks(beams, [f"{beam:g}" for beam in beams])
            cell.xaxis.set_minor_locator(NullLocator())
        row[1].set_yscale("log")
        number_log_scale(row[1].yaxis)
    return figure


if __name__ == "__main__":
    main(__doc__, draw)
