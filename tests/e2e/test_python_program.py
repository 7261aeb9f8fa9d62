"""Tests rtfx.run() and rtfx.records() with stand-ins for the wheel's program."""

import gzip
import importlib.machinery
import importlib.util
import json
import os
import pickle
import sys

import pytest
from conftest import ROOT, package_from

RECORD = {"kind": "run", "decoder": {"id": "label_looping"}, "question": "two\u2028lines"}
JOURNAL = json.dumps({"kind": "provenance"}) + "\n" + json.dumps(RECORD, ensure_ascii=False) + "\n"


@pytest.fixture(scope="module")
def package():
    with package_from(ROOT / "python") as package:
        yield package


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_that_is_torn_within_a_character_is_ignored(package, tmp_path, packed):
    data = JOURNAL.encode() + '{"kind": "run", "text": "\u00fc'.encode()[:-1]
    path = tmp_path / ("journal.jsonl.gz" if packed else "journal.jsonl")
    path.write_bytes(gzip.compress(data) if packed else data)
    assert [record["question"] for record in package.records(path)] == ["two\u2028lines"]


def round_of(number, started, key="k", case="a"):
    return {"kind": "run", "case": case, "result_key": key, "round": number, "started": started}


def failure_of(case):
    return {"kind": "failure", "case": case}


JOURNALS = {
    "measured_again_after_a_failure": (
        [round_of(0, "1"), round_of(1, "2"), failure_of("b"), failure_of("a"), round_of(1, "3")], ["1", "3"]),
    "equal_numbers_without_a_failure": ([round_of(0, "1"), round_of(0, "2")], ["1", "2"]),
    "measured_with_other_settings": (
        [round_of(0, "1"), round_of(0, "2", case="b"), round_of(1, "3"), round_of(0, "4", "new"), round_of(1, "5", "new")],
        ["2", "4", "5"]),
    "failed_at_last": ([round_of(0, "1"), round_of(0, "2", case="b"), failure_of("a")], ["2"]),
    "joined_with_itself": (2 * [round_of(0, "1"), round_of(1, "2")], ["1", "2"]),
}  # fmt: skip


