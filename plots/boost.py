"""Word error rate over the magnitude of word boosts, for each list of words."""

from pathlib import Path

from journal import panels
from options import by_batch, option, percent, wer_percent
from style import main
from sweep import draw_lines, lines_over

MEASURES = {
    "word error rate (%)": wer_percent,
    "insertions (% of the words)": lambda case: percent(case, "insertions"),
}


def words(case):
    """The decoder and its list: "ctc_wfst, beam 32: said_words"."""
    return (
        f"{case.last['decoder']['name']}, beam {option(case, 'beam'):g}: "
        f"{Path(option(case, 'boost', 'path')).stem}"
    )


def draw(cases, width):
    groups = {
        title: lines_over(group, ["boost", "scale"], words)
        for title, group in by_batch(panels(cases)).items()
    }
    return draw_lines(groups, MEASURES, "boost of each word (scaled cost)", width)[0]


if __name__ == "__main__":
    main(__doc__, draw)
