"""Strings joined, cut, coded and hashed: what TensorFlow's hashes give, bit by bit."""
from __future__ import annotations

import base64
import gzip
import re
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, convert, ops
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape

TEXT: dict[str, Any] = {"differentiable": False}
_MASK = 2**64 - 1


def _mapped(function: Callable[[bytes], Any], values: Any, dtype: Any = object) -> Any:
    flat = np.asarray(values, object)
    out = np.empty(flat.size, dtype)
    out[:] = [function(item) for item in flat.ravel()]
    return out.reshape(flat.shape)


# joining and cutting

def _joined(inputs: Any, attrs: Any) -> list[Shape]:
    dims, axes = inputs[0].shape.sizes, attrs["axis"]
    if dims is None:
        return [Shape(None)]
    places = set(_places(axes, len(dims)))
    if attrs["keepdims"]:
        return [Shape([1 if i in places else d for i, d in enumerate(dims)])]
    return [Shape([d for i, d in enumerate(dims) if i not in places])]


def _places(axes: Any, rank: int) -> list[int]:
    """The axes counted from the front; ShapeError where one is outside or named twice."""
    for a in axes:
        if not -rank <= a < rank:
            raise errors.ShapeError(f"reduce_join: Invalid reduction dimension {a} for inputs of rank {rank}; use {-rank} … "
                                    f"{rank - 1}")
    places = [int(a) % rank for a in axes]
    if len(set(places)) < len(places):
        twice = next(a for a, place in zip(axes, places) if places.count(place) > 1 and a >= 0)
        raise errors.ShapeError(f"reduce_join: Duplicate reduction dimension {twice} in {list(axes)}; name each axis once")
    return places


@op("inputs? -> ?", types="string -> string", shape=_joined, **TEXT)
def join_axes(inputs: Any, *, axis: Any, keepdims: bool = False, separator: str = "") -> Any:
    """The strings along `axis` joined, along the first of several first."""
    return _join(inputs, axis, keepdims, separator)


@op("inputs? axis? -> ?", types="string int -> string", shape=lambda inputs, attrs: [Shape(None)], **TEXT)
def join_axes_at(inputs: Any, axis: Any, *, keepdims: bool = False, separator: str = "") -> Any:
    """The strings along the axes that the step knows joined, along the first of several first."""
    return _join(inputs, np.atleast_1d(axis).tolist(), keepdims, separator)


def _join(inputs: Any, axis: Any, keepdims: bool, separator: str) -> Any:
    x = np.asarray(inputs, object)
    axes = _places(axis, x.ndim)
    rest = [i for i in range(x.ndim) if i not in axes]
    sizes = [int(np.prod([x.shape[i] for i in some], dtype=np.int64)) for some in (rest, axes)]
    rows = x.transpose(*rest, *axes[::-1]).reshape(sizes)
    out = np.empty(len(rows), object)
    out[:] = [separator.encode().join(row) for row in rows]
    return out.reshape([1 if i in axes else x.shape[i] for i in range(x.ndim)] if keepdims else [x.shape[i] for i in rest])


@composed
def reduce_join(inputs, axis=None, keep_dims=False, separator="", name=None, reduction_indices=None, keepdims=None):
    """The strings along `axis` (an int or several, one after the other; default all, the last first) joined by
    `separator`."""
    x, axis = convert(inputs, "string"), reduction_indices if axis is None else axis
    if axis is None:
        axis = ops.range(ops.rank(x) - 1, -1, -1) if x.shape.rank is None else list(range(x.shape.rank))[::-1]
    if isinstance(axis, list) and not axis:
        axes = []
    else:
        known = constant_value(convert(axis, None if hasattr(axis, "dtype") else "int32"))
        if known is None:
            return ops.join_axes_at(x, axis, keepdims=bool(keep_dims if keepdims is None else keepdims), separator=separator,
                                    name=name)
        axes = np.atleast_1d(known).tolist()
    if not axes:
        return ops.identity(x, name=name)
    return ops.join_axes(x, axis=tuple(axes), keepdims=bool(keep_dims if keepdims is None else keepdims), separator=separator,
                         name=name)


@op("input[...] pos[...] len[...] -> [...]", types="string I:int I -> string", **TEXT)
def substr(input: Any, pos: Any, len: Any) -> Any:
    """`len` bytes of each string from `pos` on, fewer at its end; a negative `pos` counts from the end."""
    text, begin, length = np.broadcast_arrays(np.asarray(input, object), pos, len)
    out = np.empty(text.size, object)
    for number, (item, at, size) in enumerate(zip(text.ravel(), begin.ravel().tolist(), length.ravel().tolist())):
        total = item.__len__()
        if not -total <= at <= total:
            raise errors.InvalidArgumentError(f"substr: pos {at} is outside string {item[:20]!r} of {total} bytes; stay inside")
        at = at + total if at < 0 else at
        out[number] = item[at:at + max(size, 0)]
    return out.reshape(text.shape)


