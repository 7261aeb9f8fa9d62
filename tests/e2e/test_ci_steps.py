"""Runs the scripts of the workflows in docs/ci one after the other, as a runner does. Their folder holds nothing but
what a checkout and `make program` leave there. Stand-ins replace what takes long. `make` records its arguments, since
the program is built already. The configuration of configs/ci has two utterances and four rounds. A stand-in for
`bencher` checks its file against Bencher's schema. github-action-benchmark is the real one where it is installed."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import consumers
import pytest
from conftest import ROOT
from journal import read_text
from ruamel.yaml import YAML

STAND_INS = {
    "make": '#!/bin/sh\necho "$@" >> "$CALLS"\n',
    "bencher": """#!/bin/sh
echo "bencher $@" >> "$CALLS"
while [ "$1" != --file ]; do shift; done
exec "$CHECK_JSONSCHEMA" --schemafile "$BMF_SCHEMA" "$2"
""",
    "sudo": '#!/bin/sh\necho "sudo $@" >> "$CALLS"\n',
    # The stand-in for `docker run` runs the image's command in the checkout.
    "docker": """#!/bin/sh
echo "docker $1" >> "$CALLS"
[ "$1" = build ] && exec test -f Dockerfile
while [ "$1" != rtfx ]; do shift; done
shift
exec build/release/rtfx "$@"
""",
}


def checkout(folder, program):
    """Makes the project's folder as `make program` leaves it, with a configuration that takes seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("Dockerfile", "datasets", "models", "plots", "reports", "scripts"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "build").mkdir()
    (folder / "build/release").symlink_to(program.parent)
    config = json.loads((ROOT / "configs/ci/quickstart.json").read_text())
    config["datasets"][0]["limit"] = 2
    config["protocol"] |= {"measured_rounds": 4, "extra_rounds": 0}
    (folder / "configs/ci").mkdir(parents=True)
    (folder / "configs/ci/quickstart.json").write_text(json.dumps(config))


