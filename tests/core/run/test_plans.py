"""Plans of a session: one for each thing that is computed, made by one thread, and let go when nobody needs them."""
from __future__ import annotations

import gc
import logging
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import errors
from workbench.core.compile import codegen
from workbench.core.kernels.options import KernelOptions
from workbench.core.run.plans import _OFTEN, _SPECIAL
from workbench.core.trace import journal
from workbench.settings import settings

pytestmark = pytest.mark.usefixtures("graph")


@pytest.fixture
def young() -> Iterator[None]:
    """The collector looks at what the test makes alone: the rest of the process, a million objects, is not counted."""
    gc.freeze()
    yield
    gc.unfreeze()


def count(session: wb.Session) -> int:
    return len(list(session.plans))


# one plan for one thing

def test_however_it_is_asked_for_it_is_one_plan():
    x, y = (wb.placeholder("float32", [2], name=n) for n in "xy")
    z = wb.add(x, y * 2.0, name="sum")
    with wb.Session() as s:
        for fetches in (z, [z], (z,), {"z": z}, "sum:0", [z, [z, "sum:0"]]):
            for feeds in ({x: [1, 2], y: [3, 4]}, {y: [3, 4], x: [1, 2]}, {"y:0": [3, 4], x: [1, 2]}):
                got = s.run(fetches, feeds)
                got = got["z"] if isinstance(got, dict) else got[0] if isinstance(got, (list, tuple)) else got
                assert got.tolist() == [7, 10]
        s.make_callable([z], [y, x])([3.0, 4.0], [1.0, 2.0])
        assert count(s) == 1


def test_plans_for_several_sizes_have_one_text_which_is_compiled_once():
    x, y = wb.placeholder("float32", [None, 6]), wb.placeholder("float32", [None, 3])
    weights = [wb.Variable(np.full(shape, 0.1, np.float32)) for shape in ([6, 5], [5, 4], [4, 3])]
    h = x
    for w in weights:
        h = wb.tanh(wb.matmul(h, w)) * 0.5 + 0.25
    step = wb.train.GradientDescentOptimizer(0.1).minimize(wb.reduce_mean(wb.square(h - y)))
    with wb.Session() as s:
        s.run(wb.global_variables_initializer())
        for size in (7, 9):
            s.run(step, {x: np.ones([size, 6]), y: np.ones([size, 3])})
        one, other = [plan for e in list(s.plans)[-2:] for _, plan in e.runner.compiled()]
        assert one.source == other.source
        for traced in (False, True):
            one.load(traced)
            before = codegen._compiled.cache_info().misses
            found = other.load(traced)[1]
            assert codegen._compiled.cache_info().misses == before
            assert {code.co_filename for code in found.values()} == {f"<plan {other.name}{' traced' if traced else ''}>"}


def test_fetches_and_operations_in_another_order_are_one_plan():
    v = wb.Variable(1.0, name="v")
    more, twice = wb.assign_add(v, 1.0, name="more"), wb.placeholder("float32", [], name="p") * 2.0
    with wb.Session() as s:
        s.run(v.initializer)
        before = count(s)
        feed = {"p:0": 4.0}
        assert s.run([twice, more.op, more], feed) == [8.0, None, 2.0]
        assert s.run((more, more.op, twice), feed) == (3.0, None, 8.0)
        assert count(s) == before + 1


def test_adding_to_the_graph_leaves_all_plans_as_they_are():
    x = wb.placeholder("float32", [3])
    y = wb.reduce_sum(wb.exp(x) * x)
    with wb.Session() as s:
        first = s.run(y, {x: [1, 2, 3]})
        plans = list(s.plans)
        for number in range(10):
            wb.gradients(y * float(number), x)
            assert s.run(y, {x: [1, 2, 3]}) == first
        assert list(s.plans) == plans


