"""Tests the arithmetic of a published table's cells, its rendering, and the tables as transcribed."""

import json
import math
import re

import cells
import paper_page
import pytest
import synthetic_journal as synthetic
from conftest import ROOT
from forked_script import script
from journal import Journal, read_journal
from paper_table import COUNTS, reductions

TABLES = sorted((ROOT / "configs/tables").glob("*.json"))
# The synthetic journal has 120 s of audio and 1.713 s outside decoding.
OTHER, AUDIO = 1.713, 120.0


def cell(metric, decoder="label_looping", published="2.0", **more):
    return {"model": "quickstart-rnnt", "decoder": decoder, "batch": 16, "metric": metric,
            "published": published, "class": "R", "source": "Table 1"} | more  # fmt: skip


def journal_of(folder, *records, **about):
    """Reads a journal whose baseline decodes in 2 s, and label-looping in 0.5 s and 0.7 s in its two rounds."""
    config = synthetic.provenance()["config"] | {"dtypes": ["bf16"]} | about.pop("config", {})
    model = {"id": "quickstart-rnnt", "kind": "rnnt", "parameters": 6_300_000} | about
    journal = [synthetic.provenance(models=[model], config=config)]
    journal.append(synthetic.run(decoder="frame_looping", decode_seconds=2.0, grade="baseline"))
    journal += [synthetic.run(decode_seconds=s, round=r) for r, s in enumerate((0.5, 0.7))]
    return read_journal(synthetic.write(folder, journal + list(records)))


@pytest.fixture
def cases(tmp_path):
    return journal_of(tmp_path).cases


def test_metrics_of_one_case(cases):
    rates = [AUDIO / (OTHER + s) for s in (0.5, 0.7)]
    expected = {
        "rtfx.total": sum(rates) / 2,
        "rtfx.decode": (AUDIO / 0.5 + AUDIO / 0.7) / 2,
        "share.decode": 50 * (0.5 / (OTHER + 0.5) + 0.7 / (OTHER + 0.7)),
        "wer": 31,
        "min_ms.decode": 500 / 2,  # 24 utterances in batches of 16 are two batches
        "min_ms.total": 1000 * (OTHER + 0.5) / 2,
    }
    for metric, value in expected.items():
        assert cells.our_value(cases, cell(metric)) == pytest.approx(value), metric


def test_speed_ups_of_two_cases(cases):
    share = (0.5 / (OTHER + 0.5) + 0.7 / (OTHER + 0.7)) / 2
    rtfx = (AUDIO / (OTHER + 0.5) + AUDIO / (OTHER + 0.7)) / 2
    base_share, base_rtfx = 2 / (OTHER + 2), AUDIO / (OTHER + 2)
    expected = {
        "speedup.total": rtfx / base_rtfx,
        "speedup.decode": (base_share / base_rtfx) / (share / rtfx),
        "speedup.min_ms.decode": 4.0,
        "speedup.min_ms.total": (OTHER + 2) / (OTHER + 0.5),
        "saved.decode": 100 * (1 - (share / rtfx) / (base_share / base_rtfx)),
        "slower.total": 100 * (1 - rtfx / base_rtfx),
        "slower.decode": 100 * (1 - (base_share / base_rtfx) / (share / rtfx)),
        "gain.wer": 0,
    }
    for metric, value in expected.items():
        ours = cells.our_value(cases, cell(metric, over="frame_looping"))
        assert ours == pytest.approx(value), metric


def test_a_relative_gain_of_words_has_a_direction_and_no_interval(tmp_path):
    with_lm = synthetic.run(decoder="with_lm")
    with_lm["wer"] |= {"wer": 0.248}
    cases = journal_of(tmp_path, with_lm).cases
    gain = cell("gain.wer", decoder="with_lm", over="label_looping", published="16.39")
    assert cells.our_value(cases, gain) == pytest.approx(20)
    assert cells.our_interval(cases, gain) is None
    assert cells.agreement(gain, 20.0) == "same direction, without interval"
    assert cells.agreement(gain, -3.0) == "reversed, without interval"
    assert cells.agreement(gain, 0.0) == "no difference, without interval"


