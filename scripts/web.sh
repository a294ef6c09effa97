#!/usr/bin/env bash
# web.sh: the page that checks and lowers modules in a browser: one file, target/web/index.html.
#
#   web.sh          build it
#   web.sh test     build it and test it in Chromium; pictures of it come to target/web/test
#   web.sh fetch    fetch what both need
#
# The checker is compiled by Debian's Rust compiler, which has a standard library for WebAssembly; the packages of the page's
# script (web/page/package.json) and Chromium come from npm. All of it is unpacked in COOP_CACHE [.cache].
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
export COOP_CACHE=${COOP_CACHE:-$root/.cache}
target=${CARGO_TARGET_DIR:-$root/target}
out=$target/web

die() {
  echo "web.sh: $*" >&2
  exit 1
}

# The packages of package-lock.json, in a folder of the cache that is made anew when they change.
packages() {
  local sum folder work
  for name in node npm; do
    command -v "$name" >/dev/null || die "$name is needed: the page's packages come from npm"
  done
  sum=$(sha256sum <"$root/web/page/package-lock.json" | cut -c 1-16)
  folder=$COOP_CACHE/page-$sum
  if [ ! -d "$folder" ]; then
    work=$(mktemp -d "$COOP_CACHE/.fetch-page-XXXXXX")
    cp "$root"/web/page/package{,-lock}.json "$work"
    (cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --silent) || die "npm could not fetch the page's packages"
    mv -T "$work" "$folder" 2>/dev/null || rm -rf "$work"
  fi
  echo "$folder/node_modules"
}

fetch() {
  mkdir -p "$COOP_CACHE"
  COOP_CACHE=$(cd "$COOP_CACHE" && pwd)
  "$here/drivers.sh" rust
  modules=$(packages)
}

build() {
  local wasm=wasm32-unknown-unknown work=$out/page
  fetch
  RUSTC=$COOP_CACHE/bin/debian-rustc RUSTC_WRAPPER='' \
    CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$COOP_CACHE/bin/wasm-ld \
    CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="-Clink-arg=-zstack-size=4194304" \
    cargo build --manifest-path "$root/Cargo.toml" --locked --quiet -p coop-web --lib --profile web --target "$wasm" --target-dir "$target/wasm"
  rm -rf "$work"
  mkdir -p "$work"
  cp "$root"/web/page/* "$work"
  ln -s "$modules" "$work/node_modules"
  node "$work/build.mjs" "$target/wasm/$wasm/web/coop_web.wasm" "$root" "$out/index.html"
}

case ${1:-build} in
  build) build ;;
  test)
    "$here/drivers.sh" chromium
    "$here/llama-shaders.sh"
    build
    mkdir -p "$out/test"
    rm -f "$out/test"/*
    PATH=$COOP_CACHE/bin:$PATH node "$out/page/test.mjs" "$out/index.html" "$root" "$COOP_CACHE/bin/chromium" "$COOP_CACHE/llama" "$out/test"
    ;;
  fetch) fetch && "$here/drivers.sh" chromium ;;
  *)
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$here/web.sh" >&2
    exit 2
    ;;
esac
