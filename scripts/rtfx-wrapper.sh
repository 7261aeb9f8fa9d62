#!/bin/sh
# rtfx [--libtorch DIR] ...: finds LibTorch (DIR, or RTFX_LIBTORCH, or the torch package of python3)
# and starts the program beside this file.
here=$(dirname "$(readlink -f "$0")")
libtorch=${RTFX_LIBTORCH:-}
if [ "${1:-}" = --libtorch ]; then
  [ $# -ge 2 ] || { echo "rtfx: --libtorch: needs a folder" >&2; exit 2; }
  libtorch=$2
  shift 2
fi
if [ -z "$libtorch" ]; then
  libtorch=$(python3 -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])' 2>/dev/null)
fi
if [ ! -e "$libtorch/lib/libtorch.so" ]; then
  echo "rtfx: no LibTorch at '$libtorch'; give --libtorch DIR or RTFX_LIBTORCH=DIR (the folder that holds lib/libtorch.so)" >&2
  exit 2
fi
# CUDA's libraries are in $libtorch/lib too, or in Python packages beside torch. The libraries of ../lib are found by the
# program's rpath. Here, they would also replace those of ffmpeg and other programs that rtfx starts.
LD_LIBRARY_PATH=$libtorch/lib:$libtorch/../nvidia/cu13/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
exec "$here/rtfx.bin" "$@"
