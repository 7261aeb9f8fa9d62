"""The measured figures of reports/notes, and the journals that they come from, as figures.py has them for the other pages."""

import re
from itertools import product
from statistics import fmean, median, stdev

from figures import (
    SEARCHED,
    TOTAL,
    TYPES,
    aligned,
    aligned_by_torchaudio,
    boosting_rivals,
    f_scores,
    factors,
    interval_of_slower,
    lengths,
    lm_greedy,
    nemo_beam,
    nemo_lm,
    vocabulary,
    waited,
    wfst,
    wfst_cpu,
)
from rival_reports import RIVA, RIVA_LISTS, WFST
from traced import Page, ROOT, Source, decode, equal, ratio, span, whole_call

# ---------------------------------------------------------------------------------------------------------------------
rivals = Page("reports/notes/rivals.md")
rivals.stated("meaning", "differ by more than 5 %")
rivals.stated("data", "vocabulary of 1,024 tokens", "The lexicon of 40,000 words lacks 2.4 % of the words of these utterances",
              "the first 48 and 256 utterances")  # fmt: skip
rivals.stated("setting", "`beta` 0.5", "all six cases with signal 6", "were batch 32 and 128, and in that of the TDT model batch 8 to 128", "At batch\n32 the word", "Up to 3.0.0")
rivals.stated("meaning", "the interval holds 1:")
rivals.figure("the word error rate of ALSD++ is {} % here and {} % with NeMo, and that of AES++ is {} % and {} %", *(
    nemo_lm.wer(decoder=d, batch=32) for d in ("alsd_pp4_fused_lm", "nemo_malsd_batch4_graphs_lm", "aes_pp4_fused_lm", "nemo_maes_batch4_lm")
))  # fmt: skip

rivals.figure("For best paths, rtfx's whole calls are {} to {} times as fast as riva's", *span(factors(wfst, RIVA, whole_call)))


def lists(batch):
    """Returns how many times as fast rtfx's lists are as riva's."""
    _, ours, theirs = RIVA_LISTS
    return wfst.mean(whole_call, decoder=theirs, batch=batch) / wfst.mean(whole_call, decoder=ours, batch=batch)


rivals.figure("For lists of\nten texts, they are {} (NOISY), {} and {} (NOISY) times as fast", *(lists(batch) for batch in SEARCHED))
for searched, size in product(RIVA_LISTS[1:], (32, 128)):
    at = {"decoder": searched, "batch": size}
    rivals.figure("the same oracle WER, {} % of {} utterances", wfst.mean(lambda r: 100 * r["oracle_wer"]["wer"], **at),
                  wfst.mean(lambda r: r["dataset"]["utterances"], **at))  # fmt: skip
*kaldi, flashlight = WFST
rivals.figure("rtfx is {} to {} times as fast as kaldi-decoder, and {} to {} times as fast as flashlight-text",
              *span(factors(wfst_cpu, kaldi, whole_call)), *span(factors(wfst_cpu, [flashlight], whole_call)))  # fmt: skip
cpu = wfst_cpu.records(kind="provenance")[0]["cpu"]
rivals.figure("the same {} CPUs. rtfx searched with {} threads", cpu["affinity"]["cpus"], cpu["threads"])


def alignments(batch):
    """Returns the least and the greatest rate of rtfx's repeats."""
    return span(r["rows/s"] for r in aligned.records(run_type="iteration") if f"/batch{batch}/" in r["name"])


rivals.figure("where both align one utterance, rtfx is {} times as fast",
              alignments(1)[1] / aligned_by_torchaudio.records(batch=1)[0]["rows_per_second"])  # fmt: skip
rivals.figure("These are {} to {} times torchaudio's best", *(
    rate / aligned_by_torchaudio.records(batch=128)[0]["rows_per_second"] for rate in alignments(128)))  # fmt: skip
ctc_beams = {f"nemo_ctc_beam8{form}": nemo_beam.records(decoder=f"nemo_ctc_beam8{form}") for form in ("", "_graphs")}
rivals.figure("NeMo's CTC beam failed in {} of {} cases", *(
    sum(len({r["case"] for r in records if r["kind"] in kinds}) for records in ctc_beams.values()) for kinds in (("failure",), ("failure", "run"))
))  # fmt: skip
single = [r for records in ctc_beams.values() for r in records if r["kind"] == "run" and r["batch"]["size"] == 1]
(unequal,) = {r["dataset"]["utterances"] - equal(r) for r in single}
rivals.figure("At batch 1 in bf16, {} of {} results differ", unequal, single[0]["dataset"]["utterances"])
rivals.figure("rtfx's five repeats lie between {} and {} utterances per second", *alignments(128))

