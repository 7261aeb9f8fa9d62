"""Tests that tables of papers, of rivals and of throughput give a ratio the interval of `rtfx compare`.

Rounds that were measured side by side are pairs. Those of several invocations also differ by the drift between runs."""

import json

import cells
import chain_tables
import pytest
import rival_reports
import synthetic_journal as synthetic
from intervals import RUN_DRIFT, ratio_of_rounds, unpaired_ratio
from journal import read_journal
from rival_table import rows_of

SLOW, FAST = (2.0, 2.1, 2.05, 2.2), (0.5, 0.7, 0.6, 0.65)
# The invocations of the four rounds of an arm, whose baseline was measured in the first one.
INVOCATIONS = {"paired": "aaaa", "two pairs": "aabb", "one pair": "abbb", "resumed": "bbbb"}
SPEED_UP = {"model": "quickstart-rnnt", "decoder": "label_looping", "batch": 16, "over": "frame_looping",
            "published": "2.0", "class": "R", "source": "Table 1"}  # fmt: skip


def provenances(*gpus):
    """Returns the records of the invocations a, b, ..., which ran on these GPUs."""
    for name, gpu in zip("ab", gpus, strict=False):
        device = {"type": "cuda", "name": "A GPU", "uuid": gpu}
        yield synthetic.provenance(provenance_id=name, device=device)


def rounds(invocations, seconds, **fields):
    return [synthetic.run(round=i, decode_seconds=s, **fields) | {"provenance_id": invocation}
            for i, (invocation, s) in enumerate(zip(invocations, seconds, strict=True))]  # fmt: skip


def resumed(folder, invocations="bbbb", **arm):
    """Writes a run whose arm was measured in the given invocations."""
    baseline = rounds("aaaa", SLOW, decoder="frame_looping", grade="baseline")
    return synthetic.write(folder, [*provenances("G", "G"), *baseline, *rounds(invocations, FAST, **arm)])


@pytest.mark.parametrize("invocations", INVOCATIONS.values(), ids=INVOCATIONS)
def test_the_interval_of_a_cell_is_that_of_compare(rtfx, tmp_path, invocations):
    cases = read_journal(resumed(tmp_path, invocations)).cases
    result = rtfx("compare", tmp_path, "--json")
    assert result.returncode == 0, result.stderr
    (compared,) = [c for c in json.loads(result.stdout)["cases"] if "/label_looping/" in c["case"]]
    for part in ("total", "decode"):
        change = compared["changes"][f"rtfx.{part}"]["change"]
        found = cells.our_interval(cases, SPEED_UP | {"metric": f"speedup.{part}"})
        assert found == pytest.approx((change["low"], change["high"]), rel=1e-9)


def test_the_drift_widens_the_interval_of_rounds_without_spread():
    a, b = ({(name, i): seconds for i in range(3)} for name, seconds in (("a", 2.0), ("b", 1.0)))
    low, high = ratio_of_rounds(a, b)
    assert low < 0.5 * (1 - 2 * RUN_DRIFT) and high > 0.5 * (1 + 2 * RUN_DRIFT)
    assert ratio_of_rounds(a, {("a", i): 1.0 for i in range(3, 6)}) == pytest.approx((0.5, 0.5))
    assert ratio_of_rounds(a, {("b", 0): 1.0}) is None


@pytest.mark.parametrize("gpus", [("G", "G"), ("G", "H")])
def test_models_of_two_invocations_differ_by_the_drift(tmp_path, gpus):
    """Two GPUs may differ by more. The page of a table says that no interval holds their difference."""
    records = [*provenances(*gpus), *rounds("aaaa", FAST, model="quickstart-ctc", decoder="ctc_greedy"), *rounds("bbbb", SLOW)]
    cases = read_journal(synthetic.write(tmp_path, records)).cases
    slower = SPEED_UP | {"metric": "slower.decode", "over": "ctc_greedy", "over_model": "quickstart-ctc"}
    expected = sorted(100 * (1 - times) for times in unpaired_ratio(SLOW, FAST, RUN_DRIFT))
    assert cells.our_interval(cases, slower) == pytest.approx(expected)


def test_a_rivals_resumed_rounds_differ_by_the_drift(tmp_path):
    journal = resumed(tmp_path, decoder="theirs")
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    for record in records:
        if record.get("decoder", {}).get("id") == "theirs":
            record["decoder"] |= {"name": "python", "options": {"class": "Greedy", "options": {}, "versions": {}}}
            record["counters"] = {"results_us": 0}
    (rows,) = rows_of([read_journal(synthetic.write(tmp_path, records))], lambda case: True).values()
    low, high = unpaired_ratio([s + 0.002 for s in SLOW], FAST, RUN_DRIFT)
    _, interval = rival_reports.whole_calls(rows["frame_looping"], rows["theirs"], 16)
    assert interval == f" [{low:.3g}, {high:.3g}]"


def test_the_resumed_rounds_of_a_chain_differ_by_the_drift(tmp_path):
    records = [*provenances("G", "G")]
    for dtype in ("bf16", "fp8"):
        records += rounds("aaaa", FAST, decoder="ctc_greedy", batch=128, dtype=dtype)
        records += rounds("bbbb", SLOW, decoder="fused_looping", batch=128, dtype=dtype)
    synthetic.write(tmp_path, records).rename(tmp_path / "rnnt_0.6b.jsonl")
    *_, row = chain_tables.below_ctc(chain_tables.Folder(tmp_path))
    low, high = unpaired_ratio([1.713 + s for s in SLOW], [1.713 + s for s in FAST], RUN_DRIFT)
    assert row.startswith("| RNN-T 0.6B |") and row.count(f"[{low:.3f}, {high:.3f}]") == 2
