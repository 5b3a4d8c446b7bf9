"""Images, linear algebra and sets under the names of their modules; initializers by their moments."""
from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.opcases import ints, positive, reals
from tests.oracle.harness import Row, Table, check, same_story

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:densify")]
ROWS = Table()


def parts(found: Any) -> list[Any]:
    return [found.indices, found.values, found.dense_shape]


IMAGE, IMAGES = positive(5, 4, 3) / 3, positive(2, 5, 4, 3) / 3
SINGLE = ("float32",)
ROWS.each("image.rgb_to_hsv image.hsv_to_rgb", IMAGES, order=0)
ROWS.each("image.flip_left_right image.flip_up_down image.transpose_image image.rot90", IMAGE, modes=("known", "float32"))
ROWS.each("image.grayscale_to_rgb", positive(2, 3, 3, 1))
ROWS.row("image.resize_area", lambda tf, x: tf.image.resize_area(x, [3, 2]), IMAGES, order=0, modes=SINGLE)
ROWS.row("interpolated float64", lambda tf: [getattr(tf.image, n)(IMAGES.astype(np.float64), [3, 2]) for n in (
    "resize_area", "resize_bilinear", "resize_bicubic", "resize_nearest_neighbor", "resize_images")], order=0)
ROWS.row("image.resize", lambda tf, x: [tf.image.resize(x, [7, 3]), tf.image.resize(
    x, [2, 6], method=tf.image.ResizeMethod.NEAREST_NEIGHBOR)], IMAGES, order=1, modes=SINGLE)
for _name, _limits in {"random_brightness": (1e-7,), "random_hue": (0.0,), "random_contrast": (1.0, 1.0 + 1e-6),
                       "random_saturation": (1.0, 1.0 + 1e-6)}.items():
    ROWS.row(f"image.{_name} within nothing", lambda tf, x, n=_name, b=_limits: getattr(tf.image, n)(x, *b), IMAGE, order=0,
             modes=SINGLE, tolerance=1e-4)

SQUARE, RIGHT = reals(2, 3, 3) + 3 * np.eye(3), reals(2, 3, 2, seed=6)
NEAR: dict[str, Any] = {"tolerance": 1e-6, "modes": ("known", "constant")}
ROWS.each("linalg.solve linalg.triangular_solve", SQUARE, RIGHT, **NEAR)
ROWS.each("linalg.lstsq", reals(2, 4, 3, seed=5), reals(2, 4, 2), order=1, **NEAR)
ROWS.row("linalg.eigh", lambda tf, x: tf.linalg.eigh(x)[0], SQUARE + SQUARE.swapaxes(1, 2), order=1, **NEAR)
ROWS.row("linalg.band_part", lambda tf, x: tf.linalg.band_part(x, 1, 0), SQUARE)
ROWS.row("linalg.set_diag", lambda tf, x, d: tf.linalg.set_diag(x, d), SQUARE, reals(2, 3))


def signals(tf: Any) -> Any:
    """The module, which TensorFlow took out of contrib later."""
    return tf.signal if hasattr(tf, "signal") else tf.contrib.signal


SOUNDS, HEARD = reals(2, 41), ("known", "dims", "float32")
for _pad in (False, True):
    ROWS.row(f"signal.frame {_pad}", lambda tf, x, p=_pad: [
        signals(tf).frame(x, 9, 4, p, 0.5), signals(tf).frame(x, 2, 1, p, axis=0)], SOUNDS, modes=HEARD)
    ROWS.row(f"signal.stft {_pad}", lambda tf, x, p=_pad: tf.abs(signals(tf).stft(x, 12, 5, pad_end=p)), SOUNDS, order=1,
             modes=("float32",), tolerance=1e-4)
ROWS.row("signal.overlap_and_add", lambda tf, x: signals(tf).overlap_and_add(x, 2), reals(2, 4, 5), modes=HEARD)
ROWS.row("signal.inverse_stft", lambda tf, x: signals(tf).inverse_stft(signals(tf).stft(x, 8, 2), 8, 2, window_fn=signals(
    tf).inverse_stft_window_fn(2)), SOUNDS, order=1, modes=("float32",), tolerance=1e-4)
ROWS.row("signal windows", lambda tf: [made(n, periodic=p) for made in (
    signals(tf).hann_window, signals(tf).hamming_window) for n in (1, 5, 6) for p in (True, False)], order=0, modes=SINGLE)
