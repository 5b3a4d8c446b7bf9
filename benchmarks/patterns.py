"""Elementwise and reduction patterns over a million float32 elements: what fusing is worth beside torch.compile.

    python -m benchmarks.patterns [adam] [gelu] [layer_norm] [dropout] [softmax] [--rounds N] [--seconds S] [--processor]

An update of Adam with given gradients, GELU by tanh, normalisation of rows, bias with ReLU, a given mask and a residual,
softmax of rows; rows of 1,024. Written once, in the words that all frameworks share; inputs lie in the framework.
Every framework in a process of its own, in turn; first the results agree.
"""
from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import choices
from benchmarks.neighbour import compare, framework

SHAPE = (1024, 1024)
COMPARED = 4
KEEP = 0.8
BAR = 0.8
PEERS = {"torch.compile": "torch"}
ALL = {**PEERS, "torch": "torch", "JAX jit": "jax"}
Made = tuple[Callable[[], Any], Callable[[], Any]]


class Words:
    """What the patterns say in a framework: `f` has the functions of one name, the others are given."""

    def __init__(self, f: Any, mean: Any, softmax: Any, relu: Any) -> None:
        self.f, self.mean, self.softmax, self.relu = f, mean, softmax, relu


def adam(w: Words, x: Any, y: Any, z: Any, u: Any, b: Any) -> list[Any]:
    m, v = 0.9 * y + 0.1 * x, 0.999 * z + 0.001 * (x * x)
    return [u - 0.001 * m / (w.f.sqrt(v) + 1e-8), m, v]


def gelu(w: Words, x: Any, y: Any, z: Any, u: Any, b: Any) -> list[Any]:
    return [0.5 * x * (1.0 + w.f.tanh(0.7978845608 * (x + 0.044715 * (x * x * x))))]


def layer_norm(w: Words, x: Any, y: Any, z: Any, u: Any, b: Any) -> list[Any]:
    centred = x - w.mean(x)
    return [centred / w.f.sqrt(w.mean(centred * centred) + 1e-5) * b + b]


def dropout(w: Words, x: Any, y: Any, z: Any, u: Any, b: Any) -> list[Any]:
    kept = w.relu(x + b) * (1.0 / KEEP)
    return [w.f.where(u < KEEP, kept, w.f.zeros_like(kept)) + y]


def softmax(w: Words, x: Any, y: Any, z: Any, u: Any, b: Any) -> list[Any]:
    return [w.softmax(x)]


WORK = {"adam": adam, "gelu": gelu, "layer_norm": layer_norm, "dropout": dropout, "softmax": softmax}


def inputs() -> list[Any]:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, *SHAPE), np.float32)
    z, u = rng.random((2, *SHAPE), np.float32)
    return [x, y, z, u, rng.standard_normal(SHAPE[1:], np.float32)]


def made(pattern: Callable[..., list[Any]], name: str) -> Made:
    make = {"ours": ours, "torch": torch_eager, "torch.compile": torch_compiled, "JAX jit": jax_jit}[name]
    run = make(pattern, inputs())
    return run, lambda: np.stack([np.asarray(r)[:COMPARED] for r in run()])


def ours(pattern: Callable[..., list[Any]], values: list[Any]) -> Callable[[], Any]:
    wb = framework("ours")
    words = Words(wb, lambda t: wb.reduce_mean(t, 1, keepdims=True), wb.nn.softmax, wb.nn.relu)
    found = pattern(words, *[wb.Variable(v).value() for v in values])
    session = wb.Session()
    session.run(wb.global_variables_initializer())
    return session.make_callable(found)  # type: ignore[no-any-return]


def torch_words(torch: Any) -> Words:
    return Words(torch, lambda t: torch.mean(t, 1, keepdim=True), lambda t: torch.softmax(t, 1), torch.relu)


def torch_eager(pattern: Callable[..., list[Any]], values: list[Any]) -> Callable[[], Any]:
    torch = framework("torch")
    words, given = torch_words(torch), [torch.from_numpy(v) for v in values]
    return lambda: pattern(words, *given)


def torch_compiled(pattern: Callable[..., list[Any]], values: list[Any]) -> Callable[[], Any]:
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    torch = framework("torch")
    words, given = torch_words(torch), [torch.from_numpy(v) for v in values]
    compiled = torch.compile(lambda *tensors: pattern(words, *tensors))
    return lambda: compiled(*given)


def jax_jit(pattern: Callable[..., list[Any]], values: list[Any]) -> Callable[[], Any]:
    jax = framework("JAX jit")
    jnp = jax.numpy
    words = Words(jnp, lambda t: jnp.mean(t, 1, keepdims=True), jax.nn.softmax, jax.nn.relu)
    compiled, given = jax.jit(functools.partial(pattern, words)), [jnp.asarray(v) for v in values]
    return lambda: jax.block_until_ready(compiled(*given))


def main() -> None:
    parser = choices(__doc__, WORK, 0.5)
    parser.add_argument("--all", action="store_true", help="torch eager and JAX too")
    given = parser.parse_args()
    for name in given.work or WORK:
        title = f"Pattern {name}, 1 M elements{given.suffix}"
        compare(title, functools.partial(made, WORK[name]), [0], False, given.rounds, given.seconds, BAR, given.processor,
                ALL if given.all else PEERS)


if __name__ == "__main__":
    main()
