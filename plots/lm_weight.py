"""Draws word error rate and deletions over the weight of the language model, for each way of fusion."""

from journal import arm, by_batch, option, panels, percent, wer_percent
from style import draw_lines, lines_over, main

MEASURES = {
    "word error rate (%)": wer_percent,
    "deletions (% of the words)": lambda case: percent(case, "deletions"),
}
BLANK = {"lm_weighted_full": "blank rescaled", "no_score": "blank not scored"}


def fusion(case):
    """Returns how tokens and blank are fused, such as "alsd_pp, beam 6: late, blank rescaled"."""
    name = arm(case).removesuffix(", LM")
    if option(case, "beam_size"):
        name += f", beam {option(case, 'beam_size'):g}"
    ways = [option(case, "lm", "pruning"), BLANK.get(option(case, "lm", "blank_scoring"))]
    ways = ", ".join(filter(None, ways))
    return f"{name}: {ways}" if ways else name


def draw(cases, width):
    lines = lines_over(by_batch(panels(cases)), [("lm", "alpha")], fusion)
    return draw_lines(lines, MEASURES, "weight of the language model, alpha", width)[0]


if __name__ == "__main__":
    main(__doc__, draw)
