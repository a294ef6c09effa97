#!/usr/bin/env python3
"""Compares ncnn's variants of its shaders for devices with fewer component types with one module that is lowered.

    scripts/ncnn-levels.py [--tools FOLDER] [fetch | table]

`fetch` takes ncnn's source package of PyPI ($COOP_CACHE/ncnn-source). `table` (the default) compiles every shader with
cooperative matrices, and the plain ones beside them, once with everything on and once for each level, with the macros
that ncnn has for it; lowers the first for the level's device; runs both on lavapipe with the same data where there is a
case; and prints a Markdown table. FOLDER has cooplower and cooprun (target/quick by default). Python 3, pip, and the
drivers and tools of drivers.sh.
"""

import os
import pathlib
import re
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("COOP_CACHE", ROOT / ".cache"))
SOURCE = CACHE / "ncnn-source"
PACKAGE = "ncnn==1.0.20261020"

# Macros and extensions of GLSL that ncnn's compile_spirv_module sets for an option.
OPTIONS = {
    "fp16 storage": (["NCNN_fp16_storage"], ["GL_EXT_shader_16bit_storage"]),
    "fp16 packed": (["NCNN_fp16_packed"], []),
    "fp16 arithmetic": (["NCNN_fp16_arithmetic"], ["GL_EXT_shader_explicit_arithmetic_types_float16"]),
    "bf16 storage": (["NCNN_bf16_storage"], ["GL_EXT_shader_16bit_storage", "GL_EXT_bfloat16"]),
    "bf16 packed": (["NCNN_bf16_packed"], []),
    "int8 storage": (["NCNN_int8_storage"], ["GL_EXT_shader_8bit_storage"]),
    "int8 packed": (["NCNN_int8_packed"], []),
    "int8 arithmetic": (["NCNN_int8_arithmetic"], ["GL_EXT_shader_explicit_arithmetic_types_int8"]),
}
# A level: with everything on, ncnn's own, and the features that its device lacks.
FLOAT, MEMORY = "shaderFloat16", "storageBuffer16BitAccess"
LEVELS = {
    "fp16 storage": (["fp16 storage", "fp16 arithmetic"], ["fp16 storage"], [FLOAT]),
    "fp16 packed": (["fp16 storage", "fp16 arithmetic"], ["fp16 packed"], [FLOAT, MEMORY]),
    "fp16 packed, sums in f32": (["fp16 storage"], ["fp16 packed"], [FLOAT, MEMORY]),
    "bf16 packed": (["bf16 storage"], ["bf16 packed"], [FLOAT, MEMORY]),
    "int8 packed": (
        ["int8 storage", "int8 arithmetic", "fp16 packed"],
        ["int8 packed", "fp16 packed"],
        ["shaderInt8", "storageBuffer8BitAccess"],
    ),
}
PLAIN = ["gemm", "gemm_int8", "innerproduct", "innerproduct_gemm", "convolution_packed", "convolution_packed_gemm"]