def test_comparisons_across_models_and_batches(tmp_path):
    """Cells compare across models and batches: CTC decodes in 0.1 s, and batch 4 needs 3 s where batch 16 needs 0.6
    s."""
    others = [synthetic.run(model="quickstart-ctc", decoder="ctc_greedy", decode_seconds=0.1, round=r) for r in (0, 1)]
    others += [synthetic.run(batch=4, decode_seconds=3 + 0.1 * r, round=r) for r in (0, 1)]
    cases = journal_of(tmp_path, *others).cases
    slower = cell("slower.total", over="ctc_greedy", over_model="quickstart-ctc", published="16")
    rtfx = (AUDIO / (OTHER + 0.5) + AUDIO / (OTHER + 0.7)) / 2
    assert cells.our_value(cases, slower) == pytest.approx(100 * (1 - rtfx / (AUDIO / (OTHER + 0.1))))
    low, high = cells.our_interval(cases, slower)
    assert low < cells.our_value(cases, slower) < high
    assert "same direction" in cells.agreement(slower, 20.0, (10.0, 30.0))
    assert "reversed" in cells.agreement(slower, -20.0, (-30.0, -10.0))
    faster = cell("speedup.decode", over="label_looping", over_batch=4, published="15")
    assert 4 < cells.our_value(cases, faster) < 7
    assert cells.find_case(cases, cell("wer", model="quickstart-ctc", decoder="ctc_greedy")).model == "quickstart-ctc"


def test_rows_that_the_paper_lacks_are_compared_with_the_same_model(tmp_path):
    journal_of(tmp_path, synthetic.run(decoder="ours_alone", decode_seconds=0.25),
               synthetic.run(model="quickstart-ctc", decoder="ctc_greedy", decode_seconds=0.1))  # fmt: skip
    slower = cell("slower.total", over="ctc_greedy", over_model="quickstart-ctc", published="16")
    assert render(tmp_path, table_of(slower)).returncode == 0
    expected = 100 * (1 - (OTHER + 0.1) / (OTHER + 0.25))
    assert f"| not in the paper | ours_alone | 16 | {expected:.1f} |" in (tmp_path / "table.md").read_text()


def test_clips_and_joint_calls(tmp_path):
    record = synthetic.run(decoder="steps", decode_seconds=0.25)
    record["counters"] |= {"joint_us": 60_000}
    cases = journal_of(tmp_path, record, synthetic.run(decoder="steps", decode_seconds=0.5, round=1)
                       | {"counters": {"joint_us": 50_000}}).cases  # fmt: skip
    assert cells.our_value(cases, cell("clips_per_second.decode", decoder="steps")) == pytest.approx(24 / 0.25)
    assert cells.our_value(cases, cell("joint_ms", decoder="steps")) == pytest.approx(50 / 2)
    assert cells.our_value(cases, cell("joint_ms")) is None


def test_the_share_without_a_kernel_comes_from_the_profile_beside_the_journal(tmp_path):
    cases = journal_of(tmp_path).cases
    assert cells.our_value(cases, cell("idle.share")) is None
    record = synthetic.run()
    decode = {"launches": 10, "busy": {"share": 0.2, "low": 0.1, "high": 0.3}}
    profile = {key: record[key] for key in ("schema", "provenance_id", "case", "result_key", "model", "dataset",
                                            "decoder", "batch", "dtype", "device")}  # fmt: skip
    profile |= {"kind": "profile", "profiled": True, "laps": 1, "valid": True, "regions": {"decode": decode}}
    (tmp_path / "profile.jsonl").write_text(json.dumps(profile) + "\n")
    cases = read_journal(tmp_path).cases
    assert cells.our_value(cases, cell("idle.share")) == pytest.approx(80)
    (tmp_path / "profile.jsonl").write_text(json.dumps(profile | {"valid": False}) + "\n")
    assert cells.our_value(read_journal(tmp_path).cases, cell("idle.share")) is None


