"""Runs the commands of each page of the guide as they are written, in a tree like a fresh one after `make bench`."""

import re
import subprocess

import pytest
from conftest import ROOT

# A block that holds one of these texts is left out, for the reason beside it.
LEFT_OUT = {
    "--microphone": "needs a microphone",
    "--device cuda": "needs a GPU",
    "batch_sweep.json": "needs a GPU",
    "chain.json": "needs a GPU",
    "--nproc-per-node": "needs several GPUs",
    "--nsys": "needs Nsight Systems",
    "nsys export": "needs Nsight Systems",
    "--roofline": "takes minutes without a GPU",
    "--quick 64": "takes minutes without a GPU",
    "stand_ins.sh": "needs the shared folder",
    '"max"': "fills the memory of the machine",
    "gpu_idle.py": "needs the profile of a GPU",
    "lmplz": "needs SLURP and KenLM",
    "rtfx tune configs/tables": "needs the sets of the papers",
    "speak_librispeech.py": "speaks five hours",
    "--only /frame_looping": "needs a GPU",
    "table:": "needs a GPU and stand-ins of full size",
    "stream_c120.json": "takes minutes",
    "environment.sh": "installs the packages of rivals, and needs a GPU",
    "silero": "needs a package that is no part of the set-up",
}
# The least number of blocks that must run on each page.
PAGES = {"transcribe": 10, "stream": 5, "profile": 2, "reproduce": 2}


@pytest.fixture(scope="module")
def tree(tmp_path_factory, program):
    """Links the files of the repository into a new folder, so that it has a runs/ of its own."""
    tree = tmp_path_factory.mktemp("tree")
    for path in ROOT.iterdir():
        if path.name not in ("runs", "build", ".git"):
            (tree / path.name).symlink_to(path)
    (tree / "build/release").mkdir(parents=True)
    (tree / "build/release/rtfx").symlink_to(program)
    bench = "build/release/rtfx run configs/quickstart.json --set protocol.measured_rounds=2 --output runs/quickstart"
    assert run(tree, bench).returncode == 0
    return tree


def run(tree, script):
    return subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], cwd=tree, capture_output=True, text=True)


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(tree, page):
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / f"docs/{page}.md").read_text(encoding="utf-8"), re.M | re.S)
    chosen = [block for block in blocks if not any(text in block for text in LEFT_OUT)]
    assert len(chosen) >= PAGES[page]
    for block in chosen:
        result = run(tree, block)
        assert result.returncode == 0, f"{block}\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}"


def test_the_command_that_takes_minutes_is_a_valid_one(tree):
    page = (ROOT / "docs/stream.md").read_text(encoding="utf-8")
    [command] = re.findall(r"^build/release/rtfx stream (configs/stream_c120\.json(?:.*\\\n)*.*)$", page, re.M)
    result = run(tree, f"build/release/rtfx validate {command}")
    assert result.returncode == 0, result.stderr
