"""Training steps beside busy processes: softmax regression, an MLP, LeNet, and a cluster of 2 parameter servers and 2 workers.

    python -m benchmarks.neighbour [softmax] [mlp] [lenet] [cluster] [--busy 0,1,2] [--pools] [--rounds N] [--seconds S]

Every framework runs in a process of its own and they take turns, so that no thread pool but its own disturbs it; `--pools`
adds ours in a process in which torch, TensorFlow and JAX were loaded, and have worked, before, and in one that imported
ours before it loaded them, which bounds how long threads wait, as in kernels of `workbench lab`. 0, 1 or 2 processes
compute meanwhile. What counts is the mean of all steps of a turn, since training takes their sum; beside busy processes
some steps take many times the median. First the weights must agree. Peers that are not installed are left out.
"""
from __future__ import annotations

import argparse
import importlib.util
import itertools
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from benchmarks.harness import Result, agree, report

RATE = 0.01
MLP_LAYERS, MLP_BATCH = (784, 512, 512, 10), 128
PEERS = {"TF1 session": "tensorflow", "torch": "torch", "JAX jit": "jax"}
BAR = 1.0
Step = Callable[[], Any]
Work = Callable[[str], tuple[Step, Callable[[], Any]]]      # contestant -> (its step, its first weights)
CLOSERS: list[Callable[[], Any]] = []
"""What a contestant's process has to close at its end."""


# What the frameworks compute


def softmax(name: str) -> tuple[Step, Callable[[], Any]]:
    from benchmarks import softmax_step
    make = {"ours": lambda: softmax_step.ours(framework("ours")),
            "TF1 session": lambda: softmax_step.tf1(framework(name), False),
            "torch": lambda: softmax_step.torch_eager(framework(name)),
            "JAX jit": lambda: softmax_step.jax_jit(framework(name))}[name]()
    return make(*softmax_step.given())  # type: ignore[no-any-return]


def mlp(name: str) -> tuple[Step, Callable[[], Any]]:
    from benchmarks.convnets import Dense, Net
    layers = (*(Dense(width) for width in MLP_LAYERS[1:-1]), Dense(MLP_LAYERS[-1], False))
    return net(name, Net("MLP", MLP_BATCH, (1, 1, MLP_LAYERS[0]), layers, BAR))


def lenet(name: str) -> tuple[Step, Callable[[], Any]]:
    from benchmarks.convnets import LENET
    return net(name, LENET)


def net(name: str, shape: Any) -> tuple[Step, Callable[[], Any]]:
    from benchmarks import convnets
    rng = np.random.default_rng(0)
    images = rng.random((shape.batch, *shape.image), np.float32)
    labels = rng.integers(0, 10, shape.batch).astype(np.int32)
    make = {"ours": convnets.ours, "TF1 session": convnets.tf1, "torch": convnets.torch_net, "JAX jit": convnets.jax_net}
    step, weights = make[name](framework(name), shape, convnets.parameters(shape), images, labels)[:2]
    return step, lambda: weights()[0]


def cluster(name: str) -> tuple[Step, Callable[[], Any]]:
    """Two workers compute the gradients of the MLP on a batch each; two parameter servers keep its weights."""
    rng = np.random.default_rng(0)
    weights = [(rng.standard_normal(shape) * 0.03).astype(np.float32) for shape in itertools.pairwise(MLP_LAYERS)]
    batches = [rng.random((MLP_BATCH, MLP_LAYERS[0]), np.float32) for _ in range(2)]
    return our_cluster(weights, batches) if name == "ours" else tf_cluster(weights, batches)


