"""The program `rtfx`, which is part of the wheel, and its runs."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rtfx.errors import Error, InputError, RunError

PROGRAM = Path(__file__).parent / "bin/rtfx.bin"
# Exit codes of `rtfx run`.
CASES_FAILED, BAD_INPUT, GRADE_TOO_LOW = 1, 2, 13


def _environment() -> dict[str, str]:
    """Returns the environment of the program. Scripts and decoders in Python get this Python, unless RTFX_PYTHON names
    one.

    The program's own rpath names the libraries of the wheel, and of a torch in the same folder as the package. It
    finds a torch elsewhere by LD_LIBRARY_PATH. The wheel's libraries are never in LD_LIBRARY_PATH, because ffmpeg
    and other programs that rtfx starts would load them instead of the system's. Torch is not imported for this,
    because that would take seconds."""
    found = importlib.util.find_spec("torch")
    if found is None or not found.submodule_search_locations:
        raise Error("rtfx needs torch; pip install torch")
    environment = {**os.environ, "RTFX_PYTHON": os.environ.get("RTFX_PYTHON") or sys.executable}
    site = Path(found.submodule_search_locations[0]).parent
    if not site.samefile(PROGRAM.parents[2]):
        folders = [str(site / "torch/lib"), str(site / "nvidia/cu13/lib"), os.environ.get("LD_LIBRARY_PATH")]
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
    return environment


def main() -> None:
    """Runs the command `rtfx`."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and `head` closes pipes
    try:
        os.execve(PROGRAM, ["rtfx", *sys.argv[1:]], _environment())
    except (OSError, Error) as error:
        sys.exit(f"rtfx: error: {error}")


def run(config: dict[str, Any] | str | os.PathLike, output: str | os.PathLike | None = None,
        *arguments: str) -> list[dict[str, Any]]:  # fmt: skip
    """Runs `rtfx run` in a process of its own and returns the records of its journal.

    `config` is a file, or the content of one (its paths are relative to the working folder). `output` is the folder of
    the journal. Without it, the journal is deleted after it was read. Bad input raises InputError with the program's
    text. If some cases failed, RunError is raised with the records of the others. A grade below the required one (exit
    code 13) is no failure: the records have the grade."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(output) if output else Path(scratch) / "run"
        with _config_file(config, folder) as file:
            done = subprocess.run([PROGRAM, "run", file, "--output", folder, *arguments], env=_environment(),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="surrogateescape")  # fmt: skip
        message = done.stderr.strip().removeprefix("rtfx: error: ") or f"exit code {done.returncode}"
        if done.returncode == CASES_FAILED and (folder / "journal.jsonl").exists():
            raise RunError(message, records(folder))
        if done.returncode not in (0, GRADE_TOO_LOW):
            raise (InputError if done.returncode == BAD_INPUT else Error)(message)
        return records(folder)


@contextlib.contextmanager
def _config_file(config: dict[str, Any] | str | os.PathLike, output: Path) -> Iterator[Path]:
    """Yields the file of a configuration. A dict is written into the working folder, to which its paths are
    relative. If it has no name, it gets the name of the output's folder. Otherwise the program would use the name of
    the file, which differs each time."""
    if not isinstance(config, dict):
        try:
            file = Path(config)
        except TypeError:
            raise InputError(f"config: {config!r}; give a file or a dict") from None
        yield file
        return
    try:
        text = json.dumps({"name": output.resolve().name, **config})
    except (TypeError, ValueError) as error:
        raise InputError(f"config: {error}; give values that JSON has") from None
    handle, name = tempfile.mkstemp(".json", "rtfx-", dir=os.getcwd())
    try:
        with os.fdopen(handle, "w") as out:
            out.write(text)
        yield Path(name)
    finally:
        os.unlink(name)


def records(run: str | os.PathLike) -> list[dict[str, Any]]:
    """Returns one flat dict for each round of a run's folder or journal, packed or not. Dots join nested names
    ("metrics.rtfx.total"), so that pandas.DataFrame(rtfx.records("runs/mine")) is a table. The rounds are those that
    `rtfx summary` counts. Of each case, these are the rounds under its newest `result_key`, and none if its last record
    is a failure. A round that was measured again after a failure replaces the earlier one, and a repeated line counts
    once. An incomplete last line, left by an interrupted run, is ignored."""
    path = Path(run)
    path = path / "journal.jsonl" if path.is_dir() else path
    if not path.exists() and path.with_name(path.name + ".gz").exists():
        path = path.with_name(path.name + ".gz")
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as data:
            *lines, torn = data.read().split(b"\n")
    except (OSError, EOFError, zlib.error) as error:
        raise Error(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    found: dict[str, dict[int, dict[str, Any]]] = {}  # the rounds of each case, by their line
    failed: set[str] = set()  # cases whose last record is a failure
    for number, line in enumerate([*lines, torn], 1):
        try:
            record = json.loads(line.decode("utf-8")) if line.strip() else {}
        except ValueError as error:  # of JSON, or of a line that ends within a character
            if number > len(lines):
                break
            raise Error(f"{path}:{number}: is no JSON ({error}); restore the journal") from None
        if not isinstance(record, dict):
            raise Error(f"{path}:{number}: is no JSON object; restore the journal")
        case = record.get("case")
        if record.get("kind") == "failure":
            failed.add(case)
        if record.get("kind") == "run":
            key, of = record.get("result_key"), record.get("round")
            rounds = {line: one for line, one in found.get(case, {}).items()
                      if one.get("result_key") == key and not (case in failed and one.get("round") == of)}  # fmt: skip
            failed.discard(case)
            if record not in rounds.values():
                rounds[number] = record
            found[case] = rounds
    counted = {line: one for case, rounds in found.items() if case not in failed for line, one in rounds.items()}
    return [_flat(counted[line]) for line in sorted(counted)]


def _flat(record: dict[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, dict) and value:
            flat |= _flat(value, f"{before}{key}.")
        else:
            flat[before + key] = value
    return flat
