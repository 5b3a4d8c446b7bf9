"""What every recurrent cell is: one step of a sequence, with variables that are made at the first step."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Graph, Tensor
from workbench.core.graph.shape import Shape
from workbench.core.graph.subgraph import root_graph
from workbench.nn import nest
from workbench.nn.initializers import Zeros
from workbench.nn.layer_base import Layer
from workbench.nn.partitions import variable_parts
from workbench.nn.scopes import AUTO_REUSE, VariableScope, get_variable, get_variable_scope, variable_scope
from workbench.nn.variables import Variable

__all__ = ["LSTMStateTuple", "MemoryCell", "PlainCell", "RNNCell", "Wrapper"]


class LSTMStateTuple(NamedTuple):
    """State of an LSTM: cell `c` and output `h`, both [batch, units]."""

    c: Any
    h: Any


class RNNCell(Layer):
    """One step: `cell(inputs [batch, n], state)` gives (output [batch, output_size], new state).

    Variables are made at the first call in a variable scope, in a scope of the cell's name there, numbered where that was
    entered before; later calls there use them again. `reuse` is that of variable_scope: with True they must exist before the
    first call; `_reuse` is its name in cells that programs define. Those define `call`, and may define `build(shape of the
    inputs)`, which runs before the first call and makes variables with add_variable. Inputs of several parts are a tuple.
    """

    def __init__(self, name: str | None = None, reuse: Any = None, _reuse: Any = None, trainable: bool = True,
                 dtype: Any = None) -> None:
        super().__init__(trainable, name, dtype, _reuse=_reuse if reuse is None else reuse)
        self._tables: dict[tuple[Graph, str, str], Variable] = {}
        self._scopes: dict[tuple[Graph, str, str], VariableScope] = {}

    @property
    def state_size(self) -> Any:
        """Width of the state: an int, a shape without the batch, or a tuple of them for a state of several parts."""
        raise errors.UnimplementedError(f"{type(self).__name__}: state_size is missing; define it")

    @property
    def output_size(self) -> Any:
        """Width of the output: an int, or a shape without the batch."""
        raise errors.UnimplementedError(f"{type(self).__name__}: output_size is missing; define it")

    def __call__(self, inputs: Any, state: Any, scope: str | VariableScope | None = None) -> tuple[Any, Any]:
        inputs = tuple(map(convert, inputs)) if isinstance(inputs, tuple) else convert(inputs)
        with self._entered(scope):
            if not self.built:
                self.build(nest.map_structure(lambda one: one.get_shape(), inputs))
                self.built = True
            return self.call(inputs, state)

    @contextmanager
    def _entered(self, scope: Any) -> Iterator[VariableScope]:
        """The cell's scope within the one in force; that of the first call there, with its variables, for later ones."""
        key = root_graph(), get_variable_scope().name, getattr(scope, "name", scope) or ""
        if key in self._scopes:
            with variable_scope(self._scopes[key], reuse=AUTO_REUSE) as again:
                yield again
        else:
            asked = self._base if scope is None and self._reuse else scope
            with variable_scope(asked, self._base, reuse=self._reuse, custom_getter=self._keeping) as first:
                self._scopes[key] = first
                yield first

    def _keeping(self, getter: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Makes a variable that the cell asked for its own."""
        found = getter(*args, **options)
        known = {id(v) for v in self._made}
        self._made += [v for v in variable_parts(found) if id(v) not in known]
        return found

    def add_variable(self, name: str, shape: Any, dtype: Any = None, initializer: Any = None, regularizer: Any = None,
                     trainable: bool = True, constraint: Any = None) -> Variable:
        """A variable of the cell, for `build` and `call`."""
        made: Variable = get_variable(name, shape, dtype or self.dtype or "float32", initializer, regularizer,
                                      trainable and self.trainable, constraint=constraint)
        return made

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """(output [batch, output_size], new state) of one step; what a new cell defines."""
        raise errors.UnimplementedError(f"{type(self).__name__}: call(inputs, state) is missing; define it")

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """The state of zeros for `batch_size` (int or int32 scalar) sequences."""
        return _map_sizes(self.state_size, lambda size: ops.zeros(_dims(batch_size, size), dtype))

    def variable(self, name: str, shape: Sequence[int], dtype: Any, initializer: Any = None, **options: Any) -> Tensor:
        """The variable `name` of this cell in the scope in force, read."""
        return convert(self.table(name, shape, dtype, initializer, **options))

    def table(self, name: str, shape: Sequence[int], dtype: Any, initializer: Any = None, **options: Any) -> Variable:
        """The variable `name` of this cell in the scope in force; `options` are those of get_variable."""
        key = (root_graph(), get_variable_scope().name, name)
        if key not in self._tables:
            self._tables[key] = get_variable(name, shape, dtype, initializer, **options)
        return self._tables[key]

    def product(self, parts: Sequence[Tensor], units: int, prefix: str = "", kernel: Any = None,
                partitioner: Any = None) -> Tensor:
        """[parts] · kernel, with the variable `prefix/kernel`."""
        parts = [convert(p) for p in parts]
        weights = self.variable(prefix + "kernel", [self.width(parts), units], parts[0].dtype, kernel, partitioner=partitioner)
        return ops.matmul(joined(parts), weights)

    def linear(self, parts: Sequence[Tensor], units: int, prefix: str = "", bias: Any = None, kernel: Any = None,
               partitioner: Any = None) -> Tensor:
        """[parts] · kernel + bias, with variables `prefix/kernel` and `prefix/bias`."""
        made = self.product(parts, units, prefix, kernel, partitioner)
        return ops.bias_add(made, self.variable(prefix + "bias", [units], made.dtype, bias or Zeros()))

    def width(self, parts: Sequence[Tensor]) -> int:
        """The width of tensors side by side; ShapeError where one is unknown."""
        widths = [convert(p).shape.as_list()[-1] for p in parts]
        if None in widths:
            raise errors.ShapeError(f"{type(self).__name__}: inputs {parts[0].name} has shape {parts[0].shape}; its "
                                    "last dimension must be known: set_shape it")
        return sum(w or 0 for w in widths)


def joined(parts: Sequence[Tensor]) -> Tensor:
    """Tensors [batch, n] side by side."""
    made: Tensor = parts[0] if len(parts) == 1 else ops.concat(list(parts), axis=1)
    return made


def parts_of(x: Tensor, count: int) -> Sequence[Tensor]:
    """[batch, count · n] as `count` tensors [batch, n]."""
    found: Sequence[Tensor] = ops.split(x, num_or_size_splits=count, axis=1)
    return found


def clipped(x: Tensor, limit: float | None) -> Tensor:
    """x within ±limit; None is no limit."""
    made: Tensor = x if limit is None else ops.clip_by_value(x, -limit, limit)
    return made


def _dims(batch_size: Any, size: Any) -> Any:
    inner = size.static if isinstance(size, Shape) else (size,)
    return ops.stack([batch_size, *inner]) if isinstance(batch_size, Tensor) else [int(batch_size), *inner]


def _map_sizes(size: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(size, tuple) and hasattr(size, "_fields"):
        return type(size)(*[_map_sizes(s, function) for s in size])
    if isinstance(size, (list, tuple)):
        return tuple(_map_sizes(s, function) for s in size)
    return function(size if isinstance(size, Shape) else int(size))


def sizes_mapped(size: Any, batch_size: Any) -> list[Any]:
    """The shapes of each part of a state or an output."""
    found: list[Any] = []
    _map_sizes(size, lambda part: found.append(_dims(batch_size, part)))
    return found


class PlainCell(RNNCell):
    """A cell of `_num_units` numbers whose state is its output."""

    _num_units: int

    @property
    def state_size(self) -> int:
        return self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units


class MemoryCell(RNNCell):
    """A cell with an LSTM's state: a memory `_num_units` wide and an output, which `_projection` makes narrower if it is set.

    The state is an LSTMStateTuple, or with `_state_is_tuple` false both side by side.
    """

    _num_units: int
    _num_proj: int | None = None
    _state_is_tuple = True

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self.output_size) if self._state_is_tuple else self._num_units + self.output_size

    @property
    def output_size(self) -> int:
        return self._num_proj or self._num_units

    def _close(self, c: Tensor, h: Tensor) -> Any:
        """The state of this memory and output."""
        return LSTMStateTuple(c, h) if self._state_is_tuple else ops.concat([c, h], axis=1)


class Wrapper(RNNCell):
    """A cell around another, whose sizes it has unless it says otherwise."""

    def __init__(self, cell: RNNCell, reuse: Any = None, name: str | None = None) -> None:
        super().__init__(name, reuse)
        self._cell = cell

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        return self._cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        return self._cell.zero_state(batch_size, dtype)
