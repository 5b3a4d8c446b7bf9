"""Which Dask worker gets which task: named ones, those with the resources it asks for, else idle ones; hosts in turn."""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench import errors

__all__ = ["Amounts", "ResourcesTaken", "Wishes", "assign", "limited", "tasks_of", "wishes", "written"]

Amounts = Mapping[str, float]      # resource of Dask -> how much of it


@dataclass(frozen=True)
class Wishes:
    """What somebody asked for: task -> name or address of a worker, and task -> what its worker must have free."""

    workers: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[str, Amounts] = field(default_factory=dict)


def tasks_of(jobs: Mapping[str, int]) -> tuple[str, ...]:
    """The tasks of jobs with so many each; InvalidArgumentError for what is no number, and for none at all."""
    for job, count in jobs.items():
        if type(count) is not int or count < 0:
            raise errors.InvalidArgumentError(f"Cluster: {job}={count!r} is not a number of tasks; pass 0, 1, 2, …")
    if not any(jobs.values()):
        raise errors.InvalidArgumentError(f"Cluster: {' and '.join(f'{job}=0' for job in jobs)} make no task; ask for at "
                                          "least one")
    return tuple(f"/job:{job}/task:{i}" for job, count in jobs.items() for i in range(count))


def wishes(tasks: Sequence[str], workers: Mapping[str, Any] | None, resources: Mapping[str, Amounts] | None) -> Wishes:
    """The wishes of who asks for `tasks`; `resources` are by job. InvalidArgumentError for tasks, jobs and amounts that cannot
    be."""
    for task in (workers or {}).keys() - tasks:
        raise errors.InvalidArgumentError(f"Cluster: workers names {task!r} but the tasks are {', '.join(tasks)}; name one")
    jobs = dict.fromkeys(_job(task) for task in tasks)
    for job, amounts in (resources or {}).items():
        if job not in jobs:
            raise errors.InvalidArgumentError(f"Cluster: resources names the job {job!r} but the jobs are {', '.join(jobs)}; "
                                              "name one")
        for name, amount in amounts.items():
            if isinstance(amount, bool) or not isinstance(amount, (int, float)) or not 0 < amount < float("inf"):
                raise errors.InvalidArgumentError(f"Cluster: each task of {job} is to have {name}={amount!r}; pass a number "
                                                  "above 0")
    wanted = {task: dict((resources or {}).get(_job(task), {})) for task in tasks}
    return Wishes(dict(workers or {}), {task: amounts for task, amounts in wanted.items() if amounts})


def assign(tasks: Sequence[str], workers: Mapping[str, Mapping[str, Any]], hosted: Mapping[str, int],
           wanted: Wishes = Wishes()) -> dict[str, str]:
    """task -> address, from what Dask knows of its `workers` (address -> name, host …; `free` are the resources that nobody
    has taken, `holders` which tasks have others) and how many tasks each has.

    A worker that is named may have several tasks. Each other task gets a worker of its own, of those with fewest tasks; one of
    each host before a second of any, so that the first tasks, the parameter servers, share no machine while there are others.
    Tasks that ask for resources choose first. ResourceExhaustedError when there are too few, or a named one is not there.
    """
    chosen = {task: _find(task, wanted.workers[task], workers) for task in tasks if task in wanted.workers}
    _check_named(chosen, workers, wanted)
    free = [address for address in sorted(workers, key=lambda a: (_name(workers[a]).zfill(8), a))
            if address not in chosen.values()]
    rest = [task for task in tasks if task not in wanted.workers]
    if len(free) < len(rest):
        raise errors.ResourceExhaustedError(f"Cluster: the cluster has {len(free)} workers but {_counts(rest)} need "
                                            f"{len(rest)}; start more workers or ask for fewer tasks")
    seen: dict[Any, int] = {}
    turn = {}
    for address in sorted(free, key=lambda a: hosted[a]):      # stable: by name among equals
        host = workers[address].get("host")
        turn[address] = seen[host] = seen.get(host, -1) + 1
    ranked = sorted(free, key=lambda a: (hosted[a], turn[a]))
    demanding = [task for task in rest if task in wanted.resources]
    chosen.update(_matched(demanding, ranked, workers, wanted))
    left = iter([address for address in ranked if address not in chosen.values()])
    return {task: chosen[task] if task in chosen else next(left) for task in tasks}


