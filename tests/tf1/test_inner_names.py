"""Names of TensorFlow's inner modules that programs borrow: types of operations as functions, small helpers, the tutorial."""
from __future__ import annotations

import types

import numpy as np
import pytest
from workbench.tf1.contrib.learn.python.learn.estimators import run_config
from workbench.tf1.examples.tutorials.mnist import mnist
from workbench.tf1.python.layers import base

import workbench.tf1 as tf
from workbench.tf1.python import client, util
from workbench.tf1.python.framework import common_shapes, constant_op, ops, sparse_tensor, tensor_util
from workbench.tf1.python.ops import (
    array_ops,
    control_flow_ops,
    gen_array_ops,
    gen_dataset_ops,
    gen_math_ops,
    gen_nn_ops,
    init_ops,
    io_ops,
    lookup_ops,
    metrics_impl,
    rnn,
    state_ops,
    variable_scope,
    weights_broadcast_ops,
)
from workbench.tf1.python.ops import rnn_cell_impl as cells
from workbench.tf1.python.platform import flags
from workbench.tf1.python.training import device_setter, monitored_session, session_manager


@pytest.fixture(autouse=True)
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_types_of_operations_are_functions_of_the_generated_modules(session):
    x = tf.constant([[-1.0, 2.0], [3.0, -4.0]])
    dy = tf.constant([[5.0, 6.0], [7.0, 8.0]])
    made = [gen_nn_ops._relu_grad(dy, tf.nn.relu(x)), gen_math_ops._tanh_grad(tf.tanh(x), dy), gen_math_ops._sum(x, [0], True),
            gen_math_ops.mat_mul(x, dy, transpose_b=True, name="product"), gen_array_ops._concat(0, [x, dy])]
    found = session.run(made)
    assert found[0].tolist() == [[0, 6], [7, 0]] and found[2].tolist() == [[2, -2]] and made[3].op.name == "product"
    np.testing.assert_allclose(found[1], (1 - np.tanh([[-1, 2], [3, -4]]) ** 2) * [[5, 6], [7, 8]], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[3], np.array([[-1, 2], [3, -4]]) @ np.array([[5, 6], [7, 8]]).T)
    assert found[4].tolist() == [[-1, 2], [3, -4], [5, 6], [7, 8]]
    assert gen_nn_ops.relu is tf.nn.relu
    with pytest.raises(AttributeError, match="not offered"):
        gen_nn_ops._no_such_grad()


def test_attributes_of_pools_come_by_position_as_guided_backpropagation_gives_them(session):
    x = np.random.default_rng(0).normal(size=(1, 4, 4, 1)).astype(np.float32)
    y = tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    made = gen_nn_ops._max_pool_grad(tf.constant(x), y, tf.ones_like(y), [1, 2, 2, 1], [1, 2, 2, 1], padding="VALID")
    assert session.run(tf.reduce_sum(made)) == 4 and set(session.run(made).ravel()) == {0, 1}

    @tf.RegisterGradient("OnlyGainsOfUnitsThatWereOn")
    def _guided(op, grad):
        return tf.where(grad > 0.0, gen_nn_ops._relu_grad(grad, op.outputs[0]), tf.zeros_like(grad))
    z = tf.constant([-1.0, 2.0, 3.0])
    with tf.get_default_graph().gradient_override_map({"Relu": "OnlyGainsOfUnitsThatWereOn"}):
        loss = tf.reduce_sum(tf.nn.relu(z) * [1.0, 1.0, -1.0])
    assert session.run(tf.gradients(loss, z)[0]).tolist() == [0, 1, 0]


def test_values_wait_for_what_they_depend_on(session):
    count = tf.Variable(0)
    with tf.control_dependencies([tf.global_variables_initializer()]):
        value = control_flow_ops.with_dependencies([count.assign_add(1)], tf.constant(7.0), name="after")
    rows = control_flow_ops.with_dependencies([count.assign_add(1)], tf.IndexedSlices(tf.ones([1, 2]), tf.constant([3])))
    session.run(count.initializer)
    assert value.op.name == "after" and session.run(value) == 7 and session.run(count) == 1
    assert session.run(rows.values).tolist() == [[1, 1]] and session.run(count) == 2


