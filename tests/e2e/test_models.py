"""Tests how a user handles model files: their contents, attention contexts, and graphs for their vocabularies."""

import json
import os
import re
import shutil

import pytest
from conftest import AUDIO, ROOT, rounds_in, runs_of, small_config, strict_records, unpack_checkpoint, wait_until

CHECKPOINTS = ROOT / "tests/data/checkpoints"


@pytest.fixture
def inspect(rtfx):
    def run(name):
        result = rtfx("inspect", CHECKPOINTS / name, "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run


def test_inspect_says_what_a_file_holds(inspect):
    model = inspect("tiny_tdt.nemo")
    assert model["format"] == "NeMo 3.0.0" and model["kinds"] == ["tdt"]
    assert model["heads"]["durations"] == [0, 1, 2, 3, 4]
    assert model["vocabulary"]["kind"] == "sentencepiece" and model["vocabulary"]["tokens"] == 96
    assert model["encoder"]["layers"] == 2 and model["features"]["mel_bins"] == 80
    assert {"frame_looping", "fused_looping"} <= set(model["decoders"])
    assert not {"ctc_greedy"} & set(model["decoders"])
    assert any("num_batches_tracked" in name for name in model["ignored"])
    assert 4 * model["parameters"] < sum(model["stored_bytes"].values())


@pytest.mark.parametrize(
    "name, kinds, vocabulary",
    [
        ("tiny_streaming.nemo", ["rnnt", "ctc"], "characters"),
        ("tiny_wpe.nemo", ["ctc"], "wordpiece"),
        ("tiny_agg.nemo", ["rnnt"], "aggregate"),
        ("tiny_hf_ctc", ["ctc"], "tokenizer.json"),
        ("tiny_hf_nemotron", ["rnnt"], "tokenizer.json"),
        ("tiny_multiblank.nemo", ["multiblank"], "characters"),
    ],
)
def test_inspect_knows_every_kind(inspect, name, kinds, vocabulary):
    model = inspect(name)
    assert model["kinds"] == kinds
    assert model["vocabulary"]["kind"] == vocabulary
    assert ("python" in model["decoders"]) == (kinds != ["multiblank"])


def test_big_blanks_are_for_greedy_searches(rtfx, inspect):
    model = inspect("tiny_multiblank.nemo")
    assert model["heads"]["blank_durations"] == [8, 4, 2, 1]
    greedy = {"frame_looping", "label_looping", "fused_looping", "step_replay"}
    assert greedy <= set(model["decoders"]) <= greedy | {"null"}
    for decoder in ("alsd", "aes", "alsd_pp", "aes_pp", "modified_beam_search", "tdt_min_duration"):
        arguments = ["--model", CHECKPOINTS / "tiny_multiblank.nemo", "--decoder", decoder]
        result = rtfx("transcribe", *arguments, AUDIO / "qs10.flac")
        assert result.returncode == 2 and result.stdout == "", decoder
        assert result.stderr.count("error:") == 1, result.stderr
        assert f"{decoder}: cannot decode a model of kind multiblank" in result.stderr, result.stderr
    result = rtfx("align", "--model", CHECKPOINTS / "tiny_multiblank.nemo", AUDIO / "manifest.jsonl")
    assert result.returncode == 2 and "texts are not aligned with a multi-blank transducer" in result.stderr


def test_grades_of_a_multiblank_model_say_that_replay_is_left_out(rtfx, tmp_path):
    path = str(CHECKPOINTS / "tiny_multiblank.nemo")
    config = tmp_path / "config.json"
    decoders = ["frame_looping", "label_looping"]
    config.write_text(json.dumps(small_config(models=[path], decoders=decoders)))
    result = rtfx("run", config, "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    for run in runs_of(strict_records(tmp_path / "run/journal.jsonl")):
        exactness = run["exactness"]
        assert exactness["grade"] in ("baseline", "bitwise", "exact")
        assert exactness["replay"] is None
        assert exactness["replay_left_out"] == "decisions between several blanks are not recomputed"


def test_inspect_in_words(rtfx):
    text = rtfx("inspect", CHECKPOINTS / "tiny_streaming.nemo").stdout
    assert "chunked_limited [8,3]; offered: [8,3], [8,1], [4,0]; causal" in text
    assert '28 tokens, characters: [" ","\'","a"' in text
    assert "fp32" in text and all(len(line) < 200 for line in text.splitlines())


STREAMING = CHECKPOINTS / "tiny_streaming.nemo"


def test_a_context_of_a_configuration(rtfx, tmp_path):
    """A configuration that gives one file two contexts has two models, with different results. `rtfx transcribe` finds
    the same with --att-context-size."""
    path = str(STREAMING)
    models = [{"id": "default", "path": path}]
    models.append({"id": "low", "path": path, "att_context_size": [4, 0]})
    config = tmp_path / "config.json"
    config.write_text(json.dumps(small_config(models=models, decoders=["label_looping"])))
    result = rtfx("run", config, "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    runs = runs_of(strict_records(tmp_path / "run/journal.jsonl"))
    assert {run["model"]["id"] for run in runs} == {"default", "low"}
    assert len({run["tokens_sha256"] for run in runs}) == 2
    assert len({run["result_key"] for run in runs}) == 2
    arguments = ["--json", "--decoder", "label_looping", "--batch-size", 2, "--threads", 1, "--device", "cpu"]
    for run in runs:
        context = ["--att-context-size", "4,0"] if run["model"]["id"] == "low" else []
        found = rtfx("transcribe", "--model", path, *arguments, *context, ROOT / "tests/data/two.jsonl")
        assert found.returncode == 0, found.stderr
        measured = (tmp_path / f"run/hypotheses/{run['result_key']}.jsonl").read_text().splitlines()
        lines = [*map(json.loads, measured)], [*map(json.loads, found.stdout.splitlines())]
        assert [line["tokens"] for line in lines[0]] == [line["tokens"] for line in lines[1]] != [[], []]


def test_a_context_of_align_is_that_of_a_model(rtfx, tmp_path):
    """`rtfx align` with --att-context-size finds the same as with a model whose default is that context."""
    unpack_checkpoint(STREAMING, tmp_path / "low")
    settings = tmp_path / "low/model_config.yaml"
    text = settings.read_text()
    assert "att_context_size:\n  - - 8\n    - 3\n" in text
    settings.write_text(text.replace("att_context_size:\n  - - 8\n    - 3\n", "att_context_size:\n  - - 4\n    - 0\n"))
    (tmp_path / "said.txt").write_text("a stitch in time")

    def words(model, *arguments):
        result = rtfx("align", "--model", model, "--format", "json", "--threads", 1, "--device", "cpu", *arguments,
                      "--text", tmp_path / "said.txt", AUDIO / "qs10.flac")  # fmt: skip
        assert result.returncode == 0, result.stderr
        return [(w["text"], w["start"], w["end"], w["confidence"]) for w in json.loads(result.stdout)["words"]]

    assert words(STREAMING, "--att-context-size", "4,0") == words(tmp_path / "low") != words(STREAMING)


def test_a_folder_gives_its_name(rtfx, tmp_path):
    folder = tmp_path / "parakeet-ctc-1.1b"
    folder.symlink_to(CHECKPOINTS / "tiny_hf_ctc")
    config = tmp_path / "config.json"
    for path in (str(folder), f"{folder}/"):
        config.write_text(json.dumps(small_config(models=[path], decoders=["ctc_greedy"])))
        result = rtfx("validate", config)
        assert result.returncode == 0, result.stderr
        assert "parakeet-ctc-1.1b/two/ctc_greedy/b2/fp32" in result.stdout


@pytest.mark.parametrize("context", ["1,2,3", "5", "-3,1", "a,b"])
def test_a_context_that_cannot_be(rtfx, context):
    model = CHECKPOINTS / "tiny_streaming.nemo"
    result = rtfx("transcribe", "--model", model, f"--att-context-size={context}", AUDIO / "qs10.flac")
    assert result.returncode == 2 and "--att-context-size" in result.stderr


def test_a_context_of_a_model_that_has_none(rtfx):
    """The attention context of any encoder can be limited, as in NeMo."""
    arguments = ["--att-context-size", "8,4", AUDIO / "qs10.flac"]
    result = rtfx("transcribe", "--model", CHECKPOINTS / "tiny_tdt.nemo", *arguments)
    assert result.returncode == 0
    assert "the attention context [8,4] is none of those that the model offers: [-1,-1]\n" in result.stderr


@pytest.mark.parametrize("context, rounded", [("8,1", None), ("5,0", ""), ("5,1", "; its left part becomes 4 frames")])
def test_a_context_that_is_not_offered_is_told(rtfx, context, rounded):
    result = rtfx("transcribe", "--model", STREAMING, "--att-context-size", context, AUDIO / "qs10.flac")
    assert result.returncode == 0, result.stderr
    assert ("attention context" in result.stderr) == (rounded is not None)
    if rounded is not None:
        told = f"context [{context}] is none of those that the model offers: [8,3], [8,1], [4,0]{rounded}"
        assert told in result.stderr and ("left part" in result.stderr) == bool(rounded)


@pytest.mark.parametrize("command", ["transcribe", "align", "stream"])
def test_a_notice_about_a_model_names_it(rtfx, tmp_path, command):
    model = tmp_path / "model"
    shutil.copytree(CHECKPOINTS / "tiny_hf_tdt", model, ignore=shutil.ignore_patterns("processor_config.json"))
    (tmp_path / "said.txt").write_text("a")
    texts = ["--text", tmp_path / "said.txt"] if command == "align" else []
    result = rtfx(command, "--model", model, *texts, AUDIO / "qs10.flac")
    assert result.returncode == 0, result.stderr
    assert f"rtfx: notice: {model}: no processor_config.json: " in result.stderr


@pytest.mark.parametrize("tokenizer", ["tiny_tdt.nemo", "tiny_hf_ctc", "tiny_hf_ctc/tokenizer.json"])
def test_graphs_for_every_kind_of_vocabulary(rtfx, inspect, tmp_path, tokenizer):
    pieces = inspect(tokenizer.split("/")[0])["vocabulary"]["first"]
    lexicon = tmp_path / "words.lexicon"
    lexicon.write_text("".join(f"{word}\t{pieces[-1]} {pieces[-2]}\n" for word in ("a", "ab")))
    arguments = ["--lexicon", lexicon, "--lm", ROOT / "tests/data/words.arpa"]
    arguments += ["--output", tmp_path / "graph", "--tokenizer", CHECKPOINTS / tokenizer]
    result = rtfx("graph", "build", *arguments)
    assert result.returncode == 0, result.stderr
    assert "words" in result.stdout.splitlines()[-1]


def test_a_graph_for_a_downloaded_model(rtfx, tmp_path):
    model = tmp_path / "hub/models--some--tiny"
    (model / "snapshots/0123abc").mkdir(parents=True)
    (model / "snapshots/0123abc/tiny.nemo").symlink_to(CHECKPOINTS / "tiny_tdt.nemo")
    (model / "refs").mkdir()
    (model / "refs/main").write_text("0123abc")
    (tmp_path / "words.lexicon").write_text("")
    arguments = ["--lexicon", tmp_path / "words.lexicon", "--lm", ROOT / "tests/data/words.arpa", "--output", tmp_path / "graph"]
    hub = os.environ | {"HF_HUB_CACHE": str(tmp_path / "hub")}
    result = rtfx("graph", "build", *arguments, "--tokenizer", "some/tiny", env=hub)
    assert "words.lexicon" in result.stderr, result.stderr  # the tokenizer was read before the lexicon
    result = rtfx("graph", "build", *arguments, "--tokenizer", "some/other", env=hub)
    assert result.returncode == 2 and "'hf download some/other'" in result.stderr


def test_streams_by_a_context_that_can_keep_caches(rtfx, tmp_path):
    """The default context of this model sees all frames to the left, so only a smaller context can keep caches."""
    unpack_checkpoint(CHECKPOINTS / "tiny_streaming.nemo", tmp_path)
    settings = tmp_path / "model_config.yaml"
    settings.write_text(settings.read_text().replace("- - 8\n", "- - -1\n", 1))
    late = "since the model cannot keep caches: its attention sees all frames to the left"
    arguments = ["stream", "--threads", 1, "--model", tmp_path, AUDIO / "qs10.flac"]
    result = rtfx(*arguments)
    assert result.returncode == 0 and late in result.stderr, result.stderr
    result = rtfx(*arguments, "--att-context-size", "8,1")
    assert result.returncode == 0 and late not in result.stderr, result.stderr
    result = rtfx(*arguments, "--att-context-size", "1,2,3")
    assert result.returncode == 2 and "--att-context-size: " in result.stderr


def test_a_file_shortened_while_in_use_is_said_and_loses_no_result(popen, program, tmp_path):
    """A model file that is shortened during a run is named, and no result is lost. Weights stay in the mapped file, so
    reading after its new end causes a SIGBUS."""
    model, journal = tmp_path / "model.nemo", tmp_path / "run/journal.jsonl"
    shutil.copy(CHECKPOINTS / "tiny_tdt.nemo", model)
    protocol = {"warmup_rounds": 0, "measured_rounds": 1000}
    config = tmp_path / "config.json"
    config.write_text(json.dumps(small_config(models=[str(model)], protocol=protocol)))
    process = popen([program, "run", config, "--output", tmp_path / "run"])
    wait_until(process, lambda: rounds_in(journal) > 0)
    os.truncate(model, 4096)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    assert re.search(r"rtfx: error: .+: a mapped file was shortened, or shared memory is full \(signal 7\)", errors)
    assert runs_of(strict_records(journal))
