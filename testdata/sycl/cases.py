"""The kernels of this folder: how each is compiled, what it is started with, and what it must make of that.

What is expected is computed here, in Python's own numbers, from what the kernel is said to do. All data are integers and halves so
small that sums and products are exact in every type that a kernel has.
"""

import random
import struct

# The types of SYCL, as case files have them.
TYPES = {"half": "f16", "bf16": "bf16", "float": "f32", "int8_t": "s8", "i8": "s8", "u8": "u8", "int32_t": "s32"}


class Case:
    """A run of a kernel: buffers and arguments in order, its size, what is expected."""

    def __init__(self, name, groups, local=(16, 1, 1)):
        self.name, self.groups, self.local = name, groups, local
        self.random = random.Random(name)
        self.buffers, self.push, self.expected = [], [], {}

    def data(self, name, type, count, low=None, high=None, step=None):
        """Adds a buffer with random contents, as an argument; returns them."""
        whole = type[0] in "su"
        low = (0 if type[0] == "u" else -3 if whole else -2) if low is None else low
        high = (4 if whole else 2) if high is None else high
        step = (1 if whole else 0.5) if step is None else step
        values = [low + step * self.random.randrange(int((high - low) / step) + 1) for _ in range(count)]
        self.buffers.append((name, type, values))
        self.push.append('{ address = "%s" }' % name)
        return values

    def room(self, name, type, count, argument=True):
        """Adds a buffer that is only written."""
        self.buffers.append((name, type, count))
        if argument:
            self.push.append('{ address = "%s" }' % name)

    def number(self, type, value, used=True):
        """Adds a number as an argument; one that is not used is none where the compiler optimises."""
        part = '{ type = "%s", values = [%s] }' % (type, literal(value))
        self.push.append(part if used else (None, part))

    def struct(self, layout, *values):
        """Adds a struct by value as an argument."""
        self.push.append('{ bytes = "%s" }' % struct.pack("<" + layout, *values).hex())

    def accessor(self, size, *extents):
        """Adds a local accessor: its memory, and without optimisation three structs that say how large it is and where it begins."""
        self.push.append((size, extents))

    def locals(self, optimised):
        """Workgroup memory among the arguments: which argument, and how many bytes."""
        parts = list(self.parts(optimised))
        return [(n, int(p.split("=")[1].strip(" }"))) for n, p in enumerate(parts) if p.startswith("{ local")]

    def expect(self, name, values):
        self.expected[name] = values

    def parts(self, optimised):
        """The arguments, as parts of `push`."""
        for part in self.push:
            if isinstance(part, str):
                yield part
                continue
            size, extents = part
            if size is None:
                if not optimised:
                    yield extents
                continue
            yield "{ local = %d }" % size
            if not optimised:
                for values in (extents, extents, [0] * len(extents)):
                    yield '{ type = "u64", values = [%s] }' % ", ".join(map(str, values))

    def toml(self, optimised):
        lines = ["workgroups = [%d, %d, %d]" % self.groups, "local-size = [%d, %d, %d]" % self.local]
        lines += ["subgroup-size = %d" % getattr(self, "subgroup", 16), "push = ["]
        lines += ["  %s," % part for part in self.parts(optimised)] + ["]", ""]
        for name, type, values in self.buffers:
            count = values if isinstance(values, int) else len(values)
            fill = '"pattern"' if isinstance(values, int) else "{ values = [%s] }" % ", ".join(map(literal, values))
            lines += ["[[buffer]]", 'name = "%s"' % name, 'type = "%s"' % type, "count = %d" % count, "fill = " + fill, ""]
        for name, values in self.expected.items():
            lines += ["[[expect]]", "[expect.values]", 'buffer = "%s"' % name]
            lines += ["values = [%s]" % ", ".join(map(literal, values)), ""]
        return "\n".join(lines)


