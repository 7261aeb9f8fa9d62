"""Tests that `rtfx transcribe` cuts long files and that `rtfx stream --model` transcribes input as it arrives."""

import fcntl
import io
import json
import os
import signal
import struct
import subprocess
import termios
import wave
from difflib import SequenceMatcher

import numpy as np
import pytest
import soundfile

from conftest import ROOT, wait_until

QUICKSTART = ROOT / "datasets/quickstart"
MODEL = ROOT / "models/quickstart/quickstart-rnnt.nemo"


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    """Writes a WAV file of six utterances, each with a second of silence after it."""
    lines = (QUICKSTART / "manifest.jsonl").read_text().splitlines()[:6]
    samples = []
    for line in lines:
        data, rate = soundfile.read(QUICKSTART / json.loads(line)["audio_filepath"], dtype="int16")
        samples += [data, np.zeros(rate, "int16")]
    path = tmp_path_factory.mktemp("joined") / "joined.wav"
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1), out.setsampwidth(2), out.setframerate(16000)
        out.writeframes(np.concatenate(samples).tobytes())
    return path


def words(text):
    return text.split()


def test_a_long_file_is_cut(rtfx, joined, tmp_path):
    result = rtfx("transcribe", "--model", MODEL, "--long-above", 20, "--chunk", 8, "--format", "json",
                  "--confidence", "--threads", 1, joined, QUICKSTART / "qs01.flac")  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "2 of 2 files" in result.stderr
    long, short = map(json.loads, result.stdout.splitlines())
    assert long["file"] == str(joined) and short["file"].endswith("qs01.flac")
    starts = [w["start"] for w in long["words"]]
    assert starts == sorted(starts) and starts[-1] > 20 and len(starts) > 30
    assert long["words"][-1]["end"] <= long["seconds"] + 1e-6
    assert all(0 <= w["confidence"] <= 1 for w in [*long["words"], *short["words"], long])
    assert len({w["confidence"] for w in long["words"]}) > 20
    assert "of it for confidence" in result.stderr and "no confidences" not in result.stderr


def test_alternatives_are_of_the_parts_of_a_long_file(rtfx, joined):
    """Each part of a long file has alternatives. Without --decode-again, the best ones are the file's text."""
    result = rtfx("transcribe", "--model", MODEL, "--long-above", 5, "--chunk", 8, "--format", "json", "--nbest", 3,
                  "--decode-again", 0, "--threads", 1, joined)  # fmt: skip
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    sections = found["sections"]
    assert "alternatives" not in found and len(sections) > 2
    assert sections[0]["start"] == 0 and sections[-1]["end"] == found["seconds"]
    assert all(a["end"] == b["start"] for a, b in zip(sections, sections[1:]))
    for section in sections:
        assert 1 <= len(section["alternatives"]) <= 3
        for entry in section["alternatives"]:
            assert all(section["start"] <= word["start"] for word in entry["words"])
    best = " ".join(section["alternatives"][0]["text"] for section in sections)
    assert words(best) == words(found["text"])


def test_whole_and_cut_say_about_the_same(rtfx, joined):
    texts = []
    for above in (1000, 5):
        result = rtfx("transcribe", "--model", MODEL, "--long-above", above, "--threads", 1, joined)
        assert result.returncode == 0, result.stderr
        texts.append(words(result.stdout))
    assert SequenceMatcher(None, *texts, autojunk=False).ratio() > 0.8, texts


