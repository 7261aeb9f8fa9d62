"""`rtfx align`: times of given texts in every format, both heads, long files, and bad input."""

import functools
import json
import re
import struct
import subprocess
import wave

import pytest
from conftest import AUDIO, MODELS, ROOT, unpack_checkpoint

TEXTS = {line["audio_filepath"][:-5]: line["text"]
         for line in map(json.loads, (AUDIO / "manifest.jsonl").read_text().splitlines())}  # fmt: skip
CLIP = AUDIO / "qs01.flac"
HEADS = [("quickstart-rnnt", "ctc"), ("quickstart-rnnt", "transducer"), ("quickstart-tdt", "transducer")]


@pytest.fixture(scope="module")
def align(rtfx):
    def run(*arguments, model="quickstart-rnnt", **settings):
        return rtfx("align", "--model", MODELS / f"{model}.nemo", "--threads", 1, "--device", "cpu", *arguments,
                    **settings)  # fmt: skip

    return run


def lines_of(result):
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def quickstart(align):
    """quickstart(model, head) returns the lines of JSON for all quickstart utterances."""

    @functools.cache
    def run(model, head):
        return lines_of(align("--format", "json", "--tokens", "--head", head, AUDIO / "manifest.jsonl", model=model))

    return run


@pytest.fixture
def text(tmp_path):
    """Writes the text of CLIP to a file and returns its path."""
    path = tmp_path / "text.txt"
    path.write_text(TEXTS["qs01"])
    return path


@pytest.mark.parametrize("model, head", HEADS)
def test_words_are_the_text_and_follow_each_other(quickstart, model, head):
    lines = quickstart(model, head)
    assert [line["text"] for line in lines] == list(TEXTS.values())
    for line in lines:
        assert [word["text"] for word in line["words"]] == line["text"].split()
        end = 0
        for word in line["words"]:
            assert end <= word["start"] < word["end"] <= line["seconds"]
            assert 0 <= word["confidence"] <= 1
            end = word["end"]
        assert line["score"] <= 0
        starts = [token["start"] for token in line["tokens"]]
        assert starts == sorted(starts)


def test_a_batch_changes_nothing(align, quickstart):
    lines = lines_of(align("--format", "json", "--batch-size", 5, AUDIO / "manifest.jsonl"))
    for line, alone in zip(lines, quickstart("quickstart-rnnt", "ctc"), strict=True):
        assert [(w["start"], w["end"]) for w in line["words"]] == [(w["start"], w["end"]) for w in alone["words"]]
        assert line["score"] == pytest.approx(alone["score"], abs=1e-2)


def test_the_greedy_text_gets_the_greedy_frames(align, transcribe, tmp_path):
    """If an aligned text is spelled with the tokens of greedy search, each token has the same times in both."""
    found = lines_of(transcribe("--decoder", "ctc_greedy", "--format", "json", "--tokens", AUDIO / "manifest.jsonl"))
    manifest = tmp_path / "greedy.jsonl"
    manifest.write_text("".join(json.dumps({"audio_filepath": one["file"], "text": one["text"]}) + "\n" for one in found))
    equal = 0
    for one, again in zip(found, lines_of(align("--format", "json", "--tokens", "--head", "ctc", manifest)), strict=True):
        if [token["id"] for token in one["tokens"]] != [token["id"] for token in again["tokens"]]:
            continue
        equal += 1
        assert [(t["start"], t["end"]) for t in one["tokens"]] == [(t["start"], t["end"]) for t in again["tokens"]]
    assert equal >= 12


@pytest.mark.parametrize("model", ["quickstart-rnnt", "quickstart-tdt"])
def test_heads_agree_about_words(quickstart, model):
    """With the transducer head, most words begin within 0.4 s of where they begin with the CTC head."""
    far = words = 0
    for a, b in zip(quickstart(model, "ctc"), quickstart(model, "transducer"), strict=True):
        for x, y in zip(a["words"], b["words"], strict=True):
            words += 1
            far += abs(x["start"] - y["start"]) > 0.4
    assert words > 200 and far < 0.1 * words


@pytest.mark.parametrize("model, head", HEADS)
def test_long_files_are_cut(align, text, model, head):
    """A file that is aligned in chunks loses no word, although the model sees another context at the cuts."""
    arguments = ("--format", "json", "--head", head, "--text", text, CLIP)
    (whole,) = lines_of(align(*arguments, model=model))
    (cut,) = lines_of(align(*arguments, "--long-above", 2, "--chunk", 2, "--context", 1, model=model))
    assert cut["seconds"] == pytest.approx(whole["seconds"], abs=1e-3)
    assert [word["text"] for word in cut["words"]] == [word["text"] for word in whole["words"]]
    near = [abs(a["start"] - b["start"]) <= 0.16 for a, b in zip(cut["words"], whole["words"], strict=True)]
    assert sum(near) >= 0.8 * len(near)


