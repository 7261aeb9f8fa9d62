"""What a run did less than the protocol of a published table: `protocol` of "paper" in
configs/tables/*.json.

  warmup_rounds, measured_rounds   as published, or as the configuration has them where nothing is
  utterances                       {id of a set: utterances of the published one}
  streams, seconds                 numbers of simulated streams, and how long each ran
"""


def full_batch(case):
    """The utterances that its largest batch can hold at most: fewer than its batch size where the
    set is small. None for batches by seconds and for streams."""
    if case.last["kind"] != "run" or case.last["batch"]["by"] != "count":
        return None
    return min(int(case.last["batch"]["size"]), case.last["dataset"]["utterances"])


def batch_remark(case):
    """ "one batch of 24" for a batch size that the set cannot fill; else empty."""
    held = full_batch(case)
    return f"one batch of {held}" if held and held < case.last["batch"]["size"] else ""


def _of(found, wanted):
    return f"{found} of {wanted}" if found < wanted else None


def _rounds(protocol, journal):
    config = journal.provenance["config"].get("protocol", {})
    warm = _of(config.get("warmup_rounds", 0), protocol.get("warmup_rounds", 0))
    if warm:
        yield f"{warm} warm-up rounds"
    measured = [len(case.rounds) for case in journal.cases if case.rounds]
    few = _of(min(measured, default=0), protocol.get("measured_rounds", 0))
    if measured and few:
        yield f"{few} measured rounds"


def _sets(protocol, journal):
    sizes = {case.dataset: case.last["dataset"]["utterances"] for case in journal.cases}
    for name, published in protocol.get("utterances", {}).items():
        if name in sizes and sizes[name] < published:
            yield f"{name}: {sizes[name]} of {published} utterances"


def _batches(journal):
    held = {(case.batch, case.dataset): full_batch(case) for case in journal.cases}
    for (batch, dataset), size in held.items():
        if size and size < float(batch):
            yield f"batch {batch} is one batch of {size} on {dataset}"


def _streams(protocol, journal):
    config = journal.provenance["config"].get("stream") or {}
    left_out = [n for n in protocol.get("streams", []) if n not in config.get("streams", [])]
    if left_out:
        yield f"without {', '.join(map(str, left_out))} streams"
    seconds = _of(config.get("seconds", 0), protocol.get("seconds", 0))
    if seconds:
        yield f"{seconds} s of streams"


def reductions(table, journal):
    """One text for each thing that was done less."""
    protocol = table["paper"].get("protocol", {})
    return [
        *_rounds(protocol, journal),
        *_sets(protocol, journal),
        *_batches(journal),
        *_streams(protocol, journal),
    ]
