"""The programs that read rtfx's exports or write audio for it. scripts/consumers.sh downloads them, and a test is
skipped where its program is missing."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "build/consumers"


def require(path):
    if not (FOLDER / path).exists():
        pytest.skip(f"{path} is missing: scripts/consumers.sh gets it")
    return FOLDER / path


def python():
    """Returns an interpreter with numpy, scipy, prometheus_client, junitparser, benchadapt and imageio_ffmpeg."""
    return require("python/bin/python")


def ffmpeg():
    """Returns the static ffmpeg of the package imageio-ffmpeg, which has the usual encoders."""
    result = call(python(), "-c", "import imageio_ffmpeg; print(imageio_ffmpeg.get_ffmpeg_exe())")
    if result.returncode:
        pytest.skip("imageio-ffmpeg is missing: scripts/consumers.sh gets it")
    return Path(result.stdout.strip())


def call(*command, **settings):
    return subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=300, stdin=settings.pop("stdin", subprocess.DEVNULL),
        **settings,
    )  # fmt: skip


def compare_py(before, after, report):
    """Runs Google Benchmark's compare.py on two files, and returns its report as JSON."""
    script = require("usr/share/benchmark/compare.py")
    result = call(python(), script, "--no-color", "--dump_to_json", report, "benchmarks", before, after)
    assert result.returncode == 0, result.stderr
    return result.stdout, json.loads(Path(report).read_text())


def promtool(path):
    with open(path, encoding="utf-8") as text:
        return call(require("usr/bin/promtool"), "check", "metrics", stdin=text)


CONBENCH = """
import json, sys
from benchadapt.adapters import GoogleBenchmarkAdapter
results = GoogleBenchmarkAdapter(command=["true"], result_file=sys.argv[1]).transform_results()
print(json.dumps([result.to_publishable_dict() for result in results]))
"""


def conbench(path):
    """Returns the results that Conbench's adapter for Google Benchmark would send to its server."""
    commit = {"CONBENCH_PROJECT_REPOSITORY": "o/r", "CONBENCH_PROJECT_COMMIT": "0" * 40}
    result = call(python(), "-c", CONBENCH, path, env=os.environ | commit)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


class GithubActionBenchmark:
    """Runs the action like GitHub does, with a file in place of the branch that holds its pages."""

    def __init__(self, folder, tool, threshold):
        self.main = require("github-action-benchmark/dist/src/index.js")
        if not (node := shutil.which("node")):
            pytest.skip("node is missing")
        folder.mkdir(exist_ok=True)
        self.node, self.folder, self.tool, self.threshold = node, folder, tool, threshold
        self.commits = 0

    def push(self, results):
        """Runs the action for one more commit, whose results are in this file. Returns the finished process."""
        self.commits += 1
        event = self.folder / "event.json"
        person = {"name": "A", "username": "a", "email": "a@example.org"}
        commit = {"id": f"c{self.commits}", "message": "m", "timestamp": "2026-01-02T03:04:05Z", "url": "https://example.org",
                  "author": person, "committer": person}  # fmt: skip
        event.write_text(json.dumps({"head_commit": commit, "repository": {"html_url": "https://example.org/o/r"}}))
        inputs = {
            "NAME": "rtfx", "TOOL": self.tool, "OUTPUT-FILE-PATH": results, "GH-PAGES-BRANCH": "gh-pages",
            "BENCHMARK-DATA-DIR-PATH": "dev/bench", "SKIP-FETCH-GH-PAGES": "false", "COMMENT-ALWAYS": "false",
            "SUMMARY-ALWAYS": "false", "SAVE-DATA-FILE": "true", "COMMENT-ON-ALERT": "false", "AUTO-PUSH": "false",
            "FAIL-ON-ALERT": "true", "ALERT-THRESHOLD": self.threshold,
            "EXTERNAL-DATA-JSON-PATH": self.folder / "data.json",
        }  # fmt: skip
        environment = os.environ | {f"INPUT_{key}": str(value) for key, value in inputs.items()}
        environment |= {"GITHUB_REPOSITORY": "o/r", "GITHUB_EVENT_PATH": str(event), "GITHUB_SHA": "0" * 40}
        return call(self.node, self.main, env=environment, cwd=self.folder)

    def series(self):
        """Returns the values that the action keeps, as {name: [values by commit]}."""
        suite = json.loads((self.folder / "data.json").read_text())["entries"]["rtfx"]
        names = {bench["name"] for commit in suite for bench in commit["benches"]}
        return {n: [b["value"] for c in suite for b in c["benches"] if b["name"] == n] for n in names}
