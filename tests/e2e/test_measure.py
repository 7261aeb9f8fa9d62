"""Tests scripts/measure.sh: each step calls the program that the reports name, and a stopped campaign continues."""

import gzip
import json
import os
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
import table_settings
from conftest import ROOT

SCRIPT = ROOT / "scripts/measure.sh"


@pytest.fixture
def measure(tmp_path):
    """Runs the script with programs that record their arguments, and returns (result, calls, folder). `calls` are those
    of rtfx and, if `python` is None, those of the rivals' Python too."""
    program, calls = tmp_path / "rtfx", tmp_path / "calls"
    program.write_text(
        "#!/usr/bin/env bash\n"
        f'printf "%s\\n" "$@" >>{calls}; echo -- >>{calls}\n'
        'while (($#)); do [[ $1 == --output ]] && mkdir -p "$2" &&\n'
        '  echo "{}" | tee "$2/journal.jsonl" "$2/profile.jsonl" >"$2/trace.json"\n'
        '  [[ $1 == --write ]] && echo "{}" >"$2"; shift; done\n'
        'exit "${FAILS:-0}"\n'
    )
    program.chmod(0o755)
    benchmark = tmp_path / "rtfx_microbench"
    benchmark.write_text(
        "#!/usr/bin/env bash\n"
        f'printf "%s\\n" "${{0##*/}}" "$@" >>{calls}; echo -- >>{calls}\n'
        'for option; do [[ $option != --benchmark_out=* ]] || echo "{}" >"${option#*=}"; done\n'
        'exit "${FAILS:-0}"\n'
    )
    benchmark.chmod(0o755)
    (tmp_path / "rtfx_bench_encoder").symlink_to(benchmark)
    folder = tmp_path / "out"

    def run(*steps, python="/bin/true", **settings):
        environment = os.environ | {"RTFX_BIN": str(program), "RTFX_MICROBENCH": str(benchmark)}
        environment.setdefault("PROGRAMS", "rtfx_microbench")  # so that no checkpoint of full size is made
        environment["RTFX_PYTHON"] = str(python or program)
        name = os.path.relpath(folder, settings["cwd"]) if "cwd" in settings else folder
        result = subprocess.run([SCRIPT, name, *steps], capture_output=True, text=True, env=environment, **settings)
        told = calls.read_text().split("--\n")[:-1] if calls.exists() else []
        return result, [call.splitlines() for call in told], folder

    return run


def test_a_step_is_measured_once(measure):
    result, calls, folder = measure("chain:ctc_0.6b", "searches:tdt")
    assert result.returncode == 0, result.stderr
    chain, searches = calls
    assert chain[:2] == ["run", "configs/chain.json"]
    assert 'decoders=["ctc_greedy"]' in chain and "batch_sizes=[128]" in chain
    (models,) = [a for a in chain if a.startswith("models=")]
    assert json.loads(models.removeprefix("models="))[0]["path"] == "data/standin-parakeet-ctc-0.6b.nemo"
    assert 'models=["data/standin256-tdt.nemo"]' in searches
    assert gzip.decompress((folder / "ctc_0.6b.jsonl.gz").read_bytes()) == b"{}\n"
    result, again, _ = measure("chain:ctc_0.6b")
    assert "measured before" in result.stdout and again == calls


def test_configurations_and_shapes_of_the_steps_are_there(measure):
    steps = subprocess.run([SCRIPT, "--list"], capture_output=True, text=True, check=True).stdout.split()
    result, calls, folder = measure()
    assert result.returncode == 0, result.stderr
    assert [line[3:] for line in result.stdout.splitlines() if line.startswith("== ")] == steps
    assert {path.name.removeprefix(".done-") for path in folder.glob(".done-*")} == set(steps)
    stand_ins = (ROOT / "models/widen_checkpoint.py").read_text(encoding="utf-8")
    for call in calls:
        if call[0] in ("run", "stream"):
            assert (ROOT / call[1]).exists(), call[1]
        for value in call:
            if value.startswith("models=[{"):
                (model,) = json.loads(value.removeprefix("models="))
                assert f'"{Path(model["path"]).stem.removeprefix("standin-")}"' in stand_ins


