#!/usr/bin/env python3
"""ggml's operations on Vulkan and on the CPU, compared by ggml's own bound.

    engines.py worker LIBRARIES         (started by `table`) runs the cases that it reads, one JSON object a line
    engines.py cases [quick]            lists the cases
    engines.py table LIBRARIES [--quick] [--only TEXT] [--json FILE] [--log FILE] [--limit SECONDS] [--jobs N]
                     [--budget SECONDS] NAME=COMMAND ...

LIBRARIES is a folder with ggml's shared libraries, as the npm package @node-llama-cpp/linux-x64-vulkan has them. Each NAME is a
column of the table, each COMMAND what its worker is started with ('' or 'scripts/layer.sh --mesa new', for instance). Python 3 alone.

The exit status is 1 if a case is wrong in a column with the layer, or was not run.

Each case may take --limit seconds; after --budget seconds no further case is begun. --jobs workers of each column run side by side.

A case is right, wrong (the normalised mean square error is beyond the bound), unsupported (the backend says that it does not do the
operation), refused (the layer refuses a pipeline) or crashed.
"""

import array
import ctypes
import json
import math
import os
import random
import re
import select
import shlex
import subprocess
import sys
import threading
import time

# ---------------------------------------------------------------------------- ggml's C API

# As far as it is used: pointers are opaque, numbers of types are looked up by name.
P = ctypes.c_void_p
I64 = ctypes.c_int64
INT = ctypes.c_int
SIZE = ctypes.c_size_t
FLOAT = ctypes.c_float
TEXT = ctypes.c_char_p

# Who says something.
PROGRAM = os.path.basename(sys.argv[0])

BASE = {
    "ggml_type_name": (TEXT, [INT]),
    "ggml_blck_size": (I64, [INT]),
    "ggml_row_size": (SIZE, [INT, I64]),
    "ggml_nbytes": (SIZE, [P]),
    "ggml_free": (None, [P]),
    "ggml_new_tensor_4d": (P, [P, INT, I64, I64, I64, I64]),
    "ggml_view_4d": (P, [P, P, I64, I64, I64, I64, SIZE, SIZE, SIZE, SIZE]),
    "ggml_permute": (P, [P, P, INT, INT, INT, INT]),
    "ggml_mul_mat": (P, [P, P, P]),
    "ggml_mul_mat_id": (P, [P, P, P, P]),
    "ggml_conv_2d_direct": (P, [P, P, P, INT, INT, INT, INT, INT, INT]),
    "ggml_flash_attn_ext": (P, [P, P, P, P, P, FLOAT, FLOAT, FLOAT]),
    "ggml_flash_attn_ext_set_prec": (None, [P, INT]),
    "ggml_mul_mat_set_prec": (None, [P, INT]),
    "ggml_new_graph": (P, [P]),
    "ggml_build_forward_expand": (None, [P, P]),
    "ggml_quantize_chunk": (SIZE, [INT, P, P, I64, I64, I64, P]),
    "ggml_quantize_requires_imatrix": (ctypes.c_bool, [INT]),
    "ggml_backend_alloc_ctx_tensors": (P, [P, P]),
    "ggml_backend_buffer_free": (None, [P]),
    "ggml_backend_tensor_set": (None, [P, P, SIZE, SIZE]),
    "ggml_backend_tensor_get": (None, [P, P, SIZE, SIZE]),
    "ggml_backend_graph_compute": (INT, [P, P]),
    "ggml_backend_supports_op": (ctypes.c_bool, [P, P]),
    "ggml_backend_dev_init": (P, [P, TEXT]),
    "ggml_backend_dev_name": (TEXT, [P]),
    "ggml_backend_dev_description": (TEXT, [P]),
}
REGISTRY = {
    "ggml_backend_load_all_from_path": (None, [TEXT]),
    "ggml_backend_dev_count": (SIZE, []),
    "ggml_backend_dev_get": (P, [SIZE]),
}
PRECISION_F32 = 10

