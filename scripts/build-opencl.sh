#!/usr/bin/env bash
# build-opencl.sh: compiles testdata/opencl/*.ll and testdata/vulkan/*.ll to SPIR-V, with llvm-spirv and with LLVM's own SPIR-V back end.
#
#   build-opencl.sh            write the .spv files
#   build-opencl.sh --check    compile into a scratch folder and compare with the .spv files that are there
#
# NAME.ll becomes NAME.spv by llvm-spirv, and NAME.llc.spv by llc where that knows all that the kernel does.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(dirname "$here")
cache=${COOP_CACHE:-$repo/.cache}
extensions=+SPV_KHR_cooperative_matrix,+SPV_INTEL_joint_matrix,+SPV_INTEL_bfloat16_conversion,+SPV_INTEL_tensor_float32_conversion,+SPV_INTEL_int4

check=0
case ${1:-} in
  "") ;;
  --check) check=1 ;;
  *)
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac

"$here/drivers.sh" llvm
bin=$(cd "$cache" && pwd)/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

built=0
wrong=0
take() { # MODULE
  if [ "$check" = 1 ]; then
    cmp "$work/$1" "$folder/$1" || wrong=$((wrong + 1))
  else
    cp "$work/$1" "$folder/$1"
  fi
  built=$((built + 1))
}

for source in "$repo"/testdata/{opencl,vulkan}/*.ll; do
  folder=$(dirname "$source")
  name=$(basename "$source" .ll)
  "$bin/llvm-as-22" "$source" -o "$work/$name.bc"
  "$bin/llvm-spirv-22" "$work/$name.bc" "--spirv-ext=$extensions" -o "$work/$name.spv"
  take "$name.spv"
  # llc leaves the pointer to an element of a matrix a call of a function that is nowhere.
  if ! grep -q '__spirv_AccessChain' "$source"; then
    "$bin/llc-22" -O0 -mtriple=spirv64-unknown-unknown "--spirv-ext=$extensions" -filetype=obj "$work/$name.bc" -o "$work/$name.llc.spv"
    take "$name.llc.spv"
  fi
done

if [ "$wrong" -gt 0 ]; then
  echo "build-opencl.sh: $wrong of $built modules differ from what is built now" >&2
  exit 1
fi
echo "build-opencl.sh: $built modules"
