"""Hosts of a network that can be slow, lossy and cut: network namespaces of this machine, joined by a hub that we are.

Every namespace has one interface, whose packets come to the hub's thread and leave it again after a delay, or never. What
runs in one namespace sees the others as machines: other addresses, no Unix socket of theirs, TCP with real losses and resends.
"""
from __future__ import annotations

import contextlib
import fcntl
import heapq
import os
import random
import selectors
import shutil
import signal
import struct
import subprocess
import threading
import time
from typing import Any

__all__ = ["Hosts", "permitted"]

_TUNSETIFF, _TUN_WITHOUT_HEADER = 0x400454CA, 0x1001


def permitted() -> bool:
    """May we make namespaces and interfaces here?"""
    if shutil.which("ip") is None or not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return False
    name = f"wb{os.getpid()}p"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0
    return made and subprocess.run(["ip", "netns", "del", name], capture_output=True).returncode == 0


class Hosts:
    """`count` hosts; `delay` seconds each way, `loss` of packets, drawn with `seed`."""

    def __init__(self, count: int, delay: float = 0.0, loss: float = 0.0, seed: int = 0) -> None:
        self.addresses = [f"10.213.0.{i + 1}" for i in range(count)]
        self.cut: set[str] = set()      # addresses that nothing reaches or leaves
        self.sent = self.lost = 0      # packets
        self._delay, self._loss, self._random = delay, loss, random.Random(seed)
        self._names = [f"wb{os.getpid()}n{i}" for i in range(count)]
        self._ends: dict[str, int] = {}
        self._programs: list[subprocess.Popen[str]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._carry, name="hub")

    def __enter__(self) -> Hosts:
        try:
            for name, address in zip(self._names, self.addresses):
                _ip("netns", "add", name)
                self._ends[address] = end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
                fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH", name.encode(), _TUN_WITHOUT_HEADER))
                _ip("link", "set", name, "netns", name)
                _ip("-n", name, "addr", "add", f"{address}/24", "dev", name)
                for interface in (name, "lo"):
                    _ip("-n", name, "link", "set", interface, "up")
        except BaseException:
            self._remove()
            raise
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        for name in self._names:      # with all that the programs have started, which would hold their output open
            for pid in subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        for program in self._programs:
            program.communicate()
        self._over.set()
        self._thread.join()
        self._remove()

    def _remove(self) -> None:
        for end in self._ends.values():
            os.close(end)
        for name in self._names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def start(self, host: int, *command: str, **options: Any) -> subprocess.Popen[str]:
        """A program on one of them, killed at the end."""
        self._programs.append(subprocess.Popen(["ip", "netns", "exec", self._names[host], *command], text=True,
                                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options))
        return self._programs[-1]

    def _carry(self) -> None:
        """The hub."""
        ends = {bytes(map(int, address.split("."))): (address, end) for address, end in self._ends.items()}
        waiting: list[tuple[float, int, str, bytes]] = []
        with selectors.DefaultSelector() as selector:
            for address, end in self._ends.items():
                selector.register(end, selectors.EVENT_READ, address)
            while not self._over.is_set():
                now = time.monotonic()
                while waiting and waiting[0][0] <= now:
                    self._deliver(*heapq.heappop(waiting)[2:])
                for key, _ in selector.select(min(0.1, max(0.0, waiting[0][0] - now)) if waiting else 0.1):
                    packet = os.read(key.fd, 1 << 16)
                    to = ends.get(packet[16:20])      # the destination's place in a header of version 4
                    if packet[0] >> 4 == 4 and to is not None:
                        self.sent += 1
                        if key.data in self.cut or self._random.random() < self._loss:
                            self.lost += 1
                        else:
                            heapq.heappush(waiting, (time.monotonic() + self._delay, self.sent, to[0], packet))

    def _deliver(self, address: str, packet: bytes) -> None:
        if address in self.cut:
            self.lost += 1
            return
        try:
            os.write(self._ends[address], packet)
        except BlockingIOError:      # a full queue loses packets, as any
            self.lost += 1


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
