"""Complex numbers: parts, conjugates, sizes and angles, and Fourier's transforms."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, convert, front, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape


def _paired(dtypes, attrs):
    return [as_dtype("complex128" if dtypes[0].size == 8 else "complex64")]


def _real(dtypes, attrs):
    return [dtypes[0].real_dtype]


@op("real[...] imag[...] -> [...]", name="complex", types="T:float T ->", dtypes=_paired, analytic=False)
def complex_(real, imag):
    """real + i · imag: complex64 from float32, complex128 from float64."""
    if real.dtype.itemsize < 4:
        raise errors.DtypeError(f"complex: real is {real.dtype.name}; use float32 or float64")
    out = np.empty(np.broadcast_shapes(real.shape, imag.shape), np.complex128 if real.dtype.itemsize == 8 else np.complex64)
    out.real, out.imag = real, imag
    return out


@complex_.gradient
def _(node, dy):
    real, imag = node.inputs
    return ops.unbroadcast(ops.real(dy), real, imag), ops.unbroadcast(ops.imag(dy), imag, real)


@op("x[...] -> [...]", name="real", types="T:differentiable ->", dtypes=_real, analytic=False)
def real_(x):
    """The real part."""
    return np.array(x.real)


@real_.gradient
def _(node, dy):
    return ops.complex(dy, ops.zeros_like(dy)) if node.inputs[0].dtype.is_complex else dy


@op("x[...] -> [...]", name="imag", types="T:differentiable ->", dtypes=_real, analytic=False)
def imag_(x):
    """The imaginary part, 0 for real numbers."""
    return np.array(x.imag)


@imag_.gradient
def _(node, dy):
    return ops.complex(ops.zeros_like(dy), dy) if node.inputs[0].dtype.is_complex else ops.zeros_like(dy)


def _number(where, input):
    x = convert(input)
    if not x.dtype.is_number:
        raise errors.DtypeError(f"{where}: input is {x.dtype.name} but a number type is needed; cast it")
    return x


@front("real")
def _(real, input, name=None):
    """The real part of complex numbers; real ones stay as they are."""
    x = _number("real", input)
    return real(x, name=name) if x.dtype.is_complex else x


@front("imag")
def _(imag, input, name=None):
    """The imaginary part of complex numbers, zeros for real ones."""
    x = _number("imag", input)
    return imag(x, name=name) if x.dtype.is_complex else ops.zeros_like(x)


@op("x[...] -> [...]", name="conj", types="T:number -> T", analytic=False)
def conj_(x):
    """The complex conjugate."""
    return np.conj(x)


@conj_.gradient
def _(node, dy):
    return ops.conj(dy)


@front("conj")
def _(conj, x, name=None):
    """The complex conjugate; real numbers stay as they are. DtypeError for what is no number."""
    x = convert(x)
    return x if x.dtype.is_floating or x.dtype.is_integer else conj(x, name=name)


@op("x[...] -> [...]", types="T:differentiable ->", dtypes=_real, analytic=False)
def complex_abs(x):
    """|x|; its gradient at 0 is 0."""
    return np.abs(x)


@complex_abs.gradient
def _(node, dy):
    x, y = node.inputs[0], node.outputs[0]
    zero = ops.equal(y, 0)
    share = ops.realdiv(dy, ops.where(zero, ops.ones_like(y), y))
    return ops.multiply(ops.cast(share, x.dtype), x)


@front("abs")
def _(abs, x, name=None):
    """The absolute value: a real number also of complex ones; its gradient at 0 is 0."""
    x = convert(x)
    return ops.complex_abs(x, name=name) if x.dtype.is_complex else abs(x, name=name)


@front("sigmoid")
def _(sigmoid, x, name=None):
    """1 / (1 + exp(-x)) of float or complex numbers; float ones do not overflow."""
    built = hasattr(x, "op") or hasattr(x, "__tensor__")
    if not (convert(x).dtype.is_complex if built else np.iscomplexobj(x)):
        return sigmoid(x, name=name)
    power = ops.exp(ops.negative(x))
    return ops.reciprocal(ops.add(power, ops.ones_like(power)), name=name)


@op("x[...] -> [...]", name="angle", types="T:differentiable ->", dtypes=_real, analytic=False)
def angle_(x):
    """The angle of complex numbers in radians, -π … π."""
    return np.angle(x).astype(x.real.dtype)


@angle_.gradient
def _(node, dy):
    """∂/∂ of atan2(im, re), as one complex number: i · x / |x|²."""
    x = node.inputs[0]
    if not x.dtype.is_complex:
        return ops.zeros_like(x)
    re, im = ops.real(x), ops.imag(x)
    share = ops.realdiv(dy, ops.add(ops.square(re), ops.square(im)))
    return ops.complex(ops.negative(ops.multiply(im, share)), ops.multiply(re, share))


@front("angle")
def _(angle, input, name=None):
    """The angle of numbers in radians, -π … π; 0 or π for real ones."""
    x = _number("angle", input)
    if x.dtype.is_complex:
        return angle(x, name=name)
    return ops.where(ops.less(x, 0), ops.multiply(ops.ones_like(x), np.pi), ops.zeros_like(x), name=name)


# Fourier's transforms over the last axes

def _kept(inputs, attrs):
    shape, rank = inputs[0].shape, attrs["rank"]
    if not isinstance(rank, int) or rank < 1:
        raise errors.InvalidArgumentError(f"fft: rank is {rank!r}; transform 1 axis or more")
    _transformed("fft", shape, rank)
    return [shape]


def _transformed(where, shape, rank):
    if shape.rank is not None and shape.rank < rank:
        raise errors.ShapeError(f"{where}: x has rank {shape.rank} (shape {shape}) but {rank} axes are transformed; reshape "
                                f"it (Shape must be at least rank {rank}: Shape {shape} must have rank at least {rank})")


def _axes(rank):
    return tuple(range(-rank, 0))


@op("x? -> ?", types="T:differentiable -> T", shape=_kept)
def fourier(x, *, rank, inverse=False):
    """Fourier's transform of complex numbers over the last `rank` axes, or its inverse."""
    function = np.fft.ifftn if inverse else np.fft.fftn
    if not x.size:
        return x.copy()      # there is nothing to transform
    return function(x, axes=_axes(rank)).astype(x.dtype, copy=False)


