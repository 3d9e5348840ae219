"""Compares what one member owns with what it should own (its *target*), and starts the missing actions after every
event.

    owned, not in the target       stop delivery, then commit and release
    in the target, not owned       claim; if another thread owns it, claim again when that owner znode is deleted
    target unknown                 keep everything

Eager strategies add one step: when the inputs of the assignment change, the member stops and releases everything, and
claims nothing before that is done. Every comparison uses the newest target, so bursts of changes need no queue and no
change is lost. Pure; ``states`` has the states of a partition.
"""

from collections.abc import Iterable, Mapping

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance import events
from kafka_zk.rebalance.assignment import thread_id
from kafka_zk.rebalance.config import GroupConfig
from kafka_zk.rebalance.delivery import Start
from kafka_zk.rebalance.effects import (
    ClaimPartition,
    DropDelivery,
    HoldTopics,
    Note,
    Release,
    SetTimer,
    StartDelivery,
    StopDelivery,
    WatchOwners,
)
from kafka_zk.rebalance.group_view import Target
from kafka_zk.rebalance.outbox import Outbox
from kafka_zk.rebalance.round_report import RoundReport
from kafka_zk.rebalance.states import Event, HoldingState, PartitionTable
from kafka_zk.registry.owners import Claimed, Taken
from kafka_zk.registry.znodes.consumers import NO_OFFSET

CLAIM_TIMER = "claims"

_DELIVERED = (HoldingState.OWNED, HoldingState.STOPPING)


