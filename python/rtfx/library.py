"""Calls librtfx through ctypes (library.h)."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from rtfx.errors import Error, InputError
from rtfx.views import (
    DecodedAgainView,
    EndpointRulesView,
    HypothesisView,
    PartialView,
    RecordingView,
    TranscriptView,
    UtteranceView,
    WordView,
    encoded,
    message,
)

_PATH = Path(__file__).parent / "lib/librtfx.so"
_CAPSULE = b"dltensor"


def _load() -> ctypes.CDLL:
    """Loads librtfx, which finds LibTorch's libraries by name. They are in this process already, by `import torch`."""
    try:
        library = ctypes.CDLL(str(_PATH))
    except OSError as error:
        raise ImportError(
            f"rtfx does not load beside torch {torch.__version__}: {error}; docs/python.md says which releases do"
        ) from None
    text, handle, pointer = ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER
    count, flag = ctypes.c_int64, ctypes.c_int32
    integers, floats = pointer(count), pointer(ctypes.c_void_p)
    hypothesis, partial = pointer(HypothesisView), pointer(PartialView)
    for name, result, arguments in [
        ("error", text, []),
        ("error_is_input", ctypes.c_int, []),
        ("version", text, []),
        ("load_plugin", ctypes.c_int, [text]),
        ("model_load", handle, [text, text, text, pointer(flag), count, text]),
        ("model_json", text, [handle]),
        ("model_free", None, [handle]),
        ("words", count, [handle, hypothesis, pointer(pointer(WordView))]),
        ("decoder_new", handle, [handle, text, text]),
        ("decoder_json", text, [handle]),
        ("decoder_free", None, [handle]),
        ("read_audio", handle, [text, ctypes.c_int, pointer(text)]),
        ("encode", handle, [handle, floats, integers, count, integers]),
        ("decode", handle, [handle, handle, integers, count]),
        ("result_tensor", handle, [handle, text]),
        ("result_rows", count, [handle, pointer(hypothesis)]),
        ("result_free", None, [handle]),
        ("transcribe", handle, [handle, handle, pointer(RecordingView), count, count, ctypes.c_int, ctypes.c_double,
                                pointer(flag)]),
        ("align", handle, [handle, pointer(RecordingView), pointer(text), count, text, count, pointer(flag)]),
        ("transcripts_list", count, [handle, pointer(pointer(TranscriptView))]),
        ("transcripts_free", None, [handle]),
        ("streams_of_speech", handle, [handle, handle, count, count, integers, count, pointer(ctypes.c_double),
                                      ctypes.c_double, pointer(EndpointRulesView)]),
        ("streams_of_frames", handle, [handle, count, count]),
        ("streams_json", text, [handle]),
        ("streams_free", None, [handle]),
        ("streams_open", count, [handle, text]),
        ("streams_push", ctypes.c_int, [handle, integers, floats, integers, count, partial]),
        ("streams_push_frames", ctypes.c_int, [handle, integers, handle, integers, count, partial]),
        ("streams_finish", ctypes.c_int, [handle, count, hypothesis, pointer(pointer(DecodedAgainView)), integers,
                                          pointer(pointer(UtteranceView)), integers]),
        ("streams_close", ctypes.c_int, [handle, count]),
    ]:
        function = getattr(library, f"rtfx_{name}")
        function.restype, function.argtypes = result, arguments
    return library


_library = _load()
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_in.restype, _pointer_in.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def load_plugin(plugin: bytes) -> None:
    """Loads a plugin. It finds the library's symbols only if these are global, and ctypes does not make them global."""
    ctypes.CDLL(str(_PATH), mode=os.RTLD_NOLOAD | os.RTLD_GLOBAL)
    call("load_plugin", plugin)


class Handle:
    """Owns an object of the library through its handle. It cannot be copied, since the handle is freed once."""

    _instead = "load the model in the other process"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"rtfx.{type(self).__name__} cannot be copied or pickled; {self._instead}")


# A child of os.fork() has the memory of its parent but none of its threads. Waiting for those of OpenMP would never
# end, and CUDA does not work at all.
_used = False  # this process has used the library
_lost = False  # the parent of this process had used it


def _after_fork() -> None:
    global _lost
    _lost = _used


os.register_at_fork(after_in_child=_after_fork)


def require_own_process() -> None:
    """Raises Error in a child of os.fork() whose parent had used the library."""
    if _lost:
        raise Error("rtfx: not after os.fork(), since the parent has used it; start processes by spawn instead")


def call(name: str, *arguments: Any) -> Any:
    """Calls rtfx_<name> and returns its result. Raises InputError or Error with the library's message. Other threads
    of Python continue during the call."""
    global _used
    require_own_process()
    _used = True
    result = getattr(_library, f"rtfx_{name}")(*arguments)
    if result is None or result == -1:
        error = message(_library.rtfx_error())
        raise (InputError if _library.rtfx_error_is_input() else Error)(error)
    return result


