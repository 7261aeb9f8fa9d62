"""Reading text files line by line."""


def lines_of(path):
    """Returns the lines of a UTF-8 file, without their ends. str.splitlines() would also divide at U+2028 and the like."""
    with open(path, encoding="utf-8-sig") as file:
        return [line.removesuffix("\n") for line in file]
