"""Compares how rtfx and ffmpeg read audio files of many containers, codecs, rates and headers. The inputs hold sounds
at known times, and a real ffmpeg encodes them. `make consumers` gets that ffmpeg. Without it, most tests are skipped.
`tests/data/ffmpeg` holds some of the files and what ffmpeg decoded of them, so that every machine can test these."""

import array
import json
import math
import os
import random
import subprocess
import wave

import consumers
import pytest
from conftest import PROGRAM, ROOT

DATA = ROOT / "tests/data/ffmpeg"
RATES = [8000, 16000, 22050, 44100, 48000]
SOUNDS = [(0.2, 0.6), (0.9, 1.0), (2.1, 2.5)]  # seconds
LENGTH = 3.0


def reading(*files, path=None):
    """Returns {name: line of rtfx_read_audio}. `path` is the folder of the ffmpeg that rtfx may start."""
    program = PROGRAM.with_name("rtfx_read_audio")
    if not program.is_file():
        pytest.fail(f"{program} is missing: `make build`", pytrace=False)
    result = subprocess.run([program, *files], capture_output=True, text=True, timeout=300,
                            env=os.environ | {"PATH": str(path or DATA)})  # fmt: skip
    assert result.returncode == 0 and not result.stderr, result.stderr
    return {os.path.basename(line["file"]): line for line in map(json.loads, result.stdout.splitlines())}


def write_sound(path, rate=16000, channels=1, sounds=SOUNDS, length=LENGTH):
    """Writes noise between silences. A variable bit rate then spends nearly all of its bytes on the noise."""
    noise = random.Random(1)
    samples = array.array("h", [0]) * (round(length * rate) * channels)
    for begin, end in sounds:
        for i in range(round(begin * rate), round(end * rate)):
            value = round(12000 * noise.uniform(-1, 1) * (1 + math.sin(i / rate * 20)) / 2 + 6000 * math.sin(i / rate * 2500))
            samples[i * channels : (i + 1) * channels] = array.array("h", [value] * channels)
    with wave.open(str(path), "wb") as out:
        out.setparams((channels, 2, rate, 0, "NONE", ""))
        out.writeframes(samples.tobytes())
    return path


def sounds_of(samples):
    """Returns the sounds in samples at 16 kHz like rtfx_read_audio."""
    sounds = []
    for i, value in enumerate(samples):
        if abs(value) < 0.05:
            continue
        if not sounds or i / 16000 - sounds[-1][1] > 0.05:
            sounds.append([i / 16000, i / 16000])
        sounds[-1][1] = i / 16000
    return sounds


class Ffmpeg:
    def __init__(self, folder):
        self.program, self.folder = consumers.ffmpeg(), folder
        self.path = folder / "bin"
        self.path.mkdir()
        (self.path / "ffmpeg").symlink_to(self.program)

    def call(self, *arguments):
        command = [self.program, "-nostdin", "-hide_banner", "-loglevel", "error", "-y", *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, timeout=300)
        assert result.returncode == 0, (arguments, result.stderr.decode())
        return result.stdout

    def encode(self, source, name, *arguments):
        path = self.folder / name
        self.call("-i", source, *arguments, path)
        return path

    def decode(self, path):
        """Returns {"samples", "sounds"} of the file as ffmpeg decodes it at 16 kHz."""
        samples = array.array("f", self.call("-i", path, "-ac", 1, "-ar", 16000, "-f", "f32le", "pipe:1"))
        return {"samples": len(samples), "sounds": sounds_of(samples)}


@pytest.fixture(scope="module")
def ffmpeg(tmp_path_factory):
    return Ffmpeg(tmp_path_factory.mktemp("ffmpeg"))


def is_equal(ours, theirs, seconds):
    """Asserts that the lengths and the times of each sound differ by no more than the delay of a decoder."""
    assert "error" not in ours, ours
    assert ours["samples"] == pytest.approx(theirs["samples"], abs=seconds * 16000), ours
    assert ours["seconds"] in (0, pytest.approx(ours["samples"] / 16000, abs=1e-3)), ours
    near(ours["sounds"], theirs["sounds"], seconds)


def near(sounds, expected, seconds):
    assert len(sounds) == len(expected), (sounds, expected)
    for sound, other in zip(sounds, expected, strict=True):
        assert sound == pytest.approx(other, abs=seconds), (sounds, expected)


MODES = {"cbr": ["-b:a", "24k"], "vbr": ["-q:a", "5"], "abr": ["-abr", "1", "-b:a", "32k"]}
HEADERS = {"xing": [], "bare": ["-write_xing", "0", "-id3v2_version", "0"], "id3": ["-write_xing", "0", "-id3v2_version", "3",
           "-metadata", "title=" + 300 * "t"]}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("channels", [1, 2])
