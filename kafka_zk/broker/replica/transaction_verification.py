"""Before the first batch of a transaction is appended to a partition, its coordinator is asked whether it knows of that
(KIP-890): otherwise nobody would ever end it there.

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
"""Old producers retry that without asking for metadata, and do not know all of these."""


class TransactionToVerify(NamedTuple):
    """``knows_abortable``: the client understands TRANSACTION_ABORTABLE."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    knows_abortable: bool = False


Refused: TypeAlias = dict[TopicPartition, ErrorCode]
Ask = Callable[[TransactionToVerify, Sequence[TopicPartition]], Refused | Awaitable[Refused]]
"""Gives the partitions that the coordinator does not know to be in the transaction, with the reason; nothing to await
if it is this broker. Never fails."""


class Verified(NamedTuple):
    """``guards`` go with the appends; there is none for a transaction that is open already. What is in ``refused`` must
    not be appended."""

    guards: Mapping[TopicPartition, VerificationStateEntry]
    refused: Refused


class TransactionVerification:
    """See the module's text.

    Args:
        leader_log: the log of a partition that this broker leads; raises ApiError.
        is_enabled: ``transaction.partition.verification.enable``, which may change.
        ask: asks the coordinator.
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
        """What may be appended of batches that begin with these sequences; None if nothing has to be verified."""
        if not self._is_enabled():
            return None
        guards: dict[TopicPartition, VerificationStateEntry] = {}
        refused: Refused = {}
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
    """How a producer is told that its batch was not verified."""
    if code is ErrorCode.INVALID_TXN_STATE:
        return ApiError(code, "Partition was not added to the transaction")
    if code in _RETRIED_AS_NOT_ENOUGH_REPLICAS:
        reason = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        return ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, reason)
    return ApiError(code)
