"""Tests how languages of a prompt-conditioned model are given: by option, manifest, configuration, and for streams."""

import json

import pytest
from conftest import AUDIO, ROOT, runs_of, small_config, strict_records, unpack_checkpoint

CHECKPOINTS = ROOT / "tests/data/checkpoints"
MODEL = CHECKPOINTS / "tiny_prompt.nemo"
FILES = ("1737-146161-0007.flac", "1737-146161-0009.flac", "1737-146161-0010.flac")
KNOWN = "allowed: auto, de-DE, en, en-US"


def reference(language="", key="text"):
    """Returns NeMo's result for each file."""
    path = CHECKPOINTS / f"tiny_prompt{'~' if language else ''}{language}.json"
    return {name: row[key] for name, row in json.loads(path.read_text()).items()}


def texts(stdout):
    lines = (line.partition(": ") for line in stdout.splitlines())
    return {path.rpartition("/")[2]: text for path, _, text in lines}


@pytest.fixture
def transcribe(rtfx):
    def run(*arguments, model=MODEL):
        return rtfx("transcribe", "--model", model, "--threads", 1, *arguments)

    return run


@pytest.fixture
def manifest(tmp_path):
    """manifest(keys, ...) writes a manifest with the given keys for each file, and returns its path."""

    def write(*rows):
        lines = [dict(audio_filepath=str(AUDIO / name), text="a") | row for name, row in zip(FILES, rows)]
        path = tmp_path / "languages.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    return write


@pytest.mark.parametrize("language", ["", "de-DE", "en-US", "en"])
@pytest.mark.parametrize("batch", [1, 3])
def test_the_command_line_states_the_language_of_all_files(transcribe, language, batch):
    arguments = ["--language", language] if language else []
    result = transcribe(*arguments, "--batch-size", batch, *[AUDIO / name for name in FILES])
    assert result.returncode == 0, result.stderr
    expected = reference("en-US" if language == "en" else language)
    assert texts(result.stdout) == {name: expected[name] for name in FILES}
    assert "<" not in result.stdout


def test_a_manifest_states_the_language_of_an_utterance(transcribe, manifest):
    path = manifest({"target_lang": "en-US", "lang": "de-DE"}, {"lang": "de-DE"}, {"lang": None})
    languages = dict(zip(FILES, ["en-US", "de-DE", ""]))
    for arguments, other in ([], ""), (["--language", "de-DE"], "de-DE"):
        result = transcribe(*arguments, "--batch-size", 3, path)
        assert result.returncode == 0, result.stderr
        expected = {name: reference(languages[name] or other)[name] for name in FILES}
        assert texts(result.stdout) == expected


def test_long_audio_has_the_language_of_its_utterance(transcribe, manifest):
    """Long audio is decoded in the language of its manifest line. A chunk covers the whole file, so its frames are the
    same."""
    path = manifest({"lang": "de-DE"}, {"lang": "en-US"})
    result = transcribe("--long-above", 0.5, "--chunk", 60, path)
    assert result.returncode == 0, result.stderr
    expected = dict(zip(FILES, [reference("de-DE")[FILES[0]], reference("en-US")[FILES[1]]]))
    assert texts(result.stdout) == expected


def test_an_unknown_language_is_one_error_with_the_known_ones(transcribe, rtfx):
    for command in ("transcribe", "stream", "align"):
        result = rtfx(command, "--model", MODEL, "--language", "de-DD", AUDIO / FILES[0])
        assert result.returncode == 2 and result.stdout == ""
        assert "--language: unknown language 'de-DD'; did you mean 'de-DE'?" in result.stderr
        assert KNOWN in result.stderr and result.stderr.count("error:") == 1


def test_an_unknown_language_of_a_manifest_costs_no_other_file(transcribe, manifest):
    result = transcribe(manifest({"lang": "xx"}, {"lang": "de-DE"}))
    assert result.returncode == 1
    assert texts(result.stdout) == {FILES[1]: reference("de-DE")[FILES[1]]}
    (error,) = [line for line in result.stderr.splitlines() if "error:" in line]
    assert FILES[0] in error and "unknown language 'xx'" in error and KNOWN in error


def test_a_missing_language_costs_no_other_file(transcribe, manifest, tmp_path):
    """A file without a language fails alone, if the model has no prompt `auto`."""
    unpack_checkpoint(MODEL, tmp_path / "model")
    settings = tmp_path / "model/model_config.yaml"
    settings.write_text(settings.read_text().replace("    auto: 3\n", ""))
    result = transcribe("--batch-size", 2, manifest({"lang": "de-DE"}, {}), model=tmp_path / "model")
    assert result.returncode == 1
    assert texts(result.stdout) == {FILES[0]: reference("de-DE")[FILES[0]]}
    (error,) = [line for line in result.stderr.splitlines() if "error:" in line]
    assert FILES[1] in error and "the model needs a language for each utterance" in error


