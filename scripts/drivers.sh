#!/usr/bin/env bash
# drivers.sh: software Vulkan drivers, OpenCL runtimes and SPIR-V tools in a folder of their own.
#
#   drivers.sh                                     fetch what is missing (idempotent)
#   drivers.sh run [--mesa new|debian12] CMD ...   run an ELF program with one of the drivers
#   drivers.sh run --opencl pocl|rusticl|intel CMD ...   run it with one of the OpenCL runtimes
#   drivers.sh run --gpu NAME CMD ...              run it with the driver of a GPU that is not there: it compiles pipelines, and
#                                                  executes nothing
#   drivers.sh run --swiftshader CMD ...           run it with SwiftShader, which executes: subgroups of 4, 32-bit numbers only;
#                                                  --gpu swiftshader is the same
#   drivers.sh gpus                                the names of those GPUs
#   drivers.sh gpu                                 fetch their drivers (320 MB unpacked)
#   drivers.sh llvm                                fetch LLVM's SPIR-V compilers as well (for scripts/build-opencl.sh)
#   drivers.sh neovim                              fetch Neovim (40 MB), with which coopcheck lsp is tested
#   drivers.sh rust                                fetch Debian's Rust compiler with the standard libraries of WebAssembly and Linux
#                                                  on aarch64, and Zig, which links for the latter (PyPI; 1.3 GB unpacked)
#   drivers.sh qemu                                fetch QEMU, which runs programs for aarch64, and the C library for them
#   drivers.sh mdbook                              fetch mdBook (30 MB), with which the book is built
#   drivers.sh ocloc                               fetch Intel's offline compiler for its GPUs (Debian sid, 40 MB)
#   drivers.sh dxc                                 fetch Microsoft's HLSL compiler (PyPI, 67 MB; 34 MB unpacked)
#   drivers.sh pre-commit                          fetch pre-commit (PyPI, 15 MB), with which the hook is tested
#   drivers.sh swiftshader                         fetch SwiftShader, Google's Vulkan driver for CPUs (npm, 68 MB)
#   drivers.sh chromium                            fetch Chromium without a window (npm, 200 MB), with which the page is tested
#   drivers.sh intel                               fetch Intel's OpenCL runtime for CPUs (PyPI, 270 MB)
#   drivers.sh tool NAME ...                       run glslang, glslc, spirv-val, vulkaninfo ...
#   drivers.sh wrap                                write the wrapper scripts again
#   drivers.sh clean                               remove what fetch made
#
# The packages are Debian's own: a current Mesa with its C library and everything else it needs, and
# Debian 12's Mesa 22.3; pocl, and Mesa's OpenCL (rusticl). Intel's runtime comes as PyPI has it. They are unpacked, never
# installed: no root, no chroot, and the machine's package state stays as it is. Programs start through the unpacked dynamic linker, so
# that they find the unpacked libraries whatever the machine's own C library is.
#
# The mirror is the one the machine's apt is configured with.
#
# Environment: COOP_CACHE (default: .cache in the repository), COOP_MESA_SUITES (suites to look for a
# current Mesa in, first hit wins; default "forky sid"), COOP_DEBIAN_URI (a mirror, for a machine
# whose apt names none).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(dirname "$here")
cache=${COOP_CACHE:-$repo/.cache}
suites=${COOP_MESA_SUITES:-forky sid}

# Raised when the package lists below change, so that an older folder is made again.
format=2
new_packages=(mesa-vulkan-drivers libvulkan1 vulkan-tools vulkan-validationlayers
  glslang-tools glslc spirv-tools libstdc++6 libgcc-s1 libc6)
debian12_packages=(mesa-vulkan-drivers libvulkan1 vulkan-tools libstdc++6 libgcc-s1 libc6)
pocl_packages=(pocl-opencl-icd ocl-icd-libopencl1 libstdc++6 libgcc-s1 libc6)
rusticl_packages=(mesa-opencl-icd ocl-icd-libopencl1 libstdc++6 libgcc-s1 libc6)
llvm_packages=(llvm-22 llvm-spirv-22 libstdc++6 libgcc-s1 libc6)
# The drivers, and what answers them in the kernel's place, have to be of one version.
gpu_packages=(mesa-drm-shim mesa-vulkan-drivers libvulkan1 vulkan-tools libstdc++6 libgcc-s1 libc6)
neovim_packages=(neovim neovim-runtime libgcc-s1 libc6)
# The compiler itself is fetched alone: its package depends on a C compiler, which the machine has.
rust_packages=(libstd-rust-dev libstd-rust-dev-wasm32 lld libstdc++6 libgcc-s1 libc6)
rust_alone=(rustc libstd-rust-dev:arm64)
# Zig links programs for C libraries as old as one likes; cargo-zigbuild calls it.
zig_packages=(ziglang==0.15.2 cargo-zigbuild==0.24.0)
qemu_packages=()
qemu_alone=(qemu-user-static libc6-arm64-cross libgcc-s1-arm64-cross)
mdbook_packages=(mdbook libgcc-s1 libc6)
ocloc_packages=(intel-ocloc libigc2 libstdc++6 libgcc-s1 libc6)
tools=(glslang glslc spirv-val spirv-as spirv-dis spirv-opt spirv-reduce spirv-link vulkaninfo)

die() {
  echo "drivers.sh: $*" >&2
  exit 1
}

say() {
  echo "drivers.sh: $*" >&2
}

# ---------------------------------------------------------------------------- apt in a private state

