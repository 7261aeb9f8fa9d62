"""The measured figures of reports/notes and of rivals/nemo/README.md, and the journals that they come from, as figures.py has them for
the other pages."""

import re
from itertools import product
from statistics import fmean, median

from figures import (
    SEARCHED,
    aligned,
    aligned_by_torchaudio,
    boosting_rivals,
    f_scores,
    factors,
    nemo,
    nemo_beam,
    nemo_cpu,
    nemo_ctc,
    nemo_lm,
    proved,
    wfst,
    wfst_cpu,
)
from intervals import paired_ratio
from rival_reports import RIVA, RIVA_LISTS, WFST
from traced import Page, ROOT, Source, decode, equal, span, whole_call

# ---------------------------------------------------------------------------------------------------------------------
rivals = Page("reports/notes/rivals.md")
rivals.stated("meaning", "of one side vary by more than 5 %")
rivals.stated("data", "vocabulary of 1,024 tokens", "The lexicon of 40,000 words lacks 2.4 % of the words of these utterances",
              "the first 48 and 256 utterances of spoken test-other. Of the 256, the lexicon lacks 3.8 % of", "On 512 utterances")  # fmt: skip
rivals.stated("setting", "all six cases with signal 6", "The workers run at nice 19", "at batch 32, the word", "At batch 1, 32 and 128 on the CPUs of one host", "up to 3.0.0")
rivals.figure("the word error rate of ALSD++ is {} % in rtfx and {} % in NeMo, and that of AES++ is {} % and {} %", *(
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
    rivals.figure("the same oracle WER on {} utterances, {} %:", wfst.mean(lambda r: r["dataset"]["utterances"], **at),
                  wfst.mean(lambda r: 100 * r["oracle_wer"]["wer"], **at))  # fmt: skip
*kaldi, flashlight = WFST
rivals.figure("rtfx is {} to {} times as fast as kaldi-decoder. It is {} to {} times as fast as flashlight-text",
              *span(factors(wfst_cpu, kaldi, whole_call)), *span(factors(wfst_cpu, [flashlight], whole_call)))  # fmt: skip
cpu = wfst_cpu.records(kind="provenance")[0]["cpu"]
rivals.figure("the same {} CPUs. rtfx searched with {} threads", cpu["affinity"]["cpus"], cpu["threads"])


def alignments(batch):
    """Returns the least and the greatest rate of rtfx's repeats."""
    return span(r["rows/s"] for r in aligned.records(run_type="iteration") if f"/batch{batch}/" in r["name"])


rivals.figure("where both align one utterance, rtfx is {} times as fast",
              alignments(1)[1] / aligned_by_torchaudio.records(batch=1)[0]["rows_per_second"])  # fmt: skip
theirs = aligned_by_torchaudio.records(batch=128)[0]["rows_per_second"]
rivals.figure("These are {} to {}\ntimes torchaudio's {} at batch 128", *(rate / theirs for rate in alignments(128)), theirs)
ctc_beams = {f"nemo_ctc_beam8{form}": nemo_beam.records(decoder=f"nemo_ctc_beam8{form}") for form in ("", "_graphs")}
rivals.figure("of which {} of {} failed by a fault of rtfx's wrapper", *(
    sum(len({r["case"] for r in records if r["kind"] in kinds}) for records in ctc_beams.values()) for kinds in (("failure",), ("failure", "run"))
))  # fmt: skip
same_beams = {b: nemo_ctc.records(kind="run", decoder="nemo_ctc_beam8_graphs", batch=b)[0] for b in (1, 32, 128)}
assert equal(same_beams[32]) == equal(same_beams[128])
rivals.figure("{} of {} results of NeMo's CTC beam are the same as rtfx's at\nbatch 1, and {} of {} at batch 32 and 128",
              *(n for b in (1, 32) for n in (equal(same_beams[b]), same_beams[b]["dataset"]["utterances"])))  # fmt: skip
rivals.figure("On the same {}\nutterances, its word error rate is {} % at batch 32 and {} % at batch 128", same_beams[32]["dataset"]["utterances"],
              *(nemo_ctc.wer(decoder="nemo_ctc_beam8_graphs_lm", batch=b) for b in (32, 128)))  # fmt: skip
(ours_at_both,) = {nemo_ctc.wer(decoder="ctc_beam8_fused_lm", batch=b) for b in (32, 128)}
rivals.figure("rtfx has {} % at both", ours_at_both)
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
    ("standin256-rnnt", (*TRANSDUCERS, ("ctc_greedy", "`greedy_batch`", "ctc"))),
    ("standin256-tdt", TRANSDUCERS),
):
    for ours, theirs, search in rows:
        boosting.figure(f"| {model} | `{ours}`, {theirs} | all {{}}, every scale | {{}} | {{}} |",
                        min(equal_tokens("boosting_rivals", ours, model).values()), *f_scores(search, model))  # fmt: skip
beam_batch = equal_tokens("boosting_rivals", "ctc_beam", "standin256-rnnt")
boosting.figure("| standin256-rnnt | `ctc_beam`, `beam_batch`, beam 4 | all {}; {} at scale 4 | {} | {} |",
                min(count for scale, count in beam_batch.items() if scale != "4"), beam_batch["4"], *f_scores("ctc_beam"))  # fmt: skip
boosting.figure("batches of one](../cpu/boosting_rivals_batch1.md) all {} are equal",
                min(equal_tokens("boosting_rivals_batch1", "ctc_beam", "standin256-rnnt").values()))  # fmt: skip

weighted = [n for model in ("standin256-rnnt", "standin256-tdt") for n in equal_tokens("boosting_rivals", "alsd_pp", model, ", blank weighted").values()]  # fmt: skip
boosting.figure("returns equal tokens for {} to {} of {} utterances", *span(weighted), spoken["dataset"]["utterances"])
(eager,) = boosting_rivals.records(kind="run", model="standin256-tdt", round=0, decoder="nemo_greedy[options.boost_alpha=0]")


def waited(model):
    """Returns how many rounds of a model are suspect, and all of them."""
    rounds = boosting_rivals.records(kind="run", model=model)
    assert all(r["suspect"] in ([], ["cpu_wait"]) for r in rounds)
    return sum(bool(r["suspect"]) for r in rounds), len(rounds)


boosting.figure("at scale 0, for {} of {} utterances", eager["dataset"]["utterances"] - equal(eager), eager["dataset"]["utterances"])
(some, rounds), (none, others_of_tdt) = waited("standin256-rnnt"), waited("standin256-tdt")
assert (some, none) == (0, others_of_tdt)
boosting.figure("All {} rounds for TDT are suspect", none)
boosting.figure("none of the {} for RNN-T and CTC", rounds)
boosting_cost = Source("h200/searches/boosting_cost.jsonl.gz")
assert not any(r["suspect"] for r in boosting_cost.records(kind="run"))


def decode_ms(model, decoder, batch):
    return 1000 * median(boosting_cost.rounds(decode, model=model, decoder=decoder, batch=batch))


def slowdown(model, decoder, batch):
    """Returns how much slower phrases make decoding, in percent."""
    return 100 * (decode_ms(model, decoder, batch) / decode_ms(model, "fused_looping", batch) - 1)


COSTS = list(product(("standin256-rnnt", "standin256-tdt"), (1, 32, 128)))
boosting.stated("setting", "1,000 phrases for all utterances", "1,000 phrases for each utterance make it")
boosting.figure("make decoding by `fused_looping` {} to {} % slower", *span(slowdown(m, "fused-1000", b) for m, b in COSTS))
boosting.figure("for each utterance make it\n{} to {} % slower at batch 1 and 32", *span(slowdown(m, "fused-1000-own", b) for m, b in COSTS if b < 128))
boosting.figure("for the same {} sentences ({} s of audio)", *(
    boosting_cost.records(kind="run")[0]["dataset"][key] for key in ("utterances", "audio_seconds")
))  # fmt: skip
for model, batch in COSTS:
    boosting.figure(f"| {model} | {batch} | {{}} | {{}} % | {{}} % |", decode_ms(model, "fused_looping", batch), slowdown(model, "fused-1000", batch),
                    slowdown(model, "fused-1000-own", batch))  # fmt: skip
noisy = {r["case"].removeprefix("standin256-") for r in boosting_cost.records(kind="summary") if r["noisy"] and "/fused" in r["case"]}
assert noisy == {f"rnnt/spoken/fused-1000{own}/b32/bf16" for own in ("", "-own")}, noisy

# ---------------------------------------------------------------------------------------------------------------------
word_graphs = Page("reports/notes/word_graphs.md")
transducer_wfst = Source("cpu/transducer_wfst.jsonl.gz")
SETS = ("quickstart", "spoken")
graph4, graph8 = "graph[beam_size=4]", "graph[beam_size=8]"
word_graphs.figure("It takes {} to {} times the decode time of modified beam search with that model", *span(
    transducer_wfst.mean(decode, decoder=graph4, dataset=s) / transducer_wfst.mean(decode, decoder="modified_lm", dataset=s) for s in SETS
))  # fmt: skip
word_graphs.figure("the fewest word errors on the spoken sentences: {}. The 6-gram, measured at beam 4 alone, has {}", *(
    transducer_wfst.mean(lambda r: r["wer"]["wer"] * r["wer"]["reference_words"], decoder=d, dataset="spoken") for d in (graph8, "alsd_pp_lm")))  # fmt: skip
word_graphs.stated("setting", "lexicon of 40,000 words", "`alpha` 0.2 and `beta` 1", "among 0.2, 0.3 and 0.5, and 0, 0.5, 1 and 1.5")
word_graphs.stated("data", "The graph has 40,001 words and a word 3-gram, in 203,382 states and 636,112 arcs")
for label, decoder in (
    ("`label_looping`", "label_looping"), ("`alsd_pp`, beam 4", "alsd_pp"), ("`alsd_pp`, beam 4, 6-gram of tokens", "alsd_pp_lm"),
    ("`modified_beam_search`, beam 4", "modified"), ("`modified_beam_search`, beam 4, 6-gram of tokens", "modified_lm"),
    ("`transducer_wfst`, beam 4", graph4), ("`transducer_wfst`, beam 8", graph8),
):  # fmt: skip
    word_graphs.figure(f"| {label} | {{}} | {{}} | {{}} NOISY | {{}} |",
                       *(transducer_wfst.wer(decoder=decoder, dataset=s) for s in SETS),
                       *(transducer_wfst.mean(decode, decoder=decoder, dataset=s) for s in SETS))  # fmt: skip
assert {(r["case"].split("/")[1], r["noisy"]) for r in transducer_wfst.records(kind="summary")} == {("quickstart", True), ("spoken", False)}
sizes = [transducer_wfst.records(kind="run", dataset=s)[0] for s in SETS]
word_graphs.figure("The data are {} recordings ({} s, {} words) and {} spoken sentences ({} s, {} words)", *(
    n for r in sizes for n in (r["dataset"]["utterances"], r["dataset"]["audio_seconds"], r["wer"]["reference_words"])
))  # fmt: skip
word_graphs.figure("deletions on the spoken sentences fall from {} to {} from beam 4 to 8", *(
    transducer_wfst.mean(lambda r: r["wer"]["deletions"], decoder=d, dataset="spoken") for d in (graph4, graph8)
))  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------------
microbenchmarks = Page("reports/notes/microbenchmarks.md")
microbench = Source("h200/kernels/rtfx_microbench.json.gz")


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
    ("`beam_step/operators`, a whole search of 278 steps", "beam_step/operators/cuda/bf16/batch32/beam4", "ms", 1, "steps/s"),
    ("`beam_step/fused`, a whole search of 279 steps", "beam_step/fused/cuda/bf16/batch32/beam4", "ms", 1, "steps/s"),
    ("`host_read/integer`", "host_read/integer", "µs", 1, "reads/s"),
    ("`host_read/any_of_128_flags`", "host_read/any_of_128_flags", "µs", 1, "reads/s"),
    ("`phrase_tree/scores`, 1,000 phrases", "phrase_tree/scores/cuda/1000phrases/batch32", "µs", M, "M rows/s"),
    ("`phrase_tree/next_states`, 1,000 phrases", "phrase_tree/next_states/cuda/1000phrases/batch32", "µs", 1, "rows/s"),
):
    time, per_second = benchmark(name, rate.removeprefix("M "))
    microbenchmarks.figure(f"| {label} | {{}} {unit} | {{}} {rate} |", time, per_second / scale)
