"""Replicas whose workers go from turn to turn by themselves: one run of a session is many turns of each."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from workbench import errors
from workbench.core.graph.build import convert, ops
from workbench.core.graph.graph import Operation, get_default_graph
from workbench.core.graph.shape import Shape
from workbench.nn.variables import Variable, group, near, trainable_variables
from workbench.train.optimizers.optimizer import Optimizer
from workbench.train.replicas import Replicas, Tower, check_mode, check_step, replicate
from workbench.train.rounds import Rounds, WorkerOfRounds
from workbench.train.staleness import Staleness

__all__ = ["own_loops"]


def own_loops(model: Callable[[], Tower], optimizer: Optimizer, workers: Sequence[str], servers: Sequence[str] = (),
              mode: str = "async", global_step: Variable | None = None, turns: Any = 100, staleness: int = 0,
              backups: int = 0) -> Replicas:
    """As replicate, but a step is a loop of `turns` steps (an int32 scalar, 1 or more) beside the data of its worker.

    In mode "async" each worker has a loop of its own: run all `steps` of the replicas at once, and each goes at its own pace
    until its turns are done. In mode "stale" they do so, too, but none begins a turn that is more than `staleness` turns ahead
    of the slowest worker's whose loop is under way. In mode "sync" `steps[0]` is one loop of all workers, with the bits of as
    many steps that are run one by one. In mode "backup" it is the loops of all workers, each at its own pace, and one that
    applies the mean of the first n - `backups` gradients of each of `turns` rounds; a slower worker's count no more, and it
    goes on with the newest.

    The tasks go from turn to turn by themselves, so what runs the session sends and receives as much for a thousand turns as
    for one. It hears of losses and metrics, those of the last turn, when a run ends; pauses and checkpoints come between runs;
    what fails in a turn, a task that is lost, and Ctrl-C end the run on all tasks.
    `wb.train.run(replicas.steps, cluster, …)` runs until the global step is there, and goes on from the newest checkpoint.

    `model()` reads its data from a dataset; variables that nothing in it updates are read once a run. InvalidArgumentError
    for other modes, for no workers, for towers that are fed, and for numbers that do not fit the mode.
    """
    _check(mode, workers, servers, backups, staleness, global_step)
    if mode == "backup" and global_step is not None:
        return _in_rounds(model, Rounds(optimizer, len(workers) - backups, global_step), list(workers), servers, turns, backups)
    bound = Staleness(workers, staleness, global_step) if mode == "stale" and global_step is not None else None
    towers: list[Tower] = []
    steps: list[Operation] = []
    # what asks for no device in a body asks for that of its loop
    loops = [("", list(workers), "sync")] if mode == "sync" else [(worker, [worker], "async") for worker in workers]
    for number, (device, together, inner) in enumerate(loops):
        build = partial(replicate, model, optimizer, together, servers, inner, global_step)
        with get_default_graph().device(device), get_default_graph().name_scope(f"loop_{number}"):
            first = ops.constant(0, "int32")
            if bound is None:
                step, told = _loop(_counted(build), first, turns)
            else:
                step, told = _loop(_counted(partial(_bounded, bound, number, build)), first, turns, partial(bound.rest, number))
        towers += told
        steps.append(step)
    made = Replicas(mode, towers, steps, trainable_variables(), global_step)
    return made if bound is None else replace(made, begin=bound.begin, _end=bound.end, _leaves=bound.leaves)


def _check(mode: str, workers: Sequence[str], servers: Sequence[str], backups: int, staleness: int,
           global_step: Variable | None) -> None:
    if mode not in ("async", "sync", "backup", "stale"):
        raise errors.InvalidArgumentError(f"own_loops: mode is {mode!r}; use async, sync, backup or stale, or replicate")
    if backups == "auto":
        raise errors.InvalidArgumentError("own_loops: backups is 'auto', but nobody chooses anew between the turns of loops; "
                                          "use a number")
    check_mode(mode, len(workers), len(servers), backups, staleness)
    check_step(mode, global_step)


def _bounded(bound: Staleness, number: int, build: Callable[[], Replicas]) -> Replicas:
    """What `build` makes for worker `number`, which begins when that may."""
    clock = bound.wait(number)
    with get_default_graph().control_dependencies([clock]):
        made = build()
    return replace(made, steps=[bound.advance(number, clock, step) for step in made.steps])


def _in_rounds(model: Callable[[], Tower], rounds: Rounds, workers: Sequence[str], servers: Sequence[str], turns: Any,
               backups: int) -> Replicas:
    end = rounds.first + ops.cast(turns, rounds.first.dtype)
    towers: list[Tower] = []
    steps: list[Operation] = []
    for number, worker in enumerate(workers):
        def build(now: Any, number: int = number, worker: str = worker) -> tuple[Replicas, Any]:
            optimizer = WorkerOfRounds(rounds, f"{worker}#{number}", now)
            return replicate(model, optimizer, [worker], servers), optimizer.following
        with get_default_graph().device(worker), get_default_graph().name_scope(f"loop_{number}"):
            step, told = _loop(build, rounds.first, end)
        towers += told
        steps.append(step)

    def apply(now: Any) -> Any:
        with get_default_graph().control_dependencies([rounds.apply()]):
            return now + 1
    with near(rounds.global_step), get_default_graph().name_scope("rounds"):
        steps.append(ops.while_loop(lambda now: ops.less(now, end), apply, [rounds.first], back_prop=False).op)
    rounds.forget()
    return Replicas("backup", towers, [group(*steps, name="all_loops")], trainable_variables(), rounds.global_step,
                    _fixed=backups)


def _counted(build: Callable[[], Replicas]) -> Callable[[Any], tuple[Replicas, Any]]:
    return lambda number: (build(), number + 1)


def _loop(build: Callable[[Any], tuple[Replicas, Any]], first: Any, end: Any,
          over: Callable[[Operation], Operation] | None = None) -> tuple[Operation, list[Tower]]:
    """The loop over the step that `build` makes in a turn, with the number of the next one, which begins with `first` and stays
    below `end`, and what `over` makes to follow it; and its towers as they are in the last turn."""
    made: list[Tower] = []

    def turn(number: Any, _: Any) -> tuple[Any, Any]:
        replicas, following = build(number)
        made[:] = replicas.towers
        if feeds := [feed.name for tower in made for feed in tower.feeds]:
            raise errors.InvalidArgumentError(f"own_loops: the model is to be fed {feeds[0]}, but nobody feeds a loop between "
                                              "its turns; read a dataset")
        with get_default_graph().control_dependencies(replicas.steps):
            told = [ops.cast(convert(value), "float64") for tower in made for value in (tower.loss, *tower.metrics.values())]
            return ops.identity(following), ops.stack(told)
    _, told = ops.while_loop(lambda number, _: ops.less(number, end), turn, [first, ops.zeros([0], "float64")],
                             shape_invariants=[Shape([]), Shape([None])], back_prop=False)
    if over is not None:
        with get_default_graph().control_dependencies([over(told.op)]):
            told = ops.identity(told)
    each = iter(ops.unstack(told, sum(1 + len(tower.metrics) for tower in made)))

    def last(value: Any, name: str) -> Any:
        return ops.cast(next(each), convert(value).dtype, name=name)
    return told.op, [Tower(last(tower.loss, "loss"), [], {name: last(value, name) for name, value in tower.metrics.items()})
                     for tower in made]
