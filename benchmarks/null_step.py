"""The null step of the paper's figure 7 on one host: parameters to workers, trivial work, gradients back.

    python -m benchmarks.null_step [scalar|dense ...]

Ours is a Session on a Cluster of processes; the peer is `tf.compat.v1.train.Server` processes driven by one session. Both
do the same: each worker multiplies every parameter by 0.001, each parameter server adds the workers' results to it.
"""
from __future__ import annotations

import multiprocessing
import os
import socket
import sys
from typing import Any

import numpy as np

from benchmarks.harness import agree, compare, report

WORKERS = SERVERS = 2
KINDS = {"scalar": (1, 1 / 4, 0.3), "dense": (100_000_000 // 4 // SERVERS, 1 / 1.5, 2.0)}
"""kind -> (elements per parameter server, bar for ours ÷ theirs, seconds per round)"""


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


def theirs(elements: int) -> tuple[Any, Any, Any]:
    ports = _free_ports(WORKERS + SERVERS)
    spec = {"ps": ports[:SERVERS], "worker": ports[SERVERS:]}
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_serve, args=(job, i, spec), daemon=True)
                 for job, hosts in spec.items() for i in range(len(hosts))]
    for process in processes:
        process.start()
    import tensorflow as tf
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        variables, steps = [], []
        for p in range(SERVERS):
            with tf.device(f"/job:ps/task:{p}"):
                variables.append(v1.Variable(tf.ones([elements]), use_resource=True))
        for p, variable in enumerate(variables):
            with tf.device(f"/job:ps/task:{p}"):
                value = tf.identity(variable.read_value())
            parts = []
            for w in range(WORKERS):
                with tf.device(f"/job:worker/task:{w}"):
                    parts.append(tf.multiply(tf.identity(value), 0.001))
            with tf.device(f"/job:ps/task:{p}"):
                steps.append(variable.assign_add(tf.add_n(parts), read_value=False))
        step = tf.group(*steps)
        init = v1.global_variables_initializer()
        first = variables[0][0]
    session = v1.Session(f"grpc://{spec['worker'][0]}", graph=graph)
    session.run(init)
    run = session.make_callable(step)

    def stop() -> None:
        session.close()        # first: a session that is collected later asks its dead master for ever
        for process in processes:
            process.kill()
    return run, lambda: session.run(first), stop


def ours(elements: int) -> tuple[Any, Any, Any]:
    import workbench as wb
    from workbench.cluster.chief.cluster import Cluster
    graph = wb.Graph()
    with graph.as_default():
        variables, steps = [], []
        for p in range(SERVERS):
            with graph.device(f"/job:ps/task:{p}"):
                variables.append(wb.Variable(wb.ones([elements])))
        for p, variable in enumerate(variables):
            with graph.device(f"/job:ps/task:{p}"):
                value = variable.read_value()
            parts = []
            for w in range(WORKERS):
                with graph.device(f"/job:worker/task:{w}"):
                    parts.append(wb.multiply(wb.identity(value), 0.001))
            with graph.device(f"/job:ps/task:{p}"):
                steps.append(variable.assign_add(wb.ops.add_n(parts)).op)
        first = variables[0].read_value()[0]
        init = wb.global_variables_initializer()
    cluster = Cluster(None, ps=SERVERS, worker=WORKERS)
    session = wb.Session(cluster, graph=graph)
    session.run(init)
    return (lambda: session.run(steps)), (lambda: session.run(first)), cluster.close


def main(kinds: list[str]) -> None:
    for kind in kinds or list(KINDS):
        elements, bar, seconds = KINDS[kind]
        run, value, stop = ours(elements)
        other_run, other_value, other_stop = theirs(elements)
        try:
            before, other_before = value(), other_value()
            for _ in range(3):
                run()
                other_run()
            agree(kind, value() / before, np.asarray(other_value() / other_before), 1e-4)
            report(compare(f"Null step {kind}: {WORKERS} workers, {SERVERS} parameter servers",
                           {"ours": run, "TF1 train.Server": other_run}, rounds=7, seconds=seconds, warm_up=5), bar)
        finally:
            stop()
            other_stop()


if __name__ == "__main__":
    main(sys.argv[1:])
