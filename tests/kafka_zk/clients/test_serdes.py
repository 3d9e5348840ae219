"""Keys and values as Java's serializers write them."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.clients.serdes import SERDES, SerializationError, StringSerde


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("string", "grün", b"gr\xc3\xbcn"),
        ("integer", 1, b"\0\0\0\1"),
        ("integer", -2, b"\xff\xff\xff\xfe"),
        ("long", 2**40, b"\0\0\1\0\0\0\0\0"),
        ("float", 1.5, b"\x3f\xc0\0\0"),
        ("double", -0.1, b"\xbf\xb9\x99\x99\x99\x99\x99\x9a"),
        ("bytes", b"\0\xff", b"\0\xff"),
        ("json", {"a": [1, "ü", None]}, '{"a":[1,"ü",null]}'.encode()),
    ],
)
def test_bytes_are_javas(name: str, value: Any, data: bytes) -> None:
    """Big-endian numbers, UTF-8 text (values from DataOutputStream and String.getBytes)."""
    serde = SERDES[name]
    assert serde.serializer.serialize("t", value, ()) == data
    assert serde.deserializer.deserialize("t", data, ()) == value


@pytest.mark.parametrize("name", sorted(SERDES))
def test_none_stays_none(name: str) -> None:
    """None, a tombstone, stays None in every format."""
    serde = SERDES[name]
    assert serde.serializer.serialize("t", None, ()) is None
    assert serde.deserializer.deserialize("t", None, ()) is None


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text())
def test_round_trip(number: int, long: int, double: float, text: str) -> None:
    """Values survive a round trip, NaN and infinities included."""
    for name, value in (("integer", number), ("long", long), ("double", double)):
        serde = SERDES[name]
        back = serde.deserializer.deserialize("t", serde.serializer.serialize("t", value, ()), ())
        assert back == value or (math.isnan(back) and math.isnan(value))
    try:
        data = SERDES["string"].serializer.serialize("t", text, ())
    except SerializationError:
        assert any("\ud800" <= character <= "\udfff" for character in text)
    else:
        assert SERDES["string"].deserializer.deserialize("t", data, ()) == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("string", b"bytes"), ("integer", 2**31), ("integer", 1.0), ("integer", True), ("long", 2**63), ("long", "1"),
        ("float", 1e39), ("double", "1"), ("bytes", "text"), ("json", {1, 2}), ("json", math.nan),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(name: str, value: Any) -> None:
    """The serializer raises SerializationError instead of returning bytes that Java would not write."""
    with pytest.raises(SerializationError):
        SERDES[name].serializer.serialize("t", value, ())


@pytest.mark.parametrize(
    ("name", "data"),
    [("string", b"\xff"), ("integer", b"\0" * 8), ("long", b""), ("double", b"\0" * 4), ("json", b"{")],
)
def test_bytes_that_are_something_else_are_refused(name: str, data: bytes) -> None:
    """The deserializer raises SerializationError with a message of one sentence."""
    with pytest.raises(SerializationError):
        SERDES[name].deserializer.deserialize("t", data, ())


def test_other_encodings() -> None:
    """The argument corresponds to Java's serializer.encoding."""
    serde = StringSerde("iso-8859-1")
    assert serde.deserialize("t", serde.serialize("t", "ü")) == "ü"
    with pytest.raises(SerializationError, match="iso-8859-1"):
        serde.serialize("t", "€")
