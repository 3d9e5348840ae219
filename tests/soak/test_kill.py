"""kill -9 in the middle of an idempotent load: every acknowledged record is there exactly once, in order."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.clients.producer.future import RecordFuture
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.clients import create_topic
from kafka_zk.testing.zookeeper import Chroot
from tests.soak.brokers import crashed_broker_returns, one_broker

pytestmark = pytest.mark.integration

PARTITIONS = 3
RECORDS_AFTER = 300
OUTCOME_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def broker(zookeeper_server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:  # type: ignore[no-untyped-def]
    with one_broker(Chroot(zookeeper_server, "/kill"), tmp_path_factory.mktemp("kill")) as cluster:
        yield cluster


def test_every_acknowledged_record_is_there_once(
    broker: EmbeddedCluster, zookeeper_server: object, process_campaign_seed: int
) -> None:
    rng = random.Random(process_campaign_seed)
    topic = f"kill-{process_campaign_seed}"
    create_topic(broker.bootstrap, topic, PARTITIONS, {"segment.bytes": str(rng.choice((100_000, 1 << 30)))})
    is_back = threading.Event()
    with (
        ThreadPoolExecutor(1) as background,
        BlockingProducer(
            bootstrap_servers=broker.bootstrap,
            enable_idempotence=True,
            linger_ms=rng.choice((0, 5)),
            retry_backoff_ms=20,
        ) as producer,
    ):
        producer.partitions_for(topic)
        loading = background.submit(load, producer, topic, rng, is_back)
        threading.Event().wait(rng.uniform(0.01, 0.6))
        try:
            crashed_broker_returns(broker)
        finally:
            is_back.set()
        sent = loading.result()
        producer.flush(OUTCOME_TIMEOUT_S)
    check(broker, topic, sent)


def load(
    producer: BlockingProducer, topic: str, rng: random.Random, is_back: threading.Event
) -> dict[int, list[tuple[bytes, RecordFuture]]]:
    """Send without a pause until the broker is back, and a little more; returns values and futures by partition."""
    sent: dict[int, list[tuple[bytes, RecordFuture]]] = {number: [] for number in range(PARTITIONS)}
    left = RECORDS_AFTER
    number = 0
    while left:
        partition = rng.randrange(PARTITIONS)
        value = b"%d:" % number + bytes(rng.choice((0, 20, 400)))
        sent[partition].append((value, producer.send(topic, value, partition=partition)))
        number += 1
        if is_back.is_set():
            left -= 1
        elif not number % 50:
            is_back.wait(0.005)  # records that are sent while the broker is down must fit into buffer.memory
    return sent


def check(cluster: EmbeddedCluster, topic: str, sent: dict[int, list[tuple[bytes, RecordFuture]]]) -> None:
    with BlockingReader(bootstrap_servers=cluster.bootstrap) as reader:
        for number, records in sent.items():
            tp = TopicPartition(topic, number)
            reader.assign({tp: "earliest"})
            end = reader.end_offsets([tp])
            stored = [(record.offset, record.value) for found in reader.batches(end) for record in found]
            acknowledged = [(future.result(0).offset, value) for value, future in records]
            assert [value for _, value in stored] == [value for value, _ in records], f"{tp}: not what was sent"
            assert [each for each in acknowledged if each[0] >= 0] == [
                each for each, (offset, _) in zip(stored, acknowledged, strict=True) if offset >= 0
            ], f"{tp}: not where the acknowledgements say"
