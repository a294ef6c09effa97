#!/usr/bin/env python3
"""sycl-kernels.py: compiles the SYCL kernels of testdata/sycl with the real DPC++ compiler, and runs them everywhere.

    sycl-kernels.py fetch                 the compiler and what it needs (PyPI, 190 MB), once
    sycl-kernels.py compile [NAME ...]    SPIR-V and cases into $COOP_CACHE/sycl/kernels
    sycl-kernels.py run [NAME ...]        compile, then a table: which kernel is right where

Kernels are named as in testdata/sycl/cases.py; NAME.O0 is one without optimisation. The compiler is `libsycl-jit.so` of the PyPI
package intel-sycl-rt, which needs no device. It is under Intel's licence, and what it makes has Intel's headers in it: neither is
committed. Environment: COOP_CACHE (default: .cache in the repository).
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


def main(arguments):
    sys.path.insert(0, str(SOURCES))
    from cases import kernels

    match arguments:
        case ["--one", name, level]:
            one(name, level)
        case ["fetch"]:
            fetch()
        case ["compile", *names]:
            names = names or [n + level for n in kernels() for level in (".O2", ".O0")]
            done, failed = compile_all(names)
            print("sycl-kernels.py: %d kernels in %s" % (len(done), KERNELS))
            return 1 if failed else 0
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