# ---------------------------------------------------------------------------------------------------------------------
boosting = Page("reports/notes/boosting.md")
spoken = boosting_rivals.records(kind="run", round=0)[0]
boosting.figure("compares {} spoken sentences ({} words) with 100 phrases", spoken["dataset"]["utterances"], spoken["wer"]["reference_words"])
boosting.stated("setting", "with 100 phrases, in fp32", "Scales are 0, 0.3, 0.7, 1, 2 and 4")


def equal_tokens(page, search, model, blank=""):
    """Returns by scale how many utterances have a rival's tokens. The tables come from the texts of the run, which are not
    committed."""
    text = (ROOT / f"reports/cpu/{page}.md").read_text()
    (section,) = re.findall(rf"(?ms)^## {model}, spoken, [^\n]*: {search} beside nemo [\d.]+{blank}$.*?(?=^## |\Z)", text)
    return {scale: int(count) for scale, count in re.findall(r"(?m)^\| phrases_100 \| ([\d.]+) \|.*\| (\d+) of \d+ \| \d+ \| [^|]+ \|$", section)}


TRANSDUCERS = (("label_looping", "`greedy_batch`", "greedy"), ("alsd_pp", "`malsd_batch`, beam 4", "beam"))
for model, rows in (
    ("standin-rnnt", (*TRANSDUCERS, ("ctc_greedy", "`greedy_batch`", "ctc"))),
    ("standin-tdt", TRANSDUCERS),
):
    for ours, theirs, search in rows:
        boosting.figure(f"| {model} | `{ours}`, {theirs} | all {{}}, every scale | {{}} | {{}} |",
                        min(equal_tokens("boosting_rivals", ours, model).values()), *f_scores(search, model))  # fmt: skip
beam_batch = equal_tokens("boosting_rivals", "ctc_beam", "standin-rnnt")
boosting.figure("| standin-rnnt | `ctc_beam`, `beam_batch`, beam 4 | all {}; {} at scale 4 | {} | {} |",
                min(count for scale, count in beam_batch.items() if scale != "4"), beam_batch["4"], *f_scores("ctc_beam"))  # fmt: skip
boosting.figure("batches of one](../cpu/boosting_rivals_batch1.md) all {} are equal",
                min(equal_tokens("boosting_rivals_batch1", "ctc_beam", "standin-rnnt").values()))  # fmt: skip

weighted = [n for model in ("standin-rnnt", "standin-tdt") for n in equal_tokens("boosting_rivals", "alsd_pp", model, ", blank weighted").values()]  # fmt: skip
boosting.figure("With NeMo's weighted blank, {} to {} of {} utterances", *span(weighted), spoken["dataset"]["utterances"])
(eager,) = boosting_rivals.records(kind="run", model="standin-tdt", round=0, decoder="nemo_greedy[options.boost_alpha=0]")
boosting.figure("at scale 0, for {} of {} utterances", eager["dataset"]["utterances"] - equal(eager), eager["dataset"]["utterances"])
(some, rounds), (none, others_of_tdt) = waited("standin-rnnt"), waited("standin-tdt")
boosting.figure("{} of {} rounds are suspect", some + none, rounds + others_of_tdt)
boosting_cost = Source("h200/live/boosting_cost_b3d8b34.jsonl.gz")
assert not any(r["suspect"] for r in boosting_cost.records(kind="run"))


def decode_ms(decoder, batch):
    return 1000 * median(boosting_cost.rounds(decode, decoder=decoder, batch=batch))


def slowdown(decoder, batch):
    """Returns how much slower phrases make decoding, in percent."""
    return 100 * (decode_ms(decoder, batch) / decode_ms("fused_looping", batch) - 1)


COSTS = (1, 32, 128)
boosting.stated("setting", "1,000 phrases for all utterances", "1,000 phrases for each utterance make it")
boosting.figure("make decoding by `fused_looping` {} to {} % slower", *span(slowdown("fused-1000", b) for b in COSTS))
boosting.figure("make it {} to {} % slower", *span(slowdown("fused-1000-own", b) for b in COSTS))
boosting.figure("for the same {} sentences ({} s of audio)", *(
    boosting_cost.records(kind="run")[0]["dataset"][key] for key in ("utterances", "audio_seconds")
))  # fmt: skip
for batch in COSTS:
    boosting.figure(f"| {batch} | {{}} | {{}} % | {{}} % |", decode_ms("fused_looping", batch), slowdown("fused-1000", batch),
                    slowdown("fused-1000-own", batch))  # fmt: skip
own = [1000 * s for s in boosting_cost.rounds(decode, decoder="fused-1000-own", batch=32)]
boosting.figure("vary by {} % ({} to {} ms)", 100 * stdev(own) / fmean(own), *span(own))

