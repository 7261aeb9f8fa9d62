"""Tests `rtfx profile --nsys` and `rtfx profile import` on sessions of Nsight Systems. A stand-in for nsys records the
ranges. The C++ tests compare the figures of CUDA."""

import json
import os
import shutil
import sqlite3
import subprocess

import pytest
from conftest import PROGRAM, ROOT, strict_records
from forked_script import script

RECORDER = PROGRAM.parent / "tests/librtfx_nvtx_recorder.so"
FAKE = ROOT / "tests/support/fake_nsys.py"
NSYS = shutil.which("nsys")


@pytest.fixture
def session(rtfx, config, tmp_path):
    """session(...) runs `rtfx profile --nsys` with a stand-in for nsys."""

    def run(*arguments, makes="sqlite", nsys=FAKE, output="run", **changes):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        if nsys and not (folder / "nsys").exists():
            (folder / "nsys").symlink_to(nsys)
        settings = {
            **os.environ, "CUDA_VISIBLE_DEVICES": "", "PATH": f"{folder}:{os.environ['PATH']}",
            "FAKE_NSYS_LOG": str(tmp_path / "log"), "FAKE_NSYS_MAKES": makes,
            "RTFX_NVTX_RECORDER": str(RECORDER)}  # fmt: skip
        folder = ["--output", tmp_path / output]
        return rtfx("profile", config(**changes), "--nsys", *folder, *arguments, env=settings)

    return run


def profiles(folder):
    return [record for record in strict_records(folder / "profile.jsonl") if record["kind"] == "profile"]


def check_profile(folder, laps):
    """Checks that the two decoders of the small configuration have records with the fields of rtfx's own profiler."""
    records = strict_records(folder / "profile.jsonl")
    assert records[0]["kind"] == "provenance" and all(record["profiled"] for record in records)
    assert records[0]["rtfx"]["version"]
    cases = profiles(folder)
    assert [case["decoder"]["id"] for case in cases] == ["frame_looping", "label_looping"]
    for case in cases:
        assert case["laps"] == laps and case["valid"] and case["gpu_figures"] is None
        assert case["model"]["kind"] == "rnnt" and "options" in case["decoder"]
        assert case["collector"].startswith("Nsight Systems ")
        assert any("they need a GPU" in remark for remark in case["remarks"])  # a remark of the recorded process
        regions = case["regions"]
        assert len(regions["encoder"]["lap_seconds"]) == laps
        assert 0 < regions["decode.loop"]["wall_seconds"] <= regions["decode"]["wall_seconds"]
    trace = json.loads((folder / "trace.json").read_text())
    assert {"encoder", "decode.loop"} <= {event["name"] for event in trace["traceEvents"]}


def test_a_session_gives_table_records_and_timeline(session, tmp_path):
    result = session("--laps", 2)
    assert result.returncode == 0, result.stderr
    assert "decode.loop" in result.stdout and "means of 2 laps" in result.stdout
    check_profile(tmp_path / "run", laps=2)
    assert not (tmp_path / "run/recorded.jsonl").exists()


def test_what_nsys_is_told(session, tmp_path):
    assert session("--laps", 1).returncode == 0
    words = json.loads((tmp_path / "log").read_text())
    assert words[0] == "profile" and "--trace=nvtx" in words and "--export=sqlite" in words
    own = words[words.index("profile", 1) :]
    assert own[1:4] == [str(tmp_path / "config.json"), "--laps", "1"] and own[-1] == "--recorded"


def test_an_earlier_session_is_kept(session, tmp_path):
    assert session("--laps", 1).returncode == 0 and session("--laps", 1).returncode == 0
    assert (tmp_path / "run/nsys.sqlite").exists() and (tmp_path / "run/nsys-2.sqlite").exists()
    assert (tmp_path / "run/profile.jsonl.1").exists()


def test_a_case_that_fails_is_a_record_of_the_session(session, tmp_path):
    decoders = ["frame_looping", {"name": "fused_looping"}]
    result = session("--laps", 1, decoders=decoders)
    assert result.returncode == 1 and "needs a GPU" in result.stdout
    kinds = {record["kind"] for record in strict_records(tmp_path / "run/profile.jsonl")}
    assert kinds == {"provenance", "failure", "profile"}


