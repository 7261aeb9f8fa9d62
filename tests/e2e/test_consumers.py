"""Tests that the programs for which rtfx exports files can read them (scripts/consumers.sh installs these)."""

import json
import subprocess
import sys
from pathlib import Path

import consumers
import pytest
import synthetic_journal as synthetic
from conftest import ROOT


def run_of(folder, slower=1.0, rounds=12, noise=0.004):
    """Writes a run of two decoders and `null`. label_looping takes `slower` times as long to decode as normally."""
    records = [synthetic.provenance(host_name="bench-1")]
    for round in range(rounds):
        wobble = 1 + noise * ((round * 7) % 5 - 2) / 2
        for decoder, seconds in (("frame_looping", 2.0), ("label_looping", 0.6 * slower), ("null", 1e-4)):
            grade = "baseline" if decoder == "frame_looping" else "bitwise"
            record = synthetic.run(round=round, decoder=decoder, decode_seconds=seconds * wobble, grade=grade)
            record |= {"cpu_seconds": 1.5 * record["total_seconds"], "wall_seconds": 1.001 * record["total_seconds"]}
            record["counters"] |= {"host_reads": 40}
            if decoder == "null":
                record["decoder"]["head"], record["exactness"] = "none", None
            records.append(record)
    synthetic.write(folder, records)
    return folder


@pytest.fixture(scope="module")
def export(rtfx, tmp_path_factory):
    """export(factor, format, ...) exports a run whose label_looping is slower by the factor, and returns the file."""
    folder = tmp_path_factory.mktemp("exports")

    def write(slower, format, *arguments):
        run = run_of(folder / f"run{slower}", slower)
        path = folder / "-".join(map(str, [slower, format, *arguments]))
        result = rtfx("export", run, "--to", format, "-o", path, *arguments)
        assert result.returncode == 0, result.stderr
        return path

    return write


def test_compare_py_sees_the_change_and_the_units(export, tmp_path):
    """compare.py's U test finds the slower decoder alone. It shows total time as real time, and CPU time as such."""
    before, after = export(1.0, "gbench"), export(1.5, "gbench")
    text, report = consumers.compare_py(before, after, tmp_path / "report.json")
    by_decoder = {part["name"].split("/")[2]: part for part in report if part["name"] != "OVERALL_GEOMEAN"}
    assert set(by_decoder) == {"frame_looping", "label_looping", "null"}
    slow = by_decoder["label_looping"]
    assert slow["utest"]["time_pvalue"] < 0.01 and slow["utest"]["have_optimal_repetitions"]
    assert by_decoder["frame_looping"]["utest"]["time_pvalue"] > 0.05
    for measured in slow["measurements"]:
        assert measured["time"] == pytest.approx(0.3 / 2.313, rel=0.02)
        assert measured["cpu"] == pytest.approx(measured["time"])
        assert measured["cpu_time"] == pytest.approx(1.5 * measured["real_time"])
    assert "OVERALL_GEOMEAN" in text


def test_compare_py_reads_journals_without_cpu_time(rtfx, tmp_path):
    synthetic.write(tmp_path, [synthetic.provenance(), *(synthetic.run(round=i) for i in range(9))])
    assert rtfx("export", tmp_path, "--to", "gbench", "-o", tmp_path / "a.json").returncode == 0
    _, report = consumers.compare_py(tmp_path / "a.json", tmp_path / "a.json", tmp_path / "report.json")
    assert all(m["cpu"] == 0 and m["time"] == 0 for part in report[:1] for m in part["measurements"])


def test_compare_py_reads_failures_and_counts(rtfx, tmp_path):
    """compare.py reads failures and streams, which have no time and are left out of its overall mean."""
    stream = synthetic.stream(decoder="gpu17")
    runs = [synthetic.run(round=i, decode_seconds=0.5 + 0.01 * i) for i in range(9)]
    for name, more in (("a", []), ("b", [synthetic.failure(decoder="broken"), stream])):
        synthetic.write(tmp_path / name, [synthetic.provenance(), *runs, *more])
        assert rtfx("export", tmp_path / name, "--to", "gbench", "-o", tmp_path / f"{name}.json").returncode == 0
    _, report = consumers.compare_py(tmp_path / "b.json", tmp_path / "b.json", tmp_path / "report.json")
    assert {part["name"].split("/")[2] for part in report[:-1]} == {"label_looping", "broken", "gpu17"}
    _, report = consumers.compare_py(tmp_path / "a.json", tmp_path / "a.json", tmp_path / "report.json")
    assert report[-1]["measurements"][0]["real_time"] > 0


