#!/usr/bin/env bash
# Makes the two Q8_0 files that the peers are measured on and prints their paths, one a line.
#   models.sh [SMOLLM2_Q4_1.gguf]
# Without an argument `blue model fetch` fetches SmolLM2. PEERS_DIR: as in llama.sh.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
dir=${PEERS_DIR:-$here/../../target/peers}
mkdir -p "$dir/models"
dir=$(cd "$dir/models" && pwd)

qwen3=$dir/qwen3-0.6b-random.Q8_0.gguf
smollm2=$dir/smollm2-135m.Q8_0.gguf

[ -f "$qwen3" ] || "$here/qwen3_random.py" "$qwen3"
if [ ! -f "$smollm2" ]; then
  source=${1:-}
  if [ -z "$source" ]; then
    source=$(cargo run --quiet --locked --release --manifest-path "$here/../../Cargo.toml" -- model fetch smollm2-135m --dir "$dir")
  fi
  "$here/llama.sh" --model "$source" --quantize-q8_0 "$smollm2.partial"
  mv "$smollm2.partial" "$smollm2"
fi
printf '%s\n' "$qwen3" "$smollm2"
