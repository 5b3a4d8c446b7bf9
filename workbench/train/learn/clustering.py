"""The graph of k-means: centres chosen of the first batches, and moved to the means of the examples nearest to them.

Lloyd's algorithm over whole inputs; for batches the rule of Sculley ("Web-scale k-means clustering", WWW 2010); first centres
at random or by k-means++ (Arthur & Vassilvitskii, SODA 2007), by the names of tf.contrib.factorization.
"""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.core.graph.shape import Shape
from workbench.nn.checks import assert_equal, assert_greater_equal
from workbench.nn.variables import Variable, group

__all__ = ["COSINE_DISTANCE", "KMEANS_PLUS_PLUS_INIT", "RANDOM_INIT", "SQUARED_EUCLIDEAN_DISTANCE", "KMeans"]

SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE = "squared_euclidean", "cosine"
RANDOM_INIT, KMEANS_PLUS_PLUS_INIT = "random", "kmeans_plus_plus"
_TINY = 1e-6


class KMeans:
    """k-means over `inputs`, float32 [n, d] or a list of such parts.

    `initial_clusters` is "random", "kmeans_plus_plus", centres [k, d], or `f(inputs, count)` that gives at most `count` centres
    of the list of inputs. Distances are squared Euclidean ones, or what the cosine lacks to 1, of which the distance to the
    nearest centre is half. With `use_mini_batch` centres move by each batch, towards the mean of all examples since they
    began; what examples are compared with follows after `mini_batch_steps_per_iteration` steps. k-means++ draws
    `1 + kmeans_plus_plus_num_retries` examples for each centre, 3 + log k for a negative number, and takes the best.
    InvalidArgumentErrors (ValueErrors) for other names, ShapeError for inputs without one known width; UnimplementedError for
    "kmc2".
    """

    def __init__(self, inputs: Any, num_clusters: Any, initial_clusters: Any = RANDOM_INIT,
                 distance_metric: str = SQUARED_EUCLIDEAN_DISTANCE, use_mini_batch: bool = False,
                 mini_batch_steps_per_iteration: int = 1, random_seed: int = 0, kmeans_plus_plus_num_retries: int = 2,
                 kmc2_chain_length: int = 200) -> None:
        if initial_clusters is not None and isinstance(initial_clusters, str):
            if initial_clusters == "kmc2":
                raise errors.UnimplementedError("KMeans: initial_clusters='kmc2' is not offered; use 'kmeans_plus_plus'")
            if initial_clusters not in (RANDOM_INIT, KMEANS_PLUS_PLUS_INIT):
                raise errors.InvalidArgumentError(f"KMeans: Unsupported initialization algorithm {initial_clusters!r}; use "
                                                  f"{RANDOM_INIT!r}, {KMEANS_PLUS_PLUS_INIT!r} or centres")
        if distance_metric not in (SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE):
            raise errors.InvalidArgumentError(f"KMeans: Unsupported distance metric {distance_metric!r}; use "
                                              f"{SQUARED_EUCLIDEAN_DISTANCE!r} or {COSINE_DISTANCE!r}")
        self._inputs = [convert(part) for part in (inputs if isinstance(inputs, list) else [inputs])]
        widths = {part.shape.sizes[1] if part.shape.sizes and len(part.shape.sizes) == 2 else None for part in self._inputs}
        width = widths.pop()
        if widths or width is None:
            raise errors.ShapeError(f"KMeans: inputs have the shapes {[str(part.shape) for part in self._inputs]}; set_shape "
                                    "them to [n, d] with one known d")
        self._width, self._first, self._cosine = width, initial_clusters, distance_metric == COSINE_DISTANCE
        self._chosen = isinstance(initial_clusters, str) or callable(initial_clusters)
        if not self._chosen:
            self._first = convert(initial_clusters, "float32")
        self._count: Tensor = ops.cast(num_clusters, "int32") if self._chosen else ops.shape(self._first)[0]
        self._batches, self._every = use_mini_batch, int(mini_batch_steps_per_iteration)
        self._seed, self._tries = random_seed, kmeans_plus_plus_num_retries

    def training_graph(self) -> tuple[list[Tensor], list[Tensor], list[Tensor], Variable, Any, Any]:
        """(distances to all centres [n, k], numbers of the nearest [n], distances to it [n], each a list with an entry for each
        part of the inputs; bool variable; operation; operation).

        One process runs the first operation until the variable is true: then there are all centres. After that any may run
        the second, which moves them.
        """
        self._variables()
        begin = self._initialized()
        inputs, centres = self._inputs, self._known(self._centres.value())
        if self._cosine:
            inputs = [ops.l2_normalize(part, 1) for part in inputs]
            centres = ops.l2_normalize(centres, 1)
        scores = [_distances(part, centres, self._cosine) for part in inputs]
        nearest = [ops.cast(ops.argmin(score, 1), "int32") for score in scores]
        lowest = [ops.reduce_min(score, 1) * (0.5 if self._cosine else 1.0) for score in scores]
        step = self._batch_step(inputs, nearest) if self._batches else self._whole_step(inputs, nearest)
        return scores, nearest, lowest, self._ready, begin, step

    def _variables(self) -> None:
        nothing = ops.zeros([0, self._width])
        self._centres = Variable(nothing, name="clusters", validate_shape=False)
        self._ready = Variable(False, name="initialized")
        self._moving, self._counts = self._centres, None
        if self._batches:
            apart = self._every > 1
            start = ops.zeros if apart else ops.ones
            self._counts = Variable(start(ops.expand_dims(self._count, 0), "float32"), validate_shape=False, trainable=False,
                                    name="counts")
            if apart:
                self._moving = Variable(nothing, name="clusters_updated", validate_shape=False)
                self._left = Variable(self._every, name="update_in_steps", trainable=False)

    def _known(self, centres: Tensor) -> Tensor:
        """The same with the shape [?, d]."""
        centres.set_shape(Shape([None, self._width]))
        return centres

    # the first centres

    def _initialized(self) -> Any:
        """Add centres of this batch, as many as are missing or it can give."""
        held = self._known(self._centres.value())
        missing = self._count - ops.shape(held)[0]
        found = self._known(ops.identity(self._more(missing)))
        if self._cosine:
            found = ops.l2_normalize(found, 1)
        every = ops.concat([held, found], axis=0)
        written = [v.assign(every) for v in dict.fromkeys((self._centres, self._moving))]
        with get_default_graph().control_dependencies(written):
            return self._ready.assign(ops.equal(ops.shape(every)[0], self._count)).op

    def _more(self, missing: Tensor) -> Tensor:
        if callable(self._first):
            return convert(self._first(self._inputs, missing))
        if not isinstance(self._first, str):
            with get_default_graph().control_dependencies([assert_equal(missing, self._count)]):
                return ops.identity(self._first)
        data = ops.concat(self._inputs, axis=0) if len(self._inputs) > 1 else self._inputs[0]
        rows = ops.shape(data)[0]
        if self._first == RANDOM_INIT:
            return ops.gather(data, ops.random_shuffle(ops.range(rows), seed=self._seed)[:missing])
        with get_default_graph().control_dependencies([assert_greater_equal(rows, missing)]):
            data = ops.identity(ops.l2_normalize(data, 1) if self._cosine else data)
        return self._plus_plus(data, rows, missing)

    def _plus_plus(self, data: Tensor, rows: Tensor, count: Tensor) -> Tensor:
        """`count` rows of `data`, each likely where those before it are far."""
        more = 2 + ops.cast(ops.log(ops.cast(count, "float32")), "int32")
        tries = 1 + (ops.constant(self._tries) if self._tries >= 0 else more)
        first = ops.random_uniform([1], 0, rows, "int32", seed=self._seed)
        near = _squared(data, ops.gather(data, first))

        def body(chosen: Tensor, near: Tensor) -> list[Tensor]:
            sums = ops.cumsum(near[:, 0])
            drawn = ops.random_uniform(ops.expand_dims(tries, 0), seed=self._seed + 1) * sums[-1]
            tried = ops.minimum(ops.reduce_sum(ops.cast(ops.expand_dims(sums, 0) <= ops.expand_dims(drawn, 1), "int32"), 1),
                                rows - 1)
            nearer = ops.minimum(near, _squared(data, ops.gather(data, tried)))
            best = ops.cast(ops.argmin(ops.reduce_sum(nearer, 0), 0), "int32")
            kept = ops.gather(nearer, ops.expand_dims(best, 0), axis=1)
            kept.set_shape(near.shape)
            return [ops.concat([chosen, ops.gather(tried, ops.expand_dims(best, 0))], axis=0), kept]
        chosen, _ = ops.while_loop(lambda chosen, near: ops.shape(chosen)[0] < count, body, [first, near],
                               shape_invariants=[Shape([None]), near.shape])
        return ops.gather(data, chosen)

    # steps

    def _whole_step(self, inputs: list[Tensor], nearest: list[Tensor]) -> Any:
        """Each centre to the mean of the examples nearest to it."""
        sums, counts = zip(*(_sums(part, ids, self._count) for part, ids in zip(inputs, nearest)))
        means = ops.add_n(list(sums)) / (ops.add_n(list(counts)) + _TINY)
        return self._centres.assign(ops.l2_normalize(means, 1) if self._cosine else means).op

    def _batch_step(self, inputs: list[Tensor], nearest: list[Tensor]) -> Any:
        """Each centre towards the mean of the examples that ever were nearest to it."""
        made: list[Operation] = []
        counts = self._counts
        assert counts is not None
        with get_default_graph().control_dependencies([self._synchronized()]):
            for part, ids in zip(inputs, nearest):
                sums, more = _sums(part, ids, self._count)
                with get_default_graph().control_dependencies(made):      # those of the part before
                    before, known = self._known(self._moving.value()), ops.expand_dims(counts.value(), 1)
                moved = before + (sums - more * before) / ops.maximum(known + more, 1.0)
                made += [self._moving.assign(moved).op, counts.assign(ops.reshape(known + more, [-1])).op]
        return group(*made)

    def _synchronized(self) -> Any:
        """Where centres move apart from those that examples are compared with: these follow when their steps are over."""
        counts = self._counts
        if self._moving is self._centres or counts is None:
            return group()

        def follow() -> Tensor:
            moved = self._known(self._moving.value())
            steps = [self._centres.assign(ops.l2_normalize(moved, 1) if self._cosine else moved).op,
                     counts.assign(ops.zeros_like(counts.value())).op,
                     self._left.assign(self._every - 1).op]
            with get_default_graph().control_dependencies(steps):
                return ops.constant(0)

        def wait() -> Tensor:
            with get_default_graph().control_dependencies([self._left.assign_sub(1).op]):
                return ops.constant(0)
        return ops.cond(self._left.value() <= 0, follow, wait).op


def _squared(data: Tensor, centres: Tensor) -> Tensor:
    """Squared Euclidean distances [n, k] of rows [n, d] to [k, d], none below 0."""
    cross = ops.matmul(data, centres, transpose_b=True)
    found: Tensor = ops.maximum(ops.reduce_sum(ops.square(data), 1, keepdims=True) - 2.0 * cross
                                + ops.expand_dims(ops.reduce_sum(ops.square(centres), 1), 0), 0.0)
    return found


def _distances(data: Tensor, centres: Tensor, cosine: bool) -> Tensor:
    found: Tensor = 1.0 - ops.matmul(data, centres, transpose_b=True) if cosine else _squared(data, centres)
    return found


def _sums(data: Tensor, ids: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """The sum [k, d] of the rows of each number, and how many there are, float32 [k, 1]."""
    rows = ops.ones_like(data[:, :1])
    return ops.unsorted_segment_sum(data, ids, count), ops.unsorted_segment_sum(rows, ids, count)
