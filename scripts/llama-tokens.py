#!/usr/bin/env python3
"""llama.cpp with small models of random weights: the tokens that it generates on Vulkan and on the CPU, compared.

    llama-tokens.py worker LIBRARIES    (started by `table`) runs the cases that it reads, one JSON object a line
    llama-tokens.py cases [quick]       lists the cases
    llama-tokens.py table LIBRARIES [--quick] [--only TEXT] [--json FILE] [--log FILE] [--limit SECONDS] [--jobs N]
                    [--budget SECONDS] NAME=COMMAND ...

The columns, the options and the verdicts are those of engines.py. LIBRARIES has libllama beside ggml's libraries. Python 3 alone.

A case is a model, which is written as a GGUF file, and a way of computing attention. The reference is the CPU with the same weights
in single precision, so that its own rounding is none: it reads a prompt and then generates tokens, each time the likeliest. Vulkan
reads the same prompt and the reference's tokens, so that every step is compared behind the same text; where its likeliest tokens
are all the same, it generates the same text by itself. So does the CPU with the model as it is, and its figures are said too.

A case is right if the normalized mean square error of all logits is within the bound and each token is the reference's. Where two
tokens are almost as good as each other, rounding decides: a step whose two best logits differ by less than the bound lets them
move is close, and may have any token that is as near to the best. How many steps are close is said.
"""

import array
import ctypes
import math
import os
import random
import re
import struct
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import engines  # noqa: E402
from engines import FLOAT, INT, PROGRAM, P, SIZE, TEXT  # noqa: E402

# ---------------------------------------------------------------------------- llama.cpp's C API

BOOL = ctypes.c_bool
U32 = ctypes.c_uint32


class ModelParams(ctypes.Structure):
    _fields_ = [
        ("devices", P), ("tensor_buft_overrides", P), ("n_gpu_layers", INT), ("split_mode", INT), ("load_mode", INT),
        ("lazy_mode", INT), ("main_gpu", INT), ("tensor_split", P), ("progress_callback", P), ("progress_callback_data", P),
        ("kv_overrides", P), ("vocab_only", BOOL), ("check_tensors", BOOL), ("use_extra_bufts", BOOL), ("no_host", BOOL),
        ("no_alloc", BOOL), ("load_mtp", BOOL),
    ]  # fmt: skip


class ContextParams(ctypes.Structure):
    _fields_ = [
        ("n_ctx", U32), ("n_batch", U32), ("n_ubatch", U32), ("n_seq_max", U32), ("n_rs_seq", U32), ("n_outputs_max", U32),
        ("n_outputs_max_per_seq", U32), ("n_threads", INT), ("n_threads_batch", INT), ("ctx_type", INT),
        ("rope_scaling_type", INT), ("pooling_type", INT), ("attention_type", INT), ("flash_attn_type", INT),
        ("rope_freq_base", FLOAT), ("rope_freq_scale", FLOAT), ("yarn_ext_factor", FLOAT), ("yarn_attn_factor", FLOAT),
        ("yarn_beta_fast", FLOAT), ("yarn_beta_slow", FLOAT), ("yarn_orig_ctx", U32), ("defrag_thold", FLOAT), ("cb_eval", P),
        ("cb_eval_data", P), ("type_k", INT), ("type_v", INT), ("abort_callback", P), ("abort_callback_data", P),
        ("embeddings", BOOL), ("offload_kqv", BOOL), ("no_perf", BOOL), ("op_offload", BOOL), ("swa_full", BOOL),
        ("kv_unified", BOOL), ("samplers", P), ("n_samplers", SIZE), ("ctx_other", P),
    ]  # fmt: skip


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", INT), ("token", P), ("embd", P), ("pos", P), ("n_seq_id", P), ("seq_id", P), ("logits", P)]


FUNCTIONS = {
    "llama_backend_init": (None, []),
    "llama_model_default_params": (ModelParams, []),
    "llama_context_default_params": (ContextParams, []),
    "llama_model_load_from_file": (P, [TEXT, ModelParams]),
    "llama_model_free": (None, [P]),
    "llama_model_n_layer": (INT, [P]),
    "llama_model_n_embd": (INT, [P]),
    "llama_model_get_vocab": (P, [P]),
    "llama_vocab_n_tokens": (INT, [P]),
    "llama_init_from_model": (P, [P, ContextParams]),
    "llama_free": (None, [P]),
    "llama_n_ctx": (U32, [P]),
    "llama_n_batch": (U32, [P]),
    "llama_n_ubatch": (U32, [P]),
    "llama_decode": (INT, [P, Batch]),
    "llama_get_logits_ith": (ctypes.POINTER(FLOAT), [P, INT]),
    "llama_log_set": (None, [P, P]),
}
LOG, DEBUG = ctypes.CFUNCTYPE(None, INT, TEXT, P), 1


