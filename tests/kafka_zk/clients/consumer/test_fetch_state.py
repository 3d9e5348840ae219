"""Positions and fetched data of a reader: each offset once and in order, whatever the order of responses."""

import random
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import KafkaError, broker_error
from kafka_zk.clients.connection.list_offsets import EARLIEST, LATEST
from kafka_zk.clients.consumer.config import ReaderConfig
from kafka_zk.clients.consumer.fetch_state import After, FetchState, Lookup, UnreadableBatch, Wanted
from kafka_zk.clients.consumer.starts import Start, Timestamp
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import FetchedPartition
from kafka_zk.storage.records.record_batch import RecordBatchBuilder, set_crc

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(base_offset: int, count: int, **options: Any) -> bytes:
    builder = RecordBatchBuilder(**options)
    for index in range(count):
        builder.append(1000, None, b"%d" % (base_offset + index))
    return builder.build(base_offset=base_offset)


def make(starts: dict[TopicPartition, Start], **options: Any) -> FetchState:
    state = FetchState(ReaderConfig.from_properties(options))
    state.assign(starts)
    return state


def ask(state: FetchState, now_ms: int = 0) -> dict[TopicPartition, Wanted]:
    """Plan a fetch with every partition led by broker 0."""
    plans, _ = state.plan(lambda tp: 0, set(), now_ms)
    return {wanted.tp: wanted for wanted in plans.get(0, [])}


def lookups(state: FetchState, now_ms: int = 0) -> dict[TopicPartition, Lookup]:
    return state.plan_lookups(lambda tp: 0, now_ms)[0]


def answer(state: FetchState, wanted: Wanted, data: bytes, high_watermark: int = 1_000) -> After:
    partition = wanted.tp.partition
    return state.fetched(wanted, FetchedPartition(partition, 0, high_watermark, records=data), 0)


def offsets(state: FetchState) -> list[int]:
    return [record.offset for record in state.take()]


def test_records_come_in_order_and_the_position_follows() -> None:
    """max.poll.records cuts batches; the position is always the next record's offset."""
    state = make({A: 0}, max_poll_records=4)
    answer(state, ask(state)[A], batch(0, 3) + batch(3, 5))
    assert offsets(state) == [0, 1, 2, 3]
    assert state.position(A) == 4
    assert offsets(state) == [4, 5, 6, 7]
    assert state.position(A) == 8
    assert not state.has_records


def test_next_fetch_goes_out_while_records_wait() -> None:
    """The state fetches one response ahead of the user, up to the byte limit."""
    state = make({A: 0}, max_partition_fetch_bytes=150)
    answer(state, ask(state)[A], batch(0, 3))
    ahead = ask(state)[A]
    assert ahead.fetch_offset == 3
    answer(state, ahead, batch(3, 3))
    assert ask(state) == {}
    assert offsets(state) == [0, 1, 2, 3, 4, 5]
    assert ask(state)[A].fetch_offset == 6


def test_partition_in_flight_is_not_asked_again() -> None:
    """Each partition has at most one fetch in flight."""
    state = make({A: 0, B: 5})
    assert set(ask(state)) == {A, B}
    assert ask(state) == {}


def test_seek_drops_what_was_fetched_and_what_is_on_its_way() -> None:
    """The generation of a fetch shows that it was sent before the seek."""
    state = make({A: 0})
    answer(state, ask(state)[A], batch(0, 3))
    late = ask(state)[A]
    state.seek(A, 100)
    assert answer(state, late, batch(3, 3)) is After.NOTHING
    assert not state.has_records
    answer(state, ask(state)[A], batch(100, 1))
    assert offsets(state) == [100]


