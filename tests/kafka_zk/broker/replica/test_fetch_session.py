"""Incremental fetch sessions (KIP-227)."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.broker.replica.fetch_session import (
    EVERYTHING_MS,
    MIN_EVICTION_MS,
    PARTITION_BYTES,
    FetchContext,
    FetchSession,
    FetchSessions,
    PartitionKey,
    everything_ms_for,
)
from kafka_zk.network.memory_pool import KEPT_SHARE, UNBOUNDED, MemoryPool
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.fetch import FetchedPartition
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic


def sessions(slots: int = 3, memory: MemoryPool = UNBOUNDED) -> FetchSessions:
    """Fetch sessions of a broker with partitions 0 to 9."""
    return FetchSessions(slots, count(1).__next__, memory, lambda topic, partition: partition < 10)


def agree(key: PartitionKey, fetch: FetchPartition) -> bool:
    """Leader and follower have the same leader epoch."""
    return True


def ask(cache: FetchSessions, request: FetchRequest, topic_ids: bool = False, now_ms: int = 0) -> FetchContext:
    return cache.open(request, topic_ids, now_ms)


def request(
    session_id: int, epoch: int, offsets: dict[int, int], forgotten: list[int] | None = None, replica_id: int = -1
) -> FetchRequest:
    topics = [FetchTopic("t", None, [FetchPartition(p, offset, 100) for p, offset in offsets.items()])]
    return FetchRequest(
        0, 1, topics if offsets else [], session_id=session_id, session_epoch=epoch,
        forgotten_topics=[ForgottenTopic("t", None, forgotten)] if forgotten else (), replica_id=replica_id,
    )  # fmt: skip


def answer(context: FetchContext, **by_partition: FetchedPartition) -> list[int]:
    """The partitions in the response: every wanted partition is read; those not given are empty at offset 0."""
    given = {result.partition: result for result in by_partition.values()}
    fetched = [
        (topic, given.get(partition, FetchedPartition(partition, high_watermark=0, log_start_offset=0)))
        for topic, partition in context.wanted
    ]
    return [result.partition for topic in context.response(fetched).topics for result in topic.partitions]


def begin(cache: FetchSessions, *partitions: int) -> int:
    context = ask(cache, request(0, 0, dict.fromkeys(partitions, 0)))
    assert answer(context) == list(partitions)
    assert context.session is not None
    return context.session.session_id


def test_a_request_without_a_session_is_answered_in_full() -> None:
    """The request leaves no session behind."""
    cache = sessions()
    context = ask(cache, request(0, -1, {0: 0, 1: 0}))
    assert answer(context) == [0, 1]
    assert context.response([]).session_id == 0
    assert len(cache) == 0


def test_an_incremental_answer_carries_only_changes() -> None:
    """The changes are records, a new high watermark or log start, an error, and the end of an error."""
    cache = sessions()
    session_id = begin(cache, 0, 1, 2, 3, 4)
    moved = FetchedPartition(1, high_watermark=9, log_start_offset=0)
    started = FetchedPartition(2, high_watermark=0, log_start_offset=5)
    records = FetchedPartition(3, high_watermark=0, log_start_offset=0, records=b"x")
    failed = FetchedPartition(4, error_code=6)
    context = ask(cache, request(session_id, 1, {}))
    assert answer(context, a=moved, b=started, c=records, d=failed) == [1, 2, 3, 4]
    again = ask(cache, request(session_id, 2, {}))
    assert answer(again, a=moved, b=started) == [4]
    assert answer(ask(cache, request(session_id, 3, {})), a=moved, b=started) == []


def test_partitions_are_added_moved_and_forgotten() -> None:
    """The session has the offsets that the client sent last."""
    cache = sessions()
    session_id = begin(cache, 0, 1)
    context = ask(cache, request(session_id, 1, {1: 7, 2: 3}, forgotten=[0]))
    assert {partition: fetch.fetch_offset for (_, partition), fetch in context.wanted.items()} == {1: 7, 2: 3}


def test_a_partition_that_brought_records_goes_to_the_end() -> None:
    """If the partition stayed first, a byte limit would starve the partitions behind it."""
    cache = sessions()
    session_id = begin(cache, 0, 1, 2)
    records = FetchedPartition(0, high_watermark=0, log_start_offset=0, records=b"x")
    answer(ask(cache, request(session_id, 1, {})), a=records)
    context = ask(cache, request(session_id, 2, {0: 1}))
    assert [partition for _, partition in context.wanted] == [1, 2, 0]


@pytest.mark.parametrize(
    ("session_id", "epoch", "topic_ids", "code"),
    [
        (99, 1, False, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (1, 2, False, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (1, 1, True, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_a_request_that_does_not_fit_its_session_is_refused(
    session_id: int, epoch: int, topic_ids: bool, code: ErrorCode
) -> None:
    """The client then starts a new session."""
    cache = sessions()
    begin(cache, 0)
    with pytest.raises(ApiError) as refused:
        ask(cache, request(session_id, epoch, {}), topic_ids)
    assert refused.value.code is code


def test_a_session_ends_when_the_client_closes_it_or_wants_nothing_more() -> None:
    """The client sends epoch -1 to close a session, or forgets all its partitions."""
    cache = sessions()
    first, second = begin(cache, 0), begin(cache, 0)
    ask(cache, request(first, -1, {}))
    assert len(cache) == 1
    assert ask(cache, request(second, 1, {}, forgotten=[0])).session is None
    assert len(cache) == 0


def test_a_full_cache_gives_up_only_what_was_long_unused() -> None:
    """Until a session has been unused for MIN_EVICTION_MS, a new client gets no session."""
    cache = sessions(slots=1)
    begin(cache, 0)
    assert ask(cache, request(0, 0, {0: 0}), now_ms=MIN_EVICTION_MS - 1).session is None
    newcomer = ask(cache, request(0, 0, {0: 0}), now_ms=MIN_EVICTION_MS).session
    assert newcomer is not None and newcomer.session_id == 2
    assert len(cache) == 1


def test_partitions_that_the_broker_does_not_know_are_not_remembered() -> None:
    """The number of unknown partitions has no bound. A client that requests one gets no session until the broker knows
    the partition."""
    cache = sessions()
    assert ask(cache, request(0, 0, {0: 0, 99: 0})).session is None
    session_id = begin(cache, 0)
    with pytest.raises(ApiError) as refused:
        ask(cache, request(session_id, 1, {99: 0}))
    assert refused.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(cache) == 0
    session_id = begin(cache, 0)
    assert ask(cache, request(session_id, 1, {}, forgotten=[99])).session is not None


def test_all_sessions_together_remember_as_many_partitions_as_their_share_of_the_memory_holds() -> None:
    memory = MemoryPool(4 * PARTITION_BYTES * KEPT_SHARE)
    cache = sessions(100, memory)
    first = begin(cache, 0, 1, 2)
    assert ask(cache, request(0, 0, {0: 0, 1: 0})).session is None
    second = begin(cache, 5)
    assert memory.kept_bytes == 4 * PARTITION_BYTES
    with pytest.raises(ApiError):
        ask(cache, request(second, 1, {6: 0}))
    assert memory.kept_bytes == 3 * PARTITION_BYTES
    ask(cache, request(first, 1, {3: 0, 0: 5}, forgotten=[1, 2]))
    assert memory.kept_bytes == 2 * PARTITION_BYTES
    ask(cache, request(first, -1, {}))
    assert (memory.kept_bytes, cache.partition_count) == (0, 0)


def test_sessions_that_were_long_unused_make_room_for_a_large_one() -> None:
    cache = sessions(100, MemoryPool(4 * PARTITION_BYTES * KEPT_SHARE))
    for partition in range(4):
        begin(cache, partition)
    newcomer = ask(cache, request(0, 0, {0: 0, 1: 0, 2: 0}), now_ms=MIN_EVICTION_MS)
    assert newcomer.session is not None
    assert len(cache) == 2


def test_what_was_forgotten_meanwhile_is_not_remembered_again() -> None:
    """A waiting request still returns a partition that the next request of its session forgets."""
    cache = sessions()
    session_id = begin(cache, 1, 2)
    waiting = ask(cache, request(session_id, 1, {}))
    partitions = list(waiting.wanted)
    ask(cache, request(session_id, 2, {}, forgotten=[2]))
    assert waiting.session is not None
    told = FetchedPartition(2, high_watermark=5, log_start_offset=0)
    waiting.response([(topic, told) for topic, number in partitions if number == 2])
    assert answer(ask(cache, request(session_id, 3, {2: 0})), two=told) == [2], "requested again, so sent again"


Wanted = dict[tuple[str | bytes, int], FetchPartition]


def test_of_a_followers_partitions_those_are_due_where_something_may_have_happened() -> None:
    wanted: Wanted = {("t", number): FetchPartition(number, 0, 100) for number in range(5)}
    session = FetchSession(1, wanted, False, 0, is_follower=True)
    now_ms, nothing = 10_000, request(1, 1, {})
    assert session.due(nothing, set(), now_ms, agree) == {}, "the session's first request examined them all"
    session.answered([("t", 3)], 7)
    due = session.due(request(1, 2, {4: 0}), {("t", 0), ("u", 1)}, now_ms, agree)
    assert list(due) == [("t", 0), ("t", 3), ("t", 4)]
    assert session.seen_count == 7
    session.answered([], 8)
    assert session.due(nothing, None, now_ms, agree) == session.wanted, "too many changes are forgotten"


def test_a_follower_keeps_its_session_though_it_hears_of_a_partition_first() -> None:
    """LeaderAndIsr reaches one broker before the other, so the response has an error for that partition only."""
    cache, unknown = sessions(), 99
    context = ask(cache, request(0, 0, {0: 0, unknown: 0}, replica_id=5))
    assert context.session is not None
    session_id = context.session.session_id
    context = ask(cache, request(session_id, 1, {unknown + 1: 0}, [unknown], replica_id=5))
    assert context.session is not None and [number for _, number in context.wanted] == [0, unknown + 1]


def test_a_follower_takes_the_session_of_a_consumer() -> None:
    """A follower's session replaces the least recently used session of a consumer, never that of another follower."""
    cache = sessions(slots=2)
    begin(cache, 0)
    recent = begin(cache, 1)
    first = ask(cache, request(0, 0, {2: 0}, replica_id=5)).session
    assert first is not None and len(cache) == 2
    assert ask(cache, request(recent, 1, {})).session is not None
    assert ask(cache, request(0, 0, {3: 0})).session is None, "a consumer replaces no session"
    assert ask(cache, request(0, 0, {4: 0}, replica_id=6)).session is not None
    assert ask(cache, request(0, 0, {5: 0}, replica_id=7)).session is None
    assert ask(cache, request(first.session_id, 1, {}, replica_id=5)).session is first


