#!/usr/bin/env python3
"""Compares ncnn's variants of its shaders for devices with fewer component types with one module that is lowered.

    scripts/ncnn-levels.py [--tools FOLDER] [--level LEVEL] [fetch | table SHADER... | check SHADER...]

`fetch` takes ncnn's source package of PyPI ($COOP_CACHE/ncnn-source). `table` (the default) compiles every shader with
cooperative matrices, and the plain ones beside them, once with everything on and once for each level, with the macros
that ncnn has for it; lowers the first for the level's device and for SwiftShader; runs both on lavapipe, and the latter on
SwiftShader, with the same data; and prints a Markdown table, of the named shaders or of all. `check` takes no times. FOLDER
has cooplower and cooprun (target/quick by default). Python 3, pip, and the drivers and tools of drivers.sh.
"""

import argparse
import os
import pathlib
import re
import resource
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

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
# A level: with everything on, ncnn's own, the features that its device lacks, and options of cooplower.
FLOAT, MEMORY = "shaderFloat16", "storageBuffer16BitAccess"
LEVELS = {
    "fp16 storage": (["fp16 storage", "fp16 arithmetic"], ["fp16 storage"], [FLOAT], []),
    "fp16 packed": (["fp16 storage", "fp16 arithmetic"], ["fp16 packed"], [FLOAT, MEMORY], []),
    "fp16 storage, excess precision": (["fp16 storage", "fp16 arithmetic"], ["fp16 storage"], [FLOAT], ["--excess-precision"]),
    "fp16 packed, excess precision": (["fp16 storage", "fp16 arithmetic"], ["fp16 packed"], [FLOAT, MEMORY], ["--excess-precision"]),
    "fp16 packed, sums in f32": (["fp16 storage"], ["fp16 packed"], [FLOAT, MEMORY], []),
    # What runs ncnn's own with matrices has f16: only its memory has none.
    "fp16 packed, with f16": (["fp16 storage", "fp16 arithmetic"], ["fp16 packed", "fp16 arithmetic"], [MEMORY], []),
    "fp16 packed, with f16, sums in f32": (["fp16 storage"], ["fp16 packed"], [MEMORY], []),
    "bf16 packed": (["bf16 storage"], ["bf16 packed"], [FLOAT, MEMORY], []),
    "int8 packed": (
        ["int8 storage", "int8 arithmetic", "fp16 packed"],
        ["int8 packed", "fp16 packed"],
        ["shaderInt8", "storageBuffer8BitAccess"],
        [],
    ),
    "int8 packed, with int8": (
        ["int8 storage", "int8 arithmetic", "fp16 packed"],
        ["int8 packed", "fp16 packed"],
        ["storageBuffer8BitAccess"],
        [],
    ),
}
SCALAR, KHR = ["--target", "scalar", "--lanes", "local-index"], ["--target", "khr"]
PLAIN = ["gemm", "gemm_int8", "innerproduct", "innerproduct_gemm", "convolution_packed", "convolution_packed_gemm"]

