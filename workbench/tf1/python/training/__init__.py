"""`tensorflow.python.training`: each module offers the names of `tf.train`, some more."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import workbench.tf1 as tf
from workbench.core.graph.build import ops as _ops
from workbench.tf1.missing import Namespace
from workbench.tf1.spelling import names_of as _names_of
from workbench.train.optimizers import averages as _averages
from workbench.train.optimizers import slots as _slots

_ALL = {name: value for name, value in vars(tf.train).items() if not name.startswith("_")}

_FILES = """adadelta adagrad adagrad_da adam basic_loops basic_session_run_hooks checkpoint_utils coordinator device_setter
    evaluation ftrl gradient_descent input learning_rate_decay momentum monitored_session optimizer proximal_adagrad
    proximal_gradient_descent queue_runner queue_runner_impl rmsprop saver server_lib session_manager session_run_hook
    summary_io supervisor sync_replicas_optimizer training training_util"""
globals().update(dict.fromkeys(_FILES.split(), Namespace(**_ALL)))
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
