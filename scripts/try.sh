#!/usr/bin/env bash
# try.sh: the whole line on one module: check it, lower it to scalar code, run both and compare.
#
#   try.sh [FILE.spv CASE.toml [OPTIONS of cooprun verify]]    default: testdata/kernels/gemm_simple
#
# Runs on lavapipe, which it fetches (scripts/drivers.sh). With COOP_DRIVER=system it runs on this machine's own
# Vulkan driver instead.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
module=${1:-$root/testdata/kernels/gemm_simple.spv}
case=${2:-${module%.spv}.toml}
options=("${@:3}")
# The size of lavapipe's subgroups: lowering warns where nothing says what the pipeline requires.
if [ $# = 0 ] && [ "${COOP_DRIVER:-lavapipe}" != system ]; then options=(--subgroup-size 8); fi

# Not the release build: that takes minutes, and this is over in a second either way. The tests use the same build.
cargo build --quiet --manifest-path "$root/Cargo.toml" -p coop-cli --bins
bin=${CARGO_TARGET_DIR:-$root/target}/debug
run=()
if [ "${COOP_DRIVER:-lavapipe}" != system ]; then
  export COOP_CACHE=${COOP_CACHE:-$root/.cache}
  "$here/drivers.sh"
  run=("$COOP_CACHE/bin/mesa-run")
fi

echo "== coopcheck"
"$bin/coopcheck" -v "$module"
echo "== cooplower and cooprun: lower, run both, compare"
exec ${run[@]+"${run[@]}"} "$bin/cooprun" verify "$module" --case "$case" ${options[@]+"${options[@]}"}