# The cases of a process. Buffers on the device live as long as it does (see `run_case`).
CASES_OF_A_WORKER = 50


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", SIZE), ("mem_buffer", P), ("no_alloc", ctypes.c_bool)]


class Ggml:
    """The functions of both libraries, by their names without `ggml_`."""

    def __init__(self, folder):
        base = ctypes.CDLL(os.path.join(folder, "libggml-base.so"), ctypes.RTLD_GLOBAL)
        name = next(n for n in sorted(os.listdir(folder)) if n.startswith("libggml.") and n.endswith(".so"))
        registry = ctypes.CDLL(os.path.join(folder, name), ctypes.RTLD_GLOBAL)
        for library, table in [(base, BASE), (registry, REGISTRY)]:
            for name, (result, arguments) in table.items():
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments
                setattr(self, name.removeprefix("ggml_"), function)
        base.ggml_init.restype, base.ggml_init.argtypes = P, [InitParams]
        self.init, self.base = base.ggml_init, base
        self.types = {}
        # Up to mxfp4: the table of names ends somewhere behind it.
        for number in range(40):
            text = self.type_name(number)
            if text and not text.startswith(b"TYPE_") and text != b"NONE":
                self.types[text.decode().lower()] = number
        self.backend_load_all_from_path(folder.encode())

    def devices(self):
        """The CPU and the first device of Vulkan, of which there may be none."""
        found = {}
        for index in range(self.backend_dev_count()):
            device = self.backend_dev_get(index)
            kind = "vulkan" if self.backend_dev_name(device).startswith(b"Vulkan") else "cpu"
            found.setdefault(kind, device)
        return found.get("cpu"), found.get("vulkan")


# ---------------------------------------------------------------------------- cases

class Graph:
    """An operation with its inputs on one backend."""

    def __init__(self, ggml, backend, case):
        self.ggml, self.backend = ggml, backend
        self.context = ggml.init(InitParams(1 << 20, None, True))
        self.inputs = []
        self.result = OPERATIONS[case["op"]](self, case)
        self.graph = ggml.new_graph(self.context)
        ggml.build_forward_expand(self.graph, self.result)
        self.buffer = None

    def supported(self):
        return self.ggml.backend_supports_op(self.backend, self.result)

    def tensor(self, kind, *sizes, fill="uniform"):
        sizes = list(sizes) + [1] * (4 - len(sizes))
        tensor = self.ggml.new_tensor_4d(self.context, self.ggml.types[kind], *sizes)
        self.inputs.append((tensor, kind, sizes, fill))
        return tensor

    def run(self, data):
        ggml = self.ggml
        self.buffer = ggml.backend_alloc_ctx_tensors(self.context, self.backend)
        if not self.buffer:
            raise MemoryError("ggml has no memory for the tensors")
        for (tensor, *_), content in zip(self.inputs, data):
            ggml.backend_tensor_set(tensor, content, 0, len(content))
        status = ggml.backend_graph_compute(self.backend, self.graph)
        if status != 0:
            raise RuntimeError(f"ggml_backend_graph_compute returned {status}")
        out = array.array("f", bytes(ggml.nbytes(self.result)))
        address, _ = out.buffer_info()
        ggml.backend_tensor_get(self.result, address, 0, len(out) * 4)
        return out

    def free(self):
        if self.buffer:
            self.ggml.backend_buffer_free(self.buffer)
        self.ggml.free(self.context)


def stored(ggml, kind, floats, width):
    """Rows of `width` numbers in a type of ggml's."""
    if kind == "f32":
        return floats.tobytes()
    address, _ = floats.buffer_info()
    number, rows = ggml.types[kind], len(floats) // width
    out = ctypes.create_string_buffer(ggml.row_size(number, width) * rows)
    weights = None
    if ggml.quantize_requires_imatrix(number):
        weights = array.array("f", [1.0] * width)
    pointer = weights.buffer_info()[0] if weights else None
    ggml.quantize_chunk(number, address, out, 0, rows, width, pointer)
    return out.raw


