"""ZooKeeper and brokers of both kinds, ours and Apache Kafka 3.9.1, as processes that are killed and started again."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from tests.peers.apache_kafka import broker_command
from tests.power import evidence

OURS, KAFKA = "ours", "kafka"
KINDS = (OURS, KAFKA)
TICK_TIME_MS = 500
START_TIMEOUT_S = 60
_POLL_S = 0.03


class NotServing(Exception):
    """A broker ended, or a partition had no leader in time."""


def zookeeper(folder: Path, port: int) -> EmbeddedZooKeeper:
    """A ZooKeeper that syncs each write; its data is in ``folder``."""
    return EmbeddedZooKeeper(folder, port=port, tick_time_ms=TICK_TIME_MS)


def broker(
    kind: str, folder: Path, broker_id: int, port: int, log_dirs: Sequence[Path], connect: str,
    properties: Mapping[str, str],
) -> BrokerProcess:  # fmt: skip
    """A broker that is not started yet; its configuration and log are in ``folder``."""
    made = BrokerProcess(folder, broker_id, port, connect, {**properties, "log.dirs": ",".join(map(str, log_dirs))})
    if kind == KAFKA:
        made.process.command = broker_command(made.properties_file)
    else:
        made.process.command[1:1] = evidence.STACKS_OF_OURS
    return made


def last_exception(process: BrokerProcess) -> str:
    """The last exception that a Java broker logged, and its message; empty if there is none."""
    found = re.findall(r"^(?:Caused by: )?[\w.]+(?:Exception|Error): .*", process.process.output(), re.MULTILINE)
    return found[-1] if found else ""


def forget_dead(connect: str, broker_ids: Sequence[int], before_ms: float) -> None:
    """Delete the registrations that killed brokers made before the given time, as the end of their sessions would."""
    client = KazooClient(connect)
    client.start()
    try:
        for path in ("/controller", *(f"/brokers/ids/{each}" for each in broker_ids)):
            with suppress(NoNodeError):
                data, stat = client.get(path)
                names_dead = path != "/controller" or any(b'"brokerid":%d' % each in data for each in broker_ids)
                if names_dead and stat.ctime < before_ms:
                    client.delete(path)
    finally:
        client.stop()
        client.close()


@contextmanager
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    """kafka-python's administration client."""
    client = KafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=20_000)
    try:
        yield client
    finally:
        client.close()


def leaders(bootstrap: str) -> dict[tuple[str, int], tuple[int, frozenset[int]]]:
    """Leader and ISR of every partition that a broker knows. Raises: KafkaError."""
    with admin(bootstrap) as client:
        return leaders_seen(client)


def leaders_seen(client: KafkaAdminClient) -> dict[tuple[str, int], tuple[int, frozenset[int]]]:
    """Like ``leaders``, with a connected client. Raises: KafkaError."""
    return {
        (topic["name"], each["partition_index"]): (each["leader_id"], frozenset(each["isr_nodes"]))
        for topic in client.describe_topics()
        for each in topic["partitions"]
    }


def partition(topic: str, number: int) -> TopicPartition:
    """The partition in the form that kafka-python's clients require."""
    return TopicPartition(topic, number)


def wait_for_leaders(process: BrokerProcess, topics: Sequence[str], timeout_s: float = START_TIMEOUT_S) -> None:
    """Wait until the broker leads partition 0 of each topic. Raises: NotServing."""
    deadline_s = time.monotonic() + timeout_s
    wanted = [(topic, 0) for topic in topics]
    missing = wanted
    while missing:
        if not process.alive:
            raise NotServing(process.process.describe_end())
        if time.monotonic() > deadline_s:
            raise NotServing(f"no leader within {timeout_s:g} s for {missing[:5]}{process.process.recent_output()}")
        time.sleep(_POLL_S)
        if process.view() is None:
            continue
        with suppress(KafkaError, OSError):
            seen = leaders(process.bootstrap)
            missing = [each for each in wanted if seen.get(each, (-1,))[0] != process.broker_id]