def test_a_model_of_a_table_takes_its_decoders_and_sets(measure):
    result, calls, folder = measure("table:beam_table1:fastconformer-rnnt-24k", "table:speed_of_light_table1:parakeet-ctc-1.1b")
    assert result.returncode == 0, result.stderr
    beam, ctc = (dict(argument.split("=", 1) for argument in call if "=" in argument) for call in calls)
    decoders = json.loads(beam["decoders"])
    assert {d["id"] for d in decoders} >= {"greedy", "alsd_pp_cg", "alsd_pp_cg_lm_spgi_24k"}
    assert not any(d["id"].endswith(("_1k", "_tdt")) or d["id"] == "alsd" for d in decoders)
    (lm,) = [d["options"]["lm"]["path"] for d in decoders if d["id"] == "alsd_pp_cg_lm_slurp_24k"]
    assert lm in ("data/lm/slurp_6gram.arpa.gz", "data/token_6gram.arpa.gz")  # the second where the first is absent
    sets = {d["id"]: d for d in json.loads(beam["datasets"])}
    assert sets.keys() == {"spgi", "europarl", "slurp"} and sets["slurp"]["stand_in"] == "the test set of AN4"
    assert [d["id"] for d in json.loads(ctc["decoders"])] == ["ctc_greedy"] and ctc["baseline"] == '"ctc_greedy"'
    assert (folder / "tables/beam_table1/fastconformer-rnnt-24k.jsonl.gz").is_file()


def test_slow_batches_take_a_sample_of_all_lengths(tmp_path, monkeypatch):
    monkeypatch.setattr(table_settings, "ROOT", tmp_path)
    lines = [{"audio_filepath": f"{i}.flac", "duration": (7 * i) % 100 + 1} for i in range(100)]
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    whole = {"id": "set", "manifest": "all.jsonl"}
    found = list(table_settings.by_batch(whole, [1, 4, 16, 32], {1: 4, 4: 20, 16: 1000}))
    assert [(d["id"], d["manifest"], d["batch_sizes"]) for d in found] == [
        ("set_4", "all_4.jsonl", [1]), ("set_20", "all_20.jsonl", [4]), ("set", "all.jsonl", [16, 32])]  # fmt: skip
    chosen = [json.loads(line) for line in (tmp_path / "all_4.jsonl").read_text().splitlines()]
    assert sorted(line["duration"] for line in chosen) == [13, 38, 63, 88]
    assert chosen == [line for line in lines if line in chosen]  # the order is that of the manifest
    assert list(table_settings.by_batch(whole, [200], {})) == [whole]


def test_sets_for_some_batch_sizes_are_chosen_by_batch():
    def sets(batches):
        lines = dict(line.split("=", 1) for line in table_settings.settings("speed_of_light_adversarial", "parakeet-rnnt-0.6b", batches=batches))
        return {(d["id"], *d["batch_sizes"]) for d in json.loads(lines["datasets"])}

    assert len(sets(None)) == 15 and {batch for _, batch in sets(None)} == {8, 32, 128}
    assert sets([32]) == {(f"long_p{name}", 32) for name in ("0_640", "0.01_640", "0.05_640", "0.25_640", "1_256")}
    with pytest.raises(SystemExit, match="no set is for batch sizes .64."):
        sets([64])


