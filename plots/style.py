"""The common parts of all figures: colours, fonts, sizes, lines over an option, and the writing of files."""

import io
import json
import math
import re
import textwrap

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
from journal import differing, option, other_options, panels, read_journal, stand_in_sentences, wer_percent  # noqa: E402
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator  # noqa: E402
from script import OneLineParser, figure_file, inches, printable, run_script, write_whole  # noqa: E402

# The palette of Okabe and Ito. Readers with any colour vision can tell its colours apart.
BLUE, SKY, GREEN, YELLOW = "#0072B2", "#56B4E9", "#009E73", "#F0E442"
ORANGE, VERMILION, PURPLE, GREY = "#E69F00", "#D55E00", "#CC79A7", "#999999"
SERIES = [BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, YELLOW, GREY]
MARKERS = "os^Dv<>PXph*"  # change with the colour, so that series can be told apart in grey too
HATCHES = ["", "////", r"\\\\", "xxxx", "||||", "----"]  # for parts of a bar in grey; dots would make large files
HATCHED = {"edgecolor": "#FFFFFF66", "linewidth": 0}

# In a figure inside a page, these two stand for the page's own colours, which may be light or dark.
INK, FAINT = "#101112", "#B9BABB"

WIDE, NARROW = 8.6, 4.3  # inches
NO_DATE = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
BAR = 0.21  # inches of height for one bar
LEGEND = 0.35  # inches of height that every figure has for its legend
MOST_KEYS = 4  # result keys that a script prints


def new_figure(rows, columns, width, heights):
    """Returns a figure and its grid of axes; `heights` gives the inches of each row."""
    plt.rcParams.update(
        {
            "font.family": "sans-serif",
            "font.size": 9,
            "axes.titlesize": 9.5,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "axes.edgecolor": FAINT,
            "axes.labelcolor": INK,
            "text.color": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.grid.axis": "x",
            "axes.axisbelow": True,
            "grid.color": FAINT,
            "grid.linewidth": 0.5,
            "text.parse_math": False,  # a name may hold dollars
            "svg.fonttype": "none",
            "pdf.fonttype": 42,
        }
    )
    figure, axes = plt.subplots(
        rows,
        columns,
        squeeze=False,
        figsize=(width, sum(heights) + 0.75 * len(heights) + LEGEND),
        height_ratios=heights,
        layout="constrained",
    )
    return figure, axes


LONG_NAME = 32  # characters; a longer one would leave too little room for its bar
LONGEST_LINE = 40  # characters of a name that has no place to break it
LINE = 0.15  # inches of height of a line of text
LEAST_LINE = 10  # characters of a title or of an axis' label


def in_lines(name):
    """Breaks a long name before a bracket or after a comma. A line that stays too long is broken after an underscore or
    anywhere. Among several places it takes the one nearest to the middle."""
    places = [i + (sign == ",") for i, sign in enumerate(name) if sign in "[,"]
    places = [place for place in places if 0 < place < len(name)]
    if len(name) <= LONG_NAME or (not places and len(name) <= LONGEST_LINE):
        return name
    places = places or [i + 1 for i, sign in enumerate(name[:-1]) if sign in "_- "] or [len(name) // 2]
    cut = min(places, key=lambda i: abs(i - len(name) / 2))
    head, tail = name[:cut], name[cut:].lstrip()
    return "\n".join(in_lines(part) if len(part) > LONGEST_LINE else part for part in (head, tail))


def name_rows(axes, names):
    """Labels the rows of a bar chart from top to bottom, like a table. Returns the inches that the names take."""
    axes.set_yticks(range(len(names)), map(in_lines, names))
    for label in axes.get_yticklabels():
        if "\n" in label.get_text():
            label.set_fontsize(6.5)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    return max(label.get_window_extent().width for label in axes.get_yticklabels()) / axes.figure.dpi


def short_number(value, _=None):
    """Formats a tick: 10000 is 10k, 1000000 is 1M."""
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1000:g}k" if value >= 10000 else f"{value:g}"


LEAST_TICKS, MOST_TICKS = 3, {"x": 6, "y": 9}  # on a logarithmic axis
STEPS = [(1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), [1 + tenth / 10 for tenth in range(90)]]


