"""The searches of one ListOffsets request in a remote storage that may be slow or hang."""

from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from kafka_zk.base.client_gone import ClientGone
from kafka_zk.base.turns import SLICE_S, Turns
from kafka_zk.broker.handlers.data.remote_searches import (
    SEARCH_TIMEOUT_S,
    SEARCHES_AT_ONCE,
    RemoteSearch,
    search_all,
)
from kafka_zk.protocol.errors import ApiError, ErrorCode
from tests.kafka_zk.broker.tiered.tiered_broker import TURN_S, WallClock


class World:
    """A request with ``count`` searches; the test ends them. ``begun``: those that were started."""

    def __init__(self, count: int) -> None:
        self.clock = Clock()
        self.begun: list[Deferred[int]] = []
        self.cancelled: list[Deferred[int]] = []
        self.searches = [RemoteSearch(self._begin) for _ in range(count)]
        self.outcomes: list[Any] = []

    async def _begin(self) -> int:
        self.begun.append(Deferred(self.cancelled.append))
        return await self.begun[-1]

    def run(self) -> None:
        running = ensureDeferred(search_all(self.clock, Turns(self.clock), self.searches))
        running.addErrback(lambda failure: type(failure.value)).addCallback(self.outcomes.append)


def code(search: RemoteSearch[int]) -> ErrorCode:
    with pytest.raises(ApiError) as raised:
        assert search.result is None
    return raised.value.code


def test_searches_are_concurrent_up_to_a_limit() -> None:
    """When a search ends, whichever it is, the next one begins."""
    world = World(SEARCHES_AT_ONCE + 2)
    world.run()
    assert len(world.begun) == SEARCHES_AT_ONCE
    world.begun[3].callback(3)
    assert len(world.begun) == SEARCHES_AT_ONCE + 1
    for number, search in reversed(list(enumerate(world.begun))):
        if number != 3:
            search.callback(number)
    world.begun[-1].callback(len(world.begun) - 1)
    assert world.outcomes == [None]
    assert [search.result for search in world.searches] == list(range(len(world.searches)))
    assert not world.clock.getDelayedCalls()


def test_one_deadline_ends_all_searches() -> None:
    """Searches that wait for their turn never begin. Results so far are kept."""
    world = World(2 * SEARCHES_AT_ONCE)
    world.run()
    world.clock.advance(SEARCH_TIMEOUT_S - 1)
    world.begun[0].callback(7)
    assert not world.outcomes
    world.clock.advance(1)
    assert world.outcomes == [None]
    assert len(world.begun) == SEARCHES_AT_ONCE + 1
    assert set(world.cancelled) == set(world.begun[1:])
    assert world.searches[0].result == 7
    assert {code(search) for search in world.searches[1:]} == {ErrorCode.REQUEST_TIMED_OUT}
    assert not world.clock.getDelayedCalls()


def test_a_failed_search_ends_no_other() -> None:
    world = World(2)
    world.run()
    world.begun[0].errback(ApiError(ErrorCode.OFFSET_NOT_AVAILABLE))
    assert not world.outcomes
    world.begun[1].callback(7)
    assert (world.outcomes, code(world.searches[0])) == ([None], ErrorCode.OFFSET_NOT_AVAILABLE)
    assert world.searches[1].result == 7


def test_searches_end_with_their_client() -> None:
    world = World(1)
    running = search_all(world.clock, Turns(world.clock), world.searches)
    running.send(None).abandon()
    with pytest.raises(ClientGone):
        running.send(None)
    assert code(world.searches[0]) is ErrorCode.REQUEST_TIMED_OUT
    assert not world.clock.getDelayedCalls()


def test_searches_without_a_wait_leave_turns_to_other_requests() -> None:
    clock = WallClock()
    count = 0

    async def at_once() -> None:
        nonlocal count
        count += 1
        clock.rightNow += SLICE_S

    searches = [RemoteSearch(at_once) for _ in range(3)]
    ensureDeferred(search_all(clock, Turns(clock), searches))
    seen: list[int] = []
    while count < 3:
        seen.append(count)
        clock.advance(TURN_S)
    assert seen == [1, 2]
