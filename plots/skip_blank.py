"""Draws word error rate, decode time and the share of skipped frames over the threshold of frame skipping."""

from blank_penalty import search
from journal import by_batch, option, options_of, panels, wer_percent
from style import draw_lines, lines_over, main


def threshold(case):
    """Returns the threshold; 1, at which no frame is skipped, for a search with the option that leaves it out."""
    options = options_of(case)
    if "skip_blank" not in options:
        return None
    return 1 if options["skip_blank"] is None else options["skip_blank"]


def skipped(case):
    """Returns the percentage of frames that were dropped; 0 without the option, and None without counts."""
    if option(case, "skip_blank") is None:
        return 0
    counters = case.last.get("counters") or {}
    frames, dropped = counters.get("frames"), counters.get("frames_skipped")
    return 100 * dropped / frames if frames and dropped is not None else None


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
