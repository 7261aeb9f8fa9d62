"""Compares figures of pages with the journals that they come from. reports/figures.py and note_figures.py list them.

A page prints a number in a sentence or in a cell. `figure()` states the sentence or the row, with `{}` in the place of
each number, and the values. `stated()` states words whose numbers no journal holds, such as a setting, a limit or a
figure of a paper.
"""

import inspect
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from intervals import half_interval, paired_ratio
from journal import read_records, read_text

ROOT = Path(__file__).parents[2]
NUMBER = r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?"
REASONS = ("data", "limit", "meaning", "paper", "setting")


@dataclass
class Source:
    """A file below reports/, plain or packed. It holds JSON lines, or the output of Google Benchmark."""

    file: str
    read: list | None = field(default=None, repr=False)

    def records(self, **wanted):
        """Returns the records with the wanted fields. `model`, `dataset` and `decoder` are ids, `batch` is a size, and
        other fields are compared as they are."""
        if self.read is None:
            path = ROOT / "reports" / self.file
            is_benchmark = self.file.removesuffix(".gz").endswith(".json")
            self.read = json.loads(read_text(path))["benchmarks"] if is_benchmark else read_records(path)
        found = [r for r in self.read if all(self.field(r, key) == value for key, value in wanted.items())]
        if not found:
            raise LookupError(f"reports/{self.file} has no record with {wanted}")
        return found

    @staticmethod
    def field(record, key):
        value = record.get(key)
        if isinstance(value, dict):
            value = value.get("id", value.get("size"))
        return value

    def rounds(self, value, **wanted):
        """Returns a value of each measured round of one case. `value` is the name of a metric, or a function of the
        record."""
        wanted.setdefault("kind", "run")
        records = self.records(**wanted)
        keys = [record.get("result_key") for record in records]
        records = [record for record in records if record.get("result_key") == keys[-1]]
        cases = {record.get("case") for record in self.records(**wanted)}
        if len(cases) > 1:
            raise LookupError(f"reports/{self.file} has {len(cases)} cases with {wanted}: {sorted(cases)[:3]}")
        return [value(r) if callable(value) else r["metrics"][value] for r in records]

    def mean(self, value, **wanted):
        return fmean(self.rounds(value, **wanted))

    def both(self, value, **wanted):
        return mean_and_half(self.rounds(value, **wanted))

    def wer(self, **wanted):
        """Returns the word error rate in percent."""
        return self.mean(lambda record: 100 * record["wer"]["wer"], **wanted)


def mean_and_half(values):
    """Returns the mean and half of its 95 % interval."""
    return fmean(values), half_interval(values)


def mean_and_ends(values):
    """Returns the mean and the ends of its 95 % interval."""
    mean, half = mean_and_half(values)
    return mean, mean - half, mean + half


def ratio(times, reference):
    """Returns mean of `reference` / mean of `times`, and the 95 % interval of the ratio from paired rounds."""
    return fmean(reference) / fmean(times), *paired_ratio(times, reference)


def decode(record):
    """Returns the seconds of decoding alone."""
    return record["regions"]["decode"]["host_seconds"]


def whole_call(record):
    """Returns the seconds from encoder frames to hypotheses on the host, as plots/rival_table.py does."""
    if record["decoder"]["name"] == "python":
        return decode(record) - record["counters"]["results_us"] / 1e6
    return decode(record) + record["regions"]["d2h"]["host_seconds"]


def algorithm(record):
    """Returns the seconds of a whole call without copies to the host and without the making of Python objects."""
    if record["decoder"]["name"] == "python":
        return whole_call(record) - record["counters"]["objects_us"] / 1e6
    return decode(record)


def equal(record):
    """Returns how many utterances have the baseline's tokens and frames."""
    grades = record["exactness"]["grades"]
    return grades["bitwise"] + grades["exact"]


def span(values):
    """Returns the least and the greatest value, for "from {} to {}"."""
    values = list(values)
    return min(values), max(values)


@dataclass
class Entry:
    place: str  # file and line of the entry
    text: str
    values: tuple
    reason: str | None = None


def place_of_caller():
    """Returns file and line of the call of the function that calls this one."""
    frame = inspect.stack()[2]
    return f"{Path(frame.filename).name}:{frame.lineno}"


