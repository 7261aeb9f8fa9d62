"""The measured figures of README.md and reports/README.md, and the journals that they come from. note_figures.py has those of the
notes, and tests/e2e/test_traced_figures.py compares them.

`figure()` takes words of a page, with `{}` in the place of each number, and the numbers' values. To point figures at a new
journal, change its path below. tests/support/traced.py explains the rest.
"""

import re
from itertools import product
from operator import truediv
from statistics import fmean

from adversarial import expected, share_of, true_shares
from intervals import paired_ratio, RUN_DRIFT, unpaired_ratio
from journal import read_journal
from rival_reports import BEAM, GREEDY
from traced import ROOT, Page, Source, algorithm, decode, equal, mean_and_ends, ratio, span, whole_call

sweep, exactness, planted, busy = (Source(f"h100/greedy/{name}.jsonl.gz") for name in ("sweep", "exactness", "planted", "busy"))
nemo, nemo_beam, wfst = (Source(f"h100/rivals/{name}.jsonl.gz") for name in ("nemo", "nemo_beam", "wfst"))
nemo_ctc, nemo_lm, wfst_cpu, torchaudio = (
    Source(f"h200/rivals/{name}.jsonl.gz") for name in ("nemo_ctc", "nemo_lm", "wfst_cpu", "torchaudio")
)
aligned, aligned_by_torchaudio = (Source(f"h200/rivals/{name}") for name in ("alignment.json", "forced_align.jsonl"))
searches, searches_tdt = (Source(f"h100/searches/searches_{kind}.jsonl.gz") for kind in ("rnnt", "tdt"))
nemo_cpu = Source("cpu/nemo_searches.jsonl.gz")
boosting_rivals = Source("cpu/boosting_rivals.jsonl.gz")
c120 = {key: Source(f"h200/streams/c120_{key[0]}_{key[1]}.jsonl.gz") for key in product((80, 160, 320, 560, 1120), ("bf16", "fp8"))}
nemo_streams = {period: Source(f"h200/streams/nemo_streams_{period}.jsonl") for period in (80, 160, 320, 1120)}
chain = {model: Source(f"h100/chain/{model}.jsonl.gz") for model in ("rnnt_0.6b", "tdt_0.6b", "ctc_0.6b", "rnnt_1.1b")}
files = {m: Source(f"h100/chain/files_{m}.jsonl.gz") for m in chain}
batches = [Source(f"h200/chain/batches_{m}.jsonl.gz") for m in chain]
three_types = [Source(f"h200/chain/fp32_{m}.jsonl.gz") for m in chain]
latency = Source("h100/chain/latency.jsonl.gz")
nemo_search, same_words = Source("h200/chain/nemo_search.jsonl"), Source("h200/chain/same_words.jsonl")
nemo_transcribe = {m: Source(f"h200/chain/nemo_transcribe_{m}.jsonl") for m in chain}
vocabulary = Source("h200/searches/vocabulary.jsonl.gz")
tables = {file.name.removesuffix(".jsonl.gz"): Source(f"tables/{file.name}") for file in (ROOT / "reports/tables").glob("*.jsonl.gz")}

TOTAL, DECODE = "rtfx.total", "rtfx.decode"


def utterances(source, **wanted):
    return max(r["dataset"]["utterances"] for r in source.records(kind="run", **wanted))


def factors(source, pairs, seconds):
    """Yields how many times as fast ours is, for the pairs, models and batch sizes of a rival's journal."""
    cases = {(r["model"]["id"], r["batch"]["size"], r["decoder"]["id"]) for r in source.records(kind="run")}
    for model, batch in {case[:2] for case in cases}:
        for _, ours, theirs in pairs:
            if {(model, batch, ours), (model, batch, theirs)} <= cases:
                at = {"model": model, "batch": batch}
                yield source.mean(seconds, decoder=theirs, **at) / source.mean(seconds, decoder=ours, **at)


# ---------------------------------------------------------------------------------------------------------------------
readme = Page("README.md", ["Needs", "Your own model and data"])

headline = {"batch": 128, "decoder": "fused_looping"}
readme.figure(
    "transcribes {} [{}, {}] seconds of speech per second in bf16, and {} [{}, {}] in fp8 (",
    *(number for dtype in ("bf16", "fp8") for number in mean_and_ends(files["rnnt_0.6b"].rounds(TOTAL, dtype=dtype, **headline))),
)  # fmt: skip
readme.figure("the WER over all {} utterances is {} %", utterances(files["rnnt_0.6b"]), files["rnnt_0.6b"].wer(dtype="bf16", **headline))
SEARCHED = (1, 32, 128)
malsd = {batch: {"decoder": "nemo_malsd4", "batch": batch} for batch in SEARCHED}
readme.figure("NeMo's beam search spends {} to {} % of its time on making Python objects", *span(
    100 * (1 - searches.mean(algorithm, **malsd[b]) / searches.mean(whole_call, **malsd[b])) for b in SEARCHED
))  # fmt: skip
readme.figure("copies to the host count, rtfx's beam search is {} to {} times as fast as NeMo's", *span(
    searches.mean(algorithm, **malsd[b]) / searches.mean(algorithm, decoder="alsd_pp4", batch=b) for b in SEARCHED
))  # fmt: skip


def transcribe(model):
    """Returns the record of Python's transcribe() beside NeMo's, and the seconds of NeMo's calls and of rtfx's."""
    record = nemo_transcribe[model].records()[-1]
    return record, *([call["seconds"] for call in record[side]] for side in ("nemo", "whole"))


record, theirs, ours = transcribe("rnnt_0.6b")
readme.figure("turns {} hours of FLAC files into text in {} s [{}, {}]", record["audio_seconds"] / 3600, *mean_and_ends(ours))
readme.figure("NeMo's `transcribe()` takes {} s [{}, {}]", *mean_and_ends(theirs))
readme.figure("a factor of {} [{}, {}]", *ratio(ours, theirs))
earlier = nemo_transcribe["rnnt_0.6b"].records()[0]
readme.figure("On another H200, it was {} [{}, {}]", *ratio(*([call["seconds"] for call in earlier[side]] for side in ("whole", "nemo"))))
readme.figure("Both have a WER of {} %", 100 * record["wer"]["whole"])
assert len({round(100 * wer, 1) for wer in record["wer"].values()}) == 1
readme.figure("We measured {} calls of each", len(ours))
readme.stated("setting", "the start of 8 processes")
readme.stated("data", "with\n1,024 tokens. It is a small", "for a vocabulary of 1,024 tokens. With 8,192, rtfx")
readme.stated("setting", "LibTorch 2.11 that", "decodes 24 short utterances")
readme.stated("meaning", "over rounds is more than 5 % of the mean; ", "Of the 24 quickstart", "under CC BY 4.0. The")

# ---------------------------------------------------------------------------------------------------------------------
reports = Page("reports/README.md")
every_packed = [Source(str(file.relative_to(ROOT / "reports"))) for file in sorted((ROOT / "reports").rglob("*.jsonl.gz"))]
models_of_all = [r["model"] for source in every_packed for r in source.records() if isinstance(r.get("model"), dict)]
assert models_of_all and all(m.get("stand_in") or m["id"].startswith(("standin256-", "quickstart-")) for m in models_of_all), "a published checkpoint"
reports.stated("data", "small models of 35 million parameters with 1,024 tokens", "factors hold for 1,024 tokens", "RNN-T with 0.6 billion parameters and 1,024 tokens")
reports.stated("meaning", "is more than 5 % of", "`suspect 1/3`")
whole_set = sweep.records(kind="run")[0]["dataset"]
reports.figure("{} utterances, {} hours. `datasets/speak_librispeech.py`", whole_set["utterances"], whole_set["audio_seconds"] / 3600)

# Section "What is fastest at which batch?"
graphs = [pair for pair in BEAM if "fused" in pair[0] and "one by one" not in pair[0]]
kernel_by_kernel = [pair for pair in BEAM if "AES++" in pair[0] and "fused" in pair[0]]


def beside_nemo(ours, theirs):
    """Returns the least and the greatest factor of the searches of RNN-T and TDT."""
    return span(f for source in (searches, searches_tdt) for f in factors(source, [("", ours, theirs)], whole_call))


reports.figure(
    "fused greedy search is {} to {}\ntimes as fast, and fused ALSD++ at beam 4 is {} to {} times. "
    "With a language model, the factors are {} to {} and {} to {}.",
    *beside_nemo("fused_looping", "nemo_greedy"), *beside_nemo("alsd_pp4", "nemo_malsd4"),
    *beside_nemo("fused_lm", "nemo_greedy_lm"), *beside_nemo("alsd_pp4_lm", "nemo_malsd4_lm"),
)  # fmt: skip
others_with_lm = {b: searches_tdt.records(kind="run", decoder="nemo_malsd4_lm", batch=b)[0] for b in (32, 128)}
for record in others_with_lm.values():
    reports.figure("it returns other results than rtfx's for {} % of the TDT utterances", 100 * (1 - equal(record) / record["dataset"]["utterances"]))
LABEL_LOOPING = ("label-looping, both one CUDA graph", "greedy", "nemo_label_looping_graphs")
reports.figure("fused kernels are {} to {} times as fast as NeMo's searches in one CUDA graph", *span(factors(nemo_beam, graphs, whole_call)))
for model, batch, (fused, others) in product(("standin256-rnnt", "standin256-tdt"), (1, 8, 32, 128), {
    "alsd_pp4_fused": "alsd_pp4_graph", "alsd_pp8_fused": "alsd_pp8_graph", "aes_pp4_fused": "aes_pp4", "aes_pp8_fused": "aes_pp8",
    "ctc_beam8_fused": "ctc_beam8_graph"}.items()):  # fmt: skip
    assert nemo_beam.mean(whole_call, model=model, batch=batch, decoder=fused) < nemo_beam.mean(whole_call, model=model, batch=batch, decoder=others)