def test_a_follower_that_cannot_have_room_takes_no_sessions() -> None:
    pool = MemoryPool(KEPT_SHARE * 10 * PARTITION_BYTES)
    cache = sessions(slots=9, memory=pool)
    for number in range(5):
        begin(cache, number)
    assert ask(cache, request(0, 0, dict.fromkeys(range(11), 0), replica_id=5)).session is None and len(cache) == 5
    assert ask(cache, request(0, 0, dict.fromkeys(range(8), 0), replica_id=5)).session is not None


def test_what_is_asked_for_again_comes_last() -> None:
    wanted: Wanted = {("t", number): FetchPartition(number, 0, 100) for number in range(4)}
    session = FetchSession(1, wanted, False, 0, is_follower=True)
    forgetting = request(1, 1, {}, [0])
    session.apply({}, forgetting)
    again = request(1, 2, {0: 0})
    session.apply({("t", 0): FetchPartition(0, 0, 100)}, again)
    changed: set[tuple[str | bytes, int]] = {("t", number) for number in range(4)}
    session.due(again, None, 0, agree)
    assert list(session.due(again, changed, 0, agree)) == list(session.wanted) == [("t", n) for n in (1, 2, 3, 0)]


def test_what_is_due_of_many_comes_in_order() -> None:
    """Partitions that returned records come after those that did not, in the order of their last records."""
    wanted: Wanted = {("t", number): FetchPartition(number, 0, 100) for number in range(1_000)}
    session = FetchSession(1, wanted, False, 0, is_follower=True)
    session.due(request(1, 1, {}), set(), 0, agree)  # this begins the round in which each partition is examined
    for number in (7, 5, 7):
        session.changes([("t", FetchedPartition(number, high_watermark=0, log_start_offset=0, records=b"x"))])
    changed: set[tuple[str | bytes, int]] = {("t", number) for number in (3, 5, 7, 900)}
    assert list(session.due(request(1, 2, {}), changed, 0, agree)) == [("t", 3), ("t", 900), ("t", 5), ("t", 7)]


