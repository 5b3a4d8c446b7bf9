"""Initializers from matrices of a checkpoint whose rows and columns are named by vocabularies: by the words of other ones."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench import errors
from workbench.core.graph.build import constant_value, ops
from workbench.core.graph.dtype import as_dtype
from workbench.core.graph.graph import Tensor
from workbench.formats.folders import load_checkpoint
from workbench.nn.initializers import Zeros, truncated_normal_initializer

__all__ = ["load_and_remap_matrix_initializer", "load_embedding_initializer", "load_linear_multiclass_bias_initializer",
           "load_variable_slot_initializer"]

Initializer = Callable[..., Any]
_WHERE = "load_and_remap_matrix_initializer"


class _Axis:
    """What stands along an axis: `size` words of a new vocabulary, with places in the old one, and `extra` places besides."""

    def __init__(self, name: str, size: int, old: Any, new: Any, extra: int) -> None:
        if (old is None) != (new is None):
            raise errors.InvalidArgumentError(f"{_WHERE}: old_{name}_vocab_file and new_{name}_vocab_file must both be "
                                              f"specified or left unspecified.; they are {old!r} and {new!r}")
        if extra < 0:
            raise errors.InvalidArgumentError(f"{_WHERE}: num_{name}_oov_buckets must be >= 0, but it is {extra}")
        self.name, self.size, self.old, self.new, self.extra = name, int(size), old, new, int(extra)

    def places(self) -> np.ndarray[Any, Any]:
        """For each place of the new axis that in the old one, -1 where there is none."""
        if self.new is None:
            found = np.arange(self.size)
        else:
            known = {word: place for place, word in enumerate(_words(self.old))}
            words = _words(self.new)[:self.size]
            if len(words) < self.size:
                raise errors.InvalidArgumentError(f"{_WHERE}: new_{self.name}_vocab_size is {self.size} but {_path(self.new)} "
                                                  f"has {len(words)} words; give their number")
            found = np.array([known.get(word, -1) for word in words], np.int64)
        return np.concatenate([found, np.full(self.extra, -1)]).astype(np.int64)


def _path(file: Any) -> str:
    value = np.asarray(constant_value(file) if isinstance(file, Tensor) else file, object).item()
    return value.decode() if isinstance(value, bytes) else str(value)


def _words(file: Any) -> list[str]:
    with open(_path(file), encoding="utf-8") as lines:
        return lines.read().splitlines()


def load_and_remap_matrix_initializer(
        ckpt_path: Any, old_tensor_name: str, new_row_vocab_size: int, new_col_vocab_size: int, old_row_vocab_file: Any = None,
        new_row_vocab_file: Any = None, old_col_vocab_file: Any = None, new_col_vocab_file: Any = None,
        num_row_oov_buckets: int = 0, num_col_oov_buckets: int = 0, initializer: Initializer | None = None,
        max_rows_in_memory: int = -1) -> Initializer:
    """An initializer of [new_row_vocab_size + num_row_oov_buckets, new_col_vocab_size + num_col_oov_buckets]: the rows and
    columns of a checkpoint's matrix, found again by the words of vocabulary files, of which both or none are given for an axis.

    What the old matrix has not, and places out of the vocabulary, are made by `initializer` (default zeros). The files are read
    when the initializer runs; parts of a variable get their rows. `max_rows_in_memory` has no effect: a matrix is read at once.
    TypeError (DtypeError) for an initializer that is no function, InvalidArgumentErrors for another shape and one file alone.
    """
    if initializer is not None and not callable(initializer):
        raise errors.DtypeError(f"{_WHERE}: initializer must be callable, instead of being {initializer!r}")
    rows = _Axis("row", new_row_vocab_size, old_row_vocab_file, new_row_vocab_file, num_row_oov_buckets)
    columns = _Axis("col", new_col_vocab_size, old_col_vocab_file, new_col_vocab_file, num_col_oov_buckets)
    whole = rows.size + rows.extra, columns.size + columns.extra
    fresh: Initializer = Zeros() if initializer is None else initializer

    def initialize(shape: Sequence[int], dtype: Any = "float32", partition_info: Any = None) -> Tensor:
        lengths, first = [int(length) for length in shape], 0 if partition_info is None else partition_info.var_offset[0]
        if len(lengths) != 2 or lengths[1] != whole[1] or first + lengths[0] > whole[0] or (
                partition_info is None and lengths[0] != whole[0]):
            raise errors.InvalidArgumentError(f"{_WHERE}: a variable of shape {lengths} is asked but the vocabularies make "
                                              f"{list(whole)}; give it that shape, or cut it along its rows")
        kind = as_dtype(dtype)

        def read() -> tuple[Any, Any]:
            return _mapped(ckpt_path, old_tensor_name, rows.places()[first:first + lengths[0]], columns.places(), kind.numpy)
        found, there = ops.py_func(read, [], [kind, "bool"], name="load_and_remap_matrix")
        found.set_shape(lengths)
        there.set_shape(lengths)
        made: Tensor = ops.where(there, found, fresh(lengths, dtype=kind))
        return made
    return initialize


def _mapped(path: Any, name: str, rows: Any, columns: Any, dtype: Any) -> tuple[Any, Any]:
    """(the old matrix in the new order, where it has something)."""
    old = np.asarray(load_checkpoint(_path(path)).get_tensor(name), dtype)
    if old.ndim != 2:
        raise errors.InvalidArgumentError(f"{_WHERE}: {name!r} has shape {list(old.shape)}; name a matrix")
    there = (rows >= 0)[:, None] & (columns >= 0)[None]
    for axis, (what, places) in enumerate((("rows", rows), ("columns", columns))):
        if places.size and places.max() >= old.shape[axis]:
            raise errors.InvalidArgumentError(f"{_WHERE}: {name!r} has {old.shape[axis]} {what} but number {places.max()} is "
                                              "asked; its vocabulary is another one")
    return np.where(there, old[np.ix_(np.maximum(rows, 0), np.maximum(columns, 0))], 0).astype(dtype), there


def load_embedding_initializer(ckpt_path: Any, embedding_tensor_name: str, new_vocab_size: int, embedding_dim: int,
                               old_vocab_file: Any, new_vocab_file: Any, num_oov_buckets: int = 0,
                               initializer: Initializer | None = None, max_rows_in_memory: int = -1) -> Initializer:
    """An initializer of embeddings [new_vocab_size + num_oov_buckets, embedding_dim] by those of a checkpoint's words; others
    are drawn, by default from a normal distribution of standard deviation 1 / √embedding_dim."""
    fresh = initializer or truncated_normal_initializer(stddev=1.0 / math.sqrt(embedding_dim))
    return load_and_remap_matrix_initializer(
        ckpt_path, embedding_tensor_name, new_vocab_size, embedding_dim, old_vocab_file, new_vocab_file,
        num_row_oov_buckets=num_oov_buckets, initializer=fresh, max_rows_in_memory=max_rows_in_memory)


def load_linear_multiclass_bias_initializer(ckpt_path: Any, bias_tensor_name: str, new_class_vocab_size: int,
                                            old_class_vocab_file: Any, new_class_vocab_file: Any,
                                            num_class_oov_buckets: int = 0, initializer: Initializer | None = None,
                                            max_rows_in_memory: int = -1) -> Initializer:
    """An initializer of the biases [new_class_vocab_size + num_class_oov_buckets, 1] of classes, by those of a checkpoint."""
    return load_and_remap_matrix_initializer(
        ckpt_path, bias_tensor_name, new_class_vocab_size, 1, old_class_vocab_file, new_class_vocab_file,
        num_row_oov_buckets=num_class_oov_buckets, initializer=initializer, max_rows_in_memory=max_rows_in_memory)


def load_variable_slot_initializer(
        ckpt_path: Any, old_tensor_name: str, primary_partition_info: Any, new_row_vocab_size: int, new_col_vocab_size: int,
        old_row_vocab_file: Any = None, new_row_vocab_file: Any = None, old_col_vocab_file: Any = None,
        new_col_vocab_file: Any = None, num_row_oov_buckets: int = 0, num_col_oov_buckets: int = 0,
        initializer: Initializer | None = None, max_rows_in_memory: int = -1) -> Initializer:
    """As load_and_remap_matrix_initializer, for the slot of a variable, or of a part of one: `primary_partition_info` says
    which."""
    whole = load_and_remap_matrix_initializer(
        ckpt_path, old_tensor_name, new_row_vocab_size, new_col_vocab_size, old_row_vocab_file, new_row_vocab_file,
        old_col_vocab_file, new_col_vocab_file, num_row_oov_buckets, num_col_oov_buckets, initializer, max_rows_in_memory)

    def initialize(shape: Sequence[int], dtype: Any = "float32", partition_info: Any = None) -> Any:
        return whole(shape, dtype, primary_partition_info)
    return initialize
