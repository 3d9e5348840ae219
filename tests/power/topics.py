"""The topics that a campaign writes to, and the brokers' configuration that makes logs roll, flush and clean
frequently.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.power.history import Keeps, Topic

FLUSHED = {"flush.messages": "1"}
LOOSE = {"flush.messages": str(2**63 - 1)}
"""A topic that is not flushed, whatever the broker's default."""
COMPACTED = {"cleanup.policy": "compact"}

TIMED, TRIMMED, CHANGED = "timed", "trimmed", "changed"
"""Topics with retention by time, with records deleted by DeleteRecords, and with a changing policy."""
MOVED, MOVED_COMPACTED, REASSIGNED, REASSIGNED_COMPACTED = (
    "moved", "moved-compacted", "reassigned", "reassigned-compacted",
)  # fmt: skip
"""Topics that move between log directories, and between brokers."""

GROUP, TRANSACTIONAL_GROUP, TRANSACTIONAL_ID = "group", "transactional-group", "transactional-id"

_SEGMENT_BYTES = "32768"
RETENTION_MS = 3_600_000

SINGLE = (
    Topic("flushed", durable=True, config=FLUSHED),
    Topic("flushed-compacted", Keeps.NEWEST, durable=True, config={**COMPACTED, **FLUSHED}),
    Topic("ordinary", config=LOOSE),
    Topic("compacted", Keeps.NEWEST, config={**COMPACTED, **LOOSE}),
    Topic("sized", Keeps.TAIL, config={"retention.bytes": "200000", **LOOSE}),
    Topic(TIMED, Keeps.TAIL, config={"retention.ms": str(RETENTION_MS), **LOOSE}),
    Topic(TRIMMED, Keeps.TAIL, config=LOOSE),
    Topic(MOVED, durable=True, config=FLUSHED),
    Topic(MOVED_COMPACTED, Keeps.NEWEST, config={**COMPACTED, **LOOSE}),
    Topic(CHANGED, Keeps.NEWEST, config={**COMPACTED, **LOOSE}),
    Topic("payments", durable=True, transactional=True, config=FLUSHED),
    Topic("orders", durable=True, transactional=True, config=FLUSHED),
)
"""For one broker: records count as durable once they are flushed."""

REPLICATED = (
    Topic("ordinary", durable=True),
    Topic("compacted", Keeps.NEWEST, durable=True, config=COMPACTED),
    Topic("sized", Keeps.TAIL, durable=True, config={"retention.bytes": "200000"}),
    Topic(TIMED, Keeps.TAIL, durable=True, config={"retention.ms": str(RETENTION_MS)}),
    Topic(TRIMMED, Keeps.TAIL, durable=True),
    Topic(MOVED_COMPACTED, Keeps.NEWEST, durable=True, config=COMPACTED),
    Topic(CHANGED, Keeps.NEWEST, durable=True, config=COMPACTED),
    Topic(REASSIGNED, durable=True),
    Topic(REASSIGNED_COMPACTED, Keeps.NEWEST, durable=True, config=COMPACTED),
    Topic("payments", durable=True, transactional=True),
    Topic("orders", durable=True, transactional=True),
)
"""For three brokers, acks=all, min.insync.replicas=2: no topic is flushed, and all are durable."""


def fresh(number: int) -> Topic:
    """A topic that is created while clients write to others."""
    return Topic(f"fresh-{number}", durable=True, config=FLUSHED)


def broker_properties(brokers: int, *, flushes: bool, checkpoint_interval_ms: int) -> Mapping[str, str]:
    """Kafka's keys for each broker. ``flushes``: internal topics are flushed with each append, as is every topic that
    does not say otherwise."""
    replicas, minimum = str(min(brokers, 3)), str(min(brokers, 2))
    return {
        "log.segment.bytes": _SEGMENT_BYTES,
        "offsets.topic.segment.bytes": _SEGMENT_BYTES,
        "transaction.state.log.segment.bytes": _SEGMENT_BYTES,
        "log.index.size.max.bytes": "65536",
        "log.cleaner.backoff.ms": "300",
        "log.cleaner.min.cleanable.ratio": "0.01",
        "log.cleaner.delete.retention.ms": "1000",
        "log.cleaner.dedupe.buffer.size": "8388608",
        "log.retention.check.interval.ms": "1000",
        "log.segment.delete.delay.ms": "1000",
        "log.flush.offset.checkpoint.interval.ms": str(checkpoint_interval_ms),
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": minimum,
        "min.insync.replicas": minimum,
        "default.replication.factor": replicas,
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
        "auto.leader.rebalance.enable": "false",
        "zookeeper.session.timeout.ms": "6000",
        "zookeeper.connection.timeout.ms": "60000",
        **({"log.flush.interval.messages": "1"} if flushes else {}),
    }
