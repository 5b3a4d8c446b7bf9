"""Every operation where kernels meet: through a Session with all libraries, alone and followed, as the reference says."""
from __future__ import annotations

import hashlib
import importlib
import importlib.util
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench.core.ops
from tests.evaluate import evaluate
from tests.opcases import CASES, Case
from workbench import errors
from workbench.core import kernels
from workbench.core.grad import gradients
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph, Operation, Tensor
from workbench.core.graph.opdef import registry
from workbench.core.graph.shape import Shape
from workbench.core.graph.signature import parse
from workbench.core.kernels.choice import Choice, Select, Spec, selectors
from workbench.core.run.session import Session
from workbench.settings import settings

pytestmark = pytest.mark.filterwarnings("ignore:densify")      # gradients of gathers of unknown size
for _module in itertools.chain(*kernels._MODULES.values()):      # whatever this run of the tests may use
    if importlib.util.find_spec(_module):
        importlib.import_module(_module)


def _parts(row: Case) -> set[str]:
    """What may compute operations of the row besides their reference: kernel libraries, NumPy's "blas"."""
    with Graph().as_default() as graph:
        row.build(*tensors_of(row, row.inputs)[0])
        made = [op.definition for op in graph.operations]
    found = {library for d in made for library, _ in selectors.get((d.name, "CPU"), ())}
    fused = {"llvm" for d in made if d.elementwise is not None}
    return found | fused | {"blas" for d in made if "matmul" in d.name or d.name == "einsum"}


def _marks(row: Case) -> list[Any]:
    """What no library computes is the same everywhere; what has no kernel that looks at the processor, on all of them."""
    parts = _parts(row)
    if not parts:
        return [pytest.mark.once]
    return [*[pytest.mark.portable] * (parts == {"llvm"}), *[pytest.mark.single] * (not parts >= {"llvm", "onednn"})]


def rows(cases: Sequence[Case]) -> Any:
    return pytest.mark.parametrize("row", [
        pytest.param(row, id=str(row), marks=_MARKS[id(row)]) for row in cases])


VOLUMES = ("volumes", "3d")
"""Words in the names of operations whose reference takes minutes with odd lengths on all axes: two families of axes get one."""
SYSTEMS = ("matrix_solve_ls",)
"""Operations that get more matrices but no larger ones: systems of equations whose rows are alike have no exact answer."""
PRIMES = (17, 19, 23, 29, 31, 37)        # no multiple of a vector, a block or a tile
BY_IMAGES = ("convolve_channels",)
"""Operations whose reference takes image by image, as long for each: three of them, an odd number too, instead of the first
prime's seventeen. All other axes are as long as they would be with those."""
MANY = 5003                              # elements from which libraries split, fuse and block their work
ENGINE, TESTS = Path(workbench.core.ops.__file__).parents[1], Path(__file__).parents[2]
PLACES = {id(row): str(place) for place, row in enumerate(CASES)}
Array = np.ndarray[Any, Any]
Axis = tuple[int, int]                   # (input, axis)
SHAPES = {"shape", "dims", "size", "begin", "end", "strides", "multiples", "a_shape", "b_shape"}
"""Inputs that say how large something is: a longer one would be another rank, not more elements."""


# inputs of other sizes

def spread(array: Array, axis: int, length: int) -> Array:
    """`array` with `length` elements along `axis`: its own again and again, floats a little different each time."""
    longer = np.take(array, np.arange(length) % max(array.shape[axis], 1), axis)
    if array.dtype.kind != "f" or not longer.size:
        return longer
    jitter = np.random.default_rng(longer.size).uniform(0.97, 1.0, longer.shape)
    return np.where(np.abs(longer) == 1, longer, longer * jitter).astype(array.dtype)


def families(row: Case) -> list[list[Axis]]:
    """Axes of the inputs that may have to grow together, the most probable first."""
    shapes = [a.shape for a in row.inputs]
    found: list[list[Axis]] = []
    definition = registry.get(row.op)
    if definition is not None and isinstance(definition.signature, str) and row.call is None:
        letters: dict[str, list[Axis]] = {}
        for i, pattern in enumerate(parse(definition.signature)[0][:len(shapes)]):
            if pattern.dims is not None and "..." not in pattern.dims:
                for axis, letter in enumerate(pattern.dims):
                    letters.setdefault(letter, []).append((i, axis))
        found += [axes for letter, axes in letters.items() if letter.isalpha() and letter != "r"]
    for back in (1, 2, 3):
        longest = max((s[-back] for s in shapes if len(s) >= back), default=0)
        found.append([(i, len(s) - back) for i, s in enumerate(shapes) if len(s) >= back and s[-back] == longest])
    found.append([(i, 0) for i, s in enumerate(shapes) if s and s[0] == shapes[0][:1]])
    found += [[(i, axis)] for i, s in enumerate(shapes) for axis in range(len(s))]
    names = definition.inputs if definition is not None and row.call is None else ()
    fixed = {i for i, name in enumerate(names) if name in SHAPES}
    distinct = dict.fromkeys(tuple(sorted(axes)) for axes in found)      # several ways lead to most of them
    return [list(axes) for axes in distinct
            if axes and all(shapes[i][axis] for i, axis in axes) and not fixed & {i for i, _ in axes}]


