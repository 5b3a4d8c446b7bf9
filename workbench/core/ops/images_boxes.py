"""Boxes in images: which to keep, cutting and resizing them, glimpses, drawing, and random ones."""
from __future__ import annotations

import numpy as np

from workbench import errors
from workbench.core.graph.arrays import lengths
from workbench.core.graph.build import constant_shape, constant_value, ops
from workbench.core.graph.opdef import op
from workbench.core.graph.shape import Shape
from workbench.core.streams import stream


def _overlaps(box, boxes):
    """Intersection over union of a box [y1, x1, y2, x2] with others."""
    low, high = (np.stack([f(b[..., :2], b[..., 2:]) for b in (np.broadcast_to(box, boxes.shape), boxes)])
                 for f in (np.minimum, np.maximum))
    areas = np.prod(high - low, -1)
    inner = np.prod(np.clip(high.min(0) - low.max(0), 0, None), -1)
    with np.errstate(all="ignore"):
        return np.where((areas > 0).all(0), inner / (areas[0] + areas[1] - inner), 0)


@op("boxes[n,4] scores[n] max_output_size[] iou_threshold[] -> [_]", types="T:float T int32 float32 -> int32",
    differentiable=False)
def non_max_suppression_(boxes, scores, max_output_size, iou_threshold):
    """The boxes of the highest scores that overlap none kept before by more than `iou_threshold`: at most so many."""
    if not 0 <= iou_threshold <= 1:
        raise errors.InvalidArgumentError(f"non_max_suppression: iou_threshold is {iou_threshold} (iou_threshold must be in "
                                          "[0, 1]); use 0 … 1")
    kept: list[int] = []
    for at in np.argsort(-scores, kind="stable"):
        if len(kept) >= max_output_size:
            break
        if not kept or (_overlaps(boxes[at].astype(np.float64), boxes[kept].astype(np.float64)) <= iou_threshold).all():
            kept.append(int(at))
    return np.array(kept, np.int32)


@op("distances[n,m] rows[] -> [n] [m]", types="T:float float32 -> int32 int32", differentiable=False)
def bipartite_match(distances, rows, *, top_k=-1):
    """Pairs of a row and a column, the nearest first, each once: the column of each row and the row of each column, or -1.

    The first `rows` rows count, all where it is below 0; there are `top_k` pairs at most, any number where it is below 1.
    """
    limit, width = (rows if rows >= 0 else len(distances)), distances.shape[1]
    if limit >= len(distances) + 0.9:
        raise errors.InvalidArgumentError(f"bipartite_match: There should be at least {limit:.0f} rows in distance_mat, but "
                                          f"only got {len(distances)} rows.; lower num_valid_rows")
    count = int(limit + 0.1)
    columns, owners = np.full(len(distances), -1, np.int32), np.full(width, -1, np.int32)
    left = min(count, width) if top_k <= 0 else top_k
    for row, column in zip(*np.divmod(np.argsort(distances[:count], axis=None, kind="stable"), max(width, 1))):
        if left and columns[row] < 0 and owners[column] < 0:
            columns[row], owners[column], left = column, row, left - 1
    return columns, owners


def _cropped(inputs, attrs):
    size = constant_shape(inputs[3])
    height, width = size.as_list() if size.rank == 2 else (None, None)
    return [Shape([inputs[1].shape[0] if inputs[1].shape.rank else None, height, width,
                   inputs[0].shape[3] if inputs[0].shape.rank else None])]


def _sampled(box, size, wanted, axis):
    """(positions, which are inside) of `wanted` rows in an axis of `size` that the box cuts along `axis`."""
    first, last, room = np.float32(box[axis]), np.float32(box[axis + 2]), np.float32(size - 1)
    if wanted > 1:
        at = first * room + np.arange(wanted, dtype=np.float32) * ((last - first) * room / np.float32(wanted - 1))
    else:
        at = np.array([np.float32(0.5) * (first + last) * room], np.float32)
    return at, (at >= 0) & (at <= size - 1)