# What is known not to work: where, which kernel, and what is said then.
KNOWN = [
    # llvmpipe with vectors of 512 bits ends on sums of floats over a subgroup, in its compiler.
    ("lavapipe", "sum_a_f16", "stack smashing"),
    ("lavapipe", "sum_b_bf16", "stack smashing"),
    ("lavapipe", "sum_c", "stack smashing"),
    ("lavapipe", "softmax", "stack smashing"),
    # Intel's compiler has no coordinates of matrices with four rows.
    ("ocloc", "coords_low", "GetCoord"),
    ("khr", "coords_low", "GetCoord"),
    # That device multiplies bfloat16 as f32, which matrices become when they are loaded, not when their elements were changed.
    ("khr", "chain_bf16", "refused-device-types"),
    ("khr", "chain_tall", "refused-device-types"),
    ("khr", "factor_bf16", "refused-device-types"),
    ("khr", "filled_bf16", "refused-device-types"),
    ("khr", "gemm_bf16_bf16", "refused-device-types"),
    # C of 16x16 is two matrices of that device, B is one: their elements have other places.
    ("khr", "copy_c_b", "refused-element"),
]


def literal(value):
    return repr(float(value)) if isinstance(value, float) else repr(value)


def product(a, b, m, n, k):
    """A x B, both in rows."""
    return [sum(a[i * k + x] * b[x * n + j] for x in range(k)) for i in range(m) for j in range(n)]