def resized(row: Case, axes: Sequence[Axis], length: int) -> tuple[Array, ...]:
    arrays = list(row.inputs)
    for i, axis in axes:
        arrays[i] = spread(arrays[i], axis, length)
    return tuple(arrays)


def valid(row: Case, inputs: Sequence[Array]) -> bool:
    """Can the operation be built on such inputs, and has the reference a value for them, all on the way of bearable size?

    It may refuse them in words of this project; any other exception is a fault, and nothing is left out because of it.
    """
    with Graph().as_default() as graph:
        try:
            tensors, feeds = tensors_of(row, inputs)
            outputs = row.build(*tensors)
            if not all(isinstance(y, Tensor) for y in outputs) or len(outputs) > 40:
                return False      # pieces: none, or one for each of thousands of elements
            made = [t.shape.static for op in graph.operations for t in op.outputs if t.shape.known]
            if sum(math.prod(shape) for shape in made) > 4_000_000:
                return False
            values = evaluate(outputs, feeds)
        except errors.Error:
            return False
    return sum(v.size for v in values) < 1_000_000


def longest(row: Case, axes: Sequence[Axis]) -> int:
    """A length of `axes` with which the largest of these inputs has about MANY elements."""
    rest = max(row.inputs[i].size // max(row.inputs[i].shape[axis], 1) for i, axis in axes)
    return math.ceil(MANY / max(rest, 1)) | 1


Growth = list[tuple[Sequence[Axis], int]]      # which axes become how long, one after the other


def grown(row: Case, growth: Growth) -> tuple[Array, ...]:
    for axes, length in growth:
        row = Case(row.op, resized(row, axes, length), row.value, row.attrs, call=row.call, fed=row.fed)
    return row.inputs


def grows(row: Case, axes: Sequence[Axis]) -> bool:
    """May these axes of the inputs get longer?"""
    return row.op not in SYSTEMS or all(axis < row.inputs[i].ndim - 2 for i, axis in axes)


def growths(row: Case) -> dict[str, Growth]:
    """How the inputs of a row get odd lengths, many elements, and none, where it has such."""
    found: dict[str, Growth] = {}
    most = 2 if any(word in row.op for word in VOLUMES) else math.inf
    for axes in families(row):
        for name, length in (("empty", 0), ("large", longest(row, axes)))[:1 + grows(row, axes)]:
            if name not in found and valid(row, resized(row, axes, length)):
                found[name] = [(axes, length)]
    odd: Growth = []
    now = row.inputs
    for axes, length in zip(families(row), itertools.cycle(PRIMES)):
        if len(odd) < most and grows(row, axes) and all(now[i].shape[a] < 10 for i, a in axes):
            longer = grown(row, [*odd, (axes, length)])
            if valid(row, longer):
                odd, now = [*odd, (axes, length)], longer
    if row.op in BY_IMAGES:
        odd = [(axes, 3 if axes == [(0, 0)] else length) for axes, length in odd]
    return {**found, "tail": odd} if odd else found


_growths: dict[str, dict[str, Growth]] = {}      # by the place of rows, as text


@pytest.fixture(scope="session", autouse=True)
def remembered(request: pytest.FixtureRequest) -> Iterator[None]:
    """What is valid is looked for once for the runs of all variants, until what decides it changes."""
    digest = hashlib.sha256(np.__version__.encode())
    for path in (*sorted(ENGINE.rglob("*.py")), *sorted(TESTS.glob("opcase*.py")), Path(__file__)):
        digest.update(path.read_bytes())
    cache, of = getattr(request.config, "cache", None), digest.hexdigest()      # none with -p no:cacheprovider

    def found() -> dict[str, dict[str, Growth]]:
        kept = cache.get("seams/sizes", {}) if cache is not None else {}
        return kept["rows"] if kept.get("of") == of else {}      # type: ignore[no-any-return]
    _growths.update(found())
    before = len(_growths)
    yield
    if cache is not None and len(_growths) > before:
        cache.set("seams/sizes", {"of": of, "rows": {**found(), **_growths}})      # another process found others meanwhile


def sizes(row: Case) -> dict[str, tuple[Array, ...]]:
    """The inputs of a row as they are, and grown."""
    place = PLACES[id(row)]
    if place not in _growths:
        _growths[place] = growths(row)
    return {"small": row.inputs, **{name: grown(row, growth) for name, growth in _growths[place].items()}}


# graphs and values

def tensors_of(row: Case, inputs: Sequence[Array]) -> tuple[list[Tensor], dict[Tensor, Any]]:
    """Float inputs are fed in float32, others are constants unless the row wants them fed."""
    tensors, feeds = [], {}
    for array in inputs:
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        if array.dtype.kind != "f" and not row.fed:
            tensors.append(ops.constant(array))
        else:
            tensors.append(ops.placeholder(array.dtype, array.shape))
            feeds[tensors[-1]] = array
    return tensors, feeds


_MARKS = {id(row): _marks(row) for row in CASES}


def rectified(y: Tensor) -> Tensor:
    return ops.relu(y) if y.dtype.is_floating else ops.identity(y)      # type: ignore[no-any-return]


def twice(y: Tensor) -> Tensor:
    if y.dtype.is_quantized:      # integers that stand for others are not added
        return ops.identity(y)      # type: ignore[no-any-return]
    return ops.logical_not(y) if y.dtype.name == "bool" else ops.add(y, y)      # type: ignore[no-any-return]


def chain(y: Tensor) -> Tensor:
    """Operations that become one fused kernel where `y` is large; `y` itself joins them where it can."""
    if not y.dtype.is_floating:
        return ops.cast(y, "float32")      # type: ignore[no-any-return]
    return ops.add(ops.add(ops.relu(y), y), ops.multiply(ops.abs(y), 0.5))      # type: ignore[no-any-return]


FOLLOWERS = (rectified, twice, chain)


def close(value: Any, wanted: Array, exact: bool = False) -> None:
    assert value.dtype == wanted.dtype and value.shape == wanted.shape
    if wanted.dtype.kind != "f" or exact:
        np.testing.assert_array_equal(value, wanted)
        return
    finite = np.abs(wanted[np.isfinite(wanted)])
    np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5 * max(1.0, finite.max(initial=0.0)))


