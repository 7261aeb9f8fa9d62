#!/usr/bin/env python3
"""Writes a checkpoint of a larger shape that computes the function of a small one.

    .venv/bin/python models/widen_checkpoint.py SMALL.nemo OUT.nemo --shape parakeet-rnnt-0.6b

The written file recognises what the small one does, and costs what a checkpoint of its shape costs.
It stands in for a checkpoint that is not at hand when speed is measured. The method is Net2Net
(Chen et al. 2016):

- A channel has copies side by side. They hold equal values, so norms keep their mean and variance.
  A weight into a channel is split among its copies at random, and the parts add up to it.
- The sinusoids of relative positions of the small width are a subset of those of the large one.
- An added encoder layer has units in pairs, with equal values and opposite outgoing weights. Its
  weights and activations are those of a working layer, and its sums are zero.
- Without biases, one copy of a channel behind each norm is constant. Its outgoing weights are the
  biases.
- Added mel bins lie above the others, where no convolution mixes them with the small model's.
- An added LSTM layer works where tanh is linear.
- Added tokens have a very low bias, and are unused pieces of the tokenizer.
- A prompt layer computes relu(x) - relu(-x), which is x, whatever the prompt.

It needs torch and ruamel.yaml. docs/reference/models.md says what is kept exactly.
"""

import argparse
import hashlib
import io
import math
import pickle
import re
import struct
import tarfile
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from ruamel.yaml import YAML, YAMLError

NORM_EPSILON = 1e-5  # of NeMo's layer norms
SILU_OF_ONE = 1 / (1 + math.exp(-1))
UNUSED_BIAS = -1000.0  # of an added token: its probability is 0 in fp32
LINEAR_GAIN = 2.0**-10  # inputs of tanh that it changes by a millionth at most
LOST = 2.0**-80  # fp32 sums lose products with weights of this size; in fp16 they are 0
OPEN, SHUT = 100.0, -100.0  # biases of an LSTM's gates
UNUSED = 5  # SentencePiece's type of a piece that is never produced
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
LINEAR = (
    *(f"feed_forward{i}.linear{j}" for i in (1, 2) for j in (1, 2)),
    *(f"self_attn.linear_{kind}" for kind in ("q", "k", "v", "out")),
    *(f"conv.{kind}" for kind in ("pointwise_conv1", "depthwise_conv", "pointwise_conv2")),
)
LAYER_TENSOR = re.compile(
    rf"({'|'.join(map(re.escape, LINEAR))}|norm_\w+|conv\.batch_norm)\.\w+"
    r"|self_attn\.(linear_pos\.weight|pos_bias_[uv])"
)
BRANCHES = {  # what makes the units of a branch: what they go into
    "feed_forward1.linear1": "feed_forward1.linear2",
    "feed_forward2.linear1": "feed_forward2.linear2",
    "self_attn.linear_v": "self_attn.linear_out",
    ("conv.pointwise_conv1", "conv.depthwise_conv", "conv.batch_norm"): "conv.pointwise_conv2",
}
NORMS = ("norm_feed_forward1", "norm_self_att", "norm_conv", "norm_feed_forward2")
CTC_CLASS = {
    "EncDecHybridRNNTCTCBPEModel": "nemo.collections.asr.models.ctc_bpe_models.EncDecCTCModelBPE",
    "EncDecHybridRNNTCTCModel": "nemo.collections.asr.models.ctc_models.EncDecCTCModel",
}
# The prompt layer of Nemotron 3.5 ASR, and some of its languages by their prompts.
PROMPT_CLASS = "nemo.collections.asr.models.rnnt_bpe_models_prompt.EncDecRNNTBPEModelWithPrompt"
PROMPTS = 128
LANGUAGES = {"en-US": 0, "es-US": 3, "fr-FR": 8, "de-DE": 9, "auto": 101}


class UserError(Exception):
    """where: problem; remedy"""


@dataclass(frozen=True)
class Shape:
    """The sizes of a model. Without a transducer, those of its networks and the prompts are 0."""

    d_model: int
    layers: int
    heads: int
    channels: int
    mels: int
    biases: bool
    x_scaling: bool
    vocabulary: int
    prediction_width: int = 0
    prediction_layers: int = 0
    joint_width: int = 0
    prompts: int = 0


