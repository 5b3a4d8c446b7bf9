"""What the tests of TensorFlow ask of modules that are not public and that programs do not need, in its simplest form."""
from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import workbench.tf1 as tf
from tests.public.standins_framework import FRAMEWORK
from tests.public.standins_training import TRAINING


def run_in_graph_and_eager_modes(*given: Any, **options: Any) -> Any:
    """A test that runs both ways, as a graph: there is no other way here."""
    def decorated(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def run(self: Any, *args: Any, **others: Any) -> None:
            with tf.Graph().as_default(), self.test_session():
                test(self, *args, **others)
        return run
    return decorated(given[0]) if given and callable(given[0]) else decorated


def with_dependencies(dependencies: list[Any], output_tensor: Any, name: str | None = None) -> Any:
    with tf.control_dependencies(dependencies):
        return tf.identity(output_tensor, name=name)


def in_graph_mode() -> bool:
    return True


def in_eager_mode() -> bool:
    return False


def convert_n_to_tensor(values: Any, dtype: Any = None, name: str | None = None) -> Any:
    return [tf.convert_to_tensor(value, dtype) for value in values]


CHANNELS_FIRST = {4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}
CHANNELS_LAST = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}


def reordered(orders: dict[int, tuple[int, ...]]) -> Callable[[Any], Any]:
    """A function that brings the axes of a tensor, or the lengths of a shape, into another order."""
    def reorder(given: Any) -> Any:
        if isinstance(given, tf.Tensor):
            return tf.transpose(given, orders[given.shape.ndims])
        return [given[axis] for axis in orders[len(given)]]
    return reorder


DTYPE_RANGE = {np.bool_: (False, True), np.float32: (-1, 1), np.float64: (-1, 1),
               **{kind: (np.iinfo(kind).min, np.iinfo(kind).max) for kind in (np.uint8, np.uint16, np.int8, np.int16)}}
STAND_INS = {"convert_n_to_tensor": convert_n_to_tensor,
             "test_util.device": lambda use_gpu: tf.device(None),
             "CudaSupportsHalfMatMulAndConv": lambda: False,
             "NHWCToNCHW": reordered(CHANNELS_FIRST), "NCHWToNHWC": reordered(CHANNELS_LAST), "dtype_range": DTYPE_RANGE,
             "ResourceVariable": tf.Variable,      # every variable here is one
             "run_in_graph_and_eager_modes": run_in_graph_and_eager_modes, "with_dependencies": with_dependencies,
             "fft_kernel_label_map": contextlib.nullcontext, "arg_scope": tf.contrib.framework.arg_scope,
             "in_graph_mode": in_graph_mode, "in_eager_mode": in_eager_mode, **FRAMEWORK, **TRAINING}
