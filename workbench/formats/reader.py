"""From GraphDef to our graphs: every node checked and built by its twin, under its name; nothing is left behind by an error."""
from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph import device as devices
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import resource, variant
from workbench.core.graph.graph import Graph, Operation, Tensor, get_default_graph
from workbench.core.graph.shape import Shape
from workbench.core.ops.flow import set_back_edge
from workbench.formats import families as _families  # noqa: F401  (fills the tables of twins)
from workbench.formats.arrays import as_lists
from workbench.formats.functions import inlined
from workbench.formats.gates import Gates
from workbench.formats.loops import raise_loops
from workbench.formats.messages import decode, message
from workbench.formats.own import importer
from workbench.formats.sound import UnknownOperationError, check_graph, check_type
from workbench.formats.twins import GRADIENT, Node

__all__ = ["as_message", "create_operation", "import_graph_def", "saver_nodes"]

_SAVERS = {"SaveV2", "RestoreV2", "Save", "SaveSlices", "Restore", "RestoreSlice", "ShardedFilename", "ShardedFilespec",
           "MergeV2Checkpoints", "DisableCopyOnRead"}
_PARTS = "composed"      # below a node's name: the operations that it takes, where it takes more than one


def as_message(name: str, value: Any, where: str) -> Any:
    """`value` as our message `name`: one already, one of another protobuf pool, or bytes."""
    if isinstance(value, message(name)):
        return value
    if hasattr(value, "SerializeToString"):
        value = value.SerializeToString()
    if not isinstance(value, (bytes, bytearray)):
        raise TypeError(f"{where}: {value!r} is a {type(value).__name__}; pass a {name}, or its bytes")
    return decode(name, bytes(value), where)


def import_graph_def(graph_def: Any, input_map: Mapping[str, Any] | None = None,
                     return_elements: Sequence[str] | None = None, name: str | None = None, op_dict: Any = None,
                     producer_op_list: Any = None) -> list[Any] | None:
    """Add the nodes of a GraphDef (a message or its bytes) to the default graph, below the scope `name` ("import").

    `input_map` replaces outputs of nodes ("x:0", "x", or "^x" for a control input) by tensors of this graph. Returns the
    tensors ("y:0") and operations ("y") that `return_elements` names, None without it. Nothing runs while a graph is imported.
    Nodes that save and restore checkpoints are left out: `train.Saver` makes ours. Calls of functions become copies of them,
    and loops of Enter and Exit our `while`, where nothing inside of them is asked for.
    Raises UnimplementedError for operations that are not offered, InvalidArgumentError for a graph that is none, DataLossError
    for damaged bytes; the graph is as before then.
    """
    if input_map is not None and not isinstance(input_map, Mapping):
        raise TypeError("import_graph_def: input_map must be a dictionary mapping strings to Tensor objects.")
    if any(not isinstance(text, (str, bytes)) for text in return_elements or ()):
        raise TypeError("import_graph_def: return_elements must be a list of strings.")
    given = {_text(key): value for key, value in (input_map or {}).items()}
    wanted = None if return_elements is None else [_text(text) for text in return_elements]
    proto = as_message("GraphDef", graph_def, "import_graph_def")
    check_graph(proto)
    proto = _without_savers(inlined(proto))
    proto = as_lists(proto, {_tensor_name(text) for text in (*given, *(wanted or ()))})
    graph = get_default_graph()
    scope = graph.unique_name(name or "import") + "/" if name != "" else graph.scope
    shapes: dict[str, Shape] = {}
    for _ in range(len(proto.node) + 1):      # at most once for each merge
        attempt = _Import(graph, proto, given, scope, shapes)
        before = len(graph.operations)
        try:
            found = attempt.run(wanted)
        except _MoreGeneral as wider:
            graph.drop_last(len(graph.operations) - before)
            shapes[wider.node] = wider.shape
        except BaseException:
            graph.drop_last(len(graph.operations) - before)
            raise
        else:
            raise_loops(graph, before, [each.op if isinstance(each, Tensor) else each for each in found or ()])
            return found
    raise errors.InternalError("import_graph_def: shapes of loop variables do not settle; please report")


