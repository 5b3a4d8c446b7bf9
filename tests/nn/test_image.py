"""Images against NumPy, the standard library and Pillow: size, crops, flips, colours, files; unknown sizes; errors."""
from __future__ import annotations

import colorsys
import io
import re

import numpy as np
import pytest
from PIL import Image

import workbench as wb
from tests.running import run
from workbench import errors, image

pytestmark = pytest.mark.usefixtures("graph")
SEED = 4
RNG = np.random.default_rng(6)
FLOATS = RNG.uniform(size=(5, 7, 3)).astype(np.float32)
BYTES = RNG.integers(0, 256, (6, 5, 3)).astype(np.uint8)


def everywhere(function, x):
    """The value for one image, for it in a batch, and with unknown sizes: all the same."""
    unknown = wb.placeholder(x.dtype, [None, None, x.shape[-1]])
    batch = np.stack([x, x[::-1]])
    one, many, fed = run([function(x), function(batch), function(unknown)], {unknown: x})
    np.testing.assert_array_equal(one, fed)
    np.testing.assert_allclose(many[0].astype(np.float64), one, rtol=1e-6)
    return one


# size

@pytest.mark.parametrize("method", range(4))
def test_resizing(method: int):
    made = image.resize_images(BYTES, [3, 5], method)
    assert made.shape == [3, 5, 3] and made.dtype is (wb.uint8 if method == 1 else wb.float32)
    everywhere(lambda x: image.resize_images(x, [3, 4], method), BYTES)
    steps = np.arange(0.0, 8.0, dtype=np.float32).reshape(8, 1, 1).repeat(2, 1)
    found = run(image.resize_images(steps, [4, 2], method))[:, 0, 0]
    assert found.tolist() == ([0.5, 2.5, 4.5, 6.5] if method == image.ResizeMethod.AREA else [0, 2, 4, 6])


def test_interpolated_images_are_float32():
    """As TensorFlow gives them for float64 as well: NumPy's pictures that were divided by 255 meet weights of float32."""
    picture = np.linspace(0.0, 1.0, 12).reshape(1, 2, 2, 3)
    for resize in (image.resize_bilinear, image.resize_bicubic, image.resize_area):
        assert resize(picture, [3, 3]).dtype is wb.float32
    assert image.resize_images(picture, [3, 3]).dtype is wb.float32 and image.resize_images(picture, [2, 2]).dtype is wb.float64
    assert image.resize_nearest_neighbor(picture, [3, 3]).dtype is wb.float64


def test_one_column_whose_corners_stay_is_copied():
    column = np.arange(3.0, dtype=np.float32).reshape(1, 3, 1, 1)
    assert run(image.resize_area(column, [3, 2], align_corners=True))[0, :, :, 0].tolist() == [[0, 0], [1, 1], [2, 2]]


def test_corners_may_stay():
    row = np.float32([0, 1, 2]).reshape(1, 1, 3, 1)
    assert run(image.resize_bilinear(row, [1, 5], align_corners=True)).ravel().tolist() == [0, 0.5, 1, 1.5, 2]
    assert run(image.resize_bilinear(row, [1, 6])).ravel().tolist() == [0, 0.5, 1, 1.5, 2, 2]
    assert run(image.resize_nearest_neighbor(row, [1, 4], align_corners=True)).ravel().tolist() == [0, 1, 1, 2]
    assert run(image.resize_bicubic(row, [1, 2])).shape == run(image.resize_area(row, [1, 2])).shape == (1, 1, 2, 1)


def test_an_image_of_the_wanted_size_stays_and_two_numbers_are_a_size():
    assert image.resize_images(BYTES, [6, 5]).dtype is wb.uint8
    assert image.resize_images(BYTES, 3, 4).shape == [3, 4, 3]


def test_resizing_has_a_gradient_and_integers_have_none():
    x = wb.placeholder("float32", [1, 2, 2, 1])
    slope, = wb.gradients(wb.reduce_sum(image.resize_bilinear(x, [4, 4])), x)
    assert run(slope, {x: np.zeros((1, 2, 2, 1))}).sum() == 16
    whole = wb.placeholder("int32", [1, 2, 2, 1])
    assert wb.gradients(wb.reduce_sum(image.resize_bilinear(whole, [4, 4])), whole) == [None]


# crops and pads