def searches_of(source, name):
    """Returns the records of a beam search in bf16 by model, dataset and batch size, and then by the kernels."""
    found = {}
    for r in source.records(kind="run", dtype="bf16"):
        if r["decoder"]["name"] == name and "_lm" not in r["decoder"]["id"]:
            found.setdefault((r["model"]["id"], r["dataset"]["id"], r["batch"]["size"]), {}).setdefault(r["decoder"]["options"]["kernels"], []).append(r)
    return found


by_operators = [r for source in (exactness, nemo_beam, tables["beam_table1"], tables["beam_table2"])
                for by_kernels in searches_of(source, "aes_pp").values() for r in by_kernels.get("operators", [])]  # fmt: skip
assert {r["batch"]["size"] for r in by_operators if r["decoder"]["options"]["loop"] == "graph"} == {1, 4, 8, 16, 32}
for source, name in product((exactness, tables["beam_table2"]), ("alsd_pp", "aes_pp")):
    for by_kernels in searches_of(source, name).values():
        assert max(map(whole_call, by_kernels["fused"])) < min(map(whole_call, by_kernels["operators"]))
reports.figure("fused beams of 4 and 8 are {} to {} times as fast for RNN-T", *span(factors(nemo_beam, kernel_by_kernel, whole_call)))
reports.figure(
    "rtfx's whole calls are {} to {} (NOISY) times as fast, and its algorithms alone {} to {} times",
    *(end for seconds in (whole_call, algorithm) for end in span(
        f for source, pairs in ((nemo, GREEDY), (nemo_beam, [*BEAM, LABEL_LOOPING]))
        for f in factors(source, [p for p in pairs if "both one CUDA graph" in p[0]], seconds))),
)  # fmt: skip
same_beams = {lm: [equal(nemo_ctc.records(kind="run", decoder=f"nemo_ctc_beam8_graphs{lm}", batch=b)[0]) for b in (32, 128)] for lm in ("", "_lm")}
(without_lm,) = set(same_beams[""])
reports.figure("{} of {} results without a language model are the same on both sides, and {} to {} with one", without_lm,
               utterances(nemo_ctc, batch=32), *span(same_beams["_lm"]))  # fmt: skip
on_cpu_ctc = [r for r in nemo_cpu.records(kind="run") if r["decoder"]["id"].startswith("nemo_ctc_beam")]
assert on_cpu_ctc and all(equal(r) == r["dataset"]["utterances"] for r in on_cpu_ctc)
reports.figure("fp32 on a CPU, all {} results without a language model are", on_cpu_ctc[0]["dataset"]["utterances"])
reports.stated("data", "vocabularies of 1,024 tokens. With 8,192 tokens")


def slower(decoder, batches=(32, 128)):
    """Yields how many times as long a decoder takes with 8,192 tokens as with 1,024."""
    for kind, batch in product(("rnnt", "tdt"), batches):
        at = {"decoder": decoder, "batch": batch}
        yield vocabulary.mean(decode, model=f"{kind}-8192", **at) / vocabulary.mean(decode, model=f"{kind}-1024", **at)


def interval_of_slower(decoder):
    """Returns how many times as long a decoder of TDT takes at batch 32, with the 95 % interval."""
    return ratio(*(vocabulary.rounds(decode, decoder=decoder, batch=32, model=f"tdt-{tokens}") for tokens in (1024, 8192)))


reports.figure(
    "Decoding alone by `fused_looping` takes {} to {} times as long at batch 32, and in one batch of all {} utterances. "
    "By a CUDA graph of label-looping it takes {} [{}, {}] to {} times as long there",
    *span(slower("fused_looping")), utterances(vocabulary, batch=128), *interval_of_slower("label-graph"), max(slower("label-graph")),
)  # fmt: skip
assert min(slower("label-graph")) == interval_of_slower("label-graph")[0]
assert min(slower("fused_looping")) > max(slower("label-graph"))  # in large batches, but not at batch 1:
alone_at_1 = [list(slower(decoder, (1,))) for decoder in ("fused_looping", "label-graph")]
assert round(min(alone_at_1[0]), 2) <= round(max(alone_at_1[1]), 2)
readme.figure("takes up to {} times as long, and NeMo was not measured", max(slower("fused_looping", (1, 32, 128))))
reports.figure("At batch 1, both take {} to {} times as long", *span(n for both in alone_at_1 for n in both))


def objects(decoder):
    """Yields the share of Python objects in NeMo's time, in percent."""
    for model, batch in product(("standin256-rnnt", "standin256-tdt"), (1, 8, 32, 128)):
        at = {"model": model, "batch": batch, "decoder": decoder}
        yield 100 * (1 - nemo_beam.mean(algorithm, **at) / nemo_beam.mean(whole_call, **at))


reports.figure("take {} to {} % of NeMo's time for `malsd_batch` on graphs", *span(s for n in (4, 8) for s in objects(f"nemo_malsd_batch{n}_graphs")))
malsd_tdt = {"decoder": "nemo_malsd4", "batch": 128}
reports.figure("In the searches\n  below, they take up to {} % (TDT", 100 * (1 - searches_tdt.mean(algorithm, **malsd_tdt) / searches_tdt.mean(whole_call, **malsd_tdt)))
reports.figure("At batch 1 and 8 the set has {} utterances, and at batch 32 and 128 it has {}",
               *(nemo_beam.records(kind="run", batch=b)[0]["dataset"]["utterances"] for b in (8, 128)))  # fmt: skip

SIZES = (32, 64, 128, 256, 512, 1024, 2048)
for label, decoder, metric in (
    ("`fused_looping`, total", "fused_looping", TOTAL),
    ("`fused_looping`, decoding alone", "fused_looping", DECODE),
    ("`label_looping`, one CUDA graph, total", "label_looping_graph", TOTAL),
    ("`ctc_greedy`, total", "ctc_greedy", TOTAL),
):
    row = f"| {label} |" + " {} ± {} |" * len(SIZES)
    reports.figure(row, *(v for batch in SIZES for v in sweep.both(metric, model="standin256-rnnt", decoder=decoder, batch=batch)))


def fastest(decoder, count, metric=TOTAL, model="standin256-rnnt"):
    """Returns the batch sizes with the highest mean speeds."""
    return set(sorted(SIZES, key=lambda batch: -sweep.mean(metric, model=model, decoder=decoder, batch=batch))[:count])


assert fastest("fused_looping", 3) == fastest("ctc_greedy", 3) == {128, 256, 512}
assert fastest("label_looping_graph", 2) == {512, 1024}
in_label_looping = [sweep.rounds(lambda r: r["total_seconds"], model="standin256-rnnt", decoder="label_looping_graph", batch=b) for b in (1024, 512, 256)]
holds = [low <= 1 <= high for low, high in (unpaired_ratio(in_label_looping[0], seconds, RUN_DRIFT) for seconds in in_label_looping[1:])]
assert holds == [True, False]
assert all(fastest("fused_looping", 1, DECODE, f"standin256-{kind}") == {1024} for kind in ("rnnt", "tdt"))

# Section "Do decoders return the same results?"
GREEDY_SEARCHES = ("frame_looping", "label_looping", "fused_looping", "step_replay")
BEAM_SEARCHES = ("alsd_pp", "aes_pp", "modified_beam_search", "ctc_beam")


def compared(searches, dtype, endings=("",)):
    """Returns the records of these searches beside their baselines."""
    return [r for r in exactness.records(kind="run", dtype=dtype)
            if r["decoder"]["name"] in searches and r["exactness"]["baseline"] not in (r["decoder"]["id"], "ctc_greedy")
            and r["decoder"]["id"].endswith(endings) and (searches is GREEDY_SEARCHES or r["exactness"]["baseline"] != "frame_looping")]  # fmt: skip


def results_of(records):
    return sum(r["dataset"]["utterances"] for r in records)


def by_rounding(records):
    return sum(r["exactness"]["grades"]["rounding"] for r in records)


def proved(records):
    """Returns the decisions beyond rounding, and all of them."""
    return tuple(sum(r["exactness"]["replay"][key] for r in records) for key in ("beyond", "decisions"))


forms = {dtype: compared(GREEDY_SEARCHES, dtype) for dtype in ("fp32", "bf16", "fp16")}
for dtype, label in (("fp32", f"rtfx, {len({r['decoder']['id'] for r in forms['fp32']})} greedy forms beside frame-looping, RNN-T and TDT, fp32, batch 1, 4 and 32"),
                     ("bf16", "the same in bf16"), ("fp16", "the same in fp16")):  # fmt: skip
    held = sum(map(equal, forms[dtype])), results_of(forms[dtype])
    if dtype == "fp32":
        reports.figure(f"| {label} | {{}} of {{}} | {{}} of {{}} |", *held, *proved(forms[dtype]))
    else:
        reports.figure(f"| {label} | {{}} of {{}}, {{}} by rounding | {{}} of {{}} |", *held, by_rounding(forms[dtype]), *proved(forms[dtype]))
for label, dtypes, endings in (
    ("rtfx, ALSD++, AES++, modified beam search and CTC beam on graphs and fused, beside the same launched one by one, fp32", ("fp32",), ("_graph", "_fused")),
    ("the same on graphs, bf16 and fp16", ("bf16", "fp16"), ("_graph",)),
    ("the same fused, bf16", ("bf16",), ("_fused",)),
    ("the same fused, fp16", ("fp16",), ("_fused",)),
):
    held = [r for dtype in dtypes for r in compared(BEAM_SEARCHES, dtype, endings)]
    reports.figure(f"| {label} | {{}} of {{}} |", sum(map(equal, held)), results_of(held))
    assert proved(held)[0] == 0
