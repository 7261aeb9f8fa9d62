"""Tests relative paths: those of a configuration are relative to its folder, and those of `--set` to the working
folder."""

import json
import os
import shutil
import subprocess

import pytest
from test_language_model import arpa

TUNE = {"decoder": "d", "dataset": "two", "options": {"lm.alpha": [0, 1]}}


@pytest.fixture
def resolved(rtfx, config, tmp_path):
    """resolved(override, ..., options=...) returns the configuration as `rtfx validate` reads it."""
    work = tmp_path / "work"
    work.mkdir()
    for folder in (tmp_path, work):
        for name in ("same.arpa", "other.arpa"):
            (folder / name).write_text(arpa({}))

    def validate(*overrides, options):
        path = config(decoders=[{"id": "d", "name": "label_looping", "options": options}], tune=TUNE)
        given = [part for text in overrides for part in ("--set", text)]
        result = rtfx("validate", path, "--json", *given, cwd=work)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)["config"]

    return validate


def test_equal_paths_of_a_file_and_of_an_override(resolved, tmp_path):
    options = {"boost": {"path": "same.arpa"}, "lm": {"path": "other.arpa"}}
    (decoder,) = resolved("decoders.0.options.lm.path=same.arpa", options=options)["decoders"]
    assert decoder["options"]["boost"]["path"] == str(tmp_path / "same.arpa")
    assert decoder["options"]["lm"]["path"] == str(tmp_path / "work/same.arpa")


def test_equal_paths_of_one_override(resolved, tmp_path):
    both = json.dumps({"boost": {"path": "same.arpa"}, "lm": {"path": "same.arpa"}})
    (decoder,) = resolved(f"decoders.0.options={both}", options={})["decoders"]
    for option in ("boost", "lm"):
        assert decoder["options"][option]["path"] == str(tmp_path / "work/same.arpa")


@pytest.mark.parametrize(
    "override, folders",
    [
        ('decoders.0.options.lm.path=["same.arpa", "other.arpa"]', ["work", "work"]),
        ("decoders.0.options.lm.path.1=other.arpa", [".", "work"]),
        ('decoders.0.options.lm=[{"path": "same.arpa"}, {"path": "other.arpa"}]', ["work", "work"]),
    ],
)
def test_paths_in_lists(resolved, tmp_path, override, folders):
    found = resolved(override, options={"lm": {"path": ["same.arpa", "same.arpa"]}})["decoders"]
    names = ("same.arpa", "other.arpa")
    expected = [str(tmp_path / folder / name) for folder, name in zip(folders, names, strict=True)]
    assert [decoder["options"]["lm"]["path"] for decoder in found] == expected


@pytest.mark.parametrize("given", [("--set", "protocol.seed=5", "threads=1"), ("--set=protocol.seed=5",), ("--set", "protocol.seed=5")])
def test_an_override_takes_no_file(rtfx, config, given):
    result = rtfx("validate", *given, config(), "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["config"]["protocol"]["seed"] == 5


def test_a_file_with_the_form_of_an_override_is_the_configuration(rtfx, config, tmp_path):
    config().rename(tmp_path / "threads=2.json")
    result = rtfx("validate", "--set", "protocol.seed=5", "threads=2.json", "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["config"]["protocol"]["seed"] == 5


def test_the_resolved_configuration_can_be_read(rtfx, config, tmp_path):
    """A resolved configuration can be read again, even one of CTC alone without a baseline, and one with `stream`,
    whose lists are empty by default. It has all keys, also those that other programs read."""
    cell = {"model": "m", "decoder": "ctc_greedy", "metric": "wer", "published": "5.0"}
    (tmp_path / "words").write_text("a 1\n")
    made = {"words": "words", "dataset": "quickstart", "lexicon": "lexicon"}  # is there already
    given = {"paper": {"title": "A paper"}, "cells": [cell], "prepare": made}
    result = rtfx("validate", config(decoders=["ctc_greedy"], stream={"rule": "c120"}, **given), "--json")
    assert result.returncode == 0, result.stderr
    first = json.loads(result.stdout)["config"]
    assert first["paper"] == given["paper"] and first["cells"] == [cell]
    paths = {"words": str(tmp_path / "words"), "lexicon": str(tmp_path / "lexicon")}
    assert first["prepare"] == [made | paths | {"said": True}]
    again = tmp_path / "again.json"
    again.write_text(json.dumps(first))
    result = rtfx("validate", again, "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["config"] == first


def test_names_that_are_no_utf8(program, config, tmp_path):
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    path = folder + b"/c.json"
    shutil.copy(config(), path)
    for command in (["validate", path, "--json"], ["run", path]):
        result = subprocess.run([program, *command, "--output", folder + b"/run"], capture_output=True, timeout=300)
        assert result.returncode == 0, result.stderr
    assert os.path.isfile(folder + b"/run/journal.jsonl")


def test_a_development_set(resolved, tmp_path):
    options = {"lm": {"path": "same.arpa"}}
    own = json.dumps({"id": "dev", "files": ["a.wav", "/b.wav"]})
    (tune,) = resolved(f"tune.dataset={own}", options=options)["tune"]
    assert tune["dataset"]["files"] == [str(tmp_path / "work/a.wav"), "/b.wav"]
