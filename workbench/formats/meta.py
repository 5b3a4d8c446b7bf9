"""Meta graphs: a graph with its collections, and the nodes that save and restore its variables; written and read."""
from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Graph, Operation, Tensor, get_default_graph
from workbench.core.graph.subgraph import root_graph
from workbench.formats.assets import ASSETS_KEY
from workbench.formats.contexts import CONTEXTS, add_contexts
from workbench.formats.messages import message, parse_text, text_of
from workbench.formats.mixed import MIXED, add_mixed, take_mixed
from workbench.formats.reader import as_message, import_graph_def, saver_nodes
from workbench.formats.registered import Form, forms
from workbench.formats.scoped import UNBOUND, below, check_bound, cut
from workbench.formats.values import attr, tensor_proto
from workbench.formats.writer import Writer, graph_def
from workbench.nn.blocks import SaveSliceInfo
from workbench.nn.contrib.framework import strip_name_scope
from workbench.nn.variables import GraphKeys, Variable
from workbench.train.saving import saver as native
from workbench.train.saving.pieces import Piece
from workbench.train.sessions.coordinator import QueueRunner

__all__ = ["add_saver", "meta_graph", "queue_runner_def", "queue_runner_from", "read_meta", "variable_def", "variable_from",
           "write_message"]

_log = logging.getLogger("workbench")
_VARIABLES = (GraphKeys.GLOBAL_VARIABLES, GraphKeys.TRAINABLE_VARIABLES, GraphKeys.LOCAL_VARIABLES, GraphKeys.MODEL_VARIABLES,
              GraphKeys.MOVING_AVERAGE_VARIABLES, GraphKeys.METRIC_VARIABLES, GraphKeys.GLOBAL_STEP)
TEXT = np.dtype(object)


# out

def meta_graph(graph: Graph, pieces: Sequence[Piece] = (), collections: Iterable[str] | None = None,
               clear_devices: bool = False, saver: Any = None, scope: str | None = None, nodes: Any = None,
               unbound: str | None = UNBOUND) -> Any:
    """The MetaGraphDef of `graph`, or of a GraphDef `nodes` of it, with `collections` (all) and nodes that save and restore
    `pieces`; of what stands below `scope` alone where that is given (see scoped.cut).
    """
    found = message("MetaGraphDef")()
    found.meta_info_def.tensorflow_version = "1.15.0"
    found.graph_def.CopyFrom(graph_def(graph) if nodes is None else as_message("GraphDef", nodes, "export_meta_graph"))
    known = [key for key in graph.collections if not key.startswith("__")]      # others are what this process keeps there
    wanted = list(known if collections is None else collections)
    for key in wanted:
        if key not in CONTEXTS and key != GraphKeys.SAVERS:
            _add_collection(found, key, graph.get_collection(key), scope)
    if scope:
        cut(found, scope, unbound)
    add_contexts(found, CONTEXTS if collections is None else CONTEXTS & {*wanted})
    if pieces:
        found.saver_def.CopyFrom(add_saver(found.graph_def, pieces, saver))
    if GraphKeys.SAVERS in wanted and not scope:      # outside of which the nodes of savers stand
        _add_savers(found, graph.get_collection(GraphKeys.SAVERS), saver)
    add_mixed(found, graph)
    if clear_devices:
        for node in found.graph_def.node:
            node.device = ""
    return found