ROWS.row("signal.linear_to_mel_weight_matrix", lambda tf: [signals(tf).linear_to_mel_weight_matrix(
    *options) for options in ((), (5, 33, 16000, 0, 7000))], order=0, modes=SINGLE)
ROWS.row("signal.mfccs_from_log_mel_spectrograms", lambda tf, x: signals(tf).mfccs_from_log_mel_spectrograms(x), reals(3, 7),
         order=1, modes=SINGLE)


def operated(make: Any) -> Any:
    """What a linear operator made of x does, with a right side."""
    def program(tf: Any, x: Any, side: Any) -> Any:
        made = make(tf.linalg, x)
        return [made.matmul(side), made.matmul(side, adjoint=True), made.solve(side), made.solve(side, adjoint=True),
                made.determinant(), made.log_abs_determinant(), made.trace(), made.diag_part(), made.to_dense(),
                made.add_to_tensor(x)]
    return program


for kind, make in {
        "LinearOperatorFullMatrix": lambda linalg, x: linalg.LinearOperatorFullMatrix(x),
        "LinearOperatorDiag": lambda linalg, x: linalg.LinearOperatorDiag(x[..., 0] + 3.0),
        "LinearOperatorLowerTriangular": lambda linalg, x: linalg.LinearOperatorLowerTriangular(x),
        "LinearOperatorIdentity": lambda linalg, x: linalg.LinearOperatorIdentity(3, [2], x.dtype),
        "LinearOperatorScaledIdentity": lambda linalg, x: linalg.LinearOperatorScaledIdentity(3, x[:, 0, 0] + 3.0),
        "LinearOperatorComposition": lambda linalg, x: linalg.LinearOperatorComposition(
            [linalg.LinearOperatorFullMatrix(x), linalg.LinearOperatorDiag(x[..., 0] + 3.0)]),
        "LinearOperatorLowRankUpdate": lambda linalg, x: linalg.LinearOperatorLowRankUpdate(
            linalg.LinearOperatorFullMatrix(x, is_square=True), x[..., :2], x[..., 0, :2] + 3.0, x[..., 1:])}.items():
    ROWS.row(f"linalg.{kind}", operated(make), SQUARE + 4 * np.eye(3), RIGHT, **NEAR)


def by_product(tf: Any, matrix: Any) -> Any:
    """An operator that knows its shape and its product alone."""
    class Product(tf.linalg.LinearOperator):      # type: ignore[misc, name-defined]
        def _shape(self) -> Any:
            return matrix.shape

        def _shape_tensor(self) -> Any:
            return tf.shape(matrix)

        def _matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
            return tf.matmul(matrix, x, transpose_a=adjoint, transpose_b=adjoint_arg)
    return Product(matrix.dtype, is_non_singular=True)


ROWS.row("linalg.LinearOperator", lambda tf, x, side: operated(lambda _, matrix: by_product(tf, matrix))(tf, x, side),
         SQUARE + 4 * np.eye(3), RIGHT, **NEAR)
ROWS.row("linalg.tensor_diag", lambda tf, x: [tf.linalg.tensor_diag(x), tf.linalg.tensor_diag_part(tf.linalg.tensor_diag(x))],
         reals(3), modes=("known", "constant", "float32"))
ROWS.each("math.divide_no_nan", reals(3, 4), np.array([1.0, 0.0, 2.0, -1.0]), order=1)
for _name in ("rfft2d", "rfft3d"):
    ROWS.row(f"spectral.{_name}", lambda tf, x, n=_name: tf.abs(getattr(tf.spectral, n)(x)), reals(2, 3, 4), order=0,
             modes=SINGLE, tolerance=2e-5)
for _name in ("irfft2d", "irfft3d"):
    ROWS.row(f"spectral.{_name}", lambda tf, x, y, n=_name: getattr(tf.spectral, n)(tf.complex(x, y)), reals(2, 3, 4),
             reals(2, 3, 4, seed=1), order=0, modes=SINGLE, tolerance=2e-5)
for _name in ("union", "intersection", "difference"):
    ROWS.row(f"sets.{_name}", lambda tf, a, b, n=_name: parts(getattr(tf.sets, n)(a, b)), ints([1, 2, 2], [3, 1, 5]),
             ints([2, 9], [5, 5]), order=0, modes=("known",))


