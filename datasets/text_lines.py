"""Reading text files and manifests line by line."""

import codecs
import gzip
import json
import zlib
from pathlib import Path

from user_errors import UserError


def lines_of(path):
    """Returns the lines of a UTF-8 file or pipe, plain or gzip, without their ends.

    str.splitlines() would also divide at U+2028 and the like."""
    data = Path(path).read_bytes()  # once, since a pipe gives its bytes only once
    try:
        data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    except (gzip.BadGzipFile, zlib.error, EOFError):
        raise UserError(f"{path}: a damaged gzip file; make it again") from None
    lines = data.removeprefix(codecs.BOM_UTF8).removesuffix(b"\n").split(b"\n") if data else []
    return [_decoded(f"{path}:{number}", line.removesuffix(b"\r")) for number, line in enumerate(lines, 1)]


def _decoded(place, line):
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{place}: is not in UTF-8; convert the file") from None


def objects_of(path):
    """Yields (place, object) of each line of JSON that is not blank. The place is "PATH:NUMBER"."""
    for number, line in enumerate(lines_of(path), 1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            value = json.loads(line)
        except ValueError as error:
            raise UserError(f"{place}: {error}; give JSON lines") from None
        if not isinstance(value, dict):
            raise UserError(f"{place}: is no JSON object; give lines of a manifest")
        yield place, value


def text_of(place, line, key):
    """Returns the text that a manifest's line has under `key`; "" where it has none."""
    text = line.get(key)
    if text is not None and not isinstance(text, str):
        raise UserError(f"{place}: {key} is no text; give one in quotes")
    return text or ""


def audio_of(place, line):
    """Returns the path that a manifest's line has."""
    if not (path := text_of(place, line, "audio_filepath")):
        raise UserError(f"{place}: has no audio_filepath; give one")
    return path
