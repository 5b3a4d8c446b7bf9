"""Names of TensorFlow 1.5 - 1.15 for what is here under an older one, and small functions of that time."""
from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np

import workbench as wb
from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.dimension import Dimension
from workbench.core.graph.graph import Operation, Tensor
from workbench.core.graph.subgraph import root_graph
from workbench.nn import image_quality, later_math, layers_1d
from workbench.nn.critical_section import CriticalSection
from workbench.tf1.graphs import constant_value
from workbench.tf1.missing import Namespace
from workbench.tf1.spelling import names_of
from workbench.train.input import contrib_data, contrib_data_more
from workbench.train.optimizers import cosine

__all__ = ["install"]

_FAMILIES = """
    debugging: Assert assert_equal assert_greater assert_greater_equal assert_integer assert_less assert_less_equal assert_near
        assert_negative assert_non_negative assert_non_positive assert_none_equal assert_positive assert_proper_iterable
        assert_rank assert_rank_at_least assert_rank_in assert_same_float_dtype assert_scalar assert_type check_numerics
        is_finite is_inf is_nan is_non_decreasing is_numeric_tensor is_strictly_increasing
        assert_all_finite=verify_tensor_all_finite
    dtypes: DType QUANTIZED_DTYPES as_dtype as_string bfloat16 bool cast complex complex128 complex64 double float16 float32
        float64 half int16 int32 int64 int8 qint16 qint32 qint8 quint16 quint8 resource saturate_cast string uint16 uint32
        uint64 uint8 variant
    io: FixedLenFeature FixedLenSequenceFeature PaddingFIFOQueue PriorityQueue QueueBase RandomShuffleQueue SparseFeature
        VarLenFeature decode_base64 decode_compressed decode_csv decode_json_example decode_raw deserialize_many_sparse
        encode_base64 matching_files parse_example parse_single_example parse_single_sequence_example parse_tensor read_file
        serialize_many_sparse serialize_sparse serialize_tensor write_file match_filenames_once=train.match_filenames_once
        write_graph=train.write_graph TFRecordCompressionType=python_io.TFRecordCompressionType
        TFRecordOptions=python_io.TFRecordOptions TFRecordWriter=python_io.TFRecordWriter
        tf_record_iterator=python_io.tf_record_iterator decode_and_crop_jpeg=image.decode_and_crop_jpeg
        decode_bmp=image.decode_bmp decode_gif=image.decode_gif decode_image=image.decode_image
        decode_jpeg=image.decode_jpeg decode_png=image.decode_png encode_jpeg=image.encode_jpeg encode_png=image.encode_png
        extract_jpeg_shape=image.extract_jpeg_shape
    lookup: KeyValueTensorInitializer=contrib.lookup.KeyValueTensorInitializer TextFileIndex=contrib.lookup.TextFileIndex
        StaticHashTable=contrib.lookup.HashTable TextFileInitializer=contrib.lookup.TextFileInitializer
    nest: assert_same_structure=contrib.framework.nest.assert_same_structure flatten=contrib.framework.nest.flatten
        is_nested=contrib.framework.nest.is_sequence map_structure=contrib.framework.nest.map_structure
        pack_sequence_as=contrib.framework.nest.pack_sequence_as
    quantization: dequantize fake_quant_with_min_max_args fake_quant_with_min_max_args_gradient fake_quant_with_min_max_vars
        fake_quant_with_min_max_vars_gradient fake_quant_with_min_max_vars_per_channel
        fake_quant_with_min_max_vars_per_channel_gradient quantize=quantize_v2 quantized_concat
    queue: FIFOQueue PaddingFIFOQueue PriorityQueue QueueBase RandomShuffleQueue
    random: get_seed multinomial set_random_seed truncated_normal gamma=random_gamma normal=random_normal
        poisson=random_poisson shuffle=random_shuffle uniform=random_uniform
        all_candidate_sampler=nn.all_candidate_sampler fixed_unigram_candidate_sampler=nn.fixed_unigram_candidate_sampler
        learned_unigram_candidate_sampler=nn.learned_unigram_candidate_sampler
        log_uniform_candidate_sampler=nn.log_uniform_candidate_sampler uniform_candidate_sampler=nn.uniform_candidate_sampler
    signal: dct=spectral.dct fft=spectral.fft fft2d=spectral.fft2d fft3d=spectral.fft3d ifft=spectral.ifft
        ifft2d=spectral.ifft2d
        ifft3d=spectral.ifft3d irfft=spectral.irfft irfft2d=spectral.irfft2d irfft3d=spectral.irfft3d rfft=spectral.rfft
        rfft2d=spectral.rfft2d rfft3d=spectral.rfft3d frame=contrib.signal.frame hamming_window=contrib.signal.hamming_window
        hann_window=contrib.signal.hann_window inverse_stft=contrib.signal.inverse_stft stft=contrib.signal.stft
        inverse_stft_window_fn=contrib.signal.inverse_stft_window_fn overlap_and_add=contrib.signal.overlap_and_add
        linear_to_mel_weight_matrix=contrib.signal.linear_to_mel_weight_matrix
        mfccs_from_log_mel_spectrograms=contrib.signal.mfccs_from_log_mel_spectrograms
    sparse: SparseConditionalAccumulator SparseTensor add=sparse_add concat=sparse_concat fill_empty_rows=sparse_fill_empty_rows
        mask=sparse_mask maximum=sparse_maximum merge=sparse_merge minimum=sparse_minimum placeholder=sparse_placeholder
        reduce_max=sparse_reduce_max reduce_max_sparse=sparse_reduce_max_sparse reduce_sum=sparse_reduce_sum
        reduce_sum_sparse=sparse_reduce_sum_sparse reorder=sparse_reorder reset_shape=sparse_reset_shape
        reshape=sparse_reshape retain=sparse_retain segment_mean=sparse_segment_mean
        segment_sqrt_n=sparse_segment_sqrt_n segment_sum=sparse_segment_sum slice=sparse_slice softmax=sparse_softmax
        sparse_dense_matmul=sparse_tensor_dense_matmul matmul=sparse_tensor_dense_matmul split=sparse_split
        to_dense=sparse_tensor_to_dense to_indicator=sparse_to_indicator transpose=sparse_transpose
    version: COMPILER_VERSION GIT_VERSION VERSION GRAPH_DEF_VERSION GRAPH_DEF_VERSION_MIN_CONSUMER
        GRAPH_DEF_VERSION_MIN_PRODUCER
"""
"""Namespaces that came after 1.4: name: names, and later=older ones, of the namespace tf."""

