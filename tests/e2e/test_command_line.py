"""Tests subcommands and exit codes: 0 for success, 1 for a failed case or file, 2 for usage or configuration."""

import gzip
import json
import re

import pytest
from conftest import AUDIO, MODELS, runs_of, strict_records


def test_help_names_every_subcommand(rtfx):
    result = rtfx("--help")
    assert result.returncode == 0
    for name in ("run", "list", "validate", "transcribe", "report", "profile"):
        assert name in result.stdout
        assert rtfx(name, "--help").returncode == 0


def test_version(rtfx):
    result = rtfx("--version")
    assert result.returncode == 0 and "LibTorch" in result.stdout


@pytest.mark.parametrize("arguments", [[], ["frobnicate"], ["run"], ["run", "a.json", "--frob"]])
def test_usage_errors_exit_with_2(rtfx, arguments):
    result = rtfx(*arguments)
    assert result.returncode == 2
    assert result.stderr


@pytest.mark.parametrize(
    "arguments, rule",
    [
        (["bench", "--model", "m", "--data", "d", "--rounds", "0"], "--rounds: must be 1 or more, not '0'"),
        (["bench", "--model", "m", "--data", "d", "--batch", "1,x"], "--batch: must be 1 or more, not 'x'"),
        (["validate", "c", "--threads", "-1"], "--threads: must be 0 or more, not '-1'"),
        (["transcribe", "a", "--pause", "0"], "--pause: must be above 0, not '0'"),
        (["transcribe", "a", "--threads", "5000"], "--threads: must be from 0 to 1024, not '5000'"),
        (["stream", "--model", "m", "-", "--threads", "5000"], "--threads: is 5000; give 0 to 1024"),
        (["transcribe", "a", "--chunk", "nan"], "--chunk: must be from 0.5 to 3600, not 'nan'"),
        (["validate", "c", "--output", ""], "--output: must not be empty"),
        (["run", "c", "--device", ""], "--device: must not be empty"),
    ],
)
def test_a_value_out_of_range_says_what_is_allowed(rtfx, arguments, rule):
    result = rtfx(*arguments)
    assert result.returncode == 2 and rule in result.stderr
    assert len(result.stderr) < 200


def test_options_of_a_configuration_are_refused_with_a_model(rtfx):
    result = rtfx("stream", "--model", "m.nemo", "-", "--output", "o", "--resume", "--set", "a=b", "--sync-debug")
    assert result.returncode == 2
    message = "rtfx stream --model: does not take --set, --output, --sync-debug, --resume; leave that out"
    assert message in result.stderr and result.stderr.count("\n") == 1


def test_help_of_live_streams_says_which_options_are_for_which_use(rtfx):
    """`rtfx stream` refuses the other use's options, and its help names them."""
    text = rtfx("stream", "--help").stdout
    options = re.findall(r"^  (?:-h,)?(--[a-z-]+)", text, re.MULTILINE)
    live = options[options.index("--microphone"):]
    of_both = {"--help", "--device", "--threads", "--model"}
    configured = [name for name in options if name not in of_both and name not in live]
    assert f"Only a configuration takes {', '.join(configured)}." in " ".join(text.split())
    assert "The options from --microphone on need --model." in " ".join(text.split())
    for name in live:
        value = [] if name in ("--microphone", "--json") else ["20000" if name == "--raw" else "1"]
        result = rtfx("stream", "c.json", name, *value)
        assert result.returncode == 2 and f"{name} requires --model" in result.stderr, result.stderr


@pytest.mark.parametrize("other", [["--nsys"], ["--no-cupti"], ["--graph-trace", "graph"], ["--trace-limit", "5"]])
def test_options_of_a_timeline_are_refused_with_the_roofline(rtfx, config, other):
    result = rtfx("profile", config(), "--roofline", *other)
    assert result.returncode == 2 and other[0] in result.stderr and "--roofline" in result.stderr


@pytest.mark.parametrize(
    "command, flag, other",
    [
        (["report", "r"], "--table-only", ["--output", "p.html"]),
        (["report", "r"], "--table-only", ["--baseline", "b"]),
        (["report", "r"], "--table-only", ["--history", "h"]),
        (["report", "r"], "--table-only", ["--profile", "p"]),
        (["transcribe", "--model", "m", "a.wav"], "--json", ["--confidence"]),
        (["transcribe", "--model", "m", "a.wav"], "--json", ["--confidence-options", "{}"]),
        (["transcribe", "--model", "m", "a.wav"], "--json", ["--pause", "1"]),
        (["transcribe", "--model", "m", "a.wav"], "--json", ["--tokens"]),
    ],
)
def test_options_that_would_do_nothing_are_refused(rtfx, command, flag, other):
    result = rtfx(*command, flag, *other)
    assert result.returncode == 2
    assert all(word in result.stderr for word in (flag, "excludes", other[0])), result.stderr


