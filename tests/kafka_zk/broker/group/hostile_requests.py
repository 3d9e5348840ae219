"""Requests to a group that no real client would send, by seed, and the judges of the group's behaviour.

Each request starts as a valid one for the group, with ids and generations that the group has given out; then some
fields are replaced. Between requests time passes, writes succeed or fail, late or in another order, and the broker
loses the group and loads it again from the stored value.
"""

import random
from collections.abc import Callable
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.coordinator.replies import Reply
from kafka_zk.broker.group.config import GroupConfig
from kafka_zk.broker.group.group import Group
from kafka_zk.broker.group.records import (
    NO_EXPIRY,
    OffsetAndMetadata,
    decode_group_value,
    decode_offset_value,
    encode_group_value,
    encode_offset_value,
)
from kafka_zk.broker.group.requests import (
    UNKNOWN_MEMBER_ID,
    AnswerJoin,
    AnswerSync,
    Effect,
    JoinGroup,
    JoinResult,
    Now,
    Protocols,
    StoreGroup,
    SyncGroup,
    SyncResult,
)
from kafka_zk.broker.group.states import GroupState
from kafka_zk.protocol.errors import ErrorCode

FAR_MS = 2**33
"""Longer than any timeout that a request can name."""

METADATA = b"\0\1" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"
NAMES = ("", "x", "range", "sticky", "consumer", "connect", "\0", "é€😀", "\ufffd" * 40, "a" * 300)
TIMEOUTS_MS = (0, 1, -1, 100, 6_000, 30_000, -(2**31), 2**31 - 1)
GENERATIONS = (-1, 0, 1, 2, -(2**31), 2**31 - 1)
PROTOCOLS: tuple[Protocols, ...] = (
    (("range", METADATA),),
    (("range", METADATA), ("sticky", b"")),
    (("sticky", METADATA), ("range", b"\xff" * 9)),
    (("range", b"\0\1\x7f\xff\xff\xff"), ("range", METADATA)),
    (("", b""),),
    (),
)
INSTANCES = (None, None, None, "one", "two", "")
PARTITIONS = tuple(TopicPartition(topic, number) for topic in ("t", "u") for number in range(3))
GIVEN_UP = 40


