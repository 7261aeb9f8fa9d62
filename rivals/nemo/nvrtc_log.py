"""NeMo up to 3.0.0 has the CUDA compiler write its log, empty where all is well, into `b" " * 1`: the one object that
Python has for that byte, which is NUL in the whole process from then on (NVIDIA-NeMo/Speech#15790). Spaces are printed as
NUL, and a second checkpoint may not unpickle."""


def keep_out_of_constants():
    """Logs of at least two bytes, for which Python makes an object of their own."""
    from nemo.core.utils import cuda_python_utils

    nvrtc = getattr(cuda_python_utils, "nvrtc", None)  # without cuda-python there is none
    if nvrtc is None or hasattr(nvrtc, "size_of_log"):
        return
    nvrtc.size_of_log = nvrtc.nvrtcGetProgramLogSize

    def at_least_two(program):
        error, size = nvrtc.size_of_log(program)
        return error, max(size, 2)

    nvrtc.nvrtcGetProgramLogSize = at_least_two
