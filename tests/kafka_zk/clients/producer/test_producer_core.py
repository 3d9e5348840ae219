"""The producer's cores together against a model broker, with lost requests and responses."""

import random

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import KafkaError, KafkaTimeoutError
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.produce import PartitionResult
from tests.kafka_zk.clients.producer.core_world import (
    NODES,
    code_of,
    make_known_world,
    make_world,
    run_faulty,
    settle_in,
)

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
FIVE = [b"a", b"b", b"c", b"d", b"e"]


@pytest.mark.parametrize("seed", range(40))
def test_every_record_is_written_once_and_in_order(seed: int) -> None:
    """Lost requests, lost responses and moving leaders never lose, duplicate or reorder a record of a partition."""
    world = make_world()
    run_faulty(world, seed)
    for tp, sent in world.sent.items():
        assert world.broker.logs[tp] == [value for value, _ in sent]
        for position, (_, future) in enumerate(sent):
            assert future.value().offset == position
    assert world.accumulator.used_bytes == 0


@pytest.mark.parametrize("seed", range(20))
def test_buffer_memory_is_never_exceeded(seed: int) -> None:
    """``append`` refuses to hold more than buffer.memory, and all of it is returned in the end."""
    world = make_world(buffer_memory=1_500)
    run_faulty(world, seed)
    assert 0 < world.most_used_bytes <= 1_500
    assert world.accumulator.used_bytes == 0


@pytest.mark.parametrize("seed", range(20))
def test_without_idempotence_one_in_flight_keeps_order(seed: int) -> None:
    """With max.in.flight=1 and no idempotence, a retry may duplicate records, but none is lost or reordered."""
    world = make_world(enable_idempotence=False, max_in_flight_requests_per_connection=1)
    run_faulty(world, seed)
    for tp, sent in world.sent.items():
        first_places = [world.broker.logs[tp].index(value) for value, _ in sent]
        assert first_places == sorted(first_places)


@pytest.mark.parametrize("seed", range(20))
def test_a_broker_that_forgot_the_producer_does_not_stop_it(seed: int) -> None:
    """When the broker loses its producer state the epoch is bumped; no record is lost (a retry may be written twice).
    A batch fails only if a leader that was not ready for it accepted a later one. Acknowledged records are in order.
    """
    world = make_world()
    source = random.Random(seed)
    for round_number in range(4):
        for index in range(12):
            world.append(index % 3, b"%d/%d" % (round_number, index))
        world.drain()
        world.cut(0, len(world.wires[0]) if seed % 2 else 0)
        world.broker.forget_producers()
        world.unready = {partition: source.randrange(4) for partition in range(3)}
        world.now_ms += 100
        for node in NODES:
            world.exchange(node)
    settle_in(world, 5_000)
    for tp, sent in world.sent.items():
        assert {code_of(future) for _, future in sent} <= {None, OUT_OF_ORDER}
        acked = [(future.value().offset, value) for value, future in sent if code_of(future) is None]
        assert acked == sorted(acked)
        assert all(world.broker.logs[tp][offset] == value for offset, value in acked)


@pytest.mark.parametrize("seed", range(20))
def test_expired_batches_fail_and_later_ones_go_on(seed: int) -> None:
    """delivery.timeout.ms fails records that could not be delivered; acknowledged records are in the log once and in
    order.
    """
    world = make_world(delivery_timeout_ms=400, request_timeout_ms=100)
    source = random.Random(seed)
    for step in range(300):
        world.now_ms += source.randrange(12)
        if source.random() < 0.6:
            world.append(source.randrange(3), b"%d" % step)
        world.drain()
        if source.random() < 0.25:
            node = source.choice(NODES)
            world.cut(node, source.randint(0, len(world.wires[node])))
        elif step < 100 or step > 200:
            world.exchange(source.choice(NODES))
    world.settle()
    for tp, sent in world.sent.items():
        log = world.broker.logs.get(tp, [])
        acked = []
        for value, future in sent:
            try:
                acked.append((future.value().offset, value))
            except KafkaTimeoutError:
                continue
        assert acked == sorted(acked)
        assert all(log[offset] == value for offset, value in acked)
        assert len(set(log)) == len(log), "a record was written twice"


