"""Generated text: long segments in parts, buffers written over, constants packed once, values that lone operations read."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.core.compile.test_plan import CPU, plan_of, updated_in_place
from workbench import errors
from workbench.core.compile import codegen
from workbench.core.compile.instance import Instance
from workbench.core.compile.values import Packed
from workbench.core.kernels import choice as choices
from workbench.core.kernels.choice import Choice, Spec
from workbench.core.run.driver import run_error
from workbench.core.run.session import Session
from workbench.core.state.container import Container
from workbench.core.trace import Journal
from workbench.settings import settings

pytestmark = pytest.mark.usefixtures("graph", "numpy_alone")

# long segments

def chain(x: Any, length: int) -> Any:
    """Products, sums of values from long ago, and a loop and a branch in between."""
    values = [x]
    for index in range(length):
        y = wb.matmul(values[-1], x) * 0.5 + values[len(values) // 2]
        if index % 7 == 3:
            y = wb.while_loop(lambda i, a: i < 2, lambda i, a, k=values[index // 3]: (i + 1, a + k), [0, y])[1]
        if index % 5 == 2:
            y = wb.cond(wb.reduce_sum(y) > 0.0, lambda y=y, k=values[index // 2]: y - k, lambda y=y: y * 0.25)
        values.append(wb.tanh(y))
    return values[-1]


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("longest", [1, 2, 3, 7, 50])
def test_a_long_segment_in_parts_gives_what_it_gives_as_one(longest, traced, monkeypatch):
    x = wb.placeholder("float32", [3, 3], name="x")
    y = chain(x, 15)
    value = np.linspace(-0.5, 0.6, 9, dtype=np.float32).reshape(3, 3)
    whole = Instance(plan_of(y, feeds=[x]), Container(), CPU).run(value)[0].copy()
    monkeypatch.setattr(codegen, "LONGEST", longest)
    plan = plan_of(y, feeds=[x])
    instance = Instance(plan, Container(), CPU, traced)
    for _ in range(2):
        np.testing.assert_array_equal(instance.run(value)[0], whole)
    if traced:
        journal = Journal(capacity=10_000)
        instance.operation_spans(0, journal)
        assert {s.name for s in journal.spans_since()[2]} >= {"matmul", "matmul_14", "tanh_14"}


def test_no_function_of_a_long_segment_is_long():
    x = wb.placeholder("float32", [2, 2], name="x")
    y = x
    for _ in range(1500):
        y = wb.matmul(y, x)
    functions = plan_of(y, feeds=[x]).code.functions
    assert max(len(f.lines) for f in functions) <= codegen.LONGEST + 5 and len(functions) > 3


@pytest.mark.parametrize("traced", [False, True])
def test_the_operation_that_raised_is_found_in_any_part(traced, monkeypatch):
    monkeypatch.setattr(codegen, "LONGEST", 2)
    x = wb.placeholder("float32", None, name="x")
    y = wb.exp(wb.exp(wb.matmul(wb.exp(wb.tanh(x)), x, name="product")))
    plan = plan_of(y, feeds=[x])
    with pytest.raises(ValueError) as error:
        Instance(plan, Container(), CPU, traced).run(np.ones((2, 3), np.float32))
    assert "operation: 'product'" in str(run_error(plan, error.value))


def test_parts_hold_no_value_longer_than_it_is_needed(monkeypatch):
    """A variable is updated in place only when nothing refers to its buffer any more."""
    monkeypatch.setattr(codegen, "LONGEST", 1)
    updated_in_place()


# buffers written over

def test_elementwise_results_are_written_over_what_nothing_reads_later():
    x = wb.placeholder("float32", [64, 64], name="x")
    y = wb.matmul(x, x)
    for _ in range(5):
        y = wb.tanh(y + x)
    plan = plan_of(wb.matmul(y, x), feeds=[x])
    assert len(set(plan.offsets.values())) == 1 and plan.arena_bytes < 2 * 64 * 64 * 4


def test_what_is_read_later_is_not_written_over():
    x = wb.placeholder("float32", [8, 8], name="x")
    y = wb.matmul(x, x)
    late = wb.tanh(y)
    plan = plan_of(wb.matmul(late + 1.0, y), feeds=[x])
    value = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    np.testing.assert_allclose(Instance(plan, Container(), CPU).run(value)[0], (np.tanh(value @ value) + 1) @ (value @ value),
                               rtol=1e-5, atol=1e-5)


def test_other_sizes_and_types_have_a_place_of_their_own():
    x = wb.placeholder("float32", [8, 8], name="x")
    y = wb.matmul(x, x)
    plan = plan_of(wb.cast(wb.reduce_sum(wb.cast(y > 0.0, "float32") + wb.ones([4, 8, 8]), 0), "int32"), feeds=[x])
    value = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    np.testing.assert_array_equal(Instance(plan, Container(), CPU).run(value)[0], ((value @ value > 0) + 1) * 4)


@pytest.fixture
def library(monkeypatch):
    """A library of the test's own that writes relu over its input and keeps products in a layout of its own."""
    calls: list[str] = []

    class Doubled:
        library, nbytes = "mine", 0

        def __init__(self, nbytes: int) -> None:
            self.nbytes = nbytes

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Doubled) and other.nbytes == self.nbytes

        def __hash__(self) -> int:
            return self.nbytes

    def reorder(source: Spec, target: Spec) -> Choice:
        def kernel(x, out):
            calls.append("reorder")
            out.view(np.float32)[...] = 2 * x.ravel()
        assert source.layout is None
        return Choice("mine", (None,), (target.layout,), lambda static: kernel)

    def product(attrs, inputs, outputs, free):
        def kernel(a, b, out):
            calls.append("matmul")
            np.matmul(a, b.view(np.float32).reshape(inputs[1].shape) / 2, out=out)
        return Choice("mine", (None, Doubled(inputs[1].nbytes)), (None,), lambda static: kernel)

    def relu(attrs, inputs, outputs, free):
        def kernel(x, out):
            calls.append("over" if x.ctypes.data == out.ctypes.data else "beside")
            np.maximum(x, 0, out=out)
        return Choice("mine", (None,), (None,), lambda static: kernel, inplace={0: 0})
    monkeypatch.setattr(settings, "libraries", ("mine",))
    monkeypatch.setitem(choices.reorders, "mine", reorder)
    monkeypatch.setitem(choices.selectors, ("matmul", "CPU"), [("mine", product)])
    monkeypatch.setitem(choices.selectors, ("relu", "CPU"), [("mine", relu)])
    return calls