def _taps(box, size, wanted, axis, method):
    at, inside = _sampled(box, size, wanted, axis)
    at = np.where(inside, at, 0)
    if method == "nearest":
        near = np.floor(at + 0.5).astype(int)
        return near, near, np.zeros(wanted), inside
    low = np.floor(at).astype(int)
    return low, np.ceil(at).astype(int), at - low, inside


CROPS = "image[b,h,w,c] boxes[n,4] box_ind[n] crop_size[2] -> ?"


def _check_crops(images, box_ind, height, width):
    """Has each box an image with elements, and each crop a size? `images` is the shape of all of them."""
    batch, *size, _ = images
    if height < 1 or width < 1:
        raise errors.InvalidArgumentError(f"crop_and_resize: crop_size is [{height}, {width}]; use lengths from 1")
    if box_ind.size and not all(size):
        raise errors.InvalidArgumentError(f"crop_and_resize: the images have shape {list(images)}; to cut boxes out of them, "
                                          "they must have rows and columns")
    if box_ind.size and (box_ind.min() < 0 or box_ind.max() >= batch):
        raise errors.InvalidArgumentError(f"crop_and_resize: box_ind holds {int(box_ind.min())} … {int(box_ind.max())} but "
                                          f"there are {batch} images; use 0 … {batch - 1}")


@op(CROPS, name="crop_and_resize", types="T:real float32 int32 int32 -> float32", shape=_cropped)
def crop_and_resize_(image, boxes, box_ind, crop_size, *, method="bilinear", extrapolation_value=0.0):
    """The boxes [y1, x1, y2, x2] (0 … 1 within the image box_ind[i]) as images of `crop_size`; what lies outside is
    `extrapolation_value`."""
    height, width = (int(n) for n in crop_size)
    _check_crops(image.shape, box_ind, height, width)
    out = np.empty((len(boxes), height, width, image.shape[3]), np.float32)
    for number, box in enumerate(boxes):
        source = image[box_ind[number]].astype(np.float32)
        top, bottom, down, high = _taps(box, image.shape[1], height, 0, method)
        left, right, across, wide = _taps(box, image.shape[2], width, 1, method)
        across, down = across[None, :, None], down[:, None, None]
        upper = source[top][:, left] * (1 - across) + source[top][:, right] * across
        lower = source[bottom][:, left] * (1 - across) + source[bottom][:, right] * across
        out[number] = np.where((high[:, None] & wide)[:, :, None], upper * (1 - down) + lower * down, extrapolation_value)
    return out


@crop_and_resize_.gradient
def _(node, dy):
    image, boxes, box_ind, _ = node.inputs
    method = node.attrs["method"]
    dimage = ops.crop_gradient_image(dy, boxes, box_ind, ops.shape(image), method=method)
    dimage = ops.cast(dimage, image.dtype) if image.dtype.is_floating else None
    dboxes = ops.crop_gradient_boxes(dy, image, boxes, box_ind)      # that of "bilinear" also for "nearest", as in TensorFlow
    return dimage, dboxes, None, None


@op("dy[n,p,q,c] boxes[n,4] box_ind[n] image_size[4] -> ?", types="float32 float32 int32 int32 -> float32",
    shape=lambda inputs, attrs: [constant_shape(inputs[3])])
def crop_gradient_image(dy, boxes, box_ind, image_size, *, method="bilinear"):
    """The derivative of crop_and_resize by its images."""
    out = np.zeros(lengths("crop_and_resize_grad_image", image_size), np.float32)
    _, height, width, depth = dy.shape
    _check_crops(out.shape, box_ind, height, width)
    if depth != out.shape[3]:
        raise errors.ShapeError(f"crop_and_resize_grad_image: dy has {depth} channels but image_size {image_size.tolist()} "
                                f"says {out.shape[3]}; make them equal")
    for number, box in enumerate(boxes):
        top, bottom, down, high = _taps(box, out.shape[1], height, 0, method)
        left, right, across, wide = _taps(box, out.shape[2], width, 1, method)
        part = dy[number] * (high[:, None] & wide)[:, :, None]
        for rows, share in ((top, 1 - down), (bottom, down)):
            for columns, piece in ((left, 1 - across), (right, across)):
                np.add.at(out[box_ind[number]], (rows[:, None], columns[None]),
                          part * (share[:, None] * piece)[:, :, None])
    return out


