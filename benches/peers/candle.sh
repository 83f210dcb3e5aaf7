#!/usr/bin/env bash
# Builds candle's quantized models with the driver in candle/, then runs the driver with the given arguments.
#   candle.sh --build-only         prints the path of the program
#   candle.sh --model FILE ...     see README.md
# PEERS_DIR: folder of everything built (default: target/peers); PEERS_JOBS: compilers at once (default: all cores).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
dir=${PEERS_DIR:-$here/../../target/peers}
mkdir -p "$dir/candle"
dir=$(cd "$dir/candle" && pwd)
command -v cargo >/dev/null || { echo "candle.sh: cargo is required" >&2; exit 1; }

# "native" is this machine's processor: another one builds in a folder of its own.
processor=$({ grep -m1 '^flags' /proc/cpuinfo || true; } | sha256sum | cut -c1-12)
target=$dir/$processor
RUSTFLAGS="-C target-cpu=native" cargo build --quiet --locked --release --jobs "${PEERS_JOBS:-$(nproc)}" \
  --manifest-path "$here/candle/Cargo.toml" --target-dir "$target" >&2

if [ "${1:-}" = --build-only ]; then
  echo "$target/release/blue-peer-candle"
else
  exec "$target/release/blue-peer-candle" "$@"
fi
