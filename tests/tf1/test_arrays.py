"""Arrays as programs of TensorFlow write them: joined, cut, assigned in part, sparse; and what their errors say."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph


def run(fetches, feeds=None):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


def test_one_value_is_joined_to_nothing():
    x = tf.constant([[1, 2]])
    for given in ([x], (x,), x):
        assert run(tf.concat(given, 1)).tolist() == [[1, 2]]
    assert run(tf.concat(1, [x, x])).tolist() == [[1, 2, 1, 2]]      # the order before 1.0
    assert run(tf.concat(1, tf.constant(0))) == 1
    axis = tf.Variable([1.0])
    for kind, make in ((ValueError, lambda: tf.concat(x, axis)), (TypeError, lambda: tf.concat(x, 4.2)),
                       (TypeError, lambda: tf.concat([x, x], axis)), (ValueError, lambda: tf.concat([x, x], [1])),
                       (ValueError, lambda: tf.concat([], 0)), (ValueError, lambda: tf.concat(x, tf.constant([0])))):
        with pytest.raises(kind):
            make()


def test_what_is_known_of_a_join():
    late, axis = tf.placeholder(tf.float32), tf.placeholder(tf.int32)
    known, partly = tf.zeros([2, 3]), tf.placeholder(tf.float32, [None, 3])
    assert tf.concat([late, known], 1).shape.as_list() == [2, None]
    assert tf.concat([partly, known], 1).shape.as_list() == [2, 6]
    assert tf.concat([late, known], axis).shape.as_list() == [None, None]
    assert tf.concat([late, late], axis).shape == None and tf.concat([late, late], 0).shape == None  # noqa: E711
    with pytest.raises(ValueError, match=r"values\[1\] has rank 2 but values\[2\] has rank 3"):
        tf.concat([late, known, tf.zeros([2, 3, 1])], axis)
    for at in (0, axis):
        with pytest.raises(ValueError, match=r"Can't concatenate scalars \(use tf\.stack instead\)"):
            tf.concat([tf.constant(7), tf.constant(8)], at)


def test_shapes_equal_what_they_are_made_from():
    shape = tf.zeros([3]).shape
    assert shape == 3 and shape == [3] and shape == (3,) and shape != None and shape != "3"  # noqa: E711
    assert tf.TensorShape(None) == None  # noqa: E711


V = [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("dtype", [tf.float32, tf.int64, tf.complex64])
@pytest.mark.parametrize(("key", "value"), [
    (np.s_[:], [[10, 20, 30], [40, 50, 60]]), (np.s_[1:2, 1:2], [[66]]), (np.s_[1:2, 1], [66]), (np.s_[1, 1], 66),
    (np.s_[:, None, :], [[[1, 1, 1]], [[2, 2, 2]]]), (np.s_[::1, ::-2], [[3, 33], [4, 44]]), (np.s_[8:10, 0], []),
    (np.s_[..., -1], [7, 8])])
def test_a_part_of_a_variable_is_assigned(dtype, key, value):
    variable = tf.Variable(V, dtype=dtype)
    expected = np.array(V, dtype.as_numpy_dtype)
    expected[key] = value
    first, second = variable[key].assign(value), tf.assign(variable[key], value)
    with tf.Session() as session:
        for change in (first, second):
            session.run(variable.initializer)
            assert session.run(change).tolist() == expected.tolist() == session.run(variable).tolist()


def test_what_is_no_part_of_a_variable_is_not_assigned():
    with pytest.raises(ValueError, match="Sliced assignment is only supported for variables"):
        tf.constant([1, 2])[:1].assign([3])
    variable = tf.Variable([1, 2, 3])
    with pytest.raises(errors.ShapeError, match=r"slice_assign: variable .* of shape \[3\] takes no value of shape \[4\]"):
        run(variable[:2].assign([1, 2, 3, 4]))
    with tf.Session() as session, pytest.raises(errors.FailedPreconditionError):
        session.run(variable[:2].assign([1, 2]))


def test_diagonals_of_any_rank():
    x = np.arange(6.0).reshape(2, 3)
    diagonal, back = tf.diag(x), tf.diag_part(tf.diag(x))
    expected = np.zeros((2, 3, 2, 3))
    for place in np.ndindex(2, 3):
        expected[place + place] = x[place]
    assert diagonal.shape == [2, 3, 2, 3] and back.shape == [2, 3]
    found, again = run([diagonal, back])
    assert found.tolist() == expected.tolist() and again.tolist() == x.tolist()
    late = tf.placeholder(tf.float64)
    with pytest.raises(errors.ShapeError, match="cannot be the same shape"):
        run(tf.diag_part(late), {late: x})
    for make, text in ((lambda: tf.diag(1.0), "must be at least rank 1"),
                       (lambda: tf.diag_part([1.0]), "an even number of axes"),
                       (lambda: tf.diag_part(x), "cannot be the same shape")):
        with pytest.raises(ValueError, match=text):
            make()


def test_matrices_turned_and_conjugated():
    x = np.array([[1 + 1j, 2 + 2j, 3 + 3j]])
    assert run(tf.matrix_transpose(x, conjugate=True)).tolist() == x.conj().T.tolist()
    with pytest.raises(ValueError, match=r"should be a \(batch\) matrix"):
        tf.matrix_transpose([1, 2])


def test_sparse_tensors_where_dense_ones_go():
    value = tf.SparseTensorValue(np.int64([[0, 1], [1, 0]]), np.float32([-4, 9]), np.int64([2, 3]))
    sparse = tf.SparseTensor.from_value(value)
    for given in (value, sparse):
        shape, size, rank = run([tf.shape(given), tf.size(given), tf.rank(given)])
        assert shape.tolist() == [2, 3] and (size, rank) == (6, 2) and shape.dtype == size.dtype == np.int32
    assert run(tf.shape(sparse, out_type=tf.int64)).dtype == np.int64
    for function, expected in ((tf.abs, [4, 9]), (tf.negative, [4, -9]), (tf.sign, [-1, 1]), (tf.square, [16, 81])):
        found = run(function(sparse))
        assert found.values.tolist() == expected and found.indices.tolist() == value.indices.tolist()
    assert run(tf.cast(sparse, tf.int32)).values.dtype == np.int32
    assert run(tf.shape(input=np.zeros([4]))).tolist() == [4] and run(tf.abs(x=-2)) == 2


def test_accumulate_n_of_one_and_of_unknown_shapes():
    with tf.Graph().as_default(), tf.Session() as session:
        one, open_ = tf.constant([1.0, 2.0]), tf.placeholder(tf.float32)
        assert tf.accumulate_n([one]) is one
        assert tf.accumulate_n([one], name="again").op.name == "again"
        total = tf.accumulate_n([open_, open_, one])
        assert total.shape.as_list() == [2] and tf.accumulate_n([open_, open_], shape=[None, 3]).shape.as_list() == [None, 3]
        value, slopes = session.run([total, tf.gradients(total, [open_, one])], {open_: [3.0, 4.0]})
        assert value.tolist() == [7, 10] and [g.tolist() for g in slopes] == [[2, 2], [1, 1]]


@pytest.mark.parametrize(("make", "kind", "text"), [
    (lambda: tf.zeros([2, 3])[..., :, ...], ValueError, "Multiple ellipses"),
    (lambda: tf.zeros([2, 3])[..., 1.0], TypeError, "1.0 is not an index"),
    (lambda: tf.zeros([2, 3])[0, 200], ValueError, "slice index 200 of dimension 1 out of bounds"),
    (lambda: tf.reverse(tf.zeros([2, 3]), [2]), ValueError, "is out of valid range"),
    (lambda: tf.reverse(tf.zeros([2, 3]), [0, -2]), ValueError, "axis 0 specified more than once"),
    (lambda: tf.boolean_mask([1, 2], True), ValueError, "mask cannot be scalar"),
    (lambda: tf.boolean_mask([1, 2], [True]), ValueError, "they are incompatible"),
    (lambda: tf.boolean_mask([1, 2], tf.placeholder(tf.bool)), ValueError, "Number of mask dimensions must be specified"),
    (lambda: tf.sequence_mask([1, 2], [3, 4]), ValueError, "maxlen must be scalar"),
    (lambda: tf.gather([1, 2], [0], axis=1), ValueError, "Shape must be at least rank 2 but is rank 1"),
    (lambda: tf.squeeze([[1, 2]], 1), ValueError, r"Can not squeeze dim\[1\]"),
    (lambda: tf.contrib.framework.remove_squeezable_dimensions(tf.zeros([2, 3]), tf.zeros([2, 3, 4])), ValueError,
     r"Can not squeeze dim\[2\]"),
    (lambda: tf.clip_by_value(tf.zeros([2, 3, 1]), [-1.0, -2.0], [1.0, 2.0]), ValueError, "clip_by_value: t and the limits"),
    (lambda: tf.clip_by_norm(tf.zeros([2, 3, 1]), [1.0, 2.0]), ValueError, "clip_by_norm: t and clip_norm"),
    (lambda: tf.accumulate_n([0.1, 0.2], shape=[2, 2]), ValueError, "cannot be the same shape"),
    (lambda: tf.accumulate_n([]), ValueError, "at least one tensor"),
    (lambda: tf.accumulate_n(tf.zeros([2])), ValueError, "give a list"),
    (lambda: tf.accumulate_n([0.1, 1]), ValueError, "is float32 but .* is int32; cast one"),
    (lambda: tf.accumulate_n([[0.1, 0.2], [[0.3], [0.4]]]), ValueError, "accumulate_n: .* cannot be the same shape"),
    (lambda: tf.accumulate_n([0.1], tensor_dtype=tf.int32), TypeError, "inputs are float32 but tensor_dtype is int32"),
    (lambda: tf.accumulate_n([0.1, 0.2], tensor_dtype=tf.int32), TypeError, "inputs are float32 but tensor_dtype is int32"),
    (lambda: tf.matrix_diag(0), ValueError, "Shape must be at least rank 1 but is rank 0"),
    (lambda: tf.add([1, 2], [1, 2, 3]), ValueError, "Dimensions must be equal, but are 2 and 3"),
    (lambda: tf.constant([[1, 2], [3]]), ValueError, "setting an array element with a sequence.* must be a dense"),
    (lambda: tf.constant([1, 2, 3], shape=[2]), ValueError, "Too many elements provided. Needed at most 2, but received 3")])
def test_what_errors_say_while_building(make, kind, text):
    with pytest.raises(kind, match=text):
        make()


def test_what_errors_say_in_a_step():
    x = tf.placeholder(tf.float32, [2, 3], name="x")
    with pytest.raises(errors.InvalidArgumentError, match=r"placeholder tensor 'x' with dtype float and shape \[2,3\]"):
        run(x + 1.0)
    late = tf.placeholder(tf.int32)
    with pytest.raises(errors.InvalidArgumentError, match=r"indices\[0,1\] = 7 is not in \[0, 2\)"):
        run(tf.gather(late, [[1, 7]]), {late: [1, 2]})
    with pytest.raises(errors.InvalidArgumentError, match=r"flat indices\[2, :\] = \[1\] .* \(shape: \[1,3\]\)"):
        run(tf.gather_nd([[0, 1, 2]], [[[0], [0], [1]]]))


@pytest.mark.parametrize(("options", "text"), [
    ({"capacity": 7}, "has capacity 5 but"), ({"dtypes": [tf.int32]}, r"component types \['float32'\] but "),
    ({"shapes": [[2]]}, "component shapes")])
def test_a_shared_queue_is_of_one_kind(options, text):
    first = tf.FIFOQueue(5, [tf.float32], shapes=[[]], shared_name="shared")
    second = tf.FIFOQueue(**{"capacity": 5, "dtypes": [tf.float32], "shapes": [[]], "shared_name": "shared", **options})
    with tf.Session() as session:
        session.run(first.enqueue(1.0))
        with pytest.raises(errors.InvalidArgumentError, match=text):
            session.run(second.size())
        assert session.run(tf.FIFOQueue(5, [tf.float32], shapes=[[]], shared_name="shared").size()) == 1


def test_elements_with_names_are_dictionaries():
    named, plain = tf.FIFOQueue(5, [tf.int32, tf.float32], names=["i", "f"]), tf.FIFOQueue(5, tf.float32)
    for make, text in ((lambda: plain.enqueue({"a": 1.0}), "must have names to enqueue a dictionary"),
                       (lambda: named.enqueue({"a": 1.0}), "keys match names of Queue"),
                       (lambda: named.enqueue([1, 2.0]), "enqueue a dictionary"),
                       (lambda: named.enqueue_many({"i": [1, 2], "f": [1.0]}), "give each the same first dimension"),
                       (lambda: plain.dequeue_many(2), "specified shapes")):
        with pytest.raises(ValueError, match=text):
            make()


def test_jacobians_of_complex_numbers():
    start = np.array([1 + 2j, 3 - 1j])
    with tf.Session().as_default():
        x = tf.constant(start)
        exact, near = tf.test.compute_gradient(x, [2], x * x, [2], x_init_value=start)
        assert exact.shape == (4, 4) and exact.dtype == np.float64
        np.testing.assert_allclose(exact, near, atol=1e-9)
        assert tf.test.compute_gradient_error(x, [2], tf.abs(x), [2], x_init_value=start) < 1e-6


def test_numbers_by_rule_have_the_widest_of_their_dtypes():
    small, large = tf.constant(0, tf.int32), tf.constant(3, tf.int64)
    for given, dtype in (((3,), tf.int32), ((3.0,), tf.float32), ((small, 3), tf.int32), ((small, large), tf.int64),
                         ((small, 3.5), tf.float32), ((large, 5, tf.constant(1.0, tf.float64)), tf.float64),
                         ((tf.constant(3, tf.float16),), tf.float16)):
        assert tf.range(*given).dtype == dtype
    assert run(tf.range(small, large)).tolist() == [0, 1, 2] and tf.range(small, 3, dtype=tf.float32).dtype == tf.float32


def test_sparse_tensors_in_branches_and_loops():
    x = tf.SparseTensor(np.int64([[0], [3]]), tf.constant([2.0, 4.0]), np.int64([10]))

    def doubled(x):
        return tf.SparseTensor(x.indices, x.values * 2.0, x.dense_shape)
    chosen = tf.cond(tf.placeholder_with_default(True, []), lambda: doubled(x), lambda: x)
    _, looped = tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, doubled(x)), [tf.constant(0), x])
    one, many, slope = run([chosen, looped, tf.gradients(looped.values, x.values)[0]])
    assert one.values.tolist() == [4, 8] and many.values.tolist() == [16, 32] and slope.tolist() == [8, 8]
    assert many.indices.tolist() == [[0], [3]] and many.dense_shape.tolist() == [10]


def test_losses_have_the_names_by_which_programs_find_them():
    labels, logits = tf.constant([[0.0, 1.0]]), tf.zeros([1, 2])
    for make, name in ((tf.losses.softmax_cross_entropy, "softmax_cross_entropy_loss"),
                       (tf.losses.sigmoid_cross_entropy, "sigmoid_cross_entropy_loss"),
                       (tf.losses.mean_squared_error, "mean_squared_error")):
        assert make(labels, logits).op.name == f"{name}/value"
    loss = tf.losses.sparse_softmax_cross_entropy([1, 0], tf.zeros([2, 2]), weights=[[2.0], [0.0]])
    assert loss.name == "sparse_softmax_cross_entropy_loss/value:0" and abs(run(loss) - 2 * np.log(2)) < 1e-6
    assert tf.losses.cosine_distance(labels, logits, axis=1).op.name == "cosine_distance_loss/value"
    total = tf.losses.mean_squared_error(labels, logits, reduction=tf.losses.Reduction.SUM, scope="mine")
    assert total.op.name == "mine/value"


@pytest.mark.parametrize("make", [tf.random_normal_initializer, tf.truncated_normal_initializer, tf.orthogonal_initializer,
                                  tf.uniform_unit_scaling_initializer, tf.variance_scaling_initializer])
def test_initial_values_that_are_drawn_are_floating(make):
    with pytest.raises(ValueError, match=r"dtype is string\. Expected floating point type"):
        make(dtype=tf.string)


def test_weights_and_labels_of_one_axis_of_length_1_more_are_taken_without_it():
    labels, predictions, weights = tf.constant([1, 0, 0]), tf.constant([[1], [1], [1]]), tf.constant([[100], [1], [1]])
    with tf.Session() as session:
        for pair in ((labels, predictions), (tf.expand_dims(labels, 1), tf.squeeze(predictions, 1)), (labels, predictions)):
            update = tf.metrics.accuracy(*pair, weights=weights)[1]
            session.run(tf.local_variables_initializer())
            assert abs(session.run(update) - 100 / 102) < 1e-6
        update = tf.metrics.mean(tf.constant([[[3.0], [5.0]]]), weights=tf.constant([[1.0, 3.0]]))[1]
        session.run(tf.local_variables_initializer())
        assert session.run(update) == 4.5


def test_labels_whose_rank_is_known_only_in_the_step_are_squeezed_there():
    labels, predictions = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    found = tf.contrib.framework.remove_squeezable_dimensions(predictions, labels)
    with tf.Session() as session:
        for shape, other in (((2, 3), (2, 3)), ((2, 3, 1), (2, 3)), ((2, 3), (2, 3, 1))):
            values = session.run(found, {labels: np.ones(shape), predictions: np.zeros(other)})
            assert [v.shape for v in values] == [(2, 3), (2, 3)] and [v.max() for v in values] == [0, 1]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Tried to explicitly squeeze dimension 2"):
            session.run(found, {labels: np.ones((2, 3, 2)), predictions: np.zeros((2, 3))})


def test_labels_at_k_may_be_sparse_and_those_that_are_no_class_are_never_found():
    scores = tf.constant([[0.1, 0.9, 0.5], [0.8, 0.2, 0.3]])
    labels = tf.SparseTensorValue(np.int64([[0, 0], [0, 1], [1, 0], [1, 1]]), np.int64([1, -1, 2, 3]), np.int64([2, 2]))
    with tf.Session() as session:
        updates = [metric(labels, scores, k=1)[1] for metric in (tf.metrics.recall_at_k, tf.metrics.sparse_precision_at_k)]
        session.run(tf.local_variables_initializer())
        assert session.run(updates) == [0.25, 0.5]


def test_inverses_may_be_adjoint():
    x = np.array([[[1 + 1j, 2], [3, 4 - 2j]]])
    wanted = np.linalg.inv(x).conj().swapaxes(-1, -2)
    for found in (tf.matrix_inverse(x, adjoint=True), tf.matrix_inverse(x, True, name="i"), tf.linalg.inv(x, adjoint=True)):
        np.testing.assert_allclose(run(found), wanted, rtol=1e-12)
    for make, text in ((tf.matrix_inverse, "Input is not invertible"), (tf.cholesky, "Cholesky decomposition was not success"),
                       (lambda x: tf.matrix_solve(x, x), "Input matrix is not invertible")):
        with pytest.raises(errors.InvalidArgumentError, match=text):
            run(make(-np.ones([2, 2])))


def test_branches_may_return_lists_of_one():
    x = tf.placeholder_with_default(3.0, [])
    value = tf.cond(tf.placeholder_with_default(True, []), lambda: tf.gradients(x * x, x), lambda: x)
    assert run(value) == 6 and run(tf.cond(tf.constant(True), lambda: [x], lambda: [x], strict=True)) == [3.0]


def test_empty_strings_and_empty_transforms():
    assert run(tf.zeros([2], tf.string)).tolist() == [b"", b""] and run(tf.zeros([2], tf.bool)).tolist() == [False, False]
    for function, shape, dtype in ((tf.fft, [0], np.complex64), (tf.ifft2d, [2, 0, 3], np.complex64)):
        assert run(function(np.zeros(shape, dtype))).shape == tuple(shape)
    assert run(tf.spectral.rfft(np.zeros([3, 0], np.float32))).shape[0] == 3
    x = tf.placeholder(tf.float32, [2, 2])
    with pytest.raises(ValueError, match="Cannot feed value of shape"):
        run(x, {x: [1.0, 2.0, 3.0]})


def test_functions_of_data_get_named_tuples_whole_and_may_return_lists():
    class Pair(NamedTuple):
        a: Any
        b: Any

    data = tf.data.Dataset.range(3).map(lambda x: Pair(x, x * 10)).map(lambda pair: [pair.a + pair.b, tf.constant(37.0)])
    assert data.output_types == (tf.int64, tf.float32)
    following = data.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert [session.run(following) for _ in range(3)] == [(0, 37.0), (11, 37.0), (22, 37.0)]


def test_sparse_tensors_have_no_rows_to_map():
    sparse = tf.SparseTensor(np.int64([[0, 0], [1, 1]]), [1.0, 2.0], np.int64([2, 2]))
    for build in (lambda: tf.map_fn(lambda x: x, sparse), lambda: tf.scan(lambda a, x: a, (sparse, tf.zeros([2])))):
        with pytest.raises(TypeError, match="elems hold a SparseTensor"):
            build()


def test_confusion_of_what_has_one_shape():
    labels, predictions = tf.constant([0, 1, 1]), tf.constant([[0], [1], [0]])
    assert run(tf.confusion_matrix(labels, predictions)).tolist() == [[1, 0], [1, 1]]
    assert run(tf.confusion_matrix(predictions, labels)).tolist() == [[1, 1], [0, 1]]
    for wrong, text in ((tf.constant([0, 1]), "they must be equal"), (tf.zeros([3, 2], tf.int32), "Can not squeeze dim")):
        with pytest.raises(ValueError, match=text):
            tf.confusion_matrix(labels, wrong)


@pytest.mark.filterwarnings("ignore:densify")
def test_a_mask_may_be_shorter_than_what_it_masks_where_only_the_step_knows():
    """It takes from the beginning; a longer one asks for what is not there."""
    x, mask = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.bool, [None])
    found = tf.boolean_mask(x, mask)
    with tf.Session() as sess:
        value, slope = sess.run([found, tf.gradients(found, x)[0]], {x: np.arange(6).reshape(3, 2), mask: [False, True]})
        assert value.tolist() == [[2, 3]] and slope.tolist() == [[0, 0], [1, 1], [0, 0]]
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"3 is not in \[0, 3\)"):
            sess.run(found, {x: np.zeros([3, 2]), mask: [True] * 4})
