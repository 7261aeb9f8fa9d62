#!/usr/bin/env bash
# Installs missing packages: system packages through apt, Python packages into .venv. If none is
# missing, it ends quickly. LIBTORCH=DIR leaves out torch. --fuzz also installs clang with libFuzzer.
# --browser also installs Chromium, because a test looks at the HTML page in it. This test is skipped
# on Ubuntu, which has Chromium as a snap only.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  g++ make ccache pkg-config python3-venv espeak-ng
  libarchive-dev libbenchmark-dev libboost-math-dev libcli11-dev libfmt-dev libfst-dev libfst-tools libgtest-dev libicu-dev libmpg123-dev
  libogg-dev libsentencepiece-dev libsimdjson-dev libsndfile1-dev libsoxr-dev libsqlite3-dev libssl-dev libyaml-cpp-dev nlohmann-json3-dev
)

if [[ ${1:-} == --browser ]] && grep -q '^ID=debian' /etc/os-release; then
  packages+=(chromium)
fi

[[ ${1:-} != --fuzz ]] || packages+=(clang libclang-rt-dev)

is_installed() { [[ $(dpkg-query -Wf '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

install_system_packages() {
  local missing=()
  for package in "${packages[@]}"; do
    is_installed "$package" || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  echo "setup: installing ${missing[*]}"
  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || {
      echo "setup: run as root or install sudo, or install: ${missing[*]}" >&2
      exit 1
    }
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get -o Acquire::Retries=3 -q update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o Acquire::Retries=3 -qy --no-install-recommends install "${missing[@]}"
}

# Prints the first python3 that is new enough and can make an environment. Some images ship one that cannot.
find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
      2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "setup: Python 3.11 or later is needed (Debian 12, Ubuntu 24.04 or later)" >&2
  exit 1
}

install_python_packages() {
  local files=(requirements.txt)
  if [[ -n ${LIBTORCH:-} ]]; then
    [[ -e $LIBTORCH/lib/libtorch.so ]] || {
      echo "setup: LIBTORCH=$LIBTORCH holds no lib/libtorch.so" >&2
      exit 1
    }
  else
    files+=(requirements-torch.txt)
  fi
  local stamp=.venv/installed wanted
  wanted="$PWD ${files[*]} $(cat "${files[@]}" requirements-headers.txt | sha256sum)"
  [[ -e $stamp && $(<"$stamp") == "$wanted" ]] && return 0
  echo "setup: installing Python packages into .venv (torch is large: some minutes the first time)"
  # An environment cannot be moved: its scripts name the folder that it was made in.
  if ! grep -qsF "$PWD/.venv" .venv/pyvenv.cfg; then
    # Making an environment empties the folder, which may be another tree's.
    [[ ! -L .venv ]] || {
      echo "setup: .venv is a link to $(realpath .venv), which another tree uses; remove the link" >&2
      exit 1
    }
    local python
    python=$(find_python)
    "$python" -m venv --clear .venv
  fi
  # --no-compile saves 18 s, since Python compiles a module of torch to bytecode when it is first imported.
  .venv/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --retries 5 \
    "${files[@]/#/--requirement=}"
  .venv/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --retries 5 --no-deps \
    --requirement=requirements-headers.txt
  echo "$wanted" >"$stamp"
}

install_system_packages
install_python_packages
