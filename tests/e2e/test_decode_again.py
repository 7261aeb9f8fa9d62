"""Speech for which a model returns no words is decoded again, in files, streams and Python. Other audio is not.

The model of tests/support/sticking_checkpoint.py stays on blank from 12 s to 32 s after the beginning of a window.
"""

import json
import os
import subprocess

import numpy as np
import pytest
import soundfile
import sticking_checkpoint
from conftest import AUDIO, MODELS, PROGRAM

RATE = 16000
SHARED = os.environ.get("RTFX_SHARED")


@pytest.fixture(scope="module")
def sticking(tmp_path_factory):
    pytest.importorskip("torch", reason="no torch for this Python: LIBTORCH names a folder")
    path = tmp_path_factory.mktemp("model") / "sticking.nemo"
    sticking_checkpoint.write(MODELS / "quickstart-rnnt.nemo", path)
    return path


@pytest.fixture(scope="module")
def minute(tmp_path_factory):
    """Writes utterances of the quickstart set with 0.5 s of silence between them, 60 s or a little more."""
    samples = []
    for line in (AUDIO / "manifest.jsonl").read_text().splitlines():
        if sum(map(len, samples)) > 60 * RATE:
            break
        data, _ = soundfile.read(AUDIO / json.loads(line)["audio_filepath"], dtype="int16")
        samples += [data, np.zeros(RATE // 2, "int16")]
    path = tmp_path_factory.mktemp("audio") / "minute.wav"
    soundfile.write(path, np.concatenate(samples), RATE)
    return path


def transcript(rtfx, model, *arguments):
    result = rtfx("transcribe", "--model", model, "--threads", 1, "--format", "json", *arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout), result.stderr


def longest_gap(words, seconds):
    """Returns the length in seconds of the longest stretch without a word, and its start."""
    ends, starts = [0, *(w["end"] for w in words)], [*(w["start"] for w in words), seconds]
    return max((start - end, end) for end, start in zip(ends, starts, strict=True))


def test_a_file_loses_a_part_and_gets_it_back(rtfx, sticking, minute):
    lost, errors = transcript(rtfx, sticking, "--decode-again", 0, minute)
    gap, begin = longest_gap(lost["words"], lost["seconds"])
    assert gap > 15 and 9 < begin < 14 and "decoded_again" not in lost
    assert "without words" not in errors
    found, errors = transcript(rtfx, sticking, minute)
    assert longest_gap(found["words"], found["seconds"])[0] < 4
    [part] = found["decoded_again"]
    assert part["start"] < begin + 2 and part["end"] > begin + gap - 2
    assert part["words"] > 20 and part["decodes"] in (1, 2)
    assert len(found["words"]) == len(lost["words"]) + part["words"]
    assert [w["start"] for w in found["words"]] == sorted(w["start"] for w in found["words"])
    line = next(line for line in errors.splitlines() if "without words" in line)
    assert line == (f"rtfx: notice: {minute}: speech energy without words from {part['start']:.1f} s to "
                    f"{part['end']:.1f} s: decoded again, which gave {part['words']} words")  # fmt: skip


def test_files_of_a_batch_and_long_ones(rtfx, sticking, minute):
    """Results come in the order of the files, and a file that is decoded again changes no other result."""
    inputs = [AUDIO / "qs01.flac", minute, AUDIO / "qs04.flac"]
    alone = [transcript(rtfx, sticking, path)[0]["text"] for path in inputs]
    result = rtfx("transcribe", "--model", sticking, "--threads", 1, "--format", "json", "--batch-size", 3, *inputs)
    assert result.returncode == 0, result.stderr
    together = [json.loads(line) for line in result.stdout.splitlines()]
    assert [t["file"] for t in together] == list(map(str, inputs))
    assert ["decoded_again" in t for t in together] == [False, True, False]
    assert [t["text"] for t in together] == alone
    # In chunks of 20 s, the last 8 s of each are lost.
    lost, _ = transcript(rtfx, sticking, "--long-above", 30, "--decode-again", 0, minute)
    found, _ = transcript(rtfx, sticking, "--long-above", 30, minute)
    assert len(found["decoded_again"]) >= 2 and len(found["words"]) > len(lost["words"]) + 10
    assert longest_gap(found["words"], found["seconds"])[0] < 5 < longest_gap(lost["words"], lost["seconds"])[0]


def test_hypotheses_as_json_tell_it_too(rtfx, sticking, minute):
    result = rtfx("transcribe", "--model", sticking, "--threads", 1, "--json", minute)
    line = json.loads(result.stdout)
    assert len(line["tokens"]) == len(line["frames"]) and line["frames"] == sorted(line["frames"])
    assert line["decoded_again"][0]["words"] > 20


def test_silence_and_noise_are_left_alone(rtfx, sticking, tmp_path):
    random = np.random.default_rng(1)
    for name, samples in {
        "zeros": np.zeros(60 * RATE),
        "room": random.normal(0, 1e-3, 60 * RATE),
        "noise": random.normal(0, 0.05, 60 * RATE),
    }.items():
        soundfile.write(tmp_path / f"{name}.wav", samples.astype("float32"), RATE, subtype="FLOAT")
    result = rtfx("transcribe", "--model", sticking, "--threads", 1, tmp_path)
    assert result.returncode == 0 and "3 of 3 files" in result.stderr
    assert "without words" not in result.stderr


@pytest.mark.parametrize("model", ["quickstart-rnnt", "quickstart-tdt"])
def test_normal_audio_gives_identical_transcripts(transcribe, model):
    with_it = transcribe("--json", AUDIO, model=model)
    without = transcribe("--json", "--decode-again", 0, AUDIO, model=model)
    assert with_it.returncode == without.returncode == 0, with_it.stderr
    assert with_it.stdout == without.stdout and with_it.stdout.count("\n") >= 20


@pytest.mark.skipif(SHARED is None, reason="RTFX_SHARED names no folder of recordings")
@pytest.mark.parametrize("folder", ["an4", "mini_libri", "spoken"])
def test_nothing_of_real_recordings_is_decoded_again(transcribe, folder):
    result = transcribe(f"{SHARED}/audio/{folder}")
    assert result.returncode == 0 and "without words" not in result.stderr, result.stderr


def listen(*arguments):
    return subprocess.run([PROGRAM, "stream", "--threads", "1", *map(str, arguments)],
                          capture_output=True, text=True, timeout=280, stdin=subprocess.DEVNULL)  # fmt: skip


@pytest.fixture(scope="module")
def forty(minute, tmp_path_factory):
    """Writes the first 40 s, since each chunk of a stream is encoded with all of its left context."""
    path = tmp_path_factory.mktemp("audio") / "forty.wav"
    soundfile.write(path, soundfile.read(minute, dtype="int16")[0][: 40 * RATE], RATE)
    return path


@pytest.fixture
def streamed(sticking, forty):
    """Returns the final lines of a stream and the parts decoded again. Its left context is long, so the model
    sticks."""

    def run(*arguments):
        result = listen("--model", sticking, "--json", "--buffer", "4,30,2", *arguments, forty)
        assert result.returncode == 0, result.stderr
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        final = [line for line in lines if line["final"] and line["text"]]
        parts = [part for line in lines for part in line.get("decoded_again", [])]
        return final, parts, result.stderr

    return run


def test_a_stream_starts_over(streamed):
    seconds = 40
    lost, none, _ = streamed("--decode-again", 0)
    assert none == [] and longest_gap(lost, seconds)[0] > 15
    final, parts, errors = streamed()
    assert parts and all(part["words"] > 0 and part["decodes"] in (1, 2) for part in parts)
    assert errors.count("decoded again, which gave") == len(parts)
    # Less than 8 s of speech may lack words, and the silence around it belongs to the gap.
    assert longest_gap(final, seconds)[0] < 9
    assert all(a["end"] <= b["start"] + 1e-6 for a, b in zip(final, final[1:]))
    said = sum(len(line["text"].split()) for line in final)
    assert said > 1.3 * sum(len(line["text"].split()) for line in lost)


def test_a_stream_without_pauses_starts_over(streamed):
    """Final words of a stream stay, though the search starts over in the middle of the utterance."""
    final, parts, _ = streamed("--pause", 0)
    assert parts and [line["start"] for line in final] == sorted(line["start"] for line in final)
    assert final[-1]["end"] > 31


def test_python_tells_it(rtfx, sticking, minute, python_package):
    text, _ = transcript(rtfx, sticking, minute)
    said = python_package(f"""
m = rtfx.load({str(sticking)!r}, device="cpu")
found = m.transcribe({str(minute)!r})[0]
lost = m.transcribe({str(minute)!r}, decode_again=0)[0]
streams = m.streams(buffer=[3, 30, 2])
stream = streams.open()
samples = m.read_audio({str(minute)!r})
for at in range(0, len(samples), 16000):
    partial = stream.push(samples[at:at + 16000])
live = stream.finish()
print(json.dumps([found.text, [dataclasses.asdict(part) for part in found.decoded_again], found.notices,
                  lost.text, lost.decoded_again, live.text, [dataclasses.asdict(part) for part in live.decoded_again]]))
""")
    found, parts, notices, lost, none, live, live_parts = json.loads(said)
    assert found == text["text"] and len(parts) == len(text["decoded_again"]) == len(notices) == 1
    assert parts[0]["words"] == text["decoded_again"][0]["words"]
    assert none == [] and len(lost.split()) < len(found.split()) - 20
    assert live_parts and len(live.split()) > len(lost.split())


@pytest.mark.parametrize("value", ["-1", "float('nan')", "4000", "'much'"])
def test_python_refuses_other_numbers(python_package, value):
    said = python_package(f"""
m = rtfx.load({str(MODELS / "quickstart-rnnt.nemo")!r}, device="cpu")
try:
    m.transcribe([], decode_again={value})
except rtfx.InputError as error:
    print(error)
""")
    assert said.startswith("decode_again: ")


def test_a_run_counts_it(rtfx, sticking, minute, tmp_path):
    """A benchmark counts speech without words and decodes nothing again."""
    manifest = tmp_path / "manifest.jsonl"
    clips = [minute, AUDIO / "qs01.flac"]
    lines = [{"audio_filepath": str(p), "duration": soundfile.info(p).duration, "text": "x"} for p in clips]
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = {
        "question": "Does it count?", "device": "cpu", "threads": 1, "models": [str(sticking)],
        "datasets": [{"id": "two", "manifest": str(manifest)}], "decoders": ["label_looping", "null"],
        "batch_sizes": [1], "protocol": {"warmup_rounds": 0, "measured_rounds": 1},
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = rtfx("run", tmp_path / "config.json", "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    records = [json.loads(line) for line in next((tmp_path / "run").glob("*.jsonl")).read_text().splitlines()]
    runs = {r["decoder"]["id"]: r for r in records if r["kind"] == "run"}
    counted = runs["label_looping"]["wordless_speech"]
    assert counted["utterances"] == counted["parts"] == 1 and 15 < counted["seconds"] < 22
    assert "wordless_speech" not in runs["null"]