def test_names_and_tensors_of_graphs():
    assert ops.strip_name_scope("^a/b/c", "a/b") == "^c" and ops.strip_name_scope("loc:@a/b", "a") == "loc:@b"
    assert ops.prepend_name_scope("^c", "a") == "^a/c" and ops.prepend_name_scope("c", None) == "c"
    assert [t.op.name for t in ops.convert_n_to_tensor([1, 2.0], name="x")] == ["x_0", "x_1"]
    assert ops.internal_convert_to_tensor(1, preferred_dtype=tf.float32).dtype == tf.float32
    assert ops.convert_n_to_tensor_or_indexed_slices([None])[0] is None
    assert constant_op.is_constant(tf.constant(1)) and not constant_op.is_constant(tf.zeros([2]) + 1)
    assert sparse_tensor.is_sparse(tf.SparseTensor([[0]], [1], [1])) and not sparse_tensor.is_sparse(tf.constant(1))
    assert isinstance(init_ops.Zeros(), init_ops.Initializer) and init_ops._compute_fans([3, 3, 2, 5]) == (18, 45)


def test_helpers_of_recurrent_cells(session):
    cell = tf.nn.rnn_cell.GRUCell(3)
    assert cells._like_rnncell(cell) and not cells._like_rnncell(len)
    with pytest.raises(TypeError, match="The argument 'cell'"):
        cells.assert_like_rnncell("cell", 3)
    assert rnn._concat(2, [3, 4], static=True) == [2, 3, 4]
    assert session.run(cells._concat(tf.constant(2), [3])).tolist() == [2, 3]
    state = cells._zero_state_tensors((3, tf.TensorShape([2, 1])), tf.constant(5), tf.float32)
    assert [x.shape for x in session.run(state)] == [(5, 3), (5, 2, 1)]
    x = tf.zeros([2, 7, 3])
    assert rnn._transpose_batch_time(x).shape == [7, 2, 3] and rnn._best_effort_input_batch_size([x]) == 7
    assert rnn._infer_state_dtype(None, (x, x)) == tf.float32
    with pytest.raises(ValueError, match="dtype"):
        rnn._infer_state_dtype(None, (x, tf.constant(1)))


def test_metrics_of_programs_count_confusions(session):
    matrix, update = metrics_impl._streaming_confusion_matrix([0, 1, 1], tf.constant([0, 1, 0]), 2)
    session.run(tf.local_variables_initializer())
    session.run(update)
    session.run(update)
    assert session.run(matrix).tolist() == [[2, 0], [2, 2]]
    assert session.run(metrics_impl._safe_div([1.0, 2.0], [0.0, 4.0], "share")).tolist() == [0, 0.5]
    assert metrics_impl.metric_variable([2], tf.float32, name="seen") in tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)


def test_what_decorates_functions_and_modules():
    def known(a, b=1, *c, **d):
        return a
    assert util.tf_inspect.getargspec(known) == (["a", "b"], "c", "d", (1,)) and util.tf_inspect.isfunction(known)
    assert util.tf_export.tf_export("nn.known")(known) is known and util.all_util.remove_undocumented(__name__, []) is None
    assert "getcwd" in util.all_util.make_all("os")
    wrapped = util.tf_decorator.make_decorator(known, lambda *a: 2)
    assert wrapped.__name__ == "known" and util.tf_decorator.unwrap(wrapped)[1] is known
    with pytest.raises(TypeError, match="only takes keyword args"):
        util.keyword_args.keyword_args_only(known)(1)
    names: dict[str, types.ModuleType] = {}
    lazy = util.lazy_loader.LazyLoader("values", names, "colorsys")
    assert not names and lazy.rgb_to_hsv(0, 0, 0) == (0, 0, 0) and names["values"].__name__ == "colorsys"


