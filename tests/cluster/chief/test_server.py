"""Server: tasks of a ClusterSpec that find each other, share variables, and say in a sentence what does not fit."""
from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest

import workbench as wb
import workbench.tf1 as tf
from tests.cluster.conftest import our_threads
from tests.eventually import eventually
from workbench import errors
from workbench.cluster.chief.server import _warn_of_strangers, free_ports
from workbench.cluster.link import admission
from workbench.cluster.task import program
from workbench.core.state import checkpoint
from workbench.settings import settings

pytestmark = pytest.mark.cluster


@pytest.fixture
def serve() -> Iterator[Any]:
    """Makes servers in this process; closes them, workers first."""
    made: list[Any] = []

    def make(spec: Any, job: str, index: int = 0, **options: Any) -> Any:
        made.append(tf.train.Server(spec, job, index, **options))
        return made[-1]
    yield make
    for server in sorted(made, key=lambda one: one.job_name == "ps"):
        server.close()
    eventually(lambda: our_threads() == [])                    # a task of this process ends by itself, a moment later


def spec_of(servers: int = 1, workers: int = 2) -> dict[str, list[str]]:
    addresses = [f"localhost:{port}" for port in free_ports(servers + workers)]
    return {"ps": addresses[:servers], "worker": addresses[servers:]}


def counter(worker: int) -> tuple[wb.Graph, Any, Any]:
    """A worker's own graph: a variable in the parameter server, and a step of this worker that adds to it."""
    with wb.Graph().as_default() as graph:
        with tf.device("/job:ps/task:0"):
            total = tf.get_variable("total", [3], initializer=tf.zeros_initializer())
        with tf.device(f"/job:worker/task:{worker}"):
            share = tf.placeholder_with_default(np.float32([1, 2, 3]), [3]) * 2.0
        return graph, total, tf.assign_add(total, share)


def test_sessions_of_several_processes_share_variables_by_name(serve):
    spec = spec_of()
    ps, first, second = serve(spec, "ps"), serve(spec, "worker", 0), serve(spec, "worker", 1)
    (graph, total, add), (other, its_total, its_add) = counter(0), counter(1)
    with tf.Session(first.target, graph) as one, tf.Session(second.target, other) as two:
        one.run(total.initializer)
        one.run(add)
        two.run(its_add)
        np.testing.assert_array_equal(one.run(total), [4, 8, 12])
        one.run(total.initializer)
        np.testing.assert_array_equal(two.run(its_total), 0)
        first.target.reset([""])                               # what one clears is cleared for the other's compiled steps, too
        with pytest.raises(errors.FailedPreconditionError, match=r"'total'.* never initialised"):
            two.run(its_add)
        one.run(total.initializer)
        two.run(its_add)
    assert ps.target is ps.target and first.target.home == "/job:worker/task:0"
    with tf.Session(second.target, other) as again:             # variables outlive sessions
        np.testing.assert_array_equal(again.run(its_total), [2, 4, 6])


def test_resetting_a_target_forgets_the_containers_of_its_tasks(serve):
    spec = spec_of(workers=1)
    serve(spec, "ps")
    worker = serve(spec, "worker")
    with wb.Graph().as_default() as graph:
        with tf.device("/job:ps/task:0"):
            free = tf.get_variable("free", initializer=1.0)
            with tf.container("mine"):
                kept = tf.get_variable("kept", initializer=2.0)
        start = tf.global_variables_initializer()

    def unset(address: str) -> list[str]:
        with tf.Session(address, graph) as session:
            return sorted(name.decode() for name in session.run(tf.report_uninitialized_variables([free, kept])))
    address = f"grpc://{spec['worker'][0]}"
    with graph.as_default(), tf.Session(worker.target) as before:
        before.run(start)
        tf.Session.reset(address, ["mine"])
        with pytest.raises(errors.FailedPreconditionError, match="the session is closed"):
            before.run(free)
        assert unset(address) == ["kept"]
        with tf.Session(address) as session:
            session.run(start)
        tf.Session.reset(worker.target)                        # what names no container
        assert unset(address) == ["free"]
        tf.Session.reset("")                                   # this process, not the servers in it
        assert unset(address) == ["free"]
        with pytest.raises(errors.NotFoundError, match="is not a cluster"):
            tf.Session.reset("grpc://nobody:1")


