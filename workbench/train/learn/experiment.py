"""Experiments of tf.contrib.learn: an estimator with the input it is trained and evaluated on, run by a schedule."""
from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.nn.arguments import refuse
from workbench.train.estimators.estimator import Estimator
from workbench.train.estimators.specs import Exporter
from workbench.train.learn.config import RunConfig
from workbench.train.learn.estimator import Evaluable, Trainable
from workbench.train.learn.exports import ExportStrategy
from workbench.train.learn.monitors import ValidationMonitor
from workbench.train.saving.saver import newest_checkpoint

__all__ = ["Experiment", "run", "tune"]

logger = logging.getLogger("workbench")


class Experiment:
    """An estimator, how it is trained, and how it is evaluated, in this process.

    `train_steps` steps (None: to the end of the input), `eval_steps` batches, `eval_metrics` and `train_monitors` as the
    estimator's evaluate and fit take them, `export_strategies` ExportStrategies, or exporters of tf.estimator. Training is
    evaluated every `min_eval_frequency` steps (default 1; 0: at the end alone) where there is a new checkpoint, by `local_run`
    every `local_eval_frequency`. Evaluation waits `eval_delay_secs` where they are given, and where it is repeated
    `continuous_eval_throttle_secs` from one to the next; `train_steps_per_iteration` (default a tenth of `train_steps`, or
    1000) are those between evaluations of `continuous_train_and_eval`. ValueErrors for another estimator, other strategies, and
    metrics of an estimator that has its own; UnimplementedError where workers shall begin by steps, or every checkpoint be
    exported.
    """

    def __init__(self, estimator: Any, train_input_fn: Callable[[], Any], eval_input_fn: Callable[[], Any],
                 eval_metrics: Mapping[str, Any] | None = None, train_steps: int | None = None, eval_steps: int | None = 100,
                 train_monitors: Sequence[Any] | None = None, eval_hooks: Sequence[Any] | None = None,
                 local_eval_frequency: int | None = None, eval_delay_secs: float = 0,
                 continuous_eval_throttle_secs: float = 60, min_eval_frequency: int | None = None,
                 delay_workers_by_global_step: bool = False, export_strategies: Any = None,
                 train_steps_per_iteration: int | None = None, checkpoint_and_export: bool = False) -> None:
        refuse("Experiment", "train_and_evaluate trains, evaluates and exports", delay_workers_by_global_step=(
            delay_workers_by_global_step), checkpoint_and_export=checkpoint_and_export)
        if not isinstance(estimator, (Estimator, Evaluable)) or not isinstance(estimator, (Estimator, Trainable)):
            raise ValueError(f"Experiment: `estimator` must implement Evaluable and Trainable; it is a "
                             f"{type(estimator).__name__}")
        if eval_metrics is not None and not isinstance(estimator, Evaluable):
            raise ValueError("Experiment: `eval_metrics` must be `None` with `tf.estimator.Estimator`; use eval_metric_ops in "
                             "EstimatorSpec instead")
        if not isinstance(train_steps_per_iteration, (int, type(None))):
            raise ValueError("Experiment: `train_steps_per_iteration` must be an integer; it is "
                             f"{train_steps_per_iteration!r}")
        self.estimator, self.eval_metrics, self.train_steps, self.eval_steps = (estimator, eval_metrics, train_steps,
                                                                                eval_steps)
        self._inputs, self._hooks = (train_input_fn, eval_input_fn), list(eval_hooks or ())
        self._monitors, self._turn = list(train_monitors or ()), train_steps_per_iteration
        self._frequency = 1 if min_eval_frequency is None else min_eval_frequency
        self._local_frequency = local_eval_frequency
        self._delay, self._throttle = eval_delay_secs, continuous_eval_throttle_secs
        self.reset_export_strategies(export_strategies)

    def extend_train_hooks(self, additional_hooks: Sequence[Any]) -> None:
        """Call these too while it is trained."""
        self._monitors += additional_hooks

    def reset_export_strategies(self, new_export_strategies: Any = None) -> tuple[Any, ...]:
        """Export by these from now on; those of before. ValueError for what is no strategy."""
        before = getattr(self, "_exporters", ())
        one = isinstance(new_export_strategies, (ExportStrategy, Exporter))
        self._exporters = (new_export_strategies,) if one else tuple(new_export_strategies or ())
        if not all(isinstance(each, (ExportStrategy, Exporter)) for each in self._exporters):
            raise ValueError("Experiment: `export_strategies` must be an ExportStrategy, a list of ExportStrategies, or None, "
                             f"found {new_export_strategies}.")
        return before

    def _train(self, monitors: Sequence[Any], **steps: int | None) -> Any:
        if isinstance(self.estimator, Trainable):
            return self.estimator.fit(input_fn=self._inputs[0], monitors=list(monitors), **steps)
        for monitor in monitors:
            if hasattr(monitor, "set_estimator"):
                monitor.set_estimator(self.estimator)
        return self.estimator.train(input_fn=self._inputs[0], hooks=list(monitors), **steps)

    def _evaluate(self, name: str | None, steps: int | None, input_fn: Any = None, **checkpoint: Any) -> dict[str, Any]:
        more: dict[str, Any] = {"metrics": self.eval_metrics} if isinstance(self.estimator, Evaluable) else {}
        return self.estimator.evaluate(input_fn=input_fn or self._inputs[1], steps=steps, hooks=self._hooks, name=name,
                                       **more, **checkpoint)

    def _export(self, found: Mapping[str, Any], path: Any = None) -> list[Any]:
        """Paths of what is exported of the newest checkpoint, or that at `path`, with what its evaluation found."""
        made = []
        for one in self._exporters:
            last = (True,) if isinstance(one, Exporter) else ()      # an exporter of tf.estimator is told that it is the last
            made.append(one.export(self.estimator, f"{self.estimator.model_dir}/export/{one.name}", path, found, *last))
        return made

    def train(self, delay_secs: float | None = None) -> Any:
        """Train after `delay_secs` (default: 5 for each task before this one, at most 60); the estimator."""
        _wait(min(60, 5 * (getattr(self.estimator.config, "task_id", 0) or 0)) if delay_secs is None else delay_secs)
        return self._train(self._monitors, max_steps=self.train_steps)

    def evaluate(self, delay_secs: float | None = None, name: str | None = None) -> dict[str, Any]:
        """Evaluate what was trained, after `delay_secs`; the metrics."""
        _wait(self._delay if delay_secs is None else delay_secs)
        return self._evaluate(name or "one_pass", self.eval_steps)

    def continuous_eval(self, delay_secs: float | None = None, throttle_delay_secs: float | None = None,
                        evaluate_checkpoint_only_once: bool = True, continuous_eval_predicate_fn: Any = None,
                        name: str = "continuous") -> None:
        """Evaluate and export each new checkpoint until one has `train_steps`, or the function of the last metrics says no."""
        self._repeat(self._inputs[1], name, delay_secs, throttle_delay_secs, evaluate_checkpoint_only_once,
                     continuous_eval_predicate_fn, True)

    def continuous_eval_on_train_data(self, delay_secs: float | None = None, throttle_delay_secs: float | None = None,
                                      continuous_eval_predicate_fn: Any = None, name: str = "continuous_on_train_data") -> None:
        """The same on what it is trained with; nothing is exported."""
        self._repeat(self._inputs[0], name, delay_secs, throttle_delay_secs, True, continuous_eval_predicate_fn, False)

    def _repeat(self, input_fn: Any, name: str, delay: float | None, throttle: float | None, once: bool, predicate: Any,
                export: bool) -> None:
        _callable(predicate)
        _wait(self._delay if delay is None else delay)
        pause, before, found = self._throttle if throttle is None else throttle, None, None
        while predicate is None or predicate(found):
            if self._over(found):
                return
            began, path = time.time(), newest_checkpoint(self.estimator.model_dir)
            if path is None or (once and path == before):
                logger.info("evaluation waits for a %scheckpoint", "" if path is None else "new ")
                found = {}
            else:
                found, before = self._evaluate(name, self.eval_steps, input_fn, checkpoint_path=path) or {}, path
                if export:
                    self._export(found, path)
            _wait(pause - (time.time() - began))

    def _over(self, found: Mapping[str, Any] | None) -> bool:
        """Has what was evaluated all its steps?"""
        step = (found or {}).get("global_step")
        return bool(step and self.train_steps and step >= self.train_steps)

    def continuous_train_and_eval(self, continuous_eval_predicate_fn: Any = None) -> tuple[Any, Any]:
        """Train some steps and evaluate by turns, until there are `train_steps`, or the function of the last metrics says no:
        (metrics, paths of what was exported), None where it did not begin."""
        _callable(continuous_eval_predicate_fn)
        found, made = None, None
        turn = self._turn if self._turn is not None else 1000 if self.train_steps is None else int(self.train_steps / 10)
        while (continuous_eval_predicate_fn is None or continuous_eval_predicate_fn(found)) and not self._over(found):
            self._train(self._monitors, steps=turn)
            found = self._evaluate("one_pass", self.eval_steps)
            made = self._export(found)
        return found, made

    def train_and_evaluate(self) -> tuple[dict[str, Any], list[Any]]:
        """Train, evaluate and export: (metrics, paths of what was exported)."""
        return self._by_turns(self._frequency)

    def local_run(self) -> tuple[dict[str, Any], list[Any]]:
        """The same, evaluated while it is trained only every `local_eval_frequency` steps."""
        return self._by_turns(self._local_frequency)

    def _by_turns(self, frequency: int | None) -> tuple[dict[str, Any], list[Any]]:
        monitors = list(self._monitors)
        if frequency:
            monitors.append(ValidationMonitor(input_fn=self._inputs[1], eval_steps=self.eval_steps, metrics=self.eval_metrics,
                                              every_n_steps=frequency, hooks=self._hooks))
        self._train(monitors, max_steps=self.train_steps)
        found = self._evaluate(None, self.eval_steps)
        return found, self._export(found)

    def test(self) -> dict[str, Any]:
        """One step, one batch and an export, to see that it runs: the metrics."""
        self._train(self._monitors, steps=1)
        found = self._evaluate("one_pass", 1)
        self._export(found)
        return found