def test_conbench_takes_the_google_benchmark_form(export):
    """Conbench reads one result for each case, named by model and case, with the total RTFx of every round."""
    results = {result["tags"]["params"]: result for result in consumers.conbench(export(1.5, "gbench"))}
    assert set(results) == {f"quickstart/{name}/b16/fp32" for name in ("frame_looping", "label_looping", "null")}
    for result in results.values():
        assert result["tags"]["name"] == "quickstart-rnnt"
        assert result["optional_benchmark_info"]["gbench_context"]["rtfx_revision"]
        stats = result["stats"]
        assert (stats["unit"], stats["time_unit"], len(stats["data"])) == ("i/s", "ms", 12)
    slow = results["quickstart/label_looping/b16/fp32"]["stats"]
    assert slow["data"] == pytest.approx([120_000 / time for time in slow["times"]], rel=1e-3)
    assert slow["times"][0] == pytest.approx(2613, rel=0.02)


@pytest.mark.parametrize("tool, flags", [("customBiggerIsBetter", []), ("customSmallerIsBetter", ["--smaller-is-better"])])
def test_github_action_benchmark_raises_an_alert_for_a_slowdown_alone(export, tmp_path, tool, flags):
    action = consumers.GithubActionBenchmark(tmp_path, tool, "103%")
    for slower in (1.0, 1.0):
        result = action.push(export(slower, "github-action", *flags))
        assert result.returncode == 0, result.stdout + result.stderr
    result = action.push(export(1.05, "github-action", *flags))
    if flags:  # of the metrics that should be small, only the decoder's batch time has changed
        assert result.returncode == 0, result.stdout
        return
    assert result.returncode == 1 and "1.05" in result.stdout, result.stdout
    (alert,) = [line for line in result.stdout.splitlines() if line.startswith("::error::")]
    assert "label_looping/b16/fp32 rtfx.decode" in alert and "frame_looping" not in alert
    series = action.series()
    assert all(len(values) == 3 for values in series.values())
    assert any(name.endswith("/label_looping/b16/fp32 rtfx.decode") for name in series)


def test_github_action_benchmark_reads_the_google_benchmark_form_too(export, tmp_path):
    action = consumers.GithubActionBenchmark(tmp_path, "googlecpp", "200%")
    result = action.push(export(1.0, "gbench"))
    assert result.returncode == 0, result.stdout


def test_bmf_passes_bencher_s_schema(export):
    checker = Path(sys.executable).with_name("check-jsonschema")
    schema = ROOT / "tests/data/bencher_bmf.schema.json"
    result = subprocess.run([checker, "--schemafile", schema, export(1.0, "bmf")], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_promtool_finds_no_fault_in_the_prometheus_text(rtfx, tmp_path):
    """promtool accepts the names of all metrics and the text beside them."""
    folder = synthetic.complete(tmp_path)
    assert rtfx("export", folder, "--to", "prometheus", "-o", tmp_path / "all.prom").returncode == 0
    result = consumers.promtool(tmp_path / "all.prom")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


PARSE = """
import json, sys
from prometheus_client.parser import text_string_to_metric_families
print(json.dumps([[s.name, s.labels, s.value] for f in text_string_to_metric_families(sys.stdin.read()) for s in f.samples]))
"""


def prometheus_samples(path):
    with open(path, encoding="utf-8") as text:
        result = consumers.call(consumers.python(), "-c", PARSE, stdin=text)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_prometheus_client_reads_what_was_measured(export):
    samples = prometheus_samples(export(1.0, "prometheus"))
    totals = {labels["decoder"]: value for name, labels, value in samples if name == "rtfx_total_ratio"}
    assert set(totals) == {"frame_looping", "label_looping", "null"}
    assert totals["label_looping"] == pytest.approx(120 / 2.313, rel=0.01)
    names = {name for name, labels, _ in samples if labels.get("decoder") == "null"}
    assert "rtfx_decode_ratio" not in names and "rtfx_wer_ratio" not in names


def test_prometheus_labels_hold_any_name(rtfx, tmp_path):
    odd = 'q"uo\\te}\n{x'
    synthetic.write(tmp_path, [synthetic.provenance(), synthetic.run(decoder=odd)])
    assert rtfx("export", tmp_path, "--to", "prometheus", "-o", tmp_path / "x").returncode == 0
    names = {labels.get("decoder") for _, labels, _ in prometheus_samples(tmp_path / "x")} - {None}
    assert names == {odd.replace("\n", r"\n")}  # a control character is shown in escaped form, as everywhere
