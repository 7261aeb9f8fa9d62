"""Makes the HTML page of a run, one file that needs nothing else. `rtfx report` runs it.

Standard input holds the facts that the program adds to the journal (harness/report/gate_report.h). These are the
words of both sides where they differ, changes since a baseline run, and the history of earlier runs.
"""

import html
import json
import sys
from itertools import groupby
from pathlib import Path

import batch_speed
import blank_penalty
import boost
import exactness
import gpu_idle
import gpu_timeline
import history
import jinja2
import region_share
import rtfx_by_decoder
import skip_blank
import trade_off
import wasted
from journal import STAND_IN_DATA, STAND_IN_MODEL, plain_or_gzip, read_journal, stand_in_sentences
from script import OneLineParser, breakable, counted, decimals_of, file_of, printable, printable_json, run_script, write_text
from style import NARROW, WIDE, inline_svg, note_stand_ins
from timeline import read_trace

METRICS = ["rtfx.total", "rtfx.decode", "wer"]


def about(provenance):
    """Yields names and values of the conditions that the results depend on."""
    device, cpu, build, config = (
        provenance.get(k, {}) for k in ("device", "cpu", "rtfx", "config")
    )
    protocol = config.get("protocol", {})
    cuda = f"runtime {provenance.get('cuda_runtime')}, driver {provenance.get('cuda_driver')}"
    changed = " with uncommitted changes" if build.get("dirty") else ""
    if device.get("type") == "cuda":
        yield "GPU", device.get("name")
        yield "CUDA", cuda
    yield "CPU", cpu_text(cpu)
    yield "System", provenance.get("host_os")
    yield "rtfx", f"{build.get('version')}, revision {build.get('revision')}{changed}"
    yield "Build", f"{build.get('build_type')}, {build.get('compiler')}"
    yield "LibTorch", provenance.get("libtorch")
    for model in provenance.get("models", []):
        what = f", stand-in model: {model['stand_in']}" if model.get("stand_in") else ""
        yield "Model", f"{model['id']}: {model['path']}, SHA-256 {model['sha256'][:12]}…{what}"
    for dataset in provenance.get("datasets", []):
        what = f", stand-in data: {dataset['stand_in']}" if dataset.get("stand_in") else ""
        yield "Data", f"{dataset['id']}: {dataset['path']}, SHA-256 {dataset['sha256'][:12]}…{what}"
    warm, measured = protocol.get("warmup_rounds"), protocol.get("measured_rounds")
    yield "Rounds", f"{warm} to warm up, {measured} measured"
    yield "Configuration", f"hash {provenance.get('config_hash', '')[:12]}"


def cpu_text(cpu):
    """Returns the product name with what tells CPUs of one name apart."""
    identity = {
        "family": cpu.get("family"),
        "model": cpu.get("model_number"),
        "stepping": cpu.get("stepping"),
        "hypervisor": cpu.get("hypervisor"),
    }
    known = ", ".join(f"{name} {value}" for name, value in identity.items() if value is not None)
    return f"{cpu.get('model')}{f' ({known})' if known else ''}, {counted(cpu.get('threads'), 'thread')}"


def change_of(metric, change):
    """Returns text, sign and style of a change with its interval; None where either run has no value."""
    if change is None:
        return None
    value, low, high = (change["change"][key] for key in ("estimate", "low", "high"))
    unit, neutral, show = (100, 0, "{:+.2f}") if metric == "wer" else (1, 1, "{:.3f}")
    if low is None or high is None:  # a single round, or a single utterance, has no interval
        sign, style, ends = "", "plain", ""
    else:
        known = low > neutral or high < neutral
        better = (value > neutral) == (metric != "wer")
        sign = ("▲ better" if better else "▼ worse") if known else "= no clear change"
        style = ("good" if better else "poor") if known else "plain"
        ends = f" [{show.format(unit * low)}, {show.format(unit * high)}]"
    return {"text": show.format(unit * value) + ends, "sign": sign, "style": style}