def test_a_long_file_that_ends_early(rtfx, joined, tmp_path):
    broken = tmp_path / "broken.wav"
    data = joined.read_bytes()
    broken.write_bytes(data[: len(data) * 3 // 4])
    result = rtfx("transcribe", "--model", MODEL, "--long-above", 5, "--threads", 1, broken,
                  QUICKSTART / "qs01.flac")  # fmt: skip
    assert result.returncode == 1
    assert "broken.wav: truncated or corrupt" in result.stderr
    assert "1 of 2 files" in result.stderr and "qs01.flac: " in result.stdout


@pytest.mark.parametrize("above", [1, 1000])
def test_damaged_frames_of_an_mp3_are_told(rtfx, tmp_path, above):
    file = tmp_path / "damaged.mp3"
    soundfile.write(file, np.random.default_rng(1).uniform(-0.5, 0.5, 48000), 16000)
    data, frame = bytearray(file.read_bytes()), 0
    for _ in range(40):
        frame = data.find(data[:2], frame + 4)
    data[frame + 4 : frame + 13] = b"\xff" * 9  # the header of this frame states impossible contents
    file.write_bytes(data)
    result = rtfx("transcribe", "--model", MODEL, "--long-above", above, "--threads", 1, file)
    assert result.returncode == 0 and "s of damaged MPEG frames are silent" in result.stderr, result.stderr


def stream_text(rtfx_bin, *arguments, data):
    return subprocess.run([rtfx_bin, "stream", "--threads", "1", *map(str, arguments)],
                          input=data, capture_output=True, timeout=120)  # fmt: skip


@pytest.fixture
def rtfx_bin():
    return os.environ.get("RTFX_BIN", str(ROOT / "build/release/rtfx"))


def test_live_text_of_standard_input(rtfx_bin, joined):
    data = joined.read_bytes()
    result = stream_text(rtfx_bin, "--model", MODEL, "-", data=data)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.decode().splitlines()
    assert len(lines) > 2  # each utterance ends at a pause
    raw = stream_text(rtfx_bin, "--model", MODEL, "-", "--raw", 16000, data=data[44:])
    assert raw.stdout == result.stdout
    once = stream_text(rtfx_bin, "--model", MODEL, "--pause", 0, "-", data=data)
    assert len(once.stdout.decode().splitlines()) == 1


def test_live_text_as_json(rtfx_bin, joined):
    result = stream_text(rtfx_bin, "--model", MODEL, "--json", "--buffer", "1,5,1", joined, data=b"")
    assert result.returncode == 0, result.stderr
    updates = [json.loads(line) for line in result.stdout.decode().splitlines()]
    final = [u for u in updates if u["final"]]
    assert 2 < len(final) < len(updates)
    for before, after in zip(final, final[1:]):
        assert before["start"] < before["end"] <= after["start"] + 1e-6
    assert all(u["text"] for u in updates)


def test_without_pauses_no_word_is_printed_twice(rtfx_bin, joined):
    options = ["--model", MODEL, "--buffer", "1,5,1", "--pause", 0, joined]
    result = stream_text(rtfx_bin, *options, "--json", data=b"")
    assert result.returncode == 0, result.stderr
    updates = [json.loads(line) for line in result.stdout.decode().splitlines()]
    final = [u for u in updates if u["final"]]
    assert len(final) > 10
    assert " ".join(u["text"] for u in final) == stream_text(rtfx_bin, *options, data=b"").stdout.decode().strip()
    assert all(a["end"] <= b["start"] for a, b in zip(final, final[1:]))
    # A chunk of 1 s holds a few words, however long the stream is.
    assert max(len(u["text"].split()) for u in updates) < 10


def test_live_text_of_the_microphone(rtfx, tmp_path):
    """A stand-in for arecord plays a recording. It fails for any other arguments than those that begin a WAV stream of
    16-bit samples at 16 kHz."""
    clip, _ = soundfile.read(QUICKSTART / "1737-146161-0007.flac", dtype="int16")
    soundfile.write(tmp_path / "sound.wav", clip, 16000)
    (tmp_path / "arecord").write_text(
        "#!/bin/sh\n[ \"$*\" = '-q -t wav -f S16_LE -r 16000 -c 1 -' ] || exit 1\n"
        f"exec /bin/cat '{tmp_path}/sound.wav'\n"
    )
    (tmp_path / "arecord").chmod(0o755)
    command = ["stream", "--threads", 1, "--model", MODEL]
    found = rtfx(*command, "--microphone", env=os.environ | {"PATH": str(tmp_path)})
    assert found.returncode == 0, found.stderr
    assert found.stdout == rtfx(*command, tmp_path / "sound.wav").stdout and "twice" in found.stdout
    refused = rtfx(*command, "--microphone", env=os.environ | {"PATH": ""})
    assert refused.returncode == 2 and "--microphone: there is no arecord; install alsa-utils" in refused.stderr


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_bad_sample_ends_a_stream_with_the_text_before_it(rtfx_bin, bad):
    clip, _ = soundfile.read(QUICKSTART / "1737-146161-0007.flac", dtype="float32")
    samples = np.concatenate([clip, np.zeros(1600, "float32"), [np.float32(bad)], clip]).astype("float32")
    sound = io.BytesIO()
    soundfile.write(sound, samples, 16000, format="WAV", subtype="FLOAT")
    result = stream_text(rtfx_bin, "--model", MODEL, "-", data=sound.getvalue())
    expected = stream_text(rtfx_bin, "--model", MODEL, QUICKSTART / "1737-146161-0007.flac", data=b"")
    assert result.stdout == expected.stdout and result.stdout.strip()
    assert result.returncode == 2
    kind = "NaN" if bad != bad else "infinite"
    assert f"rtfx: error: standard input: sample {len(clip) + 1600} is {kind}" in result.stderr.decode()


@pytest.mark.parametrize("signal_name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_a_stream_that_is_silent(popen, rtfx_bin, signal_name):
    """A signal ends a stream whose standard input stays open and silent, and its text is printed at once."""
    clip, _ = soundfile.read(QUICKSTART / "1737-146161-0007.flac", dtype="int16")
    command = [rtfx_bin, "stream", "--threads", "1", "--model", MODEL, "--raw", "16000", "-"]
    process = popen(command, stdin=subprocess.PIPE, text=False)
    process.stdin.write(clip.tobytes())
    process.stdin.flush()

    def is_heard():
        """The program reads blocks of 50 ms. It leaves a shorter rest in the pipe until the stream goes on."""
        (unread,) = struct.unpack("i", fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4)))
        return unread < 2 * 800

    wait_until(process, is_heard)
    process.send_signal(getattr(signal, signal_name))
    assert process.wait(timeout=15) == 0, process.stderr.read()
    assert b"together twice" in process.stdout.read()


def test_half_a_sample_at_the_end_is_told(rtfx_bin):
    clip, _ = soundfile.read(QUICKSTART / "1737-146161-0007.flac", dtype="int16")
    whole = stream_text(rtfx_bin, "--model", MODEL, "--raw", 16000, "-", data=clip.tobytes())
    odd = stream_text(rtfx_bin, "--model", MODEL, "--raw", 16000, "-", data=clip.tobytes() + b"x")
    assert odd.stdout == whole.stdout and odd.returncode == 0
    assert b"notice: ends within a sample: its last byte is left out" in odd.stderr
    assert b"within a sample" not in whole.stderr


@pytest.mark.parametrize("subtype, odd", [("PCM_16", 1), ("PCM_24", 2), ("FLOAT", 3), ("PCM_U8", 0)])
def test_a_wav_on_standard_input_that_ends_within_a_sample(rtfx_bin, subtype, odd):
    """A WAV file from a pipe that ends within a sample loses these bytes with a notice. A pipe has no length, so only
    the last bytes show it."""
    clip, rate = soundfile.read(QUICKSTART / "1737-146161-0007.flac")
    buffer = io.BytesIO()
    soundfile.write(buffer, clip, rate, format="WAV", subtype=subtype)
    width = {"PCM_16": 2, "PCM_24": 3, "FLOAT": 4, "PCM_U8": 1}[subtype]
    whole = buffer.getvalue()[: buffer.getvalue().rindex(b"data") + 8 + 20_000 * width]
    expected = stream_text(rtfx_bin, "--model", MODEL, "-", data=whole)
    found = stream_text(rtfx_bin, "--model", MODEL, "-", data=whole + odd * b"x")
    assert found.returncode == expected.returncode == 0 and found.stdout == expected.stdout != b""
    said = {0: b"", 1: b"its last byte is left out", 2: b"its last 2 bytes are left out", 3: b"its last 3 bytes are left out"}[odd]
    assert said in found.stderr and (b"within a sample" in found.stderr) == (odd > 0)
    assert b"within a sample" not in expected.stderr


@pytest.mark.parametrize("buffer", ["2,10,2", "3,10,1"])
@pytest.mark.parametrize("silence", [1.5, 2.0])
def test_a_live_utterance_ends_at_a_pause_wherever_a_chunk_has_it(rtfx_bin, tmp_path, silence, buffer):
    """A live utterance ends at a pause that is shorter than a chunk, though every chunk holds words."""
    clips = [soundfile.read(QUICKSTART / f"1737-146161-000{n}.flac", dtype="int16")[0] for n in (7, 9)]
    gap = np.zeros(int(silence * 16000), "int16")
    path = tmp_path / "gap.wav"
    soundfile.write(path, np.concatenate([clips[0], gap, clips[1]]), 16000)
    result = stream_text(rtfx_bin, "--model", MODEL, "--json", "--pause", 1, "--buffer", buffer, path, data=b"")
    assert result.returncode == 0, result.stderr
    updates = [json.loads(line) for line in result.stdout.decode().splitlines()]
    final = [u for u in updates if u["final"]]
    spoken, seconds = len(clips[0]) / 16000, sum(map(len, [*clips, gap])) / 16000
    assert len(final) >= 2 and final[0]["end"] < spoken + 0.3
    assert not any(u["start"] < spoken and u["end"] > spoken + silence for u in final)
    assert all(u["start"] < u["end"] <= seconds for u in updates)


@pytest.mark.parametrize(
    "arguments, data, complaint",
    [
        ([], b"", b"wants a configuration, or --model and audio"),
        (["-"], b"", b"error: -: no such file"),  # a configuration of this name
        (["--model", MODEL], b"", b"wants audio from one place"),
        (["--model", MODEL, "-"], b"nothing that sounds", b"standard input: not readable as audio"),
        (["--model", MODEL, "-", "--raw", 16000], b"", b"standard input: empty audio"),
        (["--model", MODEL, "-", "--decoder", "null"], b"", b"takes no utterances in pieces"),
        (["--model", MODEL, "none.wav"], b"", b"none.wav: no such file"),
        (["--model", MODEL, "none.wav", "--options", '{"nbest": 3}'], b"", b"--options/nbest: unknown option"),
        (["--raw", 16000, "-"], b"", b"--model"),
        (["--model", MODEL, "none.wav", "--raw", 16000], b"", b"--raw: is for standard input; give -"),
        (["--model", MODEL, "--microphone", "--raw", 16000], b"", b"--raw: is for standard input; give -"),
    ],
)
def test_live_text_of_bad_input(rtfx_bin, arguments, data, complaint):
    result = stream_text(rtfx_bin, *arguments, data=data)
    assert result.returncode == 2 and complaint in result.stderr, result.stderr
    assert b"Traceback" not in result.stderr and result.stdout == b""
