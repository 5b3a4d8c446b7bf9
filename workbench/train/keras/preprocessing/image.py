"""ImageDataGenerator: images that are normalized, and bent at random, while a model is trained on them."""
from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.train.keras import backend
from workbench.train.keras.preprocessing import pictures
from workbench.train.keras.preprocessing.batches import DirectoryIterator, NumpyArrayIterator

__all__ = ["ImageDataGenerator"]


class ImageDataGenerator:
    """Batches of images, each turned (degrees), shifted (shares of its size), sheared (radians), enlarged, flipped at random.

    Before that `preprocessing_function` and `rescale` are applied to what a batch gives; "samplewise" normalization takes
    the image's own mean and deviation over its channels, "featurewise" and ZCA whitening those that `fit` found.
    Random numbers come from NumPy's generator. InvalidArgumentError for a zoom_range that is no number or pair.
    """

    def __init__(self, featurewise_center: bool = False, samplewise_center: bool = False,
                 featurewise_std_normalization: bool = False, samplewise_std_normalization: bool = False,
                 zca_whitening: bool = False, zca_epsilon: float = 1e-6, rotation_range: float = 0.0,
                 width_shift_range: float = 0.0, height_shift_range: float = 0.0, shear_range: float = 0.0,
                 zoom_range: Any = 0.0, channel_shift_range: float = 0.0, fill_mode: str = "nearest", cval: float = 0.0,
                 horizontal_flip: bool = False, vertical_flip: bool = False, rescale: float | None = None,
                 preprocessing_function: Callable[[np.ndarray], Any] | None = None, data_format: str | None = None) -> None:
        self.featurewise_center, self.samplewise_center = featurewise_center, samplewise_center
        self.featurewise_std_normalization = featurewise_std_normalization
        self.samplewise_std_normalization = samplewise_std_normalization
        self.zca_whitening, self.zca_epsilon = zca_whitening, zca_epsilon
        self.rotation_range, self.shear_range, self.channel_shift_range = rotation_range, shear_range, channel_shift_range
        self.width_shift_range, self.height_shift_range = width_shift_range, height_shift_range
        self.fill_mode, self.cval, self.horizontal_flip, self.vertical_flip = fill_mode, cval, horizontal_flip, vertical_flip
        self.rescale, self.preprocessing_function = rescale, preprocessing_function
        self.data_format = backend.layout(data_format)
        self.channel_axis, self.row_axis, self.col_axis = (1, 2, 3) if self.data_format == "channels_first" else (3, 1, 2)
        self.zoom_range: Sequence[float] = list(zoom_range) if np.ndim(zoom_range) else [1 - zoom_range, 1 + zoom_range]
        if len(self.zoom_range) != 2:
            raise errors.InvalidArgumentError(f"ImageDataGenerator: `zoom_range` should be a float or a tuple or list of two "
                                              f"floats; it is {zoom_range!r}")
        self.mean: Any = None
        self.std: Any = None
        self.principal_components: Any = None

    def flow(self, x: Any, y: Any = None, batch_size: int = 32, shuffle: bool = True, seed: int | None = None,
             save_to_dir: Any = None, save_prefix: str = "", save_format: str = "png") -> NumpyArrayIterator:
        """Batches of these images, with those of `y`, without end; with `save_to_dir` they are written there too."""
        return NumpyArrayIterator(x, y, self, batch_size, shuffle, seed, self.data_format, save_to_dir, save_prefix,
                                  save_format)

    def flow_from_directory(self, directory: Any, target_size: Sequence[int] = (256, 256), color_mode: str = "rgb",
                            classes: Sequence[str] | None = None, class_mode: str | None = "categorical", batch_size: int = 32,
                            shuffle: bool = True, seed: int | None = None, save_to_dir: Any = None, save_prefix: str = "",
                            save_format: str = "png", follow_links: bool = False) -> DirectoryIterator:
        """Batches of the images in the folders of a folder, one for each class, without end."""
        return DirectoryIterator(directory, self, target_size, color_mode, classes, class_mode, batch_size, shuffle, seed,
                                 self.data_format, save_to_dir, save_prefix, save_format, follow_links)

    def standardize(self, x: np.ndarray) -> np.ndarray:
        """An image, normalized. A warning where `fit` is needed and was not called: that part is left out."""
        if self.preprocessing_function:
            x = self.preprocessing_function(x)
        x = x * self.rescale if self.rescale else x
        channels = self.channel_axis - 1
        if self.samplewise_center:
            x = x - x.mean(channels, keepdims=True)
        if self.samplewise_std_normalization:
            x = x / (x.std(channels, keepdims=True) + 1e-7)
        if self._fitted("featurewise_center", self.mean):
            x = x - self.mean
        if self._fitted("featurewise_std_normalization", self.std):
            x = x / (self.std + 1e-7)
        if self._fitted("zca_whitening", self.principal_components):
            x = (x.reshape(-1) @ self.principal_components).reshape(x.shape)
        return x

    def _fitted(self, option: str, found: Any) -> bool:
        """Is the option wanted, and known from fit?"""
        if getattr(self, option) and found is None:
            warnings.warn(f"ImageDataGenerator: {option} is left out: the generator hasn't been fit on any training data; call "
                          "fit(images) first", stacklevel=3)
        return bool(getattr(self, option)) and found is not None

    def random_transform(self, x: np.ndarray, seed: int | None = None) -> np.ndarray:
        """An image, bent at random."""
        if seed is not None:
            np.random.seed(seed)
        rows, columns, channels = (axis - 1 for axis in (self.row_axis, self.col_axis, self.channel_axis))

        def drawn(most: float) -> float:
            return np.random.uniform(-most, most) if most else 0.0
        angle = np.pi / 180 * drawn(self.rotation_range)
        down, right = drawn(self.height_shift_range) * x.shape[rows], drawn(self.width_shift_range) * x.shape[columns]
        steps = [pictures.turn(angle), pictures.shift(down, right), pictures.shear(drawn(self.shear_range)),
                 pictures.zoom(*pictures.factors(self.zoom_range))]
        matrix = functools.reduce(operator.matmul, steps)
        if not np.array_equal(matrix, np.eye(3)):
            matrix = pictures.centred(matrix, x.shape[rows], x.shape[columns])
            x = pictures.apply_transform(x, matrix, channels, self.fill_mode, self.cval)
        if self.channel_shift_range:
            x = pictures.random_channel_shift(x, self.channel_shift_range, channels)
        for wanted, axis in ((self.horizontal_flip, columns), (self.vertical_flip, rows)):
            if wanted and np.random.random() < 0.5:
                x = pictures.flip_axis(x, axis)
        return x

    def fit(self, x: Any, augment: bool = False, rounds: int = 1, seed: int | None = None) -> None:
        """Find what featurewise normalization and whitening need, of images [n, …]; with `augment` of `rounds` bent ones each.

        InvalidArgumentError unless the rank is 4.
        """
        x = np.array(x, backend.floatx())
        if x.ndim != 4:
            raise errors.InvalidArgumentError(f"fit: Input to `.fit()` should have rank 4; its shape is {x.shape}")
        if seed is not None:
            np.random.seed(seed)
        if augment:
            x = np.stack([self.random_transform(one) for _ in range(rounds) for one in x])
        axes = (0, self.row_axis, self.col_axis)
        if self.featurewise_center:
            self.mean = x.mean(axes, keepdims=True)[0]
            x = x - self.mean
        if self.featurewise_std_normalization:
            self.std = x.std(axes, keepdims=True)[0]
            x = x / (self.std + backend.epsilon())
        if self.zca_whitening:
            flat = x.reshape(len(x), -1)
            directions, sizes, _ = np.linalg.svd(flat.T @ flat / len(flat))
            self.principal_components = (directions / np.sqrt(sizes + self.zca_epsilon)) @ directions.T
