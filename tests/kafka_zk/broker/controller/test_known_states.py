"""A controller decides by the partition states that it knows and does not read them again. The known states equal the
stored ones; where one does not, the controller makes no decision based on it.
"""

from contextlib import suppress
from random import Random

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.context import LeadershipInfo, ReplicaAssignment, assignment_of
from kafka_zk.broker.controller.operations import AlterPartitionReassignments, ElectLeaders
from kafka_zk.protocol.errors import ApiError
from kafka_zk.registry.client.errors import NodeExists, NoNode
from kafka_zk.registry.isr import notify_isr_change
from kafka_zk.registry.znodes import topics as znodes
from tests.kafka_zk.broker.controller.world import Cluster

Assignments = dict[str, dict[int, ReplicaAssignment]]
Stored = tuple[set[str], dict[str, str | None], Assignments, dict[TopicPartition, LeadershipInfo]]

HISTORIES = 6
STEPS = 12


@pytest.mark.parametrize("partitions", [1, 300])  # the partition alone in its multi, and with many others
def test_a_leader_is_elected_from_the_isr_in_zookeeper(cluster: Cluster, partitions: int) -> None:
    """The leader wrote a smaller ISR without a notification. The controller must not elect the removed replica."""
    cluster.create("t", {number: [2, 1, 0] for number in range(partitions)})
    cluster.settle()
    behind = partitions // 2
    info = cluster.state("t", behind)
    assert info is not None
    info.isr[:] = [2, 0]
    cluster.set(znodes.state_path("t", behind), znodes.encode_state(info))
    cluster.kill(2)
    cluster.settle(10_000)
    states = cluster.states("t", range(partitions))
    led = {number: (state and state.leader, state and state.isr) for number, state in enumerate(states)}
    assert led.pop(behind) == (0, [0])
    assert all(standing == (1, [1, 0]) for standing in led.values())


def test_a_dead_replica_leaves_an_isr_that_its_leader_had_enlarged(cluster: Cluster) -> None:
    """The controller knows the smaller ISR when the replica dies, and learns of the larger ISR only afterwards."""
    cluster.create("t", {0: [0, 1, 2]})
    cluster.settle()
    info = cluster.state("t", 0)
    assert info is not None and (info.leader, info.isr) == (0, [0, 1, 2])
    tp = TopicPartition("t", 0)
    for isr in [0, 1], [0, 1, 2]:
        info.isr[:] = isr
        cluster.set(znodes.state_path("t", 0), znodes.encode_state(info))
        if isr == [0, 1]:
            cluster.scheduler.run(notify_isr_change(cluster.tool, [tp]))
            cluster.settle()
    cluster.kill(2)
    cluster.settle(10_000)
    cluster.scheduler.run(notify_isr_change(cluster.tool, [tp]))
    cluster.settle()
    state = cluster.state("t", 0)
    assert state is not None and (state.leader, state.isr) == (0, [0, 1])
    assert cluster.brokers[1].replicas[tp].leader_epoch == state.leader_epoch > info.leader_epoch


def _stored(cluster: Cluster) -> Stored:
    """The state that a newly elected controller would read."""
    run = cluster.scheduler.run
    names = run(cluster.topics.names())
    stored = run(cluster.topics.assignments(names))
    assignments = {
        topic: {number: assignment_of(assignment, number) for number in assignment.partitions}
        for topic, assignment in stored.items()
    }
    tps = [TopicPartition(topic, number) for topic, numbers in assignments.items() for number in numbers]
    states = run(cluster.topics.states(tps))
    ids = {topic: assignment.topic_id for topic, assignment in stored.items()}
    return set(names), ids, assignments, states


