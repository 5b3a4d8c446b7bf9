"""Facts of a CUDA device that decide how kernels for it are built: launches, products, convolutions, passes, copies.

    python -m benchmarks.gpu_facts [launches] [products] [convolutions] [strict] [fused] [passes] [copies] [--json FILE]

Microseconds of a call, median [lowest, highest] of five rounds in turns, results compared first. Each part is a process of
its own with a time limit, so that one that fails loses no other. Without a CUDA device it says so and measures nothing.
What was found stands in benchmarks/gpu.md; training steps of the peers: benchmarks/gpu_steps.py.
"""
from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.gpu_device import Product, Rows, Step, apart, captured, compare, found, same

LIMIT = 150.0
"""Seconds for each part."""
TO_DEVICE, TO_HOST = 1, 2
"""cudaMemcpyKind"""
SIZES = (128, 256, 512, 1024, 2048, 4096)
LAYERS = {      # (batch, channels, size, filters, window, stride, padding)
    "VGG-A 1": (64, 3, 224, 64, 3, 1, 1), "VGG-A 2": (64, 64, 112, 128, 3, 1, 1), "VGG-A 4": (64, 256, 56, 256, 3, 1, 1),
    "VGG-A 6": (64, 512, 28, 512, 3, 1, 1), "AlexNet 1": (128, 3, 224, 64, 11, 4, 2), "AlexNet 2": (128, 64, 27, 192, 5, 1, 2),
    "GoogLeNet 3x3": (128, 96, 28, 128, 3, 1, 1), "GoogLeNet 1x1": (128, 192, 28, 64, 1, 1, 0)}


def launches(rows: Rows) -> None:
    import cupy
    import torch
    sync = cupy.cuda.Device().synchronize
    x, y = cupy.zeros(256, cupy.float32), torch.zeros(256, device="cuda")
    raw = cupy.RawKernel('extern "C" __global__ void add(float* x) { x[threadIdx.x] += 1.0f; }', "add")
    element = cupy.ElementwiseKernel("float32 a", "float32 b", "b += a", "add_to")
    one = cupy.ones(256, cupy.float32)
    rows.add("launch, 256 elements", **compare({
        "RawKernel": lambda: raw((1,), (256,), (x,)), "ElementwiseKernel": lambda: element(one, x),
        "cupy.add out": lambda: cupy.add(x, one, out=x), "torch add_": lambda: y.add_(1.0)}, sync))
    stream = cupy.cuda.Stream(non_blocking=True)
    for count in (1, 20, 200, 1000):
        graph = captured(lambda n=count: [raw((1,), (256,), (x,)) for _ in range(n)], stream)
        before = float(x[0])
        graph.launch(stream)
        sync()
        same("graph", float(x[0]), before + count, 0.0)
        whole = torch.cuda.CUDAGraph()
        with torch.cuda.graph(whole):
            for _ in range(count):
                y.add_(1.0)
        graphs(rows, count, functools.partial(graph.launch, stream), whole.replay, stream, sync)
    lt_in_capture(rows, cupy, stream)


def graphs(rows: Rows, count: int, ours: Step, theirs: Step, stream: Any, sync: Step) -> None:
    """What replays of a graph of `count` small kernels, each after the other, take of the device and of the host."""
    def waited() -> None:
        ours()
        stream.synchronize()
    rows.add(f"graph of {count} nodes", **compare({"CuPy": ours, "torch": theirs, "CuPy, waiting for each": waited}, sync))
    rows.add(f"graph of {count} nodes, host alone", **compare({"CuPy": ours, "torch": theirs}, lambda: None, seconds=2e-4))
    sync()


