"""`range` and `roundrobin` of broker-side groups, compared with RangeAssignor and RoundRobinAssignor of Kafka's
consumer.

One JVM for each version of the Java consumer computes the assignments of several hundred random groups. Every member
must get the same partitions from our assignor as from Kafka's; otherwise, partitions would move when the leader
changes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.assignors import ASSIGNORS, Assigned, GroupMemberSubscription
from kafka_zk.protocol.consumer_protocol import Subscription
from tests.peers import jars
from tests.peers.clients.line_process import LineProcess

pytestmark = pytest.mark.peers

_GROUPS = 200
_TOPICS = ("a", "b", "c.d", "e_f", "g")
_MISSING = "missing"


@pytest.fixture(scope="module", params=[jars.ORACLE_VERSION, jars.NEWEST_VERSION])
def kafka(request: pytest.FixtureRequest, peer_tools: None) -> Iterator[LineProcess]:
    driver = LineProcess(request.param, "AssignorDriver")
    yield driver
    driver.close()


def _random_group(rng: random.Random) -> tuple[list[GroupMemberSubscription], dict[str, int]]:
    """The group may have different subscriptions, static members, and empty or missing topics."""
    shared = rng.sample([*_TOPICS, _MISSING], rng.randint(1, len(_TOPICS)))
    is_equal = rng.random() < 0.25
    members = []
    for number in range(rng.randint(1, 9)):
        topics = shared if is_equal else rng.sample([*_TOPICS, _MISSING], rng.randint(1, len(_TOPICS)))
        instance = f"i{rng.randrange(100)}-{number}" if rng.random() < 0.3 else None
        subscription = Subscription(tuple(sorted(topics)))
        members.append(GroupMemberSubscription(f"c-{rng.getrandbits(32):08x}-{number}", instance, subscription))
    return members, {topic: rng.randint(0, 12) for topic in _TOPICS}


def _decided(
    kafka: LineProcess, assignor: str, members: Sequence[GroupMemberSubscription], counts: Mapping[str, int]
) -> Assigned:
    """The assignment of every member by Kafka's assignor."""
    described = [
        {"member_id": each.member_id, "instance_id": each.group_instance_id, "topics": each.subscription.topics}
        for each in members
    ]
    answer = json.loads(kafka.ask([json.dumps({"assignor": assignor, "counts": counts, "members": described})]))
    return {
        each.member_id: frozenset(TopicPartition(topic, number) for topic, number in answer.get(each.member_id, []))
        for each in members
    }


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_random_groups_are_assigned_alike(kafka: LineProcess, assignor: str) -> None:
    rng = random.Random(7)
    for number in range(_GROUPS):
        members, counts = _random_group(rng)
        there = {topic: count for topic, count in counts.items() if count}
        assert ASSIGNORS[assignor].assign(members, there) == _decided(kafka, assignor, members, there), number
