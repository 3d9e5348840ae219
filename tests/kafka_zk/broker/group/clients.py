"""The core of a group and clients that talk to it: requests, lost responses, kills, and a log that may fail.

One seed decides everything. Every response is judged: see ``World.check``.
"""

import random
from dataclasses import dataclass, field
from typing import Any

from kafka_zk.broker.coordinator.replies import Reply
from kafka_zk.broker.group.config import GroupConfig
from kafka_zk.broker.group.events import JoinCompleted, MemberDeparted, RebalancePrepared
from kafka_zk.broker.group.group import Group
from kafka_zk.broker.group.requests import (
    UNKNOWN_MEMBER_ID,
    AnswerJoin,
    AnswerSync,
    AssignmentStored,
    Effect,
    Happened,
    JoinGroup,
    JoinResult,
    Now,
    StoreGroup,
    SyncGroup,
    SyncResult,
)
from kafka_zk.broker.group.states import GroupState
from kafka_zk.protocol.errors import ErrorCode

RETRIABLE = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
SESSION_MS = 6_000
REBALANCE_MS = 10_000
HEARTBEAT_MS = 2_000
SLACK_MS = 1_000


def assignment_of(generation_id: int, member_id: str) -> bytes:
    """A leader's assignment; it names the generation and the member, so that a mix-up is visible."""
    return f"{generation_id}:{member_id}".encode()


@dataclass
class Client:
    """A consumer, as its group sees it."""

    name: str
    group_instance_id: str | None = None
    protocols: tuple[str, ...] = ("range",)
    member_id: str = UNKNOWN_MEMBER_ID
    generation_id: int = -1
    assignment: bytes | None = None
    waits: Reply | None = None
    next_ms: int = 0
    alive: bool = True
    fenced: bool = False
    needs_to_join: bool = True
    slow_until_ms: int = 0
    """Until then the client sends heartbeats, but neither joins nor syncs: its program is busy with records."""
    unsynced: JoinResult | None = None


