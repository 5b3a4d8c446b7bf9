"""Session.run: what can be fed and fetched, what it leaves alone, several threads at once, and Ctrl-C."""
from __future__ import annotations

import threading
from collections import namedtuple

import numpy as np
import pytest

import workbench as wb
from tests.control_c import control_c
from workbench import errors
from workbench.core.run.default_session import InteractiveSession
from workbench.core.run.plans import _SPECIAL
from workbench.core.run.session import Session

pytestmark = pytest.mark.usefixtures("graph")
Pair = namedtuple("Pair", ["left", "right"])


def started(**options) -> Session:
    session = Session(**options)
    session.run(wb.global_variables_initializer())
    return session


# feeding and fetching

def test_any_tensor_can_be_fed_and_fetched():
    x = wb.placeholder("float32", [2])
    y = x * 2.0
    z = y + 1.0
    with Session() as s:
        np.testing.assert_array_equal(s.run(z, {x: [1, 2]}), [3, 5])
        np.testing.assert_array_equal(s.run(z, {y: [10, 20]}), [11, 21])
        np.testing.assert_array_equal(s.run([y, z], {y: [10, 20]}), [[10, 20], [11, 21]])
        np.testing.assert_array_equal(s.run(x, {x: [7, 8]}), [7, 8])


def test_a_constant_and_one_output_of_several_can_be_fed():
    c = wb.constant([1.0, 2.0])
    left, right = wb.split(wb.placeholder("float32", [4], name="x"), 2)
    with Session() as s:
        np.testing.assert_array_equal(s.run(c * 3.0, {c: [5.0, 6.0]}), [15, 18])
        np.testing.assert_array_equal(s.run(left + right, {left: [1, 2], "x:0": [0, 0, 3, 4]}), [4, 6])


def test_fetches_keep_their_form():
    x = wb.placeholder("float32", [], name="x")
    y = wb.identity(x + 1.0, name="y")
    with Session() as s:
        feed = {x: 1.0}
        assert s.run(Pair(x, [y, (x,)]), feed) == Pair(1.0, [2.0, (1.0,)])
        assert s.run({"a": x, "b": {"c": [y]}}, feed) == {"a": 1.0, "b": {"c": [2.0]}}
        assert s.run(["y:0", y, "x:0", x], feed) == [2.0, 2.0, 1.0, 1.0]
        assert s.run([y.op, y, "y"], feed) == [None, 2.0, None]
        assert s.run([]) == [] and s.run({}) == {} and s.run(()) == ()
        assert type(s.run([x], feed)) is list and type(s.run((x,), feed)) is tuple


def test_operations_alone_give_none_and_run():
    v = wb.Variable(0.0)
    add = wb.assign_add(v, 1.0)
    s = started()
    assert s.run(add.op) is None and s.run(v) == 1.0
    assert s.run([add.op, wb.constant(3.0).op, wb.no_op()]) == [None, None, None] and s.run(v) == 2.0


def test_a_variable_is_fetched_by_its_value_and_slices_as_slices():
    table = wb.Variable(np.arange(6, dtype=np.float32).reshape(3, 2))
    rows = wb.gather(table, [2, 0])
    slope, = wb.gradients(wb.reduce_sum(rows), [table])
    s = started()
    np.testing.assert_array_equal(s.run(table), [[0, 1], [2, 3], [4, 5]])
    values, indices, shape = s.run(slope)
    np.testing.assert_array_equal(values, np.ones((2, 2)))
    assert indices.tolist() == [2, 0] and shape.tolist() == [3, 2]


def test_one_step_computes_a_shared_tensor_once():
    v = wb.Variable(0.0)
    counted = wb.assign_add(v, 1.0)
    s = started()
    assert s.run([counted, counted * 10.0, counted + 1.0]) == [1.0, 10.0, 2.0] and s.run(v) == 1.0


def test_numbers_and_lists_are_converted_when_fed():
    x, n = wb.placeholder("float32", None), wb.placeholder("int64", [None])
    with Session() as s:
        assert s.run(x, {x: 3}).dtype == np.float32
        assert s.run(x, {x: np.float64(2.5)}) == 2.5
        assert s.run(n * 2, {n: [1, 2]}).tolist() == [2, 4]
        strided = np.arange(12, dtype=np.float32).reshape(3, 4).T[::2]
        np.testing.assert_array_equal(s.run(wb.exp(x), {x: strided}), np.exp(strided))


