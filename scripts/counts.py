#!/usr/bin/env python3
"""Prints counts of the source, by crate.

    scripts/counts.py [DIR] [--list COUNT]

DIR is the root of a checkout, by default this one. To count an old revision:

    mkdir /tmp/old && git archive REVISION | tar -x -C /tmp/old && scripts/counts.py /tmp/old

The counts are of the code in each crate's src folder, without comments, the contents of strings and unit tests; "docs" includes
tests, benches and examples. The generated tables count as lines only. --list prints the places behind a count.

The script reads text, not syntax trees: it is a measure, lab/tests/vocabulary.rs is the limit.
"""

import os
import re
import sys

COUNTS = {
    "lines": "lines of code, without blank lines, comments and unit tests",
    "lists": "predicates: lists of three or more opcodes in `matches!`, `[..].contains`, or an arm of a match that gives a truth value",
    "arms": "arms of a match with three or more opcodes (dispatch)",
    "raw": "registry numbers where an enumerant has a name",
    "names": "tests of an opcode's name",
    "word": "`.word(N)`",
    "id": "`.id(N)`",
    "long": "functions over 100 lines",
    "params": "functions with more than 7 parameters, self included",
    "docs": "doc comment lines that begin with What, Whether or Who",
}
OP = r"(?:\b(?:Op|grammar::Op)::[A-Z]\w+)"
ALTERNATIVES = re.compile(rf"{OP}(?:\s*\|\s*{OP}){{2,}}")
SLICE = re.compile(rf"\[\s*{OP}(?:\s*,\s*{OP}){{2,}}\s*,?\s*\]")
RAW = [
    re.compile(r"\(Op::(?:ExecutionMode|ExecutionModeId|Capability|Decorate), Some\(\d"),
    re.compile(r"\bdecoration\s*==\s*\d"),
    re.compile(r"\bstorage\s*==\s*(?:Some\()?\d"),
    re.compile(r"\bbuilt_in\(\w+\)\s*==\s*Some\(\d"),
    re.compile(r"\b(?:has|require|declares)_capability\((?:\w+,\s*)?\d"),
    re.compile(
        r"\b(?:Capability|Decoration|StorageClass|BuiltIn|MemoryAccess|MemorySemantics|ExecutionMode|ExecutionModel|Scope|"
        r"GroupOperation|CooperativeMatrixUse|CooperativeMatrixLayout|CooperativeMatrixOperands|TensorAddressingOperands|"
        r"FPFastMathMode|FunctionControl|LoopControl|SelectionControl|AddressingModel|MemoryModel|FPEncoding)\(\d+\)|\bOp\(\d+\)"
    ),
    re.compile(r"\bOperand::(?:Enum|Word|Literal)\([^()]*\b(?:4[0-9]{3}|5[0-9]{3}|6[0-9]{3})\)"),
    re.compile(r"\b(?:enumerant|word)\(\d+\)\s*(?:==|!=)\s*Some\((?:4[0-9]{3}|5[0-9]{3}|6[0-9]{3})\)"),
    re.compile(r"\bconst\s+[A-Z_]+\s*:\s*u(?:16|32)\s*=\s*(?:4[1-9][0-9]{2}|5[0-9]{3}|6[0-3][0-9]{2})\s*;"),
]
NAMES = re.compile(r'\.(?:starts_with|strip_prefix|ends_with)\("Op(?!enCL)|\b(?:op\.name\(\)|op\.to_string\(\))\s*\.(?:starts_with|ends_with|contains|strip_\w+)\(')
POSITION = {"word": re.compile(r"\.word\(\d+\)"), "id": re.compile(r"\.id\(\d+\)")}
DOCS = re.compile(r"^\s*//[/!] (?:What|Whether|Who)", re.M)
FUNCTION = re.compile(r"^( *)(?:pub(?:\([^)]*\))? )?(?:const )?(?:async )?(?:unsafe )?(?:extern \S+ )?fn (\w+)", re.M)


def blank(text, strings=True):
    """Replaces comments, and the contents of strings if asked, with spaces; line ends stay."""
    out = []
    pattern = re.compile(
        r"//[^\n]*|/\*.*?\*/|b?r(#*)\".*?\"\1|b?\"(?:\\.|[^\"\\])*\"|b?'(?:\\.[^']*|[^'\\\n])'", re.S
    )
    at = 0
    for m in pattern.finditer(text):
        out.append(text[at : m.start()])
        s = m.group()
        if s.startswith("/") or strings:
            s = re.sub(r"[^\n]", " ", s)
        out.append(s)
        at = m.end()
    out.append(text[at:])
    return "".join(out)