def _add_collection(proto: Any, key: str, items: Sequence[Any], scope: str | None) -> None:
    kept = message("CollectionDef")()
    if (told := forms.get(key, Form()).to_proto) is not None:
        try:
            made = [told(item, export_scope=scope) for item in items]
        except Exception as error:      # the program's own function: the graph is written without what it cannot tell
            _log.warning("export_meta_graph: collection %r is left out: %s", key, error)
            return
        kept.bytes_list.value.extend(one.SerializeToString() for one in made if one)
        proto.collection_def[key].CopyFrom(kept)
        return
    for item in items:
        if isinstance(item, Variable) and key not in _VARIABLES:
            kept.node_list.value.append(item.name)
        elif isinstance(item, (Variable, QueueRunner)):
            told = variable_def(item, scope) if isinstance(item, Variable) else queue_runner_def(item, scope)
            if told is not None:
                kept.bytes_list.value.append(told.SerializeToString())
        elif isinstance(item, (Tensor, Operation)):
            kept.node_list.value.append(item.name)
        elif isinstance(item, (str, bytes)):
            kept.bytes_list.value.append(item if isinstance(item, bytes) else item.encode())
        elif isinstance(item, (bool, int, np.integer)):
            kept.int64_list.value.append(int(item))
        elif isinstance(item, (float, np.floating)):
            kept.float_list.value.append(float(item))
        else:
            _log.warning("export_meta_graph: collection %r is left out: it holds a %s, which has no message", key,
                         type(item).__name__)
            return
    if kept.WhichOneof("kind") or not scope:
        proto.collection_def[key].CopyFrom(kept)


def _add_savers(proto: Any, items: Sequence[Any], main: Any) -> None:
    """The SaverDefs of the savers in the collection, with the nodes that they name."""
    kept = proto.collection_def[GraphKeys.SAVERS].bytes_list
    for item in items:
        if item is main and proto.HasField("saver_def"):
            kept.value.append(proto.saver_def.SerializeToString())
        elif isinstance(item, native.Saver):
            kept.value.append(add_saver(proto.graph_def, item._pieces, item).SerializeToString())
        else:
            kept.value.append(as_message("SaverDef", item, "export_meta_graph: the collection 'savers'").SerializeToString())


def _op(item: Any) -> Operation:
    return item.op if isinstance(item, Tensor) else item


def variable_def(variable: Variable, export_scope: str | None = None) -> Any:
    """The VariableDef of a variable, its names without `export_scope`; None for a variable outside of that scope."""
    found = message("VariableDef")(
        variable_name=variable.name, initializer_name=variable.initializer.name, initial_value_name=variable.initial_value.name,
        snapshot_name=variable.__graph_element__().name, is_resource=True, trainable=variable.trainable)
    part = variable._get_save_slice_info()
    if part is not None:
        found.save_slice_info_def.MergeFrom(message("SaveSliceInfoDef")(**{
            **asdict(part), "full_name": strip_name_scope(part.full_name, export_scope)}))
    return below(found, export_scope)


def queue_runner_def(runner: QueueRunner, export_scope: str | None = None) -> Any:
    """The QueueRunnerDef of a runner, its names without `export_scope`; None for a queue outside of that scope."""
    return below(message("QueueRunnerDef")(
        queue_name=runner.name, enqueue_op_name=[_op(o).name for o in runner.enqueue_ops],
        close_op_name=_op(runner.close_op).name, cancel_op_name=_op(runner.cancel_op).name), export_scope)


