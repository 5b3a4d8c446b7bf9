"""`tensorflow.python.util`: nest, compat, and what decorates functions and modules."""
from __future__ import annotations

import contextlib as tf_contextlib
import functools
import importlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import workbench.tf1 as tf
from workbench.tf1.missing import Namespace
from workbench.tf1.python import borrowed as _borrowed
from workbench.tf1.then import ArgSpec, argspec

__all__ = ["all_util", "compat", "deprecation", "function_utils", "keyword_args", "lazy_loader", "nest", "tf_contextlib",
           "tf_decorator", "tf_export", "tf_inspect", "tf_should_use"]

compat, nest = tf.compat, tf.contrib.framework.nest
deprecation = tf.contrib.framework


def _same(function: Any) -> Any:
    """A decorator that changes nothing."""
    return function


def _exported(*_names: str, **_options: Any) -> Callable[[Any], Any]:
    """A decorator that changes nothing: what is public is listed elsewhere."""
    return _same


def _nothing(*_given: Any, **_options: Any) -> None:
    """Names of a module stay as they are."""


def _all_of(module_name: str, doc_string_modules: Any = None) -> list[str]:
    """The public names of a module."""
    return [name for name in vars(importlib.import_module(module_name)) if not name.startswith("_")]


def _decorator(target: Any, decorator_func: Any, *_told: Any, **_options: Any) -> Any:
    """`decorator_func`, which stands for `target` and looks like it."""
    return functools.update_wrapper(decorator_func, target)


def _by_keyword(function: Any) -> Any:
    """`function`, whose arguments are given by name alone: TypeError for others."""
    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if args:
            raise TypeError(f"{function.__name__} only takes keyword args (possible keys: {argspec(function).args}). "
                            "Please pass these args as kwargs instead.")
        return function(**options)
    return call


class LazyLoader(ModuleType):
    """A module that is loaded when a name of it is asked for, and then stands in `parent_module_globals` too."""

    def __init__(self, local_name: str, parent_module_globals: dict[str, Any], name: str) -> None:
        super().__init__(name)
        self._place = parent_module_globals, local_name

    def __getattr__(self, name: str) -> Any:
        module = importlib.import_module(self.__name__)
        self._place[0][self._place[1]] = module
        return getattr(module, name)


tf_inspect = Namespace(**{**vars(inspect), "getargspec": argspec, "ArgSpec": ArgSpec})
tf_decorator = Namespace(make_decorator=_decorator, unwrap=lambda function: ([], inspect.unwrap(function)))
tf_export = Namespace(tf_export=_exported)
tf_should_use = Namespace(should_use_result=_same)
all_util = Namespace(make_all=_all_of, remove_undocumented=_nothing, reveal_undocumented=_nothing)
function_utils = Namespace(**_borrowed.FUNCTIONS)
keyword_args = Namespace(keyword_args_only=_by_keyword)
lazy_loader = Namespace(LazyLoader=LazyLoader)
