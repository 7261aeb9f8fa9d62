"""Tests the page, the figures and the tables that are made from a journal."""

import os
import re
import subprocess
from html.parser import HTMLParser

import pytest
import synthetic_journal as synthetic
from conftest import PROGRAM
from forked_script import script
from terminal import on_terminal


def report(*arguments):
    command = [PROGRAM, "report", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def script_free(*arguments, **settings):
    """Runs the program without a Python script, and returns the finished process."""
    result = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, **settings)
    assert result.returncode == 0, result.stderr
    return result


class Page(HTMLParser):
    """Collects the texts of a page by element, its ids, and everything that a browser would fetch for it."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.fetched, self.texts, self.open, self.goes_on = [], [], {}, [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "wbr":  # a possible line break, after which the text goes on
            self.goes_on = True
            return
        self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href") and not value.startswith("#"):
                self.fetched.append(value)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        for tag in set(self.open):
            texts = self.texts.setdefault(tag, [""])
            texts[-1:] = [texts[-1] + data] if self.goes_on else [texts[-1], data]
        self.goes_on = False


def page_of(folder, records, tail=""):
    synthetic.write(folder, records, tail)
    result = report(folder)
    assert result.returncode == 0, result.stderr
    text = (folder / "report.html").read_text(encoding="utf-8")
    return text, Page(text)


@pytest.fixture(scope="module")
def typical(tmp_path_factory):
    return page_of(tmp_path_factory.mktemp("typical"), synthetic.typical(), '{"kind": "run", "ca')


def test_page_needs_nothing_else(typical):
    text, page = typical
    assert not page.fetched
    assert "@import" not in text and "url(http" not in text and "<script" not in text


def test_insertions_into_empty_references_are_shown(tmp_path):
    silence = {"wer": None, "substitutions": 0, "deletions": 0, "reference_words": 0}
    first, other = synthetic.run(decoder="frame_looping", grade="baseline"), synthetic.run(grade="text")
    first["wer"] |= silence | {"insertions": 0}
    other["wer"] |= silence | {"insertions": 17}
    synthetic.write(tmp_path, [synthetic.provenance(), first, other])
    result = report(tmp_path)
    assert result.returncode == 0, result.stderr
    rows = [line for line in result.stdout.splitlines() if " 16 " in line]
    assert "0/0/17" in rows[1] and "0/0/" not in rows[0]
    conclusion = " ".join(result.stdout.split())  # a sentence may take two lines
    # 17 more words differ by more than three standard deviations.
    assert "WRONG: label_looping on quickstart-rnnt: more word errors than frame_looping" in conclusion
    assert "17 words inserted instead of 0" in conclusion
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "0 / 0 / 17" in page.texts["span"]


def test_page_has_the_table_and_four_figures(typical):
    text, page = typical
    cells = page.texts["td"]
    for word in ("frame_looping", "min_duration", "bitwise", "different", "failed", "31.00"):
        assert word in [cell.strip() for cell in cells]
    assert text.count("<svg") == 8  # four figures, wide and narrow
    assert len(page.ids) == len(set(page.ids))
    assert "out of memory" in text and ">the</del> <ins>a</ins>" in text


def test_page_shows_no_nan(typical):
    assert "nan" not in " ".join(typical[1].texts["td"]).lower().split()


def test_speed_up_is_the_ratio_of_means(typical):
    """The speed-up of window is 2.0 s / 0.5 s. min_duration is faster, but it is no exact decoder."""
    assert "quickstart-tdt: window decodes 4.00 times as fast as frame_looping" in typical[0]


def compared(*speeds):
    """Yields rounds of a baseline that takes 2 s, and of a decoder with the given times."""
    for round, seconds in enumerate(speeds):
        yield synthetic.run(round=round, decoder="frame_looping", grade="baseline", decode_seconds=2.0)
        yield synthetic.run(round=round, decode_seconds=seconds)


def test_the_headline_carries_its_interval(tmp_path):
    """The headline states the mean speed-up and its interval. For 0.5, 0.52 and 0.48 s, exp(mean log) is 4.002, and the
    t-interval of three rounds is ± 4.3 standard deviations."""
    text, _ = page_of(tmp_path, [synthetic.provenance(), *compared(0.5, 0.52, 0.48)])
    headline = "label_looping decodes 4.00 times as fast as frame_looping (batch 16, fp32; 95 %: "
    assert f"{headline}3.62 to 4.42)." in text
    text, _ = page_of(tmp_path, [synthetic.provenance(), *compared(0.5)])
    assert "fp32; one round: no interval)." in text


def test_the_headline_says_when_most_cases_are_noisy(tmp_path):
    noisy = [*compared(0.5, 4.0)]
    text, page = page_of(tmp_path, [synthetic.provenance(), *noisy])
    assert "Most figures" not in text and "1 of 2 cases vary by more than 5 %" in text
    assert "no difference: label_looping decodes" in text and ", NOISY; 95 %: " in text
    records = [synthetic.provenance(), *noisy]
    for round, seconds in enumerate((1.0, 9.0)):
        records.append(synthetic.run(round=round, decoder="window", decode_seconds=seconds))
    text, page = page_of(tmp_path, records)
    first = page.texts["li"][1]
    assert first.startswith("Most figures of this run are doubtful: 2 of 3 cases vary")


def test_texts_are_escaped(tmp_path):
    question = "Is <script>alert(1)</script> & co. harmless?"
    text, page = page_of(tmp_path, [synthetic.provenance(question=question), synthetic.run()])
    assert "<script" not in text and question in "".join(page.texts["p"])


def test_page_of_failures_alone(tmp_path):
    text, _ = page_of(tmp_path, [synthetic.provenance(), synthetic.failure()])
    assert "1 of 1 cases failed" in text and "<svg" not in text


def test_page_without_references_and_values(tmp_path):
    run = synthetic.run()
    run["wer"]["wer"] = run["metrics"]["rtfx.decode"] = run["exactness"] = None
    text, _ = page_of(tmp_path, [synthetic.provenance(), run])
    assert "No exact decoder was compared" in text


def test_results_of_another_build_do_not_mix(tmp_path):
    """A later result key replaces the earlier one of the same case: 120 s / 2.214 s is shown, and no mean of both."""
    old = synthetic.run(decode_seconds=50.0) | {"result_key": "older"}
    text, _ = page_of(tmp_path, [synthetic.provenance(), old, synthetic.run()])
    assert "54.2" in text and "NOISY" not in text


def test_journal_without_cases_or_missing(tmp_path):
    synthetic.write(tmp_path, [synthetic.provenance()])
    for folder in (tmp_path, tmp_path / "gone"):
        result = report(folder)
        assert result.returncode == 2 and str(folder) in result.stderr


def test_an_output_of_another_type_is_not_blamed_on_packages(rtfx, tmp_path):
    synthetic.write(tmp_path, [synthetic.provenance(), synthetic.run()])
    result = rtfx("report", tmp_path, "--output", tmp_path / "page.txt")
    assert result.returncode != 0 and "page.txt: give file.html or file.htm" in result.stderr
    assert "matplotlib" not in result.stderr


def test_damaged_journal_names_the_line(tmp_path):
    path = synthetic.write(tmp_path, [synthetic.provenance(), synthetic.run()])
    path.write_text("{torn\n" + path.read_text())
    result = report(tmp_path)
    assert result.returncode == 2 and f"{path}:1" in result.stderr


@pytest.mark.parametrize("figure", ["rtfx_by_decoder", "region_share", "exactness"])
@pytest.mark.parametrize("ending, magic", [("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_figures_as_files(tmp_path, figure, ending, magic):
    synthetic.write(tmp_path, synthetic.typical())
    output = tmp_path / f"figure.{ending}"
    result = script(f"plots/{figure}.py", tmp_path, "-o", output)
    assert result.returncode == 0, result.stderr
    assert output.read_bytes().startswith(magic)
    assert "key of quickstart-rnnt" in result.stdout  # this is the key of the records on the page


def test_readme_table(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- table:synthetic -->\nold\n<!-- /table -->\nafter\n")
    synthetic.write(tmp_path, synthetic.typical())
    for _ in range(2):  # a second call changes nothing more
        result = script("scripts/readme_table.py", tmp_path, readme)
        assert result.returncode == 0, result.stderr
    text = readme.read_text()
    assert text.startswith("before\n") and text.endswith("<!-- /table -->\nafter\n")
    assert "old" not in text and text.count("| quickstart-tdt | frame_looping |") == 3
    assert "FAILED" in text and "different ~" in text

    readme.write_text("<!-- table:synthetic model=quickstart-tdt batch=1 -->\n<!-- /table -->\n")
    assert script("scripts/readme_table.py", tmp_path, readme).returncode == 0
    rows = [line for line in readme.read_text().splitlines() if line.startswith("| quickstart")]
    assert rows and all(row.startswith("| quickstart-tdt |") and "| 1 |" in row for row in rows)


REPORT = '<testsuites><testsuite name="a">{}</testsuite></testsuites>'
PASSED, FAILED = '<testcase name="{}"/>', '<testcase name="{}"><failure message="no"/></testcase>'
SKIPPED = '<testcase name="{}"><skipped message="no GPU"/></testcase>'


@pytest.mark.parametrize(
    "pytest_cases, expected, code",
    [(PASSED, "5 passed, 1 failed, 1 skipped", 1), (FAILED, "4 passed, 2 failed, 1 skipped", 1),
     (None, "4 passed, 2 failed, 1 skipped", 1)],
)  # fmt: skip
def test_counts_of_all_tests(tmp_path, pytest_cases, expected, code):
    """All tests are counted, here of a program with two passed tests and one skipped, of one that crashed, and of one
    without a report."""
    (tmp_path / "gtest").mkdir()
    (tmp_path / "gtest/good.xml").write_text(REPORT.format(PASSED + PASSED + SKIPPED))
    programs = PASSED.format("good") + FAILED.format("crashed") + PASSED.format("silent")
    (tmp_path / "ctest.xml").write_text(f"<testsuite>{programs}</testsuite>")
    if pytest_cases:
        (tmp_path / "pytest.xml").write_text(REPORT.format(pytest_cases))
    result = script("scripts/count_tests.py", tmp_path, "format=passed")
    assert result.returncode == code
    assert result.stdout.splitlines()[-1] == expected


def test_a_program_that_ctest_cannot_find_is_a_failure(tmp_path):
    (tmp_path / "ctest.xml").write_text(f"<testsuite>{PASSED.format('a')}{SKIPPED}</testsuite>")
    (tmp_path / "pytest.xml").write_text(REPORT.format(PASSED))
    result = script("scripts/count_tests.py", tmp_path)
    assert result.returncode == 1 and result.stdout.splitlines()[-1] == "2 passed, 1 failed, 0 skipped"


def test_count_is_0_only_without_failures(tmp_path):
    (tmp_path / "ctest.xml").write_text(f"<testsuite>{PASSED.format('a')}</testsuite>")
    (tmp_path / "pytest.xml").write_text(REPORT.format(PASSED))
    assert script("scripts/count_tests.py", tmp_path, "tidy=passed").returncode == 0
    assert script("scripts/count_tests.py", tmp_path, "tidy=failed").returncode == 1


def planted(**fields):
    """Returns a run whose fastest decoder is wrong, with a WER of 18.42 % against 1.32 % of the baseline."""
    required = {"verify": {"required": {"fp32": "exact"}}, "protocol": {"cv_max": 0.05}}
    records = [synthetic.provenance(config=required)]
    for round in range(3):
        records.append(synthetic.run(round=round, decoder="frame_looping", grade="baseline", decode_seconds=2.0))
        records.append(synthetic.run(round=round, decoder="my_greedy", grade="different", differing=20, decode_seconds=0.2))
        records.append(synthetic.run(round=round, decode_seconds=1 + 0.01 * round) | fields)
    for record in records[1:]:
        wrong = record["decoder"]["id"] == "my_greedy"
        record["wer"] |= {"wer": 0.1842 if wrong else 0.0132, "substitutions": 56 if wrong else 4, "insertions": 0,
                          "deletions": 0, "reference_words": 304}  # fmt: skip
    return records


WRONG = (
    "WRONG: my_greedy on quickstart-rnnt: graded different against frame_looping, and exact is required; "
    "WER 18.42 % instead of 1.32 %."
)
WON = "quickstart-rnnt: label_looping decodes 1.98 times as fast as frame_looping (batch 16, fp32; 95 %: "


def test_a_wrong_decoder_is_named_first_and_praised_nowhere(tmp_path):
    text, page = page_of(tmp_path, planted())
    first, second = page.texts["li"][1:3]
    assert first == WRONG and f"<li><strong>{WRONG}</strong></li>" in text
    assert second.startswith(WON)
    assert "my_greedy decodes" not in text
    end = text[text.index("<footer") :]  # the page ends with the winner
    assert WRONG in end and WON in end

    markdown = script_free("export", tmp_path, "--to", "markdown").stdout.replace("\\_", "_")
    assert markdown.startswith(f"**{WRONG}**\n\n| ") and markdown.rstrip().splitlines()[-1].startswith(WON)
    table = script_free("report", tmp_path, "--table-only").stdout
    *_, wrong, won = re.split(r"\n(?=WRONG|quickstart-rnnt: )", table)
    assert " ".join(wrong.split()) == WRONG and " ".join(won.split()).startswith(WON)


def test_an_unmarked_decoder_comes_before_a_marked_one(tmp_path):
    records = [r for r in planted(suspect=["cpu_wait"]) if r.get("decoder", {}).get("id") != "my_greedy"]
    text, _ = page_of(tmp_path / "alone", records)
    assert "label_looping decodes 1.98 times" in text and ", suspect 3/3; 95 %: " in text
    for round in range(3):
        window = synthetic.run(round=round, decoder="window", decode_seconds=1.5)
        records.append(window | {"wer": records[1]["wer"]})
    text, _ = page_of(tmp_path / "both", records)
    assert "window decodes 1.33 times" in text and "label_looping decodes" not in text


def test_failures_stand_below_the_results_of_their_group(tmp_path):
    """A failed case stands below the results of its batch size, although its failure is the first record."""
    records = [synthetic.provenance(), synthetic.failure(decoder="broken", batch=4), *compared(0.5)]
    records += [synthetic.run(decoder="frame_looping", grade="baseline", batch=4), synthetic.run(batch=4)]
    synthetic.write(tmp_path, records)
    table = script_free("report", tmp_path, "--table-only").stdout
    rows = re.findall(r"^  (frame_looping|label_looping|broken) +(\d+) ", table, re.MULTILINE)
    assert rows == [("frame_looping", "16"), ("label_looping", "16"),
                    ("frame_looping", "4"), ("label_looping", "4"), ("broken", "4")]  # fmt: skip


def test_character_errors_count_where_texts_have_no_spaces(tmp_path):
    run = synthetic.run()
    run["wer"] |= {"cer": 0.0525, "character_errors": 21, "reference_characters": 400, "unspaced_characters": 390}
    text, page = page_of(tmp_path, [synthetic.provenance(), run])
    assert "CER: 5.25" in page.texts["small"] and "the CER is what counts" in text
    run["wer"]["unspaced_characters"] = 190
    text, _ = page_of(tmp_path, [synthetic.provenance(), run])
    assert "CER" not in text
    run["wer"]["normalizer"] = "unicode_words"
    text, page = page_of(tmp_path, [synthetic.provenance(), run])
    assert "CER: 5.25" in page.texts["small"] and "the CER is what counts" not in text


def test_a_single_round_has_no_deviation(tmp_path):
    """A single round shows no deviation, and a slow decoder still shows two significant digits."""
    slow = synthetic.run(decoder="slow", decode_seconds=3000.0)
    text, page = page_of(tmp_path, [synthetic.provenance(), synthetic.run(), slow])
    cells = [cell.strip() for cell in page.texts["span"]]
    assert {"54.2", "240", "0.040"} <= set(cells) and not any(cell.startswith("± ") for cell in cells)
    rows = [line for line in report(tmp_path).stdout.splitlines() if " fp32 " in line]
    assert [row.split()[3:5] for row in rows] == [["54.2", "240"], ["0.040", "0.040"]]
    _, page = page_of(tmp_path / "two", [synthetic.provenance(), slow, slow | {"round": 1}])
    assert "± 0.000" in page.texts["span"]


def controlled(rounds):
    """Yields the records of a decoder and its A/A control."""
    yield synthetic.provenance()
    for round in range(rounds):
        yield synthetic.run(round=round, decoder="frame_looping", grade="baseline", decode_seconds=2.0)
        control = synthetic.run(round=round, decoder="frame_looping.aa", decode_seconds=2.0 + 0.02 * (round - 1))
        control["decoder"]["control_of"] = "frame_looping"
        yield control


def test_a_control_is_explained_with_its_noise(tmp_path):
    text, _ = page_of(tmp_path, controlled(3))
    assert "frame_looping.aa is frame_looping once more, an A/A control" in text
    assert "The largest change that noise makes in this run is 1.3 % in rtfx.total, 2.5 % in rtfx.decode." in text


def test_a_control_of_one_round_tells_no_noise(tmp_path):
    text, _ = page_of(tmp_path, controlled(1))
    assert "frame_looping.aa is frame_looping once more, an A/A control" in text
    assert "The largest change that noise makes" not in text
    compared = script_free("compare", tmp_path).stdout
    assert "Noise floor of quickstart-rnnt/quickstart/b16/fp32 (A/A control): unknown, it needs two rounds" in compared


@pytest.mark.parametrize("columns", [80, 60])
def test_tables_and_legends_fit_the_terminal(tmp_path, columns):
    synthetic.write(tmp_path, planted(suspect=["cpu_wait"]))
    environment = {**os.environ, "NO_COLOR": "1"}

    def shown(command, columns):
        return on_terminal([PROGRAM, *command], columns, env=environment)

    for command in (["report", tmp_path, "--table-only", "--costs"], ["compare", tmp_path], ["run", "--help"],
                    ["bench", "--help"], ["--help"], ["noise", tmp_path]):  # fmt: skip
        text = shown(command, columns)
        long = [line for line in text.splitlines() if len(line) > columns]
        # A word such as the name of a case may be longer than a line, but no word is cut. The tables of these two
        # commands are not wrapped; two blanks divide their columns.
        has_rows = command[0] in ("compare", "noise")
        assert all(len(line.split()) == 1 or has_rows and "  " in line.strip() for line in long), long
    command = ["report", tmp_path, "--table-only"]
    assert shown(command, columns).split() == script_free(*command).stdout.split()  # no word is lost
