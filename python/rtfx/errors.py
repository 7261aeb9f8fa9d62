"""The exceptions of rtfx."""


class Error(RuntimeError):
    """An error of rtfx."""


class InputError(Error, ValueError):
    """Bad input: a file, a value, an option; "where: problem; remedy"."""