def test_crops_and_pads():
    np.testing.assert_array_equal(everywhere(lambda x: image.crop_to_bounding_box(x, 1, 2, 3, 2), BYTES),
                                  BYTES[1:4, 2:4])
    np.testing.assert_array_equal(everywhere(lambda x: image.pad_to_bounding_box(x, 1, 2, 9, 8), BYTES),
                                  np.pad(BYTES, ((1, 2), (2, 1), (0, 0))))
    np.testing.assert_array_equal(everywhere(lambda x: image.resize_image_with_crop_or_pad(x, 3, 8), BYTES),
                                  np.pad(BYTES[1:4], ((0, 0), (1, 2), (0, 0))))
    np.testing.assert_array_equal(everywhere(lambda x: image.central_crop(x, 0.5), BYTES), BYTES[1:5, 1:4])
    assert image.resize_image_with_crop_or_pad(BYTES, 3, 8).shape == [3, 8, 3]


# flips

def test_flips_and_turns():
    for function, value in ((image.flip_left_right, BYTES[:, ::-1]), (image.flip_up_down, BYTES[::-1]),
                            (image.transpose_image, BYTES.swapaxes(0, 1))):
        np.testing.assert_array_equal(everywhere(function, BYTES), value)
    for turns in range(-1, 5):
        np.testing.assert_array_equal(run(image.rot90(BYTES, turns)), np.rot90(BYTES, turns))


@pytest.mark.parametrize(("function", "axis"), [(image.random_flip_left_right, 1), (image.random_flip_up_down, 0)])
def test_random_flips_happen_half_of_the_time(function, axis: int):
    one, many = function(BYTES), function(np.stack([BYTES] * 200))
    assert one.shape == BYTES.shape
    turned = np.flip(BYTES, axis)
    with wb.Session() as session:
        found = [session.run(one) for _ in range(40)]
        assert all((f == BYTES).all() or (f == turned).all() for f in found)
        assert 5 < sum((f == turned).all() for f in found) < 35
        assert 60 < sum((f == turned).all() for f in session.run(many)) < 140


# colours

def test_dtypes_and_their_ranges():
    assert run(image.convert_image_dtype(np.uint8([0, 255]), wb.float32)).tolist() == [0, 1]
    assert run(image.convert_image_dtype(np.float32([0, 0.5, 1]), wb.uint8)).tolist() == [0, 127, 255]
    assert run(image.convert_image_dtype(np.float32([-1, 2]), wb.uint8, saturate=True)).tolist() == [0, 255]
    assert run(image.convert_image_dtype(np.uint8([1, 255]), wb.int16)).tolist() == [128, 32640]
    assert run(image.convert_image_dtype(np.int16([128, 32767]), wb.uint8)).tolist() == [1, 255]
    with pytest.raises(errors.DtypeError, match="bool to float32 has no meaning; use integers and floats"):
        image.convert_image_dtype([True], wb.float32)


def test_gray_and_back():
    gray = run(image.rgb_to_grayscale(FLOATS))
    np.testing.assert_allclose(gray[..., 0], FLOATS @ [0.2989, 0.587, 0.114], rtol=1e-5)
    assert run(image.rgb_to_grayscale(BYTES)).dtype == np.uint8
    np.testing.assert_array_equal(run(image.grayscale_to_rgb(gray)), gray.repeat(3, 2))


def test_brightness_contrast_gamma_and_standardization():
    np.testing.assert_allclose(everywhere(lambda x: image.adjust_brightness(x, 0.2), FLOATS), FLOATS + 0.2, rtol=1e-6)
    assert run(image.adjust_brightness(np.uint8([[[250]]]), 0.1)).item() == 255
    mean = FLOATS.mean((0, 1))
    np.testing.assert_allclose(everywhere(lambda x: image.adjust_contrast(x, 2.0), FLOATS), (FLOATS - mean) * 2 + mean,
                               rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run(image.adjust_gamma(FLOATS, 2, 0.5)), FLOATS ** 2 / 2, rtol=1e-5)
    standard = everywhere(image.per_image_standardization, FLOATS)
    np.testing.assert_allclose([standard.mean(), standard.std()], [0, 1], atol=1e-5)
    assert run(image.per_image_standardization(np.full((2, 2, 1), 7, np.uint8))).tolist() == np.zeros((2, 2, 1)).tolist()