for label, decoder, model, batch in (
    ("rtfx, fused greedy, RNN-T, bf16, batch 32", "fused_persistent", "standin256-rnnt", 32),
    ("NeMo label-looping on graphs, RNN-T, bf16, batch 32", "nemo_label_looping_graphs", "standin256-rnnt", 32),
    ("NeMo label-looping on graphs, TDT, bf16, batch 8", "nemo_label_looping_graphs", "standin256-tdt", 8),
    ("NeMo label-looping launched one by one, TDT, bf16, batch 8", "nemo_label_looping", "standin256-tdt", 8),
):
    (record,) = nemo.records(kind="run", round=0, decoder=decoder, model=model, batch=batch)
    found = equal(record), record["dataset"]["utterances"]
    rounded = by_rounding([record])
    reports.figure(f"| {label} | {{}} of {{}}{', {} by rounding' if rounded else ''} | {{}} of {{}} |", *found, *([rounded] if rounded else []), *proved([record]))
cpu_searches = [r for r in nemo_cpu.records(kind="run") if r["decoder"]["name"] == "python"]
usual = [r for r in cpu_searches if equal(r) == r["dataset"]["utterances"]]
reports.figure(
    "| NeMo, {} pairs of search and model, fp32 on a CPU, batch 1 and 8 | {} of {} in each; exceptions: {} of {}, {} of {} |",
    len({(r["model"]["id"], r["decoder"]["id"]) for r in cpu_searches}), equal(usual[0]), usual[0]["dataset"]["utterances"],
    *(n for kept in sorted({equal(r) for r in cpu_searches if r not in usual}, reverse=True) for n in (kept, usual[0]["dataset"]["utterances"])),
)  # fmt: skip
assert {(r["model"]["id"], r["decoder"]["id"]) for r in cpu_searches if r not in usual} == {
    ("standin256-rnnt", "nemo_maes_batch8"), ("standin256-tdt", "nemo_label_looping")}  # fmt: skip
assert len({r["decoder"]["id"] for r in cpu_searches}) == 7
on_graphs = [r for s in (nemo, nemo_beam) for batch in (32, 128) for r in s.records(
    kind="run", round=0, decoder="nemo_label_looping_graphs", batch=batch)]  # fmt: skip
reports.figure("at batch 32 and 128, {} to {} % of the results of NeMo's\nlabel-looping on graphs are the same", *span(
    100 * equal(r) / r["dataset"]["utterances"] for r in on_graphs))  # fmt: skip


def refused(error, dtype):
    """Returns the results that replay refuses, and those with a planted error."""
    records = planted.records(decoder=f"planted_{error}", kind="run", dtype=dtype)
    return sum(r["exactness"]["grades"]["different"] for r in records), sum(r["counters"]["planted"] for r in records)


reports.figure("errors were planted in results of {} utterances", planted.records(kind="run")[0]["dataset"]["utterances"])
first_of = (exactness.records(kind="run", batch=b)[0]["dataset"]["utterances"] for b in (1, 32))
reports.figure("The first {} utterances\nare at batch 1 and 4, and {} at batch 32", *first_of)
PLANTED = {"a swapped token in each result": "token", "a token that was moved by a frame": "frame", "a changed duration (TDT)": "duration",
           "one decision that logits in fp8 changed": "fp8_once"}  # fmt: skip
for label, error in PLANTED.items():
    cells = [refused(error, dtype) for dtype in ("fp32", "fp16", "bf16")]
    reports.figure(f"| {label} |" + " {} of {} |" * 3, *(n for cell in cells for n in cell))
in_fp8 = [planted.records(kind="run", decoder="planted_fp8", dtype=dtype) for dtype in ("fp32", "fp16", "bf16")]
reports.figure("| all logits in fp8 |" + " {} of {} |" * 3, *(n for records in in_fp8 for n in (
    sum(r["exactness"]["grades"]["different"] for r in records), results_of(records))))  # fmt: skip

checked = {t: [r for r in same_words.records(dtype=t)] for t in ("float32", "bfloat16")}
assert all(r["equal"] == r["files"] for r in checked["float32"])
in_chain = {m["sha256"] for source in files.values() for r in source.records(kind="provenance") for m in r["models"]}
assert {r["sha256"] for r in same_words.records()} == in_chain, "the models of the section on throughput"
reports.figure("for all {} recordings", checked["float32"][0]["files"])
reports.figure("In bf16, rtfx returned the same for {} to {} of them, and NeMo for {} to {}", *(
    end for program in ("rtfx", "nemo") for end in span(r["equal"] for r in checked["bfloat16"] if r["program"] == program)
))  # fmt: skip

# Section "What does a beam buy?"
gains, costs = [], []
for model in ("standin256-rnnt", "standin256-tdt"):
    greedy = {"decoder": "fused_persistent", "model": model, "batch": 32}
    for search in ("alsd_pp4_fused", "alsd_pp8_fused", "aes_pp4_fused", "aes_pp8_fused"):
        beam = {"decoder": search, "model": model, "batch": 32}
        gains.append(nemo_beam.wer(**greedy) - nemo_beam.wer(**beam))
        costs.append(nemo_beam.mean(whole_call, **beam) / nemo_beam.mean(whole_call, **greedy))
reports.figure("lowers the word error rate by {} to {} percentage points. Whole calls then take {} to {} times as long", *span(gains), *span(costs))
reports.figure("returns what greedy search does: {} %", nemo_beam.wer(decoder="ctc_beam8_fused", model="standin256-rnnt", batch=32))
assert nemo_beam.wer(decoder="ctc_greedy", model="standin256-rnnt", batch=32) == nemo_beam.wer(decoder="ctc_beam8_fused", model="standin256-rnnt", batch=32)
reports.figure("lowers {} % to {} % on `spoken_1024`", wfst.wer(decoder="ctc_greedy", batch=32), searches.wer(decoder="ctc_beam4", batch=32))


def lowered(source, plain, with_lm):
    """Returns by how much a language model lowers the word error rate at batch 32, in points and in words."""
    without, held = (source.records(kind="run", decoder=d, batch=32)[0]["wer"] for d in (plain, with_lm))
    points = without["wer"] - held["wer"]
    return 100 * points, points * without["reference_words"]


reports.figure("lowers the\nWER of CTC by {} points", lowered(wfst, "ctc_greedy", "ctc_wfst17")[0])
reports.figure("raises that of RNN-T greedy by {} points, or {} words", *(-change for change in lowered(searches, "fused_looping", "fused_lm")))
reports.figure("lowers that\nof ALSD++ by {} points, or {} words", *lowered(searches, "alsd_pp4", "alsd_pp4_lm"))


def f_scores(decoder, model="standin256-rnnt", scales=(0, 1)):
    """Returns the F-scores of boosted phrases without a boost and with one, in percent."""
    held = boosting_rivals.records(kind="run", model=model, round=0)
    return [100 * r["boosted"]["f_score"] for scale in scales for r in held if r["decoder"]["id"] == f"{decoder}[boost.scale={scale}]"]


reports.stated("setting", "A boost of 1 raises the F-score of 100 phrases", "The phrases occur 100 times")
reports.figure(
    "from {} to {} for RNN-T, from {} to {} for CTC and\n  from {} to {} for TDT (",
    *f_scores("greedy"), *f_scores("ctc"), *f_scores("greedy", "standin256-tdt"),
)  # fmt: skip
reports.figure("A boost of {} lowers it to {} for RNN-T", 4, *f_scores("greedy", scales=(4,)))


# Section "When does the GPU wait?"
def decoding(decoder):
    """Returns the record of decoding in the profile."""
    (record,) = busy.records(kind="profile", decoder=decoder)
    return record["regions"]["decode"]


def filled(decoder):
    """Returns the share of decoding in which a kernel runs, in percent."""
    return 100 * decoding(decoder)["busy"]["share"]


def kernels_of_lap(region):
    return region["kernels"] / len(region["lap_kernel_seconds"])


def range_filled(*decoders):
    """Returns the least and the greatest share, in percent: the lower end without the profiler's excess, and 100 at most."""
    regions = [decoding(d) for d in decoders]
    low = min(r["busy"]["low"] - kernels_of_lap(r) * excess / fmean(r["undisturbed_seconds"]) for r in regions)
    return 100 * low, min(100, 100 * max(r["busy"]["high"] for r in regions))


# plots/gpu_idle.py and `rtfx profile` find the excess like this
excess = max((fmean(r["lap_kernel_seconds"]) - fmean(r["undisturbed_seconds"])) / kernels_of_lap(r)
             for record in busy.records(kind="profile") for r in record["regions"].values()
             if r["lap_kernel_seconds"] and r["undisturbed_seconds"] and r["kernels"]
             and kernels_of_lap(r) >= 1000)  # fmt: skip
reports.figure("in one case by at least {} µs", 1e6 * excess)
eager = range_filled("frame_looping", "label_looping")
reports.figure("no kernel runs for {} to {} % of the time", 100 - eager[1], 100 - eager[0])
reports.figure(
    "One CUDA graph fills {} to {} % of the time, and one persistent kernel {} to {} %. Replayed graphs of steps fill {} to {} %, "
    "and fused kernels that the host launches {} to {} %.",
    *range_filled("fused_graph", "frame_looping_graph", "label_looping_graph", "label_looping_window8_graph"),
    *range_filled("fused_persistent"), *range_filled("label_looping_replay"), *range_filled("fused_host"),
)  # fmt: skip
reports.figure("for {} utterances at batch 32", busy.records(kind="profile")[0]["dataset"]["utterances"])
reports.figure("the kernels of CUDA graphs of operators take {} to {} % of the time without the profiler", *span(
    filled(d) for d in ("frame_looping_graph", "label_looping_graph", "label_looping_window8_graph")
))  # fmt: skip
reports.stated("limit", "Text and figure show at most 100 %")