def test_lengths_of_mp3(ffmpeg, mode, channels):
    """The length of an MP3 is right, although files may lack it and an estimate by the first frame's bit rate is
    wrong."""
    files = []
    for rate in RATES:
        source = write_sound(ffmpeg.folder / f"{rate}.wav", rate, channels)
        bits = ["-b:a", "64k"] if mode == "cbr" and rate >= 32000 else MODES[mode]
        for header, arguments in HEADERS.items():
            files.append(ffmpeg.encode(source, f"{mode}{channels}_{rate}_{header}.mp3", "-c:a", "libmp3lame", *bits, *arguments))
        for ending in ("wav", "mka", "mp4", "avi"):
            if ending == "mp4" and rate == 8000:
                continue  # ffmpeg itself writes no MPEG 2.5 into MP4
            files.append(ffmpeg.encode(source, f"{mode}{channels}_{rate}.{ending}", "-c:a", "libmp3lame", *bits))
        piped = ffmpeg.folder / f"{mode}{channels}_{rate}_piped.mp3"
        piped.write_bytes(ffmpeg.call("-i", source, "-c:a", "libmp3lame", *bits, "-f", "mp3", "pipe:1"))
        files.append(piped)
    found = reading(*files, path=ffmpeg.path)
    for file in files:
        rate = int(file.stem.split("_")[1])
        frame = (1152 if rate >= 32000 else 576) / rate
        is_equal(found[file.name], ffmpeg.decode(file), 2 * frame + 0.01)
        assert not any("silent" in notice for notice in found[file.name]["notices"])


CODECS = [("adpcm_g722", "wav", 16000), ("g726", "wav", 8000), ("adpcm_ima_wav", "wav", 16000), ("adpcm_ms", "wav", 44100),
          ("pcm_alaw", "wav", 8000), ("pcm_mulaw", "au", 8000), ("pcm_s24le", "w64", 48000), ("pcm_f32le", "caf", 22050),
          ("pcm_s16be", "aiff", 44100), ("pcm_s16le", "rf64", 16000), ("flac", "flac", 48000), ("flac", "oga", 16000),
          ("libopus", "opus", 48000), ("libvorbis", "ogg", 44100), ("alac", "m4a", 44100), ("aac", "aac", 16000),
          ("aac", "m4a", 8000), ("ac3", "ac3", 48000), ("wmav2", "wma", 44100), ("mp2", "mp2", 48000),
          ("libopencore_amrnb", "amr", 8000), ("libopus", "webm", 48000), ("flac", "mka", 16000)]  # fmt: skip


@pytest.mark.parametrize("codec, ending, rate", CODECS)
def test_lengths_of_other_codecs(ffmpeg, codec, ending, rate):
    source = write_sound(ffmpeg.folder / f"{rate}.wav", rate)
    arguments = ["-rf64", "always", "-f", "wav"] if ending == "rf64" else []
    file = ffmpeg.encode(source, f"{codec}_{rate}.{ending}", "-c:a", codec, *arguments)
    # The first packet of WMA states 92 ms, but the delay of its codec is 46 ms.
    is_equal(reading(file, path=ffmpeg.path)[file.name], ffmpeg.decode(file), 0.1 if ending == "wma" else 0.05)


@pytest.mark.parametrize("codec, ending", [("pcm_s16le", "wav"), ("flac", "flac"), ("libvorbis", "ogg"), ("libopus", "opus")])
def test_lengths_of_files_that_were_piped(ffmpeg, codec, ending):
    """The length is right where the writer could not go back to write it into the header."""
    source = write_sound(ffmpeg.folder / "48000.wav", 48000)
    file = ffmpeg.folder / f"piped.{ending}"
    file.write_bytes(ffmpeg.call("-i", source, "-c:a", codec, "-f", ending, "pipe:1"))
    is_equal(reading(file, path=ffmpeg.path)[file.name], ffmpeg.decode(file), 0.02)


@pytest.mark.parametrize("ending", ["mp3", "flac", "ogg", "opus", "aac", "mp2", "ac3"])
@pytest.mark.parametrize("rate", [16000, 44100])
def test_audio_behind_a_declared_end(ffmpeg, ending, rate):
    """Joined files are read whole, or refused. Reading the first file alone would lose audio silently."""
    if ending == "opus" and rate == 44100 or ending == "ac3" and rate == 16000:
        pytest.skip("the codec has no such rate")
    files = []
    for header in ["xing", "bare"] if ending == "mp3" else [""]:
        for mode in MODES if ending == "mp3" else [""]:
            options = [*HEADERS.get(header, []), *MODES.get(mode, [])]
            first = write_sound(ffmpeg.folder / f"{rate}.wav", rate)
            second = write_sound(ffmpeg.folder / f"second_{rate}.wav", rate, sounds=[(0.5, 0.9)], length=1.2)
            both = ffmpeg.folder / f"joined_{mode}_{header}_{rate}.{ending}"
            parts = [ffmpeg.encode(s, f"part{i}_{both.name}", *options) for i, s in enumerate((first, second))]
            both.write_bytes(b"".join(part.read_bytes() for part in parts))
            files.append(both)
    for name, line in reading(*files, path=ffmpeg.path).items():
        if ending == "mp3":
            assert "error" not in line, line
        if "error" in line:
            assert "several" in line["error"] or "corrupt" in line["error"], line
            continue
        near(line["sounds"], [*SOUNDS, (LENGTH + 0.5, LENGTH + 0.9)], 0.25), name


