"""`tensorflow.python.framework`: ops, dtypes, shapes, errors, functions, constants, tests."""
from __future__ import annotations

import workbench.tf1 as tf
from workbench.core.graph import dtype as _dtype
from workbench.core.graph.build import constant_value as _constant_value
from workbench.core.graph.shape import as_shape as _as_shape
from workbench.nn import functions as function
from workbench.tf1.missing import Namespace

__all__ = ["constant_op", "dtypes", "errors", "errors_impl", "function", "graph_util", "ops", "random_seed", "sparse_tensor",
           "tensor_shape", "tensor_util", "test_util"]


def _of(names: str, **more: object) -> Namespace:
    return Namespace(**{name: getattr(tf, name) for name in names.split()}, **more)


def constant_value(tensor: object) -> object:
    """The value of a tensor that follows from constants alone, None for any other."""
    return _constant_value(tf.convert_to_tensor(tensor))


constant_op = _of("constant")
dtypes = Namespace(**{name: getattr(_dtype, name) for name in _dtype.__all__}, bool=tf.bool)
errors = errors_impl = tf.errors
graph_util = tf.graph_util
ops = _of("Graph GraphKeys IndexedSlices NoGradient NotDifferentiable Operation RegisterGradient Tensor add_to_collection "
          "add_to_collections colocate_with container control_dependencies convert_to_tensor device get_collection "
          "get_collection_ref get_default_graph get_default_session name_scope op_scope register_tensor_conversion_function "
          "reset_default_graph")
random_seed = _of("get_seed set_random_seed")
sparse_tensor = _of("SparseTensor SparseTensorValue")
tensor_shape = _of("Dimension TensorShape", scalar=lambda: tf.TensorShape([]), vector=lambda length: tf.TensorShape([length]),
                   matrix=lambda rows, columns: tf.TensorShape([rows, columns]),
                   unknown_shape=lambda ndims=None: tf.TensorShape(None if ndims is None else [None] * ndims),
                   as_shape=_as_shape)
tensor_util = _of("", constant_value=constant_value)
test_util = Namespace(TensorFlowTestCase=tf.test.TestCase)