class _History:
    """Random changes by administrators, brokers and leaders."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = Cluster(4, seed)
        self.untold: set[TopicPartition] = set()

    def step(self) -> None:
        often = (self._create, self._restart, self._change_isr)
        seldom = (self._grow, self._delete, self._kill, self._elect, self._reassign, self._stop, self._resign)
        change = self.random.choice((*often, *often, *seldom))
        with suppress(ApiError, NoNode, NodeExists):  # perhaps the change is impossible now
            change()
        self.cluster.settle(self.random.choice((0.5, 5, 50, 8000)))

    def finish(self) -> None:
        for broker_id in self._down():
            self.cluster.restart(broker_id)
        self.cluster.settle(15_000)

    def _down(self) -> list[int]:
        return [broker.broker_id for broker in self.cluster.brokers if not broker.up]

    def _topic(self) -> str:
        return f"t{self.random.randrange(4)}"

    def _tps(self) -> list[TopicPartition]:
        topic = self._topic()
        return [TopicPartition(topic, number) for number in range(self.random.randrange(1, 6))]

    def _replicas(self) -> list[int]:
        return self.random.sample(range(4), self.random.randrange(1, 4))

    def _create(self) -> None:
        topic_id = f"{self.random.randrange(10**9):021d}Q"
        self.cluster.create(self._topic(), {n: self._replicas() for n in range(self.random.randrange(1, 6))}, topic_id)

    def _grow(self) -> None:
        self.cluster.scheduler.run(self.cluster.topics.add_partitions(self._topic(), {6: self._replicas()}))

    def _delete(self) -> None:
        topic = self._topic()
        if self.cluster.scheduler.run(self.cluster.topics.exists(topic)):
            self.cluster.delete(topic)

    def _kill(self) -> None:
        if len(self._down()) < 2:
            self.cluster.kill(self.random.choice([b.broker_id for b in self.cluster.brokers if b.up]))

    def _restart(self) -> None:
        if self._down():
            self.cluster.restart(self.random.choice(self._down()))

    def _change_isr(self) -> None:
        """A leader before Kafka 2.7 writes the state itself and then notifies the controller, unless it is killed
        first.
        """
        for tp in self._tps():
            info = self.cluster.state(*tp)
            exists = self.cluster.scheduler.run(self.cluster.topics.exists(tp.topic))
            if info is None or info.leader < 0 or not exists:
                continue
            others = [broker.broker_id for broker in self.cluster.brokers if broker.broker_id != info.leader]
            replicas = self.cluster.assignment(tp.topic).partitions.get(tp.partition, [])
            kept = [one for one in others if one in replicas and self.random.random() < 0.6]
            info.isr[:] = [info.leader, *kept]
            self.cluster.set(znodes.state_path(*tp), znodes.encode_state(info))
            if self.random.random() < 0.8:
                self.cluster.scheduler.run(notify_isr_change(self.cluster.tool, [tp]))
            else:
                self.untold.add(tp)

    def _elect(self) -> None:
        if self.cluster.active:
            unclean = self.random.random() < 0.3
            self.cluster.scheduler.run(self.cluster.active[0].controller.carry_out(ElectLeaders(self._tps(), unclean)))

    def _reassign(self) -> None:
        if self.cluster.active:
            targets = {tp: self._replicas() for tp in self._tps()}
            self.cluster.scheduler.run(self.cluster.active[0].controller.carry_out(AlterPartitionReassignments(targets)))

    def _stop(self) -> None:
        if self.cluster.active and not self._down():
            broker = self.random.choice(self.cluster.brokers)
            active = self.cluster.active[0].controller
            self.cluster.scheduler.run(active.handle_controlled_shutdown(broker.broker_id, broker.epoch))
            self.cluster.kill(broker.broker_id)

    def _resign(self) -> None:
        if self.cluster.active and not self._down():
            broker = self.cluster.active[0]
            self.cluster.scheduler.run(broker.controller.shutdown())
            self.cluster.kill(broker.broker_id)


def check(seed: int) -> None:
    """Run one history, then compare: the controller's state must equal the state that a newly elected controller would
    read. Only an ISR that changed without a notification may be out of date.
    """
    history = _History(seed)
    for _ in range(STEPS):
        history.step()
    history.finish()
    cluster = history.cluster
    context = cluster.controller.context
    names, ids, assignments, states = _stored(cluster)
    assert context.topics == names, f"seed {seed}"
    assert {topic: topic_id for topic, topic_id in context.topic_ids.items() if topic in names} == ids, f"seed {seed}"
    assert {topic: known for topic, known in context.assignments.items() if known} == assignments, f"seed {seed}"
    assert context.leadership.keys() == states.keys(), f"seed {seed}"
    for tp, info in context.leadership.items():
        is_older = tp in history.untold and info.zk_version < states[tp].zk_version
        assert info == states[tp] or is_older, f"seed {seed}"


def test_what_a_controller_knows_is_what_a_fresh_one_would_read(campaign_seed: int) -> None:
    """Random histories contain creations, growth, deletions, moves, deaths, and ISRs that leaders write themselves."""
    for number in range(HISTORIES):
        check(campaign_seed * HISTORIES + number)
