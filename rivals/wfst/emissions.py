"""Reads the files of `rtfx emissions`, and scores results over them."""

import json
import re
import statistics
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass
class Utterance:
    id: str
    seconds: float
    words: list  # words of the reference; None without one
    lp: np.ndarray  # [frames, V+1] float32: ln p, blank in the last column


def words(text):
    return re.findall(r"[a-z0-9']+", text.lower())


def read(folder):
    """Returns the utterances, the longest first."""
    folder = Path(folder)
    for name in ("emissions.npy", "utterances.jsonl"):
        if not (folder / name).is_file():
            raise SystemExit(f"{folder / name}: no such file; make it with `rtfx emissions`")
    lp = np.load(folder / "emissions.npy", mmap_mode="r")
    utterances, begin = [], 0
    # str.splitlines() would also divide at U+2028 and the like.
    for line in (folder / "utterances.jsonl").read_text(encoding="utf-8").split("\n"):
        if not line:
            continue
        about = json.loads(line)
        end = begin + about["frames"]
        text = about["text"]
        own = np.ascontiguousarray(lp[begin:end])
        utterances.append(Utterance(about["id"], about["seconds"], text and words(text), own))
        begin = end
    if begin != len(lp):
        raise SystemExit(f"{folder}: {len(lp)} frames, but {begin} in utterances.jsonl")
    return sorted(utterances, key=lambda u: -len(u.lp))


def edits(reference, found):
    costs = list(range(len(found) + 1))
    for i, word in enumerate(reference, start=1):
        diagonal, costs[0] = costs[0], i
        for j, other in enumerate(found, start=1):
            kept = diagonal + (word != other)
            diagonal, costs[j] = costs[j], min(costs[j] + 1, costs[j - 1] + 1, kept)
    return costs[-1]


def score(utterances, texts):
    """Scores `texts`, a list of words for each utterance."""
    scored = [(u.words, t) for u, t in zip(utterances, texts) if u.words is not None]
    total = sum(len(reference) for reference, _ in scored)
    errors = sum(edits(reference, text) for reference, text in scored)
    return {
        "utterances": len(utterances),
        "audio_seconds": round(sum(u.seconds for u in utterances), 2),
        "frames": sum(len(u.lp) for u in utterances),
        "wer": round(100 * errors / total, 3) if total else None,
        "empty": sum(not text for text in texts),
    }


def times(seconds, audio_seconds):
    median = statistics.median(seconds)
    return {
        "decode_seconds": round(median, 5),
        "decode_seconds_all": [round(s, 5) for s in seconds],
        "rtfx": round(audio_seconds / median, 1),
    }
