"""A cache-aware FastConformer of full size with random weights: random_streaming.py SMALL.nemo OUT.nemo [--layers 24]

SMALL.nemo, saved by NeMo, gives the configuration, the tokenizer and the names of the tensors; the shape is that of the
0.6B models (24 layers of 1024, prediction network and joint of 640). NeMo and rtfx both open OUT.nemo, so that what they
take for live streams can be set side by side; its words mean nothing. The bias of blank decides how often it speaks:
with the default about one token in four frames, as a trained model does.
"""

import argparse
import io
import math
import re
import tarfile

import torch
import yaml

SIZES = {"d_model": 1024, "channels": 256, "heads": 8, "prediction": 640, "prediction_layers": 2, "joint": 640}


def configuration(config, layers):
    """`config` with the sizes of a large model."""
    config["model_defaults"].update(enc_hidden=1024, pred_hidden=640, joint_hidden=640)
    config["encoder"].update(
        n_layers=layers, d_model=SIZES["d_model"], n_heads=SIZES["heads"], subsampling_conv_channels=SIZES["channels"]
    )
    config["decoder"]["prednet"].update(pred_hidden=640, pred_rnn_layers=SIZES["prediction_layers"])
    config["joint"]["jointnet"].update(joint_hidden=640, encoder_hidden=SIZES["d_model"], pred_hidden=640)
    if "aux_ctc" in config:
        config["aux_ctc"]["decoder"]["feat_in"] = SIZES["d_model"]
    return config


def shape(name, small, config):
    """The shape in the large model of a tensor that has the shape `small` in the small one."""
    d, c, heads = SIZES["d_model"], SIZES["channels"], SIZES["heads"]
    old = config["encoder"]["d_model"], config["encoder"]["subsampling_conv_channels"]
    if name.startswith("preprocessor."):
        return small
    if name.startswith("encoder.pre_encode.out"):
        return (d, c * (small[1] // old[1])) if len(small) == 2 else (d,)
    if name.startswith("encoder.pre_encode"):
        return tuple(c if n == old[1] else n for n in small)
    if "pos_bias" in name:
        return heads, d // heads
    if name.startswith(("encoder.", "ctc_decoder.")):
        return tuple(d * (n // old[0]) if n % old[0] == 0 else n for n in small)
    p, j, v = SIZES["prediction"], SIZES["joint"], config["decoder"]["vocab_size"] + 1
    if name.startswith("decoder.prediction.embed"):
        return v, p
    if "lstm" in name:
        return (4 * p, p) if len(small) == 2 else (4 * p,)
    sizes = {"joint.pred.weight": (j, p), "joint.enc.weight": (j, d)}
    if name.startswith("joint.joint_net"):
        return (small[0], j) if len(small) == 2 else small
    return sizes.get(name, (j,))


def weights(small, config, layers, blank):
    """Random tensors under the names of `small`, which keeps its features' window and filterbank."""
    torch.manual_seed(0)
    state = {}
    for name, tensor in small.items():
        if name.startswith("preprocessor."):
            state[name] = tensor
            continue
        size = shape(name, tuple(tensor.shape), config)
        names = [name]
        if (layer := re.match(r"encoder\.layers\.(\d+)\.(.*)", name)) is not None:
            names = [f"encoder.layers.{n}.{layer[2]}" for n in range(layers)] if layer[1] == "0" else []
        elif name.endswith("_l0"):
            names = [name[:-1] + str(n) for n in range(SIZES["prediction_layers"])]
        for each in names:
            if len(size) == 1 or "pos_bias" in each:
                ones = "norm" in each and each.endswith("weight")
                state[each] = torch.ones(size) if ones else torch.zeros(size)
            else:
                state[each] = torch.randn(size) / math.sqrt(math.prod(size[1:]))
    state["joint.joint_net.2.weight"] *= math.sqrt(2)
    state["joint.joint_net.2.bias"][-1] = blank
    return state


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("small")
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--blank", type=float, default=4.75, help="bias of blank")
    arguments = parser.parse_args()
    with tarfile.open(arguments.small) as source, tarfile.open(arguments.out, "w") as target:
        members = {m.name.removeprefix("./"): source.extractfile(m).read() for m in source if m.isfile()}
        config = yaml.safe_load(members["model_config.yaml"])
        small = torch.load(io.BytesIO(members["model_weights.ckpt"]), map_location="cpu", weights_only=True)
        stream = io.BytesIO()
        torch.save(weights(small, config, arguments.layers, arguments.blank), stream)
        members["model_weights.ckpt"] = stream.getvalue()
        members["model_config.yaml"] = yaml.safe_dump(configuration(config, arguments.layers)).encode()
        for name, content in members.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(content)
            target.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    main()
