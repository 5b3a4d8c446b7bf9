"""Views of a part of a graph: its operations, and the tensors that enter and leave it, in an order of the program's own."""
from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.nn.contrib.graph_select import (
    compute_boundary_ts,
    get_name_scope_ops,
    get_unique_graph,
    get_walks_union_ops,
    make_list_of_op,
    make_list_of_t,
    select_ops_and_ts,
)

__all__ = ["SubGraphView", "make_view", "make_view_from_scope"]


class SubGraphView:
    """Some operations of a graph (`ops`), the tensors that they read of others (`inputs`) and those that they give (`outputs`).

    Tensors of `passthrough_ts` that none of the operations reads or makes are inputs and outputs, too. `remap…` give a view
    with inputs left out or in another order (they are "hidden" then), and with outputs repeated; the graph stays as it is. A
    view does not follow changes of its graph, but what edits a graph by a view brings that view up to date.
    """

    def __init__(self, inside_ops: Any = (), passthrough_ts: Any = ()) -> None:
        self._ops = make_list_of_op(inside_ops)
        through = make_list_of_t(passthrough_ts)
        self._graph = get_unique_graph([*self._ops, *through], none_if_empty=True)
        inputs, outputs, inside = compute_boundary_ts(self._ops)
        self._through = [t for t in through if t not in {*inputs, *outputs, *inside}]
        self._inputs, self._outputs = inputs + self._through, outputs + self._through

    @property
    def graph(self) -> Graph:
        """The graph; None of an empty view."""
        return self._graph

    @property
    def ops(self) -> list[Operation]:
        """The operations."""
        return self._ops

    @property
    def inputs(self) -> list[Tensor]:
        """A list of the tensors that enter."""
        return list(self._inputs)

    @property
    def outputs(self) -> list[Tensor]:
        """A list of the tensors that leave."""
        return list(self._outputs)

    @property
    def passthroughs(self) -> list[Tensor]:
        """A list of the tensors that go through without an operation."""
        return list(self._through)

    @property
    def connected_inputs(self) -> list[Tensor]:
        """The inputs that operations read."""
        return [t for t in self._inputs if t not in self._through]

    @property
    def connected_outputs(self) -> list[Tensor]:
        """The outputs that operations give."""
        return [t for t in self._outputs if t not in self._through]

    def __bool__(self) -> bool:
        return self._graph is not None

    def __enter__(self) -> SubGraphView:
        return self

    def __exit__(self, *_error: object) -> None:
        """Nothing ends: the view can be used on."""

    def __str__(self) -> str:
        if not self:
            return "SubGraphView: empty"
        parts = [("ops", [op.name for op in self._ops])] + [
            (title, [t.name + " *" * (t in self._through) for t in ts])
            for title, ts in (("inputs", self._inputs), ("outputs", self._outputs))]
        return f"SubGraphView (graphid={id(self._graph)}):\n" + "".join(
            f"** {title}[{len(names)}]:\n" + "".join(f"  {name}\n" for name in names) if names else f"** {title}: empty\n"
            for title, names in parts)

    def op(self, op_id: int) -> Operation:
        """The operation of that number."""
        return self._ops[op_id]

    def find_op_by_name(self, op_name: str) -> Operation:
        """The operation of that name. ValueError (InvalidArgumentError) where it is not in the view."""
        for op in self._ops:
            if op.name == op_name:
                return op
        raise errors.InvalidArgumentError(f"SubGraphView: {op_name} not in subgraph; see [op.name for op in view.ops]")

    def is_passthrough(self, t: Tensor) -> bool:
        """Does this tensor go through without an operation?"""
        return t in self._through

    def input_index(self, t: Tensor) -> int:
        """The place of a tensor among the inputs. ValueError (InvalidArgumentError) where it is none."""
        return _place(t, self._inputs, "inputs")

    def output_index(self, t: Tensor) -> int:
        """The place of a tensor among the outputs. ValueError (InvalidArgumentError) where it is none."""
        return _place(t, self._outputs, "outputs")

    def consumers(self) -> list[Operation]:
        """The operations that read outputs and are not in the view."""
        inside = set(self._ops)
        return list(dict.fromkeys(op for t in self._outputs for op in t.consumers() if op not in inside))

    # other views of it
    def copy(self) -> SubGraphView:
        """Another view of the same."""
        made = copy.copy(self)
        for name in ("_ops", "_through", "_inputs", "_outputs"):
            setattr(made, name, list(getattr(self, name)))
        return made

    def remap_default(self, remove_input_map: bool = True, remove_output_map: bool = True) -> SubGraphView:
        """With all inputs, with all outputs, each once."""
        made, (inputs, outputs, _) = self.copy(), compute_boundary_ts(self._ops)
        made._inputs = inputs + self._through if remove_input_map else made._inputs
        made._outputs = outputs + self._through if remove_output_map else made._outputs
        return made

    def remap_inputs(self, new_input_indices: Sequence[Any]) -> SubGraphView:
        """With these inputs (numbers or tensors), each at most once; InvalidArgumentError (ValueError) for others."""
        made = self.copy()
        made._inputs = _chosen(self._inputs, new_input_indices, False)
        return made

    def remap_outputs(self, new_output_indices: Sequence[Any]) -> SubGraphView:
        """With these outputs (numbers or tensors), each any number of times; InvalidArgumentError (ValueError) for others."""
        made = self.copy()
        made._outputs = _chosen(self._outputs, new_output_indices, True)
        return made

    def remap(self, new_input_indices: Any = None, new_output_indices: Any = None) -> SubGraphView:
        """remap_inputs and remap_outputs; None leaves them as they are."""
        made = self.copy() if new_input_indices is None else self.remap_inputs(new_input_indices)
        return made if new_output_indices is None else made.remap_outputs(new_output_indices)

    def remap_outputs_make_unique(self) -> SubGraphView:
        """With each output once."""
        return self.remap_outputs(list(dict.fromkeys(self._outputs)))

    def remap_outputs_to_consumers(self) -> SubGraphView:
        """With each output as often as there are operations that read it."""
        return self.remap_outputs([t for t in dict.fromkeys(self._outputs) for _ in t.consumers()])

    def remove_unused_ops(self, control_inputs: bool = True) -> SubGraphView:
        """Without the operations that neither follow from an input nor lead to an output."""
        used = set(get_walks_union_ops(self.connected_inputs, self.connected_outputs, within_ops=self._ops,
                                       control_inputs=control_inputs))
        made = self.copy()
        made._ops = [op for op in self._ops if op in used]
        return made

    def _take_inputs(self, inputs: Sequence[Tensor], through: Sequence[Tensor]) -> None:
        """Have these inputs from now on; outputs that went through are what now enters in their place."""
        self._outputs = [inputs[self._inputs.index(t)] if t in self._through else t for t in self._outputs]
        self._inputs, self._through = list(inputs), list(through)


