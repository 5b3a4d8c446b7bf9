"""Command-line flags and the main function of programs in TensorFlow 1.x style."""
from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from workbench import errors

__all__ = ["FLAGS", "DEFINE_bool", "DEFINE_boolean", "DEFINE_enum", "DEFINE_float", "DEFINE_integer", "DEFINE_list",
           "DEFINE_string", "Flags", "run"]


class Flags:
    """The values of the flags that were defined; the command line is read at the first use."""

    def __init__(self) -> None:
        object.__setattr__(self, "_parser", argparse.ArgumentParser(allow_abbrev=False))
        object.__setattr__(self, "_values", None)
        object.__setattr__(self, "_defined", {})

    def define(self, name: str, default: Any, text: str, read: Callable[[str], Any], **options: Any) -> None:
        """Add a flag; defining it again replaces the default (a notebook cell may run twice)."""
        if name not in self._defined:
            self._parser.add_argument(f"--{name}", dest=name, type=read, default=None, help=text, **options)
        self._defined[name] = default
        if self._values is not None:
            self._values.setdefault(name, default)

    def parse(self, arguments: Sequence[str] | None = None) -> list[str]:
        """Read the command line; returns what is no flag."""
        known, rest = self._parser.parse_known_args(sys.argv[1:] if arguments is None else list(arguments))
        given = {k: v for k, v in vars(known).items() if v is not None}
        object.__setattr__(self, "_values", {**self._defined, **given})
        return rest

    def _read(self) -> dict[str, Any]:
        if self._values is None:
            self.parse()
        return self._values

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        values = self._read()
        if name not in values:
            raise AttributeError(errors.NotFoundError(f"FLAGS.{name}: no such flag; define it, for example with "
                                                      f"DEFINE_string({name!r}, …)").message)
        return values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self._read()[name] = value

    def flag_values_dict(self) -> dict[str, Any]:
        return dict(self._read())


FLAGS = Flags()


def _truth(text: str) -> bool:
    known = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if text.lower() not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return known[text.lower()]


def DEFINE_string(name: str, default: str | None, help: str = "") -> None:
    """A text flag: --name=value."""
    FLAGS.define(name, default, help, str)


def DEFINE_integer(name: str, default: int | None, help: str = "") -> None:
    """An integer flag."""
    FLAGS.define(name, default, help, int)


def DEFINE_float(name: str, default: float | None, help: str = "") -> None:
    """A number flag."""
    FLAGS.define(name, default, help, float)


def DEFINE_boolean(name: str, default: bool | None, help: str = "") -> None:
    """A truth flag: --name, --name=true, --name=false."""
    FLAGS.define(name, default, help, _truth, nargs="?", const=True)


def DEFINE_list(name: str, default: Any, help: str = "") -> None:
    """A flag of comma-separated texts."""
    FLAGS.define(name, default.split(",") if isinstance(default, str) else default, help, lambda text: text.split(","))


def DEFINE_enum(name: str, default: str | None, enum_values: Sequence[str], help: str = "") -> None:
    """A text flag with a fixed set of values."""
    FLAGS.define(name, default, help, str, choices=list(enum_values))


DEFINE_bool = DEFINE_boolean


def run(main: Callable[[list[str]], Any] | None = None, argv: Sequence[str] | None = None) -> None:
    """Read the flags, call `main([program, *other arguments])` (default: __main__.main) and exit with what it
    returns."""
    program = sys.argv[0] if argv is None else argv[0]
    rest = FLAGS.parse(None if argv is None else argv[1:])
    chosen = main or getattr(sys.modules["__main__"], "main", None)
    if chosen is None:
        raise errors.InvalidArgumentError("app.run: there is no main function; pass main=")
    sys.exit(chosen([program, *rest]))
