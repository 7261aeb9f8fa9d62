"""Prints the settings with which a published table is measured on what is at hand: table_settings.py TABLE MODEL [OPTIONS]

They are lines KEY=VALUE for `rtfx run configs/tables/TABLE.json --set`. MODEL is one of the table's models, so that
each GPU can measure another one. `--steps` prints all pairs TABLE:MODEL whose checkpoint has a stand-in or is there.

A set that is absent is replaced by spoken or recorded speech (SETS), and left out where nothing can take its place. The
language model of an absent set is replaced by LM. Slow batch sizes get a sample of the set (SAMPLES), which tables mark as
REDUCED; `--whole` takes all of it.
"""

import argparse
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("RTFX_SHARED", "../shared"))
SPOKEN = Path("data/test_other")

# {set: (manifest, description of its audio if no stand_in.txt beside the manifest has one)}
SETS = {
    "test_other": (SPOKEN / "manifest.jsonl", None),
    "test_clean": (Path("data/test_clean/manifest.jsonl"), None),
    "hub5_00": (SPOKEN / "manifest.jsonl", None),
    "internal": (SPOKEN / "manifest.jsonl", None),
    "spgi": (SPOKEN / "test.jsonl", None),
    "spgi_dev": (SPOKEN / "dev.jsonl", None),
    "europarl_dev": (SPOKEN / "dev.jsonl", None),
    "slurp_dev": (SPOKEN / "dev.jsonl", None),
    "europarl": (SHARED / "audio/mini_libri/manifest.jsonl", "two readers of mini LibriSpeech"),
    "slurp": (SHARED / "audio/an4/manifest.jsonl", "the test set of AN4"),
}
LM = "data/token_6gram.arpa.gz"
TUNED_ONE_BY_ONE = 64  # utterances of the development set for searches that take one utterance at a time, which is slow
# {TABLE or TABLE:MODEL: {batch size: utterances of the largest set}}; other batch sizes take all utterances.
SAMPLES = {
    "label_looping_table1": {1: 320, 4: 1024},
    "label_looping_table2": {1: 640},
    "label_looping_table3": {1: 320, 4: 1024},
    "label_looping_table4": {1: 320, 4: 1024},
    "beam_ablations": {1: 32, 32: 512},
    "beam_table1:fastconformer-rnnt-1k": {32: 128},
    "beam_table1": {32: 1024},
    "beam_table2": {1: 32, 4: 128, 8: 256, 16: 512, 32: 1024},
    "wfst_ablations": {1: 32},
    "wfst_figure6": {32: 1024},
}


def from_root(value):
    """Makes the paths in a part of a configuration, which are relative to its folder, relative to the root."""
    if isinstance(value, dict):
        return {key: from_root(of) for key, of in value.items()}
    if isinstance(value, list):
        return [from_root(of) for of in value]
    return value.removeprefix("../../") if isinstance(value, str) else value


def table(name):
    path = ROOT / f"configs/tables/{name}.json"
    if not path.is_file():
        raise SystemExit(f"table_settings: error: no table '{name}'; --steps lists them")
    config = json.loads(path.read_text(encoding="utf-8"))
    return {key: from_root(config[key]) for key in ("models", "datasets", "decoders", "batch_sizes")} | {
        "baseline": config.get("baseline", config["decoders"][0]["id"]),
        "tune": from_root(config.get("tune", []))}  # fmt: skip


def steps():
    for file in sorted((ROOT / "configs/tables").glob("*.json")):
        if file.stem.endswith(".tuned"):  # a file that `rtfx tune` wrote
            continue
        for model in table(file.stem)["models"]:
            path = Path(model["path"])
            if path.name.startswith("standin-") or (ROOT / path).exists():
                yield f"{file.stem}:{model['id']}"


