"""Tests the files for continuous integration in docs/ci: linters accept them, and what they refer to exists."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

WORKFLOWS = sorted((ROOT / "docs/ci").glob("*.yml"))
ACTIONS = sorted((ROOT / "docs/ci/actions").glob("*/action.yml"))


def lint(*command):
    tool, *arguments = map(str, command)
    program = Path(sys.executable).with_name(tool)  # installed from requirements.txt
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    "schema, files", [("github-workflows", WORKFLOWS), ("github-actions", ACTIONS)]
)
def test_they_are_what_github_reads(schema, files):
    assert files
    result = lint("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *files)
    assert result.returncode == 0, result.stdout


def test_they_are_safe():
    config = ROOT / "tests/data/zizmor.yml"
    result = lint("zizmor", "--offline", "--no-progress", "--min-severity", "medium",
                  "--config", config, *WORKFLOWS, *ACTIONS)  # fmt: skip
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=lambda path: path.stem)
def test_what_they_speak_of_exists(path):
    text = path.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake (?:-C \S+ )?([a-z]+)", text)) <= targets
    for name in re.findall(r"(?<![\w.-])configs/[\w./-]+\.json", text):
        assert (ROOT / name).is_file(), name
    for name in re.findall(r"uses: \./(?:\w+/)?\.github/(\S+)", text):
        assert (ROOT / "docs/ci" / name / "action.yml").is_file(), name


def test_targets_of_one_call_take_turns(tmp_path):
    """Targets run in turn, also if MAKEFLAGS asks for several jobs, since they use the same folders."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    for name in ("setup", "consumers", "build", "wheel", "test"):
        script = tmp_path / f"scripts/{name}.sh"
        script.write_text(f"#!/bin/sh\necho begin {name} >>calls\nsleep 0.1\necho end {name} >>calls\n")
        script.chmod(0o755)
    subprocess.run([tmp_path / ".ci/run"], env=os.environ | {"MAKEFLAGS": "-j8"}, capture_output=True, check=True)
    calls = [line.split() for line in (tmp_path / "calls").read_text().splitlines()]
    for (begin, name), (end, other) in zip(calls[::2], calls[1::2], strict=True):
        assert (begin, end) == ("begin", "end") and name == other, calls
    assert [name for _, name in calls[::2] if name != "setup"] == ["consumers", "build", "wheel", "test"]


def test_what_takes_long_is_cached():
    """Every workflow that builds caches LibTorch, the compiler, Debian packages and compiled objects."""
    (cache,) = ACTIONS
    for part in ("~/.cache/pip", "~/.cache/apt", "~/.cache/ccache"):
        assert part in cache.read_text(encoding="utf-8")
    for path in WORKFLOWS:
        text = path.read_text(encoding="utf-8")
        assert "make" not in text or re.search(r"uses: \./.*actions/cache\n", text), path.name
