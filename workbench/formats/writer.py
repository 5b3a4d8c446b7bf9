"""From our graphs to GraphDef: nodes by the twins of operations, names kept, bodies of branches and loops taken apart."""
from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.grad import registered_name
from workbench.core.graph.dtype import DType, as_dtype, resource, variant
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.program import topological
from workbench.core.graph.subgraph import root_graph
from workbench.core.passes.lower import ambient
from workbench.formats import families as _families  # noqa: F401  (fills the tables of twins)
from workbench.formats.definitions import add_functions, described, flat
from workbench.formats.elements import element_dtypes
from workbench.formats.frames import anchor, frames_of
from workbench.formats.messages import message
from workbench.formats.own import tell, write_own
from workbench.formats.sound import MIN_CONSUMER, PRODUCER
from workbench.formats.twins import GRADIENT, exporters
from workbench.formats.values import attr, tensor_proto

__all__ = ["Writer", "function_def", "graph_def", "node_def"]


class Writer:
    """One export: the nodes so far, and the text by which inputs name what was written.

    `reserved` are names that operations to come have, `library` is where functions are written, by default that of `proto`.
    """

    def __init__(self, reserved: Iterable[str] = (), add_shapes: bool = False,
                 inside: dict[Operation, tuple[str, ...]] | None = None, strangers: bool | None = None,
                 library: Any = None) -> None:
        self.proto = message("GraphDef")()
        self.library = self.proto.library if library is None else library
        self.proto.versions.producer, self.proto.versions.min_consumer = PRODUCER, MIN_CONSUMER
        self._taken = {name.lower() for name in reserved}
        self._shapes, self._inside, self._strangers = add_shapes, inside or {}, strangers
        self._outputs: dict[Tensor, str] = {}
        self._operation: Operation | None = None
        self._elements: dict[Tensor, DType] = {}

    def ref(self, tensor: Any) -> str:
        """How an input names `tensor`."""
        if self._operation in self._inside and ambient(tensor.op):
            return self._inside_frame(self._operation, tensor)
        known = self._outputs.get(tensor)
        if known is not None:
            return known
        return tensor.op.name if tensor.index == 0 else f"{tensor.op.name}:{tensor.index}"

    def _inside_frame(self, op: Operation, tensor: Tensor) -> str:
        """A constant or a handle in the frame of `op`, which TensorFlow does not see from inside."""
        if tensor.op.kind == "constant":
            return self.constant(op, tensor.op.name.rpartition("/")[2], tensor.op.attrs["value"], tensor.dtype)
        text = tensor.op.name
        for frame in self._inside[op]:
            name = self.free(f"{op.name}/Enter")
            node = self.proto.node.add(name=name, op="Enter", input=[text], device=tensor.op.device)
            for key, value in (("T", attr("type", tensor.dtype)), ("frame_name", attr("s", frame)),
                               ("is_constant", attr("b", True)), ("parallel_iterations", attr("i", 10))):
                node.attr[key].CopyFrom(value)
            text = name
        return text

    def element(self, listed: Tensor) -> DType:
        """The dtype of the elements of a list."""
        if listed not in self._elements:
            self._elements = element_dtypes(listed.op.graph)
        return self._elements[listed]

    def dtype(self, tensor: Tensor) -> DType:
        """What TensorFlow takes the tensor for: handles of arrays of a step are of dtype variant here."""
        return resource if tensor.dtype is variant and self.element(tensor) is resource else tensor.dtype

    def rename(self, tensor: Tensor, text: str) -> None:
        """`tensor` is output `text` of what was written."""
        self._outputs[tensor] = text

    @contextlib.contextmanager
    def renamed(self, texts: Mapping[Tensor, str]) -> Iterator[None]:
        """Meanwhile these tensors are outputs of what was written."""
        before = self._outputs
        self._outputs = {**before, **texts}
        try:
            yield
        finally:
            self._outputs = before

    def within(self, graph: Graph, library: Any = None) -> Writer:
        """A writer for the operations of a function, which has this one's library, or another."""
        return Writer([op.name for op in graph.operations], inside=frames_of(graph), strangers=self._strangers,
                      library=self.library if library is None else library)

    def write(self, op: Operation) -> None:
        """The nodes of `op`: one of our own where TensorFlow has nothing like it and no stranger's was asked for."""
        found = exporters.get(op.kind)
        if found is None and self._strangers:
            self.node(op, op.kind, [self.ref(t) for t in op.inputs])
            return
        if found is None and self._strangers is None:
            raise errors.UnimplementedError(f"node_def: operation {op.name!r} ({op.kind}) has no counterpart in TensorFlow")
        self._operation, before = op, len(self.proto.node)
        try:
            (found or write_own)(self, op)
        except errors.UnimplementedError:
            if self._strangers is None or found is None:
                raise
            del self.proto.node[before:]      # TensorFlow has the operation, but not with these options
            if self._strangers:
                self.node(op, op.kind, [self.ref(t) for t in op.inputs])
            else:
                write_own(self, op)

    def node(self, op: Operation, kind: str, inputs: Sequence[str], attrs: Mapping[str, Any] | None = None,
             name: str | None = None) -> str:
        """Add a node of TensorFlow's type `kind` for `op`, under its name or another; returns the name."""
        node = self.proto.node.add(name=name or op.name, op=kind, device=op.device)
        node.input.extend(inputs)
        node.input.extend(f"^{c.name}" for c in dict.fromkeys(op.controls) if f"^{c.name}" not in inputs)
        for key, value in (attrs or {}).items():
            node.attr[key].CopyFrom(value)
        if op.colocation:
            node.attr["_class"].list.s.extend(f"loc:@{n}".encode() for n in sorted(op.colocation))
        if name is None and (registered := registered_name(op)):
            node.attr[GRADIENT].s = registered[1].encode()
        if self._shapes and name is None:
            node.attr["_output_shapes"].CopyFrom(attr("list(shape)", [t.shape for t in op.outputs]))
        return str(node.name)

    def aux(self, op: Operation, kind: str, inputs: Sequence[str], attrs: Mapping[str, Any] | None = None,
            name: str | None = None) -> str:
        """Add a further node that `op` needs, under a name of its own below that of `op`."""
        return self.node(op, kind, inputs, attrs, self.free(f"{op.name}/{name or kind}"))

    def constant(self, op: Operation, name: str, value: Any, dtype: Any = None) -> str:
        """A constant that `op` needs."""
        array = np.asarray(value)
        dtype = dtype or as_dtype(array.dtype)
        node = self.proto.node.add(name=self.free(f"{op.name}/{name}"), op="Const", device=op.device)
        if op in self._inside and op.kind != "merge":
            node.input.append(f"^{anchor(op, self._inside)}")
        node.attr["dtype"].CopyFrom(attr("type", dtype))
        node.attr["value"].CopyFrom(attr("tensor", tensor_proto(array, dtype)))
        return str(node.name)

    def free(self, wanted: str) -> str:
        """`wanted`, or with a number behind it."""
        name, count = wanted, 0
        while name.lower() in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name.lower())
        return name


