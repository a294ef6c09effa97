#!/usr/bin/env bash
# build-hardware.sh: compiles testdata/hardware/*.comp as the lines "//: NAME FLAGS" at their tops say.
#
#   build-hardware.sh            write the .spv files
#   build-hardware.sh --check    compile into a scratch folder and compare with the .spv files that are there
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(dirname "$here")
cache=${COOP_CACHE:-$repo/.cache}
folder=$repo/testdata/hardware
case ${1:-} in
  "") check=0 ;;
  --check) check=1 ;;
  *)
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac

"$here/drivers.sh" >/dev/null
bin=$(cd "$cache" && pwd)/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$folder"/*.comp "$folder"/common.glsl "$work"
cd "$work"
built=0
wrong=0
for source in *.comp; do
  while IFS= read -r line; do
    # The flags are quoted as a shell would have it.
    eval "words=($line)"
    name=${words[0]}
    "$bin/glslang" --quiet -V -g0 --target-env vulkan1.3 "${words[@]:1}" -o "$name.spv" "$source" || {
      echo "build-hardware.sh: $name does not compile" >&2
      wrong=$((wrong + 1))
      continue
    }
    "$bin/spirv-val" --target-env vulkan1.3 "$name.spv" || {
      echo "build-hardware.sh: $name is not valid" >&2
      wrong=$((wrong + 1))
    }
    if [ "$check" = 1 ]; then
      cmp "$name.spv" "$folder/$name.spv" || wrong=$((wrong + 1))
    else
      cp "$name.spv" "$folder/$name.spv"
    fi
    built=$((built + 1))
  done < <(sed -n 's|^//: ||p' "$source")
done
for module in "$folder"/*.spv; do
  [ -e "$(basename "$module")" ] || {
    echo "build-hardware.sh: no source says how $(basename "$module") is built" >&2
    wrong=$((wrong + 1))
  }
done
if [ "$wrong" -gt 0 ]; then
  echo "build-hardware.sh: $wrong of $built modules are wrong or differ" >&2
  exit 1
fi
echo "build-hardware.sh: $built modules, all valid"