def test_hue_and_saturation():
    def by_hand(change):
        return np.array([[colorsys.hsv_to_rgb(*change(*colorsys.rgb_to_hsv(*p))) for p in row] for row in FLOATS])
    np.testing.assert_allclose(everywhere(lambda x: image.adjust_hue(x, -0.3), FLOATS),
                               by_hand(lambda h, s, v: ((h - 0.3) % 1, s, v)), atol=1e-5)
    np.testing.assert_allclose(everywhere(lambda x: image.adjust_saturation(x, 1.5), FLOATS),
                               by_hand(lambda h, s, v: (h, min(1, s * 1.5), v)), atol=1e-5)


def test_random_colours_lie_in_their_range():
    flat = np.full((2, 2, 3), 0.5, np.float32)
    bright = image.random_brightness(flat, 0.25)
    stronger = image.random_contrast(FLOATS, 0.5, 2.0)
    with wb.Session() as session:
        found = [session.run(bright)[0, 0, 0] - 0.5 for _ in range(50)]
        assert min(found) < -0.1 and max(found) > 0.1 and max(map(abs, found)) <= 0.25
        spreads = [session.run(stronger).std() / FLOATS.std() for _ in range(20)]
        assert min(spreads) > 0.45 and max(spreads) < 2.1 and max(spreads) / min(spreads) > 1.5
        for made in (image.random_hue(FLOATS, 0.2), image.random_saturation(FLOATS, 0.5, 1.5)):
            assert abs(session.run(made) - session.run(made)).max() > 1e-3


# files

def test_png_files_are_exact_in_both_directions():
    for channels, mode in ((1, "L"), (3, "RGB"), (4, "RGBA")):
        pixels = RNG.integers(0, 256, (4, 5, channels)).astype(np.uint8)
        encoded, = run([image.encode_png(pixels)])
        with Image.open(io.BytesIO(encoded)) as picture:
            assert picture.mode == mode and picture.size == (5, 4)
        np.testing.assert_array_equal(run(image.decode_png(encoded)), pixels)
    assert run(image.decode_png(run(image.encode_png(BYTES)), channels=1)).shape == (6, 5, 1)
    assert image.decode_image(wb.placeholder(wb.string, []), channels=3).shape == [None, None, 3]


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_png_files_of_16_bits_are_exact_in_both_directions(channels):
    pixels = RNG.integers(0, 65536, (4, 5, channels)).astype(np.uint16)
    encoded = run(image.encode_png(wb.constant(pixels), compression=channels))
    assert (encoded[24], run(image.encode_png(pixels))[:30] == encoded[:30]) == (16, True)
    decoded = image.decode_png(encoded, dtype=wb.uint16)
    assert decoded.dtype is wb.uint16
    np.testing.assert_array_equal(run(decoded), pixels)
    np.testing.assert_array_equal(run(image.decode_png(encoded)), pixels >> 8)


def test_samples_of_16_bits_change_channels():
    deep = RNG.integers(0, 65536, (3, 2, 4)).astype(np.uint16)
    grey, colours = (run(image.encode_png(deep[:, :, :count])) for count in (1, 3))
    found = run([image.decode_png(grey, 3, wb.uint16), image.decode_png(grey, 4, wb.uint16), image.decode_png(
        run(image.encode_png(deep)), 3, wb.uint16), image.decode_png(colours, 1, wb.uint16), image.decode_png(grey, 3)])
    np.testing.assert_array_equal(found[0], deep[:, :, :1].repeat(3, 2))
    np.testing.assert_array_equal(found[1], np.concatenate([found[0], np.full((3, 2, 1), 65535)], 2))
    np.testing.assert_array_equal(found[2], deep[:, :, :3])
    shares = np.array([9797, 19234, 3737])      # libpng's, of 2 ** 15
    np.testing.assert_array_equal(found[3][:, :, 0], deep[:, :, :3] @ shares + 16384 >> 15)
    np.testing.assert_array_equal(found[4], found[0] >> 8)
    plain = run(image.encode_png(BYTES))
    np.testing.assert_array_equal(run(image.decode_png(plain, dtype=wb.uint16)), BYTES.astype(np.uint16) * 257)
    np.testing.assert_array_equal(run(image.decode_png(plain, channels=1))[:, :, 0], BYTES[:, :, :3] @ shares >> 15)


