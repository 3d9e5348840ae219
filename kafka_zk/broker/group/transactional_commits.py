"""TxnOffsetCommit: offsets that take effect when their transaction commits.

They are appended to ``__consumer_offsets`` as the transaction's batch. A producer with an old epoch, or a client
outside the generation, is rejected (KIP-447).

Source: GroupCoordinator.handleTxnCommitOffsets, doTxnCommitOffsets; GroupMetadataManager.storeOffsets,
handleTxnCompletion@3.9.
"""

from collections.abc import Awaitable, Sequence

from kafka_zk.base.clock import Clock
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.coordinator.append_errors import COORDINATOR_ERRORS
from kafka_zk.broker.group.appends import OffsetsWritten
from kafka_zk.broker.group.config import CoordinatorConfig
from kafka_zk.broker.group.live_group import LiveGroup, now_of
from kafka_zk.broker.group.metadata_manager import GroupMetadataManager
from kafka_zk.broker.group.offset_manager import Codes, Committer, codes_of, to_completion
from kafka_zk.broker.group.offsets import Offsets
from kafka_zk.broker.group.offsets_batch import OffsetsBatch
from kafka_zk.broker.group.partitions import OFFSETS_TOPIC
from kafka_zk.broker.group.requests import UNKNOWN_MEMBER_ID
from kafka_zk.broker.group.transactional_offsets import Marker, Producer
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.replica.transaction_verification import TransactionToVerify
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.log.verification_state import VerificationStateEntry
from kafka_zk.storage.records.end_transaction_marker import MarkerBatch
from kafka_zk.storage.records.record_batch import NO_SEQUENCE

_NONE = ErrorCode.NONE
_NOT_VERIFIED = {**COORDINATOR_ERRORS, ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""Client errors if verification fails. Source: GroupMetadataManager.maybeConvertOffsetCommitError@3.9."""


class TransactionalCommits:
    def __init__(
        self, config: CoordinatorConfig, clock: Clock, replicas: ReplicaManager, manager: GroupMetadataManager
    ) -> None:
        self._replicas = replicas
        self._config = config
        self._clock = clock
        self._manager = manager

    async def commit(
        self, group_id: str, committer: Committer, transaction: TransactionToVerify, offsets: Offsets
    ) -> Codes:
        """Returns a code for each partition. Continues even if the client disconnects. Raises: ClientGone."""
        error = self._manager.refusal(group_id)
        guard = None
        if error is _NONE:
            self._manager.get_or_keep(group_id)
            guard, error = await self._verified(self._manager.partition_for(group_id), transaction)
        if error is _NONE:
            error = self._manager.refusal(group_id)  # the group may have changed
        if error is _NONE and not self._manager.has_room_for(group_id, offsets):
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if error is not _NONE:
            return dict.fromkeys(offsets, error)
        producer = Producer(transaction.producer_id, transaction.producer_epoch)
        live = self._manager.get_or_keep(group_id)
        batch = OffsetsBatch(group_id, self._clock.wall_ms(), self._config.metadata_max_bytes)
        error = live.group.commit_refusal(*committer, transactional=True)
        if error is _NONE:
            batch.add(offsets.items())
            if committer.member_id != UNKNOWN_MEMBER_ID:
                live.group.extend_session(committer.member_id, now_of(self._clock))
            if batch.offsets:
                error = await to_completion(group_id, self._store(live, producer, batch, guard))
        live.carry_out([])  # updates the count of offsets
        return codes_of(offsets, batch, error) if error is _NONE or batch.offsets else dict.fromkeys(offsets, error)

    async def _verified(
        self, partition: int, transaction: TransactionToVerify
    ) -> tuple[VerificationStateEntry | None, ErrorCode]:
        """Verify that the partition is in the transaction (KIP-890). Returns the guard, if any, and the error."""
        if self._replicas.verification is None:
            return None, _NONE
        tp = TopicPartition(OFFSETS_TOPIC, partition)
        verified = await self._replicas.verification.verify(transaction, {tp: NO_SEQUENCE})
        if verified is None:
            return None, _NONE
        error = verified.refused.get(tp, _NONE)
        return verified.guards.get(tp), _NOT_VERIFIED.get(error, error)

    async def _store(
        self, live: LiveGroup, producer: Producer, batch: OffsetsBatch, guard: VerificationStateEntry | None
    ) -> ErrorCode:
        offsets, producer_id = live.group.offsets, producer.producer_id
        offsets.begin_in_transaction(producer_id, batch.offsets)
        self._manager.open_transactions.add(live.partition, live.group.group_id, [producer_id])
        written: OffsetsWritten | Awaitable[OffsetsWritten]
        written = self._manager.appends.store_offsets(live.partition, batch, producer, guard)
        if not isinstance(written, OffsetsWritten):
            written = await written
        if written.error is _NONE:
            offsets.written_in_transaction(producer_id, batch.offsets, written.record_offset)
        else:
            offsets.failed_in_transaction(producer_id, batch.offsets)
        self._manager.transaction_changed(live.partition, live.group.group_id, producer_id)
        return written.error

    def markers_written(self, tp: TopicPartition, first_offset: int, markers: Sequence[MarkerBatch]) -> None:
        """Handle markers that are on all in-sync replicas, the first at ``first_offset``: offsets take effect or are
        dropped. Repeated calls have no effect."""
        if tp.topic == OFFSETS_TOPIC:
            for offset, (_, header, marker) in enumerate(markers, first_offset):
                self._manager.transaction_ended(
                    tp.partition, header.producer_id, Marker(offset, is_committed=not marker.is_abort)
                )
