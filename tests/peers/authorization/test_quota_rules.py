"""Which quota counts, what is refused, and how connections are held back: the same at Apache Kafka 3.9.1 and at ours.

Cases of ClientQuotasRequestTest, ControllerMutationQuotaTest and DynamicConnectionQuotaTest@3.9 that
``test_quotas.py`` does not have.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import request_header
from tests.peers import targets
from tests.peers.authorization.test_quotas import Broker, Entity

pytestmark = pytest.mark.peers

_APPLIED_S = 4.0
_HIGH, _LOW = 1e12, 1.0
_USER, _CLIENT = "ANONYMOUS", "precedence"
_LEVELS: list[Entity] = [
    {"user": _USER, "client_id": _CLIENT}, {"user": _USER, "client_id": None}, {"user": _USER},
    {"user": None, "client_id": _CLIENT}, {"user": None, "client_id": None}, {"user": None},
    {"client_id": _CLIENT}, {"client_id": None},
]  # fmt: skip
"""The first one that has a quota counts."""
_ADDRESS = "127.0.0.9"
_CONNECTIONS = 40
_EXACT, _DEFAULT, _ANY = range(3)


def precedence(broker: Broker) -> Any:
    """All levels have a high quota. Each in turn gets a low one, which must count, and is then removed."""
    for level in _LEVELS:
        assert broker.alter(level, producer_byte_rate=_HIGH) == (0, None)
    throttled = []
    for level in _LEVELS:
        broker.limit(level, producer_byte_rate=_LOW)
        throttled.append(broker.client(_CLIENT).produce(1_000) > 0)
        broker.alter(level, producer_byte_rate=None)
    time.sleep(_APPLIED_S)
    return throttled, broker.client(_CLIENT).produce(1_000)


def partitions_created(broker: Broker) -> Any:
    """CreatePartitions 3 is strict, 2 is not; a client without a quota is never held back."""
    for name in ("strict", "permissive", "unbounded"):
        broker.client("admin").create(f"more-{name}", 1, 7)
    for name in ("strict", "permissive"):
        broker.alter({"client_id": f"more-{name}"}, controller_mutation_rate=0.001)
    time.sleep(_APPLIED_S)
    return [
        [_more(broker, name, count, version) for count in (3, 5)]
        for name, version in (("strict", 3), ("permissive", 2), ("unbounded", 3))
    ]


def _more(broker: Broker, name: str, count: int, version: int) -> tuple[bool, int]:
    values = {
        "topics": [{"name": f"more-{name}", "count": count, "assignments": None}], "timeout_ms": 30_000,
        "validate_only": False,
    }  # fmt: skip
    answer = broker.client(f"more-{name}").ask(ApiKey.CREATE_PARTITIONS, version, values)
    return answer.throttle_time_ms > 0, answer.results[0].error_code


def validated_only(broker: Broker) -> Any:
    """testAlterClientQuotasRequestValidateOnly: the codes are those of a change, and nothing changes."""
    codes = []
    for value, key in ((1000.0, "producer_byte_rate"), (-1.0, "producer_byte_rate"), (1.0, "foo")):
        entry = {
            "entity": [{"entity_type": "user", "entity_name": "validated"}],
            "ops": [{"key": key, "value": value, "remove": False}],
        }
        answer = broker.client("admin").ask(
            ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": [entry], "validate_only": True}
        )
        codes.append((answer.entries[0].error_code, answer.entries[0].error_message))
    return codes, broker.describe(("user", _EXACT, "validated"), strict=False)


def descriptions_refused(broker: Broker) -> Any:
    """testDescribeClientQuotasInvalidFilterCombination, testClientQuotasUnsupportedEntityTypes."""
    wanted: list[list[tuple[str, int, str | None]]] = [
        [("ip", _ANY, None), ("user", _ANY, None)],
        [("client-id", _EXACT, "c"), ("ip", _EXACT, "10.0.0.1")],
        [("foo", _ANY, None)],
        [("", _ANY, None)],
        [("user", _EXACT, "a"), ("user", _EXACT, "b")],
    ]
    return [_refused(broker, components) for components in wanted]


def _refused(broker: Broker, components: list[tuple[str, int, str | None]]) -> tuple[int, Any]:
    found = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
    answer = broker.client("admin").ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {"components": found, "strict": False})
    return answer.error_code, answer.entries


def users_of_scram(broker: Broker) -> Any:
    """testClientQuotasForScramUsers: a login is no quota."""
    upsertion = {
        "name": "scram-user", "mechanism": 1, "iterations": 4096, "salt": b"salt" * 4, "salted_password": b"x" * 32,
    }  # fmt: skip
    answer = broker.client("admin").ask(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": [], "upsertions": [upsertion]}
    )
    assert answer.results[0].error_code == 0
    without = broker.describe(("user", _EXACT, "scram-user"), strict=False)
    broker.limit({"user": "scram-user"}, request_percentage=50)
    return without, broker.describe(("user", _EXACT, "scram-user"), strict=False)


def connections_of_an_address(broker: Broker) -> Any:
    """testDynamicIpConnectionRateQuota: those above the rate are kept for a while, then closed without an answer.

    How many the first window lets in depends on how fast they come: about ten.
    """
    broker.limit({"ip": _ADDRESS}, connection_creation_rate=1)
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        answered = sum(pool.map(lambda _: _is_answered(broker.port), range(_CONNECTIONS)))
    broker.limit({"ip": _ADDRESS}, connection_creation_rate=1000)
    return 8 <= answered <= 20, _is_answered(broker.port)


def _is_answered(port: int) -> bool:
    frame = request_header(ApiKey.API_VERSIONS, 0, 1, "c")
    with socket.create_connection(("127.0.0.1", port), 60, source_address=(_ADDRESS, 0)) as connection:
        try:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            return bool(connection.recv(4))
        except ConnectionError:
            return False


CASES: list[Callable[[Broker], Any]] = [
    precedence, partitions_created, validated_only, descriptions_refused, users_of_scram, connections_of_an_address,
]  # fmt: skip


@pytest.fixture(scope="module")
def brokers(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Broker]]:
    """One of each target, with the topic of ``test_quotas``."""
    started = []
    try:
        for name in targets.NAMES:
            folder = tmp_path_factory.mktemp(name)
            started.append(targets.start(name, peer_zookeeper, folder, chroot=f"quota-rules-{name}", timeout_s=180))
            started[-1].create_topic("limited")
        yield [Broker(each.name, each.ports[0], each.zookeeper) for each in started]
    finally:
        for each in started:
            each.stop()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_quotas_are_those_of_apache_kafka(brokers: list[Broker], case: Callable[[Broker], Any]) -> None:
    with ThreadPoolExecutor() as pool:
        ours, theirs = pool.map(case, brokers)
    assert ours == theirs


def test_the_first_level_that_has_a_quota_counts(brokers: list[Broker]) -> None:
    """So that equal mistakes of both do not pass: each low quota held the client back, and without any nothing does."""
    assert precedence(brokers[0]) == ([True] * len(_LEVELS), 0)
