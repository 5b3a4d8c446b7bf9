"""Bad input to every row of opcases.py, made from its inputs and attributes: a value both ways, or an error of our own.

Ranks one too many and one too few, axes without elements, numbers far outside, NaN and infinity: with shapes that are known
while the graph is built, with shapes that only the step knows, and through the kernel libraries.
"""
from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.evaluate import evaluate
from tests.opcase import Array, Case
from tests.opcases import CASES
from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph
from workbench.core.graph.shape import Shape

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:densify")]
ROWS = pytest.mark.parametrize("row", list({c.op: c for c in CASES if c.inputs}.values()), ids=str)
AXES = ("axis", "dim", "seq_axis", "batch_axis")
FAR = (-1000, 1000)
LATER = re.compile(r"set_shape|known only at run time|must be known|(is|are) unknown|known rank|has no value before|"
                   "there is no kernel to call")
"""What is refused for a shape or a number that is known too late is no matter of this file."""
RANKS_AS_THEY_LIE = ("sparse_softmax_cross_entropy_with_logits", "softmax_cross_entropy_with_logits_v2")
"""Labels and logits whose ranks only the step knows are counted as they lie, as TensorFlow does."""
NOT_REACHED = ("densify",)
"""The gradient of a gather needs no value of it: a step leaves the gather out, and with it the check of its indices."""
Bad = tuple[str, tuple[Array, ...], dict[str, Any]]


def bad(row: Case) -> Iterator[Bad]:
    """(what is wrong, inputs, attributes)"""
    for i, x in enumerate(row.inputs):
        for what, y in wrong(x.astype(np.float32) if x.dtype == np.float64 else x):
            inputs = [v.astype(np.float32) if v.dtype == np.float64 else v for v in row.inputs]
            inputs[i] = y
            yield f"input {i} {what}", tuple(inputs), row.attrs
    for key, value in row.attrs.items():
        for other in numbers(value):
            yield f"{key}={other}", row.inputs, {**row.attrs, key: other}
    for key in axes(row):
        for axis in FAR:
            yield f"{key}={axis}", row.inputs, {**row.attrs, key: axis}


def wrong(x: Array) -> Iterator[tuple[str, Array]]:
    """Arrays that are not what was wanted."""
    yield "has one axis more", x[None]
    if x.ndim:
        yield "has no rows", x[:0]
        yield "has one row less", x[:-1]
        if len(x):
            yield "has one axis less", x[0]
    if x.dtype.kind in "iu" and x.size:
        for number in (-1, *FAR):
            if np.can_cast(np.min_scalar_type(number), x.dtype):
                y = x.copy()
                y.flat[-1] = number
                yield f"ends with {number}", y
    if x.dtype.kind == "f":
        for special in (np.nan, np.inf):
            yield f"is {special}", np.full_like(x, special)


def numbers(value: Any) -> Iterator[Any]:
    """Other values than this one for an attribute that is a number or a list of them."""
    def whole(n: Any) -> bool:
        return isinstance(n, int) and not isinstance(n, bool)
    if whole(value):
        yield from (-1, 0, *FAR)
    elif isinstance(value, (list, tuple)) and value and all(map(whole, value)):
        yield from ([*value[:-1], n] for n in (-1, 0, *FAR))
        yield list(value[:-1])
        yield [*value, 1]


def axes(row: Case) -> list[str]:
    """The axes that this row leaves at their defaults."""
    places = [] if row.call is not None else list(inspect.signature(getattr(ops, row.op)).parameters)[len(row.inputs):]
    return [name for name in places if name in AXES and name not in row.attrs]


Outcome = list[Any] | str


def outcome(row: Case, inputs: tuple[Array, ...], attrs: dict[str, Any], late: bool, session: bool = False) -> Outcome:
    """The values, or the error's text; "later: …" where what is known too late is refused, "bare …" for another's error."""
    with Graph().as_default():
        tensors, feeds = [], {}
        for x in inputs:
            if x.dtype.kind != "f" and not late:
                tensors.append(ops.constant(x))
                continue
            tensors.append(ops.placeholder(x.dtype, None if late else x.shape))
            feeds[tensors[-1]] = x
        try:
            made = (row.call or getattr(ops, row.op))(*tensors, **attrs)
            if session:
                with wb.Session() as running:
                    return running.run(listed(made), feeds)
            values = evaluate(listed(made), feeds)
        except errors.Error as error:
            return f"{'later: ' * bool(late and LATER.search(str(error)))}{error}"
        except Exception as error:
            return f"bare {type(error).__name__}: {error}"
        for tensor, value in zip(listed(made), values):
            assert value.dtype == tensor.dtype.numpy and tensor.shape.compatible(Shape(value.shape)), (tensor, value.shape)
        return values


def listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, (list, tuple)) else [made]


def same(one: Outcome, other: Outcome) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return isinstance(one, str) and isinstance(other, str)
    return len(one) == len(other) and all(
        x.shape == y.shape and (np.allclose(x, y, rtol=1e-4, atol=1e-5, equal_nan=True) if x.dtype.kind in "fc" else
                                np.array_equal(x, y)) for x, y in zip(map(comparable, one), map(comparable, other)))


def comparable(x: Array) -> Array:
    """NumPy takes bfloat16 for no float."""
    return x.astype(np.float32) if x.dtype.name == "bfloat16" else x


def in_words(found: Outcome) -> bool:
    """Is this a value, or an error of ours: where, the fact, what to do?"""
    return not isinstance(found, str) or (
        re.match(r"[\w .:'\"\[\]/]+: .+", found) is not None and "; " in found and not found.startswith("bare ")
        and "check the values that reach it" not in found)


@ROWS
def test_what_is_wrong_is_refused_in_words_or_has_one_value(row: Case) -> None:
    faults = []
    for what, inputs, attrs in bad(row):
        known, later = (outcome(row, inputs, attrs, late) for late in (False, True))
        if not in_words(known) or not in_words(later):
            faults.append(f"{what}: {known} / {later}")
        elif not same(known, later) and row.op not in RANKS_AS_THEY_LIE and not str(later).startswith("later: "):
            faults.append(f"{what}: {known} but {later}")
        elif what.partition("=")[0] in AXES and what.endswith("1000") and not isinstance(known, str):
            faults.append(f"{what} is accepted: {known}")
    assert not faults, "\n".join(faults)


INDEXED = [c for c in CASES if any(x.dtype.kind in "iu" for x in c.inputs) and c.op not in NOT_REACHED]


@pytest.mark.parametrize("row", list({c.op: c for c in INDEXED}.values()), ids=str)
def test_numbers_far_outside_are_refused_by_every_kernel(row: Case) -> None:
    faults = []
    for what, inputs, attrs in bad(row):
        if "ends with" in what:
            wanted, found = (outcome(row, inputs, attrs, late=False, session=session) for session in (False, True))
            if not in_words(found) or not same(wanted, found):
                faults.append(f"{what}: {wanted} but {found}")
    assert not faults, "\n".join(faults)
