"""Tests `rtfx verify` on journals that are true, altered, damaged or of another machine, and decoders that remember
results."""

import gzip
import json
import os
import shutil

import pytest
import synthetic_journal as synthetic
from conftest import AUDIO, MODELS, ROOT, is_locked, small_config, strict_records, wait_until

PASS, USAGE, REGRESSED, INCONCLUSIVE, INVALID, CORRECTNESS = 0, 2, 10, 11, 12, 13
SPEEDS = {"rtfx.total", "rtfx.decode"}
DECODERS = ["frame_looping", "label_looping", "frame_looping_single", "step_replay", "ctc_greedy"]
MODEL = MODELS / "quickstart-rnnt.nemo"


def run(rtfx, folder, **changes):
    """Runs two utterances, and returns the journal."""
    folder.mkdir(exist_ok=True)
    changes = {"protocol": {"warmup_rounds": 0, "measured_rounds": 3}} | changes
    (folder / "config.json").write_text(json.dumps(small_config(**changes)))
    result = rtfx("run", folder / "config.json", "--output", folder / "run")
    assert result.returncode == 0, result.stderr
    return folder / "run/journal.jsonl"


@pytest.fixture(scope="module")
def journal(rtfx, tmp_path_factory):
    single = {"id": "frame_looping_single", "name": "frame_looping", "options": {"batched": False}}
    return run(rtfx, tmp_path_factory.mktemp("true"), decoders=[single if id == single["id"] else id for id in DECODERS])


@pytest.mark.parametrize("baseline", [{}, {"baseline": ""}])  # earlier versions wrote an empty baseline
def test_cases_of_ctc_alone_that_are_left_out_are_found(rtfx, journal, verify, tmp_path, baseline):
    def change(record):
        if record["kind"] == "provenance":
            record["config"]["decoders"] = [{"id": id, "name": "ctc_greedy"} for id in ("ctc_greedy", "left_out")]
            record["config"] = {k: v for k, v in record["config"].items() if k != "baseline"} | baseline
        return "/ctc_greedy/" in record.get("case", "/ctc_greedy/")

    result = verify(altered(journal, tmp_path, change), "--only", "no such case", "--json")
    found = json.loads(result.stdout)
    assert not any(entry["case"] == "the list of all cases" for entry in found["left_out"]), found
    assert any("/left_out/" in row["case"] and row["what"] == "case" for row in found["rows"])


def test_a_dataset_for_no_batch_hides_no_left_out_case(rtfx, journal, verify, tmp_path):
    """A dataset without any batch size of the run, which earlier versions allowed, does not hide a case that was left
    out."""

    def change(record):
        if record["kind"] == "provenance":
            first = record["config"]["datasets"][0]
            record["config"]["datasets"].append(first | {"id": "for_none", "batch_sizes": [64]})
            record["config"]["decoders"].append({"id": "left_out", "name": "ctc_greedy"})

    result = verify(altered(journal, tmp_path, change), "--only", "no such case", "--json")
    found = json.loads(result.stdout)
    assert not any(entry["case"] == "the list of all cases" for entry in found["left_out"]), found
    missing = [row["case"] for row in found["rows"] if row["what"] == "case"]
    assert missing and all("/left_out/" in case for case in missing)


def test_an_override_of_verify_takes_no_journal(verify, journal, rtfx):
    result = rtfx("verify", "--set", "protocol.seed=1", journal, "--only", "no such case")
    assert "has no case that can be run again here" in result.stderr


@pytest.fixture
def verify(rtfx, tmp_path):
    """verify(journal, arguments...) returns the finished process."""

    def call(journal, *arguments, rounds=3, **settings):
        return rtfx("verify", journal, "--output", tmp_path / "verify", "--rounds", rounds, *arguments, **settings)

    return call


def altered(journal, folder, change):
    """Writes a copy of the journal to `folder`, with `change` applied to each record. Records for which it returns
    False are left out."""
    records = [record for record in strict_records(journal) if change(record) is not False]
    path = folder / "altered.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def of_decoder(name, change):
    """Returns a function that alters the rounds of one decoder."""

    def alter(record):
        if record["kind"] == "run" and record["decoder"]["id"] == name:
            change(record)

    return alter


