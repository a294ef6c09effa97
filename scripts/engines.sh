#!/usr/bin/env bash
# engines.sh: engines, unmodified, through VK_LAYER_COOPMAT_fallback: ggml's operations against ggml on the CPU, and others.
#
#   engines.sh fetch               fetches what tests need: ggml's libraries and libllama (npm, 24 MB) into $COOP_CACHE/ggml, ncnn and its source, IREE and Dawn
#   engines.sh ncnn [new|debian12|swiftshader]
#                                  fetches ncnn (PyPI) into $COOP_CACHE/ncnn, and runs its layers through the layer (ncnn-layers.py); where
#                                  one is wrong, without it too
#   engines.sh iree [new|debian12] fetches IREE (PyPI, 560 MB unpacked) into $COOP_CACHE/iree, and compares its products of matrices with
#                                  numpy's, with the layer and without (iree-matmul.py)
#   engines.sh dawn [new]          fetches Dawn (npm, 51 MB) into $COOP_CACHE/dawn, and runs its subgroup matrices through the layer, with
#                                  VK_KHR_cooperative_matrix of the driver's hidden and not, and without the layer (dawn-matmul.mjs)
#   engines.sh [--quick] [--only TEXT] [--json FILE] [--jobs N] [--without] [--mesa new|debian12]
#                                  prints a table; --without has ggml without the layer beside it
#   engines.sh llama [new|debian12] [the options above]
#                                  likewise the tokens that llama.cpp generates with small models of random weights
#   engines.sh all [the options above]
#                                  every engine on both software drivers, which takes hours (with --quick, one); with COOP_DRIVER=system on
#                                  the machine's own: as it is, with VK_NV_cooperative_matrix2 hidden, and with VK_KHR_cooperative_matrix too
#
# The libraries are llama.cpp's, as the npm package @node-llama-cpp/linux-x64-vulkan has them; the harnesses are scripts/engines.py
# and scripts/llama-tokens.py. With COOP_DRIVER=system the machine's own driver runs them. Settings of the layer are environment variables:
# COOPMAT_HIDE=VK_NV_cooperative_matrix2 engines.sh ...
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(dirname "$here")
export COOP_CACHE=${COOP_CACHE:-$repo/.cache}
package=@node-llama-cpp/linux-x64-vulkan
version=3.22.1
ncnn=1.0.20261020
iree=3.13.0
dawn=0.6.2

die() {
  echo "engines.sh: $*" >&2
  exit 1
}

