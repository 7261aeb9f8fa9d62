#!/usr/bin/env python3
"""Manifests of the sets of published tables, from what their publishers hand out:

  prepare_dataset.py librispeech LibriSpeech/ | test-other.tar.gz      --output data/librispeech
  prepare_dataset.py spgispeech  spgispeech/                           --output data/spgi
  prepare_dataset.py earnings22  speech-datasets/earnings22/           --output data/earnings22
  prepare_dataset.py ami         DIR (amicorpus/, ami_public_manual_*) --output data/ami
  prepare_dataset.py europarl    Europarl-ASR/ | Europarl-ASR_v1.0.tar.gz  --output data/europarl
  prepare_dataset.py slurp       slurp/ (a clone, with audio/slurp_real/)  --output data/slurp

Earnings22 is at github.com/revdotcom/speech-datasets, and AMI at groups.inf.ed.ac.uk/ami/corpus. DIR of AMI
holds amicorpus/ (headsets) and ami_public_manual_1.6.2.zip. No table of configs/tables uses these two sets.

The script writes OUTPUT/<part>.jsonl for each part that is there ("test", "dev", "test-other", ...), and
training sets only with --part. Archives are unpacked below OUTPUT. Utterances that are files of their own
(LibriSpeech, SPGISpeech, SLURP) stay where they are. Other audio is cut into OUTPUT/audio as FLAC. AMI is cut
by the annotated segments of each headset, and Europarl-ASR by speech (through ffmpeg). Earnings22 is cut at
the ends of sentences, changes of speaker and long pauses, at 30 s at most. Texts stay as published: the
scorer normalises them.
"""

import argparse
import csv
import json
import lzma
import os
import re
import shutil
import subprocess
import tarfile
import xml.etree.ElementTree as ElementTree
import zipfile
import zlib
from pathlib import Path

import soundfile

from text_lines import lines_of
from user_errors import UserError

MOST_SECONDS = 30  # of a segment that is cut from a longer recording
LEAST_SECONDS = 5  # a sentence that ends earlier does not end its segment
PAUSE_SECONDS = 2  # a longer pause ends a segment
NITE = "{http://nite.sourceforge.net/}"

END_OF_TAR = bytes(tarfile.BLOCKSIZE)  # some programs write one such block, and most two

# The partition "full-corpus-asr", which the site of the AMI corpus recommends.
AMI_PARTS = {
    "dev": "ES2011 IS1008 TS3004 IB4001 IB4002 IB4003 IB4004 IB4010 IB4011".split(),
    "test": "ES2004 IS1009 TS3003 EN2002".split(),
}


def require(path, what):
    if not path.exists():
        raise UserError(f"{path}: no such file or folder; {what}")
    return path


def require_any(found, parts, problem, remedy):
    if not found:
        raise UserError(f"{problem}{' of ' if parts else ''}{', '.join(parts)}; {remedy}")


def unpack_tar(source, folder):
    """Unpacks a tar archive, which may be compressed, and requires its end.

    tarfile takes a damaged header, or the end of a file that was cut, for the end of the archive."""
    with tarfile.open(source) as archive:
        # The filter came with Python 3.11.4; Debian 12 has 3.11.2.
        archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        stream = archive.fileobj
        stream.seek(archive.offset)
        if stream.read(len(END_OF_TAR)) != END_OF_TAR:
            raise tarfile.ReadError(f"damaged at byte {archive.offset}")
        while stream.read(1 << 20):
            pass  # gzip compares its checksum at its end


def unpacked(source, output):
    """Returns the folder itself, or the folder of an archive's contents, which is unpacked once."""
    require(source, "give the folder or the archive that was downloaded")
    if source.is_dir():
        return source
    folder = output / "unpacked" / re.sub(r"(\.tar)?\.(gz|tgz|zip|tar)$", "", source.name)
    done = folder / ".complete"
    if done.exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as archive:
                archive.extractall(folder)
        else:
            unpack_tar(source, folder)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError) as error:
        if getattr(error, "errno", None) is not None:
            raise  # the system's error, such as a full disk
        raise UserError(f"{source}: damaged ({error}); download the archive again, or unpack it and give the folder") from None
    done.touch()
    return folder


def below(folder, *names):
    """Returns the first folder/name that exists, or the folder itself. Archives have one more level."""
    return next((folder / name for name in names if (folder / name).exists()), folder)


