"""AclAuthorizer on a ZooKeeper in memory: it follows changes, even over expired sessions, and never grants access by
mistake.
"""

import tracemalloc
from collections.abc import Coroutine
from functools import partial
from random import Random
from typing import Any

import pytest

from kafka_zk.base.turns import after
from kafka_zk.broker.security import acl_authorizer
from kafka_zk.broker.security.acl_authorizer import AclAuthorizer
from kafka_zk.broker.security.acl_rules import AclRules
from kafka_zk.broker.security.authorizer import CLUSTER, NoAuthorizer, Operation, Resource, topic
from kafka_zk.broker.security.denials import Denials
from kafka_zk.protocol.request import RequestContext
from kafka_zk.registry.acls import AclRegistry
from kafka_zk.registry.client.errors import InvalidZnode, RegistryError
from kafka_zk.registry.znodes import acl as znodes
from kafka_zk.security.acl import Acl, AclFilter, Pattern, PatternType, Permission, ResourceType
from tests.bench.request_cost import opcodes
from tests.registry.world import World
from tests.sim.authorization.acl_safeguards import purged_changes_are_not_noticed

READ = Operation.READ
TOPIC = Pattern(ResourceType.TOPIC, "t", PatternType.LITERAL)
PREFIX = Pattern(ResourceType.TOPIC, "pre-", PatternType.PREFIXED)
ALICE = RequestContext("PLAINTEXT", "PLAINTEXT", "User:alice", "127.0.0.1", 1, "test")
ADMIN = ALICE._replace(principal="User:admin")
MAY_READ = Acl("User:alice", "*", READ, Permission.ALLOW)


class Cluster(World):
    """Brokers with an authorizer each, and a ZooKeeper client that writes as Kafka's tools do: ``tool``."""

    def __init__(self, brokers: int = 1, **keywords: Any) -> None:
        super().__init__(brokers + 1, **keywords)
        *clients, self.tool = self.clients
        self.acls = AclRegistry(self.tool)
        self.authorizers = [
            AclAuthorizer(
                client, AclRegistry(client), self.clock, AclRules({"User:admin"}), Denials(self.clock)
            )
            for client in clients
        ]

    def play(self, story: Coroutine[Any, Any, None]) -> None:
        async def played() -> None:
            for authorizer in self.authorizers:
                await authorizer.start()
            await story

        self.scheduler.run(played())


def test_a_denial_is_explained() -> None:
    cluster = Cluster()
    [authorizer] = cluster.authorizers
    asked = ("User:bob", "10.0.0.1", READ, topic("t"))
    assert authorizer.denials.explain(*asked) == "the ACLs are not known yet"

    async def story() -> None:
        assert authorizer.denials.explain(*asked) == "no ACL applies to it"

    cluster.play(story())


async def allow(cluster: Cluster, *patterns: Pattern) -> None:
    for pattern in patterns:
        await cluster.acls.update(pattern, lambda was: was | {MAY_READ})


async def forbid(cluster: Cluster, *patterns: Pattern) -> None:
    for pattern in patterns:
        await cluster.acls.update(pattern, lambda was: was - {MAY_READ})


def may_read(authorizer: AclAuthorizer, name: str) -> bool:
    allowed = authorizer.authorize(ALICE, READ, topic(name))
    assert authorizer.may(ALICE, READ, topic(name)) is allowed
    return allowed


def test_acls_that_are_there_count_at_once_and_changes_within_a_second() -> None:
    cluster = Cluster(2)
    cluster.scheduler.run(allow(cluster, TOPIC))

    async def story() -> None:
        assert [may_read(each, "t") for each in cluster.authorizers] == [True, True]
        assert not may_read(cluster.authorizers[0], "pre-t")
        await allow(cluster, PREFIX)
        await after(cluster.clock, 1)
        assert [may_read(each, "pre-t") for each in cluster.authorizers] == [True, True]
        await forbid(cluster, TOPIC, PREFIX)
        await after(cluster.clock, 1)
        assert [may_read(each, name) for each in cluster.authorizers for name in ("t", "pre-t")] == [False] * 4

    cluster.play(story())


