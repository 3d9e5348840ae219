"""Reads facts from ZooKeeper. No znode is created, changed or watched.

Reads are pipelined, at most READS_AT_ONCE at a time, and only counts and a few names of each kind are kept.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import fields
from typing import Protocol, TypeVar

from kafka_zk.base.integers import INT32
from kafka_zk.migration.entity_values import is_malformed
from kafka_zk.migration.facts import (
    BrokerConfigs,
    ControllerZnode,
    Examples,
    Fact,
    MigrationZnode,
    Partitions,
    TopicConfigs,
    Unknown,
    ZooKeeperFacts,
)
from kafka_zk.migration.znode_reads import IDENTITY, below, clients_of, read_data
from kafka_zk.registry.acls import AclRegistry
from kafka_zk.registry.client.client import RegistryClient, ZnodeStat
from kafka_zk.registry.client.errors import InvalidZnode, NoAuth
from kafka_zk.registry.client.pipeline import children_of, found
from kafka_zk.registry.groups import groups
from kafka_zk.registry.znode_acls import ROOTS
from kafka_zk.registry.znodes import admin, brokers, cluster_id, config, consumers, delegation_token, migration, topics
from kafka_zk.registry.znodes import controller as controllers
from kafka_zk.registry.znodes.json_codec import number_of
from kafka_zk.security import scram

T = TypeVar("T")
Read = tuple[bytes | None, ZnodeStat]

NOT_OBSERVED = Unknown("/migration was not observed", "--zookeeper")
_PROTECTED_PATHS = ("/", *ROOTS, *(config.entity_type_path(each) for each in config.ENTITY_TYPES))
_PASSWORD = re.compile(r"password$|sasl\.jaas\.config$")
_TIERED_TOPICS_KEY = "local.retention."


class DoctorClient(RegistryClient, Protocol):
    """A client that can also read the ACLs of znodes."""

    def is_open(self, path: str) -> Awaitable[bool]:
        """True if the znode's ACL allows every client to read and change it. Raises NoNode, NoAuth."""


def not_read() -> ZooKeeperFacts:
    """The facts if ZooKeeper cannot be read."""
    unknown = Unknown("ZooKeeper was not read", "--zookeeper")
    return ZooKeeperFacts(*[unknown] * len(fields(ZooKeeperFacts)))


async def collect(client: DoctorClient) -> ZooKeeperFacts:
    """All facts. Raises RegistryError if ZooKeeper cannot be reached."""
    return ZooKeeperFacts(
        cluster_id=await _fact("/cluster/id", _optional(client, cluster_id.CLUSTER_ID, cluster_id.decode)),
        controller=await _fact("/controller", _controller(client)),
        controller_epoch=await _fact(
            "/controller_epoch", _optional(client, controllers.CONTROLLER_EPOCH, controllers.decode_epoch)
        ),
        migration=await read_migration(client),
        is_written=NOT_OBSERVED,
        registered=await _fact("/brokers/ids", _registered(client)),
        partitions=await _fact("/brokers/topics", _partitions(client)),
        topic_configs=await _fact("/config/topics", _topic_configs(client)),
        broker_configs=await _fact("/config/brokers", _broker_configs(client)),
        malformed_entities=await _fact("/config/users, clients and ips", _malformed_entities(client)),
        malformed_acls=await _fact("/kafka-acl", _malformed_acls(client)),
        deletions=await _fact("/admin/delete_topics", _names(client, admin.DELETE_TOPICS)),
        protected=await _fact("the ACLs of znodes", _protected(client)),
        tokens=await _fact("/delegation_token", _count(client, delegation_token.TOKENS)),
        scram_users=await _fact("/config/users", _scram_users(client)),
        groups=await _fact("/consumers", _groups(client)),
    )


async def read_migration(client: RegistryClient) -> Fact[MigrationZnode | None]:
    async def read() -> MigrationZnode | None:
        (znode,) = await found([client.get(migration.MIGRATION)])
        if znode is None:
            return None
        data, stat = znode
        try:
            return MigrationZnode(migration.decode(data), stat.version)
        except InvalidZnode:
            return MigrationZnode(None, stat.version)

    return await _fact("/migration", read())


async def _fact(what: str, read: Awaitable[T]) -> Fact[T]:
    try:
        return await read
    except NoAuth:
        return Unknown(f"ZooKeeper does not let this client read {what}", IDENTITY)
    except InvalidZnode as error:
        return Unknown(str(error), "a znode that Kafka can parse")


async def _optional(client: RegistryClient, path: str, decode: Callable[[bytes | None], T]) -> T | None:
    (znode,) = await found([client.get(path)])
    return None if znode is None else decode(znode[0])


async def _controller(client: RegistryClient) -> ControllerZnode | None:
    (znode,) = await found([client.get(controllers.CONTROLLER)])
    if znode is None:
        return None
    claim = controllers.decode(znode[0])
    return ControllerZnode(claim.broker_id, claim.kraft_controller_epoch, bool(znode[1].ephemeral_owner))


async def _names(client: RegistryClient, path: str) -> Examples:
    return Examples.of(await children_of(client, path))


async def _count(client: RegistryClient, path: str) -> int:
    return len(await children_of(client, path))


