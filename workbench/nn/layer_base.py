"""Layer: what all layers that are objects share: names, scopes, variables, losses, updates, and what went through them."""
from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Graph, Tensor, get_default_graph
from workbench.core.graph.shape import Shape
from workbench.core.graph.subgraph import root_graph
from workbench.nn import nest
from workbench.nn.partitions import variable_parts
from workbench.nn.scopes import VariableScope, get_variable, variable_scope
from workbench.nn.variables import GraphKeys, Variable, get_collection

__all__ = ["InputSpec", "Layer", "snake"]


class InputSpec:
    """What a layer takes: a dtype, a shape, a rank or its bounds, and the lengths of some axes."""

    def __init__(self, dtype: Any = None, shape: Any = None, ndim: int | None = None, max_ndim: int | None = None,
                 min_ndim: int | None = None, axes: dict[int, int] | None = None) -> None:
        self.dtype, self.shape = dtype, shape
        self.ndim = len(shape) if shape is not None else ndim
        self.max_ndim, self.min_ndim, self.axes = max_ndim, min_ndim, axes or {}

    def problem(self, x: Tensor) -> str:
        """Why `x` does not fit, "" where it does."""
        rank, dims = x.shape.rank, x.shape.sizes
        bounds = {"ndim": self.ndim, "max_ndim": self.max_ndim, "min_ndim": self.min_ndim}
        if rank is None and any(bound is not None for bound in bounds.values()):
            return "its rank is undefined, but the layer requires a defined rank"
        for name, bound in bounds.items():
            if bound is not None and not {"ndim": rank == bound, "max_ndim": (rank or 0) <= bound,
                                          "min_ndim": (rank or 0) >= bound}[name] and (name != "ndim" or self.shape is None):
                return f"expected {name}={bound}, found ndim={rank}"
        if self.dtype is not None and x.dtype is not as_dtype(self.dtype):
            return f"expected dtype={as_dtype(self.dtype).name}, found dtype={x.dtype.name}"
        for axis, length in self.axes.items():
            if length is not None and dims is not None and dims[axis] not in (length, None):
                return f"expected axis {axis} to have {length} elements"
        if self.shape is not None and not x.shape.compatible(Shape(self.shape)):
            return f"expected shape={tuple(self.shape)}"
        return ""


