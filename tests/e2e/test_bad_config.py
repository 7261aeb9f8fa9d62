"""Tests of errors in configurations: exit code 2, and one line that names the place, the error and what is allowed."""

import pytest
from conftest import MODELS, ROOT


@pytest.fixture
def complaint(rtfx, config, tmp_path):
    """Returns the single line that `rtfx validate` prints about a configuration, without the folder's path. That path
    holds the name of the test, and with it words that the tests look for."""

    def validate(*arguments, **changes):
        result = rtfx("validate", config(**changes), *arguments)
        assert result.returncode == 2
        assert result.stderr.count("\n") == 1, result.stderr
        return result.stderr.replace(str(tmp_path), "")

    return validate


def test_unknown_key_names_pointer_and_nearest(complaint):
    text = complaint(batchsizes=[1])
    assert "/batchsizes" in text and "'batch_sizes'" in text


def test_all_errors_at_once(rtfx, config):
    path = config(batchsizes=[1], dtypes=["fp23"], models=["gone.nemo"], decoders=["frame_loping"])
    result = rtfx("validate", path, "--set", "protocol.measured_rounds=0")
    assert result.returncode == 2
    lines = result.stderr.splitlines()
    assert all(line.startswith("rtfx: error: ") for line in lines) and len(lines) == 4
    for place in ("/batchsizes: ", "/dtypes/0: ", "/decoders/0: "):
        assert sum(place in line for line in lines) == 1
    assert sum("error: --set protocol.measured_rounds=0: " in line for line in lines) == 1


@pytest.mark.parametrize("decoder", [{"name": 5, "options": {}}, 5, {"options": {}}, [[]]])
def test_a_decoder_that_is_none_says_where(complaint, decoder):
    text = complaint("--set", "protocol.seed=1", decoders=[decoder])
    assert "/decoders/0" in text and "json.exception" not in text


def test_all_absent_files_at_once(rtfx, config):
    path = config(models=["gone.nemo", "away.nemo"], datasets=[{"id": "d", "manifest": "no.jsonl"}])
    result = rtfx("validate", path)
    assert result.returncode == 2
    assert [name in result.stderr for name in ("gone.nemo", "away.nemo", "no.jsonl")] == [True] * 3


def test_unknown_nested_key(complaint):
    text = complaint(protocol={"warmup": 1})
    assert "/protocol/warmup" in text and "warmup_rounds" in text


def test_wrong_type_names_value_and_allowed(complaint):
    text = complaint(batch_sizes=["many"])
    assert "/batch_sizes/0" in text and "many" in text and "integer" in text


def test_value_out_of_the_allowed_set(complaint):
    text = complaint(dtypes=["fp23"])
    assert "/dtypes/0" in text and "'fp32'" in text and "bf16" in text


@pytest.mark.parametrize("key", ["question", "models", "datasets", "decoders"])
def test_missing_key(complaint, key):
    assert f"config.json#: '{key}' is missing" in complaint(**{key: None})


def test_neither_key_of_batches(complaint):
    assert "neither batch_sizes nor batch_seconds is given" in complaint(batch_sizes=None)


def test_unknown_decoder_names_the_nearest(complaint):
    text = complaint(decoders=["frame_looping", "label_loping"])
    assert "/decoders/1" in text and "'label_looping'" in text


def test_unknown_option_of_a_decoder(complaint):
    text = complaint(decoders=[{"name": "label_looping", "options": {"windw": 2}}])
    assert "/decoders/0/options" in text and "'window'" in text


def test_option_out_of_range(complaint):
    text = complaint(decoders=[{"name": "label_looping", "options": {"max_symbols": 0}}])
    assert "/decoders/0/options/max_symbols" in text and "1..1000" in text


def test_decoder_that_the_model_cannot_serve(complaint):
    text = complaint(decoders=["frame_looping", "tdt_min_duration"])
    assert "decoder 'tdt_min_duration' cannot decode model 'quickstart-rnnt' of kind rnnt + ctc" in text


def test_transcribe_with_a_decoder_that_the_model_cannot_serve(transcribe):
    result = transcribe("--decoder", "tdt_min_duration", "any.wav")
    assert result.returncode == 2
    assert "tdt_min_duration: cannot decode a model of kind rnnt + ctc; it needs tdt" in result.stderr
    assert result.stderr.count("\n") == 1


def test_same_id_twice(complaint):
    assert "'label_looping' is there twice" in complaint(decoders=["label_looping", "label_looping"])


def test_unknown_baseline(complaint):
    text = complaint(baseline="frame_loping")
    assert "/baseline" in text and "'frame_looping'" in text


def test_unknown_scorer(complaint):
    text = complaint(scorer="basic_englisch")
    assert "/scorer" in text and "basic_english" in text


def test_override_of_an_unknown_key(complaint):
    text = complaint("--set", "protocol.rounds=3")
    assert "--set protocol.rounds=3: " in text and "#/protocol/rounds: unknown " in text and "measured_rounds" in text


def test_override_without_a_value(complaint):
    assert "--set protocol: not of the form a.b=value" in complaint("--set", "protocol")


def test_a_name_is_no_path(complaint):
    text = complaint("--set", "name=../../zzz")
    assert "--set name=../../zzz: " in text and "#/name: '../../zzz'" in text


