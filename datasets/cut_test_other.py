#!/usr/bin/env python3
"""Audio of the lengths of LibriSpeech test-other, cut from other recordings: cut_test_other.py FOLDER MANIFEST

The recordings of MANIFEST, one after the other in a ring, are cut into 2,939 pieces as long as test-other's utterances
(librispeech/test-other.tsv.gz). They serve to measure speed where espeak-ng is missing, with models that should emit as many
tokens as on speech. Writes audio/<id>.wav and manifest.jsonl, without texts, into FOLDER. stand_in.txt beside them marks every
result of this audio as one of stand-in data.

Needs numpy and soundfile.
"""

import argparse
from pathlib import Path

import numpy as np
import soundfile

from speak_librispeech import RATE, begin_folder, encode, read_transcripts
from split_manifest import write
from text_lines import audio_of, objects_of
from user_errors import UserError, run_script

STAND_IN = "other recordings cut to the lengths of LibriSpeech test-other"  # what results say of it


def ring(manifest):
    """Returns all recordings, joined, [samples] int16."""
    clips = []
    for place, line in objects_of(manifest):
        path = manifest.parent / audio_of(place, line)
        try:
            samples, rate = soundfile.read(path, dtype="int16")
        except RuntimeError as error:
            raise UserError(f"{path}: {error}; {place} names it") from None
        if rate != RATE or samples.ndim != 1:
            raise UserError(f"{path}: {rate} Hz, {samples.ndim} dimensions; mono at {RATE} is needed")
        clips.append(samples)
    if not sum(map(len, clips)):
        raise UserError(f"{manifest}: no recordings; name a manifest with some")
    return np.concatenate(clips)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("manifest", type=Path)
    arguments = parser.parse_args()
    output = arguments.folder / "manifest.jsonl"
    if output.exists() and output.samefile(arguments.manifest):
        raise UserError(f"{arguments.manifest}: would be overwritten; give another folder")
    samples, begin, lines = ring(arguments.manifest), 0, []
    begin_folder(arguments.folder, STAND_IN)
    for name, total, _ in read_transcripts():
        piece = samples[np.arange(begin, begin + total) % len(samples)]
        begin = (begin + total) % len(samples)
        (arguments.folder / f"audio/{name}.wav").write_bytes(encode(piece, "wav"))
        lines.append({"audio_filepath": f"audio/{name}.wav", "duration": total / RATE})
    write(lines, output)
    print(f"{output}: {len(lines)} pieces")


if __name__ == "__main__":
    run_script("cut_test_other", main)
