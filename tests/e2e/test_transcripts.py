"""Tests `rtfx transcribe --format`: each format by an independent reader, files and inputs of every kind, and
errors."""

import json
import os
import re
import resource
import shutil
import subprocess
from statistics import fmean

import pytest
from conftest import AUDIO, MODELS, ROOT

CLIPS = [AUDIO / f"{name}.flac" for name in ("qs06", "qs10", "1737-146161-0007")]
DECODERS = [("quickstart-rnnt", "label_looping"), ("quickstart-tdt", "label_looping"),
            ("quickstart-tdt", "ctc_greedy"), ("quickstart-rnnt", "alsd_pp")]  # fmt: skip


def lines_of(result):
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("model, decoder", DECODERS)
def test_words_are_the_text_and_follow_each_other(transcribe, model, decoder):
    files = sorted(AUDIO.glob("*.flac"))
    lines = lines_of(transcribe("--format", "json", "--confidence", "--batch-size", 4, "--decoder", decoder,
                                *files, model=model))  # fmt: skip
    assert [line["file"] for line in lines] == [str(file) for file in files]
    for line in lines:
        assert line["schema"] == "rtfx.transcript/1" and "tokens" not in line
        assert [word["text"] for word in line["words"]] == line["text"].split()
        end = 0
        for word in line["words"]:
            assert end <= word["start"] < word["end"] <= line["seconds"]
            assert -1e-6 <= word["confidence"] <= 1
            end = word["end"]
        assert line["confidence"] == pytest.approx(fmean(word["confidence"] for word in line["words"]), abs=1e-5)
        assert " ".join(s["text"] for s in line["segments"]) == line["text"]


def test_times_do_not_depend_on_confidence(transcribe):
    arguments = ("--format", "tsv", "--decoder", "ctc_greedy", CLIPS[0])
    plain, sure = transcribe(*arguments).stdout, transcribe(*arguments, "--confidence").stdout
    assert [line.split("\t")[:4] for line in plain.splitlines()] == [line.split("\t")[:4] for line in sure.splitlines()]
    assert plain != sure


def test_confidence_costs_a_time_of_its_own(transcribe):
    assert re.search(r"RTFx [\d.]+; [\d.]+ s of it for confidence$", transcribe("--confidence", CLIPS[0]).stderr.strip())


def seconds(clock):
    hours, minutes, rest = clock.replace(",", ".").split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


@pytest.fixture(scope="module")
def written(transcribe, tmp_path_factory):
    """Writes two clips in each format, and returns {format: {name: text}}."""
    folder = tmp_path_factory.mktemp("written")
    found = {}
    for name in ("txt", "json", "srt", "vtt", "ctm", "stm", "tsv"):
        result = transcribe("--format", name, "--confidence", "--output", folder / name, *CLIPS[:2])
        assert result.returncode == 0, result.stderr
        assert result.stdout.split() == [str(folder / name / f"{clip.stem}.{name}") for clip in CLIPS[:2]]
        found[name] = {clip.stem: (folder / name / f"{clip.stem}.{name}").read_text() for clip in CLIPS[:2]}
    return found


def test_channels_that_cancel_are_told_and_can_be_chosen(transcribe, tmp_path):
    import numpy as np
    import soundfile

    clip, _ = soundfile.read(CLIPS[2], dtype="int16")
    soundfile.write(tmp_path / "anti.wav", np.stack([clip, -clip], axis=1), 16000, subtype="PCM_16")
    said = transcribe(CLIPS[2]).stdout.strip()
    mixed = transcribe("anti.wav", cwd=tmp_path)
    assert mixed.returncode == 0 and mixed.stdout.strip() != said
    assert "rtfx: notice: anti.wav: its channels cancel each other" in mixed.stderr
    chosen = transcribe("--channel", 1, "anti.wav", cwd=tmp_path)
    assert chosen.stdout.strip() == said and "notice" not in chosen.stderr
    both = transcribe("--channel", "separate", "--output", "texts", "anti.wav", cwd=tmp_path)
    assert both.returncode == 0 and "2 of 2 files" in both.stderr
    assert (tmp_path / "texts/anti.channel1.txt").read_text().strip() == said
    assert len((tmp_path / "texts/anti.channel2.txt").read_text().split()) > 2
    ctm = transcribe("--channel", "separate", "--format", "ctm", "anti.wav", cwd=tmp_path).stdout
    assert {tuple(line.split()[:2]) for line in ctm.splitlines()} == {("anti", "1"), ("anti", "2")}
    _, *rows = transcribe("--channel", "separate", "--format", "tsv", "anti.wav", cwd=tmp_path).stdout.splitlines()
    assert {row.split("\t")[0] for row in rows} == {"anti.wav (channel 1)", "anti.wav (channel 2)"}
    lines = lines_of(transcribe("--channel", "separate", "--format", "json", "anti.wav", cwd=tmp_path))
    assert [(line["file"], line["channel"]) for line in lines] == [("anti.wav", 1), ("anti.wav", 2)]
    assert "has 2 channels, and not channel 3" in transcribe("--channel", 3, "anti.wav", cwd=tmp_path).stderr
    for wrong in ("0", "left", "1.5"):
        assert "give mix, separate, or a number" in transcribe("--channel", wrong, "anti.wav", cwd=tmp_path).stderr