class Page:
    """A Markdown page. `unmeasured` has the headings of sections without measured figures."""

    def __init__(self, path, unmeasured=()):
        self.path, self.unmeasured, self.entries = path, unmeasured, []

    def figure(self, text, *values):
        if text.count("{}") != len(values):
            raise ValueError(f"{text!r} has {text.count('{}')} places and {len(values)} values")
        self.entries.append(Entry(place_of_caller(), text, values))

    def stated(self, reason, *texts):
        if reason not in REASONS:
            raise ValueError(f"{reason!r} is none of {REASONS}")
        for text in texts:
            self.entries.append(Entry(place_of_caller(), text, (), reason))


def pattern(text):
    """Returns a pattern in which `{}` is a number, and any space is any space or line break."""
    parts = [re.sub(r"(\\ |\\\n|\s)+", r"\\s+", re.escape(part)) for part in text.split("{}")]
    return re.compile(f"({NUMBER})".join(parts))


def unit(printed):
    """Returns the value of the last digit that counts. Zeros at the end of a whole number may come from rounding, so
    the value for 222,900 is 100. At least three digits count."""
    digits = printed.lstrip("+-").replace(",", "")
    if "." in digits:
        return 10.0 ** -len(digits.split(".")[1])
    zeros = len(digits) - len(digits.rstrip("0"))
    return 10.0 ** max(0, min(zeros, len(digits) - 3))


def agrees(printed, value):
    return abs(float(printed.replace(",", "")) - value) <= unit(printed) * 0.5 * (1 + 1e-6)


# Numbers that need no entry. Those in code, links, headings and generated tables need none either.
ALLOWED = [
    r"\d{4}-\d\d-\d\d(?: and \d\d\b)?",  # dates
    r"\b(?=[0-9a-f]*\d)(?=[0-9]*[a-f])[0-9a-f]{7,12}\b",  # revisions and checksums
    r"\b\d+\.\d+\.\d+\b",  # versions
    r"[A-Za-z_]+-?\d[\w.-]*",  # names: bf16, H100, AN4, RNN-T, SHA-256
    r"\b\d+(?:\.\d+)?B\b",  # sizes of models
    r"\b\d+-gram\b",
    r"\b(?:\d+ % (?:confidence )?interval|\d+th percentiles?)",
    r"\b(?:batch(?:es)?|beams?|scales?|table|figure|version|step)(?: size)?s?(?: of)? \d[\d,.]*(?:(?:, | and | or | to )\d[\d,.]*)*\b",
    r"(?m)^\d+\. ",
]


def blanked(text, span):
    start, end = span
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def without(text, *patterns):
    for found in (m.span() for p in patterns for m in re.finditer(p, text)):
        text = blanked(text, found)
    return text


def measured_text(text):
    """Returns the text with spaces in place of all parts that hold no figures of their own."""
    text = without(text, r"(?s)<!-- (\w+)[^>]*-->.*?<!-- /\1 -->", r"(?s)```.*?```", r"`[^`\n]*`", r"\]\([^)\s]*\)")
    text = without(text, r"(?m)^\|.*\n(?=\|[-:| ]+\|$)", r"(?m)^#.*$")  # heads of tables, headings
    return text


def without_sections(page, text, original):
    for heading in page.unmeasured:
        found = re.search(rf"(?ms)^## {re.escape(heading)}$.*?(?=^## |\Z)", original)
        if not found:
            raise LookupError(f"{page.path} has no section '## {heading}'")
        text = blanked(text, found.span())
    return text


def check(page):
    """Yields a line for each fault of a page."""
    original = (ROOT / page.path).read_text(encoding="utf-8")

    def place(offset):
        return f"{page.path}:{original.count(chr(10), 0, offset) + 1}"

    rest = without_sections(page, measured_text(original), original)
    for entry in page.entries:
        found = list(pattern(entry.text).finditer(original))
        if not found:
            yield f"{page.path}: no longer says '{entry.text}' ({entry.place})"
        for match in found:
            for number, (printed, value) in enumerate(zip(match.groups(), entry.values, strict=True), 1):
                if not agrees(printed, value):
                    yield f"{place(match.start(number))}: prints {printed}, and the journal gives {value:.6g} ({entry.place})"
            rest = blanked(rest, match.span())
    for match in re.finditer(NUMBER, without(rest, *ALLOWED)):
        line = original[original.rfind("\n", 0, match.start()) + 1 : original.find("\n", match.end())]
        yield f"{place(match.start())}: {match[0]} is traced to no journal: {line.strip()[:90]}"
