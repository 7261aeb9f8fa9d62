"""Audio in pieces: live speech, or encoder frames."""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, Union

import torch

from rtfx import library
from rtfx.results import DecodedAgain, Hypothesis, Partial, Transcription, Utterance
from rtfx.views import (
    DecodedAgainView,
    EndpointRulesView,
    HypothesisView,
    PartialView,
    UtteranceView,
    encoded,
    integers,
    listed,
)

Samples = Union[torch.Tensor, Sequence[float]]  # or a numpy array
Phrase = Union[str, dict[str, Any]]  # "new york", {"phrase": "kubernetes", "weight": 2}
Piece = TypeVar("Piece")
Result = TypeVar("Result")


class Stream(library.Handle, Generic[Piece, Result]):
    """One stream, which is open until finish(), close() or the garbage collector ends it. It is one utterance, unless it
    has rules (Model.streams()) that end utterances earlier."""

    def __init__(self, streams: Streams[Piece, Result], number: int):
        self._streams = streams
        self.number = number
        self._ended: list[Utterance | library.Error] = []  # utterances that no result holds yet, or errors in their places
        self._last: tuple[Hypothesis, list[DecodedAgain]] | None = None  # what finish() has found, until it returns it
        # The collector may run on any thread and during a call. The next call then closes the stream.
        self._left = weakref.finalize(self, streams._left.append, number)
        self._left.atexit = False

    def __repr__(self) -> str:
        return f"<rtfx.Stream {self.number} of {self._streams!r}>"

    def push(self, piece: Piece) -> Partial:
        """Pushes the next piece of this stream alone; see Streams.push()."""
        return self._streams.push({self: piece})[self]

    def finish(self) -> Result:
        """Returns the last result and closes the stream; see Streams.finish()."""
        return self._streams.finish(self)

    def close(self) -> None:
        """Forgets the stream. Does nothing after finish()."""
        if self._left.detach():
            with self._streams._together.turn:
                library.call("streams_close", self._streams._handle, self.number)

    def _keep(self, views: Sequence[UtteranceView]) -> None:
        self._ended += [view.value(f"stream {self.number}") for view in views]

    def _utterances(self) -> list[Utterance]:
        """Returns the utterances that no result holds yet. If a NaN reached one of them, forgets this one and raises its
        error."""
        for one in self._ended:
            if isinstance(one, library.Error):
                self._ended.remove(one)
                raise one
        return self._ended


