#!/usr/bin/env bash
# semver.sh: whether programs that were written for the interface of coopmat's last release still compile (cargo-semver-checks).
#
#   semver.sh            compare the interface with that of coopmat/interface/BASELINE, a tag or a commit. A break needs a new version,
#                        and then a new baseline
#   semver.sh if-there   the same, or a note where cargo-semver-checks or the history of git is missing. CI runs this
#   semver.sh fetch      install cargo-semver-checks ($COOP_CACHE/cargo-tools), if it is not there: eight minutes on two cores
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
    echo "semver.sh: $baseline is not in this clone" >&2
    return 3
  fi
  cargo semver-checks --package coopmat --package coop-device --baseline-rev "$baseline"
}

case ${1:-} in
  "") fetch && check ;;
  fetch) fetch ;;
  if-there)
    if ! there; then
      echo "semver.sh: no cargo-semver-checks $SEMVER_CHECKS: breaks of the interface are not looked for; scripts/semver.sh fetches it" >&2
      exit
    fi
    check || { status=$?; [ "$status" = 3 ] || exit "$status"; }
    ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