MULTIPLES = {
    "d_model": "width of the encoder",
    "heads": "number of attention heads",
    "channels": "number of channels of the sub-sampling convolutions",
    "prediction_width": "width of the LSTM of the prediction network",
    "joint_width": "width of the joint network",
}
COUNTS = {
    "layers": "number of encoder layers",
    "mels": "number of mel bins",
    "vocabulary": "number of tokens without blank",
    "prediction_layers": "number of LSTM layers of the prediction network",
}
XL = dict(d_model=1024, layers=24, heads=8, channels=256, mels=80, vocabulary=1024)
XL |= dict(biases=True, x_scaling=True)
XXL = XL | dict(layers=42, x_scaling=False)
V2 = XL | dict(mels=128, biases=False, x_scaling=False)
LARGE = XL | dict(d_model=512, layers=17)
# Widths that the older small models of width 144 and 176 can have.
SMALL, MEDIUM, LARGE_1K = dict(layers=16), dict(layers=18), dict(d_model=528, layers=17, heads=12)
TRANSDUCER = dict(prediction_width=640, prediction_layers=2, joint_width=640)
# The head and the sizes of published models. Large transducers were published with one LSTM layer, and
# Conformers with 4x sub-sampling and longer kernels: a stand-in keeps those of the small model.
# Streaming shapes need a cache-aware small model. No published model has exactly the shape with
# prompts: it is the one without them, and the prompt layer of Nemotron 3.5 ASR.
SHAPES = {
    "conformer-ctc-small": ("ctc", SMALL),
    "conformer-ctc-medium": ("ctc", MEDIUM),
    "conformer-ctc-large": ("ctc", LARGE | dict(layers=18)),
    "fastconformer-rnnt-large": ("rnnt", LARGE | TRANSDUCER),
    "fastconformer-rnnt-large-1k": ("rnnt", LARGE_1K | TRANSDUCER),
    "fastconformer-tdt-large": ("tdt", LARGE | TRANSDUCER),
    "fastconformer-streaming-0.6b": ("rnnt", XL | TRANSDUCER),
    "parakeet-ctc-0.6b": ("ctc", XL),
    "parakeet-rnnt-0.6b": ("rnnt", XL | TRANSDUCER),
    "parakeet-rnnt-0.6b-prompt": ("rnnt", XL | TRANSDUCER | dict(prompts=PROMPTS)),
    "parakeet-tdt-0.6b-v2": ("tdt", V2 | TRANSDUCER),
    "parakeet-tdt-0.6b-v3": ("tdt", V2 | TRANSDUCER | dict(vocabulary=8192)),
    "parakeet-ctc-1.1b": ("ctc", XXL),
    "parakeet-rnnt-1.1b": ("rnnt", XXL | TRANSDUCER),
    "parakeet-tdt-1.1b": ("tdt", XXL | TRANSDUCER),
}


