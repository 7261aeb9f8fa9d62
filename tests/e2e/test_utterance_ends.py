"""Tests the ends of utterances in live streams: by a pause, by a token, and by a voice activity detector."""

import importlib.util
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from conftest import AUDIO, MODELS, ROOT, strict_records

MODEL = MODELS / "quickstart-rnnt.nemo"
CLIPS = [AUDIO / f"qs{n}.flac" for n in ("01", "10", "20")]
GAP = 1.5  # seconds

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is deprecated")


class Energy(torch.nn.Module):
    """Stands in for Silero's detector: somebody speaks where the mean square of a window is above 1e-4."""

    def __init__(self):
        super().__init__()
        self.windows = 0

    @torch.jit.export
    def reset_states(self):
        self.windows = 0

    def forward(self, x: torch.Tensor, sr: int) -> torch.Tensor:
        self.windows += 1
        return (x.pow(2).mean(-1, keepdim=True) > 1e-4).float()


class Whole(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean()


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    path = tmp_path_factory.mktemp("vad") / "energy.jit"
    torch.jit.script(Energy()).save(str(path))
    return path


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    """Writes three recordings with silence after each, and returns the file and the end of each recording in
    seconds."""
    samples, ends = [], []
    for clip in CLIPS:
        samples.append(soundfile.read(clip, dtype="int16")[0])
        ends.append(sum(map(len, samples)) / 16000)
        samples.append(np.zeros(int(GAP * 16000), "int16"))
    path = tmp_path_factory.mktemp("joined") / "joined.wav"
    soundfile.write(path, np.concatenate(samples), 16000)
    return path, ends


@pytest.fixture
def listen(rtfx, joined):
    """Returns the final lines of a file's live text. The search has no state, so an end of utterance changes no
    token."""

    def run(*arguments, model=MODEL, audio=joined[0]):
        result = rtfx("stream", "--model", model, "--json", "--threads", 1, "--decoder", "ctc_greedy", "--buffer",
                      "2,4,1", *arguments, audio)  # fmt: skip
        assert result.returncode == 0, result.stderr
        return [line for line in map(json.loads, result.stdout.splitlines()) if line["final"]]

    return run


def text_of(lines):
    return " ".join(line["text"] for line in lines)


@pytest.fixture(scope="module")
def with_end_token(tmp_path_factory):
    """Writes the quickstart model with its token "▁the" renamed to "<EOU>" and returns the path."""

    def renamed(model, old, new):
        """Renames a piece of a SentencePiece model. A piece is a message of less than 128 bytes, whose first field is
        the text."""
        field = bytes([0x0A, len(old)]) + old
        at = model.index(field)
        length = model[at - 1] + len(new) - len(old)
        return model[: at - 1] + bytes([length, 0x0A, len(new)]) + new + model[at + len(field) :]

    path = tmp_path_factory.mktemp("token") / "eou.nemo"
    with tarfile.open(MODEL) as source, tarfile.open(path, "w") as target:
        for member in source:
            contents = source.extractfile(member).read() if member.isfile() else b""
            if member.name.endswith("tokenizer.model"):
                contents = renamed(contents, "▁the".encode(), b"<EOU>")
                member.size = len(contents)
            target.addfile(member, io.BytesIO(contents))
    return path


def test_a_token_of_the_vocabulary_ends_utterances(listen, with_end_token):
    [whole] = listen("--pause", 0, "--end-token", "none", model=with_end_token)[-1:]
    spelled = text_of(listen("--pause", 0, "--end-token", "none", model=with_end_token))
    assert "<EOU>" in spelled and "ended_by" not in whole
    lines = listen("--pause", 0, model=with_end_token)
    assert len(lines) > 3 and all("<EOU>" not in line["text"] for line in lines)
    assert {line["ended_by"] for line in lines[:-1]} == {"<EOU>"}
    # No other token is missing. A piece without a leading space continued the word that held the token.
    assert text_of(lines).replace(" ", "") == spelled.replace("<EOU>", "").replace(" ", "")
    assert all(a["end"] <= b["start"] + 0.08 for a, b in zip(lines, lines[1:]))


def test_a_token_can_be_named(listen):
    lines = listen("--pause", 0, "--end-token", "▁the", "--end-token", "▁and")
    whole = text_of(listen("--pause", 0))
    assert {line["ended_by"] for line in lines[:-1]} <= {"▁the", "▁and"} and len(lines) > 3
    words = [word for word in whole.split() if word not in ("the", "and")]
    assert len(text_of(lines).split()) == len(words)


def test_a_detector_ends_utterances(listen, detector, joined):
    whole = text_of(listen("--pause", 0))
    lines = listen("--pause", 0, "--vad", detector, "--vad-silence", 0.6)
    assert text_of(lines) == whole
    assert {line["ended_by"] for line in lines} <= {"vad", "stream"}
    # Each recording ends an utterance, and no utterance spans a gap.
    for end in joined[1]:
        assert any(end - 1 < line["end"] < end + 0.3 for line in lines)
        assert not any(line["start"] < end - 0.3 and line["end"] > end + GAP for line in lines)
    pauses = listen("--pause", 0.6)
    assert {line["ended_by"] for line in pauses} <= {"pause", "stream"} and text_of(pauses) == whole


def test_a_pause_of_less_than_a_frame_is_one_frame(listen):
    """A pause shorter than a frame counts as one frame. Only 0 turns pauses off."""
    lines = listen("--pause", 0.03)
    assert len(lines) > 3 and "pause" in {line["ended_by"] for line in lines}
    assert lines == listen("--pause", 0.08)


def test_silero_ends_utterances(listen, joined):
    package = importlib.util.find_spec("silero_vad")
    if package is None:
        pytest.skip("no Silero: pip install --no-deps silero-vad")
    file = Path(package.origin).parent / "data/silero_vad.jit"
    lines = listen("--pause", 0, "--vad", file, "--vad-silence", 0.6)
    assert text_of(lines) == text_of(listen("--pause", 0))
    assert "vad" in {line["ended_by"] for line in lines}
    for end in joined[1]:
        assert not any(line["start"] < end - 0.3 and line["end"] > end + GAP for line in lines)


def bad(tmp_path, kind):
    path = tmp_path / "bad.jit"
    if kind == "text":
        path.write_text("no module")
    elif kind == "weights":
        torch.save({"weight": torch.ones(2)}, path)
    elif kind != "missing":
        module = torch.jit.script(Whole() if kind == "inputs" else Energy())
        module.save(str(path))
    return path


@pytest.mark.parametrize(
    "kind, complaint",
    [
        ("missing", "no such file"),
        ("text", "is no TorchScript module"),
        ("weights", "is no TorchScript module"),
        ("inputs", "has no method reset_states()"),
    ],
)
def test_a_file_that_is_no_detector(rtfx, tmp_path, kind, complaint):
    result = rtfx("stream", "--model", MODEL, "--vad", bad(tmp_path, kind), CLIPS[0])
    errors = [line for line in result.stderr.splitlines() if "notice" not in line]
    assert result.returncode == 2 and len(errors) == 1, result.stderr
    assert errors[0].startswith(f"rtfx: error: --vad: {tmp_path / 'bad.jit'}: {complaint}")
    assert "pip install silero-vad" in errors[0]


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["--end-token", "<EOX>"], "--end-token: the vocabulary has no token '<EOX>'"),
        (["--vad", MODEL, "--vad-silence", 0], "--vad-silence: must be from 0.1 to 3600"),
        (["--vad-silence", 2], "--vad-silence requires --vad"),
    ],
)
def test_bad_options(rtfx, arguments, complaint):
    result = rtfx("stream", "--model", MODEL, *arguments, CLIPS[0])
    errors = [line for line in result.stderr.splitlines() if "notice" not in line and "--help" not in line]
    assert result.returncode == 2 and len(errors) == 1 and complaint in errors[0], result.stderr


