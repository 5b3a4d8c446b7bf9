"""RunConfig of tf.contrib.learn: how an estimator runs, and which task of a cluster it is, as TF_CONFIG says."""
from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from workbench import errors
from workbench.train.cluster_spec import ClusterSpec
from workbench.train.config import ConfigProto, GPUOptions
from workbench.train.estimators import run_config
from workbench.train.estimators.run_config import address_of

__all__ = ["SETTABLE", "RunConfig"]

_DEFAULT = 0
SETTABLE = (
    "keep_checkpoint_every_n_hours", "keep_checkpoint_max", "log_step_count_steps", "save_checkpoints_secs",
    "save_checkpoints_steps", "save_summary_steps", "session_config", "tf_random_seed")
"""What may differ between configurations of one experiment."""


class RunConfig(run_config.RunConfig):
    """Where and how often an estimator saves and summarises, and its task.

    The environment variable TF_CONFIG, {"cluster": {job: addresses}, "task": {"type": job, "index": number}}, tells
    `cluster_spec`, `task_type`, `task_id`, `master` (unless it is given), `num_ps_replicas`, `num_worker_replicas` and
    `is_chief`: the first worker, in the environment "cloud" the master. `tf_config` has the options of sessions that
    `num_cores`, `log_device_placement` and `gpu_memory_fraction` ask for. ValueErrors for a task that the cluster does not
    have, and for two folders of the model.
    """

    tf_config = property(lambda self: self._tf_config)
    environment = property(lambda self: self._environment)

    def __init__(self, master: str | None = None, num_cores: int = 0, log_device_placement: bool = False,
                 gpu_memory_fraction: float = 1, tf_random_seed: int | None = None, save_summary_steps: int = 100,
                 save_checkpoints_secs: float | None = _DEFAULT, save_checkpoints_steps: int | None = None,
                 keep_checkpoint_max: int = 5, keep_checkpoint_every_n_hours: float = 10000, log_step_count_steps: int = 100,
                 evaluation_master: str = "", model_dir: Any = None, session_config: Any = None) -> None:
        told = json.loads(os.environ.get("TF_CONFIG") or "{}")
        self._given = master
        every = {} if save_checkpoints_secs == _DEFAULT else {"save_checkpoints_secs": save_checkpoints_secs}
        super().__init__(_folder(model_dir, told.get("model_dir")), tf_random_seed, save_summary_steps, save_checkpoints_steps,
                         session_config=session_config, keep_checkpoint_max=keep_checkpoint_max,
                         keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
                         log_step_count_steps=log_step_count_steps, **every)
        self._evaluation_master = evaluation_master or ""
        self._tf_config = ConfigProto(
            log_device_placement=log_device_placement, inter_op_parallelism_threads=num_cores,
            intra_op_parallelism_threads=num_cores,
            gpu_options=GPUOptions(per_process_gpu_memory_fraction=gpu_memory_fraction))

    def _take_place(self, told: Mapping[str, Any]) -> None:
        task = told.get("task", {})
        self._task_type, self._task_id = task.get("type"), int(task.get("index") or 0)
        self._cluster_spec = ClusterSpec(told.get("cluster", {}))
        known = self.cluster_spec.as_dict()
        self._num_ps_replicas = len(known.get("ps", ()))
        self._num_worker_replicas = len(known.get("worker", ())) + len(known.get("master", ()))
        self._environment = told.get("environment", "local")
        chief = {None: self.task_type, "cloud": "master"}.get(self.task_type and self.environment, "worker")
        self._is_chief = self.task_type == chief and self.task_id == 0
        if self._given is not None:
            self._master = self._given
        else:
            alone = self.task_type is None or sum(map(len, known.values())) < 2
            self._master = "" if alone else address_of(known, self.task_type, self.task_id)

    def uid(self, whitelist: Any = None) -> str:
        """A text that is the same for configurations that say the same, but for the fields in `whitelist`: by default those
        that say how often something is done, the seed and the session's options."""
        left = frozenset(SETTABLE) if whitelist is None else frozenset(whitelist)
        state = {name.lstrip("_"): value for name, value in vars(self).items()}
        state["cluster_spec"] = sorted(self.cluster_spec.as_dict().items())
        return ", ".join(f"{name}={state[name]!r}" for name in sorted(state) if name not in left)

    @staticmethod
    def get_task_id() -> int:
        """The number of this task, 0 where nothing tells it."""
        return int(json.loads(os.environ.get("TF_CONFIG") or "{}").get("task", {}).get("index") or 0)


def _folder(given: Any, told: Any) -> Any:
    if given is not None and told is not None and given != told:
        raise errors.InvalidArgumentError("RunConfig: `model_dir` provided in RunConfig construct, if set, must have the same "
                                          f"value as the model_dir in TF_CONFIG. They are {given} and {told}")
    return told if given is None else given
