"""Draws word error rate and recall of the boosted words over the strength of the boost, for each list of words.

Where another program boosts too (configs/rivals/boosting.json), the figure shows F-score and decoding time of both,
search by search.
"""

from pathlib import Path
from statistics import mean, stdev

from journal import by_batch, option, panels, percent, wer_percent
from rival_table import decode_seconds, is_rival
from style import draw_lines, lines_over, main


def is_nemo(case):
    """Returns whether a decoder of rivals/nemo made the case, as it tells by its class and its versions.

    The options of any other decoder in Python are its own, and may have a `boost` of another meaning."""
    return is_rival(case) and option(case, "class") in SEARCHES and option(case, "versions", "nemo") is not None


def boosted_percent(case, share):
    """Returns a share of the boosted words in percent; None where the references have none or the journal lacks counts."""
    found = (case.last.get("boosted") or {}).get(share)
    return None if found is None else 100 * found


def f_score(case):
    return boosted_percent(case, "f_score")


def false_alarms(case):
    """Returns how many boosted words the results have and the references lack, per 100 reference words."""
    alarms = (case.last.get("boosted") or {}).get("false_alarms")
    words = (case.last.get("wer") or {}).get("reference_words")
    return None if alarms is None or not words else 100 * alarms / words


MEASURES = {
    "word error rate (%)": wer_percent,
    "recall of boosted words (%)": lambda case: boosted_percent(case, "recall"),
    "insertions (% of the words)": lambda case: percent(case, "insertions"),
    "false alarms (% of the words)": false_alarms,
}


MOST = 100  # percent shown
SCALE = ("boost", "scale")


def phrases(case):
    """Returns the name of the list of phrases; None where nothing is boosted."""
    if is_rival(case):
        path = option(case, "options", "boost") if is_nemo(case) else None
        path = path if isinstance(path, str) else None
    else:
        path = option(case, "boost") and (option(case, "boost", "path") or "phrases")
    return path and Path(path).stem


def magnitude(case):
    """Returns the factor of all scores of the phrases; None where nothing is boosted."""
    if not is_rival(case):
        return option(case, *SCALE)
    return option(case, "options", "boost_alpha") if phrases(case) else None


def line_name(case):
    """Returns the decoder, its graph and its list, such as "ctc_wfst compact, beam 32: said_words"."""
    if option(case, "beam") is None:
        return f"{case.decoder.partition('[')[0]}: {phrases(case)}"
    graph = Path(option(case, "graph") or "").stem
    return (
        f"{case.last['decoder']['name']} {graph}".rstrip()
        + f", beam {option(case, 'beam'):g}: {phrases(case)}"
    )


# Each class of rivals/nemo/nemo_decoders.py is compared with this search of rtfx.
SEARCHES = {
    "Greedy": "label_looping",
    "Beam": "alsd_pp",
    "CtcGreedy": "ctc_greedy",
    "CtcBeam": "ctc_beam",
}


def search(case):
    return SEARCHES[option(case, "class")] if is_nemo(case) else case.last["decoder"]["name"]


def by_rules_of_nemo(case):
    """Returns whether the phrase tree scores as NeMo's does. Older journals call the option "rules"."""
    return "nemo" in (option(case, "boost", "compatibility"), option(case, "boost", "rules"))


def package(case):
    """Returns "rtfx" or "nemo 3.0.0" with the options that distinguish it from others of the same search."""
    if not is_nemo(case):
        parts = ["rtfx", by_rules_of_nemo(case) and "rules nemo"]
        parts.append(option(case, "merge") == "max" and "merge max")
    else:
        parts = [f"nemo {option(case, 'versions', 'nemo')}"]
        weighted = option(case, "options", "blank_lm_score_mode") == "lm_weighted_full"
        parts.append(weighted and "blank weighted")
    return ", ".join(filter(None, parts))


def seconds(case):
    """Returns mean and standard deviation of the seconds of decoding a pass, over all rounds."""
    rounds = decode_seconds(case)
    return mean(rounds), stdev(rounds) if len(rounds) > 1 else 0.0


BESIDE = {"F-score (%)": f_score, "decoding (s)": seconds}
LEAST_POINTS = 3  # a list with fewer points is not shown


def dashed(name):
    """Draws the other program's lines dashed, so that lines below them stay visible."""
    return {} if name.startswith("rtfx") else {"linestyle": "--"}


def draw_beside(cases, width):
    groups = {}
    for title, group in by_batch(panels(cases)).items():
        for key in dict.fromkeys((search(case), phrases(case)) for case in group):
            some = [case for case in group if (search(case), phrases(case)) == key]
            if any(is_nemo(case) for case in some):
                groups[f"{title}: {key[0]}, {key[1]}"] = some
    lines = lines_over(groups, [SCALE, ("options", "boost_alpha")], package, magnitude)
    lines = {
        title: group for title, group in lines.items() if max(map(len, group.values()), default=0) >= LEAST_POINTS
    }
    figure, axes = draw_lines(lines, BESIDE, "boost (factor of all scores)", width, 1.25, dashed)
    for score, time in axes:
        score.set_ylim(top=MOST)
        time.set_ylim(bottom=0)
    return figure


def draw(cases, width):
    if any(is_nemo(case) and phrases(case) for case in cases):
        return draw_beside(cases, width)
    lines = lines_over(by_batch(panels(cases)), [SCALE], line_name)
    figure, axes = draw_lines(lines, MEASURES, "boost (scaled cost)", width)
    for cell in axes.flat if figure else []:
        if cell.get_ylim()[1] > MOST:  # a boost far beyond the useful range inserts words without end
            cell.set_ylim(0, MOST)
    return figure


if __name__ == "__main__":
    main(__doc__, draw)