# The products that are run: M, N and K of gemm, as rows without padding.
M, N, K = 128, 128, 128
GEMM = [M, N, K, 0xFFFFFFFF, 2, K, 2, N, 2, N, 1, 1, 1]
CASES = {
    "gemm": dict(groups=[N // 32, M // 32, 1], spec={}, push=GEMM),
    "gemm_cm": dict(
        groups=[(M // 8) * (N // 8), 1, 1],
        spec={18: 8, 19: 8, 20: 8, 21: 8, 22: 1, 23: 1, 24: 1, 25: 1, 26: 1},
        push=GEMM,
    ),
}
# Half integers have exact sums: the results are equal. Others may differ as sums in f16 do from sums in f32.
FILLS = {"exact": ("{ half-integers = [-1.0, 1.0] }", '"exact"'), "random": ('"uniform"', "{ abs = 0.12, rel = 0.01 }")}


def fetch():
    """Fetches the source package by pip, which builds its metadata: its version is the date of the day, as pip is told here."""
    if not list(SOURCE.glob("ncnn-*/src")):
        day, build = PACKAGE.rsplit(".", 1)[1], SOURCE / "build"
        build.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run(pip + ["install", "--target", str(build), "setuptools", "wheel", "importlib-metadata"], check=True)
        (build / "sitecustomize.py").write_text(
            "import time\nnow = time.localtime\n"
            "time.localtime = lambda *at: now(*at) if at else time.strptime('%s', '%%Y%%m%%d')\n" % day
        )
        command = ["download", "--no-deps", "--no-build-isolation", "--no-binary", "ncnn", "--dest", str(SOURCE), PACKAGE]
        subprocess.run(pip + command, check=True, env=dict(os.environ, PYTHONPATH=str(build)))
        with tarfile.open(next(SOURCE.glob("ncnn-*.tar.gz"))) as archive:
            wanted = [m for m in archive.getmembers() if m.isfile() and m.name.endswith(".comp")]
            archive.extractall(SOURCE, members=wanted, filter="data")
    return next(SOURCE.glob("ncnn-*/src"))


class Shaders:
    """ncnn's shaders, compiled to SPIR-V."""

    def __init__(self, source, out):
        self.source, self.out = source, out
        self.folder = source / "layer/vulkan/shader"
        self.prelude = (source / "ncnn_glsl_ext.comp").read_text()
        self.out.mkdir(parents=True, exist_ok=True)

    def matrices(self):
        """The shaders that use cooperative matrices."""
        found = [p.stem for p in self.folder.glob("*.comp") if "GL_KHR_cooperative_matrix" in p.read_text()]
        return sorted(found)

    def tiles(self, name):
        """The constants by which a shader with matrices works on one tile of 8 x 8 x 8 with a subgroup of 8."""
        spec = {}
        constant = r"layout\(constant_id = (\d+)(?: \+ (\d+))?\) const uint (\w+) ="
        for base, more, what in re.findall(constant, (self.folder / (name + ".comp")).read_text()):
            if what in ("M", "N", "K", "subgroup_size") or what.startswith("UNROLL_"):
                spec[int(base) + int(more or 0)] = 1 if what.startswith("UNROLL_") else 8
        return spec

    def text(self, name, options):
        text = (self.folder / (name + ".comp")).read_text()
        include = lambda m: next(self.source.rglob(m.group(1))).read_text()
        text = re.sub(r'^#include "([^"]+)".*$', include, text, flags=re.M)
        text = re.sub(r"^#extension GL_GOOGLE_include_directive.*$", "", text, flags=re.M)
        version = re.search(r"^#version 450\n", text, re.M).end()
        extensions = [e for o in options for e in OPTIONS[o][1]]
        macros = [d for o in options for d in OPTIONS[o][0]] + ["NCNN_shader_local_memory"]
        macros += ["ncnn_VK_KHR_cooperative_matrix", "ncnn_cooperativeMatrix"]
        head = "".join("#extension %s: require\n" % e for e in extensions)
        head += "".join("#define %s 1\n" % d for d in macros)
        # ncnn puts the size of workgroups into the module.
        size = (8, 1) if "GL_KHR_cooperative_matrix" in text else (8, 8)
        head += "layout(local_size_x = %d, local_size_y = %d) in;\n" % size
        return text[:version] + head + self.prelude + text[version:]

    def compile(self, name, options):
        """Returns the module. None with the compiler's words if there is none."""
        out = self.out / ("%s-%s.spv" % (name, "-".join(options).replace(" ", "-")))
        source = out.with_suffix(".comp")
        source.write_text(self.text(name, options))
        glslang = [str(CACHE / "bin/glslang"), "-V", "--target-env", "vulkan1.3", "-S", "comp", str(source)]
        done = subprocess.run(glslang + ["-o", str(out)], capture_output=True, text=True)
        return (out, "") if done.returncode == 0 else (None, next((l for l in done.stdout.splitlines() if "ERROR" in l), ""))


class Runs:
    """The tools."""

    def __init__(self, tools, out):
        self.tools, self.out = tools, out

    def lower(self, module, name, level, lacks, spec):
        """Lowers for a device without features. Returns the module, or why there is none."""
        out = self.out / ("%s-%s-lowered.spv" % (name, re.sub(r"\W+", "-", level)))
        command = [str(self.tools / "cooplower"), "--target", "scalar", "--profile", "mesa-lavapipe", "--lanes", "local-index"]
        command += ["--subgroup-size", "8", "--without", ",".join(lacks), "--spec-defaults", "--color", "never"]
        for key, value in spec.items():
            command += ["--spec", "%d=%d" % (key, value)]
        done = subprocess.run(command + [str(module), "-o", str(out)], capture_output=True, text=True)
        said = [line for line in done.stderr.splitlines() if line.strip()]
        return (out, "") if done.returncode == 0 else (None, " ".join(said[:2]).replace(str(module) + ": ", ""))

    def case(self, name, number, fill, tolerance):
        case = CASES[name]
        spec = ", ".join("%d = %d" % s for s in case["spec"].items())
        text = "workgroups = %s\nspec = { %s }\nsubgroup-size = 8\n" % (case["groups"], spec)
        text += "push = [{ type = \"u32\", values = %s }]\n" % case["push"]
        for binding, (buffer, count) in enumerate([("top", M * N), ("A", M * K), ("B", K * N), ("C", N), ("top4", 4)]):
            text += '[[buffer]]\nname = "%s"\nbinding = %d\n' % (buffer, binding)
            text += 'type = "%s"\ncount = %d\n' % (number, count)
            text += "fill = %s\ntolerance = %s\n" % (fill if buffer in "ABC" else '"zeros"', tolerance)
        path = self.out / ("%s.toml" % name)
        path.write_text(text)
        return path

    def compare(self, name, number, own, lowered):
        """Runs both with each contents of the buffers. Returns a word for the table."""
        if name not in CASES:
            return ""
        for what, (fill, tolerance) in FILLS.items():
            command = [str(CACHE / "bin/mesa-run"), str(self.tools / "cooprun"), "compare", str(own), str(lowered)]
            command += ["--case", str(self.case(name, number, fill, tolerance)), "--color", "never"]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                said = (done.stdout + done.stderr).strip().splitlines()
                said = [line for line in said if not line.endswith(".spv:")]
                return "%s data: %s" % (what, said[0] if said else "status %d" % done.returncode)
        return "equal"

    def time(self, name, module):
        """Returns the median time of a dispatch in microseconds, for the case of the last comparison."""
        command = [str(CACHE / "bin/mesa-run"), str(self.tools / "cooprun"), "run", str(module), "--no-validation"]
        command += ["--case", str(self.out / ("%s.toml" % name)), "--bench", "25", "--color", "never"]
        said = subprocess.run(command, capture_output=True, text=True).stdout
        number, unit = re.search(r"median ([\d.]+)(\D+) of", said).groups()
        return float(number) * {"ns": 1e-3, "\u00b5s": 1, "ms": 1e3, "s": 1e6}[unit]


def instructions(module):
    """Counts the instructions of a module."""
    words = module.read_bytes()
    at, count = 20, 0
    while at < len(words):
        at += 4 * max(int.from_bytes(words[at + 2 : at + 4], "little"), 1)
        count += 1
    return count


def table(tools):
    out = CACHE / "ncnn-levels"
    shaders, runs = Shaders(fetch(), out), Runs(tools, out)
    print("| shader | level | lowered | on lavapipe | time, to ncnn's own | instructions |\n|---|---|---|---|---|---|")
    failed = 0
    matrices = shaders.matrices()
    for name in matrices + PLAIN:
        spec = shaders.tiles(name) if name in matrices else {}
        for level, (full, own, lacks) in LEVELS.items():
            if ("int8" in name) != ("int8" in level):
                continue
            (one, why), (other, own_why) = shaders.compile(name, full), shaders.compile(name, own)
            if one is None or other is None:
                print("| %s | %s | not compiled: %s | | | |" % (name, level, (why or own_why).replace("|", " ")))
                continue
            lowered, why = runs.lower(one, name, level, lacks, spec)
            if lowered is None:
                print("| %s | %s | %s | | | |" % (name, level, why.replace("|", " ")))
                continue
            if name in matrices and level == "bf16 packed":
                print("| %s | %s | yes | ncnn has no such variant with matrices | | |" % (name, level), flush=True)
                continue
            compared = runs.compare(name, "bf16" if "bf16" in level else "f16", other, lowered)
            failed += compared not in ("", "equal")
            growth = instructions(lowered) / instructions(other)
            slower = "%.1f" % (runs.time(name, lowered) / runs.time(name, other)) if compared == "equal" else ""
            print("| %s | %s | yes | %s | %s | %.1f |" % (name, level, compared, slower, growth), flush=True)
    return 1 if failed else 0


def main():
    arguments = sys.argv[1:]
    tools = ROOT / "target/quick"
    if arguments[:1] == ["--tools"] and len(arguments) > 1:
        tools, arguments = pathlib.Path(arguments[1]), arguments[2:]
    if arguments == ["fetch"]:
        fetch()
    elif arguments in ([], ["table"]):
        sys.exit(table(tools))
    else:
        print(__doc__, file=sys.stderr)
        sys.exit(2)


main()
