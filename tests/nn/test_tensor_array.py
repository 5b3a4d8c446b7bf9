"""TensorArray: every way in and out, gradients of two orders, loops, lengths, misuse."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.running import run
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")


ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)


def test_elements_are_written_and_read_in_any_order():
    array = wb.TensorArray("float32", 3).write(2, [5.0, 6.0]).write(0, [1.0, 2.0]).write(1, [3.0, 4.0])
    found = run([array.read(0), array.read(2), array.stack(), array.gather([2, 0]), array.size(), array.concat()])
    assert [f.tolist() for f in found] == [[1, 2], [5, 6], ROWS.tolist(), [[5, 6], [1, 2]], 3, [1, 2, 3, 4, 5, 6]]
    assert array.stack().shape == [3, 2] and array.read(0).shape == [2]


def test_what_was_before_a_write_is_still_there():
    empty = wb.TensorArray("int32", 1, element_shape=[])
    full = empty.write(0, 7)
    assert run([empty.read(0), full.read(0), full.read(0)]) == [0, 7, 7]


def test_tensors_become_elements():
    assert run(wb.TensorArray("float32", 3).unstack(ROWS).read(1)).tolist() == [3, 4]
    assert run(wb.TensorArray("float32", 4).scatter([3, 0], ROWS[:2]).stack()).tolist() == [[3, 4], [0, 0], [0, 0], [1, 2]]
    pieces = wb.TensorArray("float32", 2, infer_shape=False).split(ROWS, [1, 2])
    assert [f.tolist() for f in run([pieces.read(0), pieces.read(1), pieces.concat()])] == [
        ROWS[:1].tolist(), ROWS[1:].tolist(), ROWS.tolist()]


def test_identity_gives_the_array_in_loops_too():
    def body(i, array):
        return i + 1, array.identity().write(i, wb.fill([2], wb.cast(i, "float32"))).identity()

    _, array = wb.while_loop(lambda i, _: i < 3, body, [wb.constant(0), wb.TensorArray("float32", 3, element_shape=[2])])
    assert run([array.identity().stack()])[0].tolist() == [[0, 0], [1, 1], [2, 2]]


def test_dynamic_arrays_grow():
    array = wb.TensorArray("float32", 0, dynamic_size=True, element_shape=[]).write(2, 1.0)
    assert [np.asarray(f).tolist() for f in run([array.size(), array.stack()])] == [3, [0, 0, 1]]
    assert run(wb.TensorArray("float32", 0, element_shape=[2]).stack()).shape == (0, 2)


def test_loops_carry_arrays_and_gradients_pass_twice():
    x = wb.placeholder("float32", [None, 2])
    count = wb.shape(x)[0]
    given, made = wb.TensorArray("float32", count).unstack(x), wb.TensorArray("float32", count)

    def body(i, array, total):
        total = total + given.read(i)
        return i + 1, array.write(i, total * total), total
    _, array, _ = wb.while_loop(lambda i, *_: i < count, body, (0, made, wb.zeros([2])))
    y = array.stack()
    [dy] = wb.gradients(y, x)
    [ddy] = wb.gradients(dy, x)
    sums = np.cumsum(ROWS, 0)
    found = run([y, dy, ddy], {x: ROWS})
    np.testing.assert_allclose(found[0], sums ** 2)
    np.testing.assert_allclose(found[1], [(2 * sums[i:]).sum(0) for i in range(3)])
    weights = np.array([[2 * sum(3 - max(i, j) for j in range(3))] * 2 for i in range(3)])
    np.testing.assert_allclose(found[2], weights)


@pytest.mark.parametrize("way", [
    lambda x: wb.TensorArray("float32", 5).scatter([4, 0, 2], x).stack(),
    lambda x: wb.TensorArray("float32", 2, infer_shape=False).split(x, [1, 2]).concat(),
    lambda x: wb.TensorArray("float32", 3).unstack(x).gather([2, 2, 0]),
    lambda x: wb.TensorArray("float32", 3, element_shape=[2]).write(1, x[0]).stack(),
    lambda x: wb.TensorArray("float32", 0, dynamic_size=True, element_shape=[2]).write(3, x[1]).read(3)])
def test_gradients_of_every_way(way):
    x = wb.constant(ROWS)
    y = way(x * x)
    weights = np.arange(1.0, np.prod(run(y).shape) + 1).reshape(run(y).shape).astype(np.float32)
    [dx] = wb.gradients(wb.reduce_sum(y * weights), x)
    with wb.Session() as session:
        exact = session.run(dx)
        for place in np.ndindex(ROWS.shape):
            step = np.zeros_like(ROWS)
            step[place] = 0.5
            ends = [float((session.run(y, {x: ROWS + sign * step}) * weights).sum()) for sign in (1, -1)]
            assert abs(exact[place] - (ends[0] - ends[1])) < 1e-3


@pytest.mark.parametrize("invariant", [None, []])
def test_an_array_in_a_loop_may_have_a_shape_invariant(invariant):
    _, array = wb.while_loop(lambda i, array: i < 3, lambda i, array: (i + 1, array.write(i, wb.cast(i, "float32") * 2.0)),
                             [0, wb.TensorArray("float32", 3)],
                             shape_invariants=[wb.TensorShape([]), wb.TensorShape(invariant)])
    assert run(array.stack()).tolist() == [0, 2, 4]


def test_branches_give_arrays():
    array, p = wb.TensorArray("float32", 2, element_shape=[]), wb.placeholder("bool", [])
    chosen = wb.cond(p, lambda: array.write(0, 1.0), lambda: array.write(1, 2.0))
    assert run(chosen.stack(), {p: True}).tolist() == [1, 0] and run(chosen.stack(), {p: False}).tolist() == [0, 2]


def test_an_array_made_from_handle_and_flow_is_that_array():
    array = wb.TensorArray("float32", 1).write(0, 4.0)
    again = wb.TensorArray("float32", handle=array.handle, flow=array.flow)
    assert run(again.read(0)) == 4


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "complex64"])
def test_gradients_written_to_one_index_add_up(dtype):
    sums = wb.TensorArray(dtype, 3).grad("sums").write(2, 3).write(2, 4).write(2, 5)
    found = run([sums.read(2), sums.read(0), sums.stack(), sums.size()])
    assert [np.asarray(f).tolist() for f in found] == [12, 0, [0, 0, 12], 3]


def test_every_way_into_an_array_of_gradients_adds():
    sums = wb.TensorArray("float32", 3).unstack(ROWS).grad("sums")
    assert run(sums.unstack(ROWS).unstack(ROWS).stack()).tolist() == (2 * ROWS).tolist()
    assert run(sums.scatter([2, 2, 0], ROWS).gather([0, 2])).tolist() == [[5, 6], [4, 6]]
    assert run(sums.split(ROWS.ravel(), [2, 2, 2]).write(0, [1.0, 1.0]).concat()).tolist() == [2, 3, 3, 4, 5, 6]


def test_gradients_start_as_zeros_of_the_shapes_that_were_written():
    array = wb.TensorArray("float32", 2, dynamic_size=True, infer_shape=False).write(0, [1.0, 2.0]).write(3, 1.0)
    sums = array.grad("sums").write(3, 2.0)
    assert [np.asarray(f).tolist() for f in run([sums.read(0), sums.read(3), sums.size()])] == [[0, 0], 2, 4]
    with pytest.raises(errors.InvalidArgumentError, match=r"existing shape is \[2\] but the new input shape is \[\]"):
        run(sums.write(0, 1.0).flow)


def test_the_flow_says_which_gradients_an_array_holds():
    array = wb.TensorArray("float32", 2, element_shape=[])
    written = array.write(0, 1.0)
    first = written.grad("sums").write(1, 3.0)
    again = written.grad("sums", flow=first.flow).write(1, 4.0)
    other = array.grad("sums", flow=written.flow)
    assert [f.tolist() for f in run([first.stack(), again.stack(), other.stack()])] == [[0, 3], [0, 7], [0, 0]]


def test_gradients_are_added_in_loops_and_branches_and_have_gradients():
    x = wb.constant([1.0, 2.0, 3.0])
    sums = wb.TensorArray("float32", 2, element_shape=[]).grad("sums")

    def body(i, sums):
        return i + 1, wb.cond(i < 2, lambda: sums.write(0, x[i] * x[i]), lambda: sums.write(1, x[i]))
    _, sums = wb.while_loop(lambda i, _: i < 3, body, [0, sums])
    y = sums.stack()
    [dx] = wb.gradients(y * [1.0, 10.0], x)
    [ddx] = wb.gradients(dx, x)
    assert [f.tolist() for f in run([y, dx, ddx])] == [[5, 3], [2, 4, 10], [2, 2, 0]]


@pytest.mark.parametrize(("use", "kind", "text"), [
    (lambda a: a.write(0, 1.0).write(0, 2.0).read(0), errors.InvalidArgumentError, "index 0 because it has already been"),
    (lambda a: a.write(2, 1.0).read(0), errors.InvalidArgumentError,
     "Tried to write to index 2 but array is not resizeable and size is: 2"),
    (lambda a: a.write(-1, 1.0).read(0), errors.InvalidArgumentError, "Tried to write to index -1"),
    (lambda a: a.write(1, 1.0).unstack([1.0, 2.0]).stack(), errors.InvalidArgumentError, "index 1 because it has already been"),
    (lambda a: a.scatter(wb.placeholder_with_default([0], [None]), [1.0, 2.0]).stack(), errors.InvalidArgumentError,
     r"Expected len\(indices\) == values.shape\[0\]"),
    (lambda a: a.grad("g").write(2, 1.0).stack(), errors.InvalidArgumentError, "Tried to write to index 2 but array is not"),
    (lambda a: wb.TensorArray("float32", 1, infer_shape=False).grad("g").write(0, 1.0).write(0, [1.0]).flow,
     errors.InvalidArgumentError, r"Could not aggregate .* existing shape is \[\] but the new input shape is \[1\]"),
    (lambda a: wb.TensorArray("bool", 1).grad("g").write(0, True).write(0, True).flow, errors.InvalidArgumentError,
     "Could not aggregate .* bool is no number"),
    (lambda a: a.split([1.0, 2.0, 3.0], [1, 1]).concat(), errors.InvalidArgumentError, "Expected sum of lengths to be equal"),
    (lambda a: a.read(2), errors.InvalidArgumentError, "Tried to read from index 2 but array size is: 2"),
    (lambda a: a.read(0), errors.InvalidArgumentError, "index 0. Furthermore, the element shape is not fully defined"),
    (lambda a: a.stack(), errors.InvalidArgumentError, "the element shape is not fully defined")])
def test_misuse_is_an_error_of_the_step(use, kind, text):
    with pytest.raises(kind, match=text):
        run(use(wb.TensorArray("float32", 2)))


@pytest.mark.parametrize(("use", "kind", "text"), [
    (lambda: wb.TensorArray("float32"), ValueError, "Size must be provided if handle is not provided"),
    (lambda: wb.TensorArray("float32", 1).write(0, 1), errors.DtypeError, None),
    (lambda: wb.TensorArray("float32", 1).write(0, wb.constant(1)), ValueError, "float32 but Op is trying to write dtype"),
    (lambda: wb.TensorArray("float32", 2).write(0, 1.0).write(1, [1.0]), ValueError, r"Inconsistent shapes: saw \[1\] but"),
    (lambda: wb.TensorArray("float32", 1).unstack([1.0, 2.0]), ValueError, "write to index 1 but array is not resizeable"),
    (lambda: wb.TensorArray("float32", 2).split([1.0], [1]), ValueError, r"size of lengths \(2 vs. 1\)"),
    (lambda: wb.TensorArray("float32", handle=3, flow=None), ValueError, "flow must not be None"),
    (lambda: wb.TensorArray("float32", 2).scatter([0, 1], [1.0]), ValueError, r"values.shape\[0\], but saw: 2 vs. 1"),
    (lambda: wb.TensorArray("float32", 1).unstack(1.0), ValueError, "Expected value to be at least a vector"),
    (lambda: wb.TensorArray("float32", 1).split(1.0, [1]), errors.InvalidArgumentError, "Expected value to be at least a vec"),
    (lambda: wb.TensorArray("float32", 1).grad("x").grad("y"), errors.InvalidArgumentError, "an array of gradients already"),
    (lambda: wb.TensorArray("float32", 1).grad(3), TypeError, "Expected string for argument 'source' not 3")])
def test_misuse_is_an_error_while_building(use, kind, text):
    if text is None:
        assert run(use().read(0)) == 1      # a Python integer is a float here
        return
    with pytest.raises(kind, match=text):
        use()
