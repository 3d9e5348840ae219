"""The states of a producer's transactions, and the effect of the coordinator's responses. Pure.

============  =========================================================================================================
state         meaning
============  =========================================================================================================
Uninitialized the producer has no id yet, or ACLs refused it one
Initializing  the id is requested from the coordinator
Ready         no transaction
InTransaction records may be sent; a partition is added to the transaction before its first batch is sent
Prepared      everything was sent; another program sends EndTxn, unless this one aborts
Committing    everything was sent; EndTxn is requested
Aborting      unsent records are dropped; EndTxn is requested
Abortable     a request or a batch failed: only an abort is possible
Fatal         the producer is unusable
============  =========================================================================================================

Source: KIP-98, KIP-360; TransactionManager.java@3.9.
"""

import enum
from collections.abc import Iterable

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.producer.errors import (
    IllegalTransactionState,
    ProducerFenced,
    TransactionAbortable,
    TransactionFatal,
)
from kafka_zk.protocol.errors import ErrorCode


class State(enum.Enum):
    """See the module docstring. The values are Kafka's names, except Prepared, which Kafka 3.9 lacks."""

    UNINITIALIZED = "UNINITIALIZED"
    INITIALIZING = "INITIALIZING"
    READY = "READY"
    IN_TRANSACTION = "IN_TRANSACTION"
    PREPARED = "PREPARED_TRANSACTION"
    COMMITTING = "COMMITTING_TRANSACTION"
    ABORTING = "ABORTING_TRANSACTION"
    ABORTABLE = "ABORTABLE_ERROR"
    FATAL = "FATAL_ERROR"


FOLLOWING: dict[State, frozenset[State]] = {
    State.UNINITIALIZED: frozenset({State.INITIALIZING, State.FATAL}),
    State.INITIALIZING: frozenset({State.READY, State.UNINITIALIZED, State.FATAL}),
    State.READY: frozenset({State.IN_TRANSACTION, State.FATAL}),
    State.IN_TRANSACTION: frozenset({State.PREPARED, State.COMMITTING, State.ABORTING, State.ABORTABLE, State.FATAL}),
    State.PREPARED: frozenset({State.ABORTING, State.FATAL}),
    State.COMMITTING: frozenset({State.READY, State.ABORTABLE, State.UNINITIALIZED, State.FATAL}),
    State.ABORTING: frozenset({State.READY, State.UNINITIALIZED, State.FATAL}),
    State.ABORTABLE: frozenset({State.ABORTING, State.FATAL}),
    State.FATAL: frozenset(),
}


class Outcome(enum.Enum):
    RETRY = "ask again after a pause"
    FIND_AND_RETRY = "look for the coordinator, and ask again"
    ABORTABLE = "the transaction can only be aborted"
    BUMP = "the transaction can only be aborted, and then the producer needs a new epoch"
    FENCED = "another producer has the transactional id"
    FATAL = "this producer can do nothing more"


_OUTCOMES = {
    ErrorCode.NOT_COORDINATOR: Outcome.FIND_AND_RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Outcome.FIND_AND_RETRY,
    ErrorCode.REQUEST_TIMED_OUT: Outcome.FIND_AND_RETRY,
    ErrorCode.CONCURRENT_TRANSACTIONS: Outcome.RETRY,
    ErrorCode.INVALID_PRODUCER_EPOCH: Outcome.FENCED,
    ErrorCode.PRODUCER_FENCED: Outcome.FENCED,
    ErrorCode.UNKNOWN_PRODUCER_ID: Outcome.BUMP,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Outcome.BUMP,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Outcome.ABORTABLE,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Outcome.ABORTABLE,
    ErrorCode.TRANSACTION_ABORTABLE: Outcome.ABORTABLE,
    ErrorCode.FENCED_INSTANCE_ID: Outcome.ABORTABLE,
    ErrorCode.UNKNOWN_MEMBER_ID: Outcome.ABORTABLE,
    ErrorCode.ILLEGAL_GENERATION: Outcome.ABORTABLE,
    ErrorCode.OFFSET_METADATA_TOO_LARGE: Outcome.ABORTABLE,
}


