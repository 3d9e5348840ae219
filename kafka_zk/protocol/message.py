"""A class per request, response and struct, created from its field table.

A message sets only some fields: ``MetadataResponse(brokers=[...], controller_id=1)``. The others have Kafka's defaults.
Classes of structs are attributes of the class that contains them (``MetadataResponse.MetadataResponseBroker``). A
message has no version; the version is an argument of the encoder.
"""

import json
from functools import cache
from importlib import resources
from types import ModuleType
from typing import Any, ClassVar

from kafka_zk.protocol import messages
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.field_table import Table, Versions


class Message:
    """Raises: AttributeError for an unknown field, also in the constructor."""

    __slots__ = ()

    table: ClassVar[Table]

    def __init__(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._defaults[name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}") from None

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.table.fields)

    __hash__ = None  # type: ignore[assignment]  # the fields can change

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.table.fields)
        return f"{type(self).__name__}({values})"

    _defaults: ClassVar[dict[str, Any]]


class RootMessage(Message):
    __slots__ = ()

    api_key: ClassVar[ApiKey]
    valid_versions: ClassVar[Versions]
    flexible_versions: ClassVar[Versions]


@cache
def message_class(api_key: int, kind: str) -> Any:
    """``kind``: "request" or "response". Raises KeyError if the API is unknown or has no table."""
    try:
        name = ApiKey(api_key).name.title().replace("_", "") + kind.title()
        made = class_of(messages, name)
    except (ValueError, FileNotFoundError):
        raise KeyError(api_key, kind) from None
    made.api_key = ApiKey(api_key)
    return made


def class_of(package: ModuleType, name: str) -> Any:
    """The class of the table ``name`` in ``package``. Raises FileNotFoundError."""
    description = json.loads(resources.files(package).joinpath(f"{name}.json").read_text())
    made = _struct_class(Table(name, description["fields"]), RootMessage)
    made.valid_versions = Versions.parse(description["validVersions"])
    made.flexible_versions = Versions.parse(description["flexibleVersions"])
    return made


def _struct_class(table: Table, base: type[Message] = Message) -> Any:
    attributes: dict[str, Any] = {
        field.struct.name: _struct_class(field.struct) for field in table.fields if field.struct is not None
    }
    attributes["__slots__"] = tuple(field.name for field in table.fields)
    attributes["table"] = table
    attributes["_defaults"] = {field.name: field.default for field in table.fields}
    table.message_class = type(table.name, (base,), attributes)
    return table.message_class
