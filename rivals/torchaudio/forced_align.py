#!/usr/bin/env python3
"""Times torchaudio.functional.forced_align at the sizes of rtfx_microbench's `alignment`.

    forced_align.py [--device cuda] [--batch 1 8 32 128] [--seconds 2] [-o FILE.jsonl]

torchaudio takes one utterance at a time, so that a batch is a loop. Times include what brings labels and scores to the
host, as those of rtfx do. The script prints a JSON line for each batch size: rows per second, the best of five repeats.
"""

import argparse
import json
import time

import torch
import torchaudio
from torchaudio.functional import forced_align

FRAMES, VOCABULARY, TOKENS = 200, 1024, 50


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--seconds", type=float, default=2, help="of each repeat, at least")
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    torch.manual_seed(9)
    for batch in options.batch:
        emissions = torch.randn(batch, FRAMES, VOCABULARY + 1).log_softmax(2).to(options.device)
        texts = torch.randint(VOCABULARY, (batch, TOKENS), dtype=torch.int32).to(options.device)

        def work(rows=emissions, tokens=texts):
            for row, text in zip(rows, tokens, strict=True):
                labels, scores = forced_align(row[None], text[None], blank=VOCABULARY)
                labels.cpu(), scores.cpu()

        work()
        best = 0.0
        for _ in range(5):
            calls, begin = 0, time.perf_counter()
            while time.perf_counter() - begin < options.seconds / 5:
                work()
                calls += 1
            best = max(best, batch * calls / (time.perf_counter() - begin))
        name = torch.cuda.get_device_name() if options.device.startswith("cuda") else "cpu"
        line = json.dumps({"batch": batch, "frames": FRAMES, "tokens": TOKENS, "rows_per_second": best, "device": name,
                           "torchaudio": torchaudio.__version__})  # fmt: skip
        print(line, flush=True)
        if options.output:
            with open(options.output, "a", encoding="utf-8") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
