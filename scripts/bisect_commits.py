#!/usr/bin/env python3
"""The commit since which a metric is worse: `rtfx bisect` runs this, and this runs `git bisect run`.

Works in a tree of its own (OUTPUT/tree), so that the one at hand stays as it is; the journal of each
revision is kept as OUTPUT/<revision>. Every revision is judged by the gate of the rtfx that was called
(RTFX_BIN), against the run of GOOD, by the rows of one metric alone.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

GOOD, BAD, SKIP = 0, 1, 125  # what `git bisect run` understands
VERDICTS = {"PASS": GOOD, "REGRESSED": BAD, "CORRECTNESS": BAD}  # others tell nothing: skip


def fail(where, problem, remedy):
    sys.exit(f"rtfx: error: {where}: {problem}; {remedy}")


def git(*arguments, tree=".", check=True):
    result = subprocess.run(["git", "-C", tree, *arguments], capture_output=True, text=True)
    if check and result.returncode:
        fail(f"git {arguments[0]}", result.stderr.strip().partition("\n")[0], "see `git bisect --help`")
    return result.stdout.strip()


def say(text):
    print(text, flush=True)


class Search:
    def __init__(self, settings):
        self.settings = settings
        self.output = Path(settings["output"])
        self.tree = self.output / "tree"

    def measure(self):
        """The run of the revision that is checked out, or None where it cannot be built or run."""
        revision = git("rev-parse", "HEAD", tree=self.tree)
        run = self.output / revision
        if (run / "measured").exists():
            return run
        with open(self.output / f"{revision}.log", "w") as log:
            for command in (shlex.split(self.settings["build"]), self.run_command(run)):
                try:
                    done = subprocess.run(command, cwd=self.tree, stdout=log, stderr=log).returncode
                except OSError as error:
                    print(error, file=log)
                    done = 1
                if done:
                    say(f"{revision[:12]} skipped: `{shlex.join(command)[:60]}` failed, see {log.name}")
                    return None
        (run / "measured").touch()
        return run

    def run_command(self, run):
        return [self.tree / self.settings["program"], "run", self.settings["config"], "--output", run, "--force"]

    def gate(self, good, run, tolerance):
        """Verdicts and reasons of the metric's rows, and the largest loss as a share."""
        metric = self.settings["metric"]
        command = [os.environ["RTFX_BIN"], "gate", "--baseline", good, run, "--json"]
        if metric != "results":
            command += ["--tolerance", f"{metric}={tolerance}"]
        if self.settings["drift"]:
            command += ["--drift", self.settings["drift"]]
        result = subprocess.run(command, capture_output=True, text=True)
        if not result.stdout.startswith("{"):
            sys.exit(result.stderr.strip() or "rtfx gate failed")
        rows = json.loads(result.stdout)["rows"]
        # A case that cannot be compared has no row of the metric, but one of its conditions.
        rows = [row for row in rows if row["what"] == metric or row["verdict"] == "INVALID"]
        losses = [abs(1 - row["change"]["estimate"]) for row in rows if row["change"] and row["verdict"] != "PASS"]
        return rows, max(losses, default=0.0)

    def judge(self, good, run, tolerance):
        rows, _ = self.gate(good, run, tolerance)
        if not rows:
            return SKIP, "no figure of this metric"
        worst = max(rows, key=lambda row: ["PASS", "INCONCLUSIVE", "REGRESSED", "CORRECTNESS", "INVALID"].index(row["verdict"]))
        change = worst["change"]
        by = f" x {change['estimate']:.3f}" if change else ""
        return VERDICTS.get(worst["verdict"], SKIP), f"{worst['verdict']}{by} {worst['case']} {worst['reason']}"

    def step(self):
        revision = git("rev-parse", "HEAD", tree=self.tree)[:12]
        run = self.measure()
        if run is None:
            return SKIP
        code, why = self.judge(self.settings["good_run"], run, self.settings["tolerance"])
        say(f"{revision} {({GOOD: 'good', BAD: 'bad'}).get(code, 'skipped')}: {why}")
        return code

    def ends(self, good, bad):
        """Measures both; sets the tolerance where none was given. What cannot be told from GOOD cannot
        be searched for."""
        runs = {}
        for name, revision in (("GOOD", good), ("BAD", bad)):
            git("checkout", "-q", "--detach", revision, tree=self.tree)
            run = self.measure()
            if run is None:
                fail(name, "cannot be built or run", f"see {self.output}/{revision}.log")
            runs[name] = run
        self.settings["good_run"] = str(runs["GOOD"])
        if not self.settings["tolerance"]:
            _, loss = self.gate(runs["GOOD"], runs["BAD"], 0)
            self.settings["tolerance"] = f"{loss / 2:.6f}"
        code, why = self.judge(runs["GOOD"], runs["BAD"], self.settings["tolerance"])
        say(f"GOOD {good[:12]}, BAD {bad[:12]}: {why}")
        if code != BAD:
            fail("BAD", f"is not worse than GOOD ({why})",
                 "name other revisions, or have more rounds or a smaller --drift tell (docs/noise.md)")  # fmt: skip


