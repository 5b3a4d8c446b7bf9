"""Hyperparameters by name, as tf.contrib.training has them: values that keep their types, read from text."""
from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from workbench import errors
from workbench.formats.messages import message
from workbench.nn.arguments import refuse

__all__ = ["HParams", "parse_values"]

_ASSIGNMENT = r"\s*([\w.]+)(?:\[(\d+)\])?\s*=\s*(?:\[([^\]]*)\]|([^,]*))\s*(?:,|$)"


_KINDS: dict[str, tuple[type, ...]] = {"bool": (bool,), "int64": (int,), "bytes": (str, bytes), "float": (float,)}
"""Field of HParamDef -> the types of its values; the first that fits, as bool is an int."""


def _of_proto(hparam_def: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    own = message("HParamDef").FromString(hparam_def.SerializeToString())
    for name, value in own.hparam.items():
        kind = value.WhichOneof("kind")
        if kind is None:
            raise errors.InvalidArgumentError(f"HParams: {name} has no value in hparam_def; set one")
        given = list(getattr(value, kind).value) if kind.endswith("_list") else [getattr(value, kind)]
        if kind.startswith("bytes"):
            given = [v.decode() for v in given]
        found[name] = given if kind.endswith("_list") else given[0]
    return found


class HParams:
    """Named hyperparameters as attributes; `parse` takes "name=value,other=[1,2]" and keeps each one's type.

    Made from values by name, or from the protocol buffer HParamDef that `to_proto` gave. `model_structure` is kept for who
    asks for it. InvalidArgumentError (ValueError) where both are given.
    """

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        self._types: dict[str, tuple[type, bool]] = {}
        self._structure = model_structure
        if hparam_def is not None and kwargs:
            raise errors.InvalidArgumentError("HParams: hparam_def and initialization values are mutually exclusive; give one")
        for name, value in (kwargs if hparam_def is None else _of_proto(hparam_def)).items():
            self.add_hparam(name, value)

    def set_model_structure(self, model_structure: Any) -> None:
        """Keep the structure of a model beside the values."""
        self._structure = model_structure

    def get_model_structure(self) -> Any:
        """The structure that was kept, None without one."""
        return self._structure

    def to_proto(self, export_scope: str | None = None) -> Any:
        """As the protocol buffer HParamDef. InvalidArgumentError for a value that is no number, truth value or text."""
        refuse("HParams.to_proto", "leave it out", export_scope=export_scope)
        found = message("HParamDef")()
        for name, (kind, many) in self._types.items():
            word = next((word for word, kinds in _KINDS.items() if issubclass(kind, kinds)), None)
            if word is None:
                raise errors.InvalidArgumentError(f"HParams.to_proto: Unsupported parameter type: {kind} of {name}; use int, "
                                                  "float, bool or str")
            values = [v.encode() if isinstance(v, str) else v for v in (getattr(self, name) if many else [getattr(self, name)])]
            if many:
                getattr(found.hparam[name], f"{word}_list").value.extend(values)
            else:
                setattr(found.hparam[name], f"{word}_value", values[0])
        return found

    @staticmethod
    def from_proto(hparam_def: Any, import_scope: str | None = None) -> HParams:
        """The parameters that an HParamDef holds."""
        refuse("HParams.from_proto", "leave it out", import_scope=import_scope)
        return HParams(hparam_def)

    def add_hparam(self, name: str, value: Any) -> None:
        """Add one; InvalidArgumentErrors (ValueErrors) for a name that is taken, and for an empty list."""
        if hasattr(self, name):
            raise errors.InvalidArgumentError(f"HParams: Hyperparameter name is reserved: {name}; choose another")
        many = isinstance(value, (list, tuple))
        if many and not value:
            raise errors.InvalidArgumentError(f"HParams: Multi-valued hyperparameters cannot be empty: {name}; give a value")
        self._types[name] = (type(value[0]) if many else type(value)), many
        setattr(self, name, value)

    def _cast(self, name: str, value: Any) -> Any:
        kind, many = self._types[name]
        if many:
            return [self._single(kind, v, name) for v in value]
        return self._single(kind, value, name)

    @staticmethod
    def _single(kind: type, value: Any, name: str) -> Any:
        if kind is bool and isinstance(value, str):
            if value not in ("true", "True", "1", "false", "False", "0"):
                raise errors.InvalidArgumentError(f"HParams: Could not parse {value!r} for {name}; write true or false")
            return value in ("true", "True", "1")
        try:
            return kind(value)
        except (TypeError, ValueError):
            raise errors.InvalidArgumentError(f"HParams: Could not parse {value!r} for {name}; write a "
                                              f"{kind.__name__}") from None

    def set_hparam(self, name: str, value: Any) -> None:
        """Change one; InvalidArgumentErrors where it becomes a list or is none any more."""
        if name not in self._types:
            raise KeyError(name)
        if isinstance(value, (list, tuple)) != self._types[name][1]:
            rule = "must" if self._types[name][1] else "must not"
            raise errors.InvalidArgumentError(f"HParams: {name} {rule} be a list: {value!r}")
        setattr(self, name, self._cast(name, value))

    def parse(self, values: str) -> HParams:
        """Change those named in "name=value,name=[value,value]" or "name[index]=value"; the parameters themselves."""
        for name, value in parse_values(values, {name: kind for name, (kind, _) in self._types.items()}).items():
            if isinstance(value, dict):
                for index, one in value.items():
                    getattr(self, name)[index] = one
            else:
                self.set_hparam(name, value)
        return self

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        """Change those in a dictionary."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    set_from_map = override_from_dict

    def parse_json(self, values_json: str) -> HParams:
        """Change those in a JSON object."""
        return self.override_from_dict(json.loads(values_json))

    def values(self) -> dict[str, Any]:
        """Names and values."""
        return {name: getattr(self, name) for name in self._types}

    def to_json(self, indent: int | None = None, separators: Any = None, sort_keys: bool = False) -> str:
        """As a JSON object."""
        return json.dumps(self.values(), indent=indent, separators=separators, sort_keys=sort_keys)

    def get(self, key: str, default: Any = None) -> Any:
        """A value, or the default."""
        return self.values().get(key, default)

    def __contains__(self, key: str) -> bool:
        return key in self._types

    def __repr__(self) -> str:
        return f"HParams({sorted(self.values().items())})"


def parse_values(values: str, type_map: Mapping[str, type]) -> dict[str, Any]:
    """"name=value,name=[value,value]" by name, of the types of `type_map`. InvalidArgumentError (ValueError) for a name that
    is not there, or given twice, or a value of another type."""
    found: dict[str, Any] = {}
    for name, index, inside, value in re.findall(_ASSIGNMENT, values):
        if name not in type_map:
            raise errors.InvalidArgumentError(f"parse_values: Unknown hyperparameter type for {name}; there are "
                                              f"{', '.join(type_map)}")
        if name in found and not index:
            raise errors.InvalidArgumentError(f"parse_values: Multiple assignments to variable '{name}' in {values}; give one")
        kind = type_map[name]
        if index:
            found.setdefault(name, {})[int(index)] = HParams._single(kind, value.strip(), name)
        elif inside:
            found[name] = [HParams._single(kind, v.strip(), name) for v in inside.split(",")]
        else:
            found[name] = HParams._single(kind, value.strip(), name)
    return found
