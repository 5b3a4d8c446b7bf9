"""Peak memory of training steps of the convnets, ours and torch's, each in a process of its own (Linux).

    python -m benchmarks.peak_memory [alexnet] [overfeat] [vgg_a] [googlenet] [--rounds N]

What counts is the most that a process held during its steps, less what it held when the framework was imported: weights,
gradients, values that wait for them, scratch, generated code. The first step counts, in which kernels are chosen and
compiled. Batches are 16 for AlexNet, 4 for Overfeat and VGG-A, 8 for GoogLeNet. The losses agree first.
"""
from __future__ import annotations

import argparse
import gc
import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.harness import Result, agree, report
from benchmarks.neighbour import framework
from benchmarks.zoo_networks import given, our_step, torch_step

BATCHES = {"alexnet": 16, "overfeat": 4, "vgg_a": 4, "googlenet": 8}
STEPS = 3
BAR = 0.7
MAKERS = {"ours": our_step, "torch": torch_step}


def held(field: str) -> int:
    """Kilobytes of this process: VmRSS now, VmHWM at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def contestant(name: str, network: str, pipe: Connection) -> None:
    framework(name)
    gc.collect()
    before = held("VmRSS")
    train, loss = MAKERS[name](network, *given(network, BATCHES[network]))
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
    parser.add_argument("network", nargs="*", choices=[*BATCHES, []], default=[])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for network in options.network or BATCHES:
        result = Result(f"Peak memory {network}, batch {BATCHES[network]}", "ours", {name: [] for name in MAKERS})
        for turn in range(options.rounds):
            losses = {}
            for name in list(MAKERS)[::1 if turn % 2 else -1]:
                losses[name], most = measured(name, network)
                result.rounds[name].append(most)
            agree(f"{result.title}, torch", losses["ours"], losses["torch"])
        report(result, BAR)


if __name__ == "__main__":
    main()
