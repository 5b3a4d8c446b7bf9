"""Summaries as operations: values of one step as the bytes of a Summary, the protocol buffer that TensorBoard reads."""
from __future__ import annotations

import functools
import struct
import zlib
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.opdef import op
from workbench.formats.messages import decode, message
from workbench.formats.values import tensor_proto

Array = np.ndarray[Any, Any]
SUMMARY: dict[str, Any] = {"differentiable": False, "stateful": True}


def _written(summary: Any) -> Array:
    return np.asarray(summary.SerializeToString(), dtype=object)


def _one(tag: str, **value: Any) -> Array:
    return _written(message("Summary")(value=[message("Summary.Value")(tag=tag, **value)]))


@op("value[] -> []", types="T:real -> string", **SUMMARY)
def scalar_summary(value: Any, *, tag: str) -> Any:
    """One number, as `simple_value`."""
    return _one(tag, simple_value=float(value))


# histograms

@functools.cache
def _limits() -> Array:
    """Upper ends of buckets: ten percent apart from 1e-12 to 1e20, the same below zero, zero, and the ends of the numbers."""
    ends, end = [], 1.0e-12
    while end < 1.0e20:
        ends.append(end)
        end *= 1.1
    ends.append(float(np.finfo(np.float64).max))
    return np.array([*(-end for end in reversed(ends)), 0.0, *ends])


@op("values? -> []", types="T:real -> string", **SUMMARY)
def histogram_summary(values: Any, *, tag: str) -> Any:
    """The distribution of the elements over TensorFlow's buckets, with their count, extremes, sum and sum of squares.

    InvalidArgumentError for NaN and infinities, which no bucket could show.
    """
    flat = np.asarray(values, np.float64).ravel()
    wrong = flat[~np.isfinite(flat)]
    if wrong.size:
        raise errors.InvalidArgumentError(f"histogram_summary: Nan in summary histogram for: {tag}; {wrong.size} of "
                                          f"{flat.size} elements are not finite, the first {wrong[0]}; mend what computes them")
    limits = _limits()
    places = np.minimum(np.searchsorted(limits, flat, "right"), len(limits) - 1)
    counts = np.bincount(places, minlength=len(limits))
    # a run of empty buckets is one bucket: each that is not the last of its run is left out
    kept = (counts > 0) | (np.append(counts[1:], 1) > 0)
    low, high = (float(flat.min()), float(flat.max())) if flat.size else (float(limits[-1]), float(limits[0]))
    return _one(tag, histo=message("HistogramProto")(
        min=low, max=high, num=float(flat.size), sum=float(flat.sum()), sum_squares=float(np.square(flat).sum()),
        bucket_limit=limits[kept].tolist(), bucket=counts[kept].astype(np.float64).tolist()))


# tensors and text

@op("tensor? -> []", types="any -> string", **SUMMARY)
def tensor_summary(tensor: Any, *, tag: str, metadata: bytes = b"") -> Any:
    """Any tensor as it is; `metadata`, the bytes of a SummaryMetadata, names the plugin that shows it."""
    dtype = as_dtype("string" if tensor.dtype == object else tensor.dtype)
    return _one(tag, metadata=message("SummaryMetadata").FromString(metadata), tensor=tensor_proto(tensor, dtype))


# pictures

@op("images[n,h,w,c] -> []", types="T:real -> string", **SUMMARY)
def image_summary(images: Any, *, tag: str, max_outputs: int = 3) -> Any:
    """Up to `max_outputs` images with 1, 3 or 4 channels, as PNG files.

    uint8 as it is. Floats image by image: the largest becomes 255; with negative ones 0 becomes 128 and the largest
    distance 127. Pixels that are not finite become red.
    """
    channels = images.shape[3]
    if channels not in (1, 3, 4):
        raise errors.InvalidArgumentError(f"image_summary {tag!r}: the images have {channels} channels; use 1, 3 or 4")
    summary = message("Summary")()
    for number, image in enumerate(images[:max_outputs]):
        pixels = image if image.dtype == np.uint8 else _to_pixels(np.asarray(image, np.float32))
        summary.value.add(tag=_numbered(tag, "image", number, max_outputs), image=message("Summary.Image")(
            height=image.shape[0], width=image.shape[1], colorspace=channels, encoded_image_string=_png(pixels)))
    return _written(summary)


