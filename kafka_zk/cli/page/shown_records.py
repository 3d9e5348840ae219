"""Records as the page shows them, and the bytes of a record that the page sends. Pure.

Text that cannot be decoded is shown as hexadecimal bytes, never guessed. Long texts are cut.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.clients.serdes import SERDES, SerializationError

if TYPE_CHECKING:
    from kafka_zk.clients.consumer.records import ConsumerRecord
    from kafka_zk.recorder.recording.documents import Document

FORMATS = ("string", "json", "integer", "long", "float", "double", "bytes")
MOST_CHARACTERS = 4_000
"""Maximum length of a shown key, value or header."""
MOST_HEADERS = 50
"""Maximum number of shown headers of a record."""
_READ: Mapping[str, Callable[[str], Any]] = {
    "string": str, "json": json.loads, "integer": int, "long": int, "float": float, "double": float,
    "bytes": bytes.fromhex,
}  # fmt: skip


def record_document(record: "ConsumerRecord", key_format: str, value_format: str) -> "Document":
    """``key`` and ``value``: a text with the format in which it is shown; None for a null, such as a tombstone."""
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _shown(record.topic, record.key, key_format),
        "value": _shown(record.topic, record.value, value_format),
        "headers": [
            [name[:MOST_CHARACTERS], _shown(record.topic, data, "string")]
            for name, data in record.headers[:MOST_HEADERS]
        ],
        "header_count": len(record.headers),
    }


def check_format(name: str) -> str:
    """Raises CommandFailed."""
    if name not in FORMATS:
        raise CommandFailed(f"{name!r} is not a format: choose {', '.join(FORMATS)}")
    return name


def bytes_of(topic: str, text: str | None, name: str) -> bytes | None:
    """The bytes of a key or value that a person has written. None is a null. Raises CommandFailed."""
    if text is None:
        return None
    try:
        return SERDES[check_format(name)].serializer.serialize(topic, _READ[name](text), ())
    except (ValueError, RecursionError):  # includes SerializationError; its message may quote the text
        raise CommandFailed(f"{len(text)} characters cannot be written as {name}") from None


def _shown(topic: str, data: bytes | None, name: str) -> "Document | None":
    if data is None:
        return None
    if name == "bytes":
        return _in_hexadecimal(data)
    try:
        found = SERDES[name].deserializer.deserialize(topic, data, ())
        text = json.dumps(found, ensure_ascii=False) if name == "json" else str(found)
    except (SerializationError, RecursionError):
        return _in_hexadecimal(data)
    return _cut(text, name, len(data))


def _in_hexadecimal(data: bytes) -> "Document":
    return _cut(data.hex(" "), "bytes", len(data))


def _cut(text: str, name: str, size_bytes: int) -> "Document":
    is_cut = len(text) > MOST_CHARACTERS
    return {"text": text[:MOST_CHARACTERS], "format": name, "size_bytes": size_bytes, "is_cut": is_cut}