# A configuration that keeps the machine's proxies and credentials but none of its state.
write_apt_config() { # DIR
  local dir=$1
  mkdir -p "$dir/state/lists/partial" "$dir/cache/archives/partial" "$dir/log" "$dir/empty.d"
  : >"$dir/status"
  : >"$dir/empty"
  cat >"$dir/apt.conf" <<CONF
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Install-Pkgs;
#clear DPkg::Post-Invoke;
#clear Acquire::IndexTargets::deb;
Acquire::IndexTargets::deb::Packages {
  MetaKey "\$(COMPONENT)/binary-\$(ARCHITECTURE)/Packages";
  flatMetaKey "Packages";
  ShortDescription "Packages";
  Description "\$(RELEASE)/\$(COMPONENT) \$(ARCHITECTURE) Packages";
};
Acquire::Languages "none";
Acquire::PDiffs "false";
Acquire::Retries "3";
APT::Install-Recommends "false";
APT::Install-Suggests "false";
APT::Default-Release "";
APT::Get::Assume-Yes "true";
APT::Sandbox::User "";
Debug::NoLocking "true";
${foreign:+APT::Architectures { "$(dpkg --print-architecture)"; "$foreign"; \};}
Dir::State "$dir/state";
Dir::State::status "$dir/status";
Dir::State::extended_states "$dir/state/extended_states";
Dir::Cache "$dir/cache";
Dir::Cache::archives "$dir/cache/archives";
Dir::Log "$dir/log";
Dir::Etc::sourcelist "$dir/sources.list";
Dir::Etc::sourceparts "$dir/empty.d";
Dir::Etc::preferences "$dir/empty";
Dir::Etc::preferencesparts "$dir/empty.d";
CONF
}

# The addresses of package archives that this machine's apt uses, in whatever form they are
# configured, one a line. They may hold third-party archives: the caller tries them in turn.
mirrors() {
  if [ -n "${COOP_DEBIAN_URI:-}" ]; then
    echo "$COOP_DEBIAN_URI"
    return
  fi
  apt-get update --print-uris |
    sed -n "s|^'\(.*\)/dists/\([^/]*\)/main/binary-.*|\2 \1|p" |
    awk '$1 !~ /-security$/ && !seen[$2]++ { print $2 }'
}

keyring() {
  local file
  for file in /usr/share/keyrings/debian-archive-keyring.gpg /usr/share/keyrings/debian-archive-keyring.pgp; do
    if [ -r "$file" ]; then
      echo "$file"
      return
    fi
  done
  die "no Debian archive keyring in /usr/share/keyrings; install the package debian-archive-keyring"
}

# Reads one suite's package list into a fresh private state; fails when there is no such suite.
open_suite() { # DIR URI SUITE PACKAGE
  local dir=$1 uri=$2 suite=$3 package=$4 key
  key=$(keyring)
  rm -rf "$dir"
  write_apt_config "$dir"
  echo "deb [signed-by=$key] $uri $suite main" >"$dir/sources.list"
  if ! apt-get -c "$dir/apt.conf" -q update >"$dir/update.log" 2>&1 || grep -q '^E: \|^Err:\|^W: Failed\|^W: Some index' "$dir/update.log"; then
    cat "$dir/update.log" >&2
    if grep -q 'NO_PUBKEY\|not signed\|EXPKEYSIG' "$dir/update.log"; then
      say "the signature of $suite cannot be checked with $key: upgrade the package debian-archive-keyring"
    fi
    return 1
  fi
  if [ -z "$(apt-cache -c "$dir/apt.conf" show "$package" 2>/dev/null)" ]; then
    say "$suite has no $package there"
    return 1
  fi
}

# Opens the first of the suites that one of the machine's archives has, and prints its name.
open_first() { # DIR PACKAGE SUITES...
  local dir=$1 package=$2 uris uri suite
  shift 2
  uris=$(mirrors)
  [ -n "$uris" ] || die "apt has no Debian archive configured here; set COOP_DEBIAN_URI to the address of one"
  for suite in "$@"; do
    for uri in $uris; do
      say "reading the package list of $suite"
      if open_suite "$dir" "$uri" "$suite" "$package"; then
        echo "$suite"
        return
      fi
    done
  done
  die "none of the suites '$*' can be read"
}

# Downloads packages without what they depend on, for `unpack` to find.
download_alone() { # APTDIR PACKAGES...
  local dir=$1
  shift
  (cd "$dir/cache/archives" && apt-get -c "$dir/apt.conf" -q download "$@") >"$dir/alone.log" 2>&1 && return
  cat "$dir/alone.log" >&2
  die "apt could not fetch $*"
}

# Downloads packages with everything they need and unpacks them all.
unpack() { # APTDIR ROOT PACKAGES...
  local dir=$1 root=$2 file count=0
  shift 2
  if [ $# -gt 0 ] && ! apt-get -c "$dir/apt.conf" -q install --download-only "$@" >"$dir/install.log" 2>&1; then
    cat "$dir/install.log" >&2
    die "apt could not fetch the packages"
  fi
  mkdir -p "$root"
  # Merged /usr from the start: older packages still ship files under /lib and /lib64.
  mkdir -p "$root/usr/bin" "$root/usr/sbin" "$root/usr/lib" "$root/usr/lib64"
  ln -s usr/bin "$root/bin"
  ln -s usr/sbin "$root/sbin"
  ln -s usr/lib "$root/lib"
  ln -s usr/lib64 "$root/lib64"
  for file in "$dir"/cache/archives/*.deb; do
    case ${file##*/} in
      # These replace the links above and hold nothing a driver loads.
      base-files_* | usrmerge_* | usr-is-merged_*) continue ;;
    esac
    # dpkg -x replaces a link to a directory by a directory: tar keeps it.
    dpkg-deb --fsys-tarfile "$file" | tar -x -C "$root" --keep-directory-symlink --no-same-owner -f - \
      --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' ||
      die "cannot unpack ${file##*/}"
    dpkg-deb -f "$file" Package Version | awk -F': ' '{printf "%s ", $2} END {print ""}' >>"$root/PACKAGES"
    count=$((count + 1))
  done
  [ "$count" -gt 0 ] || die "apt fetched no package"
}

