"""TensorFlow's names for graphs as data; protocol buffers are loaded when one of them is asked for."""
from __future__ import annotations

from typing import Any

from workbench.core.graph.graph import Graph, Operation
from workbench.formats import graph_util, messages, saved_model, saver
from workbench.formats.reader import import_graph_def
from workbench.formats.writer import graph_def, node_def

__all__ = ["TRAIN", "graph_util", "import_graph_def", "install", "message", "node_def", "saved_model"]

MESSAGES = ("AttrValue", "Event", "GraphDef", "HistogramProto", "LogMessage", "MetaGraphDef", "NameAttrList", "NodeDef",
            "OpDef", "SaverDef", "SessionLog", "SignatureDef", "Summary", "SummaryMetadata", "TensorInfo", "VariableDef")
"""The messages that TensorFlow offers as `tf.<name>`."""


def message(name: str) -> Any:
    """The class of a message."""
    return messages.message(name)


TRAIN = {"write_graph": graph_util.write_graph, **{name: getattr(saver, name) for name in saver.__all__}}
"""The functions of graphs and checkpoints in `tf.train`."""


def _as_graph_def(graph: Graph, from_version: int | None = None, add_shapes: bool = False) -> Any:
    return graph_def(graph, from_version, add_shapes)


def install() -> None:
    """Give graphs and operations what makes data of them: `Graph.as_graph_def`, `Graph.version`, `Operation.node_def`.

    The engine itself knows no protocol buffers.
    """
    _as_graph_def.__name__, _as_graph_def.__doc__ = "as_graph_def", graph_def.__doc__
    for owner, name, value in (
            (Graph, "as_graph_def", _as_graph_def),
            (Graph, "version", property(lambda graph: len(graph.operations), doc="How many operations it has.")),
            (Operation, "node_def", property(node_def, doc=node_def.__doc__))):
        setattr(owner, name, value)
