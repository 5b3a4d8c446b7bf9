"""Summaries as operations: values of one step as lines of JSON in a string scalar."""
from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.opdef import op

BUCKETS = 30

SUMMARY: dict[str, Any] = {"differentiable": False, "stateful": True}


def _line(**fields: Any) -> np.ndarray[Any, Any]:
    return np.asarray(json.dumps(fields).encode(), dtype=object)


@op("value[] -> []", types="T:real -> string", **SUMMARY)
def scalar_summary(value: Any, *, tag: str) -> Any:
    """One number: {"kind": "scalar", "tag", "value"}."""
    return _line(kind="scalar", tag=tag, value=float(value))


@op("values? -> []", types="T:real -> string", **SUMMARY)
def histogram_summary(values: Any, *, tag: str) -> Any:
    """The distribution of the elements: count, min, max, mean, standard deviation, bucket edges and counts.

    NaN and infinite elements are counted in "not_finite" and otherwise left out.
    """
    flat = np.asarray(values, np.float64).ravel()
    finite = flat[np.isfinite(flat)]
    counts, edges = np.histogram(finite, BUCKETS) if finite.size else (np.zeros(0, int), np.zeros(0))
    numbers = {n: getattr(finite, n)() for n in ("min", "max", "mean", "std")} if finite.size else {}
    return _line(kind="histogram", tag=tag, count=int(flat.size), not_finite=int(flat.size - finite.size),
                 edges=edges.tolist(), counts=counts.tolist(), **{k: float(v) for k, v in numbers.items()})


@op("text? -> []", types="string -> string", **SUMMARY)
def text_summary(text: Any, *, tag: str) -> Any:
    """Text: {"kind": "text", "tag", "text"} with a list of strings."""
    return _line(kind="text", tag=tag, text=[t.decode("utf-8", "replace") for t in np.asarray(text, object).ravel()])


@op("images[n,h,w,c] -> []", types="T:real -> string", **SUMMARY)
def image_summary(images: Any, *, tag: str, max_outputs: int = 3) -> Any:
    """Pictures of up to `max_outputs` images with 1, 3 or 4 channels: {"kind": "image", "tag", ..., "png": base64}.

    uint8 as it is. Floats image by image: the largest becomes 255; with negative ones 0 becomes 128 and the largest
    distance 127. Pixels that are not finite become red.
    """
    channels = images.shape[3]
    if channels not in (1, 3, 4):
        raise errors.InvalidArgumentError(f"image_summary {tag!r}: the images have {channels} channels; use 1, 3 or 4")
    chosen = images[:max_outputs]
    lines = []
    for number, image in enumerate(chosen):
        pixels = image if image.dtype == np.uint8 else _to_pixels(np.asarray(image, np.float32))
        title = f"{tag}/image" if max_outputs == 1 else f"{tag}/image/{number}"
        png = base64.b64encode(_png(pixels)).decode()
        lines.append(_line(kind="image", tag=title, height=image.shape[0], width=image.shape[1], channels=channels,
                           png=png).item())
    return np.asarray(b"\n".join(lines), dtype=object)


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


@op("*values[] -> []", types="string -> string", **SUMMARY)
def merge_summary(*values: Any) -> Any:
    """All lines of several summaries."""
    return np.asarray(b"\n".join(v.item() if isinstance(v, np.ndarray) else v for v in values if v), dtype=object)
