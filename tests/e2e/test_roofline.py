"""Tests `rtfx profile --roofline` without a GPU: bytes and FLOP are computed from shapes and marked as such."""

import pytest
from conftest import strict_records


def rooflines(folder):
    records = strict_records(folder / "roofline.jsonl")
    assert all(record["profiled"] for record in records)
    return [record for record in records if record["kind"] == "roofline"]


@pytest.fixture
def roofline(rtfx, config, tmp_path):
    def run(*arguments, **changes):
        path = config(**changes)
        laps = [] if "--laps" in arguments else ["--laps", 1]
        return rtfx("profile", path, "--roofline", *laps, "--output", tmp_path / "run", *arguments)

    return run


def test_what_decoding_moves_and_computes(roofline, tmp_path):
    result = roofline()
    assert result.returncode == 0, result.stderr
    assert "reckoned" in result.stderr and "operator (reckoned)" in result.stdout
    cases = rooflines(tmp_path / "run")
    assert [case["decoder"]["id"] for case in cases] == ["frame_looping", "label_looping"]
    for case in cases:
        assert case["source"] == "reckoned" and case["region"] == "decode" and case["seconds"] > 0
        assert case["limits"] is None and case["share"] is None
        assert any("limits of this device are not known" in remark for remark in case["remarks"])
        operators = {one["name"]: one for one in case["operators"]}
        products = [one for name, one in operators.items() if name in ("aten::addmm", "aten::mm")]
        assert sum(one["flop"] for one in products) > 1e6
        assert all(one["bytes"] >= 0 and one["count"] > 0 for one in case["operators"])
        moved = [one["bytes"] for one in case["operators"]]
        assert moved == sorted(moved, reverse=True)


def test_twice_the_laps_are_the_same_operators(roofline, tmp_path):
    """The roofline counts the work of one lap, so the number of timed laps does not change it."""
    assert roofline().returncode == 0 and roofline("--laps", 2).returncode == 0
    first, second = (strict_records(tmp_path / "run" / name) for name in ("roofline.jsonl.1", "roofline.jsonl"))
    assert len(first) == 3  # provenance, and a record for each case
    for one, other in zip(first[1:], second[1:], strict=True):
        assert one["operators"] == other["operators"]


def test_another_region_and_one_case(roofline, tmp_path):
    assert roofline("--region", "encoder", "--only", "label").returncode == 0
    (case,) = rooflines(tmp_path / "run")
    assert case["region"] == "encoder" and case["decoder"]["id"] == "label_looping"
    names = {one["name"] for one in case["operators"] if one["flop"] > 1e6}
    assert any("convolution" in name for name in names)
    # This operator allocates its results through other operators, which cost nothing.
    assert "aten::native_layer_norm" in {one["name"] for one in case["operators"]}


@pytest.mark.parametrize("region, remark", [
    ("detokenize", "no operator of LibTorch moves or computes anything in this region"),
    ("confidence", "the case has no such region"),
])  # fmt: skip
def test_a_region_without_an_operator_says_why(roofline, tmp_path, region, remark):
    assert roofline("--region", region, "--only", "label").returncode == 0
    (case,) = rooflines(tmp_path / "run")
    assert case["operators"] == [] and case["remarks"] == [remark]


@pytest.mark.parametrize("setting, notice", [
    ("sync_debug=true", "a profile does without"),
    ("protocol.mode=throughput", "protocol.mode isolated"),
])  # fmt: skip
def test_settings_that_it_does_without_are_named(roofline, setting, notice):
    result = roofline("--only", "label", "--set", setting)
    assert result.returncode == 0, result.stderr
    assert notice in result.stderr


def test_the_number_of_operators_is_asked_for(roofline):
    result = roofline("--top", 2, "--only", "label")
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("  aten::") == 2


def test_wrong_requests(roofline, rtfx, config):
    result = roofline("--region", "decod")
    assert result.returncode == 2 and "did you mean 'decode'?" in result.stderr
    result = roofline("--only", "nothing")
    assert result.returncode == 2 and "no case has 'nothing' in its name" in result.stderr
    assert rtfx("profile", config(), "--region", "decode").returncode == 2
