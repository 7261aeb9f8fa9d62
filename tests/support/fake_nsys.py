#!/usr/bin/env python3
"""Takes the place of `nsys profile` where there is none. It runs the program with the recorder of NVTX ranges
(RTFX_NVTX_RECORDER) and writes them as an export of Nsight Systems, <report>.sqlite. Its own arguments go to
FAKE_NSYS_LOG. If FAKE_NSYS_MAKES is set, it writes an empty file with this ending instead, or none if it is empty."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def export(lines, path):
    database = sqlite3.connect(path)
    database.executescript((ROOT / "tests/data/nsight_systems.sql").read_text())
    database.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', 'fake')")
    ids, open_ranges = {}, {}
    for line in map(json.loads, lines):
        stack = open_ranges.setdefault(line["thread"], [])
        if line["event"] == "push":
            stack.append(line)
        elif line["event"] == "pop":
            begin = stack.pop()
            text = ids.setdefault(begin["name"], len(ids) + 1)
            row = (begin["time"], line["time"], line["thread"], text)
            database.execute("INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, textId) "
                             "VALUES (?, ?, 59, ?, ?)", row)  # fmt: skip
    database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(i, text) for text, i in ids.items()])
    database.commit()


def main():
    arguments = sys.argv[1:]
    Path(os.environ["FAKE_NSYS_LOG"]).write_text(json.dumps(arguments))
    report = arguments[arguments.index("-o") + 1]
    first = next(i for i, word in enumerate(arguments) if i and word.startswith("/") and word != report)
    makes = os.environ.get("FAKE_NSYS_MAKES", "sqlite")
    record = report + ".jsonl"
    settings = {**os.environ, "NVTX_INJECTION64_PATH": os.environ["RTFX_NVTX_RECORDER"],
                "RTFX_NVTX_RECORD": record}  # fmt: skip
    code = subprocess.run(arguments[first:], env=settings).returncode
    lines = Path(record).read_text().splitlines()
    Path(record).unlink()
    if makes == "sqlite":
        export(lines, report + ".sqlite")
    elif makes:
        Path(report + "." + makes).touch()
    sys.exit(code)


main()