@fourier.gradient
def _(node, dy):
    """Its matrix is symmetric; conjugates are taken for every gradient of complex numbers alike."""
    return ops.fourier(dy, **node.attrs)


def _lengths(inputs, rank):
    """What is known of the lengths of the transformed axes, which are an input."""
    known = constant_value(inputs[1])
    if known is None:
        return [None] * rank
    return _counts(known, rank)


def _last(x, rank):
    """The lengths of the last `rank` axes: constants where they are known."""
    known = [None] if x.shape.rank is None else x.shape.as_list()[-rank:]
    return ops.shape(x)[-rank:] if None in known else convert(np.array(known, np.int32))


def _counts(lengths, rank):
    lengths = [int(n) for n in lengths]
    if len(lengths) != rank:
        raise errors.InvalidArgumentError(f"fft: the lengths {lengths} are not those of {rank} axes; give one for each")
    if any(n < 0 for n in lengths):
        raise errors.InvalidArgumentError(f"fft: the lengths are {lengths}; use numbers from 0")
    return lengths


def _halved(length):
    return None if length is None else length // 2 + 1 if length else 0


def _half(inputs, attrs):
    """Lengths of the transformed axes as asked, of the last one half of it and one."""
    [shape], lengths = _kept(inputs, attrs), _lengths(inputs, attrs["rank"])
    if shape.sizes is None:
        return [shape]
    return [Shape([*shape.sizes[:-len(lengths)], *lengths[:-1], _halved(lengths[-1])])]


