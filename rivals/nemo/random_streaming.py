"""Makes a cache-aware FastConformer of full size with random weights that returns tokens at a natural rate:

    random_streaming.py SMALL.nemo OUT.nemo AUDIO... [--layers 24] [--rate 0.25]

SMALL.nemo, saved by NeMo, gives the configuration, the tokenizer and the names of the tensors. The shape is that of the
0.6B models: 24 layers of 1024, prediction network and joint network of 640. NeMo and rtfx both open OUT.nemo, so that
their times for live streams can be compared. Its words mean nothing.

The frames of a random encoder hardly differ, so a transducer on them returns nothing or one token without end. The
script therefore scales the frames of the encoder, and the outputs of the prediction network, to a mean of 0 and a
deviation of 1 over AUDIO. Then it searches the bias of blank at which NeMo's greedy search finds --rate tokens in a
frame, like a trained model.
AUDIO should be the audio of the measurement. A model fitted to three recordings of one reader found 0.5 to 3.6 tokens
in a frame of other readers.
"""

import argparse
import io
import math
import re
import tarfile
import tempfile
from pathlib import Path

import soundfile
import torch
import yaml
from nemo.utils import logging
from restore import restored

logging.setLevel(logging.ERROR)

SIZES = {"d_model": 1024, "channels": 256, "heads": 8, "prediction": 640, "prediction_layers": 2, "joint": 640}


def configuration(config, layers):
    """Returns `config` with the sizes of a large model."""
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
    """Returns the shape in the large model of a tensor with the shape `small` in the small one."""
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


def weights(small, config, layers):
    """Returns random tensors under the names of `small`. The window and filterbank of the features are kept."""
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
    return state


def write_large(small, path, layers):
    with tarfile.open(small) as source, tarfile.open(path, "w") as target:
        members = {m.name.removeprefix("./"): source.extractfile(m).read() for m in source if m.isfile()}
        config = yaml.safe_load(members["model_config.yaml"])
        tensors = torch.load(io.BytesIO(members["model_weights.ckpt"]), map_location="cpu", weights_only=True)
        stream = io.BytesIO()
        torch.save(weights(tensors, config, layers), stream)
        members["model_weights.ckpt"] = stream.getvalue()
        members["model_config.yaml"] = yaml.safe_dump(configuration(config, layers)).encode()
        for name, content in members.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(content)
            target.addfile(entry, io.BytesIO(content))


def encoded(model, files):
    """Returns frames [B, D, T] and lengths [B] of the recordings, which pass through the encoder one by one."""
    frames = []
    for file in files:
        samples = torch.from_numpy(soundfile.read(file, dtype="float32")[0])[None].to(model.device)
        length = torch.tensor([samples.shape[1]], device=model.device)
        features, length = model.preprocessor(input_signal=samples, length=length)
        frames.append(model.encoder(audio_signal=features, length=length)[0][0].T)
    lengths = torch.tensor([len(one) for one in frames], device=model.device)
    return torch.nn.utils.rnn.pad_sequence(frames, batch_first=True).transpose(1, 2), lengths


def standardise(layer, inputs):
    """Scales the layer so that its outputs over `inputs` [N, in] have a mean of 0 and a deviation of about 1."""
    layer.weight /= inputs.std(0).mean()
    layer.bias.copy_(-(layer.weight @ inputs.mean(0)))


def speak(model, frames, lengths, rate):
    """Sets the joint network so that greedy search finds `rate` tokens per frame. Returns the rate found."""
    known = torch.cat([one[:, :length].T for one, length in zip(frames, lengths)])
    standardise(model.joint.enc, known)
    labels = torch.randint(model.joint.num_classes_with_blank - 1, (1, 500), device=model.device)
    standardise(model.joint.pred, model.decoder.predict(labels, add_sos=False)[0][0])
    blank, found = model.joint.joint_net[-1].bias[-1], None
    low, high = 0.0, 10.0
    for _ in range(10):
        blank.fill_((low + high) / 2)
        hypotheses = model.decoding.rnnt_decoder_predictions_tensor(frames, lengths)
        found = sum(len(one.y_sequence) for one in hypotheses) / len(known)
        low, high = (blank.item(), high) if found > rate else (low, blank.item())
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("small")
    parser.add_argument("out")
    parser.add_argument("audio", nargs="+")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--rate", type=float, default=0.25, help="tokens in a frame")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "silent.nemo")
        write_large(arguments.small, path, arguments.layers)
        model = restored(path, "cuda" if torch.cuda.is_available() else "cpu", "float32")
        with torch.inference_mode():
            frames, lengths = encoded(model, arguments.audio)
            found = speak(model, frames, lengths, arguments.rate)
        model.save_to(arguments.out)
    print(f"{arguments.out}: {found:.2f} tokens in a frame, {sum(lengths).item()} frames")


if __name__ == "__main__":
    main()
