"""The kernel end of the lab extension: updates out to every page, requests in and answered, over one comm each.

The hub's thread calls `Bridge.serve` after each look at the journal; each page ("peer") then gets one message with what
it has not heard (`workbench/widgets/peer.py`); a slow or slept browser sees fewer updates, the newest, instead of late ones.

Requests are carried out on whatever thread the message arrives on. Pages send them to a subshell, so they are answered
while a cell keeps the main thread busy.
"""
from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping
from typing import Any

from workbench.core.run.gate import Gate
from workbench.core.run.gate import gate as process_gate
from workbench.core.trace import Journal, journal
from workbench.viz.contract import digest
from workbench.viz.hub import Hub, hub_of
from workbench.viz.schema import VERSION, Hello
from workbench.widgets import displays, tracebacks
from workbench.widgets.peer import Peer
from workbench.widgets.wire import LiveComm, busy_sign, pack

__all__ = ["Bridge", "bridge", "start_if_kernel"]

TARGET = "workbench.live"
FIRST = 2.0              # seconds between two announcements that nobody answers, and
PATIENCE = 30.0          # at most

log = logging.getLogger(__name__)


class Page(Peer):
    """A page with a comm of its own."""

    def __init__(self, comm: LiveComm, hub: Hub, gate: Gate, answered: bool) -> None:
        super().__init__(comm, hub, gate, answered)
        self.comm = comm


class Bridge:
    """Connects this process's journal and gate to every JupyterLab page that watches this kernel."""

    def __init__(self, source: Journal | None = None, gate: Gate | None = None) -> None:
        self._journal, self._gate = source or journal, gate or process_gate
        self._hub = hub_of(self._journal)
        self._peers: dict[str, Page] = {}
        self._lock = threading.Lock()
        self._pause = FIRST
        self._announce_at = 0.0
        self.running = False

    def start(self) -> None:
        """Announce this kernel to its front ends and keep them up to date; a second call changes nothing."""
        with self._lock:
            if self.running:
                return
            from comm import get_comm_manager
            from IPython import get_ipython

            get_comm_manager().register_target(TARGET, self._opened)
            shell = get_ipython()
            if shell is not None:
                busy_sign.watch(shell)
                displays.install(shell)
                tracebacks.install(shell)
            self.running = True
        self._hub.attach(self)

    def stop(self) -> None:
        """Close every comm; nothing is sent any more."""
        with self._lock:
            if not self.running:
                return
            self.running = False
            peers = list(self._peers.values())
            self._peers.clear()
        self._hub.detach(self)
        from comm import get_comm_manager

        get_comm_manager().unregister_target(TARGET, self._opened)
        for peer in peers:
            peer.comm.close()

    # what pages say; on their subshell's thread
    def _opened(self, given: Any, message: dict[str, Any]) -> None:
        peer = self._adopt(LiveComm.instead_of(given), answered=True)
        log.debug("page %s connected", peer.comm.comm_id)
        self._hub.wake()

    def _adopt(self, comm: LiveComm, answered: bool) -> Page:
        peer = Page(comm, self._hub, self._gate, answered)
        comm.on_msg(lambda message: self._heard(peer, message["content"]["data"]))
        comm.on_close(lambda message: self._forget(peer))
        with self._lock:
            self._peers[comm.comm_id] = peer
        return peer

    def _heard(self, peer: Page, data: Mapping[str, Any]) -> None:
        peer.heard(data)
        if data.get("command") == "ack":
            self._pause = FIRST

    def _forget(self, peer: Page) -> None:
        with self._lock:
            self._peers.pop(peer.comm.comm_id, None)

    # the hub's thread
    def serve(self, now: float) -> None:
        """Send every page what it has not heard; announce ourselves while none listens."""
        with self._lock:
            if not self.running:
                return
            peers = list(self._peers.values())
        for peer in [peer for peer in peers if peer.lost(now)]:
            self._drop(peer)
            peers.remove(peer)
            self._pause, self._announce_at = FIRST, 0.0
        if not any(peer.answered for peer in peers):
            self._announce(now)
        for peer in peers:
            if peer.ready(now):
                peer.serve(now)

    def _announce(self, now: float) -> None:
        """Tell front ends that may be listening about us, ever more rarely while none answers."""
        if now < self._announce_at:
            return
        self._announce_at = now + self._pause
        self._pause = min(PATIENCE, 2 * self._pause)
        with self._lock:
            unanswered = list(self._peers.values())
        for peer in unanswered:
            self._drop(peer)
        page = self._adopt(LiveComm(target_name=TARGET, primary=False), answered=False)
        page.comm.open(data=pack(Hello(VERSION, digest()))[0])      # only now: a page may answer at once

    def _drop(self, peer: Page) -> None:
        """Forget a peer without a word: nobody is there, and a page that knows no such comm would complain."""
        self._forget(peer)
        peer.comm.abandon()


bridge = Bridge()
"""The process's bridge."""


def start_if_kernel() -> bool:
    """Start the bridge when this process is an IPython kernel; cheap, and safe to call on every session."""
    if bridge.running:
        return True
    module = sys.modules.get("ipykernel.kernelbase")
    if module is None or not module.Kernel.initialized():
        return False
    bridge.start()
    return True
