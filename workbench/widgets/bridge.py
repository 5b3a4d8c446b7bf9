"""The kernel end of the lab extension: frames out to every front end, commands in, over one comm each.

A daemon thread owns the view model. It wakes at most `RATE` times a second, asks for what changed, and sends each
front end ("peer") one message with the parts it has not seen. A peer acknowledges every frame and never has more
than `WINDOW` unacknowledged ones, so a slow browser sees fewer frames instead of late ones.

Commands run on whatever thread the message arrives on. Front ends send them to a subshell, so they are answered
while a cell keeps the main thread busy.
"""
from __future__ import annotations

import logging
import sys
import threading
import time
from typing import Any

from workbench.core.trace import journal
from workbench.viz.contract import digest
from workbench.viz.live import LiveModel
from workbench.viz.schema import VERSION
from workbench.widgets.wire import LiveComm, busy_sign, pack

__all__ = ["Bridge", "bridge", "start_if_kernel"]

TARGET = "workbench.live"
RATE = 10.0              # frames per second and peer, at most
WINDOW = 2               # unacknowledged frames per peer, at most
HEARTBEAT = 1.0          # seconds after which a peer hears of us although there is no news
SILENT = 2.0             # seconds without an expected acknowledgement after which a peer counts as gone
PATIENCE = 30.0          # seconds, the longest pause between two announcements nobody answers
PARTS = ("graph", "steps", "series", "stragglers")

log = logging.getLogger(__name__)


class Peer:
    """One front end: its comm, what it has not seen yet, and which frames it still owes an answer for."""

    def __init__(self, comm: LiveComm, answered: bool) -> None:
        self.comm = comm
        self.answered = answered             # False: announced by us, nobody has answered yet
        self.unseen = {"status", *PARTS}
        self.sequence = 0
        self.acknowledged = 0
        self.layout = ""                     # identity of the graph layout it already has
        self.heard = time.monotonic()
        self.told = 0.0                      # when it heard of us last
        self._sending = threading.Lock()     # frames leave in the order of their numbers, whichever thread sends

    @property
    def ready(self) -> bool:
        return self.answered and self.sequence - self.acknowledged < WINDOW

    def lost(self, now: float) -> bool:
        """True when an answer is overdue: the page was closed or reloaded."""
        return self.answered and self.sequence > self.acknowledged and now - self.heard > SILENT

    def acknowledge(self, sequence: int) -> None:
        self.answered = True
        self.acknowledged = max(self.acknowledged, sequence)
        self.heard = time.monotonic()

    def send(self, state: dict[str, Any]) -> None:
        """Send the unseen parts of `state` as one message."""
        with self._sending:
            parts = {name: state.get(name) if name in self.unseen else None for name in PARTS}
            parts["graph"] = self._lighter(parts["graph"])
            self.unseen.clear()
            self._post(state["status"], parts)

    def tell(self, status: dict[str, Any]) -> None:
        """Send the status alone, also to a peer that owes answers: what a command did must not wait for pictures."""
        with self._sending:
            self._post(status, dict.fromkeys(PARTS))

    def _post(self, status: dict[str, Any], parts: dict[str, Any]) -> None:
        if self.sequence == self.acknowledged:
            self.heard = time.monotonic()    # the clock of "overdue" starts with the first open frame
        self.sequence += 1
        self.told = time.monotonic()
        data, buffers = pack({"v": VERSION, "kind": "frame", "seq": self.sequence, "status": status, **parts})
        self.comm.send(data, buffers=buffers)

    def _lighter(self, graph: dict[str, Any] | None) -> dict[str, Any] | None:
        """Timings alone while the layout the peer has still holds."""
        if graph is None:
            return None
        layout, self.layout = self.layout, graph["dot"]
        return {name: graph.get(name) for name in ("key", "stats", "note", "graphs")} if graph["dot"] == layout else graph


