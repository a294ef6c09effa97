#!/usr/bin/env bash
# engines.sh: ggml's operations through VK_LAYER_COOPMAT_fallback, against ggml on the CPU.
#
#   engines.sh fetch               fetches ggml's libraries and libllama (npm, 24 MB) into $COOP_CACHE/ggml
#   engines.sh ncnn [new|debian12] fetches ncnn (PyPI) into $COOP_CACHE/ncnn, and runs its layers through the layer (ncnn-layers.py)
#   engines.sh [--quick] [--only TEXT] [--json FILE] [--jobs N] [--without] [--mesa new|debian12]
#                                  prints a table; --without has ggml without the layer beside it
#   engines.sh llama [new|debian12] [the options above]
#                                  likewise the tokens that llama.cpp generates with small models of random weights
#
# The libraries are llama.cpp's, as the npm package @node-llama-cpp/linux-x64-vulkan has them, unmodified; the harnesses are
# scripts/engines.py and scripts/llama-tokens.py. With COOP_DRIVER=system the machine's own driver runs them. Settings of the layer are environment variables:
# COOPMAT_HIDE=VK_NV_cooperative_matrix2 engines.sh ...
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(dirname "$here")
export COOP_CACHE=${COOP_CACHE:-$repo/.cache}
package=@node-llama-cpp/linux-x64-vulkan
version=3.22.1
ncnn=1.0.20261020

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

if [ "${1:-}" = fetch ]; then
  fetch
  exit
fi
if [ "${1:-}" = ncnn ]; then
  fetch_ncnn
  export PYTHONPATH=$COOP_CACHE/ncnn${PYTHONPATH:+:$PYTHONPATH}
  exec "$here/layer.sh" --mesa "${2:-debian12}" python3 "$here/ncnn-layers.py"
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
