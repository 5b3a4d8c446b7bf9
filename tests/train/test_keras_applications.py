"""Well-known nets as Keras models: sizes and names, weights in files, images and classes; what is refused."""
from __future__ import annotations

import json

import numpy as np
import pytest

import workbench.tf1 as tf
from workbench.settings import settings

pytestmark = pytest.mark.usefixtures("graph")
K = tf.keras
SIZES = {      # name -> parameters with the top and without, features, names of layers that programs look for
    "VGG16": (138_357_544, 14_714_688, 512, "block1_conv1 block5_pool fc2 predictions"),
    "VGG19": (143_667_240, 20_024_384, 512, "block3_conv4 block5_conv4 flatten fc1"),
    "ResNet50": (25_636_712, 23_587_712, 2048, "conv1 bn_conv1 res2a_branch1 bn5c_branch2c avg_pool fc1000"),
    "InceptionV3": (23_851_784, 21_802_784, 2048, "mixed0 mixed9_1 mixed10 predictions"),
    "Xception": (22_910_480, 20_861_480, 2048, "block1_conv2_act block4_pool block13_sepconv2_bn block14_sepconv2_act"),
    "MobileNet": (4_253_864, 3_228_864, 1024, "conv1_relu conv_dw_13_bn conv_pw_1 reshape_1 act_softmax")}


@pytest.mark.parametrize("name", SIZES)
def test_nets_have_the_sizes_and_names_that_are_known(name):
    whole, features, width, names = SIZES[name]
    make = getattr(K.applications, name)
    model = make(weights=None)
    assert model.output_shape == (None, 1000) and model.count_params() == whole
    assert {layer.name for layer in model.layers} >= {*names.split()}
    model = make(weights=None, include_top=False)
    assert model.output_shape == (None, None, None, width) and model.count_params() == features
    assert make(weights=None, include_top=False, input_shape=(224, 224, 3), pooling="max").output_shape == (None, width)
    assert getattr(K.applications, name.lower() if name != "InceptionV3" else "inception_v3").preprocess_input is not None


def test_the_layers_of_a_block_stand_in_the_order_of_the_files_of_weights():
    found = [layer.name for layer in K.applications.ResNet50(weights=None).layers if layer.name.startswith(("res", "bn"))]
    assert found[1:10] == ["res2a_branch2a", "bn2a_branch2a", "res2a_branch2b", "bn2a_branch2b", "res2a_branch2c",
                           "res2a_branch1", "bn2a_branch2c", "bn2a_branch1", "res2b_branch2a"]


def test_a_net_trains_its_own_classes_and_goes_to_a_file_and_back(tmp_path):
    def small(weights):
        return K.applications.MobileNet((32, 32, 3), alpha=0.25, weights=weights, classes=3)
    model, x = small(None), np.random.default_rng(1).uniform(-1, 1, (6, 32, 32, 3)).astype("f")
    model.compile("sgd", "categorical_crossentropy")
    before = model.get_weights()
    model.fit(x, np.eye(3)[[0, 1, 2, 0, 1, 2]], verbose=0)
    assert any((a != b).any() for a, b in zip(before, model.get_weights()))
    model.save_weights(tmp_path / "net.npz")
    again = small(str(tmp_path / "net.npz"))
    np.testing.assert_allclose(again.predict(x), model.predict(x), rtol=1e-5)
    np.testing.assert_allclose(model.predict(x).sum(1), 1, rtol=1e-5)


def test_weights_of_imagenet_are_a_file_that_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "data", tmp_path)
    with pytest.raises(tf.errors.UnavailableError, match=r"mobilenet_2_5_128_tf_no_top.h5 is not in .*put it there, or pass"):
        K.applications.MobileNet((128, 128, 3), alpha=0.25, include_top=False)
    monkeypatch.setattr(settings, "data", tmp_path / "none")
    model = K.applications.MobileNet((128, 128, 3), alpha=0.25, include_top=False, weights=None)
    settings.data = tmp_path
    with (tmp_path / "mobilenet_2_5_128_tf_no_top.h5").open("wb") as file:      # our own kind of file is told by what is in it
        np.savez(file, **{f"{place}/{number}/{layer.name}": array + 1.0 for place, layer in enumerate(model.layers)
                          for number, array in enumerate(layer.get_weights())})
    found = K.applications.MobileNet((128, 128, 3), alpha=0.25, include_top=False)
    for mine, given in zip(found.get_weights(), model.get_weights()):
        np.testing.assert_array_equal(mine, given + 1.0)


