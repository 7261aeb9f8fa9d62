#!/usr/bin/env python3
"""Makes a cache-aware streaming checkpoint of an offline FastConformer by distillation.

    .venv/bin/python models/derive_cache_aware.py TEACHER.nemo OUT.nemo SPEECH.jsonl --seconds 400

The architecture becomes that of NeMo's fastconformer_transducer_bpe_streaming: causal sub-sampling
and convolutions, layer norm in place of batch norm, attention in chunks, and features without
normalisation. The encoder begins with the teacher's weights and learns to return the teacher's
frames. Prediction network, joint network and CTC head stay the teacher's. Transcripts are not
needed: a held-out manifest with texts only shows the word error rate.

- Each batch draws one attention context, so one checkpoint serves steps of 80 to 1,120 ms.
- Frame t of the teacher is the target of frame t + --delay. Causal sub-sampling alone delays a
  frame by 70 ms. A second frame of delay helps where attention looks little ahead.
- The loss adds the squared error of the frames and two divergences: of the CTC head, and of the
  joint network along the tokens of the teacher's CTC head.
- The student hears noise that the teacher does not hear.

Manifests are NeMo's: audio_filepath, and optionally offset, duration and text. It needs torch,
soundfile and ruamel.yaml. It uses a GPU where there is one.
"""

import argparse
import hashlib
import json
import math
import os
import random
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from widen_checkpoint import Checkpoint, UserError, write

RATE, HOP, FFT, WINDOW = 16000, 160, 512, 400  # samples; the features of all FastConformers
CONTEXTS = [[70, 13], [70, 6], [68, 3], [70, 1], [70, 0]]  # left must divide by right + 1
LONGEST = 20  # seconds of an utterance for training
GRID = 8000  # samples: lengths of batches are multiples, since libraries plan for each new shape
SPEEDS = (0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2)
MOST_SYMBOLS = 10  # of a frame in greedy search


def inside(lengths, extent):
    return torch.arange(extent, device=lengths.device) < lengths.unsqueeze(1)