def prepare(output):
    """The tree, with what git ignores and builds need: links to that of the tree at hand."""
    top = Path(git("rev-parse", "--show-toplevel"))
    tree = output / "tree"
    if tree.exists():
        git("worktree", "remove", "--force", str(tree))
    git("worktree", "prune")
    output.mkdir(parents=True, exist_ok=True)
    git("worktree", "add", "-q", "--detach", str(tree), "HEAD")
    for name in (".venv", "data"):
        if (top / name).exists() and not (tree / name).exists():
            (tree / name).symlink_to((top / name).resolve())
    return tree


def search(arguments):
    output = arguments.output.resolve()
    if not arguments.config.is_file():
        fail(arguments.config, "no such configuration", "name it with --config")
    good, bad = (git("rev-parse", "--verify", "-q", f"{name}^{{commit}}", check=False) for name in (arguments.good, arguments.bad))
    for name, revision in ((arguments.good, good), (arguments.bad, bad)):
        if not revision:
            fail(name, "no such revision", "see `git log --oneline`")
    settings = {key: getattr(arguments, key) for key in ("metric", "tolerance", "drift", "build", "program")}
    settings |= {"output": str(output), "config": str(arguments.config.resolve())}
    tree = prepare(output)
    try:
        task = Search(settings)
        task.ends(good, bad)
        (output / "bisect.json").write_text(json.dumps(task.settings))
        git("bisect", "start", bad, good, tree=tree)
        step = [sys.executable, __file__, "--step", output / "bisect.json"]
        done = subprocess.run(["git", "-C", tree, "bisect", "run", *map(str, step)], capture_output=True, text=True)
        for line in done.stdout.splitlines():
            if line.split(" ")[0][:12].isalnum() and any(f" {word}: " in line for word in ("good", "bad", "skipped")):
                say(line)
        first = git("rev-parse", "-q", "--verify", "refs/bisect/bad", tree=tree, check=False)
        if done.returncode or not first:
            left = [line for line in done.stdout.splitlines() if len(line) == 40]
            fail("bisect", f"the first bad commit is one of {' '.join(c[:12] for c in left) or 'several'}: "
                 "what lies between could not be measured", f"see the logs in {output}")  # fmt: skip
        say("\nfirst bad commit:")
        say(git("log", "-1", "--format=%h %an %as%n    %s", first, tree=tree))
        say(f"compare: rtfx compare {output / good} {output / first}")
    finally:
        git("bisect", "reset", "-q", tree=tree, check=False)
        git("worktree", "remove", "--force", str(tree), check=False)


def main():
    if sys.argv[1:2] == ["--step"]:
        sys.exit(Search(json.loads(Path(sys.argv[2]).read_text())).step())
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("good")
    parser.add_argument("bad")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    for name in ("metric", "tolerance", "drift", "build", "program"):
        parser.add_argument(f"--{name}", required=True)
    search(parser.parse_args())


if __name__ == "__main__":
    main()
