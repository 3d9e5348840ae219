"""The controller against the in-memory ZooKeeper: election, failover, and brokers that leave and return."""

from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import events
from kafka_zk.broker.controller.broker_changes import LEADERS_WITHIN_S
from kafka_zk.broker.controller.loop import TOLD_WITHIN_S
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.znodes import controller, feature, json_codec
from tests.kafka_zk.broker.controller.world import Cluster, Connection, led_by


def test_the_first_broker_becomes_the_controller_and_all_know(cluster: Cluster) -> None:
    assert [broker.controller.is_active for broker in cluster.brokers] == [True, False, False]
    assert [broker.controller.controller_id for broker in cluster.brokers] == [0, 0, 0]
    assert [broker.controller.controller_epoch for broker in cluster.brokers] == [1, -1, -1]
    assert [sorted(broker.metadata.brokers) for broker in cluster.brokers] == [[0, 1, 2]] * 3


def test_features_are_enabled_at_failover(cluster: Cluster) -> None:
    data, _ = cluster.zookeeper.tree.get(feature.FEATURE)
    assert feature.decode(data) == feature.FinalizedFeatures({}, feature.ENABLED)


def test_features_that_cannot_be_read_are_left_as_they_are(cluster: Cluster) -> None:
    cluster.set(feature.FEATURE, b"nonsense")
    cluster.zookeeper.expire(cluster.brokers[0].client)
    cluster.settle()
    assert [broker.broker_id for broker in cluster.active] != [0] and len(cluster.active) == 1
    assert cluster.zookeeper.tree.get(feature.FEATURE)[0] == b"nonsense"


def test_nothing_waits_for_the_controller_when_all_is_quiet(cluster: Cluster) -> None:
    cluster.create("t", {0: [1, 2]})
    cluster.settle()
    assert [len(broker.controller._queue) for broker in cluster.brokers] == [0, 0, 0]


def test_listeners_hear_of_every_controller() -> None:
    cluster = Cluster(start=False)
    heard: list[int] = []
    cluster.brokers[1].controller.on_controller_change(heard.append)
    for broker in cluster.brokers:
        cluster.scheduler.run(broker.start())
    cluster.settle()
    assert heard == [0]
    cluster.zookeeper.expire(cluster.brokers[0].client)
    cluster.settle()
    assert heard[:2] == [0, -1] and heard[-1] == cluster.active[0].broker_id


def test_shutdown_resigns_so_that_another_one_is_elected_at_once(cluster: Cluster) -> None:
    cluster.scheduler.run(cluster.brokers[0].controller.shutdown())
    cluster.settle(300)
    assert len(cluster.active) == 1 and cluster.active[0].broker_id != 0
    assert cluster.controller.controller_epoch == 2
    assert cluster.brokers[0].named(events.ControllerResigned)[0].cause == "shutdown"


def test_a_lost_session_ends_the_term_at_once_and_the_broker_stands_again(cluster: Cluster) -> None:
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


def test_a_killed_leader_is_replaced_from_the_isr(cluster: Cluster) -> None:
    cluster.create("t", {0: [2, 1, 0]})
    cluster.settle()
    cluster.kill(2)
    cluster.settle(10_000)
    state = cluster.state("t")
    assert state is not None and (state.leader, state.isr, state.leader_epoch) == (1, [1, 0], 1)
    assert led_by(cluster, "t") == {0: 1}
    assert all(sorted(broker.metadata.brokers) == [0, 1] for broker in cluster.brokers[:2])


def test_who_takes_over_tells_no_part_of_a_topic(cluster: Cluster) -> None:
    """A broker that has just started does not know the partitions whose leaders did not change."""
    cluster.create("t", {0: [0, 1, 2], 1: [1, 2, 0], 2: [2, 1, 0]})
    cluster.settle()
    cluster.kill(0)
    cluster.settle(10_000)
    for broker in cluster.brokers[1:]:
        told = [request for api_key, request in broker.requests if api_key is ApiKey.UPDATE_METADATA]
        first = next(request for request in told if request.controller_epoch == 2 and request.topic_states)
        (topic,) = first.topic_states
        assert {state.partition_index: state.leader for state in topic.partition_states} == {0: 1, 1: 1, 2: 2}


def test_observers_are_told_of_an_isr_that_a_dead_follower_left(cluster: Cluster) -> None:
    """``kafka-zk watch --cluster`` shows which broker wrote the state znode, and why."""
    cluster.create("t", {0: [0, 1, 2]})
    cluster.settle()
    cluster.kill(2)
    cluster.settle(10_000)
    [told] = cluster.brokers[0].named(events.IsrsChanged)
    [(tp, info)] = told.leadership
    assert (tp, info.leader, info.isr, info.leader_epoch) == (TopicPartition("t", 0), 0, [0, 1], 1)
    assert "broker" in told.cause


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
    """The new session begins so soon that the controller never sees the registration missing."""
    cluster.create("t", {0: [2], 1: [2, 1]})
    cluster.settle()
    old = cluster.brokers[2].epoch
    cluster.zookeeper.expire(cluster.brokers[2].client)
    cluster.settle()
    new = cluster.brokers[2].epoch
    assert new > old and cluster.controller.context.brokers[2].epoch == new
    assert led_by(cluster, "t")[0] == 2
    assert cluster.brokers[2].requests[-1][1].broker_epoch == new


