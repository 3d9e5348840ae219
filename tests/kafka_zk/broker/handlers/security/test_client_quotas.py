"""DescribeClientQuotas and AlterClientQuotas. Apache Kafka 3.9.1: tests/peers/authorization/test_quotas.py."""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.broker.conftest import Harness

EXACT, DEFAULT, SPECIFIED = range(3)
Entity = dict[str, str | None]


@pytest.fixture
def broker(harness: Callable[..., Harness]) -> Harness:
    return harness()


def alter(
    broker: Harness, entity: Entity, validate_only: bool = False, **values: float | None
) -> tuple[int, str | None]:
    """Returns the error code and message of one entry; a value of None removes the key."""
    request = codec.request(ApiKey.ALTER_CLIENT_QUOTAS)
    entry = request.EntryData
    wanted = entry(
        entity=[entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[entry.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )
    answer = broker.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, request(entries=[wanted], validate_only=validate_only))
    (result,) = answer.entries
    assert {each.entity_type: each.entity_name for each in result.entity} == entity
    return result.error_code, result.error_message


def describe(broker: Harness, *components: tuple[str, int, str | None], strict: bool = False) -> list[Any]:
    """The entity and the values of each entry."""
    request = codec.request(ApiKey.DESCRIBE_CLIENT_QUOTAS)
    wanted = [
        request.ComponentData(entity_type=kind, match_type=match_type, match=match)
        for kind, match_type, match in components
    ]
    answer = broker.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, request(components=wanted, strict=strict))
    assert answer.error_code == 0
    return [
        (
            {each.entity_type: each.entity_name for each in entry.entity},
            {each.key: each.value for each in entry.values},
        )
        for entry in answer.entries
    ]


def test_what_is_altered_is_described(broker: Harness) -> None:
    assert alter(broker, {"user": "a/b"}, producer_byte_rate=1000, request_percentage=50) == (0, None)
    assert broker.configs.users == {"a%2Fb": {"producer_byte_rate": "1000", "request_percentage": "50.0"}}
    assert describe(broker) == [({"user": "a/b"}, {"producer_byte_rate": 1000, "request_percentage": 50})]
    assert alter(broker, {"user": "a/b"}, producer_byte_rate=None, consumer_byte_rate=7) == (0, None)
    assert describe(broker) == [({"user": "a/b"}, {"request_percentage": 50, "consumer_byte_rate": 7})]


def test_a_password_beside_a_quota_is_neither_shown_nor_lost(broker: Harness) -> None:
    broker.configs.users["a"] = {"SCRAM-SHA-256": "secret"}
    alter(broker, {"user": "a"}, producer_byte_rate=1000)
    assert describe(broker) == [({"user": "a"}, {"producer_byte_rate": 1000})]
    assert broker.configs.users["a"]["SCRAM-SHA-256"] == "secret"


def test_who_may_change_quotas_removes_no_password(broker: Harness) -> None:
    """Passwords need another permission."""
    broker.configs.users["a"] = {"SCRAM-SHA-256": "secret"}
    removed: dict[str, Any] = {"SCRAM-SHA-256": None}
    code, message = alter(broker, {"user": "a"}, **removed)
    assert (code, message) == (ErrorCode.INVALID_REQUEST, "Invalid configuration key SCRAM-SHA-256")
    assert broker.configs.users["a"] == {"SCRAM-SHA-256": "secret"}


def test_nothing_changes_if_it_is_only_validated(broker: Harness) -> None:
    assert alter(broker, {"user": "a"}, validate_only=True, producer_byte_rate=1000) == (0, None)
    assert alter(broker, {"user": "a"}, validate_only=True, producer_byte_rate=0)[0] == ErrorCode.INVALID_REQUEST
    assert describe(broker) == []


def test_a_bad_entry_changes_nothing_of_its_entity(broker: Harness) -> None:
    code, message = alter(broker, {"user": "a"}, producer_byte_rate=1000, foo=1)
    assert (code, message) == (ErrorCode.INVALID_REQUEST, "Invalid configuration key foo")
    assert describe(broker) == []


def test_an_address_must_be_one(broker: Harness) -> None:
    assert alter(broker, {"ip": "10.0.0.1"}, connection_creation_rate=5) == (0, None)
    assert alter(broker, {"ip": None}, connection_creation_rate=5) == (0, None)
    code, message = alter(broker, {"ip": "no address"}, connection_creation_rate=5)
    assert (code, message) == (ErrorCode.INVALID_REQUEST, "no%20address is not a valid IP or resolvable host.")


ALL: list[tuple[str, Entity]] = [
    ("user a", {"user": "a"}),
    ("default user", {"user": None}),
    ("a and c", {"user": "a", "client-id": "c"}),
    ("a and default", {"user": "a", "client-id": None}),
    ("default and c", {"user": None, "client-id": "c"}),
    ("client c", {"client-id": "c"}),
    ("default client", {"client-id": None}),
    ("ip", {"ip": "10.0.0.1"}),
    ("default ip", {"ip": None}),
]


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, [name for name, _ in ALL]),
        ([], True, []),
        ([("user", SPECIFIED, None)], True, ["user a", "default user"]),
        (
            [("user", SPECIFIED, None)],
            False,
            ["user a", "default user", "a and c", "a and default", "default and c"],
        ),
        ([("user", EXACT, "a")], True, ["user a"]),
        ([("user", EXACT, "a")], False, ["user a", "a and c", "a and default"]),
        ([("user", DEFAULT, None)], False, ["default user", "default and c"]),
        ([("client-id", EXACT, "c")], True, ["client c"]),
        ([("client-id", EXACT, "c")], False, ["client c", "a and c", "default and c"]),
        ([("client-id", SPECIFIED, None)], True, ["client c", "default client"]),
        ([("user", EXACT, "a"), ("client-id", EXACT, "c")], True, ["a and c"]),
        ([("user", EXACT, "a"), ("client-id", EXACT, "c")], False, ["a and c"]),
        ([("user", SPECIFIED, None), ("client-id", DEFAULT, None)], False, ["a and default"]),
        ([("ip", SPECIFIED, None)], True, ["ip", "default ip"]),
        ([("ip", EXACT, "10.0.0.1")], False, ["ip"]),
        ([("ip", DEFAULT, None)], False, ["default ip"]),
        ([("user", EXACT, "nobody")], False, []),
    ],
)
def test_a_filter_lets_through_what_it_names(
    broker: Harness, components: list[tuple[str, int, str | None]], strict: bool, found: list[str]
) -> None:
    for _, entity in ALL:
        key = "connection_creation_rate" if "ip" in entity else "producer_byte_rate"
        assert alter(broker, entity, False, **{key: 5}) == (0, None)
    names = {str(sorted(entity.items(), key=str)): name for name, entity in ALL}
    entities = [entity for entity, _ in describe(broker, *components, strict=strict)]
    assert sorted(names[str(sorted(entity.items(), key=str))] for entity in entities) == sorted(found)
