#!/usr/bin/env python3
"""IREE's matrix products on Vulkan, compared with numpy's.

    iree-matmul.py [--only TEXT] [--subgroup-size N] [--limit SECONDS] [--keep FOLDER | --from FOLDER] NAME=COMMAND ...
    iree-matmul.py worker MODULE CASE   (started by the above) runs one module, and prints one JSON object

Each case is a linalg operation that IREE's compiler makes a Vulkan module of, for one of its own descriptions of a GPU with
cooperative matrices. Each NAME is a column of the table, each COMMAND what its worker is started with ('' or
'scripts/layer.sh --mesa new', for instance). Needs the Python packages iree-base-compiler, iree-base-runtime and numpy.

IREE's runtime takes no module for a subgroup size outside of the device's range, so the compiler gets the description with
--subgroup-size (8, that of lavapipe) in place of the GPU's. --keep keeps the modules, and the SPIR-V in them; --from runs what
--keep kept, on a machine without the compiler. Without columns, --keep compiles only.

The exit status is 1 if a case of the first column is not right, or has no matrices to multiply.

A case is right, wrong (the normalized mean square error is beyond the bound; integers are compared exactly), refused (the layer
refuses a pipeline), unsupported (the device does not take IREE's module), crashed or late.
"""

import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

# Of half-precision results; ggml's bound for products is the same.
BOUND = 5e-4

OP_COOPERATIVE_MATRIX_MUL_ADD = 4459

# ---------------------------------------------------------------------------- cases


def case(target, a, c, sizes, batch=0, bias=False, flags=()):
    m, n, k = sizes
    name = f"{target} {a} to {c} m={m} n={n} k={k}"
    name += f" batch={batch}" if batch else ""
    name += " bias" if bias else ""
    name += "".join(f" {flag.rpartition('=')[2]}" for flag in flags)
    return {
        "name": name, "target": target, "a": a, "c": c, "m": m, "n": n, "k": k,
        "batch": batch, "bias": bias, "flags": list(flags),
    }


# Small: lavapipe compiles code of larger tiles for minutes.
CASES = [
    case("rdna3", "f16", "f32", (32, 32, 32)),
    case("rdna3", "f16", "f32", (16, 48, 96)),
    case("rdna3", "f16", "f16", (32, 16, 32)),
    case("rdna3", "i8", "i32", (32, 32, 32)),
    case("rdna3", "i8", "i32", (16, 32, 64)),
    case("rdna3", "f16", "f32", (32, 16, 32), batch=3),
    case("rdna3", "f16", "f32", (32, 32, 32), bias=True),
    case("ampere", "f16", "f32", (32, 32, 64)),
    case("ampere", "f16", "f16", (32, 48, 32)),
    case("ampere", "f16", "f32", (16, 32, 32), batch=2),
    case("ampere", "f16", "f32", (32, 32, 32), flags=["--iree-vulkan-dispatch-abi=bda"]),
]


def function(case):
    """The case as MLIR."""
    batch = [case["batch"]] if case["batch"] else []
    shape = lambda rows, columns, kind: "tensor<" + "x".join(map(str, [*batch, rows, columns])) + f"x{kind}>"  # noqa: E731
    a, c = case["a"], case["c"]
    ta, tb = shape(case["m"], case["k"], a), shape(case["k"], case["n"], a)
    tc = shape(case["m"], case["n"], c)
    zero = "0" if c[0] == "i" else "0.0"
    op = "linalg.batch_matmul" if batch else "linalg.matmul"
    lines = [
        f"%zero = arith.constant {zero} : {c}",
        f"%empty = tensor.empty() : {tc}",
        f"%zeros = linalg.fill ins(%zero : {c}) outs(%empty : {tc}) -> {tc}",
        f"%product = {op} ins(%a, %b : {ta}, {tb}) outs(%zeros : {tc}) -> {tc}",
    ]
    arguments = [f"%a: {ta}", f"%b: {tb}"]
    result = "%product"
    if case["bias"]:
        arguments.append(f"%bias: {tc}")
        lines.append(f"%sum = arith.addf %product, %bias : {tc}")
        result = "%sum"
    lines.append(f"return {result} : {tc}")
    body = "\n".join("  " + line for line in lines)
    return f"func.func @product({', '.join(arguments)}) -> {tc} {{\n{body}\n}}\n"


# ---------------------------------------------------------------------------- compiler


