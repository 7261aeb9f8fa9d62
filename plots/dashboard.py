"""Makes one page that shows how figures moved over many journals. `rtfx dashboard` runs it.

Standard input holds the results as the program read them (harness/report/dashboard.h). The page draws them in the
browser and computes no mean, interval or mark of its own.
"""

import json
import shutil
import sys
import urllib.parse
from pathlib import Path

import jinja2
from change_points import LEAST, LEVEL, change_points
from journal import journal_name
from script import OneLineParser, breakable, decimals_of, printable, printable_json, run_script, write_text

FILTERS = ("machine", "model", "dataset", "decoder", "batch", "dtype")


def short(value):
    """Rounds to six digits, which are more than any figure has."""
    return None if value is None else float(f"{value:.6g}")


def shows(page, journal):
    """Returns whether the page is there and not older than its journal, as harness/report/dashboard.cpp asks."""
    second = 1_000_000_000
    return page.is_file() and page.stat().st_mtime_ns + second >= journal.stat().st_mtime_ns


def page_of(journal, folder, output):
    """Returns the link from index.html to the run's page; None without a page. The journal's name is not escaped.

    A page beside the journal is copied there, unless it is older than the journal."""
    path = Path(journal)
    beside = folder / path.with_name("report.html" if journal_name(path) == "journal" else f"{journal_name(path)}.html")
    name = f"runs/{''.join(journal.removesuffix('.gz').rsplit('.jsonl', 1))}.html"  # a/journal.jsonl.1: a/journal.1.html
    page = output / name
    # journal.jsonl.1, which --force kept, has no page beside it.
    if path.suffix in (".jsonl", ".gz") and shows(beside, folder / path):
        page.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(beside, page)
    return urllib.parse.quote(name) if shows(page, folder / path) else None


def series_of(runs):
    """Returns the series: results of one case under the same conditions, in the order of time.

    A failure has no figure and lacks some of the conditions: failures_of() names it."""
    series = {}
    for number, run in enumerate(runs):
        for case in run["cases"]:
            if case["failure"]:
                continue
            key = json.dumps(case["conditions"], sort_keys=True)
            one = series.setdefault(
                key,
                {"case": case["case"], "conditions": case["conditions"], "machine": run["machine"],
                 **{name: case[name] for name in FILTERS if name != "machine"}, "points": []},
            )  # fmt: skip
            figures = {
                metric: [short(figure[part]) for part in ("estimate", "low", "high")]
                for metric, figure in case["figures"].items()
            }
            one["points"].append({"run": number, "figures": figures, "grade": case["grade"], "marks": case["marks"]})
    return list(series.values())


def run_text(run):
    return f"{run['started'][:10]} {run['revision'][:8]}"


def failures_of(runs, about):
    """Returns a row for each case whose newest result on a machine is a failure, the newest first."""
    newest = {(case["case"], run["machine"]): (case, of) for run, of in zip(runs, about) for case in run["cases"]}
    rows = [
        {"case": case["case"], "failure": case["failure"], "machine": of["machine"], "run": run_text(of), "page": of["page"]}
        for case, of in newest.values()
        if case["failure"]
    ]
    return sorted(rows, key=lambda row: row["run"][:10], reverse=True)


def flat(conditions):
    """Returns the conditions with each option of the decoder as a condition of its own."""
    options = conditions.get("options") or {}
    others = {key: value for key, value in conditions.items() if key not in ("device", "options")}
    return others | {f"options.{key}": value for key, value in options.items()}


def tell_apart(series):
    """Lists in "apart" the conditions, other than the machine, in which series of one name differ."""
    by_case = {}
    for one in series:
        one["conditions"] = flat(one["conditions"])
        by_case.setdefault(one["case"], []).append(one)
    for same in by_case.values():
        keys = sorted({key for one in same for key in one["conditions"]})
        differ = [key for key in keys if len({json.dumps(one["conditions"].get(key)) for one in same}) > 1]
        for one in same:
            conditions = one.pop("conditions")
            one["apart"] = [f"{key} {shown(conditions[key])}" for key in differ if key in conditions]


def shown(value):
    """Returns the beginning of a checksum, and any other value as it is."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text[:8] if len(text) == 64 else text


def add_changes(series):
    """Adds to each series {metric: [[index of the point, p, mean before, mean after]]}."""
    for one in series:
        one["changes"] = {}
        for metric in sorted({metric for point in one["points"] for metric in point["figures"]}):
            known = [i for i, point in enumerate(one["points"]) if metric in point["figures"]]
            values = [one["points"][i]["figures"][metric][0] for i in known]
            found = change_points(values) if len(known) >= 2 * LEAST else []
            if found:
                one["changes"][metric] = [[known[c.index], c.p, short(c.before), short(c.after)] for c in found]


OVERVIEW = ("rtfx.total", "rtfx.decode", "wer")
MOST_CHANGES, MOST_LATEST, MOST_FAILURES = 12, 15, 12  # rows; further ones are folded in or counted


def filters_of(one, metric="rtfx.total"):
    """Returns the settings of the form that show the series' chart."""
    return json.dumps({"metric": metric, "runs": "1", **{name: one[name] for name in FILTERS}})


