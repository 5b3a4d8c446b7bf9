"""Our training steps on a CUDA device beside torch's and JAX's: forward, backward and gradient descent in strict float32.

    python -m benchmarks.gpu_ours [mlp] [lenet] [--batch N] [--json FILE]

Microseconds of a step, median [lowest, highest] of three rounds in turns, all data on the device. A step of ours is one
`Session.run`, which waits for the device; nobody waits for single steps of the peers. First the losses of ten steps agree.
"""
from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np

from benchmarks.gpu_device import Rows, compare, found, same
from benchmarks.gpu_steps import RATE, WORK, as_graph, jax_step, torch_network, torch_step
from benchmarks.networks import IMAGES, Last

STEPS = 10


class Ours(Last):
    """The networks in our words; `module` is workbench."""

    def leaf(self, value: Any) -> Any:
        return self.module.Variable(value)

    def channels(self, x: Any) -> int:
        return int(x.shape[-1].value)

    def conv(self, x: Any, w: Any, stride: int, pad: tuple[int, int]) -> Any:
        return self.module.nn.conv2d(x, w, stride, tuple((p, p) for p in pad))

    def shift(self, x: Any, b: Any) -> Any:
        return self.module.nn.bias_add(x, b)

    def relu(self, x: Any) -> Any:
        return self.module.nn.relu(x)

    def largest(self, x: Any, size: int, stride: int, pad: int = 0) -> Any:
        return self.module.nn.max_pool(x, size, stride, "VALID")

    def flat(self, x: Any) -> Any:
        return self.module.reshape(x, [x.shape[0].value, -1])

    def dense(self, x: Any, units: int, relu: bool = False) -> Any:
        y = self.shift(self.module.matmul(x, self.take(int(x.shape[-1].value), units)), self.take(units))
        return self.relu(y) if relu else y


def ours(wb: Any, name: str, images: Any, labels: Any) -> tuple[Any, Any]:
    """(a step, what gives the loss now)"""
    from workbench.train.config import ConfigProto
    with wb.device("/gpu:0"):
        x = wb.Variable(images, trainable=False)
        y = wb.Variable(np.eye(10, dtype=np.float32)[labels], trainable=False)
        logits = WORK[name](Ours(wb), x)
        loss = wb.reduce_mean(wb.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits))
        train = wb.train.GradientDescentOptimizer(RATE).minimize(loss)
    session = wb.Session(config=ConfigProto(device_count={"GPU": 1}))
    session.run(wb.global_variables_initializer())
    return lambda: session.run(train), lambda: float(session.run(loss))


def measure(rows: Rows, name: str, batch: int) -> None:
    import jax
    import torch

    import workbench as wb
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    jax.config.update("jax_default_matmul_precision", "float32")
    rng = np.random.default_rng(0)
    images, labels = rng.random((batch, *IMAGES[name]), np.float32), rng.integers(0, 10, batch)
    step, loss = ours(wb, name, images, labels)
    model, values = torch_network(torch, name, True, images, labels)
    eager = torch_step(torch, model, values)
    mine, theirs = [], []
    for _ in range(STEPS):
        mine.append(loss())
        theirs.append(model().item())
        step()
        eager()
    same(f"{name}, losses of {STEPS} steps", mine, theirs, 1e-4)
    start = time.process_time(), time.perf_counter()
    for _ in range(50):
        step()
    spent = time.process_time() - start[0], time.perf_counter() - start[1]
    jitted, _, ready = jax_step(jax, name, batch, images, labels)
    contestants = {"ours": step, "torch": eager, "torch, graph": as_graph(torch, torch_step(
        torch, *torch_network(torch, name, True, images, labels))), "JAX": jitted}
    times = compare(contestants, ready, 3, 0.25)
    best = min(each[0] for title, each in times.items() if title != "ours")
    rows.add(f"{name}, batch {batch}, float32", **times, to_eager=round(times["ours"][0] / times["torch"][0], 2),
             to_best=round(times["ours"][0] / best, 2), processor_to_wall=round(spent[0] / spent[1], 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="*", choices=["mlp", "lenet", []], default=[])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--json", default="", help="a file to which each result is appended as it comes")
    given = parser.parse_args()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if not found():
        print("no CUDA device with CuPy: nothing is measured")
        return
    rows = Rows(given.json)
    for name in given.network or ("mlp", "lenet"):
        measure(rows, name, given.batch)


if __name__ == "__main__":
    main()
