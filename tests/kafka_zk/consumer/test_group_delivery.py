"""A consumer under a group that gives and takes partitions: what is handed out, and what is committed for it."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kafka_zk.client.errors import BrokerError, ClientClosed, KafkaError
from kafka_zk.client.waiting import run
from kafka_zk.consumer.errors import CommitRefused, NoOffsetForPartition, RecordDeserializationError
from kafka_zk.consumer.rebalance_listener import RebalanceListener
from kafka_zk.consumer.records import ConsumerRecord
from kafka_zk.consumer.zookeeper_consumer import ZookeeperConsumer
from storage.record_batch import RecordBatchBuilder
from storage.types import TopicPartition
from tests.kafka_zk.client.fake_cluster import FakeCluster, advance, finish
from tests.kafka_zk.consumer.fake_group import FakeGroup, joined

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def brokers(clock: Clock) -> FakeCluster:
    """Two partitions on two brokers, 40 records each."""
    cluster = FakeCluster(clock, {"t": [0, 1]})
    for tp in (A, B):
        write(cluster, tp, 0, 40)
    return cluster


@pytest.fixture
def group(clock: Clock) -> FakeGroup:
    return FakeGroup(clock)


def write(cluster: FakeCluster, tp: TopicPartition, base_offset: int, count: int, value: bytes | None = None) -> None:
    builder = RecordBatchBuilder()
    for index in range(count):
        builder.append(1000, b"k", b"%d" % (base_offset + index) if value is None else value)
    cluster.batches.setdefault(tp, []).append(builder.build(base_offset=base_offset))
    cluster.model.logs.setdefault(tp, []).extend([b""] * count)


def poll(clock: Clock, consumer: ZookeeperConsumer, timeout_ms: int = 1_000) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = finish(clock, run(consumer.poll(timeout_ms)))
    return records


def offsets(records: list[ConsumerRecord], tp: TopicPartition = A) -> list[int]:
    return [record.offset for record in records if record.topic_partition == tp]


# --- starts ---


def test_records_come_from_the_committed_offset(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """Only of partitions that the group gave, and brokers are found without a bootstrap address."""
    consumer = joined(clock, brokers, group)
    assert poll(clock, consumer, 50) == []
    group.committed[A] = 30
    group.assign(A)
    assert offsets(poll(clock, consumer)) == list(range(30, 40))
    assert consumer.assignment() == [A] and consumer.position(A) == 40


@pytest.mark.parametrize(("reset", "start"), [("smallest", 0), ("largest", 40)])
def test_a_start_that_the_reset_chose_is_committed_at_once(
    reset: str, start: int, clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """Or records that come before the first commit would be skipped by the next owner (largest); also without
    automatic commits."""
    joined(clock, brokers, group, auto_offset_reset=reset, auto_commit_enable=False)
    group.assign(A)
    advance(clock, 0.1)
    assert group.committed == {A: start}


def test_a_start_that_was_refused_is_committed_after_the_connection_came_back(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """SUSPENDED at the wrong moment."""
    joined(clock, brokers, group, auto_commit_enable=False)
    group.refusing = "the connection is in doubt"
    group.assign(A)
    advance(clock, 0.1)
    assert group.committed == {}
    group.refusing = None
    group.delivery.resume()
    advance(clock, 0.1)
    assert group.committed == {A: 0}


def test_no_offset_and_reset_error_raises_until_a_seek(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """The user says where to begin; nothing is skipped for him."""
    consumer = joined(clock, brokers, group, auto_offset_reset="error")
    group.assign(A)
    for _ in range(2):
        with pytest.raises(NoOffsetForPartition, match="no offset is committed for t-0"):
            poll(clock, consumer)
    consumer.seek(A, 38)
    assert offsets(poll(clock, consumer)) == [38, 39]


def test_an_offset_out_of_range_is_reset_and_committed(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """As a start that was not there."""
    consumer = joined(clock, brokers, group)
    group.committed[A] = 4_000
    group.assign(A)
    assert offsets(poll(clock, consumer, 5_000))[0] == 0
    assert group.committed[A] == 0
    strict = FakeGroup(clock)
    other = joined(clock, brokers, strict, auto_offset_reset="error")
    strict.committed[A] = 4_000
    strict.assign(A)
    with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE"):
        poll(clock, other)


# --- what counts as processed ---


def test_records_are_processed_when_the_next_are_asked_for(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """The clock commits what is done, not what is held; and the same offset is not written twice."""
    consumer = joined(clock, brokers, group, auto_commit_interval_ms=1_000, max_poll_records=10)
    group.committed[A] = 0
    group.assign(A)
    poll(clock, consumer)
    advance(clock, 1.1)
    assert group.commits == []
    poll(clock, consumer)
    advance(clock, 3)
    assert group.commits == [{A: 10}]


def test_an_explicit_commit_writes_what_was_handed_out(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """At most once: commit, then process. Or any offsets of one's own choice."""
    consumer = joined(clock, brokers, group, max_poll_records=10, auto_commit_enable=False)
    group.committed[A] = 0
    group.assign(A)
    poll(clock, consumer)
    finish(clock, run(consumer.commit()))
    assert group.committed == {A: 10}
    finish(clock, run(consumer.commit({A: 3})))
    assert group.committed == {A: 3}


