#!/usr/bin/env python3
"""sycl-kernels.py: compiles the SYCL kernels of testdata/sycl with the real DPC++ compiler, and runs them everywhere.

    sycl-kernels.py fetch                 the compiler and what it needs (PyPI, 190 MB), once
    sycl-kernels.py cases [--check]       the cases of those kernels in testdata/opencl whose results are computed here
    sycl-kernels.py compile [NAME ...]    SPIR-V and cases into $COOP_CACHE/sycl/kernels
    sycl-kernels.py run [WHERE ...] [NAME ...]   compile, then a table: which kernel is right where

WHERE is some of interpreter, scalar, pocl, intel, lavapipe, ocloc and khr (all, if none is named); those that need drivers.sh's
folders find them in COOP_CACHE.

Kernels are named as in testdata/sycl/cases.py; NAME.O0 is one without optimisation. The compiler is `libsycl-jit.so` of the PyPI
package intel-sycl-rt, which needs no device. It is under Intel's licence, and what it makes has Intel's headers in it: neither is
committed. Environment: COOP_CACHE (default: .cache in the repository), COOP_PROGRAMS (default: target/debug).
"""

import ctypes
import hashlib
import os
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
SOURCES = REPO / "testdata" / "sycl"
CACHE = Path(os.environ.get("COOP_CACHE", REPO / ".cache")).resolve() / "sycl"
KERNELS = CACHE / "kernels"
PACKAGES = ["intel-sycl-rt==2026.2.0", "intel-cmplr-lib-rt==2026.2.0"]
# What of the packages the compiler is: its headers are inside of it.
LIBRARIES = ["libintlc.so.5", "libirng.so", "libimf.so", "libsvml.so", "libsycl-jit.so.23.1"]


def fetch():
    """Puts the compiler's libraries into the cache."""
    folder = CACHE / "compiler"
    stamp = folder / "STAMP"
    if stamp.exists() and stamp.read_text() == " ".join(PACKAGES):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    wheels = CACHE / "wheels"
    print("sycl-kernels.py: fetching", " ".join(PACKAGES), file=sys.stderr)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    pip += ["--only-binary", ":all:", "--platform", "manylinux_2_28_x86_64", "--dest", str(wheels)]
    subprocess.run(pip + PACKAGES, check=True)
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if os.path.basename(name) in LIBRARIES:
                    (folder / os.path.basename(name)).write_bytes(archive.read(name))
        wheel.unlink()
    missing = [name for name in LIBRARIES if not (folder / name).exists()]
    if missing:
        sys.exit("sycl-kernels.py: the packages lack " + ", ".join(missing))
    stamp.write_text(" ".join(PACKAGES))
    return folder


# ---------------------------------------------------------------------------- the compiler's interface


class File(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("contents", ctypes.c_char_p)]