def test_list_names_every_decoder(rtfx):
    result = rtfx("list")
    assert result.returncode == 0
    for name in ("ctc_greedy", "frame_looping", "label_looping", "null", "tdt_min_duration"):
        assert name in result.stdout


def test_list_as_json_tells_options_and_exactness(rtfx):
    decoders = {entry["name"]: entry for entry in json.loads(rtfx("list", "--json").stdout)}
    assert decoders["tdt_min_duration"]["exactness"] == "approximate"
    assert decoders["label_looping"]["exactness"] == "exact"
    assert decoders["python"]["models"] == ["ctc", "rnnt", "tdt"]  # its option `head` chooses
    options = {option["name"]: option for option in decoders["label_looping"]["options"]}
    assert options["window"]["default"] == 1
    assert options["max_symbols"]["help"]


def test_list_tells_the_keys_of_a_configuration(rtfx):
    keys = {key["name"]: key for key in json.loads(rtfx("list", "config", "--json").stdout)}
    assert keys["protocol.measured_rounds"]["default"] == 3
    assert keys["protocol.measured_rounds"]["allowed"] == "an integer 1..1000"
    assert keys["models.path"]["default_text"] == "required"
    text = rtfx("list", "config").stdout
    assert all(f"{name} " in text for name in keys)
    assert "default 3]" in text


def test_validate_prints_the_plan(rtfx, config):
    result = rtfx("validate", config(batch_sizes=[1, 2], decoders=["frame_looping", "ctc_greedy"]))
    assert result.returncode == 0
    for decoder in ("frame_looping", "ctc_greedy"):
        for batch in ("b1", "b2"):
            assert f"quickstart-rnnt/two/{decoder}/{batch}/fp32" in result.stdout


def test_validate_multiplies_lists_of_options(rtfx, config):
    decoders = ["frame_looping", {"name": "label_looping", "options": {"window": [1, 4]}}]
    result = rtfx("validate", config(decoders=decoders))
    assert result.returncode == 0
    assert "label_looping[window=1]" in result.stdout
    assert "label_looping[window=4]" in result.stdout


def test_set_overrides_a_value(rtfx, config):
    result = rtfx("validate", config(), "--set", "protocol.measured_rounds=7")
    assert result.returncode == 0 and "0 + 7 rounds each" in result.stdout


def test_validate_as_json(rtfx, config):
    plan = json.loads(rtfx("validate", "--json", config(decoders=["frame_looping", "null"])).stdout)
    assert plan["config"]["protocol"]["measured_rounds"] == 1
    assert [case["against"] for case in plan["cases"]] == ["frame_looping", None]
    assert plan["estimate"]["low_seconds"] < plan["estimate"]["high_seconds"]


def test_estimated_audio_has_no_padding(rtfx, config):
    single, padded = (
        json.loads(rtfx("validate", "--json", config(batch_sizes=[size])).stdout)["estimate"] for size in (1, 3)
    )
    assert single["audio_seconds"] == pytest.approx(padded["audio_seconds"])
    assert single["low_seconds"] < padded["low_seconds"]  # the encoder's work includes padding


def test_the_estimate_holds(rtfx, config, tmp_path):
    """The time of a run lies within the bounds that were estimated before it. After the run, its real time is shown."""
    path, run = config(), tmp_path / "run"
    before = json.loads(rtfx("validate", path, "--json", "--output", run).stdout)["estimate"]
    text = rtfx("validate", path, "--output", run).stdout
    assert re.search(r"^time +(about .*|between .* and .*): encoders of this size at", text, re.MULTILINE)
    assert "1 pass of a dataset" in text and "2 utterances" in text
    text = rtfx("validate", path, "--set", "stream.seconds=7").stdout
    assert "`rtfx stream` takes 7 s for each decoder and number of streams" in text
    result = rtfx("run", path, "--output", run)
    assert result.returncode == 0, result.stderr
    rounds = runs_of(strict_records(run / "journal.jsonl"))
    seconds = max(record["total_seconds"] for record in rounds)
    assert before["low_seconds"] < seconds < before["high_seconds"]
    after = json.loads(rtfx("validate", path, "--json", "--output", run).stdout)["estimate"]
    assert after["low_seconds"] == after["high_seconds"] == pytest.approx(seconds, rel=0.5)
    assert f"as {run}/journal.jsonl measured" in after["basis"]
    other = rtfx("validate", path, "--json", "--output", run, "--set", "datasets.0.limit=1").stdout
    assert "measured" not in json.loads(other)["estimate"]["basis"]
    journal = run / "journal.jsonl"
    (run / "journal.jsonl.gz").write_bytes(gzip.compress(journal.read_bytes()))
    journal.unlink()
    assert json.loads(rtfx("validate", path, "--json", "--output", run).stdout)["estimate"] == after


