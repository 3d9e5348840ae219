"""Each producer id is given out once, however many producers ask at the same time."""

from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from kafka_zk.broker.transaction.producer_ids import ProducerIdManager
from kafka_zk.registry.client.errors import InvalidZnode, SessionLost

BLOCK = 1000


class World:
    """Many producers ask; blocks come when the test says so."""

    def __init__(self, asking: int) -> None:
        self.allocations: list[Deferred[range]] = []
        self.ids: list[int] = []
        self.failures: list[Any] = []
        self._manager = ProducerIdManager(self._allocate)
        for _ in range(asking):
            self.ask()

    def ask(self) -> None:
        ensureDeferred(self._manager.next_id()).addCallbacks(self.ids.append, self.failures.append)

    async def _allocate(self) -> range:
        self.allocations.append(Deferred())
        return await self.allocations[-1]


@pytest.mark.parametrize("asking", [1, 300, BLOCK, 2 * BLOCK + 1])
def test_all_who_ask_at_once_get_ids_of_their_own(asking: int) -> None:
    """The ids take as few blocks as possible, one after the other; many waiting producers cause no deep recursion."""
    world = World(asking)
    for number in range(-(-asking // BLOCK)):
        assert len(world.allocations) == number + 1
        world.allocations[number].callback(range(BLOCK * number, BLOCK * (number + 1)))
    assert sorted(world.ids) == list(range(asking))
    assert not world.failures


def test_a_failure_is_told_to_all_who_wait_and_the_next_one_tries_again() -> None:
    """Clients retry by themselves."""
    world = World(3)
    world.allocations[0].errback(SessionLost("gone"))
    assert [failure.type for failure in world.failures] == [SessionLost] * 3
    assert (world.ids, len(world.allocations)) == ([], 1)
    world.ask()
    world.allocations[1].callback(range(7, 8))
    assert world.ids == [7]


def test_garbage_in_the_block_is_told_once_and_heals(caplog: pytest.LogCaptureFixture) -> None:
    """In the meantime producers get a retriable error and keep retrying."""
    world = World(1)
    for asked in range(1, 4):
        world.allocations[-1].errback(InvalidZnode("/latest_producer_id_block: not JSON"))
        world.ask()
        assert len(world.allocations) == asked + 1
    world.allocations[-1].callback(range(5))
    assert (world.ids, len(world.failures)) == ([0], 3)
    assert [record.getMessage() for record in caplog.records] == [
        "no producer ids can be assigned: /latest_producer_id_block: not JSON"
    ]
