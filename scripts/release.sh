#!/usr/bin/env bash
# release.sh: the archives of a release, with coop, coopcheck, cooplower and cooprun, completions, manual pages and licences.
# The tools are one program: coop, and links to it with the other names.
#
#   release.sh [TARGET...]    build and pack for these targets [x86_64-unknown-linux-gnu]
#   release.sh --bin FOLDER   pack coop of FOLDER for this machine, without building
#
# Archives and their checksums are written to the folder of OUT [dist]. Another architecture needs its standard library
# (`rustup target add aarch64-unknown-linux-gnu`) and a linker: TARGET's gcc (Debian: gcc-aarch64-linux-gnu) is used if it is there.
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
  local target="$1" linker
  if [ "$target" != "$host" ]; then
    linker="${target/-unknown/}-gcc"
    command -v "$linker" > /dev/null || die "no linker for $target: $linker is not there (Debian: gcc-${target%%-*}-linux-gnu)"
    export "CARGO_TARGET_$(echo "$target" | tr 'a-z-' 'A-Z_')_LINKER=$linker"
  fi
  # Nothing unwinds, and what is stripped has no backtraces.
  RUSTFLAGS="${RUSTFLAGS:-} -C force-unwind-tables=no" \
    cargo build --manifest-path "$root/Cargo.toml" --locked --profile dist --target "$target" -p coop-cli --bin coop
}

if [ "${1:-}" = --bin ]; then
  [ -n "${2:-}" ] || die "--bin needs a folder"
  pack "$2" "$host" "$2"
  exit
fi
[ $# -gt 0 ] || set -- x86_64-unknown-linux-gnu
built="${CARGO_TARGET_DIR:-$root/target}"
for target in "$@"; do
  build "$target"
  here="$built/$target/dist"
  if [ "$target" != "$host" ]; then
    build "$host"
    here="$built/$host/dist"
  fi
  pack "$built/$target/dist" "$target" "$here"
done
