"""The credentials of all users, as ZooKeeper has them."""

import pytest
from twisted.internet.defer import ensureDeferred, gatherResults

from kafka_zk.base.turns import after
from kafka_zk.broker.security.scram_credentials import ScramCredentials
from kafka_zk.registry.client.pipeline import READS_AT_ONCE
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.security import scram
from tests.registry.world import World

KNOWN = scram.credential("SCRAM-SHA-256", scram.salted_password("SCRAM-SHA-256", "pw", b"s", 4096), b"s", 4096)
ENCODED = {"SCRAM-SHA-256": scram.encode_credential(KNOWN)}


def test_users_are_loaded_and_follow_their_changes() -> None:
    world = World()
    configs, users = ConfigRegistry(world.clients[0]), ScramCredentials(b"secret")

    async def story() -> None:
        await configs.set_entity("users", "a%40b", ENCODED)
        await configs.set_entity("users", "<default>", ENCODED)
        await users.load(configs)
        assert users.find("SCRAM-SHA-256", "a@b") == KNOWN
        assert users.find("SCRAM-SHA-256", "<default>") != KNOWN, "no user has the default's password"
        await configs.set_entity("users", "c", ENCODED)
        await users.reload(configs, ["c", "c/clients/x"])
        assert users.find("SCRAM-SHA-256", "c") == KNOWN
        await configs.set_entity("users", "c", {})
        await users.reload(configs, ["c"])
        assert users.find("SCRAM-SHA-256", "c") != KNOWN

    world.scheduler.run(story())


@pytest.mark.parametrize("after_ms", range(0, 12, 2))
def test_what_was_read_first_does_not_replace_what_was_read_later(after_ms: int) -> None:
    """All users are read in several requests; one of them changes during that time and is read again."""
    world = World(delay_ms=(1.0, 1.0))
    configs, users = ConfigRegistry(world.clients[0]), ScramCredentials(b"secret")
    names = [f"u{number:04}" for number in range(2 * READS_AT_ONCE)]

    async def change() -> None:
        await after(world.clock, after_ms / 1000)
        await configs.set_entity("users", names[0], {})
        await users.reload(configs, names[:1])

    async def story() -> None:
        for name in names:
            await configs.set_entity("users", name, ENCODED)
        await gatherResults([ensureDeferred(users.load(configs)), ensureDeferred(change())])
        assert users.find("SCRAM-SHA-256", names[0]) != KNOWN
        assert users.find("SCRAM-SHA-256", names[1]) == KNOWN

    world.scheduler.run(story())


def test_an_unknown_user_has_the_same_credential_on_every_broker() -> None:
    """The credential differs by cluster and mechanism, and its salt is plausible."""
    one, other = ScramCredentials(b"of a cluster"), ScramCredentials(b"of a cluster")
    found = one.find("SCRAM-SHA-256", "nobody")
    assert found == other.find("SCRAM-SHA-256", "nobody")
    assert found != ScramCredentials(b"of another").find("SCRAM-SHA-256", "nobody")
    assert found.salt != one.find("SCRAM-SHA-512", "nobody").salt


def test_a_credential_that_cannot_be_understood_is_none() -> None:
    world = World()
    configs, users = ConfigRegistry(world.clients[0]), ScramCredentials(b"secret")

    async def story() -> None:
        await configs.set_entity("users", "a", {"SCRAM-SHA-256": "salt=?", "SCRAM-SHA-512": "x"})
        await configs.set_entity("users", "b", ENCODED)
        await users.load(configs)
        assert users.find("SCRAM-SHA-256", "b") == KNOWN

    world.scheduler.run(story())
