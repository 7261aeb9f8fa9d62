"""prose.py [--table] [FILE ...]: checks how the project writes, and fails where it is hard to read.

A page (*.md) may have 20 words a sentence on average, and no sentence of more than 30. Code, tables and
headings do not count. A comment in a source may have no sentence of more than 30 words either. No line of
a comment or docstring may open with a fragment such as "What" or "The same", which leaves out who does
what. Without FILE, all files that git tracks are checked, and `codespell` checks their spelling.
--table prints the number of words of a sentence, mean and largest, of each page.
"""

import argparse
import ast
import io
import re
import statistics
import subprocess
import sys
import tokenize
from pathlib import Path

import pysbd
from markdown_it import MarkdownIt

MEAN_WORDS = 20
MOST_WORDS = 30
FRAGMENT = re.compile(r"(What|Of|The same|As|By|For|That of)\b")
CPP = {".h", ".cpp", ".cu", ".cuh"}
SCRIPTS = {".sh", ".cmake"}
SPLITTER = pysbd.Segmenter(language="en", clean=False)
MARKDOWN = MarkdownIt("commonmark").enable("table")


def sentences(text):
    """Returns the sentences of a paragraph. Those without words, such as a list of numbers, are left out."""
    text = re.sub(r"`[^`]*`", "code", " ".join(text.split()))
    found = SPLITTER.segment(text) if len(text.split()) > 3 else [text]
    return [s for s in found if len(re.findall(r"[A-Za-z]{2,}", s)) > 2]


def words(sentence):
    return len(re.findall(r"\w[\w'.,-]*", sentence))


def paragraphs(page):
    """Yields the running text of a page, which is its paragraphs and list entries without tables, code and headings."""
    skipped = 0
    for token in MARKDOWN.parse(page.read_text(encoding="utf-8")):
        if token.type in ("table_open", "heading_open"):
            skipped += 1
        elif token.type in ("table_close", "heading_close"):
            skipped -= 1
        elif token.type == "inline" and not skipped:
            parts = {"text": lambda t: t.content, "code_inline": lambda t: "code", "softbreak": lambda t: " "}
            yield "".join(parts.get(child.type, lambda t: "")(child) for child in token.children)


def comment_lines(path):
    """Yields (line number, text) for each line of a comment or docstring."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node):
                first = node.body[0].value.lineno
                for number, line in enumerate(ast.get_docstring(node).splitlines()):
                    yield first + number, line
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            alone = token.line.strip() == token.string
            if token.type == tokenize.COMMENT and alone and not token.string.startswith("#!"):
                yield token.start[0], token.string.lstrip("# ")
        return
    mark = r"^\s*///?\s?(.*)" if path.suffix in CPP else r"^\s*#(?!!)\s?(.*)"
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(mark, line):
            yield number, match[1]


def blocks(lines):
    """Joins comment lines that follow each other, and yields (first line number, text) for each such block. A blank
    line ends a block. So does an indented line, which belongs to a list, a formula or a command."""
    first, last, text = 0, 0, []
    for number, line in sorted(lines):
        line = "" if line.startswith("  ") else line.strip()
        if (number != last + 1 or not line) and text:
            yield first, " ".join(text)
            text = []
        if line and not text:
            first = number
        if line:
            text.append(line)
        last = number
    if text:
        yield first, " ".join(text)


def check_page(path):
    lengths = []
    for paragraph in paragraphs(path):
        for sentence in sentences(paragraph):
            lengths.append(words(sentence))
            if lengths[-1] > MOST_WORDS:
                yield f"{path}: a sentence of {lengths[-1]} words: {sentence[:100]}"
    if lengths and statistics.mean(lengths) > MEAN_WORDS:
        yield f"{path}: {statistics.mean(lengths):.1f} words a sentence on average, {MEAN_WORDS} at most"


def check_source(path):
    lines = list(comment_lines(path))
    for number, line in lines:
        if match := FRAGMENT.match(line.strip()):
            yield f"{path}:{number}: opens with the fragment '{match[1]}': {line.strip()[:80]}"
    for number, text in blocks(lines):
        if len(text.split()) <= MOST_WORDS:
            continue
        for sentence in sentences(text):
            if words(sentence) > MOST_WORDS:
                yield f"{path}:{number}: a sentence of {words(sentence)} words: {sentence[:100]}"


def print_table(pages):
    for page in pages:
        lengths = [words(s) for paragraph in paragraphs(page) for s in sentences(paragraph)]
        if lengths:
            print(f"{statistics.mean(lengths):5.1f} {max(lengths):4d}  {page}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True, check=True
    )
    files = arguments.files or [Path(name) for name in tracked.stdout.split("\0") if name and Path(name).exists()]
    files = [file for file in files if not str(file).startswith(("tests/data/", "tests/golden/data/"))]
    pages = [file for file in files if file.suffix == ".md"]
    if arguments.table:
        print_table(pages)
        return 0
    findings = [finding for page in pages for finding in check_page(page)]
    for file in files:
        if file.suffix in CPP | SCRIPTS | {".py"} or file.name in ("CMakeLists.txt", "Makefile"):
            findings += check_source(file)
    print("\n".join(findings), end="\n" if findings else "")
    readable = [f for f in files if f.suffix in CPP | SCRIPTS | {".py", ".md", ".j2", ".json"} and f.stat().st_size < 300_000]
    spelling = subprocess.run([sys.executable, "-m", "codespell_lib", *map(str, readable)], check=False) if readable else None
    return 1 if findings or (spelling and spelling.returncode) else 0


if __name__ == "__main__":
    sys.exit(main())
