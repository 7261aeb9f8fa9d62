"""Tests that `rtfx bench` compares decoders without a configuration file."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
import soundfile
from conftest import AUDIO, MODELS, PROGRAM, ROOT, rounds_in, runs_of, strict_records, wait_until

MODEL = MODELS / "quickstart-rnnt.nemo"
DATA = AUDIO / "manifest.jsonl"


@pytest.fixture
def bench(rtfx, tmp_path):
    def run(*arguments, model=MODEL, data=(DATA,)):
        return rtfx("bench", "--model", model, "--data", *data, "--device", "cpu", "--threads", 1,
                    "--output", tmp_path / "bench", *arguments)  # fmt: skip

    return run


def test_lists_multiply(bench, tmp_path):
    arguments = ["--decoder", "frame_looping,label_looping[window=1,4]", "--batch", "1,2",
                 "--limit", 2, "--rounds", 1, "--warmup", 0]  # fmt: skip
    result = bench(*arguments)
    assert result.returncode == 0, result.stderr
    journal = tmp_path / "bench/journal.jsonl"
    cases = {record["case"].split("/", 1)[1] for record in runs_of(strict_records(journal))}
    assert cases == {
        f"quickstart/{decoder}/b{batch}/fp32"
        for decoder in ("frame_looping", "label_looping[window=1]", "label_looping[window=4]")
        for batch in (1, 2)
    }
    assert "RTFx total" in result.stdout and "bitwise" in result.stdout
    assert f"journal: {journal}\nnext: rtfx report {tmp_path}/bench\n" in result.stdout

    assert bench(*arguments).returncode == 0  # the earlier journal stays
    assert (tmp_path / "bench/journal.jsonl.1").is_file()


def test_the_configuration_that_it_stands_for(rtfx, bench, tmp_path):
    result = bench("--print-config", "--decoder", "ctc_greedy", "--rounds", 2, "--limit", 1)
    assert result.returncode == 0 and not (tmp_path / "bench").exists()
    document = json.loads(result.stdout)
    assert document["decoders"] == ["ctc_greedy"] and document["protocol"]["measured_rounds"] == 2
    (tmp_path / "mine.json").write_text(result.stdout)
    assert rtfx("validate", tmp_path / "mine.json").returncode == 0


def test_data_and_decoders_by_themselves(bench, tmp_path):
    for name in ("a", "b"):
        folder = tmp_path / name / "clips"
        folder.mkdir(parents=True)
        (folder / "one.flac").symlink_to(AUDIO / "qs10.flac")
    files = [tmp_path / "a/clips", tmp_path / "b/clips", AUDIO / "qs06.flac", AUDIO / "qs10.flac"]
    result = bench("--print-config", data=files)
    document = json.loads(result.stdout)
    assert [entry["id"] for entry in document["datasets"]] == ["clips", "clips-2", "files"]
    assert len(document["datasets"][2]["files"]) == 2
    assert [d["name"] for d in document["decoders"]] == ["frame_looping", "label_looping", "ctc_greedy"]


def test_models_of_one_name_are_numbered(rtfx, bench, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.nemo").symlink_to(MODEL)
    result = bench("--print-config", "--decoder", "frame_looping", "--model", tmp_path / "a/model.nemo", tmp_path / "b/model.nemo")
    models = json.loads(result.stdout)["models"]
    assert models == [str(MODEL), str(tmp_path / "a/model.nemo"), {"id": "model-2", "path": str(tmp_path / "b/model.nemo")}]
    (tmp_path / "mine.json").write_text(result.stdout)
    assert "  model-2/quickstart/frame_looping/b1/fp32" in rtfx("validate", tmp_path / "mine.json").stdout


def test_a_decoder_that_ends_the_program_has_the_advice_of_a_bench(bench):
    plugin = PROGRAM.parent / "tests/librtfx_faulty_decoder.so"
    result = bench("--plugins", plugin, "--decoder", "frame_looping,faulty[fault=exit]", "--limit", 2, "--rounds", 1, "--warmup", 0)
    line = result.stderr.splitlines()[-1]
    assert result.returncode == 1 and "was ended by exit()" in line
    assert "the same command without that decoder and with --resume" in line and "--set" not in line


def test_transcripts_behind_a_link_are_found(bench, tmp_path):
    real, linked = tmp_path / "real", tmp_path / "linked"
    for folder in (real, linked):
        folder.mkdir()
    (real / "one.flac").symlink_to(AUDIO / "qs10.flac")
    (real / "r.trans.txt").write_text("one SHE SAID\n")
    (linked / "test").symlink_to(real)
    document = json.loads(bench("--print-config", data=[real, linked]).stdout)
    assert all("librispeech" in entry for entry in document["datasets"]), document["datasets"]


def test_all_errors_name_their_flags(bench, tmp_path):
    result = bench("--decoder", "label_loping,null[x", data=[tmp_path / "gone"], model="gone.nemo")
    assert result.returncode == 2
    lines = result.stderr.splitlines()
    assert len(lines) == 3, result.stderr
    assert any("--data" in line and "no such file" in line for line in lines)
    assert any("--model gone.nemo" in line for line in lines)
    assert any("--decoder label_loping" in line and "'label_looping'" in line for line in lines)
    result = bench("--decoder", "label_looping[window=65]")
    assert result.returncode == 2 and "1..64" in result.stderr
    result = bench("--decoder", "alsd_pp[lm=1][lm.alpha=2]")
    assert result.returncode == 2 and "as a value and as an object" in result.stderr
    result = bench("--decoder", "label_looping[window=1][window=8]")
    assert result.returncode == 2 and "an option is given twice" in result.stderr
    result = bench("--decoder", "label_looping[8,window=1]")
    assert result.returncode == 2 and "[option=value]" in result.stderr
    result = bench("--decoder", "label_looping[window")
    assert result.returncode == 2 and "[option=value]" in result.stderr


def test_options_share_a_bracket_or_have_one_each(bench):
    def decoders(text):
        result = bench("--print-config", "--decoder", text)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)["decoders"]

    one = decoders("label_looping[window=1,8,max_symbols=5],frame_looping")
    assert one == decoders("label_looping[window=1,8][max_symbols=5],frame_looping")
    assert one == [{"name": "label_looping", "options": {"window": [1, 8], "max_symbols": 5}}, "frame_looping"]
    (mine,) = decoders("python[file=a.b/mine.py,class=Mine,options.beam_size=4,8,exactness=exact]")
    assert mine["options"] == {"file": "a.b/mine.py", "class": "Mine", "options": {"beam_size": [4, 8]}, "exactness": "exact"}


def test_it_tries_a_decoder_in_python(bench, tmp_path):
    pytest.importorskip("torch", reason="no torch for this Python: LIBTORCH names a folder")
    file = ROOT / "examples/python_decoder/greedy.py"
    result = bench("--decoder", f"frame_looping,python[file={file},class=Greedy,exactness=exact,score_kind=logit]",
                   "--limit", 2, "--rounds", 1, "--warmup", 0)  # fmt: skip
    assert result.returncode == 0, result.stderr
    grades = {r["decoder"]["id"]: r["exactness"]["grade"] for r in runs_of(strict_records(tmp_path / "bench/journal.jsonl"))}
    assert grades["frame_looping"] == "baseline" and grades["python"] in ("bitwise", "exact")


def test_a_plug_in_that_is_none_is_named(bench):
    result = bench("--plugins", DATA, "--decoder", "mine")
    assert result.returncode == 2 and f"{DATA}: cannot be loaded" in result.stderr


def test_folders_of_mp3(bench, tmp_path):
    samples, rate = soundfile.read(AUDIO / "qs10.flac")
    (tmp_path / "clips").mkdir()
    for name in ("a", "b"):
        soundfile.write(tmp_path / f"clips/{name}.mp3", samples, rate, format="MP3")
    result = bench("--rounds", 1, "--warmup", 0, "--decoder", "frame_looping", data=[tmp_path / "clips"])
    assert result.returncode == 0, result.stderr
    (record,) = runs_of(strict_records(tmp_path / "bench/journal.jsonl"))
    assert record["dataset"]["id"] == "clips" and record["dataset"]["utterances"] == 2
    assert record["dataset"]["audio_seconds"] == pytest.approx(2 * len(samples) / rate, abs=0.2)


def test_a_folder_that_may_not_be_read_is_named(program):
    """A folder without read permission is named. Root may read everything, so a test run by root starts rtfx as
    nobody."""
    nobody = (lambda: os.setuid(65534)) if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        closed = Path(folder) / "talks/closed"
        closed.mkdir(parents=True)
        shutil.copy(AUDIO / "qs10.flac", closed.parent)
        closed.chmod(0)
        command = [program, "bench", "--model", MODEL, "--data", closed.parent, "--output", f"{folder}/bench"]
        result = subprocess.run(command, capture_output=True, text=True, preexec_fn=nobody, cwd=folder)
        closed.chmod(0o700)
    assert result.returncode == 2 and f"{closed}: Permission denied; check its permissions" in result.stderr


def test_an_interrupted_bench_goes_on(popen, program, tmp_path):
    command = [program, "bench", "--model", MODEL, "--data", DATA, "--device", "cpu", "--threads", "1", "--limit", "2",
               "--warmup", "0", "--decoder", "frame_looping", "--output", tmp_path / "bench", "--rounds", "1000"]  # fmt: skip
    journal = tmp_path / "bench/journal.jsonl"

    def interrupted(rounds, *arguments):
        """Interrupts the command when its journal has this number of rounds. Returns what it printed."""
        running = popen([*command, *arguments])
        wait_until(running, lambda: rounds_in(journal) >= rounds)
        running.send_signal(signal.SIGINT)
        said, errors = running.communicate(timeout=60)
        assert running.returncode == 130, errors
        return said

    assert interrupted(2).endswith("next: the same command with --resume\n")
    before = runs_of(strict_records(journal))
    interrupted(len(before) + 2, "--resume")
    after = runs_of(strict_records(journal))
    assert after[: len(before)] == before and [run["round"] for run in after] == list(range(len(after)))


def test_a_batch_that_the_set_cannot_fill_is_told(bench):
    result = bench("--decoder", "frame_looping", "--limit", 2, "--rounds", 1, "--warmup", 0, "--batch", "2,16")
    assert result.returncode == 0, result.stderr
    assert "b16/fp32: the dataset has 2 utterances, so a batch of 16 holds no more" in result.stderr
    assert result.stderr.count("holds no more") == 1