class Streams(library.Handle, Generic[Piece, Result]):
    """Many streams, each with a state of its own on the model's device. Results do not depend on how a stream is divided
    into pieces. Without `fewer_rows`, they do not depend on other streams either. Pieces that several threads push
    during another call are computed together."""

    def __init__(self, decoder: library.Handle, handle: int):
        self.decoder = decoder
        self._handle = handle
        self._together = decoder._together  # shared by all of the model
        self._left: list[int] = []  # open streams without an owner
        library.free_with(self, "streams")

    def __repr__(self) -> str:
        return f"<rtfx.{type(self).__name__} of {self.decoder!r}>"

    def open(self, boost: Phrase | Sequence[Phrase] = (), allowed: str | Sequence[str] | None = None) -> Stream[Piece, Result]:
        """Opens a stream. `boost` has phrases for all utterances of this stream, in addition to those of the decoder's
        option `boost`, whose other settings hold for them. `allowed` has scripts ("latin"), ranges and characters. It
        replaces the decoder's, and an empty list allows all."""
        asked = {"boost": boost or None, "allowed": allowed}
        request = json.dumps({name: value for name, value in asked.items() if value is not None}, default=list)
        with self._together.turn:
            self._close_left()
            return Stream(self, library.call("streams_open", self._handle, request.encode()))

    def push(self, pieces: Mapping[Stream[Piece, Result], Piece]) -> dict[Stream[Piece, Result], Partial]:
        """Pushes the next piece of each of these streams, which are computed together. Returns the text so far of
        each, and its utterances that have ended since its last push. Waits for the device. If it raises InputError, no
        piece was taken. After another error, such as one of memory, the streams may lack audio and should be closed.
        The utterances that it would have returned come with the next result of their stream."""
        for stream in pieces:
            self._own(stream)
        if not pieces:
            return {}
        return self._together.call(("push", id(self)), dict(pieces), self._push_all, owned=frozenset(pieces))

    def _push_all(self, requests: list[dict[Stream[Piece, Result], Piece]]) -> list[dict | library.Error]:
        """Pushes the pieces of several callers in one call. A caller whose stream has no result gets an error."""
        self._close_left()
        streams = [stream for pieces in requests for stream in pieces]
        numbers = integers([stream.number for stream in streams], "streams")
        partials = (PartialView * len(streams))()
        self._push(numbers, [piece for pieces in requests for piece in pieces.values()], partials)
        partial_of = dict(zip(streams, partials, strict=True))
        for stream, partial in partial_of.items():
            stream._keep(partial.ended[: partial.ended_count])
        results: list[dict | library.Error] = []
        for pieces in requests:
            try:
                found = {stream: partial_of[stream].value(f"stream {stream.number}", stream._utterances())
                         for stream in pieces}  # fmt: skip
            except library.Error as error:  # a NaN affects this caller alone
                results.append(error)
                continue
            for stream in found:
                stream._ended = []
            results.append(found)
        return results

    def finish(self, stream: Stream[Piece, Result]) -> Result:
        """Returns the last utterance of the stream and closes it. Waits for the device. If a NaN reached an utterance,
        raises its error, and the next call returns the others. A last utterance with a NaN is then empty."""
        self._own(stream)
        with self._together.turn:
            self._close_left()
            if stream._last is None:
                stream._last = self._finish(stream)
            ended = stream._utterances()
            last, stream._last = stream._last, None
            return self._result(*last, ended)

    def _finish(self, stream: Stream[Piece, Result]) -> tuple[Hypothesis, list[DecodedAgain]]:
        found, parts, count = HypothesisView(), ctypes.POINTER(DecodedAgainView)(), ctypes.c_int64()
        ended, ended_count = ctypes.POINTER(UtteranceView)(), ctypes.c_int64()
        library.call("streams_finish", self._handle, stream.number, found, ctypes.byref(parts), ctypes.byref(count),
                     ctypes.byref(ended), ctypes.byref(ended_count))  # fmt: skip
        stream._left.detach()
        stream._keep(ended[: ended_count.value])
        decoded_again = [parts[i].value() for i in range(count.value)]
        try:
            return found.value(f"stream {stream.number}"), decoded_again
        except library.Error as error:
            stream._ended.append(error)
            return Hypothesis(text="", tokens=[], frames=[], score=math.nan), decoded_again

    def _own(self, stream: Stream[Piece, Result]) -> None:
        if not isinstance(stream, Stream) or stream._streams is not self:
            raise library.InputError(f"stream: {stream!r} is none of these; open() gives them")

    def _close_left(self) -> None:
        while self._left:
            with contextlib.suppress(library.Error):  # this one could not be finished either
                library.call("streams_close", self._handle, self._left.pop())

    def _push(self, numbers: ctypes.Array, pieces: list[Piece], partials: ctypes.Array[PartialView]) -> None:
        raise NotImplementedError

    def _result(self, hypothesis: Hypothesis, decoded_again: list[DecodedAgain], ended: list[Utterance]) -> Result:
        raise NotImplementedError


