"""Variables: values, names, reads and assignments in order, devices, collections, initialisation."""
from __future__ import annotations

import threading

import numpy as np
import pytest

import workbench as wb
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")


def test_a_variable_has_a_name_a_shape_and_its_operations(graph: wb.Graph):
    w = wb.Variable(wb.zeros([3, 2]), name="W")
    assert (w.name, w.op.name, w.dtype, w.shape) == ("W:0", "W", wb.float32, [3, 2])
    assert w.initializer.name == "W/Assign" and w.get_shape().as_list() == [3, 2]
    assert repr(w) == "<Variable W:0 float32[3,2]>"
    with wb.name_scope("layer"):
        assert wb.Variable(1.0, name="W").name == "layer/W:0"
        assert wb.Variable(1.0, name="W").name == "layer/W_1:0"
    assert wb.Variable(1.0).name == "Variable:0" and wb.Variable(1.0).name == "Variable_1:0"


def test_values_are_converted_and_kept_between_steps():
    counter = wb.Variable(0, name="n", dtype=wb.int64)
    grow = counter.assign_add(2)
    with wb.Session() as session:
        session.run(counter.initializer)
        assert [int(session.run(grow)) for _ in range(3)] == [2, 4, 6]
        assert session.run(counter).dtype == np.int64 and int(counter.eval()) == 6


def test_a_variable_is_a_tensor_where_one_is_wanted():
    w = wb.Variable([1.0, 2.0, 3.0])
    results = [w + 1, 2 * w, -w, w[1], wb.reduce_sum(w), w > 1.5, wb.stack([w[0], w[2]]), 1 - w, w ** 2]
    with wb.Session() as session:
        session.run(w.initializer)
        assert [r.tolist() for r in session.run(results)] == [
            [2, 3, 4], [2, 4, 6], [-1, -2, -3], 2, 6, [False, True, True], [1, 3], [0, -1, -2], [1, 4, 9]]


def test_each_use_reads_after_the_control_dependencies_in_force():
    w = wb.Variable(1.0)
    before = w + 0.0
    with wb.control_dependencies([before]):
        changed = w.assign(5.0)
    with wb.control_dependencies([changed]):
        after = w + 0.0
    with wb.Session() as session:
        session.run(w.initializer)
        assert [float(v) for v in session.run([before, after])] == [1, 5]


def test_assignments_give_the_new_value_and_functions_do_the_same():
    w = wb.Variable([1.0, 2.0])
    with wb.Session() as session:
        session.run(w.initializer)
        for operation, expected in ((wb.assign(w, [3, 4]), [3, 4]), (wb.assign_add(w, [1, 1]), [4, 5]),
                                    (wb.assign_sub(w, [4, 4]), [0, 1]), (wb.scatter_add(w, [1], [5.0]), [0, 6]),
                                    (wb.scatter_sub(w, [1], [1.0]), [0, 5]),
                                    (wb.scatter_update(w, [0], [7.0]), [7, 5])):
            assert session.run(operation).tolist() == expected
        w.load([8.0, 9.0])
        assert w.eval().tolist() == [8, 9]


def test_the_initial_value_may_be_a_function_or_another_variables_value():
    first = wb.Variable(lambda: wb.fill([2], 3.0), name="first")
    second = wb.Variable(first.initialized_value() * 2.0, name="second")
    with wb.Session() as session:
        session.run(second.initializer)      # works although first is not initialised
        assert second.eval().tolist() == [6, 6]
        session.run([first.initializer, first.assign([1.0, 1.0])])
        session.run(first.assign([10.0, 10.0]))
        session.run(second.initializer)
        assert second.eval().tolist() == [20, 20]


def test_all_variables_are_initialised_together_and_missing_ones_are_named():
    a, b = wb.Variable(1.0, name="a"), wb.Variable(2.0, name="b", trainable=False)
    local = wb.Variable(3.0, trainable=False, collections=[wb.GraphKeys.LOCAL_VARIABLES], name="c")
    assert wb.global_variables() == [a, b] and wb.trainable_variables() == [a] and wb.local_variables() == [local]
    missing = wb.report_uninitialized_variables()
    with wb.Session() as session:
        assert session.run(missing).tolist() == [b"a", b"b", b"c"]
        session.run(a.initializer)
        assert session.run(missing).tolist() == [b"b", b"c"]
        session.run([wb.global_variables_initializer(), wb.local_variables_initializer()])
        assert session.run(missing).tolist() == []


def test_a_variable_without_validated_shape_may_change_its_shape():
    w = wb.Variable([1.0, 2.0], validate_shape=False)
    assert w.shape.rank is None
    with wb.Session() as session:
        session.run(w.initializer)
        assert session.run(w.assign([[1.0]])).tolist() == [[1]]


def test_what_uses_a_variable_runs_where_it_is():
    with wb.device("/job:ps/task:1"):
        w = wb.Variable(lambda: wb.zeros([2]), name="w")
    with wb.device("/job:worker/task:0"):
        read, change = w.value(), w.assign([1.0, 1.0])
    assert w.device == read.device == change.device == w.initial_value.device == "/job:ps/task:1"


def test_loops_and_branches_may_use_variables_from_outside():
    w = wb.Variable([1.0, 2.0])
    _, total = wb.while_loop(lambda i, total: i < 3, lambda i, total: (i + 1, total + wb.reduce_sum(w * w)), (0, 0.0))
    dw, = wb.gradients(total, [w])
    with wb.Session() as session:
        session.run(w.initializer)
        assert float(session.run(total)) == 15 and session.run(dw).tolist() == [6, 12]