time, per_second = benchmark("streams/push/cuda/bf16/64streams/14frames", "frames/s")
microbenchmarks.figure("| `streams/push`, `label_looping`, 64 streams of 14 frames | {} ms | {} frames/s |", time / 1000, per_second)
for label, name in (("`graph_nodes/while_node`, a round of a conditional node", "graph_nodes/while_node/cuda/100rounds"),
                    ("`graph_nodes/in_a_row`, the same nodes without it", "graph_nodes/in_a_row/cuda/100rounds")):  # fmt: skip
    time, per_second = benchmark(name, "rounds/s")
    microbenchmarks.figure(f"| {label} | {{}} µs | {{}} rounds/s |", time / 100, per_second)




def at_one(*names):
    """Yields by how many percent the time at batch 1 is below that at batch 32."""
    for name in names:
        rate = "steps/s" if name.startswith("beam_step") else "rows/s"
        one, many = (benchmark(name.replace("batch32", batch), rate)[0] for batch in ("batch1", "batch32"))
        yield 100 * (1 - one / many)


microbenchmarks.figure("Searches with a beam\n  take {} to {} % less at batch 1", *span(at_one(
    "beam_step/operators/cuda/bf16/batch32/beam4", "beam_step/fused/cuda/bf16/batch32/beam4")))  # fmt: skip