def test_the_model_of_the_tutorial_learns(session):
    images = np.random.default_rng(1).normal(size=(4, mnist.IMAGE_PIXELS)).astype(np.float32)
    labels = tf.constant([0, 1, 2, 3])
    logits = mnist.inference(tf.constant(images), 8, 4)
    loss = mnist.loss(logits, labels)
    step, right = mnist.training(loss, 0.1), mnist.evaluation(logits, labels)
    session.run(tf.global_variables_initializer())
    before = session.run(loss)
    for _ in range(5):
        session.run(step)
    assert session.run(loss) < before and 0 <= session.run(right) <= 4
    assert [v.op.name for v in tf.trainable_variables()][:2] == ["hidden1/weights", "hidden1/biases"]
    assert len(tf.get_collection(tf.GraphKeys.SUMMARIES)) == 1


def test_sessions_around_sessions_that_programs_test_hooks_with(session):
    """As google/seq2seq tests its hooks and tensorpack calls some of a trainer's."""
    class Seen(tf.train.SessionRunHook):
        def __init__(self, stop=False):
            self.stop, self.results = stop, []

        def before_run(self, run_context):
            return tf.train.SessionRunArgs({"two": two}, feed_dict={fed: 5.0})

        def after_run(self, run_context, run_values):
            self.results.append(run_values.results)
            if self.stop:
                run_context.request_stop()
    fed, two = tf.placeholder(tf.float32), tf.constant(2.0)
    hook, last = Seen(), Seen(stop=True)
    hooked = monitored_session._HookedSession(session, [hook])
    assert hooked.run(fed + two) == 7 and hook.results == [{"two": 2}] and not hooked.should_stop()
    assert hooked.graph is tf.get_default_graph() and isinstance(hooked, monitored_session._WrappedSession)
    with pytest.raises(RuntimeError, match="Same tensor is fed"):
        hooked.run(fed, {fed: 1.0})
    ending = monitored_session._HookedSession(session, [last])
    ending.run([])
    assert ending.should_stop() and monitored_session._WrappedSession(ending).should_stop()
    with pytest.raises(RuntimeError, match="after should_stop"):
        ending.run(two)


def test_a_coordinator_stops_a_session_and_raises_what_a_thread_raised():
    coord = tf.train.Coordinator()
    with tf.Session() as inner:
        coordinated = monitored_session._CoordinatedSession(inner, coord)
        assert coordinated.run(tf.constant(1)) == 1 and not coordinated.should_stop()
        coord.request_stop(KeyError("a thread"))
        for raising in (coordinated.should_stop, coordinated.close):
            with pytest.raises(KeyError, match="a thread"):
                raising()
        assert coordinated._sess is None


def test_a_session_is_made_anew_after_a_loss():
    class Creator:
        made = 0

        def create_session(self):
            self.made += 1
            return tf.Session()
    creator, failed = Creator(), []

    class Failing(tf.train.SessionRunHook):
        def before_run(self, run_context):
            if not failed:
                failed.append(True)
                raise tf.errors.AbortedError(None, None, "lost")

    class Hooked(Creator):
        def create_session(self):
            return monitored_session._HookedSession(creator.create_session(), [Failing()])
    recoverable = monitored_session._RecoverableSession(Hooked())
    assert creator.made == 1 and recoverable.run(tf.constant(3)) == 3 and creator.made == 2
    assert not recoverable.should_stop()
    recoverable.close()
    assert recoverable.should_stop()


