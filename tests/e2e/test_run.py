"""Tests a run from end to end: the contents of the journal, grades, and a second run in the same folder."""

import json
import math

import pytest
from conftest import AUDIO, MODELS, ROOT, runs_of, small_config, strict_records

REGIONS = {"pad", "h2d", "features", "encoder", "decode", "d2h", "detokenize"}


@pytest.fixture(scope="module")
def finished(rtfx, tmp_path_factory):
    """Runs decoders of both heads at two batch sizes for two rounds. Returns the folder, its records and the output."""
    folder = tmp_path_factory.mktemp("finished")
    decoders = ["frame_looping", "label_looping", "ctc_greedy", "null"]
    protocol = {"warmup_rounds": 1, "measured_rounds": 2}
    config = small_config(decoders=decoders, batch_sizes=[1, 2], protocol=protocol)
    (folder / "config.json").write_text(json.dumps(config))
    result = rtfx("run", folder / "config.json", "--output", folder)
    assert result.returncode == 0, result.stderr
    return folder, strict_records(folder / "journal.jsonl"), result.stdout


def test_journal_holds_every_case_and_round_once(finished):
    records = runs_of(finished[1])
    expected = {
        (f"quickstart-rnnt/two/{decoder}/b{batch}/fp32", round)
        for decoder in ("frame_looping", "label_looping", "ctc_greedy", "null")
        for batch in (1, 2)
        for round in (0, 1)
    }
    assert {(record["case"], record["round"]) for record in records} == expected
    assert len(records) == len(expected)


def test_table_gives_no_decoding_speed_to_what_does_not_decode(finished):
    rows = {line.split()[0]: line for line in finished[2].splitlines() if line.startswith("  ")}
    assert rows["ctc_greedy"].count("±") == 2
    assert rows["null"].count("±") == 1


def test_first_record_tells_where_the_rest_came_from(finished):
    provenance = finished[1][0]
    assert provenance["kind"] == "provenance" and provenance["question"] == "Does it work?"
    assert provenance["device"]["type"] == "cpu" and provenance["cpu"]["threads"] == 1
    assert len(provenance["models"][0]["sha256"]) == 64
    assert provenance["datasets"][0]["utterances"] == 2
    assert {r["provenance_id"] for r in finished[1]} == {provenance["provenance_id"]}


def test_rates_follow_from_times(finished):
    for record in runs_of(finished[1]):
        seconds = {name: region["host_seconds"] for name, region in record["regions"].items()}
        assert set(seconds) == REGIONS
        audio, total = record["dataset"]["audio_seconds"], record["total_seconds"]
        assert math.isclose(total, sum(seconds.values()), rel_tol=1e-9)
        assert math.isclose(record["metrics"]["rtfx.total"], audio / total, rel_tol=1e-9)
        assert record["gap_seconds"] >= 0
        assert math.isclose(record["wall_seconds"], total + record["gap_seconds"], rel_tol=1e-9)
        assert math.isclose(
            record["metrics"]["rtfx.decode"], audio / seconds["decode"], rel_tol=1e-9
        )
        assert math.isclose(
            record["metrics"]["share.decode"], seconds["decode"] / total, rel_tol=1e-9
        )
    # On a busy machine, any round may have waited for a CPU.
    assert min(r["gap_seconds"] - 0.02 * r["wall_seconds"] for r in runs_of(finished[1])) <= 0.02


def test_decoders_of_a_round_share_the_encoder(finished):
    shared = {}
    for record in runs_of(finished[1]):
        key = record["batch"]["size"], record["round"]
        shared.setdefault(key, set()).add(record["regions"]["encoder"]["host_seconds"])
    assert all(len(times) == 1 for times in shared.values())


def test_exact_decoders_equal_the_baseline(finished):
    for record in runs_of(finished[1]):
        assert record["deterministic"]
        if record["decoder"]["id"] == "label_looping":
            assert record["exactness"]["baseline"] == "frame_looping"
            assert record["exactness"]["grade"] in ("bitwise", "exact")
            assert sum(record["exactness"]["grades"].values()) == 2
            assert record["exactness"]["first_difference"] is None


def test_word_errors_are_counted(finished):
    references = [json.loads(line)["text"] for line in (ROOT / "tests/data/two.jsonl").read_text().splitlines()]
    words = sum(len(text.split()) for text in references)
    for record in runs_of(finished[1]):
        wer = record["wer"]
        assert wer["reference_words"] == words
        edits = wer["substitutions"] + wer["insertions"] + wer["deletions"]
        assert math.isclose(wer["wer"], edits / words)
        if record["decoder"]["name"] == "null":
            assert wer["deletions"] == words


def test_a_summary_for_each_case(finished):
    summaries = [record for record in finished[1] if record["kind"] == "summary"]
    assert {s["case"] for s in summaries} == {r["case"] for r in runs_of(finished[1])}
    assert all(s["rounds"] == 2 and isinstance(s["noisy"], bool) for s in summaries)


