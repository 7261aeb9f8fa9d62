"""Greedy search with one Triton kernel, which adds, activates, multiplies and compares. The joint network's
logits never reach memory. Needs a GPU (or TRITON_INTERPRET=1, to try it out)."""

import os

import torch
import triton
import triton.language as tl
from greedy import Greedy


@triton.jit
def best_label(encoded, predicted, weight, bias, logits, labels, outputs, tiles, width: tl.constexpr,
               LABELS: tl.constexpr, WIDTH: tl.constexpr):  # fmt: skip
    """Finds the best of LABELS labels for one row in relu(encoded + predicted) @ weight.T + bias."""
    row, tile = tl.program_id(0), tl.program_id(1)
    label = tile * LABELS + tl.arange(0, LABELS)
    total = tl.load(bias + label, mask=label < outputs, other=float("-inf")).to(tl.float32)
    for begin in range(0, width, WIDTH):
        column = begin + tl.arange(0, WIDTH)
        inside = column < width
        hidden = tl.load(encoded + row * width + column, mask=inside, other=0.0).to(tl.float32)
        hidden += tl.load(predicted + row * width + column, mask=inside, other=0.0).to(tl.float32)
        part = tl.load(weight + label[:, None] * width + column[None, :],
                       mask=(label < outputs)[:, None] & inside[None, :], other=0.0)  # fmt: skip
        total += tl.sum(part.to(tl.float32) * tl.maximum(hidden, 0.0)[None, :], axis=1)
    tl.store(logits + row * tiles + tile, tl.max(total, axis=0))
    tl.store(labels + row * tiles + tile, tile * LABELS + tl.argmax(total, axis=0))


class TritonGreedy(Greedy):
    def __init__(self, model, labels=64, width=64):
        super().__init__(model)
        if model.device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
            raise RuntimeError("the Triton kernel needs a GPU; on a CPU run Greedy of greedy.py")
        if model.config["joint_activation"] != "relu":
            raise ValueError("the kernel has no activation but relu")
        self.sizes = {"LABELS": labels, "WIDTH": width}
        self.weight = model.tensors["joint.joint_net.weight"]
        self.bias = model.tensors["joint.joint_net.bias"]
        self.tiles = triton.cdiv(len(self.bias), labels)

    def best(self, encoded, predicted):
        rows = len(encoded)
        logits = torch.empty((rows, self.tiles), device=encoded.device)
        labels = torch.empty((rows, self.tiles), device=encoded.device, dtype=torch.long)
        best_label[(rows, self.tiles)](
            encoded.contiguous(), predicted.contiguous(), self.weight, self.bias, logits, labels,
            len(self.bias), self.tiles, self.weight.shape[1], **self.sizes)  # fmt: skip
        logit, tile = logits.max(-1)
        return logit, labels.gather(1, tile[:, None])[:, 0]
