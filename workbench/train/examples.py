"""tf.Example messages and TFRecord files: written and read in Python, parsed in the graph."""
from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.state import tfrecord as records
from workbench.nn.arguments import refuse
from workbench.nn.sparse import SparseTensor

__all__ = ["BytesList", "Example", "Feature", "Features", "FixedLenFeature", "FloatList", "Int64List", "TFRecordWriter",
           "VarLenFeature", "parse_example", "parse_single_example", "tf_record_iterator"]


# messages

class _List:
    """A list of values of one kind."""

    kind = ""

    def __init__(self, value: Iterable[Any] = ()) -> None:
        self.value = [self._checked(v) for v in value]

    def _checked(self, value: Any) -> Any:
        return value

    def __repr__(self) -> str:
        return f"{type(self).__name__}(value={self.value!r})"


class BytesList(_List):
    """Bytes, such as encoded images or text. DtypeError for anything else: encode text first."""

    kind = "bytes"

    def _checked(self, value: Any) -> bytes:
        if not isinstance(value, (bytes, bytearray)):
            raise errors.DtypeError(f"BytesList: {value!r} is a {type(value).__name__}; encode it to bytes")
        return bytes(value)


class FloatList(_List):
    """Numbers, kept as float32."""

    kind = "float"

    def _checked(self, value: Any) -> float:
        return float(np.float32(value))


class Int64List(_List):
    """Integers of 64 bits. DtypeError for a number with a fraction."""

    kind = "int64"

    def _checked(self, value: Any) -> int:
        if not isinstance(value, (int, np.integer, np.bool_)) or not -2**63 <= int(value) < 2**63:
            raise errors.DtypeError(f"Int64List: {value!r} is no integer of 64 bits; convert it")
        return int(value)


class Feature:
    """One list of values: give exactly one of the three."""

    def __init__(self, bytes_list: BytesList | None = None, float_list: FloatList | None = None,
                 int64_list: Int64List | None = None) -> None:
        given = [part for part in (bytes_list, float_list, int64_list) if part is not None]
        if len(given) > 1:
            raise errors.InvalidArgumentError(f"Feature: {len(given)} lists were given; give one")
        self.bytes_list = bytes_list or BytesList()
        self.float_list = float_list or FloatList()
        self.int64_list = int64_list or Int64List()
        self._list = given[0] if given else None

    def WhichOneof(self, group: str = "kind") -> str | None:
        """ "bytes_list", "float_list", "int64_list", or None when it is empty; ValueError for another group than "kind"."""
        if group != "kind":
            raise ValueError(f"Feature: it has no group {group!r}; its only group is 'kind'")
        return None if self._list is None else f"{self._list.kind}_list"

    def __repr__(self) -> str:
        return f"Feature({self._list!r})"


class Features:
    """Features by name."""

    def __init__(self, feature: Mapping[str, Feature] | None = None) -> None:
        self.feature = dict(feature or {})


_LISTS: dict[str, type[_List]] = {"bytes": BytesList, "float": FloatList, "int64": Int64List}


def _feature(kind: str, values: list[Any]) -> Feature:
    lists: dict[str, Any] = {f"{kind}_list": _LISTS[kind](values)} if kind else {}
    return Feature(**lists)


class Example:
    """A tf.Example: features by name, serialised as TensorFlow does."""

    def __init__(self, features: Features | None = None) -> None:
        self.features = features or Features()

    def SerializeToString(self) -> bytes:
        """The message as bytes."""
        listed = {name: feature._list for name, feature in self.features.feature.items()}
        return records.encode_example({name: (part.kind, part.value) for name, part in listed.items() if part is not None})

    def ParseFromString(self, serialized: bytes) -> int:
        """Take over what SerializeToString gave; DataLossError for other bytes. Gives their number."""
        found = records.decode_example(bytes(serialized))
        self.features = Features({name: _feature(kind, values) for name, (kind, values) in found.items()})
        return len(serialized)

    @classmethod
    def FromString(cls, serialized: bytes) -> Example:
        """The example that SerializeToString wrote."""
        made = cls()
        made.ParseFromString(serialized)
        return made


# files

