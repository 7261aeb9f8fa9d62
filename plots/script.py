"""What the scripts share as programs: arguments, and one line for whatever goes wrong."""

import argparse
import json
from pathlib import Path

from escape import printable


def file_of(*kinds):
    """For argparse: a path with one of these extensions."""

    def read(text):
        if Path(text).suffix.lower().removeprefix(".") not in kinds:
            names = " or ".join(f"file.{kind}" for kind in kinds)
            raise argparse.ArgumentTypeError(f"{printable(text)}: give {names}")
        return Path(text)

    return read


figure_file = file_of("svg", "pdf", "png")


def inches(text):
    value = float(text)
    if not 1 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text}: give 1 to 100 inches")
    return value


def run_script(work):
    """`work()`, whose troubles with files become one line."""
    try:
        work()
    except OSError as error:
        place = printable(error.filename) if error.filename else "file"
        raise SystemExit(f"{place}: {error.strerror}") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise SystemExit(f"not a file of rtfx: {printable(error)}") from None
    except (KeyError, TypeError) as error:
        raise SystemExit(f"not what `rtfx` writes: {type(error).__name__} {printable(error)}") from None


class OneLineParser(argparse.ArgumentParser):
    """Complains in one line."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")