def outcome_of(code: ErrorCode) -> Outcome:
    """A code has the same meaning for all transaction requests."""
    if code in _OUTCOMES:
        return _OUTCOMES[code]
    return Outcome.RETRY if code.retriable else Outcome.FATAL


ID_REFUSALS = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})

_FATAL_WHEN_PRODUCING = frozenset({*ID_REFUSALS, ErrorCode.UNSUPPORTED_VERSION})


class TransactionState:
    def __init__(self) -> None:
        self.state = State.UNINITIALIZED
        self.error: KafkaError | None = None
        self.needs_epoch_bump = False
        self.begun_count = 0
        self._new: set[TopicPartition] = set()
        self._asked: set[TopicPartition] = set()
        self._added: set[TopicPartition] = set()
        self._has_offsets = False
        self._unconfirmed_offsets: set[tuple[str, TopicPartition]] = set()  # requested, not stored
        self._has_added = False

    # -- the program's calls ------------------------------------------------------------------------------------------

    def begin_initialization(self) -> None:
        """Raises IllegalTransactionState on the second call, or the fatal error."""
        if self.state is not State.UNINITIALIZED:
            raise self.error or IllegalTransactionState("init_transactions was already called")
        self.error = None
        self._go(State.INITIALIZING)

    def initialization_failed(self) -> None:
        if self.state is State.INITIALIZING:
            self._go(State.UNINITIALIZED)

    def initialized(self) -> None:
        self._go(State.READY)

    def begin(self) -> None:
        """Raises IllegalTransactionState or the error that caused the current state."""
        if self.state is not State.READY:
            raise self.error or IllegalTransactionState(self.refusal)
        self.begun_count += 1
        self._go(State.IN_TRANSACTION)

    def prepare(self) -> None:
        """Does nothing if the transaction is empty. Raises what ``begin_commit`` raises."""
        self._check_complete()
        if self.has_something:
            self._go(State.PREPARED)

    def begin_commit(self) -> None:
        """Raises IllegalTransactionState or the error that caused the current state; TransactionAbortable if offsets of
        the transaction are not stored.
        """
        self._check_complete()
        self._go(State.COMMITTING)

    def begin_abort(self) -> None:
        """Raises IllegalTransactionState or the fatal error."""
        if self.state not in (State.IN_TRANSACTION, State.PREPARED, State.ABORTABLE):
            fatal = self.error if self.state is State.FATAL else None
            raise fatal or IllegalTransactionState(self.refusal)
        self.error = None
        self._new.clear()
        self._go(State.ABORTING)

    def ended(self) -> None:
        """The coordinator has committed or aborted the transaction, or did not know it."""
        self._go(State.READY)
        self._forget_transaction()

    def _forget_transaction(self) -> None:
        for each in (self._new, self._asked, self._added, self._unconfirmed_offsets):
            each.clear()
        self._has_offsets = self._has_added = False

    def check_in_transaction(self) -> None:
        """Raises IllegalTransactionState or the error that caused the current state."""
        if self.state is not State.IN_TRANSACTION:
            raise self.error or IllegalTransactionState(self.refusal)

    def _check_complete(self) -> None:
        self.check_in_transaction()
        if self._unconfirmed_offsets:
            groups = ", ".join(sorted({group_id for group_id, _ in self._unconfirmed_offsets}))
            self.fail(Outcome.ABORTABLE, KafkaError(f"offsets of {groups} were not added to the transaction"))
            self.check_in_transaction()

    @property
    def refusal(self) -> str:
        return {
            State.UNINITIALIZED: "call init_transactions first",
            State.INITIALIZING: "init_transactions is in progress",
            State.READY: "no transaction has begun: call begin_transaction, or send inside of `with transaction():`",
            State.IN_TRANSACTION: "a transaction has already begun",
            State.PREPARED: "the transaction is prepared: nothing can be added to it, and another program commits it",
            State.COMMITTING: "the transaction is being committed; call commit_transaction again to wait for it",
            State.ABORTING: "the transaction is being aborted; call abort_transaction again to wait for it",
        }.get(self.state, "the transaction has failed: call abort_transaction")

    # -- partitions ---------------------------------------------------------------------------------------------------

    def may_send(self, tp: TopicPartition, *, is_retry: bool) -> bool:
        """True if a batch may be sent; if only its partition is missing in the transaction, the partition is added.

        Retries continue even after the transaction has failed: their sequences must not be missing in the log.
        """
        if self.state in (State.IN_TRANSACTION, State.COMMITTING):
            if tp not in self._added and tp not in self._asked:
                self._new.add(tp)
            return tp in self._added
        return is_retry and self.state is not State.FATAL

    def take_new(self) -> list[TopicPartition]:
        """The partitions to add, sorted; empty while a request is in flight, so that the next request adds many."""
        if self._asked or not self._new:
            return []
        self._asked, self._new = self._new, set()
        return sorted(self._asked)

    def added(self, tps: Iterable[TopicPartition]) -> None:
        self._added.update(tps)
        self._asked.difference_update(tps)
        self._has_added = True

    def offsets_asked(self, group_id: str, tps: Iterable[TopicPartition]) -> None:
        self._has_offsets = True
        self._unconfirmed_offsets.update((group_id, tp) for tp in tps)

    def group_added(self) -> None:
        self._has_added = True

    def offsets_sent(self, group_id: str, tps: Iterable[TopicPartition]) -> None:
        self._unconfirmed_offsets.difference_update((group_id, tp) for tp in tps)

    @property
    def has_something(self) -> bool:
        """True if EndTxn is needed: the coordinator may know the transaction."""
        return bool(self._added or self._asked or self._has_offsets)

    @property
    def is_known(self) -> bool:
        """True if the coordinator certainly knows the transaction, because it accepted a request of it."""
        return self._has_added

    # -- errors -------------------------------------------------------------------------------------------------------

    def batch_failed(self, error: KafkaError) -> None:
        """Records were not, or may not have been, written."""
        if error.code is ErrorCode.PRODUCER_FENCED:
            self.fail(Outcome.FENCED, error)
        elif error.code in _FATAL_WHEN_PRODUCING:
            self.fail(Outcome.FATAL, error)
        else:
            self.fail(Outcome.BUMP, error)  # the batch's sequences may be missing in the log

    def id_refused(self, error: KafkaError) -> None:
        """ACLs forbid a producer id or, after an abort, its new epoch: ``init_transactions`` may be called again.

        Source: TransactionManager.java#transitionToUninitialized@3.9 (KAFKA-13668).
        """
        if self.state is not State.FATAL:
            self.error = error
            self._go(State.UNINITIALIZED)
            self._forget_transaction()

    def fail(self, outcome: Outcome, error: KafkaError) -> None:
        if self.state is State.FATAL:
            return
        if outcome is Outcome.FENCED:
            self._fatal(ProducerFenced(f"another producer has this transactional.id now: {error}", error.code))
        elif outcome is Outcome.FATAL:
            self._fatal(TransactionFatal(str(error), error.code))
        else:
            self._abortable(error, needs_epoch_bump=outcome is Outcome.BUMP)

    def _fatal(self, error: KafkaError) -> None:
        self.error = error
        self._go(State.FATAL)

    def _abortable(self, error: KafkaError, *, needs_epoch_bump: bool) -> None:
        # A new epoch replaces the rejected abort.
        self.needs_epoch_bump |= needs_epoch_bump or self.state is State.ABORTING
        if self.state in (State.IN_TRANSACTION, State.COMMITTING):
            self.error = TransactionAbortable(str(error), error.code)
            self._go(State.ABORTABLE)
        elif self.state not in (State.ABORTABLE, State.ABORTING):  # there is nothing to abort
            self._fatal(TransactionFatal(str(error), error.code))

    def answer_lost(self) -> None:
        """The request may still arrive in a later transaction, which therefore needs another epoch (KAFKA-17754)."""
        self.needs_epoch_bump = True

    def epoch_bumped(self) -> None:
        self.needs_epoch_bump = False

    def _go(self, state: State) -> None:
        assert state in FOLLOWING[self.state], f"{self.state.value} is not followed by {state.value}"
        self.state = state
