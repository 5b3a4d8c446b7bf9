"""The first tf.contrib.learn, before estimators had modes: models (x, y) -> (predictions, loss), and their parts."""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn import layers
from workbench.nn.framework import name_scope
from workbench.nn.recurrent.rnn import static_rnn
from workbench.nn.scopes import get_variable, get_variable_scope, variable_scope
from workbench.train.learn.estimator import Estimator, ModeKeys, ModelFnOps
from workbench.train.learn.more import NotFittedError, linear_regression, logistic_regression
from workbench.train.optimize import optimize_loss
from workbench.train.optimizers.schedules import get_or_create_global_step

__all__ = ["TensorFlowDNNClassifier", "TensorFlowDNNRegressor", "TensorFlowEstimator", "TensorFlowLinearClassifier",
           "TensorFlowLinearRegressor", "conv2d", "dnn", "rnn_decoder", "rnn_seq2seq", "seq2seq_inputs",
           "sequence_classifier", "split_squeeze"]

_USED = "skflow_model_is_used"
"""The collection that is filled in graphs that only predict."""


class TensorFlowEstimator:
    """Trains `model_fn(x, y) -> (predictions, loss)` on arrays, in `steps` batches of `batch_size` examples.

    With `n_classes` above 1, y are class numbers, which the model gets one-hot; else they are float numbers. Each fit begins
    anew, unless `continue_training`. Gradients are clipped to the norm `clip_gradients`.
    """

    def __init__(self, model_fn: Callable[..., Any], n_classes: int, batch_size: int = 32, steps: int = 200,
                 optimizer: Any = "Adagrad", learning_rate: Any = 0.1, clip_gradients: float | None = 5.0,
                 class_weight: Sequence[float] | None = None, continue_training: bool = False, config: Any = None,
                 verbose: int = 1) -> None:
        self.model_fn = functools.partial(model_fn, class_weight=class_weight) if class_weight is not None else model_fn
        self.n_classes, self.batch_size, self.steps = n_classes, batch_size, steps
        self.optimizer, self.learning_rate, self.clip_gradients = optimizer, learning_rate, clip_gradients
        self.continue_training, self.config, self.verbose = continue_training, config, verbose
        self._estimator: Estimator | None = None
        self._targets: tuple[int, ...] = ()

    def fit(self, x: Any, y: Any, monitors: Any = None, logdir: Any = None) -> Self:
        """Train on arrays; itself. `logdir` keeps summaries and checkpoints."""
        if self._estimator is None or not self.continue_training:
            self._estimator = Estimator(self._model, logdir, self.config)
        targets = np.asarray(y)
        self._targets = targets.shape[1:]
        self._estimator.fit(self._features(x), targets, steps=self.steps, batch_size=self.batch_size, monitors=monitors)
        return self

    def partial_fit(self, x: Any, y: Any) -> Self:
        """As fit, going on from what is there."""
        before, self.continue_training = self.continue_training, True
        try:
            return self.fit(x, y)
        finally:
            self.continue_training = before

    def predict(self, x: Any, axis: int = 1, batch_size: int | None = None) -> Any:
        """The class of each example, the most probable along `axis`; or the numbers that the model predicts."""
        found = self.predict_proba(x, batch_size)
        return np.argmax(found, axis=axis) if self.n_classes > 1 else found

    def predict_proba(self, x: Any, batch_size: int | None = None) -> Any:
        """What the model predicts for each example. NotFittedError before fit."""
        if self._estimator is None:
            raise NotFittedError(f"{type(self).__name__}: it is not fitted yet; call fit first")
        return self._estimator.predict(self._features(x), batch_size=batch_size or self.batch_size, outputs=["output"],
                                       as_iterable=False)["output"]

    @staticmethod
    def _features(x: Any) -> Any:
        array = np.asarray(x)
        return array if array.dtype.kind == "i" else array.astype(np.float32)

    def _model(self, features: Any, labels: Any, mode: str) -> ModelFnOps:
        classes = self.n_classes > 1
        if mode != ModeKeys.TRAIN:
            get_default_graph().add_to_collection(_USED, True)
        if labels is None:      # none are known, and predictions must not read them
            labels = ops.placeholder(dtype="int64" if classes else "float32", shape=[None, *self._targets])
        targets = ops.one_hot(ops.cast(labels, "int64"), self.n_classes) if classes else ops.cast(labels, "float32")
        predictions, loss = self.model_fn(features, targets)
        if mode == ModeKeys.INFER:
            return ModelFnOps(mode, {"output": predictions})
        step = get_or_create_global_step()
        rate = self.learning_rate(step) if callable(self.learning_rate) else self.learning_rate
        return ModelFnOps(mode, {"output": predictions}, loss, optimize_loss(
            loss, step, rate, self.optimizer, clip_gradients=self.clip_gradients))


class TensorFlowLinearClassifier(TensorFlowEstimator):
    """A softmax of x [n, d]."""

    def __init__(self, n_classes: int, **options: Any) -> None:
        super().__init__(logistic_regression, n_classes, **options)


class TensorFlowLinearRegressor(TensorFlowEstimator):
    """A linear model of x [n, d]."""

    def __init__(self, n_classes: int = 0, **options: Any) -> None:
        super().__init__(linear_regression, n_classes, **options)


class TensorFlowDNNClassifier(TensorFlowEstimator):
    """A softmax behind layers of `hidden_units`; `dropout` is the share that is left out."""

    def __init__(self, hidden_units: Sequence[int], n_classes: int, dropout: float | None = None, **options: Any) -> None:
        super().__init__(_behind(logistic_regression, hidden_units, dropout), n_classes, **options)


