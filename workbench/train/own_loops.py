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
from workbench.nn.variables import Variable, trainable_variables
from workbench.train.optimizers.optimizer import Optimizer
from workbench.train.replicas import Replicas, Tower, check_mode, check_step, replicate
from workbench.train.staleness import Staleness

__all__ = ["own_loops"]


def own_loops(model: Callable[[], Tower], optimizer: Optimizer, workers: Sequence[str], servers: Sequence[str] = (),
              mode: str = "async", global_step: Variable | None = None, turns: Any = 100, staleness: int = 0) -> Replicas:
    """As replicate, but a step is a loop of `turns` steps (an int32 scalar, 1 or more) beside the data of its worker.

    In mode "async" each worker has a loop of its own: run all `steps` of the replicas at once, and each goes at its own pace
    until its turns are done. In mode "stale" they do so, too, but none begins a turn that is more than `staleness` turns ahead
    of the slowest worker's. In mode "sync" `steps[0]` is one loop of all workers, with the bits of as many steps that are run
    one by one. The tasks go from turn to turn by themselves, so what runs the session sends and receives as much for a
    thousand turns as for one. It hears of losses and metrics, those of the last turn, when a run ends; pauses and
    checkpoints come between runs; what fails in a turn, a task that is lost, and Ctrl-C end the run on all tasks.
    `wb.train.run(replicas.steps, cluster, …)` runs until the global step is there, and goes on from the newest checkpoint.

    `model()` reads its data from a dataset; variables that nothing in it updates are read once a run. InvalidArgumentError
    for other modes, whose workers wait for what the session runs in between, for no workers, for towers that are fed, and for
    a staleness that does not fit the mode.
    """
    if mode not in ("async", "sync", "stale"):
        raise errors.InvalidArgumentError(f"own_loops: mode is {mode!r}, whose workers wait for other steps of the session; "
                                          "use async, sync or stale, or replicate")
    check_mode(mode, len(workers), len(servers), staleness=staleness)
    check_step(mode, global_step)
    bound = Staleness(workers, staleness, global_step) if mode == "stale" and global_step is not None else None
    towers: list[Tower] = []
    steps: list[Operation] = []
    # what asks for no device in a body asks for that of its loop
    loops = [("", list(workers), "sync")] if mode == "sync" else [(worker, [worker], "async") for worker in workers]
    for number, (device, group, inner) in enumerate(loops):
        build = partial(replicate, model, optimizer, group, servers, inner, global_step)
        with get_default_graph().device(device), get_default_graph().name_scope(f"loop_{number}"):
            step, told = _loop(build if bound is None else partial(_bounded, bound, number, build), turns)
        towers += told
        steps.append(step)
    made = Replicas(mode, towers, steps, trainable_variables(), global_step)
    return made if bound is None else replace(made, begin=bound.begin, _end=bound.end, _leaves=bound.leaves)


def _bounded(bound: Staleness, number: int, build: Callable[[], Replicas]) -> Replicas:
    """What `build` makes for worker `number`, which begins when that may."""
    clock = bound.wait(number)
    with get_default_graph().control_dependencies([clock]):
        made = build()
    return replace(made, steps=[bound.advance(number, clock, step) for step in made.steps])


def _loop(build: Callable[[], Replicas], turns: Any) -> tuple[Operation, list[Tower]]:
    """The loop over the step that `build` makes, and its towers as they are in the last turn."""
    made: list[Tower] = []

    def turn(number: Any, _: Any) -> tuple[Any, Any]:
        replicas = build()
        made[:] = replicas.towers
        if feeds := [feed.name for tower in made for feed in tower.feeds]:
            raise errors.InvalidArgumentError(f"own_loops: the model is to be fed {feeds[0]}, but nobody feeds a loop between "
                                              "its turns; read a dataset")
        with get_default_graph().control_dependencies(replicas.steps):
            told = [ops.cast(convert(value), "float64") for tower in made for value in (tower.loss, *tower.metrics.values())]
            return number + 1, ops.stack(told)
    _, told = ops.while_loop(lambda number, _: ops.less(number, turns), turn,
                             [ops.constant(0, "int32"), ops.zeros([0], "float64")],
                             shape_invariants=[Shape([]), Shape([None])], back_prop=False)
    each = iter(ops.unstack(told, sum(1 + len(tower.metrics) for tower in made)))

    def last(value: Any, name: str) -> Any:
        return ops.cast(next(each), convert(value).dtype, name=name)
    return told.op, [Tower(last(tower.loss, "loss"), [], {name: last(value, name) for name, value in tower.metrics.items()})
                     for tower in made]
