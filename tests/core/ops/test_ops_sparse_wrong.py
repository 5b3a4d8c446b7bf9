"""Bad input to sparse tensors, strings, volumes, sequences and boxes: the error and its text."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.evaluate import evaluate
from workbench import errors
from workbench.core.graph.build import ops
from workbench.nn import sparse_ops

pytestmark = pytest.mark.usefixtures("graph")


def sparse(shape: Any = (2, 3), places: Any = ((0, 1), (1, 0)), values: Any = (1.0, 2.0)) -> Any:
    return wb.SparseTensor(np.array(places, np.int64).reshape(-1, len(shape)), list(values), list(shape))


def parts(sp: Any) -> list[Any]:
    return [sp.indices, sp.values, sp.dense_shape]


BUILDING: list[tuple[Callable[[], Any], str]] = [
    (lambda: wb.sparse_softmax(sparse((4,), ((1,), (2,)))), "sparse_softmax: the tensor has rank 1; use 2 or more"),
    (lambda: wb.sparse_concat(2, [sparse(), sparse()]), "sparse_concat: axis 2 is outside rank 2; use -2 … 1"),
    (lambda: wb.sparse_maximum(sparse(), sparse(values=(1, 2))),
     "sparse_maximum: a is float32 but b is int32; cast one of them"),
    (lambda: wb.sparse_reduce_max(sparse(), 5), "sparse_reduce_max_sparse: axis 5 is outside rank 2; use -2 … 1"),
    (lambda: wb.sparse_retain(sparse(), [True]),
     "sparse_retain: to_retain and the values: [1] and [2] cannot be the same shape"),
    (lambda: wb.serialize_sparse(sparse(), out_type="variant"),
     "serialize_sparse: out_type variant is not offered; use string"),
    (lambda: ops.reduce_join(["a"], 1), "reduce_join: Invalid reduction dimension 1 for inputs of rank 1; use -1 … 0"),
    (lambda: ops.string_to_hash_bucket_fast(["a"], 0), "string_to_hash_bucket_fast: num_buckets is 0; use a number above 0"),
    (lambda: ops.string_to_hash_bucket_strong(["a"], 5, [1]), "string_to_hash_bucket_strong: key has 1 numbers; give two"),
    (lambda: ops.conv3d(ops.zeros([1, 2, 2, 2, 1]), ops.zeros([1, 1, 1, 1, 1]), [2, 1, 1, 1, 1], "SAME"),
     "conv3d: strides is [2, 1, 1, 1, 1] for NDHWC; batch and channels must be 1"),
    (lambda: ops.max_pool3d(ops.zeros([1, 2, 2, 2, 1]), 1, 1, "FULL"), "max_pool3d: padding is 'FULL'; use 'SAME' or 'VALID'"),
    (lambda: ops.conv3d(ops.zeros([1, 1, 1, 1, 1]), ops.zeros([2, 1, 1, 1, 1]), 1, "VALID"),
     "the window covers 2 elements but the axis has 1"),
    (lambda: ops.convolution(ops.zeros([1, 4, 1]), ops.zeros([2, 1, 1]), "VALID", strides=2, dilation_rate=2),
     "convolution: strides and dilation_rate are both above 1; use one of them"),
    (lambda: ops.pool(ops.zeros([1, 4, 1]), 2, "SUM", "VALID"), "pool: pooling_type is 'SUM'; use 'MAX' or 'AVG'"),
    (lambda: wb.nn.ctc_beam_search_decoder(ops.zeros([1, 1, 2]), [1], beam_width=2, top_paths=3),
     "ctc_beam_search_decoder: top_paths is 3 but beam_width 2; use 1 to beam_width"),
    (lambda: wb.gradients(wb.gradients(wb.nn.ctc_loss(sparse((1, 1), ((0, 0),), (0,)), *two()), graph_input()), graph_input()),
     "ctc_loss: it has no second gradient; differentiate it once"),
    (lambda: wb.image.non_max_suppression(ops.zeros([1, 4]), [1.0], 1, 2.0),
     "non_max_suppression: iou_threshold is 2.0; use 0 … 1"),
    (lambda: wb.image.crop_and_resize(ops.zeros([1, 2, 2, 1]), ops.zeros([1, 4]), [0], [1, 1], "cubic"),
     "crop_and_resize: method is 'cubic'; use 'bilinear' or 'nearest'"),
    (lambda: wb.image.total_variation(ops.zeros([2])), "total_variation: images have shape [2]; use rank 3 or 4"),
    (lambda: ops.fixed_unigram_candidate_sampler([[0]], 1, 1, True, 3, unigrams=[1.0]),
     "fixed_unigram_candidate_sampler: 1 unigrams and 0 reserved ids are given but range_max is 3; make them agree"),
]


def two() -> Any:
    return graph_input(), [2]


def graph_input() -> Any:
    found = [op.outputs[0] for op in wb.get_default_graph().operations if op.name == "logits"]
    return found[0] if found else ops.placeholder("float32", [2, 1, 2], name="logits")


@pytest.mark.parametrize("number", range(len(BUILDING)))
def test_while_building(number: int) -> None:
    build, text = BUILDING[number]
    with pytest.raises(errors.Error, match=re.escape(text)):
        build()


RUNNING: list[tuple[Callable[[], list[Any]], str]] = [
    (lambda: parts(wb.sparse_reshape(sparse(), [4, -1])),
     "sparse_reshape: the tensor has 6 elements (shape [2, 3]) but [4, -1]"),
    (lambda: parts(wb.sparse_add(sparse(), sparse((3, 3)))), "sparse_add: the shapes must be equal"),
    (lambda: parts(wb.sparse_reset_shape(sparse(), wb.placeholder_with_default(np.array([1, 3]), [2]))),
     "sparse_reset_shape: new_shape must hold the old one"),
    (lambda: parts(wb.sparse_concat(0, [sparse(), sparse((2, 4))])), "sparse_concat: all axes but the joined one must agree"),
    (lambda: parts(wb.deserialize_many_sparse([["a", "b", "c"]], "float32")),
     "deserialize_many_sparse: the strings are not sparse"),
    (lambda: parts(wb.deserialize_many_sparse(wb.serialize_many_sparse(sparse()), "int32")),
     "deserialize_many_sparse: the values are float32 but int32 is asked"),
    (lambda: [ops.substr(["abc"], 4, 1)], "substr: pos 4 is outside string b'abc' of 3 bytes; stay inside"),
    (lambda: [ops.decode_base64(["a+b"])], "decode_base64: b'a+b' is not web-safe base64; pass what encode_base64 gave"),
    (lambda: [wb.nn.ctc_loss(sparse((1, 1), ((0, 0),), (5,)), ops.zeros([2, 1, 3]), [2])],
     "ctc_loss: label 5 of sequence 0 is outside 0 … 1; the last class is the blank"),
    (lambda: [wb.nn.ctc_loss(sparse((1, 2), ((0, 0), (0, 1)), (1, 1)), ops.zeros([2, 1, 3]), [2])],
     "ctc_loss: sequence 0 has 2 steps but its labels need 3"),
    (lambda: [wb.nn.ctc_loss(sparse((1, 1), ((0, 0),), (0,)), ops.zeros([2, 1, 3]), [3])],
     "ctc_loss: sequence_length is 3 but inputs have 2 steps; keep it within them"),
    (lambda: [wb.image.crop_and_resize(ops.zeros([1, 2, 2, 1]), ops.zeros([1, 4]), [1], [1, 1])],
     "crop_and_resize: box_ind holds 1 … 1 but there are 1 images; use 0 … 0"),
    (lambda: [ops.conv3d_transpose(ops.zeros([1, 2, 2, 2, 1]), ops.zeros([1, 1, 1, 1, 1]), [1, 9, 2, 2, 1], 1)],
     "conv3d_transpose: volumes [1, 9, 2, 2, 1] filtered by [1, 1, 1, 1, 1] give [1, 9, 2, 2, 1] but there is [1, 2, 2, 2, 1]"),
]


@pytest.mark.parametrize("number", range(len(RUNNING)))
def test_while_running(number: int) -> None:
    build, text = RUNNING[number]
    with wb.Session() as session, pytest.raises(errors.Error, match=re.escape(text)):
        session.run(build())


def test_damaged_compression_is_named() -> None:
    with pytest.raises(errors.DataLossError, match="3 bytes are not ZLIB data"):
        evaluate([ops.decode_compressed(["abc"], compression_type="ZLIB")])


def test_hashes_of_known_strings() -> None:
    """Values that TensorFlow's documentation and tests give."""
    found = evaluate([ops.string_to_hash_bucket_fast(["a", "b", "c", "d"], 10), ops.string_to_hash_bucket(["a", "b", "c"], 10),
                      ops.string_to_hash_bucket_strong(["a", "b", "c"], 10, [98765, 132])])
    assert [f.tolist() for f in found] == [[9, 2, 2, 5], [8, 0, 7], [4, 2, 8]]