class Llama:
    """libllama's functions, by their names without `llama_`."""

    def __init__(self, folder):
        name = next((n for n in sorted(os.listdir(folder)) if n.startswith("libllama.") and n.endswith(".so")), None)
        if not name:
            sys.exit(f"{PROGRAM}: no libllama in {folder}: run scripts/engines.sh fetch")
        library = ctypes.CDLL(os.path.join(folder, name), ctypes.RTLD_GLOBAL)
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name.removeprefix("llama_"), function)
        # What its log says.
        self.said = []
        self.callback = LOG(self.hear)
        self.log_set(ctypes.cast(self.callback, P), None)
        self.backend_init()
        self.check_layouts()

    def hear(self, level, text, _data):
        if level == DEBUG:
            return
        text = text.decode(errors="replace")
        self.said.append(text)
        sys.stderr.write(text)

    def check_layouts(self):
        """Ends the process where the structures are not those of this library: their defaults tell."""
        model, context = self.model_default_params(), self.context_default_params()
        found = {
            "n_gpu_layers": (model.n_gpu_layers, -1),
            "main_gpu": (model.main_gpu, 0),
            "booleans of a model": (bytes(model)[ModelParams.vocab_only.offset :][:6], bytes([0, 0, 1, 0, 0, 0])),
            "sizes": ((context.n_ctx, context.n_batch, context.n_ubatch, context.n_seq_max), (512, 2048, 512, 1)),
            "kinds": ((context.ctx_type, context.pooling_type, context.flash_attn_type), (0, -1, -1)),
            "yarn": ((context.yarn_ext_factor, context.defrag_thold), (-1.0, -1.0)),
            "types of the cache": ((context.type_k, context.type_v), (1, 1)),
            "booleans of a context": (bytes(context)[ContextParams.embeddings.offset :][:6], bytes([0, 1, 1, 1, 1, 0])),
            "pointers": ((context.samplers, context.n_samplers, context.ctx_other), (None, 0, None)),
        }
        for what, (got, wanted) in found.items():
            if got != wanted:
                sys.exit(f"{PROGRAM}: another libllama than this is made for: {what}: {got}, not {wanted}")


# ---------------------------------------------------------------------------- models

# The vocabulary is a multiple of nothing.
EMBEDDING, HEAD, LAYERS, VOCABULARY, CONTEXT = 256, 64, 2, 317, 256
FEED_FORWARD = 512
# Of a prompt that is read in two parts, so that the second has a past.
PROMPT, GENERATED = (45, 19), 32

U32_VALUE, F32_VALUE, TEXT_VALUE = 4, 6, 8


def text_of(text):
    return struct.pack("<Q", len(text)) + text.encode()


def write_gguf(path, values, tensors):
    """A GGUF file of version 3: `tensors` are (name, sizes, number of the type, bytes)."""
    alignment = 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
    for key, value in values.items():
        head += text_of(key)
        if isinstance(value, str):
            head += struct.pack("<I", TEXT_VALUE) + text_of(value)
        elif isinstance(value, float):
            head += struct.pack("<If", F32_VALUE, value)
        else:
            head += struct.pack("<II", U32_VALUE, value)
    offset = 0
    for name, sizes, kind, data in tensors:
        head += text_of(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)
        offset += len(data) + -len(data) % alignment
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % alignment))
        for *_, data in tensors:
            file.write(data + bytes(-len(data) % alignment))