def add_saver(proto: Any, pieces: Sequence[Piece], saver: Any = None) -> Any:
    """Add nodes that save and restore `pieces` to a GraphDef, as TensorFlow's own savers do; gives their SaverDef."""
    writer = Writer([part for node in proto.node for part in (node.name, node.name.partition("/")[0])])
    writer.proto = proto
    scope = writer.free("save")
    text, variables = as_dtype("string"), [piece.variable for piece in pieces]

    def add(kind: str, name: str, inputs: Sequence[str] = (), **attrs: Any) -> str:
        node = proto.node.add(name=f"{scope}/{name}", op=kind, input=inputs)
        for key, value in attrs.items():
            node.attr[key].CopyFrom(value)
        return str(node.name)

    def words(name: str, items: Sequence[str]) -> str:
        array = np.array([item.encode() for item in items], TEXT)
        return add("Const", name, dtype=attr("type", text), value=attr("tensor", tensor_proto(array, text)))
    model = attr("tensor", tensor_proto(np.array(b"model", TEXT), text))
    path = add("PlaceholderWithDefault", "Const", [add("Const", "filename", dtype=attr("type", text), value=model)],
               dtype=attr("type", text), shape=attr("shape", []))
    names = words("tensor_names", [piece.key for piece in pieces])
    slices = words("shape_and_slices", [piece.block.spec if piece.block else "" for piece in pieces])
    kinds = attr("list(type)", [v.dtype for v in variables])
    reads = [add("ReadVariableOp", f"Read_{i}", [v.op.name], dtype=attr("type", v.dtype)) for i, v in enumerate(variables)]
    saved = add("SaveV2", "SaveV2", [path, names, slices, *reads], dtypes=kinds)
    done = add("Identity", "control_dependency", [path, f"^{saved}"], T=attr("type", text))
    found = add("RestoreV2", "RestoreV2", [path, names, slices], dtypes=kinds)
    assigned = []
    for i, variable in enumerate(variables):
        value = add("Identity", f"Identity_{i}", [f"{found}:{i}" if i else found], T=attr("type", variable.dtype))
        assigned.append(add("AssignVariableOp", f"Assign_{i}", [variable.op.name, value], dtype=attr("type", variable.dtype)))
    restored = add("NoOp", "restore_all", [f"^{name}" for name in assigned])
    return message("SaverDef")(
        filename_tensor_name=f"{path}:0", save_tensor_name=f"{done}:0", restore_op_name=restored, version=2,
        max_to_keep=getattr(saver, "max_to_keep", 5), keep_checkpoint_every_n_hours=getattr(saver, "hours", 10000.0))


def write_message(path: Any, proto: Any, as_text: bool) -> str:
    """Write a message into a file, which appears whole; the folder is made where it is missing."""
    file = Path(os.fsdecode(path))
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.partial")
    partial.write_bytes(text_of(proto).encode() if as_text else proto.SerializeToString())
    os.replace(partial, file)
    return str(file)


# in

def read_meta(meta_graph_or_file: Any, clear_devices: bool = False, import_scope: str | None = None,
              input_map: Mapping[str, Any] | None = None, unbound: str | None = UNBOUND) -> tuple[Any, dict[str, Variable]]:
    """(the MetaGraphDef, variables by their names in it) after its nodes and collections were added to the default graph.

    MissingFileError for a missing file, DamagedFileError for one that is no meta graph, InvalidArgumentError where `input_map`
    lacks what the collection `unbound` names, and the errors of `import_graph_def`.
    """
    proto = _meta(meta_graph_or_file)
    check_bound(proto, input_map or {}, unbound)
    nodes = message("GraphDef")()
    nodes.CopyFrom(proto.graph_def)
    left_out = saver_nodes(nodes)
    if clear_devices:
        for node in nodes.node:
            node.device = ""
    graph = get_default_graph()
    known = len(graph.operations)
    import_graph_def(nodes, input_map, name=import_scope or "")
    added = graph.operations[known:]
    scope = _scope_of(added, [node.name for node in nodes.node if node.name not in left_out])
    variables = _collections(graph, proto, scope, left_out)
    take_mixed(proto, root_graph(), variables)
    return proto, variables


def _meta(given: Any) -> Any:
    if not isinstance(given, (str, os.PathLike)):
        return as_message("MetaGraphDef", given, "import_meta_graph")
    file = Path(os.fsdecode(given))
    if not file.is_file():
        raise errors.MissingFileError(f"import_meta_graph: File {file} does not exist.; Saver.save writes one beside the "
                                      "checkpoint")
    data, where = file.read_bytes(), f"import_meta_graph: {str(file)!r}"
    try:
        return as_message("MetaGraphDef", data, where)
    except errors.DataLossError as error:
        wrong = error
    try:
        if data[:1].isalpha():
            return parse_text("MetaGraphDef", data.decode("utf-8", "replace"), where)
    except errors.DataLossError as error:
        wrong = error
    raise errors.DamagedFileError(f"{wrong.message} (Cannot parse file {file})")