# ---------------------------------------------------------------------------- what is in a folder

# The dynamic linker itself: its usual name is a link that may lead out of the folder.
linker() { # ROOT
  local file
  for file in "$1"/usr/lib/*/ld-linux*.so.* "$1"/usr/lib/ld-linux*.so.*; do
    if [ -x "$file" ] && [ ! -L "$file" ]; then
      echo "$file"
      return
    fi
  done
  die "no dynamic linker in $1"
}

triple() { # ROOT
  basename "$(dirname "$(linker "$1")")"
}

# The driver's own description names its library relative to a system that is not there.
write_icd() { # ROOT lvp|radeon|nouveau|freedreno|asahi|intel
  local root=$1 driver=$2 library version
  library=$(echo "$root"/usr/lib/*/"libvulkan_$driver.so")
  [ -e "$library" ] || die "no driver '$driver' in $root"
  version=$(sed -n 's/.*"api_version"[^"]*"\([^"]*\)".*/\1/p' "$root"/usr/share/vulkan/icd.d/"$driver"_icd*.json | head -n 1)
  cat >"$root/${driver}_icd.json" <<JSON
{
    "ICD": {
        "api_version": "${version:-1.3.0}",
        "library_path": "$library"
    },
    "file_format_version": "1.0.1"
}
JSON
}

# The GPUs that drivers compile for without having one: a name, the driver, what answers it in the kernel's place (mesa-drm-shim;
# for xe, xe-shim.c), and variables that choose the GPU. With MESA_LOG_LEVEL Intel's driver does not warn that it is tried
# little with this kernel driver and that GPU.
gpus() {
  cat <<'TABLE'
amd-polaris10 radeon amdgpu AMDGPU_GPU_ID=polaris10
amd-vega10 radeon amdgpu AMDGPU_GPU_ID=vega10
amd-navi10 radeon amdgpu AMDGPU_GPU_ID=navi10
amd-navi21 radeon amdgpu AMDGPU_GPU_ID=navi21
amd-navi31 radeon amdgpu AMDGPU_GPU_ID=navi31
amd-gfx1201 radeon amdgpu AMDGPU_GPU_ID=gfx1201
nvk-kepler nouveau nouveau NVK_I_WANT_A_BROKEN_VULKAN_DRIVER=1
nvk-turing nouveau nouveau NOUVEAU_CHIPSET=162 NVK_I_WANT_A_BROKEN_VULKAN_DRIVER=1
nvk-ampere nouveau nouveau NOUVEAU_CHIPSET=172 NVK_I_WANT_A_BROKEN_VULKAN_DRIVER=1
adreno-630 freedreno freedreno FD_GPU_ID=630
adreno-740 freedreno freedreno FD_GPU_ID=740
adreno-830 freedreno freedreno FD_GPU_ID=830
apple-m1 asahi asahi
intel-arc intel xe XE_SHIM_GPU=a770 MESA_LOG_LEVEL=error
intel-xe2 intel xe XE_SHIM_GPU=b580
TABLE
}

folder() { # new|debian12|pocl|rusticl|llvm
  case $1 in
    new) echo "$cache/mesa" ;;
    debian12) echo "$cache/mesa12" ;;
    pocl | rusticl | llvm | ocloc | intel | gpu | swiftshader | neovim | rust | mdbook | qemu | zig | chromium | dxc) echo "$cache/$1" ;;
    *) die "unknown driver '$1': new or debian12" ;;
  esac
}

# Everything a folder must be made of: when it differs from the stamp, the folder is made again.
stamp() { # new|debian12|pocl|rusticl|llvm
  local -n packages_of=$1_packages alone_of=$1_alone
  echo "format $format; $(folder "$1"); ${packages_of[*]}${alone_of+ ${alone_of[*]}}"
}

ready() { # new|debian12|pocl|rusticl|llvm
  [ -f "$(folder "$1")/STAMP" ] && [ "$(head -n 1 "$(folder "$1")/STAMP")" = "$(stamp "$1")" ]
}

# ---------------------------------------------------------------------------- fetch

# The suites that hold a folder's packages; the first that has them is taken.
suites_of() { # new|debian12|pocl|rusticl|llvm
  case $1 in
    new | rusticl | gpu | neovim | rust | mdbook) echo "$suites" ;;
    debian12 | qemu) echo bookworm ;;
    # The last with subgroups of 16: Debian's pocl 7 has none.
    pocl) echo trixie ;;
    llvm | ocloc) echo sid ;;
  esac
}

fetch_one() { # new|debian12|pocl|rusticl|llvm
  local which=$1 final work name opened
  local -n wanted_packages=$1_packages
  local -a wanted
  ready "$which" && return
  for name in apt-get apt-cache dpkg-deb tar; do
    command -v "$name" >/dev/null || die "$name is needed: the drivers come from Debian's packages"
  done
  final=$(folder "$which")
  work=$cache/.fetch-$which
  rm -rf "$work"
  mkdir -p "$work"
  read -ra wanted <<<"$(suites_of "$which")"
  foreign=
  if [ "$which" = rust ]; then foreign=arm64; fi
  name=${wanted_packages[0]:-${qemu_alone[0]}}
  opened=$(open_first "$work/apt" "$name" "${wanted[@]}")
  say "fetching $name of $opened"
  case $which in
    rust) download_alone "$work/apt" "${rust_alone[@]}" ;;
    qemu) download_alone "$work/apt" "${qemu_alone[@]}" ;;
  esac
  unpack "$work/apt" "$work/root" "${wanted_packages[@]}"
  rm -rf "$final"
  mv "$work/root" "$final"
  case $which in
    new | debian12) write_icd "$final" lvp ;;
    pocl) move_translator "$final" ;;
    rusticl) move_libclc "$final" ;;
    mdbook) move_icons "$final" ;;
    # Of its processors one is needed.
    qemu) find "$final/usr/bin" -name "qemu-*" ! -name qemu-aarch64-static -delete ;;
  esac
  {
    stamp "$which"
    grep -E '^(mesa-vulkan-drivers|libvulkan1|libc6|glslang-tools|glslc|spirv-tools|vulkan-validationlayers|mesa-opencl-icd|pocl-opencl-icd|ocl-icd-libopencl1|mesa-drm-shim|llvm-22|llvm-spirv-22|intel-ocloc|neovim|rustc|mdbook|qemu-user-static) ' "$final/PACKAGES"
  } >"$final/STAMP"
  rm -rf "$work"
}

