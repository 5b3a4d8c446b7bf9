"""tf.Example and tf.SequenceExample messages as operations: features by name become tensors, dense and sparse."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import returns_list
from workbench.core.graph.dtype import DType, as_dtype
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape, as_shape
from workbench.formats.messages import decode, parse_json

Array = np.ndarray[Any, Any]
Row = tuple[str, str, Any, Any, Any]      # a feature: name, kind, dtype, shape, default

_LISTS = {"float32": "float_list", "int64": "int64_list", "string": "bytes_list"}
_WORDS = {"float_list": "float", "int64_list": "int64", "bytes_list": "string"}
_COUNTED = {"float32": "float", "int64": "int64", "string": "bytes"}
PARSING: dict[str, Any] = {"differentiable": False}


# shapes and dtypes: "fixed" and "sequence" features give one tensor, "variable" ones the three of a sparse tensor

def _dtypes(rows: Sequence[Row]) -> list[DType]:
    found: list[DType] = []
    for _, kind, dtype, _, _ in rows:
        found += [as_dtype("int64"), as_dtype(dtype), as_dtype("int64")] if kind == "variable" else [as_dtype(dtype)]
    return found


def _shapes(rows: Sequence[Row], outer: Shape) -> list[Shape]:
    rank, found = len(outer.as_list()) + 1, list[Shape]()
    for _, kind, _, shape, _ in rows:
        if kind == "variable":
            found += [Shape([None, rank]), Shape([None]), Shape([rank])]
        else:
            found += [outer + (Shape([None]) if kind == "sequence" else Shape(())) + as_shape(shape)]
    return found


@op("serialized[n] names[m] -> ?", types="string string ->", dtypes=lambda dtypes, attrs: _dtypes(attrs["features"]),
    shape=returns_list(lambda inputs, attrs: _shapes(attrs["features"], inputs[0].shape.merge(Shape([None])))), **PARSING)
def parse_example(serialized: Any, names: Any, *, features: Any) -> Any:
    """Features of tf.Example messages [n]; `features` lists (name, kind, dtype, shape, default).

    A "fixed" feature gives one tensor [n, *shape], a "variable" one the indices, values and shape of a sparse matrix, a
    "sequence" one [n, longest, *shape], filled up with its default. `names` [n], or [0], are for the texts of errors.
    InvalidArgumentError names a message that lacks a feature without default, or holds it with other type or length.
    """
    titles = _titles(names, len(serialized))
    messages = [_message("Example", item, f"parse_example: Could not parse example input, message {number}").features.feature
                for number, item in enumerate(np.asarray(serialized, object))]
    found: list[Any] = []
    for row in features:
        lists = [_values(message, row, title, number) for number, (message, title) in enumerate(zip(messages, titles))]
        found += _rows(lists, row, titles)
    return found if len(found) > 1 else found[0]


@op("serialized[] example_name[] -> ?", types="string string ->",
    dtypes=lambda dtypes, attrs: _dtypes(attrs["context"]) + _dtypes(attrs["sequences"]),
    shape=returns_list(lambda inputs, attrs: _shapes(attrs["context"], Shape(())) + _shapes(attrs["sequences"], Shape([None]))),
    **PARSING)
def parse_sequence_example(serialized: Any, example_name: Any, *, context: Any, sequences: Any) -> Any:
    """Features of one tf.SequenceExample: those of its `context` as parse_example gives them for one message, then
    `sequences`, lists of features, a step a row.

    A "fixed" feature of a sequence gives [steps, *shape], a "variable" one the sparse matrix [steps, longest]. A sequence
    that the message lacks is empty where its default says so. Errors are those of parse_example.
    """
    raw = serialized.item() if isinstance(serialized, np.ndarray) else serialized
    message = _message("SequenceExample", raw, "parse_sequence_example: Could not parse example input")
    title, found = _titles(np.asarray(example_name, object).reshape(1), 1)[0], list[Any]()
    for row in context:
        values = _values(message.context.feature, row, title, 0)
        if row[1] == "variable":
            found += _vector(values or [], as_dtype(row[2]))
        else:
            found.append(_dense([_filled(values, row, title, 0)], as_dtype(row[2]), tuple(row[3])))
    for row in sequences:
        lists = _steps(message.feature_lists.feature_list, row, title)
        found += _rows(lists, row, [title] * len(lists))
    return found if len(found) > 1 else found[0]


def _message(name: str, data: Any, where: str) -> Any:
    """The message that a string of a tensor holds: one that holds none is an argument, not a file that is damaged."""
    try:
        return decode(name, data, where)
    except errors.DataLossError as error:
        raise errors.InvalidArgumentError(error.message) from None


def _titles(names: Any, count: int) -> list[str]:
    if not len(names):
        return ["<unknown>"] * count
    if len(names) != count:
        raise errors.InvalidArgumentError(f"parse_example: there are {len(names)} example_names for {count} messages; give one "
                                          "for each, or none")
    return [name.decode("utf-8", "replace") or "<unknown>" for name in names]


def _values(message: Any, row: Row, title: str, number: int) -> list[Any] | None:
    """The values of a feature, None where the message lacks it."""
    name, _, dtype, _, _ = row
    if name not in message:
        return None
    return _held(message[name], as_dtype(dtype), lambda kind, wanted: (
        f"parse_example: Name: {title}, Key: {name}, Index: {number}.  Data types don't match.  Data type: {_WORDS[kind]} but "
        f"expected type: {_WORDS[wanted]}"))


def _held(feature: Any, dtype: DType, mismatch: Callable[[str, str], str]) -> list[Any] | None:
    """The values that a feature holds, None for none; `mismatch(kind, wanted)` says what is wrong with other ones."""
    kind, wanted = feature.WhichOneof("kind"), _LISTS[dtype.name]
    if kind not in (None, wanted):
        raise errors.InvalidArgumentError(f"{mismatch(kind, wanted)}; ask for what was written")
    return None if kind is None else list(getattr(feature, kind).value)


def _steps(lists: Any, row: Row, title: str) -> list[list[Any] | None]:
    name, kind, dtype, _, default = row
    if name in lists:
        return [_held(feature, as_dtype(dtype), lambda kind, wanted, n=n: (      # type: ignore[misc]
            f"parse_sequence_example: Name: {title}, Feature list: {name}, Index: {n}.  Data types don't match. Expected type: "
            f"{_WORDS[wanted]}  Feature is: {kind}")) for n, feature in enumerate(lists[name].feature)]
    if kind == "fixed" and default is None:
        raise errors.InvalidArgumentError(f"parse_sequence_example: Name: {title}, Feature list '{name}' is required but could "
                                          "not be found.  Did you mean to include it in "
                                          "feature_list_dense_missing_assumed_empty or feature_list_dense_defaults? "
                                          "allow_missing=True makes it empty")
    return []


def _filled(values: list[Any] | None, row: Row, title: str, number: int) -> list[Any]:
    """The values of a fixed feature, or its default."""
    name, _, dtype, shape, default = row
    size = int(np.prod(shape, dtype=np.int64))
    if values is None:
        if not default:
            raise errors.InvalidArgumentError(f"parse_example: Name: {title}, Feature: {name} (data type: "
                                              f"{_WORDS[_LISTS[as_dtype(dtype).name]]}) is required but could not be found; "
                                              "give it a default_value")
        values = list(default) * (size if len(default) == 1 else 1)
    if len(values) != size:
        raise errors.InvalidArgumentError(f"parse_example: Name: {title}, Key: {name}, Index: {number}.  Number of "
                                          f"{_COUNTED[as_dtype(dtype).name]} values != expected.  values size: {len(values)} "
                                          f"but output shape: {list(shape)}; ask for what was written")
    return values


# tensors

def _array(values: list[Any], dtype: DType) -> Array:
    if dtype.kind != "string":
        return np.array(values, dtype.numpy)
    found = np.empty(len(values), object)
    found[:] = values
    return found


def _dense(rows: list[list[Any]], dtype: DType, shape: tuple[int, ...]) -> Array:
    return _array([value for row in rows for value in row], dtype).reshape(shape)


def _rows(lists: list[list[Any] | None], row: Row, titles: Sequence[str]) -> list[Array]:
    """The tensors of one feature that several messages or steps have."""
    _, kind, dtype, shape, _ = row
    if kind == "variable":
        return _sparse([values or [] for values in lists], as_dtype(dtype))
    if kind == "sequence":
        return [_padded(lists, row, titles)]
    full = [_filled(values, row, title, number) for number, (values, title) in enumerate(zip(lists, titles))]
    return [_dense(full, as_dtype(dtype), (len(lists), *shape))]


def _padded(lists: list[list[Any] | None], row: Row, titles: Sequence[str]) -> Array:
    name, _, dtype, shape, default = row
    size = int(np.prod(shape, dtype=np.int64))
    for number, values in enumerate(lists):
        if values and len(values) % max(size, 1):
            raise errors.InvalidArgumentError(
                f"parse_example: Name: {titles[number]}, Key: {name}, Index: {number}.  Number of "
                f"{_COUNTED[as_dtype(dtype).name]} values is not a multiple of stride length.  values size: {len(values)} but "
                f"output shape: {[None, *shape]}; ask for what was written")
    longest = max((len(values or ()) for values in lists), default=0)
    full = [[*(values or ()), *list(default) * (longest - len(values or ()))] for values in lists]
    return _dense(full, as_dtype(dtype), (len(lists), longest // max(size, 1), *shape))


def _sparse(lists: list[list[Any]], dtype: DType) -> list[Array]:
    places = [(row, column) for row, values in enumerate(lists) for column in range(len(values))]
    longest = max((len(values) for values in lists), default=0)
    return [np.array(places, np.int64).reshape(-1, 2), _array([v for values in lists for v in values], dtype),
            np.array([len(lists), longest], np.int64)]


def _vector(values: list[Any], dtype: DType) -> list[Array]:
    return [np.arange(len(values), dtype=np.int64)[:, None], _array(values, dtype), np.array([len(values)], np.int64)]


@op("json_examples? -> ?", types="string -> string", shape=lambda inputs, attrs: [inputs[0].shape], **PARSING)
def decode_json_example(json_examples: Any) -> Any:
    """tf.Example messages written as JSON, strings of any shape, in their binary form; InvalidArgumentError for other text."""
    def binary(text: Any) -> bytes:
        try:
            return bytes(parse_json("Example", text.decode(), "decode_json_example").SerializeToString())
        except (errors.DataLossError, UnicodeDecodeError) as error:
            raise errors.InvalidArgumentError(f"decode_json_example: Error while parsing JSON: {error}") from None
    return np.asarray(np.frompyfunc(binary, 1, 1)(json_examples), object)
