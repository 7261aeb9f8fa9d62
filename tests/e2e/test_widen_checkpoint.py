"""Tests that widened checkpoints give the results of the small ones, and that other sizes are refused."""

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
PROMPTS = STREAMING.with_name("tiny_prompt.nemo")
LANGUAGES = {"auto": 101, "de-DE": 9, "en-US": 0, "es-US": 3, "fr-FR": 8}
LIKE_RNNT = "--d-model 288 --layers 9 --heads 8"
LIKE_V3 = "--d-model 288 --layers 9 --no-biases --mels 128 --vocabulary 2048"


def widen(small, output, options):
    widen_checkpoint.main([str(small), str(output), *options.split()])
    return output


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """large(small, options) writes a widened file once for the tests of this module."""
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
    """Returns the configuration and the weights of an archive."""
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_prompt_layer_returns_its_input_bit_by_bit(large, dtype):
    weights = {name: value.to(dtype) for name, value in contents(large(RNNT, LIKE_RNNT + " --prompts"))[1].items()}
    frames = torch.randn(128, 288, generator=torch.Generator().manual_seed(1)) * torch.logspace(-6, 3, 288)
    frames = frames.to(dtype)
    values = torch.cat([frames, torch.eye(128, dtype=dtype)], 1)  # one frame for each prompt
    for layer in (0, 2):
        linear = [weights[f"prompt_kernel.{layer}.{kind}"] for kind in ("weight", "bias")]
        values = torch.nn.functional.linear(values, *linear)
        values = values.relu() if layer == 0 else values
    assert torch.equal(values, frames)


@pytest.mark.parametrize("small, options", [(RNNT, LIKE_RNNT), (TDT, LIKE_V3)], ids=["rnnt", "tdt"])
def test_prompts_change_no_bit_of_a_result(large, rtfx, tmp_path, small, options):
    """Prompts change no bit of a result: models without prompts, with the default one and with a language's agree."""
    plain, prompted = large(small, options), large(small, options + " --prompts")
    without, weights = contents(plain)[1], contents(prompted)[1]
    shared = {name for name in without if not name.startswith("ctc_")}
    assert weights.keys() - shared == {f"prompt_kernel.{i}.{kind}" for i in (0, 2) for kind in ("weight", "bias")}
    assert shared < weights.keys() and all(torch.equal(weights[name], without[name]) for name in shared)
    models = [{"id": "small", "path": str(small)}, {"id": "plain", "path": str(plain)}]
    models += [{"id": id, "path": str(prompted), "language": id} for id in ("auto", "de-DE")]
    data = [{"id": "files", "files": [str(file) for file in FILES[:2]]}]
    config = small_config(
        models=models, datasets=data, decoders=["label_looping"], dtypes=["fp32", "bf16"], verify={"replay": False}
    )
    (tmp_path / "config.json").write_text(json.dumps(config))
    result = rtfx("run", tmp_path / "config.json", "--output", tmp_path / "run")
    assert result.returncode == 0, result.stderr
    runs = runs_of(strict_records(tmp_path / "run/journal.jsonl"))
    assert len(runs) == 8
    bits, tokens = ({(run["model"]["id"], run["dtype"]): run[f"{kind}_sha256"] for run in runs}
                    for kind in ("hypotheses", "tokens"))  # fmt: skip
    for dtype in ("fp32", "bf16"):
        assert bits["plain", dtype] == bits["auto", dtype] == bits["de-DE", dtype]
    assert tokens["small", "fp32"] == tokens["auto", "fp32"] and bits["auto", "fp32"] != bits["auto", "bf16"]


def test_a_cache_aware_model_with_prompts(tmp_path, rtfx):
    small = widen_checkpoint.Checkpoint(PROMPTS)
    small.weights = {k: v for k, v in small.weights.items() if not k.startswith("prompt_kernel.")}
    del small.config["model_defaults"]["prompt_dictionary"], small.config["num_prompts"]
    small.config["target"] = "nemo.collections.asr.models.rnnt_bpe_models.EncDecRNNTBPEModel"
    small.mark(None)
    plain = tmp_path / "plain.nemo"
    widen_checkpoint.write(small, small.weights, plain)
    wide = widen(plain, tmp_path / "wide.nemo", "--d-model 16 --layers 3 --heads 4 --prompts")
    for context in ((8, 3), (8, 0)):
        assert_equal_results(plain, wide, ("frame_looping",), FILES[:3], context)
    stream = [rtfx("stream", "--model", path, "--pause", 0, *arguments, FILES[0])
              for path, arguments in ((plain, ()), (wide, ()), (wide, ("--language", "de-DE")))]  # fmt: skip
    assert [result.returncode for result in stream] == [0, 0, 0], stream
    assert len({result.stdout for result in stream}) == 1 and len(stream[0].stdout) > 5


def test_the_languages_of_a_model_with_prompts(large, rtfx):
    path = large(RNNT, LIKE_RNNT + " --prompts")
    model = json.loads(rtfx("inspect", path, "--json").stdout)
    assert model["class"].endswith(".rnnt_bpe_models_prompt.EncDecRNNTBPEModelWithPrompt")
    assert model["kinds"] == ["rnnt"] and not model["notices"]
    assert model["prompts"] == {
        "count": 128, "width": 576, "default": 101, "default_language": "auto", "languages": LANGUAGES,
    }  # fmt: skip
    assert model["stand_in"].endswith("with the same function for every language")
    result = rtfx("transcribe", "--model", path, "--language", "it-IT", FILES[0])
    assert result.returncode == 2 and "unknown language 'it-IT'" in result.stderr
    assert "allowed: " + ", ".join(LANGUAGES) in result.stderr


def test_a_weight_that_is_not_cancelled_is_noticed(large, tmp_path, monkeypatch):
    added = "encoder.layers.4.feed_forward1.linear2.weight"  # the small model has four layers before it
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
        (RNNT, "--ctc --prompts", "it is no transducer with a tokenizer; .* or leave prompts out"),
        (STREAMING, "--d-model 16 --prompts", "it is no transducer with a tokenizer"),
        (PROMPTS, "--d-model 16 --prompts", "4 tensors are of no known part, such as prompt_kernel"),
        (ROOT / "README.md", "", "README.md: it is damaged .*; give a whole .nemo file"),
        (MODELS / "missing.nemo", "", "missing.nemo"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused(tmp_path, small, options, message):
    with pytest.raises(SystemExit, match="widen_checkpoint: error: .*" + message):
        widen(small, tmp_path / "out.nemo", options)
    assert not list(tmp_path.iterdir())
