"""Records as lines of text, with the property names of Kafka's console tools. Pure.

A line that is read has the form ``headers DELIMITER key SEPARATOR value``; headers and key are present only with
``parse.headers`` and ``parse.key``. A line that is written contains timestamp, partition, offset, headers, key and
value, each only with its ``print.…``.

Source: LineMessageReader.java and DefaultMessageFormatter.java@3.9.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.nearest import did_you_mean

Headers = Sequence[tuple[str, bytes | None]]


class ParsedLine(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class LineReader:
    """The format of a line for ``produce``; the fields are the console producer's ``--property`` keys."""

    parse_key: bool = False
    key_separator: str = "\t"
    parse_headers: bool = False
    headers_delimiter: str = "\t"
    headers_separator: str = ","
    headers_key_separator: str = ":"
    null_marker: str | None = None

    def parse(self, line: bytes, number: int) -> ParsedLine:
        """Raises CommandFailed with the line number if a separator is missing."""
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if self.parse_headers:
            text, line = self._split(line, self.headers_delimiter, "headers.delimiter", number)
            headers = self._headers(text, number)
        key = None
        if self.parse_key:
            key, line = self._split(line, self.key_separator, "key.separator", number)
        return ParsedLine(self._value(key), self._value(line), headers)

    def _split(self, line: bytes, separator: str, name: str, number: int) -> tuple[bytes, bytes]:
        before, found, after = line.partition(separator.encode())
        if not found:
            raise CommandFailed(f"line {number} has no {name} {separator!r}")
        return before, after

    def _headers(self, text: bytes, number: int) -> tuple[tuple[str, bytes | None], ...]:
        if self._value(text) is None or not text:
            return ()
        headers = []
        for part in text.split(self.headers_separator.encode()):
            name, value = self._split(part, self.headers_key_separator, "headers.key.separator", number)
            headers.append((name.decode(), self._value(value)))
        return tuple(headers)

    def _value(self, data: bytes | None) -> bytes | None:
        if data is None or (self.null_marker is not None and data == self.null_marker.encode()):
            return None
        return data


@dataclass(frozen=True, slots=True)
class LineWriter:
    """The format of a record for ``consume``; the fields are the console consumer's ``--property`` keys."""

    print_timestamp: bool = False
    print_partition: bool = False
    print_offset: bool = False
    print_headers: bool = False
    print_key: bool = False
    print_value: bool = True
    key_separator: str = "\t"
    line_separator: str = "\n"
    headers_separator: str = ","
    null_literal: str = "null"

    def format(self, partition: int, record: Any) -> bytes:
        """Format a record (offset, timestamp_ms, key, value, headers) as a line with its separator."""
        parts: list[bytes] = []
        if self.print_timestamp:
            parts.append(f"CreateTime:{record.timestamp_ms}".encode())
        if self.print_partition:
            parts.append(f"Partition:{partition}".encode())
        if self.print_offset:
            parts.append(f"Offset:{record.offset}".encode())
        if self.print_headers:
            parts.append(self._headers(record.headers))
        if self.print_key:
            parts.append(self._bytes(record.key))
        if self.print_value:
            parts.append(self._bytes(record.value))
        return self.key_separator.encode().join(parts) + self.line_separator.encode()

    def _headers(self, headers: Headers) -> bytes:
        if not headers:
            return b"NO_HEADERS"
        return self.headers_separator.encode().join(
            name.encode() + b":" + self._bytes(value) for name, value in headers
        )

    def _bytes(self, data: bytes | None) -> bytes:
        return self.null_literal.encode() if data is None else bytes(data)


def from_properties(kind: type, properties: Mapping[str, str]) -> Any:
    """A LineReader or LineWriter.

    Raises: CommandFailed with the key and the allowed values.
    """
    fields = {name.replace("_", "."): name for name in kind.__dataclass_fields__}  # type: ignore[attr-defined]
    values: dict[str, Any] = {}
    for key, text in properties.items():
        if key not in fields:
            raise CommandFailed(f"--property {key}: it must be one of {', '.join(fields)}{did_you_mean(key, fields)}")
        if isinstance(kind.__dataclass_fields__[fields[key]].default, bool):  # type: ignore[attr-defined]
            if text.lower() not in ("true", "false"):
                raise CommandFailed(f"--property {key}={text}: it must be true or false")
            values[fields[key]] = text.lower() == "true"
        else:
            values[fields[key]] = text.encode().decode("unicode_escape") if "\\" in text else text
    return kind(**values)


def as_document(topic: str, partition: int, record: Any) -> dict[str, Any]:
    """A record for JSON: bytes that are not UTF-8 become ``{"hex": …}``, and JSON values stay text."""
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": _json_bytes(record.key),
        "value": _json_bytes(record.value),
        "headers": [[name, _json_bytes(value)] for name, value in record.headers],
    }


def _json_bytes(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return {"hex": bytes(data).hex()}


def json_line(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"
