"""The thirty faults of the table: twelve kinds (``kafka_zk.embedded.faults``), varied by API, code and role.

``FAULTS`` is the whole table. A row says which client it hits, when it begins, and which findings it excuses: an error
that no client may retry must be refused, and a producer without idempotence may write twice after a lost answer.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.faults import FaultHandle

THROTTLE_MS = 300
HOUR_MS = 3_600_000


class Role(StrEnum):
    """The client that a fault hits. ``OFFSETS``: a transactional producer that also commits a group's offsets."""

    PLAIN = "plain"
    IDEMPOTENT = "idempotent"
    TRANSACTIONAL = "transactional"
    OFFSETS = "offsets"
    MEMBER = "member"


class When(StrEnum):
    """The fault begins before the client starts, during its work, or before another member of its group starts."""

    BEFORE = "before"
    DURING = "during"
    REJOIN = "rejoin"


Begin = Callable[[EmbeddedCluster, str], FaultHandle]
"""``name`` is the name of the topic, the group, the transactional id and the client id."""


class Fault(NamedTuple):
    """``excuses``: findings of the verdict that are not objections."""

    name: str
    role: Role
    when: When
    begin: Begin
    excuses: frozenset[str] = frozenset()


def error(api: str, code: str, times: int = 1) -> Begin:
    return lambda cluster, name: cluster.faults.error(api, code, times, client_id=name)


def drop_answer(api: str, nth: int = 1) -> Begin:
    return lambda cluster, name: cluster.faults.drop_answer(api, nth, client_id=name)


def throttle(api: str) -> Begin:
    return lambda cluster, name: cluster.faults.throttle(THROTTLE_MS, api=api, client_id=name)


def slow_fetch(cluster: EmbeddedCluster, name: str) -> FaultHandle:
    return cluster.faults.slow_fetch(THROTTLE_MS, client_id=name)


def leader_moves(cluster: EmbeddedCluster, name: str) -> FaultHandle:
    return cluster.faults.leader_moves(name)


def coordinator_moves(cluster: EmbeddedCluster, name: str) -> FaultHandle:
    return cluster.faults.coordinator_moves(name)


def rebalance_amid_commit(cluster: EmbeddedCluster, name: str) -> FaultHandle:
    return cluster.faults.rebalance_amid_commit(name)


def fence(cluster: EmbeddedCluster, name: str) -> FaultHandle:
    return cluster.faults.fence(name)


def out_of_order_sequence(cluster: EmbeddedCluster, name: str) -> FaultHandle:
    return cluster.faults.out_of_order_sequence(client_id=name)


def expire_session(cluster: EmbeddedCluster, name: str) -> FaultHandle:
    return cluster.faults.expire_session(leader(cluster, name))


def disk_full(cluster: EmbeddedCluster, name: str) -> FaultHandle:
    return cluster.faults.disk_full(leader(cluster, name))


def clock_step(step_ms: int) -> Begin:
    return lambda cluster, name: cluster.faults.clock_step(step_ms)


def leader(cluster: EmbeddedCluster, topic: str) -> int:
    with BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        [partition] = admin.describe_topics([topic])[topic].partitions
    return partition.leader


_REFUSED = frozenset({"refused"})
_DOUBLED = frozenset({"doubled"})
_REPLACED = frozenset({"refused", "replaced"})

_PLAIN, _IDEMPOTENT, _MEMBER = Role.PLAIN, Role.IDEMPOTENT, Role.MEMBER
_TRANSACTIONAL, _OFFSETS = Role.TRANSACTIONAL, Role.OFFSETS
_BEFORE, _DURING, _REJOIN = When.BEFORE, When.DURING, When.REJOIN

FAULTS = tuple(
    Fault(*row)
    for row in (
        ("produce-not-leader", _PLAIN, _DURING, error("Produce", "NOT_LEADER_OR_FOLLOWER", 2)),
        ("produce-violates-policy", _PLAIN, _DURING, error("Produce", "POLICY_VIOLATION"), _REFUSED),
        ("produce-answer-lost", _PLAIN, _DURING, drop_answer("Produce"), _DOUBLED),
        ("produce-throttled", _PLAIN, _DURING, throttle("Produce")),
        ("leader-unknown", _PLAIN, _BEFORE, error("Metadata", "LEADER_NOT_AVAILABLE", 2)),
        ("clock-an-hour-back", _PLAIN, _DURING, clock_step(-HOUR_MS)),
        ("idempotent-answer-lost", _IDEMPOTENT, _DURING, drop_answer("Produce")),
        ("idempotent-third-answer-lost", _IDEMPOTENT, _DURING, drop_answer("Produce", 3)),
        ("idempotent-few-replicas", _IDEMPOTENT, _DURING, error("Produce", "NOT_ENOUGH_REPLICAS", 2)),
        ("idempotent-leader-moves", _IDEMPOTENT, _DURING, leader_moves),
        ("idempotent-out-of-order", _IDEMPOTENT, _DURING, out_of_order_sequence, _REPLACED),
        ("idempotent-disk-full", _IDEMPOTENT, _DURING, disk_full),
        ("idempotent-session-expired", _IDEMPOTENT, _DURING, expire_session),
        ("transaction-loading", _TRANSACTIONAL, _BEFORE, error("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS", 2)),
        ("transaction-concurrent", _TRANSACTIONAL, _DURING, error("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS", 3)),
        ("transaction-end-answer-lost", _TRANSACTIONAL, _DURING, drop_answer("EndTxn")),
        ("transaction-end-not-coordinator", _TRANSACTIONAL, _DURING, error("EndTxn", "NOT_COORDINATOR")),
        ("transaction-fenced", _TRANSACTIONAL, _DURING, fence, _REPLACED),
        ("transaction-out-of-order", _TRANSACTIONAL, _DURING, out_of_order_sequence, _REPLACED),
        ("offsets-loading", _OFFSETS, _DURING, error("TxnOffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", 2)),
        ("offsets-answer-lost", _OFFSETS, _DURING, drop_answer("TxnOffsetCommit")),
        ("member-coordinator-moves", _MEMBER, _DURING, coordinator_moves),
        ("member-join-loading", _MEMBER, _BEFORE, error("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS", 2)),
        ("member-sync-rebalance", _MEMBER, _BEFORE, error("SyncGroup", "REBALANCE_IN_PROGRESS")),
        ("member-unknown-at-heartbeat", _MEMBER, _DURING, error("Heartbeat", "UNKNOWN_MEMBER_ID"), _REFUSED),
        ("member-removed-amid-commit", _MEMBER, _DURING, rebalance_amid_commit, _REFUSED),
        ("member-commit-answer-lost", _MEMBER, _DURING, drop_answer("OffsetCommit")),
        ("member-offsets-loading", _MEMBER, _REJOIN, error("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS", 2)),
        ("member-offset-out-of-range", _MEMBER, _DURING, error("Fetch", "OFFSET_OUT_OF_RANGE"), _DOUBLED),
        ("member-slow-fetch", _MEMBER, _DURING, slow_fetch),
    )
)
BY_NAME = {fault.name: fault for fault in FAULTS}
