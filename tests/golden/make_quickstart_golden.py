"""Collects NeMo's reference results for the utterances of datasets/quickstart.

Reads the golden/ part of a shared folder, where NeMo ran on the CPU, in fp32, one utterance at a
time. It has one folder per checkpoint with `golden.json`, `<id>.npz` per spoken sentence and
`greedy_all.jsonl` for the recordings. Writes beside this script:
  data/quickstart_greedy.json    greedy tokens, their encoder frames, TDT durations (of the spoken
                                 sentences: the reference kept none for the recordings), CTC tokens
  data/quickstart_tensors.npz    <id>/mel f32 [80, F], <id>/enc f32 [T, D],
                                 <id>/ctc_logprobs f32 [T, 1025] of two utterances
"""

import argparse
import json
from pathlib import Path

import numpy as np
from npz import save_npz

HERE = Path(__file__).parent
MANIFEST = HERE.parents[1] / "datasets/quickstart/manifest.jsonl"
TENSOR_IDS = ["qs06", "qs10"]


def from_arrays(arrays):
    result = {
        "encoder_frames": None,
        "tokens": arrays["greedy/ids"].tolist(),
        "frames": arrays["greedy/timestamps"].tolist(),
        "ctc_tokens": arrays["ctc_ids"].tolist(),
    }
    if "greedy/durations" in arrays:
        result["durations"] = arrays["greedy/durations"].tolist()
    return result


def greedy_results(folder, ids):
    about = json.loads((folder / "golden.json").read_text())
    recorded = {}
    for line in map(json.loads, (folder / "greedy_all.jsonl").read_text().splitlines()):
        if not line.get("durations", True):
            del line["durations"]  # the reference has no durations here
        recorded[Path(line.pop("file")).stem] = line
    utterances = {}
    for name in ids:
        if name in recorded:
            utterances[name] = recorded[name]
        else:
            utterances[name] = from_arrays(np.load(folder / f"{name}.npz"))
            utterances[name]["encoder_frames"] = about["files"][name]["frames"]
    return {
        "nemo": about["nemo"],
        "torch": about["torch"],
        "model_sha256": about["model_sha256"],
        "max_symbols": about["max_symbols"],
        "utterances": utterances,
    }


def tensors(folder):
    result = {}
    for name in TENSOR_IDS:
        arrays = np.load(folder / f"{name}.npz")
        result[f"{name}/mel"] = arrays["mel"][:, : int(arrays["mel_len"])]
        result[f"{name}/enc"] = arrays["enc"]
        result[f"{name}/ctc_logprobs"] = arrays["ctc_logprobs"]
    return result


def write_results(results, path):
    """Writes one utterance a line, so that a reader sees which utterance differs."""
    with open(path, "w") as out:
        out.write("{\n")
        for model, result in results.items():
            utterances = result.pop("utterances")
            head = json.dumps(result)[:-1]
            rows = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in utterances.items())
            end = "," if model != list(results)[-1] else ""
            out.write(f'{json.dumps(model)}: {head}, "utterances": {{\n{rows}\n}}}}{end}\n')
        out.write("}\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shared", type=Path, help="the shared folder (holds golden/)")
    golden = parser.parse_args().shared / "golden"

    lines = map(json.loads, MANIFEST.read_text().splitlines())
    ids = [Path(line["audio_filepath"]).stem for line in lines]
    models = ["quickstart-rnnt", "quickstart-tdt"]
    results = {model: greedy_results(golden / model, ids) for model in models}
    write_results(results, HERE / "data/quickstart_greedy.json")
    save_npz(HERE / "data/quickstart_tensors.npz", tensors(golden / models[0]))


if __name__ == "__main__":
    main()
