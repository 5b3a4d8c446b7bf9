"""Estimator: a model function trained, evaluated and asked for predictions, each in a graph and session of its own."""
from __future__ import annotations

import copy
import inspect
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.core.graph.graph import Graph, get_default_graph
from workbench.core.run.session import Session
from workbench.core.state import checkpoint
from workbench.nn import metrics
from workbench.nn.framework import set_random_seed
from workbench.nn.lookups import local_initializer
from workbench.nn.variables import (
    GraphKeys,
    get_collection,
    global_variables_initializer,
)
from workbench.train.cluster_spec import ClusterSpec
from workbench.train.input.data import Dataset
from workbench.train.optimizers.schedules import create_global_step
from workbench.train.saving import summary
from workbench.train.saving.saver import Saver, latest_checkpoint
from workbench.train.sessions.evaluation import StopAfterNEvalsHook, evaluate_once
from workbench.train.sessions.hooks import (
    CheckpointSaverHook,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
    StopAtStepHook,
)
from workbench.train.sessions.hooks_more import StepCounterHook
from workbench.train.sessions.managers import ChiefSessionCreator, MonitoredSession
from workbench.train.sessions.monitored import MonitoredTrainingSession

__all__ = ["Estimator", "EstimatorSpec", "ModeKeys", "RunConfig", "numpy_input_fn", "pandas_input_fn"]


class ModeKeys:
    """What a model function is called for."""

    TRAIN, EVAL, PREDICT, INFER = "train", "eval", "infer", "infer"


class EstimatorSpec(NamedTuple):
    """What a model function returns: `loss` and `train_op` to train, `loss` and `eval_metric_ops` (name -> (value,
    update)) to evaluate, `predictions` (a tensor [n, ...] or a dictionary of such) to predict."""

    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metric_ops: Mapping[str, Any] | None = None
    export_outputs: Any = None
    training_chief_hooks: Sequence[SessionRunHook] = ()
    training_hooks: Sequence[SessionRunHook] = ()
    scaffold: Any = None
    evaluation_hooks: Sequence[SessionRunHook] = ()
    prediction_hooks: Sequence[SessionRunHook] = ()


class RunConfig:
    """Where and how often an estimator saves and summarises; give at most one of the two intervals for checkpoints.

    It is the configuration of the one task that trains: a worker, the chief.
    """

    task_type, task_id, is_chief, master, evaluation_master = "worker", 0, True, "", ""
    num_ps_replicas, num_worker_replicas = 0, 1

    def __init__(self, model_dir: Any = None, tf_random_seed: int | None = 1, save_summary_steps: int = 100,
                 save_checkpoints_steps: int | None = None, save_checkpoints_secs: float | None = None,
                 session_config: Any = None, keep_checkpoint_max: int = 5,
                 keep_checkpoint_every_n_hours: float = 10000, log_step_count_steps: int = 100) -> None:
        if save_checkpoints_steps is not None and save_checkpoints_secs is not None:
            raise errors.InvalidArgumentError(f"RunConfig: save_checkpoints_steps is {save_checkpoints_steps} and "
                                              f"save_checkpoints_secs {save_checkpoints_secs}; give one")
        self.model_dir, self.tf_random_seed, self.session_config = model_dir, tf_random_seed, session_config
        self.save_summary_steps, self.save_checkpoints_steps = save_summary_steps, save_checkpoints_steps
        self.save_checkpoints_secs = 600 if save_checkpoints_steps is None and save_checkpoints_secs is None else (
            save_checkpoints_secs)
        self.keep_checkpoint_max, self.log_step_count_steps = keep_checkpoint_max, log_step_count_steps
        self.keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        if self.save_checkpoints_steps is not None:
            self.save_checkpoints_secs = None

    @property
    def cluster_spec(self) -> ClusterSpec:
        """The tasks beside this one: none."""
        return ClusterSpec({})

    def replace(self, **kwargs: Any) -> RunConfig:
        """A copy with other values. InvalidArgumentError for a name that there is not."""
        unknown = set(kwargs) - set(inspect.signature(RunConfig).parameters)
        if unknown:
            raise errors.InvalidArgumentError(f"RunConfig.replace: Replacing {', '.join(sorted(unknown))} is not supported; "
                                              f"use {', '.join(inspect.signature(RunConfig).parameters)}")
        made = copy.copy(self)
        if kwargs.get("save_checkpoints_steps") is not None and "save_checkpoints_secs" not in kwargs:
            kwargs["save_checkpoints_secs"] = None
        elif kwargs.get("save_checkpoints_secs") is not None and "save_checkpoints_steps" not in kwargs:
            kwargs["save_checkpoints_steps"] = None
        vars(made).update(kwargs)
        if made.save_checkpoints_steps is not None and made.save_checkpoints_secs is not None:
            raise errors.InvalidArgumentError(f"RunConfig.replace: save_checkpoints_steps is {made.save_checkpoints_steps} and "
                                              f"save_checkpoints_secs {made.save_checkpoints_secs}; give one")
        return made


