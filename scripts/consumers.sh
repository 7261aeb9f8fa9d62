#!/usr/bin/env bash
# Downloads into build/consumers the programs that read the files of `rtfx export` and `rtfx gate`,
# for tests. They are Google Benchmark's compare.py, promtool, parsers of Prometheus' text and of
# JUnit XML, Conbench's benchadapt, and github-action-benchmark. It also downloads an ffmpeg, which
# writes audio files for tests. It needs no root. The script names programs that it cannot get, and
# their tests are skipped. github-action-benchmark comes from GitHub, or from the repository in
# GITHUB_ACTION_BENCHMARK.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/build/consumers
repository=${GITHUB_ACTION_BENCHMARK:-https://github.com/benchmark-action/github-action-benchmark}
mkdir -p "$folder"

missing() { echo "consumers: no $1: its tests will be skipped" >&2; }

# Unpacks a Debian package without installing it, since some packages start a service.
unpack() {
  [[ ! -e $folder/$2 ]] || return 0
  # On a new machine, root must first fetch the lists of packages.
  (cd "$(mktemp -d)" && { apt-get -q download "$1" || { apt-get -q update && apt-get -q download "$1"; }; } &&
    dpkg-deb -x "$1"_*.deb "$folder") >/dev/null 2>&1 || missing "$1"
}

unpack libbenchmark-tools usr/share/benchmark/compare.py
unpack prometheus usr/bin/promtool

[[ -x $folder/python/bin/python ]] || python3 -m venv "$folder/python"
"$folder/python/bin/python" -m pip install --quiet --disable-pip-version-check \
  numpy==2.4.6 scipy==1.17.1 prometheus_client==0.26.0 junitparser==5.0.3 benchadapt==2024.3.20 imageio-ffmpeg==0.8.1 ||
  missing "Python packages"

# Its releases hold the script for node with all dependencies.
action=$folder/github-action-benchmark
[[ -e $action/dist/src/index.js ]] ||
  git clone -q --depth 1 --branch v1.22.0 "$repository" "$action" 2>/dev/null || missing github-action-benchmark
