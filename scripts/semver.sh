#!/usr/bin/env bash
# semver.sh: whether programs that were written for the interface of coopmat's last release still compile (cargo-semver-checks).
#
#   semver.sh            compare the interface with that of coopmat/interface/BASELINE, a tag or a commit, if the listings or the
#                        manifests differ at all. A break needs a new version, and then a new baseline. A shallow clone, which
#                        lacks the baseline, gets a note. scripts/test.sh runs this
#   semver.sh all        compare them in any case. `scripts/test.sh long` runs this
#   semver.sh fetch      install cargo-semver-checks ($COOP_CACHE/cargo-tools), if semver.sh needs it and it is not there: minutes
#                        on two cores
#
# coop-device counts too: coopmat re-exports its items. What the interface is, item by item, with attributes and auto traits, the
# test `interface` of coopmat compares with the listings.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."
export COOP_CACHE=${COOP_CACHE:-$PWD/.cache}

# It reads what this toolchain's rustdoc writes.
SEMVER_CHECKS=0.51.0
tools=$COOP_CACHE/cargo-tools
export PATH=$tools/bin:$PATH

there() {
  [ "$(cargo-semver-checks semver-checks --version 2>/dev/null || true)" = "cargo-semver-checks $SEMVER_CHECKS" ]
}

baseline=$(cat coopmat/interface/BASELINE)

# Whether the baseline's listings and features are those of this tree.
is_baseline() {
  git rev-parse --quiet --verify "$baseline^{commit}" >/dev/null &&
    git diff --quiet "$baseline" -- 'coopmat/interface/*.snap' coopmat/Cargo.toml device/Cargo.toml
}

install() {
  if there; then return; fi
  # Unoptimized: it takes half the time to build, and no second more to run.
  CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --force --debug --root "$tools" "cargo-semver-checks@$SEMVER_CHECKS"
}

check() {
  if ! git rev-parse --quiet --verify "$baseline^{commit}" >/dev/null; then
    echo "semver.sh: $baseline is not in this clone: breaks of the interface are not looked for" >&2
    [ "$(git rev-parse --is-shallow-repository)" = true ]
    return
  fi
  install && cargo semver-checks --package coopmat --package coop-device --baseline-rev "$baseline"
}

case ${1:-} in
  "") if is_baseline; then echo "semver.sh: the interface is that of $baseline"; else check; fi ;;
  all) check ;;
  fetch) is_baseline || install ;;
  *) sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