class Compiler:
    def __init__(self, subgroup_size):
        from iree.compiler import compile_str

        self.compile_str = compile_str
        self.subgroup_size = subgroup_size
        self.descriptions = {}

    def description(self, target):
        """IREE's own description of a GPU, with another subgroup size, and the shared memory that every device has."""
        if target not in self.descriptions:
            flags = [f"--iree-vulkan-target={target}", "--compile-to=executable-sources"]
            source = function(case(target, "f16", "f32", (64, 64, 64)))
            text = self.compile_str(source, target_backends=["vulkan-spirv"], extra_args=flags).decode()
            found = re.search(r"= (#hal\.device\.target<.*>) : !hal\.device", text)
            if not found:
                raise RuntimeError(f"the compiler says nothing of {target}")
            text, sizes = re.subn(r"subgroup_size_choices = \[[0-9, ]+\]", f"subgroup_size_choices = [{self.subgroup_size}]", found[1])
            text, memory = re.subn(r"max_workgroup_memory_bytes = \d+", "max_workgroup_memory_bytes = 32768", text)
            if sizes != 1 or memory != 1:
                raise RuntimeError(f"the compiler's description of {target} has changed: {found[1]}")
            self.descriptions[target] = text
        return self.descriptions[target]

    def compile(self, case, folder):
        """Compiles a case. Returns the module's file, and how many of its SPIR-V modules multiply matrices."""
        target = self.description(case["target"])
        source = f"module attributes {{hal.device.targets = [{target} : !hal.device]}} {{\n{function(case)}}}\n"
        binaries = os.path.join(folder, "spirv")
        flags = [f"--iree-hal-dump-executable-binaries-to={binaries}", *case["flags"]]
        # Targets are the module's.
        module = self.compile_str(source, extra_args=flags)
        path = os.path.join(folder, "product.vmfb")
        with open(path, "wb") as file:
            file.write(module)
        return kept(folder)


def kept(folder):
    """A compiled case: the module's file, and how many of its SPIR-V modules multiply matrices."""
    binaries = os.path.join(folder, "spirv")
    names = [os.path.join(binaries, name) for name in sorted(os.listdir(binaries)) if name.endswith(".spv")]
    return os.path.join(folder, "product.vmfb"), sum(multiplies(name) for name in names)


def multiplies(path):
    """True if a SPIR-V module multiplies cooperative matrices."""
    with open(path, "rb") as file:
        words = memoryview(file.read()).cast("I")
    at = 5
    while at < len(words):
        if words[at] & 0xFFFF == OP_COOPERATIVE_MATRIX_MUL_ADD:
            return True
        at += max(words[at] >> 16, 1)
    return False


# ---------------------------------------------------------------------------- running


def worker(path, case):
    import iree.runtime as runtime
    import numpy as np

    def to_host(array):
        # DeviceArray.to_host imports memory that is not aligned as Vulkan asks.
        device, buffer = array._device, array._buffer_view.get_buffer()
        staging = device.allocator.allocate_buffer(
            memory_type=int(runtime.MemoryType.HOST_LOCAL | runtime.MemoryType.DEVICE_VISIBLE),
            allowed_usage=int(runtime.BufferUsage.TRANSFER_TARGET | runtime.BufferUsage.MAPPING_SCOPED),
            allocation_size=buffer.byte_length(),
        )
        semaphore = device.create_semaphore(0)
        before, behind = (runtime.HalFence.create_at(semaphore, value) for value in (0, 1))
        device.queue_copy(buffer, staging, wait_semaphores=before, signal_semaphores=behind)
        behind.wait()
        return np.array(staging.map().asarray(array.shape, array.dtype))

    def say(**answer):
        print(json.dumps(answer), flush=True)
        # No destructors: what is asked for is answered.
        os._exit(0)

    rng = np.random.default_rng(case["m"] * 65536 + case["n"] * 256 + case["k"])
    batch = [case["batch"]] if case["batch"] else []
    whole = case["a"][0] == "i"

    def numbers(rows, columns, kind):
        shape = [*batch, rows, columns]
        if whole:
            return rng.integers(-128, 128, shape).astype(kind)
        return rng.uniform(-1, 1, shape).astype(kind)

    kinds = {"f16": "float16", "f32": "float32", "i8": "int8", "i32": "int32"}
    a = numbers(case["m"], case["k"], kinds[case["a"]])
    b = numbers(case["k"], case["n"], kinds[case["a"]])
    inputs = [a, b]
    exact = np.int64 if whole else np.float64
    wanted = a.astype(exact) @ b.astype(exact)
    if case["bias"]:
        inputs.append(numbers(case["m"], case["n"], kinds[case["c"]]))
        wanted = wanted + inputs[2].astype(exact)
    try:
        device = runtime.get_driver("vulkan").create_default_device()
        config = runtime.Config(device=device)
        module = runtime.load_vm_module(runtime.VmModule.mmap(config.vm_instance, path), config)
    except Exception as error:
        say(verdict="unsupported", why=str(error).partition("; while ")[0])
    start = time.monotonic()
    got = to_host(module.product(*inputs))
    took = time.monotonic() - start
    if got.shape != wanted.shape or got.dtype != np.dtype(kinds[case["c"]]):
        say(verdict="wrong", why=f"{got.dtype} {got.shape}")
    got = got.astype(exact)
    error = float(((got - wanted) ** 2).sum() / (wanted**2).sum())
    right = error == 0 if whole else math.isfinite(error) and error <= BOUND
    say(verdict="right" if right else "wrong", error=error, seconds=took)