class Checkpoint:
    """The members of a .nemo archive, its configuration, and its weights in fp32."""

    def __init__(self, path):
        self.path = path
        self.sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        self.yaml = YAML()
        self.yaml.preserve_quotes, self.yaml.width = True, 1 << 20
        try:
            with tarfile.open(path) as archive:
                files = [member for member in archive if member.isfile()]
                self.members = {file.name: archive.extractfile(file).read() for file in files}
            self.config = self.yaml.load(self.members[self.member("model_config.yaml")])
            data = io.BytesIO(self.members[self.member("model_weights.ckpt")])
            weights = torch.load(data, map_location="cpu", weights_only=True)
        except (
            tarfile.TarError, YAMLError, RuntimeError, EOFError, pickle.UnpicklingError
        ) as error:  # fmt: skip
            self.refuse(f"it is damaged ({str(error).splitlines()[0]})", "give a whole .nemo file")
        self.weights = {k: v.float() if v.is_floating_point() else v for k, v in weights.items()}

    def refuse(self, problem, remedy):
        raise UserError(f"{self.path}: {problem}; {remedy}")

    def member(self, ending):
        found = [name for name in self.members if name.endswith(ending)]
        return found[0] if found else self.refuse(f"it holds no {ending}", "give a .nemo file")

    def setting(self, path, otherwise=None):
        """A setting such as encoder.d_model; `otherwise` where it is missing or null."""
        value = self.config
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return otherwise if value is None else value

    def tensor(self, name):
        if name not in self.weights:
            self.refuse(f"it has no tensor {name}", "give a Conformer with relative positions")
        return self.weights[name]

    def named(self, pattern):
        return [name for name in self.weights if re.fullmatch(pattern, name)]

    def mark(self, mark):
        """Keeps the configuration as it is now, with an entry that says what the file is."""
        self.config["stand_in"] = mark
        text = io.StringIO()
        self.yaml.dump(self.config, text)
        self.members[self.member("model_config.yaml")] = text.getvalue().encode()

    @property
    def head(self):
        """rnnt, tdt or ctc. A hybrid is its transducer."""
        if "joint.enc.weight" not in self.weights:
            return "ctc"
        kind = self.setting("decoding.model_type", "rnnt")
        if kind not in ("rnnt", "tdt"):
            self.refuse(f"its transducer is of the kind {kind}", "give an RNN-T, TDT or CTC model")
        return kind

    def keep_ctc_head(self):
        """Makes a CTC model of a hybrid."""
        if self.head == "ctc":
            return
        name = self.setting("target", "").rpartition(".")[2]
        if name not in CTC_CLASS or not self.setting("aux_ctc.decoder"):
            self.refuse("it has no CTC head", "give a hybrid of a transducer and CTC, or a CTC model")
        head = self.config.pop("aux_ctc")
        self.config |= dict(decoder=head["decoder"], target=CTC_CLASS[name])
        self.config["decoding"] = head.get("decoding") or dict(strategy="greedy")
        for section in ("joint", "loss", "interctc"):
            self.config.pop(section, None)
        self.weights = {
            name.removeprefix("ctc_"): value
            for name, value in self.weights.items()
            if not name.startswith(("decoder.", "joint."))
        }

    def take_prompts(self):
        """Makes a model with prompts of a transducer. NeMo's class for them has no CTC head."""
        if self.head == "ctc" or not self.setting("tokenizer"):
            self.refuse("it is no transducer with a tokenizer", "give one, or leave prompts out")
        self.config.setdefault("model_defaults", {}).update(
            initialize_prompt_feature=True, num_prompts=PROMPTS, prompt_dictionary=dict(LANGUAGES)
        )
        self.config |= dict(target=PROMPT_CLASS, num_prompts=PROMPTS)
        for section in ("aux_ctc", "interctc"):
            self.config.pop(section, None)
        self.weights = {
            name: value for name, value in self.weights.items() if not name.startswith("ctc_")
        }

    def shape(self):
        for setting, allowed in {
            "encoder.subsampling": ["dw_striding", "striding"],
            "encoder.self_attention_model": [None, "rel_pos", "rel_pos_local_attn"],
            "encoder.reduction": [None],
            "encoder.conv_norm_type": [None, "batch_norm", "layer_norm"],
        }.items():
            if (value := self.setting(setting)) not in allowed:
                self.refuse(f"{setting} is {value}", f"allowed: {', '.join(map(str, allowed))}")
        heads, head_width = self.tensor("encoder.layers.0.self_attn.pos_bias_u").shape
        outputs = self.named(r"joint\.joint_net\.\d+\.weight|(ctc_)?decoder\.decoder_layers.0.weight")
        if not outputs:
            self.refuse("it has neither a joint network nor a CTC head", "give a whole model")
        labels = {self.weights[name].shape[0] for name in outputs}
        transducer = self.head != "ctc"
        return Shape(
            d_model=heads * head_width,
            layers=len(self.named(r"encoder\.layers\.\d+\.norm_out\.weight")),
            heads=heads,
            channels=self.tensor("encoder.pre_encode.conv.0.weight").shape[0],
            mels=int(self.setting("preprocessor.features", 64)),
            biases="encoder.layers.0.feed_forward1.linear1.bias" in self.weights,
            x_scaling=bool(self.setting("encoder.xscaling", True)),
            vocabulary=max(labels) - 1 - self.setting("joint.num_extra_outputs", 0),
            prediction_width=self.tensor("joint.pred.weight").shape[1] if transducer else 0,
            prediction_layers=len(self.named(r"decoder\..*\.lstm\.weight_ih_l\d+")),
            joint_width=self.tensor("joint.enc.weight").shape[0] if transducer else 0,
        )


