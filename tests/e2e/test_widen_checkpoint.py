"""Widened checkpoints compute what the small ones do, and sizes in which they would not are refused."""

import io
import json
import tarfile

import pytest
from conftest import AUDIO, MODELS, ROOT, runs_of, small_config, strict_records
from golden import searches, transcripts

torch = pytest.importorskip("torch", reason="needs torch for Python (not with LIBTORCH=DIR)")
import widen_checkpoint
from ruamel.yaml import YAML

FILES = tuple(sorted(AUDIO.glob("*.flac")))[::3]
RNNT, TDT = MODELS / "quickstart-rnnt.nemo", MODELS / "quickstart-tdt.nemo"
STREAMING = ROOT / "tests/data/checkpoints/tiny_streaming.nemo"
LIKE_V3 = "--d-model 288 --layers 9 --no-biases --mels 128 --vocabulary 2048"


def widen(small, output, options):
    widen_checkpoint.main([str(small), str(output), *options.split()])
    return output


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """large(small, options) writes a file once for the tests of this module."""
    folder, written = tmp_path_factory.mktemp("widened"), {}

    def make(small, options):
        path = written.setdefault((small, options), folder / f"{len(written)}.nemo")
        return path if path.exists() else widen(small, path, options)

    return make


def assert_equal_results(small, large, decoders, files=FILES, context=()):
    expected = transcripts(small, searches(*decoders), files, context)
    found = transcripts(large, searches(*decoders), files, context)
    assert sum(len(line["tokens"]) for line in found[decoders[0]].values()) > 5
    for decoder in decoders:
        for name, wanted in expected[decoder].items():
            for key in ("tokens", "frames", "durations"):
                assert found[decoder][name].get(key) == wanted.get(key), (decoder, name, key)
            assert found[decoder][name]["score"] == pytest.approx(wanted["score"], rel=1e-4)


def contents(path):
    """The configuration and the weights of an archive."""
    with tarfile.open(path) as archive:
        data = {name.rpartition("/")[2]: archive.extractfile(name).read()
                for name in archive.getnames() if "model_" in name}  # fmt: skip
    weights = torch.load(io.BytesIO(data["model_weights.ckpt"]), weights_only=True)
    return YAML(typ="safe", pure=True).load(data["model_config.yaml"]), weights


@pytest.mark.parametrize(
    "small, options, decoders",
    [
        (RNNT, "--d-model 288 --layers 10 --heads 8", ("frame_looping", "ctc_greedy")),
        (TDT, LIKE_V3, ("frame_looping", "ctc_greedy")),
        (RNNT, "--d-model 288 --ctc --heads 8 --channels 512 --no-biases", ("ctc_greedy",)),
        (RNNT, "--prediction-width 640 --prediction-layers 2 --joint-width 640", ("frame_looping",)),
    ],
    ids=["rnnt", "like parakeet-tdt-0.6b-v3", "ctc", "prediction"],
)
def test_tokens_frames_and_scores_are_the_small_model_s(large, small, options, decoders):
    assert_equal_results(small, large(small, options), decoders)


@pytest.mark.parametrize("context", [(8, 3), (4, 0)])
def test_a_cache_aware_model(large, context):
    wide = large(STREAMING, "--d-model 16 --layers 5 --heads 4 --channels 8 --joint-width 32")
    assert_equal_results(STREAMING, wide, ("frame_looping", "ctc_greedy"), FILES[:3], context)


def test_biases_and_scaling_of_a_shape(tmp_path, monkeypatch):
    sizes = dict(d_model=16, biases=True, x_scaling=True)  # the small model has neither
    monkeypatch.setitem(widen_checkpoint.SHAPES, "other", ("tdt", sizes))
    small = STREAMING.with_name("tiny_tdt.nemo")
    wide = widen(small, tmp_path / "wide.nemo", "--shape other --layers 3")
    config, weights = contents(wide)
    assert config["encoder"]["use_bias"] and config["encoder"]["xscaling"]
    assert "encoder.layers.1.self_attn.linear_q.bias" in weights
    assert_equal_results(small, wide, ("frame_looping",), FILES[:3])


def test_a_weight_that_is_not_cancelled_is_noticed(large, tmp_path, monkeypatch):
    added = "encoder.layers.4.feed_forward1.linear2.weight"  # behind four layers of the small model
    write = widen_checkpoint.write

    def damaged(small, weights, path):
        weights[added].view(-1)[weights[added].abs().argmax()] *= -1
        write(small, weights, path)

    monkeypatch.setattr(widen_checkpoint, "write", damaged)
    path = widen(RNNT, tmp_path / "damaged.nemo", "--layers 10")
    with pytest.raises(AssertionError):
        assert_equal_results(RNNT, path, ("frame_looping",), FILES[:3])


