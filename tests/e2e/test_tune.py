"""Tests `rtfx tune`: a language model's weight chosen on a development set, and the configuration it writes."""

import csv
import io
import json
import re
import shutil
import time

import pytest
from conftest import AUDIO, MODELS, is_locked, rounds_in, runs_of, small_config, strict_records, wait_until
from test_language_model import arpa

TUNE = {"decoder": "with_lm", "dataset": {"id": "dev", "manifest": str(AUDIO / "manifest.jsonl"), "limit": 3},
        "options": {"lm.alpha": [0, 2]}, "grid": 3, "tolerance": 0.3}  # fmt: skip
QUICK = TUNE | {"grid": 2, "tolerance": 1}
DECODERS = [
    "frame_looping",
    {"id": "with_lm", "name": "label_looping", "options": {"lm": {"path": "lm.arpa"}}},
]


@pytest.fixture(scope="module")
def tuned(rtfx, tmp_path_factory):
    """Returns a folder and what `rtfx tune` printed there. To its language model, all but two tokens are unlikely."""
    folder = tmp_path_factory.mktemp("tune")
    (folder / "lm.arpa").write_text(arpa({7: -0.3, 8: -0.3}))
    config = small_config(decoders=DECODERS, tune=TUNE, batch_sizes=[2, 1])
    (folder / "config.json").write_text(json.dumps(config))
    result = rtfx("tune", folder / "config.json", "--output", folder / "run")
    assert result.returncode == 0, result.stderr
    return folder, result.stdout


def rows_of(text):
    """Returns {weight: (WER in %, low, high, errors, chosen)}."""
    row = r"^ +(\S+) +([\d.]+) +([\d.]+) - +([\d.]+) +(\d+)(  <- chosen)?$"
    return {
        float(m[1]): (*map(float, m.group(2, 3, 4)), int(m[5]), bool(m[6]))
        for m in re.finditer(row, text, re.M)
    }


def test_the_curve_and_what_is_chosen(tuned):
    folder, text = tuned
    assert "with_lm on dev: 3 utterances" in text and "scorer basic_english" in text
    rows = rows_of(text)
    assert list(rows) == sorted(rows) and {0, 1, 2} < set(rows)
    assert all(low <= wer <= high for wer, low, high, *_ in rows.values())
    (chosen,) = [weight for weight, row in rows.items() if row[4]]
    fewest = min(row[3] for row in rows.values())
    assert chosen == min(weight for weight, row in rows.items() if row[3] == fewest)
    assert rows[2][3] > fewest  # a large weight of such a model does harm
    written = json.loads((folder / "config.tuned.json").read_text())
    assert written["decoders"][1]["options"] == {"lm": {"path": "lm.arpa", "alpha": chosen}}
    found = written["tune"][0]["chosen"]
    assert found["options"] == {"lm.alpha": chosen} and found["utterances"] == 3
    assert 100 * found["wer"] == pytest.approx(rows[chosen][0], abs=0.005)


