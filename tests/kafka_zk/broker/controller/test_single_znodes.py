"""Single invalid znodes must not stop the controller for the whole cluster."""

import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from twisted.internet.defer import fail

from kafka_zk.registry.client.client import Create, Operation
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.client.kazoo_common import check_size
from kafka_zk.registry.client.pipeline import create_with_parents
from kafka_zk.registry.znodes import admin, isr, json_codec
from kafka_zk.registry.znodes.controller import CONTROLLER
from kafka_zk.registry.znodes.topics import state_path, topic_path
from kafka_zk.sim.zookeeper.client import SimClient
from tests.kafka_zk.broker.controller.world import Cluster, led_by


def put(cluster: Cluster, path: str, data: bytes) -> None:
    if cluster.zookeeper.tree.exists(path) is None:
        cluster.scheduler.run(create_with_parents(cluster.tool, Create(path, data)))
    else:
        cluster.set(path, data)


def fail_over(cluster: Cluster) -> None:
    cluster.scheduler.run(cluster.tool.delete(CONTROLLER))
    cluster.settle(20_000)


@pytest.mark.parametrize(
    "path",
    [
        f"{isr.ISR_CHANGES}/isr_change_0000000001/x",
        f"{isr.LOG_DIR_EVENTS}/log_dir_event_0000000001/x",
        f"{admin.DELETE_TOPICS}/unknown/x",
        f"{admin.PREFERRED_REPLICA_ELECTION}/x",
    ],
)
def test_a_znode_below_a_notification_or_order_keeps_nobody_from_being_the_controller(
    cluster: Cluster, path: str
) -> None:
    cluster.create("old", {0: [0, 1]})
    cluster.settle()
    put(cluster, path, b"")
    cluster.settle()
    fail_over(cluster)
    assert len(cluster.active) == 1
    cluster.create("later", {0: [2]})
    cluster.settle()
    assert led_by(cluster, "later") == {0: 2}


def test_a_znode_below_an_order_to_delete_stops_no_other_deletion(cluster: Cluster) -> None:
    cluster.create("a", {0: [0, 1]})
    cluster.create("b", {0: [0, 1]})
    cluster.settle()
    put(cluster, admin.delete_topic_path("a") + "/x", b"")
    cluster.settle(5000)
    cluster.delete("b")
    cluster.settle(5000)
    assert cluster.paths(topic_path("b")) == []


def test_a_partition_without_replicas_keeps_nobody_from_being_the_controller(cluster: Cluster) -> None:
    cluster.create("t", {0: [1], 1: [1]})
    cluster.settle()
    put(cluster, topic_path("t"), b'{"version":1,"partitions":{"0":[],"1":[1]}}')
    order = {"version": 1, "partitions": [{"topic": "t", "partition": 0}]}
    fail_over(cluster)
    put(cluster, admin.PREFERRED_REPLICA_ELECTION, json.dumps(order).encode())
    cluster.settle(1000)
    fail_over(cluster)
    assert len(cluster.active) == 1
    cluster.create("later", {0: [2]})
    cluster.settle()
    assert led_by(cluster, "later") == {0: 2}


def test_a_topic_znode_with_no_room_for_an_id_stops_no_other_topic(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Kazoo's clients refuse a request for which ZooKeeper would close the connection."""
    multi = SimClient.multi

    def limited(client: SimClient, operations: Sequence[Operation]) -> Any:
        try:
            check_size(operations)
        except RegistryError as error:
            return fail(error)
        return multi(client, operations)

    monkeypatch.setattr(SimClient, "multi", limited)
    data = {"version": 1, "partitions": {"0": [1]}, "pad": "x" * (0xFFFFF - 160)}
    put(cluster, topic_path("big"), json_codec.encode(data))
    cluster.settle()
    cluster.create("later", {0: [2]})
    cluster.settle()
    assert led_by(cluster, "later") == {0: 2}
    fail_over(cluster)
    assert len(cluster.active) == 1
    assert "big" in cluster.controller.context.topics and not cluster.controller.context.partitions_of("big")
    assert [r for r in caplog.records if r.levelno == logging.ERROR and topic_path("big") in r.getMessage()]


def test_a_state_that_an_acl_hides_keeps_nobody_from_being_the_controller(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A hidden state counts as one that cannot be decoded. Kafka's controller fails in this situation."""
    cluster.create("t", {0: [2, 1]})
    cluster.create("u", {0: [1, 2]})
    cluster.settle()
    hidden = state_path("t", 0)
    cluster.zookeeper.tree.hidden = {hidden}
    fail_over(cluster)
    assert len(cluster.active) == 1
    assert [r for r in caplog.records if r.levelno == logging.ERROR and hidden in r.getMessage()]
    assert led_by(cluster, "u") == {0: 1}
    cluster.zookeeper.tree.hidden.clear()
    state = cluster.state("t")
    assert state is not None and (state.leader, state.leader_epoch, state.isr) == (2, 0, [2, 1])
