#!/usr/bin/env python3
"""messages.py: what the tools and libraries can print, for a reader: every text of two words or more in the sources of the crates that users have.

    messages.py [CRATE...]    one a line, `FILE:LINE: TEXT`; without CRATE those of all

Texts of tests, comments and documentation are left out, and so are tables of names (ir/src/grammar, ir/src/spv). What is printed by way of
`concat!` or made of parts stands here in parts. Python 3 alone.
"""

import pathlib
import re
import sys

CRATES = ["ir", "uniformity", "device", "validate", "passes", "components", "coopmat", "capi", "layer", "exec", "cli", "web"]
# A comment, a character, a lifetime, a raw text or a text: the first that begins decides.
TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|b?'(?:\\.[^']*|[^'\\])'|'\w+|b?r(#*)"(?P<raw>.*?)"\1|b?"(?P<text>(?:\\.|[^"\\])*)\"""", re.S)
NAMES = re.compile(r"ir/src/(grammar|spv)/")
WORDS = re.compile(r"[A-Za-z]{2,}.*\s.*[A-Za-z]{2,}", re.S)


def texts(source):
    """The texts of a file with their lines, up to its tests."""
    end = re.search(r"^#\[cfg\(test\)\]\s*(?:#\[[^\n]*\]\s*)*mod \w+ \{", source, re.M)
    for found in TOKEN.finditer(source, 0, end.start() if end else len(source)):
        text = found["raw"] if found["raw"] is not None else found["text"]
        if text is not None and WORDS.search(text):
            # A line that ends with a backslash goes on where the next one begins.
            yield source.count("\n", 0, found.start()) + 1, re.sub(r"\\\n\s*", "", text).replace("\n", "\\n")


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    for crate in sys.argv[1:] or CRATES:
        for path in sorted((root / crate / "src").rglob("*.rs")):
            name = path.relative_to(root).as_posix()
            if NAMES.match(name) or "/tests/" in name or name.endswith("tests.rs"):
                continue
            for line, text in texts(path.read_text()):
                print(f"{name}:{line}: {text}")


if __name__ == "__main__":
    main()
