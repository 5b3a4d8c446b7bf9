"""Recurrent layers on top of each other in both directions, loops that programs write themselves, states that are kept."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.nest import flatten, map_structure, pack_sequence_as
from workbench.nn.recurrent.rnn import _masked, bidirectional_dynamic_rnn, static_bidirectional_rnn, static_rnn, zeros_of
from workbench.nn.recurrent.rnn_base import RNNCell, sizes_mapped
from workbench.nn.scopes import variable_scope
from workbench.nn.tensor_array import TensorArray

__all__ = ["raw_rnn", "stack_bidirectional_dynamic_rnn", "stack_bidirectional_rnn", "static_state_saving_rnn"]


def _layers(where: str, forwards: Sequence[RNNCell], backwards: Sequence[RNNCell], states_fw: Any, states_bw: Any) -> list[Any]:
    """(cell forwards, cell backwards, their initial states) of each layer."""
    for name, given in (("cells_fw", forwards), ("cells_bw", backwards)):
        if not isinstance(given, (list, tuple)) or not given:
            raise errors.InvalidArgumentError(f"{where}: {name} is {given!r}; give a list of RNNCells (one per layer)")
    lists = {"cells_fw": forwards, "cells_bw": backwards, "initial_states_fw": states_fw, "initial_states_bw": states_bw}
    counts = {name: len(given) for name, given in lists.items() if given is not None}
    if len(set(counts.values())) > 1:
        raise errors.InvalidArgumentError(f"{where}: there are {', '.join(f'{n} {name}' for name, n in counts.items())}; "
                                          "Forward and Backward cells must have the same depth, and as many states")
    nothing = [None] * len(forwards)
    return list(zip(forwards, backwards, states_fw or nothing, states_bw or nothing))


def stack_bidirectional_rnn(cells_fw: Sequence[RNNCell], cells_bw: Sequence[RNNCell], inputs: Sequence[Any],
                            initial_states_fw: Any = None, initial_states_bw: Any = None, dtype: Any = None,
                            sequence_length: Any = None, scope: Any = None) -> tuple[list[Tensor], Any, Any]:
    """(outputs, final states forwards, final states backwards) of layers that each read both directions of the one below.

    `inputs` is a list of [batch, n]; a layer is static_bidirectional_rnn in the scope `cell_0`, `cell_1`, …. States are one for
    each layer. InvalidArgumentError where the lists differ in length.
    """
    found = []
    with variable_scope(scope or "stack_bidirectional_rnn"):
        for number, (fw, bw, first, second) in enumerate(
                _layers("stack_bidirectional_rnn", cells_fw, cells_bw, initial_states_fw, initial_states_bw)):
            with variable_scope(f"cell_{number}") as opened:
                inputs, *states = static_bidirectional_rnn(fw, bw, inputs, first, second, dtype, sequence_length, opened)
            found.append(states)
    forwards, backwards = zip(*found)
    return list(inputs), forwards, backwards


def stack_bidirectional_dynamic_rnn(cells_fw: Sequence[RNNCell], cells_bw: Sequence[RNNCell], inputs: Any,
                                    initial_states_fw: Any = None, initial_states_bw: Any = None, dtype: Any = None,
                                    sequence_length: Any = None, parallel_iterations: int | None = None,
                                    time_major: bool = False, scope: Any = None) -> tuple[Tensor, Any, Any]:
    """stack_bidirectional_rnn by loops of the graph, over floats [batch, time, n] (or time first): outputs [batch, time,
    units of both]."""
    found = []
    with variable_scope(scope or "stack_bidirectional_rnn"):
        for number, (fw, bw, first, second) in enumerate(
                _layers("stack_bidirectional_dynamic_rnn", cells_fw, cells_bw, initial_states_fw, initial_states_bw)):
            with variable_scope(f"cell_{number}"):
                outputs, states = bidirectional_dynamic_rnn(fw, bw, inputs, sequence_length, first, second, dtype,
                                                            parallel_iterations, time_major=time_major)
                inputs = ops.concat(list(outputs), axis=2)
            found.append(states)
    forwards, backwards = zip(*found)
    return inputs, forwards, backwards


def static_state_saving_rnn(cell: RNNCell, inputs: Sequence[Any], state_saver: Any, state_name: Any,
                            sequence_length: Any = None, scope: Any = None) -> tuple[list[Any], Any]:
    """static_rnn that begins with the state `state_saver.state(name)` and ends by `state_saver.save_state(name, state)`,
    before its last output.

    `state_name` is a name, or as many as the cell's state has parts; InvalidArgumentError else.
    """
    names, sizes = flatten(state_name), flatten(cell.state_size)
    if len(names) != len(sizes):
        raise errors.InvalidArgumentError(f"static_state_saving_rnn: state_name has {len(names)} names but the cell's state "
                                          f"{len(sizes)} parts; give one for each")
    start = pack_sequence_as(cell.state_size, [state_saver.state(name) for name in names])
    outputs, state = static_rnn(cell, inputs, start, sequence_length=sequence_length, scope=scope)
    saved = [state_saver.save_state(name, part) for name, part in zip(names, flatten(state))]
    with get_default_graph().control_dependencies(saved):
        outputs[-1] = map_structure(ops.identity, outputs[-1])
    return outputs, state


def raw_rnn(cell: RNNCell, loop_fn: Callable[..., Any], parallel_iterations: int | None = None, swap_memory: bool = False,
            scope: Any = None) -> tuple[Any, Any, Any]:
    """(TensorArrays of what was emitted, final state, final loop state) of a loop that asks `loop_fn` between steps.

    `loop_fn(time int32 scalar, cell output, cell state, loop state)` gives (finished bool [batch], next input, next cell
    state, emitted, next loop state). At time 0 output, state and loop state are None; it gives the first state, an example of
    what will be emitted without the batch (None for the cell's output) and the first loop state. The loop ends when all are
    finished; what is emitted for a finished row is zero, and its state stays.
    """
    with variable_scope(scope or "rnn"):
        zero = ops.constant(0)
        finished, inputs, state, example, kept = loop_fn(zero, None, None, None)
        inputs, state = map_structure(convert, inputs), map_structure(_kept, state)
        emitted = _arrays(cell, example, flatten(state)[0].dtype)
        structure = cell.output_size if example is None else example
        holds = kept is not None

        def body(time: Tensor, finished: Any, inputs: Any, state: Any, arrays: Any, kept: Any) -> Any:
            output, new = cell(inputs, state)
            done, inputs, new, emit, following = loop_fn(time + 1, output, new, kept if holds else None)
            emit = output if emit is None else map_structure(convert, emit)
            emit, new = _masked(finished, zeros_of(emit), emit), _masked(finished, state, map_structure(_kept, new))
            arrays = [array.write(time, value) for array, value in zip(arrays, flatten(emit))]
            return (time + 1, ops.logical_or(finished, done), map_structure(convert, inputs), new, arrays,
                    following if holds and following is not None else kept)

        start = [zero, convert(finished), inputs, state, emitted, kept if holds else ops.constant(0)]
        _, _, _, state, emitted, kept = ops.while_loop(
            lambda _time, finished, *_: ops.logical_not(ops.reduce_all(finished)), body, start,
            parallel_iterations=parallel_iterations or 32)
    return pack_sequence_as(structure, emitted), state, kept if holds else None


def _kept(value: Any) -> Any:
    return value if isinstance(value, TensorArray) else convert(value)


def _arrays(cell: RNNCell, example: Any, dtype: Any) -> list[TensorArray]:
    """An array for each part of what will be emitted."""
    if example is None:
        return [TensorArray(dtype, 0, dynamic_size=True) for _ in sizes_mapped(cell.output_size, 1)]
    return [TensorArray(convert(part).dtype, 0, dynamic_size=True) for part in flatten(example)]
