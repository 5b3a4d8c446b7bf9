"""Training in a simulated cluster, by replicas of each kind, and what its history must say, whatever went wrong."""
from __future__ import annotations

import random
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.sim.engine import EPOCH
from tests.sim.programs import SERVERS, SLACK, WORKERS
from tests.sim.scene import BEGINNING, HEARTBEAT, Clients, Scene
from workbench import errors
from workbench.train.saving.checkpoints import cuts

_LOSSES = ("AbortedError", "UnavailableError", "DeadlineExceededError", "CancelledError")
__all__ = ["MODES", "check", "train"]

STEPS, SECONDS = 8, 20.0
PATIENCE = 3 * HEARTBEAT     # seconds after which a synchronous step is aborted; others end by themselves


def train(mode: str, seed: object, faults: int | None = None) -> Scene:
    """The history of one training; AssertionError, which says how to see it again, when it is not as it must be."""
    scene = Scene(f"{mode} {seed}", 0)
    scene.faults = scene.world.random.randint(0, 4) if faults is None else faults
    try:
        scene.keeps_state = mode == "alone"
        scene.play(partial(MODES[mode], scene), SECONDS)
        check(scene)
    except (AssertionError, errors.Error) as error:
        again = f"python -m tests.sim {mode} {shlex.quote(str(seed))}" + ("" if faults is None else f" {faults}")
        raise AssertionError(f"{error}\n  to see it again: {again}") from error
    return scene


def _again(scene: Scene, client: str, body: Callable[[], Any]) -> Any:
    """What a user's loop does: after a loss somebody recovers, everybody tries again."""
    while True:
        result = body()
        if not isinstance(result, errors.Error):
            return result
        _after(scene, client)


def _after(scene: Scene, client: str) -> None:
    if any(member.lost for member in scene.members.values()):
        scene.recover(client)
    scene.world.wait(lambda: False, 0.1)


def _asynchronous(scene: Scene) -> Clients:
    def replica(number: int) -> None:
        for _ in range(STEPS):
            _again(scene, f"replica {number}",
                   lambda: scene.run(f"replica {number}", f"push_{number}", dict.fromkeys(SERVERS, (number,))))

    def observer() -> None:
        for _ in range(2 * STEPS):
            _again(scene, "observer", lambda: scene.run("observer", "compare"))
    clients = {f"replica {n}": lambda n=n: replica(n) for n in range(len(WORKERS))}      # type: ignore[misc]
    return {**clients, "observer": observer}


def _synchronous(scene: Scene) -> Clients:
    wanted = random.Random(f"wanted {scene.seed}").choice((2, 3))      # the same in every life of the program
    if scene.life == 1:
        scene.log("wanted", wanted)
    over: list[bool] = []

    def worker(number: int) -> None:
        newest, session = -1, scene.session
        while not over:
            if session != (session := scene.attempts.mark().generation):
                newest = -1
            fed = {SERVERS[0]: (number, newest), SERVERS[1]: (number,)}
            result = scene.run(f"worker {number}", f"work_{number}", fed, PATIENCE)
            if isinstance(result, errors.Error):
                scene.world.wait(lambda: bool(over), 0.1)
            elif session == scene.session:
                newest = int(result[WORKERS[number]][0])

    def rounds() -> None:
        for _ in range(STEPS):
            def one() -> Any:
                result = scene.run("rounds", "update", dict.fromkeys(SERVERS, (wanted,)), PATIENCE)
                if isinstance(result, errors.Error):      # it may have been cut in the middle
                    scene.recover("rounds")
                return result
            _again(scene, "rounds", one)
            session = scene.attempts.mark().generation
            values = scene.run("rounds", "read", None, PATIENCE)
            if not isinstance(values, errors.Error):
                scene.save(values, session)
        over.append(True)
        _again(scene, "rounds", lambda: scene.run("rounds", "shut"))

    def filler() -> None:
        while not over:
            if isinstance(scene.run("filler", "fill"), errors.Error) and not over:
                _after(scene, "filler")

    def onlooker() -> None:
        """A session beside the one that recovers: it knows nothing of that and changes nothing."""
        while not over:
            scene.step("onlooker", "compare")
            scene.world.wait(lambda: bool(over), 0.2)
    clients = {f"worker {n}": lambda n=n: worker(n) for n in range(len(WORKERS))}      # type: ignore[misc]
    return {**clients, "rounds": rounds, "filler": filler, "onlooker": onlooker}


