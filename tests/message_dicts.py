"""A protocol message as a dictionary, for comparisons and for readers."""

from typing import Any

from kafka_zk.protocol.message import Message


def as_dict(message: Message) -> dict[str, Any]:
    """All fields by name. Structs, including those in arrays, become dictionaries, too."""
    return {field.name: _plain(getattr(message, field.name)) for field in message.table.fields}


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return as_dict(value)
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
