"""Models and what they make of audio."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import weakref
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Union

import torch

from rtfx import library, streaming
from rtfx.decoding import Decoder
from rtfx.results import Hypothesis, Transcription, Word

Audio = Union[str, os.PathLike, torch.Tensor, Sequence[float]]  # or a numpy array


def load(path: str | os.PathLike, device: str = "auto", dtype: str = "fp32",
         att_context_size: Sequence[int] = ()) -> Model:  # fmt: skip
    """A `.nemo` file or a Hugging Face folder on a device ("auto", "cpu", "cuda", "cuda:1"), in "fp32", "bf16" or
    "fp16". `att_context_size` selects an attention context of a cache-aware encoder."""
    return Model(path, device, dtype, att_context_size)


def load_plugin(path: str | os.PathLike) -> None:
    """A shared library with further decoders, of the same build."""
    library.call("load_plugin", os.fsencode(path))


def decoder(name: str | None, model: Model, **options: Any) -> Decoder:
    """A decoder of `rtfx list` for a model, with its options as keywords; nested ones as dicts
    (`lm={"path": "lm.arpa", "alpha": 0.3}`, `boost={"phrases": ["new york"], "scale": 3}`)."""
    return Decoder(name, model, options)


class Model(library.Handle):
    """Features, encoder and heads on one device. Not for several threads at once."""

    def __init__(self, path: str | os.PathLike, device: str, dtype: str, att_context_size: Sequence[int]):
        context = list(att_context_size)
        self._handle = library.call("model_load", os.fsencode(path), library.text(device), library.text(dtype),
                                    library.integers(context, "att_context_size"), len(context))  # fmt: skip
        weakref.finalize(self, library.free, "model", self._handle)
        about = library.call_json("model_json", self._handle)
        self.kind: str = about["kind"]  # "ctc", "rnnt" or "tdt"
        self.device = torch.device(about["device"])
        self.dtype: str = about["dtype"]
        self.sample_rate: int = about["sample_rate"]  # Hz
        self.frame_seconds: float = about["frame_seconds"]  # of an encoder frame
        self.blank: int = about["blank"]
        self.durations: list[int] = about["durations"]  # TDT
        self.pieces: list[str] = about["pieces"]  # by token
        self.notices: list[str] = about["notices"]

    def __repr__(self) -> str:
        return f"<rtfx.Model {self.kind}, {len(self.pieces)} tokens, {self.dtype} on {self.device}>"

    def read_audio(self, path: str | os.PathLike) -> torch.Tensor:
        """[n] float32 of a wav, flac, ogg, ... file: mono, at the model's rate."""
        notices = ctypes.c_char_p()
        return library.tensor_of(
            library.call("read_audio", os.fsencode(path), self.sample_rate, ctypes.byref(notices))
        )

    def encode(self, audio: Sequence[Audio]) -> tuple[torch.Tensor, torch.Tensor]:
        """Encoder frames [B, T, D] in the model's dtype, on its device, and their lengths [B] int64 on the host.
        Waits for the device."""
        clips = [self._samples(clip, _name(i, clip)) for i, clip in enumerate(audio)]
        pointers = (ctypes.c_void_p * max(1, len(clips)))(*(clip.data_ptr() for clip in clips))
        lengths = library.integers([0] * len(clips))
        counts = library.integers([len(clip) for clip in clips])
        frames = library.call("encode", self._handle, pointers, counts, len(clips), lengths)
        return library.tensor_of(frames), torch.tensor(list(lengths)[: len(clips)], device="cpu")

    def transcribe(self, audio: Audio | Iterable[Audio], batch_size: int = 16, timestamps: bool = False,
                   decoder: Decoder | str | None = None, **options: Any) -> list[Transcription]:  # fmt: skip
        """Files, arrays or tensors (mono samples at the model's rate, in [-1, 1]) as text, in their order. Up to eight
        threads read files, all before the first is encoded. A bad clip raises InputError then, which names it by its
        path, or as `audio[index]`.
        `decoder`: one of `rtfx.decoder`, or its name; else the fastest exact greedy search: fused_looping on a GPU,
        label_looping, or ctc_greedy. `options`: of a decoder that is given by name or not at all (`boost={"phrases": ["new york"], "scale": 3}`, `allowed=["latin"]`)."""
        if isinstance(audio, (str, os.PathLike, torch.Tensor)) or hasattr(audio, "__array__"):
            audio = [audio]
        if batch_size < 1:
            raise library.InputError(f"batch_size: {batch_size}; at least 1")
        decoder = self._decoder(decoder, options)
        audio = list(audio)
        names = [_name(i, clip) for i, clip in enumerate(audio)]
        clips = self._read(audio, names)
        order = sorted(range(len(clips)), key=lambda i: -len(clips[i]))  # alike in length: little padding
        found: dict[int, Transcription] = {}
        for first in range(0, len(order), batch_size):
            rows = order[first : first + batch_size]
            hypotheses = decoder(*self.encode([clips[i] for i in rows]))._named([names[i] for i in rows])
            for i, hypothesis in zip(rows, hypotheses, strict=True):
                found[i] = self._transcription(hypothesis, timestamps)
        return [found[i] for i in range(len(clips))]

    def streams(self, decoder: Decoder | str | None = None, max_streams: int = 1, batch_size: int = 0,
                buffer: Sequence[float] | None = None, **options: Any) -> streaming.SpeechStreams:  # fmt: skip
        """Live speech: utterances whose samples come in pieces, up to `max_streams` at a time. Each step computes
        `batch_size` rows (0: `max_streams`), whatever there is for them. A cache-aware model is streamed by its
        caches; any other, or with `buffer`, on buffers of so many seconds of chunk, left and right context, by default
        2, 10 and 2. `decoder` and `options` as transcribe() takes them."""
        return streaming.SpeechStreams(self, self._decoder(decoder, options), max_streams, batch_size, buffer,
                                       self.sample_rate, functools.partial(self._transcription, timestamps=True))  # fmt: skip

    def _decoder(self, decoder: Decoder | str | None, options: dict[str, Any]) -> Decoder:
        if not isinstance(decoder, Decoder):
            return Decoder(decoder, self, options)
        if options:
            raise library.InputError(f"{', '.join(options)}: the decoder is made already; give them to rtfx.decoder()")
        return decoder

    def _transcription(self, hypothesis: Hypothesis, timestamps: bool) -> Transcription:
        return Transcription(hypothesis.text, hypothesis, self.words(hypothesis) if timestamps else [])

    def words(self, hypothesis: Hypothesis) -> list[Word]:
        """Words with their times, as `rtfx transcribe` has them, but for a CTC token's run of frames, of which each has
        one here, and for the last one's end, which may lie behind the audio's. Raises InputError for lists of different lengths and tokens that the model does not have."""
        tokens, frames, durations = hypothesis.tokens, hypothesis.frames, hypothesis.durations
        if len(frames) != len(tokens) or len(durations) not in (0, len(tokens)):
            raise library.InputError(f"hypothesis: {len(tokens)} tokens, {len(frames)} frames, {len(durations)} durations")
        words = library.call_json(
            "words", self._handle, library.integers(tokens), library.integers(frames),
            library.integers(durations) if durations else None, len(tokens), self._found_words(hypothesis))  # fmt: skip
        return [Word(*word) for word in words]

    @staticmethod
    def _found_words(hypothesis: Hypothesis) -> bytes | None:
        if hypothesis.words is None:
            return None
        if len(hypothesis.words) != len(hypothesis.word_frames):
            raise library.InputError(
                f"hypothesis: {len(hypothesis.words)} words, {len(hypothesis.word_frames)} word_frames")
        return json.dumps(list(zip(hypothesis.words, hypothesis.word_frames))).encode()

    def _read(self, audio: list[Audio], names: list[str]) -> list[torch.Tensor]:
        readers = ThreadPoolExecutor(min(8, os.cpu_count() or 1))
        try:
            return list(readers.map(self._checked, audio, names))
        finally:
            readers.shutdown(cancel_futures=True)  # behind an error nothing more is read

    def _checked(self, audio: Any, name: str) -> torch.Tensor:
        samples = self._samples(audio, name)
        if not len(samples):
            raise library.InputError(f"{name}: a clip without samples; leave it out")
        if not samples.isfinite().all():
            bad = int((~samples.isfinite()).nonzero()[0])
            raise library.InputError(f"{name}: sample {bad} is {samples[bad]:g}; give finite ones, or leave it out")
        return samples

    def _samples(self, audio: Any, name: str) -> torch.Tensor:
        """[n] float32 on the host, contiguous."""
        if isinstance(audio, (str, os.PathLike)):
            return self.read_audio(audio)
        return library.samples_of(audio, name)


def _name(index: int, audio: Any) -> str:
    """Names a clip of the caller's list in errors."""
    return os.fsdecode(audio) if isinstance(audio, (str, os.PathLike)) else f"audio[{index}]"