def test_a_commit_is_refused_to_whom_does_not_own(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """Of a partition never owned, and of one that was lost while its records were processed; others are written."""
    consumer = joined(clock, brokers, group, auto_commit_enable=False)
    group.committed |= {A: 0, B: 0}
    group.assign(A, B)
    advance(clock, 0.3)  # both lie ready then
    records = poll(clock, consumer)
    assert offsets(records, A) and offsets(records, B)
    with pytest.raises(CommitRefused, match=r"t-7 was not committed: not the owner"):
        finish(clock, run(consumer.commit({TopicPartition("t", 7): 1})))
    group.lose(A)
    with pytest.raises(CommitRefused, match="t-0 was not committed: it was taken away") as refused:
        finish(clock, run(consumer.commit()))
    assert set(refused.value.reasons) == {A}
    assert group.committed == {A: 0, B: 40}
    poll(clock, consumer, 10)
    finish(clock, run(consumer.commit()))


# --- giving back ---


def test_release_waits_for_the_holder_to_ask_for_more(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """Then everything that was handed out is committed; and nothing was handed out meanwhile."""
    consumer = joined(clock, brokers, group, max_poll_records=10)
    group.assign(A)
    poll(clock, consumer)
    released = group.revoke(A)
    advance(clock, 1)
    assert not released.called and consumer.assignment() == []
    assert poll(clock, consumer, 0) == []
    finish(clock, released, 0.1)
    assert group.committed == {A: 10}


def test_release_is_at_once_when_nothing_is_held(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """A member whose user waits for records does not hold up the group (complaint 7)."""
    consumer = joined(clock, brokers, group)
    group.assign(A)
    assert len(poll(clock, consumer)) == 40
    waiting = run(consumer.poll(60_000))
    released = group.revoke(A)
    assert released.called and group.committed == {A: 40}
    assert not waiting.called


def test_release_waits_no_longer_than_the_backoff(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """What is held then will be delivered again: the first record of it is the next one to consume."""
    consumer = joined(clock, brokers, group, max_poll_records=10, rebalance_backoff_ms=500)
    group.assign(A)
    poll(clock, consumer)
    poll(clock, consumer)
    released = group.revoke(A)
    advance(clock, 0.49)
    assert not released.called
    advance(clock, 0.02)
    assert released.called and group.committed == {A: 10}


@given(backoff_ms=st.integers(0, 50), user_ms=st.integers(0, 50))
@settings(max_examples=60, deadline=None)
def test_two_timeouts_that_race_have_one_outcome(backoff_ms: int, user_ms: int) -> None:
    """Complaint 8: the user comes back before, after or exactly when the backoff ends: the release happens once, by
    then, and its offset says whether he was in time. Nothing is skipped."""
    clock = Clock()
    cluster = FakeCluster(clock, {"t": [0, 1]})
    write(cluster, A, 0, 40)
    group = FakeGroup(clock)
    consumer = joined(clock, cluster, group, max_poll_records=10, rebalance_backoff_ms=backoff_ms)
    group.assign(A)
    poll(clock, consumer)
    released = group.revoke(A)
    back: list[Deferred[list[ConsumerRecord]]] = []
    clock.callLater(user_ms / 1000, lambda: back.append(run(consumer.poll(0))))
    advance(clock, max(backoff_ms, user_ms) / 1000 + 0.002)
    assert released.called and back[0].called
    assert group.committed[A] in ({10} if user_ms < backoff_ms else {0} if user_ms > backoff_ms else {0, 10})


def test_without_automatic_commits_the_release_writes_nothing(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """The user may still commit while the release waits for him."""
    consumer = joined(clock, brokers, group, max_poll_records=10, auto_commit_enable=False)
    group.committed[A] = 0
    group.assign(A)
    poll(clock, consumer)
    released = group.revoke(A)
    finish(clock, run(consumer.commit()))
    poll(clock, consumer, 0)
    finish(clock, released)
    assert group.commits == [{A: 10}] and group.committed == {A: 10}


def test_a_lost_partition_ends_the_wait_for_its_holder(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """The session ends during a release: no offset of it counts."""
    consumer = joined(clock, brokers, group, max_poll_records=10)
    group.assign(A)
    poll(clock, consumer)
    released = group.revoke(A)
    group.lose(A)
    finish(clock, released, 0.1)
    assert group.committed == {A: 0}, "the start that the reset chose"


def test_a_partition_that_comes_back_starts_where_it_was_committed(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """What is still held of the former ownership does not count in the new one."""
    consumer = joined(clock, brokers, group, max_poll_records=10, auto_commit_interval_ms=100)
    group.assign(A)
    poll(clock, consumer)
    group.lose(A)
    group.committed[A] = 25
    group.assign(A)
    advance(clock, 0.5)
    assert group.committed == {A: 25}
    assert offsets(poll(clock, consumer))[0] == 25
    assert consumer.assignment() == [A]


# --- the lease ---


def test_nothing_is_handed_out_without_the_lease(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """may_act is asked at each hand-out; when it is held again, the waiting call goes on by itself."""
    consumer = joined(clock, brokers, group)
    group.assign(A)
    group.acting = False
    waiting = run(consumer.poll(60_000))
    advance(clock, 5)
    assert not waiting.called
    group.acting = True
    assert len(finish(clock, waiting, 0.2)) == 40


def test_suspended_pauses_and_resumed_goes_on(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """A blip: nothing is handed out while the connection is in doubt, nothing is lost or given twice after it."""
    consumer = joined(clock, brokers, group, max_poll_records=10)
    group.assign(A)
    first = poll(clock, consumer)
    group.delivery.suspend()
    assert poll(clock, consumer, 500) == []
    group.delivery.resume()
    assert offsets(first + poll(clock, consumer)) == list(range(20))


# --- streams, pause, seek ---


def test_each_stream_has_its_own_partitions(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """And the subscription says how many there are."""
    consumer = joined(clock, brokers, group, streams=2)
    assert group.registration.subscription == {"t": 2}
    group.assign(A, thread=0)
    group.assign(B, thread=1)
    one, two = consumer.streams
    assert len(offsets(finish(clock, run(one.poll(1_000))), A)) == 40
    assert len(offsets(finish(clock, run(two.poll(1_000))), B)) == 40
    with pytest.raises(KafkaError, match="stream by stream"):
        poll(clock, consumer)


def test_a_paused_partition_waits(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """Others go on; what was fetched of it comes after the resume."""
    consumer = joined(clock, brokers, group)
    group.assign(A, B)
    advance(clock, 0.2)
    consumer.pause(A)
    assert offsets(poll(clock, consumer, 100)) == []
    consumer.resume(A)
    assert offsets(poll(clock, consumer)) == list(range(40))
    with pytest.raises(KafkaError, match="t-7 is not owned"):
        consumer.pause(TopicPartition("t", 7))


def test_seek_moves_what_is_committed(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """Also back, and what was held does not count any more."""
    consumer = joined(clock, brokers, group, auto_commit_interval_ms=100)
    group.assign(A)
    poll(clock, consumer)
    consumer.seek(A, 7)
    advance(clock, 0.2)
    assert group.committed == {A: 7}
    assert offsets(poll(clock, consumer))[0] == 7


# --- deserializers ---


def test_keys_and_values_are_deserialized(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """By name or by an object."""
    consumer = joined(clock, brokers, group, key_deserializer="string", value_deserializer="json")
    group.assign(A)
    records = poll(clock, consumer)
    assert [(record.key, record.value) for record in records] == [("k", number) for number in range(40)]


def test_a_record_that_cannot_be_deserialized_is_not_passed_over(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """What lies before it comes first; then the error, again and again, until a seek."""
    write(brokers, A, 40, 1, b"{")
    write(brokers, A, 41, 1)
    consumer = joined(clock, brokers, group, value_deserializer="json", max_poll_records=100)
    group.assign(A)
    assert offsets(poll(clock, consumer)) == list(range(40))
    for _ in range(2):
        with pytest.raises(RecordDeserializationError, match="offset 40 of t-0"):
            poll(clock, consumer)
    assert consumer.position(A) == 40
    consumer.seek(A, 41)
    assert offsets(poll(clock, consumer)) == [41]


# --- listeners ---


class Recorder(RebalanceListener):
    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.answer: Deferred[None] | None = None

    def before_releasing_partitions(self, partitions: Collection[TopicPartition]) -> "Deferred[None] | None":
        self.calls.append(("releasing", list(partitions)))
        return self.answer

    def before_starting_fetchers(
        self, consumer_id: str, partitions: Mapping[TopicPartition, int]
    ) -> "Deferred[None] | None":
        self.calls.append(("starting", dict(partitions)))
        return self.answer


def test_the_listener_is_told_before_release_and_start(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """Release and fetching wait for what it answers."""
    listener = Recorder()
    consumer = joined(clock, brokers, group, listener=listener)
    listener.answer = starting = Deferred()
    group.assign(A)
    assert poll(clock, consumer, 500) == []
    starting.callback(None)
    assert len(poll(clock, consumer)) == 40
    poll(clock, consumer, 0)
    listener.answer = releasing = Deferred()
    released = group.revoke(A)
    assert not released.called and listener.calls == [("starting", {A: 0}), ("releasing", [A])]
    finish(clock, run(consumer.commit({A: 39})))
    releasing.callback(None)
    assert released.called


def test_a_listener_that_fails_or_hangs_stops_nothing(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """A hanging one is waited for no longer than rebalance.backoff.ms."""
    listener = Recorder()
    consumer = joined(clock, brokers, group, listener=listener)
    group.assign(A)
    assert len(poll(clock, consumer)) == 40
    poll(clock, consumer, 0)
    listener.answer = Deferred()
    released = group.revoke(A)
    advance(clock, 2.1)
    assert released.called and group.committed == {A: 40}


def test_a_partition_that_goes_while_the_listener_works_is_never_fetched(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """before_starting_fetchers took longer than the ownership."""
    listener = Recorder()
    consumer = joined(clock, brokers, group, listener=listener)
    listener.answer = starting = Deferred()
    group.committed[A] = 5
    group.assign(A)
    listener.answer = None
    finish(clock, group.revoke(A))
    starting.callback(None)
    assert poll(clock, consumer, 200) == [] and group.committed == {A: 5}


# --- leaving ---


def test_close_commits_what_was_processed_and_does_not_wait(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """The holder is the one who closes; what he holds may not be done."""
    consumer = joined(clock, brokers, group, max_poll_records=10)
    group.assign(A)
    poll(clock, consumer)
    poll(clock, consumer)
    finish(clock, run(consumer.close()), 0.1)
    assert group.committed == {A: 10}
    finish(clock, run(consumer.close()), 0.1)
    with pytest.raises(ClientClosed):
        poll(clock, consumer)
    advance(clock, 1)
    assert clock.getDelayedCalls() == []


@pytest.mark.parametrize(("fails", "committed"), [(False, 10), (True, 0)])
def test_leaving_the_block_says_whether_the_last_records_are_processed(
    fails: bool, committed: int, clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """An exception says that they are not."""
    consumer = joined(clock, brokers, group, max_poll_records=10)
    group.assign(A)

    async def use() -> None:
        async with consumer:
            await consumer.poll(1_000)
            if fails:
                raise ZeroDivisionError

    if fails:
        with pytest.raises(ZeroDivisionError):
            finish(clock, run(use()))
    else:
        finish(clock, run(use()))
    assert group.committed == {A: committed}


def test_a_close_during_the_start_leaves_no_session(clock: Clock) -> None:
    """ZooKeeper was slow to answer, and nobody wants the answer any more."""
    opened: Deferred[Any] = Deferred()
    closed: list[bool] = []

    class Client:
        async def close(self) -> None:
            closed.append(True)

    async def open_client() -> Any:
        return await opened

    consumer = ZookeeperConsumer(clock, group_id="g", open_client=open_client)
    consumer.subscribe(["t"])
    starting = run(consumer.start())
    finish(clock, run(consumer.close()), 0.1)
    opened.callback(Client())
    with pytest.raises(ClientClosed):
        finish(clock, starting, 0.1)
    assert closed == [True]


def test_a_member_that_cannot_go_on_says_why(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """Its id was taken over, say: the call that waits raises it, and so does every other one."""
    consumer = joined(clock, brokers, group)
    waiting = run(consumer.poll(60_000))
    group.delivery.failed(KafkaError("fenced"))
    for each in (waiting, run(consumer.poll(0))):
        with pytest.raises(KafkaError, match="fenced"):
            finish(clock, each, 0.1)
    finish(clock, run(consumer.close()), 0.1)


def test_close_does_not_wait_for_a_zookeeper_that_is_gone(
    clock: Clock, brokers: FakeCluster, group: FakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the session timeout the partitions are taken from us anyway."""
    consumer = joined(clock, brokers, group, rebalance_backoff_ms=100)
    hanging: Deferred[None] = Deferred()

    async def leave() -> None:
        await hanging

    monkeypatch.setattr(group, "leave", leave)
    closed = run(consumer.close())
    advance(clock, 6.0)
    assert not closed.called
    advance(clock, 0.2)
    assert closed.called


def test_what_comes_too_early_or_too_late_is_said(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """One sentence each."""
    fresh = ZookeeperConsumer(clock, group_id="g")
    with pytest.raises(KafkaError, match="subscribe to something first"):
        poll(clock, fresh)
    with pytest.raises(KafkaError, match="has not joined its group yet"):
        fresh.seek(A, 0)
    with pytest.raises(ValueError, match="subscribe to topics, to a white_list or to a black_list"):
        fresh.subscribe()
    consumer = joined(clock, brokers, group)
    with pytest.raises(KafkaError, match="subscription does not change"):
        consumer.subscribe(["u"])
