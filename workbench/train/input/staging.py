"""Where values wait between steps besides queues: staging areas, in their order or by key."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.shape import Shape
from workbench.train.input.queues import listed, shapes_of

__all__ = ["MapStagingArea", "StagingArea"]


class BaseStagingArea:
    """What both have: components of `dtypes`, of `shapes` and with `names` where they are given; limits of 0 are none."""

    def __init__(self, dtypes: Any, shapes: Any = None, names: Any = None, shared_name: str | None = None, capacity: int = 0,
                 memory_limit: int = 0, ordered: bool = False) -> None:
        self._kinds = [as_dtype(t) for t in listed(dtypes)]
        self._shapes = None if shapes is None else shapes_of(shapes, len(self._kinds))
        self._names = None if names is None else list(listed(names))
        if self._names is not None and len(self._names) != len(self._kinds):
            raise errors.InvalidArgumentError(f"{type(self).__name__}: {len(self._kinds)} dtypes but {len(self._names)} "
                                              "names; give one for each component")
        if capacity < 0 or memory_limit < 0:
            raise errors.InvalidArgumentError(f"{type(self).__name__}: capacity is {capacity} and memory_limit "
                                              f"{memory_limit}; they must be positive, or 0 for no bound")
        self._limits = capacity, memory_limit
        self._handle: Tensor = ops.staging_area(
            component_types=tuple(self._kinds), capacity=capacity, memory_limit=memory_limit, ordered=ordered,
            shared_name=shared_name or "", name=type(self).__name__)

    @property
    def name(self) -> str:
        """The name of its operation."""
        return self._handle.op.name

    @property
    def dtypes(self) -> list[Any]:
        """Of the components."""
        return self._kinds

    @property
    def shapes(self) -> list[Shape]:
        """Of the components; unknown where none were given."""
        return self._shapes or [Shape(None)] * len(self._kinds)

    @property
    def names(self) -> Any:
        """Of the components; None where they have none."""
        return self._names

    @property
    def capacity(self) -> int:
        """The most tuples; 0 for no bound."""
        return self._limits[0]

    @property
    def memory_limit(self) -> int:
        """The most bytes; 0 for no bound."""
        return self._limits[1]

    def size(self, name: str | None = None) -> Tensor:
        """How many wait: int32 scalar."""
        return ops.stage_size(self._handle, name=name or self._called("size"))

    def clear(self, name: str | None = None) -> Operation:
        """An operation that forgets all that wait."""
        return ops.stage_clear(self._handle, name=name or self._called("clear"))

    def _called(self, what: str) -> str:
        return f"{self.name.rpartition('/')[2]}_{what}"

    def _put(self, values: Any, indices: Sequence[int] | None) -> tuple[list[Tensor], tuple[int, ...]]:
        """Values and the components that they are, checked."""
        where = type(self).__name__
        if isinstance(values, Mapping):
            names = self._names or []
            if not values or not {*values} <= {*names}:
                raise errors.InvalidArgumentError(f"{where}: the values are called {sorted(values)} but the components "
                                                  f"{names} (Keys in dictionary to put do not match names of staging area); "
                                                  "use those names")
            indices = [i for i, name in enumerate(names) if name in values]
            given = [values[names[i]] for i in indices]
        else:
            given = list(values) if isinstance(values, (list, tuple)) else [values]
            if self._names:
                raise errors.InvalidArgumentError(f"{where}: the components have names {self._names} (You must enqueue a "
                                                  "dictionary in a staging area with names); put a dictionary")
            if indices is None or len(indices) != len(given) or any(not 0 <= i < len(self._kinds) for i in indices):
                raise errors.InvalidArgumentError(f"{where}: {len(given)} values for the components {indices} of "
                                                  f"{len(self._kinds)} (Indices must be supplied when inserting a list of "
                                                  "tensors); give the number of the component for each")
        tensors = [convert(value, self._kinds[i]) for value, i in zip(given, indices)]
        for tensor, i in zip(tensors, indices):
            if not tensor.shape.compatible(self.shapes[i]):
                raise errors.ShapeError(f"{where}: {tensor.name} has shape {tensor.shape} but component {i} has "
                                        f"{self.shapes[i]}; reshape it")
        return tensors, tuple(indices)

    def _parts(self, indices: Any) -> dict[str, Any]:
        """Attributes of a take of these components, numbers or names (None: all)."""
        if indices is None:
            indices = range(len(self._kinds))
        places = [self._names.index(i) if self._names and i in self._names else i for i in indices]
        if not places or any(not isinstance(i, int) or not 0 <= i < len(self._kinds) for i in places):
            raise errors.InvalidArgumentError(f"{type(self).__name__}: indices are {list(indices)} but there are "
                                              f"{len(self._kinds)} "
                                              f"components{f' called {self._names}' if self._names else ''}; name some of "
                                              "them")
        return {"indices": tuple(places), "component_types": tuple(self._kinds[i] for i in places),
                "shapes": tuple(self.shapes[i] for i in places)}

    def _given(self, found: Any, indices: Sequence[int]) -> Any:
        tensors = list(found) if isinstance(found, (list, tuple)) else [found]
        return {self._names[i]: t for i, t in zip(indices, tensors)} if self._names else tensors


class StagingArea(BaseStagingArea):
    """A buffer on a device: `put` and `get` whole tuples, first in, first out; at most `capacity` of them and `memory_limit`
    bytes (0: any number)."""

    def __init__(self, dtypes: Any, shapes: Any = None, names: Any = None, shared_name: str | None = None, capacity: int = 0,
                 memory_limit: int = 0) -> None:
        super().__init__(dtypes, shapes, names, shared_name, capacity, memory_limit)

    def put(self, values: Any, name: str | None = None) -> Operation:
        """An operation that adds a tuple: a list, or a dictionary by names; waits while there is no room."""
        count = len(values) if isinstance(values, (list, tuple, Mapping)) else 1
        tensors, indices = self._put(values, range(count))
        if len(indices) != len(self._kinds):
            raise errors.InvalidArgumentError(f"StagingArea: {len(indices)} values but {len(self._kinds)} components; put "
                                              "whole tuples")
        return ops.stage_append(self._handle, tensors, name=name or self._called("put"))

    def get(self, name: str | None = None) -> Any:
        """The oldest tuple, a list (a dictionary where components have names); waits for one."""
        parts = self._parts(None)
        return self._given(ops.stage_take_any(self._handle, **parts, name=name or self._called("get"))[1:], parts["indices"])

    def peek(self, index: Any, name: str | None = None) -> Any:
        """The tuple with `index` others before it, which stays; waits for it."""
        parts = self._parts(None)
        indices = parts.pop("indices")
        return self._given(ops.stage_peek(self._handle, index, **parts, name=name or self._called("peek")), indices)


class MapStagingArea(BaseStagingArea):
    """Tuples by int64 key, put and taken whole or in parts; taken without a key in the order of keys where it is `ordered`,
    else in the order of their coming. At most `capacity` complete ones and `memory_limit` bytes (0: any number)."""

    def __init__(self, dtypes: Any, shapes: Any = None, names: Any = None, shared_name: str | None = None, ordered: bool =
    False, capacity: int = 0, memory_limit: int = 0) -> None:
        super().__init__(dtypes, shapes, names, shared_name, capacity, memory_limit, ordered)

    def put(self, key: Any, vals: Any, indices: Any = None, name: str | None = None) -> Operation:
        """An operation that adds components to the tuple of a key: a dictionary by names, or a list with their `indices`; waits
        while there is no room."""
        tensors, places = self._put(vals, indices)
        return ops.stage_put(self._handle, convert(key, "int64"), tensors, indices=places, name=name or self._called("put"))

    def get(self, key: Any = None, indices: Any = None, name: str | None = None) -> tuple[Any, Any]:
        """(key, components), of the first tuple where no key is given; they are gone then. Waits for it."""
        parts = self._parts(indices)
        if key is None:
            key, *found = ops.stage_take_any(self._handle, **parts, name=name or self._called("get_nokey"))
        else:
            found = ops.stage_take(self._handle, convert(key, "int64"), **parts, name=name or self._called("get"))
        return key, self._given(found, parts["indices"])

    def peek(self, key: Any, indices: Any = None, name: str | None = None) -> Any:
        """The components of the tuple of a key, which stay; waits for it."""
        parts = self._parts(indices)
        return self._given(ops.stage_take(self._handle, convert(key, "int64"), **parts, keep=True,
                                          name=name or self._called("peek")), parts["indices"])

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """How many lack components: int32 scalar."""
        return ops.stage_incomplete_size(self._handle, name=name or self._called("incomplete_size"))