def rows_of(result):
    """Returns the rows of --json as {(decoder, what): [row, ...]}."""
    rows = {}
    for row in json.loads(result.stdout)["rows"]:
        rows.setdefault((row["case"].split("/")[2], row["what"]), []).append(row)
    return rows


def only(rows, decoder, what):
    (row,) = rows[decoder, what]
    return row["verdict"], row["reason"]


# Tests of true journals.


def test_a_true_journal_agrees(verify, journal, tmp_path):
    """A true journal agrees in everything but times, which depend on the other work of this machine."""
    result = verify(journal, "--sample", 9, "--json")
    assert result.returncode in (PASS, REGRESSED, INCONCLUSIVE), result.stdout + result.stderr
    document, rows = json.loads(result.stdout), rows_of(result)
    assert document["cases"] == len(document["sampled"]) == len(DECODERS) and not document["left_out"]
    for decoder in DECODERS:
        assert only(rows, decoder, "results") == ("PASS", "the same, score bits included")
        verdict, reason = only(rows, decoder, "grade")
        assert verdict == "PASS" and reason.endswith(" in both")
        (wer,) = rows[decoder, "wer"]
        assert wer["verdict"] == "PASS" and wer["baseline"] == wer["current"]
        assert only(rows, decoder, "caching")[0] in ("PASS", "INCONCLUSIVE")
        for speed in SPEEDS:
            (row,) = rows[decoder, speed]
            assert row["change"]["estimate"] > 0 and row["rounds"]
        assert (decoder, "case") not in rows
    assert len(strict_records(tmp_path / "verify/journal.jsonl")) > len(DECODERS)


def test_the_sample_is_drawn_by_the_seed_that_is_printed(verify, journal):
    def sampled(seed):
        text = verify(journal, "--sample", 1, "--seed", seed, rounds=1).stdout
        assert f"sample   1 of them, --seed {seed}\n" in text and "\nagree    results 1 of 1, " in text
        return [line for line in text.splitlines() if line.startswith("quickstart-rnnt/")]

    first = sampled(1)
    assert len(first) == 1 and sampled(1) == first
    assert any(sampled(seed) != first for seed in (2, 3, 4))


def test_only_what_is_asked_for_is_drawn(verify, journal):
    document = json.loads(verify(journal, "--only", "/label_looping/", "--json").stdout)
    assert document["sampled"] == ["quickstart-rnnt/two/label_looping/b2/fp32"]
    result = verify(journal, "--only", "no_such")
    assert result.returncode == USAGE and "'no_such'" in result.stderr and result.stderr.count("\n") == 1


def test_other_batches_and_overlapped_ones(rtfx, verify, tmp_path):
    protocol = {"warmup_rounds": 0, "measured_rounds": 2, "mode": "throughput", "steady_seconds": 0}
    journal = run(rtfx, tmp_path / "made", decoders=["label_looping"], protocol=protocol, batch_sizes=["max"], batch_seconds=[5])
    result = verify(journal, "--json")
    rows = json.loads(result.stdout)["rows"]
    assert {row["case"].split("/")[3] for row in rows} == {"bmax", "s5"}
    results = [(row["verdict"], row["reason"]) for row in rows if row["what"] == "results"]
    assert results == [("PASS", "the same, score bits included")] * 2
    assert "case" not in {row["what"] for row in rows}


def test_a_decoder_for_some_datasets_alone_is_run_again(rtfx, verify, tmp_path):
    datasets = [{"id": name, "manifest": str(ROOT / "tests/data/two.jsonl")} for name in "abc"]
    own = {"id": "own", "name": "label_looping", "datasets": ["a", "b"]}
    journal = run(rtfx, tmp_path / "made", decoders=["frame_looping", own], datasets=datasets)
    result = verify(journal, "--only", "/own/", "--json", rounds=1)
    assert result.stdout, result.stderr
    assert [row["verdict"] for row in rows_of(result)["own", "results"]] == ["PASS", "PASS"]


def test_the_journal_is_not_in_the_folder_of_the_rerun(rtfx, journal, tmp_path):
    shutil.copy(journal, tmp_path / "journal.jsonl")
    result = rtfx("verify", "journal.jsonl", "--output", ".", "--only", "/label_looping/", "--rounds", 1, cwd=tmp_path)
    assert result.returncode == USAGE and "holds the journal that is to be verified" in result.stderr
    assert (tmp_path / "journal.jsonl").read_text() == journal.read_text()


