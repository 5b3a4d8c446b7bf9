"""Training steps of torch and JAX on a CUDA device: forward, backward and gradient descent, at a pinned precision.

    python -m benchmarks.gpu_steps [mlp] [lenet] [alexnet] [vgg_a] [googlenet] [lstm] [--batch N] [--json FILE]

Microseconds of a step, median [lowest, highest] of three rounds in turns, all data on the device, nobody waits for single
steps; first the losses agree. torch: eager with channels first, eager with channels last, torch.compile, and the whole step
as one CUDA graph of each. Each network is a process of its own. What was found stands in benchmarks/gpu.md.
"""
from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.gpu_device import Rows, Step, apart, compare, found, same
from benchmarks.networks import IMAGES, NETWORKS, Jax, Torch

RATE = 1e-4
UNITS, WORDS, LENGTH = 512, 10_000, 20
Model = Callable[[], Any]


def lenet(f: Any, x: Any) -> Any:
    x = f.largest(f.layer(x, 32, 5, 1, 2), 2, 2)
    x = f.flat(f.largest(f.layer(x, 64, 5, 1, 2), 2, 2))
    return f.dense(f.dense(x, 1024, True), 10)


WORK = {**NETWORKS, "lenet": lenet}
ORDER = ("mlp", "lenet", "lstm", "alexnet", "vgg_a", "googlenet")


class OnDevice(Torch):
    """torch's words with everything on the device, channels first or last."""

    last = True

    def images(self, x: Any) -> Any:
        return self._laid(super().images(x).cuda())

    def leaf(self, value: Any) -> Any:
        return self._laid(super().leaf(value).detach().cuda()).requires_grad_()

    def _laid(self, x: Any) -> Any:
        if x.ndim != 4:
            return x
        return x.contiguous(memory_format=self.module.channels_last if self.last else self.module.contiguous_format)


def torch_network(torch: Any, name: str, last: bool, images: Any, labels: Any) -> tuple[Model, list[Any]]:
    """(the loss, its parameters)"""
    words = OnDevice(torch)
    words.last = last
    x, y = words.images(images), torch.from_numpy(labels).cuda()

    def loss() -> Any:
        words.again()
        return torch.nn.functional.cross_entropy(WORK[name](words, x), y)
    loss()
    return loss, words.values


def torch_lstm(torch: Any, batch: int) -> tuple[Model, list[Any]]:
    weights, text = language(batch)
    table, kernel, bias, out, out_bias = (torch.from_numpy(value).cuda().requires_grad_() for value in weights)
    cell = torch.nn.LSTM(UNITS, UNITS).cuda()
    with torch.no_grad():
        cell.weight_ih_l0.copy_(kernel.T[:, :UNITS])
        cell.weight_hh_l0.copy_(kernel.T[:, UNITS:])
        cell.bias_ih_l0.copy_(bias)
        cell.bias_hh_l0.zero_()
    cell.bias_hh_l0.requires_grad_(False)
    x, y = torch.from_numpy(text[:-1]).cuda(), torch.from_numpy(text[1:]).cuda().reshape(-1)
    functional = torch.nn.functional

    def loss() -> Any:
        rows = cell(functional.embedding(x, table))[0].reshape(-1, UNITS)
        return functional.cross_entropy(torch.addmm(out_bias, rows, out), y)
    return loss, [table, cell.weight_ih_l0, cell.weight_hh_l0, cell.bias_ih_l0, out, out_bias]


def language(batch: int) -> tuple[list[Any], Any]:
    """([table, kernel, bias, output weights, output bias], text [LENGTH + 1, batch])

    Gates in the kernel's columns: input, forget, candidate, output.
    """
    rng = np.random.default_rng(0)
    shapes = ((WORDS, UNITS), (2 * UNITS, 4 * UNITS), (4 * UNITS,), (UNITS, WORDS), (WORDS,))
    return [(rng.standard_normal(s) * 0.05).astype(np.float32) for s in shapes], rng.integers(0, WORDS, (LENGTH + 1, batch))


def torch_step(torch: Any, loss: Model, values: list[Any], compiled: bool = False) -> Callable[[], None]:
    model = torch.compile(loss) if compiled else loss

    def step() -> None:
        model().backward()
        with torch.no_grad():
            torch._foreach_add_(values, [v.grad for v in values], alpha=-RATE)
        for v in values:
            v.grad = None
    return step


def as_graph(torch: Any, step: Callable[[], None]) -> Callable[[], None]:
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        step()
    return graph.replay  # type: ignore[no-any-return]


