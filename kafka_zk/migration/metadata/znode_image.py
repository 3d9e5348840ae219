"""Reads a cluster's metadata from its znodes into an image. Changes nothing.

Znodes that Kafka cannot parse are ``malformed``, and kinds that ZooKeeper's ACLs hide are ``unread``.
"""

import math
from collections.abc import AsyncIterator, Awaitable, Callable

from kafka_zk.migration.entity_values import double, is_scram_credential
from kafka_zk.migration.facts import Unknown
from kafka_zk.migration.metadata.image import (
    BROKER,
    NO_STATE,
    QUOTAS,
    TOPIC,
    Entity,
    Kind,
    MetadataImage,
    PartitionState,
    Token,
    config_name,
    entity_name,
)
from kafka_zk.migration.znode_reads import IDENTITY, below, clients_of, read_data
from kafka_zk.registry.acls import AclRegistry
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import InvalidZnode, NoAuth
from kafka_zk.registry.client.pipeline import children_of
from kafka_zk.registry.znodes import config, delegation_token, producer_ids, topics
from kafka_zk.security import scram

_TYPES = {"users": "user", "clients": "client-id", "ips": "ip"}
_OF_KRAFT = -1
"""The broker id in a block of producer ids that a KRaft controller wrote. The next producer id is then the block's
first id; if a broker wrote the block, it is the id after the block. Source: ZkMigrationClient.writeProducerId@3.9."""


async def read_image(client: RegistryClient) -> MetadataImage:
    """Raises RegistryError if ZooKeeper cannot be reached."""
    image = MetadataImage()
    parts: tuple[tuple[Callable[[RegistryClient, MetadataImage], Awaitable[None]], str, tuple[Kind, ...]], ...] = (
        (_topics, "/brokers/topics", (Kind.TOPIC, Kind.PARTITION)),
        (_configs, "/config/topics and /config/brokers", (Kind.CONFIG,)),
        (_entities, "/config/users, clients and ips", (Kind.QUOTA, Kind.SCRAM)),
        (_acls, "/kafka-acl", (Kind.ACL,)),
        (_tokens, "/delegation_token", (Kind.TOKEN,)),
        (_producer_ids, "/latest_producer_id_block", (Kind.PRODUCER_IDS,)),
    )
    for part, what, kinds in parts:
        try:
            await part(client, image)
        except NoAuth:
            unread = Unknown(f"ZooKeeper does not let this client read {what}", IDENTITY)
            image.unread.update(dict.fromkeys(kinds, unread))
    return image


# --- topics ---


async def _topics(client: RegistryClient, image: MetadataImage) -> None:
    names = await children_of(client, topics.TOPICS)
    async for path, data in read_data(client, [topics.topic_path(name) for name in names]):
        name = path.rpartition("/")[2]
        try:
            assignment = topics.decode_assignment(name, data)
        except InvalidZnode as error:
            image.malformed[Kind.TOPIC, name] = str(error)
            continue
        if assignment.faults:
            image.malformed[Kind.TOPIC, name] = assignment.faults[0]
        image.topics[name] = assignment.topic_id or ""
        for number, replicas in assignment.partitions.items():
            image.partitions[name, number] = PartitionState(
                tuple(replicas), tuple(assignment.adding.get(number, ())), tuple(assignment.removing.get(number, ())),
                (), -1, NO_STATE, 0,
            )  # fmt: skip
    await _states(client, image)


async def _states(client: RegistryClient, image: MetadataImage) -> None:
    keys = {topics.state_path(*key): key for key in image.partitions}
    async for path, data in read_data(client, list(keys)):
        name, number = key = keys[path]
        try:
            state = topics.decode_state(name, number, data)
        except InvalidZnode as error:
            image.malformed[Kind.PARTITION, f"{name}-{number}"] = str(error)
            continue
        image.partitions[key] = image.partitions[key]._replace(
            isr=tuple(sorted(state.isr)), leader=state.leader, leader_epoch=state.leader_epoch,
            leader_recovery_state=state.leader_recovery_state,
        )  # fmt: skip


# --- configurations ---


