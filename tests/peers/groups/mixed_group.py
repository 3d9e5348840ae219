"""A group through ZooKeeper whose members are our consumer and the Scala consumers of 0.8.2.2 and 0.10.2.2.

Each member is a process that writes a journal of what it consumes. The expected assignment is computed here from
Kafka's rule for `range`, not by our assignor.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import confluent_kafka

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.consumers import ConsumerRegistry
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.owners import OwnerRegistry
from kafka_zk.registry.znodes.consumers import consumer_of, thread_id
from tests.bench.rebalance.processes import MemberProcess
from tests.peers import jars, java
from tests.peers.processes import wait_until
from tests.peers.targets import Target

OURS = "kafka-zk"
KINDS = (OURS, *jars.LEGACY_VERSIONS)
SESSION_TIMEOUT_MS = 5000
SETTLED_S = 60
CONSUMED_S = 60

_JVM_FLAGS = ("-Xmx128M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_PAUSE_S = 0.01


class Position(NamedTuple):
    """The position of a record."""

    partition: int
    offset: int


class Member:
    """One process of the group. It has joined when the constructor returns, but may own nothing yet."""

    def __init__(self, kind: str, number: int, group: MixedGroup) -> None:
        self.kind = kind
        self._name = f"m{number}"
        self.id = f"{group.name}_{self._name}"
        config = {
            "zookeeper.connect": group.target.zookeeper,
            "group.id": group.name,
            "zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS,
            "auto.offset.reset": "smallest",
            "auto.commit.interval.ms": 500,
            "rebalance.max.retries": 20,
            "rebalance.backoff.ms": 500,
            "partition.assignment.strategy": group.ours if kind == OURS else "range",
            **group.config,
        }
        arguments = [group.topic, str(group.folder), *(f"{key}={value}" for key, value in config.items())]
        if kind == OURS:
            command = [sys.executable, "-m", "tests.peers.clients.group_member", *arguments]
        else:
            command = java.driver_command(kind, "GroupMember", arguments, _JVM_FLAGS)
        self.log = group.folder / f"{self._name}.log"
        self._written = group.folder / self._name
        self._process = MemberProcess(command, self.log)
        self._process.tell("join", [self._name])
        self._process.done(f"{kind} {self.id}: join")

    def leave(self) -> None:
        """The member commits, leaves the group and ends."""
        self._process.tell("leave", [self._name])
        self._process.done(f"{self.kind} {self.id}: leave")
        self.kill()

    def kill(self) -> None:
        """The process ends without a request; its session expires later."""
        self._process.kill()

    def consumed(self) -> list[Position]:
        """Every record in its journal, in order."""
        lines = self._written.read_text().split("\n")[:-1] if self._written.exists() else []
        return [Position(int(partition), int(offset)) for _, partition, offset in map(str.split, lines)]


class Writer:
    """Writes records to all partitions in turn, until stopped.

    Args:
        may_fail: failed records do not count while the broker restarts; otherwise, all must be acknowledged.
    """

    def __init__(self, target: Target, topic: str, partition_count: int, *, may_fail: bool = False) -> None:
        self._may_fail = may_fail
        self._acknowledged: set[Position] = set()
        config: dict[str, str | int | float | bool] = {"bootstrap.servers": target.bootstrap, "log_level": 3}
        if may_fail:  # for a second, the client forgets a topic that a broker which has just started did not name
            config |= {"log_level": 0, "topic.metadata.refresh.interval.ms": 1000}
        self._producer = confluent_kafka.Producer(config)
        self._topic = topic
        self._partition_count = partition_count
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        """The number of acknowledged records so far."""
        return len(self._acknowledged)

    def stop(self) -> set[Position]:
        """Stop; returns all acknowledged records."""
        self._stopped.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        return self._acknowledged

    def _run(self) -> None:
        number = 0
        while not self._stopped.wait(_PAUSE_S):
            partition = number % self._partition_count
            try:
                self._producer.produce(self._topic, str(number), partition=partition, on_delivery=self._delivered)
            except confluent_kafka.KafkaException:  # a broker that has just started may not know its topics yet
                if not self._may_fail:
                    raise
            self._producer.poll(0)
            number += 1

    def _delivered(self, error: object, message: confluent_kafka.Message) -> None:
        if error is not None and self._may_fail:
            return
        assert error is None, error
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        self._acknowledged.add(Position(partition, offset))


class MixedGroup:
    """Starts, stops and kills members, and reports when and on which owners they agree."""

    def __init__(
        self, target: Target, name: str, topic: str, partition_count: int, folder: Path, ours: str = "cooperative,range"
    ) -> None:
        """``ours``: the strategies that our members list."""
        self.target = target
        self.config: dict[str, str] = {}  # additional configuration of members that join later
        self.ours = ours
        self.name = name
        self.topic = topic
        self.partition_count = partition_count
        self.folder = folder
        folder.mkdir()
        self.members: list[Member] = []  # including former members
        self.live: list[Member] = []
        self.write()
        self._client = KazooBlockingClient(target.zookeeper, 10_000)
        self._client.start()

    def close(self) -> None:
        """End all processes, and the writing."""
        self._writer.stop()
        for member in self.live:
            member.kill()
        self._client.close()

    def write(self) -> None:
        """Start or resume writing to the topic."""
        self._writer = Writer(self.target, self.topic, self.partition_count)

    def join(self, kind: str) -> Member:
        """A new member."""
        member = Member(kind, len(self.members), self)
        self.members.append(member)
        self.live.append(member)
        return member

    def leave(self, member: Member) -> None:
        """The member leaves and ends."""
        self.live.remove(member)
        member.leave()

    def kill(self, member: Member) -> None:
        """The process ends without a request."""
        self.live.remove(member)
        member.kill()

    def registered(self) -> set[str]:
        """The consumer ids of the group."""
        return set(run_blocking(ConsumerRegistry(self._client, self.name).members()))

    def owners(self) -> dict[int, str]:
        """The owning thread by partition."""
        owners = run_blocking(OwnerRegistry(self._client, self.name).owners([self.topic]))
        return {tp.partition: thread for tp, thread in owners.items()}

    def offsets(self) -> dict[int, int]:
        """The stored offset by partition."""
        wanted = [TopicPartition(self.topic, number) for number in range(self.partition_count)]
        stored = run_blocking(OffsetRegistry(self._client, self.name).fetch(wanted))
        return {tp.partition: each.offset for tp, each in stored.items()}

    def settle(self) -> None:
        """Wait until exactly the live members are registered and own the right partitions.

        Raises: TimeoutError with the end of every log.
        """
        try:
            wait_until(self._settled, SETTLED_S, f"{self.name} to settle")
        except TimeoutError as late:
            state = f"live {sorted(member.id for member in self.live)}, registered {sorted(self.registered())}"
            logs = "\n".join(f"--- {each.kind} {each.id}\n{each.log.read_text()[-2000:]}" for each in self.live)
            raise TimeoutError(f"{late}: {state}, owners {self.owners()}\n{logs}") from late

    def _settled(self) -> bool:
        ids, owners = {member.id for member in self.live}, self.owners()
        if self.registered() != ids or len(owners) != self.partition_count:
            return False
        if all(member.kind == OURS for member in self.live):  # the strategy is then the first in the members' list
            return {consumer_of(thread) for thread in owners.values()} <= ids
        return owners == range_assignment(ids, self.partition_count)

    def consumed(self) -> set[Position]:
        """The consumed records of all members, including former ones."""
        return {position for member in self.members for position in member.consumed()}

    def wait_consumed(self) -> None:
        """Stop writing, and wait until all written records are consumed. Raises: TimeoutError naming the missing ones.
        """
        written = self._writer.stop()
        try:
            wait_until(lambda: written <= self.consumed(), CONSUMED_S, "all records to be consumed")
        except TimeoutError as late:
            missing = sorted(written - self.consumed())
            raise TimeoutError(f"{late}: {len(missing)} of {len(written)} missing: {missing[:20]}") from late


def range_assignment(consumer_ids: Iterable[str], partition_count: int) -> dict[int, str]:
    """Kafka's `range` for one topic and members of one thread each."""
    threads = sorted(thread_id(consumer_id, 0) for consumer_id in consumer_ids)
    each, more = divmod(partition_count, len(threads))
    assigned: dict[int, str] = {}
    for index, thread in enumerate(threads):
        start = each * index + min(index, more)
        assigned.update(dict.fromkeys(range(start, start + each + (index < more)), thread))
    return assigned
