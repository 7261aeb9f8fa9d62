#!/usr/bin/env python3
"""Writes texts as the tokens of a model, which n-gram language models are trained on: token_text.py MODEL TEXT ...

MODEL is a .nemo file with a SentencePiece tokenizer, or the tokenizer's .model file. TEXT is a manifest (.json, .jsonl or
.manifest), whose texts are taken, or a file with a text in each line. Both may be packed by gzip. Each line of the output
holds the decimal token ids of a text, as KenLM reads words. Texts are written in lower case where the tokenizer has no
capitals. Empty texts are left out and counted, and so are texts with a character that the tokenizer lacks.

  datasets/token_text.py data/model.nemo data/slurp/train.jsonl | lmplz -o 6 --discount_fallback | gzip > data/lm/slurp_6gram.arpa.gz
"""

import argparse
import sys
import tarfile
import zlib
from pathlib import Path

import sentencepiece

import text_lines
from user_errors import UserError, run_script

MANIFESTS = (".json", ".jsonl", ".manifest")  # the endings of datasets/manifest.cpp


def load_tokenizer(path):
    try:
        if path.suffix != ".nemo":
            return sentencepiece.SentencePieceProcessor(model_file=str(path))
        with tarfile.open(path) as archive:
            members = [member for member in archive if member.name.endswith("tokenizer.model")]
            if len(members) != 1:
                raise UserError(f"{path}: has no SentencePiece tokenizer; give the tokenizer's .model file")
            return sentencepiece.SentencePieceProcessor(model_proto=archive.extractfile(members[0]).read())
    except (tarfile.TarError, EOFError, zlib.error, RuntimeError) as error:
        raise UserError(f"{path}: {error}; give a whole file") from None


def texts_of(path):
    if path.name.lower().removesuffix(".gz").endswith(MANIFESTS):
        yield from (text_lines.text_of(place, line, "text") for place, line in text_lines.objects_of(path))
    else:
        yield from (line for line in text_lines.lines_of(path) if line.strip())


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
    tokenizer = load_tokenizer(arguments.model)
    for path in arguments.texts:
        for line in lines_of(tokenizer, texts_of(path), left_out):
            print(line)
            count += 1
    print(f"token_text: {count} texts; {len(left_out)} left out, which are empty or have unknown characters",
          file=sys.stderr)  # fmt: skip
    if count == 0:
        raise UserError("no text is left; check the texts and their spelling")


if __name__ == "__main__":
    run_script("token_text", main)
