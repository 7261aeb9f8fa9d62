"""Models, and their results for audio."""

from __future__ import annotations

import ctypes
import json
import numbers
import os
import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Union

import torch

from rtfx import library, streaming
from rtfx.decoding import Decoder
from rtfx.errors import Error, InputError, TranscriptionError, TranscriptionInputError
from rtfx.results import DecodedAgain, Hypothesis, Transcription, Utterance, Word
from rtfx.together import Together
from rtfx.views import HypothesisView, RecordingView, TranscriptView, WordView, integers, listed, words_of

Audio = Union[str, os.PathLike, torch.Tensor, Sequence[float]]  # or a numpy array


def load(path: str | os.PathLike, device: str = "auto", dtype: str = "fp32",
         att_context_size: Sequence[int] = (), language: str = "") -> Model:  # fmt: skip
    """Loads a `.nemo` file, a Hugging Face folder or a downloaded model by its name. The device is "auto", "cpu",
    "cuda" or "cuda:1". The dtype is "fp32", "bf16", "fp16", or a pair such as "bf16+fp32" for encoder and decoder.
    "fp64" is for CPUs only. "fp8" is made for Hopper GPUs, and has the encoder in fp8 and all else in bf16. Where a
    GPU cannot multiply fp8 as needed, the encoder is in bf16, too, and a notice says so. Loading switches TF32 off
    for the whole process, so that fp32 is exact (torch.backends.cuda.matmul.allow_tf32,
    torch.backends.cudnn.allow_tf32). `att_context_size` selects an attention context of a cache-aware encoder.
    `language` selects the language of a prompt-conditioned model."""
    return Model(path, device, dtype, att_context_size, language)


def load_plugin(path: str | os.PathLike) -> None:
    """Loads a shared library with further decoders, of the same build. It makes rtfx's symbols visible to the whole
    process. Packages with an OpenFst of their own, such as kaldifst, must be imported before this call. After it,
    their import never ends."""
    library.load_plugin(library.path(path))


def decoder(name: str | None, model: Model, **options: Any) -> Decoder:
    """Returns a decoder of `rtfx list` for a model. Its options are keywords, and nested ones are dicts
    (`lm={"path": "lm.arpa", "alpha": 0.3}`, `boost={"phrases": ["new york"], "scale": 0.5}`). A `scale` of `boost`
    above 1 inserts words that nobody said."""
    return Decoder(name, model, options)