class TensorFlowDNNRegressor(TensorFlowEstimator):
    """A linear model behind layers of `hidden_units`; `dropout` is the share that is left out."""

    def __init__(self, hidden_units: Sequence[int], n_classes: int = 0, dropout: float | None = None, **options: Any) -> None:
        super().__init__(_behind(linear_regression, hidden_units, dropout), n_classes, **options)


def _behind(model: Callable[..., Any], hidden_units: Sequence[int], dropout: float | None) -> Callable[..., Any]:
    return lambda x, y, **options: model(dnn(x, hidden_units, dropout=dropout), y, **options)


# parts of models

def dnn(tensor_in: Any, hidden_units: Sequence[int], activation: Any = ops.relu, dropout: float | None = None) -> Tensor:
    """Layers of `hidden_units` of x [n, d]; behind each, while training, the share `dropout` is left out."""
    x = convert(tensor_in)
    with variable_scope("dnn"):
        for number, width in enumerate(hidden_units):
            x = layers.dense(x, width, activation, name=f"layer{number}")
            if dropout is not None and not get_default_graph().get_collection(_USED):
                x = ops.dropout(x, 1.0 - dropout)
    return x


def conv2d(tensor_in: Any, n_filters: int, filter_shape: Sequence[int], strides: Sequence[int] | None = None,
           padding: str = "SAME", bias: bool = True, activation: Any = None, batch_norm: bool = False) -> Tensor:
    """Images [n, height, width, c] by `n_filters` filters of [height, width]: [n, h, w, n_filters]."""
    x = convert(tensor_in)
    with variable_scope("convolution"):
        filters = get_variable("filters", [*filter_shape, x.shape.as_list()[3], n_filters])
        found = ops.conv2d(x, filters.value(), list(strides or (1, 1, 1, 1)), padding)
        if bias:
            found = found + get_variable("bias", [1, 1, 1, n_filters]).value()
        if batch_norm:
            found = layers.batch_normalization(found, training=not get_default_graph().get_collection(_USED))
        return found if activation is None else activation(found)


def split_squeeze(dim: int, num_split: int, tensor_in: Any) -> list[Tensor]:
    """`num_split` pieces of length 1 along the axis `dim`, without it."""
    return [ops.squeeze(piece, [dim]) for piece in ops.split(convert(tensor_in), num_split, dim)]


def seq2seq_inputs(x: Any, y: Any, input_length: int, output_length: int, sentinel: Any = None,
                   name: str | None = None) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """(inputs of the encoder, inputs of the decoder, what it should give) of sequences x and y [n, length, ...].

    The decoder's inputs begin with `sentinel`, and what it should give ends with it; zeros, where there is none.
    """
    with name_scope(name or "seq2seq_inputs"):
        inputs, outputs = split_squeeze(1, input_length, x), split_squeeze(1, output_length, y)
        end = sentinel
        if end is None:
            end = ops.zeros(ops.stack([ops.shape(x)[0], *outputs[0].shape[1:].static]), outputs[0].dtype)
            end.set_shape(outputs[0].shape)
        return inputs, [end, *outputs], [*outputs, end]


def rnn_decoder(decoder_inputs: Sequence[Any], initial_state: Any, cell: Any, scope: Any = None) -> tuple[Any, ...]:
    """(outputs, states, sampled outputs, sampled states): of the inputs, and where each output is the next input."""
    with variable_scope(scope or "dnn_decoder"):
        states, outputs = [initial_state], []
        for number, given in enumerate(decoder_inputs):
            if number:
                get_variable_scope().reuse_variables()
            output, state = cell(given, states[-1])
            outputs.append(output)
            states.append(state)
        sampled_outputs, sampled_states = outputs[:1], states[:2]
        for _ in decoder_inputs[1:]:
            output, state = cell(sampled_outputs[-1], sampled_states[-1])
            sampled_outputs.append(output)
            sampled_states.append(state)
    return outputs, states, sampled_outputs, sampled_states


def rnn_seq2seq(encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any], encoder_cell: Any, decoder_cell: Any = None,
                dtype: Any = "float32", scope: Any = None) -> tuple[Any, ...]:
    """rnn_decoder from the last state of `encoder_cell` over the encoder's inputs."""
    with variable_scope(scope or "rnn_seq2seq"):
        _, last = static_rnn(encoder_cell, encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, last, decoder_cell or encoder_cell)


def sequence_classifier(decoding: Sequence[Any], labels: Sequence[Any], sampling_decoding: Sequence[Any] | None = None,
                        name: str | None = None) -> tuple[Tensor, Tensor]:
    """(probabilities [n, length, classes], loss) of the logits and one-hot labels of each step; the probabilities are those
    of `sampling_decoding` where it is given."""
    if len(decoding) != len(labels):
        raise errors.InvalidArgumentError(f"sequence_classifier: there are {len(decoding)} steps of logits but {len(labels)} "
                                          "of labels; give one for each")
    with name_scope(name or "sequence_classifier"):
        losses = [ops.softmax_cross_entropy_with_logits(labels=label, logits=logits) for logits, label in zip(decoding, labels)]
        shown = [ops.softmax(logits) for logits in sampling_decoding or decoding]
        return ops.stack(shown, axis=1), ops.reduce_sum(ops.add_n(losses))
