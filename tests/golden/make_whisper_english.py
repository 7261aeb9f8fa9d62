"""Makes lines of many kinds and what the package whisper-normalizer makes of them.

  python -m venv v && v/bin/pip install whisper-normalizer==0.1.15
  v/bin/python tests/golden/make_whisper_english.py tests/golden/data/whisper_english.jsonl.gz

writes JSON lists [input, its words with a space between them]. Other lines (`--seed`, `--lines`), or
those of text files (`--text`), are compared with the program's by

  RTFX_WHISPER_ENGLISH=FILE build/release/tests/rtfx_test_harness --gtest_filter='WhisperEnglish*'

Lines on which the package itself fails (an assertion) are left out, and counted.
"""

import argparse
import gzip
import json
import random
import unicodedata
from importlib import metadata
from pathlib import Path

from whisper_normalizer.english import EnglishTextNormalizer

NORMALIZER = EnglishTextNormalizer()
NUMBERS = sorted(NORMALIZER.standardize_numbers.words)
SPELLINGS = sorted(NORMALIZER.standardize_spellings.mapping)
FILLERS = ["uh", "um", "hmm", "mm", "mhm", "mmm", "uhm", "Um,", "uh-huh", "mm-hmm"]
CONTRACTIONS = """won't can't let's ain't y'all wanna kinda sorta dunno gotta gonna i'ma imma woulda coulda
    shoulda cause ma'am it's he's she'd they'd we've I'm you're don't isn't dog's dogs' 'tis 'cause rock'n'roll
    she'd been it's been he'd gone who's gone I'd done she's got o'clock don t y 'all it 's we ’ve don’t""".split()
TITLES = (
    """Mr. Mrs. St. Dr. Prof. Capt. Gov. Ald. Gen. Sen. Rep. Pres. Rev. Hon. asst. assoc. lt. col. jr. sr.
    esq. MR mrs Dr St U.S. U.K. e.g. i.e. a.m. p.m. Ph.D. Mt. vs. etc. No. www.example.com B.B.C.""".split()
)
WORDS = """the a an of and to in was it he that she with said one ones had no first second point half hundred and
    cat house river morning London per cent naïve café Beyoncé coöperate façade smörgåsbord Œuvre œuvre straße
    ŁÓDŹ Þór Æsir Đà ðe İstanbul ΣΊΣΥΦΟΣ Привет 你好 ½ ² ①  ﬁne Ⅷ ٣ ٣.٥ x_y state-of-the-art well-known""".split()
SIGNS = list(
    "!?,.;:'\"-–—…%$€£¢&@#*+/\\|=~^`´’‘“”«»°©™§¶†‡•·<>[](){}_ \t\u00a0\u2009\u3000\u200b\u0301\u0327"
)
BRACKETS = [
    "[laughter]",
    "(inaudible)",
    "<unk>",
    "[noise",
    "()",
    "(a (b) c)",
    "<a]",
    "[b>",
    "(x",
    "y)",
    "[]",
    "({z})",
]


