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
fi
for shape in "$@"; do
  small=standin256-rnnt # its CTC head is that of the TDT file too
  [[ $shape != *-tdt-* ]] || small=standin256-tdt
  [[ -e data/standin-$shape.nemo ]] ||
    "$python" models/widen_checkpoint.py "data/$small.nemo" "data/standin-$shape.nemo" --shape "$shape"
done
