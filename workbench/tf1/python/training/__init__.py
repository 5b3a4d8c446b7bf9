"""`tensorflow.python.training`: each module offers the names of `tf.train`, some more."""
from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import workbench.tf1 as tf
from workbench.core.graph.build import ops as _ops
from workbench.tf1.missing import Namespace
from workbench.tf1.spelling import names_of as _names_of
from workbench.train.optimizers import averages as _averages
from workbench.train.optimizers import slots as _slots
from workbench.train.sessions import wrapped as _wrapped

_ALL = {name: value for name, value in vars(tf.train).items() if not name.startswith("_")}

_FILES = """adadelta adagrad adagrad_da adam basic_loops basic_session_run_hooks checkpoint_utils coordinator device_setter
    evaluation ftrl gradient_descent input learning_rate_decay momentum monitored_session optimizer proximal_adagrad
    proximal_gradient_descent queue_runner queue_runner_impl rmsprop saver server_lib session_manager session_run_hook
    summary_io supervisor sync_replicas_optimizer training training_util"""
globals().update(dict.fromkeys(_FILES.split(), Namespace(**_ALL)))
monitored_session = Namespace(**_ALL, **{f"_{name}": getattr(_wrapped, name) for name in (
    "CoordinatedSession", "HookedSession", "RecoverableSession", "WrappedSession")})


class RoundRobin:
    """Tasks in turn, from the first: what replica_device_setter asks for the task of each variable."""

    def __init__(self, num_tasks: int) -> None:
        self._tasks = itertools.cycle(range(num_tasks))

    def __call__(self, _unused_op: Any) -> int:
        return next(self._tasks)


def _ready(op: Any, sess: Any, msg: str) -> tuple[bool, str | None]:
    """(is the model ready, what is missing), by an operation that gives the names of what has no value; None is ready."""
    if op is None:
        return True, None
    try:
        missing = [name.decode() for name in sess.run(op)]
    except tf.errors.FailedPreconditionError as error:
        return False, f"{msg}: {error}"
    return not missing, None if not missing else f"Variables not initialized: {', '.join(missing)}"


device_setter = Namespace(**_ALL, _RoundRobinStrategy=RoundRobin)
session_manager = Namespace(**_ALL, _ready=_ready)
slot_creator = Namespace(**_names_of(_slots))


def _step(operation: Any) -> Callable[..., Any]:
    """One step of a rule of optimizers, over variables in the place of their handles; each is atomic, locked or not."""
    def apply(var: Any, *args: Any, use_locking: bool = False, **options: Any) -> Any:
        del use_locking
        return operation(*(getattr(given, "handle", given) for given in (var, *args)), **options)
    return apply


training_ops = Namespace(**{name: _step(getattr(_ops, name)) for rule in (
    "adagrad", "adam", "gradient_descent", "momentum", "rms_prop") for name in (f"apply_{rule}", f"sparse_apply_{rule}")})
moving_averages = Namespace(ExponentialMovingAverage=_averages.ExponentialMovingAverage,
                            assign_moving_average=_averages.assign_moving_average,
                            weighted_moving_average=_averages.weighted_moving_average)
