"""Writes the keys of a configuration into docs/configuration.md: configuration_table.py [--check]

Replaces what stands between `<!-- keys -->` and `<!-- /keys -->` by the table of `rtfx list config`.
`--check` only looks, and exits with 1 where the page differs. RTFX_BIN names the program.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/configuration.md"
PROGRAM = os.environ.get("RTFX_BIN", ROOT / "build/release/rtfx")


def rows(keys):
    yield "| key | default | allowed | meaning |"
    yield "|---|---|---|---|"
    for key in keys:
        value = "none" if key["default"] in (None, "", []) else f"`{json.dumps(key['default'])}`"
        default = key.get("default_text", value)
        allowed = key["allowed"].replace("|", "\\|")
        yield f"| `{key['name']}` | {default} | {allowed} | {key['help']} |"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only say whether the page is right")
    arguments = parser.parse_args()
    listed = subprocess.run([PROGRAM, "list", "config", "--json"], check=True, capture_output=True)
    table = "".join(f"{row}\n" for row in rows(json.loads(listed.stdout)))
    text = PAGE.read_text(encoding="utf-8")
    marks = r"(<!-- keys -->\n).*?(<!-- /keys -->)"
    wanted, found = re.subn(marks, lambda m: m[1] + table + m[2], text, flags=re.DOTALL)
    if found != 1:
        sys.exit(f"{PAGE}: has no place for the keys")
    if arguments.check and wanted != text:
        sys.exit(f"{PAGE} differs from `rtfx list config`: run scripts/configuration_table.py")
    PAGE.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