def spelled(rng, value):
    ones = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    ones = ones.split() + ["seventeen", "eighteen", "nineteen"]
    tens = "twenty thirty forty fifty sixty seventy eighty ninety".split()
    if value < 20:
        return ones[value]
    if value < 100:
        rest = value % 10
        return tens[value // 10 - 2] + (rng.choice([" ", "-"]) + ones[rest] if rest else "")
    for name, size in (("billion", 10**9), ("million", 10**6), ("thousand", 1000), ("hundred", 100)):
        if value >= size:
            rest = value % size
            joint = rng.choice([" ", " and "])
            return spelled(rng, value // size) + " " + name + (joint + spelled(rng, rest) if rest else "")
    raise AssertionError


def size(rng):
    return rng.randrange(10 ** rng.randint(1, 12))


def number(rng):
    value = size(rng)
    return rng.choice(
        [
            lambda: spelled(rng, value),
            lambda: f"{value}",
            lambda: f"{value:,}",
            lambda: f"{value % 10**6 / 10 ** rng.randint(1, 4)}",
            lambda: f"{rng.randint(0, 130)}{rng.choice(['st', 'nd', 'rd', 'th', 's', ' th', 'km', 'kg', 'x'])}",
            lambda: f"{rng.choice(['$', '€', '£', '¢', '+', '-', '$ ', '₤'])}{value % 10**5}",
            lambda: f"${value % 1000}.{rng.randint(0, 99):02d}",
            lambda: f"${value % 10**6:,}.{rng.randint(0, 9)} {rng.choice(['million', 'billion', 'thousand'])}",
            lambda: f"{value % 100}{rng.choice(['%', ' %', ' percent', ' per cent', ' per mille'])}",
            lambda: f"{rng.randint(1, 2099)}{rng.choice(['s', ' AD', ' B.C.', '-', '/12/', ':30', 'th century'])}",
            lambda: ".".join(str(rng.randint(0, 255)) for _ in range(rng.randint(2, 4))),
            lambda: f"{spelled(rng, value % 10**4)} {rng.choice(NUMBERS)} {spelled(rng, rng.randint(0, 99))}",
            lambda: f"{spelled(rng, value % 1000)} dollars and {spelled(rng, rng.randint(0, 130))} cents",
            lambda: f"{spelled(rng, value % 1000)} {rng.choice(['pounds', 'euros', 'dollar'])} {rng.randint(0, 99)} cents",
            lambda: f"{spelled(rng, value % 100)} and a half {rng.choice(['million', 'hours', 'percent', ''])}",
            lambda: f"{spelled(rng, value % 100)} point {' '.join(spelled(rng, rng.randint(0, 99)) for _ in range(3))}",
            lambda: f"{rng.choice(['double', 'triple'])} {rng.choice(NUMBERS)}",
            lambda: f"{rng.choice(['minus', 'plus', 'negative', 'positive'])} {spelled(rng, value % 100)}",
            lambda: f"nineteen {spelled(rng, rng.randint(0, 99))}",
            lambda: " ".join(rng.choices(NUMBERS, k=rng.randint(2, 9))),
        ]
    )()


def character(rng):
    while True:
        c = chr(
            rng.choice(
                [rng.randrange(32, 0x250), rng.randrange(0x250, 0x3000), rng.randrange(0x3000, 0x1F700)]
            )
        )
        # Python and ICU treat characters younger than Unicode 13 differently in different versions.
        if unicodedata.category(c) not in ("Cs", "Cn", "Co") and unicodedata.name(c, ""):
            return c


def token(rng):
    return rng.choice(
        [
            lambda: number(rng),
            lambda: rng.choice(NUMBERS),
            lambda: rng.choice(SPELLINGS),
            lambda: rng.choice(FILLERS),
            lambda: rng.choice(CONTRACTIONS),
            lambda: rng.choice(TITLES),
            lambda: rng.choice(WORDS),
            lambda: rng.choice(WORDS),
            lambda: rng.choice(BRACKETS),
            lambda: rng.choice(SIGNS),
            lambda: "".join(character(rng) for _ in range(rng.randint(1, 4))),
            lambda: "".join(rng.choices("abst'd .,$%019€¢1", k=rng.randint(1, 8))),
        ]
    )()


def line(rng):
    kind = rng.random()
    if kind < 0.2:
        tokens = [number(rng) for _ in range(rng.randint(1, 3))]
    elif kind < 0.4:
        tokens = [rng.choice(WORDS + CONTRACTIONS + TITLES + FILLERS) for _ in range(rng.randint(1, 7))]
    else:
        tokens = [token(rng) for _ in range(rng.randint(1, 6))]
    text = "".join(t + rng.choice([" "] * 8 + ["", ", ", ". ", "-"]) for t in tokens)
    return rng.choice([str, str, str, str.upper, str.capitalize])(
        text.strip() if rng.random() < 0.9 else text
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("--lines", type=int, default=12000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text", type=Path, nargs="*", help="text files in place of made lines")
    args = parser.parse_args()
    assert metadata.version("whisper-normalizer") == "0.1.15"
    rng = random.Random(args.seed)
    if args.text:
        lines = [line for path in args.text for line in path.read_text(encoding="utf-8").splitlines()]
    else:
        lines = SPELLINGS + NUMBERS + [line(rng) for _ in range(args.lines - len(SPELLINGS) - len(NUMBERS))]
    failed = 0
    # A gzip file without name and time is the same for the same lines.
    with args.output.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as out:
        for text in lines:
            try:
                expected = " ".join(NORMALIZER(text).split())
            except AssertionError:
                failed += 1
                continue
            out.write((json.dumps([text, expected], ensure_ascii=False) + "\n").encode())
    print(f"{len(lines) - failed} lines, {failed} failed in the package")


if __name__ == "__main__":
    main()