class HandOver:
    """Call ``set_target`` and report events; call ``reconcile`` after each."""

    def __init__(self, outbox: Outbox, config: GroupConfig) -> None:
        self._out = outbox
        self._config = config
        self._table = PartitionTable()
        self._target: Target | None = None  # None: unknown, keep everything
        self._incremental = False
        self._inputs: object = None  # ``inputs`` of the last ``set_target``
        self._last_stop_id = 0
        self._claim_timer_runs = False  # the timer of ``check_overdue_claims`` is running
        self._round: RoundReport | None = None  # report of the rebalance in progress
        self._what = ("", 0)  # strategy and generation, for observers
        self._topics: frozenset[str] = frozenset()  # topics of all partitions in the table
        self._czxids: dict[str, int] = {}  # last known czxid of each of these topics; 0: deleted

    @property
    def owned(self) -> Target:
        """Partition -> thread number, for each partition that is delivered."""
        return {tp: self._table[tp].thread for tp in self._table.among(HoldingState.OWNED)}

    @property
    def is_empty(self) -> bool:
        return not len(self._table)

    def set_target(self, target: Target, strategy: str = "", generation: int = 0, inputs: object = None) -> None:
        """Set the target. ``inputs``: None for an incremental strategy; an eager one starts over when they change."""
        self._target = target
        self._what = (strategy, generation)
        self._incremental = inputs is None
        before, self._inputs = self._inputs, inputs
        if inputs is not None and inputs != before:
            self._stop(self._table.among(HoldingState.OWNED))

    def reconcile(self) -> None:
        target = self._target
        if target is None:
            return
        self._stop([partition for partition in self._table.among(HoldingState.OWNED) if not self._wanted(partition)])
        for partition in self._table.among(HoldingState.WAITING):
            if not self._wanted(partition):
                self._table.change(partition, Event.GIVE_UP)
        if self._incremental or not self._table.among(HoldingState.STOPPING, HoldingState.RELEASING):
            free = HoldingState.FREE
            self._claim({tp: thread for tp, thread in sorted(target.items()) if self._table.state(tp) is free})
        self._end_round()

    def claim_settled(self, outcomes: Mapping[TopicPartition, Claimed | Taken]) -> None:
        """Claimed partitions that have left the target are released."""
        claimed: dict[TopicPartition, Claimed] = {}
        taken: dict[TopicPartition, str] = {}
        for partition, outcome in sorted(outcomes.items()):
            if self._table.state(partition) is not HoldingState.CLAIMING:
                continue
            if isinstance(outcome, Claimed):
                claimed[partition] = outcome
            elif self._wanted(partition):
                taken[partition] = outcome.owner
            else:
                self._table.change(partition, Event.GIVE_UP)
        if claimed:
            for tp, outcome in claimed.items():
                self._table[tp].topic_czxid = outcome.topic_czxid or self._czxids.get(tp.topic, 0)
            self._tell_outdated([tp for tp, outcome in claimed.items() if outcome.outdated is not None])
            offsets = {tp: outcome.offset for tp, outcome in claimed.items()}
            tokens = {tp: outcome.token for tp, outcome in claimed.items()}
            self._out.note(events.Claimed, offsets, tokens, zxid=max(outcome.zxid for outcome in claimed.values()))
            self._start({tp: offset for tp, offset in offsets.items() if self._wanted(tp)})
            self._release({tp: None for tp in claimed if not self._wanted(tp)})
        for partition, owner in taken.items():
            self._table.change(partition, Event.TAKEN).owner = owner
            self._out.note(events.ClaimWaits, partition, owner)
        if taken:
            self._start_claim_timer()
        self._give_up_outdated(claimed)

    def topics_seen(self, czxids: Mapping[str, int]) -> None:
        """Handle the current czxids. If a topic was deleted and recreated, its old offsets are invalid: release its
        partitions without offsets and claim them again.
        """
        self._czxids.update(czxids)
        self._give_up_outdated(tp for tp in self._table.among(*_DELIVERED) if tp.topic in czxids)

    def hold_topics(self) -> None:
        """Watch the topics of all listed partitions."""
        topics = self._table.topics()
        if topics != self._topics:
            self._topics = topics
            self._czxids = {topic: czxid for topic, czxid in self._czxids.items() if topic in topics}
            self._out.do(HoldTopics(topics))

    def watch_owners(self) -> None:
        """Watch the owner znodes of other members again, because those watches ended with the connection."""
        waiting = frozenset(self._table.among(HoldingState.WAITING))
        if waiting:
            self._out.do(WatchOwners(waiting))

    def owners_gone(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in sorted(partitions):
            if self._table.state(partition) is HoldingState.WAITING:
                self._table.change(partition, Event.OWNER_GONE)

    def delivery_stopped(self, stop_id: int, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit and release the partitions, except those claimed again, which have another ``stop_id``."""
        self._release(
            {
                partition: self._to_commit(partition, offset)
                for partition, offset in sorted(offsets.items())
                if self._table.state(partition) is HoldingState.STOPPING and self._table[partition].stop_id == stop_id
            }
        )

    def release_settled(self, outcomes: Mapping[TopicPartition, bool]) -> None:
        settled = [tp for tp in sorted(outcomes) if self._table.state(tp) is HoldingState.RELEASING]
        for partition in settled:
            self._table.change(partition, Event.RELEASED)
        if settled:
            released = tuple(partition for partition in settled if outcomes[partition])
            not_ours = tuple(partition for partition in settled if not outcomes[partition])
            self._out.note(events.Released, released, not_ours)

    def lost(self, partitions: Iterable[TopicPartition], cause: str) -> None:
        """Handle the loss of partitions, which have another owner or none."""
        gone = [partition for partition in sorted(partitions) if self._table.state(partition) in _DELIVERED]
        if not gone:
            return
        self._out.cause = f"lost {len(gone)} partitions: {cause}"
        self._begin_round().stopped(gone)
        self._drop(gone, Event.LOST)

    def clear(self) -> None:
        delivered = self._table.among(*_DELIVERED)
        for partition in self._table:
            if partition not in delivered:
                self._table.change(partition, Event.SESSION_ENDED)
        if delivered:
            self._drop(delivered, Event.SESSION_ENDED)
        self._target, self._inputs, self._round = None, None, None
        self._claim_timer_runs = False

    def check_overdue_claims(self) -> None:
        """Warn about overdue owners and keep waiting."""
        self._claim_timer_runs = False
        for partition in self._table.among(HoldingState.WAITING):
            entry = self._table[partition]
            waited_ms = int(self._out.now_ms - entry.since_ms)
            if waited_ms >= self._config.claim_timeout_ms:
                cause = "the owner does not release it"
                self._out.note(events.ClaimOverdue, partition, entry.owner, waited_ms, cause=cause)
        if self._table.among(HoldingState.WAITING):
            self._start_claim_timer()

    def _wanted(self, partition: TopicPartition) -> bool:
        """True if the target still assigns the partition to this thread."""
        return self._target is not None and self._target.get(partition) == self._table[partition].thread

    def _give_up_outdated(self, partitions: Iterable[TopicPartition]) -> None:
        outdated = [tp for tp in partitions if self._is_outdated(tp)]
        for partition in outdated:
            self._table[partition].is_outdated = True
        self._tell_outdated(outdated)
        self._stop([tp for tp in outdated if self._table.state(tp) is HoldingState.OWNED])

    def _is_outdated(self, partition: TopicPartition) -> bool:
        """True if the topic was recreated after the claim and this has not been noticed yet."""
        if self._table.state(partition) not in _DELIVERED or self._table[partition].is_outdated:
            return False
        return self._czxids.get(partition.topic, 0) > self._table[partition].topic_czxid

    def _tell_outdated(self, partitions: list[TopicPartition]) -> None:
        for topic in sorted({tp.topic for tp in partitions}):
            cause = f"topic {topic} was deleted and recreated"
            self._out.note(events.OffsetsOutdated, tuple(tp for tp in partitions if tp.topic == topic), cause=cause)

    def _to_commit(self, partition: TopicPartition, offset: int | None) -> int | None:
        """Return None for a deleted topic, because the write could reach its successor, and NO_OFFSET for a recreated
        one.
        """
        if self._table[partition].is_outdated:
            return NO_OFFSET
        return None if self._czxids.get(partition.topic) == 0 else offset

    def _stop(self, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        self._begin_round().stopped(partitions)
        self._last_stop_id += 1
        for partition in partitions:
            self._table.change(partition, Event.STOP).stop_id = self._last_stop_id
        self._out.note(events.DeliveryStopped, tuple(partitions))
        self._out.do(StopDelivery(self._last_stop_id, frozenset(partitions)))

    def _release(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        for partition in offsets:
            self._table.change(partition, Event.RELEASE)
        if offsets:
            self._out.do(Release(offsets))

    def _claim(self, threads: Mapping[TopicPartition, int]) -> None:
        if not threads:
            return
        self._begin_round()
        for partition, thread in threads.items():
            self._table.claim(partition, thread, self._out.now_ms)
        self._out.do(ClaimPartition({tp: thread_id(self._out.actor, thread) for tp, thread in threads.items()}))

    def _start(self, offsets: Mapping[TopicPartition, int]) -> None:
        if not offsets:
            return
        starts = {
            partition: Start(self._table.change(partition, Event.CLAIMED).thread, offset)
            for partition, offset in offsets.items()
        }
        self._begin_round().started(starts)
        self._out.note(events.DeliveryStarted, dict(offsets))
        self._out.do(StartDelivery(starts))

    def _drop(self, partitions: list[TopicPartition], event: Event) -> None:
        for partition in partitions:
            self._table.change(partition, event)
        self._out.note(events.OwnershipLost, tuple(partitions))
        self._out.do(DropDelivery(frozenset(partitions)))

    def _begin_round(self) -> RoundReport:
        if self._round is None:
            self._round = RoundReport(self._table.among(HoldingState.OWNED), self._out.cause, self._out.now_ms)
            self._out.note(events.RebalanceStarted, *self._what)
        return self._round

    def _end_round(self) -> None:
        owned = self._table.among(HoldingState.OWNED)
        if self._round is not None and len(owned) == len(self._table):
            finished, self._round = self._round.finished(owned, self._out.actor, self._out.now_ms), None
            self._out.do(Note(finished))

    def _start_claim_timer(self) -> None:
        if not self._claim_timer_runs:
            self._claim_timer_runs = True
            self._out.do(SetTimer(CLAIM_TIMER, self._out.now_ms + self._config.claim_timeout_ms))