def _place(t: Tensor, ts: Sequence[Tensor], title: str) -> int:
    if t not in ts:
        raise errors.InvalidArgumentError(f"SubGraphView: Can't find {t.name} in {title} of subgraph; they are "
                                          f"{', '.join(each.name for each in ts) or 'none'}")
    return ts.index(t)


def _chosen(ts: Sequence[Tensor], wanted: Sequence[Any], repeated: bool) -> list[Tensor]:
    places = [each if isinstance(each, int) else _place(each, ts, "tensors") for each in wanted]
    beyond = next((place for place in places if not 0 <= place < len(ts)), None)
    if beyond is not None:
        raise errors.InvalidArgumentError(f"SubGraphView: Out of [0, {len(ts)}[ range: {beyond}; give numbers of its tensors")
    if not repeated and len(set(places)) < len(places):
        raise errors.InvalidArgumentError(f"SubGraphView: Found repetition in mapping: {places}; name each input once")
    return [ts[place] for place in places]


def make_view(*args: Any, graph: Graph | None = None) -> SubGraphView:
    """A view of operations and tensors given alone, in lists, or by expressions in `graph`; a view as it is.

    ValueError (InvalidArgumentError) for parts of a graph other than `graph`.
    """
    single = args[0] if len(args) == 1 else None
    made = single if isinstance(single, SubGraphView) else SubGraphView(*select_ops_and_ts(*args, graph=graph))
    if made and graph is not None and made.graph is not graph:
        raise errors.InvalidArgumentError("make_view: Graph mismatch: the parts belong to another graph; pass that one")
    return made


def make_view_from_scope(scope: str, graph: Graph) -> SubGraphView:
    """A view of the operations in a scope of names."""
    return SubGraphView(get_name_scope_ops(graph, scope))
