"""Records for partitions that are newer than the metadata, or do not exist: they wait, other records do not."""

import random
from typing import Any

import pytest
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import Clock

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import (
    BrokerError,
    BufferExhausted,
    ClientClosed,
    KafkaError,
    KafkaTimeoutError,
    RecordTooLargeError,
)
from kafka_zk.clients.connection.waiting import run, sleep
from kafka_zk.clients.producer import transaction_manager
from kafka_zk.clients.producer.errors import IllegalTransactionState, TransactionAbortable, TransactionAborted
from kafka_zk.clients.producer.producer import Producer
from kafka_zk.clients.producer.producer_record import ProducerRecord
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.clients.connection.fake_cluster import FakeCluster, advance, finish
from tests.kafka_zk.clients.producer.model_coordinator import ModelCoordinator

NEW = 3
"""The number of the partition that is added."""


def ready_producer(clock: Clock, brokers: FakeCluster, **options: Any) -> Producer:
    """A producer with the topic's metadata that will not refresh them by itself for minutes."""
    producer = Producer(clock, connect=brokers.connect, bootstrap_servers="b0:9092,b1:9092", **options)
    finish(clock, run(producer.ready("t")))
    advance(clock, 1)
    return producer


def fetches(brokers: FakeCluster) -> int:
    return [key for _, key in brokers.seen].count(ApiKey.METADATA)


def log(brokers: FakeCluster, partition: int) -> list[bytes | None]:
    return brokers.model.logs.get(TopicPartition("t", partition), [])


def test_a_partition_added_meanwhile_is_sent_to_at_once(clock: Clock, brokers: FakeCluster) -> None:
    producer = ready_producer(clock, brokers)
    brokers.leaders["t"].append(1)
    assert finish(clock, producer.send("t", b"v", partition=NEW), 0.02).partition == NEW
    assert finish(clock, producer.send("t", b"w", partition=NEW), 0.02).offset == 1


def test_a_partition_that_does_not_come_holds_up_nobody(clock: Clock, brokers: FakeCluster) -> None:
    """After max.block.ms the partition's records fail. They never use buffer.memory."""
    producer = ready_producer(clock, brokers, max_block_ms=5_000)
    wrong = [producer.send("t", b"v", partition=NEW), producer.send("t", b"v", partition=NEW)]
    other = producer.send("t", b"v", partition=NEW + 4)
    for _ in range(20):
        assert finish(clock, producer.send("t", b"v", partition=0), 0.02).partition == 0
    assert producer.accumulator.used_bytes == 0
    assert not any(each.called for each in (*wrong, other))
    for each in (*wrong, other):
        with pytest.raises(KafkaTimeoutError, match=r"topic t with 3 partition\(s\) .* after 5000 ms") as caught:
            finish(clock, each, 5)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and caught.value.retriable
    assert producer.accumulator.used_bytes == 0


def test_each_record_waits_its_own_time(clock: Clock, brokers: FakeCluster) -> None:
    """A record does not fail with an earlier record's timeout."""
    producer = ready_producer(clock, brokers, max_block_ms=1_000)
    first = producer.send("t", b"1", partition=NEW)
    advance(clock, 0.8)
    second = producer.send("t", b"2", partition=NEW)
    with pytest.raises(KafkaTimeoutError):
        finish(clock, first, 0.3)
    brokers.leaders["t"].append(0)
    assert finish(clock, second, 0.7).offset == 0
    assert log(brokers, NEW) == [b"2"]


def test_metadata_are_asked_for_less_and_less_often(clock: Clock, brokers: FakeCluster) -> None:
    """The first request comes immediately; later pauses double from retry.backoff.ms to retry.backoff.max.ms, for all
    partitions together.
    """
    producer = ready_producer(clock, brokers, max_block_ms=60_000)
    before = fetches(brokers)
    for partition in range(100):
        producer.send("t", b"v", partition=NEW + partition).addErrback(lambda _: None)
    advance(clock, 0.01)
    assert fetches(brokers) == before + 1
    advance(clock, 10)
    assert before + 10 <= fetches(brokers) <= before + 14


def test_a_cluster_that_is_away_meanwhile_changes_nothing(clock: Clock, brokers: FakeCluster) -> None:
    producer = ready_producer(clock, brokers)
    brokers.stop(0)
    brokers.stop(1)
    sent = producer.send("t", b"v", partition=NEW)
    advance(clock, 5)
    brokers.leaders["t"].append(1)
    brokers.down.clear()
    assert finish(clock, sent, 5).offset == 0


def test_a_topic_that_is_refused_meanwhile_fails_them_at_once(clock: Clock, brokers: FakeCluster) -> None:
    producer = ready_producer(clock, brokers)
    sent = producer.send("t", b"v", partition=NEW)
    advance(clock, 1)
    del brokers.leaders["t"]
    brokers.errors += [(ApiKey.METADATA, ErrorCode.TOPIC_AUTHORIZATION_FAILED)] * 2
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        finish(clock, sent, 3)