def test_the_journal_is_locked_during_the_audits(popen, program, journal, tmp_path):
    process = popen([program, "verify", journal, "--output", tmp_path, "--rounds", "1", "--only", "/label_looping/"])
    wait_until(process, (tmp_path / "configs/2.json").exists)  # configuration of the audit
    assert process.poll() is None and is_locked(tmp_path / "journal.jsonl")


# Tests of altered journals.


def set_tokens(record):
    record["tokens_sha256"] = record["hypotheses_sha256"] = "0" * 64


def set_errors(record):
    wer = record["wer"]
    wer["substitutions"] += 1
    wer["wer"] = (wer["substitutions"] + wer["insertions"] + wer["deletions"]) / wer["reference_words"]


def set_speed(record):
    """Makes a record ten times as fast, in all figures that belong together."""
    for region in record["regions"].values():
        region["host_seconds"] /= 10
    for name in ("total_seconds", "wall_seconds", "gap_seconds"):
        record[name] /= 10
    for name in ("total_seconds", "decode_seconds"):
        record["batches"][name] = [seconds / 10 for seconds in record["batches"][name]]
    for name in ("rtfx.total", "rtfx.decode", "rtfx.encode_decode"):
        record["metrics"][name] *= 10
    for name in ("batch_ms.p50", "batch_ms.p95", "batch_ms.p99"):
        if record["metrics"][name] is not None:
            record["metrics"][name] /= 10


def set_grade(record):
    record["exactness"] |= {"grade": "text", "grades": {"text": record["dataset"]["utterances"]}}


ALTERED = {
    "frame_looping": (set_speed, "rtfx.total", {"REGRESSED", "INCONCLUSIVE"}, ""),
    "label_looping": (set_tokens, "results", {"CORRECTNESS"}, "other tokens or frames than the journal's"),
    "frame_looping_single": (set_grade, "grade", {"CORRECTNESS"}, "here, and the journal says text"),
    "step_replay": (set_errors, "wer", {"CORRECTNESS"}, "points with the same tokens"),
}


@pytest.fixture(scope="module")
def altered_rows(rtfx, journal, tmp_path_factory):
    folder = tmp_path_factory.mktemp("altered")

    def change(record):
        for name, (alter, *_) in ALTERED.items():
            of_decoder(name, alter)(record)

    path = altered(journal, folder, change)
    result = rtfx("verify", path, "--output", folder / "verify", "--rounds", 3, "--sample", 9, "--json")
    assert result.returncode == CORRECTNESS, result.stdout + result.stderr
    return rows_of(result)


@pytest.mark.parametrize("decoder", ALTERED)
def test_what_was_altered_is_found_and_its_case_is_named(altered_rows, decoder):
    _, what, verdicts, reason = ALTERED[decoder]
    verdict, said = only(altered_rows, decoder, what)
    assert verdict in verdicts and reason in said
    untouched = {"results", "grade", "wer"} - {what}
    assert {only(altered_rows, decoder, kind)[0] for kind in untouched} == {"PASS"}
    assert only(altered_rows, "ctc_greedy", what)[0] in ("PASS", "INCONCLUSIVE", "REGRESSED")


def set_wer_alone(record):
    record["wer"]["wer"] /= 2


def set_rate_alone(record):
    record["metrics"]["rtfx.decode"] *= 2


def set_hash_of_one_round(record):
    if record["round"] == 1:
        set_tokens(record)


def set_tokens_alone(record):
    record["tokens_sha256"] = "0" * 64


def set_token_rate(record):
    record["metrics"]["tokens.per_second"] *= 1.01


def set_decode_share(record):
    record["metrics"]["share.decode"] /= 2


def set_batch_times(record):
    record["metrics"]["batch_ms.p50"] /= 2


def set_cer(record):
    record["wer"]["cer"] /= 2


def forget(record):
    record["deterministic"] = False


