"""Values that stay in their session, and sessions that are reset."""
from __future__ import annotations

import threading

import pytest

import workbench as wb
from tests.eventually import eventually
from workbench import errors
from workbench.core.graph.build import ops
from workbench.core.graph.graph import Graph
from workbench.core.run.handles import delete_session_tensor, get_session_handle, get_session_tensor
from workbench.train.input.queues import FIFOQueue

pytestmark = pytest.mark.usefixtures("graph")


def test_a_value_is_kept_read_and_deleted():
    value = ops.constant([1.0, 2.0]) * 3.0
    with wb.Session() as session:
        kept = session.run(get_session_handle(value))
        assert str(kept) == kept.handle and kept.dtype is wb.float32
        assert kept.eval().tolist() == [3, 6]
        holder, tensor = get_session_tensor(kept.handle, wb.float32)
        assert session.run(tensor + 1.0, {holder: kept.handle}).tolist() == [4, 7]
        kept.delete()
        with pytest.raises(errors.InvalidArgumentError, match=r"The tensor with handle .* is not in the session store"):
            session.run(tensor, {holder: kept.handle})
        remove, removing = delete_session_tensor(kept.handle)
        with pytest.raises(errors.InvalidArgumentError, match=r"Failed to delete a tensor with handle .* in the session store"):
            session.run(removing, {remove: kept.handle})


def test_a_handle_is_fed_for_its_value_and_nested_fetches_keep_it():
    x = ops.placeholder("float32", [2])
    with wb.Session() as session:
        found = session.run({"h": [get_session_handle(ops.constant([1.0, 2.0])), x * 2.0]}, {x: [3, 4]})
        kept = found["h"][0]
        assert found["h"][1].tolist() == [6, 8]
        assert session.run(x * 2.0, {x: kept}).tolist() == [2, 4]
        assert kept.get_raw_handle() == kept.handle


def test_another_dtype_is_refused():
    with wb.Session() as session:
        kept = session.run(get_session_handle(ops.constant(1)))
        holder, tensor = get_session_tensor(kept.handle, wb.float32)
        with pytest.raises(errors.DtypeError, match="is int32 but float32 is asked; ask for its dtype"):
            session.run(tensor, {holder: kept.handle})


def test_containers_are_parts_of_the_state_and_reset_forgets_them(graph):
    with graph.container("mine"):
        ours = wb.Variable(1.0)
        with graph.container(""):
            free = wb.Variable(2.0)
    assert (ours.op.get_attr("container"), free.op.get_attr("container")) == ("mine", "")
    session, other = wb.Session(), wb.Session(graph=Graph())
    session.run([ours.initializer, free.initializer])
    container = session.backend.container
    assert container.names() == sorted([free.op.name, f"mine/{ours.op.name}"])
    wb.Session.reset("", ["mine"])
    assert f"mine/{ours.op.name}" not in container.names()
    for closed in (session, other):
        with pytest.raises(errors.FailedPreconditionError, match="the session is closed"):
            closed.run(ours)


def test_who_waits_in_a_container_that_is_reset_hears_of_it():
    queue = FIFOQueue(1, wb.float32)
    taken = queue.dequeue()
    with wb.Session() as session:
        caught: list[BaseException] = []

        def wait() -> None:
            try:
                session.run(taken)
            except errors.Error as error:
                caught.append(error)
        thread = threading.Thread(target=wait)
        thread.start()
        eventually(lambda: session.backend.container.names())
        wb.Session.reset("")
        thread.join(30)
        assert not thread.is_alive() and len(caught) == 1