def run(command, path, case, limit):
    """Runs a case in a process of its own. Returns its answer."""
    words = [*shlex.split(command), sys.executable, os.path.abspath(__file__), "worker", path, json.dumps(case)]
    environment = {"COOPMAT_LOG": "info", **os.environ}
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=limit, env=environment)
    except subprocess.TimeoutExpired:
        return {"verdict": "late", "lowered": 0}
    lines = done.stdout.splitlines()
    try:
        answer = json.loads(lines[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or [""])[-1]
        answer = {"verdict": "crashed", "why": f"status {done.returncode}: {last}"}
    refused = re.search(r"coopmat: (.* is refused: .*)", done.stderr)
    if refused:
        answer = {"verdict": "refused", "why": refused[1]}
    answer["lowered"] = len(re.findall(r": lowered to ", done.stderr))
    return answer


VERDICTS = ["right", "wrong", "refused", "unsupported", "crashed", "late"]


def table(arguments):
    only, subgroup_size, limit, keep, compiled, columns = "", 8, 300, None, None, []
    while arguments:
        word = arguments.pop(0)
        if word == "--only":
            only = arguments.pop(0)
        elif word == "--subgroup-size":
            subgroup_size = int(arguments.pop(0))
        elif word == "--limit":
            limit = float(arguments.pop(0))
        elif word == "--keep":
            keep = arguments.pop(0)
        elif word == "--from":
            compiled = arguments.pop(0)
        elif "=" in word and not word.startswith("-"):
            columns.append(word.split("=", 1))
        else:
            sys.exit(__doc__)
    if not columns and not keep:
        sys.exit(__doc__)
    compiler = None if compiled else Compiler(subgroup_size)
    results = []
    with tempfile.TemporaryDirectory(prefix="iree-matmul-") as temporary:
        for number, case in ((i, c) for i, c in enumerate(CASES) if only in c["name"]):
            folder = os.path.join(compiled or keep or temporary, str(number))
            os.makedirs(folder, exist_ok=True)
            path, matrices = compiler.compile(case, folder) if compiler else kept(folder)
            answers = {name: run(command, path, case, limit) for name, command in columns}
            results.append((case, matrices, answers))
            cells = "  ".join(f"{name}: {brief(answer)}" for name, answer in answers.items())
            print(f"{case['name']}{'' if matrices else ' (no matrices)'}  {cells}", flush=True)
    if not columns:
        sys.exit(0 if results and all(matrices for _, matrices, _ in results) else 1)
    print()
    print(f"| column | {' | '.join(VERDICTS)} | pipelines lowered |")
    print("|---|" + "---|" * (len(VERDICTS) + 1))
    for name, _ in columns:
        said = [answers[name]["verdict"] for _, _, answers in results]
        lowered = sum(answers[name]["lowered"] for _, _, answers in results)
        print(f"| {name} | {' | '.join(str(said.count(v)) for v in VERDICTS)} | {lowered} |")
    # The first column is what is tested, the others are beside it: without the layer a driver gets sizes that it does not list.
    first = columns[0][0]
    bad = [matrices == 0 or answers[first]["verdict"] != "right" for _, matrices, answers in results]
    sys.exit(1 if any(bad) or not results else 0)


def brief(answer):
    text = answer["verdict"]
    if "error" in answer:
        text += f" ({answer['error']:.1e}, {answer['seconds']:.2f} s)"
    elif "why" in answer:
        text += f" ({answer['why']})"
    return text


def main():
    command, *rest = sys.argv[1:] or [""]
    if command == "worker" and len(rest) == 2:
        worker(rest[0], json.loads(rest[1]))
    else:
        table(sys.argv[1:])


if __name__ == "__main__":
    main()
