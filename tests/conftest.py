"""Fixtures that all Python tests share: the program (RTFX_BIN, else the release build) and small inputs."""

import contextlib
import fcntl
import importlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
from journal import read_text
from resident import Resident
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[1]
PROGRAM = Path(os.environ.get("RTFX_BIN", ROOT / "build/release/rtfx")).resolve()
AUDIO = ROOT / "datasets/quickstart"
MODELS = ROOT / "models/quickstart"
WHEELS = sorted((ROOT / "dist").glob("rtfx-*.whl"))

# Spinning threads make tests that share the machine ten times as slow. The Makefile sets this too.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# glibc returns large freed blocks to the system at once and asks for them again. An encoder frees many, and
# without these settings the kernel clears pages for a third of the processor's time.
os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(1 << 30))
os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(1 << 31))
HAS_GPU = shutil.which("nvidia-smi") and not subprocess.run(["nvidia-smi", "-L"], capture_output=True).returncode


def unpack_checkpoint(checkpoint, folder):
    """Unpacks a .nemo file. Debian 12 has Python 3.11.2, and the filter came with 3.11.4."""
    with tarfile.open(checkpoint) as archive:
        archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))


class ByFileAndModel(LoadScopeScheduling):
    """Runs the tests of a file in one worker, since they share runs of the program. Tests of the golden
    files take longest, so they are split by their model."""

    def _split_scope(self, nodeid):
        file = nodeid.partition("::")[0]
        model = re.search(r"(quickstart|standin256)-(rnnt|tdt)", nodeid)
        return f"{file} {model[0]}" if model and "golden/" in file else file


