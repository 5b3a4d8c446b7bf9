"""`tensorflow.python.framework`: ops, dtypes, shapes, errors, functions, constants, tests."""
from __future__ import annotations

from typing import Any

import workbench.tf1 as tf
from workbench.core.graph import dtype as _dtype
from workbench.core.graph.build import constant_shape as _constant_shape
from workbench.core.graph.shape import as_shape as _as_shape
from workbench.formats import saver as _saver
from workbench.formats.messages import message
from workbench.nn import functions as _functions
from workbench.tf1 import specs as _specs
from workbench.tf1.missing import Namespace
from workbench.tf1.python import borrowed as _borrowed
from workbench.tf1.python import small as _small
from workbench.tf1.spelling import names_of as _names_of

__all__ = ["common_shapes", "constant_op", "device", "dtypes", "errors", "errors_impl", "file_io", "function", "graph_io",
           "graph_util", "graph_util_impl", "importer", "meta_graph", "op_def_registry", "ops", "random_seed", "smart_cond",
           "sparse_tensor", "tensor_shape", "tensor_spec", "tensor_util", "test_ops", "test_util", "versions"]


def _of(names: str, **more: object) -> Namespace:
    return Namespace(**{name: getattr(tf, name) for name in names.split()}, **more)


def _read(filename: object, binary_mode: bool) -> object:
    with tf.gfile.GFile(filename, "rb" if binary_mode else "r") as file:
        return file.read()


def _is_constant(tensor_or_op: Any) -> bool:
    op = getattr(tensor_or_op, "op", tensor_or_op)
    return bool(op.type == "Const")


def _write(filename: object, file_content: object) -> None:
    with tf.gfile.GFile(filename, "w") as file:
        file.write(file_content)


def _registered_ops() -> dict[str, Any]:
    """Every type of operation of TensorFlow that is offered: its OpDef, which has the name alone; what a type takes is told by
    the operations of a graph (`op.op_def`)."""
    from workbench.formats.own import known_types  # the twins of operations are loaded when somebody asks

    return {kind: message("OpDef")(name=kind) for kind in known_types()}


constant_op = _of("constant", is_constant=_is_constant, **_borrowed.CONSTANTS)
dtypes = Namespace(**{name: getattr(_dtype, name) for name in _dtype.__all__}, bool=tf.bool,
                   QUANTIZED_DTYPES=tf.QUANTIZED_DTYPES)
errors = errors_impl = tf.errors
graph_util = graph_util_impl = tf.graph_util
graph_io = Namespace(write_graph=tf.train.write_graph)
function = Namespace(Defun=_functions.Defun, Declare=_functions.Declare, _DefinedFunction=_functions.Function,
                     _OverloadedFunction=_functions.Overloaded)
importer = _of("import_graph_def")
meta_graph = Namespace(export_scoped_meta_graph=_saver.export_scoped_meta_graph,
                       import_scoped_meta_graph=_saver.import_scoped_meta_graph)
file_io = Namespace(
    FileIO=tf.gfile.GFile, file_exists=tf.gfile.Exists, delete_file=tf.gfile.Remove, get_matching_files=tf.gfile.Glob,
    create_dir=tf.gfile.MkDir, recursive_create_dir=tf.gfile.MakeDirs, copy=tf.gfile.Copy, rename=tf.gfile.Rename,
    delete_recursively=tf.gfile.DeleteRecursively, is_directory=tf.gfile.IsDirectory, list_directory=tf.gfile.ListDirectory,
    walk=tf.gfile.Walk, stat=tf.gfile.Stat, read_file_to_string=lambda filename, binary_mode=False: _read(
        filename, binary_mode), write_string_to_file=lambda filename, file_content: _write(filename, file_content))
ops = _of("Graph GraphKeys IndexedSlices NoGradient NotDifferentiable Operation RegisterGradient Tensor add_to_collection "
          "add_to_collections colocate_with container control_dependencies convert_to_tensor device get_collection "
          "get_collection_ref get_default_graph get_default_session name_scope op_scope register_tensor_conversion_function "
          "reset_default_graph", **_small.GRAPHS, **_borrowed.GRAPHS)
versions = _of("COMPILER_VERSION GIT_VERSION GRAPH_DEF_VERSION GRAPH_DEF_VERSION_MIN_CONSUMER GRAPH_DEF_VERSION_MIN_PRODUCER "
               "VERSION")
random_seed = _of("get_seed set_random_seed", DEFAULT_GRAPH_SEED=87654321)
sparse_tensor = _of("SparseTensor SparseTensorValue", convert_to_tensor_or_sparse_tensor=tf.convert_to_tensor_or_sparse_tensor,
                    is_sparse=lambda x: isinstance(x, (tf.SparseTensor, tf.SparseTensorValue)))
tensor_shape = _of("Dimension TensorShape", scalar=lambda: tf.TensorShape([]), vector=lambda length: tf.TensorShape([length]),
                   matrix=lambda rows, columns: tf.TensorShape([rows, columns]),
                   unknown_shape=lambda ndims=None: tf.TensorShape(None if ndims is None else [None] * ndims),
                   as_shape=_as_shape, as_dimension=tf.Dimension, dimension_value=tf.dimension_value,
                   dimension_at_index=tf.dimension_at_index)
tensor_spec = Namespace(**_names_of(_specs))
smart_cond = Namespace(smart_cond=tf.contrib.layers.utils.smart_cond,
                       smart_constant_value=tf.contrib.layers.utils.constant_value)
tensor_util = _of("make_ndarray make_tensor_proto", constant_value=tf.contrib.util.constant_value,
                  constant_value_as_shape=lambda tensor: _constant_shape(tf.convert_to_tensor(tensor)),
                  MakeNdarray=tf.make_ndarray, TensorShapeProtoToList=lambda shape: [dim.size for dim in shape.dim],
                  is_tensor=tf.contrib.framework.is_tensor)
test_util = Namespace(TensorFlowTestCase=tf.test.TestCase, gpu_device_name=tf.test.gpu_device_name,
                      IsMklEnabled=lambda: False, enable_c_shapes=lambda fn: fn,
                      run_in_graph_and_eager_modes=tf.contrib.eager.run_test_in_graph_and_eager_modes,
                      run_all_in_graph_and_eager_modes=tf.contrib.eager.run_all_tests_in_graph_and_eager_modes,
                      assert_equal_graph_def=tf.test.assert_equal_graph_def)
common_shapes = Namespace(broadcast_shape=tf.broadcast_static_shape,
                          unknown_shape=lambda op: [tf.TensorShape(None) for _ in op.outputs])
op_def_registry = Namespace(get_registered_ops=_registered_ops)
device = _of("DeviceSpec")
test_ops = Namespace()