def test_what_a_folder_cannot_give_is_named_and_costs_no_other(transcribe, tmp_path):
    (tmp_path / "f").mkdir()
    shutil.copy(CLIPS[2], tmp_path / "f/a.flac")
    (tmp_path / "f/b.wav").symlink_to("gone")
    os.mkfifo(tmp_path / "f/c.wav")
    result = transcribe("f", cwd=tmp_path)
    assert result.returncode == 1 and len(result.stdout.splitlines()) == 1
    assert "error: f/b.wav: is a link to nothing" in result.stderr
    assert "error: f/c.wav: is a pipe or device, not a file" in result.stderr
    assert "1 of 1 files" in result.stderr


def test_each_match_of_a_pattern_is_read_as_if_it_were_named(transcribe, tmp_path):
    """A folder without sound costs no other match, and a manifest is no audio. Track 0 is the first one."""
    (tmp_path / "p/empty").mkdir(parents=True)
    shutil.copy(CLIPS[2], tmp_path / "p/a.flac")
    (tmp_path / "p/one.jsonl").write_text(json.dumps({"audio_filepath": "a.flac"}) + "\n")
    all_of_them = transcribe("p/*", cwd=tmp_path)
    assert all_of_them.returncode == 1 and "2 of 2 files" in all_of_them.stderr
    assert [line for line in all_of_them.stderr.splitlines() if "error" in line][0].startswith("rtfx: error: p/empty: holds no")
    manifests = transcribe("--track", 0, "p/*.jsonl", cwd=tmp_path)
    assert manifests.returncode == 0 and len(manifests.stdout.splitlines()) == 1, manifests.stderr


def test_standard_input_is_read_once(program):
    command = [program, "transcribe", "--model", MODELS / "quickstart-rnnt.nemo", "--threads", "1", "-", "-"]
    result = subprocess.run(command, input=CLIPS[2].read_bytes(), capture_output=True, timeout=120)
    assert result.returncode == 1 and len(result.stdout.splitlines()) == 1
    assert b"standard input is named twice" in result.stderr


def test_a_limit_of_file_sizes_leaves_nothing_behind(program, tmp_path):
    command = [program, "transcribe", "--model", MODELS / "quickstart-rnnt.nemo", "--threads", "1", "--format", "json",
               "--tokens", "--output", tmp_path / "out", CLIPS[0]]  # fmt: skip
    limit = (resource.RLIMIT_FSIZE, (500, resource.RLIM_INFINITY))
    result = subprocess.run(command, capture_output=True, timeout=120, preexec_fn=lambda: resource.setrlimit(*limit))
    assert result.returncode == 1 and b"cannot be written: File too large" in result.stderr
    assert not any((tmp_path / "out").iterdir())


