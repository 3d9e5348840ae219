"""Client quotas: the same requests to a broker of Apache Kafka 3.9.1 and to ours, with their responses and times.

Each case has a client id of its own, and almost all results must be equal. Where our broker is meant to differ, the
case says so: a quota of 0, and a batch that is larger than the quota of a consumer for a whole window.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from tests.peers import jars, targets
from tests.peers.authorization.quota_clients import PATIENT_MS, TOPIC, Broker, Entity, about, told
from tests.peers.tool_script import CONFIGS, Said, Step, ToolRunner, said_to_each

pytestmark = pytest.mark.peers


# -- cases, whose results are compared ---------------------------------------------------------------------------------


def produce_twice(broker: Broker) -> Any:
    """KIP-219: the response comes immediately, and the broker reads the next request after the throttle."""
    broker.limit({"client_id": "produce"}, producer_byte_rate=10_000)
    client = broker.client("produce")
    first_ms, began_s = client.produce(150_000), time.monotonic()
    second_ms, took_s = client.produce(150_000), time.monotonic() - began_s
    return about(first_ms), about(second_ms), took_s > 4.5


def produce_without_answer(broker: Broker) -> Any:
    """A client with acks=0 is muted, too."""
    broker.limit({"client_id": "acks 0"}, producer_byte_rate=100_000)
    client = broker.client("acks 0")
    client.produce(1_200_000 // 2, acks=0)
    client.produce(1_200_000 // 2, acks=0)
    began_s = time.monotonic()
    client.produce(10)
    return time.monotonic() - began_s > 1.5


def produce_old_version(broker: Broker) -> Any:
    """The version is from before clients throttled themselves."""
    broker.limit({"client_id": "old"}, producer_byte_rate=100_000)
    client = broker.client("old")
    client.produce(600_000, version=3)
    throttle_ms, began_s = client.produce(600_000, version=3), time.monotonic()
    client.produce(10, version=3)
    return about(throttle_ms), time.monotonic() - began_s > 1.5


def most_specific(broker: Broker) -> Any:
    """A quota of all users with all clients precedes a client's."""
    broker.limit({"client_id": "specific"}, producer_byte_rate=1)
    broker.limit({"user": "ANONYMOUS", "client_id": "specific"}, producer_byte_rate=10_000_000)
    return broker.client("specific").produce(100_000)


def fetch_above(broker: Broker) -> Any:
    """The response is empty. A known session continues, and a new one is not created."""
    broker.limit({"client_id": "fetch"}, consumer_byte_rate=25_000)
    client = broker.client("fetch")
    first_ms, has_first, session_id = client.fetch((0, 0))
    second_ms, has_second, same_id = client.fetch((session_id, 1))
    other = broker.client("fetch").fetch((0, 0))
    return first_ms, has_first, second_ms > 0, has_second, same_id == session_id, other[0] > 0, other[1:]


def mutations(broker: Broker) -> Any:
    """Version 7 is strict, 5 and DeleteTopics 4 are not.

    The first creation after the broker has applied the quota makes a debt that takes a quarter of an hour to pay: all
    later requests are throttled, whatever the speed. The number of earlier creations is not compared, only their
    results.
    """
    assert broker.alter({"client_id": "mutations"}, controller_mutation_rate=0.001) == (0, None)
    before: set[tuple[bool, int]] = set()
    deadline_s = time.monotonic() + 2 * PATIENT_MS / 1000
    for number in itertools.count():
        refused = told(broker.client("mutations").create(f"mutations-{number}", 1, 7))
        if refused[1]:
            break
        before.add(refused)
        assert time.monotonic() < deadline_s, "the quota was not applied"
    old = broker.client("mutations").create("mutations-old", 1, 5)
    deleted = broker.client("mutations").delete("mutations-old", 6)
    old_deleted = broker.client("mutations").delete("mutations-old", 4)
    return before, refused, [told(answer) for answer in (old, deleted, old_deleted)]


def request_time(broker: Broker) -> Any:
    """The throttle is at most one sample."""
    broker.limit({"client_id": "time"}, request_percentage=0.00001)
    broker.client("time").produce(10_000)
    return broker.client("time").produce(10_000)