def lt_in_capture(rows: Rows, cupy: Any, stream: Any) -> None:
    """cuBLASLt through ctypes while CuPy's stream captures; CuPy's own product refuses."""
    with stream:
        a, b = (cupy.random.random((512, 512), dtype=cupy.float32) for _ in range(2))
        out = cupy.full((512, 512), np.nan, cupy.float32)
        product = Product((((value.data.ptr, value.shape)) for value in (a, b, out)), Product.FLOAT, Product.EXACT)
        product(stream.ptr)
        eager = out.get()
        same("cuBLASLt", eager, cupy.asnumpy(a).astype(np.float64) @ cupy.asnumpy(b), 1e-5)
        graph = captured(lambda: product(stream.ptr), stream)
        out.fill(np.nan)
        graph.launch(stream)
        rows.add("cuBLASLt by ctypes in a capture", replay_is_bitwise_eager=bool(np.array_equal(out.get(), eager)))
        stream.begin_capture()
        try:
            cupy.matmul(a, b, out=out)
        except NotImplementedError as error:
            rows.add("cupy.matmul in a capture", refused=str(error))
        finally:
            stream.end_capture()
    other = compare({"cuBLASLt by ctypes, 64": _small(cupy, stream), "cupy.matmul, 64": _small_cupy(cupy)},
                    cupy.cuda.Device().synchronize)
    rows.add("host cost of a small product", **other)


def _small(cupy: Any, stream: Any) -> Callable[[], None]:
    a = cupy.ones((64, 64), cupy.float32)
    out = cupy.empty_like(a)
    product = Product((((value.data.ptr, value.shape)) for value in (a, a, out)), Product.FLOAT, Product.EXACT)
    return lambda: product(stream.ptr)


def _small_cupy(cupy: Any) -> Callable[[], Any]:
    a = cupy.ones((64, 64), cupy.float32)
    out = cupy.empty_like(a)
    return lambda: cupy.matmul(a, a, out=out)


def products(rows: Rows) -> None:
    import cupy
    import torch
    stream = cupy.cuda.Stream(non_blocking=True)
    for policy, dtype, kind, arithmetic in (("float32", torch.float32, Product.FLOAT, Product.EXACT),
                                            ("TF32", torch.float32, Product.FLOAT, Product.TF32),
                                            ("bfloat16", torch.bfloat16, Product.BFLOAT, Product.EXACT)):
        torch.backends.cuda.matmul.allow_tf32 = policy == "TF32"
        for size in SIZES:
            a, b = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
            out = torch.full_like(a, float("nan"))
            product = Product((((v.data_ptr(), tuple(v.shape))) for v in (a, b, out)), kind, arithmetic)
            product(stream.ptr)
            stream.synchronize()
            reference = (a.double() @ b.double()).cpu()
            tolerance = {"float32": 1e-5, "TF32": 2e-3, "bfloat16": 5e-3}[policy]
            same("cuBLASLt", out.double().cpu(), reference, tolerance)
            best = min(range(product.count), key=lambda i: _alone(product, stream, i))
            times = compare(_products(torch, cupy, a, b, out, product, stream, best, policy), torch.cuda.synchronize)
            times = {name: ([round(v / 20, 2) for v in each] if "graph" in name else each) for name, each in times.items()}
            rate = 2e-6 * size ** 3 / min(each[0] for each in times.values())
            rows.add(f"product {size}, {policy}", teraflops=round(rate, 1), best_algorithm=best, **times)


def _products(torch: Any, cupy: Any, a: Any, b: Any, out: Any, product: Product, stream: Any, best: int,
              policy: str) -> dict[str, Callable[[], Any]]:
    first = captured(lambda: [product(stream.ptr) for _ in range(20)], stream)
    timed = captured(lambda: [product(stream.ptr, best) for _ in range(20)], stream)
    other, whole = torch.empty_like(out), torch.cuda.CUDAGraph()
    torch.mm(a, b, out=other)
    with torch.cuda.graph(whole):
        for _ in range(20):
            torch.mm(a, b, out=other)
    made = {"Lt, graph": lambda: first.launch(stream), "Lt, timed, graph": lambda: timed.launch(stream),
            "torch, graph": whole.replay, "torch": lambda: torch.mm(a, b, out=other), "Lt": lambda: product(stream.ptr)}
    if policy == "float32":
        x, y, z = (cupy.from_dlpack(value) for value in (a, b, other))
        made["cupy"] = lambda: cupy.matmul(x, y, out=z)
    return made


