"""rtfx from Python: models, decoders and runs.

>>> import rtfx
>>> model = rtfx.load("parakeet.nemo", device="cuda", dtype="bf16")
>>> [t.text for t in model.transcribe(["a.wav", "b.wav"])]

`load()` returns a `Model`. `decoder()` returns a `Decoder`, which searches encoder frames. Both have `streams()` for audio
or frames that arrive in pieces. `run()` does what the program's `rtfx run` does. Errors are `rtfx.Error`, with the
program's own text. Bad input is `rtfx.InputError`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rtfx.decoding import Decoder, Hypotheses
    from rtfx.errors import Error, InputError, RunError, TranscriptionError, TranscriptionInputError
    from rtfx.library import __version__, version
    from rtfx.models import Model, decoder, load, load_plugin
    from rtfx.program import records, run
    from rtfx.results import DecodedAgain, Hypothesis, Partial, Transcription, Utterance, Word
    from rtfx.streaming import FrameStreams, SpeechStreams, Stream

# Modules are imported when they are needed. The command `rtfx`, a function of rtfx.program, needs no torch, whose
# import takes seconds and warns where NumPy is absent.
_MODULES = {
    "decoding": ["Decoder", "Hypotheses"],
    "errors": ["Error", "InputError", "RunError", "TranscriptionError", "TranscriptionInputError"],
    "library": ["__version__", "version"],
    "models": ["Model", "decoder", "load", "load_plugin"],
    "program": ["records", "run"],
    "results": ["DecodedAgain", "Hypothesis", "Partial", "Transcription", "Utterance", "Word"],
    "streaming": ["FrameStreams", "SpeechStreams", "Stream"],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "DecodedAgain", "Decoder", "Error", "FrameStreams", "Hypotheses", "Hypothesis", "InputError", "Model", "Partial",
    "RunError", "SpeechStreams", "Stream", "Transcription", "TranscriptionError", "TranscriptionInputError", "Utterance",
    "Word", "__version__", "decoder", "load", "load_plugin", "records", "run", "version",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'rtfx' has no attribute {name!r}")
    return getattr(importlib.import_module(f"rtfx.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