def _fitted(x, lengths):
    """x cut, or continued with zeros, to `lengths` along its last axes."""
    for axis, length in zip(range(-len(lengths), 0), lengths):
        x = np.take(x, np.arange(min(length, x.shape[axis])), axis)
        room = [(0, 0)] * x.ndim
        room[axis] = (0, length - x.shape[axis])
        x = np.pad(x, room)
    return x


@op("x? lengths[r] -> ?", types="T:float int32 ->", dtypes=_paired, shape=_half, analytic=False)
def real_fourier(x, lengths, *, rank):
    """The first half of Fourier's transform of real numbers, whose last `rank` axes are cut or padded to `lengths`."""
    kind, lengths = np.complex128 if x.dtype.itemsize == 8 else np.complex64, _counts(lengths, rank)
    if not x.size or 0 in lengths:
        return np.zeros((*x.shape[:x.ndim - rank], *lengths[:-1], _halved(lengths[-1])), kind)
    found = np.fft.rfftn(_fitted(x, lengths), axes=_axes(rank))
    return found.astype(kind, copy=False)


@real_fourier.gradient
def _(node, dy):
    """The adjoint: transform back what lies in the other half as zeros, and take the real part."""
    (x, lengths), rank = node.inputs, node.attrs["rank"]
    whole = ops.fitted(dy, lengths)
    count = ops.cast(ops.reduce_prod(lengths), x.dtype)
    back = ops.multiply(ops.real(ops.fourier(whole, rank=rank, inverse=True)), count)
    return ops.fitted(back, _last(x, rank)), None


def _lengthened(inputs, attrs):
    shape, lengths = inputs[0].shape, inputs[1].shape
    if not lengths.known:
        return [Shape(None if shape.sizes is None else [None] * shape.rank)]
    rank = lengths.sizes[0]
    _transformed("fft", shape, rank)
    return [shape if shape.sizes is None else Shape([*shape.sizes[:len(shape.sizes) - rank], *_lengths(inputs, rank)])]


@op("x? lengths[r] -> ?", types="T:differentiable int32 -> T", shape=_lengthened)
def fitted(x, lengths):
    """x cut, or continued with zeros, to `lengths` along its last axes."""
    return _fitted(x, _counts(lengths, len(lengths)))


@fitted.gradient
def _(node, dy):
    x, lengths = node.inputs
    rank = lengths.shape[0].value
    return ops.fitted(dy, ops.shape(x)[ops.rank(x) - ops.size(lengths):] if rank is None else _last(x, rank)), None


def _whole(inputs, attrs):
    [shape], lengths = _kept(inputs, attrs), _lengths(inputs, attrs["rank"])
    return [shape if shape.sizes is None else Shape([*shape.sizes[:-len(lengths)], *lengths])]


@op("x? lengths[r] -> ?", types="T:differentiable int32 ->", dtypes=_real, analytic=False, shape=_whole)
def inverse_real_fourier(x, lengths, *, rank):
    """The real numbers of `lengths` along the last `rank` axes whose half transform is x."""
    lengths = _counts(lengths, rank)
    if not x.size or 0 in lengths:
        return np.zeros((*x.shape[:x.ndim - rank], *lengths), x.real.dtype)
    half = (*lengths[:-1], _halved(lengths[-1]))
    found = np.fft.irfftn(_fitted(x, half), lengths, _axes(rank))
    return found.astype(x.real.dtype, copy=False)


@inverse_real_fourier.gradient
def _(node, dy):
    """The half transform, twice where a number stands for its conjugate too, over the number of elements."""
    (x, lengths), rank = node.inputs, node.attrs["rank"]
    dx = ops.real_fourier(dy, lengths, rank=rank)
    last, place = lengths[-1], ops.range(ops.shape(dx)[-1])
    once = ops.logical_or(ops.equal(place, 0), ops.equal(place * 2, last))
    share = ops.where(once, ops.ones_like(place), ops.ones_like(place) * 2)
    elements = ops.cast(ops.maximum(ops.reduce_prod(lengths), 1), "float64")
    dx = ops.multiply(dx, ops.cast(ops.divide(ops.cast(share, "float64"), elements), dx.dtype))
    return ops.fitted(dx, _last(x, rank)), None


