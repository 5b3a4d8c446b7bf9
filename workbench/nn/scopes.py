"""Variables by name: variable scopes, get_variable, sharing by reuse."""
from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert
from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.graph import Graph, Tensor, get_default_graph
from workbench.core.graph.shape import Shape, as_shape
from workbench.core.graph.subgraph import root_graph
from workbench.nn.blocks import SaveSliceInfo
from workbench.nn.initializers import Zeros, glorot_uniform_initializer
from workbench.nn.partitions import PartInfo, PartitionedVariable, along, part_initializer, share_parts
from workbench.nn.variables import GraphKeys, Variable, add_to_collection, near

__all__ = ["AUTO_REUSE", "VariableScope", "get_local_variable", "get_variable", "get_variable_scope", "variable_scope"]


class _AutoReuse:
    def __repr__(self) -> str:
        return "AUTO_REUSE"

    def __bool__(self) -> bool:
        return True


AUTO_REUSE = _AutoReuse()
"""As `reuse`: share a variable that exists, make one that does not."""


class VariableScope:
    """The defaults in force where a variable is asked for: reuse, name prefix, initializer, regularizer and so on."""

    def __init__(self, reuse: Any = False, name: str = "", initializer: Any = None, regularizer: Any = None,
                 caching_device: Any = None, partitioner: Any = None, custom_getter: Any = None, name_scope: str = "",
                 dtype: Any = "float32", use_resource: Any = None, constraint: Any = None) -> None:
        self.name, self.reuse, self.initializer, self.regularizer = name, reuse, initializer, regularizer
        self.caching_device, self.partitioner, self.custom_getter = caching_device, partitioner, custom_getter
        self.dtype, self.original_name_scope, self.constraint = as_dtype(dtype), name_scope, constraint
        self.use_resource = use_resource

    def set_initializer(self, initializer: Any) -> None:
        """From here on this is the default initializer."""
        self.initializer = initializer

    def set_regularizer(self, regularizer: Any) -> None:
        """From here on this is the default regularizer."""
        self.regularizer = regularizer

    def set_dtype(self, dtype: Any) -> None:
        """From here on this is the default dtype."""
        self.dtype = as_dtype(dtype)

    def set_caching_device(self, caching_device: Any) -> None:
        """From here on readers get their copies there."""
        self.caching_device = caching_device

    def set_use_resource(self, use_resource: Any) -> None:
        """Every variable is a resource: this is kept, and changes nothing."""
        self.use_resource = use_resource

    def set_partitioner(self, partitioner: Any) -> None:
        """From here on variables are cut like this."""
        self.partitioner = partitioner

    def set_custom_getter(self, custom_getter: Any) -> None:
        """From here on variables are asked for through this function."""
        self.custom_getter = custom_getter

    def get_variable(self, name: str, *args: Any, **options: Any) -> Any:
        """get_variable in this scope, wherever one is."""
        with variable_scope(self):
            return get_variable(name, *args, **options)

    def reuse_variables(self) -> None:
        """From here on, variables of this scope must exist."""
        self.reuse = True

    def global_variables(self) -> list[Variable]:
        """The global variables whose names begin with this scope's."""
        return self._mine(GraphKeys.GLOBAL_VARIABLES)

    def trainable_variables(self) -> list[Variable]:
        """The trainable variables whose names begin with this scope's."""
        return self._mine(GraphKeys.TRAINABLE_VARIABLES)

    def local_variables(self) -> list[Variable]:
        """The local variables whose names begin with this scope's."""
        return self._mine(GraphKeys.LOCAL_VARIABLES)

    def get_collection(self, name: str) -> list[Any]:
        """What a collection holds whose names begin with this scope's."""
        return self._mine(name)

    def _mine(self, key: str) -> list[Any]:
        prefix = f"{self.name}/" if self.name else ""
        return [v for v in root_graph().get_collection(key) if getattr(v, "name", "").startswith(prefix)]

    def __repr__(self) -> str:
        return f"<VariableScope {self.name!r} reuse={self.reuse}>"


