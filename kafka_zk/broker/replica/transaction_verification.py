"""Before a transaction's first batch is appended, the coordinator must confirm that the transaction includes the
partition (KIP-890). Otherwise the partition might never get the transaction's marker.

Source: ReplicaManager.maybeStartTransactionVerificationForPartitions and handleProduceAppend@3.9.
Tests: tests/kafka_zk/broker/handlers/transactions/test_transactions_in_logs.py.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from kafka_zk.base.types import TopicPartition, new_tuple
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.verification_state import VerificationStateEntry

_RETRIED_AS_NOT_ENOUGH_REPLICAS = frozenset((
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
))
"""Errors returned as NOT_ENOUGH_REPLICAS, which old producers retry without refreshing metadata."""


class TransactionToVerify(NamedTuple):
    """``knows_abortable``: the client knows TRANSACTION_ABORTABLE."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    knows_abortable: bool = False


RefusedPartitions: TypeAlias = dict[TopicPartition, ErrorCode]
Ask = Callable[[TransactionToVerify, Sequence[TopicPartition]], RefusedPartitions | Awaitable[RefusedPartitions]]
"""Returns the partitions outside the transaction, with the reason. Await the result if another broker is asked. Never
raises."""


class Verified(NamedTuple):
    """``guards``: by partition, for ``Log.append_as_leader``; a partition whose transaction is already open in the log
    needs none and is absent. ``refused``: the partitions that must not be written, with the error."""

    guards: Mapping[TopicPartition, VerificationStateEntry]
    refused: RefusedPartitions


class TransactionVerification:
    """Runs the verifications of a broker.

    Args:
        leader_log: returns the log of a partition that this broker leads; raises ApiError for any other partition.
        is_enabled: ``transaction.partition.verification.enable``, which may change.
    """

    def __init__(
        self,
        leader_log: Callable[[TopicPartition], Log],
        is_enabled: Callable[[], bool],
        ask: Ask,
        wall_ms: Callable[[], int],
    ) -> None:
        self._leader_log = leader_log
        self._wall_ms = wall_ms
        self._is_enabled = is_enabled
        self._ask = ask

    async def verify(
        self, transaction: TransactionToVerify, sequences: Mapping[TopicPartition, int]
    ) -> Verified | None:
        """Verify the first batch of each partition; ``sequences``: the batch's first sequence number. Returns None if
        verification is disabled."""
        if not self._is_enabled():
            return None
        guards: dict[TopicPartition, VerificationStateEntry] = {}
        refused: RefusedPartitions = {}
        now_ms = self._wall_ms()
        _, producer_id, producer_epoch, _ = transaction
        for tp, sequence in sequences.items():
            try:
                guard = self._leader_log(tp).producers.begin_verification(
                    producer_id, sequence, producer_epoch, now_ms
                )
            except ApiError as error:
                refused[tp] = error.code
                continue
            if guard is not None:
                guards[tp] = guard
        if guards:
            found = self._ask(transaction, list(guards))
            refused |= found if isinstance(found, dict) else await found
        return new_tuple(Verified, (guards, refused))


def refusal(code: ErrorCode) -> ApiError:
    """The error for a producer whose batch was not verified."""
    if code is ErrorCode.INVALID_TXN_STATE:
        return ApiError(code, "Partition was not added to the transaction")
    if code in _RETRIED_AS_NOT_ENOUGH_REPLICAS:
        reason = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        return ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, reason)
    return ApiError(code)
