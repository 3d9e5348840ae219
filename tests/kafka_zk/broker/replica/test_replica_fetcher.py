"""A fetcher with a real log and a leader whose part the test plays."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.broker.replica.leader_endpoint import EARLIEST, LATEST
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import EpochEndOffset, FetchedPartition
from kafka_zk.protocol.fetch_request import FetchPartition
from kafka_zk.storage.log.log import Log
from tests.kafka_zk.broker.replica.fetched_leader import LEADER, ME, OTHER, TP, World, three_batches, world, written
from tests.storage.helpers import append, batch

__all__ = ["world"]  # a fixture


def test_the_log_becomes_the_leaders(world: World, tmp_path: Path) -> None:
    """The logs are equal byte by byte, with their epochs; the high watermark follows, and waiting requests complete."""
    data = written(tmp_path / "leader", three_batches)
    world.lead()
    [wanted] = world.leader.wanted
    assert wanted == FetchPartition(0, 0, 1 << 20, 3, -1, 0)
    assert world.leader.requests[0][:2] == (500, 1)
    assert world.leader.requests[0].replica_id == ME
    assert world.leader.requests[0].replica_epoch == 44
    world.answer(data, high_watermark=12)
    assert (world.log.directory / "00000000000000000000.log").read_bytes() == data
    assert world.log.leader_epochs.entries == [(0, 0), (2, 10)]
    assert (world.log.log_end_offset, world.log.high_watermark) == (15, 12)
    assert world.changed == [TP, TP]  # first it was truncated to its high watermark
    assert world.leader.wanted == [FetchPartition(0, 15, 1 << 20, 3, 2, 0)]
    assert (world.leader.requests[-1].session_id, world.leader.requests[-1].session_epoch) == (9, 1)
    assert world.fetchers.max_lag == 0


def test_what_is_to_be_flushed_is_durable_before_the_leader_hears_of_it(world: World, tmp_path: Path) -> None:
    """With flush.messages, a fetch from an offset means that everything below it is durable on this broker."""
    world.log.update_config(replace(world.log.config, flush_messages=1))
    world.lead()
    world.answer(written(tmp_path / "leader", three_batches), high_watermark=10)
    assert world.log.log_end_offset == 15 and world.log.recovery_point == 0
    assert len(world.leader.requests) == 1
    [(work, done)] = world.in_threads
    done.callback(work())
    assert world.log.recovery_point == 15
    assert len(world.leader.requests) == 2 and world.leader.wanted[0].fetch_offset == 15


def test_an_answer_of_an_older_leader_epoch_is_not_applied(world: World, tmp_path: Path) -> None:
    data = written(tmp_path / "leader", three_batches)
    world.lead()
    world.lead(leader_epoch=4)
    world.answer(data, high_watermark=15)
    assert world.log.log_end_offset == 0
    assert world.leader.wanted[0].current_leader_epoch == 4


def test_another_leader_is_followed_over_another_connection(world: World, tmp_path: Path) -> None:
    """The old connection ends, and its responses are discarded."""
    world.lead()
    old = world.leader
    world.lead(OTHER, 4)
    assert not old.connected_to_broker
    assert world.leaders[OTHER].wanted[0].current_leader_epoch == 4


def test_whoever_becomes_leader_fetches_no_more(world: World) -> None:
    world.lead()
    world.lead(ME, 4)
    assert not world.leader.connected_to_broker


def test_what_the_leader_does_not_have_is_cut_off(world: World) -> None:
    """The removed records are the unreplicated end of an old leader, of an epoch that ended earlier at the new one."""
    three_batches(world.log)
    world.lead()
    world.answer(diverging_epoch=EpochEndOffset(0, 5), high_watermark=20)
    assert world.log.log_end_offset == 5
    assert world.log.high_watermark == 5  # the next response brings the leader's high watermark
    assert world.leader.wanted[0][1:5] == (5, 1 << 20, 3, 0)


def test_an_epoch_without_records_is_given_up(world: World) -> None:
    """If the epoch stayed, leader and follower would exchange the same divergence forever."""
    three_batches(world.log)
    world.log.leader_epochs.begin(5, 15)
    world.lead(leader_epoch=6)
    assert world.leader.wanted[0].last_fetched_epoch == 5
    world.answer(diverging_epoch=EpochEndOffset(2, 15))
    assert world.leader.wanted[0].last_fetched_epoch == 2


def test_behind_the_leaders_start_the_log_begins_anew_with_the_batch_that_holds_it(
    world: World, tmp_path: Path
) -> None:
    """The leader's log starts in the middle of a batch: the follower takes the whole batch."""
    def late(log: Log) -> None:
        log.truncate_fully_and_start_at(62)
        append(log, batch(60), leader_epoch=2)

    three_batches(world.log)
    world.lead()
    world.leader.offsets = {LATEST: 122, EARLIEST: 100}
    world.leader.answer(FetchedPartition(0, ErrorCode.OFFSET_OUT_OF_RANGE))
    assert world.leader.asked == [(LATEST, 3), (EARLIEST, 3)]
    assert world.leader.wanted[0][1:] == (100, 1 << 20, 3, -1, 100, None)
    world.answer(written(tmp_path / "leader", late), high_watermark=122, log_start_offset=100)
    assert (world.log.log_start_offset, world.log.log_end_offset, world.log.high_watermark) == (100, 122, 122)
    assert world.log.segments[0].base_offset == 62


