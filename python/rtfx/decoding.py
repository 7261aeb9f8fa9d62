"""Decoders of encoder frames."""

from __future__ import annotations

import copy
import ctypes
import functools
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from rtfx import library
from rtfx.results import Hypothesis
from rtfx.streaming import FrameStreams
from rtfx.together import Together
from rtfx.views import HypothesisView, integers


class Hypotheses(library.Handle, Sequence):
    """The results of a batch. It is also a sequence with a Hypothesis for each row, for which it waits for the
    device once. Reading a row for which the network returned NaN raises an Error."""

    _instead = "hand over list(hypotheses)"

    def __init__(self, handle: int, together: Together):
        self._handle = handle
        self._together = together
        library.free_with(self, "result")

    @functools.cached_property
    def _rows(self) -> list[Hypothesis | library.Error]:
        """The rows, and an error in the place of each row that has none."""
        found: list[Hypothesis | library.Error] = []
        rows = ctypes.POINTER(HypothesisView)()
        with self._together.turn:
            for i in range(library.call("result_rows", self._handle, rows)):
                try:
                    found.append(rows[i].value(f"row {i}"))
                except library.Error as error:
                    found.append(error)
        return found

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index):
        rows = self._rows[index]
        return [_readable(row) for row in rows] if isinstance(index, slice) else _readable(rows)

    def __iter__(self) -> Iterator[Hypothesis]:
        return map(_readable, self._rows)

    @property
    def texts(self) -> list[str]:
        return [row.text for row in self]

    # These tensors are on the device where the search made them. Elements at or beyond a row's length are undefined.
    @functools.cached_property
    def lengths(self) -> torch.Tensor:
        """[B] int32"""
        return library.result_tensor(self._handle, "lengths")

    @functools.cached_property
    def tokens(self) -> torch.Tensor:
        """[B, capacity] int32"""
        return library.result_tensor(self._handle, "tokens")

    @functools.cached_property
    def frames(self) -> torch.Tensor:
        """[B, capacity] int32: the encoder frame of each token"""
        return library.result_tensor(self._handle, "frames")

    @functools.cached_property
    def durations(self) -> torch.Tensor | None:
        """[B, capacity] int32, in frames; None except for TDT"""
        return library.result_tensor(self._handle, "durations")

    @functools.cached_property
    def scores(self) -> torch.Tensor:
        """[B] float32"""
        return library.result_tensor(self._handle, "scores")


class Decoder(library.Handle):
    """Searches encoder frames. All threads that use one model take turns, also for its decoders."""

    def __init__(self, name: str | None, model: library.Handle, options: dict[str, Any]):
        self._model = model  # keeps the model alive for the handle below
        text = _json_of(options)
        self._together = model._together
        with self._together.turn:
            self._handle = library.call("decoder_new", model._handle, library.text(name or "", "decoder"), text.encode())
        library.free_with(self, "decoder")
        about = library.call_json("decoder_json", self._handle)
        self.name: str = about["name"]
        self.options: dict[str, Any] = about["options"]  # all options, with their defaults
        self.score_kind: str = about["score_kind"]

    def __repr__(self) -> str:
        return f"<rtfx.Decoder {self.name} of {self._model!r}>"

    def __call__(self, frames: torch.Tensor, lengths: torch.Tensor | Sequence[int]) -> Hypotheses:
        """Decodes frames [B, T, D] in the model's dtype on its device. Contiguous frames are not copied. Row b has
        lengths[b] of them. Lengths on a GPU are copied to the host. Runs on the current stream."""
        counts = lengths.tolist() if hasattr(lengths, "tolist") else list(lengths)
        given = integers(counts, "lengths")
        with self._together.turn:
            handle = library.call("decode", self._handle, library.pointer_of(frames), given, len(counts))
        return Hypotheses(handle, self._together)

    def streams(self, batch_size: int = 1, max_frames: int = 16) -> FrameStreams:
        """Returns streams for any number of utterances whose encoder frames come in pieces. They are searched in
        batches of always `batch_size` rows of `max_frames` frames. A longer piece is split into several steps, and a
        shorter one is padded."""
        sizes = integers([batch_size, max_frames], "batch_size and max_frames")
        with self._together.turn:
            return FrameStreams(self, library.call("streams_of_frames", self._handle, *sizes))

    @property
    def counters(self) -> dict[str, int]:
        """The work of the last call: joint_calls, host_reads, graph_launches, ..."""
        with self._together.turn:
            return library.call_json("decoder_json", self._handle)["counters"]


def _readable(row: Hypothesis | library.Error) -> Hypothesis:
    if isinstance(row, library.Error):
        raise copy.copy(row)  # each reader adds its own traceback
    return row


def _json_of(options: dict[str, Any]) -> str:
    try:
        return json.dumps(options, default=_plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise library.InputError(f"options: {error}; give values that JSON has") from None


def _plain(value: Any) -> Any:
    """Converts an option that JSON does not know. Numbers and arrays of numpy and torch become Python's own, and paths
    become texts."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{value!r} is of type {type(value).__name__}")
