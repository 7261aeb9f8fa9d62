#!/usr/bin/env bash
# Measures most of the figures in reports/ on a machine with a GPU (no rooflines). Each step writes its file into FOLDER, and then
# a mark .done-STEP. Steps with a mark are left out, so that a campaign goes on where it was stopped. A journal that was
# interrupted stays in runs/measure.*, and the same step then adds the missing rounds. After a step that fails, which has no mark,
# the next steps run. At its end the script names the failed steps, and exits with the code of the first one.
#   scripts/measure.sh FOLDER [STEP...]   # all steps, or these
#   scripts/measure.sh --list             # the steps
# A step table:TABLE:MODEL measures one model of a published table, by the settings of scripts/table_settings.py, to which
# TABLE_OPTIONS is passed. Several processes with a GPU each may share FOLDER. The step `tables` joins their journals.
# `scripts/stand_ins.sh` makes the checkpoints. `datasets/speak_librispeech.py` makes the speech: data/test_other, with
# `--format wav` data/test_other_wav, and with `--set test-clean` data/test_clean. reports/notes/boosting.md says how to make the
# lists of phrases of `boosting_cost`, and docs/reference/models.md the checkpoints of `vocabulary`. Language models and the lexicon
# (token_6gram.arpa.gz, word_3gram.arpa.gz, lexicon.txt.gz) are in RTFX_SHARED/lm: copy them into data/. rivals/wfst/README.md says
# how to make data/riva. Steps that run a rival need its environment (rivals/README.md). RTFX_PYTHON names its Python, by default
# that of rivals/NAME/.venv.
set -euo pipefail
[[ ${1:-} == --list ]] || folder=$(realpath -m "${1:?usage: measure.sh FOLDER [STEP...], or --list}")
cd "$(dirname "$0")/.."
rtfx=${RTFX_BIN:-build/release/rtfx}
speech=data/test_other/manifest.jsonl