# Section "What does a live stream cost?"
def trial(period, dtype, **wanted):
    """Returns the last trial of a search by c120 that has these values."""
    return c120[period, dtype].records(kind="stream", **wanted)[-1]


def confirmed(period, dtype="bf16"):
    """Returns the number of streams that kept the rule for 120 s."""
    return trial(period, dtype, confirms=True, slo=True)["batch"]["size"]


def nemo_capacity(period, least_steps=0):
    """Returns the streams that NeMo's best batch allows at its median step, of those that it can fill. Files hold two runs,
    and the second has more steps."""
    records = [r for r in nemo_streams[period].records() if r["steps"] >= least_steps]
    batches = [(r["streams"], period * r["streams"] / r["step_ms"]["p50"]) for r in records]
    return int(max(capacity for streams, capacity in batches if capacity >= streams))


def streamed_wer(period):
    """Returns the word error rate of the streams in the trial that confirmed the number, in percent."""
    return 100 * trial(period, "bf16", confirms=True, slo=True)["quality"]["streamed"]["wer"]


reports.figure("sustains {} live streams with chunks of 1,120 ms (WER {} %), and {} with chunks of 80 ms (WER\n{} %)",
               confirmed(1120), streamed_wer(1120), confirmed(80), streamed_wer(80))  # fmt: skip
assert all(trial(period, "bf16")["decoder"]["name"] == "fused_looping" for period in (80, 1120))
reports.figure("the best batch that was tried allows {} and {} streams", nemo_capacity(1120), nemo_capacity(80))
reports.figure("A second run of NeMo gave {} and {} streams", nemo_capacity(1120, least_steps=40), nemo_capacity(80, least_steps=40))
reports.figure("second ones found {} streams at 80 ms, {} at 160 ms, {} at 320 ms and {} at 1,120 ms", *(nemo_capacity(p, least_steps=40) for p in (80, 160, 320, 1120)))


def out_of_memory(dtype):
    """Returns the streams with chunks of 1,120 ms that did not fit into memory."""
    failure, = (r for r in c120[1120, dtype].records(kind="failure") if r["message"].startswith("out of memory"))
    return int(re.search(r"streams(\d+)/", failure["case"])[1])


reports.figure("{} streams did not fit in bf16, and {} in fp8", out_of_memory("bf16"), out_of_memory("fp8"))
broken = [trial(*key, confirms=True, slo=False) for key in (
    (320, "bf16"), (560, "bf16"), (80, "fp8"), (160, "fp8"), (320, "fp8"))]  # fmt: skip
reports.figure("Five trials of 120 s broke the rule after {} to {} s", *span(
    broke["metrics"]["stream.stopped_seconds"] for broke in broken))  # fmt: skip
reports.stated("setting", "chunks of 1,120 ms", "chunks of 80 ms", "of 120 s broke", "as many streams had kept it for 60 s", "lowered by 10 %",
               "bf16 at 320 and\n  560 ms", "fp8 at 80, 160 and 320 ms", "known to 5 or 10 %",
               "fp8 at 160 and 320 ms come", "in bf16 at 80 ms, and none", "over 25 steps (560 ms: 40)",
               "With chunks of up to 320 ms, a step holds up to 1,024 streams, and with longer ones up to 512", "none at 80 ms",
               "16 processor threads of its own, while up to three", "had 32 to 1,024 streams",
               "At 560 and 1,120 ms only 256, 512 and 1,024 were tried", "the second at 560 ms", "pauses of 0.4 to 0.6 s",
               "but 560 ms.", "streams at 80 ms, 484", "at 160 ms, 1,435", "at 320 ms and 2,916", "at 1,120 ms. Why")  # fmt: skip

# Section "What limits throughput?"
def gpus(sources):
    return {r["device"]["uuid"] for source in sources for r in source.records(kind="provenance")}


assert len(gpus(chain.values())) == 4 and len(gpus([*chain.values(), *files.values()])) == 6  # "four" and "Six" of the page
assert not any(gpus([chain[m]]) & gpus([files[m]]) for m in chain)
NAMES = {"rnnt_0.6b": "RNN-T 0.6B", "tdt_0.6b": "TDT 0.6B", "ctc_0.6b": "CTC 0.6B", "rnnt_1.1b": "RNN-T 1.1B"}
DECODERS = {m: "ctc_greedy" if m == "ctc_0.6b" else "fused_looping" for m in NAMES}
TYPES = ("bf16", "fp8")


def from_files(model, dtype):
    """Returns the speed from FLAC files over that from samples, in percent."""
    wanted = {"decoder": DECODERS[model], "dtype": dtype, "batch": 128}
    return 100 * files[model].mean(TOTAL, **wanted) / chain[model].mean(TOTAL, **wanted)


def busy_percent(stage, sources, dtypes=TYPES):
    """Yields the share of a pass in which a stage is busy, in percent."""
    for model, dtype in product(sources, dtypes):
        yield 100 * sources[model].mean(f"busy.{stage}", decoder=DECODERS[model], dtype=dtype, batch=128)


reports.figure("the encoder is busy for\n{} to {} % of a pass", *span(busy_percent("encoder", chain)))
reports.figure("From FLAC files, models reach {} to {} % of their speed from samples", *span(from_files(m, t) for m in chain for t in TYPES))
all_runs = [r for s in (*chain.values(), *files.values(), *batches, *three_types) for r in s.records(kind="run")]
assert all(r["isolated"]["grade"] == "bitwise" and r["exactness"]["replay"]["beyond"] == 0 for r in all_runs)
reports.figure("The results of all {} utterances equal", all_runs[0]["dataset"]["utterances"])


def checkpoint(source):
    return source.records(kind="provenance")[0]["models"][0]["sha256"]


assert all(checkpoint(chain[m]) == record["sha256"] for m in NAMES for record in nemo_transcribe[m].records())
reports.stated("data", "with 1,024 tokens (`scripts/stand_ins.sh`)")
hours = all_runs[0]["dataset"]["audio_seconds"] / 3600
reports.figure("The speech is {} hours of", hours)
prompt = Source("h200/chain/prompt.jsonl.gz")


def kept_with_prompt(batch):
    """Returns the share of its speed that a model keeps with the layer, and the 95 % interval."""
    return ratio(*(prompt.rounds(lambda r: r["total_seconds"], model=f"parakeet-rnnt-0.6b{ending}", batch=batch) for ending in ("-prompt", "")))


reports.figure("It keeps {} [{}, {}] of the\nspeed at batch 128, and {} at batch 32", *kept_with_prompt(128), kept_with_prompt(32)[0])
assert 0.9999 < kept_with_prompt(32)[2] < 1 < kept_with_prompt(1)[2]
reports.stated("setting", "three rounds of at least 10 s", "three rounds of at least 5 s", "The interval of the latter ends just below 1, which the table rounds to 1.000. At batch 1, the interval holds 1", "of at least 3 s",
               "each with 16 processor threads of its own")  # fmt: skip
reports.stated("limit", "a limit of 700 watts")
assert all(r["suspect"] == ["sw_power_cap"] for r in all_runs)
for model in NAMES:  # which passes are the first ones of their process
    (about,), (about_files,) = (sources[model].records(kind="provenance") for sources in (chain, files))
    assert about["config"]["dtypes"][0] == about_files["config"]["dtypes"][0] == "bf16"
    assert len(about_files["config"]["decoders"]) == 1
    assert {r["order"] for r in chain[model].records(kind="run", decoder=DECODERS[model], round=0)} == {0 if model == "ctc_0.6b" else 1}
assert len(gpus(batches)) == 2 and len({r["host_name"] for source in batches for r in source.records(kind="provenance")}) == 1
nemo_encoder = [Source(f"h200/chain/nemo_encoder_{m}.jsonl").records() for m in NAMES]
assert all(r["card"] == "NVIDIA H200" and not {"gpu", "conditions", "suspect"} & r.keys() for records in nemo_encoder for r in records)
reports.figure("took at most {} watts, and", max(r["conditions"]["power_w"] for r in all_runs))


scaling = {n: Source(f"h100/scaling/scaling_{n}.jsonl.gz") for n in (1, 2, 4)}
for dataset, label in (("strong", "the same set"), ("weak", "a set that grows")):
    at = {"decoder": "fused_looping", "dataset": dataset}
    speeds = {n: source.both(TOTAL, **at) for n, source in scaling.items()}
    reports.figure(f"| {label} | {{}} ± {{}} | {{}} ± {{}} | {{}} ± {{}} | {{}} | {{}} |", *(v for pair in speeds.values() for v in pair),
                   *(speeds[n][0] / speeds[1][0] for n in (2, 4)))  # fmt: skip
reports.figure("the same {} utterances for all numbers of GPUs", scaling[4].records(kind="run", dataset="strong")[0]["dataset"]["utterances"])
reports.figure("The set that grows has {}, {} and {} s", *(source.records(kind="run", dataset="weak")[0]["dataset"]["audio_seconds"] for source in scaling.values()))
reports.figure("one pass of {} to {} s", *span(r["total_seconds"] for source in scaling.values() for r in source.records(kind="run", decoder="fused_looping")))
sol_1b = [bool(r["suspect"]) for r in tables["speed_of_light_table1"].records(kind="run", model="parakeet-rnnt-1.1b", decoder="label_looping")]
reports.figure("{} of {} rounds of the 1.1B RNN-T are suspect", sum(sol_1b), len(sol_1b))
assert all(r["suspect"] == ["sw_power_cap"] for source in scaling.values() for r in source.records(kind="run"))


def of_type(value, dtype):
    """Yields a value of the pass in a type, for each model."""
    for source in three_types:
        (record,) = source.records(kind="run", dtype=dtype)
        yield value(record)


