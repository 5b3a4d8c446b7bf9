"""How exceptions become messages to the chief."""
from __future__ import annotations

import traceback

from workbench import errors
from workbench.cluster.wire import messages as m

__all__ = ["ANEW", "clipped", "cut_off", "failed", "text_of", "traced"]

ANEW = "close this cluster, start a new one and restore the newest checkpoint"
"""What to do where nothing recovers by itself."""


def failed(error: BaseException, peer: str = "", over: bool = True) -> m.Failed:
    """The message that says so; `peer` whose loss caused it, `over`: nothing of the step runs any more."""
    return m.Failed(type(error).__name__, text_of(error), peer, over, traced(error))


def cut_off(step: int, task: str, peer: str, address: str, why: str) -> errors.AbortedError:
    """What ends `step` when `task` lost its connection to `peer`: all that is said where nothing tells what became of it."""
    return errors.AbortedError(
        f"step {step}: {task} lost its connection to {peer} at {address} ({why}); that task's process may have died: run the "
        f"step again, and if the task is lost, {ANEW}")


def traced(error: BaseException) -> str:
    """Where an exception came from that no operation reports; ours say all that is needed."""
    expected = isinstance(error, errors.Error) or error.__traceback__ is None
    return "" if expected else clipped("".join(traceback.format_exception(error)))


def text_of(error: BaseException) -> str:
    """What an error says, never nothing."""
    return clipped(str(error) or type(error).__name__)


def clipped(text: str) -> str:
    """What a message may carry of `text`, which can hold anything: the name of a file, every key of a wide step."""
    return text[:100_000].encode("utf-8", "backslashreplace").decode()