def check(small, old, new):
    """Refuses sizes in which the function of `small` cannot be kept."""
    for name, words in (MULTIPLES | COUNTS).items():
        place, had, wanted = "--" + name.replace("_", "-"), getattr(old, name), getattr(new, name)
        has = f"{small.path} has a {words} of {had}"
        if wanted != had == 0:
            raise UserError(f"{place}: {small.path} has no such network; leave {place} out")
        if wanted < had:
            raise UserError(f"{place}: {wanted} is too small, since {has}; give {had} or more")
        if name in MULTIPLES and had and wanted % had:
            raise UserError(f"{place}: {wanted} is no multiple, and {has}; give {had}, {2 * had}, ...")
    width, unit = new.d_model / new.heads, old.d_model // old.heads
    if width % unit or (new.layers > old.layers and width % 2):
        raise UserError(
            f"--heads: a head would have a width of {width:g}, and {small.path} has one of {unit}; "
            f"give --d-model and --heads for an even multiple of {unit}"
        )
    norm = small.setting("encoder.conv_norm_type", "batch_norm")
    if old.biases > new.biases and (norm != "batch_norm" or new.d_model == old.d_model):
        raise UserError(
            f"--no-biases: the biases of {small.path} can be kept as weights only with a larger "
            "--d-model and batch_norm; leave --no-biases out"
        )
    if new.mels > old.mels:
        causal = small.setting("encoder.causal_downsampling", False)
        all_features = small.setting("preprocessor.normalize") == "all_features"
        factor = small.setting("encoder.subsampling_factor", 4)
        uneven = old.mels % factor or new.mels % factor
        if uneven or causal or all_features or not small.named(r"preprocessor\.featurizer\.fb"):
            raise UserError(
                f"--mels: {small.path} would read other features, because it stores no filter bank, "
                f"normalises all bins together, or its sub-sampling is causal or does not divide "
                f"{new.mels}; give {old.mels}"
            )
    if new.vocabulary > old.vocabulary and small.setting("tokenizer.type") != "bpe":
        raise UserError(
            f"--vocabulary: {small.path} has no SentencePiece model to extend; give {old.vocabulary}"
        )


def repeat(value, times, axis=0):
    return value.repeat_interleave(times, axis)


