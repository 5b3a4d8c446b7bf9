"""Element types: the names programs use, their NumPy twins, and what converts to what."""
from __future__ import annotations

import sys
import warnings
from typing import Any

import ml_dtypes
import numpy as np

from workbench import errors
from workbench.core.graph.language import spoken

__all__ = [
    "DType", "as_dtype", "bare", "bfloat16", "bool_", "cast_array", "complex64", "complex128", "dtype_of", "feed_array",
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "qint8", "qint16", "qint32", "quint8", "quint16",
    "resource", "string", "to_array", "uint8", "uint16", "uint32", "uint64", "variant",
]


class DType:
    """One element type, spelled by `name`; equal to whatever `as_dtype` takes for it: "float32", np.float32.

    There is one object of each: `DType(1)` is that of the number, as `as_dtype` finds it.
    `resource` values are handles to state (variables, queues); `variant` values are lists that loops build.
    Both are Python objects that never leave their task. Integers of quantized types stand for numbers of a range that
    goes beside them; their arrays are those of plain integers.
    """

    __slots__ = ("kind", "name", "numpy")

    name: str
    numpy: np.dtype[Any]
    kind: str      # "float" | "int" | "quantized" | "bool" | "complex" | "string" | "object"

    def __new__(cls, type_enum: Any) -> DType:
        return as_dtype(type_enum)

    @property
    def as_numpy_dtype(self) -> Any:
        """The NumPy scalar type; `object` for strings and handles."""
        return object if self.numpy.hasobject else self.numpy.type

    @property
    def base_dtype(self) -> DType:
        """The type itself: there are no reference types here."""
        return self

    @property
    def is_floating(self) -> bool:
        """Is it a real floating-point type, bfloat16 included?"""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Is it an integer type, signed or not? bool is none."""
        return self.kind == "int"

    @property
    def is_complex(self) -> bool:
        """Is it complex64 or complex128?"""
        return self.kind == "complex"

    @property
    def is_number(self) -> bool:
        """Is it an integer, floating or complex type?"""
        return self.kind in ("float", "int", "complex")

    @property
    def is_bool(self) -> bool:
        """Is it the type of truth values?"""
        return self.kind == "bool"

    @property
    def is_unsigned(self) -> bool:
        """Is it an integer type without negative values?"""
        return self.kind == "int" and self.name.startswith("u")      # of quint8 too TensorFlow says no

    @property
    def real_dtype(self) -> DType:
        """The type of the real part: float32 for complex64, float64 for complex128, else the type itself."""
        return {"complex64": _BY_NAME["float32"], "complex128": _BY_NAME["float64"]}.get(self.name, self)

    @property
    def is_quantized(self) -> bool:
        """Do its integers stand for numbers of a range?"""
        return self.kind == "quantized"

    @property
    def is_numpy_compatible(self) -> bool:
        """Has NumPy arrays of it? False of handles."""
        return self.kind != "object"

    @property
    def limits(self) -> tuple[Any, Any]:
        """(0, the largest) intensity of images: 1 of float32 and float64 and True of bool; ValueError of other types."""
        if self.kind == "bool":
            return 0, True
        if self.kind == "int" or self in (float32, float64):
            return 0, 1 if self.kind == "float" else self.max
        raise errors.DtypeError(f"dtype: {self.name} does not have defined limits; use integers, float32, float64 or "
                                "bool")

    @property
    def _is_ref_dtype(self) -> bool:
        """Never: variables are read, not referred to."""
        return False

    @property
    def as_datatype_enum(self) -> int:
        """Its number in TensorFlow's protocol buffers."""
        return _NUMBERS[self.name]

    def is_compatible_with(self, other: Any) -> bool:
        """Is it the same type as `other` (anything `as_dtype` takes)?"""
        return other is not None and as_dtype(other) is self

    @property
    def is_differentiable(self) -> bool:
        """Do gradients flow through it? True of floating-point and complex types."""
        return self.kind in ("float", "complex")

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return self.numpy.itemsize

    @property
    def min(self) -> Any:
        """The smallest finite value; DtypeError where the type is neither integer nor floating."""
        return self._limits.min

    @property
    def max(self) -> Any:
        """The largest finite value; DtypeError where the type is neither integer nor floating."""
        return self._limits.max

    @property
    def _limits(self) -> Any:
        if self.kind not in ("int", "quantized", "float"):
            raise errors.DtypeError(f"dtype: Cannot find minimum or maximum value of {self.name}, which has no order; use an "
                                    "integer or floating type")
        about: Any = np.iinfo if self.kind in ("int", "quantized") else ml_dtypes.finfo
        return about(self.numpy)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, DType) or other is None or other is int:
            return False      # Python's integers have no width
        try:
            return as_dtype(other) is self
        except (errors.DtypeError, TypeError):
            return False

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return spoken().dtype(self, True)

    def __str__(self) -> str:
        return spoken().dtype(self, False)

    def __reduce__(self) -> Any:
        return as_dtype, (self.name,)


