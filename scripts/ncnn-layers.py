#!/usr/bin/env python3
"""ncnn's layers on Vulkan and on the CPU, compared.

    ncnn-layers.py [TEXT]      runs every case, or those whose names contain TEXT, and prints a line each and a table

Needs the Python packages ncnn and numpy. ncnn opens a driver by itself where VK_ICD_FILENAMES or VK_DRIVER_FILES names one,
and would see no layer: the named driver is put where loaders look, and the variables are removed.

A case is right, wrong (the normalized mean square error is beyond the bound) or unsupported (ncnn does not run it on Vulkan).
"""

import json
import math
import os
import shutil
import sys
import tempfile
import time


def let_loaders_find_the_driver():
    """Moves the driver from the variables, which ncnn looks at, to a folder, which loaders look at."""
    manifests = os.environ.pop("VK_DRIVER_FILES", None) or os.environ.get("VK_ICD_FILENAMES")
    os.environ.pop("VK_ICD_FILENAMES", None)
    if not manifests:
        return
    data = tempfile.mkdtemp(prefix="ncnn-layers-")
    folder = os.path.join(data, "vulkan", "icd.d")
    os.makedirs(folder)
    for path in manifests.split(os.pathsep):
        shutil.copy(path, folder)
    # No driver of the machine's own.
    os.environ["XDG_DATA_HOME"] = data
    os.environ["XDG_DATA_DIRS"] = data
    os.environ["XDG_CONFIG_DIRS"] = data


let_loaders_find_the_driver()

import ncnn  # noqa: E402
import numpy as np  # noqa: E402

# Of half-precision factors; ggml's bound for products is the same.
BOUND = 5e-4


def convolution(channels, out, kernel, width, height):
    def make(rng):
        weights = rng.uniform(-1, 1, out * channels * kernel * kernel).astype(np.float32)
        bias = rng.uniform(-1, 1, out).astype(np.float32)
        layer = f"Convolution layer 1 1 in out 0={out} 1={kernel} 4={kernel // 2} 5=1 6={weights.size}"
        # Weights begin with the tag of single precision.
        return layer, bytes(4) + weights.tobytes() + bias.tobytes(), (channels, height, width)

    return f"Convolution {channels} to {out}, {kernel}x{kernel}, {width}x{height}", make


def inner_product(count, out):
    def make(rng):
        weights = rng.uniform(-1, 1, out * count).astype(np.float32)
        bias = rng.uniform(-1, 1, out).astype(np.float32)
        layer = f"InnerProduct layer 1 1 in out 0={out} 1=1 2={weights.size}"
        return layer, bytes(4) + weights.tobytes() + bias.tobytes(), (37, count)

    return f"InnerProduct {count} to {out}", make


def gemm(m, n, k):
    def make(rng):
        weights = rng.uniform(-1, 1, n * k).astype(np.float32)
        # B is constant, and stored transposed; there is no C.
        layer = f"Gemm layer 1 1 in out 3=1 5=1 6=1 8={n} 9={k} 10=-1"
        return layer, bytes(4) + weights.tobytes(), (m, k)

    return f"Gemm {m}x{n}x{k}", make


CASES = [
    convolution(16, 32, 1, 16, 16),
    convolution(64, 64, 1, 14, 14),
    convolution(32, 64, 3, 15, 13),
    convolution(3, 16, 3, 32, 32),
    inner_product(256, 64),
    gemm(64, 64, 64),
    gemm(33, 48, 96),
]


def run(layer, weights, data, vulkan, half):
    net = ncnn.Net()
    net.opt.use_vulkan_compute = vulkan
    for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"):
        setattr(net.opt, option, half and vulkan)
    for option in ("use_bf16_storage", "use_bf16_packed"):
        setattr(net.opt, option, False)
    folder = tempfile.mkdtemp(prefix="ncnn-layers-")
    param, model = os.path.join(folder, "param"), os.path.join(folder, "model")
    with open(param, "w") as file:
        file.write(f"7767517\n2 2\nInput in 0 1 in\n{layer}\n")
    with open(model, "wb") as file:
        file.write(weights)
    try:
        if net.load_param(param) or net.load_model(model):
            raise RuntimeError("ncnn can't load the model")
        extractor = net.create_extractor()
        extractor.input("in", ncnn.Mat(data))
        status, out = extractor.extract("out")
        if status:
            raise RuntimeError(f"extract returned {status}")
        return np.array(out, dtype=np.float64)
    finally:
        shutil.rmtree(folder)


def main():
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    if ncnn.get_gpu_count() == 0:
        sys.exit("ncnn-layers.py: ncnn finds no Vulkan device")
    info = ncnn.get_gpu_info(0)
    matrices = getattr(info, "support_cooperative_matrix", None)
    print(f"device: {info.device_name() if callable(getattr(info, 'device_name', None)) else 0}; matrices: "
          f"{matrices() if callable(matrices) else 'not said'}", flush=True)
    tally = {"right": 0, "wrong": 0}
    for index, (name, make) in enumerate(CASES):
        if only not in name:
            continue
        rng = np.random.default_rng(index)
        layer, weights, shape = make(rng)
        data = rng.uniform(-1, 1, shape).astype(np.float32)
        wanted = run(layer, weights, data, False, False)
        start = time.monotonic()
        got = run(layer, weights, data, True, True)
        took = time.monotonic() - start
        if got.shape != wanted.shape or not np.isfinite(got).all():
            error = math.inf
        else:
            error = float(((got - wanted) ** 2).sum() / (wanted**2).sum())
        verdict = "right" if error <= BOUND else "wrong"
        tally[verdict] += 1
        print(f"{name}: {verdict} ({error:.1e}, {took:.2f} s)", flush=True)
    print(json.dumps(tally), flush=True)
    # ncnn's instance may be destroyed after its driver is unloaded: end here.
    os._exit(1 if tally["wrong"] or not tally["right"] else 0)


if __name__ == "__main__":
    main()
