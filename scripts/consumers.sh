#!/usr/bin/env bash
# Gets the programs that read what `rtfx export` and `rtfx gate` write, for the tests that hand it to
# them: Google Benchmark's compare.py, promtool, parsers of Prometheus' text and of JUnit XML, Conbench's
# benchadapt, and github-action-benchmark. Into build/consumers, without root; what cannot be had is said,
# and its tests are skipped. The last one is in no package registry, but on GitHub alone;
# GITHUB_ACTION_BENCHMARK names another place of its repository.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/build/consumers
repository=${GITHUB_ACTION_BENCHMARK:-https://github.com/benchmark-action/github-action-benchmark}
mkdir -p "$folder"

missing() { echo "consumers: no $1: its tests will be skipped" >&2; }

# Debian's package without installing it: some start a service.
unpack() {
  [[ ! -e $folder/$2 ]] || return 0
  # A new machine has no lists of packages yet, and root gets them.
  (cd "$(mktemp -d)" && { apt-get -q download "$1" || { apt-get -q update && apt-get -q download "$1"; }; } &&
    dpkg-deb -x "$1"_*.deb "$folder") >/dev/null 2>&1 || missing "$1"
}

unpack libbenchmark-tools usr/share/benchmark/compare.py
unpack prometheus usr/bin/promtool

[[ -x $folder/python/bin/python ]] || python3 -m venv "$folder/python"
"$folder/python/bin/python" -m pip install --quiet --disable-pip-version-check \
  numpy==2.4.6 scipy==1.17.1 prometheus_client==0.26.0 junitparser==5.0.3 benchadapt==2024.3.20 ||
  missing "Python packages"

# Its releases hold what it runs with node, dependencies included.
action=$folder/github-action-benchmark
[[ -e $action/dist/src/index.js ]] ||
  git clone -q --depth 1 --branch v1.22.0 "$repository" "$action" 2>/dev/null || missing github-action-benchmark
