"""Manifests and audio files that are wrong, unusual or at a limit."""

import json
import shutil
import wave
from difflib import SequenceMatcher

import numpy as np
import pytest
import soundfile
from conftest import AUDIO, runs_of, strict_records

CLIP = AUDIO / "qs10.flac"


@pytest.fixture
def complaint(rtfx, config, tmp_path):
    """Returns the error that `rtfx run` prints about a manifest with the given lines."""

    def run(*lines):
        manifest = tmp_path / "manifest.jsonl"
        manifest.write_text("".join(line + "\n" for line in lines))
        path = config(datasets=[{"id": "bad", "manifest": str(manifest)}])
        result = rtfx("run", path, "--output", tmp_path / "run")
        assert result.returncode == 2, result.stderr
        assert "Traceback" not in result.stderr
        return result.stderr

    return run


GOOD = json.dumps({"audio_filepath": str(CLIP), "duration": 5.1, "text": "words"})


def test_manifest_line_that_is_not_json(complaint):
    assert "manifest.jsonl:2" in complaint(GOOD, "not json")


def test_manifest_line_that_is_nested_without_end(complaint):
    deep = '{"audio_filepath": ' + "[" * 100_000 + "]" * 100_000 + "}"
    text = complaint(GOOD, deep)
    assert "manifest.jsonl:2: is nested more than 100 levels deep" in text and len(text) < 400


def test_manifest_number_that_is_too_large(complaint):
    text = complaint('{"audio_filepath": "a.wav", "duration": 1e999}')
    assert "manifest.jsonl:1: holds the number '1e999', which is too large" in text


def test_manifest_line_that_lacks_a_field(complaint):
    text = complaint(GOOD, '{"duration": 1.0, "text": "a"}')
    assert "manifest.jsonl:2" in text and "audio_filepath" in text


def test_manifest_field_of_the_wrong_type(complaint):
    text = complaint(json.dumps({"audio_filepath": str(CLIP), "duration": "long"}))
    assert "manifest.jsonl:1" in text and "duration" in text


def test_manifest_names_audio_that_is_not_there(complaint):
    text = complaint(GOOD, '{"audio_filepath": "gone.wav", "duration": 1.0, "text": "a"}')
    assert "manifest.jsonl:2" in text and "gone.wav" in text


def test_a_path_of_a_manifest_is_not_cut_at_a_nul(transcribe, tmp_path):
    """A path with a NUL character is refused, since the system would open the file that is named before the NUL."""
    path = tmp_path / "nul.jsonl"
    path.write_text(json.dumps({"audio_filepath": f"{AUDIO / 'qs10.flac'}\0.flac"}) + "\n")
    result = transcribe(path)
    assert result.returncode == 1 and result.stdout == ""
    assert f"{path}:1" in result.stderr and "audio_filepath: has a NUL character; leave it out" in result.stderr


def test_manifest_names_an_utterance_twice(complaint):
    assert "manifest.jsonl:2" in complaint(GOOD, GOOD)


def test_empty_manifest(complaint):
    assert "manifest.jsonl" in complaint()


@pytest.mark.parametrize("name", ["gone.jsonl", "."])
def test_missing_manifest_or_directory_in_its_place(rtfx, config, tmp_path, name):
    path = config(datasets=[{"id": "bad", "manifest": str(tmp_path / name)}])
    result = rtfx("validate", path)
    assert result.returncode == 2
    assert str(tmp_path) in result.stderr and result.stderr.count("\n") == 1


def write_wav(path, samples, rate=16000):
    soundfile.write(path, np.asarray(samples, dtype=np.float32), rate, subtype="FLOAT")
    return path


