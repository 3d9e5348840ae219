"""The controller against the in-memory ZooKeeper: election, failover, topics, brokers, faults."""

import contextlib

import pytest
from twisted.internet.defer import ensureDeferred

from kafka_zk.controller import events
from kafka_zk.controller.loop import ControllerConfig
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from registry.client import Create
from registry.config import ConfigRegistry
from registry.errors import NodeExists
from registry.znodes import admin, feature, json_codec
from registry.znodes import topics as znodes
from storage.types import TopicPartition
from tests.kafka_zk.controller.world import Cluster


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def led_by(cluster: Cluster, topic: str) -> dict[int, int]:
    """Partition -> the broker that believes to lead it. Fails when two do."""
    leaders: dict[int, int] = {}
    for broker in cluster.brokers:
        for tp, state in broker.replicas.items():
            if broker.up and tp.topic == topic and state.leader == broker.broker_id:
                assert tp.partition not in leaders
                leaders[tp.partition] = broker.broker_id
    return leaders


# -- election --


def test_the_first_broker_becomes_the_controller_and_all_know(cluster: Cluster) -> None:
    assert [broker.controller.is_active for broker in cluster.brokers] == [True, False, False]
    assert [broker.controller.controller_id for broker in cluster.brokers] == [0, 0, 0]
    assert [broker.controller.controller_epoch for broker in cluster.brokers] == [1, -1, -1]
    assert [sorted(broker.metadata.brokers) for broker in cluster.brokers] == [[0, 1, 2]] * 3


def test_features_are_enabled_at_failover(cluster: Cluster) -> None:
    data, _ = cluster.zookeeper.tree.get(feature.FEATURE)
    assert feature.decode(data) == feature.FinalizedFeatures({}, feature.ENABLED)


def test_listeners_hear_of_every_controller() -> None:
    cluster = Cluster(start=False)
    heard: list[int] = []
    remove = cluster.brokers[1].controller.on_controller_change(heard.append)
    for broker in cluster.brokers:
        cluster.scheduler.run(broker.start())
    cluster.settle()
    assert heard == [0]
    cluster.zookeeper.expire(cluster.brokers[0].client)
    cluster.settle()
    remove()
    assert heard[:2] == [0, -1] and heard[-1] == cluster.active[0].broker_id


def test_shutdown_resigns_so_that_another_one_is_elected_at_once(cluster: Cluster) -> None:
    cluster.scheduler.run(cluster.brokers[0].controller.shutdown())
    cluster.settle(300)
    assert len(cluster.active) == 1 and cluster.active[0].broker_id != 0
    assert cluster.controller.controller_epoch == 2
    assert cluster.brokers[0].named(events.ControllerResigned)[0].cause == "shutdown"


def test_a_lost_session_ends_the_reign_at_once_and_the_broker_stands_again(cluster: Cluster) -> None:
    first = cluster.brokers[0]
    epoch = first.epoch
    cluster.zookeeper.expire(first.client)
    cluster.scheduler.run_until(lambda: not first.controller.is_active)
    assert first.controller.controller_id == -1
    cluster.settle()
    assert len(cluster.active) == 1
    assert first.epoch > epoch
    assert {b.controller.controller_id for b in cluster.brokers} == {cluster.active[0].broker_id}
    assert cluster.controller.context.brokers[0].epoch == first.epoch


def test_a_deleted_controller_znode_leads_to_a_new_election(cluster: Cluster) -> None:
    cluster.scheduler.run(cluster.tool.delete("/controller"))
    cluster.settle()
    assert len(cluster.active) == 1
    assert cluster.controller.controller_epoch == 2


# -- topics --


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


def test_creation_takes_few_round_trips_and_few_requests(cluster: Cluster) -> None:
    """5,000 partitions: some multis, three requests per broker, nothing per partition."""
    cluster.settle()
    for broker in cluster.brokers:
        broker.requests.clear()
    before = cluster.brokers[0].client.counts.copy()
    cluster.create("big", {partition: [partition % 3] for partition in range(5000)})
    cluster.scheduler.run_until(lambda: len(led_by(cluster, "big")) == 5000)
    cluster.settle()
    spent = cluster.brokers[0].client.counts - before
    assert spent["multi"] < 30
    assert spent["get"] + spent["children"] + spent["exists"] < 20
    for broker in cluster.brokers:
        assert [api for api, _ in broker.requests] == [*(2 * [ApiKey.LEADER_AND_ISR]), ApiKey.UPDATE_METADATA]
        (updated,) = broker.requests[-1][1].topic_states
        assert len(updated.partition_states) == 5000  # nobody sees a part of a topic


