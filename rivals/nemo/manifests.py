"""Reads manifests."""

import json
from pathlib import Path


def utterances_of(manifest):
    """Returns the objects of a manifest's lines. str.splitlines() would also divide at U+2028 and the like."""
    lines = Path(manifest).read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line.strip()]