@op("x? -> ?", types="T:float -> T", shape=lambda inputs, attrs: _kept(inputs, {"rank": 1}))
def cosine_transform(x, *, turned=False):
    """2 · Σ x_n cos(π k (n + ½) / N) for k = 0 … N - 1 along the last axis; `turned`, the sum runs over k for each n.

    By one Fourier transform of twice the length. Source: Makhoul 1980.
    """
    length = x.shape[-1]
    if not length:
        return x.copy()
    turn = np.exp(-0.5j * np.pi * np.arange(length) / length)
    if turned:
        found = 4 * length * np.fft.ifft(x / turn, 2 * length).real[..., :length]
    else:
        found = 2 * (np.fft.rfft(x, 2 * length)[..., :length] * turn).real
    return found.astype(x.dtype)


@cosine_transform.gradient
def _(node, dy):
    return ops.cosine_transform(dy, turned=not node.attrs["turned"])


@composed
def dct(input, type=2, n=None, axis=-1, norm=None, name=None):
    """The discrete cosine transform II of real signals [..., N] along the last axis; norm "ortho" makes it orthonormal.

    ValueError for another type, length or axis. Source: Ahmed, Natarajan, Rao 1974.
    """
    if type != 2 or n is not None or axis != -1 or norm not in (None, "ortho"):
        raise errors.InvalidArgumentError(f"dct: type is {type}, n {n}, axis {axis}, norm {norm!r}; Only Type II DCT is "
                                          "supported: type=2, n=None, axis=-1, norm=None or 'ortho'")
    x = convert(input)
    if norm is None:
        return ops.cosine_transform(x, name=name)
    count = ops.cast(ops.shape(x)[-1], x.dtype)
    first = ops.cast(ops.equal(ops.range(ops.shape(x)[-1]), 0), x.dtype)
    scale = ops.rsqrt(2.0 * count) * (1.0 - first * (1.0 - np.sqrt(0.5)))
    return ops.multiply(ops.cosine_transform(x), scale, name=name)


def _complex_transform(rank, inverse):
    def transform(input, name=None):
        x = convert(input)
        if not x.dtype.is_complex:
            raise errors.DtypeError(f"fft: input is {x.dtype.name} but complex numbers are needed; cast it, or use rfft")
        return ops.fourier(x, rank=rank, inverse=inverse, name=name)
    transform.__name__ = f"{'i' * inverse}fft{'' if rank == 1 else f'{rank}d'}"
    transform.__doc__ = f"Fourier's transform{' back' * inverse} of complex numbers over the last {rank} axes."
    return composed(transform)


def _real_transform(rank, inverse):
    def transform(input_tensor, fft_length=None, name=None):
        x = convert(input_tensor)
        if fft_length is None:
            fft_length = _last(x, rank)
            if inverse:
                fft_length = ops.concat([fft_length[:-1], ops.maximum((fft_length[-1:] - 1) * 2, 0)], 0)
        lengths = convert(fft_length)
        lengths = ops.cast(lengths if lengths.shape.rank == 1 else ops.reshape(lengths, [-1]), "int32")
        function = ops.inverse_real_fourier if inverse else ops.real_fourier
        return function(x, lengths, rank=rank, name=name)
    transform.__name__ = f"{'i' * inverse}rfft{'' if rank == 1 else f'{rank}d'}"
    transform.__doc__ = f"Fourier's transform{' back' * inverse} of real numbers over the last {rank} axes: half of it."
    return composed(transform)


for _rank in (1, 2, 3):
    for _inverse in (False, True):
        _complex_transform(_rank, _inverse)
        _real_transform(_rank, _inverse)
