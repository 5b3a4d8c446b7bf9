"""What simulated tasks compute: pull and push as replicas do, synchronous rounds with tokens, reading and restoring."""
from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from tests.sim.engine import Await, Course, SimEngine, kernel, receive, take
from workbench.core.names import join_edge
from workbench.core.state.kept import Kept

__all__ = ["PROGRAMS", "SERVERS", "SLACK", "WORKERS"]

SERVERS = ("/job:ps/task:0", "/job:ps/task:1")
WORKERS = ("/job:worker/task:0", "/job:worker/task:1", "/job:worker/task:2")
FIRST, SECOND = SERVERS
SLACK = 1            # steps that a replica of bounded staleness may be ahead

Steps = Generator[Await, Any, list[Any]]


def _key(course: Course, what: str, source: str, target: str) -> str:
    return join_edge(what, source, target)


def _seconds(engine: SimEngine) -> float:
    return engine.world.delay()


def _send(engine: SimEngine, course: Course, what: str, target: str, value: Any) -> None:
    course.send(_key(course, what, engine.task, target), np.asarray(value, np.float64), False)


def _worker(course: Course) -> str:
    return WORKERS[int(course.feeds["0"])]


def serve(engine: SimEngine, course: Course) -> Steps:
    """A parameter server in one step of an asynchronous replica."""
    worker = _worker(course)
    version, value = engine.v.snapshot()
    engine.log("read", engine.session, engine.task, course.step, version)
    _send(engine, course, "v", worker, value)
    delta = yield receive(_key(course, "d", worker, engine.task))
    yield kernel(_seconds(engine), lambda: engine.add(course.step, delta, worker))
    return []


def push(engine: SimEngine, course: Course) -> Steps:
    """That replica: the gradient is 1, whatever the parameters are."""
    for server in SERVERS:
        yield receive(_key(course, "v", server, engine.task))
    yield kernel(_seconds(engine))
    for server in SERVERS:
        _send(engine, course, "d", server, [1, 1])
    return []


def _clock(engine: SimEngine, course: Course, worker: str) -> Await:
    def on_end(end: Callable[[], None]) -> None:
        def over() -> None:
            if worker in engine.c._guests and engine.c._inside[worker] == 1:      # said first: others may begin at once
                engine.log("retired", engine.session, worker)
            end()
        course.ends.append(over)
    return take(lambda done, fail: engine.c.wait(worker, SLACK, done, on_end))


def _push(engine: SimEngine, course: Course, worker: str) -> Steps:
    """A server's part of a push: it begins when its gradient has come, and is over with the server's part of the step."""
    delta = yield receive(_key(course, "d", worker, engine.task))
    yield take(lambda done, fail: engine.p.begin(worker, course.step, SERVERS, lambda: done(None), course.ends.append))
    yield kernel(_seconds(engine), lambda: engine.add(course.step, delta, worker))
    return []


def lead(engine: SimEngine, course: Course) -> Steps:
    """The parameter server with clocks in one step of a replica of bounded staleness, whose worker's part is `push`."""
    worker = _worker(course)
    clock = yield _clock(engine, course, worker)
    engine.log("clock", engine.session, worker, course.step, clock)
    _send(engine, course, "v", worker, engine.v.read())
    yield from _push(engine, course, worker)
    yield receive(_key(course, "did", SECOND, engine.task))
    engine.log("advanced", engine.session, worker, clock)
    engine.c.advance(worker, clock)
    return []


def follow(engine: SimEngine, course: Course) -> Steps:
    """The other one."""
    worker = _worker(course)
    _send(engine, course, "v", worker, engine.v.read())
    yield from _push(engine, course, worker)
    _send(engine, course, "did", FIRST, 0)
    return []


def retire(engine: SimEngine, course: Course) -> Steps:
    """A replica is through: nobody waits for it."""
    engine.log("retired", engine.session, _worker(course))
    engine.c.leave(_worker(course))
    yield kernel(0.0)
    return []


def evaluate(engine: SimEngine, course: Course) -> Steps:
    """Somebody looks at what a replica computes, whether it trains, has left or never began: no step of it."""
    yield _clock(engine, course, _worker(course))
    yield kernel(_seconds(engine))
    return []


def admit(engine: SimEngine, course: Course) -> Steps:
    """A replica that left comes back."""
    engine.c.admit(_worker(course))
    yield kernel(0.0)
    return []


def hold(engine: SimEngine, course: Course) -> Steps:
    """No push begins until `release`; the number of the newest that did, of each worker (-1: none did)."""
    yield kernel(0.0)
    begun = engine.p.hold()
    return [np.array([begun[worker][0] if worker in begun else -1 for worker in WORKERS], np.float64)]


def settle(engine: SimEngine, course: Course) -> Steps:
    """The moment between pushes: those that began on any server have ended here."""
    cut = {worker: int(number) for worker, number in zip(WORKERS, course.feeds["0"]) if number >= 0}
    yield take(lambda done, fail: engine.p.settle(cut, lambda: done(None)))
    return []


def release(engine: SimEngine, course: Course) -> Steps:
    """Pushes go on; where it is so fed, those under way are given up."""
    if course.feeds["0"]:
        engine.p.forget()
    held = engine.p.release()
    yield kernel(0.0)
    return [np.float64(held)]


def first(engine: SimEngine, course: Course) -> Steps:
    """The parameter server with the tokens in one step of a synchronous replica."""
    worker, had = _worker(course), int(course.feeds["1"])
    token = yield take(lambda done, fail: engine.t.take(had, done, fail))
    engine.log("token", engine.session, worker, course.step, had, token)
    for other in (worker, SECOND):
        _send(engine, course, "t", other, token)
    return (yield from _gather(engine, course, worker, token))