def test_what_needs_a_gpu_on_a_cpu(rtfx, config):
    path = config(dtypes=["fp32", "fp8"], decoders=["frame_looping", "fused_looping"])
    result = rtfx("validate", path, "--device", "cpu")
    assert result.returncode == 2
    lines = result.stderr.splitlines()
    assert len(lines) == 2 and all("needs a GPU, and the device is cpu" in line for line in lines)
    assert "/dtypes/1: 'fp8'" in lines[0] and "/decoders/1: 'fused_looping'" in lines[1]
    looped = {"name": "label_looping", "options": {"loop": "graph"}}
    result = rtfx("validate", config(decoders=["frame_looping", looped]), "--device", "cpu")
    assert result.returncode == 2
    assert "/decoders/1/options/loop: 'graph' needs a GPU, and the device is cpu" in result.stderr
    assert rtfx("validate", path, "--device", "auto").returncode == 0  # another machine may have a GPU


def test_loops_that_a_cpu_runs_too(rtfx, config):
    """A CPU runs the loops of step_replay without CUDA graphs, and TorchScript needs no graph."""
    steps = [{"id": loop, "name": "step_replay", "options": {"loop": loop}} for loop in ("replay", "coalesced")]
    script = {"name": "label_looping", "options": {"loop": "script"}}
    result = rtfx("validate", config(decoders=["frame_looping", script, *steps]), "--device", "cpu")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("changes, pointer", [
    ({"models": [f"{MODELS}/quickstart-rnnt.nemo\0.nemo"]}, "/models/0"),
    ({"datasets": [{"id": "two", "manifest": f"{ROOT}/tests/data/two.jsonl\0"}]}, "/datasets/0/manifest"),
    ({"decoders": [{"name": "python", "options": {"file": "decoder.py\0"}}]}, "/decoders/0/options/file"),
    ({"decoders": [{"name": "label_looping", "options": {"boost": {"path": "names.txt\0"}}}]}, "boost/path"),
    ({"name": "a\0b"}, "/name"),
])  # fmt: skip
def test_a_path_is_not_cut_at_a_nul(complaint, changes, pointer):
    text = complaint(**changes)
    assert f"{pointer}: has a NUL character; leave it out" in text


def test_a_wrong_override_of_prepare_is_named(complaint):
    prepare = [{"graph": "g.tlg", "lexicon": "l.txt", "lm": "lm.arpa"}]
    text = complaint("--set", "prepare.0.lexicon=5", prepare=prepare)
    assert "--set prepare.0.lexicon=5: " in text and "#/prepare/0/lexicon: 5 is not allowed" in text


def test_missing_plugin(complaint):
    assert "libmine.so: cannot be loaded (" in complaint(plugins=["libmine.so"])


def test_not_json(rtfx, tmp_path):
    path = tmp_path / "broken.json"
    path.write_text('{"question": ')
    result = rtfx("validate", path)
    assert result.returncode == 2 and "broken.json" in result.stderr


@pytest.mark.parametrize(
    "text, problem",
    [
        ("[" * 10_000 + "]" * 10_000, "nested more than 100 levels deep"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested more than 100 levels deep"),
        ('{"question": "a", "question": "b"}', "holds the key 'question' twice"),
        ('{"batch_sizes": [1e999]}', "holds the number '1e999', which is too large"),
        ('{"question": "a",\n "models" []}', "line 2, column 11"),
    ],
    ids=["deep", "deeper", "twice", "large", "typo"],
)
def test_json_that_no_configuration_is(rtfx, tmp_path, text, problem):
    path = tmp_path / "broken.json"
    path.write_text(text)
    result = rtfx("validate", path)
    assert result.returncode == 2
    assert result.stderr.startswith(f"rtfx: error: {path}: ") and problem in result.stderr
    assert "; " in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "override, problem",
    [
        ("models.99999999=1", "'99999999' in a list of 1; give an index 0..1"),
        ("models.first=1", "'first' in a list of 1"),
        ("question.a=1", "'a' is to be a part of is a single value"),
        ("protocol={'a'", "not JSON"),
        ("models=" + "[" * 1000, "nested more than 100 levels deep"),
        ("batch_sizes=1e999", '"1e999" is not allowed; allowed: an integer'),
        ("protocol.seed=18446744073709551615", "18446744073709551615 is not allowed"),
    ],
)
def test_override_that_leads_nowhere(complaint, override, problem):
    assert problem in complaint("--set", override)


def test_of_two_overrides_the_last_one_is_named(complaint):
    text = complaint("--set", "protocol.seed=1", "--set", "protocol.seed=many")
    assert "--set protocol.seed=many: " in text and "--set protocol.seed=1" not in text


def test_keys_with_slashes_are_one_key(complaint):
    """An unknown key is named as a JSON pointer (RFC 6901), so it is not taken for the key of an override."""
    text = complaint("--set", "protocol.seed=1", **{"protocol/seed": 5})
    assert "#/protocol~1seed: unknown key" in text and "--set" not in text


@pytest.mark.parametrize("name", ["cud", "gpu", "gpu:0"])
def test_unknown_device_names_the_nearest(transcribe, name):
    result = transcribe("--device", name, "any.wav")
    assert result.returncode == 2
    assert "did you mean 'cuda'? allowed: auto, cpu, cuda, cuda:N" in result.stderr


@pytest.mark.parametrize("name", ["gone.json", "."])
def test_missing_file_or_directory_in_its_place(rtfx, tmp_path, name):
    result = rtfx("run", tmp_path / name)
    assert result.returncode == 2
    assert str(tmp_path) in result.stderr and result.stderr.count("\n") == 1


def test_too_few_gpus(rtfx, config):
    result = rtfx("run", config(), "--device", "cuda:99")
    assert result.returncode == 2 and "cuda:99" in result.stderr
