"""Makes further runs of one program from the rounds of a real run, by a seed.

The rounds of a case are drawn from its real ones, with replacement. All times of a run are multiplied by one factor,
exp of `drift` times a normal variable. Runs of one program differ as much (docs/background/statistics.md, "Drift").
Times of decoding are also multiplied by `decode_slower`, which plants a change. """

import copy
import random

RATES = {
    "rtfx.total": ("pad", "h2d", "features", "encoder", "decode", "d2h", "detokenize"),
    "rtfx.encode_decode": ("encoder", "decode", "d2h"),
    "rtfx.decode": ("decode",),
}


def rounds_of(records):
    """Returns {case: its rounds}, in the order of the journal."""
    cases = {}
    for record in records:
        if record["kind"] == "run":
            cases.setdefault(record["case"], []).append(record)
    return cases


def rescaled(record, number, factor, decode_slower):
    """Returns the round with other times, and with the figures that follow from them."""
    record = copy.deepcopy(record) | {"round": number}
    total = record["total_seconds"]
    for name, region in record["regions"].items():
        region["host_seconds"] *= factor * (decode_slower if name == "decode" else 1)
    seconds = {name: region["host_seconds"] for name, region in record["regions"].items()}
    record["total_seconds"] = sum(seconds.values())
    audio = record["dataset"]["audio_seconds"]
    for metric, regions in RATES.items():
        record["metrics"][metric] = audio / sum(seconds.get(region, 0) for region in regions)
    record["metrics"]["share.decode"] = seconds["decode"] / record["total_seconds"]
    for name, value in record["metrics"].items():
        if name.startswith("batch_ms.") and value is not None:
            record["metrics"][name] = value * record["total_seconds"] / total
    if batches := record.get("batches"):
        decode = [s * factor * decode_slower for s in batches["decode_seconds"]]
        rest = [(t - d) * factor for t, d in zip(batches["total_seconds"], batches["decode_seconds"])]
        batches |= {"decode_seconds": decode, "total_seconds": [r + d for r, d in zip(rest, decode)]}
    if "wall_seconds" in record:
        record["wall_seconds"] += record["total_seconds"] - total
    return record


def another_run(records, seed, drift=0.003, decode_slower=1.0, **provenance):
    generator = random.Random(seed)
    factor = generator.lognormvariate(0, drift)
    (first,) = [record for record in records if record["kind"] == "provenance"]
    run = [first | {"provenance_id": f"p{seed}"} | provenance]
    for rounds in rounds_of(records).values():
        drawn = [generator.choice(rounds) for _ in rounds]
        run += [rescaled(record, i, factor, decode_slower) | {"provenance_id": f"p{seed}"} for i, record in enumerate(drawn)]
    return run
