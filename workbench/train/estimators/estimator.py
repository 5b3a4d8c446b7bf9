"""Estimator: a model function trained, evaluated and asked for predictions, each in a graph and session of its own."""
from __future__ import annotations

import copy
import inspect
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import bare
from workbench.core.graph.graph import Graph, get_default_graph
from workbench.core.run.session import Session
from workbench.nn import metrics
from workbench.nn.framework import device, set_random_seed
from workbench.nn.lookups import local_initializer
from workbench.nn.variables import GraphKeys, get_collection, global_variables_initializer
from workbench.train.config import ConfigProto
from workbench.train.estimators.estimator_spec import EstimatorSpec, ModeKeys, checked_hooks
from workbench.train.estimators.run_config import RunConfig
from workbench.train.input.data import Dataset
from workbench.train.optimizers.schedules import create_global_step
from workbench.train.placement import replica_device_setter
from workbench.train.saving import summary
from workbench.train.saving.saver import default_kind, default_saver, newest_checkpoint
from workbench.train.sessions.evaluation import StopAfterNEvalsHook, evaluate_once
from workbench.train.sessions.hooks import CheckpointSaverHook, CheckpointSaverListener, SessionRunHook, StopAtStepHook
from workbench.train.sessions.hooks_more import NanTensorHook
from workbench.train.sessions.managers import ChiefSessionCreator, MonitoredSession
from workbench.train.sessions.monitored import MonitoredTrainingSession

__all__ = ["Estimator", "EstimatorSpec", "ModeKeys", "RunConfig", "numpy_input_fn", "pandas_input_fn"]

_HOOKS = "Hooks must be a SessionRunHook"