@pytest.mark.parametrize("seed", range(20))
def test_what_is_given_up_neither_doubles_nor_reorders_the_rest(seed: int) -> None:
    """With few retries and little time some records fail; those in the log are there once and in order."""
    world = make_world(retries=3, delivery_timeout_ms=400, request_timeout_ms=100)
    run_faulty(world, seed)
    for tp, sent in world.sent.items():
        log = world.broker.logs.get(tp, [])
        places = [log.index(value) for value, _ in sent if value in log]
        assert places == list(range(len(log)))
        assert all(log[future.value().offset] == value for value, future in sent if code_of(future) is None)


def test_too_large_batch_is_split_and_keeps_its_order() -> None:
    """MESSAGE_TOO_LARGE halves the batch until it fits; futures follow their records into the parts."""
    world = make_world(batch_size=2_000)
    world.broker.batch_bytes_max = 200
    for index in range(20):
        world.append(0, b"%02d" % index + b"x" * 50)
    world.settle()
    tp = TopicPartition("t", 0)
    assert world.broker.logs[tp] == [value for value, _ in world.sent[tp]]
    assert [future.value().offset for _, future in world.sent[tp]] == list(range(20))
    assert world.accumulator.used_bytes == 0


def test_single_record_too_large_for_the_broker_fails_with_its_code() -> None:
    """A single record cannot be split, so it fails; the partition continues in a new epoch without a gap."""
    world = make_world(batch_size=100)
    world.broker.batch_bytes_max = 200
    world.append(0, b"x" * 300)
    world.append(0, b"fits")
    world.settle()
    bad, good = (future for _, future in world.sent[TopicPartition("t", 0)])
    with pytest.raises(KafkaError) as caught:
        bad.value()
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert good.value().offset == 0


def test_refused_record_is_told_apart_from_its_neighbours() -> None:
    """Record errors of the response fail only the records they name; the others learn that they were not at fault."""
    world = make_world()
    futures = [world.append(0, b"%d" % index) for index in range(3)]
    world.now_ms += 10
    world.drain()
    ((batch, _),) = world.wires[0].popleft()
    refusal = PartitionResult(0, ErrorCode.INVALID_RECORD, record_errors=[(1, "no key")], error_message="bad batch")
    world.completion.handle(batch, refusal, world.now_ms)
    messages = []
    for future in futures:
        assert future is not None
        with pytest.raises(KafkaError) as caught:
            future.value()
        messages.append(str(caught.value))
    assert "no key" in messages[1]
    assert "other records" in messages[0] and "other records" in messages[2]


def test_duplicate_without_remembered_offset_is_success_without_offset() -> None:
    """DUPLICATE_SEQUENCE_NUMBER means that the batch was written long ago."""
    world = make_world()
    future = world.append(0, b"v")
    world.now_ms += 10
    world.drain()
    ((batch, _),) = world.wires[0].popleft()
    world.completion.handle(batch, PartitionResult(0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER), world.now_ms)
    assert future is not None and future.value().offset == -1


def test_an_append_calls_the_sender_for_each_new_batch_only() -> None:
    """Each new batch wakes the sender, so no polling is necessary."""
    world = make_world()
    calls: list[int] = []
    world.accumulator.on_work = lambda: calls.append(len(calls))
    world.append(0, b"a")
    world.append(0, b"b")
    assert len(calls) == 1
    world.append(1, b"c")
    assert len(calls) == 2


def test_a_leader_that_is_not_ready_at_first_gets_the_first_batches_in_order() -> None:
    """A broker without state of the producer accepts any first sequence, so the first batch must arrive first."""
    world = make_world()
    futures = world.send_batches(*FIVE)
    world.unready[0] = 3
    settle_in(world, 2_000)
    assert world.values() == FIVE
    assert [future.value().offset for future in futures] == [0, 1, 2, 3, 4]


def test_only_the_first_batch_of_a_partition_is_sent_alone() -> None:
    """Only one batch is in flight until the broker has acknowledged one, then as many as allowed; partitions do not
    wait for each other.
    """
    world = make_world(buffer_memory=60_000)
    world.send_batches(*FIVE, *FIVE)
    assert len(world.wires[0]) == 1
    world.send_batches(b"a", partition=1)
    assert len(world.wires[1]) == 1
    world.exchange(0)
    world.drain_all()
    assert len(world.wires[0]) == 5
    world.settle()
    world.send_batches(*FIVE)
    assert len(world.wires[0]) == 5