def test_random_numbers_are_repeatable() -> None:
    draws = [ops.random_gamma([3], [1.0, 2.0], seed=4), ops.random_poisson([5.0], [4], seed=4)]
    with wb.Session() as one, wb.Session() as other:
        for first, second in zip(one.run(draws), other.run(draws)):
            np.testing.assert_array_equal(first, second)
            assert first.shape in ((3, 2), (4, 1))


def test_a_glimpse_is_the_image_and_noise_around_it() -> None:
    image = ops.constant(np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1))
    glimpse = wb.image.extract_glimpse(image, [2, 2], [[1.0, 1.0]], centered=False, normalized=False)
    with wb.Session() as session:
        np.testing.assert_array_equal(session.run(glimpse)[0, :, :, 0], [[0, 1], [4, 5]])


def test_random_boxes_stay_in_the_image() -> None:
    found = wb.image.sample_distorted_bounding_box([20, 30, 3], [[[0.1, 0.1, 0.9, 0.9]]], seed=3, min_object_covered=0.2)
    with wb.Session() as session:
        for _ in range(20):
            begin, size, box = session.run(found)
            assert (begin[:2] >= 0).all() and (begin[:2] + size[:2] <= [20, 30]).all() and (begin[2], size[2]) == (0, -1)
            np.testing.assert_allclose(box[0, 0, 2:], (begin + size)[:2] / [20, 30], rtol=1e-6)


