"""Sparse tensors, sets, strings, volumes, sequences without alignment, boxes and colours against TensorFlow."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.opcases import ints, positive, reals
from tests.oracle.harness import Row, Table, check, same_story

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:densify")]
ROWS = Table()
FIXED: dict[str, Any] = {"modes": ("known", "constant", "float32")}

PLACES = ints([1, 0], [0, 2], [0, 0], [2, 3], dtype=np.int64)
SORTED = ints([0, 0], [0, 2], [1, 0], [2, 3], dtype=np.int64)
V = reals(4)


def parts(sp: Any) -> list[Any]:
    return [sp.indices, sp.values, sp.dense_shape]


def sparse(name: str, program: Any, *inputs: Any, **options: Any) -> None:
    """`program(tf, a sparse matrix [3, 4], another)`."""
    def run(tf: Any, v: Any, *more: Any) -> Any:
        found = program(tf, tf.SparseTensor(SORTED, v, [3, 4]), *more)
        found = found if isinstance(found, (list, tuple)) else [found]
        return [t for item in found for t in (parts(item) if hasattr(item, "dense_shape") else [item])]
    ROWS.row(name, run, V, *inputs, **{**FIXED, "order": 1, **options})


ROWS.row("sparse_reorder", lambda tf, v: parts(tf.sparse_reorder(tf.SparseTensor(PLACES, v, [3, 4]))), V, order=1, **FIXED)
sparse("sparse_reshape", lambda tf, sp: [tf.sparse_reshape(sp, [2, -1]), tf.sparse_reshape(sp, [12])])
sparse("sparse_transpose", lambda tf, sp: [tf.sparse_transpose(sp), tf.sparse_transpose(sp, [0, 1])])
sparse("sparse_concat", lambda tf, sp: [tf.sparse_concat(0, [sp, sp]), tf.sparse_concat(1, [sp, sp, sp]), tf.sparse_concat(-1, [
    sp, tf.sparse_reshape(sp, [2, 6])], expand_nonconcat_dim=True)], order=0)
sparse("sparse_split", lambda tf, sp: [*tf.sparse_split(sp_input=sp, num_split=2, axis=1), *tf.sparse_split(
    sp_input=sp, num_split=2, axis=0)], order=0)
sparse("sparse_slice", lambda tf, sp: [tf.sparse_slice(sp, [0, 1], [2, 9]), tf.sparse_slice(sp, [1, 0], [2, 2])])
sparse("sparse_add", lambda tf, sp, w: [tf.sparse_add(sp, tf.SparseTensor(SORTED[1:3], w, [3, 4])), tf.sparse_add(
    sp, sp, thresh=1.5)], reals(2, seed=3), order=0)
sparse("sparse_add gradient", lambda tf, sp, w: tf.sparse_add(sp, tf.SparseTensor(SORTED[:2], w, [3, 4])).values,
       reals(2, seed=3))
sparse("sparse_add of a dense one", lambda tf, sp, d: [tf.sparse_add(sp, d), tf.sparse_add(d, sp)], reals(3, 4, seed=3))
sparse("sparse_maximum", lambda tf, sp, w: [tf.sparse_maximum(sp, tf.SparseTensor(SORTED[1:3], w, [3, 4])), tf.sparse_minimum(
    sp, tf.SparseTensor(SORTED[1:3], w, [3, 4]))], reals(2, seed=3), order=0)      # TensorFlow's own gradient raises
sparse("sparse_softmax", lambda tf, sp: tf.sparse_softmax(sp))
sparse("sparse_reduce_sum", lambda tf, sp: [tf.sparse_reduce_sum(sp), tf.sparse_reduce_sum(sp, 1), tf.sparse_reduce_sum(
    sp, [0], keep_dims=True)])
sparse("sparse_reduce_max", lambda tf, sp: [tf.sparse_reduce_max(sp), tf.sparse_reduce_max(sp, 1), tf.sparse_reduce_max(
    sp, [0], keep_dims=True)], order=0)
sparse("sparse_reduce to sparse", lambda tf, sp: [tf.sparse_reduce_sum_sparse(sp, 1), tf.sparse_reduce_max_sparse(
    sp, 0, keep_dims=True)], order=0)
sparse("sparse_reset_shape", lambda tf, sp: [tf.sparse_reset_shape(sp), tf.sparse_reset_shape(sp, [5, 9])])
sparse("sparse_fill_empty_rows", lambda tf, sp: [*tf.sparse_fill_empty_rows(tf.sparse_reset_shape(sp, [5, 4]), tf.cast(
    7, sp.dtype))])
sparse("sparse_retain", lambda tf, sp: tf.sparse_retain(sp, [True, False, True, False]))
sparse("sparse_to_indicator", lambda tf, sp: tf.sparse_to_indicator(tf.SparseTensor(SORTED, tf.constant(
    [1, 3, 3, 0], "int64"), [3, 4]), 5), order=0)
sparse("sparse_merge", lambda tf, sp: tf.sparse_merge(tf.SparseTensor(SORTED, tf.constant([3, 1, 2, 0], "int64"), [3, 4]), sp,
                                                      5))
sparse("operators", lambda tf, sp, d: [sp * d, sp / d], positive(3, 4))
sparse("serialize", lambda tf, sp: tf.deserialize_many_sparse(tf.serialize_many_sparse(sp), sp.dtype), order=0)
sparse("serialize one", lambda tf, sp: tf.deserialize_many_sparse(tf.stack([tf.serialize_sparse(sp)] * 2), sp.dtype, rank=2),
       order=0)
ROWS.row("sparse_mask", lambda tf, v: [tf.sparse_mask(tf.IndexedSlices(v, tf.constant([4, 1, 7])), [1, 9]).values], reals(3, 2),
         order=0, **FIXED)
A, B = ints([1, 2, 2], [5, 6, 7]), ints([2, 3], [7, 5])
ROWS.row("sets of dense rows", lambda tf, a, b: [t for sp in (tf.sets.set_intersection(a, b), tf.sets.set_union(a, b), tf.sets.
         set_difference(a, b), tf.sets.set_difference(a, b, aminusb=False)) for t in parts(sp)], A, B, order=0,
         modes=("known", "constant"))
ROWS.row("set_size", lambda tf: tf.sets.set_size(tf.SparseTensor(SORTED, tf.constant([1, 1, 2, 3]), [3, 4])), order=0)

# strings
WORDS = np.array([[b"a", b"bc", b""], [b"def", b"g", b"hij"]], object)
TEXT: dict[str, Any] = {"order": 0, "modes": ("known", "dims", "constant")}
ROWS.row("reduce_join", lambda tf, x: [tf.reduce_join(x, 0), tf.reduce_join(x, -1, separator="-"), tf.reduce_join(
    x, [0, 1]), tf.reduce_join(x, [1, 0]), tf.reduce_join(x, 0, keep_dims=True), tf.reduce_join(x)], WORDS, **TEXT)
ROWS.row("substr", lambda tf, x: [tf.substr(x, 0, 1), tf.substr(x[1, 0], 1, 2)], WORDS, **TEXT)
ROWS.row("base64", lambda tf, x: [tf.encode_base64(x), tf.encode_base64(x, pad=True), tf.decode_base64(tf.encode_base64(x)),
                                  tf.decode_base64(tf.encode_base64(x, pad=True))], WORDS, **TEXT)
LONGER = np.array([bytes(range(65, 65 + n % 58)) * (1 + n // 58) for n in range(0, 200, 3)] + [b"x" * 1000], object)
ROWS.row("hashes", lambda tf, x: [tf.string_to_hash_bucket(x, 10**9), tf.string_to_hash_bucket_fast(x, 10**9 + 7),
                                  tf.string_to_hash_bucket_strong(x, 10**9, [123, 456])], LONGER, **TEXT)
ROWS.row("string_strip", lambda tf, x: tf.string_strip(x), np.array([b"  a b\n", b""], object), **TEXT)
ROWS.row("regex_replace", lambda tf, x: [tf.regex_replace(x, "[a-d]", "_"), tf.regex_replace(x, "(d)e", r"<\1>",
                                                                                          replace_global=False)], WORDS, **TEXT)

# volumes
X3, F3 = reals(1, 4, 5, 4, 2), reals(2, 3, 2, 2, 3, seed=1)
for _padding in ("SAME", "VALID"):
    for _strides in ([1, 1, 1, 1, 1], [1, 2, 1, 2, 1]):
        ROWS.row(f"conv3d {_padding} {_strides}", lambda tf, x, f, p=_padding, s=_strides: tf.nn.conv3d(x, f, s, p), X3, F3,
                 order=1, tolerance=2e-5)
        ROWS.row(f"pool3d {_padding} {_strides}", lambda tf, x, p=_padding, s=_strides: [
            tf.nn.max_pool3d(x, [1, 2, 3, 2, 1], s, p), tf.nn.avg_pool3d(x, [1, 2, 3, 2, 1], s, p)], X3, order=2,
            modes=("float32",), tolerance=2e-5)
ROWS.row("conv3d_transpose", lambda tf, v, f: tf.nn.conv3d_transpose(v, f, [1, 4, 5, 4, 2], [1, 2, 2, 2, 1]),
         reals(1, 2, 3, 2, 3), F3, order=1, tolerance=2e-5)
ROWS.row("conv3d_backprop_filter_v2", lambda tf, x, dy: tf.nn.conv3d_backprop_filter_v2(x, [2, 3, 2, 2, 3], dy, [1] * 5,
                                                                                        "VALID"),
         X3, reals(1, 3, 3, 3, 3), order=1, tolerance=2e-5)
for _count, _x, _f in ((1, X3[:, 0, :, 0], F3[0, :, 0]), (2, X3[:, 0], F3[0]), (3, X3, F3)):
    for _padding in ("SAME", "VALID"):
        ROWS.row(f"convolution {_count} {_padding}", lambda tf, x, f, p=_padding, n=_count: [
            tf.nn.convolution(x, f, p), tf.nn.convolution(x, f, p, strides=[2] * n)], _x, _f, order=1, tolerance=2e-5,
            modes=("known", "constant", "float32"))
        ROWS.row(f"pool {_count} {_padding}", lambda tf, x, p=_padding, n=_count: [
            tf.nn.pool(x, [2] * n, k, p, strides=[s] * n) for k in ("MAX", "AVG") for s in (1, 2)], _x, order=1,
            modes=("float32",), tolerance=2e-5)
    ROWS.row(f"convolution {_count} dilated", lambda tf, x, f, n=_count: tf.nn.convolution(
        x, f, "VALID", dilation_rate=[1] * (n - 1) + [2]), X3[:, 0, :, 0] if _count == 1 else _x, _f, order=1, tolerance=2e-5,
        modes=("known", "float32"))

# sequences
LOGITS = reals(6, 2, 4)


def labels(tf: Any) -> Any:
    return tf.SparseTensor(ints([0, 0], [0, 1], [1, 0], [1, 1], [1, 2], dtype=np.int64), tf.constant([1, 1, 0, 2, 0]), [2, 3])


ROWS.row("ctc_loss", lambda tf, x: tf.nn.ctc_loss(labels(tf), x, [6, 5]), LOGITS, order=1, tolerance=1e-4)
ROWS.row("ctc_loss options", lambda tf, x: [tf.nn.ctc_loss(labels(tf), x, [6, 5], preprocess_collapse_repeated=True),
                                            tf.nn.ctc_loss(
    labels(tf), x, [6, 5], ctc_merge_repeated=False), tf.nn.ctc_loss(labels(tf), x, [2, 6],
                                                                     ignore_longer_outputs_than_inputs=True)], LOGITS, order=1,
    tolerance=1e-4)
ROWS.row("ctc_loss of more labels than steps", lambda tf, x: tf.nn.ctc_loss(labels(tf), x, [6, 1],
                                                                           ignore_longer_outputs_than_inputs=True), LOGITS,
         order=1, tolerance=1e-4)
ROWS.row("ctc_loss by batches", lambda tf, x: tf.nn.ctc_loss(labels(tf), x, [6, 6], time_major=False), reals(2, 6, 4), order=1,
         tolerance=1e-4)
ROWS.row("ctc_greedy_decoder", lambda tf, x: [t for merge in (True, False) for found in [tf.nn.ctc_greedy_decoder(
    x, [6, 4], merge_repeated=merge)] for t in (*parts(found[0][0]), found[1])], LOGITS, order=0)
ROWS.row("ctc_beam_search_decoder", lambda tf, x: [t for merge in (True, False) for found in [tf.nn.ctc_beam_search_decoder(
    x, [6, 4], beam_width=20, top_paths=3, merge_repeated=merge)] for t in (*[p for sp in found[0] for p in parts(sp)],
                                                                            found[1])],
    reals(6, 2, 4, seed=4) * 3, order=0, tolerance=1e-5, modes=("float32",))

# boxes and colours
IMAGE = positive(2, 5, 6, 3) / 3
BOXES = np.array([[0.1, 0.2, 0.8, 0.9], [0.0, 0.0, 1.0, 1.0], [0.7, 0.9, 0.1, 0.2], [-0.2, 0.1, 1.2, 0.8]])
for _method in ("bilinear", "nearest"):
    ROWS.row(f"crop_and_resize {_method}", lambda tf, x, b, m=_method: tf.image.crop_and_resize(
        x, b, [0, 1, 1, 0], [4,
                             3], method=m, extrapolation_value=0.5), IMAGE, BOXES, order=1, modes=("float32",), tolerance=1e-4)
ROWS.row("non_max_suppression", lambda tf, b, s: [tf.image.non_max_suppression(b, s, 3), tf.image.non_max_suppression(
    b, s, 9, iou_threshold=0.2)], positive(9, 4).astype(np.float32), reals(9).astype(np.float32), order=0, modes=("known",))
ROWS.row("non_max_suppression_padded", lambda tf, b, s: [
    tf.image.non_max_suppression(b, s, 9, 0.2, score_threshold=0.1), *tf.image.non_max_suppression_padded(b, s, 4, 0.2, 0.1),
    *tf.image.non_max_suppression_padded(b, s, 12, 0.2, pad_to_max_output_size=True)],
    np.cumsum(positive(9, 2, 2), 1).reshape(9, 4).astype(np.float32), reals(9).astype(np.float32), order=0, modes=("known",))
ROWS.row("draw_bounding_boxes", lambda tf, x, b: tf.image.draw_bounding_boxes(x, tf.stack([b, b])), IMAGE, BOXES, order=0,
         modes=("float32",))
ROWS.each("image.rgb_to_yiq image.yiq_to_rgb image.rgb_to_yuv image.yuv_to_rgb", IMAGE, tolerance=1e-6)
ROWS.row("total_variation", lambda tf, x: [tf.image.total_variation(x), tf.image.total_variation(x[0])], IMAGE, order=1)
ROWS.row("image_gradients", lambda tf, x: [*tf.image.image_gradients(x)], IMAGE, order=1, modes=("known", "float32"))
for _c in (True, False):
    ROWS.row(f"extract_glimpse {_c}", lambda tf, x, c=_c: tf.image.extract_glimpse(
        x, [2, 3], [[0.1, 0.2], [0.3, -0.1]] if c else [[1.0, 2.0], [3.0, 3.0]], centered=c, normalized=c), IMAGE, order=0,
        modes=("float32",))


@ROWS.cases()
def test_agrees(row: Row, mode: str) -> None:
    check(row, mode)


def test_distributions_have_the_same_moments() -> None:
    def story(tf: Any) -> Any:
        with tf.Session() as session:
            tf.set_random_seed(1)
            drawn = session.run([tf.random_gamma([20000], [0.5, 3.0], [1.0, 2.0]), tf.random_poisson([0.7, 9.0], [20000])])
        exact = ([0.5, 1.5], [0.5 ** 0.5, 0.75 ** 0.5]), ([0.7, 9.0], [0.7 ** 0.5, 3.0])
        near = [np.allclose(f(d, 0), e, atol=0.1) for d, pair in zip(drawn, exact) for f, e in zip((np.mean, np.std), pair)]
        return [np.array(near), *(np.array(d.shape) for d in drawn)]
    same_story(story)


def test_samplers_expect_the_same_counts() -> None:
    def story(tf: Any) -> Any:
        with tf.Session() as session:
            true = tf.constant([[0, 2]], "int64")
            fixed = session.run(tf.nn.fixed_unigram_candidate_sampler(true, 2, 3, False, 3, unigrams=[1, 2, 5], distortion=0.5))
            every = session.run(tf.nn.all_candidate_sampler(true, 2, 3, True))
            learned = session.run(tf.nn.learned_unigram_candidate_sampler(true, 2, 3, False, 4))
        return [fixed[1], *every, learned[1]]
    same_story(story)


def test_random_boxes_lie_within_the_image() -> None:
    def story(tf: Any) -> Any:
        with tf.Session() as session:
            found = session.run(tf.image.sample_distorted_bounding_box([40, 60, 3], [[[0.2, 0.2, 0.8, 0.9]]], seed=1,
                                                                       min_object_covered=0.3))
        begin, size, box = found
        assert begin[2] == 0 and size[2] == -1 and (begin[:2] + size[:2] <= [40, 60]).all() and (begin >= 0).all()
        return [np.array(f.shape) for f in found] + [begin.dtype.name.encode(), np.array(box.dtype.kind == "f")]
    same_story(story)