class Widening:
    """The weights of the large model. `weights` holds them in `dtype`, by NeMo's names."""

    def __init__(self, small, new, dtype, seed):
        self.small, self.old, self.new, self.dtype = small, small.shape(), new, dtype
        self.random = torch.Generator().manual_seed(seed)
        self.times = new.d_model // self.old.d_model
        self.head_times = new.heads // self.old.heads
        self.place_times = self.times // self.head_times  # copies of a place within a head
        self.weights, self.unread = {}, set(small.weights)
        for make in (
            self.front_end, self.encoder, self.prediction, self.joint, self.prompt, self.ctc_head,
        ):  # fmt: skip
            make()
        if self.unread:
            small.refuse(
                f"{len(self.unread)} tensors are of no known part, such as {min(self.unread)}",
                "give a model without adapters, prompts, output projection or separate global attention",
            )

    def get(self, name):
        self.unread.discard(name)
        return self.small.tensor(name)

    def put(self, name, value):
        exact = name.startswith("preprocessor.") or ".running_" in name
        keep = exact or not value.is_floating_point()
        self.weights[name] = value.contiguous() if keep else value.to(self.dtype).contiguous()

    def split(self, weight, times):
        """[rows, columns, ...] with each column `times` times. Parts are random, none near zero."""
        shares = torch.rand(*weight.shape[:2], times, generator=self.random) + 0.5
        shares = (shares / shares.sum(2, keepdim=True)).flatten(1)
        return repeat(weight, times, 1) * shares.reshape(*shares.shape, *[1] * (weight.dim() - 2))

    def repeat_heads(self, value):
        """[heads * places, ...] with copies of each head, and of the places in it."""
        value = value.unflatten(0, (self.old.heads, -1))
        return repeat(repeat(value, self.head_times), self.place_times, 1).flatten(0, 1)

    def split_heads(self, weight):
        """[rows, heads * places]: the weights to what repeat_heads made."""
        heads, times = self.old.heads, self.place_times
        weight = weight.reshape(len(weight), heads, 1, -1, 1)
        places = weight.shape[3]
        shape = (len(weight), heads, self.head_times, places, times)
        shares = torch.rand(shape, generator=self.random) + 0.5
        return (weight * (shares / shares.sum((2, 4), keepdim=True))).flatten(1)

    def front_end(self):
        old, new = self.old, self.new
        for name in self.small.named(r"preprocessor\..*"):
            value = self.get(name)
            if name.endswith("featurizer.fb") and new.mels > old.mels:
                more = torch.arange(new.mels - old.mels) % old.mels
                value = torch.cat([value, value.index_select(-2, more)], -2)
            self.put(name, value)
        times = new.channels // old.channels
        for name in self.small.named(r"encoder\.pre_encode\.conv\..*"):
            value = repeat(self.get(name), times)
            dense = value.dim() == 4 and value.shape[1] > 1
            self.put(name, self.split(value, times) if dense else value)
        factor = self.small.setting("encoder.subsampling_factor", 4)
        added = new.mels // factor - old.mels // factor
        scale = math.sqrt(old.d_model) if old.x_scaling else 1.0
        scale /= math.sqrt(new.d_model) if new.x_scaling else 1.0
        weight = self.get("encoder.pre_encode.out.weight").unflatten(1, (old.channels, -1))
        if added:
            weight = torch.nn.functional.pad(weight, (0, added))
        weight = self.split(repeat(weight, self.times), times).flatten(1)
        self.put("encoder.pre_encode.out.weight", weight * scale)
        bias = self.get("encoder.pre_encode.out.bias")
        self.put("encoder.pre_encode.out.bias", repeat(bias, self.times) * scale)
        for name in self.small.named(r"encoder\.pos_bias_[uv]"):
            self.put(name, self.position_bias(self.get(name)))

    def position_bias(self, value):
        """[heads, places]. NeMo divides scores by the root of the width of a head, which grew."""
        return self.repeat_heads(value.flatten()).view(self.new.heads, -1) / math.sqrt(
            self.place_times
        )

    def encoder(self):
        """Spreads the added layers evenly among those of the small model."""
        old, new = self.old.layers, self.new.layers
        target = 0
        for index in range(old):
            layers = [self.layer(index, False)]
            for _ in range((index + 1) * (new - old) // old - index * (new - old) // old):
                layers.append(self.layer(index, True))
            self.normalise(layers)
            for layer in layers:
                for name, value in layer.items():
                    self.put(f"encoder.layers.{target}.{name}", value)
                target += 1

    @staticmethod
    def normalise(layers):
        """The last norm of the small layer moves to the last of `layers`. Those before it pass on
        what is normalised, and each norm undoes what its epsilon took from the one before."""
        last = {key: layers[0][f"norm_out.{key}"] for key in ("weight", "bias")}
        for place, layer in enumerate(layers):
            undo = math.sqrt(1 + NORM_EPSILON) if place else 1.0
            at_end = layer is layers[-1]
            weight, bias = last["weight"], last["bias"]
            layer["norm_out.weight"] = undo * (weight if at_end else torch.ones_like(weight))
            layer["norm_out.bias"] = bias if at_end else torch.zeros_like(bias)

    def layer(self, index, added):
        """A layer's tensors by their names in it. An added layer returns its input, normalised."""
        prefix = f"encoder.layers.{index}."
        names = [name.removeprefix(prefix) for name in self.small.named(re.escape(prefix) + ".*")]
        part = {
            name: self.widened(name, self.get(prefix + name))
            for name in names
            if LAYER_TENSOR.fullmatch(name)
        }
        if self.old.biases > self.new.biases:
            self.drop_biases(part, added)
        if self.old.biases < self.new.biases:
            part |= {f"{name}.bias": torch.zeros(len(part[f"{name}.weight"])) for name in LINEAR}
        if added:
            self.cancel(part)
        return part

    def widened(self, name, value):
        if value.dim() == 0:  # num_batches_tracked
            return value
        if "pos_bias" in name:
            return self.position_bias(value)
        if "linear_pos" in name:
            wide = torch.zeros(self.old.d_model, self.old.d_model // 2, self.times, 2)
            wide[:, :, 0] = value.unflatten(1, (-1, 2))  # pairs of sine and cosine
            return self.repeat_heads(wide.flatten(1))
        if "linear_out.weight" in name:
            return self.split_heads(repeat(value, self.times))
        in_heads = re.search("linear_[qkv]", name)
        wide = self.repeat_heads(value) if in_heads else repeat(value, self.times)
        if value.dim() > 1 and "depthwise" not in name:
            wide = self.split(wide, self.times)
        return wide / math.sqrt(self.place_times) if "linear_q" in name else wide

    def drop_biases(self, part, added):
        """Turns biases into the weights of a constant: of the first channel behind each norm, and
        of the first unit of each branch. Its next copy takes over the weights of the first one."""
        biases = {name: part.pop(f"{name}.bias") for name in LINEAR}
        part["conv.batch_norm.running_mean"] -= biases.pop("conv.depthwise_conv")
        if added:
            return
        for norm in (*NORMS, "conv.batch_norm"):
            part[f"{norm}.weight"][0], part[f"{norm}.bias"][0] = 0, 1
        for name, bias in biases.items():
            weight = part[f"{name}.weight"]
            in_heads = name == "self_attn.linear_out" and self.place_times == 1
            copy = self.new.d_model // self.new.heads if in_heads else 1
            weight[:, copy] += weight[:, 0]
            constant = SILU_OF_ONE if name.endswith(("linear2", "pointwise_conv2")) else 1.0
            weight[:, 0] = (bias / constant).reshape(weight[:, 0].shape)
        for name in ("feed_forward1.linear1", "feed_forward2.linear1", "self_attn.linear_v"):
            part[f"{name}.weight"][0] = 0
            part[f"{name}.weight"][0, 0] = 1

    @staticmethod
    def cancel(part):
        """Makes each second unit of a branch equal to the one before, with opposite weights out."""
        for inner, outer in BRANCHES.items():
            for name, value in part.items():
                if name.startswith(inner) and value.dim():
                    value[1::2] = value[0::2]
            part[f"{outer}.weight"][:, 1::2] = -part[f"{outer}.weight"][:, 0::2]
            if f"{outer}.bias" in part:
                part[f"{outer}.bias"].zero_()

    def more_tokens(self, value, bias=False):
        """[tokens, blank, durations] with more tokens. They cost what trained ones cost."""
        had = self.old.vocabulary
        rows = torch.randint(had, (self.new.vocabulary - had,), generator=self.random)
        added = torch.full((len(rows),), UNUSED_BIAS) if bias else value[rows]
        return torch.cat([value[:had], added, value[had:]])

    def prediction(self):
        old, new, prefix = self.old, self.new, "decoder.prediction."
        if not old.prediction_width:
            return
        same = (old.prediction_width, old.prediction_layers) == (
            new.prediction_width,
            new.prediction_layers,
        )
        if same and old.vocabulary == new.vocabulary:
            for name in self.small.named(re.escape(prefix) + ".*"):
                self.put(name, self.get(name))
            return
        if not old.prediction_layers:
            self.small.refuse("its prediction network is no LSTM", "keep its sizes and vocabulary")
        times = new.prediction_width // old.prediction_width
        table = repeat(self.get(prefix + "embed.weight"), times, 1)
        self.put(prefix + "embed.weight", self.more_tokens(table))
        for layer in range(new.prediction_layers):
            for name, value in self.lstm_layer(layer, times).items():
                self.put(f"{prefix}dec_rnn.lstm.{name}_l{layer}", value)

    def lstm_layer(self, layer, times):
        if layer < self.old.prediction_layers:
            names = [f"{kind}_{source}" for kind in ("weight", "bias") for source in ("ih", "hh")]
            old = {n: self.get(f"decoder.prediction.dec_rnn.lstm.{n}_l{layer}") for n in names}
            wide = {name: repeat(value, times) for name, value in old.items()}
            return {n: self.split(v, times) if v.dim() == 2 else v for n, v in wide.items()}
        width = self.new.prediction_width
        first = layer == self.old.prediction_layers
        weight = torch.zeros(4, width, width)
        weight[2] = torch.eye(width) * (LINEAR_GAIN if first else 1.0)
        gates = repeat(torch.tensor([OPEN, SHUT, 0.0, OPEN]), width)  # input, forget, cell, output
        zeros = torch.zeros(4 * width, width), torch.zeros(4 * width)
        return dict(weight_ih=weight.flatten(0, 1), weight_hh=zeros[0], bias_ih=gates, bias_hh=zeros[1])

    def joint(self):
        old, new = self.old, self.new
        if not old.joint_width:
            return
        times = new.joint_width // old.joint_width
        from_prediction = new.prediction_width // old.prediction_width
        gain = LINEAR_GAIN if new.prediction_layers > old.prediction_layers else 1.0
        for side, copies, scale in (("enc", self.times, 1.0), ("pred", from_prediction, gain)):
            weight = repeat(self.get(f"joint.{side}.weight"), times)
            self.put(f"joint.{side}.weight", self.split(weight, copies) / scale)
            self.put(f"joint.{side}.bias", repeat(self.get(f"joint.{side}.bias"), times))
        (name,) = self.small.named(r"joint\.joint_net\.\d+\.weight")
        self.output(name.removesuffix("weight"), times)

    def ctc_head(self):
        for name in self.small.named(r"(ctc_)?decoder\.decoder_layers\.0\.weight"):
            self.output(name.removesuffix("weight"), self.times)

    def prompt(self):
        """A layer that returns its input, since x = relu(x) - relu(-x). Its other weights are not 0,
        so that it multiplies numbers as a trained layer does, but fp32 sums lose them."""
        if not self.new.prompts:
            return
        width = self.new.d_model
        both = torch.cat([torch.eye(width), -torch.eye(width)])
        prompts = torch.zeros(2 * width, self.new.prompts)
        for layer, weight in ((0, torch.cat([both, prompts], 1)), (2, both.t())):
            others = torch.randn(weight.shape, generator=self.random) * LOST
            self.put(f"prompt_kernel.{layer}.weight", weight + others)
            self.put(f"prompt_kernel.{layer}.bias", torch.zeros(len(weight)))

    def output(self, name, times):
        weight = self.split(self.get(name + "weight"), times)
        self.put(name + "weight", self.more_tokens(weight))
        self.put(name + "bias", self.more_tokens(self.get(name + "bias"), bias=True))


def unused_name(token):
    return f"<unused_{token}>"


def with_unused_pieces(model, tokens):
    """A SentencePiece model with further pieces. Protobuf adds up messages that follow each other."""

    def field(number, content):
        return bytes([number << 3 | 2, len(content)]) + content

    for token in tokens:
        piece = field(1, unused_name(token).encode())
        piece += b"\x15" + struct.pack("<f", 0.0) + b"\x18" + bytes([UNUSED])  # score and type
        model += field(1, piece)
    size = tokens.stop
    varint = bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14])
    return model + field(2, b"\x20" + varint)  # trainer_spec.vocab_size