def test_a_session_needs_the_tasks_of_its_graph_only(serve):
    spec = spec_of(workers=3)                                  # nobody starts workers 1 and 2
    serve(spec, "ps")
    graph, total, add = counter(0)
    with tf.Session(serve(spec, "worker").target, graph) as session:
        session.run(total.initializer)
        session.run(add)
        np.testing.assert_array_equal(session.run(total), [2, 4, 6])


def test_who_is_missing_is_said_while_it_is_waited_for(serve, caplog):
    spec = spec_of()
    worker = serve(spec, "worker")
    worker.target._timeout = 0.2
    graph, total, _ = counter(0)
    with tf.Session(worker.target, graph) as session, caplog.at_level(logging.WARNING, "workbench"):
        running = threading.Thread(target=session.run, args=(total.initializer,))
        running.start()
        eventually(lambda: f"/job:worker/task:0 waits for /job:ps/task:0 at tcp://{spec['ps'][0]}, for" in caplog.text)
        serve(spec, "ps")
        running.join()
        np.testing.assert_array_equal(session.run(total), 0)


def test_who_never_comes_is_named(serve):
    spec = spec_of()
    graph, total, _ = counter(0)
    with tf.Session(serve(spec, "worker", patience=0.3).target, graph) as session, pytest.raises(
            errors.UnavailableError, match=f"Server: /job:worker/task:0 waited 0 s for /job:ps/task:0, and nobody answers at "
                                           f"tcp://{spec['ps'][0]}; start that process, with the same ClusterSpec"):
        session.run(total.initializer)


def test_specs_that_disagree(serve):
    spec = spec_of()
    serve(spec, "ps")
    moved = {**spec, "worker": [spec["worker"][0], "localhost:1"]}
    graph, total, _ = counter(0)
    with tf.Session(serve(moved, "worker").target, graph) as session, pytest.raises(
            errors.InvalidArgumentError, match=r"Server: /job:worker/task:1 is at localhost:1 in the ClusterSpec of /job:"
            rf"worker/task:0 but at {spec['worker'][1]} in that of /job:ps/task:0; start every process with the same"):
        session.run(total.initializer)
    more = {"ps": [*spec["ps"], "localhost:1"], "worker": spec["worker"]}
    with tf.Session(serve(more, "worker", 1).target, graph) as session, pytest.raises(
            errors.InvalidArgumentError, match=r"/job:ps/task:1 is at localhost:1 in .* but at no address in that of /job"):
        session.run(total.initializer)


def test_another_workbench_is_refused_by_name(serve, monkeypatch):
    spec = spec_of()
    serve(spec, "ps")
    graph, total, _ = counter(0)
    mine = admission.operations()
    monkeypatch.setattr(admission, "operations", lambda: "another")      # of who is called; the caller says what it has
    with tf.Session(serve(spec, "worker").target, graph) as session, pytest.raises(
            errors.FailedPreconditionError, match=f"operations of the caller's workbench are {mine}, here they are another; "):
        session.run(total.initializer)


def test_threads_take_turns_as_before_when_the_last_task_has_ended(serve):
    """Of two hosts in one process the first one's tasks end first."""
    spec, before = spec_of(), sys.getswitchinterval()
    first = serve(spec, "ps")
    graph, total, _ = counter(0)
    server = serve(spec, "worker")
    with tf.Session(server.target, graph) as session:
        session.run(total.initializer)
        assert sys.getswitchinterval() < before
    first.close()
    server.close()
    eventually(lambda: sys.getswitchinterval() == before)


def test_an_address_of_another_task(serve):
    spec = spec_of()
    serve(spec, "worker", 1)
    crossed = {"ps": [spec["worker"][1]], "worker": [spec["worker"][0]]}
    graph, total, _ = counter(0)
    with tf.Session(serve(crossed, "worker").target, graph) as session, pytest.raises(
            errors.InvalidArgumentError, match="takes this process for /job:ps/task:0 but it is /job:worker/task:1"):
        session.run(total.initializer)