def jax_step(jax: Any, name: str, batch: int, images: Any, labels: Any) -> tuple[Step, Callable[[], float], Step]:
    """(a step, the loss now, what waits until the device has nothing to do)"""
    import torch
    jnp = jax.numpy
    if name == "lstm":
        values, loss = jax_lstm(jax, batch)
    else:
        words, x, y = Jax(jax), jnp.asarray(images), jnp.asarray(labels)
        WORK[name](words, x[:1])
        values = list(words.values)

        def loss(values: list[Any]) -> Any:
            words.again(values)
            return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(WORK[name](words, x)), y[:, None], 1))
    update = jax.jit(lambda values: [v - RATE * g for v, g in zip(values, jax.grad(loss)(values))], donate_argnums=0)
    state = [values]
    now = jax.jit(loss)

    def step() -> None:
        state[0] = update(state[0])

    def ready() -> None:
        jax.block_until_ready(state[0])
        torch.cuda.synchronize()
    return step, lambda: float(now(state[0])), ready


def jax_lstm(jax: Any, batch: int) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    jnp = jax.numpy
    weights, text = language(batch)
    x, y = jnp.asarray(text[:-1]), jnp.asarray(text[1:].reshape(-1))

    def loss(values: list[Any]) -> Any:
        table, kernel, bias, out, out_bias = values

        def cell(state: Any, row: Any) -> Any:
            c, h = state
            i, f, j, o = jnp.split(row + h @ kernel[UNITS:], 4, 1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(j)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (c, h), h
        zero = jnp.zeros((batch, UNITS))
        _, rows = jax.lax.scan(cell, (zero, zero), table[x] @ kernel[:UNITS] + bias)
        logits = rows.reshape(-1, UNITS) @ out + out_bias
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()
    return [jnp.asarray(value) for value in weights], loss


def measure(rows: Rows, name: str, batch: int, compiled: bool, policies: list[str]) -> None:
    import torch
    try:
        import jax
    except ImportError:
        jax = None
    torch.backends.cudnn.benchmark = True
    rng = np.random.default_rng(0)
    images = rng.random((batch, *IMAGES.get(name, (1,))), np.float32)
    labels = rng.integers(0, 10, batch)
    for policy in policies:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = policy == "TF32"
        contestants = torch_contestants(torch, rows, name, batch, images, labels, compiled and policy == policies[0])
        if jax is not None:
            jax.config.update("jax_default_matmul_precision", "tensorfloat32" if policy == "TF32" else "float32")
            step, loss, ready = jax_step(jax, name, batch, images, labels)
            made = torch_lstm(torch, batch) if name == "lstm" else torch_network(torch, name, True, images, labels)
            same(f"{name}, loss", loss(), made[0]().item(), 3e-3)
            contestants["JAX"] = step
        times = compare(contestants, ready if jax is not None else torch.cuda.synchronize, 3, 0.25)
        rows.add(f"{name}, batch {batch}, {policy}", **times)
        contestants.clear()
        torch.cuda.empty_cache()


def torch_contestants(torch: Any, rows: Rows, name: str, batch: int, images: Any, labels: Any,
                      compiled: bool) -> dict[str, Callable[[], Any]]:
    made: dict[str, Callable[[], Any]] = {}
    for last in ((True,) if name in ("mlp", "lstm") else (False, True)):
        layout = "" if name in ("mlp", "lstm") else " NHWC" if last else " NCHW"

        def model(last: bool = last) -> tuple[Model, list[Any]]:
            return torch_lstm(torch, batch) if name == "lstm" else torch_network(torch, name, last, images, labels)
        kinds = {f"torch{layout}": False, **({f"torch.compile{layout}": True} if compiled and last and name != "lstm" else {})}
        for title, how in kinds.items():
            try:
                made[title] = torch_step(torch, *model(), compiled=how)
                made[f"{title}, graph"] = as_graph(torch, made[title])
            except Exception as error:      # a peer that fails is said, and the others are measured
                rows.add(f"{name}, {title}", failed=repr(error)[:300])
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="*", choices=[*ORDER, []], default=[])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--json", default="", help="a file to which each result is appended as it comes")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for each network")
    parser.add_argument("--policies", default="TF32,float32")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--alone", action="store_true", help="in this process, without a limit")
    given = parser.parse_args()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    rows = Rows(given.json)
    if not found():
        print("no CUDA device with CuPy: nothing is measured")
        return
    for name in given.network or ORDER:
        if given.alone:
            measure(rows, name, given.batch, not given.no_compile, given.policies.split(","))
            continue
        again = [name, "--batch", str(given.batch), "--json", given.json, "--policies", given.policies, "--alone"]
        again += ["--no-compile"] if given.no_compile else []
        rows.add(f"steps of {name}", ended=apart("benchmarks.gpu_steps", again, given.limit))


if __name__ == "__main__":
    main()