@pytest.mark.parametrize("seed", range(20))
def test_records_of_a_partition_stay_in_the_order_of_the_calls(clock: Clock, brokers: FakeCluster, seed: int) -> None:
    """Records may wait for their partition, for room, or not at all, with and without a key."""
    chance = random.Random(seed)
    producer = ready_producer(clock, brokers, batch_size=100, buffer_memory=chance.choice([110, 500]), linger_ms=20)
    sent: list[Deferred[Any]] = []
    added_at = chance.randrange(150)
    for number in range(200):
        if number == added_at:
            brokers.leaders["t"].append(1)
        partition = chance.choice([0, NEW, None])
        key = b"%d" % chance.randrange(9) if partition is None else None
        sent.append(producer.send("t", b"%d" % number, key, partition))
        advance(clock, chance.choice([0, 0, 0.001, 0.1]))
    finish(clock, gatherResults(sent), 60)
    for partition in range(4):
        numbers = [int(value or b"") for value in log(brokers, partition)]
        assert numbers == sorted(numbers)
    assert sum(len(log(brokers, partition)) for partition in range(4)) == 200


def test_what_waited_for_its_partition_goes_before_what_waits_for_room(clock: Clock, brokers: FakeCluster) -> None:
    producer = ready_producer(clock, brokers, batch_size=100, buffer_memory=100)
    sent = [producer.send("t", b"1", partition=NEW)]
    advance(clock, 0.01)
    brokers.stop(0)
    sent += [producer.send("t", b"", partition=0), producer.send("t", b"", partition=0)]
    sent += [producer.send("t", b"2", partition=NEW)]
    brokers.leaders["t"].append(1)
    advance(clock, 2)
    assert not any(each.called for each in sent), "the leader of the first partition is down, and the buffer full"
    brokers.move(TopicPartition("t", 0), 1)
    finish(clock, gatherResults(sent))
    assert log(brokers, NEW) == [b"1", b"2"]


def test_flush_waits_for_what_was_sent_before_and_for_nothing_later(clock: Clock, brokers: FakeCluster) -> None:
    """A steady series of records for a wrong partition does not delay it forever."""
    producer = ready_producer(clock, brokers, max_block_ms=1_000)
    wrong = [producer.send("t", b"v", partition=NEW)]
    flushed = run(producer.flush())
    for _ in range(10):
        assert not flushed.called
        advance(clock, 0.09)
        wrong.append(producer.send("t", b"v", partition=NEW))
    advance(clock, 0.15)
    assert flushed.called and not wrong[-1].called
    for each in wrong:
        each.addErrback(lambda _: None)


def test_close_delivers_what_waits(clock: Clock, brokers: FakeCluster) -> None:
    """The records wait for a partition or for room."""
    producer = ready_producer(clock, brokers, batch_size=100, buffer_memory=100, linger_ms=60_000)
    sent = [producer.send("t", b"v", partition=partition) for partition in (0, 0, 1, NEW)]
    closed = run(producer.close())
    advance(clock, 1)
    brokers.leaders["t"].append(0)
    finish(clock, closed, 2)
    assert [written.partition for written in finish(clock, gatherResults(sent))] == [0, 0, 1, NEW]


def test_close_with_a_time_limit_fails_what_waits(clock: Clock, brokers: FakeCluster) -> None:
    """The close leaves no timer behind."""
    producer = ready_producer(clock, brokers)
    sent = producer.send("t", b"v", partition=NEW)
    finish(clock, run(producer.close(0.5)), 1)
    with pytest.raises(ClientClosed):
        finish(clock, sent, 0.01)
    advance(clock, 0.01)
    assert clock.getDelayedCalls() == []


def test_a_producer_that_can_do_nothing_more_fails_what_waits(clock: Clock, brokers: FakeCluster) -> None:
    producer = Producer(clock, connect=brokers.connect, bootstrap_servers="b0:9092,b1:9092")
    finish(clock, run(producer.partitions_for("t")))
    brokers.errors.append((ApiKey.INIT_PRODUCER_ID, ErrorCode.INVALID_REQUEST))
    sent = [producer.send("t", b"v", partition=partition) for partition in (NEW, 0)]
    for each in sent:
        with pytest.raises(KafkaError) as caught:
            finish(clock, each, 1)
        assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_send_nowait_says_that_the_partition_is_not_there_and_asks_for_it(clock: Clock, brokers: FakeCluster) -> None:
    producer = ready_producer(clock, brokers)
    brokers.leaders["t"].append(0)
    with pytest.raises(KafkaError, match="no such partition in the metadata: t-3") as caught:
        producer.send_nowait("t", b"v", partition=NEW)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    advance(clock, 0.01)
    future = producer.send_nowait("t", b"v", partition=NEW)
    advance(clock, 0.01)
    assert future.value().partition == NEW


