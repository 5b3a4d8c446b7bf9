"""tf.Example messages and TFRecord files: written and read in Python, parsed in the graph."""
from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor
from workbench.core.state import tfrecord as records
from workbench.nn.sparse import SparseTensor
from workbench.nn.sparse_ops import sparse_merge

__all__ = ["FixedLenFeature", "FixedLenSequenceFeature", "SparseFeature", "TFRecordCompressionType", "TFRecordOptions",
           "TFRecordWriter", "VarLenFeature", "compression_of", "parse_example", "parse_single_example",
           "parse_single_sequence_example", "tf_record_iterator"]


# files

class TFRecordCompressionType:
    """How the bytes of a TFRecord file are compressed as a whole."""

    NONE, ZLIB, GZIP = 0, 1, 2


_NAMES = {TFRecordCompressionType.NONE: "", TFRecordCompressionType.ZLIB: "ZLIB", TFRecordCompressionType.GZIP: "GZIP"}


class TFRecordOptions:
    """How a TFRecord file is written and read: its compression, one of TFRecordCompressionType."""

    compression_type_map = _NAMES

    def __init__(self, compression_type: Any) -> None:
        self.compression_type = compression_type

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        """ "", "ZLIB" or "GZIP", of options or a TFRecordCompressionType. InvalidArgumentError for anything else."""
        return compression_of("TFRecordOptions", options)


def compression_of(where: str, options: Any) -> str:
    """The name of a compression ("", "ZLIB" or "GZIP") from TFRecordOptions, its number, or itself."""
    kind = options.compression_type if isinstance(options, TFRecordOptions) else options
    found: Any = "" if kind is None else _NAMES.get(kind, kind) if isinstance(kind, int) else kind
    if found not in _NAMES.values():
        raise errors.InvalidArgumentError(f"{where}: compression type {found!r} is none of '', 'ZLIB' and 'GZIP'; use one of "
                                          "these")
    return str(found)


class TFRecordWriter:
    """Appends records (bytes) to a new TFRecord file `path`, which `options` compress as a whole."""

    def __init__(self, path: Any, options: Any = None) -> None:
        kind = compression_of("TFRecordWriter", options)
        self._file: Any = open(os.fsdecode(path), "wb")      # noqa: SIM115
        self._packer = zlib.compressobj(wbits=records.WINDOWS[kind]) if kind else None

    def write(self, record: bytes) -> None:
        """Add one record."""
        if self._file is None:
            raise errors.FailedPreconditionError("TFRecordWriter: it is closed; open another one")
        framed = records.frame(bytes(record))
        self._file.write(framed if self._packer is None else self._packer.compress(framed))

    def flush(self) -> None:
        """Have everything on disk."""
        if self._file is not None:
            if self._packer is not None:
                self._file.write(self._packer.flush(zlib.Z_SYNC_FLUSH))
            self._file.flush()

    def close(self) -> None:
        """End; closing twice is fine."""
        if self._file is not None:
            if self._packer is not None:
                self._file.write(self._packer.flush())
            self._file.close()
            self._file = None

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *details: Any) -> None:
        self.close()


def tf_record_iterator(path: Any, options: Any = None) -> Iterator[bytes]:
    """The records of a TFRecord file. NotFoundError when it is missing, DataLossError says where it is damaged."""
    name, kind = os.fsdecode(path), compression_of("tf_record_iterator", options)
    try:
        file = open(name, "rb")      # noqa: SIM115
    except FileNotFoundError:
        raise errors.NotFoundError(f"tf_record_iterator: {name!r} does not exist; check the path") from None
    with file:
        for _, record in records.frames(records.expanded(file, kind, name), name):
            yield record


# parsing in the graph

class FixedLenFeature(NamedTuple):
    """A feature of a known `shape`: a dense tensor. Without `default_value` every message must have it."""

    shape: Any
    dtype: Any
    default_value: Any = None


