"""What figures read from a case beside its times: options of the decoder, and edit counts."""


def option(case, *keys):
    """The value of a nested option; None where the decoder has none."""
    value = case.last["decoder"]["options"]
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def arm(case):
    """A decoder's name with what else sets it apart: alsd_pp, CUDA graph, LM."""
    # Journals of the release before say graphs: conditional.
    loop = option(case, "loop") or option(case, "graphs")
    loops = {"graph": "CUDA graph", "conditional": "CUDA graph", "replay": "replayed graphs"}
    parts = [case.last["decoder"]["name"], loops.get(loop)]
    if option(case, "lm"):
        parts.append("LM")
    return ", ".join(filter(None, parts))


def percent(case, *counts):
    """Sum of edit counts per 100 words of the reference; None without such words."""
    wer = case.last.get("wer")
    if not wer or not wer["reference_words"]:
        return None
    return 100 * sum(wer[c] for c in counts) / wer["reference_words"]


def wer_percent(case):
    return percent(case, "substitutions", "insertions", "deletions")


def rtfx(case):
    return case.metric("rtfx.total")[0]


def rtfx_spread(case):
    """Mean and standard deviation over rounds."""
    return case.metric("rtfx.total")


def by_batch(groups):
    """panels() with the batch size in the title too."""
    return {
        f"{title}, batch {batch}": [case for case in group if case.batch == batch]
        for title, group in groups.items()
        for batch in dict.fromkeys(case.batch for case in group)
    }