def test_small_things_of_many_modules(session):
    @ops.RegisterShape("Mine")
    def shape_of_mine(op):
        return common_shapes.unknown_shape(op)
    two = tf.constant([1, 2])
    assert shape_of_mine(two.op) == [None] and ops.set_shapes_for_outputs(two.op) is None
    assert tensor_util.TensorShapeProtoToList(tf.TensorShape([2, 3]).as_proto()) == [2, 3]
    v, w = tf.Variable([1.0, 2.0]), tf.Variable([0.0])
    starts = [state_ops.init_variable(v, tf.constant([3.0, 4.0])), state_ops.init_variable(w, tf.ones_initializer())]
    ready = tf.report_uninitialized_variables([v])
    assert session_manager._ready(ready, session, "not yet") == (False, "Variables not initialized: Variable")
    session.run(starts)
    assert session.run([v, w])[0].tolist() == [3, 4] and session.run(w).tolist() == [1]
    assert session_manager._ready(ready, session, "not yet") == session_manager._ready(None, session, "") == (True, None)
    assert init_ops._assert_float_dtype(tf.float16) == tf.float16
    with pytest.raises(ValueError, match="floating point type, got"):
        init_ops._assert_float_dtype(tf.int32)
    turn = device_setter._RoundRobinStrategy(2)
    assert [turn(v.op) for _ in range(3)] == [0, 1, 0]
    assert base._Layer is tf.layers.Layer and "tf_random_seed" in run_config._DEFAULT_UID_WHITE_LIST
    assert flags.BooleanParser().Parse("True") is True and flags.BooleanParser().parse("0") is False
    with pytest.raises(ValueError, match="Non-boolean"):
        flags.BooleanParser().Parse("maybe")


def test_private_names_of_graphs_that_programs_borrow(session):
    x, unknown = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32)
    assert x._shape_as_list() == [None, 3] and unknown._shape_as_list() is None
    assert [x, unknown] == [op.outputs[0] for op in sorted((unknown.op, x.op), key=lambda op: op._id)]
    v = tf.Variable([1.0, 2.0])
    session.run(v.initializer)
    assert session.run(tf.assign_add(v._ref(), [1.0, 1.0])).tolist() == session.run(v._ref()).tolist() == [2, 3]
    optimizer = tf.contrib.opt.NadamOptimizer(beta1=0.5)
    optimizer.minimize(tf.reduce_sum(v))
    session.run(tf.global_variables_initializer())
    assert session.run(optimizer._get_beta_accumulators()) == pytest.approx((0.5, 0.999))


