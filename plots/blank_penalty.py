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


def swept(cases, over=("blank_penalty",)):
    """Returns the lines of searches with several values of an option, which every decoder may have."""
    lines = lines_over(cases, over, search)
    return {name: points for name, points in lines.items() if len({x for x, _ in points}) > 1}


def draw(cases, width):
    groups = {title: swept(group) for title, group in by_batch(panels(cases)).items()}
    return draw_lines(groups, MEASURES, "blank penalty", width)[0]


if __name__ == "__main__":
    main(__doc__, draw)
