#!/usr/bin/env bash
# Builds llama.cpp and the driver llama/bench.cpp, then runs the driver with the given arguments.
#   llama.sh --build-only          prints the path of the program
#   llama.sh --model FILE ...      see README.md
# PEERS_DIR: folder of everything fetched and built (default: target/peers); PEERS_JOBS: compilers at once (default: all cores).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
dir=${PEERS_DIR:-$here/../../target/peers}
mkdir -p "$dir/llama"
dir=$(cd "$dir/llama" && pwd)

package=llama-cpp-python
version=0.3.36
archive=llama_cpp_python-$version.tar.gz
sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
program=$dir/build/blue-peer-llama

fail() { printf 'llama.sh: %s\n' "$*" >&2; exit 1; }
checked() { [ -f "$1" ] && printf '%s  %s\n' "$sha256" "$1" | sha256sum --check --status; }
digest() { sha256sum | cut -d' ' -f1; }
# same FILE TEXT: whether the file holds the text.
same() { [ "$(cat "$1" 2>/dev/null)" = "$2" ]; }

fetch() {
  checked "$dir/$archive" && return
  python3 -m pip --version >/dev/null 2>&1 || fail "python3 with pip is required (Debian: apt-get install python3-pip)"
  # pip prepares the package's metadata before it keeps the archive, with build tools of its own choice in a throw-away place.
  python3 -m pip download "$package==$version" --no-binary "$package" --no-deps --dest "$dir" >&2
  checked "$dir/$archive" || { rm -f "$dir/$archive"; fail "$archive has not the SHA-256 $sha256"; }
}

build() {
  local tool
  for tool in cmake make cc c++; do
    command -v "$tool" >/dev/null || fail "$tool is required (Debian: apt-get install cmake make g++)"
  done
  fetch
  if ! same "$dir/source/sha256" "$sha256"; then
    rm -rf "$dir/source"
    mkdir "$dir/source"
    tar xzf "$dir/$archive" -C "$dir/source" --strip-components 3 "llama_cpp_python-$version/vendor/llama.cpp"
    echo "$sha256" > "$dir/source/sha256"
  fi
  same "$dir/build/base" "$base" || rm -rf "$dir/build"
  mkdir -p "$dir/build"
  echo "$base" > "$dir/build/base"
  cmake -S "$here/llama" -B "$dir/build" -DCMAKE_BUILD_TYPE=Release \
    -DLLAMA_DIR="$dir/source" -DPEER_VERSION="$package $version" >&2
  cmake --build "$dir/build" --parallel "${PEERS_JOBS:-$(nproc)}" --target blue-peer-llama >&2
}

# What the library is made from: its sources, the compiler, and the processor that "native" means.
base=$({ echo "$sha256"; c++ --version 2>/dev/null || true; grep -m1 '^flags' /proc/cpuinfo || true; } | digest)
whole=$({ echo "$base"; cat "$here/llama/CMakeLists.txt" "$here/llama/amx.h" "$here/llama/bench.cpp"; } | digest)

if [ ! -x "$program" ] || ! same "$dir/build/whole" "$whole"; then
  build
  echo "$whole" > "$dir/build/whole"
fi

if [ "${1:-}" = --build-only ]; then
  echo "$program"
else
  exec "$program" "$@"
fi
