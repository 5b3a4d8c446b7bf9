"""The state behind Keras: number settings, the session, the learning phase, variables and functions of the graph."""
from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.entered import get_default_session
from workbench.core.graph.graph import Tensor, get_default_graph, reset_default_graph
from workbench.core.graph.subgraph import root_graph
from workbench.core.run.session import Session
from workbench.nn.layer_base import get_uid, reset_uids
from workbench.nn.variables import (
    GraphKeys,
    Variable,
    get_collection,
    group,
    is_variable_initialized,
    variables_initializer,
)

__all__ = [
    "Function", "backend", "batch_get_value", "batch_set_value", "cast_to_floatx", "clear_session", "count_params", "epsilon",
    "flag", "floatx", "function", "get_session", "get_uid", "get_value", "image_data_format", "in_test_phase", "in_train_phase",
    "learning_phase", "manual_variable_initialization", "placeholder", "reset_uids", "set_epsilon", "set_floatx",
    "set_image_data_format", "set_learning_phase", "set_session", "set_value",
    "switch", "variable",
]


class _State:
    """What lasts between calls of this process."""

    floatx, epsilon, data_format, manual = "float32", 1e-7, "channels_last", False
    session: Session | None = None


_READY: weakref.WeakKeyDictionary[Session, set[Variable]] = weakref.WeakKeyDictionary()
"""Session -> the variables that are known to have a value there."""


def backend() -> str:
    """"tensorflow": the language that the graph speaks."""
    return "tensorflow"


def floatx() -> str:
    """The dtype of variables and inputs that name none."""
    return _State.floatx


def set_floatx(value: str) -> None:
    """From here on the dtype of what names none; InvalidArgumentError unless it is float16, float32 or float64."""
    if value not in ("float16", "float32", "float64"):
        raise errors.InvalidArgumentError(f"keras: Unknown floatx type: {value!r}; use 'float16', 'float32' or 'float64'")
    _State.floatx = value


def epsilon() -> float:
    """The small number that losses and optimizers add or clip to."""
    return _State.epsilon


def set_epsilon(value: float) -> None:
    """From here on the small number of losses and optimizers."""
    _State.epsilon = float(value)


def image_data_format() -> str:
    """Where channels stand in images that say nothing: "channels_last" or "channels_first"."""
    return _State.data_format


def set_image_data_format(data_format: str) -> None:
    """From here on where channels stand; InvalidArgumentError for another word."""
    _State.data_format = layout(data_format)


def layout(data_format: str | None) -> str:
    """Where channels stand: as said, else as set. InvalidArgumentError for another word."""
    found = data_format or _State.data_format
    if found not in ("channels_last", "channels_first"):
        raise errors.InvalidArgumentError(f"keras: Unknown data_format: {found!r}; use 'channels_last' or 'channels_first'")
    return found


def cast_to_floatx(x: Any) -> np.ndarray:
    """An array of the dtype floatx()."""
    return np.asarray(x, dtype=_State.floatx)


# the session

def get_session() -> Session:
    """The default session, else one of its own for the default graph; variables without values are initialized."""
    session = get_default_session()
    if session is None:
        if _State.session is None or _State.session.graph is not root_graph():
            set_session(Session(graph=root_graph()))
        session = _State.session
    if not _State.manual:
        _initialize(session)
    return session


def set_session(session: Session | None) -> None:
    """From here on the session where there is no default one; the one before is left as it is."""
    _State.session = session


def manual_variable_initialization(value: bool) -> None:
    """Shall the program initialize variables itself?"""
    _State.manual = bool(value)


def clear_session() -> None:
    """A new graph, without names that were taken; the session that was made here is closed."""
    if _State.session is not None:
        _State.session.close()
    _State.session = None
    reset_default_graph()


def _initialize(session: Session) -> None:
    """Give a value to every variable that has none."""
    ready = _READY.setdefault(session, set())
    with session.graph.as_default():
        known = [*get_collection(GraphKeys.GLOBAL_VARIABLES), *get_collection(GraphKeys.LOCAL_VARIABLES)]
        fresh = [v for v in known if v not in ready]
        if fresh:
            have = session.run([is_variable_initialized(v) for v in fresh])
            session.run(variables_initializer([v for v, there in zip(fresh, have) if not there]))
    ready.update(fresh)


# the learning phase

def learning_phase() -> Any:
    """A bool tensor of the graph, true in steps of training; or the number that set_learning_phase gave."""
    kept = root_graph().get_collection_ref("__keras_learning_phase")
    if not kept:
        with root_graph().as_default() as root, root.name_scope(None), root.control_dependencies(None):
            kept.append(ops.placeholder_with_default(ops.constant(False), [], name="keras_learning_phase"))
    return kept[0]


