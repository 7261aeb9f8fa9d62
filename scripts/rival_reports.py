"""Writes the tables of the journals in reports (FOLDERS): rival_reports.py [FOLDER [PAGE...]]

Each journal of FOLDER that compares with a rival has a table NAME.md beside it. A page holds tables that compare pairs of
decoders, between `<!-- rivals:JOURNAL -->` and `<!-- /rivals -->`. `<!-- rivals:JOURNAL ours=ID,... -->` selects the pairs
with these decoders. `<!-- searches:JOURNAL -->` holds speeds and ratios of one model, and `<!-- beams -->` speeds of several
journals. `<!-- headline:JOURNAL -->` and `<!-- /headline -->` hold README's small table. `<!-- alignment -->` compares
forced_align.jsonl with alignment.json. Tables of missing journals stay as they are.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "plots"))

from intervals import half_interval, ratio_of_rounds  # noqa: E402
from script import markdown  # noqa: E402
from journal import DOUBTFUL_MARKS, journal_name, plain_or_gzip, read_journal, read_records  # noqa: E402
from rival_table import FAILED, core, is_rival, rows_of, seconds  # noqa: E402

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
]
CTC = [
    ("CTC greedy", "ctc_greedy", "nemo_ctc_greedy"),
    ("CTC beam 8, fused kernels : one CUDA graph", "ctc_beam8_fused", "nemo_ctc_beam8_graphs"),
    ("CTC beam 8, both one CUDA graph", "ctc_beam8_graph", "nemo_ctc_beam8_graphs"),
    ("n-gram model, CTC beam 8, fused kernels : one CUDA graph", "ctc_beam8_fused_lm", "nemo_ctc_beam8_graphs_lm"),
]
LM = [
    ("n-gram model, label-looping, both one CUDA graph", "label_looping_graph_lm", "nemo_label_looping_graphs_lm"),
    ("n-gram model, ALSD++, beam 4, fused kernels : one CUDA graph", "alsd_pp4_fused_lm", "nemo_malsd_batch4_graphs_lm"),
    ("n-gram model, AES++, beam 4, fused kernels : launched one by one", "aes_pp4_fused_lm", "nemo_maes_batch4_lm"),
]
RIVA = [(f"beam {n}: `ctc_wfst` : riva, best path made complete", f"ctc_wfst{n}", f"riva_online_end{n}") for n in (17, 10)]
WFST = [
    *((f"beam {n}: `ctc_wfst_cpu` : kaldi-decoder", f"ctc_wfst_cpu{n}", f"kaldi{n}") for n in (17, 10)),
    ("`ctc_lexicon_cpu` : flashlight-text, beam 500", "ctc_lexicon_cpu", "flashlight500"),
]  # fmt: skip
RIVA_LISTS = ("beam 17, lists of 10: `ctc_wfst` : riva's lattices", "ctc_wfst17_nbest10", "riva_nbest17")
TORCHAUDIO = [
    ("CTC beam 8: `ctc_beam`, fused kernels : `CUCTCDecoder`", "ctc_beam8", "torchaudio_ctc8"),
    ("the same, without frames whose blank is above 0.95", "ctc_beam8_skip95", "torchaudio_ctc8_skip95"),
]
FOLDERS = ("h100/rivals", "h100/searches", "h200/rivals")
JOURNALS = {
    "nemo": ("Greedy searches beside NeMo's", GREEDY),
    "nemo_tdt": ("Greedy searches of TDT beside NeMo's, at larger batches", GREEDY),
    "nemo_beam": ("Batched beam searches and the fastest greedy ones beside NeMo's", BEAM),
    "nemo_ctc": ("CTC searches beside NeMo's", CTC),
    "nemo_lm": ("With an n-gram model of tokens, beside NeMo's", LM),
    "wfst": ("CTC over a graph with a word 3-gram on the GPU, beside riva-asrlib-decoder", [*RIVA, RIVA_LISTS]),
    "wfst_cpu": ("CTC over a graph or a lexicon with a word 3-gram on the CPU, beside kaldi-decoder and flashlight-text", WFST),
    "torchaudio": ("CTC beam search without a language model, beside torchaudio's", TORCHAUDIO),
}  # fmt: skip
CAPTION = """{title}. The table shows how many times as fast rtfx is. Both sides searched the same frames in one run. The
factor compares whole calls, from encoder frames to hypotheses on the host.{algorithms} Square brackets hold the 95 % interval over {rounds} rounds. A colon separates our
search from the rival's. WER is that of the largest batch that both sides have. {audio}. {made}, rtfx {revision}, {date}."""
ALGORITHMS = """ The factor in round brackets leaves out
the making of NeMo's Python objects and rtfx's copies to the host, where both are known."""


