"""The results of decoders, models and streams. They are plain values without a handle, so they can be copied and
pickled."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Hypothesis:
    """One text. `frames[i]` is the encoder frame of `tokens[i]`. `durations`, in frames, exist for TDT. `nbest`
    begins with the hypothesis itself, where the decoder was asked for a list. `words` are those that a search over a
    lexicon or decoding graph found, and `text` consists of them. `word_frames[i]` is the encoder frame at which the
    path has `words[i]`."""

    text: str
    tokens: list[int]
    frames: list[int]
    score: float
    durations: list[int] = field(default_factory=list)
    nbest: list[Hypothesis] = field(default_factory=list)
    words: list[str] | None = None
    word_frames: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Word:
    """A word and when it is spoken, in seconds. It lasts from the frame of its first token to the end of its last
    token that is not punctuation, or to the next word. In TDT, the token's duration gives its end. `confidence` is
    set by align(), else None."""

    text: str
    start: float
    end: float
    confidence: float | None = None


@dataclass(frozen=True)
class DecodedAgain:
    """A part, from `start` to `end` in seconds, in which somebody speaks and the first pass found no word. It was
    decoded `decodes` additional times, and `words` words were found. With 0 words, its text stays empty."""

    start: float
    end: float
    words: int
    decodes: int


@dataclass(frozen=True)
class Utterance:
    """An utterance of a stream that a rule has ended. `start` is when its first token begins, and `end` when its last
    token ends. They, the times of `words` and the frames of `hypothesis` count from the start of the stream. `ended_by`
    is "pause", "vad" or the piece of the end token, which is not part of the text."""

    text: str
    hypothesis: Hypothesis
    words: list[Word]
    start: float
    end: float
    ended_by: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Transcription:
    """The text of one clip, or of the last utterance of a stream. transcribe() fills `words` only with
    `timestamps=True`; align() and a stream's finish() always fill it. `notices` list changes and omissions in reading
    the clip, such as its sample rate, and the parts that were decoded again. `ended` has the utterances before the last
    one that finish() has found, and `decoded_again` the parts of the whole stream."""

    text: str
    hypothesis: Hypothesis
    words: list[Word] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    decoded_again: list[DecodedAgain] = field(default_factory=list)
    ended: list[Utterance] = field(default_factory=list)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Partial:
    """The text so far of the utterance that a stream is in, under the assumption that more speech comes. `finish()` may
    return another text. The first `stable` tokens, which make `stable_text`, never change. `ended` has the utterances
    that rules have ended since the last push, in order. The text belongs to the utterance after them."""

    text: str
    hypothesis: Hypothesis
    stable: int
    stable_text: str
    ended: list[Utterance] = field(default_factory=list)

    def __str__(self) -> str:
        return self.text