# ---------------------------------------------------------------------------------------------------------------------
word_graphs = Page("reports/notes/word_graphs.md")
transducer_wfst = Source("cpu/transducer_wfst.jsonl.gz")
SETS = ("quickstart", "spoken")
graph4, graph8 = "graph[beam_size=4]", "graph[beam_size=8]"
word_graphs.figure("in {} to {} times the decode time of modified beam search with that model", *span(
    transducer_wfst.mean(decode, decoder=graph4, dataset=s) / transducer_wfst.mean(decode, decoder="modified_lm", dataset=s) for s in SETS
))  # fmt: skip
word_graphs.figure("the fewest word errors on the spoken sentences: {}. The 6-gram, measured at beam 4 alone, has {}", *(
    transducer_wfst.mean(lambda r: r["wer"]["wer"] * r["wer"]["reference_words"], decoder=d, dataset="spoken") for d in (graph8, "alsd_pp_lm")))  # fmt: skip
word_graphs.stated("setting", "over 40,000 words", "`alpha` 0.2 and `beta` 1", "among 0.2, 0.3 and 0.5, and 0, 0.5, 1 and 1.5")
word_graphs.stated("meaning", "differ by more than 5 %")
word_graphs.stated("data", "The graph has 40,001 words and a word 3-gram, in 203,382 states and 636,112 arcs")
for label, decoder in (
    ("`label_looping`", "label_looping"), ("`alsd_pp`, beam 4", "alsd_pp"), ("`alsd_pp`, beam 4, 6-gram of tokens", "alsd_pp_lm"),
    ("`modified_beam_search`, beam 4", "modified"), ("`modified_beam_search`, beam 4, 6-gram of tokens", "modified_lm"),
    ("`transducer_wfst`, beam 4", graph4), ("`transducer_wfst`, beam 8", graph8),
):  # fmt: skip
    noisy = " NOISY" if decoder in ("alsd_pp", "modified", graph8) else ""
    word_graphs.figure(f"| {label} | {{}} | {{}} | {{}}{noisy} | {{}} |",
                       *(transducer_wfst.wer(decoder=decoder, dataset=s) for s in SETS),
                       *(transducer_wfst.mean(decode, decoder=decoder, dataset=s) for s in SETS))  # fmt: skip
sizes = [transducer_wfst.records(kind="run", dataset=s)[0] for s in SETS]
word_graphs.figure("The data are {} recordings ({} s, {} words) and {} spoken sentences ({} s, {} words)", *(
    n for r in sizes for n in (r["dataset"]["utterances"], r["dataset"]["audio_seconds"], r["wer"]["reference_words"])
))  # fmt: skip
word_graphs.figure("deletions on the spoken sentences fall from {} to {} from beam 4 to 8", *(
    transducer_wfst.mean(lambda r: r["wer"]["deletions"], decoder=d, dataset="spoken") for d in (graph4, graph8)
))  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------------
microbenchmarks = Page("reports/notes/microbenchmarks.md")
microbench, block = Source("h200/microbench.json.gz"), Source("h100/block.json.gz")


def benchmark(name, rate="rows/s"):
    """Returns time and rate of a benchmark."""
    (found,) = [b for b in microbench.records() if re.fullmatch(rf"{name}(/cuda)?/process_time/real_time", b["name"])]
    return found["real_time"], found[rate]


M = 1e6  # millions
for label, name, unit, scale, rate in (
    ("`top_k/own`", "top_k/own/cuda/batch32/beam4", "µs", M, "M rows/s"),
    ("`top_k/libtorch`", "top_k/libtorch/cuda/batch32/beam4", "µs", M, "M rows/s"),
    ("`language_model/scores`", "language_model/scores/cuda/batch32", "µs", M, "M rows/s"),
    ("`language_model/next_states`", "language_model/next_states/cuda/batch32", "µs", M, "M rows/s"),
    ("`joint/decide`", "joint/decide/cuda/bf16/batch32", "µs", 1, "rows/s"),
    ("`joint/log_probs_of_beams`", "joint/log_probs_of_beams/cuda/bf16/batch32", "µs", M, "M rows/s"),
    ("`prediction/predict`", "prediction/predict/cuda/bf16/batch32", "µs", 1, "rows/s"),
    ("`beam_step/operators`", "beam_step/operators/cuda/bf16/batch32/beam4", "ms", 1, "steps/s"),
    ("`beam_step/fused`", "beam_step/fused/cuda/bf16/batch32/beam4", "ms", 1, "steps/s"),
    ("`host_read/integer`", "host_read/integer", "µs", 1, "reads/s"),
    ("`host_read/any_of_128_flags`", "host_read/any_of_128_flags", "µs", 1, "reads/s"),
    ("`phrase_tree/scores`, 1,000 phrases", "phrase_tree/scores/cuda/1000phrases/batch32", "µs", M, "M rows/s"),
    ("`phrase_tree/next_states`, 1,000 phrases", "phrase_tree/next_states/cuda/1000phrases/batch32", "µs", 1, "rows/s"),
):
    time, per_second = benchmark(name, rate.removeprefix("M "))
    microbenchmarks.figure(f"| {label} | {{}} {unit} | {{}} {rate} |", time, per_second / scale)