def test_jpeg_files_are_close_and_may_be_made_smaller():
    smooth = np.add.outer(np.arange(32), np.arange(16)).astype(np.uint8)[..., None].repeat(3, 2) * 4
    encoded = run(image.encode_jpeg(smooth, quality=95))
    assert abs(run(image.decode_jpeg(encoded)).astype(int) - smooth).max() < 12
    assert run(image.decode_jpeg(encoded, channels=1)).shape == (32, 16, 1)
    assert run(image.decode_jpeg(encoded, ratio=2)).shape == (16, 8, 3)


def test_an_encoder_follows_the_level_and_the_colours_that_are_asked_for():
    plain, dense = run([image.encode_png(BYTES, compression=0), image.encode_png(BYTES[:1].repeat(6, 0), compression=9)])
    np.testing.assert_array_equal(run(image.decode_png(plain)), BYTES)
    assert len(dense) < BYTES.size < len(plain)
    assert run(image.decode_jpeg(run(image.encode_jpeg(BYTES[..., :1], "grayscale")))).shape == (6, 5, 1)
    assert run(image.encode_jpeg(BYTES, "rgb")) == run(image.encode_jpeg(BYTES))


def test_pictures_of_windows_and_moving_ones():
    pixels = RNG.integers(0, 256, (4, 5, 3)).astype(np.uint8)
    still, moving = io.BytesIO(), io.BytesIO()
    Image.fromarray(pixels).save(still, "BMP")
    colours = [np.full((4, 5, 3), colour, np.uint8) for colour in ((255, 0, 0), (0, 0, 255))]
    first, second = (Image.fromarray(colour) for colour in colours)
    first.save(moving, "GIF", save_all=True, append_images=[second])
    np.testing.assert_array_equal(run(image.decode_bmp(still.getvalue())), pixels)
    np.testing.assert_array_equal(run(image.decode_gif(moving.getvalue())), colours)
    assert image.decode_gif(wb.placeholder(wb.string, [])).shape == [None, None, None, 3]


def test_a_part_of_a_jpeg_file_and_its_shape():
    encoded = run(image.encode_jpeg(BYTES))
    np.testing.assert_array_equal(run(image.decode_and_crop_jpeg(encoded, [1, 2, 3, 2])),
                                  run(image.decode_jpeg(encoded))[1:4, 2:4])
    assert run(image.extract_jpeg_shape(encoded)).tolist() == [6, 5, 3]
    assert run(image.extract_jpeg_shape(encoded, output_type="int64")).dtype == np.int64


# what cannot be