def our_cluster(weights: list[Any], batches: list[Any]) -> tuple[Step, Callable[[], Any]]:
    wb = framework("ours")
    from workbench.cluster.chief.cluster import Cluster
    graph = wb.Graph()
    with graph.as_default():
        loss, variables = cluster_loss(wb, wb.device, wb.Variable, weights, batches)
        step = wb.train.GradientDescentOptimizer(RATE).minimize(loss)
        first, start = variables[0].read_value(), wb.global_variables_initializer()
    made = Cluster(None, ps=2, worker=2)
    CLOSERS.append(made.close)
    session = wb.Session(made, graph=graph)
    session.run(start)
    return (lambda: session.run(step)), (lambda: session.run(first))


def tf_cluster(weights: list[Any], batches: list[Any]) -> tuple[Step, Callable[[], Any]]:
    from benchmarks.null_step import _free_ports, _serve
    ports = _free_ports(4)
    spec = {"ps": ports[:2], "worker": ports[2:]}
    spawn = multiprocessing.get_context("spawn")
    for job, hosts in spec.items():
        for index in range(len(hosts)):
            spawn.Process(target=_serve, args=(job, index, spec), daemon=True).start()
    tf = framework("TF1 session")
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        loss, variables = cluster_loss(v1, tf.device, lambda value: v1.Variable(value, use_resource=True), weights, batches)
        step = v1.train.GradientDescentOptimizer(RATE).minimize(loss, colocate_gradients_with_ops=True)
        first, start = variables[0].read_value(), v1.global_variables_initializer()
    session = v1.Session(f"grpc://{spec['worker'][0]}", graph=graph)
    session.run(start)
    run = session.make_callable(step)
    return run, (lambda: session.run(first))


def cluster_loss(framework: Any, device: Any, variable: Any, weights: list[Any], batches: list[Any]) -> tuple[Any, list[Any]]:
    """The mean over both workers, in the words that both frameworks share."""
    variables, losses = [], []
    for i, value in enumerate(weights):
        with device(f"/job:ps/task:{i % 2}"):
            variables.append(variable(value))
    for worker, batch in enumerate(batches):
        with device(f"/job:worker/task:{worker}"):
            h = framework.constant(batch)
            for i, weight in enumerate(variables):
                h = framework.matmul(h, weight)
                h = framework.nn.relu(h) if i < len(variables) - 1 else h
            losses.append(framework.reduce_mean(framework.square(h)))
    return (losses[0] + losses[1]) * 0.5, variables


WORK: dict[str, Work] = {
    "softmax": softmax, "mlp": mlp, "lenet": lenet, "cluster": cluster}