declare -A SHAPES=([rnnt_0.6b]=parakeet-rnnt-0.6b [tdt_0.6b]=parakeet-tdt-0.6b-v2 [ctc_0.6b]=parakeet-ctc-0.6b [rnnt_1.1b]=parakeet-rnnt-1.1b)
MODELS=(rnnt_0.6b tdt_0.6b ctc_0.6b rnnt_1.1b)
# Milliseconds of a step, and the frames of right context that the cache-aware encoder has for it.
declare -A RIGHT=([80]=0 [160]=1 [320]=3 [560]=6 [1120]=13)
PERIODS=(1120 560 320 160 80)
# Numbers of streams that a search begins with. An H200 sustains somewhat more, and an H100 has memory for as many.
declare -A FIRST_STREAMS=([80]=2900 [160]=4500 [320]=7000 [560]=7500 [1120]=7500)
STREAMING=fastconformer-streaming-0.6b
STEPS=(
  "${MODELS[@]/#/chain:}"    # samples to text, batch 128, three rounds of 10 s
  "${MODELS[@]/#/files:}"    # FLAC files to text
  "${MODELS[@]/#/batches:}"  # batches of 32, 128 and 512
  "${MODELS[@]/#/fp32:}"     # one pass of each type, for word errors
  latency                    # single utterances
  files_wav                  # WAV files to text
  "${MODELS[@]/#/same:}"     # do small and widened checkpoints return the same, in rtfx and in NeMo?
  "${MODELS[@]/#/nemo_encoder:}" "${MODELS[@]/#/nemo_transcribe:}"
  prompt                     # with and without the layer of a prompt-conditioned model
  nemo_search transcribe
  searches:rnnt searches:tdt
  exactness planted          # equal tokens and frames; which planted errors replay finds
  sweep costs busy           # greedy forms: batches of 32 to 2,048, energy and memory, time without a kernel
  "${PERIODS[@]/#/c120:}"    # live streams by the rule c120, for each length of a step in milliseconds
  "${PERIODS[@]/#/nemo_streams:}" # steps of the same length in NeMo, in batches of up to 1,024 streams
  nemo nemo_beam nemo_ctc nemo_lm wfst wfst_cpu torchaudio # searches beside those of other packages
  alignment                  # forced alignment beside torchaudio's
  kernels                    # the encoder's kernels in three forms
  vocabulary boosting_cost   # greedy searches with 8,192 tokens, and with 1,000 boosted phrases
  long_audio                 # the same speech as one file of 5.3 hours, and as short files
  microbench                 # parts of decoding and of the encoder, blocks of threads, loading a checkpoint
  trace gate                 # a profile in detail, and a baseline of the gate (with nothing beside it)
)
tables=$(python3 scripts/table_settings.py --steps) # a command of its own, so that its failure ends this script
mapfile -t -O ${#STEPS[@]} STEPS < <(sed 's/^/table:/' <<<"$tables")
STEPS+=(scaling) # all GPUs of the machine
STEPS+=(profile) # where the GPU waits, for figures of speed_of_light_table1
STEPS+=(tables)  # joins the journals of tables, and renders them into FOLDER/tables/tables.md

microbench=${RTFX_MICROBENCH:-$(dirname "$rtfx")/benchmarks/rtfx_microbench}

python_of() { echo "${RTFX_PYTHON:-rivals/$1/.venv/bin/python}"; }

# left_context PERIOD: prints the frames of left context, which are a multiple of the step's frames.
left_context() { (($1 == 320)) && echo 68 || echo 70; }

# Makes a folder for a run. Its path is relative, so that the journal holds no path of this machine.
work_folder() { mkdir -p runs && mktemp -d runs/measure.XXXXXX; }

# run NAME CONFIG [ARGUMENTS...]: writes the journal of `rtfx run` as NAME.jsonl.gz.
run() { journal run "$@"; }

# journal COMMAND NAME CONFIG [ARGUMENTS...]: writes the journal of `rtfx COMMAND` as NAME.jsonl.gz, also if a case failed.
# After an interruption, the same call continues it.
journal() {
  local command=$1 name=$2 config=$3 work resume=() status=0
  work=runs/measure.$(sha256sum <<<"$folder $*" | cut -c1-12)
  shift 3
  [[ ! -e $work/run/journal.jsonl ]] || resume=(--resume)
  "$rtfx" "$command" "configs/$config.json" --output "$work/run" "${resume[@]}" "$@" || status=$?
  ((status < 128)) && [[ -e $work/run/journal.jsonl ]] || return "$status"
  gzip -9nc "$work/run/journal.jsonl" >"$folder/$name.jsonl.gz.part"
  mv "$folder/$name.jsonl.gz.part" "$folder/$name.jsonl.gz"
  [[ -z ${compared:-} ]] || "$rtfx" compare "$work/run" --json >"$folder/$name.json" # intervals of WER need the hypotheses
  rm -rf "$work"
  return "$status"
}

# profile NAME CONFIG [ARGUMENTS...] [--set KEY=VALUE...]: writes the figures of `rtfx profile` as NAME.jsonl.gz, and its
# events as NAME.json.gz.
profile() {
  local name=$1 config=$2 work
  shift 2
  work=$(work_folder)
  "$rtfx" profile "configs/$config.json" --output "$work/run" "$@"
  gzip -9nc "$work/run/profile.jsonl" >"$folder/$name.jsonl.gz"
  gzip -9nc "$work/run/trace.json" >"$folder/$name.json.gz"
  rm -rf "$work"
}

# kernels NAME ENCODER DTYPE: profiles the kernels of one form of the encoder.
kernels() {
  profile "kernels_$1" greedy_forms --set encoder_graphs=false 'decoders=["null"]' baseline=null 'batch_sizes=[64]' \
    "models=[\"data/standin-${SHAPES[rnnt_0.6b]}.nemo\"]" \
    "datasets=[{\"id\": \"spoken_640\", \"manifest\": \"$speech\", \"limit\": 640}]" "encoder=$2" "dtypes=[\"$3\"]"
}

# full NAME CONFIG MODEL [ARGUMENTS...]: writes the journal of one model of full size.
full() {
  local name=$1 config=$2 shape=${SHAPES[$3]} decoder=fused_looping
  [[ $3 != ctc* ]] || decoder=ctc_greedy
  shift 3
  run "$name" "$config" --set "models=[{\"id\": \"$shape\", \"path\": \"data/standin-$shape.nemo\"}]" \
    "decoders=[\"$decoder\"]" protocol.measured_rounds=3 protocol.energy_seconds=3 "$@"
}

step() {
  local kind=${1%%:*} of=${1#*:}
  case $kind in
    chain)
      local with_head=()
      [[ $of == ctc* ]] || with_head=('decoders=["fused_looping", "ctc_greedy"]') # adds the CTC head of the same encoder
      full "$of" chain "$of" 'batch_sizes=[128]' 'dtypes=["bf16", "fp8"]' protocol.steady_seconds=10 "${with_head[@]}"
      ;;
    files) full "files_$of" files_to_text "$of" protocol.steady_seconds=10 ;;
    batches) full "batches_$of" chain "$of" 'batch_sizes=[32, 128, 512]' 'dtypes=["bf16", "fp8"]' protocol.steady_seconds=5 ;;
    fp32) compared=yes full "fp32_$of" chain "$of" 'batch_sizes=[128]' protocol.measured_rounds=1 protocol.steady_seconds=0.1 ;;
    latency) full latency latency rnnt_0.6b 'decoders=["fused_looping", "ctc_greedy"]' baseline=fused_looping ;;
    files_wav)
      full files_wav files_to_text rnnt_0.6b protocol.steady_seconds=10 \
        'datasets=[{"id": "test_other_wav", "manifest": "data/test_other_wav/manifest.jsonl"}]'
      ;;
    same)
      local small=data/standin256-rnnt.nemo head=()
      [[ $of != tdt* ]] || small=data/standin256-tdt.nemo
      [[ $of != ctc* ]] || head=(--ctc)
      rm -f "$folder/same_$of.jsonl" # its program appends, as the next ones do
      for dtype in float32 bfloat16; do
        "$(python_of nemo)" rivals/nemo/same_words.py $small "data/standin-${SHAPES[$of]}.nemo" --dtype $dtype \
          "${head[@]}" -o "$folder/same_$of.jsonl" \
          "${RTFX_SHARED:-../shared}"/audio/{an4,mini_libri,quickstart,spoken}/*.flac
      done
      ;;
    nemo_encoder)
      rm -f "$folder/nemo_encoder_$of.jsonl"
      "$(python_of nemo)" rivals/nemo/encoder.py "data/standin-${SHAPES[$of]}.nemo" --manifest $speech --batch 128 \
        -o "$folder/nemo_encoder_$of.jsonl"
      ;;
    nemo_transcribe)
      rm -f "$folder/nemo_transcribe_$of.jsonl"
      "$(python_of nemo)" rivals/nemo/transcribe.py "data/standin-${SHAPES[$of]}.nemo" --manifest $speech --device cuda \
        --dtype bfloat16 --batch 32 64 128 256 --workers 8 --longest-first --best --rounds 12 -o "$folder/nemo_transcribe_$of.jsonl"
      ;;
    nemo_search)
      rm -f "$folder/nemo_search.jsonl"
      for workers in 0 8; do
        "$(python_of nemo)" rivals/nemo/transcribe.py "data/standin-${SHAPES[rnnt_0.6b]}.nemo" --manifest $speech --device cuda \
          --dtype bfloat16 --batch 32 128 --rounds 1 --workers $workers --longest-first --whole -o "$folder/nemo_search.jsonl"
      done
      ;;
    transcribe)
      for _ in 1 2 3; do
        { time "$rtfx" transcribe --model "data/standin-${SHAPES[rnnt_0.6b]}.nemo" --device cuda --dtype bf16 \
          --output "$(mktemp -dp "$transcripts")" $speech; } 2>&1 | tail -5
      done | tee "$folder/transcribe.txt"
      ;;
    table)
      local table=${of%%:*} model=${of#*:} command=run settings options config text resume=() status=0
      [[ $table != wfst_table4 ]] || command=stream
      read -ra options <<<"${TABLE_OPTIONS:-}"
      text=$(python3 scripts/table_settings.py "$table" "$model" "${options[@]}")
      mapfile -t settings <<<"$text"
      mkdir -p "$folder/tables/$table"
      config=tables/$table
      if [[ " ${options[*]} " == *" --tune "* && $text != *$'\n'tune=null* ]]; then # the tuned configuration has all settings
        [[ ! -d $folder/tune/$table-$model ]] || resume=(--resume)
        "$rtfx" tune "configs/$config.json" --output "$folder/tune/$table-$model" --write "configs/$config.$model.tuned.json" \
          "${resume[@]}" --set "${settings[@]}"
        config+=.$model.tuned
        settings=("name=$table")
      fi
      # Two of these tables have rows of flashlight-text, which needs this Python.
      RTFX_PYTHON=$(python_of wfst) journal "$command" "tables/$table/$model" "$config" --set "${settings[@]}" || status=$?
      # The tuned configuration is kept beside the journals of `rtfx tune`. It had to be written into configs/tables first, since
      # its paths are relative to that folder.
      [[ $config == "tables/$table" ]] || mv "configs/$config.json" "$folder/tune/$table-$model/"
      return "$status"
      ;;
    profile) # the scripts of the table's figures look for it beside the joined journals
      local table=speed_of_light_table1 model=parakeet-rnnt-1.1b settings text
      text=$(python3 scripts/table_settings.py $table $model)
      mapfile -t settings <<<"$text"
      mkdir -p "$folder/tables"
      profile tables/profile tables/$table --only /frame_looping --laps 1 --trace-limit 60000 --set "${settings[@]}"
      mv "$folder/tables/profile.json.gz" "$folder/tables/trace.json.gz"
      ;;
    tables)
      local parts
      for parts in "$folder"/tables/*/; do
        compgen -G "$parts*.jsonl.gz" >/dev/null || continue # a table whose step failed
        cat "$parts"*.jsonl.gz >"${parts%/}.jsonl.gz"
      done
      # Table 1 has the word error rates of the cases whose speed is in table 2.
      [[ -e $folder/tables/wfst_table1 || ! -e $folder/tables/wfst_table2.jsonl.gz ]] ||
        cp "$folder/tables/wfst_table2.jsonl.gz" "$folder/tables/wfst_table1.jsonl.gz"
      "$rtfx" reproduce --all --from "$folder/tables"
      ;;
    scaling) # `strong` is one set for any number of GPUs; `weak` has 735 utterances for each
      local gpus work n i shards shard
      gpus=$({ nvidia-smi --list-gpus || true; } 2>/dev/null | wc -l)
      for ((n = 1; n == 1 || n <= gpus; n *= 2)); do
        work=$(work_folder)
        shards=()
        for ((i = 0; i < n; i++)); do
          CUDA_VISIBLE_DEVICES=$i "$rtfx" run configs/scaling.json --shard $i/$n --output "$work/run" --set datasets.1.limit=$((735 * n)) &
          shards+=($!)
        done
        local status=0
        for shard in "${shards[@]}"; do wait "$shard" || status=$?; done # no shard may run beside the next step
        ((status == 0)) || return "$status"
        gzip -9nc "$work/run/journal.jsonl" >"$folder/scaling_$n.jsonl.gz"
        rm -rf "$work"
      done
      ;;
    prompt) run prompt prompt ;;
    exactness) run exactness exactness ;;
    planted)
      local decoders='"frame_looping"' error
      for error in none token frame duration fp8 fp8_once; do
        decoders+=", {\"id\": \"planted_$error\", \"name\": \"planting\", \"options\": {\"error\": \"$error\", \"search\": \"fused_looping\"}}"
      done
      run planted exactness --set "plugins=[\"$(dirname "$rtfx")/tests/librtfx_planting_decoder.so\"]" "decoders=[$decoders]" \
        'batch_sizes=[32]' "datasets=[{\"id\": \"spoken_256\", \"manifest\": \"$speech\", \"limit\": 256}]" \
        'verify={"required": {"fp32": "different", "bf16": "different", "fp16": "different"}}' # planted errors must not fail the run
      ;;
    sweep)
      run sweep greedy_forms --set "datasets=[{\"id\": \"test_other_spoken\", \"manifest\": \"$speech\"}]" \
        'batch_sizes=[32, 64, 128, 256, 512, 1024, 2048]' 'dtypes=["bf16"]' baseline=fused_looping \
        'decoders=["fused_looping", {"id": "label_looping_graph", "name": "label_looping", "options": {"loop": "graph"}}, "ctc_greedy", "null"]'
      ;;
    costs)
      run costs greedy_forms --set 'models=["data/standin256-rnnt.nemo"]' 'batch_sizes=[32]' 'dtypes=["bf16"]' protocol.energy_seconds=3 \
        "datasets=[{\"id\": \"spoken_1024\", \"manifest\": \"$speech\", \"limit\": 1024}]"
      ;;
    busy)
      profile busy greedy_forms --set 'models=["data/standin256-rnnt.nemo"]' 'batch_sizes=[32]' 'dtypes=["bf16"]' \
        "datasets=[{\"id\": \"spoken_96\", \"manifest\": \"$speech\", \"limit\": 96}]"
      ;;
    kernels)
      kernels reference reference bf16
      kernels fused automatic bf16
      kernels fp8 automatic fp8
      ;;
    vocabulary) run vocabulary vocabulary ;;
    boosting_cost) run boosting_cost boosting_cost ;;
    long_audio)
      local joined=data/test_other_joined.flac audio
      [[ -e $joined ]] || "${RTFX_PYTHON:-.venv/bin/python}" -c '
