#!/usr/bin/env python3
"""Compares what a small checkpoint and the widened one return for the same recordings, in NeMo and in rtfx.

    same_words.py SMALL.nemo WIDENED.nemo FILE... [--device cuda] [--dtype float32] [--ctc] [-o FILE.jsonl]

Each program decodes all files with both checkpoints. It gets one line: for how many files tokens, frames and durations
are equal, and how many tokens there are. NeMo and the wheel of rtfx must be in one environment.
"""

import argparse
import json
from pathlib import Path

import nemo
import torch
from nemo.utils import logging

import rtfx
from restore import about, restored

logging.setLevel(logging.ERROR)
DTYPES = {"float32": "fp32", "bfloat16": "bf16"}  # torch's names, and rtfx's


def tokens_and_frames(one):
    if not torch.is_tensor(one.y_sequence) or one.y_sequence.dim() == 1:
        return [int(token) for token in one.y_sequence], [int(frame) for frame in one.timestamp]
    best = one.y_sequence.argmax(-1).tolist()  # of log-probabilities [frames, tokens + 1], as CTC models return them
    blank = one.y_sequence.shape[-1] - 1
    frames = [t for t, token in enumerate(best) if token != blank and (t == 0 or token != best[t - 1])]
    return [best[t] for t in frames], frames


def of_nemo(path, files, options):
    """Returns (tokens, frames) of each file."""
    model = restored(path, options.device, options.dtype)
    if options.ctc and hasattr(model, "joint"):  # a hybrid model
        model.change_decoding_strategy(decoder_type="ctc")
    found = model.transcribe(files, batch_size=options.batch, return_hypotheses=True, verbose=False)
    return [tokens_and_frames(one) for one in found]


def of_rtfx(path, files, options):
    """Returns (tokens, frames, durations) of each file."""
    model = rtfx.load(path, options.device, DTYPES[options.dtype])
    found = model.transcribe(files, options.batch, decoder="ctc_greedy" if options.ctc else None)
    return [(one.hypothesis.tokens, one.hypothesis.frames, one.hypothesis.durations) for one in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("small", metavar="SMALL.nemo")
    parser.add_argument("widened", metavar="WIDENED.nemo")
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="float32", choices=list(DTYPES))
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--ctc", action="store_true", help="decode with the CTC head")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = False  # torch's default rounds the inputs of convolutions to 10 bits
    for program, version, of in (("rtfx", rtfx.version(), of_rtfx), ("nemo", nemo.__version__, of_nemo)):
        small, widened = (of(path, options.files, options) for path in (options.small, options.widened))
        equal = [a == b for a, b in zip(small, widened, strict=True)]
        line = json.dumps({
            "program": program, "version": version, "dtype": options.dtype, "head": "ctc" if options.ctc else "transducer",
            "small": Path(options.small).stem, "widened": Path(options.widened).stem,
            "files": len(equal), "equal": sum(equal), "tokens": sum(len(each[0]) for each in small),
            "device": torch.cuda.get_device_name() if options.device == "cuda" else options.device,
        } | about(options.widened, options.device))  # fmt: skip
        print(line, flush=True)
        if options.output:
            with options.output.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        for name, same in zip(options.files, equal, strict=True):
            if not same:
                print(f"  differs: {name}")


if __name__ == "__main__":
    main()