def whole_calls(ours, theirs, batch):
    """Returns the ratio of the times of whole calls, and its interval where the rounds show one."""
    ratio = f"{seconds(theirs)[batch] / seconds(ours)[batch]:.3g}x"
    interval = ratio_of_rounds(ours.rounds[batch], theirs.rounds[batch])
    return ratio, f" [{interval[0]:.3g}, {interval[1]:.3g}]" if interval else ""


def warnings(batch, *rows):
    """Returns the marks of these rows that make a time doubtful, each once."""
    shown = [mark for row in rows for mark in row.marks[batch] if mark.startswith(DOUBTFUL_MARKS)]
    return list(dict.fromkeys(shown))


def cell(ours, theirs, batch):
    """Returns the ratio of whole calls with its interval, that of the algorithms alone where known, and warning marks."""
    if batch not in ours.seconds or batch not in theirs.seconds:
        return FAILED if any(FAILED in row.marks.get(batch, []) for row in (ours, theirs)) else "–"
    text = "".join(whole_calls(ours, theirs, batch))
    if batch in core(theirs):
        text += f" ({core(theirs)[batch] / core(ours)[batch]:.3g}x)"
    return ", ".join([text, *warnings(batch, ours, theirs)])


def word_errors(ours, theirs, largest):
    """Returns both word error rates at the largest batch size that both sides have. The text names this size where it
    is smaller than `largest`."""
    batch = max(ours.wers.keys() & theirs.wers.keys(), default=largest)
    rates = [f"{side.wers[batch]:.2f}" if batch in side.wers else "–" for side in (ours, theirs)]
    return " : ".join(rates) + ("" if batch == largest else f" (batch {batch})")


def rival_versions(journal):
    versions = {f"{name} {version}" for case in journal.cases if is_rival(case) and case.rounds
                for name, version in case.last["decoder"]["options"]["versions"].items()
                if name not in ("python", "torch", "graph_mode")}  # fmt: skip
    return ", ".join(sorted(versions))


def brief(journal, title, pairs):
    """Yields a table in which each row is a pair of decoders."""
    tables = rows_of([journal], lambda case: True, rtfx=True)
    rows = [row for model_rows in tables.values() for row in model_rows.values()]
    audio = {batch: round(seconds) for row in rows for batch, seconds in row.audio.items()}
    batches = sorted(audio)
    about = journal.provenance
    sets = {s: [str(b) for b in batches if audio[b] == s] for s in audio.values()}
    spoken = "".join(f", {made}" for made in dict.fromkeys(data["stand_in"] for data in about["datasets"]) if made)
    lines = []
    for (model, dtype, _), model_rows in tables.items():
        by_id = {row.id or row.name: row for row in model_rows.values()}
        for label, ours, theirs in pairs:
            if ours in by_id and theirs in by_id:
                cells = [cell(by_id[ours], by_id[theirs], batch) for batch in batches]
                words = word_errors(by_id[ours], by_id[theirs], batches[-1])
                lines.append(f"| {markdown(model)}, {markdown(dtype)}: {label} | {' | '.join(cells)} | {words} |")
    yield CAPTION.format(
        title=title,
        algorithms=ALGORITHMS if any(re.search(r"\([\d.]+x\)", line) for line in lines) else "",
        rounds=about["config"]["protocol"]["measured_rounds"],
        audio="; ".join(f"Batch {', '.join(held)}: {s} s of audio" for s, held in sets.items()) + spoken,
        made=", ".join(filter(None, [markdown(about["device"]["name"]), rival_versions(journal)])),
        revision=about["rtfx"]["revision"][:12],
        date=about["started"][:10],
    )
    yield ""
    yield f"| | {' | '.join(f'batch {batch}' for batch in batches)} | WER %, ours : theirs, batch {batches[-1]} |"
    yield "|---|" + "--:|" * (len(batches) + 1)
    yield from lines


