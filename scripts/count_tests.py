"""count_tests.py RESULTS [CHECK=passed|failed ...]: sums all tests into one line.

RESULTS holds ctest.xml, pytest.xml and gtest/<program>.xml. A GoogleTest program counts with its
single tests; where it failed without saying which of them (a crash), it counts as one failure more.
Fails when a test failed or a report is missing.
"""

import argparse
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path


def outcome(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "passed" if case.find("skipped") is None else "skipped"


def count_cases(report):
    """None for a report that is missing or torn."""
    try:
        root = ElementTree.parse(report).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    return Counter(outcome(case) for case in root.iter("testcase"))


def count_programs(folder):
    """C++ tests: each program of ctest's report by its own report, if it wrote one."""
    try:
        programs = ElementTree.parse(folder / "ctest.xml").getroot().iter("testcase")
    except (OSError, ElementTree.ParseError):
        return None
    total = Counter()
    for program in programs:
        result = outcome(program)
        cases = count_cases(folder / "gtest" / f"{program.get('name')}.xml")
        if not cases:
            cases = Counter([result])
        elif result == "failed" and not cases["failed"]:
            cases["failed"] = 1
        total += cases
    return total


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("checks", nargs="*")
    arguments = parser.parse_args()

    parts = {
        "checks": Counter(check.partition("=")[2] for check in arguments.checks),
        "C++": count_programs(arguments.results),
        "Python": count_cases(arguments.results / "pytest.xml"),
    }
    total = Counter()
    for name, counts in parts.items():
        if not counts and name != "checks":
            print(f"{name} tests: no report")
            counts = Counter(failed=1)
        total += counts
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
