"""Tests `rtfx stream`, files that a configuration makes ("prepare"), and `rtfx emissions`."""

import importlib
import json
import os
import sys

import numpy as np
import pytest
import soundfile
from conftest import AUDIO, MODELS, PROGRAM, ROOT, strict_records

PLUGIN = PROGRAM.parent / "tests/librtfx_planting_decoder.so"
FAULTY = PROGRAM.parent / "tests/librtfx_faulty_decoder.so"
LEXICON, LM = ROOT / "tests/data/words.lexicon", ROOT / "tests/data/words.arpa"
CACHE_AWARE = ROOT / "tests/data/checkpoints/tiny_streaming.nemo"


def settings(folder, **changes):
    """Returns settings with a small graph, the search on the CPU, two utterances, and 4 s of streams."""
    graph = str(folder / "made/words.tlg")
    files = [str(AUDIO / f"1737-146161-000{i}.flac") for i in (7, 9)]
    return {
        "datasets": [{"id": "two", "files": files}],
        "prepare": [{"graph": graph, "lexicon": str(LEXICON), "lm": str(LM)}],
        "decoders": [{"id": "cpu", "name": "ctc_wfst_cpu", "options": {"graph": graph}}],
        "stream": {"streams": [1, 3], "seconds": 4, "period_ms": 200, "chunk_ms": 300},
    } | changes


@pytest.fixture
def stream(rtfx, config, tmp_path):
    def run(*arguments, **changes):
        path = config(**settings(tmp_path, **changes))
        return rtfx("stream", path, "--output", tmp_path / "run", *arguments)

    return run


