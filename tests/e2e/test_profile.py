"""Tests `rtfx profile` without a GPU: it has wall times by region, no GPU figures, and is not mixed with a run."""

import json
import os

import gpu_idle
import pytest
import synthetic_journal as synthetic
import top_kernels
from conftest import ROOT, strict_records
from forked_script import script
from matplotlib import pyplot
from style import NARROW, WIDE

BUSY = ROOT / "reports/h100/greedy/busy.jsonl"

ENVIRONMENT = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


@pytest.fixture
def profile(rtfx, config, tmp_path):
    def run(*arguments, **changes):
        return rtfx(
            "profile",
            config(**changes),
            "--output",
            tmp_path / "run",
            *arguments,
            env=ENVIRONMENT,
        )

    return run


def cases_of(folder):
    records = strict_records(folder / "profile.jsonl")
    assert all(record["profiled"] for record in records)
    return [record for record in records if record["kind"] == "profile"]


def test_quickstart_configuration_on_the_cpu(rtfx, tmp_path):
    result = rtfx(
        "profile",
        ROOT / "configs/quickstart.json",
        *("--set", "datasets.0.limit=2", "--set", "batch_sizes=[2]", "--threads", 1),
        *("--device", "cpu", "--output", tmp_path),
        env=ENVIRONMENT,
    )
    assert result.returncode == 0, result.stderr
    assert "they need a GPU" in result.stderr
    assert "decode.loop" in result.stdout
    cases = cases_of(tmp_path)
    assert len(cases) == 13  # six decoders of one model and seven of the other
    for case in cases:
        assert case["gpu_figures"] is None and case["valid"] and case["laps"] == 3
        assert {"pad", "h2d", "features", "encoder", "decode", "d2h", "detokenize"} <= set(case["regions"])
        for region in case["regions"].values():
            wall = region.pop("wall_seconds")
            assert sum(region.pop("lap_seconds")) == pytest.approx(wall)
            assert region and all(value is None for value in region.values())


def test_phases_lie_within_their_region(profile, tmp_path):
    assert profile("--laps", 2).returncode == 0
    for case in cases_of(tmp_path / "run"):
        regions = case["regions"]
        assert case["laps"] == 2
        assert 0 < regions["decode.loop"]["wall_seconds"] <= regions["decode"]["wall_seconds"]


def test_laps_without_a_collector_are_a_file_of_their_own(profile, tmp_path):
    result = profile("--undisturbed", "--laps", 2)
    assert result.returncode == 0 and result.stdout == ""
    assert not (tmp_path / "run/profile.jsonl").exists() and not (tmp_path / "run/trace.json").exists()
    records = strict_records(tmp_path / "run/undisturbed.jsonl")
    cases = [record for record in records if record["kind"] == "profile"]
    assert len(cases) == 2
    for case in cases:
        assert all(len(region["lap_seconds"]) == 2 for region in case["regions"].values())
        assert all(seconds > 0 for seconds in case["regions"]["decode"]["lap_seconds"])


def test_timeline(profile, tmp_path):
    assert profile().returncode == 0
    trace = json.loads((tmp_path / "run/trace.json").read_text())
    events = trace["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {"quickstart-rnnt/two/frame_looping/b2/fp32",
                     "quickstart-rnnt/two/label_looping/b2/fp32"}
    assert {"encoder", "decode", "decode.loop"} <= {e["name"] for e in events if e["ph"] == "X"}
    assert trace["otherData"]["left_out_events"] == 0


def test_timeline_is_cut_and_says_so(profile, tmp_path):
    result = profile("--trace-limit", 4)
    assert result.returncode == 0 and "left out" in result.stdout
    trace = json.loads((tmp_path / "run/trace.json").read_text())
    assert sum(e["ph"] == "X" for e in trace["traceEvents"]) == 4
    assert trace["otherData"]["left_out_events"] > 0


def test_no_timeline(profile, tmp_path):
    assert profile("--trace-limit", 0).returncode == 0
    assert not (tmp_path / "run/trace.json").exists()


