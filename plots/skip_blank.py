"""Draws word error rate, decode time and the share of skipped frames over the threshold of frame skipping."""

from blank_penalty import search
from journal import by_batch, option, panels, wer_percent
from style import draw_lines, lines_over, main


def threshold(case):
    """Returns the threshold; 1, at which no frame is skipped, for a search with the option that leaves it out."""
    options = case.last["decoder"]["options"]
    if "skip_blank" not in options:
        return None
    return 1 if options["skip_blank"] is None else options["skip_blank"]


def skipped(case):
    """Returns the percentage of frames that were dropped; 0 without the option."""
    counters = case.last["counters"]
    if option(case, "skip_blank") is None:
        return 0
    return 100 * counters["frames_skipped"] / counters["frames"] if counters["frames"] else None


MEASURES = {
    "word error rate (%)": wer_percent,
    "decode time (s)": lambda case: case.regions.get("decode"),
    "skipped frames (%)": skipped,
}


def draw(cases, width):
    lines = lines_over(by_batch(panels(cases)), [("skip_blank",)], search, threshold)
    return draw_lines(lines, MEASURES, "frames are skipped above p(blank)", width)[0]


if __name__ == "__main__":
    main(__doc__, draw)
