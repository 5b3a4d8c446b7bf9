"""A server of files in this process, which keeps a list of what it was asked."""
from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

__all__ = ["Quiet", "serving"]


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A file server that keeps a list of what it was asked."""

    asked: list[str]

    def log_message(self, format: str, *arguments: object) -> None:
        self.server.asked.append(f"{self.command} {self.path}")     # type: ignore[attr-defined]


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, list[str]]]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        server.asked = []       # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/", server.asked     # type: ignore[attr-defined]
        finally:
            server.shutdown()
            thread.join()
