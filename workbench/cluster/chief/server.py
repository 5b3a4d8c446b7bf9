"""Server: the task of a program in the style of TensorFlow 1.x, mapped to a cluster that one process drives."""
from __future__ import annotations

import threading
from typing import Any

from workbench import errors
from workbench.cluster.chief.cluster import Cluster
from workbench.nn.arguments import refuse
from workbench.train.cluster_spec import ClusterSpec

__all__ = ["Server"]


class Server:
    """The chief of a cluster with the jobs "ps" and "worker"; `target` is what a Session takes.

    Old programs run one process per task. Here one process, the one of worker 0, starts all tasks itself (the addresses
    are not used: `client` is what workbench.Cluster takes, by default processes on this host) and its graph runs on all
    of them. A process that plays a parameter server has nothing to do: its `join()` returns at once. Other workers
    raise UnimplementedError: place their towers with tf.device in the one process, or use
    workbench.train.replicas.replicate.
    InvalidArgumentError for other jobs or numbers of tasks that do not exist.
    """

    def __init__(self, server_or_cluster_def: Any, job_name: str | None = None, task_index: int | None = None,
                 protocol: str | None = None, config: Any = None, start: bool = True, client: Any = None) -> None:
        refuse("Server", "give the options to the Session, and Dask's client decides what carries them", config=config,
               protocol=None if protocol == "grpc" else protocol)
        self.cluster = ClusterSpec(server_or_cluster_def)
        self.job_name = job_name or (self.cluster.jobs[0] if len(self.cluster.jobs) == 1 else "")
        self.task_index = int(task_index or 0)
        other = sorted({*self.cluster.jobs, self.job_name} - {"ps", "worker"})
        if other:
            raise errors.InvalidArgumentError(f"Server: the jobs are {', '.join(map(repr, other))}; use ps and worker")
        self.cluster.task_address(self.job_name, self.task_index)
        if self.job_name == "worker" and self.task_index:
            raise errors.UnimplementedError(f"Server: worker {self.task_index} has no process of its own here; start "
                                            "worker 0 alone and build all towers there")
        self._client, self._open = client, start
        self._made: Cluster | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Allow `target`, for a server made with start=False."""
        self._open = True

    @property
    def target(self) -> Any:
        """The running cluster, started on first use; FailedPreconditionError for a parameter server."""
        if self.job_name == "ps":
            raise errors.FailedPreconditionError("Server: a parameter server runs no session; use worker 0's target")
        if not self._open:
            raise errors.FailedPreconditionError("Server: it was made with start=False; call start() first")
        with self._lock:
            if self._made is None:
                servers, workers = (self.cluster.num_tasks(job) if job in self.cluster.jobs else 0
                                    for job in ("ps", "worker"))
                self._made = Cluster(self._client, servers, workers)
            return self._made

    def join(self) -> None:
        """Returns at once: the chief's process holds the tasks."""

    def close(self) -> None:
        """End the tasks; closing twice is fine."""
        with self._lock:
            if self._made is not None:
                self._made.close()
            self._made = None
