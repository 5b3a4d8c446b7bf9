"""Summaries of tensors by the names of their operations, as slim.summaries has them."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor
from workbench.nn.variables import GraphKeys, add_to_collection
from workbench.train.saving import summary

__all__ = ["add_histogram_summaries", "add_histogram_summary", "add_image_summaries", "add_image_summary",
           "add_scalar_summaries", "add_scalar_summary", "add_zero_fraction_summaries", "add_zero_fraction_summary"]


def _named(tensor: Any, name: str | None, prefix: str | None) -> str:
    title = name or tensor.op.name
    return f"{prefix}/{title}" if prefix else title


def _printed(make: Callable[..., Tensor], tensor: Any, name: str, shown: bool) -> Tensor:
    """The summary; where asked, each run prints the tensor."""
    if not shown:
        return make(name, tensor)
    made: Tensor = ops.Print(make(name, tensor, collections=[]), [convert(tensor)], name)
    add_to_collection(GraphKeys.SUMMARIES, made)
    return made


def add_histogram_summary(tensor: Any, name: str | None = None, prefix: str | None = None) -> Tensor:
    """A histogram, under `name` or the name of the tensor's operation."""
    return summary.histogram(_named(tensor, name, prefix), tensor)


def add_image_summary(tensor: Any, name: str | None = None, prefix: str | None = None, print_summary: bool = False) -> Tensor:
    """Images [batch, height, width, channels]; printed as well where asked."""
    return _printed(summary.image, tensor, _named(tensor, name, prefix), print_summary)


def add_scalar_summary(tensor: Any, name: str | None = None, prefix: str | None = None, print_summary: bool = False) -> Tensor:
    """A number; printed as well where asked."""
    return _printed(summary.scalar, tensor, _named(tensor, name, prefix), print_summary)


def add_zero_fraction_summary(tensor: Any, name: str | None = None, prefix: str | None = None,
                              print_summary: bool = False) -> Tensor:
    """Which part of a tensor is zero."""
    title = f"{_named(tensor, name, prefix)}/Fraction of Zero Values"
    return add_scalar_summary(ops.zero_fraction(tensor), title, print_summary=print_summary)


def add_histogram_summaries(tensors: Sequence[Any], prefix: str | None = None) -> list[Tensor]:
    """add_histogram_summary of each."""
    return [add_histogram_summary(tensor, prefix=prefix) for tensor in tensors]


def add_image_summaries(tensors: Sequence[Any], prefix: str | None = None) -> list[Tensor]:
    """add_image_summary of each."""
    return [add_image_summary(tensor, prefix=prefix) for tensor in tensors]


def add_scalar_summaries(tensors: Sequence[Any], prefix: str | None = None, print_summary: bool = False) -> list[Tensor]:
    """add_scalar_summary of each."""
    return [add_scalar_summary(tensor, prefix=prefix, print_summary=print_summary) for tensor in tensors]


def add_zero_fraction_summaries(tensors: Sequence[Any], prefix: str | None = None) -> list[Tensor]:
    """add_zero_fraction_summary of each."""
    return [add_zero_fraction_summary(tensor, prefix=prefix) for tensor in tensors]
