"""Safeguards of replication that can be removed for a run: a judge must notice.

``python -m tests.sim.replication_safeguards NAME --seeds 0-24`` plays until one does.
"""

import sys
from dataclasses import replace
from typing import Any

import pytest

from kafka_zk.broker.controller import alter_partition, election, partition_state
from kafka_zk.broker.controller.context import Context, LeadershipInfo
from kafka_zk.broker.controller.effects import WriteState
from kafka_zk.broker.replica.fetcher_effects import Truncate
from kafka_zk.broker.replica.fetcher_state import FetcherState
from kafka_zk.broker.replica.isr_state import Pending
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.replica.partition import Partition
from kafka_zk.broker.replica.remote_replicas import RemoteReplicas
from kafka_zk.broker.replica.replica_fetcher import ReplicaFetcher
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.brokers import BrokerRegistry
from kafka_zk.registry.controller import ControllerRegistry
from kafka_zk.sim.campaign.run import Outcome
from kafka_zk.sim.scenarios import old_replication_rules
from kafka_zk.sim.zookeeper.client import SimClient
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.producer_state import ProducerState
from kafka_zk.storage.manager import log_loader
from kafka_zk.storage.manager.hosted_logs import HostedLogs
from kafka_zk.storage.records.record_batch import NO_PRODUCER_ID, BatchHeader
from tests.sim import taken_out
from tests.sim.replicated import play_replicated
from tests.sim.taken_out import TakeOut


def watermark_of_the_leader_alone(patch: pytest.MonkeyPatch) -> None:
    """All records of the leader count as committed."""
    patch.setattr(RemoteReplicas, "high_watermark", lambda self, local_end_offset, *more: local_end_offset)


def watermark_of_the_fastest_follower(patch: pytest.MonkeyPatch) -> None:
    """Records of the leader and any one follower count as committed."""

    def of_two(self: RemoteReplicas, local_end_offset: int, log_end_offset: int, now_ms: int) -> int:
        return min(local_end_offset, max(each.log_end_offset for each in self.followers.values()))

    patch.setattr(RemoteReplicas, "high_watermark", of_two)


def watermark_without_the_pending_isr(patch: pytest.MonkeyPatch) -> None:
    """The watermark ignores a follower whose addition to the ISR or removal from it is pending."""
    patch.setattr(Pending, "maximal_isr", property(lambda self: min(self.proposed, self.isr, key=len)))


def no_truncation(patch: pytest.MonkeyPatch) -> None:
    """A follower keeps records that its leader does not have."""
    patch.setattr(Log, "truncate_to", lambda self, offset, now_ms=0: None)


def no_diverging_epoch(patch: pytest.MonkeyPatch) -> None:
    """A follower continues at its log end, whatever the leader's epochs are."""

    def at_end(self: FetcherState, tp: Any, known: Any, end: Any, log: Any) -> Truncate:
        return Truncate(tp, log.log_end_offset)

    patch.setattr(FetcherState, "_truncation", at_end)


def no_shrinking(patch: pytest.MonkeyPatch) -> None:
    """A lagging follower stays in the ISR."""
    patch.setattr(RemoteReplicas, "out_of_sync", lambda self, log_end_offset, now_ms: [])


def no_growing(patch: pytest.MonkeyPatch) -> None:
    """A broker that left the ISR does not return to it."""
    patch.setattr(RemoteReplicas, "may_join", lambda self, broker_id, high_watermark: False)


def joins_without_having_caught_up(patch: pytest.MonkeyPatch) -> None:
    """A follower is in sync as soon as it fetches."""
    patch.setattr(RemoteReplicas, "may_join", lambda self, broker_id, high_watermark: broker_id not in self.state.isr)


def acknowledged_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    """A request with acks=all is acknowledged like one with acks=1."""
    patch.setattr(Partition, "has_committed", lambda self, last_offset, terms_ended: True)


def ends_are_told_before_they_are_known(patch: pytest.MonkeyPatch) -> None:
    """A new leader returns its own high watermark, which may be below the one that its predecessor returned."""
    patch.setattr(Partition, "knows_what_is_committed", property(lambda self: True))


def no_epoch_check_of_leaders(patch: pytest.MonkeyPatch) -> None:
    """Requests in another leader epoch are served."""
    leader_log = Partition.leader_log
    patch.setattr(Partition, "leader_log", lambda self, current_leader_epoch=-1: leader_log(self))


def older_leader_epochs_are_taken(patch: pytest.MonkeyPatch) -> None:
    """A LeaderAndIsr request with an older epoch is carried out."""
    take_state = ReplicaManager._take_state

    def taken(self: ReplicaManager, wanted: Any) -> ErrorCode:
        partition = self.partitions.get(wanted.tp)
        if partition is not None and wanted.state.leader_epoch < partition.leader_epoch:
            partition.leader_epoch = wanted.state.leader_epoch - 1
        return take_state(self, wanted)

    patch.setattr(ReplicaManager, "_take_state", taken)
    patch.setattr(ReplicaManager, "accept_controller", lambda self, epoch: True)


def any_isr_is_written(patch: pytest.MonkeyPatch) -> None:
    """The controller writes any ISR that a leader proposes, whatever the proposal's epochs are."""

    def granted(context: Any, broker_id: int, tp: Any, proposal: Any) -> WriteState:
        info = context.leadership[tp]
        wanted = LeadershipInfo(
            info.leader, list(proposal.isr), info.leader_epoch, context.epoch, 0, info.zk_version
        )
        return WriteState(tp, wanted, ())

    patch.setattr(alter_partition, "validate", granted)