def test_ahead_of_the_leader_the_log_is_cut_to_its_end(world: World) -> None:
    three_batches(world.log)
    world.lead()
    world.leader.offsets = {LATEST: 10, EARLIEST: 0}
    world.leader.answer(FetchedPartition(0, ErrorCode.OFFSET_OUT_OF_RANGE))
    assert world.log.log_end_offset == 10
    assert world.leader.wanted[0].fetch_offset == 10


def test_within_a_batch_of_the_leader_the_log_is_cut_until_the_batches_fit(world: World, tmp_path: Path) -> None:
    """The leader has lost its log and written two other batches in the same epoch, from 0 to 6 and up to 21."""

    def rewritten(log: Log) -> None:
        append(log, batch(7), leader_epoch=2)
        append(log, batch(15), leader_epoch=2)

    leaders, second = written(tmp_path / "leader", rewritten), len(batch(7))
    for _ in range(3):  # the follower's batches: from 0, from 5, and from 10 to 15
        append(world.log, batch(5), leader_epoch=2)
    world.lead()
    world.answer(leaders[second:], high_watermark=22)
    assert world.log.log_end_offset == 5
    world.answer(leaders, high_watermark=22)
    assert world.log.log_end_offset == 0
    world.answer(leaders, high_watermark=22)
    assert world.log.log_end_offset == 22
    assert (world.log.directory / "00000000000000000000.log").read_bytes() == leaders


def test_the_log_start_offset_follows_the_leaders(world: World, tmp_path: Path) -> None:
    three_batches(world.log)
    world.lead()
    world.answer(high_watermark=15, log_start_offset=7)
    assert world.log.log_start_offset == 7
    assert world.leader.wanted[0].log_start_offset == 7


def test_partitions_of_one_change_of_roles_are_asked_for_together(world: World) -> None:
    """One request covers them all, instead of one for the first and another after its response."""
    held = world.role_changes.acquire()
    assert held.called
    world.lead()
    assert world.leaders == {}
    world.role_changes.release()
    assert len(world.leader.requests) == 1


def test_a_broker_that_is_about_to_stop_follows_only_where_it_is_in_sync(world: World) -> None:
    """Elsewhere the follower would catch up, and the leader would wait for it until it learns that the broker is gone.
    """
    world.lead()
    world.fetchers.leave()
    world.lead(OTHER, 4)
    assert world.leaders[OTHER].wanted[0].current_leader_epoch == 4
    world.lead(LEADER, 5, isr=[LEADER])
    world.pass_time(2)
    assert not world.leader.connected_to_broker and len(world.leader.requests) == 1
    world.lead(LEADER, 6)
    assert world.leader.wanted[0].current_leader_epoch == 6


def test_a_stop_waits_for_what_is_under_way(world: World) -> None:
    world.lead()
    stopped: list[None] = []
    Deferred.fromCoroutine(world.fetchers.stop()).addCallback(stopped.append)
    assert stopped == [None]
    assert not world.leader.connected_to_broker
    world.lead(leader_epoch=4)
    assert len(world.leader.requests) == 1


# -- protocols below 2.7: the follower requests the ends of the leader's epochs ---------------------------------------


@pytest.fixture
def old_world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, "2.6")
    three_batches(world.log)
    yield world
    world.log.close()


def test_a_leader_that_does_not_tell_its_epochs_yet_is_asked_again(old_world: World) -> None:
    """The leader may not have received its LeaderAndIsr yet; nothing else would wake the fetcher."""
    old_world.epoch_ends += [(ErrorCode.UNKNOWN_LEADER_EPOCH, EpochEndOffset(-1, -1))]
    old_world.epoch_ends += [(ErrorCode.NONE, EpochEndOffset(2, 12))]
    old_world.lead()
    assert old_world.leader.epochs_asked == [2]
    old_world.pass_time(1.1)
    assert old_world.leader.epochs_asked == [2, 2]
    assert old_world.leader.wanted[0].fetch_offset == 10


def test_a_truncation_that_takes_several_questions_goes_on(old_world: World) -> None:
    """The leader names an epoch that the follower does not have."""
    old_world.epoch_ends += [(ErrorCode.NONE, EpochEndOffset(1, 12)), (ErrorCode.NONE, EpochEndOffset(0, 5))]
    old_world.lead()
    assert old_world.leader.epochs_asked == [2, 0]
    assert old_world.log.log_end_offset == 5
    assert old_world.leader.wanted[0].fetch_offset == 5