@pytest.fixture
def measure(rtfx, config, tmp_path):
    def run(endpoints, **changes):
        load = {"streams": [2], "seconds": 1, "period_ms": 400, "scope": "speech", "buffer": [0.8, 2, 0.4],
                "quality": True, "endpoints": endpoints} | changes  # fmt: skip
        datasets = [{"id": "three", "files": [str(clip) for clip in CLIPS]}]
        path = config(datasets=datasets, decoders=["label_looping"], stream=load)
        return rtfx("stream", path, "--output", tmp_path / "run")

    return run


def test_the_latency_of_each_rule_is_measured(measure, detector, tmp_path):
    rules = [{"rule": "pause", "seconds": 0.8}, {"rule": "vad", "vad": str(detector), "seconds": 0.4},
             {"rule": "token", "tokens": ["▁the"]}]  # fmt: skip
    result = measure(rules)
    assert result.returncode == 0, result.stderr
    [record] = [r for r in strict_records(tmp_path / "run/journal.jsonl") if r["kind"] == "stream"]
    pause, vad, token = record["endpoints"]
    assert [end["rule"] for end in (pause, vad, token)] == ["pause", "vad", "token"]
    assert (pause["seconds"], vad["seconds"], token["seconds"]) == (0.8, 0.4, None)
    for end in (pause, vad):
        assert end["ends"] - end["early"] + end["missed"] == 3 and end["missed"] == 0
        assert end["delay_p50_seconds"] <= end["delay_p95_seconds"]
    # A pause is complete 0.8 s after the last word. Then the chunk, the right context and the request must come.
    assert 0.8 <= pause["delay_p50_seconds"] < pause["delay_p95_seconds"] + 1e-9 < 0.8 + 0.8 + 0.4 + 0.4 + 0.1
    assert token["ends"] > 1 and token["missed"] > 0  # no recording ends with "the"
    for end in ("pause (0.8 s)", "vad (0.4 s)", "token"):
        assert f"label_looping, ends by {end}: final" in result.stdout


@pytest.mark.parametrize(
    "endpoints, changes, complaint",
    [
        (["pause"], {"quality": False}, '"quality": true'),
        (["pause"], {"scope": "search"}, '"scope": "speech"'),
        (["silence"], {}, "pause"),
        ([{"seconds": 1}], {}, "rule"),
        (["vad"], {}, "endpoints/0: names no detector"),
        ([{"rule": "pause", "seconds": 0}], {}, "seconds"),
    ],
)
def test_bad_configurations(measure, endpoints, changes, complaint):
    result = measure(endpoints, **changes)
    assert result.returncode == 2
    assert complaint in result.stderr and len(result.stderr.splitlines()) <= 2, result.stderr


@pytest.mark.parametrize(
    "endpoint, complaint",
    [
        ("token", "the model has no token that ends an utterance"),
        ({"rule": "token", "tokens": ["<EOX>"]}, "the vocabulary has no token '<EOX>'"),
        ({"rule": "vad", "vad": str(ROOT / "README.md")}, "is no TorchScript module"),
    ],
)
def test_a_rule_that_does_not_fit_the_model(measure, tmp_path, endpoint, complaint):
    result = measure(["pause", endpoint])
    assert result.returncode == 1
    [failure] = [r for r in strict_records(tmp_path / "run/journal.jsonl") if r["kind"] == "failure"]
    assert "/stream/endpoints/1/" in failure["message"] and complaint in failure["message"]
