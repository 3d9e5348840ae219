"""Compares the znodes' metadata image with that of the metadata log. Pure.

Controller epochs and partition epochs are not compared, because they differ by nature. Keys, salts and the values of
broker configurations are compared, but never shown.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka_zk.migration.facts import Unknown
from kafka_zk.migration.metadata.image import (
    BROKER,
    NO_STATE,
    Kind,
    MetadataImage,
    PartitionState,
    Token,
    config_name,
    entity_name,
)
from kafka_zk.migration.metadata.replay import MetadataLog
from kafka_zk.security.acl import Acl, Pattern

K = TypeVar("K")
V = TypeVar("V")

MALFORMED = "malformed: Kafka cannot parse it"
_MOST_INTEGER = 2**63
_ABSENT = "absent"
_PRESENT = "present"
_ONE_VALUE, _ANOTHER = "one value", "another value"
_PASSWORDS = (
    "password", "sasl.jaas.config", "ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates",
)  # fmt: skip
"""Ends of the keys that are encrypted in ZooKeeper and not in KRaft, so that only their presence can be compared.
Source: DynamicBrokerConfig.DynamicPasswordConfigs@3.9."""


@dataclass(frozen=True, slots=True)
class Difference:
    """``field``: empty if the whole entity is absent on one side. ``zookeeper`` and ``kraft``: the field's values."""

    kind: Kind
    name: str
    field: str
    zookeeper: str
    kraft: str

    @property
    def place(self) -> tuple[Kind, str, str]:
        return self.kind, self.name, self.field

    def as_document(self) -> dict[str, str]:
        return {
            "kind": self.kind.value, "name": self.name, "field": self.field, "zookeeper": self.zookeeper,
            "kraft": self.kraft,
        }  # fmt: skip


def differences(znodes: MetadataImage, kraft: MetadataImage) -> list[Difference]:
    """The differences, in a fixed order. Kinds that could not be read are left out."""
    found = [
        *_malformed(znodes, kraft), *_topics(znodes, kraft), *_partitions(znodes, kraft), *_configs(znodes, kraft),
        *_acls(znodes, kraft), *_users(znodes, kraft), *_quotas(znodes, kraft), *_tokens(znodes, kraft),
        *_producer_ids(znodes, kraft),
    ]  # fmt: skip
    named = {(each.kind, each.name) for each in found if each.zookeeper.startswith(MALFORMED)}
    return [
        each for each in found
        if each.kind not in znodes.unread
        and ((each.kind, each.name) not in named or each.zookeeper.startswith(MALFORMED))
    ]  # fmt: skip


def older_side(before: int | None, after: int | None, log: MetadataLog) -> str:
    """A sentence that says which side is older.

    ``before`` and ``after``: ``kraft_metadata_offset`` of ``/migration``, read before the log and after the znodes.
    This offset may be one record behind the log at any time.
    """
    last = log.end_offset - 1
    if are_level(before, after, log):
        return f"both sides are at offset {last}"
    if before is None or after is None or after < 0:
        return "ZooKeeper has no offset of the metadata log: nothing was copied, or a rollback has deleted /migration"
    if after < last - 1:
        return f"ZooKeeper is older: it has the records up to offset {after}, the log those up to {last}"
    return f"the log is older: it has the records up to offset {last}, ZooKeeper those up to {before}"


def are_level(before: int | None, after: int | None, log: MetadataLog) -> bool:
    """True if no side is older. Arguments as for ``older_side``."""
    last = log.end_offset - 1
    return before is not None and after is not None and after >= 0 and before <= last <= after + 1


def _pairs(one: Mapping[K, V], other: Mapping[K, V]) -> Iterator[tuple[K, V | None, V | None]]:
    for key in sorted(one.keys() | other.keys(), key=repr):
        if one.get(key) != other.get(key):
            yield key, one.get(key), other.get(key)


def _presence(kind: Kind, name: str, zookeeper: object, kraft: object) -> Difference:
    return Difference(
        kind, name, "", _ABSENT if zookeeper is None else _PRESENT, _ABSENT if kraft is None else _PRESENT
    )


def _malformed(znodes: MetadataImage, kraft: MetadataImage) -> Iterator[Difference]:
    present = _names(kraft)
    for (kind, name), sentence in sorted(znodes.malformed.items()):
        in_kraft = _PRESENT if (kind, name) in present else _ABSENT
        yield Difference(kind, name, "", f"{MALFORMED} ({sentence})", in_kraft)


def _names(image: MetadataImage) -> set[tuple[Kind, str]]:
    return {
        *((Kind.TOPIC, name) for name in image.topics),
        *((Kind.PARTITION, f"{name}-{number}") for name, number in image.partitions),
        *((Kind.CONFIG, config_name(entity)) for entity in image.configs),
        *((Kind.ACL, str(pattern)) for pattern, _ in image.acls),
        *((Kind.SCRAM, user) for user, _ in image.users),
        *((Kind.QUOTA, entity_name(entity)) for entity in image.quotas),
        *((Kind.TOKEN, token_id) for token_id in image.tokens),
    }


