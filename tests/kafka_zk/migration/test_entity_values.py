"""Which entities Kafka can copy. What Java parses was tried with Java 17."""

import json
import math

import pytest

from kafka_zk.base.integers import INT32, INT64
from kafka_zk.migration.entity_values import double, is_integer, is_malformed, is_scram_credential
from kafka_zk.security.scram import ScramCredential, encode_credential

VALID = "salt=c2FsdA==,stored_key=a2V5,server_key=a2V5,iterations=4096"


@pytest.mark.parametrize(
    "text",
    ["50", "50.0", "50.", ".5", "+5", "-5", "1e3", "1E+3", "50d", "5.F", "0x1p3", "0X.8P-2f", "0x1.p1", " 50\t\n",
     "NaN", "-Infinity", "1e999"],
)  # fmt: skip
def test_a_double(text: str) -> None:
    assert double(text) is not None


@pytest.mark.parametrize(
    ("text", "value"), [("50d", 50.0), ("0x1p3", 8.0), ("-5.F", -5.0), (" .5", 0.5), ("1e999", math.inf),
                        ("-0x1p99999", -math.inf)],
)  # fmt: skip
def test_the_value_of_a_double(text: str, value: float) -> None:
    assert double(text) == value


@pytest.mark.parametrize(
    "text",
    ["", " ", ".", "1_0", "nan", "inf", "infinity", "5 0", "e3", "1e", "0x1", "0x.p1", "50l", "fast", "\u0665",
     "\xa050", "NaNd", "+-5"],
)  # fmt: skip
def test_no_double(text: str) -> None:
    assert double(text) is None


@pytest.mark.parametrize(("text", "is_valid"), [("1024", True), ("+1024", True), ("-1", True), ("1024.0", False),
                                                ("+-1", False), ("4_096", False), ("", False), (" 1", False),
                                                ("2147483648", False)])  # fmt: skip
def test_an_integer(text: str, is_valid: bool) -> None:
    assert is_integer(text, INT32) is is_valid
    assert is_integer("2147483648", INT64)


@pytest.mark.parametrize(
    "text",
    [
        VALID,
        f"{VALID},,",
        VALID.replace("c2FsdA==", "c2FsdA"),
        VALID.replace("salt=c2FsdA==", "salt="),
        VALID.replace("4096", "+4096"),
        f"salt=c2FsdA==,{VALID}",
        encode_credential(ScramCredential(b"salt", bytes(32), bytes(32), 4096)),
    ],
)
def test_a_credential(text: str) -> None:
    assert is_scram_credential(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "nonsense",
        f"{VALID},junk",
        f"{VALID},x=1",
        f",{VALID}",
        f"{VALID},=1",
        VALID.replace(",", ", "),
        VALID.replace("salt=c2FsdA==,", ""),
        VALID.replace("4096", "4_096"),
        VALID.replace("4096", "2147483648"),
        VALID.replace("c2FsdA==", "c2FsdA="),
        VALID.replace("c2FsdA==", "c2F-"),
        VALID.replace("c2FsdA==", "c"),
    ],
)
def test_no_credential(text: str) -> None:
    assert not is_scram_credential(text)


SCRAM = "SCRAM-SHA-256"
USER, CLIENT_OF_USER = "/config/users/alice", "/config/users/alice/clients/app"


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        (USER, SCRAM, VALID),
        (USER, "request_percentage", "50d"),
        (USER, "producer_byte_rate", "+1024"),
        (USER, "another.key", "text"),
        (CLIENT_OF_USER, "another.key", "1.5"),
        ("/config/ips/10.0.0.7", "connection_creation_rate", "5"),
    ],
)
def test_a_value_that_kafka_copies(path: str, key: str, value: str) -> None:
    assert not is_malformed(path, json.dumps({"version": 1, "config": {key: value}}).encode())


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        (USER, SCRAM, f"{VALID},junk"),
        ("/config/clients/app", SCRAM, "nonsense"),
        (USER, "request_percentage", "1_0"),
        (USER, "producer_byte_rate", "1024.0"),
        (CLIENT_OF_USER, SCRAM, VALID),
        (CLIENT_OF_USER, "another.key", "text"),
        ("/config/ips/10.0.0.7", "connection_creation_rate", "2147483648"),
    ],
)
def test_a_value_that_aborts_the_copy(path: str, key: str, value: str) -> None:
    assert is_malformed(path, json.dumps({"version": 1, "config": {key: value}}).encode())
