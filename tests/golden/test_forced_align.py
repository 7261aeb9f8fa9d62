"""Tests that alignments through the CTC head equal torchaudio's (make_forced_align.py)."""

import json

import numpy as np
import pytest
from conftest import AUDIO, MODELS, small_config
from golden import DATA

EXPECTED = json.loads((DATA / "forced_align.json").read_text(encoding="utf-8"))["quickstart"]
TEXTS = {line["audio_filepath"][:-5]: line["text"]
         for line in map(json.loads, (AUDIO / "manifest.jsonl").read_text().splitlines())}  # fmt: skip
FRAME = 0.08  # seconds


@pytest.fixture(scope="module")
def aligned(rtfx):
    """Returns {utterance: the program's JSON} of quickstart-rnnt."""
    result = rtfx("align", "--model", MODELS / "quickstart-rnnt.nemo", "--head", "ctc", "--threads", 1, "--device", "cpu",
                  "--format", "json", "--tokens", AUDIO / "manifest.jsonl")  # fmt: skip
    assert result.returncode == 0, result.stderr
    return dict(zip(TEXTS, map(json.loads, result.stdout.splitlines()), strict=True))


def spans(line):
    """Returns token ids, first frames and numbers of frames. The last token may end up to a frame early, with the
    audio."""
    begins = [round(token["start"] / FRAME) for token in line["tokens"]]
    runs = [max(1, round((token["end"] - token["start"]) / FRAME)) for token in line["tokens"]]
    return [token["id"] for token in line["tokens"]], begins, runs


@pytest.mark.parametrize("utterance", EXPECTED)
def test_tokens_and_frames_are_those_of_torchaudio(aligned, utterance):
    line, expected = aligned[utterance], EXPECTED[utterance]
    assert spans(line) == (expected["tokens"], expected["frames"], expected["runs"])
    assert [token["confidence"] for token in line["tokens"]] == pytest.approx(expected["confidence"], abs=1e-3)
    assert line["score"] == pytest.approx(expected["score"], abs=0.05)


def test_an_installed_torchaudio_agrees(rtfx, aligned, tmp_path):
    """An installed torchaudio gives the same alignment for the emissions of `rtfx emissions`."""
    torch = pytest.importorskip("torch")
    forced_align = pytest.importorskip("torchaudio.functional").forced_align
    config = small_config(decoders=["ctc_greedy"], batch_sizes=[1])
    config["datasets"] = [{"id": "quickstart", "manifest": str(AUDIO / "manifest.jsonl")}]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert rtfx("emissions", tmp_path / "config.json", "--output", tmp_path / "out").returncode == 0
    every = torch.from_numpy(np.load(tmp_path / "out/emissions.npy"))
    lines = [json.loads(line) for line in (tmp_path / "out/utterances.jsonl").read_text().splitlines()]
    begin = 0
    for utterance in lines:
        emissions, begin = every[begin : begin + utterance["frames"]], begin + utterance["frames"]
        tokens, begins, runs = spans(aligned[utterance["id"]])
        path = np.full(len(emissions), emissions.shape[1] - 1)
        for token, first, run in zip(tokens, begins, runs, strict=True):
            path[first : first + run] = token
        labels, _ = forced_align(emissions[None], torch.tensor([tokens], dtype=torch.int32), blank=emissions.shape[1] - 1)
        assert path.tolist() == labels[0].tolist(), utterance["id"]
