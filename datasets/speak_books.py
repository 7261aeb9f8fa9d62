#!/usr/bin/env python3
"""Speech without a reader, for the training of stand-ins: speak_books.py FOLDER BOOK.txt... [--hours 10]

Speaks the sentences of plain-text books in many synthetic voices, speeds and pitches. Writes
NNN.opus into FOLDER, ten minutes each, and NNN.jsonl beside it: a manifest with `offset` and
`duration` of each utterance in the file, its voice and its text. `--without` names manifests of
test sets: a sentence that shares six words in a row with one of their texts is not spoken.

Files that are there already are kept, so that it can be interrupted and started again. It needs
numpy and scipy, opusenc (opus-tools), and at least one of espeak-ng, flite, pico2wave and
RHVoice-test. Voices whose program is missing are left out.
"""

import argparse
import json
import random
import re
import shutil
import subprocess
import tempfile
import wave
from pathlib import Path

import numpy as np
from scipy.signal import resample_poly
from text_lines import lines_of, objects_of, text_of
from user_errors import UserError, run_script

RATE = 16000  # Hz
FILE_SECONDS = 600
WORDS = (3, 45)  # words of an utterance
NEIGHBOURS = 6  # words in a row that a training text must not share with a test text
ACCENTS = ("en-us", "en-gb", "en-gb-x-rp", "en-gb-scotland", "en-us-nyc", "en-gb-x-gbclan")
TIMBRES = ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "f1", "f2", "f3", "f4", "f5")
# The program, its share of the speech, and its voices. Voices whose licences exclude commercial use
# (MBROLA's, and two of RHVoice) are left out, so that a trained model may be passed on.
VOICES = {
    "espeak-ng": (0.35, [f"{accent}+{timbre}" for accent in ACCENTS for timbre in TIMBRES]),
    "flite": (0.25, ["slt", "rms", "awb", "kal16", "kal"]),
    "pico2wave": (0.2, ["en-US", "en-GB"]),
    "RHVoice-test": (0.2, ["slt", "bdl", "clb", "alan"]),
}


def words_of(text):
    return re.sub(r"[^a-z' ]", " ", text.lower()).split()


def runs_of(words):
    return {tuple(words[i : i + NEIGHBOURS]) for i in range(len(words) - NEIGHBOURS + 1)}


def texts_of(manifest):
    """Returns the texts of a test set."""
    if manifest.suffix == ".tsv":
        return [line.split("\t")[-1] for line in lines_of(manifest)]
    lines = list(objects_of(manifest))
    for place, line in lines:
        if line.get("text") is None:  # its sentences could not be kept apart
            raise UserError(f"{place}: has no text; name a manifest with texts")
    return [text_of(place, line, "text") for place, line in lines]


def sentences_of(book):
    """Returns the sentences of a book without digits, headings, and the notes of Project Gutenberg around it."""
    text = book.read_text(encoding="utf-8", errors="replace").replace("\r", "")
    text = re.split(r"\*\*\* ?END OF|End of (?:the )?Project Gutenberg", text)[0]
    text = re.split(r"\*\*\* ?START OF[^\n]*\n", text)[-1]
    for paragraph in re.split(r"\n\s*\n", text):
        paragraph = " ".join(paragraph.replace("_", "").replace("--", ", ").split())
        if not re.search(r"[a-z]", paragraph) or re.search(r"[^\x20-\x7e]|[\d*|\[\]<>=]", paragraph):
            continue
        yield from re.split(r"(?<=[.!?;])[\"']? +(?=[\"'A-Z])", paragraph)


def utterances_of(books, known):
    """Returns utterances of one to three neighbouring sentences, in a random order that is always the same."""
    found, choice = [], random.Random(1)
    for book in books:
        row, wanted = [], 1
        for sentence in sentences_of(book):
            row.append(sentence)
            words = words_of(" ".join(row))
            if len(row) < wanted and len(words) < WORDS[1] // 2:
                continue
            if WORDS[0] <= len(words) <= WORDS[1] and not runs_of(words) & known:
                found.append((" ".join(row).replace('"', ""), " ".join(words)))
            row, wanted = [], choice.choice((1, 1, 2, 3))
    choice.shuffle(found)
    return found


def command_of(program, voice, text, output, choice):
    """Returns the command that speaks `text` at a random speed and pitch, and its input."""
    speed, pitch = choice.uniform(0.8, 1.25), choice.uniform(0.85, 1.2)
    if program == "espeak-ng":
        options = ["-v", voice, "-s", str(round(165 * speed)), "-p", str(round(50 * pitch))]
        return [program, *options, "-w", output, "--stdin"], text
    if program == "flite":
        pace = ["--setf", f"duration_stretch={1 / speed:.3f}"]
        return [program, "-voice", voice, *pace, "-t", text, "-o", output], ""
    if program == "pico2wave":
        levels = f"<speed level='{round(100 * speed)}'><pitch level='{round(100 * pitch)}'>"
        plain = text.replace("&", "and")
        return [program, "-l", voice, "-w", output, f"{levels}{plain}</pitch></speed>"], ""
    options = ["-p", voice, "-r", str(round(100 * speed)), "-t", str(round(100 * pitch))]
    return [program, *options, "-o", output], text


