"""Summaries as operations: values of one step as lines of JSON in a string scalar."""
from __future__ import annotations

import json
from typing import Any

import numpy as np

from workbench.core.opdef import op

BUCKETS = 30

SUMMARY: dict[str, Any] = {"differentiable": False, "stateful": True}


def _line(**fields: Any) -> np.ndarray[Any, Any]:
    return np.asarray(json.dumps(fields).encode(), dtype=object)


@op("value[] -> []", types="T:real -> string", **SUMMARY)
def scalar_summary(value: Any, *, tag: str) -> Any:
    """One number: {"kind": "scalar", "tag", "value"}."""
    return _line(kind="scalar", tag=tag, value=float(value))


@op("values? -> []", types="T:real -> string", **SUMMARY)
def histogram_summary(values: Any, *, tag: str) -> Any:
    """The distribution of the elements: count, min, max, mean, standard deviation, bucket edges and counts.

    NaN and infinite elements are counted in "not_finite" and otherwise left out.
    """
    flat = np.asarray(values, np.float64).ravel()
    finite = flat[np.isfinite(flat)]
    counts, edges = np.histogram(finite, BUCKETS) if finite.size else (np.zeros(0, int), np.zeros(0))
    numbers = {n: getattr(finite, n)() for n in ("min", "max", "mean", "std")} if finite.size else {}
    return _line(kind="histogram", tag=tag, count=int(flat.size), not_finite=int(flat.size - finite.size),
                 edges=edges.tolist(), counts=counts.tolist(), **{k: float(v) for k, v in numbers.items()})


@op("text? -> []", types="string -> string", **SUMMARY)
def text_summary(text: Any, *, tag: str) -> Any:
    """Text: {"kind": "text", "tag", "text"} with a list of strings."""
    return _line(kind="text", tag=tag, text=[t.decode("utf-8", "replace") for t in np.asarray(text, object).ravel()])


@op("*values[] -> []", types="string -> string", **SUMMARY)
def merge_summary(*values: Any) -> Any:
    """All lines of several summaries."""
    return np.asarray(b"\n".join(v.item() if isinstance(v, np.ndarray) else v for v in values if v), dtype=object)