@dataclass
class World:
    """The group, its clients, and the clock."""

    seed: int
    config: GroupConfig = field(default_factory=lambda: GroupConfig(initial_rebalance_delay_ms=100))
    lose: float = 0.0
    fail_store: float = 0.0
    delay: float = 0.0
    """Probabilities: a response is lost, a write fails, a SyncGroup is delayed."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.ms = 0
        self.group = Group("g", self.config, self.now)
        self.clients: list[Client] = []
        self.waiting: dict[Reply, Client] = {}
        self.stores: list[tuple[int, StoreGroup]] = []
        self.under_way: list[tuple[int, SyncGroup, Reply]] = []
        self.decided: dict[int, bool] = {}  # generation to whether its assignment was stored
        self.state_since: tuple[GroupState, int, int] = (GroupState.EMPTY, 0, 0)
        self.assigned: dict[tuple[int, str], bytes] = {}
        self.leaders: dict[int, str] = {}
        self.broken: list[str] = []
        self.answered: set[Reply] = set()
        self.stored_generation = 0
        self._replies = 0

    @property
    def now(self) -> Now:
        return Now(self.ms, 1_700_000_000_000 + self.ms)

    def add(self, **fields: Any) -> Client:
        client = Client(f"c{len(self.clients)}", next_ms=self.ms, **fields)
        self.clients.append(client)
        return client

    # Time.

    def run(self, for_ms: int, step_ms: int = 50) -> None:
        end_ms = self.ms + for_ms
        while self.ms < end_ms:
            self.ms += step_ms
            self._write_due()
            self._deliver_due()
            earliest_ms = self.group.earliest_deadline_ms
            if earliest_ms is not None and earliest_ms <= self.ms:
                self.apply(self.group.tick(self.now))
            for client in self.random.sample(self.clients, len(self.clients)):
                if client.alive and not client.fenced and client.waits is None and client.next_ms <= self.ms:
                    self.act(client)

    def _deliver_due(self) -> None:
        due = [entry for entry in self.under_way if entry[0] <= self.ms]
        self.under_way = [entry for entry in self.under_way if entry[0] > self.ms]
        for _, request, reply in due:
            self.apply(self.group.sync(request, reply, self.now))

    def _append(self, store: StoreGroup) -> None:
        """The log accepts records in order and reports them in the same order, later."""
        if store.value.generation_id < self.stored_generation:
            self.broken.append("an older generation is stored after a newer one")
        self.stored_generation = store.value.generation_id
        last_ms = self.stores[-1][0] if self.stores else 0
        self.stores.append((max(last_ms, self.ms + self.random.choice((0, 0, 50, 500))), store))

    def _write_due(self) -> None:
        due = [store for at_ms, store in self.stores if at_ms <= self.ms]
        self.stores = [entry for entry in self.stores if entry[0] > self.ms]
        for store in due:
            failed = self.random.random() < self.fail_store
            if isinstance(store.then, AssignmentStored):
                self.decided.setdefault(store.then.generation_id, not failed)
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE if failed else ErrorCode.NONE
            self.apply(self.group.stored(store.then, error, self.now))

    # A client's side.

    def act(self, client: Client) -> None:
        client.next_ms = self.ms + HEARTBEAT_MS
        if client.slow_until_ms <= self.ms:
            if client.unsynced is not None:
                joined, client.unsynced = client.unsynced, None
                self.sync(client, joined)
                return
            if client.needs_to_join:
                self.join(client)
                return
        elif client.member_id == UNKNOWN_MEMBER_ID:
            return
        code = self.group.heartbeat(client.member_id, client.group_instance_id, client.generation_id, self.now)
        self._learn(client, code)

    def join(self, client: Client) -> None:
        reply = self._reply(client)
        new_member_id = f"{client.name}-{self.random.randrange(10**6)}"
        request = JoinGroup(
            client.member_id, new_member_id, client.group_instance_id, client.name, "h",
            SESSION_MS, REBALANCE_MS, "consumer", tuple((name, client.name.encode()) for name in client.protocols),
        )  # fmt: skip
        self.apply(self.group.join(request, reply, self.now))

    def sync(self, client: Client, joined: JoinResult) -> None:
        assignments = None
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assignments = {
                member.member_id: assignment_of(joined.generation_id, member.member_id) for member in joined.members
            }
        request = SyncGroup(
            client.member_id, client.generation_id, client.group_instance_id,
            "consumer", joined.protocol_name, assignments,
        )  # fmt: skip
        delay_ms = self.random.choice((300, 3_000, 12_000)) if self.random.random() < self.delay else 0
        self.under_way.append((self.ms + delay_ms, request, self._reply(client)))
        self._deliver_due()

    def leave(self, client: Client) -> None:
        client.alive = False
        self._hang_up(client)
        _, effects = self.group.leave(client.member_id, client.group_instance_id, "test", self.now)
        self.apply(effects)

    def kill(self, client: Client) -> None:
        client.alive = False
        self._hang_up(client)

    def forget_answer(self, client: Client) -> None:
        """The client's connection ends; it sends its request again."""
        self._hang_up(client)
        client.next_ms = self.ms + 100

    def _hang_up(self, client: Client) -> None:
        if client.waits is not None:
            self.waiting.pop(client.waits, None)
            client.waits = None
            client.needs_to_join = True

    def _reply(self, client: Client) -> Reply:
        self._replies += 1
        reply = Reply(self._replies)
        client.waits = reply
        self.waiting[reply] = client
        return reply

    # The group's side.

    def apply(self, effects: list[Effect]) -> None:
        self._check_generation(effects)
        for effect in effects:
            if isinstance(effect, StoreGroup):
                self._append(effect)
            elif isinstance(effect, AnswerJoin | AnswerSync):
                if effect.reply in self.answered:
                    self.broken.append(f"{effect.reply} is answered twice")
                self.answered.add(effect.reply)
                client = self.waiting.pop(effect.reply, None)
                if client is None:
                    continue
                client.waits = None
                if self.random.random() < self.lose:
                    client.next_ms = self.ms + 100
                    client.needs_to_join = True
                elif isinstance(effect, AnswerJoin):
                    self._joined(client, effect.result)
                else:
                    self._synced(client, effect.result)
        self.check()

    def _joined(self, client: Client, result: JoinResult) -> None:
        if result.error is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = result.member_id
            client.next_ms = self.ms
        elif result.error is ErrorCode.NONE:
            client.member_id, client.generation_id = result.member_id, result.generation_id
            client.needs_to_join = False
            if result.leader == result.member_id and not result.skip_assignment and result.members:
                known = self.leaders.setdefault(result.generation_id, result.member_id)
                if known != result.member_id:
                    self.broken.append(f"generation {result.generation_id} has two leaders")
            client.unsynced = result
            client.next_ms = self.ms
            if self.random.random() < 0.9:
                self.act(client)
        else:
            self._learn(client, result.error)

    def _synced(self, client: Client, result: SyncResult) -> None:
        if result.error is ErrorCode.NONE:
            client.assignment = result.assignment
            if self.decided.get(client.generation_id) is False:
                self.broken.append(f"{client.name} got an assignment that was not stored")
            key = (client.generation_id, client.member_id)
            if self.assigned.setdefault(key, result.assignment) != result.assignment:
                self.broken.append(f"{key} has two assignments")
            if result.assignment not in (b"", assignment_of(*key)) and client.group_instance_id is None:
                self.broken.append(f"{key} got {result.assignment!r}")
        else:
            self._learn(client, result.error)

    def _learn(self, client: Client, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            return
        client.needs_to_join = True
        client.unsynced = None
        client.next_ms = self.ms + 100
        if code is ErrorCode.FENCED_INSTANCE_ID:
            client.fenced = True
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                client.member_id = UNKNOWN_MEMBER_ID
            client.generation_id = -1
        elif code not in RETRIABLE:
            self.broken.append(f"{client.name} got {code.name}")

    def _check_generation(self, effects: list[Effect]) -> None:
        """A generation consists of the members that joined and of static members. A member that misses the sync
        deadline is removed.
        """
        answered = {
            effect.result.member_id
            for effect in effects
            if isinstance(effect, AnswerJoin) and effect.result.error is ErrorCode.NONE
        }
        happened = [effect for effect in effects if isinstance(effect, Happened)]
        removed = any(event.kind is MemberDeparted for event in happened)
        for kind, cause, fields in happened:
            if kind is JoinCompleted:
                generation, _, leader, member_ids = fields
                dynamic = set(member_ids) - set(self.group.members.static.values())
                if not dynamic <= answered:
                    self.broken.append(f"generation {generation} has members that did not join")
                if leader and leader not in answered:
                    self.broken.append(f"generation {generation} is led by who did not join")
            elif kind is RebalancePrepared and "did not request" in cause and not removed:
                self.broken.append("a rebalance for a member that did not sync, and nobody was removed")

    def check(self) -> None:
        """Invariants that hold at any moment."""
        self._check_time()
        group = self.group
        members = group.members
        if members.joining_count != sum(member.joining is not None for member in members):
            self.broken.append("the count of those who joined is wrong")
        if (members.leader is None) != (len(members) == 0):
            self.broken.append("a group has a leader exactly when it has members")
        if group.state is GroupState.EMPTY and len(members):
            self.broken.append("an empty group has members")
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE) and not len(members):
            self.broken.append(f"{group.state} without members")
        if any(member.syncing is not None for member in members) and group.state is not GroupState.COMPLETING_REBALANCE:
            self.broken.append("a SyncGroup waits, but no assignment will come")
        if len(set(members.static.values())) != len(members.static):
            self.broken.append("two instances have one member id")

    def _check_time(self) -> None:
        """No phase of a rebalance lasts longer than its timeout allows."""
        phase = (self.group.state, self.group.generation_id)
        if phase != self.state_since[:2]:
            self.state_since = (*phase, self.ms)
        lasts_ms = self.ms - self.state_since[2]
        if self.group.state is GroupState.COMPLETING_REBALANCE and lasts_ms > REBALANCE_MS + SLACK_MS:
            self.broken.append(f"an assignment is awaited for {lasts_ms} ms")
        if self.group.state is GroupState.PREPARING_REBALANCE and lasts_ms > 2 * REBALANCE_MS + SLACK_MS:
            self.broken.append(f"members are awaited for {lasts_ms} ms")

    def is_at_rest(self) -> bool:
        """Every living client has its assignment in the current generation, and the group waits for no other member."""
        living = [client for client in self.clients if client.alive and not client.fenced]
        state = GroupState.STABLE if living else GroupState.EMPTY
        return self.group.state is state and not self.group.members.pending and all(
            client.generation_id == self.group.generation_id
            and client.assignment is not None
            and not client.needs_to_join
            for client in living
        )  # fmt: skip