def rows_of_one_model(journal):
    """Returns the only model of a journal, its type, and its rows by the ids of the decoders."""
    tables = rows_of([journal], lambda case: True, rtfx=True)
    ((model, dtype, _), rows), = tables.items()
    return model, dtype, {row.id or row.name: row for row in rows.values()}


def audio_of(decoder, journal):
    """Returns a sentence with the audio that the decoder reads at the batch sizes of the headline."""
    runs = {case.last["batch"]["size"]: case.last["dataset"] for case in journal.cases if case.decoder == decoder}
    batches = {}
    for batch in HEADLINE_BATCHES:
        batches.setdefault((runs[batch]["utterances"], round(runs[batch]["audio_seconds"])), []).append(str(batch))
    parts = [f"the first {n:,} utterances ({s:,} s) at batch {' and '.join(held)}" for (n, s), held in batches.items()]
    (audio,) = {data["stand_in"] for data in journal.provenance["datasets"]}
    return f"The audio is {audio}: {', and '.join(parts)}."


HEADLINE = [
    ("greedy search", "fused_looping", "nemo_greedy"),
    ("beam search, beam 4", "alsd_pp4", "nemo_malsd4"),
]
HEADLINE_JOURNAL, HEADLINE_BATCHES, HEADLINE_WER = "searches_rnnt", (1, 32, 128), 32


def headline(journal):
    """Yields README's table: one row for greedy and one for beam search of a journal's only model, whole calls alone."""
    model, dtype, by_id = rows_of_one_model(journal)
    yield f"| | {' | '.join(f'batch {batch}' for batch in HEADLINE_BATCHES)} | WER %, rtfx : NeMo, batch {HEADLINE_WER} |"
    yield "|---|" + "--:|" * (len(HEADLINE_BATCHES) + 1)
    for label, ours, theirs in HEADLINE:
        cells = []
        for batch in HEADLINE_BATCHES:
            pair = by_id[ours], by_id[theirs], batch
            ratio, interval = whole_calls(*pair)
            cells.append(" ".join([f"**{ratio}**{interval}", *warnings(batch, *pair[:2])]))
        words = " : ".join(f"{by_id[decoder].wers[HEADLINE_WER]:.2f}" for decoder in (ours, theirs))
        yield f"| {label} | {' | '.join(cells)} | {words} |"
    about = journal.provenance
    millions = about["models"][0]["parameters"] / 1e6
    yield ""
    yield (
        f"The table compares whole calls, from encoder frames to hypotheses, in {dtype} on one {markdown(about['device']['name'])}, "
        f"{about['started'][:10]}.\nThe model is the small one itself, {markdown(model)}, with {millions:.0f} million parameters and a vocabulary of 1,024 tokens. "
        f"rtfx's searches are `fused_looping`, and `alsd_pp` with `\"kernels\": \"fused\"` and `\"loop\": \"graph\"`. "
        f"NeMo's are its label-looping and `malsd_batch` in one CUDA graph.\n{audio_of(HEADLINE[0][1], journal)}\n"
        f"Square brackets hold the 95 % interval over {about['config']['protocol']['measured_rounds']} rounds."
    )


