"""The claims of one member in one session: creates, watches and releases owner znodes.

When other members or tools change many owner znodes at once, the member gets one input in the next reactor turn.
"""

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any

from kafka_zk.base.clock import Clock
from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.inputs import ClaimSettled, Connected, Input, OwnersGone, OwnershipLost, ReleaseSettled
from kafka_zk.rebalance.ownership import Ownership
from kafka_zk.rebalance.reporter import GroupReporter
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.errors import ConnectionLoss
from kafka_zk.registry.owners import Claimed

_REMOVED = "the owner znode was removed"


class Claims:
    """Created when a session begins, closed when it ends.

    Args:
        spawn: runs a coroutine and ignores its SessionLost.
        on_input: receives the inputs; not called after ``close``.
    """

    def __init__(
        self,
        ownership: Ownership,
        clock: Clock,
        reporter: GroupReporter,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        on_input: Callable[[Input], None],
    ) -> None:
        self._ownership = ownership
        self._clock = clock
        self._reporter = reporter
        self._spawn = spawn
        self._on_input = on_input
        self._gone: set[TopicPartition] = set()  # other members' owner znodes deleted in this reactor turn
        self._changed: dict[TopicPartition, EventType] = {}  # our owner znodes changed in this turn
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True

    def claim(self, threads: Mapping[TopicPartition, str]) -> None:
        """Claim partitions for thread ids; ClaimSettled reports the outcome."""
        self._spawn(self._claiming(threads))

    def watch_owners(self, partitions: Iterable[TopicPartition]) -> None:
        """Watch other members' owner znodes; OwnersGone reports their deletion."""
        for tp in sorted(partitions):
            self._spawn(self._watching(tp))

    def release(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit offsets (where not None) and release; ReleaseSettled reports the outcome."""
        self._spawn(self._releasing(offsets))

    def check(self) -> None:
        """Watch all claims again after a reconnect; Connected reports the owner znodes that are no longer ours."""
        self._spawn(self._checking())

    def _tell_if_open(self, event: Input) -> None:
        if not self._is_closed:
            self._on_input(event)

    async def _claiming(self, threads: Mapping[TopicPartition, str]) -> None:
        outcomes = await self._ownership.claim(threads, self._owner_gone)
        self._tell_if_open(ClaimSettled(outcomes))
        await self._watch([tp for tp, outcome in outcomes.items() if isinstance(outcome, Claimed)])

    async def _watch(self, partitions: Collection[TopicPartition]) -> None:
        try:
            lost = await self._ownership.watch(self._claim_changed, partitions)
        except ConnectionLoss:
            return  # the reconnect watches all again
        if lost:
            self._tell_if_open(OwnershipLost(lost, _REMOVED))

    async def _checking(self) -> None:
        try:
            lost = await self._ownership.watch(self._claim_changed)
        except ConnectionLoss:
            return  # the next connection repeats the check
        self._tell_if_open(Connected(lost))

    def _claim_changed(self, tp: TopicPartition, change: EventType) -> None:
        if self._is_closed:
            return
        if not self._changed:
            self._clock.callLater(0, self._claims_changed)
        self._changed[tp] = change

    def _claims_changed(self) -> None:
        if self._is_closed:
            return
        changed, self._changed = self._changed, {}
        removed = frozenset(tp for tp, change in changed.items() if change is EventType.DELETED)
        if removed:
            self._on_input(OwnershipLost(removed, _REMOVED))
        if len(removed) < len(changed):
            self._spawn(self._watch(changed.keys() - removed))

    async def _releasing(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        outcomes = await self._ownership.release(offsets)
        if not self._is_closed:
            committed = {tp: offset for tp, offset in offsets.items() if offset is not None and outcomes[tp]}
            self._reporter.commits("release", committed, dict.fromkeys(committed))
            self._on_input(ReleaseSettled(outcomes))

    async def _watching(self, tp: TopicPartition) -> None:
        try:
            owner = await self._ownership.owners.watch_gone(tp, lambda: self._owner_gone(tp))
        except ConnectionLoss:
            return  # the reconnect repeats the read
        if owner is None:
            self._owner_gone(tp)

    def _owner_gone(self, tp: TopicPartition) -> None:
        if self._is_closed:
            return
        if not self._gone:
            self._clock.callLater(0, self._owners_gone)
        self._gone.add(tp)

    def _owners_gone(self) -> None:
        if not self._is_closed:
            gone, self._gone = frozenset(self._gone), set()
            self._on_input(OwnersGone(gone))