def test_published_speed_ups_follow_from_the_published_rates():
    """The paper's own rates, 414.63 and 1040.23, give its speed-ups, 2.51 and 6.59, by its own definition."""
    table = json.loads((ROOT / "configs/tables/speed_of_light_table1.json").read_text())
    figures = {(c["model"], c["decoder"], c["metric"]): float(c["published"])
               for c in table["cells"]}  # fmt: skip
    checked = 0
    for c in table["cells"]:
        if not c["metric"].startswith("speedup.") or c["source"] != "Table 1":
            continue
        rtfx, share = (
            {d: figures[c["model"], d, metric] for d in (c["decoder"], c["over"])}
            for metric in ("rtfx.total", "share.decode")
        )
        total = rtfx[c["decoder"]] / rtfx[c["over"]]
        decode = (share[c["over"]] / rtfx[c["over"]]) / (share[c["decoder"]] / rtfx[c["decoder"]])
        computed = total if c["metric"] == "speedup.total" else decode
        assert round(computed, 2) == pytest.approx(float(c["published"]), abs=0.0101), c
        checked += 1
    assert checked == 26  # includes the speed-ups over the baseline of the row


def test_what_was_not_run_has_no_value(cases):
    assert cells.our_value(cases, cell("rtfx.total", batch=4)) is None
    assert cells.our_value(cases, cell("rtfx.total", decoder=None)) is None
    assert cells.our_value(cases, cell("speedup.total", over="gone")) is None
    assert cells.find_case(cases, {"case": cases[1].name, "metric": "wer"}) is cases[1]


def test_failed_case_has_no_value(tmp_path):
    cases = journal_of(tmp_path, synthetic.failure()).cases
    assert cells.our_value(cases, cell("rtfx.total")) is None
    assert cells.our_value(cases, cell("speedup.total", over="frame_looping")) is None


@pytest.mark.parametrize(
    "kind, metric, published, ours, expected",
    [
        ("W", "wer", "2.7", 2.74, "equal"),
        ("W", "wer", "2.79", 2.81, "+0.02"),
        ("R", "speedup.total", "2.51", 1.3, "same direction, other size [1.20, 1.40]"),
        ("R", "speedup.total", "2.51", 1.05, "no difference [0.95, 1.15]"),
        ("R", "speedup.total", "2.51", 0.96, "no difference [0.86, 1.06]"),
        ("R", "speedup.total", "2.51", 0.85, "reversed [0.75, 0.95]"),
        ("R", "speedup.total", "0.51", 0.85, "same direction, other size [0.75, 0.95]"),
        ("R", "speedup.decode", "10.40", 2.0, "same direction, other size [1.90, 2.10]"),
        ("R", "speedup.total", "1.0", 0.97, "similar"),
        ("R", "share.decode", "17.52", 50.0, "differs"),
        ("H", "rtfx.total", "414.63", 1.0, ""),
        ("R", "speedup.total", "2.51", None, ""),
    ],
)
def test_agreement_by_class(kind, metric, published, ours, expected):
    interval = (ours - 0.1, ours + 0.1) if ours and metric.startswith("speedup.") else None
    found = cells.agreement(cell(metric, published=published) | {"class": kind}, ours, interval)
    assert found == expected


def test_a_single_round_has_no_direction():
    assert cells.agreement(cell("speedup.total"), 1.3, None) == "one round: not judged"


