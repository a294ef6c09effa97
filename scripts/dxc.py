#!/usr/bin/env python3
"""dxc.py: Microsoft's HLSL compiler as a program, from the library libdxcompiler alone (Linux on x86-64, Python 3).

    COOP_DXCOMPILER=libdxcompiler.so dxc.py -spirv -T cs_6_6 [OPTIONS...] shader.hlsl -Fo shader.spv

`scripts/drivers.sh dxc` fetches the library and writes `dxc`, which starts this. Arguments are dxc's and go to the compiler as they are.
-Fo names the object's file. What the compiler says goes to standard error, and the exit status is dxc's own: 0, or the last byte of the compiler's
status (5: the source has errors). What the library alone does not do, disassembly and other files, is refused with exit status 2.
"""

import ctypes
import os
import sys
import uuid

# What `DxcCreateInstance` makes, and interfaces of that.
LIBRARY = "6245d6af-66e0-48fd-80b4-4d271796748c"
COMPILER = "73e22d93-e6ce-47f3-b5bf-f0664f39c1b0"
UTILS_3 = "4605c4cb-2019-492a-ada4-65f20bb7d67f"
COMPILER_3 = "228b4687-5a6a-4730-900c-9702b2203f54"
RESULT = "58346cda-dde7-4497-9461-6f87af5e0659"
BLOB = "8ba5fb08-5195-40e2-ac58-0d989c3a0102"
BLOB_UTF8 = "3da636c9-ba71-4024-a301-30cbf125305b"

# Methods by their place in the table of an interface. On Linux two destructors follow the three methods of IUnknown.
INCLUDE_HANDLER = 11  # of IDxcUtils
COMPILE = 5  # of IDxcCompiler3
STATUS, HAS_OUTPUT, GET_OUTPUT = 5, 8, 9  # of IDxcResult
BUFFER, SIZE = 5, 6  # of IDxcBlob

# Kinds of output.
OBJECT, ERRORS = 1, 2
UTF8 = 65001

# Options whose values may be the next arguments, with the number of those.
VALUES = {"-D": 1, "-E": 1, "-I": 1, "-T": 1, "-Fo": 1, "-HV": 1, "-Vn": 1, "-validator-version": 1, "-auto-binding-space": 1,
          "-default-linkage": 1, "-encoding": 1, "-exports": 1,
          "-fvk-b-shift": 2, "-fvk-s-shift": 2, "-fvk-t-shift": 2, "-fvk-u-shift": 2, "-fvk-bind-globals": 2, "-fvk-bind-register": 4,
          "-rootsig-define": 1, "-force-rootsig-ver": 1, "-ast-dump-filter": 1}
# Options that write files which nothing here needs.
REFUSED = ("-Fc", "-Fd", "-Fe", "-Fh", "-Fi", "-Fre", "-Frs", "-Fsh", "-P", "-dumpbin", "-extractrootsignature", "-setrootsignature", "-setprivate")


class Failed(Exception):
    """A message, with the exit status that goes with it."""

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


class Buffer(ctypes.Structure):
    """DxcBuffer: text or an object in memory."""

    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t), ("encoding", ctypes.c_uint32)]


def identifier(text):
    """The bytes of an interface's or a class's identifier."""
    return ctypes.create_string_buffer(uuid.UUID(text).bytes_le, 16)


def method(object_, place, result, *types):
    """A method of an object, as a function of its other arguments."""
    table = ctypes.cast(object_, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p))).contents
    function = ctypes.CFUNCTYPE(result, ctypes.c_void_p, *types)(table[place])
    return lambda *arguments: function(object_, *arguments)


def succeeded(status, doing):
    """Fails where a call of the library did."""
    if status < 0:
        raise Failed(f"the library fails to {doing}: status {status & 0xFFFFFFFF:#010x}", 1)