@op("input[...] -> [...]", types="string -> string", **TEXT)
def string_strip(input: Any) -> Any:
    """Each string without white space at its ends."""
    return _mapped(lambda item: item.strip(), input)


@op("input[...] -> [...]", types="string -> string", **TEXT)
def regex_replace(input: Any, *, pattern: str, rewrite: str, replace_global: bool = True) -> Any:
    r"""Each string with the matches of a regular expression (or the first) replaced; \1 in `rewrite` is a group."""
    expression = re.compile(pattern.encode())
    return _mapped(lambda item: expression.sub(rewrite.encode(), item, 0 if replace_global else 1), input)


@op("input[...] -> [...]", types="string -> bool", **TEXT)
def regex_full_match(input: Any, *, pattern: str) -> Any:
    """Is each string, from its first byte to its last, a match of a regular expression?"""
    expression = re.compile(pattern.encode())
    return _mapped(lambda item: expression.fullmatch(item) is not None, input, bool)


def _text_of(where: str, item: bytes) -> str:
    try:
        return item.decode("utf-8")
    except UnicodeDecodeError:
        raise errors.InvalidArgumentError(f"{where}: {item[:20]!r} is no UTF-8; leave the unit or the encoding away to "
                                          "work with bytes") from None


@op("input[...] -> [...]", types="string -> int32", **TEXT)
def string_length(input: Any, *, unit: str = "BYTE") -> Any:
    """How many bytes, or with unit UTF8_CHAR characters, each string has."""
    if unit not in ("BYTE", "UTF8_CHAR"):
        raise errors.InvalidArgumentError(f"string_length: unit is {unit!r}; use BYTE or UTF8_CHAR")
    characters = unit == "UTF8_CHAR"
    return _mapped(lambda item: (_text_of("string_length", item) if characters else item).__len__(), input, np.int32)


def _cased(where: str, input: Any, encoding: str, bare: Callable[[bytes], bytes], wide: Callable[[str], str]) -> Any:
    if encoding not in ("", "utf-8"):
        raise errors.InvalidArgumentError(f"{where}: encoding is {encoding!r}; leave it empty for ASCII or use utf-8")
    return _mapped(lambda item: wide(_text_of(where, item)).encode() if encoding else bare(item), input)


@op("input[...] -> [...]", types="string -> string", **TEXT)
def string_lower(input: Any, *, encoding: str = "") -> Any:
    """Each string with small letters: of ASCII alone, or with encoding utf-8 of all scripts."""
    return _cased("string_lower", input, encoding, bytes.lower, str.lower)


@op("input[...] -> [...]", types="string -> string", **TEXT)
def string_upper(input: Any, *, encoding: str = "") -> Any:
    """Each string with capital letters: of ASCII alone, or with encoding utf-8 of all scripts."""
    return _cased("string_upper", input, encoding, bytes.upper, str.upper)


# coding

@op("input[...] -> [...]", types="string -> string", **TEXT)
def encode_base64(input: Any, *, pad: bool = False) -> Any:
    """Each string in the letters of web-safe base64, with = at the end if `pad`."""
    return _mapped(lambda item: base64.urlsafe_b64encode(item) if pad else base64.urlsafe_b64encode(item).rstrip(b"="), input)


def _from_base64(item: bytes) -> bytes:
    bare = item.rstrip(b"=")
    if len(bare) % 4 == 1 or re.fullmatch(rb"[A-Za-z0-9_-]*", bare) is None:
        raise errors.InvalidArgumentError(f"decode_base64: {item[:20]!r} is not web-safe base64; pass what encode_base64 gave"
                                          + " (its length is 1 modulo 4)" * (len(bare) % 4 == 1))
    return base64.urlsafe_b64decode(bare + b"=" * (-len(bare) % 4))


@op("input[...] -> [...]", types="string -> string", **TEXT)
def decode_base64(input: Any) -> Any:
    """The bytes that encode_base64 made letters of."""
    return _mapped(_from_base64, input)


_OPENERS: dict[str, Callable[[bytes], bytes]] = {"": lambda item: item, "ZLIB": zlib.decompress, "GZIP": gzip.decompress}


@op("bytes[...] -> [...]", types="string -> string", **TEXT)
def decode_compressed(bytes: Any, *, compression_type: str = "") -> Any:
    """Each string decompressed: "ZLIB", "GZIP", or "" as it is."""
    if compression_type not in _OPENERS:
        raise errors.InvalidArgumentError(f"decode_compressed: compression_type is {compression_type!r}; use '', "
                                          "'ZLIB' or 'GZIP'")

    def opened(item: Any) -> Any:
        try:
            return _OPENERS[compression_type](item)
        except (zlib.error, OSError, EOFError) as error:
            raise errors.DataLossError(f"decode_compressed: {item.__len__()} bytes are not {compression_type} data ({error}); "
                                       "pass whole ones") from None
    return _mapped(opened, bytes)