def test_a_run_ends_with_what_to_do_next(rtfx, config, tmp_path):
    run = tmp_path / "run it"
    result = rtfx("run", config(), "--output", run)
    assert result.stdout.endswith(f"\njournal: {run}/journal.jsonl\nnext: rtfx report '{run}'\n")


def test_the_table_has_all_edits_and_whole_ids(rtfx, config, tmp_path):
    ids = ["x" * 60 + end for end in "ab"]
    decoders = [{"id": id, "name": "label_looping"} for id in ids]
    result = rtfx("run", config(decoders=decoders), "--output", tmp_path / "run")
    wer = runs_of(strict_records(tmp_path / "run/journal.jsonl"))[0]["wer"]
    counts = "/".join(str(wer[kind]) for kind in ("substitutions", "deletions", "insertions"))
    assert sum(counts in line.split() for line in result.stdout.splitlines()) == 2
    assert all(re.search(rf"^  {id} ", result.stdout, re.MULTILINE) for id in ids)
    heads = [line for line in rtfx("compare", tmp_path / "run").stdout.splitlines() if "change [" in line]
    assert heads and all(id in heads[0] for id in ids)


def test_paths_of_set_are_relative_to_the_working_folder(rtfx, config, tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    (here / "m.nemo").symlink_to(MODELS / "quickstart-tdt.nemo")
    path = config()
    result = rtfx("validate", path, "--set", "models.0=m.nemo", cwd=here)
    assert result.returncode == 0 and "model    m: tdt + ctc" in result.stdout, result.stderr
    result = rtfx("validate", path, "--set", "models.0=here/m.nemo", cwd=here)
    assert result.returncode == 2 and "no such file" in result.stderr


def test_paths_are_relative_to_the_configuration(rtfx, tmp_path, config):
    (tmp_path / "m.nemo").symlink_to(MODELS / "quickstart-rnnt.nemo")
    path = config(models=["m.nemo"])
    assert rtfx("validate", path, cwd="/").returncode == 0


def test_transcribe_prints_the_text(transcribe):
    result = transcribe(AUDIO / "qs10.flac")
    assert result.returncode == 0
    assert len(result.stdout.split()) > 5 and result.stdout.count("\n") == 1


@pytest.mark.parametrize("model", ["quickstart-rnnt", "quickstart-tdt"])
def test_transcribe_as_json(transcribe, model):
    files = [AUDIO / "qs10.flac", AUDIO / "qs06.flac"]
    result = transcribe("--json", "--batch-size", 2, *files, model=model)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["file"] for line in lines] == [str(file) for file in files]
    for line in lines:
        assert line["text"] and isinstance(line["score"], float)
        assert len(line["tokens"]) == len(line["frames"])
        assert ("durations" in line) == (model == "quickstart-tdt")
        if "durations" in line:
            assert len(line["durations"]) == len(line["tokens"])


def test_transcribe_takes_a_folder(transcribe, tmp_path):
    for name in ("qs06.flac", "qs10.flac"):
        (tmp_path / name).symlink_to(AUDIO / name)
    result = transcribe("--json", tmp_path)
    assert result.returncode == 0 and len(result.stdout.splitlines()) == 2


def test_transcribe_goes_on_after_a_bad_file_and_exits_with_1(transcribe, tmp_path):
    result = transcribe("--json", tmp_path / "gone.wav", AUDIO / "qs10.flac")
    assert result.returncode == 1
    assert "gone.wav" in result.stderr
    assert [json.loads(line)["file"] for line in result.stdout.splitlines()] == [
        str(AUDIO / "qs10.flac")
    ]


def test_no_gpu_is_said_plainly(transcribe):
    result = transcribe("--device", "cuda:99", AUDIO / "qs10.flac")
    assert result.returncode == 2 and "cuda:99" in result.stderr