def test_only_the_rows_asked_for_get_a_gradient():
    w = wb.Variable(np.ones((4, 2), np.float32))
    dw, = wb.gradients(wb.reduce_sum(w.gather([2, 2])), [w])
    assert isinstance(dw, wb.IndexedSlices)
    with wb.Session() as session:
        session.run(w.initializer)
        assert session.run(dw).indices.tolist() == [2, 2]
        assert session.run(w.scatter_sub(dw)).tolist() == [[1, 1], [1, 1], [-1, -1], [1, 1]]


def test_a_variable_cannot_decide_python_branches():
    with pytest.raises(errors.InvalidArgumentError, match="has no value while the graph is built"):
        bool(wb.Variable(1.0))


@pytest.mark.parametrize(("build", "text"), [
    (lambda: wb.Variable(), "Variable: initial_value is None; pass an array, a tensor or a function that returns one"),
    (lambda: wb.Variable(1.5, dtype=wb.int32), "is float64 but int32 was wanted"),
    (lambda: wb.Variable([1.0]).assign([1.0, 2.0]), r"assign: 'Variable' and .*: \[1\] and \[2\] cannot be the same "
                                                     "shape"),
])
def test_mistakes_are_named(build, text: str):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        build()


def test_collections_can_be_filtered_by_scope():
    with wb.name_scope("a"):
        x = wb.Variable(1.0)
    wb.Variable(1.0)
    assert wb.global_variables("a/") == [x]
    wb.add_to_collection("mine", 1)
    assert wb.get_collection("mine") == [1] and wb.get_collection_ref("mine") == [1]


def test_a_group_waits_for_all_its_members():
    w = wb.Variable([0.0, 0.0])
    both = wb.group(w.assign_add([1.0, 0.0]), [w.assign_add([0.0, 1.0])], None, name="both")
    assert both.name == "both"
    with wb.Session() as session:
        session.run(w.initializer)
        assert session.run(both) is None
        assert w.eval().tolist() == [1, 1]


def test_tuple_gives_tensors_only_after_all_of_them():
    w = wb.Variable(0.0)
    a, b = wb.tuple([wb.constant(1.0), w.assign_add(1.0)])
    with wb.Session() as session:
        session.run(w.initializer)
        assert float(session.run(a)) == 1 and float(w.eval()) == 1 and float(session.run(b)) == 2


def test_a_variable_moves_no_operations_of_other_threads(graph: wb.Graph):
    """While its initial value is being built, another thread builds elsewhere."""
    made: list[wb.Tensor] = []

    def others():
        with graph.as_default(), graph.device("/device:CPU:1"):
            made.append(wb.constant(1.0) + 2.0)

    def initial():
        thread = threading.Thread(target=others)
        thread.start()
        thread.join()
        return wb.zeros([2]) + 1.0
    with wb.device("/device:CPU:0"):
        w = wb.Variable(initial, name="W")
    assert made[0].op.device == "/device:CPU:1"
    assert w.initial_value.op.device == w.op.device == "/device:CPU:0"


def test_a_variable_without_elements_needs_no_first_value():
    """As in TensorFlow: there is nothing to be initialized."""
    texts, rows = wb.Variable([], dtype="string", collections=[]), wb.Variable(np.zeros((0, 3), np.float32))
    more = wb.assign(texts, wb.concat([texts, wb.placeholder_with_default(["a", "b"], [None])], 0), validate_shape=False)
    with wb.Session() as session:
        assert session.run(rows).shape == (0, 3) and session.run([texts, texts.is_initialized()])[1]
        assert session.run(wb.report_uninitialized_variables()).tolist() == []
        assert [session.run(more).tolist() for _ in range(2)] == [[b"a", b"b"], [b"a", b"b"] * 2]
        assert session.run(texts).size == 4


def test_what_an_assignment_gave_is_changed_again_after_it():
    with wb.Graph().as_default(), wb.Session() as session:
        v = wb.Variable([1.0, 2.0])
        late = wb.Variable(0.0)
        halved = wb.assign_add(wb.assign(v, v * 0.5), [10.0, 20.0])
        more = wb.scatter_nd_add(wb.scatter_update(wb.scatter_mul(halved, [1], [9.0]), [1], [7.0]), [[0]], [0.25])
        more = wb.scatter_sub(more, [0], [0.75])
        branch = wb.cond(wb.equal(late, 0.0), lambda: wb.assign_sub(wb.assign(late, 3.0), 1.0), lambda: late.value())
        session.run(wb.global_variables_initializer())
        assert session.run(more).tolist() == [10.0, 7.0] and session.run(v).tolist() == [10.0, 7.0]
        assert session.run(branch) == 2.0 and session.run(late) == 2.0
        free = wb.assign(wb.assign(v, [0.0, 0.0]), [1.0, 2.0, 3.0], validate_shape=False)
        assert session.run(free).tolist() == [1.0, 2.0, 3.0] == session.run(v).tolist()


def test_a_gather_of_a_variable_reads_these_rows_alone():
    """As TensorFlow's: the whole value would be held, so that an update meanwhile copied the table."""
    table = wb.Variable(np.arange(6, dtype=np.float32).reshape(3, 2))
    rows, column = wb.gather(table, [2, 0], name="rows"), wb.gather(table, [1], axis=1)
    assert (rows.op.kind, rows.op.name, column.op.kind) == ("resource_gather", "rows", "gather")
    slope = wb.gradients(wb.reduce_sum(rows), table)[0]
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        assert session.run(rows).tolist() == [[4, 5], [0, 1]] and session.run(column).tolist() == [[1], [3], [5]]
        assert session.run(slope).indices.tolist() == [2, 0]