microbenchmarks.figure("the prediction network took {} µs at batch 1 and {} µs at batch 32", *(
    benchmark(f"prediction/predict/cuda/bf16/batch{batch}")[0] for batch in (1, 32)))  # fmt: skip
for form in ("operators", "fused"):
    (found,) = microbench.records(name=f"beam_step/{form}/cuda/bf16/batch32/beam4/process_time/real_time")
    microbenchmarks.figure(f"`beam_step/{form}`, a whole search of {{}} steps", found["steps"])
load = benchmark("phrase_tree/load/cuda/1000phrases/batch32")[0] / 1000
microbenchmarks.figure("(`phrase_tree/load`) takes {} ms", load)
microbenchmarks.stated("setting", "trees of 1,000 phrases for each of 32 utterances", "at batch 1 as at batch 32")
boosting.figure("This takes {} ms for 32 utterances", load)

# ---------------------------------------------------------------------------------------------------------------------
encoder = Page("reports/notes/encoder.md")
encoder.stated("setting", "and 24 layers.", "at batch 64. Kernels", "In the first three rows a batch has\n64 utterances", "of at least 0.1 s, without",
               "from 1,024 to 4,096 values", "An utterance of up to 10 s gives the encoder at most 128 rows",
               "With 256 rows, the first", "With 16 rows, attention's", "Why those of 15 and 35 s", "utterances of 1 to 35 s are slower", "Up to 10 s, a likely", "with 16 rows than with 64", "which is 80 ms of audio", "are computed on 8-bit floats", "16 rows, cuBLASLt | CUTLASS | 64 rows, cuBLASLt | CUTLASS | 128 rows",
               "--launches 1200")  # fmt: skip