def strided(array: Array) -> Array:
    """The same values, the first index fastest and with gaps between them."""
    room = np.ones((2, *array.shape), array.dtype, order="F")
    room[0] = array
    return room[0]


def check(session: Session, fetches: list[Tensor], feeds: dict[Tensor, Any], wanted: list[Array]) -> None:
    """Right, right again after the caller has overwritten what it got, and from memory that is not contiguous."""
    first = session.run(fetches, feeds)
    for value, right in zip(first, wanted):
        close(value, right)
        if isinstance(value, np.ndarray):
            value.fill(77 if value.dtype.kind in "fiu" else 1)
    for value, right in zip(session.run(fetches, {t: strided(a) for t, a in feeds.items()}), wanted):
        close(value, right)


@rows(CASES)
def test_through_a_session(row: Case) -> None:
    """Each follower alone reads its result: equal computations, of which the pass `cse` would make one, stay several."""
    for inputs in sizes(row).values():
        with Graph().as_default(), Session() as session, Session(disabled_passes=["cse"]) as followed:
            tensors, feeds = tensors_of(row, inputs)
            outputs = row.build(*tensors)
            plain = evaluate(outputs, feeds)
            check(session, outputs, feeds, plain)
            if any(y.dtype.kind == "f" and np.isnan(y).any() for y in plain):
                continue      # the mean of nothing; what a follower makes of NaN is tested below
            after, known = [], dict(feeds)
            for follow in FOLLOWERS:
                again = row.build(*tensors)
                after += [follow(y) for y in again if y.dtype.kind not in ("object", "string")]
                known |= zip(again, plain)
            check(followed, after, feeds, evaluate(after, known))


def differentiated(outputs: Sequence[Tensor], feeds: dict[Tensor, Any]) -> list[Tensor]:
    """The derivatives of what has some."""
    ys = [y for y in outputs if y.dtype.is_floating]
    return [dx for dx in gradients(ys, [x for x in feeds if x.dtype.is_floating]) if isinstance(dx, Tensor)]