# What a library starts or reads by its place in the system is not there. It gets a name of the same length for it: one in
# the open folder which the wrapper hands over as file 9. So pocl starts the program that reads SPIR-V ...
move_translator() { # ROOT
  local root=$1 library ld
  library=$(echo "$root"/usr/lib/*/libpocl.so.*.*.*)
  [ -e "$library" ] || die "no pocl in $root"
  grep -q '/usr/bin/llvm-spirv-18' "$library" || die "pocl starts another program for SPIR-V now"
  sed -i 's|/usr/bin/llvm-spirv-18|/dev/fd/9/llvm-spirv18|g' "$library"
  ld=$(linker "$root")
  mkdir -p "$root/coop"
  printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' "$ld" \
    "$(dirname "$ld"):$root/usr/lib" "$root/usr/bin/llvm-spirv-18" >"$root/coop/llvm-spirv18"
  chmod +x "$root/coop/llvm-spirv18"
}

# ... and rusticl finds the functions of OpenCL.
move_libclc() { # ROOT
  local library
  library=$(echo "$1"/usr/lib/*/libRusticlOpenCL.so.*.*)
  [ -e "$library" ] || die "no rusticl in $1"
  grep -q '/usr/lib/clc/spirv' "$library" || die "rusticl looks for libclc elsewhere now"
  sed -i 's|/usr/lib/clc/spirv|/dev/fd/9////spirv|g' "$library"
}

# mdBook's icons, likewise.
move_icons() { # ROOT
  local icons=/usr/share/nodejs/@fortawesome/fontawesome-free/svgs
  grep -q "$icons" "$1/usr/bin/mdbook" || die "mdBook looks for its icons elsewhere now"
  sed -i "s|$icons|/dev/fd/9$(printf '%*s' $((${#icons} - 9)) '' | tr ' ' /)|g" "$1/usr/bin/mdbook"
}

fetch() {
  mkdir -p "$cache"
  cache=$(cd "$cache" && pwd)
  if ready new && ready debian12 && ready pocl && ready rusticl && [ -x "$cache/bin/spirv-val" ] && [ -x "$cache/bin/pocl-run" ]; then
    return
  fi
  exec 9>"$cache/.drivers.lock"
  if command -v flock >/dev/null; then flock 9; fi
  fetch_one new
  fetch_one debian12
  fetch_one pocl
  fetch_one rusticl
  wrap
  exec 9>&-
  say "pocl $(sed -n 's/^pocl-opencl-icd //p' "$cache/pocl/STAMP")and rusticl $(sed -n 's/^mesa-opencl-icd //p' "$cache/rusticl/STAMP")are ready in $cache"
  say "Mesa $(sed -n 's/^mesa-vulkan-drivers //p' "$cache/mesa/STAMP")and $(sed -n 's/^mesa-vulkan-drivers //p' "$cache/mesa12/STAMP")are ready in $cache"
}

# LLVM with its SPIR-V compilers: only who builds the kernels anew needs it.
fetch_llvm() {
  local name
  mkdir -p "$cache/bin"
  cache=$(cd "$cache" && pwd)
  fetch_one llvm
  for name in llvm-as llc; do
    write_wrapper llvm "$name-22" "$(folder llvm)/usr/lib/llvm-22/bin/$name"
  done
  write_wrapper llvm llvm-spirv-22 "$(echo "$(folder llvm)"/usr/bin/llvm-spirv-22*)"
}

# Neovim, whose client of language servers is a test's.
fetch_neovim() {
  mkdir -p "$cache/bin"
  cache=$(cd "$cache" && pwd)
  fetch_one neovim
  write_wrapper neovim nvim "$(folder neovim)/usr/bin/nvim"
}

