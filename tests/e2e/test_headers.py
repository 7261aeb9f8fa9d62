"""Every header includes what it needs. libclang reads each alone; what takes longest (HEAVY) is read once, and
given to those headers only that include it. Those of kernels (.cuh) need nvcc: not here."""

import functools
import importlib.util
import json
import re
import shlex
from pathlib import Path

import pytest
from conftest import PROGRAM, ROOT

cindex = pytest.importorskip("clang.cindex", reason="`make setup` installs libclang")

HEAVY = ["ATen/core/Tensor.h", "nlohmann/json.hpp", "fmt/format.h"]
FOLDERS = ["algorithms", "base", "datasets", "harness", "models"]
HEADERS = {folder: sorted((ROOT / folder).rglob("*.h")) for folder in FOLDERS}


@functools.cache
def includes(path):
    """All that a file includes, directly or not, as it is written."""
    names = set(re.findall(r'^#include [<"](.+?)[>"]', path.read_text(encoding="utf-8"), re.M))
    return names.union(*(includes(ROOT / name) for name in names if (ROOT / name).is_file()))


@pytest.fixture(scope="session")
def parse(tmp_path_factory):
    """parse(text, includes) -> errors. The folders are those that the program was compiled with."""
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

    def errors_of(text, included=frozenset()):
        heavy = tuple(name for name in HEAVY if name in included)
        return run(text, precompiled(heavy) if heavy else [])[1]

    return errors_of


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_compiles_alone(parse, folder):
    assert HEADERS[folder]
    wrong = {}
    for path in HEADERS[folder]:
        name = str(path.relative_to(ROOT))
        if errors := parse(f'#include "{name}"\n', includes(path)):
            wrong[name] = errors[0]
    assert not wrong, "\n".join(f"{name}: {error}" for name, error in wrong.items())


def test_what_is_missing_is_seen(parse):
    assert not parse("#include <vector>\nstd::vector<int> x;\n")
    assert parse("std::vector<int> x;\n")
