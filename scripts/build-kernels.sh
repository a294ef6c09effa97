#!/usr/bin/env bash
# build-kernels.sh: compiles testdata/kernels/*.comp and testdata/bench/*.comp as the tables in the README.md there say.
#
#   build-kernels.sh            write the .spv files
#   build-kernels.sh --check    compile into a scratch folder and compare with the .spv files that are there
#
# Every module must pass spirv-val; the same sources, flags and tools give the same bytes.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(dirname "$here")
cache=${COOP_CACHE:-$repo/.cache}

check=0
case ${1:-} in
  "") ;;
  --check) check=1 ;;
  *)
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac

"$here/drivers.sh"
bin=$(cd "$cache" && pwd)/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Debug information holds the command line and the current folder: name everything without a path there, and replace
# the folder itself.
without_path() { # MODULE ENV
  "$bin/spirv-dis" --raw-id "$1" | sed "s|\"$work\"|\".\"|" >"$1.text"
  "$bin/spirv-as" --preserve-numeric-ids --target-env "$2" "$1.text" -o "$1"
  if grep -q -F "$work" "$1"; then
    echo "build-kernels.sh: $1 names this machine's folders" >&2
    exit 1
  fi
}

built=0
wrong=0
build_folder() { # FOLDER
  local kernels=$1
  rm -rf "${work:?}"/*
  cp "$kernels"/*.comp "$work"
  find "$kernels" -name '*.glsl' -exec cp {} "$work" \;
  cd "$work"
  listed=""
  while IFS='|' read -r _ output source flags optimise _; do
    output=$(tr -d ' `' <<<"$output")
    source=$(tr -d ' `' <<<"$source")
    flags=$(tr -d '`' <<<"$flags")
    optimise=$(tr -d '`' <<<"$optimise")
    env=$(grep -o 'vulkan1\.[0-9]' <<<"$flags")
    # shellcheck disable=SC2086 # the flags are several words
    "$bin/glslang" --quiet $flags -o "$output" "$source"
    if [ -n "${optimise// /}" ]; then
      # shellcheck disable=SC2086
      "$bin/spirv-opt" $optimise "$output" -o "$output.tmp"
      mv "$output.tmp" "$output"
    fi
    case $flags in
      *-gV*) without_path "$output" "$env" ;;
    esac
    "$bin/spirv-val" --target-env "$env" "$output" || {
      echo "build-kernels.sh: $output is not valid" >&2
      exit 1
    }
    if [ "$check" = 1 ]; then
      cmp "$output" "$kernels/$output" || wrong=$((wrong + 1))
    else
      cp "$output" "$kernels/$output"
    fi
    built=$((built + 1))
    listed="$listed $source $output"
  done < <(grep '^| `[^`]*\.spv`' "$kernels/README.md")

  for file in "$kernels"/*.comp "$kernels"/*.spv; do
    file=${file##*/}
    case "$listed " in
      *" $file "*) ;;
      *)
        echo "build-kernels.sh: $file is not in the table of ${kernels#"$repo"/}/README.md" >&2
        wrong=$((wrong + 1))
        ;;
    esac
  done
}
build_folder "$repo/testdata/kernels"
build_folder "$repo/testdata/bench"

if [ "$wrong" -gt 0 ]; then
  echo "build-kernels.sh: $wrong of $built modules differ from what is built now, or are unlisted" >&2
  exit 1
fi
echo "build-kernels.sh: $built modules, all valid"