def _made(name: str, numpy: Any, kind: str) -> DType:
    new = object.__new__(DType)
    new.name, new.numpy, new.kind = name, np.dtype(numpy), kind
    return new


float16 = _made("float16", np.float16, "float")
bfloat16 = _made("bfloat16", ml_dtypes.bfloat16, "float")
float32 = _made("float32", np.float32, "float")
float64 = _made("float64", np.float64, "float")
int8 = _made("int8", np.int8, "int")
int16 = _made("int16", np.int16, "int")
int32 = _made("int32", np.int32, "int")
int64 = _made("int64", np.int64, "int")
uint8 = _made("uint8", np.uint8, "int")
uint16 = _made("uint16", np.uint16, "int")
uint32 = _made("uint32", np.uint32, "int")
uint64 = _made("uint64", np.uint64, "int")
bool_ = _made("bool", np.bool_, "bool")
complex64 = _made("complex64", np.complex64, "complex")
complex128 = _made("complex128", np.complex128, "complex")
string = _made("string", object, "string")
qint8 = _made("qint8", np.int8, "quantized")
quint8 = _made("quint8", np.uint8, "quantized")
qint16 = _made("qint16", np.int16, "quantized")
quint16 = _made("quint16", np.uint16, "quantized")
qint32 = _made("qint32", np.int32, "quantized")
resource = _made("resource", object, "object")
variant = _made("variant", object, "object")

_ALL = (float16, bfloat16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool_,
        complex64, complex128, string, qint8, quint8, qint16, quint16, qint32, resource, variant)
_BY_NAME = {d.name: d for d in _ALL}
_ALIASES = {"float": float32, "double": float64, "half": float16}      # TensorFlow's meaning, not NumPy's
_BY_NUMPY = {d.numpy: d for d in _ALL if d.kind not in ("string", "object", "quantized")}
_NUMBERS = {"float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "string": 7, "complex64": 8, "int64": 9,
            "bool": 10, "qint8": 11, "quint8": 12, "qint32": 13, "bfloat16": 14, "qint16": 15, "quint16": 16, "uint16": 17,
            "complex128": 18, "float16": 19, "resource": 20, "variant": 21, "uint32": 22, "uint64": 23}
_BY_NUMBER = {number: _BY_NAME[name] for name, number in _NUMBERS.items()}
_PYTHON: dict[Any, DType] = {float: float32, int: int32, bool: bool_, complex: complex128, str: string, bytes: string}


