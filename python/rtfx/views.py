"""The structs of library.h, and their values in Python."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_char_p, c_double, c_float, c_int32, c_int64
from math import isnan
from typing import Any

from rtfx.errors import Error, InputError
from rtfx.results import DecodedAgain, Hypothesis, Partial, Transcription, Utterance, Word


class HypothesisView(ctypes.Structure):
    """rtfx_hypothesis"""

    def value(self, name: str) -> Hypothesis:
        """Returns the hypothesis. An error calls its utterance `name`."""
        if self.is_nan:
            raise Error(
                f"{name}: NaN in the emissions, or no hypothesis has a finite score; check the audio and the checkpoint, "
                "and load a model in fp16 as fp32"
            )
        count = self.token_count
        return Hypothesis(
            text=_text(self.text),
            tokens=self.tokens[:count],
            frames=self.frames[:count],
            score=self.score,
            durations=self.durations[:count] if self.durations else [],
            nbest=[entry.value(name) for entry in self.nbest[: self.nbest_count]],
            words=[_text(word) for word in self.words[: self.word_count]] if self.has_words else None,
            word_frames=self.word_frames[: self.word_count],
        )

    @classmethod
    def of(cls, hypothesis: Hypothesis) -> HypothesisView:
        """Returns a view of the fields from which words are made: tokens, frames, durations and words. Raises InputError
        for lists of different lengths."""
        tokens, frames, durations = hypothesis.tokens, hypothesis.frames, hypothesis.durations
        words, word_frames = hypothesis.words, hypothesis.word_frames
        if len(frames) != len(tokens) or len(durations) not in (0, len(tokens)):
            raise InputError(f"hypothesis: {len(tokens)} tokens, {len(frames)} frames, {len(durations)} durations")
        if words is not None and len(words) != len(word_frames):
            raise InputError(f"hypothesis: {len(words)} words, {len(word_frames)} word_frames")
        view = cls(token_count=len(tokens), tokens=integers(tokens, "tokens", c_int32),
                   frames=integers(frames, "frames", c_int32))  # fmt: skip
        if durations:
            view.durations = integers(durations, "durations", c_int32)
        if words is not None:
            view.has_words, view.word_count = True, len(words)
            view.words = (c_char_p * len(words))(*(encoded(word, "words") for word in words))
            view.word_frames = integers(word_frames, "word_frames", c_int32)
        return view


HypothesisView._fields_ = [  # the fields name the class itself
    ("is_nan", c_int32),
    ("has_words", c_int32),
    ("text", c_char_p),
    ("score", c_float),
    ("token_count", c_int64),
    ("tokens", POINTER(c_int32)),
    ("frames", POINTER(c_int32)),
    ("durations", POINTER(c_int32)),
    ("word_count", c_int64),
    ("words", POINTER(c_char_p)),
    ("word_frames", POINTER(c_int32)),
    ("nbest_count", c_int64),
    ("nbest", POINTER(HypothesisView)),
]


class WordView(ctypes.Structure):
    """rtfx_word"""

    _fields_ = [("text", c_char_p), ("start", c_double), ("end", c_double), ("confidence", c_double)]

    def value(self) -> Word:
        return Word(_text(self.text), self.start, self.end, None if isnan(self.confidence) else self.confidence)


class DecodedAgainView(ctypes.Structure):
    """rtfx_decoded_again"""

    _fields_ = [("start", c_double), ("end", c_double), ("words", c_int64), ("decodes", c_int64)]

    def value(self) -> DecodedAgain:
        return DecodedAgain(self.start, self.end, self.words, self.decodes)


class EndpointRulesView(ctypes.Structure):
    """rtfx_endpoint_rules"""

    _fields_ = [
        ("pause", c_double),
        ("end_token_count", c_int64),
        ("end_tokens", POINTER(c_char_p)),
        ("vad", c_char_p),
        ("vad_silence", c_double),
    ]


class UtteranceView(ctypes.Structure):
    """rtfx_utterance"""

    _fields_ = [
        ("hypothesis", HypothesisView),
        ("word_count", c_int64),
        ("words", POINTER(WordView)),
        ("start", c_double),
        ("end", c_double),
        ("ended_by", c_char_p),
    ]

    def value(self, name: str) -> Utterance | Error:
        """Returns the utterance, or the error in its place."""
        try:
            hypothesis = self.hypothesis.value(name)
        except Error as error:
            return error
        return Utterance(hypothesis.text, hypothesis, words_of(self.words, self.word_count), self.start, self.end,
                         _text(self.ended_by))  # fmt: skip


class PartialView(ctypes.Structure):
    """rtfx_partial"""

    _fields_ = [
        ("hypothesis", HypothesisView),
        ("stable", c_int64),
        ("stable_text", c_char_p),
        ("ended_count", c_int64),
        ("ended", POINTER(UtteranceView)),
    ]

    def value(self, name: str, ended: list[Utterance]) -> Partial:
        hypothesis = self.hypothesis.value(name)
        return Partial(hypothesis.text, hypothesis, self.stable, _text(self.stable_text), ended)


class RecordingView(ctypes.Structure):
    """rtfx_recording"""

    _fields_ = [("name", c_char_p), ("path", c_char_p), ("samples", ctypes.c_void_p), ("sample_count", c_int64)]


class TranscriptView(ctypes.Structure):
    """rtfx_transcript"""

    _fields_ = [
        ("failure", c_char_p),
        ("bad_input", c_int32),
        ("hypothesis", HypothesisView),
        ("word_count", c_int64),
        ("words", POINTER(WordView)),
        ("notice_count", c_int64),
        ("notices", POINTER(c_char_p)),
        ("again_count", c_int64),
        ("again", POINTER(DecodedAgainView)),
    ]

    def value(self) -> Transcription | Error:
        """Returns the result, or the error in its place."""
        if self.failure is not None:
            return (InputError if self.bad_input else Error)(message(self.failure))
        hypothesis = self.hypothesis.value("recording")
        return Transcription(hypothesis.text, hypothesis, words_of(self.words, self.word_count),
                             [message(notice) for notice in self.notices[: self.notice_count]],
                             [self.again[i].value() for i in range(self.again_count)])  # fmt: skip


def words_of(words: ctypes.Array[WordView], count: int) -> list[Word]:
    return [words[i].value() for i in range(count)]


def integers(values: Sequence[int], where: str, kind: type = c_int64) -> ctypes.Array:
    """Returns an array of at least one element. Raises an error for integers that are too large, which ctypes would
    wrap."""
    limit = 1 << (8 * ctypes.sizeof(kind) - 1)
    try:
        plain = [operator.index(value) for value in values]
    except TypeError:
        raise InputError(f"{where}: {values}; give integers") from None
    for value in plain:
        if not -limit <= value < limit:
            raise InputError(f"{where}: {value} is out of range; give integers between {-limit} and {limit - 1}")
    return (kind * max(1, len(plain)))(*plain)


def listed(values: Any, where: str, kind: str) -> list[Any]:
    """Returns the values of any iterable. `kind` names in an error what they should be, such as "integers"."""
    try:
        return list(values)
    except TypeError:
        raise InputError(f"{where}: {values!r}; give {kind}") from None


def message(given: bytes) -> str:
    """Returns a message of the library, which may name a path that is not UTF-8."""
    return given.decode(errors="surrogateescape")


def encoded(given: Any, where: str, encode: Callable[[Any], bytes] = str.encode) -> bytes:
    """Encodes a text for C. A NUL is an error, since C would read only the part before it."""
    try:
        text = encode(given)
    except (TypeError, UnicodeEncodeError):
        raise InputError(f"{where}: {given!r}; give a text of Unicode characters, or a path") from None
    if b"\0" in text:
        raise InputError(f"{where}: {given!r} has a NUL character; leave it out")
    return text


def _text(given: bytes) -> str:
    return given.decode(errors="replace")