def packed(b, k, n, v):
    """B as it lies in memory when `v` rows are packed: from rows."""
    return [b[(r * v + i) * n + c] for r in range(k // v) for c in range(n) for i in range(v)]


def transposed(m, rows, cols):
    return [m[r * cols + c] for c in range(cols) for r in range(rows)]


def gemm(name, ta, tc, tm, tn, tk, tb=None, mode=0, add=False, relu=False, local=16, tiles=(2, 2), steps=2):
    """A case of gemm.cpp."""
    tb = tb or ta
    rows, cols = tiles
    m, n, k = tm * rows, tn * cols, tk * steps
    c = Case(name, (cols * 16 // local, rows, 1), (local, 1, 1))
    a, b = c.data("A", TYPES[ta], m * k), c.data("B", TYPES[tb], k * n)
    v = {"f32": 1, "f16": 2, "bf16": 2}.get(TYPES[tb], 4)
    laid = {1: packed(b, k, n, v), 2: transposed(b, k, n), 3: transposed(b, k, n)}.get(mode, b)
    c.buffers[1] = ("B", TYPES[tb], laid)
    if mode == 3:
        c.buffers[0] = ("A", TYPES[ta], transposed(a, m, k))
    if add:
        old = c.data("C", TYPES[tc], m * n)
    else:
        c.room("C", TYPES[tc], m * n)
        old = [0] * (m * n)
    c.number("u64", n)
    c.number("u64", k)
    out = [x + y for x, y in zip(product(a, b, m, n, k), old)]
    c.expect("C", [max(x, 0) for x in out] if relu else out)
    defines = ["TA=" + ta, "TB=" + tb, "TC=" + tc, "TM=%d" % tm, "TN=%d" % tn, "TK=%d" % tk, "MODE=%d" % mode]
    return "gemm", defines + ["ADD"] * add + ["RELU"] * relu, c


def apply(name, type, tm, tn, op, f, low=None, high=None, step=None):
    """A case of apply.cpp."""
    c = Case(name, (2, 3, 1))
    old = c.data("C", TYPES[type], tm * 3 * tn * 2, low, high, step)
    c.number("u64", tn * 2)
    c.number("f32", 1.5, "alpha" in op)
    c.number("f32", -0.5, "beta" in op)
    c.expect("C", [f(x) for x in old])
    return "apply", ["T=" + type, "TM=%d" % tm, "TN=%d" % tn, "OP=" + op], c


def coords(name, tm, tn):
    c = Case(name, (2, 3, 1))
    n = tn * 2
    old, d = c.data("C", "f32", tm * 3 * n), c.data("D", "f32", tm * 3 * n)
    c.number("f32", 1.5)
    c.number("u64", n)
    at = [(r, q) for r in range(tm * 3) for q in range(n)]
    c.expect("C", [1.5 * x + y if q <= r else -1.0 for (r, q), x, y in zip(at, old, d)])
    return "coords", ["TM=%d" % tm, "TN=%d" % tn], c


def pair(name, type):
    c = Case(name, (2, 2, 1))
    x, y = c.data("C", TYPES[type], 512), c.data("D", TYPES[type], 512)
    c.number("u64", 32)
    c.expect("C", [p + q for p, q in zip(x, y)])
    c.expect("D", [p - q for p, q in zip(x, y)])
    return "pair", ["T=" + type, "TM=8", "TN=16"], c


def factor(name, type, tc, tk, opa, opb, fa, fb):
    c = Case(name, (2, 2, 1))
    m, n, k = 16, 32, 2 * tk
    a, b = c.data("A", TYPES[type], m * k), c.data("B", TYPES[type], k * n)
    c.room("C", TYPES[tc], m * n)
    c.number("u64", n)
    c.number("u64", k)
    scale = 2.0
    c.number("f32", scale, "scale" in opa + opb)
    c.expect("C", product([fa(x) for x in a], [fb(x) for x in b], m, n, k))
    return "factor", ["T=" + type, "TC=" + tc, "TM=8", "TN=16", "TK=%d" % tk, "OPA=" + opa, "OPB=" + opb], c


def sum_(name, type, acc, mat, tm, tn):
    c = Case(name, (2, 2, 1))
    v = c.data("M", TYPES[type], tm * 2 * tn * 2)
    c.room("S", TYPES[acc], 4)
    n = tn * 2
    c.number("u64", n)
    c.expect("S", [sum(v[(r * tm + i) * n + q * tn + j] for i in range(tm) for j in range(tn)) for r in range(2) for q in range(2)])
    defines = ["T=" + type, "S=" + acc, "MAT=" + mat, "TM=%d" % tm, "TN=%d" % tn]
    return "sum", defines + ["DYNAMIC"] * (mat == "MatC"), c


def lines(name, type, acc, mat, tm, tn, by_column=False):
    c = Case(name, (2, 2, 1))
    rows, n = tm * 2, tn * 2
    v = c.data("M", TYPES[type], rows * n)
    old = c.data("S", TYPES[acc], n if by_column else rows)
    c.number("u64", n)
    if by_column:
        c.expect("S", [old[j] + sum(v[i * n + j] for i in range(rows)) for j in range(n)])
    else:
        c.expect("S", [old[i] + sum(v[i * n : i * n + n]) for i in range(rows)])
    defines = ["T=" + type, "S=" + acc, "MAT=" + mat, "TM=%d" % tm, "TN=%d" % tn]
    return "lines", defines + ["BY_COLUMN"] * by_column, c


def compensate(name):
    c = Case(name, (2, 2, 1))
    m, n, k = 16, 32, 64
    a, b = c.data("A", "u8", m * k, 0, 9), c.data("B", "s8", k * n)
    c.buffers[1] = ("B", "s8", packed(b, k, n, 4))
    c.room("C", "s32", m * n)
    c.room("R", "s32", m)
    c.number("u64", n)
    c.number("u64", k)
    rows = [sum(a[i * k : i * k + k]) for i in range(m)]
    c.expect("C", [x - 3 * rows[at // n] for at, x in enumerate(product(a, b, m, n, k))])
    c.expect("R", rows)
    return "compensate", [], c


def chain(name, type, tm):
    c = Case(name, (2, 2, 1))
    m, n, k = tm * 2, 32, 32
    a, b, d = c.data("A", TYPES[type], m * k, -1, 1, 1), c.data("B", TYPES[type], k * 16, -1, 1, 1), c.data("D", TYPES[type], 16 * n)
    c.room("E", "f32", m * n)
    c.number("u64", n)
    c.number("u64", k)
    c.expect("E", product(product(a, b, m, 16, k), d, m, n, 16))
    return "chain", ["T=" + type, "TM=%d" % tm], c


def copy(name, tf, from_, tt, to, tm, tn):
    c = Case(name, (2, 2, 1))
    v = c.data("M", TYPES[tf], tm * 2 * tn * 2)
    c.room("O", TYPES[tt], len(v))
    c.number("u64", tn * 2)
    c.expect("O", v)
    defines = ["TF=" + tf, "FROM=" + from_, "TT=" + tt, "TO=" + to, "TM=%d" % tm, "TN=%d" % tn]
    return "copy", defines + ["DYNAMIC"] * (from_ == "MatC") + ["STORE_DYNAMIC"] * (to == "MatC"), c


def local(name, type, as_bytes):
    c = Case(name, (2, 2, 1), (32, 1, 1))
    m, n, k = 16, 64, 32
    a, b = c.data("A", TYPES[type], m * k), c.data("B", TYPES[type], k * n)
    c.room("C", "f32", m * n)
    c.number("u64", n)
    c.number("u64", k)
    if as_bytes:
        c.accessor(256 + 1024, 256 + 1024)
    else:
        c.accessor(256, 8, 16)
        c.accessor(1024, 16, 32)
    c.expect("C", product(a, b, m, n, k))
    return "local", ["T=" + type] + ["BYTES"] * as_bytes, c


def scratch(name):
    c = Case(name, (2, 3, 1))
    v = c.data("M", "f32", 24 * 32)
    c.room("O", "f32", len(v))
    c.number("u64", 32)
    c.accessor(512, 128)
    c.expect("O", transposed(v, 24, 32))
    return "scratch", [], c


def byval(name):
    c = Case(name, (2, 2, 1))
    m, n, k = 16, 32, 32
    a, b = c.data("A", "f16", m * k), c.data("B", "f16", k * n)
    c.room("C", "f32", m * n)
    c.number("u64", n)
    c.number("u64", k)
    scale, shift, row, low, high = [1.0, 0.5, 2.0, -1.0], 0.25, 1, -20.0, 30.5
    c.struct("4ffH?x2f", *scale, shift, row, True, low, high)
    bias = c.data("bias", "f32", n)
    out = [x * scale[(row + at % n // 16) % 4] + shift + bias[at % n] for at, x in enumerate(product(a, b, m, n, k))]
    c.expect("C", [min(max(x, low), high) for x in out])
    return "byval", [], c


def plainstruct(name):
    c = Case(name, (2, 3, 1))
    old = c.data("C", "f32", 24 * 64)
    c.struct("3I3f", 16, 64, 64, 9.0, 1.5, 0.25)
    c.number("s32", 1)
    c.expect("C", [x * 1.5 + 0.25 if at < 16 * 64 else x for at, x in enumerate(old)])
    return "plainstruct", [], c


def checked(name, type, tk, m, n, k):
    c = Case(name, (-(-n // 16), -(-m // 8), 1))
    a, b = c.data("A", TYPES[type], m * k), c.data("B", TYPES[type], k * n)
    c.room("C", "f32", m * n)
    for size in (m, n, k):
        c.number("u64", size)
    c.expect("C", [x + 0.5 for x in product(a, b, m, n, k)])
    return "checked", ["T=" + type, "TK=%d" % tk], c


def tiles(name):
    c = Case(name, (1, 2, 1), (32, 1, 1))
    m, n, k = 32, 64, 32
    a, b = c.data("A", "bf16", m * k), c.data("B", "bf16", k * n)
    c.buffers[1] = ("B", "bf16", packed(b, k, n, 2))
    c.room("C", "f32", m * n)
    bias = c.data("bias", "f32", n)
    c.number("u64", n)
    c.number("u64", k)
    c.expect("C", [max(x + bias[at % n], 0.0) for at, x in enumerate(product(a, b, m, n, k))])
    return "tiles", [], c


def softmax(name):
    c = Case(name, (2, 2, 1))
    n = 32
    v = c.data("C", "f32", 16 * n)
    c.number("u64", n)
    most = lambda at: max(v[at // 16 * 16 : at // 16 * 16 + 16])
    c.expect("C", [x - most(at) for at, x in enumerate(v)])
    return "softmax", [], c


def filled(name, type):
    c = Case(name, (2, 2, 1))
    n, k = 32, 32
    b = c.data("B", TYPES[type], k * n)
    c.room("C", "f32", 16 * n)
    c.number("u64", n)
    c.number("u64", k)
    c.number("f32", 1.5)
    c.expect("C", [1.5 + sum(1.5 * b[x * n + at % n] for x in range(k)) for at in range(16 * n)])
    return "filled", ["T=" + type], c


def free(name):
    c = Case(name, (2, 2, 1))
    old = c.data("C", "f32", 512)
    c.number("u64", 32)
    c.number("f32", -1.5)
    c.expect("C", [x * -1.5 for x in old])
    return "free", [], c


def wrapped():
    """testdata/opencl/wrapped.ll."""
    c = Case("wrapped", (1, 2, 1))
    n = 32
    old = c.data("C", "f32", 16 * n)
    alpha, beta = [1.5, -0.5], 3
    c.struct("I2fH2x", 0xFFFFFFFF, *alpha, beta)
    c.number("u64", n)
    c.expect("C", [max(alpha[at % n // 16] * x, 0.0) + beta for at, x in enumerate(old)])
    return c


def sums():
    """testdata/opencl/sums.ll."""
    c = Case("sums", (1, 2, 1))
    a, b = c.data("A", "f16", 16 * 16), c.data("B", "f16", 16 * 16)
    c.room("C", "f32", 16 * 16)
    rows = c.data("R", "s32", 16)
    tiles = c.data("S", "s32", 2)
    c.number("u64", 16)
    c.expect("C", product(a, b, 16, 16, 16))
    c.expect("R", [rows[i] + int(2 * sum(a[i * 16 : i * 16 + 16])) for i in range(16)])
    c.expect("S", [tiles[t] + int(2 * sum(a[t * 128 : t * 128 + 128])) for t in range(2)])
    return c


def chained():
    """testdata/opencl/chain.ll."""
    c = Case("chain", (2, 2, 1))
    n = 32
    a, b = c.data("A", "f16", 16 * 16, -1, 1, 1), c.data("B", "f16", 16 * 16, -1, 1, 1)
    d = c.data("D", "f16", 16 * n)
    c.room("E", "f32", 16 * n)
    c.accessor(256)
    c.number("u64", n)
    c.expect("E", product(product(a, b, 16, 16, 16), d, 16, n, 16))
    return c


def unoptimised():
    """testdata/opencl/unoptimised.ll."""
    c = Case("unoptimised", (2, 2, 1))
    m, n, k = 16, 32, 32
    a, b = c.data("A", "f16", m * k), c.data("B", "f16", k * n)
    c.room("C", "f32", m * n)
    c.struct("2Q", n, k)
    c.number("f32", -1.5)
    c.expect("C", [-1.5 * x for x in product(a, b, m, n, k)])
    return c


def intermediate():
    """The cases of kernels that are written in LLVM's language, by name."""
    return {c.name: c for c in (wrapped(), sums(), chained(), unoptimised())}


def kernels():
    """All of them: name to (source, what is defined, case)."""
    identity = lambda x: x
    relu = lambda x: x if x > 0 else 0
    all = [
        gemm("gemm_f16", "half", "float", 8, 16, 16),
        gemm("gemm_f16_f16", "half", "half", 8, 16, 16, add=True),
        gemm("gemm_f16_packed", "half", "float", 8, 16, 16, mode=1),
        gemm("gemm_bf16_packed", "bf16", "float", 8, 16, 16, mode=1, add=True),
        gemm("gemm_bf16_bf16", "bf16", "bf16", 8, 16, 16, steps=1),
        gemm("gemm_bf16_columns", "bf16", "float", 8, 16, 16, mode=2),
        gemm("gemm_bf16_all_columns", "bf16", "float", 8, 16, 16, mode=3),
        gemm("gemm_bf16_tall", "bf16", "float", 16, 16, 16, mode=1),
        gemm("gemm_bf16_taller", "bf16", "float", 32, 64, 16, mode=1, tiles=(1, 2)),
        gemm("gemm_f16_low", "half", "float", 1, 64, 16),
        gemm("gemm_f16_relu", "half", "float", 8, 16, 16, relu=True),
        gemm("gemm_s8_packed", "i8", "int32_t", 8, 16, 32, mode=1),
        gemm("gemm_u8_s8", "u8", "int32_t", 8, 16, 32, tb="i8", mode=1, add=True),
        gemm("gemm_u8_rows", "u8", "int32_t", 4, 16, 32, mode=0),
        gemm("gemm_s8_relu", "i8", "int32_t", 8, 16, 32, mode=1, relu=True),
        gemm("gemm_tf32", "float", "float", 8, 16, 8),
        gemm("gemm_f16_wide_group", "half", "float", 8, 16, 16, local=32),
        gemm("gemm_bf16_prefetch", "bf16", "float", 8, 16, 16, mode=1),
        apply("apply_scale", "float", 8, 16, "x = x * alpha + beta", lambda x: x * 1.5 - 0.5),
        apply("apply_relu", "float", 8, 16, "if (x < 0) x = alpha * x", lambda x: x * 1.5 if x < 0 else x),
        apply("apply_f16", "half", 8, 16, "x = half(float(x) * alpha + beta)", lambda x: x * 1.5 - 0.5),
        apply("apply_bf16", "bf16", 8, 16, "x = bf16(float(x) * alpha + beta)", lambda x: x * 1.5 - 0.5),
        apply("apply_s32", "int32_t", 8, 16, "x = x < 0 ? -x * 2 : x + 1", lambda x: -x * 2 if x < 0 else x + 1),
        apply("apply_large", "float", 32, 64, "x = alpha + x + beta", lambda x: x + 1.0),
        coords("coords", 8, 16),
        coords("coords_low", 4, 16),
        pair("pair_f32", "float"),
        pair("pair_bf16", "bf16"),
        factor("factor_f16", "half", "float", 16, "x *= half(scale)", "x = x > half(0) ? x : half(0)", lambda x: x * 2.0, relu),
        factor("factor_bf16", "bf16", "float", 16, "x = bf16(float(x) + 1)", "x = bf16(float(x) * scale)", lambda x: x + 1, lambda x: x * 2.0),
        factor("factor_s8", "i8", "int32_t", 32, "x = x - 1", "x = x > 0 ? x : 0", lambda x: x - 1, relu),
        factor("factor_tf32", "float", "float", 8, "x = mx::round_to_tf32(x)", "x = mx::round_to_tf32(x)", identity, identity),
        sum_("sum_a_f16", "half", "float", "MatA", 8, 16),
        sum_("sum_a_s8", "i8", "int32_t", "MatA", 8, 32),
        sum_("sum_b_bf16", "bf16", "float", "MatB", 16, 16),
        sum_("sum_b_u8", "u8", "int32_t", "MatB", 32, 16),
        sum_("sum_c", "float", "float", "MatC", 8, 16),
        lines("rows_a_bf16", "bf16", "float", "MatA", 8, 16),
        lines("rows_a_s8", "i8", "int32_t", "MatA", 8, 32),
        lines("columns_b_f16", "half", "float", "MatB", 16, 16, by_column=True),
        compensate("compensate"),
        chain("chain_f16", "half", 8),
        chain("chain_bf16", "bf16", 8),
        chain("chain_tall", "bf16", 16),
        copy("copy_c_a", "float", "MatC", "half", "MatA", 8, 16),
        copy("copy_a_c", "bf16", "MatA", "float", "MatC", 8, 16),
        copy("copy_c_c", "float", "MatC", "bf16", "MatC", 8, 16),
        copy("copy_c_b", "float", "MatC", "half", "MatB", 16, 16),
        local("local_f16", "half", False),
        local("local_bytes", "bf16", True),
        scratch("scratch"),
        byval("byval"),
        plainstruct("plainstruct"),
        checked("checked_f16", "half", 16, 13, 37, 45),
        checked("checked_f32", "float", 8, 9, 20, 19),
        tiles("tiles"),
        softmax("softmax"),
        filled("filled_f16", "half"),
        filled("filled_bf16", "bf16"),
        free("free"),
    ]
    return {case.name: (source, defines, case) for source, defines, case in all}