def extend_tokenizer(small, tokens):
    lines = {
        "model_path": None,
        "vocab_path": "##{}\n",
        "spe_tokenizer_vocab": "{}\t0\n",
    }
    for key, line in lines.items():
        name = small.setting(f"tokenizer.{key}", "")
        if not name.startswith("nemo:"):
            if line:
                continue
            small.refuse(f"tokenizer.{key} names no file of it", "save it with NeMo's save_to()")
        name = small.member(name.removeprefix("nemo:"))
        data = small.members[name]
        if line:
            data += "".join(line.format(unused_name(token)) for token in tokens).encode()
        small.members[name] = data if line else with_unused_pieces(data, tokens)
    lists = ("joint.vocabulary", "decoder.vocabulary", "aux_ctc.decoder.vocabulary", "labels")
    found = {id(v): v for v in map(small.setting, lists) if v is not None}  # they may be one list
    for vocabulary in found.values():
        vocabulary.extend(map(unused_name, tokens))


def write_settings(small, new, mark):
    """Brings the configuration in line with the weights, and says what the file is."""
    sizes = {
        "preprocessor": dict(features=new.mels),
        "model_defaults": dict(
            enc_hidden=new.d_model, pred_hidden=new.prediction_width, joint_hidden=new.joint_width
        ),
        "encoder": dict(
            feat_in=new.mels, n_layers=new.layers, d_model=new.d_model, n_heads=new.heads,
            subsampling_conv_channels=new.channels, use_bias=new.biases, xscaling=new.x_scaling,
        ),
        "decoder": dict(vocab_size=new.vocabulary, feat_in=new.d_model, num_classes=new.vocabulary),
        "decoder.prednet": dict(
            pred_hidden=new.prediction_width, pred_rnn_layers=new.prediction_layers
        ),
        "joint": dict(num_classes=new.vocabulary),
        "joint.jointnet": dict(
            encoder_hidden=new.d_model, pred_hidden=new.prediction_width,
            joint_hidden=new.joint_width,
        ),
        "aux_ctc.decoder": dict(feat_in=new.d_model, num_classes=new.vocabulary),
    }  # fmt: skip
    for section, values in sizes.items():
        settings = small.setting(section, {})
        for key, value in values.items():
            if section == "encoder" or key in settings:
                settings[key] = value
    small.mark(mark)


