#!/usr/bin/env python3
"""Writes a list of words to boost for measurements (docs/reference/boosting.md).

The list holds COUNT words of six letters or more that the transcripts of the manifests have once, then OTHERS words
of another text that the transcripts lack. A fixed seed draws them. --each also writes a manifest in which every
utterance asks for COUNT + OTHERS phrases of its own.

  scripts/phrase_list.py --count 100 --others 900 --text other.txt -o FILE MANIFEST...
"""

import argparse
import collections
import gzip
import json
import random
import re
from pathlib import Path


def words(text):
    return re.findall(r"[a-z']+", text.lower())


def read(path):
    return (gzip.open(path, "rt") if path.suffix == ".gz" else path.open()).read()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifests", nargs="+", type=Path)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--others", type=int, default=0)
    parser.add_argument("--text", type=Path, help="any text, plain or gzip")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--each", type=Path, help="manifest to write")
    arguments = parser.parse_args()
    said = collections.Counter()
    for manifest in arguments.manifests:
        for line in manifest.read_text().splitlines():
            said.update(words(json.loads(line)["text"]))
    draw = random.Random(1)
    rare = sorted(word for word, times in said.items() if times == 1 and len(word) >= 6)
    others = []
    if arguments.others:
        others = sorted({word for word in words(read(arguments.text)) if len(word) >= 6} - said.keys())

    def drawn():
        return draw.sample(rare, arguments.count) + draw.sample(others, arguments.others)

    arguments.output.write_text("".join(word + "\n" for word in drawn()))
    if arguments.each:
        lines = [line for manifest in arguments.manifests for line in manifest.read_text().splitlines()]
        asking = [json.loads(line) | {"boost": drawn()} for line in lines]
        arguments.each.write_text("".join(json.dumps(line) + "\n" for line in asking))


if __name__ == "__main__":
    main()