class Library:
    """The loaded library with a compiler of it."""

    def __init__(self, path):
        try:
            self.create = ctypes.CDLL(path).DxcCreateInstance
        except (OSError, AttributeError) as error:
            raise Failed(f"{path} is no libdxcompiler that can be loaded: {error}", 1) from error
        self.create.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]
        self.compiler = self.instance(COMPILER, COMPILER_3)
        utils = self.instance(LIBRARY, UTILS_3)
        self.includes = ctypes.c_void_p()
        make = method(utils, INCLUDE_HANDLER, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
        succeeded(make(ctypes.byref(self.includes)), "make an include handler")

    def instance(self, class_, interface):
        """A new object."""
        made = ctypes.c_void_p()
        succeeded(self.create(identifier(class_), identifier(interface), ctypes.byref(made)), "make a compiler")
        return made

    def compile(self, source, arguments):
        """The result of compiling text."""
        words = (ctypes.c_wchar_p * len(arguments))(*arguments)
        types = [ctypes.POINTER(Buffer), ctypes.POINTER(ctypes.c_wchar_p), ctypes.c_uint32, ctypes.c_void_p]
        call = method(self.compiler, COMPILE, ctypes.c_int32, *types, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p))
        result = ctypes.c_void_p()
        buffer = Buffer(source, len(source), UTF8)
        status = call(buffer, words, len(words), self.includes, identifier(RESULT), ctypes.byref(result))
        succeeded(status, "compile")
        return result


def output(result, kind):
    """One of a result's outputs, as bytes; none where it lacks that."""
    if not method(result, HAS_OUTPUT, ctypes.c_int32, ctypes.c_uint32)(kind):
        return b""
    blob = ctypes.c_void_p()
    types = [ctypes.c_uint32, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p]
    interface = BLOB if kind == OBJECT else BLOB_UTF8
    status = method(result, GET_OUTPUT, ctypes.c_int32, *types)(kind, identifier(interface), ctypes.byref(blob), None)
    if status < 0 or not blob:
        return b""
    size = method(blob, SIZE, ctypes.c_size_t)()
    data = ctypes.string_at(method(blob, BUFFER, ctypes.c_void_p)(), size)
    return data if kind == OBJECT else data.rstrip(b"\0")


class Command:
    """The files that a command line names: the source, and the object."""

    def __init__(self, arguments):
        sources, self.object = [], None
        words = iter(arguments)
        for word in words:
            if not word.startswith("-"):
                sources.append(word)
                continue
            if word in REFUSED or word[:3] in REFUSED:
                raise Failed(f"{word} is not supported: of dxc's files only that of -Fo is written here", 2)
            values = [value for _, value in zip(range(VALUES.get(word, 0)), words)]
            if word.startswith("-Fo"):
                self.object = word[len("-Fo"):] or "".join(values)
        if not self.object:
            raise Failed("-Fo has to name the file for the object", 2)
        if len(sources) != 1:
            raise Failed(f"one source is needed, there are {len(sources)}: {' '.join(sources)}", 2)
        self.source = sources[0]


def run(arguments):
    """Does what the command line says, and returns the exit status."""
    path = os.environ.get("COOP_DXCOMPILER")
    if not path:
        raise Failed("COOP_DXCOMPILER has to name libdxcompiler.so: scripts/drivers.sh dxc fetches it", 2)
    library = Library(path)
    command = Command(arguments)
    try:
        with open(command.source, "rb") as file:
            source = file.read()
    except OSError as error:
        raise Failed(f"{command.source}: {error.strerror}", 2) from error
    result = library.compile(source, arguments)
    said = output(result, ERRORS)
    sys.stderr.buffer.write(said + (b"\n" if said and not said.endswith(b"\n") else b""))
    status = ctypes.c_int32()
    succeeded(method(result, STATUS, ctypes.c_int32, ctypes.POINTER(ctypes.c_int32))(ctypes.byref(status)), "say its status")
    if status.value < 0:
        return status.value & 0xFF or 1
    write(command.object, output(result, OBJECT))
    return 0


def write(name, data):
    """Writes a file."""
    try:
        with open(name, "wb") as file:
            file.write(data)
    except OSError as error:
        raise Failed(f"{name}: {error.strerror}", 2) from error


if __name__ == "__main__":
    try:
        done = run(sys.argv[1:])
    except Failed as failed:
        print(f"dxc: {failed}", file=sys.stderr)
        done = failed.status
    sys.stdout.flush()
    sys.stderr.flush()
    # The library's own destructors are no part of this.
    os._exit(done)
