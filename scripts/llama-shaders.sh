#!/usr/bin/env bash
# llama-shaders.sh: compiles the cooperative-matrix shaders of llama.cpp, as its Rust crate publishes them.
#
#   llama-shaders.sh                    into $COOP_CACHE/llama
#   llama-shaders.sh --crate VERSION    another version of the crate, into $COOP_CACHE/llama-VERSION
#
# The sources are those inside the crate llama-cpp-sys-2, fetched by cargo. The crate's own generator
# (vulkan-shaders-gen.cpp) is built with g++ and run with every feature on that its CMake file tests
# for, so that each variant gets exactly its defines and flags; nothing of it is kept in this
# repository. Compiled are all shaders that use cooperative matrices and the scalar matrix multiply and
# flash attention beside them. Modules that are there already are not compiled again.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(dirname "$here")
cache=${COOP_CACHE:-$repo/.cache}

# The last version with one module per quantised type.
pinned=0.1.156
version=$pinned
folder=llama

case ${1:-} in
  "") ;;
  --crate)
    version=${2:?--crate wants a version}
    if [ "$version" != "$pinned" ]; then folder=llama-$version; fi
    ;;
  *)
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac

die() {
  echo "llama-shaders.sh: $*" >&2
  exit 1
}

for name in cargo g++; do
  command -v "$name" >/dev/null || die "$name is needed"
done
"$here/drivers.sh"
cache=$(cd "$cache" && pwd)
out=$cache/$folder
work=$cache/.$folder-work
mkdir -p "$out" "$work"

exec 9>"$work/lock"
if command -v flock >/dev/null; then flock 9; fi

# ---------------------------------------------------------------------------- sources

# cargo fetches and checks the crate for a project that depends on it; nothing of that is built.
fetch_crate() {
  mkdir -p "$work/project"
  cat >"$work/project/Cargo.toml" <<TOML
[package]
name = "fetch"
version = "0.0.0"
edition = "2021"

[lib]
path = "lib.rs"

[dependencies]
llama-cpp-sys-2 = "=$version"

[workspace]
TOML
  : >"$work/project/lib.rs"
  cargo vendor --quiet --locked --manifest-path "$work/project/Cargo.toml" "$work/vendor" >/dev/null 2>&1 ||
    cargo vendor --quiet --manifest-path "$work/project/Cargo.toml" "$work/vendor" >/dev/null ||
    die "cargo could not fetch llama-cpp-sys-2 $version"
}

backend=$work/vendor/llama-cpp-sys-2/llama.cpp/ggml/src/ggml-vulkan
shaders=$backend/vulkan-shaders
[ -f "$shaders/vulkan-shaders-gen.cpp" ] || fetch_crate
[ -f "$shaders/vulkan-shaders-gen.cpp" ] || die "the crate holds no vulkan-shaders-gen.cpp"

# ---------------------------------------------------------------------------- the generator

# Every feature its CMake file would test glslc for.
features=$(sed -n 's/^ *"\(GGML_VULKAN_[A-Z0-9_]*_GLSLC_SUPPORT\)"$/\1/p' "$backend/CMakeLists.txt")
[ -n "$features" ] || die "no feature tests found in the crate's CMakeLists.txt"

generator=$work/vulkan-shaders-gen
if [ ! -x "$generator" ]; then
  # shellcheck disable=SC2046
  g++ -std=c++17 -O1 -pthread $(printf -- '-D%s ' $features) "$shaders/vulkan-shaders-gen.cpp" -o "$generator"
fi

# glslc, but a module that is there stays, one that is half written is never there, and each
# module's defines are noted.
cat >"$work/glslc" <<SCRIPT
#!/bin/sh
output=
defines=
previous=
for argument in "\$@"; do
  case \$argument in
    -D*) defines="\$defines \${argument#-D}" ;;
    -O) defines="\$defines -O" ;;
    --target-env=*) defines="\$defines \$argument" ;;
  esac
  if [ "\$previous" = -o ]; then output=\$argument; fi
  previous=\$argument
done
[ -s "\$output" ] && exit 0
# The last -o is the one that counts.
'$cache/bin/glslc' "\$@" -o "\$output.part" || exit 1
echo "\${output##*/}\$defines" >>'$work/defines.txt'
mv "\$output.part" "\$output"
SCRIPT
chmod +x "$work/glslc"

# ---------------------------------------------------------------------------- compile

sources=$(cd "$shaders" && grep -l 'coopmat<' -- *.comp)
if (cd "$shaders" && grep -l 'coopmat<' -- *.glsl) >/dev/null 2>&1; then
  die "an included file uses cooperative matrices: the list of sources would miss its users"
fi
# The scalar twin of the flash attention shaders.
sources="$sources flash_attn.comp"

failed=0
for source in $sources; do
  echo "llama-shaders.sh: $source" >&2
  "$generator" --glslc "$work/glslc" --source "$shaders/$source" --output-dir "$out" \
    --target-hpp "$work/shaders.hpp" --target-cpp "$work/$source.cpp" || failed=1
done
rm -f "$out"/*.part
sort -u "$work/defines.txt" >"$out/defines.txt"

count() { # PATTERN
  find "$out" -maxdepth 1 -name "$1" | wc -l
}
echo "llama-cpp-sys-2 $version: $(count '*.spv') modules in $out:" \
  "$(count 'matmul*_cm1.spv') cm1 matmul, $(count 'flash_attn*_cm1.spv') cm1 flash attention, $(count 'conv*_cm1.spv') cm1 convolution," \
  "$(count '*_cm2.spv') cm2, $(find "$out" -maxdepth 1 -name '*.spv' ! -name '*_cm[12].spv' | wc -l) scalar"
exit "$failed"
