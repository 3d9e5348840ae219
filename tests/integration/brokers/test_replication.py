"""Three brokers with replicas of every partition, and their faults: acknowledged records survive, and replicas stay
equal.

The producer is librdkafka, idempotent and with acks=all unless a test names other settings.
"""

import shutil
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.storage.records.record_batch import iter_batches
from kafka_zk.storage.records.record_decoder import decode_records
from kafka_zk.testing.cluster import Cluster
from tests.integration.processes import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

BROKERS = [0, 1, 2]
PROPERTIES = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.backoff.ms": "200",
}
TIERED = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "LocalTieredStorage",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "remote.log.manager.task.interval.ms": "300",
}
LOCAL_BYTES = 20_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Every test leaves three running brokers."""
    folder = tmp_path_factory.mktemp("cluster")
    properties = {**PROPERTIES, **TIERED, "rsm.config.dir": str(folder / "tier")}
    with Cluster(3, properties=properties, data=folder) as cluster:
        yield cluster


def quiet(bootstrap: str) -> dict[str, Any]:
    """Disable librdkafka's log of every broken connection, of which these tests make many."""
    return {"bootstrap.servers": bootstrap, "log_level": 0, "topic.metadata.refresh.interval.ms": 300}


def create(
    cluster: EmbeddedCluster, name: str, partitions: int = 1, config: Mapping[str, str] = MappingProxyType({})
) -> None:
    admin = AdminClient(quiet(cluster.bootstrap))
    for created in admin.create_topics([NewTopic(name, partitions, len(BROKERS), config=dict(config))]).values():
        created.result(30)
    wait_for_full_isr(cluster, name)


def leaders_and_isrs(cluster: EmbeddedCluster, topic: str) -> dict[int, tuple[int, list[int]]]:
    """Leader and ISR of each partition, according to a running broker."""
    partitions = AdminClient(quiet(cluster.bootstrap)).list_topics(topic, timeout=20).topics[topic].partitions
    return {number: (found.leader, sorted(found.isrs)) for number, found in partitions.items()}


def leader(cluster: EmbeddedCluster, topic: str) -> int:
    return leaders_and_isrs(cluster, topic)[0][0]


def wait_for_full_isr(cluster: EmbeddedCluster, topic: str) -> None:
    def is_full() -> bool:
        found = leaders_and_isrs(cluster, topic)
        return bool(found) and all(lead >= 0 and isr == BROKERS for lead, isr in found.values())

    wait_for(is_full, f"all replicas of {topic} in sync", 30)


def log_bytes(broker: BrokerProcess, topic: str, partition: int) -> bytes:
    """The log of a broker's replica."""
    segments = sorted((broker.folder / "data" / f"{topic}-{partition}").glob("*.log"))
    return b"".join(Path(segment).read_bytes() for segment in segments)


def wait_for_equal_replicas(cluster: EmbeddedCluster, topic: str, partitions: int = 1) -> None:
    """Wait for equal replicas. No record is written meanwhile, so the logs end at the high watermark."""
    def are_equal() -> bool:
        return all(
            len({log_bytes(broker, topic, partition) for broker in cluster.brokers}) == 1
            for partition in range(partitions)
        )

    wait_for(are_equal, f"equal replicas of {topic}", 20)


def records(broker: BrokerProcess, topic: str, partition: int) -> dict[int, bytes]:
    """Value by offset."""
    data = log_bytes(broker, topic, partition)
    return {
        record.offset: record.value or b""
        for position, _ in iter_batches(data)
        for record in decode_records(data, position)
    }


