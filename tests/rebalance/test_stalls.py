"""A process that was paused needs a response from ZooKeeper before it continues."""

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kafka_zk.rebalance.stalls import STALL_S, TURN_S, StallGuard
from kafka_zk.registry.client.errors import ConnectionLoss, NoAuth, RegistryError, SessionLost


@pytest.mark.parametrize("error", [ConnectionLoss, SessionLost, NoAuth, RegistryError])
def test_whatever_the_answer_was_it_asks_again(error: type[RegistryError]) -> None:
    clock = Clock()
    asked: list[Deferred[None]] = []

    def ask() -> Deferred[None]:
        asked.append(Deferred())
        return asked[-1]

    guard = StallGuard(clock, ask)
    guard.start()
    clock.advance(STALL_S * 3)
    assert len(asked) == 1
    asked[0].errback(error("/"))
    clock.advance(TURN_S)
    assert len(asked) == 2 and clock.seconds() >= guard.awake_until_s
    asked[1].callback(None)
    clock.advance(0)
    assert clock.seconds() < guard.awake_until_s
    guard.stop()