def _bounded(scene: Scene) -> Clients:
    """Replicas of bounded staleness; a checkpoint is a moment between their pushes."""
    left = set(range(len(WORKERS)))

    def whole(client: str, handle: str, feeds: Any = None, limit: float | None = None) -> Any:
        """A step; one that was cut in the middle may have reached one server alone, so all go back to the checkpoint."""
        result = scene.run(client, handle, feeds, limit)
        if isinstance(result, errors.Error):
            scene.recover(client)
        return result

    def replica(number: int) -> None:
        """It leaves, is looked at and comes back; it leaves for good and is looked at as long as others train."""
        def once(what: str) -> None:
            _again(scene, f"replica {number}", lambda: whole(f"replica {number}", f"{what}_{number}", {SERVERS[0]: (number,)}))
        for steps in (STEPS // 2, STEPS - STEPS // 2):
            once("admit")
            for _ in range(steps):
                _again(scene, f"replica {number}",
                       lambda: whole(f"replica {number}", f"bounded_{number}", dict.fromkeys(SERVERS, (number,))))
            once("retire")
            once("evaluate")
        left.discard(number)
        while left:
            once("evaluate")
            scene.world.wait(lambda: False, scene.world.random.uniform(0.0, 1.0))

    def saver() -> None:
        while left:
            session = scene.attempts.mark().generation
            begun = scene.run("saver", "hold", None, PATIENCE)
            settled = begun if isinstance(begun, errors.Error) else scene.run("saver", "settle", _to_settle(begun), PATIENCE)
            values = settled if isinstance(settled, errors.Error) else scene.run("saver", "read", None, PATIENCE)
            held = whole("saver", "release", dict.fromkeys(SERVERS, (isinstance(settled, errors.Error),)), PATIENCE)
            if not isinstance(values, errors.Error) and not isinstance(held, errors.Error) and all(
                    bool(found) for found, in held.values()):      # else the tasks were opened anew in between
                scene.save(values, session)
            scene.world.wait(lambda: False, scene.world.random.uniform(0.0, 1.0))
    clients = {f"replica {n}": lambda n=n: replica(n) for n in range(len(WORKERS))}      # type: ignore[misc]
    return {**clients, "saver": saver}


def _to_settle(held: dict[str, Any]) -> dict[str, Any]:
    """What each server has to have, of what each said to have begun."""
    begun = [{worker: (int(number), SERVERS) for worker, number in zip(WORKERS, held[server][0]) if number >= 0}
             for server in SERVERS]
    return {server: ([cut.get(worker, -1) for worker in WORKERS],) for server, cut in zip(SERVERS, cuts(SERVERS, begun))}


def _alone(scene: Scene) -> Clients:
    """A driver of servers that keep their state, cut off while the others train on: it connects again and tries its step
    again, on two threads."""
    def driver(number: int) -> None:
        for _ in range(STEPS):
            tries = scene.tracker.tries()

            def one(tries: Any = tries) -> Any:
                with tries:
                    return scene.run(f"driver {number}", f"count_{number}", dict.fromkeys(SERVERS, (number,)))
            _again(scene, f"driver {number}", one)
            tries.over()
            scene.log("did", tries.sequence)
    return {f"driver {n}": lambda n=n: driver(n) for n in range(2)}      # type: ignore[misc]


MODES = {"async": _asynchronous, "sync": _synchronous, "bounded": _bounded, "alone": _alone}


def check(scene: Scene) -> None:
    """What holds in every history: I1 to I12 of the design, I10 by tests/sim/test_disk.py."""
    _nothing_left(scene)      # I11, I12
    _updates(scene)           # I2, I4
    _rounds(scene)            # I5
    _checkpoints(scene)       # I1, I3, I7, I8, I9
    _staleness(scene)         # I6
    _tries(scene)             # I2
    _losses(scene)


def _nothing_left(scene: Scene) -> None:
    assert not scene.world.failures, scene.world.failures[0]
    assert not scene.tracker.pending, f"steps {sorted(scene.tracker.pending)} are pending for ever"
    for (session, name), task in scene.tasks.items():
        if scene.homes[session, name].crashed:
            continue
        assert session == scene.session or task.over.is_set(), f"{name} of session {session} is nobody's and lives"
        facts = task.steps.facts()
        assert facts["active"] == facts["aborting"] == facts["waiting"] == [] and not scene.engines[session, name].courses, (
            f"{name} still has {facts}")
        assert not task._relays.known(), f"{name} waits for what others say of steps {task._relays.known()}"
        left = [step for step in task.steps._tables if step < task.steps._newest]
        assert not left, f"{name} keeps tensors of steps {left}"


def _updates(scene: Scene) -> None:
    """Once each, one version at a time, all of what was acknowledged, nothing of what had failed."""
    versions: dict[tuple[int, str], int] = {}
    seen: Counter[tuple[Any, ...]] = Counter()
    failed: set[tuple[int, int]] = set()
    read: dict[tuple[int, str], int] = {}
    for kind, *what in scene.history:
        if kind == "restored":
            session, task, _, version, _ = what
            versions[session, task] = read[session, task] = version
        elif kind == "failed":
            failed.add((what[0], what[3]))
        elif kind == "read":
            session, task, _, version = what
            assert version >= read[session, task], f"{task} went back from version {read[session, task]} to {version}"
            read[session, task] = version
        elif kind == "applied":
            session, task, step, who, version, _ = what
            seen[session, task, step] += 1
            assert seen[session, task, step] == 1, f"step {step} updated {task} twice"
            gone = session != scene.session      # what nobody restores from may do what it likes
            assert (session, step) not in failed or gone, (
                f"step {step} of {who} updated {task} after its user had heard that it failed")
            assert version == versions[session, task] + 1, f"{task} went from version {versions[session, task]} to {version}"
            versions[session, task] = version
    for kind, *what in scene.history:
        if kind == "acknowledged" and what[2].startswith(("push", "update", "bounded")):
            session, _, handle, step = what
            for server in SERVERS:
                assert seen[session, server, step] == 1, f"{handle} in step {step} was acknowledged but never reached {server}"


def _rounds(scene: Scene) -> None:
    """Gradients of a synchronous round are of its version, one per worker; tokens are newer than what a worker had."""
    gathered: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for kind, *what in scene.history:
        if kind == "token":
            _, worker, step, had, token = what
            assert token > had, f"{worker} had token {had} and was given {token} in step {step}"
        elif kind == "gathered":
            session, task, step, worker, token, version = what
            assert token == version, f"{worker} computed for step {token} at version {version} of {task}"
            gathered[session, task, worker, token].append(step)
    for (_, task, worker, token), steps in gathered.items():
        assert len(steps) == 1, f"{worker} was counted in steps {steps} for token {token} at {task}"
    _sums(scene, Counter((session, task, token) for session, task, _, token in gathered))


def _sums(scene: Scene, gathered: Counter[tuple[Any, ...]]) -> None:
    """A round adds what was gathered for it, all of it, and no less than is wanted."""
    wanted, values = 0, dict[tuple[int, str], float]()
    for kind, *what in scene.history:
        if kind == "wanted":
            wanted = what[0]
        elif kind == "restored":
            session, task, _, _, value = what
            values[session, task] = value
        elif kind == "applied" and what[3] == "round":
            session, task, step, _, version, value = what
            added, values[session, task] = value - values[session, task], value
            count = gathered[session, task, version - 1]
            assert added == count >= wanted, f"step {step} added {added} to {task}; {count} were gathered, {wanted} are wanted"


def _checkpoints(scene: Scene) -> None:
    """Training goes on from the newest checkpoint, which is what the log up to its version says, with the data that follows.

    Where gradients are one and all count, the value is their number, on every server, as if nothing had ever happened.
    """
    seen: defaultdict[str, set[tuple[int, float]]] = defaultdict(lambda: {(0, 0.0)})
    alike, whole = ("wanted", 2) not in scene.history, dict[int, dict[str, float]]()
    saved = BEGINNING.version, BEGINNING.values
    weight = len(WORKERS) if ("wanted", len(WORKERS)) in scene.history else 1
    for kind, *what in scene.history:
        if kind == "applied":
            _, task, step, _, version, value = what
            seen[task].add((version, value))
            assert not alike or value == weight * version, f"step {step} left {value} on {task} in version {version}"
        elif kind == "saved":
            assert what[1] >= max(whole, default=0), f"a checkpoint of version {what[1]} follows one of {max(whole)}"
            whole[what[1]] = what[2]
        elif (kind, what[0]) == ("fault", "damage"):
            del whole[what[1]]
        elif kind in ("begins", "restores"):
            assert bool(whole) == (kind == "restores"), f"training {kind} at version {what[1]}; whole are {sorted(whole)}"
            assert what[1] == max(whole, default=0), f"training goes on from version {what[1]} but {max(whole)} is whole"
            saved = what[1], whole.get(what[1], BEGINNING.values)
        elif kind == "restored":
            _, task, _, version, value = what
            assert (version, value) == (saved[0], saved[1][task]), f"{task} goes on from version {version}, {value} not {saved}"
            assert (version, value) in seen[task], f"{task} was restored to {value}, which it never was in version {version}"
        elif kind == "datum":
            _, step, version, datum = what
            assert datum == (version - 1) % EPOCH, f"step {step} has element {datum} in version {version}"


def _staleness(scene: Scene) -> None:
    """Nobody begins a step while it is further ahead of another than is allowed."""
    done: dict[tuple[int, str], int] = {}
    for kind, *what in scene.history:
        if kind == "advanced":
            session, worker, clock = what
            done[session, worker] = max(done[session, worker], clock + 1)
        elif kind == "retired":
            done.pop((what[0], what[1]), None)
        elif kind == "clock":
            session, worker, step, clock = what
            done.setdefault((session, worker), clock)
            slowest = min(count for (one, _), count in done.items() if one == session)
            assert clock - slowest <= SLACK, f"{worker} began step {step} at {clock} while another was at {slowest}"


def _tries(scene: Scene) -> None:
    """What was tried until it succeeded was done once on every server, whatever was cut off in between."""
    did = Counter(what[0] for kind, *what in scene.history if kind == "did")
    for server in SERVERS if did else ():
        for name, place in (("counted", 1), ("taken", 1)):
            times = Counter(what[place] for kind, *what in scene.history if kind == name and what[0] == server)
            assert times == did, f"{server} has {name} {dict(times - did)} too often and {dict(did - times)} too rarely"


def _losses(scene: Scene) -> None:
    """Nobody is given up to whom nothing was done, and where nothing is done nothing fails."""
    if not any(kind == "fault" for kind, *_ in scene.history):
        failed = [what for kind, *what in scene.history if kind == "failed" and "work_" not in what[2] and what[2] != "fill"]
        assert not failed, f"without any fault this failed: {failed[0]}"
    odd = [what for kind, *what in scene.history if kind == "failed" and not what[4].startswith(_LOSSES)]
    assert not odd, f"nobody who trains through losses expects this: {odd[0]}"
    failed_in = {what[0] for kind, *what in scene.history if kind == "failed"}
    for kind, *what in scene.history:
        assert kind != "recovery" or what[0] in failed_in, f"all is opened anew in session {what[0]}, of which no step failed"
        assert kind != "given up", f"nothing was done to {what[0]} but it was given up: {what[1]}"