def _matched(tasks: Sequence[str], ranked: Sequence[str], workers: Mapping[str, Mapping[str, Any]],
             wanted: Wishes) -> dict[str, str]:
    """As many of these tasks as possible on workers that have what they ask for, which is all of them or an error.

    Each takes the first that suits it and is free, or one whose task finds another (Kuhn's augmenting paths).
    """
    owner: dict[str, str] = {}

    def place(task: str, tried: set[str]) -> bool:
        suits = [a for a in ranked if _has(workers[a], wanted.resources[task])]
        for address in sorted(suits, key=lambda a: a in owner):
            if address not in tried:
                tried.add(address)
                if address not in owner or place(owner[address], tried):
                    owner[address] = task
                    return True
        return False

    for task in tasks:
        if not place(task, set()):
            raise _too_few(task, tasks, ranked, workers, wanted)
    return {task: address for address, task in owner.items()}


def _has(worker: Mapping[str, Any], amounts: Amounts) -> bool:
    free = worker.get("free") or {}
    return all(free.get(name, 0) >= amount for name, amount in amounts.items())


class ResourcesTaken(errors.ResourceExhaustedError):
    """What is asked for is there, and somebody else has it: it may be free again soon."""


def _too_few(task: str, tasks: Sequence[str], ranked: Sequence[str], workers: Mapping[str, Mapping[str, Any]],
             wanted: Wishes) -> errors.ResourceExhaustedError:
    amounts = wanted.resources[task]
    able = [address for address in ranked if _has(workers[address], amounts)]
    alike = [other for other in tasks if wanted.resources[other] == amounts]
    if_free = [address for address in ranked if _has({"free": workers[address].get("resources")}, amounts)]
    kind = ResourcesTaken if len(if_free) >= len(alike) else errors.ResourceExhaustedError
    return kind(
        f"Cluster: {_counts(alike)} need {len(alike)} workers that have {written(amounts)} free each, but there are "
        f"{len(able)}: {_described(ranked, workers, amounts)}; start workers with --resources {_flag(amounts)!r}, end what has "
        "taken them, or ask for fewer tasks")


def _described(addresses: Collection[str], workers: Mapping[str, Mapping[str, Any]], amounts: Amounts) -> str:
    """What these workers have of these resources, and what of it is free."""
    said = []
    for address in addresses:
        worker = workers[address]
        total, free = worker.get("resources") or {}, worker.get("free") or {}
        parts = [f"{name}={total[name]:g}, {free.get(name, 0):g} free" if name in total else f"no {name}" for name in amounts]
        holders = "" if _has(worker, amounts) else ", ".join(worker.get("holders", ()))
        said.append(f"{_name(worker)} has {' and '.join(parts)}{holders and f' ({holders} has it)'}")
    return ", ".join(said[:8]) + (f" and {len(said) - 8} more" if len(said) > 8 else "") or "no worker is left"


def _check_named(chosen: Mapping[str, str], workers: Mapping[str, Mapping[str, Any]], wanted: Wishes) -> None:
    together: dict[str, dict[str, float]] = {}
    for task, address in chosen.items():
        sums = together.setdefault(address, {})
        for name, amount in wanted.resources.get(task, {}).items():
            sums[name] = sums.get(name, 0) + amount
    for address, sums in together.items():
        if not _has(workers[address], sums):
            tasks = " and ".join(task for task, place in chosen.items() if place == address)
            raise errors.ResourceExhaustedError(
                f"Cluster: {tasks} on worker {_name(workers[address])!r} need {written(sums)}, but "
                f"{_described([address], workers, sums)}; name another worker, or start it with --resources {_flag(sums)!r}")


def written(amounts: Amounts) -> str:
    """Amounts of resources, as errors say them."""
    return " and ".join(f"{name}={amount:g}" for name, amount in amounts.items())


def _flag(amounts: Amounts) -> str:
    return ",".join(f"{name}={amount:g}" for name, amount in amounts.items())


def _name(worker: Mapping[str, Any]) -> str:
    return str(worker.get("name"))


def _job(task: str) -> str:
    return task.removeprefix("/job:").partition("/")[0]


def _find(task: str, wanted: Any, workers: Mapping[str, Mapping[str, Any]]) -> str:
    found = [address for address, worker in workers.items() if wanted == address or str(wanted) == _name(worker)]
    if not found:
        raise errors.ResourceExhaustedError(f"Cluster: {task} is to be on worker {wanted!r}, which is not there; there are "
                                            f"{', '.join(sorted(map(_name, workers.values()))) or 'none'}")
    return found[0]


def _counts(tasks: Sequence[str]) -> str:
    jobs: dict[str, int] = {}
    for task in tasks:
        jobs[_job(task)] = jobs.get(_job(task), 0) + 1
    return ", ".join(f"{job}={count}" for job, count in jobs.items())


def limited(addresses: Mapping[str, str], workers: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """task -> bytes, of parameter servers whose Dask worker is killed when it holds more: variables are no data of Dask."""
    return {task: int(workers[address].get("memory_limit") or 0) for task, address in addresses.items()
            if task.startswith("/job:ps/") and workers[address].get("memory_limit")}
