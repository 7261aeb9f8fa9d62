"""Compares two builds: before_after.py BEFORE AFTER BEFORE AFTER [...] [-o FILE.md]

The arguments are folders or journals of `rtfx run` of one configuration. The two builds ran in turns on a quiet
machine. The table shows for each case the decoding time after / before, as a ratio of the means over all runs of a
build, with its 95 % interval over runs. The column A/A shows how far runs of the same build lie apart, as the largest
ratio of any two. A change whose interval contains 1 counts as none. The last line names cases that some run lacks.
"""

import math
import statistics
from itertools import combinations

from intervals import ratio_of_alike
from journal import read_journal
from script import OneLineParser, file_of, markdown, run_script, write_text


def seconds_per_second(path):
    """Returns {case: decoding time per second of audio}."""
    times = {}
    for case in read_journal(path).cases:
        speed, _ = case.metric("rtfx.decode")
        if speed:
            times[case.name] = 1 / speed
    return times


def apart(times):
    return max((max(a, b) / min(a, b) for a, b in combinations(times, 2)), default=1.0)


def rows(before, after):
    """Yields (case, after / before, its interval, A/A) of the cases that all runs have."""
    for case in before[0]:
        if all(case in run for run in (*before, *after)):
            old, new = [run[case] for run in before], [run[case] for run in after]
            ratio = (sum(new) / len(new)) / (sum(old) / len(old))
            yield case, ratio, ratio_of_alike(old, new), max(apart(old), apart(new))


def not_in_all(runs):
    """Returns the cases that some run lacks, such as one that failed in one build."""
    return [case for case in dict.fromkeys(case for run in runs for case in run) if not all(case in run for run in runs)]


def judged(interval):
    low, high = interval
    return "none" if low <= 1 <= high else "slower" if low > 1 else "faster"


def table(before, after):
    lines = ["| case | time after / before | 95 % | A/A | change |", "|---|--:|--:|--:|---|"]
    found = list(rows(before, after))
    if not found:
        raise SystemExit("before_after: the runs have no case in common")
    for case, ratio, (low, high), noise in found:
        lines.append(
            f"| {markdown(case)} | {ratio:.3f} | {low:.3f} to {high:.3f} | {noise:.3f} "
            f"| {judged((low, high))} |"
        )
    mean = math.exp(sum(math.log(ratio) for _, ratio, *_ in found) / len(found))
    noise = statistics.median(noise for *_, noise in found)
    lines.append(f"| geometric mean; median A/A | {mean:.3f} | | {noise:.3f} | |")
    if absent := not_in_all([*before, *after]):
        lines += ["", f"Not in all runs: {', '.join(map(markdown, absent))}."]
    return "\n".join(lines) + "\n"


def main():
    parser = OneLineParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="before, after, before, after, ...")
    parser.add_argument("-o", "--output", type=file_of("md"), help="file.md")
    options = parser.parse_args()
    if len(options.runs) < 4 or len(options.runs) % 2:
        parser.error("give at least two runs of each build, in turns")
    times = [seconds_per_second(run) for run in options.runs]
    text = table(times[0::2], times[1::2])
    if options.output:
        write_text(options.output, text)
    else:
        print(text, end="")


if __name__ == "__main__":
    run_script(main)