def test_a_language_that_is_no_text(transcribe, manifest):
    result = transcribe(manifest({"lang": 3}))
    assert result.returncode == 1 and "'lang'" in result.stderr and ":1:" in result.stderr


def test_a_model_without_prompts(transcribe, manifest):
    """A model without prompts refuses --language and ignores the languages of a manifest."""
    plain = CHECKPOINTS / "tiny_tdt.nemo"
    result = transcribe("--language", "de-DE", AUDIO / FILES[0], model=plain)
    assert result.returncode == 2
    assert "--language: the model takes no language" in result.stderr
    with_language = transcribe(manifest({"lang": "de-DE"}), model=plain)
    without = transcribe(manifest({}), model=plain)
    assert with_language.returncode == 0 and with_language.stdout == without.stdout


@pytest.mark.parametrize("language", ["", "de-DE"])
def test_live_streams(rtfx, language):
    arguments = ["--language", language] if language else []
    result = rtfx("stream", "--model", MODEL, "--pause", 0, *arguments, AUDIO / FILES[2])
    assert result.returncode == 0, result.stderr
    assert result.stdout == reference(language)[FILES[2]] + "\n" != "\n"


def run_config(rtfx, folder, command, **changes):
    config = folder / "config.json"
    config.write_text(json.dumps(small_config(**changes)))
    return rtfx(command, config, *([] if command == "validate" else ["--output", folder / "run"]))


def test_a_configuration_states_languages(rtfx, tmp_path, manifest):
    """An utterance without a language in the manifest has the language that the configuration states for the model."""
    path = manifest({"lang": "en-US"}, {}, {"target_lang": "auto"})
    models = [{"id": "default", "path": str(MODEL)}, {"id": "german", "path": str(MODEL), "language": "de-DE"}]
    datasets = [{"id": "three", "manifest": str(path)}]
    result = run_config(rtfx, tmp_path, "run", models=models, datasets=datasets)
    assert result.returncode == 0, result.stderr
    runs = runs_of(strict_records(tmp_path / "run/journal.jsonl"))
    assert len(runs) == 4  # two models with two decoders each
    assert len({run["result_key"] for run in runs}) == 4
    for run in runs:
        language = "de-DE" if run["model"]["id"] == "german" else ""
        lines = strict_records(tmp_path / f"run/hypotheses/{run['result_key']}.jsonl")
        found = {line["id"].rpartition("/")[2]: line["tokens"] for line in lines}
        for name, own in zip(FILES, ["en-US", language, ""]):
            assert found[name.removesuffix(".flac")] == reference(own, "tokens")[name], (language, name)


def test_languages_of_a_configuration_are_checked_before_the_run(rtfx, tmp_path, manifest):
    path = manifest({"lang": "en-US"}, {"lang": "zz-ZZ"}, {"lang": "yy-YY"})
    datasets = [{"id": "three", "manifest": str(path)}]
    result = run_config(rtfx, tmp_path, "validate", models=[str(MODEL)], datasets=datasets)
    assert result.returncode == 2
    assert f"{path}:2: unknown language 'zz-ZZ'" in result.stderr
    assert f"{path}:3: unknown language 'yy-YY'" in result.stderr
    models = [{"id": "m", "path": str(MODEL), "language": "xx-XX"}]
    result = run_config(rtfx, tmp_path, "validate", models=models)
    assert result.returncode == 2 and "unknown language 'xx-XX'" in result.stderr


@pytest.mark.parametrize("scope", ["search", "speech"])
def test_simulated_streams_have_the_languages_of_their_utterances(rtfx, tmp_path, manifest, scope):
    path = manifest({"lang": "en-US"}, {"lang": "de-DE"}, {})
    datasets = [{"id": "three", "manifest": str(path), "seconds": [1.2]}]
    load = {"streams": [3], "seconds": 3, "period_ms": 200, "scope": scope}
    result = run_config(rtfx, tmp_path, "stream", models=[str(MODEL)], datasets=datasets,
                        decoders=["label_looping"], stream=load)
    assert result.returncode == 0, result.stderr
    (record,) = [r for r in strict_records(tmp_path / "run/journal.jsonl") if r["kind"] == "stream"]
    assert record["streamed"]["different"] == 0 and record["streamed"]["utterances"] >= 3


def test_inspect_lists_the_languages(rtfx):
    model = json.loads(rtfx("inspect", MODEL, "--json").stdout)
    assert model["prompts"] == {
        "count": 5,
        "width": 16,
        "default": 3,
        "default_language": "auto",
        "languages": {"auto": 3, "de-DE": 1, "en": 0, "en-US": 0},
    }
    assert "languages    auto, de-DE, en, en-US; default auto" in rtfx("inspect", MODEL).stdout
    plain = json.loads(rtfx("inspect", CHECKPOINTS / "tiny_tdt.nemo", "--json").stdout)
    assert plain["prompts"] is None