@pytest.mark.portable
@rows(CASES)
def test_any_axis_may_be_empty(row: Case) -> None:
    """The value and its gradient are as the reference says, or are refused in words of this project."""
    for axes in families(row):
        with Graph().as_default(), Session() as session:
            try:
                tensors, feeds = tensors_of(row, resized(row, axes, 0))
                outputs = row.build(*tensors)
                if all(isinstance(y, Tensor) for y in outputs):
                    fetches = [*outputs, *differentiated(outputs, feeds)]
                    check(session, fetches, feeds, evaluate(fetches, feeds))
            except errors.Error as error:
                assert isinstance(error.__cause__, errors.Error | None), (axes, error)


@pytest.mark.portable
@rows([c for c in CASES if c.unknown and c.inputs])
def test_through_a_session_with_dimensions_known_only_at_run_time(row: Case) -> None:
    """Libraries are asked when the values are there, for each of their sizes anew."""
    found = sizes(row)
    for inputs in (found["small"], found.get("tail", found["small"])):
        with Graph().as_default(), Session() as session:
            tensors, feeds = tensors_of(row, inputs)
            lengths = {t: ops.placeholder("int32", [t.shape.rank]) for t in feeds}
            known = {t: ops.reshape(t, length) for t, length in lengths.items()}
            try:
                outputs = row.build(*(known.get(t, t) for t in tensors))
            except errors.InvalidArgumentError as error:
                assert any(text in str(error) for text in ("set_shape", "known rank", "known only at run time")), error
                return
            feeds |= {length: np.asarray(feeds[t].shape, np.int32) for t, length in lengths.items()}
            check(session, outputs, feeds, evaluate(outputs, feeds))


@pytest.mark.parametrize("count", [4, 20_000])
@pytest.mark.parametrize("follow", [lambda y: y, ops.log, lambda y: ops.multiply(y, 1e5) + y], ids=["alone", "log", "chain"])
@pytest.mark.parametrize("name", ["sigmoid", "softplus"])
def test_tails_are_exact_however_many_elements(name: str, follow: Any, count: int) -> None:
    """A logistic function whose tail is 0 has the logarithm -inf, and whoever wins depends on the library."""
    x = np.resize(np.float32([-80, -40, -20, -16.7]), count)
    exact = np.exp(x.astype(np.float64))
    with Graph().as_default(), Session() as session:
        fed = ops.placeholder("float32", [count])
        y = follow(getattr(ops, name)(fed))
        wanted = evaluate([follow(ops.constant(exact / (1 + exact) if name == "sigmoid" else np.log1p(exact)))])[0]
        np.testing.assert_allclose(session.run(y, {fed: x}), wanted, rtol=2e-6)


# values that are no numbers

WINOGRAD = {"conv2d": 0, "fused_conv2d": 0, "conv2d_backprop_input": 1, "conv2d_backprop_filter": 0, "conv2d_transpose": 0,
            "conv2d_backprop_images": 1}
"""The input to spoil. Fast convolutions mix the elements of a tile: one NaN may make its neighbours NaN, but none may
vanish. In the other input it would meet padding, which some kernels multiply and others leave out."""
FILTERED = {"convolve_channels": 0, "convolve_channels_filters": 0, "convolve_volumes": 0, "convolve_volumes_filters": 0,
            "depthwise_conv2d": 0, "depthwise_conv2d_native": 0, "separable_conv2d": 0, "conv3d": 0,
            "conv3d_backprop_filter_v2": 0}
"""The input to spoil, where the other one would meet padding but no tiles are mixed."""
CHOOSERS = {"max_pool", "max_pool_grad", "max_pool_grad_grad"}
"""Which is the largest of a NaN and a number? Libraries, and processors, differ; infinities are beyond doubt."""
SPOILED = [c for c in CASES if any(a.dtype == np.float64 and a.size > 2 for a in c.inputs)]