FORMS = ("reference", "fused", "fp8")
profiles = {form: Source(f"h200/kernels/kernels_{form}.jsonl.gz").records(kind="profile")[0] for form in FORMS}
regions = {form: profile["regions"]["encoder"] for form, profile in profiles.items()}
clock = {form: fmean(region["undisturbed_seconds"]) for form, region in regions.items()}
encoder.figure("is {} times as fast as the reference, and {} times as fast again in fp8", clock["reference"] / clock["fused"], clock["fused"] / clock["fp8"])
encoder.figure("launches {} kernels for these ten batches instead of {},", *(regions[form]["kernels"] / profiles[form]["laps"] for form in ("fused", "reference")))
encoder.figure("In the profiled pass in fp8, no kernel runs for {} % of the time", 100 * regions["fp8"]["gpu.idle"])
encoder.figure("milliseconds of kernels for {} utterances ({} s)", *(profiles["fused"]["dataset"][key] for key in ("utterances", "audio_seconds")))
for part, label in (("feed_forward", "feed-forward"), ("attention", "attention"), ("convolution", "convolution"), ("norm", "norms"), ("subsampling", "sub-sampling")):
    encoder.figure(f"\n| {label} | {{}} | {{}} | {{}} |", *(
        1e3 * segment["total_seconds"] / profile["laps"] for profile in profiles.values() for segment in profile["segments"] if segment["name"] == f"encoder.{part}"
    ))  # fmt: skip
