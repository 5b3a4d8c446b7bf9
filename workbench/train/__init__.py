"""USER LEVEL: optimizers, savers, replicas and the training loop, written with the public graph API alone."""
from typing import Any as _Any

from workbench.formats.messages import message as _message
from workbench.train.cluster_spec import ClusterSpec
from workbench.train.input.inputs import (
    batch,
    batch_join,
    input_producer,
    limit_epochs,
    match_filenames_once,
    range_input_producer,
    shuffle_batch,
    shuffle_batch_join,
    slice_input_producer,
    string_input_producer,
)
from workbench.train.optimizers.averages import ExponentialMovingAverage
from workbench.train.optimizers.loss_scale import LossScale
from workbench.train.optimizers.optimizer import Optimizer
from workbench.train.optimizers.proximal import AdagradDAOptimizer, ProximalAdagradOptimizer, ProximalGradientDescentOptimizer
from workbench.train.optimizers.rules import (
    AdadeltaOptimizer,
    AdagradOptimizer,
    AdamOptimizer,
    FtrlOptimizer,
    GradientDescentOptimizer,
    MomentumOptimizer,
    RMSPropOptimizer,
)
from workbench.train.optimizers.schedules import (
    create_global_step,
    exponential_decay,
    get_global_step,
    get_or_create_global_step,
    global_step,
    inverse_time_decay,
    natural_exp_decay,
    piecewise_constant,
    polynomial_decay,
)
from workbench.train.placement import GreedyLoadBalancingStrategy, byte_size_load_fn, replica_device_setter
from workbench.train.run import run
from workbench.train.saving.events import summary_iterator
from workbench.train.saving.saver import Saver, checkpoint_exists, get_checkpoint_state, latest_checkpoint
from workbench.train.sessions.background import Training
from workbench.train.sessions.coordinator import Coordinator, QueueRunner, add_queue_runner, start_queue_runners
from workbench.train.sessions.hooks import (
    CheckpointSaverHook,
    CheckpointSaverListener,
    LoggingTensorHook,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
    StopAtStepHook,
    SummarySaverHook,
)
from workbench.train.sessions.loops import basic_train_loop
from workbench.train.sessions.monitored import MonitoredTrainingSession, Scaffold
from workbench.train.sessions.supervisor import LooperThread, Supervisor
from workbench.train.sync import SyncReplicasOptimizer

__all__ = [
    "AdadeltaOptimizer", "AdagradDAOptimizer", "AdagradOptimizer", "AdamOptimizer",
    "CheckpointSaverHook", "CheckpointSaverListener", "ClusterSpec", "Coordinator", "ExponentialMovingAverage",
    "FtrlOptimizer", "GradientDescentOptimizer", "GreedyLoadBalancingStrategy",
    "LoggingTensorHook", "LooperThread", "LossScale",
    "MomentumOptimizer", "MonitoredTrainingSession", "Optimizer", "ProximalAdagradOptimizer",
    "ProximalGradientDescentOptimizer", "QueueRunner", "RMSPropOptimizer", "Saver", "Scaffold",
    "SessionRunArgs", "SessionRunContext", "SessionRunHook", "SessionRunValues", "StopAtStepHook", "SummarySaverHook",
    "Supervisor", "SyncReplicasOptimizer", "Training", "add_queue_runner", "basic_train_loop", "batch",
    "batch_join", "byte_size_load_fn", "checkpoint_exists", "create_global_step", "exponential_decay",
    "get_checkpoint_state",
    "get_global_step", "get_or_create_global_step", "global_step", "input_producer", "inverse_time_decay",
    "latest_checkpoint", "limit_epochs", "match_filenames_once", "natural_exp_decay", "piecewise_constant",
    "polynomial_decay", "range_input_producer", "replica_device_setter", "run", "shuffle_batch", "shuffle_batch_join",
    "slice_input_producer", "start_queue_runners", "string_input_producer",
    "summary_iterator",
]

# also offered, as protocol buffers, whose library is loaded when one of them is asked for
MESSAGES = ("BytesList", "Example", "Feature", "FeatureList", "FeatureLists", "Features", "FloatList", "Int64List",
            "SequenceExample")


def __getattr__(name: str) -> _Any:
    if name not in MESSAGES:
        raise AttributeError(f"module 'workbench.train' has no attribute {name!r}", name=name, obj=None)
    return _message(name)