class _Watch(SessionRunHook):
    """Stops with an error when the loss is no number any more, and writes summaries now and then."""

    def __init__(self, loss: Any, writer: summary.FileWriter, every: int) -> None:
        self._loss, self._writer, self._every, self._count = loss, writer, every, 0

    def begin(self) -> None:
        self._summaries = summary.merge_all()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        due = self._every and self._count % self._every == 0
        return SessionRunArgs([self._loss, self._summaries] if due and self._summaries is not None else [self._loss])

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        loss, *summaries = run_values.results
        if not math.isfinite(float(loss)):
            raise errors.InvalidArgumentError(f"Estimator: the loss is {float(loss)} after {self._count} steps; lower "
                                              "the learning rate or check the input")
        for line in summaries:
            self._writer.add_summary(line, self._count)
        self._count += 1


class Estimator:
    """Trains and uses `model_fn(features, labels, mode, params, config)`, of which it may leave out the last four.

    The function builds the model and returns an EstimatorSpec. Checkpoints and summaries go to `model_dir` (default: a new
    temporary folder), where training goes on and evaluation and prediction begin.
    """

    def __init__(self, model_fn: Callable[..., Any], model_dir: Any = None, config: RunConfig | None = None,
                 params: Mapping[str, Any] | None = None) -> None:
        self.config = config or RunConfig()
        self.model_dir = str(model_dir or self.config.model_dir or tempfile.mkdtemp())
        self.params = dict(params or {})
        self._model_fn = model_fn
        unknown = set(inspect.signature(model_fn).parameters) - {"features", "labels", "mode", "params", "config"}
        if unknown:
            raise errors.InvalidArgumentError(f"Estimator: model_fn takes {', '.join(sorted(unknown))}; it may take features, "
                                              "labels, mode, params and config")

    # building
    def _spec(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        known = {"labels": labels, "mode": mode, "params": self.params, "config": self.config}
        taken = {k: v for k, v in known.items() if k in inspect.signature(self._model_fn).parameters}
        spec = self._model_fn(features=features, **taken)
        if not isinstance(spec, EstimatorSpec):
            raise errors.InvalidArgumentError(f"Estimator: model_fn returned a {type(spec).__name__}; return an EstimatorSpec")
        needed = {ModeKeys.TRAIN: ("loss", "train_op"), ModeKeys.EVAL: ("loss",), ModeKeys.PREDICT: ("predictions",)}[mode]
        missing = [name for name in needed if getattr(spec, name) is None]
        if missing:
            raise errors.InvalidArgumentError(f"Estimator: the spec for mode {mode!r} lacks {' and '.join(missing)}; return "
                                              "them")
        return spec

    def _begin(self) -> Any:
        set_random_seed(self.config.tf_random_seed)
        return create_global_step()

    # using
    def train(self, input_fn: Callable[[], Any], hooks: Sequence[SessionRunHook] | None = None, steps: int | None = None,
              max_steps: int | None = None, saving_listeners: Any = None) -> Estimator:
        """Go on for `steps` steps, or until `max_steps` in all, or to the end of the input, and save.

        `input_fn()` builds the input: (features, labels) tensors, or a Dataset of such pairs. `saving_listeners` are told of
        every checkpoint. InvalidArgumentError when the loss is no longer finite, or both numbers are given or one is not
        positive.
        """
        if (steps is not None and max_steps is not None) or any(n is not None and n <= 0 for n in (steps, max_steps)):
            raise errors.InvalidArgumentError(f"Estimator.train: steps is {steps} and max_steps {max_steps}; give one that is "
                                              "1 or more, or none")
        if max_steps is not None and self._steps_done() >= max_steps:
            return self
        with get_default_graph().fresh().as_default():
            self._begin()
            spec = self._spec(*_inputs(input_fn), ModeKeys.TRAIN)
            if all(t.op.attrs.get("tag") != "loss" for t in get_collection(GraphKeys.SUMMARIES)):
                summary.scalar("loss", spec.loss)
            chosen = [*(hooks or ()), *(spec.training_hooks or ()), *(spec.training_chief_hooks or ())]
            if steps is not None or max_steps is not None:
                chosen.append(StopAtStepHook(num_steps=steps, last_step=max_steps))
            with summary.FileWriter(self.model_dir) as writer:
                chosen.append(_Watch(spec.loss, writer, self.config.save_summary_steps))
                chosen.append(CheckpointSaverHook(
                    self.model_dir, self.config.save_checkpoints_secs, self.config.save_checkpoints_steps,
                    self._saver(spec), listeners=saving_listeners))
                if self.config.log_step_count_steps:
                    chosen.append(StepCounterHook(self.config.log_step_count_steps, summary_writer=writer))
                self._loop(spec, chosen)
        return self

    def _saver(self, spec: EstimatorSpec) -> Saver:
        own = None if spec.scaffold is None else spec.scaffold.saver
        return own or Saver(max_to_keep=self.config.keep_checkpoint_max,
                            keep_checkpoint_every_n_hours=self.config.keep_checkpoint_every_n_hours)

    def _loop(self, spec: EstimatorSpec, hooks: Sequence[SessionRunHook]) -> None:
        with MonitoredTrainingSession(self.config.master, self.config.is_chief, self.model_dir, spec.scaffold, hooks,
                                      save_checkpoint_secs=None, config=self.config.session_config) as session:
            while not session.should_stop():
                session.run(spec.train_op)

    def _steps_done(self) -> int:
        newest = self.latest_checkpoint()
        return 0 if newest is None else int(newest.rpartition("-")[2])

    def evaluate(self, input_fn: Callable[[], Any], steps: int | None = None, hooks: Any = None, checkpoint_path: Any = None,
                 name: str | None = None) -> dict[str, Any]:
        """Mean loss, metrics and global step over `steps` batches, or to the end of the input.

        The numbers are also written as summaries to the folder `eval` (`eval_<name>` with a name) of model_dir.
        InvalidArgumentError where `steps` is not positive.
        """
        if steps is not None and steps <= 0:
            raise errors.InvalidArgumentError(f"Estimator.evaluate: Must specify steps > 0, given: {steps}")
        path = self._checkpoint(checkpoint_path)
        with get_default_graph().fresh().as_default():
            step = self._begin()
            spec = self._spec(*_inputs(input_fn), ModeKeys.EVAL)
            found = {"loss": metrics.mean(spec.loss, name="mean_loss"), **(spec.eval_metric_ops or {})}
            every = [StopAfterNEvalsHook(steps), *(hooks or ()), *(spec.evaluation_hooks or ())]
            values = evaluate_once(path, None, spec.scaffold, [update for _, update in found.values()], hooks=every,
                                   final_ops={"global_step": step, **{key: value for key, (value, _) in found.items()}},
                                   config=self.config.session_config)
        result = {key: value.item() if np.ndim(value) == 0 else value for key, value in values.items()}
        self._summarise(result, f"eval_{name}" if name else "eval")
        return result

    def _summarise(self, result: Mapping[str, Any], folder: str) -> None:
        values = [summary.Summary.Value(tag=key, simple_value=value) for key, value in result.items()
                  if np.ndim(value) == 0 and key != "global_step"]
        with summary.FileWriter(os.path.join(self.model_dir, folder)) as writer:
            writer.add_summary(summary.Summary(value=values), result["global_step"])

    def predict(self, input_fn: Callable[[], Any], predict_keys: Any = None, hooks: Any = None, checkpoint_path: Any = None,
                yield_single_examples: bool = True) -> Iterator[Any]:
        """The predictions for each example to the end of the input, one after the other: arrays, or dictionaries.

        With `yield_single_examples=False` a batch at a time. `predict_keys` names the wanted entries.
        """
        with get_default_graph().fresh().as_default() as graph:
            self._begin()
            spec = self._spec(_inputs(input_fn)[0], None, ModeKeys.PREDICT)
        predictions, every = spec.predictions, [*(hooks or ()), *(spec.prediction_hooks or ())]
        if predict_keys is not None and isinstance(predictions, Mapping):
            keys = [predict_keys] if isinstance(predict_keys, str) else list(predict_keys)
            predictions = {key: value for key, value in predictions.items() if key in keys}
        path = self._checkpoint(checkpoint_path)
        creator = ChiefSessionCreator(spec.scaffold, None, self.config.session_config, checkpoint_filename_with_path=path)
        return _predicted(graph, creator, every, predictions, yield_single_examples)

    def _checkpoint(self, path: Any) -> str:
        """The given checkpoint, or the newest; NotFoundError when there is none."""
        path = path or self.latest_checkpoint()
        if path is None:
            raise errors.NotFoundError(f"Estimator: there is no checkpoint in {self.model_dir!r}; train first")
        return str(path)

    def _restored(self, path: Any, graph: Graph) -> Session:
        """A session with the newest (or the given) checkpoint; NotFoundError when there is none."""
        path = self._checkpoint(path)
        session = Session(graph=graph, config=self.config.session_config)
        with graph.as_default():
            saver, starts = Saver(), [global_variables_initializer(), local_initializer()]
        session.run(starts)
        saver.restore(session, path)
        return session

    # what was trained
    def latest_checkpoint(self) -> str | None:
        """The newest checkpoint in model_dir, None when there is none."""
        return latest_checkpoint(self.model_dir)

    @property
    def model_fn(self) -> Callable[..., Any]:
        """The function that builds the model."""
        return self._model_fn

    def get_variable_names(self) -> list[str]:
        """The names of the variables in the newest checkpoint. NotFoundError when there is none."""
        return sorted(checkpoint.contents(self._checkpoint(None)).tensors)

    def get_variable_value(self, name: str) -> Any:
        """The value of a variable in the newest checkpoint. NotFoundError when there is none, or it has no such variable."""
        return checkpoint.read(self._checkpoint(None), [name.removesuffix(":0")]).tensors[name.removesuffix(":0")]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model_dir}>"


