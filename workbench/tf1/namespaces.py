"""Small modules of TensorFlow: errors, logging, compat, test, resource_loader, sysconfig, initializers."""
from __future__ import annotations

import itertools
import logging as _python_logging
import numbers
import os
import sys
import unittest.mock
from typing import Any

import numpy as np

import workbench as wb
from workbench import errors as _errors
from workbench.cluster.chief.server import create_local_cluster
from workbench.nn import initializers as _initializers
from workbench.tf1.missing import Namespace
from workbench.train import testing

__all__ = ["compat", "errors", "initializers", "logging", "resource_loader", "sysconfig", "test"]

errors = Namespace(
    **{name: getattr(_errors, name) for name in _errors.__all__}, **_errors.CODES,
    error_code_from_exception_type=_errors.code_of, exception_type_from_error_code=_errors.kind_of)


# logging

_log = _python_logging.getLogger("workbench")
_counts: dict[tuple[str, int], itertools.count[int]] = {}


def _seen() -> int:
    """How often the line that logs was here before."""
    frame = sys._getframe(2)
    key = frame.f_code.co_filename, frame.f_lineno
    return next(_counts.setdefault(key, itertools.count()))


def log_every_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Log the first message of this line, and each n-th after it."""
    if _seen() % n == 0:
        _log.log(level, msg, *args)


def log_first_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Log the first n messages of this line."""
    if _seen() < n:
        _log.log(level, msg, *args)


def log_if(level: int, msg: str, condition: Any, *args: Any) -> None:
    """Log where the condition holds."""
    if condition:
        _log.log(level, msg, *args)


def set_verbosity(v: int) -> None:
    """Messages below this level are dropped from here on."""
    _log.setLevel(v)


def flush() -> None:
    """Have everything written that was logged."""
    for handler in _log.handlers:
        handler.flush()


logging = Namespace(
    DEBUG=_python_logging.DEBUG, INFO=_python_logging.INFO, WARN=_python_logging.WARNING, ERROR=_python_logging.ERROR,
    FATAL=_python_logging.CRITICAL, debug=_log.debug, info=_log.info, warn=_log.warning, warning=_log.warning,
    error=_log.error, fatal=_log.critical, log=_log.log, vlog=_log.log, set_verbosity=set_verbosity,
    get_verbosity=_log.getEffectiveLevel, log_every_n=log_every_n, log_first_n=log_first_n, log_if=log_if, flush=flush,
    TaskLevelStatusMessage=_log.info)


# text of bytes and bytes of text

def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Bytes of text; bytes as they are. TypeError for anything else."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, (bytes, bytearray)):
        return bytes(bytes_or_text)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Text of bytes; text as it is. TypeError for anything else."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


def as_str_any(value: Any) -> str:
    """Text of anything."""
    return as_text(value) if isinstance(value, bytes) else str(value)


compat = Namespace(
    as_bytes=as_bytes, as_text=as_text, as_str=as_text, as_str_any=as_str_any, bytes_or_text_types=(bytes, str),
    integral_types=(numbers.Integral, np.integer), real_types=(numbers.Real, np.integer, np.floating),
    complex_types=(numbers.Complex, np.number))


# tests

test = Namespace(
    TestCase=testing.TestCase, main=testing.main, compute_gradient=testing.compute_gradient,
    compute_gradient_error=testing.compute_gradient_error, get_temp_dir=testing.get_temp_dir, mock=unittest.mock,
    gpu_device_name=testing.gpu_device_name, is_gpu_available=testing.is_gpu_available, is_built_with_cuda=lambda: False,
    Benchmark=testing.Benchmark, StubOutForTesting=testing.StubOutForTesting,
    create_local_cluster=create_local_cluster, test_src_dir_path=testing.test_src_dir_path)


# files beside a program

def get_data_files_path() -> str:
    """The folder of the file that asks."""
    return os.path.dirname(sys._getframe(1).f_code.co_filename)


def _beside(path: str) -> str:
    return os.path.join(os.path.dirname(sys._getframe(2).f_code.co_filename), path)


def get_path_to_datafile(path: str) -> str:
    """The path of a file beside the one that asks."""
    return _beside(path)


def load_resource(path: str) -> bytes:
    """The bytes of a file beside the one that asks."""
    with open(_beside(path), "rb") as file:
        return file.read()


def readahead_file_path(path: str, readahead: str = "128M") -> str:
    """The path itself: how far ahead it is read is the system's affair."""
    return path


resource_loader = Namespace(
    get_data_files_path=get_data_files_path, get_path_to_datafile=get_path_to_datafile, load_resource=load_resource,
    readahead_file_path=readahead_file_path, get_root_dir_with_all_resources=get_data_files_path)
sysconfig = Namespace(get_include=lambda: os.path.dirname(wb.__file__), get_lib=lambda: os.path.dirname(wb.__file__))

initializers = Namespace(
    constant=_initializers.Constant, global_variables=wb.global_variables_initializer,
    glorot_normal=_initializers.glorot_normal_initializer, glorot_uniform=_initializers.glorot_uniform_initializer,
    he_normal=_initializers.he_normal, he_uniform=_initializers.he_uniform, identity=_initializers.Identity,
    lecun_normal=_initializers.lecun_normal, lecun_uniform=_initializers.lecun_uniform,
    local_variables=wb.local_variables_initializer, ones=_initializers.Ones, orthogonal=_initializers.Orthogonal,
    random_normal=_initializers.RandomNormal, random_uniform=_initializers.RandomUniform,
    truncated_normal=_initializers.TruncatedNormal, uniform_unit_scaling=wb.uniform_unit_scaling_initializer,
    variables=wb.variables_initializer, variance_scaling=_initializers.VarianceScaling, zeros=_initializers.Zeros)
