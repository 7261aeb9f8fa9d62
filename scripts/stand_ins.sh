#!/usr/bin/env bash
# Writes stand-in checkpoints into data: standin256-rnnt.nemo and standin256-tdt.nemo from the shared folder, and
# standin-SHAPE.nemo for each SHAPE of models/widen_checkpoint.py. Files that are there already are kept.
#   scripts/stand_ins.sh [SHAPE...]      # RTFX_SHARED=FOLDER: the shared folder, by default ../shared
set -euo pipefail
cd "$(dirname "$0")/.."
shared=${RTFX_SHARED:-../shared}
python=.venv/bin/python

if [[ ! -e data/standin256-rnnt.nemo || ! -e data/standin256-tdt.nemo ]]; then
  "$python" "$shared/tools/export_standin256.py" "$shared/models/standin256.pt" "$shared/lm/tokenizer.model" data
  # The archives hold the time at which they were made. Without it, everybody gets files with the same checksum.
  "$python" - data/standin256-rnnt.nemo data/standin256-tdt.nemo <<'EOF'
import io, sys, tarfile

for path in sys.argv[1:]:
    with tarfile.open(path) as archive:
        members = [(member, archive.extractfile(member).read() if member.isfile() else b"") for member in archive]
    with tarfile.open(path, "w") as archive:
        for member, content in members:
            member.mtime = 0
            archive.addfile(member, io.BytesIO(content))
EOF
fi
for shape in "$@"; do
  # Models of one table that should differ in their words come from different small ones.
  case $shape in
    conformer-ctc-small) small=models/quickstart/quickstart-rnnt.nemo ;;
    conformer-ctc-medium | *-1k) small=$shared/models/standin-rnnt.nemo ;;
    *-tdt-*) small=data/standin256-tdt.nemo ;;
    *-streaming-*) small=data/standin256-streaming.nemo ;;
    *) small=data/standin256-rnnt.nemo ;; # the TDT file has the same CTC head
  esac
  if [[ $shape == *-streaming-* && ! -e $small ]]; then
    echo "stand_ins: error: $small is missing; models/derive_cache_aware.py makes it (docs/reference/models.md)" >&2
    exit 1
  fi
  [[ -e data/standin-$shape.nemo ]] ||
    "$python" models/widen_checkpoint.py "$small" "data/standin-$shape.nemo" --shape "$shape"
done
