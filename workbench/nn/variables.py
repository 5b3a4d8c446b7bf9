"""Variable: state with an initial value, a trainable flag and Python's operators; collections of variables."""
from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import IndexedSlices, convert, install_operators, ops
from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.entered import default_session
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.core.graph.program import FREED
from workbench.core.graph.shape import Shape, as_shape
from workbench.core.graph.subgraph import root_graph
from workbench.nn import blocks
from workbench.nn.arguments import refuse

__all__ = [
    "GraphKeys", "Variable", "add_to_collection", "assign", "assign_add", "assign_sub", "get_collection",
    "get_collection_ref", "global_variables", "global_variables_initializer", "group", "is_variable_initialized",
    "local_variables", "local_variables_initializer", "model_variables", "report_uninitialized_variables",
    "trainable_variables", "variables_initializer",
]

class GraphKeys:
    """Names of the collections that the library fills or that programs share."""

    GLOBAL_VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    MODEL_VARIABLES = "model_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    MOVING_AVERAGE_VARIABLES = "moving_average_variables"
    METRIC_VARIABLES = "metric_variables"
    CONCATENATED_VARIABLES = "concatenated_variables"
    TRAINABLE_RESOURCE_VARIABLES = "trainable_resource_variables"
    RESOURCES = "resources"
    LOCAL_RESOURCES = "local_resources"
    SAVEABLE_OBJECTS = "saveable_objects"
    GLOBAL_STEP = "global_step"
    EVAL_STEP = "eval_step"
    SUMMARIES = "summaries"
    QUEUE_RUNNERS = "queue_runners"
    SAVERS = "savers"
    LOSSES = "losses"
    REGULARIZATION_LOSSES = "regularization_losses"
    WEIGHTS = "weights"
    BIASES = "biases"
    ACTIVATIONS = "activations"
    UPDATE_OPS = "update_ops"
    TRAIN_OP = "train_op"
    INIT_OP = "init_op"
    LOCAL_INIT_OP = "local_init_op"
    READY_OP = "ready_op"
    READY_FOR_LOCAL_INIT_OP = "ready_for_local_init_op"
    SUMMARY_OP = "summary_op"
    TABLE_INITIALIZERS = "table_initializer"
    ASSET_FILEPATHS = "asset_filepaths"
    COND_CONTEXT = "cond_context"
    WHILE_CONTEXT = "while_context"
    VARIABLES = GLOBAL_VARIABLES


@contextlib.contextmanager
def near(variable: Variable) -> Iterator[None]:
    """Operations below go to the variable's device, whatever device scope is in force."""
    with get_default_graph().only_device(variable.op.device):
        yield

GIVES_VALUE = frozenset(("assign", "assign_add", "assign_sub", "assign_freely", "read_variable",
                         *(f"scatter_{rule}" for rule in ("add", "sub", "update", "mul", "div", "min", "max")),
                         *(f"scatter_nd_{rule}" for rule in ("add", "sub", "update"))))
"""Operations that give the value of the whole variable, whose handle they take first."""


