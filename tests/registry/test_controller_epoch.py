"""A claimed epoch is valid only if ``/controller_epoch`` contains it. Many concurrent claims cost at most two reads."""

import pytest
from twisted.internet.defer import ensureDeferred

from kafka_zk.registry.client.client import Create
from kafka_zk.registry.client.errors import InvalidZnode, NoNode, RegistryError
from kafka_zk.registry.client.pipeline import create_with_parents
from kafka_zk.registry.controller_epoch import ControllerEpochs
from kafka_zk.registry.znodes.controller import CONTROLLER_EPOCH
from tests.registry.world import World

FORGED = 2**31 - 1


@pytest.fixture
def world() -> World:
    world = World()
    world.scheduler.run(create_with_parents(world.clients[0], Create(CONTROLLER_EPOCH, b"7")))
    return world


def reads(world: World) -> int:
    return world.clients[1].counts["get"]


def test_an_epoch_is_confirmed_by_the_znode_and_read_once(world: World) -> None:
    epochs = ControllerEpochs(world.clients[1])
    assert world.scheduler.run(epochs.confirm(7))
    assert world.scheduler.run(epochs.confirm(5))
    assert reads(world) == 1
    assert not world.scheduler.run(epochs.confirm(FORGED))
    assert epochs.newest == 7
    world.scheduler.run(world.clients[0].set(CONTROLLER_EPOCH, b"8"))
    assert world.scheduler.run(epochs.confirm(8))


def test_claims_that_wait_together_share_a_read(world: World) -> None:
    epochs = ControllerEpochs(world.clients[1])
    claims = [ensureDeferred(epochs.confirm(FORGED)) for _ in range(100)]
    late = ensureDeferred(epochs.confirm(7))
    world.scheduler.run_for(1000)
    assert [claim.result for claim in claims] == [False] * 100
    assert late.result is True
    assert reads(world) <= 2


def test_a_claim_waits_for_the_connection(world: World) -> None:
    epochs = ControllerEpochs(world.clients[1])
    world.clients[1].disconnect()
    claim = ensureDeferred(epochs.confirm(7))
    assert not claim.called
    world.scheduler.run_for(1000)
    assert claim.result is True


@pytest.mark.parametrize(("data", "error"), [(b"garbage", InvalidZnode), (None, NoNode)])
def test_what_cannot_be_known_is_an_error_and_read_again(
    world: World, data: bytes | None, error: type[RegistryError]
) -> None:
    epochs = ControllerEpochs(world.clients[1])
    if data is None:
        world.scheduler.run(world.clients[0].delete(CONTROLLER_EPOCH))
    else:
        world.scheduler.run(world.clients[0].set(CONTROLLER_EPOCH, data))
    with pytest.raises(error):
        world.scheduler.run(epochs.confirm(8))
    if data is None:
        world.scheduler.run(world.clients[0].create(CONTROLLER_EPOCH, b"8"))
    else:
        world.scheduler.run(world.clients[0].set(CONTROLLER_EPOCH, b"8"))
    assert world.scheduler.run(epochs.confirm(8))