class Load:
    """A thread that sends numbered records without a pause until ``stop``, and remembers the acknowledged ones."""

    def __init__(self, cluster: EmbeddedCluster, topic: str, partitions: int) -> None:
        self.acknowledged: dict[int, dict[int, bytes]] = defaultdict(dict)
        self.failed: list[str] = []
        self.count = 0
        self._partitions = partitions
        self._topic = topic
        self._ends = threading.Event()
        self._producer = Producer(
            {**quiet(cluster.bootstrap), "enable.idempotence": True, "acks": "all", "linger.ms": 2}
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.is_set():
            value = f"{self.count}".encode()
            self._producer.produce(
                self._topic, value, partition=self.count % self._partitions, on_delivery=self._delivered
            )
            self.count += 1
            self._producer.poll(0.002)

    def _delivered(self, error: object, message: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged[message.partition()][message.offset()] = message.value()

    @property
    def acknowledged_count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def wait_for_more(self, count: int = 50) -> None:
        """Wait for ``count`` more acknowledgements."""
        wanted = self.acknowledged_count + count
        wait_for(lambda: self.acknowledged_count >= wanted, "more acknowledgements", 30)

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()
        assert self._producer.flush(30) == 0
        assert self.failed == []

    def check(self, cluster: EmbeddedCluster) -> None:
        """Each record is at its acknowledged offset, once, and in the order of sending."""
        wait_for_equal_replicas(cluster, self._topic, self._partitions)
        for partition in range(self._partitions):
            found = records(cluster.brokers[0], self._topic, partition)
            acknowledged = self.acknowledged[partition]
            assert {offset: found.get(offset) for offset in acknowledged} == acknowledged
            numbers = [int(value) for _, value in sorted(found.items())]
            assert numbers == sorted(set(numbers))
            assert len(numbers) == len(range(partition, self.count, self._partitions))


def test_nothing_acknowledged_is_lost_with_a_leader(cluster: Cluster) -> None:
    """The leader is killed with SIGKILL while records are written, and comes back into the ISR."""
    create(cluster, "killed", 3)
    load = Load(cluster, "killed", 3)
    try:
        load.wait_for_more()
        victim = leader(cluster, "killed")
        cluster.brokers[victim].kill()
        wait_for(
            lambda: all(
                lead not in (victim, -1) and victim not in isr
                for lead, isr in leaders_and_isrs(cluster, "killed").values()
            ),
            "other leaders",
        )
        load.wait_for_more()
        cluster.restart_broker(victim)
        wait_for_full_isr(cluster, "killed")
        load.wait_for_more()
    finally:
        load.stop()
    load.check(cluster)


def test_a_paused_follower_leaves_the_isr_and_comes_back(cluster: Cluster) -> None:
    """The follower leaves after replica.lag.time.max.ms, long before its session ends, so acks=all continues without
    it.
    """
    create(cluster, "paused")
    load = Load(cluster, "paused", 1)
    try:
        load.wait_for_more()
        lead = leader(cluster, "paused")
        controller = cluster.controller_id()
        victim = next(broker for broker in BROKERS if broker not in (lead, controller))
        with cluster.brokers[victim].paused():
            wait_for(lambda: victim not in leaders_and_isrs(cluster, "paused")[0][1], "a smaller ISR", 10)
            load.wait_for_more()
        wait_for_full_isr(cluster, "paused")
    finally:
        load.stop()
    load.check(cluster)
    assert leader(cluster, "paused") == lead


def test_an_old_leader_gives_up_what_was_not_replicated(cluster: Cluster) -> None:
    """The old leader truncates the records with acks=1 that only its log had, and all replicas become equal."""
    create(cluster, "cut")
    lead = leader(cluster, "cut")
    followers = [broker for broker in cluster.brokers if broker.broker_id != lead]
    producer = Producer({**quiet(cluster.bootstrap), "acks": 1, "linger.ms": 0})
    producer.produce("cut", b"for all")
    assert producer.flush(10) == 0
    wait_for_equal_replicas(cluster, "cut")
    for follower in followers:
        follower.pause()
    for number in range(5):  # responses to fetches that already wait may still reach the followers
        producer.produce("cut", f"alone {number}".encode())
        assert producer.flush(10) == 0
    assert len(records(cluster.brokers[lead], "cut", 0)) == 6
    cluster.brokers[lead].kill()
    for follower in followers:
        follower.resume()
    wait_for(lambda: leader(cluster, "cut") not in (lead, -1), "another leader")
    kept = len(records(followers[0], "cut", 0))
    assert kept < 6
    second = Producer({**quiet(cluster.bootstrap), "acks": "all"})
    second.produce("cut", b"after")
    assert second.flush(20) == 0
    cluster.restart_broker(lead)
    wait_for_full_isr(cluster, "cut")
    wait_for_equal_replicas(cluster, "cut")
    found = records(cluster.brokers[lead], "cut", 0)
    assert (found[0], found[kept]) == (b"for all", b"after")
    assert "cut-0 was truncated from 6" in cluster.brokers[lead].process.output()


def test_a_stopping_broker_hands_its_leaderships_over_first(cluster: Cluster) -> None:
    """No partition is without a leader, and no record waits for the end of a session."""
    create(cluster, "handed", 3)
    load = Load(cluster, "handed", 3)
    try:
        load.wait_for_more()
        victim = leader(cluster, "handed")
        assert cluster.brokers[victim].stop() == 0
        assert all(lead not in (victim, -1) for lead, _ in leaders_and_isrs(cluster, "handed").values())
        load.wait_for_more()
        cluster.restart_broker(victim)
        wait_for_full_isr(cluster, "handed")
    finally:
        load.stop()
    load.check(cluster)


def test_a_tiered_topic_outlives_its_leader_and_an_empty_broker_copies_only_the_local_part(cluster: Cluster) -> None:
    """The leader is killed with SIGKILL and loses its disk. librdkafka reads the records that exist only in remote
    storage."""
    config = {"remote.storage.enable": "true", "segment.bytes": "10000", "local.retention.bytes": str(LOCAL_BYTES)}
    create(cluster, "tiered", config=config)
    load = Load(cluster, "tiered", 1)
    try:
        load.wait_for_more()
        wait_for(lambda: all(local_start(broker) > 500 for broker in cluster.brokers), "remote segments", 60)
        victim = leader(cluster, "tiered")
        cluster.brokers[victim].kill()
        wait_for(lambda: leader(cluster, "tiered") not in (victim, -1), "another leader")
        load.wait_for_more()
    finally:
        load.stop()
    assert read_all(cluster, "tiered", len(load.acknowledged[0])) == load.acknowledged[0]
    returned = cluster.brokers[victim]
    shutil.rmtree(returned.log_dir)
    cluster.restart_broker(victim)
    wait_for_full_isr(cluster, "tiered")
    fetched_bytes = sum(path.stat().st_size for path in tiered_files(returned, "*.log*"))
    local_bytes = len(log_bytes(cluster.brokers[leader(cluster, "tiered")], "tiered", 0))
    assert 0 < fetched_bytes <= 1.2 * local_bytes
    assert local_start(returned) > 500


def local_start(broker: BrokerProcess) -> int:
    """The first offset of the local log of the tiered topic."""
    return min(int(path.stem) for path in tiered_files(broker, "*.log"))


def tiered_files(broker: BrokerProcess, names: str) -> list[Path]:
    return list((broker.folder / "data" / "tiered-0").glob(names))


def read_all(cluster: EmbeddedCluster, topic: str, count: int) -> dict[int, bytes]:
    """Value by offset, of ``count`` records from the first one on."""
    consumer = Consumer({**quiet(cluster.bootstrap), "group.id": "none", "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: dict[int, bytes] = {}

    def has_all() -> bool:
        for message in consumer.consume(500, 0.2):
            assert message.error() is None, message.error()
            offset, value = message.offset(), message.value()
            assert offset is not None and value is not None and found.setdefault(offset, value) == value
        return len(found) >= count

    wait_for(has_all, "all records", 60)
    consumer.close()
    return found