@given(st.lists(st.integers(1, 700), min_size=5), st.integers(1, 40))
def test_each_partition_of_a_follower_has_its_turn(pauses_ms: list[int], count: int) -> None:
    """The turn comes within EVERYTHING_MS plus the time between two fetches; no fetch examines more than its share."""
    wanted: Wanted = {("t", number): FetchPartition(number, 0, 100) for number in range(count)}
    session = FetchSession(1, wanted, False, 0, is_follower=True)
    now_ms = 10_000
    assert session.due(request(1, 1, {}), set(), now_ms, agree) == {}
    looked_ms = dict.fromkeys(session.wanted, now_ms)
    for pause_ms in pauses_ms:
        now_ms += pause_ms
        due = session.due(request(1, 1, {}), set(), now_ms, agree)
        assert len(due) <= count * pause_ms / EVERYTHING_MS + 1
        looked_ms.update(dict.fromkeys(due, now_ms))
        assert all(now_ms - looked <= EVERYTHING_MS + 2 * max(pauses_ms) for looked in looked_ms.values())


def test_how_long_partitions_may_wait_for_their_turn() -> None:
    """The wait is much shorter than the allowed lag."""
    assert [everything_ms_for(lag) for lag in (1, 3_000, 6_000, 30_000, 600_000)] == [500, 500, 1_000, 5_000, 5_000]
