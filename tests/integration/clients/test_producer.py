"""Our producer against real brokers: delivery, order, fast failure, faults."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_zk.base.murmur2 import murmur2
from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.errors import BufferExhausted, KafkaError, KafkaTimeoutError, NoBrokersAvailable
from kafka_zk.clients.connection.reactor_thread import reactor_thread
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.clients.producer.producer import Producer
from kafka_zk.clients.producer.producer_record import ProducerRecord
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.plugin import MakeCluster, MakeTopic

pytestmark = pytest.mark.integration

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def producer(kafka_zk_cluster: EmbeddedCluster) -> Iterator[BlockingProducer]:
    with BlockingProducer(bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:
        yield producer


def read_all(bootstrap: str, topic: str) -> dict[int, list[ConsumerRecord]]:
    """Every record of a topic up to its current end, by partition."""
    found: dict[int, list[ConsumerRecord]] = {}
    with BlockingReader(bootstrap_servers=bootstrap) as reader:
        partitions = [TopicPartition(topic, each.partition) for each in reader.partitions_for(topic).partitions]
        reader.assign(dict.fromkeys(partitions, "earliest"))
        for records in reader.batches(reader.end_offsets(partitions)):
            for record in records:
                found.setdefault(record.partition, []).append(record)
    return found


@pytest.mark.parametrize("compression", CODECS)
def test_records_arrive_as_they_were_sent(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, compression: str
) -> None:
    """Keys, values, nulls, headers and timestamps, in every codec; the key's hash decides the partition."""
    topic = make_topic(partitions=4, config={"retention.ms": "-1"})  # the records have timestamps of 1970
    headers = [("trace", b"\x00\xff"), ("empty", b""), ("none", None)]
    with BlockingProducer(bootstrap_servers=kafka_zk_cluster.bootstrap, compression_type=compression) as producer:
        for index in range(300):
            producer.send(
                topic, b"v%d" % index * 20, key=b"k%d" % (index % 7), timestamp_ms=1_000 + index, headers=headers
            )
        tombstone = producer.send(topic, None, partition=2, timestamp_ms=7).result(10)
    found = read_all(kafka_zk_cluster.bootstrap, topic)
    assert found[2][-1][2:7] == (tombstone.offset, 7, None, None, ())
    records = sorted((each for part in found.values() for each in part), key=lambda each: each.timestamp_ms)[1:]
    assert [each.value for each in records] == [b"v%d" % index * 20 for index in range(300)]
    assert all(each.partition == (murmur2(each.key or b"") & 0x7FFFFFFF) % 4 for each in records)
    assert all(list(each.headers) == headers for each in records)


def test_keyless_records_spread_evenly(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, producer: BlockingProducer
) -> None:
    """Records without a key are spread round-robin."""
    topic = make_topic(partitions=4)
    for _ in range(40):
        producer.send(topic, b"v")
    producer.flush()
    assert {number: len(records) for number, records in read_all(kafka_zk_cluster.bootstrap, topic).items()} == {
        0: 10, 1: 10, 2: 10, 3: 10
    }  # fmt: skip


def test_threads_may_share_a_producer(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, producer: BlockingProducer
) -> None:
    """Each thread's records keep their order within a partition, and none is lost."""
    topic = make_topic(partitions=2)

    def send(number: int) -> None:
        for index in range(2_000):
            producer.send(topic, b"%d %d" % (number, index), partition=number % 2)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.flush()
    found = read_all(kafka_zk_cluster.bootstrap, topic)
    for number in range(4):
        prefix = b"%d " % number
        values = [each.value for each in found[number % 2] if (each.value or b"").startswith(prefix)]
        assert values == [b"%d %d" % (number, index) for index in range(2_000)]


def test_small_buffer_holds_back_the_caller(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic) -> None:
    """A buffer.memory of four batches is enough for any number of records."""
    topic = make_topic(partitions=3)
    with BlockingProducer(
        bootstrap_servers=kafka_zk_cluster.bootstrap, batch_size=2_000, buffer_memory=8_000, linger_ms=5
    ) as producer:
        for index in range(5_000):
            producer.send(topic, b"%05d" % index * 10, partition=index % 3)
    found = read_all(kafka_zk_cluster.bootstrap, topic)
    assert [len(found[number]) for number in range(3)] == [1667, 1667, 1666]


def test_twisted_producer_sends_an_iterable(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic) -> None:
    """send_all returns one result for all records, and send returns one for each record."""
    topic = make_topic(partitions=2)
    thread = reactor_thread()

    async def produce() -> tuple[int, int]:
        producer = Producer(thread.reactor, bootstrap_servers=kafka_zk_cluster.bootstrap)
        count = await producer.send_all(topic, (ProducerRecord(b"v", partition=0) for _ in range(10_000)))
        last = await producer.send(topic, b"last", partition=0)
        await producer.close()
        return count, last.offset

    assert thread.call(produce, timeout_s=30) == (10_000, 10_000)


