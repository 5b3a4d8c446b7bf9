"""Images as files: JPEG, PNG, BMP and GIF to arrays, JPEG and PNG from arrays."""
from __future__ import annotations

import io
import struct
import zlib
from contextlib import contextmanager

import numpy as np

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import composed, op
from workbench.core.graph.shape import Shape

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_GREY = np.array([9797, 19234, 3737])      # shares of red, green and blue, of 2 ** 15
_COLOURS = {"": (), "grayscale": (1,), "rgb": (3,)}      # format of a JPEG -> the numbers of channels that it takes
_DCT_METHODS = ("", "INTEGER_FAST", "INTEGER_ACCURATE")


def _decoded_shape(inputs, attrs):
    return [Shape([None, None, attrs["channels"] or None])]


@op("contents[] -> ?", types="string -> @dtype", shape=_decoded_shape, differentiable=False)
def decode_image(contents, *, channels=0, ratio=1, formats=("JPEG", "PNG", "BMP"), dtype="uint8"):
    """A JPEG, PNG or BMP file as uint8 or uint16 [height, width, channels]; `channels` 0 takes the file's own number.

    `ratio` 2, 4 or 8 makes a JPEG that much smaller while it is decoded. Samples of 16 bits lose the lower ones as uint8, and
    those of 8 bits are multiplied by 257 as uint16. InvalidArgumentError for anything else.
    """
    with _opened("decode_image", contents, formats) as picture:
        if ratio > 1:
            picture.draft(None, (-(-picture.width // ratio), -(-picture.height // ratio)))
        if picture.format == "PNG":
            samples = _samples(picture)
            pixels = _with_channels(samples, channels or samples.shape[2])
        else:
            pixels = _pixels(picture, _MODES[channels or _channels(picture)])
    if dtype.name == "uint8":
        return pixels if pixels.dtype == np.uint8 else (pixels >> 8).astype(np.uint8)
    return pixels if pixels.dtype == np.uint16 else pixels.astype(np.uint16) * np.uint16(257)


def _pixels(picture, mode):
    pixels = np.asarray(picture if picture.mode == mode else picture.convert(mode))
    return pixels.reshape(*pixels.shape[:2], -1)


def _samples(picture):
    """What a PNG file has, of 8 or of 16 bits: uint8 or uint16 [height, width, channels]."""
    from PIL import Image
    if picture.mode == "I;16":
        return np.asarray(picture).astype(np.uint16)[:, :, None]
    tile = picture.tile[0]
    if not str(tile.args).endswith(";16B"):
        return _pixels(picture, _MODES[_channels(picture)])
    # NOTE: Pillow keeps the upper byte of a sample; told that the bytes lie the other way round, it keeps the lower one
    with Image.open(io.BytesIO(picture.fp.getvalue()), formats=["PNG"]) as again:
        again.tile = [tile._replace(args="RGBA" if tile.args == "LA;16B" else tile.args.replace("16B", "16L"))]
        second = np.asarray(again)
    if tile.args == "LA;16B":      # read as if there were four samples of 8 bits
        return second.reshape(-1).view(">u2").astype(np.uint16).reshape(*second.shape[:2], 2)
    return np.asarray(picture).astype(np.uint16) << 8 | second


def _with_channels(samples, channels):
    """The same picture grey or coloured, with or without opacity: [height, width, channels] of its dtype.

    Colours become grey in whole numbers, as libpng does it: rounded for samples of 16 bits, cut off for those of 8.
    """
    if samples.shape[2] == channels:
        return samples
    deep, alphas = samples.dtype == np.uint16, samples.shape[2] in (2, 4)
    colours = samples[:, :, :samples.shape[2] - alphas]
    opacity = samples[:, :, -1:] if alphas else np.full((*samples.shape[:2], 1), np.iinfo(samples.dtype).max, samples.dtype)
    if channels > 2:
        colours = np.broadcast_to(colours, (*samples.shape[:2], 3))
    elif colours.shape[2] == 3:
        colours = (colours.astype(np.int64) @ _GREY + (16384 if deep else 0) >> 15).astype(samples.dtype)[:, :, None]
    return np.concatenate([colours, opacity], 2) if channels in (2, 4) else colours


@op("image[h,w,c] -> []", types="uint16 -> string", differentiable=False)
def encode_deep_png(image, *, compression=-1):
    """uint16 [height, width, 1 to 4 channels] as a PNG file with samples of 16 bits: string scalar."""
    height, width, channels = image.shape
    if channels not in _MODES:
        raise errors.InvalidArgumentError(f"encode_png: the image has {channels} channels; use 1 to 4")
    rows = image.astype(">u2").reshape(height, -1).view(np.uint8)
    up = np.diff(rows, axis=0, prepend=np.zeros_like(rows[:1]))      # filter 2: what differs from the row above
    kind = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)),
             (b"IDAT", zlib.compress(np.insert(up, 0, 2, axis=1).tobytes(), compression)), (b"IEND", b"")]
    file = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + title + data + struct.pack(">I", zlib.crc32(title + data)) for title, data in parts)
    return np.asarray(file, dtype=object)


