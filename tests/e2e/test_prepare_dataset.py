"""Tests datasets/prepare_dataset.py on miniature downloads in each set's layout, split_manifest.py and cut_test_other.py."""

import importlib
import json
import os
import subprocess
import sys
import tarfile
import zipfile

import numpy as np
import pytest
import soundfile
from conftest import ROOT

RATE = 16000


def tone(path, seconds, rate=RATE, **options):
    """Writes a tone that gets louder, so that the loudness of a part tells its place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    times = np.arange(round(seconds * rate)) / rate
    soundfile.write(path, times / seconds * np.sin(2 * np.pi * 440 * times), rate, **options)


def script(name, *arguments, **environment):
    command = [sys.executable, ROOT / "datasets" / name, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


@pytest.fixture
def prepare(tmp_path):
    """prepare(set, source) returns {part: lines of its manifest}, and checks the duration of each audio file."""

    def run(name, source, *arguments, **environment):
        output = tmp_path / "prepared"
        result = script("prepare_dataset.py", name, source, "--output", output, *arguments, **environment)
        assert result.returncode == 0, result.stderr
        found = {}
        for path in sorted(output.glob("*.jsonl")):
            found[path.stem] = [json.loads(line) for line in path.read_text().splitlines()]
            for line in found[path.stem]:
                info = soundfile.info(output / line["audio_filepath"])
                assert line["duration"] == pytest.approx(info.duration, abs=1e-3)
        return found

    return run


def complaint(name, source, tmp_path, *arguments):
    result = script("prepare_dataset.py", name, source, "--output", tmp_path / "out", *arguments)
    assert result.returncode == 1 and "Traceback" not in result.stderr, result.stderr
    return result.stderr


def texts(lines):
    return [line["text"] for line in lines]


def make_librispeech(folder):
    for part, reader in (("test-other", 367), ("test-clean", 61), ("train-clean-100", 19)):
        chapter = folder / f"LibriSpeech/{part}/{reader}/1"
        for i in range(2):
            tone(chapter / f"{reader}-1-000{i}.flac", 1 + i)
        lines = [f"{reader}-1-000{i} {part.upper()} TEXT {i}\n" for i in range(2)]
        (chapter / f"{reader}-1.trans.txt").write_text("".join(lines))
    return folder / "LibriSpeech"


def test_librispeech(prepare, tmp_path):
    found = prepare("librispeech", make_librispeech(tmp_path))
    assert list(found) == ["test-clean", "test-other"]
    assert texts(found["test-other"]) == ["TEST-OTHER TEXT 0", "TEST-OTHER TEXT 1"]
    assert [line["duration"] for line in found["test-other"]] == [1, 2]


def test_librispeech_from_within_the_set(prepare, tmp_path, monkeypatch):
    folder = make_librispeech(tmp_path)
    for inside in ("test-other", "test-other/367"):
        monkeypatch.chdir(folder / inside)
        found = prepare("librispeech", ".", "--part", "test-other")
        assert texts(found["test-other"]) == ["TEST-OTHER TEXT 0", "TEST-OTHER TEXT 1"]


def test_librispeech_from_its_archive(prepare, tmp_path):
    folder = make_librispeech(tmp_path / "made")
    with tarfile.open(tmp_path / "test-other.tar.gz", "w:gz") as archive:
        archive.add(folder / "test-other", "LibriSpeech/test-other")
    for _ in range(2):  # in the second round the archive is unpacked already
        found = prepare("librispeech", tmp_path / "test-other.tar.gz", "--part", "test-other")
        assert [line["audio_filepath"] for line in found["test-other"]] == [
            f"unpacked/test-other/LibriSpeech/test-other/367/1/367-1-000{i}.flac" for i in range(2)
        ]


def flipped(data, place):
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def cut_before(data, place):
    return data[:place]


@pytest.mark.parametrize("damage, packed", [(flipped, False), (cut_before, False), (flipped, True)])
def test_a_damaged_archive_is_refused_each_time(tmp_path, damage, packed):
    """Python's tarfile takes a damaged header for the end of an archive, and does not read gzip's checksum."""
    folder = make_librispeech(tmp_path / "made")
    path = tmp_path / ("test-other.tar.gz" if packed else "test-other.tar")
    with tarfile.open(path, "w:gz" if packed else "w") as archive:
        archive.add(folder / "test-other", "LibriSpeech/test-other")
    place = path.stat().st_size - 8  # gzip's checksum
    if not packed:
        with tarfile.open(path) as archive:
            place = [member.offset for member in archive if member.name.endswith(".flac")][-1]
    whole = path.read_bytes()
    path.write_bytes(damage(whole, place))
    for _ in range(2):
        text = complaint("librispeech", path, tmp_path, "--part", "test-other")
        assert f"{path}: damaged (" in text and "download the archive again" in text
    path.write_bytes(whole)
    result = script("prepare_dataset.py", "librispeech", path, "--output", tmp_path / "out", "--part", "test-other")
    assert "2 utterances" in result.stdout, result.stderr


def test_an_archive_may_end_with_one_block(tmp_path):
    folder = make_librispeech(tmp_path / "made")
    path = tmp_path / "test-other.tar"
    with tarfile.open(path, "w") as archive:
        archive.add(folder / "test-other", "LibriSpeech/test-other")
        archive.fileobj.flush()
        end = archive.offset
    path.write_bytes(path.read_bytes()[: end + tarfile.BLOCKSIZE])
    result = script("prepare_dataset.py", "librispeech", path, "--output", tmp_path / "out", "--part", "test-other")
    assert "2 utterances" in result.stdout, result.stderr


def test_librispeech_errors(tmp_path):
    folder = make_librispeech(tmp_path)
    assert "no such file or folder" in complaint("librispeech", tmp_path / "none", tmp_path)
    arguments = ["--part", "test-clean", "--part", "dev-clean"]
    assert "dev-clean: not there; there are: test-clean" in complaint(
        "librispeech", folder, tmp_path, *arguments
    )
    assert "holds no *.trans.txt of dev-other;" in complaint(
        "librispeech", folder, tmp_path, *arguments[:1], "dev-other"
    )
    (folder / "test-other/367/1/367-1-0001.flac").unlink()
    text = complaint("librispeech", folder, tmp_path)
    assert "367-1-0001.flac: no such file" in text and "367-1.trans.txt:2 names it" in text
    (tmp_path / "x.tar.gz").write_bytes(b"no archive")
    assert "download the archive again" in complaint("librispeech", tmp_path / "x.tar.gz", tmp_path)
    assert "holds no *.trans.txt" in complaint("librispeech", tmp_path / "out", tmp_path)


def test_spgispeech(prepare, tmp_path):
    root = tmp_path / "spgispeech"
    for table, part in (("val", "val"), ("train", "train")):
        tone(root / part / "ab12/1.wav", 1.5)
        row = 'ab12/1.wav|48044|Revenue grew 5%, to $1.2 "billion".\n'
        (root / f"{table}.csv").write_text("wav_filename|wav_filesize|transcript\n" + row)
    found = prepare("spgispeech", tmp_path)
    assert list(found) == ["dev"] and texts(found["dev"]) == ['Revenue grew 5%, to $1.2 "billion".']
    (root / "val/ab12/1.wav").unlink()
    assert "val.csv names it" in complaint("spgispeech", root, tmp_path)
    (root / "val.csv").write_text("wav_filename,transcript\nab12/1.wav,words\n")
    assert "val.csv: lacks the column wav_filename" in complaint("spgispeech", root, tmp_path)


def test_slurp(prepare, tmp_path):
    rows = {
        "devel": ["audio-1.flac"],
        "test": ["audio-2.flac", "audio-2-headset.flac"],
        "train": ["audio-9.flac"],
    }
    for part, files in rows.items():
        path = tmp_path / f"dataset/slurp/{part}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        recordings = [{"file": file, "wer": 0, "ent_wer": 0, "status": "correct"} for file in files]
        path.write_text(
            json.dumps({"slurp_id": 1, "sentence": f"wake me {part}", "recordings": recordings}) + "\n"
        )
        for file in files if part != "train" else []:
            tone(tmp_path / "audio/slurp_real" / file, 1)
    found = prepare("slurp", tmp_path)
    assert {part: texts(lines) for part, lines in found.items()} == {
        "dev": ["wake me devel"],
        "test": ["wake me test"] * 2,
    }
    assert "audio-9.flac: no such file" in complaint("slurp", tmp_path, tmp_path, "--part", "train")


NLP = """token|speaker|ts|endTs|punctuation|prepunctuation|case|tags|oldTs|oldEndTs|ali_comment
Good|0|0.50|1.00|||UC|[]|||
morning|0|1.10|1.60|.||LC|[]|||
We|0|2.00|5.00|||UC|[]|||
begin|0|5.10|6.00|.||LC|[]|||
<crosstalk>|0|6.00|6.10|||LC|[]|||
Thanks|1|6.50|7.00|,||UC|[]|||
all|2|7.00|8.00|||LC|[]|||
lost|2|||||LC|[]|||
later|2|11.00|11.25|||LC|[]|||
and|2|||||LC|[]|||
louder|2|11.30|11.50|.||LC|[]|||
"""


def test_earnings22(prepare, tmp_path):
    root = tmp_path / "speech-datasets/earnings22"
    table = root / "transcripts/force_aligned_nlp_references/44.aligned.nlp"
    table.parent.mkdir(parents=True)
    table.write_text(NLP)
    tone(root / "media/44.mp3", 12, format="MP3")
    found = prepare("earnings22", root)["test"]
    # A word without times is missing from the audio before a pause, too.
    assert texts(found) == ["Good morning. We begin.", "Thanks,", "all", "later and louder."]
    assert [line["duration"] for line in found] == pytest.approx([5.5, 0.5, 1, 0.5])
    ends = ["00000500-00006000", "00006500-00007000", "00007000-00008000", "00011000-00011500"]
    assert [line["audio_filepath"] for line in found] == [f"audio/44-{times}.flac" for times in ends]
    samples = soundfile.read(tmp_path / "prepared" / found[3]["audio_filepath"])[0]
    assert np.sqrt(2 * np.mean(samples**2)) == pytest.approx(11.25 / 12, abs=0.01)  # the loudness shows its place
    tone(root / "media/44.mp3", 11.2, format="MP3")
    assert "before 44-00011000-00011500 ends at 11.50 s; download it again" in complaint("earnings22", root, tmp_path)
    (root / "media/44.mp3").write_bytes(bytes(range(7, 256)) * 20)
    assert "44.mp3: " in complaint("earnings22", root, tmp_path)
    (root / "media/44.mp3").write_text("version https://git-lfs.github.com/spec/v1\n")
    assert "git lfs pull" in complaint("earnings22", root, tmp_path)


def nite(tag, name, attributes="", content=""):
    return f'<{tag} nite:id="{name}" {attributes}>{content}</{tag}>'


def write_xml(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'<nite:root xmlns:nite="http://nite.sourceforge.net/">{content}</nite:root>')


def make_ami(folder, annotations):
    speaker = nite("speaker", "s", 'nxt_agent="B" channel="1" global_name="MEE1"')
    words = nite("w", "EN2002a.B.words0", "", "Okay") + nite("w", "EN2002a.B.words1", 'punc="true"', ".")
    words += nite("vocalsound", "EN2002a.B.words2", 'type="laugh"') + nite("w", "EN2002a.B.words3", "", "go")
    href = "EN2002a.B.words.xml#id(EN2002a.B.words{})"
    child = '<nite:child href="{}"/>'
    segments = [
        (1.0, 2.5, child.format(href.format(0) + "..id(EN2002a.B.words3)")),
        (3.0, 3.5, child.format(href.format(3))),
        (4.0, 4.5, child.format(href.format(2))),  # this line is laughter alone
    ]
    times = 'transcriber_start="{}" transcriber_end="{}"'
    write_xml(
        annotations,
        {
            "corpusResources/meetings.xml": nite("meeting", "m", 'observation="EN2002a"', speaker),
            "words/EN2002a.B.words.xml": words,
            "segments/EN2002a.B.segments.xml": "".join(
                nite("segment", f"g{i}", times.format(begin, end), content)
                for i, (begin, end, content) in enumerate(segments)
            ),
        },
    )
    tone(folder / "amicorpus/EN2002a/audio/EN2002a.Headset-1.wav", 5)


@pytest.mark.parametrize("zipped", [False, True])
def test_ami(prepare, tmp_path, zipped):
    annotations = tmp_path / ("made" if zipped else "ami_public_manual_1.6.2")
    make_ami(tmp_path, annotations)
    if zipped:
        with zipfile.ZipFile(tmp_path / "ami_public_manual_1.6.2.zip", "w") as archive:
            for path in annotations.rglob("*.xml"):
                archive.write(path, path.relative_to(annotations))
    found = prepare("ami", tmp_path)
    assert list(found) == ["test"] and texts(found["test"]) == ["Okay go", "go"]
    assert [line["duration"] for line in found["test"]] == [1.5, 0.5]
    (tmp_path / "amicorpus/EN2002a/audio/EN2002a.Headset-1.wav").unlink()
    assert "download the individual headsets" in complaint("ami", tmp_path, tmp_path)


def test_audio_that_flac_cannot_hold_is_named_and_leaves_no_part(tmp_path):
    make_ami(tmp_path, tmp_path / "ami_public_manual_1.6.2")
    recording = tmp_path / "amicorpus/EN2002a/audio/EN2002a.Headset-1.wav"
    soundfile.write(recording, np.zeros((5 * RATE, 9)), RATE)  # FLAC has at most eight channels
    text = complaint("ami", tmp_path, tmp_path)
    assert "EN2002a-B-0000100-0000250.flac: " in text and f"check {recording} and the room on the disk" in text
    assert not list((tmp_path / "out/audio").iterdir())


def test_europarl(prepare, tmp_path):
    """Europarl is prepared from .m4a files. Here they are WAV, and a stand-in for ffmpeg copies them."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ffmpeg").write_text(
        f"#!{sys.executable}\nimport sys, soundfile\n"
        "source = sys.argv[sys.argv.index('-i') + 1]\n"
        "soundfile.write(sys.argv[-1], *soundfile.read(source))\n"
    )
    (tools / "ffmpeg").chmod(0o755)
    for part, task in (("test", "spk-dep"), ("dev", "spk-indep")):
        stem = f"en/{part}/original_audio/{task}/speeches/8/2015-01-12/7/ep-asr.en.orig.8.2015-01-12.7"
        tone(tmp_path / f"Europarl-ASR/{stem}.m4a", 2, format="WAV")
        (tmp_path / f"Europarl-ASR/{stem}.tr.rev.txt").write_text("Mr President,\nthank you.\n")
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    found = prepare("europarl", tmp_path / "Europarl-ASR", PATH=path)
    assert list(found) == ["dev-spk-indep", "test-spk-dep"]
    assert texts(found["test-spk-dep"]) == ["Mr President, thank you."]