def word_errors(record):
    return 100 * record["wer"]["wer"]


reports.figure("WER in bf16 and fp8 differs from that in fp32 by at most {} points", max(
    abs(a - b) for dtype in TYPES for a, b in zip(of_type(word_errors, dtype), of_type(word_errors, "fp32"), strict=True)
))  # fmt: skip
reports.figure("passes in fp32 are {} to {} times as long as those in bf16", *span(
    a / b for a, b in zip(*(of_type(lambda r: r["total_seconds"], dtype) for dtype in ("fp32", "bf16")), strict=True)
))  # fmt: skip

reports.stated("limit", "H100 80GB HBM3")
at_best = {m: fmean(theirs) / fmean(ours) for m in NAMES for _, theirs, ours in [transcribe(m)]}
ctc_at_best = at_best.pop("ctc_0.6b")
reports.figure("is {} to {} times as fast as that of NeMo 3.0.0 for transducers, and {} times (NOISY)", *span(at_best.values()), ctc_at_best)
reports.figure("on {} CPU cores.", chain["rnnt_0.6b"].records(kind="provenance")[0]["cpu"]["affinity"]["cpus"])
reports.stated("setting", "other packages' workers at nice 19", "its workers ran at nice 19", "too small with 8 workers", "NeMo always had 8 workers", "batch of 32, 64,\n128 and 256 utterances")
record, _, ours = transcribe("rnnt_0.6b")
sides = ("nemo", "whole")
of_models = [transcribe(m) for m in NAMES]
assert all({int(batch) for batch in r["sweep"][side]} == {32, 64, 128, 256} for r, *_ in of_models for side in sides)
assert all(call["collection_seconds"] == 0 for r, *_ in of_models for side in sides for call in r[side])
reports.figure("over {} calls", *{len(ours) for *_, ours in of_models})
others = {r["gpu"] for r, *_ in of_models} - {record["gpu"]}
assert len(others) == 1
_, theirs, _ = transcribe("ctc_0.6b")
reports.figure("took {} s where they came first in their turn, and {} s where", fmean(theirs[::2]), fmean(theirs[1::2]))
theirs, ours = ([call["seconds"] for call in earlier[side]] for side in sides)
reports.figure("a factor of {} [{}, {}] in {} calls", *ratio(ours, theirs), len(ours))
assert earlier["gpu"] not in others | {record["gpu"]} and all({int(batch) for batch in earlier["sweep"][side]} == {32, 128} for side in sides)
program = (ROOT / "reports/h200/chain/transcribe_program.txt").read_text()
reports.figure("`rtfx transcribe` took {} to {} s for the same speech, and {} to {} s with the start of the process",
               *(end for form in (r"in ([\d.]+) s,", r"real\s+0m([\d.]+)s") for end in span(map(float, re.findall(form, program)))))  # fmt: skip


def of_calls(batch, workers):
    """Returns the seconds of a call of NeMo's transcribe() with its own search, and of one with rtfx's."""
    (record,) = nemo_search.records(batch=batch, workers=workers)
    return [fmean(call["seconds"] for call in record[side]) for side in ("before", "after")]


reports.figure("one call took {} s with NeMo's search and {} s with rtfx's, both with 8 workers", *of_calls(128, 8))
reports.figure("Without workers, it took {} and {} s.", *of_calls(128, 0))
reports.figure("At batch 32, it took {} and {} s with 8 workers.", *of_calls(32, 8))
reports.stated("setting", "On an H200 and at batch 128, one call", "One call of each does not show")
(agree,) = nemo_search.records(batch=128, workers=0)
reports.figure("{} of {} utterances have equal tokens and frames", agree["equal"]["tokens_and_frames"], agree["utterances"])


def lengths(decoder, key, source=latency):
    """Returns a value for each length of audio, the mean of the rounds."""
    rounds = source.rounds(lambda r: [length[key] for length in r["lengths"]], decoder=decoder)
    return [fmean(values) for values in zip(*rounds, strict=True)]


reports.figure("A round has {} to {} requests of each length", *span(
    length["requests"] for r in latency.records(kind="run") for length in r["lengths"]
))  # fmt: skip
cells = " {} |" * 4
reports.figure(f"| RNN-T, `fused_looping`, median |{cells}\n| the same, 99th percentile |{cells}",
               *lengths("fused_looping", "p50_ms"), *lengths("fused_looping", "p99_ms"))  # fmt: skip
reports.figure(f"| CTC, `ctc_greedy`, median |{cells}\n| the same, 99th percentile |{cells}",
               *lengths("ctc_greedy", "p50_ms"), *lengths("ctc_greedy", "p99_ms"))  # fmt: skip
first_requests = [latency.records(kind="run", decoder=d, round=0)[0] for d in ("ctc_greedy", "fused_looping")]
assert [r["order"] for r in first_requests] == [0, 1]
reports.figure("the first request of the process\ntook {} ms (`ctc_greedy`). The first one of `fused_looping`, which ran second, took {} ms",
               *(1000 * r["first_pass"]["first_text_seconds"] for r in first_requests))  # fmt: skip

# Section "What do language models, penalties and other beams cost?"
def longer_padding(source):
    """Returns by how many seconds padding took longer in the first round than in the second one, at most over all groups of cases."""
    rounds = {(Source.field(r, "model"), Source.field(r, "batch"), r["provenance_id"], r["round"]): r["regions"]["pad"]["host_seconds"]
              for r in source.records(kind="run")}  # fmt: skip
    return max(seconds - rounds[*group, 1] for (*group, number), seconds in rounds.items() if number == 0)


reports.figure("took up to {} s longer in the first round at batch 32 and 128", max(longer_padding(s) for s in (searches, searches_tdt)))


def kept(search, other, source=searches):
    """Yields the speed of a search over that of another one in whole calls, by batch size."""
    for batch in SEARCHED:
        yield source.mean(whole_call, decoder=other, batch=batch) / source.mean(whole_call, decoder=search, batch=batch)


def kept_by_both(search, other):
    """Returns the least and the greatest for RNN-T and TDT."""
    return span(k for source in (searches, searches_tdt) for k in kept(search, other, source))


def risen(search, other, batches=(32, 128)):
    """Returns by how many points the word error rate rises, by one number at these batch sizes."""
    (points,) = {round(searches.wer(decoder=search, batch=b) - searches.wer(decoder=other, batch=b), 1) for b in batches}
    return points


reports.figure("leaves `fused_looping` {}, {} and {} of its speed for RNN-T, and {}, {} and {} for TDT",
               *(k for source in (searches, searches_tdt) for k in kept("fused_lm", "fused_looping", source)))  # fmt: skip
reports.figure("leaves `alsd_pp` at beam 4 {} to {} of its speed", *kept_by_both("alsd_pp4_lm", "alsd_pp4"))
reports.figure("is {} to {} times as fast as `alsd_pp` for RNN-T, and {} to {} times for TDT",
               *(end for s in (searches, searches_tdt) for end in span(kept("mbs4", "alsd_pp4", s))))  # fmt: skip
reports.figure("leaves `alsd_pp` {}, {} and {} of its speed for RNN-T, and {}, {} (NOISY) and {} for\n  TDT",
               *(k for source in (searches, searches_tdt) for k in kept("alsd_pp4_mbr", "alsd_pp4", source)))  # fmt: skip
reports.figure("it leaves `ctc_beam` {} of its speed in one journal and {} in the other",
               *(list(kept("ctc_beam4_mbr", "ctc_beam4", source))[-1] for source in (searches, searches_tdt)))  # fmt: skip
reports.figure("it keeps {} (NOISY), {} and {} of its speed. At batch 32 and 128, WER rises by {} points",
               *kept("fused_skip90", "fused_looping"), risen("fused_skip90", "fused_looping"))  # fmt: skip
reports.figure("`alsd_pp` is {} and {} times as fast with it at batch 1 and 128, and WER rises by {} and {} points",
               *list(kept("alsd_pp4_skip90", "alsd_pp4"))[::2], *(risen("alsd_pp4_skip90", "alsd_pp4", (b,)) for b in (1, 128)))  # fmt: skip
reports.figure("makes `alsd_pp` of operators {}, {} and {} times as fast for RNN-T. Fused kernels are {} to {} times as fast as",
               *kept("alsd_pp4_window8", "alsd_pp4_graph"), *span(kept("alsd_pp4", "alsd_pp4_graph")))  # fmt: skip
reports.figure("It has {}, {} and {} of the speed of `alsd_pp` by operators for RNN-T, and {}, {} and {} for TDT",
               *(k for source in (searches, searches_tdt) for k in kept("transducer_wfst4", "alsd_pp4_graph", source)))  # fmt: skip
reports.figure("Fused `alsd_pp` without it is {} to {} times as fast", *kept_by_both("alsd_pp4", "transducer_wfst4"))
for source, batch in product((searches, searches_tdt), SEARCHED):
    wers = {r["decoder"]["id"]: r["wer"]["wer"] for r in source.records(kind="run", batch=batch)}
    assert min(wers, key=wers.get) == "transducer_wfst4"
    if (source, batch) == (searches, 32):
        ahead = 100 * (sorted(wers.values())[1] - wers["transducer_wfst4"])
reports.figure("by {} points, which have no interval", ahead)
for source, batch in product((searches, searches_tdt), SEARCHED):  # what two sentences say without numbers
    for plain_search in ("alsd_pp4", "ctc_beam4"):
        assert source.wer(decoder=f"{plain_search}_mbr", batch=batch) >= source.wer(decoder=plain_search, batch=batch)
        slower_by_risk = ratio(*(source.rounds(whole_call, decoder=d, batch=batch) for d in (f"{plain_search}_mbr", plain_search)))
        assert batch == 1 or slower_by_risk[2] < 1
    assert source.wer(decoder="ctc_beam4_skip90", batch=batch) == source.wer(decoder="ctc_beam4", batch=batch)
    assert ratio(*(source.rounds(whole_call, decoder=d, batch=batch) for d in ("ctc_beam4_skip90", "ctc_beam4")))[2] < 1