def test_chunks_with_the_whole_file_as_context_change_nothing(align, text):
    arguments = ("--format", "json", "--head", "ctc", "--text", text, CLIP)

    def times(*more):
        (line,) = lines_of(align(*arguments, *more))
        return [(word["start"], word["end"]) for word in line["words"]]

    cut = ("--long-above", 2, "--chunk", 2, "--context")
    assert times(*cut, 60) == times() != times(*cut, 0)


def without_ctc_head(path, folder):
    """Writes a checkpoint that has the transducer head alone, and returns its path."""
    import tarfile

    import torch

    unpack_checkpoint(path, folder / "model")
    weights = folder / "model/model_weights.ckpt"
    tensors = torch.load(weights, weights_only=True)
    torch.save({name: value for name, value in tensors.items() if not name.startswith("ctc_decoder")}, weights)
    settings = folder / "model/model_config.yaml"
    text = re.sub(r"^aux_ctc:\n(?:[ -].*\n)*", "", settings.read_text(), flags=re.M)
    assert "aux_ctc" not in text
    settings.write_text(re.sub(r"^target: .*$", "target: nemo.collections.asr.models.rnnt_bpe_models.EncDecRNNTBPEModel",
                               text, flags=re.M))  # fmt: skip
    with tarfile.open(folder / "transducer.nemo", "w") as archive:
        for file in sorted((folder / "model").rglob("*")):
            if file.is_file():
                archive.add(file, f"./{file.relative_to(folder / 'model')}")
    return folder / "transducer.nemo"


def test_the_band_of_a_transducer(align, rtfx, text, tmp_path):
    """A band that is wide enough finds the best path of the whole lattice, and a narrow one finds no better path. A
    model without a CTC head is guided by its greedy text."""
    arguments = ("--format", "json", "--text", text, "--head", "transducer", CLIP)
    (whole,) = lines_of(align(*arguments, "--band", 0))
    (wide,) = lines_of(align(*arguments, "--band", 1))
    assert wide["words"] == whole["words"] and wide["score"] == pytest.approx(whole["score"], abs=1e-3)
    narrow = align(*arguments, "--band", 0.08)
    (line,) = lines_of(narrow)
    assert line["score"] <= whole["score"] + 1e-3
    alone = without_ctc_head(MODELS / "quickstart-rnnt.nemo", tmp_path)
    result = rtfx("align", "--model", alone, "--threads", 1, "--device", "cpu", *arguments, "--band", 1)
    (guided,) = lines_of(result)
    assert guided["words"] == whole["words"]
    refused = rtfx("align", "--model", alone, "--device", "cpu", "--head", "ctc", "--text", text, CLIP)
    assert refused.returncode == 2 and refused.stdout == ""
    assert refused.stderr.startswith("rtfx: error: --head: the model has no CTC head; leave it out")


@pytest.mark.parametrize("band", ["-1", "inf", "1e300", "nan"])
def test_a_band_has_a_bound(align, text, band):
    result = align("--text", text, "--head", "transducer", "--band", band, CLIP)
    assert result.returncode == 2 and f"--band: must be from 0 to 1000000, not '{band}'" in result.stderr


def test_a_text_that_is_elsewhere_is_told(align, tmp_path):
    """A text that was not said causes a notice that its tokens lie at the edge of the band."""
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("london " * 12)
    result = align("--head", "transducer", "--band", 0.16, "--text", wrong, CLIP)
    assert result.returncode == 0, result.stderr
    assert re.search(r"notice: .*qs01.flac: \d+ of \d+ tokens lie at the edge of the searched part", result.stderr)