LM2, LM1 = "language model of weight 0.2", "language model of weight 0.1"
SEARCHES = [
    ("`fused_looping`", "fused_looping"),
    ("`fused_looping`, `blank_penalty` 1", "fused_penalty1"),
    (f"`fused_looping`, {LM2}", "fused_lm"),
    ("`fused_looping`, `skip_blank` 0.9", "fused_skip90"),
    ("`label_looping`, one graph", "label_looping_graph"),
    ("NeMo's greedy search, graphs", "nemo_greedy"),
    (f"NeMo's greedy search, graphs, {LM2}", "nemo_greedy_lm"),
    ("`modified_beam_search`, beam 4", "mbs4"),
    (f"`modified_beam_search`, beam 4, {LM1}", "mbs4_lm"),
    ("`alsd_pp`, beam 4", "alsd_pp4"),
    ("`alsd_pp`, beam 4, `mbr` over 4 texts", "alsd_pp4_mbr"),
    ("`alsd_pp`, beam 4, `skip_blank` 0.9", "alsd_pp4_skip90"),
    (f"`alsd_pp`, beam 4, {LM1}", "alsd_pp4_lm"),
    ("NeMo's `malsd_batch`, beam 4", "nemo_malsd4"),
    (f"NeMo's `malsd_batch`, beam 4, {LM1}", "nemo_malsd4_lm"),
    ("`alsd_pp`, beam 4, operators in one graph", "alsd_pp4_graph"),
    ("the same, `window` 8", "alsd_pp4_window8"),
    ("`transducer_wfst`, beam 4, word 3-gram", "transducer_wfst4"),
    ("`ctc_beam`, beam 4", "ctc_beam4"),
    ("`ctc_beam`, beam 4, `mbr` over 4 texts", "ctc_beam4_mbr"),
    ("`ctc_beam`, beam 4, `skip_blank` 0.9", "ctc_beam4_skip90"),
]
SEARCH_RATIOS = [
    ("`fused_looping` : NeMo's greedy search", "fused_looping", "nemo_greedy"),
    ("`fused_looping` : NeMo's greedy search, both with the language model", "fused_lm", "nemo_greedy_lm"),
    ("`alsd_pp` : NeMo's `malsd_batch`", "alsd_pp4", "nemo_malsd4"),
    ("`alsd_pp` : NeMo's `malsd_batch`, both with the language model", "alsd_pp4_lm", "nemo_malsd4_lm"),
    ("`modified_beam_search` : `alsd_pp`", "mbs4", "alsd_pp4"),
    ("`fused_looping` with the language model : without", "fused_lm", "fused_looping"),
    ("`modified_beam_search` with the language model : without", "mbs4_lm", "mbs4"),
    ("`alsd_pp` with the language model : without", "alsd_pp4_lm", "alsd_pp4"),
    ("`fused_looping` with `blank_penalty` 1 : without", "fused_penalty1", "fused_looping"),
    ("`fused_looping` with `skip_blank` 0.9 : without", "fused_skip90", "fused_looping"),
    ("`alsd_pp` with `skip_blank` 0.9 : without", "alsd_pp4_skip90", "alsd_pp4"),
    ("`ctc_beam` with `skip_blank` 0.9 : without", "ctc_beam4_skip90", "ctc_beam4"),
    ("`alsd_pp` with `mbr` : without", "alsd_pp4_mbr", "alsd_pp4"),
    ("`ctc_beam` with `mbr` : without", "ctc_beam4_mbr", "ctc_beam4"),
    ("`alsd_pp` with `window` 8 : without, operators in one graph", "alsd_pp4_window8", "alsd_pp4_graph"),
    ("`transducer_wfst` : `alsd_pp`, operators in one graph", "transducer_wfst4", "alsd_pp4_graph"),
]
SEARCH_JOURNALS = ("searches_rnnt", "searches_tdt")
WHOLE_CALLS = """Each cell has seconds of audio per second of whole calls, from encoder frames to hypotheses on the host. ± is half of
the 95 % interval over the rounds."""
MEMORY = """MiB is the GPU memory that a search keeps (tensors and recorded graphs), and the most that a batch takes beyond it. It holds
neither the model nor a language model that an earlier case had loaded. NeMo's memory is not shown, since the journal lacks
the graphs that NeMo records with its first batch."""
BEAMS = [
    ("RNN-T greedy, fused", "nemo_beam", "standin256-rnnt", "fused_persistent"),
    ("RNN-T ALSD++, beam 4, fused", "nemo_beam", "standin256-rnnt", "alsd_pp4_fused"),
    ("RNN-T ALSD++, beam 8, fused", "nemo_beam", "standin256-rnnt", "alsd_pp8_fused"),
    ("RNN-T AES++, beam 8, fused", "nemo_beam", "standin256-rnnt", "aes_pp8_fused"),
    ("TDT greedy, fused", "nemo_beam", "standin256-tdt", "fused_persistent"),
    ("TDT ALSD++, beam 4, fused", "nemo_beam", "standin256-tdt", "alsd_pp4_fused"),
    ("TDT ALSD++, beam 8, fused", "nemo_beam", "standin256-tdt", "alsd_pp8_fused"),
    ("TDT AES++, beam 8, fused", "nemo_beam", "standin256-tdt", "aes_pp8_fused"),
    ("CTC greedy", "nemo_beam", "standin256-rnnt", "ctc_greedy"),
    ("CTC beam 8, fused, `merge` as in NeMo", "nemo_beam", "standin256-rnnt", "ctc_beam8_fused"),
    ("RNN-T greedy, fused", "searches_rnnt", "standin256-rnnt", "fused_looping"),
    ("RNN-T greedy, fused, with a token n-gram", "searches_rnnt", "standin256-rnnt", "fused_lm"),
    ("RNN-T ALSD++, beam 4, fused", "searches_rnnt", "standin256-rnnt", "alsd_pp4"),
    ("RNN-T ALSD++, beam 4, fused, with the n-gram", "searches_rnnt", "standin256-rnnt", "alsd_pp4_lm"),
    ("RNN-T, operators, over a graph with a word 3-gram, beam 4", "searches_rnnt", "standin256-rnnt", "transducer_wfst4"),
    ("CTC greedy", "wfst", "standin256-rnnt", "ctc_greedy"),
    ("CTC over a graph with a word 3-gram, beam 17", "wfst", "standin256-rnnt", "ctc_wfst17"),
]
BEAM_JOURNALS, BEAM_BATCH = ("nemo_beam", "searches_rnnt", "wfst"), 32