class Bridge:
    """Connects this process's journal and gate to every JupyterLab page that watches this kernel."""

    def __init__(self, model: LiveModel | None = None) -> None:
        self._model = model or LiveModel(journal)
        self._state: dict[str, Any] = {}
        self._peers: dict[str, Peer] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._commanded = False              # a command was carried out that no frame has told of yet
        self._pause = SILENT
        self._announce_at = 0.0

    @property
    def running(self) -> bool:
        return self._thread is not None

    def start(self) -> None:
        """Announce this kernel to its front ends and keep them up to date; a second call changes nothing."""
        with self._lock:
            if self._thread is not None:
                return
            from comm import get_comm_manager
            from IPython import get_ipython

            get_comm_manager().register_target(TARGET, self._opened)
            shell = get_ipython()
            if shell is not None:
                busy_sign.watch(shell)
            self._stopping = False
            self._thread = threading.Thread(target=self._run, name="workbench-bridge", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close every comm and end the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is None:
            return
        self._stopping = True
        self._wake.set()
        thread.join()
        from comm import get_comm_manager

        get_comm_manager().unregister_target(TARGET, self._opened)
        for peer in self._peers.values():
            peer.comm.close()
        self._peers.clear()

    # what front ends say; on their subshell's thread
    def _opened(self, given: Any, message: dict[str, Any]) -> None:
        peer = self._adopt(LiveComm.instead_of(given), answered=True)
        log.debug("front end %s connected", peer.comm.comm_id)
        self._wake.set()

    def _adopt(self, comm: LiveComm, answered: bool) -> Peer:
        peer = Peer(comm, answered)
        comm.on_msg(lambda message: self._heard(peer, message["content"]["data"]))
        comm.on_close(lambda message: self._forget(peer))
        with self._lock:
            self._peers[comm.comm_id] = peer
        return peer

    def _heard(self, peer: Peer, data: dict[str, Any]) -> None:
        command, argument = data.get("command"), data.get("argument")
        if command == "ack":
            peer.acknowledge(int(argument or 0))
            self._pause = SILENT
            if self._commanded:              # the answer may have waited for this acknowledgement
                self._wake.set()
        else:
            self._model.command(str(command), argument)
            if command in ("pause", "resume"):
                peer.tell(self._model.status())
            self._commanded = True
            self._wake.set()

    def _forget(self, peer: Peer) -> None:
        with self._lock:
            self._peers.pop(peer.comm.comm_id, None)

    # our own thread
    def _run(self) -> None:
        while not self._stopping:
            started = time.monotonic()
            try:
                self._tick(started)
            except Exception:      # a fault in one view must end neither the link nor the training; it is reported
                log.exception("workbench live link: a frame could not be built or sent")
            self._wake.wait(max(0.0, 1 / RATE - (time.monotonic() - started)))
            self._wake.clear()

    def _tick(self, now: float) -> None:
        with self._lock:
            peers = list(self._peers.values())
        for peer in [peer for peer in peers if peer.lost(now)]:
            self._drop(peer)
            peers.remove(peer)
            self._pause, self._announce_at = SILENT, 0.0
        if not any(peer.answered for peer in peers):
            self._announce(now)
        elif any(peer.ready for peer in peers):
            self._send(peers)

    def _send(self, peers: list[Peer]) -> None:
        frame = self._model.frame()
        if frame is not None:
            fresh = {name for name in PARTS if frame.get(name) is not None}
            self._state.update({name: frame[name] for name in fresh}, status=frame["status"])
            for peer in peers:
                peer.unseen |= {"status", *fresh}
        self._commanded = False
        for peer in peers:
            if peer.unseen and peer.ready and self._state:
                peer.send({**self._state, "status": self._model.status()})    # a frame takes a while; the newest state
            elif peer.ready and time.monotonic() - peer.told > HEARTBEAT:
                peer.tell(self._model.status())

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
        self._adopt(LiveComm(target_name=TARGET, data={"v": VERSION, "contract": digest(), "kind": "hello"}), answered=False)

    def _drop(self, peer: Peer) -> None:
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
