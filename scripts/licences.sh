#!/usr/bin/env bash
# licences.sh FOLDER writes licences into FOLDER/licences, for the parts of other projects in FOLDER, which dist.sh made. These are
# the copyright files of Debian packages, and the texts that these files name. libraries.txt has the package of each library.
set -euo pipefail
folder=$1/licences
mkdir -p "$folder"

# The packages whose headers are compiled into the program. Boost's licence asks for no copy beside a program.
packages=(libcli11-dev nlohmann-json3-dev)
libraries=("$1"/lib/*)
libraries=("${libraries[@]##*/}")
owners=$(dpkg-query -S "${libraries[@]/#/*/x86_64-linux-gnu/}" 2>/dev/null || true) # lines "PACKAGE:ARCHITECTURE: PATH"
{
  printf 'The libraries of ../lib, their Debian packages, and the packages and versions of their sources. Changed are only\n'
  printf 'the paths in which a library looks for others (patchelf), and the binding of unique symbols, which became weak.\n\n'
  for name in "${libraries[@]}"; do
    owner=$(awk -F/ -v name="$name" '$NF == name { sub(/[:,].*/, ""); print; exit }' <<<"$owners")
    if [[ -z $owner ]]; then
      echo "licences.sh: $name is of no Debian package, so its licence is unknown; install the library with apt" >&2
      exit 1
    fi
    packages+=("$owner")
    printf '%s %s %s\n' "$name" "$owner" "$(dpkg-query -Wf '${source:Package} ${source:Version}\n' "$owner" | head -1)"
  done
} >"$folder"/libraries.txt
for package in "${packages[@]}"; do
  cp -L "/usr/share/doc/$package/copyright" "$folder/$package"
done
{ grep -hoE '/usr/share/common-licenses/[A-Za-z]+(-[0-9]+(\.[0-9]+)?)?' -r "$folder" || true; } | sort -u | while read -r text; do
  [[ ! -e $text ]] || cp -L "$text" "$folder"/
done
