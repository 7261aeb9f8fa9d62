"""Writes the tables of the journals in reports/h200/rivals: rival_reports.py [FOLDER [PAGE...]]

Each journal has a table NAME.md beside it. A page holds tables that compare pairs of decoders, between
`<!-- rivals:JOURNAL -->` and `<!-- /rivals -->`. `<!-- rivals:JOURNAL ours=ID,... -->` selects the pairs with these
decoders. `<!-- headline:JOURNAL -->` and `<!-- /headline -->` hold README's small table. Missing journals are left out.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "plots"))

from intervals import paired_ratio  # noqa: E402
from script import markdown  # noqa: E402
from journal import journal_name, plain_or_gzip, read_journal  # noqa: E402
from rival_table import core, is_rival, rows_of, seconds, span  # noqa: E402

GREEDY = [
    ("fused kernels : label-looping, one CUDA graph", "fused_persistent", "nemo_label_looping_graphs"),
    ("fused kernels : frame-looping, a CUDA graph for each frame", "fused_persistent", "nemo_frame_looping_graphs"),
    ("label-looping, both one CUDA graph", "label_looping_graph", "nemo_label_looping_graphs"),
    ("label-looping, both launched one by one", "label_looping", "nemo_label_looping"),
    ("frame-looping, both launched one by one", "frame_looping", "nemo_frame_looping"),
    ("CTC greedy", "ctc_greedy", "nemo_ctc_greedy"),
]
BEAM = [
    ("greedy, fused kernels : label-looping, one CUDA graph", "fused_persistent", "nemo_label_looping_graphs"),
    *((f"ALSD++, beam {n}, fused kernels : one CUDA graph", f"alsd_pp{n}_fused", f"nemo_malsd_batch{n}_graphs") for n in (4, 8)),
    ("ALSD++, beam 4, both one CUDA graph", "alsd_pp4_graph", "nemo_malsd_batch4_graphs"),
    *((f"AES++, beam {n}, fused kernels : launched one by one", f"aes_pp{n}_fused", f"nemo_maes_batch{n}") for n in (4, 8)),
    ("AES++, beam 4, both launched one by one", "aes_pp4", "nemo_maes_batch4"),
    ("CTC beam 8, fused kernels : one CUDA graph", "ctc_beam8_fused", "nemo_ctc_beam8_graphs"),
    ("CTC beam 8, both one CUDA graph", "ctc_beam8_graph", "nemo_ctc_beam8_graphs"),
]
LM = [
    ("n-gram model, label-looping, both one CUDA graph", "label_looping_graph_lm", "nemo_label_looping_graphs_lm"),
    ("n-gram model, ALSD++, beam 4, fused kernels : one CUDA graph", "alsd_pp4_fused_lm", "nemo_malsd_batch4_graphs_lm"),
    ("n-gram model, AES++, beam 4, fused kernels : launched one by one", "aes_pp4_fused_lm", "nemo_maes_batch4_lm"),
    ("n-gram model, CTC beam 8, fused kernels : one CUDA graph", "ctc_beam8_fused_lm", "nemo_ctc_beam8_graphs_lm"),
]
RIVA = [(f"beam {n}: `ctc_wfst` : riva, best path made complete", f"ctc_wfst{n}", f"riva_online_end{n}") for n in (17, 10)]
WFST = [
    *((f"beam {n}: `ctc_wfst_cpu` : kaldi-decoder", f"ctc_wfst_cpu{n}", f"kaldi{n}") for n in (17, 10)),
    ("`ctc_lexicon_cpu` : flashlight-text, beam 500", "ctc_lexicon_cpu", "flashlight500"),
]  # fmt: skip
JOURNALS = {
    "nemo3_greedy": ("Greedy searches beside NeMo's", GREEDY),
    "nemo3_beam": ("Batched beam searches and the fastest greedy ones beside NeMo's", BEAM),
    "nemo3_lm": ("With an n-gram model of tokens, beside NeMo's", LM),
    "riva_online": ("CTC over a graph with a word 3-gram beside riva-asrlib-decoder's best path", RIVA),
    "wfst_rivals": ("CTC over a graph or a lexicon with a word 3-gram, beside kaldi-decoder and flashlight-text", WFST),
}  # fmt: skip
CAPTION = """{title}. The table shows how many times as fast rtfx is. Both sides searched the same frames in one run. The first
factor compares whole calls, from encoder frames to hypotheses on the host. The factor in round brackets leaves out the making of
Python objects, where its time is known. Square brackets hold the 95 % interval over {rounds} rounds. A colon separates our
search from the rival's. {audio}. {device}, {versions}, rtfx {revision}, {date}."""