class Model(library.Handle):
    """Features, encoder and heads on one device. Several threads may use it, with its decoders and streams. Their
    calls take turns, and equal calls that wait become one batch. A decoder in Python must not call it."""

    def __init__(self, path: str | os.PathLike, device: str, dtype: str, att_context_size: Sequence[int],
                 language: str = ""):  # fmt: skip
        context = listed(att_context_size, "att_context_size", "integers")
        self._handle = library.call("model_load", library.path(path), library.text(device, "device"),
                                    library.text(dtype, "dtype"),
                                    integers(context, "att_context_size", ctypes.c_int32), len(context),
                                    library.text(language, "language"))  # fmt: skip
        library.free_with(self, "model")
        self._together = Together()
        about = library.call_json("model_json", self._handle)
        self.kind: str = about["kind"]  # "ctc", "rnnt", "multiblank" or "tdt"
        self.device = torch.device(about["device"])
        self.dtype: str = about["dtype"]  # dtype of frames and decoders
        self.sample_rate: int = about["sample_rate"]  # Hz
        self.frame_seconds: float = about["frame_seconds"]  # seconds of one encoder frame
        self.blank: int = about["blank"]
        self.durations: list[int] = about["durations"]  # TDT
        self.languages: list[str] = list(about["languages"])  # of a prompt-conditioned model
        self.pieces: list[str] = about["pieces"]  # the piece of each token
        self.notices: list[str] = about["notices"]

    def __repr__(self) -> str:
        return f"<rtfx.Model {self.kind}, {len(self.pieces)} tokens, {self.dtype} on {self.device}>"

    def read_audio(self, path: str | os.PathLike) -> torch.Tensor:
        """Returns a wav, flac, ogg, ... file as [n] float32: mono, at the model's rate. Warns of changes and
        omissions in reading it, such as damaged frames."""
        notices = ctypes.c_char_p()
        samples = library.call("read_audio", library.path(path), self.sample_rate, ctypes.byref(notices))
        for notice in json.loads(notices.value or b"[]"):
            warnings.warn(f"{os.fspath(path)}: {notice}", stacklevel=2)
        return library.tensor_of(samples)

    def encode(self, audio: Audio | Iterable[Audio]) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns encoder frames [B, T, D] in the model's dtype, on its device, and their lengths [B] int64 on the
        host. Waits for the device."""
        clips = [self._samples(clip, _name(i, clip)) for i, clip in enumerate(_clips(audio))]
        pointers = (ctypes.c_void_p * max(1, len(clips)))(*(clip.data_ptr() for clip in clips))
        lengths = integers([0] * len(clips), "lengths")
        counts = integers([len(clip) for clip in clips], "samples")
        with self._together.turn:
            frames = library.call("encode", self._handle, pointers, counts, len(clips), lengths)
        return library.tensor_of(frames), torch.tensor(list(lengths)[: len(clips)], device="cpu")

    def transcribe(self, audio: Audio | Iterable[Audio], batch_size: int | None = None, timestamps: bool = False,
                   decoder: Decoder | str | None = None, decode_again: float = 8,
                   **options: Any) -> list[Transcription]:  # fmt: skip
        """Returns the text of files, arrays or tensors (mono samples at the model's rate, in [-1, 1]), in their order.

        It works like `rtfx transcribe`: files are read ahead, and long ones are decoded in sections. `batch_size` is a
        number of clips. With None, it is one on a CPU, and on a GPU as many as fit in its memory. A clip without a
        result does not affect the others. At the end it raises TranscriptionError, or TranscriptionInputError, with the
        other results. The message names the clip by its path, or as `audio[index]`. Ctrl-C ends the call after the
        current encoder layer on a CPU, and after the batches in flight on a GPU.

        A stretch of `decode_again` seconds that has no token, but at least 1.5 s of speech, is decoded again. For a clip
        that is not cut and has no token, 0.5 s of speech is enough, whatever its length. `Transcription.decoded_again`
        lists these parts. 0 switches this off.

        `decoder` is one of `rtfx.decoder`, or its name. Without it, the fastest exact greedy search runs. For a
        transducer, this is fused_looping on a GPU, where it supports the model and the options, and else label_looping.
        A CTC model has ctc_greedy. `options` are for a decoder that is given by name or not at all
        (`boost={"phrases": ["new york"], "scale": 0.5}`, `allowed=["latin"]`). A `scale` above 1 inserts words that
        nobody said."""
        rows, search = _rows(batch_size), self._decoder(decoder, options)
        seconds, timestamps = library.number(decode_again, "decode_again"), bool(timestamps)

        def begin(recordings: ctypes.Array[RecordingView], _: list[None], stop: ctypes.c_int32) -> Any:
            return library.call("transcribe", self._handle, search._handle, recordings, len(recordings),
                                rows, timestamps, seconds, stop)  # fmt: skip

        clips = _clips(audio)
        # Equal decoders that were made for single calls give equal results.
        key = ("transcribe", id(decoder) if search is decoder else (search.name, str(search.options)), rows,
               timestamps, seconds)  # fmt: skip
        return self._results(clips, [None] * len(clips), key, begin)

    def align(self, audio: Audio | Iterable[Audio], text: str | Iterable[str], batch_size: int | None = None,
              head: str = "auto") -> list[Transcription]:  # fmt: skip
        """Returns when the words of given texts are spoken, like `rtfx align`: words with times and confidence.
        `text` has one entry for each clip of `audio`. `head` selects the path of "ctc" or "transducer"; "auto" is
        CTC where the model has it. Everything else is as in transcribe()."""
        rows, clips = _rows(batch_size), _clips(audio)
        texts = [text] if isinstance(text, (str, bytes)) else listed(text, "text", "one text or several")
        if len(texts) != len(clips):
            raise InputError(f"text: {len(texts)} texts for {len(clips)} clips; give one for each")
        spoken = [library.spoken(one, f"text[{i}]") for i, one in enumerate(texts)]
        named = library.text(head, "head")

        def begin(recordings: ctypes.Array[RecordingView], texts: list[bytes], stop: ctypes.c_int32) -> Any:
            chosen = (ctypes.c_char_p * len(texts))(*texts)
            return library.call("align", self._handle, recordings, chosen, len(recordings), named, rows, stop)

        return self._results(clips, spoken, ("align", named, rows), begin)

    def _results(self, clips: Sequence[Audio], beside: Sequence[Any], key: Hashable,
                 begin: Callable[..., Any]) -> list[Transcription]:  # fmt: skip
        """Returns one result for each clip. `begin` takes recordings, the data for each of them (`beside`), and the
        flag that stops it. Calls of several threads with an equal key become one."""
        found: dict[int, Transcription | Error] = {}
        given: dict[int, tuple[RecordingView, Any]] = {}
        for i, clip in enumerate(clips):
            try:
                given[i] = _recording(clip, _name(i, clip))
            except InputError as error:
                found[i] = error

        def work(requests: list[list[tuple[RecordingView, Any]]]) -> list[list[Transcription | Error]]:
            all_of_them = [one for request in requests for one in request]
            recordings = (RecordingView * len(all_of_them))(*(recording for recording, _ in all_of_them))
            others = [other for _, other in all_of_them]
            results = iter(library.run_until_interrupted(lambda stop: _transcripts(begin(recordings, others, stop))))
            return [[next(results) for _ in request] for request in requests]

        request = [(recording, beside[i]) for i, (recording, _) in given.items()]
        found.update(zip(given, self._together.call(key, request, work), strict=True))
        failures = {i: found[i] for i in sorted(found) if isinstance(found[i], Error)}
        if failures:
            of_input = all(isinstance(failure, InputError) for failure in failures.values())
            raise (TranscriptionInputError if of_input else TranscriptionError)(
                [None if i in failures else found[i] for i in range(len(found))],
                {i: str(failure) for i, failure in failures.items()})  # fmt: skip
        return [found[i] for i in range(len(found))]

    def streams(self, decoder: Decoder | str | None = None, max_streams: int = 1, batch_size: int = 0,
                buffer: Sequence[float] | None = None, decode_again: float = 8, fewer_rows: Sequence[int] = (),
                pause: float = 0, end_tokens: str | Sequence[str] = (), vad: str | os.PathLike | None = None,
                vad_silence: float = 0.5, **options: Any) -> streaming.SpeechStreams:  # fmt: skip
        """Returns live streams whose samples come in pieces, up to `max_streams` at a time. Each step computes
        `batch_size` rows (0: `max_streams`), even if fewer have audio.

        A cache-aware model uses its caches. Any other model uses buffers, and so does every model if `buffer` is given.
        `buffer` has the seconds of chunk, left and right context, by default 2, 10 and 2. A stream starts over and
        decodes speech again after `decode_again` seconds without a token, if at least 1.5 s of them are speech. For a
        stream of at most 20 s that ends without any token, 0.5 s is enough. 0 switches this off.

        `fewer_rows` has numbers of rows below the batch size. A step is then encoded with the smallest that holds
        its streams, so that few streams cost less. Results then depend on other streams by rounding. `decoder` and
        `options` are those of transcribe().

        A stream is one utterance, unless a rule ends utterances earlier. The rules are those of `rtfx stream`, and the
        first one that applies counts. An utterance ends after `pause` seconds without a token, where 0 switches this
        rule off. It ends with each token of `end_tokens`, which are pieces as the vocabulary spells them; "auto" stands
        for <EOU> and <EOB>, where the vocabulary has them. `vad` is the file of a voice activity detector, such as
        silero_vad.jit. After `vad_silence` seconds in which it hears no speech, an utterance ends. `Partial.ended` and
        `Transcription.ended` have the utterances that have ended. Those without text are left out."""
        rules = streaming.endpoint_rules(pause, end_tokens, vad, vad_silence)
        return streaming.SpeechStreams(self, self._decoder(decoder, options), max_streams, batch_size, buffer,
                                       library.number(decode_again, "decode_again"), fewer_rows, rules,
                                       self.sample_rate, self._with_words)  # fmt: skip

    def _decoder(self, decoder: Decoder | str | None, options: dict[str, Any]) -> Decoder:
        if not isinstance(decoder, Decoder):
            return Decoder(decoder, self, options)
        if options:
            raise InputError(f"{', '.join(options)}: the decoder is made already; give them to rtfx.decoder()")
        return decoder

    def _with_words(self, hypothesis: Hypothesis, decoded_again: list[DecodedAgain],
                    ended: list[Utterance]) -> Transcription:  # fmt: skip
        return Transcription(hypothesis.text, hypothesis, self.words(hypothesis), decoded_again=decoded_again,
                             ended=ended)  # fmt: skip

    def words(self, hypothesis: Hypothesis) -> list[Word]:
        """Returns the words with their times, as transcribe() does, with two exceptions. A CTC token has one frame
        here, not a run of frames. The last word may end after the audio. Raises InputError for lists of different
        lengths and for tokens that the model does not have."""
        words = ctypes.POINTER(WordView)()
        with self._together.turn:
            count = library.call("words", self._handle, HypothesisView.of(hypothesis), words)
            return words_of(words, count)

    def _samples(self, audio: Any, name: str) -> torch.Tensor:
        """Returns [n] float32 on the host, contiguous."""
        if isinstance(audio, (str, os.PathLike)):
            return self.read_audio(audio)
        return library.samples_of(audio, name)


def _clips(audio: Audio | Iterable[Audio]) -> list[Audio]:
    """Returns the clips in the caller's argument: one clip, which may be a sequence of numbers, or several. An array
    or a column of a table holds samples, or paths."""
    of_paths = getattr(getattr(audio, "dtype", None), "kind", "") in ("U", "S", "O") and audio.ndim == 1
    if isinstance(audio, (str, bytes, os.PathLike)) or (hasattr(audio, "__array__") and not of_paths):
        return [audio]
    clips = listed(audio, "audio", "one clip or several")
    return [clips] if clips and isinstance(clips[0], numbers.Real) else clips


def _rows(batch_size: int | None) -> int:
    """Returns the number in the library's form, where 0 stands for None."""
    if batch_size is None:
        return 0
    rows = integers([batch_size], "batch_size")[0]
    if rows < 1:
        raise InputError(f"batch_size: {batch_size}; at least 1")
    return rows


def _transcripts(handle: Any) -> list[Transcription | Error]:
    """Returns the results of a handle, and frees it."""
    try:
        transcripts = ctypes.POINTER(TranscriptView)()
        count = library.call("transcripts_list", handle, transcripts)
        return [transcripts[i].value() for i in range(count)]
    finally:
        library.free("transcripts", handle)


def _recording(audio: Audio, name: str) -> tuple[RecordingView, Any]:
    """Returns a clip in the library's form, and the object that owns its samples."""
    named = library.path(name)
    if isinstance(audio, (str, os.PathLike)):
        if not os.fspath(audio):
            raise InputError(f"{name}: an empty path; name a file")
        return RecordingView(name=named, path=named), None
    samples = library.samples_of(audio, name)
    return RecordingView(name=named, samples=samples.data_ptr(), sample_count=len(samples)), samples


def _name(index: int, audio: Any) -> str:
    """Returns the name of a clip of the caller's list for errors."""
    path = os.fsdecode(audio) if isinstance(audio, (str, os.PathLike)) else ""
    return path or f"audio[{index}]"