_ALTERATIONS: list[tuple[Entity, dict[str, float | None]]] = [
    ({"user": "zk user@x"}, {"producer_byte_rate": 7_000_000, "request_percentage": 50}),
    ({"user": "zk user@x"}, {"request_percentage": None}),
    ({"user": None, "client_id": "c/1 *"}, {"controller_mutation_rate": 12_345_678.5}),
    ({"user": "big"}, {"consumer_byte_rate": 9e15}),  # a quota of the default user would apply to the other cases, too
    ({"ip": "10.1.2.3"}, {"connection_creation_rate": 5}),
    ({"ip": None}, {"connection_creation_rate": 2_000_000_000}),
    ({"user": "gone"}, {"consumer_byte_rate": 5}),
    ({"user": "gone"}, {"consumer_byte_rate": None}),
    ({"user": "parent", "client_id": "child"}, {"consumer_byte_rate": 5}),
    ({"user": "parent", "client_id": "child"}, {"consumer_byte_rate": None}),
    ({"user": "a"}, {"foo": 1}),
    ({"user": "a"}, {"producer_byte_rate": -5}),
    ({"user": "a"}, {"producer_byte_rate": 1.5}),
    ({"user": "a"}, {"connection_creation_rate": 1}),
    ({"user": ""}, {"producer_byte_rate": 1}),
    ({"client_id": ""}, {"producer_byte_rate": 1}),
    ({"foo": "a"}, {"producer_byte_rate": 1}),
    ({}, {"producer_byte_rate": 1}),
    ({"ip": "no address"}, {"connection_creation_rate": 1}),
    ({"ip": "10.1.2.3", "user": "a"}, {"connection_creation_rate": 1}),
    ({"ip": "10.1.2.3"}, {"producer_byte_rate": 1}),
]
_PATHS = (
    "/config/users/zk%20user%40x", "/config/users/<default>/clients/c%2F1%20%2A", "/config/users/big",
    "/config/ips/10.1.2.3", "/config/ips/<default>", "/config/users/gone", "/config/users/parent",
)  # fmt: skip
_EXACT, _DEFAULT, _ANY = range(3)


def alterations(broker: Broker) -> Any:
    """The codes, the messages, and the data in ZooKeeper afterwards."""
    answers = [broker.alter(entity, **values) for entity, values in _ALTERATIONS]
    with KazooBlockingClient(broker.zookeeper) as client:
        return answers, [_config(client, path) for path in _PATHS]


def _config(client: KazooBlockingClient, path: str) -> Any:
    try:
        data, _ = run_blocking(client.get(path))
    except Exception as error:
        return type(error).__name__
    return json.loads(data or b"null")


def descriptions(broker: Broker) -> Any:
    """The descriptions after ``alterations``."""
    user, client, address = "user", "client-id", "ip"
    return [
        broker.describe(*components, strict=strict)
        for strict in (False, True)
        for components in (
            [(user, _EXACT, "zk user@x")], [(user, _DEFAULT, None)], [(client, _EXACT, "c/1 *")],
            [(user, _ANY, None), (client, _EXACT, "c/1 *")], [(user, _DEFAULT, None), (client, _ANY, None)],
            [(address, _ANY, None)], [(address, _EXACT, "10.1.2.3")], [(address, _DEFAULT, None)],
        )
    ]  # fmt: skip


CASES: list[Callable[[Broker], Any]] = [
    produce_twice, produce_without_answer, produce_old_version, most_specific, fetch_above, mutations, request_time,
    alterations, descriptions,
]  # fmt: skip


@pytest.fixture(scope="module")
def brokers(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Broker]]:
    """A broker of each target, with a topic of batches of 150,000 bytes."""
    started = []
    try:
        for name in targets.NAMES:
            started.append(
                targets.start(
                    name, peer_zookeeper, tmp_path_factory.mktemp(name), chroot=f"quotas-{name}", timeout_s=180
                )
            )
            started[-1].create_topic(TOPIC)
        brokers = [Broker(each.name, each.ports[0], each.zookeeper) for each in started]
        for broker in brokers:
            for _ in range(4):
                broker.client("filler").produce(150_000)
        yield brokers
    finally:
        for each in started:
            each.stop()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_quotas_are_those_of_apache_kafka(brokers: list[Broker], case: Callable[[Broker], Any]) -> None:
    with ThreadPoolExecutor() as pool:
        ours, theirs = pool.map(case, brokers)
    assert ours == theirs


