"""Tests of checkpoints that cannot be used, and of one that yields NaN."""

import io
import json
import os
import pickle
import resource
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
from conftest import AUDIO, MODELS, ROOT, runs_of, small_config, strict_records

CHECKPOINT = MODELS / "quickstart-rnnt.nemo"
TINY = ROOT / "tests/data/checkpoints"
SHARED = Path(os.environ.get("RTFX_SHARED", ROOT.parent / "shared"))


@pytest.fixture
def complaint(rtfx, tmp_path):
    """Returns the single line that `rtfx transcribe` prints about a model, without the folder's path. That path holds
    the name of the test, and with it words that the tests look for."""

    def load(path):
        result = rtfx("transcribe", "--model", path, AUDIO / "qs10.flac")
        assert result.returncode == 2
        assert result.stderr.count("\n") == 1, result.stderr
        assert str(path) in result.stderr
        return result.stderr.replace(str(tmp_path), "")

    return load


def altered(path, ending, change):
    """Writes a copy of CHECKPOINT to `path`, with change(bytes) in place of the member that ends in `ending`."""
    with tarfile.open(CHECKPOINT) as source, tarfile.open(path, "w") as target:
        for member in source:
            contents = source.extractfile(member).read() if member.isfile() else b""
            if member.name.endswith(ending):
                contents = change(contents)
                member.size = len(contents)
            target.addfile(member, io.BytesIO(contents))
    return path


def without_last_piece(model):
    """Removes the last piece of a SentencePiece model, a protobuf message whose field 1 holds the pieces."""

    def varint(at):
        value = shift = 0
        while True:
            byte = model[at]
            value |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return value, at

    at = 0
    pieces = []
    while at < len(model):
        begin = at
        tag, at = varint(at)
        if tag != (1 << 3 | 2):  # all pieces precede the other fields
            break
        length, at = varint(at)
        at += length
        pieces.append((begin, at))
    begin, end = pieces[-1]
    return model[:begin] + model[end:]


def test_missing_file(complaint, tmp_path):
    assert "no such file" in complaint(tmp_path / "gone.nemo")


@pytest.mark.parametrize("size", [0, 100, 200_000, 5_000_000])
def test_truncated(complaint, tmp_path, size):
    path = tmp_path / "cut.nemo"
    path.write_bytes(CHECKPOINT.read_bytes()[:size])
    complaint(path)


def test_not_an_archive(complaint):
    complaint(AUDIO / "qs10.flac")


def test_wrong_tokenizer_size(complaint, tmp_path):
    text = complaint(altered(tmp_path / "small.nemo", "tokenizer.model", without_last_piece))
    assert "the tokenizer has 1023 pieces, the model 1024 tokens" in text


def test_no_tokenizer(complaint, tmp_path):
    path = tmp_path / "none.nemo"
    with tarfile.open(CHECKPOINT) as source, tarfile.open(path, "w") as target:
        for member in source:
            if "tokenizer" not in member.name:
                target.addfile(member, source.extractfile(member) if member.isfile() else None)
    assert "tokenizer.model' in the archive; not a NeMo checkpoint, or incomplete" in complaint(path)


def test_damaged_yaml(complaint, tmp_path):
    complaint(altered(tmp_path / "yaml.nemo", "model_config.yaml", lambda _: b"a: [1, 2"))


def test_unsupported_setting_is_named(complaint, tmp_path):
    def change(text):
        assert b"subsampling: dw_striding" in text
        return text.replace(b"subsampling: dw_striding", b"subsampling: vggnet")

    text = complaint(altered(tmp_path / "vgg.nemo", "model_config.yaml", change))
    assert "unsupported setting encoder.subsampling: vggnet" in text


@pytest.mark.parametrize("path", sorted((SHARED / "broken").glob("*.nemo")), ids=lambda p: p.stem)
def test_files_that_once_broke_it(complaint, path):
    complaint(path)


class Command:
    """An object whose pickle runs a command in the process that loads it."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_a_pickle_runs_nothing(complaint, tmp_path):
    def change(_):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("model/data.pkl", pickle.dumps({"w": Command(tmp_path / "ran")}, 2))
        return out.getvalue()

    text = complaint(altered(tmp_path / "evil.nemo", "model_weights.ckpt", change))
    assert "posix.system" in text and "not allowed" in text
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["../outside", "/outside", "a/../../outside"])
def test_members_outside_of_the_archive(complaint, tmp_path, name):
    path = tmp_path / "slip.nemo"
    path.write_bytes((TINY / "tiny_tdt.nemo").read_bytes())
    with tarfile.open(path, "a") as archive:
        archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    assert f"member '{name}' would lie outside of the archive" in complaint(path)


def test_a_link_for_the_weights(complaint, tmp_path):
    path = tmp_path / "link.nemo"
    with tarfile.open(path, "w") as archive:
        link = tarfile.TarInfo("model_weights.ckpt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert "member 'model_weights.ckpt' is a link" in complaint(path)


def test_a_bomb_takes_neither_memory_nor_time(rtfx, tmp_path):
    path = tmp_path / "bomb.nemo"
    with tarfile.open(path, "w:gz", compresslevel=9) as archive:
        entry = tarfile.TarInfo("model_weights.ckpt")
        entry.size = 1 << 30
        archive.addfile(entry, io.BytesIO(bytes(1 << 30)))
    begin = time.monotonic()
    result = rtfx("inspect", path, env=os.environ)  # a child of pytest, so getrusage() counts its memory
    assert result.returncode == 2 and "expands" in result.stderr
    assert time.monotonic() - begin < 30
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 4 << 20  # KiB, the peak of all children so far


def test_a_folder_that_is_no_model(complaint, tmp_path):
    assert "no config.json in this folder" in complaint(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')
    assert "unsupported model 'whisper'" in complaint(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "parakeet_ctc", "encoder_config": 3}')
    complaint(tmp_path)


def test_a_case_that_fails_is_a_record_and_the_others_go_on(rtfx, tmp_path):
    """A model whose weights hold NaN fails while it is loaded, and the other model still runs."""
    torch = pytest.importorskip("torch", reason="needs torch for Python (not with LIBTORCH=DIR)")

    def spoil(contents):
        weights = torch.load(io.BytesIO(contents), map_location="cpu")
        for name, tensor in weights.items():
            if name.startswith("encoder.layers.0.norm_out"):
                tensor.fill_(float("nan"))
        out = io.BytesIO()
        torch.save(weights, out)
        return out.getvalue()

    spoilt = altered(tmp_path / "nan.nemo", "model_weights.ckpt", spoil)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(small_config(models=[str(spoilt), str(CHECKPOINT)])))
    result = rtfx("run", config, "--output", tmp_path / "run")
    assert result.returncode == 1, result.stderr

    records = strict_records(tmp_path / "run/journal.jsonl")
    failures = [record for record in records if record["kind"] == "failure"]
    assert {record["decoder"]["id"] for record in failures} == {"frame_looping", "label_looping"}
    assert all(record["model"]["id"] == "nan" for record in failures)
    for record in failures:
        assert record["stage"] == "prepare", record
        assert "nan.nemo: tensor 'encoder.layers.0.norm_out.weight' holds nan at element 0" in record["message"]
    assert {record["model"]["id"] for record in runs_of(records)} == {"quickstart-rnnt"}
    assert "FAILED" in result.stdout
