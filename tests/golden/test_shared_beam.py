"""ALSD++ and AES++ n-best lists (RTFX_SHARED) against NeMo's, with and without the 6-gram: every text
in its place, its frames and its score.

Where NeMo does otherwise than the algorithm says, the decoders' options "as in NeMo" are set."""

import json
import re

import numpy as np
import pytest
from golden import SHARED, need, searches, transcripts

SIX_GRAM = SHARED / "lm/token_6gram.arpa.gz"
MODELS = ["quickstart-rnnt", "quickstart-tdt", "standin-rnnt", "standin-tdt"]
DECODERS = {"malsd": "alsd_pp", "maes": "aes_pp"}
SCORES = 2e-3  # of sums over some hundred labels in float32
TIE = 2e-4  # neighbours in a list whose scores are that close may be in either order


# All searches on the quickstart checkpoints; on the larger ones, which take minutes each, some: each
# form of the language model, and both sizes of beam.
ALL = r"(malsd|maes)_"
SOME = r"(malsd|maes)_(b8_lm_late_lm_weighted_full|b4_nolm|b4_lm_early_no_score)"


def searches_of_nemo(model):
    """(name of NeMo's search, name of the decoder, its options)"""
    settings = json.loads((SHARED / "golden" / model / "golden.json").read_text())
    for name, search in settings["decoders"].items():
        if not (match := re.match(SOME if model.startswith("standin") else ALL, name)):
            continue
        beam = search["beam_size"]
        options = {"beam_size": beam, "nbest": beam, "compatibility": "nemo"}
        if match[1] == "malsd":
            options |= {"max_symbols": search["max_symbols"]}
        else:
            options |= {
                "num_steps": search["maes_num_steps"],
                "expansion_beta": search["maes_expansion_beta"],
                "expansion_gamma": search["maes_expansion_gamma"],
            }
        if "pruning_mode" in search:
            options["lm"] = {
                "path": str(SIX_GRAM),
                "alpha": settings["lm_alpha"],
                "pruning": search["pruning_mode"],
                "blank_scoring": search["blank_lm_score_mode"],
                "blank_eps": 1e-2 if match[1] == "malsd" else 1e-6,
            }
        yield name, DECODERS[match[1]], options


def reference(arrays, name, tdt):
    """The list as `transcribe --json` prints it."""
    lines = []
    for k, length in enumerate(arrays[f"{name}/lens"]):
        # NeMo gives the frame after a TDT token's duration instead of its own.
        frames = "ends" if tdt else "frames"
        lines.append(
            {
                "tokens": arrays[f"{name}/ids"][k, :length].tolist(),
                frames: arrays[f"{name}/timestamps"][k, :length].tolist(),
                "score": float(arrays[f"{name}/scores"][k]),
            }
        )
    return lines


def difference(found, expected):
    """Describes the first difference of the lists, or returns None."""
    if len(found) != len(expected):
        return f"{len(found)} texts instead of {len(expected)}"

    def key(line):
        return line["score"] / (len(line["tokens"]) + 1)

    left = list(expected)
    for place, line in enumerate(found):
        # Where scores are equal but for rounding, any of the equal ones may stand here.
        equals = [e for e in left if abs(key(e) - key(expected[place])) < TIE]
        ends = np.add(line["frames"], line.get("durations", 0)).tolist()
        same = [
            e
            for e in equals
            if e["tokens"] == line["tokens"]
            and abs(e["score"] - line["score"]) < SCORES
            and (e["ends"] == ends if "ends" in e else e["frames"] == line["frames"])
        ]
        if not same:
            return f"place {place}: {line} instead of {expected[place]}"
        left.remove(same[0])
    return None


@pytest.mark.parametrize("model", MODELS)
def test_nbest(program, model, capsys):
    folder, checkpoint = SHARED / "golden" / model, SHARED / "models" / f"{model}.nemo"
    need(SIX_GRAM, folder, checkpoint, SHARED / "audio")
    files = {path.stem: path for path in sorted((SHARED / "audio").rglob("*.flac"))}
    expected = {path.stem: np.load(path) for path in sorted(folder.glob("*.npz"))}
    searched = [f"{name}/ids" for name, *_ in searches_of_nemo(model)]
    expected = {s: arrays for s, arrays in expected.items() if s in files and any(name in arrays for name in searched)}
    if model == "standin-rnnt":  # takes most of this file's time, for searches that quickstart-rnnt has too
        expected = dict(list(expected.items())[::4])
    audio = tuple(files[stem] for stem in expected)
    decoders = {name: (decoder, options) for name, decoder, options in searches_of_nemo(model)}
    all_found = transcripts(checkpoint, searches(**decoders), audio)
    failures, compared = [], 0
    for name, found in all_found.items():
        for stem, arrays in expected.items():
            if f"{name}/ids" not in arrays:
                continue
            compared += 1
            lines = found[files[stem].name]["nbest"]
            if wrong := difference(lines, reference(arrays, name, model.endswith("tdt"))):
                failures.append(f"{name} {stem}: {wrong}")
    with capsys.disabled():
        print(f"\n  {model}: {compared - len(failures)} of {compared} lists equal NeMo's")
    assert compared >= (45 if model == "standin-rnnt" else 90)
    assert not failures, "\n".join(failures)
