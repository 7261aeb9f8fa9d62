#!/usr/bin/env python3
"""Audio of the lengths of LibriSpeech test-other, cut from other recordings: cut_test_other.py FOLDER MANIFEST

The recordings of MANIFEST, one after the other in a ring, are cut into 2,939 pieces as long as test-other's utterances
(librispeech/test-other.tsv.gz). They serve to measure speed where espeak-ng is missing, with models that should emit as many
tokens as on speech. Writes audio/<id>.wav and manifest.jsonl, without texts, into FOLDER.

Needs numpy and soundfile.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import soundfile

from speak_librispeech import RATE, encode, read_transcripts
from text_lines import lines_of


def ring(manifest):
    """Returns all recordings, joined, [samples] int16."""
    clips = []
    for line in lines_of(manifest):
        path = manifest.parent / json.loads(line)["audio_filepath"]
        samples, rate = soundfile.read(path, dtype="int16")
        if rate != RATE or samples.ndim != 1:
            raise SystemExit(f"cut_test_other: error: {path}: {rate} Hz, {samples.ndim} channels; mono at {RATE} is needed")
        clips.append(samples)
    if not clips:
        raise SystemExit(f"cut_test_other: error: {manifest}: no recordings; name a manifest with some")
    return np.concatenate(clips)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("manifest", type=Path)
    arguments = parser.parse_args()
    samples, begin, lines = ring(arguments.manifest), 0, []
    (arguments.folder / "audio").mkdir(parents=True, exist_ok=True)
    for name, total, _ in read_transcripts():
        piece = samples[np.arange(begin, begin + total) % len(samples)]
        begin = (begin + total) % len(samples)
        (arguments.folder / f"audio/{name}.wav").write_bytes(encode(piece, "wav"))
        lines.append({"audio_filepath": f"audio/{name}.wav", "duration": total / RATE, "text": ""})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (arguments.folder / "manifest.jsonl").write_text(text, encoding="utf-8")
    print(f"{arguments.folder / 'manifest.jsonl'}: {len(lines)} pieces")


if __name__ == "__main__":
    main()