# files


@op("contents[] -> ?", types="string -> uint8", differentiable=False, shape=lambda inputs, attrs: [Shape([None] * 3 + [3])])
def decode_gif(contents):
    """The frames of a GIF file as uint8 [frames, height, width, 3]. InvalidArgumentError for anything else."""
    from PIL import ImageSequence
    with _opened("decode_gif", contents, ("GIF",)) as picture:
        return np.stack([np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(picture)])


@op("contents[] -> [3]", types="string -> @output_type", differentiable=False)
def extract_jpeg_shape(contents, *, output_type="int32"):
    """Height, width and channels of a JPEG file, which is not decoded for it: int32 or int64 [3]."""
    with _opened("extract_jpeg_shape", contents, ("JPEG",)) as picture:
        return np.array([picture.height, picture.width, _channels(picture)], as_dtype(output_type).numpy)


@contextmanager
def _opened(where, contents, formats):
    """The picture of a file's content; whatever is wrong with it is InvalidArgumentError."""
    from PIL import Image, UnidentifiedImageError
    data = contents.item() if isinstance(contents, np.ndarray) else contents
    try:
        with Image.open(io.BytesIO(data), formats=list(formats)) as picture:
            yield picture
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise errors.InvalidArgumentError(f"{where}: {len(data)} bytes that begin with {data[:8]!r} are not a whole "
                                          f"{' or '.join(formats)} image ({error}); pass the content of one") from None


def _channels(picture):
    has_alpha = "A" in picture.getbands() or "transparency" in picture.info
    if picture.mode in ("L", "1", "LA", "I;16", "I"):
        return 2 if has_alpha else 1
    return 4 if has_alpha else 3


@op("image[h,w,c] -> []", types="uint8 -> string", differentiable=False)
def encode_image(image, *, format, quality=95, compression=-1, channels=()):
    """uint8 [height, width, channels] as a PNG (1 to 4 channels) or JPEG (1 or 3) file: string scalar.

    `quality` is that of a JPEG, `compression` the level of a PNG. InvalidArgumentError for other numbers of channels, and for
    those that are not among `channels`, where some are given.
    """
    there, known = image.shape[2], channels or ((1, 3) if format == "JPEG" else (1, 2, 3, 4))
    if there not in known:
        raise errors.InvalidArgumentError(f"encode_{format.lower()}: the image has {there} channels; use "
                                          f"{' or '.join(map(str, known)) if len(known) < 4 else '1 to 4'}")
    options = {"quality": quality} if format == "JPEG" else {"compress_level": compression}
    file = io.BytesIO()
    _picture(image).save(file, format, **options)
    return np.asarray(file.getvalue(), dtype=object)


def _picture(pixels):
    from PIL import Image
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels, _MODES[pixels.shape[2]])


def _checked_channels(where, channels, known):
    if channels not in known:
        raise errors.InvalidArgumentError(f"{where}: channels is {channels}; use {', '.join(map(str, known))}")
    return channels


