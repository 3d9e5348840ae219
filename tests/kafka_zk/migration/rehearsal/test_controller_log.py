"""The decisive lines of a controller's log, as 3.9.1 writes them."""

import pytest

from kafka_zk.migration.rehearsal.controller_log import ControllerLog
from kafka_zk.migration.rehearsal.process_log import MOST_ERRORS

_AT = "2026-11-30 00:29:50,123"
_DRIVER = "[org.apache.kafka.metadata.migration.KRaftMigrationDriver] [KRaftMigrationDriver id=3000]"


def read(*lines: str) -> ControllerLog:
    log = ControllerLog()
    log.read(lines)
    return log


def test_the_phases() -> None:
    log = read(
        f"{_AT} INFO [org.apache.kafka.controller.QuorumController] Putting the controller into pre-migration mode.",
        f"{_AT} INFO {_DRIVER} Still waiting for ZK brokers [1, 2] to register with KRaft.",
    )
    assert log.waits_for.endswith("Still waiting for ZK brokers [1, 2] to register with KRaft.")
    log.read([f"{_AT} INFO {_DRIVER} Completed migration of metadata from ZooKeeper to KRaft. 33 records were made"])
    assert (log.is_waiting, log.copied_records, log.is_dual_write, log.waits_for) == (True, 33, False, "")
    log.read([
        f"{_AT} INFO {_DRIVER} Made the following ZK writes when reconciling with KRaft state: {{UpdateClientQuota=4}}",
        f"{_AT} INFO {_DRIVER} transitioning from KRAFT_CONTROLLER_TO_BROKER_COMM to DUAL_WRITE state",
    ])  # fmt: skip
    assert (log.writes, log.is_dual_write, log.is_finalized) == ("{UpdateClientQuota=4}", True, False)
    log.read([f"{_AT} INFO [x] Completing the ZK migration since this controller was configured with …"])
    assert log.is_finalized and log.errors == ()


@pytest.mark.parametrize(("found", "skips"), [("not done", False), ("done", True)])
def test_a_migration_that_is_left_over(found: str, skips: bool) -> None:
    assert read(f"{_AT} INFO {_DRIVER} Initial migration of ZK metadata is {found}.").skips_copy is skips


def test_a_sync_that_writes_nothing() -> None:
    line = f"{_AT} DEBUG {_DRIVER} Did not make any ZK writes when reconciling with KRaft state."
    assert read(line).writes == "none"


def test_an_error_has_its_cause_and_is_counted() -> None:
    error = [
        f"{_AT} ERROR [x.FaultHandler] Encountered fault: Unhandled error",
        "java.lang.IllegalStateException: Unexpected client quota",
        "\tat org.apache.kafka.X.y(X.java:1)",
        "Caused by: java.lang.NumberFormatException: x",
        f"{_AT} INFO [x] java.lang.IllegalStateException: not a part of the error",
        "java.lang.IllegalStateException: nor is this",
    ]
    chain = "java.lang.IllegalStateException: Unexpected client quota – Caused by: java.lang.NumberFormatException: x"
    expected = f"Encountered fault: Unhandled error – {chain}"
    assert read(*error).errors == (expected,)
    assert read(*error, *error).errors == (f"{expected} (2 times)",)


@pytest.mark.parametrize(
    "cause",
    [
        "java.lang.IllegalArgumentException: Credentials not valid: c2VjcmV0,more of c2VjcmV0",
        "java.lang.IllegalArgumentException: Credentials not valid: salt=c2VjcmV0,stored_key=c2VjcmV0,junk",
        "java.lang.IllegalStateException: Unexpected client quota configuration value: SCRAM-SHA-256 -> c2VjcmV0, x",
        "java.lang.RuntimeException: salt=c2VjcmV0==,stored_key=c2VjcmV0,server_key=c2VjcmV0,iterations=4096",
        "java.lang.RuntimeException: UserScramCredentialRecord(salt=[c2VjcmV0, 1], storedKey=[c2VjcmV0, 2], x=3)",
    ],
)
def test_no_credential_is_kept(cause: str) -> None:
    lines = f"{_AT} ERROR [x.FaultHandler] Encountered fault: {cause}", cause
    log = read(*lines, f"{_AT} INFO {_DRIVER} Still waiting for {cause}")
    assert "(hidden)" in log.errors[0] and log.waits_for
    assert "c2VjcmV0" not in f"{log.errors} {log.waits_for}"


def test_a_controller_that_is_not_elected_yet() -> None:
    cause = "java.util.concurrent.CompletionException: org.apache.kafka.common.errors.NotControllerException: none"
    assert read(f"{_AT} ERROR [x] Unexpected error handling request", cause).errors == ()


def test_a_thread_that_ends_with_its_broker() -> None:
    error = f"{_AT} ERROR [x] [RequestSendThread controllerId=3000] Controller 3000 fails to send a request to broker 1"
    assert read(error, "java.lang.InterruptedException").errors == ()


def test_a_controller_that_logs_without_end_costs_little() -> None:
    log = read(*(f"{_AT} ERROR [x] {'e' * 10_000} {number}" for number in range(3)))
    assert len(log.errors) == 1 and len(log.errors[0]) < 500
    assert len(read(*(f"{_AT} ERROR [x] {number}" for number in range(99))).errors) == MOST_ERRORS


def test_the_logs_of_all_controllers_are_one() -> None:
    error = (f"{_AT} ERROR [x] a fault",)
    copied = f"{_AT} INFO {_DRIVER} Completed migration of metadata from ZooKeeper to KRaft. 7 records"
    leader, follower = read(*error, copied), read(*error)
    found = ControllerLog()
    for each in (leader, follower):
        found.add(each)
    assert (found.copied_records, found.errors) == (7, ("a fault (2 times)",))
