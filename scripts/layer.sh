#!/usr/bin/env bash
# layer.sh: runs a program with VK_LAYER_COOPMAT_fallback (layer/README.md).
#
#   layer.sh [--mesa new|debian12] CMD ...    on a software driver (scripts/drivers.sh); CMD may be a script, Python's too
#   layer.sh --gpu NAME CMD ...               on the driver of a GPU that is not there, which compiles and executes nothing;
#                                             on SwiftShader, which executes: --gpu swiftshader
#   layer.sh --manifest                       builds the layer, and prints the folder of its manifest
#
# Settings are environment variables: COOPMAT_LOG=info COOPMAT_TARGET=scalar layer.sh ...
#
# Environment: COOP_DRIVER=system takes the machine's own loader and drivers; COOP_LAYER is a library that was built already;
# COOP_LAYER_PROFILE (default "quick") is what cargo builds with; COOP_CACHE (default: .cache in the repository);
# COOP_LAYERS are other layers, in front of this one: VK_LAYER_KHRONOS_validation.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(dirname "$here")
export COOP_CACHE=${COOP_CACHE:-$repo/.cache}
profile=${COOP_LAYER_PROFILE:-quick}

die() {
  echo "layer.sh: $*" >&2
  exit 1
}

# Builds the library, and writes a manifest that names it.
manifest() {
  local library folder
  if [ -n "${COOP_LAYER:-}" ]; then
    library=$(cd "$(dirname "$COOP_LAYER")" && pwd)/$(basename "$COOP_LAYER")
  else
    (cd "$repo" && cargo build --quiet --profile "$profile" --package coop-layer) >&2 || die "the layer was not built"
    library=${CARGO_TARGET_DIR:-$repo/target}/$([ "$profile" = dev ] && echo debug || echo "$profile")/libcoopmat_layer.so
  fi
  [ -e "$library" ] || die "no $library"
  # One folder per library, so that several worktrees can share a cache.
  folder=$COOP_CACHE/layer/$(printf %s "$library" | cksum | cut -d ' ' -f 1)
  mkdir -p "$folder"
  sed "s|\"libcoopmat_layer.so\"|\"$library\"|" "$repo/layer/VkLayer_COOPMAT_fallback.json" >"$folder/.$$"
  mv "$folder/.$$" "$folder/VkLayer_COOPMAT_fallback.json"
  echo "$folder"
}

# The words to start a program with: only an ELF program can be started with a driver's own C library, so a script is given to
# its interpreter.
resolve() { # PROGRAM
  local program line
  program=$(command -v -- "$1") || die "no program '$1'"
  command=("$program")
  while [ "$(head -c 2 "${command[0]}" | tr -d '\0')" = '#!' ]; do
    case $(basename "${command[0]}") in
      # A shim of a version manager.
      python*) command=("$("${command[0]}" -c 'import sys; print(sys.executable)')" "${command[@]:1}") ;;
      *)
        line=$(head -n 1 "${command[0]}")
        read -ra words <<<"${line#\#!}"
        if [ "$(basename "${words[0]}")" = env ]; then words=("${words[@]:1}"); fi
        words[0]=$(command -v -- "${words[0]}") || die "no interpreter for '${command[0]}'"
        command=("${words[@]}" "${command[@]}")
        ;;
    esac
  done
}

which=new gpu=
while [ $# -gt 0 ]; do
  case $1 in
    --mesa)
      [ $# -ge 2 ] || die "--mesa wants new or debian12"
      which=$2
      shift 2
      ;;
    --gpu)
      [ $# -ge 2 ] || die "--gpu wants a name of 'drivers.sh gpus'"
      which=gpu gpu=$2
      shift 2
      ;;
    --manifest)
      manifest
      exit
      ;;
    -h | --help)
      sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
      exit
      ;;
    --)
      shift
      break
      ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || die "no program; see layer.sh --help"
case $which in
  new) runner=mesa-run tools=mesa ;;
  debian12) runner=mesa12-run tools=mesa12 ;;
  gpu)
    if [ "$gpu" = swiftshader ]; then
      runner=swiftshader-run tools=mesa
    else
      "$here/drivers.sh" gpus | grep -qx -- "$gpu" || die "unknown GPU '$gpu': swiftshader $("$here/drivers.sh" gpus | xargs)"
      runner=$gpu-run tools=gpu
    fi
    ;;
  *) die "unknown driver '$which': new or debian12" ;;
esac

folder=$(manifest)
# The first is nearest to the application.
layers=${COOP_LAYERS:+$COOP_LAYERS:}VK_LAYER_COOPMAT_fallback
if [ "${COOP_DRIVER:-}" = system ]; then
  if [ -n "${VK_LAYER_PATH:-}" ]; then export VK_LAYER_PATH=$VK_LAYER_PATH:$folder; fi
  export VK_ADD_LAYER_PATH=${VK_ADD_LAYER_PATH:+$VK_ADD_LAYER_PATH:}$folder
  VK_INSTANCE_LAYERS=$layers exec "$@"
fi
if [ "$gpu" = swiftshader ]; then
  "$here/drivers.sh" && "$here/drivers.sh" swiftshader
elif [ "$which" = gpu ]; then
  "$here/drivers.sh" gpu
else
  "$here/drivers.sh"
  # Wrappers of an older drivers.sh know no further layers.
  grep -q COOP_LAYER_PATH "$COOP_CACHE/bin/$runner" || "$here/drivers.sh" wrap
fi
# The one in PATH may be a wrapper, which has a driver of its own.
if [ "$1" = vulkaninfo ]; then command=("$COOP_CACHE/$tools/usr/bin/vulkaninfo"); else resolve "$1"; fi
shift
COOP_LAYER_PATH=$folder VK_INSTANCE_LAYERS=$layers exec "$COOP_CACHE/bin/$runner" "${command[@]}" "$@"
