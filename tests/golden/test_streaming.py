"""Compares streams with NeMo's (make_streaming.py). Mel and encoder frames agree to 1e-3 absolute in fp32, in equal
number, and tokens are equal. NeMo's scripts differ from rtfx at the edges of an utterance, so
tests/support/nemo_streams.h repeats their loops. Everywhere else the frames of rtfx equal those of the loops."""

import json
import subprocess

import numpy as np
import pytest
from conftest import AUDIO, MODELS, PROGRAM, ROOT
from golden import DATA, SHARED, LargestDifference, need

TOLERANCE = 1e-3
CASES = json.loads((DATA / "streaming.json").read_text(encoding="utf-8"))
FOLDERS = [ROOT / "tests/data/checkpoints", MODELS, SHARED / "checkpoints"]


def model_of(name):
    paths = [folder / f"{name}.nemo" for folder in FOLDERS]
    return next((path for path in paths if path.exists()), paths[-1])


@pytest.mark.parametrize("model", sorted({case["model"] for case in CASES.values()}))
def test_streams_are_nemos(program, tmp_path, capsys, model):
    torch = pytest.importorskip("torch", reason="needs torch for Python (not with LIBTORCH=DIR)")
    need(model_of(model))
    cases = {name: case for name, case in CASES.items() if case["model"] == model}
    reference = np.load(DATA / "streaming.npz")
    requests = tmp_path / "requests.json"
    requests.write_text(json.dumps(cases), encoding="utf-8")
    tool = PROGRAM.with_name("rtfx_dump_streams")
    command = [tool, model_of(model), tmp_path / "tensors.pt", requests, AUDIO]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    found = torch.load(tmp_path / "tensors.pt", weights_only=False)
    differences, compared = LargestDifference(TOLERANCE), 0
    for name, case in cases.items():
        enc = found[name]["enc"].numpy()
        assert len(enc) == case["encoder_frames"], name
        differences.compare("enc", enc, reference[f"{name}/enc"])
        inner = found[name]["inner"].item()
        streamed = found[name]["streamed"].numpy()
        assert inner <= len(streamed), name
        compared += inner
        differences.compare("streamed", streamed[:inner], enc[:inner])
        if name.endswith("-0007"):
            # NeMo's last frame consists of zeros and belongs to no part of the utterance.
            mel = reference["0007/mel"]
            assert not mel[:, -1].any()
            differences.compare("mel", found[name]["mel"].numpy(), mel[:, :-1])
        for head in ("tokens", "ctc_tokens"):
            if head in case:
                assert found[name][head].tolist() == case[head], f"{name}: {head}"
    with capsys.disabled():
        print(f"\n  largest difference to NeMo, streams of {model}: {differences}")
    differences.check()
    assert compared > 10


def test_there_is_every_kind_of_case():
    assert len({tuple(case["context"]) for case in CASES.values() if "context" in case}) >= 5
    assert sum("buffer" in case for case in CASES.values()) >= 4