def test_what_a_broker_writes_counts_there_when_it_is_answered() -> None:
    cluster = Cluster(1)
    (authorizer,) = cluster.authorizers

    async def story() -> None:
        assert not may_read(authorizer, "t")
        await authorizer.add(TOPIC, frozenset([MAY_READ]))
        assert may_read(authorizer, "t")
        assert authorizer.described(AclFilter(principal="User:alice")) == {TOPIC: [MAY_READ]}
        assert authorizer.described(AclFilter(principal="User:bob")) == {}
        assert await authorizer.remove(TOPIC, AclFilter()) == {MAY_READ}
        assert not may_read(authorizer, "t")

    cluster.play(story())


def test_nobody_but_a_super_user_may_do_anything_before_the_acls_are_known() -> None:
    """``allow.everyone.if.no.acl.found`` makes no difference."""
    world = World(1)
    rules = AclRules({"User:admin"}, allow_if_none=True)
    authorizer = AclAuthorizer(
        world.clients[0], AclRegistry(world.clients[0]), world.clock, rules, Denials(world.clock)
    )
    assert not may_read(authorizer, "t") and not authorizer.may_any(ALICE, READ, "Topic")
    assert authorizer.authorize(ADMIN, READ, topic("t")) and authorizer.may_any(ADMIN, READ, "Topic")
    world.scheduler.run(authorizer.start())
    assert may_read(authorizer, "t") and authorizer.may_any(ALICE, READ, "Topic")