# names that came after 1.4
UNIT, NEAR_ZERO = positive(2, 24, 26, 3) / 3, np.array([[0.0, 1.5, -2.0], [0.0, 0.5, 3.0]])
ROWS.each("image.psnr image.ssim", UNIT, UNIT[:, ::-1] * 0.9, np.array(1.0), order=1, modes=SINGLE, tolerance=1e-4)
ROWS.row("image.ssim of bytes", lambda tf, x, y: tf.image.ssim(tf.cast(x, "uint8"), tf.cast(y, "uint8"), 255),
         ints(*range(432)).reshape(1, 12, 12, 3) % 251, ints(*range(432)).reshape(1, 12, 12, 3) % 239, order=0, tolerance=1e-5)
ROWS.row("image.ssim_multiscale", lambda tf, x, y: tf.image.ssim_multiscale(x, y, 1.0, power_factors=(0.4, 0.6)), UNIT,
         UNIT * 0.8, order=0, modes=SINGLE, tolerance=1e-5)
ROWS.row("image.sobel_edges", lambda tf, x: tf.image.sobel_edges(x), positive(2, 5, 4, 3), order=1, modes=SINGLE)
for _size in ((9, 5), (4, 12), (3, 3)):
    ROWS.row(f"image.resize_image_with_pad {_size}", lambda tf, x, s=_size: tf.image.resize_image_with_pad(x, *s), IMAGES,
             order=1, modes=SINGLE)
ROWS.each("math.xlogy math.xdivy math.multiply_no_nan", NEAR_ZERO, positive(2, 3), order=1)
ROWS.each("math.xlogy math.xdivy", NEAR_ZERO, np.array([0.0, 2.0, 1.0]), order=0, label="nothing")
ROWS.each("math.xlog1py", NEAR_ZERO, positive(2, 3), order=0)
ROWS.each("math.reciprocal_no_nan", NEAR_ZERO, order=0)
ROWS.each("math.erfcinv", positive(4) / 4 + 0.1, order=1, tolerance=1e-6)
ROWS.row("math.polyval", lambda tf, x: tf.math.polyval([tf.cast(c, x.dtype) for c in (2.0, -1.0, 0.5)], x), reals(3))
for _name in ("reduce_std", "reduce_variance", "reduce_euclidean_norm"):
    ROWS.row(f"math.{_name}", lambda tf, x, n=_name: [getattr(tf.math, n)(x), getattr(tf.math, n)(x, 1, True)], reals(3, 4),
             order=1)
ROWS.row("linalg.matvec", lambda tf, a, b: [tf.linalg.matvec(a, b), tf.linalg.matvec(a, b[:, :3], transpose_a=True)],
         reals(2, 3, 4), reals(2, 4, seed=3), order=1)
ROWS.row("linalg.normalize", lambda tf, x: [*tf.linalg.normalize(x), *tf.linalg.normalize(x, ord=1, axis=-1)], reals(2, 3),
         order=1)
ROWS.row("linalg.pinv", lambda tf, x: tf.linalg.pinv(x), reals(2, 4, 3), order=0, modes=("known",), tolerance=1e-8)
ROWS.row("repeat", lambda tf, x: [tf.repeat(x, 2), tf.repeat(x, 3, axis=1), tf.repeat(x, [2, 0], axis=0)], reals(2, 3), order=1)
ROWS.row("where_v2", lambda tf, x, y: [tf.where_v2(x > 0.0, x, y), tf.where_v2(x > 0.0, x, 0.0), tf.where_v2(x > 0.0)],
         reals(2, 3), reals(3, seed=4), order=1)
for _name in ("update", "add", "sub"):
    ROWS.row(f"tensor_scatter_{_name}", lambda tf, x, i, u, n=_name: getattr(tf, f"tensor_scatter_{n}")(x, i, u), reals(3, 4),
             ints([2], [0]), reals(2, 4, seed=2), order=1)
ROWS.row("pools of sequences", lambda tf, x: [tf.nn.max_pool1d(x, 2, 2, "SAME"), tf.nn.avg_pool1d(x, [3], [2], "VALID")],
         reals(2, 7, 3), order=1, modes=("constant", "float32"))
ROWS.row("strings", lambda tf, x: [tf.strings.length(x), tf.strings.length(x, unit="UTF8_CHAR"), tf.strings.lower(x),
                                   tf.strings.upper(x), tf.strings.lower(x, encoding="utf-8"),
                                   tf.strings.regex_full_match(x, "A.*"), *[
                                       part for sep in (None, " ") for part in parts(
                                           tf.strings.split(x, sep=sep, result_type="SparseTensor"))]],
         np.array([b"A b", "\u00c4rger  x ".encode(), b""], object), order=0, modes=("known",))


