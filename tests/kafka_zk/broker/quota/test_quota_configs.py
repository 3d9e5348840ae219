"""Quotas follow ZooKeeper: at the start, by notifications, and in a new session."""

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from kafka_zk.base.rate import QuotaWindow
from kafka_zk.broker.quota.client_quotas import ClientQuotas
from kafka_zk.broker.quota.enforcement import Enforcement
from kafka_zk.broker.quota.quota_configs import QuotaConfigs
from kafka_zk.broker.quota.quota_entities import changed
from kafka_zk.broker.quota.quota_table import QuotaKey
from kafka_zk.registry.client.errors import NoNode
from kafka_zk.registry.client.pipeline import READS_AT_ONCE
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.registry.znodes.config import entity_path
from tests.registry.world import World

RATE = QuotaKey.PRODUCE.value


class Broker:
    """``rates``: the connection rates of addresses, as their listeners receive them."""

    def __init__(self, configs: ConfigRegistry) -> None:
        self.enforcement = Enforcement(ClientQuotas(QuotaWindow(), QuotaWindow()), Clock())
        self.rates: dict[str | None, int] = {}

        async def at_once(work: Callable[[], object]) -> object:
            return work()

        self.configs = QuotaConfigs(self.enforcement, configs, at_once)  # type: ignore[arg-type]
        self.configs.limit_addresses_by(self._set)

    def _set(self, address: str | None, rate: int | None) -> None:
        if rate is None:
            self.rates.pop(address, None)
        else:
            self.rates[address] = rate

    def bound(self, user: str, client: str) -> float | None:
        match = self.enforcement.quotas.table.find(QuotaKey.PRODUCE, user, client)
        return None if match is None else match.bound


def play(story: Callable[[ConfigRegistry, World], Coroutine[Any, Any, None]]) -> None:
    world = World()
    world.scheduler.run(story(ConfigRegistry(world.clients[0]), world))


def test_all_quotas_are_read_at_the_start() -> None:
    async def story(configs: ConfigRegistry, _: World) -> None:
        await configs.set_entity("users", "a%40b", {RATE: "1"})
        await configs.set_entity("users", "a%40b/clients/<default>", {RATE: "2"})
        await configs.set_entity("users", "<default>/clients/c", {RATE: "3"})
        await configs.set_entity("users", "none", {})
        await configs.set_entity("clients", "<default>", {RATE: "4"})
        await configs.set_entity("ips", "<default>", {"connection_creation_rate": "5"})
        await configs.set_entity("ips", "127.0.0.1", {"connection_creation_rate": "6"})
        broker = Broker(configs)
        await broker.configs.load()
        found = [broker.bound(*who) for who in [("a@b", ""), ("a@b", "x"), ("u", "c"), ("u", "x")]]
        assert found == [1, 2, 3, 4]
        assert broker.rates == {None: 5, "127.0.0.1": 6}

    play(story)


def test_a_new_session_forgets_what_has_gone() -> None:
    """The notification of a deletion may have been deleted, too."""

    async def story(configs: ConfigRegistry, world: World) -> None:
        await configs.set_entity("users", "a/clients/c", {RATE: "1"})
        await configs.set_entity("clients", "c", {RATE: "2"})
        await configs.set_entity("ips", "127.0.0.1", {"connection_creation_rate": "6"})
        broker = Broker(configs)
        await broker.configs.load()
        assert broker.bound("a", "c") == 1
        for entity_type, name in [("users", "a/clients/c"), ("clients", "c"), ("ips", "127.0.0.1")]:
            await world.clients[0].delete(entity_path(entity_type, name))
        await broker.configs.load()
        assert broker.enforcement.quotas.table.is_empty and broker.rates == {}

    play(story)


def test_more_users_than_one_request_reads() -> None:
    async def story(configs: ConfigRegistry, _: World) -> None:
        for number in range(300):
            await configs.set_entity("users", f"u{number}", {RATE: str(number + 1)})
        await configs.set_entity("users", "u299/clients/c", {RATE: "5"})
        broker = Broker(configs)
        await broker.configs.load()
        assert (broker.bound("u298", "c"), broker.bound("u299", "c")) == (299, 5)

    play(story)


def test_what_cannot_be_understood_does_not_count() -> None:
    async def story(configs: ConfigRegistry, _: World) -> None:
        await configs.set_entity("users", "a", {RATE: "many", "request_percentage": "50"})
        await configs.set_entity("ips", "127.0.0.1", {"connection_creation_rate": "-6"})
        await configs.set_entity("ips", "no%20address", {"connection_creation_rate": "6"})
        broker = Broker(configs)
        await broker.configs.load()
        assert broker.bound("a", "c") is None and broker.rates == {}
        assert broker.enforcement.quotas.table.has(QuotaKey.REQUEST)

    play(story)


