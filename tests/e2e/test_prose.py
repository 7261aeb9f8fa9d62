"""Tests that scripts/prose.py finds prose that is hard to read, and accepts prose that is not."""

import subprocess
import sys

import pytest
from conftest import ROOT

LONG = "The program reads " + "one file and " * 15 + "stops."


def check(path, text):
    path.write_text(text, encoding="utf-8")
    script = [sys.executable, ROOT / "scripts/prose.py", path]
    return subprocess.run(script, check=False, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("name", "text", "finding"),
    [
        ("a.md", LONG, "a sentence of 49 words"),
        ("a.md", "The program reads a file, which " + "is long and " * 6 + "ends here, as it should.", "on average"),
        ("a.h", "// What a row holds.\nint x;\n", "fragment 'What'"),
        ("a.h", "/// The rows.\n/// Of each batch.\nint x;\n", "a.h:2: opens with the fragment 'Of'"),
        ("a.py", '"""The same for rows."""\n', "fragment 'The same'"),
        ("a.py", "# As above.\n", "fragment 'As'"),
        ("a.sh", "# By default it runs.\n", "fragment 'By'"),
        ("a.h", f"// {LONG}\n", "a sentence of 49 words"),
        ("a.md", "The decoder rec" + "ieves a batch.", "rec" + "ieves"),
    ],
)
def test_finds(tmp_path, name, text, finding):
    result = check(tmp_path / name, text)
    assert result.returncode == 1
    assert finding in result.stdout


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "The decoder receives a batch.\n\n| " + "word " * 60 + "|\n|---|\n\n```\n" + "word " * 60 + "\n```\n"),
        ("a.h", '// Whatever a row holds, Ofen and Asia are no fragments.\nconst char* s = "// What";\n'),
        ("a.py", '"""Reads rows."""\nx = "# What"\n'),
    ],
)
def test_passes(tmp_path, name, text):
    result = check(tmp_path / name, text)
    assert (result.returncode, result.stdout) == (0, "")