def test_a_table_is_tuned_before_it_is_measured(measure, monkeypatch, tmp_path):
    """Each search is tuned once for a development set, in its fastest form. The run uses what `rtfx tune` wrote."""
    dev = tmp_path / "dev.jsonl"
    dev.write_text("".join(json.dumps({"audio_filepath": f"{i}.flac", "duration": i + 1}) + "\n" for i in range(100)))
    settings = dict(setting.split("=", 1) for setting in tuned_settings(dev, monkeypatch))
    entries = {entry["decoder"]: entry for entry in json.loads(settings["tune"])}
    assert set(entries) == {"greedy_fused_lm_spgi_1k", "aes_lm_spgi_1k", "aes_pp_cg_lm_spgi_1k", "alsd_pp_fused_lm_spgi_1k"}
    fused = entries["alsd_pp_fused_lm_spgi_1k"]
    assert fused["dataset"]["manifest"] == str(dev) and len(fused["shared_with"]) == 8  # 9 in all: 3 sets, 3 forms each
    assert set(fused["options"]) == {"lm.alpha", "lm.beta", "lm.pruning", "lm.blank_scoring"}
    assert entries["aes_lm_spgi_1k"]["dataset"]["manifest"] == str(dev.with_stem("dev_64"))  # one utterance after the other
    decoders = {decoder["id"] for decoder in json.loads(settings["decoders"])}
    assert all({e["decoder"], *e["shared_with"]} <= decoders for e in entries.values())

    monkeypatch.setenv("TABLE_OPTIONS", "--tune")
    result, (tune, run), folder = measure("table:beam_table1:fastconformer-rnnt-1k")
    assert result.returncode == 0, result.stderr
    written = "configs/tables/beam_table1.fastconformer-rnnt-1k.tuned.json"
    assert tune[:2] == ["tune", "configs/tables/beam_table1.json"] and tune[tune.index("--write") + 1] == written
    assert run[:2] == ["run", written] and run[-2:] == ["--set", "name=beam_table1"]
    assert (folder / "tables/beam_table1/fastconformer-rnnt-1k.jsonl.gz").exists()
    assert not (ROOT / written).exists() and list(folder.glob("tune/*/*.tuned.json"))


def tuned_settings(dev, monkeypatch):
    monkeypatch.setattr(table_settings, "SETS", defaultdict(lambda: (dev, None)))
    return list(table_settings.settings("beam_table1", "fastconformer-rnnt-1k", tune=True))


def test_options_of_a_table_are_passed(measure, monkeypatch):
    monkeypatch.setenv("TABLE_OPTIONS", "--rounds 0 2 --streams 256 --batches 16 64")
    result, (call,), _ = measure("table:wfst_table4:conformer-ctc-large")
    assert result.returncode == 0, result.stderr
    assert call[:2] == ["stream", "configs/tables/wfst_table4.json"] and {
        "protocol.warmup_rounds=0", "protocol.measured_rounds=2", "stream.streams=[256]", "batch_sizes=[16, 64]"} <= set(call)  # fmt: skip


def test_a_table_that_was_measured_with_other_options_is_an_error(measure, monkeypatch):
    table = "table:label_looping_table5:stt_en_fastconformer_tdt_large"
    assert measure(table)[0].returncode == 0
    monkeypatch.setenv("TABLE_OPTIONS", "--whole")
    result, calls, folder = measure("prompt", table)
    assert result.returncode == 2 and len(calls) == 2  # the step `prompt` has no such options
    assert f"was measured with TABLE_OPTIONS=''; remove {folder}/.done-{table}" in result.stderr


def test_precision_and_control_of_a_table_are_passed(measure, monkeypatch):
    table = "table:label_looping_table5:stt_en_fastconformer_tdt_large"
    _, (plain,), _ = measure(table)
    assert not any(argument.startswith(("protocol.precision", "protocol.aa_control")) for argument in plain)
    monkeypatch.setenv("TABLE_OPTIONS", "--precision 0.03 --aa")
    (measure("prompt")[2] / f".done-{table}").unlink()
    result, (_, _, call), _ = measure(table)
    assert result.returncode == 0, result.stderr
    assert {"protocol.precision=0.03", "protocol.aa_control=true"} <= set(call)