def test_a_split_shares_neither_readers_nor_texts(tmp_path):
    lines = [
        {
            "audio_filepath": f"audio/{reader}-1-000{i}.flac",
            "duration": 1.0,
            "text": f"text {reader * i % 40}",
        }
        for reader in range(101, 113)
        for i in range(5)
    ]
    manifest = tmp_path / "manifest.jsonl"
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = script("split_manifest.py", manifest)
    assert result.stdout.split() == [str(tmp_path / "dev.jsonl"), str(tmp_path / "test.jsonl")]
    dev, test = (
        [json.loads(x) for x in (tmp_path / f"{part}.jsonl").read_text().splitlines()]
        for part in ("dev", "test")
    )
    readers = [{line["audio_filepath"][6:9] for line in part} for part in (dev, test)]
    assert readers[0] == {"104", "108", "112"} and len(readers[1]) == 9
    assert dev and not set(texts(dev)) & set(texts(test))
    manifest.write_text(json.dumps(lines[0]) + "\n")
    assert "fewer than four readers" in script("split_manifest.py", manifest).stderr


def test_lines_without_text_stay_in_a_split(tmp_path):
    """No text is no text that both parts say. U+2028 in a text does not end a line."""
    lines = [
        {"audio_filepath": f"audio/{reader}-1-{i}.flac", "text": "" if i == 0 else f"text\u2028{reader} {i}"}
        for reader in range(101, 109)
        for i in range(3)
    ]
    manifest = tmp_path / "manifest.jsonl"
    manifest.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    result = script("split_manifest.py", manifest)
    assert result.returncode == 0, result.stderr
    parts = {part: (tmp_path / f"{part}.jsonl").read_text(encoding="utf-8").split("\n")[:-1] for part in ("dev", "test")}
    assert {part: len(of) for part, of in parts.items()} == {"dev": 6, "test": 18}


