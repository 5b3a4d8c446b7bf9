"""Initializers by name: the first values of weights."""
from __future__ import annotations

from workbench.nn.initializers import (
    Constant,
    Identity,
    Initializer,
    Ones,
    Orthogonal,
    RandomNormal,
    RandomUniform,
    TruncatedNormal,
    VarianceScaling,
    Zeros,
    glorot_normal_initializer,
    glorot_uniform_initializer,
    he_normal,
    he_uniform,
    lecun_normal,
    lecun_uniform,
)
from workbench.train.keras.registry import Kind

__all__ = ["Constant", "Identity", "Initializer", "Ones", "Orthogonal", "RandomNormal", "RandomUniform", "TruncatedNormal",
           "VarianceScaling", "Zeros", "deserialize", "get", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
           "lecun_normal", "lecun_uniform", "serialize"]

glorot_normal, glorot_uniform = glorot_normal_initializer, glorot_uniform_initializer

INITIALIZERS = Kind(
    "initializer", Constant, Identity, Ones, Orthogonal, RandomNormal, RandomUniform, TruncatedNormal, VarianceScaling, Zeros,
    makers=True, aliases={
        "zero": Zeros, "zeros": Zeros, "one": Ones, "ones": Ones, "constant": Constant, "uniform": RandomUniform,
        "random_uniform": RandomUniform, "normal": RandomNormal, "random_normal": RandomNormal,
        "truncated_normal": TruncatedNormal, "identity": Identity, "orthogonal": Orthogonal, "glorot_normal": glorot_normal,
        "glorot_uniform": glorot_uniform, "he_normal": he_normal, "he_uniform": he_uniform, "lecun_normal": lecun_normal,
        "lecun_uniform": lecun_uniform})
get, serialize, deserialize = INITIALIZERS.get, INITIALIZERS.serialize, INITIALIZERS.deserialize