def set_learning_phase(value: int) -> None:
    """From here on layers of the graph train (1) or not (0); InvalidArgumentError for another number."""
    if value not in (0, 1):
        raise errors.InvalidArgumentError(f"keras: the learning phase is {value!r}; it is 0 or 1")
    root_graph().get_collection_ref("__keras_learning_phase")[:] = [int(value)]


def flag(training: Any = None) -> Any:
    """`training`, or the learning phase where it is None, as layers take it: a bool or a bool tensor."""
    phase = learning_phase() if training is None else training
    return phase if isinstance(phase, (Tensor, Variable)) else bool(phase)


def switch(condition: Any, then_expression: Any, else_expression: Any) -> Any:
    """One of two, by a scalar; each a tensor or a function that makes one."""
    first, other = (one if callable(one) and not isinstance(one, (Tensor, Variable)) else lambda one=one: convert(one)
                    for one in (then_expression, else_expression))
    if isinstance(condition, bool):
        return first() if condition else other()
    condition = convert(condition)
    return ops.cond(condition if condition.dtype == as_dtype("bool") else ops.cast(condition, "bool"), first, other)


def in_train_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """`x` while training, else `alt`; each a tensor or a function that makes one."""
    return switch(flag(training), x, alt)


def in_test_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """`alt` while training, else `x`."""
    return in_train_phase(alt, x, training)


# variables and functions

def variable(value: Any, dtype: Any = None, name: str | None = None, constraint: Any = None) -> Variable:
    """A variable of this value; the dtype is floatx() unless given."""
    if not isinstance(value, Tensor):
        value = np.asarray(value, as_dtype(dtype or floatx()).numpy)
    return Variable(value, dtype=dtype, name=name, constraint=constraint)


def placeholder(shape: Any = None, ndim: int | None = None, dtype: Any = None, sparse: bool = False,
                name: str | None = None) -> Tensor:
    """A placeholder of a shape, or of so many unknown dimensions. UnimplementedError for sparse ones."""
    if sparse:
        raise errors.UnimplementedError("keras: placeholder(sparse=True) is not offered; use sparse_placeholder")
    dims = [None] * ndim if shape is None and ndim is not None else shape
    made: Tensor = ops.placeholder(as_dtype(dtype or floatx()), dims, name=name)
    return made


def get_value(x: Variable) -> np.ndarray:
    """The value of a variable."""
    return np.asarray(get_session().run(x))


def batch_get_value(tensors: Sequence[Variable]) -> list[np.ndarray]:
    """The values of variables."""
    return [np.asarray(one) for one in get_session().run(list(tensors))] if tensors else []


def set_value(x: Variable, value: Any) -> None:
    """Give a variable a value of its shape."""
    batch_set_value([(x, value)])


def batch_set_value(tuples: Sequence[tuple[Variable, Any]]) -> None:
    """Give variables values of their shapes."""
    session = get_session()
    for var, value in tuples:
        var.load(np.asarray(value, var.dtype.numpy), session)


def count_params(x: Any) -> int:
    """How many numbers a variable holds."""
    return int(np.prod(x.shape.as_list()))


class Function:
    """Steps of the graph: values of `inputs` in, values of `outputs` back, and `updates` done.

    `updates` are operations, or pairs of a variable and its new value.
    """

    def __init__(self, inputs: Sequence[Any], outputs: Sequence[Any], updates: Any = (), name: str | None = None) -> None:
        self.inputs, self.outputs = list(inputs), list(outputs)
        with get_default_graph().control_dependencies([convert(one) for one in self.outputs]):
            done = [one[0].assign(one[1]).op if isinstance(one, tuple) else one for one in updates]
            self.updates = group(*done, name=name or "updates") if done else None

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """The values of the outputs. InvalidArgumentError unless there is one value for each input."""
        if len(inputs) != len(self.inputs):
            raise errors.InvalidArgumentError(f"keras: the function has {len(self.inputs)} inputs but {len(inputs)} values "
                                              "were given; give one for each")
        feed = {one: value for one, value in zip(self.inputs, inputs) if isinstance(one, (Tensor, Variable))}
        fetches = self.outputs if self.updates is None else [*self.outputs, self.updates]
        return list(get_session().run(fetches, feed)[:len(self.outputs)])


def function(inputs: Sequence[Any], outputs: Sequence[Any], updates: Any = None, name: str | None = None) -> Function:
    """A Function of these tensors."""
    return Function(inputs, outputs, updates or (), name)
