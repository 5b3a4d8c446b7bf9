"""Sends meet receives, in either order, once; aborts reach everybody."""
from __future__ import annotations

import threading

import pytest

from workbench import errors
from workbench.core.names import join_edge, numbered, split_edge, target_of, task_of
from workbench.core.run.rendezvous import LocalRendezvous

EDGE = join_edge("dense/W:0", "/job:ps/task:0/device:CPU:0", "/job:worker/task:1/device:CPU:0")


def test_edge_has_four_fields_and_a_step_before_them_in_records():
    assert EDGE == "dense/W:0|/job:ps/task:0/device:CPU:0|/job:worker/task:1/device:CPU:0|0:0"
    assert numbered(3, EDGE) == f"3|{EDGE}" and split_edge(EDGE).tensor == "dense/W:0"
    assert target_of(EDGE) == "/job:worker/task:1"
    assert task_of("/job:worker/task:1") == "/job:worker/task:1"
    with pytest.raises(errors.InvalidArgumentError, match=r"edge 'a\|b' has 2 fields, not 4"):
        split_edge("a|b")


@pytest.mark.parametrize("send_first", [True, False])
def test_value_arrives_by_reference_in_either_order(send_first):
    table, value, got = LocalRendezvous(), object(), []
    steps = [lambda: table.send(EDGE, value, True), lambda: table.receive(EDGE, lambda *pair: got.append(pair))]
    for act in steps if send_first else reversed(steps):
        act()
    assert got == [(value, True)] and table.pending == ()


def test_receive_wait_blocks_until_another_thread_sends():
    table = LocalRendezvous()
    sender = threading.Thread(target=table.send, args=(EDGE, 7))
    sender.start()
    assert table.receive_wait(EDGE, 60) == (7, False)
    sender.join()


def test_receive_wait_gives_up():
    with pytest.raises(errors.DeadlineExceededError, match=r"did not arrive within 0.01 s"):
        LocalRendezvous().receive_wait(EDGE, 0.01)


def test_abort_reaches_waiting_and_later_receivers_once():
    table, got, error = LocalRendezvous(), [], errors.AbortedError("step 3: gone; retry")
    table.receive("a", lambda *pair: got.append(pair))
    table.send("b", 1)
    table.abort(error)
    table.abort(errors.AbortedError("second"))
    table.receive("b", lambda *pair: got.append(pair))
    assert got == [(error, False), (error, False)]
    with pytest.raises(errors.AbortedError, match="step 3: gone"):
        table.receive_wait("c", 1)
    table.send("c", 1)                           # vanishes


def test_close_cancels():
    table = LocalRendezvous()
    table.close()
    with pytest.raises(errors.CancelledError, match="the step is over"):
        table.receive_wait(EDGE, 1)


def test_double_send_and_double_receive_are_bugs():
    table = LocalRendezvous()
    table.send("a", 1)
    with pytest.raises(errors.InternalError, match="a was sent twice"):
        table.send("a", 1)
    table.receive("b", lambda *pair: None)
    with pytest.raises(errors.InternalError, match="b is awaited twice"):
        table.receive("b", lambda *pair: None)


def test_every_key_is_delivered_once_under_races():
    table, got, lock = LocalRendezvous(), [], threading.Lock()

    def callback(value, dead):
        with lock:
            got.append(value)

    def both(keys, act):
        for key in keys:
            act(key)

    keys = [str(i) for i in range(2000)]
    threads = [threading.Thread(target=both, args=(keys, lambda key: table.send(key, key))),
               threading.Thread(target=both, args=(keys, lambda key: table.receive(key, callback)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(keys)
