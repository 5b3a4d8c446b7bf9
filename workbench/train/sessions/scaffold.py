"""Scaffold: what a monitored session makes from its graph, where the program does not give it."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.core.graph.graph import get_default_graph
from workbench.core.run.session import Session
from workbench.nn.lookups import local_initializer
from workbench.nn.variables import (
    GraphKeys,
    add_to_collection,
    get_collection,
    global_variables,
    global_variables_initializer,
    report_uninitialized_variables,
)
from workbench.train.saving import summary
from workbench.train.saving.saver import Saver, default_saver

__all__ = ["Scaffold", "kept", "local_init"]


class Scaffold:
    """What a monitored session uses instead of what it would make from the graph; None: it makes it.

    `init_fn(scaffold, session)` runs after the initial values; `ready_op` and `ready_for_local_init_op` list what has no value
    yet. What is None is taken from `copy_from_scaffold`.
    """

    def __init__(self, init_op: Any = None, init_feed_dict: Any = None, init_fn: Callable[[Any, Session], None] | None = None,
                 ready_op: Any = None, ready_for_local_init_op: Any = None, local_init_op: Any = None, summary_op: Any = None,
                 saver: Saver | None = None, copy_from_scaffold: Scaffold | None = None) -> None:
        if copy_from_scaffold is not None and not isinstance(copy_from_scaffold, Scaffold):
            raise TypeError(f"Scaffold: copy_from_scaffold is not a Scaffold instance but {copy_from_scaffold!r}")
        self.init_op, self.init_feed_dict, self.init_fn, self.ready_op = init_op, init_feed_dict, init_fn, ready_op
        self.ready_for_local_init_op, self.local_init_op = ready_for_local_init_op, local_init_op
        self.summary_op, self.saver = summary_op, saver
        for name, value in vars(copy_from_scaffold).items() if copy_from_scaffold is not None else ():
            if getattr(self, name) is None:
                setattr(self, name, value)

    def finalize(self) -> Scaffold:
        """Make from the default graph what was not given, unless a collection has it, and finalize the graph; itself."""
        for name, key, make in (
                ("init_op", GraphKeys.INIT_OP, global_variables_initializer),
                ("ready_op", GraphKeys.READY_OP, report_uninitialized_variables),
                ("ready_for_local_init_op", GraphKeys.READY_FOR_LOCAL_INIT_OP,
                 lambda: report_uninitialized_variables(global_variables())),
                ("local_init_op", GraphKeys.LOCAL_INIT_OP, local_initializer),
                ("summary_op", GraphKeys.SUMMARY_OP, summary.merge_all),
                ("saver", GraphKeys.SAVERS, lambda: default_saver(allow_empty=True))):
            if getattr(self, name) is None:
                setattr(self, name, self.get_or_default(name, key, make))
        self.saver.build()      # type: ignore[union-attr]
        get_default_graph().finalize()
        return self

    @staticmethod
    def get_or_default(arg_name: str, collection_key: str, default_constructor: Callable[[], Any]) -> Any:
        """The one element of a collection, made where there is none. RuntimeError where there are several."""
        found = get_collection(collection_key)
        if len(found) > 1:
            raise RuntimeError(f"More than one item in the collection \"{collection_key}\". Please indicate which one to use "
                               f"by passing it to the tf.Scaffold constructor as:  tf.Scaffold({arg_name}=item to use)")
        if not found:
            found = [default_constructor()]
            if found[0] is not None:
                add_to_collection(collection_key, found[0])
        return found[0]


def local_init(scaffold: Scaffold) -> Any:
    """What gives the local variables and tables their values."""
    local = scaffold.local_init_op
    if local is None and get_default_graph().finalized:      # then the program had it made
        local = kept(None, "local_init_op", GraphKeys.LOCAL_INIT_OP)
    return local_initializer() if local is None else local


def kept(given: Any, name: str, key: str) -> Any:
    """What was given, or the one that the program put into a collection."""
    found = get_collection(key) if given is None else ()
    return Scaffold.get_or_default(name, key, lambda: None) if found else given
