#!/usr/bin/env python3
"""Times NeMo's own transcribe() with its search and with one of rtfx (rtfx.nemo.accelerate), and compares the texts,
tokens and frames.

    transcribe.py MODEL.nemo... --manifest MANIFEST [--limit N] [--batch 1 32] [--device cpu] [--whole | --best] [-o FILE.jsonl]

The script prints a table, and FILE gets a line for each model and batch size. All searches take turns, `--rounds` times
after one round that is not measured. --whole also times rtfx's own transcribe() from the same files to texts, with its
own reading, features and encoder. CPU seconds are those of all threads and of NeMo's workers. `wer` is the word error
rate of each as NeMo counts it. NeMo and the wheel of rtfx must be in one environment.

--best compares NeMo's transcribe() with rtfx's own alone, each at its fastest batch size: each has two calls with every
batch size, of which the second counts. Then both take turns with the fastest, `--rounds` times after one turn
that is not measured. FILE gets a line for each model.
"""

import argparse
import gc
import json
import os
import platform
import resource
import statistics
import sys
import time
from functools import partial
from pathlib import Path

import torch
from nemo.collections.asr.metrics.wer import word_error_rate
from nemo.utils import logging

import rtfx
import rtfx.nemo
from manifests import utterances_of
from restore import about, restored

logging.setLevel(logging.ERROR)

DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}  # torch's names, and rtfx's


def cpu_seconds():
    """Returns the CPU seconds of all threads of this process, and of its child processes that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class FullCollections:
    """Counts the seconds of full collections by Python's garbage collector."""

    def __init__(self):
        self.seconds = self._begin = 0.0

    def __enter__(self):
        gc.callbacks.append(self._note)
        return self

    def __exit__(self, *_):
        gc.callbacks.remove(self._note)

    def _note(self, phase, info):
        if info["generation"] != 2:
            return
        if phase == "start":
            self._begin = time.perf_counter()
        else:
            self.seconds += time.perf_counter() - self._begin


def timed(call, device):
    """Returns ({"seconds", "cpu_seconds", "collection_seconds"}, result) of a call.

    CPU seconds count all threads, and the processes that read files for NeMo (--workers), which end with each call. On a
    machine with other work they vary less than seconds of wall time. Garbage is collected before the clock starts.
    Otherwise a full collection, which is long in a process with NeMo, would fall into a call of either side.
    "collection_seconds" are those of full collections during the call."""
    gc.collect()
    begin, cpu_begin = time.perf_counter(), cpu_seconds()
    with FullCollections() as collections:
        found = call()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return {"seconds": time.perf_counter() - begin, "cpu_seconds": cpu_seconds() - cpu_begin,
            "collection_seconds": collections.seconds}, found  # fmt: skip


def as_lists(hypothesis):
    return tuple([int(value) for value in values] for values in (hypothesis.y_sequence, hypothesis.timestamp))


def call_of_nemo(model, files, options, batch):
    return model.transcribe(files, batch_size=batch, return_hypotheses=True, num_workers=options.workers, verbose=False)


def measured(model, accelerated, whole, files, references, batch, options):
    """Returns the record of one batch size. `whole` is an rtfx.Model, whose transcribe() is timed too, or None."""
    nemos = partial(call_of_nemo, model, files, options, batch)
    rounds = []
    for _ in range(options.rounds + 1):
        before, theirs = timed(nemos, model.device)
        with accelerated:
            after, ours = timed(nemos, model.device)
        rounds.append({"before": before, "after": after})
        if whole:
            decoder = accelerated.decoder.name
            rounds[-1]["whole"], alone = timed(lambda: whole.transcribe(files, batch, decoder=decoder), model.device)
    equal = {
        "texts": sum(a.text == b.text for a, b in zip(theirs, ours, strict=True)),
        "tokens_and_frames": sum(as_lists(a) == as_lists(b) for a, b in zip(theirs, ours, strict=True)),
    }
    texts = {"before": theirs, "after": ours}
    if whole:
        equal["whole_texts"] = sum(a.text == b.text for a, b in zip(theirs, alone, strict=True))
        texts["whole"] = alone
    wer = {when: round(word_error_rate([one.text for one in all_of], references), 6) for when, all_of in texts.items()}
    return {when: [each[when] for each in rounds[1:]] for when in rounds[0]} | {"equal": equal, "wer": wer}


