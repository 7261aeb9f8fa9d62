"""Tests that a misbehaving plug-in costs one case, and that the program never reports success. test_isolation.py tests
the same with child processes."""

import json

import pytest
from conftest import AUDIO, PROGRAM, runs_of, small_config, strict_records

PLUGIN = PROGRAM.parent / "tests/librtfx_faulty_decoder.so"

WRONG = {
    "fewer_rows": "`nan` is [1], not [2]",
    "no_rows": "`nan` is [0], not [2]",
    "more_rows": "`nan` is [3], not [2]",
    "length": "row 1: its length is 1073741824, there is room for 4 tokens",
    "negative_length": "row 1: its length is -1",
    "nan_score": "row 1: its score is nan",
    "infinite_score": "row 1: its score is inf",
    "list_score": "row 1: n-best list: its score is nan",
    "frame_before": "row 1: token 0 is at frame -100 of ",
    "frame_behind": "row 1: token 1 is at frame 1073741824 of ",
    "decreasing": "row 1: token 1 is at frame 2, the one before at 3",
    "durations": "`durations` is there, though the model or its head has none",
    "blank": "row 1: token 1 is 1024, allowed are 0 to 1023",
    "token": "row 1: token 1 is -7",
    "dtype": "`tokens` is Long, not Int",
    "shape": "`frames` is [2, 2], not [2, 4]",
    "strides": "`tokens` has gaps between its slots",
    "undefined": "`scores` is not there",
    "device": "`lengths` is on meta, `nan` on cpu",
}
CHANGED = {
    "weights": "the weights joint.joint_net.weight",
    "frames": "the encoder's frames",
    "lengths": "the lengths",
    "threads": "the number of threads (1 -> 2)",
    "autocast": "autocast on the CPU (off -> on)",
    "rounding": "the rounding mode",
}
THROWN = {
    "throw_int": "an exception of type int, which is no std::exception",
    "throw_error": "of its own",
    "throw_c10": "shape '[3]' is invalid for input of size 2",
}


def faulty(fault, **options):
    return {"id": fault, "name": "faulty", "options": {"fault": fault, **options}}


@pytest.fixture(scope="module")
def records(rtfx, tmp_path_factory):
    """Runs two good decoders and one decoder for every fault that a process survives."""
    folder = tmp_path_factory.mktemp("contract")
    decoders = [faulty(name) for name in [*WRONG, *CHANGED, *THROWN]]
    config = small_config(plugins=[str(PLUGIN)], baseline="frame_looping",
                          decoders=["frame_looping", *decoders, "label_looping"])  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    result = rtfx("run", folder / "config.json", "--output", folder / "run")
    assert result.returncode == 1, result.stderr
    return strict_records(folder / "run/journal.jsonl")


@pytest.mark.parametrize("fault", CHANGED)
def test_a_change_of_what_all_share_is_named(records, fault):
    (failure,) = [r for r in records if r["kind"] == "failure" and r["decoder"]["id"] == fault]
    assert f"faulty: changed what all decoders share: {CHANGED[fault]}; it was put back" in failure["message"]


def test_the_others_have_their_results(rtfx, records, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(small_config()))
    assert rtfx("run", tmp_path / "config.json", "--output", tmp_path / "run").returncode == 0
    alone = {r["decoder"]["id"]: r for r in runs_of(strict_records(tmp_path / "run/journal.jsonl"))}
    for run in runs_of(records):
        assert run["hypotheses_sha256"] == alone[run["decoder"]["id"]]["hypotheses_sha256"]