def baseline_of(facts):
    """Returns the comparison with an earlier run in the form that the page shows."""
    baseline = facts["baseline"]
    if not baseline:
        return None
    rows = [row | {m.split(".")[-1]: change_of(m, row[m]) for m in METRICS} for row in baseline["cases"]]
    changes = [
        {"key": c["key"], "from": text_of(c["from"]), "to": text_of(c["to"])}
        for c in baseline["changes"]
    ]
    return baseline | {"rows": rows, "changes": changes}


def text_of(value):
    if value is None:
        return "(absent)"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


CONTEXT = 4  # words kept on each side of a difference
LEAST_GAP = 3  # fewer words are shown rather than counted


def kind(baseline, here):
    """Returns the kind of edit, with the baseline's word as reference; None for equal words."""
    if baseline == here:
        return None
    if baseline is None:
        return "insertion"
    return "deletion" if here is None else "substitution"


def shown_words(pairs):
    """Returns [(kind, baseline's word, word here)]; ("gap", n, None) stands for n equal words."""
    pairs = [(kind(*pair), *pair) for pair in pairs]
    if not any(mark for mark, _, _ in pairs):
        return pairs
    edits = [i for i, (mark, _, _) in enumerate(pairs) if mark]
    kept = {j for i in edits for j in range(i - CONTEXT, i + CONTEXT + 1)}
    shown = []
    for is_kept, run in groupby(range(len(pairs)), key=kept.__contains__):
        run = [pairs[i] for i in run]
        shown += run if is_kept or len(run) < LEAST_GAP else [("gap", len(run), None)]
    return shown


def grouped(differences):
    """Joins the entries of "differences" that have equal texts; the joint entry lists all their cases."""
    groups = {}
    for entry in differences:
        model, dataset, *_ = entry["case"].split("/")
        content = {key: entry[key] for key in ("baseline", "texts", "first", "utterances")}
        key = (model, dataset, repr(content))
        group = groups.setdefault(key, {"model": model, "dataset": dataset, "cases": [], **content})
        group["cases"].append(("/".join(entry["case"].split("/")[2:]), entry["grade"]))
    for group in groups.values():
        pairs = [pair for utterance in group["utterances"] for pair in utterance["words"]]
        group["same_words"] = all(baseline == here for baseline, here in pairs)
        group["utterances"] = [
            utterance | {"words": shown_words(utterance["words"])}
            for utterance in group["utterances"]
        ]
    return list(groups.values())


FIGURES = [
    ("rtfx", "How fast?", rtfx_by_decoder.draw,
     "RTFx: seconds of audio per second of work, mean over the measured rounds; the line is "
     "one standard deviation each way. Total: from samples to text. Decode: the decoder alone."),
    ("trade", "What does accuracy cost?", trade_off.draw,
     "Word error rate against total RTFx: to the right is faster, lower is better. The line joins "
     "the decoders that no other one beats in both."),
    ("regions", "Where does the time go?", region_share.draw,
     "Mean share of each region in a pass over the whole set. Up to the encoder, the decoders of a "
     "round share one measurement."),
    ("batches", "Which batches are slow?", batch_speed.draw,
     "RTFx of each batch over the mean length of its utterances: median over rounds; the line is one "
     "standard deviation each way. Of many batches, those of neighbouring lengths are one point."),
    ("idle", "Where does the GPU wait?", None,
     "From a profile: the time of the decode region in which a kernel runs, by the profiler's clock "
     "for each kernel, against the time of the region in laps without it. The line is the 95 % interval "
     "over laps, longer to the left by what the profiler adds to each kernel. A profile without such "
     "laps gives the share of the time with the profiler on."),
    ("timeline", "What happens when?", None,
     "From a profile, one strip for each case: its regions above, and below the share of time in "
     "which a kernel runs, from none to all (the faint line), with the profiler on. One that was made "
     "with `--graph-trace graph` shows a CUDA graph as one kernel."),
    ("grades", "Is it the same?", exactness.draw,
     "Each utterance's result against the baseline's. Bitwise: the scores too. Exact: tokens, "
     "frames and durations. Rounding: other tokens, but every decision is the best one up to rounding. "
     "Text: other tokens, same words. Different: other words."),
    ("wasted", "What is computed in vain?", wasted.draw,
     "Rows of the joint and the prediction network for each one that an utterance needed. The others were "
     "computed because the batch is one tensor. Of decoders with the option count_rows."),
    ("boost", "How strongly may words be boosted?", boost.draw,
     "Over the scale of the boost, a line for each list of words. At 0 nothing is boosted. Words "
     "that are boosted too much stand where they were not said: false alarms, and insertions."),
    ("penalty", "Which blank penalty balances deletions and insertions?", blank_penalty.draw,
     "Over the blank penalty, a line for each search. A larger penalty makes blank less likely, so "
     "that fewer words are missing and more are inserted."),
    ("skipping", "How many frames may be skipped?", skip_blank.draw,
     "Over the threshold of p(blank) above which a frame is dropped before the search, a line for each "
     "search. At 1 no frame is dropped. The decode time includes the choice of the frames."),
    ("history", "Since when?", None,
     "Results of the same case under the same conditions (machine, LibTorch, model, data, options) "
     "by the time of their run: mean over rounds with its 95 % interval. + marks a revision with "
     "changes that were not committed."),
]  # fmt: skip