def test_a_journal_is_judged_by_itself_also_where_it_is_not_sampled(verify, journal, tmp_path):
    wrong = {
        "frame_looping": (set_wer_alone, "INVALID", "its records contradict themselves: round 0: the WER is"),
        "label_looping": (set_rate_alone, "INVALID", "its records contradict themselves: round 0: rtfx.decode is"),
        "step_replay": (set_hash_of_one_round, "INVALID", "the hashes of its rounds differ"),
        "frame_looping_single": (forget, "CORRECTNESS", "by its own records: "),
    }

    def change(record):
        for name, (alter, *_) in wrong.items():
            of_decoder(name, alter)(record)

    result = verify(altered(journal, tmp_path, change), "--only", "/ctc_greedy/", "--json", rounds=1)
    assert result.returncode == CORRECTNESS, result.stdout
    rows = rows_of(result)
    for name, (_, verdict, reason) in wrong.items():
        found = only(rows, name, "case")
        assert found[0] == verdict and reason in found[1]
        assert (name, "results") not in rows
    assert ("ctc_greedy", "results") in rows and ("ctc_greedy", "case") not in rows


def test_every_figure_of_a_record_is_computed_again(verify, journal, tmp_path):
    wrong = {
        "frame_looping": (set_cer, "the CER is"),
        "label_looping": (set_tokens_alone, ", and its tokens_sha256 is not that of frame_looping"),
        "step_replay": (set_decode_share, "share.decode is"),
        "frame_looping_single": (set_batch_times, "batch_ms.p50 is"),
        "ctc_greedy": (set_token_rate, "which is no whole number"),
    }

    def change(record):
        for name, (alter, *_) in wrong.items():
            of_decoder(name, alter)(record)

    rows = rows_of(verify(altered(journal, tmp_path, change), "--only", "/frame_looping/", "--json", rounds=1))
    for name, (_, reason) in wrong.items():
        verdict, said = only(rows, name, "case")
        assert verdict == "INVALID" and reason in said
    verdict, said = only(rows, "frame_looping", "cer")
    assert verdict == "CORRECTNESS" and "with the same tokens" in said


def set_metric(key, value):
    return lambda record: record["metrics"].update({key: value})


def set_peak(record):
    record["device_memory"]["peak_bytes"] += 1 << 20


def set_energy_of_audio(record):
    if energy := record.get("energy"):  # only the first round of a case has it
        energy["audio_seconds"] *= 2
        record["metrics"]["energy.joules_per_hour"] /= 2


def set_references_of_a_round(record):
    if record["round"] == 1:
        record["metrics"]["tokens.reference_per_second"] += 1


# {what: (a committed journal of a GPU, the function that alters a record, the expected text)}
OF_A_GPU = {
    "copy": ("h100/chain/rnnt_0.6b", set_metric("busy.copy", 0.01), "busy.copy is 0.01"),
    "encoder": ("h100/chain/rnnt_0.6b", set_metric("busy.encoder", 0.01), "busy.encoder is 0.01"),
    "decode": ("h100/chain/rnnt_0.6b", set_metric("busy.decode", 0.01), "busy.decode is 0.01"),
    "texts": ("h100/chain/rnnt_0.6b", set_metric("busy.texts", 0.01), "busy.texts is 0.01"),
    "energy": ("h100/chain/rnnt_0.6b", set_metric("energy.joules_per_hour", 1), "energy.joules_per_hour is 1"),
    "audio": ("h100/chain/rnnt_0.6b", set_energy_of_audio, "energy.audio_seconds is"),
    "kept": ("baselines/ci_h200", set_metric("memory.kept_mib", 0.5), "memory.kept_mib is 0.5"),
    "most": ("baselines/ci_h200", set_metric("memory.peak_mib", 0.5), "memory.peak_mib is 0.5"),
    "peak": ("baselines/ci_h200", set_peak, "device_memory.peak_bytes is"),
    "references": ("baselines/ci_h200", set_references_of_a_round, "tokens.reference_per_second is not that of the rounds before"),
    "requests": ("h100/chain/latency", lambda record: record["lengths"].pop(), "the sum of lengths.requests is"),
}


@pytest.mark.parametrize("what", OF_A_GPU)
def test_a_figure_of_a_gpu_is_computed_again_without_one(verify, tmp_path, what):
    name, alter, reason = OF_A_GPU[what]
    decoders = ("fused_looping", "frame_looping")

    def change(record):
        if record["kind"] == "run" and record["decoder"]["id"] in decoders:
            alter(record)

    committed = ROOT / f"reports/{name}.jsonl.gz"
    for path, code in ((committed, USAGE), (altered(committed, tmp_path, change), INVALID)):  # USAGE: nothing ran again
        result = verify(path, "--device", "cpu", "--sample", 1, "--json", "--only", "no such case", rounds=1)
        assert result.returncode == code, result.stdout + result.stderr
    assert any(row["verdict"] == "INVALID" and reason in row["reason"] for row in json.loads(result.stdout)["rows"])