def speed(row, batch):
    """Returns audio over the mean time of a whole call, half of its 95 % interval, and warning marks."""
    times = list(row.rounds[batch].values())
    figure = row.audio[batch] / mean(times)
    half = figure * half_interval(times) / mean(times)
    return " ".join([f"{figure:,.0f} ± {half:,.0f}", *warnings(batch, row)])


def memory_of(journal, batch):
    """Returns {decoder: MiB}, the peak of the device memory of each of rtfx's searches. Rivals are left out, since
    their figures would lack the CUDA graphs that they record at the first batch."""
    return {case.decoder: max(record["device_memory"]["peak_bytes"] for record in case.rounds) / 2**20
            for case in journal.cases if case.rounds and int(case.batch) == batch and not is_rival(case)}  # fmt: skip


def searches(journal):
    """Yields the speeds of one model's searches at each batch size, and ratios of pairs of them."""
    model, dtype, by_id = rows_of_one_model(journal)
    batches = sorted(by_id["fused_looping"].seconds)
    about = journal.provenance
    (checkpoint,), device = about["models"], about["device"]
    yield f"{WHOLE_CALLS} {markdown(model)} has 1,024 tokens and runs in {dtype}, beside {rival_versions(journal)}."
    for data in about["datasets"]:
        held = next(s.get("batch_sizes", batches) for s in about["config"]["datasets"] if s["id"] == data["id"])
        yield f"Batch {', '.join(map(str, held))}: {data['utterances']:,} utterances ({data['audio_seconds']:,.0f} s)."
    yield (f"{about['config']['protocol']['measured_rounds']} rounds, {markdown(device['name'])}, "
           f"rtfx {about['rtfx']['revision'][:12]}, checkpoint {checkpoint['sha256'][:8]}, {about['started'][:10]}.")  # fmt: skip
    yield MEMORY
    columns, memory = " | ".join(f"batch {batch}" for batch in batches), memory_of(journal, batches[-1])
    words_of = " | ".join(f"WER %, batch {batch}" for batch in batches)
    yield f"\n| search | {columns} | {words_of} | MiB, batch {batches[-1]} |"
    yield "|---|" + "--:|" * (2 * len(batches) + 1)
    for label, decoder in SEARCHES:
        if decoder not in by_id:
            continue
        row = by_id[decoder]
        words = [f"{row.wers[batch]:.2f}" if batch in row.wers else "–" for batch in batches]
        speeds = [speed(row, batch) if batch in row.rounds else "–" for batch in batches]
        yield f"| {label} | {' | '.join([*speeds, *words])} | {f'{memory[decoder]:,.0f}' if decoder in memory else '–'} |"
    yield """
Each factor says how many times as fast the search before the colon is, in whole calls. Square brackets hold the 95 % interval.
The factor in round brackets leaves out rtfx's copies to the host, and the making of NeMo's Python objects.
"""
    yield f"| | {columns} |"
    yield "|---|" + "--:|" * len(batches)
    for label, ours, theirs in SEARCH_RATIOS:
        if ours in by_id and theirs in by_id:
            yield f"| {label} | {' | '.join(cell(by_id[ours], by_id[theirs], batch) for batch in batches)} |"