def closing(text, at):
    """The index of the bracket that closes the one at an index."""
    depth = 0
    for i in range(at, len(text)):
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
            if depth == 0:
                return i
    return len(text) - 1


def enclosed_by_matches(code, at):
    """Returns True if the innermost open parenthesis before an index is that of `matches!`."""
    depth = 0
    for i in range(at - 1, -1, -1):
        if code[i] in ")]}":
            depth += 1
        elif code[i] in "([{":
            if depth == 0:
                if code[i] == "(" and code[max(0, i - 8) : i] == "matches!":
                    return True
                # `Some(Op::A | Op::B | ..)` inside of it.
                if code[i] == "(" and re.search(r"\b(?:Some|Ok)$", code[:i][-6:]):
                    continue
                return False
            depth -= 1
    return False


def opcode_lists(code):
    """Yields ('lists' or 'arms', index) for each list of opcodes."""
    for m in ALTERNATIVES.finditer(code):
        if enclosed_by_matches(code, m.start()):
            yield "lists", m.start()
            continue
        rest = code[m.end() :]
        arm = re.match(r"\s*\)*\s*(?:if [^=]*?)?=>\s*(true|false)\b", rest)
        yield ("lists" if arm else "arms"), m.start()
    for m in SLICE.finditer(code):
        yield "lists", m.start()


def functions(code):
    """Yields the name, index, lines and parameters of each function."""
    for m in FUNCTION.finditer(code):
        at = m.end()
        if code[at : at + 1] == "<":
            depth = 0
            while at < len(code):
                if code[at] == "<":
                    depth += 1
                elif code[at] == ">" and code[at - 1] != "-":
                    depth -= 1
                    if depth == 0:
                        break
                at += 1
            at += 1
        if code[at : at + 1] != "(":
            continue
        end = closing(code, at)
        params, depth, part = 0, 0, ""
        for i, c in enumerate(code[at + 1 : end], at + 1):
            if c in "([{<":
                depth += 1
            elif c in ")]}" or c == ">" and code[i - 1] != "-":
                depth -= 1
            if c == "," and depth == 0:
                params += bool(part.strip())
                part = ""
            else:
                part += c
        params += bool(part.strip())
        body = re.compile(r"[{;]").search(code, end)
        if not body or body.group() == ";":
            continue
        last = closing(code, body.start())
        yield m.group(2), m.start(), code.count("\n", m.start(), last) + 1, params


def without_unit_tests(text):
    return re.split(r"#\[cfg\(test\)\]\s*mod \w+ \{", text)[0]


def rust_files(folder):
    for path, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in ("target", ".cache"))
        for name in sorted(names):
            if name.endswith(".rs"):
                yield os.path.join(path, name)


def crates(root):
    found = []
    for name in sorted(os.listdir(root)):
        if os.path.isfile(os.path.join(root, name, "Cargo.toml")) and os.path.isdir(os.path.join(root, name, "src")):
            found.append(name)
    return found


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def count(root, crate):
    """Returns the places behind each count of a crate: lists of (file, line, text)."""
    places = {c: [] for c in COUNTS}
    for folder in ("src", "tests", "benches", "examples", "grammar", "fuzz_targets"):
        for path in rust_files(os.path.join(root, crate, folder)):
            text = read(path)
            for m in DOCS.finditer(text):
                places["docs"].append((path, text.count("\n", 0, m.start()) + 1, m.group()))
            if folder != "src":
                continue
            if path.endswith("tests.rs"):
                continue
            text = without_unit_tests(text)
            code = blank(text)
            # Lines that hold a string alone are code too.
            kept = blank(text, strings=False)
            lines = sum(1 for line in kept.splitlines() if line.strip())
            places["lines"].extend([(path, 0, "")] * lines)
            if "tables.rs" in path:
                continue

            def add(name, at):
                line = code.count("\n", 0, at) + 1
                places[name].append((path, line, text.splitlines()[line - 1].strip()))

            for name, at in opcode_lists(code):
                add(name, at)
            for pattern in RAW:
                for m in pattern.finditer(code):
                    add("raw", m.start())
            for m in NAMES.finditer(kept):
                add("names", m.start())
            for name, pattern in POSITION.items():
                for m in pattern.finditer(code):
                    add(name, m.start())
            for _, at, size, params in functions(code):
                if size > 100:
                    add("long", at)
                if params > 7:
                    add("params", at)
    return places


