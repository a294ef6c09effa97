#!/usr/bin/env bash
# capi.sh: the C library (capi/): its header, a package of it, and what is checked of that.
#
#   capi.sh header            make capi/include/coopmat.h of the sources
#   capi.sh cbindgen          fetch cbindgen, if it is not there: the test that the header is not stale needs it
#   capi.sh install PREFIX    build for release and install: library, header, pkg-config file, CMake package, all below PREFIX
#   capi.sh cargo-c           fetch cargo-c, if it is not there: with it, check sees that cargo cinstall installs the same
#   capi.sh check             install to a folder; the shared library is at most 4 MB; the examples are built by pkg-config and by
#                             CMake, and run; valgrind finds nothing, if that is there
#
# Needs cargo and a C compiler. CMake is taken from PATH, or fetched from PyPI (90 MB), valgrind from PATH (Debian: apt install valgrind).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."
export COOP_CACHE=${COOP_CACHE:-$PWD/.cache}

# The newest that was tried; another one may write the header otherwise.
CBINDGEN=0.29.4
# As COOP_CACHE has it after `capi.sh cargo-c`; another one on PATH does as well.
CARGO_C=0.10.19
CMAKE=4.4.4
MOST_BYTES=$((4 * 1024 * 1024))

cbindgen() {
  [ "$("$COOP_CACHE/cbindgen/bin/cbindgen" --version 2>/dev/null || true)" = "cbindgen $CBINDGEN" ] ||
    cargo install --quiet --locked --force --root "$COOP_CACHE/cbindgen" "cbindgen@$CBINDGEN"
}

header() {
  cbindgen
  "$COOP_CACHE/cbindgen/bin/cbindgen" --config capi/cbindgen.toml capi --output capi/include/coopmat.h
}

version() {
  sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml
}

# What follows -l in a program that is linked with the static library.
native_libraries() {
  echo "-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc"
}

install_to() {
  local prefix=$1 target version abi
  target=${CARGO_TARGET_DIR:-target}/capi
  version=$(version)
  abi=$(sed -n 's/^#define COOPMAT_ABI_VERSION //p' capi/include/coopmat.h)
  # Equal functions of different types are one.
  RUSTFLAGS="${RUSTFLAGS:-} -Clink-arg=-Wl,--icf=all" cargo build --quiet --profile capi -p coopmat-capi
  mkdir -p "$prefix/lib/pkgconfig" "$prefix/lib/cmake/coopmat" "$prefix/include"
  prefix=$(cd "$prefix" && pwd)
  install -m 644 capi/include/coopmat.h "$prefix/include/"
  install -m 644 "$target/libcoopmat.a" "$prefix/lib/"
  strip --strip-debug "$prefix/lib/libcoopmat.a"
  install -m 755 "$target/libcoopmat.so" "$prefix/lib/libcoopmat.so.$abi"
  strip --strip-unneeded "$prefix/lib/libcoopmat.so.$abi"
  ln -sf "libcoopmat.so.$abi" "$prefix/lib/libcoopmat.so"
  sed -e "s|@VERSION@|$version|" -e "s|@LIBS@|$(native_libraries)|" capi/coopmat.pc.in >"$prefix/lib/pkgconfig/coopmat.pc"
  sed -e "s|@ABI@|$abi|" -e "s|@LIBS@|$(native_libraries | sed 's/ *-l/;/g; s/^;//')|" capi/coopmat-config.cmake.in \
    >"$prefix/lib/cmake/coopmat/coopmat-config.cmake"
  sed -e "s|@VERSION@|$version|" capi/coopmat-config-version.cmake.in \
    >"$prefix/lib/cmake/coopmat/coopmat-config-version.cmake"
}

# Builds and runs the examples by pkg-config.
with_pkg_config() {
  local prefix=$1 scratch=$2 flags
  export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
  flags=$(pkg-config --cflags --libs coopmat)
  # shellcheck disable=SC2086
  gcc -std=c99 -Wall -Wextra -Werror capi/examples/lower.c $flags "-Wl,-rpath,$prefix/lib" -o "$scratch/lower"
  # shellcheck disable=SC2086
  g++ -std=c++17 -Wall -Wextra -Werror capi/examples/lower.cpp $flags "-Wl,-rpath,$prefix/lib" -o "$scratch/lower++"
  # shellcheck disable=SC2046
  gcc -std=c99 capi/examples/lower.c $(pkg-config --cflags coopmat) "$prefix/lib/libcoopmat.a" \
    $(pkg-config --static --libs-only-l coopmat | sed 's/-lcoopmat//') -o "$scratch/lower-static"
  gcc -std=c99 capi/tests/c/abi.c $flags "-Wl,-rpath,$prefix/lib" -o "$scratch/abi"
  gcc -std=c99 capi/tests/c/threads.c $flags -lpthread "-Wl,-rpath,$prefix/lib" -o "$scratch/threads"
  "$scratch/lower" testdata/kernels/gemm_simple.spv mesa-lavapipe-debian12 "$scratch/a.spv"
  "$scratch/lower++" testdata/kernels/gemm_simple.spv device/profiles/mesa-lavapipe-debian12.json "$scratch/b.spv"
  "$scratch/lower-static" testdata/kernels/gemm_simple.spv mesa-lavapipe-debian12 "$scratch/c.spv"
  cmp "$scratch/a.spv" "$scratch/b.spv"
  cmp "$scratch/a.spv" "$scratch/c.spv"
  echo "capi.sh: pkg-config: three programs, the same words"
}

