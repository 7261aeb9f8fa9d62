"""Decoders of encoder frames, and what they find."""

from __future__ import annotations

import functools
import json
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from rtfx import library

if TYPE_CHECKING:
    from rtfx.models import Model
    from rtfx.streaming import FrameStreams


@dataclass(frozen=True)
class Hypothesis:
    """One text. `frames[i]` is the encoder frame of `tokens[i]`; `durations`, in frames, are TDT's. `nbest` begins
    with the hypothesis itself, where the decoder was asked for a list."""

    text: str
    tokens: list[int]
    frames: list[int]
    score: float
    durations: list[int] = field(default_factory=list)
    nbest: list[Hypothesis] = field(default_factory=list)


def hypothesis_of(row: dict[str, Any]) -> Hypothesis:
    """The hypothesis in the library's JSON."""
    return Hypothesis(**{**row, "nbest": [hypothesis_of(entry) for entry in row.get("nbest", [])]})


class Hypotheses(Sequence):
    """The results of a batch. As a sequence: a Hypothesis for each row, which waits for the device once."""

    def __init__(self, handle: int):
        self._handle = handle
        weakref.finalize(self, library.free, "result", handle)

    @functools.cached_property
    def _rows(self) -> list[Hypothesis]:
        rows = library.call_json("result_json", self._handle)
        for i, row in enumerate(rows):
            if row is None:
                raise library.Error(f"row {i}: NaN in the emissions; try dtype fp32")
        return [hypothesis_of(row) for row in rows]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index):
        return self._rows[index]

    def __iter__(self) -> Iterator[Hypothesis]:
        return iter(self._rows)

    @property
    def texts(self) -> list[str]:
        return [row.text for row in self._rows]

    # Tensors where the search made them; slots at or beyond a row's length are undefined.
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
        """[B, capacity] int32, in frames; None but for TDT"""
        return library.result_tensor(self._handle, "durations")

    @functools.cached_property
    def scores(self) -> torch.Tensor:
        """[B] float32"""
        return library.result_tensor(self._handle, "scores")


def decoder(name: str | None, model: Model, **options: Any) -> Decoder:
    """A decoder of `rtfx list` for a model, with its options as keywords; nested ones as dicts
    (`lm={"path": "lm.arpa", "alpha": 0.3}`, `boost={"phrases": ["new york"], "scale": 3}`)."""
    return Decoder(name, model, options)


class Decoder:
    """Searches encoder frames. Not for several threads at once."""

    def __init__(self, name: str | None, model: Model, options: dict[str, Any]):
        self._model = model  # the handle below needs it
        text = json.dumps(options, default=str)
        self._handle = library.call("decoder_new", model._handle, (name or "").encode(), text.encode())
        weakref.finalize(self, library.free, "decoder", self._handle)
        about = library.call_json("decoder_json", self._handle)
        self.name: str = about["name"]
        self.options: dict[str, Any] = about["options"]  # all, resolved
        self.score_kind: str = about["score_kind"]

    def __repr__(self) -> str:
        return f"<rtfx.Decoder {self.name} of {self._model!r}>"

    def __call__(self, frames: torch.Tensor, lengths: torch.Tensor | Sequence[int]) -> Hypotheses:
        """frames [B, T, D] in the model's dtype on its device, taken without a copy if they are contiguous, of which
        lengths[b] count in row b (on a GPU, lengths there are read by the host). On the current stream."""
        counts = [int(n) for n in (lengths.tolist() if isinstance(lengths, torch.Tensor) else lengths)]
        handle = library.call("decode", self._handle, library.pointer_of(frames), library.integers(counts), len(counts))
        return Hypotheses(handle)

    def streams(self, batch_size: int = 1, max_frames: int = 16) -> FrameStreams:
        """Utterances whose encoder frames come in pieces, any number of them, searched in batches of always
        `batch_size` rows of `max_frames` frames: more are cut, less are padded."""
        from rtfx.streaming import FrameStreams

        return FrameStreams(self, library.call("streams_of_frames", self._handle, batch_size, max_frames))

    @property
    def counters(self) -> dict[str, int]:
        """Work of the last call: joint_calls, host_reads, graph_launches, ..."""
        return library.call_json("decoder_json", self._handle)["counters"]
