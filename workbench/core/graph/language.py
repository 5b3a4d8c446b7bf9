"""In whose words a graph speaks: the names of operations that a program gives none, and how what it prints looks."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["NATIVE", "Language", "listen", "spoken"]


@dataclass(frozen=True)
class Language:
    """What differs between programs of one front and of another over the same graphs.

    `names` is the name of an operation of a kind where the program gives none, if it is not the kind itself; `results` is
    what each result of an operation with bodies is called below it ("cond/Merge"), if it is an operation of its own; with
    `entries`, what a body's arguments are called, its operations stand in one scope with those of the other body
    ("cond/add"), not each in one of its own ("cond/then/add"); with `below` constants that are made of its arguments stand
    under the operation ("add/y"). `type` is what an operation's type is called. The others give the texts of tensors,
    operations, variables, shapes and element types: (thing, is it asked by repr?) -> text. Where `variables_are_true`, a
    variable is true in a Python condition, as any object; else it raises, as a tensor does. `saver` gives the class of what
    saves such a graph where the program gives no saver (None: train.Saver), and knows the checkpoints of a folder.
    Where `arrays_are_cast`, a NumPy array becomes a constant of the element type that is asked for as `astype` does, and so do
    Python's truth values; else no information of kind may be lost. Where `reads_are_one`, a tensor that a variable was read as
    stands for all its reads when it is differentiated by, as if they were one tensor.
    Where `assertions_run`, an assertion that can be seen to fail while the graph is built fails when it runs, but for equality.
    Where `sessions_end_once`, a monitored session finalizes the graph until it is closed, and must not be closed or used after.
    Where `sums_are_reshaped`, the gradient of what was broadcast is a sum and then a reshape, as programs look for it that walk
    the operations of gradients.
    """

    names: Mapping[str, str]
    results: Mapping[str, str]
    entries: Mapping[str, str]
    below: bool
    type: Callable[[Any], str]
    tensor: Callable[[Any, bool], str]
    operation: Callable[[Any, bool], str]
    variable: Callable[[Any, bool], str]
    shape: Callable[[Any, bool], str]
    dtype: Callable[[Any, bool], str]
    variables_are_true: bool = False
    saver: Callable[[], Any] | None = None
    sessions_end_once: bool = False
    arrays_are_cast: bool = False
    reads_are_one: bool = False
    assertions_run: bool = False
    sums_are_reshaped: bool = False

    def title(self, kind: str) -> str:
        """What an operation of this kind is called where the program gives no name."""
        return self.names.get(kind, kind)


NATIVE = Language(
    names={}, results={}, entries={}, below=False, type=lambda op: op.kind,
    tensor=lambda t, _: f"<Tensor {t.name} {t.dtype.name}{t.shape}>",
    operation=lambda op, _: f"<Operation {op.name} {op.kind}>",
    variable=lambda v, _: f"<Variable {v.name} {v.dtype.name}{v.shape}>",
    shape=lambda shape, _: f"{shape}",
    dtype=lambda dtype, _: f"wb.{dtype.name}")

_graphs: list[Callable[[], Any]] = []


def listen(default_graph: Callable[[], Any]) -> None:
    """From here on `default_graph()` tells whose language is spoken where no graph is at hand."""
    _graphs[:] = [default_graph]


def spoken() -> Language:
    """The language of this thread's default graph: in it shapes and element types, which have no graph, print."""
    found: Language = _graphs[0]().language if _graphs else NATIVE
    return found
