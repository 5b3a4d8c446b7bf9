"""Who decides: the user who asks for a way, what was measured on this machine, or the rule."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from workbench.core.kernels.cache import Cache, shared
from workbench.core.kernels.choice import Choice, Decision, Make, Question, Spec
from workbench.core.kernels.measured.question import cost, key_of, ranked
from workbench.core.kernels.measured.record import Times, recall
from workbench.core.kernels.options import kernel_options
from workbench.core.kernels.threads import get_threads
from workbench.settings import settings

__all__ = ["cache", "choose", "costs"]


def choose(op: str, attributes: Mapping[str, Any], inputs: Sequence[Spec], outputs: Sequence[Spec], free: Sequence[bool],
           ways: Mapping[str, Make], rule: Sequence[str]) -> Choice | None:
    """The best of `ways`; None where none of them can be made. `rule` names at least one, the usual ones.

    A way that the options ask for comes before what was measured, and that before the rule; one that this node does not
    have, or that cannot be made, leaves its place to the next.
    """
    question = Question(key_of(op, attributes, inputs, outputs, free, ways, get_threads()), tuple(inputs), tuple(outputs), ways,
                        tuple(rule))
    options = kernel_options()
    asked = options.ways.get(op)
    seconds = {} if options.deterministic or len(ways) == 1 else costs(question, recall(cache(), question.key))
    order = ranked(seconds, rule)
    if asked is not None and asked in ways:
        order.insert(0, asked)
    for name in dict.fromkeys(order):
        made = ways[name]()
        if made is not None:
            by = "asked" if name == asked else "measured" if name in seconds else "rule"
            return replace(made, decision=Decision(question, name, by, seconds) if len(ways) > 1 else None)
    return None


def costs(question: Question, times: Times) -> dict[str, float]:
    """What each way costs a step, as far as it was measured."""
    return {name: cost(time, question.inputs) for name, time in times.items() if name in question.ways}


def cache() -> Cache:
    """Where this process keeps what it measured."""
    return shared(settings.cache, settings.cache_bytes)