def test_times_of_lengths_are_those_of_the_batches(rtfx, verify, tmp_path):
    dataset = {"id": "mixed", "manifest": str(AUDIO / "manifest.jsonl"), "seconds": [1, 3]}
    path = run(rtfx, tmp_path / "true", datasets=[dataset], batch_sizes=[1], decoders=["label_looping"])
    for key, value in (("p50_ms", 1e6), ("requests", 99)):
        wrong = {key: value}
        changed = altered(path, tmp_path, of_decoder("label_looping", lambda record: record["lengths"][1].update(wrong)))
        result = verify(changed, "--json", rounds=1)
        assert result.returncode == INVALID, result.stdout + result.stderr
        assert f"lengths.{key}" in only(rows_of(result), "label_looping", "case")[1]


def test_a_repeated_case_shows_another_hash_of_its_tokens(verify, journal, tmp_path):
    path = altered(journal, tmp_path, of_decoder("ctc_greedy", set_tokens_alone))
    result = verify(path, "--only", "/ctc_greedy/", "--json", rounds=1)
    assert result.returncode == CORRECTNESS, result.stdout
    assert only(rows_of(result), "ctc_greedy", "results") == (
        "CORRECTNESS", "the same hypotheses_sha256, and the journal has another tokens_sha256")  # fmt: skip


def test_a_repeated_case_shows_other_references(verify, journal, tmp_path):
    path = altered(journal, tmp_path, of_decoder("ctc_greedy", set_metric("tokens.reference_per_second", 9)))
    result = verify(path, "--only", "/ctc_greedy/", "--json", rounds=1)
    assert result.returncode == CORRECTNESS, result.stdout
    verdict, reason = only(rows_of(result), "ctc_greedy", "results")
    assert verdict == "CORRECTNESS" and "and tokens.reference_per_second is" in reason and reason.endswith("not 9")


def test_a_case_that_the_configuration_has_and_the_journal_lacks_is_named(verify, journal, tmp_path):
    path = altered(journal, tmp_path, lambda r: r.get("decoder", {}).get("id") != "label_looping")
    result = verify(path, "--only", "/ctc_greedy/", "--json", rounds=1)
    assert result.returncode == INVALID, result.stdout + result.stderr
    assert only(rows_of(result), "label_looping", "case") == ("INVALID", "the configuration has this case, and the journal does not")


def test_another_machine_shows_speeds_and_judges_words(verify, journal, tmp_path):
    def change(record):
        if record["kind"] == "provenance":
            record["device"]["name"] = "Another CPU"
            record["rtfx"]["revision"] = "0123456789ab"
        if record["kind"] == "run":
            set_tokens(record)

    path = altered(journal, tmp_path, change)
    result = verify(path, "--only", "/label_looping/", "--json")
    assert result.returncode in (PASS, INCONCLUSIVE), result.stdout
    rows = rows_of(result)
    verdict, reason = only(rows, "label_looping", "case")
    assert verdict == "PASS" and 'other device/name: "Another CPU", now' in reason
    assert "other revision of rtfx: 0123456789ab" in reason
    assert only(rows, "label_looping", "results") == ("PASS", "other tokens, every decision of the rerun within rounding")
    for speed in SPEEDS:
        assert only(rows, "label_looping", speed) == ("PASS", "for information, not judged")


def test_another_option_is_another_case(verify, journal, tmp_path):
    path = altered(journal, tmp_path, of_decoder("label_looping", lambda r: r["decoder"]["options"].update(max_symbols=3)))
    result = verify(path, "--only", "/label_looping/")
    assert result.returncode == INVALID and "other option max_symbols: 3, now 10" in result.stdout


# Tests of files that are no journal, and of damaged ones.


