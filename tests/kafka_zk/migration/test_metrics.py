"""A status as Prometheus reads it."""

import pytest
from prometheus_client import generate_latest

from kafka_zk.migration.facts import Fact, MigrationZnode
from kafka_zk.migration.metrics import StatusMetrics
from kafka_zk.migration.phase import status, unknown_status
from tests.kafka_zk.migration import recorded
from tests.kafka_zk.migration.recorded import REFUSED, brokers, dual_write, facts


def test_a_status() -> None:
    metrics = StatusMetrics()
    metrics.update(status(facts(brokers=brokers(recorded.KRAFT_MODE))), None, 0)
    cluster = dual_write(brokers=brokers(recorded.MIGRATION_MODE, REFUSED))
    metrics.update(status(cluster), cluster.zookeeper.migration, 1_795_737_658_000)
    text = generate_latest(metrics.registry).decode()
    for line in (
        'kafka_zk_migration_phase{phase="dual write"} 1.0',
        'kafka_zk_migration_phase{phase="waiting"} 0.0',
        'kafka_zk_migration_broker_mode{broker="1",mode="migration"} 1.0',
        'kafka_zk_migration_broker_mode{broker="2",mode="unknown"} 1.0',
        'kafka_zk_migration_safe{step="continue"} NaN',
        "kafka_zk_migration_confirmed NaN",
        "kafka_zk_migration_zookeeper_offset 131.0",
        "kafka_zk_migration_last_status_timestamp_seconds 1.795737658e+09",
    ):
        assert line in text.splitlines()
    assert "KRaft" not in text, "of the status before"


def test_a_cluster_that_cannot_be_examined() -> None:
    metrics = StatusMetrics()
    metrics.update(status(dual_write()), recorded.COPIED, 1_000)
    metrics.update(unknown_status(REFUSED), REFUSED, None)
    lines = generate_latest(metrics.registry).decode().splitlines()
    assert 'kafka_zk_migration_phase{phase="dual write"} NaN' in lines
    assert "kafka_zk_migration_last_status_timestamp_seconds 1.0" in lines


@pytest.mark.parametrize("znode", [None, REFUSED, MigrationZnode(None)])
def test_no_offset(znode: Fact[MigrationZnode | None]) -> None:
    metrics = StatusMetrics()
    metrics.update(status(facts({"controller": REFUSED})), znode, 0)
    text = generate_latest(metrics.registry).decode()
    assert "kafka_zk_migration_zookeeper_offset NaN" in text and 'safe{step="continue"} NaN' in text