def test_every_recording_has_a_name_of_its_own(transcribe, tmp_path):
    """Recordings get different names if they differ in folder, ending, or by a blank and an underscore, or begin a
    comment."""
    names = ["x/a.flac", "y/a.flac", "y/a.FLAC", "y/b c.flac", "y/b_c.flac", ";;d.flac", "e.flac"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(CLIPS[2], tmp_path / name)
    expected = ["x/a", None, None, None, None, "__d", "e.flac"]
    found = {}
    for form in ("ctm", "stm"):
        result = transcribe("--format", form, *names, "e.flac", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        found[form] = [*dict.fromkeys(line.split(" ")[0] for line in result.stdout.splitlines())]
        assert not any(line.startswith(";;") for line in result.stdout.splitlines())
    assert found["ctm"] == found["stm"] and len(found["ctm"]) == len(names) + 1
    assert [name for name, wanted in zip(found["ctm"], expected) if wanted] == [n for n in expected if n]
    assert found["ctm"][1:3] == ["y/a.flac", "y/a.FLAC"]


@pytest.mark.parametrize("clip", [clip.stem for clip in CLIPS[:2]])
def test_formats_say_the_same(written, clip):
    text = written["txt"][clip].strip()
    document = json.loads(written["json"][clip])
    assert document["text"] == text
    words = document["words"]
    ctm = [line.split(" ") for line in written["ctm"][clip].splitlines()]
    assert [(row[0], row[1]) for row in ctm] == [(clip, "1")] * len(words)
    assert [row[4] for row in ctm] == [word["text"] for word in words]
    for row, word in zip(ctm, words, strict=True):
        assert float(row[2]) == pytest.approx(word["start"]) and float(row[5]) == pytest.approx(word["confidence"])
        assert float(row[2]) + float(row[3]) == pytest.approx(word["end"])
    head, *rows = [line.split("\t") for line in written["tsv"][clip].splitlines()]
    assert head == ["file", "start", "end", "word", "confidence"]
    assert [row[3] for row in rows] == [word["text"] for word in words]
    stm = [line.split(" ", 6) for line in written["stm"][clip].splitlines()]
    assert " ".join(row[6] for row in stm) == text
    assert all(row[5] == "<NA>" and float(row[3]) < float(row[4]) for row in stm)
    for name, mark in (("srt", ","), ("vtt", ".")):
        blocks = written[name][clip].strip().split("\n\n")
        blocks = blocks[1:] if name == "vtt" else [block.split("\n", 1)[1] for block in blocks]
        spoken = [block.split("\n")[1:] for block in blocks]
        assert " ".join(" ".join(lines) for lines in spoken) == text
        assert all(len(line) <= 42 for lines in spoken for line in lines)
        times = [block.split("\n")[0] for block in blocks]
        assert all(re.fullmatch(rf"\d\d:\d\d:\d\d\{mark}\d\d\d --> \d\d:\d\d:\d\d\{mark}\d\d\d", t) for t in times)
        assert seconds(times[0].split(" --> ")[0]) == pytest.approx(words[0]["start"], abs=1e-3)


def test_other_people_s_readers_take_them(written):
    """The installed readers among srt, webvtt-py and pysubs2 read our subtitles."""
    text = written["txt"]["qs10"].strip()
    for name, spoken in (
        ("srt", lambda m: [c.content for c in m.parse(written["srt"]["qs10"])]),
        ("webvtt", lambda m: [c.text for c in m.from_string(written["vtt"]["qs10"])]),
        ("pysubs2", lambda m: [c.plaintext for c in m.SSAFile.from_string(written["srt"]["qs10"])]),
    ):
        try:
            module = __import__(name)
        except ImportError:
            continue
        assert " ".join(" ".join(spoken(module)).split()) == text, name


def test_earlier_results_are_kept(transcribe, tmp_path):
    target = tmp_path / "out/qs06.txt"
    for _ in range(2):
        assert transcribe("--output", tmp_path / "out", CLIPS[0]).returncode == 0
    target.write_text("mine")
    result = transcribe("--output", tmp_path / "out", CLIPS[0])
    assert f"{target}: the earlier one is kept as qs06.txt.2" in result.stderr
    assert (tmp_path / "out/qs06.txt.2").read_text() == "mine"
    assert (tmp_path / "out/qs06.txt.1").read_text() == target.read_text()
    assert sorted(os.listdir(tmp_path / "out")) == ["qs06.txt", "qs06.txt.1", "qs06.txt.2"]


def test_long_names_of_files(transcribe, tmp_path):
    """A file whose name is too long fails alone, and one of the greatest possible length gets its transcript."""
    names = ["x" * 254, "x" * 250, "short"]  # without the ending .txt
    for name in names:
        (tmp_path / name).symlink_to(CLIPS[0])
    result = transcribe("--output", tmp_path / "out", *(tmp_path / name for name in names))
    assert result.returncode == 1, result.stderr
    assert sorted(os.listdir(tmp_path / "out")) == ["short.txt", "x" * 250 + ".txt"]
    assert result.stderr.count("cannot be written: File name too long") == 1


def test_inputs_of_every_kind(rtfx, program, tmp_path):
    """Folders keep their subfolders, files of one name get different outputs, and patterns and manifests are read."""
    for name in ("talks/one/a.flac", "talks/two/a.flac", "b.flac"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CLIPS[2], tmp_path / name)
    shutil.copy(CLIPS[2], tmp_path / "talks/two/a.ogg")  # it holds FLAC, and libsndfile looks at the bytes
    manifest = tmp_path / "set.jsonl"
    manifest.write_text(json.dumps({"audio_filepath": "b.flac", "duration": 2.03, "text": "knit two"}) + "\n")
    command = ["transcribe", "--model", MODELS / "quickstart-rnnt.nemo", "--threads", "1", "--format", "json"]
    result = rtfx(*command, "--output", "out", "talks", "talks/t*/a.flac", manifest, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["out/one/a.json", "out/two/a.json", "out/two/a.ogg.json", "out/a.json",
                                     "out/b.json"]  # fmt: skip
    documents = [json.loads((tmp_path / name).read_text()) for name in result.stdout.split()]
    assert len({document["text"] for document in documents}) == 1
    assert [document.get("reference") for document in documents] == [None] * 4 + ["knit two"]
    with (tmp_path / "b.flac").open("rb") as file:
        piped = subprocess.run([program, *command, "-"], stdin=file, capture_output=True, text=True, cwd=tmp_path)
    (line,) = piped.stdout.splitlines()
    assert json.loads(line)["file"] == "-" and json.loads(line)["text"] == documents[0]["text"]


def test_utterances_of_a_manifest_are_told_apart(transcribe, tmp_path):
    """Several lines of a manifest may name one segment if they have ids."""
    manifest = tmp_path / "set.jsonl"
    rows = [{"id": "a"}, {"utterance_id": "b"}, {"id": 3}, {"offset": 0.5}]
    manifest.write_text("".join(json.dumps({"audio_filepath": str(CLIPS[2])} | row) + "\n" for row in rows))
    for arguments in ("--format", "json"), ("--json",):
        lines = lines_of(transcribe(*arguments, manifest))
        assert [line["id"] for line in lines] == ["a", "b", "3", f"{CLIPS[2].with_suffix('')}@0.5"]
        names = [line["file"] for line in lines]
        assert names == [str(CLIPS[2]), f"{CLIPS[2]} (b)", f"{CLIPS[2]} (3)", f"{CLIPS[2]}@0.5"]
    (line,) = lines_of(transcribe("--format", "json", CLIPS[2]))
    assert "id" not in line


def test_bad_inputs_cost_a_line_each(transcribe, tmp_path):
    (tmp_path / "empty.wav").touch()
    (tmp_path / "list.jsonl").write_text("{")
    (tmp_path / "no folder").mkdir()
    bad = ["empty.wav", "list.jsonl", "no folder", "gone.wav", "*.mp3"]
    result = transcribe("--format", "ctm", *(tmp_path / name for name in bad), CLIPS[2])
    assert result.returncode == 1
    assert {line.split(" ")[0] for line in result.stdout.splitlines()} == {CLIPS[2].stem}
    errors = [line for line in result.stderr.splitlines() if line.startswith("rtfx: error: ")]
    assert len(errors) == len(bad)
    for name in bad:
        assert sum(str(tmp_path / name) in line for line in errors) == 1, result.stderr


@pytest.mark.parametrize("arguments, notice", [
    (("--confidence",), "--confidence: the format txt does not show it; these do: json, ctm, tsv"),
    (("--format", "ctm", "--tokens"), "--tokens: the format ctm does not show it; these do: json, textgrid"),
    (("--nbest", 2), "--nbest: the format txt does not show it; these do: json"),
    (("--nbest", 2, "--mbr"), None),
    (("--nbest", 2, "--json"), None),
    (("--format", "json", "--nbest", 2, "--tokens", "--confidence"), None),
])  # fmt: skip
def test_what_a_format_cannot_show_is_told(transcribe, arguments, notice):
    result = transcribe(*arguments, CLIPS[0])
    told = [line for line in result.stderr.splitlines() if "does not show it" in line]
    assert result.returncode == 0 and told == ([f"rtfx: notice: {notice}"] if notice else [])


def test_bad_bytes_on_standard_input(program):
    command = [program, "transcribe", "--model", MODELS / "quickstart-rnnt.nemo", "-"]
    result = subprocess.run(command, input=b"no sound", capture_output=True)
    assert result.returncode == 1 and b"rtfx: error: -: not readable as audio" in result.stderr


@pytest.mark.parametrize("arguments, message", [
    (("--format", "srt", *CLIPS[:2]), "--format: a file of srt holds one recording, here are several"),
    (("--format", "sub", CLIPS[0]), "--format"),
    (("--format", "json", "--json", CLIPS[0]), "--json"),
    (("--json", "--output", "texts", CLIPS[0]), "--output"),
    (("--options", '{"boost": "x"}', "--boost-phrase", "y", CLIPS[0]), "--options: boost is no JSON object"),
    (("--nbest", 3, "--decoder", "label_looping", CLIPS[0]), "label_looping has no list of alternatives"),
    (("--options", '{"nbest": 3}', CLIPS[0]), "--options/nbest: unknown option 'nbest'"),
    (("--nbest", 0, CLIPS[0]), "--nbest"),
    (("--nbest", 2, "--options", '{"nbest": 4}', CLIPS[0]), "--nbest: is 2, and nbest of --options is 4; give one of them"),
    (("--boost", "b.txt", "--options", '{"boost": {"path": "a.txt"}}', CLIPS[0]),
     '--boost: is b.txt, and boost/path of --options is "a.txt"; give one of them'),
    (("--mbr", CLIPS[0]), "--mbr: compares the texts of a list, and --nbest is 1; give --nbest too"),
    (("--mbr", "--nbest", 3, "--decoder", "label_looping", CLIPS[0]), "label_looping has no list of alternatives"),
    (("--mbr", "--nbest", 3, "--decoder", "alsd_pp", "--options", '{"mbr": {"scale": -1}}', CLIPS[0]), "mbr/scale"),
    (("--confidence-options", '{"method": "prob"}', CLIPS[0]), "--confidence-options/method: unknown value 'prob'"),
    (("--confidence-options", '{"alpha": 0}', CLIPS[0]), "--confidence-options/alpha"),
    (("--confidence-options", "mean", CLIPS[0]), "--confidence-options"),
    (("--output", CLIPS[0], CLIPS[1]), "is not a folder"),
])  # fmt: skip
def test_bad_options(transcribe, arguments, message):
    result = transcribe(*arguments)
    assert result.returncode == 2 and result.stdout == ""
    assert message in result.stderr


@pytest.mark.parametrize("options", [(), ("--decoder", "ctc_beam"), ("--decoder", "aes_pp")])
def test_alternatives(transcribe, options):
    (line,) = lines_of(transcribe("--format", "json", "--nbest", 5, "--confidence", *options, CLIPS[1]))
    entries = line["alternatives"]
    assert 1 < len(entries) <= 5 and len({entry["text"] for entry in entries}) == len(entries)
    best = {key: line[key] for key in ("text", "score", "confidence", "words")}
    assert entries[0] == best
    for entry in entries:
        assert [word["text"] for word in entry["words"]] == entry["text"].split()
        assert entry["confidence"] == pytest.approx(fmean(word["confidence"] for word in entry["words"]), abs=1e-5)


def test_an_empty_result_has_a_file_of_its_format(transcribe, tmp_path):
    import soundfile

    soundfile.write(tmp_path / "quiet.wav", [0.0] * 8000, 16000)
    for name, text in (("srt", ""), ("vtt", "WEBVTT\n"), ("ctm", ""), ("txt", "\n")):
        result = transcribe("--format", name, "--confidence", tmp_path / "quiet.wav", model="quickstart-tdt")
        assert result.returncode == 0 and result.stdout == text


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed: apt install ffmpeg")
@pytest.mark.parametrize("ending", ["m4a", "mp4", "mkv"])
def test_what_ffmpeg_reads(transcribe, tmp_path, ending):
    file = tmp_path / f"talk.{ending}"
    subprocess.run(["ffmpeg", "-loglevel", "error", "-i", CLIPS[1], file], check=True)
    (line,) = lines_of(transcribe("--format", "json", file))
    assert abs(line["seconds"] - 5.065) < 0.1 and len(line["words"]) > 10


def test_a_video_in_bench_and_on_standard_input(program, transcribe, tmp_path):
    """A stand-in for ffmpeg writes the sound of a film, so that every machine can test videos."""
    import soundfile

    samples, rate = soundfile.read(CLIPS[2], dtype="float32")
    (tmp_path / "sound").write_bytes(samples.tobytes())
    (tmp_path / "ffmpeg").write_text(f"#!/bin/sh\nexec /bin/cat '{tmp_path}/sound'\n")
    (tmp_path / "ffmpeg").chmod(0o755)
    film = tmp_path / "film.mp4"
    film.write_bytes(b"\0\0\0\x18ftypmp42 a film")
    settings = {"capture_output": True, "env": os.environ | {"PATH": str(tmp_path)}}
    model = ["--model", MODELS / "quickstart-rnnt.nemo", "--threads", "1"]
    said = subprocess.run([program, "transcribe", *model, "-"], input=film.read_bytes(), **settings)
    assert said.returncode == 0 and said.stdout.decode() == transcribe(CLIPS[2]).stdout
    bench = ["bench", *model, "--data", film, "--decoder", "frame_looping", "--rounds", "1", "--warmup", "0"]
    result = subprocess.run([program, *bench, "--output", tmp_path / "run"], **settings)
    assert result.returncode == 0, result.stderr
    (run,) = [r for r in map(json.loads, (tmp_path / "run/journal.jsonl").read_text().splitlines()) if r["kind"] == "run"]
    assert run["dataset"]["utterances"] == 1
    assert run["dataset"]["audio_seconds"] == pytest.approx(len(samples) / rate, abs=1e-3)


def test_a_track_of_a_video_is_chosen(transcribe, tmp_path):
    """Tracks count from 1 for users and from 0 for ffmpeg. This stand-in for it has sound in the second track alone."""
    import soundfile

    samples, _ = soundfile.read(CLIPS[2], dtype="float32")
    (tmp_path / "sound").write_bytes(samples.tobytes())
    (tmp_path / "ffmpeg").write_text(
        f"#!/bin/sh\ncase \"$*\" in *'-map 0:a:1 '*) exec /bin/cat '{tmp_path}/sound';; esac\n"
        "echo 'Stream map matches no streams.' >&2\nexit 1\n"
    )
    (tmp_path / "ffmpeg").chmod(0o755)
    film = tmp_path / "film.mp4"
    film.write_bytes(b"\0\0\0\x18ftypmp42 a film")
    env = os.environ | {"PATH": str(tmp_path)}
    chosen = transcribe("--track", 2, film, env=env)
    assert chosen.returncode == 0 and chosen.stdout == transcribe(CLIPS[2]).stdout, chosen.stderr
    first = transcribe("--track", 1, film, env=env)
    assert first.returncode == 1 and "film.mp4: has no such audio track" in first.stderr, first.stderr


def test_without_ffmpeg_a_video_is_a_line(program, tmp_path):
    (tmp_path / "film.mp4").write_bytes(b"a film")
    command = [program, "transcribe", "--model", MODELS / "quickstart-rnnt.nemo", tmp_path / "film.mp4", CLIPS[2]]
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PATH": str(tmp_path)})
    assert result.returncode == 1 and len(result.stdout.splitlines()) == 1
    assert "film.mp4: needs ffmpeg, which is not installed; install it" in result.stderr


def test_docs_name_every_key(transcribe):
    text = (ROOT / "docs/reference/transcripts.md").read_text(encoding="utf-8")
    result = transcribe("--format", "json", "--tokens", "--confidence", "--nbest", 2, CLIPS[0])

    def keys(value):
        if isinstance(value, dict):
            return set(value) | set().union(*map(keys, value.values()))
        return set().union(*map(keys, value)) if isinstance(value, list) else set()

    (line,) = lines_of(result)
    assert not [key for key in keys(line) if f"`{key}`" not in text]