import json, pathlib, sys, soundfile
manifest, joined = map(pathlib.Path, sys.argv[1:])
partial = joined.with_suffix(".part")
with soundfile.SoundFile(partial, "w", 16000, 1, "PCM_16", format="FLAC") as out:
    for line in open(manifest, encoding="utf-8"):
        out.write(soundfile.read(manifest.parent / json.loads(line)["audio_filepath"], dtype="int16")[0])
partial.rename(joined)
' $speech $joined
      for _ in 1 2 3; do
        for audio in $joined $speech; do
          echo "$(basename "$audio"):"
          "$rtfx" transcribe --model data/standin256-rnnt.nemo --device cuda --dtype bf16 --output "$(mktemp -dp "$transcripts")" "$audio" 2>&1 | tail -1
        done
      done | tee "$folder/long_audio.txt"
      ;;
    microbench) RTFX_BIN=$rtfx RTFX_MICROBENCH=$microbench scripts/microbench.sh "data/standin-${SHAPES[rnnt_0.6b]}.nemo" "$folder" ;;
    trace) profile trace profile ;;
    gate) run ci ci/quickstart --device cuda --threads 8 --set 'decoders=["frame_looping", "label_looping", "fused_looping", "ctc_greedy"]' ;;
    searches)
      RTFX_PYTHON=$(python_of nemo) run "searches_$of" searches --set "models=[\"data/standin256-$of.nemo\"]"
      ;;
    c120)
      local shape=$STREAMING left
      left=$(left_context "$of")
      journal stream "c120_$of" stream_c120 --set 'decoders=["fused_looping"]' batch_sizes=[128] device=cuda \
        "models=[{\"id\": \"$shape\", \"path\": \"data/standin-$shape.nemo\", \"att_context_size\": [$left, ${RIGHT[$of]}]}]" \
        "datasets=[{\"id\": \"test_other_spoken\", \"manifest\": \"$speech\"}]" 'dtypes=["bf16", "fp8"]' \
        stream.rule=c120 stream.buffer=null stream.period_ms="$of" "stream.streams=[${FIRST_STREAMS[$of]}]" \
        stream.max_batch=$((of < 560 ? 1024 : 512)) 'stream.fewer_rows=[16, 64, 256]' protocol.energy_seconds=1
      ;;
    nemo_streams) # some 500 recordings are enough, since streams begin half a second of audio apart
      local streams=(32 64 128 256 512 1024)
      ((of < 560)) || streams=(256 512 1024) # batches that fill at these steps
      rm -f "$folder/nemo_streams_$of.jsonl"
      "$(python_of nemo)" rivals/nemo/stream_steps.py "data/standin-$STREAMING.nemo" --manifest $speech --limit 500 \
        --att-context-size "$(left_context "$of")" "${RIGHT[$of]}" --streams "${streams[@]}" \
        --closer 2 --steps $((of < 560 ? 100 : 40)) -o "$folder/nemo_streams_$of.jsonl"
      ;;
    nemo | nemo_beam | nemo_ctc | nemo_lm) RTFX_PYTHON=$(python_of nemo) run "$kind" "rivals/$kind" ;;
    wfst | wfst_cpu | torchaudio) RTFX_PYTHON=$(python_of "${kind%_cpu}") run "$kind" "rivals/$kind" ;;
    alignment)
      rm -f "$folder/forced_align.jsonl"
      "$(python_of torchaudio)" rivals/torchaudio/forced_align.py --seconds 1 -o "$folder/forced_align.jsonl"
      PROGRAMS=rtfx_microbench RTFX_BIN=$rtfx RTFX_MICROBENCH=$microbench scripts/microbench.sh "" "$folder/alignment" \
        --benchmark_filter=alignment/cuda --benchmark_min_time=0.2 --benchmark_repetitions=5
      mv "$folder/alignment/rtfx_microbench.json" "$folder/alignment.json"
      rmdir "$folder/alignment"
      ;;
  esac
}

