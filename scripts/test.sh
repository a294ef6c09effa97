#!/usr/bin/env bash
# test.sh: the tests of the workspace, with the Vulkan driver and the tools that they need.
#
#   test.sh                  everything: formatting, clippy, documentation, packages, semver.sh, every test. CI runs this
#   test.sh quick [ARGS...]  under two minutes once built: unit tests, rules, refusals, command lines; needs no driver
#   test.sh long [ARGS...]   the tests that take minutes each, which are ignored otherwise; without ARGS also
#                            capi.sh check and semver.sh all
#   test.sh ARGS...          every test that `cargo nextest run ARGS` (or `cargo test ARGS`, where nextest is missing) selects
#
# Fetches what scripts/drivers.sh, scripts/llama-shaders.sh, scripts/sarif-schema.sh and scripts/engines.sh provide, and makes a missing driver, tool or
# shader a failure instead of a skip. Test programs run with the current Mesa's lavapipe. The test runner's own summary comes last.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."

if cargo nextest --version >/dev/null 2>&1; then
  runner=(cargo nextest run)
else
  runner=(cargo test)
fi

if [ "${1:-}" = quick ]; then
  shift
  exec "${runner[@]}" --workspace --no-fail-fast --lib --bins \
    --test rules --test refusals --test check --test cooplower --test sarif --test repository "$@"
fi

only_long=
all_long=
if [ "${1:-}" = long ]; then
  shift
  only_long=1
  if [ $# = 0 ]; then all_long=1; fi
  if [ "${runner[1]}" = nextest ]; then set -- --run-ignored only "$@"; else set -- "$@" -- --ignored; fi
fi

export COOP_CACHE=${COOP_CACHE:-$PWD/.cache}
mkdir -p "$COOP_CACHE"
# cargo-semver-checks takes minutes to build: beside what is fetched.
semver=
if [ $# = 0 ]; then
  "$here/semver.sh" fetch & semver=$!
fi
"$here/drivers.sh"
"$here/drivers.sh" gpu
"$here/drivers.sh" neovim
"$here/drivers.sh" mdbook
"$here/drivers.sh" dxc
"$here/drivers.sh" pre-commit
COOP_CACHE=$(cd "$COOP_CACHE" && pwd)
"$here/drivers.sh" swiftshader
# Intel's offline compiler comes from sid and may be broken there for a while: its test says that it is skipped then.
"$here/drivers.sh" ocloc || echo "test.sh: no ocloc; what Intel's compiler takes is not tested" >&2
"$here/llama-shaders.sh"
"$here/sarif-schema.sh"
"$here/capi.sh" cbindgen
"$here/engines.sh" fetch

# What only the next edit would use takes 10 GB.
export CARGO_INCREMENTAL=0

export COOP_REQUIRE_VULKAN=1 COOP_REQUIRE_TOOLS=1 COOP_REQUIRE_LLAMA=1 COOP_REQUIRE_ENGINES=1
export PATH=$COOP_CACHE/bin:$PATH

# Cargo starts each test program with this.
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
export "CARGO_TARGET_${host}_RUNNER=$COOP_CACHE/bin/mesa-run"

status=0
failed=()
# Failures are printed where they happen, and their commands again behind the tests' summary.
check() {
  echo "== $*"
  "$@" || { status=1; failed+=("$*"); }
}
if [ $# = 0 ]; then
  check cargo fmt --all --check
  check cargo clippy --quiet --workspace --all-targets -- --deny warnings
  check env RUSTDOCFLAGS=--deny=warnings cargo doc --quiet --workspace --no-deps
  wait "$semver" || true
  check "$here/semver.sh"
  check cargo package --quiet --workspace --exclude coop-lab --no-verify --allow-dirty
fi
if [ -n "$all_long" ]; then
  check "$here/capi.sh" check
  check "$here/semver.sh" all
fi
# nextest leaves the examples in the documentation out.
[ "${runner[1]}" = test ] || [ -n "$only_long" ] || check cargo test --quiet --workspace --doc
"${runner[@]}" --workspace --no-fail-fast "$@" || { status=$?; failed+=("${runner[*]}"); }
[ "$status" = 0 ] || printf 'test.sh: failed: %s\n' "${failed[@]}" >&2
exit "$status"