def test_starts_are_looked_up() -> None:
    """earliest, latest and timestamps need a ListOffsets response first; a timestamp after the end means the end."""
    state = make({A: "earliest", B: Timestamp(77)})
    asked = lookups(state)
    assert {tp: lookup.spec for tp, lookup in asked.items()} == {A: EARLIEST, B: 77}
    assert ask(state) == {} and lookups(state) == {}
    generations = {tp: lookup.generation for tp, lookup in asked.items()}
    state.looked_up(A, generations[A], 12)
    state.looked_up(B, generations[B], -1)
    assert state.position(A) == 12 and state.position(B) is None
    assert lookups(state) == {B: (LATEST, generations[B])}
    with pytest.raises(KafkaError, match="not assigned"):
        state.position(TopicPartition("t", 9))


def test_a_lookup_waits_for_a_leader_without_holding_up_others() -> None:
    """Only partitions with a leader are looked up; the driver learns that a partition has no leader."""
    state = make({A: "earliest", B: "earliest"})
    found, leaderless = state.plan_lookups(lambda tp: 0 if tp == A else None, 0)
    assert set(found) == {A} and leaderless
    assert set(lookups(state)) == {B}


def test_partitions_come_and_go_while_others_are_read() -> None:
    """Fetched records of a removed partition are dropped, as is its late response; other partitions are not affected.
    """
    state = make({A: 0})
    state.add({B: 10})
    asked = ask(state)
    answer(state, asked[A], batch(0, 2))
    answer(state, asked[B], batch(10, 2))
    late = ask(state)[A]
    state.remove([A])
    assert state.assignment == [B] and not state.has_records_of([A])
    state.add({A: 5})
    assert answer(state, late, batch(2, 2)) is After.NOTHING
    assert state.position(A) == 5
    assert offsets(state) == [10, 11]


def test_a_paused_partition_keeps_what_was_fetched() -> None:
    """The partition is neither fetched nor handed out until it is resumed."""
    state = make({A: 0, B: 0})
    answer(state, ask(state)[A], batch(0, 2))
    state.pause([A])
    assert not state.has_records and state.paused == [A]
    assert A not in ask(state)
    state.resume([A])
    assert offsets(state) == [0, 1]


def test_take_of_some_partitions_leaves_the_others() -> None:
    """Each stream of a consumer takes records of its own partitions."""
    state = make({A: 0, B: 10})
    asked = ask(state)
    answer(state, asked[A], batch(0, 2))
    answer(state, asked[B], batch(10, 2))
    assert state.has_records_of([B])
    assert [record.offset for record in state.take([B])] == [10, 11]
    assert not state.has_records_of([B]) and offsets(state) == [0, 1]


def test_a_partition_that_failed_raises_until_a_seek() -> None:
    """The partition stays failed until the user decides."""
    state = make({A: 0})
    answer(state, ask(state)[A], batch(0, 2))
    state.fail(A, 1, KafkaError("cannot be read"))
    for _ in range(2):
        with pytest.raises(KafkaError, match="cannot be read"):
            state.take()
    assert state.position(A) == 1 and ask(state) == {}
    state.seek(A, 2)
    assert ask(state)[A].fetch_offset == 2


@pytest.mark.parametrize("start", [-1, "newest", Timestamp(-1)])
def test_nonsense_starts_are_refused(start: Start) -> None:
    """ValueError names the partition."""
    with pytest.raises(ValueError, match="t-0"):
        make({A: start})


def test_out_of_range_resets_as_configured() -> None:
    """auto.offset.reset decides; with none the user gets Kafka's error."""
    for reset, spec in (("earliest", EARLIEST), ("latest", LATEST)):
        state = make({A: 99}, auto_offset_reset=reset)
        wanted = ask(state)[A]
        assert state.fetched(wanted, FetchedPartition(0, ErrorCode.OFFSET_OUT_OF_RANGE), 0) is After.RESET
        assert [found for found, _ in lookups(state).values()] == [spec]
    state = make({A: 99}, auto_offset_reset="none")
    state.fetched(ask(state)[A], FetchedPartition(0, ErrorCode.OFFSET_OUT_OF_RANGE), 0)
    for _ in range(2):
        with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
            state.take()
    state.seek(A, 0)
    assert not state.has_records