def run_until_interrupted(work: Callable[[ctypes.c_int32], Any]) -> Any:
    """Returns work(stop), which runs on a thread of its own. A signal such as Ctrl-C reaches Python only on the main
    thread, and not during a call of the library. If the signal raises, `stop` becomes 1, and `work` must return. If
    `work` has not begun by then, it never does. Further signals have no effect, because the model is in use until
    then."""
    stop, busy = ctypes.c_int32(0), threading.Lock()

    def guarded() -> Any:
        with busy:
            return None if stop.value else work(stop)

    worker = ThreadPoolExecutor(1)
    try:
        return worker.submit(guarded).result()
    except BaseException:  # submit() also raises, after the thread may have begun
        stop.value = 1
        while True:
            with contextlib.suppress(BaseException), busy:  # also SystemExit, which signal handlers may raise
                break
        raise
    finally:
        worker.shutdown(wait=False)


def call_json(name: str, *arguments: Any) -> Any:
    return json.loads(call(name, *arguments))


def path(value: str | os.PathLike, where: str = "path") -> bytes:
    """Encodes a path, or another text, for C."""
    return encoded(value, where, os.fsencode)


def number(value: Any, where: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{where}: {value!r}; give a number") from None


def text(value: Any, where: str) -> bytes:
    return path(str(value), where)


def spoken(value: Any, where: str) -> bytes:
    """Encodes the text of a clip. A table has NaN or None where a text is missing, and neither is a word."""
    if not isinstance(value, str):
        raise InputError(f"{where}: {value!r}; give a text")
    return text(value, where)


def tensor_of(pointer: int) -> torch.Tensor:
    """Returns a DLManagedTensor of the library as a tensor, which takes ownership."""
    return torch.from_dlpack(_new_capsule(pointer, _CAPSULE, None))


def result_tensor(result: int, name: str) -> torch.Tensor | None:
    pointer = _library.rtfx_result_tensor(result, name.encode())
    return None if pointer is None else tensor_of(pointer)


def pointer_of(tensor: torch.Tensor) -> int:
    """Returns a DLManagedTensor of a batch of frames, for a function that takes ownership."""
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"frames: {type(tensor).__name__}; give a torch tensor on the model's device")
    require_values("frames", tensor)
    capsule = torch.utils.dlpack.to_dlpack(_resolved(tensor))
    pointer = _pointer_in(capsule, _CAPSULE)
    _rename(capsule, b"used_dltensor")  # DLPack requires it of the new owner of a tensor
    return pointer


def require_values(where: str, tensor: torch.Tensor) -> None:
    kind = (
        "a tensor without values" if tensor.is_meta
        else "a nested tensor" if tensor.is_nested
        else "a quantized tensor" if tensor.is_quantized
        else f"a tensor of layout {tensor.layout}" if tensor.layout != torch.strided
        else None
    )  # fmt: skip
    if kind:
        raise InputError(f"{where}: {kind}; give a dense one with values")


def samples_of(audio: Any, where: str = "audio") -> torch.Tensor:
    """Returns the elements of a tensor, an array or a list of floats as [n] float32 on the host. `where` names it in
    errors."""
    if isinstance(audio, bytes):
        raise InputError(f"{where}: bytes; give a path as a text, or [n] floats: mono samples in [-1, 1]")
    if hasattr(audio, "__array_interface__") and hasattr(audio, "flags"):  # an array of numpy
        # torch supports only the machine's byte order, and strides that are whole elements and not negative. It warns
        # of memory that it may not write.
        native = audio.dtype.newbyteorder("=")
        odd = any(stride < 0 or stride % max(1, audio.itemsize) for stride in audio.strides)
        if native != audio.dtype or not audio.flags.writeable or odd:
            audio = audio.astype(native)
    try:
        samples = torch.as_tensor(audio)
    except (OverflowError, RuntimeError, TypeError, ValueError):
        raise InputError(f"{where}: {type(audio).__name__}; give [n] floats: mono samples in [-1, 1]") from None
    require_values(where, samples)
    if samples.dim() != 1 or not samples.is_floating_point():
        shape = tuple(samples.shape)
        raise InputError(f"{where}: {samples.dtype} of shape {shape}; give [n] floats: mono samples in [-1, 1]")
    return _resolved(samples).to("cpu", torch.float32).contiguous()


def _resolved(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor without gradients and with its true values, because a view may negate or conjugate its
    memory."""
    return tensor.detach().resolve_conj().resolve_neg()


def free_with(owner: Handle, name: str) -> None:
    """Frees the owner's handle when the collector ends the owner. This may happen on any thread, and during a call for
    another object of the model, which library.h allows. At the end of the process, a daemon thread may be
    using it, and the system frees all memory anyway."""
    weakref.finalize(owner, free, name, owner._handle).atexit = False


def free(name: str, handle: int) -> None:
    if not _lost:
        getattr(_library, f"rtfx_{name}_free")(handle)


def version() -> str:
    """Returns version and revision of rtfx, and the LibTorch that it was built against."""
    return _library.rtfx_version().decode()


__version__ = version().split()[1]  # for example "0.1.0"
