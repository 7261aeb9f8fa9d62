#!/usr/bin/env bash
# Configures build/release once and builds it. `make bench` and `make test` share this folder, so
# warnings are errors for both. Further arguments go to the build (`--target rtfx`).
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
folder=build/release

options=(-DRTFX_WERROR=ON -DCMAKE_MAKE_PROGRAM="$PWD/.venv/bin/ninja")
if [[ -n ${LIBTORCH:-} ]]; then
  options+=(-DRTFX_LIBTORCH="$(realpath "$LIBTORCH")")
else
  options+=(-URTFX_LIBTORCH)
fi

if [[ ! -e $folder/build.ninja || $(cat $folder/options 2>/dev/null) != "${options[*]}" ]]; then
  cmake --preset release "${options[@]}"
  echo "${options[*]}" >$folder/options
fi
# The library of the Python package is no part of CMake's `all`, since `make install` has no use for it.
(($#)) || set -- --target all rtfx_library
cmake --build $folder --parallel "$(nproc)" "$@"
