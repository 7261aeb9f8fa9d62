"""Tables 1 and 2 of the label-looping paper beside ours: paper_tables.py JOURNAL... -o FILE.md

The paper: Bataev, Xu, Galvez, Lavrukhin, Ginsburg, "Label-Looping: Highly Efficient Decoding for
Transducers" (SLT 2024). Cells are "total RTFx / decoding-only RTFx". Nothing is judged: weights,
data and GPU differ, and the head of the file says how.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from journal import read_journal

BATCHES = [1, 4, 16, 32]


@dataclass
class Table:
    title: str
    kind: str  # of the model
    baseline: str  # the decoder that is the paper's baseline
    columns: dict  # name -> per batch (baseline total, decode), (label-looping total, decode)


TABLES = [
    Table("Table 1: RNN-T", "rnnt", "frame_looping", {
        "RNNT-L": [((70.1, 105.6), (95.5, 179.0)), ((158.4, 200.1), (257.1, 385.4)),
                   ((313.7, 390.1), (584.5, 894.4)), ((383.8, 512.8), (751.2, 1403.6))],
        "RNNT-XXL": [((47.2, 98.8), (59.3, 174.3)), ((123.9, 191.3), (183.1, 380.0)),
                     ((218.0, 388.5), (321.6, 886.2)), ((248.4, 532.7), (352.2, 1393.4))],
    }),
    Table("Table 2: TDT", "tdt", "tdt_min_duration", {
        "TDT-L": [((116.0, 264.5), (116.5, 269.3)), ((243.4, 358.1), (347.7, 632.6)),
                  ((416.2, 563.9), (825.3, 1615.9)), ((477.2, 696.7), (1006.8, 2634.2))],
        "TDT-XXL": [((66.1, 241.3), (66.1, 251.7)), ((147.9, 258.8), (219.5, 584.5)),
                    ((243.7, 478.3), (374.8, 1467.9)), ((265.2, 616.3), (394.0, 2434.1))],
    }),
]  # fmt: skip

PAPER_SETTING = {
    "GPU": "one NVIDIA RTX A6000",
    "data": "LibriSpeech test-other",
    "weights": "L: 114 M parameters, XXL: 1.1 B (FastConformer, 8x sub-sampling, 1024 BPE)",
    "precision": "bf16",
    "software": "NeMo (Python)",
    "rounds": "2 warm-ups, mean of 3",
}


def our_setting(provenance):
    config = provenance["config"]
    device = provenance["device"]
    models = [
        f"{m['id']} ({m['kind']}, {m['parameters'] / 1e6:.1f} M parameters)"
        for m in provenance["models"]
    ]
    datasets = [
        f"{d['id']} ({d['utterances']} utterances, {d['audio_seconds']:.1f} s)"
        for d in provenance["datasets"]
    ]
    build = provenance["rtfx"]
    revision = f"{build['revision'][:12]}{' with changes' if build['dirty'] else ''}"
    cuda = f", CUDA {provenance['cuda_runtime']}" if provenance.get("cuda_runtime") else ""
    protocol = config["protocol"]
    libraries = f"LibTorch {provenance['libtorch']}{cuda}"
    return {
        "GPU": device["name"] if device["type"] == "cuda" else f"none: {device['name']} (CPU)",
        "data": ", ".join(datasets),
        "weights": ", ".join(models),
        "precision": ", ".join(config["dtypes"]),
        "software": f"rtfx {build['version']} ({revision}), {libraries}",
        "rounds": f"{protocol['warmup_rounds']} warm-ups, mean of {protocol['measured_rounds']}",
    }


def setting_lines(journal):
    ours = our_setting(journal.provenance)
    yield "| | ours | paper |"
    yield "|---|---|---|"
    for key, theirs in PAPER_SETTING.items():
        yield f"| {key} | {ours[key]} | {theirs} |"


def cell(pair):
    return "–" if None in pair else f"{pair[0]:.1f} / {pair[1]:.1f}"


def ratio(baseline, arm):
    if None in baseline or None in arm:
        return "–"
    return f"{arm[0] / baseline[0]:.1f} / {arm[1] / baseline[1]:.1f}"


def measured(cases, decoder, batch):
    for case in cases:
        if case.decoder == decoder and case.batch == str(batch):
            return case.metric("rtfx.total")[0], case.metric("rtfx.decode")[0]
    return None, None


def verdict(cases, decoder, batch):
    found = [c.verdict for c in cases if c.decoder == decoder and c.batch == str(batch)]
    return (found and found[0]) or "–"


def table_lines(table, title, cases):
    yield f"### {title}"
    yield ""
    heads = [f"{name}: baseline | label-looping | speed-up" for name in table.columns]
    yield (
        f"| batch | ours: {table.baseline} | label_looping | speed-up | verdict | "
        f"{' | '.join(heads)} |"
    )
    yield "|" + "---|" * (5 + 3 * len(heads))
    for row, batch in enumerate(BATCHES):
        baseline = measured(cases, table.baseline, batch)
        arm = measured(cases, "label_looping", batch)
        cells = [
            str(batch),
            cell(baseline),
            cell(arm),
            ratio(baseline, arm),
            verdict(cases, "label_looping", batch),
        ]
        for figures in table.columns.values():
            cells += [cell(figures[row][0]), cell(figures[row][1]), ratio(*figures[row])]
        yield f"| {' | '.join(cells)} |"
    yield ""


def render(journals):
    yield "# The label-looping paper's Tables 1 and 2 beside ours"
    yield ""
    yield (
        "Cells: total RTFx / decoding-only RTFx; speed-up: label-looping over the baseline of the "
        "same columns. The paper's speed-ups are computed from its figures. The paper's TDT "
        "baseline advances the batch by its smallest duration and is not exact. Verdict: our "
        "label_looping against our exact frame_looping."
    )
    yield ""
    for journal in journals:
        if not journal.provenance:
            raise SystemExit(f"{journal.path}: no provenance record")
        yield f"## {journal.provenance['name']} (`{journal.path.as_posix()}`)"
        yield ""
        yield from setting_lines(journal)
        yield ""
        for table in TABLES:
            groups = {}
            for case in journal.cases:
                if case.runs and case.last["model"]["kind"] == table.kind:
                    key = (case.model, case.dataset, case.dtype)
                    groups.setdefault(key, []).append(case)
            for key, cases in groups.items():
                yield from table_lines(table, f"{table.title}: {', '.join(key)}", cases)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("journals", nargs="+", help="journals, or folders of runs")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    lines = render([read_journal(path) for path in arguments.journals])
    arguments.output.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    print(f"{arguments.output}: written")


if __name__ == "__main__":
    main()
