"""A broker that came back, and responses that date from before its restart."""

from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.context import Replica
from kafka_zk.broker.controller.loop import Controller
from kafka_zk.broker.controller.states import ReplicaState
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.groups import delete_tree
from kafka_zk.registry.znodes.topics import topic_path
from tests.kafka_zk.broker.controller.test_alter_partition import propose
from tests.kafka_zk.broker.controller.world import TOPIC_ID, Cluster, led_by


def test_a_failed_disk_of_a_brokers_last_life_does_not_count_in_the_next(monkeypatch: Any) -> None:
    """The response is queued behind the notification that the broker is back."""
    cluster = Cluster(3)
    tp = TopicPartition("t", 0)
    cluster.create("t", {0: [1, 2]})
    cluster.settle()
    put = Controller._put
    held: list[Any] = []
    before = cluster.brokers[2].epoch

    def is_back() -> bool:
        stat = cluster.zookeeper.tree.exists("/brokers/ids/2")
        return stat is not None and stat.czxid > before

    def delayed(self: Controller, event: Any) -> None:
        if event.name == "LeaderAndIsr answered by 2" and not is_back():
            held.append(event)
            return
        put(self, event)
        if event.name == "broker change" and is_back():
            while held:
                put(self, held.pop())

    monkeypatch.setattr(Controller, "_put", delayed)
    cluster.brokers[2].refusals[tp] = ErrorCode.KAFKA_STORAGE_ERROR
    cluster.kill(1)  # a LeaderAndIsr to broker 2 follows, which refuses it
    cluster.settle(10_000)
    assert len(held) == 1
    cluster.kill(2)
    broker = cluster.restart(2)
    cluster.settle(10_000)
    assert not held
    context = cluster.controller.context
    assert context.replica_state(Replica(tp, 2)) is ReplicaState.ONLINE
    assert tp in broker.replicas


def test_topics_with_the_same_id_do_not_share_their_isrs() -> None:
    """A topic's znode was copied, so the id is ambiguous: the leader of one must not change the ISR of the other."""
    cluster = Cluster(3)
    cluster.create("t", {0: [0, 1, 2]})
    cluster.create("u", {0: [0, 1, 2]}, TOPIC_ID)
    cluster.settle()
    propose(cluster, [0, 1])  # for t, by its id
    cluster.settle()
    assert [state.isr for state in (cluster.state("t"), cluster.state("u")) if state] == [[0, 1, 2]] * 2


def test_a_failed_disk_under_a_topic_that_is_gone_does_not_count_for_the_next_of_its_name(monkeypatch: Any) -> None:
    """The old topic's znodes are deleted by hand before the response is handled."""
    cluster = Cluster(3)
    put, held, holds = Controller._put, [], True

    def delayed(self: Controller, event: Any) -> None:
        if event.name == "LeaderAndIsr answered by 1" and holds:
            held.append(event)
        else:
            put(self, event)

    monkeypatch.setattr(Controller, "_put", delayed)
    cluster.brokers[1].refusals[TopicPartition("t", 0)] = ErrorCode.KAFKA_STORAGE_ERROR
    cluster.create("t", {0: [1, 2]})
    cluster.settle()
    cluster.scheduler.run(delete_tree(cluster.tool, topic_path("t")))
    cluster.settle()
    holds = False
    for event in held:
        put(cluster.controller, event)
    cluster.brokers[1].refusals.clear()
    cluster.brokers[1].replicas.clear()
    cluster.brokers[2].replicas.clear()
    cluster.create("t", {0: [1, 2]})
    cluster.settle(30_000)
    assert led_by(cluster, "t") == {0: 1}
