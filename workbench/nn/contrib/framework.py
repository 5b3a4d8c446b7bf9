"""Variables found by name, and values for them, as tf.contrib.framework has it."""
from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.nn.blocks import full_name
from workbench.nn.framework import after
from workbench.nn.scopes import VariableScope
from workbench.nn.variables import GraphKeys, Variable, add_to_collection, get_collection, group
from workbench.nn.weights import squeezed

__all__ = ["add_model_variable", "assert_scalar_int", "assign_from_values", "assign_from_values_fn",
           "filter_variables", "get_graph_from_inputs", "get_local_variables", "get_model_variables",
           "get_name_scope", "get_trainable_variables", "get_unique_variable", "get_variable_full_name",
           "get_variables", "get_variables_by_name", "get_variables_by_suffix", "get_variables_to_restore", "is_tensor",
           "local_variable", "prepend_name_scope", "reduce_sum_n", "remove_squeezable_dimensions", "strip_name_scope",
           "with_same_shape", "with_shape"]


def get_variables(scope: Any = None, suffix: str | None = None, collection: str = GraphKeys.GLOBAL_VARIABLES) -> list[Variable]:
    """The variables of a collection whose names begin with `scope` and end, without ":0", in `suffix`."""
    prefix = scope.name if isinstance(scope, VariableScope) else scope
    if suffix is not None:
        suffix = suffix if ":" in suffix else suffix + ":0"
        prefix = f"{prefix or ''}.*{suffix}"
    return get_collection(collection, prefix)


def get_model_variables(scope: Any = None, suffix: str | None = None) -> list[Variable]:
    """get_variables of the model."""
    return get_variables(scope, suffix, GraphKeys.MODEL_VARIABLES)


def get_local_variables(scope: Any = None, suffix: str | None = None) -> list[Variable]:
    """get_variables of this process alone."""
    return get_variables(scope, suffix, GraphKeys.LOCAL_VARIABLES)


def get_trainable_variables(scope: Any = None, suffix: str | None = None) -> list[Variable]:
    """get_variables that optimizers change."""
    return get_variables(scope, suffix, GraphKeys.TRAINABLE_VARIABLES)


def get_variables_by_suffix(suffix: str, scope: Any = None) -> list[Variable]:
    """The global variables whose names end so."""
    return get_variables(scope, suffix)


def get_variables_by_name(given_name: str, scope: Any = None) -> list[Variable]:
    """The global variables whose last part, or parts, of the name this is."""
    return [v for v in get_variables(scope) if f"/{v.op.name}".endswith(f"/{given_name}")]


def get_unique_variable(var_op_name: str) -> Variable:
    """The global variable of this name, without ":0"; InvalidArgumentErrors (ValueErrors) where there is none or several."""
    found = [v for v in get_collection(GraphKeys.GLOBAL_VARIABLES, var_op_name) if v.op.name == var_op_name]
    if len(found) != 1:
        raise errors.InvalidArgumentError(f"get_unique_variable: {len(found)} variables are called {var_op_name!r}; "
                                          "ask for the name of one, without ':0'")
    return found[0]


def get_variable_full_name(var: Any) -> str:
    """The name of a variable in checkpoints, which the parts of one share: without ":0" and "/part_0"."""
    return full_name(var)


def get_variables_to_restore(include: Sequence[str] | None = None, exclude: Sequence[str] | None = None) -> list[Variable]:
    """Global variables in these scopes (None: all), without those in `exclude`."""
    chosen = get_variables() if include is None else [v for scope in include for v in get_variables(scope)]
    gone = {v for scope in exclude or () for v in get_variables(scope)}
    return [v for v in dict.fromkeys(chosen) if v not in gone]


def filter_variables(var_list: Sequence[Variable], include_patterns: Sequence[str] | None = None,
                     exclude_patterns: Sequence[str] | None = None, reg_search: bool = True) -> list[Variable]:
    """Those whose names match one of the patterns to include and none to exclude (searched for, or from the start)."""
    fits: Callable[[str, str], Any] = re.search if reg_search else re.match
    kept = [v for v in var_list if not include_patterns or any(fits(p, v.op.name) for p in include_patterns)]
    return [v for v in kept if not any(fits(p, v.op.name) for p in exclude_patterns or ())]


