"""Boosted phrases in our searches beside a rival's: boost_table.py RUN [-o FILE.md]

RUN is the folder of a run of configs/rivals/boosting.json, or its journal. The script prints a table for each search
and each way in which the rival does it. Three columns each show F-score, word error rate in percent, and seconds of
decoding a pass. The three columns are rtfx by its own rules, rtfx by the rival's rules ("compatibility": "nemo"), and
the rival. The seconds are a mean over all rounds. The last columns count the utterances in which the rival's tokens,
and its frames too, equal those of rtfx by the same rules, and name the first that differs. They need the folder
hypotheses/ of the run. Without it they show "all" where the hashes of tokens, frames and durations are equal, else "–".
"""

import argparse
from pathlib import Path

from boost import by_rules_of_nemo, f_score, is_nemo, magnitude, package, phrases, search, seconds
from journal import plain_or_gzip, read_journal, read_records, stand_in_sentences, wer_percent
from script import OneLineParser, decimal, file_of, markdown, run_script, write_text

HEADS = ["phrases", "boost", "F, rtfx", "F, its rules", "F, rival", "WER, rtfx", "WER, its rules", "WER, rival",
         "s, rtfx", "s, its rules", "s, rival", "rival / rtfx", "equal tokens", "frames too", "first other"]  # fmt: skip


def settings(case):
    return case.model, case.dataset, case.batch, case.dtype, search(case)


def ours_like(case, cases):
    """Returns the cases of rtfx with the same phrases and boost, by its own rules and by the rival's; None for a missing one."""
    like = [c for c in cases if not is_nemo(c) and settings(c) == settings(case)
            and (phrases(c), magnitude(c)) == (phrases(case), magnitude(case))]  # fmt: skip
    own = next((c for c in like if not by_rules_of_nemo(c)), None)
    theirs = next((c for c in like if by_rules_of_nemo(c)), None)
    return own, theirs


def hypotheses(folder, case):
    path = folder / "hypotheses" / f"{case.last['result_key']}.jsonl"
    return read_records(path) if plain_or_gzip(path).is_file() else None


def equality(folder, ours, rival):
    """Returns three cells: utterances with equal tokens, with equal frames too, and the first with other tokens."""
    if ours is None:
        return ["–"] * 3
    pairs = [hypotheses(folder, case) for case in (ours, rival)]
    if None in pairs:
        same = ours.last["tokens_sha256"] == rival.last["tokens_sha256"]
        return ["all", "all", "–"] if same else ["–"] * 3
    pairs = list(zip(*pairs, strict=True))
    tokens = [a["tokens"] == b["tokens"] for a, b in pairs]
    both = [same and a["frames"] == b["frames"] for same, (a, b) in zip(tokens, pairs)]
    other = next((a["id"] for same, (a, _) in zip(tokens, pairs) if not same), "–")
    return [f"{sum(tokens)} of {len(pairs)}", str(sum(both)), markdown(other)]


def row(rival, cases, folder):
    own, same_rules = ours_like(rival, cases)
    three = [own, same_rules, rival]
    shown = [case and seconds(case)[0] for case in three]
    base = shown[1] or shown[0]
    cells = [markdown(phrases(rival) or "none"), "–" if magnitude(rival) is None else f"{magnitude(rival):g}"]
    cells += [decimal(case and f_score(case), 1) for case in three]
    cells += [decimal(case and wer_percent(case), 2) for case in three]
    cells += [decimal(value, 2) for value in shown]
    cells += [decimal(base and shown[2] / base, 2)]
    return cells + equality(folder, same_rules or (own if magnitude(rival) is None else None), rival)


def tables(journal, folder):
    cases = [case for case in journal.cases if case.rounds]
    rivals = {}
    for case in cases:
        if is_nemo(case):
            rivals.setdefault((*settings(case), package(case)), []).append(case)
    for (model, dataset, batch, dtype, name, rival), some in rivals.items():
        yield f"## {markdown(model)}, {markdown(dataset)}, batch {batch}, {dtype}: {name} beside {markdown(rival)}"
        lines = ["| " + " | ".join(HEADS) + " |", "|---|" + "--:|" * (len(HEADS) - 2) + "---|"]
        some = sorted(some, key=lambda case: (phrases(case) or "", magnitude(case) or 0))
        lines += ["| " + " | ".join(row(case, cases, folder)) + " |" for case in some]
        where = (model, dataset, batch, dtype, name)
        rounds = [run for case in cases if settings(case) == where for run in case.rounds]
        suspect = sum(bool(run.get("suspect")) for run in rounds)
        if suspect:
            yield f"{suspect} of {len(rounds)} rounds of these decoders are suspect."
        yield "\n".join(lines)


def main():
    parser = OneLineParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run, or a journal")
    parser.add_argument("-o", "--output", type=file_of("md"), help="file.md")
    arguments = parser.parse_args()
    journal = read_journal(arguments.run)
    parts = [*map(markdown, stand_in_sentences(journal.cases)), *tables(journal, journal.path.parent)]
    if not any(part.startswith("##") for part in parts):
        raise SystemExit(f"{journal.path}: no decoders of a rival")
    text = "\n\n".join(parts) + "\n"
    print(text, end="")
    if arguments.output:
        write_text(arguments.output, text)


if __name__ == "__main__":
    run_script(main)