def test_a_dead_leader_is_replaced_before_a_bounced_follower_leaves_the_isr() -> None:
    """The controller sees both changes together. It must neither write nor send that the dead broker still leads."""
    cluster = Cluster(broker_count=4)
    cluster.create("t", {0: [1, 2, 3]})
    cluster.settle()
    dead, bounced, witness = cluster.brokers[1:]
    witness.requests.clear()
    cluster.brokers[0].client.cut(silent=True)
    dead.up = False
    for broker in (dead, bounced):
        cluster.zookeeper.expire(broker.client)
    cluster.settle(500)
    cluster.brokers[0].client.heal()
    cluster.settle(3000)
    told = [
        state.leader
        for api_key, request in witness.requests
        if api_key is ApiKey.LEADER_AND_ISR
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    assert told and dead.broker_id not in told


def test_a_process_that_wakes_up_late_does_not_announce_its_election(cluster: Cluster) -> None:
    """The process was paused between its election and the response, and another controller has been elected since."""
    cluster.zookeeper.expire(cluster.brokers[0].client)
    tree = cluster.zookeeper.tree
    cluster.scheduler.run_until(lambda: tree.exists(controller.CONTROLLER) is None)
    cluster.scheduler.run_until(lambda: tree.exists(controller.CONTROLLER) is not None)
    paused = cluster.brokers[controller.decode(tree.get(controller.CONTROLLER)[0]).broker_id]
    before = len(paused.named(events.ControllerElected))
    paused.client.pause()
    cluster.settle(20_000)
    paused.client.resume()
    cluster.settle()
    assert len(cluster.active) == 1 and cluster.active[0] is not paused
    assert len(paused.named(events.ControllerElected)) == before


def test_changed_endpoints_reach_all_brokers(cluster: Cluster) -> None:
    data, _ = cluster.zookeeper.tree.get("/brokers/ids/2")
    assert data is not None
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
    """Kafka 2.4's StopReplica has one delete flag for the whole message."""
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


def test_a_broker_may_stop_when_its_successors_lead_and_everybody_knows(cluster: Cluster) -> None:
    """All brokers know the new leader when the response is sent, so redirected clients find it immediately."""
    cluster.create("t", {number: [2, 1, 0] for number in range(300)})
    cluster.settle()
    assert cluster.scheduler.run(cluster.controller.handle_controlled_shutdown(2, cluster.brokers[2].epoch)) == []
    assert led_by(cluster, "t") == dict.fromkeys(range(300), 1)
    for broker in cluster.brokers:
        assert {partition.leader for partition in broker.metadata.topics["t"].values()} == {1}


@pytest.mark.parametrize("is_clean", [True, False], ids=["stop", "death"])
@pytest.mark.parametrize("silent", [0, 1])
def test_isrs_shrink_when_the_controllers_own_broker_leads_or_after_a_while(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, is_clean: bool, silent: int
) -> None:
    """The controller does not wait for another broker's response: its failure may still be queued."""
    cluster.create("t", {0: [2, silent], 1: [1 - silent, 2]})
    cluster.settle()

    def arrive(connection: Connection, api_key: ApiKey, version: int, body: bytes, answered: object) -> None:
        if connection._broker.broker_id != silent:
            reached(connection, api_key, version, body, answered)

    reached: Any = Connection._arrive
    monkeypatch.setattr(Connection, "_arrive", arrive)
    if is_clean:
        cluster.scheduler.start(cluster.controller.handle_controlled_shutdown(2, cluster.brokers[2].epoch))
    else:
        cluster.kill(2)

    def isr_of(partition: int) -> list[int]:
        state = cluster.state("t", partition)
        assert state is not None
        return list(state.isr)

    cluster.scheduler.run_until(lambda: isr_of(0) == [silent])
    cluster.settle(LEADERS_WITHIN_S * 1000 - 100)
    assert isr_of(1) == ([1, 2] if silent == 0 else [0])
    cluster.settle(200)
    assert isr_of(1) == [1 - silent]


@pytest.mark.parametrize("own", [True, False], ids=["own broker", "the other one"])
def test_a_new_controller_shrinks_isrs_when_its_own_broker_leads_or_after_a_while(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    cluster.create("t", {0: [0, 1], 1: [1, 0]})
    cluster.settle()

    def arrive(connection: Connection, *request: Any) -> None:
        if connection._broker.controller.is_active is not own:
            reached(connection, *request)

    reached: Any = Connection._arrive
    monkeypatch.setattr(Connection, "_arrive", arrive)
    cluster.kill(0)

    def isr_of(partition: int) -> list[int]:
        state = cluster.state("t", partition)
        assert state is not None
        return list(state.isr)

    cluster.scheduler.run_until(lambda: isr_of(0) == [1])  # seen at the next event, perhaps half a second later
    cluster.settle(LEADERS_WITHIN_S * 500)
    assert isr_of(1) == ([1, 0] if own else [1])
    cluster.settle(LEADERS_WITHIN_S * 600)
    assert isr_of(1) == [1]


def test_a_broker_that_does_not_answer_delays_no_stop_for_long(cluster: Cluster) -> None:
    cluster.create("t", {0: [2, 1]})
    cluster.settle()
    cluster.brokers[1].up = False  # the broker does not respond, but its session stays alive
    before_s = cluster.scheduler.clock.seconds()
    assert cluster.scheduler.run(cluster.controller.handle_controlled_shutdown(2, cluster.brokers[2].epoch)) == []
    assert cluster.scheduler.clock.seconds() - before_s < TOLD_WITHIN_S + 0.1


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