def _topics(znodes: MetadataImage, kraft: MetadataImage) -> Iterator[Difference]:
    for name, one, other in _pairs(znodes.topics, kraft.topics):
        if one is None or other is None:
            yield _presence(Kind.TOPIC, name, one, other)
        else:
            yield Difference(Kind.TOPIC, name, "id", one or _ABSENT, other)


def _partitions(znodes: MetadataImage, kraft: MetadataImage) -> Iterator[Difference]:
    in_both = znodes.topics.keys() & kraft.topics.keys()
    for (topic, number), one, other in _pairs(znodes.partitions, kraft.partitions):
        if topic not in in_both:
            continue
        name = f"{topic}-{number}"
        if one is None or other is None:
            yield _presence(Kind.PARTITION, name, one, other)
        elif one.leader_epoch == NO_STATE:
            yield Difference(Kind.PARTITION, name, "state", _ABSENT, _PRESENT)
        else:
            yield from _fields(Kind.PARTITION, name, one, other)


def _fields(kind: Kind, name: str, one: PartitionState | Token, other: PartitionState | Token) -> Iterator[Difference]:
    for field, value, counterpart in zip(one._fields, one, other, strict=True):
        if value != counterpart:
            yield Difference(kind, name, field, _text(value), _text(counterpart))


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _configs(znodes: MetadataImage, kraft: MetadataImage) -> Iterator[Difference]:
    for entity, one, other in _pairs(znodes.configs, kraft.configs):
        for key, value, counterpart in _pairs(one or {}, other or {}):
            is_encrypted = entity[0] == BROKER and key.endswith(_PASSWORDS)
            if is_encrypted and value is not None and counterpart is not None:
                continue
            yield Difference(Kind.CONFIG, config_name(entity), key, *_values(value, counterpart, entity[0] == BROKER))


def _values(one: str | None, other: str | None, is_secret: bool) -> tuple[str, str]:
    if not is_secret:
        return _ABSENT if one is None else one, _ABSENT if other is None else other
    if one is None or other is None:
        return _ABSENT if one is None else _PRESENT, _ABSENT if other is None else _PRESENT
    return _ONE_VALUE, _ANOTHER


def _acls(znodes: MetadataImage, kraft: MetadataImage) -> Iterator[Difference]:
    for entry in sorted(znodes.acls ^ kraft.acls, key=_acl_order):
        in_zookeeper = entry in znodes.acls
        yield Difference(
            Kind.ACL, str(entry[0]), str(entry[1]), _PRESENT if in_zookeeper else _ABSENT,
            _ABSENT if in_zookeeper else _PRESENT,
        )  # fmt: skip


def _acl_order(entry: tuple[Pattern, Acl]) -> str:
    return f"{entry[0]} {entry[1]}"


def _users(znodes: MetadataImage, kraft: MetadataImage) -> Iterator[Difference]:
    for (user, mechanism), one, other in _pairs(znodes.users, kraft.users):
        if one is None or other is None:
            missing = _presence(Kind.SCRAM, user, one, other)
            yield Difference(Kind.SCRAM, user, mechanism, missing.zookeeper, missing.kraft)
        else:
            yield Difference(Kind.SCRAM, user, mechanism, _ONE_VALUE, _ANOTHER)


def _quotas(znodes: MetadataImage, kraft: MetadataImage) -> Iterator[Difference]:
    for entity, one, other in _pairs(znodes.quotas, kraft.quotas):
        for key, value, counterpart in _pairs(one or {}, other or {}):
            texts = [_ABSENT if each is None else _digits(each) for each in (value, counterpart)]
            yield Difference(Kind.QUOTA, entity_name(entity), key, *texts)


def _digits(value: float) -> str:
    """A number as a string; different numbers have different strings."""
    return str(int(value)) if value.is_integer() and abs(value) < _MOST_INTEGER else repr(value)


def _tokens(znodes: MetadataImage, kraft: MetadataImage) -> Iterator[Difference]:
    for token_id, one, other in _pairs(znodes.tokens, kraft.tokens):
        if one is None or other is None:
            yield _presence(Kind.TOKEN, token_id, one, other)
        else:
            yield from _fields(Kind.TOKEN, token_id, one, other)


def _producer_ids(znodes: MetadataImage, kraft: MetadataImage) -> Iterator[Difference]:
    one, other = znodes.next_producer_id, kraft.next_producer_id
    if one != other:
        texts = [_ABSENT if each is None else str(each) for each in (one, other)]
        yield Difference(Kind.PRODUCER_IDS, "cluster", "next id", *texts)


def unread_of(znodes: MetadataImage) -> Iterable[Unknown]:
    """Each fact that could not be read, once."""
    return dict.fromkeys(znodes.unread.values())
