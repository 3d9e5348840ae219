"""The phases of a migration to KRaft, derived from transactions."""

from kafka_zk.recorder.timeline.migration_phases import MigrationPhases
from kafka_zk.recorder.timeline.outage_events import MigrationPhaseReached, OutageEvent
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, Deleted, Transaction
from tests.kafka_zk.recorder.outages import recorded


def _phases(events: list[OutageEvent]) -> list[str]:
    assert all(isinstance(each, MigrationPhaseReached) for each in events)
    return [each.phase for each in events if isinstance(each, MigrationPhaseReached)]


def test_a_real_broker_goes_to_kraft() -> None:
    """The log does not contain the end of the migration."""
    phases = MigrationPhases()
    events = [event for each in recorded("migration") for event in phases.step(each)]
    assert _phases(events) == ["waiting", "copying", "dual write", "brokers moved"]


def test_a_rollback_that_leaves_migration_behind_is_half_way() -> None:
    phases = MigrationPhases()
    transactions = [each for each in recorded("migration") if not each.time_ms > 1_795_998_136_000]
    copied = [event for each in transactions for event in phases.step(each)]
    claim = b'{"version":2,"brokerid":1,"timestamp":"1","kraftControllerEpoch":-1}'
    deleted = Transaction(9_000, 1, 5, (Deleted("/controller"),))
    elected = Transaction(9_001, 2, 5, (Created("/controller", claim, ephemeral=True),))
    undone = Transaction(9_002, 3, 5, (Deleted("/migration"),))
    back = [event for each in (deleted, elected, undone) for event in phases.step(each)]
    assert _phases(copied)[-1] == "dual write" and _phases(back) == ["rolled back half-way", "none"]


def test_brokers_that_leave_zookeeper_during_dual_write_are_moving() -> None:
    phases = MigrationPhases()
    for broker_id in (2, 3):
        phases.step(Transaction(broker_id, 1, 0x50 + broker_id, (Created(f"/brokers/ids/{broker_id}", b"", True),)))
    events = [event for each in recorded("migration") for event in phases.step(each)]
    assert _phases(events)[-2:] == ["dual write", "brokers moving"]
    assert "no longer in /brokers/ids: 1" in str(events[-1])


def test_data_that_are_not_understood_are_a_phase_too() -> None:
    phases = MigrationPhases()
    [event] = phases.step(Transaction(1, 1, 5, (Created("/migration", b"", ephemeral=False),)))
    assert _phases([event]) == ["waiting"]


def test_a_broker_id_of_thousands_of_digits_is_none() -> None:
    assert MigrationPhases().step(Transaction(1, 1, 5, (Created(f"/brokers/ids/{'1' * 5_000}", b"", True),))) == []
