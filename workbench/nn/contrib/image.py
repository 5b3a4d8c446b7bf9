"""Images moved, turned and projected, as tf.contrib.image: every place of the result is looked up in the image."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Tensor, get_default_graph

__all__ = ["angles_to_projective_transforms", "bipartite_match", "compose_transforms", "rotate", "transform", "translate",
           "translations_to_projective_transforms"]

_METHODS = ("NEAREST", "BILINEAR")


def _rows(value: Any, what: str, width: int | None) -> Tensor:
    """float32 [n], or [n, width]; one without n is a batch of one."""
    found = ops.cast(convert(value), "float32")
    rank = 1 if width is None else 2
    if found.shape.rank is None or not rank - 1 <= found.shape.rank <= rank:
        raise TypeError(f"{what} should have rank {rank - 1} or {rank}, but has shape {found.shape}")
    return found if found.shape.rank == rank else ops.expand_dims(found, 0)


def bipartite_match(distance_mat: Any, num_valid_rows: Any, top_k: int = -1) -> tuple[Tensor, Tensor]:
    """Rows of `distance_mat` [n, m] and its columns in pairs, the nearest first: (int32 [n], the column of each row, int32 [m],
    the row of each column), -1 where there is none. The first `num_valid_rows` rows count (a scalar or [1]; all below 0), and
    `top_k` pairs at most (any number below 1)."""
    count = ops.reshape(ops.cast(convert(num_valid_rows), "float32"), [])
    columns, rows = ops.bipartite_match(distance_mat, count, top_k=top_k)
    return columns, rows


def rotate(images: Any, angles: Any, interpolation: str = "NEAREST", name: str | None = None) -> Tensor:
    """Images [n, h, w, c], [h, w, c] or [h, w] turned around their centres, against the clock, by angles in radians: a scalar,
    or [n]. What comes from outside is 0."""
    with get_default_graph().name_scope(name or "rotate"):
        given = convert(images)
        height, width = _sides(given)
        return transform(given, angles_to_projective_transforms(angles, height, width), interpolation)


def translate(images: Any, translations: Any, interpolation: str = "NEAREST", name: str | None = None) -> Tensor:
    """Images moved to the right and down by `translations` [dx, dy], or [n, 2]."""
    with get_default_graph().name_scope(name or "translate"):
        return transform(images, translations_to_projective_transforms(translations), interpolation)


def angles_to_projective_transforms(angles: Any, image_height: Any, image_width: Any, name: str | None = None) -> Tensor:
    """The transforms [n, 8] that turn images of this size around their centres by angles in radians."""
    with get_default_graph().name_scope(name or "angles_to_projective_transforms"):
        angle = _rows(angles, "angles", None)
        down, right = (ops.cast(convert(side), "float32") - 1.0 for side in (image_height, image_width))
        cosine, sine, zero = ops.cos(angle), ops.sin(angle), ops.zeros_like(angle)
        left, top = (right - (cosine * right - sine * down)) / 2.0, (down - (sine * right + cosine * down)) / 2.0
        made: Tensor = ops.stack([cosine, -sine, left, sine, cosine, top, zero, zero], axis=1)
        return made


def translations_to_projective_transforms(translations: Any, name: str | None = None) -> Tensor:
    """The transforms [n, 8] that move images by [dx, dy]."""
    with get_default_graph().name_scope(name or "translations_to_projective_transforms"):
        moved = _rows(translations, "translations", 2)
        zero, one = ops.zeros_like(moved[:, 0]), ops.ones_like(moved[:, 0])
        made: Tensor = ops.stack([one, zero, -moved[:, 0], zero, one, -moved[:, 1], zero, zero], axis=1)
        return made


def compose_transforms(*transforms: Any) -> Tensor:
    """One transform [n, 8] that does to images what these do one after the other."""
    if not transforms:
        raise errors.InvalidArgumentError("compose_transforms: there are none; give one or more")
    whole = [_matrices(_rows(t, "transforms", 8)) for t in transforms]
    product = whole[0]
    for one in whole[1:]:
        product = ops.batch_matmul(product, one)
    flat = ops.reshape(product / product[:, 2:, 2:], [-1, 9])
    made: Tensor = flat[:, :8]
    return made


def _matrices(flat: Tensor) -> Tensor:
    made: Tensor = ops.reshape(ops.concat([flat, ops.ones_like(flat[:, :1])], axis=1), [-1, 3, 3])
    return made


def transform(images: Any, transforms: Any, interpolation: str = "NEAREST", name: str | None = None) -> Tensor:
    """Images whose place (x, y) has what the images [n, h, w, c], [h, w, c] or [h, w] have at
    ((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k) with k = c0 x + c1 y + 1, for transforms [a0, a1, a2, b0, b1, b2, c0, c1],
    or [n, 8]; 0 where that is outside. `interpolation` is "NEAREST" or "BILINEAR". No gradient reaches the transforms."""
    if interpolation.upper() not in _METHODS:
        raise errors.InvalidArgumentError(f"transform: interpolation is {interpolation!r}; use one of {', '.join(_METHODS)}")
    with get_default_graph().name_scope(name or "transform"):
        given = convert(images)
        rank = given.shape.rank
        if rank not in (2, 3, 4):
            raise TypeError(f"Images should have rank between 2 and 4, but has shape {given.shape}")
        whole = given if rank == 4 else ops.expand_dims(given if rank == 3 else ops.expand_dims(given, -1), 0)
        flat = ops.stop_gradient(_rows(transforms, "transforms", 8))
        x, y = _sources(flat, *_sides(whole))
        look = _nearest if interpolation.upper() == "NEAREST" else _bilinear
        found = look(whole, y, x)
        found.set_shape(whole.shape)
        made: Tensor = found if rank == 4 else found[0] if rank == 3 else found[0, :, :, 0]
        return made


def _sides(images: Tensor) -> tuple[Any, Any]:
    rank = images.shape.rank or 4
    at = 0 if rank < 4 else 1
    shape = ops.shape(images)
    return shape[at], shape[at + 1]


def _sources(flat: Tensor, height: Any, width: Any) -> tuple[Tensor, Tensor]:
    """Where the places of the result are looked up: x and y, [n or 1, h, w]."""
    x = ops.cast(ops.range(width), "float32")[None, None, :]
    y = ops.cast(ops.range(height), "float32")[None, :, None]
    a0, a1, a2, b0, b1, b2, c0, c1 = (flat[:, i, None, None] for i in range(8))
    k = c0 * x + c1 * y + 1.0
    return (a0 * x + a1 * y + a2) / k, (b0 * x + b1 * y + b2) / k


def _taken(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The pixels at whole places [n or 1, h, w], 0 outside."""
    shape = ops.shape(images)
    inside = ops.logical_and(ops.logical_and(rows >= 0.0, rows <= ops.cast(shape[1] - 1, "float32")),
                             ops.logical_and(columns >= 0.0, columns <= ops.cast(shape[2] - 1, "float32")))
    number = ops.range(shape[0])[:, None, None] + ops.zeros(shape[1:3], "int32")
    places = [ops.cast(ops.where(inside, one, ops.zeros_like(one)), "int32") + ops.zeros_like(number)
              for one in (rows, columns)]
    found = ops.gather_nd(images, ops.stack([number, *places], axis=-1))
    return found * ops.cast(ops.expand_dims(inside, -1), images.dtype)


def _nearest(images: Tensor, y: Tensor, x: Tensor) -> Tensor:
    away = [ops.sign(one) * ops.floor(ops.abs(one) + 0.5) for one in (y, x)]      # halves go away from 0
    return _taken(images, *away)


def _bilinear(images: Tensor, y: Tensor, x: Tensor) -> Tensor:
    if not images.dtype.is_floating:
        return ops.cast(_bilinear(ops.cast(images, "float32"), y, x), images.dtype)
    top, left = ops.floor(y), ops.floor(x)
    down, right = (ops.cast(ops.expand_dims(part, -1), images.dtype) for part in (y - top, x - left))
    upper = _taken(images, top, left) * (1 - right) + _taken(images, top, left + 1.0) * right
    lower = _taken(images, top + 1.0, left) * (1 - right) + _taken(images, top + 1.0, left + 1.0) * right
    found: Tensor = upper * (1 - down) + lower * down
    return found
