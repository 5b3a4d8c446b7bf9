"""Kernels of our own on a CUDA device, compiled by NVRTC: a chain, rows, and an update, beside the copy and the peers."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.gpu_device import Rows, compare, same

__all__ = ["adam", "chain", "rows_of"]

ELEMENTS = 64 << 20
"""256 MiB in float32, several times what the cache holds."""
ROWS, COLUMNS = 65536, 1024
PARAMETERS = (4_000_000, 2_000_000, 1_000_000, *(500_000,) * 4, *(100_000,) * 9, *(10_000,) * 10)
SOURCE = r"""
extern "C" __global__ void one(const float* x, float* y, float a, float b, long n) {
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long)blockDim.x)
    y[i] = fmaxf(fmaf(x[i], a, b), 0.f);
}
extern "C" __global__ void four(const float4* x, float4* y, float a, float b, long n) {
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long)blockDim.x) {
    float4 v = x[i];
    v.x = fmaxf(fmaf(v.x, a, b), 0.f); v.y = fmaxf(fmaf(v.y, a, b), 0.f);
    v.z = fmaxf(fmaf(v.z, a, b), 0.f); v.w = fmaxf(fmaf(v.w, a, b), 0.f);
    y[i] = v;
  }
}
__device__ float whole(float v, float* shared, bool largest) {      // of a block of 256
  for (int d = 16; d; d >>= 1) { float w = __shfl_xor_sync(~0u, v, d); v = largest ? fmaxf(v, w) : v + w; }
  __syncthreads();
  if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = v;
  __syncthreads();
  float r = shared[0];
  for (int i = 1; i < 8; i++) r = largest ? fmaxf(r, shared[i]) : r + shared[i];
  return r;
}
extern "C" __global__ void softmax(const float4* x, float4* y) {      // a row of 1024 each
  __shared__ float shared[8];
  float4 v = x[blockIdx.x * 256L + threadIdx.x];
  float m = whole(fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)), shared, true);
  v.x = __expf(v.x - m); v.y = __expf(v.y - m); v.z = __expf(v.z - m); v.w = __expf(v.w - m);
  float s = 1.f / whole(v.x + v.y + v.z + v.w, shared, false);
  v.x *= s; v.y *= s; v.z *= s; v.w *= s;
  y[blockIdx.x * 256L + threadIdx.x] = v;
}
extern "C" __global__ void normal(const float4* x, float4* y, const float4* gain, const float4* shift) {
  __shared__ float shared[8];
  float4 v = x[blockIdx.x * 256L + threadIdx.x], g = gain[threadIdx.x], b = shift[threadIdx.x];
  float m = whole(v.x + v.y + v.z + v.w, shared, false) / 1024.f;
  v.x -= m; v.y -= m; v.z -= m; v.w -= m;
  float s = rsqrtf(whole(v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w, shared, false) / 1024.f + 1e-5f);
  y[blockIdx.x * 256L + threadIdx.x] = make_float4(v.x * s * g.x + b.x, v.y * s * g.y + b.y, v.z * s * g.z + b.z,
                                                   v.w * s * g.w + b.w);
}
__device__ void step(float& p, float g, float& m, float& v, float rate, float root) {
  m = 0.9f * m + 0.1f * g; v = 0.999f * v + 0.001f * g * g;
  p -= rate * m / (sqrtf(v) * root + 1e-8f);
}
extern "C" __global__ void adam(float4* p, const float4* g, float4* m, float4* v, const float* rates, long n) {
  float rate = rates[0], root = rates[1];
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long)blockDim.x) {
    float4 a = p[i], b = g[i], c = m[i], d = v[i];
    step(a.x, b.x, c.x, d.x, rate, root); step(a.y, b.y, c.y, d.y, rate, root);
    step(a.z, b.z, c.z, d.z, rate, root); step(a.w, b.w, c.w, d.w, rate, root);
    p[i] = a; m[i] = c; v[i] = d;
  }
}
"""


def _kernels() -> Any:
    import cupy
    return cupy.RawModule(code=SOURCE, options=("-std=c++17",))


def _bandwidth(times: dict[str, Any], size: int) -> dict[str, float]:
    """Terabytes a second when each call moves `size` bytes."""
    return {name: round(size / each[0] / 1e6, 2) for name, each in times.items()}


def chain(rows: Rows) -> None:
    """relu(x · a + b), beside a copy of as many bytes."""
    import cupy
    import torch
    made = _kernels()
    x = torch.randn(ELEMENTS, device="cuda")
    y, z = torch.full_like(x, float("nan")), torch.empty_like(x)
    a, b = cupy.float32(1.5), cupy.float32(0.25)
    ours, theirs = cupy.from_dlpack(x), cupy.from_dlpack(y)
    one, four = made.get_function("one"), made.get_function("four")

    def eager() -> Any:
        return torch.relu(x * 1.5 + 0.25)
    compiled = torch.compile(eager)
    contestants = {"copy": lambda: z.copy_(x), "torch": eager, "torch.compile": compiled}
    for threads in (256, 512):
        for blocks in (132 * 8, 132 * 32):
            contestants[f"one, {blocks}x{threads}"] = lambda t=threads, n=blocks: one(
                (n,), (t,), (ours, theirs, a, b, ELEMENTS))
            contestants[f"four, {blocks}x{threads}"] = lambda t=threads, n=blocks: four(
                (n,), (t,), (ours, theirs, a, b, ELEMENTS // 4))
    full = ELEMENTS // 4 // 256
    contestants[f"four, {full}x256"] = lambda: four((full,), (256,), (ours, theirs, a, b, ELEMENTS // 4))
    contestants["four, 1056x256"]()
    same("chain", y[:1 << 20].cpu(), eager()[:1 << 20].cpu(), 1e-6)
    same("chain compiled", compiled()[:1 << 20].cpu(), eager()[:1 << 20].cpu(), 1e-6)
    times = compare(contestants, torch.cuda.synchronize)
    rows.add("relu(x * a + b), 64 M elements", **times, terabytes_a_second=_bandwidth(times, 8 * ELEMENTS))


def rows_of(rows: Rows) -> None:
    """Softmax and layer normalisation of rows of 1024."""
    import cupy
    import torch
    made, functional = _kernels(), torch.nn.functional
    x = torch.randn(ROWS, COLUMNS, device="cuda")
    y, gain, shift = torch.full_like(x, float("nan")), torch.randn(COLUMNS, device="cuda"), torch.randn(COLUMNS, device="cuda")
    p, q, g, s = (cupy.from_dlpack(value) for value in (x, y, gain, shift))
    softmax, normal = made.get_function("softmax"), made.get_function("normal")
    work: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "softmax": (lambda: softmax((ROWS,), (256,), (p, q)), lambda: torch.softmax(x, 1)),
        "layer norm": (lambda: normal((ROWS,), (256,), (p, q, g, s)),
                       lambda: functional.layer_norm(x, (COLUMNS,), gain, shift))}
    for name, (own, peer) in work.items():
        y.fill_(float("nan"))
        own()
        torch.cuda.synchronize()
        same(name, y[:4096].cpu(), peer()[:4096].cpu(), 1e-5)
        compiled = torch.compile(peer)
        times = compare({"ours": own, "torch": peer, "torch.compile": compiled}, torch.cuda.synchronize)
        rows.add(f"{name}, {ROWS} rows of {COLUMNS}", **times, terabytes_a_second=_bandwidth(times, 8 * ROWS * COLUMNS))


def adam(rows: Rows) -> None:
    """An update of 10 million parameters in 26 tensors: one kernel over one arena, and torch's fused and foreach ones."""
    import cupy
    import torch
    total = sum(PARAMETERS)
    arena = [cupy.random.random(total, dtype=cupy.float32) - cupy.float32(0.5) for _ in range(2)]
    arena += [cupy.zeros(total, cupy.float32) for _ in range(2)]
    weights, gradients = (torch.from_dlpack(value).clone() for value in arena[:2])
    kernel = _kernels().get_function("adam")

    def update() -> None:
        kernel((132 * 8,), (256,), (*arena, rates, total // 4))
    peers = {}
    for name in ("fused", "foreach"):
        parts = [torch.nn.Parameter(part.clone()) for part in weights.split(PARAMETERS)]
        for part, gradient in zip(parts, gradients.split(PARAMETERS)):
            part.grad = gradient.clone()
        peers[name] = torch.optim.Adam(parts, lr=1e-3, eps=1e-8, **{name: True}), parts
    rates = cupy.array([1e-3 / (1 - 0.9), 1 / (1 - 0.999) ** 0.5], cupy.float32)      # of the first step
    update()
    for name, (optimizer, parts) in peers.items():
        optimizer.step()
        same(f"Adam {name}", arena[0].get(), torch.cat([part.detach() for part in parts]).cpu(), 1e-5)
    times = compare({"ours": update, **{f"torch {name}": peer[0].step for name, peer in peers.items()}},
                    torch.cuda.synchronize)
    rows.add("Adam, 10 M parameters in 26 tensors", **times, terabytes_a_second=_bandwidth(times, 28 * total))
