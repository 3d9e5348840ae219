"""The table of states, compared with the validPreviousStates of Kafka's TransactionMetadata.scala."""

from kafka_zk.broker.transaction.states import STATES_BY_ID, TRANSITIONS, Event, TransactionState
from kafka_zk.protocol.errors import ErrorCode

PREVIOUS = {
    "Empty": {"Empty", "CompleteCommit", "CompleteAbort"},
    "Ongoing": {"Ongoing", "Empty", "CompleteCommit", "CompleteAbort"},
    "PrepareCommit": {"Ongoing"},
    "PrepareAbort": {"Ongoing", "PrepareEpochFence"},
    "CompleteCommit": {"PrepareCommit"},
    "CompleteAbort": {"PrepareAbort"},
    "Dead": {"Empty", "CompleteCommit", "CompleteAbort"},
    "PrepareEpochFence": {"Ongoing"},
}


def test_the_changes_are_kafkas() -> None:
    found: dict[str, set[str]] = {}
    for changes in TRANSITIONS.values():
        for before, after in changes.items():
            if isinstance(after, TransactionState):
                found.setdefault(after.value, set()).add(before.value)
    assert found == PREVIOUS


def test_producers_are_told_in_every_state_that_is_stored() -> None:
    """Every stored state has a result for each request of a client; while a transaction ends, producers must wait."""
    stored = set(STATES_BY_ID[:6])
    for event in (Event.INIT_PRODUCER_ID, Event.ADD_PARTITIONS, Event.COMMIT, Event.ABORT):
        assert set(TRANSITIONS[event]) == stored
    retried = {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}
    for event in (Event.INIT_PRODUCER_ID, Event.ADD_PARTITIONS):
        assert {state for state in stored if TRANSITIONS[event][state] is ErrorCode.CONCURRENT_TRANSACTIONS} == retried
