"""The HTML page of a run: report.py RUN_DIR [-o FILE]. One file that needs nothing else."""

import argparse
import html
import json
from pathlib import Path

import exactness
import jinja2
import region_share
import rtfx_by_decoder
from journal import read_journal
from style import NARROW, WIDE, inline_svg

FIGURES = [
    ("rtfx", rtfx_by_decoder, "How fast?",
     "RTFx: seconds of audio per second of work, mean over the measured rounds; the thin line is "
     "one standard deviation each way. Total: from samples to text. Decode: the decoder alone."),
    ("regions", region_share, "Where does the time go?",
     "Mean share of each region in a pass over the whole set. Up to the encoder, the decoders of a "
     "round share one measurement."),
    ("grades", exactness, "Is it the same?",
     "Each utterance's result against the baseline's. Bitwise: the scores too. Exact: tokens, "
     "frames and durations. Tie: the first difference lies within the rounding of the logits. "
     "Text: other tokens, same words. Different: other words."),
]  # fmt: skip

VERDICT_CLASS = {
    "reference": "plain",
    "bitwise": "good",
    "exact": "good",
    "tie": "fair",
    "text": "fair",
    "wer": "poor",
    "different": "poor",
}


def figure_of(case, metric):
    mean, deviation = case.metric(metric)
    if mean is None:
        return None
    digits = 1 if mean < 100 else 0
    return f"{mean:,.{digits}f}", f"{deviation:,.{digits}f}"


def words_of(case):
    """WER and edit counts of the last round, and the WER of the best text of every n-best list;
    None where there is no reference or no output."""
    wer, oracle = (case.last.get(key) or {} for key in ("wer", "oracle_wer"))
    if case.failure or not case.has_words or wer.get("wer") is None:
        return None
    return {
        "percent": f"{100 * wer['wer']:.2f}",
        "oracle": f"{100 * oracle['wer']:.2f}" if oracle else None,
        "entries": oracle.get("entries"),
        **wer,
    }


def row_of(case, cv_max):
    mean, deviation = case.metric("rtfx.total")
    return {
        "case": case,
        "total": figure_of(case, "rtfx.total"),
        "decode": figure_of(case, "rtfx.decode") if case.has_words else None,
        "wer": words_of(case),
        "verdict": "failed" if case.failure else case.verdict,
        "style": "poor" if case.failure else VERDICT_CLASS.get(case.verdict, "plain"),
        "noisy": len(case.runs) > 1 and deviation > cv_max * mean,
    }


def differences(cases):
    for case in cases:
        difference = case.worst_run and case.worst_run["exactness"].get("first_difference")
        if difference:
            yield {"case": case.name, "verdict": case.verdict, **difference}


def exactness_sentence(cases):
    judged = [c for c in cases if c.verdict and not c.is_reference and not c.is_approximate]
    if not judged:
        return "No exact decoder was compared with a baseline."
    good = sum(case.verdict in ("bitwise", "exact") for case in judged)
    if good == len(judged):
        return f"All {good} cases of exact decoders equal their baseline on every utterance."
    return (
        f"{good} of {len(judged)} cases of exact decoders equal their baseline on every utterance."
    )


def speed_sentences(cases):
    """For each model, the decoder that gains most on its baseline under equal conditions."""
    best = {}
    for case in cases:
        baseline_id = case.worst_run and case.worst_run["exactness"]["baseline"]
        if case.is_reference or case.is_approximate or not baseline_id:
            continue
        twins = [
            c
            for c in cases
            if c.decoder == baseline_id
            and c.model == case.model
            and (c.dataset, c.batch, c.dtype) == (case.dataset, case.batch, case.dtype)
        ]
        ours, theirs = (c.metric("rtfx.decode")[0] for c in (case, twins[0])) if twins else (0, 0)
        if ours and theirs and ours / theirs > best.get(case.model, (0,))[0]:
            best[case.model] = (ours / theirs, case, baseline_id)
    for model, (ratio, case, baseline_id) in best.items():
        yield (
            f"{model}: {case.decoder} decodes {ratio:.2f} times as fast as {baseline_id} "
            f"(batch {case.batch}, {case.dtype})."
        )


def figures(cases):
    for name, module, title, caption in FIGURES:
        wide = module.draw(cases, WIDE)
        if wide is None:
            continue
        yield {
            "title": title,
            "caption": caption,
            "wide": inline_svg(wide, f"{name}-wide", html.escape(title)),
            "narrow": inline_svg(module.draw(cases, NARROW), f"{name}-narrow", html.escape(title)),
        }


def render(journal):
    cases = journal.cases
    provenance = journal.provenance
    cv_max = provenance.get("config", {}).get("protocol", {}).get("cv_max", 0.05)
    rows = [row_of(case, cv_max) for case in cases]
    sentences = [*speed_sentences(cases), exactness_sentence(cases)]
    noisy = sum(row["noisy"] for row in rows)
    if noisy:
        sentences.append(
            f"{noisy} of {len(rows)} cases vary by more than {100 * cv_max:g} % "
            "(sd of the total RTFx): NOISY in the table."
        )
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.ChainableUndefined,
    )
    return environment.get_template("report.html.j2").render(
        provenance=provenance,
        sentences=sentences,
        rows=rows,
        figures=list(figures(cases)),
        differences=list(differences(cases)),
        failures=[case for case in cases if case.failure],
        records=[json.dumps(p, indent=2, ensure_ascii=False) for p in journal.provenances],
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="folder of a run, or a journal")
    parser.add_argument("-o", "--output", type=Path, help="default: report.html beside the journal")
    arguments = parser.parse_args()
    journal = read_journal(arguments.run)
    if not journal.cases:
        raise SystemExit(f"{journal.path}: holds no finished or failed case yet")
    output = arguments.output or journal.path.with_name("report.html")
    output.write_text(render(journal), encoding="utf-8")
    print(f"report: {output}")


if __name__ == "__main__":
    main()