def test_no_cell_of_a_table_is_lost_by_its_settings(tmp_path, monkeypatch):
    """Each published figure finds its decoder and its set, even where slow batch sizes take a sample of the set."""
    spoken = tmp_path / "spoken.jsonl"
    spoken.write_text("".join(json.dumps({"audio_filepath": "a.flac", "duration": i % 30 + 1}) + "\n" for i in range(2939)))
    monkeypatch.setattr(table_settings, "SETS", defaultdict(lambda: (spoken, None)))
    for step in table_settings.steps():
        name, model = step.split(":")
        config = json.loads((ROOT / f"configs/tables/{name}.json").read_text())
        chosen = dict(line.split("=", 1) for line in table_settings.settings(name, model))
        decoders = {d["id"] for d in json.loads(chosen["decoders"])}
        cases = {(d["id"], batch) for d in json.loads(chosen["datasets"]) for batch in d.get("batch_sizes", config["batch_sizes"])}
        for cell in config["cells"]:
            if cell["model"] != model or not cell.get("decoder"):
                continue
            assert cell["decoder"] in decoders and ("over_model" in cell or cell.get("over", cell["decoder"]) in decoders), (step, cell)
            assert "dataset" not in cell or "stream" in config or (cell["dataset"], cell["batch"]) in cases, (step, cell)


def test_journals_of_several_processes_are_joined(measure):
    for model in ("parakeet-rnnt-1.1b", "parakeet-rnnt-0.6b"):
        measure(f"table:speed_of_light_table1:{model}")
        result, calls, folder = measure("tables")  # the script is called for each model
    assert result.returncode == 0, result.stderr
    assert gzip.decompress((folder / "tables/speed_of_light_table1.jsonl.gz").read_bytes()) == b"{}\n{}\n"
    assert calls[-1] == ["reproduce", "--all", "--from", str(folder / "tables")]


def test_the_profile_stands_beside_the_joined_journals(measure):
    result, calls, folder = measure("table:speed_of_light_table1:parakeet-rnnt-1.1b", "profile", "tables")
    assert result.returncode == 0, result.stderr
    assert calls[1][:2] == ["profile", "configs/tables/speed_of_light_table1.json"]
    assert calls[1][calls[1].index("--only") + 1] == "/frame_looping"
    for name in ("profile.jsonl", "trace.json"):
        assert gzip.decompress((folder / f"tables/{name}.gz").read_bytes()) == b"{}\n"
    assert gzip.decompress((folder / "tables/speed_of_light_table1.jsonl.gz").read_bytes()) == b"{}\n"


def test_a_step_with_a_failed_case_keeps_its_journal_and_the_next_one_runs(measure, monkeypatch):
    monkeypatch.setenv("FAILS", "13")
    result, calls, folder = measure("prompt", "searches:tdt")
    assert result.returncode == 13 and len(calls) == 2
    assert result.stderr.splitlines()[-1] == "measure.sh: failed: prompt searches:tdt"
    for name in ("prompt", "searches_tdt"):
        assert (folder / f"{name}.jsonl.gz").is_file()
    assert not list(folder.glob(".done-*"))


def test_events_and_benchmarks_are_kept_beside_their_figures(measure, monkeypatch):
    monkeypatch.setenv("PROGRAMS", "rtfx_microbench rtfx_bench_encoder")
    result, calls, folder = measure("trace", "kernels", "microbench")
    assert result.returncode == 0, result.stderr
    for name in ("trace", "kernels_reference", "kernels_fused", "kernels_fp8"):
        for kind in ("json", "jsonl"):
            assert gzip.decompress((folder / f"{name}.{kind}.gz").read_bytes()) == b"{}\n"
    forms = [[a for a in call if a.startswith(("encoder=", "dtypes="))] for call in calls if "configs/greedy_forms.json" in call]
    assert forms == [[f"encoder={encoder}", f'dtypes=["{dtype}"]'] for encoder, dtype in
                     (("reference", "bf16"), ("automatic", "bf16"), ("automatic", "fp8"))]  # fmt: skip
    for name in ("rtfx_microbench", "rtfx_bench_encoder"):
        (call,) = [call for call in calls if call[0] == name]
        assert f"--benchmark_out={folder}/{name}.json" in call and any(a.startswith("--benchmark_context=gpu=") for a in call)
        assert (folder / f"{name}.json").is_file()


