"""Runs Python scripts of the project like a user does, but in forks of this process. It has imported Matplotlib, which
takes a second of CPU time."""

import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import matplotlib.pyplot  # noqa: F401

ROOT = Path(__file__).parents[2]


def run(path, arguments):
    """Runs the script like `python path arguments...`, and ends this process."""
    code = 1
    try:
        sys.argv = [str(path), *map(str, arguments)]
        sys.path.insert(0, str(path.parent))
        runpy.run_path(str(path), run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def script(path, *arguments, stdin="", **environment):
    """Runs a script, such as script("plots/boost.py", run, "-o", file), and returns a result like subprocess.run().

    The path is relative to the project's folder."""
    path = ROOT / path
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
        for file in files:
            file.write_text(stdin if file.name == "stdin" else "", encoding="utf-8")
        child = os.fork()
        if child == 0:
            os.environ.update(environment)
            for number, file in enumerate(files):
                os.dup2(os.open(file, os.O_RDWR), number)
            sys.stdin = open(0, closefd=False)
            sys.stdout, sys.stderr = (open(n, "w", closefd=False) for n in (1, 2))
            run(path, arguments)
        _, status = os.waitpid(child, 0)
        said = [file.read_text(encoding="utf-8") for file in files[1:]]
    return subprocess.CompletedProcess([path, *arguments], os.waitstatus_to_exitcode(status), *said)
