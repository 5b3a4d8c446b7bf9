"""TensorFlow's names for graphs as data; protocol buffers are loaded when one of them is asked for."""
from __future__ import annotations

import contextlib
import linecache
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value as known_value
from workbench.core.graph.build import convert
from workbench.core.graph.device import merge
from workbench.core.graph.dtype import as_dtype, cast_array, to_array
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.shape import Shape, as_shape
from workbench.core.run.session import Session
from workbench.formats import folders, graph_util, messages, meta, saved_model, saver
from workbench.formats import values as values_of
from workbench.formats.own import importer
from workbench.formats.reader import as_message, create_operation, import_graph_def
from workbench.formats.schema import ENUMS
from workbench.formats.sound import MIN_CONSUMER, PRODUCER
from workbench.formats.unknown import create_unknown
from workbench.formats.writer import graph_def, node_def
from workbench.nn.variables import Variable
from workbench.tf1.missing import Namespace
from workbench.train import config
from workbench.train.cluster_spec import ClusterSpec
from workbench.train.sessions.coordinator import QueueRunner

__all__ = ["GRAPH_DEF_VERSION", "GRAPH_DEF_VERSION_MIN_CONSUMER", "GRAPH_DEF_VERSION_MIN_PRODUCER", "TRAIN",
           "assert_equal_graph_def", "constant_value", "core", "graph_util", "import_graph_def", "install", "make_ndarray",
           "make_tensor_proto", "message", "node_def", "saved_model", "with_server_def"]

GRAPH_DEF_VERSION, GRAPH_DEF_VERSION_MIN_CONSUMER, GRAPH_DEF_VERSION_MIN_PRODUCER = PRODUCER, MIN_CONSUMER, 0

MESSAGES = ("AttrValue", "ClusterDef", "Event", "GraphDef", "HistogramProto", "LogMessage", "MetaGraphDef", "NameAttrList",
            "NodeDef", "OpDef", "SaverDef", "SessionLog", "SignatureDef", "Summary", "SummaryMetadata", "TensorInfo",
            "VariableDef")
"""The messages that TensorFlow offers as `tf.<name>`."""


def message(name: str) -> Any:
    """The class of a message."""
    return messages.message(name)


TRAIN = {"write_graph": graph_util.write_graph,
         **{name: getattr(module, name) for module in (saver, folders) for name in module.__all__}}
"""The functions of graphs and checkpoints in `tf.train`."""


def make_tensor_proto(values: Any, dtype: Any = None, shape: Any = None, verify_shape: bool = False) -> Any:
    """TensorProto of Python or NumPy values; the last of too few values fills the rest of `shape`, unless `verify_shape`."""
    kind = None if dtype is None else as_dtype(dtype)
    array = to_array(cast_array(values, kind), kind, "make_tensor_proto")
    wanted = array.shape if shape is None else tuple(int(d) for d in as_shape(shape).static)
    count = int(np.prod(wanted))
    if array.shape != wanted and verify_shape:
        raise TypeError(f"make_tensor_proto: Expected Tensor's shape: {wanted}, got {array.shape}.")
    if array.size > count or (array.size == 0 and count):
        raise errors.InvalidArgumentError(f"make_tensor_proto: Too many elements provided. Needed at most {count}, but "
                                          f"received {array.size}; pass values that fit")
    flat = np.concatenate([array.reshape(-1), np.repeat(array.reshape(-1)[-1:], count - array.size)])
    return values_of.tensor_proto(flat.reshape(wanted), kind or as_dtype(array.dtype))


def make_ndarray(tensor: Any) -> Any:
    """The array of a TensorProto."""
    return values_of.array_of(tensor, "make_ndarray")


def constant_value(tensor: Any, partial: bool = False) -> Any:
    """The value of a tensor that follows from constants alone, None where it is not known; with `partial` of stacked tensors a
    list, with None for each that is not known."""
    given = convert(tensor)
    found = known_value(given)
    if found is not None or not partial or given.op.kind != "stack" or given.op.attrs["axis"]:
        return found
    parts = [constant_value(part, True) for part in given.op.inputs]
    return None if all(part is None for part in parts) else parts


