"""What rtfx raises."""


class Error(RuntimeError):
    """What went wrong in rtfx."""


class InputError(Error, ValueError):
    """Bad input: a file, a value, an option; "where: problem; remedy"."""