def write_model(ggml, path, exact, case):
    """A model of the architecture "llama" with random weights, and the same weights in single precision; returns a prompt.

    Matrices have the gain 1 unless said. A few tokens are likelier than the others, which makes clear winners. Which experts a token
    goes to must not hang on rounding, or one wrong bit would be another model: the first elements of a token's embedding are large
    and choose its experts, and no layer writes them.
    """
    heads, keys, experts = EMBEDDING // HEAD, case["kv"], case.get("experts", 0)
    rng = random.Random(f"{case['op']} {keys}")
    tensors, singles = [], []

    def add(name, sizes, floats, kind=case["type"]):
        data = engines.stored(ggml, kind, floats, sizes[0])
        tensors.append((name + ".weight", sizes, ggml.types[kind], data))
        single = engines.restored(ggml, kind, data, len(floats)).tobytes()
        singles.append((name + ".weight", sizes, ggml.types["f32"], single))

    def matrix(name, *sizes, gain=1.0, writes=False, likely=()):
        """`writes`: its results are added to the embedding. `likely` are rows of a larger gain."""
        scale = gain * math.sqrt(3 / sizes[0])
        floats = array.array("f", (rng.uniform(-scale, scale) for _ in range(math.prod(sizes))))
        for row in likely:
            for index in range(row * sizes[0], (row + 1) * sizes[0]):
                floats[index] *= 3
        if writes:
            width, rows = sizes[0], sizes[1]
            for start in range(0, len(floats), width * rows):
                floats[start : start + experts * width] = array.array("f", bytes(4 * experts * width))
        add(name, sizes, floats)

    def norm(name):
        add(name, [EMBEDDING], array.array("f", (rng.uniform(0.5, 1.5) for _ in range(EMBEDDING))), "f32")

    scale = math.sqrt(3)
    rows = [[rng.uniform(-scale, scale) for _ in range(EMBEDDING)] for _ in range(VOCABULARY)]
    for row in rows:
        row[:experts] = rng.sample([1.0 * (1 + i) for i in range(experts)], experts)
    add("token_embd", [EMBEDDING, VOCABULARY], array.array("f", (x for row in rows for x in row)))
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        norm(block + "attn_norm")
        # Attention looks at few places.
        matrix(block + "attn_q", EMBEDDING, heads * HEAD, gain=2.0)
        matrix(block + "attn_k", EMBEDDING, keys * HEAD)
        matrix(block + "attn_v", EMBEDDING, keys * HEAD)
        matrix(block + "attn_output", heads * HEAD, EMBEDDING, gain=1.5, writes=True)
        norm(block + "ffn_norm")
        suffix, more = ("_exps", [experts]) if experts else ("", [])
        if experts:
            floats = array.array("f", (1.0 if i == e else 0.0 for e in range(experts) for i in range(EMBEDDING)))
            add(block + "ffn_gate_inp", [EMBEDDING, experts], floats, "f32")
        matrix(block + "ffn_gate" + suffix, EMBEDDING, FEED_FORWARD, *more, gain=2.0)
        matrix(block + "ffn_up" + suffix, EMBEDDING, FEED_FORWARD, *more)
        matrix(block + "ffn_down" + suffix, FEED_FORWARD, EMBEDDING, *more, writes=True)
    norm("output_norm")
    matrix("output", EMBEDDING, VOCABULARY, likely=range(0, VOCABULARY, 16))
    values = {
        "general.architecture": "llama",
        "general.name": engines.name_of(case),
        "llama.context_length": CONTEXT,
        "llama.embedding_length": EMBEDDING,
        "llama.block_count": LAYERS,
        "llama.feed_forward_length": FEED_FORWARD,
        "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": keys,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": HEAD,
        "llama.vocab_size": VOCABULARY,
        "tokenizer.ggml.model": "no_vocab",
    }
    if experts:
        values |= {"llama.expert_count": experts, "llama.expert_used_count": case["used"]}
    write_gguf(path, values, tensors)
    write_gguf(exact, values, singles)
    return [rng.randrange(VOCABULARY) for _ in range(sum(PROMPT))]


def all_cases():
    """Every case, as a dictionary; those with `quick` are the part that tests run."""
    cases = []
    for attention in ("flash", "plain"):
        for kind in ("f16", "q4_0", "q8_0", "f32", "bf16", "q4_k", "iq4_nl"):
            cases.append({"op": "dense", "type": kind, "attention": attention, "kv": 2})
        cases.append({"op": "dense", "type": "f16", "attention": attention, "kv": 4})
        for kind in ("f16", "q4_0", "q8_0"):
            cases.append({"op": "experts", "type": kind, "attention": attention, "kv": 2, "experts": 4, "used": 2})
    cases.append({"op": "dense", "type": "q4_0", "attention": "flash", "kv": 2, "cache": "q8_0"})
    for case in cases:
        case["quick"] = case["attention"] == "flash" and case["type"] in ("f16", "q4_0") and "cache" not in case
    return cases


# ---------------------------------------------------------------------------- the worker

