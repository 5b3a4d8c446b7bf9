"""What all feature columns share: the features of a batch, and the two kinds of columns, which programs derive theirs from."""
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph
from workbench.core.graph.shape import as_shape
from workbench.nn.checks import assert_greater_equal
from workbench.nn.sparse import SparseTensor, SparseTensorValue
from workbench.nn.sparse_ops import sparse_reshape
from workbench.nn.variables import GraphKeys

__all__ = ["Categorical", "Column", "Dense", "Features", "IdsAndWeights", "check_dense"]


class Features:
    """The features of a batch, by name, with what columns made of them: each column computes once.

    A column for a key, with its identifiers (or the pair with their weights), was computed before.
    """

    def __init__(self, features: Mapping[Any, Any], collections: Sequence[str] = ()) -> None:
        self._features, self._transformed = features, dict[int, tuple[Any, Any]]()      # with the columns, which stay theirs
        self.collections = list(dict.fromkeys([*collections, GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES]))
        self._made = {id(key): (key, value if isinstance(value, tuple) else (value, None))
                      for key, value in features.items() if isinstance(key, Categorical)}

    def raw(self, key: str) -> Any:
        """A feature: sparse, or dense with a dimension for its values. ValueError (InvalidArgumentError) for a missing one."""
        if key not in self._features:
            raise errors.InvalidArgumentError(f"feature columns: Feature {key} is not in features dictionary.; there are "
                                              f"{', '.join(sorted(map(repr, self._features))) or 'none'}")
        value = self._features[key]
        if isinstance(value, (SparseTensor, SparseTensorValue)):
            found = SparseTensor.from_value(value)
            return sparse_reshape(found, [-1, 1]) if found.get_shape().rank == 1 else found
        tensor = convert(value)
        if tensor.shape.rank == 0:
            raise errors.InvalidArgumentError(f"feature columns: Feature (key: {key}) cannot have rank 0. Give: {tensor}")
        if tensor.shape.rank is None:
            with get_default_graph().control_dependencies([assert_greater_equal(
                    ops.rank(tensor), 1, message=f"Feature (key: {key}) cannot have rank 0")]):
                return ops.cond(ops.equal(ops.rank(tensor), 1), lambda: ops.expand_dims(tensor, -1), lambda: tensor)
        return ops.expand_dims(tensor, -1) if tensor.shape.rank == 1 else tensor

    def sparse(self, key: str, ignored: Any = None) -> SparseTensor:
        """A feature as a sparse tensor; of a dense one, -1 and "" (or `ignored`) are no values."""
        value = self.raw(key)
        if isinstance(value, SparseTensor):
            return value
        if ignored is None:
            ignored = b"" if value.dtype.kind == "string" else -1
        places = ops.where(ops.not_equal(value, ops.constant(ignored, value.dtype)))
        return SparseTensor(places, ops.gather_nd(value, places), ops.shape(value, "int64"))

    def get(self, key: Any) -> Any:
        """The feature of a name, or what a column transforms of the features, once; TypeError for another key."""
        if isinstance(key, str):
            return self.raw(key)
        if not isinstance(key, Column):
            raise TypeError(f'"key" must be either a "str" or "_FeatureColumn". Provided: {key}')
        if id(key) not in self._transformed:
            made = key._transform_feature(self)
            if made is None:
                raise errors.InvalidArgumentError(f"feature columns: Column {key.name} is not supported.; its "
                                                  "_transform_feature gives None")
            self._transformed[id(key)] = key, made
        return self._transformed[id(key)][1]

    def of(self, column: Any, make: Callable[[Features], Any]) -> Any:
        """What a column makes of the features, once."""
        if id(column) not in self._made:
            self._made[id(column)] = column, make(self)
        return self._made[id(column)][1]


class IdsAndWeights(NamedTuple):
    """Identifiers and their weights, None where all count alike: sparse tensors of the same places."""

    id_tensor: SparseTensor
    weight_tensor: SparseTensor | None


