"""Sequences through recurrent cells: unrolled while building, or by a loop of the graph."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.rnn_cell import RNNCell
from workbench.nn.scopes import variable_scope

__all__ = ["bidirectional_dynamic_rnn", "dynamic_rnn", "static_bidirectional_rnn", "static_rnn"]


def static_rnn(cell: RNNCell, inputs: Sequence[Any], initial_state: Any = None, dtype: Any = None,
               sequence_length: Any = None, scope: Any = None) -> tuple[list[Tensor], Any]:
    """(outputs, final state) of `cell` over a list of inputs [batch, n]; one copy of the cell for each step.

    Beyond `sequence_length` [batch] outputs are zero and the state stays.
    """
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise errors.InvalidArgumentError(f"static_rnn: inputs is {inputs!r}; pass a non-empty list of tensors "
                                          "(unstack them)")
    steps = [convert(x) for x in inputs]
    with variable_scope(scope or "rnn"):
        state = _initial(cell, steps[0], 0, initial_state, dtype)
        lengths = None if sequence_length is None else ops.cast(convert(sequence_length), "int32")
        outputs = []
        for time, x in enumerate(steps):
            output, new = cell(x, state)
            if lengths is not None:
                alive = lengths > time
                output, new = _masked(alive, output, ops.zeros_like(output)), _masked(alive, new, state)
            outputs.append(output)
            state = new
        return outputs, state


def _initial(cell: RNNCell, x: Tensor, batch_axis: int, given: Any, dtype: Any) -> Any:
    if given is not None:
        return given
    size = x.shape.as_list()[batch_axis]
    return cell.zero_state(ops.shape(x)[batch_axis] if size is None else size, dtype or x.dtype)


def _masked(alive: Tensor, new: Any, old: Any) -> Any:
    """`new` in the rows that are alive, `old` elsewhere, in every part of a nested state."""
    if isinstance(new, tuple):
        parts = [_masked(alive, n, o) for n, o in zip(new, old)]
        return type(new)(*parts) if hasattr(new, "_fields") else tuple(parts)
    return ops.where(alive, new, old)


def dynamic_rnn(cell: RNNCell, inputs: Any, sequence_length: Any = None, initial_state: Any = None, dtype: Any = None,
                parallel_iterations: int = 32, swap_memory: bool = False, time_major: bool = False,
                scope: Any = None) -> tuple[Tensor, Any]:
    """(outputs, final state) of `cell` over floats [batch, time, n] ([time, batch, n] with `time_major`).

    Outputs are [batch, time, output_size], or time first as the inputs. A loop of the graph: the number of steps may
    differ from run to run. Beyond `sequence_length` (int [batch]) outputs are zero and the state stays. Raises
    ShapeError for a rank below 3.
    """
    x = convert(inputs)
    if x.shape.rank is None or x.shape.rank < 3:
        raise errors.ShapeError(f"dynamic_rnn: inputs {x.name} has shape {x.shape}; sequences have rank 3 "
                                "or more: reshape it")
    with variable_scope(scope or "rnn"):
        swapped = [1, 0, *range(2, x.shape.rank)]
        rows = x if time_major else ops.transpose(x, swapped)
        state = _initial(cell, rows, 1, initial_state, dtype)
        lengths = None if sequence_length is None else ops.cast(convert(sequence_length), "int32")
        outputs, final = _loop(cell, rows, state, lengths, parallel_iterations)
        return outputs if time_major else ops.transpose(outputs, [1, 0, 2]), final


def _loop(cell: RNNCell, rows: Tensor, state: Any, lengths: Tensor | None, parallel: int) -> tuple[Tensor, Any]:
    count = rows.shape.as_list()[0]
    steps = ops.shape(rows)[0] if count is None else ops.constant(count)
    made: list[Tensor] = []

    def body(time: Tensor, rest: Tensor, state: Any, outputs: Tensor) -> Any:
        rest, x = ops.list_pop(rest, dtype=rows.dtype, shape=rows.shape[1:])
        output, new = cell(x, state)
        if lengths is not None:
            alive = lengths > time
            output, new = _masked(alive, output, ops.zeros_like(output)), _masked(alive, new, state)
        made[:] = [output]
        return time + 1, rest, new, ops.list_push(outputs, output)

    start = (ops.constant(0), ops.list_from_tensor(rows, reverse=True), state, ops.list_new())
    _, _, final, outputs = ops.while_loop(lambda time, *_: time < steps, body, start, parallel_iterations=parallel)
    return ops.list_stack(outputs, dtype=made[0].dtype, shape=made[0].shape, length=count), final


def bidirectional_dynamic_rnn(cell_fw: RNNCell, cell_bw: RNNCell, inputs: Any, sequence_length: Any = None,
                              initial_state_fw: Any = None, initial_state_bw: Any = None, dtype: Any = None,
                              parallel_iterations: int = 32, swap_memory: bool = False, time_major: bool = False,
                              scope: Any = None) -> tuple[tuple[Tensor, Tensor], tuple[Any, Any]]:
    """((outputs forwards, outputs backwards), (final states)) of two cells that read in opposite directions, shaped
    as in dynamic_rnn.

    With `sequence_length` [batch] the second cell begins at the last element of each sequence.
    """
    axis = 0 if time_major else 1
    options: dict[str, Any] = {"dtype": dtype, "parallel_iterations": parallel_iterations, "time_major": time_major,
                               "sequence_length": sequence_length}

    def mirrored(x: Any) -> Tensor:
        if sequence_length is None:
            return ops.reverse(x, axis=[axis])
        lengths = ops.cast(convert(sequence_length), "int32")
        return ops.reverse_sequence(x, lengths, seq_axis=axis, batch_axis=1 - axis)

    with variable_scope(scope or "bidirectional_rnn"):
        forwards, last = dynamic_rnn(cell_fw, inputs, initial_state=initial_state_fw, scope="fw", **options)
        backwards, first = dynamic_rnn(cell_bw, mirrored(convert(inputs)), initial_state=initial_state_bw, scope="bw",
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
    lengths = ops.cast(convert(sequence_length), "int32")
    stacked = ops.stack([convert(x) for x in steps])
    return list(ops.unstack(ops.reverse_sequence(stacked, lengths, seq_axis=0, batch_axis=1), len(steps)))
