"""Values of tensors for tests: a session of their own, in which all variables have their initial values."""
from __future__ import annotations

from typing import Any

import workbench as wb


def run(fetches: Any, feeds: Any = None) -> Any:
    """The values of `fetches` in one step."""
    with wb.Session() as session:
        session.run(wb.global_variables_initializer())
        return session.run(fetches, feeds)


def value(*tensors: Any) -> Any:
    """The values of the tensors in one step; that of a single one itself."""
    found = run(list(tensors))
    return found[0] if len(found) == 1 else found