def test_send_nowait_overtakes_nothing_that_waited(clock: Clock, brokers: FakeCluster) -> None:
    """The order holds even at the moment when the partition appears and its waiting records are accepted."""
    producer = ready_producer(clock, brokers)
    sent = producer.send("t", b"1", partition=NEW)
    advance(clock, 0.01)
    brokers.leaders["t"].append(0)
    refused: list[Exception] = []

    def overtake() -> None:
        try:
            producer.send_nowait("t", b"2", partition=NEW)
        except BufferExhausted as error:
            refused.append(error)

    producer._cluster.on_update.append(overtake)
    finish(clock, sent, 1)
    assert refused and log(brokers, NEW)[0] == b"1"


def test_send_all_waits_for_a_partition_too(clock: Clock, brokers: FakeCluster) -> None:
    producer = ready_producer(clock, brokers, max_block_ms=1_000)
    records = [ProducerRecord(b"%d" % number, partition=number % 4) for number in range(8)]
    sending = run(producer.send_all("t", records))
    advance(clock, 0.5)
    brokers.leaders["t"].append(1)
    assert finish(clock, sending, 1) == 8
    assert log(brokers, NEW) == [b"3", b"7"]
    with pytest.raises(KafkaTimeoutError, match="partition 4 of topic t with 4"):
        finish(clock, run(producer.send_all("t", [ProducerRecord(b"v", partition=NEW + 1)])), 2)