def test_a_forked_process_does_not_go_on(rtfx, tmp_path):
    config = small_config(plugins=[str(PLUGIN)], decoders=["frame_looping", faulty("forks"), "label_looping"],
                          protocol={"warmup_rounds": 0, "measured_rounds": 2})  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = rtfx("run", tmp_path / "config.json", "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    rounds = [(r["decoder"]["id"], r["round"]) for r in runs_of(strict_records(tmp_path / "run/journal.jsonl"))]
    assert sorted(rounds) == [(d, r) for d in ("forks", "frame_looping", "label_looping") for r in (0, 1)]


@pytest.mark.parametrize("fault", [*WRONG, *THROWN])
def test_a_fault_is_a_failure_of_its_case(records, fault):
    (failure,) = [r for r in records if r["kind"] == "failure" and r["decoder"]["id"] == fault]
    assert failure["stage"] == "decode" and failure["case"].split("/")[2] == fault
    if fault in WRONG:
        assert failure["message"].startswith("the decoder's result is wrong: ")
        if "row" in WRONG[fault]:
            assert "(utterance '" in failure["message"]
    assert (WRONG | THROWN)[fault] in failure["message"]


def test_the_others_are_done(records):
    done = [r["decoder"]["id"] for r in runs_of(records)]
    assert sorted(done) == ["frame_looping", "label_looping"]


@pytest.mark.parametrize("fault", ["length", "blank", "throw_int"])
def test_transcribe_refuses_it_too(transcribe, fault):
    result = transcribe("--plugins", PLUGIN, "--decoder", "faulty",
                        "--options", f'{{"fault": "{fault}"}}', AUDIO / "qs01.flac")  # fmt: skip
    assert result.returncode == 1 and result.stdout == ""
    expected = (WRONG | THROWN)[fault].replace("row 1", "row 0")
    assert result.stderr.startswith("rtfx: error: ") and expected in result.stderr


@pytest.mark.parametrize("fault", ["frame_behind", "throw_int"])
def test_a_profile_refuses_it_too(rtfx, config, tmp_path, fault):
    path = config(plugins=[str(PLUGIN)], decoders=[faulty(fault), "label_looping"])
    result = rtfx("profile", path, "--output", tmp_path / "run")
    assert result.returncode == 1
    records = strict_records(tmp_path / "run/profile.jsonl")
    (failure,) = [r for r in records if r["kind"] == "failure"]
    assert (WRONG | THROWN)[fault] in failure["message"]
    assert [r["decoder"]["id"] for r in records if r["kind"] == "profile"] == ["label_looping"]


ENDS = {
    "exit": "was ended by exit()",
    "_exit": "was ended by _exit()",
    "quick_exit": "was ended by exit()",
}


@pytest.mark.parametrize("fault", ENDS)
def test_exit_ends_the_program_with_an_error(run_config, tmp_path, fault):
    """If a plug-in ends the process, all recorded rounds are kept, and the exit code and the last line show the
    error."""
    result = run_config(plugins=[str(PLUGIN)], decoders=["frame_looping", faulty(fault, decodes=1)],
                        protocol={"warmup_rounds": 0, "measured_rounds": 3})  # fmt: skip
    assert result.returncode == 1
    line = result.stderr.splitlines()[-1]
    assert line.startswith(f"rtfx: error: quickstart-rnnt/two/{fault}/b2/fp32, decode: the program")
    assert ENDS[fault] in line and "--resume" in line and "isolate" in line
    records = strict_records(tmp_path / "run/journal.jsonl")
    assert len(runs_of(records)) == 2  # the first round of both decoders


def test_an_end_within_a_profile_has_the_advice_of_a_profile(rtfx, config, tmp_path):
    path = config(plugins=[str(PLUGIN)], decoders=[faulty("exit", decodes=1)])
    result = rtfx("profile", path, "--output", tmp_path / "run")
    line = result.stderr.splitlines()[-1]
    assert result.returncode == 1 and ENDS["exit"] in line
    assert "--only chooses others" in line and "--resume" not in line


def test_a_crash_names_its_case(run_config):
    result = run_config(plugins=[str(PLUGIN)], decoders=[faulty("abort"), "frame_looping"])
    assert result.returncode == -6
    assert "quickstart-rnnt/two/abort/b2/fp32, decode: the program aborted" in result.stderr


def test_a_case_over_its_limit_costs_that_case(run_config, tmp_path):
    """A slow decoder that returns in the end loses its own case alone, and the process goes on."""
    protocol = {"warmup_rounds": 0, "measured_rounds": 6, "case_limit_seconds": 4}
    result = run_config(plugins=[str(PLUGIN)], decoders=["frame_looping", faulty("slow")],
                        protocol=protocol)  # fmt: skip
    assert result.returncode == 1, result.stderr
    records = strict_records(tmp_path / "run/journal.jsonl")
    failures = [r for r in records if r["kind"] == "failure"]
    assert [r["decoder"]["id"] for r in failures] == ["slow"]
    assert "protocol.case_limit_seconds is 4" in failures[0]["message"]
    done = [r["decoder"]["id"] for r in runs_of(records)]
    assert done.count("frame_looping") == 6 and 0 < done.count("slow") < 6


def test_a_case_that_hangs_ends_the_program_by_name(run_config, tmp_path):
    result = run_config(plugins=[str(PLUGIN)], decoders=["frame_looping", faulty("hang", decodes=1)],
                        protocol={"warmup_rounds": 0, "measured_rounds": 2,
                                  "case_limit_seconds": 3})  # fmt: skip
    assert result.returncode == 1
    line = result.stderr.splitlines()[-1]
    assert "quickstart-rnnt/two/hang/b2/fp32, decode: does not come back" in line
    assert "case_limit_seconds is 3" in line and "isolate=true" in line
    assert len(runs_of(strict_records(tmp_path / "run/journal.jsonl"))) == 2