def _inputs(input_fn: Callable[[], Any]) -> tuple[Any, Any]:
    """(features, labels) that an input function built; labels may be left out."""
    found = input_fn()
    if isinstance(found, Dataset):
        found = found.make_one_shot_iterator().get_next()
    if isinstance(found, tuple) and len(found) == 2:
        return found
    return found, None


def _predicted(graph: Graph, creator: ChiefSessionCreator, hooks: Sequence[SessionRunHook], predictions: Any,
               singly: bool) -> Iterator[Any]:
    """The predictions batch by batch, or one by one, to the end of the input."""
    with graph.as_default():
        session = MonitoredSession(creator, hooks)
    with session:
        while not session.should_stop():
            batch = session.run(predictions)
            if not singly:
                yield batch
            elif isinstance(batch, dict):
                for row in range(len(next(iter(batch.values()), ()))):
                    yield {key: value[row] for key, value in batch.items()}
            else:
                yield from batch


def numpy_input_fn(x: Any, y: Any = None, batch_size: int = 128, num_epochs: int | None = 1, shuffle: bool | None = None,
                   queue_capacity: int = 1000, num_threads: int = 1) -> Callable[[], Any]:
    """An input function over arrays in memory: `x` is an array [n, ...] or a dictionary of them, `y` one too, or None.

    It gives (features, labels), or features alone without `y`; batches run on across epochs, the last may be smaller.
    InvalidArgumentError unless `shuffle` is given.
    """
    if shuffle is None:
        raise errors.InvalidArgumentError("numpy_input_fn: shuffle is missing; pass True to train, False to evaluate")
    lengths = {len(part) for value in (x, y) if value is not None
               for part in (value.values() if isinstance(value, Mapping) else [value])}
    if len(lengths) != 1:
        raise errors.InvalidArgumentError(f"numpy_input_fn: the arrays have {', '.join(map(str, sorted(lengths))) or 'no'} "
                                          "rows; give each the same number")

    def arrays(value: Any) -> Any:
        return {k: np.asarray(v) for k, v in value.items()} if isinstance(value, Mapping) else np.asarray(value)

    def input_fn() -> Any:
        data = Dataset.from_tensor_slices(arrays(x) if y is None else (arrays(x), arrays(y)))
        if shuffle:
            data = data.shuffle(queue_capacity)
        return data.repeat(num_epochs).batch(batch_size).make_one_shot_iterator().get_next()
    return input_fn


