"""Reads manifests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "datasets"))
from text_lines import objects_of


def utterances_of(manifest):
    """Returns the objects of a manifest's lines."""
    return [line for _, line in objects_of(manifest)]
