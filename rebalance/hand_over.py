"""What one member has and what it should have: compared whenever anything happened, and what is missing is started.

    owned, not in the target       stop delivery, then commit and release
    in the target, not owned       claim; if another thread owns it, claim again when that owner znode is gone
    target unknown                 keep everything as it is

Eager strategies put one thing before that: when what the assignment is based on changed, everything owned is stopped
and released, and nothing is claimed before that is done. Every comparison starts from the newest target, so changes
that come in a burst need no queue and none is lost. Pure; the states of a partition are in ``states``. Tests:
``tests/rebalance/test_hand_over.py``.
"""

from collections.abc import Iterable, Mapping

from rebalance import events
from rebalance.assignment import thread_id
from rebalance.config import GroupConfig
from rebalance.delivery import Start
from rebalance.effects import Claim, DropDelivery, Note, Release, SetTimer, StartDelivery, StopDelivery, WatchOwners
from rebalance.group_view import Target
from rebalance.outbox import Outbox
from rebalance.round_report import RoundReport
from rebalance.states import PartitionState, PartitionTable
from registry.owners import Claimed, Taken
from storage.types import TopicPartition

PATIENCE_TIMER = "patience"

_DELIVERED = (PartitionState.OWNED, PartitionState.STOPPING)


class HandOver:
    """``aim`` it at a target, tell it what happened, and ``reconcile`` after each."""

    def __init__(self, outbox: Outbox, config: GroupConfig) -> None:
        self._out = outbox
        self._config = config
        self._table = PartitionTable()
        self._target: Target | None = None
        self._incremental = False
        self._basis: object = None
        self._last_stop_id = 0
        self._patience_running = False
        self._round: RoundReport | None = None
        self._what = ("", 0)  # strategy and generation, for observers

    @property
    def owned(self) -> Target:
        """Partition -> thread number, of all whose delivery is on."""
        return {tp: self._table[tp].thread for tp in self._table.among(PartitionState.OWNED)}

    @property
    def is_empty(self) -> bool:
        """Nothing is owned, claimed or waited for."""
        return not len(self._table)

    # -- what should be --

    def aim(self, target: Target, strategy: str = "", generation: int = 0, basis: object = None) -> None:
        """From now on this is the target. ``basis``: None for an incremental strategy, else what an eager one starts
        all over for when it is not equal to the last one."""
        self._target = target
        self._what = (strategy, generation)
        self._incremental = basis is None
        before, self._basis = self._basis, basis
        if basis is not None and basis != before:
            self._stop(self._table.among(PartitionState.OWNED))

    def reconcile(self) -> None:
        """Start what is missing."""
        target = self._target
        if target is None:
            return
        self._stop([partition for partition in self._table.among(PartitionState.OWNED) if not self._wanted(partition)])
        for partition in self._table.among(PartitionState.WAITING):
            if not self._wanted(partition):
                self._table.change(partition, PartitionState.FREE)
        if self._incremental or not self._table.among(PartitionState.STOPPING, PartitionState.RELEASING):
            free = PartitionState.FREE
            self._claim({tp: thread for tp, thread in sorted(target.items()) if self._table.state(tp) is free})
        self._end_round()

    # -- what happened --

    def claim_settled(self, outcomes: Mapping[TopicPartition, Claimed | Taken]) -> None:
        """Those that were taken are waited for; those that are not wanted any more go back at once."""
        claimed: dict[TopicPartition, Claimed] = {}
        taken: dict[TopicPartition, str] = {}
        for partition, outcome in sorted(outcomes.items()):
            if self._table.state(partition) is not PartitionState.CLAIMING:
                continue
            if isinstance(outcome, Claimed):
                claimed[partition] = outcome
            elif self._wanted(partition):
                taken[partition] = outcome.owner
            else:
                self._table.change(partition, PartitionState.FREE)
        if claimed:
            offsets = {tp: outcome.offset for tp, outcome in claimed.items()}
            tokens = {tp: outcome.token for tp, outcome in claimed.items()}
            self._out.note(events.Claimed, offsets, tokens, zxid=max(outcome.zxid for outcome in claimed.values()))
            self._start({tp: offset for tp, offset in offsets.items() if self._wanted(tp)})
            self._release({tp: None for tp in claimed if not self._wanted(tp)})
        for partition, owner in taken.items():
            self._table.change(partition, PartitionState.WAITING).owner = owner
            self._out.note(events.ClaimWaits, partition, owner)
        if taken:
            self._be_patient()

    def watch_owners(self) -> None:
        """Watch anew whom is waited for: the watches of the claims ended with the connection."""
        waiting = frozenset(self._table.among(PartitionState.WAITING))
        if waiting:
            self._out.do(WatchOwners(waiting))

    def owners_gone(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in sorted(partitions):
            if self._table.state(partition) is PartitionState.WAITING:
                self._table.change(partition, PartitionState.FREE)

    def delivery_stopped(self, stop_id: int, offsets: Mapping[TopicPartition, int | None]) -> None:
        """What was lost and claimed again meanwhile is another ownership: the ``stop_id`` tells."""
        self._release(
            {
                partition: offset
                for partition, offset in sorted(offsets.items())
                if self._table.state(partition) is PartitionState.STOPPING and self._table[partition].stop_id == stop_id
            }
        )

    def release_settled(self, outcomes: Mapping[TopicPartition, bool]) -> None:
        settled = [tp for tp in sorted(outcomes) if self._table.state(tp) is PartitionState.RELEASING]
        for partition in settled:
            self._table.change(partition, PartitionState.FREE)
        if settled:
            released = tuple(partition for partition in settled if outcomes[partition])
            not_ours = tuple(partition for partition in settled if not outcomes[partition])
            self._out.note(events.Released, released, not_ours)

    def lost(self, partitions: Iterable[TopicPartition], cause: str) -> None:
        """These have another owner, or none, by now."""
        gone = [partition for partition in sorted(partitions) if self._table.state(partition) in _DELIVERED]
        if not gone:
            return
        self._out.cause = f"lost {len(gone)} partitions: {cause}"
        self._begin_round().stopped(gone)
        self._drop(gone)

    def clear(self) -> None:
        """The session ended: nothing is owned, claimed or watched any more."""
        delivered = self._table.among(*_DELIVERED)
        for partition in self._table:
            if partition not in delivered:
                self._table.change(partition, PartitionState.FREE)
        if delivered:
            self._drop(delivered)
        self._target, self._basis, self._round = None, None, None
        self._patience_running = False

    def patience_ended(self) -> None:
        """The timer fired: warn, and wait on."""
        self._patience_running = False
        for partition in self._table.among(PartitionState.WAITING):
            entry = self._table[partition]
            waited_ms = int(self._out.now_ms - entry.since_ms)
            if waited_ms >= self._config.patience_ms:
                cause = "the owner does not release it"
                self._out.note(events.ClaimOverdue, partition, entry.owner, waited_ms, cause=cause)
        if self._table.among(PartitionState.WAITING):
            self._be_patient()

    # -- own business --

    def _wanted(self, partition: TopicPartition) -> bool:
        """Whether the target has it, for the thread that it is listed with here."""
        return self._target is not None and self._target.get(partition) == self._table[partition].thread

    def _stop(self, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        self._begin_round().stopped(partitions)
        self._last_stop_id += 1
        for partition in partitions:
            self._table.change(partition, PartitionState.STOPPING).stop_id = self._last_stop_id
        self._out.note(events.DeliveryStopped, tuple(partitions))
        self._out.do(StopDelivery(self._last_stop_id, frozenset(partitions)))

    def _release(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        for partition in offsets:
            self._table.change(partition, PartitionState.RELEASING)
        if offsets:
            self._out.do(Release(offsets))

    def _claim(self, threads: Mapping[TopicPartition, int]) -> None:
        if not threads:
            return
        self._begin_round()
        for partition, thread in threads.items():
            self._table.claim(partition, thread, self._out.now_ms)
        self._out.do(Claim({tp: thread_id(self._out.actor, thread) for tp, thread in threads.items()}))

    def _start(self, offsets: Mapping[TopicPartition, int]) -> None:
        if not offsets:
            return
        starts = {
            partition: Start(self._table.change(partition, PartitionState.OWNED).thread, offset)
            for partition, offset in offsets.items()
        }
        self._begin_round().started(starts)
        self._out.note(events.DeliveryStarted, dict(offsets))
        self._out.do(StartDelivery(starts))

    def _drop(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            self._table.change(partition, PartitionState.FREE)
        self._out.note(events.OwnershipLost, tuple(partitions))
        self._out.do(DropDelivery(frozenset(partitions)))

    def _begin_round(self) -> RoundReport:
        if self._round is None:
            self._round = RoundReport(self._table.among(PartitionState.OWNED), self._out.cause, self._out.now_ms)
            self._out.note(events.RebalanceStarted, *self._what)
        return self._round

    def _end_round(self) -> None:
        """Everything listed is owned; that is the target then, or it would be claimed."""
        owned = self._table.among(PartitionState.OWNED)
        if self._round is not None and len(owned) == len(self._table):
            finished, self._round = self._round.finished(owned, self._out.actor, self._out.now_ms), None
            self._out.do(Note(finished))

    def _be_patient(self) -> None:
        if not self._patience_running:
            self._patience_running = True
            self._out.do(SetTimer(PATIENCE_TIMER, self._out.now_ms + self._config.patience_ms))