def test_old_metadata_pause_the_partition() -> None:
    """NOT_LEADER and similar errors request a metadata refresh; the partition is retried after retry.backoff.ms."""
    state = make({A: 0}, retry_backoff_ms=100)
    wanted = ask(state)[A]
    assert state.fetched(wanted, FetchedPartition(0, ErrorCode.NOT_LEADER_OR_FOLLOWER), 50) is After.REFRESH
    assert ask(state, 149) == {}
    assert state.next_retry_ms(149) == 150
    assert set(ask(state, 150)) == {A}


def test_damaged_batch_is_raised_after_what_lies_before_it() -> None:
    """No record is skipped silently: the good records come first, then CORRUPT_MESSAGE, repeatedly."""
    state = make({A: 0})
    damaged = bytearray(batch(3, 3))
    damaged[-2] ^= 1
    answer(state, ask(state)[A], batch(0, 3) + bytes(damaged))
    assert offsets(state) == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
            state.take()
    assert state.position(A) == 3


def test_a_batch_that_no_reader_can_read_is_stepped_over_and_named() -> None:
    """The batch's CRC is right, so every fetch would return the same batch; older brokers stored such batches."""
    state = make({A: 0})
    told: list[UnreadableBatch] = []
    state.on_unreadable = told.append
    malformed = bytearray(batch(3, 3))
    malformed[61] = 0x7F
    set_crc(malformed)
    answer(state, ask(state)[A], batch(0, 3) + bytes(malformed) + batch(6, 1))
    assert offsets(state) == [0, 1, 2, 6]
    assert state.position(A) == 7
    assert [each[:3] for each in told] == [(A, 3, 5)]


def test_control_batches_move_the_position() -> None:
    """A reader must not get stuck at a transaction marker."""
    state = make({A: 0})
    answer(state, ask(state)[A], batch(0, 1, control=True) + batch(1, 1))
    assert offsets(state) == [1]
    assert state.position(A) == 2


def test_partitions_take_turns() -> None:
    """A partition with much data does not starve another."""
    state = make({A: 0, B: 0}, max_poll_records=2)
    asked = ask(state)
    answer(state, asked[A], batch(0, 10))
    answer(state, asked[B], batch(0, 10))
    assert {record.partition for _ in range(2) for record in state.take()} == {0, 1}


def test_a_broker_is_not_asked_for_nothing_while_it_has_something() -> None:
    """A long poll for partitions at their end would block a partition that has data but, at the moment, no room."""
    state = make({A: 0, B: 0}, max_partition_fetch_bytes=1)
    asked = ask(state)
    answer(state, asked[A], batch(0, 3))
    answer(state, asked[B], b"", high_watermark=0)
    assert ask(state) == {}
    state.take()
    assert set(ask(state)) == {A, B}


def test_failed_lookup_is_repeated_or_raised() -> None:
    """A retriable error pauses the partition; any other error reaches the user."""
    state = make({A: "latest"}, retry_backoff_ms=100)
    (_, generation) = lookups(state)[A]
    state.lookup_failed(A, generation, broker_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, "x"), 0)
    assert lookups(state, 99) == {} and A in lookups(state, 100)
    state.lookup_failed(A, generation, broker_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "x"), 0)
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        state.take()


