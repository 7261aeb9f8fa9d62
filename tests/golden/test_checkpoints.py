"""Tests that model files of other programs (NeMo's save_to, transformers' save_pretrained) give those programs'
tokens and text. Small files are in tests/data/checkpoints, and more are in the shared folder.

NAME.json stands beside NAME.nemo or the folder NAME. It has an entry for each recording of the quickstart set,
in fp32, one utterance at a time. `tokens` and `text` belong to the transducer head, `ctc_tokens` and `ctc_text` to
the CTC head. An entry has only the keys of heads that the model has and the reference covers. NAME@70_1.json holds
the results with the attention context [70, 1], and NAME~de-DE.json those for the language de-DE.
"""

import json
import os
from pathlib import Path

import pytest
from conftest import AUDIO, ROOT
from golden import DEVICE, SHARED, searches, transcripts

FOLDERS = [ROOT / "tests/data/checkpoints", SHARED / "checkpoints"]
if more := os.environ.get("RTFX_CHECKPOINTS"):  # a folder with more references
    FOLDERS.append(Path(more))
REFERENCES = sorted(
    reference
    for folder in FOLDERS
    for reference in folder.glob("*.json")
    if not reference.stem.startswith("refuse_")
)
REFUSED = {
    "refuse_hat": "hybrid autoregressive transducer (HAT)",
}
TRANSDUCERS = ("frame_looping", "label_looping")
if DEVICE != "cpu":
    TRANSDUCERS += ("fused_looping",)


def model_of(reference):
    name = reference.stem.split("~")[0].split("@")[0]
    folder = reference.with_name(name)
    return folder if folder.is_dir() else reference.with_name(name + ".nemo")


def context_of(reference):
    _, at, context = reference.stem.split("~")[0].partition("@")
    return tuple(map(int, context.split("_"))) if at else ()


def language_of(reference):
    return reference.stem.partition("~")[2]


def heads():
    """Returns {reference: {decoder: key of its tokens}} for every head that a reference covers."""
    found = {}
    for reference in REFERENCES:
        if reference.stem in REFUSED:
            continue
        keys = next(iter(json.loads(reference.read_text(encoding="utf-8")).values())).keys()
        found[reference] = dict.fromkeys(TRANSDUCERS, "tokens") if "tokens" in keys else {}
        found[reference] |= {"ctc_greedy": "ctc_tokens"} if "ctc_tokens" in keys else {}
    return found


HEADS = heads()
CASES = [(reference, decoder) for reference, decoders in HEADS.items() for decoder in decoders]


def test_there_are_references():
    assert len([r for r in REFERENCES if r.parent == FOLDERS[0]]) >= 5


@pytest.mark.parametrize(
    "reference, decoder", CASES, ids=[f"{reference.stem}-{decoder}" for reference, decoder in CASES]
)
def test_tokens_and_text_are_the_other_program_s(reference, decoder):
    expected = json.loads(reference.read_text(encoding="utf-8"))
    files = tuple(AUDIO / name for name in expected)
    decoders = searches(*HEADS[reference])
    model, context = model_of(reference), context_of(reference)
    found = transcripts(model, decoders, files, context, language_of(reference))[decoder]
    key = HEADS[reference][decoder]
    for name, wanted in expected.items():
        assert found[name]["tokens"] == wanted[key], name
        text = wanted.get(key.replace("tokens", "text"))
        if text is not None:
            assert found[name]["text"].strip() == text.strip(), name


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_supported_is_called_by_its_name(rtfx, name):
    model = next((f / f"{name}.nemo" for f in FOLDERS if (f / f"{name}.nemo").exists()), None)
    if model is None:
        pytest.skip(f"no {name}.nemo (RTFX_SHARED names the shared folder)")
    result = rtfx("inspect", model)
    assert result.returncode == 2
    assert REFUSED[name] in result.stderr
    assert result.stderr.count("\n") == 1
