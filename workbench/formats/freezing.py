"""What tensorflow.python.tools did with files of graphs: freeze them with a checkpoint, strip them, look into checkpoints."""
from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph
from workbench.core.run.session import Session
from workbench.formats import saved_model
from workbench.formats.folders import NewCheckpointReader, checkpoint_exists
from workbench.formats.graph_util import convert_variables_to_constants, extract_sub_graph, remove_training_nodes
from workbench.formats.messages import message, parse_text
from workbench.formats.reader import as_message, import_graph_def
from workbench.formats.values import attr, dtype_of_number

__all__ = ["freeze_graph", "freeze_graph_with_def_protos", "optimize_for_inference", "print_tensors_in_checkpoint_file",
           "strip_unused", "strip_unused_from_files"]


def _read(kind: str, path: Any, binary: bool) -> Any:
    """A message of a file, as text unless `binary`. NotFoundError, DataLossError."""
    file = Path(os.fsdecode(path))
    if not file.is_file():
        raise errors.NotFoundError(f"freeze_graph: Input file {str(file)!r} does not exist!")
    data = file.read_bytes()
    return as_message(kind, data, str(file)) if binary else parse_text(kind, data.decode("utf-8", "replace"), str(file))


def freeze_graph(input_graph: Any, input_saver: Any, input_binary: bool, input_checkpoint: Any, output_node_names: str,
                 restore_op_name: Any, filename_tensor_name: Any, output_graph: Any, clear_devices: bool,
                 initializer_nodes: str, variable_names_whitelist: str = "", variable_names_blacklist: str = "",
                 input_meta_graph: Any = None, input_saved_model_dir: Any = None, saved_model_tags: str = "serve") -> Any:
    """freeze_graph_with_def_protos of files: a GraphDef, a MetaGraphDef, or a SavedModel with its tags, "a,b".

    `input_saver` need not be given: all variables of the checkpoint are restored. NotFoundError for a missing file.
    """
    graph = _read("GraphDef", input_graph, input_binary) if input_graph and not input_saved_model_dir else None
    meta = _read("MetaGraphDef", input_meta_graph, input_binary) if input_meta_graph else None
    saver = _read("SaverDef", input_saver, input_binary) if input_saver else None
    return freeze_graph_with_def_protos(
        graph, saver, input_checkpoint, output_node_names, restore_op_name, filename_tensor_name, output_graph, clear_devices,
        initializer_nodes, variable_names_whitelist, variable_names_blacklist, meta, input_saved_model_dir,
        saved_model_tags.split(",") if saved_model_tags else [])


def freeze_graph_with_def_protos(input_graph_def: Any, input_saver_def: Any, input_checkpoint: Any, output_node_names: str,
                                 restore_op_name: Any, filename_tensor_name: Any, output_graph: Any, clear_devices: bool,
                                 initializer_nodes: str, variable_names_whitelist: str = "", variable_names_blacklist: str = "",
                                 input_meta_graph_def: Any = None, input_saved_model_dir: Any = None,
                                 saved_model_tags: Sequence[str] | None = None) -> Any:
    """A GraphDef of what the outputs "a,b" need, with the variables of a checkpoint as constants; written to `output_graph`.

    The operations "x,y" of `initializer_nodes` run after the checkpoint was restored. How nodes of savers are called does not
    matter. Gives -1, and says why, without a checkpoint or outputs, as TensorFlow does.
    """
    if not input_saved_model_dir and not checkpoint_exists(input_checkpoint):
        print(f"Input checkpoint '{input_checkpoint}' doesn't exist!")
        return -1
    if not output_node_names:
        print("You need to supply the name of a node to --output_node_names.")
        return -1
    with Graph().as_default() as graph, Session(graph=graph) as session:
        if input_saved_model_dir:
            proto = saved_model.load(session, list(saved_model_tags or ()), input_saved_model_dir).graph_def
        else:
            proto = input_graph_def if input_meta_graph_def is None else input_meta_graph_def.graph_def
            for node in proto.node if clear_devices else ():
                node.device = ""
            import_graph_def(proto, name="")
            _restore(session, input_checkpoint)
            for name in (initializer_nodes or "").split(","):
                if name:
                    session.run(graph.operation(name))
        listed = [names.split(",") if names else None for names in (variable_names_whitelist, variable_names_blacklist)]
        found = convert_variables_to_constants(session, proto, output_node_names.split(","), *listed)
    if output_graph:
        Path(os.fsdecode(output_graph)).write_bytes(found.SerializeToString())
    return found


