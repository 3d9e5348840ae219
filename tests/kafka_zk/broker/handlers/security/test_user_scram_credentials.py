"""SCRAM users through a broker: the stored credentials, and each of Kafka's refusals."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kafka_zk.broker.security.authorizer import Operation
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.security import scram
from tests.bench.request_cost import opcodes
from tests.kafka_zk.broker.conftest import Harness
from tests.kafka_zk.broker.handlers.data.test_fetch_authorization import Without

DESCRIBE, ALTER = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS
Describe, Alter = codec.request(DESCRIBE), codec.request(ALTER)
SHA_256, SHA_512 = 1, 2


@pytest.fixture
def broker(harness: Callable[..., Harness]) -> Harness:
    return harness()


def _users(broker: Harness) -> dict[str, dict[str, str]]:
    configs: Any = broker.services.configs
    users: dict[str, dict[str, str]] = configs.users
    return users


def described(broker: Harness, *users: str) -> list[tuple[str, int, list[tuple[int, int]]]]:
    answer = broker.ask(DESCRIBE, 0, Describe(users=[Describe.UserName(name=user) for user in users] or None))
    assert answer.error_code == ErrorCode.NONE
    return [
        (each.user, each.error_code, [(info.mechanism, info.iterations) for info in each.credential_infos])
        for each in answer.results
    ]


def upsertion(user: str, mechanism: int = SHA_256, iterations: int = 4096, password: str = "pw") -> Any:
    name = "SCRAM-SHA-512" if mechanism == SHA_512 else "SCRAM-SHA-256"
    salted = scram.salted_password(name, password, b"salt", iterations)
    return Alter.ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted
    )


def deletion(user: str, mechanism: int = SHA_256) -> Any:
    return Alter.ScramCredentialDeletion(name=user, mechanism=mechanism)


def altered(broker: Harness, *upsertions: Any, deletions: tuple[Any, ...] = ()) -> dict[str, int]:
    answer = broker.ask(ALTER, 0, Alter(upsertions=list(upsertions), deletions=list(deletions)))
    return {each.user: each.error_code for each in answer.results}


def test_a_credential_is_kept_as_kafka_writes_it(broker: Harness) -> None:
    assert altered(broker, upsertion("a@b", SHA_512, 8192)) == {"a@b": 0}
    (text,) = _users(broker)["a%40b"].values()
    wanted = scram.credential(
        "SCRAM-SHA-512", scram.salted_password("SCRAM-SHA-512", "pw", b"salt", 8192), b"salt", 8192
    )
    assert scram.decode_credential(text) == wanted
    assert described(broker) == [("a@b", 0, [(SHA_512, 8192)])]


def test_the_broker_that_responds_knows_the_change(broker: Harness) -> None:
    """KAFKA-21069: a client that creates a user and logs in as it at this broker was refused until the broker had
    followed the notification.
    """
    users = broker.services.scram_credentials
    altered(broker, upsertion("a@b"), upsertion("other"), deletions=(deletion("unknown"),))
    salted = scram.salted_password("SCRAM-SHA-256", "pw", b"salt", 4096)
    wanted = scram.credential("SCRAM-SHA-256", salted, b"salt", 4096)
    assert users.find("SCRAM-SHA-256", "a@b") == users.find("SCRAM-SHA-256", "other") == wanted
    altered(broker, deletions=(deletion("other"),))
    assert users.find("SCRAM-SHA-256", "a@b") == wanted != users.find("SCRAM-SHA-256", "other")


def test_other_keys_of_the_user_and_other_mechanisms_stay(broker: Harness) -> None:
    _users(broker)["a"] = {"producer_byte_rate": "1"}
    altered(broker, upsertion("a", SHA_256))
    altered(broker, upsertion("a", SHA_512))
    assert described(broker, "a") == [("a", 0, [(SHA_256, 4096), (SHA_512, 4096)])]
    assert altered(broker, deletions=(deletion("a", SHA_256),)) == {"a": 0}
    assert described(broker, "a") == [("a", 0, [(SHA_512, 4096)])]
    assert _users(broker)["a"]["producer_byte_rate"] == "1"


def test_nothing_is_left_of_a_user_without_configuration(broker: Harness) -> None:
    """AdminZkClient.tryCleanQuotaNodes does the same; otherwise, the znodes of removed users would fill ZooKeeper."""
    altered(broker, upsertion("a", SHA_256), upsertion("b", SHA_512))
    assert altered(broker, deletions=(deletion("a", SHA_256),)) == {"a": 0}
    assert list(_users(broker)) == ["b"]


@pytest.mark.parametrize(
    ("upsertions", "deletions", "code"),
    [
        ([upsertion("a", iterations=4095)], [], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("a", iterations=16385)], [], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("")], [], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("a", mechanism=3)], [], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([upsertion("a"), upsertion("a")], [], ErrorCode.DUPLICATE_RESOURCE),
        ([upsertion("a")], [deletion("a")], ErrorCode.DUPLICATE_RESOURCE),
        ([], [deletion("a")], ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_what_kafka_refuses_is_refused_and_others_are_not(
    broker: Harness, upsertions: list[Any], deletions: list[Any], code: ErrorCode
) -> None:
    answers = altered(broker, *upsertions, upsertion("other"), deletions=tuple(deletions))
    assert answers.pop("other") == ErrorCode.NONE
    assert list(answers.values()) == [code]
    assert described(broker) == [("other", 0, [(SHA_256, 4096)])]


def test_only_the_controller_changes_credentials(broker: Harness) -> None:
    controller: Any = broker.services.controller
    controller.is_active = False
    assert altered(broker, upsertion("a")) == {"a": ErrorCode.NOT_CONTROLLER}


def test_permissions_of_the_cluster_are_needed(broker: Harness) -> None:
    broker.services.authorizer = Without(Operation.ALTER)
    assert altered(broker, upsertion("a")) == {"a": ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    broker.services.authorizer = Without(Operation.DESCRIBE)
    assert broker.ask(DESCRIBE, 0, Describe(users=None)).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_describe_names_what_is_missing_or_named_twice(broker: Harness) -> None:
    altered(broker, upsertion("a"))
    assert described(broker, "a", "a", "none", "") == [
        ("a", ErrorCode.DUPLICATE_RESOURCE, []),
        ("none", ErrorCode.RESOURCE_NOT_FOUND, []),
        ("", ErrorCode.RESOURCE_NOT_FOUND, []),
    ]


def test_a_credential_that_cannot_be_understood_is_none(broker: Harness) -> None:
    _users(broker)["a"] = {"SCRAM-SHA-256": "salt=?"}
    assert described(broker) == []


def test_a_request_with_many_users_takes_no_longer_than_their_number(broker: Harness) -> None:
    """Any client can send such a request, even one that may not change a user."""
    steps = [opcodes(partial(altered_by_nobody, broker, count)) for count in (100, 400)]
    assert steps[1] < 6 * steps[0]


def altered_by_nobody(broker: Harness, count: int) -> None:
    broker.services.authorizer = Without(Operation.ALTER)
    users = [deletion(f"user{number}") for number in range(count)]
    assert set(altered(broker, deletions=tuple(users)).values()) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
