"""Tests `rtfx dashboard`: the files in its folder, what a browser shows, and its change points."""

import gzip
import json
import os
import re
import subprocess
import tempfile
import urllib.parse
from pathlib import Path

import change_points
import dashboard
import numpy as np
import pytest
import synthetic_journal as synthetic
from conftest import ROOT


def journals(folder, count=12, slower_from=None, **changes):
    """Writes runs of three decoders at one batch size in order of time, with two runs for each revision."""
    generator = np.random.default_rng(3)
    for i in range(count):
        about = synthetic.provenance(started=f"2026-01-{1 + i // 2:02}T{8 + 6 * (i % 2):02}:15:00Z", **changes)
        about["rtfx"] = about["rtfx"] | {"revision": f"{i // 2:02x}" * 6}
        records = [about]
        slower = 1.1 if slower_from is not None and i >= slower_from else 1.0
        for decoder, seconds in (("frame_looping", 2.0), ("label_looping", 0.6 * slower)):
            run_factor = generator.lognormal(0, 0.004)
            for round in range(3):
                took = seconds * run_factor * generator.lognormal(0, 0.003)
                grade = "baseline" if decoder == "frame_looping" else "bitwise"
                record = synthetic.run(round=round, decoder=decoder, decode_seconds=took, grade=grade)
                record["suspect"] = ["cpu_wait"] if i == 4 and round == 0 else []
                records.append(record)
        synthetic.write(folder / f"run{i:02}", records)
    return folder


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


