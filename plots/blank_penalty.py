"""Draws word error rate, deletions and insertions over the blank penalty, for each search."""

from journal import arm, by_batch, option, panels, percent, wer_percent
from style import draw_lines, lines_over, main

MEASURES = {
    "word error rate (%)": wer_percent,
    "deletions (% of the words)": lambda case: percent(case, "deletions"),
    "insertions (% of the words)": lambda case: percent(case, "insertions"),
}


def search(case):
    """Returns the name of a search, such as "alsd_pp, beam 4"."""
    beam = option(case, "beam_size")
    return f"{arm(case)}, beam {beam:g}" if beam else arm(case)


def draw(cases, width):
    lines = lines_over(by_batch(panels(cases)), [("blank_penalty",)], search)
    return draw_lines(lines, MEASURES, "blank penalty", width)[0]


if __name__ == "__main__":
    main(__doc__, draw)