def test_a_step_with_the_graph_extended_after_the_first_run():
    x = wb.placeholder("float32", [])
    with Session() as s:
        assert s.run(x + 1.0, {x: 1.0}) == 2.0
        later = x * 5.0
        assert s.run(later, {x: 2.0}) == 10.0


def test_feeds_that_nothing_needs_are_fine():
    x, y, z = (wb.placeholder("float32", [], name=n) for n in "xyz")
    for options in ({}, {"lower_all": True}, {"devices": 2}):
        s = Session(**options)
        with wb.device("/cpu:1" if "devices" in options else None):
            loop = wb.while_loop(lambda i: i < y, lambda i: i + 1.0, [z])
        assert s.run([z * 2.0, loop], {x: 1.0, z: 3.0, y: 5.0}) == [6.0, 5.0]
        assert s.run(z * 2.0, {x: 1.0, z: 3.0, y: 2.0}) == 6.0


def test_tuples_of_tensors_are_fed_by_tuples_of_values():
    pair, z = (wb.placeholder("float32", []), (wb.constant(2.0), wb.placeholder("float32", []))), wb.placeholder("float32", [])
    total = pair[0] + 10 * pair[1][0] + 100 * pair[1][1] + z
    with Session() as s:
        assert s.run(total, {pair: (1.0, [3.0, 4.0]), z: 0.5}) == 431.5
        with pytest.raises(errors.InvalidArgumentError, match="3 values were fed but it has 2 parts; feed one for each"):
            s.run(total, {pair: (1.0, 2.0, 3.0), z: 0.5})
        with pytest.raises(errors.InvalidArgumentError, match="1 values were fed but it has 2 parts; feed one for each"):
            s.run(total, {pair: 1.0, z: 0.5})


def test_make_callable_runs_the_step_with_values_in_order():
    x, y = wb.placeholder("float32", []), wb.placeholder("float32", [])
    with Session() as s:
        step = s.make_callable([x - y], [x, y])
        assert step(5.0, 3.0) == [2.0]
        with pytest.raises(errors.InvalidArgumentError) as error:
            step(1.0)
        assert str(error.value) == "make_callable: 1 values for 2 feeds; pass one for each"


def test_shapes_that_contradict_a_rule_fail_when_the_step_comes_there():
    """With the rule's words; an assertion before it speaks first, and a step that never comes there is fine."""
    x, far = wb.placeholder("float32", None), wb.constant([1.0, 2.0, 3.0])
    with wb.control_dependencies([wb.Assert(wb.equal(wb.rank(x), 1), ["one row is wanted"])]):
        y = x + far
    with wb.Session() as session:
        for _ in range(2):
            with pytest.raises(errors.ShapeError, match=r"add: shapes \[2\] and \[3\] do not broadcast.*\n  operation: 'add'"):
                session.run(y, {x: [1.0, 2.0]})
            with pytest.raises(errors.InvalidArgumentError, match="one row is wanted"):
                session.run(y, {x: [[1.0, 2.0]]})
            assert session.run(y, {x: [1.0, 2.0, 3.0]}).tolist() == [2, 4, 6]
        assert session.run(wb.reduce_sum(x), {x: [1.0, 2.0]}) == 3
        inside = wb.cond(wb.equal(wb.size(x), 3), lambda: x * far, lambda: x)
        assert session.run(inside, {x: [1.0, 2.0]}).tolist() == [1, 2]


# shapes

def test_plans_are_made_for_shapes_up_to_a_bound():
    x = wb.placeholder("float32", [None, 3])
    y = wb.reduce_sum(wb.exp(x) * 2.0, axis=1)
    s = Session()
    for rows in range(2 * _SPECIAL):
        value = np.full((rows, 3), 0.5, np.float32)
        np.testing.assert_allclose(s.run(y, {x: value}), 2 * np.exp(value).sum(1), rtol=1e-5)
    assert len(list(s.plans)) == _SPECIAL + 1
    s.run(y, {x: np.zeros((100, 3))})
    assert len(list(s.plans)) == _SPECIAL + 1