def test_the_interval_of_a_speed_up_is_over_pairs_of_rounds(tmp_path):
    baseline = [synthetic.run(decoder="frame_looping", decode_seconds=s, grade="baseline", round=r)
                for r, s in enumerate((2.0, 4.0, 8.0))]  # fmt: skip
    arm = [synthetic.run(decode_seconds=s, round=r) for r, s in enumerate((1.0, 2.0, 4.0))]
    twice = read_journal(synthetic.write(tmp_path, [synthetic.provenance(), *baseline, *arm])).cases
    speed_up = cell("speedup.decode", over="frame_looping")
    # Both decoders became slower from round to round.
    assert cells.our_interval(twice, speed_up) == pytest.approx((2.0, 2.0))
    arm[1] = synthetic.run(decode_seconds=5.0, round=1)
    mixed = read_journal(synthetic.write(tmp_path, [synthetic.provenance(), *baseline, *arm])).cases
    logs = [math.log(2), math.log(4 / 5), math.log(2)]
    mean = sum(logs) / 3
    half = 4.303 * math.sqrt(sum((x - mean) ** 2 for x in logs) / 2 / 3)
    low, high = cells.our_interval(mixed, speed_up)
    assert (low, high) == pytest.approx((math.exp(mean - half), math.exp(mean + half)), rel=1e-3)
    assert "no difference" in cells.agreement(speed_up, 1.5, (low, high))
    assert cells.our_interval(mixed, cell("wer")) is None


def render(folder, table, *arguments):
    (folder / "t.json").write_text(json.dumps(table))
    return script("plots/paper_table.py", folder / "t.json", folder, *arguments)


def table_of(*all_cells):
    setting = {"GPU": "an abacus", "data": "test-other"}
    paper = {"title": "T", "reference": "R", "setting": setting, "remarks": ["slow & 5 % `off`"]}
    return {"paper": paper, "cells": list(all_cells)}


def test_rendering(tmp_path):
    own = synthetic.run(decoder="ours_alone", decode_seconds=0.25)
    journal_of(tmp_path, own, synthetic.run(decoder="null", decode_seconds=0.1) | {
        "decoder": {"id": "null", "name": "null", "head": "none", "exactness": "exact"}})  # fmt: skip
    speed_up = cell("speedup.decode", over="frame_looping", published="2.7")
    torch_script = cell("rtfx.total", decoder=None, published="882.1", arm="+ TorchScript")
    speed = cell("rtfx.total", published="75.30", **{"class": "H"})
    # This cell shows our value for its own model, though the paper has a value for another one.
    other = cell("rtfx.total", decoder="ours_alone", model="quickstart-tdt")
    result = render(tmp_path, table_of(speed, torch_script, speed_up, other), "--latex")
    assert result.returncode == 0, result.stderr
    text = (tmp_path / "table.md").read_text()
    rtfx = (AUDIO / (OTHER + 0.5) + AUDIO / (OTHER + 0.7)) / 2
    assert f"| label_looping | 16 | {rtfx:.2f} | 75.30 | {rtfx / 75.3:.2f} | bitwise" in text
    assert "+ TorchScript | – | 16 | – | 882.1 | – | rtfx has none |" in text
    assert "| not in the paper | frame_looping | 16 |" in text and "| null |" not in text
    assert "| not in the paper | ours_alone | 16 | 8.00 | – | – |" in text  # a speed-up of 2 s / 0.25 s
    assert "one round: not judged" in text and "| GPU | none: Some CPU (CPU) | an abacus |" in text
    assert "- slow & 5 % `off`" in text and "QUICK" not in text
    tex = (tmp_path / "table.tex").read_text()
    assert "75.30" in tex and r"\noindent R. Journal: journal.jsonl, " in tex
    assert r"\noindent slow \& 5 \% \texttt{off}\par" in tex and r"\noindent This ratio is expected to have" in tex


def test_sizes_of_batch_that_the_paper_lacks_are_shown_and_those_not_full_are_marked(tmp_path):
    large = synthetic.run(decode_seconds=0.25, batch=32)
    journal_of(tmp_path, large)
    assert render(tmp_path, table_of(cell("rtfx.decode"), cell("rtfx.total"))).returncode == 0
    text = (tmp_path / "table.md").read_text()
    rows = [line for line in text.splitlines() if "| label_looping |" in line]
    assert ["| 16 |" in row for row in rows] == [True, False] * 2
    assert all("not in the paper | label_looping | 32 |" in row for row in rows[1::2])
    assert ["one batch of 24" in row for row in rows] == [False, True] * 2


