"""What a view is: a topic, the record that travels, and a model that reads the journal for all who watch it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields
from typing import Any, ClassVar

from workbench import errors
from workbench.core.trace import Journal
from workbench.viz.books import Books
from workbench.viz.reader import Reader, Shared

__all__ = ["VIEWS", "NoParameters", "View", "parameters", "view"]

class NoParameters:
    """A view that is the same for everybody."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    __hash__ = None  # type: ignore[assignment]  # as all parameters


class View:
    """One topic. Instances live in a hub, one for all who watch; what differs between them are `params` and `sent`.

    `advance` takes in what is new, once per update however many watch. `delta` says what somebody who has `sent` must
    hear: None means nothing, `sent` None means that he has nothing yet. What travels is bounded, whatever the graph.
    """

    topic: ClassVar[str]
    record: ClassVar[type]
    params: ClassVar[type] = NoParameters
    always: ClassVar[bool] = False  # taken in although nobody watches
    accounts: ClassVar[bool] = False  # needs the books of steps
    large: ClassVar[bool] = False  # may fill an update by itself, so it comes after the others

    def __init__(self, journal: Journal, books: Books, shared: Shared) -> None:
        self.journal, self.books, self.shared = journal, books, shared
        self.readers: tuple[Reader, ...] = ()

    def advance(self, now: float) -> None:
        """Take in what is new."""

    def rest(self) -> None:
        """Nobody watches: what falls out of the journal meanwhile is lost to nobody, and what is large is let go."""
        for reader in self.readers:
            reader.rest()

    def version(self, params: Any) -> Hashable:
        """What changes whenever `whole` does."""
        raise NotImplementedError

    def whole(self, params: Any) -> Any:
        """The whole picture as a `record`, None before there is anything."""
        raise NotImplementedError

    def delta(self, sent: Any, params: Any) -> tuple[Any, Any]:
        """(record to send or None, what the watcher has then); the whole picture unless a view knows better."""
        version = self.version(params)
        return (None, sent) if version == sent else (self.whole(params), version)


VIEWS: dict[str, type[View]] = {}
"""Topic -> view, in the order in which they stand in an update."""


def view(topic: str, record: type, params: type = NoParameters) -> Callable[[type[View]], type[View]]:
    """Register a view under its topic; its record and parameters become part of the contract."""

    def register(kind: type[View]) -> type[View]:
        kind.topic, kind.record, kind.params = topic, record, params
        VIEWS[topic] = kind
        return kind

    return register


def parameters(topic: str, given: Any) -> Any:
    """The parameters of a topic from what a page sent.

    Raises InvalidArgumentError for a topic, or a parameter, that there is not.
    """
    kind = VIEWS.get(topic)
    if kind is None:
        raise errors.InvalidArgumentError(f"watch: {topic!r} is not a topic; there are {', '.join(VIEWS)}")
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise errors.InvalidArgumentError(f"watch: the parameters of {topic!r} are {given!r}; give them by name")
    known = {one.name: one for one in fields(kind.params)} if kind.params is not NoParameters else {}
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise errors.InvalidArgumentError(f"watch: {topic!r} has no parameter {unknown[0]!r}; it has "
                                          f"{', '.join(known) or 'none'}")
    made = kind.params()
    for name, value in given.items():
        setattr(made, name, _like(topic, name, value, getattr(made, name)))
    return made


def _like(topic: str, name: str, value: Any, default: Any) -> Any:
    """`value` in the type of its default."""
    texts = isinstance(default, tuple) and isinstance(value, list) and all(isinstance(one, str) for one in value)
    if texts:
        return tuple(value)
    numbers = isinstance(default, (int, float)) and isinstance(value, (int, float)) and not isinstance(value, bool)
    if numbers:
        return type(default)(value)
    if isinstance(default, str) and isinstance(value, str):
        return value
    raise errors.InvalidArgumentError(f"watch: {name} of {topic!r} is {value!r}; it must be like {default!r}")