def test_a_constant_is_brought_into_a_layout_once_and_not_in_every_step(library):
    weights = np.arange(9, dtype=np.float32).reshape(3, 3)
    x = wb.placeholder("float32", [2, 3], name="x")
    plan = plan_of(wb.tanh(wb.matmul(x, wb.constant(weights))), feeds=[x])
    assert [v.name for v in plan.values if isinstance(v, Packed)] == ["constant:0"]
    value = np.full((2, 3), 0.125, np.float32)
    for instance in (Instance(plan, Container(), CPU) for _ in range(2)):
        for _ in range(3):
            np.testing.assert_allclose(instance.run(value)[0], np.tanh(value @ weights), rtol=1e-6)
    assert library.count("reorder") == 1 and library.count("matmul") == 6


def test_a_library_writes_over_its_input_where_it_may(library):
    x = wb.placeholder("float32", [3, 3], name="x")
    y = wb.nn.relu(wb.matmul(x, x))
    z = wb.nn.relu(y)
    Instance(plan_of(wb.matmul(z, wb.constant(np.eye(3, dtype=np.float32))), feeds=[x]), Container(), CPU).run(
        np.ones((3, 3), np.float32))
    assert [c for c in library if c in ("over", "beside")] == ["over", "over"]
    library.clear()
    Instance(plan_of(wb.matmul(y, z), feeds=[x]), Container(), CPU).run(np.ones((3, 3), np.float32))
    assert [c for c in library if c in ("over", "beside")] == ["over", "beside"]


# the doors of segments, and what lone operations read

def test_an_element_of_another_shape_than_its_queue_declares_is_refused(monkeypatch):
    """What comes from outside generated code is checked before compiled kernels read it."""
    x = wb.placeholder("float32", [2], name="x")
    q = wb.FIFOQueue(5, ["float32"], name="q")
    taken = q.dequeue()
    taken.set_shape([3])
    put, y = q.enqueue([x]), wb.nn.relu(taken)
    with Session() as session:
        session.run(put, {x: np.ones(2)})
        with pytest.raises(errors.ShapeError) as error:
            session.run(y)
    assert str(error.value).startswith("queue_dequeue: the output has shape [2] but was said to have [3]; correct")


SAID = {      # of tensors of 1 or 3 rows, whose shape only the step knows -> what is said of the result
    "ensured": (lambda x: wb.ensure_shape(x, [2, 3]), [2, 3]),
    "reshaped": (lambda x: x, [2, 3]),
    "squeezed": (lambda x: wb.squeeze(x), [6]),
    "filled": (lambda x: wb.fill(wb.shape(x), 1.0), [2, 3]),
    "multiplied": (lambda x: x[:1] * 2.0, [3, 2]),
    "added": (lambda x: x[:1] + x[:1], [3, 2]),
    "rectified": (wb.nn.relu, [2, 3]),
    "summed": (lambda x: wb.reduce_sum(x, 0), [3]),
    "joined": (lambda x: wb.concat([x, x], 0), [5, 2]),
    "product": (lambda x: wb.matmul(x, wb.ones([2, 2])), [1, 2]),
    "turned": (wb.matrix_transpose, [3, 2])}


@pytest.mark.parametrize("name", SAID)
@pytest.mark.parametrize("fetched", [True, False])
def test_what_is_said_of_a_shape_and_is_not_so_is_refused(name: str, fetched: bool):
    """Neither is memory read as another shape, nor a smaller result repeated in a larger buffer."""
    program, shape = SAID[name]
    x, sizes = wb.placeholder("float32"), wb.placeholder("int32", [2])
    made = program(wb.reshape(x, sizes))
    made.set_shape(shape)
    with Session() as session, pytest.raises(errors.ShapeError, match=r"has shape .* but was said to have"):
        session.run(made if fetched else made + 1.0, {x: np.arange(6.0), sizes: [3, 2]})


def test_constants_and_handles_of_lone_operations_are_found_without_their_names():
    """Two graphs' worth of names is no matter: what a queue takes is known by tensor."""
    q = wb.FIFOQueue(5, ["float32"], shapes=[[]], name="q")
    put = q.enqueue([wb.constant(7.0)])
    plan = plan_of(targets=[put])
    assert sorted(v.name for v in plan.bound.values()) == ["constant:0", "q:0"]
    instance = Instance(plan, Container(), CPU)
    assert [float(v) for t, v in instance.bound.items() if t.op.type == "constant"] == [7.0]