def assert_equal_graph_def(actual: Any, expected: Any, checkpoint_v2: bool = False) -> None:
    """AssertionError where the nodes of two GraphDefs differ, in whatever order they stand. TypeError for anything else."""
    for which, given in (("actual", actual), ("expected", expected)):
        if not isinstance(given, message("GraphDef")):
            raise TypeError(f"Expected tf.GraphDef for {which}, got {type(given).__name__}")
    nodes = [{node.name: node for node in given.node if not (checkpoint_v2 and "_temp" in node.name)}
             for given in (actual, expected)]
    for name in sorted({**nodes[0], **nodes[1]}):
        one, other = (found.get(name) for found in nodes)
        if one != other:
            raise AssertionError(f"assert_equal_graph_def: node {name!r} is\n{one}\nbut expected\n{other}")


class _Messages(Namespace):
    """A module of messages: each is made when it is asked for, with the numbers of the element types."""

    def __getattr__(self, name: str) -> Any:
        if name in messages.names():
            return message(name)
        if name in ENUMS:
            return messages.enumeration(name)
        if name in ENUMS["DataType"]:
            return ENUMS["DataType"][name]
        return super().__getattr__(name)


def _modules(names: str) -> Namespace:
    return Namespace(**{f"{name}_pb2": _Messages(**vars(config)) for name in names.split()})


core = Namespace(
    example=_modules("example feature"), util=_modules("event"),
    framework=_modules("attr_value function graph node_def op_def step_stats summary tensor tensor_shape types variable "
                       "versions"),
    protobuf=_modules("checkpointable_object_graph cluster config meta_graph queue_runner rewriter_config saved_model saver "
                      "tensor_bundle tensorflow_server"))
"""`tensorflow.core`: protocol buffers by the files that define them."""


def _as_graph_def(graph: Graph, from_version: int | None = None, add_shapes: bool = False) -> Any:
    return graph_def(graph, from_version, add_shapes)


def _versions(_graph: Graph) -> Any:
    return message("VersionDef")(producer=PRODUCER, min_consumer=MIN_CONSUMER)


def _create_op(graph: Graph, op_type: str, inputs: Sequence[Any], dtypes: Sequence[Any], input_types: Any = None,
               name: str | None = None, attrs: Mapping[str, Any] | None = None, op_def: Any = None, compute_shapes: bool = True,
               compute_device: bool = True) -> Operation:
    """Add one operation of TensorFlow's type `op_type`, with attributes as AttrValue messages; element types and shapes follow
    from these and from `inputs`. One of a type that is not offered has outputs of `dtypes`, and no step runs it. DtypeError
    where `dtypes` are others."""
    graph = graph._inmost()
    if importer(op_type) is None:
        return create_unknown(graph, op_type, inputs, dtypes, name, {
            key: as_message("AttrValue", value, "create_op") for key, value in (attrs or {}).items()})
    made = create_operation(graph, op_type, inputs, name, attrs)
    if [as_dtype(dtype) for dtype in dtypes] != [t.dtype for t in made.outputs]:
        raise errors.DtypeError(f"create_op: {op_type} {made.name!r} has outputs of {[t.dtype.name for t in made.outputs]} but "
                                f"dtypes are {[as_dtype(dtype).name for dtype in dtypes]}; name those that it has")
    return made


def _node_def(op: Operation) -> Any:
    """The NodeDef of one operation. A variable's type is VariableV2, for which device functions of programs look; a GraphDef
    has it as VarHandleOp, as made by use_resource=True: what is read of it is a snapshot."""
    node = node_def(op)
    if op.kind == "variable":
        node.op = "VariableV2"
    return node


def _op_def(op: Operation) -> Any:
    """Its type as an OpDef: names and element types of what it takes and gives."""
    argument = message("OpDef.ArgDef")
    names = [*op.definition.inputs, *(f"{op.definition.variadic}_{i}" for i in range(len(op.inputs)))]
    return message("OpDef")(
        name=_node_def(op).op, is_stateful=op.definition.stateful,
        input_arg=[argument(name=name, type=t.dtype.as_datatype_enum) for name, t in zip(names, op.inputs)],
        output_arg=[argument(name=f"output_{t.index}", type=t.dtype.as_datatype_enum) for t in op.outputs])


def _colocation_groups(op: Operation) -> list[bytes]:
    """The operations that it shares a device with, or itself."""
    return [f"loc:@{name}".encode() for name in sorted(op.colocation or {op.name})]


def _get_attr(op: Operation, name: str) -> Any:
    """The attribute `name` as TensorFlow has it, or one that only operations here have. InvalidArgumentError (ValueError) where
    there is none."""
    with contextlib.suppress(errors.UnimplementedError):      # what TensorFlow has nothing like
        found = node_def(op).attr
        if name in found:
            return values_of.attr_value(found[name], f"get_attr of {op.name}, attribute {name!r}")
    if name not in op.attrs:
        raise errors.InvalidArgumentError(f"get_attr: No attr named '{name}' in {op.name!r}; it has "
                                          f"{', '.join(op.attrs) or 'none'}")
    return op.attrs[name]


