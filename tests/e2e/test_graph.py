"""Tests how a user makes and uses decoding graphs: their sizes, the texts found, and wrong files."""

import gzip
import json
import re

import pytest
from conftest import AUDIO, MODELS, ROOT, runs_of, strict_records

TOKENIZER = MODELS / "quickstart-rnnt.nemo"
LEXICON = ROOT / "tests/data/words.lexicon"
LM = ROOT / "tests/data/words.arpa"


@pytest.fixture
def build(rtfx, tmp_path):
    """build(lexicon=..., ...) runs `rtfx graph build`, which writes the graph to build.path."""

    def run(**changes):
        options = {"tokenizer": TOKENIZER, "lexicon": LEXICON, "lm": LM, "output": run.path}
        arguments = [f"--{name}={value}" for name, value in (options | changes).items()]
        return rtfx("graph", "build", *arguments)

    run.path = tmp_path / "words.tlg"
    return run


def test_building_reports_sizes_time_and_memory(build):
    result = build(topology="normal")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["stage", "states", "arcs", "seconds", "peak", "MiB"]
    stages = [re.match(r"(.+?)\s+(\d+)\s+(\d+)\s+[\d.]+\s+\d+$", line) for line in lines[1:7]]
    names = [stage[1] for stage in stages]
    assert names == ["L", "G", "L o G", "min(det(L o G))", "T", "TLG"]
    assert lines[7] == "left out: 1 word of the lexicon that the language model lacks"
    assert "topology normal, 5 words" in lines[8]
    emitting, others = re.search(r"(\d+) emitting and (\d+) non-emitting", lines[8]).groups()
    assert int(emitting) + int(others) == int(stages[-1][3])


def test_files_may_be_gzip_and_the_graph_is_the_same(build, tmp_path):
    assert build().returncode == 0
    plain = build.path.read_bytes()
    packed = {}
    for name, path in {"lexicon": LEXICON, "lm": LM}.items():
        packed[name] = tmp_path / f"{name}.gz"
        packed[name].write_bytes(gzip.compress(path.read_bytes()))
    assert build(**packed).returncode == 0
    assert build.path.read_bytes() == plain


def test_lines_that_cannot_be_spelled_are_an_error_or_left_out(build, tmp_path):
    assert build().returncode == 0
    plain = build.path.read_bytes()
    lexicon = tmp_path / "unspelled.lexicon"
    lexicon.write_text(LEXICON.read_text() + "ab\tnosuch\n")
    refused = build(lexicon=lexicon, output=tmp_path / "refused.tlg")
    assert refused.returncode == 2 and not (tmp_path / "refused.tlg").exists()
    line = len(lexicon.read_text().splitlines())
    said = f"{lexicon}:{line}: the word 'ab' has the token 'nosuch', which the tokenizer lacks; "
    assert said in refused.stderr and "(--drop-unspelled)" in refused.stderr
    result = build(lexicon=lexicon, **{"drop-unspelled": "true"})
    assert result.returncode == 0, result.stderr
    assert "left out: 1 line of the lexicon that cannot be spelled" in result.stdout.splitlines()
    assert build.path.read_bytes() == plain


def test_texts_are_words_of_the_graph(build, transcribe):
    assert build().returncode == 0
    options = json.dumps({"graph": str(build.path)})
    arguments = ["--json", "--decoder", "ctc_wfst_cpu", "--options", options, AUDIO / "qs10.flac"]
    result = transcribe(*arguments)
    assert result.returncode == 0, result.stderr
    line = json.loads(result.stdout)
    assert set(line["text"].split()) <= {"a", "ab", "aback", "abaft", "<unk>"}
    assert line["score"] < 0


SPOKEN = {"a": "A", "ab": "AB.", "aback": "taken_aback", "abaft": "Abaft"}


