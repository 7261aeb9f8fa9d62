"""Helpers for every script: arguments, errors in one line, and escaping of text.

Ids, texts, names of models and decoders, paths and messages come from journals that anyone may have
written. They must be escaped for terminals, drawings, Markdown and LaTeX.
"""

import argparse
import contextlib
import errno
import itertools
import json
import math
import os
import re
import shutil
import sys
import textwrap
import uuid
from pathlib import Path

# Control characters, ends of lines, and characters that change the direction of text.
OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}

LATEX = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "–": "--",
    "±": r"$\pm$",
} | {character: "\\" + character for character in "&%$#_{}"}


def visible(match):
    character = match[0]
    code = ord(character)
    return SHORT.get(character) or (f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}")


def printable(text):
    """Returns the text on one line, without characters that a terminal obeys (like base/printable.h)."""
    return OBEYED.sub(visible, str(text))


def printable_json(value):
    """Returns the JSON value with printable() applied to every text."""
    if isinstance(value, dict):
        return {printable(key): printable_json(member) for key, member in value.items()}
    if isinstance(value, list):
        return [printable_json(element) for element in value]
    return printable(value) if isinstance(value, str) else value


def markdown(text):
    """Escapes text for a table cell or running text of a Markdown page.

    Characters that cannot be markup there, such as an underscore within a name, stay as they are."""
    text = re.sub(r"[\\`*|$]", r"\\\g<0>", printable(text))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)
    return text.replace("](", r"]\(").replace("~~", r"\~\~")


def markdown_row(texts):
    """Returns a row of a Markdown table from texts that are not escaped yet."""
    return f"| {' | '.join(map(markdown, texts))} |"


def decimals_of(mean):
    """Returns the decimals of a mean, as harness/results/table.cpp has them. Below 1, two digits are significant."""
    return 0 if mean >= 100 else 1 if mean >= 1 or mean <= 0 else 1 - math.floor(math.log10(mean))


def decimal(value, digits):
    """Returns a number for a table, or a dash for None."""
    return "–" if value is None else f"{value:.{digits}f}"


def latex(text):
    """Escapes text for a LaTeX table cell, heading or comment."""
    return "".join(LATEX.get(character, character) for character in printable(text))


def file_of(*kinds):
    """Returns a type for argparse: a path with one of these extensions."""

    def read(text):
        if Path(text).suffix.lower().removeprefix(".") not in kinds:
            names = " or ".join(f"file.{kind}" for kind in kinds)
            raise argparse.ArgumentTypeError(f"{printable(text)}: give {names}")
        return Path(text)

    return read


figure_file = file_of("svg", "pdf", "png")


def write_whole(path, write):
    """Calls `write(part)` for a new file beside `path`, and moves that file to `path`.

    So `path` is written whole or not at all, also if the disk is full. Errors name `path`. A link stays, and the file that it
    points to is replaced, as write_file() of base/files.h does."""
    to = Path(path).resolve()
    part = to.with_name(f".rtfx.{uuid.uuid4().hex}{to.suffix}")
    try:
        if to.exists() and not to.is_file():
            raise OSError(errno.EINVAL, "is no file that can be written as a whole")
        write(part)
        part.replace(to)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def write_text(path, text):
    """Writes a file of text whole or not at all."""
    write_whole(path, lambda part: part.write_text(text, encoding="utf-8"))


def inches(text):
    value = float(text)
    if not 1 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text}: give 1 to 100 inches")
    return value


def counted(number, noun):
    """Returns "1 thread" or "8 threads"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def terminal_width():
    """Returns the columns of the terminal, or 100 where the output goes elsewhere."""
    return shutil.get_terminal_size((100, 24)).columns


def terminal_table(head, rows, right=(), width=None):
    """Yields the lines of a table for a terminal, which is `width` columns wide.

    `right` has the indices of columns that are aligned to the right. If the table is too wide, texts in the widest of
    the other columns are wrapped between words."""
    rows = [[printable(text) for text in row] for row in [head, *rows]]
    widths = [max(map(len, column)) for column in zip(*rows)]
    least = [max(len(word) for text in column for word in text.split() or [""]) for column in zip(*rows)]
    most = (width or terminal_width()) - 2 * (len(widths) - 1)
    texts = [i for i in range(len(widths)) if i not in right]
    while sum(widths) > most and (wide := [i for i in texts if widths[i] > least[i]]):
        widths[max(wide, key=lambda i: widths[i])] -= 1
    for number, row in enumerate(rows):
        cells = [textwrap.wrap(text, w, break_long_words=False, break_on_hyphens=False) or [""]
                 for text, w in zip(row, widths)]  # fmt: skip
        for line in itertools.zip_longest(*cells, fillvalue=""):
            texts_of_line = (f"{t:>{w}}" if i in right else f"{t:<{w}}" for i, (t, w) in enumerate(zip(line, widths)))
            yield "  ".join(texts_of_line).rstrip()
        if number == 0:
            yield "  ".join("-" * w for w in widths)


def breakable(name):
    """Returns a name that may break after an underscore or a slash."""
    import markupsafe  # the page of a run and the dashboard alone need it

    name = markupsafe.escape(name)
    for sign in "_/":
        name = name.replace(sign, markupsafe.Markup(f"{sign}<wbr>"))
    return name


USAGE_ERROR = 2  # argparse's exit status, after it has printed its line


def run_script(work):
    """Calls `work()` and turns errors with files into one line.

    rtfx gives the exit status of these lines (RTFX_ERROR_STATUS), so that it does not explain them again. A locale
    without a character gets it escaped, such as \\xfc."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # pytest's has none
            stream.reconfigure(errors="backslashreplace")
    try:
        _work_with_lines(work)
    except SystemExit as error:
        status = os.environ.get("RTFX_ERROR_STATUS")
        has_line = isinstance(error.code, str)
        if status is None or not (has_line or error.code == USAGE_ERROR):
            raise
        if has_line:
            print(error.code, file=sys.stderr)
        raise SystemExit(int(status)) from None


# Bad input raises these errors where a script looks for fields that are not there.
UNEXPECTED = (KeyError, TypeError, AttributeError, IndexError, ValueError, ZeroDivisionError)


def _work_with_lines(work):
    try:
        work()
    except OSError as error:
        place = printable(error.filename) if error.filename else "file"
        raise SystemExit(f"{place}: {error.strerror}") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise SystemExit(f"not a file of rtfx: {printable(error)}") from None
    except UNEXPECTED as error:
        raise SystemExit(f"not what `rtfx` writes: {type(error).__name__} {printable(error)}") from None


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors take one line."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")