# what a fetch gives belongs to the caller

@pytest.mark.parametrize("lower_all", [False, True])
def test_fetched_arrays_share_nothing_with_feeds_variables_or_constants(lower_all):
    x, p = wb.placeholder("float32", [4]), wb.placeholder("bool", [])
    v, k = wb.Variable(np.arange(4, dtype=np.float32)), wb.constant(np.ones(4, np.float32))
    fetches = [x, wb.identity(x), wb.reshape(x, [2, 2]), v, v.read_value(), wb.reshape(v, [2, 2]), k, wb.identity(k),
               wb.cond(p, lambda: v.read_value(), lambda: x), wb.cond(p, lambda: x, lambda: v.read_value()),
               wb.cond(p, lambda: k, lambda: x),
               wb.while_loop(lambda i, a: i < 0, lambda i, a: (i + 1, a * 2.0), [0, x]),
               wb.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, v.read_value()), [0, x]),
               wb.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, x), [0, k]), wb.assign_add(v, k)]
    s = started(lower_all=lower_all)
    for fetch in fetches:
        for side in (True, False):
            fed = np.arange(4, dtype=np.float32) + 10
            before = s.run(v)
            found = s.run(fetch, {x: fed, p: side})
            changed = s.run(v)
            for array in found if isinstance(found, (list, tuple)) else [found]:
                if isinstance(array, np.ndarray):      # else a scalar, which nobody can change
                    array[...] = -7
            np.testing.assert_array_equal(fed, np.arange(4) + 10)
            np.testing.assert_array_equal(s.run(v), changed)
            np.testing.assert_array_equal(s.run(k), np.ones(4))
            assert fetch is fetches[-1] or np.array_equal(before, changed)


def test_results_of_earlier_steps_keep_their_values():
    x = wb.placeholder("float32", [300])
    y = wb.exp(x * 0.5) + 1.0
    with Session() as s:
        first = s.run(y, {x: np.zeros(300)})
        s.run(y, {x: np.ones(300)})
        np.testing.assert_array_equal(first, np.full(300, 2.0))


def test_a_loop_keeps_a_tensor_that_it_only_passes_on():
    x, n = wb.placeholder("float32", [2, 2]), wb.placeholder("int32", [])
    kept = wb.matmul(x, x)
    passed = wb.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, kept), [0, wb.zeros([2, 2])])[1]
    later = wb.matmul(wb.matmul(kept + 1.0, kept * 3.0), kept)
    value = np.array([[1, 2], [3, 4]], np.float32)
    with Session() as s:
        found = s.run(wb.matmul(passed, wb.matmul(later, later)), {x: value, n: 2})
    c = value @ value
    d = (c + 1) @ (c * 3) @ c
    np.testing.assert_allclose(found, c @ (d @ d), rtol=1e-5)


@pytest.mark.parametrize("lower_all", [False, True])
def test_loops_and_branches_over_constants_alone(lower_all):
    loop = wb.while_loop(lambda i: i < 5, lambda i: i + 2, [0])
    branch = wb.cond(wb.constant(True), lambda: wb.constant(1.0), lambda: wb.constant(2.0))
    with Session(lower_all=lower_all) as s:
        assert s.run([loop, branch]) == [6, 1.0]


# threads

def together(count: int, work) -> None:
    """Run work(i) in `count` threads that start at one moment; the first error is raised here."""
    gate, faults = threading.Barrier(count), []

    def body(i: int) -> None:
        try:
            gate.wait(60)
            work(i)
        except BaseException as error:
            faults.append(error)
    threads = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if faults:
        raise faults[0]


@pytest.mark.parametrize("options", [{}, {"lower_all": True}, {"devices": 2}])
def test_eight_threads_add_exactly(options):
    v = wb.Variable(0.0)
    with wb.device("/cpu:1" if "devices" in options else None):
        one = wb.placeholder("float32", []) * 1.0
    add = wb.cond(one > 0.0, lambda: wb.assign_add(v, one), lambda: v.read_value())
    s = started(**options)
    together(8, lambda i: [s.run(add, {one: 1.0}) for _ in range(25)])
    assert s.run(v) == 200.0