def test_two_writers_of_one_user_both_take_effect() -> None:
    """The removal of the last quota removes the entity's znodes, but not those of its clients."""

    async def story(configs: ConfigRegistry, world: World) -> None:
        other = ConfigRegistry(world.clients[1])

        def setting(key: str, value: str | None) -> Callable[[object], dict[str, str]]:
            return lambda present: changed(present, {key: value})  # type: ignore[arg-type]

        await configs.update_entity("users", "a", setting("x", "1"), removes_empty=True)
        await other.update_entity("users", "a", setting("y", "2"), removes_empty=True)
        await configs.update_entity("users", "a/clients/c", setting("z", "3"), removes_empty=True)
        assert await configs.entity("users", "a") == {"x": "1", "y": "2"}
        for key in ("x", "y"):
            await configs.update_entity("users", "a", setting(key, None), removes_empty=True)
        assert await configs.entity_names("users") == ["a"], "the user's client still has a quota"
        await configs.update_entity("users", "a/clients/c", setting("z", None), removes_empty=True)
        assert await configs.entity_names("users") == []
        await configs.update_entity("users", "b", setting("x", None), removes_empty=True)
        try:
            await world.clients[0].get("/config/users/b")
        except NoNode:
            return
        raise AssertionError("nothing is made for a config that has nothing")

    play(story)


def test_a_name_that_others_encoded_is_read_again() -> None:
    """The name in our encoding has no znode, so the read removes nothing."""

    async def story(configs: ConfigRegistry, world: World) -> None:
        await configs.set_entity("users", "a%2eb", {RATE: "1"})
        broker = Broker(configs)
        for _attempt in range(2):
            await broker.configs.load()
            assert broker.bound("a.b", "") == 1
        await world.clients[0].delete(entity_path("users", "a%2eb"))
        await broker.configs.load()
        assert broker.bound("a.b", "") is None

    play(story)


def test_what_was_read_first_does_not_replace_what_was_read_later() -> None:
    """A new session reads all quotas in many requests; one quota changes during that time and is announced."""

    class Slow:
        rate = "1"
        reads: list[Deferred[None]]

        async def synced_entities(self, entity_type: str, names: list[str]) -> dict[str, dict[str, str]]:
            found = {name: {RATE: self.rate} for name in names}
            answered: Deferred[None] = Deferred()
            self.reads.append(answered)
            await answered
            return found

    configs = Slow()
    configs.reads = []
    broker = Broker(configs)  # type: ignore[arg-type]
    first = ensureDeferred(broker.configs.reload("users", ["a"]))
    configs.rate = "2"
    second = ensureDeferred(broker.configs.reload("users", ["a"]))
    while not (first.called and second.called):
        configs.reads.pop().callback(None)  # the last read completes first
    assert broker.bound("a", "") == 2


def test_an_address_has_its_quota_while_its_name_is_looked_up_again() -> None:
    """The lookup may take half a minute; other quotas change during that time."""
    lookups: list[Deferred[str | None]] = []

    class Configs:
        async def synced_entities(self, entity_type: str, names: list[str]) -> dict[str, dict[str, str]]:
            return {name: {RATE: "3", "connection_creation_rate": "5"} for name in names}

    async def look_up(work: Callable[[], object]) -> str | None:
        answer: Deferred[str | None] = Deferred()
        lookups.append(answer)
        return await answer

    broker = Broker(Configs())  # type: ignore[arg-type]
    broker.configs._run_in_thread = look_up  # type: ignore[assignment]
    for before, found, after in (({}, "10.0.0.1", "10.0.0.1"), ({"10.0.0.1": 5}, None, "10.0.0.1"),
                                 ({"10.0.0.1": 5}, "10.0.0.2", "10.0.0.2")):  # fmt: skip
        reload = ensureDeferred(broker.configs.reload("ips", ["some.host"]))
        assert broker.rates == before
        ensureDeferred(broker.configs.reload("users", ["a"]))
        assert broker.bound("a", "") == 3
        lookups.pop().callback(found)
        assert reload.called and broker.rates == {after: 5}


def test_many_quotas_are_read_in_parts() -> None:
    """Each quota takes some 10 µs of a reactor turn."""
    sizes: list[int] = []

    class Configs:
        async def synced_entities(self, entity_type: str, names: list[str]) -> dict[str, dict[str, str]]:
            sizes.append(len(names))
            return {name: {RATE: "3"} for name in names}

    broker = Broker(Configs())  # type: ignore[arg-type]
    ensureDeferred(broker.configs.reload("users", [str(number) for number in range(1100)]))
    assert max(sizes) <= READS_AT_ONCE and sum(sizes) == 1100
    assert broker.bound("1099", "") == 3
