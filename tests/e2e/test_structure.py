"""Tests the architecture of the sources: which folder may include which, and how long files may be."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from layers import layers as read_layers

FOLDERS = ["algorithms", "base", "datasets", "harness", "models", "python", "speech"]


def layers():
    """Returns {folder: the folders that it may include, directly or not} from layers.txt."""
    known = {}
    for folder, below, _ in read_layers((ROOT / "layers.txt").read_text(encoding="utf-8")):
        known[folder] = {folder, *(other for name in below for other in known[name])}
    return known


LAYERS = layers()
SOURCES = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".h", ".cpp", ".cu", ".cuh")
)


def includes(path):
    return re.findall(
        r'^\s*#\s*include\s+"([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE
    )


def test_there_are_sources():
    assert {path.relative_to(ROOT).parts[0] for path in SOURCES} == set(FOLDERS)


def folder_of(path):
    """Returns the innermost folder of a source that has an entry in layers.txt."""
    folder = path.rpartition("/")[0]
    while folder and folder not in LAYERS:
        folder = folder.rpartition("/")[0]
    return folder


@pytest.mark.parametrize("folder", LAYERS)
def test_includes_follow_the_arrows(folder):
    sources = [p for p in SOURCES if folder_of(str(p.relative_to(ROOT))) == folder]
    assert sources
    wrong = [
        f"{path.relative_to(ROOT)} includes {name}"
        for path in sources
        for name in includes(path)
        if name != "generated/revision.h" and folder_of(name) not in LAYERS[folder]
    ]
    assert not wrong


def test_every_source_belongs_to_a_folder_of_the_list():
    assert {folder_of(str(path.relative_to(ROOT))) for path in SOURCES} == set(LAYERS)
    # No source lies directly in a folder of folders. Only `algorithms` has sources, those of the decoders' contract.
    for folder in ("harness", "algorithms/shared", "algorithms/decoders"):
        assert not [path for path in SOURCES if path.parent == ROOT / folder]


# A file that implements members of another file's class counts as part of that file.
PARTS = {
    "harness/config/config_keys": "harness/config/config",
}


def test_no_file_includes_itself_through_others():
    """No file includes itself through others, where a header and its source count as one file."""

    def unit(path):
        name = str(Path(path).with_suffix(""))
        return PARTS.get(name, name)

    graph = {}
    for path in SOURCES:
        own = unit(path.relative_to(ROOT))
        names = (unit(name) for name in includes(path))
        graph.setdefault(own, set()).update(name for name in names if name != own)
    done, open_, circles = set(), [], []

    def visit(name):
        if name in open_:
            circles.append(" -> ".join([*open_[open_.index(name) :], name]))
        if name in done or name in open_:
            return
        open_.append(name)
        for other in graph.get(name, ()):
            visit(other)
        done.add(open_.pop())

    for name in graph:
        visit(name)
    assert not circles


def test_a_decoder_includes_no_other_decoder():
    wrong = []
    for path in SOURCES:
        own = str(path.relative_to(ROOT).parent)
        wrong += [
            f"{path.relative_to(ROOT)} includes {name}"
            for name in includes(path)
            if name.startswith("algorithms/decoders/") and name.rpartition("/")[0] != own
        ]
    assert not wrong


def test_contributing_shows_the_layers():
    subprocess.run([sys.executable, ROOT / "scripts/layers.py", "--check"], check=True)


def test_no_file_is_over_1000_lines():
    scripts = [p for folder in ("plots", "scripts", "tests") for p in (ROOT / folder).rglob("*")]
    endings = (".py", ".sh", ".h", ".cpp", ".cu", ".j2")
    long = [
        f"{path.relative_to(ROOT)}: {lines} lines"
        for path in [*SOURCES, *(p for p in scripts if p.suffix in endings)]
        if (lines := path.read_text(encoding="utf-8").count("\n")) > 1000
    ]
    assert not long


def test_one_file_calls_libtorch_s_threads():
    """LibTorch's thread templates divide nothing in a file without OpenMP, so only a file with OpenMP calls them."""
    calling = [path for path in SOURCES if re.search(r"at::parallel_(for|reduce)", path.read_text(encoding="utf-8"))]
    assert [path.relative_to(ROOT).as_posix() for path in calling] == ["models/parallel.cpp"]


def test_headers_are_guarded():
    assert not [p for p in SOURCES if p.suffix == ".h" and "#pragma once" not in p.read_text()]