def as_dtype(value: Any) -> DType:
    """The element type meant by a DType, a name, a NumPy dtype or scalar type, or a Python type.

    Python's float is float32, int is int32, str and bytes are string. Raises DtypeError for anything else.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and (value in _BY_NAME or value in _ALIASES):
        return _BY_NAME.get(value) or _ALIASES[value]
    if type(value) is int and value % 100 in _BY_NUMBER:      # TensorFlow's number, or a hundred more for a reference
        return _BY_NUMBER[value % 100]
    if isinstance(value, str) and value.endswith("_ref"):
        return as_dtype(value.removesuffix("_ref"))
    if isinstance(value, type) and value in _PYTHON:
        return _PYTHON[value]
    try:
        found = None if value is None else np.dtype(value)      # NumPy reads None as float64
    except TypeError:
        found = None
    if found is not None:
        if found in _BY_NUMPY:
            return _BY_NUMPY[found]
        if found.kind in "SUO":
            return string
        if found.names and found.names[0] in _BY_NAME:      # [("quint8", np.uint8)], as TensorFlow marks arrays
            return _BY_NAME[found.names[0]]
    raise errors.DtypeError(f"as_dtype: {value!r} is not an element type; use one of {', '.join(_BY_NAME)}")


def dtype_of(array: Any) -> DType:
    """The element type of a runtime value (a NumPy array or an opaque object)."""
    if isinstance(array, np.ndarray):
        return as_dtype(array.dtype)
    return variant


def bare(value: Any, where: str) -> Any:
    """`value`, of which an array is going to be made; InvalidArgumentError where that array would not say what it says.

    An array may mask elements or carry a unit; of those that do neither, subclasses are as good as any.
    """
    if type(value) is np.ndarray:
        return value
    masked = sys.modules.get("numpy.ma")      # NumPy loads it when somebody asks for it, so that without it nothing is masked
    for part in value if isinstance(value, list | tuple) else [value]:
        if not isinstance(part, np.ndarray) or type(part) is np.ndarray:
            continue
        if masked is not None and masked.is_masked(part):
            raise errors.InvalidArgumentError(f"{where}: {masked.count_masked(part)} of {part.size} elements are masked but a "
                                              "tensor has no mask; give them a value with .filled(...), or feed the mask too")
        unit = next((getattr(part, name) for name in ("unit", "units") if hasattr(part, name)), None)
        if unit is not None:
            raise errors.InvalidArgumentError(f"{where}: a {type(part).__name__} has the unit {unit!s} but a tensor "
                                              "has none; pass np.asarray(value) where the numbers are meant")
    return value


def to_array(value: Any, dtype: DType | None = None, where: str = "convert") -> np.ndarray[Any, Any]:
    """A NumPy array of `value`; Python numbers become float32 / int32 / complex128 and lose nothing silently.

    Raises DtypeError when `value` does not fit `dtype` (a float into an integer type, text into a number).
    """
    if dtype is string or (dtype is None and _is_text(value)):
        return _text_array(value)
    value = bare(value, where)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise errors.ShapeError(f"{where}: {_shorten(value)} has rows of different lengths; pass numbers of one "
                                "rectangular shape (setting an array element with a sequence: it must be a dense array)"
                                ) from error
    if array.dtype.kind in "SU" and dtype is None:
        return _text_array(value)
    if array.dtype.kind in "SUO":
        wanted = dtype.name if dtype else "a tensor"
        familiar = " (None values not supported.)" if value is None else (
            f" (Can't convert Operation {value.name!r} to Tensor)") if hasattr(value, "control_inputs") else (
            f" (Expected {wanted}, got {_shorten(value)} of type '{type(value).__name__}' instead.)" if dtype else "")
        raise errors.DtypeError(f"{where}: {_shorten(value)} is not a number but {wanted} was wanted; pass numbers of one "
                                f"rectangular shape{familiar}")
    if dtype is None:
        return _default_width(value, array)
    if array.dtype == dtype.numpy:
        return array
    return _checked_cast(value, array, dtype, where)


def cast_array(value: Any, dtype: DType | None) -> Any:
    """`value`, cast to `dtype` as `astype` does where it is a NumPy array of numbers; truth values of Python as 0 and 1."""
    if dtype is None or dtype.kind not in ("float", "int", "bool", "complex"):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return value.astype(dtype.numpy) if value.dtype.kind in "fiubc" else value
    true = dtype.kind != "bool" and isinstance(value, (bool, list, tuple)) and _all_truth(value)
    return np.asarray(value).astype(dtype.numpy) if true else value


def _all_truth(value: Any) -> bool:
    """Is it a truth value, or nested lists of them?"""
    return all(map(_all_truth, value)) if isinstance(value, (list, tuple)) and value else isinstance(value, bool)


def feed_array(value: Any, dtype: DType, where: str) -> np.ndarray[Any, Any]:
    """A NumPy array of `value` for a tensor of `dtype`: cast as np.asarray(value, dtype) does.

    Truth values become numbers and numbers truth values; floats lose their fraction in an integer type, which a warning
    says. Raises DtypeError where more would be lost: an imaginary part, text, a number out of the type's range.
    """
    value = bare(value, where)
    try:
        array = np.asarray(value)
    except ValueError:
        return to_array(value, dtype, where)
    if array.dtype.kind not in "fiub" or dtype.kind not in ("float", "int", "bool"):
        return to_array(value, dtype, where)
    if array.dtype.kind == "b" or dtype.kind == "bool":
        return array.astype(dtype.numpy)
    if array.dtype.kind == "f" and dtype.kind == "int" and array.size:
        warnings.warn(f"{where}: {array.dtype} values lose their fraction in {dtype.name}; cast them before", stacklevel=1)
        array = np.trunc(array)
    return _in_range(value, array, dtype, where)


def _checked_cast(value: Any, array: np.ndarray[Any, Any], dtype: DType, where: str) -> np.ndarray[Any, Any]:
    lossy = (array.dtype.kind in "fc" and dtype.kind in ("int", "quantized", "bool")) or (
        array.dtype.kind == "c" and dtype.kind != "complex") or (array.dtype.kind == "b" and dtype.kind != "bool") or (
        array.dtype.kind in "iu" and dtype.kind == "bool")
    if lossy and array.size:
        raise errors.DtypeError(f"{where}: {_shorten(value)} is {array.dtype} but {dtype.name} was wanted; "
                                f"cast it, or pass {dtype.name} values")
    return _in_range(value, array, dtype, where)


def _in_range(value: Any, array: np.ndarray[Any, Any], dtype: DType, where: str) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        cast = array.astype(dtype.numpy)
    if dtype.kind in ("int", "quantized") and array.size and not np.array_equal(cast, array):
        raise errors.DtypeError(f"{where}: {_shorten(value)} does not fit {dtype.name} "
                                f"({dtype.min} … {dtype.max}); use a wider type")
    return cast


def _default_width(value: Any, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if hasattr(value, "__array__"):      # it says its type itself: NumPy's, columns of tables
        return array
    if array.dtype == np.float64:
        with np.errstate(all="ignore"):
            return array.astype(np.float32)
    if array.dtype == np.int64 and (array.size == 0 or (abs(array) < 2**31).all()):
        return array.astype(np.int32)
    return array


def _is_text(value: Any) -> bool:
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    if isinstance(value, np.ndarray) and value.dtype == object and value.size:
        value = value.flat[0]
    return isinstance(value, (str, bytes))


def _encoded(item: Any) -> bytes:
    if isinstance(item, str):
        return item.encode()
    if isinstance(item, bytes | bytearray | np.bytes_):
        return bytes(item)
    raise errors.DtypeError(f"convert: {_shorten(item)} is a {type(item).__name__} but string was wanted; pass str or bytes")


def _text_array(value: Any) -> np.ndarray[Any, Any]:
    raw = np.array(value, dtype=object)
    if set(map(type, raw.ravel().tolist())) <= {bytes}:      # looked at without a call for each
        return raw
    encode = np.frompyfunc(_encoded, 1, 1)
    return np.asarray(encode(raw), dtype=object)


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
