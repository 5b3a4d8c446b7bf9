"""RunConfig: where and how often an estimator saves and summarises, and which task of a cluster runs it."""
from __future__ import annotations

import copy
import inspect
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from workbench import errors
from workbench.train.cluster_spec import ClusterSpec
from workbench.train.config import ConfigProto

__all__ = ["RunConfig", "TaskType", "address_of"]

_EVERY_TEN_MINUTES: Any = object()
_RULES: dict[str, Callable[[Any], bool]] = {
    "model_dir should be non-empty": bool,
    "save_summary_steps should be >= 0": lambda n: n >= 0,
    "save_checkpoints_steps should be >= 0": lambda n: n >= 0,
    "save_checkpoints_secs should be >= 0": lambda n: n >= 0,
    "session_config must be instance of ConfigProto": lambda given: isinstance(given, ConfigProto),
    "keep_checkpoint_max should be >= 0": lambda n: n >= 0,
    "keep_checkpoint_every_n_hours should be > 0": lambda n: n > 0,
    "log_step_count_steps should be > 0": lambda n: n > 0,
    "tf_random_seed must be integer.": lambda seed: isinstance(seed, int)}
"""A rule, which begins with the name of what it is about -> what it asks of that."""


class TaskType:
    """What a task of a cluster is for."""

    MASTER, PS, WORKER, CHIEF, EVALUATOR = "master", "ps", "worker", "chief", "evaluator"


class RunConfig:
    """Where and how often an estimator saves and summarises; give at most one of the two intervals for checkpoints.

    It is the configuration of one task. The environment variable TF_CONFIG, {"cluster": {job: addresses}, "task": {"type":
    job, "index": number}, "service": {…}}, tells `cluster_spec`, `task_type`, `task_id`, `master`, `num_ps_replicas`,
    `num_worker_replicas`, `is_chief` and `service`; without it this is a worker by itself. InvalidArgumentErrors for values
    that cannot be, and for a task that the cluster does not have.
    """

    model_dir = property(lambda self: self._model_dir)
    tf_random_seed = property(lambda self: self._tf_random_seed)
    session_config = property(lambda self: self._session_config)
    save_summary_steps = property(lambda self: self._save_summary_steps)
    save_checkpoints_steps = property(lambda self: self._save_checkpoints_steps)
    save_checkpoints_secs = property(lambda self: self._save_checkpoints_secs)
    keep_checkpoint_max = property(lambda self: self._keep_checkpoint_max)
    keep_checkpoint_every_n_hours = property(lambda self: self._keep_checkpoint_every_n_hours)
    log_step_count_steps = property(lambda self: self._log_step_count_steps)
    service = property(lambda self: self._service)
    cluster_spec = property(lambda self: self._cluster_spec)
    task_type = property(lambda self: self._task_type)
    task_id = property(lambda self: self._task_id)
    is_chief = property(lambda self: self._is_chief)
    master = property(lambda self: self._master)
    num_ps_replicas = property(lambda self: self._num_ps_replicas)
    num_worker_replicas = property(lambda self: self._num_worker_replicas)
    evaluation_master = property(lambda self: self._evaluation_master)
    _evaluation_master = ""

    def __init__(self, model_dir: Any = None, tf_random_seed: int | None = 1, save_summary_steps: int | None = 100,
                 save_checkpoints_steps: int | None = None, save_checkpoints_secs: float | None = _EVERY_TEN_MINUTES,
                 session_config: Any = None, keep_checkpoint_max: int | None = 5,
                 keep_checkpoint_every_n_hours: float | None = 10000, log_step_count_steps: int | None = 100) -> None:
        if save_checkpoints_secs is _EVERY_TEN_MINUTES:
            save_checkpoints_secs = 600 if save_checkpoints_steps is None else None
        self._model_dir, self._tf_random_seed, self._session_config = model_dir, tf_random_seed, session_config
        self._save_summary_steps, self._save_checkpoints_steps = save_summary_steps, save_checkpoints_steps
        self._save_checkpoints_secs, self._keep_checkpoint_max = save_checkpoints_secs, keep_checkpoint_max
        self._keep_checkpoint_every_n_hours, self._log_step_count_steps = keep_checkpoint_every_n_hours, log_step_count_steps
        self._check()
        self._take_place(json.loads(os.environ.get("TF_CONFIG") or "{}"))

    def _check(self) -> None:
        if self.save_checkpoints_steps is not None and self.save_checkpoints_secs is not None:
            raise errors.InvalidArgumentError("RunConfig: `save_checkpoints_steps` and `save_checkpoints_secs` cannot be both "
                                              f"set. They are {self.save_checkpoints_steps} and {self.save_checkpoints_secs}; "
                                              "give one")
        for rule, holds in _RULES.items():
            given = getattr(self, rule.partition(" ")[0])
            if given is not None and not holds(given):
                raise errors.InvalidArgumentError(f"RunConfig: {rule} It is {given!r}")

    def _take_place(self, told: Mapping[str, Any]) -> None:
        """Which task this is, as the environment tells."""
        self._service: Any = told.get("service")
        if self.service is not None and not isinstance(self.service, dict):
            raise TypeError(f"If \"service\" is set in TF_CONFIG, it must be a dict. Given {type(self.service)}")
        self._cluster_spec = ClusterSpec(told.get("cluster", {}))
        task = told.get("task", {})
        self._task_type: str | None = task.get("type", TaskType.WORKER)
        self._task_id, self._is_chief, self._master = int(task.get("index") or 0), True, ""
        self._num_ps_replicas, self._num_worker_replicas = 0, 1
        if self.cluster_spec:
            self._take_part(task)
        elif (self.task_type, self.task_id) != (TaskType.WORKER, 0):
            word, must = ("type", "WORKER") if self.task_type != TaskType.WORKER else ("index", "0")
            raise errors.InvalidArgumentError(f"RunConfig: If \"cluster\" is not set in TF_CONFIG, task {word} must be {must}. "
                                              f"It is {task}")

    def _take_part(self, task: Mapping[str, Any]) -> None:
        known = self.cluster_spec.as_dict()
        first = TaskType.MASTER if TaskType.MASTER in known else TaskType.CHIEF
        _check_task(known, first, task)
        self._is_chief = self.task_type == first
        if self.task_type == TaskType.EVALUATOR:      # it stands beside the cluster that trains
            self._cluster_spec, self._num_worker_replicas = ClusterSpec({}), 0
            return
        self._master = address_of(known, self.task_type, self.task_id)
        self._num_ps_replicas = len(known.get(TaskType.PS, ()))
        self._num_worker_replicas = len(known.get(TaskType.WORKER, ())) + len(known[first])

    def replace(self, **kwargs: Any) -> RunConfig:
        """A copy with other values. InvalidArgumentError for a name that there is not."""
        allowed = list(inspect.signature(RunConfig).parameters)
        for name in kwargs:
            if name not in allowed:
                raise errors.InvalidArgumentError(f"RunConfig.replace: Replacing {name} is not supported. Allowed properties "
                                                  f"are {allowed}.")
        made = copy.copy(self)
        vars(made).update({f"_{name}": value for name, value in kwargs.items()})
        for ours, other in (("save_checkpoints_steps", "save_checkpoints_secs"),
                            ("save_checkpoints_secs", "save_checkpoints_steps")):
            if kwargs.get(ours) is not None and other not in kwargs:
                setattr(made, f"_{other}", None)
        made._check()
        return made