class View(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class Result(ctypes.Structure):
    _fields_ = [
        ("error", ctypes.c_int),
        ("images", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        ("options", ctypes.c_char_p),
        ("ir", ctypes.c_void_p),
        ("ir_size", ctypes.c_size_t),
        ("log", ctypes.c_char_p),
    ]


class Image(ctypes.Structure):
    _fields_ = [
        ("format", ctypes.c_uint32),
        ("address_bits", ctypes.c_uint64),
        ("start", ctypes.c_void_p),
        ("size", ctypes.c_uint64),
        ("symbols", ctypes.c_void_p * 2),
        ("properties", ctypes.c_void_p * 2),
    ]


SPIRV = 2


class Compiler:
    """`compileSYCL` of libsycl-jit.so."""

    def __init__(self):
        folder = fetch()
        for name in LIBRARIES[:-1]:
            ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
        self.call = ctypes.CDLL(str(folder / LIBRARIES[-1])).compileSYCL
        self.call.restype = Result
        self.call.argtypes = [File, View, View, View, ctypes.c_bool, ctypes.c_uint32]

    def compile(self, source, headers, arguments):
        """The module of a source, in SPIR-V."""
        files = (File * len(headers))(*[File(name.encode(), text) for name, text in headers.items()])
        words = (ctypes.c_char_p * len(arguments))(*[a.encode() for a in arguments])
        view = lambda array: View(ctypes.addressof(array), len(array))
        result = self.call(File(b"kernel.cpp", source), view(files), view(words), View(None, 0), False, SPIRV)
        if result.error != 0 or result.count == 0:
            raise RuntimeError((result.log or b"").decode())
        # The kernel's is the first; what follows are bodies of library functions, for devices that lack them.
        image = Image.from_address(result.images)
        return ctypes.string_at(image.start, image.size)


def compile_one(job):
    """Compiles one kernel in a process of its own (a compiler that crashes is one kernel that failed)."""
    name, level = job
    done = subprocess.run([sys.executable, __file__, "--one", name, level], capture_output=True, text=True)
    return name, level, done.returncode, done.stderr


def one(name, level):
    from cases import kernels

    source, defines, case = kernels()[name]
    arguments = ["-O" + level]
    # Behind the compiler's own headers, which have some of the names for other things.
    options = "".join("#define %s\n" % d.replace("=", " ", 1) for d in defines).encode()
    text, header = (SOURCES / (source + ".cpp")).read_bytes(), (SOURCES / "kernel.hpp").read_bytes()
    target = KERNELS / ("%s.O%s.spv" % (name, level))
    key = hashlib.sha256(b"\0".join([text, header, options, level.encode(), PACKAGES[0].encode()])).hexdigest()
    stamp = target.with_suffix(".key")
    if not (target.exists() and stamp.exists() and stamp.read_text() == key):
        target.write_bytes(Compiler().compile(text, {"kernel.hpp": header, "options.hpp": options}, arguments))
        stamp.write_text(key)


def compile_all(names):
    """Compiles kernels and writes their cases; what failed is said."""
    from cases import kernels

    KERNELS.mkdir(parents=True, exist_ok=True)
    fetch()
    jobs = [tuple(n.rsplit(".O", 1)) if ".O" in n else (n, "2") for n in names]
    with ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
        results = list(pool.map(compile_one, jobs))
    for name, _, case in [(n, *kernels()[n][1:]) for n in {n for n, _ in jobs}]:
        for level in ("0", "2"):
            (KERNELS / ("%s.O%s.toml" % (name, level))).write_text(case.toml(level == "2"))
    failed = [(n, l, e) for n, l, status, e in results if status != 0]
    for name, level, error in failed:
        print("%s.O%s does not compile: %s" % (name, level, error.strip()[-2000:]), file=sys.stderr)
    return [n + ".O" + l for n, l, status, _ in results if status == 0], len(failed)


def written_cases(check):
    """Writes the cases of kernels in LLVM's language, or compares them with what is there."""
    from cases import intermediate

    wrong = 0
    for name, case in intermediate().items():
        path = REPO / "testdata" / "opencl" / (name + ".toml")
        text = "# Written by scripts/sycl-kernels.py cases.\n" + case.toml(True)
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print("%s is not what is computed now" % path, file=sys.stderr)
            wrong += 1
    return 1 if wrong else 0


# ---------------------------------------------------------------------------- where kernels run


def command(arguments, wrapper=None, **variables):
    """Runs a program; what it says where it fails, else nothing."""
    start = [str(CACHE.parent / "bin" / wrapper)] if wrapper else []
    environment = {**os.environ, **variables}
    try:
        done = subprocess.run(start + arguments, capture_output=True, text=True, timeout=300, env=environment)
    except subprocess.TimeoutExpired:
        return "no end after 300 s"
    if done.returncode == 0:
        return None
    said = (done.stdout + done.stderr).strip() or "exit status %d" % done.returncode
    lines = [line for line in said.splitlines() if "error" in line or "differ" in line or "\u00d7" in line] or said.splitlines()
    return lines[0].strip()


class Kernel:
    """A compiled kernel, and the programs that run it."""

    def __init__(self, name, programs):
        from cases import kernels

        self.name, self.level = name.rsplit(".O", 1)
        source, _, self.case = kernels()[self.name]
        # Lanes of a subgroup that add something up are those of a subgroup of the device.
        self.groups = source in ("sum", "compensate", "softmax")
        self.module, self.toml = str(KERNELS / (name + ".spv")), str(KERNELS / (name + ".toml"))
        self.lower, self.cooprun = str(programs / "cooplower"), str(programs / "cooprun")
        self.profile = ["--profile", "intel-opencl-gpu"]
        self.work = CACHE / "lowered" / name
        self.work.parent.mkdir(exist_ok=True)

    def lowered(self, suffix, options):
        """The module lowered, and what went wrong."""
        out = "%s.%s.spv" % (self.work, suffix)
        size = ",".join(map(str, self.case.local))
        return out, command([self.lower, self.module, "-o", out, "-q", "--local-size", size] + options)

    def runs(self, suffix, options, on, wrapper=None):
        out, wrong = self.lowered(suffix, options)
        return wrong or command([self.cooprun, "run", out, "--case", self.toml, "--on", on], wrapper)

    def interpreter(self):
        """The kernel as it is, in the interpreter."""
        return command([self.cooprun, "run", self.module, "--case", self.toml, "--on", "interp"])

    def scalar(self):
        """Scalar code, in the interpreter."""
        return self.runs("scalar", self.profile + ["--target", "scalar"], "interp")

    def pocl(self):
        """Scalar code on pocl, which has subgroups as wide as a workgroup."""
        lanes = ["--lanes", "local-index"] if self.case.local[0] > 16 else []
        return self.runs("pocl", self.profile + ["--target", "scalar"] + lanes, "opencl", "pocl-run")

    def intel(self):
        """Scalar code on Intel's runtime for CPUs, which crashes on some with lanes of subgroups."""
        lanes = [] if self.groups else ["--lanes", "local-index"]
        return self.runs("intel", self.profile + ["--target", "scalar"] + lanes, "opencl", "intel-run")

    def lavapipe(self):
        """A shader of scalar code, on lavapipe, whose subgroups are of 8, or of 16 where vectors have 512 bits."""
        options = ["--env", "vulkan", "--target", "scalar", "--subgroup-size", "16"]
        options += [] if self.groups else ["--lanes", "local-index"]
        for index, size in self.case.locals(self.level == "2"):
            options += ["--local-arg", "%d=%d" % (index, size)]
        out, wrong = self.lowered("vulkan", options)
        valid = [str(CACHE.parent / "bin" / "spirv-val"), "--target-env", "vulkan1.3", out]
        width = "512" if self.groups else "256"
        run = [self.cooprun, "run", out, "--case", self.toml]
        return wrong or command(valid) or command(run, "mesa-run", LP_NATIVE_VECTOR_WIDTH=width)

    def ocloc_takes(self, module):
        for device in ("bmg", "pvc"):
            folder = "%s.%s" % (self.work, device)
            arguments = ["compile", "-spirv_input", "-file", module, "-device", device, "-out_dir", folder, "-q"]
            wrong = command(arguments, "ocloc")
            if wrong:
                return device + ": " + wrong
        return None

    def ocloc(self):
        """The kernel as it is, by Intel's compiler for bmg and pvc."""
        return self.ocloc_takes(self.module)

    def khr(self):
        """With matrices of Intel's devices: in the interpreter, and by Intel's compiler."""
        out, wrong = self.lowered("khr", self.profile + ["--target", "khr"])
        return wrong or command([self.cooprun, "run", out, "--case", self.toml, "--on", "interp"]) or self.ocloc_takes(out)


COLUMNS = ["interpreter", "scalar", "pocl", "intel", "lavapipe", "ocloc", "khr"]


def run_all(names, columns):
    """Prints a table; answers how many entries are wrong that are not known to be."""
    from cases import KNOWN

    programs = Path(os.environ.get("COOP_PROGRAMS", REPO / "target" / "debug"))
    print("%-28s" % "", *["%-11s" % c for c in columns])
    wrong, notes = 0, []
    for name in names:
        kernel, row = Kernel(name, programs), []
        for column in columns:
            said = getattr(kernel, column)()
            known = next((k for k in KNOWN if k[0] == column and (k[1] == kernel.name or k[1] == name)), None)
            if said is None:
                row.append("right")
            elif known is not None and known[2] in said:
                row.append("known")
            else:
                row.append("WRONG")
                notes.append("%s, %s: %s" % (name, column, said))
                wrong += 1
        print("%-28s" % name, *["%-11s" % entry for entry in row], flush=True)
    for note in notes:
        print(note)
    print("sycl-kernels.py: %d kernels, %d wrong" % (len(names), wrong))
    return wrong


def main(arguments):
    sys.path.insert(0, str(SOURCES))
    from cases import kernels

    match arguments:
        case ["--one", name, level]:
            one(name, level)
        case ["cases", *check]:
            return written_cases(check == ["--check"])
        case ["fetch"]:
            fetch()
        case ["compile", *names]:
            names = names or [n + level for n in kernels() for level in (".O2", ".O0")]
            done, failed = compile_all(names)
            print("sycl-kernels.py: %d kernels in %s" % (len(done), KERNELS))
            return 1 if failed else 0
        case ["run", *names]:
            columns = [n for n in names if n in COLUMNS] or COLUMNS
            names = [n for n in names if n not in COLUMNS] or [n + level for n in kernels() for level in (".O2", ".O0")]
            done, failed = compile_all(names)
            return 1 if run_all(done, columns) or failed else 0
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
