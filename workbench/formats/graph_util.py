"""Graphs as data, changed as data: parts, variables as constants, without what only training needs; files of graphs."""
from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Graph
from workbench.formats.messages import message, parse_text, text_of
from workbench.formats.reader import as_message
from workbench.formats.values import array_of, attr, dtype_of_number, tensor_proto
from workbench.formats.writer import graph_def as written

__all__ = ["convert_variables_to_constants", "extract_sub_graph", "must_run_on_cpu", "read_graph", "remove_training_nodes",
           "tensor_shape_from_node_def_name", "write_graph"]

_VARIABLES = ("VariableV2", "Variable", "VarHandleOp")
_PASSING = ("Enter", "Identity", "Switch")      # they give what they take, a handle or a value


def _node_name(text: str) -> str:
    return text.removeprefix("^").partition(":")[0]


def extract_sub_graph(graph_def: Any, dest_nodes: Sequence[str]) -> Any:
    """The part of a GraphDef that the nodes named in `dest_nodes` need."""
    if isinstance(dest_nodes, str):
        raise TypeError(f"extract_sub_graph: dest_nodes is the text {dest_nodes!r}; pass a list of names")
    graph_def = as_message("GraphDef", graph_def, "extract_sub_graph")
    nodes = {node.name: node for node in graph_def.node}
    for name in dest_nodes:
        if name not in nodes:
            raise AssertionError(f"{name} is not in graph")      # TensorFlow's text, which programs match on
    keep, stack = set[str](), list(dest_nodes)
    while stack:
        name = stack.pop()
        if name not in keep and name in nodes:
            keep.add(name)
            stack += [_node_name(text) for text in nodes[name].input]
    found = message("GraphDef")(versions=graph_def.versions)
    found.node.extend(node for node in graph_def.node if node.name in keep)
    found.library.CopyFrom(graph_def.library)
    return found


def convert_variables_to_constants(sess: Any, input_graph_def: Any, output_node_names: Sequence[str],
                                   variable_names_whitelist: Iterable[str] | None = None,
                                   variable_names_blacklist: Iterable[str] | None = None) -> Any:
    """A GraphDef of what the outputs need, in which variables (of the whitelist, none of the blacklist) are constants.

    Their values are those in `sess` now.
    """
    part = extract_sub_graph(input_graph_def, output_node_names)
    chosen = [node.name for node in part.node if node.op in _VARIABLES
              and (variable_names_whitelist is None or node.name in set(variable_names_whitelist))
              and node.name not in set(variable_names_blacklist or ())]
    values = _values(sess, chosen)
    handles = {node.name: node.attr["dtype"] for node in part.node if node.op == "VarHandleOp" and node.name in values}
    found = message("GraphDef")(versions=part.versions, library=part.library)
    for node in part.node:
        new = found.node.add()
        if node.name in values:
            dtype = dtype_of_number(node.attr["dtype"].type, node.name)
            new.name, new.op, new.device = node.name, "Const", node.device
            new.attr["dtype"].CopyFrom(attr("type", dtype))
            new.attr["value"].CopyFrom(attr("tensor", tensor_proto(values[node.name], dtype)))
        elif node.input and (kind := handles.get(_node_name(node.input[0]))) is not None:
            _read_constant(new, node, found, kind)
            if node.op in _PASSING:
                handles[node.name] = kind
        else:
            new.CopyFrom(node)
    return found


def _values(sess: Any, names: Sequence[str]) -> Mapping[str, Any]:
    if not names:
        return {}
    graph = sess.graph
    with graph.as_default(), graph.name_scope(None), graph.control_dependencies(None):
        reads = [_read(graph.operation(name)) for name in names]
    return dict(zip(names, sess.run(reads)))


def _read(variable: Any) -> Any:
    known = next((op for op in variable.graph.readers(variable.outputs[0]) if op.kind == "read_variable"
                  and not op.controls), None)
    if known is not None:
        return known.outputs[0]
    return ops.read_variable(variable.outputs[0], dtype=variable.attrs["dtype"], shape=variable.attrs["shape"])