def test_failures_are_recorded_where_no_case_has_a_round(session, tmp_path):
    result = session("--laps", 1, decoders=[{"name": "fused_looping"}])
    assert result.returncode == 1 and "needs a GPU" in result.stdout
    assert "nsys.sqlite is left out: it holds no round of a case" in result.stderr
    kinds = [record["kind"] for record in strict_records(tmp_path / "run/profile.jsonl")]
    assert kinds == ["provenance", "failure"]


def test_a_folder_whose_name_is_like_a_pattern(session, tmp_path):
    for _ in range(2):
        result = session("--laps", 1, "--only", "label", output="run[1]*")
        assert result.returncode == 0, result.stderr
    folder = tmp_path / "run[1]*"
    assert len(profiles(folder)) == 1
    assert (folder / "nsys.sqlite").exists() and (folder / "nsys-2.sqlite").exists()


def test_only_is_checked_before_nsys_runs(session, tmp_path):
    result = session("--only", "nothing")
    assert result.returncode == 2 and "no case has 'nothing' in its name" in result.stderr
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("makes, message", [("qdstrm", "its importer is missing"), ("", "has recorded nothing")])
def test_a_session_without_an_export(session, makes, message):
    result = session("--laps", 1, makes=makes)
    assert result.returncode == 2 and message in result.stderr.splitlines()[-1]


@pytest.mark.skipif(NSYS is not None, reason="there is an nsys")
def test_without_nsys_there_is_the_command_for_another_machine(session):
    result = session(nsys=None)
    if "there is no Nsight Systems" not in result.stderr:
        pytest.skip("there is an nsys beside PATH")
    (line,) = [line for line in result.stderr.splitlines() if "error" in line]
    assert result.returncode == 2 and "run elsewhere: nsys profile " in line and "--recorded" in line


def test_import_by_names_alone(session, rtfx, tmp_path):
    """`profile import` needs the exported file alone, on any machine."""
    assert session("--laps", 2).returncode == 0
    with_fields = profiles(tmp_path / "run")
    result = rtfx("profile", "import", tmp_path / "run/nsys.sqlite", "--output", tmp_path / "imported")
    assert result.returncode == 0, result.stderr
    alone = profiles(tmp_path / "imported")
    assert [case["regions"] for case in alone] == [case["regions"] for case in with_fields]
    for case, known in zip(alone, with_fields):
        for key in ("model", "dataset", "decoder"):
            assert case[key]["id"] == known[key]["id"]
        assert case["batch"] == known["batch"] and case["dtype"] == known["dtype"]
    figure = tmp_path / "timeline.svg"
    drawn = script("plots/gpu_timeline.py", tmp_path / "imported", "-o", figure)
    assert drawn.returncode == 0 and figure.exists(), drawn.stderr


@pytest.mark.parametrize("table, product", [("EXPORT_META_DATA", "Nsight Systems fake"), ("none", "Nsight Systems")])
def test_versions_name_themselves_in_different_places(session, rtfx, tmp_path, table, product):
    """The collector's name is found in either table: 2022.4 names the table differently from later versions."""
    assert session("--laps", 1).returncode == 0
    with sqlite3.connect(tmp_path / "run/nsys.sqlite") as database:
        database.execute(f"ALTER TABLE META_DATA_EXPORT RENAME TO {table}")
    result = rtfx("profile", "import", tmp_path / "run/nsys.sqlite", "--output", tmp_path / "imported")
    assert result.returncode == 0, result.stderr
    assert profiles(tmp_path / "imported")[0]["collector"] == f"{product} (nsys.sqlite)"


def test_several_sessions_make_one_profile(session, rtfx, tmp_path):
    assert session("--laps", 1).returncode == 0 and session("--laps", 2).returncode == 0
    files = [tmp_path / "run/nsys.sqlite", tmp_path / "run/nsys-2.sqlite"]
    assert rtfx("profile", "import", *files, "--output", tmp_path / "both").returncode == 0
    assert [case["laps"] for case in profiles(tmp_path / "both")] == [1, 1, 2, 2]