@ROWS.cases()
def test_agrees(row: Row, mode: str) -> None:
    check(row, mode)


INITIALIZERS: dict[str, Callable[[Any], Any]] = {
    "initializers.he_normal": lambda tf: tf.initializers.he_normal(seed=1),
    "initializers.he_uniform": lambda tf: tf.initializers.he_uniform(seed=1),
    "initializers.lecun_normal": lambda tf: tf.initializers.lecun_normal(seed=1),
    "initializers.lecun_uniform": lambda tf: tf.initializers.lecun_uniform(seed=1),
}


@pytest.mark.parametrize("name", INITIALIZERS)
def test_moments_of_initializers(name: str) -> None:
    """Mean, deviation and extremes of 40,000 numbers; each library draws its own."""
    def story(tf: Any) -> Any:
        with tf.Session() as session:
            found = session.run(INITIALIZERS[name](tf)([200, 200]))
        return [np.asarray(f(found)) for f in (np.mean, np.std)] + [np.round(np.abs(found).max() / found.std(), 1)]
    same_story(story, 2e-3)


def orthogonal(tf: Any) -> Any:
    with tf.Session() as session:
        made = session.run(tf.initializers.orthogonal(gain=1.5, seed=1)([6, 4]))
    return [np.round(made.T @ made, 4)]


def decoded(tf: Any) -> Any:
    """An image of either kind by its first bytes."""
    pixels = tf.constant(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    with tf.Session() as session:
        return session.run([tf.image.decode_image(tf.image.encode_png(pixels)), tf.image.decode_image(
            tf.image.encode_png(pixels[..., :1]), channels=1)])


def files_of_images(tf: Any) -> Any:
    """A picture of Windows, a moving one, a part of a JPEG file and its shape."""
    pixels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    still, moving = io.BytesIO(), io.BytesIO()
    Image.fromarray(pixels).save(still, "BMP")
    first, second = (Image.fromarray(np.full((4, 5, 3), colour, np.uint8)) for colour in ((255, 0, 0), (0, 0, 255)))
    first.save(moving, "GIF", save_all=True, append_images=[second])
    with tf.Session() as session:
        encoded = session.run(tf.image.encode_jpeg(pixels))
        return session.run([tf.image.decode_bmp(still.getvalue()), tf.image.decode_gif(moving.getvalue()),
                            tf.shape(tf.image.decode_and_crop_jpeg(encoded, [1, 2, 3, 2])),
                            tf.image.extract_jpeg_shape(encoded)])


def flipped(tf: Any) -> Any:
    """A flip at random is one or none: their sum over both is the same."""
    image = tf.constant(np.arange(12, dtype=np.float32).reshape(2, 2, 3))
    with tf.Session() as session:
        return [np.isin(session.run(flip(image)), np.arange(12)).all() for flip in (
            tf.image.random_flip_left_right, tf.image.random_flip_up_down)]


def handles(tf: Any) -> Any:
    """A value that stays between steps."""
    kept = tf.get_session_handle(tf.constant([1.0, 2.0]))
    with tf.Session() as session:
        handle = session.run(kept)
        place, value = tf.get_session_tensor(handle.handle, "float32")
        found = session.run(value * 2.0, {place: handle.handle})
        gone, erase = tf.delete_session_tensor(handle.handle)
        session.run(erase, {gone: handle.handle})
        return [found]


def contained(tf: Any) -> Any:
    """Variables of a container are forgotten when it is reset."""
    with tf.container("box"):
        v = tf.Variable(3.0)
    with tf.Session() as session:
        session.run(v.initializer)
        tf.add_to_collections(["a", "b"], v)
        return [session.run(v), np.int32(len(tf.get_collection("a") + tf.get_collection("b")))]


def written(tf: Any) -> Any:
    """Arrays as protocol buffers and back, and what a device is called."""
    spec = tf.DeviceSpec(job="ps", task=1, device_type="CPU", device_index=0)
    return [*(tf.make_ndarray(tf.make_tensor_proto(x)) for x in ([[1.0, 2.0]], [1, 2], np.float64([3, 4]), [b"a", b"b"])),
            np.array(spec.to_string()), np.array(tf.DeviceSpec.from_string("/job:ps/task:1").job)]


@pytest.mark.parametrize("story", [orthogonal, decoded, files_of_images, flipped, handles, contained, written],
                         ids=lambda s: s.__name__)
def test_story(story: Callable[[Any], Any]) -> None:
    same_story(story, 1e-5)
