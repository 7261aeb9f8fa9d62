"""How the page shows where results come from, and what changed since an earlier run."""

import json

METRICS = ["rtfx.total", "rtfx.decode", "wer"]


def about(provenance):
    """Names and values of what the results depend on."""
    device, cpu, build, config = (
        provenance.get(k, {}) for k in ("device", "cpu", "rtfx", "config")
    )
    protocol = config.get("protocol", {})
    cuda = f"runtime {provenance.get('cuda_runtime')}, driver {provenance.get('cuda_driver')}"
    changed = " with uncommitted changes" if build.get("dirty") else ""
    if device.get("type") == "cuda":
        yield "GPU", device.get("name")
        yield "CUDA", cuda
    yield "CPU", f"{cpu.get('model')}, {cpu.get('threads')} threads"
    yield "System", provenance.get("host_os")
    yield "rtfx", f"{build.get('version')}, revision {build.get('revision')}{changed}"
    yield "Build", f"{build.get('build_type')}, {build.get('compiler')}"
    yield "LibTorch", provenance.get("libtorch")
    for model in provenance.get("models", []):
        weights = model.get("weights", "checkpoint")
        what = "" if weights == "checkpoint" else f", weights: {weights}"
        yield "Model", f"{model['id']}: {model['path']}, SHA-256 {model['sha256'][:12]}…{what}"
    for dataset in provenance.get("datasets", []):
        what = f", stand-in data: {dataset['stand_in']}" if dataset.get("stand_in") else ""
        yield "Data", f"{dataset['id']}: {dataset['path']}, SHA-256 {dataset['sha256'][:12]}…{what}"
    warm, measured = protocol.get("warmup_rounds"), protocol.get("measured_rounds")
    yield "Rounds", f"{warm} to warm up, {measured} measured"
    yield "Configuration", f"hash {provenance.get('config_hash', '')[:12]}"


def change_of(metric, change):
    """Text, sign and class of a change with its interval; None where either run has no value."""
    if change is None:
        return None
    value, low, high = (change["change"][key] for key in ("estimate", "low", "high"))
    unit, neutral, show = (100, 0, "{:+.2f}") if metric == "wer" else (1, 1, "{:.3f}")
    if low is None or high is None:  # a single round has no interval
        sign, style, ends = "", "plain", ""
    else:
        known = low > neutral or high < neutral
        better = (value > neutral) == (metric != "wer")
        sign = ("▲ better" if better else "▼ worse") if known else "= no clear change"
        style = ("good" if better else "poor") if known else "plain"
        ends = f" [{show.format(unit * low)}, {show.format(unit * high)}]"
    return {"text": show.format(unit * value) + ends, "sign": sign, "style": style}


def baseline_of(facts):
    """The facts' comparison with an earlier run, made ready for the page."""
    baseline = facts["baseline"]
    if not baseline:
        return None
    rows = [
        {"case": row["case"], **{m.split(".")[-1]: change_of(m, row[m]) for m in METRICS}}
        for row in baseline["cases"]
    ]
    changes = [
        {"key": c["key"], "from": text_of(c["from"]), "to": text_of(c["to"])}
        for c in baseline["changes"]
    ]
    return baseline | {"rows": rows, "changes": changes}


def text_of(value):
    if value is None:
        return "(absent)"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