# The wheels are what pip would install, without the scripts that start it.
fetch_zig() {
  local work final file
  final=$(folder zig)
  ready zig && return
  command -v python3 >/dev/null || die "python3 is needed: Zig comes from PyPI"
  work=$cache/.fetch-zig
  rm -rf "$work"
  mkdir -p "$work/root"
  say "fetching ${zig_packages[*]} from PyPI"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$work" "${zig_packages[@]}" >&2 || die "pip could not fetch the packages"
  for file in "$work"/*.whl; do
    python3 -m zipfile -e "$file" "$work/root"
  done
  chmod +x "$work/root/ziglang/zig" "$work"/root/cargo_zigbuild-*.data/scripts/cargo-zigbuild
  ln -s "$(cd "$work/root" && echo cargo_zigbuild-*.data/scripts/cargo-zigbuild)" "$work/root/cargo-zigbuild"
  stamp zig >"$work/root/STAMP"
  rm -rf "$final"
  mv "$work/root" "$final"
  rm -rf "$work"
}

# QEMU is linked statically; the programs that it runs find their C library in this folder.
fetch_qemu() {
  local root file
  mkdir -p "$cache/bin"
  cache=$(cd "$cache" && pwd)
  fetch_one qemu
  root=$(folder qemu)
  file=$cache/bin/aarch64-run
  {
    echo '#!/bin/sh'
    echo '# Written by scripts/drivers.sh: do not edit.'
    echo "exec '$root/usr/bin/qemu-aarch64-static' -L '$root/usr/aarch64-linux-gnu' \"\$@\""
  } >"$file.$$"
  chmod +x "$file.$$"
  mv "$file.$$" "$file"
}

# mdBook, which makes a book of pages in Markdown.
fetch_mdbook() {
  mkdir -p "$cache/bin"
  cache=$(cd "$cache" && pwd)
  fetch_one mdbook
  write_wrapper mdbook mdbook "$(folder mdbook)/usr/bin/mdbook"
}

# A Rust compiler whose standard library is there for WebAssembly too, and the linker for it.
fetch_rust() {
  local root
  mkdir -p "$cache/bin"
  cache=$(cd "$cache" && pwd)
  fetch_one rust
  root=$(folder rust)
  fetch_zig
  write_wrapper rust wasm-ld "$root/usr/bin/wasm-ld"
  write_wrapper rust debian-rustc "$root/usr/bin/rustc"
}

# Intel's offline compiler of kernels for its GPUs.
fetch_ocloc() {
  mkdir -p "$cache/bin"
  cache=$(cd "$cache" && pwd)
  fetch_one ocloc
  write_wrapper ocloc ocloc "$(echo "$(folder ocloc)"/usr/bin/ocloc*)"
}

# The drivers of GPUs that are not there.
fetch_gpu() {
  local name
  mkdir -p "$cache/bin"
  cache=$(cd "$cache" && pwd)
  exec 8>"$cache/.gpu.lock"
  if command -v flock >/dev/null; then flock 8; fi
  fetch_one gpu
  for name in $(gpus | awk '{ print $2 }' | sort -u); do
    # Debian has Intel's driver for x86 only.
    if [ "$name" = intel ] && ! ls "$(folder gpu)"/usr/lib/*/libvulkan_intel.so >/dev/null 2>&1; then continue; fi
    [ -e "$(folder gpu)/${name}_icd.json" ] || write_icd "$(folder gpu)" "$name"
  done
  build_xe_shim "$(folder gpu)"
  exec 8>&-
  for name in $(gpus | awk '{ print $1 }'); do
    if [ -e "$(shim_of "$(folder gpu)" "$name")" ]; then write_wrapper gpu "$name-run" ""; fi
  done
}

# What answers Intel's driver is not in Debian's packages. It runs with the C library of that folder, which is newer than the machine's.
build_xe_shim() { # ROOT
  local library=$1/libxe_shim.so
  if [ "$library" -nt "$here/xe-shim.c" ]; then return; fi
  if ! command -v cc >/dev/null; then
    say "no C compiler: Intel's GPUs are left out"
    return
  fi
  cc -std=gnu11 -Wall -O2 -shared -fPIC -fvisibility=hidden "$here/xe-shim.c" -o "$library.$$"
  mv "$library.$$" "$library"
}

