"""Tests how a user asks for boosted phrases and allowed characters: for a run, for an utterance, and in `rtfx
transcribe`."""

import json

import pytest
from conftest import AUDIO, MODELS, runs_of, strict_records

MODEL = MODELS / "quickstart-tdt.nemo"
KNIT = AUDIO / "1737-146161-0007.flac"  # says "knit two together twice"
BOOST = {"phrases": ["knit two together", {"phrase": "knit", "weight": 2}], "scale": 9}


@pytest.fixture(scope="module")
def run(rtfx, tmp_path_factory):
    folder = tmp_path_factory.mktemp("phrases")
    manifest = [json.loads(line) for line in (AUDIO / "manifest.jsonl").read_text().splitlines()[:7]]
    for line in manifest:
        line["audio_filepath"] = str(AUDIO / line["audio_filepath"])
    manifest[1]["boost"] = BOOST["phrases"]
    manifest[2]["allowed"] = ["U+0061-U+006D"]
    (folder / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in manifest))
    rules = {"scale": BOOST["scale"]}
    config = {
        "question": "Do utterances have what they ask for?",
        "device": "cpu",
        "threads": 1,
        "models": [str(MODEL)],
        "datasets": [{"id": "knit", "manifest": "manifest.jsonl"}],
        "decoders": [
            "label_looping",
            {"id": "all", "name": "label_looping", "options": {"boost": BOOST | {"utterances": False}}},
            {"id": "some", "name": "label_looping", "options": {"boost": rules}},
            {"id": "ctc", "name": "ctc_greedy", "options": {"boost": rules}},
            {"id": "beam", "name": "alsd_pp", "options": {"boost": rules | {"scale": 3}}},
        ],
        "batch_sizes": [4],
        "verify": {"required": {"fp32": "different"}},
        "protocol": {"warmup_rounds": 0, "measured_rounds": 1},
    }
    (folder / "config.json").write_text(json.dumps(config))
    result = rtfx("run", folder / "config.json", "--output", folder / "run")
    assert result.returncode == 0, result.stderr
    runs = {r["decoder"]["id"]: r for r in runs_of(strict_records(folder / "run/journal.jsonl"))}
    texts = {
        name: [line["text"] for line in strict_records(folder / f"run/hypotheses/{r['result_key']}.jsonl")]
        for name, r in runs.items()
    }
    return runs, texts


def test_transcribe_says_that_it_does_not_follow_them(rtfx, tmp_path):
    lines = [{"audio_filepath": str(KNIT), "boost": ["knit"]}, {"audio_filepath": str(AUDIO / "qs01.flac"), "allowed": ["latin"]}]
    (tmp_path / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = rtfx("transcribe", "--model", MODEL, "--device", "cpu", tmp_path / "manifest.jsonl")
    assert result.returncode == 0, result.stderr
    assert "2 of the manifest's utterances have boost or allowed of their own, which transcribe does not follow" in result.stderr


def test_utterances_have_what_they_ask_for(run):
    runs, texts = run
    plain, every, some = (texts[name] for name in ["label_looping", "all", "some"])
    assert "knit two together" in some[1] and "knit" not in plain[1]
    assert some[1] == every[1] and some[2] != plain[2]
    assert not set(some[2]) & set("nopqrstuvwxyz")
    assert [some[i] for i in [0, 3, 4, 5, 6]] == [plain[i] for i in [0, 3, 4, 5, 6]]
    assert "knit" in texts["beam"][1] and "knit" in texts["ctc"][1]


def test_figures_and_replay(run):
    runs, _ = run
    assert "boosted" not in runs["label_looping"]
    every, some = runs["all"]["boosted"], runs["some"]["boosted"]
    assert every["words"] == 1 and every["phrases"]["count"] == 2
    assert every["phrases"]["occurrences"] > some["phrases"]["occurrences"] == 2
    assert some["phrases"]["recalled"] == 2 and some["f_score"] == 1
    for name in ["label_looping", "all", "some", "ctc"]:
        replay = runs[name]["exactness"]["replay"]
        assert replay["decisions"] > 0 and replay["beyond"] == 0, name
        assert "replay_left_out" not in runs[name]["exactness"]
    assert runs["beam"]["exactness"]["replay"] is None
    assert runs["beam"]["exactness"]["replay_left_out"].startswith("scores of a beam")


def test_transcribe(rtfx, tmp_path):
    def text(*arguments):
        result = rtfx("transcribe", "--model", MODEL, *arguments, KNIT)
        assert result.returncode == 0, result.stderr
        return result.stdout

    (tmp_path / "phrases.txt").write_text("knit two together\nknit\t2\n")
    scale = ["--options", '{"boost": {"scale": 9}}']
    found = text("--boost", tmp_path / "phrases.txt", *scale)
    assert "knit two together" in found and "knit" not in text()
    assert "knit" in text("--boost-phrase", "knit", "--boost-phrase", "marmalade", *scale)
    assert not set(text("--allowed", "U+0061-U+006D").strip()) & set("nopqrstuvwxyz")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--boost-phrase", "Kn%t"], "cannot spell 'Kn%t'"),
        (["--boost-phrase", " "], "--boost-phrase: the phrase is empty"),
        (["--boost-phrase", "Kn%t", "--options", '{"boost": {"phrases": ["river"]}}'], "--boost-phrase: the model's tokenizer"),
        (["--boost-phrase", "river", "--options", '{"boost": {"phrases": ["Kn%t"]}}'], "--options/boost/phrases/0: the model's"),
        (["--allowed", "lattin"], "--allowed: 'lattin' names no characters"),
        (["--options", '{"allowed": "lattin"}'], "--options/allowed: 'lattin' names no characters"),
        (["--decoder", "nonsense"], "--decoder: unknown decoder 'nonsense'"),
        (["--options", '{"boost": {"phrases": [{"phrase": "a", "weight": -1}]}}'], "the weight of 'a' is -1"),
        (["--options", '{"boost": {"alpha": 1}}'], "unknown option 'alpha'"),
        (["--boost", "none.txt"], "--boost: no such file"),
        (["--decoder", "step_replay", "--boost-phrase", "a"],
         "--boost-phrase: step_replay has no boosting of phrases; choose one of aes_pp, alsd_pp, ctc_beam, ctc_greedy, "),
        (["--decoder", "step_replay", "--options", '{"boost": {}}'], "--options/boost: unknown option 'boost'"),
    ],
)
def test_refusals(rtfx, arguments, complaint):
    result = rtfx("transcribe", "--model", MODEL, *arguments, KNIT)
    assert result.returncode != 0 and complaint in result.stderr
    assert result.stderr.count("\n") == 1
