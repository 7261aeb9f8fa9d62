#!/usr/bin/env python3
"""Times NeMo's cache-aware steps over many streams at once, and says how many live streams they allow.

    stream_steps.py MODEL.nemo --manifest MANIFEST [--streams 64 256 1024] [--closer 2] [--steps 100]
                    [--att-context-size 70 6] [--dtype bfloat16] [-o FILE.jsonl]

All streams of one number form one batch. A step computes the features of the next chunk with NeMo's
preprocessor, conformer_stream_step() with its caches and greedy search (label-looping in CUDA graphs), and the text of
every stream. The streams play the recordings of MANIFEST in a ring and never end. Python's garbage collector does not
look at what exists before the steps (gc.freeze()). Its collections stop NeMo's steps for some 0.4 s, as
fastconformer-trt found (docs/09-live-streaming.md).

`capacity` is streams * (seconds of a chunk) / (median seconds of a step). So many live streams are possible if steps
follow each other without a pause. A stream waits at least for one step. A capacity below the number of streams cannot be
reached, since the batch never fills. No request arrives late, no batch is partly full, and no stream ends. The number
that `rtfx stream` finds by the rule c120 contains all of this.

`joules_per_hour` is the energy of the GPU for an hour of audio at full load, or null
where NVML does not count it.
"""

import argparse
import ctypes
import gc
import json
import math
import statistics
import sys
import time
from pathlib import Path

import soundfile
import torch
from nemo.utils import logging
from omegaconf import open_dict
from manifests import utterances_of
from restore import about, restored

logging.setLevel(logging.ERROR)


def prepared(options):
    """Returns the model with the search that a server would use."""
    model = restored(options.model, options.device, options.dtype)
    decoding = model.cfg.decoding
    with open_dict(decoding):
        decoding.strategy = "greedy_batch"
        decoding.greedy = {"max_symbols": 10, "loop_labels": True, "use_cuda_graph_decoder": options.graphs}
        decoding.preserve_alignments = False
    model.change_decoding_strategy(decoding)
    if options.att_context_size:
        model.encoder.set_default_att_context_size(options.att_context_size)
    model.encoder.setup_streaming_params()
    return model


def ring(manifest, limit):
    """Returns all recordings one after the other, [n] float32."""
    folder, clips = Path(manifest).parent, []
    for line in utterances_of(manifest)[:limit]:
        samples, rate = soundfile.read(folder / line["audio_filepath"], dtype="float32")
        if rate != 16000:
            sys.exit(f"{line['audio_filepath']}: {rate} Hz; 16000 is needed")
        clips.append(torch.from_numpy(samples))
    return torch.cat(clips)


class Chunks:
    """The samples of each stream's next chunk, with the earlier samples that its features still need."""

    def __init__(self, samples, streams, frames, before, hop=160, window=400):
        self.frames, self.before, self.hop = frames, before, hop
        self.width = (frames + before) * hop + window
        self.starts = torch.arange(streams) * 7919 % len(samples)
        self.samples = torch.cat([samples, samples[: self.width]])
        self.length, self.step = len(samples), 0

    def __call__(self):
        starts = (self.starts + self.step * self.frames * self.hop) % self.length
        self.step += 1
        return torch.stack([self.samples[s : s + self.width] for s in starts.tolist()])


