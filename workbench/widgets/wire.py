"""How updates travel: a comm that is answered on a subshell, number lists as binary buffers, long texts compressed."""
from __future__ import annotations

import asyncio
import json
import math
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any

import numpy as np
from comm import get_comm_manager
from comm.base_comm import BaseComm

from workbench.viz.schema import Picture, names_of, plain

__all__ = ["BusySign", "LiveComm", "busy_sign", "pack", "size", "written"]

SHORT = 16               # lists of fewer numbers stay JSON
EXACT = 1e-5             # of what a list spans: what rounding to float32 may cost
LONG = 4000              # characters of JSON from which a picture is deflated


def _publish(kind: str, content: dict[str, Any], **options: Any) -> None:
    """Send one message to every front end of this process's kernel, if it is one."""
    from ipykernel.kernelbase import Kernel

    kernel = Kernel.instance() if Kernel.initialized() else None
    if kernel is not None and kernel.session is not None:
        kernel.session.send(kernel.iopub_socket, kind, content, **options)


class BusySign:
    """Keeps the kernel's "busy" sign up while a cell runs.

    The kernel says "idle" after every message it has handled, those on subshells included, and front ends believe
    the last word. So after each of ours, while a cell runs, we say "busy" again on the cell's behalf.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cell: dict[str, Any] | None = None     # the running cell's request

    def watch(self, shell: Any) -> None:
        """Follow the cells of this IPython shell; called within a cell or before one."""
        shell.events.register("pre_run_cell", self._began)
        shell.events.register("post_run_cell", self._ended)
        self._began(None)

    def _began(self, info: Any) -> None:
        from ipykernel.kernelbase import Kernel

        parent = Kernel.instance().get_parent()
        running = parent.get("header", {}).get("msg_type") == "execute_request"
        self._cell = parent if running and not parent["header"].get("subshell_id") else None

    def _ended(self, result: Any) -> None:
        with self._lock:
            self._cell = None

    def restore(self) -> None:
        """Say "busy" again once the handler that calls this has returned and "idle" has been said."""
        if self._cell is not None:
            asyncio.get_running_loop().call_soon(self._say)

    def _say(self) -> None:
        with self._lock:           # the cell cannot end meanwhile: its own "idle" comes after this
            if self._cell is not None:
                _publish("status", {"execution_state": "busy"}, parent=self._cell)


busy_sign = BusySign()


class LiveComm(BaseComm):
    """A comm whose messages carry no parent.

    NOTE: ipykernel's own comm class (7.4) remembers the shell that last sent on it and hands every answer to that
    shell. A comm used from a cell is then answered by the main shell: after the cell. Without a parent there is
    nothing to remember, so answers run where the front end sends them, on a subshell, at once.
    """

    @classmethod
    def instead_of(cls, given: BaseComm) -> LiveComm:
        """Take over the id of a comm that a front end opened."""
        given._closed = True         # or its finalizer would close the front end's side
        taken = cls(target_name=given.target_name, comm_id=given.comm_id, primary=False)
        get_comm_manager().register_comm(taken)
        return taken

    def publish_msg(self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None,
                    **keys: Any) -> None:
        content = {"data": data or {}, "comm_id": self.comm_id, **keys}
        _publish(msg_type, content, metadata=metadata or {}, parent={}, ident=self.topic, buffers=buffers)

    def handle_msg(self, msg: dict[str, Any]) -> None:
        """Call back without IPython's pre- and post-execute events: they belong to cells, on the main thread."""
        if self._msg_callback:
            self._msg_callback(msg)
        busy_sign.restore()

    def abandon(self) -> None:
        """Forget this comm without telling the other side."""
        self._closed = True
        get_comm_manager().comms.pop(self.comm_id, None)


_PLAIN = frozenset((int, bool, type(None)))
_NUMBER = (int, float, np.number, type(None))


def pack(value: Any, before: Sequence[bytes] = ()) -> tuple[Any, list[bytes]]:
    """JSON data and buffers, which come after those of `before`.

    Lists of numbers become `{"#f4": index}` or `{"#f8": index}` (no operation or task can have such a name), None in them
    NaN; a long picture or list of texts becomes `{"#z": index}`: its JSON, deflated.
    """
    buffers = list(before)
    return _packed(value, buffers), buffers


def written(packed: tuple[Any, list[bytes]]) -> tuple[Any, list[bytes]]:
    """The same with its JSON as one more buffer, `{"#j": index}`: so what it weighs is known, and nobody writes it again."""
    data, buffers = packed
    return {"#j": len(buffers)}, [*buffers, _json(data)]


def size(packed: tuple[Any, list[bytes]]) -> int:
    """Bytes that it takes on its way."""
    data, buffers = packed
    return len(_json(data)) + sum(map(len, buffers))


