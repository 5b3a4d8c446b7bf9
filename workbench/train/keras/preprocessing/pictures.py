"""Single images as arrays [rows, columns, channels] or with channels first: read, converted, turned, shifted and bent."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.train.keras import backend

__all__ = ["apply_transform", "array_to_img", "flip_axis", "img_to_array", "load_img", "random_channel_shift",
           "random_rotation", "random_shear", "random_shift", "random_zoom"]


def load_img(path: Any, grayscale: bool = False, target_size: Sequence[int] | None = None) -> Any:
    """The image of a file, of the library pillow: RGB or grey, and of `target_size` (height, width)."""
    import PIL.Image

    with PIL.Image.open(path) as file:
        image = file.convert("L" if grayscale else "RGB")
    size = None if target_size is None else (target_size[1], target_size[0])
    return image if size in (None, image.size) else image.resize(size, PIL.Image.Resampling.NEAREST)


def img_to_array(img: Any, data_format: str | None = None) -> np.ndarray:
    """An image as an array of floatx(), of rank 3. InvalidArgumentError for another rank than 2 or 3."""
    order, x = backend.layout(data_format), np.asarray(img, backend.floatx())
    if x.ndim not in (2, 3):
        raise errors.InvalidArgumentError(f"img_to_array: Unsupported image shape: {x.shape}; give 2 or 3 dimensions")
    x = x if x.ndim == 3 else x[..., None]
    return x.transpose(2, 0, 1) if order == "channels_first" else x


def array_to_img(x: Any, data_format: str | None = None, scale: bool = True) -> Any:
    """An array as an image of pillow; with `scale` its values are brought to 0 … 255.

    InvalidArgumentError unless it has rank 3 and one or three channels.
    """
    import PIL.Image

    x = np.asarray(x, backend.floatx())
    if x.ndim != 3:
        raise errors.InvalidArgumentError("array_to_img: Expected image array to have rank 3 (single image); its shape is "
                                          f"{x.shape}")
    x = x.transpose(1, 2, 0) if backend.layout(data_format) == "channels_first" else x
    if x.shape[2] not in (1, 3):
        raise errors.InvalidArgumentError(f"array_to_img: Unsupported channel number: {x.shape[2]}; give one or three")
    if scale:
        x = x + max(-x.min(), 0)
        x = x / (x.max() or 1) * 255
    return PIL.Image.fromarray((x if x.shape[2] == 3 else x[:, :, 0]).astype("uint8"))


def flip_axis(x: Any, axis: int) -> np.ndarray:
    """Backwards along an axis."""
    return np.flip(x, axis)


# bent: matrices that say where each point of the result lies in the image

def turn(angle: float) -> np.ndarray:
    """The matrix of a rotation."""
    return np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])


def shift(down: float, right: float) -> np.ndarray:
    """The matrix of a shift by pixels."""
    return np.array([[1, 0, down], [0, 1, right], [0, 0, 1]])


def shear(angle: float) -> np.ndarray:
    """The matrix of a shear."""
    return np.array([[1, -np.sin(angle), 0], [0, np.cos(angle), 0], [0, 0, 1]])


def zoom(rows: float, columns: float) -> np.ndarray:
    """The matrix of an enlargement: factors below 1 enlarge."""
    return np.diag([rows, columns, 1.0])


def centred(matrix: np.ndarray, height: int, width: int) -> np.ndarray:
    """A matrix about the centre of an image, in place of its corner."""
    found: np.ndarray = shift(height / 2 + 0.5, width / 2 + 0.5) @ matrix @ shift(-height / 2 - 0.5, -width / 2 - 0.5)
    return found


def apply_transform(x: np.ndarray, transform_matrix: np.ndarray, channel_axis: int = 0, fill_mode: str = "nearest",
                    cval: float = 0.0) -> np.ndarray:
    """The nearest points where a matrix [3, 3] says; what lies outside by `fill_mode`, as scipy.ndimage names them."""
    from scipy import ndimage

    bent = [ndimage.affine_transform(one, transform_matrix[:2, :2], transform_matrix[:2, 2], order=0, mode=fill_mode, cval=cval)
            for one in np.moveaxis(x, channel_axis, 0)]
    return np.stack(bent, channel_axis)


def _about_centre(x: np.ndarray, matrix: np.ndarray, axes: tuple[int, int, int], fill_mode: str, cval: float) -> np.ndarray:
    row_axis, col_axis, channel_axis = axes
    return apply_transform(x, centred(matrix, x.shape[row_axis], x.shape[col_axis]), channel_axis, fill_mode, cval)


def random_rotation(x: np.ndarray, rg: float, row_axis: int = 1, col_axis: int = 2, channel_axis: int = 0,
                    fill_mode: str = "nearest", cval: float = 0.0) -> np.ndarray:
    """Turned by up to `rg` degrees, by a number of NumPy's generator."""
    matrix = turn(np.pi / 180 * np.random.uniform(-rg, rg))
    return _about_centre(x, matrix, (row_axis, col_axis, channel_axis), fill_mode, cval)


def random_shift(x: np.ndarray, wrg: float, hrg: float, row_axis: int = 1, col_axis: int = 2, channel_axis: int = 0,
                 fill_mode: str = "nearest", cval: float = 0.0) -> np.ndarray:
    """Shifted by up to these shares of its width and height."""
    down = np.random.uniform(-hrg, hrg) * x.shape[row_axis]
    return apply_transform(x, shift(down, np.random.uniform(-wrg, wrg) * x.shape[col_axis]), channel_axis, fill_mode, cval)


def random_shear(x: np.ndarray, intensity: float, row_axis: int = 1, col_axis: int = 2, channel_axis: int = 0,
                 fill_mode: str = "nearest", cval: float = 0.0) -> np.ndarray:
    """Sheared by up to an angle in radians."""
    matrix = shear(np.random.uniform(-intensity, intensity))
    return _about_centre(x, matrix, (row_axis, col_axis, channel_axis), fill_mode, cval)


def random_zoom(x: np.ndarray, zoom_range: Sequence[float], row_axis: int = 1, col_axis: int = 2, channel_axis: int = 0,
                fill_mode: str = "nearest", cval: float = 0.0) -> np.ndarray:
    """Enlarged or made smaller, each axis by a factor within a range. InvalidArgumentError unless the range is a pair."""
    return _about_centre(x, zoom(*factors(zoom_range)), (row_axis, col_axis, channel_axis), fill_mode, cval)


def factors(zoom_range: Sequence[float]) -> tuple[float, float]:
    """Two random factors within a range; nothing is drawn where that is 1 alone."""
    if len(zoom_range) != 2:
        raise errors.InvalidArgumentError(f"keras: `zoom_range` should be a tuple or list of two floats; it is {zoom_range!r}")
    low, high = zoom_range
    rows, columns = (1.0, 1.0) if low == high == 1 else np.random.uniform(low, high, 2)
    return float(rows), float(columns)


def random_channel_shift(x: np.ndarray, intensity: float, channel_axis: int = 0) -> np.ndarray:
    """Each channel larger or smaller by up to `intensity`, within the values of the image."""
    ends = x.min(), x.max()
    moved = [np.clip(one + np.random.uniform(-intensity, intensity), *ends) for one in np.moveaxis(x, channel_axis, 0)]
    return np.stack(moved, channel_axis)
