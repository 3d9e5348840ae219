"""The connection to the controller follows the controller."""

from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred, succeed

from kafka_zk.broker.metadata.cache import AliveBroker, BrokerEndPoint, MetadataCache
from kafka_zk.broker.process.controller_channel import ControllerChannel, NoController


class Connection:
    def __init__(self, port: int) -> None:
        self.port = port
        self.connected_to_broker = True

    def disconnect(self) -> None:
        self.connected_to_broker = False


class World:
    def __init__(self) -> None:
        self.controller_id = 1
        self.is_frozen = False
        self.connecting: Deferred[Any] = Deferred()
        self.metadata = MetadataCache()
        self.metadata.brokers = {
            broker_id: AliveBroker(broker_id, {"INTERNAL": BrokerEndPoint("host", 9000 + broker_id)}, None)
            for broker_id in (1, 2)
        }
        self.channel = ControllerChannel(lambda: self.controller_id, self.metadata, "INTERNAL", self._connect)

    def _connect(self, host: str, port: int) -> "Deferred[Any]":
        if self.is_frozen:
            return self.connecting
        return succeed(Connection(port))

    def connected(self) -> Any:
        result: list[Any] = []
        ensureDeferred(self.channel.connected()).addBoth(result.append)
        return result[0]


def test_the_connection_is_kept_while_the_controller_stays() -> None:
    world = World()
    first = world.connected()
    assert world.connected() is first and first.port == 9001
    first.connected_to_broker = False
    assert world.connected() is not first


def test_another_controller_is_connected_to_and_the_old_one_left() -> None:
    """The same holds if the controller moves to another address."""
    world = World()
    first = world.connected()
    world.controller_id = 2
    second = world.connected()
    assert (first.connected_to_broker, second.port) == (False, 9002)
    world.metadata.brokers[2] = AliveBroker(2, {"INTERNAL": BrokerEndPoint("host", 9100)}, None)
    assert (world.connected().port, second.connected_to_broker) == (9100, False)


def test_what_an_old_controller_was_asked_is_given_up_at_once() -> None:
    """The old controller's process may be paused, so its response would not come before the timeout."""
    world = World()
    first = world.connected()
    world.channel.controller_changed()
    assert first.connected_to_broker
    world.controller_id = -1
    world.channel.controller_changed()
    assert first.connected_to_broker
    world.controller_id = 2
    world.channel.controller_changed()
    assert not first.connected_to_broker


def test_a_connection_that_an_old_controller_does_not_take_is_given_up() -> None:
    world = World()
    world.is_frozen = True
    results: list[Any] = []
    ensureDeferred(world.channel.connected()).addBoth(results.append)
    world.controller_id = 2
    world.is_frozen = False
    world.channel.controller_changed()
    assert results[0].check(NoController)
    assert world.connected().port == 9002


def test_without_a_watch_the_metadata_say_who_controls() -> None:
    world = World()
    world.controller_id, world.metadata.controller_id = -1, 2
    assert world.connected().port == 9002


@pytest.mark.parametrize("controller_id", [-1, 3])
def test_a_controller_that_is_not_known_cannot_be_asked(controller_id: int) -> None:
    world = World()
    world.controller_id = controller_id
    assert world.connected().check(NoController)


def test_a_closed_channel_connects_no_more() -> None:
    world = World()
    first = world.connected()
    world.channel.close()
    assert not first.connected_to_broker
    assert world.connected().check(NoController)