class Estimator:
    """Trains and uses `model_fn(features, labels, mode, params, config)`, of which it may leave out the last four.

    The function builds the model and returns an EstimatorSpec. Checkpoints and summaries go to `model_dir` (default: a new
    temporary folder), where training goes on and evaluation and prediction begin.
    """

    _taken = frozenset({"loss", "global_step"})      # names of what evaluation measures by itself

    def __init__(self, model_fn: Callable[..., Any], model_dir: Any = None, config: RunConfig | None = None,
                 params: Mapping[str, Any] | None = None) -> None:
        if config is not None and not isinstance(config, RunConfig):
            raise errors.InvalidArgumentError(f"Estimator: config must be an instance of RunConfig, but provided {config!r}")
        config = config or RunConfig()
        if None not in (model_dir, config.model_dir) and str(model_dir) != str(config.model_dir):
            raise errors.InvalidArgumentError("Estimator: model_dir are set both in constructor and RunConfig, but with "
                                              f"different values: {model_dir} and {config.model_dir}; give one")
        self.model_dir = str(model_dir or config.model_dir or tempfile.mkdtemp())
        self.config = config if config.model_dir is not None else config.replace(model_dir=self.model_dir)
        self._session_config = config.session_config or ConfigProto(allow_soft_placement=True)
        self.params = copy.deepcopy(dict(params or {}))
        if model_fn is None:
            raise errors.InvalidArgumentError("Estimator: model_fn must be provided to Estimator.; give one")
        self._model_fn = model_fn
        taken = arguments(model_fn)
        unknown = taken - {"features", "labels", "mode", "params", "config"}
        if unknown:
            raise errors.InvalidArgumentError(f"Estimator: model_fn takes {', '.join(sorted(unknown))}; it may take features, "
                                              "labels, mode, params and config")
        if params is not None and "params" not in taken:
            raise errors.InvalidArgumentError(f"Estimator: model_fn {model_fn} does not include params argument, but params "
                                              f"{params} is passed to Estimator; let it take params")

    # building
    def _spec(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        known = {"labels": labels, "mode": mode, "params": self.params, "config": self.config}
        wanted = arguments(self._model_fn)
        if labels is not None and "labels" not in wanted:
            raise errors.InvalidArgumentError("Estimator: model_fn does not take labels, but input_fn returns labels.; let it "
                                              "take labels")
        spec = self._model_fn(features=features, **{key: value for key, value in known.items() if key in wanted})
        if not isinstance(spec, EstimatorSpec):
            raise errors.InvalidArgumentError(f"Estimator: model_fn should return an EstimatorSpec. It returned a "
                                              f"{type(spec).__name__}")
        return spec

    def _inputs(self, input_fn: Callable[..., Any]) -> tuple[Any, Any]:
        """(features, labels) that an input function built; labels may be left out."""
        known = {"params": self.params, "config": self.config}
        found = input_fn(**{key: known[key] for key in arguments(input_fn) & set(known)})
        if isinstance(found, Dataset):
            found = found.make_one_shot_iterator().get_next()
        if not isinstance(found, (list, tuple)):
            return found, None
        if len(found) != 2:
            raise errors.InvalidArgumentError("Estimator: input_fn should return (features, labels) as a len 2 tuple.; it "
                                              f"returned {len(found)} parts")
        return found[0], found[1]

    def _placed(self) -> Any:
        """Where training has what: in a cluster variables are in the parameter servers, if there are any, the rest is here."""
        config = self.config
        return replica_device_setter(config.num_ps_replicas, worker_device=f"/job:{config.task_type}/task:{config.task_id}")

    def _begin(self) -> Any:
        set_random_seed(self.config.tf_random_seed)
        return create_global_step()

    # using
    def train(self, input_fn: Callable[[], Any], hooks: Sequence[SessionRunHook] | None = None, steps: int | None = None,
              max_steps: int | None = None, saving_listeners: Any = None) -> Estimator:
        """Go on for `steps` steps, or until `max_steps` in all, or to the end of the input, and save.

        `input_fn()` builds the input: (features, labels) tensors, or a Dataset of such pairs. `saving_listeners` are told of
        every checkpoint. NanLossDuringTrainingError when the loss is no number any more; InvalidArgumentErrors where both
        numbers are given or one is not positive, and for listeners where nothing saves.
        """
        if steps is not None and max_steps is not None:
            raise errors.InvalidArgumentError("Estimator.train: Can not provide both steps and max_steps. They are "
                                              f"{steps} and {max_steps}; give one")
        for name, number in (("steps", steps), ("max_steps", max_steps)):
            if number is not None and number <= 0:
                raise errors.InvalidArgumentError(f"Estimator.train: Must specify {name} > 0, given: {number}")
        own = checked_hooks(hooks, _HOOKS)
        for listener in saving_listeners or ():
            if not isinstance(listener, CheckpointSaverListener):
                raise TypeError(f"saving_listeners must be a list of CheckpointSaverListener, given: {listener}")
        if max_steps is not None and self._steps_done() >= max_steps:
            return self
        with get_default_graph().fresh().as_default(), device(self._placed()):
            self._begin()
            spec = self._spec(*self._inputs(input_fn), ModeKeys.TRAIN)
            if all(t.op.attrs.get("tag") != "loss" for t in get_collection(GraphKeys.SUMMARIES)):
                summary.scalar("loss", spec.loss)
            chosen = [*own, NanTensorHook(spec.loss), *spec.training_hooks]
            if steps is not None or max_steps is not None:
                chosen.append(StopAtStepHook(num_steps=steps, last_step=max_steps))
            self._loop(spec, chosen, [*spec.training_chief_hooks, *self._saving(spec, chosen, saving_listeners)])
        return self

    def _saving(self, spec: EstimatorSpec, hooks: Sequence[SessionRunHook], listeners: Any) -> list[CheckpointSaverHook]:
        """What saves, unless a hook of the program does; the first to save tells the listeners."""
        found = [hook for hook in (*hooks, *spec.training_chief_hooks) if isinstance(hook, CheckpointSaverHook)]
        every, made = self.config, list[CheckpointSaverHook]()
        if not found and (every.save_checkpoints_secs or every.save_checkpoints_steps):
            saver = spec.scaffold.saver or default_saver(
                max_to_keep=every.keep_checkpoint_max,
                keep_checkpoint_every_n_hours=every.keep_checkpoint_every_n_hours or 10000)
            made = [CheckpointSaverHook(self.model_dir, every.save_checkpoints_secs, every.save_checkpoints_steps, saver)]
        if listeners and not (found or made):
            raise errors.InvalidArgumentError("Estimator.train: There should be a CheckpointSaverHook to use saving_listeners. "
                                              "Please set one of the RunConfig.save_checkpoints_steps or "
                                              "RunConfig.save_checkpoints_secs.")
        for hook in (found or made)[:1]:
            hook.listeners.extend(listeners or ())
        return made

    def _loop(self, spec: EstimatorSpec, hooks: Sequence[SessionRunHook], of_chief: Sequence[SessionRunHook]) -> None:
        config = self.config
        with MonitoredTrainingSession(
                config.master, config.is_chief, self.model_dir, spec.scaffold, hooks, of_chief, save_checkpoint_secs=None,
                save_summaries_steps=config.save_summary_steps, log_step_count_steps=config.log_step_count_steps,
                config=self._session_config) as session:
            while not session.should_stop():
                session.run(spec.train_op)

    def _steps_done(self) -> int:
        newest = self.latest_checkpoint()
        return 0 if newest is None else int(newest.rpartition("-")[2])

    def evaluate(self, input_fn: Callable[[], Any], steps: int | None = None, hooks: Any = None, checkpoint_path: Any = None,
                 name: str | None = None) -> dict[str, Any]:
        """Mean loss, metrics and global step over `steps` batches, or to the end of the input.

        The numbers are also written as summaries to the folder `eval` (`eval_<name>` with a name) of model_dir.
        InvalidArgumentErrors where `steps` is not positive, where nothing was trained, and for a metric by a taken name.
        """
        if steps is not None and steps <= 0:
            raise errors.InvalidArgumentError(f"Estimator.evaluate: Must specify steps > 0, given: {steps}")
        own, path = checked_hooks(hooks, _HOOKS), self._checkpoint(checkpoint_path)
        with get_default_graph().fresh().as_default():
            step = self._begin()
            spec = self._spec(*self._inputs(input_fn), ModeKeys.EVAL)
            for taken in spec.eval_metric_ops.keys() & self._taken:
                raise errors.InvalidArgumentError(f"Estimator.evaluate: Metric with name `{taken}` is not allowed, because "
                                                  "Estimator already defines a default metric with the same name.; rename it")
            found = {"loss": metrics.mean(spec.loss, name="mean_loss"), **spec.eval_metric_ops}
            every = [StopAfterNEvalsHook(steps), *own, *spec.evaluation_hooks]
            values = evaluate_once(path, None, spec.scaffold, [update for _, update in found.values()], hooks=every,
                                   final_ops={"global_step": step, **{key: value for key, (value, _) in found.items()}},
                                   config=self._session_config)
        result = dict(values)
        self._summarise(result, f"eval_{name}" if name else "eval")
        return result

    def _summarise(self, result: Mapping[str, Any], folder: str) -> None:
        values = {key: value for key, value in result.items() if key != "global_step"}
        with summary.FileWriter(os.path.join(self.model_dir, folder)) as writer:
            writer.add_summary(summary.numbers(values), result["global_step"])

    def predict(self, input_fn: Callable[[], Any], predict_keys: Any = None, hooks: Any = None, checkpoint_path: Any = None,
                yield_single_examples: bool = True) -> Iterator[Any]:
        """The predictions for each example to the end of the input, one after the other: arrays, or dictionaries.

        With `yield_single_examples=False` a batch at a time. `predict_keys` names the wanted entries. InvalidArgumentErrors
        where nothing was trained, for keys that there are not, and for predictions of different numbers of examples.
        """
        own, path = checked_hooks(hooks, _HOOKS), self._checkpoint(checkpoint_path)
        with get_default_graph().fresh().as_default() as graph:
            self._begin()
            spec = self._spec(self._inputs(input_fn)[0], None, ModeKeys.PREDICT)
        predictions, every = _chosen(spec.predictions, predict_keys), [*own, *spec.prediction_hooks]
        creator = ChiefSessionCreator(spec.scaffold, None, self._session_config, checkpoint_filename_with_path=path)
        return _predicted(graph, creator, every, predictions, yield_single_examples)

    def _checkpoint(self, path: Any) -> str:
        """The given checkpoint, or the newest; InvalidArgumentError when there is none."""
        path = path or self.latest_checkpoint()
        if path is None:
            raise errors.InvalidArgumentError(f"Estimator: Could not find trained model in model_dir: {self.model_dir}.; train "
                                              "first")
        return str(path)

    def _restored(self, path: Any, graph: Graph) -> Session:
        """A session with the newest (or the given) checkpoint; InvalidArgumentError when there is none."""
        path = self._checkpoint(path)
        session = Session(graph=graph, config=self._session_config)
        with graph.as_default():
            saver, starts = default_saver(), [global_variables_initializer(), local_initializer()]
        session.run(starts)
        saver.restore(session, path)
        return session

    # what was trained
    def latest_checkpoint(self) -> str | None:
        """The newest checkpoint in model_dir, None when there is none."""
        return newest_checkpoint(self.model_dir)

    @property
    def model_fn(self) -> Callable[..., Any]:
        """The function that builds the model."""
        return self._model_fn

    def get_variable_names(self) -> list[str]:
        """The names of the variables in the newest checkpoint. InvalidArgumentError when there is none."""
        return default_kind().names(self._checkpoint(None))

    def get_variable_value(self, name: str) -> Any:
        """The value of a variable in the newest checkpoint. InvalidArgumentError when there is none, NotFoundError
        when it has no such variable."""
        return default_kind().value(self._checkpoint(None), name.removesuffix(":0"))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model_dir}>"


