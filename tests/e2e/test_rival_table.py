"""Tests plots/rival_table.py, which sets our times beside those of a rival."""

import json
import re
import statistics

import pytest
import rival_reports
from conftest import ROOT
from forked_script import script
from journal import read_journal, read_records, read_text
from rival_reports import FOLDERS

JOURNAL = ROOT / "reports/h100/rivals/nemo.jsonl.gz"
SEARCHES = ROOT / "reports/h100/searches"


def committed(name):
    """Returns the folder of reports that holds a rival's journal."""
    (folder,) = [ROOT / "reports" / folder for folder in FOLDERS if (ROOT / f"reports/{folder}/{name}.jsonl.gz").exists()]
    return folder


def table(*arguments):
    return script("plots/rival_table.py", *arguments)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """Writes the journal of our greedy searches at two batch sizes, without the rival's decoders."""
    kept = [
        record
        for record in read_records(JOURNAL)
        if "batch" not in record or (record["batch"]["size"] in (32, 128) and record["decoder"]["name"] != "python")
    ]
    journal = tmp_path_factory.mktemp("ours") / "journal.jsonl"
    journal.write_text("".join(json.dumps(record) + "\n" for record in kept))
    return journal


def rival_record(**changes):
    record = {"model": "standin256-rnnt.nemo", "decoder": "label", "dtype": "bf16", "batch": 32}
    return record | {"audio_s": 6690.7, "decode_s": 0.1, "wer": 14.7} | changes


def cells(text, name):
    row = next(line for line in text.splitlines() if line.strip("|* ").startswith(name))
    return [cell.strip("* ") for cell in row.strip("|").split("|")]


def test_the_ratio_is_of_the_fastest(ours, tmp_path):
    rival = tmp_path / "rival.jsonl"
    # A beam search that is faster still is no greedy search.
    times = {"label_looping": 0.1, "frame_looping": 0.05, "maes_batch_b4": 0.01}
    records = [rival_record(decoder=name, decode_s=seconds) for name, seconds in times.items()]
    rival.write_text("".join(json.dumps(record) + "\n" for record in records))
    result = table(ours, "--rival", rival, "--name", "Other")
    assert result.returncode == 0, result.stderr
    heads = cells(result.stdout, "decoding and copy to the host")
    at = heads.index("batch 32")
    assert cells(result.stdout, "Other frame_looping")[at] == "50.0"
    fastest = float(cells(result.stdout, "fused_persistent")[at])
    ratio = float(cells(result.stdout, "Other's fastest")[at])
    assert ratio == pytest.approx(50 / fastest, rel=0.02)
    assert cells(result.stdout, "Other's fastest")[heads.index("batch 128")] == "–"


