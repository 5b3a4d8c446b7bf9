"""Sequences through recurrent cells: unrolled while building, or by a loop of the graph."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.nest import flatten, map_structure, pack_sequence_as
from workbench.nn.recurrent.rnn_base import RNNCell
from workbench.nn.scopes import variable_scope

__all__ = ["bidirectional_dynamic_rnn", "dynamic_rnn", "lengths_of", "static_bidirectional_rnn", "static_rnn"]


def static_rnn(cell: RNNCell, inputs: Sequence[Any], initial_state: Any = None, dtype: Any = None,
               sequence_length: Any = None, scope: Any = None) -> tuple[list[Tensor], Any]:
    """(outputs, final state) of `cell` over a list of inputs [batch, n] (or tuples of them); one copy of the cell for each
    step.

    Beyond `sequence_length` [batch] outputs are zero and the state stays.
    """
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise errors.InvalidArgumentError(f"static_rnn: inputs is {inputs!r}; pass a non-empty list of tensors "
                                          "(unstack them)")
    steps = [converted(x) for x in inputs]
    with variable_scope(scope or "rnn") as opened:
        state = _initial(cell, steps[0], 0, initial_state, dtype)
        lengths = None if sequence_length is None else lengths_of(sequence_length, steps[0], 0)
        outputs = []
        for time, x in enumerate(steps):
            if time > 0:
                opened.reuse_variables()      # a cell of a program may ask for its variables at each step
            output, new = cell(x, state)
            if lengths is not None:
                alive = lengths > time
                output, new = _masked(alive, output, zeros_of(output)), _masked(alive, new, state)
            outputs.append(output)
            state = new
        return outputs, state


def converted(inputs: Any) -> Any:
    """Inputs as tensors: one, or a tuple of them."""
    return map_structure(convert, inputs) if isinstance(inputs, tuple) else convert(inputs)


def zeros_of(values: Any) -> Any:
    """Zeros like each part."""
    return map_structure(ops.zeros_like, values)


def batch_of(x: Tensor, axis: int) -> Any:
    """The length of an axis: a number where it is known."""
    size = x.shape.as_list()[axis] if x.shape.rank is not None else None
    return ops.shape(x)[axis] if size is None else size


def _initial(cell: RNNCell, inputs: Any, batch_axis: int, given: Any, dtype: Any) -> Any:
    if given is not None:
        return given
    first = flatten(inputs)[0]
    return cell.zero_state(batch_of(first, batch_axis), dtype or first.dtype)


def _masked(alive: Tensor, new: Any, old: Any) -> Any:
    """`new` in the rows that are alive, `old` elsewhere, in every part of a nested state; scalars and arrays go on."""
    def chosen(n: Any, o: Any) -> Any:
        return n if not isinstance(n, Tensor) or n.shape.rank == 0 else ops.where(alive, n, o)
    return map_structure(chosen, new, old, check_types=False)


def swapped(x: Tensor) -> Tensor:
    """The first two axes change places."""
    made: Tensor = ops.transpose(x, [1, 0, *range(2, x.shape.rank or 2)])
    return made


def lengths_of(given: Any, sequences: Any, axis: int) -> Tensor:
    """The lengths of sequences, which stand side by side along `axis`, as int32 [batch]; ShapeError for what is no vector,
    and for other than one length for each, in the step where only that knows."""
    lengths: Tensor = ops.cast(convert(given), "int32")
    if lengths.shape.rank not in (None, 1):
        raise errors.ShapeError(f"rnn: sequence_length must be a vector of length batch_size but its shape is {lengths.shape}; "
                                "give one length for each sequence")
    shape = flatten(sequences)[0].shape
    batch = shape.sizes[axis] if shape.sizes else None
    if lengths.shape.rank is None or (batch is not None and not lengths.shape.known):
        lengths = ops.ensure_shape(lengths, [batch])      # of the caller's tensor nothing more becomes known
    return lengths


def dynamic_rnn(cell: RNNCell, inputs: Any, sequence_length: Any = None, initial_state: Any = None, dtype: Any = None,
                parallel_iterations: int | None = None, swap_memory: bool = False, time_major: bool = False,
                scope: Any = None) -> tuple[Any, Any]:
    """(outputs, final state) of `cell` over floats [batch, time, n…] ([time, batch, n…] with `time_major`), or a tuple of
    such inputs.

    Outputs are [batch, time, output_size…], or time first as the inputs. A loop of the graph: the number of steps may
    differ from run to run. Beyond `sequence_length` (int [batch]) outputs are zero and the state stays. Raises
    ShapeError for a rank below 3.
    """
    given = converted(inputs)
    for x in flatten(given):
        if x.shape.rank is None or x.shape.rank < 3:
            raise errors.ShapeError(f"dynamic_rnn: inputs {x.name} has shape {x.shape}; sequences have rank 3 "
                                    "or more: reshape it")
    with variable_scope(scope or "rnn"):
        rows = given if time_major else map_structure(swapped, given)
        state = _initial(cell, rows, 1, initial_state, dtype)
        lengths = None if sequence_length is None else lengths_of(sequence_length, rows, 1)
        outputs, final = _loop(cell, rows, state, lengths, parallel_iterations or 32)
        return outputs if time_major else map_structure(swapped, outputs), final


def _loop(cell: RNNCell, rows: Any, state: Any, lengths: Tensor | None, parallel: int) -> tuple[Any, Any]:
    flat = flatten(rows)
    count = flat[0].shape.as_list()[0]
    steps = ops.shape(flat[0])[0] if count is None else ops.constant(count)
    made: list[Any] = []

    def body(time: Tensor, rest: Any, state: Any, outputs: Any) -> Any:
        popped = [ops.list_pop(r, dtype=x.dtype, shape=x.shape[1:]) for r, x in zip(rest, flat)]
        output, new = cell(pack_sequence_as(rows, [x for _, x in popped]), state)
        if lengths is not None:
            alive = lengths > time
            output, new = _masked(alive, output, zeros_of(output)), _masked(alive, new, state)
        made[:] = [output]
        return time + 1, tuple(r for r, _ in popped), new, tuple(map(ops.list_push, outputs, flatten(output)))

    rest = tuple(ops.list_from_tensor(x, reverse=True) for x in flat)
    start = (ops.constant(0), rest, state, tuple(ops.list_new() for _ in flatten(cell.output_size)))
    _, _, final, outputs = ops.while_loop(lambda time, *_: time < steps, body, start, parallel_iterations=parallel)
    stacked = [ops.list_stack(pushed, dtype=x.dtype, shape=x.shape, length=count)
               for pushed, x in zip(outputs, flatten(made[0]))]
    return pack_sequence_as(made[0], stacked), final


def bidirectional_dynamic_rnn(cell_fw: RNNCell, cell_bw: RNNCell, inputs: Any, sequence_length: Any = None,
                              initial_state_fw: Any = None, initial_state_bw: Any = None, dtype: Any = None,
                              parallel_iterations: int | None = None, swap_memory: bool = False, time_major: bool = False,
                              scope: Any = None) -> tuple[tuple[Tensor, Tensor], tuple[Any, Any]]:
    """((outputs forwards, outputs backwards), (final states)) of two cells that read in opposite directions, shaped
    as in dynamic_rnn.

    With `sequence_length` [batch] the second cell begins at the last element of each sequence.
    """
    axis = 0 if time_major else 1
    options: dict[str, Any] = {"dtype": dtype, "parallel_iterations": parallel_iterations, "time_major": time_major,
                               "sequence_length": sequence_length}

    def mirrored(values: Any) -> Any:
        if sequence_length is None:
            return map_structure(lambda x: ops.reverse(x, axis=[axis]), values)
        lengths = lengths_of(sequence_length, values, 1 - axis)
        return map_structure(lambda x: ops.reverse_sequence(x, lengths, seq_axis=axis, batch_axis=1 - axis), values)

    with variable_scope(scope or "bidirectional_rnn"):
        forwards, last = dynamic_rnn(cell_fw, inputs, initial_state=initial_state_fw, scope="fw", **options)
        backwards, first = dynamic_rnn(cell_bw, mirrored(converted(inputs)), initial_state=initial_state_bw, scope="bw",
                                       **options)
        return (forwards, mirrored(backwards)), (last, first)


def static_bidirectional_rnn(cell_fw: RNNCell, cell_bw: RNNCell, inputs: Sequence[Any], initial_state_fw: Any = None,
                             initial_state_bw: Any = None, dtype: Any = None, sequence_length: Any = None,
                             scope: Any = None) -> tuple[list[Tensor], Any, Any]:
    """(outputs [batch, units of both] for each of the inputs [batch, n], final state forwards, final state backwards).

    With `sequence_length` [batch] the second cell begins at the last element of each sequence.
    """
    with variable_scope(scope or "bidirectional_rnn"):
        forwards, last = static_rnn(cell_fw, inputs, initial_state_fw, dtype, sequence_length, scope="fw")
        mirrored = _mirrored_steps(inputs, sequence_length)
        backwards, first = static_rnn(cell_bw, mirrored, initial_state_bw, dtype, sequence_length, scope="bw")
        pairs = zip(forwards, _mirrored_steps(backwards, sequence_length))
        return [ops.concat(list(pair), axis=1) for pair in pairs], last, first


def _mirrored_steps(steps: Sequence[Any], sequence_length: Any) -> list[Any]:
    if sequence_length is None:
        return list(steps)[::-1]
    stacked = ops.stack([convert(x) for x in steps])
    lengths = lengths_of(sequence_length, stacked, 1)
    return list(ops.unstack(ops.reverse_sequence(stacked, lengths, seq_axis=0, batch_axis=1), len(steps)))