class Layer:
    """A base for layers of one's own: `build` makes variables with add_variable at the first call, `call` computes.

    Variables are in a scope `name` (default: made of the class's name), numbered where that was entered before. Later calls,
    wherever they stand, use the same variables. `activity_regularizer` of the result goes to the collection
    REGULARIZATION_LOSSES. `input_spec` (an InputSpec, or a list of them) is checked at each call: InvalidArgumentError.
    """

    input_spec: Any = None

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, activity_regularizer: Any = None,
                 _scope: Any = None, _reuse: Any = None) -> None:
        self.trainable, self.built = trainable, False
        self.dtype = None if dtype is None else as_dtype(dtype)
        self.activity_regularizer = activity_regularizer
        self._base, self._given, self._reuse = name or snake(type(self).__name__), _scope, _reuse
        self._name = name or numbered(self._base)
        self._scope: VariableScope | None = None
        self._graph: Graph | None = None
        self._made: list[Variable] = []
        self._updates: list[tuple[Any, Any]] = []      # (what was added, the inputs that it depends on or None)
        self._losses: list[tuple[Any, Any]] = []
        self._calls: list[tuple[Any, Any]] = []        # (inputs, outputs)

    def build(self, _input_shape: Any) -> None:
        """Make the variables, for the static shape of the first call's inputs; a subclass says which."""
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """What the layer computes; a subclass says it."""
        raise errors.UnimplementedError(f"{type(self).__name__}: it has no call(inputs); define it")

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The result for `inputs`, in the layer's scope, or at the first call in the scope `scope`. InvalidArgumentError where
        a later call is in another graph."""
        with self._entered(kwargs.pop("scope", None)) as scope:
            x = nest.map_structure(lambda one: one if hasattr(one, "__graph_parts__") else convert(one), inputs)
            leaves = nest.flatten(x)
            if not self.built:
                self._check_inputs(leaves)
                self.dtype = self.dtype or leaves[0].dtype
                self.build(nest.map_structure(lambda one: one.get_shape(), x))
            self._check_inputs(leaves)
            if "scope" in inspect.signature(self.call).parameters:
                kwargs["scope"] = scope
            result = self.call(x, *args, **kwargs)
            if result is None:
                raise errors.InvalidArgumentError(f"{self._name}: call returned None; a layer's `call` method should return a "
                                                  "Tensor or a list of Tensors")
            if self.activity_regularizer is not None:
                for one in nest.flatten(result):
                    with get_default_graph().name_scope("ActivityRegularizer"):
                        self.add_loss(self.activity_regularizer(one))
        self.built = True
        self._calls.append((x, result))
        return result

    @contextmanager
    def _entered(self, scope: Any) -> Iterator[VariableScope]:
        """The scope of the variables and, for operations, that of the first call."""
        self._check_graph()
        if self._scope is None:
            asked = self._given if scope is None else scope
            if asked is None and self._reuse:
                asked = self._base
            losses = len(get_collection(GraphKeys.REGULARIZATION_LOSSES))
            with variable_scope(asked, self._base, reuse=True if self.built else self._reuse) as self._scope:
                yield self._scope
        else:
            losses = len(get_collection(GraphKeys.REGULARIZATION_LOSSES))
            with variable_scope(self._scope, reuse=True if self.built else self._reuse) as again, \
                    get_default_graph().name_scope(again.original_name_scope):
                yield again
        known = [loss for loss, _ in self._losses]
        self._losses += [(loss, None) for loss in get_collection(GraphKeys.REGULARIZATION_LOSSES)[losses:] if loss not in known]

    def _check_graph(self) -> None:
        self._graph = self._graph or root_graph()
        if self._graph is not root_graph():
            raise errors.InvalidArgumentError(f"{self._name}: the graph of its first call and the default graph are not the "
                                              "same; make a layer for each graph")

    def _check_inputs(self, inputs: Sequence[Any]) -> None:
        if self.input_spec is None:
            return
        specs = list(self.input_spec) if isinstance(self.input_spec, (list, tuple)) else [self.input_spec]
        if len(specs) != len(inputs):
            raise errors.InvalidArgumentError(f"{self._name}: it expects {len(specs)} inputs, but it received {len(inputs)}; "
                                              "pass as many as its input_spec has")
        for number, (x, spec) in enumerate(zip(inputs, specs)):
            problem = "" if spec is None else spec.problem(x)
            if problem:
                raise errors.InvalidArgumentError(f"{self._name}: Input {number}, {x.name} of shape {x.shape}, is incompatible "
                                                  f"with the layer: {problem}; give it what its input_spec says")

    def apply(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The same as calling it."""
        return self(inputs, *args, **kwargs)

    def add_variable(self, name: str, shape: Any, dtype: Any = None, initializer: Any = None, regularizer: Any = None,
                     trainable: bool = True, constraint: Any = None) -> Variable:
        """A variable of the layer, for `build`, always in the layer's scope."""
        before = {id(v) for v in get_collection(GraphKeys.GLOBAL_VARIABLES)}
        with self._entered(None):
            made: Variable = get_variable(name, shape, dtype or self.dtype or "float32", initializer, regularizer,
                                          trainable and self.trainable, constraint=constraint)
        # one that is shared belongs to who made it
        self._made += [part for part in variable_parts(made) if id(part) not in before]
        return made

    add_weight = add_variable

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Operations that a training step should wait for; they go to the collection UPDATE_OPS. `inputs` are those of the
        layer that they depend on."""
        self._add(self._updates, updates, inputs, GraphKeys.UPDATE_OPS)

    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Losses besides that of the model; they go to the collection REGULARIZATION_LOSSES. `inputs` are those of the layer
        that they depend on."""
        self._add(self._losses, losses, inputs, GraphKeys.REGULARIZATION_LOSSES)

    def _add(self, kept: list[tuple[Any, Any]], added: Any, inputs: Any, collection: str) -> None:
        found = list(added) if isinstance(added, (list, tuple)) else [added]
        kept += [(one, inputs) for one in found]
        known = get_collection(collection)
        for one in found:
            if not any(one is other for other in known):
                root_graph().add_to_collection(collection, one)

    def get_updates_for(self, inputs: Any) -> list[Any]:
        """The updates that were added as depending on `inputs`; None: those that depend on none."""
        return _added_for(self._updates, inputs)

    def get_losses_for(self, inputs: Any) -> list[Any]:
        """The losses that were added as depending on `inputs`; None: those that depend on none."""
        return _added_for(self._losses, inputs)

    @property
    def name(self) -> str:
        """Its name, as given or made of the class's name and a number."""
        return self._name

    @property
    def scope_name(self) -> str:
        """The scope of its variables. FailedPreconditionError before the first call."""
        if self._scope is None:
            raise errors.FailedPreconditionError(f"{type(self).__name__}: it has no scope before its first call; call it")
        return self._scope.name

    @property
    def graph(self) -> Graph:
        """The graph of its first call, the default graph before."""
        return self._graph or root_graph()

    @property
    def variables(self) -> list[Variable]:
        """All its variables, those that optimizers change first."""
        return self.trainable_variables + self.non_trainable_variables

    weights = variables

    @property
    def trainable_variables(self) -> list[Variable]:
        """Those that optimizers change."""
        return [v for v in self._made if v.trainable and self.trainable]

    trainable_weights = trainable_variables

    @property
    def non_trainable_variables(self) -> list[Variable]:
        """The others, such as moving averages."""
        return [v for v in self._made if not (v.trainable and self.trainable)]

    non_trainable_weights = non_trainable_variables

    @property
    def updates(self) -> list[Any]:
        """What a training step should wait for."""
        return [update for update, _ in self._updates]

    @property
    def losses(self) -> list[Any]:
        """The regularization losses that its calls made."""
        return [loss for loss, _ in self._losses]

    def count_params(self) -> int:
        """How many numbers its variables hold. InvalidArgumentError before these are made."""
        if not self.built:
            raise errors.InvalidArgumentError(f"{self._name}: count_params was asked before the variables were made; call the "
                                              "layer, or its build")
        return sum(v.shape.num_elements() or 0 for v in self._made)

    # what went through it
    def _only(self, what: int, name: str, shapes: bool = False) -> Any:
        found = [call[what] for call in self._calls]
        if shapes:
            found = [_shapes(one) for one in found]
        if not found or any(one is not found[0] and not (shapes and one == found[0]) for one in found):
            raise AttributeError(f"{self._name}: it was called {len(found)} times, so that its {name} is not one; ask "
                                 f"get_{name}_at, or call it once")
        return found[0]

    def _at(self, index: int, what: int) -> Any:
        if not 0 <= index < len(self._calls):
            raise errors.InvalidArgumentError(f"{self._name}: call {index} is asked for but there were {len(self._calls)}; "
                                              "count from 0")
        return self._calls[index][what]

    @property
    def input(self) -> Any:
        """What it was called with; AttributeError unless that was one thing."""
        return self._only(0, "input")

    @property
    def output(self) -> Any:
        """What its call gave; AttributeError unless there was one call."""
        return self._only(1, "output")

    @property
    def input_shape(self) -> Any:
        """The static shape of what it was called with, a tuple; AttributeError where they differ."""
        return self._only(0, "input_shape", True)

    @property
    def output_shape(self) -> Any:
        """The static shape of what its calls gave, a tuple; AttributeError where they differ."""
        return self._only(1, "output_shape", True)

    def get_input_at(self, node_index: int) -> Any:
        """What call `node_index` was given."""
        return self._at(node_index, 0)

    def get_output_at(self, node_index: int) -> Any:
        """What call `node_index` gave."""
        return self._at(node_index, 1)

    def get_input_shape_at(self, node_index: int) -> Any:
        """The static shape of what call `node_index` was given."""
        return _shapes(self._at(node_index, 0))

    def get_output_shape_at(self, node_index: int) -> Any:
        """The static shape of what call `node_index` gave."""
        return _shapes(self._at(node_index, 1))

    def __deepcopy__(self, memo: Any) -> Any:
        made = copy.copy(self)      # tensors and variables belong to a graph, which has them once
        memo[id(self)] = made
        for key, value in vars(self).items():
            if isinstance(value, (list, dict)):
                setattr(made, key, copy.copy(value))
        return made