def write(small, weights, path):
    """Writes the archive beside `path` and moves it there. Equal contents are equal bytes."""
    unfinished = path.with_name(path.name + ".part")
    with tempfile.TemporaryFile(dir=path.parent) as stored, tarfile.open(unfinished, "w") as archive:
        torch.save(weights, stored)
        for name, data in small.members.items():
            entry = tarfile.TarInfo(name)
            source = io.BytesIO(data)
            entry.size = len(data)
            if name == small.member("model_weights.ckpt"):
                entry.size, source = stored.tell(), stored
                stored.seek(0)
            archive.addfile(entry, source)
    unfinished.replace(path)


def arguments_of(command_line):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("small", type=Path, help="This .nemo file is widened.")
    parser.add_argument("output", type=Path, help="The large .nemo file is written here.")
    parser.add_argument(
        "--shape", choices=SHAPES, help="The sizes are those of this published model."
    )
    sizes = parser.add_argument_group(
        "sizes", "They replace those of --shape. A size that neither names is the small file's."
    )
    for name, words in (MULTIPLES | COUNTS).items():
        rule = "multiplies" if name in MULTIPLES else "is at least"
        text = f"The {words} {rule} the small file's."
        sizes.add_argument("--" + name.replace("_", "-"), type=int, metavar="N", help=text)
    parser.add_argument(
        "--no-biases", dest="biases", action="store_false", default=None,
        help="The encoder layers have no biases, like those of Parakeet v2 and v3.",
    )  # fmt: skip
    parser.add_argument("--ctc", action="store_true", help="A hybrid keeps only its CTC head.")
    parser.add_argument(
        "--prompts", action="store_const", const=PROMPTS,
        help=f"A layer behind the encoder takes one of {PROMPTS} prompts, such as languages, and "
        "returns its input. A hybrid keeps only its transducer.",
    )  # fmt: skip
    parser.add_argument(
        "--dtype", choices=DTYPES, default="fp32",
        help="Weights are stored in this dtype. fp32, the default, keeps the function best.",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=int, default=1, help="Equal seeds give equal files (default: 1)."
    )
    return parser.parse_args(command_line)