@pytest.fixture
def datasets(monkeypatch):
    """datasets("split_manifest") imports a script of the folder datasets."""
    monkeypatch.syspath_prepend(str(ROOT / "datasets"))
    return importlib.import_module


@pytest.mark.parametrize("name", ["dev.jsonl", "test.jsonl"])
def test_a_split_does_not_overwrite_its_manifest(datasets, tmp_path, name):
    manifest = tmp_path / name
    text = "".join(json.dumps({"audio_filepath": f"{reader}-1-0.flac"}) + "\n" for reader in range(101, 105))
    manifest.write_text(text)
    (tmp_path / "link.jsonl").symlink_to(name)
    error = datasets("user_errors").UserError
    for path in (manifest, tmp_path / "link.jsonl"):
        with pytest.raises(error, match=f"{path}: would be overwritten; rename it first"):
            datasets("split_manifest").write_split(path)
    assert manifest.read_text() == text


@pytest.mark.parametrize(
    "line, problem",
    [("[1]", "is no JSON object"), ("{", "Expecting property name"), ('{"text": "a"}', "has no audio_filepath"),
     ('{"audio_filepath": 5}', "audio_filepath is no text")],
)  # fmt: skip
def test_a_bad_line_of_a_manifest_is_named(datasets, tmp_path, line, problem):
    manifest = tmp_path / "manifest.jsonl"
    manifest.write_text(json.dumps({"audio_filepath": "101-1-0.flac"}) + f"\n\n{line}\n")
    with pytest.raises(datasets("user_errors").UserError, match=f"{manifest}:3: {problem}"):
        datasets("split_manifest").write_split(manifest)


