"""Tests that features, encoder output and CTC log-probabilities equal NeMo's to 1e-3 absolute in fp32."""

import subprocess

import numpy as np
import pytest
from conftest import AUDIO, MODELS, PROGRAM
from golden import DATA, SHARED, LargestDifference, need

TOLERANCE = 1e-3


@pytest.fixture
def dump(program, tmp_path):
    """dump(model, files) runs rtfx_dump_tensors and returns {stem: {"mel", "enc", "ctc_logprobs": array}}."""
    torch = pytest.importorskip("torch", reason="needs torch for Python (not with LIBTORCH=DIR)")

    def run(model, files):
        tool = PROGRAM.with_name("rtfx_dump_tensors")
        command = [tool, model, tmp_path / "tensors.pt", *files]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        tensors = torch.load(tmp_path / "tensors.pt", weights_only=False)
        return {s: {n: t.numpy() for n, t in named.items()} for s, named in tensors.items()}

    return run


def report(capsys, model, differences):
    with capsys.disabled():
        print(f"\n  largest difference to NeMo, {model}: {differences}")
    differences.check()


@pytest.mark.parametrize("model", ["quickstart-rnnt", "quickstart-tdt"])
def test_quickstart(dump, capsys, model):
    """Both quickstart checkpoints give NeMo's tensors, since their encoder and CTC weights are the same."""
    reference = np.load(DATA / "quickstart_tensors.npz")
    stems = sorted({name.split("/")[0] for name in reference.files})
    assert stems
    found = dump(MODELS / f"{model}.nemo", [AUDIO / f"{stem}.flac" for stem in stems])
    differences = LargestDifference(TOLERANCE)
    for stem in stems:
        for name in ("mel", "enc", "ctc_logprobs"):
            differences.compare(name, found[stem][name], reference[f"{stem}/{name}"])
    report(capsys, model, differences)


def test_shared(dump, capsys):
    model = "quickstart-rnnt"
    need(SHARED / "golden" / model, SHARED / "audio")
    audio = {
        path.stem: path
        for path in (SHARED / "audio").rglob("*")
        if path.suffix in (".wav", ".flac")
    }
    reference = {}
    for path in sorted((SHARED / "golden" / model).glob("*.npz")):
        arrays = np.load(path)
        if "enc" in arrays:
            mel = arrays["mel"][:, : int(arrays["mel_len"])]
            reference[path.stem] = {"mel": mel, **{n: arrays[n] for n in ("enc", "ctc_logprobs")}}
    assert len(reference) >= 10
    found = dump(MODELS / f"{model}.nemo", [audio[stem] for stem in reference])
    differences = LargestDifference(TOLERANCE)
    for stem, arrays in reference.items():
        for name, expected in arrays.items():
            differences.compare(name, found[stem][name], expected)
    report(capsys, model, differences)