encoder.figure("| all kernels, others included | {} | {} | {} |", *(1e3 * region["kernel_seconds"] / profiles[form]["laps"] for form, region in regions.items()))
encoder.figure("| the encoder by the clock, without the profiler | {} | {} | {} |", *(1e3 * seconds for seconds in clock.values()))

forms = Source("h200/kernels/rtfx_bench_encoder.json.gz")


def gains(before, after):
    """Yields how many times as fast a form of the encoder is, for 64 utterances of different lengths."""
    for longest in ("6.5s", "20s", "35s"):
        times = [forms.records(name=f"parakeet-0.6b/{form}/64x{longest}_ragged/real_time")[0]["real_time"] for form in (before, after)]
        yield times[0] / times[1]


encoder.figure("fusing alone gains {} to {} times", *span(gains("reference", "fused_padded")))
encoder.figure("fp8 gains {} to {} times", *span(gains("fused", "fused_fp8")))
for label, batch in (("64 up to 6.5 s", "64x6.5s_ragged"), ("64 up to 20 s", "64x20s_ragged"), ("64 up to 35 s", "64x35s_ragged"),
                     *((f"one of {seconds} s", f"1x{seconds}s") for seconds in (1, 5, 15, 35))):  # fmt: skip
    encoder.figure(f"| {label} | {{}} | {{}} | {{}} | {{}} |", *(
        forms.records(name=f"parakeet-0.6b/{form}/{batch}/real_time")[0]["real_time"] for form in ("reference", "fused_padded", "fused", "fused_fp8")
    ))  # fmt: skip

products = Source("h200/kernels/rtfx_bench_feed_forward.json.gz")


def of_product(name, rows, *fields):
    """Returns medians of a benchmark, in microseconds."""
    (found,) = products.records(name=f"{name}/{rows}rows/iterations:5/manual_time_median")
    return [found[f"{field}_us"] for field in fields]


for rows in (16, 64, 128, 256, 512, 1250, 5300, 21000):
    encoder.figure(f"\n| {rows:,} | {{}} | {{}} |", *of_product("encoder", rows, "cublas_silu", "fused"))
for label, product, norm in (("second product, and norm", "feed_forward_second", "_norm"), ("attention's input", "qkv", ""),
                             ("second pointwise convolution, and norm", "attention_out_or_pointwise2", "_norm"),
                             ("first pointwise convolution", "pointwise1", "")):  # fmt: skip
    encoder.figure(f"{label} |" + " {} |" * 6, *(
        value for rows in (16, 64, 128) for value in of_product(f"few_rows/{product}", rows, f"cublas{norm}", f"cutlass{norm}")
    ))  # fmt: skip
theirs, ours = of_product("few_rows/qkv", 16, "cublas", "cutlass")
encoder.figure("attention's input is\n  slower by {} %", 100 * (ours / theirs - 1))
two, one = of_product("encoder", 256, "cublas_silu", "fused")
encoder.figure("the first product gains {} %", 100 * (two / one - 1))