def test_hypotheses_stand_beside_the_journal(finished):
    folder, records, _ = finished
    for record in runs_of(records):
        lines = (folder / "hypotheses" / f"{record['result_key']}.jsonl").read_text().splitlines()
        found = [json.loads(line) for line in lines]
        assert len(found) == 2 and all(line["reference"] for line in found)
        if record["decoder"]["name"] == "label_looping":
            assert all(len(line["tokens"]) == len(line["frames"]) > 0 for line in found)


def test_table_shows_every_decoder(finished):
    for word in ("frame_looping", "label_looping", "ctc_greedy", "RTFx", "baseline"):
        assert word in finished[2]


def test_report_prints_the_table_and_makes_the_page(rtfx, finished):
    folder = finished[0]
    table = rtfx("report", folder, "--table-only")
    assert table.returncode == 0 and "label_looping" in table.stdout
    assert not (folder / "report.html").exists()
    result = rtfx("report", folder)
    assert result.returncode == 0, result.stderr
    assert (folder / "report.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("damage", ["missing", "empty", "middle"])
def test_report_of_a_bad_journal(rtfx, finished, tmp_path, damage):
    if damage == "empty":
        (tmp_path / "journal.jsonl").touch()
    if damage == "middle":
        text = (finished[0] / "journal.jsonl").read_text()
        (tmp_path / "journal.jsonl").write_text("{half a rec\n" + text)
    result = rtfx("report", tmp_path)
    assert result.returncode in (1, 2)
    assert str(tmp_path) in result.stderr


def test_second_run_needs_a_word(run_config, tmp_path):
    assert run_config().returncode == 0
    first = (tmp_path / "run/journal.jsonl").read_text()
    refused = run_config()
    assert refused.returncode == 2
    assert "--resume" in refused.stderr and "--force" in refused.stderr
    assert (tmp_path / "run/journal.jsonl").read_text() == first
    assert run_config("--force").returncode == 0
    assert (tmp_path / "run/journal.jsonl.1").read_text() == first
    assert len(runs_of(strict_records(tmp_path / "run/journal.jsonl"))) == 2


def test_resume_does_only_what_is_missing(run_config, tmp_path):
    assert run_config().returncode == 0
    assert run_config("--resume", "--set", "protocol.measured_rounds=3").returncode == 0
    runs = runs_of(strict_records(tmp_path / "run/journal.jsonl"))
    assert sorted((r["decoder"]["id"], r["round"]) for r in runs) == [
        (decoder, round) for decoder in ("frame_looping", "label_looping") for round in range(3)
    ]


def test_resumed_after_other_settings_shows_its_own_results(run_config, rtfx, tmp_path):
    """A resumed run shows the results of its own settings: at most one token a frame, then ten, then one again."""

    dataset = {"id": "one", "files": [str(AUDIO / "1737-146161-0011.flac")]}

    def words(*arguments, most):
        assert run_config(*arguments, datasets=[dataset], decoders=["frame_looping", {"name": "label_looping", "options": {"max_symbols": most}}],
                          verify={"required": {"fp32": "different"}}).returncode == 0  # fmt: skip
        summary = json.loads(rtfx("summary", tmp_path / "run/journal.jsonl").stdout)
        (case,) = [c for c in summary["cases"] if c["last"]["decoder"]["id"] == "label_looping"]
        runs = [r for r in runs_of(strict_records(tmp_path / "run/journal.jsonl")) if r["decoder"]["id"] == "label_looping"]
        assert len(case["rounds"]) == 1
        return case["last"]["tokens_sha256"], len(runs)

    one, ten, one_again, resumed = (words(*arguments, most=most) for arguments, most in (
        ((), 1), (("--resume",), 10), (("--resume",), 1), (("--resume",), 1)))  # fmt: skip
    assert one[0] == one_again[0] == resumed[0] != ten[0]
    assert [count for _, count in (one, ten, one_again, resumed)] == [1, 2, 3, 3]  # the last run measured nothing


@pytest.mark.parametrize("isolate", [False, True])
def test_a_resumed_run_judges_the_cases_of_its_configuration(run_config, tmp_path, isolate):
    """A decoder with one token a frame at most misses the required grade, and is then left out of the configuration."""
    limited = {"name": "label_looping", "options": {"max_symbols": 1}}
    settings = {"datasets": [{"id": "one", "files": [str(AUDIO / "1737-146161-0011.flac")]}], "isolate": isolate}
    assert run_config(decoders=["frame_looping", limited], **settings).returncode == 13
    resumed = run_config("--resume", decoders=["frame_looping"], **settings)
    assert resumed.returncode == 0, resumed.stderr
    assert "label_looping" not in resumed.stdout
    notice = "the journal has 1 case that this configuration does not have; left out: quickstart-rnnt/one/label_looping/b2/fp32"
    assert notice in resumed.stderr


def test_a_resumed_run_takes_the_grade_that_its_configuration_requires(run_config, rtfx, tmp_path):
    limited = {"name": "label_looping", "options": {"max_symbols": 1}}
    dataset = {"id": "one", "files": [str(AUDIO / "1737-146161-0011.flac")]}
    for mode, required, code in (([], "different", 0), (["--resume"], "exact", 13), (["--resume"], "different", 0)):
        result = run_config(*mode, decoders=["frame_looping", limited], datasets=[dataset], verify={"required": {"fp32": required}})
        assert result.returncode == code, result.stderr
    assert len(runs_of(strict_records(tmp_path / "run/journal.jsonl"))) == 2  # nothing was measured again


@pytest.mark.parametrize("first, then, keys", [
    ([], ["confidence={}"], 2),
    (["sort=shuffle"], ["sort=shuffle", "protocol.seed=2"], 2),
    ([], ["protocol.seed=2"], 1),  # without `shuffle` no result depends on it
])  # fmt: skip
def test_settings_that_results_depend_on_are_measured_again(run_config, tmp_path, first, then, keys):
    for mode, settings in (([], first), (["--resume"], then)):
        arguments = [text for setting in settings for text in ("--set", setting)]
        result = run_config(*mode, *arguments, decoders=["label_looping"])
        assert result.returncode == 0, result.stderr
    runs = runs_of(strict_records(tmp_path / "run/journal.jsonl"))
    assert len(runs) == len({run["result_key"] for run in runs}) == keys


def test_exactness_below_the_required_exits_with_13(run_config, tmp_path):
    """A decoder that may emit one token a frame changes a text that has two in one frame, so the run exits with 13."""
    limited = {"name": "label_looping", "options": {"max_symbols": 1}}
    dataset = {"id": "one", "files": [str(AUDIO / "1737-146161-0011.flac")]}
    result = run_config(decoders=["frame_looping", limited], datasets=[dataset])
    assert result.returncode == 13
    assert "label_looping" in result.stderr and "exactness" in result.stderr
    exactness = runs_of(strict_records(tmp_path / "run/journal.jsonl"))[1]["exactness"]
    assert exactness["grade"] not in ("bitwise", "exact", "baseline")
    assert exactness["first_difference"]["frame"] >= 0
    assert "first difference" in result.stdout


def test_an_approximate_decoder_may_differ(run_config, tmp_path):
    result = run_config(
        models=[str(MODELS / "quickstart-tdt.nemo")],
        datasets=[{"id": "eight", "manifest": str(AUDIO / "manifest.jsonl"), "limit": 8}],
        decoders=["frame_looping", "tdt_min_duration"],
        batch_sizes=[8],
    )
    assert result.returncode == 0, result.stderr
    runs = runs_of(strict_records(tmp_path / "run/journal.jsonl"))
    assert [r["decoder"]["exactness"] for r in runs] == ["exact", "approximate"]


def test_batches_by_seconds_and_a_folder_of_files(run_config, tmp_path):
    audio = tmp_path / "audio"
    audio.mkdir()
    for name in ("qs06.flac", "qs10.flac"):
        (audio / name).symlink_to(AUDIO / name)
    result = run_config(
        datasets=[{"id": "folder", "files": [str(audio)]}], batch_sizes=None, batch_seconds=[8]
    )
    assert result.returncode == 0, result.stderr
    for record in runs_of(strict_records(tmp_path / "run/journal.jsonl")):
        assert record["batch"] == {"by": "seconds", "size": 8}
        assert record["wer"]["wer"] is None  # the files have no reference texts


def test_a_librispeech_folder(run_config, tmp_path):
    folder = tmp_path / "LibriSpeech/1737/146161"
    folder.mkdir(parents=True)
    name = "1737-146161-0007"
    (folder / f"{name}.flac").symlink_to(AUDIO / f"{name}.flac")
    (folder / "1737-146161.trans.txt").write_text(f"{name} KNIT TWO TOGETHER TWICE\n")
    source = {"id": "libri", "librispeech": str(tmp_path / "LibriSpeech")}
    result = run_config(datasets=[source], batch_sizes=[1])
    assert result.returncode == 0, result.stderr
    run = runs_of(strict_records(tmp_path / "run/journal.jsonl"))[0]
    assert run["wer"]["reference_words"] == 4


def test_a_beam_is_not_graded_by_the_greedy_rule(run_config, tmp_path):
    """The replay of a beam search checks its scores. The CTC results of a TDT model have no durations."""
    beam = {"name": "ctc_beam", "options": {"beam_size": 8}}
    datasets = [{"id": "all", "manifest": str(AUDIO / "manifest.jsonl")}]
    result = run_config(models=[str(MODELS / "quickstart-tdt.nemo")], datasets=datasets,
                        decoders=["ctc_greedy", beam], batch_sizes=[8])  # fmt: skip
    assert result.returncode == 0, result.stderr
    records = runs_of(strict_records(tmp_path / "run/journal.jsonl"))
    [found] = [r["exactness"] for r in records if r["decoder"]["id"] == "ctc_beam"]
    assert found["grades"]["different"] > 0 and found["grades"]["rounding"] == 0
    assert found["replay"]["decisions"] > 0 and found["replay"]["beyond"] == 0


def test_the_configuration_of_a_journal_is_one(rtfx, finished, tmp_path):
    resolved = tmp_path / "again.json"
    resolved.write_text(json.dumps(finished[1][0]["config"]))
    result = rtfx("validate", resolved)
    assert result.returncode == 0, result.stderr