def test_a_journal_that_ends_early_claims_too_few_rounds(verify, journal, tmp_path):
    """Rounds that are missing at the end of a journal count as missing, although every reader ignores its torn last
    line."""
    lines = journal.read_text().splitlines()
    rounds = [i for i, line in enumerate(lines) if json.loads(line)["kind"] == "run"]
    path = tmp_path / "cut.jsonl"
    path.write_text("\n".join(lines[: rounds[-1]]) + "\n" + lines[rounds[-1]][:100])
    result = verify(path, "--sample", 1, rounds=1)
    assert result.returncode == INVALID and "no measurement: 2 of 3 rounds" in result.stdout


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"hello\n", "theirs.jsonl:1"),
        (b'{"benchmarks": []}\n', "theirs.jsonl: holds no result"),
        (b'{"kind": "run", "case": 3}\n', "theirs.jsonl:1"),
        (b"", "theirs.jsonl"),
        (b"fLaC\x00\x00\x00\x22\xff\xfe", "theirs.jsonl: holds no result"),
        (None, "theirs.jsonl"),
    ],
)
def test_what_is_no_journal_is_one_clear_error(verify, tmp_path, content, place):
    path = tmp_path / "theirs.jsonl"
    if content is not None:
        path.write_bytes(content)
    result = verify(path)
    assert result.returncode == USAGE and result.stderr.count("\n") == 1, result.stderr
    assert place in result.stderr and not result.stdout


def test_packed_journals_are_read_and_damaged_ones_refused(verify, journal, tmp_path):
    packed = gzip.compress(journal.read_bytes())
    (tmp_path / "whole.jsonl.gz").write_bytes(packed)
    result = verify(tmp_path / "whole.jsonl", "--only", "/ctc_greedy/", rounds=1)
    assert result.returncode in (PASS, REGRESSED, INCONCLUSIVE), result.stderr
    (tmp_path / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    result = verify(tmp_path / "cut.jsonl.gz")
    assert result.returncode == USAGE and result.stderr.count("\n") == 1
    assert "cut.jsonl.gz" in result.stderr


def test_streams_are_not_run_again(verify, tmp_path):
    about, stream = synthetic.provenance(), synthetic.stream()
    result = verify(synthetic.write(tmp_path / "streams", [about, stream]))
    assert result.returncode == USAGE and "holds results of streams alone; give the journal of `rtfx run`" in result.stderr
    result = verify(synthetic.write(tmp_path / "failed", [about, stream, synthetic.failure(stage="stream")]))
    assert result.returncode == USAGE and "has no case that can be run again here" in result.stderr
    assert "left out the list of all cases: `rtfx stream` has a case for each number of streams" in result.stdout


def test_a_run_without_a_result_has_nothing_to_verify(verify, journal, tmp_path):
    (tmp_path / "empty.jsonl").write_text(journal.read_text().splitlines()[0] + "\n")
    result = verify(tmp_path / "empty.jsonl")
    assert result.returncode == USAGE and "holds no result" in result.stderr


# Tests of files and devices that are missing on this machine.


@pytest.fixture
def elsewhere(rtfx, tmp_path):
    """Returns a journal, and the folder to which its model and data have moved since."""
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    shutil.copy(MODEL, there / "m.nemo")
    line = json.loads((ROOT / "tests/data/two.jsonl").read_text().splitlines()[0])
    shutil.copy(AUDIO / line["audio_filepath"].rpartition("/")[2], there / "a.flac")
    (there / "manifest.jsonl").write_text(json.dumps(line | {"audio_filepath": "a.flac"}) + "\n")
    journal = run(rtfx, tmp_path / "made", models=[{"id": "m", "path": str(there / "m.nemo")}], decoders=["label_looping"],
                  datasets=[{"id": "one", "manifest": str(there / "manifest.jsonl")}], batch_sizes=[1])  # fmt: skip
    there.rename(here)
    return journal, here


def test_files_that_are_missing_are_named_all_at_once(verify, elsewhere):
    journal, here = elsewhere
    result = verify(journal)
    assert result.returncode == USAGE
    model, manifest = result.stderr.splitlines()
    assert f"{journal}#/models/0/path: no such file here: " in model and "there/m.nemo" in model
    assert "--set models.0.path=FILE names it; its SHA-256 is " in model
    assert "#/datasets/0/manifest" in manifest and "--set datasets.0.manifest=FILE" in manifest
    found = ["--set", f"models.0.path={here / 'm.nemo'}", "--set", f"datasets.0.manifest={here / 'manifest.jsonl'}"]
    rows = rows_of(verify(journal, *found, "--json"))
    assert only(rows, "label_looping", "results") == ("PASS", "the same, score bits included")
    found[1] = f"models.0.path={MODELS / 'quickstart-tdt.nemo'}"
    result = verify(journal, *found)
    assert result.returncode == INVALID and "other model: its checksum differs" in result.stdout


def test_records_are_checked_where_nothing_can_be_repeated(verify, elsewhere, tmp_path):
    journal, _ = elsewhere
    result = verify(journal)
    assert result.returncode == USAGE and "no such file here" in result.stderr
    assert "records  no fault in 1 of 1 case" in result.stdout
    assert "sample   none: nothing was repeated, and only the records were checked" in result.stdout
    assert "PASS" not in result.stdout
    document = json.loads(verify(journal, "--json").stdout)
    assert document["records"] == {"checked": 1, "sound": 1}
    assert (document["verdict"], document["sampled"], document["rows"]) == (None, [], [])

    path = altered(journal, tmp_path, of_decoder("label_looping", set_rate_alone))
    result = verify(path)
    assert result.returncode == INVALID and "no such file here" in result.stderr
    assert "rtfx.decode is" in result.stdout and "nothing was repeated" in result.stdout
    assert "records  no fault in 0 of 1 case" in result.stdout


@pytest.mark.parametrize("name", ["baselines/ci", "h200/chain/fp32_ctc_0.6b", "h200/chain/prompt"])
def test_the_records_of_reports_are_consistent(verify, name):
    result = verify(ROOT / f"reports/{name}.jsonl.gz", "--only", "no such case", "--json")
    assert "has no case that can be run again here" in result.stderr
    records = json.loads(result.stdout)["records"]
    assert records["sound"] == records["checked"] > 0


def test_what_hides_the_list_of_cases_is_named_once(verify, tmp_path):
    """An error that hides the list of cases is named once, though each batch size of this journal had a process of its
    own. The graph of this journal is not below the working folder."""
    result = verify(ROOT / "reports/h100/rivals/wfst.jsonl.gz", "--sample", 1, cwd=tmp_path)
    lines = [line for line in result.stdout.splitlines() if line.startswith("left out the list of all cases: ")]
    assert len([line for line in lines if "#/decoders/1/options/graph: no such file" in line]) == 1
    assert len(lines) == len(set(lines)) > 1
    assert "\\n" not in result.stdout


def test_a_gpu_that_is_missing_is_named(verify, journal, tmp_path):
    def change(record):
        if record["kind"] == "provenance":
            record["device"] = {"type": "cuda", "name": "NVIDIA H100 80GB HBM3"}

    path = altered(journal, tmp_path, change)
    result = verify(path, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""})
    assert result.returncode == INVALID and "no GPU clocks in its records" in result.stdout
    assert result.stderr.count("\n") == 1
    assert "was measured on NVIDIA H100 80GB HBM3, and this machine has no GPU" in result.stderr
    assert "--device cpu compares the words alone" in result.stderr