# npm checks what it fetches against the registry's sums. ggml's libraries and libllama are kept.
fetch() {
  local final=$COOP_CACHE/ggml work=$COOP_CACHE/.fetch-ggml.$$
  local stamp="$package $version: ggml, llama"
  if [ "$(cat "$final/STAMP" 2>/dev/null)" = "$stamp" ]; then return; fi
  for name in npm tar; do
    command -v "$name" >/dev/null || die "$name is needed: ggml's libraries come from the npm registry"
  done
  echo "engines.sh: fetching $package $version" >&2
  rm -rf "$work"
  mkdir -p "$work/lib"
  (cd "$work" && npm pack --silent "$package@$version" >/dev/null && tar xzf ./*.tgz) || die "npm could not fetch the package"
  find "$work/package" \( -name 'libggml*.so' -o -name 'libllama.*.so' \) -exec mv {} "$work/lib" \;
  [ -e "$work/lib/libggml-vulkan.so" ] || die "the package has no libggml-vulkan.so"
  compgen -G "$work/lib/libllama.*.so" >/dev/null || die "the package has no libllama.*.so"
  echo "$stamp" >"$work/lib/STAMP"
  rm -rf "$final"
  mv "$work/lib" "$final"
  rm -rf "$work"
}

# pip checks what it fetches against the registry's sums.
fetch_ncnn() {
  local final=$COOP_CACHE/ncnn work=$COOP_CACHE/.fetch-ncnn.$$
  if [ "$(cat "$final/STAMP" 2>/dev/null)" = "ncnn $ncnn" ]; then return; fi
  echo "engines.sh: fetching ncnn $ncnn" >&2
  rm -rf "$work"
  python3 -m pip install --quiet --disable-pip-version-check --target "$work" "ncnn==$ncnn" numpy || die "pip could not fetch ncnn"
  echo "ncnn $ncnn" >"$work/STAMP"
  rm -rf "$final"
  mv "$work" "$final"
}

fetch_iree() {
  local final=$COOP_CACHE/iree work=$COOP_CACHE/.fetch-iree.$$
  if [ "$(cat "$final/STAMP" 2>/dev/null)" = "iree $iree" ]; then return; fi
  echo "engines.sh: fetching IREE $iree" >&2
  rm -rf "$work"
  python3 -m pip install --quiet --disable-pip-version-check --target "$work" \
    "iree-base-compiler==$iree" "iree-base-runtime==$iree" numpy || die "pip could not fetch IREE"
  echo "iree $iree" >"$work/STAMP"
  rm -rf "$final"
  mv "$work" "$final"
}

# Only what Linux runs is kept.
fetch_dawn() {
  local final=$COOP_CACHE/dawn work=$COOP_CACHE/.fetch-dawn.$$ name
  if [ "$(cat "$final/STAMP" 2>/dev/null)" = "webgpu $dawn" ]; then return; fi
  for name in npm tar; do
    command -v "$name" >/dev/null || die "$name is needed: Dawn comes from the npm registry"
  done
  echo "engines.sh: fetching webgpu $dawn" >&2
  rm -rf "$work"
  mkdir -p "$work"
  (cd "$work" && npm pack --silent "webgpu@$dawn" >/dev/null && tar xzf ./*.tgz) || die "npm could not fetch the package"
  find "$work/package/dist" -mindepth 1 -maxdepth 1 ! -name 'linux-*' -exec rm -rf {} +
  [ -n "$(find "$work/package/dist" -name dawn.node)" ] || die "the package has no dawn.node for Linux"
  echo "webgpu $dawn" >"$work/package/STAMP"
  rm -rf "$final"
  mv "$work/package" "$final"
  rm -rf "$work"
}

# Sets what programs are started with, with the layer and without: `through` and `plain`.
starters() { # new|debian12
  if [ "${COOP_DRIVER:-}" = system ]; then
    through=("$here/layer.sh")
    plain=(env)
  else
    through=("$here/layer.sh" --mesa "$1")
    plain=("$here/drivers.sh" run --mesa "$1")
  fi
}

# Dawn's configurations of subgroup matrices once more, with settings of the layer.
dawn_through() { # SETTING ...
  local log status=0
  log=$(mktemp)
  env "$@" COOPMAT_LOG=info COOPMAT_LOG_FILE="$log" "${through[@]}" node "$here/dawn-matmul.mjs" "$COOP_CACHE/dawn" || status=$?
  echo "$(grep -c ': lowered to ' "$log" || true) pipelines lowered"
  grep 'is refused' "$log" || true
  rm -f "$log"
  return "$status"
}

if [ "${1:-}" = fetch ]; then
  fetch
  fetch_ncnn
  python3 "$here/ncnn-levels.py" fetch
  fetch_iree
  fetch_dawn
  exit
fi
if [ "${1:-}" = ncnn ]; then
  fetch_ncnn
  export PYTHONPATH=$COOP_CACHE/ncnn${PYTHONPATH:+:$PYTHONPATH}
  if [ "${2:-}" = swiftshader ]; then driver=(--gpu swiftshader); else driver=(--mesa "${2:-debian12}"); fi
  # A layer of ncnn's that is wrong without this layer, too, is the driver's fault or ncnn's.
  through=$("$here/layer.sh" "${driver[@]}" python3 "$here/ncnn-layers.py") || true
  echo "$through"
  if ! grep -q '"wrong": 0}' <<<"$through"; then
    echo "== without the layer"
    python=$(python3 -c 'import sys; print(sys.executable)')
    case ${driver[1]} in
      swiftshader) plain=("$COOP_CACHE/bin/swiftshader-run" "$python") ;;
      *) plain=("$here/drivers.sh" run --mesa "${driver[1]}" "$python") ;;
    esac
    if [ "${COOP_DRIVER:-}" = system ]; then plain=("$python"); fi
    without=$("${plain[@]}" "$here/ncnn-layers.py") || true
    echo "$without"
    wrong() { sed -n 's/: wrong .*//p' | sort; }
    grep -q '"right": [1-9]' <<<"$through" || die "no layer of ncnn's is right"
    [ -z "$(comm -23 <(wrong <<<"$through") <(wrong <<<"$without"))" ] || die "layers of ncnn's are wrong with the layer alone"
  fi
  exit
fi
if [ "${1:-}" = iree ]; then
  fetch_iree
  export PYTHONPATH=$COOP_CACHE/iree${PYTHONPATH:+:$PYTHONPATH}
  starters "${2:-debian12}"
  "$here/layer.sh" --manifest >/dev/null
  # GPUs that IREE has descriptions with matrices of have subgroups of 32.
  size=()
  if [ "${COOP_DRIVER:-}" = system ]; then size=(--subgroup-size 32); fi
  exec python3 "$here/iree-matmul.py" "${size[@]}" "layer=${through[*]}" "without=${plain[*]}"
fi
if [ "${1:-}" = dawn ]; then
  command -v node >/dev/null || die "node is needed: Dawn is an addon of it"
  fetch_dawn
  starters "${2:-new}"
  "$here/layer.sh" --manifest >/dev/null
  status=0
  echo "== with the layer, VK_KHR_cooperative_matrix hidden"
  dawn_through COOPMAT_HIDE=VK_KHR_cooperative_matrix || status=1
  echo "== with the layer"
  dawn_through || status=1
  echo "== without the layer"
  # This one is for comparison.
  "${plain[@]}" "$(command -v node)" "$here/dawn-matmul.mjs" "$COOP_CACHE/dawn" || true
  exit "$status"
fi
# Runs this script with other arguments, and keeps those that failed in `failed`.
attempt() {
  local words="$*${COOPMAT_HIDE:+, with $COOPMAT_HIDE hidden}"
  echo "== engines.sh $words"
  "$here/engines.sh" "$@" || failed+=("$words")
}

# Every engine on a driver; the options are for ggml's operations and llama.cpp's tokens.
every_engine() { # new|debian12 OPTION ...
  local mesa=$1
  shift
  attempt --mesa "$mesa" "$@"
  attempt llama "$mesa" "$@"
  attempt ncnn "$mesa"
  attempt iree "$mesa"
  # Dawn takes no device of Debian 12's driver.
  [ "$mesa" = debian12 ] || attempt dawn "$mesa"
}

if [ "${1:-}" = all ]; then
  shift
  failed=()
  if [ "${COOP_DRIVER:-}" = system ]; then
    every_engine new "$@"
    for hidden in VK_NV_cooperative_matrix2 VK_NV_cooperative_matrix2,VK_KHR_cooperative_matrix; do
      COOPMAT_HIDE=$hidden every_engine new "$@"
    done
  else
    every_engine debian12 "$@"
    every_engine new "$@"
  fi
  if [ "${#failed[@]}" = 0 ]; then exit; fi
  printf 'engines.sh: failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
harness=engines.py without='' mesa=debian12 arguments=()
if [ "${1:-}" = llama ]; then
  harness=llama-tokens.py
  shift
  case ${1:-} in
    new | debian12)
      mesa=$1
      shift
      ;;
  esac
fi
while [ $# -gt 0 ]; do
  case $1 in
    --without) without=1 ;;
    --mesa)
      mesa=${2:?--mesa wants new or debian12}
      shift
      ;;
    --only | --json | --limit | --log | --jobs | --budget)
      arguments+=("$1" "${2:?$1 wants a value}")
      shift
      ;;
    --quick) arguments+=("$1") ;;
    *)
      sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
      exit 2
      ;;
  esac
  shift
done
fetch
"$here/layer.sh" --manifest >/dev/null
export COOPMAT_LOG=${COOPMAT_LOG:-info}
if [ "${COOP_DRIVER:-}" = system ]; then
  columns=("layer=$here/layer.sh")
  plain="env"
else
  columns=("layer=$here/layer.sh --mesa $mesa")
  plain="$here/drivers.sh run --mesa $mesa"
fi
if [ -n "$without" ]; then columns+=("without=$plain"); fi
exec python3 "$here/$harness" table "$COOP_CACHE/ggml" "${arguments[@]}" "${columns[@]}"
