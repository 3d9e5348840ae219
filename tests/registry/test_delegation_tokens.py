"""Tokens on one ZooKeeper with lost connections: no change is lost, and every change is announced."""

import pytest
from twisted.internet.defer import ensureDeferred, gatherResults

from kafka_zk.base.turns import after
from kafka_zk.registry.client.errors import NoNode
from kafka_zk.registry.delegation_tokens import DelegationTokenRegistry
from kafka_zk.registry.znodes.delegation_token import Principal, TokenInformation, token_path
from tests.registry.world import World

ALICE = Principal("User", "alice")
TOKEN = TokenInformation("id-1", ALICE, ALICE, (), 1000, 9000, 2000)


def test_tokens_are_written_listed_changed_and_removed() -> None:
    """The parents do not exist at first; the first write creates them."""
    world = World(1)
    registry = DelegationTokenRegistry(world.clients[0])

    async def story() -> None:
        assert await registry.token_ids() == []
        await registry.create(TOKEN)
        await registry.create(TOKEN)  # the same request again, after a lost connection
        assert await registry.token_ids() == ["id-1"]
        later = TOKEN._replace(expiry_ms=3000)
        assert await registry.update("id-1", lambda found: found._replace(expiry_ms=3000)) == later
        assert await registry.read(["id-1", "id-2"]) == {"id-1": later}
        assert await registry.update("id-1", lambda found: None) is None
        assert await registry.read(["id-1"]) == {}
        with pytest.raises(NoNode):
            await registry.update("id-1", lambda found: None)

    world.scheduler.run(story())


def test_a_token_that_cannot_be_understood_hides_no_other() -> None:
    world = World(1)
    registry = DelegationTokenRegistry(world.clients[0])

    async def story() -> None:
        await registry.create(TOKEN)
        await world.clients[0].create(token_path("id-2"), b"{}")
        assert await registry.read(["id-2", "id-1"]) == {"id-1": TOKEN}

    world.scheduler.run(story())


def test_writers_do_not_undo_each_other() -> None:
    """Two writers increase the expiry time concurrently, a hundred times each."""
    world = World(2)
    registries = [DelegationTokenRegistry(client) for client in world.clients]

    async def add(registry: DelegationTokenRegistry) -> None:
        for _ in range(100):
            await registry.update("id-1", lambda found: found._replace(expiry_ms=found.expiry_ms + 1))

    async def story() -> None:
        await registries[0].create(TOKEN)
        await gatherResults([ensureDeferred(add(registry)) for registry in registries])
        found = await registries[0].read(["id-1"])
        assert found["id-1"].expiry_ms == TOKEN.expiry_ms + 200

    world.scheduler.run(story())


def test_every_change_is_announced() -> None:
    world = World(2)
    writer, reader = (DelegationTokenRegistry(client) for client in world.clients)
    told: list[str | None] = []

    async def story() -> None:
        await reader.ensure_paths()
        reader.watch_changes(told.append)
        await writer.create(TOKEN)
        await writer.update("id-1", lambda found: found._replace(expiry_ms=3000))
        await writer.update("id-1", lambda found: found)
        await writer.update("id-1", lambda found: None)
        await after(world.clock, 1)
        assert told == ["id-1"] * 3, "a change without effect is not announced"
        assert await writer.purge_changes(world.scheduler.clock.wall_ms() + 3_600_000) == 3

    world.scheduler.run(story())
