#!/usr/bin/env bash
# release.sh: the archives of a release, with coop, coopcheck, cooplower and cooprun, completions, manual pages and licences.
# The tools are one program: coop, and links to it with the other names.
#
#   release.sh [TARGET...|all]  build and pack for these targets [x86_64-unknown-linux-gnu]
#   release.sh --bin FOLDER   pack coop of FOLDER for this machine, without building
#
# TARGET is x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu; `all` is both. Archives and their checksums are written to the folder of
# OUT [dist]. Another architecture than this machine's is built by Debian's Rust compiler and linked by Zig, which
# scripts/drivers.sh rust fetches, for C libraries from glibc 2.28 on; its tools are tried with QEMU (scripts/drivers.sh qemu).
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
out="${OUT:-$root/dist}"
tools=(coop coopcheck cooplower cooprun)
# The most bytes of the program. Tests pack larger ones, with less compression.
most="${MOST_BYTES:-10000000}"

die() { echo "release.sh: $*" >&2; exit 1; }

version="$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)"
host="$(uname -m)-unknown-linux-gnu"
mkdir -p "$out"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# Makes links to coop of FOLDER, with the names of the tools.
link() {
  local tool
  for tool in "${tools[@]:1}"; do ln -sf coop "$1/$tool"; done
}

# Completions and manual pages, by coop of FOLDER, which runs here.
describe() {
  local bin="$work/here" to="$2" tool
  mkdir -p "$to/completions" "$to/man" "$bin"
  ln -sf "$(cd "$1" && pwd)/coop" "$bin/coop"
  link "$bin"
  for tool in "${tools[@]}"; do
    "$bin/$tool" --completions bash > "$to/completions/$tool.bash"
    "$bin/$tool" --completions zsh > "$to/completions/_$tool"
    "$bin/$tool" --completions fish > "$to/completions/$tool.fish"
    "$bin/$tool" --man "$to/man"
  done
}

# Packs coop of FOLDER for TARGET; that of HERE, which runs on this machine, describes the tools.
pack() {
  local bin="$1" target="$2" here="$3" name folder size
  name="coop-$version-$target"
  folder="$work/$name"
  mkdir -p "$folder"
  [ -x "$bin/coop" ] || die "$bin/coop is not there"
  size="$(stat -c %s "$bin/coop")"
  [ "$size" -le "$most" ] || die "$bin/coop has $size bytes, more than $most: is it stripped?"
  install -m 755 "$bin/coop" "$folder/coop"
  link "$folder"
  describe "$here" "$folder"
  cp "$root/LICENSE-MIT" "$root/LICENSE-APACHE" "$root/README.md" "$root/CHANGELOG.md" "$folder"
  # The same files give the same archive.
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-0}" -C "$work" -cf - "$name" \
    | gzip -n "-${LEVEL:-9}" > "$out/$name.tar.gz"
  (cd "$out" && sha256sum "$name.tar.gz" > "$name.tar.gz.sha256")
  echo "$out/$name.tar.gz"
}

build() {
  local target="$1" cache="${COOP_CACHE:-$root/.cache}"
  local options=(--manifest-path "$root/Cargo.toml" --locked --profile dist -p coop-cli --bin coop)
  # Nothing unwinds, and what is stripped has no backtraces.
  local -x RUSTFLAGS="${RUSTFLAGS:-} -C link-arg=-Wl,--no-eh-frame-hdr -C link-arg=-Wl,-T,$root/scripts/no-unwinding.ld"
  if [ "$target" = "$host" ]; then
    # Functions with the same code are one. Zig's linker does not do that.
    RUSTFLAGS+=" -C link-arg=-Wl,--icf=all"
    cargo build "${options[@]}" --target "$target"
    return
  fi
  "$root/scripts/drivers.sh" rust
  # The folder of its own keeps what compilers of two versions make apart.
  RUSTC="$cache/bin/debian-rustc" CARGO_ZIGBUILD_ZIG_PATH="$cache/zig/ziglang/zig" CARGO_TARGET_DIR="$built/cross" \
    "$cache/zig/cargo-zigbuild" zigbuild "${options[@]}" --target "$target.2.28"
}

# Runs a tool of another architecture: it has to check a module as the tool of this machine does.
try_out() {
  local bin="$1" here="$2" cache="${COOP_CACHE:-$root/.cache}" tool module
  "$root/scripts/drivers.sh" qemu
  link "$bin"
  link "$here"
  for tool in "${tools[@]}"; do
    "$cache/bin/aarch64-run" "$bin/$tool" --version | cmp - <("$here/$tool" --version) || die "$bin/$tool does not run"
  done
  module="$root/testdata/kernels/gemm_i8.spv"
  for tool in "$cache/bin/aarch64-run $bin" "$here"; do
    # One error: status 1.
    $tool/coopcheck --no-config --format json "$root/testdata/validate/muladd/muladd-k-mismatch.spvasm" && die "$tool/coopcheck finds nothing"
    $tool/cooplower --target scalar --subgroup-size 8 --spec 0=8 --spec 1=8 --spec 2=8 --spec 3=8 "$module" -o - | sha256sum
    $tool/cooprun run "$module" --case "${module%.spv}.toml" --on interp
  done >"$work/tried"
  [ "$(sort "$work/tried" | uniq -c | awk '{ print $1 }' | sort -u)" = 2 ] || { cat "$work/tried" >&2; die "$bin works otherwise than $here"; }
}

if [ "${1:-}" = --bin ]; then
  [ -n "${2:-}" ] || die "--bin needs a folder"
  pack "$2" "$host" "$2"
  exit
fi
case "${1:-}" in
  "") set -- x86_64-unknown-linux-gnu ;;
  all) set -- x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu ;;
esac
built="${CARGO_TARGET_DIR:-$root/target}"
for target in "$@"; do
  build "$target"
  here="$built/$host/dist"
  bin="$built/$target/dist"
  if [ "$target" != "$host" ]; then
    build "$host"
    bin="$built/cross/$target/dist"
    # Other processors have no emulator here.
    if [ "$target" = aarch64-unknown-linux-gnu ]; then try_out "$bin" "$here"; fi
  fi
  pack "$bin" "$target" "$here"
done