time, per_second = benchmark("streams/push/cuda/bf16/64streams/14frames", "frames/s")
microbenchmarks.figure("| `streams/push`, 64 streams of 14 frames | {} ms | {} frames/s |", time / 1000, per_second)
for label, name in (("`graph_nodes/while_node`, a round of a conditional node", "graph_nodes/while_node/cuda/100rounds"),
                    ("`graph_nodes/in_a_row`, the same nodes without it", "graph_nodes/in_a_row/cuda/100rounds")):  # fmt: skip
    time, per_second = benchmark(name, "rounds/s")
    microbenchmarks.figure(f"| {label} | {{}} µs | {{}} rounds/s |", time / 100, per_second)


def own_share(work):
    """Yields own time over that of the library's faster form, for each size of a block and each number of blocks."""
    ratios = {}
    for found in block.records(aggregate_name="median"):
        if found["name"].startswith(f"{work}/"):
            size = re.sub(r"/(cub|group)_\w+", "", found["name"])
            ratios[size] = max(ratios.get(size, 0), found["ratio"])
    return ratios.values()


microbenchmarks.figure("was {} to {} for the greatest key, {} to {} for the least float, and {} to {} for sums of floats",
                       *(n for work in ("greatest_key", "least_float", "sum_of_floats") for n in span(own_share(work))))  # fmt: skip
microbenchmarks.figure("It was {} to {} for any thread, {} to {} for exclusive sums, and {} to {} for the barrier",
                       *(n for work in ("any_thread", "exclusive_sum", "grid_barrier") for n in span(own_share(work))))  # fmt: skip
microbenchmarks.stated("setting", "10 repetitions", "From batch 32 to 1")


def at_one(*names):
    """Yields by how many percent the time at batch 1 is below that at batch 32."""
    for name in names:
        rate = "steps/s" if name.startswith("beam_step") else "rows/s"
        one, many = (benchmark(name.replace("batch32", batch), rate)[0] for batch in ("batch1", "batch32"))
        yield 100 * (1 - one / many)


microbenchmarks.figure("language model and prediction change by up to {} %", max(map(abs, at_one(
    "language_model/scores/cuda/batch32", "language_model/next_states/cuda/batch32", "prediction/predict/cuda/bf16/batch32"))))  # fmt: skip
microbenchmarks.figure("Joints fall by {} to {} %, and beam steps by {} to {} %", *span(at_one(
    "joint/decide/cuda/bf16/batch32", "joint/log_probs_of_beams/cuda/bf16/batch32")), *span(at_one(
    "beam_step/operators/cuda/bf16/batch32/beam4", "beam_step/fused/cuda/bf16/batch32/beam4")))  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------------
loading = Page("reports/notes/loading.md")
checkpoint_load = Source("h200/checkpoint_load.json")
loading.stated("data", "(2.47 GB of fp32 weights)")
loading.stated("setting", "16 CPU cores", "a recording of 2 s")


def load(name, state):
    (found,) = checkpoint_load.records(name=f"{name}/{state}/process_time/real_time_median")
    return found


READ = [load("read_file", state)["real_time"] for state in ("warm", "cold")]
loading.figure("| reading the file | {} | {} | – |", *READ)
for device, cell in (("cpu", "CPU"), ("cuda", "GPU")):
    for dtype in ("fp32", "bf16"):
        loads = [load(f"load/{device}/{dtype}", state) for state in ("warm", "cold")]
        loading.figure(f"| {cell}, {dtype} | {{}} ({{}}) | {{}} ({{}}) | {{}} |",
                       *(n for found, read in zip(loads, READ, strict=True) for n in (found["real_time"], found["real_time"] / read)),
                       max(found["peak_per_weights"] for found in loads))  # fmt: skip
first_words = re.findall(r"(?m)^(\w+) (\w+) ([\d.]+) s", (ROOT / "reports/h200/first_words.txt").read_text())


def both_runs(device):
    """Returns the seconds of two runs in fp32 and of two in bf16."""
    return [float(seconds) for dtype in ("fp32", "bf16") for d, t, seconds in first_words if (d, t) == (device, dtype)]


