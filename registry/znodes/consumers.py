"""``/consumers/<group>``: members of a group that coordinates through ZooKeeper (0.7 to 1.1).

    ids/<consumer id>              ephemeral; {"version":1,"subscription":{"t1":2},"pattern":"static","timestamp":"…"}
    owners/<topic>/<partition>     ephemeral; the owning thread id as text
    offsets/<topic>/<partition>    the next offset to consume as decimal text

``subscription`` maps a topic to its count of streams. With pattern ``white_list`` or ``black_list`` it has one entry
whose key is a regular expression. ``pattern`` and ``subscription`` are mandatory.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from registry.errors import InvalidZnode
from registry.znodes import json_codec

CONSUMERS = "/consumers"
STATIC = "static"
WHITE_LIST = "white_list"
BLACK_LIST = "black_list"


@dataclass(frozen=True, slots=True)
class ConsumerRegistration:
    """What a member subscribes to: topic (or the one regular expression) to count of streams."""

    subscription: Mapping[str, int]
    pattern: str = STATIC
    timestamp_ms: int = -1

    @property
    def is_wildcard(self) -> bool:
        return self.pattern in (WHITE_LIST, BLACK_LIST) and bool(self.subscription)


def group_path(group: str) -> str:
    return f"{CONSUMERS}/{group}"


def ids_path(group: str) -> str:
    return f"{CONSUMERS}/{group}/ids"


def id_path(group: str, consumer_id: str) -> str:
    return f"{CONSUMERS}/{group}/ids/{consumer_id}"


def owners_path(group: str, topic: str) -> str:
    return f"{CONSUMERS}/{group}/owners/{topic}"


def owner_path(group: str, topic: str, partition: int) -> str:
    return f"{CONSUMERS}/{group}/owners/{topic}/{partition}"


def offsets_path(group: str, topic: str) -> str:
    return f"{CONSUMERS}/{group}/offsets/{topic}"


def offset_path(group: str, topic: str, partition: int) -> str:
    return f"{CONSUMERS}/{group}/offsets/{topic}/{partition}"


def encode_registration(registration: ConsumerRegistration) -> bytes:
    return json_codec.encode(
        {
            "version": 1,
            "subscription": dict(registration.subscription),
            "pattern": registration.pattern,
            "timestamp": str(registration.timestamp_ms),
        }
    )


def decode_registration(path: str, data: bytes | None) -> ConsumerRegistration:
    """Raises InvalidZnode."""
    document = json_codec.decode_object(path, data)
    listed = document.get("subscription")
    if not isinstance(listed, dict):
        raise InvalidZnode(f"{path}: 'subscription' must be an object")
    return ConsumerRegistration(
        {topic: json_codec.integer(path, listed, topic) for topic in listed},
        json_codec.text(path, document, "pattern"),
        json_codec.integer(path, document, "timestamp", -1),
    )


def encode_owner(thread_id: str) -> bytes:
    return thread_id.encode()


def decode_owner(path: str, data: bytes | None) -> str:
    """Raises InvalidZnode."""
    try:
        return (data or b"").decode()
    except UnicodeDecodeError as error:
        raise InvalidZnode(f"{path}: not text: {error}") from error


def encode_offset(offset: int) -> bytes:
    return b"%d" % offset


def decode_offset(path: str, data: bytes | None) -> int:
    """Raises InvalidZnode."""
    return json_codec.integer_text(path, data)
