"""Frames of the group APIs, by seed: requests that fit the groups' current state, and the same requests with changed
bytes and fields.
"""

import random
from collections.abc import Callable
from typing import Any

from kafka_zk.broker.handlers.table import OFFERED_VERSIONS
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.field_table import Field, Table
from kafka_zk.protocol.request import request_header
from tests.fuzz.frames import TOPICS, _simple, prefixed, spoil

APIS = (
    *(ApiKey.JOIN_GROUP,) * 6, *(ApiKey.SYNC_GROUP,) * 4, *(ApiKey.OFFSET_COMMIT,) * 3, ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS,
    ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE,
)  # fmt: skip
GROUPS = ("hostile", "hostile.too", "hostile", "")
METADATA = b"\0\1" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"

Members = Callable[[], list[tuple[str, int]]]
"""The ids of the groups' members, with their generations."""


class GroupFrameSource:
    """Frames to send, size prefix included; four of ten are valid requests."""

    def __init__(self, seed: int, members: Members) -> None:
        self._rnd = random.Random(seed)
        self._members = members

    def next(self) -> bytes:
        rnd = self._rnd
        api_key = rnd.choice(APIS)
        low, high = OFFERED_VERSIONS[api_key]
        version = rnd.randint(max(low, 1) if api_key in (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH) else low, high)
        known: dict[str, Any] = {"group_id": rnd.choice(GROUPS), "key": rnd.choice(GROUPS)}
        known["member_id"], known["generation_id"] = rnd.choice(self._members() or [("", -1)])
        if rnd.random() < 0.4:
            known.update(member_id="", generation_id=-1)
        known["generation_id_or_member_epoch"] = known["generation_id"]
        message = self._message(codec.request(api_key).table, version, known)
        frame = request_header(api_key, version, rnd.getrandbits(31), rnd.choice(("fuzz", "", None, "é" * 50)))
        frame += codec.encode_body(message, api_key, version)
        return prefixed(frame if rnd.random() < 0.4 else spoil(frame, rnd))

    def _message(self, table: Table, version: int, known: dict[str, Any]) -> Any:
        fields = [field for field in table.fields if field.versions.include(version)]
        values = {field.name: self._value(field, version, known) for field in fields}
        return table.message_class(**values)

    def _value(self, field: Field, version: int, known: dict[str, Any]) -> Any:
        rnd = self._rnd
        if field.nullable_versions.include(version) and rnd.random() < (0.8 if "instance" in field.name else 0.2):
            return None
        if field.struct is not None and field.is_array:
            return [self._message(field.struct, version, known) for _ in range(rnd.choice((0, 1, 1, 1, 2, 4)))]
        if field.is_array:
            count = rnd.randint(0, 3)
            if "group" in field.name or "key" in field.name:
                return rnd.choices(GROUPS, k=count)
            return [_simple(field.type_name, rnd) for _ in range(count)]
        if field.struct is not None:
            return self._message(field.struct, version, known)
        if rnd.random() < 0.05:
            return _simple(field.type_name, rnd)
        if field.name in known:
            return known[field.name]
        likely: dict[str, tuple[Any, ...]] = {
            "session_timeout_ms": (6_000, 30_000),
            "rebalance_timeout_ms": (1, 5, 50, 10_000),
            "protocol_type": ("consumer", "consumer", "connect"),
            "protocol_name": ("range",),
            "name": ("range", *TOPICS),
            "metadata": (METADATA, METADATA, b""),
            "group_instance_id": ("one", "two"),
            "partition_index": (0, 1, 2),
        }
        return rnd.choice(likely[field.name]) if field.name in likely else _simple(field.type_name, rnd)