def sample(manifest, count):
    """Writes `count` utterances, evenly spread over the lengths, beside the manifest. Returns that file, or the
    manifest if it has no more than `count`."""
    lines = [line for line in (ROOT / manifest).read_text(encoding="utf-8").split("\n") if line.strip()]
    if count >= len(lines):
        return manifest
    by_length = sorted(range(len(lines)), key=lambda i: json.loads(lines[i])["duration"])
    chosen = sorted(by_length[(2 * i + 1) * len(lines) // (2 * count)] for i in range(count))
    path = manifest.with_name(f"{manifest.stem}_{count}.jsonl")
    partial = (ROOT / path).with_suffix(f".{os.getpid()}.part")  # other processes may write the same
    partial.write_text("".join(lines[i] + "\n" for i in chosen), encoding="utf-8")
    partial.replace(ROOT / path)
    return path


def stand_in(dataset):
    """Returns the data set with its own manifest, or with that of a stand-in, or None if SETS lacks one."""
    if (ROOT / dataset["manifest"]).exists():
        return dataset
    name = "test_other" if dataset["id"].startswith("long_") else dataset["id"]
    try:
        manifest, text = SETS[name]
    except KeyError:
        return None
    return dataset | {"manifest": str(manifest)} | ({"stand_in": text} if text else {})


def by_batch(dataset, batches, samples):
    """Yields the data set once for each number of utterances that it has at these batch sizes."""
    manifest = Path(dataset["manifest"])
    if "batch_sizes" in dataset:  # the table measures this set only at these sizes
        batches = [batch for batch in batches if batch in dataset["batch_sizes"]]
        dataset = dataset | {"batch_sizes": batches}
    if not batches:
        return
    if not (ROOT / manifest).is_file():  # rtfx names the command that makes it
        yield dataset
        return
    sizes = {}
    for batch in batches:
        file = sample(manifest, samples[batch]) if batch in samples else manifest
        sizes.setdefault(file, []).append(batch)
    files = sorted(sizes, key=lambda file: (ROOT / file).stat().st_size)
    for file in files:
        name = dataset["id"] if file == files[-1] else f"{dataset['id']}_{file.stem.rpartition('_')[2]}"
        entry = dataset | {"id": name, "manifest": str(file)}
        yield entry | ({"batch_sizes": sizes[file]} if len(files) > 1 else {})


def with_lm(decoder):
    """Returns the decoder with its own token language model if the file exists, else with LM."""
    lm = decoder.get("options", {}).get("lm")
    if not isinstance(lm, dict) or (ROOT / lm["path"]).exists():
        return decoder
    return decoder | {"options": decoder["options"] | {"lm": lm | {"path": LM}}}


def tunings(config, model, decoders):
    """Yields the settings of `rtfx tune` for a model, one for each search and each development set that is there.

    The forms of a search share their weights, so only the fastest form is tuned. Sets with the same stand-in share
    weights too.
    """
    options = {decoder["id"]: decoder.get("options", {}) for decoder in decoders}
    found = {}
    for entry in config["tune"]:
        dataset = stand_in(entry["dataset"])
        if model not in entry.get("models", [model]) or dataset is None:
            continue
        forms = [entry["decoder"], *entry.get("shared_with", [])]
        key = (forms[0].partition("_lm_")[0], dataset["manifest"])
        if key not in found:
            is_there = (ROOT / dataset["manifest"]).is_file()  # if not, rtfx names the command that makes it
            if is_there and not any(is_batched(options[form]) for form in forms):
                dataset = dataset | {"manifest": str(sample(Path(dataset["manifest"]), TUNED_ONE_BY_ONE))}
            found[key] = {"dataset": dataset, "options": entry["options"], "tolerance": 0.1, "forms": []}
        found[key]["forms"] += forms
    for entry in found.values():
        forms = sorted(entry.pop("forms"), key=lambda form: (options[form].get("kernels") != "fused", "fused" not in form))
        yield entry | {"decoder": forms[0]} | ({"shared_with": forms[1:]} if forms[1:] else {})


def is_batched(options):
    return options.get("loop") == "graph"


def settings(name, model, whole=False, rounds=None, batches=None, streams=None, precision=None, aa=False, tune=False):
    config = table(name)
    batches = batches or config["batch_sizes"]
    models = [m for m in config["models"] if m["id"] == model]
    if not models:
        raise SystemExit(f"table_settings: error: {name}: no model '{model}'; --steps lists them")
    samples = {} if whole else SAMPLES.get(f"{name}:{model}", SAMPLES.get(name, {}))
    found = {dataset["id"]: stand_in(dataset) for dataset in config["datasets"]}
    for missing in (key for key, dataset in found.items() if not dataset):
        print(f"{name}: nothing takes the place of the set {missing}, which is left out", file=sys.stderr)
    datasets = [entry for dataset in found.values() if dataset for entry in by_batch(dataset, batches, samples)]
    if any(found.values()) and not datasets:
        raise SystemExit(f"table_settings: error: {name}: no set is for batch sizes {batches}; its own are {config['batch_sizes']}")
    # One model is left, so that no decoder needs to say which.
    decoders = [{key: value for key, value in with_lm(decoder).items() if key != "models"}
                for decoder in config["decoders"] if model in decoder.get("models", [model])]  # fmt: skip
    for key, value in {"models": models, "datasets": datasets, "decoders": decoders, "batch_sizes": batches,
                       "tune": (tune and list(tunings(config, model, decoders))) or None}.items():  # fmt: skip
        yield f"{key}={json.dumps(value)}"
    if streams:
        yield f"stream.streams={json.dumps(streams)}"
    if rounds:
        yield f"protocol.warmup_rounds={rounds[0]}"
        yield f"protocol.measured_rounds={rounds[1]}"
    if precision:
        yield f"protocol.precision={precision}"
    if aa:
        yield "protocol.aa_control=true"
    if not any(decoder["id"] == config["baseline"] for decoder in decoders):
        yield "baseline=" + json.dumps(decoders[0]["id"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", nargs="?")
    parser.add_argument("model", nargs="?")
    parser.add_argument("--whole", action="store_true", help="no samples")
    parser.add_argument("--batches", nargs="+", type=int, metavar="SIZE", help="in place of the table's batch sizes")
    parser.add_argument("--rounds", nargs=2, type=int, metavar=("WARM_UPS", "MEASURED"), help="in place of the table's")
    parser.add_argument("--precision", type=float, metavar="SHARE",
                        help="more rounds until the interval of every total RTFx is within this share, such as 0.03")  # fmt: skip
    parser.add_argument("--aa", action="store_true", help="the baseline twice, which shows the noise of a comparison")
    parser.add_argument("--streams", nargs="+", type=int, metavar="COUNT", help="in place of the table's numbers of streams")
    parser.add_argument("--tune", action="store_true", help="keep what the table has for `rtfx tune`, where its set is there")
    parser.add_argument("--steps", action="store_true", help="print all pairs TABLE:MODEL")
    arguments = parser.parse_args()
    if arguments.steps:
        print("\n".join(steps()))
    elif arguments.model:
        options = {key: getattr(arguments, key) for key in ("whole", "rounds", "batches", "streams", "precision", "aa", "tune")}
        print("\n".join(settings(arguments.table, arguments.model, **options)))
    else:
        parser.error("give TABLE and MODEL, or --steps")


if __name__ == "__main__":
    main()
