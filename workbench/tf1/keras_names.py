"""tf.keras: the modules of Keras 2.0 in TensorFlow 1.4, on workbench.train.keras."""
from __future__ import annotations

from typing import Any

from workbench.io import keras_data
from workbench.tf1.missing import Namespace
from workbench.tf1.spelling import names_of, spelled
from workbench.train.keras import (
    activations,
    backend,
    backend_networks,
    backend_ops,
    backend_shapes,
    callbacks,
    constraints,
    estimating,
    file_callbacks,
    initializers,
    layers,
    losses,
    metrics,
    models,
    network,
    optimizers,
    recurrent_layers,
    regularizers,
    scikit_learn,
    utils,
)
from workbench.train.keras.applications import chains, common, inception, mobilenet, residual, xception
from workbench.train.keras.preprocessing import batches, image, pictures, sequence, text

__all__ = ["inner", "keras"]

_CROSS_ENTROPY = "target=y_true output=y_pred from_logits"
_BACKEND = {
    "binary_crossentropy": _CROSS_ENTROPY, "categorical_crossentropy": _CROSS_ENTROPY,
    "sparse_categorical_crossentropy": _CROSS_ENTROPY, "foldl": "fn elems initializer name",
    "foldr": "fn elems initializer name", "gather": "reference=params indices", "gradients": "loss=ys variables=xs",
    "ones_like": "x=tensor dtype name", "pow": "x a=y", "stack": "x=values axis", "stop_gradient": "variables=x",
    "zeros_like": "x=tensor dtype name"}
"""What Keras's backend calls the parameters of functions that are ours."""

_SERIALIZED = {
    "activations": "activation", "constraints": "constraint", "initializers": "initializer", "losses": "loss",
    "metrics": "metric", "optimizers": "optimizer", "regularizers": "regularizer"}
"""Module -> what its `serialize` calls what it takes."""


def _application(module: Any, prepared: Any, *names: str) -> Namespace:
    """A module of one net: the net, how images are prepared for it, how its predictions are read."""
    return Namespace(decode_predictions=common.decode_predictions, preprocess_input=prepared,
                     **{name: getattr(module, name) for name in names})


_NETS = {
    "inception_v3": _application(inception, common.preprocess_to_one, "InceptionV3"),
    "mobilenet": _application(mobilenet, common.preprocess_to_one, "MobileNet", "DepthwiseConv2D", "relu6"),
    "resnet50": _application(residual, common.preprocess_by_means, "ResNet50"),
    "vgg16": _application(chains, common.preprocess_by_means, "VGG16"),
    "vgg19": _application(chains, common.preprocess_by_means, "VGG19"),
    "xception": _application(xception, common.preprocess_to_one, "Xception")}

keras = Namespace(
    applications=Namespace(
        **_NETS, imagenet_utils=_application(common, common.preprocess_by_means), VGG16=chains.VGG16, VGG19=chains.VGG19,
        ResNet50=residual.ResNet50, InceptionV3=inception.InceptionV3, Xception=xception.Xception,
        MobileNet=mobilenet.MobileNet),
    **{module.__name__.rpartition(".")[2]: Namespace(**names_of(module)) for module in (
        activations, constraints, initializers, layers, models, optimizers, regularizers)},
    backend=Namespace(**names_of(backend, backend_networks, backend_ops, backend_shapes), **backend_ops.ALIASES,
                      rnn=recurrent_layers.rnn),
    callbacks=Namespace(**names_of(callbacks, file_callbacks)),
    estimator=Namespace(**names_of(estimating)),
    losses=Namespace(**names_of(losses), **losses.ALIASES),
    metrics=Namespace(**names_of(losses, metrics), **losses.ALIASES),
    preprocessing=Namespace(image=Namespace(**names_of(batches, image, pictures)), sequence=Namespace(**names_of(sequence)),
                            text=Namespace(**names_of(text))),
    datasets=Namespace(
        mnist=Namespace(load_data=keras_data.load_mnist), cifar10=Namespace(load_data=keras_data.load_cifar10),
        cifar100=Namespace(load_data=keras_data.load_cifar100),
        boston_housing=Namespace(load_data=keras_data.load_boston_housing),
        **{name: Namespace(load_data=keras_data.refused(name), get_word_index=lambda path=(
            f"{name}_word_index.json"): keras_data.get_word_index(path)) for name in ("imdb", "reuters")}),
    utils=Namespace(**{
        name: value for name, value in names_of(utils).items() if name != "has_arg"}, get_file=keras_data.get_file),
    wrappers=Namespace(scikit_learn=Namespace(
        KerasClassifier=scikit_learn.KerasClassifier, KerasRegressor=scikit_learn.KerasRegressor)),
    Input=layers.Input, Model=models.Model, Sequential=models.Sequential, __version__="2.0.8-tf")
vars(keras.backend).update({name: spelled(getattr(keras.backend, name), words) for name, words in _BACKEND.items()})
for _module, _word in _SERIALIZED.items():
    _names = vars(getattr(keras, _module))
    _names["serialize"] = spelled(_names["serialize"], f"{_word}=thing")
    if _module in ("activations", "losses", "metrics"):
        _names["deserialize"] = spelled(_names["deserialize"], "name=config custom_objects")
keras.utils.serialize_keras_object = spelled(keras.utils.serialize_keras_object, "instance=thing")

# the same as the files of Keras have it, from which programs import too
inner = Namespace(**{
    **vars(keras),
    "engine": Namespace(topology=Namespace(**vars(keras.layers), Container=network.Network, Network=network.Network),
                        training=Namespace(Model=models.Model)),
    "layers": Namespace(**vars(keras.layers), **dict.fromkeys((
        "advanced_activations", "convolutional", "convolutional_recurrent", "core", "embeddings", "local", "merge", "noise",
        "normalization", "pooling", "recurrent", "wrappers"), keras.layers)),
    "utils": Namespace(**vars(keras.utils), **dict.fromkeys(("data_utils", "np_utils"), keras.utils),
                       generic_utils=Namespace(**vars(keras.utils), has_arg=utils.has_arg))})