@crop_gradient_image.gradient
def _(node, ddx):
    dy, boxes, box_ind, _ = node.inputs
    back = ops.crop_and_resize(ddx, boxes, box_ind, ops.shape(dy)[1:3], method=node.attrs["method"])
    return back, None, None, None


@op("dy[n,p,q,c] image[b,h,w,c] boxes[n,4] box_ind[n] -> [n,4]", types="float32 T:real float32 int32 -> float32",
    differentiable=False)
def crop_gradient_boxes(dy, image, boxes, box_ind):
    """The derivative of crop_and_resize by its boxes."""
    out = np.zeros(boxes.shape, np.float64)
    _, height, width, _ = dy.shape
    _check_crops(image.shape, box_ind, height, width)
    for number, box in enumerate(boxes):
        source = image[box_ind[number]].astype(np.float64)
        top, bottom, down, high = _taps(box, image.shape[1], height, 0, "bilinear")
        left, right, across, wide = _taps(box, image.shape[2], width, 1, "bilinear")
        a, d = across[None, :, None], down[:, None, None]
        corners = source[top][:, left], source[top][:, right], source[bottom][:, left], source[bottom][:, right]
        part = dy[number] * (high[:, None] & wide)[:, :, None]
        by_row = (part * ((1 - a) * (corners[2] - corners[0]) + a * (corners[3] - corners[1]))).sum((1, 2))
        by_column = (part * ((1 - d) * (corners[1] - corners[0]) + d * (corners[3] - corners[2]))).sum((0, 2))
        for axis, slope, size, wanted in ((0, by_row, image.shape[1], height), (1, by_column, image.shape[2], width)):
            share = np.arange(wanted) / (wanted - 1) if wanted > 1 else np.array([0.5])
            out[number, axis] = (slope * (size - 1) * (1 - share)).sum()
            out[number, axis + 2] = (slope * (size - 1) * share).sum()
    return out.astype(np.float32)


@op("images[b,h,w,c] boxes[b,n,4] -> ?", types="T:float float32 -> T", shape=lambda inputs, attrs: [inputs[0].shape],
    differentiable=False)
def draw_bounding_boxes(images, boxes):
    """The images with the outlines of the boxes [y1, x1, y2, x2] (0 … 1) drawn in the colours of TensorFlow."""
    colours = np.array([[1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1], [0.5, 0.5, 0, 1],
                        [0.5, 0, 0, 1],
                        [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1]])
    out = np.array(images)
    _, height, width, depth = images.shape
    if depth not in (1, 3, 4):
        raise errors.InvalidArgumentError(f"draw_bounding_boxes: images have {depth} channels; use 1, 3 or 4")
    for picture, some in zip(out, boxes):
        for number, box in enumerate(some):
            if not np.isfinite(box).all():
                continue
            top, left, bottom, right = (int(v * (n - 1)) for v, n in zip(box, (height, width) * 2))
            if not (top <= bottom and left <= right and bottom >= 0 and right >= 0 and top < height and left < width):
                continue
            colour = np.ones(1) if depth == 1 else colours[number % 10, :depth]
            rows, columns = slice(max(top, 0), min(bottom, height - 1) + 1), slice(max(left, 0), min(right, width - 1) + 1)
            for row in (top, bottom):
                if 0 <= row < height:
                    picture[row, columns] = colour
            for column in (left, right):
                if 0 <= column < width:
                    picture[rows, column] = colour
    return out