def log_ticks(low, high, most=9):
    """Returns round numbers from `low` to `high`: decades, or finer steps where too few decades lie between."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in STEPS:
        ticks = [step * 10.0**decade for decade in decades for step in steps]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) >= LEAST_TICKS:
            return ticks[:: math.ceil(len(ticks) / most)]
    ticks = MaxNLocator(LEAST_TICKS + 1).tick_values(low, high)
    return [tick for tick in ticks if low <= tick <= high]


def log_scale(cell, axis, low=None, high=None):
    """Makes the "x" or "y" axis of a finished drawing logarithmic, with its ticks written out."""
    getattr(cell, f"set_{axis}scale")("log")
    if low is not None:
        getattr(cell, f"set_{axis}lim")(low, high)
    most = MOST_TICKS[axis]
    axis = getattr(cell, f"{axis}axis")
    axis.set_major_locator(FixedLocator(log_ticks(*sorted(axis.get_view_interval()), most)))
    axis.set_major_formatter(short_number)
    axis.set_minor_locator(NullLocator())


def size_axis(cell, sizes):
    """Makes a horizontal axis over sizes of batches or beams, by powers of two with a tick for each size.

    Where two ticks are too close, only the larger one has its label."""
    sizes = sorted(set(sizes))
    labels = [f"{value:g}" for value in sizes]
    if len(sizes) > 1:
        cell.set_xscale("log", base=2)
        characters = 40 / math.log(sizes[-1] / sizes[0])  # some 40 digits fit beside each other
        right = len(sizes) - 1
        for i in range(len(sizes) - 2, -1, -1):
            between = characters * math.log(sizes[right] / sizes[i])
            if between < (len(labels[i]) + len(labels[right])) / 2 + 1:
                labels[i] = ""
            else:
                right = i
    cell.set_xticks(sizes, labels)
    cell.xaxis.set_minor_locator(NullLocator())


def text_on(colour):
    """Returns black or white, whichever is easier to read on the colour."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "#FFFFFF"


def write_in_bar(cell, x, y, text, colour, size=7.5, pad=1.0):
    """Writes the text around the point (x, y) of a bar of this colour, which may be hatched. The size is in points."""
    behind = {"facecolor": colour, "edgecolor": "none", "pad": pad}
    cell.text(x, y, text, ha="center", va="center", fontsize=size, color=text_on(colour), bbox=behind)


def name_and_batch(case):
    return f"{case.decoder}, b {case.batch}"


def bars_by_panel(cases, width, draw_case, name=name_and_batch, bar=BAR):
    """Draws bars from 0 to 100: a panel for each of panels(cases), and a row for each case, by draw_case(cell, row, case).

    `name(case)` labels a row, which is `bar` inches high. Returns the figure, the axes of the lowest panel, and the inches
    that its labels take."""
    groups = panels(cases)
    figure, axes = new_figure(len(groups), 1, width, [bar * len(group) + 0.2 for group in groups.values()])
    for cell, (title, group) in zip(axes[:, 0], groups.items()):
        for row, case in enumerate(group):
            draw_case(cell, row, case)
        left = name_rows(cell, [name(case) for case in group])
        cell.set_xlim(0, 100)
        name_panel(cell, title, width, left)
    return figure, axes[-1, 0], left


LOOKS = math.lcm(len(SERIES), len(MARKERS))  # series that series_style() tells apart


def series_style(i):
    """Returns colour and marker of the i-th series."""
    return {"color": SERIES[i % len(SERIES)], "marker": MARKERS[i % len(MARKERS)]}


def spread_line(cell, xs, means, deviations, i, **style):
    """Draws a line through means, with a bar of one standard deviation each way. A mean of None has no point."""
    known = [(x, m, d or 0.0) for x, m, d in zip(xs, means, deviations) if m is not None]
    xs, means, deviations = ([point[k] for point in known] for k in range(3))
    # On a logarithmic axis the lower end must be above 0.
    below = [min(d, 0.95 * m) if m > 0 else d for m, d in zip(means, deviations)]
    style = {"markersize": 4, "linewidth": 1.4, "elinewidth": 0.8, **series_style(i), **style}
    return cell.errorbar(xs, means, yerr=[below, deviations], **style)


def legend(figure, handles, labels, width, entry=1.25):
    """Draws the legend above the figure, in `width` inches with entries of `entry` inches.

    A legend that is higher than the room for it makes the figure higher, so that the axes keep their height."""
    if not handles:
        return
    columns = max(1, min(len(labels), int(width / entry)))
    labels = [in_lines(label) for label in labels]
    drawn = figure.legend(handles, labels, loc="outside upper left", ncols=columns, frameon=False)
    more = drawn.get_window_extent().height / figure.dpi - LEGEND
    figure.set_figheight(figure.get_figheight() + max(0, more))


def entry_width(labels):
    """Returns the inches that the longest of `labels` takes in a legend."""
    return 0.65 + 0.068 * max(len(line) for label in labels for line in in_lines(label).split("\n"))