def restored(ggml, kind, data, count):
    """The numbers that `stored` keeps."""
    out = array.array("f", data if kind == "f32" else bytes(4 * count))
    if kind != "f32":
        name = {"f16": "ggml_fp16_to_fp32_row", "bf16": "ggml_bf16_to_fp32_row"}.get(kind)
        function = getattr(ggml.base, name or f"dequantize_row_{ggml.type_name(ggml.types[kind]).decode()}")
        function.restype, function.argtypes = None, [TEXT, P, I64]
        function(data, out.buffer_info()[0], count)
    return out


def content(ggml, rng, kind, sizes, fill):
    """The bytes of a tensor."""
    count = math.prod(sizes)
    if fill[:3] == "ids":
        most = int(fill[3:])
        rows = [rng.sample(range(most), sizes[0]) for _ in range(count // sizes[0])]
        return array.array("i", [i for row in rows for i in row]).tobytes()
    if fill == "mask":
        # A few in a hundred are hidden; the first of each row never is.
        width = sizes[0]
        numbers = [0.0 if i % width == 0 or rng.random() > 0.05 else -math.inf for i in range(count)]
    else:
        numbers = [rng.uniform(-1, 1) for _ in range(count)]
    return stored(ggml, kind, array.array("f", numbers), sizes[0])


def mul_mat(graph, case):
    m, n, k = case["m"], case["n"], case["k"]
    (b0, b1), (r0, r1) = case.get("batch", [1, 1]), case.get("repeat", [1, 1])
    extra = case.get("view", 0)
    ggml = graph.ggml
    kind = case["type"]
    if case.get("permute"):
        # Dimensions 1 and 2 of both are stored the other way round.
        a = ggml.permute(graph.context, graph.tensor(kind, k, b0, m, b1), 0, 2, 1, 3)
        b = ggml.permute(graph.context, graph.tensor("f32", k, b0 * r0, n, b1 * r1), 0, 2, 1, 3)
    elif extra:
        # A part of longer rows.
        whole = graph.tensor(kind, k + extra, m, b0, b1)
        row = ggml.row_size(ggml.types[kind], k + extra)
        a = ggml.view_4d(graph.context, whole, k, m, b0, b1, row, row * m, row * m * b0, 0)
        whole = graph.tensor("f32", k + extra, n, b0 * r0, b1 * r1)
        row = 4 * (k + extra)
        b = ggml.view_4d(graph.context, whole, k, n, b0 * r0, b1 * r1, row, row * n, row * n * b0 * r0, 0)
    else:
        a = graph.tensor(kind, k, m, b0, b1)
        b = graph.tensor(case.get("b", "f32"), k, n, b0 * r0, b1 * r1)
    return ggml.mul_mat(graph.context, a, b)


def mul_mat_id(graph, case):
    experts, used, n = case["experts"], case["used"], case["n"]
    weights = graph.tensor(case["type"], case["k"], case["m"], experts)
    ids = graph.tensor("i32", used, n, fill=f"ids{experts}")
    rows = 1 if case.get("broadcast") else used
    b = graph.tensor("f32", case["k"], rows, n)
    return graph.ggml.mul_mat_id(graph.context, weights, b, ids)


def flash_attn(graph, case):
    hsk, hsv, heads, kv, nb = case["hsk"], case.get("hsv", case["hsk"]), case["heads"], case["kv"], case["nb"]
    r2, r3 = case.get("repeat", [1, 1])
    kind = case["type"]
    q = graph.tensor("f32", hsk, nb, heads * r2, r3)
    k = graph.tensor(kind, hsk, kv, heads, 1 if case.get("shared") else r3)
    v = graph.tensor(kind, hsv, kv, heads, 1 if case.get("shared") else r3)
    mask = graph.tensor("f16", kv, nb, 1, r3, fill="mask") if case.get("mask", True) else None
    result = graph.ggml.flash_attn_ext(
        graph.context, q, k, v, mask, 1 / math.sqrt(hsk), case.get("bias", 0.0), case.get("softcap", 0.0)
    )
    if case.get("precision", "f32") == "f32":
        graph.ggml.flash_attn_ext_set_prec(result, PRECISION_F32)
    return result


def conv_2d(graph, case):
    w, h, cin, batch = case["input"]
    kw, kh, cout = case["kernel"]
    s0, s1, p0, p1, d0, d1 = case.get("steps", [1, 1, 0, 0, 1, 1])
    kernel = graph.tensor(case["type"], kw, kh, cin, cout)
    image = graph.tensor("f32", w, h, cin, batch)
    return graph.ggml.conv_2d_direct(graph.context, kernel, image, s0, s1, p0, p1, d0, d1)


OPERATIONS = {"MUL_MAT": mul_mat, "MUL_MAT_ID": mul_mat_id, "FLASH_ATTN_EXT": flash_attn, "CONV_2D": conv_2d}
BOUND = 5e-4

TYPES = (
    "f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k "
    "iq2_xxs iq2_xs iq2_s iq3_xxs iq3_s iq1_s iq1_m iq4_nl iq4_xs mxfp4"
).split()


def all_cases():
    """Every case, as a dictionary; those with `quick` are the part that tests run."""
    cases = []

    def add(op, quick=False, **rest):
        cases.append({"op": op, "quick": quick, **rest})

    for kind in TYPES:
        quick = kind in ("f32", "f16", "bf16", "q4_0", "q8_0", "q4_k", "iq4_nl")
        # More than eight columns: fewer go to products of a matrix and a vector.
        add("MUL_MAT", type=kind, m=64, n=32, k=256, quick=quick)
        add("MUL_MAT", type=kind, m=33, n=67, k=512, quick=quick and kind in ("f16", "q4_0"))
        add("MUL_MAT", type=kind, m=128, n=45, k=256, batch=[2, 1], repeat=[2, 1])
        add("MUL_MAT", type=kind, m=16, n=1, k=256, quick=kind == "q4_0")
        add("MUL_MAT_ID", type=kind, m=64, n=32, k=256, experts=4, used=2, quick=kind in ("f16", "q4_0"))
    for kind in ("f32", "f16", "bf16"):
        for m, n, k in [(64, 77, 77), (1, 64, 96), (129, 9, 33), (64, 64, 3), (17, 19, 1), (256, 128, 64)]:
            add("MUL_MAT", type=kind, m=m, n=n, k=k, quick=kind == "f16" and k in (77, 33))
        add("MUL_MAT", type=kind, m=64, n=77, k=77, batch=[12, 1], quick=kind == "f32")
        add("MUL_MAT", type=kind, m=64, n=45, k=128, view=64, quick=kind == "f16")
        add("MUL_MAT", type=kind, m=64, n=45, k=128, permute=True, batch=[3, 1], quick=kind == "f16")
        add("MUL_MAT", type=kind, m=64, n=45, k=64, batch=[3, 2], repeat=[2, 2])
    add("MUL_MAT", type="f16", b="f16", m=64, n=45, k=128)
    for kind in ("f16", "q4_0", "q8_0", "iq4_nl", "f32"):
        add("MUL_MAT_ID", type=kind, m=50, n=45, k=256, experts=8, used=4)
        add("MUL_MAT_ID", type=kind, m=128, n=17, k=256, experts=4, used=2, broadcast=True, quick=kind == "q8_0")
        add("MUL_MAT_ID", type=kind, m=64, n=129, k=512, experts=4, used=1)
    for kind in ("f16", "f32", "bf16", "q4_0", "q8_0", "q5_1", "iq4_nl"):
        # Blocks of quantised types have 32 elements.
        for hsk in (64, 128, 80, 40) if kind in ("f16", "f32", "bf16") else (64, 128):
            add("FLASH_ATTN_EXT", type=kind, hsk=hsk, heads=4, kv=128, nb=35, quick=(kind, hsk) in (("f16", 64), ("q8_0", 64)))
        add("FLASH_ATTN_EXT", type=kind, hsk=64, heads=4, kv=113, nb=1, repeat=[4, 1])
        add("FLASH_ATTN_EXT", type=kind, hsk=64, heads=4, kv=113, nb=35, repeat=[1, 3], quick=kind == "f16")
        add("FLASH_ATTN_EXT", type=kind, hsk=128, heads=2, kv=256, nb=17, bias=8.0)
        add("FLASH_ATTN_EXT", type=kind, hsk=128, heads=2, kv=256, nb=17, softcap=10.0, mask=False)
        add("FLASH_ATTN_EXT", type=kind, hsk=96, heads=2, kv=160, nb=64, precision="default")
    add("FLASH_ATTN_EXT", type="f16", hsk=192, hsv=128, heads=2, kv=128, nb=32)
    for kind in ("f32", "f16"):
        add("CONV_2D", type=kind, input=[19, 17, 25, 2], kernel=[3, 3, 12], quick=True)
        add("CONV_2D", type=kind, input=[32, 32, 16, 1], kernel=[3, 3, 64], steps=[1, 1, 1, 1, 1, 1])
        add("CONV_2D", type=kind, input=[33, 21, 3, 1], kernel=[7, 5, 40], steps=[2, 2, 3, 2, 1, 1])
        add("CONV_2D", type=kind, input=[28, 28, 8, 3], kernel=[1, 1, 128])
        add("CONV_2D", type=kind, input=[29, 30, 4, 1], kernel=[3, 3, 33], steps=[1, 2, 2, 2, 2, 2])
    return cases


def name_of(case):
    rest = {key: value for key, value in case.items() if key not in ("op", "quick", "type")}
    text = lambda value: ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return " ".join([case["op"], case["type"]] + [f"{key}={text(value)}" for key, value in rest.items()])


# ---------------------------------------------------------------------------- the worker

def error_of(got, wanted):
    """The normalised mean square error, as ggml computes it."""
    if any(map(math.isnan, got)) or any(map(math.isinf, got)):
        return math.inf
    difference = sum((a - b) * (a - b) for a, b in zip(got, wanted))
    square = sum(b * b for b in wanted)
    return difference / square if square else (0.0 if difference == 0 else math.inf)


def run_case(ggml, cpu, device, case):
    """Runs a case on the CPU's backend and on one of its own on the device, and compares.

    The buffers on the device are never freed: lavapipe of Mesa 22.3 binds descriptors that the pipeline does not use too, which
    ggml leaves behind in its descriptor sets, and uses the memory of buffers that are gone (docs/drivers.md). A backend replaces
    buffers of its own by larger ones, and has those sets: so each case has another backend, which stays.
    """
    graphs = [Graph(ggml, backend, case) for backend in (cpu, ggml.backend_dev_init(device, None))]
    try:
        if not graphs[1].supported():
            return {"verdict": "unsupported"}
        rng = random.Random(name_of(case))
        data = [content(ggml, rng, kind, sizes, fill) for _, kind, sizes, fill in graphs[0].inputs]
        wanted = graphs[0].run(data)
        start = time.monotonic()
        got = graphs[1].run(data)
        took = time.monotonic() - start
        error = error_of(got, wanted)
        return {"verdict": "right" if error <= BOUND else "wrong", "error": error, "seconds": took}
    finally:
        graphs[0].free()


def open_ggml(folder):
    """ggml with its CPU and its Vulkan device; ends the process where one is missing."""
    # Lavapipe is a CPU to ggml, which takes such devices only where they are named.
    os.environ.setdefault("GGML_VK_VISIBLE_DEVICES", "0")
    ggml = Ggml(folder)
    cpu, vulkan = ggml.devices()
    if not vulkan:
        # ggml says nothing of a library that can't be opened.
        ctypes.CDLL(os.path.join(folder, "libggml-vulkan.so"))
        sys.exit(f"{PROGRAM}: ggml finds no Vulkan device")
    if not cpu:
        sys.exit(f"{PROGRAM}: ggml has no CPU backend")
    return ggml, cpu, vulkan


def serve(run):
    """Answers each case that it reads, one JSON object a line."""
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)
    # Nothing is torn down: what is measured has been.
    os._exit(0)


def worker(folder):
    ggml, cpu, vulkan = open_ggml(folder)
    cpu = ggml.backend_dev_init(cpu, None)
    serve(lambda case: run_case(ggml, cpu, vulkan, case))


# ---------------------------------------------------------------------------- the table

class Worker:
    """A process that runs cases; started again when one has ended it, and after CASES_OF_A_WORKER."""

    def __init__(self, name, command, folder, limit, log):
        self.command = shlex.split(command) + [sys.executable, os.path.abspath(sys.argv[0]), "worker", folder]
        self.name, self.limit, self.process, self.log, self.cases = name, limit, None, log, 0
        self.path = f"{log}.{name}"
        open(self.path, "w").close()

    def start(self):
        log = open(self.path, "ab")
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        log.close()
        answer = self.read(300)
        if not answer or not answer.get("ready"):
            print(f"{PROGRAM}: {self.name} does not start; see {self.path}:\n{self.said(0)[-2000:]}", flush=True)
            os._exit(1)

    def read(self, limit):
        ends = time.monotonic() + limit
        while True:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, ends - time.monotonic()))
            if not ready:
                return "timeout"
            line = self.process.stdout.readline()
            if not line:
                return None
            # ggml says things too.
            if line.startswith(b"{"):
                return json.loads(line)

    def said(self, since):
        with open(self.path, "rb") as file:
            file.seek(since)
            return file.read().decode(errors="replace")

    def run(self, case):
        if self.cases == CASES_OF_A_WORKER:
            self.stop()
        if self.process is None:
            self.start()
            self.cases = 0
        self.cases += 1
        since = os.path.getsize(self.path)
        with open(self.path, "ab") as log:
            log.write(f"== {name_of(case)}\n".encode())
        try:
            self.process.stdin.write((json.dumps(case) + "\n").encode())
            self.process.stdin.flush()
            answer = self.read(self.limit)
        except BrokenPipeError:
            answer = None
        if isinstance(answer, dict):
            return answer
        self.stop()
        if answer == "timeout":
            return {"verdict": "timeout"}
        said = self.said(since)
        refused = [line for line in said.splitlines() if "is refused" in line]
        return {"verdict": "refused" if refused else "crashed", "why": (refused or said.splitlines()[-1:] or [""])[0]}

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None