if [[ ${1:-} == --list ]]; then
  printf '%s\n' "${STEPS[@]}"
  exit
fi
shift
for name in "$@"; do
  [[ $name != *[[:space:]]* && " ${STEPS[*]} " == *" $name "* ]] || { echo "measure.sh: no step '$name'; --list names them" >&2; exit 2; }
done
(($#)) || set -- "${STEPS[@]}"
mkdir -p "$folder"
transcripts=$(mktemp -d) # texts that no step reads
trap 'rm -rf "$transcripts"' EXIT
failed=() code=0
for name in "$@"; do
  mark=$folder/.done-$name used=
  [[ $name != table:* ]] || used=${TABLE_OPTIONS:-}
  if [[ -e $mark && $name != tables ]]; then
    if [[ $(<"$mark") != "$used" ]]; then
      echo "measure.sh: $name was measured with TABLE_OPTIONS='$(<"$mark")'; remove $mark to measure it again" >&2
      exit 2
    fi
    echo "$name: measured before"
    continue
  fi
  echo "== $name"
  begin=$SECONDS
  set +e # in a condition, `set -e` would not hold inside the step
  (
    set -e
    step "$name"
  )
  status=$?
  set -e
  ((status < 128)) || exit "$status" # interrupted
  if ((status)); then
    failed+=("$name")
    ((code)) || code=$status
    echo "$name: failed with exit code $status" >&2
    continue
  fi
  printf '%s' "$used" >"$mark"
  echo "$name: $((SECONDS - begin)) s"
done
((code == 0)) || echo "measure.sh: failed: ${failed[*]}" >&2
exit "$code"