def second(engine: SimEngine, course: Course) -> Steps:
    """The other one."""
    token = yield receive(_key(course, "t", FIRST, engine.task))
    return (yield from _gather(engine, course, _worker(course), int(token)))


def _gather(engine: SimEngine, course: Course, worker: str, token: int) -> Steps:
    version, value = engine.v.snapshot()
    _send(engine, course, "v", worker, [version, value[0]])
    gradient = yield receive(_key(course, "g", worker, engine.task))
    g = engine.g

    def apply() -> None:
        before = g.dropped, g.repeated
        g.apply(token, gradient, worker=worker)
        if (g.dropped, g.repeated) == before:
            engine.log("gathered", engine.session, engine.task, course.step, worker, token, version)
    yield kernel(_seconds(engine), apply)
    return []


def work(engine: SimEngine, course: Course) -> Steps:
    """That replica."""
    token = yield receive(_key(course, "t", FIRST, engine.task))
    for server in SERVERS:
        yield receive(_key(course, "v", server, engine.task))
    yield kernel(_seconds(engine))
    for server in SERVERS:
        _send(engine, course, "g", server, [1, 1])
    return [np.float64(token)]


def update(engine: SimEngine, course: Course) -> Steps:
    """A round: as many gradients as are wanted, one update on all servers, a new token when all have it. The first server
    takes the next element of its queue with it."""
    total = yield take(lambda done, fail: engine.g.take(int(course.feeds["0"]), done, fail))
    element = (yield take(engine.q.dequeue)) if engine.task == FIRST else None

    def apply() -> None:
        engine.add(course.step, total, "round")
        if engine.task == FIRST:
            engine.log("datum", engine.session, course.step, engine.v.version, int(element))
    yield kernel(_seconds(engine), apply)
    if engine.task == SECOND:
        _send(engine, course, "u", FIRST, 0)
        return []
    yield receive(_key(course, "u", SECOND, engine.task))
    engine.t.release(engine.v.version)
    return [np.float64(engine.v.version)]


def fill(engine: SimEngine, course: Course) -> Steps:
    """The next element of the data waits in the queue, or for room in it."""
    element = engine.d.take()
    yield take(lambda done, fail: engine.q.enqueue(element, lambda: done(None), fail))
    return []


def shut(engine: SimEngine, course: Course) -> Steps:
    """No more elements are wanted."""
    engine.q.close(cancel_pending=True)
    yield kernel(0.0)
    return []


def leave(engine: SimEngine, course: Course) -> Steps:
    """So many workers are left."""
    engine.g.set_members(int(course.feeds["0"]))
    yield kernel(0.0)
    return []


def restore(engine: SimEngine, course: Course) -> Steps:
    """A value, and the number of the round that comes."""
    value, version, taken = course.feeds["0"], int(course.feeds["1"]), int(course.feeds["2"])

    def assign() -> None:
        engine.v.assign(np.array(value))
        engine.v.version = version
        engine.g.set_global_step(version)
        engine.d.resume({"taken": taken, "generators": []})
        inside, *waiting = (int(number) for number in course.feeds["3"])
        elements = [np.asarray(one, np.int64) for one in waiting]
        engine.q.set_state(Kept({"inside": inside, "order": [], "closed": False}, [elements], ["int64"]))
        engine.log("restored", engine.session, engine.task, course.step, version, float(value[0]))
    yield kernel(_seconds(engine), assign)
    return []


def start(engine: SimEngine, course: Course) -> Steps:
    """The first token."""
    engine.t.release(engine.v.version)
    yield kernel(0.0)
    return []


def read(engine: SimEngine, course: Course) -> Steps:
    """(version, value, elements of the data taken so far, how many are in the queue and all that wait at it)."""
    yield kernel(_seconds(engine))
    version, value = engine.v.snapshot()
    position = engine.d.position()
    assert position is not None
    kept = engine.q.state()
    waiting = np.array([kept.note["inside"], *kept.columns[0]], np.float64)
    return [np.float64(version), np.array(value), np.float64(position["taken"]), waiting]


def count(engine: SimEngine, course: Course) -> Steps:
    """A parameter server in a step that is tried again until it succeeds, without anything being restored: the variable
    counts, a number goes into a queue and the next that is in it comes out."""
    worker = _worker(course)
    _send(engine, course, "v", worker, engine.v.read())
    yield receive(_key(course, "d", worker, engine.task))
    yield kernel(_seconds(engine), lambda: course.once("v", lambda: engine.count(course)))
    yield course.once_there("put", lambda done, fail: engine.q.enqueue(
        [np.int64(course.sequence)], lambda: done(None), fail))
    (element,) = yield course.once_there("get", lambda done, fail: engine.q.dequeue(lambda one: done((one,)), fail))
    yield kernel(_seconds(engine), lambda: course.once("taken", lambda: engine.log("taken", engine.task, int(element))))
    return []


def tell(engine: SimEngine, course: Course) -> Steps:
    """One that sends and is through, perhaps before the receiver has begun."""
    _send(engine, course, "v", FIRST, engine.v.version)
    return []
    yield


def hear(engine: SimEngine, course: Course) -> Steps:
    """The receiver."""
    return [(yield receive(_key(course, "v", SECOND, engine.task)))]


PROGRAMS = {made.__name__: made for made in (
    serve, push, count, lead, follow, retire, evaluate, admit, hold, settle, release, first, second, work, update, fill, shut,
    leave, restore, start, read, tell, hear)}