def table(arguments, cases, usage, limit):
    """Runs cases in columns and prints the table; a program that calls it has a command `worker` of its own."""
    quick, only, out, log, columns, rest = False, None, None, "engines.log", [], []
    jobs, budget = 1, math.inf
    words = iter(arguments)
    for word in words:
        if word == "--quick":
            quick = True
        elif word == "--only":
            only = next(words)
        elif word == "--json":
            out = next(words)
        elif word == "--log":
            log = next(words)
        elif word == "--limit":
            limit = int(next(words))
        elif word == "--jobs":
            jobs = int(next(words))
        elif word == "--budget":
            budget = float(next(words))
        elif "=" in word:
            columns.append(word.split("=", 1))
        else:
            rest.append(word)
    if len(rest) != 1 or not columns:
        sys.exit(usage)
    cases = [c for c in cases if (c["quick"] or not quick) and (only is None or only in name_of(c))]
    # A whole name means one case.
    cases = [c for c in cases if name_of(c) == only] or cases
    ends = time.monotonic() + budget
    pending, results, lock = list(reversed(cases)), [], threading.Lock()

    def work(job):
        workers = [Worker(name, command, os.path.abspath(rest[0]), limit, f"{log}.{job}") for name, command in columns]
        while time.monotonic() < ends:
            with lock:
                if not pending:
                    break
                case = pending.pop()
            answers = {w.name: w.run(case) for w in workers}
            with lock:
                results.append({"case": name_of(case), "op": case["op"], "type": case["type"], "answers": answers})
                cells = "  ".join(f"{name}: {brief(answer)}" for name, answer in answers.items())
                print(f"{name_of(case)}  {cells}", flush=True)
        for w in workers:
            w.stop()

    threads = [threading.Thread(target=work, args=(job,)) for job in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print()
    if len(results) < len(cases):
        print(f"{len(cases) - len(results)} of {len(cases)} cases were not run")
    summary(results, [name for name, _ in columns])
    absent = []
    for name, command in columns:
        logs = [f"{log}.{job}.{name}" for job in range(jobs)]
        times(logs, name)
        if wants_layer(command) and not any(has_layer(path) for path in logs):
            print(f"{name}: the layer logged nothing; was it loaded? (COOPMAT_LOG=info is needed)")
            absent.append(name)
    if out:
        with open(out, "w") as file:
            json.dump(results, file, indent=1)
    if len(results) < len(cases) or not results or absent:
        sys.exit(1)
    # Columns without the layer are for comparison.
    counted = [name for name, command in columns if wants_layer(command)] or [name for name, _ in columns]
    bad = [r for r in results if any(r["answers"][name]["verdict"] in ("wrong", "crashed", "timeout") for name in counted)]
    sys.exit(1 if bad else 0)


def brief(answer):
    text = answer["verdict"]
    if "error" in answer:
        text += f" ({answer['error']:.1e}, {answer['seconds']:.2f} s)"
    if "said" in answer:
        text += f", {answer['said']}"
    return text


def summary(results, columns):
    verdicts = ["right", "wrong", "refused", "unsupported", "crashed", "timeout"]
    print("| operation | " + " | ".join(f"{c}: " + ", ".join(verdicts) for c in columns) + " |")
    print("|---|" + "---|" * len(columns))
    operations = list(dict.fromkeys(r["op"] for r in results))
    for op in operations + ["all"]:
        cells = []
        for column in columns:
            said = [r["answers"][column]["verdict"] for r in results if op in (r["op"], "all")]
            cells.append(", ".join(str(said.count(v)) for v in verdicts))
        print(f"| {op} | " + " | ".join(cells) + " |")


def wants_layer(command):
    return "layer.sh" in command or "VK_LAYER_COOPMAT" in command


def has_layer(log):
    """Returns true if a worker's log has a line of the layer. The Vulkan loader starts without a layer that it does not find."""
    with open(log, errors="replace") as file:
        return any(line.startswith("coopmat: ") for line in file)


def times(logs, column):
    """Prints what the layer took for pipelines, by its own log (COOPMAT_LOG=info; debug has those that need nothing too)."""
    text = ""
    for path in logs:
        with open(path, errors="replace") as file:
            text += file.read()
    lines = [
        ("lowered", r": lowered to .*; in (\d+) us"),
        ("found in files", r"; from the cache in (\d+) us"),
        ("found in memory", r"; from memory in (\d+) us"),
        ("left as they are, the first time", r": the driver takes the module as it is; (\d+) us"),
    ]
    for what, pattern in lines:
        found = sorted(map(int, re.findall(pattern, text)))
        if found:
            middle = found[len(found) // 2]
            print(f"{column}: {len(found)} pipelines {what}: {middle} us at the median, {found[-1]} us at most")


def main(usage, worker, cases, limit):
    """The commands of a harness: `worker`, `cases` and `table`."""
    command, *rest = sys.argv[1:] or [""]
    if command == "worker" and len(rest) == 1:
        worker(rest[0])
    elif command == "cases":
        for case in cases:
            if case["quick"] or "quick" not in rest:
                print(name_of(case))
    elif command == "table":
        table(rest, cases, usage, limit)
    else:
        sys.exit(usage)


if __name__ == "__main__":
    main(__doc__, worker, all_cases(), 600)
