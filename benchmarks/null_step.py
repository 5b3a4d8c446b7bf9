"""The null step of the paper's figure 7 on one host: parameters to workers, trivial work, gradients back.

    python -m benchmarks.null_step [scalar|sparse|dense[:WxP] ...]

of W workers and P parameter servers, 2x2 where nothing is said; "table" is every cell of {1, 2, 4} x {1, 2, 4}. Ours is a
Session on a Cluster of processes; the peers, one after the other because their processes are busy also while they wait, are
`tf.compat.v1.train.Server` processes driven by one session, for which the bars stand, and where they are installed Ray's actors
and torch's RPC. All compute the same: each worker multiplies every parameter by 0.001, each parameter server adds the workers'
results to it; of a sparse one each worker takes 32 rows of each server.
"""
from __future__ import annotations

import importlib.util
import multiprocessing
import os
import socket
import sys
import time
from typing import Any

import numpy as np

from benchmarks.harness import agree, compare, report
from benchmarks.null_step_peers import PEERS

SIZES = (1, 2, 4)
KINDS = {"scalar": (4, 1 / 5, 0.3), "sparse": (1 << 30, 1 / 3, 0.3), "dense": (100_000_000, 1 / 4, 1.0)}
"""kind -> (bytes of all parameters, or of each server for "scalar"; bar for ours ÷ theirs; seconds per round)"""
ROWS, WIDTH = 32, 256
TENSORFLOW = "TF1 train.Server"


def shape_of(kind: str, servers: int) -> list[int]:
    """Of one server's parameter."""
    nbytes = KINDS[kind][0]
    return {"scalar": [1], "sparse": [nbytes // (4 * WIDTH * servers), WIDTH], "dense": [nbytes // (4 * servers)]}[kind]


def rows_of(kind: str, workers: int, servers: int) -> list[list[Any]] | None:
    """The rows that each worker takes of each server; None where they take all."""
    if kind != "sparse":
        return None
    rng, (height, _) = np.random.default_rng(0), shape_of(kind, servers)
    return [[rng.choice(height, ROWS, False) if w else np.arange(ROWS) for w in range(workers)] for _ in range(servers)]


def model(tf: Any, kind: str, workers: int, servers: int) -> tuple[Any, Any, Any]:
    """(initialisation, a step, a parameter) in the words of TensorFlow 1.x, which `tf` speaks."""
    shape, rows, steps = shape_of(kind, servers), rows_of(kind, workers, servers), []
    for p in range(servers):
        with tf.device(f"/job:ps/task:{p}"):
            variable = tf.get_variable(f"parameters_{p}", shape, initializer=tf.ones_initializer(), use_resource=True)
            if rows is not None:
                ids = [tf.constant(chosen) for chosen in rows[p]]
                found = [tf.gather(variable, chosen) for chosen in ids]
            else:
                found = [tf.identity(variable) for _ in range(workers)]
        parts = []
        for w, value in enumerate(found):
            with tf.device(f"/job:worker/task:{w}"):
                parts.append(tf.multiply(tf.identity(value), 0.001))
        with tf.device(f"/job:ps/task:{p}"):
            if rows is not None:
                steps += [tf.scatter_add(variable, chosen, part) for chosen, part in zip(ids, parts)]
            else:
                steps.append(tf.assign_add(variable, tf.add_n(parts)))
            first = tf.gather(variable, [0])
    return tf.global_variables_initializer(), tf.group(*steps), first


def _serve(job: str, index: int, ports: dict[str, list[str]]) -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import tensorflow as tf
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
    tf.compat.v1.train.Server(tf.train.ClusterSpec(ports), job_name=job, task_index=index, config=config).join()


def _free_ports(count: int) -> list[str]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return found


def theirs(kind: str, workers: int, servers: int) -> tuple[Any, Any, Any]:
    ports = _free_ports(workers + servers)
    spec = {"ps": ports[:servers], "worker": ports[servers:]}
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_serve, args=(job, i, spec), daemon=True)
                 for job, hosts in spec.items() for i in range(len(hosts))]
    for process in processes:
        process.start()
    import tensorflow as tf
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        init, step, first = model(v1, kind, workers, servers)
    session = v1.Session(f"grpc://{spec['worker'][0]}", graph=graph)
    session.run(init)
    run = session.make_callable(step)

    def stop() -> None:
        session.close()        # first: a session that is collected later asks its dead master for ever
        for process in processes:
            process.kill()
    return run, lambda: session.run(first), stop


def ours(kind: str, workers: int, servers: int) -> tuple[Any, Any, Any]:
    """(a call that runs a step, one that reads a parameter, the cluster that they use, to be closed)."""
    import workbench.tf1 as tf
    from workbench.cluster.chief.cluster import Cluster
    with tf.Graph().as_default() as graph:
        init, step, first = model(tf, kind, workers, servers)
    cluster = Cluster(None, ps=servers, worker=workers)
    session = tf.Session(cluster, graph=graph)
    session.run(init)
    return session.make_callable(step), lambda: session.run(first), cluster


def title(kind: str, workers: int, servers: int, peer: str = TENSORFLOW) -> str:
    """What a cell is called; until the colon no other one is, and so is the file of its results."""
    beside = "" if peer == TENSORFLOW else f" beside {peer}"
    return f"Null step {kind} {workers}x{servers}{beside}: {workers} workers, {servers} parameter servers"


def copying(nbytes: int) -> float:
    """Seconds that one thread takes to copy so many bytes once, to memory that was touched before."""
    part = min(nbytes, 100_000_000)
    source, target, times = np.ones(part, np.uint8), np.ones(part, np.uint8), []
    for _ in range(7):
        start = time.perf_counter()
        np.copyto(target, source)
        times.append(time.perf_counter() - start)
    return min(times) * nbytes / part


def cell(kind: str, workers: int, servers: int, peer: str) -> None:
    """Both, in turns; their parameters must agree."""
    _, bar, seconds = KINDS[kind]
    run, value, cluster = ours(kind, workers, servers)
    other_run, other_value, other_stop = (
        theirs(kind, workers, servers) if peer == TENSORFLOW else
        PEERS[peer].make(shape_of(kind, servers), rows_of(kind, workers, servers), workers, servers))
    try:
        before, other_before = value(), np.array(other_value())
        for _ in range(3):
            run()
            other_run()
        agree(kind, value() / before, np.asarray(other_value()) / other_before, 1e-4)
        result = compare(title(kind, workers, servers, peer), {"ours": run, peer: other_run}, rounds=7, seconds=seconds,
                         warm_up=5)
        report(result, bar if peer == TENSORFLOW else None)
        if kind == "dense":
            best = min(result.rounds["ours"]) / copying(KINDS[kind][0] * 2 * workers)
            print(f"  ours ÷ one copy of all that travels, on one core: {best:.2f}")
    finally:
        cluster.close()
        other_stop()


def main(cells: list[str]) -> None:
    if "table" in cells:
        cells = [f"{kind}:{w}x{p}" for kind in KINDS for w in SIZES for p in SIZES]
    for name in cells or list(KINDS):
        kind, _, size = name.partition(":")
        workers, servers = map(int, (size or "2x2").split("x"))
        for peer in (TENSORFLOW, *(name for name, one in PEERS.items() if importlib.util.find_spec(one.module) is not None)):
            process = multiprocessing.get_context("spawn").Process(target=cell, args=(kind, workers, servers, peer))
            process.start()      # of its own: peers cannot be begun twice in one
            process.join()
            if process.exitcode:
                raise SystemExit(process.exitcode)


if __name__ == "__main__":
    main(sys.argv[1:])