def test_broker_that_dies_and_returns_loses_and_doubles_nothing(
    make_cluster: MakeCluster, make_topic: MakeTopic
) -> None:
    """The broker is killed while records are sent, and restarts: every record is there once, in order."""
    cluster = make_cluster()
    topic = make_topic(partitions=2, cluster=cluster)
    with BlockingProducer(bootstrap_servers=cluster.bootstrap, batch_size=1_000) as producer:
        futures = []
        for index in range(6_000):
            futures.append(producer.send(topic, b"%d" % index, partition=index % 2))
            if index == 2_000:
                futures[1_000].result(20)
                cluster.brokers[0].kill()
            if index == 4_000:
                cluster.restart_broker(0)
        producer.flush(60)
        offsets = [future.result(0).offset for future in futures]
    found = read_all(cluster.bootstrap, topic)
    for number in range(2):
        assert [each.value for each in found[number]] == [b"%d" % index for index in range(number, 6_000, 2)]
        assert offsets[number::2] == list(range(3_000))


def test_unreachable_cluster_is_one_sentence_in_bounded_time() -> None:
    """max.block.ms bounds the first send. flush without records returns immediately. The message names the address."""
    with BlockingProducer(bootstrap_servers="127.0.0.1:1", max_block_ms=500) as producer:
        started_s = time.monotonic()
        with pytest.raises((KafkaTimeoutError, NoBrokersAvailable), match=r"cannot reach any of 127\.0\.0\.1:1"):
            producer.send("t", b"v")
        assert time.monotonic() - started_s < 5
        producer.flush(1)


def test_a_partition_is_sent_to_once_it_is_added(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic) -> None:
    """Both producers, whose metadata are older, send to the new partition."""
    topic = make_topic(partitions=2)
    thread = reactor_thread()
    with (
        BlockingProducer(bootstrap_servers=kafka_zk_cluster.bootstrap) as blocking,
        BlockingAdmin(bootstrap_servers=kafka_zk_cluster.bootstrap) as admin,
    ):

        async def make() -> Producer:
            producer = Producer(thread.reactor, bootstrap_servers=kafka_zk_cluster.bootstrap)
            await producer.send(topic, b"before", partition=0)
            return producer

        twisted = thread.call(make, timeout_s=10)
        blocking.send(topic, b"before", partition=1).result(10)
        admin.create_partitions(topic, 4)

        async def send() -> int:
            written = await twisted.send(topic, b"after", partition=2)
            await twisted.close()
            return written.partition

        assert thread.call(send, timeout_s=10) == 2
        assert blocking.send(topic, b"after", partition=3).result(10).partition == 3


def test_a_thread_that_waits_for_a_wrong_partition_holds_up_no_other(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    errors: list[KafkaError] = []

    def send_wrong(sender: BlockingProducer) -> None:
        try:
            sender.send(topic, b"v", partition=7)
        except KafkaError as error:
            errors.append(error)

    with BlockingProducer(bootstrap_servers=kafka_zk_cluster.bootstrap, max_block_ms=1_500) as producer:
        producer.send(topic, b"v", partition=0).result(10)
        waiting = threading.Thread(target=send_wrong, args=(producer,))
        waiting.start()
        for _ in range(20):
            producer.send(topic, b"v", partition=1).result(10)
        assert not errors
        waiting.join(20)
    assert isinstance(errors[0], KafkaTimeoutError)
    assert str(errors[0]) == (
        f"partition 7 of topic {topic} with 2 partition(s) is not in the metadata after 1500 ms (max.block.ms)"
    )


def test_paused_broker_exhausts_the_buffer_then_delivers(make_cluster: MakeCluster, make_topic: MakeTopic) -> None:
    """While the broker hangs, send blocks the caller and fails after max.block.ms; afterwards, no record is missing."""
    cluster = make_cluster()
    topic = make_topic(cluster=cluster)
    options: dict[str, Any] = {"batch_size": 1_000, "buffer_memory": 4_000, "max_block_ms": 300}
    with BlockingProducer(bootstrap_servers=cluster.bootstrap, **options) as producer:
        producer.send(topic, b"first").result(10)
        sent = []
        with cluster.brokers[0].paused(), pytest.raises(BufferExhausted, match=r"buffer\.memory"):
            for index in range(100):
                sent.append(producer.send(topic, b"%03d" % index * 100))
        assert [future.result(20).offset for future in sent] == list(range(1, len(sent) + 1))


def test_record_above_the_topics_limit_is_refused_with_kafkas_code(
    kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, producer: BlockingProducer
) -> None:
    """A single record above the topic's max.message.bytes is refused; batches of small records are split instead."""
    topic = make_topic(config={"max.message.bytes": "1000"})
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        producer.send(topic, b"x" * 2_000).result(10)
    futures = [producer.send(topic, b"x" * 100) for _ in range(50)]
    assert [future.result(10).offset for future in futures] == list(range(50))
