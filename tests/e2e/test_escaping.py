"""Tests that ids, texts, names and paths from outside reach no terminal, table or page as commands."""

import csv
import gzip
import io
import json
import re
import shutil

import pytest
import synthetic_journal as synthetic
from conftest import small_config
from forked_script import script

ESC = "\x1b]0;owned\x07"
LATEX = "x\n\\input{passwd}\r%$a^b$"
FORMULA = '=HYPERLINK("http://evil";"click")'
HTML = "<img src=x onerror=alert(1)>|`_*"
NASTY = ESC + LATEX + HTML
# Control characters that a terminal obeys, apart from newline and tab, which the program prints itself.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


def records():
    """Returns records in which every name and every text holds something that could be taken for a command."""
    made = [synthetic.provenance(name=NASTY, question=NASTY)]
    made[0]["device"]["name"] = NASTY
    for model, decoder in (
        (NASTY, "frame_looping"), (NASTY, FORMULA), (NASTY, "[2pt]" + NASTY), ("@model", NASTY)
    ):  # fmt: skip
        for round in range(2):
            fields = {"model": model, "decoder": decoder, "round": round}
            grade = "baseline" if decoder == "frame_looping" else "different"
            record = synthetic.run(grade=grade, differing=6 * (grade == "different"), **fields)
            if first := record["exactness"]["first_difference"]:
                first |= {"utterance": NASTY, "words": NASTY, "baseline_words": FORMULA}
            record["result_key"] = f"k{(len(made) - 1) // 2}"
            made.append(record)
    made.append(synthetic.failure(decoder="failing" + NASTY, stage=NASTY, message=NASTY))
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nasty") / "run\x1b[31m"
    synthetic.write(folder, records())
    return folder


def words_of_latex(text):
    """Returns the names of the commands in a LaTeX text, without its comments."""
    return re.findall(r"\\([A-Za-z]+)", re.sub(r"(?<!\\)%.*", "", text))


def test_latex(rtfx, folder):
    text = rtfx("export", folder, "--to", "latex").stdout
    assert not OBEYED.search(text)
    ours = "begin end toprule midrule bottomrule item textbf footnotesize pm textbackslash textasciicircum textasciitilde"
    assert set(words_of_latex(text)) <= set(f"{ours} textless textgreater textbar".split())
    assert all(line.startswith(("%", "\\", "@model")) or " & " in line for line in text.splitlines())
    for line in text.splitlines():
        if " & " in line:
            assert not line.startswith(("[", "*")) and line.endswith(r"\\")


def test_csv(rtfx, folder):
    text = rtfx("export", folder, "--to", "csv").stdout
    rows = list(csv.reader(io.StringIO(text)))
    assert len(rows) == 1 + 5 and len({len(row) for row in rows}) == 1
    assert not any(field.startswith(("=", "@", "+")) for row in rows for field in row)
    assert any(field == "'" + FORMULA for row in rows for field in row)
    assert not OBEYED.search(text)


def test_markdown(rtfx, folder):
    text = rtfx("export", folder, "--to", "markdown").stdout
    assert "<" not in text and not OBEYED.search(text)
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 2 + 5
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1


@pytest.mark.parametrize(
    "command",
    [
        ["report", "--table-only"],
        ["compare"],
        ["summary"],
        ["export", "--to", "gbench"],
        ["export", "--to", "bmf"],
        ["export", "--to", "github-action"],
    ],
)
def test_terminal(rtfx, folder, command):
    result = rtfx(command[0], folder, *command[1:])
    assert result.returncode == 0, result.stderr
    assert not OBEYED.search(result.stdout + result.stderr)
    assert "owned" in result.stdout


def test_terminal_of_two_runs(rtfx, folder, tmp_path):
    other = records()
    other[0]["device"]["name"] = "other" + NASTY
    synthetic.write(tmp_path, other)
    for command in (["compare"], ["diff-runs"], ["gate", "--baseline"]):
        result = rtfx(command[0], folder, *command[1:], tmp_path)
        assert "owned" in result.stdout and not OBEYED.search(result.stdout + result.stderr)


def test_terminal_of_marks_scorers_and_damaged_files(rtfx, tmp_path):
    """Marks, scorers and lines of damaged files are escaped. The mark `overlapped` names a stage as the journal
    does."""
    runs = [synthetic.run(), synthetic.run(decoder="frame_looping")]
    for record in runs:
        record |= {"result_key": record["decoder"]["id"], "pipeline": {"in_flight": 2, "audio": "memory"}}
        record["metrics"]["busy." + ESC] = 0.9
    journal = synthetic.write(tmp_path / "run", [synthetic.provenance(), *runs])
    for command in (["report", "--table-only"], ["compare"], ["compare", tmp_path / "run"]):
        result = rtfx(command[0], tmp_path / "run", *command[1:])
        assert result.returncode == 0, result.stderr
        assert "owned" in result.stdout and not OBEYED.search(result.stdout)
    runs[0]["wer"]["normalizer"] = ESC
    synthetic.write(tmp_path / "scored", [synthetic.provenance(), runs[0]])
    synthetic.write_hypotheses(tmp_path / "scored", runs[0], {})
    result = rtfx("rescore", tmp_path / "scored", "--scorer", "none")
    assert "owned" in result.stdout and not OBEYED.search(result.stdout)
    damaged = tmp_path / "damaged\x1b[31m"
    damaged.mkdir()
    (damaged / "journal.jsonl.gz").write_bytes(gzip.compress(b"{}\n")[:10] + b"\xff" * 20)
    journal.rename(damaged / "journal.2.jsonl")
    (damaged / "journal.2.jsonl").write_text(json.dumps(synthetic.provenance()) + "\n{}x\n")
    result = rtfx("dashboard", damaged, "--output", tmp_path / "site")
    assert result.returncode == 2 and result.stderr.count("left out\n") == 2 and not OBEYED.search(result.stderr)


def test_errors_of_files_and_names(rtfx, config, tmp_path):
    odd = tmp_path / "odd\x1b[31m.json"
    assert_error(rtfx("validate", odd), r"\x1b[31m.json")
    odd.write_text("{")
    assert_error(rtfx("validate", odd), r"\x1b[31m.json")
    assert_error(rtfx("validate", config(), "--set", "models.0.idx=a\nb\x1b"), r"a\nb\x1b")
    assert_error(rtfx("validate", config(models=[f"{ESC}.nemo"])), r"\x1b]0;owned\x07.nemo")


def assert_error(result, text):
    assert result.returncode == 2 and text in result.stderr
    assert not OBEYED.search(result.stdout + result.stderr)


def test_a_run_with_odd_names(rtfx, config, tmp_path):
    """Control characters in ids and in the folders of models and data are escaped in the program's own output."""
    small = small_config()
    model = tmp_path / "m\x1b[31m.nemo"
    shutil.copy(small["models"][0], model)
    dataset = small["datasets"][0] | {"id": f"two{ESC}"}
    path = config(models=[str(model)], datasets=[dataset], decoders=[{"id": NASTY, "name": "label_looping"}])
    result = rtfx("run", path, "--output", tmp_path / "run\x1b")
    assert result.returncode == 0, result.stderr
    assert not OBEYED.search(result.stdout + result.stderr)
    assert r"m\x1b[31m on two\x1b]0;owned\x07" in result.stdout


def test_page(rtfx, folder, tmp_path):
    result = rtfx("report", folder, "-o", tmp_path / "page.html")
    assert result.returncode == 0, result.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<img" not in page and not OBEYED.search(page) and "owned" in page
    assert not OBEYED.search(result.stdout + result.stderr)


def test_figures(program, folder, tmp_path):
    svg = tmp_path / "figure.svg"
    result = script("plots/rtfx_by_decoder.py", folder, "-o", svg, RTFX_BIN=str(program))
    assert result.returncode == 0, result.stderr
    assert not OBEYED.search(result.stdout)
    text = svg.read_text(encoding="utf-8")
    assert not OBEYED.search(text) and "$a^b$" in text and "<img" not in text


def test_markdown_of_the_scripts(program, folder, tmp_path):
    runs = [folder] * 4
    text = script("plots/before_after.py", *runs, RTFX_BIN=str(program)).stdout
    assert "owned" in text and "<" not in text and not OBEYED.search(text)
    readme = tmp_path / "README.md"
    name = "\\x1b]0;owned\\x07x\\n\\input{passwd}\\r%$a^b$" + HTML
    readme.write_text(f"<!-- table:{name} -->\nold\n<!-- /table -->\n")
    result = script("scripts/readme_table.py", folder, readme, RTFX_BIN=str(program))
    assert result.returncode == 0, result.stderr
    body = readme.read_text().partition("-->")[2].rpartition("<!--")[0]
    assert "owned" in body and "<" not in body and not OBEYED.search(body)