def test_addresses_that_cannot_be_listened_at(serve):
    spec = spec_of()
    serve(spec, "ps")
    with pytest.raises(errors.AlreadyExistsError, match=r"port of tcp://127.0.0.1:[0-9]+ is in use, so /job:ps/task:0 cannot"):
        serve(spec, "ps")
    with pytest.raises(errors.InvalidArgumentError, match="start it on the machine that its ClusterSpec names"):
        serve({"ps": ["192.0.2.1:2222"]}, "ps")
    with pytest.raises(errors.InvalidArgumentError, match="the address 'here'; write it as host:port"):
        serve({"ps": ["here"]}, "ps")
    with pytest.raises(errors.InvalidArgumentError, match=r"'no\.such\.host\.invalid:1', which is not known here"):
        serve({"ps": ["no.such.host.invalid:1"]}, "ps")
    with pytest.raises(errors.InvalidArgumentError, match="job 'ps' has no task 3"):
        serve(spec, "ps", 3)
    with pytest.raises(errors.InvalidArgumentError, match="protocol is 'verbs'; use grpc, tcp or tls"):
        serve(spec, "ps", protocol="verbs")


def test_processes_that_talk_over_tls(serve):
    pem = str(Path(__file__).parents[1] / "tls_test_only.pem")
    roles = {f"distributed.comm.tls.worker.{part}": pem for part in ("cert", "key")}
    with dask.config.set({"distributed.comm.tls.ca-file": pem, "distributed.comm.require-encryption": True, **roles}):
        spec = spec_of()
        serve(spec, "ps", protocol="tls")
        worker = serve(spec, "worker", protocol="tls")
        graph, total, add = counter(0)
        with tf.Session(worker.target, graph) as session:
            session.run(total.initializer)
            session.run(add)
            np.testing.assert_array_equal(session.run(total), [2, 4, 6])
        assert all(address.startswith("tls://") for address in worker.target.addresses.values())


def test_only_who_knows_the_secret_of_the_processes_is_let_in(serve, monkeypatch):
    monkeypatch.setattr(settings, "cluster_key", "between us")
    spec = spec_of(servers=2)
    serve(spec, "ps", 0), serve(spec, "ps", 1)
    friend = serve(spec, "worker", 0)
    with wb.Graph().as_default() as graph:
        with tf.device("/job:ps/task:0"):
            total = tf.get_variable("total", [3], initializer=tf.zeros_initializer())
        with tf.device("/job:ps/task:1"):      # the servers talk to each other, with what the secret makes of the session's key
            twice = total + total
    with tf.Session(friend.target, graph) as session:
        session.run(total.initializer)
        np.testing.assert_array_equal(session.run(twice), 0)
    monkeypatch.setattr(settings, "cluster_key", "a guess")
    with tf.Session(serve(spec, "worker", 1).target, graph) as session, pytest.raises(
            errors.FailedPreconditionError, match=r"/job:ps/task:[01]: chief does not know the key of this cluster"):
        session.run(total.initializer)


@pytest.mark.parametrize("address, key, said", [("tcp://192.0.2.5:2222", "", True), ("tcp://192.0.2.5:2222", "s", False),
                                                ("tls://192.0.2.5:2222", "", False), ("tcp://127.0.0.1:2222", "", False)])
def test_a_port_that_lets_anybody_in_is_announced(monkeypatch, caplog, address, key, said):
    monkeypatch.setattr(settings, "cluster_key", key)
    _warn_of_strangers("/job:ps/task:0", address)
    assert [record.getMessage() for record in caplog.records] == said * [
        "workbench: /job:ps/task:0 listens at tcp://192.0.2.5:2222 without TLS or a key: whoever reaches that port can run "
        "graphs in this process and change its variables; set WB_CLUSTER_KEY to one secret in all processes, or use "
        "protocol='tls'"]


def test_a_server_that_is_not_started_has_no_target(serve):
    server = serve(spec_of(), "worker", start=False)
    with pytest.raises(errors.FailedPreconditionError, match="made with start=False; call start"):
        _ = server.target
    server.start()
    assert server.target is server.target


def test_a_local_server_is_one_process(serve):
    server = tf.train.Server.create_local_server()
    with wb.Graph().as_default(), tf.Session(server.target) as session:
        assert session.run(tf.constant(3) + 4) == 7
    server.close()
    server.close()


