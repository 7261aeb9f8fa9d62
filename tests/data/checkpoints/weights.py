"""Random weights whose greedy decisions are clear of rounding, for make.py."""

import itertools

import torch


def randomise(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, value in model.named_parameters():
        draw = torch.randn(value.shape, generator=generator)
        if "bias_u" in name or "bias_v" in name:
            value.copy_(0.5 * draw)
        elif "embed" in name:  # NeMo's row of padding stays zero
            value.copy_(draw * (value != 0).any(-1, keepdim=True))
        elif value.dim() > 1:
            value.copy_(1.6 * draw / value[0].numel() ** 0.5)
        elif "norm" in name and name.endswith("weight"):
            value.copy_(1 + 0.2 * draw)
        else:
            value.copy_(0.1 * draw)
    for name, value in model.named_buffers():
        if name.endswith("running_mean"):
            value.copy_(0.2 * torch.randn(value.shape, generator=generator))
        elif name.endswith("running_var"):
            value.copy_(0.05 + 0.1 * torch.rand(value.shape, generator=generator))


def logits_of(layer, run, blank=None):
    """Returns the inputs of an output layer during run(), one row per decision, and its logits. With
    `blank`, the decisions are random."""
    rows = []
    generator = torch.Generator().manual_seed(1)

    def hook(_, given, out):
        value = given[0].transpose(1, 2) if isinstance(layer, torch.nn.Conv1d) else given[0]
        rows.append(value.reshape(-1, layer.weight.shape[1]).clone())
        if blank is not None and not isinstance(layer, torch.nn.Conv1d):
            out = 100 * torch.randn(out.shape, generator=generator)
            out[..., blank] += 200
        return out

    handle = layer.register_forward_hook(hook)
    run()
    handle.remove()
    rows = torch.cat(rows)
    return rows, rows @ layer.weight.flatten(1).T + layer.bias


def tune(layer, durations, run, big_blanks=0, scale=6.0):
    """Centres the logits and finds the bias of the blank. run() returns (labels, frames). Big blanks become more
    probable than tokens."""
    blank = layer.weight.shape[0] - durations - 1
    layer.bias.zero_()
    values = logits_of(layer, run, blank)[1]
    factor = scale / values.std(0).mean()
    layer.weight.mul_(factor)
    layer.bias.sub_(factor * values.mean(0))
    if durations:
        layer.bias[blank + 1] -= 2 * scale  # makes a duration of 0 rare
    layer.bias[blank - big_blanks : blank] += scale / 2
    low, high, middle = -10 * scale, 10 * scale, float(layer.bias[blank])
    for _ in range(9):
        layer.bias[blank] = middle + (low + high) / 2
        labels, frames = run()
        often = labels > (0.3 if durations or big_blanks else 0.45) * frames
        low, high = ((low + high) / 2, high) if often else (low, (low + high) / 2)
    layer.bias[blank] = middle + high


def fit(layer, durations, run, half=False, wanted=0.1, rounds=6):
    """Gives the decisions of the layer a margin, and changes few or none of them. Returns the smallest margin."""
    rows, values = logits_of(layer, run)
    parts = [p for p in values.split([values.shape[1] - durations, durations], 1) if p.shape[1]]
    best = [part.argmax(1, keepdim=True) for part in parts]
    weight, bias = layer.weight.flatten(1).clone(), layer.bias.clone()
    optimiser = torch.optim.Adam([weight.requires_grad_(), bias.requires_grad_()], lr=5e-3)
    for _ in range(2000):
        with torch.enable_grad():
            values = (rows @ weight.T + bias).split([p.shape[1] for p in parts], 1)
            short = [wanted - margins(v, b) for v, b in zip(values, best)]
            loss = sum(torch.relu(s).sum() for s in short)
            if float(loss) == 0:
                break
            optimiser.zero_grad()
            loss.backward()
        optimiser.step()
    layer.weight.copy_(weight.reshape(layer.weight.shape))
    layer.bias.copy_(bias)
    layer.half().float() if half else None
    values = logits_of(layer, run)[1].split([p.shape[1] for p in parts], 1)
    margin = min(float(margins(v, v.argmax(1, keepdim=True)).min()) for v in values)
    if margin < wanted / 4 and rounds > 1:  # some margins stayed too small; the present decisions are fitted next
        return fit(layer, durations, run, half, wanted, rounds - 1)
    return margin


def margins(values, best):
    """Returns for each row how far the best logit is above the next one."""
    return values.gather(1, best)[:, 0] - values.scatter(1, best, -1e9).amax(1)


def fault_of(references, margin, noisy):
    """Returns the reason why the references of a model do not serve, or an empty text."""
    if margin < 0.015:
        return f"margin {margin:.4f}"
    lists = {}
    for reference in references.values():
        for row in reference.values():
            for key in row.keys() & {"tokens", "ctc_tokens"}:
                lists.setdefault(key, []).append(row[key])
    for key, ids in lists.items():
        if any(len(list(group)) > 9 for row in ids for _, group in itertools.groupby(row)):
            return f"{key}: a label again and again {ids}"
        if sum(len(set(i)) >= 3 for i in ids) < 0.7 * len(ids) or len(set(sum(ids, []))) < 8:
            return f"{key}: little variety {ids}"
    if len(set(map(str, references.values()))) < len(references):
        return "contexts do not differ"
    return "" if all(n == references for n in noisy) else "noise tells"