roofline = {dtype: Source(f"h100/kernels/roofline_{dtype}.jsonl.gz") for dtype in ("bf16", "fp8")}
FIRST, SILU, SECOND, QUERIES, ATTENTION, OUTPUT, CONVOLUTION, POINTWISE_1, POINTWISE_2, NORMS = range(10)


def layer_kernel(dtype, kind):
    """Returns the record of a kind of kernel, of which each layer has some."""
    kernels = [k for k in roofline[dtype].records(kind="roofline")[0]["kernels"] if k["count"] >= 24]
    part, adds, ours = {
        FIRST: ("feed_forward", False, ""), SILU: ("feed_forward", False, "silu"), SECOND: ("feed_forward", True, ""),
        QUERIES: ("attention", False, ""), ATTENTION: ("attention", False, "attend"), OUTPUT: ("attention", True, ""),
        CONVOLUTION: ("convolution", False, "convolve"), POINTWISE_1: ("convolution", False, ""), POINTWISE_2: ("convolution", True, ""),
        NORMS: ("norm", False, "norm"),
    }[kind]  # fmt: skip
    kernels = [k for k in kernels if k["part"] == f"encoder.{part}" and k["name"].startswith("rtfx::") == bool(ours)]
    (found,) = [k for k in kernels if ("_badd_" in k["name"]) == adds and ours in k["name"]]
    return found


for kind, label, unit in (
    (FIRST, "feed-forward, first product | 2 |", "matrix units"), (SECOND, "feed-forward, second product | 2 |", "matrix units"),
    (QUERIES, "queries, keys and values | 1 |", "matrix units"), (ATTENTION, "attention | 1 |", "matrix units"),
    (OUTPUT, "attention's output | 1 |", "matrix units"), (POINTWISE_1, "first pointwise convolution | 1 |", "matrix units"),
    (CONVOLUTION, "convolution over time, with gate and norm | 1 |", "memory"),
    (POINTWISE_2, "second pointwise convolution | 1 |", "matrix units"), (NORMS, "norms | 4 |", "memory"),
):  # fmt: skip
    in_bf16, in_fp8 = (layer_kernel(dtype, kind) for dtype in roofline)
    assert in_bf16["bound"] == unit
    encoder.figure(f"| {label} {{}} | {{}} % of {unit} | {{}} |", 1e6 * in_bf16["seconds"], 100 * in_bf16["share"], 1e6 * in_fp8["seconds"])
encoder.figure("| SiLU | 2 | in the product | – | {} |", 1e6 * layer_kernel("fp8", SILU)["seconds"])
encoder.figure("one batch of {} utterances ({} s) on one", *(
    roofline["bf16"].records(kind="roofline")[0]["dataset"][key] for key in ("utterances", "audio_seconds")
))  # fmt: skip
sums = [sum(k["seconds"] * k["count"] for k in source.records(kind="roofline")[0]["kernels"]) for source in roofline.values()]
alone = [source.records(kind="roofline")[0]["seconds"] for source in roofline.values()]
encoder.figure("sum is {} % more than the encoder takes in bf16, and {} % more in fp8", *(100 * (a / b - 1) for a, b in zip(sums, alone, strict=True)))
in_8_bits = [100 * layer_kernel("fp8", kind)["share"] for kind in (FIRST, SECOND, QUERIES, POINTWISE_1)]
encoder.figure("reach {} to {} % of the matrix units", *span(in_8_bits))
sub_sampling = [k for k in roofline["bf16"].records(kind="roofline")[0]["kernels"] if k["part"] == "encoder.subsampling"]
encoder.figure("It takes {} % of the sum", 100 * sum(k["seconds"] * k["count"] for k in sub_sampling) / sums[0])
encoder.figure("the encoder took {} ms in bf16 and {} ms in fp8", *(1e3 * source.records(kind="roofline")[0]["seconds"] for source in roofline.values()))

of_search = Source("h100/kernels/roofline_search.jsonl.gz")


def search_share(limit, batch):
    (record,) = of_search.records(kind="roofline", model="standin256-rnnt", batch=batch)
    return 100 * record["kernels"][0]["shares"][limit]