def gpu_session(path, name="model/data/eager/b4/bf16"):
    """Writes a session of one lap on a GPU, with 1 ms of decoding and four kernels of 100 µs each."""
    database = sqlite3.connect(path)
    database.executescript((ROOT / "tests/data/nsight_systems.sql").read_text())
    texts = [name, "round", "decode", "decode.loop", "wait",
             "void rtfx::fused::lstm_kernel<__nv_bfloat16>(rtfx::fused::Search const*)",
             "cudaLaunchKernel_v7000"]  # fmt: skip
    database.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(texts))
    spans = [(0, 0, 3000), (1, 10, 2990), (2, 1000, 2000), (3, 1050, 1850), (4, 1900, 1990)]
    database.executemany(
        "INSERT INTO NVTX_EVENTS (textId, start, end, eventType, globalTid) VALUES (?, ?, ?, 59, 7)",
        [(text, 1000 * begin, 1000 * end) for text, begin, end in spans])  # fmt: skip
    for i in range(4):
        begin = 1000 * (1100 + 200 * i)
        database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, 7, ?, 6, 0, NULL)",
                         (begin, begin + 5000, i + 1))  # fmt: skip
        columns = [row[1] for row in database.execute("PRAGMA table_info(CUPTI_ACTIVITY_KIND_KERNEL)")]
        kernel = dict.fromkeys(columns, 1) | {
            "start": begin + 20_000, "end": begin + 120_000, "deviceId": 0, "streamId": 7,
            "correlationId": i + 1, "demangledName": 5, "graphNodeId": None}  # fmt: skip
        marks = ", ".join("?" * len(kernel))
        database.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({marks})", [*kernel.values()])
    database.execute("INSERT INTO TARGET_INFO_GPU (vmId, id, name) VALUES (0, 0, 'Some GPU')")
    database.commit()


