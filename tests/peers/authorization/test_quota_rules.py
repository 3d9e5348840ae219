"""Apache Kafka 3.9.1 and kafka-zk agree on which quota counts, on the refusals, and on the throttling of connections.

Cases of ClientQuotasRequestTest, ControllerMutationQuotaTest and DynamicConnectionQuotaTest@3.9 that ``test_quotas.py``
does not have.
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
from tests.peers.authorization.quota_clients import TOPIC, Broker, Entity, about, told

pytestmark = pytest.mark.peers

_HIGH, _LOW = 1e12, 1.0
_USER, _CLIENT = "ANONYMOUS", "precedence"
_LEVELS: list[Entity] = [
    {"user": _USER, "client_id": _CLIENT}, {"user": _USER, "client_id": None}, {"user": _USER},
    {"user": None, "client_id": _CLIENT}, {"user": None, "client_id": None}, {"user": None},
    {"client_id": _CLIENT}, {"client_id": None},
]  # fmt: skip
"""The first level with a quota counts."""
_ADDRESS = "127.0.0.9"
_CONNECTIONS = 40
_EXACT, _DEFAULT, _ANY = range(3)
_WINDOWS = {"quota.window.num": "5", "quota.window.size.seconds": "2"}
_BATCH_BYTES = 150_000


def precedence(broker: Broker) -> Any:
    """All levels have a high quota. Each in turn gets a low one, which must count, and is then removed."""
    for level in _LEVELS:
        assert broker.alter(level, producer_byte_rate=_HIGH) == (0, None)
    throttled = []
    for level in _LEVELS:
        broker.limit(level, producer_byte_rate=_LOW)
        throttled.append(broker.client(_CLIENT).produce(1_000) > 0)
        broker.alter(level, producer_byte_rate=None)
    broker.wait_until_applied()
    return throttled, broker.client(_CLIENT).produce(1_000)


def partitions_created(broker: Broker) -> Any:
    """CreatePartitions 3 is strict, 2 is not. A client without a quota is never throttled."""
    for name in ("strict", "permissive", "unbounded"):
        broker.client("admin").create(f"more-{name}", 1, 7)
    for name in ("strict", "permissive"):
        broker.alter({"client_id": f"more-{name}"}, controller_mutation_rate=0.001)
    broker.wait_until_applied()
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
    return told((answer.throttle_time_ms, answer.results[0].error_code))


def validated_only(broker: Broker) -> Any:
    """testAlterClientQuotasRequestValidateOnly: the codes are those of a change, and nothing changes."""
    codes = []
    for value, key in ((1000.0, "producer_byte_rate"), (-1.0, "producer_byte_rate"), (1.0, "foo")):
        entry = {
            "entity": [{"entity_type": "user", "entity_name": "validated"}],
            "ops": [{"key": key, "value": value, "remove": False}],
        }
        answer = broker.client("admin").ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": [entry], "validate_only": True})
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
    """testClientQuotasForScramUsers: SCRAM credentials do not count as quotas."""
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
    """testDynamicIpConnectionRateQuota: connections above the rate are delayed, then closed without a response.

    The first window accepts about ten, depending on their timing.
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


def windows(broker: Broker) -> Any:
    """``quota.window.num`` and ``quota.window.size.seconds``: both determine how long a client waits."""
    broker.limit({"client_id": "windows"}, producer_byte_rate=10_000)
    client = broker.client("windows")
    first_ms, began_s = client.produce(_BATCH_BYTES), time.monotonic()
    second_ms, took_s = client.produce(_BATCH_BYTES), time.monotonic() - began_s
    assert abs(first_ms - 7_000) < 500, "150 KB in four full windows of two seconds are not 18,750 B/s"
    return about(first_ms), about(second_ms), took_s > first_ms / 1000 - 0.5


def shared_and_own(broker: Broker) -> Any:
    """A user's quota is shared by its clients; a default of the user's clients gives one to each client."""
    broker.limit({"user": _USER}, producer_byte_rate=10_000)
    shared = [broker.client(each).produce(_BATCH_BYTES) for each in ("shared-1", "shared-2")]
    broker.alter({"user": _USER}, producer_byte_rate=None)
    broker.limit({"user": _USER, "client_id": None}, producer_byte_rate=10_000)
    own = [broker.client(each).produce(_BATCH_BYTES) for each in ("own-1", "own-2")]
    broker.alter({"user": _USER, "client_id": None}, producer_byte_rate=None)
    broker.wait_until_applied()
    return [about(each) for each in shared], [about(each) for each in own]


def both_kinds(broker: Broker) -> Any:
    """The longer of two throttles counts; that of a request quota is at most one sample."""
    broker.limit({"client_id": "both"}, producer_byte_rate=10_000, request_percentage=0.00001)
    first_ms = broker.client("both").produce(_BATCH_BYTES)
    broker.limit({"client_id": "time only"}, request_percentage=0.00001)
    broker.client("time only").produce(10)
    return about(first_ms), broker.client("time only").produce(10)