@pytest.mark.parametrize("seed", range(30))
def test_every_offset_is_delivered_once_whatever_arrives_when(seed: int) -> None:
    """Sizes, limits, lost fetches and leader changes are random; the records of each partition are 0, 1, 2 …"""
    source = random.Random(seed)
    logs: dict[TopicPartition, list[tuple[int, bytes]]] = {}
    for tp in (A, B):
        end, logs[tp] = 0, []
        for _ in range(20):
            count = source.randint(1, 9)
            logs[tp].append((end + count, batch(end, count)))
            end += count
    state = make({A: 0, B: 0}, max_poll_records=source.randint(1, 12), max_partition_fetch_bytes=source.randint(1, 900))
    got: dict[TopicPartition, list[int]] = {A: [], B: []}
    flying: list[Wanted] = []
    now_ms = 0
    while any(len(got[tp]) < logs[tp][-1][0] for tp in (A, B)):
        now_ms += source.randint(0, 60)
        if source.random() < 0.5:
            flying += ask(state, now_ms).values()
        if flying and source.random() < 0.7:
            wanted = flying.pop(source.randrange(len(flying)))
            chance = source.random()
            if chance < 0.1:
                state.fetch_lost(wanted, now_ms)
            elif chance < 0.2:
                state.fetched(wanted, FetchedPartition(0, ErrorCode.FENCED_LEADER_EPOCH), now_ms)
            else:
                log = logs[wanted.tp]
                data = b"".join([each for end, each in log if end > wanted.fetch_offset][: source.randint(0, 4)])
                cut = data[: len(data) - source.randint(0, 30)]
                answer(state, wanted, cut or data, log[-1][0])
        if source.random() < 0.5:
            for record in state.take():
                got[record.tp].append(record.offset)
    assert all(got[tp] == list(range(logs[tp][-1][0])) for tp in (A, B))


def test_an_offset_out_of_range_behind_older_data_is_not_asked_for_in_a_circle() -> None:
    """The broker would respond immediately each time, so the fetch would repeat without a pause until the user takes
    the fetched records.
    """
    state = make({A: 0}, retry_backoff_ms=100)
    answer(state, ask(state)[A], batch(0, 3))
    ahead = ask(state)[A]
    refusal = FetchedPartition(0, ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert state.fetched(ahead, refusal, 1_000) is After.NOTHING
    assert ask(state, 1_099) == {} and state.next_retry_ms(1_099) == 1_100
    assert offsets(state) == [0, 1, 2]
    assert state.fetched(ask(state, 1_100)[A], refusal, 1_100) is After.RESET


# --- the closest replica ---


def nodes(state: FetchState, now_ms: int = 0) -> dict[int, Wanted]:
    """Plan a fetch of A, which broker 0 leads; returns the node that gets it."""
    plans, _ = state.plan(lambda tp: 0, set(), now_ms)
    return {node: wanted for node, [wanted] in plans.items()}


def sent_to(state: FetchState, replica: int, now_ms: int = 0) -> Wanted:
    """The leader names another replica to read from, and the next fetch goes there."""
    state.fetched(nodes(state, now_ms)[0], FetchedPartition(0, 0, 9, preferred_read_replica=replica), now_ms)
    return nodes(state, now_ms)[replica]


def test_the_replica_that_the_leader_names_is_read_until_the_metadata_would_be_too_old() -> None:
    state = make({A: 0}, metadata_max_age_ms=1000)
    answer(state, sent_to(state, 2), batch(0, 3))
    assert nodes(state, 999)[2].fetch_offset == 3
    state.fetched(Wanted(A, 3, 1), FetchedPartition(0, 0, 9), 999)
    assert list(nodes(state, 1000)) == [0]


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_a_replica_that_refuses_is_left_for_the_leader(code: ErrorCode) -> None:
    state = make({A: 0}, retry_backoff_ms=100)
    assert state.fetched(sent_to(state, 2), FetchedPartition(0, code), 0) is After.REFRESH
    assert list(nodes(state, 100)) == [0]


def test_a_replica_that_cannot_be_reached_is_left_for_the_leader() -> None:
    state = make({A: 0}, retry_backoff_ms=100)
    state.fetch_lost(sent_to(state, 2), 0)
    assert list(nodes(state, 100)) == [0]


def test_out_of_range_at_a_follower_is_for_the_leader_to_say() -> None:
    """The follower may lag; the position stays."""
    state = make({A: 5}, retry_backoff_ms=100, auto_offset_reset="earliest")
    out_of_range = FetchedPartition(0, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert state.fetched(sent_to(state, 2), out_of_range, 0) is After.NOTHING
    assert state.position(A) == 5
    asked = nodes(state, 100)[0]
    assert state.fetched(asked, out_of_range, 100) is After.RESET
