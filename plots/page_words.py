"""How the page shows words that differ: which cases say the same, and which words stand around."""

from itertools import groupby

CONTEXT = 4  # words kept on each side of a difference
LEAST_GAP = 3  # fewer words are shown rather than counted


def kind(baseline, here):
    """None for a match. Counted as a scorer does that takes the baseline for the reference."""
    if baseline == here:
        return None
    if baseline is None:
        return "insertion"
    return "deletion" if here is None else "substitution"


def shown_words(pairs):
    """[(kind, baseline's word, word here)]; ("gap", n, None) stands for n equal words."""
    pairs = [(kind(*pair), *pair) for pair in pairs]
    if not any(mark for mark, _, _ in pairs):
        return pairs
    edits = [i for i, (mark, _, _) in enumerate(pairs) if mark]
    kept = {j for i in edits for j in range(i - CONTEXT, i + CONTEXT + 1)}
    shown = []
    for is_kept, run in groupby(range(len(pairs)), key=kept.__contains__):
        run = [pairs[i] for i in run]
        shown += run if is_kept or len(run) < LEAST_GAP else [("gap", len(run), None)]
    return shown


def grouped(differences):
    """Entries of the facts' "differences", those of equal texts as one with all their cases."""
    groups = {}
    for entry in differences:
        model, dataset, *_ = entry["case"].split("/")
        content = {key: entry[key] for key in ("baseline", "texts", "first", "utterances")}
        key = (model, dataset, repr(content))
        group = groups.setdefault(key, {"model": model, "dataset": dataset, "cases": [], **content})
        group["cases"].append(("/".join(entry["case"].split("/")[2:]), entry["grade"]))
    for group in groups.values():
        pairs = [pair for utterance in group["utterances"] for pair in utterance["words"]]
        group["same_words"] = all(baseline == here for baseline, here in pairs)
        group["utterances"] = [
            utterance | {"words": shown_words(utterance["words"])}
            for utterance in group["utterances"]
        ]
    return list(groups.values())