def _wait(seconds: float) -> None:
    if seconds > 0:
        time.sleep(seconds)


def _callable(predicate: Any) -> None:
    if predicate is not None and not callable(predicate):
        raise ValueError(f"Experiment: `continuous_eval_predicate_fn` must be a callable, or None; it is {predicate!r}")


def run(experiment_fn: Callable[..., Any], output_dir: Any = None, schedule: str | None = None, run_config: Any = None,
        hparams: Any = None) -> Any:
    """What `schedule` of the experiment gives that `experiment_fn` makes: of `output_dir`, or of (run_config=, hparams=).

    The default is train_and_evaluate; in a cluster it is train for workers. ValueError where the folder is not told once, and
    for a schedule that is no method; TypeError where no Experiment is made; RuntimeError where its estimator has another
    configuration than `run_config`.
    """
    if output_dir is not None and run_config is not None:
        raise ValueError("Cannot provide both `output_dir` and `run_config`; give the configuration its model_dir")
    if output_dir is None and run_config is None:
        raise ValueError("Must set value for `output_dir` or `run_config`: where does the model go?")
    if not callable(experiment_fn):
        raise TypeError(f"Experiment builder \"{experiment_fn}\" is not callable.")
    made = _of_folder(experiment_fn, output_dir, hparams) if run_config is None else _of_config(
        experiment_fn, run_config, hparams)
    name = schedule or _schedule(run_config or made.estimator.config)
    if name.startswith("_") or not hasattr(made, name):
        known = [key for key in vars(Experiment) if not key.startswith("_")]
        raise ValueError(f"Schedule references non-existent task {name}: use one of {', '.join(known)}")
    method = getattr(made, name)
    if not callable(method):
        raise TypeError(f"Schedule references non-callable member {name}: it is {method!r}; name a method")
    return method()