_MORE = """
    image: transpose=image.transpose_image extract_image_patches=extract_image_patches extract_patches=extract_image_patches
        resize_with_crop_or_pad=image.resize_image_with_crop_or_pad
    linalg: global_norm
    math: argmax argmin confusion_matrix count_nonzero is_non_decreasing is_strictly_increasing reduce_all reduce_any
        reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod reduce_sum
    metrics: precision_at_k=metrics.sparse_precision_at_k average_precision_at_k=metrics.sparse_average_precision_at_k
    nn: depth_to_space space_to_depth space_to_batch avg_pool2d=nn.avg_pool max_pool2d=nn.max_pool silu=nn.swish
        depthwise_conv2d_backprop_filter=nn.depthwise_conv2d_native_backprop_filter
        depthwise_conv2d_backprop_input=nn.depthwise_conv2d_native_backprop_input
        conv3d_backprop_filter=nn.conv3d_backprop_filter_v2
        safe_embedding_lookup_sparse=contrib.layers.safe_embedding_lookup_sparse
    strings: split=string_split_v2
    train: piecewise_constant_decay=train.piecewise_constant
    initializers: tables_initializer
    contrib.framework: sort argsort
"""
"""Names that namespaces of 1.4 got later, in the same notation."""


# functions

def executing_eagerly() -> bool:
    """False: a program builds a graph here."""
    return False