@pytest.mark.parametrize("name", JOURNALS)
def test_records_are_the_newest_rounds_of_each_case(package, tmp_path, name):
    records, counted = JOURNALS[name]
    (tmp_path / "journal.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert [record["started"] for record in package.records(tmp_path)] == counted


@pytest.mark.parametrize("line", [b"[1]", b"5", b'{"a": "\xc3"}'])
def test_a_line_that_is_no_object_is_named(package, tmp_path, line):
    (tmp_path / "journal.jsonl").write_bytes(JOURNAL.encode() + line + b"\n")
    with pytest.raises(package.Error, match="journal.jsonl:3: is no JSON"):
        package.records(tmp_path)


@pytest.fixture
def runs(package, tmp_path, monkeypatch):
    """runs(code, message) makes run() start a program that writes JOURNAL, prints the message and exits with the
    code."""
    monkeypatch.chdir(tmp_path)
    program = importlib.import_module("rtfx.program")
    monkeypatch.setattr(program, "_environment", lambda: dict(os.environ))

    def of(code, message="", journal=JOURNAL):
        path = tmp_path / "bin/rtfx.bin"
        path.parent.mkdir(exist_ok=True)
        (path.parent / "journal").write_text(journal, encoding="utf-8")
        write = f'mkdir -p "$4" && cp "{path.parent}/journal" "$4/journal.jsonl"\n' if journal else ""
        path.write_text(f'#!/bin/sh\ncat "$2" >"{path.parent}/config"\n{write}echo "{message}" >&2\nexit {code}\n')
        path.chmod(0o755)
        monkeypatch.setattr(program, "PROGRAM", path)
        return lambda config=None, **rest: program.run(config or {"question": "Which?"}, **rest)

    yield of
    assert os.listdir(tmp_path) == ["bin"] or sorted(os.listdir(tmp_path)) == ["bin", "kept"]


@pytest.fixture
def environment(package, tmp_path, monkeypatch):
    """environment(site) returns the program's environment. torch is in the folder `site` of tmp_path, the package in
    "own" there."""
    program = importlib.import_module("rtfx.program")
    monkeypatch.setattr(program, "PROGRAM", tmp_path / "own/rtfx/bin/rtfx.bin")
    (tmp_path / "own").mkdir()

    def of(site):
        folder = tmp_path / site / "torch"
        folder.mkdir(parents=True)
        spec = importlib.machinery.ModuleSpec("torch", None, is_package=True)
        spec.submodule_search_locations.append(str(folder))
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
        return program._environment()

    return of


@pytest.mark.parametrize("before", [None, "/before"])
def test_programs_that_the_program_starts_get_none_of_its_libraries(environment, tmp_path, monkeypatch, before):
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    if before:
        monkeypatch.setenv("LD_LIBRARY_PATH", before)
    assert environment("own").get("LD_LIBRARY_PATH") == before
    other = [f"{tmp_path}/other/torch/lib", f"{tmp_path}/other/nvidia/cu13/lib"]
    assert environment("other")["LD_LIBRARY_PATH"].split(":") == other + [before] * bool(before)


def test_the_python_that_the_user_names_runs_scripts_and_decoders(environment, monkeypatch):
    for given, expected in (("rivals/nemo/.venv/bin/python", None), ("", sys.executable)):
        monkeypatch.setenv("RTFX_PYTHON", given)
        assert environment(f"site{given == ''}")["RTFX_PYTHON"] == (expected or given)


@pytest.mark.parametrize("code", [0, 13])
def test_records_of_a_run(runs, tmp_path, code):
    assert runs(code)() == [{"kind": "run", "decoder.id": "label_looping", "question": "two\u2028lines"}]
    assert json.loads((tmp_path / "bin/config").read_text()) == {"name": "run", "question": "Which?"}


def test_a_configuration_without_a_name_has_that_of_its_folder(runs, tmp_path):
    for config, name in (({"question": "Which?"}, "kept"), ({"name": "own", "question": "Which?"}, "own")):
        runs(0)(config, output=tmp_path / "kept")
        assert json.loads((tmp_path / "bin/config").read_text())["name"] == name


def test_records_of_the_other_cases_survive_a_failure(runs, package):
    with pytest.raises(package.RunError, match="^one case failed$") as raised:
        runs(1, "rtfx: error: one case failed")()
    again = pickle.loads(pickle.dumps(raised.value))
    assert again.records == raised.value.records and len(again.records) == 1 and str(again) == "one case failed"


def test_failures_without_a_journal(runs, package, tmp_path):
    with pytest.raises(package.InputError, match="models: is missing"):
        runs(2, "rtfx: error: models: is missing", journal="")()
    with pytest.raises(package.Error, match="exit code 139") as raised:
        runs(139, journal="")(output=tmp_path / "kept")
    assert not isinstance(raised.value, package.InputError)


def test_a_configuration_that_json_lacks(runs, package, tmp_path):
    with pytest.raises(package.InputError, match=r"^config: .*PosixPath.* JSON"):
        runs(0)({"models": [tmp_path]})


def test_runs_leave_no_open_files(runs):
    run = runs(0)
    run()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        run()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("name, pack", [("journal.jsonl", bytes), ("journal.jsonl.gz", gzip.compress)])
def test_records_of_journals(package, tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack((JOURNAL + '{"kind": "ru').encode()))  # a crash cut the last line short
    assert [record["decoder.id"] for record in package.records(tmp_path)] == ["label_looping"]
    (tmp_path / name).write_bytes(pack(JOURNAL.replace('"run"', "run").encode()))
    with pytest.raises(package.Error, match=rf"{name}:2: is no JSON"):
        package.records(tmp_path)
