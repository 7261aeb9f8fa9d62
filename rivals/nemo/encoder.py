#!/usr/bin/env python3
"""Times NeMo's features and encoder alone, with batches that lie on the GPU already, the longest utterances first.

    encoder.py MODEL.nemo... --manifest MANIFEST [--batch 32 128] [--dtype bfloat16] [--passes 5] [-o FILE.jsonl]

The script prints a line for each model and batch size, with the seconds of audio per second of each pass. Two passes
before them are not measured.
"""

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import soundfile
import torch

from manifests import utterances_of
from restore import about, restored


def batches_of(clips, size):
    """Yields samples [B, longest], with zeros after the end of each clip, and lengths [B], on the GPU."""
    for first in range(0, len(clips), size):
        rows = clips[first : first + size]
        samples = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        yield samples.cuda(), torch.tensor([len(row) for row in rows]).cuda()


def seconds_of_pass(model, batches, dtype):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    with torch.inference_mode():
        for samples, lengths in batches:
            features, frames = model.preprocessor(input_signal=samples, length=lengths)
            model.encoder(audio_signal=features.to(dtype), length=frames)
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def read(path):
    samples, rate = soundfile.read(path, dtype="float32")
    if rate != 16000:
        sys.exit(f"{path}: {rate} Hz; 16000 is needed")
    return torch.from_numpy(samples)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL.nemo")
    parser.add_argument("--manifest", required=True, type=Path)
    parser.add_argument("--batch", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    paths = [options.manifest.parent / line["audio_filepath"] for line in utterances_of(options.manifest)]
    with ThreadPoolExecutor() as readers:
        clips = list(readers.map(read, paths))
    clips.sort(key=len, reverse=True)
    audio = sum(map(len, clips)) / 16000
    dtype = getattr(torch, options.dtype)
    for path in options.models:
        model = restored(path, "cuda", options.dtype)
        for size in options.batch:
            batches = list(batches_of(clips, size))
            times = [seconds_of_pass(model, batches, dtype) for _ in range(2 + options.passes)][2:]
            line = json.dumps({"model": Path(path).stem, "dtype": options.dtype, "batch": size,
                               "rtfx": [audio / seconds for seconds in times], "card": torch.cuda.get_device_name()} | about(path, "cuda"))  # fmt: skip
            print(line, flush=True)
            if options.output:
                with options.output.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")


if __name__ == "__main__":
    main()