def test_the_first_batch_under_a_new_epoch_or_id_is_sent_alone() -> None:
    """The epoch is bumped where the broker may have forgotten the producer; a new id is unknown to the broker."""
    world = make_known_world()
    assert world.idempotence is not None
    for epoch in (0, 32_767):
        world.idempotence.epoch = epoch
        world.send_batches(b"bad")
        world.refuse(ErrorCode.INVALID_RECORD)
        world.send_batches(*FIVE)
        assert len(world.wires[0]) == 1
        world.settle()
    assert world.idempotence.producer_id == 8
    assert world.values() == [b"first", *FIVE, *FIVE]


def test_nothing_new_goes_out_behind_a_retry() -> None:
    """The broker recognizes only the last five batches as duplicates; a retry must not become older than that."""
    world = make_known_world(buffer_memory=60_000)
    (late,) = world.send_batches(b"late")
    world.send_batches(b"a", b"b", b"c", b"d")
    ((batch, data),) = world.wires[0].popleft()
    assert world.broker.produce(batch.tp, data).error_code == ErrorCode.NONE
    not_enough = PartitionResult(0, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    world.completion.handle(batch, not_enough, world.now_ms)
    for _ in range(4):
        world.exchange(0)
    world.now_ms += 100
    world.send_batches(b"e", b"f", b"g", b"h")
    assert len(world.wires[0]) == 1
    world.cut(0, arrived=5)
    settle_in(world, 2_000)
    assert late.value().offset == 1
    assert world.values() == [b"first", b"late", b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"]


def test_a_batch_that_others_overtook_fails_at_once() -> None:
    """The batch's topic was recreated, and the broker accepted a later batch as the first one. Waiting would not help,
    and writing the batch now would break the order. Later batches continue in the same epoch.
    """
    world = make_known_world()
    futures = world.send_batches(*FIVE)
    world.broker.forget_producers()
    world.unready[0] = 3
    settle_in(world, 2_000)
    assert [code_of(future) for future in futures] == [OUT_OF_ORDER, OUT_OF_ORDER, OUT_OF_ORDER, None, None]
    world.send_batches(b"f")
    settle_in(world, 100)
    assert world.values() == [b"first", b"d", b"e", b"f"]
    assert world.idempotence is not None and world.idempotence.epoch == 0


def test_a_batch_behind_one_that_used_up_its_retries_gets_a_new_epoch() -> None:
    """The broker will never receive the batch before it, so the sequences start again from 0."""
    world = make_known_world(retries=2)
    lost, next_one = world.send_batches(b"lost", b"next")
    world.unready[0] = 10
    for _ in range(3):
        world.exchange(0)
        world.exchange(0)
        world.now_ms += 1_000
        world.drain_all()
    world.unready[0] = 0
    settle_in(world, 2_000)
    assert code_of(lost) == UNKNOWN
    assert code_of(next_one) is None
    assert world.values() == [b"first", b"next"]


def test_a_batch_behind_a_refused_one_is_sent_again_in_the_same_epoch() -> None:
    """The batch is out of order only until the batch before it is written."""
    world = make_known_world()
    world.send_batches(b"a", b"b")
    world.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    settle_in(world, 2_000)
    assert world.values() == [b"first", b"a", b"b"]
    assert world.idempotence is not None and world.idempotence.epoch == 0


def test_an_answer_to_what_was_sent_before_a_bump_asks_for_no_other() -> None:
    """The first of two batches in flight fails; the second is refused as well, but already has a new sequence."""
    world = make_known_world()
    world.send_batches(b"bad", b"a")
    world.refuse(ErrorCode.INVALID_RECORD)
    world.drain()
    world.exchange(0)
    settle_in(world, 2_000)
    assert world.values() == [b"first", b"a"]
    assert world.idempotence is not None and world.idempotence.epoch == 1


def test_a_batch_refused_as_out_of_order_after_a_bump_gets_one_more() -> None:
    """Responses to requests from before a bump say nothing about the current batches; later responses do."""
    world = make_known_world()
    world.send_batches(*FIVE)
    world.refuse(OUT_OF_ORDER)
    world.drain()
    assert world.idempotence is not None and world.idempotence.epoch == 1
    for _ in range(4):  # responses to requests from before the bump
        world.refuse(OUT_OF_ORDER)
    world.drain()
    assert world.idempotence.epoch == 1
    world.now_ms += 100
    world.drain()
    world.refuse(OUT_OF_ORDER)
    settle_in(world, 2_000)
    assert world.idempotence.epoch == 2
    assert world.values() == [b"first", *FIVE]


def test_an_acknowledgement_of_what_was_sent_before_a_bump_leaves_the_new_sequences_alone() -> None:
    """The broker has no batch of the new epoch yet, so none was overtaken."""
    world = make_known_world()
    world.send_batches(b"a", b"b", b"c")
    second, third = (request[0].batch for request in list(world.wires[0])[1:])
    world.refuse(OUT_OF_ORDER)
    world.drain()
    assert second.sequence_was_reset and third.sequence_was_reset
    world.wires[0].clear()
    world.completion.handle(second, PartitionResult(0, ErrorCode.NONE, 1), world.now_ms)
    world.completion.handle(third, PartitionResult(0, OUT_OF_ORDER), world.now_ms)
    (last,) = world.send_batches(b"d")
    world.now_ms += 100
    world.drain_all()
    assert len(world.wires[0]) == 1
    world.refuse(OUT_OF_ORDER)
    settle_in(world, 2_000)
    assert [code_of(future) for _, future in world.sent[TopicPartition("t", 0)]] == [None] * 5
    assert world.values() == [b"first", b"a", b"c", b"d"]
    assert last.value().offset == 3


def test_sequences_go_on_after_the_largest_one() -> None:
    """After 2^31 records the sequences of a partition are small again; the producer still knows which one is later."""
    world = make_world()
    assert world.idempotence is not None
    world.idempotence._entry(TopicPartition("t", 0)).next_sequence = 2**31 - 2
    world.send_batches(b"a")
    world.exchange(0)
    world.send_batches(b"b", b"c")
    world.exchange(0)
    world.exchange(0)
    overtaken, next_one = world.send_batches(b"d", b"e")
    world.broker.forget_producers()
    world.unready[0] = 1
    settle_in(world, 2_000)
    assert (code_of(overtaken), code_of(next_one)) == (OUT_OF_ORDER, None)
    assert world.idempotence.epoch == 0
    world.send_batches(b"f")
    world.refuse(OUT_OF_ORDER)
    settle_in(world, 2_000)
    assert world.idempotence.epoch == 1
    assert world.values() == [b"a", b"b", b"c", b"e", b"f"]


def test_a_batch_that_may_be_written_leaves_no_certain_gap_at_its_deadline() -> None:
    """The connection broke just as the batch's time was up. The broker may already have later batches, so they keep
    their sequences.
    """
    world = make_known_world(delivery_timeout_ms=1_000, request_timeout_ms=100)
    world.send_batches(b"a")
    world.now_ms += 500
    (follower,) = world.send_batches(b"b")
    world.now_ms += 500
    world.cut(0, arrived=2)
    settle_in(world, 2_000)
    assert world.values() == [b"first", b"a", b"b"]
    assert follower.value().offset == 2


def test_the_first_batch_of_a_transactional_producer_is_sent_alone() -> None:
    """A new transaction keeps the id and epoch, so its first batches need not wait; after a new epoch they must."""
    world = make_world(transactional_id="x")
    assert world.idempotence is not None
    world.send_batches(*FIVE)
    world.unready[0] = 3
    settle_in(world, 2_000)
    assert world.values() == FIVE
    world.send_batches(*FIVE)
    assert len(world.wires[0]) == 5
    world.settle()
    world.idempotence.start_over(7, 1)
    world.send_batches(*FIVE)
    assert len(world.wires[0]) == 1


def test_a_batch_of_a_transaction_that_others_overtook_fails_at_once() -> None:
    """The transaction must be aborted. Later batches are retried until they are the oldest themselves."""
    world = make_known_world(transactional_id="x")
    futures = world.send_batches(*FIVE)
    world.broker.forget_producers()
    world.unready[0] = 3
    for _ in FIVE:
        world.exchange(0)
    world.now_ms += 100
    world.drain()
    world.exchange(0)
    assert code_of(futures[0]) == OUT_OF_ORDER
    assert not futures[1].done()


def test_a_gap_fails_the_batch_of_a_transaction() -> None:
    """Only the coordinator bumps the epoch of a transactional producer."""
    world = make_known_world(transactional_id="x")
    first, second = world.send_batches(b"a", b"b")
    world.refuse(OUT_OF_ORDER)
    assert code_of(first) == OUT_OF_ORDER
    assert not second.done()
    world.refuse(OUT_OF_ORDER)
    assert code_of(second) == OUT_OF_ORDER
