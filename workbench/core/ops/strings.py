"""Text as operations: bytes to numbers and back, joining, splitting, comma-separated values."""
from __future__ import annotations

import csv
import functools
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, front, returns_list
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape

TEXT: dict[str, Any] = {"differentiable": False}


def _objects(values, shape):
    """An object array of `shape`, whatever the values are."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out.reshape(shape)


def _each(function, text):
    """`function` of every element, as an array of the same shape."""
    flat = np.asarray(text, object)
    return [function(item) for item in flat.ravel()], flat.shape


@op("bytes? -> ?", types="string -> @out_type", shape=lambda inputs, attrs: [inputs[0].shape + Shape([None])], **TEXT)
def decode_raw(bytes, *, out_type, little_endian=True):
    """The bytes of each string as numbers: [...] to [..., length / size of a number]; all must have one length."""
    dtype = as_dtype(out_type).numpy.newbyteorder("<" if little_endian else ">")
    flat, shape = _each(lambda item: item, bytes)
    lengths = sorted({len(item) for item in flat})
    if len(lengths) > 1 or (lengths and lengths[0] % dtype.itemsize):
        kind, first = dtype.newbyteorder("="), len(flat[0])
        other = next((number for number, item in enumerate(flat) if len(item) != first), None)
        theirs = (f"Input to DecodeRaw has length {first} that is not a multiple of {dtype.itemsize}, the size of {kind}"
                  if other is None else "DecodeRaw requires input strings to all be the same size, but element "
                  f"{other} has size {len(flat[other])} != {first}")
        raise errors.InvalidArgumentError(f"decode_raw: the strings have {', '.join(map(str, lengths))} bytes; all must "
                                          f"have one length that {dtype.itemsize} (of {kind}) divides ({theirs})")
    count = lengths[0] // dtype.itemsize if lengths else 0
    return np.frombuffer(b"".join(flat), dtype).astype(as_dtype(out_type).numpy).reshape(*shape, count)


@op("string_tensor[...] -> [...]", types="string -> @out_type", **TEXT)
def string_to_number(string_tensor, *, out_type="float32"):
    """The number that each string spells. InvalidArgumentError names one that spells none."""
    kind = as_dtype(out_type)
    numbers, shape = _each(lambda item: _number(item, kind, "string_to_number"), string_tensor)
    return np.array(numbers, kind.numpy).reshape(shape)


def _number(item, kind, where):
    text = item.decode("utf-8", "replace").strip()
    try:
        return kind.numpy.type(int(text) if kind.is_integer else float(text))
    except (ValueError, OverflowError):
        raise errors.InvalidArgumentError(f"{where}: {text!r} is not a valid {kind.name}; correct the text (StringToNumberOp "
                                          f"could not correctly convert string: {text})") from None


@op("input[...] -> [...]", types="any -> string", **TEXT)
def as_string(input, *, precision=-1, scientific=False, shortest=False, width=-1, fill=""):
    """Each number as text: integers in decimal, floats with six digits or `precision`, truth as true or false.

    Floats may be `scientific` (1.5e+00) or as `shortest` (1.5); numbers are padded to `width` with spaces, or as `fill`
    ("0", "-", "+", " ", "#") of C's printf says. InvalidArgumentError for options that contradict each other or the type.
    """
    flat = np.asarray(input)
    real = flat.dtype.kind in "fV"
    _check_format(flat.dtype, real, precision, scientific, shortest, fill)
    kind = "e" if scientific else "g" if shortest else "f"
    form = f"%{fill}{width if width > -1 else ''}{f'.{precision}' if precision > -1 else ''}{kind if real else 'd'}"

    def write(item):
        if isinstance(item, (bool, np.bool_)):
            return b"true" if item else b"false"
        return item if isinstance(item, bytes) else (form % (float(item) if real else int(item))).encode()
    return _objects([write(item) for item in flat.ravel()], flat.shape)


def _check_format(dtype, real, precision, scientific, shortest, fill):
    if scientific and shortest:
        raise errors.InvalidArgumentError("as_string: both scientific and shortest were asked for; choose one (Cannot select "
                                          "both scientific and shortest notation)")
    if not real and (scientific or shortest or precision > -1):
        asked = "precision" if precision > -1 else "scientific and shortest format"
        raise errors.InvalidArgumentError(f"as_string: precision, scientific and shortest are about floats but the input is "
                                          f"{dtype}; leave them out, or cast ({asked} not supported for datatype {dtype})")
    if fill not in ("", " ", "+", "-", "0", "#"):
        raise errors.InvalidArgumentError(f"as_string: fill is {fill!r}; use one of ' ', '+', '-', '0', '#'")


def _joined(inputs, attrs):
    whole = [t.shape for t in inputs if t.shape.rank != 0]
    return [functools.reduce(lambda a, b: a.merge(b, "string_join: inputs"), whole) if whole else Shape(())]


@op("*inputs[...] -> [...]", types="string -> string", shape=_joined, **TEXT)
def string_join(*inputs, separator=""):
    """The strings of several tensors of one shape (scalars go with any) joined element by element."""
    arrays = np.broadcast_arrays(*[np.asarray(item, object) for item in inputs])
    rows = zip(*[array.ravel() for array in arrays])
    return _objects([separator.encode().join(row) for row in rows], arrays[0].shape)


@op("x[...] y[...] -> [...]", types="string string -> string", **TEXT)
def string_add(x, y):
    """Each string of x with that of y behind it; their shapes broadcast."""
    return string_join.reference(x, y, separator="")


@op("source[n] -> [m,2] [m] [2]", name="string_split", types="string -> int64 string int64", **TEXT,
    shape=lambda inputs, attrs: [Shape([None, 2]), Shape([None]), Shape([2])])
def string_split_(source, *, delimiter=" ", skip_empty=True):
    """The words of each string as a sparse matrix: indices, values, dense shape; each character is a delimiter. An empty string
    has none."""
    words = [_words(item, delimiter.encode(), skip_empty) for item in np.asarray(source, object)]
    places = [(row, column) for row, line in enumerate(words) for column in range(len(line))]
    longest = max((len(line) for line in words), default=0)
    return (np.array(places, np.int64).reshape(-1, 2), _objects([word for line in words for word in line], -1),
            np.array([len(words), longest], np.int64))


def _words(item, delimiter, skip_empty):
    if not delimiter:
        return [item[i:i + 1] for i in range(len(item))]
    for byte in delimiter[1:]:
        item = item.replace(bytes([byte]), delimiter[:1])
    return [word for word in item.split(delimiter[:1]) if word or not skip_empty] if item else []


# comma-separated values

def _columns(inputs, attrs):
    return [inputs[0].shape] * (len(inputs) - 1)


@op("records? *record_defaults? -> ?", types=lambda dtypes, attrs: list(dtypes[1:]), shape=returns_list(_columns), **TEXT)
def decode_csv(records, *record_defaults, field_delim=",", use_quote_delim=True, na_value=""):
    """A tensor for each column of the lines `records`; an empty default ([]) makes a column required.

    Columns have the dtypes of their defaults: float32, float64, int32, int64 or string. Quotes as in RFC 4180.
    """
    text = np.asarray(records, object)
    rows = [_cells(line, field_delim, use_quote_delim, len(record_defaults), number)
            for number, line in enumerate(text.ravel())]
    columns = zip(*rows) if rows else [()] * len(record_defaults)
    found = [_column(cells, np.asarray(default), number, na_value, text.shape)
             for number, (cells, default) in enumerate(zip(columns, record_defaults))]
    return found if len(found) > 1 else found[0]


def _cells(line, delimiter, quoted, wanted, number):
    text = line.decode("utf-8", "surrogateescape")
    style: Any = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    try:
        cells = next(csv.reader([text], delimiter=delimiter, quoting=style, strict=True), [""])
    except csv.Error as error:
        raise errors.InvalidArgumentError(f"decode_csv: record {number} is {text[:40]!r} ({error}); mend its "
                                          "quotes (Quoted field has to end with quote followed by a delimiter or the end)"
                                          ) from None
    if len(cells) != wanted:
        raise errors.InvalidArgumentError(f"decode_csv: record {number} has {len(cells)} fields but there are {wanted} "
                                          f"defaults; give one for each (Expect {wanted} fields but have {len(cells)} in "
                                          f"record {number})")
    return cells


def _column(cells, default, number, na_value, shape):
    def value(record, cell):
        if cell not in ("", na_value):
            raw = cell.encode("utf-8", "surrogateescape")
            return raw if default.dtype == object else _field(raw, kind, number, record)
        if not default.size:
            raise errors.InvalidArgumentError(f"decode_csv: Field {number} is required but missing in record {record}! Fill it "
                                              "in, or give a default")
        return default.ravel()[0]
    kind = None if default.dtype == object else as_dtype(default.dtype)
    found = [value(record, cell) for record, cell in enumerate(cells)]
    return _objects(found, shape) if kind is None else np.array(found, default.dtype).reshape(shape)


def _field(raw, kind, number, record):
    try:
        return _number(raw, kind, "decode_csv")
    except errors.InvalidArgumentError:
        name = {"float32": "float", "float64": "double"}.get(kind.name, kind.name)
        raise errors.InvalidArgumentError(f"decode_csv: Field {number} in record {record} is not a valid {name}: "
                                          f"{raw.decode('utf-8', 'replace')}; correct the text") from None


@front("decode_csv")
def _(decode_csv, records, record_defaults, field_delim=",", use_quote_delim=True, name=None, na_value=""):
    """A tensor for each column of lines of comma-separated values; `record_defaults` has a list of 0 or 1 for each."""
    return decode_csv(convert(records, "string"), list(record_defaults), field_delim=field_delim,
                      use_quote_delim=use_quote_delim, na_value=na_value, name=name)
