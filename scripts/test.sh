#!/usr/bin/env bash
# test.sh: every test of the workspace, with the Vulkan driver and the tools that they need.
#
#   test.sh [ARGS...]    ARGS go to `cargo nextest run`, or to `cargo test` where nextest is missing
#
# Fetches what scripts/drivers.sh, scripts/llama-shaders.sh and scripts/sarif-schema.sh provide, and makes a missing driver, tool or
# shader a failure instead of a skip. Test programs run with the current Mesa's lavapipe. The test runner's own summary comes last.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."

export COOP_CACHE=${COOP_CACHE:-$PWD/.cache}
"$here/drivers.sh"
COOP_CACHE=$(cd "$COOP_CACHE" && pwd)
# Intel's offline compiler comes from sid and may be broken there for a while: its test says that it is skipped then.
"$here/drivers.sh" ocloc || echo "test.sh: no ocloc; what Intel's compiler takes is not tested" >&2
"$here/llama-shaders.sh"
"$here/sarif-schema.sh"

export COOP_REQUIRE_VULKAN=1 COOP_REQUIRE_TOOLS=1 COOP_REQUIRE_LLAMA=1
export PATH=$COOP_CACHE/bin:$PATH

# Cargo starts each test program with this.
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
export "CARGO_TARGET_${host}_RUNNER=$COOP_CACHE/bin/mesa-run"

if cargo nextest --version >/dev/null 2>&1; then
  # nextest leaves the examples in the documentation out.
  status=0
  cargo test --workspace --doc --quiet || status=$?
  cargo nextest run --workspace --no-fail-fast "$@" || status=$?
  exit "$status"
fi
exec cargo test --workspace --no-fail-fast "$@"