def poisoned(row: Case, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """The float inputs with NaN, inf and -inf at three places each, other places in each input."""
    result = []
    for number, array in enumerate(inputs):
        spoiled = {**WINOGRAD, **FILTERED}.get(row.op, number) == number
        if array.dtype.kind == "f" and array.size > 2 and spoiled:
            array = array.copy()
            places = np.random.default_rng(number).permutation(array.size)[:3]
            array.reshape(-1)[places] = np.inf if row.op in CHOOSERS else np.nan, np.inf, -np.inf
        result.append(array)
    return tuple(result)


@rows(SPOILED)
def test_nan_and_infinity_come_through(row: Case) -> None:
    """Also 0 · inf and inf - inf are what the reference makes of them."""
    found = sizes(row)
    for inputs in (found["small"], found.get("tail", found["small"])):
        with Graph().as_default(), Session() as session:
            tensors, feeds = tensors_of(row, poisoned(row, inputs))
            outputs = row.build(*tensors)
            try:
                wanted = evaluate(outputs, feeds)
            except errors.Error as error:
                with pytest.raises(type(error)):
                    session.run(outputs, feeds)
                continue
            for value, right in zip(session.run(outputs, feeds), wanted):
                if row.op in WINOGRAD:
                    assert not np.isfinite(value[~np.isfinite(right)]).any()
                else:
                    close(value, right)
            if inputs is found["small"] and row.op not in WINOGRAD:      # a maximum is what drops NaN most easily
                after = [rectified(y) for y in outputs if y.dtype.kind not in ("object", "string")]
                check(session, after, feeds, evaluate(after, {**feeds, **dict(zip(outputs, wanted))}))


# kernels alone

def nodes_of(row: Case, inputs: Sequence[Array]) -> Iterator[tuple[Operation, list[Array]]]:
    """The operations of a row with the values of their inputs."""
    with Graph().as_default() as graph:
        tensors, feeds = tensors_of(row, inputs)
        row.build(*tensors)
        made = [op for op in graph.operations if op.inputs and not op.definition.context]
        values = iter(evaluate([t for op in made for t in op.inputs], feeds))
    for op in made:
        yield op, [next(values) for _ in op.inputs]


def raw(op: Operation, values: Sequence[Array]) -> list[Any]:
    """What the reference kernel returns, untouched."""
    with np.errstate(all="ignore"):
        result = op.definition.reference(*values, **op.attrs)
    return list(result) if isinstance(result, (tuple, list)) else [result]


@pytest.mark.once
@rows(CASES)
def test_raw_results_of_reference_kernels(row: Case) -> None:
    """Kernels of libraries take addresses: dtype, shape and order are as the graph says, before anybody tidies up."""
    for inputs in sizes(row).values():
        for op, values in nodes_of(row, inputs):
            results = raw(op, values)
            assert len(results) == len(op.outputs), op
            for value, tensor in zip(results, op.outputs):
                assert isinstance(value, (np.ndarray, np.generic)) or tensor.dtype.kind == "string", (op, type(value))
                if tensor.dtype.kind != "string":
                    assert value.dtype == tensor.dtype.numpy, op
                assert tensor.shape.compatible(Shape(np.shape(value))), (op, np.shape(value))
                assert op.definition.view or not np.ndim(value) or value.flags.c_contiguous, op


def guarded(spec: Spec) -> tuple[Array, Array]:
    """An output to write, and the memory around it, all of it set to a number that no kernel makes."""
    edge = 64
    room = np.full(math.prod(spec.shape) + 2 * edge, 77, spec.dtype)
    return room[edge:room.size - edge].reshape(spec.shape), room


@rows(CASES)
def test_raw_results_of_library_kernels(row: Case) -> None:
    """Each library alone, on plain memory: the reference's value, nothing written beside the outputs or into inputs."""
    for inputs in sizes(row).values():
        for op, values in nodes_of(row, inputs):
            if not all(t.shape.known for t in op.outputs):
                continue
            for library, select in selectors.get((op.kind, "CPU"), ()):
                if library in settings.libraries:
                    alone(op, values, select)


def alone(op: Operation, values: Sequence[Array], select: Select) -> None:
    """The choice of a library, and every other way that it had."""
    targets = [Spec(t.shape.static, t.dtype.numpy) for t in op.outputs]
    choice = select(op.attrs, [Spec(v.shape, v.dtype) for v in values], targets, [False] * len(targets))
    if choice is None:
        return
    others = choice.decision.question.ways if choice.decision is not None else {}
    for made in (choice, *(make() for make in others.values())):
        if made is not None and all(layout is None for layout in made.inputs):      # which only a plan would make
            executed(op, values, targets, made)


def executed(op: Operation, values: Sequence[Array], targets: Sequence[Spec], choice: Choice) -> None:
    outputs, rooms = zip(*map(guarded, targets))
    scratch = [np.empty(choice.scratch, np.uint8)] if choice.scratch else []
    before = [v.copy() for v in values]
    given = [np.require(v, requirements="C") for v in values]
    choice.make((False,) * (len(values) + len(outputs) + len(scratch)))(*given, *outputs, *scratch)
    for out, room, right in zip(outputs, rooms, raw(op, values)):
        close(out, np.asarray(right))
        assert (room[:64] == 77).all() and (room[-64:] == 77).all(), op
    for value, old in zip(given, before):
        np.testing.assert_array_equal(value, old)
