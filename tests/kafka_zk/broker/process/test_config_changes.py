"""Configuration changes that are announced while a broker starts are applied after its start."""

import pytest
from twisted.internet.defer import ensureDeferred

from kafka_zk.base.turns import after
from kafka_zk.broker.process.config_changes import ConfigChanges
from kafka_zk.registry.config import ConfigRegistry
from tests.registry.world import World


class Applied:
    """A ``LiveConfig`` that records what it should read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    async def changed(self, entity_type: str, entity_name: str) -> None:
        self.read.append(f"{entity_type} {entity_name}")

    async def changes_missed(self) -> None:
        self.read.append("all")


@pytest.mark.parametrize("is_purged", [False, True])
def test_a_change_during_the_start_is_applied(is_purged: bool) -> None:
    """The change is applied even if a broker with a fast clock purges the announcement before the start is over."""
    world = World(2)
    broker, tool = world.clients
    configs, applied = ConfigRegistry(tool), Applied()

    async def story() -> None:
        await configs.change_entity("topics", "t", {})
        await configs.purge_changes(2**60)  # a broker that starts reads the topics later
        changes = ConfigChanges(ConfigRegistry(broker))
        await after(world.clock, 1)
        if is_purged:
            broker.cut()
        for user in ("alice", "bob", "alice"):
            await configs.change_entity("users", user, {"producer_byte_rate": "1"})
        if is_purged:
            await configs.purge_changes(2**60)
            broker.heal()
        await after(world.clock, 20)
        changes.follow(applied)  # type: ignore[arg-type]
        await after(world.clock, 1)
        assert applied.read == (["all"] if is_purged else ["users alice", "users bob"])
        await configs.change_entity("clients", "c", {"producer_byte_rate": "1"})
        await after(world.clock, 1)
        assert applied.read[-1] == "clients c"
        changes.close()
        await configs.change_entity("clients", "d", {"producer_byte_rate": "1"})
        await after(world.clock, 1)
        assert applied.read[-1] == "clients c"

    world.scheduler.run(ensureDeferred(story()))
