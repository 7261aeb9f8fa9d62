"""Tests a decoder of another project: examples/plugin, built against nothing but the installed files."""

import json
import os
import re
import shutil
import subprocess

import pytest
from conftest import AUDIO, MODELS, PROGRAM, ROOT, runs_of, small_config, strict_records
from ruamel.yaml import YAML


def call(*command, **settings):
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, **settings)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


# OpenStreams formats messages. It must use the program's fmt, and not the fmt of LibTorch.
STREAMS = """
#include "algorithms/streams.h"
[[gnu::used]] static int64_t open_one(std::vector<int64_t> numbers) {
  rtfx::OpenStreams<int> streams;
  streams.find_all(numbers);
  return streams.add(1);
}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Returns the installed program and the plug-in."""
    build = PROGRAM.parent
    if not (build / "CMakeCache.txt").is_file():
        pytest.skip("the program is in no build folder, from which it could be installed")
    cmake = re.search(r"^CMAKE_COMMAND:INTERNAL=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)[1]
    folder = tmp_path_factory.mktemp("plugin")
    call(cmake, "--install", build, "--prefix", folder / "prefix")
    shutil.copytree(ROOT / "examples/plugin", folder / "source")
    with (folder / "source/plain_greedy.cpp").open("a") as source:
        source.write(STREAMS)
    call(cmake, "-S", folder / "source", "-B", folder / "build",
         f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}")  # fmt: skip
    call(cmake, "--build", folder / "build")
    return folder / "prefix/bin/rtfx", folder / "build/libplain_greedy.so"


def test_the_installation_is_small(installed):
    prefix = installed[0].parents[1]
    files = [file for file in prefix.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files if file.suffix == ".h") < 1 << 20
    assert {file.suffix for file in files if ".so." not in file.name} <= {"", ".h", ".cmake", ".1", ".fish"}
    assert {file.name.partition(".")[0] for file in files if ".so." in file.name} == {"libfst", "libfstscript"}
    assert not list(prefix.rglob("decoders"))


def test_the_installation_finds_the_libraries_of_the_build(installed):
    """The installed program finds the same libraries as the built one. Those of CUDA may lie in folders of Python
    packages that the system does not search."""
    found = [dict(re.findall(r"(libcud\S+|libcublas\S+) => (\S+)", call("ldd", program))) for program in (installed[0], PROGRAM)]
    assert found[0] == found[1] and {name.partition(".")[0] for name in found[0]} >= {"libcudart", "libcublasLt"}


def test_the_installation_has_the_manual_page_and_completions(installed):
    share = installed[0].parents[1] / "share"
    for file, arguments in {"man/man1/rtfx.1": ["man"], "bash-completion/completions/rtfx": ["completion", "bash"],
                            "zsh/site-functions/_rtfx": ["completion", "zsh"],
                            "fish/vendor_completions.d/rtfx.fish": ["completion", "fish"]}.items():  # fmt: skip
        assert (share / file).read_text() == call(installed[0], *arguments)


def test_bench_tries_it(installed, tmp_path):
    program, plugin = installed
    call(program, "bench", "--model", MODELS / "quickstart-rnnt.nemo", "--data", AUDIO / "manifest.jsonl",
         "--plugins", plugin, "--decoder", "frame_looping,plain_greedy", "--limit", "2", "--rounds", "1",
         "--device", "cpu", "--threads", "1", "--output", tmp_path / "bench")  # fmt: skip
    records = {r["decoder"]["id"]: r for r in runs_of(strict_records(tmp_path / "bench/journal.jsonl"))}
    assert records["plain_greedy"]["exactness"]["grade"] in ("bitwise", "exact")


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


def test_another_build_of_it_is_measured_again(installed, tmp_path):
    program, plugin = installed
    own = shutil.copy(plugin, tmp_path)
    config = small_config(plugins=[str(own)], decoders=["frame_looping", "plain_greedy"])
    (tmp_path / "config.json").write_text(json.dumps(config))
    for added, rounds in ((b"", 1), (b"", 1), (b"\0", 2)):
        with open(own, "ab") as library:
            library.write(added)
        call(program, "run", tmp_path / "config.json", "--output", tmp_path / "run", "--resume")
        assert len(runs_of(strict_records(tmp_path / "run/journal.jsonl"))) == 2 * rounds


def test_it_transcribes(installed):
    program, plugin = installed
    command = [program, "transcribe", "--model", MODELS / "quickstart-rnnt.nemo", "--threads", "1"]
    own = call(*command, "--plugins", plugin, "--decoder", "plain_greedy", AUDIO / "qs01.flac")
    assert own.strip() and own == call(*command, AUDIO / "qs01.flac")


def test_the_workflow_of_its_repository_measures_and_judges_it(installed, tmp_path):
    """The workflow's steps after the build measure and judge a plug-in, here the same one for both commits."""
    program, plugin = installed
    steps = YAML(typ="safe").load((ROOT / "docs/ci/decoder.yml").read_text())["jobs"]["plugin"]["steps"]
    scripts = {step["name"]: step["run"] for step in steps if "run" in step}
    (tmp_path / "prefix").symlink_to(program.parents[1])
    (tmp_path / "rtfx").symlink_to(ROOT)
    for folder in ("base", "change"):
        (tmp_path / "build" / folder).mkdir(parents=True)
        (tmp_path / "build" / folder / plugin.name).symlink_to(plugin)
    environment = {**os.environ, "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    measure = scripts["Measure both"].replace("--rounds 10", "--rounds 2 --limit 2 --threads 1 --device cpu")
    for script, codes in ((measure, (0,)), (scripts["Gate"], (0, 10))):
        done = subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=tmp_path, env=environment,
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode in codes, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()].count(["PASS", "results"]) == 2
    assert "plain\\_greedy" in (tmp_path / "summary.md").read_text()
