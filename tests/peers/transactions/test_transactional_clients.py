"""Transactions of our clients against kafka-zk and Apache Kafka, beside those of librdkafka."""

from __future__ import annotations

import uuid
from pathlib import Path

import confluent_kafka
import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.errors import RecordTooLargeError
from kafka_zk.clients.consumer.blocking_consumer import BlockingConsumer
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.clients.producer.errors import ProducerFenced, TransactionAbortable, TransactionAborted
from kafka_zk.clients.producer.future import RecordFuture
from kafka_zk.protocol.errors import ErrorCode
from tests.integration.installed import exactly_once
from tests.peers.targets import Target

pytestmark = pytest.mark.peers

PARTITIONS = 2


@pytest.fixture
def topic(target: Target) -> str:
    name = f"transactions-{uuid.uuid4().hex[:8]}"
    with BlockingAdmin(bootstrap_servers=target.bootstrap) as admin:
        admin.create_topic(name, PARTITIONS, 1)
    return name


def committed(target: Target, topic: str) -> list[bytes]:
    """Wait until the markers are written, which may be after the response to the producer."""
    exactly_once.wait_for(lambda: exactly_once.is_settled(target.bootstrap, topic, PARTITIONS), 10)
    return sorted(exactly_once.seen(target.bootstrap, topic, PARTITIONS).elements())


def make_producer(target: Target, transactional_id: str) -> BlockingProducer:
    producer = BlockingProducer(bootstrap_servers=target.bootstrap, transactional_id=transactional_id)
    producer.init_transactions()
    return producer


def read_with_librdkafka(target: Target, topic: str, count: int) -> list[bytes | None]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": target.bootstrap,
            "group.id": f"g-{topic}",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: list[bytes | None] = []
    try:
        while len(found) < count and (message := consumer.poll(10)) is not None:
            assert message.error() is None
            found.append(message.value())
        assert consumer.poll(1) is None
    finally:
        consumer.close()
    return sorted(found, key=str)


def test_readers_see_whole_transactions_or_nothing(target: Target, topic: str) -> None:
    """The readers are ours and librdkafka's; some transactions have several partitions, compression, or no records."""
    with make_producer(target, f"x-{topic}") as producer:
        for number in range(3):
            with producer.transaction():
                for partition in range(PARTITIONS):
                    producer.send(topic, b"c%d" % number, partition=partition)
            with pytest.raises(ZeroDivisionError), producer.transaction():
                producer.send(topic, b"a%d" % number)
                producer.flush()
                unsent = producer.send(topic, b"b%d" % number)
                assert 1 / 0
            with pytest.raises(TransactionAborted):
                unsent.result(10)
            with producer.transaction():
                pass
    expected = sorted([b"c0", b"c1", b"c2"] * PARTITIONS)
    assert committed(target, topic) == expected
    assert read_with_librdkafka(target, topic, len(expected)) == expected
    uncommitted = exactly_once.seen(target.bootstrap, topic, PARTITIONS, "read_uncommitted")
    assert uncommitted.total() == len(expected) + 3


def test_an_open_transaction_holds_readers_back(target: Target, topic: str) -> None:
    """Until the transaction ends, it also holds back later records that belong to no transaction."""
    tp = TopicPartition(topic, 0)
    with (
        make_producer(target, f"x-{topic}") as producer,
        BlockingProducer(bootstrap_servers=target.bootstrap) as plain,
        BlockingConsumer(
            [topic], bootstrap_servers=target.bootstrap, group_id=topic, isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer,
    ):  # fmt: skip
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0).result(30)
        producer.flush()
        plain.send(topic, b"plain", partition=0).result(30)
        assert consumer.poll(3_000) == []
        producer.commit_transaction()
        found: list[bytes] = []
        while len(found) < 2:
            found += [record.value for record in consumer.poll(10_000)]
        assert found == [b"open", b"plain"]
        assert consumer.position(tp) is not None


def test_offsets_are_committed_with_the_records(target: Target, topic: str) -> None:
    """The offsets are not committed earlier, nor by a transaction that is aborted."""
    tp = TopicPartition(topic, 1)
    group = f"group-{topic}"
    with make_producer(target, f"x-{topic}") as producer, BlockingAdmin(bootstrap_servers=target.bootstrap) as admin:
        with producer.transaction():
            producer.send_offsets({tp: 5}, group)
        assert admin.groups.stable_offsets(group, [tp]) == {tp: 5}
        producer.begin_transaction()
        producer.send_offsets({tp: 9}, group)
        assert admin.groups.committed(group)[tp].offset == 5
        producer.abort_transaction()
        assert admin.groups.stable_offsets(group, [tp]) == {tp: 5}


