"""Tables that steps add to, and the older ways to make tables of words, as tf.contrib.lookup has them."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import errors
from workbench.core.graph.build import constant_value, convert, ops
from workbench.core.graph.dtype import as_dtype, string
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.nn import lookups
from workbench.nn.lookups import FastHashSpec, HashTable, LookupInterface
from workbench.nn.saveables import SaveableObject, SaveSpec
from workbench.nn.variables import GraphKeys, add_to_collection

__all__ = ["MutableDenseHashTable", "MutableHashTable", "index_table_from_tensor", "index_to_string",
           "index_to_string_table_from_tensor", "string_to_index", "string_to_index_table_from_file",
           "string_to_index_table_from_tensor"]


class _Saved(SaveableObject):
    """A table in checkpoints: its keys and its values under its name, as TensorFlow's."""

    def __init__(self, table: _Growing, name: str) -> None:
        with table._beside():
            keys, values = table.export()
        super().__init__(table, [SaveSpec(keys, "", f"{name}-keys"), SaveSpec(values, "", f"{name}-values")], name)

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Any) -> Operation:
        with self.op._beside():
            made: Operation = ops.growing_table_import(self.op.table_ref, *restored_tensors)
        return made


class _Growing(LookupInterface):
    """A table that begins empty; `insert` adds to it. Other keys give `default_value`, whose shape all values have."""

    def __init__(self, key_dtype: Any, value_dtype: Any, default_value: Any, shared_name: str | None, name: str,
                 checkpoint: bool, **options: Any) -> None:
        self.default_value = convert(default_value, as_dtype(value_dtype), "default_value")
        self._shapes = {"key_shape": options.pop("key_shape", ()), "value_shape": self.default_value.shape.static}
        self._types = {"key_dtype": as_dtype(key_dtype), "value_dtype": as_dtype(value_dtype)}
        self.table_ref: Tensor = ops.growing_table(**self._types, **self._shapes, shared_name=shared_name or "", name=name,
                                                   **options)
        super().__init__(key_dtype, value_dtype, self.table_ref.op.name.rpartition("/")[2])
        self.init = ops.no_op()
        if checkpoint:
            add_to_collection(GraphKeys.SAVEABLE_OBJECTS, _Saved(self, name))

    def _beside(self) -> Any:
        return get_default_graph().colocate_with(self.table_ref.op)

    def size(self, name: str | None = None) -> Tensor:
        """How many keys it has: int64 scalar."""
        made: Tensor = ops.table_size(self.table_ref, name=name or f"{self.name}_Size")
        return made

    def _found(self, keys: Tensor, name: str | None) -> Tensor:
        with self._beside():
            made: Tensor = ops.growing_table_find(
                self.table_ref, keys, self.default_value, value_dtype=self.value_dtype, **self._shapes,
                name=name or f"{self.name}_lookup_table_find")
        return made

    def insert(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """An operation that adds keys with their values. TypeError (a DtypeError) for others than the table's."""
        given = {"key": convert(keys), "value": convert(values)}
        for kind, tensor in given.items():
            if tensor.dtype is not self._types[f"{kind}_dtype"]:
                wanted = self._types[f"{kind}_dtype"].name
                raise errors.DtypeError(f"{self.name}: Invalid {kind} dtype, expected {wanted} but got {tensor.dtype.name}; "
                                        f"cast the {kind}s")
        with self._beside():
            made: Operation = ops.growing_table_insert(self.table_ref, given["key"], given["value"],
                                                       name=name or f"{self.name}_lookup_table_insert")
        return made

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """All keys, and all values."""
        keys, values = ops.growing_table_export(self.table_ref, **self._types, **self._shapes,
                                                name=name or f"{self.name}_lookup_table_export_values")
        return keys, values


class MutableHashTable(_Growing):
    """A table that begins empty and that steps add to: values of the shape of `default_value` by numbers or strings."""

    def __init__(self, key_dtype: Any, value_dtype: Any, default_value: Any, shared_name: str | None = None,
                 name: str = "MutableHashTable", checkpoint: bool = True) -> None:
        super().__init__(key_dtype, value_dtype, default_value, shared_name, name, checkpoint)


class MutableDenseHashTable(_Growing):
    """As MutableHashTable, by keys of the shape of `empty_key`, which no key may be equal to."""

    def __init__(self, key_dtype: Any, value_dtype: Any, default_value: Any, empty_key: Any,
                 initial_num_buckets: int | None = None, shared_name: str | None = None, name: str = "MutableDenseHashTable",
                 checkpoint: bool = True) -> None:
        reserved = constant_value(convert(empty_key, as_dtype(key_dtype), "empty_key"))
        if reserved is None:
            raise errors.InvalidArgumentError("MutableDenseHashTable: empty_key is known only at run time; give a constant")
        super().__init__(key_dtype, value_dtype, default_value, shared_name, name, checkpoint, key_shape=reserved.shape,
                         empty_key=reserved, buckets=initial_num_buckets)


# the older signatures

def index_table_from_tensor(mapping: Any, num_oov_buckets: int = 0, default_value: int = -1, hasher_spec: Any = FastHashSpec,
                            dtype: Any = string, name: str | None = None) -> Any:
    """The table of tf.contrib.lookup: as workbench.nn.lookups', whose first argument has another name."""
    if mapping is None:
        raise errors.InvalidArgumentError("index_table_from_tensor: mapping must be specified.")
    return lookups.index_table_from_tensor(mapping, num_oov_buckets, default_value, hasher_spec, dtype, name)


def string_to_index_table_from_file(vocabulary_file: Any = None, num_oov_buckets: int = 0, vocab_size: int | None = None,
                                    default_value: int = -1, hasher_spec: Any = FastHashSpec, name: str | None = None) -> Any:
    """index_table_from_file of strings."""
    return lookups.index_table_from_file(vocabulary_file, num_oov_buckets, vocab_size, default_value, hasher_spec, name=name)


def string_to_index_table_from_tensor(mapping: Any, num_oov_buckets: int = 0, default_value: int = -1,
                                      hasher_spec: Any = FastHashSpec, name: str | None = None) -> Any:
    """index_table_from_tensor of strings. ValueError for others."""
    words = convert(mapping)
    if words.dtype is not string:
        raise errors.InvalidArgumentError("string_to_index_table_from_tensor requires string.")
    return index_table_from_tensor(words, num_oov_buckets, default_value, hasher_spec, name=name)


def string_to_index(tensor: Any, mapping: Any, default_value: int = -1, name: str | None = None) -> Tensor:
    """The places of strings in `mapping` [n]: int64 of their shape, `default_value` for others."""
    found: Tensor = index_table_from_tensor(mapping, default_value=default_value, name=name).lookup(tensor)
    return found


def index_to_string_table_from_tensor(mapping: Any, default_value: Any = "UNK", name: str | None = None) -> HashTable:
    """The table of tf.contrib.lookup: as workbench.nn.lookups', whose first argument has another name."""
    if mapping is None:
        raise errors.InvalidArgumentError("index_to_string_table_from_tensor: mapping must be specified.")
    return lookups.index_to_string_table_from_tensor(mapping, default_value, name)


def index_to_string(tensor: Any, mapping: Any, default_value: Any = "UNK", name: str | None = None) -> Tensor:
    """The elements of `mapping` [n] at these places, `default_value` where there is none."""
    found: Tensor = index_to_string_table_from_tensor(mapping, default_value, name).lookup(tensor)
    return found