async def _configs(client: RegistryClient, image: MetadataImage) -> None:
    for folder, kind in (("topics", TOPIC), ("brokers", BROKER)):
        async for path, entity in _decoded(client, await below(client, config.entity_type_path(folder))):
            name = path.rpartition("/")[2]
            key = kind, "" if name == config.DEFAULT_ENTITY else name
            if entity.faults:
                shown = entity.faults[0] if kind == TOPIC else f"{path}: it cannot be parsed"  # hides quoted secrets
                image.malformed[Kind.CONFIG, config_name(key)] = shown
            if entity.values:
                image.configs[key] = entity.values


async def _entities(client: RegistryClient, image: MetadataImage) -> None:
    users = await below(client, config.entity_type_path("users"))
    others = [path for each in ("clients", "ips") for path in await below(client, config.entity_type_path(each))]
    async for path, entity in _decoded(client, [*users, *await clients_of(client, users), *others]):
        key = _entity(path)
        if entity.faults:
            image.malformed[Kind.QUOTA, entity_name(key)] = f"{path}: it cannot be parsed"
        for name, value in entity.values.items():
            if name in QUOTAS:
                _quota(image, key, name, value, path)
            elif name in scram.MECHANISMS and key[0][1] is not None:
                _user(image, key[0][1], name, value, path)


def _quota(image: MetadataImage, entity: Entity, key: str, value: str, path: str) -> None:
    number = double(value)
    if number is None or not math.isfinite(number):
        image.malformed[Kind.QUOTA, entity_name(entity)] = f"{path}: {key} is not a number"
    else:
        image.quotas.setdefault(entity, {})[key] = number


def _user(image: MetadataImage, user: str, mechanism: str, value: str, path: str) -> None:
    try:
        if not is_scram_credential(value):
            raise ValueError("not a SCRAM credential that Kafka can parse")
        image.users[user, mechanism] = scram.decode_credential(value)
    except ValueError as error:
        image.malformed[Kind.SCRAM, user] = f"{path}: {error}"


def _entity(path: str) -> Entity:
    """The entity of ``/config/users/alice/clients/app``."""
    parts = path.split("/")[2:]
    return tuple(sorted(
        (_TYPES[kind], None if name == config.DEFAULT_ENTITY else config.desanitize(name))
        for kind, name in zip(parts[::2], parts[1::2], strict=True)
    ))  # fmt: skip


async def _decoded(client: RegistryClient, paths: list[str]) -> AsyncIterator[tuple[str, config.EntityConfig]]:
    async for path, data in read_data(client, paths):
        yield path, config.decode(path, data)


# --- other znodes ---


async def _acls(client: RegistryClient, image: MetadataImage) -> None:
    registry = AclRegistry(client)
    async for pattern, stored in registry.read(await registry.patterns()):
        if isinstance(stored, NoAuth):
            raise stored
        if isinstance(stored, InvalidZnode):
            image.malformed[Kind.ACL, str(pattern)] = str(stored)
        else:
            image.acls.update((pattern, acl) for acl in stored)


async def _tokens(client: RegistryClient, image: MetadataImage) -> None:
    async for path, data in read_data(client, await below(client, delegation_token.TOKENS)):
        try:
            token = delegation_token.decode(path, data)
        except InvalidZnode:
            name = path.rpartition("/")[2]
            image.malformed[Kind.TOKEN, name] = f"{path}: it cannot be parsed"
            continue
        image.tokens[token.token_id] = Token(
            str(token.owner), str(token.requester), tuple(sorted(map(str, token.renewers))), token.issue_ms,
            token.max_ms, token.expiry_ms,
        )  # fmt: skip


async def _producer_ids(client: RegistryClient, image: MetadataImage) -> None:
    async for path, data in read_data(client, [producer_ids.PRODUCER_ID_BLOCK]):
        try:
            block = producer_ids.decode(data)
        except InvalidZnode as error:
            image.malformed[Kind.PRODUCER_IDS, path] = str(error)
            continue
        if block is not None:
            image.next_producer_id = block.first_id if block.broker_id == _OF_KRAFT else block.last_id + 1
