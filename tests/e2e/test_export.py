"""Tests `rtfx export`: its files equal the golden ones, and they meet what their consumers ask for.
RTFX_UPDATE_GOLDEN=1 writes the golden files anew. Read the difference before you commit it."""

import csv
import html
import io
import json
import os
import re
import subprocess
import sys

import pytest
import synthetic_journal as synthetic
from conftest import ROOT

GOLDEN = ROOT / "tests/golden/data/export"


def results():
    """Returns records of two decoders and the A/A control, for two rounds and two batch sizes. One decoder is
    approximate, and one fails."""
    records = [synthetic.provenance()]
    for batch in (1, 16):
        for round in range(2):
            for decoder, seconds in (("frame_looping", 2.0), ("min_duration", 0.25)):
                fields = {"batch": batch, "decoder": decoder, "grade": "baseline"}
                if decoder == "min_duration":
                    fields |= {"grade": "different", "differing": 6, "exactness": "approximate"}
                record = synthetic.run(round=round, decode_seconds=seconds * (1 + round / 64), **fields)
                if batch == 1:
                    record["batches"] = {
                        "audio_seconds": [60.0, 60.0],
                        "total_seconds": [record["total_seconds"] / 4, record["total_seconds"] * 3 / 4],
                        "decode_seconds": [seconds / 4, seconds * 3 / 4],
                    }
                records.append(record)
    records.append(synthetic.failure(decoder="a,b_c", message='no "room" & 100 % full'))
    return records


