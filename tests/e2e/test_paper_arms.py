"""Tests the tables of the papers' ablations with small checkpoints on a CPU: the counts of their decoders and their
figures."""

import json

from conftest import AUDIO, MODELS, runs_of, strict_records
from journal import read_journal

MANIFEST = str(AUDIO / "manifest.jsonl")
RNNT, TDT = str(MODELS / "quickstart-rnnt.nemo"), str(MODELS / "quickstart-tdt.nemo")


def reproduce(rtfx, folder, table, quick, **settings):
    settings = {"dtypes": ["fp32"], "protocol.warmup_rounds": 0, "protocol.measured_rounds": 1} | settings
    overrides = [a for k, v in settings.items() for a in ("--set", f"{k}={json.dumps(v)}")]
    result = rtfx("reproduce", table, "--device", "cpu", "--threads", 1, "--quick", quick,
                  "--output", folder / "run", *overrides)  # fmt: skip
    assert result.returncode == 0, result.stderr
    return runs_of(strict_records(folder / "run/journal.jsonl"))


def test_rows_that_were_needed_and_those_in_vain(rtfx, tmp_path):
    models = {f"models.{i}.path": path for i, path in enumerate((RNNT, TDT))}
    runs = reproduce(rtfx, tmp_path, "label_looping_figure2", 4, batch_sizes=[1, 4],
                     **models, **{"datasets.0.manifest": MANIFEST})  # fmt: skip
    needed = {}
    for run in runs:
        counters = run["counters"]
        needed.setdefault(run["model"]["id"], set()).add((counters["joint_rows_needed"], counters["pred_rows_needed"]))
    assert len(runs) == 12 and all(len(rows) == 1 for rows in needed.values())  # they depend on the utterances alone
    wasted = {c.name: c.figures["wasted.joint"]["estimate"] for c in read_journal(tmp_path / "run").cases}
    assert {share for name, share in wasted.items() if "/b1/" in name} == {0}
    assert all(0 < share < 1 for name, share in wasted.items() if "/b4/" in name)
    drawn = (tmp_path / "run/wasted.svg").read_text()
    assert "frame_looping_cached, b 4" in drawn and "0 % in vain" in drawn


def test_long_utterances_among_short_ones(rtfx, tmp_path):
    sets = [{"id": f"long_p{share}", "manifest": MANIFEST, "seconds": seconds}
            for share, seconds in (("0", [1]), ("0.5", [3, 1]), ("1", [3]))]  # fmt: skip
    decoders = ["frame_looping", "label_looping"]
    reproduce(rtfx, tmp_path, "speed_of_light_adversarial", 4, batch_sizes=[1, 2], datasets=sets, decoders=decoders,
              models=[RNNT])  # fmt: skip
    drawn = (tmp_path / "run/adversarial.svg").read_text()
    assert "p = 0.5" in drawn and "p = 1" in drawn and "label_looping" in drawn


def test_flat_texts_give_the_same_and_no_hash_collides(rtfx, tmp_path):
    host = {f"decoders.{i}.options.loop": "host" for i in (0, 4, 5, 6)}  # instead of the table's CUDA graphs
    runs = reproduce(rtfx, tmp_path, "beam_ablations", 3, batch_sizes=[1], models=[{"id": "fastconformer-rnnt-1k", "path": RNNT}],
                     **host, **{"datasets.0.manifest": MANIFEST, "decoders.7.options.lm": None})  # fmt: skip
    beams = {run["decoder"]["id"]: run for run in runs if run["decoder"]["name"] == "alsd_pp"}
    assert len(beams) == 7 and len({run["hypotheses_sha256"] for run in beams.values()}) == 1
    counters = beams["collisions"]["counters"]
    assert counters["merge_pairs"] > 1000 and counters["hash_collisions"] == counters["wrong_merges"] == 0
    text = (tmp_path / "run/table.md").read_text()
    assert "| collisions | 1 | 0.0 | 0.1 | 0.00 |" in text


def test_forms_of_a_step_on_a_cpu(rtfx, tmp_path):
    sets = {f"datasets.{i}.manifest": MANIFEST for i in range(2)}
    runs = reproduce(rtfx, tmp_path, "replay_graphs_cpu", 2, **sets, **{"models.0.path": TDT})
    steps = [run for run in runs if run["decoder"]["name"] == "step_replay"]
    assert len(steps) == 6
    for run in steps:
        assert 0 < run["counters"]["joint_us"] < 1e6 * run["regions"]["decode"]["host_seconds"]
    rows = [row.strip("| ").split(" | ") for row in (tmp_path / "run/table.md").read_text().splitlines()]
    judged = [row for row in rows if len(row) == 8 and row[5] == "1.0"]  # the published figure of all rows
    assert sorted(row[2] for row in judged) == ["coalesced", "coalesced", "replay", "replay"]
    for *_, ratio, remark in judged:
        assert remark.split("; ")[0] == ("similar" if 0.5 <= float(ratio) <= 2 else "differs")