@pytest.fixture
def runner(tmp_path, program):
    """runner(workflow, job) runs every step that has a script, and returns the steps with their result under "done"."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, script in STAND_INS.items():
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    environment = {
        "PATH": f"{tools}:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8", "OMP_WAIT_POLICY": "passive",
        "CALLS": str(tmp_path / "calls"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_RUN_ID": "7", "CHECK_JSONSCHEMA": str(Path(sys.executable).with_name("check-jsonschema")),
        "BMF_SCHEMA": str(ROOT / "tests/data/bencher_bmf.schema.json"), "RTFX_PYTHON": sys.executable,
    }  # fmt: skip
    if "LD_LIBRARY_PATH" in os.environ:
        environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]

    def run(workflow, job, also=None, only="", before=lambda: None):
        """Runs a job. `also` maps a step to an exit code that its script may have beside 0. If `only` is given, a step
        runs only if its name begins with it. `before` is called before each step."""
        settings = YAML(typ="safe").load((ROOT / "docs/ci" / workflow).read_text())["jobs"][job]
        steps = settings["steps"]
        for step in steps:
            if step.get("uses", "").startswith("actions/checkout"):
                checkout(work / (step.get("with", {}).get("path") or ""), program)
            if "run" not in step or not step.get("name", "").startswith(only):
                continue
            before()
            script = re.sub(r"\$\{\{.*?\}\}", "filled-in", step["run"])
            env = environment | settings.get("env", {}) | step.get("env", {})
            # GitHub runs a step with bash -e, and a pipe fails if one of its commands fails.
            step["done"] = subprocess.run(["bash", "-eo", "pipefail", "-c", script], cwd=work, env=env,
                                          capture_output=True, text=True, timeout=600)  # fmt: skip
            codes = (0, (also or {}).get(step.get("name")))
            assert step["done"].returncode in codes, f"{script}\n{step['done'].stdout}{step['done'].stderr}"
        return {step.get("name", step.get("run")): step for step in steps if "run" in step}

    run.tools = tools
    run.work, run.calls, run.summary = work, tmp_path / "calls", tmp_path / "summary.md"
    return run


def test_gate(runner):
    # One program runs twice beside other tests, so its results are equal and its times vary. The base's program is
    # there as if it came from the cache, and is not built again.
    steps = runner("gate.yml", "gate", also={"Gate": 10})
    assert runner.calls.read_text().splitlines() == ["-C change program", "-C base setup"]
    lines = steps["Gate"]["done"].stdout.rstrip().splitlines()
    verdicts = {"PASS": 0, "INCONCLUSIVE": 0, "REGRESSED": 10}
    (verdict,) = verdicts.keys() & set(lines[-2:])
    assert steps["Gate"]["done"].returncode == verdicts[verdict]
    exact = [line.split()[:2] for line in lines if line.split()[1:2] in (["results"], ["wer"])]
    assert len(exact) == 6 and {grade for grade, _ in exact} == {"PASS"}
    assert "Nothing differs" in (compared := steps["What changed"]["done"].stdout) or "rtfx.decode" in compared
    summary = runner.summary.read_text()
    assert summary.startswith("## rtfx gate: ") and "label\\_looping" in summary and "rtfx.decode" in summary
    assert {path.name for path in (runner.work / "runs").iterdir()} == {"base", "change", "gate.xml", "gate.md"}


@pytest.mark.parametrize("code", [13, 2])
def test_the_gate_judges_wrong_results_of_either_commit(runner, code):
    """Exit code 13 means a grade below the required one. Other failures end the job, since it has nothing to
    compare."""

    def fail():
        for folder in ("base", "change"):
            program = runner.work / folder / "build/release"
            program.unlink()
            program.mkdir()
            (program / "rtfx").write_text(f'#!/bin/sh\necho {folder} >> "$CALLS"\nexit {code}\n')
            (program / "rtfx").chmod(0o755)

    step = runner("gate.yml", "gate", also={"Measure both": 1}, only="Measure both", before=fail)["Measure both"]
    assert step["done"].returncode == (0 if code == 13 else 1)
    assert runner.calls.read_text().split() == (["base", "change"] if code == 13 else ["base"])


def test_the_base_is_built_where_no_run_has_built_it(runner):
    def forget():
        (runner.work / "base/build/release").unlink()

    steps = runner("gate.yml", "gate", only="Build the change", before=forget)
    assert steps and runner.calls.read_text().splitlines() == ["-C change program", "-C base program"]


def test_a_push_saves_the_program_that_later_gates_restore(runner):
    runner("gate.yml", "program")
    assert runner.calls.read_text().splitlines() == ["-C base program"]
    text = (ROOT / "docs/ci/gate.yml").read_text()  # one job restores what the other one saves
    assert text.count("path: base/build/release/rtfx\n") == 2
    assert "key: program-${{ runner.os }}-${{ github.sha }}" in text
    assert "key: program-${{ runner.os }}-${{ github.event.pull_request.base.sha }}" in text


def test_the_repository_of_a_decoder_in_python(runner, program):
    """The change adds one newline to the source of the example. So results are equal, and only times may differ."""
    (runner.tools / "pip").write_text('#!/bin/sh\necho "pip $@" >> "$CALLS"\n')
    (runner.tools / "pip").chmod(0o755)
    (runner.tools / "rtfx").symlink_to(program)
    for folder in ("base", "change"):
        (runner.work / folder).mkdir()
        shutil.copy(ROOT / "examples/python_decoder/greedy.py", runner.work / folder)
    with open(runner.work / "change/greedy.py", "a") as source:
        source.write("\n")
    steps = runner("decoder.yml", "python", also={"Gate": 10})
    # pip would look up a bare name on PyPI, where another project has it.
    assert re.fullmatch(r"pip install https://github.com/OWNER/rtfx/\S+\.whl\n", runner.calls.read_text())
    lines = steps["Gate"]["done"].stdout.splitlines()
    assert [line.split()[:2] for line in lines].count(["PASS", "results"]) == 2
    (allowed,) = [line for line in lines if "allowed: other option file" in line]
    assert 'base/greedy.py", now "' in allowed and 'change/greedy.py"' in allowed
    assert runner.summary.read_text().startswith("## rtfx gate: ")


def test_dashboards(runner, tmp_path):
    runner("dashboards.yml", "measure")
    calls = runner.calls.read_text().splitlines()
    assert calls[0] == "program" and calls[1].startswith("bencher run --project") and len(calls) == 2
    page = (runner.work / "dashboard/index.html").read_text()
    assert "7/journal.jsonl" in page and list((runner.work / "dashboard/runs").rglob("*.html"))
    for name, tool in (("bigger", "customBiggerIsBetter"), ("smaller", "customSmallerIsBetter")):
        action = consumers.GithubActionBenchmark(tmp_path / name, tool, "200%")
        assert action.push(runner.work / f"{name}.json").returncode == 0


@pytest.mark.parametrize("code", [1, 13])
def test_the_journal_of_a_run_that_fails_is_stored_before_the_job_fails(runner, code):
    (runner.tools / "bencher").write_text("#!/bin/sh\n")
    release = runner.work / "build/release"

    def fail():
        if release.is_symlink():
            release.unlink()
            release.mkdir()
            run = f"mkdir -p runs/ci; echo {{}} > runs/ci/journal.jsonl; exit {code}"
            (release / "rtfx").write_text(f'#!/bin/sh\n[ "$1" = run ] || exit 0\n{run}\n')
            (release / "rtfx").chmod(0o755)

    last = "Fail if the run did"
    steps = runner("dashboards.yml", "measure", also={last: code}, before=fail)
    assert steps[last]["done"].returncode == code and list(steps)[-1] == last
    assert (runner.work / "journals/7/journal.jsonl").is_file()


def test_the_image(runner):
    """A program runs and is verified beside other tests, which may disturb nothing but its times."""
    steps = runner("image.yml", "image")
    calls = runner.calls.read_text().splitlines()
    assert calls == ["sudo rm -rf /opt/ghc /usr/local/lib/android /usr/share/dotnet", "docker build", "docker run", "docker run"]
    lines = steps["Measure and verify"]["done"].stdout.splitlines()
    rows = [line.split()[:2] for line in lines if line.startswith("  ")]
    assert [row for row in rows if row[1] in ("results", "grade", "wer")] == [["PASS", what] for what in ("results", "grade", "wer")]


def test_tests(runner):
    runner("test.yml", "test")
    assert runner.calls.read_text() == "consumers\ntest\n"


BASELINES = {"ci.jsonl": "cpu", "ci_h200.jsonl": "cuda"}


@pytest.mark.parametrize("name", BASELINES)
def test_the_committed_baselines_are_fit_to_be_compared_with(rtfx, name):
    """Each committed baseline, compared with itself, has no INVALID row and belongs to this configuration."""
    path = ROOT / "reports/baselines" / f"{name}.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not recorded yet: reports/README.md says how")
    result = rtfx("gate", "--baseline", path, path, "--json")
    document = json.loads(result.stdout)
    assert document["verdict"] in ("PASS", "INCONCLUSIVE")
    (first, *_) = [json.loads(line) for line in read_text(path).splitlines()]
    assert first["device"]["type"] == BASELINES[name] and not first["rtfx"]["dirty"]
    config = json.loads((ROOT / "configs/ci/quickstart.json").read_text())
    assert first["name"] == config["name"]
    decoders = {row["case"].split("/")[2] for row in document["rows"]}
    assert decoders >= set(config["decoders"])
