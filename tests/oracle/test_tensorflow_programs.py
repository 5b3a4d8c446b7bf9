"""What programs are made of, beyond single operations, against TensorFlow: sampled losses, images, metrics, records."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.oracle.harness import compared
from workbench.train import Example, Feature, Features, FloatList, Int64List
from workbench.train.input.examples import TFRecordWriter, tf_record_iterator

pytestmark = pytest.mark.oracle
RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def tf() -> Any:
    """TensorFlow's version 1 names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("tensorflow", reason="TensorFlow is not installed: nothing is compared").compat.v1


def both(tf: Any, build: Callable[[Any], Any], feeds: Callable[[Any], Any] | None = None) -> tuple[Any, Any]:
    """The values that `build` gives with our names and with TensorFlow's."""
    found = []
    for names in (wb, tf):
        with names.Graph().as_default(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = build(names)
            with names.Session() as session:
                session.run([names.global_variables_initializer(), names.local_variables_initializer()])
                found.append(session.run(made))
    return found[0], found[1]


def same(tf: Any, build: Callable[[Any], Any], rtol: float = 1e-4, atol: float = 2e-5) -> None:
    ours, theirs = both(tf, build)
    for mine, other in zip(_leaves(ours), _leaves(theirs)):
        compared("values")
        mine, other = np.asarray(mine), np.asarray(other)
        assert mine.shape == other.shape and mine.dtype == other.dtype
        exact = other.dtype.kind in "iub"
        np.testing.assert_allclose(mine, other, rtol=0 if exact else rtol, atol=0 if exact else atol)


def _leaves(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in _leaves(part)] if isinstance(value, (list, tuple)) else [value]


# sampled losses

TABLE, OFFSETS = RNG.normal(size=(10, 4)).astype(np.float32), RNG.normal(size=10).astype(np.float32)
INPUTS, LABELS = RNG.normal(size=(3, 4)).astype(np.float32), np.int64([[1, 2], [3, 3], [7, 0]])
DRAWN = (np.int64([1, 5, 7]), np.float32([[0.5, 0.4], [0.3, 0.3], [0.1, 0.9]]), np.float32([0.5, 0.2, 0.1]))


@pytest.mark.parametrize("remove", [False, True])
@pytest.mark.parametrize("name", ["nce_loss", "sampled_softmax_loss"])
def test_sampled_losses_and_their_gradients(tf: Any, name: str, remove: bool) -> None:
    def build(names: Any) -> Any:
        weights, biases, inputs = names.Variable(TABLE), names.Variable(OFFSETS), names.constant(INPUTS)
        loss = getattr(names.nn, name)(weights, biases, LABELS, inputs, 3, 10, 2, remove_accidental_hits=remove,
                                       sampled_values=tuple(names.constant(part) for part in DRAWN))
        slopes = names.gradients(loss, [weights, biases, inputs])
        return [loss, *[names.convert_to_tensor(s) for s in slopes]]
    same(tf, build)


def test_accidental_hits(tf: Any) -> None:
    same(tf, lambda names: list(names.nn.compute_accidental_hits(LABELS, DRAWN[0], 2)))


# images

FLOATS = RNG.random((2, 5, 7, 3)).astype(np.float32)
BYTES = RNG.integers(0, 256, (2, 6, 5, 3)).astype(np.uint8)


@pytest.mark.parametrize("size", [(3, 4), (9, 11), (5, 14), (1, 1)])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("method", range(4))
def test_resizing(tf: Any, method: int, align: bool, size: tuple[int, int]) -> None:
    for images in (FLOATS, BYTES):
        same(tf, lambda names, x=images: names.image.resize_images(x, size, method, align_corners=align), atol=1e-4)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("name", ["resize_bilinear", "resize_nearest_neighbor", "resize_bicubic"])
def test_gradients_of_resizing(tf: Any, name: str, align: bool) -> None:
    def build(names: Any) -> Any:
        images = names.constant(FLOATS)
        return names.gradients(names.square(getattr(names.image, name)(images, [8, 4], align_corners=align)), images)
    same(tf, build)


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "gray": lambda i, x: i.rgb_to_grayscale(x), "brightness": lambda i, x: i.adjust_brightness(x, 0.3),
    "contrast": lambda i, x: i.adjust_contrast(x, 1.7), "hue": lambda i, x: i.adjust_hue(x, 0.2),
    "saturation": lambda i, x: i.adjust_saturation(x, 1.6), "standardization": lambda i, x: i.per_image_standardization(x),
    "crop or pad": lambda i, x: i.resize_image_with_crop_or_pad(x, 4, 9),
    "pad or crop": lambda i, x: i.resize_image_with_crop_or_pad(x, 9, 4), "middle": lambda i, x: i.central_crop(x, 0.5),
    "gamma": lambda i, x: i.adjust_gamma(x, 1.3), "a turn": lambda i, x: i.rot90(x, 1), "three": lambda i, x: i.rot90(x, 3),
    "box": lambda i, x: i.pad_to_bounding_box(i.crop_to_bounding_box(x, 1, 2, 3, 2), 1, 1, 8, 8),
    "bytes": lambda i, x: i.convert_image_dtype(x, "uint8", saturate=True)}


