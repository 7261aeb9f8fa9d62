"""Tests `transducer_wfst` as a user runs it: the guide's page, words, streams, and errors."""

import json
import os
import re
import subprocess

import pytest
from conftest import AUDIO, MODELS, PROGRAM, ROOT, runs_of, strict_records

FILES = {"lexicon": ROOT / "tests/data/words.lexicon", "lm": ROOT / "tests/data/words.arpa"}
WORDS = {"a", "ab", "aback", "abaft", "<unk>"}
CLIP = AUDIO / "qs10.flac"


def blocks(page):
    return re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_guide_runs(tmp_path):
    """Each block of the page runs, in a folder with the repository's files and its own runs/."""
    for name in ("models", "datasets", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "runs").mkdir()
    script = "\n".join(blocks(ROOT / "docs/word_graph.md")).replace("build/release/rtfx", str(PROGRAM))
    result = subprocess.run(["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, timeout=300,
                            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})  # fmt: skip
    assert result.returncode == 0, result.stderr
    found = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    assert len(found) == 2 and 0 < len(found[1]["nbest"]) <= 3
    assert all(set(line["text"].split()) <= WORDS for line in found)
    lines = result.stdout.splitlines()
    assert {"40:it", "150:▁kn", "167:▁one", "378:▁two", "473:▁make", "952:▁together"} <= set(lines)
    assert "knit two together" in lines, "the search of the imported graph"


@pytest.fixture(scope="module")
def graph(rtfx, tmp_path_factory):
    """graph(topology) builds a graph and returns its path."""
    folder = tmp_path_factory.mktemp("graphs")

    def build(topology="tokens"):
        path = folder / f"{topology}.tlg"
        given = {**FILES, "tokenizer": MODELS / "quickstart-rnnt.nemo", "topology": topology, "output": path}
        if not path.exists():
            result = rtfx("graph", "build", *[f"--{name}={value}" for name, value in given.items()])
            assert result.returncode == 0, result.stderr
        return str(path)

    return build


def options(graph, **changes):
    return ["--decoder", "transducer_wfst", "--options", json.dumps({"graph": graph, "max_tokens": 0, **changes})]


@pytest.mark.parametrize("model", ["quickstart-rnnt", "quickstart-tdt"])
def test_words_of_the_graph_with_times_and_alternatives(graph, transcribe, model):
    skips = {} if model.endswith("tdt") else {"skip_blank": 0.99}
    result = transcribe("--json", *options(graph(), beam_size=8, nbest=4, **skips), CLIP, model=model)
    assert result.returncode == 0, result.stderr
    line = json.loads(result.stdout)
    assert line["words"] and set(line["words"]) <= WORDS and line["text"] == " ".join(line["words"])
    lists = [tuple(entry["tokens"]) for entry in line["nbest"]]
    assert 1 < len(lists) <= 4 and len(lists) == len(set(lists)) and line["nbest"][0]["text"] == line["text"]
    timed = json.loads(transcribe("--format", "json", *options(graph()), CLIP, model=model).stdout)
    assert all(word["text"] in WORDS and word["start"] < word["end"] for word in timed["words"])
    starts = [word["start"] for word in timed["words"]]
    assert starts == sorted(starts)


def test_a_stream_hears_what_a_transcript_has(rtfx, graph, transcribe):
    arguments = [*options(graph()), CLIP]
    text = transcribe(*arguments).stdout.strip()
    heard = rtfx("stream", "--model", MODELS / "quickstart-rnnt.nemo", *arguments)
    assert heard.returncode == 0, heard.stderr
    assert heard.stdout.strip() and set(heard.stdout.split()) <= WORDS
    assert text and set(text.split()) <= WORDS


def test_a_run_counts_rows_without_an_end(run_config, graph, tmp_path):
    decoders = ["label_looping", {"name": "transducer_wfst", "options": {"graph": graph(), "alpha": [0, 0.5]}}]
    result = run_config(decoders=decoders)
    assert result.returncode == 0, result.stderr
    runs = [run for run in runs_of(strict_records(tmp_path / "run/journal.jsonl"))
            if run["decoder"]["name"] == "transducer_wfst"]  # fmt: skip
    assert len(runs) == 2
    assert all(run["counters"]["not_final"] >= 0 and run["counters"]["outer_iters"] > 0 for run in runs)
    assert {run["exactness"]["replay_left_out"] for run in runs} == {"the decoder follows a rule that is not recomputed"}


def test_an_lg_in_text_is_imported(rtfx, transcribe, tmp_path):
    (tmp_path / "lg.txt").write_text("0 0 2 1 0.7\n0 0 3 2 0.7\n0 0.1\n")
    (tmp_path / "words.txt").write_text("<eps> 0\nyes 1\nno 2\n")
    arguments = ["--openfst", tmp_path / "lg.txt", "--words", tmp_path / "words.txt", "--output", tmp_path / "lg.tlg",
                 "--tokenizer", MODELS / "quickstart-rnnt.nemo"]  # fmt: skip
    assert "should be blank" in rtfx("graph", "import", *arguments).stderr
    assert rtfx("graph", "import", *arguments, "--blank", "none").returncode == 0
    result = transcribe(*options(str(tmp_path / "lg.tlg")), CLIP)
    assert result.returncode == 0 and set(result.stdout.split()) <= {"yes", "no"}
    (tmp_path / "lg.txt").write_text("0 0 1025 1 0.7\n0 0.1\n")
    result = rtfx("graph", "import", *arguments, "--blank", "none")
    assert result.returncode != 0 and "has the label 1025, which is none of the 1024 tokens" in result.stderr


def test_what_is_refused(graph, transcribe, tmp_path):
    def complaint(*arguments, **settings):
        result = transcribe(*arguments, CLIP, **settings)
        assert result.returncode != 0 and len(result.stderr.splitlines()) == 1, result.stderr
        return result.stderr

    assert "rtfx graph build --topology tokens" in complaint(*options(graph("compact")))
    assert "search it with transducer_wfst" in complaint(
        "--decoder", "ctc_wfst_cpu", "--options", json.dumps({"graph": graph()}))  # fmt: skip
    assert "absent.tlg" in complaint(*options("absent.tlg"))
    (tmp_path / "bad.tlg").write_bytes(b"rtfxtlg\n" + bytes(200))
    assert "bad.tlg" in complaint(*options(str(tmp_path / "bad.tlg")))
    assert "max_states" in complaint(*options(graph(), max_states=0))
    assert "alpha" in complaint(*options(graph(), alpha=-1))