MOST_BARS = 40

GRADE_CLASS = {
    "baseline": "plain",
    "bitwise": "good",
    "exact": "good",
    "rounding": "fair",
    "text": "fair",
    "wer": "poor",
    "different": "poor",
}


def figure_of(case, metric):
    """Returns mean and deviation over rounds as text; a single round has no deviation. figure() of
    harness/results/table.cpp has the same digits, without separators of thousands."""
    mean, deviation = case.metric(metric)
    if mean is None:
        return None
    decimals = decimals_of(mean)
    return f"{mean:,.{decimals}f}", f"{deviation:,.{decimals}f}" if len(case.rounds) > 1 else None


def words_of(case):
    """Returns WER and edit counts of the last round, and the WER of the best text of every n-best list.

    It is None where there is no reference or no output. Empty references have insertions and no rate."""
    wer, oracle = (case.last.get(key) or {} for key in ("wer", "oracle_wer"))
    rate = wer.get("wer")
    if case.failure or not case.has_words or (rate is None and not wer.get("insertions")):
        return None
    return {
        "percent": "–" if rate is None else f"{100 * rate:.2f}",
        "oracle": f"{100 * oracle['wer']:.2f}" if oracle.get("wer") is not None else None,
        "entries": oracle.get("entries"),
        "characters": f"{100 * wer['cer']:.2f}" if shows_characters(wer) else None,
        **wer,
    }


def has_few_spaces(wer):
    """Says whether most of the references are in scripts without spaces, so that their characters are what counts;
    harness/results/table.cpp has the same rule."""
    return wer.get("cer") is not None and 2 * wer.get("unspaced_characters", 0) > wer["reference_characters"]


def shows_characters(wer):
    """Says whether the character error rate stands beside the WER; harness/results/table.cpp has the same rule."""
    return has_few_spaces(wer) or (wer.get("cer") is not None and wer.get("normalizer") == "unicode_words")


def boosted_of(case):
    """Returns counts of the boosted words in the last round, shares in percent; None without boosted words."""
    boosted = case.last.get("boosted")
    if case.failure or not boosted:
        return None
    shares = {key: boosted[key] for key in ("recall", "precision") if boosted[key] is not None}
    return boosted | {key: f"{100 * share:.2f}" for key, share in shares.items()}


def row_of(case):
    return {
        "case": case,
        "total": figure_of(case, "rtfx.total"),
        "decode": figure_of(case, "rtfx.decode"),
        "wer": words_of(case),
        "boosted": boosted_of(case),
        "grade": "failed" if case.failure else case.grade,
        "style": "poor" if case.failure else GRADE_CLASS.get(case.grade, "plain"),
    }