def seconds_of(path):
    try:
        return soundfile.info(path).duration
    except RuntimeError as error:
        raise UserError(f"{path}: {error}; unpack or download it again") from None


def read_table(path, columns):
    """Returns the rows of a file whose columns are separated by |, as objects."""
    with path.open(encoding="utf-8-sig", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="|", quoting=csv.QUOTE_NONE))
    lacking = [name for name in columns if rows and rows[0].get(name) is None]
    if lacking:
        raise UserError(f"{path}: lacks the column {lacking[0]}; download it again")
    return rows


def utterance(path, text, seconds=None):
    return {"audio_filepath": path, "duration": seconds or seconds_of(path), "text": text}


def librispeech(source, output, parts):
    found = {}
    for transcript in sorted(source.resolve().rglob("*.trans.txt")):  # parts are named by the folders above
        part = transcript.parents[2].name
        if not wanted(part, parts):
            continue
        for number, line in enumerate(lines_of(transcript), 1):
            name, _, text = line.partition(" ")
            audio = require(transcript.with_name(f"{name}.flac"), f"{transcript}:{number} names it")
            found.setdefault(part, []).append(utterance(audio, text))
    require_any(found, parts, f"{source}: holds no *.trans.txt", "give LibriSpeech/ or a folder in it")
    return found


def spgispeech(source, output, parts):
    root = below(source, "spgispeech")
    found = {}
    for table in sorted(root.glob("*.csv")):
        part = part_of(table)
        if not wanted(part, parts):
            continue
        found[part] = []
        for row in read_table(table, ["wav_filename", "transcript"]):
            audio = require(root / table.stem / row["wav_filename"], f"{table} names it")
            found[part].append(utterance(audio, row["transcript"]))
    require_any(found, parts, f"{root}: holds no val.csv or test.csv", "give the folder of the download")
    return found


def slurp(source, output, parts):
    root = below(source, "slurp")
    texts = require(root / "dataset/slurp", "clone github.com/pswietojanski/slurp")
    audio = require(root / "audio/slurp_real", "run scripts/download_audio.sh and unpack slurp_real.tar.gz")
    found = {}
    for table in sorted(texts.glob("*.jsonl")):
        part = part_of(table)
        if not wanted(part, parts) or part == "train_synthetic":
            continue
        found[part] = []
        for line in map(json.loads, lines_of(table)):
            for recording in line["recordings"]:
                path = require(audio / recording["file"], f"{table} names it")
                found[part].append(utterance(path, line["sentence"]))
    require_any(found, parts, f"{texts}: holds no devel.jsonl or test.jsonl", "clone the repository again")
    return found


