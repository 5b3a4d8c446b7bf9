"""TensorFlow's names for graphs as data; protocol buffers are loaded when one of them is asked for."""
from __future__ import annotations

from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import as_dtype, to_array
from workbench.core.graph.graph import Graph, Operation
from workbench.core.graph.shape import as_shape
from workbench.formats import graph_util, messages, saved_model, saver
from workbench.formats import values as values_of
from workbench.formats.reader import import_graph_def
from workbench.formats.schema import ENUMS
from workbench.formats.writer import MIN_CONSUMER, PRODUCER, graph_def, node_def
from workbench.tf1.missing import Namespace
from workbench.train import config

__all__ = ["GRAPH_DEF_VERSION", "GRAPH_DEF_VERSION_MIN_CONSUMER", "GRAPH_DEF_VERSION_MIN_PRODUCER", "TRAIN",
           "assert_equal_graph_def", "core", "graph_util", "import_graph_def", "install", "make_ndarray", "make_tensor_proto",
           "message", "node_def", "saved_model"]

GRAPH_DEF_VERSION, GRAPH_DEF_VERSION_MIN_CONSUMER, GRAPH_DEF_VERSION_MIN_PRODUCER = PRODUCER, MIN_CONSUMER, 0

MESSAGES = ("AttrValue", "ClusterDef", "Event", "GraphDef", "HistogramProto", "LogMessage", "MetaGraphDef", "NameAttrList",
            "NodeDef", "OpDef", "SaverDef", "SessionLog", "SignatureDef", "Summary", "SummaryMetadata", "TensorInfo",
            "VariableDef")
"""The messages that TensorFlow offers as `tf.<name>`."""


def message(name: str) -> Any:
    """The class of a message."""
    return messages.message(name)


TRAIN = {"write_graph": graph_util.write_graph, **{name: getattr(saver, name) for name in saver.__all__}}
"""The functions of graphs and checkpoints in `tf.train`."""


def make_tensor_proto(values: Any, dtype: Any = None, shape: Any = None, verify_shape: bool = False) -> Any:
    """TensorProto of Python or NumPy values; the last of too few values fills the rest of `shape`, unless `verify_shape`."""
    kind = None if dtype is None else as_dtype(dtype)
    array = to_array(values, kind, "make_tensor_proto")
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
        if name in ENUMS["DataType"]:
            return ENUMS["DataType"][name]
        return super().__getattr__(name)


def _modules(names: str) -> Namespace:
    return Namespace(**{f"{name}_pb2": _Messages(**vars(config)) for name in names.split()})


core = Namespace(
    example=_modules("example feature"), util=_modules("event"),
    framework=_modules("attr_value function graph node_def op_def step_stats summary tensor tensor_shape types versions"),
    protobuf=_modules("checkpointable_object_graph cluster config meta_graph queue_runner saved_model saver "
                      "tensor_bundle tensorflow_server"))
"""`tensorflow.core`: protocol buffers by the files that define them."""


def _as_graph_def(graph: Graph, from_version: int | None = None, add_shapes: bool = False) -> Any:
    return graph_def(graph, from_version, add_shapes)


def _versions(_graph: Graph) -> Any:
    return message("VersionDef")(producer=PRODUCER, min_consumer=MIN_CONSUMER)


def install() -> None:
    """Give graphs and operations what makes data of them: `Graph.as_graph_def`, `Graph.version`, `Operation.node_def`.

    The engine itself knows no protocol buffers.
    """
    _as_graph_def.__name__, _as_graph_def.__doc__ = "as_graph_def", graph_def.__doc__
    for owner, name, value in (
            (Graph, "as_graph_def", _as_graph_def),
            (Graph, "version", property(lambda graph: len(graph.operations), doc="How many operations it has.")),
            (Graph, "graph_def_versions", property(_versions, doc="The VersionDef of its GraphDef.")),
            (Operation, "node_def", property(node_def, doc=node_def.__doc__))):
        setattr(owner, name, value)
