#!/usr/bin/env python3
"""Decodes the emissions that `rtfx emissions` wrote with other WFST and lexicon decoders of CTC.

    bench.py --emissions FOLDER --graphs KIT/graphs --lm KIT/lm.arpa --site KIT/site -o rivals.jsonl

Each row gives a line of JSON in the output and on stdout. It holds the median seconds from log-probabilities (in
memory, or on the GPU) to words on the host, the word error rate, and the number of empty results. Every row runs in a
process of its own with a time limit, so that a crash costs only that row. Rows that the output holds already with the
same --scale, --max-active, --runs and --limit are not run again. So give other emissions or graphs another output.
README.md lists the rows.
"""

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from pathlib import Path


def rows(processes):
    for graph in ("compact", "normal"):
        for beam in (10, 17):
            for batch in (32, 128):
                for mode in ("online_end", "nbest", "online"):
                    yield {"kind": "riva", "mode": mode, "graph": graph, "beam": beam, "batch": batch}
            for least in (0, 20):
                yield {"kind": "kaldi", "graph": graph, "beam": beam, "min_active": least,
                       "processes": processes}  # fmt: skip
    for beams in ([32, 32, 20], [500, 32, 17], [2500, 32, 17]):
        yield {"kind": "flashlight", "beams": beams, "processes": processes}


def name(row):
    if row["kind"] == "riva":
        return "riva_{mode}_{graph}_b{beam}_B{batch}".format(**row)
    if row["kind"] == "kaldi":
        return "kaldi_{graph}_b{beam}_m{min_active}_p{processes}".format(**row)
    return f"flashlight_{'-'.join(map(str, row['beams']))}_p{row['processes']}"


def child(options):
    """Decodes one row in a child process, whose last line of stdout is the record."""
    sys.path[:0] = options.site
    import emissions
    from searches import SEARCHES

    row = json.loads(options.row)
    utterances = emissions.read(options.emissions)[: options.limit]
    texts, seconds, about = SEARCHES[row["kind"]](utterances, row, options)
    record = emissions.score(utterances, texts)
    record |= emissions.times(seconds, record["audio_seconds"]) | about
    if options.texts:
        folder = Path(options.texts)
        folder.mkdir(parents=True, exist_ok=True)
        lines = (f"{u.id}\t{' '.join(text)}\n" for u, text in zip(utterances, texts))
        (folder / f"{name(row)}.txt").write_text("".join(lines), encoding="utf-8")
    print("\n" + json.dumps(record), flush=True)
    os._exit(0)  # riva's destructors can hang


def run(row, options):
    """Returns the row's record, or its error."""
    command = [sys.executable, __file__, *sys.argv[1:], "--row", json.dumps(row)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_CACHE_MAXSIZE": str(4 << 30)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=environment, start_new_session=True)  # fmt: skip
    try:
        out, complaints = process.communicate(timeout=options.time_limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # together with the workers that it has forked
        process.communicate()
        return {"error": f"no result in {options.time_limit:g} s"}
    try:
        return json.loads(out.splitlines()[-1])
    except (IndexError, json.JSONDecodeError):
        return {"error": f"ended with {process.returncode}", "log": complaints[-600:]}


def missing(row, options):
    """Returns the name of a missing package or file that the row needs, or None."""
    needed = [Path(options.graphs) / "words.txt"]
    needed += [Path(options.graphs) / f"{row['graph']}.fst"] if "graph" in row else []
    if row["kind"] == "flashlight":
        if not options.lm:
            return "flashlight needs --lm"
        needed = [Path(options.graphs) / "lexicon.txt", Path(options.graphs) / "tokens.txt"]
        needed.append(Path(options.lm))
    return next((f"no such file: {path}" for path in needed if not path.is_file()), None)


def settings(options):
    """Returns the options that a record holds, so that a quick trial is not mistaken for the whole measurement."""
    return {"scale": options.scale, "max_active": options.max_active, "runs": options.runs, "limit": options.limit}


def measured(output, options):
    """Returns the names of the rows that the file holds with these settings."""
    names = set()
    for line in output.read_text(encoding="utf-8").splitlines() if output.exists() else []:
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue  # the process was killed while it wrote this line
        if "name" in record and "error" not in record and settings(options).items() <= record.items():
            names.add(record["name"])
    return names


def machine():
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        gpu = subprocess.run(query, capture_output=True, text=True).stdout.strip() or None
    except OSError:
        gpu = None
    return {"kind": "machine", "gpu": gpu, "cpus": os.cpu_count(), "python": platform.python_version()}


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--emissions", required=True, help="folder of `rtfx emissions`")
    parser.add_argument("--graphs", required=True, help="NAME.fst, words.txt, tokens.txt, lexicon.txt")
    parser.add_argument("--lm", help="ARPA, for flashlight")
    parser.add_argument("--site", action="append", default=[], help="folder with Python packages")
    parser.add_argument("-o", "--output", default="rivals.jsonl")
    parser.add_argument("--scale", type=float, default=1 / 0.55, help="factor of ln p")
    parser.add_argument("--max-active", type=int, default=10000)
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="of the CPU rows")
    parser.add_argument("--runs", type=int, default=3, help="passes that are timed")
    parser.add_argument("--time-limit", type=float, default=300, help="seconds for a row")
    parser.add_argument("--only", default="", help="regular expression of row names")
    parser.add_argument("--limit", type=int, help="the longest N utterances")
    parser.add_argument("--texts", help="folder for the texts of each row")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = arguments()
    if options.row:
        return child(options)
    wanted = [row for row in rows(options.processes) if re.search(options.only, name(row))]
    if options.list:
        return print("\n".join(map(name, wanted)))
    output = Path(options.output)
    done = measured(output, options)
    text = output.read_bytes() if output.exists() else b""
    with output.open("a", encoding="utf-8") as journal:
        if text and not text.endswith(b"\n"):  # a line that was cut short ends here
            journal.write("\n")

        def keep(record):
            line = json.dumps(record)
            print(line, flush=True)
            journal.write(line + "\n")
            journal.flush()

        keep(machine() | {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
        for row in wanted:
            if name(row) in done:
                continue
            gone = missing(row, options)
            result = {"error": gone} if gone else run(row, options)
            keep({"name": name(row)} | row | settings(options) | result)


if __name__ == "__main__":
    main()