@pytest.fixture
def renamed(build, tmp_path):
    """Returns the path of a graph in which some words are spelled differently from their tokens."""
    changed = {}
    for name, path, columns in (("lexicon", LEXICON, slice(0, 1)), ("lm", LM, slice(1, None))):
        lines = []
        for line in path.read_text().splitlines():
            fields = line.split() if name == "lexicon" or line[:1] in "-0" else []
            fields[columns] = [SPOKEN.get(field, field) for field in fields[columns]]
            lines.append("\t".join(fields[:1]) + "\t" + " ".join(fields[1:]) if fields else line)
        changed[name] = tmp_path / f"renamed.{name}"
        changed[name].write_text("\n".join(lines) + "\n")
    path = tmp_path / "renamed.tlg"
    result = build(**changed, output=path)
    assert result.returncode == 0, result.stderr
    return path


def arguments_of(graph, *, name="ctc_wfst_cpu", **options):
    return ["--decoder", name, "--options", json.dumps({"graph": str(graph), **options}), AUDIO / "qs10.flac"]


def test_the_words_of_the_graph_are_the_text(build, transcribe, renamed):
    """The text consists of the graph's words. Two graphs with the same tokens differ in their words alone."""
    assert build().returncode == 0
    plain = json.loads(transcribe("--json", *arguments_of(build.path, nbest=3)).stdout)
    line = json.loads(transcribe("--json", *arguments_of(renamed, nbest=3)).stdout)
    assert line["tokens"] == plain["tokens"] and len(line["words"]) > 1
    assert line["words"] == [SPOKEN.get(word, word) for word in plain["words"]] == line["text"].split()
    assert [entry["text"].split() for entry in line["nbest"]] == [
        [SPOKEN.get(word, word) for word in entry["words"]] for entry in plain["nbest"]]
    found = json.loads(transcribe("--format", "json", "--confidence", *arguments_of(renamed)).stdout)
    assert found["text"] == line["text"]
    assert [word["text"] for word in found["words"]] == line["words"]
    assert all(0 <= word["confidence"] <= 1 and word["start"] < word["end"] for word in found["words"])
    for form in ("txt", "srt", "vtt", "ctm", "stm", "tsv"):
        text = transcribe("--format", form, *arguments_of(renamed)).stdout
        assert set(re.findall(r"\b(?:aback|abaft|ab|a)\b", text)) == set(), (form, text)
        assert all(word in text for word in line["words"]), form


def test_scores_and_streams_use_the_words_of_the_graph(rtfx, run_config, transcribe, renamed, tmp_path):
    text = transcribe(*arguments_of(renamed)).stdout.strip()
    boosts = tmp_path / "boosts"
    boosts.write_text(f"{text.split()[0]} 0.001\n")
    manifest = tmp_path / "said.jsonl"
    manifest.write_text(json.dumps({"audio_filepath": str(AUDIO / "qs10.flac"), "duration": 5.1, "text": text}))
    options = {"graph": str(renamed), "boost": {"path": str(boosts)}}
    result = run_config(datasets=[{"id": "said", "manifest": str(manifest)}], batch_sizes=[1],
                        decoders=[{"name": "ctc_wfst_cpu", "options": options}], scorer="none")
    assert result.returncode == 0, result.stderr
    (run,) = runs_of(strict_records(tmp_path / "run/journal.jsonl"))
    assert run["wer"]["wer"] == 0 and run["boosted"]["recall"] == 1
    assert "not_final" in run["counters"]
    heard = rtfx("stream", "--model", MODELS / "quickstart-rnnt.nemo", *arguments_of(renamed)).stdout
    assert heard.strip() and set(heard.split()) <= {*SPOKEN.values(), "<unk>"}


