#!/usr/bin/env bash
# sarif-schema.sh: the JSON schema of SARIF 2.1.0, for the test of `coopcheck --format sarif`.
#
# The schema comes with the crate serde-sarif (MIT), which cargo fetches; it goes to $COOP_CACHE/sarif-2.1.0.json (default: .cache in the
# repository). Does nothing if it is there.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${COOP_CACHE:-$(dirname "$here")/.cache}
target=$cache/sarif-2.1.0.json
[ -s "$target" ] && exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$cache"
cat >"$work/Cargo.toml" <<TOML
[package]
name = "schema"
version = "0.0.0"
edition = "2024"
[lib]
path = "lib.rs"
[dependencies]
serde-sarif = { version = "=0.8.0", default-features = false }
TOML
touch "$work/lib.rs"
(cd "$work" && cargo vendor -q vendor >/dev/null)
cp "$work/vendor/serde-sarif/src/schema.json" "$target.part"
mv "$target.part" "$target"
echo "sarif-schema.sh: $target" >&2