async def _registered(client: RegistryClient) -> frozenset[int]:
    names = await children_of(client, brokers.BROKER_IDS)
    return frozenset(number for name in names if (number := number_of(name, INT32)) is not None)


# --- topics ---


async def _partitions(client: RegistryClient) -> Partitions:
    names = await children_of(client, topics.TOPICS)
    assignments: dict[str, topics.TopicAssignment] = {}
    malformed: list[str] = []
    async for path, data in read_data(client, [topics.topic_path(name) for name in names]):
        try:
            assignment = topics.decode_assignment(path.rpartition("/")[2], data)
        except InvalidZnode as error:
            malformed.append(str(error))
        else:
            malformed += assignment.faults
            assignments[path.rpartition("/")[2]] = assignment
    return await _with_states(client, assignments, malformed)


async def _with_states(
    client: RegistryClient, assignments: dict[str, topics.TopicAssignment], malformed: list[str]
) -> Partitions:
    replicas: dict[int, str] = {}
    moving: list[str] = []
    places: dict[str, tuple[str, int, list[int]]] = {}
    for name, assignment in assignments.items():
        moving += [f"{name}-{number}" for number in sorted({*assignment.adding, *assignment.removing})]
        for number, assigned in assignment.partitions.items():
            places[topics.state_path(name, number)] = name, number, assigned
            for broker_id in assigned:
                replicas.setdefault(broker_id, f"{name}-{number}")
    leaderless, under_replicated, highest, highest_at = [], [], -1, ""
    async for path, data in read_data(client, list(places)):
        name, number, assigned = places[path]
        try:
            state = topics.decode_state(name, number, data)
        except InvalidZnode as error:
            malformed.append(str(error))
            continue
        if state.controller_epoch > highest:
            highest, highest_at = state.controller_epoch, f"{name}-{number}"
        if state.leader < 0:
            leaderless.append(f"{name}-{number} (last ISR: {', '.join(map(str, state.isr)) or 'empty'})")
        elif not set(assigned) <= set(state.isr):
            under_replicated.append(f"{name}-{number}")
    return Partitions(
        replicas, highest, Examples.of(leaderless), Examples.of(under_replicated), Examples.of(moving),
        Examples.of(malformed), highest_at,
    )  # fmt: skip


# --- configurations ---


async def _entities(client: RegistryClient, entity_type: str) -> AsyncIterator[tuple[str, config.EntityConfig]]:
    names = await children_of(client, config.entity_type_path(entity_type))
    async for path, data in read_data(client, [config.entity_path(entity_type, name) for name in names]):
        yield path.removeprefix(f"{config.entity_type_path(entity_type)}/"), config.decode(path, data)


async def _topic_configs(client: RegistryClient) -> TopicConfigs:
    malformed, tiering_disabled = [], []
    async for name, entity in _entities(client, "topics"):
        if entity.faults:
            malformed.append(name)
        was_tiered = any(key.startswith(_TIERED_TOPICS_KEY) for key in entity.values)
        if was_tiered and entity.values.get("remote.storage.enable") != "true":
            tiering_disabled.append(name)
    return TopicConfigs(Examples.of(malformed), Examples.of(tiering_disabled))


async def _broker_configs(client: RegistryClient) -> BrokerConfigs:
    malformed, with_passwords = [], []
    async for name, entity in _entities(client, "brokers"):
        if entity.faults:
            malformed.append(name)
        if any(_PASSWORD.search(key) for key in entity.values):
            with_passwords.append(name)
    return BrokerConfigs(Examples.of(malformed), Examples.of(with_passwords))


async def _malformed_entities(client: RegistryClient) -> Examples:
    """The paths of the malformed znodes, without the values, which are secrets."""
    users, clients, ips = [await below(client, config.entity_type_path(each)) for each in ("users", "clients", "ips")]
    of_users = await clients_of(client, users)
    paths = [*users, *of_users, *clients, *ips]
    return Examples.of([path async for path, data in read_data(client, paths) if is_malformed(path, data)])


async def _scram_users(client: RegistryClient) -> int:
    count = 0
    async for _, entity in _entities(client, "users"):
        count += any(mechanism in entity.values for mechanism in scram.MECHANISMS)
    return count


# --- others ---


async def _malformed_acls(client: RegistryClient) -> Examples:
    registry = AclRegistry(client)
    malformed = []
    async for pattern, stored in registry.read(await registry.patterns()):
        if isinstance(stored, NoAuth):
            raise stored
        if isinstance(stored, InvalidZnode):
            malformed.append(f"{pattern.resource_type.label}:{pattern.name}")
    return Examples.of(malformed)


async def _protected(client: DoctorClient) -> Examples:
    answers = await found(client.is_open(path) for path in _PROTECTED_PATHS)
    return Examples.of(path for path, is_open in zip(_PROTECTED_PATHS, answers, strict=True) if is_open is False)


async def _groups(client: RegistryClient) -> Examples:
    members = await groups(client)
    offsets = await found(client.children(consumers.group_offsets_path(group)) for group in members)
    return Examples.of(
        group for (group, count), answer in zip(members.items(), offsets, strict=True)
        if count != 0 or (answer is not None and answer[0])
    )  # fmt: skip