def reduced(folder, protocol, *records):
    journal_of(folder, *records)
    table = table_of(cell("rtfx.total", decoder="window", batch=200))
    table["paper"]["protocol"] = protocol
    result = render(folder, table)
    assert result.returncode == 0, result.stderr
    return (folder / "table.md").read_text()


def test_what_a_run_did_less_is_stamped(tmp_path):
    full = {"warmup_rounds": 1, "measured_rounds": 1, "utterances": {"quickstart": 24}}
    assert "REDUCED" not in reduced(tmp_path, full)
    published = {"warmup_rounds": 5, "measured_rounds": 10, "utterances": {"quickstart": 2939}}
    text = reduced(tmp_path, published, synthetic.run(batch=200, decoder="window"))
    (stamp,) = [line for line in text.splitlines() if "REDUCED" in line]
    assert "1 of 5 warm-up rounds" in stamp and "1 of 10 measured rounds" in stamp
    assert "quickstart: 24 of 2939 utterances" in stamp
    assert "batch 200 is one batch of 24 on quickstart" in stamp
    (row,) = [line for line in text.splitlines() if "| window | 200 |" in line]
    assert "one batch of 24" in row


def test_fewer_streams_and_seconds_are_stamped():
    protocol = {"streams": [1, 16, 64], "seconds": 60}
    provenance = {"config": {"stream": {"streams": [1, 64], "seconds": 5}}}
    journal = Journal("j", [provenance], [])
    less = reductions({"paper": {"protocol": protocol}}, journal)
    assert less == ["Without 16 streams", "5 of 60 s of streams"]


def test_a_table_of_several_processes_names_the_models_of_all(tmp_path):
    """Two processes measured one model each. The second one ran without warm-up and from another revision."""

    def part(number, warm_ups):
        about = synthetic.provenance(models=[{"id": f"model-{number}", "kind": "rnnt", "parameters": 6_300_000}])
        config = about["config"] | {"dtypes": ["bf16"], "protocol": {"warmup_rounds": warm_ups}}
        return about | {"provenance_id": f"p{number}", "config": config, "rtfx": about["rtfx"] | {"revision": f"{number}" * 12}}

    records = []
    for number, warm_ups in ((1, 2), (2, 0), (3, 1)):
        records.append(part(number, warm_ups))
        if number < 3:  # the third process measured nothing
            records.append(synthetic.run(model=f"model-{number}") | {"provenance_id": f"p{number}"})
    synthetic.write(tmp_path, records)
    table = table_of(cell("rtfx.total", model="model-1"))
    table["paper"]["protocol"] = {"warmup_rounds": 2}
    assert render(tmp_path, table).returncode == 0
    text = (tmp_path / "table.md").read_text()
    assert "REDUCED: 0 of 2 warm-up rounds for model-2. Not" in text
    assert "| rounds | 2 warm-ups, 1 measured for model-1; 0 warm-ups, 1 measured for model-2 |" in text
    assert "model-1 (rnnt, 6.3 M parameters); model-2 (rnnt" in text and "model-3" not in text
    assert "(111111111111)" in text and "(222222222222)" in text


def test_smaller_sets_of_some_batches_and_sets_left_out_are_stamped(tmp_path):
    text = reduced(tmp_path, {"utterances": {"one": 2939, "two": 2620}})
    assert "quickstart: 24 of 2620 utterances. Without one, two" in text
    sample = synthetic.run(batch=4)
    sample["dataset"] = sample["dataset"] | {"id": "sample"}
    sample["case"] = sample["case"].replace("/quickstart/", "/sample/")
    text = reduced(tmp_path, {"utterances": {"quickstart": 24}}, sample | {"result_key": "of the sample"})
    assert "REDUCED" not in text
    text = reduced(tmp_path, {"utterances": {"quickstart": 30}}, sample | {"result_key": "of the sample"})
    assert "quickstart at batch 16: 24 of 30 utterances. sample at batch 4: 24 of 30 utterances" in text


