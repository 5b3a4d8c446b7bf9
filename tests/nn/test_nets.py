"""slim's nets: parameters as published, names of end points, nets that see every place, and wrong sizes."""
from __future__ import annotations

import numpy as np
import pytest
from workbench.tf1.contrib import slim
from workbench.tf1.contrib.slim.python.slim.nets import inception_v3 as module_of_v3

import workbench.tf1 as tf
from workbench import errors

pytestmark = pytest.mark.usefixtures("graph")
GRAPH = tf.Graph
NETS = slim.nets
V1, V2 = NETS.resnet_v1, NETS.resnet_v2


def images(side: int, batch: int = 2):
    return tf.placeholder(tf.float32, [batch, side, side, 3])


def numbers() -> int:
    """Trained numbers and averages of the graph's model."""
    return sum(variable.shape.num_elements() for variable in slim.get_model_variables())


@pytest.mark.parametrize(("net", "side", "count", "points"), [
    (NETS.alexnet.alexnet_v2, 224, 50_303_912, 11), (NETS.overfeat.overfeat, 231, 145_704_424, 11),
    (NETS.vgg.vgg_a, 224, 132_863_336, 16), (NETS.vgg.vgg_16, 224, 138_357_544, 21), (NETS.vgg.vgg_19, 224, 143_667_240, 24)])
def test_a_chain_of_layers_has_the_parameters_of_its_paper(net, side: int, count: int, points: int):
    logits, found = net(images(side))
    assert logits.shape.as_list() == [2, 1000] and logits.op.name == f"{net.__name__}/fc8/squeezed"
    assert numbers() == count and len(found) == points
    assert found[f"{net.__name__}/fc8"] is logits


def test_a_chain_of_layers_gives_a_map_of_logits_of_larger_images():
    logits, found = NETS.vgg.vgg_a(images(256, 1), 10, spatial_squeeze=False)
    assert logits.shape.as_list() == [1, 2, 2, 10]
    assert found["vgg_a/conv5/conv5_2"].shape.as_list() == [1, 16, 16, 512]


@pytest.mark.parametrize(("base", "scope", "side", "count", "last"), [
    (NETS.inception.inception_v1_base, NETS.inception.inception_v1_arg_scope, 224, 5_607_184, [2, 7, 7, 1024]),
    (NETS.inception.inception_v2_base, NETS.inception.inception_v2_arg_scope, 224, 10_173_112, [2, 7, 7, 1024]),
    (NETS.inception.inception_v3_base, NETS.inception.inception_v3_arg_scope, 299, 21_802_784, [2, 8, 8, 2048])])
def test_inception_nets_have_their_published_parameters(base, scope, side: int, count: int, last: list[int]):
    with slim.arg_scope(scope()):
        net, _ = base(images(side))
    assert net.shape.as_list() == last
    averages = sum(v.shape.num_elements() for v in tf.get_collection("moving_vars"))
    assert averages > 0 and numbers() == count
    assert tf.losses.get_regularization_losses()


def test_an_inception_net_ends_where_it_is_told_and_has_fewer_filters_where_asked():
    thin, found = module_of_v3.inception_v3_base(images(299), "Mixed_5c", min_depth=4, depth_multiplier=0.5)
    assert thin.shape.as_list() == [2, 35, 35, 144] and list(found)[-1] == "Mixed_5c"
    assert [v.op.name for v in slim.get_variables("InceptionV3/Mixed_5c/Branch_1", "weights")] == [
        f"InceptionV3/Mixed_5c/Branch_1/{name}/weights" for name in ("Conv2d_0b_1x1", "Conv_1_0c_5x5")]
    with pytest.raises(ValueError, match="Unknown final endpoint Mixed_9z; the end points are Conv2d_1a_3x3"):
        NETS.inception.inception_v3_base(images(299), "Mixed_9z", scope="other")
    with pytest.raises(ValueError, match=r"depth_multiplier is not greater than zero.; it is -1"):
        NETS.inception.inception_v2(images(224), depth_multiplier=-1)