def test_what_needs_a_gpu_is_left_out_on_a_cpu(verify, journal, tmp_path):
    def change(record):
        if record["kind"] == "provenance":
            entry = next(d for d in record["config"]["decoders"] if d["id"] == "step_replay")
            entry |= {"id": "fused_looping", "name": "fused_looping", "options": {}}
            return True
        if record["kind"] == "run" and record["decoder"]["id"] == "step_replay":
            record["decoder"] |= {"id": "fused_looping", "name": "fused_looping", "options": {}}
            record["case"] = record["case"].replace("step_replay", "fused_looping")
            return True
        return record["kind"] == "run" and record["decoder"]["id"] == "ctc_greedy"

    path = altered(journal, tmp_path, change)
    result = verify(path, "--sample", 9, "--device", "cpu", "--json", rounds=1)
    (left_out,) = json.loads(result.stdout)["left_out"]
    assert "/fused_looping/" in left_out["case"] and "'fused_looping' needs a GPU" in left_out["why"]
    result = verify(path, "--only", "/fused_looping/", "--device", "cpu")
    assert result.returncode == INVALID and "the configuration has this case" in result.stdout
    assert "has no case that can be run again here" in result.stderr


# Tests of decoders that remember results.

REMEMBERING = """
import pathlib
import pickle
import sys

sys.path.insert(0, {example!r})
from greedy import Greedy


class Remembers(Greedy):
    def key(self, frames, lengths):
        return frames.numpy().tobytes()

    def decode(self, frames, lengths):
        if not hasattr(self, "known"):
            self.known = {{}}
        key = self.key(frames, lengths)
        if key not in self.known:
            self.known[key] = super().objects(super().decode(frames, lengths))
        return self.known[key]

    def objects(self, found):
        return found


class Knows(Remembers):
    # Comes with the results of an earlier process, and remembers nothing else.
    def decode(self, frames, lengths):
        path = pathlib.Path(__file__).with_suffix(".known")
        if not hasattr(self, "given"):
            self.given, self.met = pickle.loads(path.read_bytes()) if path.exists() else {{}}, {{}}
        key = self.key(frames, lengths)
        if key in self.given:
            return self.given[key]
        found = Greedy.objects(self, Greedy.decode(self, frames, lengths))
        if not self.given:
            self.met[key] = found
            path.write_bytes(pickle.dumps(self.met))
        return found


class RemembersLengths(Remembers):
    def key(self, frames, lengths):
        return tuple(lengths.tolist())
"""