def test_a_member_of_an_old_generation_cannot_commit(target: Target, topic: str) -> None:
    """Neither the member's offsets nor its records count (KIP-447), and the producer stays usable."""
    with (
        make_producer(target, f"x-{topic}") as producer,
        BlockingConsumer([topic], bootstrap_servers=target.bootstrap, group_id=topic) as consumer,
    ):
        while not consumer.assignment():
            consumer.poll(100)
        member = consumer.group_metadata()
        with producer.transaction():
            producer.send(topic, b"in time")
            producer.send_offsets({TopicPartition(topic, 0): 1}, member)
        with pytest.raises(TransactionAbortable) as caught, producer.transaction():
            producer.send(topic, b"late")
            old = member._replace(generation_id=member.generation_id - 1)
            producer.send_offsets({TopicPartition(topic, 0): 2}, old)
        assert caught.value.code is ErrorCode.ILLEGAL_GENERATION
        with producer.transaction():
            producer.send(topic, b"again")
    assert committed(target, topic) == [b"again", b"in time"]


def test_a_transaction_without_a_record_that_was_refused_does_not_count(target: Target, topic: str) -> None:
    """The transaction fails even if the program continues after the error."""
    with make_producer(target, f"x-{topic}") as producer:
        with pytest.raises(TransactionAbortable), producer.transaction():
            producer.send(topic, b"beside it")
            with pytest.raises(RecordTooLargeError):
                producer.send(topic, bytes(2_000_000))
        with producer.transaction():
            producer.send(topic, b"again")
    assert committed(target, topic) == [b"again"]


def test_a_callback_that_sends_is_told_why_its_record_is_refused(target: Target, topic: str) -> None:
    """The reactor's thread calls the callback, and must not block."""
    refused: list[Exception] = []

    def send_more(future: RecordFuture) -> None:
        try:
            producer.send(topic, bytes(2_000_000))
        except RecordTooLargeError as error:
            refused.append(error)

    with make_producer(target, f"x-{topic}") as producer:
        with pytest.raises(TransactionAbortable), producer.transaction():
            first = producer.send(topic, b"first")
            first.add_done_callback(send_more)
            first.result(30)
        assert len(refused) == 1
    assert committed(target, topic) == []


def test_a_successor_fences_and_aborts(target: Target, topic: str) -> None:
    """A producer that takes over a transactional.id ends the open transaction, and the old producer is fenced."""
    with make_producer(target, f"x-{topic}") as zombie:
        zombie.begin_transaction()
        zombie.send(topic, b"zombie")
        zombie.flush()
        with make_producer(target, f"x-{topic}") as successor:
            with successor.transaction():
                successor.send(topic, b"successor")
            with pytest.raises(ProducerFenced):
                zombie.commit_transaction()
            with pytest.raises(ProducerFenced):
                zombie.send(topic, b"more")
    assert committed(target, topic) == [b"successor"]


def test_a_record_that_is_refused_makes_the_transaction_fail(target: Target) -> None:
    """The next transaction has a new epoch (KIP-360)."""
    topic = f"small-{uuid.uuid4().hex[:8]}"
    with BlockingAdmin(bootstrap_servers=target.bootstrap) as admin:
        admin.create_topic(topic, PARTITIONS, 1, {"max.message.bytes": "2000"})
    with make_producer(target, f"x-{topic}") as producer:
        with pytest.raises(TransactionAbortable) as caught, producer.transaction():
            producer.send(topic, b"small", partition=0).result(30)
            producer.send(topic, b"big" * 1000, partition=0)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
        with producer.transaction():
            producer.send(topic, b"good", partition=0)
    assert committed(target, topic) == [b"good"]


def test_the_transactions_of_librdkafka(target: Target, topic: str) -> None:
    """The producer is librdkafka's, and commits a member's offsets. The readers are ours."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": target.bootstrap, "transactional.id": f"rd-{topic}", "linger.ms": 0}
    )
    producer.init_transactions(30)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": target.bootstrap, "group.id": topic})
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
        where = [confluent_kafka.TopicPartition(topic, 0, number + 1)]
        producer.send_offsets_to_transaction(where, consumer.consumer_group_metadata(), 30)
        producer.flush(30)
        if number % 3:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    consumer.close()
    assert committed(target, topic) == [b"0", b"3"]
    tp = TopicPartition(topic, 0)
    with BlockingAdmin(bootstrap_servers=target.bootstrap) as admin:
        assert admin.groups.stable_offsets(topic, [tp]) == {tp: 4}


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("example", ["exactly_once.py", "exactly_once_zookeeper.py"])
def test_each_record_is_worked_on_exactly_once_under_kills(
    target: Target, tmp_path: Path, example: str, seed: int
) -> None:
    """Members are killed while they work, and one is paused until the others consider it dead."""
    name = f"exact-{uuid.uuid4().hex[:8]}"
    source, results = f"{name}-in", f"{name}-out"
    exactly_once.make_topics(target.bootstrap, source, results, 3)
    command_of = exactly_once.command_of(example, target.bootstrap, target.zookeeper, source, results, name)
    exactly_once.run_under_kills(
        exactly_once.Members(command_of, tmp_path),
        bootstrap=target.bootstrap, source=source, target=results, partition_count=3, group=name,
        seed=seed, kills=4, pause_s=10.0,
    )  # fmt: skip
