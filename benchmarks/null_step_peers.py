"""The null step as programs of actors and of remote calls write it: Ray's actors, and torch's RPC, where they are installed.

Each server is a process that keeps a parameter, each worker one that multiplies what it reads by 0.001; a step is over when
every server has added what all workers sent. Made by `benchmarks/null_step.py`, and asked for the same numbers.
"""
from __future__ import annotations

import multiprocessing
import os
import socket
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["PEERS"]

Peer = tuple[Callable[[], Any], Callable[[], Any], Callable[[], Any]]
FACTOR = np.float32(0.001)


class Server:
    """Keeps one parameter; `rows` are those that each worker reads, None where they read all of it."""

    def __init__(self, shape: list[int], rows: list[Any] | None, workers: int) -> None:
        self.value, self.rows, self.workers = np.ones(shape, np.float32), rows, workers
        self.parts: dict[int, Any] = {}
        self._lock = threading.Lock()

    def read(self, worker: int) -> Any:
        """What a worker multiplies."""
        return self.value if self.rows is None else self.value[self.rows[worker]]

    def first(self) -> Any:
        """The first element or row."""
        return self.value[:1].copy()

    def push(self, worker: int, part: Any) -> None:
        """Keep what a worker sent; with the last one all are added."""
        with self._lock:
            self.parts[worker] = part
            if len(self.parts) == self.workers:
                self.add([self.parts.pop(i) for i in range(self.workers)])

    def add(self, parts: list[Any]) -> None:
        """Add what all workers sent."""
        for worker, part in enumerate(parts):
            if self.rows is None:
                self.value += part
            else:
                np.add.at(self.value, self.rows[worker], part)


# Ray


def _ray(shape: list[int], rows: list[list[Any]] | None, workers: int, servers: int) -> Peer:
    import ray
    ray.init(num_cpus=workers + servers, include_dashboard=False, log_to_driver=False, logging_level="ERROR")

    @ray.remote(num_cpus=1)
    class Parameter:
        def __init__(self, own: list[Any] | None) -> None:
            self.server = Server(shape, own, workers)

        def read(self, worker: int) -> Any:
            return self.server.read(worker)

        def first(self) -> Any:
            return self.server.first()

        def add(self, *parts: Any) -> None:
            self.server.add(list(parts))

    @ray.remote(num_cpus=1)
    class Worker:
        def work(self, value: Any) -> Any:
            return value * FACTOR

    actors: Any = [Parameter.remote(rows[p] if rows else None) for p in range(servers)]
    hands: Any = [Worker.remote() for _ in range(workers)]      # type: ignore[attr-defined]

    def step() -> None:
        ray.get([actor.add.remote(*[hand.work.remote(actor.read.remote(w)) for w, hand in enumerate(hands)])
                 for actor in actors])
    return step, lambda: ray.get(actors[-1].first.remote()), ray.shutdown


# torch

_SERVERS: list[Server] = []      # that of this process
_PATIENCE = 60.0


def _member(name: str, rank: int, world: int, port: int, server: tuple[Any, ...] | None) -> None:
    import torch
    torch.set_num_threads(1)
    if server is not None:
        _SERVERS.append(Server(*server))
    _join(name, rank, world, port)
    threading.Event().wait()


def _join(name: str, rank: int, world: int, port: int) -> None:
    from torch.distributed import rpc
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    rpc.init_rpc(name, rank=rank, world_size=world, rpc_backend_options=rpc.TensorPipeRpcBackendOptions(rpc_timeout=_PATIENCE))


def _read(worker: int) -> Any:
    import torch
    return torch.from_numpy(_SERVERS[0].read(worker))


def _push(worker: int, part: Any) -> None:
    _SERVERS[0].push(worker, part.numpy())


def _first() -> Any:
    return _SERVERS[0].first()


def _work(worker: int, servers: int) -> None:
    """A worker's step."""
    from torch.distributed import rpc
    found = [rpc.rpc_async(f"ps{p}", _read, (worker,)) for p in range(servers)]
    for future in [rpc.rpc_async(f"ps{p}", _push, (worker, one.wait() * float(FACTOR))) for p, one in enumerate(found)]:
        future.wait()


def _torch(shape: list[int], rows: list[list[Any]] | None, workers: int, servers: int) -> Peer:
    from torch.distributed import rpc
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    world, spawn = 1 + servers + workers, multiprocessing.get_context("spawn")
    members = [(f"ps{p}", (shape, rows[p] if rows else None, workers)) for p in range(servers)]
    processes = [spawn.Process(target=_member, args=(name, 1 + i, world, port, server), daemon=True)
                 for i, (name, server) in enumerate([*members, *((f"worker{w}", None) for w in range(workers))])]
    for process in processes:
        process.start()
    _join("client", 0, world, port)

    def step() -> None:
        for future in [rpc.rpc_async(f"worker{w}", _work, (w, servers)) for w in range(workers)]:
            future.wait()

    def stop() -> None:
        for process in processes:
            process.kill()
        rpc.shutdown(graceful=False)
    return step, lambda: rpc.rpc_sync(f"ps{servers - 1}", _first), stop


class Made(NamedTuple):
    """A peer: the package that it is in, and what begins it, of (shape, rows of each server and worker, workers, servers)."""

    module: str
    make: Callable[[list[int], list[list[Any]] | None, int, int], Peer]


PEERS = {"Ray actors": Made("ray", _ray), "torch RPC": Made("torch", _torch)}
"""Each begins as (a call that runs a step, one that reads a parameter, one that ends it)."""
