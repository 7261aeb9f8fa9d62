"""Draws the rows of evaluations that a batched search needed, and those that it computed in vain, per needed row.

It shows cases whose decoder counted both (option count_rows). Figure 2 of Label-Looping shows the same for a batch of two."""

from journal import panels
from style import BAR, HATCHED, INK, NARROW, ORANGE, SKY, legend, main, name_panel, name_rows, new_figure

NETWORKS = {"joint network": "joint", "prediction network": "pred"}
PARTS = {"needed": (SKY, ""), "in vain": (ORANGE, "////")}


def rows_of(case, network):
    """Returns (rows that were needed, rows in vain), or None for a case that did not count them."""
    counters = case.last.get("counters") or {}
    needed = counters.get(f"{network}_rows_needed")
    return None if needed is None else (needed, counters[f"{network}_rows"] - needed)


def draw(cases, width):
    cases = [case for case in cases if case.rounds and rows_of(case, "joint")]
    if not cases:
        return None
    groups = panels(cases)
    heights = [BAR * len(group) + 0.2 for group in groups.values()]
    stacked = width <= NARROW
    if stacked:
        heights = [height for height in heights for _ in NETWORKS]
    figure, axes = new_figure(len(heights), 1 if stacked else len(NETWORKS), width, heights)
    handles = {}
    for row, (title, group) in zip(axes.reshape(len(groups), -1), groups.items()):
        for cell, (name, network) in zip(row, NETWORKS.items()):
            draw_panel(cell, group, network, handles)
            first = cell is row[0]
            left = name_rows(cell, [f"{case.decoder}, b {case.batch}" if first or stacked else "" for case in group])
            name_panel(cell, f"{title}\n{name}" if first else name, width, left)
    for cell in axes[-1]:
        cell.set_xlabel("rows computed for each needed one")
    legend(figure, list(handles.values()), list(handles), width)
    return figure


def draw_panel(cell, group, network, handles):
    for row, case in enumerate(group):
        counts = rows_of(case, network)
        needed = counts[0] or 1
        left = 0
        for count, (part, (colour, hatch)) in zip(counts, PARTS.items()):
            bar = cell.barh(row, count / needed, 0.78, left=left, color=colour, hatch=hatch, **HATCHED)
            handles.setdefault(part, bar)
            left += count / needed
        share = 100 * counts[1] / (sum(counts) or 1)
        cell.annotate(f"{share:.0f} % in vain", (left, row), xytext=(4, 0), textcoords="offset points",
                      va="center", fontsize=7.5, color=INK)  # fmt: skip
    cell.set_xlim(0, 1.3 * max(sum(rows_of(case, network)) / (rows_of(case, network)[0] or 1) for case in group))


if __name__ == "__main__":
    main(__doc__, draw)
