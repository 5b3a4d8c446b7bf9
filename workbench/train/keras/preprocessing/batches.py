"""Endless batches of images, from arrays and from folders."""
from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.dtype import bare
from workbench.train.keras import backend, utils
from workbench.train.keras.preprocessing.pictures import array_to_img, img_to_array, load_img

__all__ = ["DirectoryIterator", "Iterator", "NumpyArrayIterator"]

_KINDS = (".png", ".jpg", ".jpeg", ".bmp", ".ppm")


class Iterator:
    """Base of batches without end: of at most `batch_size` of n rows, shuffled anew in each pass.

    With a `seed` NumPy's generator is set before each batch, to the seed and the number of batches before.
    """

    def __init__(self, n: int, batch_size: int, shuffle: bool, seed: int | None) -> None:
        self.n, self.batch_size, self.shuffle, self.seed = n, batch_size, shuffle, seed
        self.batch_index = self.total_batches_seen = 0
        self.lock = threading.Lock()
        self._order = np.arange(n)

    def reset(self) -> None:
        """Begin a new pass."""
        self.batch_index = 0

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Any:
        """The next batch. InvalidArgumentError where there are no rows."""
        with self.lock:
            first, chosen = self._chosen()
        return self._batch(first, chosen)

    next = __next__

    def _chosen(self) -> tuple[int, np.ndarray]:
        """The place of the next batch in its pass, and its rows."""
        if not self.n:
            raise errors.InvalidArgumentError(f"{type(self).__name__}: there are no images; give some")
        if self.seed is not None:
            np.random.seed(self.seed + self.total_batches_seen)
        if self.batch_index == 0 and self.shuffle:
            self._order = np.random.permutation(self.n)
        first = self.batch_index * self.batch_size
        chosen = self._order[first:first + self.batch_size]
        self.batch_index = 0 if first + self.batch_size >= self.n else self.batch_index + 1
        self.total_batches_seen += 1
        return first, chosen

    def _batch(self, first: int, chosen: np.ndarray) -> Any:
        raise errors.UnimplementedError(f"{type(self).__name__}: _batch(first, chosen) is missing; define it")


class _Images(Iterator):
    """Base of batches of images that a generator bends, and that may be written into a folder."""

    def __init__(self, image_data_generator: Any, data_format: str | None, save: Sequence[Any], *of_rows: Any) -> None:
        super().__init__(*of_rows)
        self.image_data_generator, self.data_format = image_data_generator, backend.layout(data_format)
        self.save_to_dir, self.save_prefix, self.save_format = save

    def _bent(self, first: int, images: list[np.ndarray]) -> np.ndarray:
        generator = self.image_data_generator
        made = np.stack([generator.standardize(generator.random_transform(x)) for x in images]).astype(backend.floatx())
        for number, x in enumerate(made if self.save_to_dir else ()):
            name = f"{self.save_prefix}_{first + number}_{np.random.randint(10 ** 4)}.{self.save_format}"
            array_to_img(x, self.data_format).save(os.path.join(self.save_to_dir, name))
        return made


class NumpyArrayIterator(_Images):
    """Batches of images [n, …] and of what belongs to them. InvalidArgumentError where these are not as many, or no images."""

    def __init__(self, x: Any, y: Any, image_data_generator: Any, batch_size: int = 32, shuffle: bool = False,
                 seed: int | None = None, data_format: str | None = None, save_to_dir: Any = None, save_prefix: str = "",
                 save_format: str = "png") -> None:
        self.x = np.asarray(bare(x, "flow: x"), backend.floatx())
        self.y = None if y is None else np.asarray(bare(y, "flow: y"))
        if self.y is not None and len(self.x) != len(self.y):
            raise errors.InvalidArgumentError(f"flow: X (images tensor) and y (labels) should have the same length; they have "
                                              f"shapes {self.x.shape} and {self.y.shape}")
        if self.x.ndim != 4:
            raise errors.InvalidArgumentError(f"flow: Input data should have rank 4; its shape is {self.x.shape}")
        super().__init__(image_data_generator, data_format, (save_to_dir, save_prefix, save_format), len(self.x), batch_size,
                         shuffle, seed)

    def _batch(self, first: int, chosen: np.ndarray) -> Any:
        x = self._bent(first, [self.x[number].copy() for number in chosen])
        return x if self.y is None else (x, self.y[chosen])


class DirectoryIterator(_Images):
    """Batches of the images in the folders of `directory`, one for each class, in the order of their names.

    With them classes as `class_mode` says: "categorical" as vectors, "sparse" as numbers, "binary" as floats, "input" the
    images again, None nothing. InvalidArgumentError for another word.
    """

    def __init__(self, directory: Any, image_data_generator: Any, target_size: Sequence[int] = (256, 256),
                 color_mode: str = "rgb", classes: Sequence[str] | None = None, class_mode: str | None = "categorical",
                 batch_size: int = 32, shuffle: bool = True, seed: int | None = None, data_format: str | None = None,
                 save_to_dir: Any = None, save_prefix: str = "", save_format: str = "png", follow_links: bool = False) -> None:
        if color_mode not in ("rgb", "grayscale"):
            raise errors.InvalidArgumentError(f"flow_from_directory: Invalid color mode: {color_mode!r}; use 'rgb' or "
                                              "'grayscale'")
        if class_mode not in _LABELS:
            raise errors.InvalidArgumentError(f"flow_from_directory: Invalid class_mode: {class_mode!r}; use one of "
                                              f"{', '.join(map(repr, _LABELS))}")
        self.directory, self.target_size = directory, tuple(target_size)
        self.color_mode, self.class_mode = color_mode, class_mode
        names = list(classes or sorted(entry.name for entry in os.scandir(directory) if entry.is_dir()))
        self.class_indices, self.num_class = {name: number for number, name in enumerate(names)}, len(names)
        found = [(path, number) for name, number in self.class_indices.items() for path in _images(
            directory, name, follow_links)]
        self.filenames, self.samples = [path for path, _ in found], len(found)
        self.classes = np.array([number for _, number in found], "int32")
        print(f"Found {self.samples} images belonging to {self.num_class} classes.")
        super().__init__(image_data_generator, data_format, (save_to_dir, save_prefix, save_format), self.samples, batch_size,
                         shuffle, seed)
        deep = (1 if color_mode == "grayscale" else 3,)
        self.image_shape = (*deep, *target_size) if self.data_format == "channels_first" else (*target_size, *deep)

    def _batch(self, first: int, chosen: np.ndarray) -> Any:
        images = [load_img(os.path.join(self.directory, self.filenames[number]), self.color_mode == "grayscale",
                           self.target_size) for number in chosen]
        x = self._bent(first, [img_to_array(image, self.data_format) for image in images])
        label = _LABELS[self.class_mode]
        return x if label is None else (x, label(x, self.classes[chosen], self.num_class))


_LABELS: dict[Any, Callable[[np.ndarray, np.ndarray, int], np.ndarray] | None] = {
    "categorical": lambda x, numbers, count: utils.to_categorical(numbers, count).astype(backend.floatx()),
    "binary": lambda x, numbers, count: numbers.astype(backend.floatx()), "sparse": lambda x, numbers, count: numbers,
    "input": lambda x, numbers, count: x.copy(), None: None}


def _images(directory: Any, name: str, follow_links: bool) -> list[str]:
    """The images below a class's folder, by their paths from the folder of all, in order."""
    return [os.path.relpath(os.path.join(folder, file), directory)
            for folder, _, files in sorted(os.walk(os.path.join(directory, name), followlinks=follow_links))
            for file in sorted(files) if file.lower().endswith(_KINDS)]