def measured_at_best(model, whole, files, references, options):
    """Returns the seconds of each side with every batch size ("sweep"), its fastest batch size and its rounds with it."""
    sides = {"nemo": partial(call_of_nemo, model, files, options), "whole": partial(whole.transcribe, files)}
    sweep, found = {}, {}
    for side, call in sides.items():
        sweep[side] = {}
        for batch in options.batch:
            call(batch)  # allocates, and records CUDA graphs
            sweep[side][batch] = timed(partial(call, batch), model.device)[0]["seconds"]
    fastest = {side: min(seconds, key=seconds.get) for side, seconds in sweep.items()}
    for side, call in sides.items():  # rtfx's first turn after NeMo's calls took longer on an H100
        call(fastest[side])
    rounds = {side: [] for side in sides}
    for i in range(options.rounds):
        for side in sorted(sides, reverse=i % 2 == 1):  # each side comes first in every second round
            times, found[side] = timed(partial(sides[side], fastest[side]), model.device)
            rounds[side].append(times)
    texts = {side: [one.text for one in results] for side, results in found.items()}
    return rounds | {
        "sweep": sweep,
        "batch": fastest,
        "equal": {"texts": sum(a == b for a, b in zip(texts["nemo"], texts["whole"], strict=True))},
        "wer": {side: round(word_error_rate(each, references), 6) for side, each in texts.items()},
    }


def machine(device):
    if device.startswith("cuda"):
        return torch.cuda.get_device_name()
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = {line.split(": ")[1] for line in lines if line.startswith("model name")}
    return f"{', '.join(names) or platform.machine()}, {os.cpu_count()} cores"


def records(options):
    import nemo

    utterances = utterances_of(options.manifest)[: options.limit]
    if options.longest_first:
        utterances.sort(key=lambda one: -one["duration"])
    files = [str(Path(options.manifest).parent / one["audio_filepath"]) for one in utterances]
    references = [one.get("text", "") for one in utterances]
    for path in options.models:
        model = restored(path, options.device, options.dtype)
        said = {
            "model": Path(path).stem,
            "device": machine(options.device),
            "dtype": options.dtype,
            "workers": options.workers,
            "utterances": len(files),
            "audio_seconds": round(sum(one["duration"] for one in utterances), 2),
            "versions": {"nemo": nemo.__version__, "torch": torch.__version__, "rtfx": rtfx.version()},
        } | about(path, options.device)
        if options.best:
            whole = rtfx.load(path, options.device, DTYPES[options.dtype])
            yield said | measured_at_best(model, whole, files, references, options)
            continue
        try:
            accelerated = rtfx.nemo.accelerate(model)
        except rtfx.InputError as error:
            print(f"{Path(path).name}: {error}", file=sys.stderr)
            continue
        whole = options.whole and rtfx.load(path, options.device, DTYPES[options.dtype])
        for batch in options.batch:
            yield said | {"batch": batch, "decoder": accelerated.decoder.name} | measured(model, accelerated, whole, files, references, batch, options)


def row(record):
    def median(when, what):
        return statistics.median(times[what] for times in record[when])

    cells = [record["model"], record["batch"]]
    for when, what in (("after", "seconds"), ("after", "cpu_seconds"), ("whole", "seconds")):
        if when not in record:
            cells.append("")
            continue
        before, after = median("before", what), median(when, what)
        cells.append(f"{before:.2f} : {after:.2f} ({before / after:.2f})")
    cells += [f"{record['equal'][key]} of {record['utterances']}" for key in ("texts", "tokens_and_frames")]
    return "| " + " | ".join(map(str, cells)) + " |"


def row_at_best(record):
    mean = {side: statistics.mean(times["seconds"] for times in record[side]) for side in ("nemo", "whole")}
    cells = [record["model"], *(f"{record['batch'][side]}: {mean[side]:.2f}" for side in mean)]
    cells += [f"{mean['nemo'] / mean['whole']:.2f}", f"{record['equal']['texts']} of {record['utterances']}"]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL.nemo")
    parser.add_argument("--manifest", required=True)
    parser.add_argument("--limit", type=int, help="only the first so many utterances")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=list(DTYPES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0, help="processes that read files for NeMo")
    parser.add_argument("--longest-first", action="store_true", help="files by length, as rtfx takes them by itself")
    parser.add_argument("--whole", action="store_true", help="rtfx's own transcribe() too")
    parser.add_argument("--best", action="store_true", help="NeMo's and rtfx's own transcribe(), each at its best batch size")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.best:
        print("| model | NeMo's best batch: seconds | that of rtfx's transcribe(): seconds | ratio | equal texts |")
        print("|---|--:|--:|--:|--:|", flush=True)
    else:
        print("| model | batch | seconds, NeMo's : with rtfx's search | CPU seconds | seconds, NeMo's : rtfx's own transcribe() "
              "| equal texts | equal tokens and frames |")  # fmt: skip
        print("|---|--:|--:|--:|--:|--:|--:|", flush=True)
    for record in records(options):
        print((row_at_best if options.best else row)(record), flush=True)
        if options.output:
            with options.output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
