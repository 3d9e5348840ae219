"""A transactional id's states and legal transitions.

Source: TransactionMetadata.scala, TransactionCoordinator.scala@3.9.
"""

from enum import Enum

from kafka_zk.protocol.errors import ErrorCode


class TransactionState(Enum):
    """Values are the state names in DescribeTransactions."""

    __hash__ = object.__hash__  # Enum.__hash__ is slow Python code, and these tables are used frequently

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


_S = TransactionState

STATES_BY_ID = (
    _S.EMPTY,
    _S.ONGOING,
    _S.PREPARE_COMMIT,
    _S.PREPARE_ABORT,
    _S.COMPLETE_COMMIT,
    _S.COMPLETE_ABORT,
    _S.DEAD,
    _S.PREPARE_EPOCH_FENCE,
)
"""States by their number in the records of ``__transaction_state``."""

STATES_BY_NAME = {state.value: state for state in TransactionState}


class Event(Enum):
    """Events of a transactional id."""

    __hash__ = object.__hash__

    INIT_PRODUCER_ID = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    COMMIT = "EndTxn(commit)"
    ABORT = "EndTxn(abort)"
    TIMED_OUT = "the transaction has lasted too long"
    FENCED = "its producer is fenced"
    MARKERS_WRITTEN = "all markers are written"
    EXPIRED = "the id has been unused for too long"


_RETRY = ErrorCode.CONCURRENT_TRANSACTIONS
_INVALID = ErrorCode.INVALID_TXN_STATE
_DONE = ErrorCode.NONE

TRANSITIONS: dict[Event, dict[TransactionState, TransactionState | ErrorCode]] = {
    Event.INIT_PRODUCER_ID: {
        _S.EMPTY: _S.EMPTY,
        _S.ONGOING: _S.PREPARE_EPOCH_FENCE,
        _S.PREPARE_COMMIT: _RETRY,
        _S.PREPARE_ABORT: _RETRY,
        _S.COMPLETE_COMMIT: _S.EMPTY,
        _S.COMPLETE_ABORT: _S.EMPTY,
    },
    Event.ADD_PARTITIONS: {
        _S.EMPTY: _S.ONGOING,
        _S.ONGOING: _S.ONGOING,
        _S.PREPARE_COMMIT: _RETRY,
        _S.PREPARE_ABORT: _RETRY,
        _S.COMPLETE_COMMIT: _S.ONGOING,
        _S.COMPLETE_ABORT: _S.ONGOING,
    },
    Event.COMMIT: {
        _S.EMPTY: _INVALID,
        _S.ONGOING: _S.PREPARE_COMMIT,
        _S.PREPARE_COMMIT: _RETRY,
        _S.PREPARE_ABORT: _INVALID,
        _S.COMPLETE_COMMIT: _DONE,
        _S.COMPLETE_ABORT: _INVALID,
    },
    Event.ABORT: {
        _S.EMPTY: _INVALID,
        _S.ONGOING: _S.PREPARE_ABORT,
        _S.PREPARE_COMMIT: _INVALID,
        _S.PREPARE_ABORT: _RETRY,
        _S.COMPLETE_COMMIT: _INVALID,
        _S.COMPLETE_ABORT: _DONE,
    },
    Event.TIMED_OUT: {_S.ONGOING: _S.PREPARE_EPOCH_FENCE},
    Event.FENCED: {_S.PREPARE_EPOCH_FENCE: _S.PREPARE_ABORT},
    Event.MARKERS_WRITTEN: {_S.PREPARE_COMMIT: _S.COMPLETE_COMMIT, _S.PREPARE_ABORT: _S.COMPLETE_ABORT},
    Event.EXPIRED: {_S.EMPTY: _S.DEAD, _S.COMPLETE_COMMIT: _S.DEAD, _S.COMPLETE_ABORT: _S.DEAD},
}
"""Event -> state before -> state after, or the sender's error. Events without a state have no effect. PrepareEpochFence
only leads to PrepareAbort, and is never stored."""