def test_greedy_and_beam_decoders_find_the_clear_path() -> None:
    logits = np.full((4, 1, 3), -9.0, np.float32)
    logits[[0, 1, 2, 3], 0, [0, 2, 0, 1]] = 9
    greedy, _ = wb.nn.ctc_greedy_decoder(logits, [4])
    beams, scores = wb.nn.ctc_beam_search_decoder(logits, [4], merge_repeated=False)
    with wb.Session() as session:
        assert session.run(greedy[0].values).tolist() == session.run(beams[0].values).tolist() == [0, 0, 1]
        assert session.run(scores)[0, 0] == pytest.approx(0, abs=1e-4)


def test_labels_without_a_path_have_an_infinite_loss_and_more_labels_than_steps_none() -> None:
    logits = ops.constant([[[1.0, 2.0, 0.5], [1.0, 2.0, 0.5]], [[0.3, 0.1, 0.2], [0.3, 0.1, 0.2]]])
    labels = sparse((2, 3), ((0, 0), (0, 1), (1, 0), (1, 1), (1, 2)), (1, 1, 0, 1, 0))
    loss = wb.nn.ctc_loss(labels, logits, [2, 2], ignore_longer_outputs_than_inputs=True)
    with wb.Session() as session:
        found, slope, share = session.run([loss, *wb.gradients(loss, [logits]), wb.nn.softmax(logits)])
    assert found.tolist() == [np.inf, 0] and not slope[:, 1].any()
    np.testing.assert_allclose(slope[:, 0], share[:, 0], rtol=1e-6)


def test_sets_of_rows() -> None:
    a, b = [[1, 2, 2], [5, 6, 7]], [[2, 3], [7, 5]]
    both = sparse_ops.set_intersection(a, b)
    with wb.Session() as session:
        assert session.run(both.values).tolist() == [2, 5, 7]
        assert session.run(sparse_ops.set_size(both)).tolist() == [1, 2]