# Intel's OpenCL runtime for CPUs, with the libraries that it opens. What it is built for is old enough for any machine: programs
# start as they are, and only find these libraries first.
intel_packages=(intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt==2026.2.0 tbb==2023.2.0)
fetch_intel() {
  local work final file
  mkdir -p "$cache/bin"
  cache=$(cd "$cache" && pwd)
  final=$cache/intel
  if ! ready intel; then
    command -v python3 >/dev/null || die "python3 is needed: Intel's runtime comes from PyPI"
    work=$cache/.fetch-intel
    rm -rf "$work"
    mkdir -p "$work/wheels" "$work/root"
    say "fetching ${intel_packages[*]} from PyPI"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
      --platform manylinux_2_28_x86_64 --dest "$work/wheels" "${intel_packages[@]}" >&2 || die "pip could not fetch the packages"
    for file in "$work"/wheels/*.whl; do
      python3 -m zipfile -e "$file" "$work/files"
    done
    mv "$work"/files/*.data/data/lib/* "$work/root"
    # Not needed, and names of one library: wheels have no links, each name is a copy.
    rm -rf "$work"/root/{icx-lto.so,libxptifw*,libze_*,libcommon_clang.so,libintelocl.so,libOpenCL.so,cmake,pkgconfig}
    stamp intel >"$work/root/STAMP"
    rm -rf "$final"
    mv "$work/root" "$final"
    rm -rf "$work"
  fi
  write_intel_wrapper "$final"
}

write_intel_wrapper() { # ROOT
  local file=$cache/bin/intel-run
  {
    echo '#!/bin/sh'
    echo '# Written by scripts/drivers.sh: do not edit.'
    cat <<SCRIPT
export OPENCL_DYLIB_PATH='$1/libOpenCL.so.1' OCL_ICD_FILENAMES='$(echo "$1"/libintelocl.so.*)' OCL_ICD_VENDORS=/nowhere
export LD_LIBRARY_PATH='$1'\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
# The runtime does not make code for AMX unless it is told to.
if [ -z "\${CL_CONFIG_CPU_TARGET_ARCH:-}" ] && grep -qw amx_tile /proc/cpuinfo; then
  export CL_CONFIG_CPU_TARGET_ARCH=sapphirerapids
fi
export COOP_OPENCL=intel COOP_RUNNER='$file'
exec "\$@"
SCRIPT
  } >"$file.$$"
  chmod +x "$file.$$"
  mv "$file.$$" "$file"
}

# Microsoft's HLSL compiler, a library in the sources of a package for Python; scripts/dxc.py is the program.
dxc_packages=(compushady==0.17.5)
fetch_dxc() {
  local work final library
  mkdir -p "$cache/bin"
  cache=$(cd "$cache" && pwd)
  final=$(folder dxc)
  [ "$(uname -m)" = x86_64 ] || die "dxc is there for x86-64 only"
  command -v python3 >/dev/null || die "python3 is needed: dxc is a library, and scripts/dxc.py the program"
  if ! ready dxc; then
    work=$cache/.fetch-dxc
    rm -rf "$work"
    mkdir -p "$work/root"
    say "fetching ${dxc_packages[*]} from PyPI"
    # There are wheels for other systems only; the library for this one lies in the sources as it is.
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest "$work" "${dxc_packages[@]}" >&2 \
      || die "pip could not fetch the package"
    library=$(tar -tzf "$work"/*.tar.gz | grep '/libdxcompiler_x86_64\.so') || die "no compiler in ${dxc_packages[*]}"
    tar -xzf "$work"/*.tar.gz -O "$library" >"$work/root/libdxcompiler.so"
    stamp dxc >"$work/root/STAMP"
    rm -rf "$final"
    mv "$work/root" "$final"
    rm -rf "$work"
  fi
  cp "$here/dxc.py" "$final/dxc.py.$$"
  mv "$final/dxc.py.$$" "$final/dxc.py"
  {
    echo '#!/bin/sh'
    echo '# Written by scripts/drivers.sh: do not edit.'
    echo "COOP_DXCOMPILER='$final/libdxcompiler.so' exec python3 '$final/dxc.py' \"\$@\""
  } >"$cache/bin/dxc.$$"
  chmod +x "$cache/bin/dxc.$$"
  mv "$cache/bin/dxc.$$" "$cache/bin/dxc"
}

# pre-commit, which runs hooks of repositories.
pre_commit_packages=(pre-commit==4.7.0)
fetch_pre_commit() {
  local work final
  mkdir -p "$cache/bin"
  cache=$(cd "$cache" && pwd)
  final=$cache/pre-commit
  command -v python3 >/dev/null || die "python3 is needed: pre-commit is a program in it"
  if [ "$(cat "$final/STAMP" 2>/dev/null)" != "${pre_commit_packages[*]}" ]; then
    work=$cache/.fetch-pre-commit
    rm -rf "$work"
    say "fetching ${pre_commit_packages[*]} from PyPI"
    python3 -m pip install --quiet --disable-pip-version-check --target "$work" "${pre_commit_packages[@]}" >&2 || die "pip could not fetch the package"
    echo "${pre_commit_packages[*]}" >"$work/STAMP"
    rm -rf "$final"
    mv "$work" "$final"
  fi
  {
    echo '#!/bin/sh'
    echo '# Written by scripts/drivers.sh: do not edit.'
    echo "PYTHONPATH='$final' exec python3 -m pre_commit \"\$@\""
  } >"$cache/bin/pre-commit.$$"
  chmod +x "$cache/bin/pre-commit.$$"
  mv "$cache/bin/pre-commit.$$" "$cache/bin/pre-commit"
}

# SwiftShader, as a package of Chromium for JavaScript brings it along. Programs start with the loader of the current Mesa's folder.
swiftshader_packages=(@sparticuz/chromium@147.0.0)
fetch_swiftshader() {
  local work final name
  fetch
  final=$(folder swiftshader)
  if ! ready swiftshader; then
    for name in npm node tar; do
      command -v "$name" >/dev/null || die "$name is needed: SwiftShader comes from npm"
    done
    work=$cache/.fetch-swiftshader
    rm -rf "$work"
    mkdir -p "$work/root"
    say "fetching ${swiftshader_packages[*]} from npm"
    (cd "$work" && npm pack --silent "${swiftshader_packages[@]}" >/dev/null) || die "npm could not fetch the package"
    tar -xzf "$work"/*.tgz -C "$work" package/bin/swiftshader.tar.br
    node -e 'process.stdout.write(require("zlib").brotliDecompressSync(require("fs").readFileSync(process.argv[1])))' \
      "$work/package/bin/swiftshader.tar.br" | tar -x -C "$work/root" --no-same-owner -f - libvk_swiftshader.so
    [ -e "$work/root/libvk_swiftshader.so" ] || die "no SwiftShader in ${swiftshader_packages[*]}"
    # The version is that of its own description: with another the loader asks for what SwiftShader refuses.
    cat >"$work/root/icd.json" <<JSON
{ "file_format_version": "1.0.0", "ICD": { "api_version": "1.0.5", "library_path": "$final/libvk_swiftshader.so" } }
JSON
    stamp swiftshader >"$work/root/STAMP"
    rm -rf "$final"
    mv "$work/root" "$final"
    rm -rf "$work"
  fi
  write_swiftshader_wrapper "$final"
}

# Chromium of the same package, with the libraries and the font that it brings along. It needs no more than a C library.
chromium_packages=("${swiftshader_packages[@]}")
fetch_chromium() {
  local work final name
  mkdir -p "$cache/bin"
  cache=$(cd "$cache" && pwd)
  final=$(folder chromium)
  if ! ready chromium; then
    for name in npm node tar; do
      command -v "$name" >/dev/null || die "$name is needed: Chromium comes from npm"
    done
    work=$cache/.fetch-chromium
    rm -rf "$work"
    mkdir -p "$work/root"
    say "fetching ${chromium_packages[*]} from npm"
    (cd "$work" && npm pack --silent "${chromium_packages[@]}" >/dev/null) || die "npm could not fetch the package"
    tar -xzf "$work"/*.tgz -C "$work" package/bin
    for name in chromium al2023.tar fonts.tar; do
      node -e 'process.stdout.write(require("zlib").brotliDecompressSync(require("fs").readFileSync(process.argv[1])))' \
        "$work/package/bin/$name.br" >"$work/root/$name"
    done
    for name in al2023 fonts; do
      tar -xf "$work/root/$name.tar" -C "$work/root" --no-same-owner
      rm "$work/root/$name.tar"
    done
    chmod +x "$work/root/chromium"
    sed -i "s|<dir>[^<]*</dir>|<dir>$final/fonts</dir>|" "$work/root/fonts.conf"
    stamp chromium >"$work/root/STAMP"
    rm -rf "$final"
    mv "$work/root" "$final"
    rm -rf "$work"
  fi
  {
    echo '#!/bin/sh'
    echo '# Written by scripts/drivers.sh: do not edit.'
    echo "export LD_LIBRARY_PATH='$final/lib' FONTCONFIG_FILE='$final/fonts.conf'"
    echo "exec '$final/chromium' \"\$@\""
  } >"$cache/bin/chromium.$$"
  chmod +x "$cache/bin/chromium.$$"
  mv "$cache/bin/chromium.$$" "$cache/bin/chromium"
}

write_swiftshader_wrapper() { # FOLDER
  local file=$cache/bin/swiftshader-run root ld
  root=$(folder new)
  ld=$(linker "$root")
  {
    echo '#!/bin/sh'
    echo '# Written by scripts/drivers.sh: do not edit.'
    write_program_lookup
    cat <<SCRIPT
export VK_DRIVER_FILES='$1/icd.json' VK_ICD_FILENAMES='$1/icd.json'
export VK_LAYER_PATH='$root/usr/share/vulkan/explicit_layer.d'\${COOP_LAYER_PATH:+:\$COOP_LAYER_PATH}
export VK_LOADER_LAYERS_DISABLE='~implicit~'
export COOP_MESA=swiftshader COOP_RUNNER='$file'
exec '$ld' --argv0 "\$name" --library-path '$root/usr/lib/$(triple "$root"):$root/usr/lib' "\$program" "\$@"
SCRIPT
  } >"$file.$$"
  chmod +x "$file.$$"
  mv "$file.$$" "$file"
}

# ---------------------------------------------------------------------------- run

# Everything is started by small scripts in the cache's bin folder; `run` and `tool` call them too.
wrap() {
  local name
  mkdir -p "$cache/bin"
  for name in "${tools[@]}"; do
    write_wrapper new "$name" "$(folder new)/usr/bin/$name"
  done
  write_wrapper new mesa-run ""
  write_wrapper debian12 mesa12-run ""
  write_wrapper pocl pocl-run ""
  write_wrapper rusticl rusticl-run ""
}

# A script that starts PROGRAM, or with none its first argument, with a folder's linker, libraries and driver.
write_wrapper() { # new|debian12|pocl|rusticl|llvm NAME PROGRAM
  local which=$1 name=$2 program=$3 root ld libraries file preload= sysroot=
  root=$(folder "$which")
  file=$cache/bin/$name
  ld=$(linker "$root")
  libraries=$root/usr/lib/$(triple "$root"):$root/usr/lib
  if [ -n "$program" ] && [ ! -x "$program" ]; then
    die "no $program"
  fi
  if [ "$which" = gpu ]; then preload=" --preload '$(shim_of "$root" "${name%-run}")'"; fi
  {
    echo '#!/bin/sh'
    echo '# Written by scripts/drivers.sh: do not edit.'
    if [ -z "$program" ]; then
      write_program_lookup
    fi
    if [ "$name" = debian-rustc ]; then sysroot=" --sysroot '$root/usr'"; fi
    case $which in
      pocl | rusticl) write_opencl_variables "$root" "$which" "$file" ;;
      gpu) write_gpu_variables "$root" "${name%-run}" "$file" ;;
      mdbook) echo "exec 9<'$root/usr/share/nodejs/@fortawesome/fontawesome-free/svgs'" ;;
      neovim) echo "export VIMRUNTIME='$root/usr/share/nvim/runtime'" ;;
      new | debian12)
        if [ -z "$program" ] || [ "$name" = vulkaninfo ]; then
          write_driver_variables "$root" "$which" "$file"
        fi
        ;;
    esac
    if [ -z "$program" ]; then
      echo "exec '$ld' --argv0 \"\$name\" --library-path '$libraries'$preload \"\$program\" \"\$@\""
    else
      echo "exec '$ld' --argv0 '$name' --library-path '$libraries' '$program'$sysroot \"\$@\""
    fi
  } >"$file.$$"
  chmod +x "$file.$$"
  mv "$file.$$" "$file"
}

write_program_lookup() {
  cat <<'SCRIPT'
[ $# -gt 0 ] || { echo "usage: ${0##*/} PROGRAM ARGS..." >&2; exit 2; }
program=$(command -v -- "$1") || { echo "${0##*/}: no program '$1'" >&2; exit 127; }
if [ "$(head -c 2 "$program")" = '#!' ]; then
  echo "${0##*/}: '$program' is a script; only an ELF program can be started with these libraries" >&2
  exit 126
