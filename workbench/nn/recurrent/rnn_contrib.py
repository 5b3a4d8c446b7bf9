"""Recurrent cells of published work, as tf.contrib.rnn has them: normalized, coupled, grouped, phased, searched for."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.arguments import refuse
from workbench.nn.initializers import Constant, Zeros
from workbench.nn.recurrent.rnn_base import LSTMStateTuple, MemoryCell, PlainCell, RNNCell, clipped, joined, parts_of
from workbench.nn.scopes import get_variable_scope, variable_scope

__all__ = ["CoupledInputForgetGateLSTMCell", "GLSTMCell", "IntersectionRNNCell", "LayerNormBasicLSTMCell", "NASCell",
           "PhasedLSTMCell", "UGRNNCell"]

Activation = Callable[[Any], Any]


class ShardedCell(RNNCell):
    """A cell whose matrix `W` is kept as variables `W_0`, `W_1`, … of some rows each, as cells of 2015 kept theirs."""

    def sharded(self, name: str, parts: Sequence[Tensor], units: int, shards: int, bias: str = "") -> Tensor:
        """[parts] · (the shards of `name`, joined), plus the variable `bias` if it is named."""
        rows, x = self.width(parts), joined(parts)
        if not 1 <= shards <= rows:
            raise errors.InvalidArgumentError(f"{type(self).__name__}: {name} has {rows} rows but {shards} shards; use from 1 "
                                              f"to {rows}")
        sizes = [rows // shards + (number < rows % shards) for number in range(shards)]
        tables = [self.variable(f"{name}_{number}", [size, units], x.dtype) for number, size in enumerate(sizes)]
        made: Tensor = ops.matmul(x, tables[0] if shards == 1 else ops.concat(tables, axis=0))
        return made if not bias else ops.bias_add(made, self.variable(bias, [units], x.dtype, Zeros()))

    def diagonal(self, name: str, cell: Tensor, units: int) -> Tensor:
        """A memory [batch, units] times the variable `name` [units]: a peephole."""
        return self.variable(name, [units], cell.dtype) * cell


class CoupledInputForgetGateLSTMCell(ShardedCell, MemoryCell):
    """LSTM whose input gate is 1 - its forget gate (Greff et al. 2015), with peepholes and a projection if asked.

    Variables: `W_0`… [inputs + outputs, 3 · units] for candidate, forget and output gate, `B`, `W_F_diag`, `W_O_diag`,
    `W_P_0`….
    """

    def __init__(self, num_units: int, use_peepholes: bool = False, initializer: Any = None, num_proj: int | None = None,
                 proj_clip: float | None = None, num_unit_shards: int = 1, num_proj_shards: int = 1,
                 forget_bias: float = 1.0, state_is_tuple: bool = True, activation: Activation = ops.tanh,
                 reuse: Any = None, name: str | None = None) -> None:
        super().__init__(name, reuse)
        self._num_units, self._use_peepholes, self._initializer = num_units, use_peepholes, initializer
        self._num_proj, self._proj_clip, self._shards = num_proj, proj_clip, (num_unit_shards, num_proj_shards)
        self._forget_bias, self._state_is_tuple, self._activation = forget_bias, state_is_tuple, activation

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        before, m = state if self._state_is_tuple else ops.split(
            state, num_or_size_splits=[self._num_units, self.output_size], axis=1)
        with variable_scope(get_variable_scope(), initializer=self._initializer):
            candidate, forget, leave = parts_of(self.sharded("W", [inputs, m], 3 * self._num_units, self._shards[0], "B"), 3)
            forget = forget + self._forget_bias
            if self._use_peepholes:
                forget += self.diagonal("W_F_diag", before, self._num_units)
            kept = ops.sigmoid(forget)
            c = kept * before + (1.0 - kept) * self._activation(candidate)
            if self._use_peepholes:
                leave += self.diagonal("W_O_diag", c, self._num_units)
            m = ops.sigmoid(leave) * self._activation(c)
            if self._num_proj is not None:
                m = clipped(self.sharded("W_P", [m], self._num_proj, self._shards[1]), self._proj_clip)
        return m, self._close(c, m)


class LayerNormBasicLSTMCell(MemoryCell):
    """LSTM with layer normalization of each gate and of the memory (Ba, Kiros, Hinton 2016), and dropout of the candidate
    (Semeniuta, Severyn, Barth 2016).

    Variables: `kernel`, and `gamma` and `beta` below `input`, `transform`, `forget`, `output` and `state`; without
    `layer_norm` `kernel` and `bias`.
    """

    def __init__(self, num_units: int, forget_bias: float = 1.0, input_size: Any = None, activation: Activation = ops.tanh,
                 layer_norm: bool = True, norm_gain: float = 1.0, norm_shift: float = 0.0, dropout_keep_prob: Any = 1.0,
                 dropout_prob_seed: int | None = None, reuse: Any = None, name: str | None = None) -> None:
        super().__init__(name, reuse)
        refuse("LayerNormBasicLSTMCell", "the width of the inputs is read from their shape", input_size=input_size)
        self._num_units, self._forget_bias, self._activation = num_units, forget_bias, activation
        self._normalize, self._gain, self._shift = layer_norm, norm_gain, norm_shift
        self._keep, self._seed = dropout_keep_prob, dropout_prob_seed

    def _norm(self, x: Tensor, name: str) -> Tensor:
        if not self._normalize:
            return x
        gamma = self.variable(f"{name}/gamma", [self._num_units], x.dtype, Constant(self._gain))
        beta = self.variable(f"{name}/beta", [self._num_units], x.dtype, Constant(self._shift))
        mean, variance = ops.moments(x, [1], keep_dims=True)
        made: Tensor = ops.batch_normalization(x, mean, variance, beta, gamma, 1e-12)
        return made

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        c, h = state
        gates = self.product([inputs, h], 4 * self._num_units)
        if not self._normalize:
            gates = ops.bias_add(gates, self.variable("bias", [4 * self._num_units], gates.dtype))
        enter, candidate, forget, leave = (self._norm(part, name) for part, name in zip(
            parts_of(gates, 4), ("input", "transform", "forget", "output")))
        new = self._activation(candidate)
        if not isinstance(self._keep, (int, float)) or self._keep < 1:
            new = ops.dropout(new, self._keep, seed=self._seed)
        c = self._norm(c * ops.sigmoid(forget + self._forget_bias) + ops.sigmoid(enter) * new, "state")
        h = self._activation(c) * ops.sigmoid(leave)
        return h, LSTMStateTuple(c, h)


class NASCell(MemoryCell):
    """The cell that a search found (Zoph, Le 2016), with a projection to `num_proj` if asked.

    Variables: `recurrent_kernel` and `kernel` [.., 8 · units], `bias` with `use_biases`, `projection_weights`.
    """

    def __init__(self, num_units: int, num_proj: int | None = None, use_biases: bool = False, reuse: Any = None,
                 name: str | None = None) -> None:
        super().__init__(name, reuse)
        self._num_units, self._num_proj, self._biased = num_units, num_proj, use_biases

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        before, m = state
        width = 8 * self._num_units
        recurrent = self.variable("recurrent_kernel", [self.output_size, width], inputs.dtype)
        seen, kept = self.product([inputs], width), ops.matmul(m, recurrent)
        if self._biased:
            kept = ops.bias_add(kept, self.variable("bias", [width], inputs.dtype, Zeros()))
        pairs = list(zip(parts_of(seen, 8), parts_of(kept, 8)))
        leaf = [function(a * b if number == 3 else a + b) for number, ((a, b), function) in enumerate(zip(pairs, (
            ops.sigmoid, ops.relu, ops.sigmoid, ops.relu, ops.tanh, ops.sigmoid, ops.tanh, ops.sigmoid)))]
        first, second = ops.tanh(leaf[0] * leaf[1]), ops.tanh(leaf[2] + leaf[3])
        third, fourth = ops.tanh(leaf[4] * leaf[5]), ops.sigmoid(leaf[6] + leaf[7])
        c = ops.tanh(first + before) * second
        m = ops.tanh(c * ops.tanh(third + fourth))
        if self._num_proj is not None:
            m = ops.matmul(m, self.variable("projection_weights", [self._num_units, self._num_proj], m.dtype))
        return m, LSTMStateTuple(c, m)


class UGRNNCell(PlainCell):
    """Recurrent cell with an update gate alone (Collins, Sohl-Dickstein, Sussillo 2016): gate first, then candidate."""

    def __init__(self, num_units: int, initializer: Any = None, forget_bias: float = 1.0, activation: Activation = ops.tanh,
                 reuse: Any = None, name: str | None = None) -> None:
        super().__init__(name, reuse)
        self._num_units, self._initializer = num_units, initializer
        self._forget_bias, self._activation = forget_bias, activation

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        gate, candidate = parts_of(self.linear([inputs, state], 2 * self._num_units, kernel=self._initializer), 2)
        kept = ops.sigmoid(gate + self._forget_bias)
        new = kept * state + (1.0 - kept) * self._activation(candidate)
        return new, new


class IntersectionRNNCell(PlainCell):
    """The +RNN of Collins, Sohl-Dickstein, Sussillo 2016: gates through time and through depth.

    Inputs are as wide as the cell, or with `num_in_proj` set (to `num_units`) projected to that; InvalidArgumentError else.
    """

    def __init__(self, num_units: int, num_in_proj: int | None = None, initializer: Any = None, forget_bias: float = 1.0,
                 y_activation: Activation = ops.relu, reuse: Any = None, name: str | None = None) -> None:
        super().__init__(name, reuse)
        self._num_units, self._project, self._initializer = num_units, num_in_proj, initializer
        self._forget_bias, self._activation = forget_bias, y_activation

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        if self.width([inputs]) != self._num_units:
            if not self._project:
                raise errors.InvalidArgumentError(
                    "IntersectionRNNCell: Must have input size == output size for Intersection RNN: "
                    f"{self.width([inputs])} and {self._num_units}. To fix, num_in_proj should be set to "
                    "num_units at cell init.")
            inputs = self.linear([inputs], self._num_units, "in_projection/", kernel=self._initializer)
        gate_h, h, gate_y, y = parts_of(self.linear([inputs, state], 4 * self._num_units, kernel=self._initializer), 4)
        through_time, through_depth = ops.sigmoid(gate_h + self._forget_bias), ops.sigmoid(gate_y + self._forget_bias)
        new = through_time * state + (1.0 - through_time) * ops.tanh(h)
        return through_depth * inputs + (1.0 - through_depth) * self._activation(y), new


class GLSTMCell(MemoryCell):
    """LSTM in groups that read their own share of the inputs (Kuchaiev, Ginsburg 2017); with one group an LSTM.

    Variables: `group0/kernel`…, `bias_i`, `bias_j`, `bias_f`, `bias_o`, `projection/kernel`. InvalidArgumentError where the
    groups do not divide `num_units` or `num_proj`.
    """

    def __init__(self, num_units: int, initializer: Any = None, num_proj: int | None = None, number_of_groups: int = 1,
                 forget_bias: float = 1.0, activation: Activation = ops.tanh, reuse: Any = None,
                 name: str | None = None) -> None:
        super().__init__(name, reuse)
        for what, size in (("num_units", num_units), ("num_proj", num_proj or 0)):
            if size % number_of_groups:
                raise errors.InvalidArgumentError(f"GLSTMCell: {what} is {size} but there are {number_of_groups} groups; it "
                                                  "must be divisible by number_of_groups")
        self._num_units, self._initializer, self._num_proj = num_units, initializer, num_proj
        self._groups, self._forget_bias, self._activation = number_of_groups, forget_bias, activation

    def call(self, inputs: Tensor, state: Any) -> tuple[Any, Any]:
        before, m = state
        taken, width = self.output_size // self._groups, self._num_units // self._groups
        each = [parts_of(self.product([inputs[:, g * taken:(g + 1) * taken], m[:, g * taken:(g + 1) * taken]], 4 * width,
                                      f"group{g}/", self._initializer), 4) for g in range(self._groups)]
        enter, candidate, forget, leave = (
            ops.bias_add(joined(gate), self.variable(f"bias_{letter}", [self._num_units], inputs.dtype, Zeros()))
            for letter, gate in zip("ijfo", zip(*each)))
        c = ops.sigmoid(forget + self._forget_bias) * before + ops.sigmoid(enter) * ops.tanh(candidate)
        m = ops.sigmoid(leave) * self._activation(c)
        if self._num_proj is not None:
            m = self.product([m], self._num_proj, "projection/", self._initializer)
        return m, LSTMStateTuple(c, m)


class PhasedLSTMCell(MemoryCell):
    """LSTM that is open for a share `ratio_on` of each of its periods, and leaks `leak` else (Neil, Pfeiffer, Liu 2016).

    Inputs are a tuple (times [batch, 1], features [batch, n]). Periods begin between `period_init_min` and
    `period_init_max`, evenly in their logarithms. Variables: `kernel` and `bias` below `mask_gates`, `new_input` and
    `output_gate`; `period`, `phase`, `ratio_on`.
    """

    def __init__(self, num_units: int, use_peepholes: bool = False, leak: Any = 0.001, ratio_on: float = 0.1,
                 trainable_ratio_on: bool = True, period_init_min: float = 1.0, period_init_max: float = 1000.0,
                 reuse: Any = None, name: str | None = None) -> None:
        super().__init__(name, reuse)
        self._num_units, self._use_peepholes, self._leak = num_units, use_peepholes, leak
        self._on, self._trained = ratio_on, trainable_ratio_on
        self._range = period_init_min, period_init_max

    def _openness(self, time: Tensor, dtype: Any) -> Tensor:
        """How far each unit is open at `time` [batch, 1]."""
        low, high = map(math.log, self._range)

        def periods(shape: Any, dtype: Any) -> Tensor:
            made: Tensor = ops.exp(ops.random_uniform(shape, low, high, dtype))
            return made
        period = self.table("period", [self._num_units], dtype, periods)
        phase = self.variable("phase", [self._num_units], dtype, lambda shape, dtype: ops.random_uniform(
            shape, dtype=dtype) * period.initial_value)
        on = self.variable("ratio_on", [self._num_units], dtype, Constant(self._on), trainable=self._trained)
        length = ops.cast(convert(period), time.dtype)
        moved = time - ops.cast(phase, time.dtype)
        cycle = ops.cast((ops.stop_gradient(ops.mod(moved, length) - moved) + moved) / length, dtype)
        rising = 2.0 * cycle / on
        k = ops.where(cycle < on, 2.0 - rising, self._leak * cycle)
        found: Tensor = ops.where(cycle < 0.5 * on, rising, k)
        return found

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        time, x = inputs
        c, h = state
        seen = [x, h, c] if self._use_peepholes else [x, h]
        enter, forget = parts_of(ops.sigmoid(self.linear(seen, 2 * self._num_units, "mask_gates/")), 2)
        new_c = c * forget + enter * ops.tanh(self.linear([x, h], self._num_units, "new_input/"))
        seen = [x, h, new_c] if self._use_peepholes else [x, h]
        new_h = ops.tanh(new_c) * ops.sigmoid(self.linear(seen, self._num_units, "output_gate/"))
        k = self._openness(time, x.dtype)
        new_c, new_h = k * new_c + (1.0 - k) * c, k * new_h + (1.0 - k) * h
        return new_h, LSTMStateTuple(new_c, new_h)
