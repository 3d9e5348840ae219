"""Moves that an administrator writes into ZooKeeper (/admin/reassign_partitions)."""

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.store import ControllerStore, StoredOrders
from kafka_zk.registry.znodes import admin
from tests.kafka_zk.broker.controller.reassigning import TP, alter, moved, moving, state, stored
from tests.kafka_zk.broker.controller.test_alter_partition import propose
from tests.kafka_zk.broker.controller.test_failures import check


def test_an_order_in_zookeeper_is_carried_out_and_goes() -> None:
    cluster = moved()
    order = admin.encode_reassignment({TP: [0, 1], TopicPartition("gone", 0): [1], TopicPartition("t", 9): []})
    cluster.scheduler.run(cluster.tool.create(admin.REASSIGN_PARTITIONS, order))
    cluster.settle()
    left, _ = cluster.zookeeper.tree.get(admin.REASSIGN_PARTITIONS)
    assert admin.decode_reassignment(left) == {TP: [0, 1]}
    assert state(cluster) == (2, [2, 1], 1)  # rewriting the order changes nothing
    propose(cluster, [2, 1, 0], broker_id=2)
    cluster.settle()
    assert cluster.paths(admin.REASSIGN_PARTITIONS) == []
    assert stored(cluster)["partitions"] == {"0": [0, 1]}
    cluster.scheduler.run(cluster.tool.create(admin.REASSIGN_PARTITIONS, admin.encode_reassignment({TP: [1, 0]})))
    cluster.settle()
    assert stored(cluster)["partitions"] == {"0": [1, 0]}
    assert cluster.paths(admin.REASSIGN_PARTITIONS) == []
    check(cluster)


def test_an_order_that_moves_nothing_goes_though_nobody_can_lead() -> None:
    """If such an order stayed, it would block every later one."""
    cluster = moved()
    cluster.kill(1)
    cluster.settle(10_000)
    cluster.kill(2)
    cluster.settle(10_000)
    assert state(cluster)[0] == -1
    cluster.scheduler.run(cluster.tool.create(admin.REASSIGN_PARTITIONS, admin.encode_reassignment({TP: [1, 2]})))
    cluster.settle()
    assert cluster.paths(admin.REASSIGN_PARTITIONS) == []
    assert stored(cluster)["partitions"] == {"0": [1, 2]}
    cluster.restart(2)
    cluster.settle()
    assert state(cluster)[:2] == (2, [2])
    cluster.restart(1)
    cluster.settle()
    check(cluster)


@pytest.mark.parametrize("first", [{TP: [2, 1]}, {TP: []}, {TP: [2, 1], TopicPartition("t", 9): [0]}])
def test_an_order_that_replaces_one_while_that_is_forgotten_is_carried_out(
    monkeypatch: pytest.MonkeyPatch, first: dict[TopicPartition, list[int]]
) -> None:
    """The controller has read an order that moves nothing or cannot be carried out, and is about to delete it."""
    cluster = moved()
    read = ControllerStore.reassignment_orders
    reads: list[StoredOrders] = []

    async def read_and_overtaken(store: ControllerStore) -> StoredOrders:
        reads.append(await read(store))
        if len(reads) == 2:
            await cluster.tool.set(admin.REASSIGN_PARTITIONS, admin.encode_reassignment({TP: [0, 1]}))
        return reads[-1]

    monkeypatch.setattr(ControllerStore, "reassignment_orders", read_and_overtaken)
    cluster.scheduler.run(cluster.tool.create(admin.REASSIGN_PARTITIONS, admin.encode_reassignment(first)))
    cluster.settle()
    assert len(reads) > 2 and reads[1].targets == first
    assert moving(cluster) == {0: ([0, 1, 2], [0], [2])}
    propose(cluster, [2, 1, 0], broker_id=2)
    cluster.settle()
    assert stored(cluster)["partitions"] == {"0": [0, 1]}
    assert cluster.paths(admin.REASSIGN_PARTITIONS) == []
    check(cluster)


def test_an_order_that_comes_while_a_move_over_the_wire_replaces_the_one_before_is_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = moved(4)
    cluster.scheduler.run(cluster.tool.create(admin.REASSIGN_PARTITIONS, admin.encode_reassignment({TP: [0, 1]})))
    cluster.settle()
    read = ControllerStore.reassignment_orders
    overtakes = [{TP: [3, 1]}]

    async def read_and_overtaken(store: ControllerStore) -> StoredOrders:
        orders = await read(store)
        if overtakes:
            await cluster.tool.set(admin.REASSIGN_PARTITIONS, admin.encode_reassignment(overtakes.pop()))
        return orders

    monkeypatch.setattr(ControllerStore, "reassignment_orders", read_and_overtaken)
    assert alter(cluster, {0: [2, 0]}) == {0: 0}
    cluster.settle()
    assert moving(cluster)[0][0][:2] == [3, 1]


def test_a_move_over_the_wire_replaces_the_order_in_zookeeper() -> None:
    cluster = moved(4)
    cluster.scheduler.run(cluster.tool.create(admin.REASSIGN_PARTITIONS, admin.encode_reassignment({TP: [0, 1]})))
    cluster.settle()
    assert alter(cluster, {0: [3, 1]}) == {0: 0}
    cluster.settle()
    assert cluster.paths(admin.REASSIGN_PARTITIONS) == []
    assert moving(cluster) == {0: ([3, 1, 2], [3], [2])}


def test_an_order_that_cannot_be_understood_harms_nothing() -> None:
    cluster = moved()
    cluster.scheduler.run(cluster.tool.create(admin.REASSIGN_PARTITIONS, b'{"partitions":[{"topic":1}]}'))
    cluster.settle()
    assert alter(cluster, {0: [1, 2]}) == {0: 0}
    cluster.settle()
    assert stored(cluster)["partitions"] == {"0": [1, 2]}
