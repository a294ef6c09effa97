#!/usr/bin/env bash
# figures.sh: packs what `cooplab figures` needs into a folder that runs on any machine with a Vulkan driver.
#
#   figures.sh FOLDER    builds cooplab, and writes it, testdata/bench and run.sh into FOLDER
#
# There, FOLDER/run.sh [OPTIONS of cooplab figures] prints the table. Libraries in FOLDER/lib, if there are any, are found first.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
folder=${1:?figures.sh wants a folder}

cargo build --release --manifest-path "$root/Cargo.toml" -p coop-lab --bin cooplab
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
rm -rf "$folder/bench"
mkdir "$folder/bench"
strip -o "$folder/cooplab" "${CARGO_TARGET_DIR:-$root/target}/release/cooplab"
cp "$root"/testdata/bench/*.spv "$root"/testdata/bench/*.toml "$folder/bench"
cat >"$folder/run.sh" <<'SCRIPT'
#!/usr/bin/env bash
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec "$here/cooplab" figures "$here/bench/figures.toml" --no-validation "$@"
SCRIPT
chmod +x "$folder/run.sh"
du -sh "$folder"
