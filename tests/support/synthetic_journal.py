"""A made-up journal that follows docs/journal.md, for the tests of what reads journals."""

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


def run(round=0, decode_seconds=0.5, verdict="bitwise", differing=0, **fields):
    seconds = {"h2d": 0.01, "features": 0.2, "encoder": 1.5, "decode": decode_seconds,
               "d2h": 0.002, "detokenize": 0.001}  # fmt: skip
    total = sum(seconds.values())
    rates = {"rtfx.total": AUDIO_SECONDS / total,
             "rtfx.encode_decode": AUDIO_SECONDS / (1.5 + decode_seconds),
             "rtfx.decode": AUDIO_SECONDS / decode_seconds,
             "share.decode": decode_seconds / total}  # fmt: skip
    grades = {"bitwise": UTTERANCES - differing, "exact": 0, "tie": 0, "text": 0,
              "different": differing}  # fmt: skip
    first = {"utterance": "qs01", "frame": 12, "seconds": 0.96, "baseline_words": "to the mill",
             "words": "to a mill", "margin": 0.25}  # fmt: skip
    return case_fields(**fields) | {
        "kind": "run", "started": "2026-01-02T03:04:06Z", "round": round, "order": 0,
        "regions": {k: {"host_seconds": v, "device_seconds": None} for k, v in seconds.items()},
        "total_seconds": total,
        "metrics": rates,
        "wer": {"normalizer": "basic_english", "version": 1, "wer": 0.31, "substitutions": 70,
                "insertions": 9, "deletions": 11, "reference_words": 290},
        "exactness": {"baseline": "frame_looping", "verdict": verdict,
                      "grades": {} if verdict == "reference" else grades,
                      "first_difference": first if differing else None},
        "deterministic": True, "hypotheses_sha256": "h0", "counters": {"joint_calls": 812},
    }  # fmt: skip


def failure(stage="decode", message="out of memory", **fields):
    return case_fields(**fields) | {"kind": "failure", "stage": stage, "message": message}


def typical():
    """Two models, four decoders, three batch sizes, two rounds; one differs, one fails."""
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
                        fields["verdict"] = "reference"
                    if decoder == "min_duration":
                        fields["exactness"] = "approximate"
                        if batch > 1:
                            fields |= {"verdict": "different", "differing": 7}
                    took = seconds * (1 + 0.01 * round) / batch**0.6
                    records.append(run(round=round, decode_seconds=took, **fields))
    records.append(failure(model="quickstart-tdt", decoder="broken"))
    return records


def write(folder, records, tail=""):
    """`tail`: the torn line of a crash."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "journal.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records) + tail)
    return path