def _alone(product: Product, stream: Any, which: int) -> float:
    try:
        return float(compare({"it": lambda: product(stream.ptr, which)}, stream.synchronize, 3, 0.003)["it"][0])
    except RuntimeError:
        return float("inf")


def convolutions(rows: Rows, policies: tuple[str, ...] = ("TF32", "bfloat16")) -> None:
    import torch
    torch.backends.cudnn.benchmark = True
    for policy in policies:
        torch.backends.cudnn.allow_tf32 = policy == "TF32"
        dtype = torch.bfloat16 if policy == "bfloat16" else torch.float32
        for name, layer in LAYERS.items():
            batch, channels, size, filters, window, stride, pad = layer
            x = torch.randn(batch, channels, size, size, device="cuda", dtype=dtype)
            w = torch.randn(filters, channels, window, window, device="cuda", dtype=dtype) * 0.05
            contestants, values, extra = {}, {}, {}
            for layout in (torch.contiguous_format, torch.channels_last):
                short = "NHWC" if layout is torch.channels_last else "NCHW"
                for what, call in _convolution(torch, x, w, layout, stride, pad, channels == 3).items():
                    values[what, short] = call()
                    call()
                    torch.cuda.reset_peak_memory_stats()
                    before = torch.cuda.memory_allocated()
                    kept = call()
                    extra[f"{what} {short} MiB"] = (torch.cuda.max_memory_allocated() - before
                                                    - kept.numel() * kept.element_size()) >> 20
                    contestants[f"{what} {short}"] = call
            for what in ("forward", "input gradient", "filter gradient"):
                if (what, "NHWC") in values:
                    same(f"{name} {what}", values[what, "NHWC"].float().cpu(), values[what, "NCHW"].float().cpu(), 1e-2)
            values.clear()
            rows.add(f"{name}, {policy}", **compare(contestants, torch.cuda.synchronize, 3, 0.01), **extra)


def _convolution(torch: Any, x: Any, w: Any, layout: Any, stride: int, pad: int, first: bool) -> dict[str, Callable[[], Any]]:
    x, w = x.contiguous(memory_format=layout), w.contiguous(memory_format=layout)
    y = torch.nn.functional.conv2d(x, w, None, stride, pad)
    torch.manual_seed(0)
    dy = torch.randn(y.shape, device="cuda", dtype=y.dtype).contiguous(memory_format=layout)
    back = torch.ops.aten.convolution_backward

    def gradient(which: int) -> Any:
        mask = [which == 0, which == 1, False]
        return back(dy, x, w, None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1, mask)[which]
    made = {"forward": lambda: torch.nn.functional.conv2d(x, w, None, stride, pad), "filter gradient": lambda: gradient(1)}
    return made if first else {**made, "input gradient": lambda: gradient(0)}