def test_a_ratio_says_what_is_set_beside_what(ours, tmp_path):
    """A ratio names both programs' ways: a whole call or the algorithm alone, fused kernels or operators, graphs or
    launches."""
    rival = tmp_path / "rival.jsonl"
    records = [
        rival_record(decoder="label_looping_graphs", core_s=0.09, graph_mode="full_graph"),
        rival_record(decoder="frame_looping", decode_s=0.5, graph_mode="none"),
    ]
    rival.write_text("".join(json.dumps(record) + "\n" for record in records))
    text = table(ours, "--rival", rival, "--name", "Other").stdout
    at = cells(text, "decoding and copy to the host").index("how; what the time holds")
    assert cells(text, "fused_persistent")[at] == (
        "fused kernels, one persistent kernel, C++; decode + d2h"
    )
    assert cells(text, "Other label_looping_graphs")[at] == (
        "operators, one CUDA graph, Python; whole call"
    )
    rows = [cells(line, "Other's") for line in text.splitlines() if line.startswith("| **Other's")]
    assert [(row[0], row[at]) for row in rows] == [
        ("Other's fastest greedy search / ours",
         "operators, one CUDA graph, Python / fused kernels, one persistent kernel, C++; "
         "whole call / decode + d2h"),
        ("Other's fastest greedy search / ours",
         "operators, one CUDA graph, Python / fused kernels, one persistent kernel, C++; "
         "algorithm alone / decode"),
        ("Other's frame_looping / ours, launched alike",
         "operators, launched one by one, Python / operators, launched one by one, C++; "
         "whole call / decode + d2h"),
        ("Other's label_looping / ours, launched alike",
         "operators, one CUDA graph, Python / operators, one CUDA graph, C++; "
         "whole call / decode + d2h"),
        ("Other's label_looping / ours, launched alike",
         "operators, one CUDA graph, Python / operators, one CUDA graph, C++; "
         "algorithm alone / decode"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("loop", "launched"), [("script", "launched by TorchScript"), ("coalesced", "replayed graphs")]
)
def test_every_value_of_loop_has_words(ours, tmp_path, loop, launched):
    """`script` is a value of label_looping, and `coalesced` is the default of step_replay."""
    journal = tmp_path / "journal.jsonl"
    with journal.open("w") as file:
        for record in read_records(ours):
            if record.get("decoder", {}).get("id") == "label_looping":
                record["decoder"]["options"]["loop"] = loop
            file.write(json.dumps(record) + "\n")
    rival = tmp_path / "rival.jsonl"
    rival.write_text(json.dumps(rival_record()) + "\n")
    result = table(journal, "--rival", rival, "--name", "Other")
    assert result.returncode == 0, result.stderr
    at = cells(result.stdout, "decoding and copy to the host").index("how; what the time holds")
    assert cells(result.stdout, "label_looping |")[at] == f"operators, {launched}, C++; decode + d2h"


def test_measurements_without_a_table_are_named(ours, tmp_path):
    rival = tmp_path / "rival.jsonl"
    records = [rival_record(), {"decoder": "label"}, rival_record(audio_s=6690.2), rival_record(dtype="fp32")]
    rival.write_text("\n" + "".join(json.dumps(record) + "\n" for record in records))
    result = table(ours, "--rival", rival)
    assert result.returncode == 0
    assert result.stderr.splitlines() == [
        f"{rival}:3: left out, since it has no decode_s",
        f"{rival}:4: left out, since no journal has standin256-rnnt, bf16 and 6690 s of audio",
        f"{rival}:5: left out, since no journal has standin256-rnnt, fp32 and 6691 s of audio",
    ]


def test_a_second_measurement_is_refused(ours, tmp_path):
    rival = tmp_path / "rival.jsonl"
    records = [rival_record(), rival_record(batch=128), rival_record(decode_s=0.2)]
    rival.write_text("".join(json.dumps(record) + "\n" for record in records))
    result = table(ours, "--rival", rival)
    assert result.returncode == 1
    assert result.stderr == f"{rival}:3: a second measurement of NeMo label, batch 32; leave one out\n"


def test_other_audio_is_not_compared(ours, tmp_path):
    rival = tmp_path / "rival.jsonl"
    rival.write_text(json.dumps(rival_record(audio_s=2887.0)) + "\n")
    result = table(ours, "--rival", rival)
    assert result.returncode == 1
    assert "nothing to compare" in result.stderr


def block_of(text, mark):
    (found,) = re.findall(rf"<!-- {mark} -->.*?<!-- /{mark.split(':')[0]} -->", text, re.DOTALL)
    return found


def test_a_block_of_several_journals_waits_for_all_of_them(tmp_path):
    kept = (ROOT / "reports/README.md").read_text(encoding="utf-8")
    page = tmp_path / "page.md"
    stale = kept.replace(block_of(kept, "beams"), "<!-- beams -->\nstale\n<!-- /beams -->")
    for name in ("nemo_beam", "searches_rnnt", "wfst"):
        page.write_text(stale, encoding="utf-8")
        (tmp_path / f"{name}.jsonl.gz").write_bytes((committed(name) / f"{name}.jsonl.gz").read_bytes())
        result = script("scripts/rival_reports.py", tmp_path, page)
        assert result.returncode == 0, result.stderr
        is_written = "stale" not in block_of(page.read_text(encoding="utf-8"), "beams")
        assert is_written == (name == "wfst"), name


@pytest.mark.parametrize("name", ["searches_rnnt", "searches_tdt"])
def test_the_searches_are_timed_to_the_hypotheses_on_the_host(name):
    """Committed figures follow from the journal's records. Copies to the host count, and the time of NeMo's results in
    rtfx does not."""
    times, sets, memory = {}, {}, {}
    for record in read_records(SEARCHES / f"{name}.jsonl.gz"):
        if record["kind"] != "run":
            continue
        regions, counters = record["regions"], record["counters"]
        time = regions["decode"]["host_seconds"]
        time += -1e-6 * counters["results_us"] if "results_us" in counters else regions["d2h"]["host_seconds"]
        case = record["decoder"]["id"], int(record["batch"]["size"])
        times.setdefault(case, []).append(time)
        sets[case[1]] = record["dataset"]["audio_seconds"]
        if not case[0].startswith("nemo"):
            memory[case] = max(memory.get(case, 0), record["device_memory"]["kept_bytes"] + record["device_memory"]["decode_bytes"])
    text = block_of((ROOT / "reports/README.md").read_text(encoding="utf-8"), f"searches:{name}")
    assert ("`fused_looping`, `skip_blank`" in text) == (name == "searches_rnnt")
    rows = {
        "`fused_looping` |": "fused_looping",
        "`alsd_pp`, beam 4, `mbr` over 4 texts": "alsd_pp4_mbr",
        "NeMo's greedy search, graphs |": "nemo_greedy",
        "NeMo's `malsd_batch`, beam 4 |": "nemo_malsd4",
    }
    for label, decoder in rows.items():
        for batch, shown in zip((1, 32, 128), cells(text, label)[1:], strict=False):
            found = times[decoder, batch]
            assert shown.split(" ± ")[0] == f"{sets[batch] / statistics.mean(found):,.0f}"
            assert shown.endswith("NOISY") == (statistics.stdev(found) > 0.05 * statistics.mean(found))
        shown = cells(text, label)[-1]
        assert shown == ("–" if "NeMo" in label else f"{memory[decoder, 128] / 2**20:,.0f}")
    ratios = cells(text, "`alsd_pp` with `mbr` : without")[1:]
    for batch, shown in zip((1, 32, 128), ratios, strict=True):
        sides = [statistics.mean(times[decoder, batch]) for decoder in ("alsd_pp4", "alsd_pp4_mbr")]
        assert shown.startswith(f"{sides[0] / sides[1]:.3g}x [")


def test_pairs_are_compared_one_by_one(tmp_path):
    journal = committed("nemo_beam") / "nemo_beam.jsonl.gz"
    rival = tmp_path / "rival.jsonl"
    rival.write_text(json.dumps(rival_record(decoder="maes_batch_b4_nolm", audio_s=3446.6, decode_s=2.7)) + "\n")
    result = table(journal, "--rival", rival, "--pairs", "alsd_pp4_fused=maes_batch_b4_nolm")
    assert result.returncode == 0, result.stderr
    at = cells(result.stdout, "decoding and copy to the host").index("batch 32")
    ours = float(cells(result.stdout, "alsd_pp4_fused")[at])
    theirs = float(cells(result.stdout, "NeMo maes_batch_b4_nolm")[at])
    ratio = float(cells(result.stdout, "NeMo maes_batch_b4_nolm / alsd_pp4_fused")[at])
    assert ratio == pytest.approx(theirs / ours, rel=0.02)
    assert "aes_pp4_fused" not in result.stdout.replace("alsd_pp4_fused", "")
    assert table(journal, "--rival", rival, "--pairs", "alsd_pp4").returncode == 2


def changed(tmp_path, change, batches=(32, 128)):
    """Writes the journal of NeMo's greedy searches at two batch sizes, with the records of its runs altered by
    `change`."""
    records = read_records(JOURNAL)
    kept = [record for record in records if "batch" not in record or record["batch"]["size"] in batches]
    for record in kept:
        if record["kind"] == "run":
            change(record)
    journal = tmp_path / "journal.jsonl"
    journal.write_text("".join(json.dumps(record) + "\n" for record in kept))
    return journal


def test_columns_of_different_audio_are_rtfx(tmp_path):
    def halve(record):
        record["dataset"]["audio_seconds"] /= 1 + (record["batch"]["size"] == 128)

    columns = "--rtfx", "--only", "fused_persistent", "nemo_label_looping_graphs"
    whole = table(changed(tmp_path, lambda record: None), *columns)
    journal = changed(tmp_path, halve)
    assert table(journal).stdout.count("## standin256-rnnt") == 2
    result = table(journal, *columns)
    assert "## standin256-rnnt, bf16: batch 32: 6691 s of audio; batch 128: 3346 s of audio" in result.stdout
    (half, same), (full, also) = (cells(text, "fused_persistent")[2:0:-1] for text in (result.stdout, whole.stdout))
    assert same == also and float(half) == pytest.approx(float(full) / 2, rel=0.01)
    assert "frame_looping |" not in result.stdout


def test_noisy_is_by_what_is_shown(tmp_path):
    def plant(record):
        """Slows one round of two searches: one by padding, which is a part of every total, and one by its search."""
        regions = {"fused_persistent": "pad", "label_looping_graph": "decode"}
        if record["batch"]["size"] == 128 and record["round"] == 1 and record["decoder"]["id"] in regions:
            slow = record["regions"][regions[record["decoder"]["id"]]]
            slow["device_seconds"] += 0.1
            slow["host_seconds"] += 0.1
            record["metrics"]["rtfx.total"] /= 2

    text = table(changed(tmp_path, plant)).stdout
    marks = cells(text, "decoding and copy to the host").index("marks")
    assert "NOISY" not in cells(text, "fused_persistent")[marks]
    assert "batch 128: stand-in data, NOISY" in cells(text, "label_looping_graph")[marks]


def test_the_tables_of_pages(tmp_path):
    (tmp_path / "nemo.jsonl").write_text(read_text(JOURNAL))
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- rivals:nemo ours=ctc_greedy -->\nstale\n<!-- /rivals -->\nafter\n"
                    "<!-- rivals:nemo_beam -->\nkept\n<!-- /rivals -->\n")  # fmt: skip
    result = script("scripts/rival_reports.py", tmp_path, page)
    assert result.returncode == 0, result.stderr
    text = page.read_text()
    assert text.startswith("before\n<!-- rivals:nemo ours=ctc_greedy -->\n") and "stale" not in text
    assert text.count("CTC greedy |") == 2 and "label-looping" not in text and "kept" in text
    assert "nemo 3.0.0" in text and "6691 s of audio" in text
    beside = (tmp_path / "nemo.md").read_text()
    assert "## standin256-tdt" in beside
    verdicts = beside[beside.index("## Do both return the same?") :]
    # Each line has the journal's grades in order (bitwise or exact, rounding) and the place of the first difference.
    grades = {}
    for line in (tmp_path / "nemo.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == "run" and record["round"] == 0 and record["decoder"]["id"] == "nemo_ctc_greedy":
            grades[record["model"]["id"], int(record["batch"]["size"])] = record["exactness"]
    found = cells(verdicts, "standin256-rnnt, bf16: nemo_ctc_greedy : ctc_greedy")
    for cell, batch in zip(found[1:], (1, 8, 32, 128), strict=True):
        exactness = grades["standin256-rnnt", batch]
        counts, first = exactness["grades"], exactness["first_difference"]
        assert cell.startswith(f"{counts['bitwise'] + counts['exact']} of {sum(counts.values())}")
        assert cell.endswith(f" at {first['seconds']:.2f} s") if first else " at " not in cell


def test_the_round_with_the_worst_grade_is_judged(tmp_path):
    """A case that differs in a later round does not count as equal."""

    def plant(record):
        if record["decoder"]["id"] == "nemo_ctc_greedy":
            is_worst = record["round"] == 1
            first = {"utterance": "planted", "frame": 1, "seconds": 1.25, "baseline_words": "a", "words": "b"}
            counts = {"bitwise": 3, "different": 4} if is_worst else {"bitwise": 7}
            record["exactness"] |= {
                "grade": "different" if is_worst else "bitwise",
                "grades": dict.fromkeys(record["exactness"]["grades"], 0) | counts,
                "first_difference": first if is_worst else None,
            }

    text = rival_reports.verdicts(read_journal(changed(tmp_path, plant, batches=(32,))))
    assert cells(text, "standin256-rnnt, bf16: nemo_ctc_greedy : ctc_greedy")[1] == "3 of 7; planted at 1.25 s"


def test_a_failed_case_says_so_in_both_tables(tmp_path):
    """A failed case is marked in both tables. Its row shows the other batch sizes, and no ratio uses it."""
    failed = {"decoder": "riva_online_end17", "size": 128}
    keys = ("batch", "case", "dataset", "device", "dtype", "model", "provenance_id", "result_key", "schema")
    lines = {}
    for record in read_records(committed("wfst") / "wfst.jsonl.gz"):
        if record["kind"] == "run" and {"decoder": record["decoder"]["id"], "size": record["batch"]["size"]} == failed:
            options = {key: value for key, value in record["decoder"]["options"].items() if key != "versions"}
            record = {key: record[key] for key in keys} | {"decoder": record["decoder"] | {"options": options}}
            record |= {"kind": "failure", "stage": "decode", "message": "its process was ended by signal 6 (Aborted)"}
        lines[json.dumps(record)] = None
    (tmp_path / "wfst.jsonl").write_text("".join(line + "\n" for line in lines))
    page = tmp_path / "page.md"
    page.write_text("<!-- rivals:wfst -->\n<!-- /rivals -->\n")
    result = script("scripts/rival_reports.py", tmp_path, page)
    assert result.returncode == 0, result.stderr
    ratios = cells(page.read_text(), "standin256-rnnt, bf16: beam 17: `ctc_wfst`")[1:]
    assert ratios[2] == "FAILED" and all(re.match(r"\d.*x \[", ratio) for ratio in ratios[:2])
    assert re.fullmatch(r"12.62 : \d+\.\d\d \(batch 32\)", ratios[3])  # the largest batch size that both have
    beside = (tmp_path / "wfst.md").read_text()
    assert "- FAILED: the decoder failed" in beside
    row = cells(beside, "riva_online_end17 (riva-asrlib-decoder")
    assert row[3] == "–" and row[5].endswith("batch 128: FAILED")
    assert len([line for line in beside.splitlines() if line.startswith("| riva_online_end17")]) == 1
