"""A consumer in a group: where it begins, which records count as processed, and which offsets are committed."""

import pytest
from twisted.internet.task import Clock

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import BrokerError
from kafka_zk.clients.connection.waiting import run
from kafka_zk.clients.consumer.errors import CommitRefused, NoOffsetForPartition
from tests.kafka_zk.clients.connection.fake_cluster import FakeCluster, advance, finish
from tests.kafka_zk.clients.consumer.fake_group import A, B, FakeGroup, joined, offsets, poll


def test_records_come_from_the_committed_offset(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """Only partitions that the group assigned are read; brokers are found without a bootstrap address."""
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
    """If the start were not committed, the next owner would skip records that arrive before the first commit (largest).
    The start is committed even without automatic commits.
    """
    joined(clock, brokers, group, auto_offset_reset=reset, auto_commit_enable=False)
    group.assign(A)
    advance(clock, 0.1)
    assert group.committed == {A: start}


def test_a_start_that_was_refused_is_committed_after_the_connection_came_back(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """The session was SUSPENDED at the moment of the first attempt."""
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
    """The user chooses the start; the consumer skips no record."""
    consumer = joined(clock, brokers, group, auto_offset_reset="error")
    group.assign(A)
    for _ in range(2):
        with pytest.raises(NoOffsetForPartition, match="no offset is committed for t-0"):
            poll(clock, consumer)
    consumer.seek(A, 38)
    assert offsets(poll(clock, consumer)) == [38, 39]


def test_an_offset_out_of_range_is_reset_and_committed(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """The consumer behaves as if there were no committed offset."""
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


def test_records_are_processed_when_the_next_are_asked_for(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """The automatic commit covers processed records, not held ones; the same offset is not written twice."""
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
    """This gives at-most-once delivery: commit, then process. The user may also commit other offsets."""
    consumer = joined(clock, brokers, group, max_poll_records=10, auto_commit_enable=False)
    group.committed[A] = 0
    group.assign(A)
    poll(clock, consumer)
    finish(clock, run(consumer.commit()))
    assert group.committed == {A: 10}
    finish(clock, run(consumer.commit({A: 3})))
    assert group.committed == {A: 3}


def test_a_commit_is_refused_to_whom_does_not_own(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """One partition was never owned, another was lost while its records were processed; other partitions are committed.
    """
    consumer = joined(clock, brokers, group, auto_commit_enable=False)
    group.committed |= {A: 0, B: 0}
    group.assign(A, B)
    advance(clock, 0.3)  # both have fetched records by then
    records = poll(clock, consumer)
    assert offsets(records, A) and offsets(records, B)
    with pytest.raises(CommitRefused, match=r"t-7 was not committed: not the owner"):
        finish(clock, run(consumer.commit({TopicPartition("t", 7): 1})))
    group.lose(A)
    with pytest.raises(CommitRefused, match="t-0 was not committed: it was revoked") as refused:
        finish(clock, run(consumer.commit()))
    assert set(refused.value.reasons) == {A}
    assert group.committed == {A: 0, B: 40}
    poll(clock, consumer, 10)
    finish(clock, run(consumer.commit()))


def test_the_clock_never_takes_back_what_the_user_committed(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """With at-most-once delivery and automatic commits, an offset that the user committed before the work stays during
    it.
    """
    consumer = joined(clock, brokers, group, auto_commit_interval_ms=1_000, max_poll_records=10)
    group.committed[A] = 0
    group.assign(A)
    poll(clock, consumer)
    finish(clock, run(consumer.commit()))
    advance(clock, 2.5)
    assert group.commits[-1] == {A: 10} and group.committed == {A: 10}
    poll(clock, consumer)
    poll(clock, consumer)
    advance(clock, 1.1)
    assert group.committed == {A: 20}


def test_a_smaller_offset_that_the_user_commits_counts(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """The user may go back; from there on the committed offset grows again."""
    consumer = joined(clock, brokers, group, auto_commit_interval_ms=1_000, max_poll_records=10)
    group.assign(A)
    poll(clock, consumer)
    finish(clock, run(consumer.commit()))
    finish(clock, run(consumer.commit({A: 4})))
    assert group.committed == {A: 4}
    poll(clock, consumer)
    advance(clock, 1.1)
    assert group.committed == {A: 10}


def test_a_commit_after_a_seek_is_not_refused(clock: Clock, brokers: FakeCluster, group: FakeGroup) -> None:
    """The user left the held records by the seek; they were not revoked."""
    consumer = joined(clock, brokers, group, auto_commit_enable=False)
    group.assign(A)
    poll(clock, consumer)
    consumer.seek(A, 7)
    finish(clock, run(consumer.commit()))
    assert group.committed == {A: 7}


@pytest.mark.parametrize(("start", "offset"), [("earliest", 0), ("latest", 40)])
def test_a_start_that_the_user_sought_is_not_committed_for_him(
    start: str, offset: int, clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """Only a start that auto.offset.reset chose is committed; this one is written by the next commit, as after any
    seek.
    """
    consumer = joined(clock, brokers, group, auto_commit_enable=False)
    group.committed[A] = 20
    group.assign(A)
    poll(clock, consumer)
    consumer.seek(A, start)
    advance(clock, 0.5)
    assert consumer.position(A) == offset and group.commits == []
    finish(clock, run(consumer.commit()))
    assert group.committed == {A: offset}


def test_a_start_never_overwrites_what_was_committed_after_it(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """ZooKeeper is slow: the start of B waits while that of A is written, and meanwhile the automatic commit writes
    B.
    """
    consumer = joined(clock, brokers, group, auto_commit_interval_ms=200)
    group.commit_takes_s = 0.3
    group.assign(A)
    advance(clock, 0.05)
    group.assign(B)
    while consumer.position(B) != 40:
        poll(clock, consumer, 10)
    poll(clock, consumer, 1)
    advance(clock, 3)
    assert group.committed == {A: 40, B: 40}
    assert all(group.written(tp) == sorted(group.written(tp)) for tp in (A, B)), group.commits


@pytest.mark.parametrize("found_first", [True, False])
def test_a_start_is_not_written_after_a_commit_of_the_user(
    found_first: bool, clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """The start was found and refused before the commit, or is found after it."""
    consumer = joined(clock, brokers, group, auto_commit_enable=False)
    group.refusing = "the connection is in doubt"
    group.assign(A)
    if found_first:
        advance(clock, 0.1)
    group.refusing = None
    finish(clock, run(consumer.commit({A: 7})))
    advance(clock, 0.1)
    assert consumer.position(A) == 0
    group.delivery.resume()
    advance(clock, 0.1)
    assert group.written(A) == [7]


def test_the_clock_does_not_take_back_a_commit_of_the_user_that_is_under_way(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """Delivery is at most once, and ZooKeeper is slow."""
    consumer = joined(clock, brokers, group, auto_commit_interval_ms=1_000, max_poll_records=10)
    group.committed[A] = 0
    group.assign(A)
    poll(clock, consumer)
    poll(clock, consumer)  # ten are processed, ten more handed out
    group.commit_takes_s = 5
    committing = run(consumer.commit())
    advance(clock, 30)
    finish(clock, committing)
    assert set(group.written(A)) == {20}


def test_a_commit_that_waits_is_not_written_in_a_later_ownership(
    clock: Clock, brokers: FakeCluster, group: FakeGroup
) -> None:
    """Another member owned the partition in between and committed a higher offset than this consumer."""
    consumer = joined(clock, brokers, group, auto_commit_enable=False, max_poll_records=10)
    group.committed |= {A: 0, B: 0}
    group.assign(A, B)
    poll(clock, consumer)
    group.commit_takes_s = 1
    first, second = run(consumer.commit({B: 1})), run(consumer.commit({A: 10}))
    group.lose(A)
    group.committed[A] = 30
    group.assign(A)
    advance(clock, 5)
    finish(clock, first)
    with pytest.raises(CommitRefused, match="t-0 was not committed: it was revoked"):
        finish(clock, second)
    assert group.committed == {A: 30, B: 1}