def dataset_of(folder, texts):
    """Writes a manifest of the recordings {name: text}, and returns the data set."""
    lines = [{"audio_filepath": str(AUDIO / name), "text": text} for name, text in texts.items()]
    (folder / "data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"id": "data", "manifest": str(folder / "data.jsonl")}


def streams_of(folder):
    return [r for r in strict_records(folder / "journal.jsonl") if r["kind"] == "stream"]


def test_latencies_are_recorded_for_each_number_of_streams(stream, tmp_path):
    decoders = ["null", *settings(tmp_path)["decoders"]]
    result = stream(decoders=decoders)
    assert result.returncode == 0, result.stderr
    assert "1 decoders that take no pieces are left out" in result.stderr
    assert f"made {tmp_path / 'made/words.tlg'}" in result.stderr
    one, three = streams_of(tmp_path / "run")
    assert [r["batch"] for r in (one, three)] == [
        {"by": "streams", "size": 1},
        {"by": "streams", "size": 3},
    ]
    for record, streams in ((one, 1), (three, 3)):
        # A tenth of the 4 s of arrivals is not measured, so each stream has 18 periods.
        assert record["requests"] == 18 * streams
        metrics = record["metrics"]
        parts = metrics["stream.compute_ms"] + metrics["stream.queue_ms"]
        assert metrics["stream.total_ms"] == pytest.approx(parts)
        assert metrics["stream.total_ms.p50"] <= metrics["stream.total_ms.p99"]
        assert 0 < metrics["stream.rtfx"] < 1.5 * streams
        assert record["streamed"]["utterances"] >= streams
        assert record["streamed"]["different"] == 0
        assert record["stream"]["arrivals"] == "constant" and record["stream"]["discard"] == 0.1
    assert "p99" in result.stdout and "DIFFERENT" not in result.stdout


def test_a_batch_begins_when_it_is_full_or_has_waited(stream, tmp_path):
    """The requests of three streams come at the same time."""
    load = {"streams": [3], "seconds": 1.5, "period_ms": 200, "arrivals": "lockstep"}

    def measured(**limits):
        result = stream("--force", decoders=["ctc_greedy"], stream=load | limits)
        assert result.returncode == 0, result.stderr
        (record,) = streams_of(tmp_path / "run")
        assert record["requests"] == 3 * 7 and {key: record["stream"][key] for key in limits} == limits
        return record["metrics"]

    assert measured(max_batch=1)["stream.mean_batch"] == 1
    assert measured(max_batch=3, max_wait_ms=150)["stream.mean_batch"] == 3
    late = measured(max_batch=4, max_wait_ms=100)  # a place stays free
    assert late["stream.mean_batch"] == 3 and late["stream.queue_ms"] >= 100


def test_every_kind_of_search_streams(stream, tmp_path):
    decoders = ["frame_looping", "label_looping", "alsd_pp", "aes_pp", "modified_beam_search", "ctc_greedy",
                "ctc_beam"]  # fmt: skip
    short = settings(tmp_path)["datasets"][0] | {"seconds": 1.2}  # so short that some streams end
    load = {"streams": [2], "seconds": 1.6, "period_ms": 100}
    result = stream(decoders=decoders, datasets=[short], stream=load)
    assert result.returncode == 0, result.stderr
    records = streams_of(tmp_path / "run")
    assert [r["decoder"]["name"] for r in records] == decoders
    assert all(r["streamed"]["different"] == 0 and r["streamed"]["tokens"] > 0 for r in records)


def test_a_baseline_may_be_a_decoder_that_takes_no_pieces(stream, tmp_path):
    decoders = ["alsd", {"name": "alsd_pp", "baseline": "alsd"}]
    result = stream(decoders=decoders, prepare=None, stream={"streams": [1], "seconds": 1.6, "period_ms": 200})
    assert result.returncode == 0, result.stderr
    assert "1 decoders that take no pieces are left out" in result.stderr
    assert [r["decoder"]["name"] for r in streams_of(tmp_path / "run")] == ["alsd_pp"]


def test_streams_from_samples_on(stream, tmp_path):
    load = {"streams": [1, 3], "seconds": 4, "period_ms": 200, "scope": "speech", "buffer": [1, 2, 0.4]}
    result = stream(decoders=["label_looping", "ctc_greedy"], stream=load)
    assert result.returncode == 0, result.stderr
    assert "all from samples to tokens" in result.stdout
    records = streams_of(tmp_path / "run")
    assert [r["batch"]["size"] for r in records] == [1, 3, 1, 3]
    for record in records:
        metrics = record["metrics"]
        assert record["streamed"]["tokens"] > 0 and record["streamed"]["different"] == 0
        assert 0 < metrics["stream.busy"] < 1 and 0 <= metrics["stream.late"] <= 1
        assert metrics["stream.final_ms.p50"] <= metrics["stream.final_ms.p99"]
        assert record["slo"] is None


def test_the_words_of_streams_are_compared_with_those_of_whole_utterances(stream, tmp_path):
    texts = {"1737-146161-0007.flac": "no said the doctor", "1737-146161-0009.flac": "it was a night of stars"}
    load = {"streams": [2], "seconds": 1, "period_ms": 200, "scope": "speech", "buffer": [0.4, 1, 0.4], "quality": True}
    result = stream(decoders=["label_looping"], datasets=[dataset_of(tmp_path, texts)], stream=load)
    assert result.returncode == 0, result.stderr
    (record,) = streams_of(tmp_path / "run")
    quality = record["quality"]
    assert quality["streamed"]["reference_words"] == quality["whole"]["reference_words"] == 10
    errors = {part: quality[part]["wer"] for part in ("streamed", "whole")}
    assert quality["difference"] == pytest.approx(errors["streamed"] - errors["whole"])
    assert quality["low"] <= quality["difference"] <= quality["high"]
    # A token is shown once its chunk and right context have arrived, at the latest with the next chunk.
    assert 0.3 < quality["first_delay_seconds"] < 1.3
    assert 0 < quality["lag_seconds"] <= quality["lag_p95_seconds"]
    assert 0 <= quality["changed_share"] < 0.5
    assert "confirms" not in record


@pytest.fixture(scope="module")
def whole(transcribe):
    """Returns {name: transcript} of two whole recordings by label_looping, with the times of words."""
    clips = ["qs01.flac", "qs07.flac"]
    result = transcribe("--decoder", "label_looping", "--batch-size", 2, "--format", "json", *(AUDIO / c for c in clips))
    return dict(zip(clips, map(json.loads, result.stdout.splitlines()), strict=True))


def test_lost_words_are_counted_with_those_at_seams(stream, whole, tmp_path):
    data = dataset_of(tmp_path, {name: transcript["text"] for name, transcript in whole.items()})
    chunk = 0.8  # seconds; the model loses words without right context
    load = {"streams": [2], "seconds": 1, "period_ms": 200, "scope": "speech", "buffer": [chunk, 2, 0], "quality": True}
    result = stream(decoders=["label_looping"], datasets=[data], stream=load)
    assert result.returncode == 0, result.stderr
    (record,) = streams_of(tmp_path / "run")

    def is_at_seam(word, seconds):
        borders = [i * chunk for i in range(1, 10) if i * chunk < seconds]
        return any(word["start"] - 0.2401 < border < word["end"] + 0.2401 for border in borders)

    at_seams = [is_at_seam(word, one["seconds"]) for one in whole.values() for word in one["words"]]
    quality, found = record["quality"], record["quality"]["lost_words"]
    assert found["words"] == len(at_seams) and found["seam_seconds"] == 0.24
    assert found["share_at_seams"] == pytest.approx(sum(at_seams) / len(at_seams)) and not all(at_seams)
    assert quality["whole"]["wer"] == 0  # so every deletion of the streams is a lost word
    assert found["lost"] == quality["streamed"]["deletions"] > 0
    assert 0 < found["lost_at_seams"] <= found["lost"]
    share = f"{100 * found['share_at_seams']:.0f} %"
    assert (f"label_looping, 2 streams: {found['lost']} of {found['words']} words of whole utterances lost, "
            f"{found['lost_at_seams']} of these within 0.24 s of a border between two steps, as are {share} of all words"
            ) in result.stdout  # fmt: skip


def test_words_that_are_lost_on_purpose_at_seams_are_found(stream, whole, tmp_path):
    data = dataset_of(tmp_path, {name: transcript["text"] for name, transcript in whole.items()})
    planted = {"id": "planted", "name": "planting", "options": {"error": "seam"}}
    load = {"streams": [2], "seconds": 2.5, "period_ms": 1000, "quality": True}
    result = stream(plugins=[str(PLUGIN)], decoders=["label_looping", planted], datasets=[data], stream=load)
    assert result.returncode == 0, result.stderr
    qualities = {record["decoder"]["id"]: record["quality"] for record in streams_of(tmp_path / "run")}
    honest, lossy = (qualities[name]["lost_words"] for name in ("label_looping", "planted"))
    # The streams get the frames of whole utterances, so only the planted words are missing.
    assert honest["lost"] == honest["lost_at_seams"] == 0
    assert lossy["lost"] == lossy["lost_at_seams"] == qualities["planted"]["streamed"]["deletions"] >= 4
    for key in ("words", "share_at_seams"):
        assert lossy[key] == honest[key]
    assert 0 < lossy["share_at_seams"] < 1


def test_equality_of_nothing_is_marked(stream, tmp_path):
    soundfile.write(tmp_path / "silence.wav", np.zeros(8000, "float32"), 16000)
    load = {"streams": [1], "seconds": 1, "period_ms": 250, "scope": "speech", "buffer": [0.4, 0.4, 0.4]}
    datasets = [{"id": "silence", "files": [str(tmp_path / "silence.wav")]}]
    result = stream(decoders=["ctc_greedy"], datasets=datasets, stream=load)
    assert result.returncode == 0, result.stderr
    (record,) = streams_of(tmp_path / "run")
    assert record["streamed"]["utterances"] > 0 and record["streamed"]["tokens"] == 0
    assert "NO TOKENS" in result.stdout


def test_the_most_streams_within_a_latency(stream, tmp_path):
    load = {"streams": [1], "seconds": 1, "period_ms": 100, "slo_ms": 0.001}
    result = stream(decoders=["ctc_greedy"], stream=load)
    assert result.returncode == 0, result.stderr
    assert "at most 0 streams within 0.001 ms" in result.stdout
    [record] = streams_of(tmp_path / "run")
    assert record["slo"] is False


RULE = {"seconds": 2, "confirm_seconds": 3}


def load_by_rule(**changes):
    return {"streams": [1], "period_ms": 200, "rule": RULE | changes, "stagger_seconds": 0.5}


def test_a_rule_is_searched_by_trials(stream, tmp_path):
    load = load_by_rule(final_ms=0.001, growth=6) | {"streams": [6]}
    data = dataset_of(tmp_path, {f"1737-146161-000{i}.flac": "one two" for i in (7, 9)})
    result = stream(decoders=["ctc_greedy"], datasets=[data], stream=load)
    assert result.returncode == 0, result.stderr
    assert "ctc_greedy: 0 streams keep the rule" in result.stdout and "BROKEN" in result.stdout
    trials = streams_of(tmp_path / "run")
    assert [trial["batch"]["size"] for trial in trials] == [6, 1]  # with the default growth, 4 would follow 6
    trial = trials[0]
    assert trial["slo"] is False and trial["confirms"] is False
    used = trial["stream"]
    assert used["arrivals"] == "staggered" and used["start"] == "random"
    assert used["discard"] == 0 and used["seconds"] == 2 and used["rule"]["of_finals"] == "p95"


def test_each_number_of_streams_has_the_limit_of_a_case(stream, tmp_path):
    """The limit holds for each number of streams: all four together take longer, but none alone does."""
    load = {"streams": [1, 2, 3, 4], "seconds": 2.5, "period_ms": 200}
    result = stream(decoders=["ctc_greedy"], stream=load, protocol={"case_limit_seconds": 6})
    assert result.returncode == 0, result.stderr
    assert [record["batch"]["size"] for record in streams_of(tmp_path / "run")] == [1, 2, 3, 4]


def test_a_number_of_streams_over_the_limit_costs_no_other_one(stream, tmp_path):
    """Both numbers of streams exceed the limit, and each has a failure record of its own."""
    load = {"streams": [1, 2], "seconds": 3.5, "period_ms": 200}
    result = stream(decoders=["ctc_greedy"], stream=load, protocol={"case_limit_seconds": 3.4})
    assert result.returncode == 1, result.stderr
    failed = [record["case"] for record in strict_records(tmp_path / "run/journal.jsonl") if record["kind"] == "failure"]
    assert [case.split("/")[3] for case in failed] == ["streams1", "streams2"]


def test_a_number_of_streams_over_the_limit_has_the_advice_of_streams(stream):
    load = {"streams": [2], "seconds": 20, "period_ms": 200}
    result = stream(decoders=["ctc_greedy"], stream=load, protocol={"case_limit_seconds": 3})
    assert result.returncode == 1
    line = result.stderr.splitlines()[-1]
    assert "/ctc_greedy/streams2/fp32, stream: does not come back" in line
    assert "--resume goes on with the others" in line and "isolate" not in line


def test_words_cannot_be_compared_without_texts(stream, tmp_path):
    result = stream(decoders=["ctc_greedy"], stream=load_by_rule())
    assert result.returncode == 2 and not (tmp_path / "run").exists()
    assert "dataset 'two': has no texts" in result.stderr and "stream.rule" in result.stderr
    load = {"streams": [1], "seconds": 1.6, "period_ms": 200, "quality": True}
    result = stream(decoders=["ctc_greedy"], stream=load)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("notice: dataset 'two' has no texts") == 1
    assert "quality" not in streams_of(tmp_path / "run")[0]


def test_a_failure_that_cannot_be_recorded_ends_the_search(rtfx, config, tmp_path):
    data = dataset_of(tmp_path, {"1737-146161-0007.flac": "one two"})
    changes = {"decoders": ["ctc_greedy"], "datasets": [data], "plugins": [str(FAULTY)], "prepare": None}
    path = config(**settings(tmp_path, stream=load_by_rule(), **changes))
    environment = os.environ | {"RTFX_TEST_ENDS_CHILDREN": "1"}
    result = rtfx("stream", path, "--output", tmp_path / "run", env=environment)
    assert result.returncode == 1 and not result.stdout, result.stdout + result.stderr
    assert "/ctc_greedy/streams1/fp32: its process was ended by signal 9" in result.stderr
    assert "; the process that was to record this failed: its process was ended by signal 9" in result.stderr


def test_results_of_two_datasets_and_types_are_told_apart(stream, tmp_path):
    files = [str(AUDIO / "1737-146161-0007.flac")]
    datasets = [*settings(tmp_path)["datasets"], {"id": "one", "files": files}]
    load = {"streams": [1], "seconds": 1.6, "period_ms": 200, "slo_ms": 0.001}
    result = stream(decoders=["ctc_greedy"], datasets=datasets, dtypes=["fp32", "fp64"], stream=load)
    assert result.returncode == 0, result.stderr
    for dataset in ("two", "one"):
        for dtype in ("fp32", "fp64"):
            label = f"quickstart-rnnt/{dataset}/ctc_greedy/{dtype}"
            assert f"{label}: at most 0 streams within 0.001 ms" in result.stdout
            assert sum(line.startswith(label + " ") for line in result.stdout.splitlines()) == 1


def test_a_trial_that_confirms_compares_the_words(stream, tmp_path):
    data = dataset_of(tmp_path, {f"1737-146161-000{i}.flac": "one two" for i in (7, 9)})
    trial = {"group": 0, "decoder": "ctc_greedy", "streams": 2, "confirms": True, "failure": ""}
    result = stream(
        "--child", json.dumps(trial),
        decoders=["ctc_greedy"],
        datasets=[data],
        stream=load_by_rule(late=1, final_ms=1e6, wer=0),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    (record,) = streams_of(tmp_path / "run")
    assert record["confirms"] is True and record["slo"] is True
    assert record["stream"]["seconds"] == 3 and "/streams2-confirmed/" in record["case"]
    quality = record["quality"]
    assert quality["streamed"]["reference_words"] == quality["whole"]["reference_words"] == 4
    # The search gets the frames of whole utterances, so no word differs.
    assert quality["difference"] == quality["low"] == quality["high"] == 0
    assert quality["lost_words"]["lost"] == 0 < quality["lost_words"]["words"]


def test_a_trial_without_an_end_is_recorded(stream, tmp_path):
    trial = {"group": 0, "decoder": "ctc_greedy", "streams": 3, "confirms": False, "failure": "killed"}
    result = stream("--child", json.dumps(trial), decoders=["ctc_greedy"], stream=load_by_rule())
    assert result.returncode == 0, result.stderr
    records = strict_records(tmp_path / "run/journal.jsonl")
    (failure,) = (r for r in records if r["kind"] == "failure")
    assert failure["message"] == "killed" and "/streams3/" in failure["case"]


def test_resume_runs_nothing_twice(stream, tmp_path):
    assert stream().returncode == 0
    before = (tmp_path / "run/journal.jsonl").read_text()
    assert stream().returncode == 2  # the folder has a journal already
    assert stream("--resume").returncode == 0
    assert len(streams_of(tmp_path / "run")) == 2
    assert (tmp_path / "run/journal.jsonl").read_text().startswith(before)


def test_resume_measures_anew_under_other_settings(stream, tmp_path):
    load = {"streams": [1], "seconds": 1.6, "period_ms": 200}
    resume = ["--resume", "--set", "stream.period_ms=250"]
    for arguments, count in ([], 1), (["--resume"], 1), (resume, 2), (resume, 2):
        assert stream(*arguments, decoders=["ctc_greedy"], stream=load).returncode == 0
        assert len(streams_of(tmp_path / "run")) == count
    one, other = streams_of(tmp_path / "run")
    assert one["case"] == other["case"] and one["result_key"] != other["result_key"]
    assert [record["stream"]["period_ms"] for record in (one, other)] == [200, 250]
    # The name of a case holds its number of streams, so a new number leaves the others valid.
    result = stream(*resume, "--set", "stream.streams=[1, 2]", decoders=["ctc_greedy"], stream=load)
    assert result.returncode == 0
    assert [record["batch"]["size"] for record in streams_of(tmp_path / "run")] == [1, 1, 2]


def test_resume_forgets_what_was_made_good(stream, tmp_path):
    """An earlier failure or a measurement that was replaced changes no exit code."""
    load = {"streams": [1], "seconds": 1.6, "period_ms": 200}
    assert stream(decoders=["ctc_greedy"], stream=load).returncode == 0
    journal = tmp_path / "run/journal.jsonl"
    about, record, *_ = strict_records(journal)
    record["streamed"] |= {"different": 1, "first_difference": "1737-146161-0007"}
    of_case = ("schema", "provenance_id", "case", "result_key", "model", "dataset", "decoder", "batch", "dtype", "device")
    failure = {key: record[key] for key in of_case}
    failure |= {"kind": "failure", "stage": "stream", "message": "out of memory"}
    journal.write_text("".join(json.dumps(one) + "\n" for one in (about, failure, record)))
    result = stream("--resume", decoders=["ctc_greedy"], stream=load)
    assert result.returncode == 13 and "out of memory" not in result.stdout  # the record still counts
    result = stream("--resume", "--set", "stream.period_ms=250", decoders=["ctc_greedy"], stream=load)
    assert result.returncode == 0, result.stderr
    assert "DIFFERENT" not in result.stdout and result.stdout.count("ctc_greedy") == 1
    journal.write_text("".join(json.dumps(one) + "\n" for one in (about, failure)))
    assert stream("--resume", decoders=["ctc_greedy"], stream=load).returncode == 0


@pytest.mark.parametrize("number", ["streams1", "b1"])
def test_resume_makes_a_failure_behind_a_result_good(stream, rtfx, tmp_path, number):
    """A failure before any number of streams has the batch of the encoder in its name, and no result key."""
    load = {"streams": [1, 2], "seconds": 1.6, "period_ms": 200}
    assert stream(decoders=["ctc_greedy"], stream=load).returncode == 0
    journal = tmp_path / "run/journal.jsonl"
    record = streams_of(tmp_path / "run")[0]
    of_case = ("schema", "provenance_id", "case", "result_key", "model", "dataset", "decoder", "batch", "dtype", "device")
    failure = {key: record[key] for key in of_case}
    failure |= {"kind": "failure", "stage": "load", "message": "no such file"}
    if number != "streams1":
        failure |= {"case": failure["case"].replace("/streams1/", f"/{number}/"), "result_key": ""}
    with journal.open("a") as file:
        file.write(json.dumps(failure) + "\n")
    assert "no such file" in rtfx("summary", tmp_path / "run").stdout
    for _ in range(2):  # once it is good, nothing more is measured
        result = stream("--resume", decoders=["ctc_greedy"], stream=load)
        assert result.returncode == 0, result.stderr
        assert [record["batch"]["size"] for record in streams_of(tmp_path / "run")] == [1, 2, 1]
    assert "no such file" not in rtfx("summary", tmp_path / "run").stdout


def test_the_first_batch_size_of_each_dataset_is_streamed(stream, tmp_path):
    """A dataset that has only the second batch size of the run is streamed too. Batches matter for the encoder
    alone."""
    data = settings(tmp_path)["datasets"][0] | {"batch_sizes": [8]}
    load = {"streams": [1], "seconds": 1, "period_ms": 200}
    result = stream(decoders=["ctc_greedy"], datasets=[data], batch_sizes=[1, 8], stream=load)
    assert result.returncode == 0, result.stderr
    assert len(streams_of(tmp_path / "run")) == 1


@pytest.mark.parametrize(
    "changes, complaint",
    [
        ({"stream": None}, 'has no key "stream"'),
        ({"decoders": ["null"]}, "no decoder takes utterances in pieces"),
        ({"stream": {"arrivals": "poison"}}, "poisson"),
        ({"stream": {"period_ms": 400, "chunk_ms": 300}}, "chunk_ms"),
        ({"stream": {"streams": [4, 4]}}, "is there twice"),
        ({"stream": {"seconds": 0.5}}, "less than two periods"),
        ({"datasets": [{"id": "d", "files": [str(AUDIO / "qs10.flac")], "seconds": 0.00001}]}, "at least a sample"),
        ({"stream": {"strams": [4]}}, "streams"),
        ({"stream": {"scope": "sound"}}, "speech"),
        ({"stream": {"scope": "speech", "buffer": [2, 10]}}, "give three"),
        ({"stream": {"slo_ms": -1}}, "slo_ms"),
        ({"stream": {"rule": "c12"}}, "c120"),
        ({"stream": {"rule": {"late": 2}}}, "late"),
        ({"stream": {"rule": "c120", "slo_ms": 5}}, "give one limit"),
        ({"stream": {"rule": "c120", "seconds": 5}}, "give stream.rule.seconds"),
    ],
)
def test_bad_configurations(stream, changes, complaint):
    result = stream(**changes)
    assert result.returncode == 2
    assert complaint in result.stderr and len(result.stderr.splitlines()) <= 2, result.stderr


def test_no_request_is_no_latency_of_zero(stream, tmp_path):
    """With this seed, the only stream has no request before the end."""
    load = {"streams": [1], "period_ms": 1000, "seconds": 2, "discard": 0, "arrivals": "poisson"}
    result = stream(stream=load, protocol={"seed": 2})
    assert result.returncode == 1, result.stderr
    (failure,) = (r for r in strict_records(tmp_path / "run/journal.jsonl") if r["kind"] == "failure")
    complaint = "no request came within the measured time; raise stream.seconds, or use more streams"
    assert complaint in failure["message"] and complaint in result.stdout
    assert not streams_of(tmp_path / "run")


NO_FP8 = "dtype fp8: needs the fused encoder, which runs on a GPU only; use bf16"


@pytest.mark.parametrize("command", ["stream", "transcribe"])
def test_fp8_without_a_gpu_is_refused(rtfx, command):
    """Without a GPU, fp8 is refused, and no other number type replaces it."""
    without_gpu = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    result = rtfx(command, "--model", CACHE_AWARE, "--dtype", "fp8", AUDIO / "qs10.flac", env=without_gpu)
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr == f"rtfx: error: {NO_FP8}\n"


def test_streams_in_fp8_without_a_gpu_are_a_failure_of_their_case(stream, tmp_path):
    load = {"streams": [1], "seconds": 1, "period_ms": 320, "scope": "speech"}
    result = stream(models=[str(CACHE_AWARE)], prepare=None, decoders=["ctc_greedy"], dtypes=["bf16", "fp8"], stream=load)
    assert result.returncode == 1, result.stderr
    (measured,) = streams_of(tmp_path / "run")
    assert measured["dtype"] == "bf16"
    (failure,) = (r for r in strict_records(tmp_path / "run/journal.jsonl") if r["kind"] == "failure")
    assert (failure["dtype"], failure["stage"], failure["message"]) == ("fp8", "prepare", NO_FP8)


def test_prepare_names_what_is_missing_and_for_what(stream, tmp_path):
    [entry] = settings(tmp_path)["prepare"]
    result = stream(prepare=[entry | {"lm": "gone.arpa"}])
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    for text in ("gone.arpa", "words.tlg is made from it", "--set prepare.0.lm=FILE"):
        assert text in result.stderr
    assert not (tmp_path / "made/words.tlg").exists()
    result = stream(prepare=entry | {"lm": "gone.arpa"})
    assert "--set prepare.lm=FILE" in result.stderr


def test_a_missing_stand_in_whose_tokenizer_a_graph_needs_is_told_with_its_command(stream, tmp_path):
    gone = tmp_path / "standin-conformer-ctc-small.nemo"
    result = stream(models=[str(gone)])
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    assert f"{gone}: no such file; `scripts/stand_ins.sh conformer-ctc-small` makes this stand-in" in result.stderr


def test_words_to_boost_come_from_the_texts(rtfx, config, tmp_path):
    manifest = tmp_path / "m.jsonl"
    audio = str(AUDIO / "qs10.flac")
    line = {"audio_filepath": audio, "duration": 1.0, "text": "A, abaft; zebra!"}
    manifest.write_text(json.dumps(line) + "\n")
    made = [{"words": "said", "dataset": "d", "lexicon": str(LEXICON)},
            {"words": "others", "dataset": "d", "lexicon": str(LEXICON), "said": False},
            {"words": "first", "dataset": "folder", "lexicon": str(LEXICON)}]  # fmt: skip
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "f.trans.txt").write_text("one ABACK\ntwo ABAFT\n")
    for name in ("one", "two"):
        (folder / f"{name}.flac").symlink_to(audio)
    data = [{"id": "d", "manifest": str(manifest)}, {"id": "folder", "librispeech": str(folder), "limit": 1}]
    result = rtfx("validate", config(datasets=data, prepare=made))
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "said").read_text() == "a 1\nabaft 1\n"
    assert (tmp_path / "first").read_text() == "aback 1\n"
    others = [line.split()[0] for line in (tmp_path / "others").read_text().splitlines()]
    assert len(others) == 2 and not {"a", "abaft"} & set(others)


