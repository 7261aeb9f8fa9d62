"""layers.py [--check]: copies layers.txt into CONTRIBUTING.md, between <!-- layers --> and <!-- /layers -->.

--check compares only, and fails where the page differs.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def layers(text):
    """Returns [(folder, [folders that it may include], description)] from the text of layers.txt."""
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if not line.startswith("#")]
    return [(folder, below.split(), holds) for folder, below, holds in rows]


def table(rows):
    yield "| folder | may include | holds |"
    yield "|---|---|---|"
    for folder, below, holds in rows:
        yield f"| `{folder}` | {', '.join(f'`{name}`' for name in below)} | {holds} |"


def main():
    page = ROOT / "CONTRIBUTING.md"
    text = page.read_text(encoding="utf-8")
    lines = "\n".join(table(layers((ROOT / "layers.txt").read_text(encoding="utf-8"))))
    pattern = re.compile(r"(<!-- layers -->\n).*?(<!-- /layers -->)", re.DOTALL)
    new, tables = pattern.subn(lambda match: f"{match[1]}{lines}\n{match[2]}", text)
    if tables != 1:
        raise SystemExit(f"{page.name}: has {tables} tables between <!-- layers --> and <!-- /layers -->; it must have one")
    if "--check" in sys.argv[1:]:
        return 0 if new == text else 1
    page.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