def _traceback(op: Operation) -> list[tuple[str, int, str, str]]:
    """Where it was made: (file, line, "", the line's text)."""
    file, _, line = op.source.rpartition(":")
    return [(file, int(line), "", linecache.getline(file, int(line)).strip())]


def _shape_as_list(tensor: Tensor) -> list[int | None] | None:
    """Its dimensions, None for those that are unknown, or None where the rank is."""
    return None if tensor.shape.rank is None else tensor.shape.as_list()


def _cluster_def(spec: ClusterSpec) -> Any:
    """The jobs and their tasks as a ClusterDef."""
    return message("ClusterDef")(job=[message("JobDef")(name=job, tasks={
        index: spec.task_address(job, index) for index in spec.task_indices(job)}) for job in spec.jobs])


def with_server_def(server: Any) -> Any:
    """The class of servers, whose `server_def` says in a message what they are."""
    def server_def(made: Any) -> Any:
        """What it is, as a ServerDef, of which another can be made."""
        return message("ServerDef")(cluster=_cluster_def(made.cluster), job_name=made.job_name, task_index=made.task_index,
                                    protocol="grpc")
    if not hasattr(server, "server_def"):
        server.server_def = property(server_def, doc=server_def.__doc__)
    return server


def _set_device(op: Operation, device: Any) -> None:
    """Ask for another device, by its name or a DeviceSpec."""
    op.graph.changing(op)
    op.device = merge("", str(device))


def install() -> None:
    """Give graphs, operations and sessions what makes data of them: `Graph.as_graph_def`, `Operation.node_def` and others.

    The engine itself knows no protocol buffers.
    """
    _create_op.__name__ = "create_op"
    _as_graph_def.__name__, _as_graph_def.__doc__ = "as_graph_def", graph_def.__doc__
    for owner, name, value in (
            (Graph, "as_graph_def", _as_graph_def),
            (Graph, "version", property(lambda graph: len(graph.operations), doc="How many operations it has.")),
            (Graph, "graph_def_versions", property(_versions, doc="The VersionDef of its GraphDef.")),
            (Graph, "create_op", _create_op),
            (Session, "graph_def", property(lambda session: session.graph.as_graph_def(), doc="The GraphDef of its graph.")),
            (Operation, "_set_device", _set_device),
            (Operation, "colocation_groups", _colocation_groups),
            (Operation, "get_attr", _get_attr),
            (Operation, "op_def", property(_op_def, doc=_op_def.__doc__)),
            (Operation, "traceback", property(_traceback, doc=_traceback.__doc__)),
            (Operation, "values", lambda op: op.outputs),
            (Operation, "_input_types", property(lambda op: [t.dtype for t in op.inputs], doc="Those of its inputs.")),
            (Operation, "_output_types", property(lambda op: [t.dtype.as_datatype_enum for t in op.outputs],
                                                  doc="Those of its outputs, by their numbers in messages.")),
            (Operation, "_outputs", property(lambda op: list(op.outputs), doc="What it makes, as a list.")),
            (Operation, "_inputs", property(lambda op: list(op.inputs), doc="What it reads, as a list.")),
            (Operation, "_control_inputs", property(lambda op: op.control_inputs, doc="What it waits for.")),
            (Operation, "_id", property(lambda op: op.id, doc="Larger than that of every operation made before.")),
            (Tensor, "_shape_as_list", _shape_as_list),
            (Tensor, "_shape_tuple", lambda tensor: None if tensor.shape.rank is None else tuple(tensor.shape.as_list())),
            (Variable, "_ref", lambda variable: variable),      # what TensorFlow's assignments take and its readers give
            (Tensor, "value_index", property(lambda tensor: tensor.index, doc="Which output of its operation it is.")),
            (ClusterSpec, "as_cluster_def", _cluster_def), (Shape, "as_proto", values_of.shape_proto),
            (Variable, "to_proto", meta.variable_def), (Variable, "from_proto", staticmethod(meta.variable_from)),
            (QueueRunner, "to_proto", meta.queue_runner_def),
            (QueueRunner, "from_proto", staticmethod(meta.queue_runner_from)),
            (Operation, "node_def", property(_node_def, doc=_node_def.__doc__))):
        setattr(owner, name, value)