def test_counts_explain_the_figures(tmp_path):
    journal_of(tmp_path)
    table = table_of(cell("rtfx.total"))
    table["paper"]["counts"] = ["joint_calls", "host_reads", "deletions"]
    assert render(tmp_path, table, "--latex").returncode == 0
    text = (tmp_path / "table.md").read_text().split("## Counts that explain the figures")[1]
    assert "| model | dataset | decoder | batch | joint calls per s | host reads per s | deletions, % |" in text
    assert f"| label_looping | 16 | {812 / 120:.2f} | – | {1100 / 290:.2f} |" in text
    tex = (tmp_path / "table.tex").read_text()
    assert f"& {812 / 120:.2f} &" in tex and "Counters are those of the last round" in tex


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_a_table_states_its_protocol_and_asks_for_all_of_it(path):
    table = json.loads(path.read_text())
    protocol = table["paper"]["protocol"]
    stream = {"streams", "seconds"}
    assert set(protocol) - {"utterances"} == (
        stream if "stream" in table else {"warmup_rounds", "measured_rounds"}
    )
    for key in protocol.keys() & {"warmup_rounds", "measured_rounds"}:
        assert table["protocol"][key] >= protocol[key]
    for key in protocol.keys() & stream:
        assert table["stream"][key] == protocol[key]
    assert set(protocol.get("utterances", {})) <= {d["id"] for d in table["datasets"]}
    assert set(table["paper"].get("counts", [])) <= COUNTS.keys()


def test_marks_of_stand_ins_and_quick_runs(tmp_path):
    run = synthetic.run(decoder="windowed")
    run["model"]["stand_in"] = "small.nemo widened"
    journal_of(tmp_path, run, config={"datasets": [{"id": "d", "limit": 7}]}, stand_in="small.nemo widened")
    result = render(tmp_path, table_of(cell("wer", decoder="windowed") | {"class": "W"}))
    assert result.returncode == 0, result.stderr
    head, body = (tmp_path / "table.md").read_text().split("| what differs")
    assert "only the first 7 utterances" in head and "Word error rates are those of the small model." in head
    table = table_of(cell("rtfx.total")) | {"datasets": [{"id": "d", "limit": 7}]}  # the table's own set has this limit
    assert render(tmp_path, table).returncode == 0
    assert "QUICK" not in (tmp_path / "table.md").read_text()
    row = next(line for line in body.splitlines() if "| windowed |" in line)
    assert "| 31.00 | 2.0 | – | of the stand-in" in row
    assert "stand-in model" in row


def test_wrong_files_are_named(tmp_path):
    journal_of(tmp_path)
    assert "'paper' and 'cells'" in render(tmp_path, {"question": "?"}).stderr
    (tmp_path / "journal.jsonl").unlink()
    assert "journal.jsonl" in render(tmp_path, table_of()).stderr


