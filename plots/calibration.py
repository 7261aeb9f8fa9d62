"""Shows whether confidence tells right words from wrong ones, for transcripts with references.

The figure holds a reliability diagram (share of right words by confidence) and the receiver operating characteristic.
`--table` prints numbers. This command makes a file of transcripts:

    rtfx transcribe --format json --confidence MANIFEST > FILE.jsonl

A word is right where an alignment with the fewest edits matches it with the same word. Case and surrounding
punctuation do not count, and missing words count nowhere."""

import bisect
import json
import math
from pathlib import Path

from journal import journal_name, read_text
from matplotlib.lines import Line2D
from script import OneLineParser, printable, run_script
from style import FAINT, GREY, add_output, entry_width, legend, new_figure, save, series_style

BINS = 10
AROUND = ".,;:!?\"()[]"


def plain(word):
    return word.lower().strip(AROUND)


def right_words(hypothesis, reference):
    """Returns for each word of `hypothesis` whether it is right. Among equally good alignments, the one that matches first counts."""
    rows, columns = len(hypothesis), len(reference)
    # cost[i][j] is the number of edits from hypothesis[i:] to reference[j:].
    cost = [[rows - i + columns - j for j in range(columns + 1)] for i in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            cost[i][j] = min(cost[i + 1][j + 1] + (hypothesis[i] != reference[j]), cost[i + 1][j] + 1, cost[i][j + 1] + 1)
    right, i, j = [], 0, 0
    while i < rows:
        if j < columns and cost[i][j] == cost[i + 1][j + 1] + (hypothesis[i] != reference[j]):
            right.append(hypothesis[i] == reference[j])
            i, j = i + 1, j + 1
        elif cost[i][j] == cost[i + 1][j] + 1:
            right.append(False)
            i += 1
        else:
            j += 1
    return right


def read_words(path):
    """Returns [(confidence, whether it is right)] of all words."""
    words = []
    for line in read_text(path).split("\n"):  # str.splitlines() would also divide at U+2028 and the like
        if not line.strip():
            continue
        record = json.loads(line)
        if "reference" not in record:
            continue
        reference = [word for word in map(plain, record["reference"].split()) if word]
        hypothesis = [word for word in record["words"] if plain(word["text"])]
        if hypothesis and "confidence" not in hypothesis[0]:
            raise SystemExit(f"{printable(path)}: no confidence; give --confidence to `rtfx transcribe`")
        right = right_words([plain(word["text"]) for word in hypothesis], reference)
        words += [(word["confidence"], ok) for word, ok in zip(hypothesis, right, strict=True)]
    if len({ok for _, ok in words}) < 2:
        raise SystemExit(f"{printable(path)}: needs words with references, right ones and wrong ones")
    return words


def bins(words, count=BINS):
    """Returns [(mean confidence, share of right words, number of words)] of parts with about equally many words. Words of
    equal confidence are in one part, since any order of them would make up a difference."""
    words = sorted(words)
    confidences = [confidence for confidence, _ in words]
    wanted = [round(i * len(words) / count) for i in range(1, count)]
    ends = [bisect.bisect_right(confidences, confidences[i - 1]) if i else 0 for i in wanted]
    edges = [0, *ends, len(words)]
    parts = [words[a:b] for a, b in zip(edges, edges[1:]) if b > a]
    return [(sum(c for c, _ in part) / len(part), sum(ok for _, ok in part) / len(part), len(part)) for part in parts]


def roc(words):
    """Returns [(share of wrong words, share of right words)] that a threshold keeps, for each threshold of confidence."""
    right = sum(ok for _, ok in words)
    points, seen = [(0.0, 0.0)], [0, 0]
    words = sorted(words, reverse=True)
    for i, (confidence, ok) in enumerate(words):
        seen[ok] += 1
        if i + 1 == len(words) or words[i + 1][0] != confidence:
            points.append((seen[0] / (len(words) - right), seen[1] / right))
    return points


def area(points):
    return sum((x2 - x1) * (y1 + y2) / 2 for (x1, y1), (x2, y2) in zip(points, points[1:]))


def calibration_error(words):
    """Returns the mean distance between a part's confidence and its share of right words."""
    return sum(number * abs(sure - ok) for sure, ok, number in bins(words)) / len(words)


def cross_entropy(words):
    """Returns NIST's normalised cross entropy. It is 1 for perfect confidence, and 0 for confidence that tells no more
    than the share of right words does."""
    share = sum(ok for _, ok in words) / len(words)
    least = -share * math.log2(share) - (1 - share) * math.log2(1 - share)
    log = [math.log2(min(max(sure if ok else 1 - sure, 1e-6), 1)) for sure, ok in words]
    return (least + sum(log) / len(words)) / least


def draw(series, width):
    figure, axes = new_figure(1, 2, width, [width / 2 - 0.8])
    reliability, curve = axes.flat
    styles = [series_style(i) | {"markersize": 3.5, "linewidth": 1.3} for i in range(len(series))]
    for style, words in zip(styles, series.values()):
        parts = bins(words)
        reliability.plot([p[0] for p in parts], [p[1] for p in parts], **style)
        points = roc(words)
        curve.plot([p[0] for p in points], [p[1] for p in points], **style | {"marker": ""})
    for cell in axes.flat:
        cell.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle="--", zorder=1)
        cell.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        cell.grid(axis="both", color=FAINT)
    reliability.set(xlabel=f"mean confidence of a {BINS}th of the words", ylabel="share of right words")
    reliability.set_title("reliability")
    curve.set(xlabel="share of wrong words kept", ylabel="share of right words kept")
    curve.set_title("right from wrong")
    names = [f"{name}: area {area(roc(words)):.3f}" for name, words in series.items()]
    handles = [Line2D([], [], **style) for style in styles]
    legend(figure, handles, names, width, entry_width(names))
    return figure


def table(series):
    lines = ["| transcripts | words | right | area under ROC | calibration error | NCE |", "|---|--:|--:|--:|--:|--:|"]
    for name, words in series.items():
        right = sum(ok for _, ok in words)
        lines.append(f"| {name} | {len(words)} | {100 * right / len(words):.1f} % | {area(roc(words)):.3f} | "
                     f"{calibration_error(words):.3f} | {cross_entropy(words):.2f} |")  # fmt: skip
    return "\n".join(lines)


def main():
    parser = OneLineParser(description=__doc__)
    parser.add_argument("transcripts", nargs="+", help="files of lines of JSON, may be gzip, each a curve; NAME=FILE names it")
    add_output(parser, required=False)
    parser.add_argument("--table", action="store_true", help="print a table in Markdown")
    arguments = parser.parse_args()
    if not arguments.output and not arguments.table:
        parser.error("give --output or --table")

    def work():
        series = {}
        for text in arguments.transcripts:
            is_file = "=" not in text or Path(text).exists()
            name, file = ("", text) if is_file else text.split("=", 1)
            name = printable(name or journal_name(file))
            if name in series:
                raise SystemExit(f"{printable(file)}: another file has the name {name}: give NAME=FILE")
            series[name] = read_words(file)
        if arguments.table:
            print(table(series))
        if arguments.output:
            save(draw(series, arguments.width), arguments.output)

    run_script(work)


if __name__ == "__main__":
    main()