def latest_changes(series, runs, metrics):
    """Returns the rows of the newest change of each series in the metrics of the overview, the newest first."""
    rows = []
    for one in series:
        for metric in OVERVIEW:
            if metric not in one["changes"]:
                continue
            index, _, before, after = one["changes"][metric][-1]
            run = runs[one["points"][index]["run"]]
            is_share = metrics[metric]["unit"] == ""
            change = f"{100 * (after - before):+.2f} points" if is_share else f"{100 * (after / before - 1):+.1f} %"
            gain = metrics[metric]["direction"] * (after - before)
            rows.append({"case": one["case"], "metric": metric, "change": change, "style": "better" if gain > 0 else "worse",
                         "since": run_text(run), "machine": one["machine"],
                         "filters": filters_of(one, metric)})  # fmt: skip
    return sorted(rows, key=lambda row: row["since"], reverse=True)


def latest_results(series, runs):
    """Returns a row for each decoder on each machine, with the newest run first.

    The row shows the fastest result of the decoder's newest run, whichever options that result has."""
    best = {}
    for one in series:
        points = [point for point in one["points"] if "rtfx.total" in point["figures"]]
        if not points:
            continue
        rank = (runs[points[-1]["run"]]["started"], points[-1]["figures"]["rtfx.total"][0])
        key = (one["decoder"].partition("[")[0], one["machine"])
        if key not in best or rank > best[key][0]:
            best[key] = (rank, one, points[-1])
    rows = []
    for _, (_, one, point) in sorted(best.items(), key=lambda item: item[0]):
        figures = {metric: values[0] for metric, values in point["figures"].items()}
        run = runs[point["run"]]
        doubts = [mark for mark in point["marks"] if "stand-in" not in mark]
        rows.append(
            {"decoder": one["decoder"], "model": one["model"], "machine": one["machine"], "batch": one["batch"],
             "dtype": one["dtype"], "total": figure(figures["rtfx.total"]), "decode": figure(figures.get("rtfx.decode")),
             "wer": figure(figures.get("wer"), 100), "grade": " ".join(filter(None, [point["grade"], *doubts])),
             "run": run_text(run), "page": run["page"], "filters": filters_of(one)}
        )  # fmt: skip
    return sorted(rows, key=lambda row: row["run"][:10], reverse=True)


def figure(value, scale=1):
    if value is None:
        return "–"
    value *= scale
    return f"{value:,.0f}" if value >= 100 else f"{value:.{max(2, decimals_of(value))}f}"


def for_script(value):
    """Returns JSON that cannot end a <script> element or open a comment in it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def render(facts, pages):
    """Returns the page. `pages` has the link to the page of each run."""
    runs = facts["runs"]
    series = series_of(runs)
    add_changes(series)
    tell_apart(series)
    about = [
        {key: run[key] for key in ("journal", "started", "revision", "dirty", "machine")}
        | {"page": page}
        for run, page in zip(runs, pages, strict=True)
    ]
    data = {"metrics": facts["metrics"], "marks": facts["mark_meanings"], "runs": about, "series": series}
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["breakable"] = breakable
    failures = failures_of(runs, about)
    latest = latest_results(series, about)
    changes = latest_changes(series, about, {metric["name"]: metric for metric in facts["metrics"]})
    return environment.get_template("dashboard.html.j2").render(
        filters=FILTERS,
        failures=failures[:MOST_FAILURES],
        more_failures=max(0, len(failures) - MOST_FAILURES),
        changed=changes[:MOST_CHANGES],
        more_changes=max(0, len(changes) - MOST_CHANGES),
        latest=latest[:MOST_LATEST],
        more_latest=latest[MOST_LATEST:],
        metrics=", ".join(OVERVIEW),
        journals=len({run["journal"] for run in runs}),
        runs=len(runs),
        series=len(series),
        first=runs[0]["started"][:10],
        last=runs[-1]["started"][:10],
        level=f"{100 * LEVEL:g} %",
        least=2 * LEAST,
        data=for_script(data),
    )


def main():
    parser = OneLineParser(description=__doc__.splitlines()[0])
    parser.add_argument("journals", type=Path, help="folder that the journals' names are within")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    facts = json.load(sys.stdin.buffer)
    pages = [page_of(run["journal"], arguments.journals, arguments.output) for run in facts["runs"]]
    write_text(arguments.output / "index.html", render(printable_json(facts), pages))
    print(f"dashboard: {printable(arguments.output / 'index.html')}")


if __name__ == "__main__":
    run_script(main)