def test_one_page_has_the_effects_of_all_tables(tmp_path):
    slow = [synthetic.run(decoder="slow", decode_seconds=s, round=r) for r, s in enumerate((4.0, 4.1, 4.2))]
    runs = [synthetic.run(decoder="frame_looping", decode_seconds=2.0 + r / 100, grade="baseline", round=r) for r in range(3)]
    runs += [synthetic.run(decode_seconds=0.5 + r / 100, round=r) for r in range(3)]
    config = synthetic.provenance()["config"] | {"dtypes": ["bf16"]}
    synthetic.write(tmp_path, [synthetic.provenance(config=config), *runs, *slow])
    effects = [
        cell("speedup.decode", over="frame_looping", published="2.7", arm="fast"),
        cell("speedup.decode", over="frame_looping", published="40", arm="fast, much"),
        cell("speedup.decode", decoder="slow", over="frame_looping", published="2.7", arm="slow"),
        cell("speedup.total", decoder="gone", over="frame_looping", published="2.7", arm="gone"),
        cell("speedup.total", over="frame_looping", published="1.0", arm="no effect"),
        cell("rtfx.total", published="75.30", arm="a speed", **{"class": "H"}),
        cell("speedup.total", over="frame_looping", published="2.7", arm="with other kernels", again=True),
    ]
    for name, question in (("one", "What is *fast*?"), ("two", "And slow?")):
        (tmp_path / f"{name}.json").write_text(json.dumps(table_of(*effects) | {"question": question}))
    (tmp_path / "one_drawn.svg").write_text("<svg/>")
    table = json.loads((tmp_path / "one.json").read_text())
    table["paper"]["figures"] = ["drawn", {"name": "not_drawn", "script": "x"}]
    (tmp_path / "one.json").write_text(json.dumps(table))
    result = script("plots/paper_page.py", "--table", tmp_path / "one.json", tmp_path,
                    "--table", tmp_path / "two.json", "", "-o", tmp_path / "page.md")  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "1 of 2 tables were run; of 8 effects: 2 same direction, 1 reversed, 5 not run" in result.stdout
    text = (tmp_path / "page.md").read_text()
    assert "| [one](#one) | 2 | 1 | 0 | 1 | 0 | 1 |" in text and "| [two](#two) (not run) | 0 | 0 | 0 | 0 | 0 | 4 |" in text
    assert "| again, over another baseline or with other kernels | 1 | 1 | 0 | 0 | 0 | 1 |" in text
    assert text.index('<a id="one"></a>') < text.index('<a id="two"></a>')
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| Speed-up")]
    assert "| effect | where | paper | ours | 95 % interval | mark |" in text  # docs/reproduce.md says "mark" too
    marks = {row[0].partition(": ")[2].strip(): row[-1].strip() for row in rows[:4]}
    assert marks == {"fast": "same direction", "fast, much": "same direction, other size",
                     "slow": "reversed", "gone": "not run"}  # fmt: skip
    assert "![one: drawn](one_drawn.svg)" in text and "not_drawn" not in text
    assert r"What is \*fast\*?" in text and "`rtfx reproduce two` runs it" in text
    assert "| 75.30 |" in text and "### Speed-up" in text


def test_a_sample_of_a_limited_set_is_no_quick_run(tmp_path):
    """A sample of 24 utterances is no quick run, since the table's own set has a limit of 30."""
    config = synthetic.provenance()["config"] | {"dtypes": ["fp32"]}
    for limit, is_quick in ((30, False), (8, True)):
        config["datasets"] = [{"id": "quickstart_24", "limit": limit}]
        synthetic.write(tmp_path, [synthetic.provenance(config=config), synthetic.run()])
        table = table_of(cell("rtfx.total")) | {"datasets": [{"id": "quickstart", "limit": 30}]}
        assert render(tmp_path, table).returncode == 0
        assert ("QUICK" in (tmp_path / "table.md").read_text()) == is_quick


def test_tuned_weights_are_shown(tmp_path):
    config = synthetic.provenance()["config"] | {"dtypes": ["fp32"]}
    config["decoders"] = [{"id": "fused", "options": {"lm": {"alpha": 0.25, "pruning": "late"}}}]
    spec = {"decoder": "fused", "dataset": {"id": "dev", "manifest": "dev.jsonl"}, "shared_with": ["operators"],
            "options": {"lm.alpha": [0, 1], "lm.pruning": ["late", "early"], "lm.beta": [0, 1], "lm.alpha.x": [0, 1]}}  # fmt: skip

    def shown(entry, decoder="fused"):
        config["tune"] = [entry]
        synthetic.write(tmp_path, [synthetic.provenance(config=config), synthetic.run(decoder=decoder)])
        assert render(tmp_path, table_of(cell("rtfx.total"))).returncode == 0
        return re.findall(r"(?m)^- (.*\bthe weights\b.*)$", (tmp_path / "table.md").read_text())

    weights = "lm.alpha 0.25, lm.alpha.x –, lm.beta –, lm.pruning late."
    chosen = {"options": {"lm.alpha": 0.25}, "utterances": 120}
    assert shown(spec | {"chosen": chosen}) == [
        f"rtfx tune chose the weights of fused and 1 more of its forms on dev (120 utterances): {weights}"]  # fmt: skip
    by_hand = [f"fused and 1 more of its forms had the weights {weights}"]
    assert shown(spec) == by_hand  # this run was not tuned
    assert shown(spec | {"chosen": {"options": {"lm.alpha": 0.5}}}) == by_hand  # not the chosen values
    assert shown(spec | {"models": ["another model"]}) == []
    assert shown(spec, decoder="another") == []  # neither form of the decoder was measured
    assert shown(spec | {"decoder": "gone"}, decoder="operators") == []