def test_an_error_takes_one_line(tmp_path):
    (tmp_path / "manifest.jsonl").write_bytes(b"\xff\n")
    result = script("split_manifest.py", tmp_path / "manifest.jsonl")
    assert result.returncode == 1
    assert result.stderr == f"split_manifest: error: {tmp_path}/manifest.jsonl:1: is not in UTF-8; convert the file\n"


@pytest.fixture
def cut_test_other(datasets, tmp_path, monkeypatch):
    """cut_test_other() makes two pieces of a tone."""
    module = datasets("cut_test_other")
    monkeypatch.setattr(module, "read_transcripts", lambda: [("101-1-0", 16000, "one"), ("101-1-1", 8000, "two")])
    tone(tmp_path / "tone.wav", 1.2)
    (tmp_path / "tones.jsonl").write_text('{"audio_filepath": "tone.wav"}\n\n')
    monkeypatch.setattr(sys, "argv", ["cut_test_other.py", str(tmp_path / "pieces"), str(tmp_path / "tones.jsonl")])
    return module.main


def test_cut_audio_is_marked_and_has_no_texts(cut_test_other, tmp_path):
    """An empty text would be an empty reference, and every word of a result an insertion."""
    for _ in range(2):
        cut_test_other()
        lines = [json.loads(line) for line in (tmp_path / "pieces/manifest.jsonl").read_text().splitlines()]
        assert lines == [
            {"audio_filepath": "audio/101-1-0.wav", "duration": 1.0},
            {"audio_filepath": "audio/101-1-1.wav", "duration": 0.5},
        ]
        said = (tmp_path / "pieces/stand_in.txt").read_text()
        assert said == "other recordings cut to the lengths of LibriSpeech test-other\n"


