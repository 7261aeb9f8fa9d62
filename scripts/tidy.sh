#!/usr/bin/env bash
# Runs clang-tidy as part of a build in build/tidy, so that only changed sources are checked again.
# `tidy.sh all` checks every source. `tidy.sh` alone checks only the folders that need no LibTorch, which is quick.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
folder=build/tidy

targets=(rtfx_base rtfx_datasets)
[[ ${1:-} == all ]] && targets=(all)
# Nobody uses the objects of this build, so they are compiled without optimisation.
options=(-DRTFX_TIDY=ON -DCLANG_TIDY="$PWD/.venv/bin/clang-tidy" -DCMAKE_CXX_FLAGS_RELEASE=-DNDEBUG)
[[ -n ${LIBTORCH:-} ]] && options+=(-DRTFX_LIBTORCH="$(realpath "$LIBTORCH")")

[[ -e $folder/build.ninja ]] || cmake --preset release -B $folder "${options[@]}" >/dev/null
cmake --build $folder --parallel "$(nproc)" --target "${targets[@]}"
