"""Makes tests/golden/data/sentencepiece_forms.json with SentencePiece (0.2.3). For each of its rules, the file
holds a checksum of the text that the rule makes of all characters.

  python tests/golden/make_sentencepiece_forms.py

The text holds ".X." for each character X of Unicode 3.2, whose mappings do not change any more. No mark composes with
the dot. Each run of white space that a rule keeps is written as one space, since rtfx does so in all forms."""

import hashlib
import json
import re
import sys
import unicodedata
from pathlib import Path

import sentencepiece

RULES = ["nfkc", "nmt_nfkc", "nfkc_cf", "nmt_nfkc_cf"]


def every_character():
    return "".join(f".{chr(code)}." for code in range(1, sys.maxunicode + 1)
                   if unicodedata.ucd_3_2_0.category(chr(code)) not in ("Cn", "Cs", "Co"))  # fmt: skip


def checksum(text):
    return hashlib.sha256(re.sub(r"\s+", " ", text).encode()).hexdigest()


def main():
    forms = {}
    for rule in RULES:
        normalizer = sentencepiece.SentencePieceNormalizer(
            rule_name=rule, add_dummy_prefix=False, escape_whitespaces=False, remove_extra_whitespaces=False)  # fmt: skip
        forms[rule] = checksum(normalizer.normalize(every_character()))
    path = Path(__file__).parent / "data/sentencepiece_forms.json"
    path.write_text(json.dumps(forms, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