def exactness_sentence(cases):
    judged = [c for c in cases if c.grade and not c.is_baseline and not c.is_approximate]
    if not judged:
        return "No exact decoder was compared with a baseline."
    good = sum(case.grade in ("bitwise", "exact") for case in judged)
    if good == len(judged):
        return f"All {good} cases of exact decoders equal their baseline on every utterance."
    return (
        f"{good} of {len(judged)} cases of exact decoders equal their baseline on every utterance."
    )


def noise_sentences(cases, cv_max):
    """Returns (warnings, remarks) about NOISY cases; a warning where most cases are NOISY."""
    noisy = sum(case.noisy for case in cases)
    if not noisy:
        return [], []
    text = (
        f"{noisy} of {len(cases)} cases vary by more than {100 * cv_max:g} % (sd of the total "
        "RTFx): NOISY in the table."
    )
    if noisy * 2 <= len(cases):
        return [], [text]
    return [f"Most figures of this run are doubtful: {text} Measure again on a quiet machine."], []


def suspect_sentences(cases):
    suspect = sum(bool(run.get("suspect")) for case in cases for run in case.rounds)
    if suspect:
        rounds = sum(len(case.rounds) for case in cases)
        yield f"{suspect} of {rounds} rounds are suspect: the machine disturbed them."


def controls_of(cases, noise_floors):
    """Returns [(A/A control, the decoder that it repeats, "rtfx.total 1.2 %, ...")], the largest noise of all groups."""
    floors = {}
    for group in noise_floors.values():
        for metric, share in group.items():
            floors[metric] = max(share, floors.get(metric, 0))
    text = ", ".join(f"{100 * floors[metric]:.2g} % in {metric}" for metric in METRICS if metric in floors)
    controls = {c.decoder: c.last["decoder"]["control_of"] for c in cases if c.last["decoder"].get("control_of")}
    return [(control, original, text) for control, original in controls.items()]


COSTS = {
    "Batch, ms (p50)": "batch_ms.p50",
    "p95": "batch_ms.p95",
    "p99": "batch_ms.p99",
    "Slowest / best batch, %": batch_speed.slowest_share,
    "Memory kept, MiB": "memory.kept_mib",
    "at most": "memory.peak_mib",
    "J / h of audio": "energy.joules_per_hour",
    "Busy: load, %": "busy.load",
    "copy, %": "busy.copy",
    "encoder, %": "busy.encoder",
    "decode, %": "busy.decode",
    "texts, %": "busy.texts",
}


def cost(case, key):
    return key(case) if callable(key) else case.metric(key)[0]


def cost_of(case, head, key):
    mean = cost(case, key)
    return "–" if mean is None else f"{mean * (100 if head.endswith('%') else 1):,.1f}"


def costs_of(cases):
    """Returns heads and rows of (case, texts) for the figures that any case has."""
    heads = {head: key for head, key in COSTS.items() if any(cost(case, key) is not None for case in cases)}
    rows = [
        (case, [cost_of(case, head, key) for head, key in heads.items()])
        for case in cases
        if any(cost(case, key) is not None for key in heads.values())
    ]
    return list(heads), rows


def by_model(cases):
    """Returns [cases] where they are few; else a group for each model, so that each drawing fits on a page."""
    if len(cases) <= MOST_BARS:
        return [cases]
    models = dict.fromkeys(case.model for case in cases)
    return [[case for case in cases if case.model == model] for model in models]


def figure_sources(cases, profile, facts):
    """Returns {name of a figure: [draw(width), ...]} for the figures that the data allow."""
    sources = {
        name: [
            lambda width, draw=draw, part=part: draw(part, width)
            for part in ([cases] if draw is trade_off.draw else by_model(cases))
        ]
        for name, _, draw, _ in FIGURES
        if draw
    }
    if plain_or_gzip(profile / "profile.jsonl" if profile.is_dir() else profile).is_file():
        profiled = gpu_idle.read_profile(profile).cases
        sources["idle"] = [lambda width: gpu_idle.draw(profiled, width)]
    trace = plain_or_gzip((profile if profile.is_dir() else profile.parent) / "trace.json")
    if trace.is_file():
        laps = read_trace(trace)
        sources["timeline"] = [lambda width: gpu_timeline.draw(laps, width)]
    if facts["history"]:
        sources["history"] = [lambda width: history.draw(facts["history"], cases, width)]
    return sources


