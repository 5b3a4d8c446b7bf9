"""What the tests of TensorFlow ask of modules that are not public and that programs do not need, in its simplest form."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import workbench.tf1 as tf


def run_in_graph_and_eager_modes(*given: Any, **options: Any) -> Any:
    """A test that runs both ways, as a graph: there is no other way here."""
    def decorated(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def run(self: Any, *args: Any, **others: Any) -> None:
            with tf.Graph().as_default(), self.test_session():
                test(self, *args, **others)
        return run
    return decorated(given[0]) if given and callable(given[0]) else decorated


def with_dependencies(dependencies: list[Any], output: Any, name: str | None = None) -> Any:
    with tf.control_dependencies(dependencies):
        return tf.identity(output, name=name)


def in_graph_mode() -> bool:
    return True


def in_eager_mode() -> bool:
    return False


STAND_INS = {"run_in_graph_and_eager_modes": run_in_graph_and_eager_modes, "with_dependencies": with_dependencies,
             "in_graph_mode": in_graph_mode, "in_eager_mode": in_eager_mode}
