"""Tests boosted words in a run: a misheard word is recognised, and the figures show it."""

import json

import pytest
from conftest import AUDIO, MODELS, runs_of, strict_records
from forked_script import script
from test_report import Page, report

# The small model hears "let" for "knit", and the language model finds "knit" unlikely too.
LEXICON = """\
knit ▁kn it
let ▁let
make ▁make
one ▁one
together ▁together
two ▁two
"""
LM = """\
\\data\\
ngram 1=8

\\1-grams:
-99 <s>
-1 </s>
-3 knit
-0.7 let
-0.7 make
-0.7 one
-0.7 together
-0.7 two

\\end\\
"""
SCALES = [0, 28, 32]


@pytest.fixture(scope="module")
def boosted(rtfx, tmp_path_factory):
    """Decodes seven utterances without boosting and with "knit" boosted by each scale."""
    folder = tmp_path_factory.mktemp("boosted")
    (folder / "lexicon").write_text(LEXICON)
    (folder / "lm").write_text(LM)
    (folder / "words").write_text("Knit 1\nknit 1\nunheard-of 1\ntwo -0.1\n")
    options = {"graph": "words.tlg", "beam": 100}
    config = {
        "question": "Are boosted words recognised?",
        "device": "cpu",
        "threads": 1,
        "models": [str(MODELS / "quickstart-rnnt.nemo")],
        "datasets": [{"id": "knit", "manifest": str(AUDIO / "manifest.jsonl"), "limit": 7}],
        "prepare": [{"graph": "words.tlg", "lexicon": "lexicon", "lm": "lm"}],
        "decoders": [
            {"id": "plain", "name": "ctc_wfst_cpu", "options": options},
            {
                "id": "boosted",
                "name": "ctc_wfst_cpu",
                "options": options | {"boost": {"path": "words", "scale": SCALES}},
            },
        ],
        "batch_sizes": [8],
        "protocol": {"warmup_rounds": 0, "measured_rounds": 1},
    }
    (folder / "config.json").write_text(json.dumps(config))
    result = rtfx("run", folder / "config.json", "--output", folder / "run")
    assert result.returncode == 0, result.stderr
    return folder / "run", result.stdout


def by_decoder(folder):
    return {r["decoder"]["id"]: r for r in runs_of(strict_records(folder / "journal.jsonl"))}


def test_boosting_raises_the_recall_of_the_word(boosted):
    runs = by_decoder(boosted[0])
    assert "boosted" not in runs["plain"]
    counts = [runs[f"boosted[boost.scale={scale}]"]["boosted"] for scale in SCALES]
    texts = [json.loads(line)["text"] for line in (AUDIO / "manifest.jsonl").open()][:7]
    said = sum(text.split().count("knit") for text in texts)
    for c in counts:
        assert c["words"] == 1 and c["left_out"] == 1  # "unheard-of" is two words, so it is left out
        assert c["occurrences"] == said
        assert c["recall"] == c["recalled"] / said
    recalls = [c["recall"] for c in counts]
    assert recalls[0] < recalls[1] < recalls[2]
    assert recalls[2] > 0.5
    assert runs["boosted[boost.scale=32]"]["wer"]["wer"] < runs["plain"]["wer"]["wer"]


def test_scale_0_is_the_search_without_a_list(boosted):
    runs = by_decoder(boosted[0])
    unboosted = runs["boosted[boost.scale=0]"]
    assert unboosted["hypotheses_sha256"] == runs["plain"]["hypotheses_sha256"]
    assert unboosted["boosted"]["occurrences"] > 0


def test_counts_follow_from_the_texts(boosted):
    """Each "knit" in a text counts either as recalled or as a false alarm."""
    for name, run in by_decoder(boosted[0]).items():
        if name == "plain":
            continue
        lines = (boosted[0] / "hypotheses" / f"{run['result_key']}.jsonl").read_text().splitlines()
        heard = sum(json.loads(line)["text"].split().count("knit") for line in lines)
        assert run["boosted"]["recalled"] + run["boosted"]["false_alarms"] == heard, name


def test_table_compare_and_export_have_the_figures(rtfx, boosted):
    folder, table = boosted
    run = by_decoder(folder)["boosted[boost.scale=32]"]["boosted"]
    recall, precision = (f"{100 * run[key]:.2f}" for key in ("recall", "precision"))
    rows = {line.split()[0]: line for line in table.splitlines() if line.startswith("  ")}
    assert f"recall {recall}  precision {precision}" in rows["boosted[boost.scale=32]"]
    assert "recall" not in rows["plain"] and "recall: % of the boosted words'" in table
    lines = rtfx("export", folder, "--to", "csv").stdout.splitlines()
    column = lines[0].split(",").index("boosted.recall")
    values = {line.split(",")[3]: line.split(",")[column] for line in lines[1:]}
    assert values["plain"] == "" and float(values["boosted[boost.scale=32]"]) == run["recall"]
    compared = rtfx("compare", folder, folder).stdout
    assert f"boosted.recall            {recall} %" in compared


def test_another_scorer_leaves_the_counts_out(rtfx, boosted, tmp_path):
    result = rtfx("rescore", boosted[0], "--scorer", "none", "--output", tmp_path / "other")
    assert result.returncode == 0, result.stderr
    assert not any("boosted" in run for run in by_decoder(tmp_path / "other").values())


def test_page_and_figure(boosted, tmp_path):
    result = report(boosted[0], "-o", tmp_path / "page.html")
    assert result.returncode == 0, result.stderr
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert {"boosted", "boost"} <= set(page.ids)
    run = by_decoder(boosted[0])["boosted[boost.scale=32]"]["boosted"]
    cells = [cell.strip() for cell in page.texts["td"]]
    assert f"{100 * run['recall']:.2f}" in cells and str(run["false_alarms"]) in cells
    assert script("plots/boost.py", boosted[0], "-o", tmp_path / "boost.png").returncode == 0