def pandas_input_fn(x: Any, y: Any = None, batch_size: int = 128, num_epochs: int | None = 1, shuffle: bool | None = None,
                    queue_capacity: int = 1000, num_threads: int = 1, target_column: str = "target") -> Callable[[], Any]:
    """numpy_input_fn of the columns of a pandas DataFrame `x`; labels are a Series `y`, or a DataFrame's columns by name.

    InvalidArgumentErrors (ValueErrors) unless `shuffle` is given, and where `x` and `y` have different indices.
    """
    if y is not None:
        if target_column in x:
            raise errors.InvalidArgumentError(f"pandas_input_fn: Cannot use name {target_column} for target column: DataFrame "
                                              "already has a column with that name; pass another target_column")
        if not x.index.equals(y.index):
            raise errors.InvalidArgumentError(f"pandas_input_fn: Index for x and y are mismatched. Index for x: {x.index} "
                                              f"Index for y: {y.index}; make them agree")

    def columns(frame: Any) -> Any:
        return {str(key): _column(frame[key]) for key in frame} if hasattr(frame, "columns") else _column(frame)
    return numpy_input_fn(columns(x), None if y is None else columns(y), batch_size, num_epochs, shuffle, queue_capacity,
                          num_threads)


def _column(series: Any) -> Any:
    values = np.asarray(series)
    return values.astype(object) if values.dtype.kind in "OUT" else values
