"""Lookup tables: values by keys, from lists or text files, such as words to numbers and back (tf.contrib.lookup)."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, convert, ops
from workbench.core.graph.dtype import DType, as_dtype, int64, string
from workbench.core.graph.graph import Operation, Tensor, get_default_graph
from workbench.nn.sparse import SparseTensor
from workbench.nn.variables import GraphKeys, add_to_collection, get_collection, group, local_variables_initializer

__all__ = [
    "FastHashSpec", "HashTable", "HasherSpec", "IdTableWithHashBuckets", "InitializableLookupTableBase",
    "KeyValueTensorInitializer", "LookupInterface", "StrongHashSpec", "TableInitializerBase", "TextFileIdTableInitializer",
    "TextFileIndex", "TextFileInitializer", "TextFileStringTableInitializer", "index_table_from_file",
    "index_table_from_tensor", "index_to_string_table_from_file", "index_to_string_table_from_tensor"]


def tables_initializer(name: str = "init_all_tables") -> Operation:
    """An operation that fills every lookup table of the graph."""
    return group(*get_collection(GraphKeys.TABLE_INITIALIZERS), name=name)


def local_initializer() -> Operation:
    """An operation that initialises local variables, and fills the tables where the graph has some."""
    local = local_variables_initializer()
    return group(local, tables_initializer()) if get_collection(GraphKeys.TABLE_INITIALIZERS) else local


def _scope(name: str | None, default: str) -> Any:
    return get_default_graph().name_scope((name or default).rstrip("/"))


# what fills tables

class TableInitializerBase:
    """What fills a table: the dtypes of its keys and values, and `initialize(table)`, which makes the operation that does."""

    def __init__(self, key_dtype: Any, value_dtype: Any) -> None:
        self.key_dtype, self.value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)

    def initialize(self, table: Any) -> Operation:
        """The operation that fills `table`, also in the collection of tables' initializers."""
        raise errors.UnimplementedError(f"{type(self).__name__}: it has no method initialize; write one")

    def _made(self, table: Any, make: Callable[[], Operation]) -> Operation:
        for kind in ("key_dtype", "value_dtype"):
            if getattr(table, kind) is not getattr(self, kind):
                raise TypeError(f"{type(self).__name__}: its {kind} is {getattr(self, kind).name} but that of the table is "
                                f"{getattr(table, kind).name}; make them agree")
        made = make()
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, made)
        return made


class KeyValueTensorInitializer(TableInitializerBase):
    """Fills a table with keys [n] and their values [n]; dtypes where the data does not say them."""

    def __init__(self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None, name: str | None = None) -> None:
        for dtype in (key_dtype, value_dtype):
            if isinstance(dtype, (list, tuple)):
                raise TypeError(f"KeyValueTensorInitializer: {dtype!r} is not a dtype; pass one")
        with _scope(name, "key_value_init"):
            self._keys, self._values = convert(keys, key_dtype, "keys"), convert(values, value_dtype, "values")
        self._name = name
        super().__init__(self._keys.dtype, self._values.dtype)

    def initialize(self, table: Any) -> Operation:
        """As the base; ShapeError where keys and values are not as many."""
        return self._made(table, lambda: ops.table_fill(table.table_ref, self._keys, self._values,
                                                        name=self._name or "key_value_init"))


class TextFileIndex:
    """What of a line is a key or a value, beside its columns 0, 1, …"""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class TextFileInitializer(TableInitializerBase):
    """Fills a table with the lines of a text file: of each line its columns `key_index` and `value_index`, counted from 0 and
    separated by `delimiter`, or what TextFileIndex names. `filename` may be a string scalar of the graph; it is read where
    the table is. With `vocab_size` that many lines are taken, and the file must have them."""

    def __init__(self, filename: Any, key_dtype: Any, key_index: int, value_dtype: Any, value_index: int,
                 vocab_size: int | None = None, delimiter: str = "\t", name: str | None = None) -> None:
        super().__init__(key_dtype, value_dtype)
        if not isinstance(filename, Tensor) and not filename:
            raise errors.InvalidArgumentError("TextFileInitializer: Filename required; pass the path of a text file")
        for what, index, dtype in (("key", key_index, self.key_dtype), ("value", value_index, self.value_dtype)):
            allowed = {TextFileIndex.LINE_NUMBER: dtype is int64, TextFileIndex.WHOLE_LINE: dtype is string or (
                what == "key" and dtype.kind == "int")}
            if index < -2 or not allowed.get(index, True):
                raise errors.InvalidArgumentError(f"TextFileInitializer: Signature mismatch: {what}_index {index} gives no "
                                                  f"{dtype.name}; line numbers are int64, whole lines string")
        if vocab_size is not None and vocab_size <= 0:
            raise errors.InvalidArgumentError(f"TextFileInitializer: Invalid vocab_size {vocab_size}; leave it out")
        self._filename, self._name = filename, name
        self._options = {"key_index": key_index, "value_index": value_index, "delimiter": delimiter,
                         "vocab_size": -1 if vocab_size is None else vocab_size}

    def initialize(self, table: Any) -> Operation:
        """As the base; the name of the file, where it is known, is in the collection of files that a model needs."""
        with _scope(self._name, "text_file_init"):
            filename = convert(self._filename, string, "asset_filepath")
            made = self._made(table, lambda: ops.table_fill_from_file(table.table_ref, filename, **self._options,
                                                                      name="fill"))
        if filename.op.kind == "constant":
            add_to_collection(GraphKeys.ASSET_FILEPATHS, filename)
        return made


