#!/usr/bin/env bash
# environment.sh NAME [REQUIREMENT...]: makes rivals/NAME/.venv with the packages of rivals/NAME/requirements.txt, or with
# the requirements given here. It builds on the environment that holds LibTorch (.venv, or that of the program PYTHON),
# so that both use the same torch. It prints how to run with it.
set -euo pipefail
cd "$(dirname "$0")/.."
name=${1:?usage: environment.sh NAME [REQUIREMENT...]}
shift
[[ -d rivals/$name ]] || {
  echo "environment.sh: no rival '$name'; there are: $(cd rivals && echo */ | tr -d /)" >&2
  exit 2
}
base=$(realpath --no-symlinks "${PYTHON:-.venv/bin/python}")
environment=rivals/$name/.venv
requirements=("$@")
((${#requirements[@]})) || requirements=(--requirement "rivals/$name/requirements.txt")

"$base" -c 'import torch' 2>/dev/null || {
  echo "environment.sh: $base has no torch; run make setup without LIBTORCH, or set PYTHON to a Python that has it" >&2
  exit 1
}

"$base" -m venv --clear "$environment"
torch=$("$base" -c 'import importlib.metadata as m, pathlib
t = m.distribution("torch"); print(t.version.split("+")[0], pathlib.Path(t.locate_file("")))')
own=$("$environment"/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
echo "${torch#* }" >"$own/libtorch.pth"
"$environment"/bin/python -m pip install --quiet --disable-pip-version-check \
  --constraint <(echo "torch==${torch%% *}") "${requirements[@]}"
echo "RTFX_PYTHON=$environment/bin/python build/release/rtfx run configs/rivals/$name.json"
