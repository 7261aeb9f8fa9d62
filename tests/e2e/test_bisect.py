"""rtfx bisect: a repository with eight commits, whose "build" makes a "program" that writes journals."""

import json
import subprocess

import pytest
import synthetic_journal as synthetic
from conftest import ROOT

PROGRAM = """#!{python}
# What a revision's program does: `speed` says how long its decoder takes, `tokens` what it finds.
import json, random, sys
sys.path.insert(0, {support!r})
import synthetic_journal as synthetic
from pathlib import Path
output = Path(sys.argv[sys.argv.index("--output") + 1])
speed, tokens, noise = (json.loads(Path("speed.json").read_text())[key] for key in ("speed", "tokens", "noise"))
generator = random.Random(str(speed))
records = [synthetic.provenance(config={{"protocol": {{"cv_max": 0.05, "measured_rounds": 8}}, "verify": {{"required": {{"fp32": "exact"}}}}}})]
for round in range(8):
    seconds = speed * generator.lognormvariate(0, noise)
    records.append(synthetic.run(round=round, decode_seconds=seconds, grade="bitwise") | {{"tokens_sha256": tokens, "hypotheses_sha256": tokens}})
synthetic.write(output, records)
"""


def git(folder, *arguments):
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    done = subprocess.run(["git", "-C", folder, *who, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path):
    """repository([{speed, tokens, noise, build}, ...]): the folder and its commits, oldest first. `build`
    is a line of build.sh."""
    folder = tmp_path / "repository"

    def make(states):
        folder.mkdir()
        git(folder, "init", "-q")
        commits = []
        for i, state in enumerate(states):
            state = {"speed": 0.5, "tokens": "t0", "noise": 0.002, "build": "", "number": i} | state
            (folder / "speed.json").write_text(json.dumps(state))
            copy = "install -m 755 program.in program"
            (folder / "build.sh").write_text(f"set -e\n{state['build']}\n{copy}\n")
            python = ROOT / ".venv/bin/python"
            text = PROGRAM.format(python=python, support=str(ROOT / "tests/support"))
            (folder / "program.in").write_text(text)
            git(folder, "add", ".")
            git(folder, "commit", "-q", "-m", f"Change {i}")
            commits.append(git(folder, "rev-parse", "HEAD"))
        return folder, commits

    return make


@pytest.fixture
def bisect(rtfx, tmp_path):
    (tmp_path / "config.json").write_text("{}")

    def run(folder, good, bad, *arguments):
        return rtfx("bisect", good, bad, "--config", tmp_path / "config.json", "--output", tmp_path / "out",
                    "--build", "sh build.sh", "--program", "program", "--drift", "0.002", *arguments, cwd=folder)  # fmt: skip

    return run


def first_bad(result):
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.partition("first bad commit:\n")[2].split()[0]


def test_the_commit_that_made_decoding_slower(bisect, repository, tmp_path):
    folder, commits = repository([{"speed": 0.5 if i < 5 else 0.53} for i in range(8)])
    (folder / "speed.json").write_text("not committed")  # the tree at hand stays as it is
    result = bisect(folder, commits[0], commits[-1])
    assert commits[5].startswith(first_bad(result))
    assert (folder / "speed.json").read_text() == "not committed"
    assert git(folder, "worktree", "list").count("\n") == 0
    measured = [path.name for path in (tmp_path / "out").iterdir() if path.is_dir()]
    assert {commits[0], commits[-1], commits[4], commits[5]} <= set(measured) and len(measured) <= 6
    assert "REGRESSED x 0.94" in result.stdout


def test_a_second_search_measures_nothing_again(bisect, repository, tmp_path):
    folder, commits = repository([{"speed": 0.5 if i < 3 else 0.6} for i in range(6)])
    first = bisect(folder, commits[0], commits[-1])
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("journal.jsonl")}
    assert first_bad(bisect(folder, commits[0], commits[-1])) == first_bad(first)
    assert times == {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("journal.jsonl")}


def test_what_cannot_be_built_is_skipped(bisect, repository):
    states = [{"speed": 0.5 if i < 6 else 0.6, "build": "false" if i in (3, 4) else ""} for i in range(8)]
    folder, commits = repository(states)
    result = bisect(folder, commits[0], commits[-1])
    assert commits[6].startswith(first_bad(result))
    assert f"{commits[4][:12]} skipped: `sh build.sh` failed" in result.stdout


def test_skipped_commits_may_hide_it(bisect, repository):
    states = [{"speed": 0.5 if i < 3 else 0.6, "build": "false" if i == 3 else ""} for i in range(5)]
    folder, commits = repository(states)
    result = bisect(folder, commits[0], commits[-1])
    assert result.returncode == 1 and "the first bad commit is one of" in result.stderr
    assert all(commit[:12] in result.stderr for commit in commits[3:5])


def test_what_the_gate_cannot_tell_is_skipped(bisect, repository):
    states = [{"speed": 0.5 if i < 5 else 0.6, "noise": 0.3 if i == 4 else 0.002} for i in range(8)]
    folder, commits = repository(states)
    result = bisect(folder, commits[0], commits[-1])
    assert f"{commits[4][:12]} skipped: INCONCLUSIVE" in result.stdout, result.stdout


def test_the_commit_since_which_tokens_differ(bisect, repository):
    folder, commits = repository([{"tokens": "t0" if i < 2 else "t1"} for i in range(5)])
    result = bisect(folder, commits[0], commits[-1], "--metric", "results")
    assert commits[2].startswith(first_bad(result))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["HEAD~1", "HEAD"], "BAD: is not worse than GOOD"),
        (["HEAD~1", "nothing"], "nothing: no such revision"),
        (["HEAD~1", "HEAD", "--metric", "speed"], "unknown metric 'speed'"),
        (["HEAD~1", "HEAD", "--metric", "host_reads"], "never gated"),
    ],
)
def test_errors(bisect, repository, arguments, message):
    folder, _ = repository([{}, {}])
    result = bisect(folder, *arguments)
    assert result.returncode in (1, 2) and message in result.stderr and result.stderr.count("\n") == 1
    assert git(folder, "worktree", "list").count("\n") == 0


def test_ends_that_cannot_be_built(bisect, repository):
    folder, _ = repository([{"build": "false"}, {}])
    result = bisect(folder, "HEAD~1", "HEAD")
    assert result.returncode == 1 and "GOOD: cannot be built or run; see " in result.stderr