class TFRecordWriter:
    """Appends records (bytes) to a new TFRecord file `path`."""

    def __init__(self, path: Any, options: Any = None) -> None:
        if options is not None and getattr(options, "compression_type", None):
            raise errors.UnimplementedError("TFRecordWriter: compressed files are not written here; leave options out")
        self._file: Any = open(os.fspath(path), "wb")      # noqa: SIM115

    def write(self, record: bytes) -> None:
        """Add one record."""
        if self._file is None:
            raise errors.FailedPreconditionError("TFRecordWriter: it is closed; open another one")
        self._file.write(records.frame(bytes(record)))

    def flush(self) -> None:
        """Have everything on disk."""
        self._file.flush()

    def close(self) -> None:
        """End; closing twice is fine."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *details: Any) -> None:
        self.close()


def tf_record_iterator(path: Any, options: Any = None) -> Iterator[bytes]:
    """The records of a TFRecord file. NotFoundError when it is missing, DataLossError says where it is damaged."""
    refuse("tf_record_iterator", "decompress the file first", options=options)
    name = os.fspath(path)
    try:
        file = open(name, "rb")      # noqa: SIM115
    except FileNotFoundError:
        raise errors.NotFoundError(f"tf_record_iterator: {name!r} does not exist; check the path") from None
    with file:
        for _, record in records.frames(file, name):
            yield record


# parsing in the graph

class FixedLenFeature(NamedTuple):
    """A feature of a known `shape`: a dense tensor. Without `default_value` every message must have it."""

    shape: Any
    dtype: Any
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """A feature with any number of values: a sparse matrix [messages, longest list]."""

    dtype: Any


def parse_example(serialized: Any, features: Mapping[str, FixedLenFeature | VarLenFeature],
                  name: str | None = None) -> dict[str, Any]:
    """The features of serialised examples: string [n] to tensors [n, *shape] and sparse matrices, by name.

    Dtypes are float32, int64 and string. InvalidArgumentError for another one here, and when run for a message that
    lacks a feature or holds something else under its name; DataLossError for bytes that are no example.
    """
    names = sorted(features)
    rows = tuple(_row(key, features[key]) for key in names)
    parts = list(ops.parse_example(convert(serialized, "string"), features=rows, name=name)) if names else []
    found: dict[str, Any] = {}
    for key in names:
        if isinstance(features[key], VarLenFeature):
            found[key] = SparseTensor(*(parts.pop(0) for _ in range(3)))
        else:
            found[key] = parts.pop(0)
    return found


def parse_single_example(serialized: Any, features: Mapping[str, FixedLenFeature | VarLenFeature],
                         name: str | None = None) -> dict[str, Any]:
    """parse_example for one message, a string scalar: tensors of each feature's shape, and sparse vectors."""
    batch = parse_example(ops.expand_dims(convert(serialized, "string"), 0), features, name)
    return {key: SparseTensor(value.indices[:, 1:], value.values, value.dense_shape[1:])
            if isinstance(value, SparseTensor) else ops.squeeze(value, axis=[0]) for key, value in batch.items()}


def _row(key: str, feature: Any) -> tuple[Any, ...]:
    if not isinstance(feature, (FixedLenFeature, VarLenFeature)):
        raise errors.InvalidArgumentError(f"parse_example: feature {key!r} is a {type(feature).__name__}; use "
                                          "FixedLenFeature or VarLenFeature")
    dtype = as_dtype(feature.dtype)
    if dtype.name not in ("float32", "int64", "string"):
        raise errors.InvalidArgumentError(f"parse_example: feature {key!r} is asked as {dtype.name}; examples hold float32, "
                                          "int64 and string")
    if isinstance(feature, VarLenFeature):
        return key, "variable", dtype, (), None
    shape: Sequence[int] = tuple(int(d) for d in feature.shape)
    return key, "fixed", dtype, shape, None if feature.default_value is None else _default(feature)


def _default(feature: FixedLenFeature) -> tuple[Any, ...]:
    flat = np.asarray(feature.default_value, object).ravel().tolist()
    return tuple(v.encode() if isinstance(v, str) else v for v in flat)
