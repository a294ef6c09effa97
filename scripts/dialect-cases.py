#!/usr/bin/env python3
"""Writes testdata/dialects/table: instructions of SPV_INTEL_joint_matrix one by one, by layout, use and width of component, and of ARM and QCOM.

Each module comes with a case that says what every buffer holds afterwards. That is computed here, from what the extension's text and its
implementations say of addresses and numbers; nothing of coop-exec or coop-passes is asked. Needs Python 3 alone.

    scripts/dialect-cases.py            write the files
    scripts/dialect-cases.py --check    say which differ from what is there
"""
import math
import pathlib
import struct
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "testdata/dialects/table"
LAYOUTS = {"rows": 0, "columns": 1, "packed": 2}
USES = {"a": 0, "b": 1, "c": 2}
SHAPES = {"a": (8, 16), "b": (16, 8), "c": (8, 16)}
SCALARS = {
    "f32": ("float", "OpTypeFloat 32", 32), "f16": ("half", "OpTypeFloat 16", 16), "u16": ("ushort", "OpTypeInt 16 0", 16),
    "s8": ("char", "OpTypeInt 8 1", 8), "u8": ("uchar", "OpTypeInt 8 0", 8), "u32": ("uint", "OpTypeInt 32 0", 32),
    "s32": ("int", "OpTypeInt 32 1", 32), "i4": ("nibble", "OpTypeInt 4 0", 4),
}
JOINT, KHR = "SPV_INTEL_joint_matrix", "SPV_KHR_cooperative_matrix"