def test_an_inception_net_classifies_and_has_a_second_loss_in_its_middle():
    logits, found = NETS.inception.inception_v3(images(299), 7, is_training=False)
    assert logits.op.name == "InceptionV3/Logits/SpatialSqueeze"
    assert [found[name].shape.as_list() for name in ("AuxLogits", "Logits", "Predictions", "PreLogits")] == [
        [2, 7], [2, 7], [2, 7], [2, 1, 1, 2048]]


@pytest.mark.parametrize(("net", "count"), [(V1.resnet_v1_50, 25_530_472), (V2.resnet_v2_50, 25_575_976)])
def test_residual_nets_have_their_parameters(net, count: int):
    with slim.arg_scope(V1.resnet_arg_scope()):
        logits, found = net(images(224), 1000)
    assert logits.shape.as_list() == [2, 1, 1, 1000] and numbers() > count
    trained = sum(v.shape.num_elements() for v in tf.trainable_variables())
    averages = sum(v.shape.num_elements() for v in slim.get_variables(suffix="moving_mean"))
    assert numbers() - trained == 2 * averages
    name = net.__name__
    assert found[f"{name}/block4"].shape.as_list() == [2, 7, 7, 2048]
    assert f"{name}/block1/unit_1/bottleneck_v{name[8]}/shortcut" in found


def small(version: int, inputs, **options):
    module = (V1, V2)[version - 1]
    unit = getattr(module, f"resnet_v{version}_block")
    blocks = [unit(f"block{n}", 1, 2, stride) for n, stride in ((1, 2), (2, 2), (3, 1))]
    with slim.arg_scope(NETS.resnet_utils.resnet_arg_scope()):
        return getattr(module, f"resnet_v{version}")(inputs, blocks, None, False, False, include_root_block=False,
                                                     scope="net", **options)[0]


@pytest.mark.parametrize("version", [1, 2])
def test_a_residual_net_sees_between_its_strides(version: int):
    """Filters with holes give at each place what strides give at every fourth."""
    inputs = tf.constant(np.random.default_rng(7).standard_normal((1, 17, 17, 3)), tf.float32)
    every = small(version, inputs, output_stride=1)
    some = small(version, inputs, reuse=True)
    assert every.shape.as_list() == [1, 17, 17, 4] and some.shape.as_list() == [1, 5, 5, 4]
    tf.set_random_seed(5)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        dense, sparse = session.run([every, some])
    np.testing.assert_allclose(dense[:, ::4, ::4], sparse, rtol=1e-4, atol=1e-5)


def test_strides_that_a_residual_net_does_not_reach_are_refused():
    with pytest.raises(errors.InvalidArgumentError, match="output_stride 3 cannot be reached"):
        small(1, tf.zeros([1, 9, 9, 3]), output_stride=3)
    with pytest.raises(ValueError, match="needs to be a multiple of 4"):
        V1.resnet_v1_50(tf.zeros([1, 32, 32, 3]), output_stride=6)


def test_a_net_of_slim_trains():
    labels = tf.constant([0, 1])
    with slim.arg_scope(NETS.vgg.vgg_arg_scope()):
        logits, _ = NETS.alexnet.alexnet_v2(tf.random_uniform([2, 224, 224, 3], seed=2), 2, scope="net")
    tf.losses.sparse_softmax_cross_entropy(labels, logits)
    gradients = tf.gradients(tf.losses.get_total_loss(), tf.trainable_variables())
    assert len(gradients) == 16 and all(gradient is not None for gradient in gradients)


def test_images_of_unknown_size_keep_the_size_of_their_batch():
    net, _ = NETS.inception.inception_v2_base(tf.placeholder(tf.float32, [2, None, None, 3]), "Mixed_3b")
    assert net.shape.as_list() == [2, None, None, 256]
    pixels, filters = tf.placeholder(tf.float32, [2, 3, None, None]), tf.zeros([3, 3, 3, 2])
    filtered = tf.nn.depthwise_conv2d(pixels, filters, [1, 1, 1, 1], "SAME", data_format="NCHW")
    assert filtered.shape.as_list() == [2, 6, None, None]
