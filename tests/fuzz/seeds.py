"""Writes the files with which fuzzing begins, one folder for each target: seeds.py FOLDER"""

import hashlib
import io
import shutil
import struct
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import soundfile

DATA = Path(__file__).parent.parent / "data"


def checksum(body):
    return hashlib.sha256(body).hexdigest().encode()


def binary_lm():
    """Returns a model of two tokens. Its contexts are none, <s>, token 0 and token 1, and its bigram is token 1 after 0."""
    body = struct.pack("<6i3f", 2, 3, 3, 0, 1, 1, -1, -2, -0.5)
    body += struct.pack("<12i", 0, 2, 0, 0, 2, 3, 0, 0, 0, 0, 0, 0)
    body += struct.pack("<8f4i", 0, -1, -1, -1, -1, -1, -1, -1, 0, 1, 1, 1)
    head = struct.pack("<8s2i3q", b"ngpulm\r\n", 1, 2, 2, 3, 4)
    return head + b"0" * 64 + checksum(body) + body


def graph():
    """Returns a graph of two tokens and blank. The word A is token 0, followed by an arc without a token."""
    arcs = [(1, 0, 1, 0.5), (0, 2, 0, 0.0), (1, 2, 0, 0.0), (0, -1, 0, 0.25)]
    body = b"".join(struct.pack("<3if", *arc) for arc in arcs)
    body += struct.pack("<2q", 0, 1) + struct.pack("<3i3i2f", 0, 2, 3, 3, 3, 4, 0, 0) + b"A"
    head = struct.pack("<8s4i4q", b"rtfxtlg\n", 1, 2, 0, 3, 3, 4, 1, 1)
    return head + b"none".ljust(24, b"\0") + b"0" * 64 + checksum(body) + body


def pickle_of(checkpoint):
    with tarfile.open(checkpoint) as archive:
        weights = next(m for m in archive if m.name.endswith("model_weights.ckpt"))
        with zipfile.ZipFile(io.BytesIO(archive.extractfile(weights).read())) as records:
            name = next(n for n in records.namelist() if n.endswith("data.pkl"))
            return records.read(name)


def audio():
    samples = 0.1 * np.sin(np.arange(2000))
    for kind in ("WAV", "FLAC", "OGG", "AIFF", "AU", "CAF", "W64", "RF64"):
        file = io.BytesIO()
        soundfile.write(file, samples, 16000, format=kind)
        yield kind.lower(), file.getvalue()


def main(folder):
    seeds = {
        "archive": [("tiny_gzip.nemo", (DATA / "checkpoints/tiny_gzip.nemo").read_bytes())],
        "audio": audio(),
        "binary_lm": [("two_tokens.ngpulm", binary_lm())],
        "graph": [("one_word.tlg", graph())],
        "openfst": [(f.name, f.read_bytes()) for f in DATA.glob("*.fst")],
        "pickle": [("data.pkl", pickle_of(DATA / "checkpoints/tiny_tdt.nemo"))],
        "safetensors": [
            (f.parent.name, f.read_bytes()) for f in DATA.glob("checkpoints/*/model.safetensors")
        ],
        "sentencepiece": [(f.name, f.read_bytes()) for f in DATA.glob("*.model")],
    }
    for target, files in seeds.items():
        shutil.rmtree(folder / target, ignore_errors=True)
        (folder / target).mkdir(parents=True)
        for name, contents in files:
            (folder / target / name).write_bytes(contents)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
