"""rtfx's decoders inside NVIDIA NeMo's models.

>>> with rtfx.nemo.accelerate(nemo_model):
...     nemo_model.transcribe(["a.wav"], timestamps=True)

NeMo's own `transcribe()` runs, with its encoder, its text and its time stamps. Only the search for tokens in the
encoder frames is a decoder of rtfx. An utterance for which the network returns NaN gets no token, the score NaN and a
warning, and the others of its batch get their texts. It was tried with NeMo 2.7.3 and 3.0.0 on a CPU, and with 3.0.0 on a GPU.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

from rtfx import models
from rtfx.decoding import Hypotheses
from rtfx.errors import Error, InputError
from rtfx.results import Hypothesis as Row

_DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def accelerate(nemo_model: Any, decoder: str | None = None, **options: Any) -> Accelerated:
    """Returns a context in which an RNN-T or TDT model of NeMo decodes by rtfx. At its end, the model has its own
    search again. `decoder` is a name; without it, fused_looping runs on a GPU and label_looping on a CPU. `options`
    are the decoder's."""
    return Accelerated(nemo_model, decoder, options)


class Accelerated:
    def __init__(self, nemo_model: Any, decoder: str | None, options: dict[str, Any]):
        if not hasattr(nemo_model, "joint") or not hasattr(nemo_model.decoding, "rnnt_decoder_predictions_tensor"):
            raise InputError(f"accelerate: {type(nemo_model).__name__} decodes by no transducer; RNN-T and TDT models do")
        weight = next(nemo_model.joint.parameters())
        if weight.dtype not in _DTYPES:
            raise InputError(f"accelerate: weights in {weight.dtype}; fp32, bf16 and fp16 are served")
        self._nemo = nemo_model
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.nemo"
            nemo_model.save_to(str(path))
            model = models.load(path, str(weight.device), _DTYPES[weight.dtype])
        name = decoder or ("fused_looping" if weight.is_cuda else "label_looping")
        self.decoder = models.decoder(name, model, **options)
        self._dtype = weight.dtype
        self._original: Any = None

    def __enter__(self) -> Accelerated:
        self._install()
        change = self._nemo.change_decoding_strategy

        def change_and_install(*arguments: Any, **keywords: Any) -> Any:
            result = change(*arguments, **keywords)  # makes a new decoding, which transcribe(timestamps=True) requests
            self._install()
            return result

        self._nemo.change_decoding_strategy = change_and_install
        return self

    def __exit__(self, *_: object) -> None:
        self._nemo.decoding.decoding = self._original
        del self._nemo.change_decoding_strategy  # restores the method of the class

    def _install(self) -> None:
        if self._nemo.decoding.decoding is not self:
            self._original = self._nemo.decoding.decoding
            self._nemo.decoding.decoding = self

    def __call__(self, encoder_output: torch.Tensor, encoded_lengths: torch.Tensor,
                 partial_hypotheses: Any = None) -> tuple[list[Any]]:  # fmt: skip
        """Takes the arguments of NeMo's own searches: encoder_output [B, D, T] and encoded_lengths [B]."""
        from nemo.collections.asr.parts.utils.rnnt_utils import Hypothesis

        if partial_hypotheses is not None and any(h is not None for h in partial_hypotheses):
            raise InputError("partial_hypotheses: searches that go on are not served; leave the context for them")
        frames = encoder_output.transpose(1, 2).to(self._dtype).contiguous()
        found = self.decoder(frames, encoded_lengths)
        is_tdt = found.durations is not None
        rows = [_row(found, i) for i in range(len(found))]
        return (
            [
                Hypothesis(
                    score=row.score,
                    y_sequence=torch.tensor(row.tokens, dtype=torch.long),
                    timestamp=torch.tensor(row.frames, dtype=torch.long),
                    token_duration=torch.tensor(row.durations, dtype=torch.long) if is_tdt else torch.empty(0),
                )
                for row in rows
            ],
        )

    def __getattr__(self, name: str) -> Any:
        """Returns any other attribute of the original search."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._original, name)


def _row(found: Hypotheses, i: int) -> Row:
    """Returns a row of a batch. If the network returned NaN for it, the row has no token and the score NaN."""
    try:
        return found[i]
    except Error as error:
        warnings.warn(f"accelerate: {error}; the text of this row is empty, and its score is NaN", stacklevel=3)
        return Row(text="", tokens=[], frames=[], score=math.nan)
