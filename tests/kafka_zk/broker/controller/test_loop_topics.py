"""The controller against the in-memory ZooKeeper: topics are created, grow and are deleted."""

import contextlib

import pytest
from twisted.internet.defer import ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.loop import ControllerConfig
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.client.client import Create
from kafka_zk.registry.client.errors import NodeExists
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.registry.znodes import admin
from kafka_zk.registry.znodes import topics as znodes
from tests.kafka_zk.broker.controller.world import Cluster, led_by


def test_a_new_topic_gets_leaders_and_everybody_hears_of_it(cluster: Cluster) -> None:
    cluster.create("t", {0: [0], 1: [1], 2: [2], 3: [1, 2, 0]})
    cluster.settle()
    assert led_by(cluster, "t") == {0: 0, 1: 1, 2: 2, 3: 1}
    assert [state and (state.leader, state.isr, state.leader_epoch) for state in cluster.states("t", range(4))] == [
        (0, [0], 0),
        (1, [1], 0),
        (2, [2], 0),
        (1, [1, 2, 0], 0),
    ]
    for broker in cluster.brokers:
        assert sorted(broker.metadata.topics["t"]) == [0, 1, 2, 3]
        assert broker.replicas[TopicPartition("t", 3)].is_new


def test_the_controllers_write_order_is_parents_first(cluster: Cluster) -> None:
    cluster.create("t", {0: [0]})
    cluster.settle()
    assert cluster.paths("/brokers/topics/t") == [
        "/brokers/topics/t",
        "/brokers/topics/t/partitions",
        "/brokers/topics/t/partitions/0",
        "/brokers/topics/t/partitions/0/state",
    ]


def test_a_topic_written_by_an_old_tool_gets_an_id(cluster: Cluster) -> None:
    cluster.scheduler.run(cluster.tool.create("/brokers/topics/old", b'{"version":1,"partitions":{"0":[1]}}'))
    cluster.settle()
    topic_id = cluster.assignment("old").topic_id
    assert topic_id is not None and cluster.controller.context.topic_ids["old"] == topic_id
    assert led_by(cluster, "old") == {0: 1}


