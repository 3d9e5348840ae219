"""Lines to records and back, as Kafka's console tools do it."""

import json
from typing import NamedTuple

import pytest

from kafka_zk.cli.terminal import line_format
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.line_format import LineReader, LineWriter, ParsedLine


class Record(NamedTuple):
    offset: int = 7
    timestamp_ms: int = 1000
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    headers: tuple[tuple[str, bytes | None], ...] = ()


def test_without_properties_a_line_is_a_value() -> None:
    assert LineReader().parse(b"a\tb", 1) == ParsedLine(None, b"a\tb", ())


def test_key_and_value_split_at_the_first_separator() -> None:
    reader = LineReader(parse_key=True, key_separator=":")
    assert reader.parse(b"k:v:w", 1) == ParsedLine(b"k", b"v:w", ())


def test_headers_come_before_the_key() -> None:
    reader = LineReader(parse_key=True, parse_headers=True, null_marker="NULL")
    assert reader.parse(b"h1:a,h2:NULL\tk\tv", 1) == ParsedLine(b"k", b"v", (("h1", b"a"), ("h2", None)))
    assert reader.parse(b"NULL\tNULL\tNULL", 1) == ParsedLine(None, None, ())


def test_a_missing_separator_names_the_line() -> None:
    with pytest.raises(CommandFailed, match=r"line 3 has no key.separator ':'"):
        LineReader(parse_key=True, key_separator=":").parse(b"no separator", 3)


def test_a_written_line_has_the_parts_in_kafkas_order() -> None:
    writer = LineWriter(
        print_timestamp=True, print_partition=True, print_offset=True, print_headers=True, print_key=True
    )
    assert writer.format(2, Record()) == b"CreateTime:1000\tPartition:2\tOffset:7\tNO_HEADERS\tk\tv\n"
    assert LineWriter().format(0, Record(value=None)) == b"null\n"
    assert LineWriter(print_headers=True).format(0, Record(headers=(("a", b"1"), ("b", None)))) == b"a:1,b:null\tv\n"


def test_properties_are_checked_by_name_and_value() -> None:
    reader = line_format.from_properties(LineReader, {"parse.key": "TRUE", "key.separator": "\\t|"})
    assert reader == LineReader(parse_key=True, key_separator="\t|")
    with pytest.raises(CommandFailed, match=r"--property parse.kye: it must be one of parse.key, "):
        line_format.from_properties(LineReader, {"parse.kye": "true"})
    with pytest.raises(CommandFailed, match="it must be true or false"):
        line_format.from_properties(LineReader, {"parse.key": "yes"})


def test_bytes_that_are_no_text_are_hexadecimal_in_json() -> None:
    record = Record(key=None, value=b"\xff\x00", headers=(("h", b"x"),))
    assert json.loads(line_format.json_line(line_format.as_document("t", 0, record))) == {
        "topic": "t",
        "partition": 0,
        "offset": 7,
        "timestamp": 1000,
        "key": None,
        "value": {"hex": "ff00"},
        "headers": [["h", "x"]],
    }