class FixedLenSequenceFeature(NamedTuple):
    """A feature with any number of rows of a known `shape`: a dense tensor.

    In a batch the rows of the others are filled up to the longest with `default_value` (0, empty text). In a sequence
    `allow_missing` makes one that is not there empty.
    """

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """A feature with any number of values: a sparse matrix [messages, longest list]."""

    dtype: Any


class SparseFeature(NamedTuple):
    """Two features that are the places (int64, below `size`) and the values of one sparse matrix [messages, size].

    With several keys for the places there is a dimension, and a size, for each.
    """

    index_key: Any
    value_key: str
    dtype: Any
    size: Any
    already_sorted: bool = False


def parse_example(serialized: Any, features: Mapping[str, Any], name: str | None = None,
                  example_names: Any = None) -> dict[str, Any]:
    """The features of serialised examples: string [n] to tensors [n, *shape] and sparse matrices, by name.

    Dtypes are float32, int64 and string. ValueError for another one here; InvalidArgumentError when run for a message that
    lacks a feature or holds something else under its name, which `example_names` [n] then name; DataLossError for bytes that
    are no example.
    """
    if not features:
        raise ValueError("Missing: features was None." if features is None else "parse_example: features are empty; name one")
    rows = _rows("parse_example", features)
    names = convert(np.zeros([0], object) if example_names is None else example_names, "string")
    found = _named(rows, list(ops.parse_example(convert(serialized, "string"), names, features=tuple(rows), name=name)))
    return _chosen(features, found)


def parse_single_example(serialized: Any, features: Mapping[str, Any], name: str | None = None,
                         example_names: Any = None) -> dict[str, Any]:
    """parse_example for one message, a string scalar: tensors of each feature's shape, and sparse vectors."""
    names = None if example_names is None else ops.expand_dims(convert(example_names, "string"), 0)
    batch = parse_example(ops.expand_dims(convert(serialized, "string"), 0), features, name, names)
    return {key: SparseTensor(value.indices[:, 1:], value.values, value.dense_shape[1:])
            if isinstance(value, SparseTensor) else ops.squeeze(value, axis=[0]) for key, value in batch.items()}


