"""Tests words that a decoding graph lacks, and boosts of single utterances."""

import json
import re
import subprocess

import pytest
from conftest import AUDIO, MODELS, ROOT, runs_of, strict_records
from test_boosting import LEXICON, LM

MODEL = MODELS / "quickstart-rnnt.nemo"
# The other graph has this spelling. Its 1-gram of 10^-3 gives this cost.
KNIT_ENTRY = {"phrase": "knit", "cost": 6.9078, "tokens": ["▁kn", "it"]}
KNIT = AUDIO / "1737-146161-0007.flac"  # says "knit two together twice"


def without_knit(text):
    return "".join(line for line in text.splitlines(True) if "knit" not in line).replace("ngram 1=8", "ngram 1=7")


@pytest.fixture(scope="module")
def folder(rtfx, tmp_path_factory):
    """Builds a graph that lacks "knit", and one that has it, and returns their folder."""
    folder = tmp_path_factory.mktemp("words")
    for name, change in {"without": without_knit, "with": str}.items():
        (folder / f"{name}.lexicon").write_text(change(LEXICON))
        (folder / f"{name}.arpa").write_text(change(LM))
        result = rtfx("graph", "build", "--tokenizer", MODEL, "--lexicon", folder / f"{name}.lexicon",
                      "--lm", folder / f"{name}.arpa", "--output", folder / f"{name}.tlg")
        assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture
def decode(rtfx, folder):
    def run(*arguments, graph="without", decoder="ctc_wfst_cpu", **options):
        options = {"graph": str(folder / f"{graph}.tlg"), "beam": 100} | options
        return rtfx("transcribe", "--model", MODEL, "--decoder", decoder, "--json", *arguments, "--options",
                    json.dumps(options), KNIT)

    return run


def line_of(result):
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_an_added_word_is_found_as_if_the_graph_had_it(decode, folder):
    plain = line_of(decode())
    assert "knit" not in plain["words"]
    (folder / "boost").write_text("knit 30\n")
    boost = {"path": str(folder / "boost")}
    built = line_of(decode(graph="with", boost=boost))
    added = line_of(decode(boost=boost, words={"phrases": [KNIT_ENTRY]}))
    assert "knit" in added["words"]
    for key in ("text", "words", "tokens"):
        assert added[key] == built[key]
    assert abs(added["score"] - built["score"]) < 0.1
    assert line_of(decode(words={"phrases": [{"phrase": "knit", "cost": 1000}]}))["text"] == plain["text"]


def test_other_tokens_and_phrases(decode, folder):
    (folder / "added").write_text("knit\t0\t▁let\ntwo together\t0\n")
    line = line_of(decode(words={"path": str(folder / "added")}))
    assert "let" not in line["words"] and "knit" in line["words"]
    assert " ".join(line["words"]).count("two together") == 1


def test_streams_find_added_words(rtfx, decode, folder):
    words = {"phrases": [{"phrase": "knit", "cost": 0, "tokens": ["▁let"]}]}
    options = json.dumps({"graph": str(folder / "without.tlg"), "beam": 100, "words": words})
    heard = rtfx("stream", "--model", MODEL, "--decoder", "ctc_wfst_cpu", "--options", options, KNIT)
    assert heard.returncode == 0, heard.stderr
    assert "knit" in heard.stdout.split() and "let" not in heard.stdout.split()