def arguments(function: Callable[..., Any]) -> set[str]:
    """The names of what a function may be given, beside what a partial one has been given by name."""
    return set(inspect.signature(function).parameters) - set(getattr(function, "keywords", ()))


def _chosen(predictions: Any, keys: Any) -> Any:
    """The predictions of these keys, or all."""
    if not keys:
        return predictions
    if not isinstance(predictions, Mapping):
        raise errors.InvalidArgumentError("Estimator.predict: predict_keys argument is not valid in case of non-dict "
                                          "predictions.; leave it out")
    chosen = {key: value for key, value in predictions.items() if key in ([keys] if isinstance(keys, str) else keys)}
    if not chosen:
        raise errors.InvalidArgumentError(f"Estimator.predict: Expected to run at least one output from {list(predictions)}, "
                                          f"provided {keys}.")
    return chosen


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
                lengths = {key: len(value) for key, value in batch.items()}
                if len(set(lengths.values())) > 1:
                    raise errors.InvalidArgumentError("Estimator.predict: Batch length of predictions should be same. They are "
                                                      f"{lengths}")
                for row in range(max(lengths.values(), default=0)):
                    yield {key: value[row] for key, value in batch.items()}
            else:
                yield from batch


def numpy_input_fn(x: Any, y: Any = None, batch_size: int = 128, num_epochs: int | None = 1, shuffle: bool | None = None,
                   queue_capacity: int = 1000, num_threads: int = 1) -> Callable[[], Any]:
    """An input function over arrays in memory: `x` is an array [n, ...] or a dictionary of them, `y` one too, or None.

    It gives (features, labels), or features alone without `y`; batches run on across epochs, the last may be smaller.
    DtypeError (a TypeError) unless `shuffle` is True or False, InvalidArgumentError for arrays of different lengths.
    """
    if not isinstance(shuffle, bool | np.bool_):
        raise errors.DtypeError(f"numpy_input_fn: shuffle must be explicitly set as boolean; it is {shuffle!r}: pass True to "
                                "train, False to evaluate")
    lengths = {len(part) for value in (x, y) if value is not None
               for part in (value.values() if isinstance(value, Mapping) else [value])}
    if len(lengths) != 1:
        raise errors.InvalidArgumentError(f"numpy_input_fn: the arrays have {', '.join(map(str, sorted(lengths))) or 'no'} "
                                          "rows; give each the same number (Length of tensors in x and y is mismatched.)")

    def arrays(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {k: np.asarray(bare(v, f"numpy_input_fn: {k!r}")) for k, v in value.items()}
        return np.asarray(bare(value, "numpy_input_fn"))

    def input_fn() -> Any:
        data = Dataset.from_tensor_slices(arrays(x) if y is None else (arrays(x), arrays(y)))
        if shuffle:
            data = data.shuffle(queue_capacity)
        return data.repeat(num_epochs).batch(batch_size).make_one_shot_iterator().get_next()
    return input_fn


def pandas_input_fn(x: Any, y: Any = None, batch_size: int = 128, num_epochs: int | None = 1, shuffle: bool | None = None,
                    queue_capacity: int = 1000, num_threads: int = 1, target_column: str = "target") -> Callable[[], Any]:
    """numpy_input_fn of the columns of a pandas DataFrame `x`; labels are a Series `y`, or a DataFrame's columns by name.

    DtypeError (a TypeError) unless `shuffle` is True or False, InvalidArgumentError (a ValueError) where `x` and `y` have
    different indices.
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