fi
name=$1
shift
SCRIPT
}

write_driver_variables() { # ROOT new|debian12 WRAPPER
  cat <<SCRIPT
export VK_DRIVER_FILES='$1/lvp_icd.json'
# The name that loaders before 1.3.207 know.
export VK_ICD_FILENAMES='$1/lvp_icd.json'
# Only the layers of the same folder, and those that who starts this names: the machine's own belong to another C library.
export VK_LAYER_PATH='$1/usr/share/vulkan/explicit_layer.d'\${COOP_LAYER_PATH:+:\$COOP_LAYER_PATH}
export VK_LOADER_LAYERS_DISABLE='~implicit~'
# LLVM 21's code for sums of products of 8-bit integers is wrong where it may use AVX2 and later (docs/drivers.md).
# Subgroups keep their 8 invocations.
export GALLIUM_OVERRIDE_CPU_CAPS=\${GALLIUM_OVERRIDE_CPU_CAPS-avx} LP_NATIVE_VECTOR_WIDTH=\${LP_NATIVE_VECTOR_WIDTH-256}
# For a program that starts others: the driver in use, and what to start them with.
export COOP_MESA='$2'
export COOP_RUNNER='$3'
SCRIPT
}

# The library that answers a GPU's driver in place of the kernel.
shim_of() { # ROOT NAME
  local shim
  shim=$(gpus | sed -n "s/^$2 [^ ]* \([^ ]*\).*/\1/p")
  case $shim in
    xe) echo "$1/libxe_shim.so" ;;
    *) echo "$1"/usr/lib/*/"lib${shim}_noop_drm_shim.so" ;;
  esac
}

write_gpu_variables() { # ROOT NAME WRAPPER
  local name driver shim variables
  read -r name driver shim variables < <(gpus | grep "^$2 ")
  cat <<SCRIPT
export VK_DRIVER_FILES='$1/${driver}_icd.json'
export VK_LAYER_PATH='$1/usr/share/vulkan/explicit_layer.d'\${COOP_LAYER_PATH:+:\$COOP_LAYER_PATH}
export VK_LOADER_LAYERS_DISABLE='~implicit~'
${variables:+export $variables}
# To compile is all that is done here.
export MESA_SHADER_CACHE_DISABLE=\${MESA_SHADER_CACHE_DISABLE-true}
export COOP_MESA='$name'
export COOP_RUNNER='$3'
SCRIPT
}

# pocl has subgroups of any size that a kernel asks for; rusticl those of llvmpipe, 16 where vectors have 512 bits.
write_opencl_variables() { # ROOT pocl|rusticl WRAPPER
  local library
  case $2 in
    pocl) library=$(echo "$1"/usr/lib/*/libpocl.so.2) ;;
    rusticl) library=$(echo "$1"/usr/lib/*/libRusticlOpenCL.so.1) ;;
  esac
  [ -e "$library" ] || die "no $2 in $1"
  echo "export OCL_ICD_VENDORS='$library'"
  case $2 in
    pocl)
      echo "exec 9<'$1/coop'"
      echo "export POCL_CACHE_DIR=\${POCL_CACHE_DIR-'$cache/pocl-kernels'}"
      ;;
    rusticl)
      echo "exec 9<'$1/usr/lib/clc'"
      echo "export RUSTICL_ENABLE=llvmpipe LP_NATIVE_VECTOR_WIDTH=\${LP_NATIVE_VECTOR_WIDTH-512}"
      # What is compiled for one width of vectors would be taken for another from the same cache.
      echo "export MESA_SHADER_CACHE_DIR='$cache/rusticl-kernels'/\$LP_NATIVE_VECTOR_WIDTH"
      ;;
  esac
  cat <<SCRIPT
export COOP_OPENCL='$2'
export COOP_RUNNER='$3'
SCRIPT
}

run() {
  local which=new gpu
  while [ $# -gt 0 ]; do
    case $1 in
      --mesa)
        [ $# -ge 2 ] || die "--mesa wants new or debian12"
        which=$2
        shift 2
        ;;
      --mesa=*)
        which=${1#--mesa=}
        shift
        ;;
      --gpu)
        if [ "${2:-}" = swiftshader ]; then
          which=swiftshader
        else
          [ $# -ge 2 ] && gpus | grep -q "^$2 " || die "--gpu wants swiftshader or one of: $(gpus | awk '{ print $1 }' | xargs)"
          which=gpu gpu=$2
        fi
        shift 2
        ;;
      --swiftshader)
        which=swiftshader
        shift
        ;;
      --opencl)
        [ $# -ge 2 ] || die "--opencl wants pocl, rusticl or intel"
        which=$2
        shift 2
        ;;
      --)
        shift
        break
        ;;
      *) break ;;
    esac
  done
  if [ "$which" = gpu ]; then fetch_gpu; else fetch; fi
  # The one in PATH may be the wrapper, which has a driver of its own.
  case "${1:-} $which" in
    "vulkaninfo new" | "vulkaninfo debian12" | "vulkaninfo gpu") set -- "$(folder "$which")/usr/bin/vulkaninfo" "${@:2}" ;;
  esac
  case $which in
    gpu) exec "$cache/bin/$gpu-run" "$@" ;;
    new) exec "$cache/bin/mesa-run" "$@" ;;
    debian12) exec "$cache/bin/mesa12-run" "$@" ;;
    pocl | rusticl) exec "$cache/bin/$which-run" "$@" ;;
    intel) fetch_intel && exec "$cache/bin/intel-run" "$@" ;;
    swiftshader) fetch_swiftshader && exec "$cache/bin/swiftshader-run" "$@" ;;
    *) die "unknown driver '$which': new or debian12" ;;
  esac
}

tool() {
  local known
  fetch
  for known in "${tools[@]}"; do
    if [ "$known" = "${1:-}" ]; then
      shift
      exec "$cache/bin/$known" "$@"
    fi
  done
  die "unknown tool '${1:-}': ${tools[*]}"
}

usage() {
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$here/drivers.sh"
}

case ${1:-fetch} in
  fetch) fetch ;;
  run) shift && run "$@" ;;
  tool) shift && tool "$@" ;;
  wrap) fetch && wrap ;;
  llvm) fetch_llvm ;;
  gpus) gpus | awk '{ print $1 }' ;;
  gpu) fetch_gpu ;;
  ocloc) fetch_ocloc ;;
  neovim) fetch_neovim ;;
  rust) fetch_rust ;;
  mdbook) fetch_mdbook ;;
  qemu) fetch_qemu ;;
  chromium) fetch_chromium ;;
  intel) fetch_intel ;;
  dxc) fetch_dxc ;;
  pre-commit) fetch_pre_commit ;;
  swiftshader) fetch_swiftshader ;;
  clean) rm -rf "$cache"/{mesa,mesa12,pocl,pocl-kernels,rusticl,rusticl-kernels,llvm,ocloc,neovim,rust,zig,qemu,mdbook,chromium,dxc,pre-commit,page-*,intel,gpu,swiftshader,bin} "$cache"/.fetch-* ;;
  -h | --help | help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac
