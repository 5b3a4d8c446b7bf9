"""Arrays and stacks of one step, as TensorFlow's graphs use them: values, what is added up, what is refused."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.running import run
from workbench import errors
from workbench.core.graph.build import ops

pytestmark = pytest.mark.usefixtures("graph")
ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)


def array(size=3, **options):
    return ops.step_array(wb.constant(size), dtype="float32", **options)


def filled(**options):
    handle, flow = array(**options)
    return handle, ops.step_array_scatter(handle, [0, 1, 2], ROWS, flow)


def read(handle, index, flow, shape=None):
    return ops.step_array_read(handle, index, flow, dtype="float32", shape=shape)


def gathered(handle, indices, flow):
    return ops.step_array_gather(handle, wb.constant(np.asarray(indices, np.int32)), flow, dtype="float32")


def test_elements_go_in_and_out():
    handle, flow = filled(clear=False)
    joined, lengths = ops.step_array_concat(handle, flow, dtype="float32")
    size = ops.step_array_size(handle, flow)
    found = run([read(handle, 1, flow, [2]), gathered(handle, [2, 0], flow), joined, lengths, size])
    assert [f.tolist() for f in found] == [[3, 4], [[5, 6], [1, 2]], ROWS.ravel().tolist(), [2, 2, 2], 3]


def test_pieces_and_growth():
    handle, flow = array(0, dynamic=True, clear=False)
    flow = ops.step_array_split(handle, ROWS, wb.constant([1, 2], "int64"), flow)
    flow = ops.step_array_write(handle, 3, ROWS[:1], flow)
    assert [f.tolist() for f in run([read(handle, 1, flow), ops.step_array_size(handle, flow)])] == [ROWS[1:].tolist(), 4]


def test_each_step_has_its_own():
    handle, flow = array(1, shape=[])
    number = wb.placeholder("float32", [])
    value = read(handle, 0, ops.step_array_write(handle, 0, number, flow))
    with wb.Session() as session:
        assert [float(session.run(value, {number: n})) for n in (1, 2)] == [1, 2]


def test_gradients_are_added_up_and_have_zeros_of_the_shape_of_what_was_written():
    handle, flow = filled()
    dhandle, dflow = ops.step_array_gradient(handle, flow, source="gradients")
    dflow = ops.step_array_write(dhandle, 1, ROWS[0], ops.step_array_write(dhandle, 1, ROWS[1], dflow))
    same, again = ops.step_array_gradient(handle, dflow, source="gradients")
    other, _ = ops.step_array_gradient(handle, dflow, source="gradients_1")
    with wb.control_dependencies([again]):
        after = ops.identity(dflow)
    assert run([gathered(same, [0, 1, 2], after), gathered(other, [1], after)])[0].tolist() == [[0, 0], [4, 6], [0, 0]]


def test_a_stack_gives_back_the_last_first():
    stack = ops.step_stack(-1, dtype="float32")
    with wb.control_dependencies([ops.step_stack_push(stack, 1.0)]):
        second = ops.step_stack_push(stack, 2.0)
    with wb.control_dependencies([second]):
        last = ops.step_stack_pop(stack, dtype="float32", shape=[])
    with wb.control_dependencies([last]):
        first = ops.step_stack_pop(stack, dtype="float32", shape=[])
    with wb.control_dependencies([first]):
        none = ops.step_stack_pop(stack, dtype="float32", shape=[])
    assert run([last, first]) == [2, 1]
    with pytest.raises(errors.InvalidArgumentError, match="Stack is empty when calling Pop"):
        run(none)


def test_gradients_through_them_are_refused():
    handle, flow = array(1)
    x = wb.constant([1.0, 2.0])
    y = read(handle, 0, ops.step_array_write(handle, 0, x, flow))
    with pytest.raises(errors.UnimplementedError, match="has no gradient but lies between x and y"):
        wb.gradients(y, x)


def twice(handle, flow):
    return ops.step_array_write(handle, 0, ROWS[0], ops.step_array_write(handle, 0, ROWS[0], flow))


def read_twice(handle, flow):
    flow = ops.step_array_write(handle, 0, ROWS[0], flow)
    with wb.control_dependencies([read(handle, 0, flow)]):
        return read(handle, 0, ops.identity(flow))


@pytest.mark.parametrize(("use", "text"), [
    (twice, "index 0 because it has already been written to"),
    (read_twice, "Could not read index 0 twice because it was cleared"),
    (lambda h, f: ops.step_array_write(h, 3, ROWS[0], f), "write to index 3 but array is not resizeable and size is: 3"),
    (lambda h, f: read(h, -1, f), "Tried to read from index -1 but array size is: 3"),
    (lambda h, f: read(h, 0, f), "index 0. Furthermore, the element shape is not fully defined"),
    (lambda h, f: gathered(h, [], f), "size zero, but element shape"),
    (lambda h, f: ops.step_array_scatter(h, [0, 1], ROWS, f), r"len\(indices\) == values.shape\[0\], but saw: 2 vs. 3"),
    (lambda h, f: ops.step_array_split(h, ROWS, wb.constant([1, 1], "int64"), f), "sum of lengths is 2 and value's shape"),
    (lambda h, f: ops.step_array_split(h, ROWS, wb.constant([1, 2], "int64"), f), r"size of lengths \(3 vs. 2\)"),
    (lambda h, f: ops.step_array_write(*filled(shape=[2])[:1], 0, np.float32(1), f), "which is incompatible with the TensorA")])
def test_misuse(use, text):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        run(use(*array()))
