"""Brokers of ours and Apache Kafka's 3.9.1 in one cluster, the descriptions by the tools of both, and the members of a
group.
"""

import contextlib
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException

from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.consumer.blocking_consumer import BlockingConsumer
from tests.peers import apache_kafka, java
from tests.peers.jars import ORACLE_VERSION
from tests.soak.client_thread import ClientThread
from tests.soak.replicated_cluster import OURS, Kind
from tests.soak.replication_rounds import ReplicationRounds

_HEAP = "384M"
_TOPICS = "org.apache.kafka.tools.TopicCommand"
_REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
_TOOL_S = 60
_PARTITION = re.compile(r"Partition: (\d+)\s+Leader: (\S+)\s+Replicas: (\S*)\s+Isr: (\S*)")


def small_kafka(properties: Path) -> list[str]:
    """The command in Kafka's scripts, with a heap that is small enough for five brokers on one machine."""
    return [
        part.replace("1G", _HEAP) if part.startswith("-Xm") else part
        for part in apache_kafka.broker_command(properties)
    ]


APACHE_KAFKA = Kind("Apache Kafka", small_kafka, restarts_at_once=False)
KINDS = (OURS, APACHE_KAFKA)


def mixed_properties(protocol: str) -> dict[str, str]:
    """Properties for all brokers, in addition to the campaign's own. A JVM needs seconds to create fifty logs, or to
    respond on a busy machine.
    """
    return {
        "inter.broker.protocol.version": protocol,
        "offsets.topic.num.partitions": "8",
        "controller.socket.timeout.ms": "15000",
    }


class Described(NamedTuple):
    """A partition, as a tool shows it."""

    leader: str
    replicas: tuple[int, ...]
    isr: frozenset[int]


def described_by_kafka(bootstrap: str, topic: str) -> dict[int, Described]:
    """The partitions in the output of kafka-topics.sh --describe."""
    arguments = ["--bootstrap-server", bootstrap, "--describe", "--topic", topic]
    return _partitions(java.run_tool(ORACLE_VERSION, _TOPICS, arguments).text)


def described_by_us(bootstrap: str, topic: str) -> dict[int, Described]:
    """The partitions in the output of ``kafka-zk topics describe``."""
    command = [sys.executable, "-m", "kafka_zk", "topics", "describe", "--bootstrap-server", bootstrap]
    done = subprocess.run(
        [*command, "--topic", topic], capture_output=True, text=True, timeout=_TOOL_S, check=True
    )
    return _partitions(done.stdout)


def _partitions(text: str) -> dict[int, Described]:
    return {
        int(number): Described(leader, _ids(replicas), frozenset(_ids(isr)))
        for number, leader, replicas, isr in _PARTITION.findall(text)
    }


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(",") if each)


def reassign(bootstrap: str, what: str, file: Path) -> bool:
    """Run ``kafka-zk reassign`` with a file of moves; returns whether it succeeded."""
    command = [sys.executable, "-m", "kafka_zk", "reassign", what, str(file), "--bootstrap-server", bootstrap]
    return subprocess.run(command, capture_output=True, timeout=_TOOL_S, check=False).returncode == 0


def reassign_by_kafka(bootstrap: str, what: str, file: Path, *more: str) -> str:
    """The output of kafka-reassign-partitions.sh. Raises: JavaFailed."""
    arguments = ["--bootstrap-server", bootstrap, what, "--reassignment-json-file", str(file), *more]
    return java.run_tool(ORACLE_VERSION, _REASSIGN, arguments).text


class GroupMember(ClientThread):
    """A member of a group that commits the records it has read; ``values`` has all of them, by partition."""

    def __init__(self) -> None:
        self.values: dict[int, set[bytes]] = defaultdict(set)
        super().__init__()


class LibrdkafkaMember(GroupMember):
    name = "librdkafka's member"

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        super().__init__()
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap, "log_level": 0, "group.id": group, "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "topic.metadata.refresh.interval.ms": 300, "socket.timeout.ms": 10000,
        })  # fmt: skip
        self._consumer.subscribe([topic])

    def _run(self) -> None:
        while not self._ends.is_set():
            messages = [each for each in self._consumer.consume(500, 0.2) if each.error() is None]
            for message in messages:
                partition = message.partition()
                assert partition is not None
                self.values[partition].add(message.value() or b"")
            if messages:
                self._commit()
        self._consumer.close()

    def _commit(self) -> None:
        with contextlib.suppress(KafkaException):  # the records are then read again
            self._consumer.commit(asynchronous=False)


class OurMember(GroupMember):
    name = "our member"

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        super().__init__()
        self._consumer = BlockingConsumer(
            [topic], bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False,
            auto_offset_reset="earliest",
        )  # fmt: skip

    def _run(self) -> None:
        while not self._ends.is_set():
            records = self._consumer.poll(200)
            for record in records:
                self.values[record.partition].add(record.value or b"")
            if records:
                with contextlib.suppress(KafkaError):  # the records are then read again
                    self._consumer.commit()
        self._consumer.close()


def members(bootstrap: str, topic: str, group: str = "group") -> list[GroupMember]:
    """Two members of one group: librdkafka's and ours."""
    return [LibrdkafkaMember(bootstrap, topic, group), OurMember(bootstrap, topic, group)]


def not_read(rounds: ReplicationRounds, group: Sequence[GroupMember]) -> set[bytes]:
    """Acknowledged records that no member received."""
    read = {value for member in group for values in member.values.values() for value in values}
    return {each.value for sender in rounds.senders for each in sender.acknowledged} - read