def framework(name: str) -> Any:
    """The framework behind a contestant; the peers with as many threads as there are cores for this process."""
    if name == "ours":
        import workbench
        return workbench
    if name == "torch":
        import torch
        torch.set_num_threads(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
        return torch
    if name == "JAX jit":
        import jax
        return jax
    import tensorflow
    return tensorflow


# Processes


def contestant(name: str, work: Work, pools: bool, first: bool, processor: bool, pipe: Connection) -> None:
    """In a process of its own: prepare, then time a batch of steps whenever asked; `pools` wake before, or behind `first`."""
    clock = time.process_time if processor else time.perf_counter
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if first:
        framework(name)
    if pools:
        wake_pools()
    step, weights = work(name)
    for _ in range(5):
        step()
    pipe.send(np.asarray(weights()))
    while (seconds := pipe.recv()) is not None:
        times, end = [], clock() + seconds
        for _ in range(3):
            step()
        while clock() < end or len(times) < 5:
            start = clock()
            step()
            times.append(clock() - start)
        pipe.send((statistics.mean(times), statistics.median(times)))
    for close in CLOSERS:
        close()


def wake_pools() -> None:
    """Every other framework's threads exist and have worked."""
    square = np.ones((512, 512), np.float32)
    for name, call in (("torch", lambda f: f.from_numpy(square) @ f.from_numpy(square)),
                       ("TF1 session", lambda f: f.matmul(square, square)),
                       ("JAX jit", lambda f: f.numpy.dot(square, square).block_until_ready())):
        if importlib.util.find_spec(PEERS[name]):
            call(framework(name))


def spin() -> None:
    while True:
        pass


@contextmanager
def busy(count: int) -> Iterator[None]:
    """`count` processes that compute meanwhile."""
    neighbours = [multiprocessing.get_context("spawn").Process(target=spin, daemon=True) for _ in range(count)]
    for one in neighbours:
        one.start()
    try:
        yield
    finally:
        for one in neighbours:
            one.kill()
            one.join()


class Contestant:
    """A framework in its process."""

    def __init__(self, name: str, work: Work, processor: bool = False) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        who, *where = name.split(" among")
        self.process = spawn.Process(target=contestant, args=(
            who, work, bool(where), "first" in name, processor, theirs))
        self.process.start()
        theirs.close()
        self.weights = self.pipe.recv()

    def steps(self, seconds: float) -> tuple[float, float]:
        """Mean and median seconds of its steps within `seconds`."""
        self.pipe.send(seconds)
        mean, median = self.pipe.recv()
        return float(mean), float(median)

    def close(self) -> None:
        self.pipe.send(None)
        self.process.join(30)


def names(work: Work, pools: bool, peers: Mapping[str, str]) -> list[str]:
    if work is cluster:
        return ["ours", *(["TF1 session"] if importlib.util.find_spec("tensorflow") else [])]
    among = ["ours among pools", "ours among pools, imported first"] if pools else []
    return ["ours", *among, *(n for n, module in peers.items() if importlib.util.find_spec(module))]


def compare(title: str, work: Work, neighbours: Sequence[int], pools: bool, rounds: int, seconds: float,
            bar: float = BAR, processor: bool = False, peers: Mapping[str, str] = PEERS, save: bool = True) -> list[Result]:
    """Start the contestants, let them agree, and time them in rotating order beside each number of neighbours.

    `processor` counts what their processors worked instead of the time that went by: for machines that others use too.
    `peers` are contestants and the modules that must be there for them. Returns the means of each number of neighbours, and
    keeps their ratios under benchmarks/results unless told not to `save`.
    """
    found = []
    with ExitStack() as stack:
        contestants = {}
        for name in names(work, pools, peers):
            one = contestants[name] = Contestant(name, work, processor)
            stack.callback(one.close)
            agree(f"{title}, {name}", contestants["ours"].weights, one.weights)
        order, quiet = list(contestants), 0.0
        for count in neighbours:
            beside = "processor time" if processor else f"{count} busy beside"
            result, typical = (Result(f"{title}, {beside}{which}", "ours", {name: [] for name in order})
                               for which in ("", ", median step of a turn"))
            with busy(count):
                for turn in range(rounds):
                    for name in order[turn % len(order):] + order[:turn % len(order)]:
                        mean, median = contestants[name].steps(seconds)
                        result.rounds[name].append(mean)
                        typical.rounds[name].append(median)
            found.append(result)
            quiet = show(result, quiet, bar, save)
            show(typical, 0.0, None, False)
    return found


def show(result: Result, quiet: float, bar: float | None, save: bool) -> float:
    """Print the ratios, and ours to ours beside the fewest neighbours; returns the latter's median in seconds."""
    median = statistics.median(result.rounds["ours"])
    if quiet:
        print(f"\n{result.title}: {median / quiet:.2f} times our own quiet step")
    quiet = quiet or median
    if any(not name.startswith("ours") for name in result.rounds):
        report(result, bar=bar, save=save)
    return quiet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", nargs="*", choices=[*WORK, []], default=[])
    parser.add_argument("--busy", default="0,1,2", type=lambda text: [int(part) for part in text.split(",")])
    parser.add_argument("--pools", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.4)
    given = parser.parse_args()
    for work in given.work or WORK:
        compare(f"Neighbours {work}", WORK[work], given.busy, given.pools, given.rounds, given.seconds)


if __name__ == "__main__":
    main()