def test_a_batch_larger_than_the_window_arrives_here(brokers: list[Broker]) -> None:
    """KAFKA-9677: Apache Kafka sends the consumer empty responses indefinitely."""
    for broker in brokers:
        broker.limit({"client_id": "starved"}, consumer_byte_rate=10_000, producer_byte_rate=1)
        deadline_s = time.monotonic() + 30
        while not broker.client("starved").produce(10):  # until the broker has applied both
            assert time.monotonic() < deadline_s
        assert broker.client("starved").fetch()[1] == broker.is_ours


def test_a_quota_of_nothing_is_refused_here(brokers: list[Broker]) -> None:
    """Apache Kafka accepts such a quota, and then throttles no client. If a znode contains one, ours mutes for one
    sample each time.
    """
    for broker in brokers:
        code, message = broker.alter({"client_id": "nothing"}, producer_byte_rate=0)
        assert code == (42 if broker.is_ours else 0)
        if not broker.is_ours:
            broker.wait_until_applied()
            assert broker.client("nothing").produce(150_000) == 0
        else:
            assert message is not None and "must be above 0" in message
            _write(broker, "clients", "nothing", {"producer_byte_rate": "0"})
            assert broker.client("nothing").produce(10) == 1_000


def _write(broker: Broker, entity_type: str, name: str, values: Mapping[str, str]) -> None:
    """Write the znode and a change notification, as old tools do."""
    with KazooBlockingClient(broker.zookeeper) as client:
        data = json.dumps({"version": 1, "config": values}).encode()
        run_blocking(client.create(f"/config/{entity_type}/{name}", data))
        note = json.dumps({"version": 2, "entity_path": f"{entity_type}/{name}"}).encode()
        run_blocking(client.create("/config/changes/config_change_", note, sequential=True))
    broker.wait_until_applied()


_ALTER, _DESCRIBE = "--alter", "--describe"
STEPS = [
    Step("set a user's", CONFIGS, [_ALTER, "--add-config", "producer_byte_rate=1024,request_percentage=50",
                                   "--entity-type", "users", "--entity-name", "u 1"]),
    Step("set a pair's", CONFIGS, [_ALTER, "--add-config", "consumer_byte_rate=2048", "--entity-type", "users",
                                   "--entity-name", "u 1", "--entity-type", "clients", "--entity-default"]),
    Step("set the default client's", CONFIGS, [_ALTER, "--add-config", "controller_mutation_rate=10",
                                               "--entity-type", "clients", "--entity-default"]),
    Step("set an address's", CONFIGS, [_ALTER, "--add-config", "connection_creation_rate=100", "--entity-type", "ips",
                                       "--entity-name", "10.0.0.7"]),
    Step("describe users", CONFIGS, [_DESCRIBE, "--entity-type", "users"]),
    Step("describe a pair", CONFIGS, [_DESCRIBE, "--entity-type", "users", "--entity-name", "u 1",
                                      "--entity-type", "clients", "--entity-default"]),
    Step("describe clients", CONFIGS, [_DESCRIBE, "--entity-type", "clients"]),
    Step("describe addresses", CONFIGS, [_DESCRIBE, "--entity-type", "ips"]),
    Step("remove a user's", CONFIGS, [_ALTER, "--delete-config", "producer_byte_rate", "--entity-type", "users",
                                      "--entity-name", "u 1"]),
    Step("remove what is not there", CONFIGS, [_ALTER, "--delete-config", "consumer_byte_rate", "--entity-type",
                                               "users", "--entity-name", "u 1"]),
    Step("an unknown key", CONFIGS, [_ALTER, "--add-config", "foo=1", "--entity-type", "clients", "--entity-name",
                                     "c"]),
    Step("describe users again", CONFIGS, [_DESCRIBE, "--entity-type", "users"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def said(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Said]]:
    """The output of kafka-configs, by target and step."""

    def perform(runner: ToolRunner, target: targets.Target, _: object) -> dict[str, Said]:
        return {step.name: runner.run(target, step) for step in STEPS}

    folder = tmp_path_factory.mktemp("tools")
    return said_to_each(jars.ORACLE_VERSION, peer_zookeeper, folder, "quotas-tools", perform)


@pytest.mark.parametrize("step", [step.name for step in STEPS])
def test_kafka_configs_says_the_same_as_to_apache_kafka(said: dict[str, dict[str, Said]], step: str) -> None:
    """The exit code and every line are equal. Quotas of one entity are in the order of a hash map."""
    ours, theirs = (
        (said[name][step].code, sorted(sorted(re.split("[ ,]+", line)) for line in said[name][step].lines))
        for name in targets.NAMES
    )
    assert ours == theirs
