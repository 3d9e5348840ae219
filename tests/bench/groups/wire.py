"""Hand-written members of groups, because the client must cost next to nothing compared with the broker.

They use plain versions of the APIs, to which both brokers respond alike: JoinGroup 5, SyncGroup 3, Heartbeat 3,
LeaveGroup 1, OffsetCommit 7, OffsetFetch 5. A request goes out for all members before the first response is read.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.bench.partition_wire import Refused, Wire

SESSION_MS = 300_000
REBALANCE_MS = 60_000
_TIMEOUT_S = 120.0
_PAUSE_S = 0.01
_ASSIGNMENT = bytes(100)
_EAGER = b"\0\1" + b"\0\0\0\1" + b"\0\5bench" + b"\0\0\0\0"
_OWNED = b"\0\0\0\1" + b"\0\5bench" + b"\0\0\0\2" + bytes(8)  # KIP-429: two partitions that the member keeps
_WAITS = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def text(value: str) -> bytes:
    """A string in the format of the plain versions."""
    return struct.pack(">h", len(value)) + value.encode()


def commit_body(group: str, topic: str, partitions: Sequence[int], offset: int) -> bytes:
    """An OffsetCommit 7 of a consumer that assigns its partitions itself."""
    rows = b"".join(struct.pack(">iqih", partition, offset, -1, 0) for partition in partitions)
    front = text(group) + struct.pack(">i", -1) + text("") + b"\xff\xff"
    return front + struct.pack(">i", 1) + text(topic) + struct.pack(">i", len(partitions)) + rows


def check_commit(answer: bytes, topic: str) -> None:
    """Check that no partition has an error. Raises: Refused."""
    errors = [error for _, error in struct.iter_unpack(">ih", answer[8 + len(text(topic)) + 4 :])]
    if not errors or any(errors):
        raise Refused(f"OffsetCommit: {errors[:5]}")


def fetch_error(wire: Wire, group: str, topic: str) -> int:
    """The error code of OffsetFetch 5 for one partition."""
    body = text(group) + struct.pack(">i", 1) + text(topic) + struct.pack(">ii", 1, 0)
    wire.send(ApiKey.OFFSET_FETCH, 5, body)
    (code,) = struct.unpack(">h", wire.receive()[-2:])
    return int(code)


def await_coordinator(wire: Wire, group: str, topic: str) -> None:
    """Wait until the broker coordinates the group; it creates the offsets topic if that is missing.

    Raises: Refused for an error that does not end by waiting; TimeoutError.
    """
    end_s = time.monotonic() + _TIMEOUT_S
    while True:
        wire.send(ApiKey.FIND_COORDINATOR, 0, text(group))
        (code,) = struct.unpack_from(">h", wire.receive())
        code = code or fetch_error(wire, group, topic)
        if not code:
            return
        if code not in _WAITS:
            raise Refused(f"the coordinator of {group}: {ErrorCode(code).name}")
        if time.monotonic() > end_s:
            raise TimeoutError(f"no coordinator of {group} within {_TIMEOUT_S} s")
        time.sleep(_PAUSE_S)


@dataclass
class Member:
    """A member and the connection that it uses; its generation is the group's."""

    wire: Wire
    group: str
    member_id: str = ""
    generation: int = -1
    leads: bool = False
    others: tuple[str, ...] = ()
    metadata: bytes = _EAGER

    def send_join(self) -> None:
        body = text(self.group) + struct.pack(">ii", SESSION_MS, REBALANCE_MS) + text(self.member_id) + b"\xff\xff"
        protocols = struct.pack(">i", 1) + text("range") + struct.pack(">i", len(self.metadata)) + self.metadata
        self.wire.send(ApiKey.JOIN_GROUP, 5, body + text("consumer") + protocols)

    def receive_join(self) -> int:
        """Returns the error code; takes over the id, the generation, and the leader's list of members."""
        answer = self.wire.receive()
        _, code, self.generation = struct.unpack_from(">ihi", answer)
        _, position = _read(answer, 10)
        leader, position = _read(answer, position)
        self.member_id, position = _read(answer, position)
        self.leads = leader == self.member_id
        (count,) = struct.unpack_from(">i", answer, position)
        position += 4
        others = []
        for _ in range(count):
            member_id, position = _read(answer, position)
            (size,) = struct.unpack_from(">i", answer, position + 2)
            position += 6 + size
            others.append(member_id)
        self.others = tuple(others)
        return int(code)

    def send_sync(self) -> None:
        assigned = b""
        if self.leads:
            size = struct.pack(">i", len(_ASSIGNMENT))
            assigned = b"".join(text(each) + size + _ASSIGNMENT for each in self.others)
        count = struct.pack(">i", len(self.others) if self.leads else 0)
        self.wire.send(ApiKey.SYNC_GROUP, 3, self._front() + b"\xff\xff" + count + assigned)

    def receive_sync(self) -> None:
        answer = self.wire.receive()
        (code,) = struct.unpack_from(">h", answer, 4)
        if code or len(answer) < len(_ASSIGNMENT):
            raise Refused(f"SyncGroup: {ErrorCode(code).name}, {len(answer)} bytes")

    def send_heartbeat(self) -> None:
        self.wire.send(ApiKey.HEARTBEAT, 3, self._front() + b"\xff\xff")

    def receive_heartbeat(self) -> int:
        return int(struct.unpack_from(">h", self.wire.receive(), 4)[0])

    def leave(self) -> None:
        self.wire.send(ApiKey.LEAVE_GROUP, 1, text(self.group) + text(self.member_id))
        self.wire.receive()

    def _front(self) -> bytes:
        return text(self.group) + struct.pack(">i", self.generation) + text(self.member_id)