loading.figure("On the CPU they took {} and {} s in fp32, and {} and {} s in bf16", *both_runs("cpu"))
loading.figure("On the GPU they took {} and {} s in fp32, and {} and {} s in bf16", *both_runs("cuda"))
scattered = [r["real_time"] for r in checkpoint_load.records(aggregate_name="cv") if r["name"].startswith("load/")]
noisy_loads = [100 * cv for cv in scattered if cv > 0.05]
assert (len(noisy_loads), len(scattered)) == (5, 8)
loading.figure("Five of the eight loads scatter by {} to {} %", *span(noisy_loads))

# ---------------------------------------------------------------------------------------------------------------------
speed = Page("reports/notes/speed.md")
lm_before, vocabulary_before = (Source(f"h100/searches/{name}_before.jsonl.gz") for name in ("greedy", "vocabulary"))
BUILDS = (lm_before, lm_greedy)
RNNT = {"model": "standin256-rnnt"}


def called(source, decoder, batch):
    """Returns the mean seconds of whole calls of a search of RNN-T."""
    return source.mean(whole_call, decoder=decoder, batch=batch, **RNNT)


audio = {b: lm_greedy.records(kind="run", batch=b, **RNNT)[0]["dataset"]["audio_seconds"] for b in SEARCHED}
speed.figure("RTFx of whole calls | {} NOISY, {} NOISY, {} NOISY | {} NOISY, {} NOISY, {} |",
             *(audio[b] / called(source, "ctc_greedy", b) for source in BUILDS for b in SEARCHED))  # fmt: skip
speed.figure("speed with a model / without | {}, {}, {} | {}, {}, {} |", *(
    called(source, "fused_looping", b) / called(source, "fused_lm", b) for source in BUILDS for b in SEARCHED
))  # fmt: skip


def longer(source, kind, batch):
    """Returns how many times as long fused_looping decodes with 8,192 tokens as with 1,024."""
    at = {"decoder": "fused_looping", "batch": batch}
    return source.mean(decode, model=f"{kind}-8192", **at) / source.mean(decode, model=f"{kind}-1024", **at)


for kind, label in (("rnnt", "RNN-T: decoding time with 8,192 tokens / 1,024 tokens"), ("tdt", "TDT")):
    speed.figure(f"| {label} | {{}}, {{}}, {{}} | {{}}, {{}}, {{}} |",
                 *(longer(source, kind, b) for source in (vocabulary_before, vocabulary) for b in SEARCHED))  # fmt: skip


speed.figure("For TDT with 8,192 tokens at batch 32, the rounds after the change are NOISY: {} [{}, {}]", *interval_of_slower("fused_looping"))


def decoded(sources, model, batch):
    """Returns the speed of decoding by fused_looping after the changes over that before, with its interval."""
    before, after = (s.rounds(decode, model=model, batch=batch, decoder="fused_looping") for s in sources)
    return ratio(after, before)


for name, model in (("RNN-T", "standin256-rnnt"), ("TDT", "standin256-tdt")):
    speed.figure(f"| {name}, `standin256` |" + " {} [{}, {}] |" * 3, *(n for b in SEARCHED for n in decoded(BUILDS, model, b)))
for name, model in (("RNN-T", "rnnt-1024"), ("TDT", "tdt-1024")):
    speed.figure(f"| {name}, widened quickstart model |" + " {} [{}, {}] |" * 3,
                 *(n for b in SEARCHED for n in decoded((vocabulary_before, vocabulary), model, b)))  # fmt: skip
speed.stated("setting", "for batch 1, 32 and 128", "batch 128 holds the 120 utterances", "and with 1,024 tokens, changed too", "rows of 1,024 values",
             "| change | 5,300 rows, before | after | 10,600 rows, before | after |", "convolution of 31 frames", "for 5,300 rows",
             "decoding time with 8,192 tokens / 1,024 tokens")  # fmt: skip
speed.stated("limit", "The goal for 8,192 tokens was 1.4. Predicted were 1.15 to 1.3 for large batches, and 0.90 to 0.95")
kernels = {path.stem: path.read_text() for path in (ROOT / "reports").glob("h?00/kernels/*.txt")}


def of_kernel(name):
    """Returns the microseconds of a kernel before and now."""
    line = re.search(rf"(?m)^{re.escape(name)}/iterations.*$", kernels["encoder_rows"])[0]
    return tuple(float(re.search(rf"{key}_us=([\d.]+)", line)[1]) for key in ("before", "now"))


def of_product(tiles, rows):
    """Returns the microseconds of a product and SiLU by two kernels, and by one."""
    line = re.search(rf"(?m)^\w+_{tiles}_cluster_\w+/{rows}rows/\S+median\s+(.*)$", kernels["feed_forward"])[1].split()
    return float(line[5]), float(line[9])


