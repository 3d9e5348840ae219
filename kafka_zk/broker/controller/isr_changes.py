"""ISR changes that leaders request with AlterPartition or, before 2.7, write themselves.

The leader and its epoch stay the same, so the controller only sends UpdateMetadata to all brokers.
"""

from collections.abc import Mapping, Sequence

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import alter_partition
from kafka_zk.broker.controller.alter_partition import Proposal
from kafka_zk.broker.controller.context import LeadershipInfo, Replica
from kafka_zk.broker.controller.control_requests import portions
from kafka_zk.broker.controller.controller_tools import ControllerTools
from kafka_zk.broker.controller.effects import SendUpdateMetadata, WriteState
from kafka_zk.broker.controller.states import ReplicaEvent, ReplicaState
from kafka_zk.broker.controller.turns import PARTITION_COST, PARTITIONS_A_TURN
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.znodes import isr

Granted = LeadershipInfo
Outcome = Granted | ErrorCode
"""The partition's current state, or why its proposal was rejected."""


class IsrChanges:
    """Keeps the context's ISRs equal to ZooKeeper's."""

    def __init__(self, tools: ControllerTools) -> None:
        self._context, self._store, self._changes, self._reporter, self._turns = tools

    async def alter(
        self, broker_id: int, broker_epoch: int, proposals: Mapping[TopicPartition, Proposal]
    ) -> dict[TopicPartition, Outcome]:
        """Decide a leader's proposals. Raises ApiError(STALE_BROKER_EPOCH) if its broker epoch is not registered."""
        broker = self._context.brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch:
            known = "none" if broker is None else broker.epoch
            raise ApiError(
                ErrorCode.STALE_BROKER_EPOCH, f"Broker {broker_id} has broker epoch {known}, not {broker_epoch}."
            )
        outcomes: dict[TopicPartition, Outcome] = {}
        for portion in portions(proposals.items(), PARTITIONS_A_TURN):
            await self._turns.spend(len(portion) * PARTITION_COST)
            writes: list[WriteState] = []
            for tp, proposal in portion:
                verdict = alter_partition.validate(self._context, broker_id, tp, proposal)
                if isinstance(verdict, WriteState):
                    writes.append(verdict)
                else:
                    outcomes[tp] = verdict
            outcomes.update(await self._write(writes))
        granted = {tp: outcome for tp, outcome in outcomes.items() if isinstance(outcome, Granted)}
        refused = {tp: outcome for tp, outcome in outcomes.items() if not isinstance(outcome, Granted)}
        self._reporter.isrs_changed(granted)
        self._reporter.proposals_refused(broker_id, refused)
        await self._changes.send([SendUpdateMetadata(None, [tp for tp in proposals if tp in self._context.leadership])])
        return outcomes

    async def notified(self) -> list[TopicPartition]:
        """Load the states of the partitions in ``/isr_change_notification``, and return the partitions.

        Followers that are offline are removed from the ISRs.
        """
        names = await self._store.children(isr.ISR_CHANGES)
        paths = [f"{isr.ISR_CHANGES}/{name}" for name in names]
        notified = await self._store.isr_changes(paths)
        changed = sorted(tp for tp in notified if tp in self._context.leadership)
        await self._read(changed)
        await self._changes.move_replicas_and_send(self._offline_followers(changed), ReplicaEvent.TAKE_OFFLINE)
        if changed:
            self._reporter.isrs_changed({tp: self._context.leadership[tp] for tp in changed})
            await self._changes.send([SendUpdateMetadata(None, changed)])
        await self._store.delete_all(paths)
        return changed

    def _offline_followers(self, tps: Sequence[TopicPartition]) -> list[Replica]:
        context = self._context
        members = [Replica(tp, broker_id) for tp in tps for broker_id in context.leadership[tp].isr]
        return [
            member
            for member in members
            if context.replica_states.get(member) is ReplicaState.OFFLINE
            and context.leadership[member.partition].leader != member.broker_id
        ]

    async def _write(self, writes: Sequence[WriteState]) -> dict[TopicPartition, Outcome]:
        written, changed, failed = await self._changes.write_states(writes)
        for write in written:
            self._context.leadership[write.partition] = write.info
        await self._read(changed)
        return {
            **{write.partition: write.info for write in written},
            **dict.fromkeys(changed, ErrorCode.INVALID_UPDATE_VERSION),
            **{refused.partition: ErrorCode.UNKNOWN_SERVER_ERROR for refused in failed},
        }

    async def _read(self, partitions: Sequence[TopicPartition]) -> None:
        for tp, info in (await self._store.states(partitions)).items():
            if info is not None:
                self._context.leadership[tp] = info
