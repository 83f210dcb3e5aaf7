#!/usr/bin/env bash
# Sets up what builds the consensus crates for arm64 (little-endian) and s390x (big-endian) and runs them here.
#
#   cross-toolchain.sh DIR
#
# From the distribution's packages: qemu's user-mode emulators and the cross linkers are installed; one rustc with
# the standard libraries of this machine and both targets is unpacked into DIR/rust, beside any other Rust. Its
# version is the oldest that the consensus crates support. A program built and run for each target proves the
# result; a folder that fails the proof is made again.
set -euo pipefail

RUST=1.85
TARGETS=("arm64 aarch64-unknown-linux-gnu aarch64-linux-gnu qemu-aarch64-static" \
         "s390x s390x-unknown-linux-gnu s390x-linux-gnu qemu-s390x-static")

say() { printf 'cross: %s (%ss)\n' "$*" "$SECONDS" >&2; }
die() { printf 'cross: error: %s\n' "$*" >&2; exit 1; }

[ $# = 1 ] || die "usage: cross-toolchain.sh DIR"
[ "$(uname -m)" = x86_64 ] || die "the toolchain is set up on x86-64 only, this machine is $(uname -m)"
for tool in apt-get apt-cache dpkg-deb; do
  command -v "$tool" >/dev/null || die "$tool is required: the toolchain comes from a Debian system's packages"
done
mkdir -p "$1"
dir=$(cd "$1" && pwd)
work="$dir/rust.partial"
exec 9>"$dir/lock"
flock -n 9 || { say "waits for another setup of $dir"; flock 9; }

install_tools() {
  local missing=() sudo=()
  command -v qemu-aarch64-static >/dev/null && command -v qemu-s390x-static >/dev/null || missing+=(qemu-user-static)
  command -v aarch64-linux-gnu-gcc >/dev/null || missing+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
  command -v s390x-linux-gnu-gcc >/dev/null || missing+=(gcc-s390x-linux-gnu libc6-dev-s390x-cross)
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  say "installs ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  "${sudo[@]}" apt-get update -qq >&2 || die "apt-get update failed"
  "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2 ||
    die "apt-get could not install ${missing[*]}"
}

# The compiler with its own libraries, by its place. (sh would drop the variables that cargo names with a hyphen.)
wrap() {
  cat > "$dir/wrapper" <<'WRAPPER'
#!/usr/bin/env bash
root=$(cd "$(dirname "$0")" && pwd)
LD_LIBRARY_PATH="$root/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
  exec "$root/usr/bin/rustc" --sysroot "$root/usr" "$@"
WRAPPER
  chmod +x "$dir/wrapper"
  if cmp -s "$dir/wrapper" "$1/rustc"; then rm "$dir/wrapper"; else mv "$dir/wrapper" "$1/rustc"; fi
}

# Builds and runs one program a target; quiet, false if anything is amiss.
works() {
  local rustc=$1/rustc spec arch triple gnu qemu want probe="$dir/probe"
  [ -x "$rustc" ] || return 1
  case $("$rustc" --version 2>/dev/null) in "rustc $RUST".*) ;; *) return 1 ;; esac
  mkdir -p "$probe"
  cat > "$probe/probe.rs" <<'PROBE'
fn main() {
    let big = 1u16.to_ne_bytes() == [0, 1];
    println!("{} {}", std::env::consts::ARCH, if big { "big" } else { "little" });
}
PROBE
  for spec in "${TARGETS[@]}"; do
    read -r arch triple gnu qemu <<<"$spec"
    case $arch in arm64) want="aarch64 little" ;; *) want="s390x big" ;; esac
    "$rustc" --edition 2024 --target "$triple" -C "linker=$gnu-gcc" -o "$probe/$arch" "$probe/probe.rs" \
      >"$probe/log" 2>&1 || return 1
    [ "$("$qemu" -L "/usr/$gnu" "$probe/$arch" 2>>"$probe/log")" = "$want" ] || return 1
  done
}

apt_options=(-o APT::Architecture=amd64 -o APT::Architectures=amd64,arm64,s390x -o "Dir::State::Lists=$work/lists"
             -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)

# The newest version of a package that starts so.
version() {
  local found
  found=$(apt-cache "${apt_options[@]}" madison "$1" | awk -F'|' '{gsub(/ /, "", $2); print $2}' | grep -m 1 "^$2") ||
    die "the package sources have no $1 $2"
  printf '%s' "$found"
}

make() {
  rm -rf "$dir/rust" "$work"
  mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs"
  say "reads the package lists of amd64, arm64 and s390x"
  apt-get "${apt_options[@]}" -qq update >&2 || die "apt-get update failed for amd64, arm64, s390x"
  local std llvm deb packages
  std=$(version libstd-rust-web-dev:s390x "$RUST")
  llvm=$(version libllvm19:amd64 "")
  packages=("rustc-web:amd64=$std" "libstd-rust-web-$RUST:amd64=$std" "libllvm19:amd64=$llvm"
            "libstd-rust-web-dev:"{amd64,arm64,s390x}"=$std")
  say "downloads rustc $std with three standard libraries"
  (cd "$work/debs" && apt-get "${apt_options[@]}" -qq download "${packages[@]}" >&2) ||
    die "apt-get could not download ${packages[*]}"
  say "unpacks $(find "$work/debs" -name '*.deb' | wc -l) packages"
  for deb in "$work"/debs/*.deb; do
    dpkg-deb -x "$deb" "$work" || die "could not unpack ${deb##*/}"
  done
  wrap "$work"
  rm -rf "$work/debs" "$work/lists" "$work/cache"
  mv "$work" "$dir/rust"
}

install_tools
[ ! -x "$dir/rust/usr/bin/rustc" ] || wrap "$dir/rust"
if works "$dir/rust"; then
  say "$("$dir/rust/rustc" --version) is set up"
  exit 0
fi
[ ! -e "$dir/rust" ] || say "$dir/rust does not work and is made again"
make
works "$dir/rust" || die "programs built by $dir/rust/rustc do not run: $(tail -n 3 "$dir/probe/log" 2>/dev/null)"
say "$("$dir/rust/rustc" --version) is set up"
