"""Our training steps on a CUDA device: forward, backward and gradient descent in strict float32, one operation after the other.

    python -m benchmarks.gpu_ours [mlp] [lenet] [--batch N] [--json FILE]

Microseconds of a step, median [lowest, highest] of five rounds, all data on the device. A step is one `Session.run`, which
waits for the device, as users' steps do. First the losses of ten steps agree with those of the CPU. The peers' steps are
those of `python -m benchmarks.gpu_steps mlp lenet --policies float32`; what was found stands in benchmarks/gpu.md.
"""
from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.gpu_device import Rows, compare, found, same
from benchmarks.gpu_steps import RATE, WORK
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


def ours(name: str, images: Any, labels: Any, where: str = "/gpu:0") -> tuple[Callable[[], Any], Callable[[], float]]:
    """(a step, what gives the loss now)"""
    import workbench as wb
    from workbench.train.config import ConfigProto
    with wb.Graph().as_default() as graph, wb.device(where):
        x = wb.Variable(images, trainable=False)
        y = wb.Variable(np.eye(10, dtype=np.float32)[labels], trainable=False)
        logits = WORK[name](Ours(wb), x)
        loss = wb.reduce_mean(wb.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits))
        train = wb.train.GradientDescentOptimizer(RATE).minimize(loss)
        session = wb.Session(graph=graph, config=ConfigProto(device_count={"GPU": int("gpu" in where)}))
        session.run(wb.global_variables_initializer())
    return lambda: session.run(train), lambda: float(session.run(loss))


def measure(rows: Rows, name: str, batch: int) -> None:
    import cupy
    rng = np.random.default_rng(0)
    images, labels = rng.random((batch, *IMAGES[name]), np.float32), rng.integers(0, 10, batch)
    losses: dict[str, list[float]] = {"/gpu:0": [], "/cpu:0": []}
    for where, found_there in losses.items():
        step, loss = ours(name, images, labels, where)
        for _ in range(STEPS):
            found_there.append(loss())
            step()
    same(f"{name}, losses of {STEPS} steps", losses["/gpu:0"], losses["/cpu:0"], 1e-5)
    step, _ = ours(name, images, labels)
    times = compare({"ours": step}, cupy.cuda.Device(0).synchronize, 5, 0.25)
    start = time.process_time(), time.perf_counter()
    for _ in range(100):
        step()
    busy = (time.process_time() - start[0]) / (time.perf_counter() - start[1])
    rows.add(f"{name}, batch {batch}, float32", **times, processor_time_of_wall=round(busy, 2), last_loss=losses["/gpu:0"][-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="*", choices=["mlp", "lenet", []], default=[])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--json", default="", help="a file to which each result is appended as it comes")
    given = parser.parse_args()
    if not found():
        print("no CUDA device with CuPy: nothing is measured")
        return
    rows = Rows(given.json)
    rows.add("device", **found())
    for name in given.network or ("mlp", "lenet"):
        measure(rows, name, given.batch)


if __name__ == "__main__":
    main()
