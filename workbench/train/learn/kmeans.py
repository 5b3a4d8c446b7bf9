"""KMeansClustering: k-means as an estimator, by the names of tf.contrib.learn and of tf.contrib.factorization."""
from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn import metrics
from workbench.nn.variables import Variable
from workbench.train.estimators import estimator as modern
from workbench.train.learn import clustering
from workbench.train.learn.estimator import Estimator, ModelFnOps
from workbench.train.optimizers.schedules import get_global_step
from workbench.train.saving import summary
from workbench.train.sessions.hooks import SessionRunArgs, SessionRunHook

__all__ = ["KMeansClustering", "KMeansEstimator"]

_LOSS = "kmeans_loss"
_WAIT = 1.0


class _Begin(SessionRunHook):
    """Chooses the first centres, batch by batch until there are all; other tasks wait for them."""

    def __init__(self, begin: Any, ready: Variable, chief: bool) -> None:
        self._begin, self._ready, self._chief = begin, ready.value(), chief

    def after_create_session(self, session: Any, coord: Any) -> None:
        while not session.run(self._ready):
            if self._chief:
                session.run(self._begin)
            else:
                time.sleep(_WAIT)


class _Settled(SessionRunHook):
    """Ends training when the loss changes less than by this share."""

    def __init__(self, loss: Tensor, tolerance: float) -> None:
        self._loss, self._tolerance, self._before = loss, tolerance, np.nan

    def before_run(self, run_context: Any) -> Any:
        return SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        found = float(run_values.results)
        if abs(found - self._before) / (1 + abs(self._before)) < self._tolerance:      # never, for the first one
            run_context.request_stop()
        self._before = found


def _points(features: Any) -> Tensor:
    """[n, d]: the tensor itself, or the entries of a dictionary side by side in the order of their names."""
    found: Tensor = ops.concat([features[key] for key in sorted(features)], axis=1) if isinstance(features, Mapping) else (
        convert(features))
    return found


def _built(features: Any, mode: str, chief: bool, tolerance: float | None, options: Mapping[str, Any],
           ) -> tuple[dict[str, Any], Tensor]:
    """(what an estimator returns of the model but its predictions and metrics, their loss, and both of them)."""
    scores, nearest, lowest, ready, begin, step = clustering.KMeans(_points(features), **options).training_graph()
    loss = ops.reduce_sum(ops.concat(lowest, axis=0), name=_LOSS)
    summary.scalar("loss/raw", loss)
    count = get_global_step()
    with get_default_graph().control_dependencies([step, count.assign_add(1).op]):      # type: ignore[union-attr]
        train = ops.identity(loss).op
    hooks: list[SessionRunHook] = [_Begin(begin, ready, chief)]
    if tolerance is not None:
        hooks.append(_Settled(loss, tolerance))
    return {"mode": mode, "loss": loss, "train_op": train, "training_hooks": hooks,
            "predictions": (scores[0], nearest[0])}, loss


class _KMeans:
    """What both estimators take, and what initial centres and distances are called."""

    SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE = clustering.SQUARED_EUCLIDEAN_DISTANCE, clustering.COSINE_DISTANCE
    RANDOM_INIT, KMEANS_PLUS_PLUS_INIT = clustering.RANDOM_INIT, clustering.KMEANS_PLUS_PLUS_INIT

    def __init__(self, num_clusters: int, model_dir: Any = None, initial_clusters: Any = RANDOM_INIT,
                 distance_metric: str = SQUARED_EUCLIDEAN_DISTANCE, random_seed: int = 0, use_mini_batch: bool = True,
                 mini_batch_steps_per_iteration: int = 1, kmeans_plus_plus_num_retries: int = 2,
                 relative_tolerance: float | None = None, config: Any = None) -> None:
        self._become(model_dir, config, relative_tolerance, {
            "num_clusters": num_clusters, "initial_clusters": initial_clusters, "distance_metric": distance_metric,
            "random_seed": random_seed, "use_mini_batch": use_mini_batch,
            "mini_batch_steps_per_iteration": mini_batch_steps_per_iteration,
            "kmeans_plus_plus_num_retries": kmeans_plus_plus_num_retries})

    def _become(self, model_dir: Any, config: Any, tolerance: float | None, options: Mapping[str, Any]) -> None:
        """Become an estimator of the model that `options`, those of KMeans, describe."""