class _Store:
    """The variables of one graph by name, and which scopes were opened; scopes are entered per thread."""

    KEY = "__variable_store"

    def __init__(self) -> None:
        self.variables: dict[str, Variable] = {}
        self.parted: dict[str, PartitionedVariable] = {}
        self.counts: dict[str, int] = {}
        self._local = threading.local()
        self._root = VariableScope()

    @classmethod
    def of(cls, graph: Graph) -> _Store:
        found = graph.get_collection_ref(cls.KEY)
        if not found:
            found.append(cls())
        return found[0]

    @property
    def scope(self) -> VariableScope:
        return getattr(self._local, "scope", self._root)

    @contextlib.contextmanager
    def within(self, scope: VariableScope, again: bool) -> Iterator[VariableScope]:
        """`scope` is in force; entered `again`, as an object, it leaves the numbering of inner scopes as it was."""
        before, counts = self.scope, dict(self.counts)
        self._local.scope = scope
        try:
            yield scope
        finally:
            self._local.scope = before
            if again:
                self.counts = counts
            else:
                self.forget_below(scope.name)

    def unique(self, name: str) -> str:
        """`name` below the current scope, numbered when it was opened there already."""
        candidate, number = name, 0
        while self.counts.get(_join(self.scope.name, candidate), 0):
            number += 1
            candidate = f"{name}_{number}"
        return candidate

    def opened(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def forget_below(self, name: str) -> None:
        """Entering a scope again numbers its inner scopes from the start, so that reuse finds the same names."""
        for key in [k for k in self.counts if k.startswith(f"{name}/")]:
            del self.counts[key]


def _join(prefix: str, name: str) -> str:
    return f"{prefix}/{name}" if prefix and name else prefix or name


def get_variable_scope() -> VariableScope:
    """The variable scope in force."""
    return _Store.of(root_graph()).scope


def free_scope(name: str) -> str:
    """`name`, numbered when a variable scope of that name was opened in the one in force."""
    return _Store.of(root_graph()).unique(name)


@contextlib.contextmanager
def variable_scope(name_or_scope: str | VariableScope | None, default_name: str | None = None, values: Any = None,
                   initializer: Any = None, regularizer: Any = None, caching_device: Any = None, partitioner: Any = None,
                   custom_getter: Any = None, reuse: Any = None, dtype: Any = None, use_resource: Any = None,
                   constraint: Any = None, auxiliary_name_scope: bool = True) -> Iterator[VariableScope]:
    """Names of get_variable below carry `name/`; with `auxiliary_name_scope` operations get a name scope of the same name.

    A VariableScope is entered again as it was. With None, `default_name` is made unique, among variables and among names.
    `reuse` is True (variables must exist), False (must not), AUTO_REUSE, or None to inherit; the other arguments are defaults
    of get_variable below. A `custom_getter` calls the one of the outer scope as its getter.
    """
    store, wanted = _Store.of(root_graph()), name_or_scope
    if wanted is None and default_name is None:
        raise errors.InvalidArgumentError("variable_scope: neither a name nor default_name is given; pass one")
    again = isinstance(wanted, VariableScope)
    title = wanted.name.rpartition("/")[2] if isinstance(wanted, VariableScope) else wanted or str(default_name or "")
    scope = entered(wanted if isinstance(wanted, VariableScope) else opened(wanted, title), reuse, initializer,
                    regularizer, caching_device, partitioner, custom_getter, dtype, use_resource, constraint)
    with get_default_graph().name_scope(title) if title and auxiliary_name_scope else contextlib.nullcontext("") as name_scope:
        scope.original_name_scope = scope.original_name_scope if again else name_scope
        with store.within(scope, again):
            yield scope


def entered(wanted: str | VariableScope, reuse: Any, initializer: Any, regularizer: Any, caching_device: Any, partitioner: Any,
            custom_getter: Any, dtype: Any, use_resource: Any, constraint: Any) -> VariableScope:
    """The scope of the full name `wanted`, or that scope again, with these defaults before its own or the outer one's."""
    outer, again = get_variable_scope(), isinstance(wanted, VariableScope)
    base = wanted if isinstance(wanted, VariableScope) else outer
    inherited = base.reuse or (outer.reuse if reuse is None else reuse) if again else reuse or outer.reuse
    return VariableScope(
        inherited, base.name if again else str(wanted), base.initializer if initializer is None else initializer,
        regularizer or base.regularizer, base.caching_device if caching_device is None else caching_device or None,
        partitioner or base.partitioner, chained(custom_getter, base.custom_getter), base.original_name_scope if again else "",
        dtype or base.dtype, use_resource, constraint or base.constraint)


@contextlib.contextmanager
def in_force(scope: VariableScope, again: bool) -> Iterator[VariableScope]:
    """`scope` is the variable scope, entered `again` or for the first time; the names of operations stay as they are."""
    with _Store.of(root_graph()).within(scope, again):
        yield scope


def opened(name: str | None, default_name: str) -> str:
    """The full name of the scope `name`, or of `default_name` made unique, which is taken from now on."""
    store = _Store.of(root_graph())
    full = _join(store.scope.name, store.unique(default_name) if name is None else name)
    store.opened(full)
    return full


def chained(inner: Any, outer: Any) -> Any:
    """`inner`, whose getter is `outer` where there is one."""
    if inner is None or outer is None:
        return inner or outer
    return lambda getter, *args, **options: inner(functools.partial(outer, getter), *args, **options)


def get_variable(name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, regularizer: Any = None,
                 trainable: bool = True, collections: Iterable[str] | None = None, caching_device: Any = None,
                 partitioner: Any = None, validate_shape: bool = True, use_resource: Any = None,
                 custom_getter: Any = None, constraint: Any = None) -> Any:
    """The variable `name` of the scope in force: made, or found, as the scope's `reuse` says.

    `initializer` is a function of (shape, dtype), or a value (then `shape` must be None); the default is the scope's,
    else glorot_uniform for floats and zeros for the rest. Raises InvalidArgumentError (a ValueError) when the variable
    exists but may not be shared, or must exist but does not, or when shape or dtype differ. `custom_getter(getter, name,
    **arguments)` is asked instead, with the full name, and may call `getter` with other arguments, or not; `partitioner`
    (shape=, dtype=) says into how many parts each axis is cut, the result is a PartitionedVariable; `constraint` is applied to
    the value after each update.
    """
    scope = get_variable_scope()
    options = {"shape": shape, "dtype": dtype, "initializer": scope.initializer if initializer is None else initializer,
               "regularizer": regularizer or scope.regularizer, "reuse": scope.reuse, "trainable": trainable,
               "collections": collections, "caching_device": caching_device or scope.caching_device,
               "partitioner": partitioner or scope.partitioner, "validate_shape": validate_shape,
               "use_resource": use_resource, "constraint": constraint or scope.constraint}
    asked, full = custom_getter or scope.custom_getter, _join(scope.name, name)
    if asked is None:
        return _get(full, **options)
    if not callable(asked):
        raise errors.InvalidArgumentError(f"get_variable: Passed a custom_getter which is not callable: {asked!r}; pass a "
                                          "function of a getter and a name")
    if not _takes(asked, "constraint"):
        del options["constraint"]
    with get_default_graph().name_scope(None):
        return asked(getter=_get, name=full, **options)


def _takes(function: Any, name: str) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(p.name == name or p.kind is p.VAR_KEYWORD for p in parameters)


def _get(name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, regularizer: Any = None, reuse: Any = None,
         trainable: bool = True, collections: Iterable[str] | None = None, caching_device: Any = None, partitioner: Any = None,
         validate_shape: bool = True, use_resource: Any = None, constraint: Any = None) -> Any:
    """The variable of this full name, made or found."""
    if partitioner is not None and not callable(partitioner):
        raise errors.InvalidArgumentError(f"get_variable: {name!r}: partitioner {partitioner!r} is not a function; pass one of "
                                          "shape and dtype")
    whole = shape
    if partitioner is not None and shape is None and initializer is not None and not callable(initializer):
        initializer = convert(initializer)      # a value tells the shape that is cut
        whole = initializer.shape
    slices = [] if partitioner is None or whole is None or as_shape(whole).rank == 0 else list(partitioner(
        shape=as_shape(whole), dtype=as_dtype(dtype or get_variable_scope().dtype)))
    if slices:
        return _get_parts(name, list(as_shape(whole).static), slices, dtype=dtype, initializer=initializer,
                          regularizer=regularizer, reuse=reuse, trainable=trainable, collections=collections,
                          caching_device=caching_device, constraint=constraint)
    store = _Store.of(root_graph())
    if reuse and name in store.parted:
        return share_parts(store.parted[name], slices)
    scope, full = copy.copy(store.scope), name
    scope.reuse = AUTO_REUSE if reuse is None else reuse      # a getter of the program that says nothing of it takes both
    wanted = as_dtype(dtype) if dtype is not None else None
    found = store.variables.get(full)
    if found is not None:
        return _share(found, full, shape, wanted, scope)
    if scope.reuse is True:
        raise errors.InvalidArgumentError(f"get_variable: {full!r} does not exist but reuse=True; make it first, or use "
                                          "reuse=AUTO_REUSE (it does not exist, or was not created with tf.get_variable())")
    made = Variable(_initial(full, shape, wanted or scope.dtype, dtype is None, initializer), trainable, collections,
                    validate_shape, caching_device, _free(full), dtype=wanted, constraint=constraint)
    store.variables[full] = made
    _regularize(made, regularizer)
    return made


def _get_parts(name: str, shape: list[int], slices: list[int], initializer: Any, **options: Any) -> PartitionedVariable:
    """The parts of a variable cut along one axis: `name`/part_0, part_1 …, the first ones longer where it does not come out."""
    cut = [axis for axis, count in enumerate(slices) if count > 1] or [0]
    if len(cut) > 1 or len(slices) != len(shape):
        raise errors.InvalidArgumentError(f"get_variable: {name!r} of shape {shape} is asked in {slices} parts; cut it along "
                                          "one axis")
    axis, parted = cut[0], _Store.of(root_graph()).parted
    if name in parted and options["reuse"]:
        return share_parts(parted[name], slices)
    each, more = divmod(shape[axis], slices[axis])
    lengths: list[int] = [each + (i < more) for i in range(slices[axis])]
    parts, begin = [], 0
    for number, length in enumerate(lengths):
        inside, offset = [*shape[:axis], length, *shape[axis + 1:]], tuple(begin if i == axis else 0 for i in range(len(shape)))
        value, own = initializer, inside
        if value is None:
            value = _default(as_dtype(options["dtype"] or get_variable_scope().dtype))
        if isinstance(value, type) or (callable(value) and not isinstance(value, (Tensor, Variable))):
            value = part_initializer(value, PartInfo(tuple(shape), offset, number))
        else:
            value, own = along(convert(value), axis, begin, length), []
        parts.append(_get(f"{name}/part_{number}", own or None, initializer=value, **options))
        parts[-1]._set_save_slice_info(SaveSliceInfo(name, tuple(shape), offset, tuple(inside)))
        begin += length
    parted[name] = PartitionedVariable(parts)
    return parted[name]


def _share(found: Variable, full: str, shape: Any, dtype: DType | None, scope: VariableScope) -> Variable:
    if not scope.reuse:
        raise errors.InvalidArgumentError(f"get_variable: Variable {full} already exists, disallowed. Built at "
                                          f"{found.op.source}; enter its scope with reuse=True or AUTO_REUSE, or rename it")
    if shape is not None and not as_shape(shape).compatible(found.shape):
        raise errors.InvalidArgumentError(f"get_variable: {full!r} has shape {found.shape} but {as_shape(shape)} is "
                                          "asked; ask for its shape, or choose another name")
    if dtype is not None and dtype is not found.dtype:
        raise errors.InvalidArgumentError(f"get_variable: {full!r} is {found.dtype.name} but {dtype.name} is asked; "
                                          "ask for its dtype, or choose another name")
    return found


def _free(full: str) -> str:
    """A literal operation name, `full` where it is free."""
    graph = root_graph()
    try:
        graph.operation(full)
    except errors.NotFoundError:
        return full + "/"
    with graph.name_scope(None):
        return str(graph.unique_name(full)) + "/"


def _default(dtype: DType) -> Any:
    return glorot_uniform_initializer() if dtype.is_floating else Zeros()


def _initial(full: str, shape: Any, dtype: DType, guess: bool, initializer: Any) -> Callable[[], Any] | Any:
    if initializer is None:
        initializer = _default(dtype)
    if isinstance(initializer, type):
        initializer = initializer()
    if not callable(initializer) or isinstance(initializer, (Tensor, Variable)):
        if shape is not None and not as_shape(shape).compatible(convert(initializer).shape):
            raise errors.InvalidArgumentError(f"get_variable: {full!r} is asked with shape {as_shape(shape)} but its "
                                              f"initial value has {convert(initializer).shape}; leave the shape out")
        with contextlib.nullcontext() if isinstance(initializer, (Tensor, Variable)) else root_graph().as_default():
            given = convert(initializer, None if hasattr(initializer, "dtype") else dtype)      # not in the body of a branch
        if not guess and given.dtype is not dtype:
            raise errors.DtypeError(f"get_variable: {full!r}: Initializer type {given.dtype.name} and explicit dtype "
                                    f"{dtype.name} don't match; leave the dtype out, or cast the value")
        return initializer if guess else given
    dims = Shape(None) if shape is None else as_shape(shape)
    if not dims.known:
        raise errors.InvalidArgumentError(f"get_variable: {full!r} is new and its shape is {dims}; pass a fully known "
                                          "shape, or a value as initializer")
    return lambda: part_initializer(initializer, None)(list(dims.static), dtype)


def _regularize(variable: Variable, regularizer: Any) -> None:
    if regularizer is None:
        return
    graph = root_graph()
    with graph.as_default(), graph.name_scope(variable.op.name + "/Regularizer/"), near(variable):
        loss = regularizer(variable)
    if loss is not None:
        add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)


def get_local_variable(name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, **options: Any) -> Variable:
    """get_variable for state of this process alone: not trained, not saved."""
    collections = [*(options.pop("collections", None) or ()), GraphKeys.LOCAL_VARIABLES]
    return get_variable(name, shape, dtype, initializer, **{**options, "trainable": False, "collections": collections})