for label, name in (("along a run of frames", "convolve/kernel:9/rows:{}/run:0"), ("with a layer norm", "convolve_norm/kernel:9/rows:{}/run:0"),
                    ("one norm", "norm/rows:{}"), ("two norms", "norms/rows:{}")):  # fmt: skip
    speed.figure(f"{label} | {{}} | {{}} | {{}} | {{}} |", *(n for rows in (5300, 10600) for n in of_kernel(name.format(rows))))
for tiles, every in (("64x32x128", (16, 64)), ("64x64x128", (128,)), ("64x128x64", (256, 512)), ("128x192x64", (1250, 5300))):
    for rows in every:
        speed.figure(f"| {rows:,} | {{}} | {{}} | {' x '.join(tiles.split('x')[:2])} |", *of_product(tiles, rows))
speed.figure("tiles of 128 x 160 took {} µs", of_product("128x160x64", 1250)[1])
speed.figure("slower: {} µs instead of {}", *reversed(of_kernel("convolve/kernel:31/rows:5300")))
speed.figure("no difference: {} instead of {} µs", *reversed(of_kernel("attend/rows:5300")))
latency = Source("h200/latency/later.jsonl.gz")
few_rows = {name: Source(f"h200/few_rows/{when}.jsonl.gz") for name, when in (("cuBLASLt", "before"), ("CUTLASS", "after"))}
one_encoder, two_encoders = (Source(f"h200/two_encoders/{name}.jsonl.gz") for name in ("one", "two"))
latency_h200 = {name: Source(f"h200/latency/{name}.jsonl.gz") for name in ("before", "after")}
for label, decoder in (("RNN-T, `fused_looping`", "fused_looping"), ("CTC, `ctc_greedy`", "ctc_greedy")):
    for when, source in {**latency_h200, "later": latency}.items():
        noisy = any(r["noisy"] for r in source.records(kind="summary") if f"/{decoder}/" in r["case"])
        speed.figure(f"| {label}, {when}{', NOISY' if noisy else ''} |" + " {} |" * 4, *lengths(decoder, "p50_ms", source))
speed.stated("setting", "The first product of a feed-forward module, 1,024 to 4,096 values", "With 16 and 256 rows", "For 1,250 rows, tiles of 128 x 160",
             "There is no gain at 1 and 5 s.")  # fmt: skip
speed.stated("limit", "The goals for 5 s were 1.3 ms (CTC) and 1.6 ms (RNN-T), those for 35 s 2.5 and 4.0 ms")


def of_few_rows(product, *columns):
    """Returns the microseconds of a product at 16, 64 and 128 rows, by cuBLASLt and by CUTLASS."""
    for rows in (16, 64, 128):
        line = re.search(rf"(?m)^few_rows/{product}/{rows}rows/\S+_mean\s+(.*)$", kernels["few_rows"])[1].split()
        yield from (float(line[5 + column]) for column in columns)


for label, product, columns in (("second product, and norm", "feed_forward_second", (0, 2)), ("attention's input", "qkv", (0, 1)),
                                ("second pointwise convolution, and norm", "attention_out_or_pointwise2", (0, 2)),
                                ("first pointwise convolution", "pointwise1", (0, 1))):  # fmt: skip
    speed.figure(f"{label} |" + " {} |" * 6, *of_few_rows(product, *columns))
slower = list(of_few_rows("qkv", 0, 1))
speed.figure("attention's input became slower by {} %", 100 * (slower[1] / slower[0] - 1))


def encoder_alone(form):
    """Returns the milliseconds of the encoder for 1, 5, 15 and 35 s, the mean of its turns."""
    turns = [re.findall(r"_mean\s+([\d.]+) ms", text) for name, text in re.findall(r"(?ms)^== (.*?), lap \d$(.*?)(?=^== |\Z)", kernels["encoder_single"])
             if name == form]  # fmt: skip
    return [fmean(map(float, values)) for values in zip(*turns, strict=True)]


alone = {row: encoder_alone(form) for row, form in (
    ("before", "before both changes"), ("shorter runs of frames", "shorter runs of frames in the sub-sampling"),
    ("products of few rows too", "and CUTLASS's products of few rows"))}  # fmt: skip
for row, values in alone.items():
    speed.figure(f"\n| {row} |" + " {} |" * 4, *values)
speed.figure("The encoder\n  gained {} ms at 5 s", alone["shorter runs of frames"][1] - alone["products of few rows too"][1])
for label, decoder in (("RNN-T, `fused_looping`", "fused_looping"), ("CTC, `ctc_greedy`", "ctc_greedy")):
    for name, source in few_rows.items():
        assert not any(r["noisy"] for r in source.records(kind="summary"))
        speed.figure(f"| {label}, {name} |" + " {} |" * 4, *lengths(decoder, "p50_ms", source))