@pytest.fixture(scope="module")
def site(rtfx, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dashboard")
    journals(folder / "journals", slower_from=6)
    (folder / "journals/run03/report.html").write_text("<p>the page of run 3</p>")
    (folder / "journals/manifest.jsonl").write_text('{"audio_filepath": "a.wav"}\n')
    result = rtfx("dashboard", folder / "journals", "--output", folder / "site")
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"dashboard: {folder}/site/index.html\n"
    return folder / "site"


def test_it_holds_the_figures_of_rtfx_summary(rtfx, site):
    data = data_of((site / "index.html").read_text())
    assert [run["journal"] for run in data["runs"]] == [f"run{i:02}/journal.jsonl" for i in range(12)]
    summary = json.loads(rtfx("summary", site.parent / "journals/run07").stdout)
    for case in summary["cases"]:
        (one,) = [series for series in data["series"] if series["case"] == case["name"]]
        assert len(one["points"]) == 12
        shown = one["points"][7]
        assert shown["marks"] == case["marks"] and shown["grade"] == case["grade"]
        for metric, figure in case["figures"].items():
            wanted = [figure["estimate"], figure["low"], figure["high"]]
            assert shown["figures"][metric] == pytest.approx(wanted, rel=1e-5)
    assert data["metrics"] == summary["metrics"]


def test_marks_stand_at_their_points(site):
    data = data_of((site / "index.html").read_text())
    marks = [point["marks"] for point in data["series"][0]["points"]]
    assert marks[4] == ["suspect 1/3"] and not any(marks[:4] + marks[5:])
    assert "cpu_wait" in data["marks"]["suspect"]


def test_the_planted_change_is_found_where_it_is(site):
    by_decoder = {one["decoder"]: one for one in data_of((site / "index.html").read_text())["series"]}
    ((index, p, before, after),) = by_decoder["label_looping"]["changes"]["rtfx.decode"]
    assert index == 6 and p <= 0.01 and after / before == pytest.approx(1 / 1.1, rel=0.01)
    assert "rtfx.decode" not in by_decoder["frame_looping"]["changes"]


def test_pages_of_runs_come_along(rtfx, site):
    data = data_of((site / "index.html").read_text())
    pages = [run["page"] for run in data["runs"]]
    assert pages[3] == "runs/run03/journal.html" and not any(pages[:3] + pages[4:])
    assert (site / pages[3]).read_text() == "<p>the page of run 3</p>"


@pytest.mark.parametrize("name", ["run#1", "100%25", "a b?", "\u00fc\u202e"])
def test_links_to_pages_are_encoded(tmp_path, name):
    synthetic.write(tmp_path / "runs" / name, [synthetic.provenance()])
    (tmp_path / "runs" / name / "report.html").write_text("the page")
    link = dashboard.page_of(f"{name}/journal.jsonl", tmp_path / "runs", tmp_path / "site")
    assert re.fullmatch(r"runs/[\w%]+/journal.html", link, re.ASCII)
    assert (tmp_path / "site" / urllib.parse.unquote(link)).read_text() == "the page"


def test_pages_are_made_where_they_are_wanted(rtfx, tmp_path):
    journals(tmp_path / "journals", count=1)
    result = rtfx("dashboard", tmp_path / "journals", "--output", tmp_path / "site", "--pages")
    assert result.returncode == 0, result.stderr
    (run,) = data_of((tmp_path / "site/index.html").read_text())["runs"]
    assert "label_looping" in (tmp_path / "site" / run["page"]).read_text()
    assert not list((tmp_path / "journals").rglob("*.html"))


def test_every_run_has_a_page_of_its_own(rtfx, tmp_path):
    """An earlier run that --force kept and a journal whose name resembles a folder's get pages of their own."""
    folder = journals(tmp_path / "journals", count=4)
    (folder / "run01/journal.jsonl").rename(folder / "run00/journal.jsonl.1")
    (folder / "run02/journal.jsonl").rename(folder / "run00_journal.jsonl")
    (folder / "run00/report.html").write_text("<p>the page of the newest run</p>")
    for _ in range(2):
        result = rtfx("dashboard", folder, "--output", tmp_path / "site", "--pages")
        assert result.returncode == 0, result.stderr
        pages = {run["journal"]: run["page"] for run in data_of((tmp_path / "site/index.html").read_text())["runs"]}
        assert pages == {"run00/journal.jsonl": "runs/run00/journal.html",
                         "run00/journal.jsonl.1": "runs/run00/journal.1.html",
                         "run00_journal.jsonl": "runs/run00_journal.html",
                         "run03/journal.jsonl": "runs/run03/journal.html"}  # fmt: skip
        texts = [(tmp_path / "site" / page).read_text() for page in pages.values()]
        assert len(set(texts)) == 4 and "the newest run" in texts[0]


def test_a_page_that_is_older_than_its_journal_is_not_linked(rtfx, tmp_path):
    """It shows the run before. `--pages` makes the page of the new run, here in a folder whose name ends in .jsonl."""
    (journals(tmp_path / "runs", count=1) / "run00").rename(tmp_path / "runs/ci.jsonl")
    page = tmp_path / "runs/ci.jsonl/report.html"
    page.write_text("<p>the page of an earlier run</p>")

    def linked(*arguments):
        result = rtfx("dashboard", tmp_path / "runs", "--output", tmp_path / "site", *arguments)
        assert result.returncode == 0, result.stderr
        (run,) = data_of((tmp_path / "site/index.html").read_text())["runs"]
        return run["page"] and (tmp_path / "site" / run["page"]).read_text()

    now = page.stat().st_mtime
    os.utime(page.with_name("journal.jsonl"), (now - 100, now - 100))
    assert linked() == page.read_text()
    for old in (page, tmp_path / "site/runs/ci.jsonl/journal.html"):
        os.utime(old, (now - 200, now - 200))
    assert linked() is None
    assert "label_looping" in linked("--pages")


def rows_of(page, heading):
    """Returns the texts of the cells in the table after a heading."""
    table = page[page.index(f"<h2>{heading}</h2>") :].partition("</table>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table.replace("<wbr>", ""), re.DOTALL)
    return [[re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<td.*?</td>", row)] for row in rows if "<td" in row]


def test_it_opens_with_what_changed_and_the_latest_of_each_decoder(site):
    page = (site / "index.html").read_text()
    assert page.index("<h2>What changed?</h2>") < page.index("<h2>The latest") < page.index('id="filters"')
    changed = {row[1]: row for row in rows_of(page, "What changed?")}
    assert set(changed) <= {"rtfx.total", "rtfx.decode"}
    case, _, change, since, _ = changed["rtfx.decode"]
    assert case == "quickstart-rnnt/quickstart/label_looping/b16/fp32" and change.startswith("-9.")
    assert since == "2026-01-04 03030303"
    latest = {row[0]: row[1:] for row in rows_of(page, "The latest of each decoder")}
    newest = data_of(page)["series"]
    assert list(latest) == ["frame_looping", "label_looping"]
    for one in newest:
        figures = one["points"][-1]["figures"]
        model, machine, batch, dtype, total, decode, wer, grade, run = latest[one["decoder"]]
        assert (model, machine, batch, dtype) == ("quickstart-rnnt", "Some CPU, 2 threads", "16", "fp32")
        assert (wer, run) == ("31.00", "2026-01-06 05050505")
        assert float(total) == pytest.approx(figures["rtfx.total"][0], rel=0.01)
        assert float(decode) == pytest.approx(figures["rtfx.decode"][0], rel=0.01)


def test_a_case_that_fails_now_is_named(rtfx, tmp_path):
    """A case is named if it fails in the latest run. An earlier failure does not count, and a failure has no chart."""
    folder = journals(tmp_path / "journals", count=4)
    for run in ("run01", "run03"):
        lines = (folder / run / "journal.jsonl").read_text().splitlines(keepends=True)
        kept = [line for line in lines if "label_looping" not in line]
        failures = [synthetic.failure(decoder="label_looping")]
        if run == "run01":
            failures.append(synthetic.failure(decoder="frame_looping"))
        (folder / run / "journal.jsonl").write_text("".join(kept + [json.dumps(f) + "\n" for f in failures]))
    assert rtfx("dashboard", folder, "--output", tmp_path / "site").returncode == 0
    page = (tmp_path / "site/index.html").read_text()
    row = ["quickstart-rnnt/quickstart/label_looping/b16/fp32", "decode: out of memory", "Some CPU, 2 threads", "2026-01-02 01010101"]
    assert rows_of(page, "What fails?") == [row]
    points = {one["decoder"]: [point["run"] for point in one["points"]] for one in data_of(page)["series"]}
    assert points == {"frame_looping": [0, 2, 3], "label_looping": [0, 2]}


def test_the_page_is_the_same_for_every_order_of_sets(rtfx, site, tmp_path):
    pages = []
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        result = rtfx("dashboard", site.parent / "journals", "--output", tmp_path, env=environment)
        assert result.returncode == 0, result.stderr
        pages.append((tmp_path / "index.html").read_text())
    assert pages[0] == pages[1]


@pytest.mark.parametrize("width", [390, 1400])
def test_a_row_of_the_overview_shows_its_chart(site, browser, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto((site / "index.html").as_uri())
    page.locator("#overview a", has_text="label_looping").first.click()
    assert page.locator(".chart").count() == 1
    assert "label_looping" in page.locator(".chart h3").text_content()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_axes_of_charts_have_several_ticks(site, browser):
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    ticks = "([low, high]) => ticks(low, high)[0].length"
    for low, high in ((0.99, 1.0), (2.1, 2.94), (0, 0.31), (95, 105), (1e-4, 2.2e-4), (-3, 8), (123.4, 123.5)):
        assert 3 <= page.evaluate(ticks, [low, high]) <= 12, (low, high)


def test_results_of_other_conditions_are_other_series(rtfx, tmp_path):
    journals(tmp_path / "a", count=1)
    journals(tmp_path / "b", count=1, libtorch="2.12.0")
    assert rtfx("dashboard", tmp_path, "--output", tmp_path / "site").returncode == 0
    series = data_of((tmp_path / "site/index.html").read_text())["series"]
    assert len(series) == 4 and {part for one in series for part in one["apart"]} == {"libtorch 2.11.0", "libtorch 2.12.0"}


def test_an_option_of_a_later_release_ends_no_series(rtfx, tmp_path):
    """A journal of the earlier release lacks the option, which is the same as its default."""
    options = [{"max_symbols": 10}, {"max_symbols": 10, "count_rows": False}, {"max_symbols": 10, "count_rows": True}]
    for day, of_decoder in enumerate(options):
        record = synthetic.run()
        record["decoder"]["options"] = of_decoder
        synthetic.write(tmp_path / f"{day}", [synthetic.provenance(started=f"2026-01-0{1 + day}T08:00:00Z"), record])
    assert rtfx("dashboard", tmp_path, "--output", tmp_path / "site").returncode == 0
    series = data_of((tmp_path / "site/index.html").read_text())["series"]
    found = {tuple(one["apart"]): len(one["points"]) for one in series}
    assert found == {("options.count_rows false",): 2, ("options.count_rows true",): 1}


HOSTILE = '</script><script>document.title="owned"</script><img src=x onerror=\'document.title="owned"\'>'


def test_text_of_journals_is_text(rtfx, tmp_path, browser):
    for i in range(2):
        about = synthetic.provenance(name=HOSTILE, started=f"2026-01-0{i + 1}T00:00:00Z", device={"type": "cpu", "name": HOSTILE})
        about["rtfx"] = about["rtfx"] | {"revision": HOSTILE}
        records = [about, synthetic.run(decoder=HOSTILE, model=HOSTILE)]
        synthetic.write(tmp_path / "journals" / f"run{i}", records)
    assert rtfx("dashboard", tmp_path / "journals", "--output", tmp_path / "site").returncode == 0
    page = browser.new_page()
    page.goto((tmp_path / "site/index.html").as_uri())
    assert page.title() == "rtfx: figures by revision"
    assert page.locator("img").count() == 0
    assert HOSTILE in page.locator(".chart h3").first.text_content()


@pytest.mark.parametrize("width", [390, 1400])
def test_it_fits_the_screen_and_filters(site, browser, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((site / "index.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".chart").count() == 2 and page.locator("#more").is_hidden()
    page.select_option("[name=metric]", "rtfx.decode")
    assert page.locator(".chart h3").first.text_content().split("/")[2] == "label_looping"  # the changed one is first
    assert page.locator(".chart").first.locator(".split.worse").count() == 1
    assert "-9." in page.locator(".chart .change").first.text_content()
    page.check("[name=changed]")
    assert page.locator(".chart").count() == 1
    page.uncheck("[name=changed]")
    page.select_option("[name=decoder]", "frame_looping")
    assert page.locator(".chart").count() == 1 and page.locator(".dot").count() == 12
    page.locator(".dot").nth(4).hover()
    text = page.locator(".point").text_content()
    assert "suspect 1/3" in text and "020202" in text and "run04/journal.jsonl" in text
    again = browser.new_page()
    again.goto(page.url)  # the page's address holds the filters
    assert again.locator(".chart").count() == 1
    assert not errors


def test_every_metric_of_the_committed_journals_is_drawn(rtfx, tmp_path, browser):
    result = rtfx("dashboard", ROOT / "reports", "--output", tmp_path / "site")
    assert result.returncode == 0, result.stderr
    page = browser.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((tmp_path / "site/index.html").as_uri())
    page.select_option("[name=runs]", "1")
    metrics = [option.get_attribute("value") for option in page.locator("[name=metric] option").all()]
    assert {"rtfx.decode", "wer", "stream.total_ms.p99", "streams.sustained", "host_reads", "boosted.recall"} <= set(metrics)
    for metric in metrics:
        page.select_option("[name=metric]", metric)
        assert page.locator(".chart").count() > 0, metric
        labels = page.locator(".chart").first.locator("text[text-anchor=end]").all_text_contents()
        assert len(labels) == len(set(labels)), (metric, labels)
    page.select_option("[name=metric]", "rtfx.decode")
    page.click("#more")
    assert page.locator(".chart").count() == 80 and not errors


def test_a_packed_copy_is_no_second_run(rtfx, tmp_path):
    journal = journals(tmp_path / "journals", count=1) / "run00/journal.jsonl"
    journal.with_name("journal.jsonl.gz").write_bytes(gzip.compress(journal.read_bytes()))
    assert rtfx("dashboard", tmp_path / "journals", "--output", tmp_path / "site").returncode == 0
    data = data_of((tmp_path / "site/index.html").read_text())
    assert [run["journal"] for run in data["runs"]] == ["run00/journal.jsonl"]


def test_a_file_that_cannot_be_read_is_named_and_left_out(rtfx, tmp_path):
    journals(tmp_path / "journals", count=2)
    (tmp_path / "journals/torn.jsonl.gz").write_bytes(gzip.compress(b"{}\n")[:10] + b"\xff" * 20)
    result = rtfx("dashboard", tmp_path / "journals", "--output", tmp_path / "site")
    assert result.returncode == 0 and "torn.jsonl.gz" in result.stderr and "left out" in result.stderr
    assert len(data_of((tmp_path / "site/index.html").read_text())["runs"]) == 2


def test_a_journal_that_is_damaged_further_on_is_named_and_left_out(rtfx, tmp_path):
    journals(tmp_path / "journals", count=3)
    damaged = tmp_path / "journals/run01/journal.jsonl"
    damaged.write_text(damaged.read_text().replace('"kind": "run"', '"kind": "run', 1))
    result = rtfx("dashboard", tmp_path / "journals", "--output", tmp_path / "site")
    assert result.returncode == 0 and f"rtfx: notice: {damaged}:2: " in result.stderr and "left out" in result.stderr
    assert len(data_of((tmp_path / "site/index.html").read_text())["runs"]) == 2


def test_what_may_not_be_read_is_named_and_left_out(program):
    """A folder without read permission is named and left out. Root may read everything, so a test run by
    root starts rtfx as nobody."""
    nobody = (lambda: os.setuid(65534)) if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        closed, journal = Path(folder) / "journals/closed", Path(folder) / "journals/journal.jsonl"
        closed.mkdir(parents=True)
        journal.write_text(json.dumps(synthetic.provenance()) + "\n")
        for path in (closed, journal):
            path.chmod(0)
        command = [program, "dashboard", closed.parent, "--output", f"{folder}/site"]
        result = subprocess.run(command, capture_output=True, text=True, preexec_fn=nobody, cwd=folder)
        closed.chmod(0o700)
    assert result.returncode == 2 and "holds no journal" in result.stderr
    assert f"rtfx: notice: {closed}: Permission denied; check its permissions; left out\n" in result.stderr
    denied = "cannot be opened: Permission denied; check the path and its permissions"
    assert f"rtfx: notice: {journal}: {denied}; left out\n" in result.stderr


def test_errors(rtfx, tmp_path):
    synthetic.write(tmp_path / "begun", [synthetic.provenance()])
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        ([tmp_path / "gone"], "is no folder"),
        ([tmp_path / "empty"], "holds no journal"),
        ([tmp_path / "begun"], "begun: holds no result; give a folder"),
    ):
        result = rtfx("dashboard", *arguments, "--output", tmp_path / "site")
        assert result.returncode == 2 and message in result.stderr and result.stderr.count("\n") == 1
    assert not (tmp_path / "site").exists()


def test_change_points_are_rarely_false():
    """A series without a change has a false change with a probability of LEVEL. Of 400 series of 20 points, some with
    heavy tails, 4 are expected to have one. More than 12 have a probability of 0.0003."""
    found = 0
    for seed in range(400):
        generator = np.random.default_rng(seed)
        values = generator.normal(100, 1, 20) if seed % 2 else 100 + generator.standard_t(2, 20)
        found += bool(change_points.change_points(values, seed))
    assert found <= 12


def test_change_points_find_changes():
    """With ten runs on each side that differ by 1 %, every change of 5 % is found, and nine of ten at the exact run."""
    hits = exact = 0
    for seed in range(60):
        generator = np.random.default_rng(seed)
        values = np.r_[generator.normal(100, 1, 10), generator.normal(95, 1, 10), generator.normal(100, 1, 10)]
        indices = [change.index for change in change_points.change_points(values, seed)]
        hits += len(indices) >= 2
        exact += indices == [10, 20]
    assert hits == 60 and exact >= 50


def test_short_and_equal_series_have_none():
    assert change_points.change_points([]) == change_points.change_points([1, 2, 3, 90, 91]) == []
    assert change_points.change_points([5.0] * 30) == []