def _scope_of(added: Sequence[Operation], names: Sequence[str]) -> str:
    """What stands before the names of the nodes now; of two that end alike, one was made beside the other and is longer."""
    ends = [op.name for name in names[:1] for op in added if op.name == name or op.name.endswith(f"/{name}")]
    return min(ends, key=len)[: -len(names[0])] if ends else ""


def _collections(graph: Graph, proto: Any, scope: str, left_out: set[str]) -> dict[str, Variable]:
    variables: dict[str, Variable] = {}
    for key, kept in sorted(proto.collection_def.items(), key=lambda item: (item[0] not in _VARIABLES, item[0])):
        kind = kept.WhichOneof("kind")
        values = [] if kind is None else list(getattr(kept, kind).value)
        for value in values:
            if kind == "node_list":
                name, _, output = value.partition(":")
                if name not in left_out:
                    known = variables.get(name) if output else None
                    graph.add_to_collection(key, known or graph.as_graph_element(scope + value))
            elif key in _VARIABLES:
                graph.add_to_collection(key, _variable(graph, value, scope, variables))
            elif key == GraphKeys.QUEUE_RUNNERS:
                graph.add_to_collection(key, _queue_runner(graph, value, scope))
            elif not key.endswith("_context") and key not in (GraphKeys.SAVERS, UNBOUND, ASSETS_KEY, MIXED):
                graph.add_to_collection(key, _object(key, value, scope))
    return variables


def _object(key: str, value: Any, scope: str) -> Any:
    """What stands in a collection for `value`: the object that its bytes tell of, where the program registered how."""
    form = forms.get(key, Form())
    if form.from_proto is None or not isinstance(value, bytes):
        return value
    told = form.proto_type()
    told.ParseFromString(value)
    return form.from_proto(told, import_scope=scope.rstrip("/"))


def _variable(graph: Graph, data: Any, scope: str, known: dict[str, Variable]) -> Variable:
    told = as_message("VariableDef", data, "import_meta_graph: a variable")
    name = told.variable_name.partition(":")[0]
    if name not in known:
        op = graph.operation(scope + name)
        if op.kind != "variable":
            raise errors.InvalidArgumentError(f"import_meta_graph: variable {name!r} is a {op.kind} in the graph; write the "
                                              "meta graph anew")
        known[name] = Variable.of(op, graph.operation(scope + told.initializer_name), graph.tensor(scope + told.snapshot_name),
                                  trainable=told.trainable)
        if told.HasField("save_slice_info_def"):
            part = told.save_slice_info_def
            known[name]._set_save_slice_info(SaveSliceInfo(scope + part.full_name, *map(tuple, (
                part.full_shape, part.var_offset, part.var_shape))))
    return known[name]


def _queue_runner(graph: Graph, data: Any, scope: str) -> QueueRunner:
    told = as_message("QueueRunnerDef", data, "import_meta_graph: a queue runner")
    return QueueRunner(graph.operation(scope + told.queue_name), [graph.operation(scope + n) for n in told.enqueue_op_name],
                       graph.operation(scope + told.close_op_name), graph.operation(scope + told.cancel_op_name))


def variable_from(variable_def: Any, import_scope: str | None = None) -> Variable:
    """The variable of the default graph that a VariableDef names, below `import_scope`; it is put into no collection."""
    return _variable(root_graph(), variable_def, _prefix(import_scope), {})


def queue_runner_from(queue_runner_def: Any, import_scope: str | None = None) -> QueueRunner:
    """A runner of the operations of the default graph that a QueueRunnerDef names, below `import_scope`."""
    return _queue_runner(root_graph(), queue_runner_def, _prefix(import_scope))


def _prefix(scope: str | None) -> str:
    return f"{scope}/" if scope else ""
