"""The pane of the graph says how a chosen operation is computed: of what runs in this process, from its own plans."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench.core.trace import journal
from workbench.viz.hub import Hub

pytestmark = pytest.mark.tiny


def facts(session: wb.Session, operation: str) -> dict[str, str]:
    """What the pane shows of an operation of the newest graph."""
    key = journal.graphs_since()[2][-1].key
    hub, got = Hub(journal), []
    watcher = hub.watcher()
    watcher.watch({"graph": {"key": key, "chosen": operation}})
    hub.look()
    watcher.take(0.0, got.append)
    assert key.startswith(session.name) and got[0].faults == {}
    return {fact.name: fact.value for fact in got[0].topics["graph"].details.facts}


def test_library_estimate_and_bytes_of_a_product_and_what_is_fused_with_what():
    with wb.Graph().as_default(), wb.Session() as session:
        x = wb.placeholder("float32", [1024, 32], name="x")
        product = wb.matmul(x, wb.constant(np.ones((32, 256), np.float32)), name="product")
        wb.tanh(wb.exp(product, name="large") * 0.5, name="small")
        session.run("small:0", {x: np.ones((1024, 32), np.float32)})
        of_product, of_exp = facts(session, "product"), facts(session, "large")
    assert of_product["Type"] == "matmul" and of_product["Kernel"]
    assert " on one thread, " in of_product["Estimated"] and of_product["Estimated"].endswith(" bytes read and written")
    assert "small" in of_exp["Fused with"] and "large" not in of_exp["Fused with"].split(", ")


def test_of_a_plan_that_is_gone_or_elsewhere_nothing_is_said():
    assert journal.kernel("no such executable", "x") == []