def local_variable(initial_value: Any, validate_shape: bool = True, name: str | None = None,
                   use_resource: Any = None) -> Variable:
    """A variable of this process alone: not trained, not saved."""
    return Variable(initial_value, trainable=False, collections=[GraphKeys.LOCAL_VARIABLES], validate_shape=validate_shape,
                    name=name)


def add_model_variable(var: Variable) -> None:
    """Count it to the model's variables, once."""
    if var not in get_collection(GraphKeys.MODEL_VARIABLES):
        add_to_collection(GraphKeys.MODEL_VARIABLES, var)


def assign_from_values(var_names_to_values: Mapping[str, Any]) -> tuple[Any, dict[Tensor, Any]]:
    """(operation, feeds) that give variables, by their names without ":0", these values."""
    feeds: dict[Tensor, Any] = {}
    steps = []
    for name, value in var_names_to_values.items():
        variable = get_unique_variable(name)
        entry = ops.placeholder(variable.dtype, variable.shape)
        feeds[entry] = np.asarray(value).reshape([d or -1 for d in variable.shape.as_list()])
        steps.append(variable.assign(entry))
    return group(*steps), feeds


def assign_from_values_fn(var_names_to_values: Mapping[str, Any]) -> Callable[[Any], None]:
    """A function of a session that gives variables these values."""
    step, feeds = assign_from_values(var_names_to_values)
    return lambda session: session.run(step, feeds)


# names

def get_name_scope() -> str:
    """The name scope in force, without a slash at its end."""
    return get_default_graph().scope.rstrip("/")


def prepend_name_scope(name: str, import_scope: str | None) -> str:
    """`name` below a scope; "^name" keeps its mark."""
    if not import_scope:
        return name
    return f"^{import_scope}/{name[1:]}" if name.startswith("^") else f"{import_scope}/{name}"


def strip_name_scope(name: str, export_scope: str | None) -> str:
    """`name` without the scope that it begins with."""
    return re.sub(rf"^(\^?){re.escape(export_scope)}/", r"\1", name) if export_scope else name


# tensors

def is_tensor(x: Any) -> bool:
    """Is it a tensor, sparse or not, or a variable?"""
    return isinstance(x, (Tensor, Variable)) or hasattr(x, "dense_shape")


def get_graph_from_inputs(op_input_list: Any, graph: Any = None) -> Any:
    """The graph that these belong to, the default graph for none; InvalidArgumentError where they differ from each other."""
    found = graph
    for item in op_input_list:
        own = getattr(item, "graph", None)
        if own is not None and found is not None and own is not found:
            raise errors.InvalidArgumentError(f"get_graph_from_inputs: {item!r} must be from the same graph as the others; "
                                              "build them in one graph")
        found = found or own
    return found or get_default_graph()


def reduce_sum_n(tensors: Sequence[Any], name: str | None = None) -> Tensor:
    """The sum of all elements of all tensors."""
    return ops.add_n([ops.reduce_sum(convert(t)) for t in tensors], name=name)


def with_shape(expected_shape: Any, tensor: Any) -> Tensor:
    """The tensor, of this shape (ints, or an int vector that a step checks)."""
    found = convert(tensor)
    if isinstance(expected_shape, Tensor):
        check = ops.Assert(ops.reduce_all(ops.equal(ops.shape(found), expected_shape)),
                           ["with_shape: Wrong shape", ops.shape(found), expected_shape])
        return after([check], found)
    made = ops.identity(found)
    made.set_shape(expected_shape)
    return made


def with_same_shape(expected_tensor: Any, tensor: Any) -> Tensor:
    """The tensor, of the shape of another."""
    wanted = convert(expected_tensor)
    return with_shape(wanted.shape if wanted.shape.known else ops.shape(wanted), tensor)


def remove_squeezable_dimensions(predictions: Any, labels: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Predictions and labels of one rank: a last dimension of 1 that either has too many is taken away."""
    with get_default_graph().name_scope(name or "remove_squeezable_dimensions"):
        found, wanted = convert(predictions), convert(labels)
        wanted, found = squeezed(wanted, found, 0)
        return found, wanted


def assert_scalar_int(tensor: Any, name: str | None = None) -> Tensor:
    """The tensor, a scalar integer; InvalidArgumentError (ValueError) for anything else."""
    found = convert(tensor, name=name or "constant")
    if not found.dtype.is_integer or found.shape.rank not in (0, None):
        raise errors.InvalidArgumentError(f"assert_scalar_int: expected an integer scalar, got {found.dtype.name}{found.shape}"
                                          "; cast or reshape it")
    return found
