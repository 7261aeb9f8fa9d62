"""rtfx from Python: models, decoders and runs.

>>> import rtfx
>>> model = rtfx.load("parakeet.nemo", device="cuda", dtype="bf16")
>>> [t.text for t in model.transcribe(["a.wav", "b.wav"], batch_size=16)]

`load` gives a `Model`, `decoder` a `Decoder` of encoder frames, their method `streams` utterances in pieces, `run` what
the program's `rtfx run` does. Errors are `rtfx.Error`, with the program's own text; bad input is `rtfx.InputError`.
"""

from rtfx.decoding import Decoder, Hypotheses
from rtfx.errors import Error, InputError
from rtfx.library import number_of_version, version
from rtfx.models import Model, decoder, load, load_plugin
from rtfx.program import records, run
from rtfx.results import Hypothesis, Partial, Transcription, Word
from rtfx.streaming import FrameStreams, SpeechStreams, Stream

__version__ = number_of_version()

__all__ = [
    "Decoder", "Error", "FrameStreams", "Hypotheses", "Hypothesis", "InputError", "Model", "Partial", "SpeechStreams",
    "Stream", "Transcription", "Word", "__version__", "decoder", "load", "load_plugin", "records", "run", "version",
]  # fmt: skip
