"""Word error rate and recall of the boosted words over the magnitude of the boost, for each list."""

from pathlib import Path

from journal import panels
from options import by_batch, option, percent, wer_percent
from style import main
from sweep import draw_lines, lines_over


def recall(case):
    """Of the boosted words; None where the references have none of them, or the journal no counts."""
    share = (case.last.get("boosted") or {}).get("recall")
    return None if share is None else 100 * share


def false_alarms(case):
    """Boosted words in the results where the reference lacks them, per 100 of its words."""
    boosted = case.last.get("boosted")
    return boosted and 100 * boosted["false_alarms"] / case.last["wer"]["reference_words"]


MEASURES = {
    "word error rate (%)": wer_percent,
    "recall of boosted words (%)": recall,
    "insertions (% of the words)": lambda case: percent(case, "insertions"),
    "false alarms (% of the words)": false_alarms,
}


MOST = 100  # percent shown


def words(case):
    """The decoder, its graph and its list: "ctc_wfst compact, beam 32: said_words"."""
    graph = Path(option(case, "graph") or "").stem
    return (
        f"{case.last['decoder']['name']} {graph}".rstrip()
        + f", beam {option(case, 'beam'):g}: {Path(option(case, 'boost', 'path')).stem}"
    )


def draw(cases, width):
    groups = {
        title: lines_over(group, ["boost", "scale"], words)
        for title, group in by_batch(panels(cases)).items()
    }
    figure, axes = draw_lines(groups, MEASURES, "boost (scaled cost)", width)
    for cell in axes.flat if figure else []:
        if cell.get_ylim()[1] > MOST:  # insertions without end, far from where boosting is of use
            cell.set_ylim(0, MOST)
    return figure


if __name__ == "__main__":
    main(__doc__, draw)
