"""Tests the number type fp64. It searches on a CPU in double precision, and results in fp32 are judged by it."""

import json

import pytest
from conftest import AUDIO, MODELS, runs_of, small_config, strict_records

KINDS = ["rnnt", "tdt"]
EXACT = {
    "frame_looping": {},
    "frame_looping_single": {"name": "frame_looping", "options": {"batched": False}},
    "label_looping": {},
    "label_looping_window8": {"name": "label_looping", "options": {"window": 8}},
    "label_looping_script": {"name": "label_looping", "options": {"loop": "script"}},
    "step_replay": {},
    "ctc_greedy": {},
}
BEAMS = ["alsd", "aes", "alsd_pp", "aes_pp", "modified_beam_search", "ctc_beam"]


@pytest.fixture(scope="module")
def runs(rtfx, tmp_path_factory):
    """Returns the runs of all decoders in fp32 and fp64, by model, type and decoder. The run succeeds only if replay
    accepts all of them."""
    folder = tmp_path_factory.mktemp("fp64")
    decoders = [{"id": name, "name": name, **settings} for name, settings in EXACT.items()]
    config = small_config(
        models=[str(MODELS / f"quickstart-{kind}.nemo") for kind in KINDS],
        datasets=[{"id": "qs", "manifest": str(AUDIO / "manifest.jsonl")}],
        decoders=[*decoders, *BEAMS], baseline="frame_looping", batch_sizes=[8], dtypes=["fp32", "fp64"])  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    result = rtfx("run", folder / "config.json", "--output", folder / "run")
    assert result.returncode == 0, result.stdout + result.stderr
    records = runs_of(strict_records(folder / "run/journal.jsonl"))
    return {(r["model"]["id"], r["dtype"], r["decoder"]["id"]): r for r in records}


@pytest.mark.parametrize("model", [f"quickstart-{kind}" for kind in KINDS])
class TestBothTypes:
    @pytest.mark.parametrize("decoder", EXACT)
    def test_exact_decoders_find_the_same_tokens(self, runs, model, decoder):
        narrow, wide = (runs[model, dtype, decoder] for dtype in ("fp32", "fp64"))
        assert wide["exactness"]["grade"] in ("baseline", "bitwise", "exact")
        assert wide["tokens_sha256"] == narrow["tokens_sha256"]

    @pytest.mark.parametrize("decoder", [*EXACT, *BEAMS])
    def test_replay_checks_results_in_fp64(self, runs, model, decoder):
        replay = runs[model, "fp64", decoder]["exactness"]["replay"]
        assert replay["decisions"] > 0 and replay["beyond"] == 0


def test_scores_differ_by_the_rounding_of_fp32(runs):
    """Scores in fp32 and fp64 differ. If their bits were equal, fp64 would not have been computed."""
    hashes = {runs["quickstart-rnnt", dtype, "label_looping"]["hypotheses_sha256"] for dtype in ("fp32", "fp64")}
    assert len(hashes) == 2


def test_a_gpu_refuses_it(rtfx, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(small_config(device="cuda", dtypes=["fp32", "fp64"])))
    result = rtfx("validate", path)
    assert result.returncode == 2
    assert "/dtypes/1: 'fp64' is for CPUs only, and the device is cuda" in result.stderr


def test_fused_kernels_refuse_it(rtfx, tmp_path):
    fused = {"id": "fused", "name": "alsd_pp", "options": {"kernels": "fused"}}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(small_config(dtypes=["fp64"], decoders=["frame_looping", fused])))
    result = rtfx("run", path, "--output", tmp_path / "run")
    assert result.returncode != 0
    failures = [r for r in strict_records(tmp_path / "run/journal.jsonl") if r["kind"] == "failure"]
    assert [r["decoder"]["id"] for r in failures] == ["fused"]
    assert "no kernels for Double" in failures[0]["message"]