penalties = [ratio(*(s.rounds(whole_call, decoder=d, batch=b) for d in ("fused_penalty1", "fused_looping")))
             for s in (searches, searches_tdt) for b in SEARCHED]  # fmt: skip
assert all(low <= 1 <= high for _, low, high in penalties)
for search, reference in (("fused_lm", "fused_looping"), ("alsd_pp4_mbr", "alsd_pp4")):
    holds = [low <= 1 <= high for s in (searches, searches_tdt) for b in SEARCHED
             for _, low, high in [ratio(*(s.rounds(whole_call, decoder=d, batch=b) for d in (search, reference)))]]  # fmt: skip
    assert holds == [True] + [False] * 5
reports.figure("the lowest begins at {}", min(low for _, low, _ in penalties))
reports.figure("its rounds are {} to {} ms long", *span(
    1000 * seconds for s in (searches, searches_tdt) for d in ("ctc_beam4", "ctc_beam4_skip90") for b in SEARCHED
    for seconds in s.rounds(whole_call, decoder=d, batch=b)))  # fmt: skip
beside = [r for s in (searches, searches_tdt) for r in s.records(kind="run", round=0) if r["decoder"]["id"].startswith("nemo")]
reports.figure("differ from rtfx's in up to {} of {} utterances", *max((r["dataset"]["utterances"] - equal(r), r["dataset"]["utterances"]) for r in beside))
reports.stated("meaning", "all six intervals hold 1", "the interval holds 1. It leaves", "the interval holds 1. At", "Five of its 18 times are NOISY")
for batch in (32, 128):
    assert searches.wer(decoder="alsd_pp4_lm", batch=batch) < searches.wer(decoder="alsd_pp4", batch=batch)
    for search in ("mbs4", "alsd_pp4"):
        assert searches_tdt.wer(decoder=f"{search}_lm", batch=batch) > searches_tdt.wer(decoder=search, batch=batch)
reports.figure("`modified_beam_search` has {} points more with it", searches.wer(decoder="mbs4_lm", batch=32) - searches.wer(decoder="mbs4", batch=32))
plain, penalty = (searches.records(kind="run", decoder=d, batch=32)[0]["wer"] for d in ("fused_looping", "fused_penalty1"))
assert plain == searches.records(kind="run", decoder="fused_looping", batch=128)[0]["wer"]
reports.figure("0.1 points are {} words", plain["reference_words"] / 1000)
reports.stated("data", "with\n1,024 tokens, in bf16 on\none NVIDIA H100 for each")
reports.stated("setting", "At batch 32 and 128, 0.1 points", "Its weight 0.2 was chosen", "a penalty of 1 trades", "help greedy search at batch 32\n  and 128. Beams have 0.1.", "`skip_blank` 0.9 makes", "`window` 8 makes",
               "`alpha` 0.2 and `beta` 1")  # fmt: skip
reports.figure("trades {} fewer deletions for {} more insertions and {} more substitutions", plain["deletions"] - penalty["deletions"],
               penalty["insertions"] - plain["insertions"], penalty["substitutions"] - plain["substitutions"])  # fmt: skip
reports.figure("The audio is the first {} utterances of spoken test-other, at batch 1 the first {}.",
               *(searches.records(kind="run", batch=b)[0]["dataset"]["utterances"] for b in (128, 1)))  # fmt: skip
assert not any(r["suspect"] for s in (searches, searches_tdt) for r in s.records(kind="run"))


# Section "What was not reproduced, and why?"
def total(record):
    return record["total_seconds"]


def times_as_fast(source, ours, reference, seconds=decode, **wanted):
    """Returns how many times as fast `ours` is as `reference`, from mean speeds as in the page of tables, with the 95 % interval."""
    costs = [1 / source.mean(TOTAL, decoder=d, **wanted) for d in (ours, reference)]
    if seconds is decode:
        costs = [cost * source.mean("share.decode", decoder=d, **wanted) for cost, d in zip(costs, (ours, reference), strict=True)]
    return costs[1] / costs[0], *paired_ratio(*(source.rounds(seconds, decoder=d, **wanted) for d in (ours, reference)))


def is_noisy(source, decoder, model, batch):
    (summary,) = (r for r in source.records(kind="summary") if f"{model}/" in r["case"] and f"/{decoder}/b{batch}/" in r["case"])
    return summary["noisy"]


def percent_slower(source, ours, reference, **wanted):
    """Returns by how many percent `ours` is slower in total than `reference`, with the 95 % interval."""
    share, low, high = times_as_fast(source, ours, reference, total, **wanted)
    return 100 * (1 - share), 100 * (1 - high), 100 * (1 - low)


page_of_tables = (ROOT / "reports/tables/tables.md").read_text(encoding="utf-8")
effects = [int(n) for n in re.search(r"(?m)^\| all \|(.*)\|$", page_of_tables)[1].split("|")]
same, other_size, no_difference, backwards, one_round, left_out = effects
# Effects of word error rates, which have no interval, by their direction.
words_alone = [len(re.findall(rf"(?m)\| {mark}(?:, other size)?, without interval;", page_of_tables)) for mark in ("same direction", "no difference", "reversed")]
reports.figure("in the same direction here: {} of {}. {} show no difference, and {} are reversed. {} of these effects are word error rates, which have no interval. "
               "Of them, {} go in the same direction, {} show no difference, and {} are reversed. "
               "A few words can decide those. Another {} are speeds of one round, which are not judged, and {} were",
               same, same + no_difference + backwards + one_round + left_out, no_difference, backwards,
               sum(words_alone), *words_alone, one_round, left_out)  # fmt: skip
reports.figure("Of the {} effects, {} are less than half or more than twice", same, other_size)
reports.figure("{} of their {} tables were measured at one revision: {} on NVIDIA H100s, {} on NVIDIA H200s", page_of_tables.count("\nJournal: "), len(list((ROOT / "configs/tables").glob("*.json"))),
               *(len(re.findall(rf"(?m)^Journal: .*NVIDIA {gpu}", page_of_tables)) for gpu in ("H100", "H200")))  # fmt: skip
sol, ll1, ll2, ll3, ll5 = (tables[n] for n in ("speed_of_light_table1", *(f"label_looping_table{i}" for i in (1, 2, 3, 5))))
fast = {"model": "parakeet-rnnt-1.1b", "batch": 32}
rnnt_large, tdt_large = ({"model": f"stt_en_fastconformer_{kind}_large", "batch": 32} for kind in ("transducer", "tdt"))
reports.figure("1.1B RNN-T | 2.09 | {} [{}, {}], no difference |", *times_as_fast(sol, "label_looping", "frame_looping", **fast))
reports.figure("over a baseline that waits for each row, it is {} [{}, {}] |", *times_as_fast(sol, "label_looping", "frame_looping_rows", **fast))
reports.figure("the same with CUDA graphs | 10.40 | {} [{}, {}] |", *times_as_fast(sol, "label_looping_graphs", "frame_looping", **fast))
reports.figure("over that baseline {} [{}, {}], where frame-looping with graphs has {} [{}, {}] instead of 6.59",
               *(n for d in ("label_looping_graphs", "frame_looping_graphs") for n in times_as_fast(sol, d, "frame_looping_rows", **fast)))  # fmt: skip
reports.figure("| 1.58, derived | {} [{}, {}], reversed |", *times_as_fast(sol, "label_looping_graphs", "frame_looping_graphs", **fast))
reports.figure("launched one by one, label-looping makes {} times as many joint calls", truediv(*(
    sol.mean(lambda record: record["counters"]["joint_calls"], decoder=d, **fast) for d in ("label_looping", "frame_looping")
)))  # fmt: skip
one_by_one = ("frame_looping", "frame_looping_rows", "label_looping")
assert not any(is_noisy(sol, decoder, **fast) for decoder in one_by_one)
assert all(is_noisy(sol, decoder, model, 32) for decoder, model in product(one_by_one, ("parakeet-rnnt-0.6b", "parakeet-tdt-0.6b-v2", "parakeet-tdt-1.1b")))
ctc_rounds = sol.rounds(total, model="parakeet-ctc-1.1b", decoder="ctc_greedy", batch=32)


def below_ctc(decoder):
    """Returns by how many percent a search is slower in total than CTC greedy search of a model of its own, with the interval."""
    rounds = sol.rounds(total, decoder=decoder, **fast)
    shares = fmean(ctc_rounds) / fmean(rounds), *unpaired_ratio(rounds, ctc_rounds, RUN_DRIFT)  # another GPU measured CTC
    return 100 * (1 - shares[0]), 100 * (1 - shares[2]), 100 * (1 - shares[1])


reports.figure("1.1B RNN-T on CUDA graphs | 16 % | {} % [{}, {}] |", *below_ctc("label_looping_graphs"))
reports.figure("fused kernels lose {} % [{}, {}];", *below_ctc("fused_looping"))
reports.figure("decoding alone, RNN-T large, batch 32 | 2.7 | {} [{}, {}], no difference |", *times_as_fast(ll1, "label_looping", "frame_looping", **rnnt_large))
reports.figure("over the baseline that waits for each row {} [{}, {}] |", *times_as_fast(ll1, "label_looping", "frame_looping_rows", **rnnt_large))
reports.figure("decoding alone | 3.8 | {} [{}, {}], reversed, NOISY |", *times_as_fast(ll2, "label_looping", "tdt_min_duration", **tdt_large))
reports.figure("over `tdt_min_duration` that waits for each row {} [{}, {}], NOISY |",
               *times_as_fast(ll2, "label_looping", "tdt_min_duration_rows", **tdt_large))  # fmt: skip