def test_sessions_that_bring_no_options_take_those_of_the_server():
    with pytest.raises(errors.DtypeError, match=r"Server: config must be a tf\.ConfigProto, but it is 7"):
        tf.train.Server.create_local_server(config=7)
    server = tf.train.Server.create_local_server(config=tf.ConfigProto(allow_soft_placement=True))
    try:
        with wb.Graph().as_default(), tf.device("/gpu:7"):
            where = tf.constant(3) + 4
            with tf.Session(server.target) as session:
                assert session.run(where) == 7
            with pytest.raises(errors.PlacementError), tf.Session(server.target, config=tf.ConfigProto()) as session:
                session.run(where)
    finally:
        server.close()


def test_a_local_cluster_is_several_servers_of_one_process():
    workers, servers = tf.test.create_local_cluster(2, 1)
    try:
        graph, total, add = counter(1)
        with tf.Session(workers[1].target, graph) as session:
            session.run(total.initializer)
            session.run(add)
            np.testing.assert_array_equal(session.run(total), [2, 4, 6])
    finally:
        for server in (*workers, *servers):
            server.close()
    eventually(lambda: our_threads() == [])
    with pytest.raises(errors.InvalidArgumentError, match="-1 workers and 0 parameter servers; use 0 or more"):
        tf.test.create_local_cluster(-1, 0)


def test_servers_of_one_process_are_found_by_their_addresses(serve):
    """As the notebooks write it that show a cluster in one process."""
    spec = spec_of()
    for job, index in (("ps", 0), ("worker", 0), ("worker", 1)):
        serve(spec, job, index)
    graph, total, add = counter(1)
    with tf.Session("grpc://" + spec["worker"][1], graph) as one, tf.Session(
            f"grpc://{spec['worker'][0].replace('localhost', '127.0.0.1')}", graph) as two:
        one.run(total.initializer)
        one.run(add)
        np.testing.assert_array_equal(two.run(total), [2, 4, 6])
    alone = serve(spec_of(0, 1), "worker")
    address = alone.cluster.task_address("worker", 0)
    alone.close()
    with pytest.raises(errors.NotFoundError, match="is not a cluster"):
        tf.Session(f"grpc://{address}", graph)


class Baton:
    """Whoever has it takes a step; so one step of the job runs at a time, and everybody has as many."""

    def __init__(self) -> None:
        self._changed, self._turn, self._left = threading.Condition(), 0, False

    @contextlib.contextmanager
    def held(self, worker: int) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._turn == worker or self._left)
            yield
            self._turn = 1 - worker
            self._changed.notify_all()

    def leave(self) -> None:
        with self._changed:
            self._left = True
            self._changed.notify_all()


def train(server: Any, worker: int, folder: Path, baton: Baton, strike: Any) -> None:
    """Count to 30 in the variables of both parameter servers; something happens after the third step, if `strike` says so."""
    with wb.Graph().as_default():
        counters = []
        for task in range(2):
            with tf.device(f"/job:ps/task:{task}"):
                counters.append(tf.get_variable(f"count_{task}", [], initializer=tf.zeros_initializer()))
        with tf.device("/job:ps/task:0"):
            step = tf.train.get_or_create_global_step()
        with tf.device(f"/job:worker/task:{worker}"):
            one = tf.identity(tf.placeholder_with_default(np.float32(1), []))
            loss = one * tf.add_n(counters)
        up = tf.train.GradientDescentOptimizer(-1.0).minimize(loss, step)      # the other may count while the last is saved
        taken = 0
        with tf.train.MonitoredTrainingSession(server.target, worker == 0, folder, save_checkpoint_steps=5,
                                               hooks=[tf.train.StopAtStepHook(last_step=30)]) as session:
            while not session.should_stop():
                with baton.held(worker):
                    session.run(up)
                    taken += 1
                    if taken == 3 and strike is not None:
                        strike()
                        session.run(up)
        baton.leave()