def test_cut_audio_does_not_replace_other_stand_ins(cut_test_other, datasets, tmp_path):
    (tmp_path / "pieces").mkdir()
    (tmp_path / "pieces/stand_in.txt").write_text("espeak-ng speech\n")
    with pytest.raises(datasets("user_errors").UserError, match="pieces: holds espeak-ng speech; give another folder"):
        cut_test_other()
    assert [path.name for path in (tmp_path / "pieces").iterdir()] == ["stand_in.txt"]


def test_cut_audio_does_not_replace_its_own_recordings(cut_test_other, datasets, tmp_path, monkeypatch):
    (tmp_path / "tones.jsonl").rename(manifest := tmp_path / "manifest.jsonl")
    monkeypatch.setattr(sys, "argv", ["cut_test_other.py", str(tmp_path), str(manifest)])
    with pytest.raises(datasets("user_errors").UserError, match="manifest.jsonl: would be overwritten"):
        cut_test_other()
    assert not (tmp_path / "stand_in.txt").exists()


def test_recordings_that_cannot_be_cut_are_named(cut_test_other, datasets, tmp_path):
    (tmp_path / "tone.wav").write_bytes(b"no audio")
    with pytest.raises(datasets("user_errors").UserError, match=r"tone.wav: .*; .*tones.jsonl:1 names it"):
        cut_test_other()


def test_the_split_of_test_other(monkeypatch):
    """The split of the spoken test-other gives a quarter to dev, and the two parts share no reader and no text."""
    monkeypatch.syspath_prepend(str(ROOT / "datasets"))
    from speak_librispeech import RATE as HZ
    from speak_librispeech import read_transcripts
    from split_manifest import reader_of, split

    rows = read_transcripts()
    lines = [
        {"audio_filepath": f"audio/{name}.flac", "duration": n / HZ, "text": text} for name, n, text in rows
    ]
    dev, test = split(lines)
    assert len(dev) + len(test) >= len(lines) - 5  # the missing lines have texts that readers of both parts say
    for of in (reader_of, lambda line: line["text"]):
        assert not set(map(of, dev)) & set(map(of, test))
    seconds = [sum(line["duration"] for line in part) for part in (dev, test)]
    assert 0.2 < seconds[0] / sum(seconds) < 0.3
