"""Invariants that hold even when sessions expire, connections break, or processes stop in the middle of an action.

Each test runs under several seeds, which decide how long messages take and when the fault strikes.
"""

from collections.abc import Iterator, Sequence

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import events
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.client.client import Delete, Operation, ZnodeStat
from kafka_zk.registry.znodes import admin, controller
from kafka_zk.registry.znodes import topics as znodes
from tests.kafka_zk.broker.controller.world import Broker, Cluster, led_by

SEEDS = range(6)


@pytest.fixture(autouse=True)
def no_event_fails(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An event that ends with an unexpected exception is a bug, whatever the fault."""
    yield
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


def check(cluster: Cluster) -> None:
    """The faults are over and all brokers are up: there is one controller, and all brokers agree with ZooKeeper."""
    (active,) = cluster.active
    assert {broker.controller.controller_id for broker in cluster.brokers} == {active.broker_id}
    assert cluster.paths(admin.DELETE_TOPICS) == [admin.DELETE_TOPICS]
    names = cluster.scheduler.run(cluster.topics.names())
    assert active.controller.context.topics == set(names)
    for name in names:
        check_topic(cluster, name)
    for broker in cluster.brokers:
        assert sorted(broker.metadata.topics) == names
        assert broker.controller_epoch == active.controller.controller_epoch
        assert {tp.topic for tp in broker.replicas} <= set(names)


def check_topic(cluster: Cluster, name: str) -> None:
    for number, replicas in cluster.assignment(name).partitions.items():
        tp, state = TopicPartition(name, number), cluster.state(name, number)
        assert state is not None and state.leader in state.isr and set(state.isr) <= set(replicas)
        assert cluster.controller.context.leadership[tp] == state
        for broker in cluster.brokers:
            told = broker.metadata.topics[name][number]
            assert (told.leader, told.leader_epoch, told.zk_version) == (
                state.leader,
                state.leader_epoch,
                state.zk_version,
            )
            if broker.broker_id in replicas:
                held = broker.replicas[tp]
                assert (held.leader, held.leader_epoch) == (state.leader, state.leader_epoch)
                assert held.isr == state.isr or held.partition_epoch < state.zk_version  # by AlterPartition


def first(cluster: Cluster) -> Broker:
    return cluster.brokers[0]


ASSIGNMENT = {partition: [partition % 3, (partition + 1) % 3] for partition in range(40)}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_session_that_expires_during_creation_does_no_harm(seed: int) -> None:
    cluster = Cluster(seed=seed)
    cluster.create("t", ASSIGNMENT)
    cluster.settle(cluster.scheduler.random.uniform(0, 15))
    cluster.zookeeper.expire(first(cluster).client)
    cluster.settle(20_000)
    check(cluster)
    assert cluster.controller.controller_epoch == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_session_that_expires_during_deletion_does_no_harm(seed: int) -> None:
    cluster = Cluster(seed=seed)
    cluster.create("t", ASSIGNMENT)
    cluster.settle()
    cluster.delete("t")
    cluster.settle(cluster.scheduler.random.uniform(0, 40))
    cluster.zookeeper.expire(first(cluster).client)
    cluster.settle(20_000)
    check(cluster)
    assert cluster.paths("/brokers/topics") == ["/brokers/topics"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_controller_killed_during_creation_and_deletion_is_taken_over(seed: int) -> None:
    cluster = Cluster(seed=seed)
    cluster.create("old", ASSIGNMENT)
    cluster.settle()
    cluster.delete("old")
    cluster.create("new", ASSIGNMENT, "B" * 21 + "Q")
    cluster.settle(cluster.scheduler.random.uniform(0, 40))
    cluster.kill(0)
    cluster.settle(20_000)
    assert [broker.broker_id for broker in cluster.active] in ([1], [2])
    cluster.restart(0)
    cluster.settle(5000)
    check(cluster)
    assert cluster.scheduler.run(cluster.topics.names()) == ["new"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_paused_controller_cannot_write_after_another_was_elected(seed: int) -> None:
    """The session of the old controller survives (the claim was deleted by hand), so only the fence stops it."""
    cluster = Cluster(seed=seed)
    cluster.create("t", ASSIGNMENT)
    cluster.settle(cluster.scheduler.random.uniform(0, 10))
    old = first(cluster)
    old.client.pause()
    cluster.scheduler.run(cluster.tool.delete(controller.CONTROLLER))
    cluster.settle(1500)
    assert [b.broker_id for b in cluster.active if b is not old] in ([1], [2])
    by_new = {path: cluster.zookeeper.tree.get(path) for path in cluster.paths("/brokers/topics")}
    old.client.resume()
    cluster.settle(5000)
    assert not old.controller.is_active
    assert {path: cluster.zookeeper.tree.get(path) for path in cluster.paths("/brokers/topics")} == by_new
    check(cluster)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_controller_paused_beyond_its_session_resigns_when_it_wakes(seed: int) -> None:
    cluster = Cluster(seed=seed)
    old = first(cluster)
    cluster.create("t", ASSIGNMENT)
    cluster.settle(cluster.scheduler.random.uniform(0, 10))
    old.client.pause()
    cluster.settle(12_000)
    others = [broker for broker in cluster.active if broker is not old]
    assert len(others) == 1
    cluster.create("u", {0: [1], 1: [0, 1]}, "C" * 21 + "Q")
    old.client.resume()
    cluster.settle(10_000)
    assert cluster.active == others
    check(cluster)


@pytest.mark.parametrize("seed", SEEDS)
def test_lost_answers_are_found_out(seed: int) -> None:
    """Connections break all the time. The controller repeats nothing, omits nothing, and stays in office."""
    cluster = Cluster(seed=seed)
    cluster.zookeeper.loss_probability = 0.02
    for name in ("t", "u", "v"):
        create_despite_losses(cluster, name)
        cluster.settle(2000)
    cluster.zookeeper.loss_probability = 0.0
    cluster.settle(2000)
    check(cluster)
    assert {state.leader_epoch for state in cluster.states("t", ASSIGNMENT) if state} == {0}


def create_despite_losses(cluster: Cluster, name: str) -> None:
    """Create a topic with no faults injected, because the test is not about the administrator's own request."""
    probability, cluster.zookeeper.loss_probability = cluster.zookeeper.loss_probability, 0.0
    cluster.create(name, ASSIGNMENT, name * 21 + "Q")
    cluster.zookeeper.loss_probability = probability


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_written_while_the_connection_is_suspended(seed: int) -> None:
    cluster = Cluster(seed=seed)
    first(cluster).client.cut()
    cluster.settle(200)
    cluster.create("t", ASSIGNMENT)
    cluster.settle(1000)
    assert cluster.paths("/brokers/topics/t") == ["/brokers/topics/t"]
    first(cluster).client.heal()
    cluster.settle(2000)
    check(cluster)
    assert cluster.controller.controller_epoch == 1


def test_nothing_is_begun_without_the_lease() -> None:
    """The controller is cut off silently: from 2/3 of the session timeout on it must not even send requests to brokers.
    """
    cluster = Cluster()
    old = first(cluster)
    cluster.create("t", {0: [1, 2]})
    cluster.settle()
    old.client.cut(silent=True)
    cluster.settle(4100)
    for broker in cluster.brokers:
        broker.requests.clear()
    assert not old.client.lease_held()
    refused: list[object] = []
    asked = ensureDeferred(old.controller.handle_controlled_shutdown(1, -1))
    asked.addErrback(lambda failure: refused.append(failure.value))
    cluster.settle(5000)
    assert not refused
    old.client.heal()
    cluster.settle(5000)
    assert [str(error) for error in refused] == [str(ApiError(ErrorCode.NOT_CONTROLLER))]
    state = cluster.state("t")
    assert state is not None and state.leader == 1
    assert all(request.controller_epoch > 1 for b in cluster.brokers for _, request in b.requests)


def test_a_lease_that_lapsed_is_renewed_at_once() -> None:
    """After a pause the next heartbeat may be more than a second away, so the controller sends its own request."""
    cluster = Cluster()
    client = first(cluster).client
    client.has_heartbeats = False
    cluster.settle(4100)
    assert not client.lease_held()
    before = client.counts.total()
    cluster.create("t", {0: [1]})
    cluster.settle(100)
    assert led_by(cluster, "t") == {0: 1}
    assert client.counts["sync"] == 1 and client.counts.total() - before < 30


def lose_the_deletion_of(cluster: Cluster, topic: str, *, applied: bool) -> None:
    """Lose the response to the request that deletes the topic's znode."""
    client = first(cluster).client
    multi = client.multi

    def losing(operations: Sequence[Operation]) -> "Deferred[list[str | ZnodeStat | None]]":
        if any(isinstance(one, Delete) and one.path == znodes.topic_path(topic) for one in operations):
            client.lose_request(applied=applied)
            client.multi = multi  # type: ignore[method-assign]
        return multi(operations)

    client.multi = losing  # type: ignore[method-assign]


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_deletion_whose_answer_was_lost_is_completed(seed: int, applied: bool) -> None:
    cluster = Cluster(seed=seed)
    cluster.create("t", ASSIGNMENT)
    cluster.settle()
    lose_the_deletion_of(cluster, "t", applied=applied)
    cluster.delete("t")
    cluster.settle(2000)
    assert len(first(cluster).named(events.TopicDeleted)) == 1
    assert cluster.paths("/brokers/topics") == ["/brokers/topics"]
    check(cluster)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_topic_made_anew_is_not_deleted_by_a_deletion_that_is_repeated(seed: int) -> None:
    """The response to the deletion is lost, and the topic is created again before the controller can check."""
    cluster = Cluster(seed=seed)
    cluster.create("t", {0: [1], 1: [2]})
    cluster.settle()
    lose_the_deletion_of(cluster, "t", applied=True)
    cluster.delete("t")
    cluster.scheduler.run_until(lambda: cluster.paths("/brokers/topics/t") == [])
    new_id = "B" * 21 + "Q"
    cluster.scheduler.run(cluster.topics.create_topic("t", {0: [2]}, new_id, {"retention.ms": "7"}))
    cluster.settle(3000)
    assert cluster.assignment("t").topic_id == new_id
    assert cluster.zookeeper.tree.get("/config/topics/t")[0] == b'{"version":1,"config":{"retention.ms":"7"}}'
    assert led_by(cluster, "t") == {0: 2}
    check(cluster)


def test_two_processes_with_one_history(campaign_seed: int) -> None:
    """Topics, deletions, expiries, disconnects, pauses, kills and restarts in random order; afterwards the cluster
    heals.
    """
    cluster = Cluster(seed=campaign_seed)
    random = cluster.scheduler.random
    live: set[str] = set()
    for number in range(25):
        broker = random.choice(cluster.brokers)
        match random.randrange(8):
            case 0 | 1:
                live.add(f"t{number}")
                assignment = {p: random.sample(range(3), random.randint(1, 3)) for p in range(random.randint(1, 5))}
                cluster.create(f"t{number}", assignment, f"{number:021d}Q")
            case 2 if live:
                name = random.choice(sorted(live))
                live.remove(name)
                cluster.delete(name)
            case 3:
                cluster.zookeeper.expire(broker.client)
            case 4:
                broker.client.disconnect()
            case 5:
                broker.client.pause()
            case 6 if broker.up:
                cluster.kill(broker.broker_id)
            case 7:
                heal(cluster, broker)
        cluster.settle(random.uniform(0, 3000))
    for broker in list(cluster.brokers):
        heal(cluster, broker)
    cluster.settle(30_000)
    check(cluster)
    assert cluster.scheduler.run(cluster.topics.names()) == sorted(live)


def heal(cluster: Cluster, broker: Broker) -> None:
    if broker.up:
        broker.client.resume()
    else:
        cluster.restart(broker.broker_id)


def test_the_topic_id_of_a_running_topic_survives_an_old_tool_and_a_failover() -> None:
    cluster = Cluster()
    cluster.create("t", {0: [1]})
    cluster.settle()
    before = cluster.assignment("t").topic_id
    cluster.set("/brokers/topics/t", znodes.encode_assignment(znodes.TopicAssignment({0: [1]})))
    cluster.settle()
    cluster.scheduler.run(first(cluster).controller.shutdown())
    cluster.settle()
    assert cluster.assignment("t").topic_id == before == cluster.controller.context.topic_ids["t"]
