"""A broker that finds its own claim must not use the epoch of a controller that was elected in between."""

import pytest
from twisted.internet.defer import ensureDeferred

from kafka_zk.registry.controller import ControllerRegistry, Elected
from kafka_zk.registry.znodes.controller import CONTROLLER
from tests.registry.world import World


def test_two_controllers_never_have_the_same_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first broker repeats its election, as after a lost response, while an administrator deletes its claim."""
    world = World(3)
    first, second = (ControllerRegistry(client) for client in world.clients[:2])
    assert world.scheduler.run(first.elect(0)) == Elected(1, 1)
    client, get = world.clients[0], world.clients[0].get
    elected: list[object] = []

    async def slow_get(path: str, watch: object = None) -> object:
        found = await get(path)
        if path == CONTROLLER and not elected:
            await world.clients[2].delete(CONTROLLER)
            elected.append(await second.elect(1))
        return found

    monkeypatch.setattr(client, "get", lambda path, watch=None: ensureDeferred(slow_get(path, watch)))
    again = world.scheduler.run(first.elect(0))
    assert elected == [Elected(2, 2)]
    assert again != elected[0], "both controllers write under the same fence"
