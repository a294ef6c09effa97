#!/usr/bin/env bash
# semver.sh: whether programs that were written for the interface of coopmat's last release still compile (cargo-semver-checks).
#
#   semver.sh            compare the interface with that of coopmat/interface/BASELINE, a tag or a commit. A break needs a new version,
#                        and then a new baseline. A shallow clone, which lacks the baseline, gets a note. scripts/test.sh runs this
#   semver.sh fetch      install cargo-semver-checks ($COOP_CACHE/cargo-tools), if it is not there: minutes on two cores
#
# coop-device counts too: coopmat re-exports its items. What the interface is, item by item, the test `interface` of coopmat compares.
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

fetch() {
  if there; then return; fi
  # Unoptimized: it takes half the time to build, and no second more to run.
  CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --force --debug --root "$tools" "cargo-semver-checks@$SEMVER_CHECKS"
}

check() {
  local baseline
  baseline=$(cat coopmat/interface/BASELINE)
  if ! git rev-parse --quiet --verify "$baseline^{commit}" >/dev/null; then
    echo "semver.sh: $baseline is not in this clone: breaks of the interface are not looked for" >&2
    [ "$(git rev-parse --is-shallow-repository)" = true ]
    return
  fi
  cargo semver-checks --package coopmat --package coop-device --baseline-rev "$baseline"
}

case ${1:-} in
  "") fetch && check ;;
  fetch) fetch ;;
  *) sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