class TextFileStringTableInitializer(TextFileInitializer):
    """Fills a table from numbers to strings: by default from line numbers to lines."""

    def __init__(self, filename: Any, key_column_index: int = TextFileIndex.LINE_NUMBER,
                 value_column_index: int = TextFileIndex.WHOLE_LINE, vocab_size: int | None = None, delimiter: str = "\t",
                 name: str | None = "text_file_string_table_init") -> None:
        super().__init__(filename, int64, key_column_index, string, value_column_index, vocab_size, delimiter, name)


class TextFileIdTableInitializer(TextFileInitializer):
    """Fills a table from strings (or integers) to numbers: by default from lines to line numbers."""

    def __init__(self, filename: Any, key_column_index: int = TextFileIndex.WHOLE_LINE,
                 value_column_index: int = TextFileIndex.LINE_NUMBER, vocab_size: int | None = None, delimiter: str = "\t",
                 name: str | None = "text_file_id_table_init", key_dtype: Any = string) -> None:
        super().__init__(filename, key_dtype, key_column_index, int64, value_column_index, vocab_size, delimiter, name)


# tables

class LookupInterface:
    """A table: `lookup(keys)`, `size()`, and `init`, the operation that fills it."""

    init: Any

    def __init__(self, key_dtype: Any, value_dtype: Any, name: str) -> None:
        self._key_dtype, self._value_dtype, self._name = as_dtype(key_dtype), as_dtype(value_dtype), name

    @property
    def key_dtype(self) -> DType:
        """The element type of its keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        """The element type of its values."""
        return self._value_dtype

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    def size(self, name: str | None = None) -> Tensor:
        """How many keys it has: int64 scalar."""
        raise errors.UnimplementedError(f"{type(self).__name__}: it has no method size; write one")

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The values of keys, a tensor of any shape or a SparseTensor. DtypeError (a TypeError) for other keys than the
        table's."""
        values = keys.values if isinstance(keys, SparseTensor) else convert(keys)
        if values.dtype is not self.key_dtype:
            raise errors.DtypeError(f"lookup: Signature mismatch. Keys must be dtype {self.key_dtype.name}, got "
                                    f"{values.dtype.name}; cast them")
        found = self._found(values, name)
        return SparseTensor(keys.indices, found, keys.dense_shape) if isinstance(keys, SparseTensor) else found

    def _found(self, keys: Tensor, name: str | None) -> Tensor:
        raise errors.UnimplementedError(f"{type(self).__name__}: it has no method lookup; write one")


class InitializableLookupTableBase(LookupInterface):
    """A table behind the handle `table_ref`, filled once by `initializer`; keys that it has not give `default_value`."""

    def __init__(self, table_ref: Tensor, default_value: Any, initializer: TableInitializerBase) -> None:
        super().__init__(initializer.key_dtype, initializer.value_dtype, table_ref.op.name.rpartition("/")[2])
        self.table_ref = table_ref
        self.default_value = convert(default_value, self.value_dtype, "default_value")
        self.default_value.shape.with_rank(0)
        self.init = initializer.initialize(self)

    def size(self, name: str | None = None) -> Tensor:
        """How many keys it has: int64 scalar. The step raises FailedPreconditionError before it is filled."""
        made: Tensor = ops.table_size(self.table_ref, name=name or f"{self.name}_Size")
        return made

    def _found(self, keys: Tensor, name: str | None) -> Tensor:
        made: Tensor = ops.table_find(self.table_ref, keys, self.default_value, value_dtype=self.value_dtype,
                                      name=name or f"{self.name}_Lookup")
        return made


class HashTable(InitializableLookupTableBase):
    """Values by keys, filled once by `initializer`. Tables of one `shared_name` are one table; without it each is its own."""

    def __init__(self, initializer: TableInitializerBase, default_value: Any, shared_name: str | None = None,
                 name: str | None = None) -> None:
        with _scope(name, "hash_table"):
            table = ops.hash_table(key_dtype=initializer.key_dtype, value_dtype=initializer.value_dtype,
                                   shared_name=shared_name or "")
            super().__init__(table, default_value, initializer)


