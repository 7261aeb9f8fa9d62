"""Compares n-best lists of ALSD++ and AES++ with NeMo's, with and without the 6-gram (RTFX_SHARED). Texts, their
order, frames and scores agree.

NeMo differs from the published algorithms in places. The decoders have options that follow NeMo, which are set here."""

import json

import numpy as np
import pytest
from golden import SHARED, checkpoint, need, searches, standin256, transcripts

SIX_GRAM = SHARED / "lm/token_6gram.arpa.gz"
MODELS = ["quickstart-rnnt", "quickstart-tdt", "standin256-rnnt", "standin256-tdt"]
DECODERS = {"malsd": "alsd_pp", "maes": "aes_pp"}
SCORES = 2e-3  # tolerance of sums over some hundred labels in float32
TIE = 2e-4  # neighbours in a list whose scores are that close may be in either order


def searches_of_nemo(settings):
    """Yields (name of NeMo's search, name of the decoder, its options)."""
    for name, search in settings["searches"].items():
        kind = name.partition("_")[0]
        if kind not in DECODERS:
            continue
        beam = search["beam_size"]
        options = {"beam_size": beam, "nbest": beam, "compatibility": "nemo"}
        if kind == "malsd":
            options |= {"max_symbols": settings["max_symbols"]}
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
                "blank_eps": 1e-2 if kind == "malsd" else 1e-6,
            }
        yield name, DECODERS[kind], options


def from_arrays(arrays, name):
    """Returns a list of the shared folder in the form of standin256()."""
    return [
        [
            arrays[f"{name}/ids"][k, :length].tolist(),
            arrays[f"{name}/timestamps"][k, :length].tolist(),
            float(arrays[f"{name}/scores"][k]),
        ]
        for k, length in enumerate(arrays[f"{name}/lens"])
    ]


def reference(model):
    """Returns the settings, and {utterance: {search: list}}."""
    if model.startswith("standin"):
        settings, lines = standin256()
        key = f"{model.rpartition('-')[2]}_nbest"
        return settings, {name: line[key] for name, line in lines.items() if key in line}
    folder = SHARED / "golden" / model
    need(folder)
    settings = json.loads((folder / "golden.json").read_text())
    settings["searches"] = settings["decoders"]
    lists = {}
    for path in sorted(folder.glob("*.npz")):
        arrays = np.load(path)
        names = [name for name, *_ in searches_of_nemo(settings) if f"{name}/ids" in arrays]
        if names:
            lists[path.stem] = {name: from_arrays(arrays, name) for name in names}
    return settings, lists


def as_printed(lists, model):
    """Returns a list in the form of `transcribe --json`."""
    # NeMo 2.7.3, which decoded for quickstart-tdt, gives the frame after a TDT token's duration, not the token's own.
    frames = "ends" if model == "quickstart-tdt" else "frames"
    return [{"tokens": tokens, frames: times, "score": score} for tokens, times, score in lists]


def difference(found, expected):
    """Describes the first difference of the lists, or returns None."""
    if len(found) != len(expected):
        return f"{len(found)} texts instead of {len(expected)}"

    def key(line):
        return line["score"] / (len(line["tokens"]) + 1)

    left = list(expected)
    for place, line in enumerate(found):
        # If scores are equal up to rounding, any of the equal texts may stand at this place.
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
    path = checkpoint(model)
    need(SIX_GRAM, SHARED / "audio")
    settings, expected = reference(model)
    searched = {search for lists in expected.values() for search in lists}
    decoders = {n: (decoder, options) for n, decoder, options in searches_of_nemo(settings) if n in searched}
    if model == "standin256-rnnt":  # slowest model of this file, whose searches quickstart-rnnt has too
        expected = dict(list(expected.items())[::2])
    files = {file.stem: file for file in (SHARED / "audio").rglob("*.flac")}
    found = transcripts(path, searches(**decoders), tuple(files[name] for name in expected))
    failures, compared = [], 0
    for utterance, lists in expected.items():
        for search, listed in lists.items():
            compared += 1
            lines = found[search][files[utterance].name]["nbest"]
            if wrong := difference(lines, as_printed(listed, model)):
                failures.append(f"{search} {utterance}: {wrong}")
    with capsys.disabled():
        print(f"\n  {model}: {compared - len(failures)} of {compared} lists equal NeMo's")
    assert compared >= 90
    assert not failures, "\n".join(failures)
