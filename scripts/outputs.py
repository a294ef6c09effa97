#!/usr/bin/env python3
"""Lowers every module with matrices in several ways and prints a hash of each output.

A change that must not change output is checked with two lists:

    scripts/outputs.py target/quick/cooplower > before
    scripts/outputs.py target/quick/cooplower --against before

The second says which outputs differ and exits with 1 if any does. `--every N` takes every Nth command only.
"""

import argparse
import hashlib
import os
import pathlib
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("COOP_CACHE", ROOT / ".cache"))

# Names of ways to lower, and their options.
WAYS = {
    "scalar": ["--target", "scalar"],
    "local-index": ["--target", "scalar", "--lanes", "local-index"],
    "khr": ["--target", "khr", "--profile", "nvidia-h100"],
    "khr-lavapipe": ["--target", "khr", "--profile", "mesa-lavapipe"],
    "auto-rdna4": ["--target", "auto", "--profile", "amd-rdna4"],
}


def folder(name):
    """The modules of a folder of test data, words and assembly."""
    found = (ROOT / "testdata" / name).rglob("*")
    return sorted(p for p in found if p.suffix in (".spv", ".spvasm"))


def commands():
    """Pairs of a name and arguments."""
    for top in ["kernels", "nv2", "tensor", "elements", "dialects", "opencl", "passes", "vulkan", "exec", "validate"]:
        for path in folder(top):
            for way, options in WAYS.items():
                if top == "validate" and way not in ("scalar", "khr"):
                    continue
                size = [] if "--profile" in options else ["--subgroup-size", "32"]
                yield f"{path.relative_to(ROOT)} {way}", [*options, *size, "--spec-defaults", str(path)]
    for table in ["spec.toml", "spec_cm2.toml"]:
        with open(ROOT / "testdata/llama" / table, "rb") as file:
            groups = tomllib.load(file)["group"]
        suffix = "_cm2.spv" if "cm2" in table else "_cm1.spv"
        for path in sorted((CACHE / "llama").glob(f"*{suffix}")):
            group = next((g for g in groups if any(fnmatch(path.stem, m) for m in g["modules"])), None)
            for number, entry in enumerate(group["entry"][:2] if group else []):
                spec = [f"--spec={id}={value}" for id, value in entry["spec"].items()]
                for way, options in WAYS.items():
                    if number == 1 and way != "khr" or number == 0 and way == "local-index" and "_f32" not in path.stem:
                        continue
                    size = [] if "--profile" in options else ["--subgroup-size", "32"]
                    yield f"llama/{path.name} {number} {way}", [*options, *size, *spec, "--spec-defaults", str(path)]


def lowered(binary, arguments):
    """The exit status, a hash of the output, and the first line of a refusal."""
    done = subprocess.run([binary, *arguments, "-o", "-"], capture_output=True, timeout=600)
    said = "" if done.returncode == 0 else next(iter(done.stderr.decode(errors="replace").splitlines()), "")
    return f"{done.returncode} {hashlib.sha256(done.stdout).hexdigest()[:24]} {said}".strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", help="cooplower")
    parser.add_argument("--against", metavar="LIST", help="a list of another binary's outputs")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take every Nth command")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    chosen = list(commands())[:: options.every]
    known = {}
    if options.against:
        for line in pathlib.Path(options.against).read_text().splitlines():
            name, _, what = line.partition("\t")
            known[name] = what
    differ, compared = 0, 0
    with ThreadPoolExecutor(options.jobs) as pool:
        outputs = pool.map(lambda c: lowered(options.binary, c[1]), chosen)
        for (name, _), what in zip(chosen, outputs):
            if not options.against:
                print(f"{name}\t{what}", flush=True)
                continue
            compared += 1
            if known.get(name) != what:
                differ += 1
                print(f"{name}\n  was {known.get(name)}\n  is  {what}")
    if options.against:
        print(f"{compared} outputs compared, {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