class HasherSpec(NamedTuple):
    """How strings that a table has not become numbers: "fasthash", "stronghash" with a key of two numbers, or "legacy"."""

    hasher: str
    key: Any


FastHashSpec = HasherSpec("fasthash", None)


def StrongHashSpec(key: Any) -> HasherSpec:
    """A hash that nobody can foresee without its key, two integers. InvalidArgumentError or TypeError for another key."""
    if len(key) != 2:
        raise errors.InvalidArgumentError(f"StrongHashSpec: key has {len(key)} numbers; key must have size 2 (Key must have 2 "
                                          "elements)")
    if not all(isinstance(part, (int, np.integer)) for part in key):
        raise TypeError(f"StrongHashSpec: Invalid key {key!r}; pass two integers")
    return HasherSpec("stronghash", key)


class IdTableWithHashBuckets(LookupInterface):
    """A table from strings or integers to numbers, which gives keys that it has not one of `num_oov_buckets` numbers behind
    its own, by their hash. Without a table every key is hashed."""

    def __init__(self, table: Any, num_oov_buckets: int, hasher_spec: HasherSpec = FastHashSpec, name: str | None = None,
                 key_dtype: Any = None) -> None:
        dtype = as_dtype(key_dtype if key_dtype is not None else string if table is None else table.key_dtype)
        if dtype is not string and dtype.kind != "int":
            raise TypeError(f"IdTableWithHashBuckets: Invalid key_dtype {dtype.name}; use an integer type or string")
        if table is None and num_oov_buckets <= 0:
            raise errors.InvalidArgumentError(f"IdTableWithHashBuckets: num_oov_buckets is {num_oov_buckets}; oov_buckets must "
                                              "be > 0 if no table is supplied")
        if table is not None and (table.value_dtype is not int64 or (table.key_dtype is string) != (dtype is string)):
            raise TypeError(f"IdTableWithHashBuckets: Invalid key dtype or value dtype: the table leads from "
                            f"{table.key_dtype.name} to {table.value_dtype.name}, keys are {dtype.name}; values must be int64")
        if not isinstance(hasher_spec, HasherSpec):
            raise TypeError(f"IdTableWithHashBuckets: hasher_spec is {hasher_spec!r}; it must be of type HasherSpec")
        self._table, self._buckets, self._hasher = table, num_oov_buckets, hasher_spec
        own = (name or (table.name if table is not None else "hash_bucket")).rstrip("/")
        super().__init__(dtype, int64, own.rpartition("/")[2])
        self.init = ops.no_op() if table is None else table.init

    def size(self, name: str | None = None) -> Tensor:
        """How many numbers it may give: int64 scalar."""
        with _scope(name, f"{self.name}_Size"):
            own = ops.constant(0, int64) if self._table is None else self._table.size()
            return own + self._buckets

    def _found(self, keys: Tensor, name: str | None) -> Tensor:
        own_keys = keys if self._table is None or keys.dtype is self._table.key_dtype else ops.cast(
            keys, self._table.key_dtype)
        if not self._buckets:
            return self._table._found(own_keys, name)
        with _scope(name, f"{self.name}_Lookup"):
            buckets: Tensor = self._hashed(keys if keys.dtype is string else ops.as_string(keys))
            if self._table is None:
                return buckets
            ids = self._table.lookup(own_keys)
            missing = ops.equal(ids, self._table.default_value)
            found: Tensor = ops.where(missing, ops.add(buckets, self._table.size()), ids)
            return found

    def _hashed(self, keys: Tensor) -> Any:
        kind, key = self._hasher
        if kind == "stronghash":
            return ops.string_to_hash_bucket_strong(keys, self._buckets, key, name="hash_bucket")
        if kind not in ("fasthash", "legacy"):
            raise errors.InvalidArgumentError(f"lookup: Unknown hasher {kind!r}; use fasthash, stronghash or legacy")
        make = ops.string_to_hash_bucket_fast if kind == "fasthash" else ops.string_to_hash_bucket
        return make(keys, self._buckets, name="hash_bucket")


# vocabularies

def _check(where: str, num_oov_buckets: int = 0, vocab_size: int | None = None, vocabulary_file: Any = "",
           key_dtype: DType = string) -> None:
    if num_oov_buckets < 0:
        raise errors.InvalidArgumentError(f"{where}: num_oov_buckets must be greater or equal than 0, got {num_oov_buckets}")
    if vocab_size is not None and vocab_size < 1:
        known = constant_value(vocabulary_file) if isinstance(vocabulary_file, Tensor) else vocabulary_file
        raise errors.InvalidArgumentError(f"{where}: vocab_size must be greater than 0, got {vocab_size}. vocabulary_file: "
                                          f"{known if known is not None else '?'}")
    if key_dtype is not string and key_dtype.kind != "int":
        raise TypeError(f"{where}: Only integer and string keys are supported, not {key_dtype.name}")


