#!/usr/bin/env bash
# book.sh: the book, of the pages in docs/: target/book/html/index.html.
#
#   book.sh                build it
#   book.sh --bin FOLDER   build it with the tools in FOLDER, which draw its pictures, instead of building these
#
# mdBook comes from Debian's packages (scripts/drivers.sh mdbook).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
export COOP_CACHE=${COOP_CACHE:-$root/.cache}
target=${CARGO_TARGET_DIR:-$root/target}
out=${OUT:-$target/book}

case ${1:-} in
  "")
    cargo build --manifest-path "$root/Cargo.toml" --quiet -p coop-cli --bins
    bin=$target/debug
    ;;
  --bin) bin=$(cd "${2:?--bin needs a folder}" && pwd) ;;
  *)
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$here/book.sh" >&2
    exit 2
    ;;
esac
"$here/drivers.sh" mdbook
PATH=$bin:$COOP_CACHE/bin:$PATH
python3 "$root/book/collect.py" "$root" "$out"
mdbook build "$out"
# mdBook's index.html is a copy of the first page, whose links are those of its folder.
[ -e "$out/html/docs/book.html" ] || { echo "book.sh: mdbook made no first page" >&2; exit 1; }
cat >"$out/html/index.html" <<'HTML'
<!doctype html><html lang="en"><head><meta charset="utf-8"><title>coop</title><meta http-equiv="refresh" content="0; url=docs/book.html"></head>
<body><a href="docs/book.html">The book</a></body></html>
HTML
# Debian's mdBook has no fonts, and names their file all the same.
mkdir -p "$out/html/fonts"
[ -e "$out/html/fonts/fonts.css" ] || echo "/* The fonts are those of the reader. */" >"$out/html/fonts/fonts.css"
echo "$out/html/index.html"