def enable_eager_execution(*_: Any, **__: Any) -> None:
    """UnimplementedError: here programs build graphs."""
    raise errors.UnimplementedError("enable_eager_execution: programs build graphs here and run them in a Session; leave the "
                                    "call out, and fetch values by session.run")


def _nothing(what: str) -> Any:
    def nothing(*_: Any, **__: Any) -> None:
        pass
    nothing.__name__, nothing.__doc__ = what, "It is so already; nothing is done."
    return nothing


@contextlib.contextmanager
def init_scope() -> Iterator[None]:
    """What is built inside stands in the graph itself, outside of branches, loops and control dependencies."""
    graph = root_graph()
    with graph.as_default(), graph.control_dependencies(None):
        yield


def is_tensor(x: Any) -> bool:
    """Is it a tensor, dense, sparse or of slices, or a variable?"""
    return isinstance(x, (wb.Tensor, wb.SparseTensor, wb.Variable, wb.IndexedSlices))


def dimension_value(dimension: Any) -> int | None:
    """The number of a dimension, None where it is unknown."""
    return getattr(dimension, "value", dimension)


def dimension_at_index(shape: Any, index: int) -> Any:
    """One dimension of a shape, unknown where the rank is."""
    return Dimension(None) if shape.rank is None else shape[index]


class _Known(np.ndarray):
    """An array that gives itself as `numpy()`, as eager tensors do."""

    def numpy(self) -> Any:
        """The array, or the scalar of rank 0."""
        return np.asarray(self)[()]


def py_function(func: Any = None, inp: Any = None, Tout: Any = None, name: str | None = None) -> Any:
    """py_func whose function gets arrays with a method `numpy()`; it may not use operations, and has no gradient."""
    def call(*arrays: Any) -> Any:
        return func(*(np.asarray(array).view(_Known) for array in arrays))
    return wb.py_func(call, list(inp), Tout, name=name)


def print_(*inputs: Any, **options: Any) -> Operation:
    """An operation that prints tensors and other things in one line; control dependencies let it run.

    `output_stream` is sys.stderr (by default), sys.stdout, a logging function of tf.logging or file://PATH; `summarize` is
    how many elements stand at either end of a dimension (3; -1 for all), `sep` and `end` are as those of Python's print.
    """
    stream, end = options.get("output_stream", sys.stderr), options.get("end", "\n")
    most, separator = options.get("summarize"), options.get("sep", " ")
    places = [number for number, value in enumerate(inputs) if is_tensor(value)]

    def show(*arrays: Any) -> None:
        given = list(inputs)
        for place, array in zip(places, arrays):
            given[place] = _written(array, 3 if most is None else most)
        _emit(stream, separator.join(map(str, given)), end)
    made: Any = wb.py_func(show, [inputs[place] for place in places], [], name=options.get("name") or "PrintV2")
    return made


def _written(array: Any, most: int) -> str:
    value = np.asarray(array, object) if isinstance(array, bytes) else np.asarray(array)
    edge = max(value.size, 1) if most < 0 else most
    if value.dtype == object:
        value = np.array([item.decode(errors="replace") for item in value.ravel()], object).reshape(value.shape)
        return str(value[()]) if value.ndim == 0 else np.array2string(
            value, threshold=2 * edge, edgeitems=edge, formatter={"all": lambda item: f'"{item}"'})
    return np.array2string(value, threshold=2 * edge, edgeitems=edge)


def _emit(stream: Any, text: str, end: str) -> None:
    if isinstance(stream, str):
        with open(stream.removeprefix("file://"), "a", encoding="utf-8") as file:
            file.write(text + end)
    elif callable(stream):
        stream(text)
    else:
        print(text, end=end, file=stream, flush=True)


def categorical(logits: Any, num_samples: Any, dtype: Any = "int64", seed: int | None = None,
                name: str | None = None) -> Tensor:
    """multinomial: numbers of classes [rows, num_samples], drawn by logits [rows, classes], as `dtype`."""
    return ops.cast(ops.multinomial(logits, num_samples, seed=seed, name=name), dtype or "int64")