def unbounded_throttle(broker: Broker) -> Any:
    """A throttle of bytes has no upper limit, and another connection of the client is not muted by the first."""
    broker.limit({"client_id": "unbounded"}, producer_byte_rate=1)
    first_ms = broker.client("unbounded").produce(_BATCH_BYTES)
    began_s = time.monotonic()
    second_ms = broker.client("unbounded").produce(10)
    return first_ms > 1_000_000, second_ms > 1_000_000, time.monotonic() - began_s < 30


def fetched_at_once(broker: Broker) -> Any:
    """A fetch gets at most the bytes that the quota allows in all windows but one: here 160 KB of 600 KB.

    Apache Kafka counts the response's other bytes, too: it throttles a response of exactly this size.
    """
    for _ in range(4):
        broker.client("filler").produce(_BATCH_BYTES)
    broker.limit({"client_id": "fetched"}, consumer_byte_rate=20_000)
    broker.limit({"client_id": "fetched freely"}, consumer_byte_rate=_HIGH)
    return broker.client("fetched").fetched_bytes() <= 160_000, broker.client(
        "fetched freely"
    ).fetched_bytes() > 600_000


def created_by_metadata(broker: Broker) -> Any:
    """Topics that Metadata creates take tokens, but a debt caused by the request itself refuses none."""
    broker.limit({"client_id": "automatic"}, controller_mutation_rate=0.001)
    seen = []
    for number in range(2):
        wanted = {"topics": [{"name": f"automatic-{number}"}], "allow_auto_topic_creation": True}
        answer = broker.client("automatic").ask(ApiKey.METADATA, 4, wanted)
        seen.append(answer.topics[0].error_code)
    return seen


_VERSIONS: list[tuple[ApiKey, dict[str, Any], tuple[int, ...]]] = [
    (ApiKey.METADATA, {"topics": []}, (0, 2, 3, 5, 6, 12)),
    (ApiKey.FIND_COORDINATOR, {"key": "g"}, (0, 1, 2, 3)),
    (ApiKey.FIND_COORDINATOR, {"key": "g:u:0", "key_type": 2}, (1, 2, 3)),  # an error: share groups came later
    (ApiKey.LIST_GROUPS, {}, (0, 1, 2, 4)),
    (ApiKey.DESCRIBE_GROUPS, {"groups": []}, (0, 1, 2, 5)),
    (ApiKey.API_VERSIONS, {}, (0, 1, 2, 3)),
    (ApiKey.LIST_OFFSETS, {"replica_id": -1, "topics": []}, (1, 2, 3, 7)),
    (ApiKey.DELETE_GROUPS, {"groups_names": []}, (0, 1, 2)),
    (ApiKey.DESCRIBE_CONFIGS, {"resources": []}, (1, 2, 4)),
    (ApiKey.DESCRIBE_CLUSTER, {}, (0, 1)),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, {"components": [], "strict": False}, (0, 1)),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None}, (0,)),
    (ApiKey.DESCRIBE_LOG_DIRS, {"topics": []}, (1, 4)),
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, {"owners": None}, (1, 3)),
    (ApiKey.LIST_TRANSACTIONS, {"state_filters": [], "producer_id_filters": []}, (0,)),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, {"topics": []}, (2, 4)),
]


def throttles_by_version(broker: Broker) -> Any:
    """Which versions have throttle_time_ms, and at which position; clients of the others are muted, too."""
    cases = [(key, values, version) for key, values, versions in _VERSIONS for version in versions]

    def client_id(key: ApiKey, values: dict[str, Any], version: int) -> str:
        return f"{key.name} {version} {values.get('key_type', '')}"

    for case in cases:
        assert broker.alter({"client_id": client_id(*case)}, request_percentage=0.00001) == (0, None)
    broker.wait_for_coordinator("g")
    broker.wait_until_applied()

    def throttled(case: tuple[ApiKey, dict[str, Any], int]) -> tuple[str, int, bool, bool]:
        key, values, version = case
        client = broker.client(client_id(*case))
        client.ask(key, version, values)
        began_s = time.monotonic()
        answer = client.ask(key, version, values)
        is_muted = time.monotonic() - began_s > 0.5
        return key.name, version, bool(getattr(answer, "throttle_time_ms", 0)), is_muted

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(throttled, cases))


CASES: list[Callable[[Broker], Any]] = [
    precedence, partitions_created, validated_only, descriptions_refused, users_of_scram, connections_of_an_address,
    windows, shared_and_own, both_kinds, unbounded_throttle, fetched_at_once, created_by_metadata, throttles_by_version,
]  # fmt: skip


@pytest.fixture(scope="module")
def brokers(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Broker]]:
    """A broker of each target, with the topic that the clients use."""
    started = []
    try:
        for name in targets.NAMES:
            folder = tmp_path_factory.mktemp(name)
            started.append(
                targets.start(
                    name, peer_zookeeper, folder, overrides=_WINDOWS, chroot=f"quota-rules-{name}", timeout_s=180
                )
            )
            started[-1].create_topic(TOPIC)
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
    """The test excludes that both brokers make the same mistake: each low quota throttles the client, and without
    quotas nothing does.
    """
    assert precedence(brokers[0]) == ([True] * len(_LEVELS), 0)
