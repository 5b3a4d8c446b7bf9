"""Where the processes of a ClusterSpec are: at the addresses that it gives, or where they told its Dask scheduler."""
from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any

from distributed.utils import get_ip

from workbench import errors
from workbench.cluster.link.admission import derived
from workbench.cluster.task.program import Listener

__all__ = ["Directory", "kept_by", "own_address"]

_GOODBYE = 2.0      # seconds that a scheduler may take to hear that a process ends


def kept_by(address: str) -> tuple[str, str] | None:
    """(address of a Dask scheduler, name of a program) of a task with "tcp://host:port/name" in a ClusterSpec; None for one at
    an address of its own."""
    scheme, _, rest = address.rpartition("://")
    if not scheme:
        return None
    place, _, program = rest.partition("/")
    return f"{scheme}://{place}", program or "program"


def own_address(scheme: str, scheduler: str) -> str:
    """Where a process listens that tells this scheduler of it: a free port, where other machines reach it as the scheduler
    does. Encrypted where the scheduler is."""
    theirs, _, place = scheduler.partition("://")
    host, _, port = place.rpartition(":")
    if not host or not port.isdigit():
        raise errors.InvalidArgumentError(f"Server: the ClusterSpec names the Dask scheduler {scheduler!r}; write it as "
                                          "tcp://host:port or tls://host:port")
    ip = get_ip(host.strip("[]"), int(port))
    return f"{'tls' if 'tls' in (scheme, theirs) else 'tcp'}://{f'[{ip}]' if ':' in ip else ip}:0"


class Directory:
    """`spec` is task -> address as the ClusterSpec has it, `scheme` that of those which are addresses of tasks: these are
    `known`, for the others that is "". With a `secret` a scheduler is believed only what somebody wrote who knows it."""

    def __init__(self, listener: Listener, spec: Mapping[str, str], scheme: str, secret: str) -> None:
        self._listener, self._key = listener, derived(secret, "directory")
        self._own = secrets.token_hex(8)      # under which this process says where it is, and takes back that alone
        self._kept = {task: kept for task, address in spec.items() if (kept := kept_by(address)) is not None}
        self.known = {task: "" if task in self._kept else f"{scheme}://{address}" for task, address in spec.items()}

    async def find(self, task: str, timeout: float) -> str:
        """Where the task is, on the listener's loop; UnavailableError when the scheduler does not know it yet, or does not
        answer within `timeout` seconds."""
        if self.known[task]:
            return self.known[task]
        kept = self._kept[task]
        said = await self._ask(kept, (task,), timeout, "get_metadata", default={})
        found = next(filter(None, said.values()), "") if isinstance(said, dict) else said
        if not found:
            raise errors.UnavailableError(f"it has not told the Dask scheduler at {kept[0]} where it is")
        return self._believed(kept, task, found)

    def _signed(self, kept: tuple[str, str], task: str, address: str) -> str:
        """What is kept: the address, and behind it what only who knows the secret can write."""
        proof = hmac.new(self._key, f"{kept[1]}|{task}|{address}".encode(), hashlib.sha256).hexdigest() if self._key else ""
        return f"{address} {proof}".rstrip()

    def _believed(self, kept: tuple[str, str], task: str, found: Any) -> str:
        address = found.partition(" ")[0] if isinstance(found, str) else ""
        ours = self._listener.address.partition("://")[0]
        if not address.startswith(f"{ours}://") or not hmac.compare_digest(str(found), self._signed(kept, task, address)):
            raise errors.UnavailableError(f"what the Dask scheduler at {kept[0]} says of {task} is not from a process with our "
                                          f"WB_CLUSTER_KEY, or no {ours} address; give all processes the same key and protocol")
        return address

    def say(self, task: str, timeout: float) -> None:
        """The task is this process: from now on it is found. UnavailableError when the scheduler does not answer."""
        kept = self._kept.get(task)
        if kept is not None:
            try:
                said = {self._own: self._signed(kept, task, self._listener.address)}      # in the place of what others said
                self._listener.call(self._ask(kept, (task,), timeout, "set_metadata", value=said))
            except errors.UnavailableError as error:
                raise errors.UnavailableError(f"Server: {task} cannot be found by others: {error.message}; start it, or "
                                              "correct the ClusterSpec") from error

    def withdraw(self, task: str) -> None:
        """This process ends: nobody need look for it there; unless another has taken its place."""
        kept = self._kept.get(task)
        if kept is not None:
            with contextlib.suppress(OSError, TimeoutError):    # the scheduler has ended before
                self._listener.call(self._ask(kept, (task, self._own), _GOODBYE, "set_metadata", value=""), 2 * _GOODBYE)

    async def _ask(self, kept: tuple[str, str], keys: tuple[str, ...], timeout: float, what: str, **more: Any) -> Any:
        scheduler, program = kept
        try:
            async with asyncio.timeout(timeout):
                return await getattr(self._listener.rpc(scheduler), what)(keys=["workbench", program, *keys], **more)
        except (OSError, ValueError) as error:                  # no such address, or no such scheme
            raise errors.UnavailableError(f"the Dask scheduler at {scheduler}, which knows where it is, does not answer "
                                          f"({str(error) or type(error).__name__})") from error
