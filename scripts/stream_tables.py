"""Writes the table of live streams from the journals in reports/h200/streams: stream_tables.py [FOLDER [PAGE...]]

A page holds it between `<!-- streams:sustained -->` and `<!-- /streams -->`. FOLDER holds the files that the steps `c120` and
`nemo_streams` of `scripts/measure.sh` write, one for each length of a chunk. Several journals of one length are read together.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "plots"))

from journal import read_journal, stand_in_sentences  # noqa: E402
from rival_reports import rewrite  # noqa: E402
from script import markdown  # noqa: E402
from sustained import sustained, sustained_by_nemo  # noqa: E402

TYPES = ("bf16", "fp8")


def number(value, digits=0):
    return "–" if value is None else f"{value:,.{digits}f}"


def count(point):
    """Returns the streams of a point, with its marks."""
    return " ".join([number(point and point.streams), *(point.marks if point else [])])


def words(point):
    """Returns the word error rate of the streams and of whole utterances, in percent."""
    found = point.source.last.get("quality") if point else None
    return " : ".join(f"{100 * found[side]['wer']:.2f}" for side in ("streamed", "whole")) if found else "–"


def different(point):
    """Returns the number of streamed utterances whose result differs from that of the whole utterance."""
    found = point.source.last["streamed"] if point else None
    return f"{found['different']:,} of {found['utterances']:,}" if found else "–"


def about(journals, ours, nemo):
    """Yields sentences on the machines, the revisions, the rule and NeMo."""
    held = {(j.provenance["device"]["name"], j.provenance["rtfx"]["revision"][:12], j.provenance["started"][:10]) for j in journals}
    machines = "; ".join(f"{markdown(device)}, rtfx {revision}, {date}" for device, revision, date in sorted(held))
    models = sorted({case.model for j in journals for case in j.streams})
    yield f"{markdown(', '.join(models))}. {machines}."
    yield from map(markdown, stand_in_sentences([point.source for point in ours]))
    rules = [rule for rule in (p.source.last["stream"].get("rule") for p in ours) if rule]
    for confirmed in sorted({rule["confirm_seconds"] for rule in rules}):
        yield f"Each number kept the rule in one trial of {confirmed:g} s."
    others = sorted({f"NeMo {p.source['nemo']} on {p.source['device']}" for p in nemo})
    if others:
        yield f"{markdown('; '.join(others))}: full batches in bf16 at the time of the median step, the best batch that was tried."
    checkpoints = {model["sha256"] for j in journals for model in j.provenance["models"]}
    if any(p.source["sha256"] not in checkpoints for p in nemo):
        yield "NeMo's checkpoint was another one."
    yield "Latency is the 95th percentile from the last audio of an utterance to its last result, without the wait for a whole chunk."
    yield "Energy is that of the GPU. Streams repeat the utterances of the dataset, and each time counts."


def table(folder):
    journals = [read_journal(path) for path in sorted(folder.glob("c120_*.jsonl*"))]
    nemo = sustained_by_nemo(sorted(folder.glob("nemo_streams_*.jsonl*")))
    ours = sustained(case for journal in journals for case in journal.streams)
    yield from about(journals, ours, nemo)
    yield ""
    sides = {}  # {ms of a chunk: points of (bf16, fp8, NeMo)}
    for chunk in sorted({point.step_ms for point in ours}):
        pair = [next((p for p in ours if p.step_ms == chunk and p.source.dtype == dtype), None) for dtype in TYPES]
        sides[chunk] = *pair, next((p for p in nemo if p.step_ms == chunk), None)
    yield from rows_of(sides, "streams sustained, bf16 | fp8 | NeMo | bf16 : NeMo", lambda *points: [*map(count, points), factor(*points)])
    yield ""
    yield from rows_of(sides, "joules per hour of audio, bf16 | fp8 | NeMo | latency ms, bf16 | fp8",
                       lambda *points: [number(p and p.joules_per_hour) for p in points] + [number(p and p.final_ms) for p in points[:2]])  # fmt: skip
    yield ""
    yield from rows_of(sides, "WER %, streams : whole utterances, bf16 | the same, fp8 | streamed utterances that differ from whole ones, bf16 | the same, fp8",
                       lambda *points: [*map(words, points[:2]), *map(different, points[:2])])  # fmt: skip


def rows_of(sides, columns, cells):
    """Yields a table with a row for each length of a chunk."""
    yield f"| chunk | {columns} |"
    yield "|--:|" + "--:|" * (columns.count("|") + 1)
    for chunk, points in sides.items():
        yield f"| {chunk:g} ms | {' | '.join(cells(*points))} |"


def factor(bf16, _, nemo):
    return f"{bf16.streams / nemo.streams:.2f}x" if bf16 and nemo else "–"


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "reports/h200/streams"
    pages = [Path(page) for page in sys.argv[2:]] or [ROOT / "reports/README.md"]
    if not any(folder.glob("c120_*.jsonl*")):
        raise SystemExit(f"{folder}: holds no c120_*.jsonl")
    rewrite(pages, "streams:sustained", lambda: table(folder))


if __name__ == "__main__":
    main()