# The products and convolutions that are run. Of each: workgroups, specialization constants besides the tiles', push constants, and
# buffers with type and count, outputs with `out`; `half` is the level's type of 16 bits.
M, N, K = 128, 128, 128
GEMM = [M, N, K, 0xFFFFFFFF, 2, K, 2, N, 2, N, 1, 1, 1]
FACTORS = ["half 16384 out", "half 16384", "half 16384", "half 128", "half 4 out"]
ONE_BY_ONE = dict(groups=[64, 1, 1], spec={0: 1, 13: 64, 14: 64, 15: 4, 16: 4}, push=[64, 64, 64])
INT8 = ["half 4096 out", "s8 32768", "s8 32768", "half 64", "half 4096 out", "f32 64", "f32 64"]
INT8_CONVOLUTION = ["s8 16384", "half 4096 out", "s8 4096 out", "s8 32768", "f32 64", "f32 64", "half 64"]
WINOGRAD = dict(groups=[32, 1, 4], spec={0: 4, 10: 32, 11: 32, 12: 4, 13: 4, 14: 1024}, push=[64, 64, 64])
SCALE = int.from_bytes(struct.pack("<f", 0.125), "little")
CASES = {
    "gemm": dict(groups=[N // 32, M // 32, 1], push=GEMM, buffers=FACTORS),
    "gemm_cm": dict(groups=[(M // 8) * (N // 8), 1, 1], push=GEMM, buffers=FACTORS),
    "gemm_int8": dict(groups=[2, 2, 1], push=[64, 64, 64, 0xFFFFFFFF, 64, 1], buffers=INT8),
    "gemm_int8_cm": dict(groups=[64, 1, 1], push=[64, 64, 64, 0xFFFFFFFF, 64, 1], buffers=INT8),
    "convolution_1x1s1d1_cm": dict(ONE_BY_ONE, buffers=["half 4096", "half 4096 out", "half 4096", "half 64"]),
    "convolution1d_1x1s1d1_cm": dict(
        ONE_BY_ONE, buffers=["half 4096", "half 4096 out", "half 4096", "half 64", "half 4096", "half 4096 out"]
    ),
    "convolution_gemm_cm": dict(
        groups=[16, 1, 1],
        spec={0: 3, 1: 3, 6: 1, 19: 16, 20: 16, 21: 4, 22: 4},
        push=[10, 10, 100, 8, 8, 64],
        buffers=["half 1600", "half 1024 out", "half 2304", "half 16"],
    ),
    "convolution1d_gemm_cm": dict(
        groups=[16, 1, 1],
        spec={0: 3, 3: 1, 16: 16, 17: 16, 18: 4, 19: 4},
        push=[66, 66, 64, 64],
        buffers=["half 2048", "half 1024 out", "half 768", "half 16", "half 2048", "half 1024 out"],
    ),
    "deconvolution_gemm_cm": dict(
        groups=[64, 1, 1],
        spec={9: 64, 10: 64, 11: 4, 12: 4},
        push=[64, 64, 64],
        buffers=["half 4096", "half 4096 out", "half 4096"],
    ),
    "convolution_winograd_gemm_cm": dict(WINOGRAD, buffers=["half 16384", "half 16384 out", "half 16384"]),
    "convolution_1x1s1d1_int8_cm": dict(
        groups=[64, 1, 1], spec={0: 1, 5: 4, 6: 4}, push=[64, 64, 64, 64, 64], buffers=INT8_CONVOLUTION
    ),
    "convolution_gemm_int8_cm": dict(
        groups=[16, 1, 1],
        spec={0: 3, 1: 3, 6: 1, 11: 4, 12: 4},
        push=[10, 10, 100, 8, 8, 64, 16, 16],
        buffers=INT8_CONVOLUTION,
    ),
    "convolution_3x3s1d1_winograd_gemm_int8_cm": dict(
        WINOGRAD, buffers=["s8 65536", "s8 65536", "u32 32768", "s32 32768 out", "s32 32768 out", "u32 32768"]
    ),
    "sdpa_cross_cm": dict(
        groups=[64, 1, 2],
        push=[SCALE, 64, 64, 64, 2, 0, 1, 4096, 4096, 4096, 0],
        buffers=["half 8192", "half 8192", "half 8192 out", "half 64"],
    ),
    "sdpa_fa_cm": dict(
        groups=[4, 1, 2],
        push=[SCALE, 32, 32, 32, 32, 2, 0, 1, 1024, 1024, 1024, 1024, 0],
        buffers=["half 2048", "half 2048", "half 2048", "half 2048 out", "half 64"],
    ),
    "innerproduct": dict(
        groups=[8, 1, 1],
        spec={0: 1},
        push=[1, 256, 1, 1, 256, 1, 64, 1, 1, 64],
        buffers=["half 256", "half 64 out", "half 16384", "half 64"],
    ),
    "innerproduct_gemm": dict(
        groups=[4, 4, 1],
        spec={0: 1},
        push=[2, 128, 32, 1, 4096, 2, 32, 32, 1, 1024],
        buffers=["half 4096", "half 1024 out", "half 4096", "half 64"],
    ),
    "convolution_packed": dict(
        groups=[1, 1, 2],
        spec={0: 3, 1: 3, 6: 1, 10: 4, 11: 4},
        push=[3, 10, 10, 4, 100, 3, 8, 8, 4, 64, 16],
        buffers=["half 4", "half 4 out", "half 1600", "half 1024 out", "half 2304", "half 16"],
    ),
    "convolution_packed_gemm": dict(
        groups=[2, 1, 1],
        spec={0: 3, 1: 3, 6: 1, 10: 4, 11: 4},
        push=[10, 10, 4, 100, 8, 8, 4, 64, 16, 16],
        buffers=["half 4", "half 4 out", "half 1600", "half 1024 out", "half 2304", "half 16"],
    ),
}
# Half integers have exact sums, if they are not too many: the results are equal. Others may differ as sums in f16 do from sums in f32.
FILLS = {
    "exact": ("{ half-integers = [-1.0, 1.0] }", "{ small-ints = [-2, 2] }", '"exact"'),
    "random": ('"uniform"', '"bits"', "{ abs = 0.12, rel = 0.01 }"),
}


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
            # Debian 12's Python has no filters for what is extracted.
            for member in archive.getmembers():
                path = SOURCE / member.name
                if member.isfile() and path.suffix == ".comp" and ".." not in path.parts and SOURCE in path.parents:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(archive.extractfile(member).read())
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
        text, spec = (self.folder / (name + ".comp")).read_text(), {}
        offset = re.search(r"#define shape_constant_id_offset (\d+)", text)
        text = text.replace("shape_constant_id_offset", offset.group(1) if offset else "")
        for terms, what in re.findall(r"layout\(constant_id = ([\d +]+)\) const uint (\w+) =", text):
            if what in ("M", "N", "K", "subgroup_size") or what.startswith("UNROLL_"):
                spec[sum(map(int, terms.split("+")))] = 1 if what.startswith("UNROLL_") else 8
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
    """The tools, on lavapipe and SwiftShader."""

    def __init__(self, tools, out):
        self.tools, self.out = tools, out

    def lower(self, module, name, level, spec, options, target=SCALAR):
        """Lowers for a device. Returns the module, or why there is none."""
        out = self.out / ("%s-%s-lowered.spv" % (name, re.sub(r"\W+", "-", level)))
        command = [str(self.tools / "cooplower"), "--subgroup-size", "8", "--spec-defaults", "--color", "never"]
        command += target + options
        for key, value in spec.items():
            command += ["--spec", "%d=%d" % (key, value)]
        done = subprocess.run(command + [str(module), "-o", str(out)], capture_output=True, text=True)
        said = [line for line in done.stderr.splitlines() if line.strip()]
        return (out, "") if done.returncode == 0 else (None, " ".join(said[:2]).replace(str(module) + ": ", ""))

    def case(self, name, half, spec, kind):
        case, (fill, integers, tolerance) = CASES[name], FILLS[kind]
        spec = ", ".join("%d = %d" % s for s in spec.items())
        text = "workgroups = %s\nspec = { %s }\n" % (case["groups"], spec)
        text += "push = [{ type = \"u32\", values = %s }]\n" % case["push"]
        for binding, (what, count, *out) in enumerate(buffer.split() for buffer in case["buffers"]):
            number = half if what == "half" else what
            floats = number in ("f16", "bf16", "f32")
            text += '[[buffer]]\nname = "%d"\nbinding = %d\ntype = "%s"\ncount = %s\n' % (binding, binding, number, count)
            text += "fill = %s\n" % ('"zeros"' if out else fill if floats else integers)
            text += "tolerance = %s\n" % (tolerance if floats else '"exact"')
        path = self.out / ("%s.toml" % name)
        path.write_text(text)
        return path

    def run(self, driver, verb, modules, case, options):
        command = [str(CACHE / "bin" / driver), str(self.tools / "cooprun"), verb, *map(str, modules), "--case", str(case)]
        return subprocess.run(command + ["--color", "never"] + options, capture_output=True, text=True)

    def outputs(self, driver, module, case, name, options=()):
        """Runs a module. Returns the contents of the outputs, or what was said."""
        folder = self.out / "dump"
        shutil.rmtree(folder, ignore_errors=True)
        done = self.run(driver, "run", [module], case, ["--no-validation", "--dump-dir", str(folder), *options])
        if done.returncode != 0:
            return first_line(done)
        outs = [n for n, buffer in enumerate(CASES[name]["buffers"]) if buffer.endswith(" out")]
        return [(folder / ("%d.bin" % n)).read_bytes() for n in outs]

    def compare(self, name, half, spec, own, lowered):
        """Runs both with each contents of the buffers. Returns a word for the table."""
        for what in FILLS:
            case = self.case(name, half, spec, what)
            done = self.run("mesa-run", "compare", [own, lowered], case, ["--no-validation"])
            if ended(done):
                # ncnn's own ends lavapipe: its matrices are interpreted.
                compared = self.compare_on("mesa-run", name, half, spec, own, lowered)
                return "ncnn's own, which ends lavapipe, in the interpreter: " + compared
            if done.returncode != 0:
                return "%s data: %s" % (what, first_line(done))
        written = self.outputs("mesa-run", lowered, case, name)
        return "equal" if any(map(any, written)) else "nothing is written"

    def compare_on(self, driver, name, half, spec, own, lowered):
        """Runs ncnn's own on lavapipe, or else in the interpreter, and what is lowered on a driver, with sums that are exact."""
        case = self.case(name, half, spec, "exact")
        here = self.outputs("mesa-run", own, case, name)
        if not isinstance(here, list):
            here = self.outputs("mesa-run", own, case, name, ["--on", "interp", "--subgroup-size", "8"])
        there = self.outputs(driver, lowered, case, name)
        said = next((said for said in (here, there) if not isinstance(said, list)), None)
        return said or ("equal" if here == there and any(map(any, there)) else "differs")

    def times(self, name, modules):
        """Returns the processor time of a dispatch of each module, for the case of the last comparison: other work beside counts little."""

        def spent(module, dispatches):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            options = ["--no-validation", "--bench", str(dispatches)]
            self.run("mesa-run", "run", [module], self.out / ("%s.toml" % name), options)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime - before.ru_utime

        rounds = [[min(spent(module, n) for _ in range(3)) for n in (20, 420)] for module in modules]
        return [(many - few) / 400 for few, many in rounds]


def ended(done):
    """True if a signal ended a process, or one that it stands for."""
    return done.returncode < 0 or done.returncode > 128


def first_line(done):
    said = (done.stdout + done.stderr).strip().splitlines()
    said = [line for line in said if not line.endswith(".spv:")]
    return said[0].replace("|", " ") if said else "status %d" % done.returncode


def instructions(module):
    """Counts the instructions of a module."""
    words = module.read_bytes()
    at, count = 20, 0
    while at < len(words):
        at += 4 * max(int.from_bytes(words[at + 2 : at + 4], "little"), 1)
        count += 1
    return count


def table(tools, out, chosen, levels, timed):
    """Prints a row for each of the chosen shaders and levels. Returns 1 if results differ."""
    shaders, runs = Shaders(fetch(), out), Runs(tools, out)
    print("| shader | level | lowered | on lavapipe | time, to ncnn's own | instructions | on SwiftShader |\n" + 7 * "|---" + "|")
    failed = 0
    matrices = shaders.matrices()
    for name in [name for name in matrices + PLAIN if not chosen or name in chosen]:
        spec = {**(shaders.tiles(name) if name in matrices else {}), **CASES[name].get("spec", {})}
        for level, (full, own, lacks, options) in LEVELS.items():
            if ("int8" in name) != ("int8" in level) or levels and level not in levels:
                continue
            (one, why), (other, own_why) = shaders.compile(name, full), shaders.compile(name, own)
            if one is None or other is None:
                print("| %s | %s | not compiled: %s | | | | |" % (name, level, (why or own_why).replace("|", " ")))
                failed += 1
                continue
            lavapipe = ["--profile", "mesa-lavapipe", "--without", ",".join(lacks)] + options
            has_types = not any(lack.startswith("shader") for lack in lacks)
            target = KHR if has_types and name in matrices else SCALAR
            lowered, why = runs.lower(one, name, level, spec, lavapipe, target)
            if lowered is None:
                print("| %s | %s | %s | | | | |" % (name, level, why.replace("|", " ")))
                failed += 1
                continue
            if name in matrices and level == "bf16 packed":
                print("| %s | %s | yes | ncnn has no such variant with matrices | | | |" % (name, level), flush=True)
                continue
            half = "bf16" if "bf16" in level else "f16"
            compared = runs.compare(name, half, spec, other, lowered)
            growth = "%.1f" % (instructions(lowered) / instructions(other))
            slower = ""
            if timed and compared == "equal":
                # ncnn's own runs on lavapipe's matrices: as scalar code it says what the types alone take.
                plain, _ = runs.lower(other, name, level + " own", spec, ["--profile", "mesa-lavapipe"]) if name in matrices else (None, "")
                ours, theirs, *scalar = runs.times(name, [lowered, other] + ([plain] if plain else []))
                slower = "%.1f" % (ours / theirs)
                slower += "".join(" (%.1f to it as scalar code)" % (ours / time) for time in scalar)
            there = ""
            # On SwiftShader levels of storage are those of packed numbers: it has neither.
            if "storage" not in level:
                module, why = runs.lower(one, name, level + " there", spec, ["--profile", "google-swiftshader"] + options)
                there = why.replace("|", " ") if module is None else runs.compare_on("swiftshader-run", name, half, spec, other, module)
            failed += not compared.endswith("equal") or there == "differs"
            row = (name, level, compared, slower, growth, there)
            print("| %s | %s | yes | %s | %s | %s | %s |" % row, flush=True)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=pathlib.Path, default=ROOT / "target/quick")
    parser.add_argument("--level", action="append", choices=LEVELS, help="only this level; may be repeated")
    parser.add_argument("what", nargs="?", default="table", choices=["fetch", "table", "check"])
    parser.add_argument("shader", nargs="*", choices=[*CASES, []])
    given = parser.parse_args()
    if given.what == "fetch":
        fetch()
        return 0
    with tempfile.TemporaryDirectory() as out:
        return table(given.tools, pathlib.Path(out), given.shader, given.level, given.what == "table")


sys.exit(main())