def test_a_journal_of_another_table_is_refused(tmp_path):
    config = synthetic.provenance()["config"] | {"dtypes": ["fp32"]}
    synthetic.write(tmp_path, [synthetic.provenance(config=config), synthetic.run()])
    table = table_of(cell("rtfx.total")) | {"decoders": ["alsd", {"id": "beam", "name": "alsd_pp"}]}
    result = render(tmp_path, table)
    assert result.returncode == 1 and "no case of this table, but of label_looping" in result.stderr
    own = table | {"decoders": [{"name": "label_looping"}]}
    assert render(tmp_path, own).returncode == 0
    other_model = own | {"cells": [each | {"model": "another"} for each in own["cells"]]}
    result = render(tmp_path, other_model)
    assert result.returncode == 1 and "no model of this table, but quickstart-rnnt; give the journal" in result.stderr


def test_sets_that_no_case_has_and_several_gpus(tmp_path):
    """The second process ended before its second set, and its model ran on another GPU."""
    parts = []
    for number, runs in ((1, [synthetic.run()]), (2, [synthetic.run(decoder="window")])):
        about = synthetic.provenance() | {"provenance_id": str(number)}
        about["device"] = about["device"] | {"uuid": f"GPU-{number}"}
        about["datasets"] = [*about["datasets"], about["datasets"][0] | {"id": "never"}]
        about["config"] = about["config"] | {"dtypes": ["fp32"]}
        parts += [about, *(run | {"provenance_id": str(number)} for run in runs)]
    synthetic.write(tmp_path, parts)
    assert render(tmp_path, table_of(cell("rtfx.total"))).returncode == 0
    text = (tmp_path / "table.md").read_text()
    assert "quickstart (24 utterances" in text and "never (" not in text and "GPUs measured" not in text
    assert render(tmp_path, table_of(cell("slower.total", over="window", over_model="quickstart-rnnt"))).returncode == 0
    assert "- 2 GPUs measured our models" in (tmp_path / "table.md").read_text()


def test_ends_of_intervals_stay_apart_from_no_difference():
    assert paper_page.digits_for((0.9551, 0.9982), 1, 2) == 3  # [0.955, 0.998] instead of [0.96, 1.00]
    assert paper_page.digits_for((0.95, 1.2), 1, 2) == 2
    assert paper_page.digits_for((0.99999, 1.2), 1, 2) == 4
    assert paper_page.digits_for((1, 1), 1, 2) == 2


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_every_cell_means_a_case_of_its_configuration(path):
    table = json.loads(path.read_text())
    models = {m["id"] for m in table["models"]}
    decoders = {d["id"]: d.get("models") for d in table["decoders"]}
    datasets = {d["id"] for d in table["datasets"]}
    sizes = table["stream"]["streams"] if "stream" in table else table["batch_sizes"]
    for c in table["cells"]:
        assert c["model"] in models and c["batch"] in sizes, c
        assert c.get("dataset") in datasets or ("dataset" not in c and len(datasets) == 1), c
        for model, decoder in ((c["model"], c["decoder"]), (c.get("over_model", c["model"]), c.get("over"))):
            assert decoder is None or (decoder in decoders and model in (decoders[decoder] or models)), c
        assert c["metric"] in cells.METRICS and c["class"] in "WRHQ" and c["source"], c
        assert float(c["published"]) > 0, c
        assert ("over" in c) == (cells.neutral(c["metric"]) is not None), c
        assert c.get("over_batch", c["batch"]) in sizes and c.get("over_model", c["model"]) in models, c
    keys = [json.dumps({k: v for k, v in c.items() if k != "published"}) for c in table["cells"]]
    assert len(keys) == len(set(keys))
    assert len(table["dtypes"]) == 1