@pytest.fixture(scope="module")
def audited(rtfx, tmp_path_factory):
    """Returns the rows of four decoders with equal results, three of which remember what they returned."""
    folder = tmp_path_factory.mktemp("remembering")
    (folder / "remembering.py").write_text(REMEMBERING.format(example=str(ROOT / "examples/python_decoder")))

    def python(name):
        options = {"file": str(folder / "remembering.py"), "class": name, "exactness": "exact", "score_kind": "logit"}
        return {"id": name, "name": "python", "options": options}

    (folder / "probe.json").write_text(json.dumps(small_config(decoders=["frame_looping", python("Greedy")])))
    probe = rtfx("run", folder / "probe.json", "--output", folder / "probe")
    if "has no shared library" in probe.stderr or "no torch" in probe.stderr:
        pytest.skip(probe.stderr)
    journal = run(rtfx, folder, decoders=[*map(python, ["Greedy", "Remembers", "RemembersLengths", "Knows"])], batch_sizes=[1],
                  protocol={"warmup_rounds": 1, "measured_rounds": 2})  # fmt: skip
    result = rtfx("verify", journal, "--output", folder / "verify", "--rounds", 2, "--sample", 9, "--json")
    assert result.returncode == CORRECTNESS, result.stdout + result.stderr
    return rows_of(result)


def test_an_honest_decoder_passes_the_audit(audited):
    assert only(audited, "Greedy", "caching")[0] in ("PASS", "INCONCLUSIVE")  # depends on this machine's other work


def test_results_that_are_remembered_are_found_by_their_time(audited):
    assert only(audited, "Remembers", "results")[0] == "PASS"
    (row,) = audited["Remembers", "caching"]
    assert row["verdict"] == "INVALID" and "it remembers them" in row["reason"]
    assert row["change"]["low"] > 1.1 and row["change"]["estimate"] > 3


def test_results_of_an_earlier_process_are_found_by_their_time(audited):
    assert only(audited, "Knows", "results")[0] == "PASS"
    (row,) = audited["Knows", "caching"]
    assert row["verdict"] == "INVALID" and row["change"]["low"] > 1.1


def test_steps_for_more_tokens_are_no_cache(rtfx, verify, tmp_path):
    """A decoder is no cache because it takes more steps: altered utterances have up to three times as many tokens, and
    take 1.3 to 1.4 times as long."""
    config = ["configs/ci/quickstart.json", "--set", "datasets.0.limit=2", 'decoders=["label_looping"]']
    assert rtfx("run", *config, "--output", tmp_path / "run", cwd=ROOT).returncode == 0
    for seed in (1334255618, 7, 9):
        rows = rows_of(verify(tmp_path / "run", "--seed", seed, "--json", rounds=1, cwd=ROOT))
        assert only(rows, "label_looping", "caching")[0] in ("PASS", "INCONCLUSIVE")


def test_results_that_are_remembered_by_lengths_are_found_by_their_words(audited):
    assert only(audited, "RemembersLengths", "results")[0] == "PASS"
    verdict, reason = only(audited, "RemembersLengths", "caching")
    assert verdict == "CORRECTNESS" and "results have other words than in the rerun" in reason
