"""`tensorflow.python.training`: each module offers the names of `tf.train`."""
from __future__ import annotations

import workbench.tf1 as tf
from workbench.tf1.missing import Namespace
from workbench.train.optimizers import averages as _averages

_ALL = {name: value for name, value in vars(tf.train).items() if not name.startswith("_")}

_FILES = """adadelta adagrad adagrad_da adam basic_loops basic_session_run_hooks checkpoint_utils coordinator device_setter
    evaluation ftrl gradient_descent input learning_rate_decay momentum monitored_session optimizer proximal_adagrad
    proximal_gradient_descent queue_runner queue_runner_impl rmsprop saver server_lib session_manager session_run_hook
    slot_creator summary_io supervisor sync_replicas_optimizer training training_ops training_util"""
globals().update(dict.fromkeys(_FILES.split(), Namespace(**_ALL)))
moving_averages = Namespace(ExponentialMovingAverage=_averages.ExponentialMovingAverage,
                            assign_moving_average=_averages.assign_moving_average,
                            weighted_moving_average=_averages.weighted_moving_average)