encoder.figure("uses {} % of the L2 cache's rate at batch 1, and {} % at batch 32\n  and 64. It uses {}, {} and {} % of the matrix",
               search_share("l2", 1), search_share("l2", 32), *(search_share("matrix", b) for b in (1, 32, 64)))  # fmt: skip
assert round(search_share("l2", 32)) == round(search_share("l2", 64))
encoder.figure("and at most {} % of memory", max(search_share("memory", b) for b in (1, 32, 64)))

# ---------------------------------------------------------------------------------------------------------------------
long_audio = Page("reports/notes/long_audio.md")
runs = re.findall(r"rtfx: (\d+) of \d+ files, ([\d.]+) s of audio in ([\d.]+) s, reading included: RTFx ([\d.]+)", (ROOT / "reports/h200/long_audio.txt").read_text())
one, many = ([[float(n) for n in run] for run in runs if (run[0] == "1") == single] for single in (True, False))
less = [100 * (1 - a[2] / b[2]) for a, b in zip(one, many, strict=True)]
long_audio.figure("One FLAC file of {} hours takes {} to {} % less time than the same audio in {} files", one[0][1] / 3600, *span(less), many[0][0])
for label, of in (("{} hours in one FLAC file", one), ("the same in {} FLAC files", many)):
    long_audio.figure(f"| {label} | {{}}, {{}}, {{}} | {{}}, {{}}, {{}} |", of[0][1] / 3600 if of is one else of[0][0],
                      *(run[2] for run in of), *(run[3] for run in of))  # fmt: skip
assert max(run[2] for run in one) < min(run[2] for run in many)
long_audio.stated("setting", "with 16 CPU cores")
long_audio.stated("data", "(35 million parameters)")

# ---------------------------------------------------------------------------------------------------------------------
transcribe = Page("reports/cpu/transcribe.md")
calls = Source("cpu/transcribe.jsonl.gz").records()


def gained(record, kind="seconds"):
    """Returns the medians of NeMo's calls without and with rtfx's search, and their ratio."""
    without, with_it = (median(call[kind] for call in record[side]) for side in ("before", "after"))
    return without, with_it, without / with_it


def without_difference(batch, kind):
    """Returns the models for which the interval of the mean ratio holds 1."""
    intervals = {r["model"]: paired_ratio(*([call[kind] for call in r[side]] for side in ("after", "before"))) for r in calls if r["batch"] == batch}
    return {model for model, (low, high) in intervals.items() if low <= 1 <= high}


transcribe.figure("is {} to {} times as fast at batch 1, and {} to {} times at batch 32",
                  *(end for batch in (1, 32) for end in span(gained(r)[2] for r in calls if r["batch"] == batch)))  # fmt: skip
transcribe.figure("for all {} utterances", calls[0]["utterances"])
transcribe.figure("in the shared folder ({} s)", calls[0]["audio_seconds"])
transcribe.figure("decodes the first {} utterances", calls[0]["utterances"])
assert all(r["equal"] == {"texts": 24, "tokens_and_frames": 24} and len(r["before"]) == 5 for r in calls) and len({r["model"] for r in calls}) == 10
assert without_difference(32, "seconds") == {"parakeet_tdt_v2"} and not without_difference(1, "seconds") | without_difference(1, "cpu_seconds")
assert without_difference(32, "cpu_seconds") == {"parakeet_tdt_v2", "standin256-tdt", "fastconformer_hybrid_tdt"}
for r in calls:
    transcribe.figure(f"| {r['model']} | {r['batch']} | {{}} : {{}} ({{}}) | {{}} : {{}} ({{}}) | {{}} of {{}} | {{}} of {{}} |", *gained(r), *gained(r, "cpu_seconds"),
                      *(n for equals in r["equal"].values() for n in (equals, r["utterances"])))  # fmt: skip
transcribe.stated("meaning", "of the mean ratio holds 1 for")
transcribe.stated("data", "have 35\nmillion parameters")
transcribe.stated("setting", "--limit 24 --rounds 5")