def _defined(column: Column, word: str, kind: type) -> None:
    if getattr(type(column), word) is getattr(kind, word):
        raise errors.UnimplementedError(f"{type(column).__name__}: {word} is missing; define it")


class Column:
    """A feature column. `spec` says how its features are read from examples.

    Programs derive columns of their own from this class and the two below, which TensorFlow calls _FeatureColumn, _DenseColumn
    and _CategoricalColumn; they define `name` and the words that begin with an underscore, which our own columns answer too.
    """

    name: str
    combiner = "sum"      # how a linear model joins several identifiers; elder columns say it themselves

    @functools.cached_property
    def spec(self) -> dict[str, Any]:
        """How its features are read from examples."""
        _defined(self, "_parse_example_spec", Column)
        return self._parse_example_spec

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        return self.spec

    @property
    def _var_scope_name(self) -> str:
        return self.name

    def _transform_feature(self, inputs: Features) -> Any:
        raise errors.UnimplementedError(f"{type(self).__name__}: _transform_feature(inputs) is missing; define it")

    @property
    def config(self) -> dict[str, Any]:
        """How its features are read, by the word of tf.contrib.layers."""
        return self.spec

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class Dense(Column):
    """A column that is a dense tensor [batch, *shape]."""

    @functools.cached_property
    def shape(self) -> tuple[int, ...]:
        """The lengths of one example's value."""
        _defined(self, "_variable_shape", Dense)
        return tuple(as_shape(self._variable_shape).as_list())      # type: ignore[arg-type]

    @property
    def _variable_shape(self) -> Any:
        return as_shape(self.shape)

    def dense_tensor(self, features: Features, trainable: bool = True) -> Tensor:
        """The values of a batch: float32 [batch, *shape]."""
        _defined(self, "_get_dense_tensor", Dense)
        return self._get_dense_tensor(features, features.collections, trainable)

    def _get_dense_tensor(self, inputs: Features, weight_collections: Any = None, trainable: bool | None = None) -> Tensor:
        return self.dense_tensor(inputs, trainable is not False)

    def _transform_feature(self, inputs: Features) -> Any:
        return self.dense_tensor(inputs)

    @property
    def width(self) -> int:
        """Numbers an example."""
        return math.prod(self.shape)

    dimension = width


class Categorical(Column):
    """A column of identifiers below `buckets`, any number an example."""

    IdWeightPair = IdsAndWeights      # by its name in programs

    @functools.cached_property
    def buckets(self) -> int:
        """The identifiers that there are."""
        _defined(self, "_num_buckets", Categorical)
        return self._num_buckets

    @property
    def _num_buckets(self) -> int:
        return self.buckets

    @property
    def bucket_size(self) -> int:
        """The identifiers that there are, by the word of tf.contrib.layers."""
        return self.buckets

    length = bucket_size

    def identifiers(self, features: Features) -> tuple[SparseTensor, SparseTensor | None]:
        """(identifiers, their weights) as sparse tensors of the same places."""
        _defined(self, "_get_sparse_tensors", Categorical)
        return self._get_sparse_tensors(features, features.collections, True)

    def _get_sparse_tensors(self, inputs: Features, weight_collections: Any = None,
                            trainable: bool | None = None) -> IdsAndWeights:
        return IdsAndWeights(*inputs.of(self, self.identifiers))

    def _transform_feature(self, inputs: Features) -> Any:
        found, weights = self.identifiers(inputs)
        return found if weights is None else (found, weights)


def check_dense(where: str, columns: Iterable[Any], other: str) -> None:
    """InvalidArgumentError for a column without dense values, which `other` or an embedding gives it."""
    bare = next((c for c in columns if isinstance(c, Categorical) and not isinstance(c, Dense)), None)
    if bare is not None:
        raise errors.InvalidArgumentError(f"{where}: {bare!r} has no dense values; wrap it with an embedding_column or {other}")
