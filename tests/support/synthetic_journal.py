"""Makes synthetic journals that follow docs/journal.md, for tests of the programs that read journals."""

import json

UTTERANCES = 24
AUDIO_SECONDS = 120.0


def provenance(**changes):
    return {
        "kind": "provenance", "schema": 1, "provenance_id": "p0", "name": "synthetic",
        "started": "2026-01-02T03:04:05Z", "question": "Which decoder is fastest?",
        "config": {"protocol": {"cv_max": 0.05, "warmup_rounds": 1, "measured_rounds": 2}},
        "config_hash": "c0",
        "rtfx": {"version": "0.1.0", "revision": "0123456789ab", "dirty": False,
                 "build_type": "Release", "compiler": "GCC 12", "sanitizer": False},
        "libtorch": "2.11.0", "cuda_runtime": None, "cuda_driver": None, "cudnn": None,
        "device": {"type": "cpu", "name": "Some CPU"},
        "cpu": {"model": "Some CPU", "cores": 2, "threads": 2}, "host_os": "Linux",
        "models": [], "datasets": [{"id": "quickstart", "path": "m.jsonl", "sha256": "d0",
                                    "utterances": UTTERANCES, "audio_seconds": AUDIO_SECONDS}],
    } | changes  # fmt: skip


def case_fields(decoder="label_looping", model="quickstart-rnnt", batch=16, dtype="fp32",
                exactness="exact"):  # fmt: skip
    case = f"{model}/quickstart/{decoder}/b{batch}/{dtype}"
    return {
        "schema": 1, "provenance_id": "p0", "case": case, "result_key": f"key of {case}",
        "model": {"id": model, "kind": model[-4:].strip("-")},
        "dataset": {"id": "quickstart", "utterances": UTTERANCES, "audio_seconds": AUDIO_SECONDS},
        "decoder": {"id": decoder, "name": decoder, "options": {}, "head": "transducer",
                    "exactness": exactness, "score_kind": "logit"},
        "batch": {"by": "count", "size": batch}, "dtype": dtype, "device": "cpu",
    }  # fmt: skip


def run(round=0, decode_seconds=0.5, grade="bitwise", differing=0, **fields):
    seconds = {"h2d": 0.01, "features": 0.2, "encoder": 1.5, "decode": decode_seconds,
               "d2h": 0.002, "detokenize": 0.001}  # fmt: skip
    total = sum(seconds.values())
    rates = {"rtfx.total": AUDIO_SECONDS / total,
             "rtfx.encode_decode": AUDIO_SECONDS / (1.5 + decode_seconds),
             "rtfx.decode": AUDIO_SECONDS / decode_seconds,
             "share.decode": decode_seconds / total}  # fmt: skip
    grades = {"bitwise": UTTERANCES - differing, "exact": 0, "rounding": 0, "text": 0,
              "different": differing}  # fmt: skip
    first = {"utterance": "qs01", "frame": 12, "seconds": 0.96, "baseline_words": "to the mill",
             "words": "to a mill"}  # fmt: skip
    return case_fields(**fields) | {
        "kind": "run", "started": "2026-01-02T03:04:06Z", "round": round, "order": 0,
        "regions": {k: {"host_seconds": v, "device_seconds": None} for k, v in seconds.items()},
        "total_seconds": total,
        "metrics": rates,
        "wer": {"normalizer": "basic_english", "version": 1, "wer": 0.31, "substitutions": 70,
                "insertions": 9, "deletions": 11, "reference_words": 290},
        "exactness": {"baseline": "frame_looping", "grade": grade,
                      "grades": {} if grade == "baseline" else grades,
                      "first_difference": first if differing else None},
        "deterministic": True, "hypotheses_sha256": "h0", "counters": {"joint_calls": 812},
    }  # fmt: skip


