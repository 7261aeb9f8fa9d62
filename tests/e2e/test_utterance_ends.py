"""Tests the ends of utterances in live streams: by a pause, by a token, and by a voice activity detector. The program
and the Python package find the same utterances."""

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


class Excited(Energy):
    """Returns 2, which is no probability, where somebody speaks."""

    def forward(self, x: torch.Tensor, sr: int) -> torch.Tensor:
        return 2 * (x.pow(2).mean(-1, keepdim=True) > 1e-4).float()


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


RULES = {
    "pause": ["--pause", 0.6],
    "token": ["--pause", 0, "--end-token", "▁the", "--end-token", "▁and"],
    "vad": ["--pause", 0, "--vad-silence", 0.6],
    "auto": ["--pause", 0],
}


@pytest.fixture(scope="module")
def in_python(python_package, joined, detector, with_end_token, tmp_path_factory):
    """Returns the utterances and the last result that the Python package finds: {rule: one pair for each size of the
    pieces}, and further cases by name."""
    path, ends = joined
    excited = tmp_path_factory.mktemp("vad") / "excited.jit"
    torch.jit.script(Excited()).save(str(excited))
    return json.loads(
        python_package(f"""
m, with_end_token = (rtfx.load(path, device="cpu") for path in ({str(MODEL)!r}, {str(with_end_token)!r}))
audio = m.read_audio({str(path)!r})
cut_off = audio[:{int(ends[-1] * 16000)}]

def opened(model=m, max_streams=1, **rules):
    return model.streams("ctc_greedy", max_streams=max_streams, buffer=(2, 4, 1), **rules)

def values(ended, last):
    return [dataclasses.asdict(one) for one in ended + last.ended], dataclasses.asdict(last)

def streamed(streams, samples, size=16000, **bias):
    stream, ended = streams.open(**bias), []
    for piece in samples.split(size):
        partial = stream.push(piece)
        for one in partial.ended:
            assert str(one) == one.text and m.words(one.hypothesis) == one.words
        ended += partial.ended
        # Frames of the utterance that goes on count from the start of the stream, too.
        assert not ended or all(f * m.frame_seconds > ended[-1].end - 0.1 for f in partial.hypothesis.frames)
    return values(ended, stream.finish())

def in_one_push(streams, samples):
    opened = [streams.open() for _ in samples]
    found = streams.push(dict(zip(opened, samples)))
    return [values(found[stream].ended, stream.finish()) for stream in opened]

rules = {{
    "pause": dict(pause=0.6),
    "token": dict(end_tokens=["▁the", "▁and"]),
    "vad": dict(vad={str(detector)!r}, vad_silence=0.6),
    "auto": dict(model=with_end_token, end_tokens="auto"),
}}
found = {{name: [streamed(opened(**rule), audio, size) for size in (8000, 12345, len(audio))]
         for name, rule in rules.items()}}
two = opened(max_streams=2, pause=0.6)
found["alone"] = [streamed(two, audio), streamed(two, audio[16000:])]
found["together"] = in_one_push(two, [audio, audio[16000:]])
found["cut off"] = streamed(opened(pause=0.6), cut_off)
found["no rules"] = [streamed(opened(model), audio) for model in (m, with_end_token)]
found["without e"] = streamed(opened(pause=0.6), cut_off, allowed=["U+0061-U+0064", "U+0066-U+007A"])
try:
    opened(vad={str(excited)!r}).open().push(audio)
except rtfx.Error as error:
    found["no probability"] = [type(error).__name__, str(error)]
print(json.dumps(found))
""")
    )


@pytest.mark.parametrize("rule", RULES)
def test_python_finds_the_utterances_of_the_program(listen, in_python, detector, with_end_token, rule):
    utterances, last = in_python[rule][0]
    arguments = RULES[rule] + (["--vad", detector] if rule == "vad" else [])
    lines = listen(*arguments, model=with_end_token if rule == "auto" else MODEL)
    expected = [line for line in lines if line.get("ended_by", "stream") != "stream"]
    assert len(expected) > 2
    for key in ("text", "ended_by"):
        assert [one[key] for one in utterances] == [line[key] for line in expected]
    for key in ("start", "end"):
        assert [one[key] for one in utterances] == pytest.approx([line[key] for line in expected], abs=6e-4)
    assert last["text"] == " ".join(line["text"] for line in lines if line.get("ended_by") == "stream")


@pytest.mark.parametrize("rule", RULES)
def test_python_finds_them_in_any_pieces(in_python, rule):
    first, *others = in_python[rule]
    assert others == [first, first]


def test_python_finds_them_in_streams_that_are_pushed_together(in_python):
    assert in_python["together"] == in_python["alone"]
    assert in_python["alone"][0] != in_python["alone"][1]


def test_times_of_python_count_from_the_start_of_the_stream(in_python, joined):
    utterances, last = in_python["cut off"]
    assert len(utterances) >= 2 and last["text"]
    words = [word for one in [*utterances, last] for word in one["words"]]
    assert " ".join(word["text"] for word in words) == text_of([*utterances, last])
    assert all(a["end"] <= b["start"] + 1e-9 for a, b in zip(words, words[1:]))
    for one in utterances:
        assert one["words"][0]["start"] == pytest.approx(one["start"])
        assert one["words"][-1]["end"] <= one["end"] + 1e-9
    assert joined[1][1] + GAP - 0.3 < last["words"][0]["start"] < joined[1][2]


def test_python_has_no_rule_by_default(in_python, listen):
    whole = text_of(listen("--pause", 0))
    for utterances, last in in_python["no rules"]:
        assert utterances == []
    plain, spelled = (last["text"] for _, last in in_python["no rules"])
    assert plain == whole and "<EOU>" in spelled


def test_what_a_stream_allows_holds_for_all_its_utterances(in_python):
    utterances, last = in_python["without e"]
    texts = [one["text"] for one in [*utterances, last]]
    assert len(utterances) >= 2 and all(texts) and not any("e" in text for text in texts)
    assert any("e" in one["text"] for one in in_python["cut off"][0][1:])


def test_python_tells_a_detector_that_fails_from_bad_samples(in_python):
    """After an InputError, the samples could be pushed again, but here the encoder has them already."""
    kind, text = in_python["no probability"]
    assert kind == "Error" and text.startswith("vad: ") and "returns 2 as a probability" in text


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
