"""tf.contrib.tpu's estimator where there is no TPU: programs written for one, such as BERT's, train on what there is."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from workbench import errors
from workbench.train.estimators.estimator import Estimator
from workbench.train.estimators.estimator_spec import EstimatorSpec
from workbench.train.estimators.run_config import RunConfig as _RunConfig
from workbench.train.optimizers.optimizer import Optimizer

__all__ = ["CrossShardOptimizer", "InputPipelineConfig", "RunConfig", "TPUConfig", "TPUEstimator", "TPUEstimatorSpec"]


class InputPipelineConfig:
    """On how many hosts input functions run: by its number, without effect on one machine."""

    PER_SHARD_V1, PER_HOST_V1, PER_HOST_V2, BROADCAST = 1, 2, 3, 4


class TPUConfig(NamedTuple):
    """How a TPU is used: kept as it is given, without effect where there is none."""

    iterations_per_loop: int = 2
    num_shards: int | None = None
    num_cores_per_replica: int | None = None
    per_host_input_for_training: Any = True
    tpu_job_name: str | None = None
    initial_infeed_sleep_secs: int | None = None
    input_partition_dims: Any = None


class RunConfig(_RunConfig):
    """A RunConfig that also knows a TPUConfig, and where a TPU would be: `master`, `cluster` (a resolver)."""

    def __init__(self, tpu_config: TPUConfig | None = None, evaluation_master: str | None = None, master: str | None = None,
                 cluster: Any = None, **options: Any) -> None:
        super().__init__(**options)
        self.tpu_config, self.cluster = tpu_config or TPUConfig(), cluster
        if master is not None:
            self._master = master
        self._evaluation_master = self.master if evaluation_master is None else evaluation_master


class TPUEstimatorSpec(NamedTuple):
    """What a model function returns: an EstimatorSpec whose metrics come as (function, tensors) in `eval_metrics`, and whose
    Scaffold comes of a function; `host_call` serves a TPU alone."""

    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metrics: Any = None
    export_outputs: Any = None
    scaffold_fn: Callable[[], Any] | None = None
    host_call: Any = None
    training_hooks: Any = None
    evaluation_hooks: Any = None
    prediction_hooks: Any = None

    def as_estimator_spec(self) -> EstimatorSpec:
        """The same as an EstimatorSpec: metrics and the Scaffold made."""
        metrics = None
        if self.eval_metrics is not None:
            function, given = self.eval_metrics
            metrics = function(**given) if isinstance(given, Mapping) else function(*given)
        return EstimatorSpec(
            self.mode, predictions=self.predictions, loss=self.loss, train_op=self.train_op, eval_metric_ops=metrics,
            export_outputs=self.export_outputs, scaffold=self.scaffold_fn() if self.scaffold_fn else None,
            training_hooks=self.training_hooks, evaluation_hooks=self.evaluation_hooks, prediction_hooks=self.prediction_hooks)


class TPUEstimator(Estimator):
    """An Estimator whose input and model functions find the size of a batch in `params["batch_size"]`.

    UnimplementedError for `use_tpu`, InvalidArgumentError where params hold a batch_size of their own or the config is no
    RunConfig of this module.
    """

    def __init__(self, model_fn: Callable[..., Any] | None = None, model_dir: Any = None, config: RunConfig | None = None,
                 params: Mapping[str, Any] | None = None, use_tpu: bool = True, train_batch_size: int | None = None,
                 eval_batch_size: int | None = None, predict_batch_size: int | None = None, batch_axis: Any = None,
                 **of_tpu: Any) -> None:
        if use_tpu:
            raise errors.UnimplementedError("TPUEstimator: use_tpu is True but there is no TPU; pass use_tpu=False")
        if not isinstance(config, RunConfig):
            raise errors.InvalidArgumentError("TPUEstimator: `config` must be provided with type "
                                              f"`tpu_config.RunConfig`; it is {config!r}")
        if "batch_size" in (params or {}):
            raise errors.InvalidArgumentError("TPUEstimator: batch_size is set by train_batch_size and its like, but params "
                                              "hold one too; leave it out there")
        super().__init__(model_fn, model_dir, config, params)      # type: ignore[arg-type]
        self._sizes = {"train": train_batch_size, "eval": eval_batch_size, "infer": predict_batch_size}

    def _for(self, mode: str) -> None:
        self.params.pop("batch_size", None)
        if self._sizes[mode] is not None:
            self.params["batch_size"] = self._sizes[mode]

    def _spec(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        function = self._model_fn

        def plain(*args: Any, **options: Any) -> Any:
            found = function(*args, **options)
            return found.as_estimator_spec() if isinstance(found, TPUEstimatorSpec) else found
        plain.__wrapped__ = function      # type: ignore[attr-defined]
        self._model_fn = plain
        try:
            return super()._spec(features, labels, mode)
        finally:
            self._model_fn = function

    def train(self, *args: Any, **options: Any) -> Any:
        """Estimator.train with batches of train_batch_size."""
        self._for("train")
        return super().train(*args, **options)

    def evaluate(self, *args: Any, **options: Any) -> Any:
        """Estimator.evaluate with batches of eval_batch_size."""
        self._for("eval")
        return super().evaluate(*args, **options)

    def predict(self, *args: Any, **options: Any) -> Any:
        """Estimator.predict with batches of predict_batch_size."""
        self._for("infer")
        return super().predict(*args, **options)


class CrossShardOptimizer(Optimizer):
    """The optimizer itself: there is one shard, whose gradients need no sum over others."""

    def __init__(self, opt: Optimizer, reduction: Any = None, name: str = "CrossShardOptimizer",
                 group_assignment: Any = None) -> None:
        if reduction not in (None, "weighted_mean", "weighted_sum"):      # of one shard both are its gradients
            raise errors.InvalidArgumentError(f"CrossShardOptimizer: Unsupported reduction: {reduction!r}; give MEAN or SUM of "
                                              "losses.Reduction")
        if group_assignment is not None and [[*group] for group in group_assignment] != [[0]]:
            raise errors.InvalidArgumentError(f"CrossShardOptimizer: group_assignment is {group_assignment!r} but there is one "
                                              "shard; leave it out")
        self._own, self._name = opt, name

    def compute_gradients(self, loss: Any, var_list: Any = None, gate_gradients: int = Optimizer.GATE_OP,
                          aggregation_method: Any = None, colocate_gradients_with_ops: bool = False,
                          grad_loss: Any = None) -> Any:
        """The gradients of the optimizer."""
        return self._own.compute_gradients(loss, var_list, gate_gradients, aggregation_method, colocate_gradients_with_ops,
                                           grad_loss)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """The step of the optimizer."""
        return self._own.apply_gradients(grads_and_vars, global_step, name)

    def get_slot(self, *args: Any, **options: Any) -> Any:
        """A variable that the optimizer keeps for another."""
        return self._own.get_slot(*args, **options)

    def get_slot_names(self, *args: Any, **options: Any) -> Any:
        """The names of what the optimizer keeps."""
        return self._own.get_slot_names(*args, **options)

    def variables(self) -> Any:
        """What the optimizer keeps."""
        return self._own.variables()