def test_many_topics_are_made_portion_by_portion(cluster: Cluster) -> None:
    """1,200 at once: two portions, neither of which keeps a broker long, and few multis."""
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


# -- deletion --


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


@pytest.mark.parametrize("seed", [7, 11, 15])  # with these the creation comes between two of the controller's writes
def test_a_topic_made_anew_at_once_keeps_its_configuration(seed: int) -> None:
    """Whoever waits for the old one to vanish may create the next while the controller still tidies up."""
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


# -- what brokers are told, in which order --


def told(cluster: Cluster, broker_id: int, topic: str = "t") -> list[tuple[str, object]]:
    """Each request to a broker: its name, and what it says of the topic's partition 0."""
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
    """One election, one bump; the dead replica left the ISR with it."""
    cluster.create("t", {0: [2, 1]})
    cluster.settle()
    forget(cluster)
    cluster.kill(2)
    cluster.settle(10_000)
    assert told(cluster, 1) == [
        ("LEADER_AND_ISR", (1, 1, [1])),
        ("UPDATE_METADATA", (1, 1, [1])),
        ("LEADER_AND_ISR", (1, 1, [1])),
        ("UPDATE_METADATA", (1, 1, [1])),
    ]


def test_transcript_of_a_failover_with_a_dead_leader(cluster: Cluster) -> None:
    """The brokers first, then replicas, then leaders: the epoch is bumped twice, as in Kafka."""
    cluster.create("t", {0: [0, 1, 2]})
    cluster.settle()
    forget(cluster)
    cluster.kill(0)
    cluster.settle(10_000)
    active = cluster.active[0].broker_id
    assert told(cluster, active) == [
        ("UPDATE_METADATA", None),
        ("LEADER_AND_ISR", (0, 0, [0, 1, 2])),
        ("UPDATE_METADATA", (0, 0, [0, 1, 2])),
        ("LEADER_AND_ISR", (-1, 1, [1, 2])),
        ("UPDATE_METADATA", (-1, 1, [1, 2])),
        ("LEADER_AND_ISR", (1, 2, [1, 2])),
        ("UPDATE_METADATA", (1, 2, [1, 2])),
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
        ("STOP_REPLICA", (-2, False)),
        ("STOP_REPLICA", (-2, True)),
    ]


# -- brokers --


def test_a_killed_leader_is_replaced_from_the_isr(cluster: Cluster) -> None:
    cluster.create("t", {0: [2, 1, 0]})
    cluster.settle()
    cluster.kill(2)
    cluster.settle(10_000)
    state = cluster.state("t")
    assert state is not None and (state.leader, state.isr, state.leader_epoch) == (1, [1, 0], 1)
    assert led_by(cluster, "t") == {0: 1}
    assert all(sorted(broker.metadata.brokers) == [0, 1] for broker in cluster.brokers[:2])


def test_the_only_replica_stays_in_the_isr_and_leads_again(cluster: Cluster) -> None:
    cluster.create("t", {0: [2]})
    cluster.settle()
    cluster.kill(2)
    cluster.settle(10_000)
    state = cluster.state("t")
    assert state is not None and (state.leader, state.isr, state.leader_epoch) == (-1, [2], 1)
    cluster.restart(2)
    cluster.settle()
    state = cluster.state("t")
    assert state is not None and (state.leader, state.isr) == (2, [2])
    assert led_by(cluster, "t") == {0: 2}


def test_an_unclean_election_needs_the_topics_permission(cluster: Cluster) -> None:
    for topic in ("strict", "loose"):
        cluster.create(topic, {0: [2, 1]})
    cluster.settle()
    cluster.set("/config/topics/loose", b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}')
    cluster.kill(1)
    cluster.settle(10_000)
    cluster.kill(2)
    cluster.settle(10_000)
    cluster.restart(1)
    cluster.settle()
    strict, loose = cluster.state("strict"), cluster.state("loose")
    assert strict is not None and (strict.leader, strict.isr) == (-1, [2])
    assert loose is not None and (loose.leader, loose.isr, loose.leader_recovery_state) == (1, [1], 1)


