"""Members of a group for tests: each reads in a thread of its own and remembers its records."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.blocking_consumer import BlockingZookeeperConsumer
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.rebalance.events import MemberRegistered
from tests.integration.processes import wait_for

SESSION_TIMEOUT_MS = 4_000
MakeMember = Callable[..., "Member"]


class Member:
    """A consumer and a thread that reads from it until it is closed."""

    def __init__(self, topics: list[str], reading: bool = True, **options: Any) -> None:
        self.events: list[Event] = []
        subscription = {name: options.pop(name) for name in ("white_list",) if name in options}
        self.consumer = BlockingZookeeperConsumer(
            observe=self.events.append,
            **{
                "zookeeper_session_timeout_ms": SESSION_TIMEOUT_MS,
                "auto_offset_reset": "smallest",
                "auto_commit_interval_ms": 100,
                **options,
            },
        )
        self.consumer.subscribe(topics, **subscription)
        self.offsets: dict[TopicPartition, list[int]] = defaultdict(list)
        self.error: Exception | None = None
        self.consumer.start()
        self._thread = threading.Thread(target=self._read, daemon=True)
        if reading:
            self._thread.start()

    def _read(self) -> None:
        try:
            for record in self.consumer:
                self.offsets[record.tp].append(record.offset)
        except Exception as error:
            self.error = error  # for ``close``, which the test's thread calls

    @property
    def count(self) -> int:
        return sum(len(offsets) for offsets in list(self.offsets.values()))

    @property
    def assignment(self) -> list[TopicPartition]:
        return self.consumer.assignment()

    @property
    def session_id(self) -> int:
        return [event.session_id for event in self.events if isinstance(event, MemberRegistered)][-1]

    def close(self) -> None:
        self.consumer.close()
        if self._thread.is_alive():
            self._thread.join(30)
            assert not self._thread.is_alive()
        assert self.error is None, self.error


@pytest.fixture
def make_member(kafka_zk_cluster: EmbeddedCluster) -> Iterator[MakeMember]:
    """``make_member([topic], group_id=…, **options)``: a member that reads in a thread; closed with the test."""
    with ExitStack() as members:

        def make(topics: list[str], reading: bool = True, **options: Any) -> Member:
            member = Member(
                topics, reading, **{"zookeeper_connect": kafka_zk_cluster.zookeeper_connect, **options}
            )
            members.callback(member.consumer.close)
            return member

        yield make


def write(cluster: EmbeddedCluster, topic: str, partitions: int, count: int) -> None:
    """Write ``count`` records to each partition, and wait for the acknowledgements."""
    with BlockingProducer(bootstrap_servers=cluster.bootstrap, linger_ms=5) as producer:
        for number in range(count):
            for partition in range(partitions):
                producer.send(topic, b"%d" % number, partition=partition)
        producer.flush(60)


def settled(*members: Member, partitions: int) -> None:
    """Wait until the members share the partitions, each owned once and evenly."""

    def shared() -> bool:
        owned = [tp for member in members for tp in member.assignment]
        counts = [len(member.assignment) for member in members]
        return len(owned) == len(set(owned)) == partitions and max(counts) - min(counts) <= 1

    wait_for(shared, f"{partitions} partitions shared by {len(members)} members")
