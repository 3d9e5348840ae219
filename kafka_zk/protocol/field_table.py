"""The field tables of Kafka's messages: the fields of each struct, their types and versions.

The tables in ``messages/`` use the format of Apache Kafka's message definitions
(``clients/src/main/resources/common/message``). ``python -m tests.peers.message_tables`` creates them.
"""

import re
import uuid
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from kafka_zk.protocol.struct_formats import FIXED_FORMATS


class Versions(NamedTuple):
    """The versions from ``first`` to ``last``, both included; none if ``first > last``."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """Parse Kafka's notation: ``3+``, ``0-4``, ``7`` or ``none``."""
        if text == "none":
            return NO_VERSIONS
        first, _, last = text.removesuffix("+").partition("-")
        return cls(int(first), _NEWEST if text.endswith("+") else int(last or first))

    def include(self, version: int) -> bool:
        return self.first <= version <= self.last


_NEWEST = 0x7FFF
NO_VERSIONS = Versions(0, -1)


class Field:
    """``name``: Kafka's name in Python's spelling (``partition_index``). ``type_name``: a primitive type (``int32``) or
    the struct's name; for an array, the type of its elements. ``struct``: the table of the struct, or of the array's
    elements; None for primitive types. ``tag``: the field's tag in ``tagged_versions``; None if it is never tagged.
    ``default``: the value of an unset field; for an array () or None.
    """

    __slots__ = ("default", "is_array", "name", "nullable_versions", "struct", "tag", "tagged_versions", "type_name",
                 "versions")  # fmt: skip

    def __init__(self, row: Mapping[str, Any]) -> None:
        kind: str = row["type"]
        self.name = _python_name(row["name"])
        self.type_name = kind.removeprefix("[]")
        self.is_array = kind.startswith("[]")
        self.struct = Table(self.type_name, row["fields"]) if "fields" in row else None
        self.versions = Versions.parse(row["versions"])
        self.nullable_versions = Versions.parse(row.get("nullableVersions", "none"))
        self.tag: int | None = row.get("tag")
        self.tagged_versions = Versions.parse(row.get("taggedVersions", "none"))
        self.default = self._default(row.get("default", ""))

    @property
    def is_fixed(self) -> bool:
        """True for one number or boolean."""
        return not self.is_array and self.type_name in FIXED_FORMATS

    @property
    def has_fixed_elements(self) -> bool:
        """True for an array of numbers or booleans."""
        return self.is_array and self.type_name in FIXED_FORMATS

    def _default(self, text: str | int) -> Any:
        """Kafka's tables have no defaults for structs, so the default of a struct is None."""
        if text == "null" or (self.struct is not None and not self.is_array):
            return None
        if self.is_array:
            return ()
        if self.type_name == "string":
            return text
        if self.type_name in ("bytes", "records"):
            return b""
        if self.type_name == "uuid":
            return uuid.UUID(str(text)) if text else None
        if self.type_name == "bool":
            return text in ("true", True)
        return float(text or 0) if self.type_name == "float64" else int(str(text or 0), 0)


class Table:
    """The fields of a struct, in the order of the wire.

    Attributes:
        name: Kafka's name of the struct or message.
        fields: the fields of all versions.
        message_class: the class of the struct; set by ``message``.
    """

    __slots__ = ("__weakref__", "fields", "message_class", "name")

    message_class: Any

    def __init__(self, name: str, rows: list[Mapping[str, Any]]) -> None:
        self.name = name
        self.fields = tuple(Field(row) for row in rows)

    @cache  # noqa: B019  # a table lives as long as the process
    def untagged(self, version: int) -> tuple[Field, ...]:
        return tuple(
            field
            for field in self.fields
            if field.versions.include(version) and not field.tagged_versions.include(version)
        )

    @cache  # noqa: B019
    def tagged(self, version: int) -> tuple[Field, ...]:
        """The tagged fields, which are written only if they differ from the default."""
        return tuple(
            field for field in self.fields if field.versions.include(version) and field.tagged_versions.include(version)
        )

    def field(self, name: str) -> Field:
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(name)


def _python_name(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