def create_operation(graph: Graph, kind: str, inputs: Sequence[Any], name: str | None = None,
                     attrs: Mapping[str, Any] | None = None) -> Operation:
    """Add one operation of TensorFlow's type `kind` with attributes as AttrValue messages; below a name that ends in "/" it is
    called just so. UnimplementedError for a type that is not offered."""
    if importer(kind) is None:
        raise errors.UnimplementedError(f"create_op: operation type {kind!r} is not offered; use a function of this module")
    with graph.as_default():
        full = name[:-1] if name and name.endswith("/") else graph.unique_name(name or kind)
        proto = message("NodeDef")(name=full, op=kind)
        for key, value in (attrs or {}).items():
            proto.attr[key].CopyFrom(as_message("AttrValue", value, "create_op"))
        with graph.name_scope(f"{full}/{_PARTS}/"):
            _outputs(graph, Node(proto, full, [convert(x) for x in inputs]))
        return graph.operation(full)


def _outputs(graph: Graph, node: Node) -> tuple[list[Tensor], tuple[Operation, ...]]:
    """What the twin of a node builds: its outputs, and the operations that make them."""
    found = importer(node.proto.op)(node)
    outputs = [] if isinstance(found, Operation) else list(found) if isinstance(found, (list, tuple)) else [found]
    own = tuple(dict.fromkeys(t.op for t in outputs)) or ((found,) if isinstance(found, Operation) else ())
    if outputs and not graph.has(node.name) and outputs[0].op.kind not in ("variable",):
        outputs[0] = ops.identity(outputs[0], name=node.exact)      # a composition ends under the node's name
        own = (outputs[0].op, *own)
    return outputs, own


def saver_nodes(proto: Any) -> set[str]:
    """The nodes that save and restore, all that wait for them, and what in their name scopes serves nobody else."""
    found = {node.name for node in proto.node if node.op in _SAVERS}
    before = -1
    while len(found) != before:
        before = len(found)
        found |= {node.name for node in proto.node
                  if any(text.removeprefix("^").partition(":")[0] in found for text in node.input)}
    scopes = {name.rpartition("/")[0] for name in found}
    readers: dict[str, set[str]] = {}
    for node in proto.node:
        for text in node.input:
            readers.setdefault(text.removeprefix("^").partition(":")[0], set()).add(node.name)
    before = -1
    while len(found) != before:
        before = len(found)
        found |= {name for name, users in readers.items() if users <= found and name.rpartition("/")[0] in scopes}
    return found


def _without_savers(proto: Any) -> Any:
    left_out = saver_nodes(proto)
    if not left_out:
        return proto
    found = message("GraphDef")(versions=proto.versions, library=proto.library)
    found.node.extend(node for node in proto.node if node.name not in left_out)
    return found


class _MoreGeneral(Exception):
    """A loop changes the shape of a variable: the merge has to know the more general one from the start."""

    def __init__(self, node: str, shape: Shape) -> None:
        self.node, self.shape = node, shape