def test_weights_are_brought_to_the_shape_of_values(session):
    values, shown = tf.ones([2, 3]), tf.placeholder(tf.float32)
    assert session.run(weights_broadcast_ops.broadcast_weights([[1], [2]], values)).tolist() == [[1] * 3, [2] * 3]
    late = weights_broadcast_ops.broadcast_weights(shown, values)
    assert session.run(late, {shown: 4.0}).tolist() == [[4] * 3] * 2
    check = weights_broadcast_ops.assert_broadcastable(shown, values)
    assert isinstance(check, tf.Operation) and session.run(check, {shown: [[1.0, 2.0, 3.0]]}) is None
    for step in (check, late):
        with pytest.raises(tf.errors.InvalidArgumentError, match="weights can not be broadcast to values"):
            session.run(step, {shown: [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match="weights can not be broadcast to values"):
        weights_broadcast_ops.assert_broadcastable(tf.ones([3]), values)


def test_tables_of_words_of_the_inner_module_take_a_list(session):
    words = tf.constant(["a", "b"])
    places = lookup_ops.index_table_from_tensor(vocabulary_list=words, default_value=7).lookup(tf.constant(["b", "x"]))
    names = lookup_ops.index_to_string_table_from_tensor(vocabulary_list=words).lookup(tf.constant([1, 5], tf.int64))
    session.run(tf.tables_initializer())
    assert session.run(places).tolist() == [1, 7] and session.run(names).tolist() == [b"b", b"UNK"]


def test_flags_are_forgotten_as_tests_of_programs_do():
    tf.flags.DEFINE_integer("kept_no_longer", 3, "")
    found = tf.app.flags._FlagValues()
    assert "kept_no_longer" not in found and found is tf.flags.FLAGS
    tf.flags.DEFINE_integer("known_again", 4, "")
    assert found(["program", "--known_again=5"]) == ["program"] and tf.flags.FLAGS.known_again == 5
    tf.app.flags._FlagValues()


def test_rows_are_added_to_a_tensor_that_stays(session):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    rows = tf.constant([[10.0, 20.0], [30.0, 40.0], [0.5, 0.5]])
    y = array_ops.scatter_nd_non_aliasing_add(x, [[2], [0], [2]], rows)
    slopes = tf.gradients(y * [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [x, rows])
    found = session.run([y, x, *slopes])
    assert found[0].tolist() == [[31, 42], [3, 4], [15.5, 26.5]] and found[1].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert found[2].tolist() == [[1, 2], [3, 4], [5, 6]] and found[3].tolist() == [[5, 6], [1, 2], [5, 6]]


def test_where_an_iterator_is_goes_to_a_file_and_back(session, tmp_path):
    path = str(tmp_path / "place")

    def numbers(once):
        data = tf.data.Dataset.range(2, 9).map(lambda v: v * v)
        iterator = data.make_one_shot_iterator() if once else data.make_initializable_iterator()
        handle = iterator._iterator_resource
        return (iterator, iterator.get_next(), gen_dataset_ops.save_iterator(handle, path),
                gen_dataset_ops.restore_iterator(handle, path))
    iterator, element, save, restore = numbers(False)
    with pytest.raises(tf.errors.FailedPreconditionError, match="was not initialised"):
        session.run(save)
    session.run(iterator.initializer)
    assert [session.run(element) for _ in range(3)] == [4, 9, 16]
    session.run(save)
    assert session.run(element) == 25
    session.run(restore)
    assert session.run(element) == 25
    for once in (False, True):
        _, element, _, restore = numbers(once)
        session.run(restore)
        assert [session.run(element) for _ in range(4)] == [25, 36, 49, 64]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(element)


def test_sessions_fetch_and_feed_objects_of_a_registered_class(session):
    class Doubled:
        def __init__(self, x):
            self.x = x

    client.session.register_session_run_conversion_functions(
        Doubled, lambda one: ([one.x, one.x + 1.0], sum), lambda one, value: [(one.x, np.multiply(value, 10.0))])
    one = Doubled(tf.placeholder_with_default(2.0, []))
    assert session.run(one) == 5 and session.run({"a": [one, one.x]}) == {"a": [5, 2]}
    assert session.run([one, one.x], {one: 3.0}) == [61, 30]
    with pytest.raises(ValueError, match="has already been registered"):
        client.session.register_session_run_conversion_functions(Doubled, lambda one: ([one.x], sum))


def test_a_scope_of_variables_alone_leaves_the_names_of_operations(session):
    with tf.variable_scope("s") as scope, tf.name_scope("inside"):
        first = tf.get_variable("v", [])
    with variable_scope._pure_variable_scope(scope, reuse=True) as again:
        assert tf.get_variable("v", []) is first and tf.constant(1, name="c").op.name == "c"
        assert again.name == "s" and again.original_name_scope == "s/"
    with variable_scope._pure_variable_scope("t", old_name_scope="told/") as new:
        assert tf.get_variable("v", []).op.name == "t/v" and new.original_name_scope == "told/"
    with tf.variable_scope("t"):
        assert tf.get_variable("w", []).op.name == "t/w"


def test_tensors_of_checkpoints_are_read_in_the_step(session, tmp_path):
    rows = tf.Variable(np.arange(12.0).reshape(4, 3), dtype=tf.float32, name="rows")
    session.run(rows.initializer)
    saver = tf.train.Saver({"held": rows})
    path = saver.save(session, str(tmp_path / "model"))
    assert saver._var_list == {"held": rows}
    whole, part = io_ops.restore_v2(path, ["held", "held"], ["", "4 3 1,2:-"], [tf.float32, tf.float32])
    assert session.run(whole).shape == (4, 3) and part.shape == [2, 3]
    assert session.run(part).tolist() == [[3, 4, 5], [6, 7, 8]]


def test_libraries_give_the_operators_of_tensors_to_classes_of_their_own(session):
    assert {"__add__", "__rmul__", "__getitem__", "__neg__", "__lt__", "__matmul__"} <= tf.Tensor.OVERLOADABLE_OPERATORS
    assert all(callable(getattr(tf.Tensor, name)) for name in tf.Tensor.OVERLOADABLE_OPERATORS)
    assert session.run(tf.Tensor.__radd__(tf.constant(1), 2)) == 3
