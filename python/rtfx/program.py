"""The program `rtfx`, which the wheel brings, and runs of it."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

from rtfx.errors import Error

PROGRAM = Path(__file__).parent / "bin/rtfx.bin"


def _environment() -> dict[str, str]:
    """With the folder of the installed torch's libraries, which is not imported for that."""
    found = importlib.util.find_spec("torch")
    if found is None or not found.submodule_search_locations:
        raise Error("rtfx needs torch; pip install torch")
    folders = [str(PROGRAM.parents[1] / "lib"), str(Path(found.submodule_search_locations[0]) / "lib")]
    folders += [folder for folder in [os.environ.get("LD_LIBRARY_PATH")] if folder]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(folders), "RTFX_PYTHON": sys.executable}


def main() -> None:
    """The command `rtfx`."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and `head` closes pipes
    try:
        os.execve(PROGRAM, ["rtfx", *sys.argv[1:]], _environment())
    except (OSError, Error) as error:
        sys.exit(f"rtfx: error: {error}")


def run(config: dict[str, Any] | str | os.PathLike, output: str | os.PathLike | None = None,
        *arguments: str) -> list[dict[str, Any]]:  # fmt: skip
    """Runs `rtfx run` in a process of its own and returns the records of its journal. `config`: a file, or what would
    stand in one (paths relative to the working folder). `output`: the journal's folder; a dict's is thrown away
    without one. Raises Error with the program's text where the program fails; a grade below what is required
    (its exit code 13) is no failure: the records say it."""
    with tempfile.TemporaryDirectory() as scratch:
        if isinstance(config, dict):
            file = Path(tempfile.mkstemp(".json", "rtfx-", dir=os.getcwd())[1])
            file.write_text(json.dumps(config))
        else:
            file = Path(config)
        folder = Path(output) if output else Path(scratch) / "run"
        try:
            done = subprocess.run([PROGRAM, "run", file, "--output", folder, *arguments], env=_environment(),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="surrogateescape")  # fmt: skip
        finally:
            if isinstance(config, dict):
                file.unlink()
        if done.returncode not in (0, 13):
            raise Error(done.stderr.strip().removeprefix("rtfx: error: ") or f"exit code {done.returncode}")
        return records(folder)


def records(run: str | os.PathLike) -> list[dict[str, Any]]:
    """One flat dict for each measured round of a run's folder or journal, packed or not, with dots in the names of what is nested
    ("metrics.rtfx.total"): pandas.DataFrame(rtfx.records("runs/mine")) is a table."""
    path = Path(run)
    path = path / "journal.jsonl" if path.is_dir() else path
    if not path.exists() and path.with_name(path.name + ".gz").exists():
        path = path.with_name(path.name + ".gz")
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as text:
            lines = text.read().splitlines()
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise Error(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    return [_flat(record) for record in map(json.loads, lines) if record.get("kind") == "run"]


def _flat(record: dict[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, dict) and value:
            flat |= _flat(value, f"{before}{key}.")
        else:
            flat[before + key] = value
    return flat
