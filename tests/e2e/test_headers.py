"""Every header includes what it needs. libclang reads them in chains, where each includes the one before,
which therefore helps it to nothing that it does not include itself; what takes longest (HEAVY) is read once, and given
to those chains only whose headers include it. Those of kernels (.cuh) need nvcc: not here."""

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

HEAVY = ["ATen/core/Tensor.h", "nlohmann/json.hpp", "fmt/format.h", "functional", "filesystem", "string"]
FOLDERS = ["algorithms", "base", "datasets", "harness", "models"]
ALL = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.h"))


@functools.cache
def includes(path):
    """All that a file includes, directly or not, as it is written."""
    names = set(re.findall(r'^#include [<"](.+?)[>"]', path.read_text(encoding="utf-8"), re.M))
    return names.union(*(includes(ROOT / name) for name in names if (ROOT / name).is_file()))


@pytest.fixture(scope="session")
def parse(tmp_path_factory):
    """parse(text, heavy) -> errors. The folders are those that the program was compiled with."""
    commands = PROGRAM.parent / "compile_commands.json"
    if not commands.is_file():
        pytest.skip(f"no {commands}")
    of_main = next(c for c in json.loads(commands.read_text()) if c["file"].endswith("/main.cpp"))
    words = shlex.split(of_main["command"])
    (data,) = importlib.util.find_spec("clang_tidy").submodule_search_locations
    (builtin,) = Path(data).glob("data/lib/clang/*")
    flags = ["-x", "c++", "-std=c++20", "-Wno-everything", "-resource-dir", str(builtin)]
    flags += ["-I", str(ROOT), *(word for word in words if word.startswith("-D"))]
    flags += [word for i, word in enumerate(words) if "-isystem" in (word, words[i - 1])]
    index = cindex.Index.create()

    def run(text, more=()):
        name = "one.cpp"
        unit = index.parse(name, args=flags + list(more), unsaved_files=[(name, text)])
        return unit, [str(d) for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]

    @functools.cache
    def precompiled(heavy):
        """What most of the time goes to, parsed once: as flags for a text that includes it anyway."""
        unit, errors = run("".join(f"#include <{name}>\n" for name in heavy))
        assert not errors
        file = tmp_path_factory.mktemp("headers") / "heavy.pch"
        unit.save(str(file))
        return ["-include-pch", str(file)]

    def errors_of(text, heavy=()):
        return run(text, precompiled(heavy) if heavy else [])[1]

    return errors_of


def heavy(name):
    """What of HEAVY a header includes."""
    return tuple(large for large in HEAVY if large in includes(ROOT / name))


def chains():
    """Every header once, from those that include little to those that include much."""
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


def test_each_compiles_alone(parse):
    wrong = {}
    for chain in chains():
        text = "".join(f'#include "{name}"\n' for name in chain)
        if errors := parse(text, heavy(chain[0])):
            wrong[chain[-1]] = errors[0]
    assert not wrong, "\n".join(f"{name}: {error}" for name, error in wrong.items())


def test_every_header_stands_in_a_chain():
    named = [name for chain in chains() for name in chain]
    assert sorted(named) == sorted(str(p.relative_to(ROOT)) for p in ALL) and len(named) > 200
    for chain in chains():
        for before, name in itertools.pairwise(chain):
            assert before in includes(ROOT / name)


def test_what_is_missing_is_seen(parse):
    assert not parse("#include <vector>\nstd::vector<int> x;\n")
    assert parse("std::vector<int> x;\n")
