"""A KRaft controller takes over ``/controller``, as in Apache Kafka's migration from ZooKeeper. Our brokers then do not
compete for the election."""

from kafka_zk.registry.client.client import Create, Delete, Operation, SetData
from kafka_zk.registry.znodes import controller as znodes
from kafka_zk.registry.znodes.controller import CONTROLLER, CONTROLLER_EPOCH, ControllerClaim
from tests.kafka_zk.broker.controller.world import Cluster

KRAFT_NODE = 3000


def take_over(cluster: Cluster, node_id: int = KRAFT_NODE) -> None:
    """One multi raises the epoch, deletes the old claim, and creates a claim that outlives every session."""
    epoch = znodes.decode_epoch(cluster.zookeeper.tree.get(CONTROLLER_EPOCH)[0])
    claim = znodes.encode(ControllerClaim(node_id, 1, kraft_controller_epoch=1))
    operations: list[Operation] = [SetData(CONTROLLER_EPOCH, znodes.encode_epoch(epoch + 1)), Delete(CONTROLLER)]
    cluster.scheduler.run(cluster.tool.multi([*operations, Create(CONTROLLER, claim)]))


def test_nobody_is_the_controller_any_more_and_all_are_told_once(cluster: Cluster) -> None:
    take_over(cluster)
    cluster.settle(20_000)
    assert cluster.active == []
    assert [broker.controller.controller_id for broker in cluster.brokers] == [-1, -1, -1]
    assert all(broker.controller.is_kraft for broker in cluster.brokers)
    told = [[str(each) for each in broker.taken_over] for broker in cluster.brokers]
    assert [len(each) for each in told] == [1, 1, 1] and "KRaft controller 3000" in told[0][0]


def test_a_kraft_node_with_the_id_of_a_broker_is_not_that_broker(cluster: Cluster) -> None:
    take_over(cluster, node_id=0)
    cluster.settle()
    assert cluster.active == []
    assert [len(broker.taken_over) for broker in cluster.brokers] == [1, 1, 1]


def test_the_old_controller_writes_nothing_more(cluster: Cluster) -> None:
    """An administrator's request at that moment waits for the new controller."""
    cluster.scheduler.run(cluster.topics.create_topic("t", {0: [2, 1, 0]}, "A" * 21 + "Q", {}))
    take_over(cluster)
    left = cluster.state("t")
    cluster.kill(2)
    cluster.settle(20_000)
    assert cluster.state("t") == left


def test_a_broker_that_lost_its_session_meanwhile_is_told_too(cluster: Cluster) -> None:
    frozen = cluster.brokers[1]
    frozen.client.pause()
    cluster.settle(10_000)
    take_over(cluster)
    frozen.client.resume()
    cluster.settle(10_000)
    assert len(frozen.taken_over) == 1


def test_ours_are_controllers_again_when_the_migration_is_undone(cluster: Cluster) -> None:
    """Kafka's own rollback begins with the deletion of the znode."""
    take_over(cluster)
    cluster.settle()
    cluster.scheduler.run(cluster.tool.delete(CONTROLLER))
    cluster.settle()
    assert cluster.controller.controller_epoch == 3
    assert not any(broker.controller.is_kraft for broker in cluster.brokers)
