"""count_tests.py RESULTS [CHECK=passed|failed ...]: names the ten slowest and the failed tests, and counts all in one line.

RESULTS holds ctest.xml, pytest.xml and gtest/<test of ctest>.xml. Each test of a GoogleTest program counts. A program
that failed without naming a test, such as by a crash, counts as one more failure. The script fails when a test failed
or a report is missing.
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


def cases_of(report):
    """Returns [(class, name, outcome, seconds)]; None for a report that is missing or torn."""
    try:
        root = ElementTree.parse(report).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    return [
        (case.get("classname"), case.get("name"), outcome(case), float(case.get("time", 0)))
        for case in root.iter("testcase")
    ]


def cases_of_programs(folder):
    """Returns the C++ tests. A program that wrote a report of its own is replaced by the tests in it."""
    programs = cases_of(folder / "ctest.xml")
    if programs is None:
        return None
    cases = []
    for part, name, result, seconds in programs:
        own = cases_of(folder / "gtest" / f"{name}.xml") or []
        if result == "skipped":  # ctest found no program; programs themselves skip tests that need a GPU
            result = "failed"
        if not own or (result == "failed" and "failed" not in {case[2] for case in own}):
            own.append((part, "", result, seconds))
        cases += own
    return cases


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("checks", nargs="*")
    arguments = parser.parse_args()

    total = Counter(check.partition("=")[2] for check in arguments.checks)
    every = []
    for name, cases in {
        "C++": cases_of_programs(arguments.results),
        "Python": cases_of(arguments.results / "pytest.xml"),
    }.items():
        if not cases:
            print(f"{name} tests: no report")
            total["failed"] += 1
        every += cases or []
    total += Counter(result for _, _, result, _ in every)
    print("slowest:")
    for group, name, _, seconds in sorted(every, key=lambda case: -case[3])[:10]:
        print(f"{seconds:8.1f} s  {group} {name}")
    for group, name, result, _ in every:
        if result == "failed":
            print(f"failed: {group} {name}")
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