def parse_single_sequence_example(serialized: Any, context_features: Mapping[str, Any] | None = None,
                                  sequence_features: Mapping[str, Any] | None = None, example_name: Any = None,
                                  name: str | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """(context, sequences) of one serialised SequenceExample, a string scalar, by name.

    Context features are tensors [*shape] and sparse vectors; a FixedLenSequenceFeature of a sequence is a tensor
    [steps, *shape], a VarLenFeature a sparse matrix [steps, longest]. Errors as in parse_example.
    """
    where = "parse_single_sequence_example"
    context, sequences = _rows(where, context_features or {}), _rows(where, sequence_features or {}, True)
    if not context and not sequences:
        raise ValueError("Missing features.")
    parts = list(ops.parse_sequence_example(
        convert(serialized, "string"), convert("" if example_name is None else example_name, "string"),
        context=tuple(context), sequences=tuple(sequences), name=name))
    count = sum(3 if row[1] == "variable" else 1 for row in context)
    return (_chosen(context_features or {}, _named(context, parts[:count])),
            _chosen(sequence_features or {}, _named(sequences, parts[count:])))


def _named(rows: Sequence[Any], parts: list[Tensor]) -> dict[str, Any]:
    """Tensors and sparse tensors by the keys of the message."""
    return {row[0]: SparseTensor(*(parts.pop(0) for _ in range(3))) if row[1] == "variable" else parts.pop(0) for row in rows}


def _chosen(features: Mapping[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """What was asked for: sparse features are put together."""
    return {key: _joined(feature, found) if isinstance(feature, SparseFeature) else found[key]
            for key, feature in sorted(features.items())}


def _joined(feature: SparseFeature, found: Mapping[str, Any]) -> SparseTensor:
    several = isinstance(feature.index_key, (list, tuple))
    ids: Any = [found[key] for key in feature.index_key] if several else found[feature.index_key]
    size: Any = list(feature.size) if several else feature.size
    return sparse_merge(ids, found[feature.value_key], size, already_sorted=feature.already_sorted)


# features as the operations take them

def _rows(where: str, features: Mapping[str, Any], sequence: bool = False) -> list[tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for key, feature in sorted(features.items()):
        for row in _rows_of(where, key, feature, sequence):
            if found.setdefault(row[0], row) != row:
                raise ValueError(f"{where}: feature {row[0]!r} is asked for twice, as {found[row[0]][1:3]} and as {row[1:3]}; "
                                 "make them agree")
    return [found[key] for key in sorted(found)]


def _rows_of(where: str, key: str, feature: Any, sequence: bool) -> list[tuple[Any, ...]]:
    kinds = (VarLenFeature, FixedLenSequenceFeature) if sequence else (
        VarLenFeature, FixedLenFeature, SparseFeature, FixedLenSequenceFeature)
    if not isinstance(feature, kinds):
        raise ValueError(f"{where}: Unsupported VarLenFeature {feature!r}; feature {key!r} may be a "
                         f"{', '.join(kind.__name__ for kind in kinds)}")
    dtype = as_dtype(feature.dtype)
    if dtype.name not in ("float32", "int64", "string"):
        raise errors.DtypeError(f"{where}: feature {key!r} is asked as {dtype.name}; examples hold float32, int64 and string")
    if isinstance(feature, VarLenFeature):
        return [(key, "variable", dtype, (), None)]
    if isinstance(feature, SparseFeature):
        places = feature.index_key if isinstance(feature.index_key, (list, tuple)) else [feature.index_key]
        return [*((place, "variable", as_dtype("int64"), (), None) for place in places),
                (feature.value_key, "variable", dtype, (), None)]
    shape = _shape(where, key, feature)
    if isinstance(feature, FixedLenFeature):
        return [(key, "fixed", dtype, shape, _default(where, key, feature, dtype, shape))]
    if sequence:
        return [(key, "fixed", dtype, shape, () if feature.allow_missing else None)]
    if not feature.allow_missing:
        raise ValueError("Unsupported: FixedLenSequenceFeature requires allow_missing to be True. It is not for feature "
                         f"{key!r}.")
    filler = _default(where, key, feature, dtype, ()) or (b"" if dtype.kind == "string" else 0,)
    return [(key, "sequence", dtype, shape, filler)]


def _shape(where: str, key: str, feature: Any) -> tuple[int, ...]:
    given = feature.shape
    if given is None:
        raise ValueError(f"{where}: Missing shape for feature {key}; say which one its values have.")
    sizes = given.as_list() if hasattr(given, "as_list") else [given] if isinstance(given, int) else given
    if sizes and sizes[0] is None and isinstance(feature, FixedLenFeature):
        raise ValueError(f"{where}: First dimension of shape for feature {key} unknown. Consider using "
                         "FixedLenSequenceFeature.")
    if any(d is None or int(d) < 0 for d in sizes):
        raise ValueError(f"{where}: All dimensions of shape for feature {key} need to be known but received {given}.")
    return tuple(int(d) for d in sizes)


def _default(where: str, key: str, feature: Any, dtype: Any, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    if feature.default_value is None:
        return None
    given = constant_value(feature.default_value) if isinstance(feature.default_value, Tensor) else feature.default_value
    if given is None:
        raise ValueError(f"{where}: the default_value of feature {key!r} is {feature.default_value.name}, whose value is not "
                         "known while the graph is built; give numbers or strings")
    flat = np.asarray(given, object).ravel().tolist()
    if not flat and np.prod(shape):
        raise ValueError(f"{where}: Cannot reshape a tensor with 0 elements to shape {list(shape)}; give the default_value of "
                         f"feature {key!r} an element, or leave it out")
    if len(flat) != 1 and len(flat) != int(np.prod(shape)):
        raise ValueError(f"{where}: the default_value of feature {key!r} has {len(flat)} elements but its shape is "
                         f"{list(shape)}; give one for each element, or one for all")
    if dtype.kind == "string":
        return tuple(v.encode() if isinstance(v, str) else v for v in flat)
    return tuple(dtype.numpy.type(v).item() for v in flat)