def drawings(name, title, draws, cases):
    """Yields (wide, narrow) of each part of a figure that shows anything, as <svg> elements."""
    for part, draw in enumerate(draws):
        figures = {"wide": draw(WIDE), "narrow": draw(NARROW)}
        if figures["wide"] is not None:
            for figure in figures.values():
                note_stand_ins(figure, cases)
            yield [
                inline_svg(figure, f"{name}{part}-{size}", html.escape(title))
                for size, figure in figures.items()
            ]


def figures(cases, profile, facts):
    sources = figure_sources(cases, profile, facts)
    for name, title, _, caption in FIGURES:
        parts = list(drawings(name, title, sources.get(name, []), cases))
        if parts:
            yield name, {"title": title, "caption": caption, "drawings": parts}


def render(journal, profile, facts):
    cases = journal.cases
    provenance = journal.provenance
    cv_max = provenance.get("config", {}).get("protocol", {}).get("cv_max", 0.05)
    rows = [row_of(case) for case in cases]
    warnings, remarks = noise_sentences(cases, cv_max)
    warnings = [*facts["wrong"], *warnings, *stand_in_sentences(cases)]
    sentences = [*facts["won"], exactness_sentence(cases), *journal.tuned, *remarks, *suspect_sentences(cases)]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.ChainableUndefined,
    )
    environment.filters["breakable"] = breakable
    environment.globals["counted"] = counted
    return environment.get_template("report.html.j2").render(
        provenance=provenance,
        warnings=warnings,
        sentences=sentences,
        conclusion=facts["won"],
        controls=controls_of(cases, facts["noise_floors"]),
        wrong=facts["wrong"],
        by_characters=any(row["wer"] and row["wer"]["characters"] for row in rows),
        few_spaces=any(row["wer"] and has_few_spaces(row["wer"]) for row in rows),
        rows=rows,
        mark_meanings=journal.mark_meanings,
        costs=costs_of(cases),
        cases_overlap=any(case.is_overlapped for case in cases),
        figures=dict(figures(cases, profile, facts)),
        boosted=[row for row in rows if row["boosted"]],
        differences=grouped(facts["differences"]),
        baseline=baseline_of(facts),
        history=facts["history"],
        about=list(about(provenance)) if provenance else [],
        stand_ins=[STAND_IN_MODEL, STAND_IN_DATA],  # in the heading of each group
        failures=[case for case in cases if case.failure],
        records=[json.dumps(p, indent=2, ensure_ascii=False) for p in journal.provenances],
    )


def main():
    parser = OneLineParser(description=__doc__.splitlines()[0])
    parser.add_argument("journal", type=Path)
    parser.add_argument("--profile", type=Path, help="profile.jsonl or its folder")
    parser.add_argument("-o", "--output", type=file_of("html", "htm"), required=True, help="file.html")
    arguments = parser.parse_args()
    journal = read_journal(arguments.journal)
    profile = arguments.profile or journal.path.parent
    if not plain_or_gzip(profile).exists():
        raise SystemExit(f"{printable(profile)}: no profile there")
    if arguments.profile and profile.is_dir() and not any(
        plain_or_gzip(profile / name).is_file() for name in ("profile.jsonl", "trace.json")
    ):
        raise SystemExit(f"{printable(profile)}: holds no profile.jsonl and no trace.json; give the folder of a profile")
    output = arguments.output
    write_text(output, render(journal, profile, printable_json(json.load(sys.stdin.buffer))))
    print(f"report: {printable(output)}")


if __name__ == "__main__":
    run_script(main)
