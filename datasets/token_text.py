#!/usr/bin/env python3
"""Writes texts as the tokens of a model, which n-gram language models are trained on: token_text.py MODEL TEXT ...

MODEL is a .nemo file with a SentencePiece tokenizer, or the tokenizer's .model file. TEXT is a manifest (.jsonl), whose
texts are taken, or a file with a text in each line, plain or gzip. Each line of the output holds the decimal token ids of
a text, as KenLM reads words. Texts are written in lower case where the tokenizer has no capitals. Empty texts are left
out and counted, and so are texts with a character that the tokenizer lacks.

  datasets/token_text.py data/model.nemo data/slurp/train.jsonl | lmplz -o 6 --discount_fallback | gzip > data/lm/slurp_6gram.arpa.gz
"""

import argparse
import gzip
import json
import sys
import tarfile
from pathlib import Path

import sentencepiece


class UserError(Exception):
    """An error of the user. Its text has the form "where: problem; remedy"."""


def load_tokenizer(path):
    if path.suffix != ".nemo":
        return sentencepiece.SentencePieceProcessor(model_file=str(path))
    with tarfile.open(path) as archive:
        members = [member for member in archive if member.name.endswith("tokenizer.model")]
        if len(members) != 1:
            raise UserError(f"{path}: has no SentencePiece tokenizer; give the tokenizer's .model file")
        return sentencepiece.SentencePieceProcessor(model_proto=archive.extractfile(members[0]).read())


def texts_of(path):
    data = path.read_bytes()
    text = (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode("utf-8-sig")
    is_manifest = ".jsonl" in path.suffixes
    for line in text.split("\n"):
        if line.strip():
            yield (json.loads(line).get("text") or "") if is_manifest else line.removesuffix("\r")


def has_capitals(tokenizer):
    return any(character.isupper() for i in range(tokenizer.get_piece_size())
               for character in tokenizer.id_to_piece(i) if not tokenizer.is_unknown(i))  # fmt: skip


def lines_of(tokenizer, texts, left_out):
    """Yields the token ids of each text, and appends the others to `left_out`."""
    lower = not has_capitals(tokenizer)
    for text in texts:
        ids = tokenizer.encode(text.lower() if lower else text)
        if not ids or any(map(tokenizer.is_unknown, ids)):
            left_out.append(text)
        else:
            yield " ".join(map(str, ids))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("texts", type=Path, nargs="+", metavar="TEXT")
    arguments = parser.parse_args()
    left_out, count = [], 0
    try:
        tokenizer = load_tokenizer(arguments.model)
        for path in arguments.texts:
            for line in lines_of(tokenizer, texts_of(path), left_out):
                print(line)
                count += 1
    except (UserError, OSError, ValueError, RuntimeError) as error:
        raise SystemExit(f"token_text: error: {error}") from None
    print(f"token_text: {count} texts; {len(left_out)} left out, which are empty or have unknown characters",
          file=sys.stderr)  # fmt: skip
    if count == 0:
        raise SystemExit("token_text: error: no text is left; check the texts and their spelling")


if __name__ == "__main__":
    main()