def test_an_old_tools_rewrite_adds_partitions_and_keeps_the_topic_id(cluster: Cluster) -> None:
    cluster.create("t", {0: [0]})
    cluster.settle()
    before = cluster.assignment("t").topic_id
    cluster.set("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0],"1":[2]}}')
    cluster.settle()
    assert cluster.assignment("t") == znodes.TopicAssignment({0: [0], 1: [2]}, before)
    assert led_by(cluster, "t") == {0: 0, 1: 2}


def test_added_partitions_are_made_and_changed_replicas_ignored(cluster: Cluster) -> None:
    cluster.create("t", {0: [0]})
    cluster.settle()
    cluster.set("/brokers/topics/t", znodes.encode_assignment(znodes.TopicAssignment({0: [1], 1: [2]}, "x" * 22)))
    cluster.settle()
    assert led_by(cluster, "t") == {0: 0, 1: 2}
    assert cluster.controller.context.replicas(TopicPartition("t", 0)) == (0,)


def test_a_malformed_topic_harms_no_other(cluster: Cluster) -> None:
    cluster.scheduler.run(cluster.tool.create("/brokers/topics/bad", b"no json"))
    cluster.create("good", {0: [1]})
    cluster.settle()
    cluster.scheduler.run(cluster.brokers[0].controller.shutdown())
    cluster.settle()
    assert led_by(cluster, "good") == {0: 1}
    assert cluster.controller.context.partitions_of("bad") == []


def test_a_partition_without_live_replica_waits_for_its_broker() -> None:
    cluster = Cluster(3, start=False)
    for broker in cluster.brokers[:2]:
        cluster.scheduler.run(broker.start())
    cluster.create("t", {0: [2]})
    cluster.settle()
    assert cluster.state("t") is None
    cluster.scheduler.run(cluster.brokers[2].start())
    cluster.settle()
    assert led_by(cluster, "t") == {0: 2}


@pytest.mark.slow
def test_creation_takes_few_round_trips_and_few_requests(cluster: Cluster) -> None:
    """5,000 partitions take a few multis and three requests per broker, with no request per partition."""
    cluster.settle()
    for broker in cluster.brokers:
        broker.requests.clear()
    before = cluster.brokers[0].client.counts.copy()
    cluster.create("big", {partition: [partition % 3] for partition in range(5000)})
    cluster.scheduler.run_until(lambda: len(led_by(cluster, "big")) > 0)
    written = sum(path.endswith("/state") for path in cluster.paths("/brokers/topics/big/partitions"))
    assert 3000 <= written < 5000  # brokers create logs while ZooKeeper writes
    cluster.scheduler.run_until(lambda: len(led_by(cluster, "big")) == 5000)
    cluster.settle()
    spent = cluster.brokers[0].client.counts - before
    assert spent["multi"] < 30
    assert spent["get"] + spent["children"] + spent["exists"] < 20
    for broker in cluster.brokers:
        assert [api for api, _ in broker.requests] == [*(2 * [ApiKey.LEADER_AND_ISR]), ApiKey.UPDATE_METADATA]
        (updated,) = broker.requests[-1][1].topic_states
        assert len(updated.partition_states) == 5000  # no client sees an incomplete topic


def test_many_topics_are_made_portion_by_portion(cluster: Cluster) -> None:
    """1,200 topics come in two portions, neither of which occupies a broker for long, and in few multis."""
    cluster.settle()
    for broker in cluster.brokers:
        broker.requests.clear()
    before = cluster.brokers[0].client.counts.copy()
    assignments = {f"t{number}": znodes.TopicAssignment({0: [0]}, f"{number:021d}Q") for number in range(1200)}
    made = [Create(znodes.topic_path(name), znodes.encode_assignment(each)) for name, each in assignments.items()]
    cluster.scheduler.run(cluster.tool.multi(made))
    cluster.settle()
    leaders = {tp: state.leader for tp, state in cluster.brokers[0].replicas.items()}
    assert leaders == {TopicPartition(name, 0): 0 for name in assignments}
    assert all(broker.metadata.topics.keys() == assignments.keys() for broker in cluster.brokers)
    told = cluster.brokers[0].requests
    assert max(sum(len(topic.partition_states) for topic in request.topic_states) for _, request in told) <= 1000
    assert len(told) <= 8
    assert (cluster.brokers[0].client.counts - before)["multi"] < 30


def test_a_deleted_topic_leaves_nothing(cluster: Cluster) -> None:
    cluster.create("t", {0: [0, 1], 1: [2]})
    cluster.settle()
    cluster.delete("t")
    cluster.settle()
    assert cluster.paths("/brokers/topics/t") + cluster.paths("/config/topics/t") == []
    assert cluster.paths(admin.DELETE_TOPICS) == [admin.DELETE_TOPICS]
    assert all("t" not in broker.metadata.topics and not broker.replicas for broker in cluster.brokers)
    assert "t" not in cluster.controller.context.topics


def test_a_topic_can_be_made_again_under_its_name(cluster: Cluster) -> None:
    for _ in range(3):
        cluster.create("t", {0: [0, 1], 1: [2]})
        cluster.settle()
        assert led_by(cluster, "t") == {0: 0, 1: 2}
        cluster.delete("t")
        cluster.settle()
        assert led_by(cluster, "t") == {}


@pytest.mark.parametrize("seed", [7, 11, 15])  # the creation then falls between two writes of the controller
def test_a_topic_made_anew_at_once_keeps_its_configuration(seed: int) -> None:
    """A client that waits for the old topic to vanish may create the next one while the controller still cleans up."""
    cluster = Cluster(seed=seed)
    cluster.create("t", {0: [1]})
    cluster.settle()
    made: list[str] = []

    async def make_again() -> None:
        with contextlib.suppress(NodeExists):
            await cluster.topics.create_topic("t", {0: [2]}, None, {"retention.ms": "7"})
            made.append("t")

    for attempt in range(200):
        cluster.scheduler.clock.callLater(attempt / 5000, lambda: ensureDeferred(make_again()))
    cluster.scheduler.run(cluster.topics.request_deletion("t"))
    cluster.settle()
    assert made
    assert cluster.scheduler.run(ConfigRegistry(cluster.tool).entity("topics", "t")) == {"retention.ms": "7"}
    assert cluster.brokers[0].metadata.topics["t"][0].leader == 2


def test_deletion_waits_for_a_dead_replica(cluster: Cluster) -> None:
    cluster.create("t", {0: [1, 2]})
    cluster.settle()
    cluster.kill(2)
    cluster.settle(10_000)
    cluster.delete("t")
    cluster.settle()
    assert cluster.paths("/brokers/topics/t") != []
    cluster.restart(2)
    cluster.settle()
    assert cluster.paths("/brokers/topics/t") == []


def test_a_replica_that_cannot_be_deleted_is_tried_again_when_its_broker_is_back(cluster: Cluster) -> None:
    cluster.create("t", {0: [1]})
    cluster.settle()
    cluster.brokers[1].refusals[TopicPartition("t", 0)] = ErrorCode.KAFKA_STORAGE_ERROR
    cluster.delete("t")
    cluster.settle()
    assert cluster.paths("/brokers/topics/t") != []
    cluster.kill(1)
    cluster.settle(10_000)
    cluster.restart(1)
    cluster.settle()
    assert cluster.paths("/brokers/topics/t") == []


def test_orders_to_delete_unknown_topics_are_removed(cluster: Cluster) -> None:
    cluster.delete("nothing")
    cluster.settle()
    assert cluster.paths(admin.DELETE_TOPICS) == [admin.DELETE_TOPICS]


def test_with_deletion_disabled_orders_are_removed_and_topics_stay() -> None:
    cluster = Cluster(config=ControllerConfig(delete_topic_enable=False))
    cluster.create("t", {0: [0]})
    cluster.settle()
    cluster.delete("t")
    cluster.settle()
    assert cluster.paths(admin.DELETE_TOPICS) == [admin.DELETE_TOPICS]
    assert led_by(cluster, "t") == {0: 0}


def test_partitions_added_during_deletion_are_taken_back(cluster: Cluster) -> None:
    cluster.create("t", {0: [1, 2]})
    cluster.settle()
    cluster.kill(2)
    cluster.settle(10_000)
    cluster.delete("t")
    cluster.settle()
    cluster.set("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1,2],"1":[0]}}')
    cluster.settle()
    assert cluster.assignment("t").partitions == {0: [1, 2]}
    assert cluster.state("t", 1) is None


def test_znodes_of_others_below_a_topic_go_with_it(cluster: Cluster) -> None:
    cluster.create("t", {0: [0]})
    cluster.settle()
    cluster.scheduler.run(cluster.tool.create("/brokers/topics/t/partitions/0/state/stray"))
    cluster.delete("t")
    cluster.settle()
    assert cluster.paths("/brokers/topics/t") == []