class Variable:
    """A mutable tensor that outlives a step (paper §3.1).

    `initial_value` is an array, a tensor, or a function of no arguments that returns one; run `.initializer` (or
    global_variables_initializer) before the first read. Using the variable where a tensor is expected reads it anew,
    after the control dependencies in force there. `name` is made unique unless it ends in "/"; `dtype` converts the
    initial value; with `validate_shape=False` later assignments may change the shape; readers get their copy on
    `caching_device`; optimizers assign `constraint(value)` after each update. Raises DtypeError, ShapeError.
    """

    __array_priority__ = 100
    SaveSliceInfo = blocks.SaveSliceInfo
    _save_slice_info: blocks.SaveSliceInfo | None = None

    def __init__(self, initial_value: Any = None, trainable: bool = True, collections: Iterable[str] | None = None,
                 validate_shape: bool = True, caching_device: Any = None, name: str | None = None, variable_def: Any = None,
                 dtype: Any = None, expected_shape: Any = None, import_scope: str | None = None,
                 constraint: Any = None) -> None:
        refuse("Variable", "make it from a value", variable_def=variable_def, import_scope=import_scope)
        if constraint is not None and not callable(constraint):
            raise errors.InvalidArgumentError(f"Variable: constraint {constraint!r} must be callable; pass a function of the "
                                              "value")
        if initial_value is None:
            raise errors.InvalidArgumentError("Variable: initial_value is None; pass an array, a tensor or a function "
                                              "that returns one")
        self.graph = root_graph()
        self.trainable = bool(trainable)
        self._caching, self.constraint = caching_device, constraint
        title = self._title(name)
        with self.graph.as_default(), self.graph.control_dependencies(None), self.graph.name_scope(f"{title}/"):
            before = len(self.graph.operations)
            self.initial_value = self._initial(initial_value, None if dtype is None else as_dtype(dtype))
            self.dtype: DType = self.initial_value.dtype
            self.shape: Shape = as_shape(self.initial_value.shape if validate_shape else expected_shape)
            self.op: Operation = self._create(title)
            for op in self.graph.operations[before:]:
                if op.name.startswith(f"{title}/"):      # other threads build here too
                    op.device = self.op.device           # the initial value is made where it stays
            self.handle: Tensor = self.op.outputs[0]
            self._snapshot: Tensor = self._read("read")
            self.initializer: Operation = self._use("assign", self.initial_value, name="Assign").op
        self._collect(collections)

    @classmethod
    def of(cls, op: Operation, initializer: Operation, snapshot: Tensor, trainable: bool = True) -> Variable:
        """The variable whose operations are in the graph already: the one that holds it, what assigns its initial value, and
        a read. It is put into no collection."""
        found = cls.__new__(cls)
        found.graph, found.op, found.handle, found.trainable, found._caching = op.graph, op, op.outputs[0], trainable, None
        found.dtype, found.shape, found.constraint = op.attrs["dtype"], as_shape(op.attrs["shape"]), None
        found.initializer, found.initial_value, found._snapshot = initializer, initializer.inputs[1], snapshot
        return found

    def _title(self, name: str | None) -> str:
        if name is not None and name.endswith("/"):
            return name[:-1]
        return self.graph.unique_name(name or "Variable")

    def _initial(self, value: Any, dtype: DType | None) -> Tensor:
        if callable(value) and not hasattr(value, "__tensor__"):
            with self.graph.name_scope("Initializer"):
                value = value()
        return convert(value, dtype, name="initial_value")

    def _create(self, title: str) -> Operation:
        return self.graph.create("variable", (), {
            "dtype": self.dtype, "shape": self.shape, "shared_name": "", "container": ""}, f"{title}/")

    def _collect(self, collections: Iterable[str] | None) -> None:
        wanted = list(collections) if collections is not None else [GraphKeys.GLOBAL_VARIABLES]
        if self.trainable and GraphKeys.TRAINABLE_VARIABLES not in wanted:
            wanted.append(GraphKeys.TRAINABLE_VARIABLES)
        for key in wanted:
            self.graph.add_to_collection(key, self)

    # values
    def _read(self, name: str | None = None) -> Tensor:
        return self._use("read_variable", dtype=self.dtype, shape=self.shape, name=name)

    def _use(self, operation: str, *inputs: Any, **options: Any) -> Any:
        with near(self):
            return getattr(ops, operation)(self.handle, *inputs, **options)

    def __tensor__(self) -> Tensor:
        return self.value()

    def __graph_element__(self) -> Tensor:
        return self._snapshot

    def __reads__(self) -> list[Tensor]:
        """All reads of it so far: a value that is fed for it stands for each."""
        return [op.outputs[0] for op in self.handle.consumers() if op.kind == "read_variable"]

    def value(self) -> Tensor:
        """A new read, ordered after the control dependencies in force, on the variable's device; its copy on the caching
        device where there is one."""
        found = self._read(f"{self.op.name.rpartition('/')[2]}/read")
        if self._caching is None:
            return found
        with get_default_graph().only_device(self._caching):
            return ops.identity(found, name="cached")

    def read_value(self) -> Tensor:
        """A new read that stands for itself alone when it is differentiated by."""
        return ops.identity(self.value())

    def initialized_value(self) -> Tensor:
        """The value, or the initial value where a run comes before the initializer: for initial values of others."""
        return ops.cond(self.is_initialized(), self.value, lambda: self.initial_value)

    def is_initialized(self) -> Tensor:
        """bool scalar: has it a value?"""
        return self._use("is_variable_initialized")

    def eval(self, session: Any = None) -> Any:
        """The value in `session` or the default session."""
        return (session or default_session()).run(self._snapshot)

    def load(self, value: Any, session: Any = None) -> None:
        """Assign `value` (of the variable's dtype and shape) in `session` or the default session, without adding to
        the graph."""
        (session or default_session()).run(self.initializer, {self.initializer.inputs[1]: value})

    # changes; each returns the new value
    def assign(self, value: Any, use_locking: bool = True, name: str | None = None) -> Tensor:
        """Replace the value by `value` (the variable's dtype and shape) and give the new one. Updates are atomic:
        `use_locking` has no effect."""
        return self._use("assign", convert(value, self.dtype), name=name)

    def assign_add(self, delta: Any, use_locking: bool = True, name: str | None = None) -> Tensor:
        """Add `delta` (the variable's dtype and shape), atomically, and give the new value."""
        return self._use("assign_add", convert(delta, self.dtype), name=name)

    def assign_sub(self, delta: Any, use_locking: bool = True, name: str | None = None) -> Tensor:
        """Subtract `delta` (the variable's dtype and shape), atomically, and give the new value."""
        return self._use("assign_sub", convert(delta, self.dtype), name=name)

    def count_up_to(self, limit: int) -> Tensor:
        """Add 1 to this integer scalar and give the value before; OutOfRangeError once it is `limit`."""
        return self._use("count_up_to", limit=limit, dtype=self.dtype)

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """Rows `indices` (ints [...]) alone, [..., row]; the gradient is IndexedSlices."""
        return self._use("resource_gather", indices, dtype=self.dtype, shape=self.shape, name=name)

    sparse_read = gather

    def scatter_sub(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Tensor:
        """Subtract rows and give the new value; repeated indices add up."""
        return self._use("scatter_sub", sparse_delta.indices, sparse_delta.values, name=name)

    # description
    @property
    def name(self) -> str:
        """The name of its operation with ":0": "weights:0"."""
        return f"{self.op.name}:0"

    @property
    def device(self) -> str:
        """The device asked for, "" when none was."""
        return self.op.device

    def get_shape(self) -> Shape:
        """The static shape."""
        return self.shape

    def _set_save_slice_info(self, save_slice_info: blocks.SaveSliceInfo | None) -> None:
        self._save_slice_info = save_slice_info

    def _get_save_slice_info(self) -> blocks.SaveSliceInfo | None:
        return self._save_slice_info

    def set_shape(self, shape: Any) -> None:
        """Add what is known about the shape; ShapeError when it contradicts."""
        self.shape = self.shape.merge(as_shape(shape), f"set_shape of {self.name}")

    def __iter__(self) -> Any:
        return iter(self.value())

    def __bool__(self) -> bool:
        return self.graph.language.variables_are_true or bool(self._snapshot)

    def __repr__(self) -> str:
        return self.graph.language.variable(self, True)

    def __str__(self) -> str:
        return self.graph.language.variable(self, False)


install_operators(Variable)


class _Assigned(Variable):
    """The variable whose new value a tensor is, to be changed again: after the assignment that gave the tensor."""

    def __init__(self, value: Tensor) -> None:
        self.graph, self.dtype, self.shape = value.graph, value.dtype, value.shape
        self.handle, self._after = value.op.inputs[0], value.op
        self.op = self.handle.op

    def _use(self, operation: str, *inputs: Any, **options: Any) -> Any:
        with get_default_graph().control_dependencies([self._after]):
            return super()._use(operation, *inputs, **options)


def changeable(ref: Any) -> Any:
    """What an assignment changes: a variable or a slice of one as it is, of a value that a variable was given that variable."""
    return _Assigned(ref) if isinstance(ref, Tensor) and ref.op.kind in GIVES_VALUE else ref


# functions of a variable

def assign(ref: Variable, value: Any, validate_shape: bool = True, use_locking: bool = True,
           name: str | None = None) -> Tensor:
    """Replace the value of a variable, or of a slice such as v[1:3]; gives the new value of the whole variable. Raises
    DtypeError or ShapeError where `value` does not fit.

    With `validate_shape=False` the variable takes the shape of the value, as do its readers in a step; what the graph was told
    of its shape stays as it is. A branch or loop cannot follow a variable that was made with a known shape.
    """
    ref, value = changeable(ref), convert(value, ref.dtype)
    if not validate_shape and ref.shape.sizes is not None and not (value.shape.known and value.shape == ref.shape):
        ref.graph.changing(ref.op)
        ref.graph.held.setdefault(FREED, set()).add(ref.op)
        return ref._use("assign_freely", value, name=name)
    return ref.assign(value, name=name)


def assign_add(ref: Variable, value: Any, use_locking: bool = True, name: str | None = None) -> Tensor:
    """Add `value`, of the variable's dtype and shape, to a variable; gives the new value."""
    return changeable(ref).assign_add(value, name=name)


def assign_sub(ref: Variable, value: Any, use_locking: bool = True, name: str | None = None) -> Tensor:
    """Subtract `value`, of the variable's dtype and shape, from a variable; gives the new value."""
    return changeable(ref).assign_sub(value, name=name)


def is_variable_initialized(variable: Any) -> Tensor:
    """bool scalar: has it, a variable or the tensor that stands for it in the graph, a value?"""
    found: Tensor = ops.is_variable_initialized(variable) if isinstance(variable, Tensor) else variable.is_initialized()
    return found


# collections

def add_to_collection(name: str, value: Any) -> None:
    """Add `value` to a collection of the default graph."""
    root_graph().add_to_collection(name, value)


def get_collection(key: str, scope: str | None = None) -> list[Any]:
    """A copy of a collection of the default graph; `scope` is a regular expression that names must begin with."""
    return root_graph().get_collection(key, scope)


def get_collection_ref(key: str) -> list[Any]:
    """A collection of the default graph itself."""
    return root_graph().get_collection_ref(key)


def global_variables(scope: str | None = None) -> list[Variable]:
    """All variables that a checkpoint would hold."""
    return get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


def local_variables(scope: str | None = None) -> list[Variable]:
    """Variables of this process alone, such as counters of metrics; no checkpoint holds them."""
    return get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def trainable_variables(scope: str | None = None) -> list[Variable]:
    """The variables that optimizers change by default."""
    return get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def model_variables(scope: str | None = None) -> list[Variable]:
    """Variables that were added to the collection of model variables."""
    return get_collection(GraphKeys.MODEL_VARIABLES, scope)


def group(*inputs: Any, name: str = "group") -> Operation:
    """An operation that is done when all `inputs` (tensors, operations, variables' updates, lists of them) are."""
    graph = get_default_graph()
    flat = [item for entry in inputs for item in (entry if isinstance(entry, (list, tuple)) else [entry])]
    with graph.control_dependencies([i.values if isinstance(i, IndexedSlices) else i for i in flat if i is not None]):
        return graph.create("no_op", (), {}, name)


def variables_initializer(var_list: Sequence[Variable], name: str = "init") -> Operation:
    """An operation that runs the initializers of `var_list`."""
    return group(*[v.initializer for v in var_list], name=name)


def global_variables_initializer() -> Operation:
    """An operation that initialises every global variable made so far."""
    return variables_initializer(global_variables())


def local_variables_initializer() -> Operation:
    """An operation that initialises every local variable made so far."""
    return variables_initializer(local_variables(), "init_local")


def report_uninitialized_variables(var_list: Sequence[Variable] | None = None,
                                   name: str = "report_uninitialized_variables") -> Tensor:
    """A string vector with the names (without ":0") of the variables that have no value yet."""
    chosen = list(var_list) if var_list is not None else global_variables() + local_variables()
    graph = get_default_graph()
    with graph.name_scope(name):
        if not chosen:
            return ops.constant([], "string")
        missing = ops.logical_not(ops.stack([v.is_initialized() for v in chosen]))
        return ops.boolean_mask(ops.constant([v.op.name for v in chosen], "string"), missing)