reports.figure("precomputed projections, batch 32 | 1.30 | {} [{}, {}], NOISY |",
               *times_as_fast(ll3, "label_looping", "label_looping_no_precompute", **rnnt_large))  # fmt: skip
assert is_noisy(ll2, "label_looping", **tdt_large)
tdt_1b_four = {"model": "parakeet-tdt-1.1b", "batch": 4}
reports.figure("label-looping has {} [{}, {}] times\n  the total speed", *times_as_fast(ll2, "label_looping", "tdt_min_duration", total, **tdt_1b_four))
assert not is_noisy(ll2, "label_looping", **tdt_1b_four)
assert not is_noisy(ll2, "tdt_min_duration", **tdt_1b_four)
assert all(is_noisy(ll3, "label_looping", **rnnt_large | {"batch": batch}) for batch in (1, 32))
assert not any(is_noisy(ll3, d, **rnnt_large | {"batch": 4}) for d in ("label_looping", "label_looping_no_precompute"))
reports.figure("at batch 1 it is {} [{}, {}], NOISY (paper: 1.21), and at batch 4 {} [{}, {}] (1.27) |", *(
    n for batch in (1, 4) for n in times_as_fast(ll3, "label_looping", "label_looping_no_precompute", **rnnt_large | {"batch": batch})
))  # fmt: skip
reports.figure("TorchScript over eager, decoding alone, RNN-T | 1.38 | {} [{}, {}], reversed |",
               *times_as_fast(ll5, "label_looping_script", "label_looping", **rnnt_large))  # fmt: skip
reports.figure("total, TDT large | 1.384 | {} [{}, {}] |", *times_as_fast(ll5, "label_looping_graphs", "label_looping", total, **tdt_large))
reports.figure("eager label-looping takes {} % of a pass here", 100 * ll5.mean("share.decode", decoder="label_looping", **tdt_large))
spgi = {"batch": 32, "dataset": "spgi"}
trained_1k, trained_24k = ({"model": f"fastconformer-rnnt-{hours}k"} for hours in (1, 24))
beam1, beam2 = tables["beam_table1"], tables["beam_table2"]
reports.figure("RNN-T | 31.1 | {} [{}, {}], NOISY |", *times_as_fast(beam1, "alsd_pp", "alsd", total, **trained_1k, **spgi))
reports.figure("ALSD++ makes {} times fewer joint calls", truediv(*(
    beam1.mean(lambda record: record["counters"]["joint_calls"], decoder=d, **trained_1k, **spgi) for d in ("alsd", "alsd_pp")
)))  # fmt: skip
reports.figure("RNN-T | 8.86 | {} [{}, {}], NOISY |", *times_as_fast(beam1, "aes_pp", "aes", total, **trained_1k, **spgi))
reports.figure("AES++ makes {} times fewer joint calls", truediv(*(
    beam1.mean(lambda record: record["counters"]["joint_calls"], decoder=d, **trained_1k, **spgi) for d in ("aes", "aes_pp")
)))  # fmt: skip
tdt_on_an4 = {"model": "fastconformer-tdt-24k", "batch": 32, "dataset": "slurp"}
reports.figure("CUDA graphs | 0.1 % | {} % [{}, {}] |", *percent_slower(beam1, "alsd_pp_cg_lm_slurp_tdt", "greedy_lm_slurp_tdt", **tdt_on_an4))
reports.figure("| the search takes {} % of a greedy pass here |", 100 * beam1.mean("share.decode", decoder="greedy_lm_slurp_tdt", **tdt_on_an4))
reports.figure("a beam takes {} [{}, {}] times as long as greedy search", *times_as_fast(beam2, "greedy", "alsd_pp_cg", **trained_24k, **spgi))
reports.figure("batch 32, CUDA graphs | 14.9 % | {} % [{}, {}] |", *percent_slower(beam2, "alsd_pp_cg", "greedy", **trained_24k, **spgi))
reports.figure("the search takes {} % of a greedy pass here and about", 100 * beam2.mean("share.decode", decoder="greedy", **trained_24k, **spgi))
words_of_spgi = beam1.records(kind="run", decoder="greedy", **trained_24k, **spgi)[0]["wer"]["reference_words"]
greedy_wer, lm_wer = (beam1.wer(decoder=d, **trained_24k, **spgi) for d in ("greedy", "greedy_lm_spgi_24k"))
reports.figure("spoken test-other (for SPGISpeech), RNN-T | 7.5 % | {} %, {} of {} words |", 100 * (1 - lm_wer / greedy_wer), (greedy_wer - lm_wer) / 100 * words_of_spgi, words_of_spgi)
best_weight = beam1.records(kind="run", decoder="greedy_lm_spgi_24k")[0]["decoder"]["options"]["lm"]["alpha"]


def errors_at(weight):
    (record,) = Source("h100/tuning/greedy_rnnt-24k.jsonl.gz").records(kind="run", decoder=f"greedy_fused_lm_spgi_24k[lm.alpha={weight:g}]")
    return sum(record["wer"][kind] for kind in ("substitutions", "insertions", "deletions"))


reports.figure("the best weight ({}) has {} errors, and search without the model has {}", best_weight, errors_at(best_weight), errors_at(0))
CTC = [f"conformer-ctc-{size}" for size in ("small", "medium", "large")]
wfst2, wfst3, wfst_forms = tables["wfst_table2"], tables["wfst_table3"], tables["wfst_ablations"]
sets = [{"model": model, "dataset": dataset} for model in CTC for dataset in ("test_clean", "test_other")]
reports.figure("total, batch 200 | 4.6 to 7.3 | {} to {} |", *span(
    wfst2.mean(TOTAL, decoder="cuda_compact", **at) / wfst2.mean(TOTAL, decoder="flashlight", **at) for at in sets
))  # fmt: skip
reports.figure("Flashlight itself transcribes {} to {} seconds of audio per second here, and 465 to 646 in the paper", *span(
    wfst2.mean(TOTAL, decoder="flashlight", **at) for at in sets
))  # fmt: skip
reports.figure("decoding alone | 47 to 67 | {} to {}, one round |", *span(
    wfst3.mean(DECODE, decoder="cuda_compact", **at) / wfst3.mean(DECODE, decoder="lexicon_1_core", **at) for at in sets
))  # fmt: skip


reports.figure("over our own CPU search with the same beams, the factor is {} to {} |", *span(
    wfst2.mean(TOTAL, decoder="cuda_compact", **at) / wfst2.mean(TOTAL, decoder="lexicon", **at) for at in sets
))  # fmt: skip
reports.figure("over its 16 threads, the factor is {} to {} |", *span(
    wfst3.mean(DECODE, decoder="cuda_compact", **at) / wfst3.mean(DECODE, decoder="lexicon_16_cores", **at) for at in sets
))  # fmt: skip
on_gpu, on_cpu = (tables["wfst_table4"].records(kind="stream", decoder=d, batch=256)[0]["metrics"] for d in ("cuda_compact", "cpu_compact"))
reports.figure("CPU over GPU | 7.9 | {}, one trial | our CPU search takes {} % of the time, and the encoder {} % |",
               on_cpu["stream.total_ms"] / on_gpu["stream.total_ms"], 100 * on_cpu["stream.busy.search"], 100 * on_cpu["stream.busy.encoder"])  # fmt: skip


def saved(without, with_it, batch=200):
    """Returns how much of decoding is saved, in percent, with the 95 % interval."""
    share, low, high = ratio(*(wfst_forms.rounds(decode, decoder=d, batch=batch) for d in (without, with_it)))
    return 100 * (1 - share), 100 * (1 - high), 100 * (1 - low)


reports.figure("save launches, batch 200 | up to 20 % | {} % [{}, {}] |", *saved("phases", "phases_graph"))
reports.figure("where each frame is a CUDA graph | about 25 % | {} % [{}, {}], no difference |", *saved("phases_graph", "phases_graph_double_buffer"))
reports.figure("at batch 1 it is {} %, and at batch 400 {} % [{}, {}]", saved("phases", "phases_graph", 1)[0], *saved("phases", "phases_graph", 400))
reports.figure("without the graph it is {} % [{}, {}] |", *saved("phases", "phases_double_buffer"))
reports.stated("paper", "about half the beam of 32", "instead of 6.59", "instead of 1.70", "latency of 256 streams", "| 1.58, derived |", "where the pull request has 15", "and 465 to 646 in the paper",
               "| 14.9 % |", "| 7.5 % |", "| 16 % |", "| 0.1 % |", "| 8.86 |", "| 1.384 |")  # fmt: skip


def joint_calls(decoder, **at):
    return tables["label_looping_figure2"].mean(lambda record: record["counters"]["joint_calls"], decoder=decoder, **at)


reports.figure("makes {} times as many for RNN-T and {} times for TDT, and at batch 128 {} and {} times", *(
    joint_calls("label_looping", **at) / joint_calls("frame_looping", **at)
    for at in (rnnt_large, tdt_large, rnnt_large | {"batch": 128}, tdt_large | {"batch": 128})
))  # fmt: skip
reports.figure("all {} utterances)", utterances(tables["label_looping_figure2"]))
steps = tables["replay_graphs"]
clips = {"dataset": "clips_7.4s"}
reports.figure("With recorded step graphs, a batch of eight is {} times as fast", fmean(steps.rounds(decode, decoder="rebuild", batch=1, **clips))
               / fmean(steps.rounds(decode, decoder="coalesced", batch=8, **clips)))  # fmt: skip
on_cpu_steps = tables["replay_graphs_cpu"]


def least_decode(decoder, dataset):
    return min(on_cpu_steps.rounds(decode, decoder=decoder, dataset=dataset))