def test_a_bounced_broker_is_told_everything_again(cluster: Cluster) -> None:
    """A new session so fast that the registration seems never to have gone."""
    cluster.create("t", {0: [2], 1: [2, 1]})
    cluster.settle()
    old = cluster.brokers[2].epoch
    cluster.zookeeper.expire(cluster.brokers[2].client)
    cluster.settle()
    new = cluster.brokers[2].epoch
    assert new > old and cluster.controller.context.brokers[2].epoch == new
    assert led_by(cluster, "t")[0] == 2
    assert cluster.brokers[2].requests[-1][1].broker_epoch == new


def test_changed_endpoints_reach_all_brokers(cluster: Cluster) -> None:
    data, _ = cluster.zookeeper.tree.get("/brokers/ids/2")
    cluster.set("/brokers/ids/2", data.replace(b"9002", b"9999"))
    cluster.settle()
    for broker in cluster.brokers:
        assert broker.metadata.brokers[2].endpoints["PLAINTEXT"].port == 9999


def test_a_broker_that_is_slow_to_answer_gets_all_requests_in_order(cluster: Cluster) -> None:
    cluster.brokers[2].up = False  # refuses connections, but its session lives
    cluster.create("t", {0: [2]})
    cluster.create("u", {0: [2]})
    cluster.settle()
    cluster.brokers[2].up = True
    cluster.settle()
    assert led_by(cluster, "t") == {0: 2} and led_by(cluster, "u") == {0: 2}
    assert sorted(cluster.brokers[2].metadata.topics) == ["t", "u"]


def test_a_failed_log_directory_moves_the_leader(cluster: Cluster) -> None:
    cluster.create("t", {0: [2, 1]})
    cluster.settle()
    cluster.brokers[2].refusals[TopicPartition("t", 0)] = ErrorCode.KAFKA_STORAGE_ERROR
    note = json_codec.encode({"version": 1, "broker": 2, "event": 1})
    cluster.scheduler.run(cluster.tool.create("/log_dir_event_notification/log_dir_event_", note, sequential=True))
    cluster.settle()
    state = cluster.state("t")
    assert state is not None and (state.leader, state.isr) == (1, [1])
    assert cluster.paths("/log_dir_event_notification") == ["/log_dir_event_notification"]
    assert cluster.brokers[0].metadata.topics["t"][0].offline_replicas == [2]


def test_old_brokers_get_old_versions(cluster: Cluster) -> None:
    """Kafka 2.4: StopReplica then has one delete flag for the whole message."""
    cluster.kill(2)
    cluster.settle(10_000)
    old = cluster.restart(2)
    old.versions = {4: (0, 4), 5: (0, 2), 6: (0, 6)}
    cluster.zookeeper.expire(old.client)
    cluster.settle()
    cluster.create("t", {0: [2], 1: [2, 0]})
    cluster.settle()
    assert led_by(cluster, "t") == {0: 2, 1: 2}
    cluster.delete("t")
    cluster.settle()
    assert cluster.paths("/brokers/topics/t") == [] and old.replicas == {}


# -- controlled shutdown --


def test_controlled_shutdown_moves_leaders_and_stops_followers(cluster: Cluster) -> None:
    cluster.create("t", {0: [2, 1], 1: [1, 2], 2: [2]})
    cluster.settle()
    remaining = cluster.scheduler.run(cluster.controller.handle_controlled_shutdown(2, cluster.brokers[2].epoch))
    cluster.settle()
    assert remaining == []
    zero, one, two = cluster.states("t", range(3))
    assert zero is not None and (zero.leader, zero.isr, zero.leader_epoch) == (1, [1], 1)
    assert one is not None and (one.leader, one.isr) == (1, [1])
    assert two is not None and (two.leader, two.isr) == (2, [2])
    assert TopicPartition("t", 1) not in cluster.brokers[2].replicas


@pytest.mark.parametrize(
    ("broker_id", "epoch", "code"),
    [(7, -1, ErrorCode.BROKER_NOT_AVAILABLE), (2, 0, ErrorCode.STALE_BROKER_EPOCH)],
)
def test_controlled_shutdown_is_refused(cluster: Cluster, broker_id: int, epoch: int, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as refusal:
        cluster.scheduler.run(cluster.controller.handle_controlled_shutdown(broker_id, epoch))
    assert refusal.value.code is code


def test_only_the_active_controller_answers_controlled_shutdown(cluster: Cluster) -> None:
    with pytest.raises(ApiError) as refusal:
        cluster.scheduler.run(cluster.brokers[1].controller.handle_controlled_shutdown(2, -1))
    assert refusal.value.code is ErrorCode.NOT_CONTROLLER
