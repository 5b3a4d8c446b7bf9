"""What lives in one process: sessions and clusters are not sent to another one, and say what to do there instead."""
from __future__ import annotations

from typing import NoReturn

from workbench import errors

__all__ = ["Staying"]


class Staying:
    """Base of what is not pickled; UnimplementedError says so."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        name = type(self).__name__
        raise errors.UnimplementedError(f"{name}: it does not travel to another process; make one there, in a task of Dask by "
                                        "wb.Session(wb.Cluster(distributed.get_client(), …))")
