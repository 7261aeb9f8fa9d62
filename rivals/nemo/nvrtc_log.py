"""Keeps the CUDA compiler's log out of Python's constants, for NeMo up to 3.0.0.

NeMo has the compiler write its log, empty where all is well, into `b" " * 1`. Python has a single object for that
byte, so the byte is NUL in the whole process from then on (NVIDIA-NeMo/Speech#15790). Spaces are then printed as NUL,
and a second checkpoint may not unpickle."""


def keep_out_of_constants():
    """Makes logs at least two bytes long, so that Python creates an object for each."""
    from nemo.core.utils import cuda_python_utils

    nvrtc = getattr(cuda_python_utils, "nvrtc", None)  # without cuda-python there is none
    if nvrtc is None or hasattr(nvrtc, "size_of_log"):
        return
    nvrtc.size_of_log = nvrtc.nvrtcGetProgramLogSize

    def at_least_two(program):
        error, size = nvrtc.size_of_log(program)
        return error, max(size, 2)

    nvrtc.nvrtcGetProgramLogSize = at_least_two
