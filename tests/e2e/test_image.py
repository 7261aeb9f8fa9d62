"""Tests the Dockerfile: hadolint accepts it, and its steps run one after the other, each stage in a clean folder.
Docker itself is not used. Steps that call apt-get need root and are left out. A stand-in for `make` leaves the wheel of
`make wheel` behind. pip has no index. torch is that of the tests, and the packages of the rivals are empty ones of the
right names and versions."""

import io
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT, runs_of, strict_records
from dockerfile_parse import DockerfileParser

WHEELS = sorted((ROOT / "dist").glob("rtfx-*.whl"))
STEPS = DockerfileParser(fileobj=io.BytesIO((ROOT / "Dockerfile").read_bytes())).structure
HOME = "/rtfx"  # the working folder of every stage


def steps(*instructions):
    return [step["value"] for step in STEPS if step["instruction"] in instructions]


def test_hadolint_has_nothing_to_say():
    hadolint = Path(sys.executable).with_name("hadolint")  # installed from requirements.txt
    result = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout


def test_all_that_it_copies_is_there():
    assert set(steps("WORKDIR")) == {HOME}
    for value in steps("COPY"):
        if not value.startswith("--from"):
            assert all((ROOT / source).exists() for source in value.split()[:-1]), value


def test_what_it_leaves_out_is_what_git_ignores():
    """Docker ignores only files that git ignores. Else the build would count as changed, and its journals could not be
    verified."""

    def entries(file):
        lines = (ROOT / file).read_text().splitlines()
        return {line.removeprefix("**/").strip("/") for line in lines if line and not line.startswith("#")}

    assert entries(".dockerignore") <= entries(".gitignore")


def empty_wheel(folder, requirement):
    name, version = re.fullmatch(r"([\w.-]+)(?:\[\w+\])?==([\w.]+)", requirement).groups()
    about = f"{name.replace('-', '_')}-{version}"
    with zipfile.ZipFile(folder / f"{about}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{about}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nProvides-Extra: asr\n")
        wheel.writestr(f"{about}.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}.dist-info/RECORD", "")
    return name, version


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Runs all steps. Returns the folder of the last stage, its environment, and the names and versions of each
    rival."""
    if not WHEELS:
        pytest.skip("no wheel: `make wheel` makes it")
    pytest.importorskip("torch", reason="no torch for this Python: LIBTORCH names a folder")
    folder = tmp_path_factory.mktemp("image")
    tools, packages = folder / "tools", folder / "packages"
    tools.mkdir()
    packages.mkdir()
    stand_ins = {"python3": f'exec {sys._base_executable} "$@"', "make": f"[ $1 = wheel ] && mkdir dist && cp {WHEELS[-1]} dist/"}
    for name, script in stand_ins.items():
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)
    rivals = {}
    for file in (ROOT / "rivals").glob("*/requirements.txt"):
        lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
        rivals[file.parent.name] = [empty_wheel(packages, line) for line in lines]
    environment = {
        "PATH": f"{tools}:/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": sysconfig.get_paths()["purelib"],
        "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_FIND_LINKS": str(packages), "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }  # fmt: skip
    stages, stage = {}, None
    for step in STEPS:
        instruction, value = step["instruction"], step["value"]
        if instruction == "FROM":
            name = value.partition(" AS ")[2] or "last"
            stage = stages[name] = folder / name
            stage.mkdir()
        elif instruction == "COPY":
            copy(value, stage, stages)
        elif instruction == "ARG":
            name, default = value.split("=", 1)
            environment[name] = default.strip('"')
        elif instruction == "ENV":
            for setting in value.split():
                name, text = setting.split("=", 1)
                environment[name] = text.replace(HOME, str(stage)).replace(f"${name}", environment.get(name, ""))
        elif instruction == "RUN" and "apt-get" not in value:
            done = subprocess.run(["sh", "-c", value], cwd=stage, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, f"{value}\n{done.stdout}{done.stderr}"
    return stage, environment, rivals


def copy(value, stage, stages):
    *sources, target = value.split()
    source_folder = ROOT
    if sources[0].startswith("--from="):
        source_folder = stages[sources.pop(0).removeprefix("--from=")]
    for source in sources:
        for path in sorted(source_folder.glob(source.removeprefix(HOME + "/"))) if source != "." else []:
            place = stage / target / path.name if target.endswith("/") else stage / target
            place.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, place, ignore=shutil.ignore_patterns(".venv"))
            else:
                shutil.copy(path, place)


def test_every_rival_has_its_packages_beside_the_same_torch(image):
    folder, environment, rivals = image
    assert environment["RIVALS"].split() == sorted(rivals)
    for name, packages in rivals.items():
        code = "import importlib.metadata as m, json, sys; print(json.dumps([m.version(p) for p in sys.argv[1:]]))"
        done = subprocess.run([folder / f"rivals/{name}/.venv/bin/python", "-c", code, "torch", *(p for p, _ in packages)],
                              env={"PATH": "/usr/bin:/bin"} | {"PYTHONPATH": ""}, capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0, done.stderr
        torch, *versions = json.loads(done.stdout)
        assert versions == [version for _, version in packages] and torch.startswith("2.")


def test_the_image_measures(image):
    folder, environment, _ = image
    (entry,) = steps("ENTRYPOINT")
    (first,) = steps("CMD")

    def start(*arguments):
        command = ["/usr/bin/env", *json.loads(entry), *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)

    assert "LibTorch" in start(*json.loads(first)).stdout
    quick = [a for s in ("datasets.0.limit=1", "protocol.measured_rounds=1", "protocol.warmup_rounds=0") for a in ("--set", s)]
    done = start("run", "configs/quickstart.json", "--device", "cpu", *quick)
    assert done.returncode == 0, done.stderr
    assert len(runs_of(strict_records(folder / "runs/quickstart/journal.jsonl"))) > 5