def _restore(session: Session, path: Any) -> None:
    """Give the variables of the session's graph, which has no record of them, their values in a checkpoint."""
    reader, graph = NewCheckpointReader(path), session.graph
    for key in reader.get_variable_to_shape_map():
        if graph.has(key) and graph.operation(key).kind == "variable":
            session.run(ops.assign(graph.operation(key).outputs[0], reader.get_tensor(key)).op)


def strip_unused(input_graph_def: Any, input_node_names: Sequence[str], output_node_names: Sequence[str],
                 placeholder_type_enum: Any) -> Any:
    """A GraphDef of what the outputs need of the inputs, which become placeholders of a dtype, or of one each.

    ValueError for the name of a tensor, KeyError for an input that is not there.
    """
    types = list(placeholder_type_enum) if isinstance(placeholder_type_enum, (list, tuple)) else [
        placeholder_type_enum] * len(input_node_names)
    if any(":" in name for name in input_node_names):
        raise errors.InvalidArgumentError(f"strip_unused: Name among {list(input_node_names)} appears to refer to a "
                                          "Tensor, not a Operation.")
    wanted = dict(zip(input_node_names, types))
    found = message("GraphDef")(versions=input_graph_def.versions, library=input_graph_def.library)
    for node in input_graph_def.node:
        new = found.node.add()
        if node.name not in wanted:
            new.CopyFrom(node)
            continue
        new.name, new.op = node.name, "Placeholder"
        new.attr["dtype"].CopyFrom(attr("type", dtype_of_number(int(wanted.pop(node.name)), node.name)))
        for key in ("_output_shapes", "shape"):
            if key in node.attr:
                new.attr[key].CopyFrom(node.attr[key])
    if wanted:
        raise KeyError(f"The following input nodes were not found: {sorted(wanted)}")
    return extract_sub_graph(found, list(output_node_names))


def strip_unused_from_files(input_graph: Any, input_binary: bool, output_graph: Any, output_binary: bool, input_node_names: str,
                            output_node_names: str, placeholder_type_enum: Any) -> None:
    """strip_unused from a file into another; the names as "a,b"."""
    found = strip_unused(_read("GraphDef", input_graph, input_binary), input_node_names.split(","),
                         output_node_names.split(","), placeholder_type_enum)
    Path(os.fsdecode(output_graph)).write_bytes(found.SerializeToString() if output_binary else str(found).encode())


def optimize_for_inference(input_graph_def: Any, input_node_names: Sequence[str], output_node_names: Sequence[str],
                           placeholder_type_enum: Any) -> Any:
    """strip_unused without checks and copies. Batch normalization is not folded: steps are fused when the graph runs."""
    stripped = strip_unused(input_graph_def, input_node_names, output_node_names, placeholder_type_enum)
    return remove_training_nodes(stripped, list(output_node_names))


def print_tensors_in_checkpoint_file(file_name: Any, tensor_name: str | None, all_tensors: bool,
                                     all_tensor_names: bool = False) -> None:
    """Print the tensor `tensor_name` of a checkpoint; all of them; or their names, and without any their shapes."""
    reader = NewCheckpointReader(file_name)
    if all_tensors or all_tensor_names:
        for key in sorted(reader.get_variable_to_shape_map()):
            print("tensor_name: ", key)
            if all_tensors:
                print(reader.get_tensor(key))
    elif tensor_name:
        print("tensor_name: ", tensor_name)
        print(reader.get_tensor(tensor_name))
    else:
        print(reader.debug_string().decode("utf-8"))
