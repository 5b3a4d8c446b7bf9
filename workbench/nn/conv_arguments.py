"""Arguments of convolutions and pooling in the spellings that layers take, and the lengths that follow from them."""
from __future__ import annotations

from typing import Any

from workbench import errors

__all__ = ["conv_input_length", "conv_output_length", "convert_data_format", "deconv_output_length", "normalize_data_format",
           "normalize_padding", "normalize_tuple"]

_PADDINGS = ("valid", "same", "full")
_SPACES = {3: "W", 4: "HW", 5: "DHW"}      # by rank


def normalize_data_format(value: str) -> str:
    """"channels_first" or "channels_last", however large its letters; InvalidArgumentError for another."""
    return _one_of(value, ("channels_first", "channels_last"), "data_format")


def normalize_padding(value: str) -> str:
    """"valid" or "same", however large its letters; InvalidArgumentError for another."""
    return _one_of(value, _PADDINGS[:2], "padding")


def _one_of(value: str, known: tuple[str, ...], name: str) -> str:
    found = str(value).lower()
    if found not in known:
        raise errors.InvalidArgumentError(f"layers: the `{name}` argument must be one of {', '.join(known)}. Received: "
                                          f"{value!r}")
    return found


def normalize_tuple(value: Any, n: int, name: str) -> tuple[Any, ...]:
    """`n` whole numbers, from one of them or from `n`; InvalidArgumentError, with the argument's `name`, for others."""
    found = (value,) * n if isinstance(value, int) else tuple(value) if hasattr(value, "__iter__") else ()
    try:
        whole = len([int(item) for item in found]) == n
    except (TypeError, ValueError):
        whole = False
    if not whole:
        raise errors.InvalidArgumentError(f"layers: the `{name}` argument must be a tuple of {n} integers. Received: {value!r}")
    return found


def convert_data_format(data_format: str, ndim: int) -> str:
    """What operations on `ndim` dimensions call a layout of layers: "NHWC", "NCW" …; InvalidArgumentError for other ranks."""
    layout = _one_of(data_format, ("channels_first", "channels_last"), "data_format")
    if ndim not in _SPACES:
        raise errors.InvalidArgumentError(f"layers: Input rank not supported: {ndim}; use 3, 4 or 5")
    return f"N{_SPACES[ndim]}C" if layout == "channels_last" else f"NC{_SPACES[ndim]}"


def conv_output_length(input_length: int | None, filter_size: int, padding: str, stride: int, dilation: int = 1) -> int | None:
    """How long a convolution's result is, None for an unknown length; `padding` is "valid", "same" or "full"."""
    if input_length is None:
        return None
    reach = (filter_size - 1) * dilation
    places = input_length + {"valid": -reach, "same": 0, "full": reach}[_one_of(padding, _PADDINGS, "padding")]
    return -(-places // stride)


def conv_input_length(output_length: int | None, filter_size: int, padding: str, stride: int) -> int | None:
    """How long the input was of which a convolution made `output_length`, None for an unknown length."""
    if output_length is None:
        return None
    around = {"valid": 0, "same": filter_size // 2, "full": filter_size - 1}[_one_of(padding, _PADDINGS, "padding")]
    return (output_length - 1) * stride - 2 * around + filter_size


def deconv_output_length(input_length: int | None, filter_size: int, padding: str, stride: int) -> int | None:
    """How long a transposed convolution's result is, None for an unknown length."""
    if input_length is None:
        return None
    more = {"valid": max(filter_size - stride, 0), "same": 0, "full": 2 - stride - filter_size}
    return input_length * stride + more[_one_of(padding, _PADDINGS, "padding")]
