"""The session that stays the default, and questions to the default one; without any, a session of this process answers."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from workbench.core.graph import graph as graphs
from workbench.core.graph.entered import get_default_session, pop_session, push_for_good
from workbench.core.run.explain import Explanation
from workbench.core.run.session import Session
from workbench.core.run.tuning import Tuned

__all__ = ["InteractiveSession", "explain", "tune"]


class InteractiveSession(Session):
    """A session that is the default from the moment it is made (for notebooks)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        push_for_good(self, graphs.default_graphs())

    def close(self) -> None:
        pop_session(self)
        super().close()


def explain(fetches: Any, feed_dict: Mapping[Any, Any] | None = None) -> Explanation:
    """`Session.explain` of the default session."""
    with _session() as session:
        return session.explain(fetches, feed_dict)


def tune(fetches: Any, feed_dict: Mapping[Any, Any] | None = None, seconds: float = 5.0) -> Tuned:
    """`Session.tune` of the default session."""
    with _session() as session:
        return session.tune(fetches, feed_dict, seconds)


@contextlib.contextmanager
def _session() -> Iterator[Session]:
    session = get_default_session()
    if session is not None:
        yield session
    else:
        with Session() as made:
            yield made
