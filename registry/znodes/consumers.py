"""``/consumers/<group>``: groups that coordinate through ZooKeeper (0.7 to 1.1).

    ids/<consumer id>              ephemeral; {"version":1,"subscription":{"t1":2},"pattern":"static","timestamp":"…"}
    owners/<topic>/<partition>     ephemeral; the owning thread id, ``<consumer id>-<n>``, as text
    offsets/<topic>/<partition>    the next offset to consume as decimal text; -1 is equivalent to no znode

``subscription`` maps a topic, or with pattern ``white_list`` or ``black_list`` one regular expression, to a number of
streams. Both keys are mandatory.

kafka-zk's members add a key, which Kafka's consumers ignore; its ``instance`` keys are for static members::

    "kafka-zk":{"strategies":["cooperative-sticky","range"],"instance":"i1","instance_timeout_ms":"45000"}
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafka_zk.base.integers import INT64
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import json_codec

CONSUMERS = "/consumers"
STATIC = "static"
WHITE_LIST = "white_list"
BLACK_LIST = "black_list"
NO_OFFSET = -1

MOST_STREAMS = 10_000
"""Maximum per member and topic, because every member of a group lists all streams of all members."""

CAPACITIES = range(1, 1_001)
STREAM_COUNTS = range(-(2**31), MOST_STREAMS + 1)
_ANNOUNCEMENT = "kafka-zk"
_GROUP_ID = re.compile(r"[a-zA-Z0-9._-]+")
_NOT_IN_ZNODE_NAMES = re.compile("[/\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")
_THREAD = re.compile(r"(.+)-([0-9]+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ConsumerRegistration:
    """A member's subscription: topic (or the regular expression) -> number of streams.

    ``strategies``: preferred first; empty for Kafka's consumers. A static member has an ``instance_id``, and after
    leaving keeps its partitions for ``instance_timeout_ms``. ``capacity``: its weight under ``weighted``,
    in CAPACITIES.
    """

    subscription: Mapping[str, int]
    pattern: str = STATIC
    timestamp_ms: int = -1
    strategies: tuple[str, ...] = ()
    instance_id: str | None = None
    instance_timeout_ms: int | None = None
    capacity: int | None = None

    @property
    def is_wildcard(self) -> bool:
        return self.pattern in (WHITE_LIST, BLACK_LIST) and bool(self.subscription)


def is_znode_name(name: str) -> bool:
    """True if a group or topic of that name can have znodes, which code may show, repair or delete.

    Source: ZooKeeper's PathUtils.validatePath@3.9, which counts a character beyond U+FFFF as two.
    """
    return name not in ("", ".", "..") and _NOT_IN_ZNODE_NAMES.search(name) is None


def group_id_fault(group: str) -> str | None:
    """Why no consumer can join a group of this ``group.id``, in one sentence.

    Names that no znode can have are also rejected; Kafka fails later. Source: ConsumerConfig.validateGroupId@1.1.
    """
    if _GROUP_ID.fullmatch(group) and is_znode_name(group):
        return None
    return f"{group!r} is not valid: use letters, digits, '.', '_' and '-', but not '.' or '..' alone"


def group_path(group: str) -> str:
    return f"{CONSUMERS}/{group}"


def ids_path(group: str) -> str:
    return f"{CONSUMERS}/{group}/ids"


def id_path(group: str, consumer_id: str) -> str:
    return f"{CONSUMERS}/{group}/ids/{consumer_id}"


def group_owners_path(group: str) -> str:
    return f"{CONSUMERS}/{group}/owners"


def owners_path(group: str, topic: str) -> str:
    return f"{CONSUMERS}/{group}/owners/{topic}"


def owner_path(group: str, topic: str, partition: int) -> str:
    return f"{CONSUMERS}/{group}/owners/{topic}/{partition}"


def group_offsets_path(group: str) -> str:
    return f"{CONSUMERS}/{group}/offsets"


def offsets_path(group: str, topic: str) -> str:
    return f"{CONSUMERS}/{group}/offsets/{topic}"


def offset_path(group: str, topic: str, partition: int) -> str:
    return f"{CONSUMERS}/{group}/offsets/{topic}/{partition}"


def thread_id(consumer_id: str, number: int) -> str:
    return f"{consumer_id}-{number}"


def consumer_of(thread_id: str) -> str:
    """The consumer id in a thread id, or the whole text if it has no thread number."""
    split = _THREAD.fullmatch(thread_id)
    return split[1] if split else thread_id


def is_thread_id(text: str) -> bool:
    """True for ``<consumer id>-<n>`` with a valid stream number."""
    split = _THREAD.fullmatch(text)
    return split is not None and json_codec.number_of(split[2], range(MOST_STREAMS)) is not None


def encode_registration(registration: ConsumerRegistration) -> bytes:
    document: dict[str, Any] = {
        "version": 1,
        "subscription": dict(registration.subscription),
        "pattern": registration.pattern,
        "timestamp": str(registration.timestamp_ms),
    }
    announcement: dict[str, Any] = {}
    if registration.strategies:
        announcement["strategies"] = list(registration.strategies)
    if registration.instance_id is not None:
        announcement["instance"] = registration.instance_id
    if registration.instance_timeout_ms is not None:
        announcement["instance_timeout_ms"] = str(registration.instance_timeout_ms)
    if registration.capacity is not None:
        announcement["capacity"] = registration.capacity
    if announcement:
        document[_ANNOUNCEMENT] = announcement
    return json_codec.encode(document)


def decode_registration(path: str, data: bytes | None) -> ConsumerRegistration:
    """Raises InvalidZnode.

    An invalid ``kafka-zk`` key is ignored, as Kafka's members ignore every such key. An invalid capacity does not
    invalidate the rest.
    """
    document = json_codec.decode_object(path, data)
    listed = document.get("subscription")
    if not isinstance(listed, dict):
        raise InvalidZnode(f"{path}: 'subscription' must be an object")
    plain = ConsumerRegistration(
        {topic: json_codec.integer(path, listed, topic, within=STREAM_COUNTS) for topic in listed},
        json_codec.text(path, document, "pattern"),
        json_codec.integer(path, document, "timestamp", -1, INT64),
    )
    try:
        return _with_announcement(path, plain, document.get(_ANNOUNCEMENT, {}))
    except InvalidZnode:
        return plain


def _with_announcement(path: str, plain: ConsumerRegistration, announcement: object) -> ConsumerRegistration:
    if not isinstance(announcement, dict):
        raise InvalidZnode(f"{path}: {_ANNOUNCEMENT!r} must be an object")
    has_timeout = "instance_timeout_ms" in announcement
    return replace(
        plain,
        strategies=tuple(json_codec.text_list(path, "strategies", announcement.get("strategies", []))),
        instance_id=json_codec.optional_text(path, announcement, "instance"),
        instance_timeout_ms=json_codec.integer(path, announcement, "instance_timeout_ms", within=INT64)
        if has_timeout
        else None,
        capacity=_capacity(path, announcement),
    )


def _capacity(path: str, announcement: Mapping[str, Any]) -> int | None:
    """The capacity; None if it is invalid. The other keys stay valid: members that know no capacities read them, and
    all must choose the same strategy."""
    try:
        return json_codec.integer(path, announcement, "capacity", within=CAPACITIES)
    except InvalidZnode:
        return None


def encode_owner(thread_id: str) -> bytes:
    return thread_id.encode()


def decode_owner(path: str, data: bytes | None) -> str:
    """The thread id in an owner znode. Raises InvalidZnode."""
    try:
        return (data or b"").decode()
    except UnicodeDecodeError as error:
        raise InvalidZnode(f"{path}: not text: {error}") from error


def encode_offset(offset: int) -> bytes:
    return b"%d" % offset


def decode_offset(path: str, data: bytes | None) -> int:
    """Raises InvalidZnode."""
    return json_codec.integer_text(path, data)
