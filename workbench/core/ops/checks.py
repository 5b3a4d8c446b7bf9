"""Operations that look at values as they pass: conditions that must hold, and values shown on standard error."""
from __future__ import annotations

import itertools
import sys

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.opdef import composed, op


@op("condition[] *data? ->", name="Assert", types="bool any ->", stateful=True, differentiable=False)
def assert_(condition, *data, summarize=None):
    """Nothing if `condition` holds, else InvalidArgumentError with the first `summarize` (3) elements of each of `data`."""
    if not condition:
        most = 3 if summarize is None else summarize
        shown = " ".join(f"[{_summary(value, most)}]" for value in data)
        raise errors.InvalidArgumentError(f"Assert: assertion failed: {shown or 'it has no data'}")
    return ()


@op("input? *data? -> ?", name="print_values", types="T any -> T", shape=lambda inputs, attrs: [inputs[0].shape],
    stateful=True, context=True, keeps=False)
def print_values(context, input, *data, message=None, first_n=None, summarize=None):
    """`input`; each of the first `first_n` times (None: always) a line with `message` and the data goes to standard error."""
    done = context.container.get(f"{context.node}/prints", itertools.count, itertools.count)
    if first_n is None or first_n < 0 or next(done) < first_n:
        most = 3 if summarize is None else summarize
        parts = "".join(f"[{_summary(value, most)}]" for value in data)
        print(f"{message or ''}{parts}", file=sys.stderr, flush=True)
    return np.array(input)


@print_values.gradient
def _(node, dy):
    return (dy, *[None] * (len(node.inputs) - 1))


def _summary(value, most):
    """The first `most` elements as TensorFlow prints them: [[1 2][3...]] without the outermost brackets."""
    most = value.size if most < 0 else most
    left = iter(value.reshape(-1)[:most])
    text = _rows(value.shape, left, [min(most, value.size)])
    return text + ("..." if value.size > most else "")


def _rows(shape, elements, left):
    """Elements of one axis; `left[0]` counts what may still be written."""
    if len(shape) < 2:
        count = min(shape[0] if shape else 1, left[0])
        left[0] -= count
        return " ".join(_element(next(elements)) for _ in range(count))
    text = ""
    for _ in range(shape[0]):
        if left[0]:
            text += f"[{_rows(shape[1:], elements, left)}]"
    return text


def _element(value):
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if np.asarray(value).dtype.kind == "b":
        return str(int(value))
    kind = np.asarray(value).dtype
    if kind.kind not in "fV":      # bfloat16 is of kind V
        return str(value)
    digits, more = (15, 17) if kind.itemsize == 8 else (6, 9)
    text = f"{float(value):.{digits}g}"
    return text if kind.itemsize < 4 or kind.type(text) == value or value != value else f"{float(value):.{more}g}"


@composed
def Print(input_, data, message=None, first_n=None, summarize=None, name=None):
    """`input_` unchanged; each time it is computed, a line "message[values][values]" goes to standard error of its task.

    `data` is a list of tensors of any dtype, of which the first `summarize` (3; -1 for all) elements are written; after
    `first_n` lines (None: never) it falls silent. Gradients pass through.
    """
    return ops.print_values(convert(input_), list(data), message, first_n, summarize, name=name)