def test_parts_of_long_files_have_lists_sorted_by_risk(build, transcribe):
    assert build().returncode == 0
    options = {"graph": str(build.path), "beam": 1000, "lattice_beam": 1000}

    def parts(**more):
        result = transcribe("--format", "json", "--decoder", "ctc_wfst_cpu", "--options", json.dumps(options | more),
                            "--nbest", 4, "--long-above", 3, "--chunk", 2, AUDIO / "qs10.flac")  # fmt: skip
        assert result.returncode == 0, result.stderr
        found = json.loads(result.stdout)
        return [[(entry["text"], entry["score"]) for entry in part["alternatives"]] for part in found["sections"]]

    by_score, by_risk = parts(), parts(mbr={"scale": 0.01})
    assert by_score and all(1 <= len(entries) <= 4 for entries in by_score)
    assert any(len(entries) > 1 for entries in by_score)
    for entries, others in zip(by_score, by_risk, strict=True):
        assert [score for _, score in entries] == sorted((score for _, score in entries), reverse=True)
        assert sorted(entries) == sorted(others)


def test_boosting_makes_a_word_more_frequent(build, transcribe, tmp_path):
    assert build().returncode == 0
    boosts = tmp_path / "boosts"

    def count(boost):
        boosts.write_text(f"abaft {boost}\n")
        options = {"graph": str(build.path), "boost": {"path": str(boosts)}, "beam": 1000}
        arguments = ["--decoder", "ctc_wfst_cpu", "--options", json.dumps(options)]
        result = transcribe(*arguments, AUDIO / "qs10.flac")
        assert result.returncode == 0, result.stderr
        return result.stdout.split().count("abaft")

    assert count(-100) == 0
    assert count(100) > 0


@pytest.mark.parametrize(
    "changes, complaint",
    [
        ({"topology": "compat"}, "did you mean 'compact'"),
        ({"lm": "missing.arpa"}, "missing.arpa"),
        ({"lm": LEXICON}, "there is no \\data\\ section"),
        ({"lexicon": LM}, "none of its words is in the lexicon"),
        ({"tokenizer": LM}, "words.arpa"),
        ({"output": "/dev/null"}, "is a device, not a regular file"),
    ],
)
def test_bad_input(build, changes, complaint):
    result = build(**changes)
    assert result.returncode not in (0, None)
    assert complaint in result.stderr, result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_graph_without_a_path_is_named(rtfx, run_config, transcribe, tmp_path):
    (tmp_path / "dead.txt").write_text("0 1 2 1\n1\n")  # the path has a single frame and no arc after it
    (tmp_path / "words.txt").write_text("<eps> 0\nyes 1\n")
    graph = tmp_path / "dead.tlg"
    result = rtfx("graph", "import", "--tokenizer", TOKENIZER, "--blank", "last", "--openfst", tmp_path / "dead.txt",
                  "--words", tmp_path / "words.txt", "--output", graph)  # fmt: skip
    assert result.returncode == 0, result.stderr
    problem = "no path through the graph, or NaN in the emissions"
    result = transcribe(*arguments_of(graph))
    assert result.returncode != 0 and f"{problem}; " in result.stderr, result.stderr
    assert run_config(decoders=[{"name": "ctc_wfst_cpu", "options": {"graph": str(graph)}}]).returncode != 0
    (failure,) = [r for r in strict_records(tmp_path / "run/journal.jsonl") if r["kind"] == "failure"]
    assert f"{problem} of utterance '" in failure["message"]


def test_a_graph_for_another_tokenizer_is_refused(rtfx, build, transcribe, tmp_path):
    assert build().returncode == 0
    damaged = bytearray(build.path.read_bytes())
    # No checksum covers the head, which holds the tokenizer's checksum.
    place = damaged.find(re.search(rb"[0-9a-f]{64}", damaged)[0])
    damaged[place] ^= 1
    build.path.write_bytes(damaged)
    options = json.dumps({"graph": str(build.path)})
    result = transcribe("--decoder", "ctc_wfst_cpu", "--options", options, AUDIO / "qs10.flac")
    assert result.returncode != 0
    assert "another tokenizer" in result.stderr
