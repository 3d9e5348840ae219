"""Copies a cluster's znodes for a rehearsal, and lists what must survive each step. Pure.

Ephemeral znodes are left out, addresses become 127.0.0.1, and nothing outside the cluster's chroot is copied.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from kafka_zk.base.integers import INT32
from kafka_zk.migration.entity_values import double
from kafka_zk.migration.facts import ControllerZnode
from kafka_zk.migration.metadata.image import QUOTAS
from kafka_zk.migration.rehearsal.loopback import with_loopback
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import admin, brokers, cluster_id, config, topics
from kafka_zk.registry.znodes import controller as controllers
from kafka_zk.registry.znodes.json_codec import number_of

_LEFT_OUT = (
    "listeners", "advertised.listeners", "listener.security.protocol.map", "metric.reporters",
    "max.connections.per.ip.overrides",
)  # fmt: skip
"""Settings of brokers that would replace the rehearsal's listeners, load a class that may connect to other machines, or
name hosts that have no address here."""
_ACLS = ("/kafka-acl/", "/kafka-acl-extended/")
_QUOTAS_OF = tuple(f"{config.entity_type_path(each)}/" for each in ("users", "clients", "ips"))


class StoredZnode(Protocol):
    """``session``: the owner of an ephemeral znode, 0 for other znodes."""

    @property
    def data(self) -> bytes | None: ...

    @property
    def session(self) -> int: ...


@dataclass(frozen=True, slots=True)
class CopiedTree:
    """A cluster without its chroot.

    ``data``: path -> data of each znode that is copied. ``registered``: the brokers that were alive. ``assigned``: the
    brokers with a replica. ``controller``: the broker that was the controller; None if no broker was.
    """

    cluster_id: str
    data: Mapping[str, bytes | None]
    registered: frozenset[int]
    assigned: frozenset[int]
    controller: ControllerZnode | None

    @property
    def broker_ids(self) -> frozenset[int]:
        return self.registered | self.assigned

    @property
    def topic_count(self) -> int:
        return sum(1 for path in self.data if _is_child(path, topics.TOPICS))


def chroots(paths: Iterable[str]) -> list[str]:
    """The chroots of the clusters in a tree; the empty string stands for a cluster without a chroot."""
    suffix = topics.TOPICS
    return sorted(path.removesuffix(suffix) for path in paths if path.endswith(suffix))


def copied_tree(znodes: Mapping[str, StoredZnode], chroot: str) -> CopiedTree:
    """``znodes``: with their chroot. Raises InvalidZnode if ``/cluster/id`` is missing or invalid."""
    own = {path.removeprefix(chroot): each for path, each in znodes.items() if path.startswith(f"{chroot}/")}
    data = {path: with_loopback(path, each.data) for path, each in own.items() if not each.session}
    if cluster_id.CLUSTER_ID not in data:
        raise InvalidZnode(f"{cluster_id.CLUSTER_ID} does not exist")
    names = (path.rpartition("/")[2] for path in own if _is_child(path, brokers.BROKER_IDS))
    return CopiedTree(
        cluster_id.decode(data[cluster_id.CLUSTER_ID]),
        data,
        frozenset(number for name in names if (number := number_of(name, INT32)) is not None),
        frozenset(_assigned(data)),
        _controller(own),
    )


def for_real_brokers(tree: CopiedTree) -> CopiedTree:
    """The tree without dynamic settings that real brokers must not have in a rehearsal."""
    brokers_configs = f"{config.entity_type_path('brokers')}/"
    data = {
        path: _without_keys(each, _LEFT_OUT) if path.startswith(brokers_configs) else each
        for path, each in tree.data.items()
    }
    return replace(tree, data=data)


def _without_keys(data: bytes | None, keys: Iterable[str]) -> bytes | None:
    """The data without these keys; unchanged if it has none of them, or cannot be parsed."""
    try:
        document = json.loads(data or b"null")
        found = [key for key in keys if key in document["config"]]
        for key in found:
            del document["config"][key]
    except (ValueError, RecursionError, TypeError, KeyError):
        return data
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode() if found else data


def must_survive(data: Mapping[str, bytes | None]) -> dict[str, Any]:
    """The content that a migration and a rollback must not change, by path: the replicas of topics, configurations,
    quotas, users, and ACLs. Topics that are being deleted need not survive.
    """
    dying = {path.rpartition("/")[2] for path in data if _is_child(path, admin.DELETE_TOPICS)}
    return {
        path: meaning(path, each) for path, each in data.items()
        if _matters(path) and path.rpartition("/")[2] not in dying
    }  # fmt: skip


def meaning(path: str, data: bytes | None) -> Any:
    """The content of a znode; equal for two encodings of the same content."""
    try:
        document = json.loads(data or b"null")
    except (ValueError, RecursionError):
        return data
    if not isinstance(document, dict):
        return document
    if _is_child(path, topics.TOPICS):
        return document.get("partitions")
    if path.startswith(_ACLS):
        acls = document.get("acls")
        return sorted(map(repr, acls)) if isinstance(acls, list) else document
    values = document.get("config", document)
    return _with_numbers(values) if path.startswith(_QUOTAS_OF) and isinstance(values, dict) else values


def _with_numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert numbers in quotas, because Kafka writes a quota of 50 as 50.0."""
    numbers = {key: double(value) for key, value in values.items() if key in QUOTAS and isinstance(value, str)}
    return {**values, **{key: number for key, number in numbers.items() if number is not None}}


def _matters(path: str) -> bool:
    if _is_child(path, topics.TOPICS) or path.startswith(_ACLS):
        return True
    return any(path.startswith(f"{config.entity_type_path(each)}/") for each in config.ENTITY_TYPES)


def _is_child(path: str, parent: str) -> bool:
    return path.rpartition("/")[0] == parent


def _assigned(data: Mapping[str, bytes | None]) -> Iterator[int]:
    for path, each in data.items():
        if _is_child(path, topics.TOPICS):
            try:
                assignment = topics.decode_assignment(path.rpartition("/")[2], each)
            except InvalidZnode:
                continue
            for replicas in assignment.partitions.values():
                yield from replicas


def _controller(znodes: Mapping[str, StoredZnode]) -> ControllerZnode | None:
    znode = znodes.get(controllers.CONTROLLER)
    if znode is None:
        return None
    try:
        claim = controllers.decode(znode.data)
    except InvalidZnode:
        return None
    return ControllerZnode(claim.broker_id, claim.kraft_controller_epoch, bool(znode.session))
