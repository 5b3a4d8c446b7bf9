"""Operations that move tensors between devices; partition.py inserts them, users never call them."""
from __future__ import annotations

from typing import Any

from workbench import errors
from workbench.core.graph.opdef import op
from workbench.core.names import join_edge
from workbench.core.state.container import Context


@op("value? ->", types="any ->", stateful=True, context=True, keeps=False)
def send(context: Context, value: Any, *, tensor: str, source: str, target: str,
         steered: bool = False) -> None:
    """Hand `value` to the rendezvous under `tensor`; never waits (paper §3.3).

    `steered`: the value may be dead, which is sent too; then the driver sends, not this kernel.
    """
    if context.send is None:
        raise errors.InternalError(f"send: {tensor} goes to {target} but this plan was bound without a rendezvous")
    context.send(join_edge(tensor, source, target), value, False)


@op("-> ?", types="-> @dtype", stateful=True, blocking=True, shape=lambda inputs, attrs: [attrs["shape"]])
def receive(*, dtype: Any, shape: Any, tensor: str, source: str, target: str) -> None:
    """Wait for `tensor` from `source`; the driver asks the rendezvous, no thread is held."""
    raise errors.InternalError(f"receive: {tensor} was run as an ordinary kernel")
