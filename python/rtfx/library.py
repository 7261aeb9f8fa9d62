"""librtfx through ctypes (library.h)."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from rtfx.errors import Error, InputError

FOLDER = Path(__file__).parent
_CAPSULE = b"dltensor"


def _load() -> ctypes.CDLL:
    """LibTorch's libraries are in this process already, by `import torch`; librtfx finds them by name."""
    try:
        library = ctypes.CDLL(str(FOLDER / "lib/librtfx.so"))
    except OSError as error:
        raise ImportError(
            f"rtfx does not load beside torch {torch.__version__}: {error}; docs/python.md says which releases do"
        ) from None
    text, handle, integers = ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64)
    floats, count = ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64
    for name, result, arguments in [
        ("error", text, []),
        ("error_is_input", ctypes.c_int, []),
        ("version", text, []),
        ("load_plugin", ctypes.c_int, [text]),
        ("model_load", handle, [text, text, text, integers, count]),
        ("model_json", text, [handle]),
        ("model_free", None, [handle]),
        ("words", text, [handle, integers, integers, integers, count, text]),
        ("decoder_new", handle, [handle, text, text]),
        ("decoder_json", text, [handle]),
        ("decoder_free", None, [handle]),
        ("read_audio", handle, [text, ctypes.c_int, ctypes.POINTER(text)]),
        ("encode", handle, [handle, floats, integers, count, integers]),
        ("decode", handle, [handle, handle, integers, count]),
        ("result_tensor", handle, [handle, text]),
        ("result_json", text, [handle]),
        ("result_free", None, [handle]),
        ("streams_of_speech", handle, [handle, handle, count, count, ctypes.POINTER(ctypes.c_double)]),
        ("streams_of_frames", handle, [handle, count, count]),
        ("streams_json", text, [handle]),
        ("streams_free", None, [handle]),
        ("streams_open", count, [handle, text]),
        ("streams_push", text, [handle, integers, floats, integers, count]),
        ("streams_push_frames", text, [handle, integers, handle, integers, count]),
        ("streams_finish", text, [handle, count]),
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


class Handle:
    """An object of the library behind a handle. A copy would share the handle, which is freed once."""

    _instead = "load the model in the other process"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"rtfx.{type(self).__name__} cannot be copied or pickled; {self._instead}")


def call(name: str, *arguments: Any) -> Any:
    """The result of rtfx_<name>; raises what it says. Other threads of Python go on meanwhile."""
    result = getattr(_library, f"rtfx_{name}")(*arguments)
    if result is None or result == -1:
        message = _library.rtfx_error().decode(errors="surrogateescape")
        raise (InputError if _library.rtfx_error_is_input() else Error)(message)
    return result


def call_json(name: str, *arguments: Any) -> Any:
    return json.loads(call(name, *arguments))


def text(value: Any) -> bytes:
    return str(value).encode(errors="surrogateescape")


def integers(values: Sequence[int], where: str = "integers") -> ctypes.Array:
    try:
        return (ctypes.c_int64 * max(1, len(values)))(*map(int, values))
    except (OverflowError, TypeError, ValueError):
        raise InputError(f"{where}: {values}; give integers") from None


def tensor_of(pointer: int) -> torch.Tensor:
    """A DLManagedTensor of the library's as a tensor, which owns it from now on."""
    return torch.from_dlpack(_new_capsule(pointer, _CAPSULE, None))


def result_tensor(result: int, name: str) -> torch.Tensor | None:
    pointer = _library.rtfx_result_tensor(result, name.encode())
    return None if pointer is None else tensor_of(pointer)


def pointer_of(tensor: torch.Tensor) -> int:
    """A DLManagedTensor of a batch of frames, for a function that takes it over."""
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"frames: {type(tensor).__name__}; give a torch tensor on the model's device")
    require_values("frames", tensor)
    capsule = torch.utils.dlpack.to_dlpack(tensor.detach())
    pointer = _pointer_in(capsule, _CAPSULE)
    _rename(capsule, b"used_dltensor")  # as DLPack asks of whoever takes a tensor over
    return pointer


def require_values(where: str, tensor: torch.Tensor) -> None:
    if tensor.layout != torch.strided or tensor.is_meta:
        kind = "a tensor without values" if tensor.is_meta else f"a tensor of layout {tensor.layout}"
        raise InputError(f"{where}: {kind}; give a dense one with values")


def samples_of(audio: Any, where: str = "audio") -> torch.Tensor:
    """[n] float32 on the host of a tensor, an array or a list of floats. `where` names it in errors."""
    if any(stride < 0 for stride in getattr(audio, "strides", ())):
        audio = audio.copy()  # torch knows no negative strides
    try:
        samples = torch.as_tensor(audio)
    except (OverflowError, RuntimeError, TypeError, ValueError):
        raise InputError(f"{where}: {type(audio).__name__}; give [n] floats: mono samples in [-1, 1]") from None
    require_values(where, samples)
    if samples.dim() != 1 or not samples.is_floating_point():
        shape = tuple(samples.shape)
        raise InputError(f"{where}: {samples.dtype} of shape {shape}; give [n] floats: mono samples in [-1, 1]")
    return samples.detach().to("cpu", torch.float32).contiguous()


def free(name: str, handle: int) -> None:
    getattr(_library, f"rtfx_{name}_free")(handle)


def number_of_version() -> str:
    """The version alone, for example "0.1.0"."""
    return version().split()[1]


def version() -> str:
    """Version and revision of rtfx, and the LibTorch that it was built against."""
    return call("version").decode()