def with_batches(record, slower=2.0):
    """Returns the record with batches. Their shares of audio and time fall evenly, since long utterances come first.
    The first batch takes `slower` times as long as its share."""
    count = -(-UTTERANCES // record["batch"]["size"])
    shares = [2 * (count - i) / (count * (count + 1)) for i in range(count)]
    late = [slower] + [1] * (count - 1)

    def times(seconds):
        return [seconds * share * factor for share, factor in zip(shares, late)]

    decode = record["regions"]["decode"]["host_seconds"]
    return record | {"batches": {"audio_seconds": [AUDIO_SECONDS * share for share in shares],
                                 "total_seconds": times(record["total_seconds"]),
                                 "decode_seconds": times(decode)}}  # fmt: skip


def stream(streams=64, stable=True, **fields):
    """Returns the record of a decoder and a number of streams."""
    record = case_fields(**fields) | {
        "kind": "stream", "stable": stable, "slo": None, "batch": {"by": "streams", "size": streams},
        "stream": {"scope": "search", "slo_ms": 0.0},
        "streamed": {"utterances": 9, "tokens": 80, "different": 0, "first_difference": None},
        "metrics": {"stream.total_ms": 2.0, "stream.rtfx": 5.0},
    }  # fmt: skip
    return record | {"case": record["case"].replace("/b16/", f"/streams{streams}/")}


def failure(stage="decode", message="out of memory", **fields):
    return case_fields(**fields) | {"kind": "failure", "stage": stage, "message": message}


def boosted(words, scale, said, recalled, **fields):
    """Returns a run of a decoder that boosts a list of words. The references have `said` of these words."""
    record = run(decoder=f"{words}[boost.scale={scale}]", exactness="approximate", **fields)
    options = {"beam": 17, "boost": {"path": f"/lists/{words}.txt", "scale": scale}}
    record["decoder"] |= {"name": "ctc_wfst", "options": options, "head": "ctc"}
    record["wer"] |= {"substitutions": 50 - scale, "insertions": scale, "deletions": 10}
    record["boosted"] = {
        "words": 90, "left_out": 0, "occurrences": said, "recalled": recalled,
        "false_alarms": 29 + scale, "recall": recalled / said if said else None,
        "precision": recalled / (recalled + 29 + scale),
        "f_score": 2 * recalled / (recalled + 29 + scale + said),
    }  # fmt: skip
    return record


def boosted_search(whose, scale, recalled, phrases="names", **fields):
    """Returns a run of label-looping over 20 spoken phrases. `whose` is "rtfx" or "nemo" for the rules of rtfx's own
    search, or "rival" for NeMo itself, which takes 0.1 s to hand over its results."""
    record = boosted(phrases, scale, 20, recalled, **fields)
    lists = {"path": f"/lists/{phrases}.txt", "scale": scale, "compatibility": {"nemo": "nemo"}.get(whose, "none")}
    name = f"{whose}[boost.scale={scale}]"
    record |= {"case": record["case"].replace(record["decoder"]["id"], name)}
    record["decoder"] |= {"id": name, "name": "label_looping", "options": {"boost": lists}, "head": "transducer"}
    record["result_key"] = f"{whose}-{phrases}-{scale}"
    if whose == "rival":
        of_class = {"boost": f"lists/{phrases}.txt", "boost_alpha": scale}
        options = {"class": "Greedy", "options": of_class, "versions": {"nemo": "3.0.0"}}
        record["decoder"] |= {"name": "python", "options": options}
        record["counters"] = {"results_us": 100000}
    return record


def typical():
    """Returns a run of two models, four decoders, three batch sizes and two rounds. One case differs, and one fails."""
    records = [provenance()]
    slowness = {"frame_looping": 2.0, "label_looping": 0.6, "window": 0.5, "min_duration": 0.4}
    for model in ("quickstart-rnnt", "quickstart-tdt"):
        for batch in (1, 4, 16):
            for round in range(2):
                for decoder, seconds in slowness.items():
                    if decoder == "min_duration" and model.endswith("rnnt"):
                        continue
                    fields = {"model": model, "batch": batch, "decoder": decoder}
                    if decoder == "frame_looping":
                        fields["grade"] = "baseline"
                    if decoder == "min_duration":
                        fields["exactness"] = "approximate"
                        if batch > 1:
                            fields |= {"grade": "different", "differing": 7}
                    took = seconds * (1 + 0.01 * round) / batch**0.6
                    records.append(run(round=round, decode_seconds=took, **fields))
    records.append(failure(model="quickstart-tdt", decoder="broken_with_a_long_name_of_three_lines"))
    return records


def write(folder, records, tail=""):
    """Writes a journal. `tail` is the torn line that a crash leaves."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "journal.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records) + tail)
    return path


def write_hypotheses(folder, record, texts, reference="we went to the old mill"):
    """Writes the hypotheses of every utterance of the record's case. `texts` has texts by id, and other utterances get
    the reference."""
    folder = folder / "hypotheses"
    folder.mkdir(exist_ok=True)
    lines = [
        {"id": f"qs{i:02}", "reference": reference, "text": texts.get(f"qs{i:02}", reference)}
        for i in range(UTTERANCES)
    ]
    path = folder / f"{record['result_key']}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def trace(cases, left_out=0, by_process=None):
    """Returns trace.json. `by_process` says how many events of each case are left out.

    Each case has 100 µs of encoder, half of it in kernels, and a decode.loop of 400 µs. Every 100 µs of the loop hold a
    call, a kernel and a copy of 10 µs each."""
    events = []

    def span(process, track, begin, length, name):
        events.append({"ph": "X", "pid": process, "tid": track, "ts": 7 + begin, "dur": length,
                       "name": name})  # fmt: skip

    for process, case in enumerate(cases, 1):
        events.append({"ph": "M", "pid": process, "tid": 0, "name": "process_name",
                       "args": {"name": case}})  # fmt: skip
        for name, begin, length in (("encoder", 0, 100), ("decode", 100, 400),
                                    ("decode.loop", 100, 400)):  # fmt: skip
            span(process, 1, begin, length, name)
        span(process, 1000, 20, 50, "gemm")
        for step in range(100, 500, 100):
            for track, name in ((10, "cudaLaunchKernel"), (1000, "step"), (2000, "memcpy")):
                span(process, track, step + 20, 10, name)
    counts = {"left_out_events": left_out}
    if by_process is not None:
        counts = {"left_out_events": sum(by_process), "left_out_by_process": by_process}
    return {"displayTimeUnit": "ns", "otherData": counts, "traceEvents": events}


def profile(busy=0.2, valid=True, **fields):
    """Returns a record of profile.jsonl."""
    decode = {"wall_seconds": 1.5, "gpu.busy": busy, "gpu.busy_with_copies": busy,
              "gpu.starved": None if busy is None else 0.75 * (1 - busy), "gpu.idle_launch": 0.8}  # fmt: skip
    return case_fields(**fields) | {
        "kind": "profile", "profiled": True, "valid": valid, "regions": {"decode": decode},
    }  # fmt: skip


def complete(folder):
    """Writes a run with every figure, and with three numbers of streams, of which the last is overloaded."""
    records = [provenance(host_name="bench-1")]
    for round in range(2):
        record = boosted("names", 4, 20, 15, round=round, decode_seconds=0.5 + round / 64)
        record |= {"wall_seconds": 2.5, "cpu_seconds": 4.0, "oracle_wer": {"wer": 0.2, "entries": 8}}
        record["wer"] = record["wer"] | {"cer": 0.05, "character_errors": 5, "reference_characters": 100}
        record["counters"] = {"host_reads": 96, "joint_rows": 80, "joint_rows_needed": 60, "pred_rows": 40,
                              "pred_rows_needed": 30, "merge_pairs": 100, "hash_collisions": 1}  # fmt: skip
        record["metrics"] |= {"batch_ms.p50": 100.0, "batch_ms.p95": 150.0, "batch_ms.p99": 160.0 + round,
                              "memory.kept_mib": 18.5, "memory.peak_mib": 20.0, "energy.joules_per_hour": 5000.0}  # fmt: skip
        record["metrics"] |= {"tokens.per_second": 4.25, "tokens.reference_per_second": 4.5}
        if round == 0:
            record["metrics"] |= {"rtfx.first_pass": 30.0, "batch_ms.first": 400.0}
        record["metrics"] |= {f"busy.{stage}": 0.5 for stage in ("load", "copy", "encoder", "decode", "texts")}
        records.append(record)
    for size, stable in ((64, True), (256, True), (512, False)):
        stream = case_fields(decoder="gpu17")
        about = globals()["stream"](size, stable)
        stream |= {key: about[key] for key in ("kind", "batch", "stable", "stream", "streamed")}
        stream["case"] = f"quickstart-rnnt/quickstart/gpu17/streams{size}/fp32"
        times = {f"stream.{name}_ms{part}": 2.0 for name in ("total", "queue", "compute") for part in ("", ".p50", ".p99")}
        records.append(stream | {"metrics": times | {"stream.rtfx": 60.0}, "result_key": f"s{size}"})
    write(folder, records)
    decode = {"launches": 900, "graph_launches": 30, "busy": {"share": 0.75, "low": 0.7, "high": 0.8}}
    profile = case_fields() | {"kind": "profile", "profiled": True, "case": records[1]["case"], "laps": 3,
                               "regions": {"decode": decode}}  # fmt: skip
    others = [profile | {"result_key": "of another build", "laps": 1}, profile | {"result_key": records[1]["result_key"]}]
    (folder / "profile.jsonl").write_text("".join(json.dumps(line) + "\n" for line in others))
    return folder


def everything(folder):
    """Writes a run whose page has all sections, with hypotheses and a profile. Its baseline is in folder/before. Two
    journals of its history are in folder/history, one of them from another machine."""
    records = [
        record
        for record in typical()
        if record["kind"] != "run" or record["model"]["kind"] == "tdt" and record["batch"]["size"] > 1
    ]
    fields = {"model": "quickstart-tdt", "batch": 16}
    for scale in (0, 4, 8):
        for i in range(2):
            fields |= {"round": i, "decode_seconds": 0.3 + 0.01 * i}
            records.append(boosted("said_words", scale, 200, 160 + 2 * scale, **fields))
    for name, penalty, threshold in (("penalty_0", 0, None), ("penalty_1", 1, None), ("skipping", 0, 0.9)):
        for i in range(2):
            record = run(round=i, decoder=name, model="quickstart-tdt", decode_seconds=0.5 + 0.01 * i)
            record["decoder"] |= {"name": "label_looping", "options": {"blank_penalty": penalty, "skip_blank": threshold}}
            record["counters"] |= {"frames": 200, "frames_skipped": 50, "joint_rows": 80, "joint_rows_needed": 60,
                                   "pred_rows": 40, "pred_rows_needed": 30}  # fmt: skip
            records.append(record)
    for record in records:
        if "result_key" in record:
            record["result_key"] = record["case"].replace("/", "-")  # names a file
    write(folder / "run", records)
    odd = {"qs01": "we went two the mill", "qs05": "so we went to the old mill"}
    for record in records:
        if record["kind"] == "run":
            differs = (record.get("exactness") or {})["grade"] == "different"
            write_hypotheses(folder / "run", record, odd if differs else {})
    cases = list(dict.fromkeys(r["case"] for r in records if r["kind"] == "run"))
    (folder / "run/trace.json").write_text(json.dumps(trace(cases[:4])))
    lines = [profile(busy=0.1 * i, batch=batch) for i, batch in enumerate((1, 4, 16), 1)]
    (folder / "run/profile.jsonl").write_text("".join(json.dumps(r) + "\n" for r in lines))

    def earlier(revision, day, slower, **changes):
        first = records[0] | changes
        first |= {"started": f"2026-01-{day:02}T00:00:00Z"}
        first["rtfx"] = first["rtfx"] | {"revision": revision}
        rounds = [r for r in records if r["kind"] == "run"]
        return [first] + [
            r | {"metrics": {k: v / slower for k, v in r["metrics"].items()}} for r in rounds
        ]

    write(folder / "before", earlier("aaaaaaaaaaaa", 1, 1.5))
    write(folder / "history/monday", earlier("bbbbbbbbbbbb", 1, 1.2))
    other = {"device": {"type": "cpu", "name": "Another CPU"}}
    write(folder / "history/tuesday", earlier("cccccccccccc", 2, 1.1, **other))
    return folder / "run", folder / "before", folder / "history"