class SpeechStreams(Streams[Samples, Transcription]):
    """Streams of samples (`Model.streams()`). Pieces are [n] floats of any length, also 0, mono at the model's rate.
    Tokens come chunk by chunk. A chunk needs `chunk_seconds` of audio and the `look_ahead_seconds` after it."""

    def __init__(self, model: library.Handle, decoder: library.Handle, max_streams: int, batch_size: int,
                 buffer: Sequence[float] | None, decode_again: float, fewer_rows: Sequence[int],
                 rules: EndpointRulesView, sample_rate: int,
                 transcription: Callable[[Hypothesis, list[DecodedAgain], list[Utterance]], Transcription]):  # fmt: skip
        seconds = None if buffer is None else [
            library.number(one, "buffer") for one in listed(buffer, "buffer", "numbers")
        ]  # fmt: skip
        if seconds is not None and len(seconds) != 3:
            raise library.InputError(f"buffer: {len(seconds)} numbers; give chunk, left and right context in seconds")
        sizes = integers([max_streams, batch_size], "max_streams and batch_size")
        fewer_rows = listed(fewer_rows, "fewer_rows", "integers")
        fewer = integers(fewer_rows, "fewer_rows")
        cut = None if seconds is None else (ctypes.c_double * 3)(*seconds)
        with decoder._together.turn:
            super().__init__(decoder, library.call("streams_of_speech", model._handle, decoder._handle, *sizes, fewer,
                                                   len(fewer_rows), cut, decode_again, rules))  # fmt: skip
            about = library.call_json("streams_json", self._handle)
        self._transcription = transcription
        self.chunk_seconds: float = about["chunk_samples"] / sample_rate
        self.look_ahead_seconds: float = about["look_ahead_samples"] / sample_rate
        self.notices: list[str] = about["notices"]  # why buffers replace the model's caches

    def _push(self, numbers: ctypes.Array, pieces: list[Samples], partials: ctypes.Array[PartialView]) -> None:
        clips = [library.samples_of(piece) for piece in pieces]
        pointers = (ctypes.c_void_p * len(clips))(*(clip.data_ptr() for clip in clips))
        counts = integers([len(clip) for clip in clips], "samples")
        library.call("streams_push", self._handle, numbers, pointers, counts, len(clips), partials)

    def _result(self, hypothesis: Hypothesis, decoded_again: list[DecodedAgain],
                ended: list[Utterance]) -> Transcription:  # fmt: skip
        return self._transcription(hypothesis, decoded_again, ended)


class FrameStreams(Streams[torch.Tensor, Hypothesis]):
    """Streams of encoder frames (`Decoder.streams()`). Pieces are [T, D] in the model's dtype on its device."""

    def _push(self, numbers: ctypes.Array, pieces: list[torch.Tensor], partials: ctypes.Array[PartialView]) -> None:
        for piece in pieces:
            if not isinstance(piece, torch.Tensor) or piece.dim() != 2:
                shape = tuple(getattr(piece, "shape", ()))
                raise library.InputError(f"frames: {type(piece).__name__} of shape {shape}; give a tensor [T, D]")
            library.require_values("frames", piece)
        batch = pieces[0].unsqueeze(0) if len(pieces) == 1 else _padded(pieces)
        lengths = integers([len(piece) for piece in pieces], "frames")
        library.call("streams_push_frames", self._handle, numbers, library.pointer_of(batch), lengths, len(pieces),
                     partials)  # fmt: skip

    def _result(self, hypothesis: Hypothesis, decoded_again: list[DecodedAgain], ended: list[Utterance]) -> Hypothesis:
        return hypothesis


def endpoint_rules(pause: float, end_tokens: str | Sequence[str], vad: str | os.PathLike | None,
                   vad_silence: float) -> EndpointRulesView:  # fmt: skip
    """Returns the rules in the library's form. The arguments are those of Model.streams()."""
    rules = EndpointRulesView(library.number(pause, "pause"), vad_silence=library.number(vad_silence, "vad_silence"))
    if vad is not None:
        rules.vad = library.path(vad, "vad")
    names = end_tokens
    if isinstance(end_tokens, str):
        names = [] if end_tokens == "auto" else [end_tokens]
    names = [encoded(name, "end_tokens") for name in listed(names, "end_tokens", "pieces of the vocabulary")]
    if names or isinstance(end_tokens, str):
        rules.end_token_count = len(names)
        rules.end_tokens = (ctypes.c_char_p * max(1, len(names)))(*names)
    return rules


def _padded(pieces: list[torch.Tensor]) -> torch.Tensor:
    kinds = {(piece.dtype, piece.device, piece.shape[1]) for piece in pieces}
    if len(kinds) > 1:
        raise library.InputError("frames: of several dtypes, devices or widths; give those of the model")
    return torch.nn.utils.rnn.pad_sequence(pieces, batch_first=True)
