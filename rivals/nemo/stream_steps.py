#!/usr/bin/env python3
"""Times NeMo's cache-aware steps over many streams at once, and says how many live streams they allow.

    stream_steps.py MODEL.nemo --manifest MANIFEST [--streams 64 256 1024] [--steps 30] [--att-context-size 70 6]
                    [--dtype bf16] [-o FILE.jsonl]

All streams of one number form one batch. A step computes the features of the next chunk with NeMo's
preprocessor, conformer_stream_step() with its caches and greedy search (label-looping in CUDA graphs), and the text of
every stream. The streams play the recordings of MANIFEST in a ring and never end. `capacity` is streams * (seconds of a
chunk) / (mean seconds of a step). That many live streams are possible if steps follow each other without a pause. A
stream waits at least for one step.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import soundfile
import torch
from nemo.utils import logging
from omegaconf import open_dict
from restore import restored

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
    for line in Path(manifest).read_text(encoding="utf-8").splitlines()[:limit]:
        samples, rate = soundfile.read(folder / json.loads(line)["audio_filepath"], dtype="float32")
        if rate != 16000:
            sys.exit(f"{line}: {rate} Hz; 16000 is needed")
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


def measured(model, samples, streams, options):
    config = model.encoder.streaming_cfg
    take = lambda value: value[1] if isinstance(value, list) else value  # noqa: E731
    frames, before = take(config.chunk_size), take(config.pre_encode_cache_size)
    chunks = Chunks(samples, streams, frames, before)
    dtype = next(model.parameters()).dtype
    caches = model.encoder.get_initial_cache_state(batch_size=streams, dtype=dtype)
    hypotheses, times, tokens = None, [], 0
    for step in range(options.warmup + options.steps):
        host = chunks()
        torch.cuda.synchronize()
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
        torch.cuda.synchronize()
        if step >= options.warmup:
            times.append(time.perf_counter() - begin)
        tokens = sum(len(hypothesis.y_sequence) for hypothesis in hypotheses)
    seconds = frames * 0.01
    times.sort()
    mean = statistics.mean(times)
    return {
        "streams": streams,
        "chunk_seconds": seconds,
        "step_ms": {"mean": 1e3 * mean, "p50": 1e3 * statistics.median(times), "max": 1e3 * times[-1]},
        "capacity": streams * seconds / mean,
        "tokens_per_frame": tokens / (streams * (options.warmup + options.steps) * config.valid_out_len),
    }


def main():
    import nemo

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--manifest", required=True)
    parser.add_argument("--limit", type=int, help="recordings")
    parser.add_argument("--streams", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--att-context-size", type=int, nargs=2, help="left and right, of a model with several")
    parser.add_argument("--no-graphs", dest="graphs", action="store_false")
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    model, samples = prepared(options), ring(options.manifest, options.limit)
    for streams in options.streams:
        with torch.inference_mode():
            record = measured(model, samples, streams, options)
        record |= {"model": Path(options.model).name, "dtype": options.dtype, "nemo": nemo.__version__,
                   "device": torch.cuda.get_device_name(), "graphs": options.graphs}  # fmt: skip
        print(json.dumps(record), flush=True)
        if options.output:
            with open(options.output, "a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