def _read_constant(new: Any, node: Any, found: Any, dtype: Any) -> None:
    """What read a variable reads a constant, whose type is `dtype`; what took it into a loop or branch takes its value."""
    if node.op in _PASSING:
        new.CopyFrom(node)
        new.attr["T"].CopyFrom(dtype)
    elif node.op == "ReadVariableOp":
        new.CopyFrom(message("NodeDef")(name=node.name, op="Identity", input=node.input, device=node.device))
        new.attr["T"].CopyFrom(node.attr["dtype"])
    elif node.op == "ResourceGather":
        axis = found.node.add(name=f"{node.name}/axis", op="Const", device=node.device)
        axis.attr["dtype"].CopyFrom(attr("type", as_dtype("int32")))
        axis.attr["value"].CopyFrom(attr("tensor", tensor_proto(np.int32(0), as_dtype("int32"))))
        new.CopyFrom(message("NodeDef")(name=node.name, op="GatherV2", device=node.device,
                                        input=[*node.input[:2], axis.name, *node.input[2:]]))
        for key, value in (("Tparams", node.attr["dtype"]), ("Tindices", node.attr["Tindices"]), ("Taxis", axis.attr["dtype"])):
            new.attr[key].CopyFrom(value)
    else:
        raise errors.UnimplementedError(f"convert_variables_to_constants: node {node.name!r} ({node.op}) changes or passes on "
                                        f"variable {node.input[0]!r}; leave it out of what the outputs need, or put the "
                                        "variable on the blacklist")


def remove_training_nodes(input_graph: Any, protected_nodes: Sequence[str] | None = None) -> Any:
    """A GraphDef without checks of numbers, and without copies (Identity) that nobody needs; their readers read the origin."""
    input_graph = as_message("GraphDef", input_graph, "remove_training_nodes")
    protected = set(protected_nodes or ())
    held = {_node_name(text) for node in input_graph.node for text in node.input if text.startswith("^")}
    gone = {node.name: node.input[0] for node in input_graph.node
            if node.op in ("CheckNumerics", "Identity") and node.name not in protected | held
            and len(node.input) == 1 and not node.input[0].startswith("^")}

    def origin(text: str) -> str:
        while _node_name(text) in gone and not text.startswith("^"):
            text = gone[_node_name(text)]
        return text
    found = message("GraphDef")(versions=input_graph.versions, library=input_graph.library)
    for node in input_graph.node:
        if node.name not in gone:
            new = found.node.add()
            new.CopyFrom(node)
            new.input[:] = [origin(text) for text in node.input]
    return found


def tensor_shape_from_node_def_name(graph: Graph, input_name: str) -> Any:
    """The static shape of a tensor by its name as an input of a node."""
    return graph.tensor(input_name if ":" in input_name else f"{input_name}:0").shape


def must_run_on_cpu(node: Any, pin_variables_on_cpu: bool = False) -> bool:
    """Has a node no kernel but the CPU's: variables where asked for, text, and int32 as they are on devices?"""
    proto = node.node_def if hasattr(node, "node_def") else node
    if proto.op in _VARIABLES:
        return pin_variables_on_cpu
    kinds = [proto.attr[key].type for key in ("T", "dtype") if key in proto.attr]
    if proto.op == "Const":
        return kinds[-1] == 7 or array_of(proto.attr["value"].tensor, proto.name).dtype == np.int32
    return 7 in kinds


# files

def write_graph(graph_or_graph_def: Any, logdir: Any, name: str, as_text: bool = True) -> str:
    """Write a graph into a folder, which is made where it is missing: as text (.pbtxt), or as bytes. Gives the path."""
    graph = graph_or_graph_def
    proto = written(graph) if isinstance(graph, Graph) else (
        graph if hasattr(graph, "DESCRIPTOR") else as_message("GraphDef", graph, "write_graph"))
    folder = Path(os.fsdecode(logdir))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name      # which may be in a folder of its own
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(text_of(proto).encode() if as_text else proto.SerializeToString())
    os.replace(partial, path)      # whoever reads meanwhile finds the old one whole
    return str(path)


def read_graph(path: Any) -> Any:
    """The GraphDef of a file, text or bytes. NotFoundError, DataLossError."""
    file = Path(os.fsdecode(path))
    if not file.is_file():
        raise errors.NotFoundError(f"read_graph: there is no file {str(file)!r}; write_graph makes one")
    data = file.read_bytes()
    if file.suffix in (".pbtxt", ".txt"):
        return parse_text("GraphDef", data.decode("utf-8", "replace"), f"read_graph: {str(file)!r}")
    return as_message("GraphDef", data, f"read_graph: {str(file)!r}")