def _numbered(tag: str, kind: str, number: int, most: int) -> str:
    return f"{tag}/{kind}" if most == 1 else f"{tag}/{kind}/{number}"


def _to_pixels(image: Any) -> Any:
    good = np.isfinite(image).all(-1)
    finite = image[good]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    most, room, zero = (max(-low, high), 127.0, 128.0) if low < 0 else (high, 255.0, 0.0)
    scale = 0.0 if most < 1e-6 else room / most
    pixels = (np.where(good[..., None], image, 0) * np.float32(scale) + np.float32(zero)).astype(np.uint8)
    pixels[~good] = np.array([255, 0, 0, 255], np.uint8)[:image.shape[2]]
    return pixels


def _png(pixels: Any) -> bytes:
    """uint8 [height, width, 1, 3 or 4] as a PNG file."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width, channels = pixels.shape
    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(pixels))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


# sound

@op("audio? sample_rate[] -> []", types="float32 float32 -> string", **SUMMARY)
def audio_summary(audio: Any, sample_rate: Any, *, tag: str, max_outputs: int = 3) -> Any:
    """Up to `max_outputs` clips of float32 [clips, frames] or [clips, frames, channels] in [-1, 1], as WAV files of 16 bits.

    `sample_rate` is in Hertz. InvalidArgumentError for other ranks, and for a rate that is not above 0.
    """
    if audio.ndim not in (2, 3):
        raise errors.InvalidArgumentError(f"audio_summary {tag!r}: the audio has rank {audio.ndim}; use [clips, frames] or "
                                          "[clips, frames, channels]")
    rate, summary = float(sample_rate), message("Summary")()
    if not rate > 0:
        raise errors.InvalidArgumentError(f"audio_summary {tag!r}: sample_rate is {rate}; use one above 0")
    for number, clip in enumerate(audio[:max_outputs]):
        frames = clip.reshape(clip.shape[0], -1)
        summary.value.add(tag=_numbered(tag, "audio", number, max_outputs), audio=message("Summary.Audio")(
            sample_rate=rate, num_channels=frames.shape[1], length_frames=frames.shape[0], content_type="audio/wav",
            encoded_audio_string=_wav(frames, int(rate + 0.5))))
    return _written(summary)


def _wav(frames: Array, rate: int) -> bytes:
    """float32 [frames, channels] as a WAV file of 16-bit samples, halves rounded away from zero."""
    scaled = np.asarray(frames, np.float64) * 32768
    samples = np.clip(np.copysign(np.floor(np.abs(scaled) + 0.5), scaled), -32768, 32767).astype("<i2").tobytes()
    width = 2 * frames.shape[1]
    form = struct.pack("<IHHIIHH", 16, 1, frames.shape[1], rate, rate * width, width, 16)
    size = struct.pack("<I", len(samples))
    return b"RIFF" + struct.pack("<I", 36 + len(samples)) + b"WAVEfmt " + form + b"data" + size + samples


@op("*values[] -> []", types="string -> string", **SUMMARY)
def merge_summary(*values: Any) -> Any:
    """All values of several summaries. InvalidArgumentError names a tag that comes twice, DataLossError what is no summary."""
    merged, tags = message("Summary")(), set[str]()
    for raw in values:
        found = decode("Summary", raw.item() if isinstance(raw, np.ndarray) else raw, "merge_summary")
        for value in found.value:
            if value.tag in tags:
                raise errors.InvalidArgumentError(f"merge_summary: Duplicate tag {value.tag} found in summary inputs; give "
                                                  "each summary a name of its own")
            tags.add(value.tag)
        merged.MergeFrom(found)
    return _written(merged)