def _check_task(known: Mapping[str, Any], first: str, task: Mapping[str, Any]) -> None:
    """InvalidArgumentErrors where a cluster does not have exactly one task that leads, or no task is named."""
    faults = {f"If \"cluster\" is set in TF_CONFIG, it must have one \"{first}\" node.": first not in known,
              f"The \"cluster\" in TF_CONFIG must have only one \"{first}\" node.": len(known.get(first, ())) > 1,
              "If `master` node exists in `cluster`, job `chief` is not supported.":
                  first == TaskType.MASTER and TaskType.CHIEF in known,
              "If \"cluster\" is set in TF_CONFIG, task type must be set.": not task.get("type"),
              "If \"cluster\" is set in TF_CONFIG, task index must be set.": task.get("index") is None,
              "Task index must be non-negative number.": int(task.get("index") or 0) < 0,
              "If `master` node exists in `cluster`, task_type `evaluator` is not supported.":
                  first == TaskType.MASTER and task.get("type") == TaskType.EVALUATOR}
    for fault, there in faults.items():
        if there:
            raise errors.InvalidArgumentError(f"RunConfig: {fault} The cluster is {known} and the task {task}")


def address_of(known: Mapping[str, Any], task_type: str | None, task_id: int) -> str:
    """The address of a task of a cluster, "" where it is the only one. InvalidArgumentErrors for others."""
    if task_type is None or task_type not in known:
        raise errors.InvalidArgumentError(f"RunConfig: {task_type} is not a valid task_type in the cluster_spec: {known}; look "
                                          "at the environment variable TF_CONFIG")
    if not 0 <= task_id < len(known[task_type]):
        raise errors.InvalidArgumentError(f"RunConfig: {task_id} is not a valid task_id for task_type {task_type} in the "
                                          f"cluster_spec: {known}; look at the environment variable TF_CONFIG")
    return "" if sum(map(len, known.values())) == 1 else f"grpc://{known[task_type][task_id]}"
