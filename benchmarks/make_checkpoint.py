"""Writes a .nemo file of the shape of a Parakeet RNN-T 0.6B with random weights, as NeMo's save_to()
packs one: 2.4 GB in fp32. It serves to measure how long loading takes, and its transcripts are noise.

    .venv/bin/python benchmarks/make_checkpoint.py data/shape_0.6b.nemo [--layers 24] [--dtype fp32]

Needs torch.
"""

import argparse
import collections
import io
import json
import tarfile
from pathlib import Path

import torch

WIDTH, HEADS, KERNEL, CHANNELS, MELS = 1024, 8, 9, 256, 80
PREDICTION, LAYERS_LSTM, VOCABULARY = 640, 2, 1024


def shapes(layers):
    yield "encoder.pre_encode.conv.0", (CHANNELS, 1, 3, 3)
    for i in (2, 5):
        yield f"encoder.pre_encode.conv.{i}", (CHANNELS, 1, 3, 3)
        yield f"encoder.pre_encode.conv.{i + 1}", (CHANNELS, CHANNELS, 1, 1)
    yield "encoder.pre_encode.out", (WIDTH, CHANNELS * MELS // 8)
    for i in range(layers):
        layer = f"encoder.layers.{i}."
        for part in ("feed_forward1", "feed_forward2"):
            yield f"{layer}norm_{part}", (WIDTH,)
            yield f"{layer}{part}.linear1", (4 * WIDTH, WIDTH)
            yield f"{layer}{part}.linear2", (WIDTH, 4 * WIDTH)
        for part in ("norm_self_att", "norm_conv", "norm_out", "conv.batch_norm"):
            yield layer + part, (WIDTH,)
        for part in ("q", "k", "v", "out"):
            yield f"{layer}self_attn.linear_{part}", (WIDTH, WIDTH)
        yield f"{layer}conv.pointwise_conv1", (2 * WIDTH, WIDTH, 1)
        yield f"{layer}conv.depthwise_conv", (WIDTH, 1, KERNEL)
        yield f"{layer}conv.pointwise_conv2", (WIDTH, WIDTH, 1)
    yield "joint.enc", (PREDICTION, WIDTH)
    yield "joint.pred", (PREDICTION, PREDICTION)
    yield "joint.joint_net.2", (VOCABULARY + 1, PREDICTION)


def state_dict(layers, dtype):
    generator = torch.Generator().manual_seed(0)

    def random(*shape):
        fan_in = max(1, torch.Size(shape[1:]).numel())
        return (torch.randn(shape, generator=generator) * fan_in**-0.5).to(dtype)

    weights = collections.OrderedDict()
    for name, shape in shapes(layers):
        norm = len(shape) == 1
        weights[name + ".weight"] = torch.ones(shape, dtype=dtype) if norm else random(*shape)
        weights[name + ".bias"] = torch.zeros(shape[0], dtype=dtype)
    for i in range(layers):
        layer = f"encoder.layers.{i}."
        weights[layer + "self_attn.linear_pos.weight"] = random(WIDTH, WIDTH)
        for bias in "uv":
            weights[f"{layer}self_attn.pos_bias_{bias}"] = random(HEADS, WIDTH // HEADS)
        weights[layer + "conv.batch_norm.running_mean"] = torch.zeros(WIDTH, dtype=dtype)
        weights[layer + "conv.batch_norm.running_var"] = torch.ones(WIDTH, dtype=dtype)
    table = random(VOCABULARY + 1, PREDICTION)
    table[-1] = 0
    weights["decoder.prediction.embed.weight"] = table
    for i in range(LAYERS_LSTM):
        for part in ("ih", "hh"):
            name = f"decoder.prediction.dec_rnn.lstm.{{}}_{part}_l{i}"
            weights[name.format("weight")] = random(4 * PREDICTION, PREDICTION)
            weights[name.format("bias")] = torch.zeros(4 * PREDICTION, dtype=dtype)
    weights._metadata = collections.OrderedDict({"": {"version": 1}})
    return weights


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--dtype", choices=["fp32", "fp16", "bf16"], default="fp32")
    arguments = parser.parse_args()
    dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[arguments.dtype]
    characters = [chr(0x4E00 + i) for i in range(VOCABULARY)]
    config = {  # JSON is YAML
        "target": "nemo.collections.asr.models.rnnt_models.EncDecRNNTModel",
        "labels": characters,
        "preprocessor": {"features": MELS, "normalize": "per_feature"},
        "encoder": {
            "_target_": "nemo.collections.asr.modules.ConformerEncoder",
            "subsampling": "dw_striding",
            "n_heads": HEADS,
        },
        "decoding": {"greedy": {"max_symbols": 10}},
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    weights = arguments.output.with_suffix(".ckpt")
    torch.save(state_dict(arguments.layers, dtype), weights)
    with tarfile.open(arguments.output, "w") as archive:
        text = json.dumps(config, ensure_ascii=False).encode()
        entry = tarfile.TarInfo("./model_config.yaml")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
        archive.add(weights, "./model_weights.ckpt")
    weights.unlink()
    print(f"{arguments.output}: {arguments.output.stat().st_size / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