with_cmake() {
  local prefix=$1 scratch=$2
  if ! command -v cmake >/dev/null; then
    [ -x "$COOP_CACHE/cmake/bin/cmake" ] ||
      python3 -m pip install --quiet --disable-pip-version-check --only-binary :all: --target "$COOP_CACHE/cmake" "cmake==$CMAKE"
    export PATH=$PATH:$COOP_CACHE/cmake/bin PYTHONPATH=$COOP_CACHE/cmake
  fi
  cmake -S capi/examples -B "$scratch/cmake" -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/cmake.log"
  cmake --build "$scratch/cmake" >>"$scratch/cmake.log"
  local program
  for program in lower lower_cpp lower_static; do
    [ -x "$scratch/cmake/$program" ]
  done
  "$scratch/cmake/lower" testdata/kernels/gemm_simple.spv mesa-lavapipe-debian12 "$scratch/d.spv"
  "$scratch/cmake/lower_static" testdata/kernels/gemm_simple.spv mesa-lavapipe-debian12 "$scratch/e.spv"
  cmp "$scratch/a.spv" "$scratch/d.spv"
  cmp "$scratch/a.spv" "$scratch/e.spv"
  echo "capi.sh: CMake: three programs, the same words"
}

with_valgrind() {
  local scratch=$1 program
  if ! command -v valgrind >/dev/null; then
    echo "capi.sh: no valgrind: memory is not checked by it" >&2
    [ -z "${COOP_REQUIRE_TOOLS:-}" ]
    return
  fi
  for program in abi threads; do
    valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,indirect \
      "$scratch/$program" testdata/kernels/gemm_simple.spv
    echo "capi.sh: valgrind: $program is clean"
  done
}

cargo_c() {
  # Unoptimized, it takes half the time to build, and as long to run.
  [ -x "$COOP_CACHE/cargo-tools/bin/cargo-cinstall" ] ||
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --root "$COOP_CACHE/cargo-tools" "cargo-c@$CARGO_C"
}

# cargo-c's package has the same names, header and pkg-config file, in a debug build.
with_cargo_c() {
  local prefix=$1 scratch=$2 other=$2/cargo-c name
  export PATH=$PATH:$COOP_CACHE/cargo-tools/bin
  if ! command -v cargo-cinstall >/dev/null; then
    echo "capi.sh: no cargo-c: its package is not compared; capi.sh cargo-c fetches it" >&2
    return
  fi
  cargo cinstall --locked --debug -p coopmat-capi --prefix "$other" --libdir "$other/lib" >"$scratch/cargo-c.log" 2>&1 || {
    cat "$scratch/cargo-c.log" >&2
    return 1
  }
  cmp "$prefix/include/coopmat.h" "$other/include/coopmat.h"
  for name in "$prefix"/lib/lib*; do
    [ -e "$other/lib/${name##*/}" ] || { echo "capi.sh: cargo-c installs no ${name##*/}" >&2; return 1; }
  done
  diff <(grep -v '^\(exec_\)\?prefix=\|^\(lib\|include\)dir=' "$prefix/lib/pkgconfig/coopmat.pc" | sort) \
    <(grep -v '^\(exec_\)\?prefix=\|^\(lib\|include\)dir=' "$other/lib/pkgconfig/coopmat.pc" | sort)
  (
    export PKG_CONFIG_PATH=$other/lib/pkgconfig
    # shellcheck disable=SC2046
    gcc -std=c99 capi/tests/c/abi.c $(pkg-config --cflags --libs coopmat) "-Wl,-rpath,$other/lib" -o "$scratch/abi-cargo-c"
  )
  "$scratch/abi-cargo-c" testdata/kernels/gemm_simple.spv >/dev/null
  echo "capi.sh: cargo-c: the same package"
}

check() {
  local bytes
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  install_to "$scratch/prefix"
  bytes=$(stat -Lc %s "$scratch/prefix/lib/libcoopmat.so")
  echo "capi.sh: libcoopmat.so has $bytes bytes, at most $MOST_BYTES"
  [ "$bytes" -le "$MOST_BYTES" ]
  with_pkg_config "$scratch/prefix" "$scratch"
  with_cmake "$scratch/prefix" "$scratch"
  with_cargo_c "$scratch/prefix" "$scratch"
  with_valgrind "$scratch"
}

case ${1:-} in
  header) header ;;
  cbindgen) cbindgen ;;
  cargo-c) cargo_c ;;
  install) install_to "${2:?capi.sh install PREFIX}" ;;
  check) check ;;
  *) sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
