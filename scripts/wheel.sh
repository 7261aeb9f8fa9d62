#!/usr/bin/env bash
# Makes dist/rtfx-*.whl for Python 3.10 or later, with the folder of dist.sh, librtfx and the Python package. LibTorch comes
# from the torch package that is installed beside it.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
stage=dist/wheel
version=$(sed -n 's/^project(rtfx VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
about=$stage/rtfx-$version.dist-info

scripts/build.sh --target rtfx rtfx_library
rm -rf $stage
scripts/dist.sh $stage/rtfx >/dev/null
rm $stage/rtfx/bin/rtfx  # the package has a command of its own
# pip installs torch, and CUDA's libraries in a package of their own, beside this package.
patchelf --force-rpath --set-rpath '$ORIGIN/../lib:$ORIGIN/../../torch/lib:$ORIGIN/../../nvidia/cu13/lib' $stage/rtfx/bin/rtfx.bin
mv $stage/rtfx/README.md $stage/
install -m 755 -s build/release/librtfx.so $stage/rtfx/lib/
patchelf --force-rpath --set-rpath '$ORIGIN' $stage/rtfx/lib/librtfx.so
cp python/rtfx/*.py python/rtfx/py.typed $stage/rtfx/
mkdir "$about"
cp LICENSE NOTICE "$about"/
{
  printf 'Metadata-Version: 2.1\nName: rtfx\nVersion: %s\n' "$version"
  printf 'Summary: Decoders of speech recognition, compared and fast\nLicense: Apache-2.0\n'
  printf 'Requires-Python: >=3.10\nRequires-Dist: torch%s\n' "$(<python/torch_releases.txt)"
  # `rtfx report`, `dashboard` and `reproduce` draw with these, in the releases that the tests use.
  printf 'Provides-Extra: report\n'
  sed -n 's/^\(jinja2\|matplotlib\|scipy\)==\(.*\)/Requires-Dist: \1>=\2; extra == "report"/p' requirements.txt
  printf 'Description-Content-Type: text/markdown\n\n'
  cat $stage/README.md
} >"$about"/METADATA
rm $stage/README.md
printf '[console_scripts]\nrtfx = rtfx.program:main\n' >"$about"/entry_points.txt
printf 'Wheel-Version: 1.0\nGenerator: scripts/wheel.sh\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n' \
  >"$about"/WHEEL
rm -f dist/rtfx-*.whl
python -m wheel pack --dest-dir dist $stage >/dev/null
# The symbols that the libraries ask for give the oldest C library that they run on. auditwheel's own tag would assume a
# wheel that holds the libraries of torch.
platform=$(auditwheel show --json dist/rtfx-*.whl | python -c 'import json, sys; print(json.load(sys.stdin)["sym_tag"])')
python -m wheel tags --remove --platform-tag "$platform" dist/rtfx-*.whl
