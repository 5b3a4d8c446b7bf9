"""Peak memory of training steps of the convnets, ours and torch's, each in a process of its own (Linux).

    python -m benchmarks.peak_memory [alexnet] [overfeat] [vgg_a] [googlenet] [--rounds N]

What counts is the most that a process held during its steps, less what it held when the framework had been imported and had
made one small convolution and its gradient, for which each loads its libraries: weights, gradients, values that wait for
them, scratch, generated code. The first step counts, in which kernels are chosen and compiled.
Batches are 16 for AlexNet, 4 for Overfeat and VGG-A, 8 for GoogLeNet. The losses agree first.
"""
from __future__ import annotations

import argparse
import gc
import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from benchmarks.harness import Result, agree, report
from benchmarks.neighbour import framework
from benchmarks.zoo_networks import BATCHES, step

NETWORKS = ("alexnet", "overfeat", "vgg_a", "googlenet")
STEPS = 3
BAR = 0.7
MAKERS = ("ours", "torch")


def held(field: str) -> int:
    """Kilobytes of this process: VmRSS now, VmHWM at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def small(name: str) -> None:
    """The framework's libraries are loaded by a convolution of one small image, its ReLU and its gradient."""
    images, filters = np.ones((1, 8, 8, 3), np.float32), np.ones((3, 3, 3, 4), np.float32)
    if name == "torch":
        weight = framework(name).from_numpy(filters.transpose(3, 2, 0, 1).copy()).requires_grad_()
        made = framework(name).nn.functional.conv2d(framework(name).from_numpy(images.transpose(0, 3, 1, 2).copy()), weight)
        made.relu().sum().backward()
        return
    wb = framework(name)
    with wb.Graph().as_default(), wb.Session() as session:
        w = wb.constant(filters)
        loss = wb.reduce_sum(wb.sqrt(wb.nn.relu(wb.nn.conv2d(images, w)) * 2.0))
        session.run(wb.gradients(loss, [w]))


def contestant(name: str, network: str, pipe: Connection) -> None:
    small(name)
    gc.collect()
    before = held("VmRSS")
    train, loss = step(network, name)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")      # VmHWM begins anew
    for _ in range(STEPS):
        train()
    most = held("VmHWM") - before
    pipe.send((float(loss()), most))


def measured(name: str, network: str) -> tuple[float, float]:
    """(loss after STEPS steps, kilobytes)"""
    spawn = multiprocessing.get_context("spawn")
    pipe, theirs = spawn.Pipe()
    process = spawn.Process(target=contestant, args=(name, network, theirs))
    process.start()
    found: tuple[float, float] = pipe.recv()
    process.join(30)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="*", choices=[*NETWORKS, []], default=[])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for network in options.network or NETWORKS:
        result = Result(f"Peak memory {network}, batch {BATCHES[network]}", "ours", {name: [] for name in MAKERS})
        for turn in range(options.rounds):
            losses = {}
            for name in MAKERS[::1 if turn % 2 else -1]:
                losses[name], most = measured(name, network)
                result.rounds[name].append(most)
            agree(f"{result.title}, torch", losses["ours"], losses["torch"])
        report(result, BAR)


if __name__ == "__main__":
    main()
