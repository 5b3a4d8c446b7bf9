"""The classes of protocol buffers, made from the table of `schema` in a pool of their own; damaged bytes are one error."""
from __future__ import annotations

import functools
import re
import threading
from typing import Any

from workbench import errors
from workbench.formats.schema import ENUMS, MESSAGES

__all__ = ["decode", "enumeration", "message", "names", "parse_json", "parse_text", "text_of"]

_PACKAGE = "tensorflow"


def names() -> list[str]:
    """The messages that stand by themselves."""
    return [name for name in _fields() if "." not in name]


_building = threading.RLock()      # two threads that come first would each make classes, which are not one another's


def message(name: str) -> Any:
    """The class of the message `name`, such as "GraphDef".

    The protobuf library is loaded at the first call. Its common pool is not touched: another library in this process may
    have messages of the same names there.
    """
    with _building:
        return _class(name)


@functools.cache
def _class(name: str) -> Any:
    from google.protobuf import message_factory
    made = message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))
    made.__doc__ = f"The protocol buffer {name}: {_fields()[name]}."
    return made


@functools.cache
def enumeration(name: str) -> Any:
    """The numbers of an enumeration by name, as the protobuf library offers them: `enumeration("DataType").Name(1)`."""
    from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
    with _building:
        return EnumTypeWrapper(_pool().FindEnumTypeByName(f"{_PACKAGE}.{name}"))


def decode(name: str, data: bytes, where: str) -> Any:
    """The message that `data` is the bytes of; DataLossError, beginning with `where`, when it is none."""
    from google.protobuf.message import DecodeError
    try:
        return message(name).FromString(bytes(data))
    except DecodeError as error:
        raise errors.DataLossError(f"{where}: {len(data)} bytes cannot be read as {name} ({error}); get the file "
                                   "again") from None


def parse_text(name: str, text: str, where: str) -> Any:
    """The message that `text` shows; DataLossError, beginning with `where`, when it shows none."""
    from google.protobuf import text_format
    try:
        return text_format.Parse(text, message(name)(), descriptor_pool=_pool())
    except text_format.ParseError as error:
        raise errors.DataLossError(f"{where}: the text cannot be read as {name} ({error}); get the file again") from None


def parse_json(name: str, text: str, where: str) -> Any:
    """The message that `text` shows as JSON; DataLossError, beginning with `where`, when it shows none."""
    from google.protobuf import json_format
    try:
        return json_format.Parse(text, message(name)(), descriptor_pool=_pool())
    except json_format.ParseError as error:
        raise errors.DataLossError(f"{where}: the text cannot be read as {name} in JSON ({error}); correct it") from None


def text_of(value: Any) -> str:
    """A message as text, which `parse_text` reads."""
    from google.protobuf import text_format
    return text_format.MessageToString(value, descriptor_pool=_pool())


# from the table to descriptors

@functools.cache
def _fields() -> dict[str, str]:
    lines = re.sub(r",\n\s+", ", ", MESSAGES).splitlines()
    return {name.strip(): fields for name, _, fields in (line.partition("=") for line in lines if line)}


def _pool() -> Any:
    with _building:
        return _described()


@functools.cache
def _described() -> Any:
    from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool
    file = descriptor_pb2.FileDescriptorProto(name="workbench/formats.proto", package=_PACKAGE, syntax="proto3",
                                              dependency=[any_pb2.DESCRIPTOR.name])
    made: dict[str, Any] = {}
    for name in sorted(_fields(), key=lambda name: name.count(".")):
        outer, _, short = name.rpartition(".")
        made[name] = (made[outer].nested_type if outer else file.message_type).add(name=short)
    for name, numbers in ENUMS.items():
        outer, _, short = name.rpartition(".")
        enum = (made[outer] if outer else file).enum_type.add(name=short)
        for value, number in numbers.items():
            enum.value.add(name=value, number=number)
    for name, fields in _fields().items():
        for field in re.findall(r"(\w+) (\d+) (\{.*?\}|[\w.]+)(\*?)(?: \|(\w+))?", fields):
            _add_field(made[name], name, *field)
    pool = descriptor_pool.DescriptorPool()
    for data in (any_pb2.DESCRIPTOR.serialized_pb, file.SerializeToString()):
        pool.AddSerializedFile(data)
    return pool


def _add_field(holder: Any, name: str, field: str, number: str, kind: str, star: str, choice: str) -> None:
    proto = holder.field.add(name=field, number=int(number))
    if kind.startswith("{"):
        short = "".join(part.capitalize() for part in field.split("_")) + "Entry"
        entry = holder.nested_type.add(name=short)
        entry.options.map_entry = True
        for position, (part, inner) in enumerate(zip(("key", "value"), kind[1:-1].split()), 1):
            _set_type(entry.field.add(name=part, number=position), inner, False)
        kind, star = f"{name}.{short}", "*"
    _set_type(proto, kind, bool(star))
    if choice:
        if choice not in [c.name for c in holder.oneof_decl]:
            holder.oneof_decl.add(name=choice)
        proto.oneof_index = [c.name for c in holder.oneof_decl].index(choice)


def _set_type(proto: Any, kind: str, repeated: bool) -> None:
    proto.label = proto.LABEL_REPEATED if repeated else proto.LABEL_OPTIONAL
    plain = getattr(proto, f"TYPE_{kind.upper()}", None)
    proto.type = plain or (proto.TYPE_ENUM if kind in ENUMS else proto.TYPE_MESSAGE)
    if plain is None:
        proto.type_name = ".google.protobuf.Any" if kind == "Any" else f".{_PACKAGE}.{kind}"