def whole_calls(ours, theirs, batch):
    """Returns the ratio of whole calls, and its interval where each side has the same number of rounds."""
    ratio = f"{seconds(theirs)[batch] / seconds(ours)[batch]:.3g}x"
    sides = ours.rounds[batch], theirs.rounds[batch]
    interval = paired_ratio(*sides) if len(sides[0]) == len(sides[1]) else None
    return ratio, f" [{interval[0]:.3g}, {interval[1]:.3g}]" if interval else ""


def marks(ours, theirs, batch):
    shown = [m for row in (ours, theirs) for m in row.marks[batch] if m in ("NOISY", "NONDETERMINISTIC") or m.startswith("suspect")]
    return list(dict.fromkeys(shown))


def cell(ours, theirs, batch):
    """Returns the ratio of whole calls with its interval, that of the algorithms alone where known, and warning marks."""
    if batch not in ours.seconds or batch not in theirs.seconds:
        return "–"
    text = "".join(whole_calls(ours, theirs, batch))
    if batch in core(theirs):
        text += f" ({core(theirs)[batch] / core(ours)[batch]:.3g}x)"
    return ", ".join([text, *marks(ours, theirs, batch)])


def brief(journal, title, pairs):
    """Yields a table in which each row is a pair of decoders."""
    tables = rows_of([journal], lambda case: True, rtfx=True)
    rows = [row for model_rows in tables.values() for row in model_rows.values()]
    audio = {batch: round(seconds) for row in rows for batch, seconds in row.audio.items()}
    batches = sorted(audio)
    about = journal.provenance
    versions = {f"{name} {version}" for case in journal.cases if is_rival(case)
                for name, version in case.last["decoder"]["options"]["versions"].items()
                if name not in ("python", "torch", "graph_mode")}  # fmt: skip
    sets = {s: [str(b) for b in batches if audio[b] == s] for s in audio.values()}
    yield CAPTION.format(
        title=title,
        rounds=about["config"]["protocol"]["measured_rounds"],
        audio="; ".join(f"Batch {', '.join(held)}: {s} s of audio" for s, held in sets.items()),
        device=markdown(about["device"]["name"]),
        versions=", ".join(sorted(versions)),
        revision=about["rtfx"]["revision"][:12],
        date=about["started"][:10],
    )
    yield ""
    yield f"| | {' | '.join(f'batch {batch}' for batch in batches)} | WER %, ours : theirs |"
    yield "|---|" + "--:|" * (len(batches) + 1)
    for (model, dtype, _), model_rows in tables.items():
        by_id = {row.id or row.name: row for row in model_rows.values()}
        for label, ours, theirs in pairs:
            if ours in by_id and theirs in by_id:
                cells = [cell(by_id[ours], by_id[theirs], batch) for batch in batches]
                words = f"{span(by_id[ours].wers)} : {span(by_id[theirs].wers)}"
                yield f"| {markdown(model)}, {markdown(dtype)}: {label} | {' | '.join(cells)} | {words} |"


def audio_of(row):
    """Returns a sentence with the seconds of audio at the batch sizes of the headline."""
    sizes = {}
    for batch in HEADLINE_BATCHES:
        sizes.setdefault(round(row.audio[batch]), []).append(str(batch))
    parts = [f"{seconds} s at batch {' and '.join(batches)}" for seconds, batches in sizes.items()]
    return f"The audio lasts {', and '.join(parts)}."


HEADLINE = [
    ("greedy search", "fused_persistent", "nemo_label_looping_graphs"),
    ("beam search, beam 4", "alsd_pp4_fused", "nemo_malsd_batch4_graphs"),
]
HEADLINE_MODEL, HEADLINE_BATCHES = "standin-rnnt", (1, 32, 128)


