"""Runs one program twice, once with TensorFlow's version 1 names and once with ours, and compares what comes out."""
from __future__ import annotations

import contextlib
import gc
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

import workbench.tf1 as ours

__all__ = ["BUILT", "COMPARED", "MODES", "NEEDS_SHAPES", "Row", "Table", "agree", "check", "compared", "error_of", "flat",
           "outcome", "quiet", "same_story", "tensorflow", "unrewritten"]

MODES = {"known": np.float64, "dims": np.float64, "rank": np.float64, "constant": np.float64, "float32": np.float32}
"""How the inputs enter our graph: fed with a known shape, unknown dimensions or unknown rank, folded away; float64 as what."""

COMPARED: Counter[str] = Counter()
"""What the running test has compared: values, gradients, dtypes, shapes, errors; conftest.py adds it up."""
BUILT: set[str] = set()
"""The kinds of operations that our programs have made in this process."""


@cache
def tensorflow() -> Any:
    """TensorFlow's version 1 names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pytest.importorskip("tensorflow", reason="TensorFlow is not installed: nothing is compared").compat.v1
    found.logging.set_verbosity(found.logging.ERROR)
    gc.collect()
    gc.freeze()      # a million objects that stay, which the collector would look at again and again
    gc.set_threshold(50_000, 20, 50)
    return found


def unrewritten() -> Any:
    """A session of TensorFlow that runs the graph as it was built: its rewrites drop dimensions of 1 in some gradients."""
    from tensorflow.core.protobuf import rewriter_config_pb2

    tf = tensorflow()
    rewrites = rewriter_config_pb2.RewriterConfig(disable_meta_optimizer=True)
    return tf.Session(config=tf.ConfigProto(graph_options=tf.GraphOptions(rewrite_options=rewrites)))


UNKNOWN = ("dims", "rank")
NEEDS_SHAPES = {
    "growing-dims": "a loop's state enters with dimensions that its invariant does not have; TensorFlow 1.x refuses it too",
    "growing-rank": "as growing-dims",
}
"""Row and mode -> why we ask for a shape that TensorFlow does not need: the error says so."""


@dataclass(frozen=True, eq=False)
class Row:
    """`program(tf, *tensors)` gives one tensor or a (nested) list; its values and slopes must be the same twice.

    `order` is how often it is differentiated, `modes` how its inputs enter; `tolerance` is relative and absolute. Inputs
    of unknown dimensions or rank enter every row that takes them with known ones: we may refuse them where TensorFlow does.
    """

    name: str
    program: Callable[..., Any]
    inputs: tuple[Any, ...]
    order: int = 2
    modes: tuple[str, ...] = tuple(MODES)
    tolerance: float | None = None

    def __str__(self) -> str:
        return self.name

    def entries(self) -> tuple[str, ...]:
        """The modes to compare in; without floats there is no second width to enter with, without inputs no other way."""
        if not self.inputs:
            return self.modes[:1]
        wide = any(i.dtype == np.float64 for i in self.inputs)
        return tuple(m for m in MODES if (m in self.modes and (wide or m != "float32"))
                     or (m in UNKNOWN and "known" in self.modes))

    def arrays(self, mode: str) -> list[Any]:
        return [i.astype(MODES[mode]) if i.dtype == np.float64 else i for i in self.inputs]


class Table(list[Row]):
    """The rows of a module, under different names."""

    def row(self, name: str, program: Callable[..., Any], *inputs: Any, **options: Any) -> None:
        title = name if all(r.name != name for r in self) else f"{name} #{len(self)}"
        self.append(Row(title, program, tuple(np.asarray(i) for i in inputs), **options))

    def each(self, names: str, *inputs: Any, label: str = "", **options: Any) -> None:
        """A row for each name (dots lead into namespaces), called with the inputs alone."""
        for name in names.split():
            self.row(f"{name} {label}".strip(), calling(name), *inputs, **options)

    def cases(self) -> Any:
        """(row, mode) of every row for pytest."""
        found = [(r, m) for r in self for m in r.entries()]
        return pytest.mark.parametrize(("row", "mode"), found, ids=[f"{r}-{m}" for r, m in found])


def calling(path: str) -> Callable[..., Any]:
    def program(tf: Any, *tensors: Any) -> Any:
        return named(tf, path)(*tensors)
    return program


def named(tf: Any, path: str) -> Any:
    """What `path`, with dots, leads to."""
    for part in path.split("."):
        tf = getattr(tf, part)
    return tf


def flat(value: Any) -> list[Any]:
    """The tensors of a nested result, in order."""
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


def weights(tf: Any, y: Any, step: float) -> Any:
    """A different factor for each element of y, so that no two errors cancel."""
    count = tf.cast(tf.reshape(tf.range(tf.size(y)), tf.shape(y)), "float64")
    return tf.cast(tf.cos(count * step + step) + 1.5, y.dtype)


def is_real(tensor: Any) -> bool:
    return bool(tensor.dtype.is_floating)


def slopes(tf: Any, ys: list[Any], xs: list[Any], step: float) -> list[Any]:
    """Gradients of the weighted sum of the float tensors `ys`, one or None for each x."""
    ys = [y for y in ys if is_real(y)]
    if not ys or not xs:
        return [None for _ in xs]
    found = tf.gradients(ys, xs, grad_ys=[weights(tf, y, step) for y in ys])
    return [None if g is None else tf.convert_to_tensor(g) for g in found]


def run(tf: Any, row: Row, arrays: list[Any], mode: str, order: int) -> tuple[list[Any], list[list[Any]]]:
    """(values, for each order the slopes by each float input) of the program with one library."""
    with tf.Graph().as_default(), (ours.Session if tf is ours else unrewritten)() as session:
        xs, feeds = enter(tf, arrays, mode)
        ys = flat(row.program(tf, *xs))
        orders = [ys]
        for step in range(order):
            known = [g for g in orders[-1] if g is not None]
            orders.append(slopes(tf, known, [x for x in xs if is_real(x)], 0.7 + step))
        made = iter(session.run([t for tensors in orders for t in tensors if t is not None], feeds))
        values, *found = [[None if t is None else next(made) for t in tensors] for tensors in orders]
        return values, found


def enter(tf: Any, arrays: list[Any], mode: str) -> tuple[list[Any], dict[Any, Any]]:
    """Input tensors and feeds; integers, which may decide shapes, are constants unless dimensions are unknown."""
    xs, feeds = [], {}
    for array in arrays:
        fixed = mode == "constant" or (mode not in UNKNOWN and array.dtype.kind != "f")
        shape = None if mode == "rank" else [None] * array.ndim if mode == "dims" else array.shape
        xs.append(tf.constant(array) if fixed else tf.placeholder(array.dtype, shape))
        if not fixed:
            feeds[xs[-1]] = array
    return xs, feeds


@cache
def _truth(row: Row, dtype: Any) -> tuple[list[Any], list[list[Any]]]:
    mode = "known" if dtype is np.float64 else "float32"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for order in range(row.order, -1, -1):
            try:
                return run(tensorflow(), row, row.arrays(mode), mode, order)
            except LookupError:      # TensorFlow itself has no gradient of that order
                if order == 0:
                    raise
    raise AssertionError(row.name)


def truth_of(row: Row, mode: str) -> tuple[list[Any], list[list[Any]]]:
    """What TensorFlow says, to the highest order that it can differentiate to."""
    return _truth(row, MODES[mode])


def check(row: Row, mode: str) -> None:
    """Our values and slopes are TensorFlow's: those of inputs with known shapes, or where the program itself asks for shapes
    or TensorFlow needs them, those of the same mode."""
    if f"{row}-{mode}" in NEEDS_SHAPES:
        with pytest.raises(ours.errors.InvalidArgumentError, match=r"set_shape|shape_invariants|rank"):
            run(ours, row, row.arrays(mode), mode, row.order)
        return
    wanted = truth_of(row, mode)
    try:
        mine = run(ours, row, row.arrays(mode), mode, len(wanted[1]))
        alike(mine, wanted, row.tolerance)
    except Exception as error:
        if mode not in UNKNOWN:
            raise
        with quiet():
            try:
                wanted = run(tensorflow(), row, row.arrays(mode), mode, len(wanted[1]))
            except Exception as theirs:
                if type(error).__module__ != "workbench.errors" and type(error) is not type(theirs):
                    raise error from None
                COMPARED["errors"] += 1
                return
        if not isinstance(error, AssertionError):
            raise
        alike(mine, wanted, row.tolerance)


def alike(mine: Any, wanted: Any, tolerance: float | None) -> None:
    agree(mine[0], wanted[0], tolerance, "value")
    for order, (got, exact) in enumerate(zip(mine[1], wanted[1], strict=True), 1):
        agree(got, exact, tolerance, f"slope of order {order}", lenient=order > 1)


TOLERANCE = {"float64": 1e-9, "complex128": 1e-9, "float16": 4e-3, "bfloat16": 3e-2}


def compared(kind: str, count: int = 1) -> None:
    """Counts arrays of a kind (values, gradients), each with its dtype and shape."""
    COMPARED.update({kind: count, "dtypes": count, "shapes": count})


def agree(mine: Any, wanted: Any, tolerance: float | None = None, what: str = "value", lenient: bool = False) -> None:
    """Same number of arrays, dtypes, shapes and elements (NaN is NaN); None stands for no gradient.

    `lenient` takes None for zeros: whether a path of zeros is followed is up to each library.
    """
    assert lenient or len(mine) == len(wanted), f"{what}: {len(mine)} of {len(wanted)}"
    compared("gradients" if what.startswith("slope") else "values", sum(exact is not None for exact in wanted))
    for position, (got, exact) in enumerate(zip(mine, wanted)):
        title = f"{what} {position}"
        if exact is None or (got is None and lenient):
            assert not np.any(got if exact is None else exact), f"{title}: {got} instead of {exact}"
            assert lenient or got is None, f"{title}: {got} instead of none"
            continue
        assert got is not None, f"{title}: none instead of {exact}"
        got, exact = np.asarray(got), np.asarray(exact)
        assert got.shape == exact.shape and got.dtype == exact.dtype, (
            f"{title}: {got.dtype}{got.shape} instead of {exact.dtype}{exact.shape}")
        if exact.dtype.kind in "fc" or exact.dtype.name == "bfloat16":
            allowed = tolerance or TOLERANCE.get(exact.dtype.name, 2e-4)
            np.testing.assert_allclose(got.astype(_wide(got)), exact.astype(_wide(exact)), allowed, allowed, err_msg=title)
        else:
            np.testing.assert_array_equal(got, exact, err_msg=title)


def _wide(array: Any) -> Any:
    return np.complex128 if array.dtype.kind == "c" else np.float64


# whole programs

def told(tf: Any, story: Callable[..., Any]) -> list[Any]:
    """What `story(tf)`, a program that runs sessions of its own, gives in a graph of its own."""
    with tf.Graph().as_default():
        return flat(story(tf))


def same_story(story: Callable[..., Any], tolerance: float | None = None) -> None:
    """The program ends with the same values under both names."""
    with quiet():
        wanted = told(tensorflow(), story)
    agree(told(ours, story), wanted, tolerance, "result")


def error_of(tf: Any, session: Any, fetch: Any, feeds: Any = None) -> bytes:
    """The name of the error that a step ends with, as a value to compare."""
    try:
        session.run(fetch, feeds)
    except tf.errors.OpError as error:
        return type(error).__name__.encode()
    return b"none"


# errors

@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """TensorFlow may warn; we may not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def outcome(tf: Any, program: Callable[..., Any]) -> BaseException | None:
    """What `program(tf)` raises in a graph of its own, None when it ends well."""
    with quiet(), tf.Graph().as_default():
        try:
            program(tf)
        except Exception as error:
            return error
    return None
