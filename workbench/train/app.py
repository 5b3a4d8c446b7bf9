"""Command-line flags and the main function of programs in TensorFlow 1.x style."""
from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from workbench import errors

__all__ = ["FLAGS", "DEFINE_bool", "DEFINE_boolean", "DEFINE_enum", "DEFINE_float", "DEFINE_integer", "DEFINE_list",
           "DEFINE_multi_float", "DEFINE_multi_integer", "DEFINE_multi_string", "DEFINE_string", "Flags",
           "mark_flag_as_required", "mark_flags_as_required", "run"]


class Flags:
    """The values of the flags that were defined; the command line is read at the first use.

    `flags(arguments)` reads other arguments and gives what is no flag, as `parse` does.
    """

    def __init__(self) -> None:
        object.__setattr__(self, "_parser", argparse.ArgumentParser(allow_abbrev=False,
                                                                       conflict_handler="resolve"))
        object.__setattr__(self, "_defined", {})
        object.__setattr__(self, "_required", set())
        vars(self).update({"__flags": {}, "__parsed": False})      # the names that programs of the time use

    def define(self, name: str, default: Any, text: str | None, read: Callable[[str], Any], **options: Any) -> None:
        """Add a flag; defining it again replaces the default (a notebook cell may run twice)."""
        if name not in self._defined:
            self._parser.add_argument(f"--{name}", dest=name, type=read, default=None, help=text, **options)
            if options.get("const") is True:
                self._parser.add_argument(f"--no{name}", dest=name, action="store_false", default=None)
        self._defined[name] = default
        if not vars(self)["__parsed"] or name not in vars(self)["__flags"]:
            vars(self)["__flags"][name] = default

    def parse(self, arguments: Sequence[str] | None = None) -> list[str]:
        """Read the command line; returns what is no flag. InvalidArgumentError where a required flag has no value."""
        known, rest = self._parser.parse_known_args(sys.argv[1:] if arguments is None else list(arguments))
        given = {k: v for k, v in vars(known).items() if v is not None}
        values = {**self._defined, **given}
        missing = sorted(name for name in self._required if values.get(name) is None)
        if missing:
            raise errors.InvalidArgumentError(f"flags: Flag --{missing[0]} must have a value other than None.; pass "
                                              f"--{missing[0]}=…")
        vars(self)["__flags"].update(values)
        vars(self)["__parsed"] = True
        return rest

    def require(self, name: str) -> None:
        """The flag must have a value when the command line is read. NotFoundError where it is not defined."""
        if name not in self._defined:
            raise errors.NotFoundError(f"mark_flag_as_required: there is no flag {name!r}; define it first")
        self._required.add(name)

    def _read(self) -> dict[str, Any]:
        if not vars(self)["__parsed"]:
            self.parse()
        values: dict[str, Any] = vars(self)["__flags"]
        return values

    def __call__(self, argv: Sequence[str]) -> list[str]:
        return [argv[0], *self.parse(argv[1:])]

    _parse_flags = parse

    def __getattr__(self, name: str) -> Any:
        if name == "__flags":
            return self._read()
        if name.startswith("__"):
            raise AttributeError(name)
        values = self._read()
        if name not in values:
            raise AttributeError(errors.NotFoundError(f"FLAGS.{name}: no such flag; define it, for example with "
                                                      f"DEFINE_string({name!r}, …)").message)
        return values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self._read()[name] = value

    def __getitem__(self, name: str) -> Flag:
        return Flag(name, getattr(self, name))

    def __contains__(self, name: str) -> bool:
        return name in self._defined

    def __iter__(self) -> Iterator[str]:
        return iter(self._defined)

    def __delattr__(self, name: str) -> None:
        self._defined.pop(name, None)
        vars(self)["__flags"].pop(name, None)

    def forget(self) -> Flags:
        """Forget every flag and what the command line said of it: `self`, as new."""
        Flags.__init__(self)
        return self

    def flag_values_dict(self) -> dict[str, Any]:
        """Name -> value, of every flag."""
        return dict(self._read())


class Flag(NamedTuple):
    """A flag and its value."""

    name: str
    value: Any


FLAGS = Flags()


def _truth(text: str) -> bool:
    known = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if text.lower() not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return known[text.lower()]


def DEFINE_string(name: str, default: str | None = None, help: str = "") -> None:
    """A text flag: --name=value."""
    FLAGS.define(name, default, help, str)


def DEFINE_integer(name: str, default: int | None = None, help: str = "") -> None:
    """An integer flag."""
    FLAGS.define(name, default, help, int)


def DEFINE_float(name: str, default: float | None = None, help: str = "") -> None:
    """A number flag."""
    FLAGS.define(name, default, help, float)


def DEFINE_boolean(name: str, default: bool | None = None, help: str = "") -> None:
    """A truth flag: --name, --name=true, --name=false."""
    FLAGS.define(name, default, help, _truth, nargs="?", const=True)


def DEFINE_list(name: str, default: Any = None, help: str = "") -> None:
    """A flag of comma-separated texts."""
    FLAGS.define(name, default.split(",") if isinstance(default, str) else default, help, lambda text: text.split(","))


def DEFINE_multi_string(name: str, default: Any, help: str = "") -> None:
    """A text flag that may stand several times: its value is the list of them."""
    _several(name, default, help, str)


def DEFINE_multi_integer(name: str, default: Any, help: str = "") -> None:
    """An integer flag that may stand several times."""
    _several(name, default, help, int)


def DEFINE_multi_float(name: str, default: Any, help: str = "") -> None:
    """A number flag that may stand several times."""
    _several(name, default, help, float)


def _several(name: str, default: Any, help: str, read: Callable[[str], Any]) -> None:
    listed = list(default) if isinstance(default, (list, tuple)) else None if default is None else [default]
    FLAGS.define(name, listed, help, read, action="append")


def DEFINE_enum(name: str, default: str | None, enum_values: Sequence[str], help: str = "") -> None:
    """A text flag with a fixed set of values."""
    FLAGS.define(name, default, help, str, choices=list(enum_values))


DEFINE_bool = DEFINE_boolean


def mark_flag_as_required(flag_name: str) -> None:
    """Reading the command line is an error where this flag has no value."""
    FLAGS.require(flag_name)


def mark_flags_as_required(flag_names: Sequence[str]) -> None:
    """mark_flag_as_required of each."""
    for name in flag_names:
        FLAGS.require(name)


def run(main: Callable[[list[str]], Any] | None = None, argv: Sequence[str] | None = None) -> None:
    """Read the flags, call `main([program, *other arguments])` (default: __main__.main) and exit with what it
    returns."""
    program = sys.argv[0] if argv is None else argv[0]
    rest = FLAGS.parse(None if argv is None else argv[1:])
    chosen = main or getattr(sys.modules["__main__"], "main", None)
    if chosen is None:
        raise errors.InvalidArgumentError("app.run: there is no main function; pass main=")
    sys.exit(chosen([program, *rest]))
