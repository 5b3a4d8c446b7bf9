"""Layers' results by name in collections, and lengths of dimensions, as tf.contrib.layers.utils has them."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import constant_value as _constant_value
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor
from workbench.core.graph.shape import as_shape
from workbench.core.graph.subgraph import root_graph
from workbench.nn.variables import add_to_collection, get_collection, get_collection_ref

__all__ = ["append_tensor_alias", "collect_named_outputs", "constant_value", "convert_collection_to_dict", "first_dimension",
           "gather_tensors_aliases", "get_tensor_aliases", "get_variable_collections", "last_dimension",
           "n_positive_integers", "smart_cond", "static_cond", "two_element_tuple"]

_ALIASES = "__aliases"


def _aliases() -> dict[Any, list[str]]:
    """Tensor -> the names that it was given, of the current graph."""
    found = root_graph().get_collection_ref(_ALIASES)
    if not found:
        found.append({})
    known: dict[Any, list[str]] = found[0]
    return known


def append_tensor_alias(tensor: Any, alias: str) -> Any:
    """Give a tensor one more name, without a slash at its end; the tensor."""
    _aliases().setdefault(tensor, []).append(alias.removesuffix("/"))
    return tensor


def get_tensor_aliases(tensor: Any) -> list[str]:
    """The names that a tensor was given, else its own without ":0"."""
    return _aliases().get(tensor) or [tensor.name.removesuffix(":0")]


def _own_aliases(tensor: Tensor) -> list[str]:
    """The names that a tensor was given; AttributeError where it was given none."""
    found = _aliases().get(tensor)
    if found is None:
        raise AttributeError(f"{tensor.name} was given no aliases; append_tensor_alias gives one")
    return found


Tensor.aliases = property(_own_aliases)      # type: ignore[attr-defined]      # programs ask the tensor itself


def gather_tensors_aliases(tensors: Sequence[Any]) -> list[str]:
    """The names of all of them."""
    return [alias for tensor in tensors for alias in get_tensor_aliases(tensor)]


def collect_named_outputs(collections: Any, alias: str, outputs: Any) -> Any:
    """Put a tensor into collections (a name, or several) under a name; the tensor."""
    if collections:
        append_tensor_alias(outputs, alias)
        for key in [collections] if isinstance(collections, str) else collections:
            add_to_collection(key, outputs)
    return outputs


def convert_collection_to_dict(collection: str, clear_collection: bool = False) -> dict[str, Any]:
    """Name -> tensor, of the tensors of a collection in order; it is emptied where asked."""
    found = {alias: tensor for tensor in get_collection(collection) for alias in get_tensor_aliases(tensor)}
    if clear_collection:
        del get_collection_ref(collection)[:]
    return found


def constant_value(value_or_tensor_or_var: Any, dtype: Any = None) -> Any:
    """The value that follows from constants alone, as it is for a plain value; None where it is not known. ValueError for a
    tensor or a variable of another type than `dtype`."""
    given = value_or_tensor_or_var
    if not hasattr(given, "consumers") and not hasattr(given, "__tensor__"):
        return given
    if dtype is not None and as_dtype(dtype) != given.dtype:
        raise ValueError(f"constant_value: It has the wrong type {given.dtype.name} instead of {as_dtype(dtype).name}")
    return _constant_value(convert(given))


def static_cond(pred: bool, fn1: Any, fn2: Any) -> Any:
    """fn1() where `pred` is true, else fn2(), chosen while building. TypeErrors for what is no bool and no function."""
    if not callable(fn1) or not callable(fn2):
        raise TypeError("fn1 and fn2 must be callable.")
    return fn1() if pred else fn2()


def get_variable_collections(variables_collections: Any, name: str) -> Any:
    """The collections of the variable `name`: its own in a dictionary by names, or those of all."""
    return variables_collections.get(name) if isinstance(variables_collections, dict) else variables_collections


def smart_cond(pred: Any, fn1: Any, fn2: Any, name: str | None = None) -> Any:
    """static_cond where `pred` is known while building, else cond."""
    known = constant_value(pred)
    return ops.cond(pred, fn1, fn2, name=name) if known is None else static_cond(bool(known), fn1, fn2)


def _dimension(shape: Any, axis: int, min_rank: int) -> int:
    found = as_shape(shape)
    length = None if found.rank is None or found.rank < min_rank else found.as_list()[axis]
    if length is None:
        raise errors.InvalidArgumentError(f"dimension: rank of shape must be at least {min_rank} and dimension {axis} known, "
                                          f"not: {found}; set_shape it")
    return length


def first_dimension(shape: Any, min_rank: int = 1) -> int:
    """The length of the first dimension; InvalidArgumentError (a ValueError) where it is not known."""
    return _dimension(shape, 0, min_rank)


def last_dimension(shape: Any, min_rank: int = 1) -> int:
    """The length of the last dimension; InvalidArgumentError (a ValueError) where it is not known."""
    return _dimension(shape, -1, min_rank)


def n_positive_integers(n: int, value: Any) -> tuple[int, ...]:
    """`value`, a number or several, as `n` numbers; InvalidArgumentError (a ValueError) unless they are 1 or more."""
    found = (value,) * n if isinstance(value, int) else tuple(as_shape(value).as_list())
    numbers = tuple(v for v in found if isinstance(v, int) and v > 0)
    if not len(found) == len(numbers) == n:
        raise errors.InvalidArgumentError(f"n_positive_integers: value must be {n} numbers that are 1 or more, not {value!r}")
    return numbers


def two_element_tuple(int_or_tuple: Any) -> tuple[int, int]:
    """A number, or two, as two."""
    first, second = n_positive_integers(2, int_or_tuple)
    return first, second
