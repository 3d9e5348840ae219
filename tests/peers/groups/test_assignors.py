"""`range` and `roundrobin` compared with the assignors of Kafka 0.8.2.2 and 0.10.2.2, which read groups that we wrote.

Kafka's AssignmentContext reads registrations and topics from a real ZooKeeper, so this also shows that the Scala
consumer understands our registrations. One JVM for each version computes the assignments of several hundred random
groups.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.assignment import Assignment, consumer_of, group_snapshot
from kafka_zk.rebalance.group_strategy import STRATEGIES
from kafka_zk.rebalance.topic_filter import InvalidTopicFilter, topic_filter
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.pipeline import ensure_paths, results
from kafka_zk.registry.znodes import consumers
from kafka_zk.registry.znodes.consumers import WHITE_LIST, ConsumerRegistration
from kafka_zk.registry.znodes.topics import TOPICS, TopicAssignment, encode_assignment, topic_path
from tests.peers import jars
from tests.peers.clients.base import ClientFailed
from tests.peers.clients.old_clients import OldDriver
from tests.rebalance.golden import GOLDEN, PARTITIONS_OF
from tests.rebalance.groups import random_group
from tests.rebalance.java_regexes import REFUSED, REGEXES, TOPIC_NAMES, random_regex

pytestmark = pytest.mark.peers

_CHROOT = "/assignors"
_GROUPS = 150
_ASKED_MEMBERS = 3
_REGEXES = 1500
_REFUSAL = "Round-robin assignment is allowed only if"
_CLASSIC = ("range", "roundrobin")
_NUMBERS_OF = {topic: range(count) for topic, count in PARTITIONS_OF.items()}

Members = Mapping[str, ConsumerRegistration]


def _random_groups() -> dict[str, Members]:
    """The groups; occasionally, a member subscribes to a topic that does not exist."""
    rng = random.Random(6)
    topics = [*PARTITIONS_OF, "missing"]
    return {f"random-{number}": random_group(rng, topics) for number in range(_GROUPS)}


@pytest.fixture(scope="module")
def random_groups() -> dict[str, Members]:
    return _random_groups()


@pytest.fixture(scope="module", params=jars.LEGACY_VERSIONS)
def kafka(
    request: pytest.FixtureRequest, peer_zookeeper: str, random_groups: dict[str, Members]
) -> Iterator[OldDriver]:
    """A JVM with the old assignors, connected to a ZooKeeper that holds all groups."""
    version: str = request.param
    address = f"{peer_zookeeper}{_CHROOT}-{version}"
    with KazooBlockingClient(address) as client:
        run_blocking(_write_topics(client))
        for group, members in (random_groups | {name: golden.members for name, golden in GOLDEN.items()}).items():
            run_blocking(_write_group(client, group, members))
    driver = OldDriver(version, "AssignorDriver")
    driver.ask("connect", address)
    yield driver
    driver.close()


async def _write_topics(client: KazooBlockingClient) -> None:
    await ensure_paths(client, [TOPICS])
    assignments = {topic: {number: [0] for number in range(count)} for topic, count in PARTITIONS_OF.items()}
    await results(
        client.create(topic_path(topic), encode_assignment(TopicAssignment(replicas)))
        for topic, replicas in assignments.items()
    )


async def _write_group(client: KazooBlockingClient, group: str, members: Members) -> None:
    await ensure_paths(client, [consumers.ids_path(group)])
    await results(
        client.create(consumers.id_path(group, consumer_id), consumers.encode_registration(registration))
        for consumer_id, registration in members.items()
    )


def _decided(kafka: OldDriver, strategy: str, group: str, consumer_id: str) -> Assignment:
    """The assignment that one of Kafka's members would compute; 0.8.2 reports only its own partitions."""
    lines = kafka.ask("assign", strategy, group, "true", consumer_id)
    return {TopicPartition(topic, int(partition)): thread for topic, partition, thread in lines}


def _agrees(kafka: OldDriver, strategy: str, group: str, members: Members, asked: Iterable[str]) -> Assignment:
    """Ask several of Kafka's members; each must have the same assignment as ours. Returns all of their assignments."""
    ours = STRATEGIES[strategy].assignor.assign(group_snapshot(members, _NUMBERS_OF))
    told: dict[TopicPartition, str] = {}
    for consumer_id in asked:
        decided = _decided(kafka, strategy, group, consumer_id)
        mine = {partition: thread for partition, thread in ours.items() if consumer_of(thread) == consumer_id}
        assert mine == {
            partition: thread for partition, thread in decided.items() if consumer_of(thread) == consumer_id
        }, (group, consumer_id)
        assert decided.items() <= ours.items(), (group, consumer_id)
        told.update(decided)
    return told


@pytest.mark.parametrize("strategy", _CLASSIC)
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_tables_are_what_kafka_decides(kafka: OldDriver, name: str, strategy: str) -> None:
    """All members of the group are asked; together, their partitions are the whole table."""
    golden = GOLDEN[name]
    if _refuses(kafka, strategy, golden.members):
        with pytest.raises(ClientFailed, match=_REFUSAL):
            _decided(kafka, strategy, name, min(golden.members))
    else:
        told = _agrees(kafka, strategy, name, golden.members, golden.members)
        assert told == golden.assignment(strategy)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("strategy", _CLASSIC)
def test_random_groups_are_dealt_alike(kafka: OldDriver, strategy: str, random_groups: dict[str, Members]) -> None:
    """The groups have equal and different subscriptions, white and black lists, and topics that are empty or
    missing.
    """
    rng = random.Random(1)
    dealt = 0
    for group, members in random_groups.items():
        asked = rng.sample(sorted(members), min(len(members), _ASKED_MEMBERS))
        if _refuses(kafka, strategy, members):
            with pytest.raises(ClientFailed, match=_REFUSAL):
                _decided(kafka, strategy, group, asked[0])
        else:
            dealt += len(_agrees(kafka, strategy, group, members, asked))
    assert dealt > 5 * _GROUPS


def test_white_lists_match_as_in_java(kafka: OldDriver) -> None:
    """Kafka accepts every expression that we accept, and matches the same topics with it. The Java expressions that we
    refuse are known.
    """
    rng = random.Random(2)
    differences, refused_by_us_only = [], set()
    for regex in [*REGEXES, *(random_regex(rng) for _ in range(_REGEXES))]:
        try:
            answer: str | None = kafka.ask("matches", regex, *TOPIC_NAMES)[0][0]
        except ClientFailed:
            answer = None
        try:
            allowed = topic_filter(WHITE_LIST, regex)
        except InvalidTopicFilter:
            if answer is not None:
                refused_by_us_only.add(regex)
            continue
        ours = "".join("01"[allowed(name)] for name in TOPIC_NAMES)
        if ours != answer:
            differences.append((regex, ours, answer))
    assert not differences
    assert refused_by_us_only & set(REGEXES) <= set(REFUSED)


def _refuses(kafka: OldDriver, strategy: str, members: Members) -> bool:
    """True if Kafka's roundrobin refuses the group: 0.8.2 requires equal subscriptions."""
    threads = group_snapshot(members, _NUMBERS_OF).threads
    return strategy == "roundrobin" and kafka.version == jars.MAGIC_0_VERSION and len(set(threads.values())) > 1