for dtype, words in (("bf16", "RNN-T 0.6B went from {} ± {} to {} ± {} seconds a second in bf16"), ("fp8", "and from {} ± {} to {} ± {} in\nfp8")):
    speed.figure(words, *one_encoder.both(TOTAL, dtype=dtype), *two_encoders.both(TOTAL, dtype=dtype))
speed.figure("All {} utterances stayed equal", two_encoders.records(kind="run")[0]["dataset"]["utterances"])


def first_speed(source, dtype):
    (run,) = source.records(kind="run", dtype=dtype, round=0)
    return run["dataset"]["audio_seconds"] / run["first_pass"]["seconds"]


speed.figure("In bf16 the first pass had {} instead of {}, and in fp8 {} instead of {}", *(
    first_speed(source, dtype) for dtype in TYPES for source in (two_encoders, one_encoder)))  # fmt: skip
speed.stated("setting", "An utterance of up to 10 s gives the encoder at most 128 rows", "gave 16 blocks of threads for 5 s of audio and now gives 128", "With 16 rows", "Utterances over 10 s have",
             "Predicted were 8 µs for each layer by the split products and 2 µs by the others, which is 0.24 ms for 24 layers", "at batch 128 on one NVIDIA H200. All", "16 rows, cuBLASLt | CUTLASS | 64 rows, cuBLASLt | CUTLASS | 128 rows")  # fmt: skip


later = [b - a for d in ("fused_looping", "ctc_greedy") for a, b in zip(*(lengths(d, "p50_ms", s)[2:] for s in latency_h200.values()), strict=True)]
speed.figure("of 15 and 35 s took {} to {} ms longer", *span(later))


def scatter(source):
    """Returns the most by which the medians of a length differ between rounds."""
    return max(
        max(values) - min(values)
        for decoder in ("fused_looping", "ctc_greedy")
        for values in zip(*source.rounds(lambda r: [length["p50_ms"] for length in r["lengths"]], decoder=decoder), strict=True)
    )


speed.figure("The rounds of a search scatter by up to {} ms", max(map(scatter, few_rows.values())))
speed.figure("Rounds of \"after\" scatter by up to {} ms, those of \"before\" by up to {} ms and those of \"later\" by up to {} ms",
             scatter(latency_h200["after"]), scatter(latency_h200["before"]), scatter(latency))  # fmt: skip

multiprocessors = {number: Source(f"h200/multiprocessors/{number}.jsonl.gz") for number in ("all", "96", "64", "40")}


def on_fewer(dtype):
    """Yields the speed of a search on fewer multiprocessors over that on all."""
    every = multiprocessors["all"].mean(TOTAL, dtype=dtype)
    for number in ("96", "64", "40"):
        yield multiprocessors[number].mean(TOTAL, dtype=dtype) / every


speed.figure("it had {}, {} and {} of its speed in bf16, and {}, {} and {} in fp8", *on_fewer("bf16"), *on_fewer("fp8"))
speed.figure("These are {} utterances", multiprocessors["all"].records(kind="run")[0]["dataset"]["utterances"])
speed.stated("setting", "With 96, 64 and 40", "at batch 128 on one NVIDIA H200")
speed.stated("limit", "the 132 multiprocessors")
assert all(r["suspect"] == ["sw_power_cap"] for s in multiprocessors.values() for r in s.records(kind="run"))

roofline = {(dtype, build): Source(f"h100/kernels/roofline_{dtype}_{build}.jsonl.gz") for dtype in ("bf16", "fp8") for build in ("before", "after")}
FIRST, SILU, SECOND, QUERIES, ATTENTION, OUTPUT, CONVOLUTION, POINTWISE_1, POINTWISE_2, NORMS = range(10)


def layer_kernel(dtype, build, kind):
    """Returns the record of a kind of kernel, of which each layer has some."""
    kernels = [k for k in roofline[dtype, build].records(kind="roofline")[0]["kernels"] if k["count"] >= 24]
    part, adds, ours = {
        FIRST: ("feed_forward", False, ""), SILU: ("feed_forward", False, "silu"), SECOND: ("feed_forward", True, ""),
        QUERIES: ("attention", False, ""), ATTENTION: ("attention", False, "attend"), OUTPUT: ("attention", True, ""),
        CONVOLUTION: ("convolution", False, "convolve"), POINTWISE_1: ("convolution", False, ""), POINTWISE_2: ("convolution", True, ""),
        NORMS: ("norm", False, "norm"),
    }[kind]  # fmt: skip
    kernels = [k for k in kernels if k["part"] == f"encoder.{part}" and k["name"].startswith("rtfx::") == bool(ours)]
    (found,) = [k for k in kernels if ("_badd_" in k["name"]) == adds and ours in k["name"]]
    return found


