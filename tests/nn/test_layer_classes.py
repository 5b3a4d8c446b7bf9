"""Layers as objects, layers of volumes and separable convolutions: values, variables that are shared, errors."""
from __future__ import annotations

import copy

import numpy as np
import pytest

import workbench as wb
from tests.running import run
from workbench import errors
from workbench.core.graph.build import ops
from workbench.nn import layer_classes, layers, layers_1d, layers_3d

pytestmark = pytest.mark.usefixtures("graph")
SEED = 5
X = np.random.default_rng(3).normal(size=(2, 5, 6, 3)).astype(np.float32)
V = np.random.default_rng(4).normal(size=(1, 4, 4, 4, 2)).astype(np.float32)


def names(variables):
    return [v.name for v in variables]


def test_a_layer_has_the_variables_of_its_first_call():
    layer = layer_classes.Dense(4, activation=wb.nn.relu, name="hidden", bias_initializer=wb.ones_initializer())
    first = layer(X[0, 0])
    with wb.variable_scope("elsewhere"):
        second = layer.apply(X[0, 1])
    assert names(layer.variables) == ["hidden/kernel:0", "hidden/bias:0"] == names(wb.trainable_variables())
    assert (layer.name, layer.scope_name, layer.built, layer.units, layer.count_params()) == ("hidden", "hidden", True, 4, 16)
    a, b, k = run([first, second, layer.weights[0]])
    np.testing.assert_allclose(a, np.maximum(X[0, 0] @ k + 1, 0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(b, np.maximum(X[0, 1] @ k + 1, 0), rtol=1e-4, atol=1e-5)


def test_layers_without_names_get_their_own():
    made = [layer_classes.Dense(2), layer_classes.Dense(2), layer_classes.Conv2D(2, 3)]
    for layer, x in zip(made, (X[0, 0], X[0, 0], X)):
        layer(x)
    assert [m.name for m in made] == ["dense_1", "dense_2", "conv2d_1"]      # as TensorFlow counts
    assert [m.scope_name for m in made] == ["dense", "dense_1", "conv2d"]


def test_layers_of_one_name_have_scopes_of_their_own():
    made = [layer_classes.Dense(2, name="d") for _ in range(2)]
    for layer in made:
        layer(X[0, 0])
    assert [m.name for m in made] == ["d", "d"] and [m.scope_name for m in made] == ["d", "d_1"]
    own = [Scaled(name="own") for _ in range(2)]
    assert [layer(X[0, 0]).op.name for layer in own] == ["own/multiply", "own_1/multiply"]
    assert own[0](X[0, 0]).op.name == "own/multiply_1" and own[0].scope_name == "own"


def test_the_parts_of_a_layer():
    layer = layer_classes.Dense(3, use_bias=False)
    with pytest.raises(errors.InvalidArgumentError, match="dense_1: count_params was asked before the variables were made"):
        layer.count_params()
    with pytest.raises(AttributeError, match="Dense: it has no 'kernel'; its variables are made by its first call"):
        _ = layer.kernel
    layer.build([None, 4])
    assert layer.kernel is layer.variables[0] and layer.bias is None and layer.count_params() == 12
    assert layer.activation is None and layer.kernel_regularizer is None and layer.trainable
    fixed = layer_classes.Dense(3, trainable=False)
    fixed(X[0, 0])
    assert fixed.trainable_variables == [] and fixed.non_trainable_variables == [fixed.kernel, fixed.bias]


def test_what_went_through_a_layer():
    layer, x, y = layer_classes.Dense(3), layer_classes.Input([4]), layer_classes.Input([4])
    with pytest.raises(AttributeError, match="it was called 0 times, so that its input is not one"):
        _ = layer.input
    out = layer(x)
    assert (layer.input, layer.output, layer.input_shape, layer.output_shape) == (x, out, (None, 4), (None, 3))
    assert layer.get_output_at(0) is out and layer(y) is layer.get_output_at(1) and layer.get_input_at(1) is y
    assert layer.get_input_shape_at(0) == (None, 4) == layer.input_shape and layer.get_output_shape_at(1) == (None, 3)
    with pytest.raises(AttributeError, match="it was called 2 times"):
        _ = layer.output
    with pytest.raises(errors.InvalidArgumentError, match="call 2 is asked for but there were 2"):
        layer.get_input_at(2)
    layer.add_update("update", inputs=x)
    layer.add_loss(["loss"])
    assert layer.get_updates_for(x) == ["update"] == layer.updates and layer.get_updates_for(None) == []
    assert layer.get_losses_for(None) == ["loss"] == wb.get_collection("regularization_losses")


class Pair(layer_classes.Layer):
    def call(self, inputs, scope=None):
        return None if inputs["a"].dtype == wb.int32 else {"sum": inputs["a"] + inputs["b"], "scope": scope.name}


def test_layers_of_dictionaries_and_copies():
    layer = Pair(name="pair")
    found = layer({"a": 1.0, "b": 2.0})
    assert run([found["sum"]]) == [3.0] and found["scope"] == "pair"
    made = copy.deepcopy(layer)
    assert (made.name, made.scope_name, made.graph) == ("pair", "pair", wb.get_default_graph())
    with pytest.raises(errors.InvalidArgumentError, match="call returned None; a layer's `call` method should return a Tensor"):
        layer({"a": 1, "b": 2})
    with wb.Graph().as_default(), pytest.raises(errors.InvalidArgumentError, match="default graph are not the same"):
        layer({"a": 1.0, "b": 2.0})


@pytest.mark.parametrize(("spec", "good", "bad", "text"), [
    ({"ndim": 2}, [[1.0]], [1.0], "expected ndim=2, found ndim=1"),
    ({"min_ndim": 2}, [[[1.0]]], [1.0], "expected min_ndim=2, found ndim=1"),
    ({"max_ndim": 2}, [1.0], [[[1.0]]], "expected max_ndim=2, found ndim=3"),
    ({"dtype": "float32"}, 1.0, 1, "expected dtype=float32, found dtype=int32"),
    ({"axes": {-1: 2}}, [[1, 2]], [1, 2, 3], "expected axis -1 to have 2 elements"),
    ({"shape": (None, 3)}, [[1, 2, 3]], [[1, 2]], r"expected shape=\(None, 3\)"),
])
def test_inputs_are_what_a_layer_says(spec, good, bad, text):
    layer = Same()
    layer.input_spec = layer_classes.InputSpec(**spec)
    layer(wb.constant(good))
    with pytest.raises(errors.InvalidArgumentError, match=text):
        layer(wb.constant(bad))
    if "ndim" in next(iter(spec)):
        with pytest.raises(errors.InvalidArgumentError, match="the layer requires a defined rank"):
            layer(ops.placeholder("float32", None))


class Same(layer_classes.Layer):
    def call(self, inputs):
        return inputs


def test_normalization_and_dropout_are_told_when_they_train():
    norm, drop = layer_classes.BatchNormalization(momentum=0.9), layer_classes.Dropout(0.5, seed=1)
    trained, kept = norm(X, training=True), drop(X)
    assert names(norm.trainable_variables) == ["batch_normalization/gamma:0", "batch_normalization/beta:0"]
    assert len(norm.non_trainable_variables) == 2 == len(norm.updates) and drop.variables == []
    a, b, c = run([trained, kept, drop(X, training=True)])
    np.testing.assert_allclose(a.mean((0, 1, 2)), 0, atol=1e-5)
    np.testing.assert_array_equal(b, X)
    assert 0.3 < (c == 0).mean() < 0.7


@pytest.mark.parametrize(("kind", "function", "arguments", "x"), [
    ("Conv1D", layers_1d.conv1d, (4, 3), X[:, 0]), ("Conv2D", layers.conv2d, (4, 3, 2, "same"), X),
    ("Conv2DTranspose", layers.conv2d_transpose, (4, 3, 2), X), ("Conv3D", layers_3d.conv3d, (3, 2), V),
    ("Conv3DTranspose", layers_3d.conv3d_transpose, (3, 2, 2, "same"), V),
    ("SeparableConv2D", layers_3d.separable_conv2d, (4, 3), X), ("MaxPooling1D", layers_1d.max_pooling1d, (2, 2), X[:, 0]),
    ("AveragePooling1D", layers_1d.average_pooling1d, (2, 2), X[:, 0]), ("MaxPooling2D", layers.max_pooling2d, (2, 2), X),
    ("AveragePooling2D", layers.average_pooling2d, (2, 2), X), ("MaxPooling3D", layers_3d.max_pooling3d, (2, 2), V),
    ("AveragePooling3D", layers_3d.average_pooling3d, (2, 2), V), ("Flatten", layers.flatten, (), X),
])
def test_classes_do_what_their_functions_do(kind, function, arguments, x):
    layer = getattr(layer_classes, kind)(*arguments)
    one = layer(x)
    values = {v.op.name.rpartition("/")[2]: v for v in layer.variables}
    with wb.variable_scope("other", custom_getter=lambda getter, name, *a, **k: values[name.rpartition("/")[2]]):
        other = function(x, *arguments)
    a, b, again = run([one, other, layer(x)])
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(a, again)
    assert len(layer.variables) == len(wb.global_variables())


def test_volumes_against_numpy_in_both_formats():
    y = layers_3d.conv3d(V, 3, (2, 1, 2), kernel_regularizer=wb.layers.l2_regularizer(0.1), name="a")
    with wb.variable_scope("", reuse=True):
        turned = layers_3d.conv3d(V.transpose(0, 4, 1, 2, 3), 3, (2, 1, 2), data_format="channels_first", name="a")
    most, mean = layers_3d.max_pooling3d(V, 2, 2), layers_3d.average_pooling3d(V, 2, 2)
    found, other, k, m, e = run([y, turned, wb.trainable_variables()[0], most, mean])
    expected = np.zeros((1, 3, 4, 3, 3))
    for i in range(2):
        for j in range(2):
            expected += V[:, i:i + 3, :, j:j + 3] @ k[i, 0, j]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(other.transpose(0, 2, 3, 4, 1), found, rtol=1e-4, atol=1e-5)
    parts = V.reshape(1, 2, 2, 2, 2, 2, 2, 2)
    np.testing.assert_array_equal(m, parts.max((2, 4, 6)))
    np.testing.assert_allclose(e, parts.mean((2, 4, 6)), rtol=1e-5, atol=1e-6)
    assert len(wb.get_collection(wb.GraphKeys.REGULARIZATION_LOSSES)) == 1


def test_constraints_and_regularizers_reach_the_variables():
    def floor(value):
        return ops.maximum(value, 0.0)
    layers.dense(X[0, 0], 2, kernel_constraint=floor, bias_constraint=floor)
    layers.conv2d_transpose(X.transpose(0, 3, 1, 2), 2, 3, data_format="channels_first", kernel_constraint=floor,
                            bias_regularizer=wb.layers.l1_regularizer(0.1))
    layers.batch_normalization(X, gamma_constraint=floor, beta_regularizer=wb.layers.l2_regularizer(0.1))
    assert [v.constraint is floor for v in wb.trainable_variables()] == [True, True, True, False, True, False]
    assert len(wb.get_collection(wb.GraphKeys.REGULARIZATION_LOSSES)) == 2
    with pytest.raises(errors.InvalidArgumentError, match=r"renorm_clipping: it contains keys not in .*'most'"):
        layers.batch_normalization(X, renorm=True, renorm_clipping={"most": 3.0})


class Scaled(layer_classes.Layer):
    def build(self, input_shape):
        self.factor = self.add_variable("factor", [input_shape[-1].value], initializer=wb.constant_initializer(2.0))

    def call(self, inputs):
        return inputs * self.factor


def test_layers_of_ones_own():
    layer = Scaled(activity_regularizer=lambda y: ops.reduce_sum(y, name="activity"))
    results = [layer(X[0, 0]), layer(X[0, 1])]
    assert names(layer.variables) == ["scaled/factor:0"] and len(layer.losses) == 2 and layer.get_output_at(1) is results[1]
    for found, x in zip(run(results), X[0]):
        np.testing.assert_array_equal(found, 2 * x)
    with pytest.raises(errors.UnimplementedError, match=r"Layer: it has no call\(inputs\); define it"):
        layer_classes.Layer()(X)
    with pytest.raises(errors.FailedPreconditionError, match="Scaled: it has no scope before its first call; call it"):
        _ = Scaled().scope_name


def test_inputs_are_placeholders():
    x = layer_classes.Input([3], batch_size=2, name="x")
    assert (x.name, x.shape, layer_classes.Input(tensor=x)) == ("x:0", [2, 3], x)
    assert layer_classes.InputSpec(shape=[None, 3]).ndim == 2
    with pytest.raises(errors.InvalidArgumentError, match="neither shape nor tensor is given; pass one"):
        layer_classes.Input()
    with pytest.raises(errors.UnimplementedError, match="sparse=True is not offered"):
        layer_classes.Input([1], sparse=True)


@pytest.mark.parametrize(("make", "text"), [
    (lambda: layers_3d.conv3d(X, 2, 2), "volumes have rank 5: reshape it"),
    (lambda: layers_3d.max_pooling3d(V, (2, 2), 2), "(2, 2) has 2 numbers; give one, or depth, height and width"),
    (lambda: layers_3d.conv3d(ops.placeholder("float32", [1, 2, 2, 2, None]), 2, 2),
     "The channel dimension of the inputs should be defined. Found `None`."),
])
def test_what_is_no_volume_is_refused(make, text):
    with pytest.raises(errors.InvalidArgumentError) as caught:
        make()
    assert text in str(caught.value)


def test_a_layer_without_variables_takes_the_scope_that_it_is_called_in():
    """As tensorpack calls all its layers."""
    with wb.Graph().as_default(), wb.variable_scope("pool0"):
        x = wb.ones([1, 4, 4, 2])
        found = layer_classes.MaxPooling2D(2, 2).apply(x, scope=wb.get_variable_scope())
        assert found.shape.as_list() == [1, 2, 2, 2] and found.op.name.startswith("pool0/")
        assert layer_classes.Flatten()(found, scope=wb.get_variable_scope()).shape.as_list() == [1, 8]


def test_a_layer_has_its_variables_by_the_names_it_asked_for_where_a_getter_renames_them():
    """As tensorpack names the variables of tf.layers."""
    def renamed(getter, name, shape=None, dtype=None, initializer=None, regularizer=None, reuse=None, trainable=True,
                collections=None, caching_device=None, partitioner=None, validate_shape=True, use_resource=None):
        head, _, last = name.rpartition("/")
        return getter(f"{head}/{ {'kernel': 'W', 'moving_mean': 'mean/EMA'}.get(last, last)}", shape=shape, dtype=dtype,
                      initializer=initializer, reuse=reuse, trainable=trainable)

    with wb.variable_scope("net", custom_getter=renamed):
        layer, norm = layer_classes.Dense(3, use_bias=False, name="fc"), layer_classes.BatchNormalization(name="bn")
        results = [layer(X[0, 0]), layer(X[0, 1])]
        norm(results[0])
    assert layer.kernel.name == "net/fc/W:0" and norm.moving_mean.name == "net/bn/mean/EMA:0" and layer.bias is None
    assert names(layer.variables) == ["net/fc/W:0"] and wb.get_variable_scope().custom_getter is None
    *found, kernel = run([*results, layer.kernel])
    np.testing.assert_allclose(found, [x @ kernel for x in X[0, :2]], rtol=1e-5)
def test_variables_that_a_getter_renames_are_found_by_the_names_of_the_layer():
    """As tensorpack's layers, which call their variables W and b."""
    def renamed(getter, name, *args, **kwargs):
        scope, _, leaf = name.rpartition("/")
        return getter(f"{scope}/{({'kernel': 'W', 'bias': 'b'}).get(leaf, leaf)}", *args, **kwargs)

    with wb.Graph().as_default():
        x = wb.ones([1, 2])
        with wb.variable_scope("fc0"), wb.variable_scope(wb.get_variable_scope(), custom_getter=renamed):
            here = layer_classes.Dense(3)
            here.apply(x, scope=wb.get_variable_scope())
            named = layer_classes.Dense(2, use_bias=False, name="own")
            named(x)
            before = wb.get_variable_scope().custom_getter
        named(x)
        assert (here.kernel.op.name, here.bias.op.name) == ("fc0/W", "fc0/b")
        assert named.kernel.op.name == "fc0/own/W" and named.bias is None and len(wb.global_variables()) == 3
        assert before is renamed
        doubled = layer_classes.Dense(1)
        with wb.variable_scope("d", custom_getter=lambda getter, *args, **kwargs: 2.0 * getter(*args, **kwargs)):
            doubled(x)
        assert doubled.kernel.shape.as_list() == [2, 1] and isinstance(doubled.kernel, wb.Tensor)   # what the getter gave