VIDEO = ["-f", "lavfi", "-i", "color=c=black:s=32x32:r=10:d=8"]
TRACKS = [("mkv", "libmp3lame"), ("mkv", "aac"), ("mkv", "flac"), ("mkv", "pcm_s16le"), ("mkv", "libvorbis"), ("mp4", "aac"),
          ("mp4", "libmp3lame"), ("mp4", "libopus"), ("mov", "aac"), ("mov", "alac"), ("webm", "libopus"),
          ("webm", "libvorbis"), ("mka", "aac"), ("mka", "flac"), ("mka", "libopus"), ("m4a", "aac")]  # fmt: skip


@pytest.mark.parametrize("rate", [16000, 44100, 48000])
@pytest.mark.parametrize("ending, codec", TRACKS)
def test_times_count_from_the_start_of_the_file(ffmpeg, ending, codec, rate):
    """Sounds keep their times if a track begins 3.4 s late, or if it has a gap of 1.5 s."""
    if codec == "libopus" and rate == 44100:
        pytest.skip("the codec has no such rate")
    source = write_sound(ffmpeg.folder / f"{rate}.wav", rate)
    picture = {"webm": "libvpx", "mp4": "mpeg4", "mov": "mpeg4", "mkv": "mpeg4"}.get(ending)
    video = VIDEO if picture else []
    codecs = ["-c:a", codec, "-strict", "-2", *(["-c:v", picture] if picture else [])]
    names = [f"{kind}_{codec}_{rate}.{ending}" for kind in ("late", "gap")]
    late = [] if ending in ("mka", "m4a") else [ffmpeg.folder / names[0]]
    if late:
        ffmpeg.call(*video, "-itsoffset", 3.4, "-i", source, *codecs, late[0])
    gap = ffmpeg.folder / names[1]
    ffmpeg.call(*video, "-i", source, "-af", "asetpts=PTS+gte(T\\,1.5)*1.5/TB", *codecs, gap)
    found = reading(*late, gap, path=ffmpeg.path)
    if late:
        near(found[names[0]]["sounds"], [(begin + 3.4, end + 3.4) for begin, end in SOUNDS], 0.06)
    near(found[names[1]]["sounds"], [*SOUNDS[:2], (SOUNDS[2][0] + 1.5, SOUNDS[2][1] + 1.5)], 0.08)


def committed(ffmpeg):
    """Writes the files of tests/data/ffmpeg and ffmpeg's results for them."""
    DATA.mkdir(exist_ok=True)
    long, short = (write_sound(ffmpeg.folder / f"{n}.wav", 16000, sounds=SOUNDS[: n + 1], length=n + 1.0) for n in (1, 0))
    encoder = ["-c:a", "libmp3lame", "-bitexact", "-map_metadata", "-1"]
    bare = HEADERS["bare"]
    made = {
        "vbr.mp3": ffmpeg.encode(long, "a.mp3", *encoder, "-q:a", "7", *bare),
        "xing.mp3": ffmpeg.encode(long, "b.mp3", *encoder, "-q:a", "7"),
        "cbr.mp3": ffmpeg.encode(long, "c.mp3", *encoder, "-b:a", "24k", *bare),
        "mp3.wav": ffmpeg.encode(long, "d.wav", *encoder, "-b:a", "16k"),
    }
    contents = {name: path.read_bytes() for name, path in made.items()}
    contents["joined.mp3"] = contents["xing.mp3"] + ffmpeg.encode(short, "e.mp3", *encoder, "-q:a", "7").read_bytes()
    results = {}
    for name, content in contents.items():
        (DATA / name).write_bytes(content)
        results[name] = ffmpeg.decode(DATA / name)
    (DATA / "results.json").write_text(json.dumps(results, indent=1) + "\n")


def test_files_that_ffmpeg_wrote(request):
    if os.environ.get("RTFX_UPDATE_GOLDEN"):
        committed(request.getfixturevalue("ffmpeg"))
    results = json.loads((DATA / "results.json").read_text())
    found = reading(*(DATA / name for name in results))
    assert len(results) == 5
    for name, theirs in results.items():
        is_equal(found[name], theirs, 0.09)