def _json(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()


def _legible(text: str) -> str:
    """What no text can hold, half a pair or a byte of a file's name, is a question mark: or the whole message were lost."""
    if text.isascii():
        return text
    sound = text.encode("utf-8", "replace").decode()
    return text if sound == text else sound


def _short(value: Any, buffers: list[bytes]) -> Any:
    """A value that is long as JSON goes into a buffer of its own."""
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text = _legible(written)
    if len(text) < LONG:
        return value if text is written else json.loads(text)
    buffers.append(zlib.compress(text.encode(), 1))
    return {"#z": len(buffers) - 1}


def _packed(value: Any, buffers: list[bytes]) -> Any:
    kind: Any = type(value)
    if kind is str:  # most are
        return value if value.isascii() else _legible(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return value if math.isfinite(value) else None
    if names_of(kind):
        return _short(plain(value), buffers) if kind is Picture else _fields(value, buffers)
    if isinstance(value, np.generic):
        return _packed(value.item(), buffers)
    if isinstance(value, np.ndarray) or (isinstance(value, (list, tuple)) and _numbers(value)):
        return _binary(np.asarray(value, dtype=np.float64), buffers)
    if isinstance(value, list) and len(value) > SHORT and isinstance(value[0], str):
        return _short(value, buffers)
    if isinstance(value, list) and len(value) > 1 and _alike(value):
        return _records(value, buffers)
    if isinstance(value, (list, tuple)):
        return [item if type(item) in _PLAIN else _packed(item, buffers) for item in value]
    if isinstance(value, Mapping):
        return {_legible(str(name)): _packed(item, buffers) for name, item in value.items()}
    return value


def _fields(record: Any, buffers: list[bytes]) -> dict[str, Any]:
    """A record by its fields, most of which stay what they are: texts and numbers are looked at together."""
    kind: Any = type(record)
    names, read = _reader(kind)
    values = read(record)
    texts, numbers, others = _by_kind(tuple(map(type, values)))
    made = dict(zip(names, values))
    for place in others:
        made[names[place]] = _packed(values[place], buffers)
    if not ("".join([values[place] for place in texts]).isascii() and math.isfinite(sum([values[place] for place in numbers]))):
        made.update((names[place], _packed(values[place], buffers)) for place in (*texts, *numbers))
    return made


def _alike(values: Sequence[Any]) -> bool:
    """Are they records of one class?"""
    kind: Any = type(values[0])
    return kind is not Picture and bool(names_of(kind)) and set(map(type, values)) == {kind}


def _records(records: Sequence[Any], buffers: list[bytes]) -> list[dict[str, Any]]:
    """Records of one class as `_fields` packs each, by columns: what they have in common is packed once."""
    kind: Any = type(records[0])
    names, read = _reader(kind)
    columns = [_column(column, buffers) for column in zip(*map(read, records))]
    return [dict(zip(names, values)) for values in zip(*columns)]


def _column(values: tuple[Any, ...], buffers: list[bytes]) -> Sequence[Any]:
    kinds = set(map(type, values))
    if kinds <= _PLAIN or (kinds == {str} and "".join(values).isascii()) or (kinds == {float} and math.isfinite(sum(values))):
        return values
    made = {id(value): value for value in values}
    made = {known: _packed(value, buffers) for known, value in made.items()}
    return [made[id(value)] for value in values]


@cache
def _reader(record: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """The names of the fields, and what reads all of them."""
    names = names_of(record)
    read = attrgetter(*names)
    return names, read if len(names) > 1 else lambda one: (read(one),)


@lru_cache(1024)
def _by_kind(kinds: tuple[type, ...]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The places of texts, of floats, and of what has parts."""
    texts, numbers = (tuple(i for i, kind in enumerate(kinds) if kind is one) for one in (str, float))
    return texts, numbers, tuple(i for i, kind in enumerate(kinds) if kind not in (str, float) and kind not in _PLAIN)


def _numbers(values: list[Any] | tuple[Any, ...]) -> bool:
    return len(values) >= SHORT and all(issubclass(kind, _NUMBER) for kind in set(map(type, values)))


def _binary(values: np.ndarray, buffers: list[bytes]) -> dict[str, int]:
    narrow = values.astype("<f4")
    exact = bool((narrow == values).all())      # as whole numbers are
    if not exact:
        known, kept = values, narrow
        if not math.isfinite(values.sum()):
            finite = np.isfinite(values)
            known, kept = values[finite], narrow[finite]
        exact = not len(known) or bool(np.abs(kept - known).max() <= EXACT * (known.max() - known.min()))
    buffers.append((narrow if exact else values.astype("<f8")).tobytes())
    return {"#f4" if exact else "#f8": len(buffers) - 1}
