"""The controller's requests to brokers, in order."""

from kafka_zk.protocol.api_keys import ApiKey
from tests.kafka_zk.broker.controller.world import Cluster


def told(cluster: Cluster, broker_id: int, topic: str = "t") -> list[tuple[str, object]]:
    """Each request to a broker: its name, and its contents for partition 0 of the topic."""
    said: list[tuple[str, object]] = []
    for api, request in cluster.brokers[broker_id].requests:
        states = [s for t in request.topic_states if t.topic_name == topic for s in t.partition_states]
        about = next((state for state in states if state.partition_index == 0), None)
        if api is ApiKey.STOP_REPLICA:
            said.append((api.name, about and (about.leader_epoch, about.delete_partition)))
        else:
            said.append((api.name, about and (about.leader, about.leader_epoch, about.isr)))
    return said


def forget(cluster: Cluster) -> None:
    for broker in cluster.brokers:
        broker.requests.clear()


def test_transcript_of_a_creation(cluster: Cluster) -> None:
    forget(cluster)
    cluster.create("t", {0: [1, 2]})
    cluster.settle()
    assert told(cluster, 0) == [("UPDATE_METADATA", (1, 0, [1, 2]))]
    assert told(cluster, 1) == [("LEADER_AND_ISR", (1, 0, [1, 2])), ("UPDATE_METADATA", (1, 0, [1, 2]))]


def test_transcript_of_a_broker_failure(cluster: Cluster) -> None:
    """There is one election and one new leader epoch; the same write removes the dead replica from the ISR."""
    cluster.create("t", {0: [2, 1]})
    cluster.settle()
    forget(cluster)
    cluster.kill(2)
    cluster.settle(10_000)
    assert told(cluster, 1) == [("LEADER_AND_ISR", (1, 1, [1])), ("UPDATE_METADATA", (1, 1, [1]))]


def test_transcript_of_a_failover_with_a_dead_leader(cluster: Cluster) -> None:
    """The live brokers come first, then the leader, whose election also removes the dead replica from the ISR."""
    cluster.create("t", {0: [0, 1, 2]})
    cluster.settle()
    forget(cluster)
    cluster.kill(0)
    cluster.settle(10_000)
    active = cluster.active[0].broker_id
    assert told(cluster, active) == [
        ("UPDATE_METADATA", None),
        ("LEADER_AND_ISR", (1, 1, [1, 2])),
        ("UPDATE_METADATA", (1, 1, [1, 2])),
    ]


def test_transcript_of_a_deletion(cluster: Cluster) -> None:
    cluster.create("t", {0: [1]})
    cluster.settle()
    forget(cluster)
    cluster.delete("t")
    cluster.settle()
    assert told(cluster, 0) == [("UPDATE_METADATA", (-2, 0, [1]))]
    assert told(cluster, 1) == [
        ("UPDATE_METADATA", (-2, 0, [1])),
        ("STOP_REPLICA", (-2, True)),
    ]
