"""Reading text files and manifests line by line."""

import gzip
import json
import zlib

from user_errors import UserError


def lines_of(path):
    """Returns the lines of a UTF-8 file, plain or gzip, without their ends.

    str.splitlines() would also divide at U+2028 and the like."""
    with open(path, "rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
    try:
        with (gzip.open if is_packed else open)(path, "rt", encoding="utf-8-sig") as file:
            return [line.removesuffix("\n") for line in file]
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not in UTF-8; convert it") from None
    except (gzip.BadGzipFile, zlib.error, EOFError):
        raise UserError(f"{path}: a damaged gzip file; make it again") from None


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