def intervals_of(text):
    """Reads a TextGrid in Praat's long form as {tier: [(start, end, text)]}. Every line must be as expected."""
    lines = iter(text.splitlines())

    def take(pattern):
        line = next(lines)
        match = re.fullmatch(pattern, line.strip())
        assert match, line
        return match.groups()

    take('File type = "ooTextFile"')
    take('Object class = "TextGrid"')
    assert next(lines) == ""
    take("xmin = 0")
    end = take(r"xmax = ([\d.]+)")
    take("tiers\\? <exists>")
    (count,) = take(r"size = (\d+)")
    take(r"item \[\]:")
    tiers = {}
    for i in range(int(count)):
        take(rf"item \[{i + 1}\]:")
        take('class = "IntervalTier"')
        (name,) = take('name = "(\\w+)"')
        take("xmin = 0")
        assert take(r"xmax = ([\d.]+)") == end
        (size,) = take(r"intervals: size = (\d+)")
        tiers[name] = []
        for k in range(int(size)):
            take(rf"intervals \[{k + 1}\]:")
            (start,), (stop,), (spoken,) = take(r"xmin = ([\d.]+)"), take(r"xmax = ([\d.]+)"), take('text = "(.*)"')
            tiers[name].append((float(start), float(stop), spoken.replace('""', '"')))
        assert tiers[name][0][0] == 0 and tiers[name][-1][1] == float(end[0])
        assert all(a[1] == b[0] for a, b in zip(tiers[name], tiers[name][1:], strict=False))
        assert all(start < stop for start, stop, _ in tiers[name])
    assert next(lines, None) is None
    return tiers


@pytest.mark.parametrize("model, head", HEADS)
def test_formats_say_the_same(align, text, tmp_path, model, head):
    arguments = ("--head", head, "--tokens", "--text", text, CLIP)
    (document,) = lines_of(align("--format", "json", *arguments, model=model))
    words = document["words"]
    ctm = [line.split(" ") for line in align("--format", "ctm", *arguments, model=model).stdout.splitlines()]
    assert [(float(row[2]), row[4]) for row in ctm] == [(w["start"], w["text"]) for w in words]
    assert [float(row[5]) for row in ctm] == pytest.approx([w["confidence"] for w in words], abs=1e-6)
    tsv = [line.split("\t") for line in align(*arguments, model=model).stdout.splitlines()[1:]]
    assert [row[3] for row in tsv] == TEXTS["qs01"].split()
    srt = align("--format", "srt", *arguments, model=model).stdout
    assert " ".join(" ".join(block.split("\n")[2:]) for block in srt.strip().split("\n\n")) == TEXTS["qs01"]
    assert align("--format", "txt", *arguments, model=model).stdout.strip() == TEXTS["qs01"]
    result = align("--format", "textgrid", "--output", tmp_path / "grids", *arguments, model=model)
    assert result.stdout.strip() == str(tmp_path / "grids/qs01.TextGrid")
    tiers = intervals_of((tmp_path / "grids/qs01.TextGrid").read_text())
    spoken = [one for one in tiers["words"] if one[2]]
    assert [(round(s, 3), round(e, 3), t) for s, e, t in spoken] == [(w["start"], w["end"], w["text"]) for w in words]
    assert [t for _, _, t in tiers["tokens"] if t] == [token["piece"] for token in document["tokens"]]
    try:
        import parselmouth  # Praat itself, in the package praat-parselmouth
    except ImportError:
        return
    grid = parselmouth.read(str(tmp_path / "grids/qs01.TextGrid"))
    assert parselmouth.praat.call(grid, "Get number of tiers") == 2
    assert parselmouth.praat.call(grid, "Get number of intervals", 1) == len(tiers["words"])


def test_transcribe_writes_textgrids_too(transcribe):
    result = transcribe("--format", "textgrid", CLIP)
    said = transcribe(CLIP).stdout.strip()
    assert result.returncode == 0
    assert " ".join(t for _, _, t in intervals_of(result.stdout)["words"] if t) == said


def manifest_of(path, texts):
    entries = [{"audio_filepath": str(file)} | ({} if text is None else {"text": text}) for file, text in texts]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def test_bad_input_costs_a_line_each(align, tmp_path):
    broken = tmp_path / "broken.wav"
    broken.write_bytes(struct.pack("<4sI4s", b"RIFF", 4, b"WAVE"))
    short = AUDIO / "1737-146161-0007.flac"
    manifest = manifest_of(tmp_path / "m.jsonl", [
        (CLIP, TEXTS["qs01"]), (AUDIO / "qs04.flac", None), (AUDIO / "qs06.flac", "the na\u00efve \u6f22 word"),
        (short, "knit " * 40), (tmp_path / "gone.wav", "a"), (broken, "a"), (AUDIO / "qs10.flac", TEXTS["qs10"])])  # fmt: skip
    result = align("--format", "ctm", manifest)
    assert result.returncode == 1
    rows = [line.split(" ") for line in result.stdout.splitlines()]
    assert list(dict.fromkeys(row[0] for row in rows)) == ["qs01", "qs10"]
    assert " ".join(row[4] for row in rows) == f"{TEXTS['qs01']} {TEXTS['qs10']}"
    errors = [line for line in result.stderr.splitlines() if line.startswith("rtfx: error: ")]
    assert len(errors) == 5, result.stderr
    assert f"{AUDIO / 'qs04.flac'}: its text is missing; give it (--text" in errors[0]
    assert re.search(r"qs06.flac: the model's vocabulary cannot spell '.' in the word '(naïve|漢)'; write", errors[1])
    assert re.search(r"0007.flac: the text is too long for the audio: its \d+ tokens take \d+ encoder frames at least, "
                     r"and the audio has 26 \(2.08 s\); check", errors[2])  # fmt: skip
    assert f"{tmp_path / 'gone.wav'}: no such file" in errors[3]
    assert f"{broken}: " in errors[4]
    assert "rtfx: 2 of 7 files" in result.stderr