def _read(answer: bytes, position: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", answer, position)
    end = position + 2 + size
    return answer[position + 2 : end].decode(), end


def get_ids(members: Sequence[Member]) -> None:
    """Send the first JoinGroup of each new client, whose response contains only its id. Raises: Refused."""
    for member in members:
        member.send_join()
    codes = {member.receive_join() for member in members}
    if codes != {ErrorCode.MEMBER_ID_REQUIRED}:
        raise Refused(f"a first JoinGroup: {codes}")


def rebalance(members: Sequence[Member]) -> None:
    """All members join, then all sync. Raises: Refused."""
    for member in members:
        member.send_join()
    codes = {member.receive_join() for member in members}
    if codes != {ErrorCode.NONE} or len({member.generation for member in members}) != 1:
        raise Refused(f"JoinGroup: {codes}, {len({member.generation for member in members})} generations")
    for member in sorted(members, key=lambda each: not each.leads):
        member.send_sync()
    for member in members:
        member.receive_sync()


def begin(members: Sequence[Member]) -> None:
    """A new group: the first member is stable alone, then the others join. Raises: Refused."""
    get_ids(members[:1])
    rebalance(members[:1])
    join_stable(members[:1], members[1:], cooperative=False)


def join_stable(old: Sequence[Member], new: Sequence[Member], *, cooperative: bool) -> None:
    """Let ``new`` join the stable group of ``old``, until all have an assignment; cooperative members join again after
    they have revoked partitions. Raises: Refused.
    """
    get_ids(new)
    for member in new:
        member.send_join()
    codes = {ErrorCode.NONE}
    while ErrorCode.REBALANCE_IN_PROGRESS not in codes:  # the JoinGroups arrive over different connections
        for member in old:
            member.send_heartbeat()
        codes = {ErrorCode(member.receive_heartbeat()) for member in old}
    for member in old:
        member.send_join()
    everybody = [*old, *new]
    codes = {ErrorCode(member.receive_join()) for member in everybody}
    if codes != {ErrorCode.NONE} or len({member.generation for member in everybody}) != 1:
        raise Refused(f"JoinGroup of a stable group: {codes}")
    for member in sorted(everybody, key=lambda each: not each.leads):
        member.send_sync()
    for member in everybody:
        member.receive_sync()
    if cooperative:
        for member in everybody:
            member.metadata = _EAGER[:-4] + b"\0\0\0\0" + _OWNED
        rebalance(everybody)