def pytest_xdist_make_scheduler(config, log):
    return ByFileAndModel(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def program():
    if not PROGRAM.is_file():
        pytest.fail(f"{PROGRAM} is missing: `make build`, or set RTFX_BIN", pytrace=False)
    return PROGRAM


@pytest.fixture(scope="session")
def resident(program):
    """Returns the program that is loaded once for all commands; None if that was not built with the program."""
    path = program.with_name("rtfx_resident")
    if not path.is_file() or path.stat().st_mtime < program.stat().st_mtime:
        yield None
        return
    resident = Resident(path)
    yield resident
    resident.close()


@pytest.fixture(scope="session")
def rtfx(program, resident):
    """rtfx("list", "--json") runs the program and returns its exit code, stdout and stderr. With
    settings of subprocess.run other than cwd, it starts a new process."""

    def run(*arguments, **settings):
        arguments = [*map(str, arguments)]
        if resident is not None and not settings.keys() - {"cwd"}:
            return resident.run(arguments, timeout=300, **settings)
        return subprocess.run(
            [program, *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            stdin=subprocess.DEVNULL,
            **settings,
        )

    return run


@pytest.fixture(scope="session")
def transcribe(rtfx):
    """transcribe(arguments, ...) runs `rtfx transcribe` with one thread. The tests share the machine, which slows down
    most those threads that wait for each other."""

    def run(*arguments, model="quickstart-rnnt", **settings):
        path = MODELS / f"{model}.nemo"
        return rtfx("transcribe", "--model", path, "--threads", 1, *arguments, **settings)

    return run


@contextlib.contextmanager
def package_from(folder):
    """Returns the Python package `rtfx` of this folder, for as long as the context lasts. A worker runs tests of the
    package of the source tree and of the wheel's, and Python would keep the one that it imported first."""

    def forget():
        return {name: sys.modules.pop(name) for name in [*sys.modules] if name.partition(".")[0] == "rtfx"}

    before = forget()
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("rtfx")
    finally:
        sys.path.remove(str(folder))
        forget()
        sys.modules.update(before)


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Returns a folder with the wheel's content, like pip would install it."""
    if not WHEELS:
        pytest.skip("no wheel: `make wheel` makes it")
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(WHEELS[-1]) as wheel:
        wheel.extractall(folder)
    (folder / "rtfx/bin/rtfx.bin").chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def rtfx_package(site):
    with package_from(site) as package:
        yield package


@pytest.fixture(scope="session")
def python_package(tmp_path_factory):
    """Returns a function that runs code with the tree's Python package and the built librtfx, and returns its
    output."""
    library = PROGRAM.with_name("librtfx.so")
    if not library.exists():
        pytest.skip("no librtfx.so: `make build` makes it")
    site = tmp_path_factory.mktemp("site")
    (site / "rtfx/lib").mkdir(parents=True)
    for path in (ROOT / "python/rtfx").glob("*.py"):
        (site / "rtfx" / path.name).symlink_to(path)
    (site / "rtfx/lib/librtfx.so").symlink_to(library)

    def run(code):
        done = subprocess.run([sys.executable, "-c", "import dataclasses, json, rtfx\n" + code], capture_output=True,
                              text=True, env={**os.environ, "PYTHONPATH": str(site)}, timeout=280)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def other_openfst(tmp_path_factory):
    """Returns a library in place of an OpenFst of another release, which some packages of Python hold."""
    if not shutil.which("g++"):
        pytest.skip("no g++")
    library = tmp_path_factory.mktemp("openfst") / "libother.so"
    source = ROOT / "tests/support/other_openfst.cpp"
    subprocess.run(["g++", "-shared", "-fPIC", source, "-o", library], check=True)
    return library


BROWSERS = ["chromium", "chromium-browser", "google-chrome", "chrome"]


@pytest.fixture(scope="module")
def browser():
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium: `scripts/setup.sh --browser` installs it on Debian")
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: `make setup`")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program)
        yield found
        found.close()


def small_config(**changes):
    """Returns a configuration of two utterances of two seconds, two decoders and one round. `changes` replace keys, and
    None removes a key."""
    config = {
        "question": "Does it work?",
        "device": "cpu",
        "threads": 1,
        "models": [str(MODELS / "quickstart-rnnt.nemo")],
        "datasets": [{"id": "two", "manifest": str(ROOT / "tests/data/two.jsonl")}],
        "decoders": ["frame_looping", "label_looping"],
        "batch_sizes": [2],
        "protocol": {"warmup_rounds": 0, "measured_rounds": 1},
    }
    return {key: value for key, value in (config | changes).items() if value is not None}


@pytest.fixture
def popen():
    """popen(command, ...) starts a process with pipes for its output. The process is ended with the test."""
    processes = []

    def begin(command, **settings):
        settings = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | settings
        processes.append(subprocess.Popen(command, **settings))
        return processes[-1]

    yield begin
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def config(tmp_path):
    """config(key=value, ...) writes a small configuration and returns its path."""

    def write(**changes):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(small_config(**changes)))
        return path

    return write


@pytest.fixture
def run_config(rtfx, config, tmp_path):
    """Runs a small configuration into tmp_path/run."""

    def run(*arguments, settings=None, **changes):
        path = config(**changes)
        return rtfx("run", path, "--output", tmp_path / "run", *arguments, **(settings or {}))

    return run


def strict_records(journal):
    """Returns every line of a journal as strict JSON. A torn line, NaN or Infinity is an error."""

    def refuse(constant):
        raise AssertionError(f"{constant} in {journal}")

    text = read_text(journal)
    assert text.endswith("\n")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def is_locked(journal):
    """Says whether a process of rtfx has locked the journal."""
    with journal.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def wait_until(process, condition, seconds=120):
    """Waits until condition() is true. The test fails if the process ends before, or after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None and not condition():  # it may have become true just before the end
            pytest.fail(f"the process ended with {process.returncode} before: {process.communicate()[1]}")
        if time.monotonic() > deadline:
            pytest.fail(f"waited in vain for {seconds} s")
        time.sleep(0.01)


def rounds_in(journal):
    """Returns the number of run records in a journal, which need not exist yet."""
    return journal.read_text().count('"kind":"run"') if journal.exists() else 0


def descriptors(process):
    """Returns what the open descriptors of a process are, such as paths of files. Others may be closed meanwhile."""
    links = []
    for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            links.append(os.readlink(descriptor))
    return links


def free_port():
    """Returns a free TCP port as text, so that runs of several checkouts at once do not meet."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def runs_of(records):
    return [record for record in records if record["kind"] == "run"]