def test_a_net_begins_with_a_tensor_of_the_program():
    images = tf.placeholder(tf.float32, [None, 64, 64, 3])
    model = K.applications.VGG16(weights=None, include_top=False, input_tensor=images)
    assert model.output_shape == (None, 2, 2, 512)
    asked = K.Input((64, 64, 1))
    assert K.applications.VGG16(weights=None, include_top=False, input_tensor=asked).inputs == [asked]


def test_depthwise_convolutions_with_channels_first_and_last():
    x = np.random.default_rng(2).normal(size=(2, 5, 6, 3)).astype("f")
    make = K.applications.mobilenet.DepthwiseConv2D
    last, first = make((3, 2), 2, "same", depth_multiplier=2), make((3, 2), 2, "same", 2, data_format="channels_first")
    a, b = K.Input((5, 6, 3)), K.Input((3, 5, 6))
    models = K.Model(a, last(a)), K.Model(b, first(b))
    models[1].set_weights(models[0].get_weights())
    y = models[0].predict(x)
    assert y.shape == (2, 3, 3, 6)
    np.testing.assert_allclose(models[1].predict(x.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1), y, rtol=1e-5, atol=1e-6)
    again = make.from_config(last.get_config())
    assert (again.kernel_size, again.strides, again.padding, again.depth_multiplier) == ((3, 2), (2, 2), "same", 2)
    with pytest.raises(ValueError, match="should have rank 4 and defined channels"):
        make(3)(K.Input((None, None, None)))


def test_images_are_prepared_and_classes_read(tmp_path, monkeypatch):
    x = np.full((1, 2, 2, 3), [10.0, 20.0, 30.0])
    wanted = np.array([30 - 103.939, 20 - 116.779, 10 - 123.68])
    np.testing.assert_allclose(K.applications.vgg16.preprocess_input(x)[0, 1, 1], wanted)
    np.testing.assert_allclose(K.applications.resnet50.preprocess_input(x.transpose(0, 3, 1, 2), "channels_first")[0, :, 1, 0],
                               wanted)
    np.testing.assert_allclose(K.applications.xception.preprocess_input(np.array([0.0, 127.5, 255.0])), [-1, 0, 1])
    monkeypatch.setattr(settings, "data", tmp_path)
    (tmp_path / "imagenet_class_index.json").write_text(json.dumps({n: [f"n{n}", f"word {n}"] for n in range(1000)}))
    rows = np.zeros((1, 1000))
    rows[0, [7, 3]] = [0.25, 0.5]
    assert K.applications.imagenet_utils.decode_predictions(rows, top=2) == [[("n3", "word 3", 0.5), ("n7", "word 7", 0.25)]]
    with pytest.raises(ValueError, match=r"2D array of shape \(samples, 1000\)"):
        K.applications.vgg16.decode_predictions(rows[:, :10])


@pytest.mark.parametrize(("options", "text"), [
    ({"weights": "unknown"}, "'unknown' is none"), ({"classes": 2000}, "`classes` should be 1000; it is 2000"),
    ({"weights": None, "input_shape": (40, 64, 3), "include_top": False}, "must be at least 48x48; got"),
    ({"weights": None, "input_shape": (64, 64)}, "must be a tuple of three integers"),
    ({"weights": None, "input_shape": (None, 64, 3)}, "should specify a static `input_shape`"),
    ({"input_shape": (64, 64, 3)}, r"`input_shape` should be \(224, 224, 3\)")])
def test_what_is_refused(options, text):
    with pytest.raises(ValueError, match=text):
        K.applications.VGG16(**options)


def test_nets_with_channels_last_alone_say_so():
    K.backend.set_image_data_format("channels_first")
    try:
        with pytest.warns(UserWarning, match="mobilenet: it has channels last alone"):
            model = K.applications.MobileNet(weights=None, alpha=0.25)
        assert model.input_shape == (None, 224, 224, 3) and K.backend.image_data_format() == "channels_first"
        assert K.applications.VGG16(weights=None, include_top=False).input_shape == (None, 3, None, None)
    finally:
        K.backend.set_image_data_format("channels_last")
