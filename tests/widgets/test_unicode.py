"""Names in any script, and texts that are no text at all, reach a page whole and keep no view from it."""
from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.widgets.reading import read
from workbench.core.run.gate import gate
from workbench.core.trace import GraphRecord, Journal, NodeRecord, Span
from workbench.viz.hub import LARGEST, hub_of
from workbench.viz.views import VIEWS
from workbench.widgets.peer import Peer

WORDS = ("层/權重", "слой/вес", "طبقة/وزن", "e\u0301t\u00e9", "👩‍🔬/🧪", "a\u202eb", "tab\tline\nend\u2028",
         '"quoted\\"', "nul\0", "ﬃ")
BROKEN = ("half \ud83d", "a file of bytes \udcff")      # half a pair; what Python makes of a name that is no UTF-8


class Page:
    """What a browser would read."""

    def __init__(self) -> None:
        self.topics: dict[str, Any] = {}
        self.texts: list[str] = []

    def send(self, data: Any, *, buffers: list[bytes]) -> None:
        said = read(data, buffers)
        self.texts.append(json.dumps(said, ensure_ascii=False).encode().decode())
        self.topics.update(said.get("topics", {}))


def journal_of(words: tuple[str, ...]) -> Journal:
    journal, now = Journal(capacity=10_000), time.perf_counter() - 20.0
    journal.enabled = True
    task = "/job:worker/task:0"
    nodes = tuple(NodeRecord(word, "add", (f"{before}:0",) if before else (), device=f"{task}/device:CPU:0",
                             source=f"{word}.py:1") for before, word in zip(("", *words), words))
    journal.graph(GraphRecord("session_0_1", "placed", nodes, (f"{task}/device:CPU:0",), note=words[0]))
    journal.set_status(state="running", session="session_0", tasks=(task,), what=words[-1])
    for step in range(12):
        for i, word in enumerate(words):
            begin = now + step + i / 20
            journal.span(Span("op", word, task, f"{task}/device:CPU:0", 0, begin, begin + 0.04, step, detail="add",
                              executable="session_0_1"))
            journal.point(word, step, 1.0)
    return journal


@pytest.mark.parametrize("words", [WORDS, BROKEN], ids=["any script", "no text"])
def test_every_view_reaches_the_page_whatever_things_are_called(words: tuple[str, ...]) -> None:
    hub, page = hub_of(journal_of(words)), Page()
    peer = Peer(page, hub, gate, answered=True)
    peer.watcher.watch({**dict.fromkeys(VIEWS), "graph": {"chosen": words[0], "search": words[0][:1]}})
    for later in range(12):
        hub.look(time.perf_counter() + later)
        peer.serve(time.monotonic())
        peer.heard({"command": "ack", "argument": 1 << 30})
    assert page.topics.keys() >= {"graph", "series", "work", "steps", "timeline", "operations"}
    assert max(len(text.encode()) for text in page.texts) <= LARGEST
    if words is WORDS:
        assert [one["name"] for one in page.topics["series"]["series"]] == list(words)