@pytest.mark.parametrize("breaks", ["server", "link"])
def test_training_goes_on_when_a_parameter_server_comes_back(serve, tmp_path, breaks):
    """Nobody has done anything about it: the chief restores, the other worker waits and goes on; all ends agree. Where only a
    worker was cut off it alone comes back and runs the step that it was in again; what of that was done counts once."""
    spec = spec_of(servers=2)
    servers = [serve(spec, "ps", task) for task in range(2)]
    workers = [serve(spec, "worker", task) for task in range(2)]

    def restart() -> None:
        servers[1].close()
        servers[1] = serve(spec, "ps", 1)

    def cut() -> None:
        for task in list(servers[1]._host.tasks.values()):
            if servers[1]._host._callers[task.session] == workers[1].name:
                task.leave("the network broke")
    strikes, baton = [restart if breaks == "server" else None, cut if breaks == "link" else None], Baton()
    threads = [threading.Thread(target=train, args=(server, task, tmp_path, baton, strikes[task]))
               for task, server in enumerate(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    found = checkpoint.read(tf.train.latest_checkpoint(tmp_path)).tensors
    assert found["count_0"] == found["count_1"] == found["global_step"] >= 30
    assert workers[1].target.generation >= 1 and workers[0].target.generation == (breaks == "server")
    assert not any(server._host.over.is_set() for server in servers)      # who comes again has not said goodbye


def test_join_ends_with_the_job(serve):
    """The chief left in order and so did the other worker: nobody is served any more."""
    spec = spec_of()
    ps, first, second = serve(spec, "ps"), serve(spec, "worker", 0), serve(spec, "worker", 1)
    joined = threading.Thread(target=ps.join)
    joined.start()
    for worker, server in enumerate((first, second)):
        graph, total, add = counter(worker)
        with tf.Session(server.target, graph) as session:
            session.run([total.initializer])
            session.run(add)
    first.close()
    assert joined.is_alive()
    second.close()
    joined.join(60)
    assert not joined.is_alive()


def test_a_goodbye_waits_for_whoever_is_sending(serve):
    """A probe may be on its way just then; without the goodbye the parameter server would wait for ever."""
    spec = spec_of(workers=1)
    ps, worker = serve(spec, "ps"), serve(spec, "worker")
    graph, total, _ = counter(0)
    with tf.Session(worker.target, graph) as session:
        session.run(total.initializer)
    member = worker.target._members["/job:ps/task:0"]
    sends, busy, tried = member.connection.send, threading.Event(), threading.Event()

    def send_something_long() -> None:
        with member.connection._sender._lock:
            busy.set()
            tried.wait(30)

    def send(*frame: Any) -> bool:
        was_sent = sends(*frame)
        tried.set()
        return was_sent
    sending = threading.Thread(target=send_something_long)
    sending.start()
    busy.wait(30)
    member.connection.send = send
    worker.close()
    sending.join(60)
    eventually(ps._host.over.is_set, 30)


def test_a_server_that_no_graph_used_hears_of_the_end_from_the_others(serve, monkeypatch):
    monkeypatch.setattr(program, "_LATE_SECONDS", 0.0)
    spec = spec_of(servers=2, workers=1)
    servers, worker = [serve(spec, "ps", index) for index in range(2)], serve(spec, "worker")
    joined = [threading.Thread(target=server.join) for server in servers]
    for thread in joined:
        thread.start()
    graph, total, _ = counter(0)                               # its variable is on the first server
    with tf.Session(worker.target, graph) as session:
        session.run(total.initializer)
    worker.close()
    for thread in joined:
        thread.join(60)
        assert not thread.is_alive()


def test_a_server_that_is_slow_to_answer_hears_of_the_end_too(serve, monkeypatch):
    """Nobody tells it again: it would serve for ever."""
    monkeypatch.setattr(program, "_LATE_SECONDS", 0.0)
    spec = spec_of(servers=2, workers=1)
    servers, worker = [serve(spec, "ps", index) for index in range(2)], serve(spec, "worker")
    joined = [threading.Thread(target=server.join, daemon=True) for server in servers]
    for thread in joined:
        thread.start()
    graph, total, _ = counter(0)
    with tf.Session(worker.target, graph) as session:
        session.run(total.initializer)
    answers = threading.Event()
    servers[1]._listener.loop.add_callback(answers.wait)
    worker.close()
    joined[0].join(0.5)                                        # it would give up soon
    answers.set()
    for thread in joined:
        thread.join(60)
        assert not thread.is_alive()