def _glimpsed(inputs, attrs):
    known = constant_value(inputs[1])
    height, width = (None, None) if known is None else known.tolist()
    return [Shape([inputs[0].shape[0], height, width, inputs[0].shape[3]])]


@op("input[b,h,w,c] size[2] offsets[b,2] -> ?", types="float32 int32 float32 -> float32", shape=_glimpsed, differentiable=False,
    stateful=True, context=True, keeps=False)
def extract_glimpse_(context, input, size, offsets, *, centered=True, normalized=True, uniform_noise=True):
    """Windows of `size` whose places are `offsets` (y, x); outside the image there is noise."""
    generator = context.container.get(f"{context.node}/noise", np.random.Generator, lambda: stream(0, 0))
    (height, width), (h, w) = (int(n) for n in size), input.shape[1:3]
    if uniform_noise:
        out = generator.random((len(input), height, width, input.shape[3]), np.float32)
    else:
        lows, highs = input.mean(), input.std()
        out = generator.normal(lows, highs, (len(input), height, width, input.shape[3])).astype(np.float32)
    for number, (y, x) in enumerate(offsets.astype(np.float64)):
        if normalized:
            y, x = y * h, x * w
        if centered:
            y, x = y / 2 + h / 2, x / 2 + w / 2
        top, left = int(np.trunc(y - height / 2)), int(np.trunc(x - width / 2))
        rows, columns = np.arange(top, top + height), np.arange(left, left + width)
        inside = np.ix_((rows >= 0) & (rows < h), (columns >= 0) & (columns < w))
        out[number][inside] = input[number][np.ix_(rows[(rows >= 0) & (rows < h)], columns[(columns >= 0) & (columns < w)])]
    return out


@op("image_size[3] bounding_boxes[b,n,4] covered[] -> [3] [3] [1,1,4]", types="T:int float32 float32 -> T T float32",
    differentiable=False, stateful=True, context=True, keeps=False)
def distorted_box(context, image_size, bounding_boxes, covered, *, seed=0, seed2=0, ratios=(0.75, 1.33), areas=(0.05, 1.0),
                  attempts=100, whole=False):
    """(begin, size, box) of a random box whose shape and area lie in the ranges and that covers enough of one given box."""
    generator = context.container.get(f"{context.node}/random_{seed}_{seed2}", np.random.Generator, lambda: stream(seed, seed2))
    height, width = (int(n) for n in image_size[:2])
    boxes = bounding_boxes.reshape(-1, 4)
    if not len(boxes) and not whole:
        raise errors.InvalidArgumentError("sample_distorted_bounding_box: bounding_boxes is empty; pass one, or "
                                          "use_image_if_no_bounding_boxes=True")
    boxes = boxes if len(boxes) else np.array([[0, 0, 1, 1]], np.float32)
    top, left, tall, broad = 0, 0, height, width
    for _ in range(attempts):
        target = boxes[generator.integers(len(boxes))] * [height, width, height, width]
        ratio, area = generator.uniform(*ratios), generator.uniform(*areas) * height * width
        h, w = round(float(np.sqrt(area / ratio))), round(float(np.sqrt(area * ratio)))
        if not (0 < h <= height and 0 < w <= width and areas[0] <= h * w / (height * width) <= areas[1]):
            continue
        y, x = int(generator.integers(height - h + 1)), int(generator.integers(width - w + 1))
        inner = max(0, min(y + h, target[2]) - max(y, target[0])) * max(0, min(x + w, target[3]) - max(x, target[1]))
        whole_area = (target[2] - target[0]) * (target[3] - target[1])
        if whole_area <= 0 or inner / whole_area >= covered:
            top, left, tall, broad = y, x, h, w
            break
    box = np.array([[[top / height, left / width, (top + tall) / height, (left + broad) / width]]], np.float32)
    return np.array([top, left, 0], image_size.dtype), np.array([tall, broad, -1], image_size.dtype), box