def tune(experiment_fn: Callable[..., Any], tuner: Any) -> None:
    """Run an experiment for each trial of `tuner`: an object with next_trial and run_experiment, which calls what it is given
    with (run_config, hparams)."""
    while tuner.next_trial():
        tuner.run_experiment(lambda run_config, hparams: _of_config(experiment_fn, run_config, hparams, needed=True))


def _of_folder(experiment_fn: Callable[..., Any], folder: Any, hparams: Any) -> Experiment:
    if not folder:
        raise ValueError("Must specify an output directory")
    if hparams is not None:
        raise ValueError("Must set `hparams` as None for `experiment_fn` with `output_dir`; pass run_config")
    return _experiment(experiment_fn(folder))


def _of_config(experiment_fn: Callable[..., Any], config: Any, hparams: Any, needed: bool = False) -> Experiment:
    if not isinstance(config, RunConfig):
        raise ValueError(f"`run_config` must be `tf.contrib.learn.RunConfig` instance; it is a {type(config).__name__}")
    if not config.model_dir:
        raise ValueError("Must specify a model directory `model_dir` in `run_config`.")
    if hparams is None and needed:
        raise ValueError("`hparams` cannot be `None`.")
    told = config.uid()
    made = _experiment(experiment_fn(config, hparams))
    found = getattr(made.estimator.config, "uid", None)
    if found is None or found() != told:
        raise RuntimeError("`RunConfig` instance is expected to be used by the `Estimator` inside the `Experiment`. Pass "
                           "`run_config` argument of the `experiment_fn` to the Estimator: "
                           f"expected {told}, but got {found and found()}")
    return made


def _experiment(made: Any) -> Experiment:
    if not isinstance(made, Experiment):
        raise TypeError(f"Experiment builder did not return an Experiment instance, got {type(made)} instead.")
    return made


def _schedule(config: Any) -> str:
    """What a task does: it trains and evaluates, or trains beside others."""
    cluster = getattr(config, "cluster_spec", None)
    alone = not cluster or sum(map(len, cluster.as_dict().values())) < 2
    if alone or config.task_type == "master":
        return "train_and_evaluate"
    if config.task_type != "worker":
        raise ValueError("Must specify a schedule" if not config.task_type else
                         f"No default schedule for task type: {config.task_type}; a task of variables is a tf.train.Server")
    return "train"
