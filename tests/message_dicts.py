"""A message of the protocol as a dictionary, for comparisons and for people."""

from typing import Any

from kafka_zk.protocol.message import Message


def as_dict(message: Message) -> dict[str, Any]:
    """Every field by name; structs, also those in arrays, are dictionaries too."""
    return {field.name: _plain(getattr(message, field.name)) for field in message.table.fields}


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return as_dict(value)
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
