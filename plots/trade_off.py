"""Draws word error rate against RTFx, which shows the cost of accuracy.

The line joins the Pareto front: the decoders that no other one beats in both."""

from collections import Counter

from journal import arm, by_batch, option, panels, rtfx, rtfx_spread, wer_percent
from matplotlib.lines import Line2D
from style import GREY, LOOKS, NARROW, entry_width, legend, log_scale, main, name_panel, new_figure, pareto_front, series_style


def names_of(groups):
    """Returns a function name(case) that names the line of a case.

    The name is the decoder's form, or its id where several cases of a panel have one form and beam size. With more
    names than there are styles of lines, it is always the form."""
    counts = (Counter((arm(case), option(case, "beam_size")) for case in group) for group in groups.values())
    shared = {form for count in counts for (form, _), number in count.items() if number > 1}

    def name(case):
        return case.decoder if arm(case) in shared else arm(case)

    return name if len({name(case) for group in groups.values() for case in group}) <= LOOKS else arm


def draw(cases, width):
    cases = [c for c in cases if c.has_words and c.rounds and wer_percent(c) is not None]
    if not cases:
        return None
    groups = by_batch(panels(cases))
    name = names_of(groups)
    names = list(dict.fromkeys(map(name, cases)))
    styles = {text: series_style(i) for i, text in enumerate(names)}
    columns = 2 if width > NARROW and len(groups) > 1 else 1
    rows = -(-len(groups) // columns)
    figure, axes = new_figure(rows, columns, width, [2.4 / columns**0.4] * rows)
    for cell in axes.flat[len(groups) :]:
        cell.set_axis_off()
    for cell, (title, group) in zip(axes.flat, groups.items()):
        points = [(rtfx(case), wer_percent(case), case) for case in group if rtfx(case)]
        edge = pareto_front(points, lambda point: (-point[0], -point[1]))  # the fastest first
        cell.plot([p[0] for p in edge], [p[1] for p in edge], color=GREY, linewidth=1, zorder=1)
        for x, y, case in points:
            deviation = rtfx_spread(case)[1] or 0.0
            cell.errorbar(x, y, xerr=[[min(deviation, 0.9 * x)], [deviation]], linestyle="",
                          markersize=5.5, elinewidth=0.8, zorder=2, **styles[name(case)])  # fmt: skip
            if option(case, "beam_size") and len(points) < 40:
                cell.annotate(f"{option(case, 'beam_size'):g}", (x, y), xytext=(4, 3),
                              textcoords="offset points", fontsize=7)  # fmt: skip
        log_scale(cell, "x")
        cell.set_ylabel("word error rate (%)")
        cell.grid(axis="y")
        name_panel(cell, title, width / columns)
    beams = any(option(case, "beam_size") for case in cases)
    numbers = "; numbers: beam size" if beams else ""
    figure.supxlabel(f"RTFx total (s of audio per s){numbers}", fontsize=9)
    handles = [Line2D([], [], linestyle="", markersize=5, **styles[text]) for text in names]
    legend(figure, handles, names, width, entry_width(names))
    return figure


if __name__ == "__main__":
    main(__doc__, draw)