def module_graph(root, folders):
    """The imports among the files of some folders of a crate: file -> files that its `use` lines and paths name."""
    files = {}
    for folder in folders:
        if os.path.isfile(folder):
            files[os.path.splitext(os.path.basename(folder))[0]] = folder
            continue
        for path in rust_files(folder):
            stem = os.path.splitext(os.path.relpath(path, folder))[0].replace(os.sep, "::")
            if stem.split("::")[-1] in ("tests", "mod"):
                continue
            files[stem] = path
    graph = {}
    for name, path in files.items():
        code = blank(without_unit_tests(read(path)))
        code = re.sub(r"\b(?:pub(?:\([^)]*\))? )?mod \w+;", "", code)
        uses = set()
        for other in files:
            last = other.split("::")[-1]
            if other == name:
                continue
            if re.search(rf"\b(?:super|crate|self|interp|cooprun|case|{re.escape(last)})::(?:\w+::)*\{{[^;]*\b{last}::", code) or re.search(
                rf"\b(?:super|crate|interp|cooprun)::(?:\w+::)*{last}::", code
            ):
                uses.add(other)
        graph[name] = uses
    return graph


def circles(graph):
    """The strongly connected components with more than one file."""
    index, low, stack, on, out = {}, {}, [], set(), []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        on.add(v)
        for w in sorted(graph[v]):
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            component = []
            while True:
                w = stack.pop()
                on.discard(w)
                component.append(w)
                if w == v:
                    break
            if len(component) > 1:
                out.append(sorted(component))

    for v in sorted(graph):
        if v not in index:
            visit(v)
    return out


def main():
    args = sys.argv[1:]
    shown = None
    if "--list" in args:
        at = args.index("--list")
        shown = args[at + 1 : at + 2]
        del args[at : at + 2]
        if not shown or shown[0] not in COUNTS:
            sys.exit(f"--list takes one of: {', '.join(COUNTS)}")
    if args and args[0] in ("-h", "--help"):
        print(__doc__)
        return
    root = args[0] if args else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    names = list(COUNTS)
    found = {crate: count(root, crate) for crate in crates(root)}
    if not found:
        sys.exit(f"{root} has no crates")
    if shown:
        for crate in found:
            for path, line, text in found[crate][shown[0]]:
                print(f"{os.path.relpath(path, root)}:{line}: {text}")
        return
    print(f"{'':12}" + "".join(f"{n:>8}" for n in names))
    for crate, places in found.items():
        print(f"{crate:12}" + "".join(f"{len(places[n]):8}" for n in names))
    for title, chosen in (("all", list(found)), ("without ir", [c for c in found if c != "ir"])):
        print(f"{title:12}" + "".join(f"{sum(len(found[c][n]) for c in chosen):8}" for n in names))
    print()
    for name, text in COUNTS.items():
        print(f"{name:8}{text}")
    print("\nfiles in import circles:")
    source = os.path.join(root, "exec", "src")
    cases = [os.path.join(source, f) for f in ("case.rs", "file.rs", "fill.rs", "facts.rs", "respell.rs", "reference.rs", "quantised.rs",
                                               "number.rs", "random.rs", "compare.rs", "tolerance.rs", "bounds.rs", "testing.rs", "error.rs")]
    groups = {
        "exec/src/interp": [os.path.join(source, "interp")],
        "cli/src/cooprun": [os.path.join(root, "cli", "src", "cooprun")],
        "exec's case files": [p for p in cases if os.path.exists(p)],
    }
    for title, folders in groups.items():
        if not all(os.path.exists(f) for f in folders) or not folders:
            print(f"{title:20} not there")
            continue
        found_circles = circles(module_graph(root, folders))
        text = "; ".join(" ".join(c) for c in found_circles)
        print(f"{title:20}{sum(len(c) for c in found_circles):4}  {text}")


if __name__ == "__main__":
    main()
