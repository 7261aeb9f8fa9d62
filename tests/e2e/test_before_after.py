"""Tests what plots/before_after.py counts as a change between two builds."""

import before_after
import pytest
import synthetic_journal as synthetic


def journal(folder, name, **seconds):
    """Writes a journal of one round, with a case for each decoder and its decode time in seconds."""
    records = [synthetic.provenance()]
    records += [synthetic.run(decoder=d, decode_seconds=s) for d, s in seconds.items()]
    return synthetic.write(folder / name, records)


def test_a_case_that_one_run_lacks_is_named(tmp_path):
    runs = [journal(tmp_path, name, kept=1.0) for name in ("b1", "a1", "b2")]
    runs.append(journal(tmp_path, "a2", kept=1.0, new=1.0))
    times = [before_after.seconds_per_second(run) for run in runs]
    *_, blank, last = before_after.table(times[0::2], times[1::2]).splitlines()
    assert (blank, last) == ("", "Not in all runs: quickstart-rnnt/quickstart/new/b16/fp32.")
    assert "Not in all runs" not in before_after.table(times[0::2], [times[1]] * 2)


def test_a_change_has_an_interval_that_excludes_1(tmp_path):
    # The difference of `near` is larger than that between two runs of a build. One case in five shows this by chance.
    runs = [
        journal(tmp_path, "b1", near=1.00, same=1.00, slow=1.00, fast=1.00),
        journal(tmp_path, "a1", near=1.06, same=1.03, slow=1.20, fast=0.80),
        journal(tmp_path, "b2", near=1.02, same=1.05, slow=1.05, fast=1.05),
        journal(tmp_path, "a2", near=1.04, same=1.00, slow=1.25, fast=0.85),
    ]
    times = [before_after.seconds_per_second(run) for run in runs]
    lines = before_after.table(times[0::2], times[1::2]).splitlines()
    ends = {line.split("|")[1].split("/")[2]: line.split("|")[2:6] for line in lines[2:-1]}
    assert [float(ends["slow"][i]) for i in (0, 2)] == pytest.approx([1.195, 1.05], abs=1e-3)
    changes = {decoder: cells[3].strip() for decoder, cells in ends.items()}
    assert changes == {"same": "none", "near": "none", "slow": "slower", "fast": "faster"}