def test_reads_are_never_torn_and_a_snapshot_stays():
    v = wb.Variable(np.zeros(20_000, np.float32), name="v")
    add = wb.assign_add(v, np.ones(20_000, np.float32))
    twice = v.read_value()[:10] * 1.0, add.op
    s = started()
    state = s.backend.container.variables()["v"]
    version, pinned = state.snapshot()
    held = pinned.copy()

    def work(i: int) -> None:
        for _ in range(40):
            if i % 2:
                s.run(twice)
            else:
                value = s.run(v)
                assert value.min() == value.max(), "a read saw half of an update"
    together(6, work)
    np.testing.assert_array_equal(pinned, held)
    assert state.version == version + 120 and s.run(v)[0] == 120.0


def test_concurrent_steps_do_not_share_buffers():
    x = wb.placeholder("float32", [64, 64])
    y = wb.matmul(wb.matmul(x, x) + 1.0, x)
    s = Session()

    def work(i: int) -> None:
        value = np.full((64, 64), i, np.float32)
        expected = (value @ value + 1) @ value
        for _ in range(15):
            np.testing.assert_allclose(s.run(y, {x: value}), expected, rtol=1e-5)
    together(4, work)


@pytest.mark.parametrize("options", [{}, {"lower_all": True}, {"devices": 2}], ids=str)
def test_interrupt_stops_an_endless_loop(options):
    v, limit = wb.Variable(1.0), wb.placeholder("float32", [])

    def body(i):
        with wb.device("/cpu:1" if "devices" in options else None):
            return i * 1.0 + 1.0
    loop = wb.while_loop(lambda i: i < limit, body, [wb.constant(0.0)])
    add = wb.assign_add(v, 1.0)
    s = started(**options)
    s.run(loop, {limit: 3.0})      # compiled: what is interrupted is the loop
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt), control_c():
        s.run(loop, {limit: np.inf})
    assert s.run(add) == 2.0, "the session and its variables stay usable"
    assert set(threading.enumerate()) <= before


# life

def test_default_sessions():
    x = wb.constant(4.0)
    with Session() as s:
        assert x.eval() == 4.0 and wb.get_default_session() is s
    interactive = InteractiveSession()
    assert (x * 2.0).eval() == 8.0
    interactive.close()
    with pytest.raises(errors.InvalidArgumentError) as error:
        x.eval()
    assert str(error.value) == ("eval/run: No default session is registered; use 'with Session() as s:' or pass session=")


def test_sessions_of_one_graph_have_variables_of_their_own():
    v = wb.Variable(1.0)
    add = wb.assign_add(v, 1.0)
    one, other = started(), started()
    one.run(add)
    assert one.run(v) == 2.0 and other.run(v) == 1.0


def test_closing_twice_is_fine():
    s = Session()
    s.close()
    s.close()
    assert repr(s) == f"<Session {s.name} closed>"


def test_devices_are_listed():
    assert Session(devices=2).list_devices() == [f"/job:localhost/task:0/device:CPU:{i}" for i in range(2)]


def test_a_name_given_to_a_step_that_could_not_be_prepared_is_never_used_again(monkeypatch):
    """Tasks of a cluster may still be at work on it, and would put it in the place of the next one."""
    x = wb.placeholder("float32", [])
    names: list[str] = []
    with Session() as s:
        prepare = s._backend.prepare

        def interrupted(parts, name, fetches, kernels, told):
            names.append(name)
            if len(names) == 1:
                raise KeyboardInterrupt
            return prepare(parts, name, fetches, kernels, told)
        monkeypatch.setattr(s._backend, "prepare", interrupted)
        with pytest.raises(KeyboardInterrupt):
            s.run(x + 1.0, {x: 1})
        assert s.run(x * 2.0, {x: 1}) == 2
    assert len(set(names)) == 2


def test_a_value_that_is_fed_for_a_variable_stands_for_all_its_reads():
    with wb.Graph().as_default(), wb.Session() as session:
        x = wb.Variable(3.0)
        twice, chosen = x * 2.0, wb.cond(x > 4.0, lambda: wb.constant(1), lambda: wb.constant(0))
        session.run(wb.global_variables_initializer())
        assert session.run([x, twice, chosen], {x: 5.0}) == [5, 10, 1]
        assert session.run([x, twice, chosen]) == [3, 6, 0]