def no_flush_of_followers(patch: pytest.MonkeyPatch) -> None:
    """A follower reports records to the leader that are only in its page cache."""
    patch.setattr(ReplicaFetcher, "_note_unflushed", lambda self, tp, log: None)


def followers_know_no_producers(patch: pytest.MonkeyPatch) -> None:
    """A new leader accepts a batch again that was written before it became the leader."""
    write_given = Log._write_given

    def forgetful(self: Log, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        write_given(self, batch, header._replace(producer_id=NO_PRODUCER_ID), now_ms)

    patch.setattr(Log, "_write_given", forgetful)


def no_duplicate_detection(patch: pytest.MonkeyPatch) -> None:
    """A batch that is sent again is appended again."""
    patch.setattr(ProducerState, "check", lambda self, header: None)


def leader_epochs_stay(patch: pytest.MonkeyPatch) -> None:
    """A new leader continues in its predecessor's epoch."""
    next_state = partition_state._next
    patch.setattr(
        partition_state,
        "_next",
        lambda context, info, elected: replace(next_state(context, info, elected), leader_epoch=info.leader_epoch),
    )


def whoever_comes_back_leads_on(patch: pytest.MonkeyPatch) -> None:
    """A new controller considers only which brokers are registered, as Kafka's does."""
    patch.setattr(election, "must_be_elected_again", lambda *situation: False)


def unclean_starts_are_not_announced(patch: pytest.MonkeyPatch) -> None:
    """Controllers know only which brokers were away."""
    register = BrokerRegistry.register
    patch.setattr(BrokerRegistry, "register", lambda self, *given, **more: register(self, *given))


def whoever_lost_power_stays_in_sync(patch: pytest.MonkeyPatch) -> None:
    """A member that started uncleanly does not lead, but stays in the ISR."""

    def nobody_removed(candidates: Any, isr: Any, live: Any, absences: Any) -> election.Elected | None:
        elected = most_trusted(candidates, isr, live, absences)
        return elected and elected._replace(isr=[member for member in isr if member in live])

    most_trusted = election._most_trusted
    patch.setattr(election, "_most_trusted", nobody_removed)


def the_first_of_the_isr_is_elected(patch: pytest.MonkeyPatch) -> None:
    """Elections follow Kafka's order, regardless of unclean starts."""
    most_trusted = election._most_trusted
    patch.setattr(
        election,
        "_most_trusted",
        lambda candidates, isr, live, absences: most_trusted(candidates, isr, live, election.NO_ABSENCES),
    )


def absences_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    """Controllers know only which brokers have announced an unclean start."""
    patch.setattr(Context, "_registered_after", lambda self, broker_id, zxid: False)


def recovery_keeps_every_gap(patch: pytest.MonkeyPatch) -> None:
    """Records that a power loss removed from the middle of a log count as compacted."""
    patch.setattr(log_loader._Recovery, "_judge_gap", lambda self, end_offset, next_base, *, is_first: None)


def compaction_goes_beyond_the_recovery_point(patch: pytest.MonkeyPatch) -> None:
    """Gaps exist before the recovery point on disk covers them."""
    patch.setattr(HostedLogs, "prepare_recovery_point", lambda self, log, offset: None)


def segments_begin_at_their_first_batch(patch: pytest.MonkeyPatch) -> None:
    """A follower leaves a gap between two segments where the leader's compaction has left one."""

    def roll_for(self: Log, base_offset: int, last_offset: int, now_ms: int) -> None:
        self.producers.write_snapshot(self.segments.directory, base_offset)
        self.segments.roll(base_offset, self.config, now_ms)

    patch.setattr(Log, "_roll_for", roll_for)


def controllers_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    """A controller writes without a lease, and even if there is a newer epoch."""
    fenced_writes = ControllerRegistry.fenced_writes
    patch.setattr(ControllerRegistry, "fenced_writes", lambda self, version, *more: fenced_writes(self, -1, *more))
    patch.setattr(SimClient, "lease_held", lambda self: True)


SAFEGUARDS: dict[str, TakeOut] = {
    take_out.__name__: take_out
    for take_out in (
        watermark_of_the_leader_alone,
        watermark_of_the_fastest_follower,
        watermark_without_the_pending_isr,
        no_truncation,
        old_replication_rules.truncation_to_the_high_watermark,
        no_diverging_epoch,
        no_shrinking,
        no_growing,
        joins_without_having_caught_up,
        old_replication_rules.no_min_insync_replicas,
        acknowledged_before_it_is_committed,
        ends_are_told_before_they_are_known,
        no_epoch_check_of_leaders,
        older_leader_epochs_are_taken,
        any_isr_is_written,
        no_flush_of_followers,
        followers_know_no_producers,
        no_duplicate_detection,
        leader_epochs_stay,
        old_replication_rules.whoever_lives_is_elected,
        controllers_are_not_fenced,
        whoever_comes_back_leads_on,
        unclean_starts_are_not_announced,
        whoever_lost_power_stays_in_sync,
        the_first_of_the_isr_is_elected,
        absences_are_not_compared,
        recovery_keeps_every_gap,
        compaction_goes_beyond_the_recovery_point,
        segments_begin_at_their_first_batch,
    )
}


def play_replicated_without(name: str, seed: int) -> Outcome:
    """A run without one of ``SAFEGUARDS``."""
    return taken_out.play_without(SAFEGUARDS[name], play_replicated, seed)


if __name__ == "__main__":
    sys.exit(taken_out.find("tests.sim.replication_safeguards", SAFEGUARDS, play_replicated, "0-24"))
