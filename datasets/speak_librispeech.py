#!/usr/bin/env python3
"""A test set of LibriSpeech as synthetic speech of its true lengths: speak_librispeech.py FOLDER [--set test-clean]

Has espeak-ng speak the transcripts (librispeech/, CC BY 4.0) in several voices, each for exactly as
many samples at 16 kHz as the reader took. Writes audio/<id>.flac (wav without the soundfile package)
and manifest.jsonl into FOLDER. Without --limit, it also writes clips_7.4s.jsonl, clips_23s.jsonl and
clips_77s.jsonl, eight clips each of just that length, made of neighbouring transcripts.

stand_in.txt beside them marks every result of this speech as one of stand-in data. Files that are
there already are kept, so that it can be interrupted and started again. One version of espeak-ng
always makes the same samples.

Needs Python 3.11, numpy and espeak-ng (`apt install espeak-ng`). A machine without espeak-ng takes
a copy of the finished FOLDER.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import wave
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

try:
    import numpy as np
except ImportError:
    raise SystemExit("speak_librispeech: error: this Python has no numpy; start it with .venv/bin/python") from None

from split_manifest import write_split
from user_errors import UserError, run_script

try:
    import soundfile
except ImportError:
    soundfile = None

RATE = 16000  # Hz
TRANSCRIPTS_FOLDER = Path(__file__).parent / "librispeech"
SETS = ["test-other", "test-clean"]
VOICES = [
    accent + variant
    for accent in ("en-us", "en-gb", "en-gb-x-rp", "en-gb-scotland")
    for variant in ("+m1", "+m3", "+m7", "+f1", "+f2", "+f4")
]
SLOWEST, FASTEST = 80, 450  # words per minute that espeak-ng can keep
STAND_IN = "espeak-ng speech of LibriSpeech {}'s transcripts"  # what results say of it
EDGE = RATE // 10  # samples of silence before and after, where there is room
QUIET = 64  # of 32768; below it, the ends of espeak-ng's audio count as silence
CLIPS = 8  # of each length, for batches of equal clips
CLIP_SECONDS = (7.4, 23, 77)
STRETCH = 1.04  # pitch and speed may change by this factor to reach a length


def read_transcripts(name="test-other", limit=None):
    """Returns [(identifier, samples at RATE, text)] of a test set, in the order of identifiers."""
    with gzip.open(TRANSCRIPTS_FOLDER / f"{name}.tsv.gz", "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    return [(name, int(samples), text.lower()) for name, samples, text in rows[:limit]]


def join_clips(rows, seconds):
    """Returns CLIPS rows of exactly `seconds`. Each joins neighbours whose lengths add up to about that."""
    wanted, window, clips = round(seconds * RATE), [], []
    for row in rows:
        window.append(row)
        while sum(total for _, total, _ in window) > 1.05 * wanted:
            window.pop(0)
        if sum(total for _, total, _ in window) >= 0.95 * wanted:
            speaker = window[0][0].split("-")[0]
            text = " ".join(text for _, _, text in window)
            clips.append((f"{speaker}-{seconds:g}s-{len(clips)}", wanted, text))
            window = []
        if len(clips) == CLIPS:
            break
    return clips


def voice_of(name):
    """Returns the voice of a speaker, the first part of the id, who always has the same one."""
    digest = hashlib.sha256(name.split("-")[0].encode()).digest()
    return VOICES[digest[0] % len(VOICES)]


def speak(espeak, voice, rate, text):
    """Returns the samples of the speech without the silence around it, and their rate in Hz."""
    command = [espeak, "-v", voice, "-s", str(rate), "--stdin", "--stdout"]
    result = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if result.returncode or len(result.stdout) <= 44:
        message = result.stderr.decode(errors="replace").strip() or "it gave no audio"
        raise UserError(f"{espeak} -v {voice}: {message}; is it a whole espeak-ng with its data?")
    # A stream's header does not have the length, so the wave module would refuse it.
    samples = np.frombuffer(result.stdout[44:], "<i2").astype(np.float64)
    loud = np.flatnonzero(np.abs(samples) >= QUIET)
    if not loud.size:
        raise UserError(f"{espeak} -v {voice}: silence for '{text[:40]}'; try another espeak-ng")
    return samples[loud[0] : loud[-1] + 1], int.from_bytes(result.stdout[24:28], "little")


def speak_for(espeak, voice, text, wanted):
    """Returns speech as close to `wanted` samples at RATE as a whole number of words per minute allows."""
    rate, tried = 170, {}
    while rate not in tried and len(tried) < 5:
        samples, hz = speak(espeak, voice, rate, text)
        tried[rate] = samples
        length = samples.size * RATE / hz
        rate = min(FASTEST, max(SLOWEST, round(rate * length / wanted)))
    return min(tried.values(), key=lambda s: abs(np.log(s.size * RATE / hz / wanted))), hz


def resample(samples, size):
    """Resamples `samples` to `size` points, through the spectrum. Both are silent at their ends."""
    spectrum = np.fft.rfft(samples)[: size // 2 + 1]
    return np.fft.irfft(spectrum, size) * (size / samples.size)


def fit(samples, hz, total):
    """Returns exactly `total` samples at RATE: the speech, stretched a little, in the middle of silence."""
    edge = min(EDGE, total // 10)
    wanted = total - 2 * edge
    natural = samples.size * RATE / hz
    # Speech that is too long is compressed, by any amount, before a word would be cut.
    length = min(wanted, round(natural * STRETCH))
    margin = hz // 50  # the silence around the speech while it is resampled as one period
    padded = np.pad(samples, margin)
    extra = round(margin * length / samples.size)
    speech = resample(padded, length + 2 * extra)
    left = (total - length) // 2 - extra
    if left < 0:
        speech, left = speech[-left : -left + total], 0
    whole = np.zeros(total)
    whole[left : left + speech.size] = speech[: total - left]
    peak = np.abs(whole).max()
    return (whole * min(1.0, 32767 / peak)).round().astype("<i2")


def encode(samples, ending):
    buffer = io.BytesIO()
    if ending == "wav":
        with wave.open(buffer, "wb") as out:
            out.setparams((1, 2, RATE, 0, "NONE", "not compressed"))
            out.writeframes(samples.tobytes())
    else:
        soundfile.write(buffer, samples, RATE, format=ending.upper())
    return buffer.getvalue()


def length_of(path):
    """Returns the number of samples in a file, or None where it is missing or damaged."""
    try:
        if path.suffix == ".wav":
            with wave.open(str(path)) as audio:
                return audio.getnframes()
        return soundfile.info(path).frames
    except (OSError, EOFError, RuntimeError, wave.Error):
        return None


def make(row, folder, espeak, ending):
    name, total, text = row
    path = folder / "audio" / f"{name}.{ending}"
    if length_of(path) == total:
        return False
    samples, hz = speak_for(espeak, voice_of(name), text, total - 2 * min(EDGE, total // 10))
    partial_file = path.with_suffix(".part")
    partial_file.write_bytes(encode(fit(samples, hz, total), ending))
    partial_file.replace(path)
    return True


def make_all(rows, folder, espeak, ending, jobs):
    work = partial(make, folder=folder, espeak=espeak, ending=ending)
    new = 0
    with ProcessPoolExecutor(jobs) as pool:
        try:
            for done, made in enumerate(pool.map(work, rows, chunksize=4), 1):
                new += made
                if done % 100 == 0 or done == len(rows):
                    print(f"{done} of {len(rows)} utterances", file=sys.stderr)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return new


def write_manifest(rows, path, ending):
    lines = [
        {"audio_filepath": f"audio/{name}.{ending}", "duration": total / RATE, "text": text}
        for name, total, text in rows
    ]
    partial_file = path.with_suffix(".part")
    partial_file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    partial_file.replace(path)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where to write, for example data/test_other")
    parser.add_argument("--set", choices=SETS, default=SETS[0], help="whose texts are spoken; default: %(default)s")
    parser.add_argument("--limit", type=int, help="only the first N utterances")
    parser.add_argument("--format", choices=["flac", "wav", "ogg"], help="default: flac, or wav")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--espeak", default="espeak-ng", help="the program, if not on the PATH")
    arguments = parser.parse_args()
    for option in ("limit", "jobs"):
        value = getattr(arguments, option)
        if value is not None and value < 1:
            parser.error(f"--{option}: {value} is not allowed; give 1 or more")
    return arguments


def begin_folder(folder, what):
    """Makes a folder for stand-in audio and marks it first, so that an interrupted run does not mix two sets."""
    mark, said = folder / "stand_in.txt", what + "\n"
    if mark.exists() and (held := mark.read_text(encoding="utf-8")) != said:
        raise UserError(f"{folder}: holds {held.strip()}; give another folder")
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    mark.write_text(said, encoding="utf-8")


def run(arguments):
    ending = arguments.format or ("flac" if soundfile else "wav")
    if ending != "wav" and not soundfile:
        raise UserError(f"--format {ending}: needs the Python package soundfile; use --format wav")
    if not shutil.which(arguments.espeak):
        raise UserError(
            f"{arguments.espeak}: not found; `apt install espeak-ng`, or copy a folder "
            "made on another machine"
        )
    begin_folder(arguments.folder, STAND_IN.format(arguments.set))
    rows = read_transcripts(arguments.set, arguments.limit)
    clips = {} if arguments.limit else {s: join_clips(rows, s) for s in CLIP_SECONDS}
    everything = rows + [row for group in clips.values() for row in group]
    new = make_all(everything, arguments.folder, arguments.espeak, ending, arguments.jobs)
    write_manifest(rows, arguments.folder / "manifest.jsonl", ending)
    write_split(arguments.folder / "manifest.jsonl")
    for seconds, group in clips.items():
        write_manifest(group, arguments.folder / f"clips_{seconds:g}s.jsonl", ending)
    hours = sum(total for _, total, _ in rows) / RATE / 3600
    print(
        f"{arguments.folder / 'manifest.jsonl'}: {len(rows)} utterances, {hours:.4f} h ({new} new)"
    )


def main():
    try:
        run(parse_arguments())
    except KeyboardInterrupt:
        raise SystemExit("speak_librispeech: interrupted; start it again to go on") from None


if __name__ == "__main__":
    run_script("speak_librispeech", main)
