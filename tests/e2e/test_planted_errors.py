"""Proof by replay finds errors that are planted in results (tests/support/planting_decoder.cpp)."""

import json

import pytest
from conftest import AUDIO, MODELS, PROGRAM, runs_of, small_config, strict_records

PLUGIN = PROGRAM.parent / "tests/librtfx_planting_decoder.so"
ERRORS = ["none", "token", "frame", "duration", "fp8", "fp8_once"]


@pytest.fixture(scope="module")
def runs(rtfx, tmp_path_factory):
    """Returns the runs by model, type and error. Each of the 24 utterances has one planted error."""
    folder = tmp_path_factory.mktemp("planted")
    decoders = [{"id": name, "name": "planting", "options": {"error": name}} for name in ERRORS]
    config = small_config(plugins=[str(PLUGIN)], baseline="frame_looping",
                          models=[str(MODELS / f"quickstart-{kind}.nemo") for kind in ("rnnt", "tdt")],
                          datasets=[{"id": "qs", "manifest": str(AUDIO / "manifest.jsonl")}],
                          batch_sizes=[4], dtypes=["fp32", "bf16"], decoders=["frame_looping", *decoders])  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    rtfx("run", folder / "config.json", "--output", folder / "run")
    records = runs_of(strict_records(folder / "run/journal.jsonl"))
    return {(r["model"]["id"], r["dtype"], r["decoder"]["id"]): r for r in records}


def found(run):
    """Returns how many results of a round replay refuses, and how many hold a planted error."""
    return run["exactness"]["grades"]["different"], run["counters"]["planted"]


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("model", ["quickstart-rnnt", "quickstart-tdt"])
class TestPlantedErrors:
    def test_honest_results_pass(self, runs, model, dtype):
        assert found(runs[model, dtype, "none"]) == (0, 0)

    @pytest.mark.parametrize("error", ["token", "frame"])
    def test_changed_results_are_refused(self, runs, model, dtype, error):
        refused, planted = found(runs[model, dtype, error])
        assert planted >= 16 and refused >= 0.9 * planted

    def test_a_changed_duration_is_refused(self, runs, model, dtype):
        refused, planted = found(runs[model, dtype, "duration"])
        assert planted == (0 if model == "quickstart-rnnt" else 24)
        assert refused >= 0.8 * planted

    def test_logits_in_fp8_are_refused(self, runs, model, dtype):
        refused, planted = found(runs[model, dtype, "fp8"])
        # In bf16, a decision that is so close that either token may win is no error. The processor determines which
        # decisions are that close. With AVX2, AVX-512 and AMX, replay refuses as many results as hold errors, or up
        # to half as many more.
        assert planted >= 4 and refused >= (1 if dtype == "fp32" else 0.8) * planted
        refused, planted = found(runs[model, dtype, "fp8_once"])
        assert planted > 0 and refused > 0