def test_the_table_of_the_paper(rtfx, tmp_path):
    own = settings(tmp_path)
    changes = {
        "prepare": own["prepare"], "decoders": own["decoders"], "decoders.0.id": "cuda_compact",
        "models.0.path": str(MODELS / "quickstart-rnnt.nemo"), "dtypes": ["fp32"],
        "datasets.0.manifest": str(AUDIO / "manifest.jsonl"),
        "stream.streams": [256], "stream.seconds": 2,
    }  # fmt: skip
    overrides = [a for k, v in changes.items() for a in ("--set", f"{k}={json.dumps(v)}")]
    result = rtfx("reproduce", "wfst_table4", "--device", "cpu", "--threads", 1, "--quick", 2,
                  "--output", tmp_path / "run", *overrides)  # fmt: skip
    assert result.returncode == 0, result.stderr
    text = (tmp_path / "run/table.md").read_text()
    assert "mean latency, ms" in text and "| 54.5 |" in text
    assert "cuda_compact" in (tmp_path / "run/stream_latency.svg").read_text()


def test_emissions_are_log_probabilities(rtfx, config, tmp_path):
    folder = tmp_path / "emissions"
    data = {"id": "two", "manifest": str(ROOT / "tests/data/two.jsonl"), "stand_in": "read by colleagues"}
    result = rtfx("emissions", config(datasets=[data]), "--output", folder)
    assert result.returncode == 0, result.stderr
    assert "notice: two: stand-in data: read by colleagues" in result.stderr
    lp = np.load(folder / "emissions.npy")
    lines = [json.loads(line) for line in (folder / "utterances.jsonl").read_text().splitlines()]
    assert len(lines) == 2 and sum(line["frames"] for line in lines) == len(lp)
    assert lp.dtype == np.float32
    np.testing.assert_allclose(np.exp(lp).sum(1), 1, atol=1e-4)
    assert all(line["text"] and line["seconds"] > 0 for line in lines)


def test_emissions_into_a_file_are_an_error_of_the_user(rtfx, config, tmp_path):
    (tmp_path / "file").write_text("")
    result = rtfx("emissions", config(), "--output", tmp_path / "file")
    assert result.returncode == 2 and f"{tmp_path}/file/emissions.npy: " in result.stderr and "Not a directory" in result.stderr


@pytest.fixture
def emissions_module():
    sys.path.insert(0, str(ROOT / "rivals/wfst"))
    yield importlib.import_module("emissions")
    sys.path.remove(str(ROOT / "rivals/wfst"))
    sys.modules.pop("emissions")


def test_the_rivals_read_them(rtfx, config, tmp_path, emissions_module):
    assert rtfx("emissions", config(), "--output", tmp_path).returncode == 0
    utterances = emissions_module.read(tmp_path)
    assert len(utterances[0].lp) >= len(utterances[1].lp)
    perfect = emissions_module.score(utterances, [u.words for u in utterances])
    assert perfect["wer"] == 0 and perfect["empty"] == 0
    nothing = emissions_module.score(utterances, [[], []])
    assert nothing["wer"] == 100 and nothing["empty"] == 2
