#!/usr/bin/env bash
# bench.sh: how fast the tools are, with spirv-val beside them on the same files.
#
#   bench.sh           fetches what is missing, times for about two minutes, and prints the figures
#   bench.sh ARGS...   ARGS go to criterion: a filter (llama-all/print), --quick, --save-baseline NAME
#
# The files are our kernels and llama.cpp's modules. Criterion's own lines go to standard error. See the top of
# cli/benches/figures/main.rs for what is measured.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."

export COOP_CACHE=${COOP_CACHE:-$PWD/.cache}
"$here/drivers.sh" >&2
"$here/llama-shaders.sh" >&2
COOP_CACHE=$(cd "$COOP_CACHE" && pwd)

cargo bench -p coop-cli --bench figures -- "$@" | awk '/^MB\/s/ { ours = 1 } ours { print; next } { print > "/dev/stderr" }'