@pytest.fixture(scope="module")
def boosted(rtfx, folder):
    """Decodes seven utterances with "knit", of which two ask for a boost."""
    manifest = [json.loads(line) for line in (AUDIO / "manifest.jsonl").read_text().splitlines()[:7]]
    for line in manifest:
        line["audio_filepath"] = str(AUDIO / line["audio_filepath"])
    manifest[1]["boost"] = [{"phrase": "knit", "weight": 32}]
    manifest[2]["boost"] = ["knit", {"phrase": "two", "weight": 0.001}]
    (folder / "manifest.jsonl").write_text("".join(json.dumps(line) + "\n" for line in manifest))
    options = {"graph": "with.tlg", "beam": 100}
    config = {
        "question": "Do utterances have the boosts that they ask for?",
        "device": "cpu",
        "threads": 1,
        "models": [str(MODEL)],
        "datasets": [{"id": "knit", "manifest": "manifest.jsonl"}],
        "decoders": [
            {"id": name, "name": "ctc_wfst_cpu", "options": options | more}
            for name, more in {
                "plain": {},
                "some": {"boost": {"weight": 32}},
                "none": {"boost": {"utterances": False}},
                "added": {"boost": {"weight": 32}, "graph": "without.tlg", "words": {"phrases": [KNIT_ENTRY]}},
            }.items()
        ],
        "batch_sizes": [4],
        "verify": {"required": {"fp32": "different"}},
        "protocol": {"warmup_rounds": 0, "measured_rounds": 1},
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder / "config.json"


def test_utterances_have_the_boosts_that_they_ask_for(rtfx, boosted, tmp_path):
    result = rtfx("run", boosted, "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    runs = {r["decoder"]["id"]: r for r in runs_of(strict_records(tmp_path / "run/journal.jsonl"))}
    lines = {
        name: list(strict_records(tmp_path / f"run/hypotheses/{run['result_key']}.jsonl"))
        for name, run in runs.items()
    }
    plain, some, none, added = ([line["text"] for line in lines[name]] for name in ["plain", "some", "none", "added"])
    assert "knit" in some[1].split() and "knit" not in plain[1].split()
    assert "knit" in some[2].split()
    assert added[1] == some[1] and added[2] == some[2]
    others = [0, 3, 4, 5, 6]
    assert [lines["some"][i] for i in others] == [lines["plain"][i] for i in others]
    assert none == plain
    assert runs["some"]["boosted"]["recalled"] == runs["added"]["boosted"]["recalled"] >= 2


def test_a_boost_of_a_word_that_the_graph_lacks_names_its_line(rtfx, boosted, tmp_path):
    config = json.loads(boosted.read_text())
    config["decoders"] = [{"name": "ctc_wfst_cpu", "options": {"graph": "without.tlg", "boost": {}}}]
    path = boosted.parent / "lacking.json"
    path.write_text(json.dumps(config))
    result = rtfx("run", path, "--output", tmp_path / "run")
    assert result.returncode != 0
    complaint = "manifest.jsonl:2/boost/0: the graph has no word 'knit'; add it to the decoder's option \"words\""
    assert complaint in result.stdout


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"words": {"phrases": ["Kn%t"]}}, "the model's tokenizer cannot spell 'Kn%t'"),
        ({"words": {"phrases": [" "]}}, "the phrase is empty"),
        ({"words": {"phrases": [{"phrase": "knit", "cost": -1}]}}, "the cost of 'knit' is -1"),
        ({"words": {"phrases": [{"phrase": "knit", "tokens": ["▁kn", "?"]}]}}, "the token '?'"),
        ({"words": {"phrases": [{"phrase": "knit", "weight": 2}]}}, "weight"),
        ({"words": {"cost": 1001}}, "0..1000"),
        ({"words": {}}, "has no words to add"),
        ({"words": {"path": "none.txt"}}, "none.txt"),
        ({"boost": {"phrases": ["knit"]}}, "the graph has no word 'knit'"),
        ({"boost": {"phrases": [{"phrase": "two", "weight": -1}]}}, "the weight of 'two' is -1"),
    ],
)
def test_refusals(decode, options, complaint):
    result = decode(**options)
    assert result.returncode not in (0, None) and complaint in result.stderr, result.stderr
    assert result.stderr.count("\n") == 1


def test_examples_of_the_guide_run(program, tmp_path):
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs/words.md").read_text(), re.M | re.S)
    assert len(blocks) == 2
    for block, said in zip(blocks, [{"henderson", "railway"}, {"henderson", "railway", "london"}]):
        script = block.replace("build/release/rtfx", str(program)).replace("runs/", f"{tmp_path}/")
        result = subprocess.run(["bash", "-e", "-c", script], cwd=ROOT, capture_output=True, text=True)
        assert result.returncode == 0, f"{block}\n{result.stderr}"
        assert said <= set(result.stdout.split()), result.stdout
