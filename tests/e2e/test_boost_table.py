"""Tests plots/boost_table.py, which compares boosted phrases in rtfx with those in a rival."""

import json

import pytest
import synthetic_journal as synthetic
from forked_script import script

SCALES = (0, 1)


def run(folder, others=()):
    """Writes a run of label-looping by both rules of rtfx and by NeMo, at two scales. The last case has a second,
    suspect round. `others` are utterances for which NeMo differs: in tokens at scale 1, and in frames alone at scale
    0."""
    records = [synthetic.provenance()]
    for whose in ("rtfx", "nemo", "rival"):
        for scale in SCALES:
            seconds = 0.6 if whose == "rival" else 0.25
            records.append(synthetic.boosted_search(whose, scale, 10 + scale, decode_seconds=seconds))
            records[-1]["tokens_sha256"] = f"of {scale}" if scale == 0 or whose != "rival" else "another"
            (folder / "hypotheses").mkdir(parents=True, exist_ok=True)
            lines = []
            for i in range(synthetic.UTTERANCES):
                line = {"id": f"qs{i:02}", "tokens": [1, 2], "frames": [3, 4]}
                if whose == "rival" and line["id"] in others:
                    line |= {"tokens": [1, 5]} if scale else {"frames": [3, 5]}
                lines.append(json.dumps(line) + "\n")
            (folder / f"hypotheses/{records[-1]['result_key']}.jsonl").write_text("".join(lines))
    late = synthetic.boosted_search("rival", 1, 11, round=1, decode_seconds=9)
    records.append(late | {"suspect": ["cpu_wait"], "tokens_sha256": "another"})
    return synthetic.write(folder, records)


def rows(result):
    assert result.returncode == 0, result.stderr
    lines = [line.strip("| ").split(" | ") for line in result.stdout.splitlines() if line.startswith("| ")]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]


def test_ours_beside_theirs(tmp_path):
    path = run(tmp_path / "run", others=("qs03", "qs07"))
    result = script("plots/boost_table.py", path.parent, "-o", tmp_path / "table.md")
    assert (tmp_path / "table.md").read_text() == result.stdout
    assert "## quickstart-rnnt, quickstart, batch 16, fp32: label_looping beside nemo 3.0.0" in result.stdout
    assert "1 of 7 rounds of these decoders are suspect." in result.stdout
    none, one = rows(result)
    assert [none["boost"], one["boost"]] == ["0", "1"]
    for whose in ("rtfx", "its rules", "rival"):
        assert float(one[f"F, {whose}"]) == pytest.approx(100 * 22 / (20 + 11 + 30), abs=0.06)
    assert (one["s, its rules"], one["s, rival"], one["rival / rtfx"]) == ("0.25", "4.70", "18.65")  # over all rounds
    equal = ("equal tokens", "frames too", "first other")
    assert [none[key] for key in equal] == ["24 of 24", "22", "–"]
    assert [one[key] for key in equal] == ["22 of 24", "22", "qs03"]


def test_a_journal_alone_has_hashes(tmp_path):
    path = run(tmp_path / "run")
    path = path.rename(tmp_path / "alone.jsonl")
    none, one = rows(script("plots/boost_table.py", path))
    assert (none["equal tokens"], one["equal tokens"]) == ("all", "–")


def test_a_run_without_a_rival_is_an_error(tmp_path):
    path = synthetic.write(tmp_path / "run", synthetic.typical())
    result = script("plots/boost_table.py", path)
    assert result.returncode != 0 and "no decoders of a rival" in result.stderr
