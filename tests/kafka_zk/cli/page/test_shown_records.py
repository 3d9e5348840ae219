"""Records are decoded as asked, or shown as bytes; what a person writes becomes the bytes of the chosen format."""

import json
from typing import Any

import pytest

from kafka_zk.cli.page.shown_records import MOST_CHARACTERS, MOST_HEADERS, bytes_of, check_format, record_document
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.clients.consumer.records import ConsumerRecord


def shown(value: bytes | None, value_format: str) -> Any:
    record = ConsumerRecord("t", 1, 7, 1_000, None, value, (("trace", b"\xff"),), -1, False)
    return record_document(record, "string", value_format)["value"]


def test_a_record_has_its_place_and_its_headers() -> None:
    record = ConsumerRecord("t", 1, 7, 1_000, b"anna", None, (("trace", b"\xff"), ("none", None)), -1, False)
    told = record_document(record, "string", "json")
    assert (told["partition"], told["offset"], told["timestamp_ms"], told["value"]) == (1, 7, 1_000, None)
    assert told["key"] == {"text": "anna", "format": "string", "size_bytes": 4, "is_cut": False}
    [(name, header), (_, missing)] = told["headers"]
    assert (name, header["text"], header["format"], missing) == ("trace", "ff", "bytes", None)


@pytest.mark.parametrize(
    ("data", "asked", "text", "used"),
    [
        ("ä".encode(), "string", "ä", "string"),
        (b'{"a": [1,"\xc3\xa4"]}', "json", '{"a": [1, "ä"]}', "json"),
        (b"\x00\x00\x00\x07", "integer", "7", "integer"),
        (b"\x00\x07", "bytes", "00 07", "bytes"),
        (b"\xff\xfe", "string", "ff fe", "bytes"),
        (b"no json", "json", "6e 6f 20 6a 73 6f 6e", "bytes"),
        (b"abc", "long", "61 62 63", "bytes"),
        (b"", "string", "", "string"),
    ],
)
def test_what_cannot_be_decoded_is_shown_as_bytes(data: bytes, asked: str, text: str, used: str) -> None:
    found = shown(data, asked)
    assert (found["text"], found["format"], found["size_bytes"]) == (text, used, len(data))


def test_a_large_or_deep_value_is_cut() -> None:
    found = shown(b"x" * 100_000, "string")
    assert (len(found["text"]), found["is_cut"], found["size_bytes"]) == (MOST_CHARACTERS, True, 100_000)
    assert len(shown(b"[" * 100_000, "json")["text"]) == MOST_CHARACTERS


def test_many_headers_are_cut_and_counted() -> None:
    headers = tuple((f"h{number}", b"x") for number in range(100_000))
    told = record_document(ConsumerRecord("t", 1, 7, 1_000, None, None, headers, -1, False), "string", "string")
    assert (len(told["headers"]), told["header_count"]) == (MOST_HEADERS, 100_000)


def test_a_document_that_can_be_read_but_not_written_again_is_shown_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Depth is limited by the stack, and writing needs more of it than reading."""

    def too_deep(*arguments: object, **options: object) -> str:
        raise RecursionError

    monkeypatch.setattr(json, "dumps", too_deep)
    assert shown(b"[[]]", "json")["format"] == "bytes"


@pytest.mark.parametrize(
    ("text", "name", "data"),
    [
        ("ä", "string", "ä".encode()), ('{"a": 1}', "json", b'{"a":1}'), ("7", "integer", b"\x00\x00\x00\x07"),
        ("00 ff", "bytes", b"\x00\xff"), (None, "string", None), ("", "string", b""),
    ],
)  # fmt: skip
def test_what_a_person_writes_becomes_bytes(text: str | None, name: str, data: bytes | None) -> None:
    assert bytes_of("t", text, name) == data


@pytest.mark.parametrize(
    ("text", "name"), [("secret", "integer"), ("{secret", "json"), ("secret", "bytes"), ("9" * 30, "long")]
)
def test_a_refusal_does_not_repeat_the_text(text: str, name: str) -> None:
    with pytest.raises(CommandFailed, match=f"{len(text)} characters cannot be written as {name}") as refused:
        bytes_of("t", text, name)
    assert text not in str(refused.value) and refused.value.__cause__ is None


def test_an_unknown_format_is_a_sentence() -> None:
    with pytest.raises(CommandFailed, match="'avro' is not a format: choose string, json"):
        check_format("avro")