def test_a_character_that_ends_messages_is_written_as_an_escape(align, tmp_path):
    result = align(manifest_of(tmp_path / "m.jsonl", [(CLIP, "the \0 word")]))
    assert result.returncode == 1
    assert "the model's vocabulary cannot spell '\\x00' in the word '\\x00'; write the text" in result.stderr


def test_a_line_of_text_for_each_recording(align, tmp_path):
    files = [AUDIO / "qs01.flac", AUDIO / "qs06.flac"]
    lines = tmp_path / "lines.txt"
    lines.write_bytes(b"\xef\xbb\xbf" + f"{TEXTS['qs01']}\r\n{TEXTS['qs06']}\r\n".encode())
    found = lines_of(align("--format", "json", "--text", lines, *files))
    assert [line["text"] for line in found] == [TEXTS["qs01"], TEXTS["qs06"]]
    lines.write_text(f"{TEXTS['qs01']}\n\n")
    result = align("--format", "json", "--text", lines, *files)
    assert result.returncode == 1 and len(result.stdout.splitlines()) == 1
    assert f"rtfx: error: {files[1]}: its text is missing" in result.stderr
    lines.write_text(f"{TEXTS['qs01']}\n")
    result = align("--text", lines, *files)
    assert result.returncode == 2 and result.stdout == ""
    assert f"{lines}: 1 line of text for 2 recordings; write one line for each" in result.stderr
    stereo = tmp_path / "stereo.wav"
    with wave.open(str(stereo), "wb") as out:
        out.setparams((2, 2, 16000, 0, "NONE", ""))
        out.writeframes(bytes(64000))
    result = align("--channel", "separate", "--text", lines, stereo)
    assert result.returncode == 2
    assert f"{lines}: 1 line of text for 2 channels; write one line for each channel" in result.stderr
    lines.write_bytes(b"caf\xe9 bar\n")
    result = align("--text", lines, files[0])
    assert result.returncode == 2 and result.stdout == ""
    assert f"rtfx: error: {lines}: is not UTF-8" in result.stderr
    # If one recording is not found, the lines of text would belong to other recordings.
    lines.write_text(f"{TEXTS['qs01']}\n{TEXTS['qs06']}\n")
    result = align("--text", lines, tmp_path / "gone*.flac", files[1])
    assert result.returncode == 2 and result.stdout == ""
    assert "--text: its lines belong to recordings of which some were not found" in result.stderr
    # With a single recording, all lines together are its text.
    half = len(TEXTS["qs01"].split()) // 2
    words = TEXTS["qs01"].split()
    lines.write_text(" ".join(words[:half]) + "\n" + "\t".join(words[half:]) + "\n\n")
    (line,) = lines_of(align("--format", "json", "--text", lines, files[0]))
    assert line["text"] == TEXTS["qs01"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--text", "nosuch.txt", CLIP], "nosuch.txt"),
        (["--head", "joint", CLIP], "--head"),
        (["--format", "textgrid", CLIP, CLIP], "a file of textgrid holds one recording, here are several"),
    ],
)
def test_bad_options(align, arguments, message):
    result = align(*arguments)
    assert result.returncode != 0 and result.stdout == ""
    assert message in result.stderr


def test_examples_of_the_guide_run(program, tmp_path):
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs/align.md").read_text(), re.M | re.S)
    assert len(blocks) >= 3
    for block in blocks:
        script = block.replace("build/release/rtfx", str(program)).replace("runs/", f"{tmp_path}/")
        result = subprocess.run(["bash", "-e", "-c", script], cwd=ROOT, capture_output=True, text=True)
        assert result.returncode == 0, f"{block}\n{result.stderr}"
        assert result.stdout
