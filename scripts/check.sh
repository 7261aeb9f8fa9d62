#!/usr/bin/env bash
# Runs the quick part of the tests: format, prose, structure, links, and the C++ tests except those of mutations and of the GPU.
# It builds the programs that they need first.
set -uo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
export OMP_WAIT_POLICY=passive
results=$PWD/build/release/results

programs=(base datasets models algorithms speech harness)
scripts/build.sh --target rtfx "${programs[@]/#/rtfx_test_}" || exit
rm -rf "$results"

checks=()
if scripts/format.sh --check; then checks+=(format=passed); else checks+=(format=failed); fi
if python scripts/prose.py; then checks+=(prose=passed); else checks+=(prose=failed); fi
python -m pytest -q -k "not commands" --junit-xml="$results/pytest.xml" \
  tests/e2e/test_structure.py tests/e2e/test_docs.py tests/e2e/test_ci_files.py </dev/null
ctest --test-dir build/release --label-regex quick --parallel "$(nproc)" --output-on-failure \
  --output-junit "$results/ctest.xml" </dev/null
python scripts/count_tests.py "$results" "${checks[@]}"