class Features(nn.Module):
    """Log-mel features [B, mels, T] as NeMo computes them, always in fp32."""

    def __init__(self, checkpoint, per_feature):
        super().__init__()
        self.per_feature = per_feature
        self.register_buffer("fb", checkpoint.tensor("preprocessor.featurizer.fb").squeeze(0))
        self.register_buffer("window", checkpoint.tensor("preprocessor.featurizer.window"))

    def forward(self, audio, lengths):
        with torch.autocast(audio.device.type, enabled=False):
            return self.compute(audio, lengths)

    def compute(self, audio, lengths):
        audio = audio * inside(lengths, audio.shape[1])
        emphasised = torch.cat([audio[:, :1], audio[:, 1:] - 0.97 * audio[:, :-1]], 1)
        emphasised = emphasised * inside(lengths, audio.shape[1])
        spectrum = torch.stft(
            emphasised, FFT, HOP, WINDOW, self.window, pad_mode="constant", return_complex=True
        )
        values = torch.log(self.fb @ torch.view_as_real(spectrum).square().sum(-1) + 2.0**-24)
        frames = lengths // HOP
        values = values[:, :, : audio.shape[1] // HOP]
        mask = inside(frames, values.shape[2]).unsqueeze(1)
        if self.per_feature:
            count = frames.view(-1, 1, 1)
            centred = values - (values * mask).sum(2, True) / count
            deviation = ((centred * mask).square().sum(2, True) / (count - 1)).sqrt()
            values = centred / (deviation + 1e-5)
        return values * mask, frames


class Subsampling(nn.Module):
    """dw_striding. Causal padding is 2 before and 1 after, in time and in frequency."""

    def __init__(self, channels, mels, width, causal):
        super().__init__()
        self.causal = causal

        def strided(inputs, groups):
            return nn.Conv2d(inputs, channels, 3, 2, 0 if causal else 1, groups=groups)

        layers = [strided(1, 1), nn.ReLU()]
        for _ in range(2):
            layers += [strided(channels, channels), nn.Conv2d(channels, channels, 1), nn.ReLU()]
        self.conv = nn.Sequential(*layers)
        self.out = nn.Linear(channels * self.halved(self.halved(self.halved(mels))), width)

    def halved(self, extent):
        return extent // 2 + 1 if self.causal else (extent + 1) // 2

    def forward(self, features, lengths):
        x = features.transpose(1, 2).unsqueeze(1)
        for layer in self.conv:
            if getattr(layer, "stride", None) == (2, 2):
                x = x * inside(lengths, x.shape[2])[:, None, :, None]
                x = F.pad(x, (2, 1, 2, 1)) if self.causal else x
                lengths = self.halved(lengths)
            x = layer(x)
        return self.out(x.transpose(1, 2).flatten(2)), lengths


class FeedForward(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        return self.linear2(F.silu(self.linear1(x)))


class Attention(nn.Module):
    """Attention with relative positions (Transformer-XL)."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        for name in ("q", "k", "v", "out"):
            setattr(self, f"linear_{name}", nn.Linear(width, width))
        self.linear_pos = nn.Linear(width, width, bias=False)
        self.pos_bias_u = nn.Parameter(torch.zeros(heads, width // heads))
        self.pos_bias_v = nn.Parameter(torch.zeros(heads, width // heads))

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def forward(self, x, positions, mask):
        """positions: [2 T - 1, d] from T - 1 down to 1 - T. mask: true where a frame is seen."""
        q = self.linear_q(x).unflatten(-1, (self.heads, -1))
        k, v = self.split(self.linear_k(x)), self.split(self.linear_v(x))
        of_content = (q + self.pos_bias_u).transpose(1, 2) @ k.transpose(-2, -1)
        keys = self.split(self.linear_pos(positions)).transpose(-2, -1)
        of_position = (q + self.pos_bias_v).transpose(1, 2) @ keys
        batch, heads, frames, extent = of_position.shape
        # Row t of the shifted matrix begins at the position t - 0.
        of_position = F.pad(of_position, (1, 0)).view(batch, heads, extent + 1, frames)[:, :, 1:]
        of_position = of_position.reshape(batch, heads, frames, extent)[..., :frames]
        scores = (of_content + of_position) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~mask, -1e4).softmax(-1).masked_fill(~mask, 0)
        return self.linear_out((weights.to(v.dtype) @ v).transpose(1, 2).flatten(2))


def pointwise(convolution, x):
    """A convolution of kernel 1 over [B, T, d] as a product."""
    return F.linear(x, convolution.weight.squeeze(-1), convolution.bias)


class Convolution(nn.Module):
    def __init__(self, width, kernel, causal):
        super().__init__()
        self.padding = (kernel - 1, 0) if causal else ((kernel - 1) // 2,) * 2
        self.pointwise_conv1 = nn.Conv1d(width, 2 * width, 1)
        self.depthwise_conv = nn.Conv1d(width, width, kernel, groups=width)
        self.batch_norm = nn.LayerNorm(width) if causal else nn.BatchNorm1d(width)
        self.pointwise_conv2 = nn.Conv1d(width, width, 1)

    def forward(self, x, valid):
        x = F.glu(pointwise(self.pointwise_conv1, x)) * valid.unsqueeze(2)
        x = self.depthwise_conv(F.pad(x.transpose(1, 2), self.padding))
        if isinstance(self.batch_norm, nn.LayerNorm):
            x = self.batch_norm(x.transpose(1, 2))
        else:
            x = self.batch_norm(x).transpose(1, 2)
        return pointwise(self.pointwise_conv2, F.silu(x))


class Layer(nn.Module):
    def __init__(self, width, heads, inner, kernel, causal):
        super().__init__()
        for name in ("feed_forward1", "self_att", "conv", "feed_forward2", "out"):
            setattr(self, f"norm_{name}", nn.LayerNorm(width))
        self.feed_forward1, self.feed_forward2 = FeedForward(width, inner), FeedForward(width, inner)
        self.self_attn = Attention(width, heads)
        self.conv = Convolution(width, kernel, causal)

    def forward(self, x, positions, mask, valid):
        x = x + 0.5 * self.feed_forward1(self.norm_feed_forward1(x))
        x = x + self.self_attn(self.norm_self_att(x), positions, mask)
        x = x + self.conv(self.norm_conv(x), valid)
        x = x + 0.5 * self.feed_forward2(self.norm_feed_forward2(x))
        return self.norm_out(x)


class Encoder(nn.Module):
    """A FastConformer under NeMo's names, offline or cache-aware."""

    def __init__(self, checkpoint, causal):
        super().__init__()
        shape = checkpoint.shape()
        self.width = shape.d_model
        self.scale = math.sqrt(shape.d_model) if shape.x_scaling else 1.0
        self.pre_encode = Subsampling(shape.channels, shape.mels, shape.d_model, causal)
        inner = checkpoint.tensor("encoder.layers.0.feed_forward1.linear1.weight").shape[0]
        kernel = checkpoint.tensor("encoder.layers.0.conv.depthwise_conv.weight").shape[2]
        sizes = shape.d_model, shape.heads, inner, kernel, causal
        self.layers = nn.ModuleList(Layer(*sizes) for _ in range(shape.layers))

    def positions(self, frames, device):
        at = torch.arange(frames - 1, -frames, -1, device=device, dtype=torch.float32).unsqueeze(1)
        steps = torch.arange(0, self.width, 2, device=device, dtype=torch.float32)
        angles = at * torch.exp(steps * -(math.log(10000.0) / self.width))
        return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)

    def forward(self, features, lengths, context=None):
        """Frames [B, T, d] and their lengths. context: [left, right] of attention in chunks."""
        x, lengths = self.pre_encode(features, lengths)
        x = x * self.scale
        frames = x.shape[1]
        valid = inside(lengths, frames)
        mask = valid.unsqueeze(1) & valid.unsqueeze(2)
        if context is not None:
            chunk = torch.arange(frames, device=x.device) // (context[1] + 1)
            back = chunk.unsqueeze(1) - chunk
            mask = mask & (back >= 0) & (back <= context[0] // (context[1] + 1))
        positions = self.positions(frames, x.device)
        for layer in self.layers:
            x = layer(x, positions, mask.unsqueeze(1), valid)
        return x, lengths


class Heads(nn.Module):
    """The teacher's CTC head, and its transducer where that has an LSTM."""

    def __init__(self, checkpoint):
        super().__init__()
        weights = checkpoint.weights
        (name,) = checkpoint.named(r"(ctc_)?decoder\.decoder_layers\.0\.weight") or [None]
        if name is None:
            checkpoint.refuse("it has no CTC head", "give a hybrid of a transducer and CTC")
        bias = weights[name.replace("weight", "bias")]
        self.blank = len(bias) - 1
        self.ctc = nn.Linear(weights[name].shape[1], len(bias))
        self.ctc.load_state_dict(dict(weight=weights[name].squeeze(-1), bias=bias))
        lists = ("joint.vocabulary", "aux_ctc.decoder.vocabulary", "decoder.vocabulary")
        self.vocabulary = next(filter(None, map(checkpoint.setting, lists)))
        self.searches = {"ctc": self.ctc_words}
        self.transducer = bool(checkpoint.named(r"decoder\..*\.lstm\.weight_ih_l0"))
        if self.transducer:
            self.take_transducer(checkpoint.shape(), weights)

    def take_transducer(self, shape, weights):
        def part(prefix):
            return {k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)}

        width = shape.prediction_width
        self.embed = nn.Embedding.from_pretrained(weights["decoder.prediction.embed.weight"])
        self.lstm = nn.LSTM(width, width, shape.prediction_layers, batch_first=True)
        self.lstm.load_state_dict(part("decoder.prediction.dec_rnn.lstm."))
        self.of_frame = nn.Linear(shape.d_model, shape.joint_width)
        self.of_frame.load_state_dict(part("joint.enc."))
        self.of_labels = nn.Linear(width, shape.joint_width)
        self.of_labels.load_state_dict(part("joint.pred."))
        name = next(k for k in weights if k.startswith("joint.joint_net.") and k.endswith("weight"))
        output = part(name.removesuffix("weight"))
        self.joint = nn.Linear(shape.joint_width, len(output["bias"]))
        self.joint.load_state_dict(output)
        if len(output["bias"]) == self.blank + 1:  # no TDT model
            self.searches["transducer"] = self.transducer_words

    def scores(self, frames, labels):
        """Log-probabilities of the tokens, and of the durations of a TDT model."""
        logits = self.joint(F.relu(self.of_frame(frames) + labels)).float()
        parts = logits.split([self.blank + 1, logits.shape[-1] - self.blank - 1], -1)
        return [part.log_softmax(-1) for part in parts if part.shape[-1]]

    def label_states(self, tokens, state=None):
        found, state = self.lstm(self.embed(tokens), state)
        return self.of_labels(found), state

    def path(self, best, valid):
        """Label states before and after the token of each frame, along the CTC head's best path.

        best: [B, T], the best token of each frame. Returns two tensors [B, T, joint width]."""
        before = F.pad(best, (1, 0), value=self.blank)[:, :-1]
        emitted = (best != self.blank) & (best != before) & valid
        count = emitted.cumsum(1)
        tokens = best.new_full((len(best), int(count.max()) + 2), self.blank)
        # Token n of a row goes to place n; frames without one write to the last place.
        place = torch.where(emitted, count, tokens.shape[1] - 1)
        tokens.scatter_(1, place, best)
        states, _ = self.label_states(tokens[:, :-1])

        def at(index):
            return states.gather(1, index.unsqueeze(2).expand(-1, -1, states.shape[2]))

        return at(count - emitted.long()), at(count)

    def text(self, tokens):
        return "".join(self.vocabulary[t] for t in tokens).replace("\u2581", " ").split()

    def ctc_words(self, frames, lengths):
        best = self.ctc(frames).argmax(-1).tolist()
        for row, length in zip(best, lengths.tolist(), strict=True):
            row = row[:length]
            pairs = zip(row, [self.blank, *row], strict=False)
            yield self.text(t for t, last in pairs if t not in (self.blank, last))

    def transducer_words(self, frames, lengths):
        """Greedy RNN-T search of all rows together, frame by frame."""
        rows = len(frames)
        start = torch.full((rows, 1), self.blank, device=frames.device)
        labels, state = self.label_states(start)
        found = [[] for _ in range(rows)]
        for t in range(frames.shape[1]):
            going = t < lengths
            for _ in range(MOST_SYMBOLS):
                token = self.scores(frames[:, t], labels[:, 0])[0].argmax(-1)
                going = going & (token != self.blank)
                if not going.any():
                    break
                emitted = token.tolist()
                for row in going.nonzero()[:, 0].tolist():
                    found[row].append(emitted[row])
                fresh, moved = self.label_states(token.unsqueeze(1), state)
                labels = torch.where(going[:, None, None], fresh, labels)
                mix = going[None, :, None]
                state = tuple(torch.where(mix, a, b) for a, b in zip(moved, state, strict=True))
        yield from map(self.text, found)


class Student(nn.Module):
    """A cache-aware encoder that begins with the teacher's weights."""

    def __init__(self, checkpoint):
        super().__init__()
        self.features = Features(checkpoint, per_feature=False)
        self.encoder = Encoder(checkpoint, causal=True)

    def forward(self, audio, lengths, context):
        return self.encoder(*self.features(audio, lengths), context)

    @torch.no_grad()
    def begin(self, teacher, audio, lengths, context):
        """Takes over the teacher's weights. A batch of audio sets the scale of what is new."""
        weights = dict(teacher.encoder.state_dict())
        values, frames = self.features(audio, lengths)
        known = values.transpose(1, 2)[inside(frames, values.shape[2])]
        mean, deviation = known.mean(), known.std()
        first = weights["pre_encode.conv.0.weight"] / deviation
        weights["pre_encode.conv.0.weight"] = first
        weights["pre_encode.conv.0.bias"] = weights["pre_encode.conv.0.bias"] - mean * first.sum((1, 2, 3))
        out = weights["pre_encode.out.weight"].unflatten(1, (len(first), -1))
        # Causal padding shifts bands by almost one place.
        places = self.encoder.pre_encode.out.in_features // len(first)
        weights["pre_encode.out.weight"] = F.pad(out, (places - out.shape[2], 0)).flatten(1)
        for n, layer in enumerate(teacher.encoder.layers):
            name, norm = f"layers.{n}.conv.", layer.conv.batch_norm
            scale = norm.weight / (norm.running_var + norm.eps).sqrt()
            taps = weights[name + "depthwise_conv.weight"]
            kept = taps.shape[2] // 2 + 1  # those of the past and of the frame itself
            taps = F.pad(taps[:, :, :kept], (taps.shape[2] - kept, 0))
            bias = weights[name + "depthwise_conv.bias"] - norm.running_mean
            weights[name + "depthwise_conv.weight"] = taps * scale[:, None, None]
            weights[name + "depthwise_conv.bias"] = bias * scale + norm.bias
            for key in [key for key in weights if key.startswith(name + "batch_norm.")]:
                if not key.endswith(("weight", "bias")):
                    del weights[key]
        self.encoder.load_state_dict(weights)

        def adapt(norm, inputs):
            """Makes a layer norm keep the mean and the deviation of its first input."""
            x = inputs[0].float()
            norm.weight.fill_(x.std(-1).mean())
            norm.bias.fill_(x.mean())

        norms = [layer.conv.batch_norm for layer in self.encoder.layers]
        hooks = [norm.register_forward_pre_hook(adapt) for norm in norms]
        self(audio, lengths, context)
        for hook in hooks:
            hook.remove()


class Teacher(nn.Module):
    def __init__(self, checkpoint):
        super().__init__()
        for setting, wanted in {
            "encoder.subsampling": "dw_striding",
            "encoder.subsampling_factor": 8,
            "encoder.conv_norm_type": "batch_norm",
            "encoder.self_attention_model": "rel_pos",
            "preprocessor.normalize": "per_feature",
        }.items():
            if checkpoint.setting(setting) != wanted:
                found = checkpoint.setting(setting)
                checkpoint.refuse(f"{setting} is {found}", f"give an offline model with {wanted}")
        if not checkpoint.shape().biases or checkpoint.named(r"encoder\.pos_bias_u"):
            checkpoint.refuse("it has no biases or ties them", "give a model with biases")
        self.features = Features(checkpoint, per_feature=True)
        self.encoder = Encoder(checkpoint, causal=False)
        prefix = "encoder."
        own = {k.removeprefix(prefix): v for k, v in checkpoint.weights.items() if k.startswith(prefix)}
        self.encoder.load_state_dict(own)
        self.heads = Heads(checkpoint)
        self.requires_grad_(False).eval()

    def forward(self, audio, lengths):
        return self.encoder(*self.features(audio, lengths))


@dataclass
class Utterance:
    start: int  # samples, in the audio of all files
    samples: int
    text: str | None


class Speech:
    """Utterances of manifests, with their audio as 16-bit samples on the device."""

    def __init__(self, manifests, device):
        import soundfile

        lines = defaultdict(list)
        for manifest in manifests:
            # str.splitlines() would also divide at U+2028 and the like.
            for number, text in enumerate(manifest.read_text(encoding="utf-8").split("\n"), 1):
                if not text.strip():
                    continue
                try:
                    line = json.loads(text)
                    lines[manifest.parent / line["audio_filepath"]].append(line)
                except (ValueError, KeyError, TypeError):
                    problem = "is no line of a manifest; give JSON with audio_filepath"
                    raise UserError(f"{manifest}:{number}: {problem}") from None

        def read(path):
            try:
                audio, rate = soundfile.read(str(path), dtype="int16")
            except soundfile.SoundFileError as error:
                raise UserError(f"{path}: {error}; give FLAC, WAV or Opus") from None
            if rate != RATE or audio.ndim != 1:
                raise UserError(f"{path}: it is no single channel of {RATE} Hz; convert it")
            return torch.from_numpy(audio)

        with ThreadPoolExecutor() as pool:
            audio = list(pool.map(read, lines))
        self.utterances, begin = [], 0
        for samples, of_file in zip(audio, lines.values(), strict=True):
            for line in of_file:
                start = round(line.get("offset", 0) * RATE)
                count = round(line["duration"] * RATE) if "duration" in line else len(samples) - start
                count = min(count, len(samples) - start)
                self.utterances.append(Utterance(begin + start, count, line.get("text")))
            begin += len(samples)
        self.used = [u for u in self.utterances if RATE // 2 < u.samples <= LONGEST * RATE]
        if not self.used:
            names = ", ".join(map(str, manifests))
            raise UserError(f"{names}: no utterance of 0.5 to {LONGEST} s; give some")
        self.audio = torch.cat(audio).to(device)
        self.seconds = sum(u.samples for u in self.used) / RATE

    def batch(self, utterances):
        device = self.audio.device
        lengths = torch.tensor([u.samples for u in utterances], device=device)
        starts = torch.tensor([u.start for u in utterances], device=device)
        places = torch.arange(max(u.samples for u in utterances), device=device)
        index = (starts.unsqueeze(1) + places).clamp_max(len(self.audio) - 1)
        return self.audio[index] / 32768 * (places < lengths.unsqueeze(1)), lengths

    def batches(self, seconds, choice):
        """Batches of about equal lengths and at most `seconds` with their padding, in random order."""
        batches, rows = [], []
        for u in sorted(self.used, key=lambda u: u.samples * choice.uniform(0.9, 1.1)):
            longest = max(row.samples for row in [u, *rows])
            if rows and on_grid(longest) * (len(rows) + 1) > seconds * RATE:
                batches.append(rows)
                rows = []
            rows.append(u)
        batches.append(rows)
        choice.shuffle(batches)
        return batches


def on_grid(samples):
    return GRID * math.ceil(samples / GRID)


def filtered(audio, lengths, speed):
    """Audio at another speed, with a random colour, and for some rows a random room."""
    rows, device = len(audio), audio.device
    tail = RATE // 2  # the longest echo
    size = on_grid(audio.shape[1] + tail)
    spectrum = torch.fft.rfft(audio, size)
    at = torch.linspace(0, 1, spectrum.shape[1], device=device)
    waves = torch.arange(1, 5, device=device)
    phases = torch.rand(rows, 4, 1, device=device) * 2 * math.pi
    waves = torch.cos(waves.view(4, 1) * math.pi * at + phases)
    decibels = 2.5 * torch.randn(rows, 4, 1, device=device) * waves
    spectrum = spectrum * 10 ** (decibels.sum(1) / 20)
    room = torch.randn(rows, tail, device=device)
    seconds = torch.arange(tail, device=device) / RATE
    room *= torch.exp(-6.9 * seconds / (0.1 + 0.5 * torch.rand(rows, 1, device=device)))
    loudness = torch.rand(rows, 1, device=device) * (torch.rand(rows, 1, device=device) < 0.4)
    room *= loudness / room.square().sum(1, True).sqrt()
    room[:, 0] += 1
    spectrum = spectrum * torch.fft.rfft(room, size)
    other = on_grid(size / speed)
    bins = other // 2 + 1
    spectrum = F.pad(spectrum, (0, max(0, bins - spectrum.shape[1])))[:, :bins]
    result = torch.fft.irfft(spectrum, other) * (other / size)
    return result, (lengths * (other / size)).long()


def with_level(audio):
    """Peaks between -30 and 0 dB."""
    peaks = audio.abs().amax(1, True).clamp_min(1e-4)
    return audio * 10 ** (-1.5 * torch.rand(len(audio), 1, device=audio.device)) / peaks


def with_noise(audio, lengths):
    """Adds noise of a random colour, 5 to 45 dB below the speech, to two of three rows."""
    rows, device = len(audio), audio.device
    spectrum = torch.fft.rfft(torch.randn_like(audio))
    at = torch.arange(1, spectrum.shape[1] + 1, device=device) / spectrum.shape[1]
    noise = torch.fft.irfft(spectrum * at ** -torch.rand(rows, 1, device=device), audio.shape[1])
    speech = (audio.square().sum(1, True) / lengths.unsqueeze(1)).sqrt()
    ratio = 10 ** (-(5 + 40 * torch.rand(rows, 1, device=device)) / 20)
    ratio = ratio * (torch.rand(rows, 1, device=device) < 2 / 3)
    return audio + noise * (ratio * speech / noise.square().mean(1, True).sqrt())


def divergence(teacher, student, mask):
    """Kullback-Leibler divergence of log-probabilities, its mean over the frames of `mask`."""
    return ((teacher.exp() * (teacher - student)).sum(-1) * mask).sum() / mask.sum()


def aligned(targets, outputs, delay):
    """Frames of the teacher, those of the student beside them, and which of them count.

    The teacher's first frame is also the target of the frames before it, which must be silent."""
    (wanted, count), (found, own) = targets, outputs
    wanted = torch.cat([wanted[:, :1].expand(-1, delay, -1), wanted], 1)
    extent = min(wanted.shape[1], found.shape[1])
    mask = inside(torch.minimum(count + delay, own), extent)
    return wanted[:, :extent], found[:, :extent], mask


def losses(heads, targets, outputs, delay):
    """The unexplained share of the frames' variance, and the divergences of the heads.

    targets, outputs: frames and lengths of the teacher and of the student."""
    wanted, found, mask = aligned(targets, outputs, delay)
    known = wanted.float()[mask]
    error = (found.float()[mask] - known).square().sum()
    parts = {"frames": error / (known - known.mean(0)).square().sum()}
    by_teacher, by_student = (heads.ctc(x).float().log_softmax(-1) for x in (wanted, found))
    parts["ctc"] = divergence(by_teacher, by_student, mask)
    if heads.transducer:
        pairs = []
        for labels in heads.path(by_teacher.argmax(-1), mask):
            scores = zip(heads.scores(wanted, labels), heads.scores(found, labels), strict=True)
            pairs += [divergence(*pair, mask) for pair in scores]
        parts["transducer"] = sum(pairs) / 2
    return parts


def autocast(device):
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


def train(teacher, student, speech, arguments):
    """Trains for arguments.seconds, or arguments.steps; returns the losses of each step."""
    device = speech.audio.device
    choice = random.Random(arguments.seed)
    optimizer = torch.optim.AdamW(
        student.parameters(), arguments.learning_rate, betas=(0.9, 0.98), weight_decay=1e-3,
        fused=device.type == "cuda",
    )  # fmt: skip
    begin, step, heard, shown, history = time.monotonic(), 0, 0.0, 0.0, []
    batches = []
    while True:
        elapsed = time.monotonic() - begin
        done = step / arguments.steps if arguments.steps else elapsed / arguments.seconds
        if done >= 1:
            break
        batches = batches or speech.batches(arguments.batch_seconds, choice)
        rows = batches.pop()
        audio, lengths = speech.batch(rows)
        context = choice.choice(CONTEXTS)
        with torch.no_grad():
            clean, lengths = filtered(audio, lengths, choice.choice(SPEEDS))
            clean = with_level(clean)
            noisy = with_noise(clean, lengths)
        rate = arguments.learning_rate * min(1, done / 0.05 + 0.02) * 0.5 * (1 + math.cos(math.pi * done))
        for group in optimizer.param_groups:
            group["lr"] = rate
        with autocast(device):
            with torch.no_grad():
                targets = teacher(clean, lengths)
            outputs = student(noisy, lengths, context)
            parts = losses(teacher.heads, targets, outputs, arguments.delay)
        loss = sum(parts.values())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if nn.utils.clip_grad_norm_(student.parameters(), 1.0).isfinite():
            optimizer.step()
        step += 1
        heard += sum(u.samples for u in rows) / RATE
        history.append(loss.detach())
        if elapsed >= shown or done + 1 / (arguments.steps or math.inf) >= 1:
            shown = elapsed + 5
            values = ", ".join(f"{name} {value.item():.4f}" for name, value in parts.items())
            place = f"{elapsed:6.1f} s, step {step}, {heard / 3600:.2f} h, context {context}"
            print(f"{place}: {values}", flush=True)
    return torch.stack(history).tolist()


def errors(reference, found):
    """Word errors: the edit distance."""
    row = list(range(len(found) + 1))
    for i, word in enumerate(reference, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(found, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other))
    return row[-1]


@torch.no_grad()
def evaluate(teacher, student, speech, arguments):
    """Prints losses and word error rates in % of held-out speech, whole utterances, without noise.

    The losses are of all utterances that last 0.5 s to LONGEST, and the rates are of those with a text. An empty text
    is a reference without words."""
    device = speech.audio.device
    results, total = defaultdict(lambda: defaultdict(float)), 0
    batches = speech.batches(arguments.batch_seconds, random.Random(0))
    for rows in batches:
        audio, lengths = speech.batch(rows)
        spoken = [None if u.text is None else u.text.lower().split() for u in rows]

        def count_words(name, frames, frame_lengths, spoken=spoken):
            for head, search in teacher.heads.searches.items():
                for words, wanted in zip(search(frames, frame_lengths), spoken, strict=True):
                    if wanted is not None:
                        results[name][f"{head} WER"] += errors(wanted, words)

        with autocast(device):
            targets = teacher(audio, lengths)
            total += sum(len(words) for words in spoken if words is not None)
            if any(words is not None for words in spoken):
                count_words("teacher", *targets)
            for context in CONTEXTS:
                outputs = student(audio, lengths, context)
                parts = losses(teacher.heads, targets, outputs, arguments.delay)
                for part, value in parts.items():
                    results[str(context)][part] += value.item() / len(batches)
                if any(words is not None for words in spoken):
                    count_words(str(context), *outputs)
    judged = sum(u.text is not None for u in speech.used)
    print(f"held out: WER of {judged} of {len(speech.utterances)} utterances, {total} words", flush=True)
    for name, values in results.items():
        if total == 0:
            values = {k: v for k, v in values.items() if "WER" not in k}
        line = (f"{k} {100 * v / total:.2f} %" if "WER" in k else f"{k} {v:.4f}" for k, v in values.items())
        print(f"held out, {name}: {', '.join(line)}", flush=True)
    return results


def write_derived(checkpoint, student, arguments, speech, steps):
    """Writes the teacher's archive with the student's encoder and its settings."""
    weights = {k: v for k, v in checkpoint.weights.items() if not k.startswith("encoder.")}
    weights |= {f"encoder.{k}": v.cpu() for k, v in student.encoder.state_dict().items()}
    weights = {
        k: v if k.startswith("preprocessor.") else v.to(torch.float16).contiguous()
        for k, v in weights.items()
    }
    if not all(v.isfinite().all() for v in weights.values()):
        raise UserError("training: weights became infinite; give a smaller --learning-rate")
    checkpoint.config["preprocessor"]["normalize"] = "NA"
    checkpoint.config["encoder"] |= dict(
        causal_downsampling=True, att_context_size=CONTEXTS, att_context_style="chunked_limited",
        conv_norm_type="layer_norm", conv_context_size="causal",
    )  # fmt: skip
    source = checkpoint.path.name
    mark = dict(
        description=f"stand-in: {source} made cache-aware by distillation",
        source=source,
        source_sha256=checkpoint.sha256,
        program="models/derive_cache_aware.py",
        program_sha256=hashlib.sha256(Path(__file__).read_bytes()).hexdigest(),
        torch=str(torch.__version__),
        seed=arguments.seed,
        dtype="fp16",
        delay_frames=arguments.delay,
        speech_hours=round(speech.seconds / 3600, 2),
        steps=steps,
    )
    checkpoint.mark(mark)
    write(checkpoint, weights, arguments.output)


def arguments_of(command_line):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("teacher", type=Path, help="This offline .nemo file is made cache-aware.")
    parser.add_argument("output", type=Path, help="The cache-aware .nemo file is written here.")
    parser.add_argument("speech", type=Path, nargs="+", help="Manifests of the training speech.")
    parser.add_argument("--held-out", type=Path, nargs="+", default=[], help="Manifests to test with.")
    parser.add_argument("--seconds", type=float, default=400, help="of training (default: 400)")
    parser.add_argument("--steps", type=int, help="The number of steps limits training, not the time.")
    parser.add_argument(
        "--delay", type=int, default=2, help="Frames that the student may be late (default: 2)."
    )
    parser.add_argument("--batch-seconds", type=float, default=600, help="of audio (default: 600)")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="the highest (default: 1e-3)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args(command_line)
    for name in ("seconds", "steps", "batch_seconds", "learning_rate"):
        if (value := getattr(arguments, name)) is not None and value <= 0:
            parser.error(f"--{name.replace('_', '-')}: {value} is not allowed; give more than 0")
    if not 0 <= arguments.delay <= 8:
        parser.error(f"--delay: {arguments.delay} is not allowed; give 0 to 8")
    return arguments


def require_writable(output):
    """Refuses a path that cannot be written, before the training and not after it."""
    if output.is_dir():
        raise UserError(f"{output}: is a folder; give the path of a file")
    if not output.parent.is_dir():
        raise UserError(f"{output.parent}: no such folder; make it first")
    if not os.access(output.parent, os.W_OK):
        raise UserError(f"{output.parent}: cannot be written; give another folder")


def run(arguments):
    require_writable(arguments.output)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(arguments.seed)
    begin = time.monotonic()
    checkpoint = Checkpoint(arguments.teacher)
    teacher, student = Teacher(checkpoint), Student(checkpoint)
    speech = Speech(arguments.speech, device)
    held_out = Speech(arguments.held_out, device) if arguments.held_out else None
    teacher.to(device), student.to(device)
    ready = time.monotonic() - begin
    print(
        f"{len(speech.used)} of {len(speech.utterances)} utterances last 0.5 to {LONGEST} s: "
        f"{speech.seconds / 3600:.2f} h, read in {ready:.1f} s"
    )
    first = speech.batches(min(arguments.batch_seconds, 120), random.Random(0))[0]
    student.begin(teacher, *speech.batch(first), CONTEXTS[0])
    history = train(teacher, student, speech, arguments)
    write_derived(checkpoint, student, arguments, speech, len(history))
    print(f"{arguments.output}: {arguments.output.stat().st_size / 1e6:.1f} MB, {len(history)} steps")
    if held_out:
        evaluate(teacher, student.eval(), held_out, arguments)
    return history


def main(command_line=None):
    try:
        return run(arguments_of(command_line))
    except (UserError, OSError) as error:
        raise SystemExit(f"derive_cache_aware: error: {error}") from None


if __name__ == "__main__":
    main()
