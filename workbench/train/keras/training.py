"""Model: a network with a loss, metrics and an optimizer, that trains, evaluates and predicts."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.program import needed
from workbench.nn.variables import Variable
from workbench.train.keras import arrays, backend, callbacks, loops, losses, metrics, optimizers
from workbench.train.keras.base import as_list, mask_of
from workbench.train.keras.network import Network

__all__ = ["Model"]


class _Head(NamedTuple):
    """An output that is trained: its loss, its targets and their weights: placeholders, or a tensor and None."""

    name: str
    output: Tensor
    loss: Callable[[Any, Any], Tensor]
    target: Tensor
    weights: Tensor | None


class Model(Network):
    """A network between `inputs` and `outputs`; after `compile` it trains (`fit`), is measured (`evaluate`) and predicts."""

    optimizer: Any = None
    total_loss: Any = None
    stop_training = False

    def compile(self, optimizer: Any, loss: Any = None, metrics: Any = None, loss_weights: Any = None,
                sample_weight_mode: Any = None, weighted_metrics: Any = None, target_tensors: Any = None) -> None:
        """Say how to train: losses and metrics by name or as functions, for all outputs, in a list or by output's name.

        What is trainable now is trained, whatever is set later: two models of the same layers may train different parts.
        Without a loss the layers must add some (add_loss). `loss_weights` scale the losses in their sum, and
        `sample_weight_mode` "temporal" takes a weight for each time step. `target_tensors` (one, a list, or by output's name)
        are targets that nobody gives to `fit`; a vector is a column. InvalidArgumentError for unknown names.
        """
        self.optimizer, self.loss, self.loss_weights = optimizers.get(optimizer), loss, loss_weights
        self.metrics, self.sample_weight_mode, self.weighted_metrics = metrics or [], sample_weight_mode, weighted_metrics or []
        self._heads = self._make_heads(target_tensors)
        added = reachable(self.losses, self.fed())
        if not self._heads and not added:
            raise errors.InvalidArgumentError(f"{self._name}: no output has a loss; The model cannot be compiled because it "
                                              "has no loss to optimize: pass loss=")
        shares = [1.0 if one is None else float(one) for one in arrays.spread("loss_weights", loss_weights, self.output_names)]
        measured = [weighted(head.loss(head.target, head.output), head.weights, mask_of(head.output)) for head in self._heads]
        self.metrics_names, self.metrics_tensors = ["loss"], []
        if len(self.outputs) > 1:
            self.metrics_names += [f"{head.name}_loss" for head in self._heads]
            self.metrics_tensors += measured
        total = sum((shares[self.output_names.index(head.name)] * one for head, one in zip(self._heads, measured)), start=0.0)
        self.total_loss = sum(added, start=total)
        self._collected = list(self.trainable_weights)      # what is set untrainable from here on is trained nevertheless
        self._asked: list[tuple[str, str, Tensor]] = []      # each metric: its name as given, that of the output, the value
        self._add_metrics(self.metrics, False)
        self._add_metrics(self.weighted_metrics, True)
        self._functions: dict[str, backend.Function] = {}

    def _make_heads(self, target_tensors: Any) -> list[_Head]:
        chosen = arrays.spread("loss", self.loss, self.output_names)
        modes = arrays.spread("sample_weight_mode", self.sample_weight_mode, self.output_names)
        own = arrays.spread("target_tensors", target_tensors, self.output_names)
        heads = []
        for name, output, loss, mode, target in zip(self.output_names, self.outputs, chosen, modes, own):
            function = losses.get(loss)
            if function is None:
                continue
            if target is not None:
                heads.append(_Head(name, output, function, _column(target, output), None))
                continue
            shape = list(output.shape.as_list())
            if function is losses.sparse_categorical_crossentropy:
                shape = [*shape[:-1], 1]
            elif getattr(losses, getattr(function, "__name__", ""), None) is not function:
                shape = [None] * len(shape)
            with get_default_graph().name_scope(None):
                target = ops.placeholder(output.dtype, [None, *shape[1:]], name=f"{name}_target")
                rank = 2 if mode == "temporal" else 1
                weights = ops.placeholder(backend.floatx(), [None] * rank, name=f"{name}_sample_weights")
                heads.append(_Head(name, output, function, target, weights))
        return heads

    def _add_metrics(self, given: Any, by_weight: bool) -> None:
        names = [head.name for head in self._heads]
        each = [as_list(given.get(name)) for name in names] if isinstance(given, dict) else [as_list(given)] * len(names)
        for head, wanted in zip(self._heads, each):
            for metric in wanted:
                function, title = _metric(metric, head)
                self.metrics_names.append(title if len(self.outputs) == 1 else f"{head.name}_{title}")
                score = function(head.target, head.output)
                self.metrics_tensors.append(weighted(score, head.weights if by_weight else None, mask_of(head.output)))
                self._asked.append((metric if isinstance(metric, str) else title, head.name, self.metrics_tensors[-1]))

    def metrics_by_name(self) -> dict[str, Tensor]:
        """The metrics by the names that `compile` was given, of which several outputs have one with the output's behind it."""
        names = [name for name, _, _ in self._asked]
        return {name if names.count(name) == 1 else f"{name}_{output}": value for name, output, value in self._asked}

    def _fed_heads(self) -> list[_Head]:
        """The outputs whose targets a step of training is given."""
        return [head for head in self._heads if head.weights is not None]

    def fed(self) -> list[Any]:
        """The tensors that a step of training is given."""
        return [*self.inputs, *(head.target for head in self._fed_heads()), *(head.weights for head in self._fed_heads())]

    def _compiled(self) -> None:
        if self.total_loss is None:
            raise errors.FailedPreconditionError(f"{self._name}: the model has no loss yet; You must compile your model before "
                                                 "using it: call compile(optimizer, loss)")

    def run(self, kind: str, values: Sequence[Any]) -> list[Any]:
        """One step: "train" or "test" for inputs, targets and weights, "predict" for inputs."""
        phase = backend.learning_phase()
        return self.function(kind)([*values, *([kind == "train"] if isinstance(phase, Tensor) else [])])

    def function(self, kind: str) -> backend.Function:
        """What `run` runs, made when it is first asked for."""
        if kind != "predict":
            self._compiled()
        elif not hasattr(self, "_functions"):
            self._functions = {}
        if kind not in self._functions:
            self._functions[kind] = self._function_of(kind)
        return self._functions[kind]

    def _function_of(self, kind: str) -> backend.Function:
        phase = backend.learning_phase()
        phases = [phase] if isinstance(phase, Tensor) else []
        if kind == "predict":
            return backend.Function([*self.inputs, *phases], self.outputs, reachable(self.state_updates, self.inputs))
        given, fetched = self.fed(), [self.total_loss, *self.metrics_tensors]
        done = self.changes() if kind == "train" else reachable(self.state_updates, given)
        return backend.Function([*given, *phases], fetched, done)

    def changes(self) -> list[Any]:
        """What a step of training does: the updates of layers, and those of the optimizer."""
        return reachable(self.updates, self.fed()) + self.optimizer.get_updates(self.total_loss, self._collected)

    # data
    def arrays(self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> list[np.ndarray]:
        """Inputs, targets and weights as one list; without `y` the inputs."""
        inputs = arrays.fitted("input", x, self.input_names, [t.shape.as_list() for t in self.inputs])
        if y is None:
            arrays.rows(inputs)
            return inputs
        self._compiled()
        names = [head.name for head in self._fed_heads()]
        targets = arrays.fitted("target", y, names, [head.target.shape.as_list() for head in self._fed_heads()])
        ranks = [head.weights.shape.rank for head in self._fed_heads() if head.weights is not None]
        weights = arrays.weights_of(names, targets, ranks, sample_weight, class_weight)
        arrays.rows(inputs, targets, weights)
        return [*inputs, *targets, *weights]

    def fit(self, x: Any = None, y: Any = None, batch_size: int | None = None, epochs: int = 1, verbose: int = 1,
            callbacks: Any = None, validation_split: float = 0.0, validation_data: Any = None, shuffle: Any = True,
            class_weight: Any = None, sample_weight: Any = None, initial_epoch: int = 0) -> callbacks.History:
        """Train for `epochs` passes over the rows of x and y in batches (of 32); what was measured is the History.

        `validation_split` takes the last share of the rows, `validation_data` is (x, y) or (x, y, sample_weight).
        InvalidArgumentError for data that do not fit.
        """
        self._compiled()
        data = self.arrays(x, y, sample_weight, class_weight)
        held: list[np.ndarray] = []
        if validation_data is not None:
            held = self.arrays(*validation_data)
        elif 0 < validation_split < 1:
            cut = int(len(data[0]) * (1 - validation_split))
            data, held = arrays.taken(data, slice(cut)), arrays.taken(data, slice(cut, None))
        course = loops.Course(epochs, initial_epoch, verbose, as_list(callbacks))
        return loops.fit(self, data, held, batch_size or 32, course, shuffle)

    def evaluate(self, x: Any, y: Any = None, batch_size: int | None = None, verbose: int = 1,
                 sample_weight: Any = None) -> Any:
        """The loss of all rows, or [loss, metrics…] in the order of metrics_names."""
        self._compiled()
        return plain(loops.measured(self, arrays.parts(self.arrays(x, y, sample_weight), batch_size or 32)))

    def predict(self, x: Any, batch_size: int | None = None, verbose: int = 0) -> Any:
        """The outputs for all rows: an array, or a list where there are several outputs."""
        found = [self.run("predict", part) for part in arrays.parts(self.arrays(x), batch_size or 32)]
        return plain([np.concatenate(one) for one in zip(*found)])

    def train_on_batch(self, x: Any, y: Any, sample_weight: Any = None, class_weight: Any = None) -> Any:
        """One step of training; the loss, or [loss, metrics…]."""
        self._compiled()
        return plain(self.run("train", self.arrays(x, y, sample_weight, class_weight)))

    def test_on_batch(self, x: Any, y: Any, sample_weight: Any = None) -> Any:
        """The loss of a batch, or [loss, metrics…]."""
        self._compiled()
        return plain(self.run("test", self.arrays(x, y, sample_weight)))

    def predict_on_batch(self, x: Any) -> Any:
        """The outputs for a batch."""
        return plain(self.run("predict", self.arrays(x)))

    def fit_generator(self, generator: Any, steps_per_epoch: int | None = None, epochs: int = 1, verbose: int = 1,
                      callbacks: Any = None, validation_data: Any = None, validation_steps: int | None = None,
                      class_weight: Any = None, max_queue_size: int = 10, workers: int = 1, use_multiprocessing: bool = False,
                      shuffle: bool = True, initial_epoch: int = 0, **older: Any) -> callbacks.History:
        """Train on batches (x, y) or (x, y, sample_weight) of a generator or a Sequence, `steps_per_epoch` each epoch.

        Batches are made in this thread, in order: `max_queue_size`, `workers` and `use_multiprocessing` change nothing, nor
        do their older names `max_q_size` and `pickle_safe`. TypeError for other arguments.
        """
        _only_older("fit_generator", older)
        self._compiled()
        course = loops.Course(epochs, initial_epoch, verbose, as_list(callbacks))
        return loops.fit_generator(self, generator, steps_per_epoch, course, validation_data, validation_steps, class_weight,
                                   shuffle)

    def evaluate_generator(self, generator: Any, steps: int | None = None, max_queue_size: int = 10, workers: int = 1,
                           use_multiprocessing: bool = False, **older: Any) -> Any:
        """The loss, or [loss, metrics…], of `steps` batches of a generator or Sequence."""
        _only_older("evaluate_generator", older)
        self._compiled()
        return plain(loops.evaluate_generator(self, generator, steps))

    def predict_generator(self, generator: Any, steps: int | None = None, max_queue_size: int = 10, workers: int = 1,
                          use_multiprocessing: bool = False, verbose: int = 0, **older: Any) -> Any:
        """The outputs for `steps` batches of a generator or Sequence, which gives x, (x, y) or (x, y, sample_weight)."""
        _only_older("predict_generator", older)
        found = [as_list(self.predict_on_batch(batch[0] if isinstance(batch, tuple) else batch))
                 for batch in loops.given(generator, steps)]
        return plain([np.concatenate(one) for one in zip(*found)])


def _only_older(what: str, given: Mapping[str, Any]) -> None:
    """TypeError unless all of these are what Keras called the arguments of its queue before."""
    unknown = [name for name in given if name not in ("max_q_size", "pickle_safe")]
    if unknown:
        raise TypeError(f"{what}() got an unexpected keyword argument {unknown[0]!r}")


def _column(target: Any, output: Tensor) -> Tensor:
    """A target as the losses take it: of the output's dtype, and a vector as a column."""
    made: Tensor = ops.cast(convert(target), output.dtype)
    return ops.expand_dims(made, 1) if made.shape.rank == 1 else made


def plain(found: Sequence[Any]) -> Any:
    """The one of a list of one, else the list."""
    return found[0] if len(found) == 1 else list(found)


def weighted(score: Tensor, weights: Tensor | None, mask: Any) -> Tensor:
    """The mean of the scores [batch, …] where the mask is true, times the rows' weights, over those that are not 0."""
    score = convert(score)
    if mask is not None:
        kept = ops.cast(mask, score.dtype)
        score = score * kept / ops.reduce_mean(kept)
    if weights is not None:
        inner = list(range(weights.shape.rank or 1, score.shape.rank or 1))
        score = ops.reduce_mean(score, inner) if inner else score
        score = score * ops.cast(weights, score.dtype) / ops.reduce_mean(ops.cast(ops.not_equal(weights, 0.0), score.dtype))
    made: Tensor = ops.reduce_mean(score)
    return made


def _metric(metric: Any, head: _Head) -> tuple[Callable[[Any, Any], Tensor], str]:
    """The function of a metric and its title; "accuracy" is that which fits the output and its loss."""
    if metric in ("acc", "accuracy"):
        if head.output.shape.as_list()[-1] == 1 or head.loss is losses.binary_crossentropy:
            return metrics.binary_accuracy, "acc"
        if head.loss is losses.sparse_categorical_crossentropy:
            return metrics.sparse_categorical_accuracy, "acc"
        return metrics.categorical_accuracy, "acc"
    function = metrics.get(metric)
    return function, getattr(function, "__name__", type(function).__name__)


def reachable(wanted: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """Those operations and tensors that need no placeholder but the given: a layer may also have been called elsewhere."""
    fed = {x.op for x in given}

    def fine(op: Any) -> bool:
        return all(one.kind != "placeholder" or one in fed for one in needed([op], lambda x: x.op in fed))
    return [one for one in wanted if fine(one.op if isinstance(one, (Tensor, Variable)) else one)]