def fused(rows: Rows) -> None:
    """Convolution with bias and ReLU as one plan of cuDNN's frontend, inside CuPy's capture too, beside torch's three steps."""
    import cudnn
    import cupy
    import torch
    torch.backends.cudnn.benchmark = torch.backends.cudnn.allow_tf32 = True
    stream = cupy.cuda.Stream(non_blocking=True)
    handle = cudnn.create_handle()
    cudnn.set_stream(handle=handle, stream=stream.ptr)
    for name, (batch, channels, size, filters, window, stride, pad) in LAYERS.items():
        x = torch.randn(batch, channels, size, size, device="cuda").contiguous(memory_format=torch.channels_last)
        w = torch.randn(filters, channels, window, window, device="cuda").contiguous(memory_format=torch.channels_last) * 0.05
        bias = torch.randn(filters, device="cuda")

        def peer(x: Any = x, w: Any = w, bias: Any = bias, stride: int = stride, pad: int = pad) -> Any:
            return torch.relu_(torch.nn.functional.conv2d(x, w, bias, stride, pad))
        y = torch.full_like(peer(), float("nan"))
        plan = cudnn.pygraph(io_data_type=cudnn.data_type.FLOAT, intermediate_data_type=cudnn.data_type.FLOAT,
                             compute_data_type=cudnn.data_type.FLOAT, handle=handle)
        given = [plan.tensor(dim=list(v.shape), stride=list(v.stride())) for v in (x, w, bias.reshape(1, filters, 1, 1))]
        out = plan.conv_fprop(image=given[0], weight=given[1], padding=[pad] * 2, stride=[stride] * 2, dilation=[1, 1])
        out = plan.relu(input=plan.bias(input=out, bias=given[2])).set_output(True).set_dim(list(y.shape))
        out.set_stride(list(y.stride())).set_data_type(cudnn.data_type.FLOAT)
        plan.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        workspace = torch.empty(max(1, plan.get_workspace_size()), dtype=torch.uint8, device="cuda")
        bound = dict(zip((*given, out), (x, w, bias, y)))

        def ours(plan: Any = plan, bound: Any = bound, workspace: Any = workspace) -> None:
            plan.execute(bound, workspace, handle=handle)
        ours()
        torch.cuda.synchronize()
        same(name, y.cpu(), peer().cpu(), 3e-3)
        graph = captured(ours, stream)
        y.fill_(float("nan"))
        torch.cuda.synchronize()
        graph.launch(stream)
        stream.synchronize()
        same(f"{name}, replayed", y.cpu(), peer().cpu(), 3e-3)
        times = compare({"cuDNN, one plan": ours, "the same in CuPy's capture": functools.partial(graph.launch, stream),
                         "torch": peer}, torch.cuda.synchronize, 3, 0.01)
        rows.add(f"{name}, convolution with bias and ReLU, TF32", **times, workspace_MiB=workspace.numel() >> 20)


def passes(rows: Rows) -> None:
    from benchmarks.gpu_passes import adam, chain, rows_of
    for part in (chain, rows_of, adam):
        part(rows)


def copies(rows: Rows) -> None:
    import cupy
    runtime, stream = cupy.cuda.runtime, cupy.cuda.Stream(non_blocking=True)
    for size in (4, 1 << 12, 1 << 16, 1 << 20, 19 << 20, 256 << 20):
        device = cupy.empty(size, cupy.uint8)
        pageable = np.ones(size, np.uint8)
        memory = cupy.cuda.alloc_pinned_memory(size)
        pinned = np.frombuffer(memory, np.uint8, size)
        pinned[:] = 2

        def copy(host: Any, there: bool, device: Any = device, size: int = size) -> Callable[[], None]:
            ends = (device.data.ptr, host.ctypes.data) if there else (host.ctypes.data, device.data.ptr)

            def call() -> None:
                runtime.memcpyAsync(*ends, size, TO_DEVICE if there else TO_HOST, stream.ptr)
                stream.synchronize()
            return call
        copy(pinned, True)()
        same("copy", device[:4].get(), pinned[:4], 0.0)
        times = compare({"pinned in": copy(pinned, True), "pinned out": copy(pinned, False),
                         "pageable in": copy(pageable, True), "pageable out": copy(pageable, False)}, lambda: None)
        rows.add(f"copy of {size} bytes, waited for", **times,
                 gigabytes_a_second={name: round(size / each[0] / 1e3, 2) for name, each in times.items()})


PARTS = {"launches": launches, "products": products, "convolutions": convolutions,
         "strict": functools.partial(convolutions, policies=("float32",)), "fused": fused,
         "passes": passes, "copies": copies}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--json", default="", help="a file to which each result is appended as it comes")
    parser.add_argument("--alone", action="store_true", help="in this process, without a limit")
    given = parser.parse_args()
    versions = found()
    if not versions:
        print("no CUDA device with CuPy: nothing is measured")
        return
    rows = Rows(given.json)
    if not given.alone:
        rows.add("device", **versions)
    for name in given.part or PARTS:
        if given.alone:
            PARTS[name](rows)
            continue
        rows.add(f"part {name}", ended=apart("benchmarks.gpu_facts", [name, "--alone", "--json", given.json], LIMIT))


if __name__ == "__main__":
    main()
