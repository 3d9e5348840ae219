"""Throttles for moves: the topic and broker keys that ``kafka-reassign-partitions --throttle`` sets and removes.

The existing replicas of a moving partition are throttled as leaders, the new ones as followers. Every participating
broker has the rate as a key. Source: ReassignPartitionsCommand.java@3.9.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kafka_zk.base.types import TopicPartition

if TYPE_CHECKING:
    from kafka_zk.clients.admin.admin import Reassignment
    from kafka_zk.clients.admin.blocking_admin import BlockingAdmin

LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
TOPIC_KEYS = (LEADERS, FOLLOWERS)
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def throttled_replicas(
    moves: Mapping["TopicPartition", Sequence[int]],
    present: Mapping["TopicPartition", Sequence[int]],
    moving: Mapping["TopicPartition", "Reassignment"],
) -> tuple[dict[str, dict[str, str]], list[int]]:
    """The topics' keys for ``moves`` and for current moves, and all participating brokers."""
    leaders: dict[str, list[str]] = defaultdict(list)
    followers: dict[str, list[str]] = defaultdict(list)
    brokers: set[int] = set()
    targets = {tp: [*each.adding] for tp, each in moving.items()} | {tp: list(each) for tp, each in moves.items()}
    for tp in sorted(targets):
        sources = list(present.get(tp, ()))
        if tp in moving:
            sources = [each for each in moving[tp].replicas if each not in moving[tp].adding]
        new = [each for each in targets[tp] if each not in sources]
        leaders[tp.topic] += [f"{tp.partition}:{each}" for each in sources]
        followers[tp.topic] += [f"{tp.partition}:{each}" for each in new]
        brokers.update(sources, targets[tp])
    topics = {tp.topic for tp in targets}
    lists = {
        topic: {LEADERS: ",".join(leaders[topic]), FOLLOWERS: ",".join(followers[topic])} for topic in sorted(topics)
    }
    return lists, sorted(brokers)


def apply(admin: "BlockingAdmin", moves: Mapping["TopicPartition", Sequence[int]], bytes_per_second: int) -> list[int]:
    """Throttle ``moves`` before they begin. Returns the brokers with the rate. Raises BrokerError."""

    moving = admin.list_reassignments()
    names = sorted({tp.topic for tp in (*moves, *moving)} & set(admin.list_topics()))
    present = {
        TopicPartition(name, each.partition): each.replicas
        for name, topic in admin.describe_topics(names).items()
        for each in topic.partitions
    }
    lists, brokers = throttled_replicas({tp: moves[tp] for tp in moves if tp in present}, present, moving)
    for topic, keys in lists.items():
        admin.alter_topic_config(topic, keys)
    alive = _alive(admin)
    throttled = [broker for broker in brokers if broker in alive]
    for broker in throttled:
        admin.alter_broker_config(broker, dict.fromkeys(RATES, str(bytes_per_second)))
    return throttled


def remove(admin: "BlockingAdmin", topics: Iterable[str]) -> str:
    """Remove all throttles of these topics and the rates of all brokers. Returns what was removed, "" for nothing.
    Raises BrokerError.
    """
    removed = []
    for broker in _alive(admin):
        found = {
            entry.name
            for entry in admin.describe_broker_configs(broker)
            if entry.name in RATES and entry.source == "DYNAMIC_BROKER_CONFIG"
        }
        if found:
            admin.alter_broker_config(broker, dict.fromkeys(sorted(found)))
            removed.append(f"broker {broker}")
    existing = sorted(set(topics) & set(admin.list_topics()))
    for topic, entries in admin.describe_topic_configs(existing).items() if existing else ():
        found = {entry.name for entry in entries if entry.value and not entry.is_default} & {*TOPIC_KEYS}
        if found:
            admin.alter_topic_config(topic, dict.fromkeys(sorted(found)))
            removed.append(f"topic {topic}")
    return ", ".join(removed)


def _alive(admin: "BlockingAdmin") -> list[int]:
    return sorted(admin.describe_cluster().nodes)
