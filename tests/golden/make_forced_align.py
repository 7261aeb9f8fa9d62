"""Collects torchaudio's forced alignments, which rtfx is compared with, into data/forced_align.json.

    python make_forced_align.py RTFX      # the program; torchaudio (2.11.0) in an environment of its own

The file holds {"torchaudio": version,
  "random": [{"seed", "frames", "labels", "tokens", "path": [label of each frame], "score"}, ...],
  "quickstart": {utterance: {"tokens", "frames": [first of each token], "runs", "confidence", "score"}}}.

emissions() below makes the emissions of the random cases. Those of the quickstart cases come from
`rtfx emissions` with quickstart-rnnt in fp32 on a CPU.
"""

import json
import random
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import sentencepiece
import torch
import torchaudio
from torchaudio.functional import forced_align, merge_tokens

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MODEL = ROOT / "models/quickstart/quickstart-rnnt.nemo"
UTTERANCES = ["qs01", "qs06", "1737-146161-0007"]
RANDOM = [(1, 5, 4, 2), (2, 12, 3, 5), (3, 40, 6, 12), (4, 90, 30, 44), (5, 60, 2, 30), (6, 200, 12, 90)]


def emissions(seed, frames, labels):
    """Returns [frames, labels] in float32 that any program can compute: multiples of 2^-18 in (-16, 0], by linear
    congruence."""
    state, values = seed, []
    for _ in range(frames * labels):
        state = (1664525 * state + 1013904223) % 2**32
        values.append(-((state >> 10) / 2**18))
    return torch.tensor(values, dtype=torch.float32).reshape(frames, labels)


def tokens_of(seed, frames, labels, count):
    """Returns at most `count` random tokens, as many as the frames allow. Some of them repeat."""
    choose = random.Random(seed)
    tokens = []
    for _ in range(count):
        tokens.append(tokens[-1] if tokens and choose.random() < 0.3 else choose.randrange(labels - 1))
        if len(tokens) + sum(a == b for a, b in zip(tokens, tokens[1:], strict=False)) > frames:
            return tokens[:-1]
    return tokens


def aligned(lp, tokens):
    labels, scores = forced_align(lp[None], torch.tensor([tokens], dtype=torch.int32), blank=lp.shape[1] - 1)
    return labels[0], scores[0]


def random_case(seed, frames, labels, count):
    lp, tokens = emissions(seed, frames, labels), tokens_of(seed, frames, labels, count)
    path, scores = aligned(lp, tokens)
    return {"seed": seed, "frames": frames, "labels": labels, "tokens": tokens, "path": path.tolist(),
            "score": scores.double().sum().item()}  # fmt: skip


def quickstart(program):
    with tempfile.TemporaryDirectory() as folder:
        config = {"question": "What are the emissions?", "models": [str(MODEL)], "decoders": ["ctc_greedy"],
                  "datasets": [{"id": "quickstart", "manifest": str(ROOT / "datasets/quickstart/manifest.jsonl")}],
                  "batch_sizes": [1], "dtypes": ["fp32"], "device": "cpu"}  # fmt: skip
        Path(folder, "config.json").write_text(json.dumps(config))
        subprocess.run([program, "emissions", f"{folder}/config.json", "--output", folder], check=True)
        every = torch.from_numpy(np.load(f"{folder}/emissions.npy"))
        lines = [json.loads(line) for line in Path(folder, "utterances.jsonl").read_text().splitlines()]
        with tarfile.open(MODEL) as archive:
            name = next(n for n in archive.getnames() if n.endswith("tokenizer.model"))
            spelling = sentencepiece.SentencePieceProcessor(model_proto=archive.extractfile(name).read())
    found, begin = {}, 0
    for line in lines:
        lp, begin = every[begin : begin + line["frames"]], begin + line["frames"]
        if line["id"] not in UTTERANCES:
            continue
        tokens = spelling.encode(line["text"])
        path, scores = aligned(lp, tokens)
        spans = merge_tokens(path, scores.exp(), blank=lp.shape[1] - 1)
        found[line["id"]] = {"tokens": tokens, "frames": [span.start for span in spans],
                             "runs": [span.end - span.start for span in spans],
                             "confidence": [round(span.score, 6) for span in spans],
                             "score": scores.double().sum().item()}  # fmt: skip
    return found


def main():
    golden = {"torchaudio": torchaudio.__version__, "random": [random_case(*case) for case in RANDOM],
              "quickstart": quickstart(sys.argv[1])}  # fmt: skip
    (HERE / "data/forced_align.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
