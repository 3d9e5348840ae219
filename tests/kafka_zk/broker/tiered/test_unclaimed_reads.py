"""Reads of remote records that no fetch awaits now."""

from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kafka_zk.base.types import FetchIsolation
from kafka_zk.broker.tiered.unclaimed_reads import KEPT_S, ReadKey, RemoteRead, RemoteRecords, UnclaimedReads
from kafka_zk.storage.files.errors import CorruptRecord
from tests.storage.helpers import batch

LOG = cast(Any, object())


def key(offset: int) -> ReadKey:
    return ReadKey(LOG, 0, offset, FetchIsolation.HIGH_WATERMARK)


class World:
    """``cancelled``: the reads that were cancelled before they ended."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.reads = UnclaimedReads(self.clock)
        self.cancelled: list[RemoteRead] = []

    def leave(self, offset: int) -> RemoteRead:
        read: RemoteRead = Deferred(self.cancelled.append)
        self.reads.leave(key(offset), read)
        return read


def records(size_bytes: int) -> RemoteRecords:
    return RemoteRecords(b"x" * size_bytes, [])


def test_a_read_is_claimed_once() -> None:
    """A claimed read may continue, and be left again."""
    world = World()
    read = world.leave(1)
    assert world.reads.claim(key(2)) is None
    assert world.reads.claim(key(1)) is read
    assert world.reads.claim(key(1)) is None
    assert not world.clock.getDelayedCalls()
    world.reads.leave(key(1), read)
    read.callback(records(3))
    assert world.reads.claim(key(1)) is read
    assert read.result == records(3)


def test_a_read_that_nobody_claims_is_cancelled() -> None:
    world = World()
    read = world.leave(1)
    world.clock.advance(KEPT_S)
    assert world.cancelled == [read]
    assert world.reads.claim(key(1)) is None


def test_the_error_of_a_read_reaches_its_claimer() -> None:
    world = World()
    world.leave(1).errback(CorruptRecord("damaged"))
    read = world.reads.claim(key(1))
    assert read is not None
    errors: list[object] = []
    read.addErrback(lambda failure: errors.append(failure.type))
    assert errors == [CorruptRecord]


def test_another_read_of_the_same_records_replaces_the_first() -> None:
    world = World()
    first, second = world.leave(1), world.leave(1)
    assert (world.cancelled, len(world.clock.getDelayedCalls())) == ([first], 1)
    assert world.reads.claim(key(1)) is second


def test_only_so_many_reads_are_kept() -> None:
    world = World()
    first, *others = [world.leave(offset) for offset in range(129)]
    assert world.cancelled == [first]
    assert [world.reads.claim(key(offset)) for offset in range(1, 129)] == others


def test_only_so_many_bytes_are_kept() -> None:
    """The oldest records are dropped; reads in progress stay."""
    world = World()
    reads = [world.leave(offset) for offset in range(4)]
    for read in reads[1:]:
        read.callback(records(6 << 20))
    assert [world.reads.claim(key(offset)) for offset in range(4)] == [reads[0], None, *reads[2:]]
    assert not world.cancelled


def test_records_above_the_limit_alone_are_kept_until_others_come() -> None:
    """One batch may be that large, and its consumer must get it."""
    world = World()
    large, small = world.leave(1), world.leave(2)
    large.callback(records(17 << 20))
    small.callback(records(1))
    assert [world.reads.claim(key(offset)) for offset in (1, 2)] == [None, small]
    large = world.leave(1)
    large.callback(records(17 << 20))
    assert world.reads.claim(key(1)) is large


@pytest.mark.parametrize(("max_bytes", "count"), [(0, 1), (195, 1), (196, 2), (1000, 3)])
def test_records_are_cut_between_batches(max_bytes: int, count: int) -> None:
    one = bytes(batch(value=b"x" * 30))
    assert len(one) == 98
    assert RemoteRecords(one * 3, []).at_most(max_bytes).records == one * count