@pytest.mark.parametrize("reloads", [True, False])
@pytest.mark.parametrize("counts", [True, False])
def test_a_new_session_reads_all_again(reloads: bool, counts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-7987: announcements may have been purged while there was no session. Counting them is a second safeguard.
    If both are removed, this test fails.
    """
    if not counts:
        purged_changes_are_not_noticed(monkeypatch)
    cluster = Cluster(1)
    (authorizer,) = cluster.authorizers
    if not reloads:
        monkeypatch.setattr(AclAuthorizer, "_session_changed", lambda self, state: None)

    async def story() -> None:
        await allow(cluster, TOPIC)
        await after(cluster.clock, 1)
        client = cluster.clients[0]
        client.cut()
        cluster.zookeeper.expire(client)
        await forbid(cluster, TOPIC)
        await cluster.acls.purge_changes(2**60)
        client.heal()
        await after(cluster.clock, 10)
        assert may_read(authorizer, "t") is not (reloads or counts)

    cluster.play(story())


def test_a_znode_that_is_not_understood_denies_its_resource_until_it_is_replaced() -> None:
    cluster = Cluster(1)
    (authorizer,) = cluster.authorizers

    async def story() -> None:
        await allow(cluster, PREFIX, TOPIC)
        await after(cluster.clock, 1)
        await cluster.tool.set(znodes.pattern_path(TOPIC), b"{")
        await cluster.tool.create("/kafka-acl-changes/acl_changes_", b"TOPIC:t", sequential=True)
        await after(cluster.clock, 1)
        assert not may_read(authorizer, "t") and may_read(authorizer, "pre-t")
        assert list(authorizer.rules.unknown) == [TOPIC]
        assert (authorizer.counts.patterns, authorizer.counts.unreadable) == (2, 1)
        with pytest.raises(InvalidZnode):
            await authorizer.add(TOPIC, frozenset([MAY_READ]))
        assert authorizer.described(AclFilter()) == {PREFIX: [MAY_READ]}
        await cluster.acls.update(TOPIC, lambda was: was | {MAY_READ}, replace=True)
        await after(cluster.clock, 1)
        assert may_read(authorizer, "t") and not authorizer.rules.unknown

    cluster.play(story())


def test_an_announcement_that_is_not_understood_has_all_read_again() -> None:
    cluster = Cluster(1)

    async def story() -> None:
        path = znodes.pattern_path(TOPIC)
        await cluster.tool.create(path, znodes.encode([MAY_READ]))  # no announcement follows
        await after(cluster.clock, 1)
        assert not may_read(cluster.authorizers[0], "t")
        await cluster.tool.create("/kafka-acl-extended-changes/acl_changes_", b"?", sequential=True)
        await after(cluster.clock, 1)
        assert may_read(cluster.authorizers[0], "t")

    cluster.play(story())


@pytest.mark.parametrize("host", [":\0", "::1\0%lo", "\0", "::ffff:\0."])
def test_a_strange_host_opens_nothing(host: str) -> None:
    """A broker that fails to decode one ACL of a pattern knows none of them, not even the denials."""
    cluster = Cluster(2)
    strange = Acl("User:bob", host, READ, Permission.ALLOW)

    async def story() -> None:
        everything = Pattern(ResourceType.TOPIC, "*", PatternType.LITERAL)
        await allow(cluster, everything)
        one, other = cluster.authorizers
        await one.add(TOPIC, frozenset([MAY_READ._replace(permission=Permission.DENY)]))
        await one.add(TOPIC, frozenset([strange]))
        await after(cluster.clock, 1)
        assert [(may_read(each, "t"), may_read(each, "u")) for each in (one, other)] == [(False, True)] * 2

    cluster.play(story())


def test_only_super_users_are_let_in_while_acls_cannot_be_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Denials may be missing, whatever the reason. The broker tries again."""
    cluster = Cluster(1)
    (authorizer,) = cluster.authorizers
    put = AclRules.put

    def fails(self: AclRules, *_: Any) -> None:
        raise ValueError("a bug")

    async def story() -> None:
        await allow(cluster, TOPIC)
        await after(cluster.clock, 1)
        monkeypatch.setattr(AclRules, "put", fails)
        await allow(cluster, PREFIX)
        await after(cluster.clock, 1)
        assert not may_read(authorizer, "t") and authorizer.authorize(ADMIN, READ, topic("t"))
        monkeypatch.setattr(AclRules, "put", put)
        await after(cluster.clock, 2 * acl_authorizer.RETRY_S)
        assert may_read(authorizer, "t") and may_read(authorizer, "pre-t")

    cluster.play(story())


def test_acls_that_cannot_be_listed_deny_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker does not know which ACLs exist. It tries again."""
    cluster = Cluster(1)
    (authorizer,) = cluster.authorizers
    patterns = AclRegistry.patterns

    async def fails(self: AclRegistry) -> list[Pattern]:
        raise RegistryError("hidden")

    async def story() -> None:
        await allow(cluster, TOPIC)
        await after(cluster.clock, 1)
        monkeypatch.setattr(AclRegistry, "patterns", fails)
        cluster.zookeeper.expire(cluster.clients[0])
        await after(cluster.clock, 4)
        assert not may_read(authorizer, "t") and authorizer.authorize(ADMIN, READ, topic("t"))
        monkeypatch.setattr(AclRegistry, "patterns", patterns)
        await after(cluster.clock, 2 * acl_authorizer.RETRY_S)
        assert may_read(authorizer, "t")

    cluster.play(story())


@pytest.mark.parametrize(
    ("principal_size", "name_size", "letter"), [(10, 30_000, "0"), (30_000, 10, "0"), (10, 480, "\U0001f600")]
)
def test_decisions_about_endless_names_are_not_remembered(principal_size: int, name_size: int, letter: str) -> None:
    """Clients choose names, and 50,000 of 32 KB are more than a broker's memory. Some letters have four bytes."""
    cluster = Cluster(1)
    (authorizer,) = cluster.authorizers

    async def story() -> None:
        tracemalloc.start()
        try:
            for number in range(200):
                asks = ALICE._replace(principal=f"User:{number:0{principal_size}}")
                assert not authorizer.authorize(asks, READ, Resource("Group", f"{number}{letter * name_size}"))
                assert not authorizer.may_any(asks, READ, "Group")
            kept_bytes, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert kept_bytes < 1_000_000
        assert not authorizer._decisions

    cluster.play(story())


def test_decisions_are_remembered_within_bounds_and_forgotten_with_every_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acl_authorizer, "MOST_DECISIONS", 100)
    cluster = Cluster(1)
    (authorizer,) = cluster.authorizers
    decided: list[str] = []

    async def story() -> None:
        allows = authorizer.rules.allows

        def counted(*asked: Any) -> bool:
            decided.append(asked[4])
            return allows(*asked)

        monkeypatch.setattr(authorizer.rules, "allows", counted)
        for _ in range(3):
            authorizer.authorize(ALICE, READ, topic("t"))
        assert decided == ["t"]
        for number in range(1_000):
            authorizer.authorize(ALICE, READ, topic(f"t{number}"))
        assert len(authorizer._decisions) <= 100
        await authorizer.add(PREFIX, frozenset([MAY_READ]))
        assert not authorizer._decisions

    cluster.play(story())