def energy_counter():
    """Returns a function that reads the joules that the GPU has used so far, or None without NVML's counter."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    handle, millijoules = ctypes.c_void_p(), ctypes.c_ulonglong()
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}".encode()

    def read():
        return nvml.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(millijoules))

    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(handle)) or read():
        return None
    return lambda: (read(), millijoules.value / 1000)[1]


def percentile(times, share):
    """Returns the percentile of the sorted times by the nearest rank."""
    return times[max(0, math.ceil(share * len(times)) - 1)]


def measured(model, samples, streams, options, joules):
    config = model.encoder.streaming_cfg
    take = lambda value: value[1] if isinstance(value, list) else value  # noqa: E731
    frames, before = take(config.chunk_size), take(config.pre_encode_cache_size)
    chunks = Chunks(samples, streams, frames, before)
    dtype = next(model.parameters()).dtype
    caches = model.encoder.get_initial_cache_state(batch_size=streams, dtype=dtype)
    hypotheses, times, tokens = None, [], 0
    synchronize = torch.cuda.synchronize if options.device != "cpu" else lambda: None
    hosts = [chunks() for _ in range(options.warmup + options.steps)]  # so the GPU never waits for them
    start = None
    for step, host in enumerate(hosts):
        if step == options.warmup:
            gc.collect()
            gc.freeze()
        synchronize()
        if step == options.warmup and joules:
            start = joules()
        begin = time.perf_counter()
        audio = host.to(options.device, non_blocking=True)
        length = torch.full((streams,), audio.shape[1], device=options.device)
        features, _ = model.preprocessor(input_signal=audio, length=length)
        features = features[:, :, : frames + before].to(dtype)
        found = model.conformer_stream_step(
            processed_signal=features,
            processed_signal_length=torch.full((streams,), features.shape[2], device=options.device),
            cache_last_channel=caches[0],
            cache_last_time=caches[1],
            cache_last_channel_len=caches[2],
            keep_all_outputs=False,
            previous_hypotheses=hypotheses,
            drop_extra_pre_encoded=config.drop_extra_pre_encoded,
        )
        caches, hypotheses = found[2:5], found[5]
        for hypothesis in hypotheses:
            hypothesis.text
        synchronize()
        if step >= options.warmup:
            times.append(time.perf_counter() - begin)
        tokens = sum(len(hypothesis.y_sequence) for hypothesis in hypotheses)
    used = None if start is None else joules() - start
    seconds = frames * 0.01
    times.sort()
    figures = {"mean": statistics.mean(times), "p50": statistics.median(times), "p95": percentile(times, 0.95),
               "p99": percentile(times, 0.99), "max": times[-1]}  # fmt: skip
    return {
        "streams": streams,
        "chunk_seconds": seconds,
        "steps": len(times),
        "step_ms": {name: 1e3 * value for name, value in figures.items()},
        "capacity": streams * seconds / figures["p50"],
        "joules_per_hour": None if used is None else 3600 * used / (streams * seconds * len(times)),
        "tokens_per_frame": tokens / (streams * (options.warmup + options.steps) * config.valid_out_len),
    }


def main():
    import nemo

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--manifest", required=True)
    parser.add_argument("--limit", type=int, help="recordings")
    parser.add_argument("--streams", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--closer", type=int, default=0, help="how often the best capacity so far is tried as the next number of streams")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--att-context-size", type=int, nargs=2, help="left and right, of a model with several")
    parser.add_argument("--no-graphs", dest="graphs", action="store_false")
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    model, samples = prepared(options), ring(options.manifest, options.limit)
    on_gpu = options.device != "cpu"
    joules = energy_counter() if on_gpu else None
    setting = {"model": Path(options.model).name, "dtype": options.dtype, "nemo": nemo.__version__,
               "device": torch.cuda.get_device_name() if on_gpu else "cpu", "graphs": options.graphs,
               "att_context_size": list(model.encoder.att_context_size)}  # fmt: skip
    setting |= about(options.model, options.device)
    best, numbers, closer = 0, list(options.streams), options.closer
    while numbers:
        streams = numbers.pop(0)
        with torch.inference_mode():
            record = measured(model, samples, streams, options, joules) | setting
        print(json.dumps(record), flush=True)
        if options.output:
            with open(options.output, "a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        if record["capacity"] >= streams:
            best = max(best, int(record["capacity"]))
        if not numbers and closer > 0 and best < max(options.streams) and best not in (0, streams):
            numbers, closer = [best], closer - 1


if __name__ == "__main__":
    main()
