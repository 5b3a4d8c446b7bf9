"""USER LEVEL: optimizers, savers, replicas and the training loop, written with the public graph API alone."""
from workbench.train.averages import ExponentialMovingAverage
from workbench.train.background import Training
from workbench.train.coordinator import Coordinator, QueueRunner, add_queue_runner, start_queue_runners
from workbench.train.monitored import (
    CheckpointSaverHook,
    LoggingTensorHook,
    MonitoredTrainingSession,
    SessionRunHook,
    StopAtStepHook,
)
from workbench.train.optimizer import Optimizer
from workbench.train.optimizers import (
    AdadeltaOptimizer,
    AdagradOptimizer,
    AdamOptimizer,
    FtrlOptimizer,
    GradientDescentOptimizer,
    MomentumOptimizer,
    RMSPropOptimizer,
)
from workbench.train.saver import Saver, checkpoint_exists, get_checkpoint_state, latest_checkpoint
from workbench.train.schedules import (
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
from workbench.train.sync import SyncReplicasOptimizer, replica_device_setter

__all__ = [
    "AdadeltaOptimizer", "AdagradOptimizer", "AdamOptimizer", "CheckpointSaverHook", "Coordinator",
    "ExponentialMovingAverage", "FtrlOptimizer", "GradientDescentOptimizer", "LoggingTensorHook",
    "MomentumOptimizer", "MonitoredTrainingSession", "Optimizer", "QueueRunner", "RMSPropOptimizer", "Saver",
    "SessionRunHook", "StopAtStepHook", "SyncReplicasOptimizer", "Training", "add_queue_runner", "checkpoint_exists",
    "create_global_step", "exponential_decay", "get_checkpoint_state", "get_global_step",
    "get_or_create_global_step", "global_step", "inverse_time_decay", "latest_checkpoint", "natural_exp_decay",
    "piecewise_constant", "polynomial_decay", "replica_device_setter", "start_queue_runners",
]
