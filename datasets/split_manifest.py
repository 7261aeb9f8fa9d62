#!/usr/bin/env python3
"""Splits a manifest into a development and a test set without a common reader: split_manifest.py MANIFEST

Writes dev.jsonl and test.jsonl beside it. The reader is what stands before the first hyphen of a file's
name, as LibriSpeech names them (1688-142285-0000.flac). In the order of their names, every fourth reader
goes to the development set, so that weights which are tuned on it never saw the test set. A text that
occurs in both stays in the test set alone.
"""

import argparse
import json
from pathlib import Path

from text_lines import audio_of, objects_of
from user_errors import UserError, run_script


def reader_of(line):
    return Path(line["audio_filepath"]).name.partition("-")[0]


def split(lines):
    """Returns the (development set, test set) of a manifest's objects, in their order."""
    readers = sorted({reader_of(line) for line in lines})
    chosen = set(readers[3::4])
    test = [line for line in lines if reader_of(line) not in chosen]
    said = {text for line in test if (text := line.get("text"))}
    dev = [line for line in lines if reader_of(line) in chosen and line.get("text") not in said]
    return dev, test


def write(lines, path):
    partial_file = path.with_suffix(".part")
    partial_file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    partial_file.replace(path)


def write_split(manifest):
    """Returns the paths that were written, or None where there are too few readers for two sets."""
    paths = manifest.with_name("dev.jsonl"), manifest.with_name("test.jsonl")
    if any(path.exists() and path.samefile(manifest) for path in paths):
        raise UserError(f"{manifest}: would be overwritten; rename it first")
    lines = []
    for place, line in objects_of(manifest):
        audio_of(place, line)
        lines.append(line)
    dev, test = split(lines)
    if not dev or not test:
        return None
    for part, path in zip((dev, test), paths):
        write(part, path)
    return paths


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("manifest", type=Path)
    manifest = parser.parse_args().manifest
    paths = write_split(manifest)
    if not paths:
        raise UserError(f"{manifest}: fewer than four readers; give a larger set")
    print("\n".join(map(str, paths)))


if __name__ == "__main__":
    run_script("split_manifest", main)
