"""Tests decoders written in Python: the example, every form of result, and the faults that one may have."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import AUDIO, HAS_GPU, MODELS, ROOT, runs_of, small_config, strict_records

DECODERS = ROOT / "tests/support/python_decoders.py"
EXAMPLE = ROOT / "examples/python_decoder"


def python(name, file=DECODERS, id=None, options=None, **more):
    return {"id": id or name, "name": "python",
            "options": {"file": str(file), "class": name, "options": options or {}, **more}}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def needs_python(transcribe):
    result = transcribe("--decoder", "python", "--options",
                        json.dumps({"file": str(EXAMPLE / "greedy.py"), "class": "Greedy"}),
                        AUDIO / "qs01.flac")  # fmt: skip
    if "has no shared library" in result.stderr or "no torch" in result.stderr:
        pytest.skip(result.stderr)
    assert result.returncode == 0, result.stderr


def journal(rtfx, folder, environment=None, **changes):
    """Runs a configuration, and returns the records of its journal and the finished process."""
    (folder / "config.json").write_text(json.dumps(small_config(**changes)))
    result = rtfx("run", folder / "config.json", "--output", folder / "run",
                  **({"env": environment} if environment else {}))  # fmt: skip
    return strict_records(folder / "run/journal.jsonl"), result


def by_decoder(records):
    return {record["decoder"]["id"]: record for record in runs_of(records)}


@pytest.mark.parametrize("batch", [1, 2])
def test_the_example_is_exact(rtfx, tmp_path, batch):
    example = python("Greedy", EXAMPLE / "greedy.py", exactness="exact", score_kind="logit")
    records, result = journal(rtfx, tmp_path, decoders=["frame_looping", example], batch_sizes=[batch])
    assert result.returncode == 0, result.stderr
    run = by_decoder(records)["Greedy"]
    assert run["exactness"]["grade"] in ("bitwise", "exact")
    assert run["exactness"]["replay"]["beyond"] == 0
    assert run["counters"].keys() == {"objects_us", "results_us"}
    versions = run["decoder"]["options"]["versions"]
    assert versions["torch"].startswith("2.") and versions["python"].startswith("3.")
    assert run["decoder"]["options"]["max_symbols"] == 10


def test_more_word_errors_than_in_fp32_fail_a_run_that_forbids_them(rtfx, tmp_path):
    own = python("CtcGreedyInFp32", head="ctc")
    records, result = journal(rtfx, tmp_path, decoders=["ctc_greedy", own], dtypes=["fp32", "bf16"])
    assert result.returncode == 0, result.stderr
    errors = {run["dtype"]: run["wer"]["wer"] for run in runs_of(records) if run["decoder"]["id"] == "CtcGreedyInFp32"}
    assert errors["bf16"] == 1 > errors["fp32"]
    forbidden = ("--resume", "--set", "verify.wer_above_fp32=0")
    result = rtfx("run", tmp_path / "config.json", "--output", tmp_path / "run", *forbidden)
    points = 100 * (errors["bf16"] - errors["fp32"])
    said = f"{points:.2f} points more word errors than in fp32, `verify.wer_above_fp32` allows 0.00"
    assert result.returncode == 13 and f"/CtcGreedyInFp32/b2/bf16: {said}" in result.stderr, result.stderr


def test_a_greedy_decoder_that_is_declared_approximate_is_not_replayed(rtfx, tmp_path):
    records, result = journal(rtfx, tmp_path, decoders=[
        "frame_looping", python("Greedy", EXAMPLE / "greedy.py", score_kind="logit")])  # fmt: skip
    assert result.returncode == 0, result.stderr
    runs = by_decoder(records)
    assert runs["Greedy"]["exactness"]["replay"] is None
    assert runs["Greedy"]["exactness"]["replay_left_out"].startswith("the decoder is declared approximate")
    assert "replay_left_out" not in runs["frame_looping"]["exactness"]


def test_the_triton_example(rtfx, tmp_path):
    """The Triton example is right if its kernel is interpreted. Without that, it fails on a CPU with a clear
    message."""
    example = python("TritonGreedy", EXAMPLE / "triton_greedy.py", exactness="exact",
                     score_kind="logit", options={"labels": 1024, "width": 1024})  # fmt: skip
    lines = (AUDIO / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    shortest = min(map(json.loads, lines), key=lambda line: line["duration"])
    shortest["audio_filepath"] = str(AUDIO / shortest["audio_filepath"])
    (tmp_path / "one.jsonl").write_text(json.dumps(shortest) + "\n")
    changes = {"decoders": ["frame_looping", example],
               "datasets": [{"id": "one", "manifest": str(tmp_path / "one.jsonl")}]}  # fmt: skip
    records, result = journal(rtfx, tmp_path, os.environ | {"TRITON_INTERPRET": "1"}, **changes)
    assert by_decoder(records)["TritonGreedy"]["exactness"]["grade"] in ("bitwise", "exact"), result.stderr
    (tmp_path / "run").rename(tmp_path / "interpreted")
    records, _ = journal(rtfx, tmp_path, **changes)
    (failure,) = [r for r in records if r["kind"] == "failure"]
    assert "needs a GPU" in failure["message"] and failure["stage"] == "prepare"


@pytest.mark.parametrize("form", ["lists", "elements", "tensors"])
def test_ctc(rtfx, tmp_path, form):
    own = python("CtcGreedy", options={"form": form}, head="ctc", exactness="exact")
    records, result = journal(rtfx, tmp_path, decoders=["ctc_greedy", own])
    assert result.returncode == 0, result.stderr
    run = by_decoder(records)["CtcGreedy"]
    assert run["exactness"] | {"replay": None} == {
        "baseline": "ctc_greedy", "grade": "exact", "first_difference": None, "replay": None,
        "grades": run["exactness"]["grades"]}  # fmt: skip
    assert run["counters"]["tokens"] > 0
    assert run["decoder"]["options"]["versions"]["own"] == "1.5"


@pytest.mark.skipif(not HAS_GPU, reason="needs a GPU")
def test_lists_may_have_their_marks_on_the_gpu(rtfx, tmp_path):
    records, result = journal(rtfx, tmp_path, decoders=[python("CtcGreedy", head="ctc")], device="cuda")
    assert result.returncode == 0, result.stderr
    assert by_decoder(records)["CtcGreedy"]["counters"]["tokens"] > 0


def test_tdt(rtfx, tmp_path):
    records, result = journal(
        rtfx, tmp_path, models=[str(MODELS / "quickstart-tdt.nemo")],
        decoders=["frame_looping", python("TdtGreedy", exactness="exact", score_kind="logit")])  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert by_decoder(records)["TdtGreedy"]["exactness"]["grade"] in ("bitwise", "exact")


def test_tensors_are_shared(rtfx, tmp_path):
    """Two decoders of a batch get tensors at the same addresses, so neither has a copy."""
    records, result = journal(rtfx, tmp_path, decoders=[python("Addresses", id="a"), python("Addresses", id="b")])
    assert result.returncode == 0, result.stderr
    runs = by_decoder(records)
    for name in ("frames", "weight"):
        assert runs["a"]["counters"][name] == runs["b"]["counters"][name] != 0


@pytest.mark.parametrize("form", ["lists", "tensors", "arrays"])
def test_nbest_lists(rtfx, tmp_path, form):
    records, result = journal(rtfx, tmp_path, decoders=[python("NBest", options={"form": form})])
    assert result.returncode == 0, result.stderr
    run = by_decoder(records)["NBest"]
    assert run["oracle_wer"]["entries"] == 2
    assert run["exactness"]["grade"] == "baseline"


def test_it_works_isolated(rtfx, tmp_path):
    records, result = journal(rtfx, tmp_path, isolate=True, decoders=[
        "frame_looping", python("Greedy", EXAMPLE / "greedy.py"),
        python("Faulty", id="ends", options={"fault": "_exit"}), "label_looping"])  # fmt: skip
    assert result.returncode == 1, result.stderr
    assert set(by_decoder(records)) == {"frame_looping", "Greedy", "label_looping"}
    (failure,) = [r for r in records if r["kind"] == "failure"]
    assert failure["decoder"]["id"] == "ends"


FAULTS = {
    "in_constructor": "ValueError: of its own (python_decoders.py:",
    "raises": "KeyError: 'of its own' (python_decoders.py:",
    "sys_exit": "SystemExit: 3 (python_decoders.py:",
    "fewer_rows": "`lengths` is [1], not [2]",
    "nan_score": "row 1: its score is nan (utterance '",
    "token": "row 1: token 1 is 1024, allowed are 0 to 1023 (utterance '",
    "negative": "row 1: token 1 is -1, allowed are 0 to 1023 (utterance '",
    "frame": "row 1: token 1 is at frame 1000000 of ",
    "backwards": "row 1: token 1 is at frame 0, the one before at 1 (utterance '",
    "long_lengths": "row 0: its length is 3, there is room for 2 tokens (utterance '",
    "large": "row 1: token 1 is 4294967301, which is no integer of 32 bits (utterance '",
    "fraction": "row 1: token 1 is 5.5, which is no integer of 32 bits (utterance '",
    "truth": "row 1: token 1 is True, which is no integer of 32 bits (utterance '",
    "large_tensor": "row 1: token 1 is 4294967301, which is no integer of 32 bits (utterance '",
    "large_tensors": "row 1: token 1 is 2147483647, allowed are 0 to 1023 (utterance '",
    "large_unsigned": "row 1: token 1 is 2147483647, allowed are 0 to 1023 (utterance '",
    "fraction_frame": "row 1: frame 1 is 0.5, which is no integer of 32 bits (utterance '",
    "fraction_frames": "`frames` is a tensor of torch.float32, not of integers",
    "many": "row 1: token 10 is the 11th at frame 0, max_symbols is 10 (utterance '",
    "surrogate": "ValueError: not text: \\udcff (python_decoders.py:",
    "unprintable": "Unprintable: no message (python_decoders.py:",
    "fraction_tensor": "row 1: `tokens` is a tensor of torch.float32, not of integers",
    "uneven": "row 1: 2 tokens, but 1 frames (utterance '",
    "more_scores": "row 1: 2 hypotheses, but 3 scores (utterance '",
    "more_frames": "row 1: 2 hypotheses, but 3 lists of frames (utterance '",
    "no_frames": "the result has no `frames`",
    "nothing": "the result is of type NoneType",
    "no_lengths": "the result has tensors without `lengths`",
    "fraction_counter": "TypeError: `counters` of Faulty has 'x': 1.7, which is no integer of 64 bits",
    "large_counter": "`counters` of Faulty has 'x': 1180591620717411303424, which is no integer of 64 bits",
    "list_of_counters": "`counters` of Faulty is of type list, not a dict of integers",
    "text_counter": "`counters` of Faulty has 'x': 'seven', which is no integer of 64 bits",
    "numbered_counter": "`counters` of Faulty has the name 1, which is no text",
    "boosted_numbers": "`boosted_words` of Faulty has 1, which is no text",
    "boosted_text": "`boosted_words` of Faulty is of type str, not a list of words",
    "number_of_version": "`versions` of Faulty has 'own': 1.5, which is no text",
}


@pytest.fixture(scope="module")
def faults(rtfx, tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    bad = [python("Faulty", id=name, options={"fault": name}) for name in FAULTS]
    (folder / "broken.py").write_text("class Decoder:\n    def decode(self) return 1\n")
    bad += [
        python("Nobody", id="no_class"),
        python("Faulty", id="no_argument"),
        python("Decoder", folder / "broken.py", id="syntax"),
        python("Decoder", folder / "broken.py", id="syntax_again"),
        {"id": "no_module", "name": "python", "options": {"module": "no.such.module"}},
    ]
    return journal(rtfx, folder, decoders=["frame_looping", *bad, "label_looping"])


@pytest.mark.parametrize("fault", [*FAULTS, "no_class", "no_argument", "syntax", "syntax_again", "no_module"])
def test_a_fault_is_a_failure_of_its_case(faults, fault):
    records, result = faults
    assert result.returncode == 1
    (failure,) = [r for r in records if r["kind"] == "failure" and r["decoder"]["id"] == fault]
    expected = FAULTS | {
        "no_class": "no class 'Nobody'; there are: CtcGreedy, CtcGreedyInFp32, TdtGreedy, NBest, Addresses, Unprintable, Faulty",
        "no_argument": "missing 1 required positional argument: 'fault'",
        "syntax": "SyntaxError: ",
        "syntax_again": "SyntaxError: ",
        "no_module": "ModuleNotFoundError: No module named 'no'",
    }
    assert expected[fault] in failure["message"]
    assert "\n" not in failure["message"]


def test_the_others_are_done(faults):
    assert set(by_decoder(faults[0])) == {"frame_looping", "label_looping"}


SPOILERS = {
    "weights": "the weights joint.joint_net.weight",
    "weights_made": "the weights joint.joint_net.weight",
    "weights_by_numpy": "the weights joint.pred.bias",
    "weights_and_raises": "the weights joint.joint_net.weight; it also failed: ",
    "frames": "the encoder's frames",
    "lengths": "the lengths",
    "threads": "the number of threads (1 -> 2)",
    "threads_made": "the number of threads (1 -> 2)",
    "autocast": "autocast on the CPU (off -> on)",
    "gradients": "gradients (off -> on)",
    "inference": "inference mode (on -> off)",
    "rounding": "the rounding mode",
    "denormals": "what denormal numbers count as",
    "default_device": "changed torch's default device from cpu to meta",
    "device_scope": "changed torch's default device from cpu to meta",
    "default_dtype": "the default dtype",
    "precision": "the precision of float32",
    "folder": "the working directory",
}


@pytest.fixture(scope="module", params=["isolated", "throughput"])
def spoiled(rtfx, tmp_path_factory, request):
    """Returns the records of a run with all spoilers, its result, and the records of a run without them."""
    protocol = {"warmup_rounds": 0, "measured_rounds": 2, "mode": request.param}
    if request.param == "throughput":
        protocol["steady_seconds"] = 0
    others = ["frame_looping", python("Witness"), "label_looping"]
    bad = [python("Spoiler", id=name, options={"what": name}) for name in SPOILERS]
    records, result = journal(rtfx, tmp_path_factory.mktemp("spoiled"), decoders=[*others[:1], *bad, *others[1:]],
                              protocol=protocol)  # fmt: skip
    clean, good = journal(rtfx, tmp_path_factory.mktemp("clean"), decoders=others, protocol=protocol)
    assert good.returncode == 0, good.stderr
    return records, result, clean


@pytest.mark.parametrize("what", SPOILERS)
def test_a_change_of_what_all_share_is_named(spoiled, what):
    records, result, _ = spoiled
    assert result.returncode == 1
    failures = [r["message"] for r in records if r["kind"] == "failure" and r["decoder"]["id"] == what]
    assert len(failures) == 1 and SPOILERS[what] in failures[0], failures
    assert ("KeyError: 'of its own'" in failures[0]) == (what == "weights_and_raises")


def test_the_other_decoders_are_not_spoiled(spoiled):
    records, _, clean = spoiled
    wanted = {(r["decoder"]["id"], r["round"]): r for r in runs_of(clean)}
    found = {(r["decoder"]["id"], r["round"]): r for r in runs_of(records)}
    assert len(wanted) == 6
    for key, run in wanted.items():
        assert found[key]["hypotheses_sha256"] == run["hypotheses_sha256"], key
        counters = run["counters"].keys() - {"objects_us", "results_us"}
        assert {name: found[key]["counters"][name] for name in counters} == {
            name: run["counters"][name] for name in counters}  # fmt: skip


def test_a_module_may_bring_another_openfst(transcribe, other_openfst, tmp_path):
    (tmp_path / "decoder.py").write_text(f"""