def pack(use, bits):
    """How many rows the packed layout puts into 32 bits; in A, columns are side by side already."""
    return 1 if use == "a" else max(1, 32 // bits)


def place(layout, use, bits, r, c):
    """Line, and element of the line."""
    if layout == "columns":
        return c, r
    if layout == "packed":
        v = pack(use, bits)
        return r // v, c * v + r % v
    return r, c


class Module:
    """A module being written, and its case."""

    def __init__(self, *comments):
        self.comments, self.caps, self.exts = list(comments), ["Shader", "VulkanMemoryModel", "CooperativeMatrixKHR"], [KHR]
        self.types, self.decorations, self.variables, self.globals = [], [], [], []
        self.head, self.body, self.functions, self.consts, self.params = [], [], [], {}, []
        self.buffers, self.ids, self.inputs = {}, 0, []
        self.raw("void", "OpTypeVoid"), self.raw("function", "OpTypeFunction %void"), self.raw("bool", "OpTypeBool")
        self.buffer("Params", "u32", self.params)

    def cap(self, *names):
        self.caps += [n for n in names if n not in self.caps]

    def ext(self, *names):
        self.exts += [n for n in names if n not in self.exts]

    def raw(self, name, text):
        if f"%{name} = {text}" not in self.types:
            self.types.append(f"%{name} = {text}")
        return f"%{name}"

    def scalar(self, t):
        for caps in {"f16": ["Float16", "StorageBuffer16BitAccess"], "u16": ["Int16", "StorageBuffer16BitAccess"],
                     "s8": ["Int8", "StorageBuffer8BitAccess"], "u8": ["Int8", "StorageBuffer8BitAccess"],
                     "i4": ["Int4TypeINTEL", "Int4CooperativeMatrixINTEL"]}.get(t, []):
            self.cap(caps)
        if t == "i4":
            self.ext("SPV_INTEL_int4")
        return self.raw(*SCALARS[t][:2])

    def const(self, t, value):
        ty = self.scalar(t)
        if (t, value) not in self.consts:
            name = f"{t}_{str(value).replace('-', 'm').replace('.', '_')}"
            self.consts[t, value] = self.raw(name, f"OpConstant {ty} {value}")
        return self.consts[t, value]

    def n(self, value):
        return self.const("u32", value)

    def matrix(self, t, use, shape=None):
        rows, cols = shape or SHAPES[use]
        ids = [self.scalar(t), self.n(3), self.n(rows), self.n(cols), self.n(USES[use])]
        return self.raw(f"mat_{t}_{rows}x{cols}_{use}", "OpTypeCooperativeMatrixKHR " + " ".join(ids))

    def pointer(self, t):
        self.raw(f"arr_{t}", f"OpTypeRuntimeArray {self.scalar(t)}")
        self.raw(f"blk_{t}", f"OpTypeStruct %arr_{t}")
        self.raw(f"pb_{t}", f"OpTypePointer StorageBuffer %blk_{t}")
        self.raw(f"p_{t}", f"OpTypePointer StorageBuffer {self.scalar(t)}")

    def buffer(self, name, t, values):
        self.pointer(t)
        if f"OpDecorate %blk_{t} Block" not in self.decorations:
            self.decorations += [f"OpDecorate %arr_{t} ArrayStride {max(8, SCALARS[t][2]) // 8}", f"OpDecorate %blk_{t} Block",
                                 f"OpMemberDecorate %blk_{t} 0 Offset 0"]
        self.decorations += [f"OpDecorate %{name} DescriptorSet 0", f"OpDecorate %{name} Binding {len(self.buffers)}"]
        self.buffers[name] = (t, values)
        self.variables.append(f"%{name} = OpVariable %pb_{t} StorageBuffer")

    def op(self, text):
        """An instruction with a result."""
        self.ids += 1
        self.body.append(f"%v{self.ids} = {text}")
        return f"%v{self.ids}"

    def do(self, text):
        self.body.append(text)

    def at(self, name, index):
        t = self.buffers[name][0]
        return self.op(f"OpAccessChain %p_{t} %{name} {self.n(0)} {self.n(index)}")

    def load(self, ty, name, index, stride, layout=0):
        return self.op(f"OpCooperativeMatrixLoadKHR {ty} {self.at(name, index)} {self.n(layout)} {self.n(stride)}")

    def store(self, name, index, value, stride, layout=0):
        self.do(f"OpCooperativeMatrixStoreKHR {self.at(name, index)} {value} {self.n(layout)} {self.n(stride)}")

    def dyn(self, value):
        """A 32-bit number that is known when the module runs."""
        self.params.append(value % 2**32)
        return self.op(f"OpLoad {self.scalar('u32')} {self.at('Params', len(self.params) - 1)}")

    def write(self, name, expected):
        text = [f"; {c}" for c in self.comments]
        text += [f"OpCapability {c}" for c in self.caps] + [f'OpExtension "{e}"' for e in self.exts]
        text += ["OpMemoryModel Logical Vulkan", 'OpEntryPoint GLCompute %main "main" ' + " ".join(f"%{b}" for b in [*self.buffers, *self.inputs]),
                 "OpExecutionMode %main LocalSize 8 1 1"] + self.head + self.decorations
        text += self.types + self.globals + self.variables
        text += ["%main = OpFunction %void None %function", "%entry = OpLabel"]
        text += [l for l in self.body if "OpVariable" in l] + [l for l in self.body if "OpVariable" not in l]
        text += ["OpReturn", "OpFunctionEnd"] + self.functions
        case = [f"# {self.comments[-1]}", "workgroups = [1, 1, 1]", "subgroup-size = 8", "full-subgroups = true"]
        for at, (buffer, (t, values)) in enumerate(self.buffers.items()):
            case += ["", "[[buffer]]", f'name = "{buffer}"', f"binding = {at}", f'type = "{t}"', f"count = {max(1, len(values))}"]
            same = len(set(values)) == 1
            case.append(f"fill = {{ constant = {values[0]} }}" if same else f"fill = {{ values = {list(values) or [0]} }}")
        for buffer, values in expected.items():
            case += ["", "[[expect]]", "[expect.values]", f'buffer = "{buffer}"', "values = ["]
            case += ["  " + ", ".join(str(v) for v in values[i:i + 16]) + "," for i in range(0, len(values), 16)] + ["]"]
        lines = [l if l.startswith((";", "%")) else " " * 4 + l for l in text]
        FILES[f"{name}.spvasm"] = "\n".join(lines) + "\n"
        FILES[f"{name}.toml"] = "\n".join(case) + "\n"


FILES = {}
UNTOUCHED = 9


def load(memory, layout, use, bits, base, stride, x=0, y=0, bound=None):
    rows, cols = SHAPES[use]
    out = []
    for r in range(rows):
        for c in range(cols):
            line, at = place(layout, use, bits, r, c)
            line, at = line + x, at + y
            inside = bound is None or (0 <= line < bound[0] and 0 <= at < bound[1])
            out.append(memory[base + line * stride + at] if inside else 0)
    return out


def store(memory, values, layout, use, bits, base, stride, x=0, y=0, bound=None):
    rows, cols = SHAPES[use]
    for r in range(rows):
        for c in range(cols):
            line, at = place(layout, use, bits, r, c)
            line, at = line + x, at + y
            if bound is None or (0 <= line < bound[0] and 0 <= at < bound[1]):
                memory[base + line * stride + at] = values[r * cols + c]


def khr_types(t, use):
    """Where no Vulkan device is known to have such matrices, khr is for a device that has every type."""
    has = {"s8": "ab", "u8": "ab", "f16": "abc", "f32": "c", "s32": "c", "u32": "c"}
    return [] if use in has.get(t, "") else ["every-type: khr"]


def access(t, use, layout):
    bits = SCALARS[t][2]
    words = f"{t} as {use.upper()}, {layout}"
    m = Module(*khr_types(t, use), f"Each kind of load and store of {words}: plain, with offsets, checked.")
    m.cap("CooperativeMatrixCheckedInstructionsINTEL", "CooperativeMatrixOffsetInstructionsINTEL")
    m.ext(JOINT)
    if layout == "packed":
        m.cap("PackedCooperativeMatrixINTEL")
    data = [(7 * i + i // 13) % 97 for i in range(1200)]
    m.buffer("In", t, data)
    rows, cols = SHAPES[use]
    lines, width = [max(place(layout, use, bits, r, c)[k] for r in range(rows) for c in range(cols)) + 1 for k in (0, 1)]
    plain, stride = (64, 48) if layout == "packed" else (32, 24)
    v = pack(use, bits) if layout == "packed" else 1
    out, size = [], rows * cols
    ty, kind, row = m.matrix(t, use), m.n(LAYOUTS[layout]), m.n(0)
    m.buffer("Out", t, out)

    def region(n):
        base = len(out)
        out.extend([UNTOUCHED] * (-(-n // 64) * 64))
        return base

    steps = []
    whole = lambda: m.load(ty, "In", 0, 16)
    values = load(data, "rows", use, bits, 0, 16)

    def loaded(value, expected):
        base = region(size)
        m.store("Out", base, value, cols)
        steps.append(lambda: store(result, expected, "rows", use, bits, base, cols))

    def stored(n, instruction, **how):
        base = region(n)
        value = whole()
        m.do(instruction(m.at("Out", base), value))
        steps.append(lambda: store(result, values, layout, use, bits, base, **how))

    loaded(m.load(ty, "In", 64, plain, LAYOUTS[layout]), load(data, layout, use, bits, 64, plain))
    stored(lines * plain, lambda p, o: f"OpCooperativeMatrixStoreKHR {p} {o} {kind} {m.n(plain)}", stride=plain)
    x, y = 2, 3 * v
    loaded(m.op(f"OpCooperativeMatrixLoadOffsetINTEL {ty} {m.at('In', 5)} {m.dyn(x)} {m.dyn(y)} {kind} {m.dyn(stride)}"),
           load(data, layout, use, bits, 5, stride, x, y))
    stored((lines + x) * stride, lambda p, o: f"OpCooperativeMatrixStoreOffsetINTEL {p} {m.n(x)} {m.n(y)} {o} {kind} {m.n(stride)}",
           stride=stride, x=x, y=y)
    # Over the last line and the end of a line, by half of what there is of each.
    bound = (x + lines - lines // 2, y + width - 3 * v)
    loaded(m.op(f"OpCooperativeMatrixLoadCheckedINTEL {ty} {m.at('In', 5)} {m.dyn(x)} {m.dyn(y)} {kind} {m.dyn(bound[0])} {m.dyn(bound[1])} {m.dyn(stride)}"),
           load(data, layout, use, bits, 5, stride, x, y, bound))
    stored((lines + x) * stride, lambda p, o: f"OpCooperativeMatrixStoreCheckedINTEL {p} {m.dyn(x)} {m.dyn(y)} {o} {kind} {m.dyn(bound[0])} {m.dyn(bound[1])} {m.dyn(stride)}",
           stride=stride, x=x, y=y, bound=bound)
    # Before the first line and the beginning of a line; without a stride, lines are as long as the surface is wide.
    before = (-1, -2 * v)
    bound = (lines + 3, width)
    loaded(m.op(f"OpCooperativeMatrixLoadCheckedINTEL {ty} {m.at('In', 0)} {m.dyn(before[0])} {m.dyn(before[1])} {kind} {m.dyn(bound[0])} {m.dyn(bound[1])}"),
           load(data, layout, use, bits, 0, width, *before, bound))
    result = list(out)
    for step in steps:
        step()
    m.write(f"access-{t}-{use}-{layout}", {"Out": result})


def each_element(m, ty, pointee, variable, body):
    """A loop over the elements that an invocation has."""
    k = m.ids
    word = m.scalar("u32")
    m.raw("pf_u32", f"OpTypePointer Function {word}")
    m.do(f"%i{k} = OpVariable %pf_u32 Function")
    m.do(f"OpStore %i{k} {m.n(0)}")
    m.do(f"OpBranch %head{k}")
    m.do(f"%head{k} = OpLabel")
    m.do(f"OpLoopMerge %done{k} %next{k} None")
    m.do(f"OpBranch %test{k}")
    m.do(f"%test{k} = OpLabel")
    i = m.op(f"OpLoad {word} %i{k}")
    length = m.op(f"OpCooperativeMatrixLengthKHR {word} {ty}")
    more = m.op(f"OpULessThan %bool {i} {length}")
    m.do(f"OpBranchConditional {more} %body{k} %done{k}")
    m.do(f"%body{k} = OpLabel")
    body(i, m.op(f"OpAccessChain {pointee} {variable} {i}"))
    m.do(f"OpBranch %next{k}")
    m.do(f"%next{k} = OpLabel")
    more = m.op(f"OpIAdd {word} {i} {m.n(1)}")
    m.do(f"OpStore %i{k} {more}")
    m.do(f"OpBranch %head{k}")
    m.do(f"%done{k} = OpLabel")


def elements(t, use):
    m = Module(*khr_types(t, use), f"Coordinates of the elements of {t} as {use.upper()}, and checked constructions.")
    m.cap("CooperativeMatrixCheckedInstructionsINTEL", "CooperativeMatrixInvocationInstructionsINTEL")
    m.ext(JOINT)
    rows, cols = SHAPES[use]
    size, word, elem = rows * cols, m.scalar("u32"), m.scalar(t)
    data = [(5 * i) % 31 for i in range(size)]
    m.buffer("In", t, data)
    out = [UNTOUCHED] * (4 * size)
    m.buffer("Out", t, out)
    ty, row = m.matrix(t, use), m.n(0)
    pf = m.raw(f"pf_{t}", f"OpTypePointer Function {elem}")
    pm = m.raw("pf_matrix", f"OpTypePointer Function {ty}")
    pair = m.raw("pair", f"OpTypeVector {word} 2")
    m.do(f"%matrix = OpVariable {pm} Function")
    m.do(f"OpStore %matrix {m.load(ty, 'In', 0, cols)}")
    floating = t.startswith("f")

    def body(i, pointer):
        whole = m.op(f"OpLoad {ty} %matrix")
        coord = m.op(f"OpCooperativeMatrixGetElementCoordINTEL {pair} {whole} {i}")
        r, c = [m.op(f"OpCompositeExtract {word} {coord} {k}") for k in (0, 1)]
        fours = m.op(f"OpIMul {word} {r} {m.n(4)}")
        number = m.op(f"OpIAdd {word} {fours} {c}")
        small = number
        if floating:
            small = m.op(f"OpConvertUToF {elem} {number}")
        elif SCALARS[t][2] < 32:
            narrow = m.scalar("u8")
            small = m.op(f"OpUConvert {narrow} {number}")
            small = small if t == "u8" else m.op(f"OpBitcast {elem} {small}")
        elif t != "u32":
            small = m.op(f"OpBitcast {elem} {number}")
        old = m.op(f"OpLoad {elem} {pointer}")
        add = "OpFAdd" if floating else "OpIAdd"
        m.do(f"OpStore {pointer} {m.op(f'{add} {elem} {old} {small}')}")

    each_element(m, ty, pf, "%matrix", body)
    m.store("Out", 0, m.op(f"OpLoad {ty} %matrix"), cols)
    result = list(out)
    result[:size] = [data[i] + 4 * (i // cols) + i % cols for i in range(size)]
    value = m.const(t, 7)
    for at, (x, y, h, w) in enumerate([(0, 0, rows, cols), (3, 5, rows, cols + 2), (-2, -1, rows - 3, 4)], 1):
        made = m.op(f"OpCooperativeMatrixConstructCheckedINTEL {ty} {m.dyn(x)} {m.dyn(y)} {m.dyn(h)} {m.dyn(w)} {value}")
        m.store("Out", at * size, made, cols)
        result[at * size:(at + 1) * size] = [7 if 0 <= x + r < h and 0 <= y + c < w else 0 for r in range(rows) for c in range(cols)]
    m.write(f"elements-{t}-{use}", {"Out": result})


def prefetches():
    m = Module("Prefetches in both encodings, by every layout, with and without a stride; and cache controls of loads and stores.")
    m.cap("CooperativeMatrixPrefetchINTEL", "PackedCooperativeMatrixINTEL", "CacheControlsINTEL")
    m.ext(JOINT, "SPV_INTEL_cache_controls")
    data = [i % 50 for i in range(128)]
    m.buffer("In", "f16", data)
    m.buffer("Out", "f16", [UNTOUCHED] * 128)
    ty = m.matrix("f16", "b")
    source, target = m.at("In", 0), m.at("Out", 0)
    numbered = {value: 900 + value for value in (0, 1, 2, 8, 16)}
    for value, number in numbered.items():
        m.raw(str(number), f"OpConstant {m.scalar('u32')} {value}")
    n = lambda value: str(numbered[value])
    for layout in LAYOUTS.values():
        for form in ([], [n(0), n(1)]):
            for stride in ([], [n(8)]):
                # The two encodings differ in where a literal stands, so that all operands are written as numbers.
                operands = [source] + form + [n(16), n(8), str(layout % 2), n(layout)] + stride
                m.do("OpCooperativeMatrixPrefetchINTEL " + " ".join(operands))
    for at, control in enumerate(["UncachedINTEL", "CachedINTEL", "StreamingINTEL", "InvalidateAfterReadINTEL", "ConstCachedINTEL"]):
        m.decorations.append(f"OpDecorate {source} CacheControlLoadINTEL {at} {control}")
    for at, control in enumerate(["UncachedINTEL", "WriteThroughINTEL", "WriteBackINTEL", "StreamingINTEL"]):
        m.decorations.append(f"OpDecorate {target} CacheControlStoreINTEL {at} {control}")
    value = m.op(f"OpCooperativeMatrixLoadKHR {ty} {source} {m.n(0)} {m.n(8)}")
    m.do(f"OpCooperativeMatrixStoreKHR {target} {value} {m.n(0)} {m.n(8)}")
    m.write("prefetches", {"Out": data})


def bits_of(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def of_bits(b):
    return struct.unpack("<f", struct.pack("<I", b & 0xffffffff))[0]


def rounded(x, dropped):
    """A 32-bit number to nearest even, with fewer bits; as bits."""
    b = bits_of(x)
    if x != x:
        return (b | 0x400000) >> dropped << dropped
    return ((b + (1 << (dropped - 1)) - 1 + (b >> dropped & 1)) & 0xffffffff) >> dropped << dropped


def odd_numbers(n):
    """Numbers with more bits than bfloat16 and tf32 have, ties among them."""
    out = []
    for i in range(n):
        b = bits_of(1.0 + i / 16.0)
        low = [0x8000, 0x18000, 0x1000, 0x3000, 0x8001, 0x7fff, 0xfff, 0x1001][i % 8]
        out.append(of_bits((b ^ (i % 3 == 1) << 31) + low))
    return out


def show(x):
    return repr(x)


def conversions(use):
    m = Module("every-type: khr", f"Conversions of matrices as {use.upper()}: to bfloat16 and back, and rounding to tf32.")
    m.cap("CooperativeMatrixBFloat16ComponentTypeINTEL", "CooperativeMatrixTF32ComponentTypeINTEL", "BFloat16ConversionINTEL",
          "TensorFloat32RoundingINTEL")
    m.ext(JOINT, "SPV_INTEL_bfloat16_conversion", "SPV_INTEL_tensor_float32_conversion")
    rows, cols = SHAPES[use]
    size = rows * cols
    data = odd_numbers(size)
    bf16 = [0x3f80 + 3 * i ^ (i % 5 == 2) << 15 for i in range(size)]
    m.buffer("F32", "f32", [show(x) for x in data])
    m.buffer("Bits", "u16", bf16)
    m.buffer("OutBits", "u16", [UNTOUCHED] * size)
    m.buffer("OutF32", "f32", [UNTOUCHED] * (2 * size))
    wide, narrow = m.matrix("f32", use), m.matrix("u16", use)
    f, u = m.load(wide, "F32", 0, cols), m.load(narrow, "Bits", 0, cols)
    m.store("OutBits", 0, m.op(f"OpConvertFToBF16INTEL {narrow} {f}"), cols)
    m.store("OutF32", 0, m.op(f"OpConvertBF16ToFINTEL {wide} {u}"), cols)
    m.store("OutF32", size, m.op(f"OpRoundFToTF32INTEL {wide} {f}"), cols)
    m.write(f"conversions-{use}", {"OutBits": [rounded(x, 16) >> 16 for x in data],
                                   "OutF32": [show(of_bits(b << 16)) for b in bf16] + [show(of_bits(rounded(x, 13))) for x in data]})


def numbers():
    m = Module("Conversions of numbers and vectors to bfloat16 and back, and rounding to tf32; a matrix stands by.")
    m.cap("BFloat16ConversionINTEL", "TensorFloat32RoundingINTEL")
    m.ext("SPV_INTEL_bfloat16_conversion", "SPV_INTEL_tensor_float32_conversion")
    data = odd_numbers(5)
    bf16 = [0x3f80 + 77 * i for i in range(5)]
    m.buffer("F32", "f32", [show(x) for x in data])
    m.buffer("Bits", "u16", bf16)
    m.buffer("OutBits", "u16", [UNTOUCHED] * 5)
    m.buffer("OutF32", "u32", [UNTOUCHED] * 10)
    f, h, word = m.scalar("f32"), m.scalar("u16"), m.scalar("u32")
    for count, first in ((1, 0), (4, 1)):
        ft = f if count == 1 else m.raw("v4f", f"OpTypeVector {f} 4")
        ht = h if count == 1 else m.raw("v4h", f"OpTypeVector {h} 4")
        fs = [m.op(f"OpLoad {f} {m.at('F32', first + i)}") for i in range(count)]
        hs = [m.op(f"OpLoad {h} {m.at('Bits', first + i)}") for i in range(count)]
        fv = fs[0] if count == 1 else m.op(f"OpCompositeConstruct {ft} {' '.join(fs)}")
        hv = hs[0] if count == 1 else m.op(f"OpCompositeConstruct {ht} {' '.join(hs)}")
        results = [("OutBits", 0, h, m.op(f"OpConvertFToBF16INTEL {ht} {fv}")), ("OutF32", 0, f, m.op(f"OpConvertBF16ToFINTEL {ft} {hv}")),
                   ("OutF32", 5, f, m.op(f"OpRoundFToTF32INTEL {ft} {fv}"))]
        for name, base, elem, value in results:
            for i in range(count):
                one = value if count == 1 else m.op(f"OpCompositeExtract {elem} {value} {i}")
                one = one if elem == h else m.op(f"OpBitcast {word} {one}")
                m.do(f"OpStore {m.at(name, base + first + i)} {one}")
    whole = [i % 9 for i in range(128)]
    m.buffer("Whole", "f32", whole), m.buffer("OutWhole", "f32", [UNTOUCHED] * 128)
    m.store("OutWhole", 0, m.load(m.matrix("f32", "c"), "Whole", 0, 16), 16)
    m.write("numbers", {"OutBits": [rounded(x, 16) >> 16 for x in data], "OutF32": [b << 16 for b in bf16] + [rounded(x, 13) for x in data],
                        "OutWhole": whole})


def products(name, what, bits, packed):
    """D = A x B + C, each as the operand bits say."""
    tf32 = bits & 0x20
    factor = "f32" if tf32 else "u16"
    c_type = "u16" if bits & 0x80 else "f32"
    d_type = "u16" if bits & 0x100 else "f32"
    m = Module("every-type: khr", f"A product {what}; B {'packed' if packed else 'by rows'}.")
    m.cap("CooperativeMatrixTF32ComponentTypeINTEL" if tf32 else "CooperativeMatrixBFloat16ComponentTypeINTEL")
    m.ext(JOINT)
    if packed:
        m.cap("PackedCooperativeMatrixINTEL")
    rows, cols, deep = 8, 16, 16
    a = [((3 * i) % 17 - 8) / 4 for i in range(rows * deep)]
    b = [((5 * i) % 13 - 6) / 2 for i in range(deep * cols)]
    c = [float((7 * i) % 29 - 14) for i in range(rows * cols)]
    code = lambda t, xs: [show(x) for x in xs] if t == "f32" else [bits_of(x) >> 16 for x in xs]
    v = pack("b", SCALARS[factor][2]) if packed else 1
    stored = [0.0] * len(b)
    for r in range(deep):
        for k in range(cols):
            stored[(r // v) * cols * v + k * v + r % v] = b[r * cols + k]
    m.buffer("A", factor, code(factor, a)), m.buffer("B", factor, code(factor, stored)), m.buffer("C", c_type, code(c_type, c))
    m.buffer("D", d_type, [UNTOUCHED] * (rows * cols))
    shapes = {"a": (rows, deep), "b": (deep, cols), "c": (rows, cols)}
    ma = m.load(m.matrix(factor, "a", shapes["a"]), "A", 0, deep)
    mb = m.load(m.matrix(factor, "b", shapes["b"]), "B", 0, cols * v, LAYOUTS["packed" if packed else "rows"])
    mc = m.load(m.matrix(c_type, "c", shapes["c"]), "C", 0, cols)
    mask = "|".join(NAMES[x] for x in NAMES if bits & x)
    d_matrix = m.matrix(d_type, "c", shapes["c"])
    m.store("D", 0, m.op(f"OpCooperativeMatrixMulAddKHR {d_matrix} {ma} {mb} {mc} {mask}"), cols)
    sums = [c[i * cols + j] + sum(a[i * deep + k] * b[k * cols + j] for k in range(deep)) for i in range(rows) for j in range(cols)]
    assert all(of_bits(bits_of(x)) == x for x in sums)
    m.write(f"product-{name}", {"D": [show(x) for x in sums] if d_type == "f32" else [rounded(x, 16) >> 16 for x in sums]})


NAMES = {0x20: "MatrixAAndBTF32ComponentsINTEL", 0x40: "MatrixAAndBBFloat16ComponentsINTEL", 0x80: "MatrixCBFloat16ComponentsINTEL",
         0x100: "MatrixResultBFloat16ComponentsINTEL"}


def apply(t, use):
    m = Module("apply-function: twice", *khr_types(t, use), f"A function that is named elsewhere, applied to each element of {t} as {use.upper()}.")
    m.ext(JOINT)
    rows, cols = SHAPES[use]
    size, elem, word = rows * cols, m.scalar(t), m.scalar("u32")
    data = [(3 * i) % 19 for i in range(size)]
    m.buffer("In", t, data)
    m.buffer("Out", t, [UNTOUCHED] * size)
    ty = m.matrix(t, use)
    obj = m.raw("object", f"OpTypeStruct {elem}")
    po, pe = m.raw("p_object", f"OpTypePointer Function {obj}"), m.raw(f"pf_{t}", f"OpTypePointer Function {elem}")
    fn = m.raw("applied", f"OpTypeFunction {elem} {po} {elem} {word} {word}")
    m.head.append('OpName %twice "twice"')
    m.do(f"%var = OpVariable {po} Function")
    inside = m.op(f"OpAccessChain {pe} %var {m.n(0)}")
    m.do(f"OpStore {inside} {m.const(t, 5)}")
    value = m.load(ty, "In", 0, cols)
    m.store("Out", 0, m.op(f"OpCooperativeMatrixApplyFunctionINTEL {ty} %var {value}"), cols)
    add = "OpFAdd" if t.startswith("f") else "OpIAdd"
    m.functions += [f"%twice = OpFunction {elem} None {fn}", f"%o = OpFunctionParameter {po}", f"%e = OpFunctionParameter {elem}",
                    f"%r = OpFunctionParameter {word}", f"%c = OpFunctionParameter {word}", "%start = OpLabel",
                    f"%op = OpAccessChain {pe} %o {m.n(0)}", f"%ov = OpLoad {elem} %op", f"%two = {add} {elem} %e %e",
                    f"%sum = {add} {elem} %two %ov", f"%diagonal = OpIEqual %bool %r %c",
                    f"%got = OpSelect {elem} %diagonal %two %sum", "OpReturnValue %got", "OpFunctionEnd"]
    m.write(f"apply-{t}-{use}", {"Out": [2 * x + (0 if i // cols == i % cols else 5) for i, x in enumerate(data)]})


def arm_at(layout, bytes_, group, rows, cols, r, c):
    """The byte where an element begins: blocks of 4 rows of 16 bytes, so many of them interleaved by 4 bytes."""
    wide = 16 // bytes_
    down, right = r // 4, c // wide
    number = down * (cols // wide) + right if layout == "rows" else right * (rows // 4) + down
    inside = r % 4 * 16 + c % wide * bytes_
    return number // group * group * 64 + inside // 4 * 4 * group + number % group * 4 + inside % 4


def arm(t, use, layout):
    slow = ["slow: lavapipe takes seconds to compile it."] if t == "s8" else []
    m = Module(*slow, *khr_types(t, use), f"{t} as {use.upper()} in blocks of 4 rows and 16 bytes, {layout} of them one after the other; 1, 2 and 4 interleaved.")
    m.cap("CooperativeMatrixLayoutsARM")
    m.ext("SPV_ARM_cooperative_matrix_layouts")
    bytes_ = SCALARS[t][2] // 8
    wide = 16 // bytes_
    shapes = {n: (8, max(8, wide * n)) if layout == "rows" else (4 * max(2, n), max(8, wide)) for n in (1, 2, 4)}
    most = max(r * c for r, c in shapes.values())
    data = [(11 * i + i // 7) % 89 for i in range(most)]
    m.buffer("In", t, data)
    out = [UNTOUCHED] * (6 * most)
    m.buffer("Out", t, out)
    number, result = m.n(4202 if layout == "rows" else 4203), list(out)
    for k, (group, (rows, cols)) in enumerate(shapes.items()):
        ty = m.matrix(t, use, (rows, cols))
        m.store("Out", 2 * k * most, m.load(ty, "In", 0, group, 4202 if layout == "rows" else 4203), cols)
        m.store("Out", (2 * k + 1) * most, m.load(ty, "In", 0, cols), group, 4202 if layout == "rows" else 4203)
        for r in range(rows):
            for c in range(cols):
                at = arm_at(layout, bytes_, group, rows, cols, r, c)
                assert at % bytes_ == 0
                result[2 * k * most + r * cols + c] = data[at // bytes_]
                result[(2 * k + 1) * most + at // bytes_] = data[r * cols + c]
    m.write(f"arm-{t}-{use}-{layout}", {"Out": result})


def words_of(t, values):
    """Numbers side by side in 32-bit words."""
    kinds = {"s8": "b", "f16": "e", "f32": "f", "s32": "i"}
    raw = struct.pack(f"<{len(values)}{kinds[t]}", *values)
    return list(struct.unpack(f"<{len(raw) // 4}I", raw))


def qcom(t, use):
    """Each lane has a row, or of B a column: as an array of components and as one of words."""
    m = Module(*khr_types(t, use), f"Rows (of B, columns) of {t} as {use.upper()} in arrays of components and of words: a matrix made of them and taken apart.")
    m.cap("CooperativeMatrixConversionQCOM")
    m.ext("SPV_QCOM_cooperative_matrix_conversion")
    deep = 8 if use == "c" else 256 // SCALARS[t][2]
    rows, cols = (deep, 8) if use == "b" else (8, deep)
    elem, word = m.scalar(t), m.scalar("u32")
    lines = [[(5 * lane + 3 * k) % 23 for k in range(deep)] for lane in range(8)]
    line_words = [words_of(t, line) for line in lines]
    short = len(line_words[0])
    flat = [x for line in lines for x in line]
    matrix = [lines[c][r] if use == "b" else lines[r][c] for r in range(rows) for c in range(cols)]
    m.buffer("Lines", t, flat), m.buffer("Words", "u32", [x for line in line_words for x in line])
    m.buffer("Matrix", t, matrix)
    m.buffer("OutMatrix", t, [UNTOUCHED] * (2 * rows * cols))
    m.buffer("OutLines", t, [UNTOUCHED] * len(flat)), m.buffer("OutWords", "u32", [UNTOUCHED] * (8 * short))
    m.raw("v3u", f"OpTypeVector {word} 3")
    m.raw("pi_v3u", "OpTypePointer Input %v3u")
    m.decorations.append("OpDecorate %place BuiltIn LocalInvocationId")
    m.globals.append("%place = OpVariable %pi_v3u Input")
    m.inputs.append("place")
    ty = m.matrix(t, use, (rows, cols))
    place = m.op("OpLoad %v3u %place")
    lane = m.op(f"OpCompositeExtract {word} {place} 0")
    inside = m.op(f"OpULessThan %bool {lane} {m.n(8)}")
    own = m.op(f"OpSelect {word} {inside} {lane} {m.n(0)}")
    taken = {}
    for at, (kind, source, count) in enumerate((("f", "Lines", deep), ("w", "Words", short))):
        one = elem if kind == "f" else word
        pt = t if kind == "f" else "u32"
        array = m.raw(f"array_{kind}", f"OpTypeArray {one} {m.n(count)}")
        base = m.op(f"OpIMul {word} {own} {m.n(count)}")
        got = []
        for k in range(count):
            index = m.op(f"OpIAdd {word} {base} {m.n(k)}")
            got.append(m.op(f"OpLoad {one} " + m.op(f"OpAccessChain %p_{pt} %{source} {m.n(0)} {index}")))
        made = m.op(f"OpCompositeConstructCoopMatQCOM {ty} " + m.op(f"OpCompositeConstruct {array} {' '.join(got)}"))
        m.store("OutMatrix", at * rows * cols, made, cols)
        apart = m.op(f"OpCompositeExtractCoopMatQCOM {array} {m.load(ty, 'Matrix', 0, cols)}")
        taken[kind] = (apart, base, count, one, pt)
    m.do("OpSelectionMerge %behind None")
    m.do(f"OpBranchConditional {inside} %within %behind")
    m.do("%within = OpLabel")
    for kind, (apart, base, count, one, pt) in taken.items():
        for k in range(count):
            index = m.op(f"OpIAdd {word} {base} {m.n(k)}")
            pointer = m.op(f"OpAccessChain %p_{pt} %{'OutLines' if kind == 'f' else 'OutWords'} {m.n(0)} {index}")
            m.do(f"OpStore {pointer} " + m.op(f"OpCompositeExtract {one} {apart} {k}"))
    m.do("OpBranch %behind")
    m.do("%behind = OpLabel")
    m.write(f"qcom-{t}-{use}", {"OutMatrix": matrix + matrix, "OutLines": flat, "OutWords": [x for line in line_words for x in line]})


def words_of_nibbles(nibbles):
    """Eight to a word, the first in the low bits."""
    return [sum(n << 4 * k for k, n in enumerate(nibbles[i:i + 8])) for i in range(0, len(nibbles), 8)]


def int4_access(use, layout):
    """Integers of 4 bits, in words of 8: strides are of words where the instruction is KHR's and the layout too, else of components."""
    m = Module(*khr_types("u8", use), f"Each kind of load and store of 4-bit integers as {use.upper()}, {layout}: plain, with offsets, checked.")
    m.cap("CooperativeMatrixCheckedInstructionsINTEL", "CooperativeMatrixOffsetInstructionsINTEL")
    m.ext(JOINT)
    if layout == "packed":
        m.cap("PackedCooperativeMatrixINTEL")
    data = [(7 * i + i // 13) % 16 for i in range(1200)]
    m.buffer("In", "u32", words_of_nibbles(data))
    rows, cols = SHAPES[use]
    lines, width = [max(place(layout, use, 4, r, c)[k] for r in range(rows) for c in range(cols)) + 1 for k in (0, 1)]
    v = pack(use, 4) if layout == "packed" else 1
    stride = 96 if layout == "packed" else 24
    plain = stride if layout == "packed" else stride // 8
    bytes_, nibbles, size = [], [], rows * cols
    ty, byte, kind, row = m.matrix("i4", use), m.matrix("u8", use), m.n(LAYOUTS[layout]), m.n(0)
    m.buffer("OutBytes", "u8", bytes_)
    out_words = []
    m.buffer("OutWords", "u32", out_words)
    steps = []

    def region(memory, n):
        base = len(memory)
        memory.extend([UNTOUCHED] * (-(-n // 64) * 64))
        return base

    def loaded(value, expected, op="OpUConvert"):
        base = region(bytes_, size)
        m.store("OutBytes", base, m.op(f"{op} {byte} {value}"), cols)
        signed = lambda x: x if op == "OpUConvert" or x < 8 else x + 240
        steps.append(lambda: result_bytes.__setitem__(slice(base, base + size), [signed(x) for x in expected]))

    whole = lambda: m.op(f"OpCooperativeMatrixLoadKHR {ty} {m.at('In', 0)} {row} {m.n(2)}")
    values = load(data, "rows", use, 4, 0, 16)

    def stored(n, instruction, **how):
        base = region(nibbles, n)
        value = whole()
        m.do(instruction(m.at("OutWords", base // 8), value))
        steps.append(lambda: store(result, values, layout, use, 4, base, **how))

    loaded(m.load(ty, "In", 8, plain, LAYOUTS[layout]), load(data, layout, use, 4, 64, stride))
    stored(lines * stride, lambda p, o: f"OpCooperativeMatrixStoreKHR {p} {o} {kind} {m.n(plain)}", stride=stride)
    x, y = 2, 3 * v
    loaded(m.op(f"OpCooperativeMatrixLoadOffsetINTEL {ty} {m.at('In', 1)} {m.dyn(x)} {m.dyn(y)} {kind} {m.dyn(stride)}"),
           load(data, layout, use, 4, 8, stride, x, y), "OpSConvert")
    stored((lines + x) * stride, lambda p, o: f"OpCooperativeMatrixStoreOffsetINTEL {p} {m.n(x)} {m.n(y)} {o} {kind} {m.n(stride)}",
           stride=stride, x=x, y=y)
    bound = (x + lines - lines // 2, y + width - 3 * v)
    loaded(m.op(f"OpCooperativeMatrixLoadCheckedINTEL {ty} {m.at('In', 1)} {m.dyn(x)} {m.dyn(y)} {kind} {m.dyn(bound[0])} {m.dyn(bound[1])} {m.dyn(stride)}"),
           load(data, layout, use, 4, 8, stride, x, y, bound))
    stored((lines + x) * stride, lambda p, o: f"OpCooperativeMatrixStoreCheckedINTEL {p} {m.dyn(x)} {m.dyn(y)} {o} {kind} {m.dyn(bound[0])} {m.dyn(bound[1])} {m.dyn(stride)}",
           stride=stride, x=x, y=y, bound=bound)
    before = (-1, -2 * v)
    bound = (lines + 3, width)
    loaded(m.op(f"OpCooperativeMatrixLoadCheckedINTEL {ty} {m.at('In', 0)} {m.dyn(before[0])} {m.dyn(before[1])} {kind} {m.dyn(bound[0])} {m.dyn(bound[1])}"),
           load(data, layout, use, 4, 0, width, *before, bound))
    result, result_bytes = list(nibbles), list(bytes_)
    out_words += words_of_nibbles(nibbles)
    for step in steps:
        step()
    m.write(f"access-i4-{use}-{layout}", {"OutBytes": result_bytes, "OutWords": words_of_nibbles(result)})


def int4_elements(use):
    m = Module(*khr_types("u8", use), f"Elements of 4-bit integers as {use.upper()}: their coordinates, conversions of them, and matrices made of one.")
    m.cap("CooperativeMatrixCheckedInstructionsINTEL", "CooperativeMatrixInvocationInstructionsINTEL")
    m.ext(JOINT)
    rows, cols = SHAPES[use]
    size, word, elem = rows * cols, m.scalar("u32"), m.scalar("i4")
    data = [(5 * i) % 16 for i in range(size)]
    m.buffer("In", "u32", words_of_nibbles(data))
    m.buffer("Out", "u8", [UNTOUCHED] * (4 * size))
    ty, byte = m.matrix("i4", use), m.matrix("u8", use)
    pf, pm = m.raw("pf_i4", f"OpTypePointer Function {elem}"), m.raw("pf_matrix", f"OpTypePointer Function {ty}")
    pair = m.raw("pair", f"OpTypeVector {word} 2")
    m.do(f"%matrix = OpVariable {pm} Function")
    m.do(f"OpStore %matrix " + m.op(f"OpCooperativeMatrixLoadKHR {ty} {m.at('In', 0)} {m.n(0)} {m.n(cols // 8)}"))

    def body(i, pointer):
        whole = m.op(f"OpLoad {ty} %matrix")
        coord = m.op(f"OpCooperativeMatrixGetElementCoordINTEL {pair} {whole} {i}")
        r, c = [m.op(f"OpCompositeExtract {word} {coord} {k}") for k in (0, 1)]
        old = m.op(f"OpUConvert {word} " + m.op(f"OpLoad {elem} {pointer}"))
        more = m.op(f"OpIAdd {word} {old} " + m.op(f"OpIAdd {word} {r} {c}"))
        m.do(f"OpStore {pointer} " + m.op(f"OpUConvert {elem} {more}"))

    each_element(m, ty, pf, "%matrix", body)
    m.store("Out", 0, m.op(f"OpUConvert {byte} " + m.op(f"OpLoad {ty} %matrix")), cols)
    seven, thirteen = m.const("i4", 7), m.const("i4", 13)
    m.store("Out", size, m.op(f"OpSConvert {byte} " + m.op(f"OpCompositeConstruct {ty} {thirteen}")), cols)
    x, y, h, w = 3, -2, rows, cols - 3
    made = m.op(f"OpCooperativeMatrixConstructCheckedINTEL {ty} {m.dyn(x)} {m.dyn(y)} {m.dyn(h)} {m.dyn(w)} {seven}")
    m.store("Out", 2 * size, m.op(f"OpUConvert {byte} {made}"), cols)
    # To 4 bits and back: the low ones are left.
    bytes_ = m.load(byte, "Out", 0, cols)
    more = m.op(f"OpIAdd {byte} {bytes_} {bytes_}")
    m.store("Out", 3 * size, m.op(f"OpUConvert {byte} " + m.op(f"OpUConvert {ty} {more}")), cols)
    first = [(data[i] + i // cols + i % cols) % 16 for i in range(size)]
    checked = [7 if 0 <= x + r < h and 0 <= y + c < w else 0 for r in range(rows) for c in range(cols)]
    m.write(f"elements-i4-{use}", {"Out": first + [13 + 240] * size + checked + [2 * v % 16 for v in first]})


def int4_product(a_signed, b_signed, packed):
    kinds = "".join("s" if x else "u" for x in (a_signed, b_signed))
    m = Module(f"A product of 4-bit integers, A {'' if a_signed else 'un'}signed and B {'' if b_signed else 'un'}signed; B {'packed' if packed else 'by rows'}.")
    m.ext(JOINT)
    if packed:
        m.cap("PackedCooperativeMatrixINTEL")
    rows, cols, deep = 8, 16, 32
    a, b = [(3 * i + i // 7) % 16 for i in range(rows * deep)], [(5 * i + i // 11) % 16 for i in range(deep * cols)]
    total = "s32" if a_signed or b_signed else "u32"
    c = [7 * i % 1000 for i in range(rows * cols)]
    v = 8 if packed else 1
    there = [0] * len(b)
    for r in range(deep):
        for k in range(cols):
            there[(r // v) * cols * v + k * v + r % v] = b[r * cols + k]
    m.buffer("A", "u32", words_of_nibbles(a)), m.buffer("B", "u32", words_of_nibbles(there)), m.buffer("C", total, c)
    m.buffer("D", total, [UNTOUCHED] * (rows * cols))
    ma = m.load(m.matrix("i4", "a", (rows, deep)), "A", 0, deep // 8)
    mb = m.load(m.matrix("i4", "b", (deep, cols)), "B", 0, cols * v if packed else cols // 8, LAYOUTS["packed" if packed else "rows"])
    tc = m.matrix(total, "c", (rows, cols))
    mc = m.load(tc, "C", 0, cols)
    names = [n for n, yes in (("MatrixASignedComponentsKHR", a_signed), ("MatrixBSignedComponentsKHR", b_signed)) if yes]
    if names:
        names += ["MatrixCSignedComponentsKHR", "MatrixResultSignedComponentsKHR"]
    m.store("D", 0, m.op(f"OpCooperativeMatrixMulAddKHR {tc} {ma} {mb} {mc} {'|'.join(names)}".rstrip()), cols)
    value = lambda x, signed: x - 16 if signed and x > 7 else x
    sums = [c[i * cols + j] + sum(value(a[i * deep + k], a_signed) * value(b[k * cols + j], b_signed) for k in range(deep))
            for i in range(rows) for j in range(cols)]
    m.write(f"product-i4-{kinds}{'-packed' if packed else ''}", {"D": sums})


def main():
    for use in USES:
        for layout in LAYOUTS:
            if (use, layout) != ("c", "packed"):
                int4_access(use, layout)
        int4_elements(use)
    for signs in ((False, False), (True, True), (True, False), (False, True)):
        for packed in (False, True):
            int4_product(*signs, packed)
    for use in USES:
        for t in ("s8", "f16", "f32"):
            for layout in ("rows", "columns"):
                arm(t, use, layout)
        for t in ("f16", "f32", "s32" if use == "c" else "s8"):
            qcom(t, use)
    for use in USES:
        for t in ("s8", "f16", "f32"):
            for layout in LAYOUTS:
                if (use, layout) != ("c", "packed"):
                    access(t, use, layout)
            elements(t, use)
            apply(t, use)
        conversions(use)
    prefetches()
    numbers()
    for packed in (False, True):
        tail = "-packed" if packed else ""
        products("tf32" + tail, "of tf32", 0x20, packed)
        products("bf16" + tail, "of bfloat16", 0x40, packed)
        products("bf16-c" + tail, "of bfloat16 with C as bfloat16", 0xc0, packed)
        products("bf16-result" + tail, "of bfloat16 with the result as bfloat16", 0x140, packed)
        products("bf16-all" + tail, "of bfloat16 with C and the result as bfloat16", 0x1c0, packed)
    if "--check" in sys.argv:
        there = {p.name: p.read_text() for p in FOLDER.glob("*") if p.suffix in (".spvasm", ".toml")}
        wrong = sorted(n for n in set(there) | set(FILES) if there.get(n) != FILES.get(n))
        print("\n".join(wrong) or f"{len(FILES)} files are as they should be")
        return 1 if wrong else 0
    FOLDER.mkdir(exist_ok=True)
    for name, text in FILES.items():
        (FOLDER / name).write_text(text)
    return 0


sys.exit(main())