reports.figure("the two forms with recorded graphs have {} to {} times the speed of the one without", *span(
    least_decode("rebuild", dataset) / least_decode(form, dataset) for form in ("replay", "coalesced") for dataset in ("clips_7.4s", "clips_23s")
))  # fmt: skip
suspect_steps = [sum(bool(r["suspect"]) for r in on_cpu_steps.records(kind="run", decoder=form, dataset=dataset))
                 for form in ("replay", "coalesced") for dataset in ("clips_7.4s", "clips_23s")]  # fmt: skip
reports.figure("and {} to {} of {} are suspect", *span(suspect_steps), len(on_cpu_steps.records(kind="run", decoder="replay", dataset="clips_23s")))
recorded = re.findall(r"\| \[replay_graphs\]\S+ \| (\d+) \| \d+ \| 0 \| 0 \| 0 \| 0 \|", page_of_tables)
reports.figure("All {} effects of recorded step graphs", int(recorded[0]))


def boosted(arm, scale):
    return tables["wfst_figure6"].wer(decoder=f"{arm}[boost.scale={scale}]")


reports.figure("Here it is {} % without boost, {} % at 2, {} % at 4 and {} % at 8", *(boosted("accurate", scale) for scale in (0, 2, 4, 8)))
reports.figure("it rises from {} % at 2 to {} % at 32. These are {} utterances", *(boosted("inaccurate", scale) for scale in (2, 32)),
               utterances(tables["wfst_figure6"]))  # fmt: skip
with_lm, without_lm = (beam1.wer(decoder=d, **trained_24k, **spgi) for d in ("alsd_pp_cg_lm_spgi_24k", "alsd_pp_cg"))
reports.figure("ALSD++ on CUDA graphs has {} % with it for RNN-T, and {} % \n  without, on {} utterances", with_lm, without_lm, utterances(beam1, dataset="spgi"))
on_an4 = [beam1.records(kind="run", decoder=d, dataset="slurp", **trained_24k)[0]["wer"] for d in ("alsd_pp_fused", "alsd_pp_fused_lm_slurp_24k")]
reports.figure("from {} % to {} %. AN4 has {} words, so that this is\n  {} words", *(100 * words["wer"] for words in on_an4), on_an4[0]["reference_words"],
               on_an4[1]["wer"] * on_an4[1]["reference_words"] - on_an4[0]["wer"] * on_an4[0]["reference_words"])  # fmt: skip
sweep = tables["beam_figure2"]
reports.figure("chose weights and ways of fusion on {} spoken utterances", utterances(sweep))
reports.figure("beams of 6 on {} development utterances", utterances(sweep))


def swept(pruning, blank, weight, of="wer"):
    """Returns the word error rate of ALSD++ with the RNN-T of 1k hours, or its share of deleted words, in percent."""
    words = sweep.records(kind="run", decoder=f"alsd_pp_{pruning}_{blank}[lm.alpha={weight}]", **trained_1k)[0]["wer"]
    return 100 * (words["wer"] if of == "wer" else words[of] / words["reference_words"])


reports.figure("then has {} % at a weight of {} and {} % at {}, where {} %\n  of the words are deleted",
               swept("late", "no_score", 0.2), 0.2, swept("late", "no_score", 1.0), 1, swept("late", "no_score", 1.0, "deletions"))  # fmt: skip
reports.figure("With blank rescaled it has {} % and {} %", *(swept("late", "lm_weighted_full", weight) for weight in (0.2, 1.0)))
words_of_dev = sweep.records(kind="run", **trained_1k)[0]["wer"]["reference_words"]
reports.figure("rescaling\n  gains {} of {} words", (swept("late", "no_score", 0.2) - swept("late", "lm_weighted_full", 0.2)) / 100 * words_of_dev, words_of_dev)
reports.figure("early pruning has {} % too", swept("early", "lm_weighted_full", 0.2))
reports.figure("it chose a weight of {}", beam1.records(kind="run", decoder="greedy_lm_spgi_1k")[0]["decoder"]["options"]["lm"]["alpha"])
adversarial = tables["speed_of_light_adversarial"]
adversarial_cases = read_journal(ROOT / "reports" / adversarial.file).cases
true_share = true_shares(adversarial_cases)
adversarial_sets = {(share_of(case), case.last["batch"]["size"]): case.dataset for case in adversarial_cases}


def for_each(record):
    """Returns the seconds of decoding an utterance."""
    return decode(record) / record["dataset"]["utterances"]


def longer(decoder, share=0.01, batch=32):
    """Returns how many times as long an utterance is decoded where others in its batch are long, with the 95 % interval."""
    names = (adversarial_sets[p, batch] for p in (0, share))
    return ratio(*(adversarial.rounds(for_each, decoder=decoder, batch=batch, model="parakeet-rnnt-0.6b", dataset=name) for name in names))


reports.figure("RNN-T 0.6B decodes {} [{}, {}] times as long by", *longer("frame_looping_graphs"))
reports.figure("By label-looping on graphs it is\n  {} [{}, {}] times, and by `fused_looping` {} [{}, {}] times", *longer("label_looping_graphs"), *longer("fused_looping"))
all_adversarial = adversarial.records(kind="run")
of_cases = adversarial.records(kind="summary")
reports.figure("Of the {} rounds {} are suspect, and {} of {} cases are NOISY", len(all_adversarial), sum(bool(r["suspect"]) for r in all_adversarial),
               sum(r["noisy"] for r in of_cases), len(of_cases))  # fmt: skip
alone = [longer(decoder, 1)[0] for decoder in ("frame_looping_graphs", "label_looping_graphs", "fused_looping")]
reports.figure("take\n  {} to {} times as long as those of 5 s. If each held up its whole batch, {} to {} times would be expected", *span(alone),
               *span(expected(true_share[0.01, 32], 32, slow) for slow in alone))  # fmt: skip
reports.figure("`fused_looping` takes {} [{}, {}] times as long, where {} would be expected", *longer("fused_looping", batch=128),
               expected(true_share[0.01, 128], 128, longer("fused_looping", 1, 128)[0]))  # fmt: skip
reports.stated("setting", "With 1 % of 30 s among those of 5 s, in batches of 32", "utterances of 30 s take", "as those of 5 s. If", "In batches of\n  128", "cannot show differences\n  below 13 %", "effects are of 2 %", "table 2, batch 4)",
               "`--batches 200`", "The second one has 735 utterances", "(for AES on 64 of them)", "had 64, 32 or 16 processor threads", "RNN-T large, batch 32). So three")  # fmt: skip
waiting = {r["decoder"]["id"]: 100 * (1 - r["regions"]["decode"]["busy"]["share"]) for r in tables["profile"].records(kind="profile")}
reports.figure("No kernel runs for {} % of the decoding time of frame-looping, and for {} % where it reads", waiting["frame_looping"], waiting["frame_looping_rows"])
reports.figure("On CUDA graphs, kernels take {} % of the time", 100 - waiting["frame_looping_graphs"])
reports.stated("paper", "The paper states 80 %")
in_double = Source("cpu/beam_fp64.jsonl.gz")


def errors_in(dtype):
    """Returns the word errors of each search and model."""
    kinds = ("substitutions", "insertions", "deletions")
    return {(r["model"]["id"], r["decoder"]["id"]): [r["wer"][kind] for kind in kinds] for r in in_double.records(kind="run", dtype=dtype)}


double, single, half = (errors_in(dtype) for dtype in ("fp64", "fp32", "bf16"))
assert double == single and len(double) == 10
changed = [sum(half[key]) - sum(single[key]) for key in single]
assert {r["model"]["id"] for r in in_double.records(kind="run")} == {"standin256-rnnt", "standin256-tdt"}
reports.figure("for {} utterances on a CPU with `standin256-rnnt`", in_double.records(kind="run")[0]["dataset"]["utterances"])
reports.figure("between {} word errors fewer and {} more, of {} to {} (", -min(changed), max(changed), *span(map(sum, single.values())))
reports.stated("meaning", "where 1.9 times as fast is an effect of 0.9")
again = Source("h100/aa.jsonl.gz")
reports.figure("the second is {} [{}, {}] times as fast", *times_as_fast(again, "frame_looping.aa", "frame_looping"))
reports.stated("setting", "Table 1 of\nLabel-Looping", "at batch 4. Table 2 has", "at batch 1. Both have",
               "with 16 processor threads each", "with 4x sub-sampling")  # fmt: skip
reports.figure("Label-Looping has {} utterances at batch 1, and {} at batch 4", *(utterances(ll1, batch=b) for b in (1, 4)))
reports.figure("Table 2 has {} at batch 1. Both have all", utterances(ll2, batch=1))
reports.figure("Both have all {} utterances\nat larger batches", *{utterances(table, batch=b) for table, b in [(ll1, 16), (ll1, 32), (ll2, 4), (ll2, 16), (ll2, 32)]})


def minutes_of_a_pass(table):
    """Returns how long all searches of each model take at batch 1 over all utterances, by the times of a sample."""
    for model in dict.fromkeys(m["id"] for about in table.records(kind="provenance") for m in about["models"]):
        first_round = table.records(kind="run", model=model, batch=1, round=0)
        share = first_round[0]["dataset"]["audio_seconds"] / whole_set["audio_seconds"]
        yield sum(record["total_seconds"] for record in first_round) / share / 60


reports.figure("would take {} to {} minutes\nfor each model of both tables", *span(n for table in (ll1, ll2) for n in minutes_of_a_pass(table)))
reports.figure("In table 1 of ALSD++, the models of 1k hours have {} utterances. In its table 2, batch 32 has {}",
               utterances(beam1, dataset="spgi", **trained_1k), utterances(beam2, dataset="spgi"))  # fmt: skip
reports.stated("data", "Hub5'00")
reports.stated("meaning", "medians or 99th percentiles")

PAGES = [readme, reports]
