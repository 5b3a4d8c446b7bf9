"""ClusterSpec: which jobs a cluster has and how many tasks each."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench import errors

__all__ = ["ClusterSpec"]


class ClusterSpec:
    """Jobs and their tasks: `{"ps": [address, …], "worker": [address, …]}`, or task number -> address for a job.

    A copy of another ClusterSpec is made from it, and one from a ClusterDef. Raises DtypeError for anything else. In the place
    of a task's address may stand that of a Dask scheduler, as "tcp://host:port/name of the program": see `from_scheduler`.
    """

    def __init__(self, cluster: Mapping[str, Sequence[str] | Mapping[int, str]] | ClusterSpec) -> None:
        if isinstance(cluster, ClusterSpec):
            self._jobs: dict[str, dict[int, str]] = {job: dict(tasks) for job, tasks in cluster._jobs.items()}
            return
        if hasattr(cluster, "job"):      # a ClusterDef
            cluster = {job.name: dict(job.tasks) for job in cluster.job}
        if not isinstance(cluster, Mapping):
            raise errors.DtypeError(f"ClusterSpec: {cluster!r} is a {type(cluster).__name__}; pass a dictionary from job "
                                    "to addresses")
        self._jobs = {str(job): _tasks(str(job), tasks) for job, tasks in cluster.items()}

    @classmethod
    def from_scheduler(cls, scheduler: Any, program: str = "program", /, **jobs: int) -> ClusterSpec:
        """Jobs with so many tasks each, whose processes need no addresses of their own: each tells the Dask `scheduler` (its
        address, or a Client of it) where it is, and asks it for the others. Programs that run at the same time need different
        names. InvalidArgumentError for what is no address, name or number of tasks."""
        address = getattr(getattr(scheduler, "scheduler", scheduler), "address", scheduler)
        if not isinstance(address, str) or not address.partition("://")[2] or not program or "/" in program:
            raise errors.InvalidArgumentError(f"ClusterSpec.from_scheduler: the scheduler is {address!r} and the program "
                                              f"{program!r}; pass an address as 'tcp://host:8786', and a name without /")
        for job, count in jobs.items():
            if type(count) is not int or count < 1:
                raise errors.InvalidArgumentError(f"ClusterSpec.from_scheduler: {job}={count!r} is not a number of tasks; pass "
                                                  "1 or more")
        return cls({job: [f"{address}/{program}"] * count for job, count in jobs.items()})

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs."""
        return list(self._jobs)

    def num_tasks(self, job_name: str) -> int:
        """How many tasks a job has; ValueError (InvalidArgumentError) for an unknown job."""
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """The numbers of a job's tasks, sorted."""
        return sorted(self._job(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """The address of one task; InvalidArgumentError when there is none of that number."""
        tasks = self._job(job_name)
        if task_index not in tasks:
            raise errors.InvalidArgumentError(f"ClusterSpec: job {job_name!r} has no task {task_index}; it has "
                                              f"{', '.join(map(str, sorted(tasks))) or 'none'}")
        return tasks[task_index]

    def job_tasks(self, job_name: str) -> list[str | None]:
        """The addresses of a job by task number; None where a number is left out."""
        tasks = self._job(job_name)
        return [tasks.get(i) for i in range(max(tasks, default=-1) + 1)]

    def as_dict(self) -> dict[str, Any]:
        """job -> list of addresses, or dictionary where numbers are left out."""
        return {job: [tasks[i] for i in range(len(tasks))] if sorted(tasks) == list(range(len(tasks))) else dict(tasks)
                for job, tasks in self._jobs.items()}

    def _job(self, name: str) -> dict[int, str]:
        if name not in self._jobs:
            raise errors.InvalidArgumentError(f"ClusterSpec: there is no job {name!r}; there are "
                                              f"{', '.join(self._jobs) or 'none'}")
        return self._jobs[name]

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterSpec) and self._jobs == other._jobs

    def __hash__(self) -> int:
        return hash(tuple(self._jobs))

    def __repr__(self) -> str:
        return f"ClusterSpec({self.as_dict()!r})"


def _tasks(job: str, tasks: Any) -> dict[int, str]:
    if isinstance(tasks, Mapping):
        return {int(number): str(address) for number, address in tasks.items()}
    if isinstance(tasks, (list, tuple)):
        return {number: str(address) for number, address in enumerate(tasks)}
    raise errors.DtypeError(f"ClusterSpec: job {job!r} has {tasks!r}; pass a list of addresses")