def beams(*journals):
    """Yields word errors and speeds of searches from several journals, at one batch size."""
    held = dict(zip(BEAM_JOURNALS, journals, strict=True))
    sets = {}
    rows = []
    for label, name, model, decoder in BEAMS:
        (case,) = [c for c in held[name].cases if (c.model, c.decoder, c.batch) == (model, decoder, str(BEAM_BATCH))]
        ((row,),) = [found.values() for found in rows_of([held[name]], lambda c: c is case, rtfx=True).values()]
        sets[case.dataset] = case.last
        rows.append(f"| {label} | {name} | {markdown(case.dataset)} | {row.wers[BEAM_BATCH]:.2f} | {speed(row, BEAM_BATCH)} |")
    sizes = [f"`{name}` has {last['dataset']['utterances']:,} utterances ({last['dataset']['audio_seconds']:,.0f} s, "
             f"{last['wer']['reference_words']:,} words)" for name, last in sets.items()]  # fmt: skip
    yield f"{WHOLE_CALLS} {', '.join(sizes[:-1])}, and {sizes[-1]}."
    yield f"\n| search, batch {BEAM_BATCH}, bf16 | journal | set | WER % | RTFx of whole calls |"
    yield "|---|---|---|--:|--:|"
    yield from rows


def alignment(folder):
    """Yields the speed of forced alignment beside torchaudio's, or nothing where it was not measured."""
    ours, theirs = folder / "alignment.json", folder / "forced_align.jsonl"
    if not (ours.exists() and theirs.exists()):
        return
    made = json.loads(ours.read_text(encoding="utf-8"))
    rows = read_records(theirs)
    best = {}
    for one in made["benchmarks"]:
        found = re.match(r"alignment/cuda/batch(\d+)/", one["name"])
        if found and one["run_type"] == "iteration":
            best[int(found[1])] = max(one["rows/s"], best.get(int(found[1]), 0))
    rows = [(best[row["batch"]], row["rows_per_second"], row) for row in rows if row["batch"] in best]
    *_, one = rows[0]
    yield (
        f"The table has utterances per second of forced alignment through a CTC head of 1,024 tokens. Each has {one['frames']} frames and "
        f"{one['tokens']} tokens.\nThe best of five repeats counts, with the copy of the results to the host. torchaudio takes one "
        f"utterance at a time.\n{one['device']}, torchaudio {one['torchaudio']}, {made['context']['date'][:10]}."
    )
    yield ""
    yield f"| | {' | '.join('batch {batch}'.format(**row) for *_, row in rows)} |"
    yield "|---|" + "--:|" * len(rows)
    yield f"| `rtfx align`'s kernel | {' | '.join(f'{own:,.0f}' for own, *_ in rows)} |"
    yield f"| `torchaudio.functional.forced_align` | {' | '.join(f'{other:,.0f}' for _, other, _ in rows)} |"
    yield f"| rtfx : torchaudio | {' | '.join(f'{own / other:.3g}x' for own, other, _ in rows)} |"


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


def adds_scores(record):
    """Returns which scores a search adds to the model's: those of a language model, or of boosted phrases."""
    options = record["decoder"]["options"]
    options = options.get("options") or options  # a decoder in Python has its own options one level deeper
    return {key for key in ("lm", "boost") if options.get(key)}