def microseconds(kind, *builds):
    return [1e6 * layer_kernel(*build, kind)["seconds"] for build in builds]


EVERY = list(roofline)
for kind, label, unit in (
    (FIRST, "feed-forward, first product | 2 |", "matrix units"), (SECOND, "feed-forward, second product | 2 |", "matrix units"),
    (QUERIES, "queries, keys and values | 1 |", "matrix units"), (ATTENTION, "attention | 1 |", "matrix units"),
    (OUTPUT, "attention's output | 1 |", "matrix units"), (POINTWISE_1, "first pointwise convolution | 1 |", "matrix units"),
    (CONVOLUTION, "convolution over time, with gate and norm | 1 |", "memory"),
    (POINTWISE_2, "second pointwise convolution | 1 |", "matrix units"), (NORMS, "norms | 4 |", "memory"),
):  # fmt: skip
    before, after, before8, after8 = microseconds(kind, *EVERY)
    counted = layer_kernel("bf16", "after", kind)
    assert counted["bound"] == unit
    speed.figure(f"| {label} {{}} | {{}} | {{}} % of {unit} | {{}} | {{}} |", before, after, 100 * counted["share"], before8, after8)
speed.figure("| SiLU | 2 | {} | in the product | – | {} | {} |", *microseconds(SILU, ("bf16", "before"), ("fp8", "before"), ("fp8", "after")))
speed.figure("one batch of {} utterances ({} s) on one NVIDIA H100", *(
    roofline["bf16", "after"].records(kind="roofline")[0]["dataset"][key] for key in ("utterances", "audio_seconds")
))  # fmt: skip
speed.figure("the encoder took {} ms before and {} ms after in bf16, and {} and {} ms in fp8",
             *(1e3 * roofline[at].records(kind="roofline")[0]["seconds"] for at in EVERY))  # fmt: skip


of_search = {build: Source(f"h100/kernels/roofline_search{ending}.jsonl.gz") for build, ending in (("before", "_before"), ("after", ""))}


def search_record(batch, build="after"):
    (record,) = of_search[build].records(kind="roofline", model="standin256-rnnt", batch=batch)
    return record


def search_share(limit, batch, build="after"):
    return 100 * search_record(batch, build)["kernels"][0]["shares"][limit]


speed.figure("uses {} % of the L2 cache's rate at batch 1, and {} % at batch 32\n  and 64. It uses {}, {} and {} % of the matrix",
             search_share("l2", 1), search_share("l2", 32), *(search_share("matrix", b) for b in (1, 32, 64)))  # fmt: skip
assert round(search_share("l2", 32)) == round(search_share("l2", 64))
speed.figure("The build before used {}, {} and {} % of the L2 cache's rate", *(search_share("l2", b, "before") for b in (1, 32, 64)))
assert all(round(search_share(limit, b, "before")) == round(search_share(limit, b)) for limit in ("matrix", "memory") for b in (1, 32, 64))
speed.figure("Decoding took {}, {} and {} ms before at batch 1, 32 and 64, and\n  {}, {} and {} ms after",
             *(1000 * search_record(b, build)["seconds"] for build in of_search for b in (1, 32, 64)))  # fmt: skip
speed.figure("and at most {} % of memory", max(search_share("memory", b) for b in (1, 32, 64)))
later = Source("h100/chain/rnnt_0.6b.jsonl.gz")
speed.figure("RNN-T 0.6B reached {} ± {} seconds a second from samples to text in bf16 at batch 128 on one NVIDIA H100, and {} ± {} in fp8.",
             *(n for dtype in ("bf16", "fp8") for n in later.both(TOTAL, decoder="fused_looping", dtype=dtype)))  # fmt: skip
speed.figure("Its CTC head reached {} ± {} and {} ± {}", *(n for dtype in ("bf16", "fp8") for n in later.both(TOTAL, decoder="ctc_greedy", dtype=dtype)))
speed.figure("All {} utterances were equal to the isolated pass", later.records(kind="run")[0]["dataset"]["utterances"])
earlier = Source("h100/fp32/rnnt_0.6b.jsonl.gz")
speed.figure("With an earlier build, RNN-T had {} ± {} in bf16 and {} ± {} in fp8",
             *(n for dtype in ("bf16", "fp8") for n in earlier.both(TOTAL, decoder="fused_looping", batch=128, dtype=dtype)))  # fmt: skip
speed.stated("setting", "from samples to text in bf16 at batch 128")
assert all(r["suspect"] == ["sw_power_cap"] for r in later.records(kind="run"))

PAGES = [rivals, boosting, word_graphs, microbenchmarks, loading, speed]
