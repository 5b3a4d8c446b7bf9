"""Device functions of replicas: variables go to the parameter servers, in turn or by bytes, the rest to the worker."""
from __future__ import annotations

import hashlib
import types
from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph import device as devices
from workbench.core.graph.graph import Operation

__all__ = ["GreedyLoadBalancingStrategy", "RandomStrategy", "byte_size_load_fn", "replica_device_setter"]

_STATE = ("variable",)
_THEIR_NAMES = {"Variable", "VariableV2", "VarHandleOp", "AutoReloadVariable"}      # what TensorFlow calls our "variable"


def byte_size_load_fn(op: Operation) -> float:
    """The bytes that a variable needs; InvalidArgumentError for an operation that is none, or has an unknown shape."""
    shape = op.attrs["shape"] if op.kind in _STATE else None
    if shape is None or not shape.known:
        raise errors.InvalidArgumentError(f"byte_size_load_fn: {op.name!r} is a {op.kind}{'' if shape is None else str(shape)};"
                                          " it is for variables of known shape")
    return float(shape.num_elements() * op.attrs["dtype"].size)


class GreedyLoadBalancingStrategy:
    """Each variable goes to the task with the smallest load so far; `load_fn(op)` is what a variable adds to it."""

    def __init__(self, num_tasks: int, load_fn: Callable[[Operation], float]) -> None:
        if num_tasks < 1:
            raise errors.InvalidArgumentError(f"GreedyLoadBalancingStrategy: num_tasks is {num_tasks}; use 1 or more")
        self.loads, self._load = [0.0] * num_tasks, load_fn

    def __call__(self, op: Operation) -> int:
        task = self.loads.index(min(self.loads))
        self.loads[task] += self._load(op)
        return task


class RandomStrategy:
    """Each variable goes to a task that its name and `seed` choose, the same in every process."""

    def __init__(self, num_ps_tasks: int, seed: int = 0) -> None:
        if num_ps_tasks < 1:
            raise errors.InvalidArgumentError(f"RandomStrategy: num_ps_tasks is {num_ps_tasks}; use 1 or more")
        self._count, self._seed = num_ps_tasks, seed

    def __call__(self, op: Operation) -> int:
        return int(hashlib.md5(f"{op.name}_{self._seed}".encode(), usedforsecurity=False).hexdigest(), 16) % self._count


def replica_device_setter(ps_tasks: int = 0, ps_device: str = "/job:ps", worker_device: str = "/job:worker",
                          merge_devices: bool = True, cluster: Any = None, ps_ops: Sequence[str] | None = None,
                          ps_strategy: Callable[[Operation], int] | None = None) -> Callable[[Operation], str] | None:
    """A device function: variables go to the parameter servers in turn, the rest to the worker.

    `ps_strategy(operation)` chooses a server's number instead, as GreedyLoadBalancingStrategy does. Use:
    `with wb.device(replica_device_setter(2)):`. With 0 servers there is nothing to set and the result is None. What inner
    scopes ask for counts before it, or with `merge_devices` False instead of it.
    """
    if cluster is not None:
        jobs = cluster.as_dict() if hasattr(cluster, "as_dict") else {
            job.name: job.tasks for job in cluster.job} if hasattr(cluster, "job") else dict(cluster)
        ps_tasks = len(jobs.get(devices.parse(ps_device).job or "ps", ()))
    if ps_tasks == 0:
        return None
    kinds, count = {"variable" if kind in _THEIR_NAMES else kind for kind in ps_ops or _STATE}, [0]

    def choose(op: Any) -> str:
        if not isinstance(op, Operation):      # a NodeDef
            op = types.SimpleNamespace(kind="variable" if op.op in _THEIR_NAMES else op.op, type=op.op, device=op.device,
                                       node_def=op, name=op.name)
        if op.device and not merge_devices:
            return op.device
        if not ({op.kind, op.type} & kinds and ps_device):
            return devices.merge(worker_device or "", op.device)
        server, asked = devices.parse(ps_device).job, devices.parse(op.device).job
        if not server or asked not in (None, server):      # then the task's number means nothing
            return devices.merge(ps_device, op.device)
        if ps_strategy is not None:
            return devices.merge(f"{ps_device}/task:{ps_strategy(op)}", op.device)
        count[0] += 1
        return devices.merge(f"{ps_device}/task:{(count[0] - 1) % ps_tasks}", op.device)
    return choose