def inline_svg(figure, name, description):
    """Returns the figure as an <svg> element that takes its colours from the page."""
    buffer = io.StringIO()
    with plt.rc_context({"svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    plt.close(figure)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # matplotlib writes out the names of all its fonts each time.
    svg = re.sub(r"font-family: [^;]*;", "font-family: sans-serif;", svg)
    # A hundredth of a point is enough, and half the size.
    svg = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path.group()), svg)
    # Ids are unique in one document only.
    svg = re.sub(r'((?: id="|href="#|url\(#))', rf"\g<1>{name}-", svg)
    svg = re.sub(
        r'(<svg[^>]*?) width="[^"]*"', rf'\1 role="img" aria-label="{description}"', svg, count=1
    )
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return svg.replace(INK.lower(), "currentColor").replace(FAINT.lower(), "var(--line)")


def duration(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{1e6 * seconds:.3g} µs"


def note_behind(cell, row, text):
    """Writes the text to the right of a bar that ends at 100."""
    cell.annotate(
        text,
        (100, row),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=7.5,
        annotation_clip=False,
    )


def note_stand_ins(figure, cases):
    """Writes below the figure which sets and checkpoints are stand-ins."""
    text = " ".join(stand_in_sentences(cases))
    if not text:
        return
    label = figure.get_supxlabel()
    size = 9 if label else 7  # points
    # A sans-serif font of seven points has 18 characters an inch or more.
    lines = textwrap.wrap(text, int(18 * 7 / size * figure.get_figwidth()))
    figure.set_figheight(figure.get_figheight() + 0.13 * size / 7 * len(lines))
    figure.supxlabel("\n".join(filter(None, [label, *lines])), fontsize=size)


def name_panel(cell, title, inches, left=0.6):
    """Writes the title of a panel that is `inches` wide, in as many lines as it needs. The lines begin at the vertical
    axis, which has `left` inches of labels beside it."""
    characters = max(LEAST_LINE, int(12 * (inches - left)))  # of a bold font of 9.5 points
    title = title.replace("batch ", "batch\xa0")  # word and number stay on one line
    cell.set_title("\n".join(line for part in title.split("\n") for line in wrapped(part, characters)))


def name_axis(cell, text, inches, left):
    """Writes the label of the horizontal axis of a panel, in as many lines as it needs.

    The panel is `inches` wide, of which `left` are labels beside its vertical axis. Further lines make the figure
    higher."""
    lines = wrapped(text, max(LEAST_LINE, int(15 * (inches - left))))
    cell.set_xlabel("\n".join(lines))
    cell.figure.set_figheight(cell.figure.get_figheight() + LINE * (len(lines) - 1))


def wrapped(text, characters):
    """Returns the lines of a text. It is broken between words, and a word that is too long after an underscore or
    anywhere."""
    parts = rf".{{1,{characters}}}$|.{{1,{characters - 1}}}_|.{{1,{characters}}}"
    lines = textwrap.wrap(text, characters, break_long_words=False, break_on_hyphens=False)
    return [part for line in lines for part in re.findall(parts, line)]


def spans_decades(pairs):
    """Says whether any range (low, high) is so wide that its axis must be logarithmic.

    All axes of a figure for speeds then become logarithmic, so that they can be compared."""
    return any(low > 0 and high > 8 * low for low, high in pairs)


def save(figure, path):
    try:
        # The file does not depend on the date. The ids in an SVG follow from the file's name and from the layout, whose last
        # digits may differ between machines.
        with plt.rc_context({"svg.hashsalt": path.stem}):
            look = {"facecolor": "white", "dpi": 160, "metadata": NO_DATE.get(path.suffix)}
            write_whole(path, lambda part: figure.savefig(part, **look))
    except OSError as error:
        raise SystemExit(f"{printable(path)}: {error.strerror}") from None


def add_output(parser, required=True):
    """Adds the options for the file of a figure and for its width."""
    parser.add_argument("-o", "--output", type=figure_file, required=required, help="file.svg, .pdf or .png")
    parser.add_argument("--width", type=inches, default=WIDE, help="inches (default: %(default)s)")


def parser_of(description, source, what):
    """Returns the parser of a script that draws the cases of one source, which is `what`."""
    parser = OneLineParser(description=description)
    parser.add_argument(source, help=what)
    add_output(parser)
    parser.add_argument("--case", default="", help="only cases with this in their name")
    return parser


def main(description, draw, read=read_journal, shown=lambda journal: journal.cases):
    """Runs the command line of a figure's script."""
    arguments = parser_of(description, "run", "folder of a run, or a journal").parse_args()
    run_script(lambda: draw_file(arguments, draw, read, shown))


def draw_file(arguments, draw, read, shown):
    journal = read(arguments.run)
    cases = [case for case in shown(journal) if arguments.case in case.name]
    figure = draw(cases, arguments.width)
    if figure is None:
        raise SystemExit(f"{printable(journal.path)}: no record that this figure shows")
    note_stand_ins(figure, cases)
    save(figure, arguments.output)
    keys = sorted({case.last["result_key"] for case in cases if case.rounds})
    more = f" and {len(keys) - MOST_KEYS} more" if len(keys) > MOST_KEYS else ""
    print(printable(f"{arguments.output}: from {journal.path}, result keys {' '.join(keys[:MOST_KEYS])}{more}"))


def pareto_front(points, cost_and_gain):
    """Returns the Pareto front of the points, by rising cost: none has as much gain at no higher cost.

    `cost_and_gain` returns two numbers of a point."""
    kept = []
    for point in sorted(points, key=lambda point: (cost_and_gain(point)[0], -cost_and_gain(point)[1])):
        if not kept or cost_and_gain(point)[1] > cost_and_gain(kept[-1])[1]:
            kept.append(point)
    return kept


COLUMNS = 2  # of a wide figure


def lines_over(groups, swept, label, value=None):
    """Returns {title: {name: [(value of an option, case), ...] by value}} for the groups {title: cases}.

    A line joins the cases with a WER that differ in this option alone. It needs two values of the option or more.
    `swept` holds the places of the option, which are tuples of keys. value(case) is None for a case without a point.
    The name of a line is label(case). Where lines of one group have the same label, their names also list the options
    in which they differ."""
    value = value or (lambda case: option(case, *swept[0]))
    found = {}
    for title, group in groups.items():
        for case in group:
            x = value(case)
            if x is not None and case.rounds and wer_percent(case) is not None:
                others = json.dumps(other_options(case, swept), sort_keys=True)
                found.setdefault((title, label(case), others), []).append((x, case))
    found = {key: points for key, points in found.items() if len({x for x, _ in points}) > 1}
    alike = {}
    for title, name, others in found:
        alike.setdefault((title, name), []).append(json.loads(others))
    places = {}
    for (_, name), options in alike.items():
        places.setdefault(name, {}).update(dict.fromkeys(differing(options)))
    lines = {title: {} for title in groups}
    for (title, name, _), points in found.items():
        parts = [name, *(named_option(points[0][1], place) for place in places[name])]
        lines[title][", ".join(filter(None, parts))] = sorted(points, key=lambda point: point[0])
    return lines


def named_option(case, place):
    """Returns "boost.depth 2" for a value, "boost" for a group of options, and nothing for null."""
    value, name = option(case, *place), ".".join(place)
    if value is None:
        return None
    if isinstance(value, dict):
        return name
    return f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"


def draw_lines(groups, measures, xlabel, width, height=2.0, style=lambda name: {}):
    """Draws the lines of each group, {title: lines_over(...)}, once for each measure.

    `measures` is {label of the axis: value(case)}. A value is a number or (mean, standard deviation), and None or
    (None, None) where there is no point. style(name) gives the style of a line. Returns the figure and its axes: a row
    of `height` inches for each group, and a column for each measure that any case has; a narrow figure has one column.
    Without a line it returns (None, [])."""
    groups = {title: lines for title, lines in groups.items() if lines}
    if not groups:
        return None, []
    drawn = [case for lines in groups.values() for points in lines.values() for _, case in points]
    measures = {
        label: value
        for label, value in measures.items()
        if any(pair_of(value(case))[0] is not None for case in drawn)
    }
    names = list(dict.fromkeys(name for lines in groups.values() for name in lines))
    columns = COLUMNS if width > NARROW else 1
    rows = len(groups) * math.ceil(len(measures) / columns)
    figure, axes = new_figure(rows, columns, width, [height] * rows)
    axes = axes.reshape(len(groups), -1)
    handles = {}
    for row, (title, lines) in zip(axes, groups.items()):
        for cell, (label, value) in zip(row, measures.items()):
            for name, points in lines.items():
                pairs = [pair_of(value(case)) for _, case in points]
                if all(mean is None for mean, _ in pairs):
                    continue
                handles[name] = spread_line(
                    cell, [x for x, _ in points], *zip(*pairs), names.index(name), **style(name)
                )
            cell.set_xlabel(xlabel)
            cell.set_ylabel(label)
            cell.grid(axis="y")
        for cell in row[len(measures) :]:
            cell.remove()
        name_panel(row[0], title, width)
    names = [name for name in names if name in handles]
    legend(figure, [handles[name] for name in names], names, width, entry_width(names))
    return figure, axes[:, : len(measures)]


def pair_of(value):
    """Returns (mean, deviation); a single value has a deviation of 0."""
    return value if isinstance(value, tuple) else (value, 0.0)