class HostileWorld:
    """A group and its hostile clients. ``broken``: the faults that the judges found."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        delay_ms, max_size = self.random.choice((0, 100)), self.random.choice((2, 5, 2**31 - 1))
        self.config = GroupConfig(delay_ms, max_size)
        self.ms = 0
        self.group = Group("g", self.config, self.now)
        self.broken: list[str] = []
        self.answers = 0
        self._reply = 0
        self._waiting: set[Reply] = set()
        self._ids = [UNKNOWN_MEMBER_ID, "nobody"]
        self._stores: list[StoreGroup] = []
        self._stored = b""
        self._log_end = 0
        self._writing: list[dict[TopicPartition, OffsetAndMetadata]] = []

    @property
    def now(self) -> Now:
        return Now(self.ms, 1_700_000_000_000 + self.ms)

    # -- requests -----------------------------------------------------------------------------------------------------

    def strike(self) -> None:
        """Send one request, and sometimes let time pass, a write complete or the group move."""
        rnd = self.random
        requests: tuple[Callable[[], None], ...] = (
            self.join, self.join, self.join, self.sync, self.sync, self.heartbeat, self.leave, self.commit, self.delete
        )  # fmt: skip
        rnd.choice(requests)()
        if rnd.random() < 0.3:
            self.ms += rnd.choice((0, 1, 99, 500, 3_000, 7_000, 40_000))
            self.apply(self.group.tick(self.now))
        if rnd.random() < 0.5:
            self.write()
        if rnd.random() < 0.003:
            self.load_again()
        self.judge()

    def mutated(self, request: Any, **others: Any) -> Any:
        """The request with up to three fields replaced by values from ``others``."""
        count = self.random.choice((0, 0, 1, 1, 2, 3))
        fields = self.random.sample(sorted(others), min(count, len(others)))
        return request._replace(**{name: self.random.choice(others[name]) for name in fields})

    def member_id(self) -> str:
        """The id of a member, of a former member, or of no member."""
        living = (*self.group.members.ids, *self.group.members.pending)
        if living and self.random.random() < 0.7:
            return self.random.choice(living)
        return self.random.choice(self._ids)

    def instance_id(self, member_id: str) -> str | None:
        member = self.group.members.get(member_id)
        return None if member is None else member.group_instance_id

    def join(self) -> None:
        rnd = self.random
        member_id = UNKNOWN_MEMBER_ID if rnd.random() < 0.4 else self.member_id()
        self._reply += 1
        new_member_id = f"m-{self._reply}"
        request = JoinGroup(
            member_id, new_member_id, self.instance_id(member_id), "client", "/host", 6_000, 10_000, "consumer",
            PROTOCOLS[0], rnd.random() < 0.5, rnd.random() < 0.5,
        )  # fmt: skip
        request = self.mutated(
            request, member_id=self._ids, group_instance_id=INSTANCES, client_id=NAMES, client_host=NAMES,
            session_timeout_ms=TIMEOUTS_MS, rebalance_timeout_ms=TIMEOUTS_MS, protocol_type=NAMES,
            protocols=PROTOCOLS, reason=NAMES,
        )  # fmt: skip
        self._wait(Reply(self._reply))
        self.apply(self.group.join(request, Reply(self._reply), self.now))

    def sync(self) -> None:
        self._reply += 1
        members, group = self.group.members, self.group
        member_id = members.leader if members.leader is not None and self.random.random() < 0.5 else self.member_id()
        assigned = {each: each.encode() for each in members.ids}
        request = SyncGroup(
            member_id, group.generation_id, self.instance_id(member_id), group.protocol_type, group.protocol_name,
            assigned,
        )  # fmt: skip
        request = self.mutated(
            request, member_id=self._ids, generation_id=GENERATIONS, group_instance_id=INSTANCES,
            protocol_type=(None, *NAMES), protocol_name=(None, *NAMES),
            assignments=(None, {}, {"nobody": b"x"}, {**assigned, "": bytes(500)}),
        )  # fmt: skip
        self._wait(Reply(self._reply))
        self.apply(self.group.sync(request, Reply(self._reply), self.now))

    def _who(self) -> tuple[str, str | None, int]:
        """A member id with its own generation, or with another member's."""
        member_id = self.member_id()
        instance_id = self.instance_id(member_id)
        if self.random.random() < 0.3:
            instance_id = self.random.choice(INSTANCES)
        generation_id = self.group.generation_id
        if self.random.random() < 0.3:
            generation_id = self.random.choice(GENERATIONS)
        return member_id, instance_id, generation_id

    def heartbeat(self) -> None:
        self.group.heartbeat(*self._who(), self.now)

    def leave(self) -> None:
        if self.random.random() < 0.3:
            member_id, instance_id, _ = self._who()
            _, effects = self.group.leave(member_id, instance_id, self.random.choice(NAMES), self.now)
            self.apply(effects)

    def commit(self) -> None:
        rnd = self.random
        if self.group.commit_refusal(*self._who(), transactional=rnd.random() < 0.1) is not ErrorCode.NONE:
            return
        offset = OffsetAndMetadata(
            rnd.choice((0, 1, -1, 2**63 - 1)), rnd.choice((-1, 0, 2**31 - 1)), rnd.choice(NAMES),
            rnd.choice((self.now.wall_ms, -1, 0, 2**63 - 1)), rnd.choice((NO_EXPIRY, NO_EXPIRY, 0, 2**63 - 1)),
        )  # fmt: skip
        stored = decode_offset_value(encode_offset_value(offset))
        if offset.expire_timestamp_ms != NO_EXPIRY:  # such a record has no epoch
            stored = stored._replace(leader_epoch=offset.leader_epoch)
        if stored != offset:
            self.broken.append(f"{offset} becomes {stored}")
        offsets = dict.fromkeys(rnd.sample(PARTITIONS, rnd.randint(1, 3)), offset)
        self.group.offsets.begin(offsets)
        self._writing.append(offsets)

    def delete(self) -> None:
        rnd, offsets = self.random, self.group.offsets
        if rnd.random() < 0.5:
            offsets.remove(rnd.sample(PARTITIONS, 2))
        else:
            unused_since_ms = rnd.choice((None, self.now.wall_ms, -1))
            offsets.expired(offsets.tps, self.now.wall_ms, 1_000, unused_since_ms=unused_since_ms, subscribed=("t",))

    # -- the group's side ---------------------------------------------------------------------------------------------

    def _wait(self, reply: Reply) -> None:
        self._waiting.add(reply)

    def apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, AnswerJoin | AnswerSync):
                self._answered(effect.reply, effect.result)
            elif isinstance(effect, StoreGroup):
                self._stores.append(effect)

    def _answered(self, reply: Reply, result: JoinResult | SyncResult) -> None:
        self.answers += 1
        if reply not in self._waiting:
            self.broken.append(f"{reply} is answered twice")
        self._waiting.discard(reply)
        if isinstance(result, JoinResult) and result.member_id:
            self._ids.append(result.member_id)
            del self._ids[2:-GIVEN_UP]

    def write(self) -> None:
        """The log accepts one of the pending records, or refuses it."""
        rnd = self.random
        failed = rnd.random() < 0.2
        if self._stores:
            store = self._stores.pop(rnd.randrange(len(self._stores)))
            value = encode_group_value(store.value)
            if decode_group_value(value) != store.value:
                self.broken.append(f"{store.value} becomes {decode_group_value(value)}")
            self._stored = self._stored if failed else value
            error = ErrorCode.NOT_COORDINATOR if failed else ErrorCode.NONE
            self.apply(self.group.stored(store.then, error, self.now))
        if self._writing:
            offsets = self._writing.pop(rnd.randrange(len(self._writing)))
            self._log_end += 1
            if failed:
                self.group.offsets.failed(offsets)
            else:
                self.group.offsets.written(offsets, self._log_end)

    def load_again(self) -> None:
        """The broker loses the group while requests are in progress, and loads it again."""
        self.apply(self.group.unload())
        self.judge()
        if self._waiting:
            self.broken.append(f"{self._waiting} still wait for a group that is gone")
            self._waiting.clear()
        old, self._writing = self.group, []
        if self._stored:
            value = decode_group_value(self._stored)
            self.group, effects = Group.loaded("g", self.config, value, self.now)
            self.apply(effects)
        else:
            self.group = Group("g", self.config, self.now)
        found = {tp: old.offsets.get(tp) for tp in old.offsets}
        self.group.offsets.load({tp: offset for tp, offset in found.items() if offset is not None})
        stores, self._stores = self._stores, []
        for store in stores:  # the old group's writes get their responses
            error = self.random.choice((ErrorCode.NONE, ErrorCode.NOT_COORDINATOR))
            self.apply(old.stored(store.then, error, self.now))

    # -- judges -------------------------------------------------------------------------------------------------------

    def judge(self) -> None:
        """Check the invariants that hold after every request."""
        group, members = self.group, self.group.members
        waiting = {reply for member in members for reply in (member.joining, member.syncing) if reply is not None}
        if waiting != self._waiting:
            self.broken.append(f"{self._waiting ^ waiting} wait for nothing, or are not known to wait")
        if members.joining_count != sum(member.joining is not None for member in members):
            self.broken.append("the count of those who joined is wrong")
        if (members.leader is None) != (len(members) == 0) or (members.leader or "") not in (*members.ids, ""):
            self.broken.append(f"{members.leader} leads {members.ids}")
        if group.state is GroupState.EMPTY and len(members):
            self.broken.append("an empty group has members")
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE) and not len(members):
            self.broken.append(f"{group.state} without members")
        if {each.group_instance_id: each.member_id for each in members if each.group_instance_id is not None} != (
            members.static
        ):
            self.broken.append("static members are not who they are said to be")
        if any(member_id in members for member_id in members.pending):
            self.broken.append("a member is awaited that is there")
        size_bytes = sum(member.size_bytes for member in members)
        if not members.pending and members.size_bytes != size_bytes:
            self.broken.append(f"{members.size_bytes} bytes are counted, members hold {size_bytes}")
        if group.state is not GroupState.DEAD and not self._is_awake():
            self.broken.append("a deadline passes and nobody looks")

    def _is_awake(self) -> bool:
        deadlines = self.group._deadlines()
        earliest_ms = self.group.earliest_deadline_ms
        return not deadlines or (earliest_ms is not None and earliest_ms <= min(deadlines))

    def comes_to_rest(self) -> bool:
        """Without further requests, all waiting requests get a response, and no member stays."""
        for _ in range(10):
            while self._stores or self._writing:
                self.write()
            self.ms += FAR_MS
            self.apply(self.group.tick(self.now))
            self.judge()
        group = self.group
        is_idle = not self._waiting and group.earliest_deadline_ms is None and not group.members.pending
        return group.state is GroupState.EMPTY and is_idle and not group.members.size_bytes

    def serves_a_good_member(self) -> bool:
        """Whether a member that joins now gets an assignment, as in a new group."""
        now = self.now
        request = JoinGroup(
            UNKNOWN_MEMBER_ID, "good", None, "client", "/host", 6_000, 10_000, "consumer", PROTOCOLS[0],
            requires_known_member_id=False,
        )  # fmt: skip
        begun = self.group.join(request, Reply(-1), now)
        begun += self.group.tick(Now(now.monotonic_ms + 200, now.wall_ms))
        [joined] = [effect.result for effect in begun if isinstance(effect, AnswerJoin)]
        generation_id = joined.generation_id
        synced = self.group.sync(SyncGroup("good", generation_id, assignments={"good": b"all"}), Reply(-2), now)
        [store] = [effect for effect in synced if isinstance(effect, StoreGroup)]
        stored = self.group.stored(store.then, ErrorCode.NONE, now)
        assignments = [effect.result.assignment for effect in stored if isinstance(effect, AnswerSync)]
        return assignments == [b"all"] and self.group.heartbeat("good", None, generation_id, now) is ErrorCode.NONE


