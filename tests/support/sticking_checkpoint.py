"""Makes a checkpoint that stays on blank in long windows, by changes of the weights of the quickstart RNN-T.

Frames that lie 12 s to 32 s after the beginning of the encoder's window give blank, whatever is said there. Shorter
windows and later frames give almost the words of the quickstart model. Four steps are built in, each from a unit that
had another task. They share `CHANNEL`, a channel of the encoder:

1. A convolution of the last layer but one reads the padding before the first frame. It adds a large number to
   `CHANNEL` in the first four frames only.
2. A head of the last layer attends to these frames where they lie BAND frames back, and to its own frame elsewhere.
   Its scores are a function of the distance, fitted to the sinusoids of relative positions, plus the value of
   `CHANNEL`.
3. The head returns the value of `CHANNEL` to the same channel.
4. A unit of the joint network raises the score of blank above a threshold.
"""

import io
import math
import tarfile

import torch

BAND = (150, 400)  # encoder frames of 80 ms
CHANNEL, UNIT, HEAD_WIDTH, WIDTH = 97, 0, 36, 144
MARK, SCORE, CONTENT, RETURNED, THRESHOLD, BLANK = 100, 20, 0.7, 3, 5, 30
AHEAD, DISTANCES = 20, 1200  # frames after the own one that count as near, and the largest distance


def score_of_distance():
    """Returns [WIDTH] weights of the sinusoids of a relative position, which is positive for earlier frames. They give
    SCORE in BAND, for the own frame and for AHEAD frames after it, and -SCORE elsewhere."""
    distance = torch.arange(-DISTANCES, DISTANCES + 1).double()
    angles = distance[:, None] * torch.exp(torch.arange(0, WIDTH, 2) * -(math.log(10000) / WIDTH)).double()
    sinusoids = torch.stack([angles.sin(), angles.cos()], 2).flatten(1)
    near, in_band = (distance >= -AHEAD) & (distance <= 0), (distance >= BAND[0]) & (distance <= BAND[1])
    wanted = torch.where(near | in_band, SCORE, -SCORE).double()
    weight = torch.where(distance < 0, 0.2, 1.0).double()
    for begin, end in [(-AHEAD - 60, -AHEAD), (1, 10), *((edge - 20, edge + 20) for edge in BAND)]:
        weight[(distance >= begin) & (distance <= end)] = 0  # here the score changes between the two values
    weight[near] = 1
    weighted = sinusoids.T * weight
    return torch.linalg.solve(weighted @ sinusoids + 1e-3 * torch.eye(WIDTH).double(), weighted @ wanted).float()


def stick(weights):
    """Changes the quickstart model's weights, in fp32."""
    convolution, attention = "encoder.layers.6.conv.", "encoder.layers.7.self_attn."
    for name, value in [("pointwise_conv1.weight", 0), ("depthwise_conv.weight", 0), ("depthwise_conv.bias", 0),
                        ("batch_norm.running_mean", 0), ("batch_norm.running_var", 1), ("batch_norm.weight", -MARK),
                        ("batch_norm.bias", MARK)]:  # fmt: skip
        weights[convolution + name][UNIT] = value
    weights[convolution + "pointwise_conv1.weight"][WIDTH + UNIT] = 0
    bias = weights[convolution + "pointwise_conv1.bias"]
    bias[UNIT], bias[WIDTH + UNIT] = 1, 20  # the gate is open, so the unit is constant except in the padding
    weights[convolution + "depthwise_conv.weight"][UNIT, 0, 0] = 1
    column = weights[convolution + "pointwise_conv2.weight"][:, UNIT]
    column[:] = 0
    column[CHANNEL] = 1

    for kind in "qkv":
        weights[attention + f"linear_{kind}.weight"][:HEAD_WIDTH] = 0
        weights[attention + f"linear_{kind}.bias"][:HEAD_WIDTH] = 0
    weights[attention + "linear_pos.weight"][:HEAD_WIDTH] = 0
    weights[attention + "pos_bias_u"][0] = weights[attention + "pos_bias_v"][0] = 0
    scale = math.sqrt(HEAD_WIDTH)
    weights[attention + "linear_q.bias"][0] = scale * CONTENT
    weights[attention + "linear_k.weight"][0, CHANNEL] = 1
    weights[attention + "pos_bias_v"][0, 1] = 1
    weights[attention + "linear_pos.weight"][1] = scale * score_of_distance()
    weights[attention + "linear_v.weight"][0, CHANNEL] = 1
    weights[attention + "linear_out.weight"][:, :HEAD_WIDTH] = 0
    weights[attention + "linear_out.weight"][CHANNEL, 0] = RETURNED

    for name in ("enc.weight", "pred.weight", "pred.bias"):
        weights["joint." + name][UNIT] = 0
    weights["joint.enc.weight"][UNIT, CHANNEL] = 1
    weights["joint.enc.bias"][UNIT] = -THRESHOLD
    scores = weights["joint.joint_net.2.weight"]
    scores[:, UNIT] = 0
    scores[-1, UNIT] = BLANK


def write(source, target):
    """Writes the checkpoint `target` (.nemo), made from `source`, which is quickstart-rnnt.nemo."""
    with tarfile.open(source) as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
    name = next(name for name in files if name.endswith("model_weights.ckpt"))
    weights = torch.load(io.BytesIO(files[name]), map_location="cpu", weights_only=True)
    weights = {key: value.float() if value.is_floating_point() else value for key, value in weights.items()}
    stick(weights)
    changed = io.BytesIO()
    torch.save(weights, changed)
    files[name] = changed.getvalue()
    with tarfile.open(target, "w") as archive:
        for member, data in files.items():
            info = tarfile.TarInfo(member)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