def verdicts(journal):
    """Returns a table that compares the results of the rival's searches with ours, for each model.

    Pairs of which one side alone has a language model or boosted phrases are left out, since they search for different things."""
    rows = {}
    added = {case.decoder: adds_scores(case.last) for case in journal.cases if case.rounds}
    for case in journal.cases:
        record = case.worst_run  # the first round with the case's grade
        if record and is_rival(case) and record["exactness"].get("baseline"):
            if adds_scores(record) != added.get(record["exactness"]["baseline"]):
                continue
            key = (record["model"]["id"], record["dtype"], record["decoder"]["id"], record["exactness"]["baseline"])
            rows.setdefault(key, {})[int(record["batch"]["size"])] = verdict(record)
    if not rows:
        return ""
    batches = sorted({batch for cells in rows.values() for batch in cells})
    lines = [
        "## Do both return the same?",
        "",
        "Each cell counts the utterances with equal tokens and frames, and with scores that are equal up to rounding.",
        "It also names the first utterance that differs.",
        "The grade compares with the decoder that stands behind the colon.",
        "",
        f"| theirs : ours | {' | '.join(f'batch {batch}' for batch in batches)} |",
        "|---|" + "---|" * len(batches),
    ]
    for (model, dtype, theirs, ours), cells in rows.items():
        label = f"{markdown(model)}, {markdown(dtype)}: {markdown(theirs)} : {markdown(ours)}"
        lines.append(f"| {label} | {' | '.join(cells.get(batch, '–') for batch in batches)} |")
    return "\n".join(["", *lines, ""])


def rewrite(pages, mark, lines):
    """Writes the lines that lines(options of the mark) yields between `<!-- MARK -->` and its end, on each page.

    A place for which no lines come stays as it is. Returns how many such places the pages have."""
    places = 0
    block = re.compile(rf"(<!-- {mark} -->).*?(<!-- /{mark.split(':')[0]} -->)", re.DOTALL)

    def filled_in(found):
        made = list(lines(*found.groups()[1:-1]))
        return "\n".join([found[1], *made, found[found.re.groups]]) if made else found[0]

    for page in pages:
        text = page.read_text(encoding="utf-8")
        filled, more = block.subn(filled_in, text)
        page.write_text(filled, encoding="utf-8")
        places += more
    return places


def main():
    folders = [Path(sys.argv[1])] if len(sys.argv) > 1 else [ROOT / "reports" / folder for folder in FOLDERS]
    pages = [Path(page) for page in sys.argv[2:]] or [ROOT / page for page in ("README.md", "reports/notes/rivals.md", "reports/README.md")]
    names = dict.fromkeys([*JOURNALS, *BEAM_JOURNALS, *SEARCH_JOURNALS])
    paths = [plain_or_gzip(folder / f"{name}.jsonl") for folder in folders for name in names]
    journals = {journal_name(path): read_journal(path) for path in paths if path.exists()}
    for name, (title, pairs) in JOURNALS.items():
        if name not in journals:
            continue
        journal = journals[name]
        journal.path.with_name(f"{name}.md").write_text(full(journal.path) + verdicts(journal), encoding="utf-8")

        def compared(ours):
            return brief(journal, title, [pair for pair in pairs if ours is None or pair[1] in ours.split(",")])

        rewrite(pages, rf"rivals:{name}(?: ours=([\w,]+))?", compared)
    for name in SEARCH_JOURNALS:
        if name in journals:
            rewrite(pages, f"searches:{name}", lambda: searches(journals[name]))
    if HEADLINE_JOURNAL in journals:
        rewrite(pages, f"headline:{HEADLINE_JOURNAL}", lambda: headline(journals[HEADLINE_JOURNAL]))
    for folder in folders:
        if lines := list(alignment(folder)):
            rewrite(pages, "alignment", lambda: lines)
    if all(name in journals for name in BEAM_JOURNALS):
        rewrite(pages, "beams", lambda: beams(*(journals[name] for name in BEAM_JOURNALS)))


if __name__ == "__main__":
    main()