def test_the_file_says_what_it_is(large, rtfx):
    path = large(TDT, LIKE_V3)
    config, weights = contents(path)
    mark = config["stand_in"]
    assert mark["source"] == TDT.name and mark["source_sha256"] in (MODELS / "README.md").read_text()
    assert mark["seed"] == 1 and mark["sizes"]["d_model"] == 288 and "widened" in mark["description"]
    assert config["labels"][-1] == "<unused_2047>" and len(config["joint"]["vocabulary"]) == 2048
    assert not any("linear1.bias" in name for name in weights)
    added = weights["encoder.layers.8.feed_forward1.linear2.weight"]
    assert torch.equal(added[:, 0::2], -added[:, 1::2]) and added.abs().mean() > 0.01
    model = json.loads(rtfx("inspect", path, "--json").stdout)
    assert model["kinds"] == ["tdt", "ctc"] and model["features"]["mel_bins"] == 128
    assert (model["encoder"]["width"], model["encoder"]["layers"]) == (288, 9)
    assert model["vocabulary"]["tokens"] == 2048 and not model["notices"]
    made = f"{TDT.name} widened to width 288 and 9 layers, with the same function"
    assert model["stand_in"] == made
    recipe = f"source SHA-256 {mark['source_sha256'][:12]}, models/widen_checkpoint.py with SHA-256 "
    assert model["stand_in_recipe"].startswith(recipe) and "seed 1, fp32" in model["stand_in_recipe"]
    lines = rtfx("inspect", path).stdout
    assert f"  stand-in     {made}\n" in lines and f"  made by      {recipe}" in lines
    assert json.loads(rtfx("inspect", TDT, "--json").stdout)["stand_in"] is None


def test_a_run_records_and_shows_that_its_model_is_a_stand_in(large, rtfx, tmp_path):
    path = large(TDT, LIKE_V3)
    config = small_config(models=[{"id": "wide", "path": str(path)}]) | {
        "decoders": ["label_looping"], "protocol": {"warmup_rounds": 0, "measured_rounds": 1},
        "datasets": [{"id": "d", "manifest": str(AUDIO / "manifest.jsonl"), "limit": 1}],
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    plan = rtfx("validate", tmp_path / "config.json").stdout
    result = rtfx("run", tmp_path / "config.json", "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    made = f"{TDT.name} widened to width 288 and 9 layers, with the same function"
    assert f"stand-in model: {made}" in plan and f"stand-in model: {made}" in result.stdout
    records = strict_records(tmp_path / "run/journal.jsonl")
    assert records[0]["models"][0]["stand_in"].startswith(made + " (source SHA-256 ")
    assert {record["model"]["stand_in"] for record in runs_of(records)} == {made}


def test_equal_seeds_give_equal_bytes(tmp_path):
    def bytes_of(name, options):
        return widen(STREAMING, tmp_path / name, "--d-model 16 " + options).read_bytes()

    assert bytes_of("a.nemo", "--seed 3") == bytes_of("b.nemo", "--seed 3")
    assert bytes_of("c.nemo", "--seed 4") != bytes_of("a.nemo", "--seed 3")
    bytes_of("d.nemo", "--dtype bf16")
    weights = contents(tmp_path / "d.nemo")[1]
    assert weights["joint.enc.weight"].dtype == torch.bfloat16
    assert weights["preprocessor.featurizer.fb"].dtype == torch.float32


@pytest.mark.parametrize(
    "small, options, message",
    [
        (RNNT, "--d-model 300", "--d-model: 300 is no multiple, and .* has a width of the encoder of 144"),
        (RNNT, "--shape parakeet-rnnt-0.6b", "--d-model: 1024 is no multiple"),
        (RNNT, "--shape parakeet-tdt-1.1b", "--shape: parakeet-tdt-1.1b is of the kind tdt, and .* of rnnt"),
        (RNNT, "--shape fastconformer-streaming-0.6b", "is cache-aware, and .* is not; models/derive_cache_aware"),
        (RNNT, "--d-model 288 --heads 6", "--heads: 6 is no multiple"),
        (RNNT, "--heads 8", "--heads: a head would have a width of 18, and .* has one of 36"),
        (RNNT, "--layers 7", "--layers: 7 is too small"),
        (RNNT, "--vocabulary 1000", "--vocabulary: 1000 is too small"),
        (RNNT, "--no-biases", "--no-biases: .* only with a larger --d-model"),
        (RNNT, "--mels 100", "--mels: .* does not divide 100"),
        (RNNT, "--ctc --joint-width 640", "--joint-width: .* has no such network"),
        (STREAMING, "--mels 128", "--mels: .* sub-sampling is causal"),
        (STREAMING, "--vocabulary 64", "--vocabulary: .* no SentencePiece model"),
        (STREAMING, "--d-model 16 --no-biases", "--no-biases: .* batch_norm"),
        (STREAMING.with_name("tiny_local.nemo"), "--d-model 16", "tensors are of no known part"),
        (STREAMING.with_name("refuse_hat.nemo"), "--d-model 16", "tensors are of no known part"),
        (STREAMING.with_name("tiny_multiblank.nemo"), "--d-model 16", "of the kind multiblank"),
        (STREAMING.with_name("tiny_tdt.nemo"), "--ctc", "it has no CTC head"),
        (ROOT / "README.md", "", "README.md: it is damaged .*; give a whole .nemo file"),
        (MODELS / "missing.nemo", "", "missing.nemo"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused(tmp_path, small, options, message):
    with pytest.raises(SystemExit, match="widen_checkpoint: error: .*" + message):
        widen(small, tmp_path / "out.nemo", options)
    assert not list(tmp_path.iterdir())
