"""Text that others wrote, made fit for terminals, drawings, Markdown and LaTeX.

Ids, texts, names of models and decoders, paths and messages come from journals that anyone may have
written. `printable` is that of base/printable.h.
"""

import re

# Control characters, ends of lines, and what changes the direction of text.
OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}

LATEX = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "–": "--",
    "±": r"$\pm$",
} | {character: "\\" + character for character in "&%$#_{}"}


def visible(match):
    character = match[0]
    code = ord(character)
    return SHORT.get(character) or (f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}")


def printable(text):
    """On one line, without anything that a terminal obeys."""
    return OBEYED.sub(visible, str(text))


def printable_json(value):
    """The same of every text in a JSON value."""
    if isinstance(value, dict):
        return {printable(key): printable_json(member) for key, member in value.items()}
    if isinstance(value, list):
        return [printable_json(element) for element in value]
    return printable(value) if isinstance(value, str) else value


def markdown(text):
    """For a cell of a table and for running text: neither markup nor HTML. What cannot be either,
    such as the underscore within a name, stays as it is."""
    text = re.sub(r"[\\`*|$]", r"\\\g<0>", printable(text))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)
    return text.replace("](", r"]\(").replace("~~", r"\~\~")


def latex(text):
    """For a cell of a table, a heading or a comment."""
    return "".join(LATEX.get(character, character) for character in printable(text))