def test_one_utterance_gives_no_interval(rtfx, config, tmp_path):
    spec = QUICK | {"decoder": "label_looping", "options": {"blank_penalty": [0, 1]}}
    spec["dataset"] = TUNE["dataset"] | {"limit": 1}
    path = config(decoders=["label_looping"], tune=spec)
    result = rtfx("tune", path, "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    assert len(re.findall(r"^ +[01] +[\d.]+ +none +\d+", result.stdout, re.M)) == 2
    (found,) = json.loads((tmp_path / "config.tuned.json").read_text())["tune"]
    assert found["chosen"]["interval"] is None and found["chosen"]["utterances"] == 1


def test_the_journal_resumes(tuned, rtfx, tmp_path):
    folder, text = tuned
    journal = folder / "run/tune/with_lm/journal.jsonl"
    measured = runs_of(strict_records(journal))
    assert len(measured) == len(rows_of(text))
    again = rtfx("tune", folder / "config.json", "--output", folder / "run")
    assert again.returncode == 2 and "--resume" in again.stderr
    resumed = rtfx("tune", folder / "config.json", "--output", folder / "run", "--resume")
    assert resumed.returncode == 0 and resumed.stdout == text
    assert len(runs_of(strict_records(journal))) == len(measured)


def test_a_missing_file_costs_no_earlier_journal(tuned, rtfx, tmp_path):
    folder, _ = tuned
    config = json.loads((folder / "config.json").read_text())
    config["decoders"][1]["options"]["lm"]["path"] = "absent.arpa"
    (folder / "absent.json").write_text(json.dumps(config))
    shutil.copytree(folder / "run", tmp_path / "run")
    before = (tmp_path / "run/tune/with_lm/journal.jsonl").read_bytes()
    result = rtfx("tune", folder / "absent.json", "--output", tmp_path / "run", "--force")
    assert result.returncode == 2 and "absent.arpa" in result.stderr
    assert (tmp_path / "run/tune/with_lm/journal.jsonl").read_bytes() == before


def test_the_journal_is_locked_for_the_whole_search(tuned, popen, program, tmp_path):
    folder, _ = tuned
    command = [program, "tune", folder / "config.json", "--output", tmp_path / "run", "--write", folder / "locked.tuned.json"]
    process = popen(command)
    journal = tmp_path / "run/tune/with_lm/journal.jsonl"
    wait_until(process, lambda: rounds_in(journal) > 0)
    samples = []
    while process.poll() is None:
        samples.append((is_locked(journal), journal.stat().st_size))
        time.sleep(0.005)
    assert process.returncode == 0, process.communicate()
    whole = journal.stat().st_size
    # The size is read after the lock. Once the lock is gone, no record may follow.
    unlocked = [size for locked, size in samples if not locked]
    assert samples[0][0] and samples[0][1] < whole and set(unlocked) <= {whole}


def test_close_weights_are_cases_of_their_own(rtfx, tmp_path):
    """With six digits, two of these weights would have one name."""
    (tmp_path / "lm.arpa").write_text(arpa({7: -0.3, 8: -0.3}))
    close = TUNE | {"options": {"lm.alpha": [99.9999, 100]}, "tolerance": 1}
    (tmp_path / "config.json").write_text(json.dumps(small_config(decoders=DECODERS, tune=close)))
    result = rtfx("tune", tmp_path / "config.json", "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    assert set(rows_of(result.stdout)) == {99.9999, 99.99995, 100}
    runs = runs_of(strict_records(tmp_path / "run/tune/with_lm/journal.jsonl"))
    assert {run["decoder"]["id"] for run in runs} == {f"with_lm[lm.alpha={w}]" for w in ("99.9999", "99.99995", "100")}


def test_lost_hypotheses_are_named(tuned, rtfx, tmp_path):
    folder, _ = tuned
    shutil.copytree(folder / "run", tmp_path / "run")
    lost = sorted((tmp_path / "run/tune/with_lm/hypotheses").iterdir())[0]
    lost.unlink()
    result = rtfx("tune", folder / "config.json", "--output", tmp_path / "run", "--resume")
    assert result.returncode == 2
    assert f"{lost}: no such file" in result.stderr and "--force" in result.stderr


def test_a_resumed_search_counts_its_own_cases_alone(tuned, rtfx, tmp_path):
    """A resumed search counts its own cases alone. In the same folder lie those with another batch size, and of another
    set with the same id."""
    folder, text = tuned
    curve = ("tune", folder / "config.json", "--output", tmp_path / "run", "--write", folder / "again.tuned.json")
    assert rtfx(*curve).returncode == 0
    fewer = json.dumps(TUNE | {"dataset": TUNE["dataset"] | {"limit": 2}})
    for change in ("batch_sizes=[1]", f"tune={fewer}"):
        other = rtfx(*curve, "--resume", "--set", change)
        assert other.returncode == 0 and f"with_lm on dev: {2 if 'tune' in change else 3} utterances" in other.stdout
    again = rtfx(*curve, "--resume")
    assert again.returncode == 0 and rows_of(again.stdout) == rows_of(text)
    assert "with_lm on dev: 3 utterances" in again.stdout


def test_models_share_utterances_and_journals_keep_what_was_chosen(rtfx, config, tmp_path):
    (tmp_path / "lm.arpa").write_text(arpa({7: -0.3, 8: -0.3}))
    models = [str(MODELS / f"quickstart-{kind}.nemo") for kind in ("rnnt", "tdt")]
    path = config(models=models, decoders=DECODERS, tune=QUICK)
    result = rtfx("tune", path, "--output", tmp_path / "run")
    assert result.returncode == 0 and "with_lm on dev: 3 utterances" in result.stdout, result.stderr
    (tuned_path,) = tmp_path.glob("*.tuned.json")
    (entry,) = json.loads(tuned_path.read_text())["tune"]
    assert entry["chosen"]["utterances"] == 3
    one = ["--set", f"models={json.dumps(models[:1])}", "--set", f"datasets.0={json.dumps(TUNE['dataset'])}"]
    assert rtfx("run", tuned_path, "--output", tmp_path / "tuned", *one).returncode == 0
    about = strict_records(tmp_path / "tuned/journal.jsonl")[0]
    assert about["config"]["tune"][0]["chosen"] == entry["chosen"]
    assert rtfx("report", tmp_path / "tuned").returncode == 0
    weight = entry["chosen"]["options"]["lm.alpha"]
    page = (tmp_path / "tuned/report.html").read_text()
    sentence = f"rtfx tune chose the weights of with_lm on dev (3 utterances): lm.alpha {weight}."
    assert sentence in page
    assert f"\n{sentence}\n" in rtfx("compare", tmp_path / "tuned").stdout
    assert json.loads(rtfx("compare", tmp_path / "tuned", "--json").stdout)["tuned"] == [sentence]
    both = [tmp_path / "tuned"] * 2
    assert f"A: {sentence}\nB: {sentence}\n" in rtfx("compare", *both).stdout
    assert json.loads(rtfx("compare", *both, "--json").stdout)["tuned_b"] == [sentence]
    check_exports(rtfx, tmp_path / "tuned", sentence)


def check_exports(rtfx, run, sentence):
    """Asserts that every format with a place for remarks states the sentence, for the tuned decoder alone."""

    def export(format):
        result = rtfx("export", run, "--to", format)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def is_tuned(name):
        return "with_lm" in name

    assert json.loads(export("gbench"))["context"]["rtfx_tuned"] == sentence
    assert all(("tuned" in measures) == is_tuned(name) for name, measures in json.loads(export("bmf")).items())
    assert all((sentence in entry["extra"]) == is_tuned(entry["name"]) for entry in json.loads(export("github-action")))
    marks = [line for line in export("prometheus").splitlines() if 'mark="tuned"' in line]
    assert marks and all(map(is_tuned, marks))
    rows = list(csv.DictReader(io.StringIO(export("csv"))))
    assert {row["tuned"] for row in rows if is_tuned(row["case"])} == {sentence}
    assert {row["tuned"] for row in rows if not is_tuned(row["case"])} == {""}
    for table in ("markdown", "latex"):
        assert sentence.replace("_", "\\_") in export(table)


def test_a_run_says_that_it_was_tuned_on_its_test_set(tuned, rtfx, tmp_path):
    folder, _ = tuned
    for dataset, noticed in ((TUNE["dataset"], True), (TUNE["dataset"] | {"manifest": str(folder / "other.jsonl")}, False)):
        (folder / "other.jsonl").write_text(json.dumps({"audio_filepath": str(AUDIO / "1737-146161-0011.flac"), "text": "a"}))
        result = rtfx("run", folder / "config.tuned.json", "--output", tmp_path / "run", "--force",
                      "--set", f"datasets.0={json.dumps(dataset)}")  # fmt: skip
        assert result.returncode == 0, result.stderr
        assert ("of the development set dev are in the set dev too" in result.stderr) == noticed


def test_the_configuration_runs(tuned, rtfx):
    folder, text = tuned
    override = ["--set", f"datasets.0={json.dumps(TUNE['dataset'])}", "--set", "batch_sizes=[2]"]
    result = rtfx("run", folder / "config.tuned.json", "--output", folder / "tuned", *override)
    assert result.returncode == 0, result.stderr
    (record,) = [
        r for r in runs_of(strict_records(folder / "tuned/journal.jsonl")) if r["decoder"]["id"] == "with_lm"
    ]
    (chosen,) = [row for row in rows_of(text).values() if row[4]]
    assert 100 * record["wer"]["wer"] == pytest.approx(chosen[0], abs=0.005)


def test_ways_of_fusion_are_choices(rtfx, tmp_path):
    """Each way of fusion is searched by itself, and the development set is not measured."""
    (tmp_path / "lm.arpa").write_text(arpa({7: -0.3, 8: -0.3}))
    beam = {"id": "beam", "name": "alsd_pp", "options": {"beam_size": 2, "lm": {"path": "lm.arpa"}}}
    same = beam | {"id": "same", "options": beam["options"] | {"score_norm": False}}
    lines = [line for line in (AUDIO / "manifest.jsonl").read_text().splitlines() if line]
    for name, part in (("dev", lines[:3]), ("test", lines[3:5])):
        objects = [json.loads(line) for line in part]
        for one in objects:
            one["audio_filepath"] = str(AUDIO / one["audio_filepath"])
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in objects))
    ways = {"lm.pruning": ["late", "early"], "lm.blank_scoring": ["lm_weighted_full", "no_score"]}
    config = small_config(
        datasets=[{"id": "test", "manifest": "test.jsonl"}], decoders=["frame_looping", beam, same],
        batch_sizes=[3],
        tune={"decoder": "beam", "shared_with": ["same"], "dataset": {"id": "dev", "manifest": "dev.jsonl"},
              "options": {"lm.alpha": [0, 2], **ways}, "grid": 2, "tolerance": 0.5},
    )  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = rtfx("tune", tmp_path / "config.json", "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    assert "too good" not in result.stderr
    rows = re.findall(r"^ +(\S+) +(lm_weighted_full|no_score) +(late|early) .* (\d+)(?:  <- (.*))?$", result.stdout, re.M)
    assert {row[1:3] for row in rows} == {(b, p) for b in ways["lm.blank_scoring"] for p in ways["lm.pruning"]}
    marks = [row[4] for row in rows if row[4]]
    assert marks.count("chosen") == 1 and marks.count("best of its choices") == 3
    (best,) = [row for row in rows if row[4] == "chosen"]
    assert int(best[3]) == min(int(row[3]) for row in rows)
    written = json.loads((tmp_path / "config.tuned.json").read_text())
    chosen = written["tune"][0]["chosen"]["options"]
    assert (f"{chosen['lm.alpha']:g}", chosen["lm.blank_scoring"], chosen["lm.pruning"]) == best[:3]
    fused = written["decoders"][1]["options"]["lm"]
    assert (fused["pruning"], fused["blank_scoring"]) == (chosen["lm.pruning"], chosen["lm.blank_scoring"])
    shared = written["decoders"][2]["options"]
    assert shared["lm"] == fused and shared["score_norm"] is False


def test_a_development_set_among_the_measured_ones_is_noticed(rtfx, tmp_path, config):
    (tmp_path / "lm.arpa").write_text(arpa({}))
    measured = [{"id": "test", "manifest": TUNE["dataset"]["manifest"]}]
    path = config(datasets=measured, decoders=DECODERS, tune=QUICK)
    result = rtfx("tune", path, "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    assert "3 of the 3 utterances of the development set dev are in the set test too" in result.stderr


def test_notices_about_a_development_set_come_once(rtfx, tmp_path, config):
    """The search measures several times, and each time reads the set again."""
    (tmp_path / "lm.arpa").write_text(arpa({}))
    tune = TUNE | {"dataset": TUNE["dataset"] | {"stand_in": "read by colleagues"}}
    result = rtfx("tune", config(decoders=DECODERS, tune=tune, batch_sizes=[8]), "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    assert len(rows_of(result.stdout)) > TUNE["grid"]
    lines = result.stderr.splitlines()
    assert lines.count("rtfx: notice: dev: stand-in data: read by colleagues") == 1
    assert sum("a batch of 8 holds no more" in line for line in lines) == 1


@pytest.mark.parametrize("restriction, measured", [(["tdt"], ["tdt"]), (["tdt", "quickstart-rnnt"], ["rnnt", "tdt"])])
def test_a_decoder_may_be_for_kinds_of_models(rtfx, config, tmp_path, restriction, measured):
    (tmp_path / "lm.arpa").write_text(arpa({}))
    models = [str(MODELS / f"quickstart-{kind}.nemo") for kind in ("rnnt", "tdt")]
    path = config(models=models, decoders=[DECODERS[0], DECODERS[1] | {"models": restriction}], tune=QUICK)
    result = rtfx("tune", path, "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    runs = runs_of(strict_records(tmp_path / "run/tune/with_lm/journal.jsonl"))
    assert {run["model"]["id"] for run in runs} == {f"quickstart-{kind}" for kind in measured}
    none = rtfx("tune", path, "--output", tmp_path / "none", "--set", "decoders.1.models=multiblank")
    assert none.returncode == 2 and "#/tune/decoder: 'with_lm' is for none of the models" in none.stderr


def test_words_alone_are_measured(rtfx, config, tmp_path):
    """A search measures words alone, without the decoder's baseline, energy and confidence. A key with null counts as
    absent."""
    decoder = {"id": None, "name": "label_looping", "options": None, "baseline": "frame_looping"}
    spec = QUICK | {"decoder": "label_looping", "options": {"blank_penalty": [0, 1]}}
    protocol = {"warmup_rounds": 0, "measured_rounds": 1, "energy_seconds": 3}
    path = config(decoders=["frame_looping", decoder], tune=spec, confidence={"method": "entropy"}, protocol=protocol)
    result = rtfx("tune", path, "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    measured = strict_records(tmp_path / "run/tune/label_looping/journal.jsonl")[0]["config"]
    assert measured["protocol"]["energy_seconds"] == 0 and not measured.get("confidence")
    written = json.loads((tmp_path / "config.tuned.json").read_text())["decoders"][1]
    assert written["options"].keys() == {"blank_penalty"}


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"decoder": "with_lmm"}, "did you mean 'with_lm'"),
        ({"dataset": "dev"}, "unknown dataset id 'dev'"),
        ({"options": {"lm.alpa": [0, 1]}}, "did you mean 'lm.alpha'"),
        ({"options": {"lm.path": [0, 1]}}, "unknown option that is a number 'lm.path'"),
        ({"options": {"lm.alpha": [1, 0]}}, "two numbers, the smaller one first"),
        ({"options": {"lm.alpha": [0, 1000]}}, "a number 0..100"),
        ({"options": {}}, "OPTION"),
        ({"options": {"lm.pruning": ["late"]}}, "different texts to choose among"),
        ({"options": {"lm.pruning": ["late", "late"]}}, "different texts to choose among"),
        ({"options": {"lm.alpha": ["late", "early"]}}, "unknown option with choices 'lm.alpha'"),
        ({"grid": 1}, "an integer 2..100"),
        ({"shared_with": ["with_lmm"]}, "did you mean 'with_lm'"),
        ({"shared_with": ["frame_looping"]}, "/shared_with/0/lm"),  # frame_looping has no language model
        ({"shared_with": ["with_lm"]}, "decoder 'with_lm' gets values from"),
        ({"models": ["with"]}, "unknown model id 'with'"),
    ],
)
def test_errors(rtfx, config, tmp_path, changes, message):
    (tmp_path / "lm.arpa").write_text(arpa({}))
    path = config(decoders=DECODERS, tune=TUNE | changes)
    result = rtfx("tune", path)
    assert result.returncode == 2 and "#/tune" in result.stderr and message in result.stderr


def test_flags_of_the_search_are_not_written(rtfx, config, tmp_path):
    (tmp_path / "lm.arpa").write_text(arpa({}))
    path = config(decoders=DECODERS, tune=QUICK, device=None, threads=None)
    target = tmp_path / "my tuned.json"
    result = rtfx("tune", path, "--device", "cpu", "--threads", 1, "--output", tmp_path / "run", "--write", target,
                  "--set", "question=Which weight?")  # fmt: skip
    assert result.returncode == 0, result.stderr
    written = json.loads(target.read_text())
    assert written["question"] == "Which weight?" and not written.keys() & {"device", "threads", "output"}
    assert "my tuned.json keeps what --set gives to question\n" in result.stderr
    assert result.stdout.endswith(f"next: rtfx run '{target}'\n")


@pytest.mark.parametrize("text, message", [("", "dataset 'second': has no texts"), (None, "second.jsonl: no such file")])
def test_every_development_set_is_checked_before_the_first_search(rtfx, config, tmp_path, text, message):
    (tmp_path / "lm.arpa").write_text(arpa({}))
    second = tmp_path / "second.jsonl"
    if text is not None:
        second.write_text(json.dumps({"audio_filepath": str(AUDIO / "1737-146161-0011.flac"), "text": text}))
    other = {"decoder": "frame_looping", "dataset": {"id": "second", "manifest": str(second)}, "options": {"blank_penalty": [0, 1]}}
    result = rtfx("tune", config(decoders=DECODERS, tune=[QUICK, other]), "--output", tmp_path / "run")
    assert result.returncode == 2 and message in result.stderr, result.stderr
    assert not (tmp_path / "run").exists()


def test_without_the_key_or_into_another_folder(rtfx, config, tmp_path):
    assert 'has no key "tune"' in rtfx("tune", config()).stderr
    (tmp_path / "lm.arpa").write_text(arpa({}))
    result = rtfx("tune", config(decoders=DECODERS, tune=TUNE), "--write", tmp_path / "other/tuned.json")
    assert result.returncode == 2 and "another folder than the configuration" in result.stderr