# hashing

def _rotated(value: Any, by: int) -> Any:
    return (value >> by | value << (64 - by)) & _MASK


class Alike:
    """Strings of one length taken as one: a byte or word of it is that of all of them, an array of uint64."""

    def __init__(self, strings: list[bytes]):
        self._bytes = np.frombuffer(b"".join(strings), np.uint8).reshape(len(strings), -1).astype(np.uint64)

    def __len__(self) -> int:
        return self._bytes.shape[1]

    def __getitem__(self, at: int) -> Any:
        return self._bytes[:, at]


def _word(data: Any, at: int, size: int = 8) -> Any:
    if isinstance(data, bytes):
        return int.from_bytes(data[at:at + size], "little")
    return sum((data[at + i] << (8 * i) for i in range(size)), np.uint64(0))


def murmur(data: Any, seed: int = 0xDECAFCAFFE) -> Any:
    """Appleby's MurmurHash2 of 64 bits, TensorFlow's Hash64."""
    m, whole = 0xC6A4A7935BD1E995, len(data) // 8 * 8
    h = seed ^ (len(data) * m & _MASK)
    for at in range(0, whole, 8):
        k = _word(data, at) * m & _MASK
        h = (h ^ ((k ^ k >> 47) * m & _MASK)) * m & _MASK
    if whole < len(data):
        h = (h ^ _word(data, whole, len(data) - whole)) * m & _MASK
    h = (h ^ h >> 47) * m & _MASK
    return h ^ h >> 47


_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def _mixed(value: Any) -> Any:
    return value ^ value >> 47


def _pair(u: Any, v: Any, mul: Any) -> Any:
    a = _mixed((u ^ v) * mul & _MASK)
    return _mixed((v ^ a) * mul & _MASK) * mul & _MASK


def _short(s: Any) -> Any:
    n, mul = len(s), (_K2 + len(s) * 2) & _MASK
    if n >= 8:
        a, b = (_word(s, 0) + _K2) & _MASK, _word(s, n - 8)
        return _pair((_rotated(b, 37) * mul + a) & _MASK, (_rotated(a, 25) + b) * mul & _MASK, mul)
    if n >= 4:
        return _pair((n + (_word(s, 0, 4) << 3)) & _MASK, _word(s, n - 4, 4), mul)
    if n:
        y, z = s[0] + (s[n >> 1] << 8), n + (s[-1] << 2)
        return _mixed(y * _K2 & _MASK ^ z * _K0 & _MASK) * _K2 & _MASK
    return _K2


def _middle(s: Any) -> Any:
    n, mul = len(s), (_K2 + len(s) * 2) & _MASK
    first = _K1 if n <= 32 else _K2
    a, b, c, d = _word(s, 0) * first & _MASK, _word(s, 8), _word(s, n - 8) * mul & _MASK, _word(s, n - 16) * _K2 & _MASK
    y = (_rotated((a + b) & _MASK, 43) + _rotated(c, 30) + d) & _MASK
    last = (a + _rotated((b + _K2) & _MASK, 18) + c) & _MASK
    if n <= 32:
        return _pair(y, last, mul)
    z = _pair(y, last, mul)
    e, f = _word(s, 16) * mul & _MASK, _word(s, 24)
    g, h = (y + _word(s, n - 32)) * mul & _MASK, (z + _word(s, n - 24)) * mul & _MASK
    return _pair((_rotated((e + f) & _MASK, 43) + _rotated(g, 30) + h) & _MASK,
                 (e + _rotated((f + a) & _MASK, 18) + g) & _MASK, mul)


def _weak(s: Any, at: int, a: Any, b: Any) -> tuple[Any, Any]:
    w, x, y, z = (_word(s, at + 8 * i) for i in range(4))
    a = a + w & _MASK
    b = _rotated(b + a + z & _MASK, 21)
    c, a = a, a + x + y & _MASK
    return a + z & _MASK, b + _rotated(a, 44) + c & _MASK