def test_file_without_samples(transcribe, tmp_path):
    with wave.open(str(tmp_path / "empty.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
    result = transcribe(tmp_path / "empty.wav")
    assert result.returncode == 1
    assert "empty.wav" in result.stderr and "empty audio" in result.stderr


def test_file_without_bytes(transcribe, tmp_path):
    (tmp_path / "void.wav").touch()
    result = transcribe(tmp_path / "void.wav")
    assert result.returncode == 1 and "void.wav" in result.stderr


def test_directory_without_audio(transcribe, tmp_path):
    result = transcribe(tmp_path)
    assert result.returncode != 0 and str(tmp_path) in result.stderr


def test_truncated_audio(transcribe, tmp_path):
    cut = tmp_path / "cut.flac"
    cut.write_bytes(CLIP.read_bytes()[:20_000])
    result = transcribe(cut)
    assert result.returncode == 1 and "cut.flac" in result.stderr


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_samples_that_are_no_numbers(transcribe, tmp_path, value):
    samples = np.zeros(16000)
    samples[1234] = value
    result = transcribe(write_wav(tmp_path / "bad.wav", samples))
    assert result.returncode == 1
    assert "bad.wav" in result.stderr and "1234" in result.stderr


@pytest.mark.parametrize("decoder", ["frame_looping", "label_looping", "ctc_greedy"])
@pytest.mark.parametrize("samples", [1, 160, 400, 1280])
def test_utterances_of_about_one_frame(transcribe, tmp_path, decoder, samples):
    """Audio of one sample up to one encoder frame gives the same tokens alone and beside a long utterance."""
    file = write_wav(tmp_path / "short.wav", 0.01 * np.sin(np.arange(samples)))
    alone = transcribe("--json", "--decoder", decoder, file)
    assert alone.returncode == 0, alone.stderr
    together = transcribe("--json", "--decoder", decoder, "--batch-size", 2, CLIP, file)
    assert together.returncode == 0, together.stderr
    short = json.loads(alone.stdout)
    assert len(short["tokens"]) <= 10 * 1 + 10
    assert json.loads(together.stdout.splitlines()[1])["tokens"] == short["tokens"]


def test_a_run_with_an_utterance_of_one_sample(rtfx, config, tmp_path):
    manifest = tmp_path / "manifest.jsonl"
    write_wav(tmp_path / "short.wav", [0.1])
    lines = [{"audio_filepath": "short.wav", "duration": 1 / 16000, "text": ""},
             {"audio_filepath": str(CLIP), "duration": 5.06, "text": "some words"}]  # fmt: skip
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    path = config(datasets=[{"id": "short", "manifest": str(manifest)}])
    result = rtfx("run", path, "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    runs = runs_of(strict_records(tmp_path / "run/journal.jsonl"))
    assert [run["dataset"]["utterances"] for run in runs] == [2, 2]


def test_stereo_is_mixed_with_a_notice(transcribe, tmp_path):
    samples, rate = soundfile.read(CLIP)
    mono = transcribe(CLIP)
    stereo = transcribe(write_wav(tmp_path / "stereo.wav", np.stack([samples, samples], 1), rate))
    assert stereo.returncode == 0
    assert "stereo.wav" in stereo.stderr and "2 channels" in stereo.stderr
    assert stereo.stdout == mono.stdout


def test_8_khz_is_resampled_with_a_notice(transcribe, tmp_path):
    """Audio at 8 kHz lacks the upper half of the band, so some words change and most stay."""
    samples, rate = soundfile.read(CLIP)
    taps = np.arange(-64, 65)
    low_pass = 0.5 * np.sinc(taps / 2) * np.hamming(len(taps))
    half = np.convolve(samples, low_pass, mode="same")[::2]
    full = transcribe(CLIP)
    result = transcribe(write_wav(tmp_path / "narrow.wav", half, rate // 2))
    assert result.returncode == 0
    assert "narrow.wav" in result.stderr and "8000" in result.stderr
    assert SequenceMatcher(None, full.stdout, result.stdout).ratio() > 0.6


def test_a_notice_of_many_files_is_one_line_with_their_number(transcribe, run_config, tmp_path):
    samples, rate = soundfile.read(CLIP)
    clips = [write_wav(tmp_path / f"{name}.wav", samples[::2], rate // 2) for name in "abc"]
    expected = f"rtfx: notice: 3 files, {clips[0]} first: resampled from 8000 Hz to 16000 Hz"
    result = transcribe(*clips)
    assert result.returncode == 0 and expected in result.stderr.splitlines()
    assert result.stderr.count("resampled") == 1
    result = run_config(datasets=[{"id": "clips", "files": list(map(str, clips))}])
    assert result.returncode == 0 and expected in result.stderr.splitlines()
    (about, *_) = strict_records(tmp_path / "run/journal.jsonl")
    assert about["datasets"][0]["notices"] == [expected.removeprefix("rtfx: notice: ")]


def test_files_of_macos_are_left_out_with_one_notice(rtfx, transcribe, config, tmp_path):
    """A folder may hold the files ._NAME, which macOS writes beside others. They have no sound."""
    folder = tmp_path / "talks"
    folder.mkdir()
    shutil.copy(CLIP, folder)
    for name in ("._qs10.flac", "._other.wav"):
        (folder / name).write_bytes(b"\0\x05\x16\x07" + bytes(12))
    expected = f"rtfx: notice: {folder}: left out 2 files ._*, in which macOS keeps attributes of other files"
    path = config(datasets=[{"id": "talks", "files": [str(folder)]}])
    for result in (transcribe(folder), rtfx("validate", path, "--json"), rtfx("run", path, "--output", tmp_path / "run")):
        assert result.returncode == 0, result.stderr
        assert result.stderr.splitlines().count(expected) == 1, result.stderr
    (about, *_) = strict_records(tmp_path / "run/journal.jsonl")
    assert about["datasets"][0]["notices"] == [expected.removeprefix("rtfx: notice: ")]
