"""Recurrent layers in Keras's form: SimpleRNN, LSTM and GRU, and the loop over time under them."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import bool_
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import as_shape
from workbench.nn.recurrent.rnn import batch_of, swapped
from workbench.nn.tensor_array import TensorArray
from workbench.nn.variables import Variable
from workbench.train.keras import activations, backend, initializers
from workbench.train.keras.base import Layer, as_list
from workbench.train.keras.core_layers import keep, kept, known_shape
from workbench.train.keras.registry import config_of

__all__ = ["GRU", "LSTM", "Recurrent", "SimpleRNN", "rnn"]

Step = Callable[[Tensor, list[Any]], tuple[Tensor, list[Any]]]


def rnn(step_function: Step, inputs: Any, initial_states: Sequence[Any], go_backwards: bool = False, mask: Any = None,
        constants: Sequence[Any] = (), unroll: bool = False) -> tuple[Tensor, Tensor, list[Any]]:
    """(last output, outputs [batch, time, …], last states) of a step over the time of `inputs` [batch, time, …].

    `step_function(x, states + constants)` gives (output, new states). Where `mask` [batch, time] is false, output and states
    stay as they were. ShapeError where `unroll` is asked for an unknown number of steps.
    """
    x: Any = swapped(convert(inputs))
    masks: Any = None if mask is None else ops.transpose(mask if mask.dtype is bool_ else ops.cast(mask, bool_))
    if go_backwards:
        x, masks = ops.reverse(x, [0]), None if masks is None else ops.reverse(masks, [0])
    count = batch_of(x, 0)
    states = [convert(one) for one in initial_states]
    previous = [] if masks is None else [ops.zeros_like(states[0])]

    def once(held: list[Any], before: list[Any], row: Any, alive: Any) -> tuple[Tensor, list[Any]]:
        output, new = step_function(row, [*before, *(constants or ())])
        if alive is None:
            return output, list(new)
        return ops.where(alive, output, held[0]), [ops.where(alive, one, old) for one, old in zip(new, before)]
    if not unroll:
        return _looped(once, x, masks, count, previous, states)
    if not isinstance(count, int):
        raise errors.ShapeError(f"rnn: {inputs.name} has shape {inputs.shape}; unroll=True needs a known number of time steps")
    found, there = [], [None] * count if masks is None else ops.unstack(masks)
    for row, alive in zip(ops.unstack(x), there):
        output, states = once(previous, states, row, alive)
        previous = previous and [output]
        found.append(output)
    return found[-1], swapped(ops.stack(found)), states


def _looped(once: Callable[..., Any], x: Any, masks: Any, count: Any, previous: list[Any],
            states: list[Any]) -> tuple[Tensor, Tensor, list[Any]]:
    """The same by a loop of the graph."""
    rows = TensorArray(x.dtype, count).unstack(x)
    gates = None if masks is None else TensorArray(masks.dtype, count).unstack(masks)

    def body(number: Any, results: TensorArray, *carried: Any) -> Any:
        held, before = list(carried[:len(previous)]), list(carried[len(previous):])
        output, new = once(held, before, rows.read(number), None if gates is None else gates.read(number))
        return [number + 1, results.write(number, output), *([output] if held else []), *new]
    done = ops.while_loop(lambda number, *_: ops.less(number, count), body,
                          [ops.constant(0), TensorArray(x.dtype, count), *previous, *states])
    stacked = done[1].stack()
    return stacked[-1], swapped(stacked), list(done[2 + len(previous):])


class Recurrent(Layer):
    """Base of layers over the time of [batch, time, features].

    They give the last output, or all of them with `return_sequences`, followed with `return_state` by the states. A
    `stateful` layer goes on where its last batch ended. Called with `initial_state` (a tensor or a list), it begins there.
    """

    _gates, _states = 1, 1

    def __init__(self, units: int, activation: Any = "tanh", use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
                 recurrent_initializer: Any = "orthogonal", bias_initializer: Any = "zeros", kernel_regularizer: Any = None,
                 recurrent_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 kernel_constraint: Any = None, recurrent_constraint: Any = None, bias_constraint: Any = None,
                 dropout: float = 0.0, recurrent_dropout: float = 0.0, return_sequences: bool = False,
                 return_state: bool = False, go_backwards: bool = False, stateful: bool = False, unroll: bool = False,
                 implementation: int = 0, **options: Any) -> None:
        if "input_dim" in options or "input_length" in options:
            options["input_shape"] = (options.pop("input_length", None), options.pop("input_dim", None))
        super().__init__(activity_regularizer=activity_regularizer, **options)
        self.units, self.activation, self.use_bias = int(units), activations.get(activation), use_bias
        self.dropout, self.recurrent_dropout = min(1.0, max(0.0, dropout)), min(1.0, max(0.0, recurrent_dropout))
        self.return_sequences, self.return_state, self.go_backwards = return_sequences, return_state, go_backwards
        self.stateful, self.unroll, self.implementation, self.supports_masking = stateful, unroll, implementation, True
        self.states: list[Any] = []
        keep(self, kernel_initializer=kernel_initializer, recurrent_initializer=recurrent_initializer,
             bias_initializer=bias_initializer, kernel_regularizer=kernel_regularizer,
             recurrent_regularizer=recurrent_regularizer, bias_regularizer=bias_regularizer,
             kernel_constraint=kernel_constraint, recurrent_constraint=recurrent_constraint, bias_constraint=bias_constraint)

    def __call__(self, inputs: Any, *args: Any, initial_state: Any = None, **options: Any) -> Any:
        """The result for `inputs`, beginning with `initial_state` where it is given: what layers made, or other tensors."""
        states = as_list(initial_state)
        if states and all(hasattr(state, "_keras_history") for state in states):
            inputs = [*as_list(inputs), *states]
        elif states:
            options["initial_state"] = states
        return super().__call__(inputs, *args, **options)

    def build(self, input_shape: Any) -> None:
        """Make kernel, recurrent_kernel and bias; ShapeError where the number of features is unknown."""
        shape = as_shape(input_shape[0] if isinstance(input_shape, list) else input_shape)
        features, wide = shape.as_list()[-1], self.units * self._gates
        if features is None:
            raise errors.ShapeError(f"{self.name}: the inputs have shape {shape}; the number of features must be known")

        self.kernel = self.add_weight("kernel", [features, wide], **kept(self, "kernel"))
        self.recurrent_kernel = self.add_weight("recurrent_kernel", [self.units, wide], **kept(self, "recurrent"))
        self.bias = self.add_weight("bias", [wide], **{**kept(self, "bias"), **self._first_bias()}) if self.use_bias else None
        self._build_states(shape.as_list())
        self.built = True

    def _first_bias(self) -> dict[str, Any]:
        """Another initializer for the bias, where there is one."""
        return {}

    def call(self, inputs: Any, mask: Any = None, training: Any = None, initial_state: Any = None) -> Any:
        """What is said above."""
        x, *given = [*as_list(inputs), *as_list(initial_state)]
        mask = as_list(mask)[0] if isinstance(mask, list) else mask
        states = given or self._begin(x)
        drops = self._drops(x, training)
        last, outputs, new = rnn(lambda row, held: self._step(row, held, drops), x, states, self.go_backwards, mask,
                                 unroll=self.unroll)
        self._shaped(x, last, outputs)
        if self.stateful:
            self.add_update(list(zip(self.states, new)), inputs)
        result = outputs if self.return_sequences else last
        return [result, *new] if self.return_state else result

    def _shaped(self, x: Tensor, last: Tensor, outputs: Tensor) -> None:
        """Say the shapes of what is given back."""
        batch, time = known_shape(self, x)[:2]
        last.set_shape([batch, self.units])
        outputs.set_shape([batch, time, self.units])

    def compute_mask(self, _inputs: Any, mask: Any = None) -> Any:
        """That of the time steps, where these are given back."""
        first = as_list(mask)[0] if isinstance(mask, list) else mask
        found = first if self.return_sequences else None
        return [found, *([None] * self._states)] if self.return_state else found

    def _begin(self, x: Tensor) -> list[Any]:
        """Zeros, or with `stateful` the variables where the last batch ended."""
        if not self.stateful:
            zeros = ops.zeros([ops.shape(x)[0], self.units], x.dtype)
            zeros.set_shape([known_shape(self, x)[0], self.units])
            return [zeros] * self._states
        self._build_states(known_shape(self, x))
        return [one.value() for one in self.states]

    def _build_states(self, shape: list[Any]) -> None:
        """Make the variables where a stateful layer's batches end, for inputs of a shape."""
        if not self.stateful or self.states:
            return
        sizes = self._state_sizes(shape)
        if None in sizes:
            raise errors.InvalidArgumentError(f"{self.name}: If a RNN is stateful, it needs to know its batch size; give "
                                              "batch_input_shape=(batch, time, features)")
        self.states = [Variable(np.zeros(sizes, backend.floatx()), trainable=False, name=f"state_{number}")
                       for number in range(self._states)]

    def _state_sizes(self, shape: list[Any]) -> list[Any]:
        """The shape of a state, for inputs of a shape."""
        return [shape[0], self.units]

    def reset_states(self, states: Any = None) -> None:
        """Begin from zeros again, or from these arrays. FailedPreconditionError before the first call."""
        if not self.states:
            raise errors.FailedPreconditionError(f"{self.name}: it has no states yet; make it stateful=True and call it")
        values = as_list(states) or [np.zeros(one.shape.as_list()) for one in self.states]
        backend.batch_set_value(list(zip(self.states, values)))

    def _drops(self, x: Tensor, training: Any) -> list[Any]:
        """[what inputs are multiplied by for each gate, what states are], None where nothing is dropped."""
        wide = ops.zeros([ops.shape(x)[0], self.units], x.dtype)
        return [self._masks(self.dropout, x[:, 0], training), self._masks(self.recurrent_dropout, wide, training)]

    def _masks(self, rate: float, like: Any, training: Any) -> Any:
        """What each gate's part is multiplied by; None where nothing is dropped."""
        if not 0 < rate < 1:
            return None
        ones = ops.ones_like(like)
        return [backend.in_train_phase(lambda: ops.dropout(ones, 1 - rate), ones, training) for _ in range(self._gates)]

    def _sums(self, row: Any, kernel: Variable, masks: Any, first: int = 0, end: int | None = None) -> list[Tensor]:
        """row · kernel of the gates from `first` on, one tensor each."""
        end = self._gates if end is None else end
        part = kernel.value()[:, first * self.units:end * self.units]
        if masks is None:
            return list(ops.split(ops.matmul(row, part), end - first, axis=1))
        parts = ops.split(part, end - first, axis=1)
        return [ops.matmul(row * mask, one) for mask, one in zip(masks[first:end], parts)]

    def _inputs(self, row: Any, masks: Any) -> list[Tensor]:
        """What the inputs of a step add to each gate."""
        found = self._sums(row, self.kernel, masks)
        if self.bias is None:
            return found
        return [one + bias for one, bias in zip(found, ops.split(self.bias.value(), self._gates, axis=0))]

    def _step(self, row: Any, states: list[Any], drops: list[Any]) -> tuple[Tensor, list[Any]]:
        raise errors.UnimplementedError(f"{self.name}: _step(row, states, drops) is missing; define it")