@composed
def decode_jpeg(contents, channels=0, ratio=1, fancy_upscaling=True, try_recover_truncated=False,
                acceptable_fraction=1.0, dct_method="", name=None):
    """A JPEG (or PNG or BMP) file, a string scalar, as uint8 [height, width, channels]; `channels` is 0, 1 or 3.

    Pixels may differ by rounding from those of the method `dct_method`, which is "", "INTEGER_FAST" or "INTEGER_ACCURATE", and
    colours that the file has in fewer places than light are smoothed, whatever `fancy_upscaling` is. InvalidArgumentError
    for another method, UnimplementedError for what asks to recover a damaged file.
    """
    if try_recover_truncated or acceptable_fraction != 1.0:
        raise errors.UnimplementedError("decode_jpeg: damaged files are not recovered; pass whole ones")
    if dct_method not in _DCT_METHODS:
        raise errors.InvalidArgumentError(f"decode_jpeg: dct_method is {dct_method!r}; use "
                                          f"{', '.join(map(repr, _DCT_METHODS))}")
    return ops.decode_image(contents, channels=_checked_channels("decode_jpeg", channels, (0, 1, 3)), ratio=ratio, name=name)


@composed
def decode_and_crop_jpeg(contents, crop_window, channels=0, ratio=1, fancy_upscaling=True, try_recover_truncated=False,
                         acceptable_fraction=1.0, dct_method="", name=None):
    """The part [y, x, height, width] = `crop_window` of a JPEG file, after it was made smaller by `ratio`: uint8."""
    whole = ops.decode_jpeg(contents, channels, ratio, fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method)
    window = convert(crop_window, "int32")
    return ops.slice(whole, ops.concat([window[:2], [0]], 0), ops.concat([window[2:], [-1]], 0), name=name)


@composed
def decode_bmp(contents, channels=0, name=None):
    """A BMP file, a string scalar, as uint8 [height, width, channels]; `channels` is 0, 3 or 4."""
    return ops.decode_image(contents, channels=_checked_channels("decode_bmp", channels, (0, 3, 4)), formats=("BMP",),
                            name=name)


@composed
def decode_png(contents, channels=0, dtype="uint8", name=None):
    """A PNG (or JPEG or BMP) file, a string scalar, as uint8 or uint16 [height, width, channels]; `channels` is 0, 1, 3 or 4.

    Samples of 16 bits lose the lower ones as uint8, and those of 8 bits are multiplied by 257 as uint16.
    """
    if as_dtype(dtype).name not in ("uint8", "uint16"):
        raise errors.InvalidArgumentError(f"decode_png: dtype {as_dtype(dtype).name} is not decoded to; use uint8 or uint16")
    return ops.decode_image(contents, channels=_checked_channels("decode_png", channels, (0, 1, 3, 4)), dtype=as_dtype(dtype),
                            name=name)


@composed
def encode_png(image, compression=-1, name=None):
    """uint8 or uint16 [height, width, channels] as a PNG file: string scalar; `compression` from 0 (none) to 9 (most), -1
    chooses."""
    if compression not in range(-1, 10):
        raise errors.InvalidArgumentError(f"encode_png: compression is {compression}; use a level from 0 to 9, or -1")
    image = convert(image, None if getattr(image, "dtype", None) == np.uint16 else "uint8")
    if image.dtype.name == "uint16":
        return ops.encode_deep_png(image, compression=compression, name=name)
    return ops.encode_image(image, format="PNG", compression=compression, name=name)


@composed
def encode_jpeg(image, format="", quality=95, name=None):
    """uint8 [height, width, 1 or 3] as a JPEG file: string scalar; `format` "grayscale" takes 1 channel alone, "rgb" 3."""
    if format not in _COLOURS:
        raise errors.InvalidArgumentError(f"encode_jpeg: format is {format!r}; use {', '.join(map(repr, _COLOURS))}")
    return ops.encode_image(image, format="JPEG", quality=quality, channels=_COLOURS[format], name=name)