class _Import:
    def __init__(self, graph: Graph, proto: Any, input_map: dict[str, Any], scope: str, shapes: dict[str, Shape]) -> None:
        self.graph, self.proto, self.scope, self.shapes = graph, proto, scope, shapes
        self.nodes = _named(proto)
        self.given = {_tensor_name(key): value for key, value in input_map.items()}
        self.unused = dict.fromkeys(self.given, True)
        self.outputs: dict[str, list[Tensor]] = {}
        self.operations: dict[str, tuple[Operation, ...]] = {}
        self.gates = Gates()

    def run(self, wanted: Sequence[str] | None) -> list[Any] | None:
        self._check_types()
        order = self._order()
        with self.graph.name_scope(self.scope or None):
            for proto in order:
                self._build(proto)
            self._close_loops()
        missing = [key for key, left in self.unused.items() if left and not self._known(key)]
        if missing:
            raise errors.InvalidArgumentError("import_graph_def: input_map names what no node gives or reads; give names of "
                                              f"tensors; not found in graph_def: [{', '.join(missing)}]")
        return None if wanted is None else [self._element(text) for text in wanted]

    def _known(self, key: str) -> bool:
        """Is it an output of a node, or a node that others may wait for?"""
        if key.startswith("^"):
            return key[1:] in self.nodes
        name, _, index = key.rpartition(":")
        return name in self.nodes and int(index) < max(1, len(self.outputs.get(name, ())))

    def _check_types(self) -> None:
        unknown: dict[str, str] = {}
        for proto in self.proto.node:
            if importer(proto.op) is None:
                unknown.setdefault(proto.op, proto.name)
        if unknown:
            listed = ", ".join(f"{op} (node {name!r})" for op, name in sorted(unknown.items()))
            raise UnknownOperationError(f"import_graph_def: not offered: {listed}; extract the part that does without "
                                        "(graph_util.extract_sub_graph), or give input_map (No op named "
                                        f"{min(unknown)} in defined operations.)")

    def _order(self) -> list[Any]:
        """The nodes, each after those it reads; what comes back to a merge is left for later."""
        waiting, after = {}, dict[str, list[str]]()
        for proto in self.proto.node:
            before = {source for text in proto.input if (source := self._source(proto, text)) is not None}
            waiting[proto.name] = len(before)
            for source in before:
                after.setdefault(source, []).append(proto.name)
        ready = [proto.name for proto in reversed(self.proto.node) if not waiting[proto.name]]
        order = []
        while ready:
            name = ready.pop()
            order.append(self.nodes[name])
            for later in reversed(after.get(name, ())):
                waiting[later] -= 1
                if not waiting[later]:
                    ready.append(later)
        if len(order) < len(self.nodes):
            left = sorted(name for name, count in waiting.items() if count)
            raise errors.InvalidArgumentError(f"import_graph_def: nodes {', '.join(left[:5])} wait for each other in a circle; "
                                              "only a Merge may read what comes later, through a NextIteration")
        return order

    def _source(self, proto: Any, text: str) -> str | None:
        """The node that must come before `proto` because of its input `text`; None when nothing must."""
        name = _tensor_name(text)
        if name in self.given:
            return None
        source = name.lstrip("^").rpartition(":")[0] if not name.startswith("^") else name[1:]
        if source not in self.nodes:
            what = "Control input" if name.startswith("^") else "Input tensor"
            raise errors.InvalidArgumentError(f"import_graph_def: node {proto.name!r} reads {text!r}, but there is no node "
                                              f"{source!r} ({what} {text!r} not found); the graph is incomplete, or input_map "
                                              "is missing")
        if proto.op in ("Merge", "RefMerge") and self.nodes[source].op in ("NextIteration", "RefNextIteration"):
            return None
        return source

    # one node
    def _build(self, proto: Any) -> None:
        build = importer(proto.op)
        data = [text for text in proto.input if not text.startswith("^")]
        title = self.scope + proto.name
        if self.graph.has(title):      # of the program, or of an import before
            title = self.graph.unique_name(proto.name, mark_as_used=False)
        controls = [op for text in proto.input if text.startswith("^") for op in self._controls(text)]
        controls += self.gates.of(name for text in data if (name := _tensor_name(text)) not in self.given)
        with contextlib.ExitStack() as scopes:
            scopes.enter_context(self.graph.control_dependencies(controls))
            scopes.enter_context(self.graph.device(_device(proto)))
            self._colocate(scopes, proto)
            scopes.enter_context(self.graph.name_scope(f"{title}/{_PARTS}/"))
            inputs: list[Tensor] = []
            for position, text in enumerate(data):
                inputs.append(self._input(proto, text, inputs, position < getattr(build, "handles", 0)))
            node = Node(proto, title, inputs, self.proto.versions.producer, self.shapes.get(proto.name))
            check_type(node)
            start = len(self.graph.operations)
            try:
                outputs, own = _outputs(self.graph, node)
                own += self.gates.opened(node, outputs)
            except errors.Error as error:
                if error.message.startswith("import_graph_def"):
                    raise
                raise type(error)(f"{node.where}: {error.message}") from None
            except (TypeError, ValueError, LookupError) as error:      # attributes of a kind that no builder expects
                raise errors.InvalidArgumentError(f"{node.where}: its inputs or attributes do not fit ({error}); write the "
                                                  "graph anew") from None
        if "_output_shapes" in proto.attr and len(outputs) == 1 and outputs[0].dtype not in (resource, variant):
            outputs[0].set_shape(node.attr("_output_shapes")[0])
        self.outputs[proto.name] = outputs
        self.operations[proto.name] = tuple(op for op in own if op.id >= start)
        if GRADIENT in proto.attr:
            for op in self.operations[proto.name][:1]:
                op.overrides = {op.kind: proto.attr[GRADIENT].s.decode()}

    def _input(self, proto: Any, text: str, before: list[Tensor], handle: bool) -> Tensor:
        name = _tensor_name(text)
        if name in self.given:
            self.unused[name] = False
            found = self.given[name]
            return found if isinstance(found, Tensor) else convert(found)
        source, _, index = name.rpartition(":")
        if source not in self.outputs:      # what comes back to a merge: until it exists the first input stands for it
            return before[0]
        outputs = self.outputs[source]
        if int(index) >= len(outputs):
            raise errors.InvalidArgumentError(f"import_graph_def: node {proto.name!r} reads {text!r}, but {source!r} "
                                              f"({self.nodes[source].op}) has {len(outputs)} outputs (Input tensor {text!r} "
                                              "not found)")
        found = outputs[int(index)]
        if found.op.kind == "variable" and not handle:
            return _value(found, "read")
        return found

    def _controls(self, text: str) -> Sequence[Operation]:
        if text in self.given:
            self.unused[text] = False
            given = self.given[text]
            return [given.op if isinstance(given, Tensor) else given]
        return self.operations[text[1:]]

    def _colocate(self, scopes: contextlib.ExitStack, proto: Any) -> None:
        if "_class" not in proto.attr:
            return
        for text in proto.attr["_class"].list.s:
            target = text.decode().removeprefix("loc:@")
            if self.operations.get(target):
                scopes.enter_context(self.graph.colocate_with(self.operations[target][0]))

    def _close_loops(self) -> None:
        for proto in self.proto.node:
            if proto.op not in ("Merge", "RefMerge"):
                continue
            merge = self.outputs[proto.name][0]
            data = [t for t in proto.input if not t.startswith("^")]
            for position, text in enumerate(data):
                source, _, index = _tensor_name(text).rpartition(":")
                if source in self.nodes and self.nodes[source].op in ("NextIteration", "RefNextIteration"):
                    back = self.outputs[source][int(index)]
                    common = merge.shape.common(back.shape)
                    if common != merge.shape:
                        raise _MoreGeneral(_tensor_name(data[0]).rpartition(":")[0], common)
                    set_back_edge(merge, back, position)

    def _element(self, text: str) -> Any:
        name, colon, index = text.partition(":")
        if name not in self.nodes:
            raise errors.InvalidArgumentError(f"import_graph_def: return_elements names {text!r}, but there is no node "
                                              f"{name!r}: return_element {text!r} not found in graph_def.")
        if not colon:
            return self.graph.operation(self.scope + name)
        outputs = self.outputs[name]
        if not index.isdigit() or int(index) >= len(outputs):
            raise errors.InvalidArgumentError(f"import_graph_def: return_elements names {text!r}, but {name!r} has "
                                              f"{len(outputs)} outputs: return_element {text!r} not found in graph_def.")
        return outputs[int(index)]


def _named(proto: Any) -> dict[str, Any]:
    nodes = {node.name: node for node in proto.node}
    if len(nodes) < len(proto.node):
        names = [node.name for node in proto.node]
        twice = next(name for name in names if names.count(name) > 1)
        raise errors.InvalidArgumentError(f"import_graph_def: two nodes are called {twice!r}; names must differ")
    return nodes


def _text(text: str | bytes) -> str:
    return text.decode() if isinstance(text, bytes) else text


def _tensor_name(text: str) -> str:
    if text.startswith("^"):
        return text
    return text if text.rpartition(":")[2].isdigit() and ":" in text else f"{text}:0"


def _device(proto: Any) -> str:
    try:
        devices.parse(proto.device)
    except errors.Error as error:
        raise errors.InvalidArgumentError(f"import_graph_def: node {proto.name!r}: {error.message}") from None
    return str(proto.device)


def _value(handle: Tensor, name: str) -> Tensor:
    attrs = handle.op.attrs
    return ops.read_variable(handle, dtype=attrs["dtype"], shape=attrs["shape"], name=name)