def _bucketed(table: HashTable, num_oov_buckets: int, hasher_spec: Any, name: str, key_dtype: DType) -> Any:
    if not num_oov_buckets:
        return table
    return IdTableWithHashBuckets(table, num_oov_buckets, hasher_spec, name, key_dtype)


def _shared(file: Any, vocab_size: int | None, key: int, value: int) -> str:
    """One name for the tables that hold the same parts of one file."""
    size = "" if vocab_size is None else f"_{vocab_size}"
    return f"hash_table_{file.name if isinstance(file, Tensor) else file}{size}_{key}_{value}"


def index_table_from_file(vocabulary_file: Any = None, num_oov_buckets: int = 0, vocab_size: int | None = None,
                          default_value: int = -1, hasher_spec: Any = FastHashSpec, key_dtype: Any = string,
                          name: str | None = None) -> Any:
    """A table from the lines of a file (strings, or integers) to their numbers (int64). Other keys give `default_value`, or
    one of `num_oov_buckets` numbers behind the file's by their hash.

    Run its `init`, or tables_initializer(), first. InvalidArgumentError without a file or for numbers below 1.
    """
    dtype = as_dtype(key_dtype)
    if vocabulary_file is None or (isinstance(vocabulary_file, (str, bytes)) and not vocabulary_file):
        raise errors.InvalidArgumentError("index_table_from_file: vocabulary_file must be specified and must not be empty")
    _check("index_table_from_file", num_oov_buckets, vocab_size, vocabulary_file, dtype)
    with _scope(name, "string_to_index") as scope:
        filler = TextFileIdTableInitializer(vocabulary_file, vocab_size=vocab_size, key_dtype=string if dtype is string else
                                            int64, name="table_init")
        shared = _shared(vocabulary_file, vocab_size, TextFileIndex.WHOLE_LINE, TextFileIndex.LINE_NUMBER)
        return _bucketed(HashTable(filler, default_value, shared), num_oov_buckets, hasher_spec, scope, dtype)


def index_table_from_tensor(vocabulary_list: Any, num_oov_buckets: int = 0, default_value: int = -1,
                            hasher_spec: Any = FastHashSpec, dtype: Any = string, name: str | None = None) -> Any:
    """As index_table_from_file, from the places of the elements of `vocabulary_list` [n]."""
    wanted = as_dtype(dtype)
    if vocabulary_list is None:
        raise errors.InvalidArgumentError("index_table_from_tensor: vocabulary_list must be specified")
    _check("index_table_from_tensor", num_oov_buckets, key_dtype=wanted)
    with _scope(name, "string_to_index") as scope:
        keys = convert(vocabulary_list)
        if (keys.dtype is string) != (wanted is string):
            raise errors.InvalidArgumentError(f"index_table_from_tensor: Expected {wanted.name}, got {keys.dtype.name}; pass "
                                              "dtype, or other elements")
        keys = keys if wanted is string else ops.cast(keys, int64)
        filler = KeyValueTensorInitializer(keys, ops.cast(ops.range(ops.size(keys)), int64), name="table_init")
        return _bucketed(HashTable(filler, default_value), num_oov_buckets, hasher_spec, scope, wanted)


def index_to_string_table_from_file(vocabulary_file: Any, vocab_size: int | None = None, default_value: Any = "UNK",
                                    name: str | None = None) -> HashTable:
    """A table from numbers (int64) to the lines of a file; other numbers give `default_value`."""
    if vocabulary_file is None or (isinstance(vocabulary_file, (str, bytes)) and not vocabulary_file):
        raise errors.InvalidArgumentError("index_to_string_table_from_file: vocabulary_file must be specified")
    _check("index_to_string_table_from_file", 0, vocab_size, vocabulary_file)
    with _scope(name, "index_to_string"):
        filler = TextFileStringTableInitializer(vocabulary_file, vocab_size=vocab_size, name="table_init")
        shared = _shared(vocabulary_file, vocab_size, TextFileIndex.LINE_NUMBER, TextFileIndex.WHOLE_LINE)
        return HashTable(filler, default_value, shared)


def index_to_string_table_from_tensor(vocabulary_list: Any, default_value: Any = "UNK", name: str | None = None) -> HashTable:
    """As index_to_string_table_from_file, from the elements of `vocabulary_list` [n], strings."""
    if vocabulary_list is None:
        raise errors.InvalidArgumentError("index_to_string_table_from_tensor: vocabulary_list must be specified")
    with _scope(name, "index_to_string"):
        words = convert(vocabulary_list, string)
        filler = KeyValueTensorInitializer(ops.cast(ops.range(ops.size(words)), int64), words, name="table_init")
        return HashTable(filler, default_value)
