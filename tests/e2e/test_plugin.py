"""A decoder of another project: examples/plugin, built against the installed files alone."""

import json
import re
import shutil
import subprocess

import pytest
from conftest import AUDIO, MODELS, PROGRAM, ROOT, runs_of, small_config, strict_records


def call(*command, **settings):
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, **settings)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """(the installed program, the plug-in)."""
    build = PROGRAM.parent
    if not (build / "CMakeCache.txt").is_file():
        pytest.skip("the program is in no build folder, from which it could be installed")
    cmake = re.search(r"^CMAKE_COMMAND:INTERNAL=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)[1]
    folder = tmp_path_factory.mktemp("plugin")
    call(cmake, "--install", build, "--prefix", folder / "prefix")
    shutil.copytree(ROOT / "examples/plugin", folder / "source")
    call(cmake, "-S", folder / "source", "-B", folder / "build",
         f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}")  # fmt: skip
    call(cmake, "--build", folder / "build")
    return folder / "prefix/bin/rtfx", folder / "build/libplain_greedy.so"


def test_the_installation_is_small(installed):
    prefix = installed[0].parents[1]
    files = [file for file in prefix.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files if file.suffix == ".h") < 1 << 20
    assert {file.suffix for file in files} <= {"", ".h", ".cmake"}
    assert not list(prefix.rglob("decoders"))


@pytest.mark.parametrize("model", ["quickstart-rnnt", "quickstart-tdt"])
def test_it_runs_beside_the_others(installed, tmp_path, model):
    program, plugin = installed
    config = small_config(
        models=[str(MODELS / f"{model}.nemo")],
        plugins=[str(plugin)],
        decoders=["frame_looping", "plain_greedy"],
        datasets=[{"id": "six", "manifest": str(AUDIO / "manifest.jsonl"), "limit": 6}],
    )
    (tmp_path / "config.json").write_text(json.dumps(config))
    call(program, "run", tmp_path / "config.json", "--output", tmp_path / "run")
    records = {r["decoder"]["id"]: r for r in runs_of(strict_records(tmp_path / "run/journal.jsonl"))}
    assert records["plain_greedy"]["exactness"]["grade"] in ("bitwise", "exact")
    assert records["plain_greedy"]["counters"]["host_reads"] > 0


def test_it_transcribes(installed):
    program, plugin = installed
    command = [program, "transcribe", "--model", MODELS / "quickstart-rnnt.nemo", "--threads", "1"]
    own = call(*command, "--plugins", plugin, "--decoder", "plain_greedy", AUDIO / "qs01.flac")
    assert own.strip() and own == call(*command, AUDIO / "qs01.flac")