def test_word_errors_are_compared_before_the_hypotheses_are_gone(measure):
    result, calls, folder = measure("fp32:ctc_0.6b", "chain:ctc_0.6b")
    assert result.returncode == 0, result.stderr
    assert [call[0] for call in calls] == ["run", "compare", "run"] and calls[1][2] == "--json"
    assert (folder / "fp32_ctc_0.6b.json").exists() and not (folder / "ctc_0.6b.json").exists()


def test_a_command_that_fails_ends_its_step(measure, monkeypatch):
    """A command that fails ends its step, so the alignment's second program does not run."""
    result, calls, folder = measure("alignment", "costs", python="/bin/false")
    assert result.returncode == 1 and [call[0] for call in calls] == ["run"]
    assert [mark.name for mark in folder.glob(".done-*")] == [".done-costs"]


def test_an_interrupted_step_ends_the_script_and_goes_on_later(measure, monkeypatch):
    monkeypatch.setenv("FAILS", "130")
    result, calls, folder = measure("prompt", "searches:tdt")
    assert result.returncode == 130 and len(calls) == 1
    assert not (folder / "prompt.jsonl.gz").exists()
    monkeypatch.setenv("FAILS", "0")
    result, calls, _ = measure("prompt", "searches:tdt")
    assert result.returncode == 0, result.stderr
    first, second, other = calls
    output = first.index("--output") + 1
    assert second == [*first[: output + 1], "--resume", *first[output + 1 :]]
    assert "--resume" not in other and other[output] != first[output]
    assert (folder / "prompt.jsonl.gz").is_file() and not (ROOT / first[output]).exists()


def test_planted_errors_do_not_fail_their_step(measure):
    """The step accepts the grade `different` for planted errors, which the configuration of exactness forbids."""
    (call,) = measure("planted")[1]
    (verify,) = [json.loads(a.removeprefix("verify=")) for a in call if a.startswith("verify=")]
    config = json.loads((ROOT / "configs/exactness.json").read_text())
    assert verify["required"] == dict.fromkeys(config["dtypes"], "different")


def test_nemo_streams_have_the_steps_of_ours(measure):
    """The step `nemo_streams:PERIOD` has the context, checkpoint and speech of `c120:PERIOD`."""
    for period in (80, 160, 320, 560, 1120):
        result, calls, _ = measure(f"c120:{period}", f"nemo_streams:{period}", python=None)
        assert result.returncode == 0, result.stderr
        ours, theirs = calls[-2:]
        (models,) = [json.loads(a.removeprefix("models="))[0] for a in ours if a.startswith("models=")]
        (datasets,) = [json.loads(a.removeprefix("datasets="))[0] for a in ours if a.startswith("datasets=")]
        assert theirs[:2] == ["rivals/nemo/stream_steps.py", models["path"]]
        assert theirs[theirs.index("--manifest") + 1] == datasets["manifest"]
        left, right = models["att_context_size"]
        place = theirs.index("--att-context-size")
        assert theirs[place + 1 : place + 3] == [str(left), str(right)]
        assert 80 * (right + 1) == period and left % (right + 1) == 0
        streams = theirs[theirs.index("--streams") + 1 : theirs.index("--closer")]
        assert streams == sorted(streams, key=int) and len(streams) >= 3


def test_the_folder_counts_from_that_of_the_caller(measure, tmp_path):
    result, _, folder = measure("prompt", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (folder / "prompt.jsonl.gz").is_file()


def test_tables_without_settings_are_not_left_out(measure, monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to("/bin/false")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert measure("prompt")[0].returncode == 1
    assert subprocess.run([SCRIPT, "--list"], capture_output=True).returncode == 1


def test_transcripts_of_steps_are_removed(measure, monkeypatch, tmp_path):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    result, calls, folder = measure("transcribe")
    assert result.returncode == 0, result.stderr
    outputs = [call[call.index("--output") + 1] for call in calls]
    assert len(set(outputs)) == 3 and list((tmp_path / "temporary").iterdir()) == []


def test_an_unknown_step_is_named(measure):
    result, calls, _ = measure("nonsense")
    assert result.returncode == 2 and "no step 'nonsense'" in result.stderr and not calls
