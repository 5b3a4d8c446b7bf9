"""Experiments of tf.contrib.learn: an estimator with the input it is trained and evaluated on, run by a schedule."""
from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.nn.arguments import refuse
from workbench.train.estimators.estimator import Estimator
from workbench.train.estimators.specs import Exporter
from workbench.train.learn.estimator import Evaluable, Trainable
from workbench.train.learn.exports import ExportStrategy
from workbench.train.learn.monitors import ValidationMonitor

__all__ = ["Experiment", "run"]


class Experiment:
    """An estimator, how it is trained, and how it is evaluated, in this process.

    `train_steps` steps (None: to the end of the input), `eval_steps` batches, `eval_metrics` and `train_monitors` as the
    estimator's evaluate and fit take them, `export_strategies` ExportStrategies, or exporters of tf.estimator. With
    `min_eval_frequency` (or its older name `local_eval_frequency`) training is evaluated every so many steps, where there is
    a new checkpoint. The seconds are for tasks that evaluate beside others that train; by turns there is nothing to wait for.
    TypeError for another estimator, ValueError for other strategies, UnimplementedError where workers shall begin by turns,
    training shall be iterated, or every checkpoint exported.
    """

    def __init__(self, estimator: Any, train_input_fn: Callable[[], Any], eval_input_fn: Callable[[], Any],
                 eval_metrics: Mapping[str, Any] | None = None, train_steps: int | None = None, eval_steps: int | None = 100,
                 train_monitors: Sequence[Any] | None = None, eval_hooks: Sequence[Any] | None = None,
                 local_eval_frequency: int | None = None, eval_delay_secs: float = 120,
                 continuous_eval_throttle_secs: float = 60, min_eval_frequency: int | None = None,
                 delay_workers_by_global_step: bool = False, export_strategies: Any = None,
                 train_steps_per_iteration: int | None = None, checkpoint_and_export: bool = False) -> None:
        refuse("Experiment", "train_and_evaluate trains, evaluates and exports", delay_workers_by_global_step=(
            delay_workers_by_global_step), train_steps_per_iteration=train_steps_per_iteration,
            checkpoint_and_export=checkpoint_and_export)
        if not isinstance(estimator, (Estimator, Evaluable)) or not isinstance(estimator, (Estimator, Trainable)):
            raise TypeError(f"Experiment: `estimator` must implement Evaluable and Trainable; it is a "
                            f"{type(estimator).__name__}")
        self.estimator, self.eval_metrics, self.train_steps, self.eval_steps = (estimator, eval_metrics, train_steps,
                                                                                eval_steps)
        self._inputs, self._hooks = (train_input_fn, eval_input_fn), list(eval_hooks or ())
        self._monitors, self._frequency = list(train_monitors or ()), (
            local_eval_frequency if min_eval_frequency is None else min_eval_frequency)
        one = isinstance(export_strategies, (ExportStrategy, Exporter))
        self._exporters = [export_strategies] if one else list(export_strategies or ())
        if not all(isinstance(each, (ExportStrategy, Exporter)) for each in self._exporters):
            raise ValueError(f"Experiment: `export_strategies` must be an ExportStrategy, a list of ExportStrategies, or None, "
                             f"found {export_strategies}.")

    def extend_train_hooks(self, additional_hooks: Sequence[Any]) -> None:
        """Call these too while it is trained."""
        self._monitors += additional_hooks

    def _train(self, steps: int | None, monitors: Sequence[Any]) -> Any:
        fit = getattr(self.estimator, "fit", None)
        if fit is not None:
            return fit(input_fn=self._inputs[0], max_steps=steps, monitors=monitors)
        for monitor in monitors:
            if hasattr(monitor, "set_estimator"):
                monitor.set_estimator(self.estimator)
        return self.estimator.train(self._inputs[0], monitors, max_steps=steps)

    def _evaluate(self, steps: int | None, name: str | None) -> dict[str, Any]:
        more = {} if self.eval_metrics is None else {"metrics": self.eval_metrics}
        return self.estimator.evaluate(input_fn=self._inputs[1], steps=steps, hooks=self._hooks, name=name, **more)

    def train(self) -> Any:
        """Train; the estimator."""
        return self._train(self.train_steps, self._monitors)

    def evaluate(self, name: str | None = None) -> dict[str, Any]:
        """Evaluate what was trained; the metrics."""
        return self._evaluate(self.eval_steps, name)

    def train_and_evaluate(self) -> tuple[dict[str, Any], list[Any]]:
        """Train, evaluate and export: (metrics, paths of what was exported)."""
        monitors = list(self._monitors)
        if self._frequency:
            monitors.append(ValidationMonitor(
                input_fn=self._inputs[1], eval_steps=self.eval_steps, metrics=self.eval_metrics, name="train",
                every_n_steps=self._frequency, hooks=self._hooks))
        self._train(self.train_steps, monitors)
        found = self.evaluate()
        path = self.estimator.latest_checkpoint()
        made = []
        for one in self._exporters:
            last = (True,) if isinstance(one, Exporter) else ()      # an exporter of tf.estimator is told that it is the last
            made.append(one.export(self.estimator, f"{self.estimator.model_dir}/export/{one.name}", path, found, *last))
        return found, made

    local_run = train_and_evaluate

    def test(self) -> tuple[dict[str, Any], list[Any]]:
        """One step and one batch, to see that it runs: (metrics, nothing exported)."""
        self._train(1, self._monitors)
        return self._evaluate(1, "one_pass"), []


def run(experiment_fn: Callable[..., Any], output_dir: Any = None, schedule: str | None = None, run_config: Any = None,
        hparams: Any = None) -> Any:
    """What `schedule` (default: train_and_evaluate) of the experiment gives that `experiment_fn` makes: of `output_dir`, or of
    (run_config=, hparams=).

    ValueError for neither, and for a schedule that is no method; TypeError where no Experiment is made.
    """
    if not callable(experiment_fn):
        raise TypeError(f"Experiment builder \"{experiment_fn}\" is not callable.")
    if output_dir is None and run_config is None:
        raise ValueError("Must set value for `output_dir` or `run_config`: where does the model go?")
    if run_config is None:
        made = experiment_fn(output_dir)
    elif "hparams" in inspect.signature(experiment_fn).parameters:
        made = experiment_fn(run_config=run_config, hparams=hparams)
    else:
        made = experiment_fn(run_config)
    if not isinstance(made, Experiment):
        raise TypeError(f"Experiment builder did not return an Experiment instance, got {type(made)} instead.")
    name = schedule or "train_and_evaluate"
    method = getattr(made, name, None)
    if name.startswith("_") or not callable(method):
        known = [key for key in vars(Experiment) if not key.startswith("_")]
        raise ValueError(f"Schedule {name!r} is not a method of Experiment; use one of {', '.join(known)}")
    return method()