class Transactions:
    """A transactional producer in a transaction, with a coordinator in memory."""

    def __init__(self, clock: Clock, brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self.coordinator = ModelCoordinator(random.Random(0))
        monkeypatch.setattr(transaction_manager, "KeyCoordinator", lambda *_: self.coordinator)
        self.producer = ready_producer(clock, brokers, transactional_id="x", max_block_ms=2_000)
        finish(clock, run(self.producer.init_transactions()))
        self.producer.begin_transaction()


@pytest.fixture
def transactions(clock: Clock, brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Transactions:
    return Transactions(clock, brokers, monkeypatch)


def test_a_commit_waits_for_the_partition(clock: Clock, brokers: FakeCluster, transactions: Transactions) -> None:
    sent = transactions.producer.send("t", b"v", partition=NEW)
    committed = run(transactions.producer.commit_transaction())
    advance(clock, 1)
    assert not committed.called
    brokers.leaders["t"].append(0)
    finish(clock, committed, 1)
    assert finish(clock, sent, 0.01).partition == NEW
    assert transactions.coordinator.ends == [True]


@pytest.mark.parametrize(
    ("record", "words"), [({"partition": NEW}, "partition 3 of topic t"), ({"key": b"k" * 2_000_000}, "bytes")]
)
def test_nothing_is_committed_without_a_record_that_was_not_sent(
    clock: Clock, brokers: FakeCluster, transactions: Transactions, record: dict[str, Any], words: str
) -> None:
    """The program ignores what send returns. After the abort the producer can continue."""
    transactions.producer.send("t", b"v", **record).addErrback(lambda _: None)
    transactions.producer.send("t", b"v", partition=0).addErrback(lambda _: None)
    advance(clock, 0.1)
    with pytest.raises(TransactionAbortable, match=words):
        finish(clock, run(transactions.producer.commit_transaction()), 3)
    finish(clock, run(transactions.producer.abort_transaction()))
    assert True not in transactions.coordinator.ends
    transactions.producer.begin_transaction()
    sent = transactions.producer.send("t", b"w", partition=0)
    finish(clock, run(transactions.producer.commit_transaction()))
    assert finish(clock, sent, 0.01).partition == 0


def test_a_commit_counts_with_what_is_sent_while_it_begins(
    clock: Clock, brokers: FakeCluster, transactions: Transactions
) -> None:
    """The commit includes a record that waits when all earlier records are delivered."""
    first = transactions.producer.send("t", b"v", partition=0)
    committed = run(transactions.producer.commit_transaction())
    late = transactions.producer.send("t", b"w", partition=NEW)
    with pytest.raises(KafkaTimeoutError):
        finish(clock, committed, 3)
    with pytest.raises(KafkaTimeoutError):
        finish(clock, late, 0.01)
    with pytest.raises(TransactionAbortable, match="partition 3 of topic t"):
        finish(clock, run(transactions.producer.commit_transaction()))
    finish(clock, run(transactions.producer.abort_transaction()))
    assert first.called and transactions.coordinator.ends == [False]


def test_a_commit_takes_along_what_waits_when_its_flush_ends(
    clock: Clock, brokers: FakeCluster, transactions: Transactions
) -> None:
    transactions.producer.send("t", b"v", partition=0)
    committed = run(transactions.producer.commit_transaction())
    late = transactions.producer.send("t", b"w", partition=NEW)
    advance(clock, 0.5)
    brokers.leaders["t"].append(0)
    finish(clock, committed, 3)
    assert finish(clock, late, 0.01).partition == NEW
    assert transactions.coordinator.ends == [True]


def test_what_is_sent_while_the_coordinator_commits_does_not_touch_the_transaction(
    clock: Clock, brokers: FakeCluster, transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is refused and belongs to no transaction."""
    ask, late = transactions.coordinator.ask, []

    async def ask_and_send(api_key: ApiKey, *request: Any) -> Any:
        if api_key is ApiKey.END_TXN:
            late.append(transactions.producer.send("t", b"w", partition=0))
        return await ask(api_key, *request)

    monkeypatch.setattr(transactions.coordinator, "ask", ask_and_send)
    transactions.producer.send("t", b"v", partition=0)
    finish(clock, run(transactions.producer.commit_transaction()), 3)
    with pytest.raises(IllegalTransactionState):
        finish(clock, late[0], 0.001)
    assert transactions.coordinator.ends == [True]


@pytest.mark.parametrize("method", ["send_nowait", "send_all"])
def test_nothing_is_committed_without_a_record_that_was_refused(
    clock: Clock, brokers: FakeCluster, transactions: Transactions, method: str
) -> None:
    producer, value = transactions.producer, bytes(2_000_000)
    with pytest.raises(RecordTooLargeError):
        if method == "send_nowait":
            producer.send_nowait("t", value)
        else:
            finish(clock, run(producer.send_all("t", [ProducerRecord(value)])), 1)
    with pytest.raises(TransactionAbortable, match="bytes"):
        finish(clock, run(transactions.producer.commit_transaction()), 3)


def test_nothing_is_committed_without_records_of_a_topic_that_is_not_there(
    clock: Clock, brokers: FakeCluster, transactions: Transactions
) -> None:
    transactions.producer.send("t", b"first", partition=0)
    with pytest.raises(KafkaError):
        finish(clock, run(transactions.producer.send_all("nowhere", [ProducerRecord(b"v")])), 5)
    with pytest.raises(TransactionAbortable):
        finish(clock, run(transactions.producer.commit_transaction()), 3)


def test_a_commit_ends_though_records_are_sent_all_the_time(
    clock: Clock, brokers: FakeCluster, transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a full buffer, some record always waits."""
    manager, flush = transactions.producer._transactions, transactions.producer.flush
    assert manager is not None

    async def slowly() -> None:
        await sleep(clock, 0.1)
        await flush()

    monkeypatch.setattr(manager, "_batches", manager._batches._replace(flush=slowly, none_waits=lambda: False))
    with pytest.raises(KafkaTimeoutError, match="still being sent"):
        finish(clock, run(transactions.producer.commit_transaction()), 70)


def test_a_transaction_is_committed_without_no_record_that_cannot_be_serialized(
    clock: Clock, brokers: FakeCluster, transactions: Transactions
) -> None:
    """The program ignores the record's Deferred."""
    transactions.producer.send("t", "not bytes", partition=0).addErrback(lambda _: None)
    with pytest.raises(TransactionAbortable, match="TypeError"):
        finish(clock, run(transactions.producer.commit_transaction()), 3)


def test_what_was_refused_as_no_transaction_was_open_does_not_touch_the_next_one(
    clock: Clock, brokers: FakeCluster, transactions: Transactions
) -> None:
    """A blocking producer reports the refusal when another thread may have begun a transaction."""
    producer = transactions.producer
    finish(clock, run(producer.commit_transaction()), 3)
    begun_count = producer.begun_count
    with pytest.raises(IllegalTransactionState) as refusal:
        finish(clock, producer.send("t", b"stray", partition=0), 1)
    producer.begin_transaction()
    producer.not_taken(refusal.value, begun_count)
    producer.send("t", b"second", partition=0)
    finish(clock, run(producer.commit_transaction()), 3)
    assert transactions.coordinator.ends[-1] is True


def test_an_abort_does_not_wait_for_the_partition(
    clock: Clock, brokers: FakeCluster, transactions: Transactions
) -> None:
    sent = transactions.producer.send("t", b"v", partition=NEW)
    advance(clock, 0.5)
    before = fetches(brokers)
    finish(clock, run(transactions.producer.abort_transaction()), 0.01)
    with pytest.raises(TransactionAborted):
        finish(clock, sent, 0.01)
    advance(clock, 5)
    assert fetches(brokers) <= before + 1, "no record needs the partition any more"