# ---------------------------------------------------------------------------------------------------------------------
about_nemo = Page("rivals/nemo/README.md")


def in_first_round(source, decoder, batch, model="standin256-tdt"):
    (record,) = source.records(kind="run", round=0, decoder=decoder, batch=batch, model=model)
    return record


def first_refused(record):
    """Returns the kind of the first decision that replay refuses."""
    return record["exactness"]["replay"]["first"]["kind"]


eager, recorded = (in_first_round(nemo, f"nemo_label_looping{form}", 8) for form in ("", "_graphs"))
about_nemo.figure("At batch 8 on an H100, replay refuses {} of {} decisions, and the first one is a duration", *proved([eager]))
about_nemo.figure("it refuses {}, and the first one is a score", proved([recorded])[0])
assert (first_refused(eager), first_refused(recorded)) == ("duration", "score")
of_eager = {b: in_first_round(nemo_cpu, "nemo_label_looping", b) for b in (1, 8)}
assert equal(of_eager[1]) == of_eager[1]["dataset"]["utterances"] and equal(of_eager[8]) == 1
beams_on_cpu = [in_first_round(nemo_cpu, "nemo_ctc_beam8", b, m) for b in (1, 8) for m in ("standin256-rnnt", "standin256-tdt")]
assert all(equal(r) == r["dataset"]["utterances"] for r in beams_on_cpu)
about_nemo.figure("all of {} results equal those of our `ctc_beam`", beams_on_cpu[0]["dataset"]["utterances"])
at_1 = in_first_round(nemo_beam, "nemo_ctc_beam8_graphs", 1)
about_nemo.figure("In bf16 on an H100, {} of {}\n  do at batch 1", equal(at_1), at_1["dataset"]["utterances"])


def ctc_beams_by_end(source, batches):
    """Returns the cases of `beam_batch` that failed with a NaN score, and all of them."""
    cases = [r for r in source.records() if r["kind"] in ("run", "failure") and "nemo_ctc_beam8" in r["case"] and re.search(rf"/b({batches})/", r["case"])]
    failed = {r["case"] for r in cases if r["kind"] == "failure" and "score is nan" in r["message"]}
    return len(failed), len({r["case"] for r in cases})


about_nemo.figure("These are {} of {} cases of `nemo_beam` at batch 8 to 128", *ctc_beams_by_end(nemo_beam, "8|32|128"))
assert ctc_beams_by_end(nemo_lm, "32") == (2, 2) and not any(r["kind"] == "failure" for r in nemo_ctc.records())
ctc_alone = {b: in_first_round(nemo, "nemo_ctc_greedy", b, "standin256-rnnt") for b in (1, 8, 32, 128)}
about_nemo.figure("CTC greedy differs in {} of {} utterances at batch 32 and 128, and in {} of {} at batch 1 and 8", *(
    n for b in (32, 8) for n in (ctc_alone[b]["dataset"]["utterances"] - equal(ctc_alone[b]), ctc_alone[b]["dataset"]["utterances"])
))  # fmt: skip
assert equal(ctc_alone[1]) == equal(ctc_alone[8]) and equal(ctc_alone[32]) == equal(ctc_alone[128])
about_nemo.figure("In fp32 on a CPU all {} utterances are equal", equal(in_first_round(nemo_cpu, "nemo_ctc_greedy", 8)))
summed = [in_first_round(nemo, "nemo_label_looping_graphs", b, "standin256-rnnt") for b in (32, 128)]
about_nemo.figure("rounding in {} and {} of {} utterances", *(proved([r])[0] for r in summed), summed[0]["dataset"]["utterances"])
assert all(first_refused(r) == "score" for r in summed)
about_nemo.stated("setting", "(`context_score` 1, `depth_scaling` 2, `unk_score` 0)")
about_nemo.stated("meaning", "NeMo #16097", "NeMo #15790")

PAGES = [rivals, boosting, word_graphs, microbenchmarks, encoder, long_audio, transcribe, about_nemo]