def headline(journal):
    """Yields README's table: one row for greedy and one for beam search, whole calls alone."""
    tables = rows_of([journal], lambda case: case.model == HEADLINE_MODEL, rtfx=True)
    ((_, dtype, _), model_rows), = tables.items()
    by_id = {row.id or row.name: row for row in model_rows.values()}
    yield f"| | {' | '.join(f'batch {batch}' for batch in HEADLINE_BATCHES)} |"
    yield "|---|" + "--:|" * len(HEADLINE_BATCHES)
    for label, ours, theirs in HEADLINE:
        cells = []
        for batch in HEADLINE_BATCHES:
            pair = by_id[ours], by_id[theirs], batch
            ratio, interval = whole_calls(*pair)
            cells.append(" ".join([f"**{ratio}**{interval}", *marks(*pair)]))
        yield f"| {label} | {' | '.join(cells)} |"
    about = journal.provenance
    yield ""
    yield (
        f"Whole calls, from encoder frames to hypotheses, of {HEADLINE_MODEL} (21 million parameters, 1,024 tokens) in {dtype} "
        f"on one\n{markdown(about['device']['name'])}, against NeMo's fastest search of each kind, {about['started'][:10]}. "
        f"{audio_of(by_id['fused_persistent'])}\nSquare brackets: 95 % interval over "
        f"{about['config']['protocol']['measured_rounds']} rounds. NOISY: rounds differ by more than 5 %."
    )


def full(path):
    """Returns the tables of transducer and CTC decoders that plots/rival_table.py makes."""
    texts = []
    for head in ("transducer", "ctc"):
        command = [sys.executable, ROOT / "plots/rival_table.py", path, "--rtfx", "--head", head, "--name", "rival"]
        made = subprocess.run(command, capture_output=True, text=True)
        if "nothing to compare" not in made.stderr:
            made.check_returncode()
            texts.append(made.stdout)
    return "\n".join(texts)


def verdict(record):
    """Returns how many utterances have our tokens and frames, how many differ by rounding alone, and the first that
    differs."""
    found, first = record["exactness"], record["exactness"].get("first_difference")
    grades = found["grades"]
    text = f"{grades['bitwise'] + grades['exact']} of {sum(grades.values())}"
    if grades["rounding"]:
        text += f", {grades['rounding']} by rounding"
    return text + (f"; {markdown(first['utterance'])} at {first['seconds']:.2f} s" if first else "")


def verdicts(journal):
    """Returns a table that compares the results of the rival's searches with ours, for each model."""
    rows = {}
    for case in journal.cases:
        if case.rounds and is_rival(case) and case.rounds[0].get("exactness", {}).get("baseline"):
            record = case.rounds[0]
            key = (record["model"]["id"], record["dtype"], record["decoder"]["id"], record["exactness"]["baseline"])
            rows.setdefault(key, {})[int(record["batch"]["size"])] = verdict(record)
    if not rows:
        return ""
    batches = sorted({batch for cells in rows.values() for batch in cells})
    lines = [
        "## Do both return the same?",
        "",
        "Each cell counts the utterances with equal tokens and frames. It also names the first utterance that differs.",
        "The grade compares with the decoder that stands behind the colon.",
        "",
        f"| theirs : ours | {' | '.join(f'batch {batch}' for batch in batches)} |",
        "|---|" + "---|" * len(batches),
    ]
    for (model, dtype, theirs, ours), cells in rows.items():
        label = f"{markdown(model)}, {markdown(dtype)}: {markdown(theirs)} : {markdown(ours)}"
        lines.append(f"| {label} | {' | '.join(cells.get(batch, '–') for batch in batches)} |")
    return "\n".join(["", *lines, ""])


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "reports/h200/rivals"
    pages = [Path(page) for page in sys.argv[2:]] or [ROOT / page for page in ("README.md", "reports/notes/rivals.md", "reports/README.md")]
    for name, (title, pairs) in JOURNALS.items():
        path = plain_or_gzip(folder / f"{name}.jsonl")
        if not path.exists():
            continue
        journal = read_journal(path)
        path.with_name(f"{journal_name(path)}.md").write_text(full(path) + verdicts(journal), encoding="utf-8")
        block = re.compile(rf"(<!-- rivals:{name}(?: ours=([\w,]+))? -->).*?(<!-- /rivals -->)", re.DOTALL)

        def filled(found):
            wanted = [pair for pair in pairs if found[2] is None or pair[1] in found[2].split(",")]
            return "\n".join([found[1], *brief(journal, title, wanted), found[3]])

        small = re.compile(rf"(<!-- headline:{name} -->).*?(<!-- /headline -->)", re.DOTALL)
        for page in pages:
            text = block.sub(filled, page.read_text(encoding="utf-8"))
            text = small.sub(lambda found: "\n".join([found[1], *headline(journal), found[2]]), text)
            page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
