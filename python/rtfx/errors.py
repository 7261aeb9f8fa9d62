"""The exceptions of rtfx."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from rtfx.results import Transcription


class Error(RuntimeError):
    """An error of rtfx."""


class InputError(Error, ValueError):
    """Bad input, such as a file, a value or an option. The message has the form "where: problem; remedy"."""


class RunError(Error):
    """Some cases of `rtfx.run()` failed. `records` has those of the other cases."""

    def __init__(self, message: str, records: list[dict[str, Any]]):
        super().__init__(message, records)  # the arguments from which a copy is made
        self.records = records

    def __str__(self) -> str:
        return self.args[0]


class TranscriptionError(Error):
    """Some clips of `Model.transcribe()` have no result. `results` has None for these, and the transcription of each
    other clip. `failures` maps the index of each failed clip to its message."""

    def __init__(self, results: list[Transcription | None], failures: dict[int, str]):
        super().__init__(results, failures)  # the arguments from which a copy is made
        self.results = results
        self.failures = failures

    def __str__(self) -> str:
        first = next(iter(self.failures.values()))
        if len(self.failures) == 1:
            return first
        return f"{first} (and {len(self.failures) - 1} others of {len(self.results)} clips; see `failures`)"


class TranscriptionInputError(TranscriptionError, InputError):
    """A TranscriptionError whose failures are all bad input."""