@pytest.fixture(scope="module")
def export(rtfx, tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    synthetic.write(folder, results())

    def run(*arguments):
        result = rtfx("export", folder, *arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


FILES = {
    "gbench.json": ["--to", "gbench"],
    "bmf.json": ["--to", "bmf"],
    "github_action_bigger.json": ["--to", "github-action"],
    "github_action_smaller.json": ["--to", "github-action", "--smaller-is-better"],
    "table.csv": ["--to", "csv"],
    "table.md": ["--to", "markdown"],
    "table.tex": ["--to", "latex"],
}


@pytest.mark.parametrize("name", FILES)
def test_golden(export, name):
    text = export(*FILES[name])
    if os.environ.get("RTFX_UPDATE_GOLDEN"):
        GOLDEN.mkdir(parents=True, exist_ok=True)
        (GOLDEN / name).write_text(text, encoding="utf-8")
    assert text == (GOLDEN / name).read_text(encoding="utf-8")


def strict(text):
    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def test_gbench_has_a_row_for_each_repetition(export):
    document = strict(export("--to", "gbench"))
    rows = [b for b in document["benchmarks"] if "error_occurred" not in b]
    assert len(rows) == 8 and len({b["name"] for b in rows}) == 4
    for row in rows:
        assert row["run_type"] == "iteration" and row["repetitions"] == 2
        assert row["items_per_second"] == pytest.approx(120 / (row["real_time"] / 1000))
    (error,) = [b for b in document["benchmarks"] if "error_occurred" in b]
    assert error["error_message"].startswith("decode: no") and error["run_type"] == "aggregate"


def test_bmf_follows_its_schema(export):
    """The export follows https://bencher.dev/bmf.json: objects of objects of numbers, in which `value` is required."""
    document = strict(export("--to", "bmf"))
    assert len(document) == 4  # the failure is left out
    for name, measures in document.items():
        assert len(name) <= 1024 and measures
        for measure, metric in measures.items():
            assert len(measure) <= 64 and "value" in metric
            assert set(metric) <= {"value", "lower_value", "upper_value"}
            assert all(type(value) in (int, float) for value in metric.values())
            assert metric.get("lower_value", metric["value"]) <= metric["value"]
            assert metric.get("upper_value", metric["value"]) >= metric["value"]


def test_github_action_lists_have_one_direction_each(export):
    bigger = strict(export(*FILES["github_action_bigger.json"]))
    smaller = strict(export(*FILES["github_action_smaller.json"]))
    assert {entry["name"].split()[1] for entry in bigger} == {
        "rtfx.total", "rtfx.encode_decode", "rtfx.decode", "exact.grade", "exact.rate"}  # fmt: skip
    assert {entry["name"].split()[1] for entry in smaller} == {
        "wer", "wer.substitutions", "wer.deletions", "wer.insertions"}  # fmt: skip
    for entry in bigger + smaller:
        assert type(entry["value"]) in (int, float) and entry["value"] >= 0
        assert all(isinstance(entry[key], str) for key in ("name", "unit", "extra"))


def test_csv_is_rectangular(export):
    rows = list(csv.reader(io.StringIO(export("--to", "csv"))))
    assert len(rows) == 1 + 5 and len({len(row) for row in rows}) == 1
    assert rows[-1][0] == "quickstart-rnnt/quickstart/a,b_c/b16/fp32"
    assert 'no "room" & 100 % full' in rows[-1][rows[0].index("failure")]


MARKED = "NONDETERMINISTIC NOISY suspect 1/2"


@pytest.fixture(scope="module")
def marked(tmp_path_factory):
    """Writes a run of a decoder without words, which has neither speed nor word errors, and of one with every mark."""
    null = synthetic.run(decoder="null", decode_seconds=1e-4, exactness="approximate")
    null["decoder"]["head"], null["exactness"] = "none", None
    null["wer"] |= {"wer": 1.0, "deletions": 290}
    records = [synthetic.provenance(), null, null | {"round": 1}]
    for round in range(2):
        record = synthetic.run(round=round, decode_seconds=1.0 + round, grade="rounding")
        record |= {"deterministic": not round, "suspect": ["cpu_wait"] * round}
        records.append(record)
    folder = tmp_path_factory.mktemp("marked")
    synthetic.write(folder, records)
    return folder


@pytest.mark.parametrize("format", ["markdown", "latex", "csv"])
def test_tables_show_what_may_be_shown_with_its_marks(rtfx, marked, format):
    text = rtfx("export", marked, "--to", format).stdout
    rows = [line for line in text.splitlines() if not line.startswith("**WRONG")]  # this stands above the table
    null, other = (
        next(line for line in rows if name in line.replace("\\", ""))
        for name in ("null", "label_looping")
    )
    assert "70." in null and "1200000" not in null and "100" not in null
    assert MARKED in other and MARKED not in null and "rounding" in other


def typeset(text):
    """Returns the table rows and the notes that LaTeX prints, without its escapes. It fails on a text that LaTeX would
    refuse or misread: an environment or a brace without its end, or a special character without its escape."""
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    opened, rows, notes = [], [], []
    for line in lines:
        if match := re.match(r"\\(begin|end)\{(\w+)\}", line):
            if match[1] == "begin":
                opened.append(match[2])
            else:
                assert opened.pop() == match[2]
        elif line.startswith(r"\item "):
            assert opened[-1] == "tablenotes"
            notes.append(plain(re.sub(r"^\\textbf\{(.*)\}$", r"\1", line.removeprefix(r"\item "))))
        elif not line.startswith("\\"):
            assert opened[-1] == "tabular" and line.endswith(r" \\")
            rows.append([plain(cell) for cell in line.removesuffix(r" \\").split(" & ")])
    assert not opened
    return rows, notes


def plain(text):
    """Undoes the escapes of LaTeX and refuses characters without one."""
    names = {"textbackslash": "\\", "textasciicircum": "^", "textasciitilde": "~", "textless": "<", "textgreater": ">",
             "textbar": "|"}  # fmt: skip
    escapes = r"\\(?P<name>[a-z]+)\{\}|\\(?P<one>[{}$&#%_])|\{(?P<group>[\[\]*])\}|(?P<pm>\$\\pm\$)"
    assert not re.search(r"[\\{}$&#%_^~<>|\[\]*]", re.sub(escapes, "", text)), text
    return re.sub(escapes, lambda m: names[m["name"]] if m["name"] else m["one"] or m["group"] or "±", text)


def test_latex_prints_what_markdown_says(rtfx, export, marked):
    """Its notes hold the values that all rows share, the meanings of marks, the wrong decoders and the conclusions."""
    for folder_text in (export, lambda *arguments: rtfx("export", marked, *arguments).stdout):
        page = re.sub(r"\\(.)", r"\1", html.unescape(folder_text("--to", "markdown")))
        blocks = [block.strip("*\n") for block in page.split("\n\n")]
        (table,) = [block for block in blocks if block.startswith("|")]
        rows, notes = typeset(folder_text("--to", "latex"))
        assert sorted(notes) == sorted(block for block in blocks if block != table)
        assert len(rows) == len(table.splitlines()) - 1
    assert any(note.startswith("WRONG") for note in notes)
    assert any("In all rows: model" in note and "NOISY: " in note for note in notes)


def test_json_shows_what_may_be_shown_with_its_marks(rtfx, marked):
    gbench = strict(rtfx("export", marked, "--to", "gbench").stdout)["benchmarks"]
    labels = {row["name"].split("/")[2]: row.get("label") for row in gbench}
    assert labels == {"null": None, "label_looping": MARKED}
    null = [row for row in gbench if "/null/" in row["name"]]
    assert all("items_per_second" in row and "rtfx_decode" not in row for row in null)
    assert all("wer" not in row and row["cpu_time"] == 0 < row["real_time"] for row in null)
    bmf = strict(rtfx("export", marked, "--to", "bmf").stdout)
    assert {name.split("/")[2]: set(of) for name, of in bmf.items()}["null"] == {
        "rtfx-total",
        "rtfx-encode_decode",
        "noisy",
    }
    bigger = strict(rtfx("export", marked, "--to", "github-action").stdout)
    assert [e["name"].split()[1] for e in bigger if "/null/" in e["name"]] == ["rtfx.total", "rtfx.encode_decode"]
    for entry in bigger:
        marks = entry["extra"].splitlines()[4:]
        wanted = [] if "/null/" in entry["name"] else MARKED.replace(" ", "\n", 2).splitlines()
        assert marks[: len(wanted)] == wanted
        meanings = [line.partition(":")[0] for line in marks[len(wanted) :]]
        assert meanings == [mark.split()[0] for mark in wanted]
    arguments = ["--to", "github-action", "--smaller-is-better"]
    smaller = strict(rtfx("export", marked, *arguments).stdout)
    assert not [entry for entry in smaller if "/null/" in entry["name"]]


def test_the_terminal_and_the_page_show_the_same(rtfx, marked, tmp_path):
    table = rtfx("report", marked, "-o", tmp_path / "page.html").stdout
    assert f"rounding {MARKED}" in table and "suspect: the machine disturbed so many of all rounds" in table
    row = next(line for line in table.splitlines() if line.startswith("  null"))
    assert row.split()[3:6] == ["70.0", "±", "0.0"]
    assert row.split()[-3:] == ["-", "-", "-"]
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(f">{mark}</span>" in page for mark in ("NONDETERMINISTIC", "NOISY", "suspect 1/2"))
    assert "100.00" not in page


def test_the_readme_table_keeps_marks(program, marked, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("<!-- table:synthetic -->\n<!-- /table -->\n")
    command = [sys.executable, ROOT / "scripts/readme_table.py", marked, readme]
    subprocess.run(command, check=True, env={"RTFX_BIN": str(program)})
    rows = {line.split(" | ")[1]: line for line in readme.read_text().splitlines() if " | " in line}
    assert rows["label_looping"].endswith(f"rounding {MARKED} |")
    assert rows["null"].endswith("| – | – | – |")


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    return synthetic.complete(tmp_path_factory.mktemp("complete"))


def test_all_metrics_reach_all_formats(rtfx, complete):
    table = json.loads(rtfx("list", "metrics", "--json").stdout)
    names = {metric["name"] for metric in table}
    directions = {metric["name"]: metric["direction"] for metric in table}

    def text(*arguments):
        return rtfx("export", complete, "--to", *arguments).stdout

    summary = json.loads(rtfx("summary", complete).stdout)
    figures = [case["figures"] for kind in ("cases", "streams") for case in summary[kind]]
    assert {name for case in figures for name in case} == names - {"streams.sustained"}
    bmf = strict(text("bmf"))
    measures = {measure for case in bmf.values() for measure in case}
    assert measures >= {name.replace(".", "-") for name in names}
    gbench = {key for entry in strict(text("gbench"))["benchmarks"] for key in entry}
    assert gbench >= {name.replace(".", "_") for name in names - {"rtfx.total"}} | {"items_per_second"}
    for flags, direction in (([], 1), (["--smaller-is-better"], -1)):
        entries = strict(text("github-action", *flags))
        assert {e["name"].split()[-1] for e in entries} == {n for n in names if directions[n] == direction}
    rows = list(csv.DictReader(io.StringIO(text("csv"))))
    assert all(any(row[name] for row in rows) for name in names)
    gauges = {line.split()[2] for line in text("prometheus").splitlines() if line.startswith("# TYPE")}
    assert len({name for name in gauges if not name.endswith(("_low", "_high"))}) == len(names) + 4
    head = text("markdown").splitlines()[0].replace("\\", "")
    elsewhere = {"rtfx.encode_decode", "share.decode", "exact.grade", "exact.rate", "tokens.reference_per_second"}
    assert all(f"| {name} " in head for name in names - elsewhere)


def test_figures_of_profile_and_streams(rtfx, complete):
    bmf = strict(rtfx("export", complete, "--to", "bmf").stdout)
    (boosting,) = [measures for name, measures in bmf.items() if "names" in name]
    assert {key: boosting[key]["value"] for key in ("launches", "graph_launches", "idle-share")} == {
        "launches": 300, "graph_launches": 10, "idle-share": 0.25}  # fmt: skip
    assert bmf["quickstart-rnnt/quickstart/gpu17/streams/fp32"]["streams-sustained"]["value"] == 256
    assert boosting["exact-grade"] == {"value": 5} and boosting["wer-deletions"] == {"value": 10}
    assert boosting["rtfx-wall"]["value"] == pytest.approx(48)
    gbench = strict(rtfx("export", complete, "--to", "gbench").stdout)
    assert gbench["context"]["host_name"] == "bench-1"
    first = gbench["benchmarks"][0]
    assert first["cpu_time"] == 4000 and first["threads"] == 2 and "launches" in first
    assert "launches" not in gbench["benchmarks"][1]  # the profile has one figure for all rounds


@pytest.mark.parametrize("slo, most", [([True, True, False], 256), ([None] * 3, 512)])
def test_sustained_streams_keep_the_limit_of_latency(rtfx, tmp_path, slo, most):
    """All three numbers of streams have a stable queue. A search by `stream.slo_ms` also judges their latency."""
    sizes = zip((64, 256, 512), slo, strict=True)
    records = [synthetic.stream(size) | {"slo": within, "result_key": f"s{size}"} for size, within in sizes]
    synthetic.write(tmp_path, [synthetic.provenance(), *records])
    bmf = strict(rtfx("export", tmp_path, "--to", "bmf", "--metric", "streams.sustained").stdout)
    assert [case["streams-sustained"]["value"] for case in bmf.values() if "streams-sustained" in case] == [most]


@pytest.mark.parametrize("number, key, most", [(32, "now", 16), (100, "now", 64), (8, "now", 0), (32, "other settings", 64)])
def test_a_number_of_streams_that_failed_ends_the_sustained_ones(rtfx, tmp_path, number, key, most):
    failed = synthetic.failure(stage="stream") | {"result_key": key}
    failed["case"] = failed["case"].replace("/b16/", f"/streams{number}/")
    records = [synthetic.stream(size) | {"result_key": "now"} for size in (16, 64)]
    synthetic.write(tmp_path, [synthetic.provenance(), *records, failed])
    bmf = strict(rtfx("export", tmp_path, "--to", "bmf", "--metric", "streams.sustained").stdout)
    assert [case["streams-sustained"]["value"] for case in bmf.values() if "streams-sustained" in case] == [most]


def test_a_metric_that_is_chosen_twice_is_exported_once(export):
    assert export("--to", "prometheus", "--metric", "wer,wer") == export("--to", "prometheus", "--metric", "wer")


def test_chosen_metrics(rtfx, complete):
    text = rtfx("export", complete, "--to", "bmf", "--metric", "wer,rtfx.decode").stdout
    wanted = {"wer", "rtfx-decode", "gap-share", "noisy"}
    assert [set(measures) for measures in strict(text).values()] == [wanted]
    names = ["rtfx.encode_decode", "share.decode", "exact.rate"]  # no table shows these unasked
    text = rtfx("export", complete, "--to", "markdown", "--metric", ",".join(names)).stdout
    head = next(line for line in text.splitlines() if line.startswith("|")).replace("\\", "")
    assert all(name in head for name in names) and "rtfx.total" not in head


def test_output_file(rtfx, export, tmp_path):
    synthetic.write(tmp_path, results())
    assert rtfx("export", tmp_path, "--to", "csv", "-o", tmp_path / "x.csv").returncode == 0
    assert (tmp_path / "x.csv").read_text() == export("--to", "csv")
    assert rtfx("export", tmp_path, "--to", "csv", "-o", "bare.csv", cwd=tmp_path).returncode == 0
    assert (tmp_path / "bare.csv").read_text() == export("--to", "csv")


LEADERBOARD_CSV = """\
model,RTFx,License,Size (B),# Languages,Encoder,Decoder,AMI-Cleaned WER,Earnings22-Cleaned-AA-chunked WER,\
Gigaspeech-Cleaned WER,LS Clean WER,LS Other WER,SPGISpeech WER,Voxpopuli-Cleaned-AA WER
rtfx/quickstart-rnnt-label_looping-b16-fp32,60.00,,,,,,,,,,22.22,,
"""


def test_open_asr_leaderboard(rtfx, tmp_path):
    """The export holds a set of the leaderboard and a set of another name, and leaves stand-in data out. The provenance
    marks one set as a stand-in, and the record marks the other one."""
    sets = ["librispeech_test.other", "mine", "spgispeech_test", "ami_cleaned_test"]
    origins = [{"id": name, "stand_in": "x.jsonl" if name == sets[2] else None} for name in sets]
    records = [synthetic.provenance(datasets=origins)]
    for name in sets:
        for round, total in enumerate((1.5, 2.5)):
            record = synthetic.run(round=round) | {"total_seconds": total, "result_key": name}
            record["case"] = record["case"].replace("/quickstart/", f"/{name}/")
            stand_in = {"stand_in": "x.jsonl"} if name == sets[3] else {}
            records.append(record | {"dataset": record["dataset"] | {"id": name} | stand_in})
    synthetic.write(tmp_path, records)
    (tmp_path / "hypotheses").mkdir()
    references = ["It's £5, Mr. Colour", "Uh, um", "ignore time segment in scoring", None] + ["one two"] * 4
    texts = ["it is 5 pounds mister color"] + ["uh"] * 3 + ["one too", "1 two", "one two", "One, two."]
    lines = [
        json.dumps({"id": f"a/{i}", "seconds": 15.0, "reference": reference, "text": text})
        for i, (reference, text) in enumerate(zip(references, texts))
    ]
    for name in sets:
        (tmp_path / "hypotheses" / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    folder = tmp_path / "leaderboard"
    result = rtfx("export", tmp_path, "--to", "open-asr-leaderboard", "--output", folder)
    assert result.returncode == 0, result.stderr
    for name in sets[2:]:
        assert f"{name}/label_looping/b16/fp32: left out: its data stand in" in result.stderr
    model = "rtfx-quickstart-rnnt-label_looping-b16-fp32"
    manifests = [f"MODEL_{model}_DATASET_rtfx_{name}.jsonl" for name in sets[:2]]
    assert sorted(path.name for path in folder.iterdir()) == [*manifests, "open_asr_leaderboard.csv"]
    assert sorted(result.stdout.split()) == [str(folder / name) for name in [*manifests, "open_asr_leaderboard.csv"]]
    rows = [strict(line) for line in (folder / manifests[0]).read_text().splitlines()]
    assert list(rows[0]) == ["audio_filepath", "duration", "time", "text", "pred_text"]
    assert [row["audio_filepath"] for row in rows] == ["a/0", "a/4", "a/5", "a/6", "a/7"]
    assert rows[0]["text"] == references[0] and rows[0]["pred_text"] == texts[0]
    assert all(row["duration"] == 15 and row["time"] == 0.25 for row in rows)
    assert (folder / "open_asr_leaderboard.csv").read_text() == LEADERBOARD_CSV


def test_a_decoder_that_gives_no_words_has_no_row_in_the_leaderboard(rtfx, tmp_path):
    record = synthetic.run() | {"result_key": "k"}
    synthetic.write(tmp_path, [synthetic.provenance(), record | {"decoder": record["decoder"] | {"head": "none"}}])
    (tmp_path / "hypotheses").mkdir()
    line = json.dumps({"id": "a", "seconds": 15.0, "reference": "one", "text": ""})
    (tmp_path / "hypotheses/k.jsonl").write_text(line + "\n")
    result = rtfx("export", tmp_path, "--to", "open-asr-leaderboard", "--output", tmp_path / "leaderboard")
    assert result.returncode == 2 and "left out: its decoder gives no words" in result.stderr
    result = rtfx("rescore", tmp_path, "--scorer", "basic_english")
    assert "basic_english 2: -, characters -\n" in result.stdout and "%" not in result.stdout


@pytest.mark.parametrize(
    "arguments, changes, message",
    [
        (["--to", "open-asr-leaderboard"], {}, "name it with --output"),
        (["--to", "open-asr-leaderboard", "--output", "x"], {}, "no hypotheses with references"),
        (["--to", "xml"], {}, "allowed: gbench"),
        (["--to", "csv", "--metric", "speed"], {}, "unknown metric 'speed'"),
        (["--to", "csv", "--smaller-is-better"], {}, "github-action"),
        (["--to", "open-asr-leaderboard", "--output", "x", "--smaller-is-better"], {}, "github-action alone"),
        (["--to", "open-asr-leaderboard", "--output", "x", "--metric", "wer"], {}, "--metric: chooses nothing"),
        (["--to", "github-action", "--metric", "rtfx.total,wer"], {}, "--metric wer: is better where it is smaller"),
        (["--to", "github-action", "--metric", "rtfx.total", "--smaller-is-better"], {}, "list it without"),
        (["--to", "github-action", "--metric", "share.decode"], {}, "neither better nor worse"),
        (["--to", "csv"], {"rtfx": {"build_type": "Debug"}}, "not for measuring"),
    ],
)
def test_errors(rtfx, tmp_path, arguments, changes, message):
    synthetic.write(tmp_path, [synthetic.provenance(**changes), synthetic.run()])
    result = rtfx("export", tmp_path, *arguments)
    assert result.returncode == 2 and message in result.stderr


def test_profiles_are_refused(rtfx, tmp_path):
    synthetic.write(tmp_path, [synthetic.run() | {"profiled": True}])
    result = rtfx("export", tmp_path, "--to", "csv")
    assert result.returncode == 2 and "rtfx profile" in result.stderr
