"""Errors of users, which the scripts of this folder print as one line."""


class UserError(Exception):
    """An error of the user. Its text has the form "where: problem; remedy"."""


def run_script(name, work):
    """Calls `work()`. An error of the user or of a file ends the script `name` with one line."""
    try:
        work()
    except (UserError, OSError) as error:
        raise SystemExit(f"{name}: error: {error}") from None