def test_an_earlier_profile_is_kept_and_the_journal_untouched(profile, run_config, tmp_path):
    assert run_config().returncode == 0
    journal = (tmp_path / "run/journal.jsonl").read_bytes()
    assert profile().returncode == 0 and profile().returncode == 0
    assert (tmp_path / "run/profile.jsonl.1").exists()
    assert (tmp_path / "run/journal.jsonl").read_bytes() == journal


@pytest.mark.parametrize("kind", ["profile", "roofline"])
def test_a_wrong_name_leaves_the_earlier_records_in_place(profile, tmp_path, kind):
    options = ["--roofline"] if kind == "roofline" else []
    assert profile("--laps", 1, *options).returncode == 0
    before = (tmp_path / f"run/{kind}.jsonl").read_bytes()
    result = profile("--only", "nothing", *options)
    assert result.returncode == 2 and "no case has 'nothing' in its name" in result.stderr
    assert (tmp_path / f"run/{kind}.jsonl").read_bytes() == before
    assert not (tmp_path / f"run/{kind}.jsonl.1").exists()


def test_a_whole_name_is_one_case(profile, tmp_path):
    """With --whole-name, only the case of exactly this name is profiled. A child under ncu needs this, since one name
    may be a part of another."""
    name = "quickstart-rnnt/two/label_looping/b2/fp32"
    assert profile("--laps", 1, "--only", name, "--whole-name").returncode == 0
    assert [case["case"] for case in cases_of(tmp_path / "run")] == [name]
    assert profile("--only", "label_looping", "--whole-name").returncode == 2


def test_a_profile_is_refused_where_a_journal_is_wanted(profile, rtfx, tmp_path):
    assert profile().returncode == 0
    (tmp_path / "run/profile.jsonl").rename(tmp_path / "run/journal.jsonl")
    result = rtfx("report", "--table-only", tmp_path / "run")
    assert result.returncode == 2 and "rtfx profile" in result.stderr


def test_a_case_that_fails_is_a_record(profile, tmp_path):
    line = {"audio_filepath": str(ROOT / "README.md"), "duration": 1.5, "text": "no sound"}
    (tmp_path / "manifest.jsonl").write_text(json.dumps(line) + "\n")
    result = profile(datasets=[{"id": "two", "manifest": str(tmp_path / "manifest.jsonl")}])
    assert result.returncode == 1 and "FAILED" in result.stdout
    failures = [r for r in strict_records(tmp_path / "run/profile.jsonl") if r["kind"] == "failure"]
    assert len(failures) == 2 and all(record["profiled"] for record in failures)


@pytest.mark.parametrize(
    "arguments",
    [["--laps", 0], ["--laps", "x"], ["--laps", 10**20], ["--trace-limit", -1], ["--graph-trace", "all"]],
)
def test_bad_options(profile, arguments):
    assert profile(*arguments).returncode == 2


def draw(folder, output, *records):
    lines = [json.dumps(record) + "\n" for record in records]
    (folder / "profile.jsonl").write_text("".join(lines))
    return script("plots/gpu_idle.py", folder, "-o", output)


