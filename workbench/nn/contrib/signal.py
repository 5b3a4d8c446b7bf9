"""Sounds and other signals as tf.contrib.signal has them: frames, short-time Fourier transforms, bands of the mel scale."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor, get_default_graph

__all__ = ["frame", "hamming_window", "hann_window", "inverse_stft", "inverse_stft_window_fn", "linear_to_mel_weight_matrix",
           "mfccs_from_log_mel_spectrograms", "overlap_and_add", "stft"]

Window = Callable[..., Any]


def _number(where: str, value: Any) -> int:
    """A length as a Python int. InvalidArgumentError for one that only a run knows."""
    known = constant_value(convert(value))
    if known is None:
        raise errors.InvalidArgumentError(f"{where}: {value!r} is known only at run time; give a number")
    return int(known)


def _with_axes(where: str, signal: Any, count: int) -> Tensor:
    x = convert(signal)
    if x.shape.rank is not None and x.shape.rank < count:
        raise errors.ShapeError(f"{where}: the rank of signal is {x.shape.rank} but it needs {count} or more axes; reshape it")
    return x


# windows

def hann_window(window_length: Any, periodic: Any = True, dtype: Any = "float32", name: str | None = None) -> Tensor:
    """0.5 - 0.5 cos(2πi / n) for each i: [window_length]. n is one less than the length, but the length itself where that is
    even and the window `periodic`."""
    return _cosine("hann_window", window_length, periodic, dtype, 0.5, name)


def hamming_window(window_length: Any, periodic: Any = True, dtype: Any = "float32", name: str | None = None) -> Tensor:
    """As hann_window, of 0.54 - 0.46 cos(2πi / n)."""
    return _cosine("hamming_window", window_length, periodic, dtype, 0.54, name)


def _cosine(where: str, window_length: Any, periodic: Any, dtype: Any, middle: float, name: str | None) -> Tensor:
    kind, length = as_dtype(dtype), _number(where, window_length)
    if not kind.is_floating:
        raise errors.InvalidArgumentError(f"{where}: dtype must be a floating point type. Found {kind.name}")
    turn = length + (1 - length % 2) * _number(where, periodic) - 1
    values = middle - (1 - middle) * np.cos(2 * np.pi * np.arange(length) / turn) if length > 1 else np.ones(length)
    return ops.constant(values.astype(kind.numpy), name=name or where)


# frames

def frame(signal: Any, frame_length: Any, frame_step: Any, pad_end: bool = False, pad_value: Any = 0, axis: int = -1,
          name: str | None = None) -> Tensor:
    """`axis` cut into frames [frames, frame_length], each `frame_step` behind the one before; the rest is dropped.

    With `pad_end` a frame begins at each step, filled with `pad_value` where the signal is over. Lengths are known numbers.
    """
    length, step = _number("frame", frame_length), _number("frame", frame_step)
    if length < 1 or step < 1:
        raise errors.InvalidArgumentError(f"frame: frame_length is {length} and frame_step {step}; use numbers from 1")
    with get_default_graph().name_scope(name or "frame"):
        x = _with_axes("frame", signal, 1)
        rank = x.shape.rank
        if rank is None:
            rows, before, after = ops.block(x, axis)
            cut = frame(rows, length, step, pad_end, pad_value, 1)
            laid: Tensor = ops.reshape(cut, ops.concat([before, ops.shape(cut)[1:3], after], 0))
            return laid
        axis %= rank
        known = x.shape.as_list()[axis]
        size: Any = ops.shape(x)[axis] if known is None else known
        count = _largest(0, -(-size // step) if pad_end else 1 + (size - length) // step)
        if pad_end:
            missing = _largest(0, length + step * (count - 1) - size)
            x = ops.pad(x, [[0, missing] if i == axis else [0, 0] for i in range(rank)], constant_values=pad_value)
        places = ops.expand_dims(ops.range(count) * step, 1) + np.arange(length, dtype=np.int32)
        found: Tensor = ops.gather(x, places, axis=axis)
        return found


def _largest(one: int, other: Any) -> Any:
    return max(one, other) if isinstance(other, int) else ops.maximum(one, other)


def overlap_and_add(signal: Any, frame_step: Any, name: str | None = None) -> Tensor:
    """Frames [..., frames, frame_length], each `frame_step` behind the one before, added up: [..., samples]."""
    step = _number("overlap_and_add", frame_step)
    with get_default_graph().name_scope(name or "overlap_and_add"):
        x = _with_axes("overlap_and_add", signal, 2)
        dims = [None, None] if x.shape.rank is None else x.shape.as_list()
        outer, (frames, length) = ops.shape(x)[:-2], dims[-2:]
        frames, length = (ops.shape(x)[axis] if known is None else known for axis, known in ((-2, frames), (-1, length)))
        samples = (frames - 1) * step + length
        places = ops.expand_dims(ops.range(frames) * step, 1) + ops.range(length)
        columns = ops.transpose(ops.reshape(x, [-1, frames * length]))
        sums = ops.unsorted_segment_sum(columns, ops.reshape(places, [-1]), samples)
        found: Tensor = ops.reshape(ops.transpose(sums), ops.concat([outer, [samples]], 0))
        if x.shape.rank is not None:
            found.set_shape([*dims[:-2], samples if isinstance(samples, int) else None])
        return found


# Fourier's transform of frames

_HANN = functools.partial(hann_window, periodic=True)


def _transformed(where: str, frame_length: int, fft_length: Any) -> int:
    """As many samples as are transformed: as asked, else the next power of two."""
    return 1 << (frame_length - 1).bit_length() if fft_length is None else _number(where, fft_length)


def stft(signals: Any, frame_length: Any, frame_step: Any, fft_length: Any = None, window_fn: Window | None = _HANN,
         pad_end: bool = False, name: str | None = None) -> Tensor:
    """Fourier's transform of each frame of real signals [..., samples] times a window: complex [..., frames, fft_length/2 + 1].

    `fft_length` is the next power of two above the frame's length where it is not given.
    """
    length = _number("stft", frame_length)
    with get_default_graph().name_scope(name or "stft"):
        framed = frame(convert(signals), length, frame_step, pad_end)
        if window_fn is not None:
            framed = framed * window_fn(length, dtype=framed.dtype)
        found: Tensor = ops.rfft(framed, [_transformed("stft", length, fft_length)])
        return found


def inverse_stft(stfts: Any, frame_length: Any, frame_step: Any, fft_length: Any = None, window_fn: Window | None = _HANN,
                 name: str | None = None) -> Tensor:
    """Signals [..., samples] of transforms of frames, each times a window and added where they overlap.

    They are those that stft was given, but at the ends, where `window_fn` is inverse_stft_window_fn of its window.
    """
    length = _number("inverse_stft", frame_length)
    with get_default_graph().name_scope(name or "inverse_stft"):
        real = ops.irfft(convert(stfts), [_transformed("inverse_stft", length, fft_length)])[..., :length]
        missing = length - real.shape.as_list()[-1]
        if missing:
            real = ops.pad(real, [[0, 0]] * (real.shape.rank - 1) + [[0, missing]])
        if window_fn is not None:
            real = real * window_fn(length, dtype=real.dtype)
        return overlap_and_add(real, frame_step)


def inverse_stft_window_fn(frame_step: Any, forward_window_fn: Window = _HANN, name: str | None = None) -> Window:
    """The window by which inverse_stft undoes stft with `forward_window_fn`. Source: Griffin and Lim 1984."""
    step = _number("inverse_stft_window_fn", frame_step)

    def window(frame_length: Any, dtype: Any = "float32") -> Tensor:
        length = _number("inverse_stft_window_fn", frame_length)
        with get_default_graph().name_scope(name or "inverse_stft_window_fn"):
            forward = forward_window_fn(length, dtype=dtype)
            overlaps = -(-length // step)
            squares = ops.reshape(ops.pad(ops.square(forward), [[0, overlaps * step - length]]), [overlaps, step])
            made: Tensor = forward / ops.tile(ops.reduce_sum(squares, 0), [overlaps])[:length]
            return made
    return window


# what is heard

def _mel(hertz: Any) -> Any:
    return 1127.0 * np.log(1.0 + np.asarray(hertz, np.float64) / 700.0)


def linear_to_mel_weight_matrix(num_mel_bins: int = 20, num_spectrogram_bins: int = 129, sample_rate: float = 8000,
                                lower_edge_hertz: float = 125.0, upper_edge_hertz: float = 3800.0, dtype: Any = "float32",
                                name: str | None = None) -> Tensor:
    """The weights [num_spectrogram_bins, num_mel_bins] that bring a spectrogram of 0 … sample_rate / 2 into triangular bands
    that are equally wide on the mel scale, without the spectrogram's first bin. InvalidArgumentError for bounds that are none.
    """
    for label, value in (("num_mel_bins", num_mel_bins), ("num_spectrogram_bins", num_spectrogram_bins),
                         ("sample_rate", sample_rate)):
        if value <= 0:
            raise errors.InvalidArgumentError(f"linear_to_mel_weight_matrix: {label} must be positive. Got: {value}")
    if lower_edge_hertz < 0:
        raise errors.InvalidArgumentError("linear_to_mel_weight_matrix: lower_edge_hertz must be non-negative. Got: "
                                          f"{lower_edge_hertz}")
    if lower_edge_hertz >= upper_edge_hertz:
        raise errors.InvalidArgumentError(f"linear_to_mel_weight_matrix: lower_edge_hertz {lower_edge_hertz:.1f} >= "
                                          f"upper_edge_hertz {upper_edge_hertz:.1f}; give the lower one first")
    kind = as_dtype(dtype)
    if not kind.is_floating:
        raise errors.InvalidArgumentError("linear_to_mel_weight_matrix: dtype must be a floating point type. Got: "
                                          f"{kind.name}")
    bins = _mel(np.linspace(0.0, sample_rate / 2, num_spectrogram_bins))[:, None]
    edges = np.linspace(_mel(lower_edge_hertz), _mel(upper_edge_hertz), num_mel_bins + 2)
    lower, centre, upper = edges[:-2], edges[1:-1], edges[2:]
    weights = np.maximum(0.0, np.minimum((bins - lower) / (centre - lower), (upper - bins) / (upper - centre)))
    weights[0] = 0.0
    return ops.constant(weights.astype(kind.numpy), name=name or "linear_to_mel_weight_matrix")


def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: Any, name: str | None = None) -> Tensor:
    """Mel-frequency cepstral coefficients of logarithms of spectrograms [..., num_mel_bins], of their shape."""
    with get_default_graph().name_scope(name or "mfccs_from_log_mel_spectrograms"):
        x = convert(log_mel_spectrograms, "float32")
        bins = x.shape.as_list()[-1]
        if bins is None or bins < 1:
            raise errors.InvalidArgumentError(f"mfccs_from_log_mel_spectrograms: num_mel_bins must be positive. Got: {x.shape}")
        found: Tensor = ops.dct(x) * (2.0 * bins) ** -0.5
        return found