class KMeansClustering(_KMeans, Estimator):
    """k-means of contrib.learn: `fit` moves the centres, `predict_cluster_idx`, `transform` and `score` use them.

    Features are float32 [n, d], or a dictionary of such that are put side by side. `relative_tolerance` ends training when the
    sum of distances changes by a smaller share from step to step; the other arguments are those of KMeans.
    """

    SCORES, CLUSTER_IDX, CLUSTERS, ALL_SCORES, LOSS_OP_NAME = "scores", "cluster_idx", "clusters", "all_scores", _LOSS

    def _become(self, model_dir: Any, config: Any, tolerance: float | None, options: Mapping[str, Any]) -> None:
        def model(features: Any, labels: Any, mode: str, params: Any, config: Any) -> ModelFnOps:
            found, loss = _built(features, mode, config.is_chief, tolerance, params)
            scores, nearest = found["predictions"]
            return ModelFnOps(**{**found, "predictions": {self.ALL_SCORES: scores, self.CLUSTER_IDX: nearest}},
                              eval_metric_ops={self.SCORES: metrics.mean(loss)})
        Estimator.__init__(self, model, model_dir, config, options)

    def predict_cluster_idx(self, input_fn: Any = None) -> Iterator[Any]:
        """The number of the nearest centre, of one example after the other."""
        found: Iterator[Any] = self._outcome(None, input_fn, None, self.CLUSTER_IDX, True)
        return found

    def score(self, input_fn: Any = None, steps: int | None = None) -> Any:
        """The sum of all distances to the nearest centres: of a batch, on average."""
        return np.sum(self.evaluate(input_fn=input_fn, steps=steps)[self.SCORES])

    def transform(self, input_fn: Any = None, as_iterable: bool = False) -> Any:
        """The distances [n, k] of the examples to all centres, or dictionaries of them one after the other."""
        found = self.predict(input_fn=input_fn, outputs=[self.ALL_SCORES], as_iterable=as_iterable)
        return found if as_iterable else found[self.ALL_SCORES]

    def clusters(self) -> Any:
        """The centres [k, d]."""
        return self.get_variable_value(self.CLUSTERS)


class KMeansEstimator(_KMeans, modern.Estimator):
    """k-means of contrib.factorization, an Estimator; arguments as those of KMeansClustering."""

    SCORE, CLUSTER_INDEX, ALL_DISTANCES, CLUSTER_CENTERS_VAR_NAME = "score", "cluster_index", "all_distances", "clusters"

    def _become(self, model_dir: Any, config: Any, tolerance: float | None, options: Mapping[str, Any]) -> None:
        def model(features: Any, mode: str, config: Any) -> modern.EstimatorSpec:
            found, loss = _built(features, mode, config.is_chief, tolerance, options)
            distances, nearest = found["predictions"]
            return modern.EstimatorSpec(**{**found, "predictions": {
                self.ALL_DISTANCES: distances, self.CLUSTER_INDEX: nearest}}, eval_metric_ops={self.SCORE: metrics.mean(loss)})
        modern.Estimator.__init__(self, model, model_dir, config)

    def _one(self, input_fn: Any, key: str) -> Iterator[Any]:
        return (row[key] for row in self.predict(input_fn, [key]))

    def predict_cluster_index(self, input_fn: Any) -> Iterator[Any]:
        """The number of the nearest centre, of one example after the other."""
        return self._one(input_fn, self.CLUSTER_INDEX)

    def score(self, input_fn: Any) -> Any:
        """The sum of all distances to the nearest centres, of one batch."""
        return self.evaluate(input_fn, steps=1)[self.SCORE]

    def transform(self, input_fn: Any) -> Iterator[Any]:
        """The distances [k] to all centres, of one example after the other."""
        return self._one(input_fn, self.ALL_DISTANCES)

    def cluster_centers(self) -> Any:
        """The centres [k, d]."""
        return self.get_variable_value(self.CLUSTER_CENTERS_VAR_NAME)