@pytest.mark.parametrize("change", CHANGES)
def test_images(tf: Any, change: str) -> None:
    for images in (FLOATS, BYTES, FLOATS[0], BYTES[0]):
        same(tf, lambda names, x=images: CHANGES[change](names.image, x))


def test_png_and_jpeg_files(tf: Any) -> None:
    smooth = np.add.outer(np.arange(32), np.arange(16)).astype(np.uint8)[..., None].repeat(3, 2) * 4
    ours, theirs = both(tf, lambda names: [names.image.encode_png(BYTES[0]), names.image.encode_jpeg(smooth)])
    for files in (ours, theirs):      # each reads both
        png, jpeg = (np.asarray(file, object).item() for file in files)
        same(tf, lambda names, raw=png: names.image.decode_png(raw))
        mine, other = both(tf, lambda names, raw=jpeg: names.image.decode_jpeg(raw))
        assert abs(mine.astype(int) - other).max() <= 4      # decoders round differently


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("own", [1, 2, 3, 4])
def test_png_files_of_8_and_16_bits(tf: Any, dtype: str, own: int) -> None:
    pixels = RNG.integers(0, np.iinfo(dtype).max, (5, 7, own), endpoint=True).astype(dtype)
    for file in both(tf, lambda names: names.image.encode_png(names.constant(pixels))):
        raw = np.asarray(file, object).item()
        for channels in (0, 1, 3, 4):
            for wanted in ("uint8", "uint16"):
                mine, other = both(tf, lambda names, c=channels, d=wanted, r=raw: names.image.decode_png(r, c, d))
                np.testing.assert_array_equal(mine, other)


# metrics

@pytest.mark.parametrize("name", ["accuracy", "mean_squared_error", "mean_absolute_error", "root_mean_squared_error",
                                  "precision", "recall", "auc", "true_positives", "false_negatives"])
@pytest.mark.parametrize("weighted", [False, True])
def test_metrics(tf: Any, name: str, weighted: bool) -> None:
    labels, scores, weights = (RNG.integers(0, 2, 20), RNG.random(20).astype(np.float32),
                               RNG.random(20).astype(np.float32))
    if name not in ("auc",) and "error" not in name:
        scores = (scores > 0.5).astype(np.int64)
    if "error" in name:
        labels = labels.astype(np.float32)
    same(tf, lambda names: getattr(names.metrics, name)(labels, scores, weights if weighted else None)[1])


# text, sparse tensors, files

def test_text_and_sparse_tensors(tf: Any) -> None:
    def build(names: Any) -> Any:
        cells = names.decode_csv(["1,2.5,x", ",,"], [[7], [0.5], ["-"]])[:2]
        a = names.SparseTensor([[0, 0], [0, 1], [1, 0]], np.int64([1, 2, 3]), [2, 2])
        b = names.SparseTensor([[0, 0], [1, 0], [1, 1]], np.int64([2, 3, 4]), [2, 2])
        matrix = names.SparseTensor([[0, 1], [1, 2]], np.float32([2, 3]), [2, 3])
        return [*cells, names.decode_raw(["abcd", "efgh"], names.int16), names.edit_distance(a, b),
                names.sparse_tensor_dense_matmul(matrix, np.ones((3, 2), np.float32)),
                names.sparse_to_dense([1, 3], [5], [2.0, 4.0], -1.0)]
    same(tf, build)


def test_record_files(tf: Any, tmp_path: Any) -> None:
    path = str(tmp_path / "r")
    with TFRecordWriter(path) as writer:
        for number in range(3):
            features = Features(feature={"x": Feature(float_list=FloatList(value=[number] * 500)),
                                         "n": Feature(int64_list=Int64List(value=[-number]))})
            writer.write(Example(features=features).SerializeToString())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = [tf.train.Example.FromString(r) for r in tf.io.tf_record_iterator(path)]
    assert [e.features.feature["n"].int64_list.value[0] for e in theirs] == [0, -1, -2]
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(theirs[2].SerializeToString())
    ours, = [Example.FromString(r) for r in tf_record_iterator(path)]
    assert ours.features.feature["x"].float_list.value == [2.0] * 500