def test_a_remembered_decision_costs_six_opcodes_more_than_none() -> None:
    """Produce and Fetch make a decision for each topic of a request."""
    cluster = Cluster(1)
    (authorizer,) = cluster.authorizers
    nobody = NoAuthorizer({"PLAINTEXT"})

    async def story() -> None:
        await authorizer.add(TOPIC, frozenset([MAY_READ]))
        resource = topic("t")
        authorizer.authorize(ALICE, READ, resource)
        costs = [opcodes(partial(each.authorize, ALICE, READ, resource)) for each in (nobody, authorizer)]
        assert costs[1] - costs[0] <= 6

    cluster.play(story())


def test_topics_are_visible_to_whom_they_may_be_described() -> None:
    """Visibility changes with the first relevant ACL; the order of the topics is that of the request."""
    cluster = Cluster(1)
    (authorizer,) = cluster.authorizers
    names = ["t", "pre-2", "u", "pre-1"]

    async def story() -> None:
        assert list(authorizer.visible_topics(ALICE, names)) == []
        await authorizer.add(PREFIX, frozenset([MAY_READ]))
        assert list(authorizer.visible_topics(ALICE, names)) == ["pre-2", "pre-1"]
        await authorizer.add(TOPIC, frozenset([MAY_READ]))
        assert list(authorizer.visible_topics(ALICE, names)) == ["t", "pre-2", "pre-1"]
        assert list(authorizer.visible_topics(ADMIN, names)) == names
        assert list(authorizer.visible_topics(ALICE._replace(principal="User:bob"), names)) == []
        await authorizer.remove(PREFIX, AclFilter())
        assert list(authorizer.visible_topics(ALICE, names)) == ["t"]
        assert authorizer.denials.count == 0
        authorizer._forget()
        assert list(authorizer.visible_topics(ALICE, names)) == []

    cluster.play(story())


def test_denials_are_counted_and_choices_are_not() -> None:
    cluster = Cluster(1)
    (authorizer,) = cluster.authorizers

    async def story() -> None:
        assert not authorizer.may(ALICE, READ, topic("t"))
        assert not authorizer.may_any(ALICE, Operation.WRITE, "Topic")
        assert authorizer.denials.count == 0
        for _ in range(2):
            authorizer.authorize(ALICE, Operation.CREATE, CLUSTER)
        assert authorizer.denials.count == 2

    cluster.play(story())


@pytest.mark.parametrize("seed", range(10))
def test_whatever_happens_the_brokers_end_with_what_zookeeper_has(seed: int) -> None:
    """Brokers and a tool change ACLs while connections and sessions break and announcements are purged."""
    cluster = Cluster(2, seed=seed, loss_probability=0.02)
    chosen = Random(seed)
    names = ["t", "pre-t", "u"]
    patterns = [TOPIC, PREFIX, TOPIC._replace(name="*"), PREFIX._replace(name="u")]

    async def change() -> None:
        acl = Acl("User:alice", "*", READ, chosen.choice([Permission.ALLOW, Permission.DENY]))
        pattern = chosen.choice(patterns)
        if chosen.random() < 0.5:
            await cluster.acls.update(pattern, lambda was: was ^ {acl})
        else:
            await chosen.choice(cluster.authorizers).add(pattern, frozenset([acl]))

    async def story() -> None:
        for _ in range(60):
            what = chosen.random()
            try:
                if what < 0.15:
                    cluster.zookeeper.expire(chosen.choice(cluster.clients[:2]))
                elif what < 0.3:
                    await cluster.acls.purge_changes(2**60)
                elif what < 0.4:
                    chosen.choice(cluster.clients[:2]).disconnect()
                else:
                    await change()
            except RegistryError:
                pass
            await after(cluster.clock, chosen.random())
        cluster.zookeeper.loss_probability = 0
        await after(cluster.clock, 20)
        fresh = AclAuthorizer(
            cluster.tool, cluster.acls, cluster.clock, AclRules({"User:admin"}), Denials(cluster.clock)
        )
        await fresh.start()
        for authorizer in cluster.authorizers:
            assert authorizer.rules.acls == fresh.rules.acls
            assert [may_read(authorizer, name) for name in names] == [may_read(fresh, name) for name in names]

    cluster.play(story())
