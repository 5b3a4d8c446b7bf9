"""The pane of the graph says how a chosen operation is computed: of what runs in this process, from its own plans."""
from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from workbench.core.trace import journal
from workbench.viz.hub import Hub
from workbench.viz.schema import NodeDetails

pytestmark = pytest.mark.tiny


def details(session: wb.Session, operation: str) -> NodeDetails:
    """What the pane gets of an operation of the newest graph."""
    key = journal.graphs_since()[2][-1].key
    hub, got = Hub(journal), []
    watcher = hub.watcher()
    watcher.watch({"graph": {"key": key, "chosen": operation}})
    hub.look()
    watcher.take(0.0, got.append)
    assert key.startswith(session.name) and got[0].faults == {}
    return got[0].topics["graph"].details


def facts(session: wb.Session, operation: str) -> dict[str, str]:
    """The facts among that."""
    return {fact.name: fact.value for fact in details(session, operation).facts}


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


def test_attributes_and_gradients_of_an_operation_and_whose_gradient_another_computes():
    with wb.Graph().as_default(), wb.Session() as session:
        x = wb.placeholder("float32", [8, 4], name="x")
        product = wb.matmul(x, wb.constant(np.ones((2, 4), np.float32)), transpose_b=True, name="product")
        session.run(wb.gradients(wb.tanh(product, name="squash"), x), {x: np.ones((8, 4), np.float32)})
        of_product, of_slope = details(session, "product"), details(session, "gradients/product_grad/matmul")
    assert {fact.name: fact.value for fact in of_product.facts}["Attributes"] == "transpose_a false, transpose_b true"
    assert ("gradients/product_grad/matmul", "matmul") in [(link.id, link.text) for link in of_product.gradients]
    assert of_product.gradient_of == [] and of_slope.gradients == []
    assert [(link.id, link.text) for link in of_slope.gradient_of] == [("product", "matmul")]
    assert {fact.name: fact.value for fact in of_slope.facts}["Attributes"] == "transpose_a false, transpose_b false"