def string_split_v2(input: Any = None, sep: str | None = None, maxsplit: int = -1, result_type: str = "SparseTensor",
                    source: Any = None) -> Any:
    """The parts of strings [n] between separators, a SparseTensor [n, most]: white space, or `sep` of one character.
    UnimplementedError for more characters, a `maxsplit` or ragged results."""
    if (sep is not None and len(sep) > 1) or maxsplit != -1 or result_type != "SparseTensor":
        raise errors.UnimplementedError(f"strings.split: sep {sep!r}, maxsplit {maxsplit} and result_type {result_type!r}: one "
                                        "character, all parts and a SparseTensor are offered")
    text = input if source is None else source
    if not sep:
        return wb.string_split(text, " \t\n\r\v\f", skip_empty=True)
    found = wb.string_split(ops.string_join([sep, text]), sep, skip_empty=False)      # of an empty string there is one part
    behind = found.indices[:, 1] > 0
    return wb.SparseTensor(ops.boolean_mask(found.indices, behind) - [0, 1], ops.boolean_mask(found.values, behind),
                           found.dense_shape - [0, 1])


def tensor_scatter_add(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """`tensor` with the updates added at the index vectors [..., depth]; duplicates add up."""
    x, where = wb.convert_to_tensor(tensor), wb.convert_to_tensor(indices)
    added = ops.scatter_nd(where, wb.convert_to_tensor(updates, x.dtype), ops.cast(ops.shape(x), where.dtype))
    return ops.add(x, added, name=name)


def tensor_scatter_sub(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """`tensor` with the updates taken off at the index vectors [..., depth]; duplicates add up."""
    return tensor_scatter_add(tensor, indices, ops.negative(wb.convert_to_tensor(updates)), name)


def tensor_scatter_update(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """A copy of `tensor` with the updates in the places of the index vectors [..., depth]; of equal places the last counts."""
    return ops.tensor_scatter_update(tensor, indices, updates, name=name)


def pool1d(operation: Any) -> Any:
    """The pooling of images along the steps of sequences [batch, steps, channels]."""
    def pool(input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NWC", name: str | None = None) -> Tensor:
        size, step = (value[-2] if isinstance(value, (list, tuple)) and len(value) == 3 else
                      value[0] if isinstance(value, (list, tuple)) else value for value in (ksize, strides))
        layout = {"NWC": "channels_last", "NCW": "channels_first"}[data_format]
        return operation(input, int(size), int(step), padding.lower(), layout, name=name)
    return pool


# data

AUTOTUNE = -1
"""A buffer or a number of threads that is ours to choose."""


class Options(Namespace):
    """How a dataset is to be read: kept as it is written, and without effect on its elements."""


def _experimental() -> Namespace:
    return Namespace(AUTOTUNE=AUTOTUNE, **names_of(contrib_data, contrib_data_more))


def _of_dataset(method: str) -> Any:
    def call(dataset: Any, *args: Any, **options: Any) -> Any:
        found = getattr(dataset, method)
        return found(*args, **options) if callable(found) else found
    call.__name__, call.__doc__ = method, f"`{method}` of a dataset or iterator."
    return call


_OF_DATASETS = {name: _of_dataset(name.removeprefix("get_")) for name in (
    "make_one_shot_iterator", "make_initializable_iterator", "get_output_types", "get_output_shapes", "get_output_classes")}


# all together

_FUNCTIONS = {
    "executing_eagerly": executing_eagerly, "enable_eager_execution": enable_eager_execution, "init_scope": init_scope,
    "is_tensor": is_tensor, "CriticalSection": CriticalSection, "get_static_value": constant_value,
    "dimension_value": dimension_value, "dimension_at_index": dimension_at_index,
    "py_function": py_function, "print": print_, "no_gradient": wb.NotDifferentiable, "timestamp": lambda name=None: wb.py_func(
        lambda: np.float64(time.time()), [], "float64", name=name), "get_logger": lambda: logging.getLogger("workbench"),
    "resource_variables_enabled": lambda: False, "control_flow_v2_enabled": lambda: False,
    "executing_eagerly_outside_functions": lambda: False, "quantize": ops.quantize_v2,
    "tensor_scatter_add": tensor_scatter_add, "tensor_scatter_nd_add": tensor_scatter_add,
    "tensor_scatter_sub": tensor_scatter_sub, "tensor_scatter_nd_sub": tensor_scatter_sub,
    "tensor_scatter_update": tensor_scatter_update, "tensor_scatter_nd_update": tensor_scatter_update,
    "repeat": later_math.repeat, "where_v2": later_math.where_v2,
    "string_split_v2": string_split_v2, **{name: _nothing(name) for name in (
        "disable_eager_execution", "disable_v2_behavior", "disable_resource_variables", "enable_resource_variables",
        "disable_control_flow_v2", "disable_v2_tensorshape", "disable_tensor_equality")}}
_ADDED = {
    "image": {name: getattr(image_quality, name) for name in image_quality.__all__},
    "linalg": {"matvec": later_math.matvec, "normalize": later_math.norm_and_normalized, "pinv": later_math.pinv},
    "math": {name: getattr(later_math, name) for name in (
        "erfcinv", "multiply_no_nan", "polyval", "reciprocal_no_nan", "reduce_euclidean_norm", "reduce_std",
        "reduce_variance", "xdivy", "xlog1py", "xlogy")},
    "nn": {"avg_pool1d": pool1d(layers_1d.average_pooling1d), "max_pool1d": pool1d(layers_1d.max_pooling1d)},
    "train": {name: getattr(cosine, name) for name in cosine.__all__},
    "random": {"categorical": categorical},
    "strings": {"length": ops.string_length, "lower": ops.string_lower, "upper": ops.string_upper,
                "regex_full_match": ops.regex_full_match}}


def _found(names: MutableMapping[str, Any], path: str) -> Any:
    first, *rest = path.split(".")
    found = names[first]
    for part in rest:
        found = getattr(found, part)
    return found


def _lines(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """(namespace, pairs of a name there and the path of what it means) for each paragraph."""
    title, pairs = "", list[tuple[str, str]]()
    for word in text.split():
        if word.endswith(":"):
            if title:
                yield title, pairs
            title, pairs = word[:-1], []
        else:
            later, _, older = word.partition("=")
            pairs.append((later, older or later))
    yield title, pairs


def install(names: MutableMapping[str, Any]) -> None:
    """Put the later names into the namespace tf, and into those below it."""
    names.update(_FUNCTIONS)
    for text in (_FAMILIES, _MORE):
        for title, pairs in _lines(text):
            if title not in names and "." not in title:
                names[title] = Namespace()
            vars(_found(names, title)).update({later: _found(names, older) for later, older in pairs})
    for title, more in _ADDED.items():
        vars(names[title]).update(more)
    vars(names["compat"]).update(dimension_value=dimension_value, dimension_at_index=dimension_at_index)
    vars(names["contrib"].data)["AUTOTUNE"] = AUTOTUNE
    vars(names["contrib"])["linalg"] = _contributed_linalg(names["linalg"])
    vars(names["io"])["gfile"] = _gfile(names["gfile"])
    data = vars(names["data"])
    data.update(AUTOTUNE=AUTOTUNE, experimental=_experimental(), Options=Options, **_OF_DATASETS)


def _contributed_linalg(linalg: Any) -> Namespace:
    """The operators where they once were, two of them by their names until 1.4."""
    return Namespace(**vars(linalg), LinearOperatorTriL=linalg.LinearOperatorLowerTriangular,
                     LinearOperatorUDVHUpdate=linalg.LinearOperatorLowRankUpdate)


def _gfile(files: Any) -> Namespace:
    """Files by the names of TensorFlow 2."""
    return Namespace(GFile=files.GFile, copy=files.Copy, exists=files.Exists, glob=files.Glob, isdir=files.IsDirectory,
                     listdir=files.ListDirectory, makedirs=files.MakeDirs, mkdir=files.MkDir, remove=files.Remove,
                     rename=files.Rename, rmtree=files.DeleteRecursively, stat=files.Stat, walk=files.Walk)
