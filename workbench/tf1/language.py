"""Graphs of programs written for TensorFlow: operations are named, and things print, as in TensorFlow 1.x."""
from __future__ import annotations

from typing import Any

import workbench as wb
from workbench import errors
from workbench.core.graph import graph as _graphs
from workbench.core.graph.language import Language
from workbench.nn.functions import functions_of
from workbench.tf1.devices import DeviceSpec
from workbench.tf1.names import OPERATIONS

__all__ = ["Graph", "begin", "reset_default_graph"]


def _shape(shape: Any, exact: bool) -> str:
    if exact:
        return f"TensorShape({None if shape.sizes is None else list(shape)})"
    if shape.sizes is None:
        return "<unknown>"
    dims = ", ".join("?" if d is None else str(d) for d in shape.sizes)
    return f"({dims},)" if len(shape.sizes) == 1 else f"({dims})"


def _tensor(tensor: Any, exact: bool) -> str:
    shape, dtype = _shape(tensor.shape, False), tensor.dtype.name
    if exact:
        return f"<tf.Tensor '{tensor.name}' shape={shape} dtype={dtype}>"
    known = "" if tensor.shape.sizes is None else f", shape={shape}"
    place = f", device={tensor.device}" if tensor.device else ""
    return f'Tensor("{tensor.name}"{known}, dtype={dtype}{place})'


def _variable(variable: Any, _exact: bool) -> str:
    return f"<tf.Variable '{variable.name}' shape={_shape(variable.shape, False)} dtype={variable.dtype.name}_ref>"


_RESULTS = {"if": "Merge", "while": "Exit"}
_ENTRIES = {"then": "Switch", "else": "Switch", "cond": "Merge", "body": "Identity"}


def _type(op: Any) -> str:
    if op.kind == "identity" and op.inputs[0].op.kind in _RESULTS:
        made = _RESULTS[op.inputs[0].op.kind]
        if op.name.startswith(f"{op.inputs[0].op.name}/{made}"):
            return made
    if op.kind == "call":
        return str(op.attrs["function"])
    if op.kind == "constant":      # its node would be a copy of its value
        return "Const"
    try:
        return str(op.node_def.op)
    except (errors.UnimplementedError, StopIteration):      # TensorFlow has no one node for it
        return str(op.kind)


def _operation(op: Any, exact: bool) -> str:
    try:
        return f"<tf.Operation '{op.name}' type={_type(op)}>" if exact else str(op.node_def)
    except (errors.UnimplementedError, StopIteration):
        return f"<tf.Operation '{op.name}' type={op.kind}>"


def _dtype(dtype: Any, exact: bool) -> str:
    return f"tf.{dtype.name}" if exact else f"<dtype: {dtype.name!r}>"


def _saver() -> Any:
    from workbench.formats.saver import Saver  # protocol buffers are loaded when somebody saves

    return Saver


class Graph(wb.Graph):
    """A graph that speaks TensorFlow's language: what a program may find by name has TensorFlow's name."""

    def get_tensor_by_name(self, name: str) -> Any:
        """The tensor called `name`; the variable where it is a variable's, which stands for its value everywhere."""
        try:
            found = self.tensor(name)
        except errors.NotFoundError as error:
            raise errors.NotFoundError(f"{error.message} (The name {name!r} refers to a Tensor which does not exist.)"
                                       ) from error
        if found.op.kind != "variable":
            return found
        known = (v for key in self.get_all_collection_keys() for v in self.get_collection(key) if getattr(
            v, "handle", None) is found)
        return next(known, None) or self.as_graph_element(name)

    # functions, by the names that libraries know
    @property
    def _functions(self) -> dict[str, Any]:
        """The functions of the graph by name."""
        return functions_of(self)

    def _is_function(self, name: str) -> bool:
        """Has the graph a function of that name?"""
        return name in functions_of(self)

    def _get_function(self, name: str) -> Any:
        """The function of that name, None where there is none."""
        return functions_of(self).get(name)

    def _add_function(self, function: Any) -> None:
        """Let the graph have the function."""
        function.add_to_graph(self)

    def _apply_device_functions(self, op: Any) -> None:
        """Tell `op`, by its `_set_device`, which device the scopes in force ask for: so Keras asks for it."""
        if asked := self._requested(op):
            op._set_device(DeviceSpec.from_string(asked))

    language = Language(names=OPERATIONS, results=_RESULTS, entries=_ENTRIES, below=True, type=_type, tensor=_tensor,
                        operation=_operation, variable=_variable, shape=_shape, dtype=_dtype, variables_are_true=True,
                        saver=_saver, sessions_end_once=True, arrays_are_cast=True, reads_are_one=True, assertions_run=True,
                        sums_are_reshaped=True)


def begin() -> None:
    """Where nothing was built before this front was imported, the first graph is one of its own."""
    if len(_graphs.default_graphs()) == 1 and not wb.get_default_graph().operations:
        reset_default_graph()


def reset_default_graph() -> None:
    """Start over with an empty default graph (not inside `as_default`)."""
    _graphs.reset_default_graph(Graph)
