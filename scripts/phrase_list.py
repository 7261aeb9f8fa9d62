#!/usr/bin/env python3
"""Writes a list of words to boost for measurements (docs/reference/boosting.md).

The list holds COUNT words of six letters or more that the transcripts of the manifests have once, then OTHERS words
of another text that the transcripts lack. A fixed seed draws them. --each also writes a manifest in which every
utterance asks for COUNT + OTHERS phrases of its own.

  scripts/phrase_list.py --count 100 --others 900 --text other.txt -o FILE MANIFEST...
"""

import argparse
import collections
import json
import random
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "datasets"))

from text_lines import lines_of, objects_of, text_of  # noqa: E402
from user_errors import UserError, run_script  # noqa: E402


def words(text):
    """Returns runs of letters of any script, and apostrophes."""
    return re.findall(r"(?:[^\W\d_]|')+", text.lower())


def sample(draw, found, count, what):
    if count > len(found):
        raise UserError(f"{what}: {len(found)} words of six letters or more, and {count} are wanted; give more text")
    return draw.sample(found, count)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifests", nargs="+", type=Path)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--others", type=int, default=0)
    parser.add_argument("--text", type=Path, help="any text, plain or gzip")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--each", type=Path, help="manifest to write")
    arguments = parser.parse_args()
    if arguments.others and not arguments.text:
        parser.error("--others: needs --text, from which the words come")
    said = collections.Counter()
    lines = [place_and_line for manifest in arguments.manifests for place_and_line in objects_of(manifest)]
    for place, line in lines:
        said.update(words(text_of(place, line, "text")))
    draw = random.Random(1)
    rare = sorted(word for word, times in said.items() if times == 1 and len(word) >= 6)
    others = []
    if arguments.others:
        text = "\n".join(lines_of(arguments.text))
        others = sorted({word for word in words(text) if len(word) >= 6} - said.keys())

    def drawn():
        own = sample(draw, rare, arguments.count, "words that the manifests have once")
        return own + sample(draw, others, arguments.others, arguments.text)

    arguments.output.write_text("".join(word + "\n" for word in drawn()), encoding="utf-8")
    if arguments.each:
        asking = [line | {"boost": drawn()} for _, line in lines]
        arguments.each.write_text("".join(json.dumps(line) + "\n" for line in asking), encoding="utf-8")


if __name__ == "__main__":
    run_script("phrase_list", main)