import ctypes, sys
other = ctypes.CDLL({str(other_openfst)!r}, mode=sys.getdlopenflags())
assert other.first_of_its_flags() == 1, "it has the program's flags"
sys.path.insert(0, {str(EXAMPLE)!r})
from greedy import Greedy
""")
    options = {"file": str(tmp_path / "decoder.py"), "class": "Greedy"}
    result = transcribe("--decoder", "python", "--options", json.dumps(options), AUDIO / "qs01.flac")
    assert result.returncode == 0 and result.stdout, result.stderr


def test_a_forked_process_does_not_go_on(rtfx, tmp_path):
    forks = python("Spoiler", id="forks", options={"what": "forks"})
    records, result = journal(rtfx, tmp_path, decoders=["frame_looping", forks, "label_looping"],
                              protocol={"warmup_rounds": 0, "measured_rounds": 2})  # fmt: skip
    assert result.returncode == 0, result.stderr
    rounds = [(r["decoder"]["id"], r["round"]) for r in runs_of(records)]
    assert sorted(rounds) == [(d, r) for d in ("forks", "frame_looping", "label_looping") for r in (0, 1)]
    assert [r["kind"] for r in records].count("provenance") == 1


def test_a_round_that_was_stopped_is_suspect(rtfx, tmp_path):
    records, result = journal(rtfx, tmp_path, decoders=["frame_looping", python("Stops")],
                              protocol={"warmup_rounds": 0, "measured_rounds": 3})  # fmt: skip
    assert result.returncode == 0, result.stderr
    for run in runs_of(records):
        assert ("stopped" in run["suspect"]) == (run["round"] == 1), run["conditions"]
        assert (run["conditions"]["stopped_seconds"] > 0.5) == (run["round"] == 1)
    assert "stopped: the process was stopped or the machine slept" in result.stdout


def test_one_that_fails_at_its_end_leaves_its_results(rtfx, tmp_path):
    decoders = ["label_looping", python("FailsAtItsEnd")]
    records, result = journal(rtfx, tmp_path, decoders=decoders)
    assert result.returncode == 0, result.stderr
    assert set(by_decoder(records)) == {"FailsAtItsEnd", "label_looping"}


def test_transcribe_refuses_a_change_too(transcribe):
    options = {"file": str(DECODERS), "class": "Spoiler", "options": {"what": "threads"}}
    result = transcribe("--decoder", "python", "--options", json.dumps(options), AUDIO / "qs01.flac")
    assert result.returncode == 1 and result.stdout == ""
    assert "python: changed what all decoders share: the number of threads" in result.stderr


def test_one_that_hangs_costs_its_case(rtfx, tmp_path):
    records, result = journal(
        rtfx, tmp_path, isolate=True,
        protocol={"warmup_rounds": 0, "measured_rounds": 1, "case_limit_seconds": 5},
        decoders=[python("Faulty", id="hangs", options={"fault": "hangs"}), "label_looping"])  # fmt: skip
    assert result.returncode == 1, result.stderr
    (failure,) = [r for r in records if r["kind"] == "failure"]
    assert failure["decoder"]["id"] == "hangs" and "case_limit_seconds is 5" in failure["message"]
    assert set(by_decoder(records)) == {"label_looping"}


def test_a_python_without_this_torch_is_named(transcribe, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    for path, expected in ((tmp_path / "bare/bin/python", "has no torch"),
                           (tmp_path / "none", "is no Python that can be started")):  # fmt: skip
        options = {"file": str(DECODERS), "class": "CtcGreedy", "head": "ctc", "python": str(path)}
        result = transcribe("--decoder", "python", "--options", json.dumps(options), AUDIO / "qs01.flac")
        assert result.returncode == 2 and result.stdout == ""
        assert result.stderr.splitlines()[-1].startswith("rtfx: error: python: ")
        assert expected in result.stderr and str(path) in result.stderr


def test_file_or_module(rtfx, config):
    for options in ({}, {"file": str(DECODERS), "module": "one.too.many"}):
        path = config(decoders=[{"name": "python", "options": options}])
        result = rtfx("validate", path)
        assert result.returncode == 2
        assert "exactly one of `file` and `module`" in result.stderr
    result = rtfx("validate", config(decoders=[python("X", Path("nowhere.py"))]))
    assert result.returncode == 2 and "no such file" in result.stderr
