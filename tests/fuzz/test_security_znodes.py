"""Hostile znodes of ACLs and quotas change nothing but their own resource or client, and garbage grants no rights.

An authorizer and the quotas of a broker follow a ZooKeeper in memory. More: ``pytest tests/fuzz/test_security_znodes.py
--rounds 200``.
"""

import socket
from collections.abc import Coroutine
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from kafka_zk.broker.quota.quota_configs import ENTITY_TYPES
from kafka_zk.broker.quota.quota_table import QuotaKey
from kafka_zk.broker.security.acl_authorizer import AclAuthorizer
from kafka_zk.broker.security.acl_rules import AclRules
from kafka_zk.broker.security.authorizer import Operation, topic
from kafka_zk.broker.security.denials import Denials
from kafka_zk.protocol.request import RequestContext
from kafka_zk.registry.acls import AclRegistry
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.security.acl import Acl, Pattern, PatternType, Permission, ResourceType
from tests.fuzz.znodes import SecurityZnodeSource
from tests.kafka_zk.broker.quota.test_quota_configs import Broker
from tests.registry.world import World

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("nothing_fails_unexpectedly")]

MUTATIONS = 150
OLD = Pattern(ResourceType.TOPIC, "old", PatternType.LITERAL)
OLD_PREFIX = Pattern(ResourceType.TOPIC, "old-", PatternType.PREFIXED)
MAY_READ = Acl("User:alice", "*", Operation.READ, Permission.ALLOW)
ADDRESS = "10.0.0.9"


class Security(World):
    """A broker's authorizer and quotas, and a hostile client of ZooKeeper with its own session: ``tool``."""

    def __init__(self, seed: int) -> None:
        super().__init__(2, seed)
        self.client, self.tool = self.clients
        self.source = SecurityZnodeSource(self.scheduler.random)
        self.acls = AclRegistry(self.tool)
        self.configs = ConfigRegistry(self.client)
        self.quotas = Broker(self.configs)
        self.authorizer = self.new_authorizer()
        self.run(self.begin())
        self.run(self.authorizer.start())
        self.run(self.quotas.configs.load())
        self.configs.watch_changes(self.changed)

    def run(self, work: Coroutine[Any, Any, object]) -> None:
        self.scheduler.run(work)

    async def begin(self) -> None:
        await self.acls.ensure_paths()
        for pattern in (OLD, OLD_PREFIX):
            await self.acls.update(pattern, lambda present: present | {MAY_READ})
        configs = ConfigRegistry(self.tool)
        await configs.set_entity("users", "old", {QuotaKey.PRODUCE.value: "7"})
        await configs.set_entity("ips", ADDRESS, {"connection_creation_rate": "5"})

    def new_authorizer(self) -> AclAuthorizer:
        registry, denials = AclRegistry(self.client), Denials(self.clock)
        return AclAuthorizer(self.client, registry, self.clock, AclRules({"User:root"}), denials)

    def changed(self, entity_type: str, entity_name: str) -> None:
        """Handle a notification as a broker does."""
        if entity_type in ENTITY_TYPES:
            reading = ensureDeferred(self.quotas.configs.reload(entity_type, [entity_name]))
            reading.addErrback(lambda failure: failure.trap(RegistryError))

    def mutate(self) -> None:
        mutation = self.source.next()
        self.run(mutation.apply(self.tool))
        kind, _, name = mutation.path.removeprefix("/config/").partition("/")
        if kind in ENTITY_TYPES and name:
            self.run(ConfigRegistry(self.tool).notify(kind, name))
        elif mutation.path.startswith("/kafka-acl"):  # all ACLs and quotas are read again
            self.scheduler.run(self.tool.create("/kafka-acl-changes/acl_changes_", b"?", sequential=True))
        self.scheduler.run_for(self.scheduler.random.choice([0, 1, 20, 200]))

    def may_read(self, who: str, name: str) -> bool:
        context = RequestContext("PLAINTEXT", "PLAINTEXT", who, "127.0.0.1", 1, "test")
        return self.authorizer.authorize(context, Operation.READ, topic(name))

    def old_is_as_it_was(self) -> None:
        assert self.may_read("User:alice", "old") and self.may_read("User:alice", "old-1")
        assert not self.may_read("User:mallory", "old") and not self.may_read("User:mallory", "old-1")
        assert self.quotas.bound("old", "") == 7 and self.quotas.rates[ADDRESS] == 5


@pytest.fixture(autouse=True)
def no_names_of_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*asked: object, **more: object) -> None:
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", unknown)


def test_hostile_acls_and_quotas_concern_only_what_they_are_for(campaign_seed: int) -> None:
    world = Security(campaign_seed)
    for number in range(1, MUTATIONS + 1):
        world.mutate()
        if number % 30 == 0:
            world.scheduler.run_for(2000)
            world.old_is_as_it_was()
    world.zookeeper.expire(world.client)
    world.scheduler.run_for(10_000)
    world.run(world.quotas.configs.load())
    world.old_is_as_it_was()
    followed, world.authorizer = world.authorizer.rules, world.new_authorizer()
    world.run(world.authorizer.start())
    world.run(world.quotas.configs.load())
    world.old_is_as_it_was()
    read = world.authorizer.rules
    assert (followed.acls, followed.unknown) == (read.acls, read.unknown)
