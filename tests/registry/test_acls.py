"""Two writers of ACLs on one ZooKeeper with lost connections: no change is lost, and every change is announced."""

import pytest

from kafka_zk.base.turns import after
from kafka_zk.registry.acls import AclRegistry
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.client.session import retry_until_connected
from kafka_zk.registry.znodes import acl as znodes
from kafka_zk.security.acl import Acl, Acls, Operation, Pattern, PatternType, Permission, ResourceType
from tests.registry.world import World

TOPIC = Pattern(ResourceType.TOPIC, "t", PatternType.LITERAL)
PREFIX = Pattern(ResourceType.GROUP, "pre-", PatternType.PREFIXED)


def acl(user: str) -> Acl:
    return Acl(f"User:{user}", "*", Operation.READ, Permission.ALLOW)


async def stored(registry: AclRegistry, pattern: Pattern = TOPIC) -> object:
    (answer,) = [found async for _, found in registry.read([pattern])]
    return answer


def test_acls_are_written_listed_and_removed() -> None:
    """The parents do not exist at first; the first write creates them."""
    world = World(1)
    registry = AclRegistry(world.clients[0])

    async def story() -> None:
        assert await registry.patterns() == []
        for pattern in (TOPIC, PREFIX):
            await registry.update(pattern, lambda present: present | {acl("a"), acl("b")})
        assert sorted(await registry.patterns()) == [TOPIC, PREFIX]
        await registry.update(TOPIC, lambda present: present - {acl("a")})
        assert await stored(registry) == {acl("b")}
        await registry.update(TOPIC, lambda present: frozenset())
        await registry.update(TOPIC, lambda present: frozenset())
        assert await registry.patterns() == [PREFIX], "a pattern without ACLs has no znode"
        assert await stored(registry) == frozenset()

    world.scheduler.run(story())


def test_writers_do_not_undo_each_other() -> None:
    """Two writers make 200 changes each to one topic concurrently: KAFKA-3328."""
    world = World(2, loss_probability=0.01)
    registries = [AclRegistry(client) for client in world.clients]

    async def add(number: int, added: Acls) -> None:
        update = registries[number].update
        await retry_until_connected(world.clients[number], lambda: update(TOPIC, lambda was: was | added))

    async def add_all(number: int) -> None:
        for user in range(200):
            await add(number, frozenset([acl(f"{number}-{user}")]))

    first, second = (world.scheduler.start(add_all(number)) for number in range(2))
    world.scheduler.run(first)
    world.scheduler.run(second)

    async def story() -> None:
        found = await stored(registries[0])
        assert isinstance(found, frozenset) and len(found) == 400

    world.scheduler.run(story())


def test_every_change_is_announced_to_all() -> None:
    """Changes made before the watch was set are announced, too. An unreadable announcement may stand for any change."""
    world = World(2)
    writer, reader = (AclRegistry(client) for client in world.clients)
    seen: list[Pattern | None] = []

    async def story() -> None:
        await writer.ensure_paths()
        await writer.update(TOPIC, lambda was: was | {acl("a")})
        watchers = reader.watch_changes(seen.append)
        await writer.update(PREFIX, lambda was: was | {acl("a")})
        await writer.update(PREFIX, lambda was: was | {acl("a")})
        await world.clients[0].create("/kafka-acl-changes/acl_changes_", b"?", sequential=True)
        await after(world.clock, 1)
        assert seen == [TOPIC, PREFIX, None], "a change without effect is not announced"
        for watcher in watchers:
            watcher.close()
        assert await writer.purge_changes(2**60) == 3

    world.scheduler.run(story())


def test_invalid_content_is_reported_and_only_replaced_on_demand() -> None:
    world = World(1)
    client = world.clients[0]
    registry = AclRegistry(client)

    async def story() -> None:
        await registry.ensure_paths()
        await client.create(znodes.pattern_path(TOPIC), b"{")
        assert isinstance(await stored(registry), InvalidZnode)
        with pytest.raises(InvalidZnode):
            await registry.update(TOPIC, lambda was: was | {acl("a")})
        await registry.update(TOPIC, lambda was: was | {acl("a")}, replace=True)
        assert await stored(registry) == {acl("a")}
        for name in ("a/b", "..", ""):
            with pytest.raises(InvalidZnode):
                await registry.update(TOPIC._replace(name=name), lambda was: was | {acl("a")})

    world.scheduler.run(story())