@pytest.mark.parametrize(("action", "kind", "text"), [
    (lambda: image.resize_images(np.zeros((2, 2)), [1, 1]), errors.ShapeError,
     "'image' must have either 3 or 4 dimensions. Reshape it"),
    (lambda: image.resize_images(BYTES, [1, 1], method=9), errors.InvalidArgumentError,
     "resize_images: method 9 is unknown; use one of ResizeMethod"),
    (lambda: image.crop_to_bounding_box(BYTES, 4, 0, 3, 3), errors.InvalidArgumentError,
     "height must be >= target + offset, but height 4 … 7 is not within 0 … 6; choose a box inside the image"),
    (lambda: image.pad_to_bounding_box(BYTES, 0, 0, 3, 9), errors.InvalidArgumentError,
     "pad_to_bounding_box: height must be <= target - offset, but 3 are missing; choose a target that holds the image"),
    (lambda: image.resize_image_with_crop_or_pad(BYTES, 3, 0), errors.InvalidArgumentError,
     "resize_image_with_crop_or_pad: target_width must be > 0, but it is 0; choose a size with pixels"),
    (lambda: image.central_crop(BYTES, 0), errors.InvalidArgumentError, "central_fraction is 0; use more than 0, at most 1"),
    (lambda: image.random_hue(FLOATS, 0.6), errors.InvalidArgumentError, "random_hue: max_delta is 0.6; use 0 … 0.5"),
    (lambda: image.random_contrast(FLOATS, 2, 1), errors.InvalidArgumentError, "random_contrast: the range is 2 … 1"),
    (lambda: image.adjust_gamma(FLOATS, -1), errors.InvalidArgumentError, "adjust_gamma: gamma is -1; use 0 or more"),
    (lambda: image.rgb_to_hsv(FLOATS[..., :2]), errors.ShapeError, "rgb_to_hsv: images have shape [5,7,2]; the last axis "
                                                                   "must hold 3 colours"),
    (lambda: image.decode_jpeg(b"", channels=4), errors.InvalidArgumentError, "decode_jpeg: channels is 4; use 0, 1, 3"),
    (lambda: image.decode_bmp(b"", channels=1), errors.InvalidArgumentError, "decode_bmp: channels is 1; use 0, 3, 4"),
    (lambda: run(image.decode_gif(b"no image")), errors.InvalidArgumentError,
     "decode_gif: 8 bytes that begin with b'no image' are not a whole GIF image"),
    (lambda: run(image.extract_jpeg_shape(run(image.encode_png(BYTES)))), errors.InvalidArgumentError,
     "are not a whole JPEG image"),
    (lambda: run(image.decode_png(b"no image")), errors.InvalidArgumentError,
     "decode_image: 8 bytes that begin with b'no image' are not a whole JPEG or PNG or BMP image"),
    (lambda: run(image.decode_png(run(image.encode_png(BYTES))[:60])), errors.InvalidArgumentError, "are not a whole JPEG"),
    (lambda: run(image.encode_jpeg(np.zeros((2, 2, 4), np.uint8))), errors.InvalidArgumentError,
     "encode_jpeg: the image has 4 channels; use 1 or 3"),
    (lambda: run(image.encode_jpeg(BYTES, "grayscale")), errors.InvalidArgumentError,
     "encode_jpeg: the image has 3 channels; use 1"),
    (lambda: image.encode_jpeg(BYTES, "sepia"), errors.InvalidArgumentError,
     "encode_jpeg: format is 'sepia'; use '', 'grayscale', 'rgb'"),
    (lambda: image.decode_png(b"", dtype="int32"), errors.InvalidArgumentError, "int32 is not decoded to; use uint8 or uint16"),
    (lambda: run(image.encode_png(np.zeros((1, 1, 5), np.uint16))), errors.InvalidArgumentError,
     "encode_png: the image has 5 channels; use 1 to 4"),
    (lambda: run(image.decode_png(run(image.encode_png(np.ones((9, 9, 3), np.uint16)))[:50], dtype="uint16")),
     errors.InvalidArgumentError, "are not a whole JPEG"),
    (lambda: image.encode_png(BYTES, 10), errors.InvalidArgumentError,
     "encode_png: compression is 10; use a level from 0 to 9, or -1"),
    (lambda: image.decode_jpeg(b"", dct_method="FAST"), errors.InvalidArgumentError,
     "decode_jpeg: dct_method is 'FAST'; use '', 'INTEGER_FAST', 'INTEGER_ACCURATE'"),
    (lambda: image.decode_jpeg(b"", acceptable_fraction=0.5), errors.UnimplementedError, "damaged files are not recovered"),
    (lambda: run(image.resize_bilinear(FLOATS[None], wb.placeholder_with_default([0, 3], [2]))), errors.InvalidArgumentError,
     "resize: images are [5, 7] and [0, 3] is wanted; both must be 1 x 1 or more")])
def test_what_cannot_be(action, kind, text: str):
    with pytest.raises(kind, match=re.escape(text)):
        action()


def test_sizes_and_turns_that_are_tensors_and_images_of_which_nothing_is_known():
    unknown, turns = wb.placeholder("uint8"), wb.placeholder("int32", [])
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    cut = image.crop_to_bounding_box(unknown, wb.constant(0, wb.int64), 1, wb.constant(2), 2)
    padded = image.pad_to_bounding_box(unknown, wb.constant(1, wb.int64), 0, 4, 4)
    turned = image.rot90(unknown, turns)
    assert cut.shape.as_list() == [2, 2, None] and padded.shape.as_list() == [4, 4, None] and turned.shape.rank == 3
    with wb.Session() as session:
        found = session.run([cut, padded], {unknown: pixels})
        assert (found[0] == pixels[:, 1:3]).all() and (found[1][1:3] == pixels).all() and not found[1][0].any()
        for k in range(5):
            assert (session.run(turned, {unknown: pixels, turns: k}) == np.rot90(pixels, k)).all()
    with pytest.raises(errors.ShapeError, match=r"all dims of 'image\.shape' must be > 0"):
        image.flip_up_down(np.zeros([2, 0, 3]))


def test_how_much_a_random_box_covers_may_be_a_tensor():
    least = wb.placeholder("float32", [])
    _, size, _ = image.sample_distorted_bounding_box([20, 20, 3], [[[0.0, 0.0, 1.0, 1.0]]], 1, min_object_covered=least)
    with wb.Session() as session:
        for _ in range(5):
            assert np.prod(session.run(size, {least: 0.9})[:2]) >= 360