def farm(s: Any) -> Any:
    """Pike's FarmHash of 64 bits, TensorFlow's Fingerprint64."""
    if len(s) <= 16:
        return _short(s)
    if len(s) <= 64:
        return _middle(s)
    x, y = 81, (81 * _K1 + 113) & _MASK
    z = _mixed((y * _K2 + 113) & _MASK) * _K2 & _MASK
    v, w = (0, 0), (0, 0)
    x = (x * _K2 & _MASK) + _word(s, 0) & _MASK

    def turn(at: int, mul: int, nine: int) -> None:
        nonlocal x, y, z, v, w
        x = _rotated(x + y + v[0] + _word(s, at + 8) & _MASK, 37) * mul & _MASK
        y = _rotated(y + v[1] + _word(s, at + 48) & _MASK, 42) * mul & _MASK
        x ^= w[1] * nine & _MASK
        y = y + v[0] * nine + _word(s, at + 40) & _MASK
        z = _rotated(z + w[0] & _MASK, 33) * mul & _MASK
        v = _weak(s, at, v[1] * mul & _MASK, x + w[0] & _MASK)
        w = _weak(s, at + 32, z + w[1] & _MASK, y + _word(s, at + 16) & _MASK)
        z, x = x, z
    end = (len(s) - 1) // 64 * 64
    for at in range(0, end, 64):
        turn(at, _K1, 1)
    mul = (_K1 + ((z & 0xFF) << 1)) & _MASK
    w = (w[0] + ((len(s) - 1) & 63) & _MASK, w[1])
    v = (v[0] + w[0] & _MASK, v[1])
    w = (w[0] + v[0] & _MASK, w[1])
    turn(len(s) - 64, mul, 9)
    return _pair((_pair(v[0], w[0], mul) + _mixed(y) * _K0 + z) & _MASK, (_pair(v[1], w[1], mul) + x) & _MASK, mul)


def sip(data: Any, key: tuple[int, int]) -> Any:
    """Aumasson and Bernstein's SipHash-2-4, TensorFlow's StrongKeyedHash."""
    v = [key[0] ^ 0x736F6D6570736575, key[1] ^ 0x646F72616E646F6D, key[0] ^ 0x6C7967656E657261, key[1] ^ 0x7465646279746573]

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0], v[2] = v[0] + v[1] & _MASK, v[2] + v[3] & _MASK
            v[1], v[3] = _rotated(v[1], 51) ^ v[0], _rotated(v[3], 48) ^ v[2]
            v[0], v[2] = _rotated(v[0], 32) + v[3] & _MASK, v[2] + v[1] & _MASK
            v[1], v[3] = _rotated(v[1], 47) ^ v[2], _rotated(v[3], 43) ^ v[0]
            v[2] = _rotated(v[2], 32)
    whole = len(data) // 8 * 8
    last = _word(data, whole, len(data) - whole) | (len(data) & 255) << 56
    for word in (*(_word(data, at) for at in range(0, whole, 8)), last):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 255
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


_HASHES: dict[str, Callable[[Any, Any], Any]] = {"murmur": lambda s, key: murmur(s), "farm": lambda s, key: farm(s),
                                                 "sip": sip}


@op("input[...] -> [...]", types="string -> int64", **TEXT)
def hash_buckets(input: Any, *, num_buckets: int, kind: str, key: Any = ()) -> Any:
    """Each string's hash modulo num_buckets."""
    flat = np.asarray(input, object).ravel().tolist()
    lengths = np.fromiter(map(len, flat), np.int64, len(flat))
    out = np.empty(len(flat), np.uint64)
    for length in set(lengths.tolist()):
        places = np.flatnonzero(lengths == length)
        strings = [flat[i] for i in places.tolist()]
        few = len(strings) < 16 or not length      # Python's numbers are faster then
        out[places] = [_HASHES[kind](item, key) for item in strings] if few else _HASHES[kind](Alike(strings), key)
    return (out % np.uint64(num_buckets)).astype(np.int64).reshape(np.shape(input))


def _buckets(where: str, input: Any, num_buckets: Any, kind: str, name: Any, key: Any = ()) -> Any:
    if not isinstance(num_buckets, (int, np.integer)) or num_buckets < 1:
        raise errors.InvalidArgumentError(f"{where}: num_buckets is {num_buckets!r}; use a number above 0")
    return ops.hash_buckets(convert(input, "string"), num_buckets=int(num_buckets), kind=kind, key=tuple(key), name=name)


@composed
def string_to_hash_bucket(string_tensor, num_buckets, name=None):
    """int64: the hash of each string (MurmurHash2) modulo `num_buckets`."""
    return _buckets("string_to_hash_bucket", string_tensor, num_buckets, "murmur", name)


@composed
def string_to_hash_bucket_fast(input, num_buckets, name=None):
    """int64: the hash of each string (FarmHash) modulo `num_buckets`."""
    return _buckets("string_to_hash_bucket_fast", input, num_buckets, "farm", name)


@composed
def string_to_hash_bucket_strong(input, num_buckets, key, name=None):
    """int64: the keyed hash of each string (SipHash) modulo `num_buckets`; `key` is two numbers that nobody else knows."""
    if len(key) != 2:
        raise errors.InvalidArgumentError(f"string_to_hash_bucket_strong: key has {len(key)} numbers; give two "
                                          "(Key must have 2 elements)")
    return _buckets("string_to_hash_bucket_strong", input, num_buckets, "sip", name, [int(k) for k in key])