def test_a_session_of_a_gpu(rtfx, tmp_path):
    gpu_session(tmp_path / "gpu.sqlite")
    result = rtfx("profile", "import", tmp_path / "gpu.sqlite", "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    assert "40.0 collected" in result.stdout and "cudaLaunchKernel" in result.stdout
    (case,) = profiles(tmp_path / "run")
    assert case["gpu_figures"] == "nsight_systems" and case["graph_trace"] == "node"
    decode = case["regions"]["decode"]
    assert decode["kernels"] == decode["launches"] == 4 and "busy" not in decode
    assert decode["gpu.busy"] == pytest.approx(0.4)
    assert decode["longest_gap_seconds"] == pytest.approx(180e-6)
    assert decode["top_kernels"][0]["name"] == "rtfx::fused::lstm_kernel<__nv_bfloat16>"
    loop = case["regions"]["decode.loop"]
    assert loop["wall_seconds"] == pytest.approx(940e-6)  # the loop lasts until the harness has waited for it
    for name in ("gpu_idle", "top_kernels", "gpu_timeline"):
        figure = tmp_path / f"{name}.svg"
        assert script(f"plots/{name}.py", tmp_path / "run", "-o", figure).returncode == 0
    assert ">40<" in (tmp_path / "gpu_idle.svg").read_text()
    assert "lstm_kernel 100 µs" in (tmp_path / "top_kernels.svg").read_text()


def test_an_option_of_an_imported_decoder_may_be_a_path(rtfx, tmp_path):
    decoder = "eager[boost.path=lists/a.txt]"
    gpu_session(tmp_path / "gpu.sqlite", name=f"model/data/{decoder}/b4/bf16")
    result = rtfx("profile", "import", tmp_path / "gpu.sqlite", "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    (case,) = profiles(tmp_path / "run")
    assert (case["model"]["id"], case["dataset"]["id"], case["decoder"]["id"]) == ("model", "data", decoder)
    assert case["batch"] == {"by": "count", "size": 4} and case["dtype"] == "bf16"


def test_a_gpu_without_a_name_is_a_gpu(rtfx, tmp_path):
    gpu_session(tmp_path / "gpu.sqlite")
    with sqlite3.connect(tmp_path / "gpu.sqlite") as database:
        database.execute("DROP TABLE TARGET_INFO_GPU")
    result = rtfx("profile", "import", tmp_path / "gpu.sqlite", "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    (case,) = profiles(tmp_path / "run")
    assert case["device"] == "cuda" and case["regions"]["decode"]["kernels"] == 4
    provenance = strict_records(tmp_path / "run/profile.jsonl")[0]
    assert provenance["device"]["type"] == "cuda" and provenance["device"]["name"] == "unknown GPU"


def test_an_import_leaves_out_a_session_without_a_round(rtfx, tmp_path):
    gpu_session(tmp_path / "gpu.sqlite")
    empty = tmp_path / "empty.sqlite"
    sqlite3.connect(empty).executescript((ROOT / "tests/data/nsight_systems.sql").read_text())
    result = rtfx("profile", "import", empty, tmp_path / "gpu.sqlite", "--output", tmp_path / "run")
    assert result.returncode == 0 and f"{empty} is left out" in result.stderr
    assert len(profiles(tmp_path / "run")) == 1
    result = rtfx("profile", "import", empty, "--output", tmp_path / "other")
    assert result.returncode == 2 and "holds no round of a case as `rtfx profile` records it" in result.stderr
    assert not (tmp_path / "other").exists()


def test_an_import_that_is_cut_says_so(rtfx, tmp_path):
    gpu_session(tmp_path / "gpu.sqlite")
    result = rtfx("profile", "import", tmp_path / "gpu.sqlite", "--output", tmp_path / "run", "--trace-limit", 4)
    assert result.returncode == 0 and "late ones left out: --trace-limit" in result.stdout


@pytest.mark.parametrize("outer", [["--laps", 2], ["c.json"], ["--output", "elsewhere"]])
def test_an_import_takes_no_options_before_its_name(rtfx, tmp_path, outer):
    gpu_session(tmp_path / "gpu.sqlite")
    result = rtfx("profile", *outer, "import", tmp_path / "gpu.sqlite", cwd=tmp_path)
    name = outer[0] if outer[0].startswith("--") else "config"
    assert result.returncode == 2 and f"does not take {name} before its name" in result.stderr
    assert not (tmp_path / "runs").exists()


def test_what_is_no_export_is_one_error_and_changes_nothing(session, rtfx, tmp_path):
    assert session("--laps", 1).returncode == 0
    before = (tmp_path / "run/profile.jsonl").read_bytes()
    empty = tmp_path / "empty.sqlite"
    sqlite3.connect(empty).execute("CREATE TABLE t (x)")
    good = tmp_path / "run/nsys.sqlite"
    for bad, problem in ((ROOT / "README.md", "is not a database"), (empty, "holds no NVTX ranges"),
                         (tmp_path / "nowhere", "unable to open")):  # fmt: skip
        result = rtfx("profile", "import", good, bad, "--output", tmp_path / "run")
        assert result.returncode == 2 and len(result.stderr.splitlines()) == 1
        assert str(bad) in result.stderr and problem in result.stderr
    assert (tmp_path / "run/profile.jsonl").read_bytes() == before


def test_profile_wants_a_configuration_or_a_session(rtfx):
    assert rtfx("profile").returncode == 2
    result = rtfx("profile", "c.json", "--labs", 2)
    assert result.returncode == 2 and "did you mean '--laps'" in result.stderr
    assert rtfx("profile", "import").returncode == 2


@pytest.mark.skipif(NSYS is None, reason="needs nsys (Nsight Systems) on PATH")
def test_nsight_systems_itself(session, rtfx, tmp_path):
    result = session("--laps", 2, nsys=None)
    assert result.returncode == 0, result.stderr
    check_profile(tmp_path / "run", laps=2)
    assert (tmp_path / "run/nsys.nsys-rep").exists()
    database = sqlite3.connect(tmp_path / "run/nsys.sqlite")
    ranges = database.execute(
        "SELECT value, int64Value, color FROM NVTX_EVENTS JOIN StringIds ON id = textId").fetchall()  # fmt: skip
    steps = [payload for name, payload, _ in ranges if name == "decode.step"]
    assert steps and all(payload is not None for payload in steps)
    assert len({colour for *_, colour in ranges}) >= 6
    threads = database.execute("SELECT text FROM NVTX_EVENTS WHERE eventType = 39").fetchall()
    assert ("rtfx",) in threads
    version = subprocess.run([NSYS, "--version"], capture_output=True, text=True).stdout.split()[-1]
    assert profiles(tmp_path / "run")[0]["collector"].split()[2] in version