def cut(recording, segments, folder):
    """Writes each (name, begin, end, text) of a recording to a file of its own, once."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    # The whole recording is read at once. After a seek, some frames of MP3 are decoded wrongly.
    try:
        samples, hz = soundfile.read(recording, dtype="int16", always_2d=True)
    except RuntimeError as error:
        raise UserError(f"{recording}: {error}; unpack or download it again") from None
    for name, begin, end, text in segments:
        path = folder / f"{name}.flac"
        piece = samples[round(begin * hz) : round(end * hz)]
        if round(end * hz) > len(samples) + hz // 10:
            raise UserError(f"{recording}: ends at {len(samples) / hz:.2f} s, before {name} ends at {end:.2f} s; download it again")
        if not path.exists():
            partial_file = path.with_suffix(".part")
            try:
                soundfile.write(partial_file, piece, hz, format="FLAC")
            except RuntimeError as error:
                partial_file.unlink(missing_ok=True)
                raise UserError(f"{path}: {error}; check {recording} and the room on the disk") from None
            partial_file.replace(path)
        lines.append(utterance(path, text, len(piece) / hz))
    return lines


def earnings22_segments(name, rows):
    """Returns (name, begin, end, text) of segments. They join sentences of one speaker, without a long pause inside.

    A word without times belongs to the segment that continues after it. Where no segment does, no segment has its
    audio, and the word is left out."""
    segments, words, begin, end, speaker = [], [], None, None, None
    untimed = []  # words without times after `words`

    def finish():
        if words:
            milliseconds = f"{round(begin * 1000):08}-{round(end * 1000):08}"  # unique in each segmentation
            segments.append((f"{name}-{milliseconds}", begin, end, " ".join(words)))
            words.clear()
        untimed.clear()

    for row in rows:
        if row["token"].startswith("<"):
            continue  # not a word: <inaudible>
        if not row["ts"] or not row["endTs"]:
            untimed.append(row["token"] + (row["punctuation"] or ""))
            continue
        first, last = float(row["ts"]), float(row["endTs"])
        is_apart = words and (
            row["speaker"] != speaker or first - end > PAUSE_SECONDS or last - begin > MOST_SECONDS
        )
        if is_apart:
            finish()
        if not words:
            begin, speaker = first, row["speaker"]
            untimed.clear()
        words += untimed
        untimed.clear()
        words.append(row["token"] + (row["punctuation"] or ""))
        end = last
        if row["punctuation"] in (".", "?", "!") and end - begin >= LEAST_SECONDS:
            finish()
    finish()
    return segments


def earnings22(source, output, parts):
    root = below(source, "earnings22")
    tables = require(
        root / "transcripts/force_aligned_nlp_references", "clone github.com/revdotcom/speech-datasets"
    )
    found = []
    for table in sorted(tables.glob("*.aligned.nlp")):
        name = table.name.removesuffix(".aligned.nlp")
        recording = require(root / "media" / f"{name}.mp3", f"{table} is its transcript (git lfs pull)")
        if recording.stat().st_size < 1000:
            raise UserError(f"{recording}: is a pointer of Git LFS, not audio; run `git lfs pull`")
        rows = read_table(table, ["token", "speaker", "ts", "endTs", "punctuation"])
        found += cut(recording, earnings22_segments(name, rows), output / "audio")
    require_any(found, parts, f"{tables}: holds no *.aligned.nlp", "clone the repository again")
    return {"test": found}


def ami_words(annotations, meeting, agent):
    """Returns {id: word} of one speaker. Entries that are no words (punctuation, laughter) are empty."""
    path = require(annotations / f"words/{meeting}.{agent}.words.xml", "unpack ami_public_manual_1.6.2.zip")
    words = {}
    for element in ElementTree.parse(path).getroot():
        is_word = element.tag == "w" and "punc" not in element.attrib
        words[element.attrib[f"{NITE}id"]] = (element.text or "") if is_word else ""
    return words


def ami_segments(annotations, meeting, agent):
    words = ami_words(annotations, meeting, agent)
    order = list(words)
    path = require(annotations / f"segments/{meeting}.{agent}.segments.xml", "unpack the annotations")
    for element in ElementTree.parse(path).iter("segment"):
        for child in element.iter(f"{NITE}child"):
            ends = re.findall(r"id\(([^)]*)\)", child.attrib["href"])
            if not words.keys() >= set(ends):
                raise UserError(
                    f"{path}: names {ends[0]}, which the words lack; unpack the annotations again"
                )
            first, last = order.index(ends[0]), order.index(ends[-1])
            text = " ".join(filter(None, (words[name] for name in order[first : last + 1])))
            if text:
                begin, end = (float(element.attrib[f"transcriber_{side}"]) for side in ("start", "end"))
                yield f"{meeting}-{agent}-{round(begin * 100):07}-{round(end * 100):07}", begin, end, text


def ami(source, output, parts):
    """Writes individual headsets (IHM), with segments as annotated."""
    folders = (source, source / "annotations", *sorted(source.glob("ami_public_manual_*")))
    annotations = next((folder for folder in folders if (folder / "words").is_dir()), None)
    if not annotations:
        archives = sorted(source.glob("ami_public_manual_*.zip"))
        if not archives:
            raise UserError(f"{source}: holds no ami_public_manual_1.6.2; download the annotations into it")
        annotations = unpacked(archives[-1], output)
    meetings = require(annotations / "corpusResources/meetings.xml", "unpack ami_public_manual_1.6.2.zip")
    audio = below(source, "amicorpus", "wav_db")
    found = {}
    for meeting in ElementTree.parse(meetings).getroot():
        name = meeting.attrib["observation"]
        part = next((p for p, sessions in AMI_PARTS.items() if name[:6] in sessions), "train")
        if not wanted(part, parts) or not (audio / name).is_dir():
            continue
        for speaker in meeting.iter("speaker"):
            agent, channel = speaker.attrib["nxt_agent"], speaker.attrib["channel"]
            recording = require(
                audio / name / f"audio/{name}.Headset-{channel}.wav", "download the individual headsets"
            )
            segments = sorted(ami_segments(annotations, name, agent), key=lambda segment: segment[1])
            found.setdefault(part, []).extend(cut(recording, segments, output / "audio"))
    require_any(
        found, parts, f"{audio}: holds no meeting of {' or '.join(AMI_PARTS)}", "download amicorpus/ into it"
    )
    return found


def europarl(source, output, parts):
    """Writes whole speeches with their manually revised verbatim texts."""
    root = require(below(source, "Europarl-ASR") / "en", "give Europarl-ASR/ or its archive")
    if not shutil.which("ffmpeg"):
        raise UserError("ffmpeg: not found, and the speeches are AAC; `apt install ffmpeg`")
    found = {}
    for speeches in sorted(root.glob("*/original_audio/*/speeches")):
        part = f"{speeches.parents[2].name}-{speeches.parent.name}"  # "test-spk-dep"
        for text in sorted(speeches.rglob("*.tr.rev.txt")):
            recording = require(
                Path(str(text).removesuffix(".tr.rev.txt") + ".m4a"), f"{text} is its transcript"
            )
            path = output / "audio" / f"{recording.stem}.flac"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                partial_file = path.with_suffix(".part.flac")
                command = [
                    "ffmpeg",
                    "-nostdin",
                    "-v",
                    "error",
                    "-y",
                    "-i",
                    recording,
                    "-ac",
                    "1",
                    "-ar",
                    "16000",
                ]
                made = subprocess.run([*command, partial_file], capture_output=True, text=True)
                if made.returncode:
                    raise UserError(f"{recording}: {made.stderr.strip()}; download it again")
                partial_file.replace(path)
            found.setdefault(part, []).append(
                utterance(path, " ".join(text.read_text(encoding="utf-8-sig").split()))
            )
    require_any(found, parts, f"{root}: holds no speech with *.tr.rev.txt", "unpack the whole archive")
    return found


def wanted(part, parts):
    return part in parts if parts else not part.startswith("train")


def part_of(table):
    return "dev" if table.stem in ("val", "devel") else table.stem


def write_manifest(lines, path):
    """Writes a manifest. Paths inside its folder become relative to it."""
    folder = path.parent.resolve()
    text = ""
    for line in lines:
        audio = Path(os.path.abspath(line["audio_filepath"]))
        inside = audio.is_relative_to(folder)
        line["audio_filepath"] = str(audio.relative_to(folder) if inside else audio)
        text += json.dumps(line, ensure_ascii=False) + "\n"
    partial_file = path.with_suffix(".part")
    partial_file.write_text(text, encoding="utf-8")
    partial_file.replace(path)


SETS = {
    "librispeech": librispeech,
    "spgispeech": spgispeech,
    "earnings22": earnings22,
    "ami": ami,
    "europarl": europarl,
    "slurp": slurp,
}


def run(arguments):
    arguments.output.mkdir(parents=True, exist_ok=True)
    found = SETS[arguments.set](
        unpacked(arguments.source, arguments.output), arguments.output, arguments.part
    )
    absent = sorted(set(arguments.part) - set(found))
    if absent:
        raise UserError(f"--part {absent[0]}: not there; there are: {', '.join(sorted(found))}")
    for part, lines in sorted(found.items()):
        if not wanted(part, arguments.part):
            continue
        path = arguments.output / f"{part}.jsonl"
        hours = sum(line["duration"] for line in lines) / 3600
        write_manifest(lines, path)
        print(f"{path}: {len(lines)} utterances, {hours:.4f} h")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", choices=SETS)
    parser.add_argument("source", type=Path, help="folder or archive as downloaded")
    parser.add_argument("--output", type=Path, required=True, help="folder of the manifests")
    parser.add_argument("--part", action="append", default=[], help="only this one; may be repeated")
    arguments = parser.parse_args()
    try:
        run(arguments)
    except (UserError, OSError) as error:
        raise SystemExit(f"prepare_dataset: error: {error}") from None
    except (ValueError, KeyError, ElementTree.ParseError) as error:
        raise SystemExit(
            f"prepare_dataset: error: {arguments.source}: {error!r}; is not laid out as it was published"
        ) from None


if __name__ == "__main__":
    main()
