"""Tests that every header includes what it needs. libclang reads the headers in chains, in which each header includes
the one before it. So the text before a header is something that it includes anyway, and cannot hide a missing include.
The slowest headers (HEAVY) are precompiled once, for the chains whose headers include them. Headers of kernels (.cuh)
need nvcc and are left out."""

import functools
import importlib.util
import itertools
import json
import re
import shlex
from pathlib import Path

import pytest
from conftest import PROGRAM, ROOT

cindex = pytest.importorskip("clang.cindex", reason="`make setup` installs libclang")

HEAVY = ["ATen/core/Tensor.h", "nlohmann/json.hpp", "CLI/CLI.hpp", "filesystem", "functional", "memory", "string"]
FOLDERS = ["algorithms", "base", "datasets", "harness", "models", "speech"]
ALL = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.h"))


@functools.cache
def includes(path):
    """Returns the names of all headers that a file includes, directly or not, as they are written."""
    names = set(re.findall(r'^#include [<"](.+?)[>"]', path.read_text(encoding="utf-8"), re.M))
    return names.union(*(includes(ROOT / name) for name in names if (ROOT / name).is_file()))


class Reader:
    """Runs libclang with the include folders of the program's own compilation."""

    def __init__(self, commands, folder):
        of_main = next(c for c in json.loads(commands.read_text()) if c["file"].endswith("/main.cpp"))
        words = shlex.split(of_main["command"])
        (data,) = importlib.util.find_spec("clang_tidy").submodule_search_locations
        (builtin,) = Path(data).glob("data/lib/clang/*")
        self.flags = ["-x", "c++", "-std=c++20", "-Wno-everything", "-resource-dir", str(builtin)]
        self.flags += ["-I", str(ROOT), *(word for word in words if word.startswith("-D"))]
        self.flags += [word for i, word in enumerate(words) if "-isystem" in (word, words[i - 1])]
        self.index, self.folder, self.units = cindex.Index.create(), folder, {}

    def parse(self, text, more=()):
        name = "one.cpp"
        return self.index.parse(name, args=self.flags + list(more), unsaved_files=[(name, text)])

    def unit(self, heavy):
        """Parses the includes of the `heavy` headers once, and returns them."""
        if heavy not in self.units:
            self.units[heavy] = self.parse("".join(f"#include <{name}>\n" for name in heavy))
        return self.units[heavy]

    @functools.cache
    def precompiled(self, heavy):
        """Returns the compiler flags that include the precompiled `heavy` headers."""
        file = self.folder / f"{len(list(self.folder.iterdir()))}.pch"
        self.unit(heavy).save(str(file))
        return ["-include-pch", str(file)]

    @functools.cache
    def brings(self, name):
        """Returns the other headers of HEAVY that the header `name` of HEAVY includes."""
        files = {str(entry.include.name) for entry in self.unit((name,)).get_includes()}
        return {other for other in HEAVY if any(file.endswith(f"/{other}") for file in files)} - {name}

    def heavy(self, name):
        """Returns the headers of HEAVY that a header includes, without those that another one of them includes."""
        found = [large for large in HEAVY if large in includes(ROOT / name)]
        return tuple(large for large in found if not any(large in self.brings(other) for other in found))

    def errors(self, text, heavy=()):
        unit = self.parse(text, self.precompiled(heavy) if heavy else [])
        return [str(d) for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]


@pytest.fixture(scope="session")
def reader(tmp_path_factory):
    commands = PROGRAM.parent / "compile_commands.json"
    if not commands.is_file():
        pytest.skip(f"no {commands}")
    return Reader(commands, tmp_path_factory.mktemp("headers"))


def chains(heavy):
    """Yields chains that cover every header once. Within a chain, headers that include little come first."""
    left = {str(path.relative_to(ROOT)) for path in ALL}

    def longest(names):
        return max(names, key=lambda name: (len(includes(ROOT / name) & left), name))

    while left:
        chain, below = [], left
        while below:
            name = longest(below)
            chain.insert(0, name)
            left.remove(name)
            below = {n for n in includes(ROOT / name) & left if heavy(n) == heavy(name)}
        yield chain


def test_each_compiles_alone(reader):
    wrong = {}
    for chain in chains(reader.heavy):
        text = "".join(f'#include "{name}"\n' for name in chain)
        if errors := reader.errors(text, reader.heavy(chain[0])):
            wrong[chain[-1]] = errors[0]
    assert not wrong, "\n".join(f"{name}: {error}" for name, error in wrong.items())


def test_every_header_stands_in_a_chain(reader):
    every = list(chains(reader.heavy))
    named = [name for chain in every for name in chain]
    assert sorted(named) == sorted(str(p.relative_to(ROOT)) for p in ALL) and len(named) > 200
    for chain in every:
        for before, name in itertools.pairwise(chain):
            assert before in includes(ROOT / name)


def test_what_is_missing_is_seen(reader):
    assert not reader.errors("#include <vector>\nstd::vector<int> x;\n")
    assert reader.errors("std::vector<int> x;\n")
