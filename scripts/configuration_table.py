"""Writes the tables of what `rtfx list` knows into the docs: configuration_table.py [--check]

The keys of a configuration into docs/configuration.md, the metrics into docs/exports.md, each between
`<!-- NAME -->` and `<!-- /NAME -->`. `--check` only looks, and exits with 1 where a page differs. RTFX_BIN
names the program.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAM = os.environ.get("RTFX_BIN", ROOT / "build/release/rtfx")


def key_rows(keys):
    yield "| key | default | allowed | meaning |"
    yield "|---|---|---|---|"
    for key in keys:
        value = "none" if key["default"] in (None, "", []) else f"`{json.dumps(key['default'])}`"
        default = key.get("default_text", value)
        allowed = key["allowed"].replace("|", "\\|")
        yield f"| `{key['name']}` | {default} | {allowed} | {key['help']} |"


def metric_rows(metrics):
    yield "| metric | unit | better | the gate's tolerance | meaning |"
    yield "|---|---|---|---|---|"
    for metric in metrics:
        tolerance = metric["tolerance"]
        share = "" if tolerance is None else f"{100 * tolerance:g} {'points' if metric['unit'] == '' else '%'}"
        better = {1: "more", -1: "less", 0: ""}[metric["direction"]]
        yield f"| `{metric['name']}` | {metric['unit']} | {better} | {share} | {metric['meaning']} |"


TABLES = [("keys", "docs/configuration.md", "config", key_rows), ("metrics", "docs/exports.md", "metrics", metric_rows)]


def write_table(name, page, what, rows, check):
    listed = subprocess.run([PROGRAM, "list", what, "--json"], check=True, capture_output=True)
    table = "".join(f"{row}\n" for row in rows(json.loads(listed.stdout)))
    text = (ROOT / page).read_text(encoding="utf-8")
    marks = rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)"
    wanted, found = re.subn(marks, lambda m: m[1] + table + m[2], text, flags=re.DOTALL)
    if found != 1:
        sys.exit(f"{page}: has no place for the {name}")
    if check and wanted != text:
        sys.exit(f"{page} differs from `rtfx list {what}`: run scripts/configuration_table.py")
    (ROOT / page).write_text(wanted, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only say whether the pages are right")
    arguments = parser.parse_args()
    for table in TABLES:
        write_table(*table, arguments.check)


if __name__ == "__main__":
    main()