class SimpleRNN(Recurrent):
    """activation(x · kernel + h · recurrent_kernel + bias) is the output and the next h."""

    def _step(self, row: Any, states: list[Any], drops: list[Any]) -> tuple[Tensor, list[Any]]:
        output = self.activation(self._inputs(row, drops[0])[0] + self._sums(states[0], self.recurrent_kernel, drops[1])[0])
        return output, [output]


class _Gated(Recurrent):
    """Base of those with gates."""

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "hard_sigmoid", use_bias: bool = True,
                 *more: Any, **options: Any) -> None:
        super().__init__(units, activation, use_bias, *more, **options)
        self.recurrent_activation = activations.get(recurrent_activation)

    def get_config(self) -> dict[str, Any]:
        """The arguments, those of the base among them."""
        return {**super().get_config(), **config_of(self, of=Recurrent)}


class LSTM(_Gated):
    """Long short-term memory (Hochreiter & Schmidhuber 1997); gates stand in the order input, forget, cell, output."""

    _gates, _states = 4, 2

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "hard_sigmoid", use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
                 bias_initializer: Any = "zeros", unit_forget_bias: bool = True, *more: Any, **options: Any) -> None:
        super().__init__(units, activation, recurrent_activation, use_bias, kernel_initializer, recurrent_initializer,
                         bias_initializer, *more, **options)
        self.unit_forget_bias = unit_forget_bias

    def _first_bias(self) -> dict[str, Any]:
        def first(_shape: Any, dtype: Any = None) -> Tensor:
            given = kept(self, "bias")["initializer"]
            made: Tensor = ops.concat([given([self.units], dtype), initializers.Ones()([self.units], dtype),
                                       given([2 * self.units], dtype)], axis=0)
            return made
        return {"initializer": first} if self.unit_forget_bias else {}

    def _step(self, row: Any, states: list[Any], drops: list[Any]) -> tuple[Tensor, list[Any]]:
        return self._gated(self._inputs(row, drops[0]), self._sums(states[0], self.recurrent_kernel, drops[1]), states[1])

    def _gated(self, inputs: list[Tensor], before: list[Tensor], cell: Any) -> tuple[Tensor, list[Any]]:
        """(output, new states) of what inputs and last output add to each gate, and of the last cell."""
        sums = [one + other for one, other in zip(inputs, before)]
        into, keeping, out = (self.recurrent_activation(sums[number]) for number in (0, 1, 3))
        cell = keeping * cell + into * self.activation(sums[2])
        output = out * self.activation(cell)
        return output, [output, cell]


class GRU(_Gated):
    """Gated recurrent unit (Cho et al. 2014); gates stand in the order update, reset, new."""

    _gates = 3

    def _step(self, row: Any, states: list[Any], drops: list[Any]) -> tuple[Tensor, list[Any]]:
        update, reset, new = self._inputs(row, drops[0])
        old_update, old_reset = self._sums(states[0], self.recurrent_kernel, drops[1], 0, 2)
        stay = self.recurrent_activation(update + old_update)
        kept_part = self.recurrent_activation(reset + old_reset) * states[0]
        fresh = self.activation(new + self._sums(kept_part, self.recurrent_kernel, drops[1], 2)[0])
        output = stay * states[0] + (1 - stay) * fresh
        return output, [output]