@pytest.mark.parametrize("ending, magic", [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_figure_of_idle_shares(tmp_path, ending, magic):
    output = tmp_path / f"idle.{ending}"
    provenance = synthetic.provenance() | {"profiled": True}
    result = draw(tmp_path, output, provenance, synthetic.profile(), synthetic.profile(batch=1))
    assert result.returncode == 0, result.stderr
    assert output.read_bytes().startswith(magic)


def test_one_lap_has_no_interval(tmp_path):
    record = synthetic.profile()
    for share, text in ((0.25, ">75<"), (1.1, ">110, with what the profiler adds<")):
        record["regions"]["decode"]["busy"] = {"share": share, "low": 0.0, "high": None}
        result = draw(tmp_path, tmp_path / "idle.svg", record)
        assert result.returncode == 0, result.stderr
        assert text in (tmp_path / "idle.svg").read_text()


def test_a_few_kernels_say_nothing_of_what_the_profiler_adds():
    def case(kernels):
        region = {"kernels": kernels, "lap_kernel_seconds": [0.1003], "undisturbed_seconds": [0.1]}
        return gpu_idle.Case("c", {"regions": {"decode": region}})

    assert gpu_idle.kernel_excess([case(3)]) == 0
    assert gpu_idle.kernel_excess([case(3), case(1000)]) == pytest.approx(3e-7)


def test_figure_of_kernels():
    """The figure names the kernel that bounds a fused step, in a committed profile of an H100."""
    laps = {case.decoder: case for case in gpu_idle.read_profile(BUSY).cases}
    name, share, _ = top_kernels.parts(laps["fused_graph"].last["regions"]["decode"])[0]
    assert name == "lstm_kernel" and 0.45 < share < 0.55
    figure = top_kernels.draw(list(laps.values()), WIDE)
    labels = [text.get_text() for text in figure.axes[0].texts]
    assert "lstm_kernel 13.4 µs" in labels and "search_kernel 1.02 ms" in labels
    pyplot.close(figure)


def test_a_kernel_has_one_look_and_a_name_in_the_legend():
    """Each pair of colour and hatching belongs to one kernel, and the legend names all kernels of all bars."""
    cases = gpu_idle.read_profile(BUSY).cases
    figure = top_kernels.draw(cases, NARROW)
    named = [text.get_text().replace("\n", "") for text in figure.legends[0].get_texts()]
    of_cases = [name for case in cases for name, _, _ in top_kernels.parts(case.last["regions"]["decode"])]
    assert set(named) == set(of_cases) and len(named) == len(set(named))
    bars = [bar for bar in figure.axes[0].patches if bar.get_hatch() is not None]
    looks = {}
    for name, bar in zip(of_cases, bars, strict=True):
        looks.setdefault(name, set()).add((bar.get_facecolor(), bar.get_hatch()))
    assert all(len(look) == 1 for look in looks.values())
    assert len(set.union(*looks.values())) == len(looks)
    pyplot.close(figure)


def test_figure_leaves_out_what_has_no_gpu_figures(tmp_path):
    invalid = synthetic.profile(valid=False)
    result = draw(tmp_path, tmp_path / "idle.svg", synthetic.profile(busy=None), invalid)
    assert result.returncode == 1 and "no case with GPU figures; give a profile from a GPU" in result.stderr
    assert "invalid" in result.stdout


def test_figure_sets_no_whole_graph_beside_kernels(tmp_path):
    """A figure shows no share of kernels for a whole graph, neither for an earlier release's profile nor for a new
    one."""
    eager, graph = synthetic.profile(), synthetic.profile(decoder="graphs")
    for record in (eager, graph):
        record["graph_trace"], record["gpu_figures"] = "graph", "cupti"
    graph["regions"]["decode"] |= {"graph_launches": 7, "gpu.busy": 0.98}
    assert draw(tmp_path, tmp_path / "old.svg", eager, graph).returncode == 0
    text = (tmp_path / "old.svg").read_text()
    assert ">98<" not in text and ">20<" in text and "not known" in text and "profiler on" in text

    eager["regions"]["decode"] |= {"busy": {"share": 0.31, "low": 0.29, "high": 0.33}}
    eager["regions"]["decode"]["undisturbed_seconds"] = [0.4, 0.5, 0.6]
    graph["regions"]["decode"]["busy"] = None
    assert draw(tmp_path, tmp_path / "new.svg", eager, graph).returncode == 0
    text = (tmp_path / "new.svg").read_text()
    assert ">31<" in text and ">69<" in text and "not known" in text and "500 ms" in text
    assert ">98<" not in text and "without the profiler" in text


def test_figures_of_runs_refuse_a_profile(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_text(json.dumps(synthetic.profile()) + "\n")
    result = script("plots/region_share.py", tmp_path, "-o", tmp_path / "a.svg")
    assert result.returncode == 1 and "rtfx profile" in result.stderr