def graph_def(graph: Graph, from_version: int | None = None, add_shapes: bool = False, strangers: bool = False) -> Any:
    """The GraphDef of `graph`, of its operations after the first `from_version` alone where that is given.

    Branches and loops are written with TensorFlow's switch, merge and frames, functions that TensorFlow can read as such.
    What TensorFlow has no operation for becomes a node of our own, which a warning names; with `strangers` nodes of which
    only names and inputs count, for those who look. What our savers have made is left out: an exported meta graph has
    TensorFlow's in its place.
    """
    plain, aliases = flat(graph, Writer(strangers=strangers))
    old = {op.name for op in (*graph.operations[:from_version or 0], *_of_savers(graph))}
    writer = Writer([op.name for op in plain.operations] + [name for name, _ in aliases], add_shapes, frames_of(plain),
                    strangers)
    add_functions(writer, root_graph(graph).held.get("functions", {}).values())
    written = topological([op for op in plain.operations if op.name not in old])
    for op in written:
        writer.write(op)
    if not strangers:
        tell(node.op for node in writer.proto.node)
    for name, tensor in aliases:
        if name not in old:
            _alias(writer, name, tensor)
    return writer.proto


_PINS = {"pin_state", "pin_tensors", "take_snapshot"}      # these are given no path
_ASKS = {"pushes_hold", "pushes_settle", "pushes_forget", "pushes_release"}      # checkpoints, whose first input is a handle
_OF_SAVERS = {"restore", "restore_state", "save", "save_state", "save_tensors", "set_positions", *_PINS, *_ASKS}


def _of_savers(graph: Graph) -> set[Operation]:
    """The operations that save and restore, what only waits for them, and the path that they are given."""
    found = {op for op in graph.operations if op.kind in _OF_SAVERS}
    paths = {t.op for op in found if op.kind not in _PINS for t in op.inputs[op.kind in _ASKS:][:1]}
    for op in graph.operations:
        if any(t.op in found for t in op.inputs) or any(c in found for c in op.controls):
            found.add(op)
    return found | {op for op in paths if all(reader in found for reader in graph.readers(op.outputs[0]))}


def _alias(writer: Writer, name: str, tensor: Tensor) -> None:
    """What a branch or loop gave, under the name that it had."""
    node = writer.proto.node.add(name=name, op="Identity", device=tensor.op.device)
    node.input.append(writer.ref(tensor))
    node.attr["T"].CopyFrom(attr("type", tensor.dtype))


def node_def(op: Operation) -> Any:
    """The NodeDef of one operation."""
    writer = Writer()
    writer.write(op)
    return next(node for node in writer.proto.node if node.name == op.name)


def function_def(function: Any) -> Any:
    """The FunctionDef of a function of nn.functions; UnimplementedError where it uses what TensorFlow has not."""
    return described(function, Writer())