def snake(name: str) -> str:
    """The name of a class as that of a scope: "Conv2DTranspose" is conv2d_transpose."""
    found = re.sub("(?<=[a-z])(?=[A-Z])|(?<=.)(?=[A-Z][a-z0-9])", "_", name).lower()
    return f"private{found}" if found.startswith("_") else found


def numbered(base: str) -> str:
    """`base` with a number that tells the layers of a graph apart."""
    return f"{base}_{get_uid(base)}"


def get_uid(prefix: str = "") -> int:
    """How many times this was asked in the graph with this prefix, from 1."""
    kept = root_graph().get_collection_ref("__layer_names")
    counts: dict[str, int] = kept[0] if kept else {}
    counts[prefix] = counts.get(prefix, 0) + 1
    kept[:] = [counts]
    return counts[prefix]


def reset_uids() -> None:
    """Layers of the graph are numbered from 1 again."""
    root_graph().get_collection_ref("__layer_names").clear()


def _shapes(structure: Any) -> Any:
    found = nest.map_structure(lambda one: None if one.get_shape().sizes is None else tuple(one.get_shape().sizes), structure)
    return list(found) if isinstance(found, (list, tuple)) and isinstance(structure, (list, tuple)) else found


def _added_for(kept: Sequence[tuple[Any, Any]], inputs: Any) -> list[Any]:
    if inputs is None:
        return [one for one, given in kept if given is None]
    wanted = {id(leaf) for leaf in nest.flatten(inputs)}
    return [one for one, given in kept if given is not None and wanted & {id(leaf) for leaf in nest.flatten(given)}]