def run(arguments):
    small = Checkpoint(arguments.small)
    head, sizes = SHAPES.get(arguments.shape, (None, {}))
    if arguments.ctc or head == "ctc":
        small.keep_ctc_head()
    if head not in (None, small.head):
        raise UserError(
            f"--shape: {arguments.shape} is of the kind {head}, and {small.path} of {small.head}; "
            f"give a small checkpoint of the kind {head}"
        )
    if "streaming" in (arguments.shape or "") and not small.setting("encoder.causal_downsampling"):
        raise UserError(
            f"--shape: {arguments.shape} is cache-aware, and {small.path} is not; "
            "models/derive_cache_aware.py makes a cache-aware checkpoint"
        )
    old = small.shape()
    given = {name: getattr(arguments, name) for name in (*MULTIPLES, *COUNTS, "biases", "prompts")}
    new = replace(old, **sizes | {name: size for name, size in given.items() if size is not None})
    if new.prompts:
        small.take_prompts()
    check(small, old, new)
    weights = Widening(small, new, DTYPES[arguments.dtype], arguments.seed).weights
    if new.vocabulary > old.vocabulary:
        extend_tokenizer(small, range(old.vocabulary, new.vocabulary))
    name = arguments.shape or f"width {new.d_model} and {new.layers} layers"
    whatever = " for every language" if new.prompts else ""
    mark = dict(
        description=f"stand-in: {small.path.name} widened to {name}, with the same function{whatever}",
        source=small.path.name,
        source_sha256=small.sha256,
        program="models/widen_checkpoint.py",
        program_sha256=hashlib.sha256(Path(__file__).read_bytes()).hexdigest(),
        torch=str(torch.__version__),
        seed=arguments.seed,
        dtype=arguments.dtype,
        sizes=asdict(new),
    )
    write_settings(small, new, mark)
    write(small, weights, arguments.output)
    count = sum(value.numel() for value in weights.values() if value.is_floating_point())
    size = arguments.output.stat().st_size
    print(f"{arguments.output}: {count / 1e6:.1f} million parameters, {size / 1e9:.2f} GB")


def main(command_line=None):
    try:
        run(arguments_of(command_line))
    except (UserError, OSError) as error:
        raise SystemExit(f"widen_checkpoint: error: {error}") from None


if __name__ == "__main__":
    main()
