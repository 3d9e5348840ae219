"""Quota entities and values, as the APIs and the znodes represent them."""

import math

import pytest

from kafka_zk.broker.quota.quota_entities import Place, changed, entity_at, java_double, place_of, value_text, values_of
from kafka_zk.protocol.errors import ApiError, ErrorCode

PLACES = [
    ({"user": "a"}, Place("users", "a")),
    ({"user": None}, Place("users", "<default>")),
    ({"client-id": "c/1 *"}, Place("clients", "c%2F1%20%2A")),
    ({"user": "zk user@x", "client-id": None}, Place("users", "zk%20user%40x/clients/<default>")),
    ({"user": None, "client-id": "<default>"}, Place("users", "<default>/clients/%3Cdefault%3E")),
    ({"ip": "::1"}, Place("ips", "%3A%3A1")),
    ({"ip": None}, Place("ips", "<default>")),
]


@pytest.mark.parametrize(("entity", "place"), PLACES)
def test_an_entity_has_one_place(entity: dict[str, str | None], place: Place) -> None:
    assert place_of(entity.items()) == place
    assert place_of(reversed(entity.items())) == place
    assert entity_at(place) == entity


@pytest.mark.parametrize(
    ("entity", "sentence"),
    [
        ({}, "Invalid empty client quota entity"),
        ({"user": ""}, "Empty user not supported"),
        ({"foo": "x"}, "Unhandled client quota entity type: foo"),
        ({"ip": "1.2.3.4", "user": "a"}, "IP entity should not be used with user/client ID entity"),
        ({"ip": "1.2.3.4", "user": "a", "client-id": "b"}, "IP entity should not be used with user/client ID entity"),
    ],
)
def test_an_entity_that_cannot_be(entity: dict[str, str | None], sentence: str) -> None:
    with pytest.raises(ApiError, match=sentence) as refusal:
        place_of(entity.items())
    assert refusal.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("place", "key", "value", "text"),
    [
        ("users", "producer_byte_rate", 1048576.0, "1048576"),
        ("clients", "consumer_byte_rate", 1.0000001, "1"),
        ("users", "request_percentage", 50.0, "50.0"),
        ("users", "controller_mutation_rate", 12345678.0, "1.2345678E7"),
        ("ips", "connection_creation_rate", 10.0, "10"),
        ("ips", "connection_creation_rate", 0.0, "0"),
    ],
)
def test_values_are_written_as_kafka_writes_them(place: str, key: str, value: float, text: str) -> None:
    assert value_text(Place(place, "a"), key, value) == text


@pytest.mark.parametrize(
    ("place", "key", "value", "sentence"),
    [
        ("users", "foo", 1, "Invalid configuration key foo"),
        ("users", "connection_creation_rate", 1, "Invalid configuration key connection_creation_rate"),
        ("ips", "producer_byte_rate", 1, "Invalid configuration key producer_byte_rate"),
        ("users", "producer_byte_rate", 1.5, "Configuration producer_byte_rate must be a LONG value"),
        ("users", "producer_byte_rate", -5, "Configuration producer_byte_rate must be a LONG value"),
        ("users", "producer_byte_rate", math.nan, "Configuration producer_byte_rate must be a LONG value"),
        ("users", "producer_byte_rate", math.inf, "Configuration producer_byte_rate must be a LONG value"),
        ("users", "producer_byte_rate", 0, "Configuration producer_byte_rate must be above 0"),
        ("users", "producer_byte_rate", 1e-7, "Configuration producer_byte_rate must be above 0"),
        ("clients", "request_percentage", 0, "Configuration request_percentage must be above 0"),
        ("clients", "request_percentage", -1, "Configuration request_percentage must be a number above 0"),
        ("clients", "request_percentage", math.nan, "Configuration request_percentage must be a number above 0"),
        ("ips", "connection_creation_rate", 2.0**31, "Configuration connection_creation_rate must be a INT value"),
    ],
)
def test_a_value_that_cannot_be(place: str, key: str, value: float, sentence: str) -> None:
    with pytest.raises(ApiError, match=sentence) as refusal:
        value_text(Place(place, "a"), key, value)
    assert refusal.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (50.0, "50.0"), (0.1, "0.1"), (1e7, "1.0E7"), (12345678.0, "1.2345678E7"), (0.0005, "5.0E-4"),
        (1.5e-7, "1.5E-7"), (1e100, "1.0E100"), (9999999.9, "9999999.9"), (123456789012.5, "1.234567890125E11"),
        (9999999999999998.0, "9.999999999999998E15"), (99999999999999.98, "9.999999999999998E13"),
    ],
)  # fmt: skip
def test_numbers_look_as_java_writes_them(value: float, text: str) -> None:
    assert java_double(value) == text
    assert float(text) == value


def test_changes_leave_the_rest() -> None:
    assert changed({"a": "1", "b": "2"}, {"b": None, "c": "3", "d": None}) == {"a": "1", "c": "3"}


def test_what_is_no_number_is_no_value() -> None:
    properties = {"producer_byte_rate": "x", "request_percentage": "nan", "consumer_byte_rate": "7", "other": "8"}
    assert values_of(Place("users", "a"), properties) == {"consumer_byte_rate": 7.0}