class Model:
    """A model on a device, with a context."""

    def __init__(self, llama, path, device, case, types):
        self.llama = llama
        # Without devices in the list it stays on the CPU; with none named, llama.cpp would hand large products to Vulkan.
        self.devices = (P * 2)(device, None)
        params = llama.model_default_params()
        params.devices = ctypes.cast(self.devices, P)
        params.n_gpu_layers = 99 if device else 0
        self.model = llama.model_load_from_file(path.encode(), params)
        if not self.model:
            raise RuntimeError("llama.cpp can't load the model")
        shape = llama.model_n_layer(self.model), llama.model_n_embd(self.model)
        tokens = llama.vocab_n_tokens(llama.model_get_vocab(self.model))
        assert (*shape, tokens) == (LAYERS, EMBEDDING, VOCABULARY), (shape, tokens)
        params = llama.context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = CONTEXT, 64, 64
        # More would wait for each other longer than they work.
        params.n_threads = params.n_threads_batch = 1
        params.flash_attn_type = 1 if case["attention"] == "flash" else 0
        params.offload_kqv = params.op_offload = device is not None
        if "cache" in case:
            params.type_k = params.type_v = types[case["cache"]]
        llama.said.clear()
        self.context = llama.init_from_model(self.model, params)
        if not self.context:
            raise RuntimeError("llama.cpp can't make a context")
        shape = llama.n_ctx(self.context), llama.n_batch(self.context), llama.n_ubatch(self.context)
        assert shape == (CONTEXT, 64, 64), shape
        # The graph is cut wherever an operation is for another device.
        self.parts = max(map(int, re.findall(r"splits = (\d+)", "".join(llama.said))))

    def decode(self, tokens):
        """The logits behind each of the tokens."""
        words, wanted = (INT * len(tokens))(*tokens), (ctypes.c_int8 * len(tokens))(*[1] * len(tokens))
        batch = Batch(len(tokens), ctypes.cast(words, P), None, None, None, None, ctypes.cast(wanted, P))
        status = self.llama.decode(self.context, batch)
        if status != 0:
            raise RuntimeError(f"llama_decode returned {status}")
        return [self.llama.get_logits_ith(self.context, index)[:VOCABULARY] for index in range(len(tokens))]

    def generate(self, prompt, given=None):
        """The logits behind all tokens, and the likeliest token of each step; `given` are read in their place."""
        logits, start = [], 0
        for count in PROMPT:
            logits += self.decode(prompt[start : start + count])
            start += count
        tokens = [likeliest(logits[-1])]
        while len(tokens) < GENERATED:
            logits += self.decode([given[len(tokens) - 1] if given else tokens[-1]])
            tokens.append(likeliest(logits[-1]))
        return logits, tokens

    def free(self):
        self.llama.free(self.context)
        self.llama.model_free(self.model)


def likeliest(logits):
    return max(range(len(logits)), key=logits.__getitem__)


# Of ggml for one operation; the logits of a model keep within it too, since its matrices have gains near 1.
BOUND = engines.BOUND


def compare(wanted, got, tokens, others):
    """The error of logits, how many tokens are equal, how many steps are close, and the steps that are wrong."""
    error = engines.error_of([x for row in got for x in row], [x for row in wanted for x in row])
    equal, close, bad = 0, 0, []
    for step, (token, other) in enumerate(zip(tokens, others)):
        row = wanted[sum(PROMPT) - 1 + step]
        # Each of two logits may move by the error that the bound allows.
        reach = 2 * math.sqrt(BOUND * sum(x * x for x in row) / len(row))
        best, second = sorted(row)[:-3:-1]
        close += best - second < reach
        equal += token == other
        if row[other] < best - reach:
            bad.append(step)
    return error, equal, close, bad


class Unsupported(Exception):
    """The device does not do an operation of the model."""


def run_case(ggml, llama, vulkan, case):
    with tempfile.TemporaryDirectory(prefix="llama-tokens-") as folder:
        path, exact = os.path.join(folder, "model.gguf"), os.path.join(folder, "exact.gguf")
        prompt = write_model(ggml, path, exact, case)

        def generate(path, device, case, given=None):
            model = Model(llama, path, device, case, ggml.types)
            # The table of embeddings is always the CPU's; the rest is the device's, or this would compare the CPU with itself.
            if model.parts > (2 if device else 1):
                raise Unsupported(f"the graph is in {model.parts} parts")
            result = model.generate(prompt, given)
            # Buffers on the device live as long as the worker (docs/drivers.md).
            if not device:
                model.free()
            return result

        wanted, tokens = generate(exact, None, {"attention": "plain", "cache": "f32"})
        print(f"{PROGRAM}: tokens {tokens}", file=sys.stderr, flush=True)
        got, others = generate(path, None, case, tokens)
        own, own_equal, *_ = compare(wanted, got, tokens, others)
        start = time.monotonic()
        try:
            got, others = generate(path, vulkan, case, tokens)
        except Unsupported as why:
            return {"verdict": "unsupported", "said": str(why)}
        took = time.monotonic() - start
    error, equal, close, bad = compare(wanted, got, tokens, others)
    said = f"{equal} of {GENERATED} tokens equal"
    if close:
        said += f", {close} close"
    if bad:
        said += f", step {bad[0]} has token {others[bad[0]]} for {tokens[bad[0]]}"
    said += f"; CPU {own:.1e}, {own_equal} equal"
    verdict = "right" if error <= BOUND and not bad else "wrong"
    return {"verdict": verdict, "error": error, "seconds": took, "said": said, "tokens": others, "wanted": tokens}


def worker(folder):
    ggml, _, vulkan = engines.open_ggml(folder)
    llama = Llama(folder)
    engines.serve(lambda case: run_case(ggml, llama, vulkan, case))


if __name__ == "__main__":
    engines.main(__doc__, worker, all_cases(), 900)
