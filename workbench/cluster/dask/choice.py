"""Which Dask worker gets which task: those that somebody named, else idle ones first and hosts in turn."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench import errors

__all__ = ["assign", "limited"]


def assign(tasks: Sequence[str], workers: Mapping[str, Mapping[str, Any]], hosted: Mapping[str, int],
           named: Mapping[str, Any]) -> dict[str, str]:
    """task -> address, from what Dask knows of its `workers` (address -> name, host …) and how many tasks each has.

    `named` is task -> name or address of a worker, which may have several tasks. Each other task gets a worker of its own,
    of those with fewest tasks; one of each host before a second of any, so that the first tasks, the parameter servers, share
    no machine while there are others. ResourceExhaustedError when there are too few, or a named one is not there.
    """
    chosen = {task: _find(task, named[task], workers) for task in tasks if task in named}
    free = [address for address in sorted(workers, key=lambda a: (_name(workers[a]).zfill(8), a))
            if address not in chosen.values()]
    rest = [task for task in tasks if task not in named]
    if len(free) < len(rest):
        raise errors.ResourceExhaustedError(f"Cluster: the cluster has {len(free)} workers but {_counts(rest)} need "
                                            f"{len(rest)}; start more workers or ask for fewer tasks")
    seen: dict[Any, int] = {}
    turn = {}
    for address in sorted(free, key=lambda a: hosted[a]):      # stable: by name among equals
        host = workers[address].get("host")
        turn[address] = seen[host] = seen.get(host, -1) + 1
    ranked = sorted(free, key=lambda a: (hosted[a], turn[a]))
    return {task: address for task, address in {**chosen, **dict(zip(rest, ranked))}.items() if task in tasks}


def _name(worker: Mapping[str, Any]) -> str:
    return str(worker.get("name"))


def _find(task: str, wanted: Any, workers: Mapping[str, Mapping[str, Any]]) -> str:
    found = [address for address, worker in workers.items() if wanted == address or str(wanted) == _name(worker)]
    if not found:
        raise errors.ResourceExhaustedError(f"Cluster: {task} is to be on worker {wanted!r}, which is not there; there are "
                                            f"{', '.join(sorted(map(_name, workers.values()))) or 'none'}")
    return found[0]


def _counts(tasks: Sequence[str]) -> str:
    jobs: dict[str, int] = {}
    for task in tasks:
        job = task.removeprefix("/job:").partition("/")[0]
        jobs[job] = jobs.get(job, 0) + 1
    return ", ".join(f"{job}={count}" for job, count in jobs.items())


def limited(addresses: Mapping[str, str], workers: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """task -> bytes, of parameter servers whose Dask worker is killed when it holds more: variables are no data of Dask."""
    return {task: int(workers[address].get("memory_limit") or 0) for task, address in addresses.items()
            if task.startswith("/job:ps/") and workers[address].get("memory_limit")}