@pytest.mark.usefixtures("young")
def test_a_changed_operation_makes_a_new_plan_and_frees_the_old_ones():
    x = wb.placeholder("float32", [])
    y = wb.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), [0, x])[1]
    with wb.Session() as s:
        assert s.run(y, {x: 2.0}) == 16.0
        old = weakref.ref(next(iter(s.plans)).runner)
        slope, = wb.gradients(y, x)      # gives the loop more outputs
        assert s.run([y, slope], {x: 2.0}) == [16.0, 32.0] and s.run(y, {x: 2.0}) == 16.0
        gc.collect()
        assert count(s) == 2 and old() is None


def test_a_shape_that_is_set_later_is_checked():
    x = wb.placeholder("float32", None, name="x")
    y = x + 1.0
    with wb.Session() as s:
        s.run(y, {x: [1, 2]})
        x.set_shape([3])
        with pytest.raises(errors.ShapeError, match=r"feed of 'x:0': Cannot feed value of shape \[2\], its shape is \[3\]"):
            s.run(y, {x: [1, 2]})


# who makes them

class _Preparing:
    """Lets threads into `prepare` and counts them; `inside` is released when as many as wanted are in there."""

    def __init__(self, session: wb.Session, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.barrier = threading.Barrier(together)
        prepare = session.backend.prepare

        def waiting(*arguments: Any) -> Any:
            self.calls += 1
            self.barrier.wait(60)
            return prepare(*arguments)
        monkeypatch.setattr(session.backend, "prepare", waiting)


def together(*work: Any) -> list[Any]:
    found: list[Any] = [None] * len(work)

    def do(place: int) -> None:
        try:
            found[place] = work[place]()
        except Exception as error:
            found[place] = error
    threads = [threading.Thread(target=do, args=(i,)) for i in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return found


def test_two_definitions_are_compiled_at_the_same_time(monkeypatch):
    x = wb.placeholder("float32", [])
    y, z = x + 1.0, x * 5.0
    with wb.Session() as s:
        _Preparing(s, 2, monkeypatch)      # neither leaves before both are in
        assert together(lambda: s.run(y, {x: 1.0}), lambda: s.run(z, {x: 1.0})) == [2.0, 5.0]


def test_one_definition_is_compiled_once_however_many_ask(monkeypatch):
    x = wb.placeholder("float32", [])
    y = x + 1.0
    with wb.Session() as s:
        found = _Preparing(s, 1, monkeypatch)
        assert together(*[lambda n=n: s.run([y] * n, {x: 1.0}) for n in range(1, 7)]) == [[2.0] * n for n in range(1, 7)]
        assert found.calls == 1 == count(s)


def test_who_waited_for_a_compile_that_failed_tries_again(monkeypatch):
    x = wb.placeholder("float32", [])
    y = x + 1.0
    with wb.Session() as s:
        prepare, calls = s.backend.prepare, []

        def once(*arguments: Any) -> Any:
            calls.append(1)
            if len(calls) == 1:
                raise KeyboardInterrupt
            return prepare(*arguments)
        monkeypatch.setattr(s.backend, "prepare", once)
        with pytest.raises(KeyboardInterrupt):
            s.run(y, {x: 1.0})
        assert together(lambda: s.run(y, {x: 1.0}), lambda: s.run(y, {x: 2.0})) == [2.0, 3.0] and len(calls) == 2


def test_two_threads_build_one_graph_while_both_run_it(graph):
    x = wb.placeholder("float32", [4], name="x")

    def work(number: int) -> list[float]:
        found = []
        with graph.as_default():
            for i in range(15):
                y = wb.reduce_sum(wb.while_loop(lambda j, a: j < 3, lambda j, a: (j + 1, a * x), [0, x])[1]) * float(i + 1)
                slope, = wb.gradients(y, x)
                found.append(float(s.run([y, slope], {x: [1, 1, 1, 1]})[1][0]) / (i + 1) - number)
        return found
    with wb.Session() as s:
        for place, found in enumerate(together(*[lambda n=n: work(n) for n in range(2)])):
            assert found == [4.0 - place] * 15


# what they hold

def test_the_least_used_goes_when_there_is_no_room(monkeypatch):
    x = wb.placeholder("float32", [None])
    y = x + 1.0
    monkeypatch.setattr(settings, "plan_bytes", 1)
    with wb.Session() as s:
        for rows in (1, 2, 3):
            s.run(y, {x: np.zeros(rows)})
            assert count(s) == 1, "the newest stays whatever it takes"
    x_bytes = next(iter(s.plans), None)
    assert x_bytes is None, "a closed session holds none"
    with wb.Session() as s:
        s.run(y, {x: np.zeros(1)})
        s.plans.limit = 2 * next(iter(s.plans)).nbytes + 1000
        s.run(y, {x: np.zeros(2)})
        s.run(y, {x: np.zeros(1)})
        kept = {e.name for e in s.plans}
        s.run(y, {x: np.zeros(3)})
        assert count(s) == 2 and len(kept & {e.name for e in s.plans}) == 1
        names = {e.name for e in s.plans}
        assert s.run(y, {x: np.zeros(1)}).tolist() == [1] and {e.name for e in s.plans} == names, "1 was used after 2"


def live(kind: type) -> int:
    gc.collect()
    return sum(type(o) is kind for o in gc.get_objects())


def cell(style: str) -> None:
    """What a notebook cell does each time it is run again."""
    graph = wb.Graph()
    with graph.as_default():
        x = wb.placeholder("float32", [8, 4], name="x")
        w = wb.Variable(np.full((4, 3), 0.1, np.float32), name="w")
        loss = wb.reduce_mean(wb.square(wb.tanh(wb.matmul(x, w)) - 1.0))
        step = wb.train.AdamOptimizer(0.1).minimize(loss)
        s = wb.InteractiveSession() if style == "interactive" else wb.Session()
        s.run(wb.global_variables_initializer())
        s.run([loss, step], {x: np.ones((8, 4))})
        if style == "closed":
            s.close()


@pytest.mark.parametrize("style", ["closed", "left", "interactive"])
@pytest.mark.usefixtures("young")
def test_cells_that_rebuild_a_model_leave_nothing_behind(style, monkeypatch):
    from workbench.core.compile.plan import Plan
    monkeypatch.setattr(journal, "enabled", False)      # it fills up to a bound of its own: see graph/test_stages.py
    def rerun(times: int) -> None:
        for _ in range(times):
            cell(style)
        gc.collect()
    def stays() -> float:
        """The part of the bytes that some cells held for a while which stays after them."""
        tracemalloc.start()
        try:
            rerun(1)
            settled = tracemalloc.get_traced_memory()[0]
            rerun(6)
            grown, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return (grown - settled) / (peak - settled)
    rerun(2)
    plans, graphs = live(Plan), live(wb.Graph)
    # what has a bound of its own may take in something once; what leaks grows at every look
    assert any(stays() < 0.1 for _ in range(3)), "of what six cells held for a while, nearly nothing stays"
    assert live(Plan) <= plans and live(wb.Graph) <= graphs


# shapes

def test_a_shape_too_many_is_told_once_and_shares_a_plan(caplog):
    x = wb.placeholder("float32", [None], name="x")
    y = wb.exp(x) * 2.0
    with wb.Session() as s, caplog.at_level(logging.WARNING, "workbench"):
        for rows in range(1, _SPECIAL + 1):
            s.run(y, {x: np.zeros(rows)})
        assert caplog.messages == []
        for rows in range(_SPECIAL + 1, _SPECIAL + 6):
            assert s.run(y, {x: np.zeros(rows)}).tolist() == [2.0] * rows
        assert count(s) == _SPECIAL + 1
        text, = caplog.messages
        assert text.startswith(f"Session.run: more than {_SPECIAL} different shapes were fed for x:0; further shapes share a")
        spans = [span for span in journal.spans_since()[2] if span.kind == "compile"]
        assert spans[-1].detail.endswith(", shapes left open")


def test_a_shape_that_is_used_often_gets_a_plan_of_its_own_in_place_of_an_idle_one():
    x = wb.placeholder("float32", [None], name="x")
    y = wb.exp(x)
    with wb.Session() as s:
        for rows in range(1, _SPECIAL + 2):
            s.run(y, {x: np.zeros(rows)})
        before = {e.name for e in s.plans}
        for _ in range(_OFTEN):
            s.run(y, {x: np.zeros(_SPECIAL + 1)})
        made = {e.name for e in s.plans} - before
        assert count(s) == _SPECIAL + 1 and len(made) == 1
        for rows in range(2, _SPECIAL + 2):
            s.run(y, {x: np.zeros(rows)})
        assert {e.name for e in s.plans} - before == made, "only the idle one went"


def test_many_shapes_that_come_and_go_are_not_compiled_for():
    x = wb.placeholder("float32", [None], name="x")
    y = wb.exp(x)
    shapes = np.random.default_rng(0).integers(1, 400, 3000)
    with wb.Session() as s:
        made = {e.name for e in s.plans}
        for rows in shapes:
            s.run(y, {x: np.zeros(rows, np.float32)})
            made |= {e.name for e in s.plans}
        assert len(made) < 3 * _SPECIAL


# what a further size costs

def perceptron() -> tuple[wb.Tensor, wb.Tensor, Any]:
    """Images, labels and the training step of a small network."""
    x, y = wb.placeholder("float32", [None, 6], name="x"), wb.placeholder("float32", [None, 3], name="y")
    h = x
    for shape in ([6, 5], [5, 4], [4, 3]):
        h = wb.tanh(wb.matmul(h, wb.Variable(np.full(shape, 0.1, np.float32)))) * 0.5 + 0.25
    return x, y, wb.train.GradientDescentOptimizer(0.1).minimize(wb.reduce_mean(wb.square(h - y)))


def test_the_first_step_for_a_further_size_is_not_timed_by_operation(monkeypatch):
    """It makes its kernels: their time would be taken for that of operations, and its traced text would be made for it."""
    monkeypatch.setattr("workbench.core.run.session._OP_PERIOD", -1.0)      # always due
    x, y, step = perceptron()
    with wb.Session() as s:
        s.run(wb.global_variables_initializer())
        timed, loaded = [], []
        for size in (7, 9, 9, 7, 9):
            since = journal.spans_since()[0]
            s.run(step, {x: np.ones([size, 6]), y: np.ones([size, 3])})
            timed.append(any(span.kind == "op" for span in journal.spans_since(since)[2]))
            loaded.append([sorted(plan._loaded) for e in list(s.plans)[1:] for _, plan in e.runner.compiled()])
    assert timed == [True, False, True, True, True]
    assert loaded[1] == [[True], [False]] and loaded[2] == [[True], [False, True]]


def test_a_further_size_costs_few_calls_for_each_operation(monkeypatch):
    """Calls of Python, of its own functions too, between two steps of one size: they grow with the graph alone."""
    monkeypatch.setattr(settings, "check", False)
    monkeypatch.setattr("workbench.core.run.session._OP_PERIOD", 1e9)
    x, y, step = perceptron()
    with wb.Session(kernels=KernelOptions(libraries=())) as s:
        s.run(wb.global_variables_initializer())

        def calls(size: int) -> int:
            values, counted = {x: np.ones([size, 6], np.float32), y: np.ones([size, 3], np.float32)}, 0

            def note(frame: Any, event: str, argument: Any) -> None:
                nonlocal counted
                counted += event in ("call", "c_call")
            sys.setprofile(note)
            try:
                s.run(step, values)
            finally:
                sys.setprofile(None)
            return counted
        calls(7)
        calls(8)
        found = calls(9) - calls(9)
        built = next(r for r in reversed(journal.graphs_since()[2]) if r.stage == "built")
    assert found < 660 * len(built.nodes)