def run_program(command, data, name):
    """Runs a program with `data` as its input, and returns its messages."""
    done = subprocess.run(command, input=data, capture_output=True)
    said = " ".join((done.stderr or done.stdout).decode(errors="replace").split())
    if done.returncode:
        raise UserError(f"{name}: {said or f'ended with code {done.returncode}'}; install it whole, or remove it")
    return said


def speak(program, voice, text, folder, choice):
    """Returns speech at RATE with a random level, and random silence around it."""
    output = Path(folder) / "spoken.wav"
    output.unlink(missing_ok=True)  # a voice that fails must not leave the speech of another
    command, source = command_of(program, voice, text, str(output), choice)
    said = run_program(command, source.encode(), f"{program}, voice {voice}")
    try:
        with wave.open(str(output)) as audio:
            hz = audio.getframerate()
            samples = np.frombuffer(audio.readframes(audio.getnframes()), "<i2").astype(np.float32)
    except (FileNotFoundError, EOFError, wave.Error):
        raise UserError(f"{program}, voice {voice}: {said or 'no audio'}; install it whole, or remove it") from None
    if not samples.any():
        raise UserError(f"{program}, voice {voice}: silence for '{text[:40]}'; install it whole, or remove it")
    if hz != RATE:
        samples = resample_poly(samples, RATE, hz).astype(np.float32)
    loud = np.flatnonzero(np.abs(samples) > 64)
    samples = samples[loud[0] : loud[-1] + 1]
    samples *= 32768 * 10 ** choice.uniform(-1.5, -0.15) / np.abs(samples).max()
    before, after = (round(choice.uniform(0.05, 0.6) * RATE) for _ in range(2))
    return np.pad(samples, (before, after)).round().clip(-32768, 32767).astype("<i2")


def write_file(path, utterances, voices, bits):
    """Speaks utterances until the file is full. Returns its seconds."""
    choice, lines, parts, start = random.Random(path.stem), [], [], 0
    shares = [VOICES[program][0] for program in voices]
    with tempfile.TemporaryDirectory() as folder:
        while start < FILE_SECONDS * RATE:
            spoken, text = next(utterances, (None, None))
            if text is None:
                raise UserError(f"{path}: the books end within it; name more books, or give a smaller --hours")
            program = choice.choices(voices, shares)[0]
            voice = choice.choice(VOICES[program][1])
            samples = speak(program, voice, spoken, folder, choice)
            place = dict(offset=start / RATE, duration=len(samples) / RATE)
            lines.append(dict(audio_filepath=path.name, **place, voice=voice, text=text))
            parts.append(samples)
            start += len(samples)
    raw = ["--raw", "--raw-rate", str(RATE), "--raw-chan", "1", "--padding", "0"]
    unfinished = path.with_suffix(".part")
    coder = ["opusenc", "--quiet", "--speech", "--comp", "5", "--bitrate", f"{bits:g}", *raw]
    run_program([*coder, "-", str(unfinished)], np.concatenate(parts).tobytes(), f"{path}: opusenc")
    manifest = "".join(json.dumps(line) + "\n" for line in lines)
    path.with_suffix(".jsonl").write_text(manifest, encoding="utf-8")
    unfinished.replace(path)
    return start / RATE


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("books", type=Path, nargs="+", metavar="BOOK.txt")
    parser.add_argument("--hours", type=float, default=10, help="of speech (default: 10)")
    parser.add_argument("--bits", type=float, default=14, help="kbit/s of Opus (default: 14)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first file")
    parser.add_argument(
        "--without", type=Path, nargs="*", default=[],
        help="manifests whose texts are for tests; a .tsv has its text in the last column",
    )  # fmt: skip
    arguments = parser.parse_args()
    if not shutil.which("opusenc"):
        raise UserError("opusenc is missing; `apt install opus-tools`")
    programs = [program for program in VOICES if shutil.which(program)]
    if not programs:
        raise UserError("no program speaks; `apt install espeak-ng`")
    known = set()
    for manifest in arguments.without:
        known |= {run for text in texts_of(manifest) for run in runs_of(words_of(text))}
    utterances = iter(utterances_of(arguments.books, known))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    seconds, number = 0.0, arguments.first
    while seconds < arguments.hours * 3600:
        path = arguments.folder / f"{number:03}.opus"
        if path.exists():
            spoken = [line for _, line in objects_of(path.with_suffix(".jsonl"))]
            seconds += sum(line["duration"] for line in spoken)
            for _ in spoken:
                next(utterances, None)
        else:
            seconds += write_file(path, utterances, programs, arguments.bits)
            print(f"{path}: {seconds / 3600:.2f} h", flush=True)
        number += 1


if __name__ == "__main__":
    run_script("speak_books", main)
